//! Updates of reserved addresses: several operations of one call, in order.
//!
//! # Invariants
//!
//! 1. A call is checked completely when it is made, before any of its operations is applied.
//! 2. An operation is skipped if its addresses left the reservation, or if the object to map was
//!    destroyed.

use crate::adapter::start::Adapter;
use crate::base::error::KernelError;
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::process::ProcessId;
use crate::memory::address::AddressSpace;
use crate::memory::address::calls::MapSource;
use crate::memory::address::queued_update::FenceValue;
use crate::memory::address::ranges::{Access, Backing, RangeState};
use crate::memory::address::subject;
use crate::memory::place::PagingPlan;
use crate::objects::handle_table::Handle;
use crate::objects::view::ViewStage;
use crate::state::KernelState;
use flight::{EventKind, Passive};
use std::ops::Range as Span;

/// A client's update request (`D3DKMT_UPDATEGPUVIRTUALADDRESS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateAddressRequest {
    /// The device.
    pub device: Handle,
    /// The operations, in order.
    pub operations: Vec<AddressUpdate>,
    /// A fence and the value to wait for; the next value is signaled after the update. `None`: the
    /// update is applied at once (`DoNotWait`).
    pub fence: Option<(Handle, u64)>,
}

/// One operation on addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressUpdate {
    /// Maps a part of an allocation: the same `piece` repeatedly, if it is shorter than the range.
    Map {
        /// First address.
        base: u64,
        /// Number of bytes.
        bytes: u64,
        /// The view.
        view: Handle,
        /// Offset in its allocation.
        offset: u64,
        /// Size of the piece in bytes; zero means the size of the range.
        piece: u64,
        /// The permitted access.
        access: Access,
    },
    /// Unmaps addresses.
    Unmap {
        /// First address.
        base: u64,
        /// Number of bytes.
        bytes: u64,
        /// Reads return zero from then on.
        zero: bool,
    },
    /// Copies the mappings of other addresses.
    Copy {
        /// First source address.
        from: u64,
        /// First destination address.
        to: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

/// A checked operation.
#[derive(Clone, Debug)]
struct ResolvedUpdate {
    change: AddressUpdate,
    backing: Backing,
}

/// A checked update.
pub(crate) struct CheckedUpdate {
    pub(crate) adapter: Id<Adapter>,
    pub(crate) device: Id<Device>,
    pub(crate) space: Id<AddressSpace>,
    ready: Vec<ResolvedUpdate>,
    /// The reservation of its targets.
    reservation: u32,
    /// Its number in its space.
    pub(crate) update: u32,
    /// The fence that it waits for and signals.
    pub(crate) fence: Option<FenceValue>,
    /// Its fence has its value, but the root of its space is changing.
    pub(crate) due: bool,
}

impl AddressUpdate {
    /// The addresses it changes.
    fn target(&self) -> Option<Span<u64>> {
        let (start, bytes) = match *self {
            AddressUpdate::Map { base, bytes, .. } | AddressUpdate::Unmap { base, bytes, .. } => {
                (base, bytes)
            }
            AddressUpdate::Copy { to, bytes, .. } => (to, bytes),
        };
        Some(start..start.checked_add(bytes)?)
    }

    /// The addresses it copies from.
    fn source(&self) -> Option<Span<u64>> {
        match *self {
            AddressUpdate::Copy { from, bytes, .. } => Some(from..from.checked_add(bytes)?),
            AddressUpdate::Map { .. } | AddressUpdate::Unmap { .. } => None,
        }
    }
}

impl Kernel {
    /// Updates reserved addresses (`D3DKMTUpdateGpuVirtualAddress`).
    pub fn update_addresses(
        &self,
        at: &mut Passive,
        process: ProcessId,
        request: &UpdateAddressRequest,
    ) -> Result<(), KernelError> {
        let guard = self.enter_device(process, request.device)?;
        let space = self.state.lock().space_of(process.0, guard.adapter);
        let space = space.ok_or(KernelError::NoAddressSpace)?;
        let ends =
            request.operations.iter().filter_map(AddressUpdate::target).map(|range| range.end);
        let end = ends.max().unwrap_or(0);
        let mut state = loop {
            let state = self.state.lock();
            // Missing addresses are rejected below.
            let known = state
                .memory
                .spaces
                .get(space)
                .is_some_and(|address_space| end <= address_space.addresses.end());
            if !known || state.root_covers(space, end) {
                break state;
            }
            drop(state);
            self.grow_root(at, &guard.driver, space, end)?;
        };
        if let Some(fence) = request.fence {
            drop(state);
            return self.queue_update(at, process, (guard.device, space), request, fence);
        }
        let state = &mut *state;
        let mut judged = state.check_update(process, guard.device, space, &request.operations)?;
        judged.update = state.number_update(space);
        self.apply_update(state, &judged)
    }

    /// Applies the operations of an update whose addresses are still in the same reservation.
    pub(crate) fn apply_update(
        &self,
        state: &mut KernelState,
        judged: &CheckedUpdate,
    ) -> Result<(), KernelError> {
        let CheckedUpdate { adapter, space, ref ready, reservation, update, .. } = *judged;
        let (mut plan, mut ignored, mut full) = (PagingPlan::default(), 0, None);
        for (request, it) in (0..).zip(ready) {
            // A target that ends beyond the last address is rejected when the update is checked.
            let Some(target) = it.change.target() else { continue };
            let same = state.reservation_of(space, &target) == Some(reservation);
            if !same || !state.is_backing_live(it.backing) {
                ignored += 1;
                continue;
            }
            for (span, backing) in state.resolved_ranges(space, it) {
                state.memory.spaces[space].addresses.set_backing(&span, backing);
                self.log_mapped(state, space, &span, backing, (span.start, 0, 0, request));
            }
            if let Err(why) = self.plan_span(state, space, &target, &mut plan) {
                // The earlier operations are applied: there is no memory for more tables.
                state.memory.spaces[space].addresses.set_backing(&target, Backing::Reserved);
                full = Some(why);
                break;
            }
        }
        let of = judged.fence.map(|fence_value| fence_value.object.subject());
        let fence_value = judged.fence.map_or(0, |fence_value| fence_value.value);
        self.log.emit(subject(space), || EventKind::UpdateApplied {
            update,
            ignored,
            of,
            fence_value,
        });
        let mut freed_tables = Vec::new();
        if full.is_none() {
            for span in ready.iter().filter_map(|resolved_update| resolved_update.change.target()) {
                freed_tables.extend(state.drop_tables(space, &span, &mut plan.page_in));
            }
        }
        let paging = self.start_paging(state, adapter, plan, None);
        for extent in freed_tables {
            self.release_extent(state, extent);
        }
        self.finish_queued_update(state, judged, paging);
        full.map_or(Ok(()), Err)
    }
}

impl KernelState {
    /// Checks an update: every operation is possible, and all targets are in one reservation, as
    /// are all sources. Returns the targets' reservation.
    pub(crate) fn check_update(
        &self,
        process: ProcessId,
        device: Id<Device>,
        space: Id<AddressSpace>,
        operations: &[AddressUpdate],
    ) -> Result<CheckedUpdate, KernelError> {
        let mut ready = Vec::with_capacity(operations.len());
        let (mut targets, mut sources) = (None, None);
        for change in operations {
            let target =
                change.target().ok_or(KernelError::AddressesMixed { start: 0, bytes: 0 })?;
            self.same_reservation(space, &target, &mut targets)?;
            if let Some(source) = change.source() {
                self.same_reservation(space, &source, &mut sources)?;
            }
            let backing = match *change {
                AddressUpdate::Map { view, offset, piece, bytes, access, .. } => {
                    let length = if piece == 0 { bytes } else { piece };
                    let waits = MapSource::Allocation { view, offset, access };
                    self.resolve_map_source(process, device, waits, length)?.0
                }
                AddressUpdate::Unmap { zero: true, .. } => Backing::Zero,
                AddressUpdate::Unmap { .. } | AddressUpdate::Copy { .. } => Backing::Reserved,
            };
            ready.push(ResolvedUpdate { change: *change, backing });
        }
        let adapter = self.memory.spaces[space].adapter;
        let reservation = targets.unwrap_or(0);
        let (update, fence) = (0, None);
        Ok(CheckedUpdate { adapter, device, space, ready, reservation, update, fence, due: false })
    }

    /// A number for the next update of a space.
    pub(crate) fn number_update(&mut self, space: Id<AddressSpace>) -> u32 {
        let it = &mut self.memory.spaces[space];
        it.last_update += 1;
        it.last_update
    }

    /// Whether the object to map still exists.
    fn is_backing_live(&self, backing: Backing) -> bool {
        match backing {
            Backing::Mapped { view, .. } => {
                self.views.get(view).is_some_and(|view| view.stage == ViewStage::Live)
            }
            Backing::Reserved | Backing::Driver | Backing::NoAccess | Backing::Zero => true,
        }
    }

    /// Checks that a span is in the same reservation as the earlier ones.
    fn same_reservation(
        &self,
        space: Id<AddressSpace>,
        span: &Span<u64>,
        before: &mut Option<u32>,
    ) -> Result<(), KernelError> {
        let (start, bytes) = (span.start, span.end - span.start);
        let made = self
            .memory
            .spaces
            .get(space)
            .map(|address_space| address_space.addresses.state_of(span));
        if !matches!(made, Some(RangeState::Used { .. })) {
            return Err(KernelError::AddressesNotInUse { start, bytes });
        }
        let number = self.reservation_of(space, span).filter(|number| *number != 0);
        let number = number.ok_or(KernelError::OtherReservation { start })?;
        let first = *before.get_or_insert(number);
        if first == number { Ok(()) } else { Err(KernelError::OtherReservation { start }) }
    }

    /// The reservation that contains all of a span; zero is none.
    fn reservation_of(&self, space: Id<AddressSpace>, span: &Span<u64>) -> Option<u32> {
        let addresses = &self.memory.spaces.get(space)?.addresses;
        if !matches!(addresses.state_of(span), RangeState::Used { .. }) {
            return None;
        }
        let parts = addresses.parts(span);
        let first = parts.first()?.1.reservation;
        parts.iter().all(|pair| pair.1.reservation == first).then_some(first)
    }

    /// The ranges that an operation sets, piece by piece.
    fn resolved_ranges(
        &self,
        space: Id<AddressSpace>,
        it: &ResolvedUpdate,
    ) -> Vec<(Span<u64>, Backing)> {
        match it.change {
            AddressUpdate::Map { base, bytes, piece, .. } => {
                let step = if piece == 0 { bytes } else { piece.min(bytes) };
                let count = bytes.checked_div(step).unwrap_or(0);
                let each = |n: u64| (base + n * step..base + (n + 1) * step, it.backing);
                (0..count).map(each).collect()
            }
            AddressUpdate::Unmap { base, bytes, .. } => vec![(base..base + bytes, it.backing)],
            AddressUpdate::Copy { from, to, bytes } => {
                let space = &self.memory.spaces[space];
                let moved =
                    |(part, range): (Span<u64>, crate::memory::address::ranges::AddressRange)| {
                        let start = part.start - from + to;
                        (start..start + (part.end - part.start), range.backing)
                    };
                space.addresses.parts(&(from..from + bytes)).into_iter().map(moved).collect()
            }
        }
    }
}
