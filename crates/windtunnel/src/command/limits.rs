//! The options for what a flight may take.

use clap::Args;
use windtunnel::flight::FlightLimits;

/// What a flight may take.
#[derive(Args, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "the names of the options")]
pub(crate) struct LimitOptions {
    /// The virtual time of a flight after which it does not end by itself any more: that is a
    /// finding, which names the calls that repeat; 0 for any time
    #[arg(long, value_name = "SECONDS", default_value_t = FlightLimits::default().time)]
    max_time: u64,
    /// The number of events of a flight, and of waits and routines of the driver, after which it does
    /// not end by itself any more; 0 for any number
    #[arg(long, value_name = "N", default_value_t = FlightLimits::default().events)]
    max_events: u64,
    /// The memory that a flight may take: the pool of the driver, and the process of a flight that
    /// has its own; 0 for any size
    #[arg(long, value_name = "MIB", default_value_t = FlightLimits::default().memory)]
    max_memory: u64,
}

impl LimitOptions {
    pub(super) fn limits(self) -> FlightLimits {
        let limit = |value: u64| if value == 0 { u64::MAX } else { value };
        FlightLimits {
            time: limit(self.max_time),
            events: limit(self.max_events),
            memory: limit(self.max_memory),
        }
    }

    /// The options that are not those of a check that names none, for a command line.
    pub(super) fn changed(self) -> String {
        let Self { max_time, max_events, max_memory } = self;
        let FlightLimits { time, events, memory } = FlightLimits::default();
        let options = [
            ("time", max_time, time),
            ("events", max_events, events),
            ("memory", max_memory, memory),
        ];
        let changed = options.into_iter().filter(|(_, value, default)| value != default);
        changed
            .fold(String::new(), |text, (name, value, _)| text + &format!(" --max-{name} {value}"))
    }
}
