//! The kernel: the world, who runs it, and what it does between calls.

use crate::lock::{Lock, Once};
use crate::miniport::Miniport;
use crate::world::World;
use flight::{Host, Log, Machine, Passive, Pool, Subject, Ticket, What, Witness, Woken};
use std::sync::Arc;

/// A graphics kernel.
///
/// Every entry takes a proof of level. What cannot run where it came up is a job, and runs
/// when somebody calls [`Kernel::work`].
pub struct Kernel {
    pub(crate) world: Lock<World>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
    /// Rung when a job may be runnable.
    pub(crate) bell: Ticket,
    /// Who looks at the bytes that paging work moves.
    pub(crate) witness: Once<Arc<dyn Witness>>,
}

/// A driver with its hardware and its memory.
#[derive(Clone)]
pub struct Plugged {
    /// The driver.
    pub miniport: Arc<dyn Miniport>,
    /// Its hardware.
    pub machine: Arc<dyn Machine>,
    /// Its memory.
    pub pool: Arc<dyn Pool>,
}

/// How a wait for what clients do ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited<T> {
    /// It was done.
    Done(T),
    /// The deadline passed first. Whoever says so looks once more.
    TimedOut,
    /// Nothing could end it.
    Stuck,
}

impl Kernel {
    /// A kernel with nothing in it.
    pub fn new(host: Arc<dyn Host>, log: Arc<Log>) -> Arc<Self> {
        let bell = Ticket::new("a job");
        let world = Lock::new(World::new());
        let witness = Once::new();
        Arc::new(Self { world, host, log, bell, witness })
    }

    /// Has somebody look at the bytes that paging work moves. The first one stays.
    pub fn watch_bytes(&self, witness: Arc<dyn Witness>) {
        let _ = self.witness.set(witness); // A second one is not needed.
    }

    /// What rings when [`Kernel::work`] may find something.
    pub fn bell(&self) -> Ticket {
        self.bell.clone()
    }

    /// Who runs it.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// The log everything is said to.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Runs one job whose pass can be had, on the system's behalf. Answers whether it did.
    pub fn work(&self, at: &mut Passive) -> bool {
        let mut place = 0;
        loop {
            let Some(job) = self.world.hold().jobs.get(place).copied() else {
                return self.try_recover(at)
                    || self.try_preempt(at)
                    || self.try_cancel(at)
                    || self.try_send(at)
                    || self.try_paging(at)
                    || self.try_trim();
            };
            if self.try_retirement(at, job) {
                return true;
            }
            place += 1; // Its pass is held: the next one may have its own.
        }
    }

    /// Checks the invariants of everything that is alive.
    pub fn validate(&self) -> Result<(), String> {
        self.world.hold().validate()
    }

    pub(crate) fn ring(&self, ticket: &Ticket) {
        self.host.ring(ticket);
    }

    /// Something ended or left: whoever waits for such looks again.
    pub(crate) fn wake(&self, world: &mut World) {
        for ticket in world.waiting.drain(..) {
            self.host.ring(&ticket);
        }
        if !world.runnable.is_empty() {
            self.host.ring(&self.bell);
        }
    }

    /// Waits until `done` is true of the world. Answers whether it is: a wait that nothing
    /// could end is over, too.
    pub(crate) fn wait_until(
        &self,
        at: &mut Passive,
        about: Subject,
        what: impl Fn(&World) -> String,
        done: impl Fn(&World) -> bool,
    ) -> bool {
        loop {
            let ticket = {
                let mut world = self.world.hold();
                if done(&world) {
                    return true;
                }
                let ticket = Ticket::new(what(&world));
                world.waiting.push(ticket.clone());
                ticket
            };
            if let Woken::Stuck(_) = self.park(at, about, &ticket) {
                return false;
            }
        }
    }

    /// Waits until `act` has done what a client waits for, which only clients bring about; it
    /// looks and acts under one hold of the world, and is asked again when anything has changed.
    /// Waits at most until `deadline`, a time of the host's; if that has come, it is asked once.
    pub(crate) fn act_within<T>(
        &self,
        at: &mut Passive,
        about: Subject,
        deadline: Option<u64>,
        what: impl Fn(&World) -> String,
        mut act: impl FnMut(&mut World) -> Option<T>,
    ) -> Waited<T> {
        loop {
            let ticket = {
                let mut world = self.world.hold();
                if let Some(done) = act(&mut world) {
                    return Waited::Done(done);
                }
                if deadline.is_some_and(|it| it <= self.host.now()) {
                    return Waited::TimedOut;
                }
                let ticket = Ticket::of_clients(what(&world));
                world.waiting.push(ticket.clone());
                ticket
            };
            let woken = self.park_until(at, about, &ticket, deadline);
            if woken != Woken::Rung {
                // Nobody is to ring for one who has left.
                self.world.hold().waiting.retain(|it| !it.is(&ticket));
            }
            match woken {
                Woken::Rung => (),
                Woken::TimedOut => return Waited::TimedOut,
                Woken::Stuck(_) | Woken::Over => return Waited::Stuck,
            }
        }
    }

    /// Says which word a driver gave for something.
    pub(crate) fn give_word(&self, word: usize, to: Subject) {
        let subject = self.number_word(word);
        self.log.emit(subject, What::WordGiven { to });
    }

    /// Says that what a word was for is gone.
    pub(crate) fn end_word(&self, word: usize, of: Subject, alone: bool) {
        if word == 0 {
            return;
        }
        self.log.emit(self.log.word(word), What::WordEnded { of, alone });
        self.log.release_word(word);
    }

    /// A NULL word has no number of its own: it names nothing.
    pub(crate) fn number_word(&self, word: usize) -> Subject {
        if word == 0 { flight::Kind::Word.nr(0) } else { self.log.hold_word(word) }
    }
}
