//! Context allocations: rules on their residency while a packet runs and while an engine can save
//! into them.

use crate::follow_context_allocation::owner;
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, RuleId};

const CREATE: &str = "DxgkCbCreateContextAllocation";
const DESTROY: &str = "DxgkCbDestroyContextAllocation";
const BUILD: &str = "DxgkDdiBuildPagingBuffer";

/// The rules on allocations for contexts.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["packet.submitted", "paging.done"], RuleId::KMD_PAGING_018, initialised),
    Rule::on(
        &["packet.submitted", "memory.evicted"],
        RuleId::CB_CTXALLOC_006,
        resident_while_current,
    ),
    Rule::on(&["packet.submitted"], RuleId::CB_CTXALLOC_007, shared_in_place),
    Rule::on(&["paging.built"], RuleId::CB_CTXALLOC_008, paging_has_driver_handle),
    Rule::on(&["context-allocation.destroyed"], RuleId::CB_CTXALLOC_012, kept_until_unused),
    Rule::on(
        &["paging.built", "context-allocation.updated"],
        RuleId::CB_CTXALLOC_016,
        update_completed,
    ),
];

fn initialised(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::PacketSubmitted { .. } => {
            let Some(it) = shadows.context(event.subject) else { return Verdict::NotApplicable };
            let device = shadows.device(it.device);
            let shared = device.map_or(0, |device| device.saves.uninitialised);
            if it.saves.all.is_empty() && device.is_none_or(|device| device.saves.all.is_empty()) {
                return Verdict::NotApplicable;
            }
            let uninitialised = it.saves.uninitialised + shared;
            Verdict::holds_if(uninitialised == 0, Component::Kernel, BUILD, || {
                format!(
                    "{} is given work, and {uninitialised} of its allocations have no first bytes",
                    event.subject
                )
            })
        }
        EventKind::PagingDone { operation, of, .. } => {
            let Some(it) = shadows.context_allocation(of) else { return Verdict::NotApplicable };
            let (first, late) = (operation == "init-context", operation == "transfer");
            if !first && !late {
                return Verdict::NotApplicable;
            }
            Verdict::holds_if(it.initialised != first, Component::Kernel, BUILD, || {
                if first {
                    format!("{of} is given its first bytes again, and loses what was saved in it")
                } else {
                    format!("{of} is moved before it was given its first bytes")
                }
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn resident_while_current(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::PacketSubmitted { .. } => {
            let context = event.subject;
            let Some(it) =
                shadows.context(event.subject).filter(|context| !context.saves.all.is_empty())
            else {
                return Verdict::NotApplicable;
            };
            // Another rule judges those without their first bytes.
            let missing = it.saves.unready.saturating_sub(it.saves.uninitialised);
            Verdict::holds_if(missing == 0, Component::Kernel, CREATE, || {
                format!(
                    "a packet of {context} is submitted, and {missing} of its allocations are not there"
                )
            })
        }
        EventKind::MemoryEvicted { why, .. } => {
            let Some(it) =
                shadows.context_allocation(event.subject).filter(|_| why != "the call failed")
            else {
                return Verdict::NotApplicable;
            };
            let flying = shadows.context(it.context).is_some_and(|context| context.in_flight > 0);
            Verdict::holds_if(it.on.is_empty() && !flying, Component::Kernel, CREATE, || {
                let of = owner(it.device, it.context);
                format!(
                    "{} leaves ({why}), and {of}, which saves into it, is running",
                    event.subject
                )
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn shared_in_place(event: &Event, shadows: &Shadows) -> Verdict {
    let device = shadows.context(event.subject).and_then(|context| shadows.device(context.device));
    let Some(it) = device.filter(|device| !device.saves.all.is_empty()) else {
        return Verdict::NotApplicable;
    };
    let missing = it.saves.unready.saturating_sub(it.saves.uninitialised);
    Verdict::holds_if(missing == 0, Component::Kernel, CREATE, || {
        format!(
            "{} is given work, and {missing} allocations of its device's contexts are not there",
            event.subject
        )
    })
}

fn paging_has_driver_handle(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PagingBuilt { operation, of, driver_handle, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.context_allocation(of) else { return Verdict::NotApplicable };
    Verdict::holds_if(it.driver_handle == *driver_handle, Component::Kernel, BUILD, || {
        format!(
            "operation {operation} on {of} carries {driver_handle}, but its driver gave {}",
            it.driver_handle
        )
    })
}

fn kept_until_unused(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.context_allocation(event.subject) else { return Verdict::NotApplicable };
    // An earlier eviction is judged there: packets submitted later do not use it.
    let there = it.memory.location.is_some();
    let flying =
        shadows.context(it.context).filter(|_| there).map_or(0, |context| context.in_flight);
    Verdict::holds_if(it.on.is_empty() && flying == 0, Component::Kernel, DESTROY, || {
        let of = event.subject;
        match it.on.first() {
            Some(node) => format!("{of} is destroyed, and {node} can still save into it"),
            None => format!("{of} is destroyed, and {flying} packets of its context are under way"),
        }
    })
}

fn update_completed(event: &Event, shadows: &Shadows) -> Verdict {
    const UPDATE: &str = "DxgkCbUpdateContextAllocation";
    match &event.kind {
        EventKind::PagingBuilt { operation, of, private, .. } if operation == "update-context" => {
            let Some(it) = shadows.context_allocation(of) else { return Verdict::NotApplicable };
            Verdict::holds_if(it.updating == Some(*private), Component::Kernel, UPDATE, || {
                format!("an update of {of} carries other private data than its driver gave")
            })
        }
        EventKind::ContextAllocationUpdated {} => {
            let Some(it) = shadows.context_allocation(event.subject) else {
                return Verdict::NotApplicable;
            };
            Verdict::holds_if(it.updating.is_none(), Component::Kernel, UPDATE, || {
                format!("a driver's call returned before the update of {} is done", event.subject)
            })
        }
        _ => Verdict::NotApplicable,
    }
}
