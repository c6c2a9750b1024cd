//! Allocators and frames of streaming: what their class driver owes their driver.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadow;
use flight::{Event, Kind, RuleId, What, Who};

const INITIALIZE: &str = "AVStrMiniInitializeAllocator";
const ALLOCATE: &str = "AVStrMiniAllocate";
const FREE: &str = "AVStrMiniAllocatorFreeFrame";
const DELETE: &str = "AVStrMiniDeleteAllocator";

/// The rules on allocators and frames that bind the class driver.
pub(crate) static RULES: [Rule; 12] = [
    Rule { id: RuleId::KS_ALLOC_001, on: &["ks.call"], check: chosen },
    Rule { id: RuleId::KS_ALLOC_002, on: &["ks.call", "allocator.used"], check: initialised_once },
    Rule { id: RuleId::KS_ALLOC_005, on: &["allocator.used"], check: its_word },
    Rule { id: RuleId::KS_ALLOC_009, on: &["frame.made"], check: within_frames },
    Rule { id: RuleId::KS_ALLOC_010, on: &["frame.freeing"], check: freed_once },
    Rule { id: RuleId::KS_ALLOC_012, on: &["allocator.used"], check: home_first },
    Rule { id: RuleId::KS_ALLOC_013, on: &["allocator.used", "frame.made"], check: not_after_end },
    Rule { id: RuleId::KS_ALLOC_016, on: &["pin.closed"], check: deleted_once },
    Rule { id: RuleId::KS_ALLOC_018, on: &["allocator.chosen"], check: not_for_users },
    Rule { id: RuleId::KS_ALLOC_026, on: &["frame.made"], check: one_segment },
    Rule { id: RuleId::KS_PTR_006, on: &["frame.done"], check: done_at_last },
    Rule { id: RuleId::KS_PTR_011, on: &["frame.cancelled"], check: locks_hold },
];

fn chosen(event: &Event, _shadow: &Shadow, owner: &Shadow) -> Verdict {
    let What::KsCall { name, about, .. } = &event.what else { return Verdict::Aside };
    if about.kind != Kind::Allocator {
        return Verdict::Aside;
    }
    // One that is not there any more is another rule's.
    let Some(it) = owner.stream_allocator() else { return Verdict::Aside };
    Verdict::kept_if(it.by == "driver", Who::Kernel, name.clone(), || {
        format!("{name} was called for {about}, which is the {}'s: it was not chosen", it.by)
    })
}

fn initialised_once(event: &Event, shadow: &Shadow, owner: &Shadow) -> Verdict {
    match &event.what {
        What::KsCall { name, about, .. } if name == INITIALIZE => {
            let Some(it) = owner.stream_allocator() else { return Verdict::Aside };
            Verdict::kept_if(it.initialised == 0, Who::Kernel, INITIALIZE, || {
                format!("{about} was initialised again")
            })
        }
        What::AllocatorUsed { entry, .. } => {
            let Some(it) = shadow.stream_allocator() else { return Verdict::Aside };
            Verdict::kept_if(it.initialised > 0, Who::Kernel, entry.clone(), || {
                format!("{} was used by {entry} before it was initialised", event.subject)
            })
        }
        _ => Verdict::Aside,
    }
}

fn its_word(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::AllocatorUsed { entry, word } = &event.what else { return Verdict::Aside };
    let Some(it) = shadow.stream_allocator() else { return Verdict::Aside };
    if entry == DELETE {
        return Verdict::Aside;
    }
    Verdict::kept_if(it.ready && it.word == Some(*word), Who::Kernel, entry.clone(), || {
        format!("{entry} was called for {} with {word}, which is not its context", event.subject)
    })
}

fn within_frames(event: &Event, _shadow: &Shadow, owner: &Shadow) -> Verdict {
    let Some(it) = owner.stream_allocator() else { return Verdict::Aside };
    if it.frames == 0 {
        return Verdict::Aside; // There is no limit.
    }
    Verdict::kept_if(it.out < it.frames, Who::Kernel, ALLOCATE, || {
        format!("{} is one more than the {} that may be out at once", event.subject, it.frames)
    })
}

fn freed_once(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::FrameFreeing { allocator, word } = event.what else { return Verdict::Aside };
    let Some(it) = shadow.stream_frame() else {
        return Verdict::Broken(Who::Kernel, FREE.into(), format!("{} was freed", event.subject));
    };
    let kept = it.word == word && it.allocator == Some(allocator) && !it.freeing;
    Verdict::kept_if(kept, Who::Kernel, FREE, || {
        format!("{} was freed as {word} of {allocator}, which it is not, or again", event.subject)
    })
}

fn home_first(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::AllocatorUsed { entry, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = shadow.stream_allocator().filter(|_| entry == DELETE) else {
        return Verdict::Aside;
    };
    Verdict::kept_if(it.out == 0, Who::Kernel, DELETE, || {
        format!("{} is deleted, and {} of its frames are out", event.subject, it.out)
    })
}

fn not_after_end(event: &Event, shadow: &Shadow, owner: &Shadow) -> Verdict {
    let (there, allocator) = match event.what {
        What::AllocatorUsed { .. } => (shadow.stream_allocator().is_some(), event.subject),
        What::FrameMade { allocator: Some(allocator), .. } => {
            (owner.stream_allocator().is_some(), allocator)
        }
        _ => return Verdict::Aside,
    };
    Verdict::kept_if(there, Who::Kernel, DELETE, || {
        format!("{allocator} was used after it was deleted")
    })
}

fn deleted_once(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let Some(it) = shadow.stream_pin() else { return Verdict::Aside };
    Verdict::kept_if(it.allocators == 0, Who::Kernel, DELETE, || {
        format!("{} is gone, and its allocator was not deleted", event.subject)
    })
}

fn not_for_users(event: &Event, _shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::AllocatorChosen { pin, by, user } = &event.what else { return Verdict::Aside };
    Verdict::kept_if(!user || by == "client", Who::Kernel, "KSALLOCATOR_DISPATCH", || {
        format!("{pin} is connected to user mode, and has frames of the {by}'s allocator")
    })
}

fn one_segment(event: &Event, _shadow: &Shadow, owner: &Shadow) -> Verdict {
    let What::FrameMade { pin, .. } = event.what else { return Verdict::Aside };
    let Some(it) = owner.stream_allocator() else { return Verdict::Aside };
    Verdict::kept_if(it.pin == pin, Who::Kernel, ALLOCATE, || {
        format!("{} is for {pin}, from the allocator of {}", event.subject, it.pin)
    })
}

fn done_at_last(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let Some(it) = shadow.stream_frame() else { return Verdict::Aside };
    let passed = it.passed || it.allocator.is_none();
    Verdict::kept_if(it.clones == 0 && passed, Who::Kernel, "KsStreamPointerDelete", || {
        format!("{} is done, and {} clones or an edge point to it", event.subject, it.clones)
    })
}

fn locks_hold(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let Some(it) = shadow.stream_frame() else { return Verdict::Aside };
    Verdict::kept_if(it.locks == 0, Who::Kernel, "KsStreamPointerLock", || {
        format!("{} was cancelled, and {} pointers to it are locked", event.subject, it.locks)
    })
}
