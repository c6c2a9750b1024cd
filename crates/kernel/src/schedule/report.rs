//! Packets and fences: what nodes were given, what drivers reported, what has passed.
//!
//! # Invariants
//!
//! 1. The packets of a node have fences that rise by one, and are given under the scheduler's
//!    key. So a fence stands for all before it.
//! 2. A report only records. `complete_fences` turns what was recorded into passed fences.

use crate::adapter::start::Adapter;
use crate::adapter::start::AdapterId;
use crate::adapter::tdr::TimeoutWatch;
use crate::base::id_list::Id;
use crate::base::id_list::IdList;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::device::DeviceLoss;
use crate::memory::PagingBatch;
use crate::memory::context_allocation::ContextAllocation;
use crate::memory::residency::{FaultTarget, FaultedAccess};
use crate::schedule::preempt::Preemption;
use crate::state::KernelState;
use flight::{
    Component, DeviceLevel, EventKind, Fence, HardwareModel, Kind, Passive, RuleId, Subject,
};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// So many DPCs without a step of the hardware between them are without end.
pub(crate) const MAX_DPCS: u32 = 1000;

/// What a report is about, nearly always one: a list without the heap.
type SmallList<T> = SmallVec<[T; 1]>;

/// An engine's queue.
pub(crate) struct Node {
    /// Its number among all nodes, for events.
    pub(crate) number: u32,
    /// The last fence given.
    pub(crate) submitted: Fence,
    /// The last fence rightly reported.
    pub(crate) reported: Fence,
    /// The last fence passed.
    pub(crate) passed: Fence,
    /// Packets that are not done, in order.
    pub(crate) queue: VecDeque<InFlightPacket>,
    /// The context, with its device, whose packet passed last: its engine may still have to save
    /// what it was at.
    pub(crate) current: Option<(Id<Context>, Id<Device>)>,
    /// A switch away from it was asked for.
    pub(crate) switching: bool,
    /// Packets of lost devices: they count as done, but the hardware has them.
    pub(crate) lost_packets: VecDeque<InFlightPacket>,
    /// What contexts that have ended hold as long as this may save them: context, allocation.
    pub(crate) held_extents: Vec<(Id<Context>, Id<ContextAllocation>)>,
    /// Packets that faulted, with what they touched.
    pub(crate) faults: Vec<(Fence, FaultedAccess)>,
    /// It is asked to give back what it has.
    pub(crate) preemption: Option<Preemption>,
    /// The last number of such a request.
    pub(crate) preempted: Fence,
    /// Paging commands that it gave back, and gets again.
    pub(crate) resubmit: VecDeque<InFlightPacket>,
    /// Since when what is first there is first.
    pub(crate) watch: Option<TimeoutWatch>,
    /// Nothing was reported done since the last reset.
    pub(crate) just_reset: bool,
    /// Resets in a row that ended nothing, though something did not move.
    pub(crate) fruitless_resets: u32,
}

/// A packet that is not done.
pub(crate) struct InFlightPacket {
    pub(crate) fence: Fence,
    /// The context and the device it is of. None: it is paging work of the kernel's own.
    pub(crate) of: Option<(Id<Context>, Id<Device>)>,
    /// The paging work it does.
    pub(crate) batch: Option<PagingBatch>,
    /// It counts as done since its device is lost.
    pub(crate) lost: bool,
}

/// Work that something waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuePoint {
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
            submitted: start,
            reported: start,
            passed: start,
            queue,
            current: None,
            switching: false,
            lost_packets: VecDeque::new(),
            held_extents: Vec::new(),
            faults: Vec::new(),
            preemption: None,
            preempted: start,
            resubmit: VecDeque::new(),
            watch: None,
            just_reset: false,
            fruitless_resets: 0,
        }
    }

    pub(crate) fn subject(&self) -> Subject {
        Kind::Node.subject(self.number)
    }

    /// Whether it was given that fence, and has not reported it.
    fn has_in_flight(&self, fence: Fence) -> bool {
        // Fences wrap, so distances are compared and never values. What is in the queue has not
        // passed; it may have been reported.
        let distance = |fence: Fence| fence.distance_from(self.passed);
        let here = |queue: &VecDeque<InFlightPacket>| {
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

    /// Whether it has something to do, or was asked for something.
    pub(crate) fn is_busy(&self) -> bool {
        !self.queue.is_empty() || self.preemption.is_some()
    }

    /// Takes out what was done when the last fence passed, in order.
    fn take_done(&mut self) -> SmallList<InFlightPacket> {
        let mut done = SmallList::new();
        while self
            .queue
            .front()
            .is_some_and(|in_flight_packet| self.passed.covers(in_flight_packet.fence))
        {
            done.extend(self.queue.pop_front());
        }
        if !self.lost_packets.is_empty() {
            let (over, remaining): (VecDeque<InFlightPacket>, VecDeque<InFlightPacket>) =
                std::mem::take(&mut self.lost_packets)
                    .into_iter()
                    .partition(|in_flight_packet| self.passed.covers(in_flight_packet.fence));
            self.lost_packets = remaining;
            done.extend(over);
            done.sort_by_key(|in_flight_packet| {
                std::cmp::Reverse(self.passed.distance_from(in_flight_packet.fence))
            });
        }
        done
    }
}

/// Enters a number in its order, once.
fn push_distinct(list: &mut IdList<Device>, number: Id<Device>) {
    if let Err(place) = list.binary_search(&number) {
        list.insert(place, number);
    }
}

impl Kernel {
    /// Records what a driver reports. One that it was not given is said and forgotten.
    pub(crate) fn report_fence(
        &self,
        state: &mut KernelState,
        _at: &mut DeviceLevel,
        adapter: Id<Adapter>,
        node: u32,
        fence: Fence,
    ) {
        // A driver may still report after its adapter has stopped.
        let Some(it) = state.adapters.get_mut(adapter) else { return };
        let nodes = it.nodes.len();
        let Some(node) = it.nodes.get_mut(node as usize) else {
            let message =
                format!("node {node} reported fence {fence}, but there are {nodes} nodes");
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
        self.log.emit(node.subject(), EventKind::FenceReported { fence });
        if node.has_in_flight(fence) {
            (node.reported, node.just_reset) = (fence, false);
        }
    }

    /// Records that a packet faulted: it is over, and its device lost.
    pub(crate) fn report_fault(
        &self,
        at: &mut DeviceLevel,
        adapter: Id<Adapter>,
        node: u32,
        fence: Fence,
        touched: FaultTarget,
    ) {
        let state = &mut *self.state.lock();
        let touched = state.find_faulted_access(adapter, node as usize, fence, touched);
        let it = state.adapters.get_mut(adapter);
        let it = it.and_then(|adapter| adapter.nodes.get_mut(node as usize));
        // Of the kernel's own work, and of what was never given, there is nobody to blame.
        let known = |node: &&mut Node| {
            node.queue.iter().any(|in_flight_packet| {
                in_flight_packet.fence == fence && in_flight_packet.batch.is_none()
            })
        };
        if let Some(it) = it.filter(known) {
            it.faults.push((fence, touched));
        }
        self.report_fence(state, at, adapter, node, fence);
    }

    /// Turns what was reported into passed fences; what waited for them wakes.
    pub(crate) fn complete_fences(&self, state: &mut KernelState, adapter: Id<Adapter>) {
        let mut done: SmallList<(Subject, InFlightPacket)> = SmallList::new();
        // A driver may still report after its adapter has stopped.
        let Some(it) = state.adapters.get_mut(adapter) else { return };
        for node in &mut it.nodes {
            if node.passed == node.reported {
                continue;
            }
            node.passed = node.reported;
            self.log.emit(node.subject(), EventKind::FencePassed { fence: node.passed });
            let subject = node.subject();
            done.extend(
                node.take_done().into_iter().map(|in_flight_packet| (subject, in_flight_packet)),
            );
        }
        let (mut devices, mut faulted): (IdList<Device>, IdList<Device>) =
            (IdList::new(), IdList::new());
        for (node, mut packet) in done {
            if let Some(batch) = packet.batch.take() {
                if batch.switch {
                    self.switch_context(state, adapter, node, None);
                }
                self.complete_batch(state, adapter, batch, false);
                continue;
            }
            let (context, device) = packet.client();
            if packet.lost {
                self.switch_context(state, adapter, node, Some((context, device)));
                continue;
            }
            push_distinct(&mut devices, device);
            if self.complete_faulted(state, adapter, node, &packet) {
                push_distinct(&mut faulted, device);
            }
            self.switch_context(state, adapter, node, Some((context, device)));
            self.finish_packet(state, node, &packet);
        }
        // Only now: everything that has passed counts as done by itself.
        for device in faulted {
            self.device_lost(state, device, DeviceLoss::PageFault);
        }
        self.complete_failed_batches(state, adapter);
        self.complete_preemption(state, adapter);
        self.complete_offers(state, adapter);
        self.complete_context_allocations(state);
        state.free_deferred_buffers(adapter);
        if state.has_unbuilt_paging(adapter) {
            self.wake_one(&self.work_available);
        }
        for device in devices {
            self.device_work_passed(state, device);
        }
    }

    /// Whether a packet touched memory that was not there: that ends its device.
    ///
    /// WINDOWS: documented; the engine reset before it is not modelled yet.
    fn complete_faulted(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        node: Subject,
        packet: &InFlightPacket,
    ) -> bool {
        if state.memory(adapter).is_none() {
            return false;
        }
        let nodes = state.adapters.get_mut(adapter).into_iter().flat_map(|it| &mut it.nodes);
        let it = nodes.into_iter().find(|it| it.subject() == node);
        let fault = it.and_then(|it| {
            let place = it.faults.iter().position(|pair| pair.0 == packet.fence)?;
            Some(it.faults.swap_remove(place).1)
        });
        let (context, device) = packet.client();
        self.judge_fault(state, device, context, fault.as_ref());
        fault.is_some()
    }

    /// A packet is done, or counts as done.
    pub(crate) fn finish_packet(
        &self,
        state: &mut KernelState,
        node: Subject,
        packet: &InFlightPacket,
    ) {
        let (context, _) = packet.client();
        let number = self.complete_submitted(state, context);
        let done = EventKind::PacketDone { packet: number, node, fence: packet.fence };
        self.log.emit(context.subject(), done);
        self.signal_queued(state, context);
        self.wake_all(state);
    }

    /// What a lost device had queued counts as done.
    pub(crate) fn forget_packets(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        device: Id<Device>,
    ) {
        let mut done = Vec::new();
        let remembers = state.memory(adapter).is_some();
        for node in state.adapters.get_mut(adapter).into_iter().flat_map(|it| &mut it.nodes) {
            let (mine, others): (VecDeque<InFlightPacket>, VecDeque<InFlightPacket>) =
                std::mem::take(&mut node.queue)
                    .into_iter()
                    .partition(|in_flight_packet| in_flight_packet.device() == Some(device));
            node.queue = others;
            // The hardware still has them: its engine may save into what their contexts have.
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
            // What it was to signal before that one, it never does.
            let (context, _) = packet.client();
            self.drop_signals(state, context);
            let number = self.complete_submitted(state, context);
            let done = EventKind::PacketDone { packet: number, node, fence: packet.fence };
            self.log.emit(context.subject(), done);
        }
        let contexts = state.devices.get(device).map(|device| device.contexts.clone());
        for context in contexts.unwrap_or_default() {
            self.clear_queue(state, context);
        }
        self.complete_context_allocations(state);
    }

    /// One turn of an adapter's hardware: a DPC that was asked for, or a step of the machine.
    /// Answers whether it did something.
    pub fn run_hardware_turn(&self, at: &mut Passive, adapter: AdapterId) -> bool {
        let (driver, line, dpc, pressed) = {
            let mut state = self.state.lock();
            let pressed = state.pressure.is_some();
            let Some(it) = state.adapters.get_mut(adapter.0) else { return false };
            let Some(line) = it.interrupt_line.clone().filter(|_| !it.interrupts_disabled) else {
                return false;
            };
            let dpc = std::mem::replace(&mut it.dpc, false);
            it.interrupting += 1; // From here on a stop waits.
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
        // The hardware has locks of its own: it is asked while the world is not held.
        let busy = dpc || !driver.hardware.idle();
        let late = pressed && self.is_out_of_turn(&driver.hardware, dpc, adapter);
        if dpc {
            let _ = driver.dpc(at); // A failed DPC is an event; there is nobody to tell.
        } else if busy && !late {
            driver.hardware.step(at, &*line);
        }
        let mut state = self.state.lock();
        if let Some(it) = state.adapters.get_mut(adapter.0) {
            it.interrupting -= 1;
        }
        self.wake_all(&mut state);
        busy
    }
}

impl Kernel {
    /// Under pressure, says which node's turn it is. Answers whether it is nobody's.
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
            let Some(pressure) = &mut state.pressure else { return false };
            pressure.preempted_node(nodes)
        };
        if let Some(node) = node {
            hardware.prefer_node(node);
        }
        node.is_none()
    }

    /// A driver that asks for its DPC in its DPC never lets its hardware move. It is not heard
    /// any more.
    fn judge_endless(&self, adapter: AdapterId) {
        let message = format!(
            "the driver's DPC asked for itself {MAX_DPCS} times in a row, and would for ever"
        );
        let (place, about) = ("DxgkDdiDpcRoutine", adapter.subject());
        self.log.judge(RuleId::WT_CRASH_001, Component::Driver, about, place, Some(message));
    }
}
