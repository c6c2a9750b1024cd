//! Packets and fences of nodes: submitted, reported by the driver, and completed.
//!
//! # Invariants
//!
//! 1. Fences of a node's packets increase by one, and are assigned under the scheduler's permit
//!    key. Therefore a fence covers all fences before it.
//! 2. An interrupt report only records a fence. [`Kernel::complete_fences`] completes the recorded
//!    fences.

#![expect(clippy::inline_always, reason = "steps of the path of one packet")]

use crate::adapter::start::Adapter;
use crate::adapter::start::AdapterId;
use crate::adapter::tdr::TimeoutWatch;
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::device::DeviceLoss;
use crate::memory::PagingBatch;
use crate::memory::context_allocation::ContextAllocation;
use crate::memory::fault::{FaultTarget, FaultedAccess};
use crate::schedule::dispatch::PacketCounts;
use crate::schedule::preempt::Preemption;
use crate::state::KernelState;
use flight::{
    Component, DeviceLevel, EventKind, Fence, HardwareModel, Kind, Passive, RuleId, Subject,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of DPCs without a step of the hardware between them that counts as endless.
pub(crate) const MAX_DPCS: u32 = 1000;

/// An engine's queue.
pub(crate) struct Node {
    /// Its number among all nodes, for events.
    pub(crate) number: u32,
    /// The last submitted fence.
    pub(crate) submitted: Fence,
    /// The last correctly reported fence.
    pub(crate) reported: Fence,
    /// The last completed fence.
    pub(crate) passed: Fence,
    /// Packets that are not done, in order.
    pub(crate) queue: VecDeque<InFlightPacket>,
    /// The context, with its device, of the last completed packet. The engine may still have to
    /// save its state.
    pub(crate) current: Option<(Id<Context>, Id<Device>)>,
    /// A switch away from that context is requested.
    pub(crate) switching: bool,
    /// Packets of lost devices: they count as done, but the hardware still holds them.
    pub(crate) lost_packets: VecDeque<InFlightPacket>,
    /// Contexts whose packet may have been interrupted by a preemption: then the engine has
    /// switched to the context, and may still have to save its state.
    pub(crate) interrupted: Vec<(Id<Context>, Id<Device>)>,
    /// Context allocations of ended contexts, held as long as the engine may save state into them.
    pub(crate) held_extents: Vec<(Id<Context>, Id<ContextAllocation>)>,
    /// Packets that faulted, with the access that faulted.
    pub(crate) faults: Vec<(Fence, FaultedAccess)>,
    /// The pending preemption.
    pub(crate) preemption: Option<Preemption>,
    /// The fence of the last preemption request.
    pub(crate) preempted: Fence,
    /// Paging commands that the node gave back, to be resubmitted.
    pub(crate) resubmit: VecDeque<InFlightPacket>,
    /// Timeout detection for the front packet.
    pub(crate) watch: Option<TimeoutWatch>,
    /// No packet was reported as done since the last reset.
    pub(crate) just_reset: bool,
    /// The fences that the node had not reported when its engine was reset last: those after the
    /// first one, up to the second one.
    pub(crate) before_reset: Option<(Fence, Fence)>,
    /// Number of consecutive resets that ended no packet although the node was stalled.
    pub(crate) fruitless_resets: u32,
    /// The last completed fence at the last reset.
    pub(crate) fruitless_since: Fence,
    /// The packets of contexts that have ended.
    pub(crate) ended_packets: PacketCounts,
    /// Paging commands that were submitted, and those of them that were completed.
    pub(crate) paging_submitted: u64,
    pub(crate) paging_completed: u64,
}

/// A packet that is not done.
pub(crate) struct InFlightPacket {
    pub(crate) fence: Fence,
    /// Its context and device; `None` for the kernel's own paging work.
    pub(crate) of: Option<(Id<Context>, Id<Device>)>,
    /// The paging work that it does. Most packets do none, so it is not part of the packet.
    pub(crate) batch: Option<Box<PagingBatch>>,
    /// It counts as done because its device is lost.
    pub(crate) lost: bool,
    /// Its number among the packets of clients that were submitted; 0 for paging work.
    pub(crate) sent: u64,
}

/// Queued work that another operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuePoint {
    /// All packets of a node up to this fence.
    Node(usize, Fence),
    /// The first packets of a context, up to this count.
    Context(Id<Context>, u64),
}

impl Node {
    pub(crate) fn new(number: u32) -> Self {
        let start = Fence(0);
        let queue = VecDeque::new();
        Self {
            number,
            submitted: start,
            reported: start,
            passed: start,
            queue,
            current: None,
            switching: false,
            lost_packets: VecDeque::new(),
            interrupted: Vec::new(),
            held_extents: Vec::new(),
            faults: Vec::new(),
            preemption: None,
            preempted: start,
            resubmit: VecDeque::new(),
            watch: None,
            just_reset: false,
            before_reset: None,
            fruitless_resets: 0,
            fruitless_since: start,
            ended_packets: PacketCounts::default(),
            paging_submitted: 0,
            paging_completed: 0,
        }
    }

    pub(crate) fn subject(&self) -> Subject {
        Kind::Node.subject(self.number)
    }

    /// Whether the fence was submitted and is not reported.
    fn has_in_flight(&self, fence: Fence) -> bool {
        // Fences wrap, so the code compares distances, not values. A packet in the queue is not
        // completed, but may be reported.
        let distance = |fence: Fence| fence.distance_from(self.passed);
        let here = |queue: &VecDeque<InFlightPacket>| {
            // Mostly it is the newest.
            if queue.back().is_some_and(|newest| newest.fence == fence) {
                return true;
            }
            queue
                .binary_search_by_key(&distance(fence), |in_flight_packet| {
                    distance(in_flight_packet.fence)
                })
                .is_ok()
        };
        distance(fence) > distance(self.reported)
            && (here(&self.queue)
                || self.lost_packets.iter().any(|in_flight_packet| in_flight_packet.fence == fence))
    }

    /// Whether the fence is that of a packet that the last reset of the engine has removed.
    fn was_removed_by_reset(&self, fence: Fence) -> bool {
        self.before_reset.is_some_and(|(done, submitted)| {
            fence != done && fence.distance_from(done) <= submitted.distance_from(done)
        }) && !self.has_in_flight(fence)
    }

    /// Whether nothing was ever submitted to the node.
    pub(crate) fn is_unused(&self) -> bool {
        self.submitted == Fence(0)
    }

    /// Whether the node has packets or a pending preemption.
    pub(crate) fn is_busy(&self) -> bool {
        !self.queue.is_empty() || self.preemption.is_some()
    }

    /// Takes out the oldest packet that the completed fence covers.
    #[inline]
    fn take_done(&mut self) -> Option<InFlightPacket> {
        let age = |packet: &InFlightPacket| {
            let covered = self.passed.covers(packet.fence);
            covered.then(|| self.passed.distance_from(packet.fence))
        };
        let queued = self.queue.front().and_then(age);
        // Mostly no device is lost.
        let lost = if self.lost_packets.is_empty() {
            None
        } else {
            let ages = (0..).zip(&self.lost_packets);
            ages.filter_map(|(place, packet)| Some((age(packet)?, place))).max()
        };
        match (queued, lost) {
            (queued, Some((age, place))) if queued.is_none_or(|queued| queued < age) => {
                self.lost_packets.remove(place)
            }
            (Some(_), _) => self.queue.pop_front(),
            (None, _) => None,
        }
    }
}

/// Inserts an id into a sorted list, unless it is in the list.
#[inline]
fn push_distinct(list: &mut Vec<Id<Device>>, number: Id<Device>) {
    if list.last() == Some(&number) {
        return;
    }
    if let Err(place) = list.binary_search(&number) {
        list.insert(place, number);
    }
}

impl Kernel {
    /// Records a fence that a driver reports. A fence that was not submitted is a finding and is
    /// ignored.
    #[inline(always)]
    pub(crate) fn report_fence_of(
        &self,
        it: &mut Adapter,
        _at: &mut DeviceLevel,
        adapter: Id<Adapter>,
        node: u32,
        fence: Fence,
    ) {
        let nodes = it.nodes.len();
        let Some(node) = it.nodes.get_mut(node as usize) else {
            let message =
                format!("node {node} reported fence {fence}, but the adapter has {nodes} nodes");
            let place = "DxgkCbNotifyInterrupt.NodeOrdinal";
            self.log.judge(
                RuleId::KMD_ISR_008,
                Component::Driver,
                adapter.subject(),
                place,
                Some(message),
            );
            return;
        };
        if node.before_reset.is_some() {
            self.judge_after_reset(adapter, node, fence);
        }
        self.log.emit(node.subject(), || EventKind::FenceReported { fence });
        if node.has_in_flight(fence) {
            (node.reported, node.just_reset) = (fence, false);
        }
    }

    /// Entry rule: an engine executes no packet that its reset has removed from the hardware queue.
    fn judge_after_reset(&self, adapter: Id<Adapter>, node: &Node, fence: Fence) {
        let broken = node.was_removed_by_reset(fence).then(|| {
            format!(
                "the driver reports fence {fence} of {} as completed, but the packet was in the \
                 queue of the engine when DxgkDdiResetEngine reset it, so the reset has kept it",
                node.subject()
            )
        });
        let argument = "DxgkDdiResetEngine";
        self.log.judge(RuleId::KMD_TDR_006, Component::Driver, adapter.subject(), argument, broken);
    }

    /// Records that a packet faulted. The packet is over, and its device is lost.
    pub(crate) fn report_fault(
        &self,
        at: &mut DeviceLevel,
        adapter: Id<Adapter>,
        node: u32,
        fence: Fence,
        touched: FaultTarget,
    ) {
        let state = &mut *self.state.lock();
        let index = node as usize;
        let it = state.adapters.get(adapter).and_then(|adapter| adapter.nodes.get(index));
        let packet = it.and_then(|node| {
            let packet = node.queue.iter().find(|packet| packet.fence == fence)?;
            Some((node.subject(), packet))
        });
        // An unknown fence is judged by its own rule.
        let fault = match packet {
            Some((node, InFlightPacket { batch: Some(batch), .. })) => {
                self.judge_paging_fault(node, fence, batch, touched);
                None
            }
            Some((_, packet)) => {
                Some(state.find_faulted_access(adapter, (index, fence), packet, touched))
            }
            None => None,
        };
        let it = state.adapters.get_mut(adapter);
        let it = it.and_then(|adapter| adapter.nodes.get_mut(index));
        if let (Some(it), Some(fault)) = (it, fault) {
            it.faults.push((fence, fault));
        }
        // A driver may still report after its adapter has stopped.
        if let Some(it) = state.adapters.get_mut(adapter) {
            self.report_fence_of(it, at, adapter, node, fence);
        }
    }

    /// Completes all reported fences, and wakes the threads and contexts that wait for them.
    pub(crate) fn complete_fences(&self, state: &mut KernelState, adapter: Id<Adapter>) {
        // A driver may still report after its adapter has stopped.
        let Some(it) = state.adapters.get_mut(adapter) else { return };
        let has_memory = it.memory.is_some();
        let mut done = std::mem::take(&mut state.schedule.completed);
        for node in &mut it.nodes {
            if node.passed == node.reported {
                continue;
            }
            node.passed = node.reported;
            self.log.emit(node.subject(), || EventKind::FencePassed { fence: node.passed });
            while let Some(packet) = node.take_done() {
                node.paging_completed += u64::from(packet.batch.is_some());
                done.push((node.subject(), packet));
            }
        }
        let mut devices = std::mem::take(&mut state.schedule.completed_devices);
        let mut faulted = Vec::new();
        for (node, packet) in &mut done {
            let node = *node;
            if let Some(batch) = packet.batch.take() {
                if batch.switch {
                    self.switch_context(state, adapter, node, None);
                }
                self.complete_batch(state, adapter, *batch, false);
                continue;
            }
            let (context, device) = packet.client();
            if packet.lost {
                self.switch_context(state, adapter, node, Some((context, device)));
                continue;
            }
            push_distinct(&mut devices, device);
            if has_memory && self.complete_faulted(state, adapter, node, packet) {
                push_distinct(&mut faulted, device);
            }
            self.switch_context(state, adapter, node, Some((context, device)));
            self.finish_packet(state, node, packet);
        }
        done.clear();
        state.schedule.completed = done;
        // Only now, so that completed packets end normally.
        for &device in &faulted {
            self.device_lost(state, device, DeviceLoss::PageFault);
        }
        self.complete_failed_batches(state, adapter);
        self.complete_preemption(state, adapter);
        self.complete_offers(state, adapter);
        self.complete_evictions(state, adapter);
        self.complete_context_allocations(state);
        state.free_deferred_buffers(adapter);
        if state.has_unbuilt_paging(adapter) {
            self.wake_one(&self.work_available);
        }
        for &device in &devices {
            self.device_work_passed(state, device);
        }
        devices.clear();
        state.schedule.completed_devices = devices;
    }

    /// Whether a packet accessed memory that was not resident, which loses its device.
    ///
    /// WINDOWS: documented; the engine reset before it is not modelled yet.
    fn complete_faulted(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        node: Subject,
        packet: &InFlightPacket,
    ) -> bool {
        let nodes =
            state.adapters.get_mut(adapter).into_iter().flat_map(|adapter| &mut adapter.nodes);
        let it = nodes.into_iter().find(|found| found.subject() == node);
        let fault = it.and_then(|it| {
            let place = it.faults.iter().position(|pair| pair.0 == packet.fence)?;
            Some(it.faults.swap_remove(place).1)
        });
        let (context, _) = packet.client();
        if fault.is_none() {
            self.notify_packet_finished(state, adapter, packet);
        }
        self.judge_fault(state, context, fault.as_ref());
        fault.is_some()
    }

    /// Ends a packet that is done, or counts as done.
    #[inline(always)]
    pub(crate) fn finish_packet(
        &self,
        state: &mut KernelState,
        node: Subject,
        packet: &InFlightPacket,
    ) {
        let (context, _) = packet.client();
        let number = self.complete_submitted(state, context);
        self.log.emit(context.subject(), || EventKind::PacketDone {
            packet: number,
            node,
            fence: packet.fence,
        });
        self.signal_queued(state, context);
        self.wake_all(state);
    }

    /// Ends all queued packets of a lost device.
    pub(crate) fn forget_packets(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        device: Id<Device>,
    ) {
        let mut done = Vec::new();
        let remembers = state.adapter_memory(adapter).is_some();
        for node in
            state.adapters.get_mut(adapter).into_iter().flat_map(|adapter| &mut adapter.nodes)
        {
            let (mine, others): (VecDeque<InFlightPacket>, VecDeque<InFlightPacket>) =
                std::mem::take(&mut node.queue)
                    .into_iter()
                    .partition(|in_flight_packet| in_flight_packet.device() == Some(device));
            node.queue = others;
            // The hardware still holds the packets: an engine may save state into their contexts'
            // allocations.
            let ghost = |in_flight_packet: &InFlightPacket| InFlightPacket {
                batch: None,
                lost: true,
                ..*in_flight_packet
            };
            node.lost_packets.extend(mine.iter().filter(|_| remembers).map(ghost));
            done.extend(
                mine.into_iter().map(|in_flight_packet| (node.subject(), in_flight_packet)),
            );
        }
        for (node, packet) in done {
            // Signals queued before this packet never happen.
            let (context, _) = packet.client();
            self.drop_signals(state, context);
            let number = self.complete_submitted(state, context);
            if number != 0 {
                state.contexts[context].queue.uncount_completed();
            }
            self.log.emit(context.subject(), || EventKind::PacketDone {
                packet: number,
                node,
                fence: packet.fence,
            });
        }
        let contexts = state.devices.get(device).map(|device| device.contexts.clone());
        for context in contexts.unwrap_or_default() {
            self.clear_queue(state, context);
        }
        self.complete_context_allocations(state);
    }

    /// Runs one turn of an adapter's hardware: a requested DPC, or a step of the hardware model.
    /// Returns whether it did either.
    pub fn run_hardware_turn(&self, at: &mut Passive, adapter: AdapterId) -> bool {
        let (driver, line, dpc, pressed) = {
            let mut state = self.state.lock();
            let pressed = state.memory.pressure_mut().is_some();
            // The host may pass an adapter that is removed or about to stop.
            let Some(it) = state.adapters.get_mut(adapter.0) else { return false };
            let Some(line) = it.interrupt_line.clone().filter(|_| !it.interrupts_disabled) else {
                return false;
            };
            let dpc = std::mem::replace(&mut it.dpc, false);
            it.interrupting += 1; // From here on, a stop waits for this turn.
            it.dpcs = if dpc {
                it.dpcs.saturating_add(1)
            } else if it.dpcs < MAX_DPCS {
                0
            } else {
                it.dpcs
            };
            if it.dpcs == MAX_DPCS {
                self.judge_endless(adapter);
            }
            (it.driver.clone(), line, dpc, pressed)
        };
        // The hardware has its own locks, so it is called without the state lock.
        let busy = dpc || !driver.hardware.idle();
        let late = pressed && self.is_out_of_turn(&driver.hardware, dpc, adapter);
        if dpc {
            // The call itself logs a failure; there is no caller to return it to.
            let _ = driver.dpc_routine(at, self);
        } else if busy && !late {
            driver.hardware.step(at, &*line);
        }
        let mut state = self.state.lock();
        // The adapter is removed if the wait of its stop for this turn could not end.
        if let Some(it) = state.adapters.get_mut(adapter.0) {
            it.interrupting -= 1;
        }
        self.wake_all(&mut state);
        busy
    }
}

impl Kernel {
    /// Under pressure, chooses the node whose turn it is. Returns whether no node has the turn.
    fn is_out_of_turn(
        &self,
        hardware: &Arc<dyn HardwareModel>,
        dpc: bool,
        adapter: AdapterId,
    ) -> bool {
        if dpc {
            return false;
        }
        let node = {
            let state = &mut *self.state.lock();
            let nodes = state.adapters.get(adapter.0).map_or(0, |adapter| adapter.nodes.len());
            // Without pressure, every node has its turn.
            let Some(pressure) = state.memory.pressure_mut() else { return false };
            pressure.preempted_node(nodes)
        };
        if let Some(node) = node {
            hardware.prefer_node(node);
        }
        node.is_none()
    }

    /// Reports a driver that requests its DPC in every DPC, so that its hardware never steps. Its
    /// further requests are ignored.
    fn judge_endless(&self, adapter: AdapterId) {
        let message = format!("the driver's DPC queued itself {MAX_DPCS} times in a row");
        let (place, about) = ("DxgkDdiDpcRoutine", adapter.subject());
        self.log.judge(RuleId::WT_CRASH_001, Component::Driver, about, place, Some(message));
    }
}
