//! A wind tunnel for Windows display drivers.
//!
//! [`fly`] takes a driver through a scenario under the real kernel of this project and answers
//! what happened: the events, the findings, and who is still alive. [`check`] does so for many
//! scenarios and seeds, and sets apart what an allow file names; the command prints that.
//!
//! Whoever writes a miniport in Rust tests it with [`Flight`], and needs no other crate: the
//! [`prelude`] has what a miniport and its tests name, and the rooms of the house are here
//! under their own names ([`kernel`], [`flight`], [`nt`], [`thunk`], [`abi`], [`softgpu`]). Whoever
//! writes a user-mode driver in Rust uses the traits of [`umd`], and flies it with [`umd_of`]; a
//! streaming minidriver has the trait of [`stream`], and flies with [`StreamFlight`].
#![forbid(unsafe_code)]

mod allow;
mod application;
mod check;
mod driver;
mod explain;
mod flight_test;
mod fly;
mod footage;
mod landed;
pub mod prelude;
mod report;
mod scenario;
mod scenarios;
pub mod steps;
mod stream_flight;
mod studio;
mod support;
mod tally;
mod tunnel;
mod words;

pub use allow::{Allow, BadFile, Entry as AllowEntry, baseline};
pub use application::Application;
pub use check::{BUILT_IN, Checked, Native, Plan, Step, check};
pub use driver::Driver;
pub use explain::{Explained, NotKnown, Point, Status, UserResult, explain, ways};
pub use flight_test::{Flight, NoHardware, plug};
pub use fly::{Flown, On, Outcome, fly, fly_driver, fly_plugged, fly_with};
pub use footage::Footage;
pub use landed::{Allowed, Found, Landed};
pub use scenario::{ALL as SCENARIOS, Scenario, Story, find as find_scenario};
pub use stream_flight::StreamFlight;
pub use studio::Studio;
pub use support::{ANY_FAILURE, Cell, Row, Surface, legal_statuses, support, support_page};
pub use tally::keep as keep_tally;
pub use tunnel::{Bench, Stopped, Tunnel};
pub use words::Words;

pub use drivers::{load_umd, umd_of};
pub use {abi, flight, kernel, nt, runtime, softgpu, stream, thunk, umd, verify};
