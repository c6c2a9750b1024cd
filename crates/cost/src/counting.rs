//! An allocator that can count the bytes that an operation leaves allocated.
//!
//! Counting is off by default and then costs one check of a flag; counters that all threads write
//! would slow down measurements on two threads.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use d3dkmt::ReserveAllocator;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

static ENABLED: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicIsize = AtomicIsize::new(0);

/// The allocator of the C library with optional counting. A program that reports bytes installs it:
/// `#[global_allocator] static ALLOCATOR: cost::CountingAllocator = cost::CountingAllocator;`.
#[derive(Debug)]
pub struct CountingAllocator;

/// Runs the body and returns how many more requested bytes are in use than before. `None` if this
/// program's allocator does not count.
pub(crate) fn bytes_added<T>(body: impl FnOnce() -> T) -> (T, Option<isize>) {
    BYTES.store(0, Ordering::Relaxed);
    ENABLED.store(true, Ordering::Relaxed);
    let probe = std::hint::black_box(Box::new(0_u8));
    let counts = BYTES.load(Ordering::Relaxed) != 0;
    drop(probe);
    let answer = body();
    ENABLED.store(false, Ordering::Relaxed);
    (answer, counts.then(|| BYTES.load(Ordering::Relaxed)))
}

/// Counts an allocated or freed block.
fn count(came: usize, went: usize) {
    if ENABLED.load(Ordering::Relaxed) {
        // A layout has at most `isize::MAX` bytes.
        BYTES.fetch_add(came.cast_signed() - went.cast_signed(), Ordering::Relaxed);
    }
}

// SAFETY: Every call is forwarded to the allocator of the C library; counting allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: The caller's contract.
        unsafe { ReserveAllocator.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: The caller's contract.
        unsafe { ReserveAllocator.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: The caller's contract.
        unsafe { ReserveAllocator.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: The caller's contract.
        unsafe { ReserveAllocator.realloc(block, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    const BLOCK: usize = 1 << 24;

    #[test]
    fn what_is_kept_is_counted_and_what_goes_is_not() {
        // Other tests may allocate a little meanwhile.
        let near = |bytes: Option<isize>, blocks: usize| {
            bytes.is_some_and(|value| value.abs_diff((blocks * BLOCK).cast_signed()) < BLOCK / 2)
        };
        let (kept, bytes) = bytes_added(|| vec![1_u8; BLOCK]);
        assert!(near(bytes, 1), "{bytes:?}");
        let (kept, bytes) = bytes_added(|| [kept, vec![0_u8; BLOCK]].concat());
        assert!(near(bytes, 1), "two blocks were allocated and an earlier one freed: {bytes:?}");
        let ((), bytes) = bytes_added(|| drop(vec![1_u8; BLOCK]));
        assert!(near(bytes, 0), "{bytes:?}");
        drop(kept);
    }
}
