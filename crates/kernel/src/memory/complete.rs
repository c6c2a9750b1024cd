//! Completed paging work, and paging work that counts as completed.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::Driver;
use crate::kernel::Kernel;
use crate::memory::{NOT_IN_PLACE, Paging, PagingBatch, PagingStep};
use crate::schedule::report::{InFlightPacket, Node};
use crate::state::KernelState;
use flight::{EventKind, Fence, RuleId, Subject};
use std::collections::VecDeque;

impl Kernel {
    /// Handles a buffer that the driver rejected: it is over when the buffers before it have
    /// passed.
    pub(crate) fn fail_batch(&self, adapter: Id<Adapter>, node: usize, fence: Fence) {
        let state = &mut *self.state.lock();
        let it = state.adapters.get_mut(adapter).and_then(|adapter| adapter.nodes.get_mut(node));
        let in_flight = it.and_then(|node| {
            node.queue.iter_mut().find(|in_flight_packet| in_flight_packet.fence == fence)
        });
        if let Some(batch) = in_flight.and_then(|in_flight_packet| in_flight_packet.batch.as_mut())
        {
            batch.refused = true;
        }
        self.complete_failed_batches(state, adapter);
    }

    /// Ends a buffer of a driver that has no `DxgkDdiSubmitCommand`: it is done if it contains no
    /// commands. Entry rule: it contains none.
    pub(crate) fn complete_unsubmitted(
        &self,
        state: &mut KernelState,
        driver: &Driver,
        node: Subject,
        batch: PagingBatch,
    ) {
        let (bytes, switch) = (batch.length, batch.switch);
        let broken = (bytes > 0).then(|| {
            format!(
                "the driver wrote {bytes} bytes of paging commands, and has no \
                 DxgkDdiSubmitCommand to which they could be submitted"
            )
        });
        driver.judge(RuleId::WT_ENTRY_001, "DxgkDdiBuildPagingBuffer", broken);
        if switch {
            self.switch_context(state, driver.adapter, node, None);
        }
        self.complete_batch(state, driver.adapter, batch, bytes > 0);
        self.paging_passed(state, driver.adapter);
    }

    /// Completes the rejected buffers that have no buffer before them any more.
    #[expect(clippy::inline_always, reason = "a step of the path of one packet")]
    #[inline(always)]
    pub(crate) fn complete_failed_batches(&self, state: &mut KernelState, adapter: Id<Adapter>) {
        let nodes = state.adapters.get(adapter).map(|adapter| adapter.nodes.as_slice());
        // Mostly no driver has rejected one.
        if nodes.unwrap_or_default().iter().any(Node::has_rejected_first) {
            self.complete_rejected_batches(state, adapter);
        }
    }

    fn complete_rejected_batches(&self, state: &mut KernelState, adapter: Id<Adapter>) {
        let mut over = Vec::new();
        // A driver may still report after its adapter has stopped.
        let Some(it) = state.adapters.get_mut(adapter) else { return };
        for node in &mut it.nodes {
            while node.has_rejected_first() {
                over.extend(
                    node.queue
                        .pop_front()
                        .and_then(|in_flight_packet| in_flight_packet.batch)
                        .map(|paging_batch| (node.subject(), paging_batch)),
                );
            }
        }
        for (node, batch) in over {
            if batch.switch {
                self.switch_context(state, adapter, node, None);
            }
            self.complete_batch(state, adapter, *batch, true);
        }
    }

    /// Completes the steps of a buffer that has passed.
    pub(crate) fn complete_batch(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        batch: PagingBatch,
        lost: bool,
    ) {
        let PagingBatch { paging, done, buffer, .. } = batch;
        // The adapter may have stopped meanwhile.
        if let Some(it) =
            state.adapters.get_mut(adapter).and_then(|adapter| adapter.memory.as_mut())
        {
            it.buffers.extend(buffer);
        }
        for step in &done {
            self.complete_step(state, paging, step, lost);
        }
        // The paging work may have been abandoned already.
        let Some(it) = state.memory.pagings.get_mut(paging) else { return };
        it.in_flight -= 1;
        if it.built && it.in_flight == 0 {
            self.end_paging(state, paging, lost);
        }
    }

    fn complete_step(
        &self,
        state: &mut KernelState,
        paging: Id<Paging>,
        step: &PagingStep,
        lost: bool,
    ) {
        let extent = step.extent;
        if let Some(observer) = self.observer.get()
            && let Some(step_context) = state.step_context(step)
        {
            // A step that was not executed does not change the bytes.
            if let (true, Some(_)) = (lost, &step_context.table) {
                self.forget_table(state, extent);
            } else if lost {
                observer.forget(step_context.owner);
            } else {
                self.notify_observer(paging, step, &step_context, false);
            }
        }
        self.complete_for_owner(state, step);
        // The extent may already be destroyed: its adapter stopped.
        if !state.memory.extents.contains(extent) {
            return;
        }
        let settled = if lost { NOT_IN_PLACE } else { state.schedule.packets_sent };
        let (extents, memory) = state.memory_mut_of(extent);
        let it = &mut extents[extent];
        it.settled = it.settled.max(settled);
        it.pending -= 1;
        it.moving -= u32::from(step.operation.moves_content());
        // The parts of a transfer are one operation.
        if let Some(segment) = memory.segments.get(step.location.segment)
            && step.is_last_part(it.bytes)
        {
            let segment = segment.subject;
            let (operation, page_in) = (step.operation.name().into(), step.operation.is_page_in());
            self.log.emit(paging.subject(), || EventKind::PagingDone {
                operation,
                of: it.owner.subject(),
                segment,
                page_in,
            });
        }
        let (ending, idle, owner) = (it.ending, it.pending == 0, it.owner);
        if idle {
            for run in std::mem::take(&mut it.discarded_pages) {
                memory.ram.free(run);
            }
        }
        if step.operation.moves_content()
            && let Some(place) = state.remap_cpu_view(extent)
        {
            self.log.emit(owner.subject(), || EventKind::LockRemapped { location: place.into() });
        }
        if ending && idle {
            self.release_extent(state, extent);
        }
    }

    /// Completes a step for the extents that it served besides its own.
    fn complete_for_owner(&self, state: &mut KernelState, step: &PagingStep) {
        for &extent in step.operation.dependent_extents() {
            // The extent may already be destroyed: its adapter stopped.
            let Some(it) = state.memory.extents.get_mut(extent) else { continue };
            it.pending -= 1;
            if it.ending && it.pending == 0 {
                self.release_extent(state, extent);
            }
        }
    }

    /// Ends paging work and wakes its waiters.
    fn end_paging(&self, state: &mut KernelState, number: Id<Paging>, lost: bool) {
        // The paging work may have been abandoned already.
        let Some(it) = state.memory.pagings.take(number) else { return };
        self.log.emit(number.subject(), || EventKind::PagingEnded { lost });
        if let Some((queue, value)) = it.signals {
            self.signal_paging_queue(state, queue, value);
        }
        self.finish_updates(state, number);
        self.wake_all(state);
        self.wake_one(&self.work_available);
    }

    /// Abandons paging work because there is no memory for the driver's commands. It counts as
    /// done.
    pub(crate) fn abandon_paging(&self, number: Id<Paging>) {
        let state = &mut *self.state.lock();
        // The paging work may have been abandoned already.
        let Some(it) = state.memory.pagings.get_mut(number) else { return };
        it.built = true;
        let (steps, in_flight) = (std::mem::take(&mut it.steps), it.in_flight);
        let (adapter, switch) = (it.adapter, it.switch);
        // A stopped adapter has no nodes.
        let node = state.adapters.get_mut(adapter).zip(switch);
        if let Some(it) = node.and_then(|(it, node)| it.nodes.get_mut(node)) {
            it.switching = false;
        }
        for step in steps {
            self.complete_step(state, number, &step, true);
        }
        if in_flight == 0 {
            self.end_paging(state, number, true);
        }
    }

    /// Abandons the paging work that an adapter's hardware does not complete: it counts as done.
    /// Returns whether there was any.
    pub(crate) fn fail_paging(&self, adapter: Id<Adapter>) -> bool {
        let state = &mut *self.state.lock();
        // The adapter may have been removed meanwhile.
        let Some(it) = state.adapters.get_mut(adapter) else { return false };
        let (mut lost, mut switched) = (Vec::new(), Vec::new());
        for node in &mut it.nodes {
            let (batches, others): (VecDeque<InFlightPacket>, VecDeque<InFlightPacket>) =
                std::mem::take(&mut node.queue)
                    .into_iter()
                    .partition(|in_flight_packet| in_flight_packet.batch.is_some());
            node.queue = others;
            let batches: Vec<Box<PagingBatch>> =
                batches.into_iter().filter_map(|in_flight_packet| in_flight_packet.batch).collect();
            if batches.iter().any(|paging_batch| paging_batch.switch) {
                node.lost_packets.clear();
                switched.push(node.subject());
            }
            lost.extend(batches);
        }
        let any = !lost.is_empty();
        for node in switched {
            self.switch_context(state, adapter, node, None);
        }
        for batch in lost {
            self.complete_batch(state, adapter, *batch, true);
        }
        self.complete_context_allocations(state);
        any
    }
}
