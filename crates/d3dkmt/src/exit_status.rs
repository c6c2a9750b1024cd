//! The exit status of a client with errors.
//!
//! With `WINDTUNNEL_FAIL=1`, a client that exits with status 0 although its report has errors
//! exits with 1. The handler is registered when the library is loaded. If the client is linked to
//! the library, that is before any handler of the client and before the dynamic linker's, so that
//! it runs last, after the report is written. Handlers of a client that loads the library with
//! `dlopen` may be registered before; the report is then written before they run.
//!
//! The handler calls `exit` again. In glibc this runs the handlers that are left and flushes the
//! standard streams, as for the first call (`atexit(3)`, notes).
#![expect(unsafe_code, reason = "registers an exit handler with the C library")]

use crate::report;
use server::standard_error;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The environment variable that requests it.
const VARIABLE: &str = "WINDTUNNEL_FAIL";

/// The report has errors.
static HAS_ERRORS: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    /// glibc's `atexit` with the exit status as an argument of the handler.
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Runs when the library is loaded, because exit handlers run in the reverse order.
#[used]
#[unsafe(link_section = ".init_array")]
static LOAD_HOOK: extern "C" fn() = register;

/// Whether the environment requests it.
pub(crate) fn is_requested() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// The report has errors, so the client fails.
pub(crate) fn set_errors() {
    HAS_ERRORS.store(true, Ordering::Release);
}

extern "C" fn register() {
    if !is_requested() {
        return;
    }
    // SAFETY: The handler is a function that is never unloaded; it does not use its argument.
    let refused = unsafe { on_exit(change_status, ptr::null_mut()) };
    if refused != 0 {
        let reason = format!("cannot register an exit handler: {VARIABLE} has no effect");
        standard_error::print_line(&reason);
    }
}

extern "C" fn change_status(status: c_int, _argument: *mut c_void) {
    report::write_at_exit(); // Does nothing if it is written.
    if status == 0 && HAS_ERRORS.swap(false, Ordering::AcqRel) {
        // SAFETY: An exit handler of glibc may call `exit`, which goes on with the other handlers.
        unsafe { libc::exit(1) };
    }
}
