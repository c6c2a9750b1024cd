//! The interface of a display miniport driver, as in `d3dkmddi.h`.
//!
//! A fact with only one source is marked.

mod adapter;
mod allocation;
mod callback;
mod caps;
mod context;
mod context_allocation;
mod page_table;
mod paging;
mod paging_physical;
mod process;
mod recover;
mod segment;
mod standard;
mod submit;

pub use adapter::*;
pub use allocation::*;
pub use callback::*;
pub use caps::*;
pub use context::*;
pub use context_allocation::*;
pub use page_table::*;
pub use paging::*;
pub use paging_physical::*;
pub use process::*;
pub use recover::*;
pub use segment::*;
pub use standard::*;
pub use submit::*;
