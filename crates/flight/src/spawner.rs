//! What both hosts can do besides making threads wait: start them.

use crate::host::{Host, WaitResult, WaitToken};
use crate::level::Passive;
use crate::thread_table::Role;
use crate::{EventKind, Log, Subject};
use std::sync::Arc;

/// One who serves and takes so many turns without a rest would never end: what it serves asks
/// for more again and again.
const MAX_TURNS: u64 = 500_000;

/// What a virtual thread does.
pub type ThreadBody = Box<dyn FnOnce(&mut Passive) + Send>;

/// A host that starts virtual threads: a story told to one runs on either.
pub trait Spawner: Host {
    /// Starts a virtual thread. Callers want `spawn` or `serve`, which are below and on each host.
    fn start(self: Arc<Self>, name: &str, role: Role, body: ThreadBody);

    /// Lets everything else run until nothing can.
    fn run_until_idle(&self, at: &mut Passive);

    /// Where it says what happens to it.
    fn log(&self) -> &Log;
}

impl dyn Spawner {
    /// Starts a virtual thread; the ticket rings when it has ended.
    pub fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&mut Passive) + Send + 'static,
    ) -> WaitToken {
        spawn(self, name, body)
    }

    /// Starts a virtual thread that serves others: it works while `work` says it did
    /// something, then parks until the bell rings.
    pub fn spawn_worker(
        self: &Arc<Self>,
        name: &str,
        work_available: WaitToken,
        work: impl FnMut(&mut Passive) -> bool + Send + 'static,
    ) {
        spawn_worker(self, name, work_available, work, |_, _| None);
    }

    /// The same, and it looks at the time: `due` says until when to park at most, and is told
    /// when that has passed.
    pub fn spawn_timed_worker(
        self: &Arc<Self>,
        name: &str,
        work_available: WaitToken,
        work: impl FnMut(&mut Passive) -> bool + Send + 'static,
        due: impl FnMut(u64, bool) -> Option<u64> + Send + 'static,
    ) {
        spawn_worker(self, name, work_available, work, due);
    }
}

/// Starts a client on any host.
pub(crate) fn spawn<C: Spawner + ?Sized + 'static>(
    host: &Arc<C>,
    name: &str,
    body: impl FnOnce(&mut Passive) + Send + 'static,
) -> WaitToken {
    let ended = WaitToken::thread_end(name);
    let (ring, enabled) = (ended.clone(), host.clone());
    let body = move |at: &mut Passive| {
        body(at);
        enabled.wake(&ring);
    };
    host.clone().start(name, Role::Client, Box::new(body));
    ended
}

/// Starts a server on any host.
pub(crate) fn spawn_worker<C: Spawner + ?Sized + 'static>(
    host: &Arc<C>,
    name: &str,
    work_available: WaitToken,
    mut work: impl FnMut(&mut Passive) -> bool + Send + 'static,
    mut due: impl FnMut(u64, bool) -> Option<u64> + Send + 'static,
) {
    let (enabled, called) = (host.clone(), name.to_owned());
    let body = move |at: &mut Passive| {
        loop {
            let turns = (1..=MAX_TURNS).take_while(|_| work(at)).count() as u64;
            if turns == MAX_TURNS {
                enabled
                    .log()
                    .emit(Subject::RUN, EventKind::ThreadRunaway { name: called.into(), turns });
                return;
            }
            let deadline = due(enabled.now(), false);
            match enabled.park(at, &work_available, deadline) {
                WaitResult::HostEnded => return,
                WaitResult::TimedOut => {
                    due(enabled.now(), true);
                }
                WaitResult::Woken | WaitResult::Stuck(_) => (),
            }
        }
    };
    host.clone().start(name, Role::Worker, Box::new(body));
}
