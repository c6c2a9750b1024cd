//! What is remembered of keyed mutexes.

use super::{Process, Serial};
use flight::Hex;

/// Of a keyed mutex.
#[derive(Debug)]
pub struct KeyedMutex {
    /// Whose turn it is.
    pub state: KeyedMutexState,
    /// How many bytes of the runtime's data it has.
    pub runtime: u64,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyedMutexState {
    /// Of whoever asks for a key, and gets the fence value of the last release.
    Free {
        /// The key.
        key: u64,
        /// The fence value.
        fence: u64,
    },
    /// Of a process, through a name.
    Owned(Serial<Process>, Hex),
    /// Nobody's any more.
    Abandoned,
}
