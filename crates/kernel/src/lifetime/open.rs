//! Opening views: adds the objects that a driver created, opens their views and publishes their
//! handles.
//!
//! # Invariants
//!
//! 1. While the driver opens a view, the view is `Unpublished`: its handle is bound, so that the
//!    driver can use it in callbacks, but clients cannot.
//! 2. [`Kernel::publish_objects`] makes all objects live and publishes all handles under one lock,
//!    or none.
#![expect(clippy::inline_always, reason = "steps of the path of one allocation")]

use crate::base::error::KernelError;
use crate::base::id_list::{Id, IdList, IdSet};
use crate::ddi::CallDetails;
use crate::ddi::miniport::{
    AllocationInfo, CallList, DriverAllocation, DriverResource, DriverView, Generation, HandleSlot,
    NewView, OpenAllocationArgs, PrivateData, collect_few,
};
use crate::ddi::permit::DdiPermit;
use crate::kernel::Kernel;
use crate::lifetime::create::{
    CreateAllocationRequest, CreateScope, CreatedAllocations, ResourceTarget, Sharing,
};
use crate::lifetime::destroy::DestroyScope;
use crate::lifetime::device::Device;
use crate::lifetime::process::Process;
use crate::lock::StateGuard;
use crate::memory::Extent;
use crate::memory::Owner;
use crate::objects::allocation::Allocation;
use crate::objects::device_access::EnteredDevice;
use crate::objects::handle_table::ObjectId;
use crate::objects::handle_table::{Handle, ReservedHandle, ReservedHandles};
use crate::objects::resource::{Resource, ResourceView};
use crate::objects::view::{View, ViewStage};
use crate::state::KernelState;
use flight::{EventKind, Hex, Log, Passive, Subject, make_room};
use smallvec::SmallVec;

/// The objects created so far.
#[derive(Default)]
pub(crate) struct NewObjects {
    pub(crate) resource: Option<ResourceTarget>,
    pub(crate) allocations: IdList<Allocation>,
    pub(crate) views: IdList<View>,
}

/// The published handles.
pub(crate) struct PublishedHandles {
    /// Of the new or given resource.
    pub(crate) resource: Option<Handle>,
    /// The global handle of a new resource.
    pub(crate) global: Option<Handle>,
    /// Of the allocations, in order.
    pub(crate) allocations: CallList<Handle>,
}

impl Kernel {
    /// Adds the objects that the driver created.
    pub(crate) fn create_objects(
        &self,
        state: &mut KernelState,
        creating: &CreateScope<'_>,
        request: &CreateAllocationRequest,
        created: CreatedAllocations,
        (given, seen): (&[Hex], &[Hex]),
    ) -> NewObjects {
        let CreateScope { device: guard, joins, .. } = *creating;
        let mut objects = NewObjects { resource: joins, ..NewObjects::default() };
        if joins.is_none() && request.new_resource {
            objects.resource =
                Some(self.create_resource_object(state, guard, request, created.resource));
        }
        let home = objects.resource.map(|resource_target| resource_target.resource);
        // More than were asked for are ignored.
        let asked = request.allocations.len();
        for (index, (driver_handle, info)) in
            created.allocations.into_iter().take(asked).enumerate()
        {
            let primary = request.primaries.contains(&index);
            let digests = || (given[index], seen[index]);
            let number =
                self.add_allocation(state, guard, home, driver_handle, &info, primary, digests);
            objects.allocations.push(number);
        }
        objects
    }

    /// Adds an allocation that the driver created. `digests` are those of the private data that the
    /// client and the kernel gave.
    #[expect(clippy::too_many_arguments, reason = "the facts of one new object")]
    #[inline(always)]
    pub(crate) fn add_allocation(
        &self,
        state: &mut KernelState,
        guard: &EnteredDevice,
        home: Option<Id<Resource>>,
        driver_handle: DriverAllocation,
        info: &AllocationInfo,
        primary: bool,
        digests: impl Fn() -> (Hex, Hex),
    ) -> Id<Allocation> {
        let number = state.allocations.reserve();
        let subject = number.subject();
        self.log.emit(subject, || {
            let (client_data, driver_data) = digests();
            EventKind::AllocationCreated {
                adapter: guard.driver.adapter.subject(),
                device: guard.subject(),
                resource: home.map(Id::subject),
                size: info.size,
                pitch_size: info.pitch_aligned_size,
                alignment: info.alignment,
                client_data,
                driver_data,
            }
        });
        let given = driver_handle.as_raw();
        self.set_driver_handle(given, subject);
        let extent = state.adapter_memory(guard.adapter).is_some().then(|| {
            let (size, alignment, requirements) = (info.size, info.alignment, info.requirements);
            let owner = Owner::Allocation(number);
            let extent = Extent::new(guard.adapter, owner, given, size, alignment, requirements);
            let extent = state.memory.add_extent(extent);
            self.log_requirements(state, extent);
            let limit = info.requirements.instances;
            if limit > 0 && guard.driver.generation == Generation::One {
                self.log.emit(subject, || EventKind::AllocationLimited { limit });
            }
            extent
        });
        let allocation = Allocation {
            adapter: guard.adapter,
            creator: state.devices[guard.device].process,
            resource: home,
            driver_handle: Some(driver_handle),
            size: info.size,
            primary,
            capture: info.requirements.flags.capture,
            extent,
            renames: None,
            private: PrivateData::new(), // It is set when the allocation is published.
            views: SmallVec::new(),
            in_transition: true,
            decommitted: false,
        };
        state.allocations.fill(number, allocation);
        if let Some(resource) = home {
            state.resources[resource].members.insert(number);
        }
        number
    }

    fn create_resource_object(
        &self,
        state: &mut KernelState,
        guard: &EnteredDevice,
        request: &CreateAllocationRequest,
        driver_handle: Option<DriverResource>,
    ) -> ResourceTarget {
        // A driver that sets no driver handle has a NULL driver handle.
        let driver_handle = driver_handle.unwrap_or_else(|| HandleSlot::new().fill(0));
        let given = driver_handle.as_raw();
        let (shared, sharing) = (request.sharing != Sharing::None, request.sharing.name().into());
        let resource = state.resources.insert(Resource {
            adapter: guard.adapter,
            driver_handle: Some(driver_handle),
            handle_value: given,
            shared,
            global: None,
            nt_shared: request.sharing == Sharing::Nt,
            nt_holds: 0,
            private: request.private.clone(),
            standard: request.standard.is_some(),
            cross_adapter: request.cross_adapter,
            runtime: request.runtime.clone(),
            members: IdSet::new(),
            views: IdSet::new(),
        });
        let subject = resource.subject();
        let (adapter, device) = (guard.driver.adapter, guard.subject());
        self.log.emit(subject, || EventKind::ResourceCreated {
            adapter: adapter.subject(),
            device,
            sharing,
        });
        self.set_driver_handle(given, subject);
        self.create_resource_view(state, guard, resource)
    }

    /// Adds a device's view of a resource, without a handle. The view keeps the resource alive.
    pub(crate) fn create_resource_view(
        &self,
        state: &mut KernelState,
        guard: &EnteredDevice,
        resource: Id<Resource>,
    ) -> ResourceTarget {
        let view = state.resource_views.insert(ResourceView {
            resource,
            device: guard.device,
            handle: Handle(0),
            published: false,
            views: IdSet::new(),
            device_index: None,
        });
        state.resources[resource].views.insert(view);
        let (resource_subject, device) = (resource.subject(), guard.subject());
        self.log.emit(view.subject(), || EventKind::ResourceViewOpened {
            resource: resource_subject,
            device,
        });
        ResourceTarget { resource, view, created: true }
    }

    /// Calls `DxgkDdiOpenAllocation` for the views, with the private data of the resource and of
    /// each allocation. Returns with the state locked.
    pub(crate) fn open_allocations<'k>(
        &'k self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        creating: &CreateScope<'_>,
        (private, privates): (&[u8], &mut [PrivateData]),
        objects: &NewObjects,
        handles: &[ReservedHandle],
    ) -> Result<StateGuard<'k, KernelState>, KernelError> {
        let guard = creating.device;
        let device = guard.driver_handle()?;
        let privates = privates.iter_mut().map(|private| &mut private[..]);
        let views = privates.zip(objects.view_handles(handles));
        let views = collect_few(views.map(|(private, name)| NewView::new(name.handle(), private)));
        let create = creating.shared.is_none();
        let read_only = creating.shared.is_some_and(|shared| shared.read_only);
        let mut args = OpenAllocationArgs { device, views, create, read_only, private };
        let batch = u32::try_from(objects.views.len()).unwrap_or(u32::MAX);
        let log_arguments = |log: &Log| {
            let (device, resource) =
                (guard.subject(), objects.resource.map(|resource_target| resource_target.resource));
            let resource = resource.map(Id::subject);
            for view in &objects.views {
                log.emit(view.subject(), || EventKind::DdiOpens {
                    device,
                    resource,
                    create,
                    batch,
                });
            }
        };
        let details =
            CallDetails { process: Some(creating.process), log_arguments: &log_arguments };
        guard.driver.open_allocations(at, permit, details, &mut args)?;
        let mut state = self.state.lock();
        let resource = objects.resource.map(|resource_target| resource_target.view);
        for (view, new) in objects.views.iter().zip(args.views) {
            self.set_opened(&mut state, guard, *view, resource, new.driver_handle);
        }
        Ok(state)
    }

    /// Records that the driver has opened a view. A driver that sets no driver handle has a NULL
    /// driver handle.
    #[inline(always)]
    pub(crate) fn set_opened(
        &self,
        state: &mut KernelState,
        guard: &EnteredDevice,
        view: Id<View>,
        resource: Option<Id<ResourceView>>,
        driver_handle: Option<DriverView>,
    ) {
        let driver_handle = driver_handle.unwrap_or_else(|| HandleSlot::new().fill(0));
        let it = &mut state.views[view];
        self.log.emit(view.subject(), || EventKind::ViewOpened {
            allocation: it.allocation.subject(),
            device: guard.subject(),
            resource: resource.map(Id::subject),
            handle_set: driver_handle.as_raw() != 0,
        });
        self.set_driver_handle(driver_handle.as_raw(), view.subject());
        it.driver_handle = Some(driver_handle);
    }

    /// Makes all objects live and publishes their handles, all at once. `sharing` is how a new
    /// resource is shared, and the size of its runtime data. Fails if the device or the resource
    /// has ended.
    pub(crate) fn publish_objects(
        &self,
        state: &mut KernelState,
        creating: &CreateScope<'_>,
        objects: &NewObjects,
        privates: &[PrivateData],
        (sharing, runtime): (Sharing, usize),
        handles: &mut ReservedHandles,
    ) -> Result<PublishedHandles, KernelError> {
        check_still_valid(state, creating)?;
        let process = creating.process;
        let created = objects.resource.filter(|target| target.created);
        let mut global = None;
        if let Some(target) = created {
            global = self.share_resource(state, process, target, privates, sharing, runtime)?;
        }
        let mut names = std::mem::take(handles).into_iter();
        let mut resource = None;
        if let Some(target) = objects.resource {
            let it = &mut state.resource_views[target.view];
            resource = Some(it.handle);
            if target.created {
                it.published = true;
                let list = &mut state.devices[it.device].resource_views;
                it.device_index = Some(list.len());
                list.push(target.view);
                if let Some(name) = names.next() {
                    self.publish_handle(state, process, name, target.view.into());
                }
            }
        }
        let mut allocations = CallList::new();
        for ((view, private), name) in objects.views.iter().zip(privates).zip(names) {
            // A plain open does not change the allocation's private data; only a create does.
            let private = creating.shared.is_none().then_some(&private[..]);
            state.publish_view(*view, objects.resource, private);
            allocations.push(name.handle());
            self.publish_handle(state, process, name, (*view).into());
        }
        Ok(PublishedHandles { resource, global, allocations })
    }

    /// Shares a new resource. Returns its global handle, if it has one.
    fn share_resource(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
        target: ResourceTarget,
        privates: &[PrivateData],
        sharing: Sharing,
        runtime: usize,
    ) -> Result<Option<Handle>, KernelError> {
        let of = target.resource.subject();
        if sharing != Sharing::None {
            self.log.emit(of, || EventKind::ShareRecorded {
                runtime: runtime as u64,
                total: privates.iter().map(|bytes| bytes.len() as u64).sum(),
            });
        }
        if sharing != Sharing::Global {
            return Ok(None);
        }
        let name = state.global_handles.reserve()?;
        let handle = state.global_handles.publish(name, target.resource.into());
        self.log.emit(process.subject(), || EventKind::HandleShared { handle: Hex(handle.0), of });
        state.resources[target.resource].global = Some(handle);
        Ok(Some(handle))
    }

    /// Undoes a create or an open in reverse order: closes the opened views, then destroys the
    /// created allocations and a new resource.
    ///
    /// WINDOWS: that the driver sees these calls is our decision; pages do not say.
    pub(crate) fn undo_create(
        &self,
        at: &mut Passive,
        creating: &CreateScope<'_>,
        permit: &DdiPermit<'_>,
        objects: NewObjects,
    ) {
        let NewObjects { resource: place, allocations, views, .. } = objects;
        let (guard, process) = (creating.device, Some(creating.process));
        let scope = DestroyScope { driver: &guard.driver, permit, process, device: None };
        let (opened, unopened): (IdList<View>, IdList<View>) = {
            let state = self.state.lock();
            let opened = |view: &Id<View>| {
                state.views.get(*view).is_some_and(|view| view.driver_handle.is_some())
            };
            views.into_iter().partition(opened)
        };
        let made = |allocation: &Id<Allocation>| allocation.subject();
        let resource = place
            .filter(|resource_target| resource_target.created)
            .map(|resource_target| resource_target.resource.subject());
        let ends: Vec<Subject> = allocations.iter().map(made).chain(resource).collect();
        self.end_all_handle_data(|reference| ends.contains(&reference.keeps_alive));
        for view in &opened {
            self.log.emit(view.subject(), || EventKind::ViewIdle {});
        }
        let state = self.state.lock();
        let (mut orphans, mut state) = self.close_views(at, &scope, state, guard.device, &opened);
        orphans.extend(unopened.into_iter().filter_map(|view| state.remove_view(view)));
        if creating.shared.is_none() {
            orphans = allocations; // Includes allocations without a view.
        }
        let new = place.filter(|resource_target| resource_target.created);
        let ended = new
            .and_then(|resource_target| self.close_resource_view(&mut state, resource_target.view));
        drop(self.destroy_orphans(at, &scope, state, &orphans, ended));
    }
}

/// Fails unless the device still works and the resource still has its handle. Called after each
/// wait and before publishing.
#[inline(always)]
pub(crate) fn check_still_valid(
    state: &KernelState,
    creating: &CreateScope<'_>,
) -> Result<(), KernelError> {
    state.check_working(creating.device.device)?;
    if let Some(shared) = creating.shared {
        let subject = shared.resource.subject();
        let there = shared.is_valid(state);
        return if there { Ok(()) } else { Err(KernelError::ResourceDestroyed(subject)) };
    }
    // The allocations join no existing resource.
    let Some(place) = creating.joins else { return Ok(()) };
    let named =
        state.resource_views.get(place.view).is_some_and(|resource_view| resource_view.published);
    if named { Ok(()) } else { Err(KernelError::ResourceDestroyed(place.resource.subject())) }
}

impl NewObjects {
    /// The handles of the views: the last ones.
    fn view_handles<'h>(&self, handles: &'h [ReservedHandle]) -> &'h [ReservedHandle] {
        &handles[handles.len() - self.views.len()..]
    }
}

impl KernelState {
    /// Adds the views that are about to be opened, and binds their handles for the driver's use.
    pub(crate) fn bind_view_handles(
        &mut self,
        creating: &CreateScope<'_>,
        objects: &mut NewObjects,
        handles: &[ReservedHandle],
    ) {
        let process = creating.process;
        let (first, rest) = match objects.resource {
            Some(place) if place.created => {
                handles.split_first().map_or((None, handles), |(a, b)| (Some(a), b))
            }
            _ => (None, handles),
        };
        if let (Some(name), Some(place)) = (first, objects.resource) {
            self.resource_views[place.view].handle = name.handle();
            self.bind_handle(process, name, place.view.into());
        }
        for (name, allocation) in rest.iter().zip(&objects.allocations) {
            let resource_view = objects.resource.map(|resource_target| resource_target.view);
            let device = creating.device.device;
            let number = self.add_view(process, device, resource_view, name, *allocation);
            objects.views.push(number);
        }
    }

    /// Adds a view that is about to be opened, and binds its handle for the driver's use.
    #[inline(always)]
    pub(crate) fn add_view(
        &mut self,
        process: Id<Process>,
        device: Id<Device>,
        part_of: Option<Id<ResourceView>>,
        name: &ReservedHandle,
        allocation: Id<Allocation>,
    ) -> Id<View> {
        let number = self.views.insert(View {
            allocation,
            device,
            part_of,
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
            standalone_index: None,
        });
        self.allocations[allocation].views.push(number);
        self.bind_handle(process, name, number.into());
        number
    }

    /// Makes a view live, as part of a resource or by itself. `private` is the allocation's private
    /// data as the driver left it, if the allocation is new.
    #[inline(always)]
    pub(crate) fn publish_view(
        &mut self,
        view: Id<View>,
        resource: Option<ResourceTarget>,
        private: Option<&[u8]>,
    ) {
        let it = &mut self.views[view];
        it.stage = ViewStage::Live;
        if let Some(target) = resource {
            self.resource_views[target.view].views.insert(view);
        } else {
            let standalone_views = &mut self.devices[it.device].standalone_views;
            it.standalone_index = u32::try_from(standalone_views.len()).ok();
            make_room(standalone_views, 1);
            standalone_views.push(view);
        }
        if let Some(private) = private {
            let allocation = &mut self.allocations[it.allocation];
            allocation.private = PrivateData::from_slice(private);
            allocation.in_transition = false;
        }
    }

    #[inline(always)]
    fn bind_handle(&mut self, process: Id<Process>, name: &ReservedHandle, object: ObjectId) {
        self.processes[process].handles.bind(name, object);
    }
}
