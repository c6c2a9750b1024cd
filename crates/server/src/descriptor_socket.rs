//! Sockets that carry short messages and file descriptors (`SCM_RIGHTS`).
#![expect(unsafe_code, reason = "calls the operating system")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

/// The longest message.
pub const SHORT_BYTES: usize = 64;

/// The most descriptors in a message.
const MAX_DESCRIPTORS: usize = 2;

/// The room for control data of that many descriptors, with its header.
const CONTROL_BYTES: usize = 64;

/// A socket for packets: a message arrives whole or not at all.
#[derive(Debug)]
pub struct DescriptorSocket(OwnedFd);

/// A message with its descriptors.
#[derive(Debug)]
pub struct Packet {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The descriptors.
    pub descriptors: Vec<OwnedFd>,
}

/// Two connected sockets.
///
/// # Errors
///
/// What the operating system says.
pub fn pair() -> io::Result<(DescriptorSocket, DescriptorSocket)> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: The array has room for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The descriptors were just created, and nothing else owns them.
    Ok(ends.map(|end| DescriptorSocket(unsafe { OwnedFd::from_raw_fd(end) })).into())
}

impl From<OwnedFd> for DescriptorSocket {
    fn from(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

impl AsFd for DescriptorSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for DescriptorSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl DescriptorSocket {
    /// Sends a message. Never waits, and no signal is raised if the other side is gone.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let mut content =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = [0_u64; CONTROL_BYTES / 8];
        // SAFETY: Zeros are a valid message.
        let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut content, 1);
        let data = size_of_val(&*numbers);
        if !numbers.is_empty() {
            let size = u32::try_from(data).map_err(|_| io::ErrorKind::InvalidInput)?;
            message.msg_control = control.as_mut_ptr().cast();
            // SAFETY: The function computes.
            message.msg_controllen = unsafe { libc::CMSG_SPACE(size) } as usize;
            if message.msg_controllen > CONTROL_BYTES {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            // SAFETY: The control data has room for a header, as was checked.
            let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
            // SAFETY: As above; the buffer is aligned.
            let length = unsafe { libc::CMSG_LEN(size) } as usize;
            // SAFETY: As above.
            unsafe {
                *header = libc::cmsghdr {
                    cmsg_len: length,
                    cmsg_level: libc::SOL_SOCKET,
                    cmsg_type: libc::SCM_RIGHTS,
                };
            }
            // SAFETY: The data is behind the header, and has room for all numbers.
            let to = unsafe { libc::CMSG_DATA(header) };
            // SAFETY: As above.
            unsafe { ptr::copy_nonoverlapping(numbers.as_ptr().cast::<u8>(), to, data) };
        }
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: The message is complete.
        let sent = unsafe { libc::sendmsg(self.as_raw_fd(), &raw const message, flags) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Receives a message, waiting at most this long.
    ///
    /// # Errors
    ///
    /// What the operating system says; `UnexpectedEof` if the other side is gone; `TimedOut`.
    pub fn receive(&self, patience: Option<Duration>) -> io::Result<Packet> {
        let time = patience.map_or(-1, |it| i32::try_from(it.as_millis()).unwrap_or(i32::MAX));
        let mut waits = libc::pollfd { fd: self.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: The structure is this function's own.
        match unsafe { libc::poll(&raw mut waits, 1, time) } {
            0 => return Err(io::ErrorKind::TimedOut.into()),
            answer if answer < 0 => return Err(io::Error::last_os_error()),
            _ => (),
        }
        let mut bytes = vec![0_u8; SHORT_BYTES];
        let mut content = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut control = [0_u64; CONTROL_BYTES / 8];
        // SAFETY: Zeros are a valid message.
        let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut content, 1);
        (message.msg_control, message.msg_controllen) =
            (control.as_mut_ptr().cast(), CONTROL_BYTES);
        let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
        // SAFETY: The message has room for what it says.
        let mut receive = || unsafe { libc::recvmsg(self.as_raw_fd(), &raw mut message, flags) };
        let length = match usize::try_from(receive()) {
            Ok(length) => length,
            Err(_) => length_after_reset(io::Error::last_os_error(), receive)?,
        };
        let descriptors = received_descriptors(&message);
        if length == 0 && descriptors.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(length);
        Ok(Packet { bytes, descriptors })
    }

    /// Whether the other side is gone.
    pub fn is_gone(&self) -> bool {
        let mut state = libc::pollfd { fd: self.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: The structure is this function's own.
        let answer = unsafe { libc::poll(&raw mut state, 1, 0) };
        answer > 0 && state.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
    }
}

/// The length of the last message of a side that has closed the socket with unread messages. The
/// operating system returns `ECONNRESET` once, before that message.
fn length_after_reset(
    error: io::Error,
    receive: impl FnOnce() -> libc::ssize_t,
) -> io::Result<usize> {
    if error.kind() != io::ErrorKind::ConnectionReset {
        return Err(error);
    }
    usize::try_from(receive()).map_err(|_| io::Error::last_os_error())
}

/// The descriptors of a received message. Those that are not expected are closed.
fn received_descriptors(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut all = Vec::new();
    // SAFETY: The operating system has filled the control data.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: The header is inside the control data.
        let it = unsafe { ptr::read(header) };
        // SAFETY: The function computes.
        let empty = unsafe { libc::CMSG_LEN(0) } as usize;
        if it.cmsg_level == libc::SOL_SOCKET && it.cmsg_type == libc::SCM_RIGHTS {
            let count = it.cmsg_len.saturating_sub(empty) / size_of::<RawFd>();
            // SAFETY: The data is behind the header.
            let data = unsafe { libc::CMSG_DATA(header) };
            for index in 0..count {
                let mut number: RawFd = -1;
                let from = data.wrapping_add(index * size_of::<RawFd>());
                let to = (&raw mut number).cast::<u8>();
                // SAFETY: The data has `count` numbers, perhaps unaligned.
                unsafe { ptr::copy_nonoverlapping(from, to, size_of::<RawFd>()) };
                // SAFETY: The descriptor was just received, and nothing else owns it.
                all.push(unsafe { OwnedFd::from_raw_fd(number) });
            }
        }
        // SAFETY: The header is inside the control data.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    all.truncate(MAX_DESCRIPTORS);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read as _;

    #[test]
    fn messages_carry_descriptors() {
        let (one, other) = pair().unwrap();
        let file = File::open("/proc/self/stat").unwrap();
        one.send(b"file", &[file.as_fd(), one.as_fd()]).unwrap();
        one.send(b"nothing", &[]).unwrap();
        let packet = other.receive(None).unwrap();
        assert_eq!((&*packet.bytes, packet.descriptors.len()), (&b"file"[..], 2));
        let mut text = String::new();
        let copy = packet.descriptors.into_iter().next().unwrap();
        File::from(copy).read_to_string(&mut text).unwrap();
        assert!(!text.is_empty());
        assert_eq!(other.receive(None).unwrap().bytes, b"nothing");
        let nothing = other.receive(Some(Duration::from_millis(1))).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::TimedOut);
        assert!(!other.is_gone());
        drop(one);
        assert!(other.is_gone());
        assert_eq!(other.receive(None).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(other.send(b"x", &[]).is_err());
    }

    #[test]
    fn the_last_message_of_a_side_that_left_messages_unread_is_received() {
        let (one, other) = pair().unwrap();
        one.send(b"a message that is not read", &[]).unwrap();
        other.send(b"refused", &[]).unwrap();
        drop(other);
        assert_eq!(one.receive(None).unwrap().bytes, b"refused");
        assert_eq!(one.receive(None).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
