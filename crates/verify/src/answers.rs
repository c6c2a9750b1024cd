//! What a driver answers: a status the DDI knows, and an answer at all.

use crate::ddi;
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadow;
use flight::{Event, RuleId, What, Who};

/// The rules on answers.
pub(crate) static RULES: [Rule; 2] = [
    Rule { id: RuleId::GATE_STATUS_002, on: &["ddi.return"], check: legal },
    Rule { id: RuleId::WT_CRASH_001, on: &["ddi.return", "thread.runaway"], check: returns },
];

fn legal(event: &Event, _shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::DdiReturn { name, answer, legal } = &event.what else { return Verdict::Aside };
    // What builds paging commands has a rule of its own, and so has what hears of removals.
    let own = ["DxgkDdiBuildPagingBuffer", ddi::PULLED_OUT].contains(&&**name);
    if answer == "crashed" || answer == "absent" || own {
        return Verdict::Aside;
    }
    Verdict::kept_if(*legal, Who::Driver, name.clone(), || {
        format!("{name} answered {answer}, but that is not among the answers it may give")
    })
}

fn returns(event: &Event, _shadow: &Shadow, _owner: &Shadow) -> Verdict {
    if let What::ThreadRunaway { name, turns } = &event.what {
        let message = format!(
            "{name} took {turns} turns while no client ran, and would go on: the driver asks for \
             its DPC again and again, or its hardware is never idle"
        );
        return Verdict::Broken(Who::Driver, name.clone(), message);
    }
    let What::DdiReturn { name, answer, .. } = &event.what else { return Verdict::Aside };
    Verdict::kept_if(answer != "crashed", Who::Driver, name.clone(), || {
        format!("{name} crashed, but a driver returns from every call")
    })
}

/// A bug check that an answer of a DDI leads to.
pub(crate) struct Stop {
    pub(crate) ddi: &'static str,
    pub(crate) code: u32,
    pub(crate) parameter: u32,
}

/// What Windows does when a DDI answers what it may not, for the DDIs of which that is known.
///
/// WINDOWS: observed, where the list of answers is closed.
pub(crate) const STOPS: &[Stop] = &[
    Stop { ddi: "DxgkDdiSubmitCommand", code: 0x119, parameter: 0x2 },
    Stop { ddi: "DxgkDdiSubmitCommandVirtual", code: 0x119, parameter: 0x2 },
    Stop { ddi: "DxgkDdiPatch", code: 0x119, parameter: 0x3 },
    Stop { ddi: "DxgkDdiBuildPagingBuffer", code: 0x10E, parameter: 0xB },
];

/// The same in words. `None`: not known.
pub(crate) fn windows(ddi: &str) -> Option<String> {
    let stop = STOPS.iter().find(|it| it.ddi == ddi)?;
    Some(format!("stops with bug check 0x{:X} (0x{:X})", stop.code, stop.parameter))
}

#[cfg(test)]
mod tests {
    use crate::script::{judged, said};
    use flight::RuleId;

    fn answer(answer: &str, legal: bool) -> String {
        format!("call:1 ddi.return name=DxgkDdiOpenAllocation answer={answer} legal={legal}")
    }

    #[test]
    fn what_windows_does_is_said_where_it_is_known() {
        let said = super::windows("DxgkDdiBuildPagingBuffer");
        assert_eq!(said.as_deref(), Some("stops with bug check 0x10E (0xB)"));
        assert_eq!(super::windows("DxgkDdiOpenAllocation"), None);
    }

    #[test]
    fn a_legal_answer_is_quiet() {
        for id in [RuleId::GATE_STATUS_002, RuleId::WT_CRASH_001] {
            assert!(said(id, &answer("ok", true)).is_empty());
            assert_eq!(judged(id, &answer("no-memory", true)), 1);
        }
    }

    #[test]
    fn another_answer_and_none_are_two_things() {
        let strange = answer("0xc0000022", false);
        let no = "DxgkDdiOpenAllocation answered 0xc0000022, but that is not among the answers \
                  it may give";
        assert_eq!(said(RuleId::GATE_STATUS_002, &strange), [no]);
        assert!(said(RuleId::WT_CRASH_001, &strange).is_empty());
        let crashed = answer("crashed", false);
        let fell = "DxgkDdiOpenAllocation crashed, but a driver returns from every call";
        assert_eq!(said(RuleId::WT_CRASH_001, &crashed), [fell]);
        assert_eq!(judged(RuleId::GATE_STATUS_002, &crashed), 0);
        assert_eq!(judged(RuleId::GATE_STATUS_002, &answer("absent", false)), 0);
    }
}
