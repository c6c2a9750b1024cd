//! The scenarios, by subject.

pub(crate) mod bad;
pub(crate) mod bad_gpuva;
pub(crate) mod bad_memory;
pub(crate) mod bad_render;
pub(crate) mod bad_sync;
pub(crate) mod context_allocation;
pub(crate) mod destroy;
pub(crate) mod destroy_memory;
pub(crate) mod escape;
pub(crate) mod gpuva;
pub(crate) mod gpuva_update;
pub(crate) mod interrupt;
pub(crate) mod keyed_mutex;
pub(crate) mod ks;
pub(crate) mod lifecycle;
pub(crate) mod memory;
pub(crate) mod pnp;
pub(crate) mod render;
pub(crate) mod share;
pub(crate) mod submit;
pub(crate) mod sync;
pub(crate) mod tdr;
pub(crate) mod threads;
pub(crate) mod umd_locks;
pub(crate) mod umd_query;
pub(crate) mod umd_resources;
