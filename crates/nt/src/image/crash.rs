//! What is known when driver code has to be abandoned: a fault, a bug check, a deadline.
//!
//! The record is plain memory that can outlive the process: the flight of a driver from a file runs
//! in a child process, the record is shared with its parent, and the parent makes the report. So
//! nothing runs in the process after the fault but a few stores.

use super::processor_block::ProcessorBlock;
use crate::guard::MissedBlock;
use flight::{Component, RunningCall};

/// The exit status of a process that abandoned its driver.
pub const ABANDONED: i32 = 97;

/// Bytes of the stack that are recorded.
pub(super) const STACK: usize = 16 << 10;

/// Frames of an image that are recorded.
pub const FRAMES: usize = 16;

const KERNEL_MODE: u64 = 1;
const USER_MODE: u64 = 2;

/// Bytes of the name of the driver function that are recorded.
const NAME: usize = 64;

/// Why the driver was abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CrashKind {
    /// It was not.
    None = 0,
    /// An access to memory that is not there or not allowed.
    Access = 1,
    /// An instruction that cannot be executed here.
    Instruction = 2,
    /// An arithmetic exception, such as a division by zero.
    Arithmetic = 3,
    /// A breakpoint, a debug service or an assertion of the driver (`int 3`, `int 2Dh`, `int 2Ch`).
    Breakpoint = 4,
    /// A fast-fail (`int 29h`), such as a damaged stack cookie.
    FastFail = 5,
    /// The process ended by `abort`.
    Abort = 6,
    /// The driver ran for longer than the deadline.
    Deadline = 7,
    /// The driver called `KeBugCheckEx`.
    BugCheck = 8,
    /// A raised status that no handler took.
    Unhandled = 9,
    /// The stack is too small.
    StackOverflow = 10,
    /// The driver ended the process (`exit`).
    Exit = 11,
    /// A system call by an instruction of the driver's own.
    SystemCall = 12,
    /// The process was stopped by a signal, and did not go on within the deadline.
    Stopped = 13,
    /// The driver did not leave `DISPATCH_LEVEL` in virtual time.
    Watchdog = 14,
    /// The driver used more than a kernel stack has.
    KernelStack = 15,
    /// The driver waits for a spin lock that its thread holds.
    Deadlock = 16,
    /// `AddressSanitizer` reported an error.
    Sanitizer = 17,
    /// The flight went beyond a limit: its last event is the finding.
    Limit = 18,
    /// The driver ended its thread by a function of the C library.
    ThreadEnd = 19,
    /// The process of the flight went beyond its limit of memory.
    Memory = 20,
}

impl CrashKind {
    const ALL: [Self; 21] = [
        Self::None,
        Self::Access,
        Self::Instruction,
        Self::Arithmetic,
        Self::Breakpoint,
        Self::FastFail,
        Self::Abort,
        Self::Deadline,
        Self::BugCheck,
        Self::Unhandled,
        Self::StackOverflow,
        Self::Exit,
        Self::SystemCall,
        Self::Stopped,
        Self::Watchdog,
        Self::KernelStack,
        Self::Deadlock,
        Self::Sanitizer,
        Self::Limit,
        Self::ThreadEnd,
        Self::Memory,
    ];

    fn from_number(number: u32) -> Self {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number).unwrap_or(Self::None)
    }
}

/// The record of an abandoned driver. All numbers, so that any bytes are a valid record.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CrashRecord {
    kind: u32,
    /// The IRQL as a Windows number.
    pub irql: u32,
    /// The number of the virtual thread; `u32::MAX` for a thread that the driver created itself.
    pub thread: u32,
    /// The number of the import that was called last, see `caller`.
    pub import: u32,
    /// The number of the driver call, zero outside one.
    pub call: u64,
    /// The instruction: that of the fault, or behind the call of `KeBugCheckEx`.
    pub instruction: u64,
    /// The instruction that the registers and the stack belong to.
    pub rip: u64,
    /// The faulting address as the system reports it: zero for a non-canonical one.
    pub address: u64,
    /// The signal; zero if it was not the reason.
    pub signal: u64,
    /// The error code of the page fault; bit 1 is a write, bit 4 an instruction fetch. Zero if the
    /// fault was none.
    pub error: u64,
    /// Whether the fault was a general protection fault.
    pub general_protection: u64,
    /// The address that the instruction branches to, if that is no canonical one; else zero.
    pub branch_target: u64,
    /// rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
    pub registers: [u64; 16],
    /// The return address of the last import call.
    pub caller: u64,
    /// The stack pointer of the last import call.
    pub caller_stack: u64,
    /// The frame pointer of the last import call.
    pub caller_frame: u64,
    /// The code and the parameters of a bug check; the first is the status of a raised exception,
    /// the exit status of the process, the number of a system call, or where a lock was acquired
    /// that its thread waits for.
    pub bug_check: [u64; 5],
    /// Pageable memory that was touched at a raised IRQL: 1 for paged pool, 2 for a section of an
    /// image, else 0.
    pub paged: u64,
    /// The guarded block that the access missed; its `start` is zero if there is none.
    pub block: MissedBlock,
    /// The bytes at the instruction.
    pub code: [u8; 16],
    /// The driver whose function runs: [`KERNEL_MODE`], [`USER_MODE`], or zero.
    component: u64,
    /// The length of the name of the function.
    name_bytes: u64,
    /// The name of the function.
    name: [u8; NAME],
    /// The length of the sanitizer's name of an error.
    pub(super) sanitizer_bytes: u64,
    /// The sanitizer's name of an error.
    pub(super) sanitizer: [u8; NAME],
    /// The number of frames of an image.
    pub frame_count: u64,
    /// The instructions of the frames of an image, the innermost first.
    pub frames: [u64; FRAMES],
    /// The address of the recorded part of the stack: rsp, or behind the pages that an overflow
    /// did not find.
    pub stack_start: u64,
    /// The number of recorded bytes of the stack.
    pub stack_bytes: u64,
    /// The stack.
    pub stack: [u8; STACK],
}

impl CrashRecord {
    /// A record of nothing.
    pub const EMPTY: Self = Self {
        kind: 0,
        irql: 0,
        thread: 0,
        import: 0,
        call: 0,
        instruction: 0,
        rip: 0,
        address: 0,
        signal: 0,
        error: 0,
        general_protection: 0,
        branch_target: 0,
        registers: [0; 16],
        caller: 0,
        caller_stack: 0,
        caller_frame: 0,
        bug_check: [0; 5],
        paged: 0,
        block: MissedBlock::NONE,
        code: [0; 16],
        component: 0,
        name_bytes: 0,
        name: [0; NAME],
        sanitizer_bytes: 0,
        sanitizer: [0; NAME],
        frame_count: 0,
        frames: [0; FRAMES],
        stack_start: 0,
        stack_bytes: 0,
        stack: [0; STACK],
    };

    /// The index of rsp in `registers`.
    pub const RSP: usize = 4;
    /// The index of rbp in `registers`.
    pub const RBP: usize = 5;

    /// Why the driver was abandoned.
    pub fn kind(&self) -> CrashKind {
        CrashKind::from_number(self.kind)
    }

    pub(super) fn set_kind(&mut self, kind: CrashKind) {
        self.kind = kind as u32;
    }

    /// The driver function that the thread was in, and its component. `None` outside of one.
    pub fn running(&self) -> Option<(Component, String)> {
        let component = match self.component {
            KERNEL_MODE => Component::Driver,
            USER_MODE => Component::Umd,
            _ => return None,
        };
        let length = usize::try_from(self.name_bytes).unwrap_or(0).min(NAME);
        Some((component, String::from_utf8_lossy(&self.name[..length]).into_owned()))
    }

    /// The sanitizer's name of an error, such as `stack-buffer-overflow`.
    pub fn sanitizer_error(&self) -> String {
        let length = usize::try_from(self.sanitizer_bytes).unwrap_or(0).min(NAME);
        String::from_utf8_lossy(&self.sanitizer[..length]).into_owned()
    }

    /// Whether the fault happened inside of the last import call: its frame is still on the stack,
    /// and no user-mode driver was called meanwhile.
    pub fn is_in_import(&self) -> bool {
        self.caller != 0
            && self.component != USER_MODE
            && self.caller_stack >= self.registers[Self::RSP]
    }

    /// Fills in what this thread knows: its driver function, and what its processor block has.
    pub(super) fn describe_thread(&mut self) {
        if let Some(call) = RunningCall::current() {
            let is_user_mode = call.component == Component::Umd;
            self.component = if is_user_mode { USER_MODE } else { KERNEL_MODE };
            let length = call.name.len().min(NAME);
            self.name[..length].copy_from_slice(&call.name.as_bytes()[..length]);
            self.name_bytes = length as u64;
        }
        self.thread = u32::MAX;
        if let Some(block) = ProcessorBlock::existing() {
            self.describe_block(block);
        }
    }

    /// Fills in what a processor block has.
    pub(super) fn describe_block(&mut self, block: ProcessorBlock) {
        self.irql = block.irql().into();
        self.call = block.call();
        (self.caller, self.caller_stack, self.import) = block.last_import();
        self.caller_frame = block.last_import_frame();
        self.thread = block.thread();
    }
}

impl std::fmt::Debug for CrashRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CrashRecord").field("kind", &self.kind()).finish_non_exhaustive()
    }
}
