//! What a flight has once: the driver's threads, and the queues of its DPCs, timers and work items.
//!
//! A machine belongs to a host, and is found by it. It does not keep the host alive.

use crate::dpc_queue::DpcQueue;
use crate::work_queue::WorkQueue;
use flight::Host;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The machines of the hosts that exist.
static MACHINES: Mutex<Vec<HostMachine>> = Mutex::new(Vec::new());

/// A host and its machine.
type HostMachine = (Weak<dyn Host>, Arc<Machine>);

/// A thread that a driver started and that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverThread {
    /// Its name in the events of the host.
    pub name: String,
    /// The address of its start routine.
    pub start_routine: usize,
    /// The address of its thread object.
    pub object: usize,
}

/// What a flight has once.
#[derive(Default)]
pub(crate) struct Machine {
    threads: Mutex<Vec<DriverThread>>,
    started_threads: AtomicU32,
    pub(crate) dpcs: DpcQueue,
    pub(crate) work: WorkQueue,
}

impl Machine {
    /// The machine of a host.
    pub(crate) fn of(host: &Arc<dyn Host>) -> Arc<Self> {
        let mut machines = MACHINES.lock().unwrap_or_else(PoisonError::into_inner);
        // A weak reference keeps the address of its host from being used again.
        machines.retain(|(owner, _)| owner.strong_count() > 0);
        let same = |(owner, _): &&HostMachine| std::ptr::addr_eq(owner.as_ptr(), Arc::as_ptr(host));
        if let Some((_, machine)) = machines.iter().find(same) {
            return machine.clone();
        }
        let machine = Arc::<Self>::default();
        machines.push((Arc::downgrade(host), machine.clone()));
        machine
    }

    /// The number of the next thread that the driver starts, from one up.
    pub(crate) fn next_thread(&self) -> u32 {
        self.started_threads.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Records that a driver's thread exists.
    pub(crate) fn add_thread(&self, thread: DriverThread) {
        self.threads().push(thread);
    }

    /// Records that a driver's thread has ended.
    pub(crate) fn remove_thread(&self, object: usize) {
        self.threads().retain(|thread| thread.object != object);
    }

    fn threads(&self) -> MutexGuard<'_, Vec<DriverThread>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The threads that a driver started on this host and that have not ended, in the order in which
/// they were started. A thread that is ended by the host stays in the list.
pub fn driver_threads(host: &Arc<dyn Host>) -> Vec<DriverThread> {
    Machine::of(host).threads().clone()
}

/// What a driver has queued and what has not run yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingWork {
    /// Number of DPCs that are queued.
    pub dpcs: usize,
    /// Number of timers that are set.
    pub timers: usize,
    /// Number of work items that are queued or run.
    pub work_items: usize,
}

/// What the driver on this host has queued.
pub fn pending_work(host: &Arc<dyn Host>) -> PendingWork {
    let machine = Machine::of(host);
    let (dpcs, timers) = machine.dpcs.pending();
    PendingWork { dpcs, timers, work_items: machine.work.pending() }
}
