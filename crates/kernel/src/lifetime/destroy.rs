//! Closing views and destroying allocations: the driver calls of a retirement.
//!
//! # Invariants
//!
//! 1. Views of a device that end together are closed in one call.
//! 2. Members of a resource are destroyed in one call; a standalone allocation in a call of its
//!    own.
//! 3. A resource is destroyed with the last of its members, once no device has a view of it. Its
//!    driver handle is taken out, lent or moved, and put back under the resource's permit key.

use crate::base::id_list::{Id, IdList};
use crate::ddi::miniport::{
    CallList, DestroyAllocationArgs, DriverAllocation, DriverHandle, DriverResource, DriverView,
    HandleSlot, ResourceDisposition, collect_few,
};
use crate::ddi::permit::DdiPermit;
use crate::ddi::{CallDetails, Driver};
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::process::Process;
use crate::lifetime::retire::Retirement;
use crate::lock::StateGuard;
use crate::objects::allocation::Allocation;
use crate::objects::resource::Resource;
use crate::objects::resource::ResourceView;
use crate::objects::view::View;
use crate::state::KernelState;
use flight::{Component, EventKind, Log, Passive, RuleId, Subject};
use smallvec::SmallVec;

/// The context of destroy calls: the driver, the permit, and the process they are made for.
pub(crate) struct DestroyScope<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) permit: &'a DdiPermit<'a>,
    /// The caller's process; `None` for the system.
    pub(crate) process: Option<Id<Process>>,
}

/// Driver handles, nearly always one.
type DriverHandles = SmallVec<[usize; 2]>;

impl Kernel {
    /// Closes the views of an idle retirement and destroys the allocations they were the last views
    /// of. Returns with the state locked.
    pub(crate) fn finish_retirement<'k>(
        &'k self,
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        mut state: StateGuard<'k, KernelState>,
        number: Id<Retirement>,
    ) -> StateGuard<'k, KernelState> {
        let it = &mut state.lifetime.retirements[number];
        let (device, resource_view) = (it.device, it.resource_view);
        let views = std::mem::take(&mut it.views);
        #[cfg(shuttle)]
        let state = {
            drop(state);
            self.destroy_too_early(at, scope, &views);
            self.state.lock()
        };
        let (orphans, mut state) = self.close_views(at, scope, state, device, &views);
        let ended_resource = resource_view
            .and_then(|resource_view| self.close_resource_view(&mut state, resource_view));
        let mut state = self.destroy_orphans(at, scope, state, &orphans, ended_resource);
        self.log.emit(number.subject(), || EventKind::RetireDone {});
        let over = state.lifetime.retirements.remove(number);
        self.finish_device_retirement(&mut state, device);
        if let Some(token) = over.waiter {
            self.wake_one(&token);
        }
        state
    }

    /// Counts down the device's retirements, and wakes the threads that wait for the last one.
    fn finish_device_retirement(&self, state: &mut KernelState, device: Id<Device>) {
        state.devices[device].retiring -= 1;
        self.wake_all(state);
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
        if closing.len() > 1 {
            closing.sort_unstable();
        }
        self.decommit_allocations(&mut state, &closing, views);
        let take = |view: &Id<View>| state.views[*view].driver_handle.take();
        let mut driver_handles: CallList<DriverView> = collect_few(views.iter().filter_map(take));
        let lent = state.devices[device].driver_handle.clone();
        let watched = state.surviving_allocations(device, &closing, views);
        drop(state);
        let given: DriverHandles = collect_few(driver_handles.iter().map(DriverHandle::as_raw));
        if let (Some(lent), false) = (&lent, driver_handles.is_empty()) {
            let batch = u32::try_from(views.len()).unwrap_or(u32::MAX);
            let log_arguments = |log: &Log| {
                let device = device.subject();
                for view in views {
                    log.emit(view.subject(), || EventKind::DdiCloses { device, batch });
                }
            };
            let details = CallDetails { process: scope.process, log_arguments: &log_arguments };
            // WINDOWS: if the driver returns a failure, the views are closed all the same (our
            // decision).
            let _ = scope.driver.close_allocations(
                at,
                scope.permit,
                details,
                lent,
                driver_handles.drain(..),
            );
            self.judge_references(scope.driver, lent.as_raw(), device.subject(), &watched);
        }
        drop(lent); // Before the views are removed: ending the device needs the only reference.
        let mut state = self.state.lock();
        for (view, driver_handle) in views.iter().zip(given) {
            self.log.emit(view.subject(), || EventKind::ViewClosed {});
            self.end_driver_handle(driver_handle, view.subject(), false);
        }
        let orphans = collect_few(views.iter().filter_map(|view| state.remove_view(*view)));
        (orphans, state)
    }

    /// Decommits the allocations whose last view is idle. `closing` are the ids of the views.
    fn decommit_allocations(
        &self,
        state: &mut KernelState,
        closing: &[Id<View>],
        views: &[Id<View>],
    ) {
        for view in views {
            let number = state.views[*view].allocation;
            // The planted bug of these builds destroys an allocation before its views.
            #[cfg(shuttle)]
            if state.allocations.get(number).is_none() {
                continue;
            }
            let held = state.is_nt_held(number);
            let it = &mut state.allocations[number];
            if !held
                && !it.decommitted
                && it.views.iter().all(|view| closing.binary_search(view).is_ok())
            {
                it.decommitted = true;
                for extent in it.take_extents() {
                    self.release_extent(state, extent);
                }
                self.log.emit(number.subject(), || EventKind::AllocationDecommitted {});
            }
        }
    }

    /// Judges that, after a close, the allocation's driver data does not reference the device's.
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
        let it = state.resource_views.remove(view);
        state.devices[it.device].resource_views.remove(&view);
        self.log.emit(view.subject(), || EventKind::ResourceViewClosed {});
        let resource = &mut state.resources[it.resource];
        resource.views.remove(&view);
        resource.is_unreferenced().then_some(it.resource)
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
            state = self.call_destroy_allocation(at, scope, state, &[*allocation], None);
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
        self.call_destroy_allocation(
            at,
            scope,
            state,
            members,
            Some((resource, driver_handle, goes)),
        )
    }

    /// One call of `DxgkDdiDestroyAllocation`.
    fn call_destroy_allocation<'k>(
        &'k self,
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        mut state: StateGuard<'k, KernelState>,
        allocations: &[Id<Allocation>],
        home: Option<(Id<Resource>, DriverResource, bool)>,
    ) -> StateGuard<'k, KernelState> {
        let take = |allocation: &Id<Allocation>| {
            state
                .allocations
                .get_mut(*allocation)
                .and_then(|allocation| allocation.driver_handle.take())
        };
        let mut handles: CallList<DriverAllocation> =
            collect_few(allocations.iter().filter_map(take));
        drop(state);
        let driver_handles: DriverHandles = collect_few(handles.iter().map(DriverHandle::as_raw));
        let alone = allocations.is_empty();
        let message = home
            .as_ref()
            .map(|(number, driver_handle, goes)| (*number, driver_handle.as_raw(), *goes));
        let log_arguments = |log: &Log| {
            for allocation in allocations {
                log.emit(allocation.subject(), || EventKind::DdiDestroys {
                    adapter: scope.driver.adapter.subject(),
                });
            }
            if let Some((resource, driver_handle, goes)) = message {
                log.emit(resource.subject(), || EventKind::DdiResource {
                    driver_handle: log.pointer_subject(driver_handle),
                    destroy: goes,
                    no_allocations: alone,
                });
            }
        };
        let call = |at: &mut Passive,
                    handles: &mut CallList<_>,
                    resource: Option<ResourceDisposition<'_>>| {
            let args = DestroyAllocationArgs { allocations: handles.drain(..), resource };
            scope.driver.destroy_allocations(at, scope.permit, &log_arguments, args)
        };
        // WINDOWS: if the driver returns a failure, the allocations are destroyed all the same, and
        // are not passed to the driver again (our decision; observation is silent).
        let kept_resource = match home {
            None => {
                let _ = call(at, &mut handles, None);
                None
            }
            Some((_, driver_handle, true)) => {
                let _ = call(at, &mut handles, Some(ResourceDisposition::Destroy(driver_handle)));
                None
            }
            Some((resource, driver_handle, false)) => {
                let changed = call(
                    at,
                    &mut handles,
                    Some(ResourceDisposition::Keep(&driver_handle, HandleSlot::new())),
                );
                Some((resource, changed.ok().flatten().unwrap_or(driver_handle)))
            }
        };
        let mut state = self.state.lock();
        for (allocation, driver_handle) in allocations.iter().zip(driver_handles) {
            // An allocation that was never opened still has memory.
            let extents = state.allocations.get_mut(*allocation).map(Allocation::take_extents);
            for extent in extents.unwrap_or_default() {
                self.release_extent(&mut state, extent);
            }
            state.remove_allocation(*allocation);
            let subject = allocation.subject();
            self.log.emit(subject, || EventKind::AllocationDestroyed {});
            self.end_driver_handle(driver_handle, subject, false);
        }
        match (message, kept_resource) {
            (Some((resource, old, _)), Some((_, driver_handle))) => {
                self.set_resource_handle(&mut state, resource, old, driver_handle);
            }
            (Some((resource, driver_handle, true)), None) => {
                state.resources.take(resource);
                let subject = resource.subject();
                self.log.emit(subject, || EventKind::ResourceDestroyed {});
                self.end_driver_handle(driver_handle, subject, alone);
            }
            _ => (),
        }
        state
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
    /// The driver handles of the allocations that other devices keep open when these views of a
    /// device are closed.
    fn surviving_allocations(
        &self,
        device: Id<Device>,
        closing: &[Id<View>],
        views: &[Id<View>],
    ) -> Vec<(Id<Allocation>, usize)> {
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
        views.iter().filter_map(driver_handle).collect()
    }

    /// Removes a closed view from all tables. Returns its allocation if that was its last view.
    pub(crate) fn remove_view(&mut self, number: Id<View>) -> Option<Id<Allocation>> {
        let view = self.views.take(number)?;
        self.remove_standalone_view(&view);
        // A member that is destroyed by itself may end after the view of its resource.
        if let Some(it) = view.part_of.and_then(|resource| self.resource_views.get_mut(resource)) {
            it.views.remove(&number);
        }
        let held = self.is_nt_held(view.allocation);
        let allocation = self.allocations.get_mut(view.allocation)?;
        allocation.views.retain(|view| *view != number);
        allocation.in_transition = allocation.views.is_empty() && !held;
        allocation.in_transition.then_some(view.allocation)
    }

    /// Takes a view off its device's list of views without a resource. The last view of the list
    /// takes its place.
    fn remove_standalone_view(&mut self, view: &View) {
        let Some(index) = view.standalone_index else { return };
        let list = &mut self.devices[view.device].standalone_views;
        list.swap_remove(index);
        if let Some(moved) = list.get(index) {
            self.views[*moved].standalone_index = Some(index);
        }
    }

    fn remove_allocation(&mut self, number: Id<Allocation>) {
        let removed = self.allocations.take(number);
        let home = removed.and_then(|allocation| allocation.resource);
        // A resource may be destroyed together with its last members.
        if let Some(it) = home.and_then(|resource| self.resources.get_mut(resource)) {
            it.members.remove(&number);
        }
    }
}
