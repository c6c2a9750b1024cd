//! The socket at which clients connect, and who is let in.
//!
//! A client that is not accepted stays in the queue of the socket, which can then be read again at
//! once. So a client for which there is no descriptor is accepted with a reserved one, and refused.
#![expect(unsafe_code, reason = "calls the operating system")]

use crate::server_client;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// How long no client is accepted after there was no descriptor even to refuse a client, in
/// milliseconds.
const PAUSE: libc::c_int = 100;

/// The socket at which clients connect.
pub(crate) struct Entrance<'a> {
    listener: &'a OwnedFd,
    /// Given up to refuse a client.
    reserve: Option<OwnedFd>,
    /// A client could not even be refused.
    is_paused: bool,
}

/// A client of the server's user.
pub(crate) struct NewClient {
    pub(crate) socket: OwnedFd,
    /// Its number in the operating system.
    pub(crate) process: i32,
}

impl<'a> Entrance<'a> {
    pub(crate) fn new(listener: &'a OwnedFd) -> Self {
        Self { listener, reserve: listener.try_clone().ok(), is_paused: false }
    }

    /// The descriptor that can be read when a client connects; a negative number during a pause.
    pub(crate) fn number(&self) -> RawFd {
        if self.is_paused { -1 } else { self.listener.as_raw_fd() }
    }

    /// How long a pause lasts, if there is one.
    pub(crate) fn patience(&self) -> Option<libc::c_int> {
        self.is_paused.then_some(PAUSE)
    }

    /// Ends a pause. Accepts the next client, if one connects.
    pub(crate) fn accept(&mut self, connects: bool) -> Option<NewClient> {
        self.is_paused = false;
        if !connects {
            return None;
        }
        match self.accept_socket() {
            Ok(socket) => user_of(socket),
            Err(error) if is_transient(&error) => None,
            Err(error) => {
                self.refuse(&error);
                None
            }
        }
    }

    /// Refuses the next client, which can have no descriptor.
    fn refuse(&mut self, error: &io::Error) {
        drop(self.reserve.take());
        // Another thread may have taken the descriptor.
        match self.accept_socket() {
            Ok(socket) => server_client::refuse(&socket.into(), &error.to_string()),
            Err(error) => self.is_paused = !is_transient(&error),
        }
        self.reserve = self.listener.try_clone().ok();
    }

    fn accept_socket(&self) -> io::Result<OwnedFd> {
        let (fd, flags) = (self.listener.as_raw_fd(), libc::SOCK_CLOEXEC);
        // SAFETY: The address is not asked for.
        let socket = unsafe { libc::accept4(fd, ptr::null_mut(), ptr::null_mut(), flags) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: The descriptor was just created, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(socket) })
    }
}

/// Whether the next attempt may succeed: the client is gone, or a signal came.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

/// The client of a socket, if it is of the server's user.
fn user_of(socket: OwnedFd) -> Option<NewClient> {
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: 0 };
    let mut size = libc::socklen_t::try_from(size_of::<libc::ucred>()).ok()?;
    // SAFETY: The structure has that size.
    let asked = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    // SAFETY: The function has no requirements.
    let own = unsafe { libc::geteuid() };
    (asked == 0 && peer.uid == own).then_some(NewClient { socket, process: peer.pid })
}
