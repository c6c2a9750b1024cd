//! Small drivers for tests: good ones that keep every rule, and bad ones that break one each.
//!
//! The good ones are the built-in one in safe Rust, one with a table as a driver in C has it
//! ([`GOOD`], on a [`Board`]), and that one again with resources that move; the first two come
//! with memory as well, and the built-in one again with save areas that change. A bad one is a
//! good one with an entry or two changed; [`ALL`] says which rule it breaks first.
//!
//! No driver has global state: any number of them fly in one process.

mod addresses;
mod allocation;
mod area;
mod asking;
mod bad;
mod block;
mod blunt;
mod board;
mod changing;
mod context;
mod escape;
mod listed;
mod memory;
mod moving;
mod native;
mod operation;
mod plug;
mod recover;
mod registry;
mod segments;
pub mod stream;
mod table;
mod told;
mod umd;
mod view;
mod wrapped;

pub use board::Board;
pub use native::{load_umd, umd_from_rust};
pub use plug::plug;
pub use registry::{ALL, Listed, find};
pub use stream::{ListedStream, STREAMS, find_stream};
pub use table::GOOD;
pub use umd::{Flaw as UmdFlaw, with as umd_with};
