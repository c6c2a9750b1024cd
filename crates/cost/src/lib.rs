//! Measures costs. A *pair* is one standalone allocation created and opened, and one closed and
//! destroyed, with others live. Other tables: video memory (placement, residency, paging),
//! scheduling and addresses (packets, fences, mapped pages), the overhead of the user-mode runtime,
//! frames of a streaming minidriver, and drivers from images.
//!
//! # Invariants
//!
//! 1. Every row is measured in turns with two floors (`baseline.rs`), in the same process at the
//!    same time; the median turn is reported.
//! 2. A run with findings is not a measurement.
//! 3. Goals are shown (`goals.rs`); no test fails because of time. Instruction counts guard against
//!    regressions: [`count`], run by the test command.

mod bandwidth;
mod baseline;
mod bench;
mod bench_json;
mod bench_size;
mod c_library;
mod check_usage;
mod churn;
mod clock;
mod counting;
mod fixture;
mod goals;
mod image_calls;
mod image_guards;
mod image_start;
mod images;
mod mapping;
mod measure;
mod memory;
mod metered_umd;
mod noop_driver;
mod packets;
mod page;
mod paging_driver;
mod pair_clients;
mod ranges;
mod residency;
mod residency_fixture;
mod ring;
mod row_kinds;
mod server_calls;
mod streaming;
mod test_camera;
mod umd_calls;
mod work;
mod work_fixture;

pub use bench::{BenchReport, bench};
pub use bench_json::bench_json;
pub use bench_size::BenchSize;
pub use check_usage::{CheckUsage, check_usage};
pub use churn::{ChurnEnd, ChurnSize, churn};
pub use counting::CountingAllocator;
pub use fixture::{CountedOperation, count};
pub use goals::{Goal, goals};
pub use images::ImageRow;
pub use measure::Row;
pub use memory::MemoryRow;
pub use row_kinds::Watch;
pub use server_calls::{ServerRow, run_client_role};
pub use streaming::StreamRow;
pub use umd_calls::UmdRow;
pub use work::WorkRow;

/// Why a measurement failed, as text that follows 'needs'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureError(pub String);

/// Returns the value of a successful call.
fn wanted<T>(call: &str, answer: Result<T, abi::NTSTATUS>) -> Result<T, MeasureError> {
    answer.map_err(|status| MeasureError(format!("{call} to succeed; it returned {status:?}")))
}
