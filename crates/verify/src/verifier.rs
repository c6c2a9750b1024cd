//! The verifier: events in, findings out.

use crate::catalogue::{self, Severity};
use crate::cause::cause;
use crate::dispatch::{EventJudges, NameCache, NamedJudges, RuleJudge};
use crate::entry_name::CurrentCalls;
use crate::follow_on::{UnfilledObjects, results_from};
use crate::rule::{BrokenRule, Judge, Verdict};
use crate::sentence::sentence;
use crate::shadow::Shadows;
use crate::statuses;
use flight::{Component, Event, EventKind, RuleCounts, RuleId, Subject, Text};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The maximum number of event numbers in a finding.
const EVENTS: usize = 8;

/// Of more events, the first ones in a finding: the creation of what it is about.
const FIRST_EVENTS: usize = 2;

/// The maximum number of causes of one rule, component and place. Further ones count for the last.
const CAUSES: usize = 12;

/// A broken rule, with everything for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: RuleId,
    /// Its severity.
    pub severity: Severity,
    /// The component at fault.
    pub component: Component,
    /// Where: the entry and the argument.
    pub argument: String,
    /// What the component did, with the numbers, and what was expected.
    pub message: String,
    /// What Windows would have done.
    pub windows: String,
    /// The basis of the rule.
    pub basis: &'static str,
    /// The source of the rule.
    pub source: &'static str,
    /// The numbers of the events that led there, the breach last.
    pub events: Vec<u64>,
    /// How often it happened; the other fields are from the first time.
    pub count: u64,
    /// Findings of the same flight that follow from this one: those against other components that
    /// came later, which is what a client does or gets, and what the kernel can do, after a driver's
    /// error; and those against the same driver that have the same cause (module `follow_on`).
    pub consequences: Vec<Finding>,
    /// The driver's frames at a fault, or at the call of an import, the innermost first; empty for
    /// other findings.
    pub stack: Vec<StackFrame>,
    /// The other threads that the finding is about, such as the one that acquired two locks in the
    /// opposite order.
    pub threads: Vec<ThreadStack>,
}

/// The call stack of another thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadStack {
    /// The number of the virtual thread.
    pub thread: u32,
    /// Its frames when it did what the finding is about, the innermost first.
    pub stack: Vec<StackFrame>,
}

/// A frame of a driver's call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackFrame {
    /// The name of the file that contains the code.
    pub module: String,
    /// The offset of the instruction in the file's code.
    pub offset: u64,
    /// The function, if the symbols are known.
    pub function: Option<String>,
    /// The source file and the line.
    pub line: Option<(String, u32)>,
}

impl fmt::Display for StackFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.function, &self.line) {
            (Some(function), Some((file, line))) => write!(f, "{function} ({file}:{line})"),
            (Some(function), None) => write!(f, "{function}"),
            (None, _) => write!(f, "{}+{:#x}", self.module, self.offset),
        }
    }
}

impl Finding {
    /// Whether rule, component, place and cause agree: the same mistake, once more.
    pub fn is_same_as(&self, other: &Finding) -> bool {
        (self.rule, self.component, &self.argument)
            == (other.rule, other.component, &other.argument)
            && cause(&self.message) == cause(&other.message)
    }

    /// The finding as one line: component, place, sentence and rule.
    pub fn line(&self) -> String {
        let (rule, component) = (self.rule.name(), self.component.name());
        format!("{component}, in {}: {} ({rule})", self.argument, sentence(&self.message))
    }

    /// Counts another occurrence of the same finding, with its consequences.
    pub fn merge(&mut self, other: Finding) {
        self.count += other.count;
        for consequence in other.consequences {
            match self.consequences.iter_mut().find(|known| known.is_same_as(&consequence)) {
                Some(known) => known.count += consequence.count,
                None => self.consequences.push(consequence),
            }
        }
    }

    /// Whether a later finding against a component counts as a consequence of this one.
    ///
    /// A kernel-mode driver's error leaves memory, page tables and packets in a state that its
    /// clients and the kernel did not cause; a user-mode driver's error, the resources of its
    /// client. In the other direction each must withstand what it is given.
    fn explains(&self, component: Component) -> bool {
        let drivers = match self.component {
            Component::Driver => component != Component::Driver,
            Component::Umd => matches!(component, Component::Client | Component::Kernel),
            Component::Client | Component::Kernel => false,
        };
        drivers && self.severity == Severity::Error
    }
}

/// Reads events in order, judges each by every rule on events of its name, and records what later
/// judgements need.
#[derive(Debug, Default)]
pub struct Verifier {
    shadows: Shadows,
    findings: FindingList,
    rule_counts: RuleCounts,
    called: BTreeSet<String>,
    /// What is known of the names of entry points that were seen last.
    names: NameCache,
    missing: BTreeMap<String, u64>,
    /// The virtual threads on which a user-mode driver has called back, and how deep.
    callback_depths: BTreeMap<u32, u32>,
    calls: CurrentCalls,
    /// Where the last breach of a rule at a door was placed, by its entry and argument.
    breach_places: BTreeMap<(RuleId, Component, Text), Text>,
    events: u64,
}

/// The findings, and for each rule, component and place the causes with the places of their
/// findings.
#[derive(Debug, Default)]
struct FindingList {
    list: Vec<Finding>,
    causes: BTreeMap<(RuleId, Component, String), Vec<(String, FindingPlace)>>,
    /// The subjects of the events of the findings in `list`.
    subjects: Vec<Subject>,
    unfilled: UnfilledObjects,
}

/// The index of a finding, and of the consequence of it that is meant.
type FindingPlace = (usize, Option<usize>);

impl Verifier {
    /// A verifier that has read no event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Judges the next event, then records it.
    pub fn observe(&mut self, event: &Event) {
        self.observe_all(std::slice::from_ref(event));
    }

    /// Judges the next events, each before it is recorded.
    pub fn observe_all(&mut self, events: &[Event]) {
        self.events += events.len() as u64;
        let judges = EventJudges::all();
        for event in events {
            self.observe_next(event, judges);
        }
    }

    #[expect(clippy::inline_always, reason = "a loop over events saves no registers for each")]
    #[inline(always)]
    fn observe_next(&mut self, event: &Event, judges: &'static EventJudges) {
        if !self.findings.unfilled.is_empty() {
            self.findings.unfilled.note(event);
        }
        let judges = match &event.kind {
            EventKind::DdiCall { name, threading_level, adapter, .. } => {
                let named = self.note_call(name);
                let plain = self.shadows.is_plain_call(threading_level, *adapter);
                self.judge(event, if plain { named.plain_call } else { named.call });
                return self.shadows.follow_ddi(event, named.ddi);
            }
            EventKind::Leave { call, .. } => {
                let judges = self.names.judges(call).leave;
                self.judge(event, judges);
                self.calls.leave(event.thread); // A finding of its judges is about the call.
                &[]
            }
            EventKind::DdiReturn { name, result, .. } => {
                let judges = self.names.judges(name).returns;
                self.judge(event, judges);
                return self.shadows.follow_return(event, name, result);
            }
            EventKind::DriverHandleSet { of } => judges.of_handle_set(of.kind),
            EventKind::DriverHandleEnded { of, .. } => judges.of_handle_end(of.kind),
            kind => {
                match kind {
                    EventKind::Enter { call } => self.calls.enter(event.thread, call),
                    EventKind::KsCall { name, .. } | EventKind::UmdCall { name } => {
                        self.note_call(name);
                    }
                    EventKind::RuleBroken { .. }
                    | EventKind::RuleRepeated { .. }
                    | EventKind::UmdCallback { .. }
                    | EventKind::UmdCallbackReturn { .. }
                    | EventKind::EntryMissing { .. } => self.note(event),
                    _ => (),
                }
                judges.of_event(kind)
            }
        };
        self.judge(event, judges);
        self.shadows.follow(event);
    }

    /// Judges an event.
    #[expect(clippy::inline_always, reason = "a loop over events saves no registers for each")]
    #[inline(always)]
    fn judge(&mut self, event: &Event, judges: &[RuleJudge]) {
        for judge in judges {
            let judged = match (judge.judge)(event, &self.shadows) {
                Verdict::NotApplicable => 0,
                Verdict::Holds => 1,
                broken => self.add_finding(event, judge, broken),
            };
            self.rule_counts.add_count(judge.id, judged);
        }
    }

    /// Adds the finding of a judge. Returns how often it has judged.
    #[cold]
    fn add_finding(&mut self, event: &Event, judge: &RuleJudge, verdict: Verdict) -> u64 {
        let warns = matches!(verdict, Verdict::Warning(_));
        let (Verdict::Broken(broken) | Verdict::Warning(broken)) = verdict else { return 0 };
        let BrokenRule { component, argument, message } = *broken;
        // A user-mode driver's calls on behalf of a client are attributed to the driver.
        let back =
            component == Component::Client && self.callback_depths.contains_key(&event.thread);
        let component = if back { Component::Umd } else { component };
        let argument = self.calls.place(event.thread, argument);
        let breach = Breach { rule: judge.id, component, argument, message, warns, count: 1 };
        self.findings.add(event, breach, || trail(event, &self.shadows, Some(judge.judge)));
        1
    }

    /// Records an event that few flights have.
    #[inline(never)]
    fn note(&mut self, event: &Event) {
        match &event.kind {
            EventKind::RuleBroken { rule, component, argument: entry, message } => {
                // The door that judges the state at a return does not know the DDI.
                let argument = returned_ddi(&self.shadows, event, entry)
                    .unwrap_or_else(|| self.calls.place(event.thread, entry.clone()));
                let (rule, component, message) = (*rule, *component, message.to_string());
                self.breach_places.insert((rule, component, entry.clone()), argument.clone());
                let breach = Breach { rule, component, argument, message, warns: false, count: 1 };
                self.findings.add(event, breach, || trail(event, &self.shadows, None));
            }
            EventKind::RuleRepeated { rule, component, argument, message, count } => {
                // The thread may be in another call by now.
                let place = (*rule, *component, argument.clone());
                let argument = self.breach_places.get(&place).unwrap_or(argument).clone();
                let (rule, component, message) = (*rule, *component, message.to_string());
                let count = *count;
                let breach = Breach { rule, component, argument, message, warns: false, count };
                self.findings.add(event, breach, || trail(event, &self.shadows, None));
            }
            EventKind::UmdCallback { .. } => {
                *self.callback_depths.entry(event.thread).or_default() += 1;
            }
            EventKind::UmdCallbackReturn { .. } => {
                if let Some(depth) = self.callback_depths.get_mut(&event.thread) {
                    *depth -= 1;
                }
                self.callback_depths.retain(|_, depth| *depth > 0);
            }
            EventKind::EntryMissing { name } => {
                let name = self.calls.place(event.thread, name.clone());
                *self.missing.entry(name.into_owned()).or_default() += 1;
            }
            _ => (),
        }
    }

    /// Notes that an entry point was called. Returns the judges of its name.
    #[inline]
    fn note_call(&mut self, name: &Text) -> &'static NamedJudges {
        match self.names.find(name) {
            Some(known) if known.was_called => known.judges,
            _ => self.note_first_call(name),
        }
    }

    /// The same for a name that was not called yet, or that is not a constant.
    #[cold]
    #[inline(never)]
    fn note_first_call(&mut self, name: &Text) -> &'static NamedJudges {
        if let Some(known) = self.names.find(name) {
            known.was_called = true;
        }
        if !self.called.contains(&**name) {
            self.called.insert(name.to_string());
        }
        NamedJudges::of(name)
    }

    /// The findings, in the order of their first occurrence, each with its consequences.
    pub fn findings(&self) -> &[Finding] {
        &self.findings.list
    }

    /// How often each history rule has judged. Entry rules are judged and counted at doors: their
    /// counts are in the log.
    pub fn rule_counts(&self) -> &RuleCounts {
        &self.rule_counts
    }

    /// The DDIs that were called.
    pub fn called(&self) -> &BTreeSet<String> {
        &self.called
    }

    /// The entry points that were called but that the driver does not have, and how often.
    pub fn missing(&self) -> &BTreeMap<String, u64> {
        &self.missing
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.events
    }

    #[cfg(test)]
    pub(crate) fn shadow_count(&self) -> usize {
        self.shadows.len()
    }
}

/// The DDI that returned, if the place is the return from one.
fn returned_ddi(shadows: &Shadows, event: &Event, argument: &Text) -> Option<Text> {
    let call = shadows.call_of(event).filter(|_| argument == flight::DDI_RETURN);
    call.map(|call| call.name.clone())
}

/// The numbers of the events that led to this one, in order, with this one last: the trails of its
/// subject and of every object that the judge of the broken rule reads.
fn trail(event: &Event, shadows: &Shadows, judge: Option<Judge>) -> Vec<u64> {
    let read = judge.map(|judge| shadows.trails_read(|shadows| judge(event, shadows)));
    let trails = shadows.trail(event.subject).into_iter().chain(read.into_iter().flatten());
    let numbers = trails.flat_map(|trail| trail.iter().collect::<Vec<_>>());
    let mut events: Vec<u64> = numbers.filter(|seq| *seq != event.seq).collect();
    events.sort_unstable();
    events.dedup();
    if events.len() >= EVENTS {
        events.drain(FIRST_EVENTS..events.len() - (EVENTS - 1 - FIRST_EVENTS));
    }
    events.push(event.seq);
    events
}

/// A rule broken by an event.
struct Breach {
    rule: RuleId,
    component: Component,
    argument: Text,
    message: String,
    /// Whether it is a warning, whatever the severity of the rule is.
    warns: bool,
    /// How often it was broken.
    count: u64,
}

impl FindingList {
    fn add(&mut self, event: &Event, breach: Breach, events: impl FnOnce() -> Vec<u64>) {
        let Breach { rule, component, argument, message, warns, count } = breach;
        let argument = argument.into_owned();
        let causes = self.causes.entry((rule, component, argument.clone())).or_default();
        let cause = cause(&message);
        let known = causes.iter().find(|(known, _)| *known == cause);
        let full = if causes.len() < CAUSES { None } else { causes.last() };
        if let Some((_, (first, consequence))) = known.or(full) {
            let finding = &mut self.list[*first];
            match consequence {
                Some(index) => finding.consequences[*index].count += count,
                None => finding.count += count,
            }
            if let Some(object) = UnfilledObjects::object_of(event, rule) {
                self.unfilled.add(object, *first);
            }
            return;
        }
        let unfilled = Some(component).filter(|it| *it == Component::Driver);
        let unfilled = unfilled.and_then(|_| self.unfilled.cause_of(event));
        let explains = |finding: &Finding| {
            finding.explains(component) || results_from(finding, component, rule)
        };
        let root = unfilled.or_else(|| self.list.iter().position(explains));
        let place = match root {
            Some(root) => (root, Some(self.list[root].consequences.len())),
            None => (self.list.len(), None),
        };
        causes.push((cause, place));
        let entry = catalogue::find(rule.name());
        let windows = match rule {
            RuleId::GATE_STATUS_002 | RuleId::KMD_SUBMIT_013 => statuses::bug_check_of(&argument),
            RuleId::WT_CRASH_001 => {
                statuses::end_of_crash(&message).or_else(|| entry.map(catalogue::Entry::windows))
            }
            _ => entry.map(catalogue::Entry::windows),
        };
        let finding = Finding {
            rule,
            severity: match entry.map_or(Severity::Error, catalogue::Entry::severity) {
                severity if warns => severity.min(Severity::Warning),
                severity => severity,
            },
            component,
            argument,
            message,
            windows: windows.unwrap_or_else(|| catalogue::NOT_KNOWN.into()),
            basis: entry.map_or("ours", |entry| &entry.basis),
            source: entry.map_or("ours", |entry| &entry.source),
            events: events(),
            count,
            consequences: Vec::new(),
            stack: Vec::new(),
            threads: Vec::new(),
        };
        if let Some(root) = root {
            self.list[root].consequences.push(finding);
        } else {
            self.list.push(finding);
            self.subjects.push(event.subject);
        }
        if let Some(object) = UnfilledObjects::object_of(event, rule) {
            let index = root.unwrap_or(self.list.len() - 1);
            self.adopt_earlier(object, index);
        }
    }

    /// The handle of an object was left NULL: what was found of the object before, such as its size
    /// of zero, follows from the same mistake.
    fn adopt_earlier(&mut self, object: Subject, mut index: usize) {
        let is_earlier = |(place, subject): (usize, &Subject)| place < index && *subject == object;
        let earlier = self.subjects.iter().enumerate().position(is_earlier);
        let alone = |finding: &Finding| finding.count == 1 && finding.consequences.is_empty();
        let earlier = earlier.filter(|place| {
            index + 1 == self.list.len() && alone(&self.list[*place]) && alone(&self.list[index])
        });
        if let Some(place) = earlier {
            // The new finding takes the place of the earlier one, which becomes its consequence.
            let Some(new) = self.list.pop() else { return };
            self.subjects.pop();
            let old = std::mem::replace(&mut self.list[place], new);
            self.list[place].consequences.push(old);
            for known in self.causes.values_mut().flatten() {
                known.1 = match known.1 {
                    (of, None) if of == place => (place, Some(0)),
                    (of, None) if of == index => (place, None),
                    other => other,
                };
            }
            index = place;
        }
        self.unfilled.add(object, index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{fly, read};

    fn an_event() -> Event {
        read("device:1 umd.callback name=pfnAllocateCb").remove(0)
    }

    fn breach(message: &str) -> Breach {
        let (rule, component) = (RuleId::WT_POOL_001, Component::Driver);
        let (argument, message) = ("here".into(), message.to_owned());
        Breach { rule, component, argument, message, warns: false, count: 1 }
    }

    #[test]
    fn two_mistakes_in_one_place_are_two_findings() {
        let mut findings = FindingList::default();
        for message in ["pool block 1 has another tag", "0x1234 is no block", "0x77 is no block"] {
            findings.add(&an_event(), breach(message), Vec::new);
        }
        let counts: Vec<_> =
            findings.list.iter().map(|finding| (&*finding.message, finding.count)).collect();
        assert_eq!(counts, [("pool block 1 has another tag", 1), ("0x1234 is no block", 2)]);
        assert!(!findings.list[0].is_same_as(&findings.list[1]));
    }

    #[test]
    fn a_user_mode_driver_is_blamed_until_its_callback_returns() {
        let component = |before: &str| {
            let left = "process:1 process.opened\nprocess:1 process.leaked object=device:1";
            fly(&[before, left].concat()).findings()[0].component
        };
        let calls = "device:1 umd.callback name=pfnAllocateCb\n";
        let returns = "device:1 umd.callback-return name=pfnAllocateCb result=0x0\n";
        assert_eq!(component(""), Component::Client);
        assert_eq!(component(calls), Component::Umd);
        assert_eq!(component(&[calls, calls, returns].concat()), Component::Umd, "a nested one");
        assert_eq!(component(&[calls, returns].concat()), Component::Client);
    }

    #[test]
    fn breaches_that_were_only_counted_belong_to_the_finding() {
        let event = |name: &str, count: &str| {
            format!(
                "call:1 rule.{name} rule=WT-LEVEL-001 component=driver argument=KeWait \
                 message=\"KeWait was called at dispatch level\"{count}\n"
            )
        };
        let flown = fly(&[event("broken", ""), event("repeated", " count=41")].concat());
        let findings = flown.findings();
        assert_eq!((findings.len(), findings[0].count), (1, 42));
    }

    #[test]
    fn a_crash_has_the_bug_check_of_its_sentence() {
        let windows = |message: &str| {
            let mut findings = FindingList::default();
            let rule = RuleId::WT_CRASH_001;
            findings.add(&an_event(), Breach { rule, ..breach(message) }, Vec::new);
            findings.list[0].windows.clone()
        };
        assert_eq!(windows("the driver wrote to 0x0: bug check 0xD1"), "stops with bug check 0xD1");
        let hangs = "the thread hangs, without a bug check";
        assert_eq!(windows(&format!("the driver did not return: {hangs}")), hangs);
        assert!(windows("DxgkDdiEscape crashed").contains("0x3B"), "every one that is possible");
    }

    #[test]
    fn the_causes_of_one_place_are_limited_and_all_are_counted() {
        let mut findings = FindingList::default();
        for letter in 'a'..='z' {
            findings.add(&an_event(), breach(&format!("cause {letter}")), Vec::new);
        }
        assert_eq!(findings.list.len(), CAUSES);
        assert_eq!(findings.list.iter().map(|finding| finding.count).sum::<u64>(), 26);
    }
}
