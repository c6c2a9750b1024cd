//! A user-mode display driver of the Direct3D 9 kind, written in safe Rust.
//!
//! A driver is a [`UserDriver`]: it makes a [`UserAdapter`], which makes [`UserDevice`]s. The
//! runtime sees a driver in C: [`open_adapter`] is the function it looks for, the tables come from
//! there, and each of their functions is in, call, out. On the way back [`Callbacks`] are the
//! runtime's functions, in plain words.
//!
//! # Invariants
//!
//! 1. A handle that the runtime has is the address of a box. That of an adapter or a device is
//!    believed; that of a resource is looked up in its device, and an unknown one is answered
//!    `E_INVALIDARG`. So is NULL, always.
//! 2. Devices are used by any number of threads at once, one device by one thread at a time: who
//!    comes second is answered `E_FAIL`.
//! 3. No lock is held while the runtime is called but that of the device.
//! 4. A panic of the driver passes through unchanged, for the runtime to catch.
//! 5. A function that the runtime does not offer is answered `E_NOTIMPL`.
//! 6. Memory that a driver is shown is touched by its host ([`Shown`]), which knows what is shown
//!    now: a driver that looks too far, or too late, is answered that it cannot.

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
pub use entry::{live_objects, open_adapter};
pub use memory::{Memory, VisibleMemory};
pub use result::{Failure, UmdResult};
