//! Handles of processes: file descriptors of `pidfd_open`.
//!
//! On Windows a handle has rights. A descriptor has none, so all rights are granted to it, unless it
//! comes from [`windtunnel_process_open`], which notes the rights that its caller asked for.
#![expect(unsafe_code, reason = "exported under a C name, and makes system calls")]

use abi::status::{STATUS_ACCESS_DENIED, STATUS_INVALID_HANDLE};
use abi::{HANDLE, NTSTATUS};
use std::collections::BTreeMap;
use std::fs;
use std::ptr;
use std::sync::{Mutex, PoisonError};
use thunk::{NamedProcess, ProcessHandles};

/// The rights of descriptors, with the process of each: a number that is used again for another
/// process is another handle.
static RIGHTS: Mutex<BTreeMap<i32, (i32, u32)>> = Mutex::new(BTreeMap::new());

/// The descriptors of this process.
pub(crate) struct Descriptors;

impl ProcessHandles for Descriptors {
    fn find(&self, handle: HANDLE, rights: u32) -> Result<NamedProcess, NTSTATUS> {
        let descriptor = i32::try_from(handle.addr()).map_err(|_| STATUS_INVALID_HANDLE)?;
        let process = process_of(descriptor).ok_or(STATUS_INVALID_HANDLE)?;
        let noted = RIGHTS.lock().unwrap_or_else(PoisonError::into_inner).get(&descriptor).copied();
        let granted = noted.filter(|noted| noted.0 == process).map_or(u32::MAX, |noted| noted.1);
        if granted & rights != rights {
            return Err(STATUS_ACCESS_DENIED);
        }
        let own = i32::try_from(std::process::id()) == Ok(process);
        Ok(if own { NamedProcess::Caller } else { NamedProcess::Unknown })
    }
}

/// The process of a descriptor, if it is of a process that has not ended.
fn process_of(descriptor: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?;
    let process = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    process.trim().parse().ok().filter(|process| *process > 0)
}

/// Opens a process with the rights that a caller of `OpenProcess` asks for. Returns NULL if there is
/// no such process. The handle is a file descriptor, never 0, that `close` closes.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn windtunnel_process_open(pid: i32, access: u32) -> HANDLE {
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
    let mut rights = RIGHTS.lock().unwrap_or_else(PoisonError::into_inner);
    rights.insert(descriptor, (pid, access));
    ptr::without_provenance_mut(number)
}
