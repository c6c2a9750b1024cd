//! User-mode drivers that come as a file.
#![expect(unsafe_code, reason = "loads code that the user asked for")]

use runtime::{NotLoaded, Umd};
use std::path::Path;

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
