//! Renamed allocations: instances of one that a client fills in turn (WDDM 1.x).
//!
//! A client that locks an allocation and says that it does not want its bytes (`Discard`) does
//! not wait for the packets that use them: it is shown another instance, with a name of its own.
//! The driver is not asked for it. It knows one allocation, which is paged in at several places.
//!
//! # Invariants
//!
//! 1. Of the instances one is the newest. Its extent is the allocation's, and its name is the
//!    view's: an older one can be unlocked and listed by packets, and nothing else.
//! 2. What is given to a client to write into is used by no packet, and by none to come: either
//!    a newer one was listed since, so that nobody may list it again, or its client promises that
//!    no commands of its own name it (`NoExistingReference`).
//! 3. All instances end with their allocation.

use crate::allocation::Allocation;
use crate::device::Device;
use crate::device::Inside;
use crate::handle::ObjectId;
use crate::handle::{BadHandle, Handle};
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::Owner;
use crate::memory::cpu::LockOrder;
use crate::miniport::Generation;
use crate::process::Process;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::render::RenderOrder;
use crate::store::Id;
use crate::view::View;
use crate::world::World;
use flight::{Passive, Subject, What};

/// So many instances an allocation has at most, if its driver does not say.
///
/// WINDOWS: as many as are of use, and fewer where memory is short (documented); the number is
/// our decision.
const MOST: u32 = 64;

/// The instances of an allocation.
#[derive(Default)]
pub(crate) struct Renames {
    instances: Vec<Instance>,
    /// The newest of them, by its place.
    newest: usize,
    /// How often one became the newest.
    turns: u64,
    /// The turn of the newest that a packet has listed.
    listed: u64,
}

/// An instance of an allocation.
struct Instance {
    /// Its number; the allocation itself has none.
    number: Option<Id<InstanceRecord>>,
    extent: Id<Extent>,
    /// Its name, once it was given to a client.
    handle: Option<Handle>,
    /// When it became the newest; zero: never.
    turn: u64,
    /// A lock is about to show it.
    claimed: bool,
}

/// An instance that is not the allocation itself: it has a number, and handles can name it.
pub(crate) struct InstanceRecord {
    pub(crate) allocation: Id<Allocation>,
}

/// The views that a packet lists, each with the extent of its instance.
type ListedInstances = Vec<(Id<View>, Id<Extent>)>;

/// What a lock finds among the instances.
enum Pick {
    /// This one, claimed.
    Found(Id<Extent>),
    /// These are free when packets are done.
    Behind(Vec<Id<Extent>>),
    /// None, before its client has submitted its commands.
    Named,
}

impl Kernel {
    /// Finds an instance that a client may fill, and claims it: one that never was filled only if
    /// there may be more (`grows`). Waits for packets only if there may not.
    ///
    /// WINDOWS: whether it waits then or refuses is up to the memory manager (documented). It
    /// refuses if waiting would not help: its client is to submit its commands, and to say so.
    pub(crate) fn claim_instance(
        &self,
        at: &mut Passive,
        process: ProcessId,
        inside: &Inside<'_>,
        view: Id<View>,
        (order, grows): (&LockOrder, bool),
    ) -> Result<Id<Extent>, Refused> {
        let about = view.subject();
        loop {
            let behind = {
                let world = &mut *self.world.hold();
                world.views_of(process, inside.device, &[order.view])?;
                match self.pick(world, view, order.unnamed, grows) {
                    Pick::Found(extent) => {
                        let asked = What::LockAsked { hurries: false, still: order.still };
                        self.log.emit(world.seen_as(view, extent), asked);
                        return Ok(extent);
                    }
                    Pick::Named => return Err(Refused::InUse(about)),
                    Pick::Behind(extents) => extents,
                }
            };
            let free = |it: &World| {
                behind.iter().any(|extent| it.extents.get(*extent).is_none_or(|it| it.named == 0))
            };
            let what = |_: &World| format!("packets that use instances of {about}");
            if !self.wait_until(at, about, what, free) {
                return Err(Refused::Stuck);
            }
        }
    }

    fn pick(&self, world: &mut World, view: Id<View>, unnamed: bool, grows: bool) -> Pick {
        let Some(number) = world.views.get(view).map(|it| it.allocation) else {
            return Pick::Named;
        };
        let handle = world.views.get(view).map(|it| it.handle);
        let it = &mut world.allocations[number];
        let Some(extent) = it.extent else { return Pick::Named };
        let renames = it.renames.get_or_insert_with(|| Box::new(Renames::first(extent, handle)));
        let extents = &world.extents;
        let quiet = |it: &Instance| {
            let unlocked = |it: &Extent| it.lock.is_none() && it.offer.is_none() && !it.ending;
            !it.claimed && (grows || it.turn > 0) && extents.get(it.extent).is_some_and(unlocked)
        };
        let listed = renames.listed;
        let closed = |it: &Instance| unnamed || it.turn == 0 || it.turn < listed;
        let used = |it: &Instance| extents.get(it.extent).is_some_and(|it| it.named > 0);
        let may = |it: &(usize, &Instance)| quiet(it.1) && closed(it.1) && !used(it.1);
        let newest = renames.newest;
        let free = renames.instances.iter().enumerate().filter(may);
        // The one it has, if it may; else the one that was given the longest time ago.
        let free = free.min_by_key(|(place, it)| (*place != newest, it.turn)).map(|it| it.0);
        if let Some(it) = free.and_then(|it| renames.instances.get_mut(it)) {
            it.claimed = true;
            return Pick::Found(it.extent);
        }
        let most = extents.get(extent).map_or(0, |it| it.wants.instances);
        let most = if most == 0 { MOST } else { most };
        if grows && renames.instances.len() < most as usize {
            return self.make_instance(world, number, view, extent);
        }
        let waits = |it: &&Instance| quiet(it) && closed(it) && used(it);
        let behind: Vec<Id<Extent>> =
            renames.instances.iter().filter(waits).map(|it| it.extent).collect();
        if behind.is_empty() { Pick::Named } else { Pick::Behind(behind) }
    }

    /// Makes an instance like the newest, without a place and without a name.
    fn make_instance(
        &self,
        world: &mut World,
        number: Id<Allocation>,
        view: Id<View>,
        like: Id<Extent>,
    ) -> Pick {
        let of = &world.extents[like];
        let (adapter, word, bytes) = (of.adapter, of.word, of.bytes);
        let (alignment, wants, priority) = (of.alignment, of.wants, of.priority);
        let instance = world.instances.insert(InstanceRecord { allocation: number });
        let owner = Owner::Instance(instance);
        let extent = Extent::new(adapter, owner, word, bytes, alignment, wants);
        let extent = world.extents.insert(Extent { priority, ..extent });
        let it = &mut world.allocations[number];
        let renames = it.renames.get_or_insert_default();
        renames.instances.push(Instance {
            number: Some(instance),
            extent,
            handle: None,
            turn: 0,
            claimed: true,
        });
        let made = What::InstanceMade {
            of: number.subject(),
            view: view.subject(),
            word: self.log.word(word),
            count: u32::try_from(renames.instances.len()).unwrap_or(u32::MAX),
        };
        self.log.emit(owner.subject(), made);
        self.say_wanted(world, extent);
        Pick::Found(extent)
    }

    /// An instance that was claimed is the newest from here on, and has a name. Answers it.
    pub(crate) fn take_instance(
        &self,
        world: &mut World,
        process: ProcessId,
        view: Id<View>,
        extent: Id<Extent>,
        unnamed: bool,
    ) -> Result<Handle, Refused> {
        let gone = Refused::Removed(view.subject());
        let number = world.views.get(view).map(|it| it.allocation).ok_or(gone.clone())?;
        let it = world.allocations.get(number).ok_or(gone.clone())?;
        let renames = it.renames.as_ref().ok_or(gone.clone())?;
        let place = renames.place_of(extent).ok_or(gone.clone())?;
        let it = renames.instances.get(place).ok_or(gone.clone())?;
        let (instance, mut handle, same) = (it.number, it.handle, place == renames.newest);
        if let (None, Some(instance)) = (handle, instance) {
            let name = self.reserve(world, process.0)?;
            handle = Some(name.handle());
            self.publish(world, process.0, name, ObjectId::Instance(instance));
        }
        let it = world.allocations.get_mut(number).ok_or(gone.clone())?;
        let before = it.extent.replace(extent);
        let renames = it.renames.as_mut().ok_or(gone.clone())?;
        let turn = if same { renames.turns } else { renames.turns + 1 };
        (renames.newest, renames.turns) = (place, turn);
        if let Some(it) = renames.instances.get_mut(place) {
            (it.handle, it.turn) = (handle, turn);
        }
        if unnamed {
            renames.listed = turn; // As its client promised: nothing older comes.
        }
        if let Some(it) = world.views.get_mut(view) {
            it.retired = instance.is_some();
        }
        if !same {
            let owner = number.subject();
            let to = instance.map_or(owner, Id::subject);
            self.log.emit(view.subject(), What::LockRenamed { to, turn });
            // What is said of an allocation is said of the newest.
            let priority = before.and_then(|it| world.extents.get(it)).map(|it| it.priority);
            if let (Some(priority), Some(it)) = (priority, world.extents.get_mut(extent)) {
                it.priority = priority;
            }
            if let Some(before) = before {
                world.rank(before);
            }
        }
        handle.ok_or(gone)
    }

    /// Whoever claimed an instance has it, or gives it back. Answers whether it never was filled.
    pub(crate) fn unclaim(&self, view: Id<View>, extent: Id<Extent>) -> bool {
        let world = &mut *self.world.hold();
        let number = world.views[view].allocation;
        let renames = world.allocations.get_mut(number).and_then(|it| it.renames.as_mut());
        let it = renames.and_then(|it| it.instances.iter_mut().find(|it| it.extent == extent));
        it.is_some_and(|it| {
            it.claimed = false;
            it.turn == 0
        })
    }

    /// Closes the names of instances: their view ends.
    pub(crate) fn unname_instances(&self, world: &mut World, process: Id<Process>, view: Id<View>) {
        let allocation = world.views.get(view).and_then(|it| world.allocations.get(it.allocation));
        let renames = allocation.and_then(|it| it.renames.as_ref());
        let named = |it: &Instance| it.handle.filter(|_| it.number.is_some());
        let names: Vec<Handle> =
            renames.map(|it| it.instances.iter().filter_map(named).collect()).unwrap_or_default();
        for handle in names {
            self.unname(world, process, handle);
        }
    }

    /// Packets that name these extents have come or gone.
    pub(crate) fn count_named(&self, world: &mut World, extents: &[Id<Extent>], come: bool) {
        let mut free = false;
        for extent in extents {
            // What a packet lists may have ended before it.
            let Some(it) = world.extents.get_mut(*extent) else { continue };
            it.named = if come { it.named + 1 } else { it.named.saturating_sub(1) };
            let (over, owner) = (it.named == 0, it.owner);
            // A lock may wait for it.
            free |= over && !world.waiting.is_empty() && world.renamed(owner).is_some();
        }
        if free {
            self.wake(world);
        }
    }
}

impl Renames {
    /// The allocation itself is the first.
    fn first(extent: Id<Extent>, handle: Option<Handle>) -> Self {
        let first = Instance { number: None, extent, handle, turn: 1, claimed: false };
        Self { instances: vec![first], newest: 0, turns: 1, listed: 0 }
    }

    fn place_of(&self, extent: Id<Extent>) -> Option<usize> {
        self.instances.iter().position(|it| it.extent == extent)
    }

    fn place_of_number(&self, number: Option<Id<InstanceRecord>>) -> Option<usize> {
        self.instances.iter().position(|it| it.number == number)
    }
}

impl Allocation {
    /// All its memory: what it has, and what older instances have.
    pub(crate) fn extents(&self) -> Vec<Id<Extent>> {
        let all = self.renames.iter().flat_map(|it| it.instances.iter().map(|it| it.extent));
        let others = all.filter(|it| Some(*it) != self.extent);
        self.extent.into_iter().chain(others).collect()
    }

    /// The same, taken from it.
    pub(crate) fn take_extents(&mut self) -> Vec<Id<Extent>> {
        let all = self.extents();
        (self.extent, self.renames) = (None, None);
        all
    }
}

impl World {
    /// Whether a lock that discards gives another instance of a view's allocation.
    ///
    /// WINDOWS: not of what is pinned, a primary or shared (documented). From WDDM 2 on nothing
    /// is renamed (documented): its drivers do so themselves.
    pub(crate) fn may_rename(&self, view: Id<View>) -> bool {
        let it = &self.views[view];
        let it = &self.allocations[it.allocation];
        let extent = it.extent.and_then(|it| self.extents.get(it));
        let pinned = extent.is_none_or(|it| it.wants.flags.pinned);
        let shared = it.resource.and_then(|it| self.resources.get(it)).is_some_and(|it| it.shared);
        let on = self.adapters.get(it.adapter);
        let first = on.is_some_and(|it| it.driver.generation == Generation::One);
        first && !pinned && !it.primary && !shared && self.mmu(it.adapter).is_none()
    }

    /// The allocation that an extent is the memory of, or of an instance of which.
    pub(crate) fn allocation_of(&self, owner: Owner) -> Option<Id<Allocation>> {
        match owner {
            Owner::Allocation(allocation) => Some(allocation),
            Owner::Instance(instance) => Some(self.instances.get(instance)?.allocation),
            Owner::Saved(_) | Owner::Table(_) => None,
        }
    }

    fn renamed(&self, owner: Owner) -> Option<&Renames> {
        self.allocations.get(self.allocation_of(owner)?)?.renames.as_deref()
    }

    /// The view that a name leads to, and which instance of its allocation, by its place: none
    /// where there are no others.
    fn instance_named(&self, named: ObjectId) -> Option<(Id<View>, Option<usize>)> {
        let (instance, allocation) = match named {
            ObjectId::View(view) => (None, self.views.get(view)?.allocation),
            ObjectId::Instance(instance) => {
                (Some(instance), self.instances.get(instance)?.allocation)
            }
            _ => return None,
        };
        let it = self.allocations.get(allocation)?;
        let place = it.renames.as_ref().and_then(|it| it.place_of_number(instance));
        // What is renamed is not shared, so that it has one view.
        let view = match named {
            ObjectId::View(view) => view,
            _ => it.views.first().copied()?,
        };
        Some((view, place))
    }

    /// What a name means to a driver: an instance is what it knows as the view.
    pub(crate) fn as_view(&self, named: ObjectId) -> ObjectId {
        match self.instance_named(named) {
            Some((view, _)) => ObjectId::View(view),
            None => named,
        }
    }

    /// A client's name of a view: of its newest instance.
    pub(crate) fn newest_name(&self, view: Id<View>) -> Option<Handle> {
        let renames = self.renames_of(view);
        let newest = renames.and_then(|it| it.instances.get(it.newest)?.handle);
        newest.or_else(|| self.views.get(view).map(|it| it.handle))
    }

    /// The view that a client's name leads to, if that is the name of its newest instance.
    pub(crate) fn newest_view(&self, named: ObjectId) -> Result<Id<View>, BadHandle> {
        let retired = || Err(BadHandle::Retired(self.as_view(named).subject()));
        match named {
            ObjectId::View(view) if self.views[view].retired => retired(),
            ObjectId::View(view) => Ok(view),
            ObjectId::Instance(_) => {
                let (view, place) = self.instance_named(named).ok_or(BadHandle::Unknown)?;
                let newest = self.renames_of(view).map(|it| it.newest);
                if newest == place { Ok(view) } else { retired() }
            }
            _ => Err(BadHandle::WrongKind(named.subject())),
        }
    }

    /// The views that a packet's list names, each with its instance: those that may be listed.
    ///
    /// WINDOWS: once a newer instance is referenced, an older one may not be any more, neither by
    /// a later packet nor behind it in the patch locations of one (documented).
    pub(crate) fn listed_instances(
        &self,
        process: ProcessId,
        device: Id<Device>,
        order: &RenderOrder,
    ) -> Result<ListedInstances, Refused> {
        let mut all = Vec::with_capacity(order.list.len());
        let mut turns = Vec::with_capacity(order.list.len());
        for (place, (handle, _)) in order.list.iter().enumerate() {
            let argument = Argument::Allocation(place);
            let (view, extent) = self.instance_of(process, device, argument, *handle)?;
            let renames = self.renames_of(view);
            let of = renames.and_then(|it| it.instances.get(it.place_of(extent)?));
            let turn = of.map_or(0, |it| it.turn);
            if renames.is_some_and(|it| turn < it.listed) {
                return Err(Refused::Older { handle: *handle, view: view.subject() });
            }
            all.push((view, extent));
            turns.push(turn);
        }
        let mut behind: Vec<(Id<View>, u64)> = Vec::new();
        for it in &order.patches {
            let place = it.allocation as usize;
            let (Some((view, _)), Some(turn)) = (all.get(place), turns.get(place)) else {
                continue;
            };
            match behind.iter_mut().find(|it| it.0 == *view) {
                Some((_, last)) if turn < last => {
                    let handle = order.list.get(place).map(|it| it.0).unwrap_or_default();
                    return Err(Refused::Older { handle, view: view.subject() });
                }
                Some((_, last)) => *last = *turn,
                None => behind.push((*view, *turn)),
            }
        }
        Ok(all)
    }

    /// Packets that list these are taken: older instances may not be listed any more.
    pub(crate) fn keep_listed(&mut self, uses: impl Iterator<Item = (Id<View>, Id<Extent>)>) {
        for (view, extent) in uses {
            let number = self.views[view].allocation;
            let it = self.allocations.get_mut(number).and_then(|it| it.renames.as_mut());
            let Some(it) = it else { continue };
            let place = it.place_of(extent);
            let turn = place.and_then(|place| it.instances.get(place)).map_or(0, |it| it.turn);
            it.listed = it.listed.max(turn);
        }
    }

    /// A view of a device, with the extent of the instance that a client's handle names: also of
    /// an older one.
    pub(crate) fn instance_of(
        &self,
        process: ProcessId,
        device: Id<Device>,
        argument: Argument,
        handle: Handle,
    ) -> Result<(Id<View>, Id<Extent>), Refused> {
        let named = self.found(process, argument, handle)?;
        let wrong =
            Refused::Handle { argument, handle, why: BadHandle::WrongKind(named.subject()) };
        let (view, place) = self.instance_named(named).ok_or(wrong)?;
        let owner = self.views[view].device;
        if owner != device {
            let owner = owner.subject();
            return Err(Refused::OtherDevice { argument, handle, owner });
        }
        let of = place.and_then(|place| self.renames_of(view)?.instances.get(place));
        let extent = of.map(|it| it.extent).or_else(|| self.extent_of(view));
        Ok((view, extent.ok_or(Refused::NoVideoMemory)?))
    }

    fn renames_of(&self, view: Id<View>) -> Option<&Renames> {
        self.allocations.get(self.views.get(view)?.allocation)?.renames.as_deref()
    }

    /// What events say that locks are of: the view, or an instance that is not the first.
    pub(crate) fn seen_as(&self, view: Id<View>, extent: Id<Extent>) -> Subject {
        match self.extents[extent].owner {
            Owner::Instance(instance) => instance.subject(),
            _ => view.subject(),
        }
    }

    /// Every instance's extent of a view that is locked.
    pub(crate) fn locked_extents(&self, view: Id<View>) -> Vec<Id<Extent>> {
        let allocation = self.views.get(view).and_then(|it| self.allocations.get(it.allocation));
        let locked = |it: &Id<Extent>| self.extents.get(*it).is_some_and(|it| it.lock.is_some());
        allocation.map(|it| it.extents().into_iter().filter(locked).collect()).unwrap_or_default()
    }

    /// Checks that the newest instance is the one an allocation has.
    pub(crate) fn validate_instances(
        &self,
        number: Id<Allocation>,
        it: &Allocation,
    ) -> Result<(), String> {
        let Some(renames) = &it.renames else { return Ok(()) };
        let newest = renames.instances.get(renames.newest);
        if newest.map(|it| it.extent) != it.extent {
            return Err(format!("{number} is not its newest instance"));
        }
        let there = |it: &Instance| {
            let named = it
                .number
                .is_none_or(|it| self.instances.get(it).is_some_and(|it| it.allocation == number));
            named && self.extents.get(it.extent).is_some()
        };
        if renames.instances.iter().all(there) && renames.listed <= renames.turns {
            return Ok(());
        }
        Err(format!("an instance of {number} is gone, or was listed before its turn"))
    }
}
