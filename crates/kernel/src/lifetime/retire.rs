//! Retirements: the end of views and of the allocations they are the last views of.
//!
//! A view goes `Live → Retiring → Idle →` closed. An allocation is decommitted before its last view
//! is closed, and destroyed after. Every destroy call uses the same path; its flags are arguments.
//!
//! # Invariants
//!
//! 1. A view is in exactly one retirement, from the moment its handle is closed.
//! 2. A retirement waits for all work that its device had queued before the request, on all nodes
//!    (packets of WDDM 2 do not list allocations). `AssumeNotInUse` skips this wait and no other.
//!    Therefore the retirements of a device become ready in request order.
#![expect(clippy::inline_always, reason = "steps of the path of one allocation")]

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::base::id_list::IdList;
use crate::ddi::Driver;
use crate::ddi::miniport::{DriverDevice, collect_few};
use crate::ddi::permit::{PermitKeys, ThreadingLevel};
use crate::kernel::Kernel;
use crate::lifetime::destroy::DestroyScope;
use crate::lifetime::device::Device;
use crate::lifetime::process::Process;
use crate::lifetime::process::ProcessId;
use crate::lock::StateGuard;
use crate::memory::Extent;
use crate::objects::handle_table::Handle;
use crate::objects::resource::Resource;
use crate::objects::resource::ResourceView;
use crate::objects::view::View;
use crate::objects::view::ViewStage;
use crate::schedule::report::{Node, QueuePoint};
use crate::state::KernelState;
use flight::{EventKind, Kind, LiveObject, Passive, Subject, WaitResult, WaitToken};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;

/// Where a client says that no queued work uses what it destroys.
pub(crate) const DESTROY_FLAGS: &str = "D3DKMTDestroyAllocation2.Flags";

/// The end of a set of views of one device.
pub(crate) struct Retirement {
    pub(crate) device: Id<Device>,
    /// The view of a resource that ends as a whole, if there is one.
    pub(crate) resource_view: Option<Id<ResourceView>>,
    /// The resource of the views' allocations, if they have one.
    pub(crate) resource: Option<Id<Resource>>,
    pub(crate) views: IdList<View>,
    /// Its client guarantees that no queued work uses the views (`AssumeNotInUse`).
    pub(crate) assume_not_in_use: bool,
    /// Work that must complete first, by node.
    pub(crate) waits: Vec<QueuePoint>,
    /// The thread that waits for it.
    pub(crate) waiter: Option<WaitToken>,
}

/// A client's request to destroy allocations (`D3DKMT_DESTROYALLOCATION2`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestroyAllocationRequest {
    /// The device of the views.
    pub device: Handle,
    /// The views to destroy.
    pub target: DestroyTarget,
    /// The client guarantees that no queued work uses them (`AssumeNotInUse`).
    pub assume_not_in_use: bool,
    /// The call returns after they are closed (`SynchronousDestroy`).
    pub synchronous: bool,
}

/// The views to destroy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DestroyTarget {
    /// No views: only the device handle was given.
    Nothing,
    /// A resource with all its members.
    Resource(Handle),
    /// One allocation.
    Allocation(Handle),
    /// A list of allocations.
    List(SmallVec<[Handle; 4]>),
}

/// The views to retire.
#[derive(Clone, Copy)]
pub(crate) enum RetireTarget<'a> {
    /// A device's view of a resource, with its views of all members.
    Resource(Id<ResourceView>),
    /// A list of views, and the resource of all their allocations.
    Views(&'a [Id<View>], Option<Id<Resource>>),
}

/// A retirement, and whether it can run at once.
pub(crate) struct StartedRetirement {
    pub(crate) number: Id<Retirement>,
    pub(crate) ready: bool,
}

impl Kernel {
    /// Destroys allocations (`D3DKMTDestroyAllocation2`). Their handles are closed when this
    /// returns. With `synchronous`, the views are closed as well, and the allocations they were the
    /// last views of are destroyed.
    ///
    /// Fails if a handle is invalid; then no view is retired.
    pub fn destroy(
        &self,
        at: &mut Passive,
        process: ProcessId,
        request: &DestroyAllocationRequest,
    ) -> Result<(), KernelError> {
        let guard; // Declared before the state guard, so that it is dropped after the guard.
        let mut state = self.state.lock();
        let device = state.resolve_handle::<Device>(process, Argument::Device, request.device)?;
        // A lost device is entered as well: destroy calls always work.
        guard = match self.acquire_rundown(&mut state, device) {
            Ok(guard) => guard,
            // WINDOWS: destroy calls on a lost device succeed (our decision); its objects are
            // already destroyed.
            Err(_) if state.is_zombie(device) => return Ok(()),
            Err(why) => return Err(why),
        };
        state = self.wait_for_listing(at, state, process, device, &request.target)?;
        let (assume, sync) = (request.assume_not_in_use, request.synchronous);
        let (view, views);
        let ending = match &request.target {
            DestroyTarget::Nothing => return Ok(()),
            DestroyTarget::Allocation(handle) => {
                let argument = Argument::Allocation(0);
                let resource;
                (view, resource) = state.retire_target(process, device, argument, *handle)?;
                RetireTarget::Views(slice::from_ref(&view), resource)
            }
            DestroyTarget::Resource(handle) => {
                RetireTarget::Resource(state.resource_retire_target(process, device, *handle)?)
            }
            DestroyTarget::List(list) => {
                let resource;
                (views, resource) = state.list_retire_target(process, device, list)?;
                RetireTarget::Views(&views, resource)
            }
        };
        let retirement = self.retire(&mut state, device, ending, assume, sync);
        let subject = retirement.number.subject();
        // WINDOWS: on the caller's thread when it can be done at once, else on a system worker (our
        // decision).
        if retirement.ready {
            let device = guard.driver_handle().ok();
            let (number, driver) = (retirement.number, &guard.driver);
            state = self.run_retirement_of(at, state, number, process.0, driver, device);
        }
        let mut done = true;
        while request.synchronous
            && done
            && let Some(token) = self.retirement_token(&mut state, retirement.number, device)
        {
            drop(state);
            let result = self.park_for_work(at, subject, device, &token);
            state = self.state.lock();
            done = result == WaitResult::Woken && !self.ends_with_device(&state, device);
        }
        self.log.emit(subject, || EventKind::RetireReturned { done });
        guard.release(&mut state);
        if done { Ok(()) } else { Err(KernelError::Stuck) }
    }

    /// Waits until no running `D3DKMTRender` lists a view that is to be destroyed: the driver has the
    /// view's handle in that call, and the destroy waits for the packets that it queues.
    ///
    /// WINDOWS: whether the destroy waits or the packet fails is not documented (our decision).
    #[inline(always)]
    fn wait_for_listing<'k>(
        &'k self,
        at: &mut Passive,
        state: StateGuard<'k, KernelState>,
        process: ProcessId,
        device: Id<Device>,
        target: &DestroyTarget,
    ) -> Result<StateGuard<'k, KernelState>, KernelError> {
        // Mostly no call is rendering.
        if !state.schedule.is_listing() {
            return Ok(state);
        }
        self.wait_until_unlisted(at, state, process, device, target)
    }

    #[cold]
    fn wait_until_unlisted<'k>(
        &'k self,
        at: &mut Passive,
        mut state: StateGuard<'k, KernelState>,
        process: ProcessId,
        device: Id<Device>,
        target: &DestroyTarget,
    ) -> Result<StateGuard<'k, KernelState>, KernelError> {
        let unlisted = |state: &KernelState| !state.is_target_listed(process, device, target);
        let what = |_: &KernelState| "a call that lists the allocations to destroy".to_owned();
        while !unlisted(&state) {
            drop(state);
            if !self.wait_until(at, device.subject(), what, unlisted) {
                return Err(KernelError::Stuck);
            }
            state = self.state.lock();
        }
        Ok(state)
    }

    /// Closes the handles of views and queues their retirement.
    #[inline(always)]
    pub(crate) fn retire(
        &self,
        state: &mut KernelState,
        device: Id<Device>,
        ending: RetireTarget<'_>,
        assume: bool,
        sync: bool,
    ) -> StartedRetirement {
        let members: IdList<View>;
        let (resource_view, resource, views) = match ending {
            RetireTarget::Views(views, resource) => (None, resource, views),
            RetireTarget::Resource(it) => {
                let view = &state.resource_views[it];
                // Members destroyed by an earlier list are in their own retirements.
                let live = |view: &&Id<View>| {
                    state.views.get(**view).is_some_and(|view| view.stage == ViewStage::Live)
                };
                members = collect_few(view.views.iter().filter(live).copied());
                (Some(it), Some(view.resource), &members[..])
            }
        };
        let it = &mut state.devices[device];
        it.retiring += 1;
        let process = it.owner();
        let waits = if assume || it.lost.is_some() || it.busy.is_empty() {
            Vec::new()
        } else {
            state.outstanding_work(device)
        };
        if assume {
            self.judge_not_listed(state, device, views);
        }
        let number = state.lifetime.retirements.reserve();
        let (subject, component) = (number.subject(), device.subject());
        let count = u32::try_from(views.len()).unwrap_or(u32::MAX);
        self.log.emit(subject, || EventKind::RetireRequested {
            device: component,
            views: count,
            assume_not_in_use: assume,
            synchronous: sync,
        });
        for work in &waits {
            if let QueuePoint::Context(context, packet) = *work {
                let context = context.subject();
                self.log.emit(subject, || EventKind::RetireWaits { context, packet });
            }
        }
        if let Some(view) = resource_view {
            self.retire_resource_view(state, process, view, component, subject);
        }
        let ready = waits.is_empty();
        let stage = if ready { ViewStage::Idle } else { ViewStage::Retiring };
        for view in views {
            self.retire_view(state, process, component, number, *view, stage, assume);
        }
        if ready {
            self.log_idle(number, views);
        } else {
            state.devices[device].retirements.push_back(number);
        }
        state.lifetime.retirements.fill(
            number,
            Retirement {
                device,
                resource_view,
                resource,
                views: IdList::from_slice(views),
                assume_not_in_use: assume,
                waits,
                waiter: None,
            },
        );
        StartedRetirement { number, ready }
    }

    /// Closes the handle of a view, and what its client has of the allocation. The view is idle at
    /// once if its retirement has nothing to wait for.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "facts of the retirement that the caller has")]
    fn retire_view(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
        component: Subject,
        retirement: Id<Retirement>,
        view: Id<View>,
        stage: ViewStage,
        assume: bool,
    ) {
        let it = &mut state.views[view];
        it.stage = stage;
        it.retirement = Some(retirement);
        let (handle, locked, resident) = (it.handle, it.locks > 0, it.resident > 0);
        let allocation = &state.allocations[it.allocation];
        let (renamed, has_memory) = (allocation.renames.is_some(), allocation.extent.is_some());
        self.close_handle(state, process, handle);
        if renamed {
            self.close_instance_handles(state, process, view);
        }
        self.log.emit(view.subject(), || EventKind::ViewRetiring {
            by: component,
            retirement: retirement.subject(),
        });
        if locked {
            self.drop_locks(state, view);
        }
        if resident || has_memory {
            state.clear_residency(view, assume);
        }
    }

    fn retire_resource_view(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
        view: Id<ResourceView>,
        component: Subject,
        retirement: Subject,
    ) {
        let it = &mut state.resource_views[view];
        it.published = false;
        let (handle, resource) = (it.handle, it.resource);
        self.close_handle(state, process, handle);
        self.log
            .emit(view.subject(), || EventKind::ResourceViewRetiring { by: component, retirement });
        // WINDOWS: a global handle keeps no object alive, and is closed with the last local handle
        // (observed).
        let named = |view: &Id<ResourceView>| {
            state.resource_views.get(*view).is_some_and(|resource_view| resource_view.published)
        };
        if !state.resources[resource].views.iter().any(named)
            && let Some(global) = state.resources[resource].global.take()
        {
            let _ = state.global_handles.close(global); // It was live: it belonged to the resource.
        }
    }

    #[inline(always)]
    fn log_idle(&self, number: Id<Retirement>, views: &[Id<View>]) {
        if self.log.is_enabled() {
            for view in views {
                self.log.emit(view.subject(), || EventKind::ViewIdle {});
            }
            self.log.emit(number.subject(), || EventKind::RetireIdle {});
        }
    }

    /// Marks ready retirements idle and queues them as jobs.
    pub(crate) fn start_retirements(&self, state: &mut KernelState, ready: Vec<Id<Retirement>>) {
        for number in ready {
            let KernelState { lifetime, views, .. } = &mut *state;
            let ended = &lifetime.retirements[number].views;
            for view in ended {
                views[*view].stage = ViewStage::Idle;
            }
            self.log_idle(number, ended);
            state.lifetime.jobs.push_back(number);
            self.wake_one(&self.work_available);
        }
    }

    /// Runs a retirement job if its permit is free. Returns whether it ran.
    pub(crate) fn try_retirement(&self, at: &mut Passive, number: Id<Retirement>) -> bool {
        let permit; // Declared before the state guard, so that it is dropped after the guard.
        let mut state = self.state.lock();
        // Another thread may have run the job, and its adapter may be removed.
        let Some(driver) = state.retirement_driver(number) else { return false };
        let Some(keys) = state.retirement_keys(number, &driver, None) else { return false };
        if !state.handle_data_of(number).is_empty() || self.defer_for_paging(&mut state, number) {
            return false;
        }
        // Another thread may have taken the job.
        let Some(place) = state.lifetime.jobs.iter().position(|retirement| *retirement == number)
        else {
            return false;
        };
        // A thread holds the permit: the job stays in the list.
        let Some(taken) = self.try_acquire_permit(&mut state, keys) else { return false };
        permit = taken;
        state.lifetime.jobs.remove(place);
        let scope = DestroyScope { driver: &driver, permit: &permit, process: None, device: None };
        let mut state = self.finish_retirement(at, &scope, state, number);
        permit.release(&mut state);
        true
    }

    /// Runs a retirement on this thread, waiting for its permit. Returns with the state locked.
    pub(crate) fn run_retirement<'k>(
        &'k self,
        at: &mut Passive,
        state: StateGuard<'k, KernelState>,
        number: Id<Retirement>,
        process: Id<Process>,
    ) -> StateGuard<'k, KernelState> {
        // A job may have run it meanwhile.
        let Some(driver) = state.retirement_driver(number) else { return state };
        self.run_retirement_of(at, state, number, process, &driver, None)
    }

    /// The same, for a caller that knows the driver, and may have the device's driver handle.
    #[inline(always)]
    fn run_retirement_of<'k>(
        &'k self,
        at: &mut Passive,
        mut state: StateGuard<'k, KernelState>,
        number: Id<Retirement>,
        process: Id<Process>,
        driver: &Driver,
        device: Option<&DriverDevice>,
    ) -> StateGuard<'k, KernelState> {
        let Some(keys) = state.retirement_keys(number, driver, Some(process)) else {
            return state;
        };
        if self.defer_retirement(&mut state, driver.adapter, number) {
            return state;
        }
        if self.defer_for_paging(&mut state, number) {
            state.lifetime.jobs.push_back(number);
            return state;
        }
        let (permit, state) = if let Some(permit) = self.try_acquire_permit(&mut state, keys) {
            (permit, state)
        } else {
            let Ok((permit, mut state)) = self.acquire_permit_locked(at, state, keys) else {
                // The thread that holds the permit is blocked. The job runs if that thread ever
                // continues.
                let mut state = self.state.lock();
                state.lifetime.jobs.push_back(number);
                self.wake_one(&self.work_available);
                return state;
            };
            // Check again after the wait: another thread may have planned paging for the memory
            // meanwhile.
            if self.defer_for_paging(&mut state, number) {
                state.lifetime.jobs.push_back(number);
                permit.release(&mut state);
                return state;
            }
            (permit, state)
        };
        let scope = DestroyScope { driver, permit: &permit, process: Some(process), device };
        let mut state = self.finish_retirement(at, &scope, state, number);
        permit.release(&mut state);
        state
    }
}

impl Kernel {
    /// Whether paging work for the retirement's allocations is not done. Starts unmapping the
    /// memory that must be unmapped.
    #[inline(always)]
    fn defer_for_paging(&self, state: &mut KernelState, number: Id<Retirement>) -> bool {
        if !state.memory.has_extents() {
            return false;
        }
        let mut pages = self.defer_for_mappings(state, number);
        for extent in state.retiring_extents(number) {
            pages |= !self.empty_extent(state, extent);
        }
        pages
    }
}

impl Kernel {
    /// Whether GPU virtual addresses still map the retirement's allocations. Starts unmapping them.
    fn defer_for_mappings(&self, state: &mut KernelState, number: Id<Retirement>) -> bool {
        let it = &state.lifetime.retirements[number];
        // Without address translation nothing is mapped.
        if state.mmu(state.devices[it.device].adapter).is_none() {
            return false;
        }
        let (views, assumed) = (it.views.clone(), it.assume_not_in_use);
        if self.unmap_views(state, &views, assumed) {
            return true;
        }
        // An allocation that other devices keep open has to wait for no more than this.
        let pending = |view: &Id<View>| {
            let extent = state.extent_of(*view).and_then(|extent| state.memory.extent(extent));
            extent.is_some_and(|extent| extent.pending > 0)
        };
        views.iter().any(pending)
    }
}

impl Kernel {
    /// The token of a thread that waits for a retirement; `None` if the retirement has ended.
    fn retirement_token(
        &self,
        state: &mut KernelState,
        number: Id<Retirement>,
        device: Id<Device>,
    ) -> Option<WaitToken> {
        let waits = state.describe_retirement_waits(number);
        let token = self.work_token(state, device, format!("{number}{waits}"));
        let it = state.lifetime.retirements.get_mut(number)?;
        it.waiter = Some(token.clone());
        Some(token)
    }

    /// Has the threads that wait for retirements of a device check again: the device ends.
    pub(crate) fn wake_retirement_waits(&self, state: &KernelState, device: Id<Device>) {
        let own = state.lifetime.retirements.iter().filter(|(_, it)| it.device == device);
        if self.host.expects_clients() {
            own.filter_map(|(_, it)| it.waiter.as_ref()).for_each(|token| self.wake_one(token));
        }
    }
}

impl KernelState {
    /// The driver that a retirement calls.
    fn retirement_driver(&self, number: Id<Retirement>) -> Option<Arc<Driver>> {
        let it = self.lifetime.retirements.get(number)?;
        let adapter = self.devices.get(it.device)?.adapter;
        Some(self.adapters.get(adapter)?.driver.clone())
    }

    /// The permit keys that a retirement needs.
    #[inline(always)]
    fn retirement_keys(
        &self,
        number: Id<Retirement>,
        driver: &Driver,
        process: Option<Id<Process>>,
    ) -> Option<PermitKeys> {
        let it = self.lifetime.retirements.get(number)?;
        let mut keys = ThreadingLevel::Zero.keys(driver.adapter, driver.generation, process);
        if let Some(resource) = it.resource {
            keys = keys.with_resource(resource);
        }
        Some(keys)
    }

    /// Whether a running call lists a view that is to be destroyed. A bad handle is reported later.
    fn is_target_listed(
        &self,
        process: ProcessId,
        device: Id<Device>,
        target: &DestroyTarget,
    ) -> bool {
        let listed = |handle: &Handle| {
            let view = self.resolve_view(process, Argument::Allocation(0), *handle);
            view.is_ok_and(|view| self.schedule.is_listed(view))
        };
        match target {
            DestroyTarget::Nothing => false,
            DestroyTarget::Allocation(handle) => listed(handle),
            DestroyTarget::List(list) => list.iter().any(listed),
            DestroyTarget::Resource(handle) => {
                let number = self.resource_retire_target(process, device, *handle).ok();
                let view = number.and_then(|number| self.resource_views.get(number));
                view.is_some_and(|it| it.views.iter().any(|view| self.schedule.is_listed(*view)))
            }
        }
    }

    /// A device's view of a resource, to be retired as a whole.
    fn resource_retire_target(
        &self,
        process: ProcessId,
        device: Id<Device>,
        handle: Handle,
    ) -> Result<Id<ResourceView>, KernelError> {
        let argument = Argument::Resource;
        let number = self.resolve_handle::<ResourceView>(process, argument, handle)?;
        let owner = self.resource_views[number].device;
        if owner == device {
            return Ok(number);
        }
        Err(KernelError::OtherDevice { argument, handle, owner: owner.subject() })
    }

    /// The view of a handle, and the resource that its allocation belongs to.
    #[inline(always)]
    fn retire_target(
        &self,
        process: ProcessId,
        device: Id<Device>,
        argument: Argument,
        handle: Handle,
    ) -> Result<(Id<View>, Option<Id<Resource>>), KernelError> {
        let number = self.resolve_view(process, argument, handle)?;
        let removed = || KernelError::Removed(number.subject());
        let view = self.views.get(number).ok_or_else(removed)?;
        if view.device != device {
            let owner = view.device.subject();
            return Err(KernelError::OtherDevice { argument, handle, owner });
        }
        let resource = self.allocations.get(view.allocation).ok_or_else(removed)?.resource;
        if let Some(resource) = resource.filter(|resource| self.resources[*resource].shared) {
            return Err(KernelError::SharedMember(resource.subject()));
        }
        Ok((number, resource))
    }

    /// The views of a list, and the resource of their allocations. Fails if any handle is invalid.
    fn list_retire_target(
        &self,
        process: ProcessId,
        device: Id<Device>,
        list: &[Handle],
    ) -> Result<(IdList<View>, Option<Id<Resource>>), KernelError> {
        let mut views = IdList::new();
        let mut seen = BTreeSet::new();
        let mut first = None;
        for (place, handle) in list.iter().enumerate() {
            let argument = Argument::Allocation(place);
            let (number, resource) = self.retire_target(process, device, argument, *handle)?;
            if !seen.insert(number) {
                return Err(KernelError::Duplicate(*handle));
            }
            let first = *first.get_or_insert(resource);
            if first != resource {
                let subject = |resource: Option<Id<Resource>>| resource.map(Id::subject);
                return Err(KernelError::MixedList {
                    first: subject(first),
                    other: subject(resource),
                });
            }
            views.push(number);
        }
        Ok((views, first.flatten()))
    }

    /// The extents of the allocations whose last views a retirement ends.
    #[inline]
    fn retiring_extents(&self, retirement: Id<Retirement>) -> IdList<Extent> {
        let it = &self.lifetime.retirements[retirement];
        let mut extents = IdList::new();
        for view in &it.views {
            let of = self.views.get(*view).map(|view| view.allocation);
            let Some(allocation) = of.and_then(|of| self.allocations.get(of)) else { continue };
            let last = allocation.views.len() == 1
                || allocation.views.iter().all(|other| it.views.contains(other));
            if !last || self.is_held_beside_ending(allocation.resource) {
                continue;
            }
            if allocation.renames.is_some() {
                extents.extend(allocation.extents());
            } else if let Some(extent) = allocation.extent {
                extents.push(extent);
            }
        }
        extents
    }

    /// Takes the retirements off a device's queue whose work is complete.
    pub(crate) fn retire_ready(&mut self, device: Id<Device>) -> Vec<Id<Retirement>> {
        let mut ready = Vec::new();
        while let Some(it) = self.devices.get(device)
            && let Some(next) = it.retirements.front().copied()
            && (it.lost.is_some() || self.is_retirement_idle(it.adapter, next))
        {
            ready.push(next);
            self.devices[device].retirements.pop_front();
        }
        ready
    }

    fn is_retirement_idle(&self, adapter: Id<Adapter>, retirement: Id<Retirement>) -> bool {
        let waits =
            self.lifetime.retirements.get(retirement).map(|retirement| retirement.waits.as_slice());
        waits.unwrap_or_default().iter().all(|queue_point| self.is_work_done(adapter, *queue_point))
    }

    /// Lists retirements among the live objects.
    pub(crate) fn list_retirements(&self, all: &mut Vec<LiveObject>) {
        for (number, retirement) in self.lifetime.retirements.iter() {
            let waits = self.describe_retirement_waits(number);
            all.push(LiveObject {
                subject: number.subject(),
                owner: Some(retirement.device.subject()),
                reasons: vec![format!("ends {} views{waits}", retirement.views.len())],
            });
        }
    }

    /// Describes as text what a retirement waits for.
    pub(crate) fn describe_retirement_waits(&self, number: Id<Retirement>) -> String {
        // The retirement may have ended meanwhile.
        let Some(it) = self.lifetime.retirements.get(number) else { return String::new() };
        let message = |work: &QueuePoint| match *work {
            QueuePoint::Context(context, packet) => format!(
                ", behind packet {packet} of {}{}",
                context.subject(),
                self.describe_queue(context)
            ),
            QueuePoint::Node(node, fence) => {
                format!(", behind fence {fence} of {}", self.node_subject(it.device, node))
            }
        };
        it.waits.iter().map(message).collect()
    }

    pub(crate) fn node_subject(&self, device: Id<Device>, node: usize) -> Subject {
        let adapter = self.devices.get(device).and_then(|device| self.adapters.get(device.adapter));
        adapter
            .and_then(|adapter| adapter.nodes.get(node))
            .map_or(Kind::Node.subject(0), Node::subject)
    }
}
