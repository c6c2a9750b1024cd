//! Standard error of the client: it may be closed, full, or a pipe that no one reads. Nothing that
//! is printed there may end the client.
#![expect(unsafe_code, reason = "asks for a descriptor, and writes to it")]

use crate::signals;
use std::fs::File;
use std::io::Write as _;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// Standard error was closed when the library was loaded: another file may have its number now.
static CLOSED: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".init_array")]
static LOAD_HOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: Asks for the flags of a descriptor, which may be closed.
    let flags = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_GETFD) };
    CLOSED.store(flags < 0, Ordering::Relaxed);
}

/// Prints text. Returns whether it was written.
pub fn print(text: &str) -> bool {
    // SAFETY: The descriptor is not closed here.
    let error = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDERR_FILENO) });
    // Not by `std::io::stderr`, whose lock a child of `fork` could find held.
    let write = || match (&*error).write_all(text.as_bytes()) {
        // As that does: one that the client has closed meanwhile is not an error.
        Err(why) => why.raw_os_error() == Some(libc::EBADF),
        Ok(()) => true,
    };
    !CLOSED.load(Ordering::Relaxed) && signals::with_broken_pipes_as_errors(write)
}

/// Prints a line that begins with the name of the library.
pub fn print_line(text: &str) {
    print(&format!("windtunnel: {text}\n"));
}
