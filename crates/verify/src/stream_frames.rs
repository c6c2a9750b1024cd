//! Allocators and frames of streaming: rules that bind the class driver.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, Kind, RuleId};

const INITIALIZE: &str = "AVStrMiniInitializeAllocator";
const ALLOCATE: &str = "AVStrMiniAllocate";
const FREE: &str = "AVStrMiniAllocatorFreeFrame";
const DELETE: &str = "AVStrMiniDeleteAllocator";

/// The rules on allocators and frames that bind the class driver.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ks.call"], RuleId::KS_ALLOC_001, driver_allocator_chosen),
    Rule::on(&["ks.call", "allocator.used"], RuleId::KS_ALLOC_002, initialised_once),
    Rule::on(&["allocator.used"], RuleId::KS_ALLOC_005, allocator_handle_passed),
    Rule::on(&["frame.created"], RuleId::KS_ALLOC_009, within_frames),
    Rule::on(&["frame.freeing"], RuleId::KS_ALLOC_010, freed_once),
    Rule::on(&["allocator.used"], RuleId::KS_ALLOC_012, frames_returned_first),
    Rule::on(&["allocator.used", "frame.created"], RuleId::KS_ALLOC_013, not_after_end),
    Rule::on(&["pin.closed"], RuleId::KS_ALLOC_016, deleted_once),
    Rule::on(&["allocator.chosen"], RuleId::KS_ALLOC_018, not_for_users),
    Rule::on(&["frame.created"], RuleId::KS_ALLOC_026, one_segment),
    Rule::on(&["frame.done"], RuleId::KS_PTR_006, completed_with_last_reference),
    Rule::on(&["frame.cancelled"], RuleId::KS_PTR_011, locked_frame_not_cancelled),
];

fn driver_allocator_chosen(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::KsCall { name, about, .. } = &event.kind else { return Verdict::NotApplicable };
    if about.kind != Kind::Allocator {
        return Verdict::NotApplicable;
    }
    // Another rule judges an allocator that was deleted.
    let Some(it) = shadows.stream_allocator(about) else { return Verdict::NotApplicable };
    Verdict::holds_if(it.by == "driver", Component::Kernel, name, || {
        format!("{name} was called for {about}, which is the {}'s: it was not chosen", it.by)
    })
}

fn initialised_once(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::KsCall { name, about, .. } if name == INITIALIZE => {
            let Some(it) = shadows.stream_allocator(about) else { return Verdict::NotApplicable };
            Verdict::holds_if(it.initialised == 0, Component::Kernel, INITIALIZE, || {
                format!("{about} was initialised again")
            })
        }
        EventKind::AllocatorUsed { entry, .. } => {
            let Some(it) = shadows.stream_allocator(event.subject) else {
                return Verdict::NotApplicable;
            };
            Verdict::holds_if(it.initialised > 0, Component::Kernel, entry.clone(), || {
                format!("{} was used by {entry} before it was initialised", event.subject)
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn allocator_handle_passed(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::AllocatorUsed { entry, driver_handle } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.stream_allocator(event.subject) else { return Verdict::NotApplicable };
    if entry == DELETE {
        return Verdict::NotApplicable;
    }
    Verdict::holds_if(
        it.ready && it.driver_handle == Some((*driver_handle).into()),
        Component::Kernel,
        entry.clone(),
        || {
            format!(
                "{entry} was called for {} with {driver_handle}, which is not its context",
                event.subject
            )
        },
    )
}

fn within_frames(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::FrameCreated { allocator, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.stream_allocator(allocator) else { return Verdict::NotApplicable };
    if it.frames == 0 {
        return Verdict::NotApplicable; // There is no limit.
    }
    Verdict::holds_if(it.out < it.frames, Component::Kernel, ALLOCATE, || {
        format!("{} is one more than the {} that may be out at once", event.subject, it.frames)
    })
}

fn freed_once(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::FrameFreeing { allocator, pointer: driver_handle } = event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.stream_frame(event.subject) else {
        return Verdict::broken(
            Component::Kernel,
            FREE.into(),
            format!("{} was freed", event.subject),
        );
    };
    let kept = it.pointer == driver_handle && it.allocator == Some(allocator.into()) && !it.freeing;
    Verdict::holds_if(kept, Component::Kernel, FREE, || {
        format!(
            "{} was freed as {driver_handle} of {allocator}, which it is not, or again",
            event.subject
        )
    })
}

fn frames_returned_first(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::AllocatorUsed { entry, .. } = &event.kind else { return Verdict::NotApplicable };
    let Some(it) = shadows.stream_allocator(event.subject).filter(|_| entry == DELETE) else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(it.out == 0, Component::Kernel, DELETE, || {
        format!("{} is deleted, and {} of its frames are out", event.subject, it.out)
    })
}

fn not_after_end(event: &Event, shadows: &Shadows) -> Verdict {
    let (there, allocator) = match event.kind {
        EventKind::AllocatorUsed { .. } => {
            (shadows.stream_allocator(event.subject).is_some(), event.subject)
        }
        EventKind::FrameCreated { allocator: Some(allocator), .. } => {
            (shadows.stream_allocator(allocator).is_some(), allocator)
        }
        _ => return Verdict::NotApplicable,
    };
    Verdict::holds_if(there, Component::Kernel, DELETE, || {
        format!("{allocator} was used after it was deleted")
    })
}

fn deleted_once(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.stream_pin(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(it.allocators == 0, Component::Kernel, DELETE, || {
        format!("{} is destroyed, and its allocator was not deleted", event.subject)
    })
}

fn not_for_users(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::AllocatorChosen { pin, by, user } = &event.kind else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(!user || by == "client", Component::Kernel, "KSALLOCATOR_DISPATCH", || {
        format!("{pin} is connected to user mode, and has frames of the {by}'s allocator")
    })
}

fn one_segment(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::FrameCreated { pin, allocator, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.stream_allocator(allocator) else { return Verdict::NotApplicable };
    Verdict::holds_if(it.pin == pin, Component::Kernel, ALLOCATE, || {
        format!("{} is for {pin}, from the allocator of {}", event.subject, it.pin)
    })
}

fn completed_with_last_reference(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.stream_frame(event.subject) else { return Verdict::NotApplicable };
    let passed = it.passed || it.allocator.is_none();
    Verdict::holds_if(it.clones == 0 && passed, Component::Kernel, "KsStreamPointerDelete", || {
        format!("{} is done, and {} clones or an edge point to it", event.subject, it.clones)
    })
}

fn locked_frame_not_cancelled(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.stream_frame(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(it.locks == 0, Component::Kernel, "KsStreamPointerLock", || {
        format!("{} was cancelled, and {} pointers to it are locked", event.subject, it.locks)
    })
}

#[cfg(test)]
mod tests {
    use crate::script::messages;
    use flight::RuleId;

    #[test]
    fn an_allocator_is_used_after_its_initialisation() {
        let used = "allocator:1 allocator.chosen pin=pin:1 by=driver user=false
            allocator:1 allocator.used entry=AVStrMiniAllocate driver_handle=driver-pointer:1";
        assert_eq!(
            messages(RuleId::KS_ALLOC_002, used),
            ["allocator 1 was used by AVStrMiniAllocate before it was initialised"]
        );
    }
}
