//! What is remembered of a process: its handles, and the calls its threads are in.

use super::Serial;
use super::sync::GpuWait;
use crate::handle_history::HandleHistory;
use flight::Text;
use smallvec::SmallVec;

/// Of a process: its names, and what its threads are doing.
#[derive(Debug, Default)]
pub struct Process {
    /// Its handle table.
    pub handles: HandleHistory,
    /// The client calls its threads are in.
    pub calls: Vec<ClientCall>,
    /// How many things it left alive.
    pub leaked: u32,
    /// How many bytes it let go of since it was told that memory is short.
    pub trimmed: u64,
    /// How many names of synchronisation objects it has.
    pub sync_handles: u32,
}

/// A call of a client that has not been answered yet.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct ClientCall {
    /// The thread that called.
    pub thread: u32,
    /// The entry it called.
    pub name: Text,
    /// The names it reserved and did not give back.
    pub reserved: SmallVec<[u32; 4]>,
    /// The first name it gave.
    pub published: Option<u32>,
    /// Whether the driver refused something in it.
    pub driver_failed: bool,
    /// Whether it is an escape that names what is not there.
    pub unresolved: bool,
    /// Whether its driver was asked to create allocations in it.
    pub creates: bool,
    /// Whether an escape of it came to the driver.
    pub delivered: bool,
    /// A wait of its thread that is not over.
    pub gpu_wait: Option<Serial<GpuWait>>,
}

impl Process {
    /// The call that this thread is in.
    pub fn call(&self, thread: u32) -> Option<&ClientCall> {
        self.calls.iter().rev().find(|call| call.thread == thread)
    }

    pub(crate) fn call_mut(&mut self, thread: u32) -> Option<&mut ClientCall> {
        self.calls.iter_mut().rev().find(|call| call.thread == thread)
    }
}
