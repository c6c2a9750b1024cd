//! The end of resources that NT objects kept alive.
//!
//! # Invariants
//!
//! 1. The last reference of NT objects to a resource is released under the permit of the resource,
//!    because a retirement under that permit decides by it whether its view was the last reason to
//!    stay alive. A retirement releases a reference whose end waits for that permit.
//! 2. A resource without a view is destroyed after the paging work for its memory is done.

use crate::adapter::start::Adapter;
use crate::base::id_list::{Id, IdList};
use crate::ddi::Driver;
use crate::ddi::permit::{PermitKeys, ThreadingLevel};
use crate::kernel::Kernel;
use crate::lifetime::destroy::DestroyScope;
use crate::lifetime::nt_object::{NtObject, NtParts};
use crate::lock::StateGuard;
use crate::memory::Extent;
use crate::objects::allocation::Allocation;
use crate::objects::resource::Resource;
use crate::state::KernelState;
use flight::{EventKind, Passive, Subject};
use std::sync::Arc;

impl Kernel {
    /// Releases a reference of an NT object to a resource: now, or in a job.
    pub(super) fn release_held_resource(&self, state: &mut KernelState, resource: Id<Resource>) {
        let it = &mut state.resources[resource];
        if it.nt_holds > 1 {
            it.nt_holds -= 1;
        } else {
            state.lifetime.nt.ends.push_back(resource);
            self.wake_one(&self.work_available);
        }
    }

    /// Releases one resource whose permit is free, and destroys it if nothing else keeps it alive.
    /// Returns whether it did.
    pub(crate) fn try_nt_end(&self, at: &mut Passive) -> bool {
        let mut place = 0;
        loop {
            let Some(resource) = self.state.lock().lifetime.nt.ends.get(place).copied() else {
                return false;
            };
            if self.try_release_resource(at, resource) {
                return true;
            }
            place += 1; // It waits for its permit, paging work or the driver.
        }
    }

    fn try_release_resource(&self, at: &mut Passive, resource: Id<Resource>) -> bool {
        let permit; // Declared before the state guard, so that it is dropped after the guard.
        let mut state = self.state.lock();
        // Another thread may have taken the job.
        let ends = &state.lifetime.nt.ends;
        let Some(place) = ends.iter().position(|waiting| *waiting == resource) else {
            return false;
        };
        if !self.is_ready_to_end(&mut state, resource) {
            return false;
        }
        let (driver, keys) = state.nt_end_keys(resource);
        let Some(taken) = self.try_acquire_permit(&mut state, keys) else { return false };
        permit = taken;
        state.lifetime.nt.ends.remove(place);
        let scope = DestroyScope { driver: &driver, permit: &permit, process: None, device: None };
        let mut state = self.release_last_hold(at, &scope, state, resource);
        permit.release(&mut state);
        self.wake_all(&mut state);
        true
    }

    /// Whether a resource can be released now. Starts unmapping memory that must be unmapped, if
    /// the resource is to be destroyed.
    fn is_ready_to_end(&self, state: &mut KernelState, resource: Id<Resource>) -> bool {
        let it = &state.resources[resource];
        if !it.views.is_empty() || it.nt_holds > 1 {
            return true;
        }
        if state.has_handle_data(resource) {
            return false;
        }
        let mut ready = true;
        for extent in state.resource_extents(resource) {
            ready &= self.empty_extent(state, extent);
        }
        ready
    }

    /// Releases a reference under the resource's permit. Returns with the state locked.
    fn release_last_hold<'k>(
        &'k self,
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        mut state: StateGuard<'k, KernelState>,
        resource: Id<Resource>,
    ) -> StateGuard<'k, KernelState> {
        let it = &mut state.resources[resource];
        it.nt_holds -= 1;
        if !it.is_unreferenced() {
            return state;
        }
        let members = IdList::from_slice(&it.members);
        for member in &members {
            let allocation = &mut state.allocations[*member];
            (allocation.in_transition, allocation.decommitted) = (true, true);
            for extent in allocation.take_extents() {
                self.release_extent(&mut state, extent);
            }
            self.log.emit(member.subject(), || EventKind::AllocationDecommitted {});
        }
        self.destroy_orphans(at, scope, state, &members, Some(resource))
    }

    /// An open by an NT handle has ended, which kept the NT object's parts alive.
    pub(super) fn release_nt_object(
        &self,
        at: &mut Passive,
        object: Id<NtObject>,
        parts: &NtParts,
    ) {
        let resource = {
            let state = &mut *self.state.lock();
            self.release_held_parts(state, parts);
            state.lifetime.nt.opening.iter().position(|pair| pair.0 == object).map(|place| {
                let (_, resource) = state.lifetime.nt.opening.swap_remove(place);
                self.release_held_resource(state, resource);
            })
        };
        if resource.is_some() {
            self.try_nt_end(at);
        }
    }

    /// Destroys the resources of an adapter that ends: NT handles do not keep them alive. Its
    /// devices have ended.
    pub(crate) fn end_nt_resources(&self, at: &mut Passive, adapter: Id<Adapter>) {
        let resources = {
            let state = &mut *self.state.lock();
            let held = |resource: &Resource| resource.adapter == adapter && resource.nt_holds > 0;
            let resources = state.resources.select(held);
            for resource in &resources {
                state.resources[*resource].nt_holds = 1;
                for object in state.lifetime.nt.forget_resource(*resource) {
                    let resource = resource.subject();
                    self.log.emit(object.subject(), || EventKind::NtResourceLost { resource });
                }
            }
            resources
        };
        for resource in resources {
            let (driver, keys) = self.state.lock().nt_end_keys(resource);
            let Ok(permit) = self.acquire_permit(at, keys) else { continue };
            let about = resource.subject();
            let idle = |state: &KernelState| {
                let extents = state.resource_extents(resource);
                extents.iter().all(|extent| {
                    state.memory.extent(*extent).is_none_or(|extent| extent.pending == 0)
                })
            };
            while !self.is_ready_to_end(&mut self.state.lock(), resource) {
                let what = |_: &KernelState| format!("the paging work of {about}");
                if !self.wait_until(at, about, what, idle) && !self.fail_paging(adapter) {
                    break;
                }
                if self.state.lock().has_handle_data(resource) {
                    break; // The driver breaks a rule, which is reported where it is found.
                }
            }
            let scope =
                DestroyScope { driver: &driver, permit: &permit, process: None, device: None };
            let mut state = self.release_last_hold(at, &scope, self.state.lock(), resource);
            permit.release(&mut state);
        }
    }
}

impl KernelState {
    /// Releases the last reference of NT objects to a resource, if it waits for the permit of the
    /// resource, which a retirement has: what the retirement ends is destroyed with it.
    pub(super) fn release_ending_hold(&mut self, resource: Id<Resource>) {
        let ends = &mut self.lifetime.nt.ends;
        if let Some(place) = ends.iter().position(|waiting| *waiting == resource) {
            ends.remove(place);
            self.resources[resource].nt_holds -= 1;
        }
    }

    /// Whether NT objects keep a resource alive whose end does not wait for the permit of the
    /// resource.
    pub(super) fn is_held_beside_ending(&self, resource: Option<Id<Resource>>) -> bool {
        let Some(resource) = resource else { return false };
        let ending = u32::from(self.lifetime.nt.ends.contains(&resource));
        self.resources.get(resource).is_some_and(|it| it.nt_holds > ending)
    }

    /// Keeps the parts of an NT object alive while it is opened: its NT handle may be closed.
    pub(super) fn hold_nt_object(&mut self, object: Id<NtObject>) {
        let parts = self.lifetime.nt.objects[object].parts;
        self.hold_sync_objects(parts.sync, parts.keyed_mutex);
        if let Some(resource) = parts.resource {
            self.resources[resource].nt_holds += 1;
            self.lifetime.nt.opening.push((object, resource));
        }
    }

    /// The driver that destroys a resource, and the permit keys for it.
    fn nt_end_keys(&self, resource: Id<Resource>) -> (Arc<Driver>, PermitKeys) {
        let adapter = self.resources[resource].adapter;
        let driver = self.adapters[adapter].driver.clone();
        let keys = ThreadingLevel::Zero.keys(adapter, driver.generation, None);
        (driver, keys.with_resource(resource))
    }

    /// The memory of a resource's allocations.
    fn resource_extents(&self, resource: Id<Resource>) -> Vec<Id<Extent>> {
        let members = self.resources.get(resource).map(|resource| &resource.members);
        let allocations = members.into_iter().flatten().filter_map(|it| self.allocations.get(*it));
        allocations.flat_map(Allocation::extents).collect()
    }

    /// Whether a driver holds handle data of a resource or of one of its allocations.
    fn has_handle_data(&self, resource: Id<Resource>) -> bool {
        if self.lifetime.handle_data.is_empty() {
            return false;
        }
        let members = self.resources[resource].members.iter().map(|member| member.subject());
        let ends: Vec<Subject> = members.chain([resource.subject()]).collect();
        self.lifetime.handle_data.values().any(|reference| ends.contains(&reference.keeps_alive))
    }
}
