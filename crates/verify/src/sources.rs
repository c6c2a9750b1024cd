//! Display sources: rules on their owners, and on what clients are told about them.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, RuleId};

const SET: &str = "D3DKMTSetVidPnSourceOwner";
const CHECK: &str = "D3DKMTCheckVidPnExclusiveOwnership";
const CHECK_OCCLUSION: &str = "D3DKMTCheckOcclusion";

/// The rules on display sources.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["source.owned"], RuleId::VIDPN_OWN_002, one_device_owns_alone),
    Rule::on(&["source.checked"], RuleId::VIDPN_OWN_003, others_release_nothing),
    Rule::on(&["occlusion.checked"], RuleId::VIDPN_OWN_004, occluded_by_exclusive_owner),
];

fn one_device_owns_alone(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::SourceOwned { device, source, how } = &event.kind else {
        return Verdict::NotApplicable;
    };
    if !matches!(&**how, "exclusive" | "emulated") {
        return Verdict::NotApplicable;
    }
    let other = shadows.source(event.subject, *source).and_then(|it| it.owner_alone(*device));
    Verdict::holds_if(other.is_none(), Component::Kernel, SET, || {
        let other = other.map_or_else(String::new, |other| other.to_string());
        format!("{device} owns source {source} as {how}, which {other} owns alone")
    })
}

fn others_release_nothing(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::SourceChecked { source, exclusive } = event.kind else {
        return Verdict::NotApplicable;
    };
    let found = shadows.source(event.subject, source).filter(|it| it.released_by_other);
    let Some(found) = found else { return Verdict::NotApplicable };
    Verdict::holds_if(found.is_exclusive() == exclusive, Component::Kernel, CHECK, || {
        format!(
            "source {source} is exclusive: {exclusive}, after a device released it that did not \
             own it"
        )
    })
}

fn occluded_by_exclusive_owner(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::OcclusionChecked { monitors, occluded } = event.kind else {
        return Verdict::NotApplicable;
    };
    let expected = monitors == 1 && shadows.is_any_source_exclusive();
    Verdict::holds_if(occluded == expected, Component::Kernel, CHECK_OCCLUSION, || {
        let owned = if shadows.is_any_source_exclusive() { "a" } else { "no" };
        format!(
            "a window is occluded: {occluded}, with {monitors} monitors, and {owned} device owns a \
             source exclusively"
        )
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::script::{fly, judge_count, messages};
    use flight::RuleId;

    /// Two devices own a source in turn.
    pub(crate) const SOURCES: &str = "
        adapter:1 source.owned device=device:91 source=0 how=exclusive
        process:1 occlusion.checked monitors=1 occluded=true
        process:1 occlusion.checked monitors=2 occluded=false
        adapter:1 source.owned device=device:92 source=0 how=none
        adapter:1 source.checked source=0 exclusive=true
        adapter:1 source.owned device=device:91 source=0 how=none
        adapter:1 source.owned device=device:92 source=0 how=emulated
        process:1 occlusion.checked monitors=1 occluded=false
        adapter:1 source.owned device=device:92 source=0 how=none
    ";

    fn changed(rule: RuleId, from: &str, to: &str) -> Vec<String> {
        assert!(SOURCES.contains(from), "{from}");
        let script = format!("process:1 process.opened\n{SOURCES}");
        assert!(messages(rule, &script).is_empty(), "{:?}", messages(rule, &script));
        assert!(judge_count(rule, &script) > 0, "{rule:?} judged nothing");
        messages(rule, &script.replacen(from, to, 1))
    }

    #[test]
    fn owners_in_turn_break_nothing() {
        let verifier = fly(&format!("process:1 process.opened\n{SOURCES}"));
        assert!(verifier.findings().is_empty(), "{:?}", verifier.findings());
    }

    #[test]
    fn a_source_has_one_owner_alone() {
        let id = RuleId::VIDPN_OWN_002;
        let release = "adapter:1 source.owned device=device:91 source=0 how=none";
        assert_eq!(
            changed(id, release, ""),
            ["device 92 owns source 0 as emulated, which device 91 owns alone"]
        );
        assert!(
            changed(id, release, "adapter:1 source.owned device=device:91 source=0 how=shared")
                .is_empty()
        );
    }

    #[test]
    fn a_release_of_another_device_changes_nothing() {
        let checked = changed(RuleId::VIDPN_OWN_003, "exclusive=true", "exclusive=false");
        assert_eq!(checked.len(), 1, "{checked:?}");
    }

    #[test]
    fn only_an_exclusive_owner_of_the_only_monitor_occludes() {
        let id = RuleId::VIDPN_OWN_004;
        let first = "monitors=1 occluded=true";
        assert_eq!(changed(id, first, "monitors=1 occluded=false").len(), 1);
        assert_eq!(changed(id, "monitors=2 occluded=false", "monitors=2 occluded=true").len(), 1);
        let later = "monitors=1 occluded=false\n        adapter:1";
        assert_eq!(changed(id, later, "monitors=1 occluded=true\n        adapter:1").len(), 1);
    }
}
