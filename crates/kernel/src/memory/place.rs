//! Where extents go, and who has to leave for them.

use crate::kernel::Kernel;
use crate::memory::Owner;
use crate::memory::pressure::Pressure;
use crate::memory::{Extent, Memory, Move, Place, Rank, Spotted, Step, number, place_of};
use crate::operation::PAGE;
use crate::schedule::Behind;
use crate::start::Adapter;
use crate::store::Id;
use crate::store::Slab;
use crate::world::World;
use flight::invariant;
use flight::{Text, What};

/// What is not larger than this may lie in pages that do not touch.
const SCATTERED: u64 = 32 * PAGE;

/// Decisions of one call that become paging work together.
#[derive(Default)]
pub(crate) struct Plan {
    /// Who leaves. It comes first, since others may get the place.
    pub(crate) leave: Vec<Step>,
    /// Who comes.
    pub(crate) come: Vec<Step>,
    /// What has to pass before anybody leaves.
    pub(crate) behind: Vec<Behind>,
    /// Who was given a place by it, and whether that is its first.
    pub(crate) placed: Vec<(Id<Extent>, bool)>,
    /// The CPU is about to lock who comes: it goes only where that sees it.
    pub(crate) seen: bool,
}

/// There is no place: so many bytes are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPlace {
    pub(crate) missing: u64,
}

impl Kernel {
    /// Says what a driver wants of the memory of a new extent.
    pub(crate) fn say_wanted(&self, world: &World, extent: Id<Extent>) {
        let it = &world.extents[extent];
        let mappable = world.memory(it.adapter).is_some_and(|(_, memory)| memory.maps(it));
        let flags = it.wants.flags;
        let wanted = What::MemoryWanted {
            seen: flags.cpu_visible,
            cached: flags.cached,
            pinned: flags.pinned,
            told: it.is_told(),
            mappable,
        };
        self.log.emit(it.owner.subject(), wanted);
    }

    /// Plans for an extent to be in one of its segments. Answers whether anything is to be done.
    pub(crate) fn plan_in(
        &self,
        world: &mut World,
        extent: Id<Extent>,
        plan: &mut Plan,
    ) -> Result<bool, NoPlace> {
        let it = &world.extents[extent];
        if it.segment().is_some() {
            return Ok(false);
        }
        let (adapter, bytes) = (it.adapter, it.bytes);
        let candidates = world.memory(adapter).map(|it| it.1.candidates(it.0, extent, plan.seen));
        let candidates = candidates.unwrap_or_default();
        let free = candidates.iter().find_map(|it| Some((*it, world.try_place(extent, *it)?)));
        let found = free.or_else(|| {
            candidates.iter().find_map(|it| Some((*it, self.make_room(world, extent, *it, plan)?)))
        });
        let Some((segment, offset)) = found else {
            let free = candidates.iter().filter_map(|it| {
                Some(world.memory(adapter)?.1.segments.get(*it)?.ranges.free_bytes())
            });
            let most = free.max().unwrap_or(0);
            return Err(NoPlace { missing: bytes.saturating_sub(most).max(1) });
        };
        if !self.plan_coming(world, extent, Spotted { segment, offset }, plan) {
            let content = world.extents.get(extent).is_some_and(|it| it.content);
            world.leave_place(extent, if content { Place::System } else { Place::Nowhere });
            return Err(NoPlace { missing: bytes });
        }
        Ok(true)
    }

    /// Has those leave a segment that may, the first to go first, until there is room.
    fn make_room(
        &self,
        world: &mut World,
        extent: Id<Extent>,
        segment: usize,
        plan: &mut Plan,
    ) -> Option<u64> {
        let (adapter, bytes) = world.extents.get(extent).map(|it| (it.adapter, it.bytes))?;
        // Whoever would not make room does not leave.
        let there = world.memory(adapter)?.1.segments.get(segment)?;
        let free = there.ranges.free_bytes().min(there.limit.saturating_sub(there.committed));
        if free.saturating_add(there.idle_bytes) < bytes {
            return None;
        }
        loop {
            let there = world.memory(adapter)?.1.segments.get(segment)?;
            // Not one that this very call has placed.
            let mine = |it: &&Rank| plan.placed.iter().any(|placed| placed.0 == it.extent);
            let first = there.idle.iter().find(|it| !mine(it))?.extent;
            if !self.plan_out(world, first, "room for another", plan) {
                return None;
            }
            if let Some(offset) = world.try_place(extent, segment) {
                return Some(offset);
            }
        }
    }

    /// The steps of one that has been given a place. Answers whether there was memory for them.
    pub(crate) fn plan_coming(
        &self,
        world: &mut World,
        extent: Id<Extent>,
        at: Spotted,
        plan: &mut Plan,
    ) -> bool {
        let (extents, memory) = world.memory_mut_of(extent);
        let it = &mut extents[extent];
        let Some(segment) = memory.segments.get(at.segment) else { return false };
        let aperture = segment.shape.flags.aperture;
        if (aperture || it.content) && !it.back(&*memory.ram, &mut memory.pressure) {
            return false;
        }
        let what = What::MemoryPlaced {
            segment: segment.subject,
            address: segment.shape.base + at.offset,
            bytes: it.bytes,
        };
        self.log.emit(it.owner.subject(), what);
        let fresh = !std::mem::replace(&mut it.content, true);
        plan.placed.push((extent, fresh));
        let table = it.owner.is_table();
        let mut step = |what| plan.come.push(Step::new(extent, what, at));
        if aperture {
            step(Move::Map);
        }
        match (fresh, aperture, matches!(it.owner, Owner::Saved(_))) {
            (true, _, true) => step(Move::Init),
            // What a table has at first is written as such.
            (true, false, false) if table => (),
            (true, false, false) => step(Move::Fill),
            (false, false, _) => step(Move::In),
            // WINDOWS: pages of the system are zeroed when they are taken (our reading).
            (_, true, _) => (),
        }
        if it.is_told() {
            step(Move::Come);
        }
        (it.clean, it.written, it.copied) = (false, false, !fresh);
        plan.come.extend(world.come_entries(extent));
        true
    }

    /// Plans for an extent to leave its segment. Answers whether it can.
    pub(crate) fn plan_out(
        &self,
        world: &mut World,
        extent: Id<Extent>,
        why: &'static str,
        plan: &mut Plan,
    ) -> bool {
        let entries = world.leave_entries(extent);
        let (extents, memory) = world.memory_mut_of(extent);
        let it = &mut extents[extent];
        let Place::In { segment, spot } = &it.place else { return false };
        let at = Spotted { segment: *segment, offset: spot.start() };
        let Some(segment) = memory.segments.get(at.segment) else { return false };
        let aperture = segment.shape.flags.aperture;
        // What is on its way has steps that need its pages.
        let idle = it.lock.is_none() && it.pending == 0;
        let thrown = it.offer.is_some_and(|it| it.ready) && idle;
        // What nobody wrote to is still in the system's memory as it was.
        let same = it.clean && !it.written && it.copied;
        if !thrown && !same && !it.back(&*memory.ram, &mut memory.pressure) {
            return false;
        }
        let discard = thrown || same;
        let why: Text = if thrown { "it was offered".into() } else { why.into() };
        self.log.emit(
            it.owner.subject(),
            What::MemoryEvicted { segment: segment.subject, discard, why },
        );
        plan.leave.extend(entries);
        let mut step = |what| plan.leave.push(Step { idle: true, ..Step::new(extent, what, at) });
        if it.is_told() {
            step(Move::Go);
        }
        step(match (aperture, discard) {
            (true, _) => Move::Unmap,
            (false, true) => Move::Discard { unwritten: !thrown },
            (false, false) => Move::Out,
        });
        if thrown {
            it.content = false;
            // Whoever takes it back gets zeroes, and the machine its pages.
            it.thrown.append(&mut it.backing);
            if let Some(offer) = &mut it.offer {
                offer.discarded = true;
            }
        }
        plan.behind.append(&mut it.used);
        world.leave_place(extent, if thrown { Place::Nowhere } else { Place::System });
        true
    }
}

impl Kernel {
    /// Undoes the places that a plan has given: the call failed. Who left for them is gone.
    pub(crate) fn unplan(&self, world: &mut World, plan: &mut Plan) {
        for (extent, fresh) in plan.placed.drain(..) {
            let (extents, memory) = world.memory_mut_of(extent);
            let it = &mut extents[extent];
            let place = it.segment().and_then(|it| memory.segments.get(it));
            if let Some(segment) = place.map(|it| it.subject) {
                let why = "the call failed".into();
                self.log
                    .emit(it.owner.subject(), What::MemoryEvicted { segment, discard: true, why });
            }
            it.content &= !fresh;
            world.leave_place(extent, if fresh { Place::Nowhere } else { Place::System });
        }
        plan.come.clear();
    }
}

impl Step {
    pub(crate) fn new(extent: Id<Extent>, what: Move, at: Spotted) -> Self {
        Self { extent, what, at, multipass: 0, passes: 0, idle: false }
    }
}

impl Extent {
    /// Takes pages of the system's memory for it, if it has none.
    ///
    /// WINDOWS: they need not lie one behind the other, and those of large ones that page well
    /// mostly do. Here they do not for every other small one, so that no driver forgets it.
    pub(crate) fn back(&mut self, ram: &dyn flight::Ram, pressure: &mut Option<Pressure>) -> bool {
        if !self.backing.is_empty() {
            return true;
        }
        let mut left = self.bytes;
        let scattered = self.owner.subject().number.is_multiple_of(2) && self.bytes <= SCATTERED;
        while left > 0 {
            let piece = match pressure {
                Some(it) => it.piece(left),
                None if scattered => PAGE,
                None => left,
            };
            let Some(run) = ram.take(piece) else {
                self.backing.drain(..).for_each(|it| ram.give_back(it));
                return false;
            };
            self.backing.push(run);
            left -= piece;
        }
        // So that neighbours in the allocation are none in the machine's memory.
        self.backing.reverse();
        if scattered {
            self.backing.rotate_right(1); // Whoever takes them for a line stays among its own.
        }
        true
    }

    /// Whether its driver is told when it comes and goes.
    ///
    /// WINDOWS: only those with both flags (documented).
    pub(crate) fn is_told(&self) -> bool {
        self.wants.flags.physical && self.wants.flags.notify
    }

    /// Whether it may be moved out now, of an aperture or of memory.
    ///
    /// What is locked leaves an aperture only, since its bytes stay where they are: what the CPU
    /// writes while bytes are copied would be lost.
    fn may_leave(&self, aperture: bool) -> bool {
        let free = self.held == 0 || self.offer.is_some_and(|it| it.ready);
        let seen = self.lock.is_some() && !aperture;
        free && !seen && !self.wants.flags.pinned && !self.ending
    }
}

impl Memory {
    /// Whether an extent can be in an aperture.
    pub(crate) fn maps(&self, it: &Extent) -> bool {
        let aperture = |(number, segment): (u32, &crate::memory::Segment)| {
            segment.shape.flags.aperture && it.wants.segments.has(number)
        };
        (1..).zip(&self.segments).any(aperture)
    }

    /// The segments an extent may go to, the best first.
    fn candidates(&self, extents: &Slab<Extent>, extent: Id<Extent>, seen: bool) -> Vec<usize> {
        let it = &extents[extent];
        let preferred = it.wants.preferred.iter().flatten().map(|it| it.segment);
        let mut order: Vec<u32> = Vec::new();
        for number in preferred.chain(it.wants.segments.iter()) {
            if it.wants.segments.has(number) && !order.contains(&number) {
                order.push(number);
            }
        }
        let order = order.into_iter().filter_map(place_of);
        // WINDOWS: what is locked outside of memory and has no aperture to go to stays where it is
        // until it is unlocked (documented).
        let stuck = it.lock.is_some() && !self.maps(it);
        let takes = |place: &usize| self.segments.get(*place).is_some_and(|to| to.takes(it, seen));
        order.filter(|place| !stuck && takes(place)).collect()
    }
}

impl crate::memory::Segment {
    /// Whether an extent may come here as it is now, and the CPU sees it here if it has to.
    ///
    /// WINDOWS: what the CPU has locked in the system's memory is mapped into an aperture, and not
    /// moved from under it (documented for what has no aperture; our decision for the rest).
    fn takes(&self, it: &Extent, seen: bool) -> bool {
        let flags = self.shape.flags;
        let visible = flags.cpu_visible && !it.wants.flags.cached;
        let locked = it.lock.is_some() || (seen && !visible);
        flags.aperture || !(locked || it.wants.flags.permanent_system)
    }
}

impl World {
    /// The extents, and the memory of an adapter.
    pub(crate) fn memory(&self, adapter: Id<Adapter>) -> Option<(&Slab<Extent>, &Memory)> {
        Some((&self.extents, self.adapters.get(adapter)?.memory.as_ref()?))
    }

    /// The extents, and the memory of the adapter that one of them is of.
    pub(crate) fn memory_mut_of(&mut self, extent: Id<Extent>) -> (&mut Slab<Extent>, &mut Memory) {
        let adapter = self.extents[extent].adapter;
        let memory = self.adapters[adapter].memory.as_mut();
        (&mut self.extents, invariant(memory, "an adapter whose extents live has memory"))
    }

    /// Gives an extent a place in a segment, if there is one: answers where in it.
    fn try_place(&mut self, extent: Id<Extent>, segment: usize) -> Option<u64> {
        let (extents, memory) = self.memory_mut_of(extent);
        let it = extents.get_mut(extent)?;
        memory.clock += 1;
        let clock = memory.clock;
        let to = memory.segments.get_mut(segment)?;
        if to.committed.saturating_add(it.bytes) > to.limit {
            return None;
        }
        let spot = to.ranges.place(it.bytes, it.alignment)?;
        let offset = spot.start();
        to.committed += it.bytes;
        (it.place, it.tick) = (Place::In { segment, spot }, clock);
        self.rank(extent);
        Some(offset)
    }

    /// Gives an extent the very place it had, if nobody else has it.
    pub(crate) fn place_back(&mut self, extent: Id<Extent>, at: Spotted) -> bool {
        let (extents, memory) = self.memory_mut_of(extent);
        let Some(it) = extents.get_mut(extent).filter(|it| it.place == Place::System) else {
            return false;
        };
        let Some(to) = memory.segments.get_mut(at.segment) else { return false };
        let Some(spot) = to.ranges.place_at(at.offset, it.bytes) else { return false };
        to.committed += it.bytes;
        it.place = Place::In { segment: at.segment, spot };
        self.rank(extent);
        true
    }

    /// Takes an extent's place away.
    pub(crate) fn leave_place(&mut self, extent: Id<Extent>, to: Place) {
        self.unrank(extent);
        let (extents, memory) = self.memory_mut_of(extent);
        let it = &mut extents[extent];
        if let Place::In { segment, spot } = std::mem::replace(&mut it.place, to)
            && let Some(from) = memory.segments.get_mut(segment)
        {
            from.committed -= it.bytes;
            from.ranges.free(spot);
        }
    }

    /// Puts an extent where it belongs among those that may be moved out, or nowhere.
    pub(crate) fn rank(&mut self, extent: Id<Extent>) {
        self.unrank(extent);
        let (extents, memory) = self.memory_mut_of(extent);
        let it = &mut extents[extent];
        let aperture = |it: &usize| memory.segments.get(*it).map(|it| it.shape.flags.aperture);
        let may = |segment: &usize| aperture(segment).is_some_and(|it_is| it.may_leave(it_is));
        let Some(segment) = it.segment().filter(may) else { return };
        let offered = it.offer.filter(|it| it.ready);
        let rank = Rank {
            kept: offered.is_none(),
            priority: offered.map_or(it.priority, |it| it.priority),
            used: it.tick,
            extent,
        };
        it.rank = Some(rank);
        if let Some(segment) = memory.segments.get_mut(segment) {
            segment.idle.insert(rank);
            segment.idle_bytes += it.bytes;
        }
    }

    pub(crate) fn unrank(&mut self, extent: Id<Extent>) {
        let (extents, memory) = self.memory_mut_of(extent);
        let it = &mut extents[extent];
        if let (Some(rank), Some(segment)) = (it.rank.take(), it.segment())
            && let Some(segment) = memory.segments.get_mut(segment)
        {
            segment.idle.remove(&rank);
            segment.idle_bytes -= it.bytes;
        }
    }
}

/// The driver's number of a step's segment.
pub(crate) fn segment_number(step: &Step) -> u32 {
    number(step.at.segment)
}
