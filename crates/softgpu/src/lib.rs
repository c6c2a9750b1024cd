//! The built-in GPU with real bytes, and its display miniport in safe Rust.
//!
//! [`Gpu`] is the hardware: it fills and copies, and interrupts when a packet is done. It has
//! memory of its own ([`MemoryPlan`]), or works on that of its driver. [`SoftGpu`] is a complete
//! driver for it that follows every rule. [`format`](mod@format) is the private data that a client
//! and the driver exchange; another driver of this hardware uses it as well.
#![forbid(unsafe_code)]

mod allocation;
mod aperture;
mod blocks;
mod controller;
mod description;
mod driver;
mod engine;
pub mod format;
mod gpu;
mod handle_pool;
mod hardware;
mod memory;
mod mmu;
#[cfg(test)]
mod mmu_tests;
mod paged;
#[cfg(test)]
mod paged_tests;
mod paging;
mod paging_buffer;
mod plan;
mod records;
mod render;
mod save_area;
mod tdr;
mod tlb;
mod virtual_driver;

pub use driver::SoftGpu;
pub use engine::{Completion, Paging, RenderWork, SaveTarget, Stream, Target};
pub use gpu::{Gpu, NODES, Packet};
pub use handle_pool::HandlePool;
pub use memory::Memory;
pub use mmu::{ENTRY_SIZE, MmuPlan, encode_entry};
/// The paging commands of this hardware, for a driver of another kind.
pub use paging_buffer::{
    build_paging_buffer as build_paging, build_paging_buffer_in as build_paging_in,
};
pub use plan::{APERTURE, LOCAL, MemoryPlan, VISIBLE, segment_base};
/// Packets with lists of this hardware, for a driver of another kind.
pub use render::{RenderOutput, patch, translate};
pub use save_area::{AREA_SIZE, REGISTERS_SIZE, Registers, SAVED_AT};
