//! Context allocations: rules on their residency while a packet runs and while an engine can save
//! into them.

use crate::follow_saved::owner;
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Event, RuleId, What, Who};

const CREATE: &str = "DxgkCbCreateContextAllocation";
const DESTROY: &str = "DxgkCbDestroyContextAllocation";
const BUILD: &str = "DxgkDdiBuildPagingBuffer";

/// The rules on allocations for contexts.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["packet.submitted", "paging.done"], RuleId::KMD_PAGING_018, initialised),
    Rule::on(&["packet.submitted", "memory.evicted"], RuleId::CB_CTXALLOC_006, in_place),
    Rule::on(&["packet.submitted"], RuleId::CB_CTXALLOC_007, shared_in_place),
    Rule::on(&["paging.built"], RuleId::CB_CTXALLOC_008, named),
    Rule::on(&["context-allocation.gone"], RuleId::CB_CTXALLOC_012, kept),
    Rule::on(&["paging.built", "context-allocation.updated"], RuleId::CB_CTXALLOC_016, updated),
];

fn initialised(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::PacketSubmitted { .. } => {
            let Some(it) = shadows.context(event.subject) else { return Verdict::Aside };
            let device = shadows.device(it.device);
            let shared = device.map_or(0, |device| device.saves.blank);
            if it.saves.all.is_empty() && device.is_none_or(|it| it.saves.all.is_empty()) {
                return Verdict::Aside;
            }
            let blank = it.saves.blank + shared;
            Verdict::kept_if(blank == 0, Who::Kernel, BUILD, || {
                format!(
                    "{} is given work, and {blank} of its allocations have no first bytes",
                    event.subject
                )
            })
        }
        What::PagingDone { operation, of, .. } => {
            let Some(it) = shadows.saved(of) else { return Verdict::Aside };
            let (first, late) = (operation == "init-context", operation == "transfer");
            if !first && !late {
                return Verdict::Aside;
            }
            Verdict::kept_if(it.initialised != first, Who::Kernel, BUILD, || {
                if first {
                    format!("{of} is given its first bytes again, and loses what was saved in it")
                } else {
                    format!("{of} is moved before it was given its first bytes")
                }
            })
        }
        _ => Verdict::Aside,
    }
}

fn in_place(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::PacketSubmitted { .. } => {
            let context = event.subject;
            let Some(it) = shadows.context(event.subject).filter(|it| !it.saves.all.is_empty())
            else {
                return Verdict::Aside;
            };
            // Those without their first bytes are another rule's.
            let missing = it.saves.unready.saturating_sub(it.saves.blank);
            Verdict::kept_if(missing == 0, Who::Kernel, CREATE, || {
                format!(
                    "a packet of {context} is submitted, and {missing} of its allocations are not there"
                )
            })
        }
        What::MemoryEvicted { why, .. } => {
            let Some(it) = shadows.saved(event.subject).filter(|_| why != "the call failed") else {
                return Verdict::Aside;
            };
            let flying = shadows.context(it.context).is_some_and(|it| it.in_flight > 0);
            Verdict::kept_if(it.on.is_empty() && !flying, Who::Kernel, CREATE, || {
                let of = owner(it.device, it.context);
                format!(
                    "{} leaves ({why}), and {of}, which saves into it, is running",
                    event.subject
                )
            })
        }
        _ => Verdict::Aside,
    }
}

fn shared_in_place(event: &Event, shadows: &Shadows) -> Verdict {
    let device = shadows.context(event.subject).and_then(|it| shadows.device(it.device));
    let Some(it) = device.filter(|it| !it.saves.all.is_empty()) else {
        return Verdict::Aside;
    };
    let missing = it.saves.unready.saturating_sub(it.saves.blank);
    Verdict::kept_if(missing == 0, Who::Kernel, CREATE, || {
        format!(
            "{} is given work, and {missing} allocations of its device's contexts are not there",
            event.subject
        )
    })
}

fn named(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PagingBuilt { operation, of, word, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = shadows.saved(of) else { return Verdict::Aside };
    Verdict::kept_if(it.word == *word, Who::Kernel, BUILD, || {
        format!("operation {operation} on {of} carries {word}, but its driver gave {}", it.word)
    })
}

fn kept(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.saved(event.subject) else { return Verdict::Aside };
    // What was taken out of memory before is judged there: packets that came later do not use it.
    let there = it.memory.placed.is_some();
    let flying = shadows.context(it.context).filter(|_| there).map_or(0, |it| it.in_flight);
    Verdict::kept_if(it.on.is_empty() && flying == 0, Who::Kernel, DESTROY, || {
        let of = event.subject;
        match it.on.first() {
            Some(node) => format!("{of} is gone, and {node} can still save into it"),
            None => format!("{of} is gone, and {flying} packets of its context are under way"),
        }
    })
}

fn updated(event: &Event, shadows: &Shadows) -> Verdict {
    const UPDATE: &str = "DxgkCbUpdateContextAllocation";
    match &event.what {
        What::PagingBuilt { operation, of, private, .. } if operation == "update-context" => {
            let Some(it) = shadows.saved(of) else { return Verdict::Aside };
            Verdict::kept_if(it.updating == Some(*private), Who::Kernel, UPDATE, || {
                format!("an update of {of} carries other private data than its driver gave")
            })
        }
        What::SavedUpdated {} => {
            let Some(it) = shadows.saved(event.subject) else { return Verdict::Aside };
            Verdict::kept_if(it.updating.is_none(), Who::Kernel, UPDATE, || {
                format!("a driver is answered before the update of {} is done", event.subject)
            })
        }
        _ => Verdict::Aside,
    }
}
