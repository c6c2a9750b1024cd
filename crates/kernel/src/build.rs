//! Building what a driver described: objects entered, views opened, names published.
//!
//! # Invariants
//!
//! 1. A view whose driver is opening it is `Building`: its name is promised, so the driver may
//!    use it in callbacks, and a client may not.
//! 2. `finish` makes everything live and publishes all names under one lock, or nothing.

use crate::allocation::Allocation;
use crate::create::{CreateAllocationRequest, CreateAllocationResponse, CreateScope, ResourceTarget, Sharing, lengths};
use crate::ddi::CallDetails;
use crate::device::RundownGuard;
use crate::end::DestroyScope;
use crate::gate::DdiPermit;
use crate::handle::ObjectId;
use crate::handle::{Handle, ReservedHandles, ReservedHandle};
use crate::kernel::Kernel;
use crate::lock::StateGuard;
use crate::memory::Extent;
use crate::memory::Owner;
use crate::miniport::{HandleSlot, CreatedAllocations, DriverResource, Generation, OpenAllocationArgs, NewView};
use crate::process::Process;
use crate::refused::KernelError;
use crate::resource::{Resource, ResourceView};
use crate::store::Id;
use crate::store::IdList;
use crate::view::{ViewStage, View};
use crate::world::KernelState;
use flight::{Hex, Log, Passive, Subject, EventKind};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// What has been built so far.
#[derive(Default)]
pub(crate) struct NewObjects {
    pub(crate) resource: Option<ResourceTarget>,
    pub(crate) allocations: IdList<Allocation>,
    pub(crate) views: IdList<View>,
    /// The names of the views, promised.
    pub(crate) handles: SmallVec<[Handle; 4]>,
}

impl Kernel {
    /// Enters what the driver described.
    pub(crate) fn create_objects(
        &self,
        world: &mut KernelState,
        creating: &CreateScope<'_>,
        order: &CreateAllocationRequest,
        born: CreatedAllocations,
        (given, seen): (&[Hex], &[Hex]),
    ) -> NewObjects {
        let CreateScope { device: inside, joins, .. } = *creating;
        let mut built = NewObjects { resource: joins, ..NewObjects::default() };
        if joins.is_none() && order.new_resource {
            built.resource = Some(self.create_resource_object(world, inside, order, born.resource));
        }
        let home = built.resource.map(|it| it.resource);
        for (((word, shape), private), (given, seen)) in
            born.allocations.into_iter().zip(&order.allocations).zip(given.iter().zip(seen))
        {
            let number = world.allocations.reserve();
            let what = EventKind::AllocationCreated {
                adapter: inside.driver.adapter.subject(),
                device: inside.subject(),
                resource: home.map(Id::subject),
                size: shape.size,
                pitch_size: shape.pitch_aligned_size,
                alignment: shape.alignment,
                client_data: *given,
                driver_data: *seen,
            };
            let subject = number.subject();
            self.log.emit(subject, what);
            self.set_driver_handle(word.word(), subject);
            let given = word.word();
            let extent = world.memory(inside.adapter).is_some().then(|| {
                let (size, alignment, wants) = (shape.size, shape.alignment, shape.requirements);
                let owner = Owner::Allocation(number);
                Extent::new(inside.adapter, owner, given, size, alignment, wants)
            });
            let extent = extent.map(|it| world.extents.insert(it));
            if let Some(extent) = extent {
                self.log_requirements(world, extent);
                let most = shape.requirements.instances;
                if most > 0 && inside.driver.generation == Generation::One {
                    self.log.emit(subject, EventKind::AllocationLimited { limit: most });
                }
            }
            let allocation = Allocation {
                adapter: inside.adapter,
                creator: inside.device,
                resource: home,
                driver_handle: Some(word),
                size: shape.size,
                primary: order.primaries.contains(&built.allocations.len()),
                capture: shape.requirements.flags.capture,
                extent,
                renames: None,
                private: private.clone(),
                views: IdList::new(),
                in_transition: true,
                decommitted: false,
            };
            world.allocations.fill(number, allocation);
            if let Some(it) = home.and_then(|it| world.resources.get_mut(it)) {
                it.members.insert(number);
            }
            built.allocations.push(number);
        }
        built
    }

    fn create_resource_object(
        &self,
        world: &mut KernelState,
        inside: &RundownGuard<'_>,
        order: &CreateAllocationRequest,
        word: Option<DriverResource>,
    ) -> ResourceTarget {
        // A driver that gives no word has given the NULL word.
        let word = word.unwrap_or_else(|| HandleSlot::new().fill(0));
        let given = word.word();
        let (shared, sharing) = (order.sharing != Sharing::None, order.sharing.name().into());
        let resource = world.resources.insert(Resource {
            adapter: inside.adapter,
            driver_handle: Some(word),
            handle_value: given,
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
            .emit(subject, EventKind::ResourceCreated { adapter: adapter.subject(), device, sharing });
        self.set_driver_handle(given, subject);
        self.create_resource_view(world, inside, resource)
    }

    /// Enters a device's view of a resource, without a name yet. The resource lives for it.
    pub(crate) fn create_resource_view(
        &self,
        world: &mut KernelState,
        inside: &RundownGuard<'_>,
        resource: Id<Resource>,
    ) -> ResourceTarget {
        let view = world.resource_views.insert(ResourceView {
            resource,
            device: inside.device,
            handle: Handle(0),
            published: false,
            views: BTreeSet::new(),
        });
        world.resources[resource].views.insert(view);
        let (resource_subject, device) = (resource.subject(), inside.subject());
        let opened = EventKind::ResourceViewOpened { resource: resource_subject, device };
        self.log.emit(view.subject(), opened);
        ResourceTarget { resource, view, created: true }
    }

    /// Has the driver open the views, and comes back with the world held.
    pub(crate) fn open_allocations<'k>(
        &'k self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        creating: &CreateScope<'_>,
        order: &mut CreateAllocationRequest,
        built: &NewObjects,
    ) -> Result<StateGuard<'k, KernelState>, KernelError> {
        let inside = creating.device;
        let device = inside.driver_handle()?;
        let lengths = lengths(&order.allocations);
        let birth = |(private, handle)| NewView { handle, private, slot: HandleSlot::new() };
        let views = order.allocations.iter_mut().zip(built.handles.iter().copied());
        let views = views.map(birth).collect();
        let create = creating.shared.is_none();
        let opening = OpenAllocationArgs { device, views, create, private: &order.private };
        let batch = u32::try_from(built.views.len()).unwrap_or(u32::MAX);
        let log_arguments = |log: &Log| {
            let (device, resource) = (inside.subject(), built.resource.map(|it| it.resource));
            let resource = resource.map(Id::subject);
            for view in &built.views {
                let opens = EventKind::DdiOpens { device, resource, create, batch };
                log.emit(view.subject(), opens);
            }
        };
        let whom = CallDetails { process: Some(creating.process), log_arguments: &log_arguments };
        let words = inside.driver.open_allocations(at, permit, whom, opening);
        for (private, length) in order.allocations.iter_mut().zip(lengths) {
            private.resize(length, 0); // A driver edits bytes; it does not change how many.
        }
        let mut words = words?.into_iter();
        let mut world = self.state.lock();
        for view in &built.views {
            let subject = view.subject();
            let word = words.next().unwrap_or_else(|| HandleSlot::new().fill(0));
            let it = &mut world.views[*view];
            let opened = EventKind::ViewOpened {
                allocation: it.allocation.subject(),
                device: inside.subject(),
                resource: built.resource.map(|it| it.view.subject()),
                handle_set: word.word() != 0,
            };
            self.log.emit(subject, opened);
            self.set_driver_handle(word.word(), subject);
            it.driver_handle = Some(word);
        }
        Ok(world)
    }

    /// Makes it all live and publishes the names, all at once, if what it belongs to is still
    /// there.
    pub(crate) fn publish_objects(
        &self,
        world: &mut KernelState,
        creating: &CreateScope<'_>,
        built: &NewObjects,
        order: &mut CreateAllocationRequest,
        names: &mut ReservedHandles,
    ) -> Result<CreateAllocationResponse, KernelError> {
        check_still_valid(world, creating)?;
        let create = creating.shared.is_none();
        let mut global = None;
        if let Some(place) = built.resource.filter(|it| it.created) {
            if order.sharing != Sharing::None {
                let total = order.allocations.iter().map(|it| it.len() as u64).sum();
                let not_offered = EventKind::ShareRecorded { runtime: order.runtime.len() as u64, total };
                self.log.emit(place.resource.subject(), not_offered);
            }
            if order.sharing == Sharing::Global {
                let name = world.global_handles.reserve()?;
                let of = place.resource.subject();
                let handle = world.global_handles.publish(name, place.resource.into());
                let shared = EventKind::HandleShared { handle: Hex(handle.0), of };
                self.log.emit(creating.process.subject(), shared);
                global = Some(handle);
            }
            if let Some(it) = world.resources.get_mut(place.resource) {
                it.global = it.global.or(global);
            }
            if let Some(it) = world.resource_views.get_mut(place.view) {
                it.published = true;
                let device = it.device;
                world.devices[device].resource_views.insert(place.view);
            }
        }
        for (view, private) in built.views.iter().zip(&order.allocations) {
            let it = &mut world.views[*view];
            it.stage = ViewStage::Live;
            let (allocation, device) = (it.allocation, it.device);
            if let Some(it) = built.resource.and_then(|it| world.resource_views.get_mut(it.view)) {
                it.views.insert(*view);
            } else if let Some(it) = world.devices.get_mut(device) {
                it.standalone_views.insert(*view);
            }
            // What a plain open did to its copy stays its own.
            if let Some(it) = world.allocations.get_mut(allocation).filter(|_| create) {
                it.private.clone_from(private);
                it.in_transition = false;
            }
        }
        let resource = built.resource.and_then(|it| world.resource_views.get(it.view));
        let resource = resource.map(|it| it.handle);
        let skip = names.len() - built.views.len();
        let allocations = names[skip..].iter().map(ReservedHandle::handle).collect();
        let new = built.resource.filter(|it| it.created).map(|it| ObjectId::from(it.view));
        let views = built.views.iter().map(|view| ObjectId::from(*view));
        for (name, to) in names.drain(..).zip(new.into_iter().chain(views)) {
            self.publish_handle(world, creating.process, name, to);
        }
        Ok(CreateAllocationResponse {
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
    pub(crate) fn undo_create(
        &self,
        at: &mut Passive,
        creating: &CreateScope<'_>,
        permit: &DdiPermit<'_>,
        built: NewObjects,
    ) {
        let NewObjects { resource: place, allocations, views, .. } = built;
        let (inside, process) = (creating.device, Some(creating.process));
        let component = DestroyScope { driver: &inside.driver, permit, process };
        let (opened, unopened): (IdList<View>, IdList<View>) = {
            let world = self.state.lock();
            let opened = |it: &Id<View>| world.views.get(*it).is_some_and(|it| it.driver_handle.is_some());
            views.into_iter().partition(opened)
        };
        let made = |it: &Id<Allocation>| it.subject();
        let resource = place.filter(|it| it.created).map(|it| it.resource.subject());
        let ends: Vec<Subject> = allocations.iter().map(made).chain(resource).collect();
        self.end_all_handle_data(|it| ends.contains(&it.keeps_alive));
        for view in &opened {
            self.log.emit(view.subject(), EventKind::ViewIdle {});
        }
        let world = self.state.lock();
        let (mut orphans, mut world) = self.close_views(at, &component, world, inside.device, &opened);
        orphans.extend(unopened.into_iter().filter_map(|it| world.remove_view(it)));
        if creating.shared.is_none() {
            orphans = allocations; // Also those that never had a view.
        }
        let new = place.filter(|it| it.created);
        let ended = new.and_then(|it| self.close_resource_view(&mut world, it.view));
        drop(self.destroy_orphans(at, &component, world, &orphans, ended));
    }
}

/// Whether the device still works and the resource is still named: for who parked, and again
/// for who publishes.
pub(crate) fn check_still_valid(world: &KernelState, creating: &CreateScope<'_>) -> Result<(), KernelError> {
    world.check_working(creating.device.device)?;
    if let Some((global, resource)) = creating.shared {
        let subject = resource.subject();
        let there = world.global_handles.lookup(global) == Ok(resource.into());
        return if there { Ok(()) } else { Err(KernelError::ResourceDestroyed(subject)) };
    }
    let Some(place) = creating.joins else { return Ok(()) };
    let named = world.resource_views.get(place.view).is_some_and(|it| it.published);
    if named { Ok(()) } else { Err(KernelError::ResourceDestroyed(place.resource.subject())) }
}

impl KernelState {
    /// Enters the views that are about to be opened: their driver may use their names.
    pub(crate) fn bind_view_handles(
        &mut self,
        creating: &CreateScope<'_>,
        built: &mut NewObjects,
        names: &[ReservedHandle],
    ) {
        let process = creating.process;
        let (first, rest) = match built.resource {
            Some(place) if place.created => {
                names.split_first().map_or((None, names), |(a, b)| (Some(a), b))
            }
            _ => (None, names),
        };
        if let (Some(name), Some(place)) = (first, built.resource) {
            self.resource_views[place.view].handle = name.handle();
            self.bind_handle(process, name, place.view.into());
        }
        for (name, allocation) in rest.iter().zip(&built.allocations) {
            let number = self.views.insert(View {
                allocation: *allocation,
                device: creating.device.device,
                part_of: built.resource.map(|it| it.view),
                handle: name.handle(),
                superseded: false,
                stage: ViewStage::Unpublished,
                driver_handle: None,
                resident: 0,
                was_resident: false,
                not_written: false,
                charged_group: None,
                locks: 0,
                retirement: None,
            });
            self.allocations[*allocation].views.push(number);
            self.bind_handle(process, name, number.into());
            built.views.push(number);
            built.handles.push(name.handle());
        }
    }

    fn bind_handle(&mut self, process: Id<Process>, name: &ReservedHandle, object: ObjectId) {
        self.processes[process].handles.bind(name, object);
    }
}
