//! The driver behind the exported functions: the built-in one, or the one that the environment
//! names.

use flight::{Log, Pool};
use kernel::DriverSetup;
use softgpu::{HandlePool, MemoryPlan, SoftGpu};
use std::ffi::OsStr;
use std::sync::Arc;

/// The environment variable that chooses the driver.
const VARIABLE: &str = "WINDTUNNEL_DRIVER";

/// The memory of the machine, for the built-in GPU and for the system. It is reserved and not
/// committed until it is touched.
const MACHINE_MEMORY: u64 = 4 << 30;

/// Sets up the driver that the environment names, or the built-in one with much memory.
///
/// # Errors
///
/// Why there is no driver, in one line.
pub fn from_environment(log: &Arc<Log>) -> Result<DriverSetup, String> {
    let Some(name) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return built_in(log);
    };
    named(&name, log).map_err(|why| format!("{VARIABLE} is {why}; there is no adapter"))
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
