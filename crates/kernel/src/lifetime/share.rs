//! Sharing: resources that other devices and processes open by a global handle or an NT handle.
//!
//! # Invariants
//!
//! 1. A shared resource is sealed: its members do not change after creation.
//! 2. An opener has a view of the resource and of every member, opened in one call. The resource
//!    lives while any device has a view of it. Each device closes its own views, in any order.
//! 3. A global handle keeps no object alive: it is closed with the last local handle. An NT handle
//!    does (`nt_object.rs`).

use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::base::id_list::IdList;
use crate::ddi::miniport::{CallList, PrivateData, collect_few};
use crate::ddi::permit::ThreadingLevel;
use crate::kernel::Kernel;
use crate::lifetime::create::{CreateScope, Sharing};
use crate::lifetime::open::{NewObjects, check_still_valid};
use crate::lifetime::process::ProcessId;
use crate::lock::StateGuard;
use crate::objects::allocation::Allocation;
use crate::objects::device_access::{EnteredDevice, RundownGuard};
use crate::objects::handle_table::ObjectId;
use crate::objects::handle_table::{Handle, HandleError, ReservedHandles};
use crate::objects::resource::Resource;
use crate::state::KernelState;
use flight::{Component, Passive, RuleId, Subject};

/// Sizes of a shared resource's data, for an opener (`D3DKMTQueryResourceInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareInfo {
    /// The resource as the subject of events.
    pub resource: Subject,
    /// Size in bytes of the runtime's private data.
    pub runtime: usize,
    /// Size in bytes of the private data that a client supplied for the resource. WINDOWS: data
    /// that a driver supplied for a standard allocation does not count (observed).
    pub private: usize,
    /// Total size in bytes of the driver's private data for the members.
    pub total: usize,
    /// Number of members.
    pub members: usize,
}

/// The opened objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenResourceResponse {
    /// The opener's handle of the resource.
    pub resource: Handle,
    /// The opener's handles of the members, in creation order.
    pub allocations: CallList<Handle>,
    /// The runtime's private data, as given at creation.
    pub runtime: Vec<u8>,
    /// The resource's private data for the driver, if a client supplied it. Data that a driver
    /// supplied for a standard allocation is not returned.
    pub private: Vec<u8>,
    /// Each member's private data for the driver.
    pub privates: CallList<PrivateData>,
}

/// A call that opens a shared resource. It keeps the device alive.
pub struct OpenResourceCall<'k> {
    kernel: &'k Kernel,
    process: ProcessId,
    guard: RundownGuard<'k>,
    shared: SharedOpen,
    info: ShareInfo,
}

/// A shared resource that a call opens.
#[derive(Clone, Copy)]
pub(crate) struct SharedOpen {
    pub(crate) resource: Id<Resource>,
    /// The global handle; `None` if it is opened by an NT handle, which keeps it alive during the
    /// call.
    pub(crate) global: Option<Handle>,
    /// The opener may only read.
    pub(crate) read_only: bool,
}

impl SharedOpen {
    /// Whether the resource can still be opened.
    pub(crate) fn is_valid(self, state: &KernelState) -> bool {
        match self.global {
            Some(global) => state.global_handles.lookup(global) == Ok(self.resource.into()),
            None => state.resources.contains(self.resource),
        }
    }
}

impl Kernel {
    /// Returns the sizes of a shared resource. Fails if the global handle is unknown or the device
    /// is on another adapter.
    pub fn share_info(
        &self,
        process: ProcessId,
        device: Handle,
        global: Handle,
    ) -> Result<ShareInfo, KernelError> {
        let guard; // Declared before the state guard, so that it is dropped after the guard.
        let mut state = self.state.lock();
        guard = self.enter_working_device(&mut state, process, device)?;
        let (number, _) = state.find_shared_resource(&guard, global)?;
        let info = state.describe_share(number);
        guard.release(&mut state);
        Ok(info)
    }

    /// Begins to open a shared resource for a device (`D3DKMTOpenResource`).
    ///
    /// Fails if a handle is invalid or the device does not work.
    pub fn begin_open_resource(
        &self,
        process: ProcessId,
        device: Handle,
        global: Handle,
    ) -> Result<OpenResourceCall<'_>, KernelError> {
        let mut state = self.state.lock();
        let guard = self.enter_working_device(&mut state, process, device)?;
        match state.find_shared_resource(&guard, global) {
            Ok((resource, _)) => {
                let info = state.describe_share(resource);
                drop(state);
                let shared = SharedOpen { resource, global: Some(global), read_only: false };
                Ok(OpenResourceCall { kernel: self, process, guard, shared, info })
            }
            Err(why) => {
                guard.release(&mut state);
                Err(why)
            }
        }
    }

    /// Reserves the handles and opens the resource.
    pub(super) fn open_shared(
        &self,
        at: &mut Passive,
        process: ProcessId,
        guard: RundownGuard<'_>,
        shared: SharedOpen,
    ) -> Result<OpenResourceResponse, KernelError> {
        let resource = shared.resource;
        let mut state = self.state.lock();
        let destroyed = KernelError::ResourceDestroyed(resource.subject());
        let members = state.resources.get(resource).ok_or(destroyed)?.members.len();
        let mut handles = self.reserve_handles(&mut state, process.0, members + 1)?;
        let shared = Some(shared);
        let creating = CreateScope { process: process.0, device: &guard, joins: None, shared };
        match self.open_with_permit(at, state, &creating, resource, &mut handles) {
            Ok((opened, mut state)) => {
                guard.release(&mut state);
                Ok(opened)
            }
            Err(why) => {
                self.cancel_handles(&mut self.state.lock(), process.0, handles);
                Err(why)
            }
        }
    }

    /// Calls the driver, and returns with the state locked. On failure everything except the
    /// reserved handles is undone.
    fn open_with_permit<'k>(
        &'k self,
        at: &mut Passive,
        state: StateGuard<'k, KernelState>,
        creating: &CreateScope<'_>,
        resource: Id<Resource>,
        handles: &mut ReservedHandles,
    ) -> Result<(OpenResourceResponse, StateGuard<'k, KernelState>), KernelError> {
        let guard = creating.device;
        let generation = guard.driver.generation;
        let keys = ThreadingLevel::Zero.keys(guard.adapter, generation, creating.process);
        let keys = keys.with_resource(resource);
        let (permit, mut state) = self.acquire_permit_locked(at, state, keys)?;
        // Check again after the wait.
        check_still_valid(&state, creating)?;
        let destroyed = KernelError::ResourceDestroyed(resource.subject());
        let it = state.resources.get(resource).ok_or(destroyed)?;
        let allocations = IdList::from_slice(&it.members);
        let private = |allocation: &Id<Allocation>| {
            let allocation = state.allocations.get(*allocation);
            allocation.map(|allocation| PrivateData::from_slice(&allocation.private))
        };
        let privates: CallList<PrivateData> = collect_few(allocations.iter().filter_map(private));
        let (runtime, private, standard) = (it.runtime.clone(), it.private.clone(), it.standard);
        let target = Some(self.create_resource_view(&mut state, guard, resource));
        let mut objects = NewObjects { resource: target, allocations, ..NewObjects::default() };
        state.bind_view_handles(creating, &mut objects, handles);
        drop(state);
        // The driver gets a copy, which it may not change.
        let mut lent: CallList<PrivateData> =
            collect_few(privates.iter().map(|private| PrivateData::from_slice(private)));
        let lend = (&private[..], &mut lent[..]);
        let opened = self.open_allocations(at, &permit, creating, lend, &objects, handles);
        self.judge_edits(&objects, &privates, &lent);
        let finished = opened.and_then(|mut state| {
            let sharing = (Sharing::None, 0);
            let published =
                self.publish_objects(&mut state, creating, &objects, &privates, sharing, handles)?;
            Ok((published, state))
        });
        match finished {
            Ok((published, mut state)) => {
                permit.release(&mut state);
                let opened = OpenResourceResponse {
                    resource: published.resource.unwrap_or_default(),
                    allocations: published.allocations,
                    runtime,
                    private: if standard { Vec::new() } else { private },
                    privates,
                };
                Ok((opened, state))
            }
            Err(why) => {
                self.undo_create(at, creating, &permit, objects);
                Err(why)
            }
        }
    }

    /// Judges that a plain open did not change private data.
    fn judge_edits(&self, objects: &NewObjects, before: &[PrivateData], after: &[PrivateData]) {
        for ((view, before), after) in objects.views.iter().zip(before).zip(after) {
            let about = view.subject();
            let broken = (before != after).then(|| {
                format!("a plain open changed the private data of {about}: only a create may")
            });
            let place = "DxgkDdiOpenAllocation.pPrivateDriverData";
            self.log.judge(RuleId::KMD_OPEN_002, Component::Driver, about, place, broken);
        }
    }
}

impl OpenResourceCall<'_> {
    /// The sizes of the resource.
    pub fn info(&self) -> ShareInfo {
        self.info
    }

    /// Opens the resource.
    ///
    /// Fails if the resource or the device has ended meanwhile, or the driver fails. A failed call
    /// leaves no views and no handles.
    pub fn open(self, at: &mut Passive) -> Result<OpenResourceResponse, KernelError> {
        self.kernel.open_shared(at, self.process, self.guard, self.shared)
    }
}

impl KernelState {
    /// The sizes of a shared resource, which exists.
    pub(super) fn describe_share(&self, number: Id<Resource>) -> ShareInfo {
        let it = &self.resources[number];
        let members = it.members.iter().filter_map(|allocation| self.allocations.get(*allocation));
        ShareInfo {
            resource: number.subject(),
            runtime: it.runtime.len(),
            private: if it.standard { 0 } else { it.private.len() },
            total: members.map(|allocation| allocation.private.len()).sum(),
            members: it.members.len(),
        }
    }

    /// Resolves a global handle to a shared resource on the device's adapter.
    fn find_shared_resource(
        &self,
        guard: &EnteredDevice,
        global: Handle,
    ) -> Result<(Id<Resource>, &Resource), KernelError> {
        let error =
            |why| KernelError::Handle { argument: Argument::SharedResource, handle: global, why };
        let found = self.global_handles.lookup(global).map_err(error)?;
        let ObjectId::Resource(resource) = found else {
            return Err(error(HandleError::WrongKind(found.subject())));
        };
        let it = &self.resources[resource];
        it.check_adapter(resource, guard.adapter)?;
        Ok((resource, it))
    }
}
