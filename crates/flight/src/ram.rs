//! The machine's memory: what the CPU, the hardware and clients all see.

/// A piece of the machine's memory, by its physical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it begins.
    pub start: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

/// System memory with real bytes, in pages.
///
/// A physical address is a number: it repeats from run to run. What is not taken is not there,
/// so whoever touches it is answered `false`, and nothing else happens.
pub trait Ram: Send + Sync {
    /// Takes whole pages of zeroes, one behind the other.
    fn allocate(&self, bytes: u64) -> Option<Run>;

    /// Gives back what was taken, as it was taken.
    fn free(&self, run: Run);

    /// Reads bytes.
    fn read(&self, start: u64, into: &mut [u8]) -> bool;

    /// Writes bytes.
    fn write(&self, start: u64, bytes: &[u8]) -> bool;

    /// Sets bytes.
    fn fill(&self, run: Run, pattern: u32) -> bool;

    /// Copies bytes, also where the two overlap.
    fn copy(&self, from: u64, to: u64, bytes: u64) -> bool;

    /// Lends the bytes to the one who owns them, for as long as `body` runs.
    fn with_slice(&self, run: Run, body: &mut dyn FnMut(&mut [u8])) -> bool;

    /// Shows these pieces to the CPU, one behind the other, and answers at which address.
    fn map(&self, runs: &[Run]) -> Option<usize>;

    /// Shows other pieces at the address of a view, or nothing: then whoever touches it traps.
    fn remap(&self, view: usize, runs: &[Run]) -> bool;

    /// Ends a view.
    fn unmap(&self, view: usize);

    /// Reads bytes at an address, if one view shows all of them now.
    fn read_mapped(&self, address: usize, into: &mut [u8]) -> bool;

    /// Writes bytes at an address, if one view shows all of them now.
    fn write_mapped(&self, address: usize, bytes: &[u8]) -> bool;
}
