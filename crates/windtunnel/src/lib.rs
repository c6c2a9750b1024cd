//! A wind tunnel for Windows display drivers.
//!
//! [`fly`] takes a driver through a scenario under the real kernel of this project and answers
//! what happened: the events, the findings, and who is still alive. [`check`] does so for many
//! scenarios and seeds, and sets apart what an allow file names; the command prints that.
#![forbid(unsafe_code)]

mod allow;
mod bench;
mod check;
mod explain;
mod fly;
mod landed;
mod scenario;
mod scenarios;
mod support;
mod tally;
mod tunnel;

pub use allow::{Allow, BadFile, Entry as AllowEntry, baseline};
pub use bench::{Extent, Measured, bench};
pub use check::{Checked, Plan, Step, check};
pub use explain::{Explained, NotKnown, Status, explain, ways};
pub use fly::{Flown, On, Outcome, fly};
pub use landed::{Allowed, Found, Landed};
pub use scenario::{ALL as SCENARIOS, Scenario, find as find_scenario};
pub use support::{ANY_FAILURE, Cell, Row, Surface, legal_statuses, support, support_page};
pub use tally::keep as keep_tally;
pub use tunnel::{Bench, Stopped, Tunnel};
