//! The DPCs and timers of a driver. One worker thread of the host runs them, in order.
//!
//! # Invariants
//!
//! 1. A DPC is queued at most once, and a timer is set at most once; each is known by its address.
//!    What a DPC calls is read from its memory when it leaves the queue: the routine may free it.
//! 2. Timers expire in the order of their due times, and in the order of their setting if these are
//!    equal. Addresses decide nothing.
//! 3. A routine runs in the execution context of the thread that queued it, at `DISPATCH_LEVEL`; a
//!    threaded DPC at passive level.
//! 4. When the host ends, the queue is emptied: its entries keep the host alive.

use crate::dispatcher::ObjectMemory;
use crate::machine::Machine;
use crate::owned::{self, Origin};
use crate::processor::{current, judge_routine_exit, run_routine};
use crate::raised_time::judge_dpc;
use crate::waits::{self, WaitEnd};
use flight::{Component, Dispatch, ExecutionContext, Host, Irql, Log, Passive, WaitToken};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The DPCs and timers of a machine.
#[derive(Default)]
pub(crate) struct DpcQueue(Mutex<DpcState>);

#[derive(Default)]
struct DpcState {
    /// Wakes the worker. `None` while there is no worker.
    work_available: Option<WaitToken>,
    queue: VecDeque<Entry>,
    timers: BTreeMap<usize, Timer>,
    /// Number of entries and timers so far.
    count: u64,
    /// The number of the entry that runs.
    running: Option<u64>,
    /// Threads that wait for the entries up to a number.
    flushing: Vec<WaitToken>,
}

/// What a driver queued, and how it runs.
struct Entry {
    number: u64,
    /// The address of the DPC or timer.
    key: usize,
    delayed: bool,
    routine: Routine,
    caller: Caller,
}

/// When a DPC runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Before the other DPCs that are queued.
    First,
    /// When the processor leaves `DISPATCH_LEVEL`.
    Next,
    /// Later: the DPC has a low importance, or a thread runs it.
    Delayed,
}

/// Returns the routine of a DPC, read from its memory, and whether it is threaded.
pub(crate) type ReadDpc = fn(usize) -> (Box<dyn FnOnce() + Send>, bool);

/// What to call.
pub(crate) enum Routine {
    Dpc(ReadDpc),
    Callback(Box<dyn FnOnce() + Send>),
}

/// The driver that queued an entry, and its call.
#[derive(Clone)]
pub(crate) struct Caller {
    context: ExecutionContext,
    log: Arc<Log>,
    origin: Origin,
}

/// A timer that is set.
struct Timer {
    number: u64,
    due: u64,
    /// The period in units of 100 ns, or zero.
    period: u64,
    object: ObjectMemory,
    expiry: Expiry,
    caller: Caller,
}

/// What the expiry of a timer queues: the address, and what to call.
pub(crate) type Expiry = Option<(usize, MakeRoutine)>;
/// Makes the routine of each expiry.
pub(crate) type MakeRoutine = Arc<dyn Fn() -> Routine + Send + Sync>;

/// The machine and the worker of the driver that runs on this thread.
pub(crate) struct Queue {
    host: Arc<dyn Host>,
    machine: Arc<Machine>,
    caller: Caller,
}

impl Queue {
    /// The queue of the driver that runs on this thread.
    pub(crate) fn current(import: &'static str) -> Option<Self> {
        let (host, log) = current(import)?;
        let machine = Machine::of(&host);
        let caller = Caller { context: ExecutionContext::capture(), log, origin: owned::origin() };
        Some(Self { host, machine, caller })
    }

    /// Queues a DPC or a callback. `prepare` runs before, under the lock. Returns false if it is
    /// queued already.
    pub(crate) fn insert(
        self,
        key: usize,
        turn: Turn,
        routine: Routine,
        prepare: impl FnOnce(),
    ) -> bool {
        let token = self.worker();
        {
            let mut state = self.machine.dpcs.state();
            if state.queue.iter().any(|entry| entry.key == key) {
                return false;
            }
            prepare();
            state.push(key, turn, routine, self.caller);
        }
        self.host.wake(&token);
        true
    }

    /// Sets a timer; returns whether it was set before.
    pub(crate) fn set_timer(
        self,
        object: ObjectMemory,
        due: i64,
        period: u64,
        expiry: Expiry,
    ) -> bool {
        let token = self.worker();
        let due = crate::clock::due_time(due, self.host.now());
        waits::change_at(Irql::Passive, None, object, |_| object.set_signal_state(0));
        let before = {
            let mut state = self.machine.dpcs.state();
            let number = state.next_number();
            let timer = Timer { number, due, period, object, expiry, caller: self.caller };
            state.timers.insert(object.address(), timer)
        };
        self.host.wake(&token);
        before.is_some()
    }

    /// Waits until all DPCs that are queued now have run.
    pub(crate) fn flush(self, import: &'static str) -> WaitEnd {
        let last = self.machine.dpcs.state().count;
        loop {
            let token = WaitToken::new("the driver's DPCs");
            {
                let mut state = self.machine.dpcs.state();
                let pending = state.queue.iter().map(|entry| entry.number).chain(state.running);
                if !pending.into_iter().any(|number| number <= last) {
                    return WaitEnd::Satisfied(0);
                }
                state.flushing.push(token.clone());
            }
            match waits::park_for(import, &self.host, &token) {
                WaitEnd::Satisfied(_) => (),
                end => return end,
            }
        }
    }

    /// Wakes the worker with the returned token; starts it the first time.
    fn worker(&self) -> WaitToken {
        let token = WaitToken::new("a DPC or a timer of the driver's");
        {
            let mut state = self.machine.dpcs.state();
            if let Some(token) = &state.work_available {
                return token.clone();
            }
            state.work_available = Some(token.clone());
        }
        let ended = ClearsQueue(self.machine.clone());
        let (host, machine) = (self.host.clone(), self.machine.clone());
        self.host.clone().spawner().spawn_driver_worker(
            "driver DPCs",
            token.clone(),
            move |at| ended.0.dpcs.run_next(&host, at),
            move |_, _| machine.dpcs.state().next_due().map(|(due, ..)| due),
        );
        token
    }
}

/// Empties the queue when its worker ends.
struct ClearsQueue(Arc<Machine>);

impl Drop for ClearsQueue {
    fn drop(&mut self) {
        let mut state = self.0.dpcs.state();
        let ended = (std::mem::take(&mut state.queue), std::mem::take(&mut state.timers));
        drop(state);
        drop(ended); // Outside the lock: an entry's context may be the last owner of much.
    }
}

impl DpcState {
    fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn push(&mut self, key: usize, turn: Turn, routine: Routine, caller: Caller) {
        let delayed = turn == Turn::Delayed;
        let entry = Entry { number: self.next_number(), key, delayed, routine, caller };
        if turn == Turn::First {
            self.queue.push_front(entry);
        } else {
            self.queue.push_back(entry);
        }
    }

    /// The timer that expires next: when, its number and its address.
    fn next_due(&self) -> Option<(u64, u64, usize)> {
        self.timers.iter().map(|(address, timer)| (timer.due, timer.number, *address)).min()
    }
}

impl DpcQueue {
    /// Removes a DPC from the queue; returns whether it was there.
    pub(crate) fn remove(&self, key: usize) -> bool {
        let mut state = self.state();
        let index = state.queue.iter().position(|entry| entry.key == key);
        let removed = index.and_then(|index| state.queue.remove(index));
        drop(state);
        removed.is_some()
    }

    /// Cancels a timer; returns whether it was set.
    pub(crate) fn cancel(&self, timer: usize) -> bool {
        let cancelled = self.state().timers.remove(&timer);
        cancelled.is_some()
    }

    /// The queued DPCs and the timers that are set.
    pub(crate) fn pending(&self) -> (Vec<Origin>, Vec<Origin>) {
        let state = self.state();
        let dpcs = state.queue.iter().map(|entry| entry.caller.origin);
        (dpcs.collect(), state.timers.values().map(|timer| timer.caller.origin).collect())
    }

    /// The queued DPCs that Windows, too, may not have run yet.
    pub(crate) fn delayed(&self) -> Vec<Origin> {
        let state = self.state();
        let delayed = state.queue.iter().filter(|entry| entry.delayed);
        delayed.map(|entry| entry.caller.origin).collect()
    }

    /// Lets the timers expire that are due, and runs the first entry. Returns false if there was
    /// nothing to do.
    fn run_next(&self, host: &Arc<dyn Host>, at: &mut Passive) -> bool {
        let expired = self.expire(host);
        let entry = {
            let mut state = self.state();
            let entry = state.queue.pop_front();
            state.running = entry.as_ref().map(|entry| entry.number);
            entry
        };
        let Some(entry) = entry else { return expired };
        run_entry(host, at, entry);
        let flushing = {
            let mut state = self.state();
            state.running = None;
            std::mem::take(&mut state.flushing)
        };
        for token in &flushing {
            host.wake(token);
        }
        true
    }

    /// Lets the timers expire that are due. Returns whether there were any.
    fn expire(&self, host: &Arc<dyn Host>) -> bool {
        let mut any = false;
        while let Some(object) = self.expire_next(host.now()) {
            any = true;
            waits::change_at(Irql::Dispatch, Some(&**host), object, |_| object.set_signal_state(1));
        }
        any
    }

    /// Takes the next timer that is due, or sets a periodic one again, and queues its DPC. Returns
    /// the timer, which is signalled after that: a thread that waited for it can flush the DPC.
    fn expire_next(&self, now: u64) -> Option<ObjectMemory> {
        let mut state = self.state();
        let (_, _, address) = state.next_due().filter(|(due, ..)| *due <= now)?;
        let number = state.next_number();
        let timer = state.timers.get_mut(&address)?;
        let (object, caller) = (timer.object, timer.caller.clone());
        let queued = timer.expiry.clone();
        let mut ended = None;
        if timer.period == 0 {
            ended = state.timers.remove(&address);
        } else {
            // An expiry that time has jumped over does not happen later.
            let next = timer.due.saturating_add(timer.period);
            timer.due = if next > now { next } else { now.saturating_add(timer.period) };
            timer.number = number;
        }
        if let Some((key, make)) = queued
            && !state.queue.iter().any(|entry| entry.key == key)
        {
            state.push(key, Turn::Next, make(), caller);
        }
        drop(state);
        drop(ended); // Outside the lock: its context may be the last owner of much.
        Some(object)
    }

    fn state(&self) -> MutexGuard<'_, DpcState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs an entry that has left the queue.
fn run_entry(host: &Arc<dyn Host>, at: &mut Passive, entry: Entry) {
    let Entry { key, routine, caller, .. } = entry;
    let _entered = caller.context.enter();
    let ((body, threaded), name, cause) = match routine {
        Routine::Dpc(read) => (read(key), "a DPC routine", "a DPC, queued or its timer set"),
        Routine::Callback(body) => ((body, false), "a timer callback", "a timer, set"),
    };
    let call = || format!("{cause}{}", caller.origin.place());
    caller.log.count_turn(Component::Driver, call);
    let run = || owned::run_routine_of(caller.origin, || run_routine(host, &caller.log, body));
    let (_, left) = if threaded { run() } else { at.raised(|_: &mut Dispatch| run()) };
    judge_routine_exit(&caller.log, name, &left);
    if !threaded {
        judge_dpc(&caller.log, name, &left);
    }
}
