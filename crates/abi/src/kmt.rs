//! Calls of a client into the graphics kernel, as in `d3dkmthk.h`.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

mod adapter;
mod adapter_info;
mod device;
mod keyed;
mod memory;
mod nt_share;
mod statistics;
mod sync;
mod vidpn;

pub use adapter::*;
pub use adapter_info::*;
pub use device::*;
pub use keyed::*;
pub use memory::*;
pub use nt_share::*;
pub use statistics::*;
pub use sync::*;
pub use vidpn::*;

use crate::ukm::{
    D3DDDI_ALLOCATIONINFO, D3DDDI_ALLOCATIONINFO2, D3DDDI_ALLOCATIONLIST,
    D3DDDI_CREATECONTEXTFLAGS, D3DDDI_ESCAPEFLAGS, D3DDDI_MAX_BROADCAST_CONTEXT,
    D3DDDI_MAX_WRITTEN_PRIMARIES, D3DDDI_PATCHLOCATIONLIST, D3DDDICB_DESTROYALLOCATION2FLAGS,
    D3DGPU_VIRTUAL_ADDRESS, D3DKMT_SIZE_T,
};
use crate::{BOOL, D3DKMT_HANDLE, HANDLE, LUID};
use core::ffi::c_void;

pub use crate::ukm::{D3DDDI_OPENALLOCATIONINFO, D3DDDI_OPENALLOCATIONINFO2};

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_ADAPTERINFO {
    pub hAdapter: D3DKMT_HANDLE,
    pub AdapterLuid: LUID,
    pub NumOfSources: u32,
    pub bPrecisePresentRegionsPreferred: BOOL,
}
layout! { D3DKMT_ADAPTERINFO: 20 {
    hAdapter: 0, AdapterLuid: 4, NumOfSources: 12, bPrecisePresentRegionsPreferred: 16,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_ENUMADAPTERS2 {
    pub NumAdapters: u32,
    pub pAdapters: *mut D3DKMT_ADAPTERINFO,
}
layout! { D3DKMT_ENUMADAPTERS2: 16 { NumAdapters: 0, pAdapters: 8 } }

flags64! { D3DKMT_ENUMADAPTERS_FILTER { IncludeComputeOnly: 0, IncludeDisplayOnly: 1 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_ENUMADAPTERS3 {
    pub Filter: D3DKMT_ENUMADAPTERS_FILTER,
    pub NumAdapters: u32,
    pub pAdapters: *mut D3DKMT_ADAPTERINFO,
}
layout! { D3DKMT_ENUMADAPTERS3: 24 { Filter: 0, NumAdapters: 8, pAdapters: 16 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENADAPTERFROMLUID {
    pub AdapterLuid: LUID,
    pub hAdapter: D3DKMT_HANDLE,
}
layout! { D3DKMT_OPENADAPTERFROMLUID: 12 { AdapterLuid: 0, hAdapter: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CLOSEADAPTER {
    pub hAdapter: D3DKMT_HANDLE,
}
layout! { D3DKMT_CLOSEADAPTER: 4 { hAdapter: 0 } }

flags! { D3DKMT_CREATEDEVICEFLAGS { LegacyMode: 0, RequestVSync: 1, DisableGpuTimeout: 2 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CREATEDEVICE {
    pub hAdapter: D3DKMT_HANDLE,
    /// `hAdapter` is in a union with the pointer `pAdapter`, whose upper half this is.
    pub pAdapterUpper: u32,
    pub Flags: D3DKMT_CREATEDEVICEFLAGS,
    pub hDevice: D3DKMT_HANDLE,
    pub pCommandBuffer: *mut c_void,
    pub CommandBufferSize: u32,
    pub pAllocationList: *mut D3DDDI_ALLOCATIONLIST,
    pub AllocationListSize: u32,
    pub pPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
    pub PatchLocationListSize: u32,
}
layout! { D3DKMT_CREATEDEVICE: 64 {
    hAdapter: 0, pAdapterUpper: 4, Flags: 8, hDevice: 12, pCommandBuffer: 16,
    CommandBufferSize: 24, pAllocationList: 32, AllocationListSize: 40, pPatchLocationList: 48,
    PatchLocationListSize: 56,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_DESTROYDEVICE {
    pub hDevice: D3DKMT_HANDLE,
}
layout! { D3DKMT_DESTROYDEVICE: 4 { hDevice: 0 } }

values! { D3DKMT_CLIENTHINT {
    D3DKMT_CLIENTHINT_UNKNOWN = 0,
    D3DKMT_CLIENTHINT_OPENGL = 1,
    D3DKMT_CLIENTHINT_CDD = 2,
    D3DKMT_CLIENTHINT_OPENCL = 3,
    D3DKMT_CLIENTHINT_VULKAN = 4,
    D3DKMT_CLIENTHINT_CUDA = 5,
    D3DKMT_CLIENTHINT_RESERVED = 6,
    D3DKMT_CLIENTHINT_DX7 = 7,
    D3DKMT_CLIENTHINT_DX8 = 8,
    D3DKMT_CLIENTHINT_DX9 = 9,
    D3DKMT_CLIENTHINT_DX10 = 10,
    D3DKMT_CLIENTHINT_DX11 = 11,
    D3DKMT_CLIENTHINT_DX12 = 12,
    D3DKMT_CLIENTHINT_9ON12 = 13,
    D3DKMT_CLIENTHINT_11ON12 = 14,
    D3DKMT_CLIENTHINT_MFT_ENCODE = 15,
    D3DKMT_CLIENTHINT_GLON12 = 16,
    D3DKMT_CLIENTHINT_CLON12 = 17,
    D3DKMT_CLIENTHINT_DML_TENSORFLOW = 18,
    D3DKMT_CLIENTHINT_ONEAPI_LEVEL0 = 19,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CREATECONTEXTVIRTUAL {
    pub hDevice: D3DKMT_HANDLE,
    pub NodeOrdinal: u32,
    pub EngineAffinity: u32,
    pub Flags: D3DDDI_CREATECONTEXTFLAGS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub ClientHint: D3DKMT_CLIENTHINT,
    pub hContext: D3DKMT_HANDLE,
}
layout! { D3DKMT_CREATECONTEXTVIRTUAL: 40 {
    hDevice: 0, NodeOrdinal: 4, EngineAffinity: 8, Flags: 12, pPrivateDriverData: 16,
    PrivateDriverDataSize: 24, ClientHint: 28, hContext: 32,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CREATECONTEXT {
    pub hDevice: D3DKMT_HANDLE,
    pub NodeOrdinal: u32,
    pub EngineAffinity: u32,
    pub Flags: D3DDDI_CREATECONTEXTFLAGS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub ClientHint: D3DKMT_CLIENTHINT,
    pub hContext: D3DKMT_HANDLE,
    pub pCommandBuffer: *mut c_void,
    pub CommandBufferSize: u32,
    pub pAllocationList: *mut D3DDDI_ALLOCATIONLIST,
    pub AllocationListSize: u32,
    pub pPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
    pub PatchLocationListSize: u32,
    pub CommandBuffer: D3DGPU_VIRTUAL_ADDRESS,
}
layout! { D3DKMT_CREATECONTEXT: 96 {
    hDevice: 0, NodeOrdinal: 4, EngineAffinity: 8, Flags: 12, pPrivateDriverData: 16,
    PrivateDriverDataSize: 24, ClientHint: 28, hContext: 32, pCommandBuffer: 40,
    CommandBufferSize: 48, pAllocationList: 56, AllocationListSize: 64, pPatchLocationList: 72,
    PatchLocationListSize: 80, CommandBuffer: 88,
} }

flags! { D3DKMT_RENDERFLAGS {
    ResizeCommandBuffer: 0,
    ResizeAllocationList: 1,
    ResizePatchLocationList: 2,
    NullRendering: 3,
    PresentRedirected: 4,
    RenderKm: 5,
    RenderKmReadback: 6,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_RENDER {
    /// A union with `hDevice`, for a driver without contexts.
    pub hContext: D3DKMT_HANDLE,
    pub CommandOffset: u32,
    pub CommandLength: u32,
    pub AllocationCount: u32,
    pub PatchLocationCount: u32,
    pub pNewCommandBuffer: *mut c_void,
    pub NewCommandBufferSize: u32,
    pub pNewAllocationList: *mut D3DDDI_ALLOCATIONLIST,
    pub NewAllocationListSize: u32,
    pub pNewPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
    pub NewPatchLocationListSize: u32,
    pub Flags: D3DKMT_RENDERFLAGS,
    pub PresentHistoryToken: u64,
    pub BroadcastContextCount: u32,
    pub BroadcastContext: [D3DKMT_HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT],
    pub QueuedBufferCount: u32,
    pub NewCommandBuffer: D3DGPU_VIRTUAL_ADDRESS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
}
layout! { D3DKMT_RENDER: 368 {
    hContext: 0, CommandOffset: 4, CommandLength: 8, AllocationCount: 12, PatchLocationCount: 16,
    pNewCommandBuffer: 24, NewCommandBufferSize: 32, pNewAllocationList: 40,
    NewAllocationListSize: 48, pNewPatchLocationList: 56, NewPatchLocationListSize: 64, Flags: 68,
    PresentHistoryToken: 72, BroadcastContextCount: 80, BroadcastContext: 84,
    QueuedBufferCount: 340, NewCommandBuffer: 344, pPrivateDriverData: 352,
    PrivateDriverDataSize: 360,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_DESTROYCONTEXT {
    pub hContext: D3DKMT_HANDLE,
}
layout! { D3DKMT_DESTROYCONTEXT: 4 { hContext: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SETCONTEXTSCHEDULINGPRIORITY {
    pub hContext: D3DKMT_HANDLE,
    pub Priority: i32,
}
layout! { D3DKMT_SETCONTEXTSCHEDULINGPRIORITY: 8 { hContext: 0, Priority: 4 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_GETCONTEXTSCHEDULINGPRIORITY {
    pub hContext: D3DKMT_HANDLE,
    pub Priority: i32,
}
layout! { D3DKMT_GETCONTEXTSCHEDULINGPRIORITY: 8 { hContext: 0, Priority: 4 } }

flags! { D3DKMT_SUBMITCOMMANDFLAGS { NullRendering: 0, PresentRedirected: 1, NoKmdAccess: 2 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SUBMITCOMMAND {
    pub Commands: D3DGPU_VIRTUAL_ADDRESS,
    pub CommandLength: u32,
    pub Flags: D3DKMT_SUBMITCOMMANDFLAGS,
    pub PresentHistoryToken: u64,
    pub BroadcastContextCount: u32,
    pub BroadcastContext: [D3DKMT_HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT],
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub NumPrimaries: u32,
    pub WrittenPrimaries: [D3DKMT_HANDLE; D3DDDI_MAX_WRITTEN_PRIMARIES],
    pub NumHistoryBuffers: u32,
    pub HistoryBufferArray: *mut D3DKMT_HANDLE,
}
layout! { D3DKMT_SUBMITCOMMAND: 384 {
    Commands: 0, CommandLength: 8, Flags: 12, PresentHistoryToken: 16, BroadcastContextCount: 24,
    BroadcastContext: 28, pPrivateDriverData: 288, PrivateDriverDataSize: 296, NumPrimaries: 300,
    WrittenPrimaries: 304, NumHistoryBuffers: 368, HistoryBufferArray: 376,
} }

values! { D3DKMT_ESCAPETYPE {
    D3DKMT_ESCAPE_DRIVERPRIVATE = 0,
    D3DKMT_ESCAPE_VIDMM = 1,
    D3DKMT_ESCAPE_TDRDBGCTRL = 2,
    D3DKMT_ESCAPE_VIDSCH = 3,
    D3DKMT_ESCAPE_DEVICE = 4,
    D3DKMT_ESCAPE_DMM = 5,
    D3DKMT_ESCAPE_DEBUG_SNAPSHOT = 6,
    D3DKMT_ESCAPE_DRT_TEST = 8,
    D3DKMT_ESCAPE_DIAGNOSTICS = 9,
    D3DKMT_ESCAPE_OUTPUTDUPL_SNAPSHOT = 10,
    D3DKMT_ESCAPE_OUTPUTDUPL_DIAGNOSTICS = 11,
    D3DKMT_ESCAPE_BDD_PNP = 12,
    D3DKMT_ESCAPE_BDD_FALLBACK = 13,
    D3DKMT_ESCAPE_ACTIVATE_SPECIFIC_DIAG = 14,
    D3DKMT_ESCAPE_MODES_PRUNED_OUT = 15,
    D3DKMT_ESCAPE_WHQL_INFO = 16,
    D3DKMT_ESCAPE_BRIGHTNESS = 17,
    D3DKMT_ESCAPE_EDID_CACHE = 18,
    D3DKMT_ESCAPE_MIRACAST_DISPLAY_REQUEST = 20,
    D3DKMT_ESCAPE_HISTORY_BUFFER_STATUS = 21,
    D3DKMT_ESCAPE_MIRACAST_ADAPTER_DIAG_INFO = 23,
    D3DKMT_ESCAPE_FORCE_BDDFALLBACK_HEADLESS = 24,
    D3DKMT_ESCAPE_REQUEST_MACHINE_CRASH = 25,
    D3DKMT_ESCAPE_SOFTGPU_ENABLE_DISABLE_HMD = 27,
    D3DKMT_ESCAPE_PROCESS_VERIFIER_OPTION = 28,
    D3DKMT_ESCAPE_ADAPTER_VERIFIER_OPTION = 29,
    D3DKMT_ESCAPE_IDD_REQUEST = 30,
    D3DKMT_ESCAPE_DOD_SET_DIRTYRECT_MODE = 31,
    D3DKMT_ESCAPE_LOG_CODEPOINT_PACKET = 32,
    D3DKMT_ESCAPE_LOG_USERMODE_DAIG_PACKET = 33,
    D3DKMT_ESCAPE_GET_EXTERNAL_DIAGNOSTICS = 34,
    D3DKMT_ESCAPE_GET_DISPLAY_CONFIGURATIONS = 36,
    D3DKMT_ESCAPE_QUERY_IOMMU_STATUS = 37,
    D3DKMT_ESCAPE_CCD_DATABASE = 38,
    D3DKMT_ESCAPE_QUERY_DMA_REMAPPING_STATUS = 39,
    D3DKMT_ESCAPE_WIN32K_START = 1024,
    D3DKMT_ESCAPE_WIN32K_HIP_DEVICE_INFO = 1024,
    D3DKMT_ESCAPE_WIN32K_QUERY_CD_ROTATION_BLOCK = 1025,
    D3DKMT_ESCAPE_WIN32K_DPI_INFO = 1026,
    D3DKMT_ESCAPE_WIN32K_PRESENTER_VIEW_INFO = 1027,
    D3DKMT_ESCAPE_WIN32K_SYSTEM_DPI = 1028,
    D3DKMT_ESCAPE_WIN32K_BDD_FALLBACK = 1029,
    D3DKMT_ESCAPE_WIN32K_DDA_TEST_CTL = 1030,
    D3DKMT_ESCAPE_WIN32K_USER_DETECTED_BLACK_SCREEN = 1031,
    D3DKMT_ESCAPE_WIN32K_DISPBROKER_TEST = 1035,
    D3DKMT_ESCAPE_WIN32K_COLOR_PROFILE_INFO = 1036,
    D3DKMT_ESCAPE_WIN32K_SET_DIMMED_STATE = 1037,
    D3DKMT_ESCAPE_WIN32K_SPECIALIZED_DISPLAY_TEST = 1038,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_ESCAPE {
    pub hAdapter: D3DKMT_HANDLE,
    pub hDevice: D3DKMT_HANDLE,
    pub Type: D3DKMT_ESCAPETYPE,
    pub Flags: D3DDDI_ESCAPEFLAGS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub hContext: D3DKMT_HANDLE,
}
layout! { D3DKMT_ESCAPE: 32 {
    hAdapter: 0, hDevice: 4, Type: 8, Flags: 12, pPrivateDriverData: 16,
    PrivateDriverDataSize: 24, hContext: 28,
} }

values! { D3DKMT_STANDARDALLOCATIONTYPE {
    D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP = 1,
    D3DKMT_STANDARDALLOCATIONTYPE_INTERNALBACKINGSTORE = 2,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_STANDARDALLOCATION_EXISTINGHEAP {
    pub Size: D3DKMT_SIZE_T,
}
layout! { D3DKMT_STANDARDALLOCATION_EXISTINGHEAP: 8 { Size: 0 } }

flags! { D3DKMT_CREATESTANDARDALLOCATIONFLAGS {} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CREATESTANDARDALLOCATION {
    pub Type: D3DKMT_STANDARDALLOCATIONTYPE,
    /// In a union, as its only member.
    pub ExistingHeapData: D3DKMT_STANDARDALLOCATION_EXISTINGHEAP,
    pub Flags: D3DKMT_CREATESTANDARDALLOCATIONFLAGS,
}
layout! { D3DKMT_CREATESTANDARDALLOCATION: 24 { Type: 0, ExistingHeapData: 8, Flags: 16 } }

flags! { D3DKMT_CREATEALLOCATIONFLAGS {
    CreateResource: 0,
    CreateShared: 1,
    NonSecure: 2,
    CreateProtected: 3,
    RestrictSharedAccess: 4,
    ExistingSysMem: 5,
    NtSecuritySharing: 6,
    ReadOnly: 7,
    CreateWriteCombined: 8,
    CreateCached: 9,
    SwapChainBackBuffer: 10,
    CrossAdapter: 11,
    OpenCrossAdapter: 12,
    PartialSharedCreation: 13,
    Zeroed: 14,
    WriteWatch: 15,
    StandardAllocation: 16, // since 2.3
    ExistingSection: 17, // since 2.3
    AllowNotZeroed: 18, // since 2.6
    PhysicallyContiguous: 19, // since 2.7
    NoKmdAccess: 20, // since 2.7
    SharedDisplayable: 21, // since 3.0
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_CREATEALLOCATION {
    pub hDevice: D3DKMT_HANDLE,
    pub hResource: D3DKMT_HANDLE,
    pub hGlobalShare: D3DKMT_HANDLE,
    pub pPrivateRuntimeData: *const c_void,
    pub PrivateRuntimeDataSize: u32,
    /// A union with `pStandardAllocation`: see [`Self::standard_allocation`].
    pub pPrivateDriverData: *const c_void,
    pub PrivateDriverDataSize: u32,
    pub NumAllocations: u32,
    /// A union with `pAllocationInfo2`: see [`Self::allocation_info2`].
    pub pAllocationInfo: *mut D3DDDI_ALLOCATIONINFO,
    pub Flags: D3DKMT_CREATEALLOCATIONFLAGS,
    pub hPrivateRuntimeResourceHandle: HANDLE,
}
layout! { D3DKMT_CREATEALLOCATION: 72 {
    hDevice: 0, hResource: 4, hGlobalShare: 8, pPrivateRuntimeData: 16,
    PrivateRuntimeDataSize: 24, pPrivateDriverData: 32, PrivateDriverDataSize: 40,
    NumAllocations: 44, pAllocationInfo: 48, Flags: 56, hPrivateRuntimeResourceHandle: 64,
} }

impl D3DKMT_CREATEALLOCATION {
    /// The union's `pStandardAllocation`.
    pub const fn standard_allocation(&self) -> *mut D3DKMT_CREATESTANDARDALLOCATION {
        self.pPrivateDriverData.cast_mut().cast()
    }

    /// The union's `pAllocationInfo2`.
    pub const fn allocation_info2(&self) -> *mut D3DDDI_ALLOCATIONINFO2 {
        self.pAllocationInfo.cast()
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_DESTROYALLOCATION {
    pub hDevice: D3DKMT_HANDLE,
    pub hResource: D3DKMT_HANDLE,
    pub phAllocationList: *const D3DKMT_HANDLE,
    pub AllocationCount: u32,
}
layout! { D3DKMT_DESTROYALLOCATION: 24 {
    hDevice: 0, hResource: 4, phAllocationList: 8, AllocationCount: 16,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_DESTROYALLOCATION2 {
    pub hDevice: D3DKMT_HANDLE,
    pub hResource: D3DKMT_HANDLE,
    pub phAllocationList: *const D3DKMT_HANDLE,
    pub AllocationCount: u32,
    pub Flags: D3DDDICB_DESTROYALLOCATION2FLAGS,
}
layout! { D3DKMT_DESTROYALLOCATION2: 24 {
    hDevice: 0, hResource: 4, phAllocationList: 8, AllocationCount: 16, Flags: 20,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OPENRESOURCE {
    pub hDevice: D3DKMT_HANDLE,
    pub hGlobalShare: D3DKMT_HANDLE,
    pub NumAllocations: u32,
    /// A union with `pOpenAllocationInfo2`: see [`Self::open_allocation_info2`].
    pub pOpenAllocationInfo: *mut D3DDDI_OPENALLOCATIONINFO,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
    pub pResourcePrivateDriverData: *mut c_void,
    pub ResourcePrivateDriverDataSize: u32,
    pub pTotalPrivateDriverDataBuffer: *mut c_void,
    pub TotalPrivateDriverDataBufferSize: u32,
    pub hResource: D3DKMT_HANDLE,
}
layout! { D3DKMT_OPENRESOURCE: 72 {
    hDevice: 0, hGlobalShare: 4, NumAllocations: 8, pOpenAllocationInfo: 16,
    pPrivateRuntimeData: 24, PrivateRuntimeDataSize: 32, pResourcePrivateDriverData: 40,
    ResourcePrivateDriverDataSize: 48, pTotalPrivateDriverDataBuffer: 56,
    TotalPrivateDriverDataBufferSize: 64, hResource: 68,
} }

impl D3DKMT_OPENRESOURCE {
    /// The union's `pOpenAllocationInfo2`.
    pub const fn open_allocation_info2(&self) -> *mut D3DDDI_OPENALLOCATIONINFO2 {
        self.pOpenAllocationInfo.cast()
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYRESOURCEINFO {
    pub hDevice: D3DKMT_HANDLE,
    pub hGlobalShare: D3DKMT_HANDLE,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
    pub TotalPrivateDriverDataSize: u32,
    pub ResourcePrivateDriverDataSize: u32,
    pub NumAllocations: u32,
}
layout! { D3DKMT_QUERYRESOURCEINFO: 32 {
    hDevice: 0, hGlobalShare: 4, pPrivateRuntimeData: 8, PrivateRuntimeDataSize: 16,
    TotalPrivateDriverDataSize: 20, ResourcePrivateDriverDataSize: 24, NumAllocations: 28,
} }

values! { D3DKMT_DEVICEEXECUTION_STATE {
    D3DKMT_DEVICEEXECUTION_ACTIVE = 1,
    D3DKMT_DEVICEEXECUTION_RESET = 2,
    D3DKMT_DEVICEEXECUTION_HUNG = 3,
    D3DKMT_DEVICEEXECUTION_STOPPED = 4,
    D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY = 5,
    D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT = 6,
    D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT = 7, // since 2.0
} }

values! { D3DKMT_DEVICESTATE_TYPE {
    D3DKMT_DEVICESTATE_EXECUTION = 1,
    D3DKMT_DEVICESTATE_PRESENT = 2,
    D3DKMT_DEVICESTATE_RESET = 3,
    D3DKMT_DEVICESTATE_PRESENT_DWM = 4,
    D3DKMT_DEVICESTATE_PAGE_FAULT = 5, // since 2.0
    D3DKMT_DEVICESTATE_PRESENT_QUEUE = 6, // since 2.1
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_GETDEVICESTATE {
    pub hDevice: D3DKMT_HANDLE,
    pub StateType: D3DKMT_DEVICESTATE_TYPE,
    /// A union of states, by type. A union with `ExecutionState`: see [`Self::execution_state`];
    /// that one is the low half of the first word.
    pub State: [u64; 6],
}
layout! { D3DKMT_GETDEVICESTATE: 56 { hDevice: 0, StateType: 4, State: 8 } }

impl D3DKMT_GETDEVICESTATE {
    /// The union's `ExecutionState`.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    pub const fn execution_state(&self) -> D3DKMT_DEVICEEXECUTION_STATE {
        self.State[0] as i32
    }

    /// Sets the union's `ExecutionState`.
    #[expect(clippy::cast_sign_loss, reason = "the states are positive")]
    pub const fn set_execution_state(&mut self, state: D3DKMT_DEVICEEXECUTION_STATE) {
        self.State[0] = state as u64;
    }
}
