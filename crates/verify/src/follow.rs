//! Following events: the only code that writes shadows.
//!
//! # Invariants
//!
//! 1. An object has a shadow from the event that begins it to the event that ends it. Numbers of
//!    driver pointers are reused, so a pointer's shadow starts afresh when a pool block is
//!    allocated there.
//! 2. An event about an object without a shadow changes nothing.

use crate::ddi::{self, KnownDdi};
use crate::entry_name::THREADS;
use crate::shadow::{
    Adapter, Allocation, Call, ClientCall, Context, Device, DriverPointer, Key, Node, Packet,
    Process, Resource, Retirement, Serial, Shadows,
};
use flight::{Event, EventKind, Kind, Subject, Text};
use smallvec::SmallVec;

/// The entry point that keeps a resource alive while it opens it by an NT handle.
const OPEN_NT: &str = "D3DKMTOpenResourceFromNtHandle";

impl Shadows {
    /// Records an event, after the rules have judged it.
    #[expect(clippy::inline_always, reason = "a part of the verifier's loop over events")]
    #[inline(always)]
    pub(crate) fn follow(&mut self, event: &Event) {
        self.follow_thread(event);
        match event.subject.kind {
            Kind::Process => self.follow_process(event),
            Kind::Allocation => self.follow_allocation(event),
            Kind::View => self.follow_view(event),
            Kind::Retirement => self.follow_retirement(event),
            Kind::Call => self.follow_call(event),
            Kind::DriverPointer => self.follow_word(event),
            _ => self.follow_other(event),
        }
        self.event_before = event.seq;
    }

    /// Records the return from a DDI.
    #[inline]
    pub(crate) fn follow_return(&mut self, event: &Event, name: &Text, result: &Text) {
        if event.subject.kind != Kind::Call {
            return self.follow(event);
        }
        self.follow_thread(event);
        self.follow_ddi_return(event, name, result);
        self.event_before = event.seq;
    }

    /// Records the call of a DDI that is known.
    #[inline]
    pub(crate) fn follow_ddi(&mut self, event: &Event, ddi: KnownDdi) {
        if event.subject.kind != Kind::Call {
            return self.follow(event);
        }
        self.follow_thread(event);
        self.follow_ddi_call(event, ddi);
        self.event_before = event.seq;
    }

    #[inline]
    fn follow_thread(&mut self, event: &Event) {
        if event.thread != self.thread {
            self.switch_thread(event);
        }
    }

    /// Finds the last event of another thread than the current one.
    #[cold]
    fn switch_thread(&mut self, event: &Event) {
        let (before, thread) = (self.thread as usize, event.thread as usize);
        if before < THREADS {
            if self.last_events.len() <= before {
                self.last_events.resize(before + 1, 0);
            }
            self.last_events[before] = self.event_before;
        }
        self.thread = event.thread;
        self.event_before = self.last_events.get(thread).copied().unwrap_or(event.seq);
    }

    /// Records an event of a kind of object that has fewer events.
    #[inline(never)]
    fn follow_other(&mut self, event: &Event) {
        match event.subject.kind {
            Kind::Adapter => {
                self.follow_adapter(event);
                self.follow_source(event);
            }
            Kind::Node => self.follow_node(event),
            Kind::Device => self.follow_device(event),
            Kind::Context => self.follow_context(event),
            Kind::Resource => self.follow_resource(event),
            Kind::ResourceView => self.follow_resource_view(event),
            Kind::Segment => self.follow_segment(event),
            Kind::Paging => self.follow_paging(event),
            Kind::PagingQueue => self.follow_queue(event),
            Kind::ContextAllocation => self.follow_saved(event),
            Kind::Sync => self.follow_sync(event),
            Kind::GpuWait => self.follow_awaiting(event),
            Kind::Event => {
                if let EventKind::EventSet { by } = event.kind {
                    self.mark_event_set(by);
                }
            }
            Kind::AddressSpace => self.follow_space(event),
            Kind::PageTable => self.follow_table(event),
            Kind::KeyedMutex => self.follow_keyed(event),
            Kind::Instance => self.follow_instance(event),
            Kind::NtObject => self.follow_nt_object(event),
            Kind::KsDevice
            | Kind::Filter
            | Kind::Pin
            | Kind::Allocator
            | Kind::Frame
            | Kind::StreamPointer => self.follow_stream_object(event),
            Kind::Run
            | Kind::PagingQueueFence
            | Kind::UserAdapter
            | Kind::UserDevice
            | Kind::Surfaces
            | Kind::Process
            | Kind::Allocation
            | Kind::View
            | Kind::Retirement
            | Kind::Call
            | Kind::DriverPointer => (),
        }
        self.mark_subject(event);
    }

    #[inline(never)]
    fn follow_process(&mut self, event: &Event) {
        match event.kind {
            EventKind::Enter { ref call } if call == OPEN_NT => {
                self.nt_openers.insert(event.thread);
            }
            EventKind::Leave { .. } if !self.nt_openers.is_empty() => {
                self.nt_openers.remove(&event.thread);
            }
            EventKind::ProcessEnded {} => return self.end_subject::<Process>(event),
            EventKind::HandlePublished { of, .. } if of.kind != Kind::View => {
                self.count_queue_handle(of, true);
                self.count_sync_handle(event.subject, &event.kind);
            }
            EventKind::HandleClosed { of, .. } if of.kind != Kind::View => {
                self.count_queue_handle(of, false);
                self.count_sync_handle(event.subject, &event.kind);
            }
            EventKind::HandleShared { .. } => self.count_sync_handle(event.subject, &event.kind),
            _ => (),
        }
        let Some(process) = self.first_marked::<Process>(event.subject, event.seq) else { return };
        match &event.kind {
            EventKind::Enter { call } => {
                process.has_called = true;
                process.calls.push(ClientCall {
                    thread: event.thread,
                    entered: event.seq,
                    name: call.clone(),
                    reserved: SmallVec::new(),
                    published: None,
                    driver_failed: false,
                    unresolved: false,
                    delivered: false,
                    creates: false,
                    gpu_wait: None,
                });
            }
            EventKind::Leave { .. } => {
                remove_last(&mut process.calls, |call| call.thread == event.thread);
            }
            EventKind::ProcessLeaked { .. } => process.leaked += 1,
            EventKind::HandleReserved { handle } => {
                process.handles.reserve(handle.0);
                if let Some(call) = process.call_mut(event.thread) {
                    call.reserved.push(handle.0);
                }
            }
            EventKind::HandleCancelled { handle } => {
                process.handles.cancel(handle.0);
                if let Some(call) = process.call_mut(event.thread) {
                    call.reserved.retain(|number| *number != handle.0);
                }
            }
            EventKind::HandlePublished { handle, .. } => {
                if let Some(call) = process.call_mut(event.thread) {
                    call.published.get_or_insert(handle.0);
                }
            }
            EventKind::HandleClosed { handle, .. } => process.handles.close(handle.0),
            EventKind::EscapeRequested { resolved, .. } => {
                if let Some(call) = process.call_mut(event.thread) {
                    call.unresolved = !resolved;
                }
            }
            _ => (),
        }
    }

    fn follow_adapter(&mut self, event: &Event) {
        self.follow_recovery(event);
        let Some(adapter) = self.first::<Adapter>(event.subject) else { return };
        match event.kind {
            EventKind::AdapterStarted { generation, .. } => adapter.generation = generation,
            EventKind::Callback { ref name } if name == ddi::TAKE_DISPLAY => {
                adapter.owns_display = true;
            }
            EventKind::PagingPrivate { buffer, after, .. } => {
                adapter.buffers.insert(buffer, after);
            }
            EventKind::DpcQueued { inserted: fresh } => adapter.dpc |= fresh,
            EventKind::AdapterReset { .. } => self.forget_tables(event.subject),
            EventKind::AdapterStopped {} => {
                adapter.dpc = false;
                (adapter.generation, adapter.stopped, adapter.in_flight) = (0, None, 0);
                (adapter.released, adapter.stop_called) = (None, false);
                adapter.bytes = [[0; 2]; 2];
                adapter.buffers.clear();
                adapter.retried = None;
                let nodes = std::mem::take(&mut adapter.nodes);
                let segments = std::mem::take(&mut adapter.segments);
                for node in nodes {
                    self.end(node);
                }
                for segment in segments {
                    self.end(segment);
                }
            }
            _ => (),
        }
    }

    /// Changes the shadow of an adapter.
    pub(crate) fn with_adapter(
        &mut self,
        adapter: impl Key<Adapter>,
        change: impl FnOnce(&mut Adapter),
    ) {
        if let Some(it) = self.adapter_mut(adapter) {
            change(it);
        }
    }

    /// Changes the shadow of a device's adapter.
    fn with_adapter_of(&mut self, device: impl Key<Device>, change: impl FnOnce(&mut Adapter)) {
        if let Some(adapter) = self.device(device).and_then(|device| device.adapter) {
            self.with_adapter(adapter, change);
        }
    }

    fn follow_node(&mut self, event: &Event) {
        if let EventKind::NodeStarted { adapter, .. } = event.kind {
            let node = Node { adapter: Some(adapter.into()), ..Node::default() };
            self.start(event.subject, node);
            if let Some(adapter) = self.first::<Adapter>(adapter) {
                adapter.nodes.push(event.subject.into());
            }
            return;
        }
        if self.first::<Node>(event.subject).is_none() {
            return;
        }
        self.follow_pages(event);
        let Some(node) = self.node_mut(event.subject) else { return };
        match (&event.kind, &mut node.fences) {
            (EventKind::PagingSubmitted { fence, .. }, due) => due.submit(*fence),
            (EventKind::FenceReported { fence }, due) => due.report(*fence),
            (EventKind::NodePreempted { last, .. }, due) => due.preempt(*last),
            (EventKind::NodeReset { aborted, .. }, due) => due.reset(*aborted),
            (EventKind::PacketPatched { fence, start, end }, _) => {
                node.patched = Some((*fence, *start, *end));
            }
            (EventKind::PacketStarted { .. }, _) => node.patched = None,
            (EventKind::FencePassed { fence }, _) => self.node_passed(event.subject, *fence),
            (EventKind::NodeSwitched { to }, _) => {
                self.switch_node(event.subject.into(), to.map(Serial::from));
            }
            _ => (),
        }
    }

    fn follow_device(&mut self, event: &Event) {
        match &event.kind {
            EventKind::DeviceCreated { process, adapter } => {
                let (process, adapter) = (Some((*process).into()), Some((*adapter).into()));
                let saves = self.take_early_saves(event.subject);
                let device = Device { process, adapter, saves, ..Device::default() };
                self.start(event.subject, device);
                if let Some(adapter) = adapter {
                    self.with_adapter(adapter, |adapter| adapter.owned += 1);
                }
            }
            EventKind::DeviceDestroyed {} => {
                let adapter = self.device(event.subject).and_then(|device| device.adapter);
                self.end(event.subject);
                if let Some(adapter) = adapter {
                    self.with_adapter(adapter, |it| decrement(&mut it.owned));
                }
            }
            EventKind::TrimNotified { .. } => {
                let process = self.device(event.subject).and_then(|device| device.process);
                self.with_process(process, |process| process.trimmed = 0);
            }
            EventKind::DevicePagingLost { .. } => {
                if let Some(device) = self.device_mut(event.subject) {
                    device.hit = true;
                }
            }
            EventKind::DeviceLost { why } => {
                if let Some(device) = self.device_mut(event.subject) {
                    (device.lost, device.why) = (true, Some(why.clone()));
                    device.lost_at = event.seq;
                    device.packets.clear();
                }
            }
            _ => (),
        }
    }

    pub(crate) fn with_process(
        &mut self,
        process: impl Key<Process>,
        change: impl FnOnce(&mut Process),
    ) {
        if let Some(it) = self.process_mut(process) {
            change(it);
        }
    }

    fn follow_context(&mut self, event: &Event) {
        if let EventKind::ContextCreated { device, .. } = event.kind {
            let saves = self.take_early_saves(event.subject);
            let adapter = self.device(device).and_then(|device| device.adapter);
            let adapter = self.adapter(adapter);
            let translates = adapter.is_some_and(|adapter| !adapter.spaces.is_empty());
            // Its root may have been set before its creation was logged.
            let root = self.early_roots.remove(&Serial::of(event.subject));
            let context = Context {
                device: device.into(),
                in_flight: 0,
                saves,
                buffer: None,
                sent: 0,
                gpu_wait: None,
                translates,
                root,
            };
            self.start(event.subject, context);
            self.with_device(device, |device| device.contexts += 1);
            self.with_adapter_of(device, |adapter| adapter.owned += 1);
            return;
        }
        let Some(context) = self.context_mut(event.subject) else { return };
        let device = context.device;
        match event.kind {
            EventKind::ContextDestroyed {} => {
                self.set_root(event.subject.into(), None);
                self.end(event.subject);
                self.with_device(device, |it| decrement(&mut it.contexts));
                self.with_adapter_of(device, |it| decrement(&mut it.owned));
            }
            EventKind::ContextLists { commands, .. } => context.buffer = Some(commands),
            EventKind::PacketQueued { packet } => {
                let packet = Packet { queued: event.seq, context: event.subject.into(), packet };
                self.with_device(device, |device| device.packets.push_back(packet));
            }
            EventKind::PacketSubmitted { packet, node, fence } => {
                context.sent = context.sent.max(packet);
                context.in_flight += 1;
                if let Some(node) = self.first::<Node>(node) {
                    node.fences.submit(fence);
                }
                let EventKind::PacketSubmitted { node, .. } = event.kind else { return };
                self.note_overtaken(node.into(), fence);
                self.with_adapter_of(device, |adapter| adapter.in_flight += 1);
            }
            EventKind::PacketReturned { .. } => {
                decrement(&mut context.in_flight);
                self.with_adapter_of(device, |it| decrement(&mut it.in_flight));
            }
            EventKind::PacketCancelled { packet } => {
                self.end_packet(device, event.subject, packet);
            }
            EventKind::PacketDone { packet, node, fence } => {
                decrement(&mut context.in_flight);
                self.end_packet(device, event.subject, packet);
                self.packet_passed(node, fence);
                self.with_adapter_of(device, |it| decrement(&mut it.in_flight));
            }
            _ => (),
        }
    }

    fn end_packet(&mut self, device: Serial<Device>, context: Subject, packet: u64) {
        let over = |it: &Packet| it.context == context && it.packet == packet;
        self.with_device(device, |device| {
            let at = device.packets.iter().position(over);
            at.and_then(|at| device.packets.remove(at));
        });
    }

    #[inline(never)]
    fn follow_call(&mut self, event: &Event) {
        match &event.kind {
            EventKind::DdiCall { name, .. } => self.follow_ddi_call(event, KnownDdi::of(name)),
            EventKind::DdiEscapes { .. } => {
                self.note_delivered(event);
                self.mark_subject(event);
            }
            EventKind::DriverWaited { object: what, ended } => {
                let call = self.subject_mut::<Call>(event);
                // A thread of its own lets another continue: that is a lock by another name.
                if let Some(call) = call.filter(|_| ended != "set at passive") {
                    call.gpu_wait = Some(format!("{what}, {ended}").into());
                }
            }
            EventKind::DdiReturn { name, result, .. } => {
                self.follow_ddi_return(event, name, result);
            }
            _ => {
                self.follow_stream_call(event);
                self.mark_subject(event);
            }
        }
    }

    #[inline(never)]
    fn follow_ddi_call(&mut self, event: &Event, ddi: KnownDdi) {
        let EventKind::DdiCall { name, threading_level, adapter, process, .. } = &event.kind else {
            return;
        };
        let (of_adapter, of_process) = ((*adapter).into(), process.map(Serial::from));
        self.begin(event, || Call {
            name: name.clone(),
            ddi,
            thread: event.thread,
            threading_level: threading_level.clone(),
            process: of_process,
            adapter: of_adapter,
            blocks: Vec::new(),
            ends: SmallVec::new(),
            opens_for: None,
            gpu_wait: None,
        });
        match ddi {
            KnownDdi::BuildPagingBuffer => {
                self.builds.insert(event.thread, self.event_before);
            }
            KnownDdi::CreateAllocation => self.with_process(*process, |process| {
                if let Some(client_call) = process.call_mut(event.thread) {
                    client_call.creates = true;
                }
            }),
            _ => (),
        }
        if let Some(adapter) = self.first_marked::<Adapter>(*adapter, event.seq) {
            adapter.dpc &= ddi != KnownDdi::DpcRoutine;
            adapter.active_calls.push(event.subject.into());
        }
    }

    #[inline(never)]
    fn follow_ddi_return(&mut self, event: &Event, name: &Text, result: &Text) {
        let mut kept = None;
        if result != "ok" {
            kept = self.call(event.subject).map(|call| call.blocks.len());
            self.follow_failed_call(event, name, result);
        }
        let ended = |call: &Call| (call.adapter, kept.unwrap_or(call.blocks.len()), call.ddi);
        let Some((owner, kept, ddi)) = self.take_subject(event, ended) else { return };
        let Some(adapter) = self.adapter_mut(owner) else { return };
        remove_last(&mut adapter.active_calls, |call| *call == event.subject);
        adapter.blocks_taken = kept;
        match ddi {
            KnownDdi::AddDevice => adapter.declined |= result == "declined",
            KnownDdi::RemoveDevice => adapter.stopped = Some(name.clone()),
            KnownDdi::StopDevice => {
                (adapter.stopped, adapter.stop_called) = (Some(name.clone()), true);
            }
            KnownDdi::ReleaseDisplay => {
                adapter.released = Some(result.clone());
                if result == "ok" {
                    adapter.stopped = Some(name.clone());
                }
            }
            _ => (),
        }
        if adapter.generation != 0 {
            return;
        }
        let waited_for = adapter.declined && ddi != KnownDdi::Unload;
        // An adapter that is about to start has its memory already.
        let starts = !adapter.segments.is_empty();
        let over = adapter.active_calls.is_empty();
        let idle = over && adapter.driver_handle.is_none() && !adapter.dpc;
        if idle && !waited_for && !starts {
            self.end(owner);
        }
    }

    /// A driver call fails: recorded in the client call on that thread.
    #[cold]
    fn follow_failed_call(&mut self, event: &Event, name: &str, result: &str) {
        let Some(call) = self.call_mut(event.subject) else { return };
        let owner = call.adapter;
        let (left, ends) = (std::mem::take(&mut call.blocks), std::mem::take(&mut call.ends));
        self.driver_failed = true;
        self.with_client_call(event, owner, |client_call| client_call.driver_failed = true);
        if name == "DxgkDdiResetEngine" {
            self.must_reset(owner, "a reset of one of its engines has failed");
        }
        // What this call leaves behind is reported with the call, and not again.
        let failed = name == ddi::CREATE_ALLOCATION;
        let left = left.into_iter().map(|entry| entry.0).filter(|_| failed);
        let ends = ends.into_iter().filter(|_| result == "crashed");
        for driver_handle in left.chain(ends) {
            self.with_driver_pointer(driver_handle, DriverPointer::leak);
        }
    }

    /// An escape was delivered to the driver: recorded in the client call on that thread.
    fn note_delivered(&mut self, event: &Event) {
        if let Some(adapter) = self.call(event.subject).map(|call| call.adapter) {
            self.with_client_call(event, adapter, |client_call| client_call.delivered = true);
        }
    }

    /// Changes the client call that a driver call, the event's subject, is part of.
    fn with_client_call(
        &mut self,
        event: &Event,
        adapter: Serial<Adapter>,
        change: impl FnOnce(&mut ClientCall),
    ) {
        let call = self.call(event.subject).filter(|_| self.adapter(adapter).is_some());
        let Some(process) = call.and_then(|call| call.process) else { return };
        let Some(process) = self.process_mut(process) else { return };
        if let Some(call) = process.call_mut(event.thread) {
            change(call);
        }
    }

    pub(crate) fn with_device(
        &mut self,
        device: impl Key<Device>,
        change: impl FnOnce(&mut Device),
    ) {
        if let Some(it) = self.device_mut(device) {
            change(it);
        }
    }

    pub(crate) fn with_resource(
        &mut self,
        resource: impl Key<Resource>,
        change: impl FnOnce(&mut Resource),
    ) {
        if let Some(it) = self.resource_mut(resource) {
            change(it);
        }
    }

    pub(crate) fn with_allocation(
        &mut self,
        allocation: impl Key<Allocation>,
        change: impl FnOnce(&mut Allocation),
    ) {
        if let Some(it) = self.allocation_mut(allocation) {
            change(it);
        }
    }

    pub(crate) fn with_retirement(
        &mut self,
        retirement: impl Key<Retirement>,
        change: impl FnOnce(&mut Retirement),
    ) {
        if let Some(it) = self.retirement_mut(retirement) {
            change(it);
        }
    }

    pub(crate) fn with_driver_pointer(
        &mut self,
        driver_handle: impl Key<DriverPointer>,
        change: impl FnOnce(&mut DriverPointer),
    ) {
        if let Some(it) = self.driver_pointer_mut(driver_handle) {
            change(it);
        }
    }
}

/// Removes the last element of these, which is usually the last of all.
#[inline]
fn remove_last<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool) {
    if list.pop_if(|last| is_it(last)).is_none() {
        remove_inner(list, is_it);
    }
}

#[cold]
#[inline(never)]
fn remove_inner<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool) {
    if let Some(at) = list.iter().rposition(is_it) {
        list.remove(at);
    }
}

/// Subtracts one, but stops at zero: the rules have reported the error.
pub(crate) fn decrement(count: &mut u32) {
    *count = count.saturating_sub(1);
}
