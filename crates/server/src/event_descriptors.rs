//! Events of clients as the kernel sees them: descriptors of `eventfd(2)`.
//!
//! A client passes any eventfd of its process. The library keeps a duplicate for as long as a wait or
//! a notification will set the event, so that the client may close its own. Setting an event adds 1
//! to its counter.
#![expect(unsafe_code, reason = "calls the operating system")]

use crate::event_signal;
use abi::status::STATUS_INSUFFICIENT_RESOURCES;
use abi::{HANDLE, NTSTATUS};
use kernel::EventSink;
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use thunk::EventHandles;

/// The lowest number of an event: not one of the standard streams.
const LOWEST: RawFd = 3;

/// The lowest number of a duplicate, if so many are allowed: out of the way of a client that counts
/// its descriptors.
const LOWEST_INTERNAL: RawFd = 256;

/// The events of this process.
#[derive(Clone, Copy, Debug)]
pub struct EventDescriptors;

/// An event of the client.
struct Descriptor {
    /// The client's number of it.
    handle: RawFd,
    /// A duplicate.
    own: OwnedFd,
    owner: Owner,
}

/// The process that has the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This process.
    Here,
    /// A client of this server, which must not stop it.
    Client,
}

/// What sets the event of a client, by its number there; `None` if the descriptor is of no event.
pub(crate) fn sink_of(handle: RawFd, own: OwnedFd, owner: Owner) -> Option<Arc<dyn EventSink>> {
    let descriptor = Descriptor { handle, own, owner };
    // The duplicate is asked, which no other thread closes.
    is_eventfd(descriptor.own.as_raw_fd()).then(|| Arc::new(descriptor) as Arc<dyn EventSink>)
}

impl EventHandles for EventDescriptors {
    fn find(&self, handle: HANDLE) -> Option<Arc<dyn EventSink>> {
        let handle = descriptor(handle)?;
        sink_of(handle, duplicate(handle, LOWEST_INTERNAL)?, Owner::Here)
    }

    fn create(&self) -> Result<(usize, Arc<dyn EventSink>), NTSTATUS> {
        let full = STATUS_INSUFFICIENT_RESOURCES;
        let handle = create().ok_or(full)?;
        let number = handle.as_raw_fd();
        let own = duplicate(number, LOWEST_INTERNAL).ok_or(full)?;
        std::mem::forget(handle); // It is the client's now.
        let sink = Arc::new(Descriptor { handle: number, own, owner: Owner::Here });
        Ok((usize::try_from(number).map_err(|_| full)?, sink))
    }

    fn discard(&self, handle: usize) {
        if let Ok(number) = RawFd::try_from(handle) {
            // SAFETY: The number was created for a call that has not returned it.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
}

impl EventSink for Descriptor {
    /// A client that has filled the counter itself is not waited for: its event is set already. (One
    /// that fills it between the two system calls blocks its own process, but not a server.)
    fn set(&self) {
        let number = self.own.as_raw_fd();
        if !poll(number, libc::POLLOUT, 0) {
            return;
        }
        if self.owner == Owner::Client {
            event_signal::add_one(self.own.as_fd());
        } else {
            let one = 1_u64.to_ne_bytes();
            // SAFETY: The eight bytes are this function's own.
            let _ = unsafe { libc::write(number, one.as_ptr().cast(), one.len()) };
        }
    }

    fn key(&self) -> u64 {
        let id = identity(self.own.as_raw_fd()).unwrap_or(0);
        (id << 32) | u64::from(self.handle.cast_unsigned())
    }
}

/// Creates an event that is not set.
pub fn create() -> Option<OwnedFd> {
    // SAFETY: The function has no pointers.
    let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    // SAFETY: The descriptor, if there is one, was created just now.
    let created = (number >= 0).then(|| unsafe { OwnedFd::from_raw_fd(number) })?;
    if number < LOWEST { duplicate(number, LOWEST) } else { Some(created) }
}

/// The number of a client's handle as a descriptor; `None` if it cannot be an event.
pub fn descriptor(handle: HANDLE) -> Option<RawFd> {
    RawFd::try_from(handle.addr()).ok().filter(|number| *number > 0)
}

/// Whether a descriptor is of `eventfd(2)`.
pub fn is_eventfd(number: RawFd) -> bool {
    let target = fs::read_link(format!("/proc/self/fd/{number}"));
    target.is_ok_and(|target| target.as_os_str() == "anon_inode:[eventfd]")
}

/// Whether one of `events` is true of a descriptor, within so many milliseconds (-1: for ever).
pub fn poll(number: RawFd, events: libc::c_short, milliseconds: libc::c_int) -> bool {
    let mut wanted = libc::pollfd { fd: number, events, revents: 0 };
    // SAFETY: The structure is this function's own. A number that is not open is an event of its own.
    let found = unsafe { libc::poll(&raw mut wanted, 1, milliseconds) };
    found > 0 && wanted.revents & events != 0
}

/// A duplicate with a number that is not lower if possible, which `execve` closes.
fn duplicate(number: RawFd, lowest: RawFd) -> Option<OwnedFd> {
    [lowest, LOWEST].into_iter().find_map(|lowest| {
        // SAFETY: The function takes any numbers.
        let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, lowest) };
        // SAFETY: The descriptor, if there is one, was created just now.
        (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
    })
}

/// The operating system's number of an eventfd, the same for all descriptors of it.
fn identity(number: RawFd) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("eventfd-id:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::without_provenance_mut;

    fn handle(number: RawFd) -> HANDLE {
        without_provenance_mut(usize::try_from(number).unwrap())
    }

    #[test]
    fn only_an_open_eventfd_is_an_event() {
        let event = create().unwrap();
        let null = fs::File::open("/dev/null").unwrap();
        assert!(event.as_raw_fd() >= LOWEST);
        assert!(EventDescriptors.find(handle(event.as_raw_fd())).is_some());
        assert!(EventDescriptors.find(handle(null.as_raw_fd())).is_none());
        for number in [0, 0x7ffc, usize::MAX, 1 << 40] {
            assert!(EventDescriptors.find(without_provenance_mut(number)).is_none(), "{number}");
        }
    }

    #[test]
    fn a_set_event_is_readable_and_a_full_counter_blocks_nothing() {
        let event = create().unwrap();
        let sink = EventDescriptors.find(handle(event.as_raw_fd())).unwrap();
        assert!(!poll(event.as_raw_fd(), libc::POLLIN, 0));
        sink.set();
        assert!(poll(event.as_raw_fd(), libc::POLLIN, 0));
        let most = (u64::MAX - 2).to_ne_bytes();
        // SAFETY: The eight bytes are this function's own.
        let written = unsafe { libc::write(event.as_raw_fd(), most.as_ptr().cast(), 8) };
        assert_eq!(written, 8);
        // SAFETY: The function takes any number.
        unsafe { libc::fcntl(event.as_raw_fd(), libc::F_SETFL, 0) };
        sink.set();
        assert!(poll(event.as_raw_fd(), libc::POLLIN, 0));
    }

    #[test]
    fn the_key_is_of_a_handle_and_of_its_event() {
        let (first, second) = (create().unwrap(), create().unwrap());
        let key = |number| EventDescriptors.find(handle(number)).unwrap().key();
        let copy = duplicate(first.as_raw_fd(), LOWEST).unwrap();
        assert_eq!(key(first.as_raw_fd()), key(first.as_raw_fd()));
        assert_ne!(key(first.as_raw_fd()), key(copy.as_raw_fd()));
        assert_ne!(key(first.as_raw_fd()), key(second.as_raw_fd()));
    }
}
