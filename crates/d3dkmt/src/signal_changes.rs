//! Notes that the client changes signals: the library has the C library's functions for it under
//! their names, and each calls the original.
//!
//! A program that is linked with this library finds these functions first. One that loads it later
//! (`dlopen`) does not, nor does one whose sanitizer has such functions itself; [`are_seen`] says so.
//! Not seen are the system call itself (`syscall`) and the obsolete functions `sigset`, `sighold`,
//! `sigblock` and `sigsetmask`.
#![expect(unsafe_code, reason = "functions of the C library under their C names")]

use crate::claim_copy;
use libc::{c_int, sighandler_t, sigset_t};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The number of changes of actions, and one.
static CHANGES: AtomicU64 = AtomicU64::new(1);

/// Whether the client has a handler that blocks faults while it runs.
static HANDLERS_BLOCK: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    /// The same function as `sigaction`.
    fn __sigaction(
        signal: c_int,
        action: *const libc::sigaction,
        before: *mut libc::sigaction,
    ) -> c_int;
    /// The same function as `signal`.
    fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    /// The same function as `__sysv_signal`.
    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
}

/// The number of changes of actions so far, and one.
pub(crate) fn count() -> u64 {
    CHANGES.load(Ordering::Acquire)
}

/// Whether the client has a handler that blocks faults while it runs: a change of the mask that no
/// function makes.
pub(crate) fn do_handlers_block_faults() -> bool {
    HANDLERS_BLOCK.load(Ordering::Relaxed)
}

/// Whether a set has a signal of a fault.
pub(crate) fn has_faults(set: &sigset_t) -> bool {
    [libc::SIGSEGV, libc::SIGBUS].into_iter().any(|signal| {
        // SAFETY: The set is complete.
        unsafe { libc::sigismember(set, signal) == 1 }
    })
}

/// Whether the functions below are those that the client calls.
pub(crate) fn are_seen() -> bool {
    let own = object_of(are_seen as *const () as usize);
    let names = [c"sigaction", c"signal", c"__sysv_signal", c"pthread_sigmask", c"sigprocmask"];
    own.is_some() && names.into_iter().all(|name| object_of(address_of(name)) == own)
}

/// The function that the client finds under a name, or zero.
fn address_of(name: &CStr) -> usize {
    // SAFETY: The name is a C string.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.addr()
}

/// The start of the program or library that an address is in.
fn object_of(address: usize) -> Option<usize> {
    let mut object = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: The address is only compared, and `object` has room for the answer.
    let found = unsafe { libc::dladdr(ptr::without_provenance(address), object.as_mut_ptr()) } != 0;
    // SAFETY: The answer was filled, if the address is known.
    found.then(|| unsafe { object.assume_init() }.dli_fbase.addr())
}

/// An action has changed.
fn note_change() {
    CHANGES.fetch_add(1, Ordering::AcqRel);
}

/// `sigaction` of the C library.
///
/// # Safety
///
/// As the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    before: *mut libc::sigaction,
) -> c_int {
    // Before the call: both pointers may be the same.
    // SAFETY: The caller's contract.
    let blocks = unsafe { action.as_ref() }.is_some_and(|action| {
        let is_handler = !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
        is_handler && has_faults(&action.sa_mask) && !is_own(action.sa_sigaction)
    });
    // SAFETY: The caller's contract.
    let result = unsafe { __sigaction(signal, action, before) };
    if result == 0 && !action.is_null() {
        if blocks {
            HANDLERS_BLOCK.store(true, Ordering::Relaxed);
        }
        note_change();
    }
    result
}

/// Whether a handler is one of this project: these make no calls.
fn is_own(handler: usize) -> bool {
    handler == claim_copy::handler() || nt::image::is_own_handler(handler)
}

/// `signal` of the C library.
///
/// # Safety
///
/// As the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: The caller's contract.
    let before = unsafe { bsd_signal(signal, handler) };
    note_change();
    before
}

/// `signal` of the C library for programs that ask for the semantics of System V.
///
/// # Safety
///
/// As the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __sysv_signal(
    signal: c_int,
    handler: sighandler_t,
) -> sighandler_t {
    // SAFETY: The caller's contract.
    let before = unsafe { sysv_signal(signal, handler) };
    note_change();
    before
}

/// `pthread_sigmask` of the C library.
///
/// # Safety
///
/// As the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const sigset_t,
    before: *mut sigset_t,
) -> c_int {
    // SAFETY: The caller's contract.
    unsafe { change_mask(how, set, before) }
}

/// `sigprocmask` of the C library.
///
/// # Safety
///
/// As the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigprocmask(
    how: c_int,
    set: *const sigset_t,
    before: *mut sigset_t,
) -> c_int {
    // SAFETY: The caller's contract.
    let error = unsafe { change_mask(how, set, before) };
    if error == 0 {
        return 0;
    }
    // SAFETY: The C library has an error number for each thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: As above.
    unsafe { *errno = error };
    -1
}

/// Changes or reads the signal mask of this thread. Returns the error number.
///
/// # Safety
///
/// Both pointers are NULL or valid.
unsafe fn change_mask(how: c_int, set: *const sigset_t, before: *mut sigset_t) -> c_int {
    /// The size of the system's signal set.
    const SET: usize = 8;
    /// The two signals that the C library uses itself. It does not let a program block them.
    const OF_C_LIBRARY: u64 = 0b11 << 31;
    // SAFETY: The caller's contract: a signal set begins with the system's set.
    let allowed = unsafe { set.cast::<u64>().as_ref() }.map(|set| set & !OF_C_LIBRARY);
    let new = allowed.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `new` is NULL or a set of ours, and `before` has room by the caller's contract.
    let result = unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, new, before, SET) };
    if set.is_null() && result == 0 {
        return 0;
    }
    claim_copy::forget_check();
    if result == 0 { 0 } else { std::io::Error::last_os_error().raw_os_error().unwrap_or(0) }
}
