//! Adds one to the counter of an eventfd of another process, without ever waiting.
//!
//! A write waits while the counter is full, and the process that has the eventfd can fill it at any
//! moment. The operating system signals an eventfd without waiting, so it is made to: the eventfd is
//! signalled at the end of an asynchronous read of nothing (`io_submit(2)` with `IOCB_FLAG_RESFD`).
//! On a machine without asynchronous reads a thread writes, which is waited for only so long.
#![expect(unsafe_code, reason = "calls the operating system")]

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a thread that writes is waited for.
const PATIENCE: Duration = Duration::from_millis(100);

/// The most threads that wait until a process reads its counter. Later signals are lost, which a
/// process that fills its counters has asked for.
const MAX_WRITERS: usize = 64;

/// The threads that write now.
static WRITERS: AtomicUsize = AtomicUsize::new(0);

/// A request of `io_submit`.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event: u32,
}

/// What `io_getevents` returns of a request.
#[repr(C)]
#[derive(Default)]
struct Completion([u64; 4]);

const READ: u16 = 0;
const SIGNALS_EVENT: u32 = 1;

/// Asynchronous reads of nothing.
struct EmptyReads {
    context: libc::c_ulong,
    empty: File,
    /// Held while a request is made and its end is taken.
    turn: Mutex<()>,
}

impl EmptyReads {
    /// `None` if the operating system has none.
    fn new() -> Option<Self> {
        let empty = File::open("/dev/null").ok()?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: The context is this function's own.
        let created = unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) };
        (created == 0).then(|| Self { context, empty, turn: Mutex::new(()) })
    }

    /// Signals an eventfd. Returns whether it was.
    fn signal(&self, event: RawFd) -> bool {
        let descriptor = self.empty.as_raw_fd().cast_unsigned();
        let (flags, event) = (SIGNALS_EVENT, event.cast_unsigned());
        let mut request = Request { opcode: READ, descriptor, flags, event, ..Request::default() };
        let mut list = [&raw mut request];
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: The list has one request, which the call reads.
        let submitted =
            unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_mut_ptr()) };
        if submitted != 1 {
            return false;
        }
        let (mut end, mut now) = (Completion::default(), libc::timespec { tv_sec: 0, tv_nsec: 0 });
        // A read of nothing has ended when it is submitted; its place is needed for the next one.
        // SAFETY: There is room for one completion, and the time is this function's own.
        unsafe {
            libc::syscall(libc::SYS_io_getevents, self.context, 1, 1, &raw mut end, &raw mut now)
        };
        true
    }
}

/// Adds one to the counter. Does not wait.
pub(crate) fn add_one(event: BorrowedFd<'_>) {
    static READS: OnceLock<Option<EmptyReads>> = OnceLock::new();
    let reads = READS.get_or_init(EmptyReads::new);
    if !reads.as_ref().is_some_and(|reads| reads.signal(event.as_raw_fd())) {
        write_on_thread(event);
    }
}

/// Adds one to the counter by a write, on a thread: one that does not return is left.
fn write_on_thread(event: BorrowedFd<'_>) {
    let Ok(own) = event.try_clone_to_owned() else { return };
    if WRITERS.fetch_add(1, Ordering::SeqCst) >= MAX_WRITERS {
        WRITERS.fetch_sub(1, Ordering::SeqCst);
        return;
    }
    let (done, written) = channel();
    let write = move || {
        write_one(&own);
        WRITERS.fetch_sub(1, Ordering::SeqCst);
        // The other side may have left.
        _ = done.send(());
    };
    if thread::Builder::new().name("windtunnel-event".to_owned()).spawn(write).is_ok() {
        _ = written.recv_timeout(PATIENCE);
    } else {
        WRITERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Writes, which may wait.
fn write_one(event: &OwnedFd) {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: The eight bytes are this function's own.
    let _ = unsafe { libc::write(event.as_fd().as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_descriptors::{create, poll};
    use std::time::Instant;

    /// An event whose counter is full, and whose writes wait.
    fn full_event() -> OwnedFd {
        let event = create().unwrap();
        let most = (u64::MAX - 1).to_ne_bytes();
        // SAFETY: The eight bytes are this function's own.
        let written = unsafe { libc::write(event.as_raw_fd(), most.as_ptr().cast(), 8) };
        assert_eq!(written, 8);
        // SAFETY: The function takes any number.
        unsafe { libc::fcntl(event.as_raw_fd(), libc::F_SETFL, 0) };
        assert!(!poll(event.as_raw_fd(), libc::POLLOUT, 0));
        event
    }

    fn read(event: &OwnedFd) -> u64 {
        let mut counter = [0; 8];
        // SAFETY: The eight bytes are this function's own.
        let read = unsafe { libc::read(event.as_raw_fd(), counter.as_mut_ptr().cast(), 8) };
        assert_eq!(read, 8);
        u64::from_ne_bytes(counter)
    }

    #[test]
    fn a_signal_adds_one() {
        let event = create().unwrap();
        for _ in 0..100 {
            add_one(event.as_fd());
        }
        assert_eq!(read(&event), 100);
        write_on_thread(event.as_fd());
        assert_eq!(read(&event), 1);
    }

    #[test]
    fn a_full_counter_is_not_waited_for() {
        let event = full_event();
        add_one(event.as_fd());
        assert!(read(&event) >= u64::MAX - 1);
        // Without asynchronous reads, for long enough to find out.
        let event = full_event();
        let started = Instant::now();
        (0..2).for_each(|_| write_on_thread(event.as_fd()));
        assert!(started.elapsed() >= PATIENCE * 2);
        assert!(WRITERS.load(Ordering::SeqCst) >= 2);
        // The threads end when the counter is read.
        assert_eq!(read(&event), u64::MAX - 1);
        while WRITERS.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
    }
}
