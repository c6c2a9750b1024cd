//! Findings that follow from an earlier one against the same driver.
//!
//! One mistake of a driver can break several rules: an element of a list that it has not filled has
//! no handle, no size and no segment, and its own code fails on the handle later. The first finding
//! is the mistake; those that follow are its consequences. A finding is a consequence if it is about
//! the object whose handle was left NULL, or comes from a call that was given that handle, or if its
//! rule is in [`RESULTS`] for an earlier finding. Findings about other objects are their own.

use crate::catalogue::Severity;
use crate::verifier::Finding;
use flight::{Component, Event, EventKind, Kind, RuleId, Subject};

/// Rules, and rules that are then broken against the same driver without another mistake.
const RESULTS: &[(&[RuleId], &[RuleId])] = &[
    // A packet that is never reported: nothing that waits for it ends, and a preemption waits, too.
    (
        &[RuleId::KMD_SUBMIT_008, RuleId::KMD_PREEMPT_005],
        &[RuleId::KMD_SUBMIT_008, RuleId::KMD_PREEMPT_002, RuleId::WT_STUCK_001],
    ),
    // An engine that was not reset still has its old work.
    (&[RuleId::KMD_TDR_006, RuleId::KMD_TDR_007], &[RuleId::KMD_PREEMPT_002, RuleId::WT_STUCK_001]),
    // Memory, an aperture or page tables that paging commands have left wrong.
    (
        &[
            RuleId::WT_BYTES_001,
            RuleId::WT_TABLES_001,
            RuleId::WT_FAULT_001,
            RuleId::KMD_PAGING_012,
            RuleId::KMD_PAGING_013,
            RuleId::KMD_PAGING_017,
            RuleId::KMD_PAGING_020,
            RuleId::KMD_PAGING_021,
            RuleId::KMD_PAGING_024,
            RuleId::KMD_PAGING_027,
            RuleId::KMD_PAGING_029,
        ],
        &[RuleId::WT_FAULT_001],
    ),
];

/// Whether a finding against the driver is in [`RESULTS`] for an earlier one.
pub(crate) fn results_from(first: &Finding, component: Component, rule: RuleId) -> bool {
    let drivers = (first.component, component) == (Component::Driver, Component::Driver);
    drivers
        && first.severity == Severity::Error
        && RESULTS
            .iter()
            .any(|(causes, results)| causes.contains(&first.rule) && results.contains(&rule))
}

/// The objects whose handles a driver has left NULL.
#[derive(Debug, Default)]
pub(crate) struct UnfilledObjects {
    /// Each with the index of the finding.
    objects: Vec<(Subject, usize)>,
    /// The last call that was given such a handle.
    call: Option<(u32, usize)>,
}

impl UnfilledObjects {
    /// The object whose handle the driver left NULL, if this event and rule say so.
    pub(crate) fn object_of(event: &Event, rule: RuleId) -> Option<Subject> {
        match (&event.kind, rule) {
            (EventKind::DriverHandleSet { of }, RuleId::KMD_ALLOC_001)
                if event.subject == Kind::DriverPointer.subject(0) =>
            {
                Some(*of)
            }
            (EventKind::ViewOpened { .. }, RuleId::KMD_OPEN_001) => Some(event.subject),
            _ => None,
        }
    }

    /// Adds an object, with the index of the finding about its handle.
    pub(crate) fn add(&mut self, object: Subject, finding: usize) {
        self.objects.push((object, finding));
    }

    /// Whether there is none, as in most flights.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Notes whether a call of the driver is given the handle of such an object.
    #[cold]
    pub(crate) fn note(&mut self, event: &Event) {
        if let (Some(call), Some(finding)) = (event.call, self.finding_about(event.subject)) {
            self.call = Some((call, finding));
        }
    }

    /// The finding about the handle from which a breach by this event follows.
    pub(crate) fn cause_of(&self, event: &Event) -> Option<usize> {
        let given = self.call.filter(|(call, _)| event.call == Some(*call));
        self.finding_about(event.subject).or(given.map(|(_, finding)| finding))
    }

    fn finding_about(&self, object: Subject) -> Option<usize> {
        self.objects.iter().find(|pair| pair.0 == object).map(|pair| pair.1)
    }
}
