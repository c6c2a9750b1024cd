//! Drivers from outside this crate: an image, a shared object, or a user-mode driver in safe Rust.
#![expect(unsafe_code, reason = "loads code that the user requested, and vouches for safe code")]

use nt::image::{ImageError, Module};
use port::{LoadContext, Registered};
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

/// Loads a kernel-mode driver from its file, whose bytes are `file`, with its imports bound. It
/// stays loaded until the process ends: the driver's threads and callbacks may outlive its flight.
pub fn load_driver(path: &Path, file: &[u8]) -> Result<&'static Module, ImageError> {
    Ok(Box::leak(Box::new(Module::load(path, file, port::resolve_import)?)))
}

/// Runs `DriverEntry` of a loaded driver. As for [`load_umd`], it is native code that runs in this
/// process, as the user requested.
pub fn run_driver_entry(
    module: &'static Module,
    context: LoadContext<'_>,
) -> Result<Registered, port::LoadError> {
    // SAFETY: The user names the file and vouches for it.
    unsafe { port::run_driver_entry(module, context) }
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
