//! Lifetimes: processes, devices and contexts; allocations and resources from create to destroy.

pub mod context;
pub(crate) mod create;
pub(crate) mod describe;
pub(crate) mod destroy;
pub mod device;
pub(crate) mod handle_data;
pub(crate) mod handle_query;
pub(crate) mod nt_end;
pub(crate) mod nt_object;
pub(crate) mod nt_open;
pub(crate) mod open;
pub(crate) mod ownership;
pub mod process;
pub(crate) mod retire;
pub(crate) mod share;
pub(crate) mod standalone;
pub(crate) mod state;
