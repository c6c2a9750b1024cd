//! The door up: the D3DKMT entry points, as functions that Rust can call.
//!
//! Each takes a [`Session`] (which process is calling), the proof of level, and the pointer an
//! application would pass. It turns pointers into claims, copies once, checks once, asks the
//! kernel, and answers with the status Windows would give. [`Client`] fills the structures in
//! safe Rust, for scenarios and tests.
//!
//! Caller memory is touched in `claims.rs` and nowhere else.

mod adapter;
mod address;
mod budget;
pub mod claims;
mod client;
mod client_address;
mod client_keyed;
mod client_memory;
mod client_render;
mod client_sync;
mod client_worth;
mod create;
mod destroy;
mod device;
mod entry;
mod escape;
mod keyed;
mod lock;
mod offer;
mod priority;
mod queue;
mod render;
mod resident;
mod session;
mod share;
mod signal;
mod status;
mod submit;
mod sync;
mod wait;
mod worth;

pub use adapter::{D3DKMTCloseAdapter, D3DKMTEnumAdapters2, D3DKMTOpenAdapterFromLuid};
pub use address::{
    D3DKMTFreeGpuVirtualAddress, D3DKMTMapGpuVirtualAddress, D3DKMTReserveGpuVirtualAddress,
    D3DKMTUpdateGpuVirtualAddress,
};
pub use budget::{
    D3DKMTChangeVideoMemoryReservation, D3DKMTQueryAdapterInfo, D3DKMTQueryVideoMemoryInfo,
    D3DKMTRegisterTrimNotification, D3DKMTUnregisterTrimNotification,
};
pub use client::{Client, Create, Created, Destroy, Escape, Shared};
pub use client_keyed::KeyedMutex;
pub use client_memory::{Made, PagingQueue};
pub use client_render::{Listed, ListedContext};
pub use client_sync::{CpuWait, NewSync, SyncObject};
pub use client_worth::Names;
pub use create::{D3DKMTCreateAllocation, D3DKMTCreateAllocation2};
pub use destroy::{D3DKMTDestroyAllocation, D3DKMTDestroyAllocation2};
pub use device::{
    D3DKMTCreateContextVirtual, D3DKMTCreateDevice, D3DKMTDestroyContext, D3DKMTDestroyDevice,
    D3DKMTGetDeviceState,
};
pub use entry::{ENTRIES, Line};
pub use escape::D3DKMTEscape;
pub use keyed::{
    D3DKMTAcquireKeyedMutex, D3DKMTAcquireKeyedMutex2, D3DKMTCreateKeyedMutex,
    D3DKMTCreateKeyedMutex2, D3DKMTDestroyKeyedMutex, D3DKMTOpenKeyedMutex, D3DKMTOpenKeyedMutex2,
    D3DKMTReleaseKeyedMutex, D3DKMTReleaseKeyedMutex2,
};
pub use lock::{D3DKMTLock, D3DKMTLock2, D3DKMTUnlock, D3DKMTUnlock2};
pub use offer::{D3DKMTOfferAllocations, D3DKMTReclaimAllocations, D3DKMTReclaimAllocations2};
pub use priority::{D3DKMTGetContextSchedulingPriority, D3DKMTSetContextSchedulingPriority};
pub use queue::{D3DKMTCreatePagingQueue, D3DKMTDestroyPagingQueue};
pub use render::{D3DKMTCreateContext, D3DKMTRender};
pub use resident::{D3DKMTEvict, D3DKMTMakeResident};
pub use session::Session;
pub use share::{D3DKMTOpenResource, D3DKMTOpenResource2, D3DKMTQueryResourceInfo};
pub use signal::{
    D3DKMTSignalSynchronizationObject, D3DKMTSignalSynchronizationObject2,
    D3DKMTSignalSynchronizationObjectFromCpu, D3DKMTSignalSynchronizationObjectFromGpu,
    D3DKMTSignalSynchronizationObjectFromGpu2,
};
pub use submit::D3DKMTSubmitCommand;
pub use sync::{
    D3DKMTCreateSynchronizationObject, D3DKMTCreateSynchronizationObject2,
    D3DKMTDestroySynchronizationObject, D3DKMTOpenSynchronizationObject,
};
pub use wait::{
    D3DKMTWaitForSynchronizationObject, D3DKMTWaitForSynchronizationObject2,
    D3DKMTWaitForSynchronizationObjectFromCpu, D3DKMTWaitForSynchronizationObjectFromGpu,
};
pub use worth::{
    D3DKMTGetAllocationPriority, D3DKMTQueryAllocationResidency, D3DKMTSetAllocationPriority,
};
