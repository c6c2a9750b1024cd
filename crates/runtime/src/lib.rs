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
mod callbacks;
mod called;
mod device;
mod draw;
mod entry;
mod gate;
mod judge;
mod ledger;
mod left;
mod library;
mod lock;
mod refusing;
mod resource;
mod result;
mod same;
mod shown;
mod surfaces;
mod umd;

pub use adapter::{Adapter, OpenError, Runtime};
pub use device::Device;
pub use entry::{CALLBACKS, CallbackRow, FUNCTIONS, FunctionRow};
pub use library::LoadError;
pub use lock::{LockRequest, MappedSurface};
pub use result::hresult_from_status as result_of;
pub use shown::{read_visible, write_visible};
pub use surfaces::{Rect, Resource, ResourceDescription, Surface};
pub use umd::Umd;
