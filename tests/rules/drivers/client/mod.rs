//! A small client, and a flight with it: creates, destroys and work of every kind.
//!
//! It ignores failures: a bad driver is flown to the end.

mod addresses;

use drivers::Listed;
use flight::{DeterministicHost, Event, Host as _, Log, Passive};
use kernel::miniport::{CreateContextArgs, Interrupt, PrivateData};
use kernel::power::PowerAction;
use kernel::{
    AdapterId, CreateAllocationRequest, CreateAllocationResponse, DestroyAllocationRequest,
    DestroyTarget, DriverSetup, EntrySizes, EscapeRequest, EvictRequest, Handle, Kernel,
    MakeResidentRequest, Packet, ProcessExit, ProcessId, RenderRequest, Residency, Sharing,
};
use softgpu::format::{
    Command, Escape, LARGEST, anywhere, describe, describe_in, encode, escape, only_in, raw_fill,
};
use softgpu::{APERTURE, LOCAL};
use std::sync::Arc;
use verify::{Finding, Oracle, Severity, Verifier};

/// The result of a flight.
pub(crate) struct FlightResult {
    /// All events.
    pub(crate) events: Vec<Event>,
    /// The findings, without notes.
    pub(crate) findings: Vec<Finding>,
    /// The live objects at the end.
    pub(crate) live_objects: String,
}

/// Flies a driver of the registry through all steps.
pub(crate) fn fly(driver: &Listed, seed: u64) -> FlightResult {
    let log = Arc::new(Log::new());
    let setup = (driver.make)(&log);
    fly_all(&log, &setup, seed, work, &[Kernel::surprise_remove_adapter, Kernel::reset_adapter])
}

/// How an adapter ends.
type End = fn(&Kernel, &mut Passive, AdapterId);

/// Flies a driver; `body` gets a client with a device and a context.
pub(crate) fn fly_with(
    log: &Arc<Log>,
    setup: &DriverSetup,
    seed: u64,
    body: impl FnOnce(&Client<'_>, &mut Passive),
) -> FlightResult {
    fly_all(log, setup, seed, body, &[])
}

/// As above; then the adapter is stopped and started again, and added again for each of these ends,
/// which happens while a client works.
fn fly_all(
    log: &Arc<Log>,
    setup: &DriverSetup,
    seed: u64,
    body: impl FnOnce(&Client<'_>, &mut Passive),
    ends: &[End],
) -> FlightResult {
    let live_objects = DeterministicHost::fly(seed, log, |host, at| {
        let kernel = Kernel::new(host.clone(), log.clone());
        kernel.set_observer(Oracle::new(log.clone()));
        let serve = |adapter| {
            let spawner: Arc<dyn flight::Spawner> = host.clone();
            kernel.start_workers(&spawner, adapter);
        };
        // A driver whose start fails has findings.
        let Ok(adapter) = kernel.add_adapter(at, setup.clone()) else {
            return kernel.live_objects().to_string();
        };
        let system = kernel.clone();
        host.spawn_worker("system", kernel.work_available(), move |at| system.run_pending_work(at));
        serve(adapter);
        Client::run(host, &kernel, at, adapter, body);
        host.run_until_idle(at);
        if !ends.is_empty() {
            // The driver turns it off when it stops. A driver without a display has no entry.
            let _ = kernel.control_interrupt(at, adapter, Interrupt::Vsync, true);
            host.run_until_idle(at);
            kernel.stop_adapter(at, adapter);
            if kernel.start_adapter(at, adapter).is_ok() {
                Client::run(host, &kernel, at, adapter, |it, at| it.sleep(at, adapter));
                host.run_until_idle(at);
            }
        }
        kernel.remove_adapter(at, adapter);
        for end in ends {
            let Ok(adapter) = kernel.add_adapter(at, setup.clone()) else { continue };
            serve(adapter);
            Client::run(host, &kernel, at, adapter, |it, at| {
                it.begin(at);
                end(it.kernel, at, adapter);
            });
            // If the client could not begin, nothing has ended the adapter.
            kernel.remove_adapter(at, adapter);
        }
        kernel.validate().unwrap();
        kernel.live_objects().to_string()
    });
    let (live_objects, events) = (live_objects.unwrap(), log.take());
    let mut verifier = Verifier::new();
    for event in &events {
        verifier.observe(event);
    }
    // A driver may have a display, which is not flown.
    let missing: Vec<_> =
        verifier.missing().keys().filter(|name| *name != "display output").collect();
    assert!(missing.is_empty(), "{missing:?}");
    let weighs = |finding: &&Finding| finding.severity > Severity::Note;
    let findings: Vec<Finding> = verifier.findings().iter().filter(weighs).cloned().collect();
    let started = events.iter().any(|event| event.kind.name() == "adapter.started");
    assert!(started || !findings.is_empty(), "it did not start, and nothing says why");
    FlightResult { events, findings, live_objects }
}

/// Every kind of create, destroy and work, in sequence.
fn work(client: &Client<'_>, at: &mut Passive) {
    let alone = client.create(at, client.create_request(&[100, 5000]));
    let made = client.create(at, client.with_resource(&[1, 4096]));
    let resource = made.as_ref().and_then(|response| response.resource);
    client.create(at, CreateAllocationRequest { resource, ..client.create_request(&[9000]) });
    client.failures(at);
    client.standard(at);
    client.primary(at);
    client.list(at, made.iter().flat_map(|response| &response.allocations).take(1), false, false);
    client.end_resource(at, resource);
    client.empty_resource(at);
    client.share(at);
    client.work(at);
    client.moves(at);
    client.renders(at);
    client.addresses(at);
    client.escapes(at);
    client.asks(at);
    client.interrupts(at);
    client.list(at, alone.iter().flat_map(|response| &response.allocations), false, true);
    let again = client.create(at, client.create_request(&[1]));
    client.list(at, again.iter().flat_map(|response| &response.allocations), false, false);
    // This one is left to the end of the device.
    client.create(at, client.with_resource(&[1]));
    client.recovers(at);
}

/// A process with a device and a context.
pub(crate) struct Client<'a> {
    host: &'a DeterministicHost,
    kernel: &'a Kernel,
    process: ProcessId,
    adapter: Handle,
    device: Handle,
    context: Option<Handle>,
    on: AdapterId,
}

impl Client<'_> {
    fn run(
        host: &DeterministicHost,
        kernel: &Kernel,
        at: &mut Passive,
        adapter: AdapterId,
        body: impl FnOnce(&Client<'_>, &mut Passive),
    ) {
        let process = kernel.open_process();
        let name = kernel.open_adapter(process, adapter).unwrap();
        // A driver that creates none has findings.
        let Ok(device) = kernel.create_device(at, process, name) else {
            kernel.close_adapter(at, process, name).unwrap();
            return kernel.end_process(at, process, ProcessExit::Orderly);
        };
        let args = CreateContextArgs { node: 0, engine: 1, system: false, private: Vec::new() };
        let context = kernel.create_context(at, process, device, &args).ok();
        body(&Client { host, kernel, process, adapter: name, device, context, on: adapter }, at);
        if let Some(context) = context {
            kernel.destroy_context(at, process, context).unwrap();
        }
        kernel.destroy_device(at, process, device).unwrap();
        kernel.close_adapter(at, process, name).unwrap();
        kernel.end_process(at, process, ProcessExit::Orderly);
    }

    /// Begins to fill an allocation, and does not wait.
    fn begin(&self, at: &mut Passive) {
        let Some(made) = self.create(at, self.create_request(&[4096, 4096])) else { return };
        self.resident(at, &made.allocations);
        for target in made.allocations {
            self.submit(at, &[Command::Fill { target, offset: 0, length: 64, value: 0xcd }]);
        }
    }

    /// Lets the adapter sleep and wake with work in flight.
    fn sleep(&self, at: &mut Passive, adapter: AdapterId) {
        self.begin(at);
        self.kernel.power_down(at, adapter, PowerAction::Sleep);
        self.kernel.power_up(at, adapter);
        self.begin(at);
    }

    /// Work that is preempted, work that does not end, and a full reset. These are the last calls
    /// on the client's device.
    fn recovers(&self, at: &mut Passive) {
        self.kernel.preempt_node(self.on, 0);
        self.pass(at);
        self.preempted(at);
        if let Ok(device) = self.kernel.create_device(at, self.process, self.adapter) {
            let args = CreateContextArgs { node: 0, engine: 1, system: false, private: Vec::new() };
            let context =
                [(); 2].map(|()| self.kernel.create_context(at, self.process, device, &args));
            let submit = |at: &mut Passive, context, commands: &[Command]| {
                let packet = Packet { private: encode(commands).into(), ..Packet::default() };
                let _ = self.kernel.submit(at, self.process, context, packet);
            };
            if let [Ok(one), Ok(two)] = context {
                submit(at, one, &[Command::Hang]);
                // New work now waits for the node and never gets there.
                self.kernel.preempt_node(self.on, 0);
                submit(at, one, &[]);
                submit(at, two, &[]);
                self.pass(at);
                self.kernel.preempt_node(self.on, 0);
                self.pass(at);
            }
            for context in context.into_iter().flatten() {
                let _ = self.kernel.destroy_context(at, self.process, context);
            }
            let _ = self.kernel.destroy_device(at, self.process, device);
        }
        self.kernel.force_reset(self.on);
        self.pass(at);
    }

    /// Preempts a node that has several long packets, of a device of its own.
    fn preempted(&self, at: &mut Passive) {
        let Ok(device) = self.kernel.create_device(at, self.process, self.adapter) else { return };
        let args = CreateContextArgs { node: 0, engine: 1, system: false, private: Vec::new() };
        let context = self.kernel.create_context(at, self.process, device, &args).ok();
        let client = Client { device, context, ..*self };
        if let Some(made) = client.create(at, client.create_request(&[4096])) {
            client.resident(at, &made.allocations);
            let target = made.allocations[0];
            let fill = |value| Command::Fill { target, offset: 0, length: 64, value };
            // The node may have done all but one of them when its driver is called.
            for _ in 0..4 {
                for _ in 0..8 {
                    client.submit(at, &(0..40).map(fill).collect::<Vec<_>>());
                }
                self.kernel.preempt_node(self.on, 0);
                self.pass(at);
            }
            client.list(at, &made.allocations, false, false);
        }
        if let Some(context) = context {
            let _ = self.kernel.destroy_context(at, self.process, context);
        }
        let _ = self.kernel.destroy_device(at, self.process, device);
    }

    /// Lets half a minute pass.
    fn pass(&self, at: &mut Passive) {
        let deadline = self.host.now() + 300_000_000;
        self.host.park(at, &flight::WaitToken::new("half a minute"), Some(deadline));
        self.host.run_until_idle(at);
    }

    /// Creates that fail, standalone and with a resource, at the first and at a later allocation.
    fn failures(&self, at: &mut Passive) {
        let mut version = describe(4096);
        version[4] = 2;
        for bad in [Vec::new(), describe(0), version, describe(LARGEST + 1)] {
            for before in 0..2 {
                let mut allocations = vec![describe(4096); before];
                allocations.push(bad.clone());
                for new_resource in [false, true] {
                    let allocations = allocations.iter().cloned().map(PrivateData::from).collect();
                    let request = CreateAllocationRequest {
                        new_resource,
                        allocations,
                        ..self.create_request(&[])
                    };
                    assert!(self.create(at, request).is_none());
                }
            }
        }
    }

    /// A standard allocation with its resource.
    fn standard(&self, at: &mut Passive) {
        let allocations = [PrivateData::new()].into_iter().collect();
        let request = CreateAllocationRequest {
            new_resource: true,
            standard: Some(640 * 480),
            allocations,
            ..self.create_request(&[])
        };
        let made = self.create(at, request);
        self.end_resource(at, made.and_then(|response| response.resource));
    }

    /// A primary beside another allocation, with its resource.
    fn primary(&self, at: &mut Passive) {
        let request =
            CreateAllocationRequest { primaries: vec![1], ..self.with_resource(&[4096, 8192]) };
        let made = self.create(at, request);
        self.end_resource(at, made.and_then(|response| response.resource));
    }

    /// A resource that a list empties, and that is then destroyed alone.
    fn empty_resource(&self, at: &mut Passive) {
        let Some(made) = self.create(at, self.with_resource(&[4096])) else { return };
        self.list(at, &made.allocations, false, true);
        self.end_resource(at, made.resource);
    }

    /// Two packets in flight, and the three ways to destroy meanwhile.
    fn work(&self, at: &mut Passive) {
        let Some(made) = self.create(at, self.create_request(&[4096; 4])) else { return };
        let [a, b, unused, c] = made.allocations[..] else { return };
        let fill = |target| Command::Fill { target, offset: 0, length: 64, value: 0xab };
        let copy = Command::Copy { from: a, from_offset: 0, to: b, to_offset: 32, length: 64 };
        self.resident(at, &made.allocations);
        self.submit(at, &[fill(a), copy]);
        self.submit(at, &[fill(c)]);
        self.other_context(at, &[fill(c)]);
        self.list(at, &[a, b], false, false);
        self.list(at, &[unused], true, false);
        self.list(at, &[c], false, true);
        self.host.run_until_idle(at);
    }

    /// Packets with allocation lists, if the driver supports them: more than fit into memory at
    /// once.
    fn renders(&self, at: &mut Passive) {
        const SIZE: u64 = 24 * 4096;
        let args = CreateContextArgs { node: 0, engine: 1, system: false, private: Vec::new() };
        let entries = EntrySizes { list: 8, patches: 24 };
        let (kernel, process) = (self.kernel, self.process);
        let made = kernel.create_context_with_lists(at, process, self.device, &args, entries);
        let Ok((context, _)) = made else { return };
        let wants = [only_in(&[LOCAL]), only_in(&[LOCAL]), only_in(&[LOCAL]), anywhere()];
        let mut wants = wants.to_vec();
        wants.iter_mut().take(3).for_each(|requirements| requirements.flags.cpu_visible = false);
        let allocations =
            wants.iter().map(|requirements| describe_in(SIZE, 4096, requirements).into()).collect();
        let Some(made) =
            self.create(at, CreateAllocationRequest { allocations, ..self.create_request(&[]) })
        else {
            return;
        };
        let all = made.allocations;
        // From WDDM 2 on the kernel does not make listed allocations resident.
        if !kernel.pages_in_listed(process, self.device) {
            self.resident(at, &all);
        }
        let fill = |target, value| Command::Fill { target, offset: 8, length: 64, value };
        let copy =
            |from, to| Command::Copy { from, from_offset: 8, to, to_offset: 4096, length: 32 };
        let render = |at: &mut Passive, commands: &[Command], list: &[Handle], null| {
            let list = list.iter().map(|handle| (*handle, true)).collect();
            let commands = encode(commands);
            let request = RenderRequest { context, commands, list, patches: Vec::new(), null };
            let _ = kernel.render(at, process, &request);
        };
        for (value, at_once) in (1..).zip([[0, 1], [1, 2], [2, 3], [3, 0], [0, 1], [0, 1], [1, 2]])
        {
            let [one, two] = at_once.map(|index| all[index]);
            let commands = [fill(one, value), fill(two, value), copy(one, two)];
            render(at, &commands, &[one, two], value == 4);
            self.host.run_until_idle(at);
        }
        let many: Vec<Command> = (0..60).map(|byte| fill(all[0], byte)).collect();
        render(at, &many, &[all[0]], false);
        render(at, &many, &[all[0]], false);
        self.host.run_until_idle(at);
        // They stay at their locations, unless the kernel moves them on purpose.
        for value in 0..8 {
            render(at, &[fill(all[3], value), copy(all[3], all[0])], &[all[3], all[0]], false);
            self.host.run_until_idle(at);
        }
        // A forbidden packet: native commands with the address of another allocation.
        if let Some(address) = kernel.address_of(process, all[0]) {
            let commands = raw_fill(address, 64, 0xee);
            let request = RenderRequest { context, commands, ..RenderRequest::default() };
            let _ = kernel.render(at, process, &request);
        }
        // Neither a handle nor an index of the list.
        render(at, &[fill(Handle(2), 1)], &[all[0]], false);
        self.host.run_until_idle(at);
        self.list(at, &all, false, true);
        let _ = kernel.destroy_context(at, process, context);
    }

    /// Makes views resident, on an adapter with memory.
    fn resident(&self, at: &mut Passive, list: &[Handle]) {
        let Ok(made) = self.kernel.create_paging_queue(self.process, self.device, 0) else {
            return;
        };
        let (queue, list) = (made.queue, list.to_vec());
        let request = MakeResidentRequest { queue, list, ..MakeResidentRequest::default() };
        if let Ok(Residency::Pending(value)) = self.kernel.make_resident(self.process, &request) {
            self.kernel.wait_queue(at, self.process, made.fence, value).unwrap();
        }
        self.kernel.destroy_paging_queue(at, self.process, queue).unwrap();
    }

    /// Allocations side by side that are filled, evicted and made resident, on an adapter with
    /// memory.
    fn moves(&self, at: &mut Passive) {
        const SIZE: u64 = 24 * 4096;
        if self.kernel.create_paging_queue(self.process, self.device, 0).is_err() {
            return;
        }
        let mut hidden = only_in(&[LOCAL]);
        hidden.flags.cpu_visible = false;
        // The last is so large that its transfer comes in parts.
        let wants = [hidden, hidden, hidden, hidden, only_in(&[APERTURE]), anywhere()]
            .map(|requirements| (SIZE, requirements))
            .into_iter()
            .chain([(3 * SIZE, hidden)]);
        let allocations =
            wants.map(|(size, wants)| describe_in(size, 4096, &wants).into()).collect();
        let Some(made) =
            self.create(at, CreateAllocationRequest { allocations, ..self.create_request(&[]) })
        else {
            return;
        };
        self.resident(at, &made.allocations);
        for (value, target) in (1..).zip(&made.allocations) {
            let fill =
                |offset, value| Command::Fill { target: *target, offset, length: SIZE / 2, value };
            self.submit(at, &[fill(0, value), fill(SIZE / 2, !value)]);
        }
        self.host.run_until_idle(at);
        let device = self.device;
        for list in [&made.allocations[..], &made.allocations[3..4]] {
            let request = EvictRequest { device, list: list.to_vec(), ..EvictRequest::default() };
            let _ = self.kernel.evict(self.process, &request);
            self.host.run_until_idle(at);
            // The last first: each to the location of another.
            for it in list.iter().rev() {
                self.resident(at, &[*it]);
            }
        }
        self.list(at, &made.allocations, false, true);
    }

    /// Queries the driver for user mode, also with an output that is too small.
    fn asks(&self, at: &mut Passive) {
        for sent in [vec![0; 64], vec![0; 4], vec![0xff; 64]] {
            let mut data = sent;
            // The result is private to the two drivers.
            let _ = self.kernel.query_umd_private(at, self.process, self.adapter, &mut data);
        }
    }

    /// Escapes of the driver's format and of another, with and without hardware access, while a
    /// packet is in flight.
    fn escapes(&self, at: &mut Passive) {
        for hardware in [false, true] {
            let adapter = self.adapter;
            let escape_request =
                EscapeRequest { adapter, hardware, flags: hardware.into(), ..Default::default() };
            let payloads = [escape(Escape::Mirror(1)), escape(Escape::Packets), b"none".to_vec()];
            for mut private in payloads {
                self.submit(at, &[]);
                let _ = self.kernel.escape(at, self.process, &escape_request, &mut private);
            }
        }
        self.host.run_until_idle(at);
    }

    /// An interrupt of another device, then vsyncs while a packet is in flight.
    fn interrupts(&self, at: &mut Passive) {
        self.kernel.shared_line_interrupt(at, self.on);
        self.submit(at, &[]);
        for (of, on) in [
            (Interrupt::Vsync, true),
            (Interrupt::Vsync, false),
            (Interrupt::Completed, true),
            (Interrupt::Vsync, true),
        ] {
            let _ = self.kernel.control_interrupt(at, self.on, of, on);
        }
        self.host.run_until_idle(at);
        self.kernel.judge_vsync(self.on);
        let _ = self.kernel.control_interrupt(at, self.on, Interrupt::Vsync, false);
    }

    /// Lets a second context work on the same node.
    fn other_context(&self, at: &mut Passive, commands: &[Command]) {
        let args = CreateContextArgs { node: 0, engine: 1, system: false, private: Vec::new() };
        let made = self.kernel.create_context(at, self.process, self.device, &args);
        let Ok(context) = made else { return };
        Client { context: Some(context), ..*self }.submit(at, commands);
        let _ = self.kernel.destroy_context(at, self.process, context);
    }

    /// A request for standalone allocations.
    pub(crate) fn create_request(&self, sizes: &[u64]) -> CreateAllocationRequest {
        let allocations = sizes.iter().map(|value| describe(*value).into()).collect();
        CreateAllocationRequest {
            device: self.device,
            allocations,
            ..CreateAllocationRequest::default()
        }
    }

    fn with_resource(&self, sizes: &[u64]) -> CreateAllocationRequest {
        CreateAllocationRequest {
            new_resource: true,
            private: b"res".to_vec(),
            ..self.create_request(sizes)
        }
    }

    /// Creates, if the driver succeeds.
    pub(crate) fn create(
        &self,
        at: &mut Passive,
        request: CreateAllocationRequest,
    ) -> Option<CreateAllocationResponse> {
        self.kernel.create_allocations(at, self.process, request).ok()
    }

    /// Shares a resource, opens it, and destroys both.
    fn share(&self, at: &mut Passive) {
        let request =
            CreateAllocationRequest { sharing: Sharing::Global, ..self.with_resource(&[1, 1]) };
        let Some(made) = self.create(at, request) else { return };
        let global = made.global.unwrap_or_default();
        let Ok(other) = self.kernel.create_device(at, self.process, self.adapter) else {
            return self.end_resource(at, made.resource);
        };
        let begun = self.kernel.begin_open_resource(self.process, other, global);
        if let Ok(opened) = begun.and_then(|call| call.open(at)) {
            let target = DestroyTarget::Resource(opened.resource);
            let request = DestroyAllocationRequest {
                device: other,
                target,
                assume_not_in_use: false,
                synchronous: true,
            };
            let _ = self.kernel.destroy(at, self.process, &request);
        }
        self.end_resource(at, made.resource);
        self.kernel.destroy_device(at, self.process, other).unwrap();
    }

    /// Submits a packet and does not wait for it.
    pub(crate) fn submit(&self, at: &mut Passive, commands: &[Command]) {
        let packet = Packet { private: encode(commands).into(), ..Packet::default() };
        if let Some(context) = self.context {
            let _ = self.kernel.submit(at, self.process, context, packet);
        }
    }

    /// Runs all other threads until they are idle.
    pub(crate) fn quiet(&self, at: &mut Passive) {
        self.host.run_until_idle(at);
    }

    fn list<'a>(
        &self,
        at: &mut Passive,
        list: impl IntoIterator<Item = &'a Handle>,
        assume: bool,
        sync: bool,
    ) {
        let list: Vec<Handle> = list.into_iter().copied().collect();
        if !list.is_empty() {
            self.destroy(at, DestroyTarget::List(list.into()), assume, sync);
        }
    }

    fn end_resource(&self, at: &mut Passive, resource: Option<Handle>) {
        if let Some(resource) = resource {
            self.destroy(at, DestroyTarget::Resource(resource), false, false);
        }
    }

    fn destroy(&self, at: &mut Passive, target: DestroyTarget, assume: bool, sync: bool) {
        let request = DestroyAllocationRequest {
            device: self.device,
            target,
            assume_not_in_use: assume,
            synchronous: sync,
        };
        let _ = self.kernel.destroy(at, self.process, &request);
    }
}
