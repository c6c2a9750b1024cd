//! A wind tunnel for Windows display drivers.
//!
//! [`fly`] flies a driver through a scenario under this project's kernel and returns the events,
//! the findings and the objects left alive. [`check`] flies many scenarios and seeds, and separates
//! findings that an allow file covers; the command prints its result.
//!
//! A miniport written in Rust is tested with [`Flight`] and needs no other crate: the [`prelude`]
//! exports the types that a miniport and its tests use, and the other crates are re-exported
//! under their own names ([`kernel`], [`nt`], [`thunk`], [`abi`], [`softgpu`], …). A user-mode
//! driver written in Rust implements the traits of [`umd`] and flies with [`umd_from_rust`]; a
//! streaming minidriver implements the trait of [`stream`] and flies with [`StreamFlight`]; the
//! [`stream_prelude`] exports its types.
#![forbid(unsafe_code)]

mod allow;
mod application;
mod check;
mod child_crash;
mod child_flight;
mod driver;
mod driver_file;
mod example;
mod expected_video;
mod explain;
mod facts;
mod flight_jobs;
mod flight_test;
mod fly;
mod handle_allocator;
mod incomplete;
mod native_umd;
mod needs;
pub mod prelude;
mod private_data;
mod report;
mod rule_counts;
mod scenario;
mod scenario_report;
mod scenarios;
pub mod steps;
mod stream_flight;
pub mod stream_prelude;
mod stream_testbed;
mod support;
mod testbed;
mod windows_names;

pub use allow::{AllowFileError, AllowList, AllowedEntry as AllowEntry, baseline};
pub use application::Application;
pub use check::{
    BUILT_IN, CheckPlan, CheckReport, CheckStep, FindingGroup, check, default_scenarios,
};
pub use child_flight::{ChildArguments, fly_as_child};
pub use driver::Driver;
pub use driver_file::{DriverFile, FlightOptions};
pub use example::{Example, ExampleFlight, example};
pub use expected_video::ExpectedVideo;
pub use explain::{
    EntryPoint, Explanation, Status, UnknownText, UserResult, bug_check_rules, code_43_rules,
    explain,
};
pub use facts::{Decision, Failure, citing_rules};
pub use flight_test::{Flight, NoHardware, set_up};
pub use fly::{
    DeepestStack, FlightResult, HostKind, Outcome, fly, fly_driver, fly_setup, fly_with_umd,
    set_flight_limits,
};
pub use handle_allocator::HandleAllocator;
pub use native_umd::NativeUmd;
pub use needs::Needs;
pub use nt::Guard;
pub use private_data::{DataUse, PrivateData};
pub use report::Colour;
pub use rule_counts::add_to_file as keep_tally;
pub use scenario::{
    ALL as SCENARIOS, Scenario, ScenarioBody, family, find as find_scenario, find_family,
};
pub use scenario_report::{AllowedFinding, ReportedFinding, ScenarioReport};
pub use stream_flight::StreamFlight;
pub use stream_testbed::StreamTestbed;
pub use support::{
    ANY_FAILURE, Cell, Row, SupportTable, legal_statuses, support, support_page, support_totals,
};
pub use testbed::{ScenarioStopped, TestClient, Testbed};
pub use verify::{plural, sentence};

pub use drivers::{load_umd, umd_from_rust};
pub use server::fault_here::report_faults_here;
pub use {abi, flight, kernel, nt, runtime, softgpu, stream, thunk, umd, verify};
