//! User-mode drivers of others: a file, or safe Rust.
#![expect(unsafe_code, reason = "loads code that the user asked for, and vouches for safe code")]

use runtime::{NotLoaded, Umd};
use std::path::Path;
use umd::UserDriver;

/// Loads a user-mode driver from a shared object of this machine, which exports `OpenAdapter`
/// with the Windows calling convention.
///
/// This is native code, and it runs in this process: whoever names the file asks for that. Its
/// pointers are not believed where it calls back, but what it does with its own is its own: one
/// that writes where it should not can end the process, as a driver on Windows ends its
/// application.
pub fn load_umd(path: &Path) -> Result<Umd, NotLoaded> {
    // SAFETY: Whoever names a file vouches for it: to run it is what was asked for.
    unsafe { Umd::load(path) }
}

/// A user-mode driver that is written in safe Rust.
pub fn umd_of<D: UserDriver>() -> Umd {
    // SAFETY: The functions are those of `umd`: what they call back with is good, whatever the
    // driver does.
    unsafe { Umd::of(umd::open_adapter::<D>) }
}
