//! The lines of contexts: packets, waits and signals in the order their client gave them.
//!
//! # Invariants
//!
//! 1. What a client gave a context happens in that order: a packet is sent when everything
//!    before it was sent and the waits before it have passed; a signal happens when the packets
//!    before it are done.
//! 2. Packets are taken out of a line and sent under the scheduler's key, so that two who send
//!    for one context cannot overtake one another.
//! 3. What was sent stays in `sent` until it is done: what a node gives back goes to the front
//!    of the line, as it was.

mod send;

use crate::context::Context;
use crate::device::Device;
use crate::device::Inside;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::memory::place::Plan;
use crate::miniport::DriverContext;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::render::Listed;
use crate::schedule::Behind;
use crate::start::Adapter;
use crate::store::Id;
use crate::submit::Given;
use crate::sync::Marks;
use crate::world::World;
use flight::{Fence, Passive, What};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a context is to do that is not done.
#[derive(Default)]
pub(crate) struct Waiting {
    /// What was not sent, in order.
    line: VecDeque<Item>,
    /// What was sent and is not done, in order.
    sent: VecDeque<Item>,
    /// How many packets it was ever given.
    pub(crate) queued: u64,
    /// How many of them are over.
    pub(crate) done: u64,
    /// It is among those that may be sent for.
    runnable: bool,
    /// The higher, the sooner.
    pub(crate) priority: i32,
    /// Packets that its driver is to be told of, which will never be sent.
    cancelling: u32,
}

/// One thing in a line.
pub(crate) enum Item {
    Packet(u64, Load),
    Wait(Marks),
    Signal(Marks),
}

/// What a packet carries.
pub(crate) enum Load {
    /// Commands at virtual addresses.
    Virtual(Arc<Given>),
    /// Commands with lists, by its number.
    Listed(Id<Listed>),
}

/// A packet on its way.
struct Sent {
    node: usize,
    fence: Fence,
    word: Arc<DriverContext>,
    load: Load,
}

impl Waiting {
    /// Whether nothing is left to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty() && self.sent.is_empty() && self.cancelling == 0
    }

    /// Whether something waits to be sent.
    pub(crate) fn waits(&self) -> bool {
        !self.line.is_empty()
    }

    fn has_packet_first(&self) -> bool {
        matches!(self.line.front(), Some(Item::Packet(..)))
    }

    /// The packet with lists that is first.
    fn first_listed(&self) -> Option<Id<Listed>> {
        match self.line.front() {
            Some(Item::Packet(_, Load::Listed(it))) => Some(*it),
            _ => None,
        }
    }

    /// What was sent and is not done, if it has no lists: the first, or one behind it.
    pub(crate) fn sent_packet(&self, place: usize) -> Option<Arc<Given>> {
        let load = |it: &Item| match it {
            Item::Packet(_, load) => Some(load.again()),
            Item::Wait(_) | Item::Signal(_) => None,
        };
        match self.sent.iter().filter_map(load).nth(place)? {
            Load::Virtual(it) => Some(it),
            Load::Listed(_) => None,
        }
    }

    /// The wait it stands at.
    pub(crate) fn wait(&self) -> Option<&Marks> {
        match self.line.front() {
            Some(Item::Wait(it)) => Some(it),
            _ => None,
        }
    }
}

impl Load {
    pub(crate) fn again(&self) -> Load {
        match self {
            Load::Virtual(it) => Load::Virtual(it.clone()),
            Load::Listed(it) => Load::Listed(*it),
        }
    }
}

impl Kernel {
    /// Has a context wait before it does what it is given from now on.
    pub(crate) fn queue_wait(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Handle,
        wait: Marks,
    ) -> Result<(), Refused> {
        self.queue_item(at, process, context, Item::Wait(wait))
    }

    /// Has a context signal when it has done what it was given until now.
    pub(crate) fn queue_signal(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Handle,
        signal: Marks,
    ) -> Result<(), Refused> {
        self.queue_item(at, process, context, Item::Signal(signal))
    }

    fn queue_item(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Handle,
        item: Item,
    ) -> Result<(), Refused> {
        self.in_context(at, process, context, |at, number, inside| {
            {
                let world = &mut *self.world.hold();
                world.works(inside.device)?;
                if let Some(it) = world.contexts.get_mut(number) {
                    it.line.line.push_back(item);
                }
                self.settle_line(world, number);
            }
            // The item is in its line. A packet that cannot be sent behind it loses its device:
            // the next call hears of that.
            let _ = self.send(at, process.0, number, inside);
            Ok(())
        })
    }

    /// Does something with a context that cannot go meanwhile.
    pub(crate) fn in_context<T>(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Handle,
        body: impl FnOnce(&mut Passive, Id<Context>, &Inside<'_>) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let (number, inside) = self.enter_context(process, context)?;
        let answer = body(at, number, &inside);
        self.leave_context_call(number, inside);
        answer
    }

    /// Enters a context: it cannot go until its caller leaves.
    pub(crate) fn enter_context(
        &self,
        process: ProcessId,
        context: Handle,
    ) -> Result<(Id<Context>, Inside<'_>), Refused> {
        let mut world = self.world.hold();
        let number = world.resolve::<Context>(process, Argument::Context, context)?;
        let device = world.contexts[number].device;
        let inside = self.inside(&mut world, device)?;
        if let Some(it) = world.contexts.get_mut(number) {
            it.inside += 1;
        }
        Ok((number, inside))
    }

    /// Leaves what [`Kernel::enter_context`] entered.
    pub(crate) fn leave_context_call(&self, number: Id<Context>, inside: Inside<'_>) {
        let mut world = self.world.hold();
        if let Some(it) = world.contexts.get_mut(number) {
            it.inside -= 1;
        }
        world.rest_context(inside.adapter, number);
        self.wake(&mut world);
        inside.leave(&mut world);
    }

    /// Puts a packet at the end of a context's line. What its engine saves into is on its way
    /// from here on.
    pub(crate) fn queue_packet(
        &self,
        number: Id<Context>,
        inside: &Inside<'_>,
        load: Load,
    ) -> Result<(), Refused> {
        let world = &mut *self.world.hold();
        self.may_queue(world, number, inside, &load)?;
        self.put_packet(world, number, load);
        Ok(())
    }

    /// Whether a packet can be put in a context's line, which has then what it saves into.
    pub(crate) fn may_queue(
        &self,
        world: &mut World,
        number: Id<Context>,
        inside: &Inside<'_>,
        load: &Load,
    ) -> Result<(), Refused> {
        // Who parked looks again.
        world.works(inside.device)?;
        let gone = Refused::Removed(inside.subject());
        let it = world.contexts.get(number).ok_or(gone)?;
        match (load, &it.lists) {
            (Load::Virtual(_), Some(_)) => return Err(Refused::HasLists(number.subject())),
            (Load::Listed(_), None) => return Err(Refused::NoLists(number.subject())),
            (Load::Virtual(given), None) => {
                let (bytes, most) = (given.packet.private.len(), it.private);
                if bytes > most as usize {
                    return Err(Refused::LongPrivate { bytes, most });
                }
            }
            (Load::Listed(_), Some(_)) => (),
        }
        self.plan_saved(world, inside.adapter, number)
    }

    /// Puts a packet at the end of a context's line.
    pub(crate) fn put_packet(&self, world: &mut World, number: Id<Context>, load: Load) {
        let it = &mut world.contexts[number];
        it.line.queued += 1;
        it.flying += 1;
        let (packet, first) = (it.line.queued, it.flying == 1);
        it.line.line.push_back(Item::Packet(packet, load));
        if first {
            world.note_busy(number);
        }
        self.log.emit(number.subject(), What::PacketQueued { packet });
        self.settle_line(world, number);
        self.give_way(world, number);
    }

    /// Changes how important a context is (`D3DKMTSetContextSchedulingPriority`).
    pub fn set_priority(
        &self,
        process: ProcessId,
        context: Handle,
        priority: i32,
    ) -> Result<(), Refused> {
        let world = &mut *self.world.hold();
        let number = world.resolve::<Context>(process, Argument::Context, context)?;
        if let Some(it) = world.contexts.get_mut(number) {
            it.line.priority = priority;
        }
        Ok(())
    }

    /// How important a context is (`D3DKMTGetContextSchedulingPriority`).
    pub fn priority(&self, process: ProcessId, context: Handle) -> Result<i32, Refused> {
        let world = self.world.hold();
        let number = world.resolve::<Context>(process, Argument::Context, context)?;
        Ok(world.contexts.get(number).map_or(0, |it| it.line.priority))
    }

    /// How many packets of a context are not over.
    pub fn unfinished(&self, process: ProcessId, context: Handle) -> Result<u32, Refused> {
        let world = self.world.hold();
        let number = world.resolve::<Context>(process, Argument::Context, context)?;
        Ok(world.contexts.get(number).map_or(0, |it| it.flying))
    }

    /// A packet is over, or will never be sent.
    fn end_load(&self, world: &mut World, load: &Load) {
        if let Load::Listed(packet) = load {
            self.end_listed(world, *packet);
        }
    }

    /// Plans that everything a context saves into is there, and holds it.
    fn plan_saved(
        &self,
        world: &mut World,
        adapter: Id<Adapter>,
        context: Id<Context>,
    ) -> Result<(), Refused> {
        let wanted = world.saved_for(context);
        if wanted.is_empty() {
            return Ok(());
        }
        let mut plan = Plan::default();
        for (number, extent) in wanted {
            let fresh = world.contexts.get_mut(context).is_some_and(|it| {
                let fresh = !it.holding.contains(&number);
                if fresh {
                    it.holding.push(number);
                }
                fresh
            });
            if fresh {
                world.hold_extent(extent, true);
            }
            if let Err(why) = self.plan_in(world, extent, &mut plan) {
                self.unplan(world, &mut plan);
                self.start_paging(world, adapter, plan, None);
                return Err(Refused::NoRoom { trim: why.missing });
            }
        }
        self.start_paging(world, adapter, plan, None);
        Ok(())
    }

    /// Goes over what a context can do without its driver. Answers whether a packet is first
    /// then.
    fn settle_line(&self, world: &mut World, context: Id<Context>) -> bool {
        loop {
            // A context that was to go on may have ended meanwhile.
            let Some(it) = world.contexts.get_mut(context) else { return false };
            match it.line.line.pop_front() {
                None => return false,
                Some(item @ Item::Packet(..)) => {
                    it.line.line.push_front(item);
                    return true;
                }
                Some(Item::Signal(marks)) if it.line.sent.is_empty() => {
                    self.signal_marks(world, context, &marks);
                }
                Some(item @ Item::Signal(_)) => it.line.sent.push_back(item),
                Some(Item::Wait(marks)) => {
                    if !self.try_pass(world, context, &marks) {
                        if let Some(it) = world.contexts.get_mut(context) {
                            it.line.line.push_front(Item::Wait(marks));
                        }
                        return false;
                    }
                }
            }
        }
    }

    /// What a context waited for may be there: it goes on, if it can.
    ///
    /// One that goes on may signal what others wait for, and so on: they go on one after the
    /// other, not inside one another.
    pub(crate) fn advance(&self, world: &mut World, context: Id<Context>) {
        world.advancing.push(context);
        if world.advancing.len() > 1 {
            return;
        }
        let mut next = 0;
        while let Some(context) = world.advancing.get(next).copied() {
            if self.settle_line(world, context) {
                self.make_runnable(world, context);
            }
            next += 1;
        }
        world.advancing.clear();
        self.wake(world);
    }

    /// Has somebody send what is first in a context's line.
    fn make_runnable(&self, world: &mut World, context: Id<Context>) {
        // A context that was to go on may have ended meanwhile.
        let Some(it) = world.contexts.get_mut(context) else { return };
        if !std::mem::replace(&mut it.line.runnable, true) {
            world.runnable.push(context);
        }
        self.ring(&self.bell);
    }

    /// Contexts of a node may be sent for again.
    pub(crate) fn reopen_node(&self, world: &mut World, adapter: Id<Adapter>, node: usize) {
        let on =
            |device: Id<Device>| world.devices.get(device).is_some_and(|it| it.adapter == adapter);
        let waits = |it: &Context| it.node == node && it.line.has_packet_first();
        for context in world.contexts.select(|it| waits(it) && on(it.device)) {
            self.make_runnable(world, context);
        }
    }

    /// The first packet that a context sent is done, or counts as done: what comes behind it
    /// happens.
    pub(crate) fn finish_sent(&self, world: &mut World, context: Id<Context>) -> u64 {
        let it = &mut world.contexts[context];
        let (number, listed) = match it.line.sent.pop_front() {
            Some(Item::Packet(number, Load::Listed(listed))) => (number, Some(listed)),
            Some(Item::Packet(number, _)) => (number, None),
            // Its device was lost, and it counts as done already.
            _ => return 0,
        };
        it.line.done += 1;
        it.flying -= 1;
        if it.flying == 0 {
            world.note_busy(context);
        }
        if let Some(listed) = listed {
            self.end_listed(world, listed);
        }
        number
    }

    /// Signals that come right behind what counts as done, of a lost device: they never happen.
    pub(crate) fn drop_signals(&self, world: &mut World, context: Id<Context>) {
        while let Some(it) = world.contexts.get_mut(context)
            && let Some(Item::Signal(_)) = it.line.sent.front()
        {
            if let Some(Item::Signal(marks)) = it.line.sent.pop_front() {
                self.drop_marks(world, Some(context), &marks);
            }
        }
    }

    /// Signals that come right behind what is done.
    pub(crate) fn signal_behind(&self, world: &mut World, context: Id<Context>) {
        while let Some(it) = world.contexts.get_mut(context)
            && let Some(Item::Signal(_)) = it.line.sent.front()
        {
            if let Some(Item::Signal(marks)) = it.line.sent.pop_front() {
                self.signal_marks(world, context, &marks);
            }
        }
        // A wait may stand first, or a signal that nothing is before any more.
        if world.contexts.get(context).is_some_and(|it| it.line.waits()) {
            self.advance(world, context);
        }
    }

    /// A node gave back what it has of a context: it is first in line again.
    /// Answers the packets among it.
    pub(crate) fn return_sent(&self, world: &mut World, context: Id<Context>) -> Vec<u64> {
        let it = &mut world.contexts[context];
        let number =
            |it: &Item| if let Item::Packet(number, _) = it { Some(*number) } else { None };
        let packets = it.line.sent.iter().filter_map(number).collect();
        while let Some(item) = it.line.sent.pop_back() {
            it.line.line.push_front(item);
        }
        self.make_runnable(world, context);
        packets
    }

    /// A context's device is lost: what it was to do is over. Packets that never were sent are
    /// cancelled.
    pub(crate) fn clear_line(&self, world: &mut World, context: Id<Context>) {
        let it = &mut world.contexts[context];
        let sent = std::mem::take(&mut it.line.sent);
        let line = std::mem::take(&mut it.line.line);
        it.line.done = it.line.queued;
        it.flying = 0;
        world.note_busy(context);
        for item in sent {
            match item {
                Item::Wait(marks) | Item::Signal(marks) => {
                    self.drop_marks(world, Some(context), &marks);
                }
                Item::Packet(_, load) => self.end_load(world, &load),
            }
        }
        let device = world.contexts[context].device;
        let adapter = world.devices.get(device).and_then(|it| world.adapters.get(it.adapter));
        let cancels = adapter.is_some_and(|it| it.scheduling.cancels && it.runs());
        for item in line {
            match item {
                Item::Packet(packet, load) => {
                    self.log.emit(context.subject(), What::PacketCancelled { packet });
                    if cancels {
                        if let Some(it) = world.contexts.get_mut(context) {
                            it.line.cancelling += 1;
                        }
                        world.cancelled.push_back((context, load));
                        self.ring(&self.bell);
                    } else {
                        self.end_load(world, &load);
                    }
                }
                Item::Wait(marks) | Item::Signal(marks) => {
                    self.drop_marks(world, Some(context), &marks);
                }
            }
        }
    }
}

impl World {
    /// What a device has queued that is not over.
    pub(crate) fn outstanding(&self, device: Id<Device>) -> Vec<Behind> {
        let it = &self.devices[device];
        let behind = |context: &Id<Context>| {
            Some(Behind::Context(*context, self.contexts.get(*context)?.line.queued))
        };
        it.busy.iter().filter_map(behind).collect()
    }

    /// A context has packets that are not over, or not any more.
    fn note_busy(&mut self, context: Id<Context>) {
        let it = &self.contexts[context];
        let (busy, device) = (it.flying > 0, it.device);
        let it = &mut self.devices[device];
        match it.busy.binary_search(&context) {
            Err(place) if busy => it.busy.insert(place, context),
            Ok(place) if !busy => {
                it.busy.remove(place);
            }
            _ => (),
        }
    }

    /// Whether work is over.
    pub(crate) fn is_over(&self, adapter: Id<Adapter>, work: Behind) -> bool {
        match work {
            Behind::Context(context, packet) => {
                self.contexts.get(context).is_none_or(|it| it.line.done >= packet)
            }
            Behind::Node(node, fence) => {
                let nodes = self.adapters.get(adapter).map(|it| it.nodes.as_slice());
                let Some(it) = nodes.unwrap_or_default().get(node) else { return true };
                it.passed.covers(fence) || it.queue.iter().all(|it| it.fence != fence)
            }
        }
    }

    /// Whether a packet is first in a context's line, and everything it needs is there.
    fn may_send(&self, context: Id<Context>) -> bool {
        self.is_next(context) && self.is_ready(context)
    }

    /// Whether a packet is first in a context's line, what it lists is in place, and its node
    /// takes packets.
    fn is_next(&self, context: Id<Context>) -> bool {
        // A context that was to go on may have ended meanwhile.
        let Some(it) = self.contexts.get(context) else { return false };
        let device = &self.devices[it.device];
        let node = self.adapters.get(device.adapter).and_then(|on| on.nodes.get(it.node));
        it.line.has_packet_first()
            && !it.rooting
            && device.lost.is_none()
            && !self.is_to_be_reset(device.adapter)
            && node.is_some_and(crate::schedule::Node::takes)
            && it.line.first_listed().is_none_or(|it| self.is_placed(it))
    }

    /// Those that may be sent for, the most important first.
    fn by_priority(&self) -> Vec<Id<Context>> {
        let mut all = self.runnable.clone();
        all.sort_by_key(|it| {
            let priority = self.contexts.get(*it).map_or(0, |it| it.line.priority);
            std::cmp::Reverse(priority)
        });
        all
    }

    /// A context with nothing to send is not runnable any more.
    fn unless_waits(&mut self, context: Id<Context>) {
        let waits = self.contexts.get_mut(context).is_some_and(|it| {
            it.line.runnable = it.line.has_packet_first();
            it.line.runnable
        });
        if !waits {
            self.runnable.retain(|it| *it != context);
        }
    }

    /// What stands before a context's next packet, in words.
    pub(crate) fn line_waits(&self, context: Id<Context>) -> String {
        let wait = self.contexts.get(context).and_then(|it| it.line.wait());
        wait.map_or(String::new(), |it| {
            format!(" ({} waits for {})", context.subject(), self.lacks(it))
        })
    }
}
