//! A channel between a thread of a client and its thread in the server: shared memory for messages,
//! and a socket for file descriptors.
//!
//! One side has the turn. It writes a message into its half of the memory and passes the turn; the
//! other side spins briefly and then sleeps on a futex. So a busy channel makes no system call, and an
//! idle one costs no processor time.
//!
//! # Invariants
//!
//! 1. Nothing in the memory is trusted: a message is copied before it is looked at, and its length is
//!    checked. The file cannot shrink (it is sealed), so that an access does not fault.
//! 2. Only the side that has the turn writes a message.
#![expect(unsafe_code, reason = "shares memory with another process")]

use crate::descriptor_socket::DescriptorSocket;
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The longest message.
pub const MESSAGE_BYTES: usize = (64 << 10) - 64;

/// The bytes of the shared memory.
const SIZE: usize = size_of::<SharedMemory>();

/// How long a side looks for its turn before it sleeps, if its last wait was no longer than that.
/// Waking takes the operating system about as long.
const SPIN: Duration = Duration::from_micros(60);

/// How long it looks otherwise.
const SHORT_SPIN: Duration = Duration::from_micros(5);

/// The looks between two looks at the clock.
const LOOKS: u32 = 64;

/// The side that has the turn.
const CLIENT: u32 = 0;
const SERVER: u32 = 1;
/// The channel is over.
const OVER: u32 = 2;

/// The shared memory. Words that both sides change are on lines of their own.
#[repr(C)]
struct SharedMemory {
    turn: Line,
    /// Whether the side sleeps, so that it must be woken.
    sleeps: [Line; 2],
    /// The message of the client, and that of the server.
    messages: [MessageRoom; 2],
}

#[repr(C, align(64))]
struct Line(AtomicU32);

#[repr(C, align(64))]
struct MessageRoom {
    length: AtomicUsize,
    bytes: UnsafeCell<[u8; MESSAGE_BYTES]>,
}

/// The sides of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client's thread.
    Client,
    /// The server's thread.
    Server,
}

/// The other side is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// One side of a channel.
#[derive(Debug)]
pub struct Channel {
    memory: NonNull<SharedMemory>,
    side: Side,
    /// For descriptors that belong to a message.
    pub socket: DescriptorSocket,
    /// Whether the last wait was short, so that the next one may be, too.
    was_short: AtomicBool,
}

// SAFETY: The words are atomic, and the halves are only copied.
unsafe impl Send for Channel {}
// SAFETY: As above.
unsafe impl Sync for Channel {}

impl Side {
    fn turn(self) -> u32 {
        match self {
            Side::Client => CLIENT,
            Side::Server => SERVER,
        }
    }

    fn other(self) -> Self {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// Creates the memory of a channel: a file that keeps its size.
///
/// # Errors
///
/// What the operating system says.
pub fn create_memory() -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: The name is a C string with static lifetime.
    let file = unsafe { libc::memfd_create(c"windtunnel-channel".as_ptr(), flags) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The descriptor was just created, and nothing else owns it.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    // SAFETY: The descriptor is open.
    let sized = unsafe { libc::ftruncate(file.as_raw_fd(), SIZE.try_into().unwrap_or(0)) };
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: The descriptor is open.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    if sized != 0 || sealed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

impl Channel {
    /// A side of the channel with this memory.
    ///
    /// # Errors
    ///
    /// The file cannot be mapped, or it is not as large as a channel.
    pub fn new(memory: BorrowedFd<'_>, side: Side, socket: DescriptorSocket) -> io::Result<Self> {
        let file = memory.as_raw_fd();
        // SAFETY: The descriptor is open.
        let size = unsafe { libc::lseek(file, 0, libc::SEEK_END) };
        if usize::try_from(size) != Ok(SIZE) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (open, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: The operating system chooses unused addresses.
        let memory = unsafe { libc::mmap(ptr::null_mut(), SIZE, open, flags, file, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, side, socket, was_short: AtomicBool::new(true) })
    }

    fn shared(&self) -> &SharedMemory {
        // SAFETY: The memory is mapped until `drop`, page-aligned and large enough; it has atomic
        // words and cells only, so that another process may change them.
        unsafe { self.memory.as_ref() }
    }

    /// The room for the messages of a side.
    fn room(&self, side: Side) -> &MessageRoom {
        &self.shared().messages[side.turn() as usize]
    }

    /// Writes a message and passes the turn. It must fit: see [`MESSAGE_BYTES`].
    pub fn send(&self, message: &[u8]) {
        let length = message.len().min(MESSAGE_BYTES);
        let room = self.room(self.side);
        room.length.store(length, Ordering::Relaxed);
        // SAFETY: The room has that many bytes, to which no reference exists.
        unsafe { libc::memcpy(room.bytes.get().cast(), message.as_ptr().cast(), length) };
        self.pass_turn(self.side.other().turn());
    }

    /// Ends the channel for both sides.
    pub fn end(&self) {
        self.pass_turn(OVER);
        wake(&self.shared().turn.0);
    }

    fn pass_turn(&self, turn: u32) {
        let shared = self.shared();
        shared.turn.0.store(turn, Ordering::SeqCst);
        let other = &shared.sleeps[self.side.other().turn() as usize].0;
        if other.load(Ordering::SeqCst) != 0 {
            wake(&shared.turn.0);
        }
    }

    /// Waits for a message and copies it to `message`. `is_gone` is asked from time to time whether
    /// the other side has ended.
    ///
    /// # Errors
    ///
    /// The other side is gone, or its message has no possible length.
    pub fn receive(
        &self,
        message: &mut Vec<u8>,
        patience: Option<Duration>,
        mut is_gone: impl FnMut() -> bool,
    ) -> Result<(), Gone> {
        self.wait(patience, &mut is_gone)?;
        let room = self.room(self.side.other());
        let length = room.length.load(Ordering::Relaxed);
        if length > MESSAGE_BYTES {
            return Err(Gone);
        }
        message.clear();
        message.reserve(length);
        // SAFETY: The room has that many bytes, and so has the buffer.
        unsafe { libc::memcpy(message.as_mut_ptr().cast(), room.bytes.get().cast(), length) };
        // SAFETY: These bytes were copied.
        unsafe { message.set_len(length) };
        Ok(())
    }

    /// Waits for the turn of this side.
    fn wait(
        &self,
        patience: Option<Duration>,
        is_gone: &mut dyn FnMut() -> bool,
    ) -> Result<(), Gone> {
        let (shared, mine) = (self.shared(), self.side.turn());
        let has_turn = || match shared.turn.0.load(Ordering::SeqCst) {
            turn if turn == mine => Some(Ok(())),
            turn if turn == self.side.other().turn() => None,
            _ => Some(Err(Gone)),
        };
        let started = Instant::now();
        let spin = if self.was_short.load(Ordering::Relaxed) { SPIN } else { SHORT_SPIN };
        while started.elapsed() < spin {
            for _ in 0..LOOKS {
                if let Some(answer) = has_turn() {
                    return answer;
                }
                std::hint::spin_loop();
            }
        }
        let sleeps = &shared.sleeps[mine as usize].0;
        loop {
            sleeps.store(1, Ordering::SeqCst);
            let answer = has_turn().or_else(|| {
                sleep(&shared.turn.0, self.side.other().turn(), patience);
                has_turn()
            });
            sleeps.store(0, Ordering::SeqCst);
            match answer {
                Some(answer) => {
                    self.was_short.store(started.elapsed() < SPIN, Ordering::Relaxed);
                    return answer;
                }
                None if is_gone() => return Err(Gone),
                None => (),
            }
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: The mapping is this channel's own, and nothing refers to it.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), SIZE) };
    }
}

/// Sleeps while a word has this value, at most for this time. May return early.
fn sleep(word: &AtomicU32, value: u32, patience: Option<Duration>) {
    let time = patience.map(|time| libc::timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    let time: *const libc::timespec = time.as_ref().map_or(ptr::null(), |time| &raw const *time);
    // SAFETY: The word is mapped; the time is NULL or this function's own.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, time) };
}

/// Wakes those who sleep on a word.
fn wake(word: &AtomicU32) {
    // SAFETY: The word is mapped.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor_socket;
    use std::os::fd::AsFd;
    use std::thread;

    fn pair() -> (Channel, Channel) {
        let memory = create_memory().unwrap();
        let (one, other) = descriptor_socket::pair().unwrap();
        let client = Channel::new(memory.as_fd(), Side::Client, one).unwrap();
        (client, Channel::new(memory.as_fd(), Side::Server, other).unwrap())
    }

    #[test]
    fn messages_go_to_and_fro() {
        let (client, server) = pair();
        let echo = thread::spawn(move || {
            let mut message = Vec::new();
            let mut count = 0;
            while server.receive(&mut message, None, || false).is_ok() {
                message.reverse();
                server.send(&message);
                count += 1;
            }
            count
        });
        let mut answer = Vec::new();
        for length in [0, 1, 100, MESSAGE_BYTES] {
            let message: Vec<u8> = (0..=250_u8).cycle().take(length).collect();
            client.send(&message);
            client.receive(&mut answer, None, || false).unwrap();
            answer.reverse();
            assert!(answer == message, "{length}");
        }
        // The other side sleeps by now.
        thread::sleep(Duration::from_millis(20));
        client.send(b"x");
        client.receive(&mut answer, None, || false).unwrap();
        client.end();
        assert_eq!(echo.join().unwrap(), 5);
        assert_eq!(client.receive(&mut answer, None, || false), Err(Gone));
    }

    #[test]
    fn a_side_that_is_gone_ends_a_wait() {
        let (client, server) = pair();
        let mut asked = 0;
        let mut message = Vec::new();
        let patience = Some(Duration::from_millis(1));
        client.send(b"call");
        let answer = client.receive(&mut message, patience, || {
            asked += 1;
            asked == 3
        });
        assert_eq!((answer, asked), (Err(Gone), 3));
        server.receive(&mut message, None, || false).unwrap();
        assert_eq!(message, b"call");
    }

    #[test]
    fn a_length_that_cannot_be_is_the_end() {
        let (client, server) = pair();
        client.send(b"x");
        client.room(Side::Client).length.store(usize::MAX, Ordering::Relaxed);
        let mut message = Vec::new();
        assert_eq!(server.receive(&mut message, None, || false), Err(Gone));
        client.shared().turn.0.store(77, Ordering::SeqCst);
        assert_eq!(server.receive(&mut message, None, || false), Err(Gone));
    }

    #[test]
    fn the_memory_keeps_its_size() {
        let memory = create_memory().unwrap();
        // SAFETY: The descriptor is open.
        assert_ne!(unsafe { libc::ftruncate(memory.as_raw_fd(), 0) }, 0);
    }
}
