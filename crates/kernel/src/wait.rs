//! Waiting until something is true of an object.
//!
//! # Invariants
//!
//! 1. Who looks and who acts on what it saw does both under one hold of the world: between two
//!    holds anything may change.
//! 2. Any number may wait for one object. Each ring is for all of them, and each looks again.

use crate::kernel::Kernel;
use crate::world::World;
use flight::{Passive, Subject, Ticket, Woken};

/// Who waits for an object.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Vec<Ticket>);

impl Waiters {
    /// A ticket for one more.
    pub(crate) fn ticket(&mut self, why: String) -> Ticket {
        let ticket = Ticket::new(why);
        self.0.push(ticket.clone());
        ticket
    }

    /// Something changed: all of them look again.
    pub(crate) fn ring(&mut self, kernel: &Kernel) {
        for ticket in self.0.drain(..) {
            kernel.ring(&ticket);
        }
    }
}

impl Kernel {
    /// Waits until `look` answers something else than a ticket. It looks and acts under one hold.
    ///
    /// A wait that nothing could end is over when `give_up` has nothing to give up, either.
    pub(crate) fn wait<T>(
        &self,
        at: &mut Passive,
        about: Subject,
        look: impl Fn(&mut World) -> Result<T, Ticket>,
        give_up: impl Fn() -> bool,
    ) -> Option<T> {
        loop {
            let looked = look(&mut self.world.hold());
            let ticket = match looked {
                Ok(seen) => return Some(seen),
                Err(ticket) => ticket,
            };
            if let Woken::Stuck(_) = self.park(at, about, &ticket)
                && !give_up()
            {
                return None;
            }
        }
    }
}
