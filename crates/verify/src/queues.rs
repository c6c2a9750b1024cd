//! Paging queues: their fence values rise, and their work is done before they are destroyed.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Event, RuleId, What, Who};

const DESTROY: &str = "D3DKMTDestroyPagingQueue";

/// The rules on queues.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["queue.destroyed"], RuleId::PAGQ_LIFE_001, drained),
    Rule::on(&["queue.destroyed"], RuleId::PAGQ_LIFE_002, unnamed),
    Rule::on(&["device.destroyed"], RuleId::PAGQ_LIFE_003, with_its_device),
    Rule::on(&["queue.given", "queue.signalled"], RuleId::PAGQ_LIFE_006, rising),
];

fn drained(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.queue(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(it.signalled == it.given, Who::Kernel, DESTROY, || {
        format!(
            "{} is gone at fence value {}, and work of it was to signal {}",
            event.subject, it.signalled, it.given
        )
    })
}

fn unnamed(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.queue(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(it.names == 0, Who::Kernel, DESTROY, || {
        format!("{} is gone, and {} of its two names can be used", event.subject, it.names)
    })
}

fn with_its_device(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.device(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(it.queues == 0, Who::Kernel, "D3DKMTDestroyDevice", || {
        format!("{} is gone, and has {} paging queues", event.subject, it.queues)
    })
}

fn rising(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.queue(event.subject) else { return Verdict::Aside };
    let (before, value) = match event.what {
        What::QueueGiven { value, .. } => (it.given, value),
        What::QueueSignalled { value } => (it.signalled, value),
        _ => return Verdict::Aside,
    };
    Verdict::kept_if(value > before, Who::Kernel, "D3DKMTMakeResident", || {
        format!("{} has fence value {value} after {before}", event.subject)
    })
}
