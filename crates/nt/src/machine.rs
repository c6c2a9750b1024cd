//! What a flight has once: the driver's threads, and the queues of its DPCs, timers and work items.
//!
//! A machine belongs to a host, and is found by it. It does not keep the host alive.

use crate::dpc_queue::DpcQueue;
use crate::ob::{self, ObjectReference};
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

/// A thread that a driver started.
struct ThreadRecord {
    thread: DriverThread,
    /// Whether its start routine has not returned.
    lives: bool,
    /// The reference that the running thread holds to its own object.
    own: Option<ObjectReference>,
}

/// What a flight has once.
#[derive(Default)]
pub(crate) struct Machine {
    threads: Mutex<Vec<ThreadRecord>>,
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

    /// Records that a driver's thread exists, with its own reference to its object.
    pub(crate) fn add_thread(&self, name: &str, start_routine: usize, own: ObjectReference) {
        own.set_name(self.object_name(name));
        let thread = DriverThread { name: name.to_owned(), start_routine, object: own.address() };
        self.threads().push(ThreadRecord { thread, lives: true, own: Some(own) });
    }

    /// Records that a driver's thread runs no more code of the driver. Its object stays until
    /// [`Machine::release_thread`].
    pub(crate) fn end_thread(&self, name: &str) {
        let mut threads = self.threads();
        let record = threads.iter_mut().find(|record| record.thread.name == name);
        if let Some(record) = record {
            record.lives = false;
        }
    }

    /// Releases the own reference of a thread that has ended.
    pub(crate) fn release_thread(&self, name: &str) {
        let mut threads = self.threads();
        // The reference is dropped under the lock, so that `referenced_threads` counts it or not.
        if let Some(record) = threads.iter_mut().find(|record| record.thread.name == name) {
            record.own = None;
        }
        threads.retain(|record| record.lives || self.references(record) > 0);
    }

    /// Number of references of the driver's to the object of a thread, with open handles.
    fn references(&self, record: &ThreadRecord) -> usize {
        let thread = &record.thread;
        let all = ob::references(thread.object, &self.object_name(&thread.name));
        all.saturating_sub(usize::from(record.own.is_some()))
    }

    /// A name that no other object has: addresses are used again.
    fn object_name(&self, thread: &str) -> String {
        format!("{:x} {thread}", std::ptr::from_ref(self).addr())
    }

    fn threads(&self) -> MutexGuard<'_, Vec<ThreadRecord>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The threads that a driver started on this host and that have not ended, in the order in which
/// they were started. A thread that is ended by the host stays in the list.
pub fn driver_threads(host: &Arc<dyn Host>) -> Vec<DriverThread> {
    let machine = Machine::of(host);
    let threads = machine.threads();
    threads.iter().filter(|record| record.lives).map(|record| record.thread.clone()).collect()
}

/// The threads that have ended and whose objects the driver still references, by a pointer or by a
/// handle that is open; with the number of these references.
pub fn referenced_threads(host: &Arc<dyn Host>) -> Vec<(DriverThread, usize)> {
    let machine = Machine::of(host);
    let threads = machine.threads();
    let ended = threads.iter().filter(|record| !record.lives);
    let counted = ended.map(|record| (record.thread.clone(), machine.references(record)));
    counted.filter(|(_, references)| *references > 0).collect()
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
