//! Handles of processes: file descriptors of `pidfd_open`.
//!
//! On Windows a handle has rights. A descriptor has none, so all rights are granted to it, unless it
//! comes from [`windtunnel_process_open`], which notes the rights that its caller asked for.
#![expect(unsafe_code, reason = "exported under a C name, and makes system calls")]

use crate::cancellation::exported;
use crate::fork_lock::ForkLock;
use abi::status::{STATUS_ACCESS_DENIED, STATUS_INVALID_HANDLE};
use abi::{HANDLE, NTSTATUS};
use server::process_descriptor::process_of;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use thunk::{NamedProcess, ProcessHandles};

/// The rights of descriptors, with the process of each: a number that is used again for another
/// process is another handle.
static RIGHTS: ForkLock<BTreeMap<i32, (i32, u32)>> = ForkLock::new(BTreeMap::new());

/// The descriptors of this process.
pub(crate) struct Descriptors;

impl ProcessHandles for Descriptors {
    fn find(&self, handle: HANDLE, rights: u32) -> Result<NamedProcess, NTSTATUS> {
        let descriptor = i32::try_from(handle.addr()).map_err(|_| STATUS_INVALID_HANDLE)?;
        // SAFETY: A number that is not open is an error of the system.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let process = process_of(descriptor).ok_or(STATUS_INVALID_HANDLE)?;
        if granted_rights(descriptor, process) & rights != rights {
            return Err(STATUS_ACCESS_DENIED);
        }
        let own = i32::try_from(std::process::id()) == Ok(process);
        Ok(if own { NamedProcess::Caller } else { NamedProcess::Unknown })
    }
}

/// The rights of a descriptor of a process; all of them for other descriptors.
pub(crate) fn rights_of(descriptor: BorrowedFd<'_>) -> u32 {
    process_of(descriptor).map_or(u32::MAX, |process| granted_rights(descriptor, process))
}

fn granted_rights(descriptor: BorrowedFd<'_>, process: i32) -> u32 {
    let rights = RIGHTS.lock();
    let noted = rights.get(&descriptor.as_raw_fd()).filter(|noted| noted.0 == process);
    noted.map_or(u32::MAX, |noted| noted.1)
}

exported! {
    /// Opens a process with the rights that a caller of `OpenProcess` asks for. Returns NULL if there is
    /// no such process. The handle is a file descriptor, never 0, that `close` closes.
    fn windtunnel_process_open(pid: i32, access: u32) -> HANDLE
}

/// The functions that do the work of the exported ones.
mod entered {
    use super::{HANDLE, RIGHTS, ptr};

    pub(super) extern "C-unwind" fn windtunnel_process_open(pid: i32, access: u32) -> HANDLE {
        // SAFETY: The call has no pointers.
        let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let Ok(mut descriptor) = i32::try_from(opened) else { return ptr::null_mut() };
        if descriptor == 0 {
            // SAFETY: The descriptor was opened just now.
            descriptor = unsafe { libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 3) };
            // SAFETY: As above; no one else knows it.
            unsafe { libc::close(0) };
        }
        let Ok(number) = usize::try_from(descriptor) else { return ptr::null_mut() };
        RIGHTS.lock().insert(descriptor, (pid, access));
        ptr::without_provenance_mut(number)
    }
}
