//! Allocators and frames of streaming: rules that bind the class driver.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Event, Kind, RuleId, What, Who};

const INITIALIZE: &str = "AVStrMiniInitializeAllocator";
const ALLOCATE: &str = "AVStrMiniAllocate";
const FREE: &str = "AVStrMiniAllocatorFreeFrame";
const DELETE: &str = "AVStrMiniDeleteAllocator";

/// The rules on allocators and frames that bind the class driver.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ks.call"], RuleId::KS_ALLOC_001, chosen),
    Rule::on(&["ks.call", "allocator.used"], RuleId::KS_ALLOC_002, initialised_once),
    Rule::on(&["allocator.used"], RuleId::KS_ALLOC_005, its_word),
    Rule::on(&["frame.made"], RuleId::KS_ALLOC_009, within_frames),
    Rule::on(&["frame.freeing"], RuleId::KS_ALLOC_010, freed_once),
    Rule::on(&["allocator.used"], RuleId::KS_ALLOC_012, home_first),
    Rule::on(&["allocator.used", "frame.made"], RuleId::KS_ALLOC_013, not_after_end),
    Rule::on(&["pin.closed"], RuleId::KS_ALLOC_016, deleted_once),
    Rule::on(&["allocator.chosen"], RuleId::KS_ALLOC_018, not_for_users),
    Rule::on(&["frame.made"], RuleId::KS_ALLOC_026, one_segment),
    Rule::on(&["frame.done"], RuleId::KS_PTR_006, done_at_last),
    Rule::on(&["frame.cancelled"], RuleId::KS_PTR_011, locks_hold),
];

fn chosen(event: &Event, shadows: &Shadows) -> Verdict {
    let What::KsCall { name, about, .. } = &event.what else { return Verdict::Aside };
    if about.kind != Kind::Allocator {
        return Verdict::Aside;
    }
    // One that is not there any more is another rule's.
    let Some(it) = shadows.stream_allocator(about) else { return Verdict::Aside };
    Verdict::kept_if(it.by == "driver", Who::Kernel, name.clone(), || {
        format!("{name} was called for {about}, which is the {}'s: it was not chosen", it.by)
    })
}

fn initialised_once(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::KsCall { name, about, .. } if name == INITIALIZE => {
            let Some(it) = shadows.stream_allocator(about) else { return Verdict::Aside };
            Verdict::kept_if(it.initialised == 0, Who::Kernel, INITIALIZE, || {
                format!("{about} was initialised again")
            })
        }
        What::AllocatorUsed { entry, .. } => {
            let Some(it) = shadows.stream_allocator(event.subject) else { return Verdict::Aside };
            Verdict::kept_if(it.initialised > 0, Who::Kernel, entry.clone(), || {
                format!("{} was used by {entry} before it was initialised", event.subject)
            })
        }
        _ => Verdict::Aside,
    }
}

fn its_word(event: &Event, shadows: &Shadows) -> Verdict {
    let What::AllocatorUsed { entry, word } = &event.what else { return Verdict::Aside };
    let Some(it) = shadows.stream_allocator(event.subject) else { return Verdict::Aside };
    if entry == DELETE {
        return Verdict::Aside;
    }
    Verdict::kept_if(
        it.ready && it.word == Some((*word).into()),
        Who::Kernel,
        entry.clone(),
        || {
            format!(
                "{entry} was called for {} with {word}, which is not its context",
                event.subject
            )
        },
    )
}

fn within_frames(event: &Event, shadows: &Shadows) -> Verdict {
    let What::FrameMade { allocator, .. } = event.what else { return Verdict::Aside };
    let Some(it) = shadows.stream_allocator(allocator) else { return Verdict::Aside };
    if it.frames == 0 {
        return Verdict::Aside; // There is no limit.
    }
    Verdict::kept_if(it.out < it.frames, Who::Kernel, ALLOCATE, || {
        format!("{} is one more than the {} that may be out at once", event.subject, it.frames)
    })
}

fn freed_once(event: &Event, shadows: &Shadows) -> Verdict {
    let What::FrameFreeing { allocator, word } = event.what else { return Verdict::Aside };
    let Some(it) = shadows.stream_frame(event.subject) else {
        return Verdict::Broken(Who::Kernel, FREE.into(), format!("{} was freed", event.subject));
    };
    let kept = it.word == word && it.allocator == Some(allocator.into()) && !it.freeing;
    Verdict::kept_if(kept, Who::Kernel, FREE, || {
        format!("{} was freed as {word} of {allocator}, which it is not, or again", event.subject)
    })
}

fn home_first(event: &Event, shadows: &Shadows) -> Verdict {
    let What::AllocatorUsed { entry, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = shadows.stream_allocator(event.subject).filter(|_| entry == DELETE) else {
        return Verdict::Aside;
    };
    Verdict::kept_if(it.out == 0, Who::Kernel, DELETE, || {
        format!("{} is deleted, and {} of its frames are out", event.subject, it.out)
    })
}

fn not_after_end(event: &Event, shadows: &Shadows) -> Verdict {
    let (there, allocator) = match event.what {
        What::AllocatorUsed { .. } => {
            (shadows.stream_allocator(event.subject).is_some(), event.subject)
        }
        What::FrameMade { allocator: Some(allocator), .. } => {
            (shadows.stream_allocator(allocator).is_some(), allocator)
        }
        _ => return Verdict::Aside,
    };
    Verdict::kept_if(there, Who::Kernel, DELETE, || {
        format!("{allocator} was used after it was deleted")
    })
}

fn deleted_once(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.stream_pin(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(it.allocators == 0, Who::Kernel, DELETE, || {
        format!("{} is gone, and its allocator was not deleted", event.subject)
    })
}

fn not_for_users(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::AllocatorChosen { pin, by, user } = &event.what else { return Verdict::Aside };
    Verdict::kept_if(!user || by == "client", Who::Kernel, "KSALLOCATOR_DISPATCH", || {
        format!("{pin} is connected to user mode, and has frames of the {by}'s allocator")
    })
}

fn one_segment(event: &Event, shadows: &Shadows) -> Verdict {
    let What::FrameMade { pin, allocator, .. } = event.what else { return Verdict::Aside };
    let Some(it) = shadows.stream_allocator(allocator) else { return Verdict::Aside };
    Verdict::kept_if(it.pin == pin, Who::Kernel, ALLOCATE, || {
        format!("{} is for {pin}, from the allocator of {}", event.subject, it.pin)
    })
}

fn done_at_last(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.stream_frame(event.subject) else { return Verdict::Aside };
    let passed = it.passed || it.allocator.is_none();
    Verdict::kept_if(it.clones == 0 && passed, Who::Kernel, "KsStreamPointerDelete", || {
        format!("{} is done, and {} clones or an edge point to it", event.subject, it.clones)
    })
}

fn locks_hold(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.stream_frame(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(it.locks == 0, Who::Kernel, "KsStreamPointerLock", || {
        format!("{} was cancelled, and {} pointers to it are locked", event.subject, it.locks)
    })
}
