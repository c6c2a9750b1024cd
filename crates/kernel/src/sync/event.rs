//! Events of clients: the kernel notifies a client without blocking it in a call.
//!
//! An event stays set until it is reset (a manual-reset event of Windows). An event of a client that
//! has its own events elsewhere exists here for as long as something will set it, and has a sink.

use crate::base::error::KernelError;
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::process::Process;
use crate::lifetime::process::ProcessId;
use crate::state::KernelState;
use flight::{Component, EventKind, LiveObject, Passive, RuleId, Subject, WaitResult, WaitToken};
use std::sync::Arc;

/// Where a client sees that its event is set, if the event is not one of this kernel's.
pub trait EventSink: Send + Sync {
    /// Sets the event. Called under the kernel's lock: it does not block and does not call the
    /// kernel.
    fn set(&self);

    /// A number that tells the client's handle of the event from its other handles.
    fn key(&self) -> u64;
}

/// A client's event.
pub(crate) struct Event {
    process: Id<Process>,
    set: bool,
    /// The client has not closed it.
    open: bool,
    /// Number of waits and notifications that will set it.
    uses: u32,
    /// Number of notifications among `uses`. They should be destroyed before the event is closed.
    notices: u32,
    /// Also set when the event is.
    sink: Option<Arc<dyn EventSink>>,
}

impl Kernel {
    /// Creates an event that is not set. Its number is never reused. A process that has ended gets
    /// the number of no event.
    pub fn create_event(&self, process: ProcessId) -> u32 {
        self.create_event_of(process, None)
    }

    /// Calls `body` with the number of a new event that sets `sink`. The event ends with the last
    /// wait or notification that `body` gives it, or with `body`.
    pub fn with_event_for<R>(
        &self,
        process: ProcessId,
        sink: Arc<dyn EventSink>,
        body: impl FnOnce(u32) -> R,
    ) -> R {
        let number = self.create_event_of(process, Some(sink));
        let result = body(number);
        let state = &mut *self.state.lock();
        // A process that has ended took its events along.
        if let Ok(event) = state.event(process.0, number) {
            self.close_event_handle(state, event);
        }
        result
    }

    fn create_event_of(&self, process: ProcessId, sink: Option<Arc<dyn EventSink>>) -> u32 {
        let mut state = self.state.lock();
        let number = state.sync.events.reserve();
        // A process that has ended creates no event: its number names none.
        if state.processes.get(process.0).is_none_or(|process| process.ended) {
            state.sync.events.cancel(number);
            return number.serial();
        }
        let it = Event { process: process.0, set: false, open: true, uses: 0, notices: 0, sink };
        state.sync.events.fill(number, it);
        self.log.emit(number.subject(), || EventKind::EventCreated { process: process.subject() });
        number.serial()
    }

    /// Returns whether an event is set.
    pub fn event_is_set(&self, process: ProcessId, event: u32) -> Result<bool, KernelError> {
        let state = self.state.lock();
        let event = state.event(process.0, event)?;
        Ok(state.sync.events[event].set)
    }

    /// Resets an event.
    pub fn reset_event(&self, process: ProcessId, event: u32) -> Result<(), KernelError> {
        let state = &mut *self.state.lock();
        let event = state.event(process.0, event)?;
        state.sync.events[event].set = false;
        self.log.emit(event.subject(), || EventKind::EventReset {});
        Ok(())
    }

    /// Waits until an event is set.
    pub fn wait_event(
        &self,
        at: &mut Passive,
        process: ProcessId,
        event: u32,
    ) -> Result<(), KernelError> {
        loop {
            let (event, token) = {
                let mut state = self.state.lock();
                let event = state.event(process.0, event)?;
                if state.sync.events[event].set {
                    return Ok(());
                }
                let token =
                    WaitToken::for_external_threads(format!("{} to be set", event.subject()));
                state.waiters.push(token.clone());
                (event, token)
            };
            match self.park(at, event.subject(), &token) {
                WaitResult::Woken | WaitResult::TimedOut => (),
                WaitResult::Stuck(_) | WaitResult::HostEnded => return Err(KernelError::Stuck),
            }
        }
    }

    /// Closes a client's event. Pending waits and notifications keep it alive.
    pub fn close_event(&self, process: ProcessId, event: u32) -> Result<(), KernelError> {
        let state = &mut *self.state.lock();
        let event = state.event(process.0, event)?;
        let notices = state.sync.events[event].notices;
        self.judge_close(process, &event.subject().to_string(), notices);
        self.close_event_handle(state, event);
        Ok(())
    }

    /// Judges that a client closes its handle of an event, which `sink` sets.
    pub fn judge_event_close(&self, process: ProcessId, sink: &dyn EventSink) {
        let (state, key) = (&*self.state.lock(), sink.key());
        let is_same = |event: &Event| {
            let found = event.sink.as_ref().filter(|_| event.notices > 0);
            event.process == process.0 && found.is_some_and(|found| found.key() == key)
        };
        let events = state.sync.events.iter().filter(|pair| is_same(pair.1));
        let notices = events.map(|pair| pair.1.notices).sum();
        self.judge_close(process, "the event", notices);
    }

    /// Judges that an event is closed which `notices` objects will set.
    fn judge_close(&self, process: ProcessId, event: &str, notices: u32) {
        let broken = (notices > 0).then(|| {
            format!("{event} is closed before the {notices} objects that were created with it")
        });
        let place = "D3DKMTCreateSynchronizationObject2.CPUNotification";
        let (rule, client) = (RuleId::SYNC_CREATE_016, Component::Client);
        self.log.judge(rule, client, process.subject(), place, broken);
    }

    fn close_event_handle(&self, state: &mut KernelState, event: Id<Event>) {
        if let Some(it) = state.sync.events.get_mut(event) {
            it.open = false;
        }
        self.log.emit(event.subject(), || EventKind::EventClosed {});
        state.forget_event(event);
        self.wake_all(state);
    }

    /// Ends the waits and events of a process that exits.
    pub(crate) fn end_events(&self, state: &mut KernelState, process: Id<Process>) {
        if state.sync.events.is_empty() && state.sync.gpu_waits.is_empty() {
            return;
        }
        self.cancel_gpu_waits(state, |gpu_wait| gpu_wait.process == process);
        let mine = state.sync.events.iter().filter(|(_, it)| it.process == process && it.open);
        let mine: Vec<Id<Event>> = mine.map(|pair| pair.0).collect();
        for event in mine {
            self.close_event_handle(state, event);
        }
    }

    /// Sets an event.
    pub(super) fn set_event(
        &self,
        state: &mut KernelState,
        event: Id<Event>,
        component: Option<Subject>,
    ) {
        if let Some(it) = state.sync.events.get_mut(event) {
            it.set = true;
            if let Some(sink) = &it.sink {
                sink.set();
            }
            self.log.emit(event.subject(), || EventKind::EventSet { by: component });
        }
        self.wake_all(state);
    }
}

impl KernelState {
    /// Resolves a client's event number within its process.
    pub(crate) fn event(
        &self,
        process: Id<Process>,
        number: u32,
    ) -> Result<Id<Event>, KernelError> {
        let named = |event: &Id<Event>| {
            let it = &self.sync.events[*event];
            it.process == process && it.open
        };
        self.sync.events.find_serial(number).filter(named).ok_or(KernelError::EventNotFound(number))
    }

    /// Adds a reference of a wait or notification that will set an event.
    pub(super) fn retain_event(&mut self, event: Id<Event>) {
        if let Some(it) = self.sync.events.get_mut(event) {
            it.uses += 1;
        }
    }

    /// Drops the reference of a wait or notification that will not set the event.
    pub(super) fn release_event(&mut self, event: Id<Event>) {
        if let Some(it) = self.sync.events.get_mut(event) {
            it.uses -= 1;
        }
        self.forget_event(event);
    }

    /// Counts a notification that was created with an event (`made`) or destroyed.
    pub(super) fn count_notice(&mut self, event: Id<Event>, made: bool) {
        if let Some(it) = self.sync.events.get_mut(event) {
            it.notices = if made { it.notices + 1 } else { it.notices.saturating_sub(1) };
        }
    }

    fn forget_event(&mut self, event: Id<Event>) {
        if self.sync.events.get(event).is_some_and(|event| !event.open && event.uses == 0) {
            self.sync.events.take(event);
        }
    }

    /// Lists events among the live objects.
    pub(crate) fn list_events(&self, all: &mut Vec<LiveObject>) {
        for (number, event) in self.sync.events.iter() {
            let handle = if event.open { "open in its client" } else { "closed" };
            let uses = format!("{} waits and notifications will set it", event.uses);
            all.push(LiveObject {
                subject: number.subject(),
                owner: Some(event.process.subject()),
                reasons: vec![handle.to_owned(), uses],
            });
        }
    }
}
