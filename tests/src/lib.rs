//! The harness of the integration tests: flights by name, and kernels without a scenario.
#![deny(unsafe_code)] // Modules that play applications allow it.

pub mod application_calls;
pub mod built;
pub mod c_umd;
pub mod command;
pub mod damage;
mod driver_file_inputs;
mod effort;
mod expected_surface;
mod failing_driver;
mod hostile;
mod log_watcher;
pub mod memory_client;
pub mod memory_testbed;
mod model;
pub mod pages;
mod pausable;
pub mod racing;
mod random_steps;
pub mod raw_umd;
mod recording_driver;
pub mod schema;
mod shared_context_allocation_driver;
pub mod sync;
mod test_case;
mod text_inputs;
mod variant_driver;

pub use driver_file_inputs::{
    contained_panics, load_as_image, read_as_driver_file, read_as_symbol_file,
};
pub use effort::repeats;
pub use expected_surface::Picture;
pub use failing_driver::{Fault, Faulty};
pub use hostile::{call_from_bytes, call_unguarded};
pub use log_watcher::{Watch, WatchState};
pub use model::Model;
pub use pausable::PausableGpu;
pub use random_steps::{Rng, life};
pub use recording_driver::{HookPoint, RecordingDriver};
pub use shared_context_allocation_driver::SharedContextAllocationDriver;
pub use test_case::{Case, Seen};
pub use text_inputs::{read_as_allow_file, read_as_trace_and_steps};
pub use variant_driver::VariantDriver;

use flight::{Event, Log, Passive, Spawner};
use kernel::{AdapterId, DriverSetup, Kernel};
use std::sync::Arc;
use verify::Verifier;
use windtunnel::{
    Driver, FlightResult, HostKind, PrivateData, SCENARIOS, Scenario, find_scenario, fly_driver,
};

/// Flies a driver through a scenario, both by name.
pub fn flown(driver: &str, scenario: &str, on: impl Into<HostKind>) -> FlightResult {
    let driver = Driver::find(driver).unwrap_or_else(|| panic!("there is no driver {driver}"));
    let body = find_scenario(scenario).unwrap_or_else(|| panic!("no scenario {scenario}"));
    fly_driver(driver, body, on).unwrap_or_else(|reason| panic!("{scenario}: {}", reason.0))
}

/// The good scenarios whose needs a driver meets.
pub fn good_scenarios(driver: &str) -> Vec<&'static Scenario> {
    let listed = drivers::find(driver).unwrap_or_else(|| panic!("there is no driver {driver}"));
    let miniport = (listed.make)(&Arc::new(Log::silent())).miniport;
    let (offered, kind) = (miniport.entry_points(), (miniport.kind(), miniport.generation()));
    let data = PrivateData::BuiltIn;
    let good = SCENARIOS.iter().copied().flatten().filter(|scenario| scenario.breaks.is_empty());
    good.filter(|scenario| scenario.needs.missing(&offered, kind, data).is_empty()).collect()
}

/// A kernel with a driver, for tests that are not scenarios.
pub struct KernelTestbed {
    /// The kernel.
    pub kernel: Arc<Kernel>,
    /// The kernel's adapter.
    pub adapter: AdapterId,
    /// The host.
    pub host: Arc<dyn Spawner>,
}

/// Runs a test on a started driver, then removes the adapter. No object may be alive afterwards.
/// Returns the events.
pub fn run(
    on: impl Into<HostKind>,
    make: impl FnOnce(&Arc<Log>) -> DriverSetup,
    body: impl FnOnce(&KernelTestbed, &mut Passive),
) -> Vec<Event> {
    let body = |testbed: &KernelTestbed, at: &mut Passive| {
        body(testbed, at);
        Ok(())
    };
    attempt(on, make, body).unwrap_or_else(|reason| panic!("{reason}"))
}

/// As above, but returns a failure instead of panicking.
pub fn attempt(
    on: impl Into<HostKind>,
    make: impl FnOnce(&Arc<Log>) -> DriverSetup,
    body: impl FnOnce(&KernelTestbed, &mut Passive) -> Result<(), String>,
) -> Result<Vec<Event>, String> {
    let log = Arc::new(Log::new());
    let setup = make(&log);
    let on = on.into();
    let flown = on.fly(&log, |host, at| {
        let kernel = Kernel::new(host.clone(), log.clone());
        if let HostKind::Deterministic { seed, pressure: true } = on {
            kernel.set_pressure(seed);
        }
        let (worker, work_available) = (kernel.clone(), kernel.work_available());
        host.spawn_worker("system", work_available, move |at| worker.run_pending_work(at));
        let adapter = kernel.add_adapter(at, setup).map_err(|reason| format!("{reason:?}"))?;
        kernel.start_workers(host, adapter);
        let testbed = KernelTestbed { kernel, adapter, host: host.clone() };
        body(&testbed, at)?;
        testbed.kernel.validate()?;
        testbed.kernel.remove_adapter(at, adapter);
        testbed.host.run_until_idle(at);
        let left = testbed.kernel.live_objects();
        if left.count() == 0 { Ok(()) } else { Err(format!("left alive:\n{left}")) }
    });
    flown.map_err(|reason| reason.0)??;
    let events = log.take();
    check_no_leaks(&events)?;
    Ok(events)
}

/// The list of live objects shows what the kernel still knows. This checks the events: every
/// created object was destroyed.
fn check_no_leaks(events: &[Event]) -> Result<(), String> {
    const LIFETIMES: [(&str, &str); 9] = [
        ("device.created", "device.destroyed"),
        ("context.created", "context.destroyed"),
        ("resource.created", "resource.destroyed"),
        ("resource-view.opened", "resource-view.closed"),
        ("allocation.created", "allocation.destroyed"),
        ("view.opened", "view.closed"),
        ("context-allocation.created", "context-allocation.destroyed"),
        ("keyed-mutex.created", "keyed-mutex.destroyed"),
        ("instance.created", "instance.destroyed"),
    ];
    let count = |name: &str| events.iter().filter(|event| event.kind.name() == name).count();
    match LIFETIMES.iter().find(|(created, destroyed)| count(created) != count(destroyed)) {
        None => Ok(()),
        Some((created, destroyed)) => {
            Err(format!("{} {created}, {} {destroyed}", count(created), count(destroyed)))
        }
    }
}

/// The built-in driver.
pub fn softgpu(log: &Arc<Log>) -> DriverSetup {
    let (miniport, machine) = softgpu::SoftGpu::new();
    DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(log.clone()) }
}

/// Runs the verifier over events.
pub fn verified(events: &[Event]) -> Verifier {
    let mut verifier = Verifier::new();
    for event in events {
        verifier.observe(event);
    }
    verifier
}
