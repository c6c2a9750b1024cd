//! Address faults: what an address contained when a packet's access failed.

use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::retire::DESTROY_FLAGS;
use crate::memory::Extent;
use crate::memory::address::AddressSpace;
use crate::memory::address::ranges::Backing;
use crate::memory::address::subject;
use crate::memory::queue::PagingQueue;
use crate::state::KernelState;
use flight::{Component, EventKind, RuleId, Subject};
use std::ops::Range as Span;

/// A recently freed range.
#[derive(Debug)]
pub(crate) struct FreedRange {
    pub(crate) span: Span<u64>,
    /// The contexts that had work at that time, and the number of packets queued to each by then.
    pub(crate) during: Vec<(Id<Context>, u64)>,
    /// The allocation that was mapped there, if its client destroyed it as not in use
    /// (`AssumeNotInUse`).
    pub(crate) destroyed: Option<Subject>,
}

/// A range that can be used when a queue's fence has a value.
#[derive(Debug)]
pub(crate) struct PendingRange {
    pub(crate) span: Span<u64>,
    pub(crate) queue: Id<PagingQueue>,
    pub(crate) value: u64,
    /// It was reserved, not mapped.
    pub(crate) reserved: bool,
}

/// What a packet did wrong at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressFault {
    pub(crate) address: u64,
    space: Id<AddressSpace>,
    pub(crate) cause: AddressFaultCause,
    pub(crate) why: String,
    /// The memory of the allocation mapped there.
    pub(crate) extent: Option<Id<Extent>>,
}

/// The rule that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressFaultCause {
    /// Nothing is mapped there, or not yet.
    Unmapped,
    /// It is not reserved yet.
    Unreserved,
    /// It was freed while the packet was queued or running.
    Freed,
    /// So was it, because its allocation was destroyed as not in use.
    Destroyed,
    /// The allocation mapped there is not resident: the residency rules apply.
    NotResident,
    /// It was mapped, and the allocation was resident, when the packet was submitted: the driver is
    /// at fault.
    Reachable,
    /// The kernel does not know: the mapping has changed since, or the packet may have written to
    /// memory that is read-only.
    Unknown,
}

impl Kernel {
    /// Entry rules: judges a completed or faulted packet. Its addresses must have been valid.
    pub(crate) fn judge_address(
        &self,
        state: &KernelState,
        context: Id<Context>,
        fault: Option<&AddressFault>,
    ) {
        let adapter = state.devices[state.contexts[context].device].adapter;
        if state.mmu(adapter).is_none() {
            return;
        }
        if let Some(it) = fault {
            let (space, address, why) = (subject(it.space), it.address, it.why.clone().into());
            self.log.emit(context.subject(), || EventKind::AddressFaulted { space, address, why });
        }
        let message = |cause: AddressFaultCause| {
            let it = fault.filter(|address_fault| address_fault.cause == cause)?;
            Some(format!("a packet of {context} touched address {:#x}, {}", it.address, it.why))
        };
        let submit = "D3DKMTSubmitCommand";
        let rules = [
            (RuleId::GPUVA_MAP_007, AddressFaultCause::Unmapped, submit),
            (RuleId::GPUVA_RESERVE_004, AddressFaultCause::Unreserved, submit),
            (RuleId::GPUVA_FREE_002, AddressFaultCause::Freed, submit),
            (RuleId::ALLOC_DESTROY_008, AddressFaultCause::Destroyed, DESTROY_FLAGS),
        ];
        for (rule, cause, place) in rules {
            self.log.judge(
                rule,
                state.component_of(context),
                context.subject(),
                place,
                message(cause),
            );
        }
    }
}

impl KernelState {
    /// The component that is responsible for the work of a context.
    pub(crate) fn component_of(&self, context: Id<Context>) -> Component {
        self.contexts[context].component
    }

    /// What an address contains for a packet of a context that faulted there. Looked up when the
    /// driver reports the fault, because paging work continues.
    pub(crate) fn find_fault(
        &self,
        context: Id<Context>,
        address: u64,
        sent: u64,
    ) -> Option<AddressFault> {
        let it = &self.contexts[context];
        let device = &self.devices[it.device];
        let space = self.space_of(device.owner(), device.adapter)?;
        let packet = it.queue.done + 1;
        let (cause, why, extent) = self.describe_address(space, context, (packet, sent), address);
        Some(AddressFault { address, space, cause, why, extent })
    }

    fn describe_address(
        &self,
        number: Id<AddressSpace>,
        context: Id<Context>,
        (packet, sent): (u64, u64),
        address: u64,
    ) -> (AddressFaultCause, String, Option<Id<Extent>>) {
        let unmapped = |why: &str| (AddressFaultCause::Unmapped, why.to_owned(), None);
        // The space may have ended before its packet.
        let Some(space) = self.memory.spaces.get(number) else { return unmapped("of no process") };
        let late = |pending_range: &&PendingRange| {
            let done = self
                .memory
                .paging_queues
                .get(pending_range.queue)
                .map_or(u64::MAX, |paging_queue| paging_queue.last_signalled);
            pending_range.span.contains(&address) && done < pending_range.value
        };
        let pending_ranges = space.pending_ranges.iter().rev().find(late);
        let Some((span, range)) = space.addresses.at(address) else {
            let freed =
                space.freed.iter().rev().find(|freed_range| freed_range.span.contains(&address));
            let Some(freed) = freed else {
                return unmapped("at which nothing was ever mapped");
            };
            let (start, end) = (freed.span.start, freed.span.end);
            let was = |pair: &(Id<Context>, u64)| pair.0 == context && packet <= pair.1;
            return if let Some(allocation) = freed.destroyed
                && freed.during.iter().any(was)
            {
                let why = format!(
                    "of {start:#x} to {end:#x}, where {allocation} was mapped, which was destroyed \
                     with AssumeNotInUse while the packet was queued"
                );
                (AddressFaultCause::Destroyed, why, None)
            } else if freed.during.iter().any(was) {
                let why = format!("of {start:#x} to {end:#x}, which was freed while it was queued");
                (AddressFaultCause::Freed, why, None)
            } else {
                (
                    AddressFaultCause::Unmapped,
                    format!("of {start:#x} to {end:#x}, which was freed"),
                    None,
                )
            };
        };
        if let Some(it) = pending_ranges {
            let (queue, value) = (it.queue.subject(), it.value);
            let (cause, what) = if it.reserved {
                (AddressFaultCause::Unreserved, "reserved")
            } else {
                (AddressFaultCause::Unmapped, "mapped")
            };
            let why = format!("which is not {what} before {queue} signals {value}");
            return (cause, why, None);
        }
        let (start, end) = (span.start, span.end);
        // The tables that lead there were written before the packet was submitted.
        let tables = space.tables.values().filter_map(|table| self.memory.extents.get(*table));
        let written = tables.into_iter().all(|table| table.is_in_place_for(sent));
        match range.backing {
            Backing::Zero => {
                let why = format!(
                    "of {start:#x} to {end:#x}, which is zero: reads return zero, writes are lost"
                );
                let cause =
                    if written { AddressFaultCause::Reachable } else { AddressFaultCause::Unknown };
                (cause, why, None)
            }
            Backing::Reserved | Backing::Driver | Backing::NoAccess => {
                let why = format!(
                    "of {start:#x} to {end:#x}, which is {}: nothing is mapped there",
                    range.backing.name()
                );
                (AddressFaultCause::Unmapped, why, None)
            }
            Backing::Mapped { view, access, .. } => {
                let number = self.extent_of(view);
                let extent = number.and_then(|extent| self.memory.extents.get(extent));
                let of = extent.map_or(view.subject(), |extent| extent.owner.subject());
                let there =
                    extent.is_some_and(|extent| extent.segment().is_some() && extent.pending == 0);
                let settled = written && extent.is_some_and(|it| it.is_in_place_for(sent));
                let what = format!("of {start:#x} to {end:#x}, where {of} is mapped");
                let (cause, why) = match (there, access.write, settled) {
                    (false, ..) => (AddressFaultCause::NotResident, ", which is not resident"),
                    (true, false, _) => (AddressFaultCause::Unknown, " read-only"),
                    (true, true, true) => (
                        AddressFaultCause::Reachable,
                        " and resident: the page-table entries that DxgkDdiBuildPagingBuffer was \
                         given before the packet was submitted lead there from the root that the \
                         driver was given",
                    ),
                    (true, true, false) => (AddressFaultCause::Unknown, ", since a moment ago"),
                };
                (cause, format!("{what}{why}"), number)
            }
        }
    }

    /// The contexts of a space's process that have work, and the number of packets queued to each.
    pub(crate) fn working_contexts(&self, space: Id<AddressSpace>) -> Vec<(Id<Context>, u64)> {
        let it = &self.memory.spaces[space];
        let works = |number: Id<Context>| {
            let it = self
                .contexts
                .get(number)
                .filter(|context| context.queue.queued > context.queue.done)?;
            Some((number, it.queue.queued))
        };
        let all = it.process.into_iter().flat_map(|process| self.devices_on(process, it.adapter));
        let mut all: Vec<(Id<Context>, u64)> = all
            .filter_map(|device| self.devices.get(device))
            .flat_map(|device| device.contexts.iter().copied().filter_map(works))
            .collect();
        all.sort_unstable();
        all
    }
}
