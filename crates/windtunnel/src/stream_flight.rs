//! Flights of streaming minidrivers for tests.

use crate::fly::{Flown, On, fly_stream};
use crate::footage::Footage;
use crate::scenario::Scenario;
use crate::studio::Studio;
use crate::tunnel::Stopped;
use flight::Log;
use std::sync::Arc;
use stream::{BadDescriptor, Format, Minidriver, Plugged, SystemMemory};

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
    make: Make,
    footage: Footage,
    on: On,
}

/// Plugs in a driver whose pool, if it has one, says to that log what happens.
type Make = Box<dyn FnOnce(&Arc<Log>) -> Result<Plugged, BadDescriptor>>;

impl StreamFlight {
    /// A flight of a minidriver, with frames in the system's memory.
    pub fn new(minidriver: Arc<dyn Minidriver>, format: Format) -> Self {
        let memory = Arc::new(SystemMemory::default());
        Self::of(move |_| Ok(Plugged { minidriver, memory }), format)
    }

    /// A flight of whatever `make` plugs in, as `port::KsDriver::plug` does.
    pub fn of(
        make: impl FnOnce(&Arc<Log>) -> Result<Plugged, BadDescriptor> + 'static,
        format: Format,
    ) -> Self {
        Self { make: Box::new(make), footage: Footage::of(format), on: On::Stepped(1) }
    }

    /// The seed that the order of threads is drawn from; 1 if nobody says.
    pub fn seed(self, seed: u64) -> Self {
        self.on(seed)
    }

    /// Who runs it: [`On::Free`], or [`On::Stepped`] or [`On::Pressed`] with a seed.
    pub fn on(self, on: impl Into<On>) -> Self {
        Self { on: on.into(), ..self }
    }

    /// Tells the story, ends everything, and answers what became of it.
    ///
    /// # Panics
    ///
    /// If the flight could not be run at all, as when a thread of it panicked.
    pub fn fly(self, story: impl FnOnce(&mut Studio<'_>) -> Result<(), Stopped>) -> Flown {
        self.tell("flight", story)
    }

    /// The same with a scenario for such drivers, as `find_scenario("stream-states")`.
    ///
    /// # Panics
    ///
    /// As above.
    pub fn through(self, scenario: &'static Scenario) -> Flown {
        self.tell(scenario.name, |studio| scenario.stream(studio))
    }

    fn tell(
        self,
        name: &'static str,
        story: impl FnOnce(&mut Studio<'_>) -> Result<(), Stopped>,
    ) -> Flown {
        let flown = fly_stream((self.make, self.footage), name, self.on, story);
        flown.unwrap_or_else(|why| panic!("the flight could not be run: {}", why.0))
    }
}
