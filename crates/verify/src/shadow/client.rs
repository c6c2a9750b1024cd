//! The shadow of a process: its handles, and the calls its threads are in.

use super::Serial;
use super::sync::GpuWait;
use crate::handle_history::HandleHistory;
use flight::Text;
use smallvec::SmallVec;

/// A process: its handles, and the calls of its threads.
#[derive(Debug, Default)]
pub struct Process {
    /// Its handle table.
    pub handles: HandleHistory,
    /// The client calls its threads are in.
    pub calls: Vec<ClientCall>,
    /// Whether it has called an entry point.
    pub has_called: bool,
    /// How many objects it leaked.
    pub leaked: u32,
    /// How many bytes it released since it was notified that memory is short.
    pub trimmed: u64,
    /// How many handles of synchronisation objects it has.
    pub sync_handles: u32,
}

/// A client call that has not returned.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct ClientCall {
    /// The thread that called.
    pub thread: u32,
    /// The entry it called.
    pub name: Text,
    /// The event of the call.
    pub entered: u64,
    /// The handles it reserved and did not cancel.
    pub reserved: SmallVec<[u32; 4]>,
    /// The first handle it published.
    pub published: Option<u32>,
    /// Whether the driver failed a request in it.
    pub driver_failed: bool,
    /// Whether it is an escape that names an object that does not exist.
    pub unresolved: bool,
    /// Whether its driver was called to create allocations in it.
    pub creates: bool,
    /// Whether its escape was delivered to the driver.
    pub delivered: bool,
    /// A wait of its thread that is not over.
    pub gpu_wait: Option<Serial<GpuWait>>,
}

impl Process {
    /// The call that this thread is in.
    pub fn call(&self, thread: u32) -> Option<&ClientCall> {
        self.calls.iter().rev().find(|call| call.thread == thread)
    }

    /// Whether what happens on this thread is a call of the process, and not its end or that of an
    /// adapter.
    pub fn is_calling(&self, thread: u32) -> bool {
        !self.has_called || self.call(thread).is_some()
    }

    pub(crate) fn call_mut(&mut self, thread: u32) -> Option<&mut ClientCall> {
        self.calls.iter_mut().rev().find(|call| call.thread == thread)
    }
}
