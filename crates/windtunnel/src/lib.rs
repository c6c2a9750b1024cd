//! A wind tunnel for Windows display drivers.
//!
//! [`fly`] takes a driver through a scenario under the real kernel of this project and answers
//! what happened: the events, the findings, and who is still alive. [`check`] does so for many
//! scenarios; the command prints that.
#![forbid(unsafe_code)]

mod check;
mod fly;
mod scenario;
mod scenarios;
mod tally;
mod tunnel;

pub use check::{Checked, check};
pub use fly::{Flown, On, Outcome, fly};
pub use scenario::{ALL as SCENARIOS, Scenario, find as find_scenario};
pub use tally::keep as keep_tally;
pub use tunnel::{Bench, Stopped, Tunnel};
