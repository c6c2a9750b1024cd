//! Signals of driver code: faults, and the deadline.
//!
//! The handler first lets [`emulate`] and the driver's own exception handlers have the fault. What
//! remains ends the driver: its facts go to the [`CrashRecord`], and the process ends with
//! [`ABANDONED`], because locks and destructors of frames that were left can never run.
#![expect(unsafe_code, reason = "handles signals")]

use super::context::Context;
use super::crash::{ABANDONED, CrashKind, CrashRecord, STACK};
use super::emulate;
use super::exception;
use super::processor_block::ProcessorBlock;
use super::watchdog::DEADLINE_SIGNAL;
use crate::guard::MissedBlock;
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Where the record goes. Null while no driver is hosted.
static RECORD: AtomicPtr<CrashRecord> = AtomicPtr::new(ptr::null_mut());

/// Whether a thread has begun to write the record.
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// The signals that driver code can cause.
const SIGNALS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT];

/// The size of a thread's signal stack: room for the instruction decoder.
const SIGNAL_STACK: usize = 128 << 10;

/// Handles the signals of driver code from now on; the record is written there.
///
/// # Safety
///
/// `record` is valid for writes until the process ends, and no one else writes there.
pub unsafe fn contain_faults(record: *mut CrashRecord) {
    RECORD.store(record, Ordering::SeqCst);
    super::HOSTS_IMAGE.store(true, Ordering::Relaxed);
    emulate::prepare();
    // SAFETY: Zero is a valid value of every field.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_signal;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    for signal in SIGNALS.into_iter().chain([DEADLINE_SIGNAL]) {
        // SAFETY: The set is this function's own.
        unsafe { libc::sigaddset(&raw mut action.sa_mask, signal) };
    }
    for signal in SIGNALS.into_iter().chain([DEADLINE_SIGNAL]) {
        // SAFETY: The action is complete, and its handler has the type that SA_SIGINFO asks for.
        unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    }
}

/// Gives this thread a signal stack, so that an overflow of its own stack can be handled.
pub(super) fn add_signal_stack() {
    // It is never freed: the thread may be in a handler when it ends.
    let memory = Box::leak(vec![0_u8; SIGNAL_STACK].into_boxed_slice());
    let stack =
        libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: SIGNAL_STACK };
    // SAFETY: The memory is leaked, so it stays valid.
    unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
}

/// The registers of a context in the order of their numbers.
const REGISTERS: [usize; 16] = [
    libc::REG_RAX as usize,
    libc::REG_RCX as usize,
    libc::REG_RDX as usize,
    libc::REG_RBX as usize,
    libc::REG_RSP as usize,
    libc::REG_RBP as usize,
    libc::REG_RSI as usize,
    libc::REG_RDI as usize,
    libc::REG_R8 as usize,
    libc::REG_R9 as usize,
    libc::REG_R10 as usize,
    libc::REG_R11 as usize,
    libc::REG_R12 as usize,
    libc::REG_R13 as usize,
    libc::REG_R14 as usize,
    libc::REG_R15 as usize,
];

/// The interrupted code, as the handler sees and changes it.
pub(super) struct Interrupted<'a>(&'a mut ucontext_t);

impl Interrupted<'_> {
    /// The address of the instruction.
    pub(super) fn instruction(&self) -> u64 {
        self.0.uc_mcontext.gregs[libc::REG_RIP as usize].cast_unsigned()
    }

    pub(super) fn set_instruction(&mut self, address: u64) {
        self.0.uc_mcontext.gregs[libc::REG_RIP as usize] = address.cast_signed();
    }

    /// A register by its number.
    pub(super) fn register(&self, number: usize) -> u64 {
        self.0.uc_mcontext.gregs[REGISTERS[number]].cast_unsigned()
    }

    pub(super) fn set_register(&mut self, number: usize, value: u64) {
        self.0.uc_mcontext.gregs[REGISTERS[number]] = value.cast_signed();
    }

    /// All registers.
    pub(super) fn context(&self) -> Context {
        let mut context = Context::ZERO;
        for (number, register) in context.general.iter_mut().enumerate() {
            *register = self.register(number);
        }
        context.rip = self.instruction();
        let flags = self.0.uc_mcontext.gregs[libc::REG_EFL as usize];
        context.eflags = u32::try_from(flags & 0xffff_ffff).unwrap_or(0x202);
        let float = self.0.uc_mcontext.fpregs;
        if !float.is_null() {
            // SAFETY: The system saved the registers of the interrupted code there.
            let saved = unsafe { &(*float)._xmm };
            for (to, from) in context.xmm.iter_mut().zip(saved) {
                let parts = from.element.map(u128::from);
                *to = parts[0] | parts[1] << 32 | parts[2] << 64 | parts[3] << 96;
            }
        }
        context
    }

    /// Lets the interrupted code go on at a function of ours, with these arguments.
    pub(super) fn set_call(&mut self, function: u64, stack: u64, arguments: [u64; 4]) {
        const RDI: usize = 7;
        const RSI: usize = 6;
        const RDX: usize = 2;
        const RCX: usize = 1;
        for (register, value) in [RDI, RSI, RDX, RCX].into_iter().zip(arguments) {
            self.set_register(register, value);
        }
        // As after a call: the stack is 8 below a multiple of 16.
        self.set_register(CrashRecord::RSP, (stack & !0xf) - 8);
        self.set_instruction(function);
    }

    fn error(&self) -> u64 {
        self.0.uc_mcontext.gregs[libc::REG_ERR as usize].cast_unsigned()
    }

    /// The bytes at the instruction, as many as can be read.
    pub(super) fn code(&self) -> ([u8; 16], usize) {
        let mut code = [0; 16];
        let read = read_memory(self.instruction(), &mut code);
        (code, read)
    }
}

/// This process.
pub(super) fn process() -> libc::pid_t {
    // SAFETY: Asks for a number.
    unsafe { libc::getpid() }
}

/// Reads memory of this process that may not be there. Returns how many bytes were read.
pub(super) fn read_memory(address: u64, into: &mut [u8]) -> usize {
    let Ok(address) = usize::try_from(address) else { return 0 };
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote =
        libc::iovec { iov_base: ptr::with_exposed_provenance_mut(address), iov_len: into.len() };
    // SAFETY: The local range is `into`; the system checks the other one.
    let read =
        unsafe { libc::process_vm_readv(process(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).unwrap_or(0)
}

/// Writes memory of this process that may not be there. Returns how many bytes were written.
pub(super) fn write_memory(address: u64, from: &[u8]) -> usize {
    let Ok(address) = usize::try_from(address) else { return 0 };
    let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let remote =
        libc::iovec { iov_base: ptr::with_exposed_provenance_mut(address), iov_len: from.len() };
    // SAFETY: The local range is only read; the system checks the other one.
    let written =
        unsafe { libc::process_vm_writev(process(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(written).unwrap_or(0)
}

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: With SA_SIGINFO the system passes the context of the interrupted code.
    let context = unsafe { &mut *context.cast::<ucontext_t>() };
    let mut interrupted = Interrupted(context);
    if signal == libc::SIGSEGV && emulate::emulate(&mut interrupted) {
        return;
    }
    // SAFETY: With SA_SIGINFO the system passes the facts of the signal.
    let info = unsafe { &*info };
    // SAFETY: The field is zero for signals without an address.
    let address = unsafe { info.si_addr() }.addr() as u64;
    let kind = kind_of(signal, &interrupted, address);
    let facts = [interrupted_access(interrupted.error()), address];
    if let Some(code) = exception_code(kind, address)
        && exception::continue_as_exception(&mut interrupted, code, facts)
    {
        return;
    }
    abandon_interrupted(kind, &interrupted, address);
}

/// Whether the access was a read (0), a write (1) or an instruction fetch (8), as an exception
/// record has it.
fn interrupted_access(error: u64) -> u64 {
    match error {
        _ if error & 0x10 != 0 => 8,
        _ if error & 2 != 0 => 1,
        _ => 0,
    }
}

/// The exception that handlers of the driver see. `None` for what no handler sees.
///
/// WINDOWS: an access to a kernel address is bug check 0x50, a page fault at `DISPATCH_LEVEL` or
/// above 0xD1; a stack overflow and a fast-fail are never handled (documented).
fn exception_code(kind: CrashKind, address: u64) -> Option<u32> {
    const APC_LEVEL: u8 = 1;
    let irql = ProcessorBlock::existing().map_or(0, ProcessorBlock::irql);
    if irql > APC_LEVEL {
        return None;
    }
    match kind {
        CrashKind::Access if address < exception::USER_PROBE_ADDRESS => {
            Some(exception::ACCESS_VIOLATION)
        }
        CrashKind::Instruction => Some(0xC000_001D),
        CrashKind::Arithmetic => Some(0xC000_0094),
        CrashKind::Breakpoint => Some(0x8000_0003),
        _ => None,
    }
}

/// What a signal means.
fn kind_of(signal: c_int, interrupted: &Interrupted<'_>, address: u64) -> CrashKind {
    let (code, _) = interrupted.code();
    let overflow = ProcessorBlock::existing().is_some_and(|block| block.is_below_stack(address));
    match signal {
        libc::SIGSEGV | libc::SIGBUS if overflow => CrashKind::StackOverflow,
        libc::SIGSEGV | libc::SIGBUS if code[..2] == [0xcd, 0x29] => CrashKind::FastFail,
        libc::SIGSEGV | libc::SIGBUS if code[..2] == [0xcd, 0x2c] => CrashKind::Breakpoint,
        libc::SIGSEGV | libc::SIGBUS => CrashKind::Access,
        libc::SIGILL => CrashKind::Instruction,
        libc::SIGFPE => CrashKind::Arithmetic,
        libc::SIGTRAP => CrashKind::Breakpoint,
        libc::SIGABRT => CrashKind::Abort,
        _ => CrashKind::Deadline,
    }
}

/// Ends the process with a record of the interrupted code.
pub(super) fn abandon_interrupted(
    kind: CrashKind,
    interrupted: &Interrupted<'_>,
    address: u64,
) -> ! {
    abandon(kind, |record| {
        record.instruction = interrupted.instruction();
        record.address = address;
        record.error = interrupted.error();
        record.block = MissedBlock::near(address).unwrap_or(MissedBlock::NONE);
        for (number, register) in record.registers.iter_mut().enumerate() {
            *register = interrupted.register(number);
        }
        record.code = interrupted.code().0;
        if kind == CrashKind::FastFail {
            record.bug_check[0] = record.registers[1];
        }
    })
}

/// Ends the process because of a bug check that the driver asked for.
pub(crate) fn bug_check(code: u64, parameters: [u64; 4]) -> ! {
    abandon(CrashKind::BugCheck, |record| {
        record.bug_check = [code, parameters[0], parameters[1], parameters[2], parameters[3]];
        if let Some(block) = ProcessorBlock::existing() {
            let (caller, stack, _) = block.last_import();
            record.instruction = caller;
            record.registers[CrashRecord::RSP] = stack;
        }
    })
}

/// Ends the process. The first thread writes the record; the others wait for the end.
pub(super) fn abandon(kind: CrashKind, describe: impl FnOnce(&mut CrashRecord)) -> ! {
    let record = RECORD.load(Ordering::SeqCst);
    if TAKEN.fetch_add(1, Ordering::SeqCst) == 0 && !record.is_null() {
        // SAFETY: The installer vouched for the memory, and this thread alone writes it.
        let record = unsafe { &mut *record };
        *record = CrashRecord::EMPTY;
        record.describe_thread();
        describe(record);
        let stack = record.registers[CrashRecord::RSP];
        record.stack_bytes = read_stack(stack, &mut record.stack) as u64;
        record.set_kind(kind); // Last: a record with a kind is complete.
        // SAFETY: Ends the process without running anything of it.
        unsafe { libc::_exit(ABANDONED) };
    }
    loop {
        // SAFETY: Waits for the end of the process, which another thread brings.
        unsafe { libc::pause() };
    }
}

/// Reads the stack page by page, so that its end does not make the whole read fail.
fn read_stack(from: u64, into: &mut [u8; STACK]) -> usize {
    const PAGE: u64 = 4096;
    let mut read = 0;
    while read < STACK {
        let at = from.saturating_add(read as u64);
        let rest = usize::try_from(PAGE - at % PAGE).unwrap_or(0).min(STACK - read);
        let got = read_memory(at, &mut into[read..read + rest]);
        read += got;
        if got < rest {
            break;
        }
    }
    read
}
