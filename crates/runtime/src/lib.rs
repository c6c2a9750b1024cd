//! The Direct3D runtime's side of a user-mode display driver (a *UMD*).
//!
//! An application calls [`Adapter`] and [`Device`], in safe Rust; the runtime calls the driver
//! through the tables that the driver filled ([`Umd`]), and forwards the driver's callbacks to the
//! thunks that an application uses. A *ledger* records what the driver was given and what it must
//! free. A broken rule is reported at the door where it is detected, and names the driver or the
//! application.
//!
//! # Invariants
//!
//! 1. One thread at a time is in a driver for a device (`driver_lock`).
//! 2. A handle that a driver receives is a number that is never reused. It is looked up, so an
//!    invalid handle is an error and not a crash.
//! 3. The ledger's lock is held for bookkeeping only, never during a call to the driver or a thunk.

mod adapter;
mod call_stack;
mod callbacks;
mod device;
mod draw;
mod driver_lock;
mod entry;
mod failure_injection;
mod identical;
mod judge;
mod leaks;
mod ledger;
mod library;
mod lock;
mod resource;
mod resource_description;
mod result;
mod umd;
mod visible_memory;

pub use adapter::{Adapter, OpenError, Runtime};
pub use device::Device;
pub use entry::{CALLBACKS, CallbackRow, FUNCTIONS, FunctionRow};
pub use library::LoadError;
pub use lock::{LockRequest, MappedSurface};
pub use resource_description::{Rect, Resource, ResourceDescription, Surface};
pub use result::hresult_from_status as result_of;
pub use umd::Umd;
pub use visible_memory::{read_visible, write_visible};
