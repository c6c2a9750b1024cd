//! Updates of reserved addresses: several operations of one call, in their order.
//!
//! # Invariants
//!
//! 1. A call is judged when it comes, all of it before anything of it is done.
//! 2. What is not of the same reservation any more, or is to map what is no more, is left alone.

use crate::device::Device;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::memory::place::Plan;
use crate::process::ProcessId;
use crate::refused::Refused;
use crate::space::Space;
use crate::space::addresses::{Access, Held, Made};
use crate::space::calls::Behind;
use crate::space::queued::Fenced;
use crate::space::subject;
use crate::start::Adapter;
use crate::store::Id;
use crate::view::Stage;
use crate::world::World;
use flight::{Passive, What};
use std::ops::Range as Span;

/// What a client wants done to its addresses (`D3DKMT_UPDATEGPUVIRTUALADDRESS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateOrder {
    /// Whose they are.
    pub device: Handle,
    /// What to do, in that order.
    pub operations: Vec<Change>,
    /// A fence, and the value it has before anything is done: it has the next one then. None: it
    /// is done at once (`DoNotWait`).
    pub fence: Option<(Handle, u64)>,
}

/// One operation on addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Maps bytes of an allocation: the same `piece` of it again and again, if that is shorter.
    Map {
        /// From this address on.
        base: u64,
        /// How many bytes.
        bytes: u64,
        /// The view.
        view: Handle,
        /// From where on in its allocation.
        offset: u64,
        /// How many bytes of it; zero is as many as addresses.
        piece: u64,
        /// What may be done with them.
        access: Access,
    },
    /// Takes away what is there.
    Unmap {
        /// From this address on.
        base: u64,
        /// How many bytes.
        bytes: u64,
        /// Reads are zero from there on.
        zero: bool,
    },
    /// Has there what is elsewhere.
    Copy {
        /// From this address on.
        from: u64,
        /// To this one.
        to: u64,
        /// How many bytes.
        bytes: u64,
    },
}

/// An operation that was judged.
#[derive(Clone, Debug)]
struct Ready {
    change: Change,
    held: Held,
}

/// An update that was judged.
pub(crate) struct Judged {
    pub(crate) adapter: Id<Adapter>,
    pub(crate) device: Id<Device>,
    pub(crate) space: Id<Space>,
    ready: Vec<Ready>,
    /// The reservation of its targets.
    reservation: u32,
    /// Its number in its space.
    pub(crate) update: u32,
    /// What it waits for, and signals.
    pub(crate) fence: Option<Fenced>,
    /// Its fence has its value, and the root of its space is changing.
    pub(crate) due: bool,
}

impl Change {
    /// The addresses it changes.
    fn target(&self) -> Option<Span<u64>> {
        let (start, bytes) = match *self {
            Change::Map { base, bytes, .. } | Change::Unmap { base, bytes, .. } => (base, bytes),
            Change::Copy { to, bytes, .. } => (to, bytes),
        };
        Some(start..start.checked_add(bytes)?)
    }

    /// The addresses it looks at.
    fn source(&self) -> Option<Span<u64>> {
        match *self {
            Change::Copy { from, bytes, .. } => Some(from..from.checked_add(bytes)?),
            Change::Map { .. } | Change::Unmap { .. } => None,
        }
    }
}

impl Kernel {
    /// Changes what is at reserved addresses (`D3DKMTUpdateGpuVirtualAddress`).
    pub fn update_addresses(
        &self,
        at: &mut Passive,
        process: ProcessId,
        order: &UpdateOrder,
    ) -> Result<(), Refused> {
        let inside = self.enter_device(process, order.device)?;
        let space = self.world.hold().space_of(process.0, inside.adapter);
        let space = space.ok_or(Refused::NoAddresses)?;
        let ends = order.operations.iter().filter_map(Change::target).map(|it| it.end);
        let end = ends.max().unwrap_or(0);
        let mut world = loop {
            let world = self.world.hold();
            // What is not there is refused below.
            let known = world.spaces.get(space).is_some_and(|it| end <= it.addresses.end());
            if !known || world.is_rooted(space, end) {
                break world;
            }
            drop(world);
            self.grow_root(at, &inside.driver, space, end)?;
        };
        if let Some(fence) = order.fence {
            drop(world);
            return self.update_behind(at, process, (inside.device, space), order, fence);
        }
        let world = &mut *world;
        let mut judged = world.judge_update(process, inside.device, space, &order.operations)?;
        judged.update = world.number_update(space);
        self.apply_update(world, &judged)
    }

    /// Does what an update says, as far as it is still about the same reservation.
    pub(crate) fn apply_update(&self, world: &mut World, judged: &Judged) -> Result<(), Refused> {
        let Judged { adapter, space, ref ready, reservation, update, .. } = *judged;
        let (mut plan, mut ignored, mut full) = (Plan::default(), 0, None);
        for (order, it) in (0..).zip(ready) {
            let Some(target) = it.change.target() else { continue };
            let same = world.reservation_of(space, &target) == Some(reservation);
            if !same || !world.is_there(it.held) {
                ignored += 1;
                continue;
            }
            for (span, held) in world.puts(space, it) {
                world.spaces[space].addresses.put(&span, held);
                self.say_mapped(world, space, &span, held, (span.start, 0, 0, order));
            }
            if let Err(why) = self.plan_span(world, space, &target, &mut plan) {
                // What came before it is done: there is no memory for more tables.
                world.spaces[space].addresses.put(&target, Held::Reserved);
                full = Some(why);
                break;
            }
        }
        let of = judged.fence.map(|it| it.object.subject());
        let wanted = judged.fence.map_or(0, |it| it.value);
        self.log.emit(subject(space), What::UpdateApplied { update, ignored, of, wanted });
        let mut gone = Vec::new();
        if full.is_none() {
            for span in ready.iter().filter_map(|it| it.change.target()) {
                gone.extend(world.drop_tables(space, &span, &mut plan.come));
            }
        }
        let paging = self.start_paging(world, adapter, plan, None);
        for extent in gone {
            self.release_extent(world, extent);
        }
        self.finish_behind(world, judged, paging);
        full.map_or(Ok(()), Err)
    }
}

impl World {
    /// Judges an update: every operation is possible, and its targets are of one reservation, as
    /// its sources are. Answers the targets' reservation.
    pub(crate) fn judge_update(
        &self,
        process: ProcessId,
        device: Id<Device>,
        space: Id<Space>,
        operations: &[Change],
    ) -> Result<Judged, Refused> {
        let mut ready = Vec::with_capacity(operations.len());
        let (mut targets, mut sources) = (None, None);
        for change in operations {
            let target = change.target().ok_or(Refused::AddressesMixed { start: 0, bytes: 0 })?;
            self.same_reservation(space, &target, &mut targets)?;
            if let Some(source) = change.source() {
                self.same_reservation(space, &source, &mut sources)?;
            }
            let held = match *change {
                Change::Map { view, offset, piece, bytes, access, .. } => {
                    let length = if piece == 0 { bytes } else { piece };
                    let behind = Behind::Bytes { view, offset, access };
                    self.wanted_behind(process, device, behind, length)?.0
                }
                Change::Unmap { zero: true, .. } => Held::Zero,
                Change::Unmap { .. } | Change::Copy { .. } => Held::Reserved,
            };
            ready.push(Ready { change: *change, held });
        }
        let adapter = self.spaces[space].adapter;
        let reservation = targets.unwrap_or(0);
        let (update, fence) = (0, None);
        Ok(Judged { adapter, device, space, ready, reservation, update, fence, due: false })
    }

    /// A number for the next update of a space.
    pub(crate) fn number_update(&mut self, space: Id<Space>) -> u32 {
        self.spaces.get_mut(space).map_or(0, |it| {
            it.last_update += 1;
            it.last_update
        })
    }

    /// Whether what is to be mapped is still there.
    fn is_there(&self, held: Held) -> bool {
        match held {
            Held::Mapped { view, .. } => {
                self.views.get(view).is_some_and(|it| it.stage == Stage::Live)
            }
            Held::Reserved | Held::Driver | Held::NoAccess | Held::Zero => true,
        }
    }

    /// Whether a span is of the reservation that those before it are of.
    fn same_reservation(
        &self,
        space: Id<Space>,
        span: &Span<u64>,
        before: &mut Option<u32>,
    ) -> Result<(), Refused> {
        let (start, bytes) = (span.start, span.end - span.start);
        let made = self.spaces.get(space).map(|it| it.addresses.made_of(span));
        if !matches!(made, Some(Made::Taken { .. })) {
            return Err(Refused::NotTaken { start, bytes });
        }
        let number = self.reservation_of(space, span).filter(|it| *it != 0);
        let number = number.ok_or(Refused::OtherReservation { start })?;
        let first = *before.get_or_insert(number);
        if first == number { Ok(()) } else { Err(Refused::OtherReservation { start }) }
    }

    /// The one reservation that all of a span is in; zero is none.
    fn reservation_of(&self, space: Id<Space>, span: &Span<u64>) -> Option<u32> {
        let addresses = &self.spaces.get(space)?.addresses;
        if !matches!(addresses.made_of(span), Made::Taken { .. }) {
            return None;
        }
        let parts = addresses.parts(span);
        let first = parts.first()?.1.reservation;
        parts.iter().all(|it| it.1.reservation == first).then_some(first)
    }

    /// What an operation puts where, piece by piece.
    fn puts(&self, space: Id<Space>, it: &Ready) -> Vec<(Span<u64>, Held)> {
        match it.change {
            Change::Map { base, bytes, piece, .. } => {
                let step = if piece == 0 { bytes } else { piece.min(bytes) };
                let count = bytes.checked_div(step).unwrap_or(0);
                let each = |n: u64| (base + n * step..base + (n + 1) * step, it.held);
                (0..count).map(each).collect()
            }
            Change::Unmap { base, bytes, .. } => vec![(base..base + bytes, it.held)],
            Change::Copy { from, to, bytes } => {
                let space = &self.spaces[space];
                let moved = |(part, taken): (Span<u64>, crate::space::addresses::Taken)| {
                    let start = part.start - from + to;
                    (start..start + (part.end - part.start), taken.held)
                };
                space.addresses.parts(&(from..from + bytes)).into_iter().map(moved).collect()
            }
        }
    }
}
