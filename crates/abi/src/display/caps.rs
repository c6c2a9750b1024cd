//! The capabilities of a driver.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::ukm::D3DGPU_VIRTUAL_ADDRESS;
use crate::{BOOLEAN, PHYSICAL_ADDRESS};

flags! { DXGK_POINTERFLAGS { Monochrome: 0, Color: 1, MaskedColor: 2 } } // one source: docs

flags! { DXGK_COLORTRANSFORMCAPS {
    Gamma_Rgb256x3x16: 0,
    Gamma_Dxgi1: 1,
    Transform_3x4Matrix: 2,
    Transform_3x4Matrix_WideColor: 3,
    Transform_3x4Matrix_HighColor: 4,
} } // one source: docs

// Bits 10 to 19 are shifts: of the alignment (four), of the largest width and height (three each).
flags! { DXGK_PRESENTATIONCAPS {
    NoScreenToScreenBlt: 0,
    NoOverlapScreenBlt: 1,
    SupportKernelModeCommandBuffer: 2,
    NoSameBitmapAlphaBlend: 3,
    NoSameBitmapStretchBlt: 4,
    NoSameBitmapTransparentBlt: 5,
    NoSameBitmapOverlappedAlphaBlend: 6,
    NoSameBitmapOverlappedStretchBlt: 7,
    DriverSupportsCddDwmInterop: 8,
    SupportAllBltRops: 20,
    SupportMirrorStretchBlt: 21,
    SupportMonoStretchBltModes: 22,
    StagingRectStartPitchAligned: 23,
    NoSameBitmapBitBlt: 24,
    NoSameBitmapOverlappedBitBlt: 25,
    NoTempSurfaceForClearTypeBlend: 27,
    SupportSoftwareDeviceBitmaps: 28,
    NoCacheCoherentApertureMemory: 29,
    SupportLinearHeap: 30,
} } // one source: docs

flags! { DXGK_FLIPCAPS {
    FlipOnVSyncWithNoWait: 0,
    FlipOnVSyncMmIo: 1,
    FlipInterval: 2,
    FlipImmediateMmIo: 3,
    FlipIndependent: 4,
    DdiPresentForIFlip: 5,
    FlipImmediateOnHSync: 6,
} } // one source: docs

// Bits 7 to 10 are `HwQueuePacketCap`, since 2.2.
flags! { DXGK_VIDSCHCAPS {
    MultiEngineAware: 0,
    VSyncPowerSaveAware: 1,
    PreemptionAware: 2,
    NoDmaPatching: 3,
    CancelCommandAware: 4,
    No64BitAtomics: 5,
    LowIrqlPreemptCommand: 6,
    NativeGpuFence: 11, // since 3.1
    OptimizedNativeFenceSignaledInterrupt: 12, // since 3.1
} } // one source: docs

// Unnamed in Windows: a union inside the struct.
flags! { DXGK_VIDMMCAPS_FLAGS {
    OutOfOrderLock: 0,
    DedicatedPagingEngine: 1,
    PagingEngineCanSwizzle: 2,
    SectionBackedPrimary: 3,
    CrossAdapterResource: 4,
    VirtualAddressingSupported: 5,
    GpuMmuSupported: 6,
    IoMmuSupported: 7,
    ReplicateGdiContent: 8,
    NonCpuVisiblePrimary: 9,
    ParavirtualizationSupported: 10, // since 2.2
    IoMmuSecureModeSupported: 11, // since 2.4
    DisableSelfRefreshVRAMInS3: 12, // since 2.4
    IoMmuSecureModeRequired: 13, // since 2.7
    MapAperture2Supported: 14, // since 2.9
    CrossAdapterResourceTexture: 15, // since 2.9
    CrossAdapterResourceScanout: 16, // since 2.9
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_VIDMMCAPS {
    pub Flags: DXGK_VIDMMCAPS_FLAGS,
    pub PagingNode: u32,
}
layout! { DXGK_VIDMMCAPS: 8 { Flags: 0, PagingNode: 4 } } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_GPUENGINETOPOLOGY {
    pub NbAsymetricProcessingNodes: u32,
    pub Reserved: [u32; 64],
}
layout! { DXGK_GPUENGINETOPOLOGY: 260 {
    NbAsymetricProcessingNodes: 0, Reserved: 4,
} } // one source: docs

values! { DXGK_WDDMVERSION {
    DXGKDDI_WDDMv1 = 0x1000,
    DXGKDDI_WDDMv1_2 = 0x1200,
    DXGKDDI_WDDMv1_3 = 0x1300,
    DXGKDDI_WDDMv2 = 0x2000,
    DXGKDDI_WDDMv2_1 = 0x2100,
    DXGKDDI_WDDMv2_1_5 = 0x2105,
    DXGKDDI_WDDMv2_1_6 = 0x2106,
    DXGKDDI_WDDMv2_2 = 0x2200,
    DXGKDDI_WDDMv2_3 = 0x2300,
    DXGKDDI_WDDMv2_4 = 0x2400,
    DXGKDDI_WDDMv2_5 = 0x2500,
    DXGKDDI_WDDMv2_6 = 0x2600,
    DXGKDDI_WDDMv2_7 = 0x2700,
} } // one source: docs

// Unnamed in Windows: a union inside the struct.
flags! { DXGK_VIRTUALADDRESSCAPS_FLAGS {
    PrivilegedMemorySupported: 0,
    ReadOnlyMemorySupported: 1,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_VIRTUALADDRESSCAPS {
    pub Flags: DXGK_VIRTUALADDRESSCAPS_FLAGS,
    pub VirtualAddressBitCount: u32,
    pub PageTableCoverageBitCount: u32,
    pub PageDirectoryEntrySize: u32,
    pub PageDirectorySegment: u32,
    pub PageTableSegment: u32,
    pub IdealGPUPageSize: u32,
}
layout! { DXGK_VIRTUALADDRESSCAPS: 28 {
    Flags: 0, VirtualAddressBitCount: 4, PageTableCoverageBitCount: 8, PageDirectoryEntrySize: 12,
    PageDirectorySegment: 16, PageTableSegment: 20, IdealGPUPageSize: 24,
} }

/// The DMA buffers of one kind. Unnamed in Windows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_DMABUFFERCAPS_BUFFER {
    pub Size: u32,
    pub PrivateDriverDataSize: u32,
    pub SegmentId: u32,
    pub AllocationGroup: u32,
    pub Reserved: [u32; 16],
}
layout! { DXGK_DMABUFFERCAPS_BUFFER: 80 {
    Size: 0, PrivateDriverDataSize: 4, SegmentId: 8, AllocationGroup: 12, Reserved: 16,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_DMABUFFERCAPS {
    pub PresentDmaBuffer: DXGK_DMABUFFERCAPS_BUFFER,
    pub PagingDmaBuffer: DXGK_DMABUFFERCAPS_BUFFER,
}
layout! { DXGK_DMABUFFERCAPS: 160 { PresentDmaBuffer: 0, PagingDmaBuffer: 80 } }

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

// Up to 2.0, which a driver of 2.0 writes as a whole. Later versions append members: see
// [`DXGK_DRIVERCAPS_WDDM2_9`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_DRIVERCAPS {
    pub HighestAcceptableAddress: PHYSICAL_ADDRESS,
    pub MaxAllocationListSlotId: u32,
    pub ApertureSegmentCommitLimit: usize,
    pub MaxPointerWidth: u32,
    pub MaxPointerHeight: u32,
    pub PointerCaps: DXGK_POINTERFLAGS,
    pub InterruptMessageNumber: u32,
    pub NumberOfSwizzlingRanges: u32,
    pub MaxOverlays: u32,
    /// A union with `GammaRampCaps`, whose one bit is the lowest here, too.
    pub ColorTransformCaps: DXGK_COLORTRANSFORMCAPS,
    pub PresentationCaps: DXGK_PRESENTATIONCAPS,
    pub MaxQueuedFlipOnVSync: u32,
    pub FlipCaps: DXGK_FLIPCAPS,
    pub SchedulingCaps: DXGK_VIDSCHCAPS,
    pub MemoryManagementCaps: DXGK_VIDMMCAPS,
    pub GpuEngineTopology: DXGK_GPUENGINETOPOLOGY,
    pub WDDMVersion: DXGK_WDDMVERSION,
    pub Reserved: DXGK_VIRTUALADDRESSCAPS,
    pub Reserved1: DXGK_DMABUFFERCAPS,
    pub PreemptionCaps: D3DKMDT_PREEMPTION_CAPS,
    pub SupportNonVGA: BOOLEAN,
    pub SupportSmoothRotation: BOOLEAN,
    pub SupportPerEngineTDR: BOOLEAN,
    pub SupportDirectFlip: BOOLEAN,
    pub SupportMultiPlaneOverlay: BOOLEAN,
    pub SupportRuntimePowerManagement: BOOLEAN,
    pub SupportSurpriseRemovalInHibernation: BOOLEAN,
    pub HybridDiscrete: BOOLEAN,
    pub MaxOverlayPlanes: u32,
    pub HybridIntegrated: BOOLEAN,
    pub InternalGpuVirtualAddressRangeStart: D3DGPU_VIRTUAL_ADDRESS,
    pub InternalGpuVirtualAddressRangeEnd: D3DGPU_VIRTUAL_ADDRESS,
    pub SupportSurpriseRemoval: BOOLEAN,
}
layout! { DXGK_DRIVERCAPS: 576 {
    HighestAcceptableAddress: 0, MaxAllocationListSlotId: 8, ApertureSegmentCommitLimit: 16,
    MaxPointerWidth: 24, MaxPointerHeight: 28, PointerCaps: 32, InterruptMessageNumber: 36,
    NumberOfSwizzlingRanges: 40, MaxOverlays: 44, ColorTransformCaps: 48, PresentationCaps: 52, MaxQueuedFlipOnVSync: 56,
    FlipCaps: 60, SchedulingCaps: 64, MemoryManagementCaps: 68, GpuEngineTopology: 76,
    WDDMVersion: 336, Reserved: 340, Reserved1: 368, PreemptionCaps: 528, SupportNonVGA: 536,
    SupportSmoothRotation: 537, SupportPerEngineTDR: 538, SupportDirectFlip: 539,
    SupportMultiPlaneOverlay: 540, SupportRuntimePowerManagement: 541,
    SupportSurpriseRemovalInHibernation: 542, HybridDiscrete: 543, MaxOverlayPlanes: 544,
    HybridIntegrated: 548, InternalGpuVirtualAddressRangeStart: 552,
    InternalGpuVirtualAddressRangeEnd: 560, SupportSurpriseRemoval: 568,
} } // one source: docs

flags! { DXGK_DRIVERCAPS_MISCCAPS {
    SupportContextlessPresent: 0,
    Detachable: 1,
    VirtualGpuOnly: 2,
    ComputeOnly: 3,
    IndependentVidPnVSyncControl: 4,
    NoHybridDiscreteDListDllSupport: 5,
    DisplayableSupport: 6,
} } // one source: docs; unnamed in Windows

/// `DXGK_DRIVERCAPS` of 2.9 and later; that of 2.4 ends behind `MiscCaps`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_DRIVERCAPS_WDDM2_9 {
    pub Base: DXGK_DRIVERCAPS,
    pub MiscCaps: DXGK_DRIVERCAPS_MISCCAPS,
    pub MaxHwQueuedFlips: u32,
    pub HwQueuedFlipCaps: u32,
}
layout! { DXGK_DRIVERCAPS_WDDM2_9: 592 {
    Base: 0, MiscCaps: 576, MaxHwQueuedFlips: 580, HwQueuedFlipCaps: 584,
} } // one source: docs
