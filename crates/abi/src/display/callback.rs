//! Callbacks about interrupts and handles.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::{BOOLEAN, D3DKMT_HANDLE, HANDLE, NTSTATUS, PHYSICAL_ADDRESS, PVOID};
use core::ptr;

values! { DXGK_INTERRUPT_TYPE {
    DXGK_INTERRUPT_DMA_COMPLETED = 1,
    DXGK_INTERRUPT_DMA_PREEMPTED = 2,
    DXGK_INTERRUPT_CRTC_VSYNC = 3,
    DXGK_INTERRUPT_DMA_FAULTED = 4,
    DXGK_INTERRUPT_DISPLAYONLY_VSYNC = 5,
    DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS = 6,
    DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY = 7,
    DXGK_INTERRUPT_MICACAST_CHUNK_PROCESSING_COMPLETE = 8,
    DXGK_INTERRUPT_DMA_PAGE_FAULTED = 9,
    DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY2 = 10, // from here on after 2.0
    DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED = 11,
    DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED = 12,
    DXGK_INTERRUPT_HWCONTEXTLIST_SWITCH_COMPLETED = 13,
    DXGK_INTERRUPT_PERIODIC_MONITORED_FENCE_SIGNALED = 14,
    DXGK_INTERRUPT_SCHEDULING_LOG_INTERRUPT = 15,
    DXGK_INTERRUPT_GPU_ENGINE_TIMEOUT = 16,
    DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED = 17,
    DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY3 = 18,
    DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED = 19,
    DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE = 20,
} } // one source: docs

values! { DXGK_PAGE_FAULT_FLAGS {
    DXGK_PAGE_FAULT_WRITE = 1,
    DXGK_PAGE_FAULT_FENCE_INVALID = 2,
    DXGK_PAGE_FAULT_ADAPTER_RESET_REQUIRED = 4,
    DXGK_PAGE_FAULT_ENGINE_RESET_REQUIRED = 8,
    DXGK_PAGE_FAULT_FATAL_HARDWARE_ERROR = 16,
} } // one source: docs

flags! { DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS {
    ValidPhysicalAdapterMask: 0,
    HsyncFlipCompletion: 1,
} } // one source: docs

/// The union of the data of each interrupt type, unnamed in Windows, as 32-bit words.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_INTERRUPT_DATA {
    pub Words: [u32; 16],
}
layout! { DXGK_INTERRUPT_DATA: 64 { Words: 0 } } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA {
    pub InterruptType: DXGK_INTERRUPT_TYPE,
    pub Data: DXGK_INTERRUPT_DATA,
    pub Flags: DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS,
}
layout! { DXGKARGCB_NOTIFY_INTERRUPT_DATA: 80 {
    InterruptType: 0, Data: 8, Flags: 72,
} } // one source: docs

/// `DmaCompleted` of the union, for [`DXGK_INTERRUPT_DMA_COMPLETED`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaCompleted {
    pub SubmissionFenceId: u32,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}
layout! { DmaCompleted: 12 {
    SubmissionFenceId: 0, NodeOrdinal: 4, EngineOrdinal: 8,
} } // one source: docs

/// `DmaPreempted` of the union, for [`DXGK_INTERRUPT_DMA_PREEMPTED`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaPreempted {
    pub PreemptionFenceId: u32,
    pub LastCompletedFenceId: u32,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}
layout! { DmaPreempted: 16 {
    PreemptionFenceId: 0, LastCompletedFenceId: 4, NodeOrdinal: 8, EngineOrdinal: 12,
} } // one source: docs

/// `DmaFaulted` of the union, for [`DXGK_INTERRUPT_DMA_FAULTED`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaFaulted {
    pub FaultedFenceId: u32,
    pub Status: NTSTATUS,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}
layout! { DmaFaulted: 16 {
    FaultedFenceId: 0, Status: 4, NodeOrdinal: 8, EngineOrdinal: 12,
} } // one source: docs

/// `DmaPageFaulted` of the union, for [`DXGK_INTERRUPT_DMA_PAGE_FAULTED`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaPageFaulted {
    pub FaultedFenceId: u32,
    pub FaultedPrimitiveAPISequenceNumber: u64,
    pub FaultedPipelineStage: i32,
    pub FaultedBindTableEntry: u32,
    pub PageFaultFlags: i32,
    pub FaultedVirtualAddress: u64,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub PageTableLevel: u32,
    pub FaultErrorCode: u32,
    pub FaultedProcessHandle: HANDLE,
}
layout! { DmaPageFaulted: 64 {
    FaultedFenceId: 0, FaultedPrimitiveAPISequenceNumber: 8, FaultedPipelineStage: 16,
    FaultedBindTableEntry: 20, PageFaultFlags: 24, FaultedVirtualAddress: 32, NodeOrdinal: 40,
    EngineOrdinal: 44, PageTableLevel: 48, FaultErrorCode: 52, FaultedProcessHandle: 56,
} } // one source: docs

impl DXGKARGCB_NOTIFY_INTERRUPT_DATA {
    /// The union, read as `DmaCompleted`.
    pub const fn dma_completed(&self) -> DmaCompleted {
        let [SubmissionFenceId, NodeOrdinal, EngineOrdinal, ..] = self.Data.Words;
        DmaCompleted { SubmissionFenceId, NodeOrdinal, EngineOrdinal }
    }

    /// Writes the union as `DmaCompleted`.
    pub const fn set_dma_completed(&mut self, it: DmaCompleted) {
        self.set([it.SubmissionFenceId, it.NodeOrdinal, it.EngineOrdinal, 0]);
    }

    /// The union, read as `DmaPreempted`.
    pub const fn dma_preempted(&self) -> DmaPreempted {
        let [PreemptionFenceId, LastCompletedFenceId, NodeOrdinal, EngineOrdinal, ..] =
            self.Data.Words;
        DmaPreempted { PreemptionFenceId, LastCompletedFenceId, NodeOrdinal, EngineOrdinal }
    }

    /// Writes the union as `DmaPreempted`.
    pub const fn set_dma_preempted(&mut self, it: DmaPreempted) {
        self.set([it.PreemptionFenceId, it.LastCompletedFenceId, it.NodeOrdinal, it.EngineOrdinal]);
    }

    /// The union, read as `DmaFaulted`.
    pub const fn dma_faulted(&self) -> DmaFaulted {
        let [FaultedFenceId, status, NodeOrdinal, EngineOrdinal, ..] = self.Data.Words;
        DmaFaulted { FaultedFenceId, Status: status.cast_signed(), NodeOrdinal, EngineOrdinal }
    }

    /// Writes the union as `DmaFaulted`.
    pub const fn set_dma_faulted(&mut self, it: DmaFaulted) {
        let status = it.Status.cast_unsigned();
        self.set([it.FaultedFenceId, status, it.NodeOrdinal, it.EngineOrdinal]);
    }

    /// The union, read as `DmaPageFaulted`.
    #[expect(clippy::cast_possible_truncation, reason = "a pointer has 64 bits")]
    pub const fn dma_page_faulted(&self) -> DmaPageFaulted {
        let it = &self.Data.Words;
        DmaPageFaulted {
            FaultedFenceId: it[0],
            FaultedPrimitiveAPISequenceNumber: long(it[2], it[3]),
            FaultedPipelineStage: it[4].cast_signed(),
            FaultedBindTableEntry: it[5],
            PageFaultFlags: it[6].cast_signed(),
            FaultedVirtualAddress: long(it[8], it[9]),
            NodeOrdinal: it[10],
            EngineOrdinal: it[11],
            PageTableLevel: it[12],
            FaultErrorCode: it[13],
            FaultedProcessHandle: ptr::without_provenance_mut(long(it[14], it[15]) as usize),
        }
    }

    /// Writes the union as `DmaPageFaulted`.
    pub fn set_dma_page_faulted(&mut self, it: DmaPageFaulted) {
        let words = &mut self.Data.Words;
        *words = [0; 16];
        words[0] = it.FaultedFenceId;
        [words[2], words[3]] = halves(it.FaultedPrimitiveAPISequenceNumber);
        words[4] = it.FaultedPipelineStage.cast_unsigned();
        words[5] = it.FaultedBindTableEntry;
        words[6] = it.PageFaultFlags.cast_unsigned();
        [words[8], words[9]] = halves(it.FaultedVirtualAddress);
        words[10] = it.NodeOrdinal;
        words[11] = it.EngineOrdinal;
        words[12] = it.PageTableLevel;
        words[13] = it.FaultErrorCode;
        [words[14], words[15]] = halves(it.FaultedProcessHandle.addr() as u64);
    }

    /// Writes the first four 32-bit words of the union, and zero to the others.
    const fn set(&mut self, [a, b, c, d]: [u32; 4]) {
        self.Data.Words = [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    }
}

/// Two 32-bit words of a union as one number.
const fn long(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves of a number")]
const fn halves(it: u64) -> [u32; 2] {
    [it as u32, (it >> 32) as u32]
}

pub type DXGKCB_NOTIFY_INTERRUPT =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARGCB_NOTIFY_INTERRUPT_DATA);

pub type DXGKDDI_CONTROLINTERRUPT = unsafe extern "win64-unwind" fn(
    hAdapter: HANDLE,
    InterruptType: DXGK_INTERRUPT_TYPE,
    EnableInterrupt: BOOLEAN,
) -> NTSTATUS;

pub type DXGKCB_NOTIFY_DPC = unsafe extern "win64-unwind" fn(HANDLE);

// The names are Windows's, but the numbers are not published: these are ours, and neither is 0, the
// value of an unwritten member. Code that reads one from a driver must accept any number.
values! { DXGK_HANDLE_TYPE { DXGK_HANDLE_ALLOCATION = 1, DXGK_HANDLE_RESOURCE = 2 } }

flags! { DXGKCB_GETHANDLEDATAFLAGS { DeviceSpecific: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARGCB_GETHANDLEDATA {
    pub hObject: D3DKMT_HANDLE,
    pub Type: DXGK_HANDLE_TYPE,
    pub Flags: DXGKCB_GETHANDLEDATAFLAGS,
}
layout! { DXGKARGCB_GETHANDLEDATA: 12 { hObject: 0, Type: 4, Flags: 8 } }

pub type DXGKCB_GETHANDLEDATA =
    unsafe extern "win64-unwind" fn(*const DXGKARGCB_GETHANDLEDATA) -> PVOID;

/// The handle that releases acquired data. Its size is inferred.
pub type DXGKARG_RELEASE_HANDLE = HANDLE;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARGCB_RELEASEHANDLEDATA {
    pub ReleaseHandle: DXGKARG_RELEASE_HANDLE,
    pub Type: DXGK_HANDLE_TYPE,
}
layout! { DXGKARGCB_RELEASEHANDLEDATA: 16 { ReleaseHandle: 0, Type: 8 } } // one source: docs

// The documentation leaves out the second parameter, where the release handle comes out,
// and shows the structure by value below. Public drivers call both like this.
pub type DXGKCB_ACQUIREHANDLEDATA = unsafe extern "win64-unwind" fn(
    *const DXGKARGCB_GETHANDLEDATA,
    *mut DXGKARG_RELEASE_HANDLE,
) -> PVOID;

pub type DXGKCB_RELEASEHANDLEDATA = unsafe extern "win64-unwind" fn(DXGKARGCB_RELEASEHANDLEDATA);

pub type DXGKCB_GETHANDLEPARENT = unsafe extern "win64-unwind" fn(D3DKMT_HANDLE) -> D3DKMT_HANDLE;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARGCB_ENUMHANDLECHILDREN {
    pub hObject: D3DKMT_HANDLE,
    pub Index: u32,
}
layout! { DXGKARGCB_ENUMHANDLECHILDREN: 8 { hObject: 0, Index: 4 } } // one source: docs

pub type DXGKCB_ENUMHANDLECHILDREN =
    unsafe extern "win64-unwind" fn(*const DXGKARGCB_ENUMHANDLECHILDREN) -> D3DKMT_HANDLE;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARGCB_GETCAPTUREADDRESS {
    pub hAllocation: D3DKMT_HANDLE,
    pub SegmentId: u32,
    pub PhysicalAddress: PHYSICAL_ADDRESS,
}
layout! { DXGKARGCB_GETCAPTUREADDRESS: 16 {
    hAllocation: 0, SegmentId: 4, PhysicalAddress: 8,
} } // one source: docs

pub type DXGKCB_GETCAPTUREADDRESS =
    unsafe extern "win64-unwind" fn(*mut DXGKARGCB_GETCAPTUREADDRESS) -> NTSTATUS;
