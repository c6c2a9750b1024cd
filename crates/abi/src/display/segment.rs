//! Segments: the memory of an adapter, and the CPU's window to it.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::{HANDLE, LARGE_INTEGER, NTSTATUS, PHYSICAL_ADDRESS};

flags! { DXGK_SEGMENTFLAGS {
    Aperture: 0,
    Agp: 1,
    CpuVisible: 2,
    UseBanking: 3,
    CacheCoherent: 4,
    PitchAlignment: 5,
    PopulatedFromSystemMemory: 6,
    PreservedDuringStandby: 7,
    PreservedDuringHibernate: 8,
    PartiallyPreservedDuringHibernate: 9,
    DirectFlip: 10,
    Use64KBPages: 11,
    SupportsCpuHostAperture: 13,
    SupportsCachedCpuHostAperture: 14,
    ApplicationTarget: 15,
    VprSupported: 16, // since 2.1
    VprPreservedDuringStandby: 17, // since 2.1
    EncryptedPagingSupported: 18, // since 2.1
    LocalBudgetGroup: 19, // since 2.1
    NonLocalBudgetGroup: 20, // since 2.1
    PopulatedByReservedDDRByFirmware: 21, // since 2.1
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_QUERYSEGMENTIN {
    pub AgpApertureBase: PHYSICAL_ADDRESS,
    pub AgpApertureSize: LARGE_INTEGER,
    pub AgpFlags: DXGK_SEGMENTFLAGS,
}
layout! { DXGK_QUERYSEGMENTIN: 24 {
    AgpApertureBase: 0, AgpApertureSize: 8, AgpFlags: 16,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_QUERYSEGMENTIN4 {
    pub PhysicalAdapterIndex: u32,
}
layout! { DXGK_QUERYSEGMENTIN4: 4 { PhysicalAdapterIndex: 0 } } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_SEGMENTDESCRIPTOR {
    pub BaseAddress: PHYSICAL_ADDRESS,
    pub CpuTranslatedAddress: PHYSICAL_ADDRESS,
    pub Size: usize,
    pub NbOfBanks: u32,
    pub pBankRangeTable: *mut usize,
    pub CommitLimit: usize,
    pub Flags: DXGK_SEGMENTFLAGS,
}
layout! { DXGK_SEGMENTDESCRIPTOR: 56 {
    BaseAddress: 0, CpuTranslatedAddress: 8, Size: 16, NbOfBanks: 24, pBankRangeTable: 32,
    CommitLimit: 40, Flags: 48,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_SEGMENTDESCRIPTOR3 {
    pub Flags: DXGK_SEGMENTFLAGS,
    pub BaseAddress: PHYSICAL_ADDRESS,
    pub CpuTranslatedAddress: PHYSICAL_ADDRESS,
    pub Size: usize,
    pub NbOfBanks: u32,
    pub pBankRangeTable: *mut usize,
    pub CommitLimit: usize,
    pub SystemMemoryEndAddress: usize,
    pub Reserved: usize,
}
layout! { DXGK_SEGMENTDESCRIPTOR3: 72 {
    Flags: 0, BaseAddress: 8, CpuTranslatedAddress: 16, Size: 24, NbOfBanks: 32,
    pBankRangeTable: 40, CommitLimit: 48, SystemMemoryEndAddress: 56, Reserved: 64,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_CPUHOSTAPERTURE {
    pub PhysicalAddress: u64,
    pub SizeInPages: u32,
}
layout! { DXGK_CPUHOSTAPERTURE: 16 { PhysicalAddress: 0, SizeInPages: 8 } } // one source: docs

// Up to 2.0, which a driver of 2.0 writes as a whole. Later versions append 32 bytes of protected
// ranges.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_SEGMENTDESCRIPTOR4 {
    pub Flags: DXGK_SEGMENTFLAGS,
    pub BaseAddress: PHYSICAL_ADDRESS,
    pub Size: usize,
    pub CommitLimit: usize,
    pub SystemMemoryEndAddress: usize,
    /// A union with `CpuTranslatedAddress`: see [`Self::cpu_translated_address`].
    pub CpuHostAperture: DXGK_CPUHOSTAPERTURE,
    pub NumInvalidMemoryRanges: u32,
}
layout! { DXGK_SEGMENTDESCRIPTOR4: 64 {
    Flags: 0, BaseAddress: 8, Size: 16, CommitLimit: 24, SystemMemoryEndAddress: 32,
    CpuHostAperture: 40, NumInvalidMemoryRanges: 56,
} } // one source: docs

impl DXGK_SEGMENTDESCRIPTOR4 {
    /// The union's `CpuTranslatedAddress`.
    pub const fn cpu_translated_address(&self) -> PHYSICAL_ADDRESS {
        self.CpuHostAperture.PhysicalAddress.cast_signed()
    }

    /// Writes the union's `CpuTranslatedAddress`, and zero to the rest of it.
    pub const fn set_cpu_translated_address(&mut self, address: PHYSICAL_ADDRESS) {
        let PhysicalAddress = address.cast_unsigned();
        self.CpuHostAperture = DXGK_CPUHOSTAPERTURE { PhysicalAddress, SizeInPages: 0 };
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_QUERYSEGMENTOUT {
    pub NbSegment: u32,
    pub pSegmentDescriptor: *mut DXGK_SEGMENTDESCRIPTOR,
    pub PagingBufferSegmentId: u32,
    pub PagingBufferSize: u32,
    pub PagingBufferPrivateDataSize: u32,
}
layout! { DXGK_QUERYSEGMENTOUT: 32 {
    NbSegment: 0, pSegmentDescriptor: 8, PagingBufferSegmentId: 16, PagingBufferSize: 20,
    PagingBufferPrivateDataSize: 24,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_QUERYSEGMENTOUT3 {
    pub NbSegment: u32,
    pub pSegmentDescriptor: *mut DXGK_SEGMENTDESCRIPTOR3,
    pub PagingBufferSegmentId: u32,
    pub PagingBufferSize: u32,
    pub PagingBufferPrivateDataSize: u32,
}
layout! { DXGK_QUERYSEGMENTOUT3: 32 {
    NbSegment: 0, pSegmentDescriptor: 8, PagingBufferSegmentId: 16, PagingBufferSize: 20,
    PagingBufferPrivateDataSize: 24,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_QUERYSEGMENTOUT4 {
    pub NbSegment: u32,
    pub pSegmentDescriptor: *mut u8,
    pub PagingBufferSegmentId: u32,
    pub PagingBufferSize: u32,
    pub PagingBufferPrivateDataSize: u32,
    pub SegmentDescriptorStride: usize,
}
layout! { DXGK_QUERYSEGMENTOUT4: 40 {
    NbSegment: 0, pSegmentDescriptor: 8, PagingBufferSegmentId: 16, PagingBufferSize: 20,
    PagingBufferPrivateDataSize: 24, SegmentDescriptorStride: 32,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_MEMORYRANGE {
    pub SegmentOffset: u64,
    pub SizeInBytes: u64,
}
layout! { DXGK_MEMORYRANGE: 16 { SegmentOffset: 0, SizeInBytes: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_QUERYSEGMENTMEMORYSTATE {
    pub DriverSegmentId: u16,
    pub PhysicalAdapterIndex: u16,
    pub NumInvalidMemoryRanges: u32,
    pub pMemoryRanges: *mut DXGK_MEMORYRANGE,
}
layout! { DXGK_QUERYSEGMENTMEMORYSTATE: 16 {
    DriverSegmentId: 0, PhysicalAdapterIndex: 2, NumInvalidMemoryRanges: 4, pMemoryRanges: 8,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_MAPCPUHOSTAPERTURE {
    pub hAllocation: HANDLE,
    pub SegmentId: u16,
    pub PhysicalAdapterIndex: u16,
    pub NumberOfPages: u64,
    pub pCpuHostAperturePages: *mut u32,
    pub pMemorySegmentPages: *mut u64,
}
layout! { DXGKARG_MAPCPUHOSTAPERTURE: 40 {
    hAllocation: 0, SegmentId: 8, PhysicalAdapterIndex: 10, NumberOfPages: 16,
    pCpuHostAperturePages: 24, pMemorySegmentPages: 32,
} } // one source: docs

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DXGKARG_UNMAPCPUHOSTAPERTURE {
    pub NumberOfPages: u64,
    pub pCpuHostAperturePages: *mut u32,
    pub SegmentId: u16,
    pub PhysicalAdapterIndex: u16,
}
layout! { DXGKARG_UNMAPCPUHOSTAPERTURE: 24 {
    NumberOfPages: 0, pCpuHostAperturePages: 8, SegmentId: 16, PhysicalAdapterIndex: 18,
} } // one source: docs

pub type DXGKDDI_MAPCPUHOSTAPERTURE =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARG_MAPCPUHOSTAPERTURE) -> NTSTATUS;

// The documentation shows the structure by value; the one above is a pointer, and so is this.
pub type DXGKDDI_UNMAPCPUHOSTAPERTURE =
    unsafe extern "win64-unwind" fn(HANDLE, *const DXGKARG_UNMAPCPUHOSTAPERTURE) -> NTSTATUS;
