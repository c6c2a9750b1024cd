//! Flights for tests: a custom driver, a custom scenario, and assertions on the result.

use crate::fly::{FlightResult, HostKind, Outcome, fly_body};
use crate::needs::Needs;
use crate::testbed::{ScenarioStopped, Testbed};
use flight::{HardwareModel, InterruptLine, Log, Passive, RuleId};
use kernel::DriverSetup;
use kernel::miniport::Miniport;
use runtime::Umd;
use std::sync::Arc;

/// A flight before its start: a driver and a host.
///
/// The scenario gets the [`Testbed`] with the driver started. When the scenario ends, remaining
/// clients are killed, the adapter is stopped and removed, the driver is unloaded, and the
/// verifier evaluates all events.
///
/// ```
/// use windtunnel::Flight;
///
/// let (miniport, hardware) = windtunnel::softgpu::SoftGpu::new();
/// let result = Flight::new(miniport, hardware).seed(7).fly(|testbed| {
///     let client = testbed.test_client()?; // a process with a device
///     let created = client.create_resource(testbed.at, 3)?;
///     client.destroy_resource(testbed.at, created.resource)?;
///     testbed.run_until_idle();
///     client.close(testbed.at, &[])
/// });
/// result.assert_clean();
/// ```
///
/// A driver that breaks a rule is reported:
///
/// ```
/// use windtunnel::{Flight, softgpu::SoftGpu, prelude::*};
/// use std::sync::Arc;
///
/// struct Empty(Arc<SoftGpu>);
///
/// impl Miniport for Empty {
///     fn delegate(&self) -> Option<&dyn Miniport> {
///         Some(&*self.0)
///     }
///
///     fn create_allocations(
///         &self,
///         at: &mut Passive,
///         args: &mut CreateAllocationArgs<'_>,
///     ) -> DriverResult<Option<DriverResource>> {
///         let resource = self.0.create_allocations(at, args)?;
///         args.allocations.iter_mut().for_each(|new| new.info.size = 0);
///         Ok(resource)
///     }
/// }
///
/// let (driver, gpu) = SoftGpu::new();
/// let result = Flight::new(Arc::new(Empty(driver)), gpu).fly(|testbed| {
///     let client = testbed.test_client()?;
///     client.create(testbed.at, 1).map(drop)
/// });
/// result.assert_finding("KMD-ALLOC-002");
/// ```
#[must_use = "a flight starts with `fly`"]
pub struct Flight {
    set_up: SetUpDriver,
    umd: Option<Umd>,
    host: HostKind,
}

/// Sets up a driver. Its pool reports to the log.
type SetUpDriver = Box<dyn FnOnce(&Arc<Log>) -> DriverSetup>;

impl Flight {
    /// A flight of a driver and its hardware, with a new pool.
    pub fn new(miniport: Arc<dyn Miniport>, machine: Arc<dyn HardwareModel>) -> Self {
        Self::with_setup(set_up(miniport, machine))
    }

    /// A flight of the driver that `make` sets up. Its pool must report to the given log.
    pub fn with_setup(make: impl FnOnce(&Arc<Log>) -> DriverSetup + 'static) -> Self {
        Self { set_up: Box::new(make), umd: None, host: HostKind::deterministic(1) }
    }

    /// Adds a user-mode driver.
    pub fn umd(self, umd: Umd) -> Self {
        Self { umd: Some(umd), ..self }
    }

    /// Sets the seed that determines the order of threads; the default is 1.
    pub fn seed(self, seed: u64) -> Self {
        self.host(seed)
    }

    /// Sets the host: [`HostKind::Threaded`], or a deterministic one with a seed.
    pub fn host(self, on: impl Into<HostKind>) -> Self {
        Self { host: on.into(), ..self }
    }

    /// Starts the driver, runs the scenario, ends everything, and returns the result.
    ///
    /// # Panics
    ///
    /// If the flight could not be run, for example because one of its threads panicked.
    pub fn fly(
        self,
        body: impl FnOnce(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
    ) -> FlightResult {
        let flight_result =
            fly_body((self.set_up, self.umd), "flight", &Needs::NONE, self.host, body);
        flight_result.unwrap_or_else(|reason| panic!("the flight could not be run: {}", reason.0))
    }
}

/// Assertions on a flight. A failed assertion prints the whole report.
impl FlightResult {
    /// Asserts that the scenario was flown to its end, without findings and without live objects.
    #[track_caller]
    pub fn assert_clean(&self) {
        let clean = self.outcome == Outcome::Clean && self.live.count() == 0;
        assert!(clean, "the flight was not clean\n{}", self.report());
    }

    /// Asserts that the rule was broken at least once, by any component.
    #[track_caller]
    pub fn assert_finding(&self, rule: &str) {
        assert!(RuleId::find(rule).is_some(), "{rule} is not the name of a live rule");
        assert!(
            self.findings.iter().any(|finding| finding.rule.name() == rule),
            "{rule} was not broken\n{}",
            self.report()
        );
    }
}

/// Sets up a driver and its hardware, with a new pool.
pub fn set_up(
    miniport: Arc<dyn Miniport>,
    machine: Arc<dyn HardwareModel>,
) -> impl FnOnce(&Arc<Log>) -> DriverSetup {
    move |log| DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(log.clone()) }
}

/// Hardware that does nothing, for drivers without submissions.
///
/// ```
/// use windtunnel::{Flight, NoHardware, softgpu::SoftGpu};
/// use std::sync::Arc;
///
/// let (miniport, _gpu) = SoftGpu::new();
/// let result = Flight::new(miniport, Arc::new(NoHardware)).fly(|testbed| {
///     let client = testbed.test_client()?;
///     client.close(testbed.at, &[])
/// });
/// result.assert_clean();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHardware;

impl HardwareModel for NoHardware {
    fn idle(&self) -> bool {
        true
    }

    fn step(&self, _at: &mut Passive, _line: &dyn InterruptLine) {}

    fn models_hardware(&self) -> bool {
        false
    }
}
