//! Closing views and destroying allocations: the driver calls of a retirement.
//!
//! # Invariants
//!
//! 1. Views of a device that end together are closed in one call.
//! 2. Members of a resource are destroyed in one call; a standalone allocation in a call of its
//!    own.
//! 3. A resource is destroyed with the last of its members, once no device has a view of it. Its
//!    driver handle is taken out, lent or moved, and put back under the resource's permit key.
#![expect(clippy::inline_always, reason = "steps of the path of one allocation")]

use crate::base::id_list::{Id, IdList};
use crate::ddi::miniport::{
    CallList, DestroyAllocationArgs, Drain, DriverAllocation, DriverDevice, DriverHandle,
    DriverResource, DriverResult, DriverView, HandleSlot, ResourceDisposition, collect_few,
};
use crate::ddi::permit::DdiPermit;
use crate::ddi::{CallDetails, Driver};
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::nt_object::is_resource_nt_held;
use crate::lifetime::process::Process;
use crate::lifetime::retire::Retirement;
use crate::lock::StateGuard;
use crate::objects::allocation::Allocation;
use crate::objects::resource::Resource;
use crate::objects::resource::ResourceView;
use crate::objects::view::View;
use crate::state::KernelState;
use flight::{Component, EventKind, Log, Passive, RuleId, Subject, invariant};
use smallvec::SmallVec;
use std::sync::Arc;

/// The context of destroy calls: the driver, the permit, and the process they are made for.
pub(crate) struct DestroyScope<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) permit: &'a DdiPermit<'a>,
    /// The caller's process; `None` for the system.
    pub(crate) process: Option<Id<Process>>,
    /// The driver handle of the device whose views are closed, if the caller is inside the device.
    pub(crate) device: Option<&'a DriverDevice>,
}

/// The values of driver handles, nearly always one.
type DriverHandles = SmallVec<[Option<usize>; 2]>;

impl Kernel {
    /// Closes the views of an idle retirement and destroys the allocations they were the last views
    /// of. Returns with the state locked.
    #[inline(always)]
    pub(crate) fn finish_retirement<'k>(
        &'k self,
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        mut state: StateGuard<'k, KernelState>,
        number: Id<Retirement>,
    ) -> StateGuard<'k, KernelState> {
        #[cfg(shuttle)]
        {
            let views = state.lifetime.retirements[number].views.clone();
            drop(state);
            self.destroy_too_early(at, scope, &views);
            state = self.state.lock();
        }
        if let Some(resource) = state.lifetime.retirements[number].resource {
            state.release_ending_hold(resource);
        }
        let it = &mut state.lifetime.retirements[number];
        let (device, resource, resource_view) = (it.device, it.resource, it.resource_view);
        // The retirement lists no view that is removed.
        let mut state = if let &[view] = &it.views[..] {
            it.views.clear();
            let (orphan, state) = self.close_view(at, scope, state, device, view);
            match (resource, orphan) {
                (Some(_), _) => {
                    self.destroy_closed(at, scope, state, orphan.as_slice(), resource_view)
                }
                (None, Some(allocation)) => self.destroy_standalone(at, scope, state, allocation),
                (None, None) => state,
            }
        } else {
            let views = std::mem::take(&mut it.views);
            let (orphans, state) = self.close_views(at, scope, state, device, &views);
            self.destroy_closed(at, scope, state, &orphans, resource_view)
        };
        self.log.emit(number.subject(), || EventKind::RetireDone {});
        let waiter = state.lifetime.retirements.discard(number, |over| over.waiter.clone());
        self.finish_device_retirement(&mut state, device);
        if let Some(token) = waiter.flatten() {
            self.wake_one(&token);
        }
        state
    }

    /// Counts down the device's retirements, and wakes the threads that wait for the last one.
    #[inline(always)]
    fn finish_device_retirement(&self, state: &mut KernelState, device: Id<Device>) {
        state.devices[device].retiring -= 1;
        self.wake_all(state);
    }

    /// Removes the view of a resource that ends as a whole, and destroys the allocations that have
    /// no views any more.
    fn destroy_closed<'k>(
        &'k self,
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        mut state: StateGuard<'k, KernelState>,
        orphans: &[Id<Allocation>],
        resource_view: Option<Id<ResourceView>>,
    ) -> StateGuard<'k, KernelState> {
        let ended = resource_view.and_then(|view| self.close_resource_view(&mut state, view));
        self.destroy_orphans(at, scope, state, orphans, ended)
    }

    /// Closes one view, by the same steps as several, without lists: the usual retirement. Returns
    /// its allocation if that was its last view, with the state locked.
    #[inline(always)]
    fn close_view<'k>(
        &'k self,
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        mut state: StateGuard<'k, KernelState>,
        device: Id<Device>,
        view: Id<View>,
    ) -> (Option<Id<Allocation>>, StateGuard<'k, KernelState>) {
        let views = [view];
        let (driver_handle, shared) = self.begin_close(&mut state, view, &views);
        let given = driver_handle.as_ref().map(DriverHandle::as_raw);
        let mut handles = [driver_handle];
        let lent = state.lend_device(scope, device);
        let watched = state.watched_allocations(shared, device, &views, &views);
        drop(state);
        if given.is_some() {
            self.call_close_allocation(at, scope, (device, lent), &views, &mut handles, &watched);
        }
        let mut state = self.state.lock();
        self.log_close(view, given);
        (state.remove_view(view), state)
    }

    /// Closes views of a device in one driver call. Decommits first the allocations they are the
    /// last views of. Returns those allocations, with the state locked.
    pub(crate) fn close_views<'k>(
        &'k self,
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        mut state: StateGuard<'k, KernelState>,
        device: Id<Device>,
        views: &[Id<View>],
    ) -> (IdList<Allocation>, StateGuard<'k, KernelState>) {
        let mut closing = IdList::from(views);
        closing.sort_unstable();
        let mut shared = false;
        let begin = |view: &Id<View>| {
            let (driver_handle, has_others) = self.begin_close(&mut state, *view, &closing);
            shared |= has_others;
            driver_handle
        };
        let mut handles: CallList<Option<DriverView>> = collect_few(views.iter().map(begin));
        let given: DriverHandles =
            handles.iter().map(|handle| handle.as_ref().map(DriverHandle::as_raw)).collect();
        handles.retain(|handle| handle.is_some());
        let lent = state.lend_device(scope, device);
        let watched = state.watched_allocations(shared, device, &closing, views);
        drop(state);
        if !handles.is_empty() {
            self.call_close_allocation(at, scope, (device, lent), views, &mut handles, &watched);
        }
        let mut state = self.state.lock();
        for (view, driver_handle) in views.iter().zip(&given) {
            self.log_close(*view, *driver_handle);
        }
        let orphans = collect_few(views.iter().filter_map(|view| state.remove_view(*view)));
        (orphans, state)
    }

    /// Decommits the allocation of a view if that is its last view; `closing` are the views that
    /// are closed together, in order. Takes the driver handle of the view, and returns whether the
    /// allocation has other views, too.
    #[inline(always)]
    fn begin_close(
        &self,
        state: &mut KernelState,
        view: Id<View>,
        closing: &[Id<View>],
    ) -> (Option<DriverView>, bool) {
        let it = &mut state.views[view];
        let (number, driver_handle) = (it.allocation, it.driver_handle.take());
        // The planted bug of these builds destroys an allocation before its views.
        #[cfg(shuttle)]
        if state.allocations.get(number).is_none() {
            return (driver_handle, false);
        }
        let it = &mut state.allocations[number];
        let shared = it.views.len() > 1;
        if !is_resource_nt_held(&state.resources, it.resource)
            && !it.decommitted
            && it.views.iter().all(|view| closing.binary_search(view).is_ok())
        {
            it.decommitted = true;
            if it.has_memory() {
                self.release_memory(state, number);
            }
            self.log.emit(number.subject(), || EventKind::AllocationDecommitted {});
        }
        (driver_handle, shared)
    }

    /// Logs that a view is closed, if it was ever opened.
    #[inline(always)]
    fn log_close(&self, view: Id<View>, driver_handle: Option<usize>) {
        if let Some(driver_handle) = driver_handle {
            self.log.emit(view.subject(), || EventKind::ViewClosed {});
            self.end_driver_handle(driver_handle, view.subject(), false);
        }
    }

    /// Releases the memory of an allocation that has memory.
    fn release_memory(&self, state: &mut KernelState, allocation: Id<Allocation>) {
        for extent in state.allocations[allocation].take_extents() {
            self.release_extent(state, extent);
        }
    }

    /// One call of `DxgkDdiCloseAllocation`, with the device's driver handle.
    #[inline(always)]
    fn call_close_allocation(
        &self,
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        (device, lent): (Id<Device>, Option<Arc<DriverDevice>>),
        views: &[Id<View>],
        driver_handles: &mut [Option<DriverView>],
        watched: &[(Id<Allocation>, usize)],
    ) {
        // The device's handle is dropped before the views are removed: ending the device needs the
        // only reference.
        let Some(lent) = scope.device.or(lent.as_deref()) else { return };
        let batch = u32::try_from(views.len()).unwrap_or(u32::MAX);
        let log_arguments = |log: &Log| {
            let device = device.subject();
            for view in views {
                log.emit(view.subject(), || EventKind::DdiCloses { device, batch });
            }
        };
        let details = CallDetails { process: scope.process, log_arguments: &log_arguments };
        let handles = Drain::new(driver_handles);
        // WINDOWS: if the driver returns a failure, the views are closed all the same (our
        // decision).
        let _ = scope.driver.close_allocations(at, scope.permit, details, lent, handles);
        self.judge_references(scope.driver, lent.as_raw(), device.subject(), watched);
    }

    /// Judges that, after a close, the allocation's driver data does not reference the device's.
    #[inline(always)]
    fn judge_references(
        &self,
        driver: &Driver,
        device_word: usize,
        device: Subject,
        allocations: &[(Id<Allocation>, usize)],
    ) {
        for (number, driver_handle) in allocations {
            let about = number.subject();
            let broken = driver.pool.refers_to(*driver_handle, device_word).then(|| {
                format!(
                    "the driver's data of {about} still points at its data of {device}, \
                         which has closed the allocation: allocations belong to the adapter"
                )
            });
            let place = "DxgkDdiCloseAllocation.hDevice";
            self.log.judge(RuleId::KMD_ALLOC_009, Component::Driver, about, place, broken);
        }
    }

    /// Removes a device's view of a resource. Returns the resource if that was its last view.
    pub(crate) fn close_resource_view(
        &self,
        state: &mut KernelState,
        view: Id<ResourceView>,
    ) -> Option<Id<Resource>> {
        let facts = |it: &ResourceView| (it.resource, it.device, it.device_index);
        let removed = state.resource_views.discard(view, facts);
        let (number, device, index) = invariant(removed, "a view of a resource is closed once");
        // A view that was never published is not listed.
        if let Some(index) = index {
            state.remove_device_view(device, index);
        }
        self.log.emit(view.subject(), || EventKind::ResourceViewClosed {});
        let resource = &mut state.resources[number];
        resource.views.remove(view);
        resource.is_unreferenced().then_some(number)
    }

    /// Destroys allocations without views in the driver: the members of one resource in one call,
    /// standalone allocations in a call each. `ended` is a resource that may now be destroyed, with
    /// its members or alone.
    ///
    /// Returns with the state locked, as do the functions below.
    pub(crate) fn destroy_orphans<'k>(
        &'k self,
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        mut state: StateGuard<'k, KernelState>,
        orphans: &[Id<Allocation>],
        ended: Option<Id<Resource>>,
    ) -> StateGuard<'k, KernelState> {
        let resource = |allocation: &Id<Allocation>| {
            state.allocations.get(*allocation).and_then(|allocation| allocation.resource)
        };
        let home = ended.or_else(|| orphans.iter().find_map(resource));
        if let Some(resource) = home {
            return self.destroy_members(at, scope, state, resource, orphans);
        }
        for allocation in orphans {
            state = self.destroy_standalone(at, scope, state, *allocation);
        }
        state
    }

    /// Destroys members of a resource. Destroys the resource with its last members, if no device
    /// has a view of it.
    fn destroy_members<'k>(
        &'k self,
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        mut state: StateGuard<'k, KernelState>,
        resource: Id<Resource>,
        members: &[Id<Allocation>],
    ) -> StateGuard<'k, KernelState> {
        // Another thread may have destroyed it meanwhile.
        let Some(it) = state.resources.get_mut(resource) else { return state };
        // The given allocations are all members, so equal counts mean that no other member is left.
        let last = it.members.len() == members.len();
        let goes = it.is_unreferenced() && last;
        if members.is_empty() && !goes {
            return state; // Members in earlier retirements keep it alive.
        }
        // Another call may have the handle now.
        let Some(driver_handle) = it.driver_handle.take() else { return state };
        self.destroy_with_resource(at, scope, state, members, (resource, driver_handle, goes))
    }

    /// Destroys an allocation without a resource, in a driver call of its own.
    #[inline(always)]
    fn destroy_standalone<'k>(
        &'k self,
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        mut state: StateGuard<'k, KernelState>,
        allocation: Id<Allocation>,
    ) -> StateGuard<'k, KernelState> {
        let mut handle = [state.take_driver_handle(allocation)];
        drop(state);
        let given = handle[0].as_ref().map(DriverHandle::as_raw);
        let handles = &mut handle[..usize::from(given.is_some())];
        let _ = Self::call_destroy_allocation(at, scope, (&[allocation], handles), None, None);
        let mut state = self.state.lock();
        if let Some(given) = given {
            self.end_allocation(&mut state, allocation, given);
        }
        state
    }

    /// Destroys members of a resource, and the resource if it goes with them, in one driver call.
    fn destroy_with_resource<'k>(
        &'k self,
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        mut state: StateGuard<'k, KernelState>,
        members: &[Id<Allocation>],
        (resource, driver_handle, goes): (Id<Resource>, DriverResource, bool),
    ) -> StateGuard<'k, KernelState> {
        let take = |member: &Id<Allocation>| state.take_driver_handle(*member).map(Some);
        let mut handles: CallList<Option<DriverAllocation>> =
            collect_few(members.iter().filter_map(take));
        drop(state);
        let given: DriverHandles =
            collect_few(handles.iter().map(|handle| handle.as_ref().map(DriverHandle::as_raw)));
        let old = driver_handle.as_raw();
        let ends = Some((resource, old, goes));
        let list = (members, &mut handles[..]);
        let kept_resource = if goes {
            let disposition = ResourceDisposition::Destroy(driver_handle);
            let _ = Self::call_destroy_allocation(at, scope, list, ends, Some(disposition));
            None
        } else {
            let disposition = ResourceDisposition::Keep(&driver_handle, HandleSlot::new());
            let changed = Self::call_destroy_allocation(at, scope, list, ends, Some(disposition));
            Some(changed.ok().flatten().unwrap_or(driver_handle))
        };
        let mut state = self.state.lock();
        for (member, given) in members.iter().zip(given.into_iter().flatten()) {
            self.end_allocation(&mut state, *member, given);
        }
        if let Some(driver_handle) = kept_resource {
            self.set_resource_handle(&mut state, resource, old, driver_handle);
        } else {
            state.resources.take(resource);
            let subject = resource.subject();
            self.log.emit(subject, || EventKind::ResourceDestroyed {});
            self.end_driver_handle(old, subject, members.is_empty());
        }
        state
    }

    /// One call of `DxgkDdiDestroyAllocation`. `ends` is the resource with its driver handle, and
    /// whether it goes.
    ///
    /// WINDOWS: if the driver returns a failure, the allocations are destroyed all the same, and
    /// are not passed to the driver again (our decision; observation is silent).
    #[inline(always)]
    fn call_destroy_allocation(
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        (allocations, handles): (&[Id<Allocation>], &mut [Option<DriverAllocation>]),
        ends: Option<(Id<Resource>, usize, bool)>,
        resource: Option<ResourceDisposition<'_>>,
    ) -> DriverResult<Option<DriverResource>> {
        let log_arguments = |log: &Log| {
            for allocation in allocations {
                log.emit(allocation.subject(), || EventKind::DdiDestroys {
                    adapter: scope.driver.adapter.subject(),
                });
            }
            if let Some((resource, driver_handle, goes)) = ends {
                log.emit(resource.subject(), || EventKind::DdiResource {
                    driver_handle: log.pointer_subject(driver_handle),
                    destroy: goes,
                    no_allocations: allocations.is_empty(),
                });
            }
        };
        let args = DestroyAllocationArgs { allocations: Drain::new(handles), resource };
        scope.driver.destroy_allocations(at, scope.permit, &log_arguments, args)
    }

    /// Removes an allocation that the driver has destroyed.
    #[inline(always)]
    fn end_allocation(&self, state: &mut KernelState, number: Id<Allocation>, given: usize) {
        // An allocation that was never opened still has memory.
        if state.allocations.get(number).is_some_and(Allocation::has_memory) {
            self.release_memory(state, number);
        }
        state.remove_allocation(number);
        self.log.emit(number.subject(), || EventKind::AllocationDestroyed {});
        self.end_driver_handle(given, number.subject(), false);
    }

    /// Puts a resource's driver handle back. A changed handle replaces the old one.
    pub(crate) fn set_resource_handle(
        &self,
        state: &mut KernelState,
        resource: Id<Resource>,
        old: usize,
        driver_handle: DriverResource,
    ) {
        let subject = resource.subject();
        if driver_handle.as_raw() != old {
            self.end_driver_handle(old, subject, false);
            self.set_driver_handle(driver_handle.as_raw(), subject);
        }
        // The resource may have been destroyed during the driver call.
        if let Some(it) = state.resources.get_mut(resource) {
            it.handle_value = driver_handle.as_raw();
            it.driver_handle = Some(driver_handle);
        }
    }
}

impl KernelState {
    /// The driver handle of a device, for a caller that is not inside the device.
    #[inline(always)]
    fn lend_device(
        &self,
        scope: &DestroyScope<'_>,
        device: Id<Device>,
    ) -> Option<Arc<DriverDevice>> {
        if scope.device.is_some() { None } else { self.devices[device].driver_handle.clone() }
    }

    /// Takes an allocation's driver handle, for the call that destroys it.
    #[inline(always)]
    fn take_driver_handle(&mut self, allocation: Id<Allocation>) -> Option<DriverAllocation> {
        self.allocations.get_mut(allocation).and_then(|allocation| allocation.driver_handle.take())
    }

    /// The driver handles of the allocations that other devices keep open when these views of a
    /// device are closed. `shared`: there may be such allocations.
    #[inline]
    fn watched_allocations(
        &self,
        shared: bool,
        device: Id<Device>,
        closing: &[Id<View>],
        views: &[Id<View>],
    ) -> CallList<(Id<Allocation>, usize)> {
        if !shared {
            return CallList::new();
        }
        let driver_handle = |it: &Id<View>| {
            let number = self.views.get(*it)?.allocation;
            let allocation = self.allocations.get(number)?;
            let stays = |view: &&Id<View>| closing.binary_search(view).is_err();
            let mut remaining = allocation.views.iter().filter(stays).peekable();
            let lives = remaining.peek().is_some();
            let mine = remaining
                .any(|view| self.views.get(*view).is_some_and(|view| view.device == device));
            let driver_handle = allocation.driver_handle.as_ref()?.as_raw();
            (lives && !mine).then_some((number, driver_handle))
        };
        collect_few(views.iter().filter_map(driver_handle))
    }

    /// Removes a closed view from all tables. Returns its allocation if that was its last view.
    #[inline(always)]
    pub(crate) fn remove_view(&mut self, number: Id<View>) -> Option<Id<Allocation>> {
        let facts =
            |view: &View| (view.allocation, view.device, view.part_of, view.standalone_index);
        let (of, device, part_of, standalone_index) = self.views.discard(number, facts)?;
        if let Some(index) = standalone_index {
            self.remove_standalone_view(device, index);
        }
        // A member that is destroyed by itself may end after the view of its resource.
        if let Some(it) = part_of.and_then(|resource| self.resource_views.get_mut(resource)) {
            it.views.remove(number);
        }
        let allocation = self.allocations.get_mut(of)?;
        if allocation.views.last() == Some(&number) {
            allocation.views.pop();
        } else if let Some(place) = allocation.views.iter().position(|view| *view == number) {
            allocation.views.remove(place);
        }
        allocation.in_transition = allocation.views.is_empty()
            && !is_resource_nt_held(&self.resources, allocation.resource);
        allocation.in_transition.then_some(of)
    }

    /// Takes a view off its device's list of views without a resource. The last view of the list
    /// takes its place.
    #[inline(always)]
    fn remove_standalone_view(&mut self, device: Id<Device>, index: u32) {
        let list = &mut self.devices[device].standalone_views;
        list.swap_remove(index as usize);
        if let Some(moved) = list.get(index as usize) {
            self.views[*moved].standalone_index = Some(index);
        }
    }

    /// Takes a view of a resource off its device's list. The last view of the list takes its place.
    fn remove_device_view(&mut self, device: Id<Device>, index: usize) {
        let list = &mut self.devices[device].resource_views;
        list.swap_remove(index);
        if let Some(moved) = list.get(index) {
            self.resource_views[*moved].device_index = Some(index);
        }
    }

    #[inline(always)]
    fn remove_allocation(&mut self, number: Id<Allocation>) {
        let facts = |it: &Allocation| (it.resource, it.adapter, it.size);
        let Some((home, adapter, bytes)) = self.allocations.discard(number, facts) else { return };
        if let Some(adapter) = self.adapters.get_mut(adapter) {
            adapter.destroyed.count_one(bytes);
        }
        // A resource may be destroyed together with its last members.
        if let Some(it) = home.and_then(|resource| self.resources.get_mut(resource)) {
            it.members.remove(number);
        }
    }
}
