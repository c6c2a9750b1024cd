//! The exported functions and cancellation of the client's threads (`pthread_cancel`): it is held back
//! while a thread is inside one, also an asynchronous one, because a frame of ours that is left keeps
//! its locks.
//!
//! An asynchronous cancellation unwinds from any instruction, and a function of Rust with a destructor
//! can only be unwound from a call. So each exported function is assembly: it holds cancellation back,
//! calls the function that does the work, and allows cancellation again.
//!
//! # Invariants
//!
//! 1. No function that runs while cancellation is allowed has a destructor.
#![expect(unsafe_code, reason = "calls the C library")]

use std::ffi::c_int;

/// `PTHREAD_CANCEL_DISABLE` of glibc.
const DISABLE: c_int = 1;

/// `PTHREAD_CANCEL_DEFERRED` of glibc.
const DEFERRED: c_int = 0;

unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
    /// A cancellation that was held back ends the thread here.
    fn pthread_testcancel();
}

/// The cancellation state and type of a thread before its cancellation was held back.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Cancellation {
    state: c_int,
    kind: c_int,
}

/// Begins an exported function: holds cancellation back, and notes where the caller's frames begin.
pub(crate) extern "C-unwind" fn begin(caller_frames: usize) -> Cancellation {
    let (mut state, mut kind) = (DISABLE, DEFERRED);
    // The type comes first: the handler of glibc 2.36 cancels a thread whose type is asynchronous and
    // whose state is disabled, if the signal was sent before.
    // SAFETY: The number is this function's own.
    unsafe { pthread_setcanceltype(DEFERRED, &raw mut kind) };
    // SAFETY: As above.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut state) };
    thunk::claims::set_caller_frames(caller_frames);
    Cancellation { state, kind }
}

/// Ends an exported function: allows cancellation again, if it was allowed before. This may end the
/// thread.
pub(crate) extern "C-unwind" fn end(before: Cancellation) {
    let mut held = DISABLE;
    // The state comes first: glibc 2.36 gives a thread that is cancelled in that function no result.
    // SAFETY: The number is this function's own, and the state is one that the C library returned.
    unsafe { pthread_setcancelstate(before.state, &raw mut held) };
    if before.kind != DEFERRED {
        // SAFETY: The frames of the thread have no destructors.
        unsafe { pthread_testcancel() };
        // SAFETY: As above. The kind is one that the C library returned.
        unsafe { pthread_setcanceltype(before.kind, &raw mut held) };
    }
}

/// Defines an exported function of at most five arguments, none of them a floating-point number. Its
/// work is done by the function of the same name in the module `entered`. Call sites are found by these
/// names.
macro_rules! exported {
    ($(#[$attribute:meta])* fn $($rest:tt)+) => {
        exported! { @ [] $(#[$attribute])* $($rest)+ }
    };
    ($(#[$attribute:meta])* unsafe fn $($rest:tt)+) => {
        exported! { @ [unsafe] $(#[$attribute])* $($rest)+ }
    };
    (@ [$($unsafe:tt)?] $(#[$attribute:meta])*
        $name:ident($($argument:ident: $type:ty),*) -> $result:ty
    ) => {
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub $($unsafe)? extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 56",
                ".cfi_adjust_cfa_offset 56",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                // The caller's frames begin behind the return address.
                "lea rdi, [rsp + 64]",
                "call {begin}",
                "mov [rsp + 40], rax",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "mov rcx, [rsp + 24]",
                "mov r8, [rsp + 32]",
                "call {entered}",
                "mov [rsp], rax",
                "mov rdi, [rsp + 40]",
                "call {end}",
                "mov rax, [rsp]",
                "add rsp, 56",
                ".cfi_adjust_cfa_offset -56",
                "ret",
                ".cfi_endproc",
                begin = sym $crate::cancellation::begin,
                entered = sym entered::$name,
                end = sym $crate::cancellation::end,
            )
        }
    };
}
pub(crate) use exported;
