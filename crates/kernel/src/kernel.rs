//! The kernel: its state, its host, and the work it does between calls.

use crate::base::id_list::Id;
use crate::ddi::miniport::Miniport;
use crate::lifetime::device::Device;
use crate::lock::{Lock, Once};
use crate::state::KernelState;
use flight::{
    EventKind, HardwareModel, Host, Log, MemoryObserver, Passive, Pool, Subject, WaitResult,
    WaitToken,
};
use std::sync::Arc;

/// A graphics kernel.
///
/// Every entry point takes a proof of the IRQL. Work that cannot run where it arises becomes a job,
/// and runs in [`Kernel::run_pending_work`].
pub struct Kernel {
    pub(crate) state: Lock<KernelState>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
    /// Woken when a job may be runnable.
    pub(crate) work_available: WaitToken,
    /// The observer of the bytes that paging work moves.
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

/// The result of a wait for an action of other clients.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome<T> {
    /// The action was done.
    Done(T),
    /// The deadline passed first. The caller checks once more.
    TimedOut,
    /// Nothing could end it.
    Stuck,
}

impl Kernel {
    /// A kernel without objects.
    pub fn new(host: Arc<dyn Host>, log: Arc<Log>) -> Arc<Self> {
        let work_available = WaitToken::new("a job");
        let state = Lock::new(KernelState::new());
        let observer = Once::new();
        Arc::new(Self { state, host, log, work_available, observer })
    }

    /// Sets the observer of the bytes that paging work moves. Only the first one is used.
    pub fn set_observer(&self, observer: Arc<dyn MemoryObserver>) {
        let _ = self.observer.set(observer); // A second one is ignored.
    }

    /// The token that is woken when [`Kernel::run_pending_work`] may have work.
    pub fn work_available(&self) -> WaitToken {
        self.work_available.clone()
    }

    /// The host that runs the kernel's threads.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// The log of all events.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Runs one job whose permit is available, on behalf of the system. Returns whether it did.
    pub fn run_pending_work(&self, at: &mut Passive) -> bool {
        let mut place = 0;
        loop {
            // No retirement is left to try.
            let Some(job) = self.state.lock().lifetime.job(place) else {
                return self.try_nt_end(at)
                    || self.try_recover(at)
                    || self.try_preempt(at)
                    || self.try_cancel(at)
                    || self.try_submit(at)
                    || self.try_paging(at)
                    || self.try_trim();
            };
            if self.try_retirement(at, job) {
                return true;
            }
            place += 1; // Its permit is held: the next job may get its own.
        }
    }

    /// Checks the invariants of all live objects.
    pub fn validate(&self) -> Result<(), String> {
        self.state.lock().validate()
    }

    pub(crate) fn wake_one(&self, token: &WaitToken) {
        self.host.wake(token);
    }

    /// Wakes the threads that wait for an object to end or to leave, so that they check again.
    #[inline]
    pub(crate) fn wake_all(&self, state: &mut KernelState) {
        state.waiters.wake_all(&*self.host);
        if state.schedule.has_runnable_context() {
            self.host.wake(&self.work_available);
        }
    }

    /// Waits until `done` is true of the state. Returns whether it is: a wait that nothing can end
    /// returns false.
    pub(crate) fn wait_until(
        &self,
        at: &mut Passive,
        about: Subject,
        what: impl Fn(&KernelState) -> String,
        done: impl Fn(&KernelState) -> bool,
    ) -> bool {
        let token = |state: &KernelState| WaitToken::new(what(state));
        let park = |token: &WaitToken| self.park(at, about, token);
        self.state.wait_until(token, park, |state| done(state).then_some(())).is_ok()
    }

    /// The same, for a client that waits for the queued work of a device. The wait goes on while
    /// another client may come and let the work continue.
    pub(crate) fn wait_for_work(
        &self,
        at: &mut Passive,
        about: Subject,
        device: Id<Device>,
        what: impl Fn(&KernelState) -> String,
        done: impl Fn(&KernelState) -> bool,
    ) -> bool {
        let token = |state: &KernelState| self.work_token(state, device, what(state));
        let park = |token: &WaitToken| self.park_for_work(at, about, device, token);
        self.state.wait_until(token, park, |state| done(state).then_some(())).is_ok()
    }

    /// The same, inside the device: the wait [ends with the device](Kernel::ends_with_device).
    pub(crate) fn wait_inside_for_work(
        &self,
        at: &mut Passive,
        about: Subject,
        device: Id<Device>,
        what: impl Fn(&KernelState) -> String,
        done: impl Fn(&KernelState) -> bool,
    ) -> bool {
        let over = |state: &KernelState| done(state) || self.ends_with_device(state, device);
        let waited = self.wait_for_work(at, about, device, what, over);
        waited && !self.ends_with_device(&self.state.lock(), device)
    }

    /// The token of a wait for the queued work of a device.
    pub(crate) fn work_token(
        &self,
        state: &KernelState,
        device: Id<Device>,
        what: String,
    ) -> WaitToken {
        if self.waits_for_clients(state, device) {
            WaitToken::for_clients(what)
        } else {
            WaitToken::new(what)
        }
    }

    /// Whether only clients can let the work of a device continue, and clients may come.
    pub(crate) fn waits_for_clients(&self, state: &KernelState, device: Id<Device>) -> bool {
        self.host.expects_clients() && state.is_held_device(device)
    }

    /// Whether a wait for the queued work of a device ends now because the device ends, and does not
    /// wait for its client. Where no client may come, such a wait is stuck instead, which is reported.
    pub(crate) fn ends_with_device(&self, state: &KernelState, device: Id<Device>) -> bool {
        self.host.expects_clients() && state.is_abandoned_device(device)
    }

    /// Waits until `act` succeeds in what a client waits for, which only other clients bring about.
    /// `act` checks and acts under one lock of the state, and is called again after every change.
    /// Waits at most until `deadline`, a time of the host; if that has passed, `act` is called
    /// once.
    pub(crate) fn try_until<T>(
        &self,
        at: &mut Passive,
        about: Subject,
        deadline: Option<u64>,
        what: impl Fn(&KernelState) -> String,
        mut act: impl FnMut(&mut KernelState) -> Option<T>,
    ) -> WaitOutcome<T> {
        let token = |state: &KernelState| WaitToken::for_clients(what(state));
        let park = |token: &WaitToken| self.park_until(at, about, token, deadline);
        let passed = || deadline.is_some_and(|value| value <= self.host.now());
        let act = |state: &mut KernelState| match act(state) {
            Some(done) => Some(WaitOutcome::Done(done)),
            None => passed().then_some(WaitOutcome::TimedOut),
        };
        self.state.wait_until(token, park, act).unwrap_or_else(|result| match result {
            WaitResult::TimedOut => WaitOutcome::TimedOut,
            WaitResult::Woken | WaitResult::Stuck(_) | WaitResult::HostEnded => WaitOutcome::Stuck,
        })
    }

    /// Logs the driver handle of an object.
    pub(crate) fn set_driver_handle(&self, driver_handle: usize, to: Subject) {
        if self.log.is_enabled() {
            let subject = self.pointer_subject(driver_handle);
            self.log.emit(subject, || EventKind::DriverHandleSet { of: to });
        }
    }

    /// Logs that the object of a driver handle is destroyed.
    #[inline]
    pub(crate) fn end_driver_handle(&self, driver_handle: usize, of: Subject, alone: bool) {
        if driver_handle != 0 {
            let ended = || EventKind::DriverHandleEnded { of, only_object: alone };
            self.log.end_pointer(driver_handle, ended);
        }
    }

    /// A NULL driver handle has no number in events.
    pub(crate) fn pointer_subject(&self, driver_handle: usize) -> Subject {
        if driver_handle == 0 {
            flight::Kind::DriverPointer.subject(0)
        } else {
            self.log.acquire_pointer(driver_handle)
        }
    }
}
