//! Windows's definitions for a display driver and an `AVStream` minidriver: layouts, constants and
//! statuses.
//!
//! The tables are those of WDDM 3.1, with their length for each interface version; structures are
//! those of WDDM 2.0, with the members that later versions append to a structure that a driver
//! reads.
//!
//! Names are Windows's own, so that they can be looked up in Microsoft's documentation. There is no
//! behavior here. An enumeration is an integer that may have any value, flags are an integer with
//! named bits, and of a union one member is declared and methods read the others (only the
//! arguments of a paging operation are a real union). Every struct has a `ZERO`, and its size and
//! offsets are checked beside it.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("these are the layouts of 64-bit Windows");

#[macro_use]
mod macros;
mod types;

pub mod display;
pub mod hresult;
pub mod kmt;
pub mod ks;
pub mod miniport;
pub mod status;
pub mod ukm;
pub mod umd;

#[cfg(test)]
mod tests;

pub use types::*;
