//! Process handles for clients in C: descriptors of processes (`pidfd_open(2)`).
//!
//! On Windows these are handles of `OpenProcess`, with the rights that the caller requested. A
//! descriptor has no rights of its own, so the library remembers those of the descriptors that it
//! opened, by number and process. A descriptor that the client opened itself, and a copy, has all
//! rights.
#![expect(unsafe_code, reason = "calls the operating system, and is exported under a C name")]

use crate::nt_descriptors::descriptor;
use abi::HANDLE;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Mutex, PoisonError};
use thunk::ProcessAccess;

/// `PROCESS_QUERY_INFORMATION` and `PROCESS_QUERY_LIMITED_INFORMATION`.
const QUERY: u32 = 0x0400 | 0x1000;

/// The processes and rights of the descriptors that were opened here, by number.
static RIGHTS: Mutex<BTreeMap<libc::c_int, (u32, u32)>> = Mutex::new(BTreeMap::new());

/// Opens a process with these rights (`PROCESS_…` of Windows). Returns a descriptor, which is closed
/// with `close`; NULL if there is no such process.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn windtunnel_process_open(pid: u32, access: u32) -> HANDLE {
    let Ok(target) = libc::pid_t::try_from(pid) else { return ptr::null_mut() };
    // SAFETY: The function takes any numbers.
    let number = unsafe { libc::syscall(libc::SYS_pidfd_open, target, 0) };
    let Ok(mut number) = libc::c_int::try_from(number) else { return ptr::null_mut() };
    if number == 0 {
        // SAFETY: The descriptor is ours.
        number = unsafe { libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 3) };
        // SAFETY: As above.
        unsafe { libc::close(0) };
    }
    if number < 0 {
        return ptr::null_mut();
    }
    let mut rights = RIGHTS.lock().unwrap_or_else(PoisonError::into_inner);
    rights.insert(number, (pid, access));
    ptr::without_provenance_mut(usize::try_from(number).unwrap_or(0))
}

/// The process of a descriptor, and the rights it has there.
pub(crate) fn find(number: usize) -> Option<ProcessAccess> {
    let number = descriptor(number)?;
    let pid = pid_of(number)?;
    let rights = RIGHTS.lock().unwrap_or_else(PoisonError::into_inner);
    let opened = rights.get(&number).filter(|(of, _)| *of == pid);
    let access = opened.map_or(u32::MAX, |(_, access)| *access);
    Some(ProcessAccess { pid, query: access & QUERY != 0, is_own: pid == std::process::id() })
}

/// The process of a descriptor; `None` if it is of no living process.
fn pid_of(number: libc::c_int) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    line.trim().parse().ok()
}
