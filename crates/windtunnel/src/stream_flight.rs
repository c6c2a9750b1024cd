//! Flights of streaming minidrivers for tests.

use crate::expected_video::ExpectedVideo;
use crate::fly::{FlightResult, HostKind, fly_stream};
use crate::scenario::Scenario;
use crate::stream_testbed::StreamTestbed;
use crate::testbed::ScenarioStopped;
use flight::Log;
use std::sync::Arc;
use stream::{DescriptorError, DriverSetup, Format, Minidriver, SystemMemory};

/// A flight of a streaming minidriver about to start: it, the format that its first pin is asked
/// for, and who runs it.
///
/// A scenario of ours or a story of one's own gets the [`Studio`], with the class driver in it and
/// no device yet. When it ends, the device is removed, and the verifier watches all that happened.
///
/// ```
/// use std::sync::Arc;
/// use windtunnel::stream::{DeviceDescriptor, Format, Minidriver};
/// use windtunnel::StreamFlight;
///
/// struct Nothing;
///
/// impl Minidriver for Nothing {
///     fn describe(&self) -> DeviceDescriptor {
///         DeviceDescriptor::default() // no filter: nothing can be opened
///     }
/// }
///
/// let flown = StreamFlight::new(Arc::new(Nothing), Format::default()).fly(|studio| {
///     let device = studio.add()?;
///     studio.remove(device)
/// });
/// flown.assert_clean();
/// ```
#[must_use = "a flight starts with `fly` or `through`"]
pub struct StreamFlight {
    set_up: SetUpMinidriver,
    video: ExpectedVideo,
    host: HostKind,
}

/// Plugs in a driver whose pool, if it has one, says to that log what happens.
type SetUpMinidriver = Box<dyn FnOnce(&Arc<Log>) -> Result<DriverSetup, DescriptorError>>;

impl StreamFlight {
    /// A flight of a minidriver, with frames in the system's memory.
    pub fn new(minidriver: Arc<dyn Minidriver>, format: Format) -> Self {
        let memory = Arc::new(SystemMemory::default());
        Self::with_setup(move |_| Ok(DriverSetup { minidriver, memory }), format)
    }

    /// A flight of whatever `make` plugs in, as `port::KsDriver::plug` does.
    pub fn with_setup(
        make: impl FnOnce(&Arc<Log>) -> Result<DriverSetup, DescriptorError> + 'static,
        format: Format,
    ) -> Self {
        Self {
            set_up: Box::new(make),
            video: ExpectedVideo::with_format(format),
            host: HostKind::Deterministic(1),
        }
    }

    /// The seed that the order of threads is drawn from; 1 if nobody says.
    pub fn seed(self, seed: u64) -> Self {
        self.host(seed)
    }

    /// Who runs it: [`On::Free`], or [`On::Stepped`] or [`On::Pressed`] with a seed.
    pub fn host(self, on: impl Into<HostKind>) -> Self {
        Self { host: on.into(), ..self }
    }

    /// Tells the story, ends everything, and answers what became of it.
    ///
    /// # Panics
    ///
    /// If the flight could not be run at all, as when a thread of it panicked.
    pub fn fly(
        self,
        body: impl FnOnce(&mut StreamTestbed<'_>) -> Result<(), ScenarioStopped>,
    ) -> FlightResult {
        self.fly_body("flight", body)
    }

    /// The same with a scenario for such drivers, as `find_scenario("ks-state-transitions")`.
    ///
    /// # Panics
    ///
    /// As above.
    pub fn fly_scenario(self, scenario: &'static Scenario) -> FlightResult {
        self.fly_body(scenario.name, |testbed| scenario.run_stream(testbed))
    }

    fn fly_body(
        self,
        name: &'static str,
        body: impl FnOnce(&mut StreamTestbed<'_>) -> Result<(), ScenarioStopped>,
    ) -> FlightResult {
        let flight_result = fly_stream((self.set_up, self.video), name, self.host, body);
        flight_result.unwrap_or_else(|reason| panic!("the flight could not be run: {}", reason.0))
    }
}
