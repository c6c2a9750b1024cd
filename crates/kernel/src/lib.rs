//! The graphics kernel: objects, lifetimes, memory, scheduling. It knows no Windows type.
//!
//! The kernel is called; it does not run: it has no thread, clock or global state. Clients call
//! it through `thunk`, it calls drivers through one funnel ([`ddi`]), and everything that happens
//! leaves as an event.
//!
//! # Folders
//!
//! From top to bottom: `adapter`, `lifetime`, `schedule`, `memory`, `sync`, `ddi`, `objects`,
//! `base`. A folder calls folders below it, never above. Its state (`state.rs` in it) is private to
//! it; `KernelState` is the sum of these states and of the object tables.
//!
//! # Locks
//!
//! One lock guards the state (`flight::Lock`). It is held for bookkeeping only: never across a call of
//! a driver, and never during a wait. Only the locks of `flight` (the log, the host) are taken
//! while it is held.
#![forbid(unsafe_code)]

mod adapter;
mod base;
pub mod ddi;
#[cfg(test)]
mod internal_error_tests;
pub mod kernel;
mod lifetime;
mod live;
mod lock;
mod memory;
mod objects;
#[cfg(shuttle)]
mod planted;
mod progress;
mod schedule;
mod state;
mod stuck;
mod sync;

// The kernel, and the adapters it starts.
pub use adapter::power;
pub use adapter::start::{AdapterId, StartError};
pub use base::error::{Argument, KernelError};
pub use flight::{LiveObject, LiveObjects};
pub use kernel::{DriverSetup, Kernel};

// The driver interface: what a miniport implements, is passed and calls back.
pub use ddi::{callbacks, miniport, mmu, operation, render_args, segment};

// Requests of clients and their responses, by subject.
pub use adapter::escape::EscapeRequest;
pub use adapter::query::{AdapterInfo, SegmentUse, TranslationInfo};
pub use adapter::statistics::{AllocationCounts, NodeCounts};
pub use lifetime::create::{CreateAllocationRequest, CreateAllocationResponse, Sharing};
pub use lifetime::device::DeviceLoss;
pub use lifetime::nt_object::{
    NtAccess, NtHandleId, NtHandleInfo, NtObjectKind, ShareObjectsRequest,
};
pub use lifetime::nt_open::OpenNtResourceResponse;
pub use lifetime::ownership::SourceOwnership;
pub use lifetime::process::{ProcessExit, ProcessId};
pub use lifetime::retire::{DestroyAllocationRequest, DestroyTarget};
pub use lifetime::share::{OpenResourceCall, OpenResourceResponse, ShareInfo};
pub use memory::address::calls::{
    MapAddressRequest, MapAddressResponse, MapSource, ReserveAddressRequest,
};
pub use memory::address::ranges::Access;
pub use memory::address::update::{AddressUpdate, UpdateAddressRequest};
pub use memory::budget::{Budget, SegmentGroup, TrimCallback};
pub use memory::compact::SegmentSpace;
pub use memory::cpu::{LockRequest, LockResponse};
pub use memory::offer::ReclaimResponse;
pub use memory::priority::ResidencyStatus;
pub use memory::property::{AllocationPropertyRequest, AllocationRange};
pub use memory::queue::CreatePagingQueueResponse;
pub use memory::residency::{EvictRequest, MakeResidentRequest, Residency};
pub use objects::allocation::AllocationCount;
pub use schedule::dispatch::PacketCounts;
pub use schedule::lists::{BufferResize, CapturedBuffers, EntrySizes, RenderBuffers, UserBuffer};
pub use schedule::render::RenderRequest;
pub use schedule::submit::{Packet, PacketData};
pub use sync::cpu::{SignalRequest, WaitRequest};
pub use sync::event::EventSink;
pub use sync::keyed_mutex::{
    AcquireKeyedMutexResponse, CreateKeyedMutexRequest, CreateKeyedMutexResponse,
    ReleaseKeyedMutexRequest,
};
pub use sync::nt_hold::{OpenNtSyncRequest, OpenSyncResponse};
pub use sync::{CreateSyncRequest, CreateSyncResponse, SyncKind};

// Objects, handles and ranges.
pub use base::range::{self, PlacedRange, Ranges};
pub use lifetime::{context, device, process};
pub use memory::address;
pub use objects::handle_table::{self, Handle, HandleError};
pub use objects::{allocation, resource, view};
