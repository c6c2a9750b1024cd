//! What a display miniport driver implements and calls, as in `d3dkmddi.h`.
//!
//! A fact that rests on one source says so beside it.

mod adapter;
mod allocation;
mod callback;
mod context;
mod standard;

pub use adapter::*;
pub use allocation::*;
pub use callback::*;
pub use context::*;
pub use standard::*;
