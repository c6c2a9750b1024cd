//! The class driver: its state, its host, waits, and the jobs between calls.

use crate::PinId;
use crate::error::StreamError;
use crate::stream_state::StreamState;
use crate::work_hint::WorkHint;
use flight::{
    Component, EventKind, Host, Lock, Log, Passive, RuleId, Subject, WaitResult, WaitToken,
};
use std::ops::Deref;
use std::sync::Arc;

/// A streaming class driver.
///
/// Every entry takes a proof of IRQL. Work that cannot run where it arises is a job, and runs when
/// a worker thread calls [`Stream::run_pending_work`].
pub struct Stream {
    pub(crate) state: Lock<StreamState>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
    /// The work-available token: woken when a job may be runnable.
    pub(crate) work_available: WaitToken,
    /// Whether a worker thread that asks for work needs the lock.
    pub(crate) work_hint: WorkHint,
}

/// Owns a [`Stream`]: when the last `Arc` of it drops, the class driver ends.
///
/// Devices that were not removed refer to the class driver through their services, without a count
/// that each service would have to raise. The owner breaks this cycle: it drops all objects, and
/// services fail from then on.
pub struct StreamOwner(Arc<Stream>);

impl Deref for StreamOwner {
    type Target = Arc<Stream>;

    fn deref(&self) -> &Arc<Stream> {
        &self.0
    }
}

impl Drop for StreamOwner {
    fn drop(&mut self) {
        let ended = StreamState { ended: true, ..StreamState::default() };
        // The objects are dropped with the state unlocked: a driver may call a service at its end.
        let objects = std::mem::replace(&mut *self.state.lock(), ended);
        drop(objects);
    }
}

impl StreamOwner {
    /// Runs jobs on a virtual thread of its own, until the run is over.
    pub fn start_workers(self: &Arc<Self>, host: &Arc<dyn flight::Spawner>) {
        let (worker, clock) = (self.clone(), self.clone());
        host.spawn_timed_worker(
            "streaming",
            self.work_available(),
            move |at| worker.run_pending_work(at),
            move |_, _| clock.next_deadline(),
        );
    }
}

impl Stream {
    /// A class driver without devices, which ends with its owner.
    #[expect(clippy::new_ret_no_self, reason = "only the owner makes a class driver end")]
    pub fn new(host: Arc<dyn Host>, log: Arc<Log>) -> Arc<StreamOwner> {
        let (work_available, work_hint) = (WaitToken::new("streaming work"), WorkHint::default());
        let state = Lock::new(StreamState::default());
        Arc::new(StreamOwner(Arc::new(Self { state, host, log, work_available, work_hint })))
    }

    /// Puts drivers under pressure (`--pressure`): calls that are allowed at two levels come at
    /// both.
    pub fn set_pressure(&self, seed: u64) {
        self.state.lock().pressure = Some(seed);
    }

    /// The token that is woken when [`Stream::run_pending_work`] may have work.
    pub fn work_available(&self) -> WaitToken {
        self.work_available.clone()
    }

    /// The host that runs it.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// The log of all events.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Runs one job: processes a pin or filter, cancels a frame, or calls back for an expired
    /// timeout. Returns whether it did.
    pub fn run_pending_work(&self, at: &mut Passive) -> bool {
        if !self.work_hint.may_be_work() {
            return false;
        }
        let mut state = self.state.lock();
        match self.take_expired_timeout(&mut state) {
            Some(pointer) => Self::call_timeout(at, state, pointer),
            None => return self.run_job(at, state),
        }
        true
    }

    /// When the next timeout makes work for [`Stream::run_pending_work`].
    pub fn next_deadline(&self) -> Option<u64> {
        self.state.lock().timers.first().map(|(due, _)| *due)
    }

    /// Checks the invariants of all live objects.
    pub fn validate(&self) -> Result<(), String> {
        self.state.lock().validate()
    }

    /// The state changed: wakes the waiting threads, and the worker thread if there are jobs.
    #[inline]
    pub(crate) fn wake_all(&self, state: &mut StreamState) {
        state.waiters.wake_all(&*self.host);
        if !state.jobs.is_empty() {
            self.host.wake(&self.work_available);
        }
    }

    /// Waits until `act` returns a value. `act` runs under one lock of the state, and runs again
    /// when anything has changed. Fails with how the wait ended.
    pub(crate) fn wait_for<T>(
        &self,
        at: &mut Passive,
        deadline: Option<u64>,
        what: impl Fn(&StreamState) -> String,
        act: impl FnMut(&mut StreamState) -> Option<T>,
    ) -> Result<T, WaitResult> {
        let token = |state: &StreamState| WaitToken::new(what(state));
        self.state.wait_until(token, |token| self.host.park(at, token, deadline), act)
    }

    /// The same for a wait that another thread must be able to end.
    pub(crate) fn wait_until<T>(
        &self,
        at: &mut Passive,
        about: Subject,
        deadline: Option<u64>,
        what: impl Fn(&StreamState) -> String,
        act: impl FnMut(&mut StreamState) -> Option<T>,
    ) -> Result<T, StreamError> {
        self.wait_for(at, deadline, what, act).map_err(|woken| match woken {
            WaitResult::TimedOut => StreamError::TimedOut,
            WaitResult::Stuck(graph) => {
                self.log
                    .emit(about, || EventKind::WaitStuck { component: Component::Driver, graph });
                StreamError::Stuck
            }
            // A wait that was woken continues, so it is not stuck.
            WaitResult::Woken => StreamError::Stuck,
            WaitResult::HostEnded => StreamError::HostEnded,
        })
    }

    /// Emits an event, which is built only if the log keeps events.
    #[inline]
    pub(crate) fn log_event(&self, subject: Subject, what: impl FnOnce() -> EventKind) {
        if self.log.is_enabled() {
            self.build_event(subject, what);
        }
    }

    /// Builds and emits an event, outside the path of a frame: mostly the log keeps none.
    #[cold]
    #[inline(never)]
    fn build_event(&self, subject: Subject, what: impl FnOnce() -> EventKind) {
        self.log.emit(subject, what);
    }

    /// Judges a frame that a client has received from a pin: `wrong` says what differs from the
    /// video that was requested.
    pub fn judge_frame(&self, pin: PinId, wrong: Option<String>) {
        self.judge(RuleId::WT_FRAME_001, pin.subject(), "KSSTREAM_HEADER", wrong);
    }

    /// Counts rules that were judged and hold. The path of a frame calls this, and builds the
    /// sentence of a broken rule elsewhere.
    #[inline]
    pub(crate) fn count_kept<const N: usize>(&self, rules: [RuleId; N]) {
        if self.log.is_enabled() {
            for rule in rules {
                self.log.count_kept(rule);
            }
        }
    }

    /// Judges a rule that binds drivers.
    #[inline]
    pub(crate) fn judge(
        &self,
        request_rule: RuleId,
        about: Subject,
        place: &'static str,
        broken: Option<String>,
    ) {
        self.log.judge(request_rule, Component::Driver, about, place, broken);
    }
}
