//! Paging queues: their fence values rise, and their work is done before they are destroyed.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, RuleId};

const DESTROY: &str = "D3DKMTDestroyPagingQueue";

/// The rules on queues.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["paging-queue.destroyed"], RuleId::PAGQ_LIFE_001, queue_drained),
    Rule::on(&["paging-queue.destroyed"], RuleId::PAGQ_LIFE_002, queue_handles_closed),
    Rule::on(&["device.destroyed"], RuleId::PAGQ_LIFE_003, queues_end_with_device),
    Rule::on(
        &["paging-queue.assigned", "paging-queue.signalled"],
        RuleId::PAGQ_LIFE_006,
        fence_values_rise,
    ),
];

fn queue_drained(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.paging_queue(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(it.signalled == it.last_assigned, Component::Kernel, DESTROY, || {
        format!(
            "{} is destroyed at fence value {}, and work of it was to signal {}",
            event.subject, it.signalled, it.last_assigned
        )
    })
}

fn queue_handles_closed(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.paging_queue(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(it.handles == 0, Component::Kernel, DESTROY, || {
        format!("{} is destroyed, and {} of its two handles can be used", event.subject, it.handles)
    })
}

fn queues_end_with_device(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.device(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(it.queues == 0, Component::Kernel, "D3DKMTDestroyDevice", || {
        format!("{} is destroyed, and has {} paging queues", event.subject, it.queues)
    })
}

fn fence_values_rise(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.paging_queue(event.subject) else { return Verdict::NotApplicable };
    let (before, value) = match event.kind {
        EventKind::PagingQueueAssigned { value, .. } => (it.last_assigned, value),
        EventKind::PagingQueueSignalled { value } => (it.signalled, value),
        _ => return Verdict::NotApplicable,
    };
    Verdict::holds_if(value > before, Component::Kernel, "D3DKMTMakeResident", || {
        format!("{} has fence value {value} after {before}", event.subject)
    })
}
