//! Locks: rules on which allocations the CPU may lock, and on what may be moved for a lock.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, RuleId};

const LOCK: &str = "D3DKMTLock";
const LOCK2: &str = "D3DKMTLock2";

/// The rules on locks.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["lock.acquired"], RuleId::ALLOC_LOCK_005, lock_cpu_visible),
    Rule::on(&["lock.acquired"], RuleId::ALLOC_LOCK_006, lock_by_creator),
    Rule::on(&["lock.acquired"], RuleId::ALLOC_LOCK_012, do_not_wait_respected),
    Rule::on(&["memory.evicted"], RuleId::ALLOC_LOCK_013, do_not_evict_respected),
    Rule::on(&["memory.evicted"], RuleId::ALLOC_LOCK_014, pinned_cannot_be_evicted),
    Rule::on(&["lock.ended"], RuleId::ALLOC_LOCK_015, cpu_view_follows),
    Rule::on(&["lock.acquired"], RuleId::ALLOC_LOCK_019, cached_in_aperture_or_evicted),
    Rule::on(&["memory.placed"], RuleId::ALLOC_LOCK_021, not_committed_while_locked),
    Rule::on(&["lock.acquired", "wait.parked"], RuleId::ALLOC_LOCK_022, lock_after_reclaim),
    Rule::on(&["lock.ended"], RuleId::ALLOC_DESTROY_022, unlocked_before_release),
    Rule::on(&["memory.evicted"], RuleId::KMD_FLAGS_012, capture_stays_pinned),
];

const FOR_A_LOCK: &str = "the CPU locks it";

fn lock_cpu_visible(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.view(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(it.requirements.cpu_visible, Component::Kernel, LOCK, || {
        format!(
            "{} is locked, but the driver did not say that the CPU may see {}",
            event.subject, it.allocation
        )
    })
}

fn lock_by_creator(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.view(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(it.creator, Component::Kernel, LOCK, || {
        format!("{} locks {}, which another process created", it.device, it.allocation)
    })
}

fn do_not_wait_respected(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::LockAcquired { do_not_wait: true, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.view(event.subject) else { return Verdict::NotApplicable };
    let Some(device) = shadows.device(it.device) else { return Verdict::NotApplicable };
    let before =
        device.packets.iter().filter(|packet| packet.queued < it.memory.lock_requested).count();
    Verdict::holds_if(before == 0, Component::Kernel, LOCK, || {
        format!(
            "{} is locked with DonotWait, and {before} packets of {} are under way",
            event.subject, it.device
        )
    })
}

fn do_not_evict_respected(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::MemoryEvicted { why, .. } = &event.kind else { return Verdict::NotApplicable };
    let Some(it) = shadows.lockable(event.subject).filter(|_| why == FOR_A_LOCK) else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(!it.do_not_evict, Component::Kernel, LOCK, || {
        format!("{} is moved for a lock with DonotEvict", event.subject)
    })
}

fn pinned_cannot_be_evicted(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::MemoryEvicted { why, .. } = &event.kind else { return Verdict::NotApplicable };
    let Some(it) = shadows.lockable(event.subject).filter(|_| why == FOR_A_LOCK) else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(!it.requirements.pinned, Component::Kernel, LOCK, || {
        format!("{} is moved for a lock, but is pinned", event.subject)
    })
}

fn cpu_view_follows(event: &Event, shadows: &Shadows) -> Verdict {
    let view = shadows.view(event.subject);
    let locked = view.map_or(event.subject, |view| view.allocation.into());
    let Some(it) = shadows.lockable(locked) else { return Verdict::NotApplicable };
    // While it moves, the view is where it was.
    let settled = it.location.map(|segment_address| segment_address.segment) == it.segment;
    Verdict::holds_if(!settled || it.cpu_view_current == it.local, Component::Kernel, LOCK, || {
        let (bytes, view) = if it.local { ("a", "not there") } else { ("no", "there") };
        format!(
            "{} is locked: its bytes are in {bytes} memory segment, and its view is {view}",
            event.subject
        )
    })
}

fn cached_in_aperture_or_evicted(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::LockAcquired { location: place, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.view(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(
        !it.requirements.cached || place != "memory",
        Component::Kernel,
        LOCK2,
        || format!("{} is cached, and is locked while it is in a memory segment", it.allocation),
    )
}

fn not_committed_while_locked(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::MemoryPlaced { segment, .. } = event.kind else { return Verdict::NotApplicable };
    let Some((it, to)) = shadows.lockable(event.subject).zip(shadows.segment(segment)) else {
        return Verdict::NotApplicable;
    };
    // The page is about those that cannot use an aperture; locked memory is never copied here.
    let locked = it.locks > 0 && it.outside;
    Verdict::holds_if(!locked || to.aperture, Component::Kernel, LOCK2, || {
        format!("{} comes to {segment} while it is locked outside of memory", event.subject)
    })
}

fn lock_after_reclaim(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::LockAcquired { .. }
            if shadows.view(event.subject).is_some_and(|view| view.memory.reclaimed) =>
        {
            Verdict::Holds
        }
        EventKind::WaitParked { why } => {
            let it =
                shadows.allocation(event.subject).filter(|allocation| allocation.memory.reclaimed);
            let Some(_) = it else { return Verdict::NotApplicable };
            Verdict::broken(
                Component::Kernel,
                LOCK2.into(),
                format!("{} was taken back, and a lock of it waits for {why}", event.subject),
            )
        }
        _ => Verdict::NotApplicable,
    }
}

fn unlocked_before_release(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::LockEnded { dropped, .. } = event.kind else { return Verdict::NotApplicable };
    let of = shadows.view(event.subject).map(|view| view.allocation);
    let of = of.or(shadows.instance(event.subject).map(|instance| instance.allocation));
    let Some(of) = of else { return Verdict::NotApplicable };
    // The end of its process, or of the adapter, is no call of the client that releases it.
    let view = shadows.view(event.subject).map(|view| view.device);
    let device = view.or_else(|| Some(shadows.allocation(of)?.creator));
    let process = device.and_then(|device| shadows.process(shadows.device(device)?.process?));
    if dropped && process.is_some_and(|process| !process.is_calling(event.thread)) {
        return Verdict::NotApplicable;
    }
    Verdict::holds_if(!dropped, Component::Client, "D3DKMTDestroyAllocation2", || {
        format!("{} of {of} ends while it is locked", event.subject)
    })
}

/// Why a pinned allocation may leave its segment.
///
/// WINDOWS: a reset and level three calls, of which a power transition is one (documented).
const MAY_LEAVE: [&str; 4] =
    ["the call failed", "it ends", "the power goes", crate::residency::LOST];

fn capture_stays_pinned(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::MemoryEvicted { why, .. } = &event.kind else { return Verdict::NotApplicable };
    let ends = MAY_LEAVE.contains(&&**why);
    let Some(it) = shadows.lockable(event.subject).filter(|_| !ends) else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(!it.requirements.pinned, Component::Kernel, "DxgkDdiCreateAllocation", || {
        format!("{} leaves its segment ({why}), but is pinned", event.subject)
    })
}
