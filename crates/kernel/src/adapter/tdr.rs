//! Timeout detection and recovery (TDR).
//!
//! A node that makes no progress is first queried for its fence, then preempted, then reset. If a
//! node reset does not help, the whole adapter is reset.
//!
//! The host supplies the time ([`Kernel::check_timeouts`]). That call only queues a
//! [`RecoveryAction`]; a job performs the action, because a thread may be inside the driver.
//!
//! # Invariants
//!
//! 1. A node has timed out when the same packet has been at its front for [`TDR_DELAY`].
//! 2. After a reset, no packet from before the reset is on the affected nodes: finished packets are
//!    completed, the others are queued again.

use crate::adapter::start::{Adapter, AdapterId};
use crate::base::id_list::Id;
use crate::ddi::Driver;
use crate::ddi::miniport::{CollectReason, DriverError};
use crate::ddi::permit::{DdiPermit, ThreadingLevel};
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::device::DeviceLoss;
use crate::memory::Owner;
use crate::objects::view::View;
use crate::schedule::preempt::PreemptionReason;
use crate::schedule::report::{InFlightPacket, Node};
use crate::state::KernelState;
use flight::{Component, EventKind, Fence, Passive, RuleId, Subject, invariant};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// How long a node may make no progress, in units of 100 nanoseconds: two seconds.
///
/// WINDOWS: documented as the default of `TdrDelay`.
pub(crate) const TDR_DELAY: u64 = 20_000_000;

/// The period over which adapter resets are counted: one minute, in units of 100 nanoseconds.
const TDR_LIMIT_TIME: u64 = 600_000_000;

/// Number of adapter resets allowed within [`TDR_LIMIT_TIME`]. One more stops the system.
///
/// WINDOWS: documented as the default of `TdrLimitCount`: five are allowed.
const TDR_LIMIT_COUNT: usize = 5;

/// Number of consecutive engine resets without a completed packet after which the adapter is reset.
const MAX_FRUITLESS_RESETS: u32 = 2;

/// Size in bytes of the buffer for a driver's debug report about a reset.
const DEBUG_REPORT_SIZE: usize = 64 << 10;

/// The packet at the front of a node, and since when it has been there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeoutWatch {
    front: Option<Fence>,
    since: u64,
    stage: TimeoutStage,
}

/// The last recovery step taken for a node that has timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeoutStage {
    Watching,
    Preempting,
    Resetting,
}

/// A recovery step for a node that makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecoveryAction {
    /// Query the driver for the node's current fence, then request a preemption.
    QueryFence(Id<Adapter>, usize),
    /// Check the fence that the driver reported with the node's preemption.
    CheckPreemption(Id<Adapter>, usize),
    /// Reset the node.
    ResetNode(Id<Adapter>, usize),
    /// Reset the adapter. The node at fault is given if it is known.
    ResetAdapter(Id<Adapter>, Option<usize>),
}

impl Node {
    /// Returns the watch of a busy node, or `None` if the node is idle. If the front packet has
    /// changed, the watch starts again at `now`.
    fn update_watch(&mut self, now: u64) -> Option<&mut TimeoutWatch> {
        if !self.is_busy() {
            self.watch = None;
            return None;
        }
        let front = self.queue.front().map(|in_flight_packet| in_flight_packet.fence);
        let fresh_watch = TimeoutWatch { front, since: now, stage: TimeoutStage::Watching };
        let watch = self.watch.get_or_insert(fresh_watch);
        if watch.front != front {
            *watch = fresh_watch;
        }
        Some(watch)
    }

    /// Whether the node is busy and its front packet is the one recorded by the last check.
    fn is_stalled(&self) -> bool {
        let front = self.queue.front().map(|in_flight_packet| in_flight_packet.fence);
        self.is_busy() && self.watch.is_some_and(|timeout_watch| timeout_watch.front == front)
    }
}

impl Adapter {
    /// Whether timeouts of its nodes are detected: the adapter runs and has power.
    fn is_watched(&self) -> bool {
        self.is_running() && self.power.is_powered()
    }
}

impl RecoveryAction {
    fn adapter(self) -> Id<Adapter> {
        match self {
            RecoveryAction::QueryFence(it, _)
            | RecoveryAction::CheckPreemption(it, _)
            | RecoveryAction::ResetNode(it, _)
            | RecoveryAction::ResetAdapter(it, _) => it,
        }
    }

    fn is_about(self, adapter: Id<Adapter>, node: usize) -> bool {
        match self {
            RecoveryAction::QueryFence(on, it)
            | RecoveryAction::CheckPreemption(on, it)
            | RecoveryAction::ResetNode(on, it) => (on, it) == (adapter, node),
            RecoveryAction::ResetAdapter(..) => false,
        }
    }
}

impl Kernel {
    /// The time of the next timeout check, or `None` if no node of the adapter needs one.
    pub fn deadline(&self, adapter: AdapterId, now: u64) -> Option<u64> {
        let state = &mut *self.state.lock();
        // An adapter with a pending reset needs no check: the thread that delays the reset may be
        // blocked.
        if state.is_reset_pending(adapter.0) {
            return None;
        }
        // A node with a pending recovery action needs no check either: more time does not help.
        let action = &state.nodes.recoveries;
        let known = |node: usize| {
            action.iter().any(|recovery_action| recovery_action.is_about(adapter.0, node))
        };
        let it = state.adapters.get_mut(adapter.0).filter(|adapter| adapter.is_watched())?;
        let nodes = it.nodes.iter_mut().enumerate().filter(|(node, _)| !known(*node));
        let since = nodes.filter_map(|(_, node)| {
            node.update_watch(now).map(|timeout_watch| timeout_watch.since)
        });
        since.min().map(|value| value.saturating_add(TDR_DELAY))
    }

    /// Queues a recovery action for each node of the adapter that has timed out.
    pub fn check_timeouts(&self, adapter: AdapterId, now: u64) {
        let state = &mut *self.state.lock();
        // The host may pass an adapter that is removed, halted or off: its nodes are not watched.
        let Some(it) = state.adapters.get_mut(adapter.0).filter(|adapter| adapter.is_watched())
        else {
            return;
        };
        let mut action = Vec::new();
        for (index, node) in it.nodes.iter_mut().enumerate() {
            // An idle node has no watch.
            let Some(watch) = node.update_watch(now) else { continue };
            if now.saturating_sub(watch.since) < TDR_DELAY {
                continue;
            }
            let front = watch.front;
            let (next, message) = match watch.stage {
                TimeoutStage::Watching => (RecoveryAction::QueryFence(adapter.0, index), "preempt"),
                TimeoutStage::Preempting => (RecoveryAction::ResetNode(adapter.0, index), "reset"),
                TimeoutStage::Resetting => {
                    (RecoveryAction::ResetAdapter(adapter.0, Some(index)), "reset with all")
                }
            };
            watch.since = now;
            // What was reported long ago completes in a DPC only.
            if it.interrupts.take_unqueued(Some(now.saturating_sub(TDR_DELAY / 2))) {
                it.driver.judge_synchronized(false);
            }
            let fence = front.unwrap_or(node.reported);
            let stage = message.into();
            self.log.emit(node.subject(), || EventKind::NodeTimedOut { fence, stage, now });
            action.push(next);
        }
        for next in action {
            self.request_recovery(state, next);
        }
    }

    /// Queues a recovery action unless it is already queued. An adapter reset covers all nodes, and
    /// wakes the threads that wait for those nodes inside a call, so that they check again.
    pub(crate) fn request_recovery(&self, state: &mut KernelState, action: RecoveryAction) {
        let known = match action {
            RecoveryAction::ResetAdapter(adapter, _) => state.is_reset_pending(adapter),
            RecoveryAction::QueryFence(..)
            | RecoveryAction::CheckPreemption(..)
            | RecoveryAction::ResetNode(..) => state.nodes.recoveries.contains(&action),
        };
        if !known {
            state.nodes.recoveries.push_back(action);
        }
        if matches!(action, RecoveryAction::ResetAdapter(..)) {
            self.wake_all(state);
        }
        self.wake_one(&self.work_available);
    }

    /// Performs one queued recovery action. Returns whether it performed one.
    pub(crate) fn try_recover(&self, at: &mut Passive) -> bool {
        let all = self.state.lock().nodes.recoveries.clone();
        // An action whose permit is taken does not block the other actions.
        all.into_iter().any(|recovery_action| self.recover(at, recovery_action))
    }

    fn recover(&self, at: &mut Passive, action: RecoveryAction) -> bool {
        let permit; // Declared before the state guard, so that it is dropped after the guard.
        let driver = {
            let state = &mut *self.state.lock();
            // Another thread may have taken the action since the list was copied.
            let Some(argument) = state
                .nodes
                .recoveries
                .iter()
                .position(|recovery_action| *recovery_action == action)
            else {
                return false;
            };
            let driver =
                state.adapters.get(action.adapter()).filter(|adapter| adapter.is_running());
            // The adapter may have stopped since the action was queued: nothing is left to recover.
            let Some(driver) = driver.map(|adapter| adapter.driver.clone()) else {
                state.nodes.recoveries.remove(argument);
                if let RecoveryAction::CheckPreemption(adapter, node) = action {
                    self.end_preemption_check(state, adapter, node);
                }
                return true;
            };
            let class = match action {
                RecoveryAction::QueryFence(..)
                | RecoveryAction::CheckPreemption(..)
                | RecoveryAction::ResetNode(..) => ThreadingLevel::OneScheduler,
                // WINDOWS: no other thread is inside the driver (documented).
                RecoveryAction::ResetAdapter(..) => ThreadingLevel::Three,
            };
            let keys = class.keys(driver.adapter, driver.generation, None);
            let taken = self.try_acquire_work_permit(state, action.adapter(), keys);
            // A thread holds the permit: the action stays queued.
            let Some(taken) = taken else { return false };
            permit = taken;
            state.nodes.recoveries.remove(argument);
            driver
        };
        match action {
            RecoveryAction::QueryFence(_, node) => {
                self.query_current_fence(at, &driver, &permit, node);
            }
            RecoveryAction::CheckPreemption(_, node) => {
                self.check_preemption(at, &driver, &permit, node);
            }
            RecoveryAction::ResetNode(_, node) => self.reset_node(at, &driver, &permit, node),
            RecoveryAction::ResetAdapter(_, node) => {
                self.reset_timed_out_adapter(at, &driver, &permit, node);
            }
        }
        // The hardware worker computes the next deadline.
        self.wake_one(&driver.work_available);
        true
    }

    /// Queries the driver for the node's completed fence, because the driver may have missed an
    /// interrupt. Then requests a preemption, or a reset if the node cannot be preempted.
    fn query_current_fence(
        &self,
        at: &mut Passive,
        driver: &Arc<Driver>,
        permit: &DdiPermit<'_>,
        index: usize,
    ) {
        let adapter = driver.adapter;
        let node = u32::try_from(index).unwrap_or(u32::MAX);
        let implements = |name: &str| driver.miniport.entry_points().contains(&name);
        if implements("DxgkDdiQueryCurrentFence")
            && let Ok(message) = driver.query_current_fence(at, permit, node)
        {
            self.judge_current_fence(driver.adapter, index, message);
        }
        let engines = self
            .state
            .lock()
            .adapters
            .get(adapter)
            .is_some_and(|adapter| adapter.scheduling.engine_reset);
        if engines {
            let answered = driver.query_engine_status(at, permit, node);
            self.judge_status(driver.adapter, "DxgkDdiQueryEngineStatus", answered.err());
        }
        let state = &mut *self.state.lock();
        // The adapter may have stopped during the driver calls.
        let Some(it) = state.node_mut(adapter, index) else { return };
        let moved = it.reported != it.passed;
        // A node that became idle meanwhile has no watch.
        let Some(watch) = it.watch.as_mut() else { return };
        watch.stage = TimeoutStage::Preempting;
        if moved {
            return; // The DPC handles the rest, if it arrives.
        }
        let waits = it.preemption.is_some();
        let asks = state.adapters[adapter].scheduling.preempts;
        if asks && !waits {
            self.request_preemption(state, adapter, index, PreemptionReason::TimedOut);
        } else {
            self.request_recovery(state, RecoveryAction::ResetNode(adapter, index));
        }
    }

    /// Entry rule: the driver reported a fence by interrupt before it returns that fence here.
    fn judge_current_fence(&self, adapter: Id<Adapter>, index: usize, message: Fence) {
        let mut state = self.state.lock();
        // The adapter may have stopped during the driver call.
        let Some(adapter_state) = state.adapters.get_mut(adapter) else { return };
        let has_reported = adapter_state.interrupts.has_reported;
        let Some(it) = adapter_state.nodes.get_mut(index) else { return };
        let argument = "DxgkDdiQueryCurrentFence";
        if it.just_reset {
            self.judge_reset_complete(adapter, it, message, argument);
        }
        // The driver may report more fences before this check runs.
        let unreported = !it.just_reset && !it.reported.covers(message);
        if unreported && !has_reported {
            // Nothing is wrong with this DDI: the driver reports no packet at all.
            let first = it.queue.iter().find(|packet| !it.reported.covers(packet.fence));
            let first = first.map_or(message, |packet| packet.fence);
            return self.judge_never_reported(it.subject(), first, true);
        }
        let broken = unreported.then(|| {
            format!(
                "the packet with fence {message} of {} has ended, as the driver returns, but it has \
                 reported only fence {} with DxgkCbNotifyInterrupt, neither before nor in this call \
                 a later one",
                it.subject(),
                it.reported
            )
        });
        self.log.judge(
            RuleId::KMD_PREEMPT_005,
            Component::Driver,
            adapter.subject(),
            argument,
            broken,
        );
    }

    /// Entry rule: these entry points always succeed.
    fn judge_status(
        &self,
        adapter: Id<Adapter>,
        argument: &'static str,
        error: Option<DriverError>,
    ) {
        let broken = error.map(|why| format!("the driver returned {}", why.name()));
        self.log.judge(RuleId::KMD_TDR_011, Component::Driver, adapter.subject(), argument, broken);
    }

    /// Resets a node and the nodes that depend on it.
    fn reset_node(
        &self,
        at: &mut Passive,
        driver: &Arc<Driver>,
        permit: &DdiPermit<'_>,
        index: usize,
    ) {
        let adapter = driver.adapter;
        let count = {
            let state = &mut *self.state.lock();
            // The adapter may have stopped since this was queued.
            let Some(it) = state.adapters.get(adapter) else { return };
            // The node may have made progress while this thread waited for the permit.
            if it.nodes.get(index).is_none_or(|node| !node.is_stalled()) {
                return;
            }
            if !it.scheduling.engine_reset {
                return self
                    .request_recovery(state, RecoveryAction::ResetAdapter(adapter, Some(index)));
            }
            it.nodes.len()
        };
        let node = u32::try_from(index).unwrap_or(u32::MAX);
        let mask = driver.query_dependent_engine_group(at, permit, node);
        self.judge_dependent(driver.adapter, index, &mask);
        let mask = mask.unwrap_or(0) | 1_u64.checked_shl(node).unwrap_or(0);
        for index in (0..count.min(64)).filter(|index| mask >> index & 1 == 1) {
            if !self.call_reset_engine(at, driver, permit, index) {
                return self.request_recovery(
                    &mut self.state.lock(),
                    RecoveryAction::ResetAdapter(adapter, Some(index)),
                );
            }
        }
    }

    /// Entry rule: the set of nodes affected by a node's reset includes the node itself.
    fn judge_dependent(&self, adapter: Id<Adapter>, index: usize, mask: &Result<u64, DriverError>) {
        let broken = match mask {
            Err(why) => Some(format!("the driver returned {}", why.name())),
            Ok(mask) if mask >> (index & 63) & 1 == 0 => Some(format!(
                "the driver returned the mask {mask:#x} for node {index}, which excludes the \
                 node itself"
            )),
            Ok(_) => None,
        };
        let argument = "DxgkDdiQueryDependentEngineGroup";
        self.log.judge(RuleId::KMD_TDR_011, Component::Driver, adapter.subject(), argument, broken);
    }

    /// Resets one engine. Returns whether the reset was enough, so that the adapter needs none.
    fn call_reset_engine(
        &self,
        at: &mut Passive,
        driver: &Arc<Driver>,
        permit: &DdiPermit<'_>,
        index: usize,
    ) -> bool {
        let adapter = driver.adapter;
        let node = u32::try_from(index).unwrap_or(u32::MAX);
        // The adapter may have stopped since its nodes were counted.
        if let Some(it) = self.state.lock().node_mut(adapter, index) {
            it.watch = Some(TimeoutWatch { front: None, since: 0, stage: TimeoutStage::Resetting });
        }
        self.judge_unreported(driver, index);
        // The driver refuses: only an adapter reset is left.
        let Ok(aborted) = driver.reset_engine(at, permit, node) else { return false };
        let remaining = driver.hardware.holds_work(Some(node)) == Some(true);
        let state = &mut *self.state.lock();
        // The adapter may have stopped during the driver call: it needs no reset.
        let Some(it) = state.node_mut(adapter, index) else { return true };
        let (subject, done, given) = (it.subject(), it.reported, it.submitted);
        let right = self.judge_aborted(driver.adapter, it, aborted, remaining);
        let aborted = aborted.filter(|_| right).unwrap_or(given);
        self.log.emit(subject, || EventKind::NodeReset { done, aborted, submitted: given });
        (it.reported, it.passed, it.watch, it.preemption) = (aborted, aborted, None, None);
        it.before_reset = Some((done, given));
        it.lost_packets.clear();
        it.faults.clear();
        let (over, back): (VecDeque<InFlightPacket>, VecDeque<InFlightPacket>) =
            std::mem::take(&mut it.queue)
                .into_iter()
                .partition(|in_flight_packet| aborted.covers(in_flight_packet.fence));
        it.fruitless_resets = match back.front() {
            // Since the last one, a packet was completed.
            Some(_) if over.is_empty() && it.fruitless_since != done => 1,
            Some(_) if over.is_empty() => it.fruitless_resets + 1,
            _ => 0,
        };
        it.fruitless_since = done;
        // The stalled packet is queued again and stalls again: only an adapter reset helps.
        let fruitless_resets = it.fruitless_resets >= MAX_FRUITLESS_RESETS;
        if let Some(first) = back.front().filter(|_| fruitless_resets) {
            self.judge_fruitless(adapter, (subject, it.fruitless_resets), done, first.fence);
        }
        let paging = over.iter().any(|in_flight_packet| in_flight_packet.batch.is_some());
        let mut hit: Vec<Id<Device>> = Vec::new();
        for packet in over {
            if let Some(batch) = &packet.batch {
                for (device, of) in state.owners_of(batch) {
                    let paging = batch.paging.subject();
                    self.log.emit(device.subject(), || EventKind::DevicePagingLost { of, paging });
                    if !hit.contains(&device) {
                        hit.push(device);
                    }
                }
                // The adapter reset that follows needs to find this packet.
                let node = state.node_mut(adapter, index);
                invariant(node, "a node of a running adapter exists").resubmit.push_back(packet);
                continue;
            }
            // A packet that the driver has reported as done completes normally.
            if !done.covers(packet.fence) && !hit.contains(&packet.client().1) {
                hit.push(packet.client().1);
            }
            self.finish_packet(state, subject, &packet);
        }
        self.switch_context(state, adapter, subject, None);
        self.requeue_packets(state, adapter, index, back);
        for device in hit {
            self.mark_lost(state, device, DeviceLoss::TimedOut);
        }
        let idle: BTreeSet<Id<Device>> = state.devices.iter().map(|pair| pair.0).collect();
        for device in idle {
            let ready = state.retire_ready(device);
            self.start_retirements(state, ready);
        }
        self.wake_all(state);
        !paging && !fruitless_resets
    }

    /// Entry rule: after the reset of an engine, its node accepts packets. Here it stalls on each
    /// packet that the reset gave back, and the driver has said each time that it ended none.
    fn judge_fruitless(
        &self,
        adapter: Id<Adapter>,
        (node, resets): (Subject, u32),
        done: Fence,
        first: Fence,
    ) {
        let message = format!(
            "{node} was reset {resets} times one after the other, and made no progress in between: \
             each time DxgkDdiResetEngine returned fence {done}, the last completed one, as the last \
             aborted one, so fence {first} was given back, submitted again, and stalled again"
        );
        let (rule, place) = (RuleId::KMD_TDR_006, "DxgkDdiResetEngine");
        self.log.judge(rule, Component::Driver, adapter.subject(), place, Some(message));
    }

    /// Entry rules: the driver reported every packet that the hardware completed or gave back.
    /// Packets that the hardware still holds break no rule here.
    fn judge_unreported(&self, driver: &Arc<Driver>, index: usize) {
        let holds = driver.hardware.holds_work(Some(u32::try_from(index).unwrap_or(u32::MAX)));
        let mut state = self.state.lock();
        // The adapter may have stopped since this was queued.
        let Some(it) = state.adapters.get_mut(driver.adapter) else { return };
        // A running interrupt routine may be about to report.
        let quiet = it.interrupting == 0 && holds == Some(false);
        let reports = it.interrupts.has_reported || it.nodes.iter().all(Node::is_unused);
        // A stopped adapter has no nodes.
        let Some(node) = it.nodes.get_mut(index) else { return };
        let subject = node.subject();
        // A driver that has reported no packet reports no preemption either.
        if let Some(it) = node.preemption.as_ref().filter(|_| reports) {
            it.judge_unreported(&self.log, driver.adapter, subject);
        }
        // The driver has reported every packet: the rule has nothing to judge.
        let Some(first) = node
            .queue
            .iter()
            .find(|in_flight_packet| !node.reported.covers(in_flight_packet.fence))
        else {
            return;
        };
        let fence = first.fence;
        self.judge_never_reported(subject, fence, quiet);
    }

    /// Entry rule: the driver reports each packet that has ended.
    fn judge_never_reported(&self, node: Subject, fence: Fence, broken: bool) {
        let broken = broken.then(|| {
            format!(
                "the packet with fence {fence} of {node} has ended, but the driver has not reported \
                 it with DxgkCbNotifyInterrupt, neither as completed nor as preempted"
            )
        });
        let argument = "DxgkCbNotifyInterrupt";
        self.log.judge(RuleId::KMD_SUBMIT_008, Component::Driver, node, argument, broken);
    }

    /// Resets an adapter although no node has timed out.
    ///
    /// WINDOWS: a debugger requests this (documented as `D3DKMT_TDRDBGCTRLTYPE_FORCETDR`).
    pub fn force_reset(&self, adapter: AdapterId) {
        let state = &mut *self.state.lock();
        if state.adapters.get(adapter.0).is_some_and(Adapter::is_running) {
            self.request_recovery(state, RecoveryAction::ResetAdapter(adapter.0, None));
        }
    }

    /// Entry rules: the last aborted fence of a reset was submitted, and no work is left after the
    /// reset.
    fn judge_aborted(
        &self,
        adapter: Id<Adapter>,
        node: &Node,
        aborted: Option<Fence>,
        remaining: bool,
    ) -> bool {
        let (done, given) = (node.reported, node.submitted);
        let argument = "DxgkDdiResetEngine.LastAbortedFenceId";
        // Packets of a lost device count as done while the hardware still holds them.
        let mut packets = node.queue.iter().chain(&node.lost_packets);
        if let Some(aborted) = aborted
            && packets.all(|in_flight_packet| done.covers(in_flight_packet.fence))
        {
            let broken = (aborted != done).then(|| {
                format!(
                    "{} was idle when it was reset, but the driver returned {aborted} as the last \
                     aborted fence; the last completed fence is {done}",
                    node.subject()
                )
            });
            self.log.judge(
                RuleId::KMD_TDR_008,
                Component::Driver,
                adapter.subject(),
                argument,
                broken,
            );
        }
        let right =
            aborted.is_some_and(|aborted| aborted.distance_from(done) <= given.distance_from(done));
        let broken = (!right).then(|| {
            let returned = match aborted {
                Some(aborted) => format!("returned {aborted} as the last aborted fence"),
                None => "succeeded without setting LastAbortedFenceId".to_owned(),
            };
            format!(
                "{} was reset, and the driver {returned}; it last completed fence {done}, and was \
                 last submitted fence {given}",
                node.subject()
            )
        });
        self.log.judge(RuleId::KMD_TDR_007, Component::Driver, adapter.subject(), argument, broken);
        let broken = remaining.then(|| {
            format!("the reset of {} has returned, but its engine still has work", node.subject())
        });
        self.log.judge(
            RuleId::KMD_TDR_006,
            Component::Driver,
            adapter.subject(),
            "DxgkDdiResetEngine",
            broken,
        );
        right
    }

    /// Resets an adapter. The permit excludes all other threads from its driver.
    fn reset_timed_out_adapter(
        &self,
        at: &mut Passive,
        driver: &Arc<Driver>,
        permit: &DdiPermit<'_>,
        fault: Option<usize>,
    ) {
        let (adapter, number) = (driver.adapter, driver.adapter);
        let (count, fatal) = {
            let state = &mut *self.state.lock();
            let now = self.host.now();
            // The adapter may have stopped since this was queued.
            let Some(it) = state.adapters.get_mut(number) else { return };
            it.resets.retain(|value| now.saturating_sub(*value) < TDR_LIMIT_TIME);
            it.resets.push(now);
            let count = it.resets.len();
            self.log.emit(adapter.subject(), || EventKind::AdapterReset {
                now,
                count: u32::try_from(count).unwrap_or(u32::MAX),
            });
            (count, count > TDR_LIMIT_COUNT)
        };
        let reason = if fatal { CollectReason::RecoveryFailed } else { CollectReason::Recovery };
        self.collect_debug_info(at, driver, reason);
        if fatal {
            self.stop_system(number, &format!("its GPU was reset {count} times in a minute"));
            return;
        }
        let nodes = self.state.lock().adapters.get(number).map_or(0, |adapter| adapter.nodes.len());
        for node in 0..nodes {
            self.judge_unreported(driver, node);
        }
        let reset = driver.reset_from_timeout(at, permit);
        let remaining = driver.hardware.holds_work(None) == Some(true);
        self.judge_reset(adapter, reset.err(), remaining);
        self.fail_all_work(number, fault);
        self.discard_locations(at, driver, permit);
        let restarted = driver.restart_from_timeout(at, permit);
        let broken =
            restarted.as_ref().err().map(|why| format!("the driver returned {}", why.name()));
        let argument = "DxgkDdiRestartFromTimeout";
        self.log.judge(RuleId::KMD_TDR_005, Component::Driver, adapter.subject(), argument, broken);
        if reset.is_err() || restarted.is_err() {
            // WINDOWS: either failure stops the system (documented).
            self.stop_system(number, "its GPU could not be reset");
            return;
        }
        self.restore_tables(at, permit, driver);
        let state = &mut *self.state.lock();
        self.log.emit(adapter.subject(), || EventKind::AdapterRestarted {});
        for node in 0..nodes {
            self.reopen_node(state, number, node);
        }
        self.wake_one(&self.work_available);
        self.wake_all(state);
    }

    /// Entry rule: after a reset has returned, the GPU accesses no memory.
    fn judge_reset(&self, adapter: Id<Adapter>, error: Option<DriverError>, remaining: bool) {
        let broken = match error {
            Some(why) => Some(format!("the driver returned {}", why.name())),
            None if remaining => {
                Some("the reset has returned, but engines still have work".to_owned())
            }
            None => None,
        };
        let argument = "DxgkDdiResetFromTimeout";
        self.log.judge(RuleId::KMD_TDR_001, Component::Driver, adapter.subject(), argument, broken);
    }

    /// Calls `DxgkDdiCollectDbgInfo`, if the driver implements it.
    fn collect_debug_info(&self, at: &mut Passive, driver: &Arc<Driver>, reason: CollectReason) {
        if !driver.miniport.entry_points().contains(&"DxgkDdiCollectDbgInfo") {
            return;
        }
        let mut notes = vec![0; DEBUG_REPORT_SIZE];
        let wrote = driver.collect_dbg_info(at, reason, &mut notes);
        let broken = wrote.ok().filter(|index| *index > DEBUG_REPORT_SIZE).map(|index| {
            format!("the driver returned {index} bytes for a buffer of {DEBUG_REPORT_SIZE}")
        });
        let argument = "DxgkDdiCollectDbgInfo.BufferSize";
        self.log.judge(
            RuleId::KMD_TDR_012,
            Component::Driver,
            driver.adapter.subject(),
            argument,
            broken,
        );
    }

    /// Fails all work on an adapter after the reset of its GPU.
    fn fail_all_work(&self, adapter: Id<Adapter>, fault: Option<usize>) {
        {
            let state = &mut *self.state.lock();
            // The adapter reset replaces every other pending action for its nodes.
            state.nodes.recoveries.retain(|recovery_action| recovery_action.adapter() != adapter);
            let first = |node| state.node_mut(adapter, node)?.queue.front()?.device();
            let culprit = fault.and_then(first);
            let mine = state.devices.iter().filter(|(_, device)| device.adapter == adapter);
            let devices: Vec<Id<Device>> = mine.map(|(number, _)| number).collect();
            for device in devices {
                let why =
                    if culprit == Some(device) { DeviceLoss::TimedOut } else { DeviceLoss::Reset };
                self.mark_lost(state, device, why);
            }
        }
        self.fail_paging(adapter);
        let planned = {
            let state = &mut *self.state.lock();
            let mut again = Vec::new();
            for node in
                state.adapters.get_mut(adapter).into_iter().flat_map(|adapter| &mut adapter.nodes)
            {
                let (subject, done, given) = (node.subject(), node.reported, node.submitted);
                (node.reported, node.passed, node.just_reset) = (given, given, true);
                (node.watch, node.preemption, node.fruitless_resets) = (None, None, 0);
                node.before_reset = None;
                node.lost_packets.clear();
                node.faults.clear();
                again.extend(
                    std::mem::take(&mut node.resubmit)
                        .into_iter()
                        .filter_map(|in_flight_packet| in_flight_packet.batch),
                );
                self.log.emit(subject, || EventKind::NodeReset {
                    done,
                    aborted: given,
                    submitted: given,
                });
            }
            for batch in again {
                self.complete_batch(state, adapter, *batch, true);
            }
            let nodes = state
                .adapters
                .get(adapter)
                .map(|adapter| adapter.nodes.iter().map(Node::subject).collect::<Vec<_>>());
            for node in nodes.unwrap_or_default() {
                self.switch_context(state, adapter, node, None);
            }
            let memory =
                state.adapters.get_mut(adapter).and_then(|adapter| adapter.memory.as_mut());
            memory.map(|memory| std::mem::take(&mut memory.planned)).unwrap_or_default()
        };
        for paging in planned {
            self.abandon_paging(paging);
        }
        self.complete_context_allocations(&mut self.state.lock());
    }

    /// Stops the system: the adapter accepts no more work.
    fn stop_system(&self, adapter: Id<Adapter>, why: &str) {
        {
            let state = &mut *self.state.lock();
            let subject = adapter.subject();
            self.log.emit(subject, || EventKind::AdapterFatal { why: why.to_owned().into() });
            // The adapter may have been removed during the driver calls.
            if let Some(it) = state.adapters.get_mut(adapter) {
                it.fatal = true;
            }
        }
        self.fail_all_work(adapter, None);
    }
}

impl KernelState {
    /// The devices that have opened an allocation, or own a context, used by the batch's commands.
    fn owners_of(&self, batch: &crate::memory::PagingBatch) -> BTreeSet<(Id<Device>, Subject)> {
        let mut owners = BTreeSet::new();
        for step in &batch.done {
            // The extent may already be destroyed: its adapter stopped.
            let Some(owner) = self.memory.extent(step.extent).map(|extent| extent.owner) else {
                continue;
            };
            match owner {
                Owner::Allocation(_) | Owner::Instance(_) => {
                    let of = self
                        .allocation_of(owner)
                        .and_then(|allocation| self.allocations.get(allocation));
                    let views = of.map(|allocation| allocation.views.iter());
                    let device = |view: &Id<View>| (self.views[*view].device, owner.subject());
                    owners.extend(views.into_iter().flatten().map(device));
                }
                Owner::ContextAllocation(saved) => {
                    owners.insert((self.memory.context_allocation(saved).device, owner.subject()));
                }
                Owner::Table(_) => (),
            }
        }
        owners
    }
}
