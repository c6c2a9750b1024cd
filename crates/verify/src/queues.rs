//! Queues of paging work: their values rise, and they end whole.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadow;
use flight::{Event, RuleId, What, Who};

const DESTROY: &str = "D3DKMTDestroyPagingQueue";

/// The rules on queues.
pub(crate) static RULES: [Rule; 4] = [
    Rule { id: RuleId::PAGQ_LIFE_001, on: &["queue.destroyed"], check: drained },
    Rule { id: RuleId::PAGQ_LIFE_002, on: &["queue.destroyed"], check: unnamed },
    Rule { id: RuleId::PAGQ_LIFE_003, on: &["device.destroyed"], check: with_its_device },
    Rule { id: RuleId::PAGQ_LIFE_006, on: &["queue.given", "queue.signalled"], check: rising },
];

fn drained(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let Some(it) = shadow.queue() else { return Verdict::Aside };
    Verdict::kept_if(it.signalled == it.given, Who::Kernel, DESTROY, || {
        format!(
            "{} is gone at fence value {}, and work of it was to signal {}",
            event.subject, it.signalled, it.given
        )
    })
}

fn unnamed(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let Some(it) = shadow.queue() else { return Verdict::Aside };
    Verdict::kept_if(it.names == 0, Who::Kernel, DESTROY, || {
        format!("{} is gone, and {} of its two names can be used", event.subject, it.names)
    })
}

fn with_its_device(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let Some(it) = shadow.device() else { return Verdict::Aside };
    Verdict::kept_if(it.queues == 0, Who::Kernel, "D3DKMTDestroyDevice", || {
        format!("{} is gone, and has {} paging queues", event.subject, it.queues)
    })
}

fn rising(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let Some(it) = shadow.queue() else { return Verdict::Aside };
    let (before, value) = match event.what {
        What::QueueGiven { value, .. } => (it.given, value),
        What::QueueSignalled { value } => (it.signalled, value),
        _ => return Verdict::Aside,
    };
    Verdict::kept_if(value > before, Who::Kernel, "D3DKMTMakeResident", || {
        format!("{} has fence value {value} after {before}", event.subject)
    })
}
