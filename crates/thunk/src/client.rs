//! A client in safe Rust. It fills the structures and calls the raw functions, so scenarios and
//! tests use the same entry points as an application.
#![expect(unsafe_code, reason = "passes its own structures to the entry points")]

use crate::session::Session;
use crate::table;
use abi::kmt::{
    D3DKMT_ADAPTERINFO, D3DKMT_CLOSEADAPTER, D3DKMT_CREATEALLOCATION, D3DKMT_CREATEALLOCATIONFLAGS,
    D3DKMT_CREATECONTEXTVIRTUAL, D3DKMT_CREATEDEVICE, D3DKMT_CREATESTANDARDALLOCATION,
    D3DKMT_DESTROYALLOCATION, D3DKMT_DESTROYALLOCATION2, D3DKMT_DESTROYCONTEXT,
    D3DKMT_DESTROYDEVICE, D3DKMT_DEVICEEXECUTION_STATE, D3DKMT_DEVICESTATE_EXECUTION,
    D3DKMT_ENUMADAPTERS_FILTER, D3DKMT_ENUMADAPTERS2, D3DKMT_ENUMADAPTERS3, D3DKMT_ESCAPE,
    D3DKMT_GETCONTEXTSCHEDULINGPRIORITY, D3DKMT_GETDEVICESTATE,
    D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME, D3DKMT_OPENRESOURCE, D3DKMT_QUERYRESOURCEINFO,
    D3DKMT_SETCONTEXTSCHEDULINGPRIORITY, D3DKMT_STANDARDALLOCATION_EXISTINGHEAP,
    D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP, D3DKMT_SUBMITCOMMAND,
};
use abi::ukm::{
    D3DDDI_ALLOCATIONINFO, D3DDDI_ALLOCATIONINFO_FLAGS, D3DDDI_ESCAPEFLAGS,
    D3DDDI_OPENALLOCATIONINFO, D3DDDICB_DESTROYALLOCATION2FLAGS,
};
use abi::{D3DKMT_HANDLE, LUID, NTSTATUS};
use flight::Passive;
use kernel::{Kernel, ProcessExit};
use std::ptr;
use std::sync::Arc;

/// A client process.
#[derive(Clone)]
pub struct Client {
    pub(crate) session: Session,
}

/// The allocations to create. `Default` requests none.
#[derive(Clone, Debug, Default)]
pub struct CreateAllocation {
    /// The device.
    pub device: D3DKMT_HANDLE,
    /// The existing resource to create into, or zero.
    pub resource: D3DKMT_HANDLE,
    /// Flags of the call.
    pub flags: u32,
    /// The runtime's private data.
    pub runtime: Vec<u8>,
    /// The resource's private data for the driver.
    pub private: Vec<u8>,
    /// Each allocation's private data for the driver.
    pub allocations: Vec<Vec<u8>>,
    /// Each allocation's flags; shorter than the list means zero.
    pub allocation_flags: Vec<u32>,
    /// `VidPnSourceId` of every allocation.
    pub source: u32,
    /// Type and size of a standard allocation.
    pub standard: Option<(i32, usize)>,
    /// The address of the caller's memory, for a standard allocation.
    pub system_memory: usize,
}

/// The created allocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreatedAllocation {
    /// The resource, if there is one.
    pub resource: D3DKMT_HANDLE,
    /// Its global handle.
    pub global: D3DKMT_HANDLE,
    /// The allocations.
    pub allocations: Vec<D3DKMT_HANDLE>,
    /// Each allocation's private data, as the driver left it.
    pub privates: Vec<Vec<u8>>,
}

/// An opened resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenedResource {
    /// The opener's handle of the resource.
    pub resource: D3DKMT_HANDLE,
    /// The opener's handles of the allocations.
    pub allocations: Vec<D3DKMT_HANDLE>,
    /// The runtime's private data.
    pub runtime: Vec<u8>,
    /// The resource's private data.
    pub private: Vec<u8>,
    /// The allocations' private data, concatenated.
    pub privates: Vec<u8>,
    /// The size of each allocation's private data.
    pub sizes: Vec<usize>,
}

/// The objects to destroy. `Default` destroys none.
#[derive(Clone, Debug, Default)]
pub struct DestroyAllocation {
    /// The device.
    pub device: D3DKMT_HANDLE,
    /// The resource, or zero.
    pub resource: D3DKMT_HANDLE,
    /// The allocations.
    pub list: Vec<D3DKMT_HANDLE>,
    /// `AssumeNotInUse`.
    pub assume_not_in_use: bool,
    /// `SynchronousDestroy`.
    pub synchronous: bool,
}

/// An escape. `Default` names no adapter and has no data.
#[derive(Clone, Debug, Default)]
pub struct EscapeCall {
    /// The adapter.
    pub adapter: D3DKMT_HANDLE,
    /// The device, or zero.
    pub device: D3DKMT_HANDLE,
    /// The context, or zero.
    pub context: D3DKMT_HANDLE,
    /// Its type; zero is for the driver.
    pub kind: i32,
    /// Its flags.
    pub flags: u32,
    /// The data.
    pub private: Vec<u8>,
}

impl Client {
    /// A new process of the kernel.
    pub fn new(kernel: &Arc<Kernel>) -> Self {
        Self { session: Session::open(kernel) }
    }

    /// A client that calls through an existing session.
    pub fn from_session(session: Session) -> Self {
        Self { session }
    }

    /// Its session, for calling the raw functions.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Ends the process. Objects left alive are the client's fault.
    pub fn end(&self, at: &mut Passive) {
        self.session.kernel.end_process(at, self.session.process, ProcessExit::Orderly);
    }

    /// Kills the process with all its objects.
    pub fn kill(&self, at: &mut Passive) {
        self.session.kernel.end_process(at, self.session.process, ProcessExit::Killed);
    }

    /// `D3DKMTEnumAdapters2`: an open handle of each adapter.
    pub fn adapters(&self, at: &mut Passive) -> Result<Vec<D3DKMT_HANDLE>, NTSTATUS> {
        let mut list = [D3DKMT_ADAPTERINFO::ZERO; 34];
        let mut args = D3DKMT_ENUMADAPTERS2 { NumAdapters: 34, pAdapters: list.as_mut_ptr() };
        // SAFETY: `args` and `list` outlive the call; `args` has the length of `list`.
        let status = unsafe { table::D3DKMTEnumAdapters2(&self.session, at, &raw mut args) };
        check_status(status)?;
        if args.NumAdapters == 0 {
            // The only adapter may be one that this call does not list.
            return self.adapters_with(at, !D3DKMT_ENUMADAPTERS_FILTER::RESERVED);
        }
        Ok(list.iter().take(args.NumAdapters as usize).map(|adapter| adapter.hAdapter).collect())
    }

    /// `D3DKMTEnumAdapters3`: an open handle of each adapter that passes the filter.
    pub fn adapters_with(
        &self,
        at: &mut Passive,
        filter: u64,
    ) -> Result<Vec<D3DKMT_HANDLE>, NTSTATUS> {
        let mut list = [D3DKMT_ADAPTERINFO::ZERO; 34];
        let mut args = D3DKMT_ENUMADAPTERS3 {
            Filter: D3DKMT_ENUMADAPTERS_FILTER { Value: filter },
            NumAdapters: 34,
            pAdapters: list.as_mut_ptr(),
        };
        // SAFETY: `args` and `list` outlive the call; `args` has the length of `list`.
        check_status(unsafe { table::D3DKMTEnumAdapters3(&self.session, at, &raw mut args) })?;
        let listed = list.iter().take(args.NumAdapters as usize);
        Ok(listed.map(|adapter| adapter.hAdapter).collect())
    }

    /// `D3DKMTOpenAdapterFromGdiDisplayName`: a handle of the display's adapter, and its LUID. A
    /// name that is too long is truncated.
    pub fn open_display(
        &self,
        at: &mut Passive,
        name: &str,
    ) -> Result<(D3DKMT_HANDLE, LUID), NTSTATUS> {
        let mut args = D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME::ZERO;
        for (to, unit) in args.DeviceName.iter_mut().zip(name.encode_utf16()) {
            *to = unit;
        }
        let (session, to) = (&self.session, &raw mut args);
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTOpenAdapterFromGdiDisplayName(session, at, to) })?;
        Ok((args.hAdapter, args.AdapterLuid))
    }

    /// `D3DKMTCloseAdapter`.
    pub fn close_adapter(&self, at: &mut Passive, adapter: D3DKMT_HANDLE) -> Result<(), NTSTATUS> {
        let args = D3DKMT_CLOSEADAPTER { hAdapter: adapter };
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTCloseAdapter(&self.session, at, &raw const args) })
    }

    /// `D3DKMTCreateDevice`.
    pub fn create_device(
        &self,
        at: &mut Passive,
        adapter: D3DKMT_HANDLE,
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut args = D3DKMT_CREATEDEVICE { hAdapter: adapter, ..D3DKMT_CREATEDEVICE::ZERO };
        // SAFETY: `args` outlives the call.
        let status = unsafe { table::D3DKMTCreateDevice(&self.session, at, &raw mut args) };
        check_created(status, args.hDevice)
    }

    /// `D3DKMTDestroyDevice`.
    pub fn destroy_device(&self, at: &mut Passive, device: D3DKMT_HANDLE) -> Result<(), NTSTATUS> {
        let args = D3DKMT_DESTROYDEVICE { hDevice: device };
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTDestroyDevice(&self.session, at, &raw const args) })
    }

    /// `D3DKMTCreateContextVirtual`, on engine zero of a node.
    pub fn create_context(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        node: u32,
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        self.create_context_with(at, device, node, &[])
    }

    /// The same, with private data for the driver.
    pub fn create_context_with(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        node: u32,
        private: &[u8],
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut args = D3DKMT_CREATECONTEXTVIRTUAL {
            hDevice: device,
            NodeOrdinal: node,
            EngineAffinity: 1,
            pPrivateDriverData: private.as_ptr().cast_mut().cast(),
            PrivateDriverDataSize: size(private),
            ..D3DKMT_CREATECONTEXTVIRTUAL::ZERO
        };
        // SAFETY: `args` and `private` outlive the call; `args` has the length of `private`.
        let status = unsafe { table::D3DKMTCreateContextVirtual(&self.session, at, &raw mut args) };
        check_created(status, args.hContext)
    }

    /// `D3DKMTDestroyContext`.
    pub fn destroy_context(
        &self,
        at: &mut Passive,
        context: D3DKMT_HANDLE,
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_DESTROYCONTEXT { hContext: context };
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTDestroyContext(&self.session, at, &raw const args) })
    }

    /// `D3DKMTSubmitCommand`, with commands in private driver data.
    pub fn submit(
        &self,
        at: &mut Passive,
        context: D3DKMT_HANDLE,
        private: &[u8],
    ) -> Result<(), NTSTATUS> {
        self.submit_to(at, &[context], private, &[])
    }

    /// `D3DKMTSubmitCommand` to several contexts, with the primaries that the commands write.
    pub fn submit_to(
        &self,
        at: &mut Passive,
        contexts: &[D3DKMT_HANDLE],
        private: &[u8],
        primaries: &[D3DKMT_HANDLE],
    ) -> Result<(), NTSTATUS> {
        let mut args = D3DKMT_SUBMITCOMMAND::ZERO;
        // A list that is too long is truncated, but its original length is passed.
        args.BroadcastContextCount = u32::try_from(contexts.len()).unwrap_or(u32::MAX);
        for (to, from) in args.BroadcastContext.iter_mut().zip(contexts) {
            *to = *from;
        }
        args.NumPrimaries = u32::try_from(primaries.len()).unwrap_or(u32::MAX);
        for (to, from) in args.WrittenPrimaries.iter_mut().zip(primaries) {
            *to = *from;
        }
        args.pPrivateDriverData = private.as_ptr().cast_mut().cast();
        args.PrivateDriverDataSize = size(private);
        // SAFETY: `args` and `private` outlive the call; `args` has the length of `private`.
        check_status(unsafe { table::D3DKMTSubmitCommand(&self.session, at, &raw const args) })
    }

    /// `D3DKMTCreateAllocation`.
    pub fn create(
        &self,
        at: &mut Passive,
        create: &CreateAllocation,
    ) -> Result<CreatedAllocation, NTSTATUS> {
        let mut privates = create.allocations.clone();
        let flags = |argument: usize| D3DDDI_ALLOCATIONINFO_FLAGS {
            Value: create.allocation_flags.get(argument).copied().unwrap_or_default(),
        };
        let info = |(argument, private): (usize, &mut Vec<u8>)| D3DDDI_ALLOCATIONINFO {
            pSystemMem: ptr::without_provenance(create.system_memory),
            pPrivateDriverData: private.as_mut_ptr().cast(),
            PrivateDriverDataSize: size(private),
            VidPnSourceId: create.source,
            Flags: flags(argument),
            ..D3DDDI_ALLOCATIONINFO::ZERO
        };
        let mut infos: Vec<_> = privates.iter_mut().enumerate().map(info).collect();
        let standard = create.standard.map(|(kind, bytes)| D3DKMT_CREATESTANDARDALLOCATION {
            Type: kind,
            ExistingHeapData: D3DKMT_STANDARDALLOCATION_EXISTINGHEAP { Size: bytes },
            ..D3DKMT_CREATESTANDARDALLOCATION::ZERO
        });
        let mut args = D3DKMT_CREATEALLOCATION {
            hDevice: create.device,
            hResource: create.resource,
            pPrivateRuntimeData: create.runtime.as_ptr().cast(),
            PrivateRuntimeDataSize: size(&create.runtime),
            pPrivateDriverData: create.private.as_ptr().cast(),
            PrivateDriverDataSize: size(&create.private),
            NumAllocations: u32::try_from(infos.len()).unwrap_or(u32::MAX),
            pAllocationInfo: infos.as_mut_ptr(),
            Flags: D3DKMT_CREATEALLOCATIONFLAGS { Value: create.flags },
            ..D3DKMT_CREATEALLOCATION::ZERO
        };
        if let Some(standard) = &standard {
            args.pPrivateDriverData = ptr::from_ref(standard).cast();
            args.PrivateDriverDataSize = 0;
        }
        // SAFETY: All buffers outlive the call and have the lengths in `args`.
        let status = unsafe { table::D3DKMTCreateAllocation(&self.session, at, &raw mut args) };
        check_status(status)?;
        Ok(CreatedAllocation {
            resource: args.hResource,
            global: args.hGlobalShare,
            allocations: infos.iter().map(|info| info.hAllocation).collect(),
            privates,
        })
    }

    /// `D3DKMTCreateAllocation` of one allocation without a resource. The driver may edit its
    /// private data.
    pub fn create_one(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        private: &mut [u8],
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut info = D3DDDI_ALLOCATIONINFO {
            pPrivateDriverData: private.as_mut_ptr().cast(),
            PrivateDriverDataSize: size(private),
            ..D3DDDI_ALLOCATIONINFO::ZERO
        };
        let mut args = D3DKMT_CREATEALLOCATION {
            hDevice: device,
            NumAllocations: 1,
            pAllocationInfo: &raw mut info,
            ..D3DKMT_CREATEALLOCATION::ZERO
        };
        // SAFETY: `info` and `private` outlive the call and have the lengths in `args`.
        let status = unsafe { table::D3DKMTCreateAllocation(&self.session, at, &raw mut args) };
        check_status(status).map(|()| info.hAllocation)
    }

    /// `D3DKMTDestroyAllocation2` of one allocation, without flags.
    pub fn destroy_one(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        allocation: D3DKMT_HANDLE,
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_DESTROYALLOCATION2 {
            hDevice: device,
            phAllocationList: &raw const allocation,
            AllocationCount: 1,
            ..D3DKMT_DESTROYALLOCATION2::ZERO
        };
        // SAFETY: `args` and `allocation` outlive the call.
        check_status(unsafe { table::D3DKMTDestroyAllocation2(&self.session, at, &raw const args) })
    }

    /// `D3DKMTEscape`. Returns the data as the driver left it.
    pub fn escape(&self, at: &mut Passive, escape: &EscapeCall) -> Result<Vec<u8>, NTSTATUS> {
        let mut private = escape.private.clone();
        let args = D3DKMT_ESCAPE {
            hAdapter: escape.adapter,
            hDevice: escape.device,
            Type: escape.kind,
            Flags: D3DDDI_ESCAPEFLAGS { Value: escape.flags },
            pPrivateDriverData: private.as_mut_ptr().cast(),
            PrivateDriverDataSize: u32::try_from(private.len()).unwrap_or(u32::MAX),
            hContext: escape.context,
        };
        // SAFETY: `args` and `private` outlive the call; the size in `args` is that of `private`,
        // or `u32::MAX`, which the entry point rejects.
        check_status(unsafe { table::D3DKMTEscape(&self.session, at, &raw const args) })?;
        Ok(private)
    }

    /// `D3DKMTSetContextSchedulingPriority`.
    pub fn set_context_priority(
        &self,
        at: &mut Passive,
        context: D3DKMT_HANDLE,
        priority: i32,
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_SETCONTEXTSCHEDULINGPRIORITY { hContext: context, Priority: priority };
        let args = &raw const args;
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTSetContextSchedulingPriority(&self.session, at, args) })
    }

    /// `D3DKMTGetContextSchedulingPriority`.
    pub fn context_priority(
        &self,
        at: &mut Passive,
        context: D3DKMT_HANDLE,
    ) -> Result<i32, NTSTATUS> {
        let mut args = D3DKMT_GETCONTEXTSCHEDULINGPRIORITY { hContext: context, Priority: 0 };
        let argument = &raw mut args;
        // SAFETY: `args` outlives the call.
        check_status(unsafe {
            table::D3DKMTGetContextSchedulingPriority(&self.session, at, argument)
        })?;
        Ok(args.Priority)
    }

    /// `D3DKMTGetDeviceState`: the execution state.
    pub fn device_state(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
    ) -> Result<D3DKMT_DEVICEEXECUTION_STATE, NTSTATUS> {
        let mut args = D3DKMT_GETDEVICESTATE::ZERO;
        (args.hDevice, args.StateType) = (device, D3DKMT_DEVICESTATE_EXECUTION);
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTGetDeviceState(&self.session, at, &raw mut args) })?;
        Ok(args.execution_state())
    }

    /// `D3DKMTQueryResourceInfo`, then `D3DKMTOpenResource` with the returned sizes.
    pub fn open_resource(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        global: D3DKMT_HANDLE,
    ) -> Result<OpenedResource, NTSTATUS> {
        let mut info = D3DKMT_QUERYRESOURCEINFO::ZERO;
        (info.hDevice, info.hGlobalShare) = (device, global);
        // SAFETY: `info` outlives the call and has no buffers.
        check_status(unsafe { table::D3DKMTQueryResourceInfo(&self.session, at, &raw mut info) })?;
        let mut list = vec![D3DDDI_OPENALLOCATIONINFO::ZERO; info.NumAllocations as usize];
        let mut runtime = vec![0_u8; info.PrivateRuntimeDataSize as usize];
        let mut private = vec![0_u8; info.ResourcePrivateDriverDataSize as usize];
        let mut privates = vec![0_u8; info.TotalPrivateDriverDataSize as usize];
        let mut args = D3DKMT_OPENRESOURCE {
            hDevice: device,
            hGlobalShare: global,
            NumAllocations: info.NumAllocations,
            pOpenAllocationInfo: list.as_mut_ptr(),
            pPrivateRuntimeData: runtime.as_mut_ptr().cast(),
            PrivateRuntimeDataSize: info.PrivateRuntimeDataSize,
            pResourcePrivateDriverData: private.as_mut_ptr().cast(),
            ResourcePrivateDriverDataSize: info.ResourcePrivateDriverDataSize,
            pTotalPrivateDriverDataBuffer: privates.as_mut_ptr().cast(),
            TotalPrivateDriverDataBufferSize: info.TotalPrivateDriverDataSize,
            ..D3DKMT_OPENRESOURCE::ZERO
        };
        // SAFETY: All buffers outlive the call and have the lengths in `args`.
        check_status(unsafe { table::D3DKMTOpenResource(&self.session, at, &raw mut args) })?;
        let allocations = list.iter().map(|info| info.hAllocation).collect();
        let sizes = list.iter().map(|info| info.PrivateDriverDataSize as usize).collect();
        Ok(OpenedResource {
            resource: args.hResource,
            allocations,
            runtime,
            private,
            privates,
            sizes,
        })
    }

    /// `D3DKMTOpenResource` of `count` allocations, without buffers for private data.
    pub fn open_resource_without_buffers(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        global: D3DKMT_HANDLE,
        count: u32,
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut list = vec![D3DDDI_OPENALLOCATIONINFO::ZERO; count as usize];
        let mut args = D3DKMT_OPENRESOURCE {
            hDevice: device,
            hGlobalShare: global,
            NumAllocations: count,
            pOpenAllocationInfo: list.as_mut_ptr(),
            ..D3DKMT_OPENRESOURCE::ZERO
        };
        // SAFETY: `args` and `list` outlive the call, and there are no other buffers.
        check_status(unsafe { table::D3DKMTOpenResource(&self.session, at, &raw mut args) })?;
        Ok(args.hResource)
    }

    /// `D3DKMTDestroyAllocation2`.
    pub fn destroy(&self, at: &mut Passive, destroy: &DestroyAllocation) -> Result<(), NTSTATUS> {
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        let flags =
            flag(destroy.assume_not_in_use, D3DDDICB_DESTROYALLOCATION2FLAGS::AssumeNotInUse)
                | flag(destroy.synchronous, D3DDDICB_DESTROYALLOCATION2FLAGS::SynchronousDestroy);
        let args = D3DKMT_DESTROYALLOCATION2 {
            hDevice: destroy.device,
            hResource: destroy.resource,
            phAllocationList: list_pointer(&destroy.list),
            AllocationCount: u32::try_from(destroy.list.len()).unwrap_or(u32::MAX),
            Flags: D3DDDICB_DESTROYALLOCATION2FLAGS { Value: flags },
        };
        // SAFETY: `args` and the list outlive the call.
        check_status(unsafe { table::D3DKMTDestroyAllocation2(&self.session, at, &raw const args) })
    }

    /// `D3DKMTDestroyAllocation2` with any flags and a count, but without a list.
    pub fn destroy_without_list(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        flags: u32,
        count: u32,
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_DESTROYALLOCATION2 {
            hDevice: device,
            AllocationCount: count,
            Flags: D3DDDICB_DESTROYALLOCATION2FLAGS { Value: flags },
            ..D3DKMT_DESTROYALLOCATION2::ZERO
        };
        // SAFETY: `args` outlives the call and has no list.
        check_status(unsafe { table::D3DKMTDestroyAllocation2(&self.session, at, &raw const args) })
    }

    /// `D3DKMTDestroyAllocation`: version 1.
    pub fn destroy_v1(
        &self,
        at: &mut Passive,
        destroy: &DestroyAllocation,
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_DESTROYALLOCATION {
            hDevice: destroy.device,
            hResource: destroy.resource,
            phAllocationList: list_pointer(&destroy.list),
            AllocationCount: u32::try_from(destroy.list.len()).unwrap_or(u32::MAX),
        };
        // SAFETY: `args` and the list outlive the call.
        check_status(unsafe { table::D3DKMTDestroyAllocation(&self.session, at, &raw const args) })
    }
}

impl CreateAllocation {
    /// Allocations on a device, with this private driver data.
    pub fn new(device: D3DKMT_HANDLE, allocations: Vec<Vec<u8>>) -> Self {
        Self { device, allocations, ..Self::default() }
    }

    /// The same, with a new resource.
    #[must_use]
    pub fn with_resource(mut self) -> Self {
        self.flags |= D3DKMT_CREATEALLOCATIONFLAGS::CreateResource;
        self
    }

    /// The same, into an existing resource.
    #[must_use]
    pub fn into_resource(mut self, resource: D3DKMT_HANDLE) -> Self {
        self.resource = resource;
        self
    }

    /// A standard allocation over `bytes` of the caller's memory at `address`.
    pub fn new_standard(device: D3DKMT_HANDLE, address: usize, bytes: usize) -> Self {
        Self {
            device,
            flags: D3DKMT_CREATEALLOCATIONFLAGS::StandardAllocation
                | D3DKMT_CREATEALLOCATIONFLAGS::ExistingSysMem,
            allocations: vec![Vec::new()],
            standard: Some((D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP, bytes)),
            system_memory: address,
            ..Self::default()
        }
    }
}

pub(crate) fn list_pointer<T>(list: &[T]) -> *const T {
    if list.is_empty() { ptr::null() } else { list.as_ptr() }
}

pub(crate) fn size(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// The handle that a call created, or its status. A status such as `STATUS_PENDING` passes
/// `NT_SUCCESS`, but nothing was created.
fn check_created(status: NTSTATUS, handle: D3DKMT_HANDLE) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    check_status(status)?;
    if handle == 0 { Err(status) } else { Ok(handle) }
}

pub(crate) fn check_status(status: NTSTATUS) -> Result<(), NTSTATUS> {
    if abi::nt_success(status) { Ok(()) } else { Err(status) }
}
