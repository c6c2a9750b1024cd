//! NT handles of clients: file descriptors.
//!
//! An NT handle is the reading end of a pipe. The library keeps the writing end, which tells when
//! the last copy of the reading end is closed, in this process or in another one. So `close(2)`,
//! `dup(2)` and `SCM_RIGHTS` work on an NT handle.
//!
//! # Invariants
//!
//! 1. An NT handle is known by the inode of its pipe and not by its number, which the operating
//!    system uses again. Both ends of a pipe have one inode.
//! 2. No descriptor of the library is closed before its inode was compared: a client may have
//!    closed it and used its number again.
//! 3. A call that looks at NT handles or names first closes the closed ones in the kernel, or waits
//!    until another thread has closed them there. Without any NT handle this makes no system call.
#![expect(unsafe_code, reason = "calls the operating system")]

use abi::NTSTATUS;
use abi::status::STATUS_INSUFFICIENT_RESOURCES;
use kernel::NtHandleId;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use thunk::NtHandles;

/// The lowest number of an NT handle: not one of the standard streams.
const LOWEST: libc::c_int = 3;

/// The lowest number of a descriptor of the library, if so many are allowed: out of the way of a
/// client that counts its descriptors.
const LOWEST_INTERNAL: libc::c_int = 256;

/// The number of closed NT handles that one system call reports.
const CLOSED_AT_ONCE: usize = 32;

/// The NT handles of this process.
#[derive(Debug, Default)]
pub struct NtDescriptors {
    state: Mutex<DescriptorState>,
}

#[derive(Debug, Default)]
struct DescriptorState {
    /// Reports which pipes have no reading end any more; created with the first NT handle.
    epoll: Option<Descriptor>,
    /// By inode.
    pipes: BTreeMap<u64, Pipe>,
}

/// The pipe of an NT handle.
#[derive(Debug)]
struct Pipe {
    handle: NtHandleId,
    /// The writing end, which is closed with this.
    #[expect(dead_code, reason = "only dropped")]
    end: Descriptor,
}

/// A descriptor of the library, with the inode that it had.
#[derive(Debug)]
struct Descriptor {
    number: libc::c_int,
    inode: u64,
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // The client may have closed it, and the number may be the client's now.
        if inode_of(self.number) == Some(self.inode) {
            // SAFETY: The descriptor is ours, and nothing uses it any more.
            unsafe { libc::close(self.number) };
        }
    }
}

impl Descriptor {
    /// Takes over a descriptor; `None` if it is not open.
    fn own(number: libc::c_int) -> Option<Self> {
        let moved = duplicate(number, LOWEST_INTERNAL);
        if moved >= 0 {
            // SAFETY: The descriptor is ours, and its duplicate replaces it.
            unsafe { libc::close(number) };
        }
        let number = if moved >= 0 { moved } else { number };
        Some(Self { number, inode: inode_of(number)? })
    }
}

/// A duplicate of a descriptor with a number that is not lower, which is closed by `execve`; -1 if
/// there can be none.
fn duplicate(number: libc::c_int, lowest: libc::c_int) -> libc::c_int {
    // SAFETY: The function takes any numbers.
    unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, lowest) }
}

/// The inode of a descriptor; `None` if it is not open.
fn inode_of(number: libc::c_int) -> Option<u64> {
    status_of(number).map(|status| status.st_ino)
}

fn status_of(number: libc::c_int) -> Option<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: The function takes any number, and `status` has room for its result.
    let failed = unsafe { libc::fstat(number, status.as_mut_ptr()) } != 0;
    // SAFETY: The function has filled it in.
    (!failed).then(|| unsafe { status.assume_init() })
}

/// Whether a descriptor is a reading end.
fn is_reading_end(number: libc::c_int) -> bool {
    // SAFETY: The function takes any number.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_ACCMODE == libc::O_RDONLY
}

/// The number of a client's handle as a descriptor.
fn descriptor(number: usize) -> Option<libc::c_int> {
    libc::c_int::try_from(number).ok().filter(|number| *number > 0)
}

impl NtDescriptors {
    /// Creates the pipe of an NT handle. Returns its reading end; `None` if there can be no more
    /// descriptors.
    pub fn create(&self, handle: NtHandleId) -> Option<OwnedFd> {
        let number = self.state().create_pipe(handle)?;
        // SAFETY: The descriptor was just created, and nothing else owns it.
        Some(unsafe { OwnedFd::from_raw_fd(number) })
    }

    /// The NT handle of a descriptor.
    pub fn find_descriptor(&self, descriptor: BorrowedFd<'_>) -> Option<NtHandleId> {
        self.find_number(descriptor.as_raw_fd())
    }

    /// Forgets all NT handles, and returns them.
    pub fn take_all(&self) -> Vec<NtHandleId> {
        std::mem::take(&mut self.state().pipes).into_values().map(|pipe| pipe.handle).collect()
    }

    /// A descriptor that can be read when an NT handle was closed; `None` before the first one.
    pub fn closed_signal(&self) -> Option<RawFd> {
        self.state().epoll.as_ref().map(|epoll| epoll.number)
    }

    fn find_number(&self, number: RawFd) -> Option<NtHandleId> {
        let state = self.state();
        if state.pipes.is_empty() {
            return None;
        }
        let status = status_of(number)?;
        let found = state.pipes.get(&status.st_ino).map(|pipe| pipe.handle)?;
        let is_pipe = status.st_mode & libc::S_IFMT == libc::S_IFIFO;
        (is_pipe && is_reading_end(number)).then_some(found)
    }

    fn state(&self) -> MutexGuard<'_, DescriptorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NtHandles for NtDescriptors {
    fn publish(&self, handle: NtHandleId, inherit: bool) -> Result<usize, NTSTATUS> {
        let end = self.create(handle).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let number = end.into_raw_fd();
        if inherit {
            // SAFETY: The descriptor is open; the flag of `execve` is cleared.
            unsafe { libc::fcntl(number, libc::F_SETFD, 0) };
        }
        usize::try_from(number).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)
    }

    fn find(&self, number: usize) -> Option<NtHandleId> {
        self.find_number(descriptor(number)?)
    }

    fn close_closed(&self, close: &mut dyn FnMut(NtHandleId)) {
        // Locked while `close` runs: another thread's call returns after it.
        let mut state = self.state();
        if state.pipes.is_empty() {
            return;
        }
        while let Some(inodes) = state.closed_inodes() {
            let count = inodes.len();
            let pipes = inodes.iter().filter_map(|inode| state.pipes.remove(inode));
            pipes.for_each(|pipe| close(pipe.handle));
            if count < CLOSED_AT_ONCE {
                break;
            }
        }
    }
}

impl DescriptorState {
    /// Creates the pipe of an NT handle. Returns the number of its reading end; `None` if there can
    /// be no more descriptors.
    fn create_pipe(&mut self, handle: NtHandleId) -> Option<libc::c_int> {
        let epoll = self.epoll()?;
        let mut ends = [-1; 2];
        // SAFETY: The array has room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return None;
        }
        let [mut reading, writing] = ends;
        let close = |number: libc::c_int| {
            // SAFETY: The descriptor is ours, and nothing uses it.
            unsafe { libc::close(number) };
        };
        let end = Descriptor::own(writing)?;
        if reading < LOWEST {
            let moved = duplicate(reading, LOWEST);
            close(reading);
            reading = moved;
        }
        let mut wanted = libc::epoll_event { events: 0, u64: end.inode };
        // SAFETY: Both descriptors are open, and `wanted` is read only. An error, which tells that
        // there is no reading end, is always reported.
        let added =
            unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, end.number, &raw mut wanted) };
        if reading < 0 || added != 0 {
            if reading >= 0 {
                close(reading);
            }
            return None;
        }
        self.pipes.insert(end.inode, Pipe { handle, end });
        Some(reading)
    }

    /// The descriptor that reports closed NT handles.
    fn epoll(&mut self) -> Option<libc::c_int> {
        if self.epoll.is_none() {
            // SAFETY: The function has no requirements.
            let number = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
            self.epoll = if number < 0 { None } else { Descriptor::own(number) };
        }
        self.epoll.as_ref().map(|epoll| epoll.number)
    }

    /// Inodes of pipes that have no reading end; `None` if that cannot be found out.
    fn closed_inodes(&self) -> Option<Vec<u64>> {
        let epoll = self.epoll.as_ref()?.number;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; CLOSED_AT_ONCE];
        let room = libc::c_int::try_from(events.len()).ok()?;
        // SAFETY: The array has room for that many events. A number that is no epoll descriptor any
        // more is an error.
        let count = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), room, 0) };
        let count = usize::try_from(count).ok()?;
        Some(events.iter().take(count).map(|event| event.u64).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_a_client_is_no_descriptor_by_itself() {
        assert_eq!(
            [descriptor(0), descriptor(7), descriptor(usize::MAX), descriptor(1 << 31)],
            [None, Some(7), None, None]
        );
    }

    #[test]
    fn a_descriptor_that_was_replaced_is_not_closed() {
        let number = duplicate(1, 100);
        let stale = Descriptor { number, inode: inode_of(number).unwrap() + 1 };
        drop(stale);
        assert!(inode_of(number).is_some());
        drop(Descriptor { number, inode: inode_of(number).unwrap() });
        assert_eq!(inode_of(number), None);
    }
}
