//! The objects that every folder above uses: handle tables, allocations, resources, views.

pub(crate) mod adapter_state;
pub mod allocation;
pub(crate) mod device_access;
pub mod handle_table;
#[cfg(all(test, loom))]
pub(crate) mod handle_table_loom;
pub(crate) mod resolve;
pub mod resource;
pub mod view;
