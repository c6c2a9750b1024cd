//! Synchronisation objects: what contexts and clients wait for.

use crate::kernel::Kernel;
use crate::world::World;
use smallvec::SmallVec;

/// What a context waits for or signals: objects by number, each with a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(pub(crate) SmallVec<[(u32, u64); 2]>);

impl Kernel {
    /// Passes a wait that stands first in a context's line: takes all it names or nothing. When
    /// it answers false the context is noted with what it lacks.
    pub(crate) fn try_pass(&self, _world: &mut World, _context: u32, _wait: &Marks) -> bool {
        true
    }

    /// A context has come to a signal: values rise, waiters wake.
    pub(crate) fn signal_marks(&self, _world: &mut World, _context: u32, _signal: &Marks) {}

    /// A wait or signal in a line will never be reached: references go.
    pub(crate) fn drop_marks(&self, _world: &mut World, _context: u32, _marks: &Marks) {}

    /// A device was hit by a reset: fences that it could signal have their highest value.
    pub(crate) fn reset_fences(&self, _world: &mut World, _device: u32) {}
}

impl World {
    /// What a wait lacks, in words.
    pub(crate) fn lacks(&self, _wait: &Marks) -> String {
        String::new()
    }
}
