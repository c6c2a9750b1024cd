//! The work items of a driver. Worker threads of the host run them at passive level.
//!
//! A work item may wait for another, so a thread is started whenever all others are busy, up to
//! [`MAX_WORKERS`].

use crate::machine::Machine;
use crate::owned::{self, Origin};
use crate::processor::{current, judge_routine_exit, run_routine};
use flight::{Component, ExecutionContext, Host, Log, WaitToken};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of threads that run work items at most.
const MAX_WORKERS: usize = 16;

/// The work items of a machine.
#[derive(Default)]
pub(crate) struct WorkQueue(Mutex<WorkState>);

#[derive(Default)]
struct WorkState {
    work_available: Option<WaitToken>,
    queue: VecDeque<WorkItem>,
    workers: usize,
    /// The items whose routines run.
    running: Vec<Origin>,
}

/// A queued work item.
struct WorkItem {
    run: Box<dyn FnOnce() + Send>,
    context: ExecutionContext,
    log: Arc<Log>,
    origin: Origin,
}

/// Queues a work item. Returns false if no driver runs on this thread.
pub(crate) fn queue(import: &'static str, run: Box<dyn FnOnce() + Send>) -> bool {
    let Some((host, log)) = current(import) else { return false };
    let machine = Machine::of(&host);
    let origin = owned::origin();
    let item = WorkItem { run, context: ExecutionContext::capture(), log, origin };
    let (token, started) = {
        let mut state = machine.work.state();
        state.queue.push_back(item);
        let new = || WaitToken::new("a work item of the driver's");
        let token = state.work_available.get_or_insert_with(new).clone();
        let needed = state.queue.len() + state.running.len() > state.workers;
        let starts = needed && state.workers < MAX_WORKERS;
        state.workers += usize::from(starts);
        (token, starts.then_some(state.workers))
    };
    if let Some(number) = started {
        start_worker(&host, &machine, number, token.clone());
    }
    host.wake(&token);
    true
}

fn start_worker(host: &Arc<dyn Host>, machine: &Arc<Machine>, number: usize, token: WaitToken) {
    let ended = ClearsQueue(machine.clone());
    let running = host.clone();
    host.clone().spawner().spawn_driver_worker(
        &format!("driver work items {number}"),
        token,
        move |_| ended.0.work.run_next(&running),
        |_, _| None,
    );
}

/// Empties the queue when a worker ends: then the host ends.
struct ClearsQueue(Arc<Machine>);

impl Drop for ClearsQueue {
    fn drop(&mut self) {
        let ended = std::mem::take(&mut self.0.work.state().queue);
        drop(ended); // Outside the lock: an item's context may be the last owner of much.
    }
}

impl WorkQueue {
    /// The work items that are queued, and those whose routines run.
    pub(crate) fn pending(&self) -> (Vec<Origin>, Vec<Origin>) {
        let state = self.state();
        (state.queue.iter().map(|item| item.origin).collect(), state.running.clone())
    }

    /// Runs the first item. Returns false if there is none.
    fn run_next(&self, host: &Arc<dyn Host>) -> bool {
        let item = {
            let mut state = self.state();
            let item = state.queue.pop_front();
            state.running.extend(item.as_ref().map(|item| item.origin));
            item
        };
        let Some(WorkItem { run, context, log, origin }) = item else { return false };
        let entered = context.enter();
        let call = || format!("a work item, queued{}", origin.place());
        log.count_turn(Component::Driver, call);
        let (ended, left) = owned::run_routine_of(origin, || run_routine(host, &log, run));
        if ended.is_ok() {
            judge_routine_exit(&log, "a work item", &left);
        }
        drop(entered);
        let mut state = self.state();
        if let Some(index) = state.running.iter().position(|running| *running == origin) {
            state.running.swap_remove(index);
        }
        true
    }

    fn state(&self) -> MutexGuard<'_, WorkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
