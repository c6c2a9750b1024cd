//! Windows's words for a display driver and a streaming minidriver: layouts, constants and
//! statuses, as of WDDM 2.0.
//!
//! Names are Windows's own, so that what Microsoft documents can be looked up. There is
//! no behaviour here. A value from outside is an integer that may be any number, flags
//! are a word with named bits, and of a union one member is kept and methods read the
//! others (what a paging operation is about is a union here, too). Every struct has a `ZERO`, and its size and offsets are checked beside it.
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
