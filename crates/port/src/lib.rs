//! The door down: a driver that filled in a table, as the kernel's driver trait.
//!
//! Words above, pointers and Windows names below. A [`TableDriver`] is a
//! [`kernel::miniport::Miniport`]; each of its methods is in, call, out. On the way back the
//! driver calls the functions of `DXGKRNL_INTERFACE`, which find their adapter, look at the
//! level they are called at, and ask the kernel. In [`ks`] is the same for streaming minidrivers.
//!
//! # Invariants
//!
//! 1. A driver's word becomes a pointer, and a pointer a word, in this crate only.
//! 2. No lock is held while a driver runs, and what is set for the time of a call goes back
//!    by a guard: a driver that unwinds leaves nothing behind.
//! 3. A panic of ours does not cross into a driver, and a driver's passes through unchanged.

mod allocation;
mod callback_entry;
mod callbacks;
mod caps;
mod context;
mod context_allocation;
mod device_memory;
mod display;
mod door;
mod escape;
mod flags;
mod guarded_buffer;
mod handle_query;
mod hardware;
mod interface;
mod interrupt;
pub mod ks;
mod mdl;
mod mmu;
mod operation;
mod page_tables;
mod paging;
mod placement;
mod pnp;
mod private_data;
mod query;
mod registry;
mod render;
mod reserve_range;
mod segments;
mod standard;
mod status;
mod table;
mod tdr;
#[cfg(test)]
mod tests;
mod traps;

pub use display::TableDriver;
pub use hardware::Hardware;
pub use interface::{CALLBACKS, CallbackSupport};
pub use kernel::ddi::UNCALLED;
pub use ks::KsDriver;
pub use status::result_from_status;
pub use table::TableError;
