//! States: walked step by step, forth and back, and refusals undone.

use crate::describe::Flow;
use crate::frame::Place;
use crate::funnel::Entry;
use crate::refused::Refused;
use crate::stream::Stream;
use crate::words::{FilterId, FrameId, PinId, PointerId, Refusal, State};
use crate::world::World;
use flight::{Passive, RuleId, What};

impl Stream {
    /// Brings a pin to a state, step by step. If its driver refuses one, it is brought back to
    /// where it was.
    pub fn set_state(&self, at: &mut Passive, pin: PinId, to: State) -> Result<(), Refused> {
        let _control = self.control(at, self.filter_of(pin)?)?;
        let (from, standard) = {
            let world = self.world.hold();
            let it = world.pin(pin)?;
            if it.connection.is_none() {
                return Err(Refused::NotConnected(pin.subject()));
            }
            world.enough_pins(it.filter)?;
            (it.state, it.descriptor.is_standard())
        };
        let mut here = from;
        while here != to {
            let next = if standard { here.towards(to) } else { to };
            if let Err(why) = self.step(at, pin, here, next, false) {
                while here != from {
                    let back = if standard { here.towards(from) } else { from };
                    // Nothing helps one that refuses to go back: it is there all the same.
                    let _ = self.step(at, pin, here, back, true);
                    here = back;
                }
                return Err(why);
            }
            here = next;
        }
        Ok(())
    }

    /// Brings a pin to stop, whatever its driver says. The control mutex is held.
    pub(crate) fn fall(&self, at: &mut Passive, pin: PinId) {
        loop {
            let (here, standard) = {
                let world = self.world.hold();
                let it = &world.pins[pin];
                (it.state, it.descriptor.is_standard())
            };
            if here == State::Stop {
                return;
            }
            let next = if standard { here.towards(State::Stop) } else { State::Stop };
            let _ = self.step(at, pin, here, next, true);
        }
    }

    /// Puts the queue of a pin back to its beginning (`KSRESET`): its driver is told, and every
    /// frame starts again.
    pub fn reset(&self, at: &mut Passive, pin: PinId) -> Result<(), Refused> {
        let _control = self.control(at, self.filter_of(pin)?)?;
        let processing = self.processing_of(pin).ok_or(Refused::NotThere(pin.subject()))?;
        let _processing = self.take(at, processing)?;
        let (call, queued) = {
            let world = self.world.hold();
            let queued: Vec<FrameId> = world.pin(pin)?.queue.iter().copied().collect();
            (world.pin_call(pin, Entry::PinReset), queued)
        };
        let (driver, view, resets) = call;
        let filter = {
            let world = self.world.hold();
            let entries = &world.filters[view.filter].descriptor.dispatch;
            entries.contains(&Entry::FilterReset).then(|| world.filter_view(view.filter))
        };
        if let Some(filter) = filter {
            driver.reset_filter(at, &filter);
        }
        if resets {
            driver.reset_pin(at, &view);
        }
        for frame in queued {
            self.cancel(at, frame);
        }
        let mut world = self.world.hold();
        if world.pin(pin)?.client >= State::Pause {
            self.feed(&mut world, pin);
        }
        Ok(())
    }

    /// One step. A forced one is done even if the driver refuses it.
    pub(crate) fn step(
        &self,
        at: &mut Passive,
        pin: PinId,
        from: State,
        to: State,
        forced: bool,
    ) -> Result<(), Refused> {
        let (least, ends) = {
            let mut world = self.world.hold();
            let it = &mut world.pins[pin];
            // WINDOWS: what the client wants is set before the driver is told, and goes back if
            // that refuses (documented).
            it.client = to;
            it.resumes = false; // It goes where its client says.
            let (least, ends) = (it.least(), it.ends_processing(from, to));
            self.say(pin, from, to, |from, to| What::PinWanted { from, to });
            self.wake(&mut world);
            (least, ends)
        };
        let injects = self.world.hold().pins[pin].injects;
        if from == State::Stop
            && !injects
            && let Err(why) = self.fill(at, pin)
        {
            self.back(pin, from, to);
            return Err(why);
        }
        if ends {
            self.await_processing(at, pin);
        }
        let answer = self.tell_state(at, pin, to, from);
        if let Err(why) = answer
            && !forced
        {
            // Nothing is injected any more when frames are freed.
            self.back(pin, from, to);
            if from == State::Stop {
                self.free_frames(at, pin);
            }
            return Err(why.into());
        }
        {
            let mut world = self.world.hold();
            let it = &mut world.pins[pin];
            it.state = to;
            it.waits = false;
            let feeds = to >= State::Pause && from < State::Pause;
            let out = it.descriptor.flow == Flow::Out;
            let failed = answer.is_err();
            self.say(pin, from, to, |from, to| What::PinState { from, to, forced: failed });
            if feeds && out && !injects {
                self.feed(&mut world, pin);
            }
            if to >= least {
                Self::want(&mut world, pin);
            }
            self.wake(&mut world);
        }
        if to == State::Stop {
            self.flush(at, pin);
            self.free_frames(at, pin);
        }
        Ok(())
    }

    fn tell_state(
        &self,
        at: &mut Passive,
        pin: PinId,
        to: State,
        from: State,
    ) -> Result<(), Refusal> {
        let call = self.world.hold().pin_call(pin, Entry::PinSetDeviceState);
        let (driver, view, true) = call else { return Ok(()) };
        let answer = driver.set_state(at, &view, to, from);
        self.judge_at_once(pin, Entry::PinSetDeviceState, answer);
        let standard = self.world.hold().pins[pin].descriptor.is_standard();
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
            Err(Refusal::Pending) => Ok(()), // It was named, and is no failure.
            other => other,
        }
    }

    /// Its client's state goes back.
    fn back(&self, pin: PinId, from: State, to: State) {
        let mut world = self.world.hold();
        world.pins[pin].client = from;
        self.say(pin, from, to, |from, to| What::PinRefused { from, to });
        self.wake(&mut world);
    }

    fn say(
        &self,
        pin: PinId,
        from: State,
        to: State,
        what: impl FnOnce(flight::Text, flight::Text) -> What,
    ) {
        self.log.emit(pin.subject(), what(from.name().into(), to.name().into()));
    }

    /// Waits until no thread processes the pin. None begins to any more.
    fn await_processing(&self, at: &mut Passive, pin: PinId) {
        let mutex = self.world.hold().processing_of(pin);
        drop(self.take(at, mutex));
    }

    /// Waits for callbacks about pointers of a pin that are under way: what they were told of is
    /// theirs to delete.
    fn await_callbacks(&self, at: &mut Passive, pin: PinId) {
        let what = |_: &World| format!("callbacks of {}", pin.subject());
        let me = flight::current_thread();
        // One that never returns is a stuck wait, which is named.
        let _ = self.act_when(at, pin.subject(), None, what, |world| {
            let mut calls = world.inside.iter();
            let busy = calls.any(|it| it.thread != me && it.pin == Some(pin));
            (!busy).then_some(())
        });
    }

    /// Takes back what is in flight of a pin that has stopped. Clones that are left are named,
    /// and deleted by force (D-16).
    fn flush(&self, at: &mut Passive, pin: PinId) {
        let mutex = self.world.hold().processing_of(pin);
        self.await_callbacks(at, pin);
        let _held = self.take(at, mutex);
        let mut world = self.world.hold();
        let it = &world.pins[pin];
        let (clones, edges) = (it.clones.clone(), [Some(it.leading), it.trailing]);
        self.judge_stopped(&world, pin, &clones);
        for clone in clones {
            if let Some(frame) = world.pointers[clone].frame {
                let by = clone.subject();
                self.log.emit(frame.subject(), What::FrameStuck { by });
                world.frames[frame].cancel = true;
            }
            self.remove_clone(&mut world, clone, true);
        }
        for edge in edges.into_iter().flatten() {
            self.unlock(&mut world, edge, None);
            self.point(&mut world, edge, None);
        }
        let mine: Vec<FrameId> = world.pins[pin].frames.clone();
        let mut flushed = 0;
        for frame in mine {
            let it = &mut world.frames[frame];
            if it.place != Place::Home {
                flushed += 1;
                it.place = Place::Home;
                self.log.emit(frame.subject(), What::FrameHome {});
            }
        }
        let it = &mut world.pins[pin];
        it.queue.clear();
        it.done.clear();
        it.idle = false;
        world.jobs.retain(|job| !job.is_of_pin(pin));
        self.log.emit(pin.subject(), What::PinFlushed { frames: flushed });
        self.wake(&mut world);
    }

    /// Entry rules: nothing is in flight when a pin has stopped.
    fn judge_stopped(&self, world: &World, pin: PinId, clones: &[PointerId]) {
        let (subject, count) = (pin.subject(), clones.len());
        let place = Entry::PinSetDeviceState.name();
        let with_frame = |clone: &&PointerId| world.pointers[**clone].frame.is_some();
        let held = clones.iter().filter(with_frame).count();
        let broken = (held > 0)
            .then(|| format!("{subject} has stopped, and {held} of its frames are in flight"));
        self.judge(RuleId::KS_STATE_007, subject, place, broken);
        let broken = (count > 0).then(|| {
            format!("{subject} has stopped, and {count} clones of its pointers were not deleted")
        });
        self.judge(RuleId::KS_PTR_005, subject, "KsStreamPointerClone", broken);
        let timers = world.pending_of(clones.iter().copied());
        let broken = (timers > 0)
            .then(|| format!("{subject} has stopped, and {timers} of its timeouts are pending"));
        self.judge(RuleId::KS_PTR_012, subject, "KsStreamPointerScheduleTimeout", broken);
    }

    /// Entry rule: no timeout outlives its pointer. Edges are there until their pin is closed,
    /// which has happened now; callbacks that are under way end first.
    pub(crate) fn end_timeouts(&self, at: &mut Passive, pin: PinId) {
        {
            let mut world = self.world.hold();
            let it = &world.pins[pin];
            let edges = [Some(it.leading), it.trailing].into_iter().flatten();
            let (subject, timers) = (pin.subject(), world.pending_of(edges.clone()));
            let broken = (timers > 0)
                .then(|| format!("{subject} is closed, and {timers} of its timeouts are pending"));
            self.judge(RuleId::KS_PTR_012, subject, "KsStreamPointerScheduleTimeout", broken);
            edges.for_each(|it| world.unschedule(it));
        }
        self.await_callbacks(at, pin);
    }
}

impl World {
    /// How many of these pointers have a timeout.
    fn pending_of(&self, pointers: impl Iterator<Item = PointerId>) -> usize {
        pointers.filter(|pointer| self.pointers[*pointer].due.is_some()).count()
    }

    /// Whether a filter has the pins it needs for a change of state.
    fn enough_pins(&self, filter: FilterId) -> Result<(), Refused> {
        let descriptor = &self.filter(filter)?.descriptor;
        for (factory, pin) in (0..).zip(&descriptor.pins) {
            let mine = self.pins.iter().map(|(_, it)| it);
            let there = mine.filter(|it| it.filter == filter && it.factory == factory).count();
            if there < pin.necessary as usize {
                return Err(Refused::TooFew { factory, least: pin.necessary });
            }
        }
        Ok(())
    }
}
