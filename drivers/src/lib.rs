//! Small drivers for tests: good ones that keep every rule, and bad ones that break one each.
//!
//! The good ones are the built-in one in safe Rust, one with a table as a driver in C has it
//! ([`GOOD`], on a [`Board`]), and that one again with resources that move; the first two come
//! with memory as well, and the built-in one again with save areas that change. A bad one is a
//! good one with an entry or two changed; [`ALL`] says which rule it breaks first.
//!
//! No driver has global state: any number of them fly in one process.

mod allocation;
mod allocation_lists;
mod bad;
mod block;
mod board;
mod context;
mod context_allocation_updates;
mod escape;
mod faulty_driver;
mod gpummu;
mod handle_queries;
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
pub use native::{load_umd, umd_from_rust};
pub use registry::{ALL, Listed, find};
pub use setup::plug;
pub use stream::{ListedStream, STREAMS, find_stream};
pub use table::GOOD;
pub use umd::{Flaw as UmdFlaw, with as umd_with};
