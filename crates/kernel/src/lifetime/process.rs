//! Processes and their handle tables.

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::memory::budget::SegmentGroup;
use crate::memory::queue::PagingQueue;
use crate::objects::handle_table::HasHandle;
use crate::objects::handle_table::ObjectId;
use crate::objects::handle_table::{
    Handle, HandleError, HandleTable, ReservedHandle, ReservedHandles,
};
use crate::objects::view::View;
use crate::state::KernelState;
use flight::{EventKind, Hex, Passive, Subject};

/// A client process.
pub struct Process {
    pub(crate) handles: HandleTable,
    /// The process gets no new handles, and is removed after its objects have ended.
    pub(crate) ended: bool,
    /// Number of its devices that are being created.
    pub(crate) creating: u32,
    /// Bytes reserved for it, by adapter and segment group.
    pub(crate) reserved: Vec<(Id<Adapter>, SegmentGroup, u64)>,
    /// Bytes in its devices' residency lists, by adapter and segment group.
    pub(crate) usage: Vec<(Id<Adapter>, SegmentGroup, u64)>,
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
        let (reserved, charged) = (Vec::new(), Vec::new());
        Self { handles: HandleTable::local(), ended: false, creating: 0, reserved, usage: charged }
    }

    /// Bytes of a segment group in its devices' residency lists.
    pub(crate) fn usage_of(&self, adapter: Id<Adapter>, group: SegmentGroup) -> u64 {
        let mine =
            |entry: &&(Id<Adapter>, SegmentGroup, u64)| (entry.0, entry.1) == (adapter, group);
        self.usage.iter().find(mine).map_or(0, |entry| entry.2)
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
        self.log.emit(number.subject(), EventKind::ProcessOpened {});
        ProcessId(number)
    }

    /// Ends a process with all its objects: devices with their objects, then adapter handles.
    pub fn end_process(&self, at: &mut Passive, process: ProcessId, manner: ProcessExit) {
        {
            let mut state = self.state.lock();
            let Some(it) = state.processes.get_mut(process.0) else { return };
            if std::mem::replace(&mut it.ended, true) {
                return;
            }
            if manner == ProcessExit::Orderly {
                for (_, object) in it.handles.iter() {
                    self.log.emit(
                        process.subject(),
                        EventKind::ProcessLeaked { object: object.subject() },
                    );
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
        for adapter in adapters {
            self.end_unused_space(at, process.0, adapter);
        }
        let mut state = self.state.lock();
        state.processes.take(process.0);
        self.log.emit(process.subject(), EventKind::ProcessEnded {});
        self.wake_all(&mut state);
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
                ObjectId::SyncObject(sync) => self.close_sync(state, process, sync),
                ObjectId::KeyedMutex(keyed) => {
                    self.close_keyed_mutex(state, keyed, process, handle)
                }
                _ => (),
            }
        }
    }

    /// Reserves the next name of a process, and says so.
    pub(crate) fn reserve_handle(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
    ) -> Result<ReservedHandle, KernelError> {
        let it = state.processes.get_mut(process).filter(|process| !process.ended);
        let reserved = it.ok_or(KernelError::HandleTableFull)?.handles.reserve()?;
        let handle = Hex(reserved.handle().0);
        self.log.emit(process.subject(), EventKind::HandleReserved { handle });
        Ok(reserved)
    }

    /// Reserves so many names, or none.
    pub(crate) fn reserve_handles(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
        count: usize,
    ) -> Result<ReservedHandles, KernelError> {
        let mut handles = ReservedHandles::with_capacity(count);
        for _ in 0..count {
            match self.reserve_handle(state, process) {
                Ok(name) => handles.push(name),
                Err(why) => {
                    self.cancel_handles(state, process, handles);
                    return Err(why);
                }
            }
        }
        Ok(handles)
    }

    /// Gives reserved names back, the last one first.
    pub(crate) fn cancel_handles(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
        reserved: ReservedHandles,
    ) {
        let process_names = &mut state.processes[process];
        for name in reserved.into_iter().rev() {
            let handle = Hex(name.handle().0);
            process_names.handles.cancel(name);
            self.log.emit(process.subject(), EventKind::HandleCancelled { handle });
        }
    }

    /// Publishes a reserved name.
    pub(crate) fn publish_handle(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
        reserved: ReservedHandle,
        to: ObjectId,
    ) {
        let it = &mut state.processes[process];
        let handle = Hex(it.handles.publish(reserved, to).0);
        self.log.emit(process.subject(), EventKind::HandlePublished { handle, of: to.subject() });
    }

    /// Ends a name that is known to be live.
    pub(crate) fn close_handle(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
        handle: Handle,
    ) {
        let it = &mut state.processes[process];
        if let Ok(of) = it.handles.close(handle) {
            let handle = Hex(handle.0);
            self.log.emit(process.subject(), EventKind::HandleClosed { handle, of: of.subject() });
        }
    }
}

impl KernelState {
    /// The object that a client's handle names, which must be of this type.
    pub(crate) fn resolve_handle<T: HasHandle>(
        &self,
        process: ProcessId,
        argument: Argument,
        handle: Handle,
    ) -> Result<Id<T>, KernelError> {
        let found = self.find_handle(process, argument, handle)?;
        let why = HandleError::WrongKind(found.subject());
        T::named_by(found).ok_or(KernelError::Handle { argument, handle, why })
    }

    /// The view that a client's handle names: the handle must be of its newest instance.
    pub(crate) fn resolve_view(
        &self,
        process: ProcessId,
        argument: Argument,
        handle: Handle,
    ) -> Result<Id<View>, KernelError> {
        let found = self.find_handle(process, argument, handle)?;
        self.newest_view(found).map_err(|why| KernelError::Handle { argument, handle, why })
    }

    /// The paging queue whose fence a client's handle names.
    pub(crate) fn resolve_queue_fence(
        &self,
        process: ProcessId,
        argument: Argument,
        handle: Handle,
    ) -> Result<Id<PagingQueue>, KernelError> {
        match self.find_handle(process, argument, handle)? {
            ObjectId::QueueFence(queue) => Ok(queue),
            found => {
                let why = HandleError::WrongKind(found.subject());
                Err(KernelError::Handle { argument, handle, why })
            }
        }
    }

    /// What a client's handle names, of whatever kind.
    pub(crate) fn find_handle(
        &self,
        process: ProcessId,
        argument: Argument,
        handle: Handle,
    ) -> Result<ObjectId, KernelError> {
        let found = match self.processes.get(process.0) {
            Some(it) if !it.ended => it.handles.lookup(handle),
            _ => Err(HandleError::ProcessEnded),
        };
        found.map_err(|why| KernelError::Handle { argument, handle, why })
    }
}
