//! The graphics kernel: objects, lifetimes, scheduling. It has never heard of Windows.
//!
//! The kernel is called; it does not run: no thread, clock or global state is in here. Clients
//! come in through `thunk`, drivers are reached through one funnel ([`ddi`]), and everything
//! that happens leaves as an event.
//!
//! # Locks
//!
//! There is one, around the world (`lock.rs`). It is held for bookkeeping only: never
//! across a call of a driver, and never while somebody waits. Below it are only the locks of
//! `flight`: the log's, and the host's.
#![forbid(unsafe_code)]

pub mod address;
pub mod allocation;
pub mod callbacks;
pub mod context;
mod context_allocation;
mod create;
pub mod ddi;
mod describe;
mod destroy;
pub mod device;
mod dispatch;
mod error;
mod escape;
mod handle_data;
mod handle_query;
pub mod handle_table;
#[cfg(all(test, loom))]
mod handle_table_loom;
mod host_aperture;
mod id_list;
mod instances;
mod interrupt;
pub mod kernel;
mod keyed_mutex;
mod lists;
mod live;
mod lock;
mod memory;
pub mod miniport;
pub mod mmu;
mod open;
pub mod operation;
mod permit;
#[cfg(shuttle)]
mod planted;
pub mod power;
mod preempt;
pub mod process;
mod query;
pub mod range;
mod render;
pub mod render_args;
mod report;
pub mod resource;
mod retire;
mod root_check;
pub mod segment;
mod share;
mod start;
mod state;
mod submit;
mod sync;
mod tdr;
pub mod view;

pub use address::calls::{MapAddressRequest, MapAddressResponse, MapSource, ReserveAddressRequest};
pub use address::ranges::Access;
pub use address::update::{AddressUpdate, UpdateAddressRequest};
pub use create::{CreateAllocationRequest, CreateAllocationResponse, Sharing};
pub use device::DeviceLoss;
pub use error::{Argument, KernelError};
pub use escape::EscapeRequest;
pub use flight::{LiveObject, LiveObjects};
pub use handle_table::{Handle, HandleError};
pub use kernel::{DriverSetup, Kernel};
pub use keyed_mutex::{
    AcquireKeyedMutexResponse, CreateKeyedMutexRequest, CreateKeyedMutexResponse,
    ReleaseKeyedMutexRequest,
};
pub use lists::{BufferResize, CapturedBuffers, EntrySizes, RenderBuffers, UserBuffer};
pub use memory::budget::{Budget, SegmentGroup, TrimCallback};
pub use memory::compact::SegmentSpace;
pub use memory::cpu::{LockRequest, LockResponse};
pub use memory::offer::ReclaimResponse;
pub use memory::priority::{MemorySizes, ResidencyStatus};
pub use memory::queue::CreatePagingQueueResponse;
pub use memory::residency::{EvictRequest, MakeResidentRequest, Residency};
pub use process::{ProcessExit, ProcessId};
pub use range::{PlacedRange, Ranges};
pub use render::RenderRequest;
pub use retire::{DestroyAllocationRequest, DestroyTarget};
pub use share::{OpenResourceResponse, ShareInfo};
pub use start::{AdapterId, StartError};
pub use submit::Packet;
pub use sync::cpu::{SignalRequest, WaitRequest};
pub use sync::{CreateSyncRequest, CreateSyncResponse, SyncKind};
