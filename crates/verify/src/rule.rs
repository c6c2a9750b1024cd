//! Rules over history: data, and one function each.

use crate::shadow::Shadows;
use flight::{Component, Event, Kind, RuleId, Text};

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
    /// The DDIs whose calls and returns it does not judge: they have rules of their own.
    pub other_ddis: &'static [&'static str],
    /// Of plain calls (`Shadows::is_plain_call`), the DDIs whose calls it judges; `None` for all.
    pub plain_ddis: Option<&'static [&'static str]>,
    /// The entry points whose returns to a client (`leave`) it judges; empty for all.
    pub entries: &'static [&'static str],
    /// The kinds of objects whose driver handles it judges; empty for all.
    pub kinds: &'static [Kind],
    /// Judges one of them.
    pub judge: Judge,
    /// The judge of the calls of one DDI, if that depends on the DDI.
    pub judge_of: Option<fn(&str) -> Judge>,
}

/// Judges an event by the recorded state of the objects it is about.
pub type Judge = fn(&Event, &Shadows) -> Verdict;

impl Rule {
    /// A rule that judges events of these names.
    pub(crate) const fn on(events: &'static [&'static str], id: RuleId, judge: Judge) -> Self {
        let (ddis, other_ddis, plain_ddis): (&[_], &[_], _) = (&[], &[], None);
        let (entries, kinds, judge_of): (&[_], &[_], _) = (&[], &[], None);
        Self { id, events, ddis, other_ddis, plain_ddis, entries, kinds, judge, judge_of }
    }

    /// The rule, if the calls of each DDI have a judge of their own, which finds what `judge` finds.
    pub(crate) const fn by_ddi(mut self, judge_of: fn(&str) -> Judge) -> Self {
        self.judge_of = Some(judge_of);
        self
    }

    /// The rule, if of the calls and returns of DDIs it judges only those of these.
    pub(crate) const fn of(mut self, ddis: &'static [&'static str]) -> Self {
        self.ddis = ddis;
        self
    }

    /// The rule, if it judges no call and no return of these DDIs.
    pub(crate) const fn except(mut self, ddis: &'static [&'static str]) -> Self {
        self.other_ddis = ddis;
        self
    }

    /// The rule, if of plain calls it judges only those of these DDIs.
    pub(crate) const fn of_plain(mut self, ddis: &'static [&'static str]) -> Self {
        self.plain_ddis = Some(ddis);
        self
    }

    /// The rule, if of the returns to a client it judges only those from these entry points.
    pub(crate) const fn in_entries(mut self, entries: &'static [&'static str]) -> Self {
        self.entries = entries;
        self
    }

    /// The rule, if of driver handles it judges only those of objects of these kinds.
    pub(crate) const fn about(mut self, kinds: &'static [Kind]) -> Self {
        self.kinds = kinds;
        self
    }

    /// Whether it judges returns to a client from an entry point.
    pub(crate) fn is_in(&self, entry: &str) -> bool {
        self.entries.is_empty() || self.entries.contains(&entry)
    }

    /// Whether it judges driver handles of objects of a kind.
    pub(crate) fn is_about(&self, kind: Kind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    /// Whether it judges the calls or returns of a DDI.
    pub(crate) fn is_of(&self, ddi: &str) -> bool {
        (self.ddis.is_empty() || self.ddis.contains(&ddi)) && !self.other_ddis.contains(&ddi)
    }

    /// Whether it judges plain calls of a DDI.
    pub(crate) fn is_of_plain(&self, ddi: &str) -> bool {
        self.is_of(ddi) && self.plain_ddis.is_none_or(|ddis| ddis.contains(&ddi))
    }
}

/// The result of judging an event. It is small, because most rules hold or do not apply.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The rule does not apply to the event: not counted.
    NotApplicable,
    /// The rule was judged, and it holds.
    Holds,
    /// The rule is broken.
    Broken(Box<BrokenRule>),
    /// The rule is broken in a way that does no harm here: a warning, whatever the severity of the
    /// rule is.
    Warning(Box<BrokenRule>),
}

/// What a judge reports of a broken rule.
#[derive(Debug, PartialEq, Eq)]
pub struct BrokenRule {
    /// The component at fault.
    pub component: Component,
    /// Where: the entry point and the argument.
    pub argument: Text,
    /// One sentence with the numbers.
    pub message: String,
}

/// The place of a finding, whose text is only made if the rule is broken.
pub trait Place {
    /// The entry point and the argument.
    fn into_text(self) -> Text;
}

impl Place for &'static str {
    fn into_text(self) -> Text {
        Text::Borrowed(self)
    }
}

impl Place for &Text {
    fn into_text(self) -> Text {
        self.clone()
    }
}

impl Place for Text {
    fn into_text(self) -> Text {
        self
    }
}

impl Verdict {
    /// `Holds` if the condition holds, else `Broken` with the sentence that `message` returns.
    #[inline]
    pub fn holds_if(
        kept: bool,
        component: Component,
        argument: impl Place,
        message: impl FnOnce() -> String,
    ) -> Self {
        if kept { Verdict::Holds } else { Verdict::broken_with(component, argument, message) }
    }

    /// The rule is broken, with the sentence that `message` returns. The sentence is made outside of
    /// its judge, which is shorter without.
    #[cold]
    #[inline(never)]
    pub(crate) fn broken_with(
        component: Component,
        argument: impl Place,
        message: impl FnOnce() -> String,
    ) -> Self {
        Verdict::broken(component, argument.into_text(), message())
    }

    /// The rule is broken.
    #[cold]
    pub fn broken(component: Component, argument: Text, message: String) -> Self {
        Verdict::Broken(Box::new(BrokenRule { component, argument, message }))
    }

    /// The rule is broken in a way that does no harm here.
    #[cold]
    pub fn warning(component: Component, argument: Text, message: String) -> Self {
        Verdict::Warning(Box::new(BrokenRule { component, argument, message }))
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
    crate::sources::RULES,
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
    use flight::{EventKind, Irql, Subject};
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
