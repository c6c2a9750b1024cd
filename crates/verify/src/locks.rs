//! Locks: rules on which allocations the CPU may lock, and on what may be moved for a lock.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Event, RuleId, What, Who};

const LOCK: &str = "D3DKMTLock";
const LOCK2: &str = "D3DKMTLock2";

/// The rules on locks.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["lock.taken"], RuleId::ALLOC_LOCK_005, visible),
    Rule::on(&["lock.taken"], RuleId::ALLOC_LOCK_006, creator),
    Rule::on(&["lock.taken"], RuleId::ALLOC_LOCK_012, hurries),
    Rule::on(&["memory.evicted"], RuleId::ALLOC_LOCK_013, still),
    Rule::on(&["memory.evicted"], RuleId::ALLOC_LOCK_014, pinned),
    Rule::on(&["lock.ended"], RuleId::ALLOC_LOCK_015, follows),
    Rule::on(&["lock.taken"], RuleId::ALLOC_LOCK_019, cached),
    Rule::on(&["memory.placed"], RuleId::ALLOC_LOCK_021, stays),
    Rule::on(&["lock.taken", "wait.parked"], RuleId::ALLOC_LOCK_022, at_once),
    Rule::on(&["lock.ended"], RuleId::ALLOC_DESTROY_022, unlocked),
    Rule::on(&["memory.evicted"], RuleId::KMD_FLAGS_012, never_moves),
];

const FOR_A_LOCK: &str = "the CPU locks it";

fn visible(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.view(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(it.wanted.seen, Who::Kernel, LOCK, || {
        format!(
            "{} is locked, but the driver did not say that the CPU may see {}",
            event.subject, it.allocation
        )
    })
}

fn creator(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.view(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(it.creator, Who::Kernel, LOCK, || {
        format!("{} locks {}, which another device created", it.device, it.allocation)
    })
}

fn hurries(event: &Event, shadows: &Shadows) -> Verdict {
    let What::LockTaken { hurries: true, .. } = event.what else { return Verdict::Aside };
    let Some(it) = shadows.view(event.subject) else { return Verdict::Aside };
    let Some(device) = shadows.device(it.device) else { return Verdict::Aside };
    let before = device.packets.iter().filter(|packet| packet.queued < it.lock_asked).count();
    Verdict::kept_if(before == 0, Who::Kernel, LOCK, || {
        format!(
            "{} is locked with DonotWait, and {before} packets of {} are under way",
            event.subject, it.device
        )
    })
}

fn still(event: &Event, shadows: &Shadows) -> Verdict {
    let What::MemoryEvicted { why, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = shadows.lockable(event.subject).filter(|_| why == FOR_A_LOCK) else {
        return Verdict::Aside;
    };
    Verdict::kept_if(!it.still, Who::Kernel, LOCK, || {
        format!("{} is moved for a lock with DonotEvict", event.subject)
    })
}

fn pinned(event: &Event, shadows: &Shadows) -> Verdict {
    let What::MemoryEvicted { why, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = shadows.lockable(event.subject).filter(|_| why == FOR_A_LOCK) else {
        return Verdict::Aside;
    };
    Verdict::kept_if(!it.wanted.pinned, Who::Kernel, LOCK, || {
        format!("{} is moved for a lock, but is pinned", event.subject)
    })
}

fn follows(event: &Event, shadows: &Shadows) -> Verdict {
    let view = shadows.view(event.subject);
    let locked = view.map_or(event.subject, |view| view.allocation.into());
    let Some(it) = shadows.lockable(locked) else { return Verdict::Aside };
    // While it moves, the view is where it was.
    let settled = it.placed.map(|it| it.segment) == it.there;
    Verdict::kept_if(!settled || it.aimed == it.local, Who::Kernel, LOCK, || {
        let (bytes, view) = if it.local { ("a", "not there") } else { ("no", "there") };
        format!(
            "{} is locked: its bytes are in {bytes} memory segment, and its view is {view}",
            event.subject
        )
    })
}

fn cached(event: &Event, shadows: &Shadows) -> Verdict {
    let What::LockTaken { place, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = shadows.view(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(!it.wanted.cached || place != "memory", Who::Kernel, LOCK2, || {
        format!("{} is cached, and is locked while it is in a memory segment", it.allocation)
    })
}

fn stays(event: &Event, shadows: &Shadows) -> Verdict {
    let What::MemoryPlaced { segment, .. } = event.what else { return Verdict::Aside };
    let Some((it, to)) = shadows.lockable(event.subject).zip(shadows.segment(segment)) else {
        return Verdict::Aside;
    };
    // The page speaks of those without an aperture to go to; what is locked is never copied here.
    let locked = it.locks > 0 && it.outside;
    Verdict::kept_if(!locked || to.aperture, Who::Kernel, LOCK2, || {
        format!("{} comes to {segment} while it is locked outside of memory", event.subject)
    })
}

fn at_once(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::LockTaken { .. } if shadows.view(event.subject).is_some_and(|it| it.reclaimed) => {
            Verdict::Kept
        }
        What::WaitParked { why } => {
            let it = shadows.allocation(event.subject).filter(|it| it.memory.reclaimed);
            let Some(_) = it else { return Verdict::Aside };
            Verdict::Broken(
                Who::Kernel,
                LOCK2.into(),
                format!("{} was taken back, and a lock of it waits for {why}", event.subject),
            )
        }
        _ => Verdict::Aside,
    }
}

fn unlocked(event: &Event, shadows: &Shadows) -> Verdict {
    let What::LockEnded { dropped, .. } = event.what else { return Verdict::Aside };
    let of = shadows.view(event.subject).map(|it| it.allocation);
    let of = of.or(shadows.instance(event.subject).map(|it| it.allocation));
    let Some(of) = of else { return Verdict::Aside };
    Verdict::kept_if(!dropped, Who::Client, "D3DKMTDestroyAllocation2", || {
        format!("{} of {of} ends while it is locked", event.subject)
    })
}

fn never_moves(event: &Event, shadows: &Shadows) -> Verdict {
    let What::MemoryEvicted { why, .. } = &event.what else { return Verdict::Aside };
    let ends = ["the call failed", "it ends"].contains(&&**why);
    let Some(it) = shadows.lockable(event.subject).filter(|_| !ends) else { return Verdict::Aside };
    Verdict::kept_if(!it.wanted.pinned, Who::Kernel, "DxgkDdiCreateAllocation", || {
        format!("{} leaves its segment ({why}), but is pinned", event.subject)
    })
}
