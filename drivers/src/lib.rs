//! Small drivers for tests: good ones that keep every rule, and bad ones that break one each.
//!
//! Some are good: the built-in one in safe Rust, one with a table as a driver in C has it
//! ([`GOOD`], on a [`Board`]), and that one again with small changes. A bad one is a good
//! one with an entry or two changed; [`ALL`] says which rule it breaks first.
//!
//! No driver has global state: any number of them fly in one process.

mod allocation;
mod asking;
mod bad;
mod block;
mod board;
mod context;
mod moving;
mod plug;
mod registry;
mod segments;
mod table;
mod view;
mod wrapped;

pub use board::Board;
pub use plug::plug;
pub use registry::{ALL, Listed, find};
pub use table::GOOD;
