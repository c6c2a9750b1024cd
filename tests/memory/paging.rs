//! Video memory: allocations are paged in and out and moved, and every byte is right.
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use flight::{Event, EventKind, Log, Passive, RuleId};
use harness::{KernelTestbed, flown, run, verified};
use kernel::{
    DriverSetup, EvictRequest, Handle, KernelError, LockRequest, MakeResidentRequest, Residency,
};
use softgpu::format::{self, Command};
use softgpu::{MemoryPlan, SoftGpu};
use std::sync::Arc;
use thunk::{Client, CreateAllocation, DestroyAllocation};
use windtunnel::HostKind;

const PAGE: u64 = 4096;

/// The built-in driver with this much memory.
fn set_up(log: &Arc<Log>, plan: MemoryPlan) -> (DriverSetup, Arc<SoftGpu>) {
    let ram = nt::Ram::new(1 << 30).unwrap();
    let (miniport, machine) = SoftGpu::with_memory(ram, plan);
    let pool = nt::Pool::new(log.clone());
    (DriverSetup { miniport: miniport.clone(), hardware: machine, pool }, miniport)
}

struct PagingClient {
    client: Client,
    device: u32,
    adapter: u32,
    queue: Handle,
    fence: Handle,
    context: u32,
}

impl PagingClient {
    fn open(testbed: &KernelTestbed, at: &mut Passive) -> Self {
        let client = Client::new(&testbed.kernel);
        let adapter = client.adapters(at).unwrap()[0];
        let device = client.create_device(at, adapter).unwrap();
        let context = client.create_context(at, device, 0).unwrap();
        let queue = testbed
            .kernel
            .create_paging_queue(client.session().process(), Handle(device), 0)
            .unwrap();
        Self { client, device, adapter, queue: queue.queue, fence: queue.fence, context }
    }

    fn create(&self, at: &mut Passive, bytes: u64) -> u32 {
        let create = CreateAllocation::new(self.device, vec![format::describe(bytes)]);
        self.client.create(at, &create).unwrap().allocations[0]
    }

    fn resident(&self, testbed: &KernelTestbed, at: &mut Passive, list: &[u32]) -> Residency {
        let list = list.iter().map(|number| Handle(*number)).collect();
        let request =
            MakeResidentRequest { queue: self.queue, list, ..MakeResidentRequest::default() };
        let process = self.client.session().process();
        let answer = testbed.kernel.make_resident(process, &request).unwrap();
        if let Residency::Pending(value) = answer {
            testbed.kernel.wait_queue(at, process, self.fence, value).unwrap();
        }
        answer
    }

    fn evict(&self, testbed: &KernelTestbed, list: &[u32]) {
        let list = list.iter().map(|number| Handle(*number)).collect();
        let request = EvictRequest { device: Handle(self.device), list, ..EvictRequest::default() };
        testbed.kernel.evict(self.client.session().process(), &request).unwrap();
    }

    fn evict_lazily(&self, testbed: &KernelTestbed, list: &[u32]) {
        let list = list.iter().map(|number| Handle(*number)).collect();
        let lazily = true;
        let request = EvictRequest {
            device: Handle(self.device),
            list,
            only_if_necessary: lazily,
            ..EvictRequest::default()
        };
        testbed.kernel.evict(self.client.session().process(), &request).unwrap();
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
    body: impl FnOnce(&KernelTestbed, &mut Passive, &SoftGpu),
) -> Vec<Event> {
    let (mut driver, keep) = (None, std::cell::RefCell::new(None));
    let events = run(
        1,
        |log| {
            let (setup, it) = set_up(log, plan);
            *keep.borrow_mut() = Some(it);
            setup
        },
        |testbed, at| {
            driver = keep.borrow_mut().take();
            body(testbed, at, driver.as_ref().unwrap());
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
    run_with_gpu(MemoryPlan::default(), |testbed, at, gpu| {
        let test_client = PagingClient::open(testbed, at);
        let it = test_client.create(at, 3 * PAGE);
        assert_eq!(test_client.resident(testbed, at, &[it]), Residency::Pending(1));
        test_client.fill(at, it, 3 * PAGE, 0x5a);
        testbed.host.run_until_idle(at);
        assert_eq!(gpu.read(Handle(it), 0..3 * PAGE), Some(vec![0x5a; 3 * 4096]));
        test_client.evict(testbed, &[it]);
        testbed.host.run_until_idle(at);
        assert_eq!(gpu.read(Handle(it), 0..1), None, "it is not there any more");
        test_client.resident(testbed, at, &[it]);
        assert_eq!(gpu.read(Handle(it), 0..3 * PAGE), Some(vec![0x5a; 3 * 4096]));
        let list = vec![it];
        let destroy =
            DestroyAllocation { device: test_client.device, list, ..DestroyAllocation::default() };
        test_client.client.destroy(at, &destroy).unwrap();
        test_client.close(at);
    });
}

/// A small memory, and four times as much in allocations, each filled with its own number and paged
/// in and out in turn: every byte is right at the end.
#[test]
fn four_times_the_memory_is_paged_in_turn() {
    let plan = MemoryPlan {
        visible: 64 * PAGE,
        local: 64 * PAGE,
        aperture: 32 * PAGE,
        paging_buffer: 512,
        ..MemoryPlan::default()
    };
    let events = run_with_gpu(plan, |testbed, at, gpu| {
        let test_client = PagingClient::open(testbed, at);
        let all: Vec<u32> =
            (0..160).map(|value| test_client.create(at, (1 + value % 5) * PAGE)).collect();
        let bytes = |index: usize| (1 + index as u64 % 5) * PAGE;
        let value = |index: usize| u8::try_from(index % 251).unwrap() + 1;
        for (place, it) in all.iter().enumerate() {
            test_client.resident(testbed, at, &[*it]);
            test_client.fill(at, *it, bytes(place), value(place));
            test_client.evict_lazily(testbed, &[*it]);
        }
        testbed.host.run_until_idle(at);
        for (place, it) in all.iter().enumerate().rev() {
            test_client.resident(testbed, at, &[*it]);
            let read = gpu.read(Handle(*it), 0..bytes(place)).unwrap();
            let right = read.iter().all(|byte| *byte == value(place));
            assert!(right && !read.is_empty(), "allocation {place}");
            test_client.evict_lazily(testbed, &[*it]);
        }
        test_client.close(at);
    });
    let moved =
        events.iter().filter(|event| matches!(event.kind, EventKind::MemoryEvicted { .. })).count();
    assert!(moved > 100, "{moved} were moved out");
}

/// A shared allocation is locked by the process that created it, with any of its devices, and by no
/// other process.
#[test]
fn only_its_creator_locks_a_shared_allocation() {
    run_with_gpu(MemoryPlan::default(), |testbed, at, _| {
        let (maker, opener) = (PagingClient::open(testbed, at), PagingClient::open(testbed, at));
        let create =
            CreateAllocation::new(maker.device, vec![format::describe(PAGE)]).with_resource();
        let flags = create.flags | abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS::CreateShared;
        let made = maker.client.create(at, &CreateAllocation { flags, ..create }).unwrap();
        let opened = opener.client.open_resource(at, opener.device, made.global).unwrap();
        let other = maker.client.create_device(at, maker.adapter).unwrap();
        let again = maker.client.open_resource(at, other, made.global).unwrap();
        let mut lock = |client: &Client, device: u32, view: u32| {
            let (device, view) = (Handle(device), Handle(view));
            let request = LockRequest { device, view, ..LockRequest::default() };
            testbed.kernel.lock(at, client.session().process(), &request)
        };
        let refused = lock(&opener.client, opener.device, opened.allocations[0]);
        assert!(matches!(refused, Err(KernelError::NotCreator(_))));
        let views = [(maker.device, made.allocations[0]), (other, again.allocations[0])];
        let addresses =
            views.map(|(device, view)| lock(&maker.client, device, view).unwrap().address);
        assert_eq!(addresses[0], addresses[1], "they have one mapping");
        for (device, view) in views {
            let process = maker.client.session().process();
            testbed.kernel.unlock(process, Handle(device), &[Handle(view)]).unwrap();
        }
        let again = DestroyAllocation {
            device: other,
            resource: again.resource,
            ..DestroyAllocation::default()
        };
        maker.client.destroy(at, &again).unwrap();
        maker.client.destroy_device(at, other).unwrap();
        for (test_client, resource) in [(&opener, opened.resource), (&maker, made.resource)] {
            let destroy = DestroyAllocation {
                device: test_client.device,
                resource,
                ..DestroyAllocation::default()
            };
            test_client.client.destroy(at, &destroy).unwrap();
            test_client.close(at);
        }
    });
}

/// The repeated work of each client: more than the memory holds, in every way.
fn thrash(testbed: &KernelTestbed, at: &mut Passive, test_client: &PagingClient) {
    let (kernel, process) = (&testbed.kernel, test_client.client.session().process());
    let device = Handle(test_client.device);
    let all: Vec<u32> =
        (0..12).map(|value| test_client.create(at, (1 + value % 4) * PAGE)).collect();
    for turn in 0..3 {
        for (place, it) in all.iter().enumerate() {
            let list = vec![Handle(*it)];
            let request = MakeResidentRequest {
                queue: test_client.queue,
                list: list.clone(),
                ..MakeResidentRequest::default()
            };
            match kernel.make_resident(process, &request) {
                Ok(Residency::Pending(value)) => {
                    kernel.wait_queue(at, process, test_client.fence, value).unwrap();
                }
                Ok(Residency::Resident) => (),
                Err(KernelError::NoMemory { .. }) => continue,
                Err(why) => panic!("{why:?}"),
            }
            test_client.fill(at, *it, PAGE, 1);
            if (place + turn) % 3 == 0 {
                kernel.offer(process, device, &list, 1).unwrap();
                let reclaimed =
                    kernel.reclaim(process, None, Some(test_client.queue), &list).unwrap();
                assert_eq!(reclaimed.discarded.len(), 1);
            }
            if (place + turn) % 4 == 0 {
                let view = Handle(*it);
                let request = LockRequest { device, view, wait: true, ..LockRequest::default() };
                if kernel.lock(at, process, &request).is_ok() {
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
    test_client.close(at);
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
    let orders = (1..=6).map(HostKind::deterministic).chain([HostKind::Threaded]);
    for on in orders {
        let events = run(
            on,
            |log| set_up(log, plan).0,
            |testbed, at| {
                let ends = ["client 1", "client 2", "client 3"].map(|name| {
                    let (kernel, adapter) = (testbed.kernel.clone(), testbed.adapter);
                    let host = testbed.host.clone();
                    testbed.host.spawn(name, move |at| {
                        let testbed = KernelTestbed { kernel, adapter, host };
                        let test_client = PagingClient::open(&testbed, at);
                        thrash(&testbed, at, &test_client);
                    })
                });
                for end in &ends {
                    testbed.host.park(at, end, None);
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
fn the_not_written_flag_counts_for_one_residency_request() {
    run_with_gpu(MemoryPlan::default(), |testbed, at, gpu| {
        let test_client = PagingClient::open(testbed, at);
        let it = test_client.create(at, 2 * PAGE);
        test_client.resident(testbed, at, &[it]);
        test_client.fill(at, it, 2 * PAGE, 1);
        testbed.host.run_until_idle(at);
        test_client.evict(testbed, &[it]);
        // It becomes resident, stays, and is reported as not written.
        test_client.resident(testbed, at, &[it]);
        let list = vec![Handle(it)];
        let device = Handle(test_client.device);
        let request = EvictRequest { device, list, only_if_necessary: true, not_written: true };
        testbed.kernel.evict(test_client.client.session().process(), &request).unwrap();
        // Then it is made resident again, and written.
        test_client.resident(testbed, at, &[it]);
        test_client.fill(at, it, 2 * PAGE, 2);
        testbed.host.run_until_idle(at);
        test_client.evict(testbed, &[it]);
        testbed.host.run_until_idle(at);
        test_client.resident(testbed, at, &[it]);
        assert_eq!(gpu.read(Handle(it), 0..2 * PAGE), Some(vec![2; 2 * 4096]));
        test_client.close(at);
    });
}

/// Evicted during its page-in: the bytes of the last move are right, and there is no finding.
#[test]
fn an_eviction_during_page_in_keeps_the_bytes() {
    for seed in 0..20 {
        let ram = nt::Ram::new(1 << 30).unwrap();
        let (miniport, machine) = SoftGpu::with_memory(ram, MemoryPlan::default());
        let gpu = miniport.clone();
        let set_up = |log: &Arc<Log>| DriverSetup {
            miniport,
            hardware: machine,
            pool: nt::Pool::new(log.clone()),
        };
        let events = run(seed, set_up, |testbed, at| {
            testbed.kernel.set_observer(verify::Oracle::new(testbed.kernel.log().clone()));
            let test_client = PagingClient::open(testbed, at);
            let it = test_client.create(at, 4 * PAGE);
            test_client.resident(testbed, at, &[it]);
            test_client.fill(at, it, 4 * PAGE, 9);
            testbed.host.run_until_idle(at);
            for _ in 0..3 {
                test_client.evict(testbed, &[it]);
                let list = vec![Handle(it)];
                let request = MakeResidentRequest {
                    queue: test_client.queue,
                    list,
                    ..MakeResidentRequest::default()
                };
                testbed
                    .kernel
                    .make_resident(test_client.client.session().process(), &request)
                    .unwrap();
            }
            testbed.host.run_until_idle(at);
            assert_eq!(gpu.read(Handle(it), 0..4 * PAGE), Some(vec![9; 4 * 4096]));
            test_client.close(at);
        });
        let broken = events.iter().find(|event| matches!(event.kind, EventKind::RuleBroken { .. }));
        assert!(broken.is_none(), "seed {seed}: {broken:?}");
    }
}

/// Transfers come in parts: always those of a large allocation, and any under pressure. A driver
/// that ignores where a part begins is found, at either end.
#[test]
fn a_driver_that_ignores_the_offset_of_a_part_is_found() {
    for seed in 0..3 {
        for (scenario, host) in [
            ("residency-transfer-in-parts", HostKind::deterministic(seed)),
            ("residency-transfer-in-parts", HostKind::under_pressure(seed)),
            ("residency-evict-and-restore", HostKind::under_pressure(seed)),
        ] {
            for driver in ["kmd-ignores-transfer-offset", "kmd-ignores-mdl-offset"] {
                let flown = flown(driver, scenario, host);
                let first = flown.findings.first().map(|finding| finding.rule);
                let context = format!("{driver}, {scenario}, {host:?}: {:?}", flown.findings);
                assert_eq!(first, Some(RuleId::WT_BYTES_001), "{context}");
            }
            for driver in ["softgpu-memory", "table-memory", "softgpu-gpummu"] {
                let flown = flown(driver, scenario, host);
                assert!(flown.findings.is_empty(), "{driver}, {scenario}: {:?}", flown.findings);
            }
        }
    }
}
