//! Random mixes of contexts and packets on an adapter with memory: contexts of two processes are
//! created, used on both nodes, given priorities, and destroyed at any moment. Some packets fault,
//! which loses their device.

use flight::{Passive, RuleId, next_random};
use harness::{KernelTestbed, run, verified};
use softgpu::format::{self, Command};
use thunk::{Client, CreateAllocation};
use windtunnel::HostKind;

const STEPS: usize = 300;

/// A client with a device, an allocation that is not resident, and its contexts.
struct Application {
    client: Client,
    adapter: u32,
    device: u32,
    allocation: u32,
    contexts: Vec<u32>,
}

impl Application {
    fn open(testbed: &KernelTestbed, at: &mut Passive) -> Self {
        let client = Client::new(&testbed.kernel);
        let adapter = client.adapters(at).expect("an adapter")[0];
        let mut new = Self { client, adapter, device: 0, allocation: 0, contexts: Vec::new() };
        new.open_device(at);
        new
    }

    fn open_device(&mut self, at: &mut Passive) {
        self.device = self.client.create_device(at, self.adapter).expect("a device");
        let create = CreateAllocation::new(self.device, vec![format::describe(4096)]);
        self.allocation = self.client.create(at, &create).expect("an allocation").allocations[0];
    }

    /// One action. If the device is lost, another takes its place.
    fn step(&mut self, at: &mut Passive, draw: &mut dyn FnMut(u64) -> u64) {
        if self.act(at, draw).is_err() {
            self.contexts.clear();
            self.client.destroy_device(at, self.device).expect("the end of a lost device");
            self.open_device(at);
        }
    }

    fn act(&mut self, at: &mut Passive, draw: &mut dyn FnMut(u64) -> u64) -> Result<(), i32> {
        let count = self.contexts.len();
        let chosen = usize::try_from(draw(count as u64)).ok().filter(|index| *index < count);
        match (draw(10), chosen) {
            (0 | 1, _) | (_, None) => {
                let node = u32::from(draw(2) == 1);
                self.contexts.push(self.client.create_context(at, self.device, node)?);
                Ok(())
            }
            (2, Some(index)) => {
                let context = self.contexts.swap_remove(index);
                self.client.destroy_context(at, context)
            }
            (3, Some(index)) => {
                let priority = if draw(2) == 0 { -1 } else { 1 };
                self.client.set_context_priority(at, self.contexts[index], priority)
            }
            (_, Some(index)) => {
                let target = kernel::Handle(self.allocation);
                let fill = Command::Fill { target, offset: 0, length: 64, value: 1 };
                let faults = draw(12) == 0;
                let packet = format::encode(if faults { std::slice::from_ref(&fill) } else { &[] });
                self.client.submit(at, self.contexts[index], &packet)
            }
        }
    }

    fn close(self, at: &mut Passive) {
        self.client.destroy_device(at, self.device).expect("the end of the device");
        self.client.kill(at);
    }
}

#[test]
fn the_built_in_driver_is_clean_in_random_mixes_of_contexts() {
    let driver = drivers::find("softgpu-memory").expect("the built-in driver with memory");
    let seeds = harness::repeats(40, 400);
    let hosts =
        (0..seeds).flat_map(|seed| [HostKind::deterministic(seed), HostKind::under_pressure(seed)]);
    for (seed, on) in (1_u64..).zip(hosts.chain([HostKind::Threaded; 10])) {
        let events = run(on, driver.make, |testbed, at| {
            let mut state = seed;
            let mut draw = |below: u64| next_random(&mut state, below);
            let mut all = [Application::open(testbed, at), Application::open(testbed, at)];
            for _ in 0..STEPS {
                let index = usize::from(draw(2) == 1);
                all[index].step(at, &mut draw);
            }
            for application in all {
                application.close(at);
            }
        });
        let verifier = verified(&events);
        // A client's packet that uses an allocation that is not resident is the client's fault.
        let findings = verifier.findings().iter().filter(|it| it.rule != RuleId::RESID_MAKE_005);
        let loud: Vec<_> = findings.map(|it| (it.rule.name(), &it.message)).collect();
        assert!(loud.is_empty(), "{on:?}, seed {seed}: {loud:#?}");
    }
}
