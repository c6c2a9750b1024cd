//! The Direct3D runtime's side of a user-mode display driver (a *UMD*).
//!
//! An application's calls come in through [`Adapter`] and [`Device`], in safe Rust; they go to the
//! driver through the tables it gave ([`Umd`]), and what it calls back with goes through the same
//! thunks that an application uses. In between stands a *ledger*: what the driver was given and
//! what it owes. Whoever breaks a rule is named at the door where it shows: the driver, or the
//! application.
//!
//! # Invariants
//!
//! 1. One thread is inside a driver for a device at a time (`gate`).
//! 2. A handle that a driver is given is a number that is never given again; what it means is
//!    looked up, so a wrong one is an answer.
//! 3. The ledger's lock is held for bookkeeping only: never while the driver or a thunk runs.

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
