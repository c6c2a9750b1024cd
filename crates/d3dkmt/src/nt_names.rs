//! Questions of clients in C about an NT handle.
//!
//! On Windows `NtQueryObject` answers them.
#![expect(unsafe_code, reason = "exported under C names, and writes the caller's buffers")]

use crate::cancellation::exported;
use crate::global_kernel;
use crate::remote::{RemoteArguments, RemoteCall};
use abi::{HANDLE, NTSTATUS};
use server::message::OtherCall;
use std::ffi::c_char;
use thunk::NtHandleText;

exported! {
    /// Writes the type of an NT handle's object: `DxgkSharedResource` or `DxgkSharedSyncObject`.
    ///
    /// The text ends with a zero. Fails with `STATUS_INVALID_HANDLE`, or with `STATUS_BUFFER_TOO_SMALL`
    /// if it does not fit into `size` bytes.
    ///
    /// # Safety
    ///
    /// `text` may be any number, but memory there is overwritten.
    unsafe fn windtunnel_nt_handle_type(handle: HANDLE, text: *mut c_char, size: usize) -> NTSTATUS
}

exported! {
    /// Writes the name of an NT handle's object in UTF-8; an empty text if it has none.
    ///
    /// The text ends with a zero. Fails with `STATUS_INVALID_HANDLE`, or with `STATUS_BUFFER_TOO_SMALL`
    /// if it does not fit into `size` bytes.
    ///
    /// # Safety
    ///
    /// `text` may be any number, but memory there is overwritten.
    unsafe fn windtunnel_nt_handle_name(handle: HANDLE, text: *mut c_char, size: usize) -> NTSTATUS
}

/// The functions that do the work of the exported ones.
mod entered {
    use super::{HANDLE, NTSTATUS, NtHandleText, answer, c_char};

    pub(super) extern "C-unwind" fn windtunnel_nt_handle_type(
        handle: HANDLE,
        text: *mut c_char,
        size: usize,
    ) -> NTSTATUS {
        // SAFETY: The caller's contract.
        unsafe { answer(handle, text, size, NtHandleText::Type) }
    }

    pub(super) extern "C-unwind" fn windtunnel_nt_handle_name(
        handle: HANDLE,
        text: *mut c_char,
        size: usize,
    ) -> NTSTATUS {
        // SAFETY: The caller's contract.
        unsafe { answer(handle, text, size, NtHandleText::Name) }
    }
}

/// Both questions.
///
/// # Safety
///
/// As above.
unsafe fn answer(handle: HANDLE, text: *mut c_char, size: usize, what: NtHandleText) -> NTSTATUS {
    let (name, call) = match what {
        NtHandleText::Type => ("windtunnel_nt_handle_type", OtherCall::NtHandleType),
        NtHandleText::Name => ("windtunnel_nt_handle_name", OtherCall::NtHandleName),
    };
    let words = [handle.addr(), text.expose_provenance(), size];
    let members = words.map(|word| (word as u64).to_ne_bytes()).concat();
    let arguments = RemoteArguments::Members(&members);
    let remote = RemoteCall { entry: call.number(), arguments };
    global_kernel::call(name, &remote, |session, at| {
        // SAFETY: The session is guarded, and the caller gives up this memory.
        unsafe { session.write_nt_handle_text(at, handle, what, (text.cast(), size)) }
    })
}
