//! Address calls of clients: reserve, map and free.

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::base::id_list::IdList;
use crate::ddi::operation::PAGE;
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::process::ProcessId;
use crate::memory::Extent;
use crate::memory::address::AddressSpace;
use crate::memory::address::fault::{FreedRange, PendingRange};
use crate::memory::address::ranges::{Access, AddressBounds, Backing, LOWEST_ADDRESS, RangeState};
use crate::memory::address::subject;
use crate::memory::place::PagingPlan;
use crate::memory::queue::PagingQueue;
use crate::memory::residency::Residency;
use crate::objects::handle_table::Handle;
use crate::objects::view::View;
use crate::state::KernelState;
use flight::invariant;
use flight::{EventKind, Passive, Subject};
use std::ops::Range as Span;

/// Number of freed ranges that are remembered for reports.
const MAX_FREED: usize = 256;

/// What a client maps at addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapSource {
    /// A part of an allocation.
    Allocation {
        /// The view.
        view: Handle,
        /// Offset in the allocation.
        offset: u64,
        /// The permitted access.
        access: Access,
    },
    /// Reads return zero, writes are lost.
    Zero,
    /// Every access faults.
    NoAccess,
}

/// A request to map addresses (`D3DDDI_MAPGPUVIRTUALADDRESS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapAddressRequest {
    /// The paging queue.
    pub queue: Handle,
    /// The address; zero means any within the bounds.
    pub base: u64,
    /// The lowest address.
    pub minimum: u64,
    /// The highest end address; zero means the end of all addresses.
    pub maximum: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// What to map.
    pub source: MapSource,
}

/// A request to reserve addresses (`D3DDDI_RESERVEGPUVIRTUALADDRESS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReserveAddressRequest {
    /// The paging queue.
    pub queue: Handle,
    /// The address; zero means any within the bounds.
    pub base: u64,
    /// The lowest address.
    pub minimum: u64,
    /// The highest end address; zero means the end of all addresses.
    pub maximum: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Reads return zero until something is mapped there.
    pub zero: bool,
}

/// The result of a map or reserve request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapAddressResponse {
    /// The first address.
    pub address: u64,
    /// When the addresses can be used.
    pub residency: Residency,
}

impl Kernel {
    /// Reserves addresses (`D3DKMTReserveGpuVirtualAddress`).
    pub fn reserve_addresses(
        &self,
        at: &mut Passive,
        process: ProcessId,
        request: &ReserveAddressRequest,
    ) -> Result<MapAddressResponse, KernelError> {
        let (queue, guard) = {
            let mut state = self.state.lock();
            let (queue, device) = state.find_paging_queue(process, request.queue)?;
            (queue, self.acquire_rundown(&mut state, device)?)
        };
        self.recheck_device(&guard)?;
        let (space, span, mut state) = loop {
            let state = self.state.lock();
            state.find_paging_queue(process, request.queue)?;
            let space =
                state.space_of(process.0, guard.adapter).ok_or(KernelError::NoAddressSpace)?;
            let bounds = AddressBounds {
                minimum: request.minimum,
                maximum: request.maximum,
                alignment: LARGE,
            };
            let free = |made| made == RangeState::Free;
            let span = self.choose_addresses(
                &state,
                space,
                request.base,
                request.bytes,
                (bounds, true),
                free,
            )?;
            if !request.zero || state.root_covers(space, span.end) {
                break (space, span, state);
            }
            drop(state);
            self.grow_root(at, &guard.driver, space, span.end)?;
        };
        let state = &mut *state;
        let backing = if request.zero { Backing::Zero } else { Backing::Reserved };
        let it = &mut state.memory.spaces[space];
        let reservation = it.addresses.reserve(span.clone(), backing);
        let mut plan = PagingPlan::default();
        if let Err(why) = self.plan_span(state, space, &span, &mut plan) {
            state.memory.spaces[space].addresses.free(&span);
            self.start_paging(state, guard.adapter, plan, None);
            return Err(why);
        }
        let when = self.start_plan(state, guard.adapter, queue, plan);
        state.add_pending_range(space, &span, (queue, when), true);
        let value = when.value();
        self.log.emit(subject(space), || EventKind::RangeReserved {
            start: span.start,
            end: span.end,
            reservation,
            backing: backing.name().into(),
            base: request.base,
            minimum: request.minimum,
            maximum: request.maximum,
            queue: Some(queue.subject()),
            value,
        });
        Ok(MapAddressResponse { address: span.start, residency: when })
    }

    /// Maps an allocation or another source at addresses (`D3DKMTMapGpuVirtualAddress`).
    pub fn map_addresses(
        &self,
        at: &mut Passive,
        process: ProcessId,
        request: &MapAddressRequest,
    ) -> Result<MapAddressResponse, KernelError> {
        let (queue, guard) = {
            let mut state = self.state.lock();
            let (queue, device) = state.find_paging_queue(process, request.queue)?;
            (queue, self.acquire_rundown(&mut state, device)?)
        };
        self.recheck_device(&guard)?;
        let (space, span, backing, mut state) = loop {
            let state = self.state.lock();
            state.find_paging_queue(process, request.queue)?;
            let space =
                state.space_of(process.0, guard.adapter).ok_or(KernelError::NoAddressSpace)?;
            let (backing, alignment) =
                state.resolve_map_source(process, guard.device, request.source, request.bytes)?;
            let bounds =
                AddressBounds { minimum: request.minimum, maximum: request.maximum, alignment };
            let empty = !matches!(backing, Backing::Mapped { .. });
            let fits = |made| match made {
                RangeState::Free => true,
                // WINDOWS: a map call does not replace the mapping of another map call
                // (documented).
                RangeState::Used { reserved } => reserved || !empty,
                RangeState::Mixed => false,
            };
            let span = self.choose_addresses(
                &state,
                space,
                request.base,
                request.bytes,
                (bounds, false),
                fits,
            )?;
            if !backing.has_entries() || state.root_covers(space, span.end) {
                break (space, span, backing, state);
            }
            drop(state);
            self.grow_root(at, &guard.driver, space, span.end)?;
        };
        let state = &mut *state;
        let before = state
            .memory
            .spaces
            .get(space)
            .map(|address_space| address_space.addresses.parts(&span));
        let it = &mut state.memory.spaces[space];
        it.addresses.set_backing(&span, backing);
        it.freed.retain(|freed_range| {
            freed_range.span.end <= span.start || span.end <= freed_range.span.start
        });
        let mut plan = PagingPlan::default();
        if let Err(why) = self.plan_span(state, space, &span, &mut plan) {
            state.undo_mapping(space, &span, before.unwrap_or_default());
            self.start_paging(state, guard.adapter, plan, None);
            return Err(why);
        }
        self.log_mapped(
            state,
            space,
            &span,
            backing,
            (request.base, request.minimum, request.maximum, 0),
        );
        let when = self.start_plan(state, guard.adapter, queue, plan);
        state.add_pending_range(space, &span, (queue, when), false);
        self.log.emit(subject(space), || EventKind::RangeMapReturned {
            start: span.start,
            end: span.end,
            queue: Some(queue.subject()),
            value: when.value(),
        });
        Ok(MapAddressResponse { address: span.start, residency: when })
    }

    /// Frees addresses, whole ranges or parts of them (`D3DKMTFreeGpuVirtualAddress`).
    ///
    /// Work that is already planned for them completes first, so that it cannot affect the next
    /// user of the addresses.
    pub fn free_addresses(
        &self,
        process: ProcessId,
        adapter: Handle,
        base: u64,
        bytes: u64,
    ) -> Result<(), KernelError> {
        let state = &mut *self.state.lock();
        let adapter = state.resolve_handle::<Adapter>(process, Argument::Adapter, adapter)?;
        if !state.adapters.get(adapter).is_some_and(Adapter::is_running) {
            return Err(KernelError::Removed(adapter.subject()));
        }
        let space = state.space_of(process.0, adapter).ok_or(KernelError::NoAddressSpace)?;
        let span = base..base
            .checked_add(bytes)
            .ok_or(KernelError::AddressesNotInUse { start: base, bytes })?;
        let it = state.memory.spaces.get(space).ok_or(KernelError::NoAddressSpace)?;
        if !matches!(it.addresses.state_of(&span), RangeState::Used { .. }) {
            let meets = |freed_range: &FreedRange| {
                freed_range.span.start < span.end && span.start < freed_range.span.end
            };
            let why = if it.freed.iter().any(meets) {
                KernelError::AddressesFreed { start: base, bytes }
            } else {
                KernelError::AddressesNotInUse { start: base, bytes }
            };
            return Err(why);
        }
        self.free_span(state, space, &span, None);
        Ok(())
    }

    /// Frees a span: removes its entries, and the tables that are not needed any more.
    fn free_span(
        &self,
        state: &mut KernelState,
        space: Id<AddressSpace>,
        span: &Span<u64>,
        ends: Option<DestroyedExtent>,
    ) {
        let it = &mut state.memory.spaces[space];
        let adapter = it.adapter;
        let had: Vec<Span<u64>> = it
            .addresses
            .parts(span)
            .into_iter()
            .filter(|pair| pair.1.backing.has_entries())
            .map(|pair| pair.0)
            .collect();
        let of = ends.map(|destroyed_extent| destroyed_extent.extent);
        // Addresses that the driver has reserved stay reserved, whatever a client frees there.
        let stays = ends.is_some() || it.addresses.is_driver_reserved(span);
        let still_reserved =
            stays && it.addresses.state_of(span) == RangeState::Used { reserved: true };
        if stays {
            it.addresses.unmap(span);
        } else {
            it.addresses.free(span);
        }
        let during = state.working_contexts(space);
        let it = &mut state.memory.spaces[space];
        let destroyed = ends.and_then(|end| end.destroyed);
        it.freed.push_back(FreedRange { span: span.clone(), during, destroyed });
        it.pending_ranges.retain(|pending_range| {
            pending_range.span.end <= span.start || span.end <= pending_range.span.start
        });
        if it.freed.len() > MAX_FREED {
            it.freed.pop_front();
        }
        let (start, end, ended) = (span.start, span.end, ends.is_some());
        self.log.emit(subject(space), || EventKind::RangeFreed {
            start,
            end,
            object_destroyed: ended,
            still_reserved,
        });
        let mut plan = PagingPlan::default();
        for part in &had {
            let steps = state.entry_steps(space, part, None);
            // A destroyed object waits until no entry points to it any more.
            plan.page_in.extend(steps.into_iter().map(|paging_step| paging_step.on_behalf_of(of)));
        }
        let freed_tables = if had.is_empty() {
            Vec::new()
        } else {
            plan.page_in.extend(state.flush_step(space, span, of));
            state.drop_tables(space, span, &mut plan.page_in)
        };
        self.start_paging(state, adapter, plan, None);
        for extent in freed_tables {
            self.release_extent(state, extent);
        }
    }

    /// Unmaps the ranges of closed views, which the client `assumed` to be not in use. Returns whether
    /// any of this work is pending.
    pub(crate) fn unmap_views(
        &self,
        state: &mut KernelState,
        views: &[Id<View>],
        assumed: bool,
    ) -> bool {
        let mut pending = false;
        for view in views {
            // An allocation of an adapter without memory has no extent.
            let Some(extent) = state.extent_of(*view) else { continue };
            let adapter = state.memory.extents[extent].adapter;
            if state.mmu(adapter).is_none() {
                return false;
            }
            let destroyed = assumed.then(|| state.views[*view].allocation.subject());
            for (space, span) in state.spans_of(adapter, *view) {
                self.free_span(state, space, &span, Some(DestroyedExtent { extent, destroyed }));
                pending = true;
            }
        }
        pending
    }

    /// The span a client gets: the requested one, or one within the bounds.
    fn choose_addresses(
        &self,
        state: &KernelState,
        space: Id<AddressSpace>,
        base: u64,
        bytes: u64,
        (bounds, reserve): (AddressBounds, bool),
        fits: impl Fn(RangeState) -> bool,
    ) -> Result<Span<u64>, KernelError> {
        let it = state.memory.spaces.get(space).ok_or(KernelError::NoAddressSpace)?;
        if base == 0 {
            let start = it.addresses.find(bytes, bounds).ok_or(KernelError::NoFreeAddresses)?;
            return Ok(start..start + bytes);
        }
        let span = base..base.saturating_add(bytes);
        let made = it.addresses.state_of(&span);
        if fits(made) {
            return Ok(span);
        }
        let (start, end) = (span.start, span.end);
        let (why, error) = match made {
            RangeState::Used { .. } => ("taken", KernelError::AddressesInUse { start, bytes }),
            _ if start < LOWEST_ADDRESS || end > it.addresses.end() => {
                ("outside", KernelError::AddressesMixed { start, bytes })
            }
            RangeState::Free | RangeState::Mixed => {
                ("mixed", KernelError::AddressesMixed { start, bytes })
            }
        };
        self.log.emit(subject(space), || EventKind::RangeFailed {
            start,
            end,
            reserve,
            why: why.into(),
        });
        Err(error)
    }

    /// Plans what a span needs to match its ranges: tables, entries, and TLB flushes.
    pub(crate) fn plan_span(
        &self,
        state: &mut KernelState,
        space: Id<AddressSpace>,
        span: &Span<u64>,
        plan: &mut PagingPlan,
    ) -> Result<(), KernelError> {
        let parts = state
            .memory
            .spaces
            .get(space)
            .map(|address_space| address_space.addresses.parts(span))
            .unwrap_or_default();
        for (part, range) in &parts {
            if range.backing.has_entries() {
                self.create_tables(state, space, part, plan)
                    .map_err(|why| KernelError::NoMemory { trim: why.missing })?;
            }
        }
        let steps = state.entry_steps(space, span, None);
        if !steps.is_empty() {
            plan.page_in.extend(steps);
            plan.page_in.extend(state.flush_step(space, span, None));
        }
        Ok(())
    }

    /// Logs a client's mapping.
    pub(crate) fn log_mapped(
        &self,
        state: &KernelState,
        space: Id<AddressSpace>,
        span: &Span<u64>,
        backing: Backing,
        (base, minimum, maximum, request): (u64, u64, u64, u32),
    ) {
        let (view, offset) = match backing {
            Backing::Mapped { view, offset, .. } => (Some(view), offset),
            Backing::Reserved | Backing::Driver | Backing::NoAccess | Backing::Zero => (None, 0),
        };
        let of = view.and_then(|view| state.views.get(view)).map(|view| view.allocation.subject());
        self.log.emit(subject(space), || EventKind::RangeMapped {
            start: span.start,
            end: span.end,
            view: view.map(Id::subject),
            of,
            backing: backing.name().into(),
            offset,
            base,
            minimum,
            maximum,
            index: request,
        });
    }

    /// Starts the work that a call planned. Returns when it is done.
    pub(crate) fn start_plan(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        queue: Id<PagingQueue>,
        plan: PagingPlan,
    ) -> Residency {
        if plan.page_in.is_empty() && plan.page_out.is_empty() {
            return Residency::Resident;
        }
        let value = state.next_queue_value(queue);
        self.start_paging(state, adapter, plan, Some((queue, value)));
        Residency::Pending(value)
    }
}

/// The destruction of a mapped object, which waits for the unmapping.
#[derive(Clone, Copy)]
struct DestroyedExtent {
    extent: Id<Extent>,
    /// Its allocation, if its client destroyed it as not in use.
    destroyed: Option<Subject>,
}

/// The granularity of a reservation's bounds.
pub(crate) const LARGE: u64 = 64 << 10;

impl Residency {
    /// The value of the queue's fence at which the result takes effect; zero if it already has.
    pub fn value(self) -> u64 {
        match self {
            Residency::Resident => 0,
            Residency::Pending(value) => value,
        }
    }
}

impl KernelState {
    /// Resolves what a client wants to map, and its alignment.
    pub(crate) fn resolve_map_source(
        &self,
        process: ProcessId,
        device: Id<Device>,
        waits: MapSource,
        bytes: u64,
    ) -> Result<(Backing, u64), KernelError> {
        let MapSource::Allocation { view, offset, access } = waits else {
            let zero = waits == MapSource::Zero;
            return Ok((if zero { Backing::Zero } else { Backing::NoAccess }, PAGE));
        };
        let views = self.views_of(process, device, &[view])?;
        let number = invariant(views.first().copied(), "one handle refers to one view");
        let extent = self.extent_of(number).and_then(|extent| self.memory.extents.get(extent));
        let extent = extent.ok_or(KernelError::NoVideoMemory)?;
        if offset.checked_add(bytes).is_none_or(|end| end > extent.bytes) {
            let view = number.subject();
            return Err(KernelError::OutsideAllocation { view, offset, bytes, size: extent.bytes });
        }
        let memory = self.adapter_memory(extent.adapter);
        let large = extent.requirements.segments.iter().any(|number| {
            let segment = memory.and_then(|memory| memory.segment_numbered(number));
            segment.is_some_and(|segment| segment.info.flags.large_pages)
        });
        let alignment = if large { LARGE } else { PAGE };
        Ok((Backing::Mapped { view: number, offset, access }, alignment))
    }

    /// The spaces and spans in which a view is mapped.
    ///
    /// Only the view's own process maps it.
    pub(crate) fn spans_of(
        &self,
        adapter: Id<Adapter>,
        view: Id<View>,
    ) -> Vec<(Id<AddressSpace>, Span<u64>)> {
        let process = self.devices[self.views[view].device].owner();
        let spaces = self.memory.spaces_of.get(&(process, adapter));
        let spaces = spaces.map(IdList::as_slice).unwrap_or_default().iter();
        let spans = spaces.filter_map(|number| Some((*number, self.memory.spaces.get(*number)?)));
        spans
            .flat_map(|(number, it)| it.addresses.of_view(view).map(move |range| (number, range)))
            .collect()
    }

    /// Records from which fence value a span can be used.
    fn add_pending_range(
        &mut self,
        space: Id<AddressSpace>,
        span: &Span<u64>,
        (queue, when): (Id<PagingQueue>, Residency),
        reserved: bool,
    ) {
        let done = self
            .memory
            .paging_queues
            .get(queue)
            .map_or(0, |paging_queue| paging_queue.last_signalled);
        let it = &mut self.memory.spaces[space];
        it.pending_ranges
            .retain(|pending_range| pending_range.queue != queue || pending_range.value > done);
        if let Residency::Pending(value) = when {
            it.pending_ranges.push(PendingRange { span: span.clone(), queue, value, reserved });
        }
    }

    /// Restores a span after a failed call.
    fn undo_mapping(
        &mut self,
        space: Id<AddressSpace>,
        span: &Span<u64>,
        before: Vec<(Span<u64>, crate::memory::address::ranges::AddressRange)>,
    ) {
        let it = &mut self.memory.spaces[space];
        it.addresses.restore(span, before);
    }
}
