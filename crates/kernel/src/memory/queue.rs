//! Paging queues of clients, each with a fence that counts the completed work.

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::ddi::miniport::Generation;
use crate::ddi::operation::PAGE;
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::device::UserMapping;
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::Handle;
use crate::objects::handle_table::ObjectId;
use crate::state::KernelState;
use crate::sync::waits::SyncPoint;
use flight::{EventKind, Passive, Run};
use smallvec::smallvec;

/// A paging queue (`hPagingQueue`).
pub(crate) struct PagingQueue {
    pub(crate) device: Id<Device>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) handle: Handle,
    /// The handle of its fence (`hSyncObject`).
    pub(crate) fence: Handle,
    /// The last value that queued work will signal.
    pub(crate) last_assigned: u64,
    /// The last signaled value.
    pub(crate) last_signalled: u64,
    /// The memory of the fence's value.
    run: Run,
    /// The client's CPU address of the fence's value.
    view: usize,
}

/// What a client receives for a new queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreatePagingQueueResponse {
    /// The queue.
    pub queue: Handle,
    /// Its fence.
    pub fence: Handle,
    /// The CPU address of the fence's value.
    pub value: usize,
}

impl Kernel {
    /// Creates a paging queue (`D3DKMTCreatePagingQueue`).
    pub fn create_paging_queue(
        &self,
        process: ProcessId,
        device: Handle,
        priority: u32,
    ) -> Result<CreatePagingQueueResponse, KernelError> {
        let guard = self.enter_device(process, device)?;
        let state = &mut *self.state.lock();
        let adapter = guard.adapter;
        let ram = state
            .adapter_memory(adapter)
            .map(|memory| memory.ram.clone())
            .ok_or(KernelError::NoVideoMemory)?;
        // WINDOWS: a WDDM 1.x driver has no paging queues (observed).
        if guard.driver.generation == Generation::One {
            return Err(KernelError::UnsupportedByDriverModel(adapter.subject()));
        }
        let name = self.reserve_handle(state, process.0)?;
        let fence = match self.reserve_handle(state, process.0) {
            Ok(it) => it,
            Err(why) => {
                self.cancel_handle(state, process.0, name);
                return Err(why);
            }
        };
        let page = ram.allocate(PAGE);
        let seen = page.and_then(|run| Some((run, ram.map(&[run])?)));
        let Some((run, view)) = seen else {
            if let Some(page) = page {
                ram.free(page);
            }
            self.cancel_handles(state, process.0, smallvec![name, fence]);
            return Err(KernelError::NoMemory { trim: 0 });
        };
        let made =
            CreatePagingQueueResponse { queue: name.handle(), fence: fence.handle(), value: view };
        let number = state.memory.paging_queues.insert(PagingQueue {
            device: guard.device,
            adapter,
            handle: made.queue,
            fence: made.fence,
            last_assigned: 0,
            last_signalled: 0,
            run,
            view,
        });
        let subject = number.subject();
        self.log
            .emit(subject, || EventKind::PagingQueueCreated { device: guard.subject(), priority });
        self.publish_handle(state, process.0, name, number.into());
        self.publish_handle(state, process.0, fence, ObjectId::QueueFence(number));
        state.devices[guard.device].queues.insert(number);
        Ok(made)
    }

    /// Destroys a paging queue once its work is done (`D3DKMTDestroyPagingQueue`).
    pub fn destroy_paging_queue(
        &self,
        at: &mut Passive,
        process: ProcessId,
        handle: Handle,
    ) -> Result<(), KernelError> {
        let number = {
            let state = self.state.lock();
            state.resolve_handle::<PagingQueue>(process, Argument::PagingQueue, handle)?
        };
        self.end_paging_queue(at, number);
        Ok(())
    }

    /// Waits for a queue's work, then destroys the queue.
    pub(crate) fn end_paging_queue(&self, at: &mut Passive, number: Id<PagingQueue>) {
        let about = number.subject();
        {
            let state = &mut *self.state.lock();
            // Another thread may have destroyed it meanwhile.
            let Some(it) = state.memory.paging_queues.get(number) else { return };
            let process = state.devices[it.device].owner();
            for name in [it.handle, it.fence] {
                self.close_handle(state, process, name);
            }
        }
        let over = |state: &KernelState| {
            state.memory.paging_queues.get(number).is_none_or(|paging_queue| {
                paging_queue.last_signalled >= paging_queue.last_assigned
            })
        };
        while !self.wait_until(at, about, |_| format!("the paging work of {about}"), over) {
            let queue =
                |state: &KernelState| state.memory.paging_queues.get(number).map(|it| it.adapter);
            // Another thread may have destroyed it meanwhile.
            let Some(adapter) = queue(&self.state.lock()) else { return };
            if !self.fail_paging(adapter) {
                break; // The work was already abandoned once.
            }
        }
        let mut state = self.state.lock();
        // Another thread may have destroyed it meanwhile.
        let Some(it) = state.memory.paging_queues.take(number) else { return };
        if let Some(ram) = state.adapter_memory(it.adapter).map(|memory| memory.ram.clone()) {
            state.unmap_from_user(it.device, UserMapping { ram, run: it.run, view: it.view });
        }
        // A device ends after its queues.
        state.devices[it.device].queues.remove(&number);
        self.log.emit(about, || EventKind::PagingQueueDestroyed {});
        // Waits for values that the queue will never signal end here.
        self.release_cpu_waits(&mut state, SyncPoint::Queue(number), |_| true);
        self.recheck_waits(&mut state, SyncPoint::Queue(number));
        self.resume_satisfied(&mut state);
        self.wake_all(&mut state);
    }

    pub(crate) fn signal_paging_queue(
        &self,
        state: &mut KernelState,
        number: Id<PagingQueue>,
        value: u64,
    ) {
        // Another thread may have destroyed it meanwhile.
        let Some(it) = state.memory.paging_queues.get_mut(number) else { return };
        it.last_signalled = it.last_signalled.max(value);
        let (adapter, start) = (it.adapter, it.run.start);
        self.log.emit(number.subject(), || EventKind::PagingQueueSignalled { value });
        if let Some(memory) = state.adapter_memory(adapter) {
            memory.ram.write(start, &value.to_le_bytes());
        }
        self.recheck_waits(state, SyncPoint::Queue(number));
        self.resume_satisfied(state);
    }
}

impl KernelState {
    /// Resolves a client's queue handle. Fails if the queue's device is lost.
    pub(crate) fn find_paging_queue(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<(Id<PagingQueue>, Id<Device>), KernelError> {
        let number = self.resolve_handle::<PagingQueue>(process, Argument::PagingQueue, handle)?;
        let device = self.memory.paging_queues[number].device;
        Ok((number, device))
    }

    /// The next value of a queue.
    pub(crate) fn next_queue_value(&mut self, queue: Id<PagingQueue>) -> u64 {
        self.memory.paging_queues.get_mut(queue).map_or(0, |paging_queue| {
            paging_queue.last_assigned += 1;
            paging_queue.last_assigned
        })
    }

    /// Whether an adapter has paging work that is not built.
    pub(crate) fn has_unbuilt_paging(&self, adapter: Id<Adapter>) -> bool {
        self.adapter_memory(adapter).is_some_and(|memory| !memory.planned.is_empty())
    }
}
