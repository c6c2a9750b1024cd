//! The reserve: memory for a call of a client that has used up its own.
//!
//! An allocation that fails ends the process, so no call may run out of memory. The library's
//! allocator ([`ReserveAllocator`]) keeps a block that it frees when an allocation fails, and a call
//! begins only if the block is there. So a call costs no allocation to find out whether it may begin.
//! In a program with another allocator each call allocates and frees such a block.
#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The reserve: more than a call needs, but for the lists that it copies, which are checked by
/// themselves, and for tables that grow.
const BLOCK: Layout = match Layout::from_size_align(64 << 10, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("a valid size and alignment"),
};

/// The block, or NULL if it was freed or not allocated yet.
static RESERVE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Whether [`ReserveAllocator`] is the allocator of this program.
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

/// Whether there is memory for a call.
pub(crate) fn is_available() -> bool {
    !RESERVE.load(Ordering::Relaxed).is_null() || fill()
}

/// Allocates the block. Returns whether there was memory for it.
#[cold]
fn fill() -> bool {
    // SAFETY: The size is not zero.
    let block = unsafe { System.alloc(BLOCK) };
    if block.is_null() {
        return false;
    }
    let is_kept = IS_INSTALLED.load(Ordering::Relaxed)
        && RESERVE
            .compare_exchange(ptr::null_mut(), block, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
    if !is_kept {
        // SAFETY: The block was allocated above, with this layout.
        unsafe { System.dealloc(block, BLOCK) };
    }
    true
}

/// Frees the block, if it is there.
fn release() {
    let block = RESERVE.swap(ptr::null_mut(), Ordering::AcqRel);
    if !block.is_null() {
        // SAFETY: The block was allocated with this layout, and the swap gives it to one thread.
        unsafe { System.dealloc(block, BLOCK) };
    }
}

/// The system allocator. If it has no memory left, it gets the reserve.
#[derive(Debug)]
pub struct ReserveAllocator;

impl ReserveAllocator {
    /// Allocates, and once more with the reserve if that may help.
    fn with_reserve(size: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
        let block = allocate();
        if block.is_null() { Self::retry(size, allocate) } else { block }
    }

    #[cold]
    fn retry(size: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
        if size > BLOCK.size() {
            return ptr::null_mut();
        }
        // If another thread has just freed the reserve, there is memory, too.
        release();
        allocate()
    }
}

// SAFETY: Every call is forwarded to the system allocator; the reserve is a block of it.
unsafe impl GlobalAlloc for ReserveAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !IS_INSTALLED.load(Ordering::Relaxed) {
            IS_INSTALLED.store(true, Ordering::Relaxed);
        }
        // SAFETY: The caller's contract.
        Self::with_reserve(layout.size(), || unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: The caller's contract.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: The caller's contract.
        Self::with_reserve(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: The caller's contract; a block that could not grow is still allocated.
        Self::with_reserve(size, || unsafe { System.realloc(block, layout, size) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Allocates with a system that has memory after `failures` attempts. Returns whether there was
    /// a block, and how often the system was asked.
    fn allocate(size: usize, failures: usize) -> (bool, usize) {
        let asked = Cell::new(0);
        let mut memory = 0_u8;
        let there = &raw mut memory;
        let block = ReserveAllocator::with_reserve(size, || {
            asked.set(asked.get() + 1);
            if asked.get() > failures { there } else { ptr::null_mut() }
        });
        (!block.is_null(), asked.get())
    }

    #[test]
    fn the_reserve_is_freed_for_an_allocation_that_fails_and_allocated_again() {
        IS_INSTALLED.store(true, Ordering::Relaxed);
        assert!(is_available());
        let first = RESERVE.load(Ordering::Relaxed);
        assert!(!first.is_null(), "the block is kept");
        assert!(is_available());
        assert_eq!(RESERVE.load(Ordering::Relaxed), first, "and not allocated again");
        assert_eq!(allocate(100, 0), (true, 1));
        assert!(!RESERVE.load(Ordering::Relaxed).is_null());
        assert_eq!(allocate(BLOCK.size() + 1, 1), (false, 1), "the reserve is too small for it");
        assert!(!RESERVE.load(Ordering::Relaxed).is_null());
        assert_eq!(allocate(100, 1), (true, 2));
        assert!(RESERVE.load(Ordering::Relaxed).is_null(), "it was freed for the allocation");
        assert_eq!(allocate(100, 2), (false, 2));
        assert!(is_available());
        release();
        IS_INSTALLED.store(false, Ordering::Relaxed);
        assert!(is_available());
        assert!(RESERVE.load(Ordering::Relaxed).is_null(), "no one would free it");
    }
}
