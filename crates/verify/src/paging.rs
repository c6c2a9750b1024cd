//! Paging: rules on what a driver returns, and on the order of the kernel's requests.

use crate::rule::{Rule, Verdict};
use crate::shadow::memory::{ResidencyNotice, Segment};
use crate::shadow::{Serial, Shadows};
use flight::{Component, Event, EventKind, Hex, Kind, RuleId, Subject};

const BUILD: &str = "DxgkDdiBuildPagingBuffer";

/// The rules on paging work.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ddi.return"], RuleId::KMD_PAGING_001, build_status_legal).of(&[BUILD]),
    Rule::on(&["paging.built"], RuleId::KMD_PAGING_005, busy_allowed),
    Rule::on(&["paging.built"], RuleId::KMD_PAGING_006, retried_when_idle),
    Rule::on(&["paging.built", "paging.ended"], RuleId::KMD_PAGING_007, one_transfer_at_a_time),
    Rule::on(&["ddi.return"], RuleId::KMD_PAGING_008, transfer_start_repeats).of(&[BUILD]),
    Rule::on(&["paging.built"], RuleId::KMD_PAGING_010, address_includes_segment_base),
    Rule::on(&["paging.built", "paging.done"], RuleId::KMD_PAGING_011, fill_only_idle_memory),
    Rule::on(&["paging.done", "memory.freed"], RuleId::KMD_PAGING_014, unmapped_only_if_mapped),
    Rule::on(&["paging.done"], RuleId::KMD_PAGING_025, residency_notifications),
    Rule::on(
        &["paging.built", "page-table.destroyed"],
        RuleId::KMD_PAGING_031,
        memory_unreferenced_before_reuse,
    ),
    Rule::on(&["paging.built"], RuleId::KMD_SEG_008, aperture_operations_implemented),
    Rule::on(&["paging.private"], RuleId::KMD_SEG_014, private_data_unchanged),
];

fn build_status_legal(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::DdiReturn { name, result, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    // A driver that crashed, or has no entry, is judged elsewhere.
    if name != BUILD || result == "crashed" || result == "absent" {
        return Verdict::NotApplicable;
    }
    let known = ["ok", "no-room", "busy"].contains(&&**result);
    Verdict::holds_if(known, Component::Driver, BUILD, || {
        format!("{BUILD} returned {result}, but only a full buffer or a busy allocation fail it")
    })
}

fn busy_allowed(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::PagingBuilt { operation, of, idle, result, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let waits = ["transfer", "special-lock-transfer", "discard"].contains(&&**operation);
    Verdict::holds_if(result != "busy" || (waits && !idle), Component::Driver, BUILD, || {
        let why = if waits {
            "although it was notified that no packet uses it"
        } else {
            "but only transfers and discards wait for packets"
        };
        format!("the driver reported that {of} is busy in operation {operation}, {why}")
    })
}

fn retried_when_idle(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PagingBuilt { operation, of, idle, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(paging) = shadows.paging(event.subject) else { return Verdict::NotApplicable };
    let Some(open) = paging.open.as_ref().filter(|partial_operation| partial_operation.busy) else {
        return Verdict::NotApplicable;
    };
    let same = (&open.operation, open.of) == (operation, *of);
    Verdict::holds_if(same && *idle && paging.waits == 0, Component::Kernel, BUILD, || {
        if !same {
            format!("{} is busy, and operation {operation} on {of} comes before it", open.of)
        } else if *idle {
            let nodes = paging.waits;
            format!("{of} was busy, and is paged while {nodes} nodes have work from then to do")
        } else {
            format!("{of} was busy, but the driver is not notified that it is idle now")
        }
    })
}

fn one_transfer_at_a_time(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(paging) = shadows.paging(event.subject) else { return Verdict::NotApplicable };
    let open = paging.open.as_ref();
    match &event.kind {
        EventKind::PagingBuilt { operation, of, pass, .. } => {
            let next = open.map_or(1, |partial_operation| partial_operation.pass + 1);
            let same = open.is_none_or(|partial_operation| {
                (&partial_operation.operation, partial_operation.of) == (operation, *of)
            });
            Verdict::holds_if(same && *pass == next, Component::Kernel, BUILD, || match open {
                Some(it) if !same => format!(
                    "operation {operation} on {of} begins before operation {} on {} has ended",
                    it.operation, it.of
                ),
                _ => format!("operation {operation} on {of} is at buffer {pass}, not at {next}"),
            })
        }
        EventKind::PagingEnded { lost: false } => {
            Verdict::holds_if(open.is_none(), Component::Kernel, BUILD, || {
                let of = open.map_or(event.subject, |partial_operation| partial_operation.of);
                format!("{} ends before its operation on {of} does", event.subject)
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn transfer_start_repeats(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(call) = shadows.call(event.subject) else { return Verdict::NotApplicable };
    let Some(adapter) = shadows.adapter(call.adapter) else { return Verdict::NotApplicable };
    let Some(before) = adapter.retried.filter(|_| call.name == BUILD) else {
        return Verdict::NotApplicable;
    };
    let now = call.blocks.len();
    Verdict::holds_if(before == 0 || now == 0, Component::Driver, BUILD, || {
        format!(
            "{} goes on with a transfer, and takes {now} more pool blocks for it: it took {before} \
             when it began",
            event.subject
        )
    })
}

fn aperture_operations_implemented(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::PagingBuilt { operation, of, result, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    if !["map-aperture", "unmap-aperture"].contains(&&**operation) {
        return Verdict::NotApplicable;
    }
    let refused = ["absent", "unsupported", "invalid"].contains(&&**result);
    Verdict::holds_if(!refused, Component::Driver, BUILD, || {
        format!(
            "the driver has an aperture, but returns {result} for operation {operation} on {of}"
        )
    })
}

fn address_includes_segment_base(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PagingBuilt { operation, of, segment, address, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = paged(*of, *segment, shadows).filter(|_| operation == "transfer") else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(it.has(*address), Component::Kernel, BUILD, || {
        format!(
            "a transfer of {of} is at {address:#x}, but {segment} is from {:#x} on, with {:#x} \
             bytes",
            it.base, it.size
        )
    })
}

fn fill_only_idle_memory(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::PagingBuilt { operation, of, segment, .. } if operation == "fill" => {
            let Some(it) = paged(*of, *segment, shadows) else { return Verdict::NotApplicable };
            Verdict::holds_if(!it.aperture, Component::Kernel, BUILD, || {
                format!("{of} is filled in {segment}, which is an aperture")
            })
        }
        EventKind::PagingDone { operation, of, .. } if operation == "fill" => {
            let Some(it) = shadows.memory(*of) else { return Verdict::NotApplicable };
            Verdict::holds_if(it.segment.is_none(), Component::Kernel, BUILD, || {
                format!("{of} is filled while it is in a segment, where packets may use it")
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn unmapped_only_if_mapped(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::PagingDone { operation, of, segment, .. } if operation == "unmap-aperture" => {
            let Some(it) = shadows.memory(*of) else { return Verdict::NotApplicable };
            Verdict::holds_if(it.mapped, Component::Kernel, BUILD, || {
                format!("{of} is taken out of {segment}, but was not mapped")
            })
        }
        EventKind::MemoryFreed {} => {
            let Some(it) = shadows.memory(event.subject) else { return Verdict::NotApplicable };
            let of = event.subject;
            Verdict::holds_if(!it.mapped, Component::Kernel, BUILD, || {
                format!("the memory of {of} is given back while it is mapped into an aperture")
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn residency_notifications(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PagingDone { operation, of, page_in: come, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.memory(*of) else { return Verdict::NotApplicable };
    let wrong = match (&**operation, come) {
        ("notify-residency", _) if !it.requirements.notified => {
            Some("its driver did not request that")
        }
        ("notify-residency", _) if it.segment.is_none() => Some("it is in no segment"),
        ("notify-residency", true) if it.notice != ResidencyNotice::None => {
            Some("that was reported before")
        }
        ("notify-residency", false) if it.notice != ResidencyNotice::Resident => {
            Some("it was not notified that it became resident")
        }
        ("notify-residency", _) => None,
        ("update-context", _) => return Verdict::NotApplicable,
        (_, false) => (it.requirements.notified && it.notice != ResidencyNotice::Evicted)
            .then_some("its driver was not notified that it is evicted"),
        (_, true) => None,
    };
    let verb = if *come { "comes" } else { "leaves" };
    Verdict::holds_if(wrong.is_none(), Component::Kernel, BUILD, || match wrong {
        Some(why) if operation == "notify-residency" => {
            format!("a driver is notified that {of} {verb}, but {why}")
        }
        why => format!("{of} {verb} in operation {operation}, and {}", why.unwrap_or_default()),
    })
}

fn memory_unreferenced_before_reuse(event: &Event, shadows: &Shadows) -> Verdict {
    if matches!(event.kind, EventKind::PageTableDestroyed {}) {
        return page_table_unreferenced(event, shadows);
    }
    let EventKind::PagingBuilt { operation, of, segment, address, size, page_in: true, .. } =
        &event.kind
    else {
        return Verdict::NotApplicable;
    };
    let it = paged(*of, *segment, shadows).filter(|_| operation != "notify-residency");
    let Some(it) = it else {
        return Verdict::NotApplicable;
    };
    let other = it
        .overlapping(*of, *address, *size)
        .filter(|other| !is_evicted_and_freed(*other, (*segment, *address, *size), shadows));
    let lead = it
        .mappings
        .iter()
        .find(|mapping| mapping.of != Some(*of) && mapping.reaches(*address, *size));
    Verdict::holds_if(other.is_none() && lead.is_none(), Component::Kernel, BUILD, || {
        if let Some(it) = lead.filter(|_| other.is_none()) {
            let how = if it.stale { "may still be remembered to lead" } else { "leads" };
            return format!(
                "{of} comes to {address:#x} in {segment}, where address {:#x} of {} {how}",
                it.span.start, it.space
            );
        }
        let other = other.unwrap_or(*segment);
        format!("{of} comes to {address:#x} in {segment}, but {other} has not left from there")
    })
}

/// Whether it is a freed context allocation whose location was taken from it: the driver is not
/// called to save the bytes of those.
fn is_evicted_and_freed(of: Subject, from: (Subject, u64, u64), shadows: &Shadows) -> bool {
    let (segment, address, size) = from;
    shadows.context_allocation(of).is_some_and(|it| {
        let there = it.memory.location.is_some_and(|location| {
            location.segment == segment
                && location.address < address.saturating_add(size)
                && address < location.address.saturating_add(it.memory.bytes)
        });
        !it.counts && !there
    })
}

/// The memory of a page table can be reused from here on: no engine may reach it.
fn page_table_unreferenced(event: &Event, shadows: &Shadows) -> Verdict {
    let space =
        shadows.page_table(event.subject).and_then(|table| shadows.address_space(table.space));
    let space = space.filter(|address_space| {
        address_space.process.is_some() && !address_space.contexts.is_empty()
    });
    let (Some(space), table) = (space, event.subject) else { return Verdict::NotApplicable };
    let parents = space.parents.iter().find(|pair| pair.1.0 == table);
    let remembered = space.remembered.get(&Serial::of(table));
    Verdict::holds_if(parents.is_none() && remembered.is_none(), Component::Kernel, BUILD, || {
        let whose = space.process.map_or(String::new(), |serial| format!(" of {serial}"));
        match (parents, remembered) {
            (Some(((_, address), (_, parent))), _) => format!(
                "the memory of {table}{whose} is free, but the entry of address {address:#x} in \
                 {parent} leads to it"
            ),
            (None, address) => format!(
                "the memory of {table}{whose} is free, but no flush since has had address {:#x} \
                 forgotten, which led to it",
                address.copied().unwrap_or_default()
            ),
        }
    })
}

fn private_data_unchanged(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PagingPrivate { buffer, bytes, before, .. } = event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.adapter(event.subject) else { return Verdict::NotApplicable };
    let known = it.buffers.get(&buffer);
    let right = known.copied().unwrap_or_else(|| zeroes(bytes)) == before;
    Verdict::holds_if(right, Component::Kernel, BUILD, || {
        let what = if known.is_some() { "was changed" } else { "is new and not zero" };
        format!("the private data of the paging buffer at {buffer:#x} {what}")
    })
}

/// The segment of an operation, unless it is on a context allocation: no rule of this file judges
/// their location.
fn paged(of: Subject, segment: Subject, shadows: &Shadows) -> Option<&Segment> {
    shadows.segment(segment).filter(|_| of.kind != Kind::ContextAllocation)
}

/// The digest of this many zero bytes (FNV-1a, as of all private data).
fn zeroes(bytes: u32) -> Hex {
    Hex((0..bytes).fold(0x811c_9dc5, |hash: u32, _| hash.wrapping_mul(0x0100_0193)))
}
