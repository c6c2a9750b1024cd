//! The scenarios, by subject.

pub(crate) mod address;
pub(crate) mod asks;
pub(crate) mod bad;
pub(crate) mod bad_address;
pub(crate) mod bad_memory;
pub(crate) mod bad_render;
pub(crate) mod bad_sync;
pub(crate) mod destroy;
pub(crate) mod destroy_memory;
pub(crate) mod escape;
pub(crate) mod interrupt;
pub(crate) mod keyed;
pub(crate) mod life;
pub(crate) mod memory;
pub(crate) mod pnp;
pub(crate) mod recover;
pub(crate) mod render;
pub(crate) mod saved;
pub(crate) mod share;
pub(crate) mod stream;
pub(crate) mod submit;
pub(crate) mod surface_locks;
pub(crate) mod surfaces;
pub(crate) mod sync;
pub(crate) mod threads;
pub(crate) mod update;
