//! Objects that every folder above reads: handle tables, allocations, resources, views.

pub mod allocation;
pub mod handle_table;
#[cfg(all(test, loom))]
pub(crate) mod handle_table_loom;
pub mod resource;
pub mod view;
