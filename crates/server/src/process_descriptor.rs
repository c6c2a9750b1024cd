//! Descriptors of processes (`pidfd_open`).
#![expect(unsafe_code, reason = "calls the operating system")]

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

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
