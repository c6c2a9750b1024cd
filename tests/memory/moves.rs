//! Video memory: allocations are paged in and out and moved, and every byte is right.
#![expect(clippy::unwrap_used, reason = "a story that cannot go on fails its test")]

use flight::{Event, EventKind, Log, Passive};
use harness::{KernelTestbed, run, verified};
use kernel::{
    DriverSetup, EvictRequest, Handle, KernelError, LockRequest, MakeResidentRequest, Residency,
};
use softgpu::format::{self, Command};
use softgpu::{MemoryPlan, SoftGpu};
use std::sync::Arc;
use thunk::{Client, CreateAllocation, DestroyAllocation};

const PAGE: u64 = 4096;

/// The built-in driver with this much memory.
fn plug(log: &Arc<Log>, plan: MemoryPlan) -> (DriverSetup, Arc<SoftGpu>) {
    let ram = nt::Ram::new(1 << 30).unwrap();
    let (miniport, machine) = SoftGpu::with_memory(ram, plan);
    let pool = nt::Pool::new(log.clone());
    (DriverSetup { miniport: miniport.clone(), hardware: machine, pool }, miniport)
}

struct Bench {
    client: Client,
    device: u32,
    adapter: u32,
    queue: Handle,
    fence: Handle,
    context: u32,
}

impl Bench {
    fn open(wing: &KernelTestbed, at: &mut Passive) -> Self {
        let client = Client::new(&wing.kernel);
        let adapter = client.adapters(at).unwrap()[0];
        let device = client.create_device(at, adapter).unwrap();
        let context = client.create_context(at, device, 0).unwrap();
        let queue =
            wing.kernel.create_paging_queue(client.session().process(), Handle(device), 0).unwrap();
        Self { client, device, adapter, queue: queue.queue, fence: queue.fence, context }
    }

    fn create(&self, at: &mut Passive, bytes: u64) -> u32 {
        let create = CreateAllocation::new(self.device, vec![format::describe(bytes)]);
        self.client.create(at, &create).unwrap().allocations[0]
    }

    fn resident(&self, wing: &KernelTestbed, at: &mut Passive, list: &[u32]) -> Residency {
        let list = list.iter().map(|number| Handle(*number)).collect();
        let order =
            MakeResidentRequest { queue: self.queue, list, ..MakeResidentRequest::default() };
        let process = self.client.session().process();
        let answer = wing.kernel.make_resident(process, &order).unwrap();
        if let Residency::Pending(value) = answer {
            wing.kernel.wait_queue(at, process, self.fence, value).unwrap();
        }
        answer
    }

    fn evict(&self, wing: &KernelTestbed, list: &[u32]) {
        let list = list.iter().map(|number| Handle(*number)).collect();
        let order = EvictRequest { device: Handle(self.device), list, ..EvictRequest::default() };
        wing.kernel.evict(self.client.session().process(), &order).unwrap();
    }

    fn evict_lazily(&self, wing: &KernelTestbed, list: &[u32]) {
        let list = list.iter().map(|number| Handle(*number)).collect();
        let lazily = true;
        let order = EvictRequest {
            device: Handle(self.device),
            list,
            only_if_necessary: lazily,
            ..EvictRequest::default()
        };
        wing.kernel.evict(self.client.session().process(), &order).unwrap();
    }

    fn fill(&self, at: &mut Passive, target: u32, length: u64, value: u8) {
        let fill = Command::Fill { target: Handle(target), offset: 0, length, value };
        self.client.submit(at, self.context, &format::encode(&[fill])).unwrap();
    }

    fn close(&self, at: &mut Passive) {
        self.client.destroy_context(at, self.context).unwrap();
        self.client.destroy_device(at, self.device).unwrap();
        self.client.close_adapter(at, self.adapter).unwrap();
        self.client.end(at);
    }
}

fn run_with_gpu(
    plan: MemoryPlan,
    story: impl FnOnce(&KernelTestbed, &mut Passive, &SoftGpu),
) -> Vec<Event> {
    let (mut driver, keep) = (None, std::cell::RefCell::new(None));
    let events = run(
        1,
        |log| {
            let (plugged, it) = plug(log, plan);
            *keep.borrow_mut() = Some(it);
            plugged
        },
        |wing, at| {
            driver = keep.borrow_mut().take();
            story(wing, at, driver.as_ref().unwrap());
        },
    );
    let findings = verified(&events);
    assert!(findings.findings().is_empty(), "{:?}", findings.findings());
    for event in &events {
        assert!(!matches!(event.kind, EventKind::RuleBroken { .. }), "{event}");
    }
    events
}

#[test]
fn bytes_survive_an_eviction() {
    run_with_gpu(MemoryPlan::default(), |wing, at, gpu| {
        let bench = Bench::open(wing, at);
        let it = bench.create(at, 3 * PAGE);
        assert_eq!(bench.resident(wing, at, &[it]), Residency::Pending(1));
        bench.fill(at, it, 3 * PAGE, 0x5a);
        wing.host.run_until_idle(at);
        assert_eq!(gpu.read(Handle(it), 0..3 * PAGE), Some(vec![0x5a; 3 * 4096]));
        bench.evict(wing, &[it]);
        wing.host.run_until_idle(at);
        assert_eq!(gpu.read(Handle(it), 0..1), None, "it is not there any more");
        bench.resident(wing, at, &[it]);
        assert_eq!(gpu.read(Handle(it), 0..3 * PAGE), Some(vec![0x5a; 3 * 4096]));
        let list = vec![it];
        let destroy =
            DestroyAllocation { device: bench.device, list, ..DestroyAllocation::default() };
        bench.client.destroy(at, &destroy).unwrap();
        bench.close(at);
    });
}

/// A small memory, and four times as much in allocations, each filled with its own number and paged
/// in and out in turn: every byte is right at the end.
#[test]
fn four_times_the_memory_goes_round() {
    let plan = MemoryPlan {
        visible: 64 * PAGE,
        local: 64 * PAGE,
        aperture: 32 * PAGE,
        paging_buffer: 512,
        ..MemoryPlan::default()
    };
    let events = run_with_gpu(plan, |wing, at, gpu| {
        let bench = Bench::open(wing, at);
        let all: Vec<u32> =
            (0..160).map(|value| bench.create(at, (1 + value % 5) * PAGE)).collect();
        let bytes = |index: usize| (1 + index as u64 % 5) * PAGE;
        let value = |index: usize| u8::try_from(index % 251).unwrap() + 1;
        for (place, it) in all.iter().enumerate() {
            bench.resident(wing, at, &[*it]);
            bench.fill(at, *it, bytes(place), value(place));
            bench.evict_lazily(wing, &[*it]);
        }
        wing.host.run_until_idle(at);
        for (place, it) in all.iter().enumerate().rev() {
            bench.resident(wing, at, &[*it]);
            let read = gpu.read(Handle(*it), 0..bytes(place)).unwrap();
            let right = read.iter().all(|byte| *byte == value(place));
            assert!(right && !read.is_empty(), "allocation {place}");
            bench.evict_lazily(wing, &[*it]);
        }
        bench.close(at);
    });
    let moved =
        events.iter().filter(|event| matches!(event.kind, EventKind::MemoryEvicted { .. })).count();
    assert!(moved > 100, "{moved} were moved out");
}

/// A shared allocation is locked by the device that created it, and by no other device.
#[test]
fn only_its_creator_locks_a_shared_allocation() {
    run_with_gpu(MemoryPlan::default(), |wing, at, _| {
        let (maker, opener) = (Bench::open(wing, at), Bench::open(wing, at));
        let create =
            CreateAllocation::new(maker.device, vec![format::describe(PAGE)]).with_resource();
        let flags = create.flags | abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS::CreateShared;
        let made = maker.client.create(at, &CreateAllocation { flags, ..create }).unwrap();
        let opened = opener.client.open_resource(at, opener.device, made.global).unwrap();
        let mut lock = |bench: &Bench, view: u32| {
            let (device, view) = (Handle(bench.device), Handle(view));
            let order = LockRequest { device, view, ..LockRequest::default() };
            wing.kernel.lock(at, bench.client.session().process(), &order)
        };
        let view = opened.allocations[0];
        assert!(matches!(lock(&opener, view), Err(KernelError::NotCreator(_))));
        assert!(lock(&maker, made.allocations[0]).is_ok());
        let (process, device) = (maker.client.session().process(), Handle(maker.device));
        wing.kernel.unlock(process, device, &[Handle(made.allocations[0])]).unwrap();
        for (bench, resource) in [(&opener, opened.resource), (&maker, made.resource)] {
            let destroy = DestroyAllocation {
                device: bench.device,
                resource,
                ..DestroyAllocation::default()
            };
            bench.client.destroy(at, &destroy).unwrap();
            bench.close(at);
        }
    });
}

/// The repeated work of each client: more than the memory holds, in every way.
fn thrash(wing: &KernelTestbed, at: &mut Passive, bench: &Bench) {
    let (kernel, process) = (&wing.kernel, bench.client.session().process());
    let device = Handle(bench.device);
    let all: Vec<u32> = (0..12).map(|value| bench.create(at, (1 + value % 4) * PAGE)).collect();
    for turn in 0..3 {
        for (place, it) in all.iter().enumerate() {
            let list = vec![Handle(*it)];
            let order = MakeResidentRequest {
                queue: bench.queue,
                list: list.clone(),
                ..MakeResidentRequest::default()
            };
            match kernel.make_resident(process, &order) {
                Ok(Residency::Pending(value)) => {
                    kernel.wait_queue(at, process, bench.fence, value).unwrap();
                }
                Ok(Residency::Resident) => (),
                Err(KernelError::NoMemory { .. }) => continue,
                Err(why) => panic!("{why:?}"),
            }
            bench.fill(at, *it, PAGE, 1);
            if (place + turn) % 3 == 0 {
                kernel.offer(process, device, &list, 1).unwrap();
                let reclaimed = kernel.reclaim(process, None, Some(bench.queue), &list).unwrap();
                assert_eq!(reclaimed.discarded.len(), 1);
            }
            if (place + turn) % 4 == 0 {
                let view = Handle(*it);
                let order = LockRequest { device, view, wait: true, ..LockRequest::default() };
                if kernel.lock(at, process, &order).is_ok() {
                    kernel.unlock(process, device, &list).unwrap();
                }
            }
            let (lazily, clean) = (place % 2 == 0, false);
            kernel
                .evict(
                    process,
                    &EvictRequest { device, list, only_if_necessary: lazily, not_written: clean },
                )
                .unwrap();
        }
    }
    bench.close(at);
}

/// Several clients in parallel, in many orders: no rule is broken.
#[test]
fn several_clients_share_little_memory() {
    let plan = MemoryPlan {
        visible: 8 * PAGE,
        local: 8 * PAGE,
        aperture: 8 * PAGE,
        paging_buffer: 128,
        ..MemoryPlan::default()
    };
    let orders =
        (1..=6).map(windtunnel::HostKind::deterministic).chain([windtunnel::HostKind::Threaded]);
    for on in orders {
        let events = run(
            on,
            |log| plug(log, plan).0,
            |wing, at| {
                let ends = ["client 1", "client 2", "client 3"].map(|name| {
                    let (kernel, adapter) = (wing.kernel.clone(), wing.adapter);
                    let host = wing.host.clone();
                    wing.host.spawn(name, move |at| {
                        let wing = KernelTestbed { kernel, adapter, host };
                        let bench = Bench::open(&wing, at);
                        thrash(&wing, at, &bench);
                    })
                });
                for end in &ends {
                    wing.host.park(at, end, None);
                }
            },
        );
        let verifier = verified(&events);
        assert!(verifier.findings().is_empty(), "{on:?}: {:#?}", verifier.findings());
        let evicted = |event: &&Event| matches!(event.kind, EventKind::MemoryEvicted { .. });
        assert!(events.iter().filter(evicted).count() > 10, "{on:?}");
    }
}

/// A client's claim about one residency does not apply to the next.
#[test]
fn not_written_to_counts_for_one_time_on_the_list() {
    run_with_gpu(MemoryPlan::default(), |wing, at, gpu| {
        let bench = Bench::open(wing, at);
        let it = bench.create(at, 2 * PAGE);
        bench.resident(wing, at, &[it]);
        bench.fill(at, it, 2 * PAGE, 1);
        wing.host.run_until_idle(at);
        bench.evict(wing, &[it]);
        // It becomes resident, stays, and is reported as not written.
        bench.resident(wing, at, &[it]);
        let list = vec![Handle(it)];
        let device = Handle(bench.device);
        let order = EvictRequest { device, list, only_if_necessary: true, not_written: true };
        wing.kernel.evict(bench.client.session().process(), &order).unwrap();
        // Then it is made resident again, and written.
        bench.resident(wing, at, &[it]);
        bench.fill(at, it, 2 * PAGE, 2);
        wing.host.run_until_idle(at);
        bench.evict(wing, &[it]);
        wing.host.run_until_idle(at);
        bench.resident(wing, at, &[it]);
        assert_eq!(gpu.read(Handle(it), 0..2 * PAGE), Some(vec![2; 2 * 4096]));
        bench.close(at);
    });
}

/// Evicted during its page-in: the bytes of the last move are right, and there is no finding.
#[test]
fn an_eviction_during_page_in_keeps_the_bytes() {
    for seed in 0..20 {
        let ram = nt::Ram::new(1 << 30).unwrap();
        let (miniport, machine) = SoftGpu::with_memory(ram, MemoryPlan::default());
        let gpu = miniport.clone();
        let plug = |log: &Arc<Log>| DriverSetup {
            miniport,
            hardware: machine,
            pool: nt::Pool::new(log.clone()),
        };
        let events = run(seed, plug, |wing, at| {
            wing.kernel.set_observer(verify::Oracle::new(wing.kernel.log().clone()));
            let bench = Bench::open(wing, at);
            let it = bench.create(at, 4 * PAGE);
            bench.resident(wing, at, &[it]);
            bench.fill(at, it, 4 * PAGE, 9);
            wing.host.run_until_idle(at);
            for _ in 0..3 {
                bench.evict(wing, &[it]);
                let list = vec![Handle(it)];
                let order = MakeResidentRequest {
                    queue: bench.queue,
                    list,
                    ..MakeResidentRequest::default()
                };
                wing.kernel.make_resident(bench.client.session().process(), &order).unwrap();
            }
            wing.host.run_until_idle(at);
            assert_eq!(gpu.read(Handle(it), 0..4 * PAGE), Some(vec![9; 4 * 4096]));
            bench.close(at);
        });
        let broken = events.iter().find(|event| matches!(event.kind, EventKind::RuleBroken { .. }));
        assert!(broken.is_none(), "seed {seed}: {broken:?}");
    }
}
