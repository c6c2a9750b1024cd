//! Processes and their address spaces.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::DXGK_PAGETABLEUPDATEMODE;
use crate::ukm::D3DGPU_PHYSICAL_ADDRESS;
use crate::{HANDLE, NTSTATUS};

flags! { DXGK_CREATEPROCESSFLAGS { SystemProcess: 0, GdiProcess: 1 } } // up to 2.1

// From `hKmdVmWorkerProcess` on since 2.2 (a driver that was built before reads up to there).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_CREATEPROCESS {
    pub hDxgkProcess: HANDLE,
    pub hKmdProcess: HANDLE,
    pub Flags: DXGK_CREATEPROCESSFLAGS,
    pub NumPasid: u32,
    pub pPasid: *mut u32,
    pub hKmdVmWorkerProcess: HANDLE,
    pub ProcessNameLength: u32,
    pub pProcessName: *mut u16,
}
layout! { DXGKARG_CREATEPROCESS: 56 {
    hDxgkProcess: 0, hKmdProcess: 8, Flags: 16, NumPasid: 20, pPasid: 24, hKmdVmWorkerProcess: 32,
    ProcessNameLength: 40, pProcessName: 48,
} } // one source: docs

pub type DXGKDDI_CREATEPROCESS =
    unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_CREATEPROCESS) -> NTSTATUS;

pub type DXGKDDI_DESTROYPROCESS = unsafe extern "win64-unwind" fn(HANDLE, HANDLE) -> NTSTATUS;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_SETROOTPAGETABLE {
    pub hContext: HANDLE,
    pub Address: D3DGPU_PHYSICAL_ADDRESS,
    pub NumEntries: u32,
}
layout! { DXGKARG_SETROOTPAGETABLE: 32 {
    hContext: 0, Address: 8, NumEntries: 24,
} } // one source: docs

pub type DXGKDDI_SETROOTPAGETABLE =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARG_SETROOTPAGETABLE);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_GETROOTPAGETABLESIZE {
    pub NumberOfPte: u32,
    pub PhysicalAdapterIndex: u32,
}
layout! { DXGKARG_GETROOTPAGETABLESIZE: 8 {
    NumberOfPte: 0, PhysicalAdapterIndex: 4,
} } // one source: docs

/// Returns a size in bytes.
pub type DXGKDDI_GETROOTPAGETABLESIZE =
    unsafe extern "win64-unwind" fn(HANDLE, *mut DXGKARG_GETROOTPAGETABLESIZE) -> usize;

// Unnamed in Windows: a union inside the struct.
flags! { DXGK_GPUMMUCAPS_FLAGS {
    ReadOnlyMemorySupported: 0,
    NoExecuteMemorySupported: 1,
    ZeroInPteSupported: 2,
    ExplicitPageTableInvalidation: 3,
    CacheCoherentMemorySupported: 4,
    PageTableUpdateRequireAddressSpaceIdle: 5,
    LargePageSupported: 6,
    DualPteSupported: 7,
    AllowNonAlignedLargePageAddress: 8, // since 2.1
    SysMem64KBPageSupported: 9, // since 2.1
    InvalidTlbEntriesNotCached: 10, // since 2.1
    SysMemLargePageSupported: 11, // since 2.9
    CachedPageTables: 12, // since 3.1
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_GPUMMUCAPS {
    pub Flags: DXGK_GPUMMUCAPS_FLAGS,
    pub PageTableUpdateMode: DXGK_PAGETABLEUPDATEMODE,
    pub VirtualAddressBitCount: u32,
    pub LeafPageTableSizeFor64KPagesInBytes: u32,
    pub PageTableLevelCount: u32,
    /// The bits of `LegacyBehaviors`: the lowest is `SourcePageTableVaInTransfer`.
    pub LegacyBehaviors: u32,
}
layout! { DXGK_GPUMMUCAPS: 24 {
    Flags: 0, PageTableUpdateMode: 4, VirtualAddressBitCount: 8,
    LeafPageTableSizeFor64KPagesInBytes: 12, PageTableLevelCount: 16, LegacyBehaviors: 20,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_QUERYGPUMMUCAPSIN {
    pub PhysicalAdapterIndex: u32,
}
layout! { DXGK_QUERYGPUMMUCAPSIN: 4 { PhysicalAdapterIndex: 0 } } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_QUERYPAGETABLELEVELDESCIN {
    pub LevelIndex: u16,
    pub PhysicalAdapterIndex: u16,
}
layout! { DXGK_QUERYPAGETABLELEVELDESCIN: 4 {
    LevelIndex: 0, PhysicalAdapterIndex: 2,
} } // one source: docs

// The last member is inferred; it may be missing in the first version.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_PAGE_TABLE_LEVEL_DESC {
    pub PageTableIndexBitCount: u32,
    pub PageTableSegmentId: u32,
    pub PagingProcessPageTableSegmentId: u32,
    pub PageTableSizeInBytes: u32,
    pub PageTableAlignmentInBytes: u32,
}
layout! { DXGK_PAGE_TABLE_LEVEL_DESC: 20 {
    PageTableIndexBitCount: 0, PageTableSegmentId: 4, PagingProcessPageTableSegmentId: 8,
    PageTableSizeInBytes: 12, PageTableAlignmentInBytes: 16,
} } // one source: docs

flags! { DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE_FLAGS { AllowUserModeMapping: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE {
    pub hDxgkProcess: HANDLE,
    pub SizeInBytes: u64,
    pub Alignment: u32,
    pub StartVirtualAddress: u64,
    pub BaseAddress: u64,
    pub Flags: DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE_FLAGS,
}
layout! { DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE: 48 {
    hDxgkProcess: 0, SizeInBytes: 8, Alignment: 16, StartVirtualAddress: 24, BaseAddress: 32,
    Flags: 40,
} } // one source: docs

pub type DXGKCB_RESERVEGPUVIRTUALADDRESSRANGE = unsafe extern "win64-unwind" fn(
    hAdapter: HANDLE,
    *mut DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE,
) -> NTSTATUS;
