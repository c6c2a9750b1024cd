//! Residency: rules on reference counts, on reports to clients, and on offers.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use crate::shadow::memory::Memory;
use flight::{Component, Event, EventKind, RuleId};

const MAKE_RESIDENT: &str = "D3DKMTMakeResident";
const EVICT: &str = "D3DKMTEvict";

/// The rules on residency.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["residency.counted", "memory.evicted"], RuleId::RESID_MAKE_002, residency_counted),
    Rule::on(&["residency.requested"], RuleId::RESID_MAKE_003, all_or_nothing),
    Rule::on(&["residency.requested"], RuleId::RESID_MAKE_004, pending_or_resident),
    Rule::on(&["device.destroyed"], RuleId::RESID_MAKE_007, must_succeed_or_device_error),
    Rule::on(&["memory.evicted"], RuleId::RESID_EVICT_003, evict_if_necessary_last),
    Rule::on(&["memory.evicted"], RuleId::RESID_EVICT_005, not_written),
    Rule::on(&["offer.ready", "memory.evicted"], RuleId::RESID_OFFER_004, offered_after_work),
    Rule::on(&["offer.ended"], RuleId::RESID_OFFER_009, discard_reported),
    Rule::on(&["offer.ended"], RuleId::RESID_OFFER_010, reclaimed_comes_back),
    Rule::on(&["budget.queried"], RuleId::RESID_BUDGET_001, within_targets),
];

fn residency_counted(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::ResidencyCounted { queue, count, .. } => {
            let Some(it) = shadows.view(event.subject) else { return Verdict::NotApplicable };
            let before = it.resident;
            let next = if queue.is_some() { before.checked_add(1) } else { before.checked_sub(1) };
            Verdict::holds_if(next == Some(*count), Component::Kernel, MAKE_RESIDENT, || {
                let verb = if queue.is_some() { "made resident" } else { "evicted" };
                format!(
                    "{} is {verb} once, and its count goes from {before} to {count}",
                    event.subject
                )
            })
        }
        EventKind::MemoryEvicted { why, .. } => {
            // WINDOWS: without power nothing is in video memory, listed or not (documented for
            // level three); it is back before any use.
            const FINE: [&str; 5] =
                ["the call failed", "the CPU locks it", "it ends", "the power goes", LOST];
            let by_will = FINE.contains(&&**why);
            let it = shadows
                .allocation(event.subject)
                .filter(|_| !by_will)
                .map(|allocation| &*allocation.memory);
            let Some(it) = it else { return Verdict::NotApplicable };
            let offered = it.offer.is_some_and(|offer| offer.ready);
            Verdict::holds_if(it.resident_devices == 0 || offered, Component::Kernel, EVICT, || {
                format!(
                    "{} leaves its segment ({why}), and {} devices list it as what must be resident",
                    event.subject, it.resident_devices
                )
            })
        }
        _ => Verdict::NotApplicable,
    }
}

/// WINDOWS: a reset removes lost memory from every list (documented).
pub(crate) const LOST: &str = "its GPU was reset";

fn all_or_nothing(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::ResidencyRequested { views, result, trim, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.paging_queue(event.subject) else { return Verdict::NotApplicable };
    let failed = result == "no-memory";
    let expected = if failed { 0 } else { *views };
    let right = it.counted == expected && (*trim > 0) == failed;
    Verdict::holds_if(right, Component::Kernel, MAKE_RESIDENT, || {
        format!(
            "a request for {views} views returned {result}: {} of them were counted, and the \
             client is to trim {trim} bytes",
            it.counted
        )
    })
}

fn pending_or_resident(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::ResidencyRequested { result, value, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.paging_queue(event.subject) else { return Verdict::NotApplicable };
    let right = match &**result {
        "pending" => *value == it.last_assigned && *value > it.signalled,
        _ => *value == 0,
    };
    Verdict::holds_if(right, Component::Kernel, MAKE_RESIDENT, || {
        format!(
            "a request for residency returned {result} with fence value {value}: the last of \
             its queue is {}, and {} is signalled",
            it.last_assigned, it.signalled
        )
    })
}

fn must_succeed_or_device_error(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.device(event.subject).filter(|device| device.failed) else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(it.lost, Component::Kernel, MAKE_RESIDENT, || {
        let device = event.subject;
        format!("{device} requested residency that must succeed, which failed, and continued")
    })
}

fn evict_if_necessary_last(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::MemoryEvicted { why, .. } = &event.kind else { return Verdict::NotApplicable };
    let it = shadows.allocation(event.subject).filter(|_| why == "its client evicted it");
    let Some(it) = it.map(|allocation| &*allocation.memory) else { return Verdict::NotApplicable };
    Verdict::holds_if(!it.evict_if_necessary, Component::Kernel, EVICT, || {
        format!(
            "{} leaves at once, but the call that let go of it last would leave it until its \
             memory is needed",
            event.subject
        )
    })
}

fn not_written(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::MemoryEvicted { discard, why, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let it = shadows.allocation(event.subject).map(|allocation| &*allocation.memory);
    // A mapped allocation has its bytes in system memory: it is unmapped, not copied.
    let copies =
        |memory: &&Memory| memory.not_written && !memory.written && memory.backed && !memory.mapped;
    let Some(it) = it.filter(copies).filter(|_| why != "the call failed") else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(*discard || it.offer.is_some(), Component::Kernel, EVICT, || {
        format!(
            "{} is copied out, but a client promised that the GPU has not written to it",
            event.subject
        )
    })
}

fn offered_after_work(event: &Event, shadows: &Shadows) -> Verdict {
    const OFFER: &str = "D3DKMTOfferAllocations";
    match &event.kind {
        EventKind::OfferReady {} => {
            let Some(it) = shadows.view(event.subject) else { return Verdict::NotApplicable };
            let Some(device) = shadows.device(it.device) else { return Verdict::NotApplicable };
            let before =
                device.packets.iter().filter(|packet| packet.queued < it.memory.offered).count();
            Verdict::holds_if(before == 0, Component::Kernel, OFFER, || {
                format!(
                    "{} may be thrown away, and {before} packets from before its offer are under \
                     way",
                    event.subject
                )
            })
        }
        EventKind::MemoryEvicted { why, .. } if why == "it was offered" => {
            let Some(it) = shadows.allocation(event.subject) else { return Verdict::NotApplicable };
            let ready = it.memory.offer.is_some_and(|offer| offer.ready);
            Verdict::holds_if(ready, Component::Kernel, OFFER, || {
                format!("{} is thrown away, but no offer of it is in force", event.subject)
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn discard_reported(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::OfferEnded { discarded, .. } = event.kind else { return Verdict::NotApplicable };
    let memory = shadows.view(event.subject).and_then(|view| shadows.memory(view.allocation));
    let Some(it) = memory.and_then(|memory| memory.offer) else { return Verdict::NotApplicable };
    Verdict::holds_if(
        it.discarded == discarded,
        Component::Kernel,
        "D3DKMTReclaimAllocations",
        || {
            let were = if it.discarded { "were" } else { "were not" };
            format!(
                "{} is taken back with Discarded {discarded}, but its bytes {were} thrown away",
                event.subject
            )
        },
    )
}

fn reclaimed_comes_back(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::OfferEnded { queue: Some(queue), value, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let memory = shadows.view(event.subject).and_then(|view| shadows.memory(view.allocation));
    let Some(it) = memory.filter(|memory| memory.resident_devices > 0) else {
        return Verdict::NotApplicable;
    };
    let place = it.location.map(|segment_address| segment_address.segment);
    let comes = place.is_some() && place != it.segment;
    Verdict::holds_if(!comes || value > 0, Component::Kernel, "D3DKMTReclaimAllocations2", || {
        format!(
            "{} is taken back and comes again, but its client gets no fence value of {queue} to \
             wait for",
            event.subject
        )
    })
}

fn within_targets(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::BudgetQueried { adapter, local, budget, reservable, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.adapter(adapter) else { return Verdict::NotApplicable };
    let limit = it.budget_bytes(local);
    let right = budget <= limit && reservable <= budget;
    Verdict::holds_if(right, Component::Kernel, "D3DKMTQueryVideoMemoryInfo", || {
        format!(
            "{} may use {budget:#x} bytes and reserve {reservable:#x}, but the segments for \
             applications of {adapter} have {limit:#x}",
            event.subject
        )
    })
}
