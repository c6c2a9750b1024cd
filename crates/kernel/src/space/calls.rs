//! What clients ask of their addresses: to reserve, to map, to free.

use crate::device::Device;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::place::Plan;
use crate::memory::queue::Queue;
use crate::memory::resident::Residency;
use crate::operation::PAGE;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::space::Space;
use crate::space::addresses::{Access, Bounds, Held, LOWEST, Made};
use crate::space::fault::{Coming, Freed};
use crate::space::subject;
use crate::start::Adapter;
use crate::store::Id;
use crate::store::IdList;
use crate::view::View;
use crate::world::World;
use flight::invariant;
use flight::{Passive, What};
use std::ops::Range as Span;

/// Addresses that were freed are remembered for reports, so many of them.
const MOST_FREED: usize = 256;

/// What a client wants at addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Bytes of an allocation.
    Bytes {
        /// Its view.
        view: Handle,
        /// From where on.
        offset: u64,
        /// What may be done with them.
        access: Access,
    },
    /// Reads are zero, writes are lost.
    Zero,
    /// Touching them is a fault.
    NoAccess,
}

/// Addresses to map (`D3DDDI_MAPGPUVIRTUALADDRESS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapOrder {
    /// Whose paging work it is.
    pub queue: Handle,
    /// Where; zero is anywhere between the others.
    pub base: u64,
    /// Not below.
    pub minimum: u64,
    /// The end is not above; zero is the end of all addresses.
    pub maximum: u64,
    /// How many bytes.
    pub bytes: u64,
    /// What is to be there.
    pub behind: Behind,
}

/// Addresses to reserve (`D3DDDI_RESERVEGPUVIRTUALADDRESS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReserveOrder {
    /// Whose paging work it is.
    pub queue: Handle,
    /// Where; zero is anywhere between the others.
    pub base: u64,
    /// Not below.
    pub minimum: u64,
    /// The end is not above; zero is the end of all addresses.
    pub maximum: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Until something is mapped there, reads are zero.
    pub zero: bool,
}

/// Where a client's addresses are, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The first of them.
    pub address: u64,
    /// Whether they can be used.
    pub when: Residency,
}

impl Kernel {
    /// Reserves addresses (`D3DKMTReserveGpuVirtualAddress`).
    pub fn reserve_addresses(
        &self,
        at: &mut Passive,
        process: ProcessId,
        order: &ReserveOrder,
    ) -> Result<Mapped, Refused> {
        let (queue, inside) = {
            let mut world = self.world.hold();
            let (queue, device) = world.queue_of(process, order.queue)?;
            (queue, self.inside(&mut world, device)?)
        };
        self.look_again(&inside)?;
        let (space, span, mut world) = loop {
            let world = self.world.hold();
            world.queue_of(process, order.queue)?;
            let space = world.space_of(process.0, inside.adapter).ok_or(Refused::NoAddresses)?;
            let bounds =
                Bounds { minimum: order.minimum, maximum: order.maximum, alignment: LARGE };
            let free = |made| made == Made::Free;
            let span = self.choose(&world, space, order.base, order.bytes, (bounds, true), free)?;
            if !order.zero || world.is_rooted(space, span.end) {
                break (space, span, world);
            }
            drop(world);
            self.grow_root(at, &inside.driver, space, span.end)?;
        };
        let world = &mut *world;
        let held = if order.zero { Held::Zero } else { Held::Reserved };
        let it = &mut world.spaces[space];
        let reservation = it.addresses.reserve(span.clone(), held);
        let mut plan = Plan::default();
        if let Err(why) = self.plan_span(world, space, &span, &mut plan) {
            world.spaces[space].addresses.free(&span);
            self.start_paging(world, inside.adapter, plan, None);
            return Err(why);
        }
        let when = self.answer_plan(world, inside.adapter, queue, plan);
        world.note_coming(space, &span, (queue, when), true);
        let value = when.value();
        self.log.emit(
            subject(space),
            What::RangeReserved {
                start: span.start,
                end: span.end,
                reservation,
                held: held.name().into(),
                base: order.base,
                minimum: order.minimum,
                maximum: order.maximum,
                queue: Some(queue.subject()),
                value,
            },
        );
        Ok(Mapped { address: span.start, when })
    }

    /// Maps something at addresses (`D3DKMTMapGpuVirtualAddress`).
    pub fn map_addresses(
        &self,
        at: &mut Passive,
        process: ProcessId,
        order: &MapOrder,
    ) -> Result<Mapped, Refused> {
        let (queue, inside) = {
            let mut world = self.world.hold();
            let (queue, device) = world.queue_of(process, order.queue)?;
            (queue, self.inside(&mut world, device)?)
        };
        self.look_again(&inside)?;
        let (space, span, held, mut world) = loop {
            let world = self.world.hold();
            world.queue_of(process, order.queue)?;
            let space = world.space_of(process.0, inside.adapter).ok_or(Refused::NoAddresses)?;
            let (held, alignment) =
                world.wanted_behind(process, inside.device, order.behind, order.bytes)?;
            let bounds = Bounds { minimum: order.minimum, maximum: order.maximum, alignment };
            let empty = !matches!(held, Held::Mapped { .. });
            let fits = |made| match made {
                Made::Free => true,
                // WINDOWS: what a map call made is not emptied by another (documented).
                Made::Taken { reserved } => reserved || !empty,
                Made::Mixed => false,
            };
            let span =
                self.choose(&world, space, order.base, order.bytes, (bounds, false), fits)?;
            if !held.has_entries() || world.is_rooted(space, span.end) {
                break (space, span, held, world);
            }
            drop(world);
            self.grow_root(at, &inside.driver, space, span.end)?;
        };
        let world = &mut *world;
        let before = world.spaces.get(space).map(|it| it.addresses.parts(&span));
        let it = &mut world.spaces[space];
        it.addresses.put(&span, held);
        it.freed.retain(|it| it.span.end <= span.start || span.end <= it.span.start);
        let mut plan = Plan::default();
        if let Err(why) = self.plan_span(world, space, &span, &mut plan) {
            world.undo(space, &span, before.unwrap_or_default());
            self.start_paging(world, inside.adapter, plan, None);
            return Err(why);
        }
        self.say_mapped(world, space, &span, held, (order.base, order.minimum, order.maximum, 0));
        let when = self.answer_plan(world, inside.adapter, queue, plan);
        world.note_coming(space, &span, (queue, when), false);
        self.log.emit(
            subject(space),
            What::RangeGiven {
                start: span.start,
                end: span.end,
                queue: Some(queue.subject()),
                value: when.value(),
            },
        );
        Ok(Mapped { address: span.start, when })
    }

    /// Frees addresses, whole ranges or parts of them (`D3DKMTFreeGpuVirtualAddress`).
    ///
    /// What is still planned for them is done before, so nobody who gets them next is touched
    /// by it.
    pub fn free_addresses(
        &self,
        process: ProcessId,
        adapter: Handle,
        base: u64,
        bytes: u64,
    ) -> Result<(), Refused> {
        let world = &mut *self.world.hold();
        let adapter = world.resolve::<Adapter>(process, Argument::Adapter, adapter)?;
        if !world.adapters.get(adapter).is_some_and(Adapter::runs) {
            return Err(Refused::Removed(adapter.subject()));
        }
        let space = world.space_of(process.0, adapter).ok_or(Refused::NoAddresses)?;
        let span = base..base.checked_add(bytes).ok_or(Refused::NotTaken { start: base, bytes })?;
        let it = world.spaces.get(space).ok_or(Refused::NoAddresses)?;
        if !matches!(it.addresses.made_of(&span), Made::Taken { .. }) {
            let meets = |it: &Freed| it.span.start < span.end && span.start < it.span.end;
            let why = if it.freed.iter().any(meets) {
                Refused::FreedBefore { start: base, bytes }
            } else {
                Refused::NotTaken { start: base, bytes }
            };
            return Err(why);
        }
        self.free_span(world, space, &span, None);
        Ok(())
    }

    /// Frees a span: its entries go, and the tables that nobody else needs.
    fn free_span(&self, world: &mut World, space: Id<Space>, span: &Span<u64>, ends: Option<Ends>) {
        let it = &mut world.spaces[space];
        let adapter = it.adapter;
        let had: Vec<Span<u64>> = it
            .addresses
            .parts(span)
            .into_iter()
            .filter(|it| it.1.held.has_entries())
            .map(|it| it.0)
            .collect();
        let of = ends.map(|it| it.extent);
        // What its driver has reserved stays so, whoever frees what was mapped there.
        let stays = ends.is_some() || it.addresses.is_kept(span);
        let kept = stays && it.addresses.made_of(span) == Made::Taken { reserved: true };
        if stays {
            it.addresses.unmap(span);
        } else {
            it.addresses.free(span);
        }
        let during = world.working_contexts(space);
        if let Some(it) = world.spaces.get_mut(space) {
            it.freed.push_back(Freed { span: span.clone(), during });
            it.coming.retain(|it| it.span.end <= span.start || span.end <= it.span.start);
            if it.freed.len() > MOST_FREED {
                it.freed.pop_front();
            }
        }
        let (start, end, ended) = (span.start, span.end, ends.is_some());
        self.log.emit(subject(space), What::RangeFreed { start, end, ended, kept });
        let mut plan = Plan::default();
        for part in &had {
            let steps = world.entry_steps(space, part, None);
            // What ends waits until nothing leads to it any more.
            plan.come.extend(steps.into_iter().map(|it| it.on_behalf_of(of)));
        }
        let gone = if had.is_empty() {
            Vec::new()
        } else {
            plan.come.extend(world.flush_step(space, span, of));
            world.drop_tables(space, span, &mut plan.come)
        };
        self.start_paging(world, adapter, plan, None);
        for extent in gone {
            self.release_extent(world, extent);
        }
    }

    /// What views had mapped ends with them. Answers whether anything of it is not done.
    pub(crate) fn unmap_views(&self, world: &mut World, views: &[Id<View>]) -> bool {
        let mut pending = false;
        for view in views {
            let Some(extent) = world.extent_of(*view) else { continue };
            let adapter = world.extents[extent].adapter;
            if world.mmu(adapter).is_none() {
                return false;
            }
            for (space, span) in world.spans_of(adapter, *view) {
                self.free_span(world, space, &span, Some(Ends { extent }));
                pending = true;
            }
        }
        pending
    }

    /// The span a client gets: where it asked for, or somewhere within bounds.
    fn choose(
        &self,
        world: &World,
        space: Id<Space>,
        base: u64,
        bytes: u64,
        (bounds, reserve): (Bounds, bool),
        fits: impl Fn(Made) -> bool,
    ) -> Result<Span<u64>, Refused> {
        let it = world.spaces.get(space).ok_or(Refused::NoAddresses)?;
        if base == 0 {
            let start = it.addresses.find(bytes, bounds).ok_or(Refused::NoFreeAddresses)?;
            return Ok(start..start + bytes);
        }
        let span = base..base.saturating_add(bytes);
        let made = it.addresses.made_of(&span);
        if fits(made) {
            return Ok(span);
        }
        let (start, end) = (span.start, span.end);
        let (why, refused) = match made {
            Made::Taken { .. } => ("taken", Refused::AddressesTaken { start, bytes }),
            _ if start < LOWEST || end > it.addresses.end() => {
                ("outside", Refused::AddressesMixed { start, bytes })
            }
            Made::Free | Made::Mixed => ("mixed", Refused::AddressesMixed { start, bytes }),
        };
        self.log.emit(subject(space), What::RangeRefused { start, end, reserve, why: why.into() });
        Err(refused)
    }

    /// Plans all that a span needs to be as its ranges say: tables, entries, and nothing
    /// remembered from before.
    pub(crate) fn plan_span(
        &self,
        world: &mut World,
        space: Id<Space>,
        span: &Span<u64>,
        plan: &mut Plan,
    ) -> Result<(), Refused> {
        let parts = world.spaces.get(space).map(|it| it.addresses.parts(span)).unwrap_or_default();
        for (part, taken) in &parts {
            if taken.held.has_entries() {
                self.make_tables(world, space, part, plan)
                    .map_err(|why| Refused::NoRoom { trim: why.missing })?;
            }
        }
        let steps = world.entry_steps(space, span, None);
        if !steps.is_empty() {
            plan.come.extend(steps);
            plan.come.extend(world.flush_step(space, span, None));
        }
        Ok(())
    }

    /// Says what a client has mapped.
    pub(crate) fn say_mapped(
        &self,
        world: &World,
        space: Id<Space>,
        span: &Span<u64>,
        held: Held,
        (base, minimum, maximum, order): (u64, u64, u64, u32),
    ) {
        let (view, offset) = match held {
            Held::Mapped { view, offset, .. } => (Some(view), offset),
            Held::Reserved | Held::Driver | Held::NoAccess | Held::Zero => (None, 0),
        };
        let of = view.and_then(|it| world.views.get(it)).map(|it| it.allocation.subject());
        self.log.emit(
            subject(space),
            What::RangeMapped {
                start: span.start,
                end: span.end,
                view: view.map(Id::subject),
                of,
                held: held.name().into(),
                offset,
                base,
                minimum,
                maximum,
                order,
            },
        );
    }

    /// Starts what a call planned. Answers when it is done.
    pub(crate) fn answer_plan(
        &self,
        world: &mut World,
        adapter: Id<Adapter>,
        queue: Id<Queue>,
        plan: Plan,
    ) -> Residency {
        if plan.come.is_empty() && plan.leave.is_empty() {
            return Residency::Resident;
        }
        let value = world.next_value(queue);
        self.start_paging(world, adapter, plan, Some((queue, value)));
        Residency::Pending(value)
    }
}

/// The end of what was mapped: whoever ends waits for it.
#[derive(Clone, Copy)]
struct Ends {
    extent: Id<Extent>,
}

/// What a reservation's ends are multiples of.
pub(crate) const LARGE: u64 = 64 << 10;

impl Residency {
    /// The value of the queue's fence at which it is so; zero when it is so now.
    pub fn value(self) -> u64 {
        match self {
            Residency::Resident => 0,
            Residency::Pending(value) => value,
        }
    }
}

impl World {
    /// What a client wants at so many addresses, and how they are aligned.
    pub(crate) fn wanted_behind(
        &self,
        process: ProcessId,
        device: Id<Device>,
        behind: Behind,
        bytes: u64,
    ) -> Result<(Held, u64), Refused> {
        let Behind::Bytes { view, offset, access } = behind else {
            let zero = behind == Behind::Zero;
            return Ok((if zero { Held::Zero } else { Held::NoAccess }, PAGE));
        };
        let views = self.views_of(process, device, &[view])?;
        let number = invariant(views.first().copied(), "one handle names one view");
        let extent = self.extent_of(number).and_then(|it| self.extents.get(it));
        let extent = extent.ok_or(Refused::NoVideoMemory)?;
        if offset.checked_add(bytes).is_none_or(|end| end > extent.bytes) {
            let view = number.subject();
            return Err(Refused::OutsideAllocation { view, offset, bytes, size: extent.bytes });
        }
        let memory = self.memory(extent.adapter).map(|it| it.1);
        let large = extent.wants.segments.iter().any(|it| {
            let segment = memory.and_then(|memory| memory.numbered(it));
            segment.is_some_and(|it| it.shape.flags.large_pages)
        });
        let alignment = if large { LARGE } else { PAGE };
        Ok((Held::Mapped { view: number, offset, access }, alignment))
    }

    /// Where a view is mapped: spaces, and spans of their addresses.
    ///
    /// A view is mapped by its own process only.
    pub(crate) fn spans_of(
        &self,
        adapter: Id<Adapter>,
        view: Id<View>,
    ) -> Vec<(Id<Space>, Span<u64>)> {
        let process = self.devices[self.views[view].device].owner();
        let spaces = self.spaces_of.get(&(process, adapter));
        let spaces = spaces.map(IdList::as_slice).unwrap_or_default().iter();
        let spans = spaces.filter_map(|number| Some((*number, self.spaces.get(*number)?)));
        spans
            .flat_map(|(number, it)| it.addresses.of_view(view).map(move |it| (number, it)))
            .collect()
    }

    /// Remembers from when on a span can be used.
    fn note_coming(
        &mut self,
        space: Id<Space>,
        span: &Span<u64>,
        (queue, when): (Id<Queue>, Residency),
        reserved: bool,
    ) {
        let done = self.queues.get(queue).map_or(0, |it| it.done);
        let it = &mut self.spaces[space];
        it.coming.retain(|it| it.queue != queue || it.value > done);
        if let Residency::Pending(value) = when {
            it.coming.push(Coming { span: span.clone(), queue, value, reserved });
        }
    }

    /// Puts back what a span was before a call that failed.
    fn undo(
        &mut self,
        space: Id<Space>,
        span: &Span<u64>,
        before: Vec<(Span<u64>, crate::space::addresses::Taken)>,
    ) {
        let it = &mut self.spaces[space];
        it.addresses.restore(span, before);
    }
}
