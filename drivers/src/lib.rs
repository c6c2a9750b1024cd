//! Small drivers for tests: good drivers that keep every rule, and bad drivers that break one each.
//!
//! The good drivers are the built-in driver in safe Rust, a driver with a function table as in C
//! ([`GOOD`], on a [`Board`]), and the table driver with resource handles that change. The first
//! two also exist with memory, and the built-in driver with context allocations that are updated. A
//! bad driver is a good driver with one or two changed entries; [`ALL`] names the rule it breaks
//! first.
//!
//! No driver has global state, so any number of drivers can fly in one process.

mod allocation;
mod allocation_lists;
mod bad;
mod block;
mod board;
mod context;
mod context_allocation_updates;
mod display_only;
mod escape;
mod faulty_driver;
mod free_list;
mod gpummu;
mod handle_queries;
pub mod legal;
mod memory;
mod native;
mod operation;
mod registry;
mod resource_handle_changes;
mod save_area;
mod segments;
mod setup;
pub mod stream;
mod table;
mod tdr;
mod umd;
mod umd_private_query;
mod view;
mod whole_engine_reset;

pub use board::Board;
pub use native::{load_driver, load_umd, run_driver_entry, umd_from_rust};
pub use registry::{ALL, GUARDED, Listed, find};
pub use setup::set_up;
pub use stream::{ListedStream, STREAMS, find_stream};
pub use table::GOOD;
pub use umd::{Flaw as UmdFlaw, with as umd_with};
