//! The three mutexes that drivers know: of a device, of a filter's control, of processing.
//!
//! They are state and not locks: a thread that must wait for one parks, holding no lock, and a
//! mutex is held across calls to drivers.
//!
//! # Invariants
//!
//! 1. The class driver acquires them in order: device, control, processing.
//! 2. A mutex that a driver acquired in a call is released when the call returns, by force if
//!    necessary.

use crate::driver_calls::Entry;
use crate::error::StreamError;
use crate::services::Services;
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{DriverError, DriverResult};
use flight::{At, CallGuard, EventKind, Irql, Passive, RuleId, Subject, current_thread};
use std::num::NonZeroU32;

/// A mutex, by the object that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KsMutex {
    /// The device mutex (`KsAcquireDevice`).
    Device(Subject),
    /// The control mutex of a filter (`KsAcquireControl`).
    Control(Subject),
    /// The processing mutex of a filter or a pin (`KsFilterAcquireProcessingMutex`).
    Processing(Subject),
}

/// The number of a call of a driver. It is not zero, so that an owner fits into a register.
type CallNumber = NonZeroU32;

/// The call number for a driver's own threads, which are in no call.
const NO_CALL: CallNumber = CallNumber::MAX;

/// A call number from an event.
#[inline]
fn call_number(number: u32) -> CallNumber {
    CallNumber::new(number).unwrap_or(NO_CALL)
}

/// The owner of a mutex.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) thread: u32,
    /// The call in which a driver acquired it.
    pub(crate) call: Option<CallNumber>,
}

impl Owner {
    /// The class driver, on the current thread.
    pub(crate) fn for_class_driver() -> Self {
        Self { thread: current_thread(), call: None }
    }

    /// Its name in events.
    fn name(self) -> &'static str {
        if self.call.is_some() { "driver" } else { "class" }
    }
}

/// The owners of mutexes, in order. There are few: as many as threads that wait or are in a call.
#[derive(Debug, Default)]
pub(crate) struct MutexOwners {
    held: Vec<(KsMutex, Owner)>,
    /// Acquires of a device mutex by a driver whose thread already has it, the last one last.
    nested: Vec<(KsMutex, Owner)>,
}

impl MutexOwners {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(KsMutex, Owner)> {
        self.held.iter()
    }

    #[inline]
    fn get(&self, mutex: KsMutex) -> Option<&Owner> {
        self.iter().find(|(it, _)| *it == mutex).map(|(_, owner)| owner)
    }

    /// The first mutex that a driver acquired in a call.
    fn acquired_in_call(&self, call: CallNumber) -> Option<KsMutex> {
        self.iter().find(|(_, it)| it.call == Some(call)).map(|(mutex, _)| *mutex)
    }

    /// Ends the last nested acquire of a mutex by a thread. Returns whether there was one.
    fn end_nested(&mut self, mutex: KsMutex, thread: u32) -> bool {
        let this = |(it, owner): &(KsMutex, Owner)| *it == mutex && owner.thread == thread;
        let last = self.nested.iter().rposition(this);
        last.map(|index| self.nested.remove(index)).is_some()
    }

    /// Ends the last nested acquire in a call. Returns its mutex, if there was one.
    fn end_nested_in_call(&mut self, call: CallNumber) -> Option<KsMutex> {
        let last = self.nested.iter().rposition(|(_, owner)| owner.call == Some(call))?;
        Some(self.nested.remove(last).0)
    }

    #[inline]
    fn insert(&mut self, mutex: KsMutex, owner: Owner) {
        if self.held.is_empty() {
            self.held.push((mutex, owner));
        } else {
            self.insert_between(mutex, owner);
        }
    }

    #[cold]
    fn insert_between(&mut self, mutex: KsMutex, owner: Owner) {
        let place = self.held.partition_point(|(it, _)| *it < mutex);
        self.held.insert(place, (mutex, owner));
    }

    #[inline]
    fn remove(&mut self, mutex: KsMutex) -> Option<Owner> {
        match self.held.pop_if(|(it, _)| *it == mutex) {
            Some((_, owner)) => Some(owner),
            None => self.remove_between(mutex),
        }
    }

    #[cold]
    fn remove_between(&mut self, mutex: KsMutex) -> Option<Owner> {
        let place = self.held.iter().position(|(it, _)| *it == mutex)?;
        Some(self.held.remove(place).1)
    }
}

impl KsMutex {
    fn rank(self) -> u32 {
        match self {
            KsMutex::Device(_) => 0,
            KsMutex::Control(_) => 1,
            KsMutex::Processing(_) => 2,
        }
    }

    /// Its name in events.
    pub fn name(self) -> &'static str {
        match self {
            KsMutex::Device(_) => "device",
            KsMutex::Control(_) => "control",
            KsMutex::Processing(_) => "processing",
        }
    }

    /// The object it belongs to.
    pub fn owner(self) -> Subject {
        match self {
            KsMutex::Device(it) | KsMutex::Control(it) | KsMutex::Processing(it) => it,
        }
    }
}

/// A mutex that the class driver holds, until dropped. Must not be dropped while the state is
/// locked.
pub(crate) struct KsMutexGuard<'a> {
    stream: &'a Stream,
    mutex: KsMutex,
}

impl Drop for KsMutexGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.stream.state.lock();
        self.stream.release(&mut state, self.mutex);
    }
}

impl StreamState {
    /// The mutexes a thread holds, as text.
    pub(crate) fn describe_held_mutexes(&self, thread: u32) -> &'static str {
        let mine = self.mutexes.iter().filter(|(_, it)| it.thread == thread);
        let set = mine.fold(0, |set, (mutex, _)| set | 1 << mutex.rank());
        [
            "none",
            "device",
            "control",
            "device+control",
            "processing",
            "device+processing",
            "control+processing",
            "device+control+processing",
        ][set]
    }

    /// Whether a thread holds a mutex.
    pub(crate) fn holds_mutex(&self, thread: u32, mutex: KsMutex) -> bool {
        self.mutexes.get(mutex).is_some_and(|owner| owner.thread == thread)
    }
}

impl Stream {
    /// Acquires a mutex for the class driver. A mutex that a driver keeps outside its calls, so
    /// that nothing could proceed any more, is taken from it.
    pub(crate) fn acquire_guard(
        &self,
        at: &mut Passive,
        mutex: KsMutex,
    ) -> Result<KsMutexGuard<'_>, StreamError> {
        match self.acquire(at, mutex, None) {
            Ok(()) => (),
            Err(StreamError::Stuck) if self.acquire_for_class_driver(mutex) => (),
            Err(reason) => return Err(reason),
        }
        Ok(KsMutexGuard { stream: self, mutex })
    }

    fn acquire_for_class_driver(&self, mutex: KsMutex) -> bool {
        let mut state = self.state.lock();
        let owner = state.mutexes.get(mutex).copied();
        let kept = owner.is_some_and(|owner| owner.call == Some(NO_CALL));
        if kept {
            let broken = format!(
                "a driver never released the {} mutex of {}, which it had acquired",
                mutex.name(),
                mutex.owner()
            );
            self.judge(RuleId::KS_MUTEX_005, mutex.owner(), "KsAcquireControl", Some(broken));
            self.release(&mut state, mutex);
            let owner = Owner { thread: current_thread(), call: None };
            self.try_acquire(&mut state, mutex, owner);
        }
        kept
    }

    /// Waits for a mutex, and acquires it. Fails with [`StreamError::Stuck`] if no thread can
    /// release it, and with [`StreamError::HostEnded`] if the run ended first, which is not a
    /// fault.
    fn acquire(
        &self,
        at: &mut Passive,
        mutex: KsMutex,
        call: Option<CallNumber>,
    ) -> Result<(), StreamError> {
        let owner = Owner { thread: current_thread(), call };
        let what = |_: &StreamState| format!("the {} mutex of {}", mutex.name(), mutex.owner());
        self.wait_until(at, mutex.owner(), None, what, |state| {
            self.try_acquire(state, mutex, owner).then_some(())
        })
    }

    /// Acquires a mutex if it is free. Returns whether it did.
    #[expect(clippy::inline_always, reason = "a step of the path of one frame")]
    #[inline(always)]
    pub(crate) fn try_acquire(
        &self,
        state: &mut StreamState,
        mutex: KsMutex,
        owner: Owner,
    ) -> bool {
        if state.mutexes.get(mutex).is_some() {
            return false;
        }
        state.mutexes.insert(mutex, owner);
        self.log_event(mutex.owner(), move || EventKind::KsLocked {
            lock: mutex.name().into(),
            by: owner.name().into(),
        });
        true
    }

    #[expect(clippy::inline_always, reason = "a step of the path of one frame")]
    #[inline(always)]
    pub(crate) fn release(&self, state: &mut StreamState, mutex: KsMutex) {
        if let Some(owner) = state.mutexes.remove(mutex) {
            self.log_event(mutex.owner(), move || EventKind::KsUnlocked {
                lock: mutex.name().into(),
                by: owner.name().into(),
            });
            self.wake_all(state);
        }
    }

    /// Ends a call to a driver.
    #[expect(clippy::inline_always, reason = "a step of the path of one frame")]
    #[inline(always)]
    pub(crate) fn end_call(&self, state: &mut StreamState, thread: u32, number: u32, entry: Entry) {
        // Mostly it is the newest call of all threads.
        let over = state.active_calls.pop_if(|newest| newest.thread == thread).or_else(|| {
            let last = state.active_calls.iter().rposition(|it| it.thread == thread);
            last.map(|index| state.active_calls.remove(index))
        });
        if over.is_some_and(|active_call| active_call.pin.is_some()) {
            self.wake_all(state); // A thread that stops the pin may wait for that.
        }
        let number = call_number(number);
        while let Some(mutex) = state.mutexes.end_nested_in_call(number) {
            self.judge_kept(mutex, entry);
        }
        while let Some(mutex) = state.mutexes.acquired_in_call(number) {
            self.judge_kept(mutex, entry);
            self.release(state, mutex);
        }
    }

    /// Entry rule: a driver releases a mutex in the call in which it acquired it.
    #[cold]
    fn judge_kept(&self, mutex: KsMutex, entry: Entry) {
        let broken = format!(
            "{} returned without releasing the {} mutex of {} that it had acquired",
            entry.name(),
            mutex.name(),
            mutex.owner()
        );
        self.judge(RuleId::KS_MUTEX_005, mutex.owner(), "KsAcquireControl", Some(broken));
    }
}

impl Services {
    /// Acquires a mutex, and waits for it (`KsAcquireDevice`, `KsAcquireControl`,
    /// `KsFilterAcquireProcessingMutex`, `KsPinAcquireProcessingMutex`).
    pub fn acquire(&self, mutex: KsMutex) -> DriverResult<()> {
        let (thread, place) = (current_thread(), "KsAcquireControl");
        let level = self.host.irql();
        let stream = &*self.stream;
        let call = {
            let (_, mut state) = self.lock_state()?;
            let inside = state.active_call(thread);
            let name = inside.map_or("the driver", |active_call| active_call.entry.name());
            let (lock, of) = (mutex.name(), mutex.owner());
            let late = (level != Irql::Passive).then(|| {
                format!("{name} acquired the {lock} mutex of {of} at {level} level, not at passive")
            });
            let cancels =
                inside.is_some_and(|active_call| active_call.entry == Entry::PointerCancelled);
            if cancels {
                let broken =
                    format!("{name} acquired the {lock} mutex of {of}, under the queue's lock");
                stream.judge(RuleId::KS_PTR_007, of, "AVStrMiniCancelCallback", Some(broken));
            }
            let again = state.holds_mutex(thread, mutex).then(|| {
                format!("{name} acquired the {lock} mutex of {of}, which its thread already holds")
            });
            let mine = state.mutexes.iter().filter(|(_, it)| it.thread == thread);
            let above = mine.map(|(it, _)| *it).find(|ks_mutex| ks_mutex.rank() > mutex.rank());
            // WINDOWS: the page says that the device mutex cannot be acquired recursively. A public
            // sample acquires it in its add routine, which is called with it, and says that this
            // is safe. So it is a warning, and the acquire is nested.
            let nests = again.is_some() && matches!(mutex, KsMutex::Device(_));
            let (nested, again) = if nests { (again, None) } else { (None, again) };
            let crossed = above.filter(|_| again.is_none() && !nests).map(|ks_mutex| {
                format!(
                    "{name} acquired the {lock} mutex of {of} with the {} mutex held",
                    ks_mutex.name()
                )
            });
            // WINDOWS: sleep and wake callbacks are those of pins and filters
            // (`KsPinRegisterPowerCallbacks`, documented), which are not called here. A device's
            // power comes with the device mutex, and the control mutex may be taken after that.
            let barred = [Entry::PinProcess, Entry::FilterProcess];
            let processes = inside.is_some_and(|active_call| barred.contains(&active_call.entry));
            let control = matches!(mutex, KsMutex::Control(_));
            let wrong_place = (control && processes).then(|| {
                format!("{name} acquired the control mutex of {of}, which is not allowed")
            });
            let refused = [&late, &again, &crossed, &wrong_place].iter().any(|text| text.is_some());
            // The most specific rule is judged first.
            if control {
                stream.judge(RuleId::KS_MUTEX_003, of, place, wrong_place);
            }
            stream.judge(RuleId::KS_MUTEX_001, of, place, again);
            if matches!(mutex, KsMutex::Device(_)) {
                stream.judge(RuleId::KS_MUTEX_006, of, "KsAcquireDevice", nested);
            }
            stream.judge(RuleId::KS_MUTEX_002, of, place, crossed);
            stream.judge(RuleId::KS_MUTEX_005, of, place, late);
            if refused || cancels {
                return Err(DriverError::Deadlock);
            }
            let number = CallGuard::current().map_or(NO_CALL, |call| call_number(call.number));
            let call = inside.map_or(NO_CALL, |_| number);
            if nests {
                state.mutexes.nested.push((mutex, Owner { thread, call: Some(call) }));
                return Ok(());
            }
            call
        };
        self.wait_in_call(stream, |at| {
            stream.acquire(at, mutex, Some(call)).map_err(|_| DriverError::Deadlock)
        })
    }

    /// Releases it (`KsReleaseDevice`, `KsReleaseControl`).
    pub fn release(&self, mutex: KsMutex) -> DriverResult<()> {
        let (stream, mut state) = self.lock_state()?;
        let (thread, of) = (current_thread(), mutex.owner());
        if state.mutexes.end_nested(mutex, thread) {
            return Ok(());
        }
        let owner = state.mutexes.get(mutex);
        let mine = owner.is_some_and(|owner| owner.thread == thread && owner.call.is_some());
        let broken = (!mine).then(|| {
            format!(
                "a driver released the {} mutex of {of}, which it had not acquired",
                mutex.name()
            )
        });
        stream.judge(RuleId::KS_MUTEX_005, of, "KsReleaseControl", broken);
        if !mine {
            return Err(DriverError::Invalid);
        }
        stream.release(&mut state, mutex);
        Ok(())
    }

    /// Waits inside a call of the driver, which is recorded in the call.
    pub(crate) fn wait_in_call<T>(
        &self,
        stream: &Stream,
        body: impl FnOnce(&mut Passive) -> DriverResult<T>,
    ) -> DriverResult<T> {
        let before = stream.host.now();
        let answer = At::at_current_irql(&*self.host, |at| match at {
            At::Passive(at) => body(at),
            At::Dispatch(_) | At::Device(_) => Err(DriverError::Deadlock),
        });
        if stream.host.now() != before {
            CallGuard::mark();
        }
        answer
    }
}
