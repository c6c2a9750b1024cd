//! Creating allocations and resources: rules on their handles, and on what the driver returns for
//! them.

use crate::ddi::{CREATE_ALLOCATION, OPEN_ALLOCATION};
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, Kind, RuleId};

/// The size of a page.
const PAGE: u64 = 4096;

/// The rules on creation.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["resource-view.retiring"], RuleId::ALLOC_CREATE_007, handle_local_to_device),
    Rule::on(&["handle.shared"], RuleId::ALLOC_CREATE_008, global_handle_if_shared),
    Rule::on(&["handle.published"], RuleId::ALLOC_CREATE_020, device_not_lost),
    Rule::on(&["allocation.created"], RuleId::ALLOC_CREATE_021, private_data_matches),
    Rule::on(&["driver-handle.set"], RuleId::KMD_ALLOC_001, driver_handle_unique)
        .about(&[Kind::Allocation]),
    Rule::on(&["driver-handle.set"], RuleId::KMD_DESTROY_012, driver_handle_not_stale)
        .about(&[Kind::Allocation]),
    Rule::on(&["allocation.created"], RuleId::KMD_ALLOC_002, has_size),
    Rule::on(&["allocation.created"], RuleId::KMD_ALLOC_003, pitch_size_sufficient),
    Rule::on(&["allocation.created"], RuleId::WT_ALLOC_001, layout_is_possible),
    Rule::on(&["ddi.resource"], RuleId::KMD_ALLOC_010, last_driver_handle_used),
    Rule::on(&["ddi.return"], RuleId::KMD_ALLOC_011, failed_create_undone).of(&[CREATE_ALLOCATION]),
    Rule::on(&["view.opened"], RuleId::KMD_OPEN_001, view_handle_set),
];

fn handle_local_to_device(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::ResourceViewRetiring { by, .. }, Some(view)) =
        (&event.kind, shadows.resource_view(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    // The end of a process closes everything, for no device.
    if by.kind != Kind::Device {
        return Verdict::NotApplicable;
    }
    let place = "D3DKMTDestroyAllocation2, hResource";
    Verdict::holds_if(*by == view.device, Component::Kernel, place, || {
        format!(
            "a call of {by} closed the handle of {}, but that belongs to {}",
            event.subject, view.device
        )
    })
}

fn global_handle_if_shared(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::HandleShared { handle, of } = &event.kind else { return Verdict::NotApplicable };
    let Some(resource) = shadows.resource(of) else { return Verdict::NotApplicable };
    let place = "D3DKMTCreateAllocation, hGlobalShare";
    Verdict::holds_if(resource.global, Component::Kernel, place, || {
        format!("{of} was given global handle {handle}, but was not created to be shared by one")
    })
}

fn device_not_lost(event: &Event, shadows: &Shadows) -> Verdict {
    // An allocation created while its device was lost is undone, and gets no handle.
    let EventKind::HandlePublished { of: to, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let device = shadows.view(to).and_then(|view| shadows.device(view.device));
    let Some(device) = device else { return Verdict::NotApplicable };
    Verdict::holds_if(!device.lost, Component::Kernel, "D3DKMTCreateAllocation, hDevice", || {
        format!("{to} got a handle, but its device was lost before")
    })
}

fn private_data_matches(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::AllocationCreated { client_data: given, driver_data: seen, .. } = &event.kind
    else {
        return Verdict::NotApplicable;
    };
    let place = "DxgkDdiCreateAllocation, pPrivateDriverData";
    Verdict::holds_if(given == seen, Component::Kernel, place, || {
        format!(
            "the driver was shown private data {seen} for {}, but {given} was given",
            event.subject
        )
    })
}

fn driver_handle_unique(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DriverHandleSet { of: to } = &event.kind else { return Verdict::NotApplicable };
    if to.kind != Kind::Allocation {
        return Verdict::NotApplicable;
    }
    let broken = |message| {
        Verdict::broken(Component::Driver, "DxgkDdiCreateAllocation, hAllocation".into(), message)
    };
    if event.subject.number == 0 {
        return broken(format!(
            "{CREATE_ALLOCATION} left the hAllocation of {to} NULL, but an allocation needs one"
        ));
    }
    let mut uses = shadows
        .driver_pointer(event.subject)
        .into_iter()
        .flat_map(|driver_handle| &driver_handle.uses);
    match uses.find(|pointer_use| pointer_use.of.kind == Kind::Allocation && pointer_use.of != *to)
    {
        Some(other) => broken(format!(
            "{CREATE_ALLOCATION} returned {} as the hAllocation of {to}, but {} is live and already \
             has it",
            event.subject, other.of
        )),
        None => Verdict::Holds,
    }
}

fn driver_handle_not_stale(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DriverHandleSet { of: to } = &event.kind else { return Verdict::NotApplicable };
    if to.kind != Kind::Allocation || event.subject.number == 0 {
        return Verdict::NotApplicable;
    }
    let dead = shadows
        .driver_pointer(event.subject)
        .and_then(|driver_pointer| driver_pointer.block.as_deref())
        .and_then(|block| block.allocation.filter(|serial| serial != to).zip(block.freed.as_ref()));
    let Some((dead, freed)) = dead else { return Verdict::Holds };
    let message = format!(
        "{CREATE_ALLOCATION} returned {} as the hAllocation of {to}, but that was the driver handle of {dead}, \
         and its pool block was freed in {freed}: the driver looked it up in a table that still \
         has it",
        event.subject
    );
    Verdict::broken(Component::Driver, "DxgkDdiCreateAllocation, hAllocation".into(), message)
}

fn has_size(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::AllocationCreated { size, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(size > 0, Component::Driver, "DxgkDdiCreateAllocation, Size", || {
        format!(
            "{CREATE_ALLOCATION} gave {} a Size of 0, but Size must be greater than 0",
            event.subject
        )
    })
}

fn pitch_size_sufficient(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::AllocationCreated { size, pitch_size, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let kept = pitch_size == 0 || pitch_size >= size;
    Verdict::holds_if(kept, Component::Driver, "DxgkDdiCreateAllocation, PitchAlignedSize", || {
        format!(
            "{CREATE_ALLOCATION} gave {} a PitchAlignedSize of {pitch_size}, but it must be 0 \
             or at least its Size, {size}",
            event.subject
        )
    })
}

/// No address has this size or this alignment, with memory segments or without.
fn layout_is_possible(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::AllocationCreated { size, pitch_size, alignment, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let overflows = |bytes: u64| bytes.checked_next_multiple_of(PAGE).is_none();
    let sizes = [("Size", size), ("PitchAlignedSize", pitch_size)];
    let (member, why) = if let Some((member, bytes)) = sizes.iter().find(|(_, it)| overflows(*it)) {
        (*member, format!("a {member} of {bytes:#x}, but that overflows when it is rounded up"))
    } else if alignment != 0 && !alignment.is_power_of_two() {
        ("Alignment", format!("an Alignment of {alignment:#x}, which is not a power of two"))
    } else {
        return Verdict::Holds;
    };
    let place = format!("{CREATE_ALLOCATION}, {member}");
    let message = format!("{CREATE_ALLOCATION} gave {} {why}", event.subject);
    Verdict::broken(Component::Driver, place.into(), message)
}

fn last_driver_handle_used(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiResource { driver_handle, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(last) = shadows.resource(event.subject).and_then(|resource| resource.driver_handle)
    else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(*driver_handle == last, Component::Kernel, "hResource", || {
        format!(
            "a call carried {driver_handle} as the hResource of {}, but the driver's last one is {last}",
            event.subject
        )
    })
}

fn failed_create_undone(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::DdiReturn { name, result, .. }, Some(call)) =
        (&event.kind, shadows.call(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    // A driver that crashed could not undo anything: the crash is the one finding.
    if name != CREATE_ALLOCATION || result == "ok" || result == "crashed" {
        return Verdict::NotApplicable;
    }
    match call.blocks.first() {
        None => Verdict::Holds,
        Some((block, bytes, tag)) => Verdict::broken(
            Component::Driver,
            CREATE_ALLOCATION.into(),
            format!(
                "{CREATE_ALLOCATION} returned {result}, but {} pool blocks it took are not freed \
                 (first {block}, {bytes} bytes, tag {tag})",
                call.blocks.len()
            ),
        ),
    }
}

fn view_handle_set(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::ViewOpened { allocation, device, handle_set: answered, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let place = "DxgkDdiOpenAllocation, hDeviceSpecificAllocation";
    Verdict::holds_if(*answered, Component::Driver, place, || {
        format!(
            "{OPEN_ALLOCATION} succeeded for {allocation} and {device}, but left \
             hDeviceSpecificAllocation NULL"
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    #[test]
    fn the_word_of_a_dead_allocation_is_stale_until_its_block_is_taken_again() {
        let id = RuleId::KMD_DESTROY_012;
        let life = "driver-pointer:1 pool.allocated bytes=64 tag=Wtun
            driver-pointer:1 driver-handle.set of=allocation:1
            call:1 ddi.call name=DxgkDdiDestroyAllocation level=passive threading_level=zero adapter=adapter:1 process=-
            c1 driver-pointer:1 pool.freed
            call:1 ddi.return name=DxgkDdiDestroyAllocation result=ok legal=true
            driver-pointer:1 driver-handle.ended of=allocation:1 only_object=false\n";
        let again = "driver-pointer:1 driver-handle.set of=allocation:2";
        let named = messages(id, &format!("{life}{again}"));
        assert!(named[0].contains("was the driver handle of allocation 1"), "{named:?}");
        let taken = "driver-pointer:1 pool.allocated bytes=64 tag=Wtun\n";
        assert!(messages(id, &format!("{life}{taken}{again}")).is_empty());
        assert_eq!(judge_count(id, life), 1);
    }

    #[test]
    fn a_resource_ends_by_its_own_device() {
        let opened = "resource-view:1 resource-view.opened resource=resource:1 device=device:1\n";
        let by = |by: &str| {
            format!(
                "{opened}resource-view:1 resource-view.retiring by={by} retirement=retirement:1"
            )
        };
        let id = RuleId::ALLOC_CREATE_007;
        assert!(messages(id, &by("device:1")).is_empty());
        assert_eq!(judge_count(id, &by("process:1")), 0, "a process that ends has no device");
        assert_eq!(
            messages(id, &by("device:2")),
            [
                "a call of device 2 closed the handle of resource-view 1, but that belongs to device 1"
            ]
        );
    }

    #[test]
    fn only_a_shared_resource_has_a_global_name() {
        let named = |sharing: &str| {
            format!(
                "resource:1 resource.created adapter=adapter:1 device=device:1 sharing={sharing}
                process:1 handle.shared handle=0x40000002 of=resource:1"
            )
        };
        let id = RuleId::ALLOC_CREATE_008;
        assert!(messages(id, &named("global")).is_empty());
        for sharing in ["none", "nt"] {
            assert_eq!(messages(id, &named(sharing)).len(), 1, "{sharing}");
        }
    }

    fn created(size: u64, pitch: u64, seen: u32) -> String {
        format!(
            "allocation:1 allocation.created adapter=adapter:1 device=device:1 resource=- \
             size={size} pitch_size={pitch} alignment=0 client_data=0x00000001 driver_data={seen:#010x}"
        )
    }

    #[test]
    fn nothing_is_named_on_a_lost_device() {
        let id = RuleId::ALLOC_CREATE_020;
        let born = "device:1 device.created process=process:1 adapter=adapter:1
            view:1 view.opened allocation=allocation:1 device=device:1 resource=- handle_set=true\n";
        let (lost, named) = (
            "device:1 device.lost why=hung\n",
            "process:1 handle.published handle=0x40000040 of=view:1",
        );
        assert_eq!(judge_count(id, &[born, named].concat()), 1);
        assert!(messages(id, &[born, named].concat()).is_empty());
        assert_eq!(
            messages(id, &[born, lost, named].concat()),
            ["view 1 got a handle, but its device was lost before"]
        );
    }

    #[test]
    fn an_allocation_is_what_was_asked_and_has_a_size() {
        let check = |id, line: &str, count| assert_eq!(messages(id, line).len(), count, "{line}");
        check(RuleId::ALLOC_CREATE_021, &created(1, 0, 1), 0);
        check(RuleId::ALLOC_CREATE_021, &created(1, 0, 2), 1);
        check(RuleId::KMD_ALLOC_002, &created(1, 0, 1), 0);
        check(RuleId::KMD_ALLOC_002, &created(0, 0, 1), 1);
        check(RuleId::KMD_ALLOC_003, &created(4096, 0, 1), 0);
        check(RuleId::KMD_ALLOC_003, &created(4096, 4096, 1), 0);
        check(RuleId::KMD_ALLOC_003, &created(4096, 4095, 1), 1);
        let (possible, largest) = (RuleId::WT_ALLOC_001, u64::MAX - 4095);
        check(possible, &created(largest, largest, 1), 0);
        check(possible, &created(largest + 1, 0, 1), 1);
        check(possible, &created(4096, u64::MAX, 1), 1);
        for (alignment, count) in [(1, 0), (4096, 0), (3 * 4096, 1)] {
            let aligned = format!("alignment={alignment}");
            check(possible, &created(4096, 0, 1).replace("alignment=0", &aligned), count);
        }
    }

    #[test]
    fn every_allocation_has_a_word_of_its_own() {
        let id = RuleId::KMD_ALLOC_001;
        assert_eq!(messages(id, "driver-pointer:0 driver-handle.set of=allocation:1").len(), 1);
        assert!(
            messages(id, "driver-pointer:1 driver-handle.set of=resource:1\ndriver-pointer:1 driver-handle.set of=allocation:1")
                .is_empty()
        );
        let first = "driver-pointer:1 driver-handle.set of=allocation:1\n";
        assert_eq!(
            messages(id, &format!("{first}driver-pointer:1 driver-handle.set of=allocation:2")),
            [
                "DxgkDdiCreateAllocation returned driver-pointer 1 as the hAllocation of allocation 2, \
              but allocation 1 is live and already has it"
            ]
        );
        let ended = "driver-pointer:1 driver-handle.ended of=allocation:1 only_object=false\n";
        assert!(
            messages(
                id,
                &format!("{first}{ended}driver-pointer:1 driver-handle.set of=allocation:2")
            )
            .is_empty()
        );
    }

    #[test]
    fn a_resource_travels_with_its_last_word() {
        let id = RuleId::KMD_ALLOC_010;
        let start = "driver-pointer:1 driver-handle.set of=resource:1
            resource:1 resource.created adapter=adapter:1 device=device:1 sharing=none\n";
        let carries = |driver_handle| {
            format!(
                "c1 resource:1 ddi.resource driver_handle=driver-pointer:{driver_handle} destroy=false no_allocations=false\n"
            )
        };
        assert!(messages(id, &format!("{start}{}", carries(1))).is_empty());
        let changed = format!("{start}driver-pointer:2 driver-handle.set of=resource:1\n");
        assert!(messages(id, &format!("{changed}{}", carries(2))).is_empty());
        assert_eq!(
            messages(id, &format!("{changed}{}", carries(1))),
            [
                "a call carried driver-pointer 1 as the hResource of resource 1, but the driver's last one \
                 is driver-pointer 2"
            ]
        );
    }

    #[test]
    fn a_refused_create_leaves_nothing() {
        let id = RuleId::KMD_ALLOC_011;
        let call = |result: &str, freed: &str| {
            format!(
                "call:5 ddi.call name=DxgkDdiCreateAllocation level=passive threading_level=zero adapter=adapter:1 process=-
                c5 driver-pointer:1 pool.allocated bytes=64 tag=Wtun
                {freed} pool.freed
                call:5 ddi.return name=DxgkDdiCreateAllocation result={result} legal=true"
            )
        };
        assert!(messages(id, &call("no-memory", "c5 driver-pointer:1")).is_empty());
        assert_eq!(judge_count(id, &call("ok", "c5 driver-pointer:2")), 0);
        assert_eq!(judge_count(id, &call("crashed", "c5 driver-pointer:2")), 0);
        assert_eq!(
            messages(id, &call("no-memory", "c5 driver-pointer:2")),
            ["DxgkDdiCreateAllocation returned no-memory, but 1 pool blocks it took are not \
                 freed \
              (first driver-pointer 1, 64 bytes, tag Wtun)"]
        );
    }

    #[test]
    fn an_opened_view_has_a_word() {
        let line = |answered: bool| {
            format!(
                "view:1 view.opened allocation=allocation:1 device=device:1 resource=- handle_set={answered}"
            )
        };
        assert!(messages(RuleId::KMD_OPEN_001, &line(true)).is_empty());
        assert_eq!(messages(RuleId::KMD_OPEN_001, &line(false)).len(), 1);
    }
}
