//! Shadows of keyed mutexes.

use super::{Process, Serial};
use flight::Hex;

/// Of a keyed mutex.
#[derive(Debug)]
pub struct KeyedMutex {
    /// The turn.
    pub state: KeyedMutexState,
    /// How many bytes of the runtime's data it has.
    pub runtime: u64,
    /// Whether it was created for NT handles.
    pub nt: bool,
}

/// The turn of a keyed mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyedMutexState {
    /// Free: an acquire with this key gets it, and the fence value of the last release.
    Free {
        /// The key.
        key: u64,
        /// The fence value.
        fence: u64,
    },
    /// Held by a process, through a handle.
    Owned(Serial<Process>, Hex),
    /// Abandoned.
    Abandoned,
}
