//! Context queues: packets, waits and signals in the order their client queued them.
//!
//! # Invariants
//!
//! 1. The items of a context take effect in queue order. A packet is submitted when all items
//!    before it are submitted and all waits before it are satisfied. A signal happens when the
//!    packets before it are done.
//! 2. Packets are taken out of a queue and submitted under the scheduler's permit key, so that two
//!    threads that submit for one context keep the order.
//! 3. A submitted item stays in `submitted` until it is done. An item that a node gives back
//!    returns to the front of the queue unchanged.

#![expect(clippy::inline_always, reason = "steps of the path of one packet")]

mod queue;
mod send;

pub use queue::PacketCounts;
pub(crate) use queue::{ContextQueue, PacketPayload, QueueItem};

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::process::ProcessId;
use crate::memory::place::PagingPlan;
use crate::objects::device_access::{EnteredDevice, RundownGuard};
use crate::objects::handle_table::Handle;
use crate::state::KernelState;
use crate::sync::SyncPoints;
use flight::{EventKind, Passive, internal_error};

impl Kernel {
    /// Has a context wait before it does what it is given from now on.
    pub(crate) fn queue_wait(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Handle,
        wait: SyncPoints,
    ) -> Result<(), KernelError> {
        self.queue_item(at, process, context, QueueItem::Wait(wait))
    }

    /// Has a context signal when it has done what it was given until now.
    pub(crate) fn queue_signal(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Handle,
        signal: SyncPoints,
    ) -> Result<(), KernelError> {
        self.queue_item(at, process, context, QueueItem::Signal(signal))
    }

    fn queue_item(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Handle,
        item: QueueItem,
    ) -> Result<(), KernelError> {
        self.with_context(at, process, context, |at, number, guard| {
            {
                let state = &mut *self.state.lock();
                state.check_working(guard.device)?;
                // The device works, so this call still keeps its context alive.
                state.contexts[number].queue.pending.push_back(item);
                self.advance_queue(state, number);
            }
            // The item is in its line. A packet that cannot be sent behind it loses its device:
            // the next call returns the error.
            let _ = self.submit_ready(at, process.0, number, guard);
            Ok(())
        })
    }

    /// Calls a function with a context that is kept alive during the call.
    pub(crate) fn with_context<T>(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Handle,
        body: impl FnOnce(&mut Passive, Id<Context>, &EnteredDevice) -> Result<T, KernelError>,
    ) -> Result<T, KernelError> {
        let (number, guard) = self.enter_context(process, context)?;
        let result = body(at, number, &guard);
        self.leave_context_call(number, guard);
        result
    }

    /// Enters a context. The context stays alive until [`Kernel::leave_context_call`].
    pub(crate) fn enter_context(
        &self,
        process: ProcessId,
        context: Handle,
    ) -> Result<(Id<Context>, RundownGuard<'_>), KernelError> {
        self.enter_context_locked(&mut self.state.lock(), process, context)
    }

    /// The same, with the state locked.
    #[inline(always)]
    pub(crate) fn enter_context_locked(
        &self,
        state: &mut KernelState,
        process: ProcessId,
        context: Handle,
    ) -> Result<(Id<Context>, RundownGuard<'_>), KernelError> {
        let number = state.resolve_handle::<Context>(process, Argument::Context, context)?;
        let device = state.contexts[number].device;
        let guard = self.acquire_rundown(state, device)?;
        state.contexts[number].active_calls += 1;
        Ok((number, guard))
    }

    /// Leaves what [`Kernel::enter_context`] entered.
    pub(crate) fn leave_context_call(&self, number: Id<Context>, guard: RundownGuard<'_>) {
        Self::leave_context_locked(&mut self.state.lock(), number, guard);
    }

    /// The same, with the state locked.
    #[inline(always)]
    pub(crate) fn leave_context_locked(
        state: &mut KernelState,
        number: Id<Context>,
        guard: RundownGuard<'_>,
    ) {
        // The context is removed already if the wait of its end for this call could not end.
        if let Some(it) = state.contexts.get_mut(number) {
            it.active_calls -= 1;
            if it.holds_extents() {
                state.release_idle_context(guard.adapter, number);
            }
        }
        // It wakes all who wait.
        guard.release(state);
    }

    /// Queues a packet on a context. From here on its context allocations are being paged in.
    pub(crate) fn queue_packet(
        &self,
        number: Id<Context>,
        guard: &EnteredDevice,
        payload: PacketPayload,
    ) -> Result<(), KernelError> {
        let state = &mut *self.state.lock();
        self.may_queue(state, number, guard, &payload)?;
        self.push_packet(state, number, payload);
        Ok(())
    }

    /// Fails unless a packet can be queued on the context. Pages in and holds the context
    /// allocations.
    #[inline(always)]
    pub(crate) fn may_queue(
        &self,
        state: &mut KernelState,
        number: Id<Context>,
        guard: &EnteredDevice,
        payload: &PacketPayload,
    ) -> Result<(), KernelError> {
        // Check again after the wait.
        state.check_working(guard.device)?;
        let removed = || KernelError::Removed(guard.subject());
        let it = state.contexts.get(number).ok_or_else(removed)?;
        match (payload, &it.lists) {
            (PacketPayload::Virtual(_), Some(_)) => {
                return Err(KernelError::HasLists(number.subject()));
            }
            (PacketPayload::Render(_), None) => return Err(KernelError::NoLists(number.subject())),
            (PacketPayload::Virtual(given), None) => {
                let (bytes, limit) = (given.private.len(), it.private_size);
                if bytes > limit as usize {
                    return Err(KernelError::PrivateDataTooLarge { bytes, limit });
                }
            }
            (PacketPayload::Render(_), Some(_)) => (),
        }
        self.plan_context_allocations(state, guard.adapter, number)
    }

    /// Puts a packet at the end of a context's queue.
    #[inline(always)]
    pub(crate) fn push_packet(
        &self,
        state: &mut KernelState,
        number: Id<Context>,
        payload: PacketPayload,
    ) {
        let it = &mut state.contexts[number];
        it.queue.queued += 1;
        it.in_flight += 1;
        let (packet, device, first) = (it.queue.queued, it.device, it.in_flight == 1);
        it.queue.pending.push_back(QueueItem::Packet(packet, payload));
        if first {
            state.devices[device].add_busy(number);
        }
        self.log.emit(number.subject(), || EventKind::PacketQueued { packet });
        self.advance_queue(state, number);
        self.preempt_for_priority(state, number);
    }

    /// Sets a context's priority (`D3DKMTSetContextSchedulingPriority`).
    pub fn set_priority(
        &self,
        process: ProcessId,
        context: Handle,
        priority: i32,
    ) -> Result<(), KernelError> {
        let state = &mut *self.state.lock();
        let number = state.resolve_handle::<Context>(process, Argument::Context, context)?;
        state.contexts[number].queue.priority = priority;
        state.schedule.has_priorities = true;
        Ok(())
    }

    /// Returns a context's priority (`D3DKMTGetContextSchedulingPriority`).
    pub fn priority(&self, process: ProcessId, context: Handle) -> Result<i32, KernelError> {
        let state = self.state.lock();
        let number = state.resolve_handle::<Context>(process, Argument::Context, context)?;
        Ok(state.contexts.get(number).map_or(0, |context| context.queue.priority))
    }

    /// Sets a context's priority among those of its process
    /// (`D3DKMTSetContextInProcessSchedulingPriority`).
    pub fn set_in_process_priority(
        &self,
        process: ProcessId,
        context: Handle,
        priority: i32,
    ) -> Result<(), KernelError> {
        let state = &mut *self.state.lock();
        let number = state.resolve_handle::<Context>(process, Argument::Context, context)?;
        state.contexts[number].queue.in_process_priority = priority;
        Ok(())
    }

    /// Returns a context's priority among those of its process
    /// (`D3DKMTGetContextInProcessSchedulingPriority`).
    pub fn in_process_priority(
        &self,
        process: ProcessId,
        context: Handle,
    ) -> Result<i32, KernelError> {
        let state = self.state.lock();
        let number = state.resolve_handle::<Context>(process, Argument::Context, context)?;
        Ok(state.contexts.get(number).map_or(0, |context| context.queue.in_process_priority))
    }

    /// Returns the number of a context's packets that are not over.
    pub fn unfinished(&self, process: ProcessId, context: Handle) -> Result<u32, KernelError> {
        let state = self.state.lock();
        let number = state.resolve_handle::<Context>(process, Argument::Context, context)?;
        Ok(state.contexts.get(number).map_or(0, |context| context.in_flight))
    }

    /// Releases a packet that is over, or will never be submitted.
    fn release_payload(&self, state: &mut KernelState, payload: &PacketPayload) {
        if let PacketPayload::Render(packet) = payload {
            self.end_render_packet(state, *packet);
        }
    }

    /// Plans page-ins for all context allocations of a context, and holds them.
    #[inline(always)]
    fn plan_context_allocations(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        context: Id<Context>,
    ) -> Result<(), KernelError> {
        if !state.has_context_allocations() {
            return Ok(());
        }
        self.hold_context_allocations(state, adapter, context)
    }

    fn hold_context_allocations(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        context: Id<Context>,
    ) -> Result<(), KernelError> {
        let allocations = state.context_allocations_of(context);
        if allocations.is_empty() {
            return Ok(());
        }
        let mut plan = PagingPlan::default();
        for (number, extent) in allocations {
            let newly_held = state.contexts.get_mut(context).is_some_and(|context| {
                let newly_held = !context.held_extents.contains(&number);
                if newly_held {
                    context.held_extents.push(number);
                }
                newly_held
            });
            if newly_held {
                state.hold_extent(extent, true);
            }
            if let Err(why) = self.plan_page_in(state, extent, &mut plan) {
                self.undo_plan(state, &mut plan);
                self.start_paging(state, adapter, plan, None);
                return Err(KernelError::NoMemory { trim: why.missing });
            }
        }
        self.start_paging(state, adapter, plan, None);
        Ok(())
    }

    /// Processes the waits and signals at the front of a queue. Returns whether a packet is at the
    /// front then.
    #[inline]
    fn advance_queue(&self, state: &mut KernelState, context: Id<Context>) -> bool {
        // The context may have ended meanwhile.
        match state.contexts.get(context).and_then(|context| context.queue.pending.front()) {
            None => false,
            Some(QueueItem::Packet(..)) => true,
            Some(QueueItem::Wait(_) | QueueItem::Signal(_)) => self.advance_items(state, context),
        }
    }

    fn advance_items(&self, state: &mut KernelState, context: Id<Context>) -> bool {
        loop {
            // The context may have ended meanwhile.
            let Some(it) = state.contexts.get_mut(context) else { return false };
            if it.queue.has_packet_first() {
                return true;
            }
            match it.queue.pending.pop_front() {
                None => return false,
                Some(QueueItem::Packet(..)) => internal_error("no packet is at the front"),
                Some(QueueItem::Signal(points)) if it.queue.submitted.is_empty() => {
                    self.signal_points(state, context, &points);
                }
                Some(item @ QueueItem::Signal(_)) => it.queue.submitted.push_back(item),
                Some(QueueItem::Wait(points)) => {
                    if !self.try_satisfy(state, context, &points) {
                        let queue = &mut state.contexts[context].queue;
                        queue.pending.push_front(QueueItem::Wait(points));
                        return false;
                    }
                }
            }
        }
    }

    /// Advances a context whose wait may be satisfied.
    ///
    /// An advanced context may signal objects that other contexts wait for. Those contexts are
    /// advanced one after the other, not recursively.
    pub(crate) fn advance(&self, state: &mut KernelState, context: Id<Context>) {
        state.schedule.advancing.push(context);
        if state.schedule.advancing.len() > 1 {
            return;
        }
        let mut next = 0;
        while let Some(context) = state.schedule.advancing.get(next).copied() {
            if self.advance_queue(state, context) {
                self.make_runnable(state, context);
            }
            next += 1;
        }
        state.schedule.advancing.clear();
        self.wake_all(state);
    }

    /// Adds a context to the runnable list, and wakes the worker to submit its front packet.
    fn make_runnable(&self, state: &mut KernelState, context: Id<Context>) {
        // The context may have ended meanwhile.
        let Some(it) = state.contexts.get_mut(context) else { return };
        if !std::mem::replace(&mut it.queue.runnable, true) {
            state.schedule.runnable.push(context);
        }
        self.wake_one(&self.work_available);
    }

    /// Makes the contexts of a node runnable again.
    pub(crate) fn reopen_node(&self, state: &mut KernelState, adapter: Id<Adapter>, node: usize) {
        let on = |device: Id<Device>| {
            state.devices.get(device).is_some_and(|device| device.adapter == adapter)
        };
        let waits = |context: &Context| context.node == node && context.queue.has_packet_first();
        for context in state.contexts.select(|context| waits(context) && on(context.device)) {
            self.make_runnable(state, context);
        }
    }

    /// Completes the first submitted packet of a context, and runs the signals behind it. Returns
    /// the packet's number.
    #[inline(always)]
    pub(crate) fn complete_submitted(&self, state: &mut KernelState, context: Id<Context>) -> u64 {
        let it = &mut state.contexts[context];
        let (number, listed) = match it.queue.submitted.pop_front() {
            Some(QueueItem::Packet(number, PacketPayload::Render(listed))) => {
                (number, Some(listed))
            }
            Some(QueueItem::Packet(number, _)) => (number, None),
            // Its device was lost, and the packet counts as done already.
            _ => return 0,
        };
        it.queue.done += 1;
        it.queue.completed += 1;
        it.in_flight -= 1;
        let (device, last) = (it.device, it.in_flight == 0);
        if last {
            state.devices[device].remove_busy(context);
        }
        if let Some(listed) = listed {
            self.end_render_packet(state, listed);
        }
        number
    }

    /// Drops the signals directly behind a packet of a lost device; they never happen.
    pub(crate) fn drop_signals(&self, state: &mut KernelState, context: Id<Context>) {
        while let Some(it) = state.contexts.get_mut(context)
            && let Some(QueueItem::Signal(_)) = it.queue.submitted.front()
        {
            if let Some(QueueItem::Signal(points)) = it.queue.submitted.pop_front() {
                state.note_dropped_signal(context, &points);
                self.cancel_points(state, Some(context), &points);
            }
        }
    }

    /// Runs the signals directly behind the completed packets.
    #[inline]
    pub(crate) fn signal_queued(&self, state: &mut KernelState, context: Id<Context>) {
        while let Some(it) = state.contexts.get_mut(context)
            && let Some(QueueItem::Signal(_)) = it.queue.submitted.front()
        {
            if let Some(QueueItem::Signal(points)) = it.queue.submitted.pop_front() {
                self.signal_points(state, context, &points);
            }
        }
        // A wait may be at the front, or a signal with no packet before it.
        if state.contexts.get(context).is_some_and(|context| context.queue.is_waiting()) {
            self.advance(state, context);
        }
    }

    /// Puts the submitted items of a context back at the front of its queue. Returns the numbers of
    /// the packets among them.
    pub(crate) fn requeue_submitted(
        &self,
        state: &mut KernelState,
        context: Id<Context>,
    ) -> Vec<u64> {
        let it = &mut state.contexts[context];
        let number = |queue_item: &QueueItem| {
            if let QueueItem::Packet(number, _) = queue_item { Some(*number) } else { None }
        };
        let packets = it.queue.submitted.iter().filter_map(number).collect();
        while let Some(item) = it.queue.submitted.pop_back() {
            it.queue.pending.push_front(item);
        }
        self.make_runnable(state, context);
        packets
    }

    /// Ends all items of a context whose device is lost. Packets that were never submitted are
    /// cancelled.
    pub(crate) fn clear_queue(&self, state: &mut KernelState, context: Id<Context>) {
        let it = &mut state.contexts[context];
        let sent = std::mem::take(&mut it.queue.submitted);
        let queue = std::mem::take(&mut it.queue.pending);
        it.queue.done = it.queue.queued;
        it.in_flight = 0;
        let device = it.device;
        state.devices[device].remove_busy(context);
        for item in sent {
            match item {
                QueueItem::Wait(points) => self.cancel_points(state, Some(context), &points),
                QueueItem::Signal(points) => {
                    state.note_dropped_signal(context, &points);
                    self.cancel_points(state, Some(context), &points);
                }
                QueueItem::Packet(_, payload) => self.release_payload(state, &payload),
            }
        }
        let adapter = state.adapters.get(state.devices[device].adapter);
        let cancellation =
            adapter.is_some_and(|adapter| adapter.scheduling.cancellation && adapter.is_running());
        for item in queue {
            match item {
                QueueItem::Packet(packet, payload) => {
                    self.log.emit(context.subject(), || EventKind::PacketCancelled { packet });
                    if cancellation {
                        if let PacketPayload::Render(packet) = &payload {
                            self.release_cancelled_packet(state, *packet);
                        }
                        state.contexts[context].queue.cancelling += 1;
                        state.schedule.cancelled.push_back((context, payload));
                        self.wake_one(&self.work_available);
                    } else {
                        self.release_payload(state, &payload);
                    }
                }
                QueueItem::Wait(points) => self.cancel_points(state, Some(context), &points),
                QueueItem::Signal(points) => {
                    state.note_dropped_signal(context, &points);
                    self.cancel_points(state, Some(context), &points);
                }
            }
        }
    }
}

impl Device {
    /// Adds a context to the list of those with packets.
    fn add_busy(&mut self, context: Id<Context>) {
        // Mostly it is the only one, or the newest.
        if self.busy.last().is_none_or(|last| *last < context) {
            self.busy.push(context);
        } else if let Err(place) = self.busy.binary_search(&context) {
            self.busy.insert(place, context);
        }
    }

    /// Removes a context from the list of those with packets.
    fn remove_busy(&mut self, context: Id<Context>) {
        if self.busy.last() == Some(&context) {
            self.busy.pop();
        } else if let Ok(place) = self.busy.binary_search(&context) {
            self.busy.remove(place);
        }
    }
}

impl KernelState {
    /// Whether the front item of a context is a packet that can be submitted now.
    fn may_submit(&self, context: Id<Context>) -> bool {
        self.is_next(context) && self.is_ready(context)
    }

    /// Whether the front item of a context is a packet whose allocations are resident and whose
    /// node accepts packets.
    #[inline(always)]
    fn is_next(&self, context: Id<Context>) -> bool {
        // The context may have ended meanwhile.
        let Some(it) = self.contexts.get(context) else { return false };
        let Some(packet) = it.queue.first_packet() else { return false };
        let device = &self.devices[it.device];
        let node = self.adapters.get(device.adapter).and_then(|on| on.nodes.get(it.node));
        !it.changing_root
            && device.lost.is_none()
            && !self.is_reset_pending(device.adapter)
            && node.is_some_and(crate::schedule::report::Node::accepts_packets)
            && packet.render_packet().is_none_or(|packet| self.is_packet_resident(packet))
    }

    /// The runnable contexts, highest priority first.
    fn by_priority(&self) -> Vec<Id<Context>> {
        let mut all = self.schedule.runnable.clone();
        all.sort_by_key(|it| {
            let priority = self.contexts.get(*it).map_or(0, |context| context.queue.priority);
            std::cmp::Reverse(priority)
        });
        all
    }

    /// Removes a context from the runnable list if no packet is at its front.
    fn clear_runnable_if_empty(&mut self, context: Id<Context>) {
        let waits = self.contexts.get_mut(context).is_some_and(|context| {
            context.queue.runnable = context.queue.has_packet_first();
            context.queue.runnable
        });
        if !waits {
            self.schedule.runnable.retain(|runnable| *runnable != context);
        }
    }

    /// Describes as text what a context's next packet waits for.
    pub(crate) fn describe_queue(&self, context: Id<Context>) -> String {
        let wait = self.contexts.get(context).and_then(|context| context.queue.first_wait());
        wait.map_or(String::new(), |sync_points| {
            format!(" ({} waits for {})", context.subject(), self.describe_missing(sync_points))
        })
    }
}
