//! Streaming, as far as it binds the class driver: what it calls, in which order, with which
//! mutexes, and what becomes of frames.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadow;
use crate::shadow::stream::Bag;
use flight::{Event, Irql, RuleId, Subject, What, Who};

const INITIALIZE: &str = "AVStrMiniInitializeAllocator";
const ALLOCATE: &str = "AVStrMiniAllocate";
const FREE: &str = "AVStrMiniAllocatorFreeFrame";
const DELETE: &str = "AVStrMiniDeleteAllocator";
const FORMAT: &str = "AVStrMiniPinSetDataFormat";
const STATE: &str = "AVStrMiniPinSetDeviceState";
const PROCESS: &str = "AVStrMiniPinProcess";
const CREATE_PIN: &str = "AVStrMiniPinCreate";
const CLOSE_PIN: &str = "AVStrMiniPinClose";

/// The states in their order.
const STATES: [&str; 4] = ["stop", "acquire", "pause", "run"];

/// The rules on the class driver.
pub(crate) static RULES: [Rule; 24] = [
    Rule { id: RuleId::KS_ALLOC_001, on: &["ks.call"], check: chosen },
    Rule { id: RuleId::KS_ALLOC_002, on: &["ks.call"], check: initialised_once },
    Rule { id: RuleId::KS_ALLOC_005, on: &["ks.call"], check: used_when_ready },
    Rule { id: RuleId::KS_ALLOC_009, on: &["frame.made"], check: within_limit },
    Rule { id: RuleId::KS_ALLOC_010, on: &["ks.call"], check: freed_once },
    Rule { id: RuleId::KS_ALLOC_012, on: &["ks.call"], check: home_before_delete },
    Rule { id: RuleId::KS_ALLOC_013, on: &["ks.call"], check: not_after_delete },
    Rule { id: RuleId::KS_ALLOC_016, on: &["ks.call", "pin.disconnected"], check: deleted_once },
    Rule { id: RuleId::KS_ALLOC_018, on: &["allocator.chosen"], check: not_for_users },
    Rule { id: RuleId::KS_ALLOC_026, on: &["frame.made"], check: own_segment },
    Rule {
        id: RuleId::KS_BAG_002,
        on: &["pin.closed", "filter.closed", "ks.removed"],
        check: bag_empty,
    },
    Rule { id: RuleId::KS_DEV_002, on: &["filter.created"], check: started },
    Rule { id: RuleId::KS_DEV_005, on: &["filter.closed", "ks.removed"], check: close_order },
    Rule { id: RuleId::KS_FRAMING_006, on: &["pin.framing"], check: read_only },
    Rule { id: RuleId::KS_PIN_001, on: &["ks.call"], check: under_control },
    Rule { id: RuleId::KS_PIN_003, on: &["pin.closed"], check: lives_until_closed },
    Rule { id: RuleId::KS_PIN_005, on: &["pin.format", "ks.call"], check: format_first },
    Rule { id: RuleId::KS_PIN_009, on: &["pin.created"], check: instances },
    Rule { id: RuleId::KS_PROC_003, on: &["ks.call"], check: processed },
    Rule { id: RuleId::KS_PTR_006, on: &["frame.done"], check: last_reference },
    Rule { id: RuleId::KS_PTR_011, on: &["frame.cancelled"], check: not_locked },
    Rule { id: RuleId::KS_STATE_001, on: &["pin.state"], check: one_step },
    Rule { id: RuleId::KS_STATE_003, on: &["pin.wanted"], check: begins_stopped },
    Rule { id: RuleId::KS_STATE_004, on: &["ks.call"], check: wanted_before },
];

/// The entry that is called, and what the call is about.
fn called(event: &Event) -> Option<(&str, Subject)> {
    match &event.what {
        What::KsCall { name, about, .. } => Some((name, *about)),
        _ => None,
    }
}

fn kept_if(kept: bool, place: &'static str, message: impl FnOnce() -> String) -> Verdict {
    Verdict::kept_if(kept, Who::Kernel, place, message)
}

fn chosen(event: &Event, _: &Shadow, owner: &Shadow) -> Verdict {
    let (Some((name, about)), Some(it)) = (called(event), owner.allocator()) else {
        return Verdict::Aside;
    };
    kept_if(it.by == "driver", INITIALIZE, || {
        format!("{name} is called for {about}, which is the {}'s and not the driver's", it.by)
    })
}

fn initialised_once(event: &Event, _: &Shadow, owner: &Shadow) -> Verdict {
    let (Some((INITIALIZE, about)), Some(it)) = (called(event), owner.allocator()) else {
        return Verdict::Aside;
    };
    kept_if(it.initialised == 0 && !it.ready, INITIALIZE, || {
        format!("{about} is initialised again")
    })
}

fn used_when_ready(event: &Event, _: &Shadow, owner: &Shadow) -> Verdict {
    let (Some((name @ (ALLOCATE | FREE), about)), Some(it)) = (called(event), owner.allocator())
    else {
        return Verdict::Aside;
    };
    kept_if(it.ready, ALLOCATE, || format!("{name} is called for {about} before it is ready"))
}

fn within_limit(event: &Event, _: &Shadow, owner: &Shadow) -> Verdict {
    let Some(it) = owner.allocator().filter(|it| it.most > 0) else { return Verdict::Aside };
    kept_if(it.out < it.most, ALLOCATE, || {
        format!("{} is one more than the {} that were agreed on", event.subject, it.most)
    })
}

fn freed_once(event: &Event, _: &Shadow, owner: &Shadow) -> Verdict {
    let (Some((FREE, about)), Some(it)) = (called(event), owner.allocator()) else {
        return Verdict::Aside;
    };
    kept_if(it.freed < it.made, FREE, || {
        format!("{about} is to free a frame more than the {} that it allocated", it.made)
    })
}

fn home_before_delete(event: &Event, _: &Shadow, owner: &Shadow) -> Verdict {
    let (Some((DELETE, about)), Some(it)) = (called(event), owner.allocator()) else {
        return Verdict::Aside;
    };
    kept_if(it.out == 0, DELETE, || format!("{about} is deleted with {} frames out", it.out))
}

fn not_after_delete(event: &Event, _: &Shadow, owner: &Shadow) -> Verdict {
    let (Some((name, about)), Some(it)) = (called(event), owner.allocator()) else {
        return Verdict::Aside;
    };
    kept_if(!it.deleted, DELETE, || format!("{name} is called for {about}, which is deleted"))
}

fn deleted_once(event: &Event, _: &Shadow, owner: &Shadow) -> Verdict {
    let Some(it) = owner.allocator().filter(|it| it.by == "driver") else { return Verdict::Aside };
    match called(event) {
        Some((DELETE, about)) => kept_if(it.deletes == 0 && it.ready, DELETE, || {
            format!("{about} is deleted, and was deleted {} times", it.deletes)
        }),
        Some(_) => Verdict::Aside,
        None => kept_if(!it.ready || it.deletes == 1, DELETE, || {
            format!(
                "the connection of {} has ended, and its allocator was deleted {} times",
                event.subject, it.deletes
            )
        }),
    }
}

fn not_for_users(event: &Event, _: &Shadow, _: &Shadow) -> Verdict {
    let What::AllocatorChosen { pin, by, user } = &event.what else { return Verdict::Aside };
    kept_if(!user || by != "driver", "KSALLOCATOR_DISPATCH", || {
        format!("the driver's allocator is chosen for {pin}, whose other side is in user mode")
    })
}

fn own_segment(event: &Event, _: &Shadow, owner: &Shadow) -> Verdict {
    let What::FrameMade { pin, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = owner.allocator() else { return Verdict::Aside };
    kept_if(it.pin == *pin, ALLOCATE, || {
        format!("{} is for {pin}, and comes from the allocator of {}", event.subject, it.pin)
    })
}

fn bag_empty(event: &Event, shadow: &Shadow, _: &Shadow) -> Verdict {
    let pin = shadow.pin().map(|it| &it.bag);
    let filter = shadow.filter().map(|it| &it.bag);
    let device = shadow.ks_device().map(|it| &it.bag);
    let Some(left) = pin.or(filter).or(device).map(Bag::len) else { return Verdict::Aside };
    kept_if(left == 0, "KsAddItemToObjectBag", || {
        format!("{} is gone, and {left} items of its bag were not taken out", event.subject)
    })
}

fn started(event: &Event, _: &Shadow, owner: &Shadow) -> Verdict {
    let Some(it) = owner.ks_device() else { return Verdict::Aside };
    kept_if(it.started, "AVStrMiniFilterCreate", || {
        format!("{} is made, and its device is not started", event.subject)
    })
}

fn close_order(event: &Event, shadow: &Shadow, _: &Shadow) -> Verdict {
    let pins = shadow.filter().map(|it| it.pins.len());
    let filters = shadow.ks_device().map(|it| it.filters as usize);
    let Some(left) = pins.or(filters) else { return Verdict::Aside };
    kept_if(left == 0, "IRP_MJ_CLOSE", || {
        format!("{} is gone before {left} of its children", event.subject)
    })
}

fn read_only(event: &Event, _: &Shadow, _: &Shadow) -> Verdict {
    let What::PinFraming { set, there, answered } = event.what else { return Verdict::Aside };
    let place = "KSPROPERTY_CONNECTION_ALLOCATORFRAMING_EX";
    kept_if(answered == (there && !set), place, || {
        let (asked, was) = (if set { "set" } else { "asked for" }, if answered { "" } else { "not " });
        format!("the framing of {} was {asked}, which was {was}answered", event.subject)
    })
}

fn under_control(event: &Event, _: &Shadow, _: &Shadow) -> Verdict {
    let What::KsCall { name, level, locks, about, .. } = &event.what else { return Verdict::Aside };
    if ![CREATE_PIN, CLOSE_PIN].contains(&&**name) {
        return Verdict::Aside;
    }
    kept_if(*level == Irql::Passive && locks.contains("control"), CREATE_PIN, || {
        format!("{name} is called for {about} at {level} level with these mutexes: {locks}")
    })
}

fn lives_until_closed(event: &Event, shadow: &Shadow, _: &Shadow) -> Verdict {
    let Some(it) = shadow.pin() else { return Verdict::Aside };
    kept_if(it.closing.is_none(), CLOSE_PIN, || {
        format!("{} is gone before its driver has returned from its close", event.subject)
    })
}

fn format_first(event: &Event, shadow: &Shadow, _: &Shadow) -> Verdict {
    match &event.what {
        What::PinFormat { first, .. } => kept_if(*first == shadow.pin().is_none_or(|it| !it.created), FORMAT, || {
            let there = if *first { "is there" } else { "is not there yet" };
            format!("{} {there}, and the format says the other thing", event.subject)
        }),
        What::KsCall { name, level, locks, about, .. } if name == FORMAT => {
            kept_if(*level == Irql::Passive && locks.contains("control"), FORMAT, || {
                format!("{name} is called for {about} at {level} level with these mutexes: {locks}")
            })
        }
        _ => Verdict::Aside,
    }
}

fn instances(event: &Event, _: &Shadow, owner: &Shadow) -> Verdict {
    let What::PinCreated { factory, possible, .. } = event.what else { return Verdict::Aside };
    let Some(it) = owner.filter() else { return Verdict::Aside };
    let there = it.pins.iter().filter(|it| **it == factory).count();
    kept_if(there < possible as usize, "KSPIN_DESCRIPTOR_EX", || {
        format!("{} is made, and {there} of at most {possible} are there", event.subject)
    })
}

fn processed(event: &Event, _: &Shadow, owner: &Shadow) -> Verdict {
    let What::KsCall { name, level, locks, about, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = owner.pin().filter(|_| name == PROCESS) else { return Verdict::Aside };
    let right = if it.dispatch { Irql::Dispatch } else { Irql::Passive };
    let flows = |state: &str| ["pause", "run"].contains(&state);
    let wrong = if *level != right {
        format!("at {level} level, not at {right}")
    } else if let Some(other) = it.processing {
        format!("while {other} is at it")
    } else if !locks.contains("processing") {
        format!("with these mutexes: {locks}")
    } else if !flows(&it.state) {
        format!("in state {}", it.state)
    } else {
        return Verdict::Kept;
    };
    Verdict::Broken(Who::Kernel, PROCESS.into(), format!("{about} is processed {wrong}"))
}

fn last_reference(event: &Event, shadow: &Shadow, _: &Shadow) -> Verdict {
    let Some(it) = shadow.frame() else { return Verdict::Aside };
    kept_if(it.clones == 0, "KsStreamPointerDelete", || {
        format!("{} is done, and {} clones point to it", event.subject, it.clones)
    })
}

fn not_locked(event: &Event, shadow: &Shadow, _: &Shadow) -> Verdict {
    let Some(it) = shadow.frame() else { return Verdict::Aside };
    match it.held {
        None => Verdict::Kept,
        Some(by) => Verdict::Broken(
            Who::Kernel,
            "KsStreamPointerLock".into(),
            format!("{} is cancelled, and {by} is locked to it", event.subject),
        ),
    }
}

fn one_step(event: &Event, shadow: &Shadow, _: &Shadow) -> Verdict {
    let What::PinState { from, to } = &event.what else { return Verdict::Aside };
    if shadow.pin().is_none_or(|it| !it.standard) {
        return Verdict::Aside;
    }
    let place = |name: &str| STATES.iter().position(|it| *it == name);
    let steps = place(from).zip(place(to)).map(|(from, to)| from.abs_diff(to));
    kept_if(steps == Some(1), STATE, || {
        format!("{} goes from {from} to {to}, which is not one step", event.subject)
    })
}

fn begins_stopped(event: &Event, shadow: &Shadow, _: &Shadow) -> Verdict {
    let What::PinWanted { from, to } = &event.what else { return Verdict::Aside };
    if shadow.pin().is_none_or(|it| it.client.is_some()) {
        return Verdict::Aside;
    }
    kept_if(from == "stop" && to != "stop", STATE, || {
        format!("{} is to go from {from} to {to} at first, and it is stopped", event.subject)
    })
}

fn wanted_before(event: &Event, _: &Shadow, owner: &Shadow) -> Verdict {
    let Some((STATE, about)) = called(event) else { return Verdict::Aside };
    let Some(it) = owner.pin() else { return Verdict::Aside };
    kept_if(it.client.as_ref().is_some_and(|to| *to != it.state), STATE, || {
        format!("{about} is to leave {}, and its client's state says so not yet", it.state)
    })
}
