//! Processes and their handle tables.

use crate::adapter::start::Adapter;
use crate::adapter::start::AdapterState;
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::memory::budget::SegmentGroup;
use crate::objects::handle_table::HandleTable;
use crate::objects::handle_table::ObjectId;
use crate::schedule::dispatch::PacketCounts;
use crate::state::KernelState;
use flight::{EventKind, Passive, Subject};

/// A client process.
pub struct Process {
    pub(crate) handles: HandleTable,
    /// The process gets no new handles, and is removed after its objects have ended.
    pub(crate) ended: bool,
    /// Its handles are closed: it is removed with its last device.
    is_closed: bool,
    /// Number of its devices that are being created.
    pub(crate) creating: u32,
    /// Bytes reserved for it, by adapter and segment group.
    pub(crate) reserved: Vec<(Id<Adapter>, SegmentGroup, u64)>,
    /// Bytes in its devices' residency lists, by adapter and segment group.
    pub(crate) usage: Vec<(Id<Adapter>, SegmentGroup, u64)>,
    /// The packets of its contexts that have ended, by adapter and node.
    pub(crate) ended_packets: Vec<(Id<Adapter>, usize, PacketCounts)>,
}

/// Identifies a process to the thunk layer that represents it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId(pub(crate) Id<Process>);

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    /// The process exits: objects that it leaks break a rule.
    Orderly,
    /// The process was killed, and could not clean up.
    Killed,
}

impl Process {
    fn new() -> Self {
        Self {
            handles: HandleTable::local(),
            ended: false,
            is_closed: false,
            creating: 0,
            reserved: Vec::new(),
            usage: Vec::new(),
            ended_packets: Vec::new(),
        }
    }
}

impl ProcessId {
    /// The process as the subject of events.
    pub fn subject(self) -> Subject {
        self.0.subject()
    }
}

impl Kernel {
    /// Adds a process.
    pub fn open_process(&self) -> ProcessId {
        let mut state = self.state.lock();
        let number = state.processes.insert(Process::new());
        self.log.emit(number.subject(), || EventKind::ProcessOpened {});
        ProcessId(number)
    }

    /// Ends a process with all its objects: devices with their objects, then adapter handles.
    pub fn end_process(&self, at: &mut Passive, process: ProcessId, manner: ProcessExit) {
        {
            let mut state = self.state.lock();
            // The host may end a process twice.
            let Some(it) = state.processes.get_mut(process.0) else { return };
            if std::mem::replace(&mut it.ended, true) {
                return;
            }
            if manner == ProcessExit::Orderly {
                for (_, object) in it.handles.iter() {
                    self.log.emit(process.subject(), || EventKind::ProcessLeaked {
                        object: object.subject(),
                    });
                }
            }
            self.end_events(&mut state, process.0);
        }
        // From here on no call can enter the process's devices; calls inside them return.
        self.end_devices(at, process.subject(), Some(process.0), |_| true);
        let about = process.subject();
        let over = |state: &KernelState| {
            state.processes.get(process.0).is_none_or(|process| process.creating == 0)
        };
        self.wait_until(
            at,
            about,
            |_| format!("the objects that are being created for {about}"),
            over,
        );
        let adapters = {
            let mut state = self.state.lock();
            self.close_handles(&mut state, process.0);
            state.adapters.iter().map(|pair| pair.0).collect::<Vec<Id<Adapter>>>()
        };
        self.close_nt_handles(at, process.0);
        for adapter in adapters {
            self.end_unused_space(at, process.0, adapter);
        }
        let mut state = self.state.lock();
        if let Some(it) = state.processes.get_mut(process.0) {
            it.is_closed = true;
        }
        self.remove_process(&mut state, process.0);
        self.wake_all(&mut state);
    }

    /// Removes a process whose handles are closed and that has no device. A device that a call is
    /// inside, for which its end could not wait, is removed with that call.
    pub(crate) fn remove_process(&self, state: &mut KernelState, process: Id<Process>) {
        let closed = state.processes.get(process).is_some_and(|process| process.is_closed);
        if closed && state.devices_of(process).next().is_none() {
            state.processes.remove(process);
            self.log.emit(process.subject(), || EventKind::ProcessEnded {});
        }
    }

    /// Closes the remaining handles of an ended process: adapters, zombie devices, synchronization
    /// objects and keyed mutexes.
    fn close_handles(&self, state: &mut KernelState, process: Id<Process>) {
        let handles =
            state.processes.get(process).map(|process| process.handles.iter().collect::<Vec<_>>());
        for (handle, object) in handles.unwrap_or_default() {
            self.close_handle(state, process, handle);
            match object {
                ObjectId::Adapter(adapter) => state.close_adapter(adapter),
                ObjectId::Device(device) => self.remove_device_object(state, device),
                ObjectId::SyncObject(sync) => self.close_sync(state, process, handle, sync),
                ObjectId::KeyedMutex(keyed) => {
                    self.close_keyed_mutex(state, keyed, process, handle);
                }
                _ => (),
            }
        }
    }
}

impl KernelState {
    /// Closes an adapter handle. With its last handle, a stopped adapter is removed.
    pub(crate) fn close_adapter(&mut self, number: Id<Adapter>) {
        let it = &mut self.adapters[number];
        it.opens -= 1;
        if it.opens == 0 && it.state == AdapterState::Stopped {
            self.adapters.take(number);
        }
    }
}
