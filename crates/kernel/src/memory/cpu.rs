//! Locks: the CPU sees an allocation, wherever it is, at an address that stays.
//!
//! # Invariants
//!
//! 1. While an extent is locked its view shows where its bytes are. It is aimed anew when paging
//!    work has moved them; whoever could not follow them is not moved.
//! 2. Where a lock was that a destroy has dropped, there is nothing, and nobody else's bytes.

use crate::allocation::Allocation;
use crate::device::Device;
use crate::device::Inside;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::lock::Held;
use crate::memory::Owner;
use crate::memory::place::{NoPlace, Plan};
use crate::memory::resident::more_than;
use crate::memory::{Extent, Locked, Memory, Place};
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::schedule::Behind;
use crate::segment::{SegmentFlags, Wants};
use crate::start::Adapter;
use crate::store::Id;
use crate::view::View;
use crate::world::World;
use flight::{Passive, Ram, Run, Subject, What};
use std::sync::Arc;

/// How a client locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct LockOrder {
    /// Whose it is.
    pub device: Handle,
    /// The view.
    pub view: Handle,
    /// The call waits for the work of the device before it (`D3DKMTLock` without `IgnoreSync`).
    pub waits: bool,
    /// It is refused instead of waiting (`DonotWait`).
    pub hurries: bool,
    /// Nothing may be moved for it (`DonotEvict`).
    pub still: bool,
    /// Through an aperture (`AcquireAperture`).
    pub aperture: bool,
    /// At an address of its own (`UseAlternateVA`).
    pub alternate: bool,
    /// It looks at what work may write meanwhile (`IgnoreSync`, `IgnoreReadSync`).
    pub unsynced: bool,
    /// Its client does not want the bytes that it has: another instance will do (`Discard`).
    pub discards: bool,
    /// No commands of its client that were not submitted name it (`NoExistingReference`).
    pub unnamed: bool,
}

/// What a lock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The view: by another name, if it is another instance.
    pub view: Handle,
    /// Where it is, for the client.
    pub address: usize,
}

impl Kernel {
    /// Shows an allocation to the CPU (`D3DKMTLock`, `D3DKMTLock2`).
    pub fn lock(
        &self,
        at: &mut Passive,
        process: ProcessId,
        order: &LockOrder,
    ) -> Result<Shown, Refused> {
        let inside = self.enter_device(process, order.device)?;
        let (view, extent, renames) = {
            let world = self.world.hold();
            let view = world.views_of(process, inside.device, &[order.view])?.swap_remove(0);
            let extent = world.extent_of(view).ok_or(Refused::NoVideoMemory)?;
            // WINDOWS: with Discard, IgnoreSync and DonotWait have no effect (documented).
            let renames = order.discards && world.may_rename(view);
            let order = LockOrder { unsynced: order.unsynced && !renames, ..*order };
            world.may_lock(view, extent, &order)?;
            let (hurries, still) = (order.hurries, order.still);
            if !renames {
                self.log.emit(world.seen_as(view, extent), What::LockAsked { hurries, still });
            }
            (view, extent, renames)
        };
        if renames {
            let order = LockOrder { unsynced: false, ..*order };
            return self.lock_instance(at, process, &inside, view, &order);
        }
        if order.waits {
            self.wait_for_use(at, inside.device, order.hurries)?;
        }
        let order = &LockOrder { discards: false, ..*order };
        self.lock_at(at, process, &inside, order, (view, extent))
    }

    /// Shows an instance to the CPU that its client is to fill.
    ///
    /// WINDOWS: where memory is short, it waits for one rather than make another (documented).
    fn lock_instance(
        &self,
        at: &mut Passive,
        process: ProcessId,
        inside: &Inside<'_>,
        view: Id<View>,
        order: &LockOrder,
    ) -> Result<Shown, Refused> {
        let mut grows = true;
        loop {
            let extent = self.claim_instance(at, process, inside, view, (order, grows))?;
            let shown = self.lock_at(at, process, inside, order, (view, extent));
            let fresh = self.unclaim(view, extent);
            match shown {
                Err(Refused::NoRoom { .. }) if fresh && grows => grows = false,
                shown => return shown,
            }
        }
    }

    /// Shows an extent of a view to the CPU. One that its client is to fill becomes the newest.
    fn lock_at(
        &self,
        at: &mut Passive,
        process: ProcessId,
        inside: &Inside<'_>,
        order: &LockOrder,
        (view, extent): (Id<View>, Id<Extent>),
    ) -> Result<Shown, Refused> {
        let mut guard = self.bring_to_cpu(at, inside.device, extent, order)?;
        let world = &mut *guard;
        // Whoever waited looks again: it may have been destroyed or offered since.
        world.views_of(process, inside.device, &[order.view])?;
        world.may_lock(view, extent, order)?;
        let seen = world.seen_as(view, extent);
        let (extents, memory) = world.memory_mut_of(extent);
        let it = extents.get_mut(extent).ok_or(Refused::NoVideoMemory)?;
        if it.lock.is_none() {
            if it.segment().is_none() && !it.back(&*memory.ram, &mut memory.pressure) {
                return Err(Refused::NoRoom { trim: it.bytes });
            }
            if it.place == Place::Nowhere {
                (it.place, it.content) = (Place::System, true);
            }
            let address = memory.ram.view(&memory.seen(it)).ok_or(Refused::NoRoom { trim: 0 })?;
            it.lock = Some(Locked {
                count: 0,
                address,
                aperture: order.aperture,
                alternate: order.alternate,
            });
        }
        let mut name = order.view;
        if order.discards {
            match self.take_instance(world, process, view, extent, order.unnamed) {
                Ok(it) => name = it,
                Err(why) => {
                    world.end_sight_of(extent);
                    return Err(why);
                }
            }
        }
        let (extents, memory) = world.memory_mut_of(extent);
        let it = extents.get_mut(extent).ok_or(Refused::NoVideoMemory)?;
        let place = memory.place_name(it);
        (it.clean, it.copied) = (false, it.copied && place != "memory");
        if let Some(witness) = self.witness.get() {
            witness.forget(it.owner.subject());
        }
        let Some(lock) = it.lock.as_mut() else { return Err(Refused::NoVideoMemory) };
        lock.count += 1;
        let (count, address) = (lock.count, lock.address);
        // One that ignores what is under way (`IgnoreSync`) is not told of it, either.
        let hurries = order.hurries && order.waits && !order.discards;
        let taken = What::LockTaken { count, place: place.into(), hurries };
        self.log.emit(seen, taken);
        world.views[view].locks += 1;
        world.rank(extent);
        Ok(Shown { view: name, address })
    }

    /// Ends one lock of each (`D3DKMTUnlock`, `D3DKMTUnlock2`): of all, or none.
    pub fn unlock(
        &self,
        process: ProcessId,
        device: Handle,
        list: &[Handle],
    ) -> Result<(), Refused> {
        let inside; // Before the world, so that it is dropped after it.
        let mut guard = self.world.hold();
        let world = &mut *guard;
        // Also a lost device is entered: what ends things always works.
        let number = world.device_of(process, device)?;
        inside = self.inside(world, number)?;
        let mut locked = Vec::with_capacity(list.len());
        for (place, handle) in list.iter().enumerate() {
            // Also an older instance: it may have been locked when it was the newest.
            let argument = Argument::Allocation(place);
            locked.push(world.instance_of(process, inside.device, argument, *handle)?);
        }
        let (views, extents): (Vec<Id<View>>, Vec<Id<Extent>>) = locked.iter().copied().unzip();
        let unlocked = more_than(&views, |it| world.views.get(it).map_or(0, |it| it.locks));
        let count = |it| world.extents.get(it).and_then(|it| it.lock.as_ref());
        let dark = more_than(&extents, |it| count(it).map_or(0, |it| it.count));
        let dark = locked.iter().find(|it| Some(it.1) == dark).map(|it| it.0);
        if let Some(view) = unlocked.or(dark) {
            return Err(Refused::NotLocked(view.subject()));
        }
        for (view, extent) in locked {
            self.end_lock(world, view, extent, false);
        }
        Ok(())
    }

    /// Ends one lock of a view, at that extent.
    fn end_lock(&self, world: &mut World, view: Id<View>, extent: Id<Extent>, dropped: bool) {
        let Some(it) = world.views.get_mut(view).filter(|it| it.locks > 0) else { return };
        it.locks -= 1;
        let count = it.locks;
        self.log.emit(world.seen_as(view, extent), What::LockEnded { count, dropped });
        let (extents, memory) = world.memory_mut_of(extent);
        let it = &mut extents[extent];
        if let Some(lock) = &mut it.lock {
            lock.count -= 1;
            if lock.count == 0 {
                let address = lock.address;
                it.lock = None;
                memory.end_sight(address, dropped);
            }
        }
        world.rank(extent);
    }

    /// A view ends: its locks end with it, whoever forgot them.
    pub(crate) fn drop_locks(&self, world: &mut World, view: Id<View>) {
        while world.views.get(view).is_some_and(|it| it.locks > 0) {
            let Some(extent) = world.locked_extents(view).first().copied() else { return };
            self.end_lock(world, view, extent, true);
        }
    }

    /// The memory that a device's client sees through views: what it has locked, its buffers, the
    /// values of its fences.
    pub fn memory_of_device(&self, process: ProcessId, device: Handle) -> Option<Arc<dyn Ram>> {
        let world = self.world.hold();
        let number = world.device_of(process, device).ok()?;
        let adapter = world.devices.get(number)?.adapter;
        Some(world.memory(adapter)?.1.ram.clone())
    }

    /// Waits for what a device has queued.
    fn wait_for_use(
        &self,
        at: &mut Passive,
        device: Id<Device>,
        hurries: bool,
    ) -> Result<(), Refused> {
        let lost = |world: &World| world.devices.get(device).is_none_or(|it| it.lost.is_some());
        let idle = |world: &World| lost(world) || world.outstanding(device).is_empty();
        if hurries && !idle(&self.world.hold()) {
            return Err(Refused::InUse(device.subject()));
        }
        let about = device.subject();
        let what = |_: &World| format!("the work of {about}, to lock");
        let done = self.wait_until(at, about, what, idle);
        if done { Ok(()) } else { Err(Refused::Stuck) }
    }

    /// Moves an extent to where the CPU can see it, if it is not, and waits until it is there.
    /// Comes back with the world held.
    fn bring_to_cpu(
        &self,
        at: &mut Passive,
        device: Id<Device>,
        extent: Id<Extent>,
        order: &LockOrder,
    ) -> Result<Held<'_, World>, Refused> {
        let about =
            self.world.hold().extents.get(extent).map_or(Subject::RUN, |it| it.owner.subject());
        let over = |it: &World| it.extents.get(extent).is_none_or(|it| it.moving == 0);
        let what = |_: &World| format!("the paging work of {about}");
        let hidden = |it: &World| it.is_hidden(extent) && it.brings_listed(device);
        if !order.waits && !order.discards && hidden(&self.world.hold()) {
            // What is to move is not moved under packets, whatever its client ignores.
            self.wait_for_use(at, device, order.hurries)?;
        }
        loop {
            let mut world = self.world.hold();
            if world.is_hidden(extent) {
                self.move_to_cpu(&mut world, extent, order)?;
            } else if over(&world) {
                return Ok(world);
            }
            drop(world);
            if !self.wait_until(at, about, what, over) {
                return Err(Refused::Stuck);
            }
        }
    }

    /// Plans for an extent to leave memory that the CPU does not see. What is listed stays
    /// resident: it goes to another segment.
    fn move_to_cpu(
        &self,
        world: &mut World,
        extent: Id<Extent>,
        order: &LockOrder,
    ) -> Result<(), Refused> {
        let it = &world.extents[extent];
        let (owner, adapter, bytes, listed) = (it.owner, it.adapter, it.bytes, it.held > 0);
        if order.still {
            return Err(Refused::WouldEvict(owner.subject()));
        }
        if it.wants.flags.pinned {
            return Err(Refused::Pinned(owner.subject()));
        }
        let allocation = world.allocation_of(owner);
        let behind = allocation.map_or(Vec::new(), |it| world.work_of_listers(it));
        let mut plan = Plan { behind, ..Plan::default() };
        if !self.plan_out(world, extent, "the CPU locks it", &mut plan) {
            return Err(Refused::NoRoom { trim: bytes });
        }
        let mut found = Ok(true);
        if listed {
            plan.seen = true;
            found = self.plan_in(world, extent, &mut plan);
            plan.seen = false;
            if found.is_err() {
                // Back to where there is room: at least to where it was.
                let _ = self.plan_in(world, extent, &mut plan);
            }
        }
        self.start_paging(world, adapter, plan, None);
        found.map(drop).map_err(|NoPlace { missing }| Refused::NoRoom { trim: missing })
    }

    /// Unmaps an extent that is about to end. Answers whether nothing of it is pending.
    pub(crate) fn empty_extent(&self, world: &mut World, extent: Id<Extent>) -> bool {
        let mapped = world.memory(world.adapter_of(extent)).is_some_and(|(extents, memory)| {
            let segment = extents.get(extent).and_then(Extent::segment);
            segment.and_then(|it| memory.segments.get(it)).is_some_and(|it| it.shape.flags.aperture)
        });
        if mapped {
            // WINDOWS: an allocation's mappings go before it is destroyed (documented).
            let mut plan = Plan::default();
            self.plan_out(world, extent, "it ends", &mut plan);
            let adapter = world.adapter_of(extent);
            self.start_paging(world, adapter, plan, None);
        }
        world.extents.get(extent).is_none_or(|it| it.pending == 0)
    }

    /// Gives back all memory of an extent: now, or as soon as nothing of it is pending.
    pub(crate) fn release_extent(&self, world: &mut World, extent: Id<Extent>) {
        let empty = self.empty_extent(world, extent);
        let it = &mut world.extents[extent];
        it.ending = true;
        if empty {
            self.drop_extent(world, extent);
        } else {
            world.unrank(extent);
        }
    }

    /// Gives back all memory of an extent that nobody reaches any more.
    pub(crate) fn drop_extent(&self, world: &mut World, extent: Id<Extent>) {
        self.forget_table(world, extent);
        world.leave_place(extent, Place::Nowhere);
        let (extents, memory) = world.memory_mut_of(extent);
        let it = extents.remove(extent);
        let subject = it.owner.subject();
        if let Some(lock) = it.lock {
            memory.end_sight(lock.address, true);
        }
        for run in it.backing.into_iter().chain(it.thrown) {
            memory.ram.give_back(run);
        }
        if let Some(witness) = self.witness.get() {
            witness.forget(subject);
        }
        self.log.emit(subject, What::MemoryFreed {});
        match it.owner {
            Owner::Allocation(_) => (),
            Owner::Saved(saved) => {
                self.log.emit(subject, What::SavedGone {});
                if it.word != 0 {
                    self.log.release_word(it.word);
                }
                world.saved.remove(saved);
            }
            Owner::Instance(instance) => {
                self.log.emit(subject, What::InstanceGone {});
                world.instances.remove(instance);
            }
            Owner::Table(_) => self.log.emit(subject, What::TableGone {}),
        }
        self.wake(world);
    }
}

/// So many addresses of what was destroyed while it was locked are kept from others.
const MOST_STALE: usize = 256;

impl Memory {
    /// The CPU does not see it any more. Whoever touches what was `dropped` traps: the addresses
    /// are nobody else's, until too many of them have come since, or the adapter is removed.
    fn end_sight(&mut self, address: usize, dropped: bool) {
        if !dropped {
            self.ram.end_view(address);
            return;
        }
        self.ram.aim(address, &[]);
        self.stale.push_back(address);
        if self.stale.len() > MOST_STALE
            && let Some(oldest) = self.stale.pop_front()
        {
            self.ram.end_view(oldest);
        }
    }

    /// What the segments are that an extent can be in.
    fn segments_of(&self, wants: &Wants) -> impl Iterator<Item = SegmentFlags> {
        let numbered = (1..).zip(&self.segments);
        let mine = numbered.filter(|(number, _)| wants.segments.has(*number));
        mine.map(|(_, it)| it.shape.flags)
    }

    /// The kind of place an extent is in, for events.
    fn place_name(&self, it: &Extent) -> &'static str {
        let segment = it.segment().and_then(|it| self.segments.get(it));
        match segment.map(|it| it.shape.flags.aperture) {
            Some(false) => "memory",
            Some(true) => "aperture",
            None => "system",
        }
    }

    /// The pieces of the machine's memory where an extent's bytes are.
    fn seen(&self, it: &Extent) -> Vec<Run> {
        let local = match &it.place {
            Place::In { segment, spot } => {
                let cpu = self.segments.get(*segment).and_then(|it| it.shape.cpu);
                let aperture =
                    self.segments.get(*segment).is_some_and(|it| it.shape.flags.aperture);
                cpu.filter(|_| !aperture).map(|it| it + spot.start())
            }
            Place::Nowhere | Place::System => None,
        };
        match local {
            Some(start) => vec![Run { start, bytes: it.bytes }],
            None => it.backing.clone(),
        }
    }

    /// Whether an extent is where the CPU does not see it, or not as it should.
    ///
    /// WINDOWS: what is cached can be locked in an aperture or in the system's memory only
    /// (documented).
    fn is_hidden(&self, it: &Extent) -> bool {
        let Some(segment) = it.segment().and_then(|it| self.segments.get(it)) else { return false };
        let flags = segment.shape.flags;
        let visible = flags.cpu_visible && segment.shape.cpu.is_some() && !it.wants.flags.cached;
        !flags.aperture && !visible
    }
}

impl World {
    /// Whether a client may lock a view so.
    fn may_lock(
        &self,
        view: Id<View>,
        extent: Id<Extent>,
        order: &LockOrder,
    ) -> Result<(), Refused> {
        let it = &self.extents[extent];
        let (subject, cached) = (view.subject(), it.wants.flags.cached);
        let Some((_, memory)) = self.memory(it.adapter) else { return Err(Refused::NoVideoMemory) };
        let all: Vec<_> = memory.segments_of(&it.wants).collect();
        if order.aperture && all.iter().all(|it| it.aperture) {
            return Err(Refused::OnlyApertures(subject));
        }
        let mapped = all.iter().any(|it| it.aperture && (it.coherent || !cached));
        if order.unsynced && !mapped {
            return Err(Refused::NotUnsynced(subject));
        }
        if !it.wants.flags.cpu_visible {
            return Err(Refused::NotForCpu(subject));
        }
        // WINDOWS: a shared allocation is locked by its creator only (documented); that it is the
        // device that counts is our reading.
        let device = self.views.get(view).map(|it| (it.device, it.allocation));
        let creator = device.and_then(|(_, it)| Some(self.allocations.get(it)?.creator));
        if device.map(|it| it.0) != creator {
            return Err(Refused::NotCreator(subject));
        }
        if it.offer.is_some() {
            return Err(Refused::Offered(subject));
        }
        // WINDOWS: what is shared has no other address, and what is locked at one is unlocked
        // before it is locked again (documented).
        let shared = self.shares(view);
        let lock = it.lock.as_ref();
        if order.alternate && shared || lock.is_some_and(|it| it.alternate || order.alternate) {
            return Err(Refused::Elsewhere(subject));
        }
        if lock.is_some_and(|it| order.aperture && !it.aperture) {
            return Err(Refused::LockedOtherwise(subject));
        }
        Ok(())
    }

    /// Whether an extent is where the CPU does not see it.
    fn is_hidden(&self, extent: Id<Extent>) -> bool {
        self.memory(self.adapter_of(extent)).is_some_and(|(extents, memory)| {
            extents.get(extent).is_some_and(|it| memory.is_hidden(it))
        })
    }

    /// A lock of an extent is not to be: the CPU does not see it, if it has no other.
    fn end_sight_of(&mut self, extent: Id<Extent>) {
        let (extents, memory) = self.memory_mut_of(extent);
        let it = &mut extents[extent];
        if let Some(lock) = it.lock.take_if(|it| it.count == 0) {
            memory.end_sight(lock.address, false);
        }
        self.rank(extent);
    }

    /// What the devices have queued that list an allocation: it may use that.
    fn work_of_listers(&self, allocation: Id<Allocation>) -> Vec<Behind> {
        let views = self.allocations.get(allocation).map(|it| it.views.as_slice());
        let views = views.unwrap_or_default().iter().filter_map(|it| self.views.get(*it));
        let listing = views.filter(|it| it.resident > 0);
        listing.flat_map(|it| self.outstanding(it.device)).collect()
    }

    /// Whether a view's allocation is a member of a shared resource.
    fn shares(&self, view: Id<View>) -> bool {
        let allocation = self.views.get(view).and_then(|it| self.allocations.get(it.allocation));
        let resource = allocation.and_then(|it| it.resource);
        resource.and_then(|it| self.resources.get(it)).is_some_and(|it| it.shared)
    }

    pub(crate) fn adapter_of(&self, extent: Id<Extent>) -> Id<Adapter> {
        self.extents[extent].adapter
    }

    /// Aims a locked extent's view at where its bytes are now. Answers where that is, if it did.
    pub(crate) fn aim(&mut self, extent: Id<Extent>) -> Option<&'static str> {
        let (extents, memory) = self.memory_mut_of(extent);
        let it = extents.get(extent).filter(|it| it.moving == 0)?;
        let lock = it.lock.as_ref()?;
        memory.ram.aim(lock.address, &memory.seen(it));
        Some(memory.place_name(it))
    }
}
