//! Security descriptors, access control lists and security identifiers (`Rtl`), under their Windows
//! names. The structures are documented; nothing is ever checked against them.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::DriverMemory;
use crate::ex;
use crate::import_table::import_rows;
use crate::status::{
    STATUS_ALLOTTED_SPACE_EXCEEDED, STATUS_BAD_DESCRIPTOR_FORMAT, STATUS_BUFFER_TOO_SMALL,
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_INVALID_SECURITY_DESCR,
    STATUS_SUCCESS, STATUS_UNKNOWN_REVISION,
};
use abi::{BOOLEAN, NTSTATUS, PVOID};

import_rows! {
    RtlAbsoluteToSelfRelativeSD;
    RtlAddAccessAllowedAce;
    RtlCreateAcl;
    RtlCreateSecurityDescriptor;
    RtlGetDaclSecurityDescriptor;
    RtlGetGroupSecurityDescriptor;
    RtlGetOwnerSecurityDescriptor;
    RtlGetSaclSecurityDescriptor;
    RtlLengthSecurityDescriptor;
    RtlLengthSid;
    RtlSetDaclSecurityDescriptor;
    SeCaptureSecurityDescriptor lacks "the descriptor is copied unchecked";
}

/// `SECURITY_DESCRIPTOR_REVISION`.
const REVISION: u8 = 1;
/// `Control`: which lists there are, and the form of the descriptor.
const DACL_PRESENT: u16 = 0x04;
const DACL_DEFAULTED: u16 = 0x08;
const SELF_RELATIVE: u16 = 0x8000;
/// The sizes of a descriptor with pointers, and of one with offsets.
const ABSOLUTE_SIZE: usize = 0x28;
const RELATIVE_SIZE: usize = 0x14;
/// The size of `ACL`, and of an access-allowed entry without its identifier.
const ACL_SIZE: usize = 8;
const ACE_SIZE: usize = 8;

/// The parts of a descriptor, in the order of its fields, with the bits of `Control` for "present"
/// (zero if the part is there unless it is NULL) and "defaulted".
#[derive(Clone, Copy)]
enum Part {
    Owner,
    Group,
    Sacl,
    Dacl,
}

impl Part {
    const ALL: [Self; 4] = [Self::Owner, Self::Group, Self::Sacl, Self::Dacl];

    fn present(self) -> u16 {
        [0, 0, 0x10, DACL_PRESENT][self as usize]
    }

    fn defaulted(self) -> u16 {
        [0x01, 0x02, 0x20, DACL_DEFAULTED][self as usize]
    }

    fn bytes(self, part: DriverMemory) -> usize {
        match self {
            Part::Owner | Part::Group => sid_length(part),
            Part::Sacl | Part::Dacl => part.read::<u16>(2).into(),
        }
    }
}

fn sid_length(sid: DriverMemory) -> usize {
    8 + usize::from(sid.read::<u8>(1)) * 4
}

/// A `SECURITY_DESCRIPTOR` in the driver's memory.
#[derive(Clone, Copy)]
struct Descriptor(DriverMemory);

impl Descriptor {
    unsafe fn at(descriptor: PVOID) -> Self {
        // SAFETY: The caller's contract.
        Self(unsafe { DriverMemory::at(descriptor) })
    }

    fn control(self) -> u16 {
        self.0.read(2)
    }

    fn is_relative(self) -> bool {
        self.control() & SELF_RELATIVE != 0
    }

    /// A part of the descriptor. `None` if it is absent or NULL.
    fn part(self, part: Part) -> Option<DriverMemory> {
        if self.control() & part.present() != part.present() {
            return None;
        }
        if self.is_relative() {
            let offset: u32 = self.0.read(4 + part as usize * 4);
            return (offset != 0).then(|| self.0.part(offset as usize));
        }
        self.0.follow(8 + part as usize * 8).non_null()
    }

    /// The bytes of a part, filled to a multiple of four.
    fn part_bytes(self, part: Part) -> Vec<u8> {
        let bytes = self.part(part).map(|memory| memory.read_bytes(part.bytes(memory)));
        let mut bytes = bytes.unwrap_or_default();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// Number of bytes of the descriptor with its parts.
    fn length(self) -> usize {
        let own = if self.is_relative() { RELATIVE_SIZE } else { ABSOLUTE_SIZE };
        own + Part::ALL.iter().map(|part| self.part_bytes(*part).len()).sum::<usize>()
    }

    /// The descriptor with offsets.
    fn relative(self) -> Vec<u8> {
        let mut bytes = vec![0; RELATIVE_SIZE];
        bytes[0] = self.0.read(0);
        bytes[2..4].copy_from_slice(&(self.control() | SELF_RELATIVE).to_le_bytes());
        for part in Part::ALL {
            let data = self.part_bytes(part);
            if !data.is_empty() {
                let offset = u32::try_from(bytes.len()).unwrap_or(0).to_le_bytes();
                let at = 4 + part as usize * 4;
                bytes[at..at + 4].copy_from_slice(&offset);
                bytes.extend(data);
            }
        }
        bytes
    }

    fn get(self, part: Part, found: DriverMemory, defaulted: DriverMemory) {
        let address = self.part(part).map_or(0, DriverMemory::address);
        found.write(0, address);
        defaulted.write(0, u8::from(self.control() & part.defaulted() != 0));
    }
}

/// Initialises a descriptor: without owner, group and lists.
pub unsafe extern "win64-unwind" fn RtlCreateSecurityDescriptor(
    descriptor: PVOID,
    revision: u32,
) -> NTSTATUS {
    if revision != REVISION.into() {
        return STATUS_UNKNOWN_REVISION;
    }
    // SAFETY: The caller's contract.
    let memory = unsafe { DriverMemory::at(descriptor) };
    memory.write(0, [0; ABSOLUTE_SIZE]);
    memory.write(0, REVISION);
    STATUS_SUCCESS
}

macro_rules! get_part {
    ($($(#[doc = $doc:literal])+ $name:ident $part:ident;)*) => {$(
        $(#[doc = $doc])+
        pub unsafe extern "win64-unwind" fn $name(
            descriptor: PVOID,
            found: *mut PVOID,
            defaulted: *mut BOOLEAN,
        ) -> NTSTATUS {
            // SAFETY: The caller's contract.
            let descriptor = unsafe { Descriptor::at(descriptor) };
            // SAFETY: The caller's contract.
            let found = unsafe { DriverMemory::at(found) };
            // SAFETY: The caller's contract.
            let defaulted = unsafe { DriverMemory::at(defaulted) };
            descriptor.get(Part::$part, found, defaulted);
            STATUS_SUCCESS
        }
    )*};
}

get_part! {
    /// The owner of a descriptor, or NULL.
    RtlGetOwnerSecurityDescriptor Owner;
    /// The group of a descriptor, or NULL.
    RtlGetGroupSecurityDescriptor Group;
}

macro_rules! get_list {
    ($($(#[doc = $doc:literal])+ $name:ident $part:ident;)*) => {$(
        $(#[doc = $doc])+
        pub unsafe extern "win64-unwind" fn $name(
            descriptor: PVOID,
            present: *mut BOOLEAN,
            found: *mut PVOID,
            defaulted: *mut BOOLEAN,
        ) -> NTSTATUS {
            // SAFETY: The caller's contract.
            let descriptor = unsafe { Descriptor::at(descriptor) };
            // SAFETY: The caller's contract.
            let present = unsafe { DriverMemory::at(present) };
            // SAFETY: The caller's contract.
            let found = unsafe { DriverMemory::at(found) };
            // SAFETY: The caller's contract.
            let defaulted = unsafe { DriverMemory::at(defaulted) };
            let has = descriptor.control() & Part::$part.present() != 0;
            present.write(0, u8::from(has));
            if has {
                descriptor.get(Part::$part, found, defaulted);
            }
            STATUS_SUCCESS
        }
    )*};
}

get_list! {
    /// The discretionary list of a descriptor, if it has one.
    RtlGetDaclSecurityDescriptor Dacl;
    /// The system list of a descriptor, if it has one.
    RtlGetSaclSecurityDescriptor Sacl;
}

/// Sets the discretionary list of a descriptor with pointers. A NULL list that is present allows
/// everything.
pub unsafe extern "win64-unwind" fn RtlSetDaclSecurityDescriptor(
    descriptor: PVOID,
    present: BOOLEAN,
    list: PVOID,
    defaulted: BOOLEAN,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let descriptor = unsafe { Descriptor::at(descriptor) };
    if descriptor.0.read::<u8>(0) != REVISION {
        return STATUS_UNKNOWN_REVISION;
    }
    if descriptor.is_relative() {
        return STATUS_INVALID_SECURITY_DESCR;
    }
    let mut control = descriptor.control() & !(DACL_PRESENT | DACL_DEFAULTED);
    if present != 0 {
        control |= DACL_PRESENT | if defaulted == 0 { 0 } else { DACL_DEFAULTED };
        descriptor.0.write_pointer(8 + Part::Dacl as usize * 8, list.cast_const());
    }
    descriptor.0.write(2, control);
    STATUS_SUCCESS
}

/// Number of bytes of a descriptor with its parts.
pub unsafe extern "win64-unwind" fn RtlLengthSecurityDescriptor(descriptor: PVOID) -> u32 {
    // SAFETY: The caller's contract.
    let length = unsafe { Descriptor::at(descriptor) }.length();
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Number of bytes of an identifier.
pub unsafe extern "win64-unwind" fn RtlLengthSid(sid: PVOID) -> u32 {
    // SAFETY: The caller's contract.
    u32::try_from(sid_length(unsafe { DriverMemory::at(sid) })).unwrap_or(u32::MAX)
}

/// Converts a descriptor with pointers to one with offsets.
pub unsafe extern "win64-unwind" fn RtlAbsoluteToSelfRelativeSD(
    descriptor: PVOID,
    target: PVOID,
    length: *mut u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let descriptor = unsafe { Descriptor::at(descriptor) };
    // SAFETY: The caller's contract.
    let target = unsafe { DriverMemory::at(target) };
    // SAFETY: The caller's contract.
    let length = unsafe { DriverMemory::at(length) };
    if descriptor.is_relative() {
        return STATUS_BAD_DESCRIPTOR_FORMAT;
    }
    let bytes = descriptor.relative();
    let room = length.read::<u32>(0) as usize;
    length.write(0, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    if room < bytes.len() {
        return STATUS_BUFFER_TOO_SMALL;
    }
    target.write_bytes(&bytes);
    STATUS_SUCCESS
}

/// Initialises a list without entries.
pub unsafe extern "win64-unwind" fn RtlCreateAcl(
    list: PVOID,
    bytes: u32,
    revision: u32,
) -> NTSTATUS {
    let (Ok(size), Ok(revision)) = (u16::try_from(bytes), u8::try_from(revision)) else {
        return STATUS_INVALID_PARAMETER;
    };
    if bytes < 8 {
        return STATUS_BUFFER_TOO_SMALL;
    }
    if !(2..=4).contains(&revision) {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: The caller's contract.
    let list = unsafe { DriverMemory::at(list) };
    list.write(0, [0; ACL_SIZE]);
    list.write(0, revision);
    list.write(2, size & !3);
    STATUS_SUCCESS
}

/// Appends an entry that allows access to an identifier.
pub unsafe extern "win64-unwind" fn RtlAddAccessAllowedAce(
    list: PVOID,
    _revision: u32,
    mask: u32,
    sid: PVOID,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let list = unsafe { DriverMemory::at(list) };
    // SAFETY: The caller's contract.
    let sid = unsafe { DriverMemory::at(sid) };
    let (size, count) = (usize::from(list.read::<u16>(2)), list.read::<u16>(4));
    let sid = sid.read_bytes(sid_length(sid));
    let mut end = ACL_SIZE;
    for _ in 0..count {
        end += usize::from(list.part(end).read::<u16>(2));
    }
    let bytes = ACE_SIZE + sid.len();
    if end + bytes > size {
        return STATUS_ALLOTTED_SPACE_EXCEEDED;
    }
    let entry = list.part(end);
    entry.write(0, 0_u16); // `ACCESS_ALLOWED_ACE_TYPE`, no flags.
    entry.write(2, u16::try_from(bytes).unwrap_or(u16::MAX));
    entry.write(4, mask);
    entry.part(ACE_SIZE).write_bytes(&sid);
    list.write(4, count + 1);
    STATUS_SUCCESS
}

/// Copies a descriptor into the driver's pool, with offsets.
pub unsafe extern "win64-unwind" fn SeCaptureSecurityDescriptor(
    descriptor: PVOID,
    _mode: i8,
    pool_type: u32,
    _force: BOOLEAN,
    captured: *mut PVOID,
) -> NTSTATUS {
    const NAME: &str = "SeCaptureSecurityDescriptor";
    const TAG: u32 = u32::from_le_bytes(*b"SeSd");
    // SAFETY: The caller's contract.
    let captured = unsafe { DriverMemory::at(captured) };
    if descriptor.is_null() {
        captured.write(0, 0_usize);
        return STATUS_SUCCESS;
    }
    // SAFETY: The caller's contract.
    let bytes = unsafe { Descriptor::at(descriptor) }.relative();
    let Some(block) = ex::allocate(NAME, bytes.len(), TAG, true, pool_type & 1 != 0) else {
        return STATUS_INSUFFICIENT_RESOURCES;
    };
    captured.write(0, block);
    captured.follow(0).write_bytes(&bytes);
    STATUS_SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{call, count, fly};
    use std::ptr::null_mut;

    /// S-1-5-18, the local system.
    const SYSTEM: [u8; 12] = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];

    /// A list with one entry for the local system.
    fn list() -> [u32; 8] {
        let (mut list, mut sid) = ([0xEEEE_EEEE_u32; 8], SYSTEM);
        let (to, sid): (PVOID, PVOID) = (list.as_mut_ptr().cast(), sid.as_mut_ptr().cast());
        assert_eq!(call!(RtlCreateAcl, to, 7, 2), STATUS_BUFFER_TOO_SMALL);
        assert_eq!(call!(RtlCreateAcl, to, 30, 9), STATUS_INVALID_PARAMETER);
        assert_eq!(call!(RtlCreateAcl, to, 30, 2), 0);
        assert_eq!(call!(RtlLengthSid, sid), 12);
        assert_eq!(call!(RtlAddAccessAllowedAce, to, 2, 0x1F, sid), 0);
        let full = call!(RtlAddAccessAllowedAce, to, 2, 0x1F, sid);
        assert_eq!(full, STATUS_ALLOTTED_SPACE_EXCEEDED);
        assert_eq!(list[..5], [0x001C_0002, 1, 0x0014_0000, 0x1F, 0x0000_0101]);
        list
    }

    #[test]
    fn a_list_is_set_and_read_back() {
        let (mut memory, mut acl) = ([u64::MAX; 6], list());
        let (descriptor, acl): (PVOID, PVOID) =
            (memory.as_mut_ptr().cast(), acl.as_mut_ptr().cast());
        assert_eq!(call!(RtlCreateSecurityDescriptor, descriptor, 2), STATUS_UNKNOWN_REVISION);
        assert_eq!(call!(RtlCreateSecurityDescriptor, descriptor, 1), 0);
        let dacl = || {
            let (mut present, mut found, mut defaulted) = (9, null_mut(), 9);
            let (has, at, by) = (&raw mut present, &raw mut found, &raw mut defaulted);
            assert_eq!(call!(RtlGetDaclSecurityDescriptor, descriptor, has, at, by), 0);
            (present, found, defaulted)
        };
        assert_eq!(dacl(), (0, null_mut(), 9), "absent: the rest is not written");
        assert_eq!(call!(RtlSetDaclSecurityDescriptor, descriptor, 1, acl, 1), 0);
        assert_eq!(
            (dacl(), call!(RtlLengthSecurityDescriptor, descriptor)),
            ((1, acl, 1), 0x28 + 28)
        );
        let (mut found, mut defaulted) = (acl, 9);
        let (at, by) = (&raw mut found, &raw mut defaulted);
        assert_eq!(call!(RtlGetOwnerSecurityDescriptor, descriptor, at, by), 0);
        assert_eq!((found, defaulted), (null_mut(), 0));
        let (at, by) = (&raw mut found, &raw mut defaulted);
        assert_eq!(call!(RtlGetGroupSecurityDescriptor, descriptor, at, by), 0);
        let mut present = 9;
        let (has, at, by) = (&raw mut present, &raw mut found, &raw mut defaulted);
        assert_eq!(call!(RtlGetSaclSecurityDescriptor, descriptor, has, at, by), 0);
        assert_eq!((present, memory[5]), (0, u64::MAX));
    }

    #[test]
    fn a_descriptor_is_converted_and_captured() {
        let (mut memory, mut acl, mut owner) = ([0_u64; 5], list(), SYSTEM);
        let descriptor: PVOID = memory.as_mut_ptr().cast();
        call!(RtlCreateSecurityDescriptor, descriptor, 1);
        call!(RtlSetDaclSecurityDescriptor, descriptor, 1, acl.as_mut_ptr().cast(), 0);
        let fields = call!(DriverMemory::at::<std::ffi::c_void>, descriptor);
        fields.write_pointer(8, owner.as_mut_ptr().cast_const());
        let (mut target, mut length) = ([0_u32; 20], 10);
        let (to, bytes): (PVOID, _) = (target.as_mut_ptr().cast(), &raw mut length);
        let short = call!(RtlAbsoluteToSelfRelativeSD, descriptor, to, bytes);
        assert_eq!((short, length), (STATUS_BUFFER_TOO_SMALL, 0x14 + 12 + 28));
        let bytes = &raw mut length;
        assert_eq!(call!(RtlAbsoluteToSelfRelativeSD, descriptor, to, bytes), 0);
        assert_eq!(target[..5], [0x8004_0001, 0x14, 0, 0, 0x20]);
        assert_eq!((target[7], target[8]), (18, 0x001C_0002), "owner, then list");
        let again = call!(RtlAbsoluteToSelfRelativeSD, to, to, bytes);
        assert_eq!(again, STATUS_BAD_DESCRIPTOR_FORMAT);
        assert_eq!(
            call!(RtlSetDaclSecurityDescriptor, to, 0, null_mut(), 0),
            STATUS_INVALID_SECURITY_DESCR
        );
        assert_eq!(call!(RtlLengthSecurityDescriptor, to), 0x14 + 12 + 28);
        let events = fly(|| {
            let mut copy = null_mut();
            assert_eq!(call!(SeCaptureSecurityDescriptor, descriptor, 0, 1, 1, &raw mut copy), 0);
            let copied = call!(DriverMemory::at::<std::ffi::c_void>, copy).read_bytes(0x14);
            assert_eq!(copied[..8], [1, 0, 4, 0x80, 0x14, 0, 0, 0]);
            // SAFETY: The test does not use the copy after this.
            unsafe { crate::ExFreePool(copy) };
            assert_eq!(call!(SeCaptureSecurityDescriptor, null_mut(), 0, 1, 1, &raw mut copy), 0);
            assert!(copy.is_null());
        });
        assert_eq!((count(&events, "pool.allocated"), count(&events, "pool.leaked")), (1, 0));
    }
}
