//! How views are closed and allocations destroyed: the calls of the driver at an end.
//!
//! # Invariants
//!
//! 1. Views of a device that end together are closed in one call.
//! 2. Members of a resource are destroyed in one call; an allocation alone in a call of its own.
//! 3. A resource goes with the last of its members, once no device has a view of it. Its word
//!    is taken out, lent or moved, and put back under the resource's key.

use crate::allocation::Allocation;
use crate::ddi::{Driver, For};
use crate::device::Device;
use crate::gate::Pass;
use crate::kernel::Kernel;
use crate::lock::Held;
use crate::miniport::{Blank, Doomed, DriverAllocation, DriverResource, DriverView, Fate, Token};
use crate::process::Process;
use crate::resource::Resource;
use crate::resource::ResourceView;
use crate::retire::Retirement;
use crate::store::Id;
use crate::store::IdList;
use crate::view::View;
use crate::world::World;
use flight::{Log, Passive, RuleId, Subject, What, Who};
use smallvec::SmallVec;

/// Who ends things: which driver is called, under which pass, on whose behalf.
pub(crate) struct By<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) pass: &'a Pass<'a>,
    /// The caller's process; none when the system does it.
    pub(crate) process: Option<Id<Process>>,
}

/// Drivers' words, nearly always one.
type Words = SmallVec<[usize; 2]>;

impl Kernel {
    /// Closes the views of an idle retirement and ends what they were the last views of. Comes
    /// back with the world held.
    pub(crate) fn end<'k>(
        &'k self,
        at: &mut Passive,
        by: &By<'_>,
        mut world: Held<'k, World>,
        number: Id<Retirement>,
    ) -> Held<'k, World> {
        let it = &mut world.retirements[number];
        let (device, resource_view) = (it.device, it.resource_view);
        let views = std::mem::take(&mut it.views);
        #[cfg(shuttle)]
        let world = {
            drop(world);
            self.destroy_too_early(at, by, &views);
            self.world.hold()
        };
        let (orphans, mut world) = self.close_views(at, by, world, device, &views);
        let doomed = resource_view.and_then(|it| self.close_resource_view(&mut world, it));
        let mut world = self.destroy_orphans(at, by, world, &orphans, doomed);
        self.log.emit(number.subject(), What::RetireDone {});
        let over = world.retirements.take(number);
        self.leave_device(&mut world, device);
        if let Some(ticket) = over.and_then(|it| it.waiter) {
            self.ring(&ticket);
        }
        world
    }

    /// A retirement of a device is done; whoever waits for the last one looks again.
    fn leave_device(&self, world: &mut World, device: Id<Device>) {
        world.devices[device].retiring -= 1;
        self.wake(world);
    }

    /// Has the driver close views of a device, in one call; answers the allocations that no
    /// device has open any more, with the world held again. Those are unplaced first.
    pub(crate) fn close_views<'k>(
        &'k self,
        at: &mut Passive,
        by: &By<'_>,
        mut world: Held<'k, World>,
        device: Id<Device>,
        views: &[Id<View>],
    ) -> (IdList<Allocation>, Held<'k, World>) {
        let mut closing = IdList::from(views);
        closing.sort_unstable();
        self.unplace(&mut world, &closing, views);
        let take = |it: &Id<View>| world.views.get_mut(*it).and_then(|it| it.word.take());
        let mut words: Vec<DriverView> = views.iter().filter_map(take).collect();
        let lent = world.devices.get(device).and_then(|it| it.word.clone());
        let watched = world.surviving(device, &closing, views);
        drop(world);
        let given: Words = words.iter().map(Token::word).collect();
        if let (Some(lent), false) = (&lent, words.is_empty()) {
            let batch = u32::try_from(views.len()).unwrap_or(u32::MAX);
            let carries = |log: &Log| {
                let device = device.subject();
                for view in views {
                    log.emit(view.subject(), What::DdiCloses { device, batch });
                }
            };
            let whom = For { process: by.process, carries: &carries };
            // WINDOWS: after a refusal they are closed all the same (our decision).
            let _ = by.driver.close_allocations(at, by.pass, whom, lent, words.drain(..));
            self.judge_references(by.driver, lent.word(), device.subject(), &watched);
        }
        drop(lent); // Before the device learns that its views are gone: it needs the only one.
        let mut world = self.world.hold();
        for (view, word) in views.iter().zip(given) {
            self.log.emit(view.subject(), What::ViewClosed {});
            self.end_word(word, view.subject(), false);
        }
        let orphans = views.iter().filter_map(|it| world.remove_view(*it)).collect();
        (orphans, world)
    }

    /// Allocations whose last view is idle give their memory back. `closing` are the views by
    /// number.
    fn unplace(&self, world: &mut World, closing: &[Id<View>], views: &[Id<View>]) {
        for view in views {
            let number = world.views[*view].allocation;
            let it = &mut world.allocations[number];
            if !it.unplaced && it.views.iter().all(|it| closing.binary_search(it).is_ok()) {
                it.unplaced = true;
                for extent in it.take_extents() {
                    self.release_extent(world, extent);
                }
                self.log.emit(number.subject(), What::AllocationUnplaced {});
            }
        }
    }

    /// After a close, the allocation's data has no business with the device.
    fn judge_references(
        &self,
        driver: &Driver,
        device_word: usize,
        device: Subject,
        allocations: &[(Id<Allocation>, usize)],
    ) {
        for (number, word) in allocations {
            let about = number.subject();
            let broken = driver.pool.refers(*word, device_word).then(|| {
                format!(
                    "the driver's data of {about} still points at its data of {device}, \
                         which has closed it: an allocation belongs to the adapter"
                )
            });
            let place = "DxgkDdiCloseAllocation.hDevice";
            self.log.judge(RuleId::KMD_ALLOC_009, Who::Driver, about, place, broken);
        }
    }

    /// A device's view of a resource is closed. Answers the resource if that was the last.
    pub(crate) fn close_resource_view(
        &self,
        world: &mut World,
        view: Id<ResourceView>,
    ) -> Option<Id<Resource>> {
        let it = world.resource_views.remove(view);
        world.devices[it.device].resource_views.remove(&view);
        self.log.emit(view.subject(), What::ResourceViewClosed {});
        let resource = &mut world.resources[it.resource];
        resource.views.remove(&view);
        resource.views.is_empty().then_some(it.resource)
    }

    /// Has the driver destroy allocations that nobody has open: members of one resource in one
    /// call, others in a call each. `ended` is a resource that may go now, with them or alone.
    ///
    /// Comes back with the world held, as those below do.
    pub(crate) fn destroy_orphans<'k>(
        &'k self,
        at: &mut Passive,
        by: &By<'_>,
        mut world: Held<'k, World>,
        orphans: &[Id<Allocation>],
        ended: Option<Id<Resource>>,
    ) -> Held<'k, World> {
        let resource = |it: &Id<Allocation>| world.allocations.get(*it).and_then(|it| it.resource);
        let home = ended.or_else(|| orphans.iter().find_map(resource));
        if let Some(resource) = home {
            return self.destroy_members(at, by, world, resource, orphans);
        }
        for allocation in orphans {
            world = self.destroy_one_call(at, by, world, &[*allocation], None);
        }
        world
    }

    /// Destroys members of a resource; with the last of them the resource, if no device has a
    /// view of it.
    fn destroy_members<'k>(
        &'k self,
        at: &mut Passive,
        by: &By<'_>,
        mut world: Held<'k, World>,
        resource: Id<Resource>,
        members: &[Id<Allocation>],
    ) -> Held<'k, World> {
        // Another thread may have ended it meanwhile.
        let Some(it) = world.resources.get_mut(resource) else { return world };
        // Those given are members, so all of them are when there are as many.
        let last = it.members.len() == members.len();
        let goes = it.views.is_empty() && last;
        if members.is_empty() && !goes {
            return world; // Members that a list destroyed before hold it back.
        }
        let Some(word) = it.word.take() else { return world };
        self.destroy_one_call(at, by, world, members, Some((resource, word, goes)))
    }

    /// One call of `DxgkDdiDestroyAllocation`.
    fn destroy_one_call<'k>(
        &'k self,
        at: &mut Passive,
        by: &By<'_>,
        mut world: Held<'k, World>,
        allocations: &[Id<Allocation>],
        home: Option<(Id<Resource>, DriverResource, bool)>,
    ) -> Held<'k, World> {
        let take =
            |it: &Id<Allocation>| world.allocations.get_mut(*it).and_then(|it| it.word.take());
        let mut tokens: Vec<DriverAllocation> = allocations.iter().filter_map(take).collect();
        drop(world);
        let words: Words = tokens.iter().map(Token::word).collect();
        let alone = allocations.is_empty();
        let said = home.as_ref().map(|(number, word, goes)| (*number, word.word(), *goes));
        let carries = |log: &Log| {
            for allocation in allocations {
                let given = What::DdiDestroys { adapter: by.driver.adapter.subject() };
                log.emit(allocation.subject(), given);
            }
            if let Some((resource, word, goes)) = said {
                let carried = What::DdiResource { word: log.word(word), goes, alone };
                log.emit(resource.subject(), carried);
            }
        };
        let call = |at: &mut Passive, tokens: &mut Vec<_>, resource: Option<Fate<'_>>| {
            let doomed = Doomed { allocations: tokens.drain(..), resource };
            by.driver.destroy_allocations(at, by.pass, &carries, doomed)
        };
        // WINDOWS: after a refusal they are gone all the same, and the driver does not get
        // them again (our decision; observation is silent).
        let kept = match home {
            None => {
                let _ = call(at, &mut tokens, None);
                None
            }
            Some((_, word, true)) => {
                let _ = call(at, &mut tokens, Some(Fate::Goes(word)));
                None
            }
            Some((resource, word, false)) => {
                let changed = call(at, &mut tokens, Some(Fate::Stays(&word, Blank::new())));
                Some((resource, changed.ok().flatten().unwrap_or(word)))
            }
        };
        let mut world = self.world.hold();
        for (allocation, word) in allocations.iter().zip(words) {
            // One that was never opened has memory still.
            let extents = world.allocations.get_mut(*allocation).map(Allocation::take_extents);
            for extent in extents.unwrap_or_default() {
                self.release_extent(&mut world, extent);
            }
            world.remove_allocation(*allocation);
            let subject = allocation.subject();
            self.log.emit(subject, What::AllocationGone {});
            self.end_word(word, subject, false);
        }
        match (said, kept) {
            (Some((resource, old, _)), Some((_, word))) => {
                self.keep_word(&mut world, resource, old, word);
            }
            (Some((resource, word, true)), None) => {
                world.resources.take(resource);
                let subject = resource.subject();
                self.log.emit(subject, What::ResourceGone {});
                self.end_word(word, subject, alone);
            }
            _ => (),
        }
        world
    }

    /// Puts a resource's word back; a changed one is used from then on.
    pub(crate) fn keep_word(
        &self,
        world: &mut World,
        resource: Id<Resource>,
        old: usize,
        word: DriverResource,
    ) {
        let subject = resource.subject();
        if word.word() != old {
            self.end_word(old, subject, false);
            self.give_word(word.word(), subject);
        }
        if let Some(it) = world.resources.get_mut(resource) {
            it.said = word.word();
            it.word = Some(word);
        }
    }
}

impl World {
    /// The driver's words for the allocations that live on for other devices, when these views
    /// of a device are closed.
    fn surviving(
        &self,
        device: Id<Device>,
        closing: &[Id<View>],
        views: &[Id<View>],
    ) -> Vec<(Id<Allocation>, usize)> {
        let word = |it: &Id<View>| {
            let number = self.views.get(*it)?.allocation;
            let allocation = self.allocations.get(number)?;
            let stays = |it: &&Id<View>| closing.binary_search(it).is_err();
            let mut left = allocation.views.iter().filter(stays).peekable();
            let lives = left.peek().is_some();
            let mine = left.any(|it| self.views.get(*it).is_some_and(|it| it.device == device));
            let word = allocation.word.as_ref()?.word();
            (lives && !mine).then_some((number, word))
        };
        views.iter().filter_map(word).collect()
    }

    /// Removes a closed view everywhere; answers its allocation if that was the last view.
    pub(crate) fn remove_view(&mut self, number: Id<View>) -> Option<Id<Allocation>> {
        let view = self.views.take(number)?;
        self.devices[view.device].loose.remove(&number);
        if let Some(it) = view.part_of.and_then(|it| self.resource_views.get_mut(it)) {
            it.views.remove(&number);
        }
        let allocation = self.allocations.get_mut(view.allocation)?;
        allocation.views.retain(|it| *it != number);
        allocation.between = allocation.views.is_empty();
        allocation.between.then_some(view.allocation)
    }

    fn remove_allocation(&mut self, number: Id<Allocation>) {
        let gone = self.allocations.take(number);
        let home = gone.and_then(|it| it.resource);
        if let Some(it) = home.and_then(|it| self.resources.get_mut(it)) {
            it.members.remove(&number);
        }
    }
}
