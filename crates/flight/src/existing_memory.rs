//! Memory of a client that an allocation uses in place of pages of the system.

use std::fmt::Debug;
use std::fs::File;

/// Memory of a client. Its bytes are the client's, which may change them at any time.
pub trait ExistingMemory: Debug + Send + Sync {
    /// Its size in bytes, in whole pages.
    fn bytes(&self) -> u64;

    /// Reads bytes. Bytes that cannot be accessed any more are zeros.
    fn read(&self, offset: u64, into: &mut [u8]);

    /// Writes bytes. Bytes that cannot be accessed any more are not written.
    fn write(&self, offset: u64, bytes: &[u8]);

    /// Its address in the client, if the client has given an address.
    fn client_address(&self) -> Option<usize> {
        None
    }

    /// Its address in this process, if it is memory of this process: drivers that map pages can be
    /// given that address.
    fn address_here(&self) -> Option<usize> {
        None
    }

    /// The file that begins with its bytes, if it is a section.
    fn file(&self) -> Option<&File> {
        None
    }

    /// The first access that failed because the client took the memory away. The end of the
    /// client's process is no such reason.
    fn failed_access(&self) -> Option<FailedAccess>;
}

/// An access to memory that a client has taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedAccess {
    /// Where in the memory.
    pub offset: u64,
    /// Whether it was a write.
    pub is_write: bool,
}
