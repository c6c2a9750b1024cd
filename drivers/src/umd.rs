//! User-mode drivers for tests: a good driver for the built-in GPU, and that driver with flaws.
//!
//! They are safe Rust on the traits of the crate `umd`. The runtime sees function tables, as from a
//! driver in C.

mod batch;
mod create;
mod destroy;
mod draw;
mod driver;
mod flaw;
mod hardware;
mod lock;
mod resource;
mod submit;

pub use flaw::{Flaw, with};
