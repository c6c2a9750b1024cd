//! What the process of a flight may do: limits of the operating system, set before driver code runs.
//!
//! They keep the mistakes of a driver inside its process. They are not a security boundary: code of
//! the driver has the rights of the user, and can undo what it finds.
#![expect(unsafe_code, reason = "calls functions of the operating system")]

use libc::{c_int, c_uint, c_ulong, pid_t, rlim_t};
use std::io;
use std::os::fd::RawFd;
use std::ptr;

/// How much writable memory of its own a flight may take, beyond what the process has when it starts.
const DATA: u64 = 8 << 30;

/// The same for addresses: guarded memory reserves many that it does not use.
const ADDRESS_SPACE: u64 = 64 << 30;

/// The largest file that a flight may write.
const FILE_SIZE: u64 = 1 << 30;

/// How many descriptors a flight may have open.
const OPEN_FILES: u64 = 1024;

/// Limits this process: it ends with its parent, gets no new privileges, writes no core file, has
/// limits for memory, files and descriptors, and keeps only the standard descriptors and `channel`.
///
/// `parent` is the process that started this one; if another process has taken its place, this
/// process ends.
pub fn limit_process(parent: Option<u32>, channel: RawFd) {
    end_with_parent(parent);
    let zero: c_ulong = 0;
    // SAFETY: The call sets a flag of this process.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1 as c_ulong, zero, zero, zero) };
    limit(libc::RLIMIT_CORE, 0);
    let (addresses, data) = memory();
    limit(libc::RLIMIT_AS, addresses.saturating_add(ADDRESS_SPACE));
    limit(libc::RLIMIT_DATA, data.saturating_add(DATA));
    limit(libc::RLIMIT_NOFILE, OPEN_FILES);
    limit(libc::RLIMIT_FSIZE, FILE_SIZE);
    // A write beyond the limit fails, and does not end the process.
    // SAFETY: To ignore a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    close_others(channel);
}

/// Limits this process, which reads a symbol file: to memory beyond what it has now, to processor
/// time, and to twice that time if it waits. It ends with its parent and writes no file.
pub(super) fn limit_symbol_reader(memory_bytes: u64, seconds: u32) {
    end_with_parent(None);
    limit(libc::RLIMIT_CORE, 0);
    limit(libc::RLIMIT_AS, memory().0.saturating_add(memory_bytes));
    limit(libc::RLIMIT_CPU, seconds.into());
    limit(libc::RLIMIT_FSIZE, 0);
    // SAFETY: The call sets a timer of this process, whose signal ends it.
    unsafe { libc::alarm(seconds * 2) };
}

/// The system kills this process when the thread that started it ends, so that no flight is left
/// behind.
fn end_with_parent(parent: Option<u32>) {
    let signal = libc::SIGKILL as c_ulong;
    // SAFETY: The call sets a signal of this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) };
    // SAFETY: Asks for a number.
    let now = unsafe { libc::getppid() };
    let expected = parent.and_then(|parent| pid_t::try_from(parent).ok());
    if expected.is_some_and(|expected| expected != now) {
        // The parent ended before the call.
        std::process::exit(super::ABANDONED);
    }
}

/// Sets a limit, unless a lower one is set already.
fn limit(resource: c_uint, value: u64) {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: The call fills in the structure.
    if unsafe { libc::getrlimit(resource, &raw mut limits) } != 0 {
        return;
    }
    let value: rlim_t = value;
    limits.rlim_cur = limits.rlim_cur.min(value);
    limits.rlim_max = limits.rlim_max.min(value);
    // SAFETY: The structure is this function's own.
    unsafe { libc::setrlimit(resource, &raw const limits) };
}

/// The addresses and the writable memory of this process, in bytes. Most of both belongs to a
/// sanitizer, if there is one.
fn memory() -> (u64, u64) {
    const PAGE: u64 = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let bytes = |field: usize| {
        let pages = text.split(' ').nth(field).and_then(|pages| pages.parse::<u64>().ok());
        pages.unwrap_or(0).saturating_mul(PAGE)
    };
    (bytes(0), bytes(5))
}

/// Closes the descriptors that this process inherited, but the standard ones and `channel`.
fn close_others(channel: RawFd) {
    const FIRST: c_uint = 3;
    let Ok(channel) = c_uint::try_from(channel) else { return };
    let ranges = [(FIRST, channel.wrapping_sub(1)), (channel.saturating_add(1), c_uint::MAX)];
    for (first, last) in ranges.into_iter().filter(|(first, last)| *first <= *last) {
        let none: c_int = 0;
        // SAFETY: Nothing of this process has opened a descriptor yet: all are inherited.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, none) };
    }
}

/// Lets the C library return each large block to the system when it is freed. Otherwise it keeps
/// blocks of the size of files and event lists, and a process with thousands of flights grows.
pub fn return_large_blocks() {
    const LARGE: c_int = 1 << 20;
    // SAFETY: The call sets a number of the allocator.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

/// Kills the processes that a flight left behind in its process group.
pub(super) fn kill_group(leader: pid_t) {
    // SAFETY: The flight's process is not reaped yet, so that the number is that of its group.
    unsafe { libc::kill(-leader, libc::SIGKILL) };
}

/// From now on, processes whose parents end become children of this process, if no other ancestor
/// adopts them.
pub(super) fn adopt_orphans() {
    let (on, zero): (c_ulong, c_ulong) = (1, 0);
    // SAFETY: The call sets a flag of this process.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, on, zero, zero, zero) };
}

/// The children of this process.
pub(super) fn children() -> Vec<u32> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    let lists: String = lists.flatten().collect();
    lists.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Whether a child has ended. If so, its status is taken.
pub(super) fn has_ended(child: u32) -> bool {
    // SAFETY: The call takes no status.
    let taken = unsafe { libc::waitpid(child.cast_signed(), ptr::null_mut(), libc::WNOHANG) };
    taken != 0
}

/// Kills a child whose status was not taken.
pub(super) fn kill_child(child: u32) {
    // SAFETY: The number is that of the child until its status is taken.
    unsafe { libc::kill(child.cast_signed(), libc::SIGKILL) };
}

/// A descriptor of a child process that can be polled for its end. `None` if the system has none.
pub(super) fn process_descriptor(process: pid_t) -> Option<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd as _;
    let none: c_uint = 0;
    // SAFETY: The call creates a descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process, none) };
    let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: The descriptor is new, and only this value owns it.
    Some(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
}

/// A filter of system calls by the address of their instruction: a program for the system.
struct Filter(Vec<libc::sock_filter>);

/// Where the low and the high half of the instruction pointer are in `seccomp_data`.
const LOW: u32 = 8;
const HIGH: u32 = 12;

impl Filter {
    fn new(start: u64, end: u64) -> Self {
        const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        const ABOVE: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
        const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        const FROM: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
        const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
        let high = |address: u64| u32::try_from(address >> 32).unwrap_or(u32::MAX);
        let low = |address: u64| u32::try_from(address & 0xffff_ffff).unwrap_or(u32::MAX);
        let mut filter = Self(Vec::new());
        // The numbers of a jump are the instructions to skip if it is true, and if it is not.
        filter.add(LOAD, 0, 0, HIGH);
        filter.add(ABOVE, 3, 0, high(start)); // to the end of the range
        filter.add(EQUAL, 0, 8, high(start)); // or to "allow"
        filter.add(LOAD, 0, 0, LOW);
        filter.add(FROM, 0, 6, low(start)); // or to "allow"
        filter.add(LOAD, 0, 0, HIGH);
        filter.add(ABOVE, 4, 0, high(end)); // to "allow"
        filter.add(EQUAL, 0, 2, high(end)); // or to "trap"
        filter.add(LOAD, 0, 0, LOW);
        filter.add(FROM, 1, 0, low(end)); // to "allow"
        filter.add(RETURN, 0, 0, libc::SECCOMP_RET_TRAP);
        filter.add(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW);
        filter
    }

    fn add(&mut self, code: u32, jt: u8, jf: u8, k: u32) {
        let code = u16::try_from(code).unwrap_or(0);
        self.0.push(libc::sock_filter { code, jt, jf, k });
    }
}

/// System calls by instructions in this range of addresses are signals from now on, on every
/// thread. Those of the C library and of our own code go on. Fails if the system refuses the filter.
pub(super) fn trap_system_calls(start: usize, end: usize) -> io::Result<()> {
    // The system sees the address behind the instruction, which has two bytes.
    let mut filter = Filter::new(start as u64 + 2, end as u64 + 1).0;
    let length = u16::try_from(filter.len()).unwrap_or(0);
    let program = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
    // The second flag: the processor's speculation stays as it is, so that nothing gets slower.
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    let operation = libc::SECCOMP_SET_MODE_FILTER;
    let at = ptr::from_ref(&program);
    // SAFETY: The program and its instructions outlive the call, which copies them.
    match unsafe { libc::syscall(libc::SYS_seccomp, operation, flags, at) } {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!("thread {thread} has another filter"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter for an instruction pointer. Returns whether it traps.
    fn traps(filter: &Filter, pointer: u64) -> bool {
        let (mut at, mut loaded) = (0, 0_u32);
        loop {
            let libc::sock_filter { code, jt, jf, k } = filter.0[at];
            let skipped = |jump: bool| usize::from(if jump { jt } else { jf });
            at += 1 + match u32::from(code) & 0xf7 {
                0x20 => {
                    let half = if k == LOW { pointer } else { pointer >> 32 };
                    loaded = u32::try_from(half & 0xffff_ffff).unwrap();
                    0
                }
                0x25 => skipped(loaded > k),
                0x15 => skipped(loaded == k),
                0x35 => skipped(loaded >= k),
                0x06 => return k == libc::SECCOMP_RET_TRAP,
                other => panic!("instruction {other:#x}"),
            };
        }
    }

    #[test]
    fn a_filter_traps_in_its_range_only() {
        for (start, end) in [
            (0x7fff_1234_5000, 0x7fff_1235_0000),
            (0x7fff_ffff_f000, 0x8000_0000_1000), // the halves differ
            (0x7ffe_ffff_f000, 0x8001_0000_0000), // by more than one
        ] {
            let filter = Filter::new(start, end);
            let middle = start + (end - start) / 2;
            for (pointer, expected) in [
                (0, false),
                (start - 1, false),
                (start, true),
                (middle, true),
                (end - 1, true),
                (end, false),
                (end + (1 << 32), false),
                (start - (1 << 32), false),
                (u64::MAX, false),
            ] {
                assert_eq!(traps(&filter, pointer), expected, "{pointer:#x} of {start:#x}");
            }
        }
    }
}
