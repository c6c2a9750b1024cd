//! Events for clients in C: what they pass as `hAsyncEvent`, `CPUNotification.Event` and
//! `CpuEventHandle`.
//!
//! On Windows these are system handles (`CreateEventW`). This library has its own: manual-reset
//! events that are created not set.
#![expect(unsafe_code, reason = "exported under C names")]

use crate::global_kernel;
use abi::status::STATUS_SUCCESS;
use abi::{HANDLE, NTSTATUS};
use std::ptr;

/// Creates an event that is not set. Returns NULL if the library does not run.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn windtunnel_event_create() -> HANDLE {
    let mut event = 0;
    global_kernel::call_here("windtunnel_event_create", |session, _| {
        event = session.create_event();
        STATUS_SUCCESS
    });
    ptr::without_provenance_mut(event)
}

/// Returns one if the event is set; zero if it is not set or the handle is invalid.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn windtunnel_event_is_set(event: HANDLE) -> i32 {
    let mut set = false;
    global_kernel::call_here("windtunnel_event_is_set", |session, _| {
        set = session.event_is_set(event).unwrap_or(false);
        STATUS_SUCCESS
    });
    i32::from(set)
}

/// Resets an event.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn windtunnel_event_reset(event: HANDLE) -> NTSTATUS {
    global_kernel::call_here("windtunnel_event_reset", |session, _| {
        to_status(session.reset_event(event))
    })
}

/// Waits until an event is set.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn windtunnel_event_wait(event: HANDLE) -> NTSTATUS {
    global_kernel::call_here("windtunnel_event_wait", |session, at| {
        to_status(session.wait_event(at, event))
    })
}

/// Closes an event. Later signals of the event have no visible effect.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn windtunnel_event_close(event: HANDLE) -> NTSTATUS {
    global_kernel::call_here("windtunnel_event_close", |session, _| {
        to_status(session.close_event(event))
    })
}

fn to_status(answer: Result<(), NTSTATUS>) -> NTSTATUS {
    answer.err().unwrap_or(STATUS_SUCCESS)
}
