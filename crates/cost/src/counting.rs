//! An allocator that can count the bytes that an operation leaves allocated, and that ends the
//! program with one line when there is no memory.
//!
//! Counting is off by default and then costs one check of a flag; counters that all threads write
//! would slow down measurements on two threads.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use d3dkmt::ReserveAllocator;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicIsize, Ordering};

static ENABLED: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicIsize = AtomicIsize::new(0);

/// The exit status of a program without memory.
static EXIT_STATUS: AtomicI32 = AtomicI32::new(2);

/// The exit status of the process of a flight without memory: its parent is told, and the driver is
/// not to blame.
pub const FLIGHT_WITHOUT_MEMORY: i32 = 98;

/// A larger block may be one that the program can do without: the number of its bytes is a claim of
/// a client.
const LARGE: usize = 64 << 20;

/// This process is one of a flight.
pub fn set_flight_exit_status() {
    EXIT_STATUS.store(FLIGHT_WITHOUT_MEMORY, Ordering::Relaxed);
}

/// Ends the program if a block could not be allocated. Panics and reports would need memory.
fn check(block: *mut u8, bytes: usize) -> *mut u8 {
    if block.is_null() && bytes < LARGE {
        end_without_memory();
    }
    block
}

#[cold]
fn end_without_memory() {
    const LINE: &[u8] = b"windtunnel: the machine has no resources left: no memory\n";
    static ENDS: AtomicBool = AtomicBool::new(false);
    if ENDS.swap(true, Ordering::Relaxed) {
        loop {
            // SAFETY: Waits for the end of the process, which another thread brings.
            unsafe { libc::pause() };
        }
    }
    // SAFETY: The bytes are a constant.
    unsafe { libc::write(libc::STDERR_FILENO, LINE.as_ptr().cast(), LINE.len()) };
    // SAFETY: Ends the process without running anything of it, which could need memory.
    unsafe { libc::_exit(EXIT_STATUS.load(Ordering::Relaxed)) };
}

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
        check(unsafe { ReserveAllocator.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: The caller's contract.
        unsafe { ReserveAllocator.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: The caller's contract.
        check(unsafe { ReserveAllocator.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: The caller's contract.
        check(unsafe { ReserveAllocator.realloc(block, layout, size) }, size)
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
