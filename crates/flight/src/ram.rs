//! System memory, which the CPU, the hardware and clients share.

use crate::ExistingMemory;
use std::sync::Arc;

/// A piece of system memory, by its physical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Physical start address.
    pub start: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// System memory with real bytes, in pages.
///
/// A physical address is a number that repeats from run to run. An access to unallocated memory
/// returns `false` and has no other effect.
pub trait Ram: Send + Sync {
    /// Allocates contiguous zeroed pages.
    fn allocate(&self, bytes: u64) -> Option<Run>;

    /// Gives memory of a client physical addresses, contiguous ones: an access to this run is an
    /// access to the first `bytes` bytes of the memory, until the run is freed. `None` if that is
    /// not possible.
    fn attach(&self, _memory: Arc<dyn ExistingMemory>, _bytes: u64) -> Option<Run> {
        None
    }

    /// Frees an allocated or attached run as a whole.
    fn free(&self, run: Run);

    /// Reads bytes.
    fn read(&self, start: u64, into: &mut [u8]) -> bool;

    /// Writes bytes.
    fn write(&self, start: u64, bytes: &[u8]) -> bool;

    /// Fills bytes with a pattern.
    fn fill(&self, run: Run, pattern: u32) -> bool;

    /// Copies bytes. The ranges may overlap.
    fn copy(&self, from: u64, to: u64, bytes: u64) -> bool;

    /// Lends the bytes to their owner while `body` runs.
    fn with_slice(&self, run: Run, body: &mut dyn FnMut(&mut [u8])) -> bool;

    /// Maps these pieces for the CPU, contiguously, and returns the address. An attached run is
    /// mapped only alone, and only if it is a section; memory of this process is where it is.
    fn map(&self, runs: &[Run]) -> Option<usize>;

    /// As [`Ram::map`], for a DMA buffer of this size at the start of the pieces, between
    /// inaccessible addresses. `None` if memory is not guarded.
    fn map_guarded(&self, _runs: &[Run], _bytes: usize) -> Option<usize> {
        None
    }

    /// The mapping at this address is passed to the current driver call.
    fn pass_mapped(&self, _view: usize) {}

    /// Maps other pieces at the address of a mapping, or nothing: then every access traps.
    fn remap(&self, view: usize, runs: &[Run]) -> bool;

    /// The client's lock at the address of a mapping ends, by an unlock or a destroy. `locked` is
    /// the number of the view that was locked.
    fn lock_ended(&self, _view: usize, _locked: u32, _destroyed: bool) {}

    /// Removes a mapping.
    fn unmap(&self, view: usize);

    /// Reads bytes at an address, if one mapping contains all of them.
    fn read_mapped(&self, address: usize, into: &mut [u8]) -> bool;

    /// Writes bytes at an address, if one mapping contains all of them.
    fn write_mapped(&self, address: usize, bytes: &[u8]) -> bool;
}
