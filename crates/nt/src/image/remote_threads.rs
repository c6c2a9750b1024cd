//! The thread of another process that runs driver code: its registers, its stack and what its
//! processor block has, read from outside as a debugger does.
//!
//! Used for the process of a flight that cannot write its crash record itself. The process is ended
//! afterwards, so it does not go on from here.
#![expect(unsafe_code, reason = "reads registers and memory of another process")]

use super::channel::Channel;
use super::crash::{CrashKind, CrashRecord, STACK};
use super::processor_block::{BLOCK, ProcessorBlock};
use super::stack_walk::{MappedObjects, walk_stack};
use libc::{c_int, c_void, pid_t, user_regs_struct};
use std::path::PathBuf;
use std::ptr;
use std::time::Duration;

/// Records the thread of a process whose innermost frame, but those of the C library, is that of a
/// driver. Without one, nothing is recorded.
pub(super) fn record(process: pid_t, kind: CrashKind, channel: &Channel) {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let objects = MappedObjects::parse(&maps);
    let program = std::fs::read_link(format!("/proc/{process}/exe")).ok();
    for thread in threads(process) {
        let Some(registers) = registers_of(thread) else { continue };
        let mut record = Box::new(CrashRecord::EMPTY);
        if !describe(&mut record, process, &registers) {
            continue;
        }
        if is_in_driver(&record, &objects, program.as_ref()) {
            record.set_kind(kind);
            channel.set_record(&record, &maps);
            return;
        }
    }
}

/// Takes the status of threads that [`record`] has stopped and that have ended since: a process that
/// was killed has not ended before its tracer has seen the end of its other threads.
pub(super) fn reap_ended(process: pid_t) {
    for thread in threads(process).into_iter().filter(|thread| *thread != process) {
        let mut status: c_int = 0;
        // SAFETY: The call fills in the number. A thread that is not traced is an error.
        unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
    }
}

/// The threads of a process.
fn threads(process: pid_t) -> Vec<pid_t> {
    let entries = std::fs::read_dir(format!("/proc/{process}/task"));
    let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

/// Stops a thread and reads its registers. The thread stays stopped.
fn registers_of(thread: pid_t) -> Option<user_regs_struct> {
    let none = ptr::null_mut::<c_void>();
    // SAFETY: The call makes this thread the tracer; it writes no memory of this process.
    if unsafe { libc::ptrace(libc::PTRACE_SEIZE, thread, none, none) } != 0 {
        return None;
    }
    // SAFETY: As above.
    unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, thread, none, none) };
    if !has_stopped(thread) {
        return None;
    }
    // SAFETY: Zero is a valid value of every field.
    let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: The call fills in the structure.
    let failed = unsafe { libc::ptrace(libc::PTRACE_GETREGS, thread, none, &raw mut registers) };
    (failed == 0).then_some(registers)
}

/// Waits until a thread has stopped. A thread inside the system may not do that for long.
fn has_stopped(thread: pid_t) -> bool {
    const LOOKS: u32 = 200;
    for _ in 0..LOOKS {
        let mut status: c_int = 0;
        // SAFETY: The call fills in the number.
        let found = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
        if found == thread {
            return libc::WIFSTOPPED(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Fills in a record. Returns whether the thread runs driver code.
fn describe(record: &mut CrashRecord, process: pid_t, registers: &user_regs_struct) -> bool {
    let mut block = Box::new([0_u64; BLOCK / 8]);
    if registers.gs_base == 0 || !read_words(process, registers.gs_base, &mut *block) {
        return false;
    }
    let block = ProcessorBlock::of_copy(&block);
    if block.entered() == 0 {
        return false;
    }
    record.describe_block(block);
    let r = registers;
    record.registers = [
        r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12,
        r.r13, r.r14, r.r15,
    ];
    (record.instruction, record.rip) = (r.rip, r.rip);
    record.stack_start = r.rsp;
    let mut stack = Box::new([0_u8; STACK]);
    let mut read = STACK;
    // The stack may end before.
    while read > 0 && !read_bytes(process, r.rsp, &mut stack[..read]) {
        read /= 2;
    }
    record.stack = *stack;
    record.stack_bytes = read as u64;
    true
}

/// Whether the innermost frame is that of a driver, or of the C library that a driver called.
fn is_in_driver(record: &CrashRecord, objects: &MappedObjects, program: Option<&PathBuf>) -> bool {
    let is_system = |address: &u64| {
        let object = objects.find(*address);
        let name = object.and_then(|object| object.path.file_name()?.to_str());
        name.is_some_and(|name| name.starts_with("libc") || name.starts_with("ld-"))
    };
    let mut frames = walk_stack(record, objects).into_iter();
    let first = frames.find(|address| !is_system(address));
    first.is_some_and(|address| objects.find(address).map(|object| &object.path) != program)
}

fn read_words(process: pid_t, address: u64, into: &mut [u64]) -> bool {
    let mut bytes = vec![0; into.len() * 8];
    if !read_bytes(process, address, &mut bytes) {
        return false;
    }
    for (word, bytes) in into.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.try_into().map_or(0, u64::from_le_bytes);
    }
    true
}

/// Reads memory of a process. Returns whether all of it was there.
fn read_bytes(process: pid_t, address: u64, into: &mut [u8]) -> bool {
    let Ok(address) = usize::try_from(address) else { return false };
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote =
        libc::iovec { iov_base: ptr::with_exposed_provenance_mut(address), iov_len: into.len() };
    // SAFETY: The local range is `into`; the system checks the other one.
    let read =
        unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read) == Ok(into.len())
}
