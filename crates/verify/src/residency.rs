//! Residency: rules on what clients count, on what they are told, and on offers.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use crate::shadow::memory::Memory;
use flight::{Event, RuleId, What, Who};

const MAKE: &str = "D3DKMTMakeResident";
const EVICT: &str = "D3DKMTEvict";

/// The rules on residency.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["resident.counted", "memory.evicted"], RuleId::RESID_MAKE_002, counted),
    Rule::on(&["resident.asked"], RuleId::RESID_MAKE_003, all_or_nothing),
    Rule::on(&["resident.asked"], RuleId::RESID_MAKE_004, pending),
    Rule::on(&["device.destroyed"], RuleId::RESID_MAKE_007, fails),
    Rule::on(&["memory.evicted"], RuleId::RESID_EVICT_003, if_necessary),
    Rule::on(&["memory.evicted"], RuleId::RESID_EVICT_005, not_written),
    Rule::on(&["offer.ready", "memory.evicted"], RuleId::RESID_OFFER_004, after_work),
    Rule::on(&["offer.ended"], RuleId::RESID_OFFER_009, thrown),
    Rule::on(&["offer.ended"], RuleId::RESID_OFFER_010, comes_back),
    Rule::on(&["budget.told"], RuleId::RESID_BUDGET_001, within_targets),
];

fn counted(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::ResidentCounted { queue, count, .. } => {
            let Some(it) = shadows.view(event.subject) else { return Verdict::Aside };
            let before = it.resident;
            let next = if queue.is_some() { before.checked_add(1) } else { before.checked_sub(1) };
            Verdict::kept_if(next == Some(*count), Who::Kernel, MAKE, || {
                let verb = if queue.is_some() { "made resident" } else { "evicted" };
                format!(
                    "{} is {verb} once, and its count goes from {before} to {count}",
                    event.subject
                )
            })
        }
        What::MemoryEvicted { why, .. } => {
            // WINDOWS: without power nothing is in video memory, listed or not (documented for
            // level three); it is back before anybody can use it.
            const FINE: [&str; 5] =
                ["the call failed", "the CPU locks it", "it ends", "the power goes", LOST];
            let by_will = FINE.contains(&&**why);
            let it = shadows.allocation(event.subject).filter(|_| !by_will).map(|it| &it.memory);
            let Some(it) = it else { return Verdict::Aside };
            let offered = it.offer.is_some_and(|it| it.ready);
            Verdict::kept_if(it.listed == 0 || offered, Who::Kernel, EVICT, || {
                format!(
                    "{} leaves its segment ({why}), and {} devices list it as what must be resident",
                    event.subject, it.listed
                )
            })
        }
        _ => Verdict::Aside,
    }
}

/// WINDOWS: what a reset has lost is gone, whoever lists it (documented).
const LOST: &str = "its GPU was reset";

fn all_or_nothing(event: &Event, shadows: &Shadows) -> Verdict {
    let What::ResidentAsked { views, answer, trim, .. } = &event.what else {
        return Verdict::Aside;
    };
    let Some(it) = shadows.queue(event.subject) else { return Verdict::Aside };
    let failed = answer == "no-memory";
    let expected = if failed { 0 } else { *views };
    let right = it.counted == expected && (*trim > 0) == failed;
    Verdict::kept_if(right, Who::Kernel, MAKE, || {
        format!(
            "a request for {views} views is answered {answer}: {} of them were counted, and the \
             client is to trim {trim} bytes",
            it.counted
        )
    })
}

fn pending(event: &Event, shadows: &Shadows) -> Verdict {
    let What::ResidentAsked { answer, value, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = shadows.queue(event.subject) else { return Verdict::Aside };
    let right = match &**answer {
        "pending" => *value == it.given && *value > it.signalled,
        _ => *value == 0,
    };
    Verdict::kept_if(right, Who::Kernel, MAKE, || {
        format!(
            "a request for residency is answered {answer} with fence value {value}: the last of \
             its queue is {}, and {} is signalled",
            it.given, it.signalled
        )
    })
}

fn fails(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.device(event.subject).filter(|it| it.failed) else {
        return Verdict::Aside;
    };
    Verdict::kept_if(it.lost, Who::Kernel, MAKE, || {
        let device = event.subject;
        format!("{device} asked for residency that must succeed, did not get it, and went on")
    })
}

fn if_necessary(event: &Event, shadows: &Shadows) -> Verdict {
    let What::MemoryEvicted { why, .. } = &event.what else { return Verdict::Aside };
    let it = shadows.allocation(event.subject).filter(|_| why == "its client evicted it");
    let Some(it) = it.map(|it| &it.memory) else { return Verdict::Aside };
    Verdict::kept_if(!it.lazily, Who::Kernel, EVICT, || {
        format!(
            "{} leaves at once, but the call that let go of it last would leave it until its \
             memory is needed",
            event.subject
        )
    })
}

fn not_written(event: &Event, shadows: &Shadows) -> Verdict {
    let What::MemoryEvicted { discard, why, .. } = &event.what else { return Verdict::Aside };
    let it = shadows.allocation(event.subject).map(|it| &it.memory);
    // What is mapped has its bytes in the system's memory: it is unmapped, not copied.
    let copies = |it: &&Memory| it.clean && !it.written && it.backed && !it.mapped;
    let Some(it) = it.filter(copies).filter(|_| why != "the call failed") else {
        return Verdict::Aside;
    };
    Verdict::kept_if(*discard || it.offer.is_some(), Who::Kernel, EVICT, || {
        format!(
            "{} is copied out, but a client said that the GPU has not written to it",
            event.subject
        )
    })
}

fn after_work(event: &Event, shadows: &Shadows) -> Verdict {
    const OFFER: &str = "D3DKMTOfferAllocations";
    match &event.what {
        What::OfferReady {} => {
            let Some(it) = shadows.view(event.subject) else { return Verdict::Aside };
            let Some(device) = shadows.device(it.device) else { return Verdict::Aside };
            let before = device.packets.iter().filter(|packet| packet.queued < it.offered).count();
            Verdict::kept_if(before == 0, Who::Kernel, OFFER, || {
                format!(
                    "{} may be thrown away, and {before} packets from before its offer are under \
                     way",
                    event.subject
                )
            })
        }
        What::MemoryEvicted { why, .. } if why == "it was offered" => {
            let Some(it) = shadows.allocation(event.subject) else { return Verdict::Aside };
            let ready = it.memory.offer.is_some_and(|it| it.ready);
            Verdict::kept_if(ready, Who::Kernel, OFFER, || {
                format!("{} is thrown away, but no offer of it is in force", event.subject)
            })
        }
        _ => Verdict::Aside,
    }
}

fn thrown(event: &Event, shadows: &Shadows) -> Verdict {
    let What::OfferEnded { discarded, .. } = event.what else { return Verdict::Aside };
    let memory = shadows.view(event.subject).and_then(|view| shadows.memory(view.allocation));
    let Some(it) = memory.and_then(|memory| memory.offer) else { return Verdict::Aside };
    Verdict::kept_if(it.discarded == discarded, Who::Kernel, "D3DKMTReclaimAllocations", || {
        let were = if it.discarded { "were" } else { "were not" };
        format!(
            "{} is taken back with Discarded {discarded}, but its bytes {were} thrown away",
            event.subject
        )
    })
}

fn comes_back(event: &Event, shadows: &Shadows) -> Verdict {
    let What::OfferEnded { queue: Some(queue), value, .. } = event.what else {
        return Verdict::Aside;
    };
    let memory = shadows.view(event.subject).and_then(|view| shadows.memory(view.allocation));
    let Some(it) = memory.filter(|memory| memory.listed > 0) else { return Verdict::Aside };
    let place = it.placed.map(|it| it.segment);
    let comes = place.is_some() && place != it.there;
    Verdict::kept_if(!comes || value > 0, Who::Kernel, "D3DKMTReclaimAllocations2", || {
        format!(
            "{} is taken back and comes again, but its client gets no fence value of {queue} to \
             wait for",
            event.subject
        )
    })
}

fn within_targets(event: &Event, shadows: &Shadows) -> Verdict {
    let What::BudgetTold { adapter, local, budget, reservable, .. } = event.what else {
        return Verdict::Aside;
    };
    let Some(it) = shadows.adapter(adapter) else { return Verdict::Aside };
    let most = it.most(local);
    let right = budget <= most && reservable <= budget;
    Verdict::kept_if(right, Who::Kernel, "D3DKMTQueryVideoMemoryInfo", || {
        format!(
            "{} may use {budget:#x} bytes and reserve {reservable:#x}, but the segments for \
             applications of {adapter} have {most:#x}",
            event.subject
        )
    })
}
