//! Locks: who may have the CPU see an allocation, and what may be moved for it.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadow;
use flight::{Event, RuleId, What, Who};

const LOCK: &str = "D3DKMTLock";
const LOCK2: &str = "D3DKMTLock2";

/// The rules on locks.
pub(crate) static RULES: [Rule; 11] = [
    Rule { id: RuleId::ALLOC_LOCK_005, on: &["lock.taken"], check: visible },
    Rule { id: RuleId::ALLOC_LOCK_006, on: &["lock.taken"], check: creator },
    Rule { id: RuleId::ALLOC_LOCK_012, on: &["lock.taken"], check: hurries },
    Rule { id: RuleId::ALLOC_LOCK_013, on: &["memory.evicted"], check: still },
    Rule { id: RuleId::ALLOC_LOCK_014, on: &["memory.evicted"], check: pinned },
    Rule { id: RuleId::ALLOC_LOCK_015, on: &["lock.ended"], check: follows },
    Rule { id: RuleId::ALLOC_LOCK_019, on: &["lock.taken"], check: cached },
    Rule { id: RuleId::ALLOC_LOCK_021, on: &["memory.placed"], check: stays },
    Rule { id: RuleId::ALLOC_LOCK_022, on: &["lock.taken", "wait.parked"], check: at_once },
    Rule { id: RuleId::ALLOC_DESTROY_022, on: &["lock.ended"], check: unlocked },
    Rule { id: RuleId::KMD_FLAGS_012, on: &["memory.evicted"], check: never_moves },
];

const FOR_A_LOCK: &str = "the CPU locks it";

fn visible(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let Some(it) = shadow.view() else { return Verdict::Aside };
    Verdict::kept_if(it.wanted.seen, Who::Kernel, LOCK, || {
        format!(
            "{} is locked, but the driver did not say that the CPU may see {}",
            event.subject, it.allocation
        )
    })
}

fn creator(_event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let Some(it) = shadow.view() else { return Verdict::Aside };
    Verdict::kept_if(it.creator, Who::Kernel, LOCK, || {
        format!("{} locks {}, which another device created", it.device, it.allocation)
    })
}

fn hurries(event: &Event, shadow: &Shadow, owner: &Shadow) -> Verdict {
    let What::LockTaken { hurries: true, .. } = event.what else { return Verdict::Aside };
    let Some((it, device)) = shadow.view().zip(owner.device()) else { return Verdict::Aside };
    let before = device.packets.iter().filter(|packet| packet.queued < it.lock_asked).count();
    Verdict::kept_if(before == 0, Who::Kernel, LOCK, || {
        format!(
            "{} is locked with DonotWait, and {before} packets of {} are under way",
            event.subject, it.device
        )
    })
}

fn still(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::MemoryEvicted { why, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = shadow.lockable().filter(|_| why == FOR_A_LOCK) else { return Verdict::Aside };
    Verdict::kept_if(!it.still, Who::Kernel, LOCK, || {
        format!("{} is moved for a lock with DonotEvict", event.subject)
    })
}

fn pinned(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::MemoryEvicted { why, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = shadow.lockable().filter(|_| why == FOR_A_LOCK) else { return Verdict::Aside };
    Verdict::kept_if(!it.wanted.pinned, Who::Kernel, LOCK, || {
        format!("{} is moved for a lock, but is pinned", event.subject)
    })
}

fn follows(event: &Event, shadow: &Shadow, owner: &Shadow) -> Verdict {
    let Some(it) = shadow.lockable().or(owner.lockable()) else { return Verdict::Aside };
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

fn cached(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::LockTaken { place, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = shadow.view() else { return Verdict::Aside };
    Verdict::kept_if(!it.wanted.cached || place != "memory", Who::Kernel, LOCK2, || {
        format!("{} is cached, and is locked while it is in a memory segment", it.allocation)
    })
}

fn stays(event: &Event, shadow: &Shadow, owner: &Shadow) -> Verdict {
    let What::MemoryPlaced { segment, .. } = event.what else { return Verdict::Aside };
    let Some((it, to)) = shadow.lockable().zip(owner.segment()) else {
        return Verdict::Aside;
    };
    // The page speaks of those without an aperture to go to; what is locked is never copied here.
    let locked = it.locks > 0 && it.outside;
    Verdict::kept_if(!locked || to.aperture, Who::Kernel, LOCK2, || {
        format!("{} comes to {segment} while it is locked outside of memory", event.subject)
    })
}

fn at_once(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    match &event.what {
        What::LockTaken { .. } if shadow.view().is_some_and(|it| it.reclaimed) => Verdict::Kept,
        What::WaitParked { why } => {
            let it = shadow.allocation().filter(|it| it.memory.reclaimed);
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

fn unlocked(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::LockEnded { dropped, .. } = event.what else { return Verdict::Aside };
    let of = shadow.view().map(|it| it.allocation);
    let of = of.or(shadow.instance().map(|it| it.allocation));
    let Some(of) = of else { return Verdict::Aside };
    Verdict::kept_if(!dropped, Who::Client, "D3DKMTDestroyAllocation2", || {
        format!("{} of {of} ends while it is locked", event.subject)
    })
}

fn never_moves(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::MemoryEvicted { why, .. } = &event.what else { return Verdict::Aside };
    let ends = ["the call failed", "it ends"].contains(&&**why);
    let Some(it) = shadow.lockable().filter(|_| !ends) else { return Verdict::Aside };
    Verdict::kept_if(!it.wanted.pinned, Who::Kernel, "DxgkDdiCreateAllocation", || {
        format!("{} leaves its segment ({why}), but is pinned", event.subject)
    })
}
