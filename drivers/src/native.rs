//! User-mode drivers from outside this crate: a shared object, or safe Rust.
#![expect(unsafe_code, reason = "loads code that the user requested, and vouches for safe code")]

use runtime::{LoadError, Umd};
use std::path::Path;
use umd::{UserDriver, VisibleMemory};

/// Loads a user-mode driver from a shared object of this machine, which exports `OpenAdapter`
/// with the Windows calling convention.
///
/// This is native code that runs in this process, as the user requested. Pointers that it passes to
/// callbacks are validated, but its own memory accesses are not: a stray write can end the process,
/// as a driver on Windows ends its application.
pub fn load_umd(path: &Path) -> Result<Umd, LoadError> {
    // SAFETY: The user names the file and vouches for it.
    unsafe { Umd::load(path) }
}

/// Wraps a user-mode driver that is written in safe Rust.
pub fn umd_from_rust<D: UserDriver>() -> Umd {
    // SAFETY: The functions are those of `umd`: what they call back with is good, whatever the
    // driver does, and what the runtime shows they touch through the runtime.
    unsafe { Umd::new(umd::open_adapter::<D, RuntimeMemory>) }
}

/// The memory that the runtime shows to the driver running on this thread.
pub(crate) struct RuntimeMemory;

impl VisibleMemory for RuntimeMemory {
    fn read(address: usize, bytes: &mut [u8]) -> bool {
        runtime::read_visible(address, bytes)
    }

    fn write(address: usize, bytes: &[u8]) -> bool {
        runtime::write_visible(address, bytes)
    }
}
