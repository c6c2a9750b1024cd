//! What drivers keep for their contexts: there when a packet runs, and as long as an engine can
//! save into it.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadow;
use flight::{Event, RuleId, What, Who};

const CREATE: &str = "DxgkCbCreateContextAllocation";
const DESTROY: &str = "DxgkCbDestroyContextAllocation";
const BUILD: &str = "DxgkDdiBuildPagingBuffer";

/// The rules on allocations for contexts.
pub(crate) static RULES: [Rule; 6] = [
    Rule {
        id: RuleId::KMD_PAGING_018,
        on: &["packet.submitted", "paging.done"],
        check: initialised,
    },
    Rule {
        id: RuleId::CB_CTXALLOC_006,
        on: &["packet.submitted", "memory.evicted"],
        check: in_place,
    },
    Rule { id: RuleId::CB_CTXALLOC_007, on: &["packet.submitted"], check: shared_in_place },
    Rule { id: RuleId::CB_CTXALLOC_008, on: &["paging.built"], check: named },
    Rule { id: RuleId::CB_CTXALLOC_012, on: &["context-allocation.gone"], check: kept },
    Rule {
        id: RuleId::CB_CTXALLOC_016,
        on: &["paging.built", "context-allocation.updated"],
        check: updated,
    },
];

fn initialised(event: &Event, shadow: &Shadow, owner: &Shadow) -> Verdict {
    match &event.what {
        What::PacketSubmitted { .. } => {
            let Some(it) = shadow.context() else { return Verdict::Aside };
            let shared = owner.device().map_or(0, |it| it.saves.blank);
            if it.saves.all.is_empty() && owner.device().is_none_or(|it| it.saves.all.is_empty()) {
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
            let Some(it) = owner.saved() else { return Verdict::Aside };
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

fn in_place(event: &Event, shadow: &Shadow, owner: &Shadow) -> Verdict {
    match &event.what {
        What::PacketSubmitted { .. } => {
            let context = event.subject;
            let Some(it) = shadow.context().filter(|it| !it.saves.all.is_empty()) else {
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
            let Some(it) = shadow.saved().filter(|_| why != "the call failed") else {
                return Verdict::Aside;
            };
            let flying = owner.context().is_some_and(|it| it.in_flight > 0);
            Verdict::kept_if(it.on.is_empty() && !flying, Who::Kernel, CREATE, || {
                let of = it.context.unwrap_or(it.device);
                format!(
                    "{} leaves ({why}), and {of}, which saves into it, is running",
                    event.subject
                )
            })
        }
        _ => Verdict::Aside,
    }
}

fn shared_in_place(event: &Event, _shadow: &Shadow, owner: &Shadow) -> Verdict {
    let Some(it) = owner.device().filter(|it| !it.saves.all.is_empty()) else {
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

fn named(event: &Event, _shadow: &Shadow, owner: &Shadow) -> Verdict {
    let What::PagingBuilt { operation, of, word, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = owner.saved() else { return Verdict::Aside };
    Verdict::kept_if(it.word == *word, Who::Kernel, BUILD, || {
        format!("operation {operation} on {of} carries {word}, but its driver gave {}", it.word)
    })
}

fn kept(event: &Event, shadow: &Shadow, owner: &Shadow) -> Verdict {
    let Some(it) = shadow.saved() else { return Verdict::Aside };
    // What was taken out of memory before is judged there: packets that came later do not use it.
    let there = shadow.memory().is_some_and(|it| it.placed.is_some());
    let flying = owner.context().filter(|_| there).map_or(0, |it| it.in_flight);
    Verdict::kept_if(it.on.is_empty() && flying == 0, Who::Kernel, DESTROY, || {
        let of = event.subject;
        match it.on.first() {
            Some(node) => format!("{of} is gone, and {node} can still save into it"),
            None => format!("{of} is gone, and {flying} packets of its context are under way"),
        }
    })
}

fn updated(event: &Event, shadow: &Shadow, owner: &Shadow) -> Verdict {
    const UPDATE: &str = "DxgkCbUpdateContextAllocation";
    match &event.what {
        What::PagingBuilt { operation, of, private, .. } if operation == "update-context" => {
            let Some(it) = owner.saved() else { return Verdict::Aside };
            Verdict::kept_if(it.updating == Some(*private), Who::Kernel, UPDATE, || {
                format!("an update of {of} carries other private data than its driver gave")
            })
        }
        What::SavedUpdated {} => {
            let Some(it) = shadow.saved() else { return Verdict::Aside };
            Verdict::kept_if(it.updating.is_none(), Who::Kernel, UPDATE, || {
                format!("a driver is answered before the update of {} is done", event.subject)
            })
        }
        _ => Verdict::Aside,
    }
}
