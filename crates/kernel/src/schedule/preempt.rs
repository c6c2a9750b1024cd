//! Preemption: a node gives back the packets it has not started, and gets them again in another
//! order.
//!
//! # Invariants
//!
//! 1. While a preemption of a node is pending, the node gets no packets. A preemption whose report
//!    completes packets is pending until its fence is checked.
//! 2. Packets that a node gives back go to the front of their context's queue. Paging commands are
//!    resubmitted before all other packets, in order and with their fences; client packets get new
//!    fences.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::Driver;
use crate::ddi::operation::SubmitPagingArgs;
use crate::ddi::permit::{DdiPermit, ThreadingLevel};
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::schedule::report::{InFlightPacket, Node};
use crate::state::KernelState;
use flight::{Component, DeviceLevel, EventKind, Fence, Kind, Passive, RuleId, Subject, invariant};
use std::collections::{BTreeMap, VecDeque};

/// Why a node is preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreemptionReason {
    /// A context with a higher priority has a packet.
    Priority,
    /// The node makes no progress.
    TimedOut,
    /// A caller requested it.
    Requested,
}

/// A pending preemption of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preemption {
    pub(crate) fence: Fence,
    why: PreemptionReason,
    /// `DxgkDdiPreemptCommand` was called.
    requested: bool,
    /// The last completed fence, as the driver reported it.
    last: Option<Fence>,
    /// The report completed packets, which `DxgkDdiQueryCurrentFence` has to confirm.
    unchecked: bool,
    /// When the driver was called, all packets were done and reported.
    idle: bool,
}

impl PreemptionReason {
    fn name(self) -> &'static str {
        match self {
            PreemptionReason::Priority => "a context with a higher priority has a packet",
            PreemptionReason::TimedOut => "it makes no progress",
            PreemptionReason::Requested => "the caller requested it",
        }
    }
}

impl Preemption {
    pub(crate) fn new(fence: Fence, why: PreemptionReason) -> Self {
        Self { fence, why, requested: false, last: None, unchecked: false, idle: false }
    }

    /// Entry rule: a driver reports a preemption also if the node had no packets. Called when the
    /// driver had enough time to report.
    pub(crate) fn judge_unreported(&self, log: &flight::Log, adapter: Id<Adapter>, node: Subject) {
        if self.requested && self.idle && self.last.is_none() {
            let message = format!(
                "{node} was preempted with fence {} when all its packets were completed and \
                 reported, but its driver has not reported the preemption",
                self.fence
            );
            let place = "DxgkDdiPreemptCommand";
            log.judge(
                RuleId::KMD_PREEMPT_002,
                Component::Driver,
                adapter.subject(),
                place,
                Some(message),
            );
        }
    }
}

impl Node {
    /// Whether its driver has reported that the node was preempted, and the report is checked.
    #[inline]
    pub(crate) fn is_preempted(&self) -> bool {
        self.preemption.is_some_and(|preemption| preemption.last.is_some() && !preemption.unchecked)
    }
}

impl Kernel {
    /// Preempts a node, also an idle one, if its driver supports preemption.
    ///
    /// WINDOWS: the scheduler preempts at any time (documented).
    pub fn preempt_node(&self, adapter: crate::adapter::start::AdapterId, node: usize) {
        let state = &mut *self.state.lock();
        let it = state
            .adapters
            .get_mut(adapter.0)
            .filter(|adapter| adapter.is_running() && adapter.scheduling.preempts);
        // The host may pass an adapter that does not run or a node that does not exist.
        let Some(node) = it.and_then(|adapter| adapter.nodes.get_mut(node)) else { return };
        if node.preemption.is_none() {
            node.preempted = node.preempted.next();
            node.preemption = Some(Preemption::new(node.preempted, PreemptionReason::Requested));
            self.wake_one(&self.work_available);
        }
    }

    /// Queues a preemption of a node, if the node has packets and its driver supports preemption.
    pub(crate) fn request_preemption(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        node: usize,
        why: PreemptionReason,
    ) {
        // The driver may not support preemption, and the adapter may have stopped.
        let Some(it) =
            state.adapters.get_mut(adapter).filter(|adapter| adapter.scheduling.preempts)
        else {
            return;
        };
        // A stopped adapter has no nodes.
        let Some(node) = it.nodes.get_mut(node) else { return };
        if node.preemption.is_some() || node.queue.is_empty() {
            return;
        }
        node.preempted = node.preempted.next();
        node.preemption = Some(Preemption::new(node.preempted, why));
        self.wake_one(&self.work_available);
    }

    /// Preempts the context's node if packets of a lower priority are ahead of the context's new
    /// packet.
    #[inline]
    pub(crate) fn preempt_for_priority(&self, state: &mut KernelState, context: Id<Context>) {
        if state.schedule.has_priorities {
            self.preempt_lower_priority(state, context);
        }
    }

    fn preempt_lower_priority(&self, state: &mut KernelState, context: Id<Context>) {
        let it = &state.contexts[context];
        let (node, priority, device) = (it.node, it.queue.priority, it.device);
        let adapter = state.devices[device].adapter;
        let queue = state.adapters.get(adapter).and_then(|adapter| adapter.nodes.get(node));
        // The front packet may already run.
        let waits = queue.into_iter().flat_map(|node| node.queue.iter().skip(1));
        let less = |in_flight_packet: &InFlightPacket| {
            in_flight_packet
                .context()
                .is_some_and(|context| state.contexts[context].queue.priority < priority)
        };
        if waits.filter(|in_flight_packet| in_flight_packet.batch.is_none()).any(less) {
            self.request_preemption(state, adapter, node, PreemptionReason::Priority);
        }
    }

    /// Calls a driver to preempt a node, or resubmits the paging commands that a node gave back.
    /// Returns whether it did either.
    pub(crate) fn try_preempt(&self, at: &mut Passive) -> bool {
        let preemptions = {
            let state = &mut *self.state.lock();
            state.schedule.held_back = false;
            state.preemptions()
        };
        preemptions.into_iter().any(|(adapter, node)| self.preempt(at, adapter, node))
    }

    fn preempt(&self, at: &mut Passive, adapter: Id<Adapter>, index: usize) -> bool {
        let permit; // Declared before the state guard, so that it is dropped after the guard.
        let (driver, requested) = {
            let state = &mut *self.state.lock();
            // The adapter may have been removed since the nodes were listed.
            let Some(driver) = state.adapters.get(adapter).map(|adapter| adapter.driver.clone())
            else {
                return false;
            };
            let keys = ThreadingLevel::OneScheduler.keys(adapter, driver.generation, None);
            let Some(taken) = self.try_acquire_work_permit(state, adapter, keys) else {
                state.schedule.held_back = true;
                return false;
            };
            permit = taken;
            // A stopped adapter has no nodes.
            let Some(node) = state.adapters[adapter].nodes.get_mut(index) else { return false };
            let subject = node.subject();
            let idle = node.queue.is_empty() && node.lost_packets.is_empty();
            let requested =
                node.preemption.as_mut().filter(|preemption| !preemption.requested).map(|it| {
                    (it.requested, it.idle) = (true, idle);
                    self.log.emit(subject, || EventKind::NodePreempting {
                        preemption: it.fence,
                        why: it.why.name().into(),
                    });
                    it.fence
                });
            (driver, requested)
        };
        let node = u32::try_from(index).unwrap_or(u32::MAX);
        if let Some(fence) = requested {
            if driver.preempt_command(at, &permit, node, fence).is_err() {
                // WINDOWS: a failure stops the system (observed); here the node keeps its packets,
                // and the returned status is judged.
                let state = &mut *self.state.lock();
                // The adapter may have stopped during the driver call.
                if let Some(it) = state.node_mut(adapter, index) {
                    it.preemption = None;
                }
                self.reopen_node(state, adapter, index);
            }
            return true;
        }
        self.resubmit_paging(at, &driver, &permit, index);
        let state = &mut *self.state.lock();
        self.reopen_node(state, adapter, index);
        true
    }

    /// Resubmits the paging commands that a node gave back, with their previous fences.
    fn resubmit_paging(
        &self,
        at: &mut Passive,
        driver: &Driver,
        permit: &DdiPermit<'_>,
        index: usize,
    ) {
        let adapter = driver.adapter;
        loop {
            let (fence, commands, length, private, switch) = {
                let state = &mut *self.state.lock();
                // The adapter may have stopped during the last driver call.
                let Some(node) = state.node_mut(adapter, index) else { return };
                // Every batch is submitted again.
                let Some(in_flight) = node.resubmit.pop_front() else { return };
                let (subject, fence) = (node.subject(), in_flight.fence);
                let batch =
                    invariant(in_flight.batch.as_ref(), "only paging work waits for resubmission");
                let (commands, private) =
                    batch.buffer.as_ref().map_or((0, Vec::new()), |paging_buffer| {
                        (paging_buffer.run.start, paging_buffer.private.clone())
                    });
                let (length, switch) = (batch.length, batch.switch);
                let paging = batch.paging.subject();
                node.queue.push_back(in_flight);
                node.paging_submitted += 1;
                self.log.emit(subject, || EventKind::PagingSubmitted {
                    paging,
                    fence,
                    bytes: length,
                    switch,
                });
                (fence, commands, length, private, switch)
            };
            let node = u32::try_from(index).unwrap_or(u32::MAX);
            let submission =
                SubmitPagingArgs { node, fence, commands, length, private: &private, switch };
            if driver.submit_paging(at, permit, &submission).is_err() {
                self.fail_batch(adapter, index, fence);
            }
        }
    }

    /// Records that a node was preempted (`DXGK_INTERRUPT_DMA_PREEMPTED`).
    pub(crate) fn report_preempted(
        &self,
        _at: &mut DeviceLevel,
        adapter: Id<Adapter>,
        node: u32,
        preemption: Fence,
        last: Fence,
    ) {
        let state = &mut *self.state.lock();
        let has_query = state.adapters.get(adapter).is_some_and(|adapter| {
            adapter.driver.miniport.entry_points().contains(&"DxgkDdiQueryCurrentFence")
        });
        let Some(it) = state.node_mut(adapter, node as usize) else {
            let message = format!("node {node} was reported as preempted, but does not exist");
            let place = "DxgkCbNotifyInterrupt.NodeOrdinal";
            self.log.judge(
                RuleId::KMD_PREEMPT_003,
                Component::Driver,
                adapter.subject(),
                place,
                Some(message),
            );
            return;
        };
        self.log.emit(it.subject(), || EventKind::NodePreempted { preemption, last });
        let requested = it
            .preemption
            .as_mut()
            .filter(|preemption| preemption.requested && preemption.last.is_none());
        let expected = requested.as_ref().map(|preemption| preemption.fence);
        let idle = requested.is_some_and(|preemption| preemption.idle);
        // The fence must be the last reported one, or one submitted after it.
        let reported = it.reported;
        let given = |in_flight_packet: &InFlightPacket| {
            in_flight_packet.fence == last && !reported.covers(last)
        };
        let done = reported == last || it.queue.iter().any(given);
        let just_reset = it.just_reset && expected == Some(preemption);
        let broken = match expected {
            None => Some(format!(
                "{} was reported as preempted by fence {preemption}, but no preemption was \
                 requested",
                Kind::Node.subject(it.number)
            )),
            Some(fence) if fence != preemption => Some(format!(
                "{} was reported as preempted by fence {preemption}, but the request has fence \
                 {fence}",
                Kind::Node.subject(it.number)
            )),
            // Another rule judges this case.
            Some(_) if just_reset => None,
            Some(_) if !done => Some(format!(
                "{} was reported as preempted after fence {last}, but the last reported fence is \
                 {}, the last submitted is {}",
                Kind::Node.subject(it.number),
                it.reported,
                it.submitted
            )),
            Some(_) => None,
        };
        let right = broken.is_none() && (done || !just_reset);
        let place = "DxgkCbNotifyInterrupt.DmaPreempted";
        self.log.judge(
            RuleId::KMD_PREEMPT_003,
            Component::Driver,
            adapter.subject(),
            place,
            broken,
        );
        if just_reset {
            self.judge_reset_complete(adapter, it, last, place);
        }
        if idle && expected == Some(preemption) {
            let place = "DxgkDdiPreemptCommand";
            self.log.judge(
                RuleId::KMD_PREEMPT_002,
                Component::Driver,
                adapter.subject(),
                place,
                None,
            );
        }
        if expected.is_some() {
            let unchecked = right && !just_reset && last != it.reported && has_query;
            let last = if right { last } else { it.reported };
            it.reported = last;
            if let Some(it) = &mut it.preemption {
                (it.last, it.unchecked) = (Some(last), unchecked);
            }
            if unchecked {
                self.preemption_needs_check(state, adapter, node as usize);
            }
        }
    }

    /// Entry rule: packets that a driver reports as completed with a preemption are completed for
    /// `DxgkDdiQueryCurrentFence`, too. The node gets no packets before.
    ///
    /// WINDOWS: both are the last completed fence (documented); that they are compared is our
    /// decision.
    pub(crate) fn check_preemption(
        &self,
        at: &mut Passive,
        driver: &Driver,
        permit: &DdiPermit<'_>,
        index: usize,
    ) {
        let adapter = driver.adapter;
        let node = u32::try_from(index).unwrap_or(u32::MAX);
        let current = driver.query_current_fence(at, permit, node);
        let state = &mut *self.state.lock();
        // The adapter may have stopped during the driver call.
        let Some(it) = state.node_mut(adapter, index) else { return };
        let subject = it.subject();
        // A reset may have ended the preemption.
        let Some(preemption) = it.preemption.filter(|preemption| preemption.unchecked) else {
            return;
        };
        if let (Ok(current), Some(last)) = (current, preemption.last) {
            let broken = (!current.covers(last)).then(|| {
                format!(
                    "{subject} was reported as preempted after fence {last}, but the driver \
                     returns fence {current} from DxgkDdiQueryCurrentFence: each is the last \
                     completed fence"
                )
            });
            let place = "DxgkCbNotifyInterrupt.DmaPreempted";
            self.log.judge(
                RuleId::KMD_PREEMPT_003,
                Component::Driver,
                adapter.subject(),
                place,
                broken,
            );
        }
        self.end_preemption_check(state, adapter, index);
    }

    /// The report of a preemption is checked, or will not be: the preemption is completed.
    pub(crate) fn end_preemption_check(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        index: usize,
    ) {
        // A stopped adapter has no nodes.
        let Some(it) = state.node_mut(adapter, index) else { return };
        if let Some(preemption) = &mut it.preemption {
            preemption.unchecked = false;
        }
        // Otherwise the DPC completes it.
        if it.passed == it.reported {
            self.complete_preemption(state, adapter);
            self.wake_all(state);
        }
    }

    /// Completes the reported preemptions of an adapter: the packets are queued again.
    #[inline]
    pub(crate) fn complete_preemption(&self, state: &mut KernelState, adapter: Id<Adapter>) {
        let nodes = state.adapters.get(adapter).map(|adapter| adapter.nodes.as_slice());
        if nodes.unwrap_or_default().iter().any(Node::is_preempted) {
            self.requeue_preempted(state, adapter);
        }
    }

    fn requeue_preempted(&self, state: &mut KernelState, adapter: Id<Adapter>) {
        let count = state.adapters.get(adapter).map_or(0, |adapter| adapter.nodes.len());
        for index in 0..count {
            let node = invariant(state.node_mut(adapter, index), "the nodes were just counted");
            if !node.is_preempted() {
                continue;
            }
            node.preemption = None;
            let back = std::mem::take(&mut node.queue);
            // Packets of lost devices that the node still had are never executed.
            let lost = std::mem::take(&mut node.lost_packets);
            let first = back.front().into_iter().chain(lost.front());
            node.interrupted = first.filter_map(|in_flight_packet| in_flight_packet.of).collect();
            self.requeue_packets(state, adapter, index, back);
        }
    }

    /// Puts the packets that a node gave back at the front of their contexts' queues.
    pub(crate) fn requeue_packets(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        index: usize,
        back: VecDeque<InFlightPacket>,
    ) {
        let node = invariant(state.node_mut(adapter, index), "the node just gave packets back");
        let subject = node.subject();
        let mut contexts: BTreeMap<Id<Context>, Vec<Fence>> = BTreeMap::new();
        for in_flight in back {
            if in_flight.batch.is_some() {
                node.resubmit.push_back(in_flight);
            } else {
                contexts.entry(in_flight.client().0).or_default().push(in_flight.fence);
            }
        }
        for (context, fences) in contexts {
            for (packet, fence) in self.requeue_submitted(state, context).into_iter().zip(fences) {
                self.log.emit(context.subject(), || EventKind::PacketReturned {
                    packet,
                    node: subject,
                    fence,
                });
            }
        }
        self.reopen_node(state, adapter, index);
        self.wake_one(&self.work_available);
    }

    /// Entry rule: a reset of the adapter ended everything that its nodes were given.
    pub(crate) fn judge_reset_complete(
        &self,
        adapter: Id<Adapter>,
        node: &Node,
        message: Fence,
        argument: &'static str,
    ) {
        let done = message == node.reported
            || node.queue.iter().any(|in_flight_packet| in_flight_packet.fence == message);
        let broken = (!done).then(|| {
            format!(
                "{} has done fence {message}, the driver says, but everything up to {} was over when \
                 its adapter was reset, and it has reported none since",
                node.subject(),
                node.reported
            )
        });
        self.log.judge(RuleId::KMD_TDR_010, Component::Driver, adapter.subject(), argument, broken);
    }
}

impl KernelState {
    pub(crate) fn node_mut(&mut self, adapter: Id<Adapter>, node: usize) -> Option<&mut Node> {
        self.adapters.get_mut(adapter)?.nodes.get_mut(node)
    }

    /// The nodes whose driver has to be called for a preemption or for a resubmission.
    fn preemptions(&self) -> Vec<(Id<Adapter>, usize)> {
        let mut all = Vec::new();
        for (number, adapter) in self.adapters.iter() {
            // Packets that are about to be lost with a reset are not resubmitted.
            if adapter.fatal || self.is_reset_pending(number) {
                continue;
            }
            for (index, node) in adapter.nodes.iter().enumerate() {
                let asks = node.preemption.is_some_and(|preemption| !preemption.requested);
                let again = node.preemption.is_none() && !node.resubmit.is_empty();
                if asks || again {
                    all.push((number, index));
                }
            }
        }
        all
    }
}
