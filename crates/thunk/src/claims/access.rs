//! How the owner of a session accesses the memory of its callers.

use std::fmt::Debug;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Functions that access memory at an address which may be any number of the programs' half of the
/// address space, without a system call.
#[derive(Clone, Copy, Debug)]
pub struct DirectAccess {
    /// Copies bytes.
    ///
    /// # Safety
    ///
    /// `to` or `from` is ours and has `bytes` bytes. The other one never points to memory of this
    /// library. The two do not overlap.
    pub copy: unsafe fn(to: *mut u8, from: *const u8, bytes: usize) -> DirectAccessResult,
    /// Writes a byte of each page, which it has read there, to find out whether that is possible.
    ///
    /// # Safety
    ///
    /// There is at least one byte. The address never points to memory of this library.
    pub probe: unsafe fn(at: *mut u8, bytes: usize) -> DirectAccessResult,
}

/// How a [`DirectAccess`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectAccessResult {
    /// All bytes were accessed.
    Done,
    /// It reached memory that cannot be accessed.
    Fault,
    /// Nothing was accessed, because a fault would not be survived now: the operating system copies.
    Unavailable,
}

/// Functions that access the memory of a caller in another process, for the call that the thread
/// makes for it. Each returns whether it was possible.
#[derive(Clone, Copy, Debug)]
pub struct RemoteAccess {
    /// Reads all bytes at an address, and checks that they can be written if results go there.
    pub read: fn(from: usize, to: &mut [MaybeUninit<u8>], gets_results: bool) -> bool,
    /// Writes bytes before the call returns. Memory that was not checked before may turn out to be
    /// inaccessible only then, and the call fails.
    pub write: fn(to: usize, bytes: &[u8]) -> bool,
    /// Maps memory of this process in the caller's, and returns its address there.
    pub show: fn(address: usize, access: ShownAccess) -> Option<usize>,
    /// Whether the caller has ended: what its call does from then on is not its fault.
    pub is_gone: fn() -> bool,
    /// The caller's process, whose memory can be accessed outside of the call, too.
    pub process: fn() -> Option<Arc<dyn CallerProcess>>,
    /// Takes a copy of a descriptor of the caller, by its number there.
    pub take_descriptor: fn(number: i32) -> Option<OwnedFd>,
}

/// A process whose memory the operating system copies.
pub trait CallerProcess: Debug + Send + Sync {
    /// Its number in the operating system.
    fn number(&self) -> i32;
    /// Whether it has ended: its number may mean another process.
    fn has_ended(&self) -> bool;
}

/// The process that this code runs in.
#[derive(Debug)]
pub(crate) struct ThisProcess(pub(crate) i32);

impl CallerProcess for ThisProcess {
    fn number(&self) -> i32 {
        self.0
    }

    fn has_ended(&self) -> bool {
        false
    }
}

/// What a caller may do with memory that it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownAccess {
    /// The caller may read it: the value of a fence.
    Read,
    /// The caller may write it: an allocation, a command buffer.
    ReadWrite,
}
