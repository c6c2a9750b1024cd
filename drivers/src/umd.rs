//! User-mode drivers for tests: a good one for the built-in GPU, and that one with a flaw.
//!
//! They are safe Rust on the traits of the crate `umd`; the runtime sees tables, as from a driver
//! in C.

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
