//! Handles of clients in other processes: descriptors that go over the channel of the current call.

use crate::conversation;
use crate::event_descriptors::{self, Owner};
use crate::nt_descriptors::NtDescriptors;
use crate::process_descriptor;
use crate::server_client::SharedServer;
use abi::status::{STATUS_ACCESS_DENIED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE};
use abi::{HANDLE, NTSTATUS};
use kernel::{EventSink, NtHandleId};
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use thunk::{EventHandles, NamedProcess, NtHandles, ProcessHandles};

/// The NT handles of all clients: one and the same object in each.
pub(crate) struct RemoteNtHandles(pub(crate) Arc<NtDescriptors>);

impl NtHandles for RemoteNtHandles {
    fn publish(&self, handle: NtHandleId, inherit: bool) -> Result<usize, NTSTATUS> {
        let end = self.0.create(handle).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        conversation::give_descriptor(end.as_fd(), inherit).ok_or(STATUS_INSUFFICIENT_RESOURCES)
    }

    fn find(&self, number: usize) -> Option<NtHandleId> {
        let (descriptor, _) = conversation::take_descriptor(number)?;
        self.0.find_descriptor(descriptor.as_fd())
    }

    fn close_closed(&self, close: &mut dyn FnMut(NtHandleId)) {
        self.0.close_closed(close);
    }
}

/// The events of clients.
pub(crate) struct RemoteEvents;

impl EventHandles for RemoteEvents {
    fn find(&self, handle: HANDLE) -> Option<Arc<dyn EventSink>> {
        let number = event_descriptors::descriptor(handle)?;
        let (descriptor, _) = conversation::take_descriptor(handle.addr())?;
        event_descriptors::sink_of(number, descriptor, Owner::Client)
    }

    fn create(&self) -> Result<(usize, Arc<dyn EventSink>), NTSTATUS> {
        let full = STATUS_INSUFFICIENT_RESOURCES;
        let event = event_descriptors::create().ok_or(full)?;
        let number = conversation::give_descriptor(event.as_fd(), false).ok_or(full)?;
        let handle = i32::try_from(number).map_err(|_| full)?;
        Ok((number, event_descriptors::sink_of(handle, event, Owner::Client).ok_or(full)?))
    }

    fn discard(&self, handle: usize) {
        conversation::close_descriptor(handle);
    }
}

/// The processes that a client names.
pub(crate) struct RemoteProcesses {
    pub(crate) server: Weak<SharedServer>,
    /// The client's own number.
    pub(crate) caller: i32,
}

impl ProcessHandles for RemoteProcesses {
    fn find(&self, handle: HANDLE, rights: u32) -> Result<NamedProcess, NTSTATUS> {
        let taken = conversation::take_descriptor(handle.addr());
        let (descriptor, granted) = taken.ok_or(STATUS_INVALID_HANDLE)?;
        let process = process_descriptor::process_of(descriptor.as_fd());
        let process = process.ok_or(STATUS_INVALID_HANDLE)?;
        if granted & rights != rights {
            return Err(STATUS_ACCESS_DENIED);
        }
        if process == self.caller {
            return Ok(NamedProcess::Caller);
        }
        let server = self.server.upgrade();
        let other = server.and_then(|server| {
            let clients = server.clients();
            let client = clients.iter().find(|client| client.number == process);
            client.map(|client| client.session.process())
        });
        Ok(other.map_or(NamedProcess::Unknown, NamedProcess::Other))
    }
}
