//! Drivers with a function table: implements the kernel's driver trait for them.
//!
//! The kernel uses driver handles; below are pointers and Windows names. A [`TableDriver`] is a
//! [`kernel::miniport::Miniport`]; each of its methods converts its arguments, calls the driver,
//! and converts the result. The driver calls back the functions of `DXGKRNL_INTERFACE`, which find
//! their adapter, check the IRQL, and call the kernel. [`ks`] is the same for `AVStream` minidrivers.
//!
//! # Invariants
//!
//! 1. A driver handle becomes a pointer, and a pointer a driver handle, in this crate only.
//! 2. No lock is held while a driver runs, and state that is set during a call is restored by a
//!    guard: a driver that unwinds leaves nothing behind.
//! 3. A panic of our code does not cross into a driver, and a driver's panic propagates unchanged.

mod allocation;
mod callback_entry;
mod callbacks;
mod caps;
mod children;
mod context;
mod context_allocation;
mod device_memory;
mod display;
mod display_only;
mod dma_buffers;
mod door;
mod escape;
mod fill;
mod flags;
mod guarded_buffer;
mod handle_query;
mod hardware;
mod interface;
mod interrupt;
pub mod ks;
mod left_behind;
mod load;
mod mdl;
mod mmu;
mod operation;
mod page_tables;
mod paging;
mod placement;
mod pnp;
mod post_display;
mod private_data;
mod query;
mod registry;
mod render;
mod reserve_range;
mod segments;
mod shown;
mod standard;
mod status;
mod system_handle;
mod table;
mod tdr;
#[cfg(test)]
mod tests;
mod traps;
mod version;

pub use display::TableDriver;
pub use hardware::Hardware;
pub use interface::{CALLBACKS, CallbackSupport};
pub use kernel::ddi::UNCALLED;
pub use kernel::miniport::DriverKind;
pub use ks::KsDriver;
pub use left_behind::{judge_stream_unload, judge_unload};
pub use load::{LoadContext, LoadError, Registered, resolve_import, run_driver_entry};
pub use status::{result_from_status, status_name};
pub use system_handle::describe_system_handle;
pub use table::TableError;
pub use version::InterfaceVersion;
