//! The kernel: the world, who runs it, and what it does between calls.

use crate::ddi::miniport::Miniport;
use crate::lock::{Lock, Once};
use crate::state::KernelState;
use flight::{
    EventKind, HardwareModel, Host, Log, MemoryObserver, Passive, Pool, Subject, WaitResult,
    WaitToken,
};
use std::sync::Arc;

/// A graphics kernel.
///
/// Every entry takes a proof of level. What cannot run where it came up is a job, and runs
/// when somebody calls [`Kernel::work`].
pub struct Kernel {
    pub(crate) state: Lock<KernelState>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
    /// Rung when a job may be runnable.
    pub(crate) work_available: WaitToken,
    /// Who looks at the bytes that paging work moves.
    pub(crate) observer: Once<Arc<dyn MemoryObserver>>,
}

/// A driver with its hardware and its memory.
#[derive(Clone)]
pub struct DriverSetup {
    /// The driver.
    pub miniport: Arc<dyn Miniport>,
    /// Its hardware.
    pub hardware: Arc<dyn HardwareModel>,
    /// Its memory.
    pub pool: Arc<dyn Pool>,
}

/// How a wait for what clients do ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome<T> {
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
        let work_available = WaitToken::new("a job");
        let state = Lock::new(KernelState::new());
        let observer = Once::new();
        Arc::new(Self {
            state: state,
            host,
            log,
            work_available: work_available,
            observer: observer,
        })
    }

    /// Has somebody look at the bytes that paging work moves. The first one stays.
    pub fn set_observer(&self, observer: Arc<dyn MemoryObserver>) {
        let _ = self.observer.set(observer); // A second one is not needed.
    }

    /// What rings when [`Kernel::work`] may find something.
    pub fn work_available(&self) -> WaitToken {
        self.work_available.clone()
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
    pub fn run_pending_work(&self, at: &mut Passive) -> bool {
        let mut place = 0;
        loop {
            let Some(job) = self.state.lock().jobs.get(place).copied() else {
                return self.try_recover(at)
                    || self.try_preempt(at)
                    || self.try_cancel(at)
                    || self.try_submit(at)
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
        self.state.lock().validate()
    }

    pub(crate) fn wake_one(&self, token: &WaitToken) {
        self.host.wake(token);
    }

    /// Something ended or left: whoever waits for such looks again.
    pub(crate) fn wake_all(&self, state: &mut KernelState) {
        for token in state.waiters.drain(..) {
            self.host.wake(&token);
        }
        if !state.runnable.is_empty() {
            self.host.wake(&self.work_available);
        }
    }

    /// Waits until `done` is true of the world. Answers whether it is: a wait that nothing
    /// could end is over, too.
    pub(crate) fn wait_until(
        &self,
        at: &mut Passive,
        about: Subject,
        what: impl Fn(&KernelState) -> String,
        done: impl Fn(&KernelState) -> bool,
    ) -> bool {
        loop {
            let token = {
                let mut state = self.state.lock();
                if done(&state) {
                    return true;
                }
                let token = WaitToken::new(what(&state));
                state.waiters.push(token.clone());
                token
            };
            if let WaitResult::Stuck(_) = self.park(at, about, &token) {
                return false;
            }
        }
    }

    /// Waits until `act` has done what a client waits for, which only clients bring about; it
    /// looks and acts under one hold of the world, and is asked again when anything has changed.
    /// Waits at most until `deadline`, a time of the host's; if that has come, it is asked once.
    pub(crate) fn try_until<T>(
        &self,
        at: &mut Passive,
        about: Subject,
        deadline: Option<u64>,
        what: impl Fn(&KernelState) -> String,
        mut act: impl FnMut(&mut KernelState) -> Option<T>,
    ) -> WaitOutcome<T> {
        loop {
            let token = {
                let mut state = self.state.lock();
                if let Some(done) = act(&mut state) {
                    return WaitOutcome::Done(done);
                }
                if deadline.is_some_and(|value| value <= self.host.now()) {
                    return WaitOutcome::TimedOut;
                }
                let token = WaitToken::for_clients(what(&state));
                state.waiters.push(token.clone());
                token
            };
            let satisfied = self.park_until(at, about, &token, deadline);
            if satisfied != WaitResult::Woken {
                // Nobody is to ring for one who has left.
                self.state.lock().waiters.retain(|wait_token| !wait_token.same_as(&token));
            }
            match satisfied {
                WaitResult::Woken => (),
                WaitResult::TimedOut => return WaitOutcome::TimedOut,
                WaitResult::Stuck(_) | WaitResult::HostEnded => return WaitOutcome::Stuck,
            }
        }
    }

    /// Says which word a driver gave for something.
    pub(crate) fn set_driver_handle(&self, driver_handle: usize, to: Subject) {
        let subject = self.pointer_subject(driver_handle);
        self.log.emit(subject, EventKind::DriverHandleSet { of: to });
    }

    /// Says that what a word was for is gone.
    pub(crate) fn end_driver_handle(&self, driver_handle: usize, of: Subject, alone: bool) {
        if driver_handle == 0 {
            return;
        }
        self.log.emit(
            self.log.pointer_subject(driver_handle),
            EventKind::DriverHandleEnded { of, only_object: alone },
        );
        self.log.release_pointer(driver_handle);
    }

    /// A NULL word has no number of its own: it names nothing.
    pub(crate) fn pointer_subject(&self, driver_handle: usize) -> Subject {
        if driver_handle == 0 {
            flight::Kind::DriverPointer.subject(0)
        } else {
            self.log.acquire_pointer(driver_handle)
        }
    }
}
