//! The numbers of NT handles.
//!
//! The kernel knows an NT handle by its id. What number a client sees is decided here: multiples of
//! four, as on Windows, that end with the client's process, or what the owner of the session makes of
//! it ([`NtHandles`]): the C library's NT handles are file descriptors.
#![expect(unsafe_code, reason = "writes a caller's buffer")]

use crate::claims::write_list;
use crate::refusal::refused;
use crate::session::Session;
use crate::status::status;
use abi::status::{STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_HANDLE, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS};
use flight::Passive;
use kernel::{NtHandleId, NtHandleInfo};
use std::ptr;

/// The first number, above those of events, and the distance between numbers.
const BASE: usize = 0x1_0000;
const STEP: usize = 4;

/// A question about the object of an NT handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NtHandleText {
    /// `DxgkSharedResource` or `DxgkSharedSyncObject`.
    Type,
    /// The name.
    Name,
}

/// Gives NT handles their numbers in a process.
pub trait NtHandles: Send + Sync {
    /// Makes a number for a new NT handle. `inherit`: child processes get it, too.
    ///
    /// # Errors
    ///
    /// The status of a call that cannot return an NT handle.
    fn publish(&self, handle: NtHandleId, inherit: bool) -> Result<usize, NTSTATUS>;

    /// The NT handle that a number stands for now.
    fn find(&self, number: usize) -> Option<NtHandleId>;

    /// Calls `close` with each NT handle that was closed since the last call. Waits for another
    /// thread that does the same: when this returns, `close` has returned for every NT handle that
    /// was closed before.
    fn close_closed(&self, close: &mut dyn FnMut(NtHandleId));
}

impl Session {
    /// Ends what only closed NT handles kept alive. Called by every call that can see it.
    pub fn collect_closed_nt_handles(&self, at: &mut Passive) {
        let Some(nt_handles) = &self.nt_handles else { return };
        let mut is_any_closed = false;
        nt_handles.close_closed(&mut |handle| {
            is_any_closed |= self.kernel.release_nt_handle(handle);
        });
        if is_any_closed {
            self.kernel.end_released_resources(at);
        }
    }

    /// Whether NT handles are the process's in the kernel.
    pub(crate) fn owns_nt_handles(&self) -> bool {
        self.nt_handles.is_none()
    }

    /// The NT handle that a number stands for.
    pub(crate) fn find_nt_handle(&self, at: &mut Passive, handle: HANDLE) -> Option<NtHandleId> {
        self.collect_closed_nt_handles(at);
        if let Some(nt_handles) = &self.nt_handles {
            return nt_handles.find(handle.addr());
        }
        let number = handle.addr().checked_sub(BASE).filter(|it| it.is_multiple_of(STEP))? / STEP;
        self.kernel.find_nt_handle(self.process, u32::try_from(number).ok()?)
    }

    /// The number of a new NT handle. If there can be none, the handle is closed.
    pub(crate) fn publish_nt_handle(
        &self,
        at: &mut Passive,
        handle: NtHandleId,
        inherit: bool,
    ) -> Result<HANDLE, NTSTATUS> {
        let number = match &self.nt_handles {
            Some(nt_handles) => nt_handles.publish(handle, inherit),
            None => Ok(BASE + handle.number() as usize * STEP),
        };
        if number.is_err() {
            self.kernel.close_nt_handle(at, handle);
        }
        let full = |status| refused(status, "there is no descriptor left for an NT handle");
        number.map_err(full).map(ptr::without_provenance_mut)
    }

    /// Closes an NT handle whose number is the kernel's. (A client of the C library closes its file
    /// descriptor.)
    pub fn close_nt_handle(&self, at: &mut Passive, handle: HANDLE) -> Result<(), NTSTATUS> {
        let found = self.find_nt_handle(at, handle).ok_or_else(unknown_handle)?;
        self.kernel.close_nt_handle(at, found);
        Ok(())
    }

    /// Gives another process an NT handle of the same object, as `DuplicateHandle` does. Returns
    /// its number there.
    pub fn duplicate_nt_handle(
        &self,
        at: &mut Passive,
        handle: HANDLE,
        to: &Session,
    ) -> Result<HANDLE, NTSTATUS> {
        let found = self.find_nt_handle(at, handle).ok_or_else(unknown_handle)?;
        let copy = self.kernel.duplicate_nt_handle(found, to.process);
        to.publish_nt_handle(at, copy.map_err(|why| status(&why))?, false)
    }

    /// Writes the type or the name of an NT handle's object to a caller's buffer of this size, in
    /// UTF-8 and with a zero at the end; an empty text if it has no name.
    ///
    /// # Safety
    ///
    /// The buffer is valid for writes, unless the session is guarded.
    pub unsafe fn write_nt_handle_text(
        &self,
        at: &mut Passive,
        handle: HANDLE,
        what: NtHandleText,
        (text, size): (*mut u8, usize),
    ) -> NTSTATUS {
        let answered = self.nt_handle_info(at, handle).and_then(|info| {
            let answer = match what {
                NtHandleText::Type => info.kind.type_name().to_owned(),
                NtHandleText::Name => info.name.unwrap_or_default(),
            };
            let bytes: Vec<u8> = answer.bytes().chain([0]).collect();
            if bytes.len() > size {
                return Err(STATUS_BUFFER_TOO_SMALL);
            }
            // SAFETY: The caller's contract.
            self.with_trust(|| unsafe { write_list(text, &bytes) })
        });
        answered.err().unwrap_or(STATUS_SUCCESS)
    }

    /// The type, the name and the access of an NT handle.
    pub fn nt_handle_info(
        &self,
        at: &mut Passive,
        handle: HANDLE,
    ) -> Result<NtHandleInfo, NTSTATUS> {
        let found = self.find_nt_handle(at, handle).ok_or_else(unknown_handle)?;
        self.kernel.nt_handle_info(found).map_err(|why| status(&why))
    }
}

fn unknown_handle() -> NTSTATUS {
    refused(STATUS_INVALID_HANDLE, "the handle is no NT handle of an object")
}
