//! Drivers that break one rule each: the good driver with one or two changed entries. Those on an
//! adapter with memory are in safe Rust, the others have a function table.
//!
//! The first sentence of an entry's doc says what the entry does wrong. Where possible, an entry
//! changes the arguments or the result of the good entry and leaves the rest to that.

pub(crate) mod adapter;
pub(crate) mod allocation_lists;
pub(crate) mod callback;
pub(crate) mod context_allocation;
pub(crate) mod context_allocation_callbacks;
pub(crate) mod create;
pub(crate) mod describe;
pub(crate) mod destroy;
pub(crate) mod device;
pub(crate) mod display_only;
pub(crate) mod escape;
pub(crate) mod gpummu;
pub(crate) mod handle;
pub(crate) mod interrupt;
pub(crate) mod irql;
pub(crate) mod memory;
pub(crate) mod page_tables;
pub(crate) mod paging;
pub(crate) mod pnp;
pub(crate) mod pool;
pub(crate) mod query;
pub(crate) mod render;
pub(crate) mod standard;
pub(crate) mod submit;
pub(crate) mod tdr;
pub(crate) mod transfer_start;
pub(crate) mod view;
