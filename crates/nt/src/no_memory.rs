//! The allocator of a program that flies drivers: when there is no memory, it ends the program with
//! one line, and in the process of a flight with an exit status that its parent knows.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

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

/// Ends the program with the same line if it has no memory to begin with: a thread that cannot have
/// its first few pages is ended by Rust's library or by the C library, each in words of its own.
pub fn end_unless_threads_can_begin() {
    const BYTES: usize = 32 << 20;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: Maps new pages.
    let pages = unsafe { libc::mmap(ptr::null_mut(), BYTES, libc::PROT_NONE, flags, -1, 0) };
    if pages == libc::MAP_FAILED {
        end_without_memory();
    }
    // SAFETY: The pages are this function's own.
    unsafe { libc::munmap(pages, BYTES) };
}

/// The system allocator, which ends the program when there is no memory:
/// `#[global_allocator] static ALLOCATOR: nt::ExitWithoutMemory = nt::ExitWithoutMemory;`.
#[derive(Debug)]
pub struct ExitWithoutMemory;

// SAFETY: Every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for ExitWithoutMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: The caller's contract.
        check(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: The caller's contract.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: The caller's contract.
        check(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: The caller's contract.
        check(unsafe { System.realloc(block, layout, size) }, size)
    }
}
