//! The driver behind a kernel for clients: the built-in one, or the one that a name chooses, which is
//! that of a good driver or of a file.

use crate::driver_file::OpenedFile;
use flight::{Log, Pool, ThreadedHost};
use kernel::DriverSetup;
use softgpu::{HandlePool, MemoryPlan, SoftGpu};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

/// The environment variable that chooses the driver.
const VARIABLE: &str = "WINDTUNNEL_DRIVER";

/// The memory of the machine, for the built-in GPU and for the system. It is reserved and not
/// committed until it is touched.
const MACHINE_MEMORY: u64 = 4 << 30;

/// The driver that the environment names, if it names one.
fn name_of_environment() -> Option<OsString> {
    std::env::var_os(VARIABLE).filter(|value| !value.is_empty())
}

/// Whether the environment names a file.
pub fn is_file_of_environment() -> bool {
    name_of_environment().is_some_and(|name| is_file(&name))
}

/// Sets up the driver that the environment names, or the built-in one with much memory.
///
/// # Errors
///
/// Why there is no driver, in one line.
pub fn from_environment(host: &Arc<ThreadedHost>, log: &Arc<Log>) -> Result<DriverSetup, String> {
    let Some(name) = name_of_environment() else { return built_in(log) };
    if is_file(&name) {
        let set_up = open(Path::new(&name)).and_then(|file| file.set_up(host, log));
        return set_up.map_err(|why| format!("{VARIABLE}: {why}; there is no adapter"));
    }
    named(&name, log).map_err(|why| format!("{VARIABLE} is {why}; there is no adapter"))
}

/// Whether a driver is named by a path: no name of a built-in one has a dot or a slash.
pub fn is_file(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().any(|letter| matches!(letter, b'.' | b'/'))
}

/// Opens a driver from a file, which stays until the process ends.
///
/// # Errors
///
/// Why it cannot be loaded: a sentence about the file.
pub fn open(path: &Path) -> Result<&'static OpenedFile, String> {
    Ok(Box::leak(Box::new(OpenedFile::open(path)?)))
}

/// Sets up a good driver by its name.
///
/// # Errors
///
/// What the name is instead: a part of a sentence.
pub fn named(name: &OsStr, log: &Arc<Log>) -> Result<DriverSetup, String> {
    let chosen = name.to_str().and_then(drivers::find).filter(|driver| driver.breaks.is_empty());
    chosen
        .map(|driver| (driver.make)(log))
        .ok_or_else(|| format!("{}, which is none of {}", name.display(), choices().join(", ")))
}

/// The names of the good drivers.
fn choices() -> Vec<&'static str> {
    let good = drivers::ALL.iter().filter(|driver| driver.breaks.is_empty());
    good.map(|driver| driver.name).collect()
}

/// Sets up the built-in driver with much memory.
///
/// # Errors
///
/// Why there is no memory, in one line.
pub fn built_in(log: &Arc<Log>) -> Result<DriverSetup, String> {
    let ram = nt::Ram::new(MACHINE_MEMORY);
    let ram = ram.map_err(|error| format!("cannot reserve memory: {error}"))?;
    let (miniport, hardware) = SoftGpu::with_memory(ram, MemoryPlan::default());
    // Without a report no one asks about blocks of its pool, and numbers do.
    let pool: Arc<dyn Pool> =
        if log.is_enabled() { nt::Pool::new(log.clone()) } else { HandlePool::new() };
    Ok(DriverSetup { miniport, hardware, pool })
}
