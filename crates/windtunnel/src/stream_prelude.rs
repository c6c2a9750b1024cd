//! Types that a streaming minidriver in Rust and its tests use:
//! `use windtunnel::stream_prelude::*;`.
//!
//! This is not part of [`prelude`](crate::prelude), because devices and drivers of both kernels
//! have types of the same names.

pub use crate::{
    ExpectedVideo, FlightResult, HostKind, Outcome, SCENARIOS, ScenarioStopped, StreamFlight,
    StreamTestbed, find_scenario,
};
pub use flight::{Log, Passive};
pub use stream::*;
