//! Following events: the one place that writes shadows.
//!
//! # Invariants
//!
//! 1. An object has a shadow from the event that begins it to the event that ends it. Numbers
//!    of words come again, so a word's shadow starts afresh when a pool block is taken there.
//! 2. What comes to an object without a shadow changes nothing.

use crate::ddi;
use crate::shadow::{
    Adapter, Allocation, Call, ClientCall, Context, Device, Inside, Known, Node, Packet, Process,
    Resource, Retirement, Shadow, Word,
};
use flight::{ByNumber, Event, Kind, Subject, What};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// All shadows.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    all: ByNumber<Subject, Shadow>,
    /// The roots of contexts that are being made.
    pub(crate) early_roots: BTreeMap<Subject, Subject>,
}

static NOTHING: Shadow = Shadow::NOTHING;

impl Shadows {
    /// The shadow of an object.
    pub(crate) fn of(&self, subject: Subject) -> &Shadow {
        self.all.get(&subject).unwrap_or(&NOTHING)
    }

    /// The shadow of the owner of what an event is about: the other object that judging it
    /// takes. `shadow` is the event's own.
    pub(crate) fn owner(&self, event: &Event, shadow: &Shadow) -> &Shadow {
        let owner = match &event.what {
            What::NameShared { of, .. }
            | What::PagingDone { of, .. }
            | What::InstanceMade { of, .. }
            | What::UpdateDone { of, .. } => Some(*of),
            What::AllocationCreated { device, .. } | What::FilterCreated { device, .. } => {
                Some(*device)
            }
            What::RetireAsked { device, .. } => self.of(*device).device().and_then(|it| it.process),
            What::ResourceViewUnnamed { .. } => shadow.resource_view().map(|it| it.resource),
            What::NameGiven { to, .. } => self.of(*to).view().map(|it| it.device),
            What::ViewIdle {} => shadow.view().map(|it| it.device),
            What::PacketDone { .. }
            | What::PacketSubmitted { .. }
            | What::PacketRendered { .. }
            | What::ContextDestroyed {}
            | What::DdiEnds {} => shadow.context().map(|it| it.device),
            What::PagingBuilt { of, segment, .. } => {
                Some(if of.kind == Kind::Saved { *of } else { *segment })
            }
            What::MemoryPlaced { segment, .. } => Some(*segment),
            What::DeviceCreated { adapter, .. } | What::SpaceCreated { adapter, .. } => {
                Some(*adapter)
            }
            What::TableWritten { space, .. } => Some(*space),
            What::TableGone {} => shadow.table().map(|it| it.space),
            What::RootSet { table, .. } => Some(*table),
            What::UpdateApplied { of, .. } => *of,
            What::MemoryEvicted { .. } | What::SavedGone {} => {
                shadow.saved().and_then(|it| it.context)
            }
            What::LockRenamed { .. } => shadow.view().and_then(|it| it.resource),
            What::LockTaken { .. } | What::OfferReady {} => shadow.view().map(|it| it.device),
            What::OfferEnded { .. } | What::LockEnded { .. } => {
                shadow.view().map(|it| it.allocation)
            }
            What::ResidencyTold { .. } => shadow.view().map(|it| it.newest),
            What::TrimEnded { .. } => shadow.device().and_then(|it| it.process),
            What::DdiCall { adapter, .. } | What::BudgetTold { adapter, .. } => Some(*adapter),
            What::DdiEscapes { .. } | What::DdiReturn { .. } => shadow.call().map(|it| it.adapter),
            What::KsCall { about, .. } => Some(*about),
            What::PinCreated { filter, .. } => Some(*filter),
            What::PinWanted { .. } => shadow.stream_pin().and_then(|it| it.filter),
            What::FrameMade { allocator, .. } => *allocator,
            What::AwaitPassed {} => shadow.awaiting().map(|it| it.who),
            What::DdiDestroys { .. } => shadow.allocation().and_then(|it| it.word),
            What::DdiResource { word, .. } => Some(*word),
            What::DdiOpens { resource, .. } => *resource,
            What::DdiCloses { .. } => shadow.view().and_then(|it| it.retirement),
            What::Callback { .. }
            | What::PoolTaken { .. }
            | What::PoolFreed {}
            | What::PoolKept {}
            | What::PoolMisfreed { .. }
            | What::PoolDamaged { .. }
            | What::PoolLeft {} => event.call.map(|call| Kind::Call.nr(call)),
            _ => None,
        };
        owner.map_or(&NOTHING, |owner| self.of(owner))
    }

    /// How many objects have a shadow.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Remembers an event, after the rules have judged it.
    pub(crate) fn follow(&mut self, event: &Event) {
        match event.subject.kind {
            Kind::Process => self.process(event),
            Kind::Adapter => self.adapter(event),
            Kind::Node => self.node(event),
            Kind::Device => self.device(event),
            Kind::Context => self.context(event),
            Kind::Resource => self.resource(event),
            Kind::ResourceView => self.resource_view(event),
            Kind::Allocation => self.allocation(event),
            Kind::View => self.view(event),
            Kind::Retirement => self.retirement(event),
            Kind::Call => {
                if !self.stream_call(event) {
                    self.call(event);
                }
            }
            Kind::Word => self.word(event),
            Kind::Segment => self.segment(event),
            Kind::Paging => self.paging(event),
            Kind::Queue => self.queue(event),
            Kind::Saved => self.saved(event),
            Kind::Sync => self.sync(event),
            Kind::Await => self.awaiting(event),
            Kind::Event => {
                if let What::EventSet { by } = event.what {
                    self.event_set(by);
                }
            }
            Kind::Space => self.space(event),
            Kind::Table => self.table(event),
            Kind::Keyed => self.keyed(event),
            Kind::Instance => self.instance(event),
            Kind::Run
            | Kind::QueueFence
            | Kind::UserAdapter
            | Kind::UserDevice
            | Kind::Surfaces => (),
            Kind::KsDevice
            | Kind::Filter
            | Kind::Pin
            | Kind::Allocator
            | Kind::Frame
            | Kind::StreamPointer => self.stream_object(event),
        }
        if let Some(shadow) = self.all.get_mut(&event.subject) {
            shadow.trail.mark(event.seq);
        }
    }

    pub(crate) fn start(&mut self, subject: Subject, known: Known) {
        self.all.insert(subject, Shadow { known, ..Shadow::NOTHING });
    }

    pub(crate) fn end(&mut self, subject: Subject) {
        self.all.remove(&subject);
    }

    pub(crate) fn get(&mut self, subject: Subject) -> Option<&mut Shadow> {
        self.all.get_mut(&subject)
    }

    /// The shadow of something that begins with whatever is first said of it.
    pub(crate) fn first(&mut self, subject: Subject, new: fn() -> Known) -> &mut Shadow {
        self.all.entry(subject).or_insert_with(|| Shadow { known: new(), ..Shadow::NOTHING })
    }

    fn process(&mut self, event: &Event) {
        match event.what {
            What::ProcessEnded {} => return self.end(event.subject),
            What::NameGiven { to, .. } => self.queue_name(to, true),
            What::NameClosed { of, .. } => self.queue_name(of, false),
            _ => (),
        }
        self.sync_name(event.subject, &event.what);
        let first = self.first(event.subject, || Known::Process(Process::default()));
        let Some(process) = first.process_mut() else { return };
        process.names.follow(&event.what);
        match &event.what {
            What::Enter { call } => process.calls.push(ClientCall {
                thread: event.thread,
                name: call.clone(),
                reserved: SmallVec::new(),
                given: None,
                refused: false,
                unresolved: false,
                delivered: false,
                creates: false,
                awaits: None,
            }),
            What::Leave { .. } => {
                let call = process.calls.iter().rposition(|it| it.thread == event.thread);
                call.map(|at| process.calls.remove(at));
            }
            What::ProcessLeft { .. } => process.left += 1,
            what => {
                let Some(call) = process.call_mut(event.thread) else { return };
                match what {
                    What::EscapeAsked { resolved, .. } => call.unresolved = !resolved,
                    What::NameReserved { handle } => call.reserved.push(handle.0),
                    What::NameReturned { handle } => call.reserved.retain(|it| *it != handle.0),
                    What::NameGiven { handle, .. } => {
                        call.given.get_or_insert(handle.0);
                    }
                    _ => (),
                }
            }
        }
    }

    fn adapter(&mut self, event: &Event) {
        self.recovery(event);
        let first = self.first(event.subject, || Known::Adapter(Adapter::default()));
        let Some(adapter) = first.adapter_mut() else { return };
        match event.what {
            What::AdapterStarted { generation, .. } => adapter.generation = generation,
            What::PagingPrivate { buffer, after, .. } => {
                adapter.buffers.insert(buffer, after);
            }
            What::DpcQueued { fresh } => adapter.dpc |= fresh,
            What::AdapterReset { .. } => self.tables_lost(event.subject),
            What::AdapterStopped {} => {
                adapter.dpc = false;
                (adapter.generation, adapter.stopped, adapter.flying) = (0, None, 0);
                (adapter.released, adapter.told_to_stop) = (None, false);
                adapter.bytes = [[0; 2]; 2];
                adapter.buffers.clear();
                adapter.retried = None;
                let segments = std::mem::take(&mut adapter.segments);
                for it in std::mem::take(&mut adapter.nodes).into_iter().chain(segments) {
                    self.end(it);
                }
            }
            _ => (),
        }
    }

    /// Changes the shadow of an adapter.
    pub(crate) fn with_adapter(&mut self, adapter: Subject, change: impl FnOnce(&mut Adapter)) {
        if let Some(it) = self.get(adapter).and_then(Shadow::adapter_mut) {
            change(it);
        }
    }

    /// Changes the shadow of a device's adapter.
    fn with_adapter_of(&mut self, device: Subject, change: impl FnOnce(&mut Adapter)) {
        if let Some(adapter) = self.of(device).device().and_then(|it| it.adapter) {
            self.with_adapter(adapter, change);
        }
    }

    fn node(&mut self, event: &Event) {
        if let What::NodeStarted { adapter, .. } = event.what {
            let node = Node { adapter: Some(adapter), ..Node::default() };
            self.start(event.subject, Known::Node(node));
            let owner = self.first(adapter, || Known::Adapter(Adapter::default()));
            if let Some(adapter) = owner.adapter_mut() {
                adapter.nodes.push(event.subject);
            }
            return;
        }
        let first = self.first(event.subject, || Known::Node(Node::default()));
        if first.node_mut().is_none() {
            return;
        }
        self.pages(event);
        let Some(node) = self.get(event.subject).and_then(Shadow::node_mut) else { return };
        match (&event.what, &mut node.due) {
            (What::PagingSubmitted { fence, .. }, due) => due.give(*fence),
            (What::FenceReported { fence }, due) => due.report(*fence),
            (What::NodePreempted { last, .. }, due) => due.take_back(*last),
            (What::NodeReset { aborted, .. }, due) => due.reset(*aborted),
            (What::PacketPatched { fence, start, end }, _) => {
                node.patched = Some((*fence, *start, *end));
            }
            (What::PacketStarted { .. }, _) => node.patched = None,
            (What::FencePassed { fence }, _) => self.node_passed(event.subject, *fence),
            (What::NodeSwitched { to }, _) => self.node_switched(event.subject, *to),
            _ => (),
        }
    }

    fn device(&mut self, event: &Event) {
        match &event.what {
            What::DeviceCreated { process, adapter } => {
                let (process, adapter) = (Some(*process), Some(*adapter));
                let saves = self.early_saves(event.subject);
                let device = Device { process, adapter, saves, ..Device::default() };
                self.start(event.subject, Known::Device(device));
                if let Some(adapter) = adapter {
                    self.with_adapter(adapter, |it| it.owned += 1);
                }
            }
            What::DeviceDestroyed {} => {
                let adapter = self.of(event.subject).device().and_then(|it| it.adapter);
                self.end(event.subject);
                if let Some(adapter) = adapter {
                    self.with_adapter(adapter, |it| less(&mut it.owned));
                }
            }
            What::TrimAsked { .. } => {
                let process = self.of(event.subject).device().and_then(|it| it.process);
                self.with_process(process, |it| it.trimmed = 0);
            }
            What::DeviceHit { .. } => {
                if let Some(device) = self.get(event.subject).and_then(Shadow::device_mut) {
                    device.hit = true;
                }
            }
            What::DeviceLost { why } => {
                if let Some(device) = self.get(event.subject).and_then(Shadow::device_mut) {
                    (device.lost, device.why) = (true, Some(why.clone()));
                    device.packets.clear();
                }
            }
            _ => (),
        }
    }

    pub(crate) fn with_process(
        &mut self,
        process: Option<Subject>,
        change: impl FnOnce(&mut Process),
    ) {
        if let Some(it) = process.and_then(|it| self.get(it)?.process_mut()) {
            change(it);
        }
    }

    fn context(&mut self, event: &Event) {
        if let What::ContextCreated { device, .. } = event.what {
            let saves = self.early_saves(event.subject);
            let adapter = self.of(device).device().and_then(|it| it.adapter);
            let adapter = adapter.and_then(|it| self.of(it).adapter());
            let translates = adapter.is_some_and(|it| !it.spaces.is_empty());
            // It may have had its root before it was said to exist.
            let root = self.early_roots.remove(&event.subject);
            let context = Context {
                device,
                in_flight: 0,
                saves,
                buffer: None,
                sent: 0,
                awaits: None,
                translates,
                root,
            };
            self.start(event.subject, Known::Context(context));
            self.with_device(device, |it| it.contexts += 1);
            self.with_adapter_of(device, |it| it.owned += 1);
            return;
        }
        let Some(context) = self.get(event.subject).and_then(Shadow::context_mut) else { return };
        let device = context.device;
        match event.what {
            What::ContextDestroyed {} => {
                self.root_set(event.subject, None);
                self.end(event.subject);
                self.with_device(device, |it| less(&mut it.contexts));
                self.with_adapter_of(device, |it| less(&mut it.owned));
            }
            What::ContextLists { commands, .. } => context.buffer = Some(commands),
            What::PacketQueued { packet } => {
                let packet = Packet { queued: event.seq, context: event.subject, packet };
                self.with_device(device, |it| it.packets.push_back(packet));
            }
            What::PacketSubmitted { packet, node, fence } => {
                context.sent = context.sent.max(packet);
                context.in_flight += 1;
                let node = self.first(node, || Known::Node(Node::default()));
                if let Some(node) = node.node_mut() {
                    node.due.give(fence);
                }
                let What::PacketSubmitted { node, .. } = event.what else { return };
                self.overtakes(node, fence);
                self.with_adapter_of(device, |it| it.flying += 1);
            }
            What::PacketReturned { .. } => {
                less(&mut context.in_flight);
                self.with_adapter_of(device, |it| less(&mut it.flying));
            }
            What::PacketCancelled { packet } => {
                self.packet_over(device, event.subject, packet);
            }
            What::PacketDone { packet, node, fence } => {
                less(&mut context.in_flight);
                self.packet_over(device, event.subject, packet);
                self.packet_passed(node, fence);
                self.with_adapter_of(device, |it| less(&mut it.flying));
            }
            _ => (),
        }
    }

    fn packet_over(&mut self, device: Subject, context: Subject, packet: u64) {
        let over = |it: &Packet| it.context == context && it.packet == packet;
        self.with_device(device, |it| {
            let at = it.packets.iter().position(over);
            at.and_then(|at| it.packets.remove(at));
        });
    }

    fn call(&mut self, event: &Event) {
        match &event.what {
            What::DdiCall { name, class, adapter, process, .. } => {
                let call = Call {
                    name: name.clone(),
                    adapter: *adapter,
                    blocks: Vec::new(),
                    ends: SmallVec::new(),
                    opens_for: None,
                    waited: None,
                };
                self.start(event.subject, Known::Call(call));
                if name == ddi::CREATE_ALLOCATION {
                    self.with_process(*process, |it| {
                        it.call_mut(event.thread).into_iter().for_each(|it| it.creates = true);
                    });
                }
                let owner = self.first(*adapter, || Known::Adapter(Adapter::default()));
                owner.trail.mark(event.seq);
                if let Some(adapter) = owner.adapter_mut() {
                    adapter.dpc &= name != ddi::DPC;
                    adapter.inside.push(Inside {
                        call: event.subject,
                        name: name.clone(),
                        thread: event.thread,
                        class: class.clone(),
                        process: *process,
                    });
                }
            }
            What::DdiEscapes { .. } => self.delivered(event),
            What::DriverWaited { what, ended } => {
                let call = self.get(event.subject).and_then(Shadow::call_mut);
                // A thread of its own lets another go on: a lock by another name.
                if let Some(call) = call.filter(|_| ended != "set at passive") {
                    call.waited = Some(format!("{what}, {ended}").into());
                }
            }
            What::DdiReturn { name, answer, .. } => {
                let Some(call) = self.get(event.subject).and_then(Shadow::call_mut) else { return };
                let owner = call.adapter;
                let (left, ends) =
                    (std::mem::take(&mut call.blocks), std::mem::take(&mut call.ends));
                let kept = left.len();
                self.end(event.subject);
                if answer != "ok" {
                    self.refused(event, owner);
                }
                if answer != "ok" && name == "DxgkDdiResetEngine" {
                    self.must_reset(owner, "a reset of one of its engines has failed");
                }
                // What such a call leaves behind is named with the call, and not again.
                let failed = name == "DxgkDdiCreateAllocation" && answer != "ok";
                let left = left.into_iter().map(|it| it.0).filter(|_| failed);
                let ends = ends.into_iter().filter(|_| answer == "crashed");
                for word in left.chain(ends) {
                    self.with_word(word, Word::leak);
                }
                let shadow = self.get(owner).and_then(Shadow::adapter_mut);
                let Some(adapter) = shadow else { return };
                adapter.inside.retain(|it| it.call != event.subject);
                adapter.kept = kept;
                if [ddi::STOP_DEVICE, ddi::REMOVE_DEVICE].contains(&&**name) {
                    adapter.stopped = Some(name.clone());
                }
                if name == ddi::RELEASE {
                    adapter.released = Some(answer.clone());
                    if answer == "ok" {
                        adapter.stopped = Some(name.clone());
                    }
                }
                adapter.told_to_stop |= name == ddi::STOP_DEVICE;
                adapter.declined |= name == ddi::ADD_DEVICE && answer == "declined";
                let waited_for = adapter.declined && name != ddi::UNLOAD;
                // One that is about to start has its memory already.
                let starts = !adapter.segments.is_empty();
                let over = adapter.inside.is_empty() && adapter.generation == 0;
                let idle = over && adapter.word.is_none() && !adapter.dpc;
                if idle && !waited_for && !starts {
                    self.end(owner);
                }
            }
            _ => (),
        }
    }

    /// The driver refused: the client call on that thread knows it.
    fn refused(&mut self, event: &Event, adapter: Subject) {
        self.with_client_call(event, adapter, |it| it.refused = true);
    }

    /// An escape came to the driver: the client call on that thread knows it.
    fn delivered(&mut self, event: &Event) {
        if let Some(adapter) = self.of(event.subject).call().map(|it| it.adapter) {
            self.with_client_call(event, adapter, |it| it.delivered = true);
        }
    }

    /// Changes the client call that a call of a driver, the event's subject, is part of.
    fn with_client_call(
        &mut self,
        event: &Event,
        adapter: Subject,
        change: impl FnOnce(&mut ClientCall),
    ) {
        let inside = self.of(adapter).adapter().map_or(&[][..], |it| &it.inside);
        let call = inside.iter().find(|it| it.call == event.subject);
        let Some(process) = call.and_then(|it| it.process) else { return };
        let Some(process) = self.get(process).and_then(Shadow::process_mut) else { return };
        if let Some(call) = process.call_mut(event.thread) {
            change(call);
        }
    }

    pub(crate) fn with_device(&mut self, subject: Subject, change: impl FnOnce(&mut Device)) {
        if let Some(it) = self.get(subject).and_then(Shadow::device_mut) {
            change(it);
        }
    }

    pub(crate) fn with_resource(&mut self, subject: Subject, change: impl FnOnce(&mut Resource)) {
        if let Some(it) = self.get(subject).and_then(Shadow::resource_mut) {
            change(it);
        }
    }

    pub(crate) fn with_resource_of(
        &mut self,
        subject: Option<Subject>,
        change: impl FnOnce(&mut Resource),
    ) {
        if let Some(subject) = subject {
            self.with_resource(subject, change);
        }
    }

    pub(crate) fn with_allocation(
        &mut self,
        subject: Subject,
        change: impl FnOnce(&mut Allocation),
    ) {
        if let Some(it) = self.get(subject).and_then(Shadow::allocation_mut) {
            change(it);
        }
    }

    pub(crate) fn with_retirement(
        &mut self,
        subject: Subject,
        change: impl FnOnce(&mut Retirement),
    ) {
        if let Some(it) = self.get(subject).and_then(Shadow::retirement_mut) {
            change(it);
        }
    }

    pub(crate) fn with_word(&mut self, subject: Subject, change: impl FnOnce(&mut Word)) {
        if let Some(it) = self.get(subject).and_then(Shadow::word_mut) {
            change(it);
        }
    }
}

/// One less, and never less than none: the rules have said what is wrong.
pub(crate) fn less(count: &mut u32) {
    *count = count.saturating_sub(1);
}
