//! The objects that every folder above uses: handle tables, allocations, resources, views.

pub mod allocation;
pub mod handle_table;
#[cfg(all(test, loom))]
pub(crate) mod handle_table_loom;
pub mod resource;
pub mod view;
