//! The types that every header uses.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use core::ffi::c_void;

pub type HANDLE = *mut c_void;
pub type PVOID = *mut c_void;
pub type PDEVICE_OBJECT = *mut c_void;
pub type PDRIVER_OBJECT = *mut c_void;
pub type PFILE_OBJECT = *mut c_void;
pub type PIRP = *mut c_void;
/// A character. In Windows it has two bytes; the C header has it with four on request.
pub type WCHAR = u16;
pub type BOOL = i32;
pub type BOOLEAN = u8;
pub type UINT = u32;
pub type ULONG = u32;
pub type SIZE_T = usize;
pub type ULONG_PTR = usize;
pub type LARGE_INTEGER = i64;
pub type PHYSICAL_ADDRESS = LARGE_INTEGER;
pub type NTSTATUS = i32;
pub type HRESULT = i32;

/// A process's handle of an object of the graphics kernel.
pub type D3DKMT_HANDLE = u32;

/// A function of a table whose arguments are not declared in this crate.
pub type UNTYPED_FN = unsafe extern "win64-unwind" fn() -> NTSTATUS;

/// Whether a status is a success or informational.
pub const fn nt_success(status: NTSTATUS) -> bool {
    status >= 0
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LUID {
    pub LowPart: u32,
    pub HighPart: i32,
}
layout! { LUID: 8 { LowPart: 0, HighPart: 4 } }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RECT {
    pub left: i32,
    pub top: i32,
    pub right: i32,
    pub bottom: i32,
}
layout! { RECT: 16 { left: 0, top: 4, right: 8, bottom: 12 } }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GUID {
    pub Data1: u32,
    pub Data2: u16,
    pub Data3: u16,
    pub Data4: [u8; 8],
}
layout! { GUID: 16 { Data1: 0, Data2: 4, Data3: 6, Data4: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UNICODE_STRING {
    pub Length: u16,
    pub MaximumLength: u16,
    pub Buffer: *mut u16,
}
layout! { UNICODE_STRING: 16 { Length: 0, MaximumLength: 2, Buffer: 8 } }

/// The attributes of a named object, or of a handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OBJECT_ATTRIBUTES {
    pub Length: u32,
    pub RootDirectory: HANDLE,
    pub ObjectName: *mut UNICODE_STRING,
    pub Attributes: u32,
    pub SecurityDescriptor: PVOID,
    pub SecurityQualityOfService: PVOID,
}
layout! { OBJECT_ATTRIBUTES: 48 {
    Length: 0, RootDirectory: 8, ObjectName: 16, Attributes: 24, SecurityDescriptor: 32,
    SecurityQualityOfService: 40,
} }

/// A memory descriptor list: pages of the machine's memory, in order. Their numbers, 64 bits each,
/// follow the structure.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MDL {
    pub Next: *mut MDL,
    /// The size of the structure with its numbers; the size of a long list is truncated.
    pub Size: i16,
    pub MdlFlags: i16,
    pub Process: *mut c_void,
    pub MappedSystemVa: PVOID,
    pub StartVa: PVOID,
    pub ByteCount: u32,
    pub ByteOffset: u32,
}
layout! { MDL: 48 {
    Next: 0, Size: 8, MdlFlags: 10, Process: 16, MappedSystemVa: 24, StartVa: 32, ByteCount: 40,
    ByteOffset: 44,
} }

/// Of `MdlFlags`: the pages are locked.
pub const MDL_PAGES_LOCKED: i16 = 2;
