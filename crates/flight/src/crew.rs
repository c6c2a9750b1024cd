//! What both hosts can do besides making threads wait: start them.

use crate::host::{Host, Ticket, Woken};
use crate::level::Passive;
use crate::table::Role;
use std::sync::Arc;

/// What a virtual thread does.
pub type Body = Box<dyn FnOnce(&mut Passive) + Send>;

/// A host that starts virtual threads: a story told to one runs on either.
pub trait Crew: Host {
    /// Starts a virtual thread. Callers want `spawn` or `serve`, which are below and on each host.
    fn start(self: Arc<Self>, name: &str, role: Role, body: Body);

    /// Lets everything else run until nothing can.
    fn quiet(&self, at: &mut Passive);
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
        serve(self, name, bell, work);
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
) {
    let on = host.clone();
    let body = move |at: &mut Passive| {
        loop {
            while work(at) {}
            if on.park(at, &bell, None) == Woken::Over {
                return;
            }
        }
    };
    host.clone().start(name, Role::Server, Box::new(body));
}
