//! The door up: the D3DKMT entry points, as functions that Rust can call.
//!
//! Each takes a [`Session`] (which process is calling), the proof of level, and the pointer an
//! application would pass. It turns pointers into claims, copies once, checks once, asks the
//! kernel, and answers with the status Windows would give. [`Client`] fills the structures in
//! safe Rust, for scenarios and tests.
//!
//! Caller memory is touched in `claims.rs` and nowhere else.

mod adapter;
mod claims;
mod client;
mod create;
mod destroy;
mod device;
mod entry;
mod escape;
mod session;
mod share;
mod status;

pub use adapter::{D3DKMTCloseAdapter, D3DKMTEnumAdapters2, D3DKMTOpenAdapterFromLuid};
pub use client::{Client, Create, Created, Destroy, Escape, Shared};
pub use create::{D3DKMTCreateAllocation, D3DKMTCreateAllocation2};
pub use destroy::{D3DKMTDestroyAllocation, D3DKMTDestroyAllocation2};
pub use device::{
    D3DKMTCreateContextVirtual, D3DKMTCreateDevice, D3DKMTDestroyContext, D3DKMTDestroyDevice,
    D3DKMTGetDeviceState, D3DKMTSubmitCommand,
};
pub use entry::{ENTRIES, Line};
pub use escape::D3DKMTEscape;
pub use session::Session;
pub use share::{D3DKMTOpenResource, D3DKMTOpenResource2, D3DKMTQueryResourceInfo};
