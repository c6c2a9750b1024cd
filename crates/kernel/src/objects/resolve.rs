//! Handles of clients: reserved, published, closed, and the objects that they name.

use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::process::{Process, ProcessId};
use crate::memory::queue::PagingQueue;
use crate::objects::handle_table::{
    Handle, HandleError, HasHandle, ObjectId, ReservedHandle, ReservedHandles,
};
use crate::state::KernelState;
use flight::{EventKind, Hex};

impl Kernel {
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
