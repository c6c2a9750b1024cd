//! Handles of processes, for calls about other processes.

use crate::refusal::refused;
use crate::session::Session;
use abi::status::{STATUS_ACCESS_DENIED, STATUS_INVALID_HANDLE};
use abi::{HANDLE, NTSTATUS};
use kernel::ProcessId;

/// The right to ask about a process.
///
/// WINDOWS: a handle without the right is denied (observed); that this is the right is our reading.
pub const PROCESS_QUERY_INFORMATION: u32 = 0x400;

/// The right to change a process. That a reservation needs it is our reading.
pub const PROCESS_SET_INFORMATION: u32 = 0x200;

/// The process behind a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedProcess {
    /// The caller's own.
    Caller,
    /// Another process of the kernel.
    Other(ProcessId),
    /// A process that has not called the kernel.
    Unknown,
}

impl NamedProcess {
    /// The process, if the kernel knows it.
    pub(crate) fn id(self, session: &Session) -> Option<ProcessId> {
        match self {
            NamedProcess::Caller => Some(session.process),
            NamedProcess::Other(process) => Some(process),
            NamedProcess::Unknown => None,
        }
    }
}

/// Finds processes by their handles, which belong to the operating system.
pub trait ProcessHandles: Send + Sync {
    /// The process of a handle that has these rights.
    ///
    /// # Errors
    ///
    /// `STATUS_INVALID_HANDLE` if it is no handle of a process, `STATUS_ACCESS_DENIED` if it lacks
    /// the rights.
    fn find(&self, handle: HANDLE, rights: u32) -> Result<NamedProcess, NTSTATUS>;
}

/// The process that a call names.
///
/// WINDOWS: zero and the pseudo handle of the current process are the caller, and an unknown handle
/// is an invalid handle (all observed).
pub(crate) fn named_process(
    session: &Session,
    handle: HANDLE,
    rights: u32,
) -> Result<NamedProcess, NTSTATUS> {
    if handle.addr() == 0 || handle.addr() == usize::MAX {
        return Ok(NamedProcess::Caller);
    }
    let handles = session.process_handles();
    let found = handles.ok_or(STATUS_INVALID_HANDLE).and_then(|them| them.find(handle, rights));
    found.map_err(|status| match status {
        STATUS_ACCESS_DENIED => refused(status, "hProcess lacks the right that the call needs"),
        _ => refused(status, "hProcess is no handle of a process"),
    })
}
