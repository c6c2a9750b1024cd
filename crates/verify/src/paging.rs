//! Paging: rules on what a driver returns, and on the order in which the kernel asks.

use crate::rule::{Rule, Verdict};
use crate::shadow::memory::{Segment, Told};
use crate::shadow::{Serial, Shadows};
use flight::{Event, Hex, Kind, RuleId, Subject, What, Who};

const BUILD: &str = "DxgkDdiBuildPagingBuffer";

/// The rules on paging work.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ddi.return"], RuleId::KMD_PAGING_001, answers),
    Rule::on(&["paging.built"], RuleId::KMD_PAGING_005, busy),
    Rule::on(&["paging.built"], RuleId::KMD_PAGING_006, again),
    Rule::on(&["paging.built", "paging.ended"], RuleId::KMD_PAGING_007, one_by_one),
    Rule::on(&["ddi.return"], RuleId::KMD_PAGING_008, starts),
    Rule::on(&["paging.built"], RuleId::KMD_PAGING_010, addressed),
    Rule::on(&["paging.built", "paging.done"], RuleId::KMD_PAGING_011, fills),
    Rule::on(&["paging.done", "memory.freed"], RuleId::KMD_PAGING_014, mapped),
    Rule::on(&["paging.done"], RuleId::KMD_PAGING_025, told),
    Rule::on(&["paging.built", "page-table.gone"], RuleId::KMD_PAGING_031, reused),
    Rule::on(&["paging.built"], RuleId::KMD_SEG_008, maps),
    Rule::on(&["paging.private"], RuleId::KMD_SEG_014, untouched),
];

fn answers(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::DdiReturn { name, answer, .. } = &event.what else { return Verdict::Aside };
    // A driver that did not return, or is not there, is another matter.
    if name != BUILD || answer == "crashed" || answer == "absent" {
        return Verdict::Aside;
    }
    let known = ["ok", "no-room", "busy"].contains(&&**answer);
    Verdict::kept_if(known, Who::Driver, BUILD, || {
        format!("{BUILD} answered {answer}, but only a full buffer or a busy allocation fail it")
    })
}

fn busy(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::PagingBuilt { operation, of, idle, answer, .. } = &event.what else {
        return Verdict::Aside;
    };
    let waits = ["transfer", "special-lock-transfer", "discard"].contains(&&**operation);
    Verdict::kept_if(answer != "busy" || (waits && !idle), Who::Driver, BUILD, || {
        let why = if waits {
            "although it was told that no packet uses it"
        } else {
            "but only transfers and discards wait for packets"
        };
        format!("the driver answered that {of} is busy in operation {operation}, {why}")
    })
}

fn again(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PagingBuilt { operation, of, idle, .. } = &event.what else {
        return Verdict::Aside;
    };
    let Some(paging) = shadows.paging(event.subject) else { return Verdict::Aside };
    let Some(open) = paging.open.as_ref().filter(|it| it.busy) else { return Verdict::Aside };
    let same = (&open.operation, open.of) == (operation, *of);
    Verdict::kept_if(same && *idle && paging.waits == 0, Who::Kernel, BUILD, || {
        if !same {
            format!("{} is busy, and operation {operation} on {of} comes before it", open.of)
        } else if *idle {
            let nodes = paging.waits;
            format!("{of} was busy, and is paged while {nodes} nodes have work from then to do")
        } else {
            format!("{of} was busy, and the driver is not told that it is idle now")
        }
    })
}

fn one_by_one(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(paging) = shadows.paging(event.subject) else { return Verdict::Aside };
    let open = paging.open.as_ref();
    match &event.what {
        What::PagingBuilt { operation, of, pass, .. } => {
            let next = open.map_or(1, |it| it.pass + 1);
            let same = open.is_none_or(|it| (&it.operation, it.of) == (operation, *of));
            Verdict::kept_if(same && *pass == next, Who::Kernel, BUILD, || match open {
                Some(it) if !same => format!(
                    "operation {operation} on {of} begins before operation {} on {} has ended",
                    it.operation, it.of
                ),
                _ => format!("operation {operation} on {of} is at buffer {pass}, not at {next}"),
            })
        }
        What::PagingEnded { lost: false } => {
            Verdict::kept_if(open.is_none(), Who::Kernel, BUILD, || {
                let of = open.map_or(event.subject, |it| it.of);
                format!("{} ends before its operation on {of} does", event.subject)
            })
        }
        _ => Verdict::Aside,
    }
}

fn starts(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(call) = shadows.call(event.subject) else { return Verdict::Aside };
    let Some(adapter) = shadows.adapter(call.adapter) else { return Verdict::Aside };
    let Some(before) = adapter.retried.filter(|_| call.name == BUILD) else {
        return Verdict::Aside;
    };
    let now = call.blocks.len();
    Verdict::kept_if(before == 0 || now == 0, Who::Driver, BUILD, || {
        format!(
            "{} goes on with a transfer, and takes {now} more pool blocks for it: it took {before} \
             when it began",
            event.subject
        )
    })
}

fn maps(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::PagingBuilt { operation, of, answer, .. } = &event.what else {
        return Verdict::Aside;
    };
    if !["map-aperture", "unmap-aperture"].contains(&&**operation) {
        return Verdict::Aside;
    }
    let refused = ["absent", "unsupported", "invalid"].contains(&&**answer);
    Verdict::kept_if(!refused, Who::Driver, BUILD, || {
        format!("the driver has an aperture, and answers operation {operation} on {of} {answer}")
    })
}

fn addressed(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PagingBuilt { operation, of, segment, address, .. } = &event.what else {
        return Verdict::Aside;
    };
    let Some(it) = paged(*of, *segment, shadows).filter(|_| operation == "transfer") else {
        return Verdict::Aside;
    };
    Verdict::kept_if(it.has(*address), Who::Kernel, BUILD, || {
        format!(
            "a transfer of {of} is at {address:#x}, but {segment} is from {:#x} on, with {:#x} \
             bytes",
            it.base, it.size
        )
    })
}

fn fills(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::PagingBuilt { operation, of, segment, .. } if operation == "fill" => {
            let Some(it) = paged(*of, *segment, shadows) else { return Verdict::Aside };
            Verdict::kept_if(!it.aperture, Who::Kernel, BUILD, || {
                format!("{of} is filled in {segment}, which is an aperture")
            })
        }
        What::PagingDone { operation, of, .. } if operation == "fill" => {
            let Some(it) = shadows.memory(*of) else { return Verdict::Aside };
            Verdict::kept_if(it.there.is_none(), Who::Kernel, BUILD, || {
                format!("{of} is filled while it is in a segment, where packets may use it")
            })
        }
        _ => Verdict::Aside,
    }
}

fn mapped(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::PagingDone { operation, of, segment, .. } if operation == "unmap-aperture" => {
            let Some(it) = shadows.memory(*of) else { return Verdict::Aside };
            Verdict::kept_if(it.mapped, Who::Kernel, BUILD, || {
                format!("{of} is taken out of {segment}, but was not mapped")
            })
        }
        What::MemoryFreed {} => {
            let Some(it) = shadows.memory(event.subject) else { return Verdict::Aside };
            let of = event.subject;
            Verdict::kept_if(!it.mapped, Who::Kernel, BUILD, || {
                format!("the memory of {of} is given back while it is mapped into an aperture")
            })
        }
        _ => Verdict::Aside,
    }
}

fn told(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PagingDone { operation, of, come, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = shadows.memory(*of) else { return Verdict::Aside };
    let wrong = match (&**operation, come) {
        ("notify-residency", _) if !it.wanted.told => Some("its driver did not ask for that"),
        ("notify-residency", _) if it.there.is_none() => Some("it is in no segment"),
        ("notify-residency", true) if it.told != Told::Nothing => Some("that was said before"),
        ("notify-residency", false) if it.told != Told::Come => Some("it was not told it came"),
        ("notify-residency", _) => None,
        ("update-context", _) => return Verdict::Aside,
        (_, false) => (it.wanted.told && it.told != Told::Leaves)
            .then_some("its driver was not told that it leaves"),
        (_, true) => None,
    };
    let verb = if *come { "comes" } else { "leaves" };
    Verdict::kept_if(wrong.is_none(), Who::Kernel, BUILD, || match wrong {
        Some(why) if operation == "notify-residency" => {
            format!("a driver is told that {of} {verb}, but {why}")
        }
        why => format!("{of} {verb} in operation {operation}, and {}", why.unwrap_or_default()),
    })
}

fn reused(event: &Event, shadows: &Shadows) -> Verdict {
    if matches!(event.what, What::TableGone {}) {
        return table_left(event, shadows);
    }
    let What::PagingBuilt { operation, of, segment, address, size, come: true, .. } = &event.what
    else {
        return Verdict::Aside;
    };
    let it = paged(*of, *segment, shadows).filter(|_| operation != "notify-residency");
    let Some(it) = it else {
        return Verdict::Aside;
    };
    let other = it.in_the_way(*of, *address, *size);
    let lead = it.leads.iter().find(|it| it.of != Some(*of) && it.reaches(*address, *size));
    Verdict::kept_if(other.is_none() && lead.is_none(), Who::Kernel, BUILD, || {
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

/// The memory of a page table is anybody's from here on: no engine gets there.
fn table_left(event: &Event, shadows: &Shadows) -> Verdict {
    let space = shadows.table(event.subject).and_then(|table| shadows.space(table.space));
    let space = space.filter(|it| it.process.is_some() && !it.walkers.is_empty());
    let (Some(space), table) = (space, event.subject) else { return Verdict::Aside };
    let above = space.above.iter().find(|it| it.1.0 == table);
    let remembered = space.remembered.get(&Serial::of(table));
    Verdict::kept_if(above.is_none() && remembered.is_none(), Who::Kernel, BUILD, || {
        let whose = space.process.map_or(String::new(), |it| format!(" of {it}"));
        match (above, remembered) {
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

fn untouched(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PagingPrivate { buffer, bytes, before, .. } = event.what else {
        return Verdict::Aside;
    };
    let Some(it) = shadows.adapter(event.subject) else { return Verdict::Aside };
    let known = it.buffers.get(&buffer);
    let right = known.copied().unwrap_or_else(|| zeroes(bytes)) == before;
    Verdict::kept_if(right, Who::Kernel, BUILD, || {
        let what = if known.is_some() { "was changed" } else { "is new and not zero" };
        format!("the private data of the paging buffer at {buffer:#x} {what}")
    })
}

/// The segment in which an operation is, unless it is on a context allocation: no rule of this
/// file judges where these are.
fn paged(of: Subject, segment: Subject, shadows: &Shadows) -> Option<&Segment> {
    shadows.segment(segment).filter(|_| of.kind != Kind::Saved)
}

/// The digest of so many bytes of zero (FNV-1a, as of all private data).
fn zeroes(bytes: u32) -> Hex {
    Hex((0..bytes).fold(0x811c_9dc5, |hash: u32, _| hash.wrapping_mul(0x0100_0193)))
}
