//! Escapes: rules on exclusive access to the adapter, and on requests that must fail.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, RuleId};

/// The rules on escapes. That level two is exclusive and idle is a rule on threading levels.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ddi.escapes"], RuleId::DEV_LIFE_010, level_two_if_hardware_access),
    Rule::on(&["leave"], RuleId::DEV_LIFE_014, unresolved_escape_fails)
        .in_entries(&["D3DKMTEscape"]),
];

const STATUS_INVALID_PARAMETER: u32 = 0xC000_000D;

fn level_two_if_hardware_access(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiEscapes { hardware } = event.kind else { return Verdict::NotApplicable };
    let call = shadows.call(event.subject);
    let Some(call) = call.filter(|call| shadows.adapter(call.adapter).is_some()) else {
        return Verdict::NotApplicable;
    };
    let expected = if hardware { "two" } else { "zero" };
    Verdict::holds_if(
        call.threading_level == expected,
        Component::Kernel,
        call.name.clone(),
        || {
            let with = if hardware { "with" } else { "without" };
            format!(
                "an escape {with} HardwareAccess is delivered at level {}, not {expected}",
                call.threading_level
            )
        },
    )
}

fn unresolved_escape_fails(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::Leave { call, status } = &event.kind else { return Verdict::NotApplicable };
    let client_call = shadows.process(event.subject).and_then(|process| process.call(event.thread));
    let Some(client_call) = client_call.filter(|call| call.unresolved) else {
        return Verdict::NotApplicable;
    };
    let harmless = status.0 == STATUS_INVALID_PARAMETER && !client_call.delivered;
    Verdict::holds_if(harmless, Component::Kernel, call, || {
        let came = if client_call.delivered { "came" } else { "did not come" };
        format!(
            "an escape for a missing object returned {:#010x}, and {came} to the driver",
            status.0
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    fn delivered(class: &str, hardware: bool) -> String {
        format!(
            "call:1 ddi.call name=DxgkDdiEscape level=passive threading_level={class} adapter=adapter:1 \
             process=process:1\n c1 call:1 ddi.escapes hardware={hardware}\n"
        )
    }

    #[test]
    fn level_two_is_for_who_asked() {
        let id = RuleId::DEV_LIFE_010;
        for (class, hardware) in [("two", true), ("zero", false)] {
            assert!(messages(id, &delivered(class, hardware)).is_empty());
            assert_eq!(judge_count(id, &delivered(class, hardware)), 1);
        }
        assert_eq!(
            messages(id, &delivered("two", false)),
            ["an escape without HardwareAccess is delivered at level two, not zero"]
        );
        assert_eq!(messages(id, &delivered("zero", true)).len(), 1);
    }

    #[test]
    fn what_names_nothing_is_refused_and_comes_to_nobody() {
        let id = RuleId::DEV_LIFE_014;
        let escape = |resolved: bool, between: &str, status: &str| {
            format!(
                "process:1 enter call=D3DKMTEscape
                 process:1 escape.requested hardware=false resolved={resolved}
                 {between}
                 process:1 leave call=D3DKMTEscape status={status}"
            )
        };
        assert_eq!(judge_count(id, &escape(true, "", "0x00000000")), 0);
        assert_eq!(judge_count(id, &escape(false, "", "0xc000000d")), 1);
        assert!(messages(id, &escape(false, "", "0xc000000d")).is_empty());
        assert_eq!(messages(id, &escape(false, "", "0x00000000")).len(), 1);
        assert_eq!(
            messages(id, &escape(false, &delivered("zero", false), "0xc000000d")),
            ["an escape for a missing object returned 0xc000000d, and came to the driver"]
        );
    }
}
