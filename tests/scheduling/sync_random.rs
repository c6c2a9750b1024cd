//! Random use of synchronisation objects, and waits that nothing can end.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::status::STATUS_UNSUCCESSFUL;
use abi::ukm::{D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as Flags, D3DDDICB_SIGNALFLAGS as SignalFlags};
use flight::{Component, Event, EventKind, Passive, RuleId};
use harness::{KernelTestbed, Rng, run, softgpu, verified};
use thunk::{Client, CpuWait, SyncObject};

/// The expected text of wait graphs.
fn graphs(events: &[Event]) -> Vec<String> {
    let graph = |event: &Event| match &event.kind {
        EventKind::WaitStuck { graph, .. } => Some(graph.to_string()),
        _ => None,
    };
    events.iter().filter_map(graph).collect()
}

/// Runs a test with a client that has a device.
fn run_client(body: impl FnOnce(&mut Passive, &Client, u32)) -> Vec<Event> {
    run(1, softgpu, |testbed, at| {
        let client = Client::new(&testbed.kernel);
        let adapter = client.adapters(at).unwrap()[0];
        let device = client.create_device(at, adapter).unwrap();
        body(at, &client, device);
        client.destroy_device(at, device).unwrap();
        client.close_adapter(at, adapter).unwrap();
        client.end(at);
    })
}

#[test]
fn a_stuck_cpu_wait_reports_what_it_waits_for() {
    let events = run_client(|at, client, device| {
        let make = |at: &mut Passive, value| {
            client.create_sync(at, device, SyncObject::Monitored(value), 0).unwrap().object
        };
        let (one, other) = (make(at, 2), make(at, 7));
        let gpu_wait = client.wait_cpu(at, device, &[(one, 5), (other, 7)], CpuWait::default());
        assert_eq!(gpu_wait, Err(STATUS_UNSUCCESSFUL));
        client.destroy_sync(at, one).unwrap();
        client.destroy_sync(at, other).unwrap();
    });
    let graphs_found = graphs(&events);
    assert!(
        graphs_found[0].contains("main waits for sync 1, which has 2, to have 5"),
        "{graphs_found:?}"
    );
    assert!(!graphs_found[0].contains("sync 2"), "that one has what is needed: {graphs_found:?}");
    let verifier = verified(&events);
    let found: Vec<RuleId> = verifier.findings().iter().map(|finding| finding.rule).collect();
    assert_eq!(found, [RuleId::WT_STUCK_001]);
}

#[test]
fn a_stuck_context_reports_what_it_waits_for() {
    let events = run_client(|at, client, device| {
        let context = client.create_context(at, device, 0).unwrap();
        let fence = client.create_sync(at, device, SyncObject::Fence(1), 0).unwrap().object;
        let lock = client.create_sync(at, device, SyncObject::Mutex(true), 0).unwrap().object;
        client.wait_v2(at, context, &[fence, lock], 4).unwrap();
        client.destroy_context(at, context).unwrap();
        client.destroy_sync(at, fence).unwrap();
        client.destroy_sync(at, lock).unwrap();
    });
    let graphs_found = graphs(&events);
    let missing = "context 1 waits for sync 1, which has 1, to have 4 and for sync 2, a mutex that \
                 is held since it was created";
    assert!(graphs_found[0].contains(missing), "{graphs_found:?}");
}

/// All objects that a step can choose from.
struct Life<'a> {
    at: &'a mut Passive,
    clients: Vec<(Client, u32)>,
    contexts: Vec<(usize, u32)>,
    objects: Vec<(usize, u32)>,
    globals: Vec<u32>,
    events: Vec<(usize, usize)>,
}

impl Life<'_> {
    /// Chooses one of them, if there is one.
    fn one<T: Copy>(rng: &mut Rng<'_>, list: &[T]) -> Option<T> {
        if list.is_empty() { None } else { Some(list[rng.of(list.len())]) }
    }

    fn create(&mut self, rng: &mut Rng<'_>) {
        let whose = rng.of(self.clients.len());
        let event = self.events.iter().find(|pair| pair.0 == whose).map_or(0, |pair| pair.1);
        let object = match rng.of(5) {
            0 => SyncObject::Mutex(rng.of(2) == 0),
            1 => SyncObject::Semaphore(1, 2),
            2 => SyncObject::Fence(1),
            3 => SyncObject::Notification(event),
            _ => SyncObject::Monitored(1),
        };
        let monitored = matches!(object, SyncObject::Monitored(_));
        let flags = match rng.of(4) {
            0 if !monitored => Flags::Shared,
            1 if monitored => Flags::NoSignal,
            2 if monitored => Flags::NoWait,
            3 => Flags::Shared | Flags::NtSecuritySharing,
            _ => 0,
        };
        let (client, device) = &self.clients[whose];
        if let Ok(made) = client.create_sync(self.at, *device, object, flags) {
            self.objects.push((whose, made.object));
            if flags == Flags::Shared {
                self.globals.push(made.global);
            }
        }
    }

    /// One step, with any result.
    fn step(&mut self, rng: &mut Rng<'_>) {
        let value = rng.of(6) as u64;
        let what = rng.of(14);
        match what {
            0..3 => self.create(rng),
            3 => {
                if let Some(global) = Self::one(rng, &self.globals) {
                    let whose = rng.of(self.clients.len());
                    let opened = self.clients[whose].0.open_sync(self.at, global);
                    self.objects.extend(opened.ok().map(|number| (whose, number)));
                }
            }
            4 => {
                let whose = rng.of(self.clients.len());
                self.events.push((whose, self.clients[whose].0.create_event()));
            }
            5 => {
                if let Some((whose, event)) = Self::one(rng, &self.events) {
                    let _ = self.clients[whose].0.close_event(event);
                }
            }
            6 => {
                if let Some((whose, context)) = Self::one(rng, &self.contexts)
                    && rng.of(4) == 0
                {
                    let _ = self.clients[whose].0.destroy_context(self.at, context);
                }
            }
            _ => {
                let Some((whose, object)) = Self::one(rng, &self.objects) else { return };
                let (client, device) = self.clients[whose].clone();
                let other = Self::one(rng, &self.objects).unwrap_or((whose, object)).1;
                let (list, both) = ([(object, value)], [(object, value), (other, 3)]);
                let mine = |pair: &&(usize, u32)| pair.0 == whose;
                let contexts: Vec<u32> =
                    self.contexts.iter().filter(mine).map(|pair| pair.1).collect();
                let context = Self::one(rng, &contexts).unwrap_or(0);
                let event =
                    self.events.iter().find(|pair| pair.0 == whose).map_or(0, |pair| pair.1);
                let at = &mut *self.at;
                let _ = match what {
                    7 => client.destroy_sync(at, object),
                    8 => client.signal_cpu(at, device, &list, SignalFlags::AllowFenceRewind),
                    9 if event != 0 => {
                        client.wait_cpu(at, device, &both, CpuWait { any: value > 3, event })
                    }
                    10 => client.wait_gpu(at, context, &list),
                    11 => client.wait_v2(at, context, &[object, other], value),
                    12 => client.broadcast_gpu(at, &contexts, &both),
                    _ => client.signal_v1(at, context, &[object]),
                };
            }
        }
    }
}

#[test]
fn any_client_leaks_nothing_and_breaks_no_kernel_rule() {
    let mut signalled = 0;
    for seed in 1..=200 {
        // On every second one the CPU can read the values of fences.
        let driver = if seed % 2 == 0 { "softgpu-memory" } else { "softgpu" };
        let make = drivers::find(driver).unwrap().make;
        let events = run(seed, make, |testbed: &KernelTestbed, at| {
            let mut rng = Rng::Seed(seed);
            let mut life = Life {
                at,
                clients: Vec::new(),
                contexts: Vec::new(),
                objects: Vec::new(),
                globals: Vec::new(),
                events: Vec::new(),
            };
            for whose in 0..2 {
                let client = Client::new(&testbed.kernel);
                let adapter = client.adapters(life.at).unwrap()[0];
                let device = client.create_device(life.at, adapter).unwrap();
                for node in [0, 1] {
                    let context = client.create_context(life.at, device, node).unwrap();
                    life.contexts.push((whose, context));
                }
                life.clients.push((client, device));
            }
            for _ in 0..60 {
                life.step(&mut rng);
                testbed.kernel.validate().unwrap();
            }
            for (client, _) in life.clients.clone() {
                client.kill(life.at);
            }
        });
        let verifier = verified(&events);
        let ours =
            verifier.findings().iter().find(|finding| finding.component == Component::Kernel);
        assert_eq!(ours, None, "seed {seed}");
        let counts = |event: &&Event| matches!(event.kind, EventKind::SyncSignalled { .. });
        signalled += events.iter().filter(counts).count();
    }
    assert!(signalled > 500, "{signalled}");
}
