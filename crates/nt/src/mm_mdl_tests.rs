//! Tests of memory descriptor lists.

use super::*;
use crate::entry::tests::{call, count, fly, fly_with};
use crate::image::exception::MmProbeAndLockPages;
use crate::mm::{MmAllocateContiguousMemory, MmFreeContiguousMemory, MmGetPhysicalAddress};

fn list(pointer: PVOID) -> Mdl {
    Mdl(call!(DriverMemory::at::<std::ffi::c_void>, pointer))
}

#[test]
fn a_list_describes_its_buffer() {
    let events = fly(|| {
        let mut memory = vec![0_u8; 3 * PAGE];
        let page = memory.as_mut_ptr().addr().next_multiple_of(PAGE);
        let buffer: PVOID =
            memory.as_mut_ptr().wrapping_add(page - memory.as_ptr().addr() + 16).cast();
        let one = call!(IoAllocateMdl, buffer, 4096, 0, 0, null_mut());
        assert_eq!((list(one).buffer(), list(one).page_count()), ((page + 16, 4096), 2));
        assert_eq!(list(one).0.read::<u16>(mdl::SIZE), 0x30 + 16);
        assert_eq!(call!(MmSizeOfMdl, buffer, 4096), 0x40);
        call!(MmProbeAndLockPages, one.expose_provenance(), 0, 1);
        assert_eq!(list(one).flags(), PAGES_LOCKED | WRITE_OPERATION);
        assert_eq!(list(one).page(1), (page / PAGE) as u64 + 1);
        let mapped = call!(MmMapLockedPagesSpecifyCache, one, 0, 1, null_mut(), 0, 16);
        assert_eq!((mapped, list(one).flags() & MAPPED_TO_SYSTEM_VA), (buffer, 1));
        call!(MmUnmapLockedPages, mapped, one);
        assert_eq!(list(one).flags() & MAPPED_TO_SYSTEM_VA, 0);
        assert_eq!(call!(MmMapLockedPages, one, 0), buffer);
        call!(MmUnlockPages, one);
        assert_eq!(list(one).flags(), 0, "it is unmapped, too");
        assert_eq!(call!(MmProtectMdlSystemAddress, one, 2), 0);
        call!(IoFreeMdl, one);
    });
    assert_eq!((count(&events, "pool.freed"), count(&events, "pool.leaked")), (1, 0));
}

#[test]
fn a_buffer_that_does_not_exist_is_not_locked() {
    fly(|| {
        let bad: PVOID = std::ptr::without_provenance_mut(0x1000);
        let one = call!(IoAllocateMdl, bad, 100, 0, 0, null_mut());
        // SAFETY: The list is valid.
        let locked = unsafe { probe_and_lock_pages(one, 0, 0) };
        assert_eq!((locked, list(one).flags()), (Err(STATUS_ACCESS_VIOLATION), 0));
        call!(IoFreeMdl, one);
        let high: PVOID = std::ptr::without_provenance_mut(user_limit());
        let one = call!(IoAllocateMdl, high, 100, 0, 0, null_mut());
        // SAFETY: The list is valid.
        let locked = unsafe { probe_and_lock_pages(one, USER_MODE, 0) };
        assert_eq!(locked, Err(STATUS_ACCESS_VIOLATION));
        call!(IoFreeMdl, one);
    });
}

#[test]
fn a_list_of_contiguous_memory_has_physical_pages() {
    let executive = Executive::new("planted");
    fly_with(&executive, || {
        let block = call!(MmAllocateContiguousMemory, 2 * PAGE, i64::MAX);
        let physical = call!(MmGetPhysicalAddress, block).cast_unsigned();
        let one = call!(IoAllocateMdl, block, 2 * 4096, 0, 0, null_mut());
        call!(MmBuildMdlForNonPagedPool, one);
        assert_eq!(list(one).flags(), SOURCE_IS_NONPAGED_POOL);
        assert_eq!(list(one).page(1), physical / PAGE as u64 + 1);
        assert_eq!(system_address(list(one).0).address(), block.addr());
        let part = call!(IoAllocateMdl, block, 2 * 4096, 0, 0, null_mut());
        let inside = block.wrapping_byte_add(PAGE + 8);
        call!(IoBuildPartialMdl, one, part, inside, 0);
        assert_eq!(list(part).buffer(), (inside.addr(), PAGE - 8), "the rest");
        assert_eq!(list(part).page(0), physical / PAGE as u64 + 1);
        assert_eq!(system_address(list(part).0).address(), inside.addr());
        call!(IoFreeMdl, part);
        call!(IoFreeMdl, one);
        call!(MmFreeContiguousMemory, block);
    });
    assert_eq!(executive.memory_in_use(), 0);
}

#[test]
fn pages_are_allocated_mapped_and_freed() {
    let executive = Executive::new("planted");
    let events = fly_with(&executive, || {
        assert!(call!(MmAllocatePagesForMdl, 0, 0xFFFF_FFFF, 0, 4096).is_null(), "none below");
        let one = call!(MmAllocatePagesForMdlEx, 0, i64::MAX, 0, 5000, 1, 0);
        assert_eq!((list(one).buffer(), list(one).flags()), ((0, 2 * PAGE), PAGES_LOCKED));
        let mapped = call!(MmMapLockedPagesSpecifyCache, one, 0, 1, null_mut(), 0, 16);
        // SAFETY: The pages are mapped there.
        unsafe { mapped.cast::<u8>().wrapping_add(PAGE).write(9) };
        let physical = call!(MmGetPhysicalAddress, mapped).cast_unsigned();
        assert_eq!(physical / PAGE as u64, list(one).page(0));
        assert_eq!(executive.memory_in_use(), 2);
        call!(MmUnmapLockedPages, mapped, one);
        call!(MmFreePagesFromMdl, one);
        assert_eq!(executive.memory_in_use(), 0);
        // SAFETY: The test does not use the list after this.
        unsafe { crate::ExFreePool(one) };
    });
    assert_eq!((count(&events, "pool.freed"), count(&events, "pool.leaked")), (1, 0));
}

#[test]
fn lists_are_chained_to_a_request() {
    fly(|| {
        let packet = call!(crate::io_irp::IoAllocateIrp, 1, 0);
        let memory = call!(DriverMemory::at::<std::ffi::c_void>, packet);
        let buffer: PVOID = std::ptr::without_provenance_mut(0x1_0000);
        let lists = [0, 1, 1].map(|second| call!(IoAllocateMdl, buffer, 8, second, 0, packet));
        assert_eq!(memory.follow(irp::MDL_ADDRESS).address(), lists[0].addr());
        assert_eq!(list(lists[0]).0.follow(mdl::NEXT).address(), lists[1].addr());
        assert_eq!(list(lists[1]).0.follow(mdl::NEXT).address(), lists[2].addr());
        for list in lists {
            call!(IoFreeMdl, list);
        }
        call!(crate::io_irp::IoFreeIrp, packet);
    });
}
