//! Processing: when a pin or a filter is due, at which level, and the result.
//!
//! # Invariants
//!
//! 1. A pin or filter is processed with its processing mutex held, so by one thread at a time; with
//!    its gate open, and in its minimum state or above.

use crate::descriptor::PinFlag;
use crate::driver_calls::{Driver, Entry};
use crate::jobs::{Job, JobQueue};
use crate::minidriver::{PinView, ProcessPin};
use crate::mutex::{KsMutex, Owner};
use crate::pin::Pin;
use crate::services::Services;
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{DriverError, DriverResult, FilterId, PinId, PinState, PointerId};
use flight::{EventKind, Passive, RuleId, StateGuard, Subject};
use std::sync::Arc;

/// A call of a pin's process routine. It is kept for the next call, which is mostly the same.
pub(crate) struct ProcessCall {
    driver: Arc<Driver>,
    /// The pin, as the driver sees it.
    view: PinView,
}

impl Pin {
    /// Whether its driver would see it as it did in an earlier call.
    fn looks_as(&self, view: &PinView) -> bool {
        self.driver_handle == view.driver_handle
            && self.client_state == view.client_state
            && self.device_state == view.device_state
            && Arc::ptr_eq(&self.format, &view.format)
    }

    /// The minimum state for processing.
    pub(crate) fn processing_state(&self) -> PinState {
        let runs = self.has_flag(PinFlag::ProcessInRunStateOnly);
        if runs { PinState::Run } else { PinState::Pause }
    }

    /// The job that processes its data: its own, or its filter's.
    #[inline]
    fn processor(&self, pin: PinId) -> Job {
        if self.filter_centric { Job::Filter(self.filter) } else { Job::Pin(pin) }
    }

    /// Whether its gate is open.
    fn is_open(&self) -> bool {
        self.gate_inputs.1 == 0
    }

    /// Whether its client and its driver have it in this state, or above.
    fn has_reached(&self, state: PinState) -> bool {
        self.client_state >= state && self.device_state >= state
    }

    /// Whether it may be processed.
    fn may_process(&self) -> bool {
        self.has_reached(self.processing_state()) && self.is_open()
    }

    /// Whether its filter is processed because this pin runs, whatever the states of the others.
    fn drives_filter(&self) -> bool {
        self.has_flag(PinFlag::ProcessIfAnyInRunState) && self.has_reached(PinState::Run)
    }

    /// Whether this pin allows processing in one state and not in another: then no thread processes
    /// while its driver changes state.
    pub(crate) fn ends_processing(&self, from: PinState, to: PinState) -> bool {
        let ends = |least: PinState| from >= least && to < least;
        let carries = self.has_flag(PinFlag::ProcessIfAnyInRunState);
        ends(self.processing_state()) || carries && ends(PinState::Run)
    }
}

impl StreamState {
    #[inline]
    fn has_data(&self, pin: &Pin) -> bool {
        self.pointers[pin.leading].frame.is_some()
    }

    #[inline]
    fn is_due(&self, it: &Pin) -> bool {
        let free = it.has_flag(PinFlag::FramesNotRequiredForProcessing);
        it.may_process() && (self.has_data(it) || free) && self.started_device(it.device).is_ok()
    }

    /// A call of a pin's process routine, with the pin as it is now.
    #[cold]
    fn new_process_call(&self, pin: PinId) -> ProcessCall {
        let it = &self.pins[pin];
        let driver = self.devices[it.device].driver.clone();
        ProcessCall { driver, view: it.view(pin) }
    }

    /// A filter is due if each of its pins has data, or some where that is enough.
    fn filter_due(&self, filter: FilterId) -> bool {
        let it = &self.filters[filter];
        let pins = || it.pins.iter().map(|pin| &self.pins[*pin]);
        let some = pins().any(|pin| pin.has_flag(PinFlag::SomeFramesRequiredForProcessing));
        let ready =
            |pin: &Pin| self.has_data(pin) || pin.has_flag(PinFlag::FramesNotRequiredForProcessing);
        pins().next().is_some()
            && pins().all(Pin::is_open)
            && (pins().all(Pin::may_process) || pins().any(Pin::drives_filter))
            && if some { pins().any(ready) } else { pins().all(ready) }
            && self.started_device(it.device).is_ok()
    }

    /// The mutex of what processes a pin: the pin itself, or its filter.
    pub(crate) fn processing_mutex(&self, pin: PinId) -> KsMutex {
        let it = &self.pins[pin];
        KsMutex::Processing(if it.filter_centric { it.filter.subject() } else { pin.subject() })
    }

    /// How often anything has moved in the queues of pins.
    fn move_count(&self, pins: &[PinId]) -> u64 {
        pins.iter().map(|pin| self.pins[*pin].move_count).sum()
    }
}

impl Stream {
    /// Queues the processing of a pin's data. The caller wakes the worker threads. Returns whether
    /// it was not queued.
    #[inline]
    pub(crate) fn request_processing(&self, stream_state: &mut StreamState, pin: PinId) -> bool {
        self.request_of((pin, &stream_state.pins[pin]), &mut stream_state.jobs)
    }

    /// The same, of a pin that is found.
    #[expect(clippy::inline_always, reason = "a step of the path of one frame")]
    #[inline(always)]
    pub(crate) fn request_of(&self, (pin, it): (PinId, &Pin), jobs: &mut JobQueue) -> bool {
        (it.filter_centric || it.has_process_routine) && self.queue_job(jobs, || it.processor(pin))
    }

    /// Queues a job, once. Returns whether it was not queued.
    #[expect(clippy::inline_always, reason = "a step of the path of one frame")]
    #[inline(always)]
    pub(crate) fn queue_job(&self, jobs: &mut JobQueue, job: impl Fn() -> Job) -> bool {
        self.work_hint.note_work();
        jobs.push(job)
    }

    /// The same, and wakes the worker thread only.
    fn request_processing_by_worker(&self, stream_state: &mut StreamState, pin: PinId) {
        if self.request_processing(stream_state, pin) {
            self.host.wake(&self.work_available);
        }
    }

    /// The mutex of what processes a pin; `None` if the pin was closed.
    pub(crate) fn processing_mutex(&self, pin: PinId) -> Option<KsMutex> {
        let stream_state = self.state.lock();
        stream_state.pins.contains(pin).then(|| stream_state.processing_mutex(pin))
    }

    /// Runs the first job whose mutex is free.
    pub(crate) fn run_job(
        &self,
        at: &mut Passive,
        mut stream_state: StateGuard<'_, StreamState>,
    ) -> bool {
        let Some(job) = self.next_job(&mut stream_state) else {
            self.note_if_idle(&stream_state); // Threads may hold the mutexes of all jobs.
            return false;
        };
        match job {
            Job::Pin(pin) => self.process_pin(at, stream_state, pin),
            Job::Filter(filter) => self.process_filter(at, stream_state, filter),
            Job::Cancel(frame) => {
                drop(stream_state);
                self.cancel_frame(at, frame);
            }
        }
        true
    }

    /// Notes if no work is left, for the next call of [`Stream::run_pending_work`].
    #[inline]
    fn note_if_idle(&self, stream_state: &StreamState) {
        if stream_state.jobs.is_empty() && stream_state.timers.is_empty() {
            self.work_hint.note_none();
        }
    }

    /// Removes the first job whose mutex is free, and acquires the mutex.
    fn next_job(&self, stream_state: &mut StreamState) -> Option<Job> {
        let mut place = 0;
        loop {
            let job = stream_state.jobs.get(place)?;
            let owner = Owner::for_class_driver();
            if job.processor().is_none_or(|processor| {
                self.try_acquire(stream_state, KsMutex::Processing(processor), owner)
            }) {
                stream_state.jobs.remove(place);
                return Some(job);
            }
            place += 1; // Another thread has the mutex: the next job's may be free.
        }
    }

    /// Processes a pin, if it is due. The caller holds its mutex, which is released.
    fn process_pin(
        &self,
        at: &mut Passive,
        mut stream_state: StateGuard<'_, StreamState>,
        pin: PinId,
    ) {
        let mutex = KsMutex::Processing(pin.subject());
        let it = &stream_state.pins[pin];
        // The pin may have no data by now, or its driver does not process pins.
        if !stream_state.is_due(it) || !it.has_process_routine {
            return self.release(&mut stream_state, mutex);
        }
        let before = it.move_count;
        let dispatch = it.has_flag(PinFlag::DispatchLevelProcessing);
        let it = &mut stream_state.pins[pin];
        let call = match it.process_call.take() {
            Some(call) if it.looks_as(&call.view) => call,
            _ => Box::new(stream_state.new_process_call(pin)),
        };
        let of = (&call.view, dispatch);
        let (mut stream_state, answer) = call.driver.process_pin(self, at, stream_state, of);
        self.finish_pin_processing(&mut stream_state, pin, before, answer);
        self.release(&mut stream_state, mutex);
        self.note_if_idle(&stream_state);
        // The pin may be closed by now: then the call is dropped, with the state unlocked.
        if let Some(it) = stream_state.pins.get_mut(pin) {
            it.process_call = Some(call);
        }
    }

    /// Handles the result of processing a pin.
    fn finish_pin_processing(
        &self,
        stream_state: &mut StreamState,
        pin: PinId,
        before: u64,
        answer: DriverResult<()>,
    ) {
        // A wait for the end of processing may have been given up, and the pin closed.
        let Some(it) = stream_state.pins.get(pin) else { return };
        let (moved, due) = (it.move_count != before, stream_state.is_due(it));
        let it = &mut stream_state.pins[pin];
        let (idle, entry) = (it.made_no_progress, Entry::PinProcess);
        it.made_no_progress = answer.is_ok() && !moved;
        it.waits_for_attempt = self.judge_process(pin.subject(), entry, answer, idle && !moved);
        if !it.waits_for_attempt && due {
            self.request_processing(stream_state, pin);
        }
        self.wake_all(stream_state);
    }

    /// Entry rule: success means progress. Returns whether the driver must attempt processing
    /// before it is called again.
    #[inline]
    fn judge_process(
        &self,
        subject: Subject,
        entry: Entry,
        answer: DriverResult<()>,
        stands: bool,
    ) -> bool {
        if answer.is_err() {
            return true;
        }
        if stands {
            self.report_no_progress(subject, entry);
        } else {
            self.count_kept([RuleId::KS_PROC_001]);
        }
        stands // A driver that makes no progress would be called forever.
    }

    #[cold]
    fn report_no_progress(&self, subject: Subject, entry: Entry) {
        let name = entry.name();
        let broken = format!("{name} returned success twice without processing data of {subject}");
        self.judge(RuleId::KS_PROC_001, subject, name, Some(broken));
    }

    /// Processes a filter, if it is due. The caller holds its mutex, which is released.
    fn process_filter(
        &self,
        at: &mut Passive,
        mut stream_state: StateGuard<'_, StreamState>,
        filter: FilterId,
    ) {
        let mutex = KsMutex::Processing(filter.subject());
        let due = stream_state.filter_due(filter);
        // The filter may be closed or have no data by now.
        let Some(driver) = due.then(|| stream_state.driver_of(filter)) else {
            return self.release(&mut stream_state, mutex);
        };
        let dispatch = stream_state.filters[filter].descriptor.dispatch_level;
        let pins = stream_state.pins_of(filter).to_vec();
        let before = stream_state.move_count(&pins);
        let mut list = self.lock_edges(&mut stream_state, &pins);
        drop(stream_state);
        let answer = driver.process_filter(at, filter, dispatch, &mut list);
        let mut stream_state = self.state.lock();
        for it in &list {
            self.unlock_edge(&mut stream_state, it, answer);
        }
        self.finish_filter_processing(&mut stream_state, filter, before, answer);
        self.release(&mut stream_state, mutex);
    }

    /// Handles the result of processing a filter.
    fn finish_filter_processing(
        &self,
        stream_state: &mut StreamState,
        filter: FilterId,
        before: u64,
        answer: DriverResult<()>,
    ) {
        // As in `finish_pin_processing`.
        let Some(it) = stream_state.filters.get(filter) else { return };
        let pins = &it.pins;
        let (moved, first) = (stream_state.move_count(pins) != before, pins.first().copied());
        let due = stream_state.filter_due(filter);
        let it = &mut stream_state.filters[filter];
        let (idle, entry) = (it.made_no_progress, Entry::FilterProcess);
        it.made_no_progress = answer.is_ok() && !moved;
        it.waits_for_attempt = self.judge_process(filter.subject(), entry, answer, idle && !moved);
        let again = !it.waits_for_attempt && due;
        if let Some(pin) = first.filter(|_| again) {
            self.request_processing(stream_state, pin);
        }
        self.wake_all(stream_state);
    }

    /// Locks the leading edges of a filter's pins, for its process routine.
    fn lock_edges(&self, stream_state: &mut StreamState, pins: &[PinId]) -> Vec<ProcessPin> {
        let mut list = Vec::new();
        for pin in pins {
            let pointer = stream_state.pins[*pin].leading;
            let it = &mut stream_state.pointers[pointer];
            // No frame is at the leading edge.
            let Some(frame) = it.frame else { continue };
            it.locked = true;
            let frame = frame.subject();
            self.log_event(pointer.subject(), || EventKind::PointerLocked { frame });
            list.push(ProcessPin {
                pin: *pin,
                pointer,
                available: it.remaining,
                used: 0,
                terminate: false,
            });
        }
        list
    }

    fn unlock_edge(
        &self,
        stream_state: &mut StreamState,
        it: &ProcessPin,
        answer: DriverResult<()>,
    ) {
        // As in `finish_pin_processing`.
        let Some(pointer) = stream_state.pointers.get(it.pointer) else { return };
        let (frame, left) = (pointer.frame, pointer.remaining);
        if answer.is_ok() && (it.used > 0 || it.terminate) {
            self.consume_bytes(stream_state, it.pointer, it.used.min(left), it.terminate);
        }
        self.unlock(stream_state, it.pointer, frame);
    }

    /// Entry rule: a driver that returned pending attempts processing again. Nothing else could
    /// happen any more; returns whether that is the reason.
    pub(crate) fn judge_stalled(&self, pin: PinId) -> bool {
        let stream_state = self.state.lock();
        // It may have been closed while its client waited.
        let Ok(it) = stream_state.pin(pin) else { return false };
        let waits_for_attempt =
            it.waits_for_attempt || stream_state.filters[it.filter].waits_for_attempt;
        let due = |clone: &PointerId| stream_state.pointers[*clone].timeout.is_some();
        let timed = it.clones.iter().any(due);
        let stalled = waits_for_attempt && it.may_process() && stream_state.has_data(it) && !timed;
        let broken = stalled.then(|| {
            format!(
                "{} has frames, but its process routine did not succeed, and its driver never \
                 attempted processing again",
                pin.subject()
            )
        });
        self.judge(RuleId::KS_PROC_002, pin.subject(), "KsPinAttemptProcessing", broken);
        stalled
    }

    /// The pointer whose timeout has expired, if there is one; the timeout is cleared.
    pub(crate) fn take_expired_timeout(&self, stream_state: &mut StreamState) -> Option<PointerId> {
        let (due, pointer) = *stream_state.timers.first()?;
        if due > self.host.now() {
            return None;
        }
        stream_state.unschedule(pointer);
        Some(pointer)
    }

    /// Calls the driver's timeout callback for a pointer.
    pub(crate) fn call_timeout(
        at: &mut Passive,
        stream_state: StateGuard<'_, StreamState>,
        pointer: PointerId,
    ) {
        let pin = stream_state.pointers[pointer].pin;
        let driver = stream_state.devices[stream_state.pins[pin].device].driver.clone();
        drop(stream_state);
        driver.pointer_timed_out(at, pin, pointer);
    }
}

impl Services {
    /// Processes a pin if possible (`KsPinAttemptProcessing`).
    pub fn attempt_processing(&self, pin: PinId) -> DriverResult<()> {
        let place = "KsPinAttemptProcessing";
        let (stream, mut stream_state) = self.lock_state()?;
        let never = !stream_state.pins.has_issued(pin.serial());
        let broken = never.then(|| {
            format!("the driver attempted to process pin {}, which was never created", pin.serial())
        });
        stream.judge(RuleId::KS_PROC_004, pin.subject(), place, broken);
        self.find_pin(&stream_state.pins, pin, place)?;
        let it = &mut stream_state.pins[pin];
        if it.waits_for_attempt {
            stream.judge(RuleId::KS_PROC_002, pin.subject(), place, None);
        }
        it.waits_for_attempt = false;
        it.made_no_progress = false;
        stream.request_processing_by_worker(&mut stream_state, pin);
        Ok(())
    }

    /// Processes a filter if possible (`KsFilterAttemptProcessing`).
    pub fn attempt_filter_processing(&self, filter: FilterId) -> DriverResult<()> {
        let (stream, mut stream_state) = self.lock_state()?;
        let it = stream_state.filters.get_mut(filter).ok_or(DriverError::Invalid)?;
        it.waits_for_attempt = false;
        it.made_no_progress = false;
        if let Some(pin) = stream_state.pins_of(filter).first().copied() {
            stream.request_processing_by_worker(&mut stream_state, pin);
        }
        Ok(())
    }

    /// Adds an input to a pin's gate (`KsGateAddOnInputToAnd`, `KsGateAddOffInputToAnd`): the pin
    /// is processed while all inputs are on.
    pub fn add_gate_input(&self, pin: PinId, on: bool) -> DriverResult<()> {
        self.change_gate(pin, "KsGateAddOnInputToAnd", |(ons, offs)| {
            Ok(if on { (ons + 1, offs) } else { (ons, offs + 1) })
        })
    }

    /// Turns an input on (`KsGateTurnInputOn`) or off (`KsGateTurnInputOff`).
    pub fn set_gate_input(&self, pin: PinId, on: bool) -> DriverResult<()> {
        let place = if on { "KsGateTurnInputOn" } else { "KsGateTurnInputOff" };
        self.change_gate(pin, place, |(ons, offs)| match on {
            true if offs == 0 => Err("an input of the gate was turned on, and all are on"),
            false if ons == 0 => Err("an input of the gate was turned off, and none is on"),
            true => Ok((ons + 1, offs - 1)),
            false => Ok((ons - 1, offs + 1)),
        })
    }

    fn change_gate(
        &self,
        pin: PinId,
        place: &'static str,
        change: impl FnOnce((u32, u32)) -> Result<(u32, u32), &'static str>,
    ) -> DriverResult<()> {
        let (stream, mut stream_state) = self.lock_state()?;
        self.find_pin(&stream_state.pins, pin, place)?;
        let it = &mut stream_state.pins[pin];
        let changed = change(it.gate_inputs);
        let broken = changed.err().map(|reason| format!("{reason}: {}", pin.subject()));
        stream.judge(RuleId::KS_PROC_006, pin.subject(), place, broken);
        it.gate_inputs = changed.map_err(|_| DriverError::Invalid)?;
        if it.gate_inputs.1 == 0 {
            stream.request_processing_by_worker(&mut stream_state, pin);
        }
        Ok(())
    }
}
