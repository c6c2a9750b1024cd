//! Flights of streaming minidrivers for tests.

use crate::expected_video::ExpectedVideo;
use crate::fly::{FlightResult, HostKind, fly_stream};
use crate::scenario::Scenario;
use crate::stream_testbed::StreamTestbed;
use crate::testbed::ScenarioStopped;
use flight::Log;
use std::sync::Arc;
use stream::{DescriptorError, DriverSetup, Format, Minidriver, SystemMemory};

/// A flight of a streaming minidriver before its start: the minidriver, the format of its first
/// pin, and the host.
///
/// The scenario gets the [`StreamTestbed`] with the class driver and no device yet. When the
/// scenario ends, the device is removed and the verifier evaluates all events.
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
///         DeviceDescriptor::default() // No filter, so nothing can be opened.
///     }
/// }
///
/// let result = StreamFlight::new(Arc::new(Nothing), Format::default()).fly(|testbed| {
///     let device = testbed.add_device()?;
///     testbed.remove_device(device)
/// });
/// result.assert_clean();
/// ```
#[must_use = "a flight starts with `fly` or `through`"]
pub struct StreamFlight {
    set_up: SetUpMinidriver,
    video: ExpectedVideo,
    host: HostKind,
}

/// Sets up a driver. Its pool, if it has one, reports to the log.
type SetUpMinidriver = Box<dyn FnOnce(&Arc<Log>) -> Result<DriverSetup, DescriptorError>>;

impl StreamFlight {
    /// A flight of a minidriver, with frames in system memory.
    pub fn new(minidriver: Arc<dyn Minidriver>, format: Format) -> Self {
        let memory = Arc::new(SystemMemory::default());
        Self::with_setup(move |_| Ok(DriverSetup { minidriver, memory }), format)
    }

    /// A flight of the driver that `make` sets up, for example with `port::KsDriver::set_up`.
    pub fn with_setup(
        make: impl FnOnce(&Arc<Log>) -> Result<DriverSetup, DescriptorError> + 'static,
        format: Format,
    ) -> Self {
        Self {
            set_up: Box::new(make),
            video: ExpectedVideo::with_format(format),
            host: HostKind::deterministic(1),
        }
    }

    /// Sets the seed that determines the order of threads; the default is 1.
    pub fn seed(self, seed: u64) -> Self {
        self.host(seed)
    }

    /// Sets the host: [`HostKind::Threaded`], or a deterministic one with a seed.
    pub fn host(self, on: impl Into<HostKind>) -> Self {
        Self { host: on.into(), ..self }
    }

    /// Runs the scenario, removes the device, and returns the result.
    ///
    /// # Panics
    ///
    /// If the flight could not be run, for example because one of its threads panicked.
    pub fn fly(
        self,
        body: impl FnOnce(&mut StreamTestbed<'_>) -> Result<(), ScenarioStopped>,
    ) -> FlightResult {
        self.fly_body("flight", body)
    }

    /// Flies a built-in streaming scenario, for example `find_scenario("ks-state-transitions")`.
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
