//! Client handles: reserving, publishing, closing and resolving them.
#![expect(clippy::inline_always, reason = "steps of the path of one allocation")]

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
    /// Reserves the next handle of a process, and logs it.
    #[inline(always)]
    pub(crate) fn reserve_handle(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
    ) -> Result<ReservedHandle, KernelError> {
        let it = state.processes.get_mut(process).filter(|process| !process.ended);
        let reserved = it.ok_or(KernelError::HandleTableFull)?.handles.reserve()?;
        let handle = Hex(reserved.handle().0);
        self.log.emit(process.subject(), || EventKind::HandleReserved { handle });
        Ok(reserved)
    }

    /// Reserves `count` handles, or none if that fails.
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

    /// Cancels reserved handles, the last one first.
    pub(crate) fn cancel_handles(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
        reserved: ReservedHandles,
    ) {
        for name in reserved.into_iter().rev() {
            self.cancel_handle(state, process, name);
        }
    }

    /// Cancels a reserved handle.
    pub(crate) fn cancel_handle(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
        reserved: ReservedHandle,
    ) {
        let handle = Hex(reserved.handle().0);
        state.processes[process].handles.cancel(reserved);
        self.log.emit(process.subject(), || EventKind::HandleCancelled { handle });
    }

    /// Publishes a reserved handle.
    #[inline(always)]
    pub(crate) fn publish_handle(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
        reserved: ReservedHandle,
        to: ObjectId,
    ) {
        let it = &mut state.processes[process];
        let handle = Hex(it.handles.publish(reserved, to).0);
        self.log
            .emit(process.subject(), || EventKind::HandlePublished { handle, of: to.subject() });
    }

    /// Closes a live handle.
    #[inline(always)]
    pub(crate) fn close_handle(
        &self,
        state: &mut KernelState,
        process: Id<Process>,
        handle: Handle,
    ) {
        let it = &mut state.processes[process];
        if let Ok(of) = it.handles.close(handle) {
            let handle = Hex(handle.0);
            self.log
                .emit(process.subject(), || EventKind::HandleClosed { handle, of: of.subject() });
        }
    }
}

impl KernelState {
    /// The object of a client's handle, which must be of this type.
    #[inline]
    pub(crate) fn resolve_handle<T: HasHandle>(
        &self,
        process: ProcessId,
        argument: Argument,
        handle: Handle,
    ) -> Result<Id<T>, KernelError> {
        let found = self.find_handle(process, argument, handle)?;
        T::named_by(found).ok_or_else(|| {
            let why = HandleError::WrongKind(found.subject());
            KernelError::Handle { argument, handle, why }
        })
    }

    /// The paging queue of a client's handle for a paging fence.
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

    /// The object of a client's handle, of any type.
    #[inline]
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
