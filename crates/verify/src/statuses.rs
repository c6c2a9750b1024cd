//! What a driver returns: a status that the DDI allows, and that it returns at all.

use crate::ddi;
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, RuleId};

const SUBMIT_COMMAND: &str = "DxgkDdiSubmitCommand";

/// The rules on results.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ddi.return"], RuleId::KMD_SUBMIT_005, submit_succeeds).of(&[SUBMIT_COMMAND]),
    Rule::on(&["ddi.return"], RuleId::KMD_SUBMIT_013, submit_virtual_status).of(&[ddi::SUBMIT]),
    Rule::on(&["ddi.return"], RuleId::GATE_STATUS_002, status_is_legal).except(&[
        "DxgkDdiBuildPagingBuffer",
        "DxgkDdiPatch",
        ddi::SURPRISE_REMOVAL,
        SUBMIT_COMMAND,
        ddi::SUBMIT,
        "DxgkDdiPreemptCommand",
        "DxgkDdiCancelCommand",
        "DxgkDdiQueryEngineStatus",
        "DxgkDdiQueryDependentEngineGroup",
        "DxgkDdiResetFromTimeout",
        "DxgkDdiRestartFromTimeout",
    ]),
    Rule::on(&["ddi.return", "ks.return", "thread.runaway"], RuleId::WT_CRASH_001, call_returns),
];

fn status_is_legal(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::DdiReturn { name, result, legal } = &event.kind else {
        return Verdict::NotApplicable;
    };
    if result != "ok" && (result == "crashed" || result == "absent") {
        return Verdict::NotApplicable; // These have a rule of their own.
    }
    Verdict::holds_if(*legal, Component::Driver, name, || {
        format!("{name} returned {result}, but that is not among the results it may return")
    })
}

fn submit_succeeds(event: &Event, _shadows: &Shadows) -> Verdict {
    status_is_one_of(event, SUBMIT_COMMAND, &[], "it may not fail")
}

/// WINDOWS: the consequence of an invalid parameter, the device's error, is the kernel's part.
fn submit_virtual_status(event: &Event, _shadows: &Shadows) -> Verdict {
    status_is_one_of(
        event,
        ddi::SUBMIT,
        &["invalid"],
        "it may only succeed or find a parameter invalid",
    )
}

/// Whether a DDI returned success, or an allowed error.
fn status_is_one_of(event: &Event, ddi: &'static str, legal: &[&str], may: &str) -> Verdict {
    let EventKind::DdiReturn { name, result, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    if name != ddi || result == "crashed" || result == "absent" {
        return Verdict::NotApplicable;
    }
    Verdict::holds_if(result == "ok" || legal.contains(&&**result), Component::Driver, ddi, || {
        format!("{name} returned {result}, but {may}")
    })
}

fn call_returns(event: &Event, _shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::DdiReturn { name, result, .. } | EventKind::KsReturn { name, result, .. } => {
            Verdict::holds_if(result != "crashed", Component::Driver, name, || {
                format!("{name} crashed, but a driver must return from every call")
            })
        }
        EventKind::ThreadRunaway { name, turns } => {
            Verdict::broken_with(Component::Driver, name, || {
                format!(
                    "{name} took {turns} turns while no client ran, and would go on: the driver \
                     asks for its DPC again and again, or its hardware is never idle"
                )
            })
        }
        _ => Verdict::NotApplicable,
    }
}

/// A bug check that a DDI's result leads to.
pub(crate) struct StatusBugCheck {
    pub(crate) ddi: &'static str,
    pub(crate) code: u32,
    pub(crate) parameter: u32,
}

/// What Windows does when a DDI returns a forbidden result, for the DDIs where that is known.
///
/// WINDOWS: observed, where the list of results is closed.
pub(crate) const STATUS_BUG_CHECKS: &[StatusBugCheck] = &[
    StatusBugCheck { ddi: "DxgkDdiSubmitCommand", code: 0x119, parameter: 0x2 },
    StatusBugCheck { ddi: "DxgkDdiSubmitCommandVirtual", code: 0x119, parameter: 0x2 },
    StatusBugCheck { ddi: "DxgkDdiPatch", code: 0x119, parameter: 0x3 },
    StatusBugCheck { ddi: "DxgkDdiBuildPagingBuffer", code: 0x10E, parameter: 0xB },
];

/// The same as text; `None` if not known.
pub(crate) fn bug_check_of(ddi: &str) -> Option<String> {
    let stop = STATUS_BUG_CHECKS.iter().find(|status_bug_check| status_bug_check.ddi == ddi)?;
    Some(format!("stops with bug check 0x{:X} (0x{:X})", stop.code, stop.parameter))
}

/// What Windows does when driver code ends as a sentence of WT-CRASH-001 says: the words behind its
/// last colon. `None` if they are not about that.
pub(crate) fn end_of_crash(message: &str) -> Option<String> {
    let (_, end) = message.rsplit_once(": ")?;
    if end.starts_with("bug check 0x") {
        return Some(format!("stops with {end}"));
    }
    end.contains("without a bug check").then(|| end.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    fn answer(result: &str, legal: bool) -> String {
        format!("call:1 ddi.return name=DxgkDdiOpenAllocation result={result} legal={legal}")
    }

    #[test]
    fn what_windows_does_is_said_where_it_is_known() {
        let message = super::bug_check_of("DxgkDdiBuildPagingBuffer");
        assert_eq!(message.as_deref(), Some("stops with bug check 0x10E (0xB)"));
        assert_eq!(super::bug_check_of("DxgkDdiOpenAllocation"), None);
    }

    #[test]
    fn a_legal_answer_is_quiet() {
        for id in [RuleId::GATE_STATUS_002, RuleId::WT_CRASH_001] {
            assert!(messages(id, &answer("ok", true)).is_empty());
            assert_eq!(judge_count(id, &answer("no-memory", true)), 1);
        }
    }

    #[test]
    fn work_that_is_given_is_taken() {
        let result = |name: &str, result: &str| {
            format!("call:1 ddi.return name={name} result={result} legal=false")
        };
        for (id, name, may) in [
            (RuleId::KMD_SUBMIT_005, "DxgkDdiSubmitCommand", "it may not fail"),
            (
                RuleId::KMD_SUBMIT_013,
                "DxgkDdiSubmitCommandVirtual",
                "it may only succeed or find a parameter invalid",
            ),
        ] {
            assert!(messages(id, &result(name, "ok")).is_empty());
            let no = format!("{name} returned no-memory, but {may}");
            assert_eq!(messages(id, &result(name, "no-memory")), [no]);
            assert_eq!(judge_count(id, &result("DxgkDdiEscape", "no-memory")), 0);
            assert_eq!(judge_count(id, &result(name, "crashed")), 0);
            assert_eq!(judge_count(RuleId::GATE_STATUS_002, &result(name, "no-memory")), 0);
        }
        let invalid = result("DxgkDdiSubmitCommandVirtual", "invalid");
        assert!(messages(RuleId::KMD_SUBMIT_013, &invalid).is_empty());
        let invalid = result("DxgkDdiSubmitCommand", "invalid");
        assert_eq!(messages(RuleId::KMD_SUBMIT_005, &invalid).len(), 1);
    }

    #[test]
    fn another_answer_and_none_are_two_things() {
        let strange = answer("0xc0000022", false);
        let no = "DxgkDdiOpenAllocation returned 0xc0000022, but that is not among the results \
                  it may return";
        assert_eq!(messages(RuleId::GATE_STATUS_002, &strange), [no]);
        assert!(messages(RuleId::WT_CRASH_001, &strange).is_empty());
        let crashed = answer("crashed", false);
        let fell = "DxgkDdiOpenAllocation crashed, but a driver must return from every call";
        assert_eq!(messages(RuleId::WT_CRASH_001, &crashed), [fell]);
        assert_eq!(judge_count(RuleId::GATE_STATUS_002, &crashed), 0);
        assert_eq!(judge_count(RuleId::GATE_STATUS_002, &answer("absent", false)), 0);
    }
}
