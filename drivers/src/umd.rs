//! User-mode drivers for tests: a good one for the built-in GPU, and that one with a flaw.
//!
//! They are safe Rust on the traits of the crate `umd`; the runtime sees tables, as from a driver
//! in C.

mod batch;
mod draw;
mod end;
mod flaw;
mod group;
mod hardware;
mod lock;
mod make;
mod soft;
mod work;

pub use flaw::{Flaw, with};
