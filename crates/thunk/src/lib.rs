//! The D3DKMT entry points, as functions that Rust can call.
//!
//! Each takes a [`Session`] (which process calls), the proof of the IRQL, and the pointer that an
//! application passes. It copies the caller's memory once, checks it once, calls the kernel, and
//! returns the status that Windows returns. [`Client`] fills the structures in safe Rust, for
//! scenarios and tests.
//!
//! - `table.rs` has one row for each entry point, and names the function behind it.
//! - `status.rs` says what each kernel error means: status, rule and sentence.
//! - `claims.rs` is the only file that touches caller memory.
//! - `refusal.rs` has the reason of a refused call that broke no rule, in words.

mod absent;
mod adapter;
mod adapter_info;
mod adapter_name;
mod adapter_registry;
mod address;
mod allocation_priority;
mod allocation_property;
mod budget;
pub mod claims;
mod client;
mod client_adapter;
mod client_address;
mod client_existing;
mod client_keyed_mutex;
mod client_memory;
mod client_nt_share;
mod client_priority;
mod client_render;
mod client_shared;
mod client_sync;
mod context_priority;
mod create;
mod destroy;
mod device;
mod entry;
mod escape;
mod event_handles;
mod existing_memory;
mod keyed_mutex;
mod lock;
mod nt_attributes;
mod nt_handles;
mod nt_open;
mod nt_share;
mod offer;
mod paging_queue;
mod process_handle;
mod refusal;
mod render;
mod residency;
mod session;
mod share;
mod signal;
mod source_owner;
mod statistics;
mod status;
mod submit;
mod sync;
mod sync_file;
mod table;
mod wait;
mod wide_text;

// Which process calls, whether its pointers are checked, what its events are, what numbers its NT
// handles have, and why its calls are refused.
pub use event_handles::EventHandles;
pub use nt_handles::{NtHandleText, NtHandles};
pub use process_handle::{
    NamedProcess, PROCESS_QUERY_INFORMATION, PROCESS_SET_INFORMATION, ProcessHandles,
};
pub use refusal::{NO_REASON, RefusedCall, with_refusal};
pub use session::Session;

// The entry points under their Windows names, and the table of them. The macro
// `for_each_entry_point` has the same rows.
pub use absent::*;
pub use entry::{EntryPoint, EntryRow};
pub use nt_share::share_objects_by_value;
pub use source_owner::is_any_source_exclusive;
pub use table::*;

// The same calls in safe Rust, for scenarios and tests.
pub use client::{
    Client, CreateAllocation, CreatedAllocation, DestroyAllocation, EscapeCall, OpenedResource,
};
pub use client_existing::ClientMemory;
pub use client_keyed_mutex::KeyedMutex;
pub use client_memory::{PagingQueue, PagingStatus};
pub use client_nt_share::OpenedBundle;
pub use client_priority::AllocationSelection;
pub use client_render::{RenderCommand, RenderContext};
pub use client_sync::{CpuWait, NewSync, SyncObject};
