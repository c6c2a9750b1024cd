//! GPU virtual addresses: rules on reserving, mapping and freeing ranges, and on page tables.

use crate::ddi::BUILD_PAGING_BUFFER as BUILD;
use crate::follow_address::span_of;
use crate::objects::freed;
use crate::rule::{Rule, Verdict};
use crate::shadow::{Serial, Shadows};
use flight::{Component, Event, EventKind, Kind, RuleId};

const MAP: &str = "D3DKMTMapGpuVirtualAddress";
const RESERVE: &str = "D3DKMTReserveGpuVirtualAddress";
const ROOT: &str = "DxgkDdiSetRootPageTable";
const UPDATE: &str = "D3DKMTUpdateGpuVirtualAddress";

/// The maximum number of pending updates of an address space.
const MAX_WAITING: usize = 128;

/// The rules on addresses.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["range.mapped"], RuleId::GPUVA_MAP_005, map_bounds),
    Rule::on(&["range.reserved", "range.failed"], RuleId::GPUVA_RESERVE_002, range_is_free),
    Rule::on(&["range.reserved"], RuleId::GPUVA_RESERVE_003, reserve_bounds),
    Rule::on(&["page-table.written"], RuleId::GPUVA_FREE_003, written_for_mapped_range),
    Rule::on(&["range.mapped"], RuleId::GPUVA_UPDATE_004, operations_in_order),
    Rule::on(&["update.applied", "update.done"], RuleId::GPUVA_UPDATE_005, update_after_fence),
    Rule::on(&["update.queued"], RuleId::GPUVA_UPDATE_006, queued_update_limit),
    Rule::on(&["page-table.written"], RuleId::KMD_PAGING_019, system_by_cpu),
    Rule::on(
        &["page-table.written", "page-table.destroyed"],
        RuleId::KMD_PAGING_022,
        table_invalidated_first,
    ),
    Rule::on(&["page-table.written"], RuleId::KMD_PAGING_023, sequential_pages),
    Rule::on(
        &["device.created", "address-space.created"],
        RuleId::KMD_PROC_001,
        process_object_lifetime,
    ),
    Rule::on(&["driver-handle.ended"], RuleId::KMD_PROC_002, process_freed)
        .about(&[Kind::AddressSpace]),
    Rule::on(&["packet.submitted", "root.set"], RuleId::KMD_PT_001, root_set_before_run),
    Rule::on(&["root.set", "page-table.destroyed"], RuleId::KMD_PT_006, old_root),
];

fn map_bounds(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::RangeMapped { start, end, base, minimum, maximum, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    if base != 0 {
        return Verdict::NotApplicable; // The client chose.
    }
    let right = start >= minimum && (maximum == 0 || end <= maximum);
    Verdict::holds_if(right, Component::Kernel, MAP, || {
        format!("{start:#x} to {end:#x} was chosen, but {minimum:#x} to {maximum:#x} was requested")
    })
}

fn reserve_bounds(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::RangeReserved { start, end, base, minimum, maximum, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(space) = shadows.address_space(event.subject).filter(|_| base == 0) else {
        return Verdict::NotApplicable;
    };
    let top = if maximum == 0 { space.end } else { maximum };
    Verdict::holds_if(start >= minimum && end <= top, Component::Kernel, RESERVE, || {
        format!("{start:#x} to {end:#x} was chosen, but {minimum:#x} to {top:#x} was requested")
    })
}

fn range_is_free(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(space) = shadows.address_space(event.subject) else { return Verdict::NotApplicable };
    match event.kind {
        EventKind::RangeReserved { start, end, .. } => {
            let other = space.ranges_in(&(start..end)).next().map(|pair| (pair.0, pair.1.end));
            Verdict::holds_if(other.is_none(), Component::Kernel, RESERVE, || {
                let (from, to) = other.unwrap_or_default();
                format!("{start:#x} to {end:#x} is reserved, but {from:#x} to {to:#x} is taken")
            })
        }
        EventKind::RangeFailed { start, end, reserve: true, .. } => {
            let taken = space.ranges_in(&(start..end)).next().is_some();
            let outside = start < 0x10000 || end > space.end;
            Verdict::holds_if(taken || outside, Component::Kernel, RESERVE, || {
                format!("{start:#x} to {end:#x} is refused, but nothing of it is taken")
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn written_for_mapped_range(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PageTableWritten {
        space,
        level: 0,
        address,
        count,
        entry_kind: what,
        of: Some(of),
        ..
    } = &event.kind
    else {
        return Verdict::NotApplicable;
    };
    let Some(space) = shadows.address_space(space).filter(|_| what == "page") else {
        return Verdict::NotApplicable;
    };
    let span = span_of(*address, *count);
    let mine = space.ranges_in(&span).any(|pair| pair.1.of == Some(*of));
    // A client may free the addresses while the driver builds the operation.
    let chosen = shadows.builds.get(&event.thread).copied().unwrap_or(u64::MAX);
    let freed_since = space.unmapped.iter().any(|(addresses, allocation, seq)| {
        *seq > chosen
            && allocation == of
            && addresses.start < span.end
            && span.start < addresses.end
    });
    Verdict::holds_if(mine || freed_since, Component::Kernel, BUILD, || {
        format!(
            "entries of {:#x} to {:#x} are written for {of}, but those addresses are not its any \
             more",
            span.start, span.end
        )
    })
}

fn operations_in_order(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::RangeMapped { start, index: order, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(before) =
        shadows.address_space(event.subject).and_then(|address_space| address_space.order)
    else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(before <= order, Component::Kernel, UPDATE, || {
        format!("operation {order}, at {start:#x}, is applied after operation {before}")
    })
}

fn update_after_fence(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::UpdateApplied { of: Some(of), .. } | EventKind::UpdateDone { of, .. }) =
        event.kind
    else {
        return Verdict::NotApplicable;
    };
    let Some(value) = shadows.sync(of).map(|sync_object| sync_object.value) else {
        return Verdict::NotApplicable;
    };
    match event.kind {
        EventKind::UpdateApplied { update, fence_value: wanted, .. } => {
            Verdict::holds_if(value >= wanted, Component::Kernel, UPDATE, || {
                format!("update {update} is applied when {of} has {wanted}, but it has {value}")
            })
        }
        EventKind::UpdateDone { update, fence_value: wanted, .. } => {
            let next = wanted.saturating_add(1);
            Verdict::holds_if(value == next, Component::Kernel, UPDATE, || {
                format!("update {update} is done, but {of} has {value} and not {next}")
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn queued_update_limit(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::UpdateQueued { update, .. } = event.kind else { return Verdict::NotApplicable };
    let Some(waiting) =
        shadows.address_space(event.subject).map(|address_space| address_space.waiting.len())
    else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(waiting < MAX_WAITING, Component::Kernel, UPDATE, || {
        format!(
            "update {update} waits beside {waiting} others, but with {MAX_WAITING} its caller \
             waits"
        )
    })
}

fn system_by_cpu(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PageTableWritten { by, space, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(_) =
        shadows.address_space(space).filter(|address_space| address_space.process.is_none())
    else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(by == "cpu", Component::Kernel, BUILD, || {
        format!("tables of {space}, the system's, are written by the {by}, and not by the CPU")
    })
}

fn table_invalidated_first(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(table) = shadows.page_table(event.subject) else { return Verdict::NotApplicable };
    let subject = event.subject;
    match &event.kind {
        EventKind::PageTableWritten { entry_kind: what, count, initial, .. } => {
            let whole = what == "invalid" && *count == table.entries;
            let first = table.first.is_none();
            Verdict::holds_if(!first || (whole && *initial), Component::Kernel, BUILD, || {
                format!(
                    "{count} entries of {subject} become {what} first, and it has {} that were \
                     never made invalid",
                    table.entries
                )
            })
        }
        EventKind::PageTableDestroyed {} => {
            let again = shadows
                .address_space(table.space)
                .is_some_and(|address_space| address_space.invalidates_tables);
            let last = table.last.as_ref();
            let whole = last.is_none_or(|pair| pair.0 == "invalid" && pair.1 == table.entries);
            if !again {
                return Verdict::NotApplicable;
            }
            Verdict::holds_if(whole, Component::Kernel, BUILD, || {
                format!("{subject} goes, and its entries were not made invalid before")
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn sequential_pages(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PageTableWritten {
        space,
        level: 0,
        address,
        count,
        of: Some(of),
        offset,
        sequential: steady,
        entry_kind: what,
        ..
    } = &event.kind
    else {
        return Verdict::NotApplicable;
    };
    let Some(space) = shadows.address_space(space).filter(|_| what == "page") else {
        return Verdict::NotApplicable;
    };
    let span = span_of(*address, *count);
    let mine = space.ranges_in(&span).find(|pair| pair.0 <= *address && pair.1.of == Some(*of));
    let wanted = mine.map(|(start, it)| it.offset + (address - start));
    let right = wanted.is_none_or(|value| value == *offset);
    Verdict::holds_if(*steady && right, Component::Kernel, BUILD, || match wanted {
        Some(wanted) if !right => format!(
            "the entry of {address:#x} is reported at {offset:#x} of {of}, where {wanted:#x} is \
             mapped"
        ),
        _ => format!("the {count} entries from {address:#x} on are not one behind the other"),
    })
}

fn process_object_lifetime(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::DeviceCreated { adapter, .. } | EventKind::AddressSpaceCreated { adapter, .. }) =
        event.kind
    else {
        return Verdict::NotApplicable;
    };
    let Some(adapter) = shadows.adapter(adapter) else { return Verdict::NotApplicable };
    match event.kind {
        EventKind::DeviceCreated { process, adapter: on } => {
            if adapter.spaces.is_empty() {
                return Verdict::NotApplicable; // It translates nothing.
            }
            // The system's own address space is process zero.
            let known = adapter.spaces.iter().any(|pair| {
                pair.0 == Some(process.into())
                    || (pair.0.is_none() && process == Kind::Process.subject(0))
            });
            Verdict::holds_if(known, Component::Kernel, "DxgkDdiCreateProcess", || {
                let device = event.subject;
                format!("{device} is created, but the driver of {on} was not called for {process}")
            })
        }
        EventKind::AddressSpaceCreated { process, .. } => {
            let first = adapter.spaces.is_empty();
            let twice = adapter.spaces.iter().any(|pair| pair.0 == process.map(Serial::from));
            let right = first == process.is_none() && !twice;
            Verdict::holds_if(right, Component::Kernel, "DxgkDdiCreateProcess", || {
                let owner = process.map_or("the system".to_owned(), |subject| subject.to_string());
                let when = if first { "first" } else { "again, or after others" };
                format!(
                    "the driver is called for {owner} {when}: the system comes first, and each \
                     process once"
                )
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn process_freed(event: &Event, shadows: &Shadows) -> Verdict {
    freed(event, shadows, Kind::AddressSpace, "DxgkDdiDestroyProcess", "hKmdProcess")
}

fn root_set_before_run(event: &Event, shadows: &Shadows) -> Verdict {
    match event.kind {
        EventKind::PacketSubmitted { .. } => {
            let Some(it) = shadows.context(event.subject).filter(|context| context.translates)
            else {
                return Verdict::NotApplicable;
            };
            Verdict::holds_if(it.root.is_some(), Component::Kernel, ROOT, || {
                format!("{} runs, but no root page table was set for it", event.subject)
            })
        }
        EventKind::RootSet { context: Some(context), idle, .. } => {
            Verdict::holds_if(idle, Component::Kernel, ROOT, || {
                format!("a root page table is set for {context}, which runs")
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn old_root(event: &Event, shadows: &Shadows) -> Verdict {
    match event.kind {
        EventKind::RootSet { table, .. } => {
            let Some(it) = shadows.page_table(table) else { return Verdict::NotApplicable };
            Verdict::holds_if(it.first.is_some(), Component::Kernel, ROOT, || {
                format!("{table} becomes a root page table, but nothing was written to it")
            })
        }
        EventKind::PageTableDestroyed {} => {
            let Some(it) = shadows.page_table(event.subject) else { return Verdict::NotApplicable };
            Verdict::holds_if(it.roots.is_empty(), Component::Kernel, ROOT, || {
                let context = it.roots.first().map_or(event.subject, |context| (*context).into());
                format!("{} is given up, but it is the root page table of {context}", event.subject)
            })
        }
        _ => Verdict::NotApplicable,
    }
}

#[cfg(test)]
mod tests {
    use crate::script::messages;
    use flight::RuleId;

    #[test]
    fn an_update_signals_the_value_behind_the_one_it_waited_for() {
        let done = |value: u32| {
            format!(
                "sync:1 sync.created device=device:1 kind=monitored value=0 sharing=none \
                 no_signal=false no_wait=false no_tdr_signal=true
                sync:1 sync.signalled by=update value={value} shown={value}
                address-space:1 update.done update=2 of=sync:1 fence_value=1"
            )
        };
        let id = RuleId::GPUVA_UPDATE_005;
        assert!(messages(id, &done(2)).is_empty());
        for wrong in [1, 3] {
            let no = format!("update 2 is done, but sync 1 has {wrong} and not 2");
            assert_eq!(messages(id, &done(wrong)), [no]);
        }
    }

    #[test]
    fn addresses_may_be_freed_while_their_entries_are_built() {
        let space = "address-space:1 address-space.created adapter=adapter:1 process=process:1 \
                     bits=39 invalidates_tables=false\n";
        let mapped = "t1 address-space:1 range.mapped start=65536 end=69632 view=view:1 \
                      of=allocation:1 backing=mapped offset=0 base=0 minimum=0 maximum=0 index=0\n";
        let freed = "t1 address-space:1 range.freed start=65536 end=69632 object_destroyed=false \
                     still_reserved=false\n";
        let called = "t2 c9 call:9 ddi.call name=DxgkDdiBuildPagingBuffer level=passive \
                      threading_level=scheduler adapter=adapter:1 process=-\n";
        let written = "t2 page-table:1 page-table.written space=address-space:1 level=0 by=gpu \
                       first=16 count=1 address=65536 entry_kind=page of=allocation:1 offset=0 \
                       sequential=true segment=2 page=0 initial=false evicts=false\n";
        let id = RuleId::GPUVA_FREE_003;
        let flight = |events: &[&str]| messages(id, &events.concat());
        assert!(flight(&[space, mapped, called, written]).is_empty());
        assert!(flight(&[space, mapped, called, freed, written]).is_empty());
        let no = "entries of 0x10000 to 0x11000 are written for allocation 1, but those addresses \
                  are not its any more";
        assert_eq!(flight(&[space, mapped, freed, called, written]), [no]);
    }
}
