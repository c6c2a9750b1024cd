//! A framework for Direct3D 9 user-mode display drivers in safe Rust.
//!
//! A driver is a [`UserDriver`]: it creates a [`UserAdapter`], which creates [`UserDevice`]s. The
//! runtime sees a C driver: [`open_adapter`] is the exported function; it fills the tables, whose
//! functions convert their arguments and call the traits. [`Callbacks`] wraps the runtime's
//! functions for the driver.
//!
//! # Invariants
//!
//! 1. A handle that the runtime has is the address of a box. The handle of an adapter or a device
//!    is trusted; that of a resource is looked up in its device, and an unknown one fails with
//!    `E_INVALIDARG`. NULL always fails with `E_INVALIDARG`.
//! 2. Any number of threads use devices at once, but one thread at a time uses one device: a second
//!    thread gets `E_FAIL`.
//! 3. No lock except the device's is held while the runtime is called.
//! 4. A panic of the driver propagates unchanged, for the runtime to catch.
//! 5. A callback that the runtime does not offer fails with `E_NOTIMPL`.
//! 6. The host accesses mapped memory for the driver ([`VisibleMemory`]), because the host knows
//!    what is mapped: a driver that accesses memory out of range, or after the unlock, gets an
//!    error.

mod args;
mod buffers;
mod callbacks;
mod driver;
mod entry;
mod memory;
mod result;
mod table;
#[cfg(test)]
mod tests;

pub use args::{
    BltArgs, ColorFillArgs, CreateDeviceArgs, CreateResourceArgs, LockArgs, LockAsyncArgs,
    LockAsyncResult, LockResult, OpenAdapterArgs, OpenAllocationInfo, OpenResourceArgs, Rect,
    RenameArgs, ResidencyStatus, Resource, RuntimeContext, RuntimeResource, Surface, UnlockArgs,
    Volume,
};
pub use buffers::ContextBuffers;
pub use callbacks::{
    AdapterCallbacks, AllocateResponse, Callbacks, DeallocateRequest, Fence, MapRequest,
    NewAllocation, PagingQueue, PagingResponse, RenderRequest, live_objects_of,
};
pub use driver::{UserAdapter, UserDevice, UserDriver};
pub use entry::open_adapter;
pub use memory::{Memory, VisibleMemory};
pub use result::{Failure, UmdResult};
