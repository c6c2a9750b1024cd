//! Rules over history: data, and one function each.

use crate::shadow::Shadows;
use flight::{Component, Event, RuleId, Text};

/// A rule over history: an id, the events it judges, and one function.
///
/// The function reads an event and whatever shadows it needs, and reaches nothing else: switching
/// a rule on or off changes neither the flight nor another rule.
#[derive(Debug)]
pub struct Rule {
    /// Its id in the catalogue.
    pub id: RuleId,
    /// The events it judges, by their names in traces.
    pub events: &'static [&'static str],
    /// The DDIs whose calls and returns it judges; empty for all.
    pub ddis: &'static [&'static str],
    /// Judges one of them.
    pub judge: Judge,
}

/// Judges an event by the recorded state of the objects it is about.
pub type Judge = fn(&Event, &Shadows) -> Verdict;

impl Rule {
    /// A rule that judges events of these names.
    pub(crate) const fn on(events: &'static [&'static str], id: RuleId, judge: Judge) -> Self {
        Self { id, events, ddis: &[], judge }
    }

    /// The rule, if of the calls and returns of DDIs it judges only those of these.
    pub(crate) const fn of(mut self, ddis: &'static [&'static str]) -> Self {
        self.ddis = ddis;
        self
    }
}

/// The result of judging an event.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The rule does not apply to the event: not counted.
    NotApplicable,
    /// The rule was judged, and it holds.
    Holds,
    /// The rule is broken: the component at fault, where (entry point and argument), and one
    /// sentence with the numbers.
    Broken(Component, Text, String),
    /// As above, in a way that does no harm here: a warning, whatever the severity of the rule is.
    Warning(Component, Text, String),
}

impl Verdict {
    /// `Holds` if the condition holds, else `Broken` with the sentence that `message` returns.
    pub fn holds_if(
        kept: bool,
        component: Component,
        argument: impl Into<Text>,
        message: impl FnOnce() -> String,
    ) -> Self {
        if kept { Verdict::Holds } else { Verdict::Broken(component, argument.into(), message()) }
    }
}

/// Every history rule, by subject.
pub static ALL: &[&[Rule]] = &[
    crate::handles::RULES,
    crate::create::RULES,
    crate::retire::RULES,
    crate::destroy::RULES,
    crate::close::RULES,
    crate::share::RULES,
    crate::nt_share::RULES,
    crate::lifetime::RULES,
    crate::objects::RULES,
    crate::pnp::RULES,
    crate::fence_order::RULES,
    crate::interrupts::RULES,
    crate::addresses::RULES,
    crate::paging::RULES,
    crate::render::RULES,
    crate::tdr::RULES,
    crate::context_allocation::RULES,
    crate::residency::RULES,
    crate::budgets::RULES,
    crate::queues::RULES,
    crate::locks::RULES,
    crate::instances::RULES,
    crate::keyed_mutex::RULES,
    crate::statuses::RULES,
    crate::threading::RULES,
    crate::escape::RULES,
    crate::pool::RULES,
    crate::imports::RULES,
    crate::sync::RULES,
    crate::stream_objects::RULES,
    crate::stream_frames::RULES,
];

#[cfg(test)]
mod tests {
    use super::*;
    use flight::{EventKind, Irql, Kind, Subject};
    use std::collections::BTreeSet;

    #[test]
    fn the_judges_are_those_that_the_catalogue_names() {
        let judged: BTreeSet<_> = ALL.iter().copied().flatten().map(|rule| rule.id).collect();
        for rule in RuleId::HISTORY {
            let name = rule.name();
            assert!(judged.contains(rule), "{name} says judge = \"history\", but no table has it");
        }
        for rule in judged {
            let named = RuleId::HISTORY.contains(&rule);
            assert!(named, "{} has a judge here, but its row does not say so", rule.name());
        }
    }

    #[test]
    fn a_rule_of_some_ddis_declines_the_others() {
        let shadows = Shadows::default();
        let event = |kind| Event { seq: 1, thread: 0, call: None, subject: Subject::RUN, kind };
        let call = event(EventKind::DdiCall {
            name: "DxgkDdiOther".into(),
            level: Irql::Dispatch,
            threading_level: "three".into(),
            adapter: Kind::Adapter.subject(1),
            process: None,
        });
        let returns = event(EventKind::DdiReturn {
            name: "DxgkDdiOther".into(),
            result: "invalid".into(),
            legal: false,
        });
        let of_some = ALL.iter().copied().flatten().filter(|rule| !rule.ddis.is_empty());
        for rule in of_some {
            let judged = ["ddi.call", "ddi.return"].map(|event| rule.events.contains(&event));
            assert!(judged.contains(&true), "{} judges no DDI", rule.id.name());
            for event in [&call, &returns] {
                let verdict = (rule.judge)(event, &shadows);
                assert_eq!(verdict, Verdict::NotApplicable, "{}", rule.id.name());
            }
        }
    }

    #[test]
    fn no_rule_is_listed_twice() {
        let ids: Vec<_> = ALL.iter().copied().flatten().map(|rule| rule.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        for rule in ALL.iter().copied().flatten() {
            let events: BTreeSet<_> = rule.events.iter().collect();
            assert_eq!(events.len(), rule.events.len(), "{} names an event twice", rule.id.name());
            for event in events {
                assert!(EventKind::NAMES.contains(event), "{}: no event {event}", rule.id.name());
            }
        }
    }
}
