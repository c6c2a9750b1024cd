//! Lookaside lists of the executive (`Ex`), under their Windows names.
//!
//! A list is in the driver's memory, because the functions that allocate from it are inline code of
//! the driver: it pops an entry from the sequenced list at offset 0 or calls the function at 0x30;
//! it pushes an entry if the list is shorter than the depth at 0x10, or calls the function at 0x38.
//!
//! The depth is zero, as for a driver under Driver Verifier: every entry comes from the pool and
//! returns to it, so that a use after free is seen.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::DriverMemory;
use crate::ex::{ExAllocatePoolWithTag, ExFreePool};
use crate::ex_list::ExpInterlockedPopEntrySList;
use crate::import_table::import_rows;
use crate::owned::{self, OwnedKind};
use crate::status::{
    STATUS_INVALID_PARAMETER_4, STATUS_INVALID_PARAMETER_5, STATUS_INVALID_PARAMETER_6,
    STATUS_SUCCESS,
};
use abi::{NTSTATUS, PVOID};

import_rows! {
    ExDeleteLookasideListEx;
    ExDeleteNPagedLookasideList;
    ExDeletePagedLookasideList;
    ExFlushLookasideListEx;
    ExInitializeLookasideListEx lacks "the depth is zero; no exceptions";
    ExInitializeNPagedLookasideList lacks "the depth is zero; no exceptions";
    ExInitializePagedLookasideList lacks "the depth is zero; no exceptions";
}

/// Offsets in a lookaside list on x64.
mod offset {
    pub(super) const DEPTH: usize = 0x10;
    pub(super) const TYPE: usize = 0x24;
    pub(super) const TAG: usize = 0x28;
    pub(super) const SIZE: usize = 0x2C;
    pub(super) const ALLOCATE: usize = 0x30;
    pub(super) const FREE: usize = 0x38;
    /// The end of the fields.
    pub(super) const END: usize = 0x60;
}

/// The smallest entry: it has room for its link while it is in the list.
const MINIMUM_BLOCK_SIZE: usize = 8;
/// `POOL_TYPE` of paged pool.
const PAGED_POOL: u32 = 1;

/// Frees an entry of a list (`PFREE_FUNCTION`).
type Free = unsafe extern "win64-unwind" fn(entry: PVOID);
/// Frees an entry of a list (`PFREE_FUNCTION_EX`).
type FreeEx = unsafe extern "win64-unwind" fn(entry: PVOID, list: PVOID);

/// Writes the fields of a list. `functions` are its functions to allocate and to free.
fn initialize(list: DriverMemory, kind: u32, size: usize, tag: u32, functions: [*const (); 2]) {
    owned::add(OwnedKind::LookasideList, list.address());
    list.write(0, [0; offset::END]);
    list.write(offset::DEPTH, 0_u16);
    list.write(offset::TYPE, kind);
    list.write(offset::TAG, tag);
    let size = u32::try_from(size.max(MINIMUM_BLOCK_SIZE)).unwrap_or(u32::MAX);
    list.write(offset::SIZE, size);
    list.write_pointer(offset::ALLOCATE, functions[0]);
    list.write_pointer(offset::FREE, functions[1]);
}

/// The driver's function, or the default if it is NULL.
fn or_default(function: PVOID, default: *const ()) -> *const () {
    if function.is_null() { default } else { function.cast_const().cast() }
}

macro_rules! initialize_list {
    ($($(#[doc = $doc:literal])+ $name:ident $kind:expr;)*) => {$(
        $(#[doc = $doc])+
        pub unsafe extern "win64-unwind" fn $name(
            list: PVOID,
            allocate: PVOID,
            free: PVOID,
            flags: u32,
            size: usize,
            tag: u32,
            _depth: u16,
        ) {
            // SAFETY: The caller's contract.
            let list = unsafe { DriverMemory::at(list) };
            let allocate = or_default(allocate, ExAllocatePoolWithTag as *const ());
            let free = or_default(free, ExFreePool as *const ());
            initialize(list, $kind | flags, size, tag, [allocate, free]);
        }
    )*};
}

initialize_list! {
    /// Initialises a list of non-paged entries.
    ExInitializeNPagedLookasideList 0;
    /// Initialises a list of paged entries.
    ExInitializePagedLookasideList PAGED_POOL;
}

/// The default function to allocate an entry of an extended list.
unsafe extern "win64-unwind" fn allocate_entry(
    kind: u32,
    bytes: usize,
    tag: u32,
    _list: PVOID,
) -> PVOID {
    // SAFETY: The function has no requirements.
    unsafe { ExAllocatePoolWithTag(kind, bytes, tag) }
}

/// The default function to free an entry of an extended list.
unsafe extern "win64-unwind" fn free_entry(entry: PVOID, _list: PVOID) {
    // SAFETY: The caller's contract.
    unsafe { ExFreePool(entry) };
}

/// Initialises an extended list.
///
/// WINDOWS: the page names the parameters that can be invalid, not the statuses; they are those of
/// the fourth, fifth and sixth parameter here.
pub unsafe extern "win64-unwind" fn ExInitializeLookasideListEx(
    list: PVOID,
    allocate: PVOID,
    free: PVOID,
    kind: u32,
    flags: u32,
    size: usize,
    tag: u32,
    _depth: u16,
) -> NTSTATUS {
    /// `NonPagedPool`, `PagedPool`, `NonPagedPoolNx`.
    const KINDS: [u32; 3] = [0, PAGED_POOL, 0x200];
    /// `EX_LOOKASIDE_LIST_EX_FLAGS_RAISE_ON_FAIL` or `…_FAIL_NO_RAISE`.
    const FLAGS: [u32; 3] = [0, 1, 2];
    if !KINDS.contains(&kind) {
        return STATUS_INVALID_PARAMETER_4;
    }
    if !FLAGS.contains(&flags) {
        return STATUS_INVALID_PARAMETER_5;
    }
    if size < MINIMUM_BLOCK_SIZE {
        return STATUS_INVALID_PARAMETER_6;
    }
    // SAFETY: The caller's contract.
    let list = unsafe { DriverMemory::at(list) };
    let allocate = or_default(allocate, allocate_entry as *const ());
    let free = or_default(free, free_entry as *const ());
    initialize(list, kind, size, tag, [allocate, free]);
    STATUS_SUCCESS
}

/// Takes the entries out of a list, one after the other.
///
/// # Safety
///
/// `list` points to an initialised list.
unsafe fn take_entries(list: PVOID) -> impl Iterator<Item = PVOID> {
    std::iter::from_fn(move || {
        // SAFETY: The caller's contract.
        let entry = unsafe { ExpInterlockedPopEntrySList(list) };
        (!entry.is_null()).then_some(entry)
    })
}

/// Frees the entries of a list.
pub unsafe extern "win64-unwind" fn ExDeleteNPagedLookasideList(list: PVOID) {
    owned::remove(OwnedKind::LookasideList, list.addr());
    // SAFETY: The caller's contract.
    let free: usize = unsafe { DriverMemory::at(list) }.read(offset::FREE);
    let free: *const () = std::ptr::with_exposed_provenance(free);
    // SAFETY: The list was initialised with this function.
    let free: Free = unsafe { std::mem::transmute(free) };
    // SAFETY: The caller's contract.
    for entry in unsafe { take_entries(list) } {
        // SAFETY: The entry was in the list.
        unsafe { free(entry) };
    }
}

/// Frees the entries of a list.
pub unsafe extern "win64-unwind" fn ExDeletePagedLookasideList(list: PVOID) {
    // SAFETY: The caller's contract.
    unsafe { ExDeleteNPagedLookasideList(list) };
}

/// Frees the entries of an extended list.
pub unsafe extern "win64-unwind" fn ExFlushLookasideListEx(list: PVOID) {
    // SAFETY: The caller's contract.
    let free: usize = unsafe { DriverMemory::at(list) }.read(offset::FREE);
    let free: *const () = std::ptr::with_exposed_provenance(free);
    // SAFETY: The list was initialised with this function.
    let free: FreeEx = unsafe { std::mem::transmute(free) };
    // SAFETY: The caller's contract.
    for entry in unsafe { take_entries(list) } {
        // SAFETY: The entry was in the list.
        unsafe { free(entry, list) };
    }
}

/// Frees the entries of an extended list.
pub unsafe extern "win64-unwind" fn ExDeleteLookasideListEx(list: PVOID) {
    owned::remove(OwnedKind::LookasideList, list.addr());
    // SAFETY: The caller's contract.
    unsafe { ExFlushLookasideListEx(list) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{call, count, fly};
    use crate::ex_list::{ExQueryDepthSList, ExpInterlockedPushEntrySList};
    use std::ptr::null_mut;

    #[repr(align(64))]
    struct List([u64; 16]);

    type Allocate = unsafe extern "win64-unwind" fn(u32, usize, u32) -> PVOID;

    #[test]
    fn inline_code_of_a_driver_finds_its_fields() {
        let mut list = List([u64::MAX; 16]);
        let list: PVOID = list.0.as_mut_ptr().cast();
        let memory = call!(DriverMemory::at::<std::ffi::c_void>, list);
        let events = fly(|| {
            let tag = u32::from_le_bytes(*b"Look");
            let (none, flags) = (null_mut(), 0x200);
            call!(ExInitializeNPagedLookasideList, list, none, none, flags, 100, tag, 0);
            assert!(call!(ExpInterlockedPopEntrySList, list).is_null());
            let function: *const () = memory.follow(0x30).pointer::<()>().cast_const();
            // SAFETY: The function was written by the call above.
            let allocate: Allocate = unsafe { std::mem::transmute(function) };
            let (kind, tag, size) =
                (memory.read(0x24), memory.read(0x28), memory.read::<u32>(0x2C));
            assert_eq!((kind, size), (0x200, 100));
            let entries = [0; 2].map(|_| call!(allocate, kind, size as usize, tag));
            assert!(call!(ExQueryDepthSList, list) >= memory.read(0x10), "it is freed at once");
            for entry in entries {
                call!(ExpInterlockedPushEntrySList, list, entry);
            }
            call!(ExDeleteNPagedLookasideList, list);
            assert_eq!(call!(ExQueryDepthSList, list), 0);
        });
        assert_eq!((count(&events, "pool.freed"), count(&events, "pool.leaked")), (2, 0));
        assert_eq!(memory.read::<u64>(0x60), u64::MAX, "nothing behind it is written");
    }

    #[test]
    fn a_paged_list_allocates_paged_pool() {
        let mut list = List([0; 16]);
        let list: PVOID = list.0.as_mut_ptr().cast();
        call!(ExInitializePagedLookasideList, list, null_mut(), null_mut(), 0, 1, 1, 0);
        let memory = call!(DriverMemory::at::<std::ffi::c_void>, list);
        assert_eq!((memory.read::<u32>(0x24), memory.read::<u32>(0x2C)), (1, 8));
        call!(ExDeletePagedLookasideList, list);
    }

    #[test]
    fn an_extended_list_frees_with_its_own_function() {
        unsafe extern "win64-unwind" fn free(entry: PVOID, list: PVOID) {
            let list = call!(DriverMemory::at::<std::ffi::c_void>, list);
            list.write(0x68, entry.addr());
        }
        let mut list = List([0; 16]);
        let list: PVOID = list.0.as_mut_ptr().cast();
        let initialize = |kind, flags, size| {
            let free: PVOID = (free as *const ()).cast_mut().cast();
            call!(ExInitializeLookasideListEx, list, null_mut(), free, kind, flags, size, 7, 0)
        };
        assert_eq!(initialize(3, 0, 16), STATUS_INVALID_PARAMETER_4);
        assert_eq!(initialize(0x200, 3, 16), STATUS_INVALID_PARAMETER_5);
        assert_eq!(initialize(0x200, 0, 7), STATUS_INVALID_PARAMETER_6);
        assert_eq!(initialize(0x200, 2, 16), STATUS_SUCCESS);
        let mut entry = List([0; 16]);
        call!(ExpInterlockedPushEntrySList, list, entry.0.as_mut_ptr().cast());
        call!(ExDeleteLookasideListEx, list);
        let memory = call!(DriverMemory::at::<std::ffi::c_void>, list);
        assert_eq!(memory.read::<usize>(0x68), entry.0.as_ptr().addr());
    }
}
