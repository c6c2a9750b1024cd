//! What contexts wait for and signal from their queues, and who waits for what.

use crate::context::Context;
use crate::device::Device;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::memory::queue::Queue;
use crate::process::Process;
use crate::process::ProcessId;
use crate::refused::Refused;
use crate::space::Space;
use crate::space::queued::Fenced;
use crate::space::update::Judged;
use crate::store::Id;
use crate::sync::cpu::Use;
use crate::sync::event::Event;
use crate::sync::{State, Sync};
use crate::world::World;
use flight::{Subject, Text, What};
use smallvec::SmallVec;

/// What a context waits for or signals: objects, each with a value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    pub(super) list: SmallVec<[(Mark, u64); 2]>,
    /// The signal counts when all its contexts have come to it.
    pub(super) broadcast: Option<Id<Broadcast>>,
}

/// Something with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A synchronisation object.
    Object(Id<Sync>),
    /// A queue of paging work, by its fence.
    Queue(Id<Queue>),
}

/// A signal of several contexts.
pub(crate) struct Broadcast {
    /// How many have not come to it. None never will.
    left: Option<u32>,
    /// How many of their items are there.
    items: u32,
}

/// A wait that is not over.
pub(crate) struct Await {
    pub(super) who: Waiter,
    /// The device it is of.
    pub(crate) device: Id<Device>,
    pub(crate) process: Id<Process>,
    pub(super) marks: Marks,
    /// One of them is enough.
    pub(super) any: bool,
    /// How it ended, for a thread that has not looked yet.
    pub(super) over: Option<Over>,
}

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// A context, with this at the front of its queue.
    Context(Id<Context>),
    /// A thread of a client.
    Thread,
    /// Nobody: an event is set.
    Event(Id<Event>),
    /// An update of this space's addresses, by its number among all.
    Update { update: Id<Judged>, space: Id<Space> },
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Passed,
    Dropped,
}

impl Mark {
    pub(crate) fn subject(self) -> Subject {
        match self {
            Mark::Object(number) => number.subject(),
            Mark::Queue(number) => number.subject(),
        }
    }
}

impl Marks {
    pub(super) fn names(&self, mark: Mark) -> bool {
        self.list.iter().any(|it| it.0 == mark)
    }

    /// How many objects it names.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.list.len()).unwrap_or(u32::MAX)
    }

    fn objects(&self) -> impl Iterator<Item = (Id<Sync>, u64)> + '_ {
        self.list.iter().filter_map(|(mark, value)| match mark {
            Mark::Object(number) => Some((*number, *value)),
            Mark::Queue(_) => None,
        })
    }
}

impl Kernel {
    /// Passes a wait that stands first in a context's queue: takes all it names or nothing. When
    /// it answers false the context is noted with what it lacks, and [`Kernel::advance`] is called
    /// for it when that may have come.
    pub(crate) fn try_pass(&self, world: &mut World, context: Id<Context>, wait: &Marks) -> bool {
        let noted = world.await_of(context);
        let number = noted.unwrap_or_else(|| {
            let device = world.contexts[context].device;
            let process = world.devices[device].owner();
            let who = Waiter::Context(context);
            let marks = wait.clone();
            self.begin_await(world, Await { who, device, process, marks, any: false, over: None })
        });
        if !world.is_satisfied(wait, false) {
            return false;
        }
        self.take(world, number, context, wait);
        world.sync.awaits.take(number);
        self.log.emit(number.subject(), What::AwaitPassed {});
        self.disuse(world, wait);
        true
    }

    /// The context has come to a signal: values rise, waiters wake. The signal is no longer in
    /// its queue. For each context that may go on, `advance` is called: by this, or by whoever
    /// does so already.
    pub(crate) fn signal_marks(&self, world: &mut World, context: Id<Context>, signal: &Marks) {
        if self.reach(world, context, signal) {
            let by = if signal.broadcast.is_some() { "broadcast" } else { "context" };
            for (number, value) in signal.objects() {
                self.signal_one(world, number, value, by);
            }
        }
        self.disuse(world, signal);
        self.let_go_on(world);
    }

    /// A queued wait or signal will never be reached (its device is lost): references go.
    pub(crate) fn drop_marks(
        &self,
        world: &mut World,
        context: Option<Id<Context>>,
        marks: &Marks,
    ) {
        if marks.broadcast.is_none()
            && let Some(number) = context.and_then(|context| world.await_of(context))
        {
            world.sync.awaits.take(number);
            self.log.emit(number.subject(), What::AwaitDropped {});
        }
        if let Some(it) = marks.broadcast.and_then(|it| world.sync.broadcasts.get_mut(it)) {
            it.left = None;
        }
        world.leave_broadcast(marks);
        self.disuse(world, marks);
    }

    /// Whether a signal counts now that this context has come to it.
    fn reach(&self, world: &mut World, context: Id<Context>, signal: &Marks) -> bool {
        let Some(broadcast) = signal.broadcast else { return true };
        let it = &mut world.sync.broadcasts[broadcast];
        it.left = it.left.map(|it| it.saturating_sub(1));
        let left = it.left;
        let (broadcast, context) = (broadcast.serial(), context.subject());
        for (mark, _) in &signal.list {
            if let Some(left) = left {
                self.log.emit(mark.subject(), What::SyncReached { broadcast, context, left });
            }
        }
        world.leave_broadcast(signal);
        left == Some(0)
    }

    /// Signals one object.
    fn signal_one(&self, world: &mut World, number: Id<Sync>, target: u64, by: &'static str) {
        let it = &mut world.sync.objects[number];
        match &mut it.state {
            State::Mutex { held } => *held = None,
            // WINDOWS: what becomes of a signal above the most is not documented; here it is lost.
            State::Semaphore { count, most } if *most == 0 || *count < *most => {
                *count = count.saturating_add(1);
            }
            State::Semaphore { .. } => (),
            // WINDOWS: the GPU writes what it is told; the CPU alone is refused (our reading).
            State::Fence { value } | State::Monitored { value } => *value = target,
            State::Notice { event } => {
                let event = *event;
                self.set_event(world, event, Some(number.subject()));
                return;
            }
        }
        self.changed(world, number, by);
    }

    /// Something has changed: whoever waits for it, and can go on, does.
    pub(crate) fn look_again_at(&self, world: &mut World, mark: Mark) {
        if world.sync.awaits.is_empty() {
            return;
        }
        let waits = |it: &(Id<Await>, &Await)| it.1.over.is_none() && it.1.marks.names(mark);
        let all: Vec<Id<Await>> = world.sync.awaits.iter().filter(waits).map(|it| it.0).collect();
        for number in all {
            // The end of another wait may have ended it.
            let Some(it) = world.sync.awaits.get(number) else { continue };
            if let Waiter::Context(context) = it.who {
                if !world.sync.woken.contains(&context) {
                    world.sync.woken.push_back(context);
                }
            } else if world.is_satisfied(&it.marks, it.any) {
                self.end_await(world, number, Over::Passed);
            }
        }
        self.wake(world);
    }

    /// Lets contexts and updates of addresses go on that have come to what they waited for. They may signal others: those
    /// go on here, too, and not inside their turn.
    pub(crate) fn let_go_on(&self, world: &mut World) {
        if std::mem::replace(&mut world.sync.waking, true) {
            return;
        }
        loop {
            if let Some(context) = world.sync.woken.pop_front() {
                self.advance(world, context);
            } else if let Some(update) = world.sync.due.pop_front() {
                self.apply_due(world, update);
            } else {
                break;
            }
        }
        world.sync.waking = false;
    }

    /// Notes a wait, and says so.
    pub(super) fn begin_await(&self, world: &mut World, it: Await) -> Id<Await> {
        let (who, form) = match it.who {
            Waiter::Context(context) => (context.subject(), "context"),
            Waiter::Thread => (it.process.subject(), "thread"),
            Waiter::Event(event) => (event.subject(), "event"),
            Waiter::Update { space, .. } => (space.subject(), "update"),
        };
        let (any, marks) = (it.any, it.marks.clone());
        let number = world.sync.awaits.insert(it);
        let subject = number.subject();
        let form: Text = form.into();
        self.log.emit(subject, What::AwaitBegun { who, form, any, count: marks.count() });
        for (mark, value) in marks.list {
            self.log.emit(subject, What::AwaitNamed { of: mark.subject(), value });
        }
        number
    }

    /// A wait of a thread or an event is over.
    pub(super) fn end_await(&self, world: &mut World, number: Id<Await>, over: Over) {
        // The end of another wait may have ended it.
        let Some(it) = world.sync.awaits.get_mut(number) else { return };
        if it.over.is_some() {
            return;
        }
        it.over = Some(over);
        let (who, marks, subject) = (it.who, it.marks.clone(), number.subject());
        if let Waiter::Event(event) = who {
            world.sync.awaits.take(number);
            if over == Over::Passed {
                self.set_event(world, event, Some(subject));
            }
            world.disuse_event(event);
        }
        if let Waiter::Update { .. } = who {
            world.sync.awaits.take(number);
        }
        let said = match over {
            Over::Passed => What::AwaitPassed {},
            Over::Dropped => What::AwaitDropped {},
        };
        self.log.emit(subject, said);
        self.disuse(world, &marks);
        match (who, over) {
            (Waiter::Update { update, .. }, Over::Passed) => world.sync.due.push_back(update),
            (Waiter::Update { update, .. }, Over::Dropped) => self.drop_update(world, update),
            _ => (),
        }
    }

    /// Ends waits of threads and events whose owner ends.
    pub(crate) fn drop_awaits(&self, world: &mut World, which: impl Fn(&Await) -> bool) {
        let context = |it: &Await| matches!(it.who, Waiter::Context(_));
        let all = world.sync.awaits.iter().filter(|(_, it)| which(it) && !context(it));
        let all: Vec<Id<Await>> = all.map(|it| it.0).collect();
        for number in all {
            self.end_await(world, number, Over::Dropped);
        }
        self.wake(world);
    }

    /// Takes what a wait takes away.
    fn take(&self, world: &mut World, number: Id<Await>, context: Id<Context>, wait: &Marks) {
        for (object, _) in wait.objects() {
            let it = &mut world.sync.objects[object];
            match &mut it.state {
                State::Mutex { held } => *held = Some(super::MutexOwner::Context(context)),
                State::Semaphore { count, .. } => *count = count.saturating_sub(1),
                State::Fence { .. } | State::Monitored { .. } | State::Notice { .. } => continue,
            }
            let left = it.state.value();
            let by = number.subject();
            self.log.emit(object.subject(), What::SyncTaken { by, left });
        }
    }

    /// The fence that an update of addresses waits for, and signals.
    pub(crate) fn updating_fence(
        &self,
        world: &World,
        process: ProcessId,
        device: Id<Device>,
        (handle, value): (Handle, u64),
    ) -> Result<Id<Sync>, Refused> {
        let next = (handle, value.saturating_add(1));
        self.mark(world, process, device, next, Use::Signal { rewinds: true }, true)?;
        match self.mark(world, process, device, (handle, value), Use::Wait, true)? {
            Mark::Object(number) => Ok(number),
            // It was no such above.
            Mark::Queue(number) => Err(Refused::NotMonitored(number.subject())),
        }
    }

    /// An update of addresses waits for its fence.
    pub(crate) fn await_update(
        &self,
        world: &mut World,
        (update, space): (Id<Judged>, Id<Space>),
        (process, device): (Id<Process>, Id<Device>),
        fence: Fenced,
    ) {
        let marks = marks_of(fence);
        world.use_marks(&marks);
        let who = Waiter::Update { update, space };
        self.begin_await(world, Await { who, device, process, marks, any: false, over: None });
    }

    /// An update of addresses is done.
    pub(crate) fn signal_update(&self, world: &mut World, fence: Fenced) {
        let target = fence.value.saturating_add(1);
        // A reset may have given it its highest value meanwhile.
        let higher = world
            .sync
            .objects
            .get(fence.object)
            .is_some_and(|it| matches!(it.state, State::Monitored { value } if value > target));
        if !higher {
            self.signal_one(world, fence.object, target, "update");
        }
    }

    /// An update of addresses needs its fence no more.
    pub(crate) fn disuse_fence(&self, world: &mut World, fence: Fenced) {
        self.disuse(world, &marks_of(fence));
    }

    /// Something that needed objects is gone.
    pub(super) fn disuse(&self, world: &mut World, marks: &Marks) {
        for (number, _) in marks.objects() {
            world.sync.objects[number].uses -= 1;
            self.end_unused(world, number);
        }
    }
}

fn marks_of(fence: Fenced) -> Marks {
    let list = SmallVec::from_slice(&[(Mark::Object(fence.object), fence.value)]);
    Marks { list, broadcast: None }
}

impl World {
    /// An update of addresses needs its fence, until it has signalled it.
    pub(crate) fn use_fence(&mut self, fence: Fenced) {
        self.use_marks(&marks_of(fence));
    }

    /// Whether an update of addresses can be applied.
    pub(crate) fn is_fence_met(&self, fence: Fenced) -> bool {
        self.is_satisfied(&marks_of(fence), false)
    }

    /// Something needs objects.
    pub(super) fn use_marks(&mut self, marks: &Marks) {
        for (number, _) in marks.objects() {
            self.sync.objects[number].uses += 1;
        }
    }

    /// A signal of so many contexts, of which each has an item.
    pub(super) fn begin_broadcast(&mut self, contexts: u32) -> Id<Broadcast> {
        self.sync.broadcasts.insert(Broadcast { left: Some(contexts), items: contexts })
    }

    /// An item of a broadcast is gone: with the last one goes the broadcast.
    fn leave_broadcast(&mut self, marks: &Marks) {
        let Some(number) = marks.broadcast else { return };
        let it = &mut self.sync.broadcasts[number];
        it.items = it.items.saturating_sub(1);
        if it.items == 0 {
            self.sync.broadcasts.take(number);
        }
    }

    /// The wait that is noted for a context.
    fn await_of(&self, context: Id<Context>) -> Option<Id<Await>> {
        if self.sync.awaits.is_empty() {
            return None;
        }
        let who = Waiter::Context(context);
        self.sync.awaits.iter().find(|(_, it)| it.who == who).map(|it| it.0)
    }

    /// Whether a wait can pass now.
    pub(super) fn is_satisfied(&self, marks: &Marks, any: bool) -> bool {
        let met = |(mark, value): &(Mark, u64)| match mark {
            Mark::Queue(number) => self.queues.get(*number).is_none_or(|it| it.done >= *value),
            Mark::Object(number) => {
                let often = marks.list.iter().filter(|it| it.0 == *mark).count();
                self.sync.objects.get(*number).is_none_or(|it| it.is_met(*value, often))
            }
        };
        if any { marks.list.iter().any(met) } else { marks.list.iter().all(met) }
    }

    /// What a wait lacks, in words.
    pub(crate) fn lacks(&self, marks: &Marks) -> String {
        let one = |(mark, value): &(Mark, u64)| match mark {
            Mark::Queue(number) => {
                let done = self.queues.get(*number).map_or(0, |it| it.done);
                format!("{}, which has signalled {done}, to signal {value}", mark.subject())
            }
            Mark::Object(number) => {
                let stands = self.stands(*number);
                match self.sync.objects.get(*number).map(|it| it.state) {
                    Some(State::Fence { .. } | State::Monitored { .. }) => {
                        format!("{stands}, to have {value}")
                    }
                    _ => stands,
                }
            }
        };
        let unmet = |it: &&(Mark, u64)| {
            let alone = Marks { list: SmallVec::from_slice(&[**it]), broadcast: None };
            !self.is_satisfied(&alone, false)
        };
        let all: Vec<String> = marks.list.iter().filter(unmet).map(one).collect();
        all.join(" and for ")
    }
}

impl Sync {
    /// Whether so many waits in one can pass.
    fn is_met(&self, target: u64, often: usize) -> bool {
        match self.state {
            State::Mutex { held } => held.is_none(),
            State::Semaphore { count, .. } => count as usize >= often,
            State::Fence { value } | State::Monitored { value } => value >= target,
            // WINDOWS: a notification is signalled and not waited for; a wait for one does not
            // end (our reading).
            State::Notice { .. } => false,
        }
    }
}
