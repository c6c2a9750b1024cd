//! Signals of driver code: faults, and the deadline.
//!
//! The handler first lets [`emulate`] and the driver's own exception handlers have the fault. What
//! remains ends the driver: its facts go to the [`CrashRecord`], and the process ends, because locks
//! and destructors of frames that were left can never run. There are two ways:
//!
//! - In the process of a flight ([`contain_faults`]) the record is in shared memory, and the process
//!   ends with [`ABANDONED`]. The parent makes the report.
//! - In a process that also does other things ([`report_faults`]) a thread that waits for this
//!   reports, and the signal is passed on to the action that was there before.
#![expect(unsafe_code, reason = "handles signals")]

use super::channel::Channel;
use super::context::Context;
use super::crash::{ABANDONED, CrashKind, CrashRecord, STACK};
use super::emulate;
use super::exception;
use super::fault_reporter::FaultReporter;
use super::processor_block::ProcessorBlock;
use super::protection_fault::{NO_ADDRESS, PRIVILEGED_INSTRUCTION, ProtectionFault};
use super::sanitizer;
use super::stack_limit::{self, StackUser};
use super::thread_end::ThreadEnd;
use super::watchdog::{self, DEADLINE_SIGNAL};
use crate::guard::MissedBlock;
use crate::paged::{self, PagedKind};
use flight::RunningCall;
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Where the record goes. Null while faults are not handled.
static RECORD: AtomicPtr<CrashRecord> = AtomicPtr::new(ptr::null_mut());

/// Where the list of mappings goes; null if the process stays.
static MAPS: AtomicPtr<[u8; MAPS_BYTES]> = AtomicPtr::new(ptr::null_mut());

/// The room for the list of mappings.
pub(super) const MAPS_BYTES: usize = 1 << 20;

/// The shared memory of the record; null if the process stays.
static CHANNEL: AtomicPtr<Channel> = AtomicPtr::new(ptr::null_mut());

/// The thread that reports, if the process is not one of a flight.
static REPORTER: OnceLock<FaultReporter> = OnceLock::new();

/// The actions of [`SIGNALS`] that were there before.
static EARLIER: OnceLock<Vec<libc::sigaction>> = OnceLock::new();

/// The signals that were passed on since the last report: bits by their index in [`SIGNALS`].
static PASSED_ON: AtomicU32 = AtomicU32::new(0);

/// A bug check or an exit that this process asked for, until its signal is handled: the kind and
/// the parameters.
static REQUESTED: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];

/// The finding of a flight that went beyond a limit.
static LIMIT_MESSAGE: OnceLock<String> = OnceLock::new();

/// Whether the flight of this process is over: its exit is no finding.
static FINISHED: AtomicBool = AtomicBool::new(false);

/// Whether a thread has begun to write the record.
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// The signals that driver code can cause.
const SIGNALS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT];

/// The size of a thread's signal stack: room for the instruction decoder.
const SIGNAL_STACK: usize = 128 << 10;

/// Handles the signals of driver code from now on; the record is written there, and the list of the
/// mappings of this process. An exit of the process before [`finish`] counts as a fault.
///
/// # Safety
///
/// `record` and `maps` are valid for writes until the process ends, and no one else writes there.
pub(super) unsafe fn contain_faults(
    record: *mut CrashRecord,
    maps: *mut [u8; MAPS_BYTES],
    channel: &'static Channel,
) {
    RECORD.store(record, Ordering::SeqCst);
    MAPS.store(maps, Ordering::SeqCst);
    CHANNEL.store(ptr::from_ref(channel).cast_mut(), Ordering::SeqCst);
    super::TRACKS_THREADS.store(true, Ordering::Relaxed);
    // Frames of a driver with the sanitizer are larger than those that Windows runs.
    if !sanitizer::is_present() {
        stack_limit::limit_stacks();
    }
    install();
}

/// The flight of this process is over: from now on its exit is no finding.
pub fn finish() {
    FINISHED.store(true, Ordering::SeqCst);
}

/// Handles the signals of driver code from now on: `report` gets the record, on a thread of its own,
/// then the signal is passed on to the action that was there before. Has no effect in the process of
/// a flight, or the second time.
pub fn report_faults(report: fn(&CrashRecord)) {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.load(Ordering::Relaxed) || BEGUN.swap(true, Ordering::SeqCst) {
        return;
    }
    if !RECORD.load(Ordering::SeqCst).is_null() {
        return;
    }
    let record = ptr::from_mut(Box::leak(Box::new(CrashRecord::EMPTY)));
    let Some(reporter) = FaultReporter::start(record, report) else { return };
    if REPORTER.set(reporter).is_ok() {
        RECORD.store(record, Ordering::SeqCst);
        install();
    }
}

/// A system call by an instruction of the driver's own, at these addresses, is a fault from now on:
/// a driver of Windows knows no system call of this machine. Fails if the operating system refuses
/// the filter: then nothing changes.
pub fn refuse_system_calls(addresses: &Range<usize>) -> io::Result<()> {
    let action = action();
    // SAFETY: The action is complete, and its handler has the type that SA_SIGINFO asks for.
    unsafe { libc::sigaction(libc::SIGSYS, &raw const action, ptr::null_mut()) };
    super::limits::trap_system_calls(addresses.start, addresses.end)
}

/// Reports faults again, after a handler of the program has taken one and the program went on.
pub fn report_faults_again() {
    if PASSED_ON.load(Ordering::Relaxed) == 0 {
        return;
    }
    let (Some(reporter), Some(earlier)) = (REPORTER.get(), EARLIER.get()) else { return };
    let (passed_on, ours) = (PASSED_ON.swap(0, Ordering::SeqCst), action());
    for (number, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: Zero is a valid value of every field.
        let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: `now` has room for the action.
        unsafe { libc::sigaction(signal, ptr::null(), &raw mut now) };
        // A handler that the program has set since then stays: it may call ours.
        if passed_on & 1 << number != 0 && now.sa_sigaction == earlier[number].sa_sigaction {
            // SAFETY: The action is complete.
            unsafe { libc::sigaction(signal, &raw const ours, ptr::null_mut()) };
        }
    }
    reporter.reset();
    TAKEN.store(0, Ordering::SeqCst);
}

/// Whether the program has a handler of its own, to which a signal is passed on. A signal handler
/// may call this.
pub fn is_handled_by_program(signal: c_int) -> bool {
    let index = SIGNALS.iter().position(|known| *known == signal);
    let earlier = EARLIER.get().zip(index).and_then(|(actions, index)| actions.get(index));
    earlier.is_some_and(|action| !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN))
}

/// Whether this is the address of the handler of this module.
pub fn is_own_handler(handler: usize) -> bool {
    handler == action().sa_sigaction
}

/// Our action of a signal.
fn action() -> libc::sigaction {
    // SAFETY: Zero is a valid value of every field.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_signal;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    for signal in SIGNALS.into_iter().chain([DEADLINE_SIGNAL]) {
        // SAFETY: The set is this function's own.
        unsafe { libc::sigaddset(&raw mut action.sa_mask, signal) };
    }
    action
}

fn install() {
    unsafe extern "C" {
        fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    }
    emulate::prepare();
    sanitizer::report_errors();
    // SAFETY: The function can be called whenever the process ends.
    unsafe { on_exit(exited, ptr::null_mut()) };
    let action = action();
    let mut earlier = Vec::with_capacity(SIGNALS.len());
    for signal in SIGNALS {
        // SAFETY: Zero is a valid value of every field.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: The action is complete, and its handler has the type that SA_SIGINFO asks for.
        unsafe { libc::sigaction(signal, &raw const action, &raw mut before) };
        earlier.push(before);
    }
    _ = EARLIER.set(earlier);
    // A process that also does other things may use the signal, and has no deadline.
    if REPORTER.get().is_none() {
        // SAFETY: As above.
        unsafe { libc::sigaction(DEADLINE_SIGNAL, &raw const action, ptr::null_mut()) };
    }
}

/// Gives this thread a signal stack, so that an overflow of its own stack can be handled.
pub(super) fn add_signal_stack() {
    // It is never freed: the thread may be in a handler when it ends. It is not of the heap, because
    // AddressSanitizer unmaps the signal stack of a thread that ends.
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: Maps new memory.
    let memory = unsafe { libc::mmap(ptr::null_mut(), SIGNAL_STACK, access, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return; // Only an overflow of the thread's own stack needs it.
    }
    let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: SIGNAL_STACK };
    // SAFETY: The memory is not unmapped while the thread can get a signal.
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

    /// The error code of a page fault; zero for another exception, whose code means something else.
    fn error(&self) -> u64 {
        const PAGE_FAULT: u64 = 14;
        let error = self.0.uc_mcontext.gregs[libc::REG_ERR as usize].cast_unsigned();
        if self.exception() == PAGE_FAULT { error } else { 0 }
    }

    /// The number of the last exception of the processor.
    pub(super) fn exception(&self) -> u64 {
        self.0.uc_mcontext.gregs[libc::REG_TRAPNO as usize].cast_unsigned()
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
    let kind = match stack_limit::touched(address, interrupted.instruction()) {
        Some(StackUser::Windtunnel) if signal == libc::SIGSEGV => return,
        Some(StackUser::Driver) if signal == libc::SIGSEGV => CrashKind::KernelStack,
        _ => kind_of(signal, &interrupted, address),
    };
    let protection = ProtectionFault::of(signal, &interrupted);
    let shown = if protection.is_some() { NO_ADDRESS } else { address };
    let facts = [interrupted_access(interrupted.error()), shown];
    if let Some(code) = exception_code(kind, address, protection)
        && exception::continue_as_exception(&mut interrupted, code, facts)
    {
        return;
    }
    abandon_interrupted(kind, signal, &interrupted, address);
    // The process is not one of a flight: it goes on as if it had no handler of ours.
    let sent = info.si_code <= 0 || matches!(signal, libc::SIGTRAP | libc::SIGABRT);
    pass_on(signal, sent.then_some(info));
}

/// Restores the action that a signal had before. A signal that the interrupted instruction does not
/// raise once more is sent again, with its facts.
///
/// The action of an abort is restored, too: the program's handler of an overflow may abort, and its
/// signal stack may have no room for our handler of that. The fault is reported already.
fn pass_on(signal: c_int, sent: Option<&siginfo_t>) {
    let Some(earlier) = EARLIER.get() else { return };
    for (index, action) in earlier.iter().enumerate() {
        if SIGNALS[index] == signal || SIGNALS[index] == libc::SIGABRT {
            // SAFETY: The action was returned by the system.
            unsafe { libc::sigaction(SIGNALS[index], ptr::from_ref(action), ptr::null_mut()) };
            PASSED_ON.fetch_or(1 << index, Ordering::SeqCst);
        }
    }
    if let Some(info) = sent {
        let send = libc::SYS_rt_tgsigqueueinfo;
        // SAFETY: Asks for a number.
        let thread = unsafe { libc::gettid() };
        // SAFETY: Sends a signal to this thread, which gets it when the handler returns.
        unsafe { libc::syscall(send, process(), thread, signal, ptr::from_ref(info)) };
    }
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

/// `STATUS_ASSERTION_FAILURE`.
pub const ASSERTION_FAILURE: u32 = 0xC000_0420;

/// The exception that handlers of the driver see. `None` for what no handler sees.
///
/// WINDOWS: an access to a kernel address is bug check 0x50, a page fault at `DISPATCH_LEVEL` or
/// above 0xD1; a stack overflow and a fast-fail are never handled (documented).
fn exception_code(
    kind: CrashKind,
    address: u64,
    protection: Option<ProtectionFault>,
) -> Option<u32> {
    const APC_LEVEL: u8 = 1;
    let irql = ProcessorBlock::existing().map_or(0, ProcessorBlock::irql);
    if irql > APC_LEVEL {
        return None;
    }
    match kind {
        // Guarded memory has kernel addresses on Windows.
        CrashKind::Access
            if address < exception::USER_PROBE_ADDRESS
                && MissedBlock::near_guarded(address).is_none() =>
        {
            Some(exception::ACCESS_VIOLATION)
        }
        CrashKind::Instruction if protection == Some(ProtectionFault::Privileged) => {
            Some(PRIVILEGED_INSTRUCTION)
        }
        CrashKind::Instruction => Some(0xC000_001D),
        CrashKind::Arithmetic => Some(0xC000_0094),
        CrashKind::Breakpoint if protection == Some(ProtectionFault::Interrupt(0x2c)) => {
            Some(ASSERTION_FAILURE)
        }
        CrashKind::Breakpoint => Some(0x8000_0003),
        _ => None,
    }
}

/// What a signal means.
fn kind_of(signal: c_int, interrupted: &Interrupted<'_>, address: u64) -> CrashKind {
    if let Some(fault) = ProtectionFault::of(signal, interrupted) {
        return fault.kind();
    }
    let overflow = match ProcessorBlock::existing() {
        Some(block) => block.is_below_stack(address),
        None => is_near(address, interrupted.register(CrashRecord::RSP)),
    };
    match signal {
        libc::SIGSEGV | libc::SIGBUS if overflow => CrashKind::StackOverflow,
        libc::SIGSEGV | libc::SIGBUS => CrashKind::Access,
        libc::SIGILL => CrashKind::Instruction,
        libc::SIGFPE => CrashKind::Arithmetic,
        libc::SIGTRAP => CrashKind::Breakpoint,
        libc::SIGABRT => requested_kind(),
        libc::SIGSYS => CrashKind::SystemCall,
        _ if watchdog::is_out_of_memory() => CrashKind::Memory,
        _ => CrashKind::Deadline,
    }
}

/// Whether an address that cannot be accessed is where a stack grows to.
fn is_near(address: u64, stack: u64) -> bool {
    const REACH: u64 = 64 << 10;
    (stack.saturating_sub(REACH)..stack.saturating_add(4096)).contains(&address)
}

/// Records the interrupted code. In the process of a flight this ends the process.
fn abandon_interrupted(
    kind: CrashKind,
    signal: c_int,
    interrupted: &Interrupted<'_>,
    address: u64,
) {
    // First: what follows reads the code.
    let paged = match paged::touched(address).filter(|_| kind == CrashKind::Access) {
        Some(PagedKind::Pool) => 1,
        Some(PagedKind::Section) => 2,
        None => 0,
    };
    write_record(kind, |record| {
        record.signal = u64::from(signal.cast_unsigned());
        record.paged = paged;
        record.instruction = interrupted.instruction();
        record.rip = record.instruction;
        record.address = address;
        record.error = interrupted.error();
        if let Some(fault) = ProtectionFault::of(signal, interrupted) {
            fault.describe(record);
        }
        for (number, register) in record.registers.iter_mut().enumerate() {
            *register = interrupted.register(number);
        }
        record.code = interrupted.code().0;
        if kind == CrashKind::Access {
            let pointers = record.operand_pointers();
            record.block = MissedBlock::of(address, pointers).unwrap_or(MissedBlock::NONE);
        }
        match kind {
            CrashKind::FastFail => record.bug_check[0] = record.registers[1],
            CrashKind::SystemCall => {
                record.bug_check[0] = record.registers[0];
                // The signal comes behind the instruction, which has two bytes.
                record.instruction -= 2;
                record.rip = record.instruction;
            }
            CrashKind::Sanitizer => {
                record.sanitizer_bytes = sanitizer::copy_description(&mut record.sanitizer) as u64;
            }
            CrashKind::BugCheck | CrashKind::Exit | CrashKind::Deadlock | CrashKind::ThreadEnd => {
                for (parameter, requested) in record.bug_check.iter_mut().zip(&REQUESTED[1..]) {
                    *parameter = requested.load(Ordering::SeqCst);
                }
            }
            _ => (),
        }
        let by_import =
            matches!(kind, CrashKind::BugCheck | CrashKind::Watchdog | CrashKind::Deadlock);
        if by_import && record.caller != 0 {
            record.instruction = record.caller;
        }
    });
}

/// Ends the process because of a bug check that the driver asked for.
pub(crate) fn bug_check(code: u64, parameters: [u64; 4]) -> ! {
    let [one, two, three, four] = parameters;
    request(CrashKind::BugCheck, [code, one, two, three, four])
}

/// Ends the process of a flight because the driver does not leave `DISPATCH_LEVEL`. Returns if the
/// driver is not one of a file.
pub(crate) fn end_for_watchdog() {
    if is_from_file() {
        request(CrashKind::Watchdog, [0; 5]);
    }
}

/// Ends the process of a flight because the driver waits for a spin lock that its thread holds.
/// `acquired_by` is the return address of the call that acquired it. Returns if the driver is not
/// one of a file.
pub(crate) fn end_for_deadlock(acquired_by: u64) {
    if is_from_file() {
        request(CrashKind::Deadlock, [acquired_by, 0, 0, 0, 0]);
    }
}

/// Ends the process because the sanitizer found an error. Returns if that is not the driver's.
pub(super) fn end_for_sanitizer() {
    let is_drivers = match REPORTER.get() {
        Some(_) => RunningCall::current().is_some(),
        None => !RECORD.load(Ordering::SeqCst).is_null(),
    };
    if is_drivers {
        request(CrashKind::Sanitizer, [0; 5]);
    }
}

/// Ends the process of a flight because the flight went beyond a limit. `message` is the finding,
/// for [`limit_message`].
pub fn end_for_limit(message: &str) -> ! {
    _ = LIMIT_MESSAGE.set(message.to_owned());
    request(CrashKind::Limit, [0; 5])
}

/// The finding of a flight in this process that went beyond a limit.
pub fn limit_message() -> &'static str {
    LIMIT_MESSAGE.get().map_or("", String::as_str)
}

/// Ends the process because the driver ended one of the threads that call it.
pub(super) fn end_for_thread_end(how: ThreadEnd) -> ! {
    request(CrashKind::ThreadEnd, [how as u64, 0, 0, 0, 0])
}

/// Whether the driver of this process is one of a file.
fn is_from_file() -> bool {
    let reports = super::hosts_image() && !RECORD.load(Ordering::SeqCst).is_null();
    reports || !MAPS.load(Ordering::SeqCst).is_null()
}

/// The process exits, with this status.
extern "C" fn exited(status: c_int, _: *mut c_void) {
    // A process that is not one of a flight exits when it likes, but not inside of a driver.
    let is_expected = match REPORTER.get() {
        Some(_) => RunningCall::current().is_none(),
        None => FINISHED.load(Ordering::SeqCst),
    };
    if !is_expected {
        request(CrashKind::Exit, [u64::from(status.cast_unsigned()), 0, 0, 0, 0]);
    }
}

/// Ends the process by a signal, so that its handler has the registers.
fn request(kind: CrashKind, parameters: [u64; 5]) -> ! {
    if REQUESTED[0].swap(kind as u64, Ordering::SeqCst) == 0 {
        for (requested, parameter) in REQUESTED[1..].iter().zip(parameters) {
            requested.store(parameter, Ordering::SeqCst);
        }
        // SAFETY: Sends a signal to this thread.
        unsafe { libc::raise(libc::SIGABRT) };
    }
    std::process::abort()
}

/// What an abort means.
fn requested_kind() -> CrashKind {
    match REQUESTED[0].load(Ordering::SeqCst) {
        requested if requested == CrashKind::BugCheck as u64 => CrashKind::BugCheck,
        requested if requested == CrashKind::Exit as u64 => CrashKind::Exit,
        requested if requested == CrashKind::Watchdog as u64 => CrashKind::Watchdog,
        requested if requested == CrashKind::Deadlock as u64 => CrashKind::Deadlock,
        requested if requested == CrashKind::Sanitizer as u64 => CrashKind::Sanitizer,
        requested if requested == CrashKind::Limit as u64 => CrashKind::Limit,
        requested if requested == CrashKind::ThreadEnd as u64 => CrashKind::ThreadEnd,
        _ => CrashKind::Abort,
    }
}

/// Ends the process with a record.
pub(super) fn abandon(kind: CrashKind, describe: impl FnOnce(&mut CrashRecord)) -> ! {
    write_record(kind, describe);
    std::process::abort()
}

/// Writes the record: the first thread does, the others wait for the end. In the process of a
/// flight this ends the process; in another one the record is reported.
fn write_record(kind: CrashKind, describe: impl FnOnce(&mut CrashRecord)) {
    let record = RECORD.load(Ordering::SeqCst);
    if record.is_null() {
        return;
    }
    let reporter = REPORTER.get();
    if reporter.is_some_and(|reporter| !reporter.serves_this_thread()) {
        return;
    }
    if TAKEN.fetch_add(1, Ordering::SeqCst) > 0 {
        if let Some(reporter) = reporter {
            return reporter.wait(); // One report is enough; the signal is passed on after it.
        }
        loop {
            // SAFETY: Waits for the end of the process, which another thread brings.
            unsafe { libc::pause() };
        }
    }
    let at = record;
    // SAFETY: The installer vouched for the memory, and zero is a valid value of every field.
    unsafe { at.write_bytes(0, 1) };
    // SAFETY: As above, and this thread alone writes it.
    let record = unsafe { &mut *at };
    record.describe_thread();
    describe(record);
    record.stack_start = first_readable(record.registers[CrashRecord::RSP]);
    record.stack_bytes = read_stack(record.stack_start, &mut record.stack) as u64;
    exception::record_frames(record);
    if let Some(reporter) = reporter {
        record.set_kind(kind);
        return reporter.report();
    }
    record_maps();
    let channel = CHANNEL.load(Ordering::SeqCst);
    // SAFETY: The pointer is null or was a reference that lives until the process ends.
    if let Some(channel) = unsafe { channel.as_ref() } {
        channel.seal_record(kind);
    }
    // SAFETY: As for `record`, which is not used any more.
    let record = unsafe { &mut *at };
    record.set_kind(kind); // Last: a record with a kind is complete.
    // SAFETY: Ends the process without running anything of it.
    unsafe { libc::_exit(ABANDONED) };
}

/// Copies the list of the mappings of this process.
fn record_maps() {
    let maps = MAPS.load(Ordering::SeqCst);
    if maps.is_null() {
        return;
    }
    // SAFETY: The installer vouched for the memory, and this thread alone writes it.
    let maps = unsafe { &mut *maps };
    // SAFETY: The path is a C string.
    let file = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY) };
    let mut length = 0;
    while file >= 0 && length < maps.len() {
        let rest = &mut maps[length..];
        // SAFETY: The range is the rest of the memory.
        let read = unsafe { libc::read(file, rest.as_mut_ptr().cast(), rest.len()) };
        let Ok(read @ 1..) = usize::try_from(read) else { break };
        length += read;
    }
}

/// The first address from this one on that can be read, if it is near; else this one.
fn first_readable(from: u64) -> u64 {
    const PAGE: u64 = 4096;
    const PAGES: u64 = 64;
    let page = from & !(PAGE - 1);
    let behind = (1..PAGES).map(|number| page.saturating_add(number * PAGE));
    let mut candidates = std::iter::once(from).chain(behind);
    candidates.find(|at| read_memory(*at, &mut [0]) == 1).unwrap_or(from)
}

/// Reads the stack page by page, so that its end does not make the whole read fail.
pub(super) fn read_stack(from: u64, into: &mut [u8; STACK]) -> usize {
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
