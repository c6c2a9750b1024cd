//! What a client asks of synchronisation objects: of its CPU at once, of its contexts in turn.

use crate::context::Context;
use crate::device::Device;
use crate::handle::ObjectId;
use crate::handle::{BadHandle, Handle};
use crate::kernel::Kernel;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::store::Id;
use crate::sync::marks::{Await, Mark, Marks, Over, Waiter};
use crate::sync::{State, Sync};
use crate::world::World;
use flight::{Passive, Ticket, What, Woken};
use smallvec::SmallVec;

/// How far a value of 32 bits may be from the last one.
const FAR: u64 = (u32::MAX / 2) as u64;

/// Signals of contexts (`D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalOrder<'a> {
    /// Which contexts have to come to it.
    pub contexts: &'a [Handle],
    /// The objects, each with its value.
    pub list: &'a [(Handle, u64)],
    /// An event to set, too.
    pub event: Option<u32>,
}

/// A wait of a client's CPU (`D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitOrder<'a> {
    /// For which device.
    pub device: Handle,
    /// The fences, each with its value.
    pub list: &'a [(Handle, u64)],
    /// One of them is enough.
    pub any: bool,
    /// This event is set, and the call does not wait.
    pub event: Option<u32>,
}

/// What is to be done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Signal { rewinds: bool },
    Wait,
}

impl Kernel {
    /// Whether these are fences with a value each, and not objects that share one (the two forms
    /// of `D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU`).
    pub fn have_values(&self, process: ProcessId, list: &[Handle]) -> bool {
        let world = self.world.hold();
        let names = world.processes.get(process.0).map(|it| &it.names);
        list.iter().all(|handle| match names.map(|it| it.find(*handle)) {
            Some(Ok(ObjectId::QueueFence(_))) => true,
            Some(Ok(ObjectId::Sync(sync))) => {
                matches!(world.sync.objects[sync].state, State::Monitored { .. })
            }
            _ => false,
        })
    }

    /// Signals monitored fences at once (`D3DKMTSignalSynchronizationObjectFromCpu`).
    pub fn signal_from_cpu(
        &self,
        process: ProcessId,
        device: Handle,
        list: &[(Handle, u64)],
        rewinds: bool,
    ) -> Result<(), Refused> {
        let world = &mut *self.world.hold();
        let device = world.resolve::<Device>(process, Argument::Device, device)?;
        let marks = self.marks(world, process, device, list, Use::Signal { rewinds }, true)?;
        for (mark, value) in marks.list {
            let Mark::Object(number) = mark else { continue };
            if let Some(it) = world.sync.objects.get_mut(number) {
                it.state = State::Monitored { value };
            }
            self.changed(world, number, "cpu");
        }
        self.let_go_on(world);
        Ok(())
    }

    /// Waits until fences have values, or has an event set then
    /// (`D3DKMTWaitForSynchronizationObjectFromCpu`).
    pub fn wait_from_cpu(
        &self,
        at: &mut Passive,
        process: ProcessId,
        order: &WaitOrder<'_>,
    ) -> Result<(), Refused> {
        let number = {
            let world = &mut *self.world.hold();
            let device = world.resolve::<Device>(process, Argument::Device, order.device)?;
            let marks = self.marks(world, process, device, order.list, Use::Wait, true)?;
            let who = match order.event {
                Some(event) => {
                    let event = world.event(process.0, event)?;
                    world.use_event(event);
                    Waiter::Event(event)
                }
                None => Waiter::Thread,
            };
            world.use_marks(&marks);
            let satisfied = world.is_satisfied(&marks, order.any);
            let (process, any) = (process.0, order.any);
            let it = Await { who, device, process, marks, any, over: None };
            let number = self.begin_await(world, it);
            if satisfied {
                self.end_await(world, number, Over::Passed);
            }
            number
        };
        if order.event.is_some() { Ok(()) } else { self.await_thread(at, number) }
    }

    /// Waits until a paging queue's fence has a value, whatever device it is of.
    pub fn wait_queue(
        &self,
        at: &mut Passive,
        process: ProcessId,
        fence: Handle,
        value: u64,
    ) -> Result<(), Refused> {
        let device = {
            let world = self.world.hold();
            let queue = world.resolve_queue_fence(process, Argument::Fence, fence)?;
            let device = world.queues[queue].device;
            world.devices.get(device).map(|it| it.handle).unwrap_or_default()
        };
        let order = WaitOrder { device, list: &[(fence, value)], any: false, event: None };
        self.wait_from_cpu(at, process, &order)
    }

    /// Waits, on a client's thread, until a wait is over.
    fn await_thread(&self, at: &mut Passive, number: Id<Await>) -> Result<(), Refused> {
        loop {
            let (ticket, about) = {
                let world = &mut *self.world.hold();
                // It is gone if its device or its process has ended.
                let Some(it) = world.sync.awaits.get(number) else { return Err(Refused::Stuck) };
                let gone = Refused::Removed(it.device.subject());
                if let Some(over) = it.over {
                    world.sync.awaits.take(number);
                    return if over == Over::Passed { Ok(()) } else { Err(gone) };
                }
                let about = it.marks.list.first().map_or(number.subject(), |it| it.0.subject());
                let ticket = Ticket::of_strangers(world.lacks(&it.marks));
                world.waiting.push(ticket.clone());
                (ticket, about)
            };
            if let Woken::Stuck(_) | Woken::Over = self.park(at, about, &ticket) {
                let world = &mut *self.world.hold();
                self.end_await(world, number, Over::Dropped);
                world.sync.awaits.take(number);
                return Err(Refused::Stuck);
            }
        }
    }

    /// Has contexts signal objects when they come to it
    /// (`D3DKMTSignalSynchronizationObjectFromGpu2`).
    pub fn signal_from_gpu(
        &self,
        at: &mut Passive,
        process: ProcessId,
        order: &SignalOrder<'_>,
    ) -> Result<(), Refused> {
        let marks = {
            let world = &mut *self.world.hold();
            let devices = world.devices_named(process, order.contexts)?;
            let (how, event) = (Use::Signal { rewinds: true }, order.event);
            // The caller may name no context: then nothing is signalled.
            let Some(first) = devices.first().copied() else { return Ok(()) };
            for device in devices.iter().skip(1) {
                self.marks(world, process, *device, order.list, how, false)?;
            }
            let mut marks = self.marks(world, process, first, order.list, how, false)?;
            if let Some(event) = event {
                let event = world.event(process.0, event)?;
                marks.list.push((Mark::Object(world.nameless_notice(first, event)), 0));
            }
            if devices.len() > 1 {
                let many = u32::try_from(devices.len()).unwrap_or(u32::MAX);
                marks.broadcast = Some(world.begin_broadcast(many));
            }
            for _ in &devices {
                world.use_marks(&marks);
            }
            marks
        };
        for (place, context) in order.contexts.iter().enumerate() {
            if let Err(why) = self.queue_signal(at, process, *context, marks.clone()) {
                // This one's item and those of the others that come after it are not there.
                let world = &mut *self.world.hold();
                for _ in place..order.contexts.len() {
                    self.drop_marks(world, None, &marks);
                }
                return Err(why);
            }
        }
        Ok(())
    }

    /// Has a context wait for objects, and what comes after in it
    /// (`D3DKMTWaitForSynchronizationObjectFromGpu`).
    pub fn wait_from_gpu(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Handle,
        list: &[(Handle, u64)],
    ) -> Result<(), Refused> {
        let marks = {
            let world = &mut *self.world.hold();
            let device = world.devices_named(process, &[context])?[0];
            let marks = self.marks(world, process, device, list, Use::Wait, false)?;
            world.use_marks(&marks);
            marks
        };
        self.queue_wait(at, process, context, marks.clone()).inspect_err(|_| {
            self.drop_marks(&mut self.world.hold(), None, &marks);
        })
    }

    /// What a client names, if all of it can be used so; `cpu` is for what the CPU can do.
    fn marks(
        &self,
        world: &World,
        process: ProcessId,
        device: Id<Device>,
        list: &[(Handle, u64)],
        how: Use,
        cpu: bool,
    ) -> Result<Marks, Refused> {
        let mut marks = SmallVec::new();
        for (handle, value) in list {
            marks.push((self.mark(world, process, device, (*handle, *value), how, cpu)?, *value));
        }
        Ok(Marks { list: marks, broadcast: None })
    }

    pub(super) fn mark(
        &self,
        world: &World,
        process: ProcessId,
        device: Id<Device>,
        (handle, value): (Handle, u64),
        how: Use,
        cpu: bool,
    ) -> Result<Mark, Refused> {
        let argument = Argument::Fence;
        let number = match world.found(process, argument, handle)? {
            ObjectId::Sync(number) => number,
            // Only paging work signals the fence of a queue.
            ObjectId::QueueFence(queue) if how == Use::Wait => return Ok(Mark::Queue(queue)),
            found => {
                let why = BadHandle::WrongKind(found.subject());
                return Err(Refused::Handle { argument, handle, why });
            }
        };
        let gone = Refused::Handle { argument, handle, why: BadHandle::Unknown };
        let it = world.sync.objects.get(number).ok_or(gone)?;
        self.look_at_value(world, number);
        let subject = number.subject();
        if cpu && !matches!(it.state, State::Monitored { .. }) {
            return Err(Refused::NotMonitored(subject));
        }
        let (what, denied) = match how {
            Use::Signal { .. } => ("signal", it.silent),
            Use::Wait => ("wait", it.deaf),
        };
        let answer = if denied { "denied" } else { "taken" };
        let device = device.subject();
        let asked = What::SyncAsked { device, what: what.into(), answer: answer.into() };
        self.log.emit(subject, asked);
        if denied {
            return Err(Refused::Denied(subject));
        }
        it.allows(value, how).map_err(|current| match current {
            Bound::Back(current) => Refused::Rewinds { sync: subject, value, current },
            Bound::Far(current) => Refused::TooFar { sync: subject, value, current },
        })?;
        Ok(Mark::Object(number))
    }
}

/// What a value breaks, and the current one.
enum Bound {
    Back(u64),
    Far(u64),
}

impl Sync {
    /// Whether a value can be signalled or waited for.
    fn allows(&self, asked: u64, how: Use) -> Result<(), Bound> {
        let State::Monitored { value } = self.state else { return Ok(()) };
        if self.narrow && asked.abs_diff(value) > FAR {
            return Err(Bound::Far(value));
        }
        // WINDOWS: a lower value is refused (observed); that the same one is not is our decision.
        match how {
            Use::Signal { rewinds: false } if asked < value => Err(Bound::Back(value)),
            Use::Signal { .. } | Use::Wait => Ok(()),
        }
    }
}

impl World {
    /// The devices of contexts, which work.
    fn devices_named(
        &self,
        process: ProcessId,
        contexts: &[Handle],
    ) -> Result<Vec<Id<Device>>, Refused> {
        let device = |handle: &Handle| {
            let number = self.resolve::<Context>(process, Argument::Context, *handle)?;
            let device = self.contexts[number].device;
            self.works(device).map(|()| device)
        };
        contexts.iter().map(device).collect()
    }
}
