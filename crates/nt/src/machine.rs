//! What a flight has once: the driver's threads, and the queues of its DPCs, timers and work items.
//!
//! A machine belongs to a host, and is found by it. It does not keep the host alive.

use crate::Executive;
use crate::dpc_queue::DpcQueue;
use crate::ob::ObjectReference;
use crate::owned::{Origin, OwnedKind, Scope};
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
    origin: Origin,
    /// The reference that the running thread holds to its own object.
    _own: ObjectReference,
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
    pub(crate) fn add_thread(
        &self,
        name: &str,
        start_routine: usize,
        (own, origin): (ObjectReference, Origin),
    ) {
        let thread = DriverThread { name: name.to_owned(), start_routine, object: own.address() };
        self.threads().push(ThreadRecord { thread, lives: true, origin, _own: own });
    }

    /// The number of the driver's threads that have not ended.
    pub(crate) fn thread_count(&self) -> usize {
        self.threads().len()
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

    /// Forgets a thread that has ended or cannot be started, with its own reference.
    pub(crate) fn release_thread(&self, name: &str) {
        self.threads().retain(|record| record.thread.name != name);
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

/// What the driver on this host has left, of a kind and in a scope, and what was not reported.
pub fn left_things(
    host: &Arc<dyn Host>,
    executive: &Executive,
    kind: OwnedKind,
    scope: &Scope,
) -> Vec<Origin> {
    let machine = Machine::of(host);
    let origins = match kind {
        OwnedKind::RunningThread => {
            let threads = machine.threads();
            threads.iter().filter(|record| record.lives).map(|record| record.origin).collect()
        }
        OwnedKind::QueuedDpc => machine.dpcs.pending().0,
        OwnedKind::DelayedDpc => machine.dpcs.delayed(),
        OwnedKind::SetTimer => machine.dpcs.pending().1,
        OwnedKind::QueuedWorkItem => machine.work.pending().0,
        OwnedKind::RunningWorkItem => machine.work.pending().1,
        kind => executive.owned_origins(kind),
    };
    executive.unreported(origins, scope)
}
