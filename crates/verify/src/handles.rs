//! The form of handles and their order.
//!
//! WINDOWS: observed. A local handle ends in six zeroes, a global one in 2, and one table per
//! process serves all kinds, first in, first out.

use crate::handle_history::{FRESH_HANDLES, REUSE_DISTANCE, STEP};
use crate::rule::{Place, Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, Hex, RuleId, Text};

/// The rules on handles.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["handle.published"], RuleId::HANDLE_FORM_001, local_form),
    Rule::on(&["handle.shared"], RuleId::HANDLE_FORM_002, global_form),
    Rule::on(&["handle.reserved"], RuleId::HANDLE_FORM_003, handles_rise),
    Rule::on(&["handle.reserved"], RuleId::HANDLE_FORM_004, closed_slot_not_reused),
    Rule::on(&["leave"], RuleId::HANDLE_FORM_005, failed_call_uses_no_handle),
];

const TOP_BITS: u32 = 0xc000_0000;
const LOW_BITS: u32 = STEP - 1;

fn local_form(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::HandlePublished { handle, of: to } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let kept = handle.0 & LOW_BITS == 0 && handle.0 & TOP_BITS != 0;
    Verdict::holds_if(kept, Component::Kernel, CurrentEntry(event, shadows), || {
        format!(
            "{to} was given handle {handle}, but a local one ends in six zero bits and has one \
             of the top two set"
        )
    })
}

fn global_form(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::HandleShared { handle, of } = &event.kind else { return Verdict::NotApplicable };
    let kept = handle.0 & LOW_BITS == 2 && handle.0 & TOP_BITS != 0;
    Verdict::holds_if(kept, Component::Kernel, CurrentEntry(event, shadows), || {
        format!(
            "{of} was given global handle {handle}, but its low six bits are not 2 with one of \
             the top two set"
        )
    })
}

fn handles_rise(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::HandleReserved { handle }, Some(process)) =
        (&event.kind, shadows.process(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    let Some(expected) = process.handles.expected() else { return Verdict::NotApplicable };
    Verdict::holds_if(handle.0 == expected, Component::Kernel, CurrentEntry(event, shadows), || {
        let taken = process.handles.fresh_count;
        format!(
            "{} took handle {handle} after {taken} handles, but the next one is {} (up to {FRESH_HANDLES} \
             they rise by {STEP:#x})",
            event.subject,
            Hex(expected)
        )
    })
}

fn closed_slot_not_reused(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::HandleReserved { handle }, Some(process)) =
        (&event.kind, shadows.process(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    if !process.handles.any_closed() {
        return Verdict::NotApplicable;
    }
    let rested = process.handles.handles_since_closed(handle.0);
    let kept = rested.is_none_or(|taken| taken >= REUSE_DISTANCE);
    Verdict::holds_if(kept, Component::Kernel, CurrentEntry(event, shadows), || {
        let rested = rested.unwrap_or_default();
        format!(
            "{} took handle {handle}, whose slot was closed, {rested} handles later, \
             but a closed slot rests for {REUSE_DISTANCE}",
            event.subject
        )
    })
}

fn failed_call_uses_no_handle(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::Leave { call, status } = &event.kind else { return Verdict::NotApplicable };
    if status.0 >> 30 != 3 {
        return Verdict::NotApplicable;
    }
    let entered = shadows.process(event.subject).and_then(|process| process.call(event.thread));
    let Some(entered) = entered else { return Verdict::NotApplicable };
    let kept = entered.published.or(entered.reserved.first().copied());
    Verdict::holds_if(kept.is_none(), Component::Kernel, call, || {
        let handle = Hex(kept.unwrap_or_default());
        format!(
            "{call} of {} failed with {status} and kept handle {handle}, but a failed call uses \
             up none",
            event.subject
        )
    })
}

/// The entry point of the client call in which an event of a process happened.
struct CurrentEntry<'a>(&'a Event, &'a Shadows);

impl Place for CurrentEntry<'_> {
    fn into_text(self) -> Text {
        let Self(event, shadows) = self;
        let process = shadows.process(event.subject);
        let call = process.and_then(|process| process.call(event.thread));
        call.map_or("handle table".into(), |client_call| client_call.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    #[test]
    fn a_local_handle_ends_in_zeroes() {
        let id = RuleId::HANDLE_FORM_001;
        assert!(
            messages(id, "process:1 handle.published handle=0x40000040 of=device:1").is_empty()
        );
        for bad in ["0x00000040", "0x40000002", "0x00000000"] {
            let line = format!("process:1 handle.published handle={bad} of=device:1");
            assert_eq!(messages(id, &line).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_global_handle_ends_in_two() {
        let id = RuleId::HANDLE_FORM_002;
        assert!(messages(id, "process:1 handle.shared handle=0xc0000042 of=resource:1").is_empty());
        for bad in ["0x40000040", "0x00000002", "0x40000003"] {
            let line = format!("process:1 handle.shared handle={bad} of=resource:1");
            assert_eq!(messages(id, &line).len(), 1, "{bad}");
        }
    }

    const TWO: &str = "process:1 handle.reserved handle=0x40000000
        process:1 handle.reserved handle=0x40000040\n";

    #[test]
    fn handles_rise_and_a_returned_one_is_next() {
        let id = RuleId::HANDLE_FORM_003;
        assert_eq!(
            (messages(id, TWO).len(), judge_count(id, TWO)),
            (0, 1),
            "the first is free to choose"
        );
        let back = "process:1 handle.cancelled handle=0x40000000
            process:1 handle.reserved handle=0x40000000
            process:1 handle.reserved handle=0x40000080";
        assert!(messages(id, &format!("{TWO}{back}")).is_empty(), "another thread took the second");
        let gap = format!("{TWO}process:1 handle.reserved handle=0x400000c0");
        assert_eq!(
            messages(id, &gap),
            ["process 1 took handle 0x400000c0 after 2 handles, but the next one is 0x40000080 \
              (up to 896 they rise by 0x40)"]
        );
    }

    #[test]
    fn an_old_table_may_come_round() {
        let handles = (0..896_u32).map(|index| 0x4000_0000 + index * 64).chain([0x8000_0000]);
        let line = |handle| format!("process:1 handle.reserved handle={handle:#010x}\n");
        let script: String = handles.map(line).collect();
        assert!(messages(RuleId::HANDLE_FORM_003, &script).is_empty());
        assert_eq!(judge_count(RuleId::HANDLE_FORM_003, &script), 895);
    }

    #[test]
    fn a_closed_slot_rests() {
        let id = RuleId::HANDLE_FORM_004;
        let close = "process:1 handle.closed handle=0x40000000 of=device:1\n";
        let again = "process:1 handle.reserved handle=0x80000000";
        assert_eq!(messages(id, &format!("{TWO}{close}{again}")).len(), 1);
        let next = "process:1 handle.reserved handle=0x40000080";
        let script = format!("{TWO}{close}{next}");
        assert_eq!((messages(id, &script).len(), judge_count(id, &script)), (0, 1));
        let many = "process:1 handle.reserved handle=0x40000080\n".repeat(128);
        assert!(messages(id, &format!("{TWO}{close}{many}{again}")).is_empty(), "it has rested");
    }

    #[test]
    fn a_failed_call_uses_up_no_handle() {
        let id = RuleId::HANDLE_FORM_005;
        let call = |middle: &str, status: &str| {
            format!(
                "process:1 enter call=Create
                process:1 handle.reserved handle=0x40000000
                t2 process:1 enter call=Other
                t2 process:1 handle.reserved handle=0x40000040
                {middle}
                process:1 leave call=Create status={status}"
            )
        };
        let back = "process:1 handle.cancelled handle=0x40000000";
        let given = "process:1 handle.published handle=0x40000000 of=device:1";
        assert!(
            messages(id, &call(back, "0xc0000017")).is_empty(),
            "the other thread is not asked"
        );
        assert!(messages(id, &call(given, "0x00000000")).is_empty());
        assert_eq!(judge_count(id, &call(given, "0x00000000")), 0, "it did not fail");
        let kept = "Create of process 1 failed with 0xc0000017 and kept handle 0x40000000, \
                    but a failed call uses up none";
        assert_eq!(messages(id, &call(given, "0xc0000017")), [kept]);
        assert_eq!(messages(id, &call("process:1 process.opened", "0xc0000017")), [kept]);
    }
}
