//! `DxgkDdiDestroyAllocation`: what the kernel may pass to it, and what the driver frees.
//!
//! A driver handle is usually the address of a pool block. Then the block shows whether the driver
//! freed the objects it had to destroy, and no others.

use crate::ddi::DESTROY_ALLOCATION;
use crate::pool::written_place;
use crate::rule::{Rule, Verdict};
use crate::shadow::{DriverPointer, Shadows, call_of};
use flight::{Component, Event, EventKind, Irql, Kind, RuleId, Subject};

/// The rules on `DxgkDdiDestroyAllocation`.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ddi.destroys"], RuleId::KMD_DESTROY_001, destroyed_once),
    Rule::on(
        &[
            "driver-handle.ended",
            "driver-handle.set",
            "pool.freed",
            "pool.held-after-stop",
            "pool.leaked",
        ],
        RuleId::KMD_DESTROY_002,
        allocation_freed,
    )
    .about(&[Kind::Allocation]),
    Rule::on(&["ddi.destroys", "pool.corrupted"], RuleId::KMD_DESTROY_003, freed_data_unreachable),
    Rule::on(&["driver-handle.ended"], RuleId::KMD_DESTROY_004, resource_freed)
        .about(&[Kind::Resource]),
    Rule::on(&["pool.freed", "ddi.resource"], RuleId::KMD_DESTROY_005, kept_resource_not_freed),
    Rule::on(&["ddi.resource"], RuleId::KMD_DESTROY_006, resource_destroyed_with_last),
    Rule::on(&["driver-handle.ended"], RuleId::KMD_DESTROY_007, empty_resource_freed)
        .about(&[Kind::Resource]),
    Rule::on(&["ddi.return"], RuleId::KMD_DESTROY_008, destroy_does_not_wait)
        .of(&[DESTROY_ALLOCATION]),
    Rule::on(&["ddi.return"], RuleId::KMD_DESTROY_009, destroy_succeeds).of(&[DESTROY_ALLOCATION]),
    Rule::on(&["ddi.call"], RuleId::KMD_DESTROY_010, called_at_passive).of(&[DESTROY_ALLOCATION]),
    Rule::on(&["ddi.destroys"], RuleId::KMD_DESTROY_011, destroyed_by_own_adapter),
];

const LIST: &str = "DxgkDdiDestroyAllocation, pAllocationList";
const RESOURCE: &str = "DxgkDdiDestroyAllocation, hResource";
const ADAPTER: &str = "DxgkDdiDestroyAllocation, hAdapter";
const FLAG: &str = "DxgkDdiDestroyAllocation, DestroyResource";

fn destroyed_once(event: &Event, shadows: &Shadows) -> Verdict {
    let untold =
        shadows.allocation(event.subject).map(|allocation| allocation.destroyed_in.is_none());
    Verdict::holds_if(untold == Some(true), Component::Kernel, LIST, || {
        let but = if untold.is_some() { "it was given to one before" } else { "it is not live" };
        format!("{} is given to {DESTROY_ALLOCATION}, but {but}", event.subject)
    })
}

fn destroyed_by_own_adapter(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::DdiDestroys { adapter }, Some(allocation)) =
        (&event.kind, shadows.allocation(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(*adapter == allocation.adapter, Component::Kernel, ADAPTER, || {
        format!(
            "{DESTROY_ALLOCATION} is called for {adapter} with {}, but that belongs to {}",
            event.subject, allocation.adapter
        )
    })
}

fn destroy_does_not_wait(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(call) = shadows.call(event.subject).filter(|call| call.name == DESTROY_ALLOCATION)
    else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(call.gpu_wait.is_none(), Component::Driver, DESTROY_ALLOCATION, || {
        let gpu_wait = call.gpu_wait.as_deref().unwrap_or_default();
        format!(
            "{} waited in {DESTROY_ALLOCATION} ({gpu_wait}), but no work uses what the call \
             destroys",
            event.subject
        )
    })
}

/// The block behind each `hAllocation` is freed before the call returns.
///
/// WINDOWS: a driver whose free list keeps the block breaks the page's sentence and does no harm
/// (our decision): it is a warning if the block is used again or freed by the end of
/// `DxgkDdiStopDevice`. So a block that is kept is judged when that is known.
fn allocation_freed(event: &Event, shadows: &Shadows) -> Verdict {
    if let EventKind::DriverHandleEnded { of, .. } | EventKind::DriverHandleSet { of } = event.kind
        && of.kind != Kind::Allocation
    {
        return Verdict::NotApplicable;
    }
    let pointer = shadows.driver_pointer(event.subject);
    let block = pointer.and_then(|driver_pointer| driver_pointer.block.as_deref());
    if let EventKind::DriverHandleEnded { .. } = event.kind {
        let freed = block.filter(|_| event.subject.number != 0);
        let freed = freed.is_some_and(|block| block.freed.is_some());
        return if freed { Verdict::Holds } else { Verdict::NotApplicable };
    }
    let Some((block, of)) = block.and_then(|block| Some((block, block.kept_of?))) else {
        return Verdict::NotApplicable;
    };
    let kept = format!(
        "{DESTROY_ALLOCATION} returned for {of}, but the pool block behind its hAllocation ({})",
        block.details()
    );
    let later = match event.kind {
        EventKind::DriverHandleSet { of: next } => format!("is not freed before {next} gets it"),
        EventKind::PoolFreed { .. } => {
            let call = shadows.call_of(event).map(|call| call.name.clone());
            format!("is not freed before {}", call.unwrap_or("a later time".into()))
        }
        _ => {
            return Verdict::broken(Component::Driver, LIST.into(), format!("{kept} is not freed"));
        }
    };
    let page = "the page: the memory behind a handle is released before the call returns, and \
                cannot be postponed";
    Verdict::warning(Component::Driver, LIST.into(), format!("{kept} {later}; {page}"))
}

fn resource_freed(event: &Event, shadows: &Shadows) -> Verdict {
    match event.kind {
        EventKind::DriverHandleEnded { of, only_object: false } if of.kind == Kind::Resource => {
            freed(of, shadows.driver_pointer(event.subject), RESOURCE, "hResource")
        }
        _ => Verdict::NotApplicable,
    }
}

fn empty_resource_freed(event: &Event, shadows: &Shadows) -> Verdict {
    match event.kind {
        EventKind::DriverHandleEnded { of, only_object: true } if of.kind == Kind::Resource => {
            freed(of, shadows.driver_pointer(event.subject), RESOURCE, "hResource")
        }
        _ => Verdict::NotApplicable,
    }
}

/// Whether the block behind the driver handle of a destroyed object is freed, if there was one.
fn freed(
    of: Subject,
    driver_handle: Option<&DriverPointer>,
    argument: &'static str,
    handle: &str,
) -> Verdict {
    let block = driver_handle.and_then(|driver_handle| driver_handle.block.as_deref());
    // Of a leaked block, the call that should have freed it has crashed.
    let Some(block) = block.filter(|block| !block.leaked) else { return Verdict::NotApplicable };
    Verdict::holds_if(block.freed.is_some(), Component::Driver, argument, || {
        format!(
            "{DESTROY_ALLOCATION} returned for {of}, but the pool block behind its {handle} ({}) is \
             not freed",
            block.details()
        )
    })
}

fn freed_data_unreachable(event: &Event, shadows: &Shadows) -> Verdict {
    if let EventKind::PoolCorrupted { offset } = event.kind {
        let driver_handle = shadows.driver_pointer(event.subject);
        let Some((of, block)) = driver_handle.and_then(|driver_pointer| {
            let block = driver_pointer.block.as_deref()?;
            Some((block.allocation?, block))
        }) else {
            return Verdict::NotApplicable;
        };
        let (argument, found) = written_place(event, shadows);
        return Verdict::broken(
            Component::Driver,
            argument,
            format!(
                "the pool block behind the hAllocation of {of} ({}) was written to at offset \
                 {offset} after it was freed{found}",
                block.details()
            ),
        );
    }
    let driver_handle =
        shadows.allocation(event.subject).and_then(|allocation| allocation.driver_handle);
    let driver_handle =
        shadows.driver_pointer(driver_handle).filter(|driver_handle| driver_handle.block.is_some());
    let Some(driver_handle) = driver_handle else { return Verdict::NotApplicable };
    let freed = driver_handle.freed();
    Verdict::holds_if(freed.is_none(), Component::Driver, LIST, || {
        let freed = freed.map_or("", |text| text);
        format!(
            "{DESTROY_ALLOCATION} is about to reach the data of {}, but the pool block behind \
             its hAllocation was freed before, in {freed}",
            event.subject
        )
    })
}

fn kept_resource_not_freed(event: &Event, shadows: &Shadows) -> Verdict {
    let lost = |of: Subject, argument: &flight::Text| {
        let message = format!(
            "{argument} freed the pool block behind the hResource of {of}, but {of} was not to be \
             destroyed"
        );
        Verdict::broken(Component::Driver, argument.clone(), message)
    };
    if let EventKind::DdiResource { driver_handle, .. } = event.kind {
        let Some(driver_handle) = shadows
            .driver_pointer(driver_handle)
            .filter(|driver_pointer| driver_pointer.block.is_some())
        else {
            return Verdict::NotApplicable;
        };
        return driver_handle
            .freed()
            .map_or(Verdict::Holds, |argument| lost(event.subject, argument));
    }
    let mut uses = shadows
        .driver_pointer(event.subject)
        .into_iter()
        .flat_map(|driver_handle| &driver_handle.uses);
    let Some(it) = uses.find(|pointer_use| pointer_use.of.kind == Kind::Resource) else {
        return Verdict::NotApplicable;
    };
    // A call that passes the driver handle without ending it may change it and free the old block:
    // then the next call that carries the handle decides.
    if it.lent_in.is_some() && it.lent_in == call_of(event) {
        return Verdict::NotApplicable;
    }
    if it.ending {
        return Verdict::Holds;
    }
    lost(
        it.of,
        &shadows.call_of(event).map_or("ExFreePoolWithTag".into(), |call| call.name.clone()),
    )
}

fn resource_destroyed_with_last(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::DdiResource { destroy: true, .. }, Some(resource)) =
        (&event.kind, shadows.resource(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    let spared = resource.members_outside(call_of(event));
    Verdict::holds_if(spared == 0, Component::Kernel, FLAG, || {
        format!(
            "{DESTROY_ALLOCATION} ends {}, but {spared} of its allocations live and are not in \
             its list",
            event.subject
        )
    })
}

fn destroy_succeeds(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::DdiReturn { name, result, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    // A crash is a finding of its own, and an absent entry returned nothing.
    if name != DESTROY_ALLOCATION || result == "crashed" || result == "absent" {
        return Verdict::NotApplicable;
    }
    Verdict::holds_if(result == "ok", Component::Driver, DESTROY_ALLOCATION, || {
        format!(
            "{DESTROY_ALLOCATION} returned {result}, but its allocations are destroyed anyway: \
             it must succeed"
        )
    })
}

fn called_at_passive(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::DdiCall { name, level, .. } = &event.kind else { return Verdict::NotApplicable };
    if name != DESTROY_ALLOCATION {
        return Verdict::NotApplicable;
    }
    Verdict::holds_if(*level == Irql::Passive, Component::Kernel, DESTROY_ALLOCATION, || {
        format!("{DESTROY_ALLOCATION} is called at {level} level, but it is for passive level")
    })
}

#[cfg(test)]
mod tests {
    use crate::Severity;
    use crate::script::{fly, judge_count, messages};
    use flight::RuleId;

    /// An allocation of a resource, each with a pool block behind its driver handle.
    const CREATED: &str = "call:1 ddi.call name=DxgkDdiCreateAllocation level=passive threading_level=zero adapter=adapter:1 process=-
        c1 driver-pointer:1 pool.allocated bytes=64 tag=Wtun
        c1 driver-pointer:2 pool.allocated bytes=32 tag=Wtun
        call:1 ddi.return name=DxgkDdiCreateAllocation result=ok legal=true
        driver-pointer:2 driver-handle.set of=resource:1
        resource:1 resource.created adapter=adapter:1 device=device:1 sharing=none
        allocation:3 allocation.created adapter=adapter:1 device=device:1 resource=resource:1 size=1 pitch_size=0 alignment=0 client_data=0x00000000 driver_data=0x00000000
        driver-pointer:1 driver-handle.set of=allocation:3\n";
    const CALL: &str = "call:2 ddi.call name=DxgkDdiDestroyAllocation level=passive threading_level=zero adapter=adapter:1 process=-\n";
    const DESTROYS: &str = "c2 allocation:3 ddi.destroys adapter=adapter:1\n";
    const RESOURCE_DESTROYED: &str = "c2 resource:1 ddi.resource driver_handle=driver-pointer:2 destroy=true no_allocations=false\n";
    const RESOURCE_KEPT: &str = "c2 resource:1 ddi.resource driver_handle=driver-pointer:2 destroy=false no_allocations=false\n";
    const RETURN: &str = "call:2 ddi.return name=DxgkDdiDestroyAllocation result=ok legal=true\n";
    const FREED: &str = "c2 driver-pointer:1 pool.freed\n";
    const RESOURCE_FREED: &str = "c2 driver-pointer:2 pool.freed\n";
    const ENDED: &str = "driver-pointer:1 driver-handle.ended of=allocation:3 only_object=false\n";

    fn check(id: RuleId, steps: &[&str], expected: &[&str]) {
        let script = [&[CREATED], steps].concat().concat();
        assert_eq!(messages(id, &script), expected);
        assert_ne!(judge_count(id, &script), 0);
    }

    #[test]
    fn a_wait_for_another_thread_is_no_wait_for_the_gpu() {
        let waits = |name: &str, ended: &str| {
            let script = format!(
                "call:1 ddi.call name={name} level=passive threading_level=zero adapter=adapter:1 process=-
                c1 call:1 driver.waited object=KeWaitForSingleObject ended=\"{ended}\"
                call:1 ddi.return name={name} result=ok legal=true"
            );
            messages(RuleId::KMD_DESTROY_008, &script)
        };
        assert!(waits("DxgkDdiDestroyAllocation", "set at passive").is_empty());
        assert!(waits("DxgkDdiCreateAllocation", "set at dispatch").is_empty());
        let named = waits("DxgkDdiDestroyAllocation", "set at dispatch");
        assert!(named[0].contains("(KeWaitForSingleObject, set at dispatch)"), "{named:?}");
        assert_eq!(waits("DxgkDdiDestroyAllocation", "timed out").len(), 1);
    }

    #[test]
    fn an_allocation_is_destroyed_once_by_its_adapter() {
        let (id, removed) = (RuleId::KMD_DESTROY_001, "allocation:3 allocation.destroyed\n");
        check(id, &[DESTROYS], &[]);
        let twice =
            "allocation 3 is given to DxgkDdiDestroyAllocation, but it was given to one before";
        check(id, &[DESTROYS, DESTROYS], &[twice]);
        let dead = "allocation 3 is given to DxgkDdiDestroyAllocation, but it is not live";
        check(id, &[DESTROYS, removed, DESTROYS], &[dead]);
        check(RuleId::KMD_DESTROY_011, &[DESTROYS], &[]);
        let other = "c2 allocation:3 ddi.destroys adapter=adapter:2";
        let wrong = "DxgkDdiDestroyAllocation is called for adapter 2 with allocation 3, but \
                     that belongs to adapter 1";
        check(RuleId::KMD_DESTROY_011, &[other], &[wrong]);
    }

    #[test]
    fn what_is_behind_a_handle_is_freed() {
        let id = RuleId::KMD_DESTROY_002;
        check(id, &[DESTROYS, FREED, ENDED], &[]);
        let kept = "DxgkDdiDestroyAllocation returned for allocation 3, but the pool block behind \
                    its hAllocation (64 bytes, tag Wtun) is not freed";
        for late in ["c9 driver-pointer:1 pool.held-after-stop", "driver-pointer:1 pool.leaked"] {
            check(id, &[DESTROYS, ENDED, late], &[kept]);
        }
        let plain = "driver-pointer:7 driver-handle.set of=allocation:9\ndriver-pointer:7 driver-handle.ended of=allocation:9 only_object=false";
        assert_eq!(judge_count(id, plain), 0, "no block, no judgement");
        for (id, alone) in [(RuleId::KMD_DESTROY_004, false), (RuleId::KMD_DESTROY_007, true)] {
            let ended =
                format!("driver-pointer:2 driver-handle.ended of=resource:1 only_object={alone}");
            check(id, &[RESOURCE_DESTROYED, RESOURCE_FREED, &ended], &[]);
            let kept = "DxgkDdiDestroyAllocation returned for resource 1, but the pool block \
                        behind its hResource (32 bytes, tag Wtun) is not freed";
            check(id, &[RESOURCE_DESTROYED, &ended], &[kept]);
        }
    }

    #[test]
    fn a_free_list_is_a_warning() {
        let id = RuleId::KMD_DESTROY_002;
        let kept = "DxgkDdiDestroyAllocation returned for allocation 3, but the pool block behind \
                    its hAllocation (64 bytes, tag Wtun) is not freed before";
        let page = "the page: the memory behind a handle is released before the call returns, and \
                    cannot be postponed";
        let reused = "driver-pointer:1 driver-handle.set of=allocation:9";
        check(id, &[DESTROYS, ENDED, reused], &[&format!("{kept} allocation 9 gets it; {page}")]);
        let stop = "call:9 ddi.call name=DxgkDdiStopDevice level=passive threading_level=three adapter=adapter:1 process=-
            c9 driver-pointer:1 pool.freed";
        check(id, &[DESTROYS, ENDED, stop], &[&format!("{kept} DxgkDdiStopDevice; {page}")]);
        let script = [CREATED, DESTROYS, ENDED, reused].concat();
        let verifier = fly(&script);
        let of_rule = verifier.findings().iter().filter(|finding| finding.rule == id);
        assert_eq!(
            of_rule.map(|finding| finding.severity).collect::<Vec<_>>(),
            [Severity::Warning]
        );
    }

    #[test]
    fn freed_data_is_not_reached() {
        let id = RuleId::KMD_DESTROY_003;
        check(id, &[DESTROYS, FREED, ENDED], &[]);
        let early = "DxgkDdiDestroyAllocation is about to reach the data of allocation 3, but the \
                     pool block behind its hAllocation was freed before, in ExFreePoolWithTag";
        check(id, &[FREED, DESTROYS], &[early]);
        let damaged = "the pool block behind the hAllocation of allocation 3 (64 bytes, tag Wtun) \
                       was written to at offset 8 after it was freed in ExFreePoolWithTag; found \
                       when the next call had returned";
        check(
            id,
            &[DESTROYS, FREED, ENDED, "driver-pointer:1 pool.corrupted offset=8"],
            &[damaged],
        );
    }

    #[test]
    fn a_resource_that_stays_is_kept() {
        let id = RuleId::KMD_DESTROY_005;
        check(id, &[CALL, DESTROYS, RESOURCE_DESTROYED, RESOURCE_FREED], &[]);
        let early = "DxgkDdiDestroyAllocation freed the pool block behind the hResource of \
                     resource 1, but resource 1 was not to be destroyed";
        check(id, &[CALL, DESTROYS, RESOURCE_FREED], &[early]);
        let goes = "c3 resource:1 ddi.resource driver_handle=driver-pointer:2 destroy=true no_allocations=true";
        check(id, &[CALL, DESTROYS, RESOURCE_KEPT, RESOURCE_FREED, RETURN, goes], &[early]);
        let changed = "driver-pointer:4 driver-handle.set of=resource:1
            c3 resource:1 ddi.resource driver_handle=driver-pointer:4 destroy=true no_allocations=true";
        check(id, &[CALL, DESTROYS, RESOURCE_KEPT, RESOURCE_FREED, RETURN, changed], &[]);
    }

    #[test]
    fn a_resource_goes_with_the_last_of_it() {
        let id = RuleId::KMD_DESTROY_006;
        let removed = "allocation:3 allocation.destroyed\n";
        check(id, &[DESTROYS, RESOURCE_DESTROYED], &[]);
        check(
            id,
            &["c1 allocation:3 ddi.destroys adapter=adapter:1\n", removed, RESOURCE_DESTROYED],
            &[],
        );
        let left = "DxgkDdiDestroyAllocation ends resource 1, but 1 of its allocations live and \
                    are not in its list";
        check(id, &[RESOURCE_DESTROYED], &[left]);
        check(
            id,
            &["c1 allocation:3 ddi.destroys adapter=adapter:1\n", RESOURCE_DESTROYED],
            &[left],
        );
    }

    #[test]
    fn it_is_called_at_passive_level_and_succeeds() {
        check(RuleId::KMD_DESTROY_009, &[CALL, RETURN], &[]);
        check(RuleId::KMD_DESTROY_010, &[CALL, RETURN], &[]);
        let refused = RETURN.replace("=ok", "=no-memory");
        let no = "DxgkDdiDestroyAllocation returned no-memory, but its allocations are destroyed \
                  anyway: it must succeed";
        check(RuleId::KMD_DESTROY_009, &[CALL, &refused], &[no]);
        let crashed = [CALL, &RETURN.replace("=ok", "=crashed")].concat();
        assert_eq!(judge_count(RuleId::KMD_DESTROY_009, &crashed), 0);
        let raised = CALL.replace("=passive", "=dispatch");
        let high =
            "DxgkDdiDestroyAllocation is called at dispatch level, but it is for passive level";
        check(RuleId::KMD_DESTROY_010, &[&raised], &[high]);
    }
}
