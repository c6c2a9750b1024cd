//! Descriptors of processes (`pidfd_open`).
#![expect(unsafe_code, reason = "calls the operating system")]

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use thunk::claims::CallerProcess;

/// The process of a client, whose memory allocations may use longer than a call.
#[derive(Debug)]
pub(crate) struct WatchedProcess {
    number: i32,
    /// Without it, the end is known once the client's socket is closed.
    descriptor: Option<OwnedFd>,
    is_gone: AtomicBool,
}

impl WatchedProcess {
    pub(crate) fn new(number: i32) -> Self {
        Self { number, descriptor: open(number), is_gone: AtomicBool::new(false) }
    }

    pub(crate) fn descriptor(&self) -> Option<&OwnedFd> {
        self.descriptor.as_ref()
    }

    /// Its connection has ended: its memory is not accessed any more.
    pub(crate) fn set_gone(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }
}

impl CallerProcess for WatchedProcess {
    fn number(&self) -> i32 {
        self.number
    }

    fn has_ended(&self) -> bool {
        let ended = |descriptor: &OwnedFd| {
            let (fd, events) = (descriptor.as_raw_fd(), libc::POLLIN);
            let mut wait = libc::pollfd { fd, events, revents: 0 };
            // SAFETY: The structure is this function's own.
            unsafe { libc::poll(&raw mut wait, 1, 0) > 0 }
        };
        self.is_gone.load(Ordering::SeqCst) || self.descriptor.as_ref().is_some_and(ended)
    }
}

/// A descriptor of a process; `None` if there can be none.
pub fn open(process: i32) -> Option<OwnedFd> {
    // SAFETY: The call has no pointers.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    let opened = i32::try_from(opened).ok().filter(|number| *number >= 0)?;
    // SAFETY: The descriptor was just opened, and nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(opened) })
}

/// The process of a descriptor, if it is of a process that has not ended.
pub fn process_of(descriptor: BorrowedFd<'_>) -> Option<i32> {
    let path = format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd());
    let text = fs::read_to_string(path).ok()?;
    let process = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    process.trim().parse().ok().filter(|process| *process > 0)
}

/// Waits until a socket has a message or its other side is gone. Returns whether the process has
/// ended first.
pub(crate) fn has_ended(process: Option<&OwnedFd>, socket: BorrowedFd<'_>) -> bool {
    let wait = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // A negative number is not waited for.
    let process = process.map_or(-1, AsRawFd::as_raw_fd);
    let mut waits = [wait(socket.as_raw_fd()), wait(process)];
    // SAFETY: The array is this function's own.
    let answer = unsafe { libc::poll(waits.as_mut_ptr(), 2, -1) };
    // A message that was sent before the end is read first.
    answer > 0 && waits[0].revents & libc::POLLIN == 0 && waits[1].revents != 0
}
