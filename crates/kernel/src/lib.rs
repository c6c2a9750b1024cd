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

pub mod allocation;
mod ask;
mod build;
mod census;
pub mod context;
mod create;
pub mod ddi;
mod describe;
pub mod device;
mod dispatch;
mod end;
mod escape;
mod gate;
pub mod handle;
#[cfg(all(test, loom))]
mod handle_loom;
mod hold;
mod interrupt;
pub mod kernel;
mod keyed;
mod kin;
pub mod listed;
mod lists;
mod lock;
mod memory;
pub mod miniport;
pub mod mmu;
pub mod operation;
#[cfg(shuttle)]
mod planted;
pub mod power;
mod preempt;
pub mod process;
pub mod range;
mod recover;
mod refused;
mod renamed;
mod render;
pub mod resource;
mod retire;
mod rooted;
mod saved;
mod schedule;
pub mod segment;
pub mod services;
mod share;
pub mod space;
mod start;
mod store;
mod submit;
mod sync;
pub mod view;
mod window;
mod world;

pub use create::{CreateAllocationRequest, CreateAllocationResponse, Sharing};
pub use device::DeviceLoss;
pub use escape::EscapeRequest;
pub use flight::{LiveObject, LiveObjects};
pub use handle::{Handle, HandleError};
pub use kernel::{DriverSetup, Kernel};
pub use keyed::{
    AcquireKeyedMutexResponse, CreateKeyedMutexRequest, CreateKeyedMutexResponse,
    ReleaseKeyedMutexRequest,
};
pub use lists::{BufferResize, CapturedBuffers, EntrySizes, RenderBuffers, UserBuffer};
pub use memory::budget::{Budget, SegmentGroup, TrimCallback};
pub use memory::compact::SegmentSpace;
pub use memory::cpu::{LockRequest, LockResponse};
pub use memory::offer::ReclaimResponse;
pub use memory::queue::CreatePagingQueueResponse;
pub use memory::resident::{EvictRequest, MakeResidentRequest, Residency};
pub use memory::worth::{MemorySizes, ResidencyStatus};
pub use process::{ProcessExit, ProcessId};
pub use range::{PlacedRange, Ranges};
pub use refused::{Argument, KernelError};
pub use render::RenderRequest;
pub use retire::{DestroyAllocationRequest, DestroyTarget};
pub use share::{OpenResourceResponse, ShareInfo};
pub use space::addresses::Access;
pub use space::calls::{MapAddressRequest, MapAddressResponse, MapSource, ReserveAddressRequest};
pub use space::update::{AddressUpdate, UpdateAddressRequest};
pub use start::{AdapterId, StartError};
pub use submit::Packet;
pub use sync::cpu::{SignalRequest, WaitRequest};
pub use sync::{CreateSyncRequest, CreateSyncResponse, SyncKind};
