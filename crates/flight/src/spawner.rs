//! Starting virtual threads, for both hosts.

use crate::host::{Host, WaitResult, WaitToken};
use crate::level::Passive;
use crate::thread_table::Role;
use crate::{EventKind, Log, Subject, no_resources};
use std::io;
use std::sync::Arc;

/// A worker that runs this many turns without parking would never end: its work creates more work.
const MAX_TURNS: u64 = 500_000;

/// The body of a virtual thread.
pub type ThreadBody = Box<dyn FnOnce(&mut Passive) + Send>;

/// A host that starts virtual threads. A scenario runs on either host.
pub trait Spawner: Host {
    /// Starts a virtual thread. Callers use `spawn` or `spawn_worker`, below and on each host. Fails if
    /// the operating system has no thread for it.
    fn start(self: Arc<Self>, name: &str, role: Role, body: ThreadBody) -> io::Result<()>;

    /// Lets all other threads run until none can.
    fn run_until_idle(&self, at: &mut Passive);

    /// The log for the host's own events.
    fn log(&self) -> &Log;

    /// The names of the driver's threads ([`Role::Driver`]) that have not ended.
    fn driver_threads(&self) -> Vec<String>;
}

impl dyn Spawner {
    /// Starts a virtual thread. The returned token is woken when it has ended.
    pub fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&mut Passive) + Send + 'static,
    ) -> WaitToken {
        spawn(self, name, body)
    }

    /// Starts a worker thread: it calls `work` until that returns false, then parks until the
    /// work-available token is woken.
    pub fn spawn_worker(
        self: &Arc<Self>,
        name: &str,
        work_available: WaitToken,
        work: impl FnMut(&mut Passive) -> bool + Send + 'static,
    ) {
        spawn_worker(self, (name, Role::Worker), work_available, work, |_, _| None);
    }

    /// Starts a worker thread with a deadline: `due` returns the time until which to park at most,
    /// and is called when that has passed.
    pub fn spawn_timed_worker(
        self: &Arc<Self>,
        name: &str,
        work_available: WaitToken,
        work: impl FnMut(&mut Passive) -> bool + Send + 'static,
        due: impl FnMut(u64, bool) -> Option<u64> + Send + 'static,
    ) {
        spawn_worker(self, (name, Role::Worker), work_available, work, due);
    }

    /// Starts a thread of a driver. When its wait ends with [`WaitResult::HostEnded`], the body
    /// returns without running the driver's code again. Fails if the operating system has no thread
    /// for it: a driver can go on without.
    pub fn spawn_driver_thread(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&mut Passive) + Send + 'static,
    ) -> io::Result<()> {
        self.clone().start(name, Role::Driver, Box::new(body))
    }

    /// Starts a worker thread for the DPCs, timers or work items of a driver, with a deadline as
    /// in `spawn_timed_worker`.
    pub fn spawn_driver_worker(
        self: &Arc<Self>,
        name: &str,
        work_available: WaitToken,
        work: impl FnMut(&mut Passive) -> bool + Send + 'static,
        due: impl FnMut(u64, bool) -> Option<u64> + Send + 'static,
    ) {
        spawn_worker(self, (name, Role::DriverWorker), work_available, work, due);
    }
}

/// Starts a thread without which no flight goes on.
fn start<C: Spawner + ?Sized>(host: &Arc<C>, name: &str, role: Role, body: ThreadBody) {
    if let Err(why) = host.clone().start(name, role, body) {
        no_resources(format_args!("the thread '{name}' cannot be started: {why}"));
    }
}

/// Starts a client thread on any host.
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
    start(host, name, Role::Client, Box::new(body));
    ended
}

/// Starts a worker thread on any host.
pub(crate) fn spawn_worker<C: Spawner + ?Sized + 'static>(
    host: &Arc<C>,
    (name, role): (&str, Role),
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
                    .emit(Subject::RUN, || EventKind::ThreadRunaway { name: called.into(), turns });
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
    start(host, name, role, Box::new(body));
}
