//! Interlocked lists and additions of the executive (`Ex`), under their Windows names.
//!
//! A list is in the driver's memory, in the layout of Windows. An `SLIST_HEADER` has 16 bytes: the
//! depth (16 bits), a sequence number that every change increases (48 bits), four reserved bits and
//! the upper 60 bits of the first entry's address (documented: entries are aligned to 16 bytes).
//!
//! # Invariants
//!
//! 1. Every change is made under one lock, which is held for no other code of the driver. So an
//!    entry that another thread removes and frees meanwhile is never read.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::DriverMemory;
use crate::held_locks::forget_locks;
use crate::import_table::import_rows;
use abi::PVOID;
use std::sync::{Mutex, MutexGuard, PoisonError};

import_rows! {
    ExInterlockedAddLargeInteger;
    ExInterlockedAddUlong;
    ExInterlockedInsertHeadList;
    ExInterlockedInsertTailList;
    ExInterlockedPopEntryList;
    ExInterlockedPushEntryList;
    ExInterlockedRemoveHeadList;
    ExQueryDepthSList;
    ExpInterlockedFlushSList;
    ExpInterlockedPopEntrySList;
    ExpInterlockedPushEntrySList;
    InitializeSListHeader;
}

/// `LIST_ENTRY`: the next and the previous entry.
const FLINK: usize = 0;
const BLINK: usize = 8;

/// The low half of an `SLIST_HEADER`: one more in the sequence number.
const SEQUENCE: u64 = 1 << 16;
const DEPTH: u64 = SEQUENCE - 1;
/// The bits of the high half that are not an address.
const RESERVED: u64 = 0xF;

/// Bytes of a block of a lookaside list in which spin locks are looked for.
const LOOKASIDE_REACH: usize = 4096;

/// The lock of all lists (invariant 1).
static LISTS: Mutex<()> = Mutex::new(());

fn locked() -> MutexGuard<'static, ()> {
    LISTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The address of an entry, or NULL for zero.
fn entry(address: usize) -> PVOID {
    std::ptr::with_exposed_provenance_mut(address)
}

/// Inserts an entry between two neighbours.
fn insert_between(entry: DriverMemory, before: DriverMemory, after: DriverMemory) {
    entry.write(FLINK, after.address());
    entry.write(BLINK, before.address());
    before.write(FLINK, entry.address());
    after.write(BLINK, entry.address());
}

/// Inserts an entry at the end of a list. Returns the entry that was last, or NULL if there was
/// none.
pub unsafe extern "win64-unwind" fn ExInterlockedInsertTailList(
    head: PVOID,
    list_entry: PVOID,
    _lock: PVOID,
) -> PVOID {
    // SAFETY: The caller's contract.
    let head = unsafe { DriverMemory::at(head) };
    // SAFETY: The caller's contract.
    let new = unsafe { DriverMemory::at(list_entry) };
    let _locked = locked();
    let last = head.follow(BLINK);
    insert_between(new, last, head);
    entry(if last == head { 0 } else { last.address() })
}

/// Inserts an entry at the start of a list. Returns the entry that was first, or NULL if there was
/// none.
pub unsafe extern "win64-unwind" fn ExInterlockedInsertHeadList(
    head: PVOID,
    list_entry: PVOID,
    _lock: PVOID,
) -> PVOID {
    // SAFETY: The caller's contract.
    let head = unsafe { DriverMemory::at(head) };
    // SAFETY: The caller's contract.
    let new = unsafe { DriverMemory::at(list_entry) };
    let _locked = locked();
    let first = head.follow(FLINK);
    insert_between(new, head, first);
    entry(if first == head { 0 } else { first.address() })
}

/// Removes the first entry of a list. Returns NULL if the list is empty.
pub unsafe extern "win64-unwind" fn ExInterlockedRemoveHeadList(
    head: PVOID,
    _lock: PVOID,
) -> PVOID {
    // SAFETY: The caller's contract.
    let head = unsafe { DriverMemory::at(head) };
    let _locked = locked();
    let first = head.follow(FLINK);
    if first == head {
        return entry(0);
    }
    let second = first.follow(FLINK);
    head.write(FLINK, second.address());
    second.write(BLINK, head.address());
    entry(first.address())
}

/// Inserts an entry at the start of a singly linked list. Returns the entry that was first.
pub unsafe extern "win64-unwind" fn ExInterlockedPushEntryList(
    head: PVOID,
    list_entry: PVOID,
    _lock: PVOID,
) -> PVOID {
    // SAFETY: The caller's contract.
    let head = unsafe { DriverMemory::at(head) };
    // SAFETY: The caller's contract.
    let new = unsafe { DriverMemory::at(list_entry) };
    let _locked = locked();
    let first: usize = head.read(0);
    new.write(0, first);
    head.write(0, new.address());
    entry(first)
}

/// Removes the first entry of a singly linked list. Returns NULL if the list is empty.
pub unsafe extern "win64-unwind" fn ExInterlockedPopEntryList(head: PVOID, _lock: PVOID) -> PVOID {
    // SAFETY: The caller's contract.
    let head = unsafe { DriverMemory::at(head) };
    let _locked = locked();
    let first = head.follow(0);
    if !first.is_null() {
        head.write(0, first.read::<usize>(0));
    }
    entry(first.address())
}

/// Initialises a sequenced list as empty.
pub unsafe extern "win64-unwind" fn InitializeSListHeader(head: PVOID) {
    // SAFETY: The caller's contract.
    unsafe { DriverMemory::at(head) }.write(0, 0_u128);
}

/// Number of entries in a sequenced list.
pub unsafe extern "win64-unwind" fn ExQueryDepthSList(head: PVOID) -> u16 {
    // SAFETY: The caller's contract.
    unsafe { DriverMemory::at(head) }.read(0)
}

/// The low half of a header after a change of its depth.
fn next_state(state: u64, depth: u64) -> u64 {
    (state & !DEPTH).wrapping_add(SEQUENCE) | depth & DEPTH
}

/// Inserts an entry at the start of a sequenced list. Returns the entry that was first, or NULL.
pub unsafe extern "win64-unwind" fn ExpInterlockedPushEntrySList(
    head: PVOID,
    list_entry: PVOID,
) -> PVOID {
    // SAFETY: The caller's contract.
    let head = unsafe { DriverMemory::at(head) };
    // SAFETY: The caller's contract.
    let new = unsafe { DriverMemory::at(list_entry) };
    // A lookaside list keeps blocks that are free: their locks are none until they are used again.
    forget_locks(&(new.address()..new.address().saturating_add(LOOKASIDE_REACH)));
    let _locked = locked();
    let (state, link): (u64, u64) = (head.read(0), head.read(8));
    new.write(0, link & !RESERVED);
    head.write(8, new.address() as u64 & !RESERVED | link & RESERVED);
    head.write(0, next_state(state, state.wrapping_add(1)));
    entry(new.read(0))
}

/// Removes the first entry of a sequenced list. Returns NULL if the list is empty.
pub unsafe extern "win64-unwind" fn ExpInterlockedPopEntrySList(head: PVOID) -> PVOID {
    // SAFETY: The caller's contract.
    let head = unsafe { DriverMemory::at(head) };
    let _locked = locked();
    let (state, link): (u64, u64) = (head.read(0), head.read(8));
    let first = link & !RESERVED;
    if first == 0 {
        return entry(0);
    }
    head.write(8, first);
    let second: u64 = head.follow(8).read(0);
    head.write(8, second & !RESERVED | link & RESERVED);
    head.write(0, next_state(state, state.wrapping_sub(1)));
    entry(usize::try_from(first).unwrap_or(0))
}

/// Removes all entries of a sequenced list. Returns the first, which is linked to the others.
pub unsafe extern "win64-unwind" fn ExpInterlockedFlushSList(head: PVOID) -> PVOID {
    // SAFETY: The caller's contract.
    let head = unsafe { DriverMemory::at(head) };
    let _locked = locked();
    let (state, link): (u64, u64) = (head.read(0), head.read(8));
    head.write(8, link & RESERVED);
    head.write(0, next_state(state, 0));
    entry(usize::try_from(link & !RESERVED).unwrap_or(0))
}

/// Adds to a number of 64 bits. Returns the previous value.
pub unsafe extern "win64-unwind" fn ExInterlockedAddLargeInteger(
    addend: *mut i64,
    increment: i64,
    _lock: PVOID,
) -> i64 {
    // SAFETY: The caller's contract.
    let addend = unsafe { DriverMemory::at(addend) };
    let _locked = locked();
    let before: i64 = addend.read(0);
    addend.write(0, before.wrapping_add(increment));
    before
}

/// Adds to a number of 32 bits. Returns the previous value.
pub unsafe extern "win64-unwind" fn ExInterlockedAddUlong(
    addend: *mut u32,
    increment: u32,
    _lock: PVOID,
) -> u32 {
    // SAFETY: The caller's contract.
    let addend = unsafe { DriverMemory::at(addend) };
    let _locked = locked();
    let before: u32 = addend.read(0);
    addend.write(0, before.wrapping_add(increment));
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::call;
    use std::ptr::null_mut;

    /// Entries and a header, aligned as Windows requires.
    #[repr(align(16))]
    struct Aligned([u64; 2]);

    #[test]
    fn a_list_keeps_its_order_and_tells_its_neighbours() {
        let mut entries = [[0_u64; 2]; 4];
        let [head, a, b, c] =
            entries.each_mut().map(|words| PVOID::from(words.as_mut_ptr().cast()));
        let list = call!(DriverMemory::at::<std::ffi::c_void>, head);
        insert_between(list, list, list);
        assert!(call!(ExInterlockedRemoveHeadList, head, null_mut()).is_null());
        assert!(call!(ExInterlockedInsertTailList, head, a, null_mut()).is_null());
        assert_eq!(call!(ExInterlockedInsertTailList, head, b, null_mut()), a);
        assert_eq!(call!(ExInterlockedInsertHeadList, head, c, null_mut()), a);
        let remove = || call!(ExInterlockedRemoveHeadList, head, null_mut());
        assert_eq!((remove(), remove(), remove(), remove()), (c, a, b, null_mut()));
        assert_eq!((list.follow(FLINK), list.follow(BLINK)), (list, list));
    }

    #[test]
    fn a_singly_linked_list_is_a_stack() {
        let mut entries = [0_u64; 3];
        let [head, a, b] = entries.each_mut().map(|word| PVOID::from((&raw mut *word).cast()));
        assert!(call!(ExInterlockedPushEntryList, head, a, null_mut()).is_null());
        assert_eq!(call!(ExInterlockedPushEntryList, head, b, null_mut()), a);
        let pop = || call!(ExInterlockedPopEntryList, head, null_mut());
        assert_eq!((pop(), pop(), pop()), (b, a, null_mut()));
    }

    #[test]
    fn a_sequenced_list_counts_its_entries_and_its_changes() {
        let mut memory = [const { Aligned([7; 2]) }; 4];
        let [head, a, b, c] = memory.each_mut().map(|one| PVOID::from(one.0.as_mut_ptr().cast()));
        call!(InitializeSListHeader, head);
        assert!(call!(ExpInterlockedPopEntrySList, head).is_null());
        assert!(call!(ExpInterlockedPushEntrySList, head, a).is_null());
        assert_eq!(call!(ExpInterlockedPushEntrySList, head, b), a);
        assert_eq!(call!(ExpInterlockedPushEntrySList, head, c), b);
        let list = call!(DriverMemory::at::<std::ffi::c_void>, head);
        let header = (list.read::<u64>(0), list.read::<u64>(8));
        assert_eq!(header, (0x3_0003, c.addr() as u64), "depth, sequence and first entry");
        assert_eq!(call!(ExpInterlockedPopEntrySList, head), c);
        assert_eq!((call!(ExQueryDepthSList, head), list.read::<u64>(0)), (2, 0x4_0002));
        assert_eq!(call!(ExpInterlockedFlushSList, head), b);
        let chain = call!(DriverMemory::at::<std::ffi::c_void>, b);
        assert_eq!((chain.read::<usize>(0), call!(ExQueryDepthSList, head)), (a.addr(), 0));
        assert!(call!(ExpInterlockedPopEntrySList, head).is_null());
    }

    #[test]
    fn additions_return_the_value_before() {
        let (mut large, mut small) = (i64::MAX, 5);
        assert_eq!(call!(ExInterlockedAddLargeInteger, &raw mut large, 1, null_mut()), i64::MAX);
        assert_eq!(call!(ExInterlockedAddUlong, &raw mut small, 3, null_mut()), 5);
        assert_eq!((large, small), (i64::MIN, 8));
    }
}
