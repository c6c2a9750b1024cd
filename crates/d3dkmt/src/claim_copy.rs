//! Copies a client's structures without a system call: a copy that faults ends with an error.
//!
//! The copy, and the check whether memory can be written, are functions in assembly. Our handler of
//! SIGSEGV and SIGBUS recognizes them by the address of the instruction and continues at their end,
//! which returns that the access failed; kernels copy from user memory in the same way. Every other
//! fault goes to the action that was there before.
//!
//! A fault is survived only if our handler is the installed one and the thread does not block these
//! signals: the system ends a process that blocks a signal which it raises by an instruction. Both
//! can be changed by the client at any time, and asking the system costs what is to be saved. So
//! [`signal_changes`](crate::signal_changes) notes each call of the functions that change them, and
//! the system is asked once after each change. Where the answer is no, the operating system copies.
//!
//! # Invariants
//!
//! 1. A thread copies directly only if nothing has changed since the system said that a fault would
//!    be survived.
//! 2. A handler that the client has installed before is called for all faults but ours, with the
//!    signal mask and on the stack that it asked for. One that it installs later replaces ours.
#![expect(unsafe_code, reason = "copies in assembly, and handles signals")]

use crate::signal_changes;
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use std::arch::global_asm;
use std::cell::Cell;
use std::mem::{MaybeUninit, transmute};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use thunk::claims::{DirectAccess, DirectAccessResult};

/// The signals of an access to memory that is not there.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The actions of [`SIGNALS`] before ours. Null while our handler is not installed. Never freed, and
/// without a lock: a signal handler and a child of `fork` read it.
static EARLIER: AtomicPtr<[libc::sigaction; 2]> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// What the system said last, about this thread: the number of changes then, times two, plus one
    /// if a fault is survived. Zero if it was not asked.
    static LAST_CHECK: Cell<u64> = const { Cell::new(0) };
}

// The registers are those of a function with three arguments: to, from, number of bytes. Neither
// function uses the stack, so both can end anywhere.
global_asm!(
    ".pushsection .text.windtunnel_claim_copy,\"ax\",@progbits",
    ".p2align 4",
    ".globl windtunnel_claim_copy",
    ".hidden windtunnel_claim_copy",
    ".type windtunnel_claim_copy,@function",
    "windtunnel_claim_copy:",
    ".cfi_startproc",
    "cmp rdx, 512",
    "jae 4f",
    "mov ecx, edx",
    "shr ecx, 5",
    "jz 3f",
    "2:",
    "movups xmm0, xmmword ptr [rsi]",
    "movups xmm1, xmmword ptr [rsi + 16]",
    "movups xmmword ptr [rdi], xmm0",
    "movups xmmword ptr [rdi + 16], xmm1",
    "add rsi, 32",
    "add rdi, 32",
    "dec ecx",
    "jnz 2b",
    "3:",
    "test edx, 16",
    "jz 8f",
    "movups xmm0, xmmword ptr [rsi]",
    "movups xmmword ptr [rdi], xmm0",
    "add rsi, 16",
    "add rdi, 16",
    "8:",
    "test edx, 8",
    "jz 7f",
    "mov rax, qword ptr [rsi]",
    "mov qword ptr [rdi], rax",
    "add rsi, 8",
    "add rdi, 8",
    "7:",
    "test edx, 4",
    "jz 6f",
    "mov eax, dword ptr [rsi]",
    "mov dword ptr [rdi], eax",
    "add rsi, 4",
    "add rdi, 4",
    "6:",
    "and edx, 3",
    "jz 5f",
    "9:",
    "mov al, byte ptr [rsi]",
    "mov byte ptr [rdi], al",
    "inc rsi",
    "inc rdi",
    "dec edx",
    "jnz 9b",
    "5:",
    "xor eax, eax",
    "ret",
    "4:",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    ".cfi_endproc",
    ".size windtunnel_claim_copy, . - windtunnel_claim_copy",
    // The arguments are an address and a number of bytes, at least one.
    ".p2align 4",
    ".globl windtunnel_claim_probe",
    ".hidden windtunnel_claim_probe",
    ".type windtunnel_claim_probe,@function",
    "windtunnel_claim_probe:",
    ".cfi_startproc",
    "lea rsi, [rdi + rsi - 1]",
    "2:",
    "mov al, byte ptr [rdi]",
    "mov byte ptr [rdi], al",
    "or rdi, 4095",
    "inc rdi",
    "cmp rdi, rsi",
    "jbe 2b",
    "xor eax, eax",
    "ret",
    // A fault of either function continues here.
    ".globl windtunnel_claim_fault",
    ".hidden windtunnel_claim_fault",
    "windtunnel_claim_fault:",
    "mov eax, 1",
    "ret",
    ".cfi_endproc",
    ".size windtunnel_claim_probe, . - windtunnel_claim_probe",
    ".popsection",
);

unsafe extern "C" {
    /// Returns zero, or one if the copy reached memory that cannot be accessed.
    fn windtunnel_claim_copy(to: *mut u8, from: *const u8, bytes: usize) -> u32;
    /// Returns zero, or one if a page cannot be read and written.
    fn windtunnel_claim_probe(at: *mut u8, bytes: usize) -> u32;
    /// The end of both functions after a fault. Everything from the start of the copy to here is
    /// theirs.
    fn windtunnel_claim_fault();
}

/// The functions of this file that access the client's memory.
pub(crate) const DIRECT_ACCESS: DirectAccess = DirectAccess { copy, probe };

/// Copies bytes of the client, if a fault is survived.
///
/// # Safety
///
/// As for [`DirectAccess::copy`].
unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> DirectAccessResult {
    if !survives_fault() {
        return DirectAccessResult::Unavailable;
    }
    // SAFETY: One address is ours; a fault at the other one is survived.
    result_of(unsafe { windtunnel_claim_copy(to, from, bytes) })
}

/// Checks that bytes of the client can be written, if a fault is survived.
///
/// # Safety
///
/// As for [`DirectAccess::probe`].
unsafe fn probe(at: *mut u8, bytes: usize) -> DirectAccessResult {
    if !survives_fault() {
        return DirectAccessResult::Unavailable;
    }
    // SAFETY: A fault is survived, and what is written is what was there.
    result_of(unsafe { windtunnel_claim_probe(at, bytes) })
}

/// The result of a function in assembly.
fn result_of(number: u32) -> DirectAccessResult {
    if number == 0 { DirectAccessResult::Done } else { DirectAccessResult::Fault }
}

/// The actions before ours, once our handler is installed.
fn earlier_actions() -> Option<&'static [libc::sigaction; 2]> {
    // SAFETY: The actions are never freed.
    unsafe { EARLIER.load(Ordering::Acquire).as_ref() }
}

/// Installs the handler, unless the client's changes of signals cannot be seen: then the operating
/// system copies.
pub(crate) fn install() {
    if !signal_changes::are_seen() {
        return;
    }
    let earlier = SIGNALS.map(current_action);
    let [Some(fault), Some(bus)] = earlier else { return };
    if earlier_actions().is_some() {
        return;
    }
    let new = Box::into_raw(Box::new([fault, bus]));
    let (none, relaxed) = (ptr::null_mut(), Ordering::Relaxed);
    if EARLIER.compare_exchange(none, new, Ordering::AcqRel, relaxed).is_err() {
        // SAFETY: The box was made above, and no one else knows it.
        drop(unsafe { Box::from_raw(new) });
    } else {
        for (signal, earlier) in SIGNALS.into_iter().zip([fault, bus]) {
            replace(signal, &earlier);
        }
    }
}

/// A call begins. The client may make it in a signal handler, which blocks signals by itself.
pub(crate) fn begin_call() {
    if signal_changes::do_handlers_block_faults() {
        forget_check();
    }
}

/// The signal mask of this thread has changed.
pub(crate) fn forget_check() {
    LAST_CHECK.set(0);
}

/// Whether this thread survives a fault of the copy.
fn survives_fault() -> bool {
    let (last, changes) = (LAST_CHECK.get(), signal_changes::count());
    if last >> 1 == changes { last & 1 != 0 } else { ask_system(changes) }
}

/// Asks the system whether our handler is installed and its signals are not blocked.
#[cold]
fn ask_system(changes: u64) -> bool {
    let survives = earlier_actions().is_some_and(|earlier| {
        let mut signals = SIGNALS.into_iter().zip(earlier);
        signals.all(|(signal, earlier)| is_ours(signal, earlier)) && !blocks_faults()
    });
    LAST_CHECK.set(changes << 1 | u64::from(survives));
    survives
}

/// Whether our handler is installed. It is installed again over the handler of the report, which
/// gives way to the client's for one fault and then returns.
fn is_ours(signal: c_int, earlier: &libc::sigaction) -> bool {
    let Some(now) = current_action(signal) else { return false };
    now.sa_sigaction == handler()
        || (now.sa_sigaction == earlier.sa_sigaction
            && nt::image::is_own_handler(now.sa_sigaction)
            && replace(signal, earlier))
}

/// Whether this thread blocks a signal of ours.
fn blocks_faults() -> bool {
    let mut mask = MaybeUninit::zeroed();
    // SAFETY: `mask` has room for a signal set.
    let asked = unsafe { libc::pthread_sigmask(0, ptr::null(), mask.as_mut_ptr()) };
    // SAFETY: Zero is a valid set, and so is what the call writes.
    asked != 0 || signal_changes::has_faults(unsafe { mask.assume_init_ref() })
}

/// The action of a signal.
fn current_action(signal: c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: `action` has room for an action.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: The action was filled, if the call succeeded.
    (asked == 0).then(|| unsafe { action.assume_init() })
}

/// Puts our handler in the place of an action. Returns false, and changes nothing, if another action
/// is there by now.
fn replace(signal: c_int, earlier: &libc::sigaction) -> bool {
    let is_handler = !matches!(earlier.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
    let inherited = libc::SA_NODEFER | libc::SA_RESTART | libc::SA_ONSTACK;
    let flags = if is_handler { earlier.sa_flags & inherited } else { libc::SA_ONSTACK };
    // The mask is that of the earlier handler, which ours calls.
    let ours =
        libc::sigaction { sa_sigaction: handler(), sa_flags: flags | libc::SA_SIGINFO, ..*earlier };
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: The action is complete, and its handler has the type that SA_SIGINFO asks for.
    if unsafe { libc::sigaction(signal, &raw const ours, before.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: The call succeeded, so it filled the action.
    let before = unsafe { before.assume_init() };
    if before.sa_sigaction == earlier.sa_sigaction {
        return true;
    }
    // SAFETY: The action was returned by the system.
    unsafe { libc::sigaction(signal, &raw const before, ptr::null_mut()) };
    before.sa_sigaction == handler()
}

/// The address of our handler.
pub(crate) fn handler() -> usize {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_fault;
    handler as usize
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: With SA_SIGINFO the system passes the context of the interrupted code.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let instruction = &mut registers[libc::REG_RIP as usize];
    let (start, fault) =
        (windtunnel_claim_copy as *const () as i64, windtunnel_claim_fault as *const () as i64);
    if (start..fault).contains(instruction) {
        *instruction = fault;
        return;
    }
    pass_on(signal, info, context);
}

/// Does what the action before ours does.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let index = SIGNALS.iter().position(|known| *known == signal);
    let earlier = earlier_actions().zip(index).map(|(earlier, index)| &earlier[index]);
    let Some(earlier) = earlier else { return };
    // SAFETY: With SA_SIGINFO the system passes the facts of the signal.
    let was_sent = unsafe { (*info).si_code } <= 0;
    match earlier.sa_sigaction {
        libc::SIG_IGN if was_sent => (),
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: The action was returned by the system.
            unsafe { libc::sigaction(signal, ptr::from_ref(earlier), ptr::null_mut()) };
            // The instruction raises the signal once more. One that was sent is sent again.
            if was_sent {
                // SAFETY: Sends a signal to this thread, which gets it when the handler returns.
                unsafe { libc::raise(signal) };
            }
        }
        handler => {
            // The handler runs with signals blocked, and may leave by a jump.
            forget_check();
            // SAFETY: The client installed a handler of this type, or of one with fewer arguments,
            // which the calling convention allows.
            let handler: extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { transmute(handler) };
            handler(signal, info, context);
            forget_check();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies eight bytes between two addresses.
    fn copy_word(to: usize, from: usize) -> DirectAccessResult {
        install();
        assert!(earlier_actions().is_some(), "changes of signals are seen");
        let (to, from) = (ptr::with_exposed_provenance_mut(to), ptr::with_exposed_provenance(from));
        // SAFETY: Each test passes addresses of its own memory or of none.
        unsafe { copy(to, from, 8) }
    }

    #[test]
    fn a_copy_of_every_length_is_exact() {
        install();
        let from: Vec<u8> = (0..2000_u32).map(|number| number.to_le_bytes()[0]).collect();
        for bytes in (0..70).chain([255, 511, 512, 513, 1999]) {
            let mut to = vec![0xee_u8; 2001];
            // SAFETY: Both have more bytes.
            let result = unsafe { copy(to.as_mut_ptr(), from.as_ptr(), bytes) };
            assert_eq!(result, DirectAccessResult::Done, "{bytes}");
            assert_eq!(to[..bytes], from[..bytes], "{bytes}");
            assert!(to[bytes..].iter().all(|byte| *byte == 0xee), "{bytes}");
        }
    }

    #[test]
    fn a_fault_ends_the_copy() {
        static CONSTANT: u64 = 5;
        let constant = (&raw const CONSTANT).expose_provenance();
        let mut mine = 7_u64;
        let own = (&raw mut mine).expose_provenance();
        for bad in [1, 0xdead_0000, 0x0000_8000_0000_0000, 0xffff_8000_0000_0000, usize::MAX - 3] {
            assert_eq!(copy_word(own, bad), DirectAccessResult::Fault, "{bad:#x}");
            assert_eq!(copy_word(bad, own), DirectAccessResult::Fault, "{bad:#x}");
        }
        assert_eq!(copy_word(constant, own), DirectAccessResult::Fault);
        assert_eq!(mine, 7);
        assert_eq!(copy_word(own, constant), DirectAccessResult::Done);
        assert_eq!(mine, 5);
    }

    #[test]
    fn a_probe_finds_the_page_that_cannot_be_written() {
        const PAGE: usize = 4096;
        install();
        let (writable, read_only) = (libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: A new mapping.
        let start = unsafe { libc::mmap(ptr::null_mut(), 4 * PAGE, writable, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let start = start.cast::<u8>();
        for page in 0..4 {
            // SAFETY: The page is in the mapping.
            unsafe { start.wrapping_add(page * PAGE).write_bytes(7, PAGE) };
        }
        let last = start.wrapping_add(3 * PAGE);
        // SAFETY: The last page is this test's own.
        assert_eq!(unsafe { libc::mprotect(last.cast(), PAGE, read_only) }, 0);
        let probed = |from: usize, bytes: usize| {
            // SAFETY: The range is in the mapping.
            unsafe { probe(start.wrapping_add(from), bytes) }
        };
        for (from, bytes) in [(0, 1), (0, 3 * PAGE), (PAGE - 1, 2), (3 * PAGE - 1, 1)] {
            assert_eq!(probed(from, bytes), DirectAccessResult::Done, "{from} {bytes}");
        }
        for (from, bytes) in [(0, 3 * PAGE + 1), (3 * PAGE - 1, 2), (4 * PAGE - 1, 1)] {
            assert_eq!(probed(from, bytes), DirectAccessResult::Fault, "{from} {bytes}");
        }
        // SAFETY: The whole mapping can be read.
        let bytes = unsafe { std::slice::from_raw_parts(start, 4 * PAGE) };
        assert!(bytes.iter().all(|byte| *byte == 7), "a probe changes nothing");
        // SAFETY: The mapping is not used any more.
        unsafe { libc::munmap(start.cast(), 4 * PAGE) };
    }

    #[test]
    fn a_thread_that_blocks_the_signal_does_not_copy() {
        std::thread::spawn(|| {
            let mut mine = [1_u64, 2];
            let (to, from) = (mine.as_mut_ptr().expose_provenance(), (&raw const mine[1]).addr());
            let answer = server::signals::with_signals_blocked(|| copy_word(to, from));
            assert_eq!(answer, DirectAccessResult::Unavailable);
            assert_eq!(copy_word(to, from), DirectAccessResult::Done);
            assert_eq!(mine, [2, 2]);
        })
        .join()
        .unwrap();
    }
}
