//! What `D3DKMTQueryAdapterInfo` asks and returns, by type.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::{BOOLEAN, D3DKMT_HANDLE, LARGE_INTEGER, WCHAR};
use core::ffi::c_void;

/// The number of characters of a path.
pub const MAX_PATH: usize = 260;
pub const DXGK_MAX_METADATA_NAME_LENGTH: usize = 32;
pub const DXGK_MAX_GPUVERSION_NAME_LENGTH: usize = 32;

values! { KMTQUERYADAPTERINFOTYPE {
    KMTQAITYPE_UMDRIVERPRIVATE = 0,
    KMTQAITYPE_UMDRIVERNAME = 1,
    KMTQAITYPE_UMOPENGLINFO = 2,
    KMTQAITYPE_GETSEGMENTSIZE = 3,
    KMTQAITYPE_ADAPTERGUID = 4,
    KMTQAITYPE_FLIPQUEUEINFO = 5,
    KMTQAITYPE_ADAPTERADDRESS = 6,
    KMTQAITYPE_SETWORKINGSETINFO = 7,
    KMTQAITYPE_ADAPTERREGISTRYINFO = 8,
    KMTQAITYPE_CURRENTDISPLAYMODE = 9,
    KMTQAITYPE_MODELIST = 10,
    KMTQAITYPE_CHECKDRIVERUPDATESTATUS = 11,
    KMTQAITYPE_VIRTUALADDRESSINFO = 12,
    KMTQAITYPE_DRIVERVERSION = 13,
    KMTQAITYPE_ADAPTERTYPE = 15,
    KMTQAITYPE_OUTPUTDUPLCONTEXTSCOUNT = 16,
    KMTQAITYPE_WDDM_1_2_CAPS = 17,
    KMTQAITYPE_UMD_DRIVER_VERSION = 18,
    KMTQAITYPE_DIRECTFLIP_SUPPORT = 19,
    KMTQAITYPE_MULTIPLANEOVERLAY_SUPPORT = 20,
    KMTQAITYPE_DLIST_DRIVER_NAME = 21,
    KMTQAITYPE_WDDM_1_3_CAPS = 22,
    KMTQAITYPE_MULTIPLANEOVERLAY_HUD_SUPPORT = 23,
    KMTQAITYPE_WDDM_2_0_CAPS = 24,
    KMTQAITYPE_NODEMETADATA = 25,
    KMTQAITYPE_CPDRIVERNAME = 26,
    KMTQAITYPE_XBOX = 27,
    KMTQAITYPE_INDEPENDENTFLIP_SUPPORT = 28,
    KMTQAITYPE_MIRACASTCOMPANIONDRIVERNAME = 29,
    KMTQAITYPE_PHYSICALADAPTERCOUNT = 30,
    KMTQAITYPE_PHYSICALADAPTERDEVICEIDS = 31,
    KMTQAITYPE_DRIVERCAPS_EXT = 32,
    KMTQAITYPE_QUERY_MIRACAST_DRIVER_TYPE = 33,
    KMTQAITYPE_QUERY_GPUMMU_CAPS = 34,
    KMTQAITYPE_QUERY_MULTIPLANEOVERLAY_DECODE_SUPPORT = 35,
    KMTQAITYPE_QUERY_HW_PROTECTION_TEARDOWN_COUNT = 36,
    KMTQAITYPE_QUERY_ISBADDRIVERFORHWPROTECTIONDISABLED = 37,
    KMTQAITYPE_MULTIPLANEOVERLAY_SECONDARY_SUPPORT = 38,
    KMTQAITYPE_INDEPENDENTFLIP_SECONDARY_SUPPORT = 39,
    KMTQAITYPE_PANELFITTER_SUPPORT = 40,
    KMTQAITYPE_PHYSICALADAPTERPNPKEY = 41,
    KMTQAITYPE_GETSEGMENTGROUPSIZE = 42,
    KMTQAITYPE_MPO3DDI_SUPPORT = 43,
    KMTQAITYPE_HWDRM_SUPPORT = 44,
    KMTQAITYPE_MPOKERNELCAPS_SUPPORT = 45,
    KMTQAITYPE_MULTIPLANEOVERLAY_STRETCH_SUPPORT = 46,
    KMTQAITYPE_GET_DEVICE_VIDPN_OWNERSHIP_INFO = 47,
    KMTQAITYPE_QUERYREGISTRY = 48,
    KMTQAITYPE_KMD_DRIVER_VERSION = 49,
    KMTQAITYPE_BLOCKLIST_KERNEL = 50,
    KMTQAITYPE_BLOCKLIST_RUNTIME = 51,
    KMTQAITYPE_ADAPTERGUID_RENDER = 52,
    KMTQAITYPE_ADAPTERADDRESS_RENDER = 53,
    KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER = 54,
    KMTQAITYPE_CHECKDRIVERUPDATESTATUS_RENDER = 55,
    KMTQAITYPE_DRIVERVERSION_RENDER = 56,
    KMTQAITYPE_ADAPTERTYPE_RENDER = 57,
    KMTQAITYPE_WDDM_1_2_CAPS_RENDER = 58,
    KMTQAITYPE_WDDM_1_3_CAPS_RENDER = 59,
    KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID = 60,
    KMTQAITYPE_NODEPERFDATA = 61,
    KMTQAITYPE_ADAPTERPERFDATA = 62,
    KMTQAITYPE_ADAPTERPERFDATA_CAPS = 63,
    KMTQUITYPE_GPUVERSION = 64,
    KMTQAITYPE_DRIVER_DESCRIPTION = 65,
    KMTQAITYPE_DRIVER_DESCRIPTION_RENDER = 66,
    KMTQAITYPE_SCANOUT_CAPS = 67,
    KMTQAITYPE_PARAVIRTUALIZATION_RENDER = 68,
    KMTQAITYPE_SERVICENAME = 69,
    KMTQAITYPE_WDDM_2_7_CAPS = 70,
    KMTQAITYPE_DISPLAY_UMDRIVERNAME = 71,
    KMTQAITYPE_TRACKEDWORKLOAD_SUPPORT = 72,
    KMTQAITYPE_HYBRID_DLIST_DLL_SUPPORT = 73,
    KMTQAITYPE_DISPLAY_CAPS = 74,
    KMTQAITYPE_WDDM_2_9_CAPS = 75,
    KMTQAITYPE_CROSSADAPTERRESOURCE_SUPPORT = 76,
    KMTQAITYPE_WDDM_3_0_CAPS = 77,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYADAPTERINFO {
    pub hAdapter: D3DKMT_HANDLE,
    pub Type: KMTQUERYADAPTERINFOTYPE,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
}
layout! { D3DKMT_QUERYADAPTERINFO: 24 {
    hAdapter: 0, Type: 4, pPrivateDriverData: 8, PrivateDriverDataSize: 16,
} }

values! { KMTUMDVERSION {
    KMTUMDVERSION_DX9 = 0,
    KMTUMDVERSION_DX10 = 1,
    KMTUMDVERSION_DX11 = 2,
    KMTUMDVERSION_DX12 = 3,
    NUM_KMTUMDVERSIONS = 4,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_UMDFILENAMEINFO {
    pub Version: KMTUMDVERSION,
    pub UmdFileName: [WCHAR; MAX_PATH],
}
layout! { D3DKMT_UMDFILENAMEINFO: 524 {
    Version: 0, UmdFileName: 4,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SEGMENTSIZEINFO {
    pub DedicatedVideoMemorySize: u64,
    pub DedicatedSystemMemorySize: u64,
    pub SharedSystemMemorySize: u64,
}
layout! { D3DKMT_SEGMENTSIZEINFO: 24 {
    DedicatedVideoMemorySize: 0, DedicatedSystemMemorySize: 8, SharedSystemMemorySize: 16,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SEGMENTGROUPSIZEINFO {
    pub PhysicalAdapterIndex: u32,
    pub LegacyInfo: D3DKMT_SEGMENTSIZEINFO,
    pub LocalMemory: u64,
    pub NonLocalMemory: u64,
    pub NonBudgetMemory: u64,
}
layout! { D3DKMT_SEGMENTGROUPSIZEINFO: 56 {
    PhysicalAdapterIndex: 0, LegacyInfo: 8, LocalMemory: 32, NonLocalMemory: 40, NonBudgetMemory: 48,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_ADAPTERADDRESS {
    pub BusNumber: u32,
    pub DeviceNumber: u32,
    pub FunctionNumber: u32,
}
layout! { D3DKMT_ADAPTERADDRESS: 12 {
    BusNumber: 0, DeviceNumber: 4, FunctionNumber: 8,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_ADAPTERREGISTRYINFO {
    pub AdapterString: [WCHAR; MAX_PATH],
    pub BiosString: [WCHAR; MAX_PATH],
    pub DacType: [WCHAR; MAX_PATH],
    pub ChipType: [WCHAR; MAX_PATH],
}
layout! { D3DKMT_ADAPTERREGISTRYINFO: 2080 {
    AdapterString: 0, BiosString: 520, DacType: 1040, ChipType: 1560,
} }

values! { D3DKMT_DRIVERVERSION {
    KMT_DRIVERVERSION_WDDM_1_0 = 1000,
    KMT_DRIVERVERSION_WDDM_1_1_PRERELEASE = 1102,
    KMT_DRIVERVERSION_WDDM_1_1 = 1105,
    KMT_DRIVERVERSION_WDDM_1_2 = 1200,
    KMT_DRIVERVERSION_WDDM_1_3 = 1300,
    KMT_DRIVERVERSION_WDDM_2_0 = 2000,
    KMT_DRIVERVERSION_WDDM_2_1 = 2100,
    KMT_DRIVERVERSION_WDDM_2_2 = 2200,
    KMT_DRIVERVERSION_WDDM_2_3 = 2300,
    KMT_DRIVERVERSION_WDDM_2_4 = 2400,
    KMT_DRIVERVERSION_WDDM_2_5 = 2500,
    KMT_DRIVERVERSION_WDDM_2_6 = 2600,
    KMT_DRIVERVERSION_WDDM_2_7 = 2700,
    KMT_DRIVERVERSION_WDDM_2_8 = 2800,
    KMT_DRIVERVERSION_WDDM_2_9 = 2900,
    KMT_DRIVERVERSION_WDDM_3_0 = 3000,
    KMT_DRIVERVERSION_WDDM_3_1 = 3100,
} }

flags! { D3DKMT_VIRTUALADDRESSFLAGS { VirtualAddressSupported: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_VIRTUALADDRESSINFO {
    pub VirtualAddressFlags: D3DKMT_VIRTUALADDRESSFLAGS,
}
layout! { D3DKMT_VIRTUALADDRESSINFO: 4 {
    VirtualAddressFlags: 0,
} }

flags! { D3DKMT_ADAPTERTYPE {
    RenderSupported: 0,
    DisplaySupported: 1,
    SoftwareDevice: 2,
    PostDevice: 3,
    HybridDiscrete: 4,
    HybridIntegrated: 5,
    IndirectDisplayDevice: 6,
    Paravirtualized: 7,
    ACGSupported: 8,
    SupportSetTimingsFromVidPn: 9,
    Detachable: 10,
    ComputeOnly: 11,
    Prototype: 12,
    RuntimePowerManagement: 13,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_OUTPUTDUPLCONTEXTSCOUNT {
    pub VidPnSourceId: u32,
    pub OutputDuplicationCount: u32,
}
layout! { D3DKMT_OUTPUTDUPLCONTEXTSCOUNT: 8 {
    VidPnSourceId: 0, OutputDuplicationCount: 4,
} }

values! { D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY {
    D3DKMDT_GRAPHICS_PREEMPTION_NONE = 0,
    D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY = 100,
    D3DKMDT_GRAPHICS_PREEMPTION_PRIMITIVE_BOUNDARY = 200,
    D3DKMDT_GRAPHICS_PREEMPTION_TRIANGLE_BOUNDARY = 300,
    D3DKMDT_GRAPHICS_PREEMPTION_PIXEL_BOUNDARY = 400,
    D3DKMDT_GRAPHICS_PREEMPTION_SHADER_BOUNDARY = 500,
} }

values! { D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY {
    D3DKMDT_COMPUTE_PREEMPTION_NONE = 0,
    D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY = 100,
    D3DKMDT_COMPUTE_PREEMPTION_DISPATCH_BOUNDARY = 200,
    D3DKMDT_COMPUTE_PREEMPTION_THREAD_GROUP_BOUNDARY = 300,
    D3DKMDT_COMPUTE_PREEMPTION_THREAD_BOUNDARY = 400,
    D3DKMDT_COMPUTE_PREEMPTION_SHADER_BOUNDARY = 500,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMDT_PREEMPTION_CAPS {
    pub GraphicsPreemptionGranularity: D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY,
    pub ComputePreemptionGranularity: D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY,
}
layout! { D3DKMDT_PREEMPTION_CAPS: 8 {
    GraphicsPreemptionGranularity: 0, ComputePreemptionGranularity: 4,
} }

// Unnamed in Windows: a union inside the struct.
flags! { D3DKMT_WDDM_1_2_CAPS_FLAGS {
    SupportNonVGA: 0,
    SupportSmoothRotation: 1,
    SupportPerEngineTDR: 2,
    SupportKernelModeCommandBuffer: 3,
    SupportCCD: 4,
    SupportSoftwareDeviceBitmaps: 5,
    SupportGammaRamp: 6,
    SupportHWCursor: 7,
    SupportHWVSync: 8,
    SupportSurpriseRemovalInHibernation: 9,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_WDDM_1_2_CAPS {
    pub PreemptionCaps: D3DKMDT_PREEMPTION_CAPS,
    pub Flags: D3DKMT_WDDM_1_2_CAPS_FLAGS,
}
layout! { D3DKMT_WDDM_1_2_CAPS: 12 { PreemptionCaps: 0, Flags: 8 } }

flags! { D3DKMT_WDDM_1_3_CAPS {
    SupportMiracast: 0,
    IsHybridIntegratedGPU: 1,
    IsHybridDiscreteGPU: 2,
    SupportPowerManagementPStates: 3,
    SupportVirtualModes: 4,
    SupportCrossAdapterResource: 5,
} }

flags! { D3DKMT_WDDM_2_0_CAPS {
    Support64BitAtomics: 0,
    GpuMmuSupported: 1,
    IoMmuSupported: 2,
    FlipOverwriteSupported: 3,
    SupportContextlessPresent: 4,
    SupportSurpriseRemoval: 5,
} }

flags! { D3DKMT_WDDM_2_7_CAPS {
    HwSchSupported: 0,
    HwSchEnabled: 1,
    HwSchEnabledByDefault: 2,
    IndependentVidPnVSyncControl: 3,
} }

// The low two bits are `HwSchSupportState`, a number.
flags! { D3DKMT_WDDM_2_9_CAPS { HwSchEnabled: 2, SelfRefreshMemorySupported: 3 } }

// The low two bits are `HwFlipQueueSupportState`, a number.
flags! { D3DKMT_WDDM_3_0_CAPS { HwFlipQueueEnabled: 2, DisplayableSupported: 3 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_UMD_DRIVER_VERSION {
    pub DriverVersion: LARGE_INTEGER,
}
layout! { D3DKMT_UMD_DRIVER_VERSION: 8 {
    DriverVersion: 0,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_KMD_DRIVER_VERSION {
    pub DriverVersion: LARGE_INTEGER,
}
layout! { D3DKMT_KMD_DRIVER_VERSION: 8 {
    DriverVersion: 0,
} }

values! { DXGK_ENGINE_TYPE {
    DXGK_ENGINE_TYPE_OTHER = 0,
    DXGK_ENGINE_TYPE_3D = 1,
    DXGK_ENGINE_TYPE_VIDEO_DECODE = 2,
    DXGK_ENGINE_TYPE_VIDEO_ENCODE = 3,
    DXGK_ENGINE_TYPE_VIDEO_PROCESSING = 4,
    DXGK_ENGINE_TYPE_SCENE_ASSEMBLY = 5,
    DXGK_ENGINE_TYPE_COPY = 6,
    DXGK_ENGINE_TYPE_OVERLAY = 7,
    DXGK_ENGINE_TYPE_CRYPTO = 8,
} }

// The upper half is `MaxInFlightHwQueueBuffers`, a number.
flags! { DXGK_NODEMETADATA_FLAGS {
    ContextSchedulingSupported: 0,
    RingBufferFenceRelease: 1,
    SupportTrackedWorkload: 2,
} }

#[repr(C, packed(1))]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_NODEMETADATA {
    pub EngineType: DXGK_ENGINE_TYPE,
    pub FriendlyName: [WCHAR; DXGK_MAX_METADATA_NAME_LENGTH],
    pub Flags: DXGK_NODEMETADATA_FLAGS,
    pub GpuMmuSupported: BOOLEAN,
    pub IoMmuSupported: BOOLEAN,
}
layout! { DXGK_NODEMETADATA: 74 {
    EngineType: 0, FriendlyName: 4, Flags: 68, GpuMmuSupported: 72, IoMmuSupported: 73,
} }

#[repr(C, packed(1))]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_NODEMETADATA {
    pub NodeOrdinalAndAdapterIndex: u32,
    pub NodeData: DXGK_NODEMETADATA,
}
layout! { D3DKMT_NODEMETADATA: 78 {
    NodeOrdinalAndAdapterIndex: 0, NodeData: 4,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_PHYSICAL_ADAPTER_COUNT {
    pub Count: u32,
}
layout! { D3DKMT_PHYSICAL_ADAPTER_COUNT: 4 {
    Count: 0,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_DEVICE_IDS {
    pub VendorID: u32,
    pub DeviceID: u32,
    pub SubVendorID: u32,
    pub SubSystemID: u32,
    pub RevisionID: u32,
    pub BusType: u32,
}
layout! { D3DKMT_DEVICE_IDS: 24 {
    VendorID: 0, DeviceID: 4, SubVendorID: 8, SubSystemID: 12, RevisionID: 16, BusType: 20,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERY_DEVICE_IDS {
    pub PhysicalAdapterIndex: u32,
    pub DeviceIds: D3DKMT_DEVICE_IDS,
}
layout! { D3DKMT_QUERY_DEVICE_IDS: 28 {
    PhysicalAdapterIndex: 0, DeviceIds: 4,
} }

flags! { D3DKMT_DRIVERCAPS_EXT {
    VirtualModeSupport: 0,
    Usb4MonitorSupport: 1,
} }

// Unnamed in Windows: a union inside the struct.
flags! { D3DKMT_GPUMMU_CAPS_FLAGS {
    ReadOnlyMemorySupported: 0,
    NoExecuteMemorySupported: 1,
    CacheCoherentMemorySupported: 2,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_GPUMMU_CAPS {
    pub Flags: D3DKMT_GPUMMU_CAPS_FLAGS,
    pub VirtualAddressBitCount: u32,
}
layout! { D3DKMT_GPUMMU_CAPS: 8 {
    Flags: 0, VirtualAddressBitCount: 4,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERY_GPUMMU_CAPS {
    pub PhysicalAdapterIndex: u32,
    pub Caps: D3DKMT_GPUMMU_CAPS,
}
layout! { D3DKMT_QUERY_GPUMMU_CAPS: 12 {
    PhysicalAdapterIndex: 0, Caps: 4,
} }

values! { D3DDDI_QUERYREGISTRY_TYPE {
    D3DDDI_QUERYREGISTRY_SERVICEKEY = 0,
    D3DDDI_QUERYREGISTRY_ADAPTERKEY = 1,
    D3DDDI_QUERYREGISTRY_DRIVERSTOREPATH = 2,
    D3DDDI_QUERYREGISTRY_DRIVERIMAGEPATH = 3,
} }

flags! { D3DDDI_QUERYREGISTRY_FLAGS {
    TranslatePath: 0,
    MutableValue: 1,
} }

values! { D3DDDI_QUERYREGISTRY_STATUS {
    D3DDDI_QUERYREGISTRY_STATUS_SUCCESS = 0,
    D3DDDI_QUERYREGISTRY_STATUS_BUFFER_OVERFLOW = 1,
    D3DDDI_QUERYREGISTRY_STATUS_FAIL = 2,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DDDI_QUERYREGISTRY_INFO {
    pub QueryType: D3DDDI_QUERYREGISTRY_TYPE,
    pub QueryFlags: D3DDDI_QUERYREGISTRY_FLAGS,
    pub ValueName: [WCHAR; MAX_PATH],
    pub ValueType: u32,
    pub PhysicalAdapterIndex: u32,
    pub OutputValueSize: u32,
    pub Status: D3DDDI_QUERYREGISTRY_STATUS,
    /// A union with `OutputDword`: see [`Self::dword`]. A union with `OutputString`: see
    /// [`Self::string`]. A union with `OutputBinary`: see [`Self::binary`]. A string and binary
    /// data go on behind the structure.
    pub OutputQword: u64,
}
layout! { D3DDDI_QUERYREGISTRY_INFO: 552 {
    QueryType: 0, QueryFlags: 4, ValueName: 8, ValueType: 528, PhysicalAdapterIndex: 532,
    OutputValueSize: 536, Status: 540, OutputQword: 544,
} }

impl D3DDDI_QUERYREGISTRY_INFO {
    /// The union's `OutputDword`.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    pub const fn dword(&self) -> u32 {
        self.OutputQword as u32
    }

    /// The first character of the union's `OutputString`.
    #[expect(clippy::cast_possible_truncation, reason = "the low quarter is meant")]
    pub const fn string(&self) -> [WCHAR; 1] {
        [self.OutputQword as u16]
    }

    /// The first byte of the union's `OutputBinary`.
    pub const fn binary(&self) -> [u8; 1] {
        [self.OutputQword.to_le_bytes()[0]]
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERY_ADAPTER_UNIQUE_GUID {
    pub AdapterUniqueGUID: [WCHAR; 40],
}
layout! { D3DKMT_QUERY_ADAPTER_UNIQUE_GUID: 80 {
    AdapterUniqueGUID: 0,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_NODE_PERFDATA {
    pub NodeOrdinal: u32,
    pub PhysicalAdapterIndex: u32,
    pub Frequency: u64,
    pub MaxFrequency: u64,
    pub MaxFrequencyOC: u64,
    pub Voltage: u32,
    pub VoltageMax: u32,
    pub VoltageMaxOC: u32,
    pub MaxTransitionLatency: u64,
}
layout! { D3DKMT_NODE_PERFDATA: 56 {
    NodeOrdinal: 0, PhysicalAdapterIndex: 4, Frequency: 8, MaxFrequency: 16, MaxFrequencyOC: 24, Voltage: 32, VoltageMax: 36, VoltageMaxOC: 40, MaxTransitionLatency: 48,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_ADAPTER_PERFDATA {
    pub PhysicalAdapterIndex: u32,
    pub MemoryFrequency: u64,
    pub MaxMemoryFrequency: u64,
    pub MaxMemoryFrequencyOC: u64,
    pub MemoryBandwidth: u64,
    pub PCIEBandwidth: u64,
    pub FanRPM: u32,
    pub Power: u32,
    pub Temperature: u32,
    pub PowerStateOverride: u8,
}
layout! { D3DKMT_ADAPTER_PERFDATA: 64 {
    PhysicalAdapterIndex: 0, MemoryFrequency: 8, MaxMemoryFrequency: 16, MaxMemoryFrequencyOC: 24, MemoryBandwidth: 32, PCIEBandwidth: 40, FanRPM: 48, Power: 52, Temperature: 56, PowerStateOverride: 60,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_ADAPTER_PERFDATACAPS {
    pub PhysicalAdapterIndex: u32,
    pub MaxMemoryBandwidth: u64,
    pub MaxPCIEBandwidth: u64,
    pub MaxFanRPM: u32,
    pub TemperatureMax: u32,
    pub TemperatureWarning: u32,
}
layout! { D3DKMT_ADAPTER_PERFDATACAPS: 40 {
    PhysicalAdapterIndex: 0, MaxMemoryBandwidth: 8, MaxPCIEBandwidth: 16, MaxFanRPM: 24, TemperatureMax: 28, TemperatureWarning: 32,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_GPUVERSION {
    pub PhysicalAdapterIndex: u32,
    pub BiosVersion: [WCHAR; DXGK_MAX_GPUVERSION_NAME_LENGTH],
    pub GpuArchitecture: [WCHAR; DXGK_MAX_GPUVERSION_NAME_LENGTH],
}
layout! { D3DKMT_GPUVERSION: 132 {
    PhysicalAdapterIndex: 0, BiosVersion: 4, GpuArchitecture: 68,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_DRIVER_DESCRIPTION {
    pub DriverDescription: [WCHAR; 4096],
}
layout! { D3DKMT_DRIVER_DESCRIPTION: 8192 {
    DriverDescription: 0,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_PARAVIRTUALIZATION {
    pub SecureContainer: BOOLEAN,
}
layout! { D3DKMT_PARAVIRTUALIZATION: 1 {
    SecureContainer: 0,
} }
