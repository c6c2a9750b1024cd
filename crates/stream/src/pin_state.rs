//! State changes of pins: step by step, up and down, and undone on failure.

use crate::driver_calls::Entry;
use crate::error::StreamError;
use crate::frame::FrameLocation;
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{DriverError, FilterId, FrameId, PinId, PinState, PointerId};
use flight::{EventKind, Passive, RuleId};

impl Stream {
    /// Brings a pin to a state, step by step. If its driver refuses a step, the pin returns to its
    /// old state.
    pub fn set_state(&self, at: &mut Passive, pin: PinId, to: PinState) -> Result<(), StreamError> {
        let _control = self.acquire_control(at, self.filter_of(pin)?)?;
        let (from, standard) = {
            let stream_state = self.state.lock();
            let it = stream_state.pin(pin)?;
            if it.connection.is_none() {
                return Err(StreamError::NotConnected(pin.subject()));
            }
            stream_state.check_pin_counts(it.filter)?;
            (it.device_state, it.descriptor.changes_state_stepwise())
        };
        let mut here = from;
        while here != to {
            let next = if standard { here.next_towards(to) } else { to };
            if let Err(reason) = self.step_state(at, pin, here, next, false) {
                while here != from {
                    let back = if standard { here.next_towards(from) } else { from };
                    // A driver that refuses to go back cannot be helped: the pin is in the old
                    // state anyway.
                    let _ = self.step_state(at, pin, here, back, true);
                    here = back;
                }
                return Err(reason);
            }
            here = next;
        }
        Ok(())
    }

    /// Stops a pin, whatever its driver returns. The control mutex is held.
    pub(crate) fn force_stop(&self, at: &mut Passive, pin: PinId) {
        loop {
            let (here, standard) = {
                let stream_state = self.state.lock();
                let it = &stream_state.pins[pin];
                (it.device_state, it.descriptor.changes_state_stepwise())
            };
            if here == PinState::Stop {
                return;
            }
            let next = if standard { here.next_towards(PinState::Stop) } else { PinState::Stop };
            let _ = self.step_state(at, pin, here, next, true);
        }
    }

    /// Resets the queue of a pin (`KSRESET`): its driver is called, and every frame starts again.
    pub fn reset(&self, at: &mut Passive, pin: PinId) -> Result<(), StreamError> {
        let _control = self.acquire_control(at, self.filter_of(pin)?)?;
        let processing = self.processing_mutex(pin).ok_or(StreamError::NotFound(pin.subject()))?;
        let _processing = self.acquire_guard(at, processing)?;
        let (call, queued) = {
            let stream_state = self.state.lock();
            let queued: Vec<FrameId> = stream_state.pin(pin)?.queue.iter().copied().collect();
            (stream_state.pin_call(pin, Entry::PinReset), queued)
        };
        let (driver, view, resets) = call;
        let filter = {
            let stream_state = self.state.lock();
            let entries = &stream_state.filters[view.filter].descriptor.dispatch;
            entries.contains(&Entry::FilterReset).then(|| stream_state.filter_view(view.filter))
        };
        if let Some(filter) = filter {
            driver.reset_filter(at, &filter);
        }
        if resets {
            driver.reset_pin(at, &view);
        }
        for frame in queued {
            self.cancel_frame(at, frame);
        }
        let mut stream_state = self.state.lock();
        if stream_state.pin(pin)?.client_state >= PinState::Pause {
            self.queue_idle_frames(&mut stream_state, pin);
        }
        Ok(())
    }

    /// One step. A forced step is done even if the driver refuses it.
    pub(crate) fn step_state(
        &self,
        at: &mut Passive,
        pin: PinId,
        from: PinState,
        to: PinState,
        forced: bool,
    ) -> Result<(), StreamError> {
        let (least, ends) = {
            let mut stream_state = self.state.lock();
            let it = &mut stream_state.pins[pin];
            // WINDOWS: the client's state is set before the driver is called, and is restored if
            // the driver refuses (documented).
            it.client_state = to;
            it.runs_after_power_up = false; // The direction that the client requested.
            let (least, ends) = (it.processing_state(), it.ends_processing(from, to));
            self.log_state(pin, from, to, |from, to| EventKind::PinStateRequested { from, to });
            self.wake_all(&mut stream_state);
            (least, ends)
        };
        let injects_frames = self.state.lock().pins[pin].injects_frames;
        if from == PinState::Stop
            && !injects_frames
            && let Err(reason) = self.allocate_frames(at, pin)
        {
            self.restore_client_state(pin, from, to);
            return Err(reason);
        }
        if ends {
            self.wait_for_processing(at, pin);
        }
        let answer = self.call_set_state(at, pin, to, from);
        if let Err(reason) = answer
            && !forced
        {
            // No frame is injected any more when frames are freed.
            self.restore_client_state(pin, from, to);
            if from == PinState::Stop {
                self.free_frames(at, pin);
            }
            return Err(reason.into());
        }
        {
            let mut stream_state = self.state.lock();
            let it = &mut stream_state.pins[pin];
            it.device_state = to;
            it.waits_for_attempt = false;
            let feeds = to >= PinState::Pause && from < PinState::Pause;
            let out = it.flows_out;
            let lock_failed = answer.is_err();
            self.log_state(pin, from, to, |from, to| EventKind::PinStateChanged {
                from,
                to,
                forced: lock_failed,
            });
            if feeds && out && !injects_frames {
                self.queue_idle_frames(&mut stream_state, pin);
            }
            if to >= least {
                self.request_processing(&mut stream_state, pin);
            }
            self.wake_all(&mut stream_state);
        }
        if to == PinState::Stop {
            self.flush_pin(at, pin);
            self.free_frames(at, pin);
        }
        Ok(())
    }

    fn call_set_state(
        &self,
        at: &mut Passive,
        pin: PinId,
        to: PinState,
        from: PinState,
    ) -> Result<(), DriverError> {
        let call = self.state.lock().pin_call(pin, Entry::PinSetDeviceState);
        // The driver may have no entry for this.
        let (driver, view, true) = call else { return Ok(()) };
        let answer = driver.set_state(at, &view, to, from);
        self.judge_not_pending(pin, Entry::PinSetDeviceState, answer);
        let standard = self.state.lock().pins[pin].descriptor.changes_state_stepwise();
        if !standard {
            let jumped = (to as u32).abs_diff(from as u32) > 1 && to < from;
            let broken = (jumped && answer.is_err()).then(|| {
                format!(
                    "{} is not of standard transport, and its driver refused to go from {} to {}",
                    pin.subject(),
                    from.name(),
                    to.name()
                )
            });
            let place = Entry::PinSetDeviceState.name();
            self.judge(RuleId::KS_STATE_002, pin.subject(), place, broken);
        }
        match answer {
            Err(DriverError::Pending) => Ok(()), // It was reported, and is not a failure.
            other => other,
        }
    }

    /// Restores the client's state.
    fn restore_client_state(&self, pin: PinId, from: PinState, to: PinState) {
        let mut stream_state = self.state.lock();
        stream_state.pins[pin].client_state = from;
        self.log_state(pin, from, to, |from, to| EventKind::PinStateRefused { from, to });
        self.wake_all(&mut stream_state);
    }

    fn log_state(
        &self,
        pin: PinId,
        from: PinState,
        to: PinState,
        what: impl FnOnce(flight::Text, flight::Text) -> EventKind,
    ) {
        self.log.emit(pin.subject(), || what(from.name().into(), to.name().into()));
    }

    /// Waits until no thread processes the pin. No thread starts to.
    fn wait_for_processing(&self, at: &mut Passive, pin: PinId) {
        let mutex = self.state.lock().processing_mutex(pin);
        drop(self.acquire_guard(at, mutex));
    }

    /// Waits for running callbacks about pointers of a pin: they delete their pointers themselves.
    fn wait_for_callbacks(&self, at: &mut Passive, pin: PinId) {
        let what = |_: &StreamState| format!("callbacks of {}", pin.subject());
        let me = flight::current_thread();
        // A callback that never returns is a stuck wait, which is reported.
        let _ = self.wait_until(at, pin.subject(), None, what, |stream_state| {
            let mut calls = stream_state.active_calls.iter();
            let busy =
                calls.any(|active_call| active_call.thread != me && active_call.pin == Some(pin));
            (!busy).then_some(())
        });
    }

    /// Takes back everything in flight of a stopped pin. Remaining clones are reported, and deleted
    /// by force (D-16).
    fn flush_pin(&self, at: &mut Passive, pin: PinId) {
        let mutex = self.state.lock().processing_mutex(pin);
        self.wait_for_callbacks(at, pin);
        let _held = self.acquire_guard(at, mutex);
        let mut stream_state = self.state.lock();
        let it = &stream_state.pins[pin];
        let (clones, edges) = (it.clones.clone(), [Some(it.leading), it.trailing]);
        self.judge_stopped(&stream_state, pin, &clones);
        for clone in clones {
            if let Some(frame) = stream_state.pointers[clone].frame {
                let by = clone.subject();
                self.log.emit(frame.subject(), || EventKind::FrameStuck { by });
                stream_state.frames[frame].cancel_requested = true;
            }
            self.remove_clone(&mut stream_state, clone, true);
        }
        for edge in edges.into_iter().flatten() {
            self.unlock(&mut stream_state, edge, None);
            self.set_pointer_frame(&mut stream_state, edge, None);
        }
        let mine: Vec<FrameId> = stream_state.pins[pin].frames.clone();
        let mut flushed = 0;
        for frame in mine {
            let it = &mut stream_state.frames[frame];
            if it.location != FrameLocation::Idle {
                flushed += 1;
                it.location = FrameLocation::Idle;
                self.log.emit(frame.subject(), || EventKind::FrameReturned {});
            }
        }
        let it = &mut stream_state.pins[pin];
        it.queue.clear();
        it.completed.clear();
        it.made_no_progress = false;
        stream_state.jobs.retain(|job| !job.is_of_pin(pin));
        self.log.emit(pin.subject(), || EventKind::PinFlushed { frames: flushed });
        self.wake_all(&mut stream_state);
    }

    /// Entry rules: nothing is in flight when a pin has stopped.
    fn judge_stopped(&self, stream_state: &StreamState, pin: PinId, clones: &[PointerId]) {
        let (subject, count) = (pin.subject(), clones.len());
        // The cause first: clones hold the frames and the timeouts.
        let broken = (count > 0).then(|| {
            format!("{subject} has stopped, and {count} clones of its pointers were not deleted")
        });
        self.judge(RuleId::KS_PTR_005, subject, "KsStreamPointerClone", broken);
        let place = Entry::PinSetDeviceState.name();
        let with_frame = |clone: &&PointerId| stream_state.pointers[**clone].frame.is_some();
        let held = clones.iter().filter(with_frame).count();
        let broken = (held > 0)
            .then(|| format!("{subject} has stopped, and {held} of its frames are in flight"));
        self.judge(RuleId::KS_STATE_007, subject, place, broken);
        let timers = stream_state.pending_timeouts(clones.iter().copied());
        let broken = (timers > 0)
            .then(|| format!("{subject} has stopped, and {timers} of its timeouts are pending"));
        self.judge(RuleId::KS_PTR_012, subject, "KsStreamPointerScheduleTimeout", broken);
    }

    /// Entry rule: no timeout outlives its pointer. Edges exist until their pin is closed, which
    /// has happened now; running callbacks end first.
    pub(crate) fn end_timeouts(&self, at: &mut Passive, pin: PinId) {
        {
            let mut stream_state = self.state.lock();
            let it = &stream_state.pins[pin];
            let edges = [Some(it.leading), it.trailing].into_iter().flatten();
            let (subject, timers) = (pin.subject(), stream_state.pending_timeouts(edges.clone()));
            let broken = (timers > 0)
                .then(|| format!("{subject} is closed, and {timers} of its timeouts are pending"));
            self.judge(RuleId::KS_PTR_012, subject, "KsStreamPointerScheduleTimeout", broken);
            edges.for_each(|stream_pointer| stream_state.unschedule(stream_pointer));
        }
        self.wait_for_callbacks(at, pin);
    }
}

impl StreamState {
    /// How many of these pointers have a timeout.
    fn pending_timeouts(&self, pointers: impl Iterator<Item = PointerId>) -> usize {
        pointers.filter(|pointer| self.pointers[*pointer].timeout.is_some()).count()
    }

    /// Whether a filter has the pins it needs for a change of state.
    fn check_pin_counts(&self, filter: FilterId) -> Result<(), StreamError> {
        let descriptor = &self.filter(filter)?.descriptor;
        for (factory, pin) in (0..).zip(&descriptor.pins) {
            let mine = self.pins.iter().map(|(_, it)| it);
            let there = mine.filter(|pin| pin.filter == filter && pin.factory == factory).count();
            if there < pin.instances_necessary as usize {
                return Err(StreamError::TooFew { factory, least: pin.instances_necessary });
            }
        }
        Ok(())
    }
}
