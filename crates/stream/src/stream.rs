//! The class driver: its state, its host, waiting, and the work between calls.

use crate::lock::Lock;
use crate::refused::Refused;
use crate::world::World;
use flight::{Host, Log, Passive, RuleId, Subject, Ticket, What, Who, Woken};
use std::sync::Arc;

/// A streaming class driver.
///
/// Every entry takes a proof of level. What cannot run where it came up is a job, and runs when
/// a worker thread calls [`Stream::work`].
pub struct Stream {
    pub(crate) world: Lock<World>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
    /// Rung when a job may be runnable.
    pub(crate) bell: Ticket,
}

impl Stream {
    /// A class driver with nothing in it.
    pub fn new(host: Arc<dyn Host>, log: Arc<Log>) -> Arc<Self> {
        let bell = Ticket::new("streaming work");
        Arc::new(Self { world: Lock::new(World::default()), host, log, bell })
    }

    /// Puts drivers under pressure (`--pressure`): calls that may come at two levels come at both.
    pub fn press(&self, seed: u64) {
        self.world.hold().pressure = Some(seed);
    }

    /// What rings when [`Stream::work`] may find something.
    pub fn bell(&self) -> Ticket {
        self.bell.clone()
    }

    /// The host that runs it.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// The log everything is said to.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Runs one job: a pin or filter that is to be processed, a cancelled frame, a pointer whose
    /// time is over. Answers whether it did.
    pub fn work(&self, at: &mut Passive) -> bool {
        let mut world = self.world.hold();
        match self.overdue(&mut world) {
            Some(pointer) => Self::time_out(at, world, pointer),
            None => return self.try_job(at, world),
        }
        true
    }

    /// When [`Stream::work`] has something to do next that waits for a time.
    pub fn due(&self) -> Option<u64> {
        self.world.hold().timers.first().map(|(due, _)| *due)
    }

    /// Serves on a virtual thread of its own, until the run is over.
    pub fn attend(self: &Arc<Self>, host: &Arc<dyn flight::Crew>) {
        let (worker, clock) = (self.clone(), self.clone());
        host.serve_in_time(
            "streaming",
            self.bell(),
            move |at| worker.work(at),
            move |_, _| clock.due(),
        );
    }

    /// Checks the invariants of everything that is alive.
    pub fn validate(&self) -> Result<(), String> {
        self.world.hold().validate()
    }

    /// The state changed: wakes the threads that wait, and the worker thread if there are jobs.
    #[inline]
    pub(crate) fn wake(&self, world: &mut World) {
        if !world.waiting.is_empty() || !world.jobs.is_empty() {
            self.ring(world);
        }
    }

    fn ring(&self, world: &mut World) {
        for ticket in world.waiting.drain(..) {
            self.host.ring(&ticket);
        }
        if !world.jobs.is_empty() {
            self.host.ring(&self.bell);
        }
    }

    /// Waits until `act` has done what is waited for; it looks and acts under one hold of the
    /// world, and is asked again when anything has changed. Else says how the wait ended.
    pub(crate) fn wait_for<T>(
        &self,
        at: &mut Passive,
        deadline: Option<u64>,
        what: impl Fn(&World) -> String,
        mut act: impl FnMut(&mut World) -> Option<T>,
    ) -> Result<T, Woken> {
        loop {
            let ticket = {
                let mut world = self.world.hold();
                if let Some(done) = act(&mut world) {
                    return Ok(done);
                }
                let ticket = Ticket::new(what(&world));
                world.waiting.push(ticket.clone());
                ticket
            };
            let woken = self.host.park(at, &ticket, deadline);
            if woken != Woken::Rung {
                // This thread does not wait any more.
                self.world.hold().waiting.retain(|it| !it.is(&ticket));
                return Err(woken);
            }
        }
    }

    /// The same for a wait that another thread must be able to end.
    pub(crate) fn act_when<T>(
        &self,
        at: &mut Passive,
        about: Subject,
        deadline: Option<u64>,
        what: impl Fn(&World) -> String,
        act: impl FnMut(&mut World) -> Option<T>,
    ) -> Result<T, Refused> {
        self.wait_for(at, deadline, what, act).map_err(|woken| match woken {
            Woken::TimedOut => Refused::TimedOut,
            Woken::Stuck(graph) => {
                self.log.emit(about, What::WaitStuck { graph });
                Refused::Stuck
            }
            // A wait that was rung goes on, so that is none.
            Woken::Rung => Refused::Stuck,
            Woken::Over => Refused::Over,
        })
    }

    /// Emits an event, which is built only if the log keeps events.
    #[inline]
    pub(crate) fn note(&self, subject: Subject, what: impl FnOnce() -> What) {
        if self.log.keeps() {
            self.log.emit(subject, what());
        }
    }

    /// Judges a rule that binds drivers.
    pub(crate) fn judge(
        &self,
        rule: RuleId,
        about: Subject,
        place: &'static str,
        broken: Option<String>,
    ) {
        self.log.judge(rule, Who::Driver, about, place, broken);
    }
}
