//! Building what a driver described: objects entered, views opened, names published.
//!
//! # Invariants
//!
//! 1. A view whose driver is opening it is `Building`: its name is promised, so the driver may
//!    use it in callbacks, and a client may not.
//! 2. `finish` makes everything live and publishes all names under one lock, or nothing.

use crate::allocation::Allocation;
use crate::create::{CreateOrder, Made, Making, Place, Sharing, lengths};
use crate::ddi::For;
use crate::device::Inside;
use crate::end::By;
use crate::gate::Pass;
use crate::handle::ObjectId;
use crate::handle::{Handle, Reservations, Reserved};
use crate::kernel::Kernel;
use crate::lock::Held;
use crate::memory::Extent;
use crate::memory::Owner;
use crate::miniport::{Blank, Born, DriverResource, Generation, Opening, ViewBirth};
use crate::process::Process;
use crate::refused::Refused;
use crate::resource::{Resource, ResourceView};
use crate::store::Id;
use crate::store::IdList;
use crate::view::{Stage, View};
use crate::world::World;
use flight::{Hex, Log, Passive, Subject, What};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// What has been built so far.
#[derive(Default)]
pub(crate) struct Built {
    pub(crate) place: Option<Place>,
    pub(crate) allocations: IdList<Allocation>,
    pub(crate) views: IdList<View>,
    /// The names of the views, promised.
    pub(crate) handles: SmallVec<[Handle; 4]>,
}

impl Kernel {
    /// Enters what the driver described.
    pub(crate) fn build(
        &self,
        world: &mut World,
        making: &Making<'_>,
        order: &CreateOrder,
        born: Born,
        (given, seen): (&[Hex], &[Hex]),
    ) -> Built {
        let Making { inside, joins, .. } = *making;
        let mut built = Built { place: joins, ..Built::default() };
        if joins.is_none() && order.new_resource {
            built.place = Some(self.build_resource(world, inside, order, born.resource));
        }
        let home = built.place.map(|it| it.resource);
        for (((word, shape), private), (given, seen)) in
            born.allocations.into_iter().zip(&order.allocations).zip(given.iter().zip(seen))
        {
            let number = world.allocations.reserve();
            let what = What::AllocationCreated {
                adapter: inside.driver.adapter.subject(),
                device: inside.subject(),
                resource: home.map(Id::subject),
                size: shape.size,
                pitch_size: shape.pitch_aligned_size,
                alignment: shape.alignment,
                given: *given,
                seen: *seen,
            };
            let subject = number.subject();
            self.log.emit(subject, what);
            self.give_word(word.word(), subject);
            let given = word.word();
            let extent = world.memory(inside.adapter).is_some().then(|| {
                let (size, alignment, wants) = (shape.size, shape.alignment, shape.wants);
                let owner = Owner::Allocation(number);
                Extent::new(inside.adapter, owner, given, size, alignment, wants)
            });
            let extent = extent.map(|it| world.extents.insert(it));
            if let Some(extent) = extent {
                self.say_wanted(world, extent);
                let most = shape.wants.instances;
                if most > 0 && inside.driver.generation == Generation::One {
                    self.log.emit(subject, What::AllocationLimited { most });
                }
            }
            let allocation = Allocation {
                adapter: inside.adapter,
                creator: inside.device,
                resource: home,
                word: Some(word),
                size: shape.size,
                primary: order.primaries.contains(&built.allocations.len()),
                capture: shape.wants.flags.capture,
                extent,
                renames: None,
                private: private.clone(),
                views: IdList::new(),
                between: true,
                unplaced: false,
            };
            world.allocations.fill(number, allocation);
            if let Some(it) = home.and_then(|it| world.resources.get_mut(it)) {
                it.members.insert(number);
            }
            built.allocations.push(number);
        }
        built
    }

    fn build_resource(
        &self,
        world: &mut World,
        inside: &Inside<'_>,
        order: &CreateOrder,
        word: Option<DriverResource>,
    ) -> Place {
        // A driver that gives no word has given the NULL word.
        let word = word.unwrap_or_else(|| Blank::new().fill(0));
        let given = word.word();
        let (shared, sharing) = (order.sharing != Sharing::None, order.sharing.name().into());
        let resource = world.resources.insert(Resource {
            adapter: inside.adapter,
            word: Some(word),
            said: given,
            shared,
            global: None,
            private: order.private.clone(),
            standard: order.standard.is_some(),
            runtime: order.runtime.clone(),
            members: BTreeSet::new(),
            views: BTreeSet::new(),
        });
        let subject = resource.subject();
        let (adapter, device) = (inside.driver.adapter, inside.subject());
        self.log
            .emit(subject, What::ResourceCreated { adapter: adapter.subject(), device, sharing });
        self.give_word(given, subject);
        self.build_view(world, inside, resource)
    }

    /// Enters a device's view of a resource, without a name yet. The resource lives for it.
    pub(crate) fn build_view(
        &self,
        world: &mut World,
        inside: &Inside<'_>,
        resource: Id<Resource>,
    ) -> Place {
        let view = world.resource_views.insert(ResourceView {
            resource,
            device: inside.device,
            handle: Handle(0),
            named: false,
            views: BTreeSet::new(),
        });
        world.resources[resource].views.insert(view);
        let (resource_subject, device) = (resource.subject(), inside.subject());
        let opened = What::ResourceViewOpened { resource: resource_subject, device };
        self.log.emit(view.subject(), opened);
        Place { resource, view, new: true }
    }

    /// Has the driver open the views, and comes back with the world held.
    pub(crate) fn open<'k>(
        &'k self,
        at: &mut Passive,
        pass: &Pass<'_>,
        making: &Making<'_>,
        order: &mut CreateOrder,
        built: &Built,
    ) -> Result<Held<'k, World>, Refused> {
        let inside = making.inside;
        let device = inside.word()?;
        let lengths = lengths(&order.allocations);
        let birth = |(private, handle)| ViewBirth { handle, private, word: Blank::new() };
        let views = order.allocations.iter_mut().zip(built.handles.iter().copied());
        let views = views.map(birth).collect();
        let create = making.opens.is_none();
        let opening = Opening { device, views, create, private: &order.private };
        let batch = u32::try_from(built.views.len()).unwrap_or(u32::MAX);
        let carries = |log: &Log| {
            let (device, resource) = (inside.subject(), built.place.map(|it| it.resource));
            let resource = resource.map(Id::subject);
            for view in &built.views {
                let opens = What::DdiOpens { device, resource, create, batch };
                log.emit(view.subject(), opens);
            }
        };
        let whom = For { process: Some(making.process), carries: &carries };
        let words = inside.driver.open_allocations(at, pass, whom, opening);
        for (private, length) in order.allocations.iter_mut().zip(lengths) {
            private.resize(length, 0); // A driver edits bytes; it does not change how many.
        }
        let mut words = words?.into_iter();
        let mut world = self.world.hold();
        for view in &built.views {
            let subject = view.subject();
            let word = words.next().unwrap_or_else(|| Blank::new().fill(0));
            let it = &mut world.views[*view];
            let opened = What::ViewOpened {
                allocation: it.allocation.subject(),
                device: inside.subject(),
                resource: built.place.map(|it| it.view.subject()),
                answered: word.word() != 0,
            };
            self.log.emit(subject, opened);
            self.give_word(word.word(), subject);
            it.word = Some(word);
        }
        Ok(world)
    }

    /// Makes it all live and publishes the names, all at once, if what it belongs to is still
    /// there.
    pub(crate) fn finish(
        &self,
        world: &mut World,
        making: &Making<'_>,
        built: &Built,
        order: &mut CreateOrder,
        names: &mut Reservations,
    ) -> Result<Made, Refused> {
        still_there(world, making)?;
        let create = making.opens.is_none();
        let mut global = None;
        if let Some(place) = built.place.filter(|it| it.new) {
            if order.sharing != Sharing::None {
                let total = order.allocations.iter().map(|it| it.len() as u64).sum();
                let kept = What::ShareKept { runtime: order.runtime.len() as u64, total };
                self.log.emit(place.resource.subject(), kept);
            }
            if order.sharing == Sharing::Global {
                let name = world.shares.reserve()?;
                let of = place.resource.subject();
                let handle = world.shares.publish(name, place.resource.into());
                let shared = What::NameShared { handle: Hex(handle.0), of };
                self.log.emit(making.process.subject(), shared);
                global = Some(handle);
            }
            if let Some(it) = world.resources.get_mut(place.resource) {
                it.global = it.global.or(global);
            }
            if let Some(it) = world.resource_views.get_mut(place.view) {
                it.named = true;
                let device = it.device;
                world.devices[device].resource_views.insert(place.view);
            }
        }
        for (view, private) in built.views.iter().zip(&order.allocations) {
            let it = &mut world.views[*view];
            it.stage = Stage::Live;
            let (allocation, device) = (it.allocation, it.device);
            if let Some(it) = built.place.and_then(|it| world.resource_views.get_mut(it.view)) {
                it.views.insert(*view);
            } else if let Some(it) = world.devices.get_mut(device) {
                it.loose.insert(*view);
            }
            // What a plain open did to its copy stays its own.
            if let Some(it) = world.allocations.get_mut(allocation).filter(|_| create) {
                it.private.clone_from(private);
                it.between = false;
            }
        }
        let resource = built.place.and_then(|it| world.resource_views.get(it.view));
        let resource = resource.map(|it| it.handle);
        let skip = names.len() - built.views.len();
        let allocations = names[skip..].iter().map(Reserved::handle).collect();
        let new = built.place.filter(|it| it.new).map(|it| ObjectId::from(it.view));
        let views = built.views.iter().map(|view| ObjectId::from(*view));
        for (name, to) in names.drain(..).zip(new.into_iter().chain(views)) {
            self.publish(world, making.process, name, to);
        }
        Ok(Made {
            resource,
            global,
            allocations,
            private: std::mem::take(&mut order.private),
            privates: std::mem::take(&mut order.allocations),
        })
    }

    /// Undoes a create or an open in reverse: what was opened is closed, what was created is
    /// destroyed, a new resource with it.
    ///
    /// WINDOWS: that the driver sees these calls is our decision; pages do not say.
    pub(crate) fn undo(
        &self,
        at: &mut Passive,
        making: &Making<'_>,
        pass: &Pass<'_>,
        built: Built,
    ) {
        let Built { place, allocations, views, .. } = built;
        let (inside, process) = (making.inside, Some(making.process));
        let by = By { driver: &inside.driver, pass, process };
        let (opened, unopened): (IdList<View>, IdList<View>) = {
            let world = self.world.hold();
            let opened = |it: &Id<View>| world.views.get(*it).is_some_and(|it| it.word.is_some());
            views.into_iter().partition(opened)
        };
        let made = |it: &Id<Allocation>| it.subject();
        let resource = place.filter(|it| it.new).map(|it| it.resource.subject());
        let ends: Vec<Subject> = allocations.iter().map(made).chain(resource).collect();
        self.end_holds(|it| ends.contains(&it.keeps));
        for view in &opened {
            self.log.emit(view.subject(), What::ViewIdle {});
        }
        let world = self.world.hold();
        let (mut orphans, mut world) = self.close_views(at, &by, world, inside.device, &opened);
        orphans.extend(unopened.into_iter().filter_map(|it| world.remove_view(it)));
        if making.opens.is_none() {
            orphans = allocations; // Also those that never had a view.
        }
        let new = place.filter(|it| it.new);
        let ended = new.and_then(|it| self.close_resource_view(&mut world, it.view));
        drop(self.destroy_orphans(at, &by, world, &orphans, ended));
    }
}

/// Whether the device still works and the resource is still named: for who parked, and again
/// for who publishes.
pub(crate) fn still_there(world: &World, making: &Making<'_>) -> Result<(), Refused> {
    world.works(making.inside.device)?;
    if let Some((global, resource)) = making.opens {
        let subject = resource.subject();
        let there = world.shares.find(global) == Ok(resource.into());
        return if there { Ok(()) } else { Err(Refused::ResourceEnded(subject)) };
    }
    let Some(place) = making.joins else { return Ok(()) };
    let named = world.resource_views.get(place.view).is_some_and(|it| it.named);
    if named { Ok(()) } else { Err(Refused::ResourceEnded(place.resource.subject())) }
}

impl World {
    /// Enters the views that are about to be opened: their driver may use their names.
    pub(crate) fn promise_views(
        &mut self,
        making: &Making<'_>,
        built: &mut Built,
        names: &[Reserved],
    ) {
        let process = making.process;
        let (first, rest) = match built.place {
            Some(place) if place.new => {
                names.split_first().map_or((None, names), |(a, b)| (Some(a), b))
            }
            _ => (None, names),
        };
        if let (Some(name), Some(place)) = (first, built.place) {
            self.resource_views[place.view].handle = name.handle();
            self.promise_one(process, name, place.view.into());
        }
        for (name, allocation) in rest.iter().zip(&built.allocations) {
            let number = self.views.insert(View {
                allocation: *allocation,
                device: making.inside.device,
                part_of: built.place.map(|it| it.view),
                handle: name.handle(),
                retired: false,
                stage: Stage::Building,
                word: None,
                resident: 0,
                was_resident: false,
                clean: false,
                charged: None,
                locks: 0,
                retirement: None,
            });
            self.allocations[*allocation].views.push(number);
            self.promise_one(process, name, number.into());
            built.views.push(number);
            built.handles.push(name.handle());
        }
    }

    fn promise_one(&mut self, process: Id<Process>, name: &Reserved, object: ObjectId) {
        self.processes[process].names.promise(name, object);
    }
}
