//! The built-in GPU with real bytes, and its display miniport in safe Rust.
//!
//! [`Gpu`] is the hardware: it fills and copies, and interrupts when a packet is done.
//! [`SoftGpu`] is a complete driver for it that keeps every rule. [`format`](mod@format) is
//! what a client and the driver agree on; another driver of this hardware uses it as well.
#![forbid(unsafe_code)]

mod blocks;
mod driver;
pub mod format;
mod gpu;
mod memory;
mod records;

pub use driver::SoftGpu;
pub use gpu::{Gpu, NODES, Packet};
pub use memory::Memory;
