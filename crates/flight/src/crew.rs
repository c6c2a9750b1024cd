//! What both hosts can do besides making threads wait: start them.

use crate::host::{Host, Ticket, Woken};
use crate::level::Passive;
use crate::table::Role;
use crate::{Log, Subject, What};
use std::sync::Arc;

/// One who serves and takes so many turns without a rest would never end: what it serves asks
/// for more again and again.
const MOST_TURNS: u64 = 500_000;

/// What a virtual thread does.
pub type Body = Box<dyn FnOnce(&mut Passive) + Send>;

/// A host that starts virtual threads: a story told to one runs on either.
pub trait Crew: Host {
    /// Starts a virtual thread. Callers want `spawn` or `serve`, which are below and on each host.
    fn start(self: Arc<Self>, name: &str, role: Role, body: Body);

    /// Lets everything else run until nothing can.
    fn quiet(&self, at: &mut Passive);

    /// Where it says what happens to it.
    fn log(&self) -> &Log;
}

impl dyn Crew {
    /// Starts a virtual thread; the ticket rings when it has ended.
    pub fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&mut Passive) + Send + 'static,
    ) -> Ticket {
        spawn(self, name, body)
    }

    /// Starts a virtual thread that serves others: it works while `work` says it did
    /// something, then parks until the bell rings.
    pub fn serve(
        self: &Arc<Self>,
        name: &str,
        bell: Ticket,
        work: impl FnMut(&mut Passive) -> bool + Send + 'static,
    ) {
        serve(self, name, bell, work, |_, _| None);
    }

    /// The same, and it looks at the time: `due` says until when to park at most, and is told
    /// when that has passed.
    pub fn serve_in_time(
        self: &Arc<Self>,
        name: &str,
        bell: Ticket,
        work: impl FnMut(&mut Passive) -> bool + Send + 'static,
        due: impl FnMut(u64, bool) -> Option<u64> + Send + 'static,
    ) {
        serve(self, name, bell, work, due);
    }
}

/// Starts a client on any host.
pub(crate) fn spawn<C: Crew + ?Sized + 'static>(
    host: &Arc<C>,
    name: &str,
    body: impl FnOnce(&mut Passive) + Send + 'static,
) -> Ticket {
    let ended = Ticket::end_of(name);
    let (ring, on) = (ended.clone(), host.clone());
    let body = move |at: &mut Passive| {
        body(at);
        on.ring(&ring);
    };
    host.clone().start(name, Role::Client, Box::new(body));
    ended
}

/// Starts a server on any host.
pub(crate) fn serve<C: Crew + ?Sized + 'static>(
    host: &Arc<C>,
    name: &str,
    bell: Ticket,
    mut work: impl FnMut(&mut Passive) -> bool + Send + 'static,
    mut due: impl FnMut(u64, bool) -> Option<u64> + Send + 'static,
) {
    let (on, called) = (host.clone(), name.to_owned());
    let body = move |at: &mut Passive| {
        loop {
            let turns = (1..=MOST_TURNS).take_while(|_| work(at)).count() as u64;
            if turns == MOST_TURNS {
                on.log().emit(Subject::RUN, What::ThreadRunaway { name: called.into(), turns });
                return;
            }
            let deadline = due(on.now(), false);
            match on.park(at, &bell, deadline) {
                Woken::Over => return,
                Woken::TimedOut => {
                    due(on.now(), true);
                }
                Woken::Rung | Woken::Stuck(_) => (),
            }
        }
    };
    host.clone().start(name, Role::Server, Box::new(body));
}
