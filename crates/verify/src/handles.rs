//! How handles look and follow each other.
//!
//! WINDOWS: observed. A local handle ends in six zeroes, a global one in 2, and one table per
//! process serves all kinds, first in, first out.

use crate::names::{FRESH, REST, STEP};
use crate::rule::{Rule, Verdict};
use crate::shadow::{Process, Shadows};
use flight::{Event, Hex, RuleId, Text, What, Who};

/// The rules on handles.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["name.given"], RuleId::HANDLE_FORM_001, local_form),
    Rule::on(&["name.shared"], RuleId::HANDLE_FORM_002, global_form),
    Rule::on(&["name.reserved"], RuleId::HANDLE_FORM_003, rises),
    Rule::on(&["name.reserved"], RuleId::HANDLE_FORM_004, rests),
    Rule::on(&["leave"], RuleId::HANDLE_FORM_005, failure_uses_none),
];

const TOP_BITS: u32 = 0xc000_0000;
const LOW_BITS: u32 = STEP - 1;

fn local_form(event: &Event, shadows: &Shadows) -> Verdict {
    let What::NameGiven { handle, to } = &event.what else { return Verdict::Aside };
    let kept = handle.0 & LOW_BITS == 0 && handle.0 & TOP_BITS != 0;
    Verdict::kept_if(kept, Who::Kernel, place(event, shadows.process(event.subject)), || {
        format!(
            "{to} was given handle {handle}, but a local one ends in six zero bits and has one \
             of the top two set"
        )
    })
}

fn global_form(event: &Event, shadows: &Shadows) -> Verdict {
    let What::NameShared { handle, of } = &event.what else { return Verdict::Aside };
    let kept = handle.0 & LOW_BITS == 2 && handle.0 & TOP_BITS != 0;
    Verdict::kept_if(kept, Who::Kernel, place(event, shadows.process(event.subject)), || {
        format!(
            "{of} was given global handle {handle}, but its low six bits are not 2 with one of \
             the top two set"
        )
    })
}

fn rises(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::NameReserved { handle }, Some(process)) =
        (&event.what, shadows.process(event.subject))
    else {
        return Verdict::Aside;
    };
    let Some(expected) = process.names.expected() else { return Verdict::Aside };
    Verdict::kept_if(handle.0 == expected, Who::Kernel, place(event, Some(process)), || {
        let taken = process.names.fresh;
        format!(
            "{} took handle {handle} after {taken} names, but the next one is {} (up to {FRESH} \
             they rise by {STEP:#x})",
            event.subject,
            Hex(expected)
        )
    })
}

fn rests(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::NameReserved { handle }, Some(process)) =
        (&event.what, shadows.process(event.subject))
    else {
        return Verdict::Aside;
    };
    if !process.names.any_closed() {
        return Verdict::Aside;
    }
    let rested = process.names.rested(handle.0);
    let kept = rested.is_none_or(|taken| taken >= REST);
    Verdict::kept_if(kept, Who::Kernel, place(event, Some(process)), || {
        let rested = rested.unwrap_or_default();
        format!(
            "{} took handle {handle}, whose slot was closed, {rested} names later, \
             but a closed slot rests for {REST}",
            event.subject
        )
    })
}

fn failure_uses_none(event: &Event, shadows: &Shadows) -> Verdict {
    let What::Leave { call, status } = &event.what else { return Verdict::Aside };
    let entered = shadows.process(event.subject).and_then(|it| it.call(event.thread));
    let Some(entered) = entered.filter(|_| status.0 >> 30 == 3) else { return Verdict::Aside };
    let kept = entered.given.or(entered.reserved.first().copied());
    Verdict::kept_if(kept.is_none(), Who::Kernel, call.clone(), || {
        let handle = Hex(kept.unwrap_or_default());
        format!(
            "{call} of {} failed with {status} and kept handle {handle}, but a failed call uses \
             up none",
            event.subject
        )
    })
}

/// The client call this happened in.
fn place(event: &Event, process: Option<&Process>) -> Text {
    let call = process.and_then(|it| it.call(event.thread));
    call.map_or("handle table".into(), |it| it.name.clone())
}

#[cfg(test)]
mod tests {
    use crate::script::{judged, said};
    use flight::RuleId;

    #[test]
    fn a_local_handle_ends_in_zeroes() {
        let id = RuleId::HANDLE_FORM_001;
        assert!(said(id, "process:1 name.given handle=0x40000040 to=device:1").is_empty());
        for bad in ["0x00000040", "0x40000002", "0x00000000"] {
            let line = format!("process:1 name.given handle={bad} to=device:1");
            assert_eq!(said(id, &line).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_global_handle_ends_in_two() {
        let id = RuleId::HANDLE_FORM_002;
        assert!(said(id, "process:1 name.shared handle=0xc0000042 of=resource:1").is_empty());
        for bad in ["0x40000040", "0x00000002", "0x40000003"] {
            let line = format!("process:1 name.shared handle={bad} of=resource:1");
            assert_eq!(said(id, &line).len(), 1, "{bad}");
        }
    }

    const TWO: &str = "process:1 name.reserved handle=0x40000000
        process:1 name.reserved handle=0x40000040\n";

    #[test]
    fn handles_rise_and_a_returned_one_is_next() {
        let id = RuleId::HANDLE_FORM_003;
        assert_eq!((said(id, TWO).len(), judged(id, TWO)), (0, 1), "the first is free to choose");
        let back = "process:1 name.returned handle=0x40000000
            process:1 name.reserved handle=0x40000000
            process:1 name.reserved handle=0x40000080";
        assert!(said(id, &format!("{TWO}{back}")).is_empty(), "another thread took the second");
        let gap = format!("{TWO}process:1 name.reserved handle=0x400000c0");
        assert_eq!(
            said(id, &gap),
            ["process 1 took handle 0x400000c0 after 2 names, but the next one is 0x40000080 \
              (up to 896 they rise by 0x40)"]
        );
    }

    #[test]
    fn an_old_table_may_come_round() {
        let handles = (0..896_u32).map(|index| 0x4000_0000 + index * 64).chain([0x8000_0000]);
        let line = |handle| format!("process:1 name.reserved handle={handle:#010x}\n");
        let script: String = handles.map(line).collect();
        assert!(said(RuleId::HANDLE_FORM_003, &script).is_empty());
        assert_eq!(judged(RuleId::HANDLE_FORM_003, &script), 895);
    }

    #[test]
    fn a_closed_slot_rests() {
        let id = RuleId::HANDLE_FORM_004;
        let close = "process:1 name.closed handle=0x40000000 of=device:1\n";
        let again = "process:1 name.reserved handle=0x80000000";
        assert_eq!(said(id, &format!("{TWO}{close}{again}")).len(), 1);
        let next = "process:1 name.reserved handle=0x40000080";
        let script = format!("{TWO}{close}{next}");
        assert_eq!((said(id, &script).len(), judged(id, &script)), (0, 1));
        let many = "process:1 name.reserved handle=0x40000080\n".repeat(128);
        assert!(said(id, &format!("{TWO}{close}{many}{again}")).is_empty(), "it has rested");
    }

    #[test]
    fn a_failed_call_uses_up_no_handle() {
        let id = RuleId::HANDLE_FORM_005;
        let call = |middle: &str, status: &str| {
            format!(
                "process:1 enter call=Create
                process:1 name.reserved handle=0x40000000
                t2 process:1 enter call=Other
                t2 process:1 name.reserved handle=0x40000040
                {middle}
                process:1 leave call=Create status={status}"
            )
        };
        let back = "process:1 name.returned handle=0x40000000";
        let given = "process:1 name.given handle=0x40000000 to=device:1";
        assert!(said(id, &call(back, "0xc0000017")).is_empty(), "the other thread is not asked");
        assert!(said(id, &call(given, "0x00000000")).is_empty());
        assert_eq!(judged(id, &call(given, "0x00000000")), 0, "it did not fail");
        let kept = "Create of process 1 failed with 0xc0000017 and kept handle 0x40000000, \
                    but a failed call uses up none";
        assert_eq!(said(id, &call(given, "0xc0000017")), [kept]);
        assert_eq!(said(id, &call("process:1 process.opened", "0xc0000017")), [kept]);
    }
}
