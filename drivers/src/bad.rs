//! Drivers that break one rule each: the good one with an entry or two changed. Those on an adapter
//! with memory are in safe Rust, the others have a table.
//!
//! What an entry does wrong is its first sentence. Where it can, it changes what the kernel
//! gave or what the good entry answered, and leaves the rest to that.

pub(crate) mod adapter;
pub(crate) mod addresses;
pub(crate) mod callback;
pub(crate) mod context_memory;
pub(crate) mod create;
pub(crate) mod describe;
pub(crate) mod destroy;
pub(crate) mod device;
pub(crate) mod escape;
pub(crate) mod handle;
pub(crate) mod interrupt;
pub(crate) mod level;
pub(crate) mod listed;
pub(crate) mod memory;
pub(crate) mod paging;
pub(crate) mod pnp;
pub(crate) mod query;
pub(crate) mod recover;
pub(crate) mod render;
pub(crate) mod saved;
pub(crate) mod standard;
pub(crate) mod starts;
pub(crate) mod submit;
pub(crate) mod tables;
pub(crate) mod view;
