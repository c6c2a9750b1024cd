//! Packets and fences: what nodes were given, what drivers reported, what has passed.
//!
//! # Invariants
//!
//! 1. The packets of a node have fences that rise by one, and are given under the scheduler's
//!    key. So a fence stands for all before it.
//! 2. A report only records. `settle` turns what was recorded into passed fences.

use crate::context::Context;
use crate::device::Device;
use crate::device::Loss;
use crate::kernel::Kernel;
use crate::memory::Batch;
use crate::memory::resident::{Found, Touched};
use crate::preempt::Preemption;
use crate::recover::Watch;
use crate::saved::Saved;
use crate::start::Adapter;
use crate::start::AdapterId;
use crate::store::Id;
use crate::store::IdList;
use crate::world::World;
use flight::invariant;
use flight::{DeviceLevel, Dispatch, Fence, Kind, Machine, Passive, RuleId, Subject, What, Who};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// So many DPCs without a step of the hardware between them are without end.
const MOST_DPCS: u32 = 1000;

/// What a report is about, nearly always one: a list without the heap.
type Few<T> = SmallVec<[T; 1]>;

/// An engine's queue.
pub(crate) struct Node {
    /// Its number among all nodes, for events.
    pub(crate) number: u32,
    /// The last fence given.
    pub(crate) given: Fence,
    /// The last fence rightly reported.
    pub(crate) reported: Fence,
    /// The last fence passed.
    pub(crate) passed: Fence,
    /// Packets that are not done, in order.
    pub(crate) queue: VecDeque<Flying>,
    /// The context, with its device, whose packet passed last: its engine may still have to save
    /// what it was at.
    pub(crate) current: Option<(Id<Context>, Id<Device>)>,
    /// A switch away from it was asked for.
    pub(crate) switching: bool,
    /// Packets of lost devices: they count as done, but the hardware has them.
    pub(crate) ghosts: VecDeque<Flying>,
    /// What contexts that have ended hold as long as this may save them: context, allocation.
    pub(crate) holding: Vec<(Id<Context>, Id<Saved>)>,
    /// Packets that faulted, with what they touched.
    pub(crate) faults: Vec<(Fence, Touched)>,
    /// It is asked to give back what it has.
    pub(crate) preemption: Option<Preemption>,
    /// The last number of such a request.
    pub(crate) preempted: Fence,
    /// Paging commands that it gave back, and gets again.
    pub(crate) again: VecDeque<Flying>,
    /// Since when what is first there is first.
    pub(crate) watch: Option<Watch>,
    /// Nothing was reported done since the last reset.
    pub(crate) fresh: bool,
    /// Resets in a row that ended nothing, though something did not move.
    pub(crate) vain: u32,
}

/// A packet that is not done.
pub(crate) struct Flying {
    pub(crate) fence: Fence,
    /// The context and the device it is of. None: it is paging work of the kernel's own.
    pub(crate) of: Option<(Id<Context>, Id<Device>)>,
    /// The paging work it does.
    pub(crate) batch: Option<Batch>,
    /// It counts as done since its device is lost.
    pub(crate) lost: bool,
}

impl Flying {
    /// The context it is of, if it is a client's.
    pub(crate) fn context(&self) -> Option<Id<Context>> {
        self.of.map(|(context, _)| context)
    }

    /// The device it is of, if it is a client's.
    pub(crate) fn device(&self) -> Option<Id<Device>> {
        self.of.map(|(_, device)| device)
    }

    /// The context and the device of a client's packet.
    pub(crate) fn client(&self) -> (Id<Context>, Id<Device>) {
        invariant(self.of, "what does no paging work is a packet of a context")
    }
}

/// Work that something waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// All that a node was given, up to this fence.
    Node(usize, Fence),
    /// So many packets of a context.
    Context(Id<Context>, u64),
}

impl Node {
    pub(crate) fn new(number: u32) -> Self {
        let start = Fence(0);
        let queue = VecDeque::new();
        Self {
            number,
            given: start,
            reported: start,
            passed: start,
            queue,
            current: None,
            switching: false,
            ghosts: VecDeque::new(),
            holding: Vec::new(),
            faults: Vec::new(),
            preemption: None,
            preempted: start,
            again: VecDeque::new(),
            watch: None,
            fresh: false,
            vain: 0,
        }
    }

    pub(crate) fn subject(&self) -> Subject {
        Kind::Node.nr(self.number)
    }

    /// Whether it was given that fence, and has not reported it.
    fn has(&self, fence: Fence) -> bool {
        // Fences wrap, so distances are compared and never values. What is in the queue has not
        // passed; it may have been reported.
        let distance = |it: Fence| it.after(self.passed);
        let here = |queue: &VecDeque<Flying>| {
            queue.binary_search_by_key(&distance(fence), |it| distance(it.fence)).is_ok()
        };
        distance(fence) > distance(self.reported)
            && (here(&self.queue) || self.ghosts.iter().any(|it| it.fence == fence))
    }

    /// Whether it has something to do, or was asked for something.
    pub(crate) fn is_busy(&self) -> bool {
        !self.queue.is_empty() || self.preemption.is_some()
    }

    /// Whether it can be given packets now.
    pub(crate) fn takes(&self) -> bool {
        self.preemption.is_none() && self.again.is_empty()
    }

    /// Whether a context is current here, or may become it though it has nothing to do.
    pub(crate) fn may_save(&self, mine: impl Fn(Id<Context>, Id<Device>) -> bool) -> bool {
        self.current.is_some_and(|(context, device)| mine(context, device))
            || self
                .ghosts
                .iter()
                .filter_map(|it| it.of)
                .any(|(context, device)| mine(context, device))
    }

    /// Takes out what was done when the last fence passed, in order.
    fn take_done(&mut self) -> Few<Flying> {
        let mut done = Few::new();
        while self.queue.front().is_some_and(|it| self.passed.covers(it.fence)) {
            done.extend(self.queue.pop_front());
        }
        if !self.ghosts.is_empty() {
            let (over, left): (VecDeque<Flying>, VecDeque<Flying>) =
                std::mem::take(&mut self.ghosts)
                    .into_iter()
                    .partition(|it| self.passed.covers(it.fence));
            self.ghosts = left;
            done.extend(over);
            done.sort_by_key(|it| std::cmp::Reverse(self.passed.after(it.fence)));
        }
        done
    }
}

/// Enters a number in its order, once.
fn note(list: &mut IdList<Device>, number: Id<Device>) {
    if let Err(place) = list.binary_search(&number) {
        list.insert(place, number);
    }
}

impl Kernel {
    /// Records what a driver reports. One that it was not given is said and forgotten.
    pub(crate) fn report(
        &self,
        world: &mut World,
        _at: &mut DeviceLevel,
        adapter: Id<Adapter>,
        node: u32,
        fence: Fence,
    ) {
        // A driver may still report after its adapter has stopped.
        let Some(it) = world.adapters.get_mut(adapter) else { return };
        let nodes = it.nodes.len();
        let Some(node) = it.nodes.get_mut(node as usize) else {
            let said = format!("node {node} reported fence {fence}, but there are {nodes} nodes");
            let place = "DxgkCbNotifyInterrupt.NodeOrdinal";
            self.log.judge(RuleId::KMD_ISR_008, Who::Driver, adapter.subject(), place, Some(said));
            return;
        };
        self.log.emit(node.subject(), What::FenceReported { fence });
        if node.has(fence) {
            (node.reported, node.fresh) = (fence, false);
        }
    }

    /// Records that a packet faulted: it is over, and its device lost.
    pub(crate) fn report_fault(
        &self,
        at: &mut DeviceLevel,
        adapter: Id<Adapter>,
        node: u32,
        fence: Fence,
        touched: Found,
    ) {
        let world = &mut *self.world.hold();
        let touched = world.find_touched(adapter, node as usize, fence, touched);
        let it = world.adapters.get_mut(adapter);
        let it = it.and_then(|it| it.nodes.get_mut(node as usize));
        // Of the kernel's own work, and of what was never given, there is nobody to blame.
        let known =
            |it: &&mut Node| it.queue.iter().any(|it| it.fence == fence && it.batch.is_none());
        if let Some(it) = it.filter(known) {
            it.faults.push((fence, touched));
        }
        self.report(world, at, adapter, node, fence);
    }

    /// Asks for the DPC. Answers whether it was not yet queued.
    pub(crate) fn queue_dpc(&self, adapter: Id<Adapter>) -> bool {
        let mut world = self.world.hold();
        // A driver may still report after its adapter has stopped.
        let Some(it) = world.adapters.get_mut(adapter) else { return false };
        let fresh = it.interrupts.ask() && !it.quiet && it.dpcs < MOST_DPCS;
        self.log.emit(adapter.subject(), What::DpcQueued { fresh });
        if fresh {
            it.dpc = true;
            self.ring(&it.driver.bell);
        }
        fresh
    }

    /// Turns what was reported into passed fences; what waited for them wakes.
    pub(crate) fn settle(&self, _at: &mut Dispatch, adapter: Id<Adapter>) {
        let world = &mut *self.world.hold();
        let mut done: Few<(Subject, Flying)> = Few::new();
        // A driver may still report after its adapter has stopped.
        let Some(it) = world.adapters.get_mut(adapter) else { return };
        it.interrupts.follow_up();
        for node in &mut it.nodes {
            if node.passed == node.reported {
                continue;
            }
            node.passed = node.reported;
            self.log.emit(node.subject(), What::FencePassed { fence: node.passed });
            let subject = node.subject();
            done.extend(node.take_done().into_iter().map(|it| (subject, it)));
        }
        let (mut devices, mut faulted): (IdList<Device>, IdList<Device>) =
            (IdList::new(), IdList::new());
        for (node, mut packet) in done {
            if let Some(batch) = packet.batch.take() {
                if batch.switch {
                    self.switch(world, adapter, node, None);
                }
                self.finish_batch(world, adapter, batch, false);
                continue;
            }
            let (context, device) = packet.client();
            if packet.lost {
                self.switch(world, adapter, node, Some((context, device)));
                continue;
            }
            note(&mut devices, device);
            if self.settle_fault(world, adapter, node, &packet) {
                note(&mut faulted, device);
            }
            self.switch(world, adapter, node, Some((context, device)));
            self.finish_packet(world, node, &packet);
        }
        // Only now: everything that has passed counts as done by itself.
        for device in faulted {
            self.lose(world, device, Loss::PageFault);
        }
        self.finish_refused(world, adapter);
        self.settle_preempted(world, adapter);
        self.settle_offers(world, adapter);
        self.settle_saved(world);
        world.free_late(adapter);
        if world.pages(adapter) {
            self.ring(&self.bell);
        }
        for device in devices {
            let idle = world.retire_ready(device);
            self.start_ending(world, idle);
        }
    }

    /// Whether a packet touched memory that was not there: that ends its device.
    ///
    /// WINDOWS: documented; the engine reset before it is not modelled yet.
    fn settle_fault(
        &self,
        world: &mut World,
        adapter: Id<Adapter>,
        node: Subject,
        packet: &Flying,
    ) -> bool {
        if world.memory(adapter).is_none() {
            return false;
        }
        let nodes = world.adapters.get_mut(adapter).into_iter().flat_map(|it| &mut it.nodes);
        let it = nodes.into_iter().find(|it| it.subject() == node);
        let fault = it.and_then(|it| {
            let place = it.faults.iter().position(|it| it.0 == packet.fence)?;
            Some(it.faults.swap_remove(place).1)
        });
        let (context, device) = packet.client();
        self.judge_fault(world, device, context, fault.as_ref());
        fault.is_some()
    }

    /// A node has another context current: the one before is at rest.
    pub(crate) fn switch(
        &self,
        world: &mut World,
        adapter: Id<Adapter>,
        node: Subject,
        to: Option<(Id<Context>, Id<Device>)>,
    ) {
        let has_memory = world.memory(adapter).is_some();
        let nodes = world.adapters.get_mut(adapter).into_iter().flat_map(|it| &mut it.nodes);
        let Some(it) = nodes.into_iter().find(|it| it.subject() == node) else { return };
        if to.is_none() {
            it.switching = false;
        }
        let before = std::mem::replace(&mut it.current, to);
        if before == to || !has_memory {
            return;
        }
        let held = std::mem::take(&mut it.holding);
        let (kept, held): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|(context, _)| it.may_save(|other, _| other == *context));
        it.holding = kept;
        let to = to.map(|it| it.0.subject());
        self.log.emit(node, What::NodeSwitched { to });
        world.let_go(held.into_iter().map(|it| it.1));
        if let Some((context, _)) = before {
            world.rest_context(adapter, context);
        }
    }

    /// A packet is done, or counts as done.
    pub(crate) fn finish_packet(&self, world: &mut World, node: Subject, packet: &Flying) {
        let (context, _) = packet.client();
        let number = self.finish_sent(world, context);
        let done = What::PacketDone { packet: number, node, fence: packet.fence };
        self.log.emit(context.subject(), done);
        self.signal_behind(world, context);
        self.wake(world);
    }

    /// What a lost device had queued counts as done.
    pub(crate) fn forget_packets(
        &self,
        world: &mut World,
        adapter: Id<Adapter>,
        device: Id<Device>,
    ) {
        let mut done = Vec::new();
        let remembers = world.memory(adapter).is_some();
        for node in world.adapters.get_mut(adapter).into_iter().flat_map(|it| &mut it.nodes) {
            let (mine, others): (VecDeque<Flying>, VecDeque<Flying>) =
                std::mem::take(&mut node.queue)
                    .into_iter()
                    .partition(|it| it.device() == Some(device));
            node.queue = others;
            // The hardware still has them: its engine may save into what their contexts have.
            let ghost = |it: &Flying| Flying { batch: None, lost: true, ..*it };
            node.ghosts.extend(mine.iter().filter(|_| remembers).map(ghost));
            done.extend(mine.into_iter().map(|it| (node.subject(), it)));
        }
        for (node, packet) in done {
            // What it was to signal before that one, it never does.
            let (context, _) = packet.client();
            self.drop_signals(world, context);
            let number = self.finish_sent(world, context);
            let done = What::PacketDone { packet: number, node, fence: packet.fence };
            self.log.emit(context.subject(), done);
        }
        let contexts = world.devices.get(device).map(|it| it.contexts.clone());
        for context in contexts.unwrap_or_default() {
            self.clear_line(world, context);
        }
        self.settle_saved(world);
    }

    /// One turn of an adapter's hardware: a DPC that was asked for, or a step of the machine.
    /// Answers whether it did something.
    pub fn turn(&self, at: &mut Passive, adapter: AdapterId) -> bool {
        let (driver, line, dpc, pressed) = {
            let mut world = self.world.hold();
            let pressed = world.pressure.is_some();
            let Some(it) = world.adapters.get_mut(adapter.0) else { return false };
            let Some(line) = it.line.clone().filter(|_| !it.quiet) else { return false };
            let dpc = std::mem::replace(&mut it.dpc, false);
            it.interrupting += 1; // From here on a stop waits.
            it.dpcs = if dpc {
                it.dpcs.saturating_add(1)
            } else if it.dpcs < MOST_DPCS {
                0
            } else {
                it.dpcs
            };
            if it.dpcs == MOST_DPCS {
                self.judge_endless(adapter);
            }
            (it.driver.clone(), line, dpc, pressed)
        };
        // The hardware has locks of its own: it is asked while the world is not held.
        let busy = dpc || !driver.machine.idle();
        let late = pressed && self.out_of_turn(&driver.machine, dpc, adapter);
        if dpc {
            let _ = driver.dpc(at); // A failed DPC is an event; there is nobody to tell.
        } else if busy && !late {
            driver.machine.step(at, &*line);
        }
        let mut world = self.world.hold();
        if let Some(it) = world.adapters.get_mut(adapter.0) {
            it.interrupting -= 1;
        }
        self.wake(&mut world);
        busy
    }
}

impl Kernel {
    /// Under pressure, says which node's turn it is. Answers whether it is nobody's.
    fn out_of_turn(&self, machine: &Arc<dyn Machine>, dpc: bool, adapter: AdapterId) -> bool {
        if dpc {
            return false;
        }
        let node = {
            let world = &mut *self.world.hold();
            let nodes = world.adapters.get(adapter.0).map_or(0, |it| it.nodes.len());
            let Some(pressure) = &mut world.pressure else { return false };
            pressure.turn(nodes)
        };
        if let Some(node) = node {
            machine.favour(node);
        }
        node.is_none()
    }

    /// A driver that asks for its DPC in its DPC never lets its hardware move. It is not heard
    /// any more.
    fn judge_endless(&self, adapter: AdapterId) {
        let said = format!(
            "the driver's DPC asked for itself {MOST_DPCS} times in a row, and would for ever"
        );
        let (place, about) = ("DxgkDdiDpcRoutine", adapter.subject());
        self.log.judge(RuleId::WT_CRASH_001, Who::Driver, about, place, Some(said));
    }
}

impl World {
    /// Whether a node has a context's registers, or is about to.
    pub(crate) fn is_current(&self, adapter: Id<Adapter>, context: Id<Context>) -> bool {
        let nodes = self.adapters.get(adapter).map(|it| it.nodes.as_slice()).unwrap_or_default();
        nodes.iter().any(|it| it.may_save(|other, _| other == context))
            || self.contexts.get(context).is_some_and(|it| it.flying > 0 || it.inside > 0)
    }

    /// Whether an adapter has paging work that is not built.
    pub(crate) fn pages(&self, adapter: Id<Adapter>) -> bool {
        self.memory(adapter).is_some_and(|it| !it.1.planned.is_empty())
    }
}
