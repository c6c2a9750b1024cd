//! Events of clients, for `hAsyncEvent`, `CPUNotification.Event` and `CpuEventHandle`.
//!
//! On Windows these are handles of system events. An event is a number of the kernel here, or what
//! the owner of the session makes of the client's handle ([`EventHandles`]): the C library's events
//! are descriptors of `eventfd(2)`.

use crate::refusal::refused;
use crate::session::Session;
use crate::status::status;
use abi::status::STATUS_INVALID_HANDLE;
use abi::{HANDLE, NTSTATUS};
use flight::Passive;
use kernel::{EventSink, KernelError};
use std::ptr;
use std::sync::Arc;

/// The distance between the handles of the kernel's events.
const STEP: usize = 4;

/// The events of a process that are not the kernel's.
pub trait EventHandles: Send + Sync {
    /// What sets the event that a client's handle stands for now; `None` if it stands for none.
    fn find(&self, handle: HANDLE) -> Option<Arc<dyn EventSink>>;

    /// Creates an event that is not set, for a call that returns it. Returns the client's handle of
    /// it, and what sets it.
    ///
    /// # Errors
    ///
    /// The status of a call that cannot return an event.
    fn create(&self) -> Result<(usize, Arc<dyn EventSink>), NTSTATUS>;

    /// Closes an event that [`EventHandles::create`] returned, whose call has failed.
    fn discard(&self, handle: usize);
}

/// An event that a call returns to its client.
pub(crate) struct NewEvent {
    pub(crate) handle: usize,
    sink: Option<Arc<dyn EventSink>>,
}

/// The number of a handle of the kernel's; zero for an invalid handle.
fn number(handle: HANDLE) -> u32 {
    let number = handle.addr() / STEP;
    let whole = handle.addr().is_multiple_of(STEP);
    u32::try_from(number).ok().filter(|_| whole).unwrap_or(0)
}

impl Session {
    /// Makes a request of the kernel with the event that a client's handle stands for.
    pub(crate) fn with_event<R>(
        &self,
        handle: HANDLE,
        request: impl FnOnce(u32) -> Result<R, KernelError>,
    ) -> Result<R, KernelError> {
        let Some(events) = self.event_handles() else { return request(number(handle)) };
        if let Some(sink) = events.find(handle) {
            return self.kernel.with_event_for(self.process, sink, request);
        }
        // What else is wrong with the request is told first.
        request(number(ptr::null_mut())).map_err(|why| match why {
            KernelError::EventNotFound(_) => {
                KernelError::EventNotFound(u32::try_from(handle.addr()).unwrap_or(u32::MAX))
            }
            other => other,
        })
    }

    /// As [`Session::with_event`], if there is a handle.
    pub(crate) fn with_optional_event<R>(
        &self,
        handle: Option<HANDLE>,
        request: impl FnOnce(Option<u32>) -> Result<R, KernelError>,
    ) -> Result<R, KernelError> {
        match handle {
            Some(handle) => self.with_event(handle, |event| request(Some(event))),
            None => request(None),
        }
    }

    /// Creates an event that a call returns.
    pub(crate) fn new_event(&self) -> Result<NewEvent, NTSTATUS> {
        let Some(events) = self.event_handles() else {
            return Ok(NewEvent { handle: self.create_event(), sink: None });
        };
        let created = events.create();
        let full = |status| refused(status, "there is no descriptor left for an event");
        let (handle, sink) = created.map_err(full)?;
        Ok(NewEvent { handle, sink: Some(sink) })
    }

    /// Makes a request of the kernel with a new event.
    pub(crate) fn with_new_event<R>(
        &self,
        event: &NewEvent,
        request: impl FnOnce(u32) -> Result<R, KernelError>,
    ) -> Result<R, KernelError> {
        match &event.sink {
            Some(sink) => self.kernel.with_event_for(self.process, sink.clone(), request),
            None => request(number(ptr::without_provenance_mut(event.handle))),
        }
    }

    /// Closes a new event whose call has failed.
    pub(crate) fn discard_event(&self, event: &NewEvent) {
        if let (Some(events), Some(_)) = (self.event_handles(), &event.sink) {
            events.discard(event.handle);
        } else {
            let _ = self.close_event(ptr::without_provenance_mut(event.handle)); // It is open.
        }
    }

    /// Judges that the client closes its handle of an event that is not the kernel's.
    pub fn judge_event_close(&self, handle: HANDLE) -> Result<(), NTSTATUS> {
        let sink = self.event_handles().and_then(|events| events.find(handle));
        let unknown = || refused(STATUS_INVALID_HANDLE, "the handle is no event of the client");
        self.kernel.judge_event_close(self.process, &*sink.ok_or_else(unknown)?);
        Ok(())
    }
}

/// The events of the kernel.
impl Session {
    /// Creates a manual-reset event that is not set.
    pub fn create_event(&self) -> usize {
        self.kernel.create_event(self.process) as usize * STEP
    }

    /// Whether an event is set.
    pub fn event_is_set(&self, handle: HANDLE) -> Result<bool, NTSTATUS> {
        self.kernel.event_is_set(self.process, number(handle)).map_err(|why| status(&why))
    }

    /// Resets an event.
    pub fn reset_event(&self, handle: HANDLE) -> Result<(), NTSTATUS> {
        self.kernel.reset_event(self.process, number(handle)).map_err(|why| status(&why))
    }

    /// Waits until an event is set.
    pub fn wait_event(&self, at: &mut Passive, handle: HANDLE) -> Result<(), NTSTATUS> {
        self.kernel.wait_event(at, self.process, number(handle)).map_err(|why| status(&why))
    }

    /// Closes the client's handle of an event.
    pub fn close_event(&self, handle: HANDLE) -> Result<(), NTSTATUS> {
        self.kernel.close_event(self.process, number(handle)).map_err(|why| status(&why))
    }
}
