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
mod bench;
mod c_library;
mod camera;
mod clock;
mod counting;
mod extent;
mod floor;
mod goals;
mod holder;
mod idle;
mod kinds;
mod mapping;
mod measure;
mod memory;
mod meter;
mod packets;
mod page;
mod pager;
mod ranges;
mod residency;
mod ring;
mod site;
mod station;
mod streaming;
mod through;
mod work;

pub use bench::{BenchReport, bench};
pub use counting::CountingAllocator;
pub use extent::BenchSize;
pub use goals::{Goal, goals};
pub use measure::Row;
pub use memory::MemoryRow;
pub use site::{CountedOperation, count};
pub use streaming::StreamRow;
pub use through::UmdRow;
pub use work::WorkRow;

/// It could not be measured: what was missing, in words that follow 'it needs'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureError(pub String);

/// A call that has to succeed.
fn wanted<T>(call: &str, answer: Result<T, abi::NTSTATUS>) -> Result<T, MeasureError> {
    answer.map_err(|status| MeasureError(format!("{call} to succeed; it answered {status:?}")))
}
