//! Events for clients in C: what they pass as `hAsyncEvent`, `CPUNotification.Event` and
//! `CpuEventHandle`.
//!
//! On Windows these are system handles (`CreateEventW`). Here they are descriptors of `eventfd(2)`, of
//! the client's own making or from this file: manual-reset events that are created not set. A wait
//! for an event is the client's and never enters the kernel.
#![expect(unsafe_code, reason = "exported under C names, and calls the operating system")]

use crate::cancellation::exported;
use crate::remote::{RemoteArguments, RemoteCall};
use crate::{global_kernel, remote};
use abi::status::{STATUS_INVALID_HANDLE, STATUS_NO_MEMORY, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS};
use server::event_descriptors::{create, descriptor, is_eventfd, poll};
use server::message::OtherCall;
use std::os::fd::{IntoRawFd, RawFd};
use std::ptr;

exported! {
    /// Creates an event that is not set: an eventfd that `execve` closes. Returns NULL if the library does
    /// not run, or if there can be no more descriptors.
    fn windtunnel_event_create() -> HANDLE
}

exported! {
    /// Returns one if the event is set; zero if it is not set or the handle is invalid.
    fn windtunnel_event_is_set(event: HANDLE) -> i32
}

exported! {
    /// Resets an event: reads its counter.
    fn windtunnel_event_reset(event: HANDLE) -> NTSTATUS
}

exported! {
    /// Waits until an event is set.
    fn windtunnel_event_wait(event: HANDLE) -> NTSTATUS
}

exported! {
    /// Closes an event, as `close(2)` does. What will set the event keeps it.
    fn windtunnel_event_close(event: HANDLE) -> NTSTATUS
}

/// The functions that do the work of the exported ones.
mod entered {
    use super::{
        HANDLE, IntoRawFd, NTSTATUS, OtherCall, RemoteArguments, RemoteCall, STATUS_NO_MEMORY,
        STATUS_SUCCESS, create, eventfd, global_kernel, poll, ptr, remote, with_event,
    };

    pub(super) extern "C-unwind" fn windtunnel_event_create() -> HANDLE {
        let mut event = 0;
        let mut make = || {
            let number = create().and_then(|event| usize::try_from(event.into_raw_fd()).ok());
            event = number.unwrap_or(0);
            if event == 0 { STATUS_NO_MEMORY } else { STATUS_SUCCESS }
        };
        if remote::is_requested() {
            global_kernel::enter(make);
        } else {
            global_kernel::call_here("windtunnel_event_create", |_, _| make());
        }
        ptr::without_provenance_mut(event)
    }

    pub(super) extern "C-unwind" fn windtunnel_event_is_set(event: HANDLE) -> i32 {
        i32::from(eventfd(event).is_ok_and(|number| poll(number, libc::POLLIN, 0)))
    }

    pub(super) extern "C-unwind" fn windtunnel_event_reset(event: HANDLE) -> NTSTATUS {
        with_event(event, |number| {
            // A semaphore (EFD_SEMAPHORE) is read until it is empty. A client's eventfd may be one that
            // blocks: it is read only if it is set.
            let mut counter = [0_u8; 8];
            while poll(number, libc::POLLIN, 0) {
                // SAFETY: The eight bytes are this function's own.
                let read =
                    unsafe { libc::read(number, counter.as_mut_ptr().cast(), counter.len()) };
                if read < 0 {
                    break;
                }
            }
        })
    }

    pub(super) extern "C-unwind" fn windtunnel_event_wait(event: HANDLE) -> NTSTATUS {
        // A signal interrupts the wait, and a descriptor that is closed ends it.
        loop {
            match eventfd(event) {
                Ok(number) if poll(number, libc::POLLIN, -1) => break STATUS_SUCCESS,
                Ok(_) => (),
                Err(status) => break status,
            }
        }
    }

    pub(super) extern "C-unwind" fn windtunnel_event_close(event: HANDLE) -> NTSTATUS {
        let number = match eventfd(event) {
            Ok(number) => number,
            Err(status) => return status,
        };
        let members = (event.addr() as u64).to_ne_bytes();
        let arguments = RemoteArguments::Members(&members);
        let remote = RemoteCall { entry: OtherCall::EventClose.number(), arguments };
        global_kernel::call("windtunnel_event_close", &remote, |session, _| {
            session.judge_event_close(event).err().unwrap_or(STATUS_SUCCESS)
        });
        // SAFETY: The client gives up its descriptor.
        unsafe { libc::close(number) };
        STATUS_SUCCESS
    }
}

/// The descriptor of a handle, if it is an open eventfd.
fn eventfd(event: HANDLE) -> Result<RawFd, NTSTATUS> {
    descriptor(event).filter(|number| is_eventfd(*number)).ok_or(STATUS_INVALID_HANDLE)
}

fn with_event(event: HANDLE, body: impl FnOnce(RawFd)) -> NTSTATUS {
    eventfd(event).map_or_else(
        |status| status,
        |number| {
            body(number);
            STATUS_SUCCESS
        },
    )
}
