//! Preemption: a node gives back what it has not begun, and gets it again in another order.
//!
//! # Invariants
//!
//! 1. While a node is asked to give back what it has, it gets nothing.
//! 2. What comes back is first in its context's line. Paging commands go again before anything
//!    else, in order and with the fences they had; packets are given new ones.

use crate::context::Context;
use crate::gate::Class;
use crate::kernel::Kernel;
use crate::operation::PagingSubmission;
use crate::schedule::Flying;
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::{DeviceLevel, Fence, Kind, Passive, RuleId, Subject, What, Who};
use std::collections::{BTreeMap, VecDeque};

/// Why a node is to give back what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// A context that is more important has a packet.
    Priority,
    /// It does not move.
    Late,
    /// Somebody wants it so.
    Wish,
}

/// What a node was asked to give back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preemption {
    pub(crate) fence: Fence,
    why: Why,
    /// The driver was told.
    asked: bool,
    /// The last fence that is done, as the driver reported it.
    last: Option<Fence>,
    /// When the driver was told, everything was done and reported.
    idle: bool,
}

impl Why {
    fn name(self) -> &'static str {
        match self {
            Why::Priority => "a context with a higher priority has a packet",
            Why::Late => "it does not move",
            Why::Wish => "somebody wants it so",
        }
    }
}

impl Preemption {
    pub(crate) fn new(fence: Fence, why: Why) -> Self {
        Self { fence, why, asked: false, last: None, idle: false }
    }

    /// Entry rule: a driver that is told to take back what it has not reports that, too. It had
    /// its time.
    pub(crate) fn judge_unreported(&self, log: &flight::Log, adapter: Id<Adapter>, node: Subject) {
        if self.asked && self.idle && self.last.is_none() {
            let said = format!(
                "{node} was asked with fence {} to give back what it has, when all it was given was \
                 done and reported, and its driver has not reported that it did",
                self.fence
            );
            let place = "DxgkDdiPreemptCommand";
            log.judge(RuleId::KMD_PREEMPT_002, Who::Driver, adapter.subject(), place, Some(said));
        }
    }
}

impl Kernel {
    /// Has a node give back what it has, also if that is nothing, if its driver can.
    ///
    /// WINDOWS: the scheduler does so whenever it likes (documented).
    pub fn preempt_node(&self, adapter: crate::start::AdapterId, node: usize) {
        let world = &mut *self.world.hold();
        let it = world.adapters.get_mut(adapter.0).filter(|it| it.runs() && it.scheduling.preempts);
        let Some(node) = it.and_then(|it| it.nodes.get_mut(node)) else { return };
        if node.preemption.is_none() {
            node.preempted = node.preempted.next();
            node.preemption = Some(Preemption::new(node.preempted, Why::Wish));
            self.ring(&self.bell);
        }
    }

    /// Has a node give back what it has, if it has something and its driver can.
    pub(crate) fn want_preempted(
        &self,
        world: &mut World,
        adapter: Id<Adapter>,
        node: usize,
        why: Why,
    ) {
        let Some(it) = world.adapters.get_mut(adapter).filter(|it| it.scheduling.preempts) else {
            return;
        };
        let Some(node) = it.nodes.get_mut(node) else { return };
        if node.preemption.is_some() || node.queue.is_empty() {
            return;
        }
        node.preempted = node.preempted.next();
        node.preemption = Some(Preemption::new(node.preempted, why));
        self.ring(&self.bell);
    }

    /// A packet was given to a context: who is before it, with less right, gives way.
    pub(crate) fn give_way(&self, world: &mut World, context: Id<Context>) {
        let it = &world.contexts[context];
        let (node, priority, device) = (it.node, it.line.priority, it.device);
        let adapter = world.devices[device].adapter;
        let queue = world.adapters.get(adapter).and_then(|it| it.nodes.get(node));
        // What is first may be under way.
        let behind = queue.into_iter().flat_map(|it| it.queue.iter().skip(1));
        let less = |it: &Flying| {
            it.context().is_some_and(|it| world.contexts[it].line.priority < priority)
        };
        if behind.filter(|it| it.batch.is_none()).any(less) {
            self.want_preempted(world, adapter, node, Why::Priority);
        }
    }

    /// Asks a driver to take back what a node has, or gives it again what came back. Answers
    /// whether it did something.
    pub(crate) fn try_preempt(&self, at: &mut Passive) -> bool {
        let wanted = {
            let world = &mut *self.world.hold();
            world.held_back = false;
            world.preemptions()
        };
        wanted.into_iter().any(|(adapter, node)| self.preempt(at, adapter, node))
    }

    fn preempt(&self, at: &mut Passive, adapter: Id<Adapter>, index: usize) -> bool {
        let pass; // Before the world, so that it is dropped after it.
        let (driver, asked) = {
            let world = &mut *self.world.hold();
            let Some(driver) = world.adapters.get(adapter).map(|it| it.driver.clone()) else {
                return false;
            };
            let keys = Class::Scheduler.keys(adapter, driver.generation, None);
            let Some(taken) = self.try_enter_work(world, adapter, keys) else {
                world.held_back = true;
                return false;
            };
            pass = taken;
            let node = world.adapters.get_mut(adapter).and_then(|it| it.nodes.get_mut(index));
            let Some(node) = node else { return false };
            let subject = node.subject();
            let idle = node.queue.is_empty() && node.ghosts.is_empty();
            let asked = node.preemption.as_mut().filter(|it| !it.asked).map(|it| {
                (it.asked, it.idle) = (true, idle);
                let preempting =
                    What::NodePreempting { preemption: it.fence, why: it.why.name().into() };
                self.log.emit(subject, preempting);
                it.fence
            });
            (driver, asked)
        };
        let node = u32::try_from(index).unwrap_or(u32::MAX);
        if let Some(fence) = asked {
            if driver.preempt(at, &pass, node, fence).is_err() {
                // WINDOWS: a refusal stops the system (observed); here the node keeps what it
                // has, and the answer is judged.
                let world = &mut *self.world.hold();
                if let Some(it) = world.node_mut(adapter, index) {
                    it.preemption = None;
                }
                self.reopen_node(world, adapter, index);
            }
            return true;
        }
        self.page_again(at, &driver, &pass, index);
        let world = &mut *self.world.hold();
        self.reopen_node(world, adapter, index);
        true
    }

    /// Gives a node the paging commands again that it gave back, with the fences they had.
    fn page_again(
        &self,
        at: &mut Passive,
        driver: &crate::ddi::Driver,
        pass: &crate::gate::Pass<'_>,
        index: usize,
    ) {
        let adapter = driver.adapter;
        loop {
            let (fence, commands, length, private, switch) = {
                let world = &mut *self.world.hold();
                let Some(node) = world.node_mut(adapter, index) else { return };
                let Some(flying) = node.again.pop_front() else { return };
                let (subject, fence) = (node.subject(), flying.fence);
                let Some(batch) = &flying.batch else { continue };
                let (commands, private) = batch
                    .buffer
                    .as_ref()
                    .map_or((0, Vec::new()), |it| (it.run.start, it.private.clone()));
                let (length, switch) = (batch.length, batch.switch);
                let paging = batch.paging.subject();
                node.queue.push_back(flying);
                let submitted = What::PagingSubmitted { paging, fence, bytes: length, switch };
                self.log.emit(subject, submitted);
                (fence, commands, length, private, switch)
            };
            let node = u32::try_from(index).unwrap_or(u32::MAX);
            let submission =
                PagingSubmission { node, fence, commands, length, private: &private, switch };
            if driver.submit_paging(at, pass, &submission).is_err() {
                self.refuse_batch(adapter, index, fence);
            }
        }
    }

    /// Records that a node gave back what it had (`DXGK_INTERRUPT_DMA_PREEMPTED`).
    pub(crate) fn report_preempted(
        &self,
        _at: &mut DeviceLevel,
        adapter: Id<Adapter>,
        node: u32,
        preemption: Fence,
        last: Fence,
    ) {
        let world = &mut *self.world.hold();
        let Some(it) = world.node_mut(adapter, node as usize) else {
            let said = format!("node {node} was reported as preempted, and there is no such node");
            let place = "DxgkCbNotifyInterrupt.NodeOrdinal";
            self.log.judge(
                RuleId::KMD_PREEMPT_003,
                Who::Driver,
                adapter.subject(),
                place,
                Some(said),
            );
            return;
        };
        self.log.emit(it.subject(), What::NodePreempted { preemption, last });
        let asked = it.preemption.as_mut().filter(|it| it.asked && it.last.is_none());
        let expected = asked.as_ref().map(|it| it.fence);
        let idle = asked.is_some_and(|it| it.idle);
        // What was reported done, or at most what was given after it.
        let reported = it.reported;
        let given = |it: &Flying| it.fence == last && !reported.covers(last);
        let done = reported == last || it.queue.iter().any(given);
        let fresh = it.fresh && expected == Some(preemption);
        let broken = match expected {
            None => Some(format!(
                "{} was reported as preempted by fence {preemption}, and was not asked for that",
                Kind::Node.nr(it.number)
            )),
            Some(fence) if fence != preemption => Some(format!(
                "{} was reported as preempted by fence {preemption}, and was asked with {fence}",
                Kind::Node.nr(it.number)
            )),
            // This one has a rule of its own.
            Some(_) if fresh => None,
            Some(_) if !done => Some(format!(
                "{} was reported as preempted after fence {last}, and has reported {} and was given up to {}",
                Kind::Node.nr(it.number),
                it.reported,
                it.given
            )),
            Some(_) => None,
        };
        let right = broken.is_none() && (done || !fresh);
        let place = "DxgkCbNotifyInterrupt.DmaPreempted";
        self.log.judge(RuleId::KMD_PREEMPT_003, Who::Driver, adapter.subject(), place, broken);
        if fresh {
            self.judge_fresh(adapter, it, last, place);
        }
        if idle && expected == Some(preemption) {
            let place = "DxgkDdiPreemptCommand";
            self.log.judge(RuleId::KMD_PREEMPT_002, Who::Driver, adapter.subject(), place, None);
        }
        if expected.is_some() {
            let last = if right { last } else { it.reported };
            it.reported = last;
            if let Some(it) = &mut it.preemption {
                it.last = Some(last);
            }
        }
    }

    /// A driver has reported what it took back: it is in line again.
    pub(crate) fn settle_preempted(&self, world: &mut World, adapter: Id<Adapter>) {
        let count = world.adapters.get(adapter).map_or(0, |it| it.nodes.len());
        for index in 0..count {
            let Some(node) = world.node_mut(adapter, index) else { continue };
            if node.preemption.and_then(|it| it.last).is_none() {
                continue;
            }
            node.preemption = None;
            let back = std::mem::take(&mut node.queue);
            self.line_up_again(world, adapter, index, back);
        }
    }

    /// What a node has lost is first in line again.
    pub(crate) fn line_up_again(
        &self,
        world: &mut World,
        adapter: Id<Adapter>,
        index: usize,
        back: VecDeque<Flying>,
    ) {
        let Some(node) = world.node_mut(adapter, index) else { return };
        let subject = node.subject();
        let mut contexts: BTreeMap<Id<Context>, Vec<Fence>> = BTreeMap::new();
        for flying in back {
            if flying.batch.is_some() {
                node.again.push_back(flying);
            } else {
                contexts.entry(flying.client().0).or_default().push(flying.fence);
            }
        }
        for (context, fences) in contexts {
            for (packet, fence) in self.return_sent(world, context).into_iter().zip(fences) {
                let returned = What::PacketReturned { packet, node: subject, fence };
                self.log.emit(context.subject(), returned);
            }
        }
        self.reopen_node(world, adapter, index);
        self.ring(&self.bell);
    }
}

impl World {
    pub(crate) fn node_mut(
        &mut self,
        adapter: Id<Adapter>,
        node: usize,
    ) -> Option<&mut crate::schedule::Node> {
        self.adapters.get_mut(adapter)?.nodes.get_mut(node)
    }

    /// Nodes whose driver has to be asked for what they have, or given it again.
    fn preemptions(&self) -> Vec<(Id<Adapter>, usize)> {
        let mut all = Vec::new();
        for (number, adapter) in self.adapters.iter() {
            // What is lost with its GPU is not given again.
            if adapter.fatal || self.is_to_be_reset(number) {
                continue;
            }
            for (index, node) in adapter.nodes.iter().enumerate() {
                let asks = node.preemption.is_some_and(|it| !it.asked);
                let again = node.preemption.is_none() && !node.again.is_empty();
                if asks || again {
                    all.push((number, index));
                }
            }
        }
        all
    }
}
