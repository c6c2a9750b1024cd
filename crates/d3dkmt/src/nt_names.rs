//! Questions of clients in C about an NT handle.
//!
//! On Windows `NtQueryObject` answers them.
#![expect(unsafe_code, reason = "exported under C names, and writes the caller's buffers")]

use crate::global_kernel;
use abi::status::{STATUS_BUFFER_TOO_SMALL, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS};
use std::ffi::c_char;
use thunk::claims::write_list;

/// Writes the type of an NT handle's object: `DxgkSharedResource` or `DxgkSharedSyncObject`.
///
/// The text ends with a zero. Fails with `STATUS_INVALID_HANDLE`, or with `STATUS_BUFFER_TOO_SMALL`
/// if it does not fit into `size` bytes.
///
/// # Safety
///
/// `text` may be any number, but memory there is overwritten.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn windtunnel_nt_handle_type(
    handle: HANDLE,
    text: *mut c_char,
    size: usize,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    unsafe { answer(handle, text, size, true) }
}

/// Writes the name of an NT handle's object in UTF-8; an empty text if it has none.
///
/// The text ends with a zero. Fails with `STATUS_INVALID_HANDLE`, or with `STATUS_BUFFER_TOO_SMALL`
/// if it does not fit into `size` bytes.
///
/// # Safety
///
/// `text` may be any number, but memory there is overwritten.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn windtunnel_nt_handle_name(
    handle: HANDLE,
    text: *mut c_char,
    size: usize,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    unsafe { answer(handle, text, size, false) }
}

/// Both questions.
///
/// # Safety
///
/// As above.
unsafe fn answer(handle: HANDLE, text: *mut c_char, size: usize, kind: bool) -> NTSTATUS {
    let name = if kind { "windtunnel_nt_handle_type" } else { "windtunnel_nt_handle_name" };
    global_kernel::call(name, |session, at| {
        let answered = session.nt_handle_info(at, handle).and_then(|info| {
            let answer =
                if kind { info.kind.type_name().to_owned() } else { info.name.unwrap_or_default() };
            let bytes: Vec<u8> = answer.bytes().chain([0]).collect();
            if bytes.len() > size {
                return Err(STATUS_BUFFER_TOO_SMALL);
            }
            // SAFETY: The session's pointers are guarded, and the caller gives up this memory.
            session.with_trust(|| unsafe { write_list(text.cast(), &bytes) })
        });
        answered.err().unwrap_or(STATUS_SUCCESS)
    })
}
