//! Leaving a driver's routine without returning into it.
//!
//! `PsTerminateSystemThread` does not return, and a thread whose flight has ended runs no more
//! driver code. The frames between such an import and the start of the thread belong to the driver.
//! A compiled driver has no unwind information that Rust understands, so these frames are not
//! unwound: [`run`] saves the stack pointer before it calls the routine, and [`abandon`] goes back
//! to it, as `longjmp` does. The thread then ends like any other: no OS thread stays behind.
//!
//! # Invariants
//!
//! 1. The frames that are skipped run no destructor. An import drops its own values before it
//!    abandons. A driver in Rust must not own a value in a frame that is skipped.
//! 2. Panics do not cross the saved frame: they are caught inside it and resumed outside.
#![expect(unsafe_code, reason = "switches the stack back")]

use std::any::Any;
use std::arch::naked_asm;
use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Why a routine did not return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abandoned {
    /// The driver ended its thread.
    ThreadEnded,
    /// The run is over.
    HostEnded,
}

thread_local! {
    /// The saved stack pointer of the innermost routine, or zero.
    static SAVED: Cell<usize> = const { Cell::new(0) };
    static REASON: Cell<Abandoned> = const { Cell::new(Abandoned::ThreadEnded) };
}

/// A routine and its result.
struct Routine<F> {
    body: Option<F>,
    panicked: Option<Box<dyn Any + Send>>,
}

/// Runs a routine, which may be abandoned.
pub(crate) fn run<F: FnOnce()>(body: F) -> Result<(), Abandoned> {
    let before = SAVED.get();
    let mut routine = Routine { body: Some(body), panicked: None };
    // SAFETY: `call_body` accepts a pointer to a `Routine<F>`, which outlives the call; `SAVED`
    // is this thread's, and the frame that is saved in it is live until `enter` returns.
    let abandoned =
        unsafe { enter(call_body::<F>, (&raw mut routine).cast(), SAVED.with(Cell::as_ptr)) };
    SAVED.set(before);
    if let Some(panic) = routine.panicked {
        resume_unwind(panic);
    }
    if abandoned == 0 { Ok(()) } else { Err(REASON.get()) }
}

/// Whether this thread runs a routine that can be abandoned.
pub(crate) fn is_possible() -> bool {
    SAVED.get() != 0
}

/// Ends the innermost routine of this thread, if there is one; otherwise returns.
///
/// The caller owns no value that needs to be dropped.
pub(crate) fn abandon(reason: Abandoned) {
    let saved = SAVED.get();
    if saved != 0 {
        REASON.set(reason);
        crate::image::sanitizer::leave_frames();
        // SAFETY: `enter` saved this stack pointer, and has not returned: `run` resets it after
        // that. No skipped frame has a value to drop (invariant 1).
        unsafe { leave(saved) };
    }
}

extern "sysv64" fn call_body<F: FnOnce()>(routine: *mut c_void) {
    let routine: *mut Routine<F> = routine.cast();
    // SAFETY: `run` passes a pointer to its routine, which no other code uses meanwhile.
    let routine = unsafe { &mut *routine };
    if let Some(body) = routine.body.take() {
        let body = || {
            crate::image::driver_is_called();
            body();
        };
        routine.panicked = catch_unwind(AssertUnwindSafe(body)).err();
    }
}

/// Saves the stack pointer in `saved` and calls `body(data)`. Returns 0 if `body` returned, and 1
/// if `leave` was called.
///
/// # Safety
///
/// `body` accepts `data` and does not unwind; `saved` is valid for a write.
#[unsafe(naked)]
unsafe extern "sysv64" fn enter(
    body: extern "sysv64" fn(*mut c_void),
    data: *mut c_void,
    saved: *mut usize,
) -> usize {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8", // A call needs a stack pointer that is a multiple of 16.
        "mov [rdx], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "xor eax, eax",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Returns 1 from the `enter` that saved this stack pointer.
///
/// # Safety
///
/// That `enter` runs on this thread and has not returned.
#[unsafe(naked)]
unsafe extern "sysv64" fn leave(saved: usize) -> ! {
    naked_asm!(
        "mov rsp, rdi",
        "cld",
        "mov eax, 1",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As deep as a driver may be.
    fn descend(depth: u32, reason: Abandoned) {
        if depth == 0 {
            abandon(reason);
            panic!("it did not leave");
        }
        std::hint::black_box(depth);
        descend(depth - 1, reason);
        std::hint::black_box(depth);
    }

    #[test]
    fn a_routine_returns_or_is_left_from_any_depth() {
        assert!(!is_possible());
        abandon(Abandoned::ThreadEnded); // Returns: there is no routine.
        let mut steps = 0;
        assert_eq!(run(|| steps += 1), Ok(()));
        for reason in [Abandoned::ThreadEnded, Abandoned::HostEnded] {
            let left = run(|| {
                steps += 1;
                descend(50, reason);
                steps += 100;
            });
            assert_eq!(left, Err(reason));
        }
        assert!(steps == 3 && !is_possible());
    }

    #[test]
    fn an_inner_routine_leaves_only_itself() {
        let mut inner = None;
        let outer = run(|| {
            inner = Some(run(|| descend(3, Abandoned::HostEnded)));
            assert!(is_possible());
        });
        assert_eq!((outer, inner), (Ok(()), Some(Err(Abandoned::HostEnded))));
    }

    #[test]
    fn a_panic_passes_through() {
        let panic = catch_unwind(|| run(|| resume_unwind(Box::new(7_u32)))).unwrap_err();
        assert_eq!(panic.downcast_ref::<u32>(), Some(&7));
        assert!(!is_possible());
    }
}
