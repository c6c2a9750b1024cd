//! What a pair costs: one stand-alone allocation created and opened, one closed and destroyed,
//! while others live. What video memory costs: places, residency, paging. What scheduling and
//! addresses cost: packets, fences, pages mapped. What the runtime of user-mode drivers adds. And
//! what a frame costs that a minidriver streams.
//!
//! # Invariants
//!
//! 1. Every row is measured in turns with two floors (`floor.rs`), in the same process and the
//!    same moment; what is reported is the median turn.
//! 2. A watched run that was not clean is no measurement.
//! 3. Goals are shown (`goals.rs`), and nothing fails because of time. What guards against
//!    getting slower is a count of instructions: [`count`], run by the test command.

mod bandwidth;
mod baseline;
mod bench;
mod bench_size;
mod c_library;
mod clock;
mod counting;
mod fixture;
mod goals;
mod mapping;
mod measure;
mod memory;
mod metered_umd;
mod noop_driver;
mod packets;
mod page;
mod paging_driver;
mod ranges;
mod residency;
mod residency_fixture;
mod ring;
mod row_kinds;
mod streaming;
mod test_camera;
mod umd_calls;
mod work;
mod work_fixture;

pub use bench::{BenchReport, bench};
pub use bench_size::BenchSize;
pub use counting::CountingAllocator;
pub use fixture::{CountedOperation, count};
pub use goals::{Goal, goals};
pub use measure::Row;
pub use memory::MemoryRow;
pub use streaming::StreamRow;
pub use umd_calls::UmdRow;
pub use work::WorkRow;

/// It could not be measured: what was missing, in words that follow 'it needs'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureError(pub String);

/// A call that has to succeed.
fn wanted<T>(call: &str, answer: Result<T, abi::NTSTATUS>) -> Result<T, MeasureError> {
    answer.map_err(|status| MeasureError(format!("{call} to succeed; it answered {status:?}")))
}
