//! Flights for tests: a driver of one's own, a story of one's own, and what to assert of it.

use crate::fly::{FlightResult, HostKind, Outcome, fly_body};
use crate::testbed::{ScenarioStopped, Testbed};
use flight::{HardwareModel, InterruptLine, Log, Passive, RuleId};
use kernel::DriverSetup;
use kernel::miniport::Miniport;
use runtime::Umd;
use std::sync::Arc;

/// A flight about to start: a driver, and who runs it.
///
/// The story gets the [`Testbed`], with the driver started in it. When it ends, everything else
/// is ended too: clients that are left are killed, the adapter is stopped and removed, the
/// driver is unloaded, and the verifier watches all that happened.
///
/// ```
/// use windtunnel::Flight;
///
/// let (miniport, machine) = windtunnel::softgpu::SoftGpu::new();
/// let flown = Flight::new(miniport, machine).seed(7).fly(|tunnel| {
///     let bench = tunnel.bench()?; // a client with a device
///     let made = bench.create_resource(tunnel.at, 3)?;
///     bench.destroy_resource(tunnel.at, made.resource)?;
///     tunnel.settle(); // let everything run that can
///     bench.close(tunnel.at, &[])
/// });
/// flown.assert_clean();
/// ```
///
/// A driver that breaks a rule is named:
///
/// ```
/// use windtunnel::{Flight, softgpu::SoftGpu, prelude::*};
/// use std::sync::Arc;
///
/// struct Empty(Arc<SoftGpu>);
///
/// impl Miniport for Empty {
///     fn stands_on(&self) -> Option<&dyn Miniport> {
///         Some(&*self.0)
///     }
///
///     fn create_allocations(&self, at: &mut Passive, births: Births<'_>) -> Answer<Born> {
///         let mut born = self.0.create_allocations(at, births)?;
///         born.allocations.iter_mut().for_each(|(_, shape)| shape.size = 0);
///         Ok(born)
///     }
/// }
///
/// let (driver, gpu) = SoftGpu::new();
/// let flown = Flight::new(Arc::new(Empty(driver)), gpu).fly(|tunnel| {
///     let bench = tunnel.bench()?;
///     bench.create(tunnel.at, 1).map(drop)
/// });
/// flown.assert_finding("KMD-ALLOC-002");
/// ```
#[must_use = "a flight starts with `fly`"]
pub struct Flight {
    set_up: SetUpDriver,
    umd: Option<Umd>,
    host: HostKind,
}

/// Plugs in a driver whose pool says to that log what happens.
type SetUpDriver = Box<dyn FnOnce(&Arc<Log>) -> DriverSetup>;

impl Flight {
    /// A flight of a driver and its hardware, with a pool made for it.
    pub fn new(miniport: Arc<dyn Miniport>, machine: Arc<dyn HardwareModel>) -> Self {
        Self::with_setup(set_up(miniport, machine))
    }

    /// A flight of whatever `make` plugs in; its pool says to that log what happens.
    pub fn with_setup(make: impl FnOnce(&Arc<Log>) -> DriverSetup + 'static) -> Self {
        Self { set_up: Box::new(make), umd: None, host: HostKind::Deterministic(1) }
    }

    /// The user-mode driver that belongs to it.
    pub fn umd(self, umd: Umd) -> Self {
        Self { umd: Some(umd), ..self }
    }

    /// The seed that the order of threads is drawn from; 1 if nobody says.
    pub fn seed(self, seed: u64) -> Self {
        self.host(seed)
    }

    /// Who runs it: [`On::Free`], or [`On::Stepped`] with a seed.
    pub fn host(self, on: impl Into<HostKind>) -> Self {
        Self { host: on.into(), ..self }
    }

    /// Starts the driver, tells the story, ends everything, and answers what became of it.
    ///
    /// # Panics
    ///
    /// If the flight could not be run at all, as when a thread of it panicked.
    pub fn fly(
        self,
        body: impl FnOnce(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
    ) -> FlightResult {
        let flight_result = fly_body((self.set_up, self.umd), "flight", &[], self.host, body);
        flight_result.unwrap_or_else(|reason| panic!("the flight could not be run: {}", reason.0))
    }
}

/// What to assert of a flight. A failed assertion shows the whole report.
impl FlightResult {
    /// The story was told to its end, nothing was wrong, and nothing is left alive.
    #[track_caller]
    pub fn assert_clean(&self) {
        let clean = self.outcome == Outcome::Clean && self.live.count() == 0;
        assert!(clean, "the flight was not clean\n{}", self.report());
    }

    /// That rule was broken, by whomever and however often.
    #[track_caller]
    pub fn assert_finding(&self, rule: &str) {
        assert!(RuleId::find(rule).is_some(), "{rule} is not the name of a live rule");
        assert!(
            self.findings.iter().any(|finding| finding.rule.name() == rule),
            "{rule} was not found broken\n{}",
            self.report()
        );
    }
}

/// Plugs a driver and its hardware in, with a pool made for it.
pub fn set_up(
    miniport: Arc<dyn Miniport>,
    machine: Arc<dyn HardwareModel>,
) -> impl FnOnce(&Arc<Log>) -> DriverSetup {
    move |log| DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(log.clone()) }
}

/// Hardware that does nothing, for drivers that take no work.
///
/// ```
/// use windtunnel::{Flight, NoHardware, softgpu::SoftGpu};
/// use std::sync::Arc;
///
/// let (miniport, _gpu) = SoftGpu::new();
/// let flown = Flight::new(miniport, Arc::new(NoHardware)).fly(|tunnel| {
///     let bench = tunnel.bench()?;
///     bench.close(tunnel.at, &[])
/// });
/// flown.assert_clean();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHardware;

impl HardwareModel for NoHardware {
    fn idle(&self) -> bool {
        true
    }

    fn step(&self, _at: &mut Passive, _line: &dyn InterruptLine) {}
}
