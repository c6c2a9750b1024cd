//! Opening the objects of an NT handle.
//!
//! WINDOWS: the device is checked before the NT handle (observed for synchronization objects; our
//! reading for resources).

use crate::adapter::start::AdapterId;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::nt_object::{NtAccess, NtHandleId, NtObject, NtObjectKind, NtParts};
use crate::lifetime::process::ProcessId;
use crate::lifetime::retire::{DestroyAllocationRequest, DestroyTarget};
use crate::lifetime::share::{OpenResourceResponse, ShareInfo, SharedOpen};
use crate::objects::device_access::EnteredDevice;
use crate::objects::handle_table::{Handle, HandleError, ObjectId};
use crate::objects::resource::Resource;
use crate::state::KernelState;
use crate::sync::nt_hold::{OpenNtSyncRequest, OpenSyncResponse};
use flight::{EventKind, Passive};

/// The objects that are opened by an NT handle of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenNtResourceResponse {
    /// The resource.
    pub resource: OpenResourceResponse,
    /// The local handle of the bundle's keyed mutex.
    pub keyed_mutex: Option<Handle>,
    /// The local handle of the bundle's synchronization object.
    pub sync: Option<Handle>,
}

/// An NT handle that was found.
struct FoundNtHandle {
    object: Id<NtObject>,
    parts: NtParts,
    access: NtAccess,
}

impl Kernel {
    /// Returns the sizes of the resource of an NT handle (`D3DKMTQueryResourceInfoFromNtHandle`).
    pub fn nt_share_info(
        &self,
        process: ProcessId,
        device: Handle,
        handle: Option<NtHandleId>,
    ) -> Result<ShareInfo, KernelError> {
        let guard = self.enter_device(process, device)?;
        let state = self.state.lock();
        let found = state.find_nt(handle, NtObjectKind::Resource)?;
        Ok(state.describe_share(state.nt_resource(&guard, &found)?))
    }

    /// Opens the objects of an NT handle of a resource (`D3DKMTOpenResourceFromNtHandle`).
    /// `capacity` is the size of the buffer for the keyed mutex's data.
    ///
    /// Fails as [`OpenResourceCall::open`](crate::OpenResourceCall::open) does. A failed call leaves
    /// no views and no handles.
    pub fn open_nt_resource(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        handle: Option<NtHandleId>,
        capacity: usize,
    ) -> Result<OpenNtResourceResponse, KernelError> {
        let guard = self.enter_device(process, device)?;
        let (found, resource) = {
            let state = &mut *self.state.lock();
            let found = state.find_nt(handle, NtObjectKind::Resource)?;
            let resource = state.nt_resource(&guard, &found)?;
            // WINDOWS: without read access a share cannot be used (documented).
            if !found.access.read {
                return Err(KernelError::NtAccessDenied(found.object.subject()));
            }
            if let Some(keyed_mutex) = found.parts.keyed_mutex {
                state.check_keyed_mutex_buffer(keyed_mutex, capacity)?;
            }
            // The NT handle may be closed during the call.
            state.hold_nt_object(found.object);
            (found, resource)
        };
        let read_only = !found.access.write;
        let shared = SharedOpen { resource, global: None, read_only };
        let opened = self.open_shared(at, process, guard, shared);
        let opened = opened.and_then(|resource| {
            self.open_bundle(at, process, device, (&found, capacity), resource)
        });
        if opened.is_ok() {
            self.log.emit(found.object.subject(), || EventKind::NtResourceOpened {
                process: process.subject(),
                resource: resource.subject(),
                access: found.access.name().into(),
                read_only,
            });
        }
        self.release_nt_object(at, found.object, &found.parts);
        opened
    }

    /// Opens the other objects of a bundle. If that fails, the opened resource is closed again.
    fn open_bundle(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        (found, capacity): (&FoundNtHandle, usize),
        resource: OpenResourceResponse,
    ) -> Result<OpenNtResourceResponse, KernelError> {
        let opened = {
            let state = &mut *self.state.lock();
            self.open_bundle_locked(state, process, device, found, capacity)
        };
        match opened {
            Ok((keyed_mutex, sync)) => Ok(OpenNtResourceResponse { resource, keyed_mutex, sync }),
            Err(why) => {
                let target = DestroyTarget::Resource(resource.resource);
                let request = DestroyAllocationRequest {
                    device,
                    target,
                    assume_not_in_use: false,
                    synchronous: false,
                };
                // The device may be destroyed meanwhile, with its view.
                let _ = self.destroy(at, process, &request);
                Err(why)
            }
        }
    }

    fn open_bundle_locked(
        &self,
        state: &mut KernelState,
        process: ProcessId,
        device: Handle,
        found: &FoundNtHandle,
        capacity: usize,
    ) -> Result<(Option<Handle>, Option<Handle>), KernelError> {
        let object = found.object.subject();
        let mut handles = (None, None);
        if let Some(keyed_mutex) = found.parts.keyed_mutex {
            handles.0 = Some(self.open_held_keyed_mutex(state, process, keyed_mutex, capacity)?);
            self.log_part_opened(object, process, keyed_mutex.subject());
        }
        if let Some(sync) = found.parts.sync {
            let request = OpenNtSyncRequest { device: Some(device), ..Default::default() };
            match self.open_held_sync(state, process, sync, &request) {
                Ok(opened) => handles.1 = Some(opened.handle),
                Err(why) => {
                    if let (Some(number), Some(handle)) = (found.parts.keyed_mutex, handles.0) {
                        self.close_handle(state, process.0, handle);
                        self.close_keyed_mutex(state, number, process.0, handle);
                    }
                    return Err(why);
                }
            }
            self.log_part_opened(object, process, sync.subject());
        }
        Ok(handles)
    }

    /// Opens the synchronization object of an NT handle (`D3DKMTOpenSyncObjectFromNtHandle`,
    /// `D3DKMTOpenSyncObjectFromNtHandle2`).
    pub fn open_nt_sync(
        &self,
        process: ProcessId,
        handle: Option<NtHandleId>,
        request: &OpenNtSyncRequest,
    ) -> Result<OpenSyncResponse, KernelError> {
        let state = &mut *self.state.lock();
        if let Some(device) = request.device {
            state.working_device(process, device)?;
        }
        let found = state.find_nt(handle, NtObjectKind::Sync)?;
        // Only a bundle has none, and its type is another.
        let sync = found.parts.sync.ok_or(KernelError::NtHandleNotFound)?;
        let opened = self.open_held_sync(state, process, sync, request)?;
        self.log_part_opened(found.object.subject(), process, sync.subject());
        Ok(opened)
    }

    /// Opens the keyed mutex of an NT handle (`D3DKMTOpenKeyedMutexFromNtHandle`). `capacity` is the
    /// size of the buffer for the runtime's data.
    ///
    /// WINDOWS: a bundle is of another type, although it has a keyed mutex (observed).
    pub fn open_nt_keyed_mutex(
        &self,
        process: ProcessId,
        handle: Option<NtHandleId>,
        capacity: usize,
    ) -> Result<Handle, KernelError> {
        let state = &mut *self.state.lock();
        let found = state.find_nt(handle, NtObjectKind::KeyedMutex)?;
        let keyed_mutex = found.parts.keyed_mutex.ok_or(KernelError::NtHandleNotFound)?;
        let opened = self.open_held_keyed_mutex(state, process, keyed_mutex, capacity)?;
        self.log_part_opened(found.object.subject(), process, keyed_mutex.subject());
        Ok(opened)
    }

    /// The adapter of a shared resource (`D3DKMTGetSharedResourceAdapterLuid`): of the NT handle, if
    /// there is one, else of the global handle.
    pub fn shared_resource_adapter(
        &self,
        global: Handle,
        handle: Option<NtHandleId>,
    ) -> Result<AdapterId, KernelError> {
        let state = self.state.lock();
        let resource = if handle.is_some() {
            let found = state.find_nt(handle, NtObjectKind::Resource)?;
            found.parts.resource.ok_or(KernelError::Removed(found.object.subject()))?
        } else {
            let error = |why| KernelError::Handle {
                argument: Argument::SharedResource,
                handle: global,
                why,
            };
            match state.global_handles.lookup(global).map_err(error)? {
                ObjectId::Resource(resource) => resource,
                other => return Err(error(HandleError::WrongKind(other.subject()))),
            }
        };
        state.adapter_of_resource(resource).map(AdapterId)
    }
}

impl KernelState {
    /// The NT object of an NT handle, which must be of this type.
    fn find_nt(
        &self,
        handle: Option<NtHandleId>,
        kind: NtObjectKind,
    ) -> Result<FoundNtHandle, KernelError> {
        let nt = &self.lifetime.nt;
        let found = handle.and_then(|handle| nt.handles.get(handle.0));
        let found = found.ok_or(KernelError::NtHandleNotFound)?;
        let (object, access) = (found.object, found.access);
        let parts = nt.objects[object].parts;
        if parts.kind != kind {
            return Err(KernelError::NtObjectType(object.subject()));
        }
        Ok(FoundNtHandle { object, parts, access })
    }

    /// The resource of an NT handle, on the device's adapter.
    fn nt_resource(
        &self,
        guard: &EnteredDevice,
        found: &FoundNtHandle,
    ) -> Result<Id<Resource>, KernelError> {
        // It ends with its adapter.
        let removed = KernelError::Removed(found.object.subject());
        let resource = found.parts.resource.ok_or(removed)?;
        self.resources[resource].check_adapter(resource, guard.adapter)?;
        Ok(resource)
    }
}
