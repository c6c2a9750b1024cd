//! A client in safe Rust: sharing by NT handles.
#![expect(unsafe_code, reason = "passes its own structures to the entry points")]

use crate::client::{Client, OpenedResource};
use crate::table;
use abi::kmt::{
    D3DKMT_GETSHAREDRESOURCEADAPTERLUID, D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE,
    D3DKMT_OPENNTHANDLEFROMNAME, D3DKMT_OPENRESOURCEFROMNTHANDLE,
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE, D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2,
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME, D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE,
    D3DKMT_SHAREOBJECTS,
};
use abi::status::STATUS_SUCCESS;
use abi::ukm::{D3DDDI_OPENALLOCATIONINFO2, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS};
use abi::{D3DKMT_HANDLE, HANDLE, LUID, NTSTATUS, OBJECT_ATTRIBUTES, UNICODE_STRING};
use flight::Passive;
use std::ptr;

/// The objects that are opened by an NT handle of a resource.
#[derive(Clone, Debug)]
pub struct OpenedBundle {
    /// The resource.
    pub resource: OpenedResource,
    /// The keyed mutex, or zero.
    pub keyed_mutex: D3DKMT_HANDLE,
    /// The synchronization object, or zero.
    pub sync: D3DKMT_HANDLE,
}

/// Attributes with a name, which outlive the call.
struct NamedAttributes {
    units: Vec<u16>,
    name: UNICODE_STRING,
    attributes: OBJECT_ATTRIBUTES,
}

impl NamedAttributes {
    fn new(name: &str) -> Self {
        let mut it = Self {
            units: name.encode_utf16().collect(),
            name: UNICODE_STRING::ZERO,
            attributes: OBJECT_ATTRIBUTES::ZERO,
        };
        let bytes = u16::try_from(it.units.len() * 2).unwrap_or(u16::MAX);
        it.name =
            UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: it.units.as_mut_ptr() };
        it.attributes.Length = 48;
        it
    }

    /// The pointer that a call gets. The attributes are not moved after this.
    fn pointer(&mut self) -> *mut OBJECT_ATTRIBUTES {
        self.attributes.ObjectName = &raw mut self.name;
        &raw mut self.attributes
    }
}

impl Client {
    /// `D3DKMTShareObjects`, with a name unless it is empty.
    pub fn share_objects(
        &self,
        at: &mut Passive,
        objects: &[D3DKMT_HANDLE],
        name: &str,
        access: u32,
    ) -> Result<HANDLE, NTSTATUS> {
        let mut named = NamedAttributes::new(name);
        let mut handle: HANDLE = ptr::null_mut();
        let mut args = D3DKMT_SHAREOBJECTS {
            ObjectCount: u32::try_from(objects.len()).unwrap_or(u32::MAX),
            ObjectHandleArray: objects.as_ptr(),
            pObjectAttributes: named.pointer(),
            DesiredAccess: access,
            pSharedNtHandle: &raw mut handle,
        };
        // SAFETY: `args` and all that it points to outlive the call.
        check(unsafe { table::D3DKMTShareObjects(&self.session, at, &raw mut args) })?;
        Ok(handle)
    }

    /// `D3DKMTOpenNtHandleFromName`; without attributes if the name is empty.
    pub fn open_nt_handle_from_name(
        &self,
        at: &mut Passive,
        name: &str,
        access: u32,
    ) -> Result<HANDLE, NTSTATUS> {
        let mut named = NamedAttributes::new(name);
        let attributes = if name.is_empty() { ptr::null_mut() } else { named.pointer() };
        let mut args = D3DKMT_OPENNTHANDLEFROMNAME {
            dwDesiredAccess: access,
            pObjAttrib: attributes,
            ..D3DKMT_OPENNTHANDLEFROMNAME::ZERO
        };
        // SAFETY: `args` and all that it points to outlive the call.
        check(unsafe { table::D3DKMTOpenNtHandleFromName(&self.session, at, &raw mut args) })?;
        Ok(args.hNtHandle)
    }

    /// `D3DKMTOpenSyncObjectNtHandleFromName`; without attributes if the name is empty.
    pub fn open_sync_nt_handle_from_name(
        &self,
        at: &mut Passive,
        name: &str,
        access: u32,
    ) -> Result<HANDLE, NTSTATUS> {
        let mut named = NamedAttributes::new(name);
        let attributes = if name.is_empty() { ptr::null_mut() } else { named.pointer() };
        let mut args = D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME {
            dwDesiredAccess: access,
            pObjAttrib: attributes,
            ..D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME::ZERO
        };
        // SAFETY: `args` and all that it points to outlive the call.
        check(unsafe {
            table::D3DKMTOpenSyncObjectNtHandleFromName(&self.session, at, &raw mut args)
        })?;
        Ok(args.hNtHandle)
    }

    /// `D3DKMTQueryResourceInfoFromNtHandle` and `D3DKMTOpenResourceFromNtHandle`.
    pub fn open_nt_resource(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        handle: HANDLE,
    ) -> Result<OpenedBundle, NTSTATUS> {
        let mut info = D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE::ZERO;
        (info.hDevice, info.hNtHandle) = (device, handle);
        // SAFETY: `info` outlives the call and has no buffers.
        check(unsafe {
            table::D3DKMTQueryResourceInfoFromNtHandle(&self.session, at, &raw mut info)
        })?;
        let mut list = vec![D3DDDI_OPENALLOCATIONINFO2::ZERO; info.NumAllocations as usize];
        let mut runtime = vec![0_u8; info.PrivateRuntimeDataSize as usize];
        let mut private = vec![0_u8; info.ResourcePrivateDriverDataSize as usize];
        let mut privates = vec![0_u8; info.TotalPrivateDriverDataSize as usize];
        let mut args = D3DKMT_OPENRESOURCEFROMNTHANDLE {
            hDevice: device,
            hNtHandle: handle,
            NumAllocations: info.NumAllocations,
            pOpenAllocationInfo2: list.as_mut_ptr(),
            PrivateRuntimeDataSize: info.PrivateRuntimeDataSize,
            pPrivateRuntimeData: runtime.as_mut_ptr().cast(),
            ResourcePrivateDriverDataSize: info.ResourcePrivateDriverDataSize,
            pResourcePrivateDriverData: private.as_mut_ptr().cast(),
            TotalPrivateDriverDataBufferSize: info.TotalPrivateDriverDataSize,
            pTotalPrivateDriverDataBuffer: privates.as_mut_ptr().cast(),
            ..D3DKMT_OPENRESOURCEFROMNTHANDLE::ZERO
        };
        // SAFETY: All buffers outlive the call and have the lengths in `args`.
        check(unsafe { table::D3DKMTOpenResourceFromNtHandle(&self.session, at, &raw mut args) })?;
        let allocations = list.iter().map(|info| info.hAllocation).collect();
        let sizes = list.iter().map(|info| info.PrivateDriverDataSize as usize).collect();
        let resource = OpenedResource {
            resource: args.hResource,
            allocations,
            runtime,
            private,
            privates,
            sizes,
        };
        Ok(OpenedBundle { resource, keyed_mutex: args.hKeyedMutex, sync: args.hSyncObject })
    }

    /// `D3DKMTOpenResourceFromNtHandle` of `count` allocations without buffers, but with the size
    /// of one for the keyed mutex's data.
    pub fn open_nt_resource_without_buffers(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        handle: HANDLE,
        count: u32,
        keyed_mutex_size: u32,
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut list = vec![D3DDDI_OPENALLOCATIONINFO2::ZERO; count as usize];
        let mut args = D3DKMT_OPENRESOURCEFROMNTHANDLE {
            hDevice: device,
            hNtHandle: handle,
            NumAllocations: count,
            pOpenAllocationInfo2: list.as_mut_ptr(),
            KeyedMutexPrivateRuntimeDataSize: keyed_mutex_size,
            ..D3DKMT_OPENRESOURCEFROMNTHANDLE::ZERO
        };
        // SAFETY: `args` and `list` outlive the call, and there are no other buffers.
        check(unsafe { table::D3DKMTOpenResourceFromNtHandle(&self.session, at, &raw mut args) })?;
        Ok(args.hResource)
    }

    /// `D3DKMTOpenSyncObjectFromNtHandle`. Returns the local handle.
    pub fn open_nt_sync(
        &self,
        at: &mut Passive,
        handle: HANDLE,
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut args = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE { hNtHandle: handle, hSyncObject: 0 };
        // SAFETY: `args` outlives the call.
        check(unsafe {
            table::D3DKMTOpenSyncObjectFromNtHandle(&self.session, at, &raw mut args)
        })?;
        Ok(args.hSyncObject)
    }

    /// `D3DKMTOpenSyncObjectFromNtHandle2`. Returns the local handle and the address of the value.
    pub fn open_nt_sync2(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        handle: HANDLE,
        flags: u32,
    ) -> Result<(D3DKMT_HANDLE, usize), NTSTATUS> {
        let mut args = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 {
            hNtHandle: handle,
            hDevice: device,
            Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS { Value: flags },
            ..D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2::ZERO
        };
        // SAFETY: `args` outlives the call.
        check(unsafe {
            table::D3DKMTOpenSyncObjectFromNtHandle2(&self.session, at, &raw mut args)
        })?;
        Ok((args.hSyncObject, args.monitored().FenceValueCPUVirtualAddress.addr()))
    }

    /// `D3DKMTOpenKeyedMutexFromNtHandle`. Returns the local handle.
    pub fn open_nt_keyed_mutex(
        &self,
        at: &mut Passive,
        handle: HANDLE,
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut args = D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE {
            hNtHandle: handle,
            ..D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE::ZERO
        };
        // SAFETY: `args` outlives the call.
        check(unsafe {
            table::D3DKMTOpenKeyedMutexFromNtHandle(&self.session, at, &raw mut args)
        })?;
        Ok(args.hKeyedMutex)
    }

    /// `D3DKMTGetSharedResourceAdapterLuid`, by a global handle or an NT handle.
    pub fn shared_resource_luid(
        &self,
        at: &mut Passive,
        global: D3DKMT_HANDLE,
        handle: HANDLE,
    ) -> Result<LUID, NTSTATUS> {
        let mut args = D3DKMT_GETSHAREDRESOURCEADAPTERLUID {
            hGlobalShare: global,
            hNtHandle: handle,
            ..D3DKMT_GETSHAREDRESOURCEADAPTERLUID::ZERO
        };
        // SAFETY: `args` outlives the call.
        check(unsafe {
            table::D3DKMTGetSharedResourceAdapterLuid(&self.session, at, &raw mut args)
        })?;
        Ok(args.AdapterLuid)
    }
}

fn check(status: NTSTATUS) -> Result<(), NTSTATUS> {
    if status == STATUS_SUCCESS { Ok(()) } else { Err(status) }
}
