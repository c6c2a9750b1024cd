//! Which rules judge an event: those that name it, without those that cannot apply to it.
//!
//! Calls and returns are dispatched by their entry point, events of driver handles by the kind of
//! their object, all others by their name alone. A rule that is left out would not apply: a test
//! compares the counts with those of a dispatch by name alone.

use crate::ddi::{self, KnownDdi};
use crate::rule::{self, Judge, Rule};
use flight::{EventKind, Kind, RuleId, Text};
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

/// What judges an event: a rule without what its dispatch needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleJudge {
    pub(crate) judge: Judge,
    pub(crate) id: RuleId,
}

/// Judges, in the order of the tables of rules.
type JudgeList = &'static [RuleJudge];

/// The judges of events that are not dispatched by the name of an entry point.
#[derive(Debug)]
pub(crate) struct EventJudges {
    /// By the index of its name in [`EventKind::NAMES`].
    events: [JudgeList; EventKind::NAMES.len()],
    /// Of a driver handle that is set, by the kind of its object.
    handle_sets: Vec<JudgeList>,
    /// Of a driver handle that ends, by the kind of its object.
    handle_ends: Vec<JudgeList>,
}

static BY_EVENT: LazyLock<EventJudges> = LazyLock::new(|| {
    let by_kind =
        |event| Kind::all().map(|kind| judges_on(event, "", |rule| rule.is_about(kind))).collect();
    EventJudges {
        events: std::array::from_fn(|index| judges_on(EventKind::NAMES[index], "", |_| true)),
        handle_sets: by_kind("driver-handle.set"),
        handle_ends: by_kind("driver-handle.ended"),
    }
});

impl EventJudges {
    /// The judges, which a verifier looks for once.
    pub(crate) fn all() -> &'static Self {
        &BY_EVENT
    }

    /// The judges of an event, by its name.
    #[inline]
    pub(crate) fn of_event(&self, kind: &EventKind) -> JudgeList {
        self.events[kind.index()]
    }

    /// The judges of a driver handle that is set for an object of this kind.
    #[inline]
    pub(crate) fn of_handle_set(&self, kind: Kind) -> JudgeList {
        self.handle_sets[kind as usize]
    }

    /// The judges of a driver handle of an object of this kind that ends.
    #[inline]
    pub(crate) fn of_handle_end(&self, kind: Kind) -> JudgeList {
        self.handle_ends[kind as usize]
    }
}

/// The judges of the events of an entry point.
#[derive(Debug)]
pub(crate) struct NamedJudges {
    /// The call of a DDI.
    pub(crate) call: JudgeList,
    /// A plain call of a DDI.
    pub(crate) plain_call: JudgeList,
    /// The return from a DDI.
    pub(crate) returns: JudgeList,
    /// The end of a client call.
    pub(crate) leave: JudgeList,
    /// What is recorded of a call of it.
    pub(crate) ddi: KnownDdi,
}

/// The judges of each name that a rule or this crate names, once it was called; those of all others
/// under an empty name.
static BY_NAME: LazyLock<BTreeMap<&str, OnceLock<Box<NamedJudges>>>> = LazyLock::new(|| {
    let rules = rule::ALL.iter().copied().flatten();
    let named = rules.flat_map(|rule| {
        let plain = rule.plain_ddis.unwrap_or_default();
        rule.ddis.iter().chain(rule.other_ddis).chain(plain).chain(rule.entries)
    });
    let ddis = ddi::LEVELS.iter().map(|(name, _)| *name);
    named.copied().chain(ddis).chain([""]).map(|name| (name, OnceLock::new())).collect()
});

impl NamedJudges {
    /// The judges of a name.
    pub(crate) fn of(name: &str) -> &'static Self {
        let known = BY_NAME.get_key_value(name).or_else(|| BY_NAME.get_key_value(""));
        let (name, judges) = flight::invariant(known, "every name has judges");
        judges.get_or_init(|| Box::new(Self::new(name)))
    }

    fn new(name: &str) -> Self {
        Self {
            call: judges_on("ddi.call", name, |rule| rule.is_of(name)),
            plain_call: judges_on("ddi.call", name, |rule| rule.is_of_plain(name)),
            returns: judges_on("ddi.return", name, |rule| rule.is_of(name)),
            leave: judges_on("leave", name, |rule| rule.is_in(name)),
            ddi: KnownDdi::of(name),
        }
    }
}

/// The judges of events of that name, of those rules that a condition chooses. The events are about
/// one entry point, if it has a name.
fn judges_on(name: &str, entry: &str, chosen: impl Fn(&Rule) -> bool) -> JudgeList {
    let rules = rule::ALL.iter().copied().flatten();
    let on_it = rules.filter(|rule| rule.events.contains(&name) && chosen(rule));
    let judge = |rule: &Rule| rule.judge_of.map_or(rule.judge, |judge_of| judge_of(entry));
    let list: Box<[_]> = on_it.map(|rule| RuleJudge { judge: judge(rule), id: rule.id }).collect();
    Box::leak(list) // Each is made once.
}

/// What is known of names that are constants, each near a place that its address determines. A name
/// that finds no free place there takes that of another one.
#[derive(Debug)]
pub(crate) struct NameCache([Option<KnownName>; CACHED_NAMES]);

/// More than the names that a flight calls again and again.
const CACHED_NAMES: usize = 1 << CACHE_BITS;

const CACHE_BITS: u32 = 7;

/// At how many places from its own on a name can be.
const NEAR_PLACES: usize = 4;

/// What is known of a name that is a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownName {
    name: &'static str,
    pub(crate) judges: &'static NamedJudges,
    pub(crate) was_called: bool,
}

impl Default for NameCache {
    fn default() -> Self {
        Self([None; CACHED_NAMES])
    }
}

impl NameCache {
    /// The judges of a name.
    #[inline]
    pub(crate) fn judges(&mut self, name: &Text) -> &'static NamedJudges {
        self.find(name).map_or_else(|| NamedJudges::of(name), |known| known.judges)
    }

    /// What is known of a name, if it is a constant.
    #[inline]
    pub(crate) fn find(&mut self, name: &Text) -> Option<&mut KnownName> {
        let Text::Borrowed(name) = *name else { return None };
        let mixed = (name.as_ptr().addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let own = (mixed >> (u64::BITS - CACHE_BITS)) as usize;
        let place = if self.is_at(name, own) { own } else { self.find_near(name, own) };
        self.0[place].as_mut()
    }

    #[inline]
    fn is_at(&self, name: &'static str, place: usize) -> bool {
        self.0[place].as_ref().is_some_and(|known| std::ptr::eq(known.name, name))
    }

    /// The place of a name that is not at its own place. It gets one if it has none.
    #[inline(never)]
    fn find_near(&mut self, name: &'static str, own: usize) -> usize {
        let mut places = (own..own + NEAR_PLACES).map(|place| place % CACHED_NAMES);
        if let Some(known) = places.clone().find(|place| self.is_at(name, *place)) {
            return known;
        }
        let place = places.find(|place| self.0[*place].is_none()).unwrap_or(own);
        self.0[place] = Some(KnownName { name, judges: NamedJudges::of(name), was_called: false });
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flights::good_flights;
    use crate::rule::Verdict;
    use crate::{Shadows, Verifier, script};
    use flight::{Event, RuleCounts};

    /// The counts of a dispatch by the names of events alone.
    fn counts_by_name(events: &[Event]) -> RuleCounts {
        let (mut shadows, mut counts) = (Shadows::default(), RuleCounts::default());
        for event in events {
            let ddi = match &event.kind {
                EventKind::DdiCall { name, .. } | EventKind::DdiReturn { name, .. } => &**name,
                _ => "",
            };
            let rules = rule::ALL.iter().copied().flatten();
            let on_it = rules.filter(|rule| rule.events.contains(&event.kind.name()));
            for rule in on_it.filter(|rule| !rule.other_ddis.contains(&ddi)) {
                if (rule.judge)(event, &shadows) != Verdict::NotApplicable {
                    counts.increment(rule.id);
                }
            }
            shadows.follow(event);
        }
        counts
    }

    fn compare(what: &str, events: &[Event]) {
        let mut verifier = Verifier::new();
        for event in events {
            verifier.observe(event);
        }
        let by_name = counts_by_name(events);
        for rule in RuleId::HISTORY {
            let counts = [verifier.rule_counts(), &by_name].map(|counts| counts.count_of(*rule));
            assert_eq!(counts[0], counts[1], "{what}: {}", rule.name());
        }
    }

    #[test]
    fn no_rule_judges_less_often_than_by_the_names_of_events() {
        compare("the good flights", &script::read(&good_flights()));
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
        let mut traces = 0;
        for file in std::fs::read_dir(golden).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let events: Vec<Event> = text.lines().filter_map(|line| line.parse().ok()).collect();
            compare(&path.display().to_string(), &events);
            traces += u32::from(events.len() > 100);
        }
        assert!(traces > 10, "the golden traces are elsewhere: {traces}");
    }

    #[test]
    fn a_rule_that_is_left_out_would_not_apply() {
        let adapter = "call:1 ddi.call name=DxgkDdiStartDevice level=passive threading_level=three adapter=adapter:1 process=-
            call:1 ddi.return name=DxgkDdiStartDevice result=ok legal=true
            adapter:1 adapter.started nodes=1 generation=2\n";
        let call = |threading_level: &str| {
            format!(
                "call:2 ddi.call name=DxgkDdiOther level=dispatch \
                 threading_level={threading_level} adapter=adapter:1 process=process:1\n"
            )
        };
        let plain = |script: &str| {
            let mut events = script::read(script);
            let last = events.pop().unwrap();
            let mut shadows = Shadows::default();
            for event in &events {
                shadows.follow(event);
            }
            let EventKind::DdiCall { threading_level, adapter, .. } = &last.kind else { panic!() };
            let is_plain = shadows.is_plain_call(threading_level, *adapter);
            for rule in rule::ALL.iter().copied().flatten().filter(|rule| {
                is_plain && rule.is_of("DxgkDdiOther") && !rule.is_of_plain("DxgkDdiOther")
            }) {
                let verdict = (rule.judge)(&last, &shadows);
                assert_eq!(verdict, Verdict::NotApplicable, "{}", rule.id.name());
            }
            is_plain
        };
        assert!(plain(&[adapter, &call("zero")].concat()));
        assert!(!plain(&[adapter, &call("two")].concat()), "it excludes others");
        assert!(!plain(&[adapter, &call("zero"), &call("zero")].concat()), "one is inside");
        assert!(!plain(&call("zero")), "nothing is known of the adapter");
    }

    #[test]
    fn a_name_keeps_its_judges_when_others_take_its_place() {
        let mut names = NameCache::default();
        for _ in 0..3 {
            for name in EventKind::NAMES.iter().copied().chain(["DxgkDdiDestroyAllocation"]) {
                let found = names.judges(&Text::Borrowed(name));
                let own = NamedJudges::of(name);
                assert!(std::ptr::eq(found, own), "{name}");
            }
        }
        let destroy = names.judges(&Text::Borrowed("DxgkDdiDestroyAllocation"));
        assert!(destroy.call.iter().any(|judge| judge.id == RuleId::KMD_DESTROY_010));
    }
}
