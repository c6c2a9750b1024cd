//! GPU virtual addresses: rules on reserving, mapping and freeing ranges, and on page tables.

use crate::follow_address::span_of;
use crate::objects::freed;
use crate::rule::{Rule, Verdict};
use crate::shadow::{Serial, Shadows};
use flight::{Event, Kind, RuleId, What, Who};

const MAP: &str = "D3DKMTMapGpuVirtualAddress";
const RESERVE: &str = "D3DKMTReserveGpuVirtualAddress";
const BUILD: &str = "DxgkDdiBuildPagingBuffer";
const ROOT: &str = "DxgkDdiSetRootPageTable";
const UPDATE: &str = "D3DKMTUpdateGpuVirtualAddress";

/// How many updates of a space wait at most.
const MOST_WAITING: usize = 128;

/// The rules on addresses.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["range.mapped"], RuleId::GPUVA_MAP_005, map_bounds),
    Rule::on(&["range.reserved", "range.refused"], RuleId::GPUVA_RESERVE_002, alone),
    Rule::on(&["range.reserved"], RuleId::GPUVA_RESERVE_003, reserve_bounds),
    Rule::on(&["page-table.written"], RuleId::GPUVA_FREE_003, of_its_owner),
    Rule::on(&["range.mapped"], RuleId::GPUVA_UPDATE_004, in_order),
    Rule::on(&["update.applied", "update.done"], RuleId::GPUVA_UPDATE_005, behind_its_fence),
    Rule::on(&["update.queued"], RuleId::GPUVA_UPDATE_006, few_wait),
    Rule::on(&["page-table.written"], RuleId::KMD_PAGING_019, system_by_cpu),
    Rule::on(&["page-table.written", "page-table.gone"], RuleId::KMD_PAGING_022, invalid_first),
    Rule::on(&["page-table.written"], RuleId::KMD_PAGING_023, sequential),
    Rule::on(&["device.created", "space.created"], RuleId::KMD_PROC_001, process),
    Rule::on(&["word.ended"], RuleId::KMD_PROC_002, process_freed),
    Rule::on(&["packet.submitted", "root.set"], RuleId::KMD_PT_001, rooted),
    Rule::on(&["root.set", "page-table.gone"], RuleId::KMD_PT_006, old_root),
];

fn map_bounds(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::RangeMapped { start, end, base, minimum, maximum, .. } = event.what else {
        return Verdict::Aside;
    };
    if base != 0 {
        return Verdict::Aside; // The client chose.
    }
    let right = start >= minimum && (maximum == 0 || end <= maximum);
    Verdict::kept_if(right, Who::Kernel, MAP, || {
        format!("{start:#x} to {end:#x} was chosen, but {minimum:#x} to {maximum:#x} was asked for")
    })
}

fn reserve_bounds(event: &Event, shadows: &Shadows) -> Verdict {
    let What::RangeReserved { start, end, base, minimum, maximum, .. } = event.what else {
        return Verdict::Aside;
    };
    let Some(space) = shadows.space(event.subject).filter(|_| base == 0) else {
        return Verdict::Aside;
    };
    let top = if maximum == 0 { space.end } else { maximum };
    Verdict::kept_if(start >= minimum && end <= top, Who::Kernel, RESERVE, || {
        format!("{start:#x} to {end:#x} was chosen, but {minimum:#x} to {top:#x} was asked for")
    })
}

fn alone(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(space) = shadows.space(event.subject) else { return Verdict::Aside };
    match event.what {
        What::RangeReserved { start, end, .. } => {
            let other = space.taken(&(start..end)).next().map(|it| (it.0, it.1.end));
            Verdict::kept_if(other.is_none(), Who::Kernel, RESERVE, || {
                let (from, to) = other.unwrap_or_default();
                format!("{start:#x} to {end:#x} is reserved, but {from:#x} to {to:#x} is taken")
            })
        }
        What::RangeRefused { start, end, reserve: true, .. } => {
            let taken = space.taken(&(start..end)).next().is_some();
            let outside = start < 0x10000 || end > space.end;
            Verdict::kept_if(taken || outside, Who::Kernel, RESERVE, || {
                format!("{start:#x} to {end:#x} is refused, but nothing of it is taken")
            })
        }
        _ => Verdict::Aside,
    }
}

fn of_its_owner(event: &Event, shadows: &Shadows) -> Verdict {
    let What::TableWritten { space, level: 0, address, count, what, of: Some(of), .. } =
        &event.what
    else {
        return Verdict::Aside;
    };
    let Some(space) = shadows.space(space).filter(|_| what == "page") else {
        return Verdict::Aside;
    };
    let span = span_of(*address, *count);
    let mine = space.taken(&span).any(|it| it.1.of == Some(*of));
    Verdict::kept_if(mine, Who::Kernel, BUILD, || {
        format!(
            "entries of {:#x} to {:#x} are written for {of}, but those addresses are not its any \
             more",
            span.start, span.end
        )
    })
}

fn in_order(event: &Event, shadows: &Shadows) -> Verdict {
    let What::RangeMapped { start, order, .. } = event.what else { return Verdict::Aside };
    let Some(before) = shadows.space(event.subject).and_then(|it| it.order) else {
        return Verdict::Aside;
    };
    Verdict::kept_if(before <= order, Who::Kernel, UPDATE, || {
        format!("operation {order}, at {start:#x}, is applied after operation {before}")
    })
}

fn behind_its_fence(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::UpdateApplied { of: Some(of), .. } | What::UpdateDone { of, .. }) = event.what
    else {
        return Verdict::Aside;
    };
    let Some(value) = shadows.sync(of).map(|it| it.value) else { return Verdict::Aside };
    match event.what {
        What::UpdateApplied { update, wanted, .. } => {
            Verdict::kept_if(value >= wanted, Who::Kernel, UPDATE, || {
                format!("update {update} is applied when {of} has {wanted}, but it has {value}")
            })
        }
        What::UpdateDone { update, wanted, .. } => {
            let next = wanted.saturating_add(1);
            Verdict::kept_if(value == next, Who::Kernel, UPDATE, || {
                format!("update {update} is done, but {of} has {value} and not {next}")
            })
        }
        _ => Verdict::Aside,
    }
}

fn few_wait(event: &Event, shadows: &Shadows) -> Verdict {
    let What::UpdateQueued { update, .. } = event.what else { return Verdict::Aside };
    let Some(waiting) = shadows.space(event.subject).map(|it| it.waiting.len()) else {
        return Verdict::Aside;
    };
    Verdict::kept_if(waiting < MOST_WAITING, Who::Kernel, UPDATE, || {
        format!(
            "update {update} waits beside {waiting} others, but with {MOST_WAITING} its caller \
             waits"
        )
    })
}

fn system_by_cpu(event: &Event, shadows: &Shadows) -> Verdict {
    let What::TableWritten { by, space, .. } = &event.what else { return Verdict::Aside };
    let Some(_) = shadows.space(space).filter(|it| it.process.is_none()) else {
        return Verdict::Aside;
    };
    Verdict::kept_if(by == "cpu", Who::Kernel, BUILD, || {
        format!("tables of {space}, the system's, are written by the {by}, and not by the CPU")
    })
}

fn invalid_first(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(table) = shadows.table(event.subject) else { return Verdict::Aside };
    let subject = event.subject;
    match &event.what {
        What::TableWritten { what, count, initial, .. } => {
            let whole = what == "invalid" && *count == table.entries;
            let first = table.first.is_none();
            Verdict::kept_if(!first || (whole && *initial), Who::Kernel, BUILD, || {
                format!(
                    "{count} entries of {subject} become {what} first, and it has {} that were \
                     never made invalid",
                    table.entries
                )
            })
        }
        What::TableGone {} => {
            let again = shadows.space(table.space).is_some_and(|it| it.again);
            let last = table.last.as_ref();
            let whole = last.is_none_or(|it| it.0 == "invalid" && it.1 == table.entries);
            if !again {
                return Verdict::Aside;
            }
            Verdict::kept_if(whole, Who::Kernel, BUILD, || {
                format!("{subject} goes, and its entries were not made invalid before")
            })
        }
        _ => Verdict::Aside,
    }
}

fn sequential(event: &Event, shadows: &Shadows) -> Verdict {
    let What::TableWritten {
        space,
        level: 0,
        address,
        count,
        of: Some(of),
        offset,
        steady,
        what,
        ..
    } = &event.what
    else {
        return Verdict::Aside;
    };
    let Some(space) = shadows.space(space).filter(|_| what == "page") else {
        return Verdict::Aside;
    };
    let span = span_of(*address, *count);
    let mine = space.taken(&span).find(|it| it.0 <= *address && it.1.of == Some(*of));
    let wanted = mine.map(|(start, it)| it.offset + (address - start));
    let right = wanted.is_none_or(|it| it == *offset);
    Verdict::kept_if(*steady && right, Who::Kernel, BUILD, || match wanted {
        Some(wanted) if !right => format!(
            "the entry of {address:#x} is said to be at {offset:#x} of {of}, where {wanted:#x} is \
             mapped"
        ),
        _ => format!("the {count} entries from {address:#x} on are not one behind the other"),
    })
}

fn process(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::DeviceCreated { adapter, .. } | What::SpaceCreated { adapter, .. }) = event.what
    else {
        return Verdict::Aside;
    };
    let Some(adapter) = shadows.adapter(adapter) else { return Verdict::Aside };
    match event.what {
        What::DeviceCreated { process, adapter: on } => {
            if adapter.spaces.is_empty() {
                return Verdict::Aside; // It translates nothing.
            }
            // The system's own is process zero.
            let known = adapter.spaces.iter().any(|it| {
                it.0 == Some(process.into()) || (it.0.is_none() && process == Kind::Process.nr(0))
            });
            Verdict::kept_if(known, Who::Kernel, "DxgkDdiCreateProcess", || {
                let device = event.subject;
                format!("{device} is made, but the driver of {on} has not met {process}")
            })
        }
        What::SpaceCreated { process, .. } => {
            let first = adapter.spaces.is_empty();
            let twice = adapter.spaces.iter().any(|it| it.0 == process.map(Serial::from));
            let right = first == process.is_none() && !twice;
            Verdict::kept_if(right, Who::Kernel, "DxgkDdiCreateProcess", || {
                let whom = process.map_or("the system".to_owned(), |it| it.to_string());
                let when = if first { "first" } else { "again, or after others" };
                format!("the driver meets {whom} {when}: the system comes first, each once")
            })
        }
        _ => Verdict::Aside,
    }
}

fn process_freed(event: &Event, shadows: &Shadows) -> Verdict {
    freed(event, shadows, Kind::Space, "DxgkDdiDestroyProcess", "hKmdProcess")
}

fn rooted(event: &Event, shadows: &Shadows) -> Verdict {
    match event.what {
        What::PacketSubmitted { .. } => {
            let Some(it) = shadows.context(event.subject).filter(|it| it.translates) else {
                return Verdict::Aside;
            };
            Verdict::kept_if(it.root.is_some(), Who::Kernel, ROOT, || {
                format!("{} runs, but no root page table was set for it", event.subject)
            })
        }
        What::RootSet { context: Some(context), idle, .. } => {
            Verdict::kept_if(idle, Who::Kernel, ROOT, || {
                format!("a root page table is set for {context}, which runs")
            })
        }
        _ => Verdict::Aside,
    }
}

fn old_root(event: &Event, shadows: &Shadows) -> Verdict {
    match event.what {
        What::RootSet { table, .. } => {
            let Some(it) = shadows.table(table) else { return Verdict::Aside };
            Verdict::kept_if(it.first.is_some(), Who::Kernel, ROOT, || {
                format!("{table} becomes a root page table, but nothing was written to it")
            })
        }
        What::TableGone {} => {
            let Some(it) = shadows.table(event.subject) else { return Verdict::Aside };
            Verdict::kept_if(it.roots.is_empty(), Who::Kernel, ROOT, || {
                let context = it.roots.first().map_or(event.subject, |context| (*context).into());
                format!("{} is given up, but it is the root page table of {context}", event.subject)
            })
        }
        _ => Verdict::Aside,
    }
}
