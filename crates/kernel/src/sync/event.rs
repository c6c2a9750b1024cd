//! A client's events: what it is told through, without waiting in a call.
//!
//! An event is set and stays set until it is reset (a manual-reset event of Windows).

use crate::kernel::Kernel;
use crate::process::Process;
use crate::process::ProcessId;
use crate::refused::Refused;
use crate::store::Id;
use crate::world::World;
use flight::{Passive, RuleId, Subject, Ticket, What, Who, Woken};

/// A client's event.
pub(crate) struct Event {
    process: Id<Process>,
    set: bool,
    /// Its client has it.
    named: bool,
    /// How many waits and notifications will set it.
    uses: u32,
    /// How many of these are notifications, which should go before it.
    notices: u32,
}

impl Kernel {
    /// Makes an event that is not set. Its number is never used again.
    pub fn create_event(&self, process: ProcessId) -> u32 {
        let mut world = self.world.hold();
        let it = Event { process: process.0, set: false, named: true, uses: 0, notices: 0 };
        let number = world.sync.events.insert(it);
        let created = What::EventCreated { process: process.subject() };
        self.log.emit(number.subject(), created);
        number.serial()
    }

    /// Whether an event is set.
    pub fn event_is_set(&self, process: ProcessId, event: u32) -> Result<bool, Refused> {
        let world = self.world.hold();
        let event = world.event(process.0, event)?;
        Ok(world.sync.events[event].set)
    }

    /// An event is not set any more.
    pub fn reset_event(&self, process: ProcessId, event: u32) -> Result<(), Refused> {
        let world = &mut *self.world.hold();
        let event = world.event(process.0, event)?;
        world.sync.events[event].set = false;
        self.log.emit(event.subject(), What::EventReset {});
        Ok(())
    }

    /// Waits until an event is set.
    pub fn wait_event(
        &self,
        at: &mut Passive,
        process: ProcessId,
        event: u32,
    ) -> Result<(), Refused> {
        loop {
            let (event, ticket) = {
                let mut world = self.world.hold();
                let event = world.event(process.0, event)?;
                if world.sync.events[event].set {
                    return Ok(());
                }
                let ticket = Ticket::of_strangers(format!("{} to be set", event.subject()));
                world.waiting.push(ticket.clone());
                (event, ticket)
            };
            match self.park(at, event.subject(), &ticket) {
                Woken::Rung | Woken::TimedOut => (),
                Woken::Stuck(_) | Woken::Over => return Err(Refused::Stuck),
            }
        }
    }

    /// A client is done with an event. What will set it keeps it.
    pub fn close_event(&self, process: ProcessId, event: u32) -> Result<(), Refused> {
        let world = &mut *self.world.hold();
        let event = world.event(process.0, event)?;
        let notices = world.sync.events[event].notices;
        let subject = event.subject();
        let broken = (notices > 0).then(|| {
            format!("{subject} is closed before the {notices} objects that were created with it")
        });
        let place = "D3DKMTCreateSynchronizationObject2.CPUNotification";
        self.log.judge(RuleId::SYNC_CREATE_016, Who::Client, process.subject(), place, broken);
        self.unname_event(world, event);
        Ok(())
    }

    fn unname_event(&self, world: &mut World, event: Id<Event>) {
        if let Some(it) = world.sync.events.get_mut(event) {
            it.named = false;
        }
        self.log.emit(event.subject(), What::EventClosed {});
        world.forget_event(event);
        self.wake(world);
    }

    /// A process ends: what it waits for and its events end.
    pub(crate) fn end_events(&self, world: &mut World, process: Id<Process>) {
        if world.sync.events.is_empty() && world.sync.awaits.is_empty() {
            return;
        }
        self.drop_awaits(world, |it| it.process == process);
        let mine = world.sync.events.iter().filter(|(_, it)| it.process == process && it.named);
        let mine: Vec<Id<Event>> = mine.map(|it| it.0).collect();
        for event in mine {
            self.unname_event(world, event);
        }
    }

    /// Sets an event.
    pub(super) fn set_event(&self, world: &mut World, event: Id<Event>, by: Option<Subject>) {
        if let Some(it) = world.sync.events.get_mut(event) {
            it.set = true;
            self.log.emit(event.subject(), What::EventSet { by });
        }
        self.wake(world);
    }
}

impl World {
    /// The event that a client's number names, which is the process's.
    pub(super) fn event(&self, process: Id<Process>, number: u32) -> Result<Id<Event>, Refused> {
        let named = |event: &Id<Event>| {
            let it = &self.sync.events[*event];
            it.process == process && it.named
        };
        self.sync.events.find_serial(number).filter(named).ok_or(Refused::NoEvent(number))
    }

    /// Something will set an event.
    pub(super) fn use_event(&mut self, event: Id<Event>) {
        if let Some(it) = self.sync.events.get_mut(event) {
            it.uses += 1;
        }
    }

    /// Something that would have set an event is gone.
    pub(super) fn disuse_event(&mut self, event: Id<Event>) {
        if let Some(it) = self.sync.events.get_mut(event) {
            it.uses -= 1;
        }
        self.forget_event(event);
    }

    /// A notification was created with an event (`made`), or is gone.
    pub(super) fn count_notice(&mut self, event: Id<Event>, made: bool) {
        if let Some(it) = self.sync.events.get_mut(event) {
            it.notices = if made { it.notices + 1 } else { it.notices.saturating_sub(1) };
        }
    }

    fn forget_event(&mut self, event: Id<Event>) {
        if self.sync.events.get(event).is_some_and(|it| !it.named && it.uses == 0) {
            self.sync.events.take(event);
        }
    }

    /// Whose an event is, and why it lives.
    pub(crate) fn why_events(&self) -> Vec<(Id<Event>, Id<Process>, Vec<String>)> {
        let why = |(number, it): (Id<Event>, &Event)| {
            let named = if it.named { "a handle of its client" } else { "closed" };
            let uses = format!("{} waits and notifications will set it", it.uses);
            (number, it.process, vec![named.to_owned(), uses])
        };
        self.sync.events.iter().map(why).collect()
    }
}
