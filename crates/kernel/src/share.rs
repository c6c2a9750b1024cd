//! Sharing: resources that other devices and processes open by a global name.
//!
//! # Invariants
//!
//! 1. A shared resource is sealed: its members are what they were when it was created.
//! 2. An opener has a view of the resource and of every member, opened in one call. The
//!    resource lives while any device has a view, and each ends its own, in any order.
//! 3. A global name holds nothing: it ends with the last local one.

use crate::allocation::Allocation;
use crate::build::{NewObjects, check_still_valid};
use crate::create::{CreateAllocationRequest, CreateScope};
use crate::device::RundownGuard;
use crate::gate::{ThreadingLevel, PermitKey, PermitMode};
use crate::handle::ObjectId;
use crate::handle::{HandleError, Handle, ReservedHandles};
use crate::kernel::Kernel;
use crate::lock::StateGuard;
use crate::process::ProcessId;
use crate::refused::{Argument, KernelError};
use crate::resource::Resource;
use crate::store::Id;
use crate::store::IdList;
use crate::world::KernelState;
use flight::{Passive, RuleId, Subject, Component};

/// What an opener has to know (`D3DKMTQueryResourceInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareInfo {
    /// The resource, for events.
    pub resource: Subject,
    /// How many bytes of the runtime's private data it has.
    pub runtime: usize,
    /// How many bytes of the driver's private data the resource has.
    pub private: usize,
    /// How many bytes of the driver's private data its members have together.
    pub total: usize,
    /// How many members it has.
    pub members: usize,
}

/// What was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenResourceResponse {
    /// The opener's name of the resource.
    pub resource: Handle,
    /// The opener's names of the members, in the order they were created.
    pub allocations: Vec<Handle>,
    /// The runtime's private data, as it was given at creation.
    pub runtime: Vec<u8>,
    /// The resource's private data for the driver, if a client gave it; what a driver supplied
    /// for a standard allocation is not told.
    pub private: Vec<u8>,
    /// Each member's private data for the driver.
    pub privates: Vec<Vec<u8>>,
}

impl Kernel {
    /// What a shared resource has, for a device of its adapter.
    pub fn share_info(
        &self,
        process: ProcessId,
        device: Handle,
        global: Handle,
    ) -> Result<ShareInfo, KernelError> {
        let inside = self.enter_device(process, device)?;
        let world = self.state.lock();
        let (number, it) = world.find_shared_resource(&inside, global)?;
        let members = it.members.iter().filter_map(|it| world.allocations.get(*it));
        Ok(ShareInfo {
            resource: number.subject(),
            runtime: it.runtime.len(),
            private: it.private.len(),
            total: members.map(|it| it.private.len()).sum(),
            members: it.members.len(),
        })
    }

    /// Opens a shared resource for a device (`D3DKMTOpenResource`).
    pub fn open_resource(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        global: Handle,
    ) -> Result<OpenResourceResponse, KernelError> {
        let inside = self.enter_device(process, device)?;
        let (resource, members) = {
            let world = self.state.lock();
            let (resource, it) = world.find_shared_resource(&inside, global)?;
            (resource, it.members.len())
        };
        let mut names = {
            let mut world = self.state.lock();
            self.reserve_handles(&mut world, process.0, members + 1)?
        };
        let opens = Some((global, resource));
        let creating = CreateScope { process: process.0, device: &inside, joins: None, shared: opens };
        let opened = self.open_with_permit(at, &creating, resource, &mut names);
        if opened.is_err() {
            self.cancel_handles(&mut self.state.lock(), process.0, names);
        }
        opened
    }

    /// The part that calls the driver. On failure everything but the names is undone.
    fn open_with_permit(
        &self,
        at: &mut Passive,
        creating: &CreateScope<'_>,
        resource: Id<Resource>,
        names: &mut ReservedHandles,
    ) -> Result<OpenResourceResponse, KernelError> {
        let inside = creating.device;
        let generation = inside.driver.generation;
        let mut keys = ThreadingLevel::Zero.keys(inside.adapter, generation, creating.process);
        keys.push((PermitKey::Resource(resource), PermitMode::Exclusive));
        let permit = self.acquire_permit(at, keys)?;
        let (mut built, mut order, (runtime, private)) = {
            let world = &mut *self.state.lock();
            // Who parked looks again.
            check_still_valid(world, creating)?;
            let zombie = KernelError::ResourceDestroyed(resource.subject());
            let it = world.resources.get(resource).ok_or(zombie)?;
            let allocations: IdList<Allocation> = it.members.iter().copied().collect();
            let private =
                |it: &Id<Allocation>| world.allocations.get(*it).map(|it| it.private.clone());
            let order = CreateAllocationRequest {
                allocations: allocations.iter().filter_map(private).collect(),
                private: it.private.clone(),
                ..CreateAllocationRequest::default()
            };
            let runtime = it.runtime.clone();
            let told = if it.standard { Vec::new() } else { it.private.clone() };
            let place = Some(self.create_resource_view(world, inside, resource));
            (NewObjects { resource: place, allocations, ..NewObjects::default() }, order, (runtime, told))
        };
        self.state.lock().bind_view_handles(creating, &mut built, names);
        let before = order.allocations.clone();
        let opened = self.open_allocations(at, &permit, creating, &mut order, &built);
        self.judge_edits(&built, &before, &order.allocations);
        order.allocations = before;
        let finish =
            |mut world: StateGuard<'_, KernelState>| self.publish_objects(&mut world, creating, &built, &mut order, names);
        match opened.and_then(finish) {
            Ok(made) => Ok(OpenResourceResponse {
                resource: made.resource.unwrap_or_default(),
                allocations: made.allocations,
                runtime,
                private,
                privates: made.privates,
            }),
            Err(why) => {
                self.undo_create(at, creating, &permit, built);
                Err(why)
            }
        }
    }

    /// A plain open may read private data, not write it.
    fn judge_edits(&self, built: &NewObjects, before: &[Vec<u8>], after: &[Vec<u8>]) {
        for ((view, before), after) in built.views.iter().zip(before).zip(after) {
            let about = view.subject();
            let broken = (before != after).then(|| {
                format!(
                    "the private data of {about} was changed by a plain open: only a create may"
                )
            });
            let place = "DxgkDdiOpenAllocation.pPrivateDriverData";
            self.log.judge(RuleId::KMD_OPEN_002, Component::Driver, about, place, broken);
        }
    }
}

impl KernelState {
    /// The shared resource a global name means, if it is on the device's adapter.
    fn find_shared_resource(
        &self,
        inside: &RundownGuard<'_>,
        global: Handle,
    ) -> Result<(Id<Resource>, &Resource), KernelError> {
        let refused = |why| KernelError::Handle { argument: Argument::SharedResource, handle: global, why };
        let found = self.global_handles.lookup(global).map_err(refused)?;
        let ObjectId::Resource(resource) = found else {
            return Err(refused(HandleError::WrongKind(found.subject())));
        };
        let it = &self.resources[resource];
        if it.adapter != inside.adapter {
            return Err(KernelError::OtherAdapter(resource.subject()));
        }
        Ok((resource, it))
    }
}
