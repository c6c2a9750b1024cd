//! Paging work: planned by the kernel, built by the driver, submitted to the hardware.
//!
//! # Invariants
//!
//! 1. One thread at a time builds the paging work of an adapter, in the planned order, under the
//!    scheduler's permit key.
//! 2. A step is done when the buffer that completes it has passed, not before.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::miniport::{DriverError, Generation};
use crate::ddi::operation::{BuildPagingBufferArgs, PAGE, SubmitPagingArgs};
use crate::ddi::permit::{DdiPermit, ThreadingLevel};
use crate::ddi::render_args::PatchArgs;
use crate::ddi::{CallDetails, Driver};
use crate::kernel::Kernel;
use crate::memory::place::PagingPlan;
use crate::memory::queue::PagingQueue;
use crate::memory::step_context::StepContext;
use crate::memory::{Paging, PagingBatch, PagingBuffer, PagingOperation, PagingStep};
use crate::schedule::report::{InFlightPacket, QueuePoint};
use crate::state::KernelState;
use flight::{Component, EventKind, Passive, RuleId, Run};
use std::collections::VecDeque;

/// A driver that needs more buffers than this for one operation makes no progress.
const MAX_PASSES: u32 = 100_000;

/// The result of one build call for a step.
enum BuildResult {
    Complete,
    BufferFull,
    Busy,
}

/// The buffer that is being written.
struct OpenBuffer {
    buffer: PagingBuffer,
    /// The part of the buffer that may be used.
    capacity: u32,
    used: u32,
    /// The steps that it completes.
    done: Vec<PagingStep>,
}

impl Kernel {
    /// Turns a plan into paging work. Returns its id, if it has steps or signals a queue.
    pub(crate) fn start_paging(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        plan: PagingPlan,
        signals: Option<(Id<PagingQueue>, u64)>,
    ) -> Option<Id<Paging>> {
        let PagingPlan { page_out: leave, page_in, waits: mut behind, .. } = plan;
        let steps: VecDeque<PagingStep> = leave.into_iter().chain(page_in).collect();
        if steps.is_empty() && signals.is_none() {
            return None;
        }
        behind.retain(|queue_point| !state.is_work_done(adapter, *queue_point));
        for step in &steps {
            let it = &mut state.memory.extents[step.extent];
            it.pending += 1;
            it.moving += u32::from(step.operation.moves_content());
            for also in step.operation.dependent_extents() {
                state.memory.extents[*also].pending += 1;
            }
        }
        let (count, waits) = (steps.len(), behind.len());
        let number = state.memory.pagings.insert(Paging {
            adapter,
            steps,
            waits: behind,
            in_flight: 0,
            built: false,
            signals,
            switch: None,
        });
        let small = |index| u32::try_from(index).unwrap_or(u32::MAX);
        let (adapter_subject, steps, behind) = (adapter.subject(), small(count), small(waits));
        self.log.emit(number.subject(), || EventKind::PagingPlanned {
            adapter: adapter_subject,
            steps,
            waits: behind,
        });
        if let Some((queue, value)) = signals {
            let paging = number.subject();
            self.log.emit(queue.subject(), || EventKind::PagingQueueAssigned { paging, value });
        }
        self.enqueue_paging(state, adapter, number);
        Some(number)
    }

    /// Requests a submission after which no context is current on a node.
    pub(crate) fn start_switch(&self, state: &mut KernelState, adapter: Id<Adapter>, node: usize) {
        let number = state.memory.pagings.insert(Paging {
            adapter,
            steps: VecDeque::new(),
            waits: Vec::new(),
            in_flight: 0,
            built: false,
            signals: None,
            switch: Some(node),
        });
        self.log.emit(number.subject(), || EventKind::PagingPlanned {
            adapter: adapter.subject(),
            steps: 0,
            waits: 0,
        });
        self.enqueue_paging(state, adapter, number);
    }

    fn enqueue_paging(&self, state: &mut KernelState, adapter: Id<Adapter>, number: Id<Paging>) {
        // A stopped adapter has no memory, and builds no more paging work.
        if let Some(it) =
            state.adapters.get_mut(adapter).and_then(|adapter| adapter.memory.as_mut())
        {
            it.planned.push_back(number);
        }
        self.wake_one(&self.work_available);
    }

    /// Builds the next paging work of an adapter whose permit is available. Returns whether it did.
    pub(crate) fn try_paging(&self, at: &mut Passive) -> bool {
        let ready = self.state.lock().paging_ready();
        ready.into_iter().any(|adapter| self.run_paging(at, adapter))
    }

    fn run_paging(&self, at: &mut Passive, adapter: Id<Adapter>) -> bool {
        // The adapter may have been removed since the ready ones were listed.
        let Some(driver) =
            self.state.lock().adapters.get(adapter).map(|adapter| adapter.driver.clone())
        else {
            return false;
        };
        let keys = ThreadingLevel::OneScheduler.keys(adapter, driver.generation, None);
        let permit; // Declared before the state, so that it is dropped after it.
        let number = {
            let mut state = self.state.lock();
            let taken = self.try_acquire_work_permit(&mut state, adapter, keys);
            // A thread holds the permit: the work stays planned.
            let Some(taken) = taken else { return false };
            let ready = state.paging_ready().contains(&adapter);
            let memory =
                state.adapters.get_mut(adapter).and_then(|adapter| adapter.memory.as_mut());
            let next = memory.filter(|memory| ready && !memory.building).and_then(|memory| {
                let number = memory.planned.pop_front()?;
                memory.building = true;
                Some(number)
            });
            let Some(number) = next else {
                taken.release(&mut state);
                return false;
            };
            permit = taken;
            number
        };
        let fatal = self.state.lock().adapters.get(adapter).is_some_and(|adapter| adapter.fatal);
        if fatal || driver.surprise_removed.get().is_some() {
            self.abandon_paging(number); // The hardware is removed.
        } else {
            self.build_work(at, &driver, &permit, number);
        }
        let mut state = self.state.lock();
        // The adapter may have stopped meanwhile.
        if let Some(it) =
            state.adapters.get_mut(adapter).and_then(|adapter| adapter.memory.as_mut())
        {
            it.building = false;
        }
        self.wake_all(&mut state);
        true
    }

    /// Has the driver build all steps, and submits the buffers.
    fn build_work(
        &self,
        at: &mut Passive,
        driver: &Driver,
        permit: &DdiPermit<'_>,
        number: Id<Paging>,
    ) {
        let adapter = driver.adapter;
        let Some(mut open) = self.open_buffer(adapter, false) else {
            self.abandon_paging(number);
            return;
        };
        while let Some(mut step) = self.next_step(number) {
            if self.must_wait(adapter, &step, open.used) {
                self.return_step(number, step);
                self.submit_paging(at, driver, permit, number, open, false);
                self.wait_for_paging(adapter, number);
                return;
            }
            match self.build_step(at, driver, permit, number, &mut step, &mut open) {
                BuildResult::Complete => open.done.push(step),
                BuildResult::BufferFull => {
                    let open_used = open.used;
                    self.return_step(number, step);
                    self.submit_paging(at, driver, permit, number, open, false);
                    // A driver that made no progress gets a whole buffer.
                    let Some(next) = self.open_buffer(adapter, open_used == 0) else {
                        self.abandon_paging(number);
                        return;
                    };
                    open = next;
                }
                BuildResult::Busy => {
                    step.idle = true;
                    self.return_step(number, step);
                    self.submit_paging(at, driver, permit, number, open, false);
                    self.wait_for_nodes(adapter, number);
                    return;
                }
            }
        }
        self.submit_paging(at, driver, permit, number, open, true);
    }

    fn next_step(&self, number: Id<Paging>) -> Option<PagingStep> {
        self.state.lock().memory.pagings.get_mut(number)?.steps.pop_front()
    }

    fn return_step(&self, number: Id<Paging>, step: PagingStep) {
        // The paging work may have been abandoned meanwhile.
        if let Some(it) = self.state.lock().memory.pagings.get_mut(number) {
            it.steps.push_front(step);
        }
    }

    /// Whether a step must wait for all earlier steps: the CPU writes at once, regardless of what
    /// is pending on the hardware.
    fn must_wait(&self, adapter: Id<Adapter>, step: &PagingStep, used: u32) -> bool {
        let state = self.state.lock();
        if !state.is_by_cpu(step) {
            return false;
        }
        // The adapter may have stopped meanwhile.
        let Some(it) = state.adapters.get(adapter) else { return false };
        let on = it.memory.as_ref().map_or(0, |memory| memory.paging.node as usize);
        used > 0
            || it.nodes.get(on).is_some_and(|node| {
                node.queue.iter().any(|in_flight_packet| in_flight_packet.batch.is_some())
            })
    }

    /// Makes the paging work wait until the paging node has completed its buffers.
    fn wait_for_paging(&self, adapter: Id<Adapter>, number: Id<Paging>) {
        let mut state = self.state.lock();
        // The adapter may have stopped meanwhile.
        let Some(it) = state.adapters.get_mut(adapter) else { return };
        let on = it.memory.as_ref().map_or(0, |memory| memory.paging.node as usize);
        let behind = it.nodes.get(on).map(|node| QueuePoint::Node(on, node.submitted));
        if let Some(it) = it.memory.as_mut() {
            it.planned.push_front(number);
        }
        // The paging work may have been abandoned meanwhile.
        if let Some(it) = state.memory.pagings.get_mut(number) {
            it.waits = behind.into_iter().collect();
        }
    }

    /// Makes the paging work wait until the submitted packets have passed, because the driver
    /// returned that an allocation is in use.
    fn wait_for_nodes(&self, adapter: Id<Adapter>, number: Id<Paging>) {
        let mut state = self.state.lock();
        let nodes =
            state.adapters.get(adapter).map(|adapter| adapter.nodes.as_slice()).unwrap_or_default();
        let behind = (0..).zip(nodes).filter(|(_, it)| it.passed != it.submitted);
        let behind: Vec<QueuePoint> =
            behind.map(|(node, it)| QueuePoint::Node(node, it.submitted)).collect();
        // The paging work may have been abandoned, and the adapter may have stopped meanwhile.
        if let Some(it) = state.memory.pagings.get_mut(number) {
            it.waits = behind;
        }
        if let Some(it) =
            state.adapters.get_mut(adapter).and_then(|adapter| adapter.memory.as_mut())
        {
            it.planned.push_front(number);
        }
    }

    fn open_buffer(&self, adapter: Id<Adapter>, all: bool) -> Option<OpenBuffer> {
        let mut state = self.state.lock();
        let memory = state.adapters.get_mut(adapter)?.memory.as_mut()?;
        let buffer = if let Some(it) = memory.buffers.pop() {
            it
        } else {
            let bytes = u64::from(memory.paging.buffer).next_multiple_of(PAGE);
            let private = vec![0; memory.paging.private as usize];
            PagingBuffer { run: memory.ram.allocate(bytes)?, private }
        };
        let size = memory.paging.buffer;
        let pressure = memory.pressure.as_mut().filter(|_| !all);
        let capacity = pressure.map_or(size, |pressure| pressure.buffer_capacity(size));
        Some(OpenBuffer { buffer, capacity, used: 0, done: Vec::new() })
    }

    /// One call of `DxgkDdiBuildPagingBuffer`.
    #[expect(clippy::too_many_lines, reason = "one call, with what is checked around it")]
    fn build_step(
        &self,
        at: &mut Passive,
        driver: &Driver,
        permit: &DdiPermit<'_>,
        number: Id<Paging>,
        step: &mut PagingStep,
        open: &mut OpenBuffer,
    ) -> BuildResult {
        let step_context = self.state.lock().step_context(step);
        let heard = |step_context: &StepContext| {
            step_context.passed_handle.is_some()
                || matches!(step.operation, PagingOperation::Map | PagingOperation::Unmap)
        };
        // The memory or the tables may be destroyed since the step was planned, and the driver is
        // not called for a freed context allocation.
        let Some(step_context) = step_context.filter(heard) else { return BuildResult::Complete };
        if step.passes == 0 {
            self.overwrite_filled(driver.adapter, step, &step_context, &open.done);
            self.notify_observer(number, step, &step_context, true);
        }
        let operation = step_context.operation(step);
        let (name, address) = (step.operation.name(), step_context.address);
        let capacity = open.capacity.saturating_sub(open.used);
        let start = open.buffer.run.start + u64::from(open.used);
        let rest = Run { start, bytes: u64::from(capacity) };
        let mut operation = Some(operation);
        let (mut result, mut written) = (Err(DriverError::NoMemory), 0);
        let before = step.multipass;
        let mut multipass = before;
        let private = &mut open.buffer.private;
        let used = open.used;
        let secret = crate::base::digest::digest(private);
        // WINDOWS: a CPU update has no buffer (documented).
        let by_cpu = step_context.table.as_ref().is_some_and(|table_context| table_context.by_cpu);
        let mut build = |buffer: &mut [u8]| {
            // The operation is passed to the driver once, with the first bytes.
            let Some(operation) = operation.take() else { return };
            let mut args = BuildPagingBufferArgs {
                operation,
                buffer,
                address: if by_cpu { 0 } else { start },
                used: if by_cpu { 0 } else { used },
                written: 0,
                multipass: &mut multipass,
                private,
            };
            let details = CallDetails { process: None, log_arguments: &|_| () };
            result = driver.build_paging_buffer(at, permit, details, &mut args);
            written = args.written;
        };
        if by_cpu {
            build(&mut []);
        } else {
            step_context.ram.with_slice(rest, &mut build);
        }
        let capacity = if by_cpu { 0 } else { capacity };
        let private = &open.buffer.private;
        if !private.is_empty() {
            self.log.emit(driver.adapter.subject(), || EventKind::PagingPrivate {
                buffer: open.buffer.run.start,
                bytes: u32::try_from(private.len()).unwrap_or(u32::MAX),
                before: secret,
                after: crate::base::digest::digest(private),
            });
        }
        let broken = (written > capacity).then(|| {
            format!(
                "the driver returned that it wrote {written} bytes of commands, but \
                 {capacity} were free"
            )
        });
        let about = step_context.owner;
        let place = "DxgkDdiBuildPagingBuffer.pDmaBuffer";
        self.log.judge(RuleId::KMD_PAGING_002, Component::Driver, about, place, broken);
        let written = written.min(capacity);
        open.used += written;
        (step.multipass, step.passes) = (multipass, step.passes + 1);
        let turn = match result {
            Err(DriverError::NoRoom) => {
                let whole = capacity == step_context.capacity;
                let stuck = whole && written == 0 && used == 0 && step.multipass == before;
                if self.judge_multipass_progress(step, about, stuck) {
                    BuildResult::BufferFull
                } else {
                    BuildResult::Complete
                }
            }
            Err(DriverError::Busy) if !step.idle => BuildResult::Busy,
            // WINDOWS: any other result stops the system (observed); here the operation counts as
            // done, and the result is judged.
            Err(_) => {
                self.forget_bytes(step_context.owner);
                BuildResult::Complete
            }
            Ok(()) => BuildResult::Complete,
        };
        self.log.emit(number.subject(), || EventKind::PagingBuilt {
            operation: name.into(),
            of: about,
            driver_handle: self.log.pointer_subject(step_context.driver_handle),
            segment: step_context.segment,
            address,
            size: step_context.bytes,
            private: match &step.operation {
                PagingOperation::Update(private) => crate::base::digest::digest(private),
                _ => flight::Hex(0),
            },
            page_in: step.operation.is_page_in(),
            idle: step.idle,
            bytes: written,
            pass: step.passes,
            result: result.as_ref().err().map_or("ok".into(), |why| why.name()),
            complete: matches!(turn, BuildResult::Complete),
        });
        if let Some(table) =
            step_context.table.as_ref().filter(|_| matches!(turn, BuildResult::Complete))
        {
            self.log_table_write(step_context.owner, &step.operation, table);
            if by_cpu {
                self.notify_table_observer(Some(number), &step.operation, table, false);
            }
        }
        turn
    }

    /// Judges a driver that needs another buffer. Returns whether it makes progress.
    fn judge_multipass_progress(
        &self,
        step: &PagingStep,
        about: flight::Subject,
        stuck: bool,
    ) -> bool {
        let endless = step.passes >= MAX_PASSES;
        let broken = (stuck || endless).then(|| {
            format!(
                "the driver requested another buffer, though it wrote nothing into an empty one, \
                 after {} buffers for one operation",
                step.passes
            )
        });
        let goes_on = broken.is_none();
        let place = "DxgkDdiBuildPagingBuffer.MultipassOffset";
        self.log.judge(RuleId::KMD_PAGING_003, Component::Driver, about, place, broken);
        goes_on
    }

    /// Notifies the memory observer that the content of an allocation is unknown.
    fn forget_bytes(&self, of: flight::Subject) {
        if let Some(observer) = self.observer.get() {
            observer.forget(of);
        }
    }

    /// Calls `DxgkDdiPatch` for paging work, which has no lists.
    ///
    /// WINDOWS: one page says that it is called, another that it need not be: it is called, except
    /// under pressure (our decision).
    fn patch_paging(
        &self,
        at: &mut Passive,
        driver: &Driver,
        permit: &DdiPermit<'_>,
        packet: &SubmitPagingArgs<'_>,
    ) {
        let ram = {
            let state = self.state.lock();
            // The adapter may have stopped meanwhile.
            let Some(memory) = state.adapter_memory(driver.adapter) else { return };
            if memory.pressure.is_some() || packet.length == 0 {
                return;
            }
            memory.ram.clone()
        };
        let mut private = packet.private.to_vec();
        let mut result = Ok(());
        let run = Run { start: packet.commands, bytes: u64::from(packet.length) };
        ram.with_slice(run, &mut |buffer| {
            let mut args = PatchArgs {
                context: None,
                allocation_list: &[],
                patches: &[],
                buffer,
                address: packet.commands,
                submitted: 0..packet.length,
                private: &mut private,
                fence: packet.fence,
                null: false,
            };
            result = driver.patch(at, permit, None, &mut args);
        });
        let broken = result.err().map(|why| {
            format!("DxgkDdiPatch returned {} for paging work, which has no lists", why.name())
        });
        let (rule, place) = (RuleId::KMD_SUBMIT_004, "DxgkDdiPatch.Flags.Paging");
        self.log.judge(rule, Component::Driver, driver.adapter.subject(), place, broken);
    }

    /// Calls `DxgkDdiSubmitCommand` with the commands of a driver.
    fn submit_paging(
        &self,
        at: &mut Passive,
        driver: &Driver,
        permit: &DdiPermit<'_>,
        number: Id<Paging>,
        open: OpenBuffer,
        last: bool,
    ) {
        let OpenBuffer { buffer, used, done, .. } = open;
        let given = {
            let state = &mut *self.state.lock();
            // The paging work may have been abandoned meanwhile.
            let Some(paging) = state.memory.pagings.get_mut(number) else { return };
            (paging.in_flight, paging.built) = (paging.in_flight + 1, last);
            let (switch, adapter) = (paging.switch, paging.adapter);
            // The adapter may have stopped meanwhile.
            let Some(it) = state.adapters.get_mut(adapter) else { return };
            let on = it.memory.as_ref().map_or(0, |memory| memory.paging.node as usize);
            let index = switch.unwrap_or(on);
            // A stopped adapter has no nodes.
            let Some(node) = it.nodes.get_mut(index) else { return };
            let (commands, private) = (buffer.run.start, buffer.private.clone());
            let batch = PagingBatch {
                paging: number,
                done,
                buffer: Some(buffer),
                length: used,
                switch: switch.is_some(),
                refused: false,
            };
            if !driver.implements("DxgkDdiSubmitCommand") {
                let node = node.subject();
                return self.complete_unsubmitted(state, driver, node, batch);
            }
            node.submitted = node.submitted.next();
            node.paging_submitted += 1;
            let (fence, subject) = (node.submitted, node.subject());
            let batch = Some(Box::new(batch));
            node.queue.push_back(InFlightPacket { fence, of: None, batch, lost: false, sent: 0 });
            let (paging, switch) = (number.subject(), switch.is_some());
            self.log.emit(subject, || EventKind::PagingSubmitted {
                paging,
                fence,
                bytes: used,
                switch,
            });
            (index, fence, commands, private, switch)
        };
        let (node, fence, commands, private, switch) = given;
        let submission = SubmitPagingArgs {
            node: u32::try_from(node).unwrap_or(u32::MAX),
            fence,
            commands,
            length: used,
            private: &private,
            switch,
        };
        if driver.generation == Generation::One {
            self.patch_paging(at, driver, permit, &submission);
        }
        // WINDOWS: a failure stops the system (observed); here the buffer counts as done once the
        // buffers before it have passed.
        if driver.submit_paging(at, permit, &submission).is_err() {
            self.fail_batch(driver.adapter, node, fence);
        }
    }
}

impl KernelState {
    /// The adapters whose next paging work waits for nothing.
    fn paging_ready(&self) -> Vec<Id<Adapter>> {
        let ready = |(number, it): (Id<Adapter>, &Adapter)| {
            let memory = it.memory.as_ref().filter(|memory| !memory.building)?;
            let next = self.memory.pagings.get(*memory.planned.front()?)?;
            // A node that is being preempted gets nothing; its returned packets come first.
            let node = it.nodes.get(next.switch.unwrap_or(memory.paging.node as usize));
            if !it.fatal
                && (!node.is_none_or(crate::schedule::report::Node::accepts_packets)
                    || self.is_reset_pending(number))
            {
                return None;
            }
            next.waits
                .iter()
                .all(|queue_point| self.is_work_done(number, *queue_point))
                .then_some(number)
        };
        self.adapters.iter().filter_map(ready).collect()
    }
}
