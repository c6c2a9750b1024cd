//! The C library: the functions of `thunk` under their exported names, and the one global
//! kernel behind them.
//!
//! A client links `libwindtunnel_d3dkmt.so` (the crate `library`) and calls `D3DKMT*` from any of its threads. The
//! kernel lives in the client's process, with a built-in driver or one from a file (`WINDTUNNEL_DRIVER` chooses
//! one), and starts at the first call. `include/windtunnel/d3dkmt.h` is generated (`cargo xtask headers`).
//!
//! # Invariants
//!
//! 1. No pointer of a client crashes it: its session is guarded, and only `thunk` reads caller
//!    memory. But a callback that the client registers is called.
//! 2. No panic leaves an exported function. After an internal error every call fails.
//! 3. In a child of `fork` the kernel is not touched: every call returns `STATUS_DEVICE_REMOVED`.
//! 4. Signals of the client are handled on threads of the client. A handler that interrupts a call
//!    and calls in itself gets `STATUS_DEVICE_BUSY`; a cancellation waits for the end of the call.
//! 5. The library has a handler of SIGSEGV and SIGBUS, for its own copies of the client's memory. A
//!    fault ends the client as it would without the library, but its report is written first.
//! 6. With `WINDTUNNEL_REPORT` set, memory is bounded by the number of live objects. Without it, no
//!    history is kept.

mod absent_exports;
mod cancellation;
mod claim_copy;
mod events;
mod exit_status;
mod exports;
mod faults;
mod fork;
mod fork_lock;
mod global_kernel;
#[cfg(test)]
mod internal_tests;
mod nt_names;
mod process_handles;
mod remote;
mod report;
mod reserve;
mod shown_memory;
mod signal_changes;

// The D3DKMT entry points: one for each row of `thunk::for_each_entry_point`.
pub use exports::*;

// Those that Windows has besides: each returns that it is not supported.
pub use absent_exports::*;

// The allocator of the library, which `library` installs.
pub use reserve::ReserveAllocator;

// For tests in Rust.
pub use global_kernel::live_objects;

// Events for clients in C, which have no `CreateEventW` here.
pub use events::{
    windtunnel_event_close, windtunnel_event_create, windtunnel_event_is_set,
    windtunnel_event_reset, windtunnel_event_wait,
};

// Processes for clients in C, which have no `OpenProcess` here.
pub use process_handles::windtunnel_process_open;

// The type and name of an NT handle, which a system call of Windows returns.
pub use nt_names::{windtunnel_nt_handle_name, windtunnel_nt_handle_type};
