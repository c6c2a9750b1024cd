//! An adapter with page tables that is reset as a whole: later clients, in an older process or a
//! new one, map and draw, and every byte is right.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::kmt::{D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_DEVICEEXECUTION_RESET};
use abi::status::STATUS_DEVICE_REMOVED;
use abi::ukm::{
    D3DDDI_MAPGPUVIRTUALADDRESS as Map, D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE as Protection,
};
use flight::{Dispatch, Fence, HardwareModel, Log, Passive};
use harness::{KernelTestbed, run, verified};
use kernel::miniport::{DriverResult, Features, Miniport};
use kernel::operation::{BuildPagingBufferArgs, SubmitPagingArgs};
use kernel::{DriverSetup, Handle};
use softgpu::format::{Command, anywhere, describe_in, encode};
use softgpu::{Gpu, MemoryPlan, MmuPlan, SoftGpu};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use thunk::{Client, CreateAllocation, PagingQueue, PagingStatus};
use verify::{Finding, Oracle, Severity};
use windtunnel::HostKind;

const PAGE: u64 = 4096;
const PAGES: u64 = 24;
const MIB: u64 = 1 << 20;

/// A second, in the host's time.
const SECOND: u64 = 10_000_000;

/// The contents of lost memory: entries that look valid.
const NOISE: u32 = 0xdddd_dddd;

/// The number of bytes of private data of each paging buffer.
const PRIVATE: u32 = 8;

/// The built-in driver without per-engine reset; memory is lost in a full reset.
struct Whole {
    driver: Arc<SoftGpu>,
    gpu: Arc<Gpu>,
    /// Whether the driver is between a reset and the restart.
    resetting: AtomicBool,
    /// Number of paging operations that were built in that time.
    built: AtomicU32,
}

impl Whole {
    fn new(driver: Arc<SoftGpu>, gpu: Arc<Gpu>) -> Self {
        Self { driver, gpu, resetting: AtomicBool::new(false), built: AtomicU32::new(0) }
    }
}

impl Miniport for Whole {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn query_adapter_info(&self, at: &mut Passive) -> DriverResult<Features> {
        let mut features = self.driver.query_adapter_info(at)?;
        features.scheduling.engine_reset = false;
        if let Some(memory) = &mut features.memory {
            memory.paging.private = PRIVATE;
        }
        Ok(features)
    }

    fn build_paging_buffer(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
    ) -> DriverResult<()> {
        if self.resetting.load(SeqCst) {
            self.built.fetch_add(1, SeqCst);
            assert_eq!(args.private, [0; PRIVATE as usize], "of a buffer after the reset");
        }
        self.driver.build_paging_buffer(at, args)
    }

    fn reset_from_timeout(&self, at: &mut Passive) -> DriverResult<()> {
        self.driver.reset_from_timeout(at)?;
        self.gpu.fill_local(NOISE);
        self.resetting.store(true, SeqCst);
        Ok(())
    }

    fn restart_from_timeout(&self, at: &mut Passive) -> DriverResult<()> {
        self.resetting.store(false, SeqCst);
        self.driver.restart_from_timeout(at)
    }
}

/// A device with a context and a mapped allocation.
struct Fixture {
    client: Client,
    adapter: u32,
    device: u32,
    context: u32,
    queue: PagingQueue,
    allocation: u32,
    address: u64,
}

impl Fixture {
    fn open(client: &Client, at: &mut Passive) -> Self {
        let adapter = client.adapters(at).unwrap()[0];
        let device = client.create_device(at, adapter).unwrap();
        let context = client.create_context(at, device, 0).unwrap();
        let queue = client.create_paging_queue(at, device, 0).unwrap();
        let private = vec![describe_in(PAGES * PAGE, PAGE, &anywhere())];
        let allocation =
            client.create(at, &CreateAllocation::new(device, private)).unwrap().allocations[0];
        let client = client.clone();
        let mut fixture = Self { client, adapter, device, context, queue, allocation, address: 0 };
        let request = Map {
            hPagingQueue: fixture.queue.queue,
            hAllocation: allocation,
            SizeInPages: PAGES,
            Protection: Protection { Value: Protection::Write },
            ..Map::ZERO
        };
        let (address, when) = fixture.client.map_address(at, &request).unwrap();
        fixture.wait(at, when);
        fixture.address = address;
        let list = [allocation];
        let when = fixture.client.make_resident(at, fixture.queue.queue, &list, 0).unwrap();
        fixture.wait(at, when);
        fixture
    }

    fn wait(&self, at: &mut Passive, when: PagingStatus) {
        if let PagingStatus::Pending(value) = when {
            self.client.wait(at, self.device, self.queue.fence, value).unwrap();
        }
    }

    /// Draws through virtual addresses and checks the result.
    fn draw(&self, testbed: &KernelTestbed, at: &mut Passive, gpu: &dyn HardwareModel, value: u8) {
        let fill = Command::FillAt { address: self.address, length: PAGE, value };
        let (from, to) = (self.address, self.address + (PAGES - 1) * PAGE);
        let copy = Command::CopyAt { from, to, length: PAGE };
        self.client.submit(at, self.context, &encode(&[fill, copy])).unwrap();
        testbed.host.run_until_idle(at);
        let process = self.client.session().process();
        let place = testbed.kernel.address_of(process, Handle(self.allocation)).unwrap();
        for page in [0, PAGES - 1] {
            let mut read = vec![0; 4096];
            assert!(gpu.peek(place + page * PAGE, &mut read), "page {page} is not there");
            assert!(read.iter().all(|byte| *byte == value), "page {page} is not all {value:#x}");
        }
    }

    fn state(&self, at: &mut Passive) -> i32 {
        self.client.device_state(at, self.device).unwrap()
    }

    fn close(self, at: &mut Passive) {
        self.client.destroy_device(at, self.device).unwrap();
        self.client.close_adapter(at, self.adapter).unwrap();
    }
}

/// Lets seconds pass until the stalled node was queried, preempted, and given up.
fn give_up(testbed: &KernelTestbed, at: &mut Passive) {
    let start = testbed.host.now();
    for turn in 0..6 {
        testbed.kernel.check_timeouts(testbed.adapter, start + 3 * turn * SECOND);
        testbed.host.run_until_idle(at);
    }
}

fn reset(on: HostKind, mmu: MmuPlan) {
    let ram = nt::Ram::new(256 * MIB).unwrap();
    let plan =
        MemoryPlan { visible: 8 * MIB, local: 8 * MIB, mmu: Some(mmu), ..MemoryPlan::default() };
    let (good, machine) = SoftGpu::with_memory(ram, plan);
    machine.fill_local(NOISE);
    let gpu = machine.clone();
    let whole = Arc::new(Whole::new(good, machine.clone()));
    let miniport = whole.clone();
    let set_up = |log: &Arc<Log>| DriverSetup {
        miniport,
        hardware: machine,
        pool: nt::Pool::new(log.clone()),
    };
    let events = run(on, set_up, |testbed, at| {
        testbed.kernel.set_observer(Oracle::new(testbed.kernel.log().clone()));
        let (one, two) = (Client::new(&testbed.kernel), Client::new(&testbed.kernel));
        let (hangs, works) = (Fixture::open(&one, at), Fixture::open(&two, at));
        works.draw(testbed, at, &*gpu, 7);
        one.submit(at, hangs.context, &encode(&[Command::Hang])).unwrap();
        give_up(testbed, at);
        assert_eq!(hangs.state(at), D3DKMT_DEVICEEXECUTION_HUNG);
        assert_eq!(works.state(at), D3DKMT_DEVICEEXECUTION_RESET);
        let later = two.submit(at, works.context, &encode(&[]));
        assert_eq!(later, Err(STATUS_DEVICE_REMOVED));
        // The older processes have address spaces with ranges; a third process has neither.
        let three = Client::new(&testbed.kernel);
        let fixtures = [&one, &two, &three].map(|client| Fixture::open(client, at));
        assert_ne!(fixtures[0].address, hangs.address, "that one is still taken");
        for (fixture, value) in fixtures.iter().zip(20..) {
            fixture.draw(testbed, at, &*gpu, value);
        }
        hangs.close(at);
        for (fixture, value) in fixtures.iter().zip(30..) {
            fixture.draw(testbed, at, &*gpu, value);
        }
        works.close(at);
        for (fixture, value) in fixtures.into_iter().zip(40..) {
            fixture.draw(testbed, at, &*gpu, value);
            fixture.close(at);
        }
        for client in [one, two, three] {
            client.end(at);
        }
    });
    let count = |name: &str| events.iter().filter(|event| event.kind.name() == name).count();
    assert_eq!(count("adapter.reset"), 1, "{on:?}");
    assert!(whole.built.load(SeqCst) > 0, "{on:?}: nothing was discarded");
    let verifier = verified(&events);
    windtunnel::keep_tally(verifier.rule_counts());
    // The rules that bind the kernel in a reset are tested elsewhere.
    let loud = |finding: &&Finding| finding.severity > Severity::Note;
    assert_eq!(verifier.findings().iter().find(loud), None, "{on:?}, {mmu:?}");
}

#[test]
fn after_an_adapter_reset_addresses_map_the_right_memory() {
    for mmu in [MmuPlan::default(), MmuPlan::TWO_LEVELS, MmuPlan::BY_CPU] {
        for on in (1..6).map(HostKind::deterministic).chain([
            HostKind::under_pressure(1),
            HostKind::under_pressure(2),
            HostKind::Threaded,
        ]) {
            reset(on, mmu);
        }
    }
}

/// The built-in driver with a paging node that ignores work from a given moment until the reset.
struct IgnoresInterrupts {
    driver: Arc<SoftGpu>,
    now: AtomicBool,
}

impl Miniport for IgnoresInterrupts {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn query_adapter_info(&self, at: &mut Passive) -> DriverResult<Features> {
        let mut features = self.driver.query_adapter_info(at)?;
        features.scheduling.engine_reset = false;
        Ok(features)
    }

    fn submit_paging(&self, at: &mut Dispatch, packet: &SubmitPagingArgs<'_>) -> DriverResult<()> {
        if self.now.load(SeqCst) { Ok(()) } else { self.driver.submit_paging(at, packet) }
    }

    fn preempt_command(&self, at: &mut Dispatch, node: u32, preemption: Fence) -> DriverResult<()> {
        if self.now.load(SeqCst) {
            Ok(())
        } else {
            self.driver.preempt_command(at, node, preemption)
        }
    }

    fn reset_from_timeout(&self, at: &mut Passive) -> DriverResult<()> {
        self.now.store(false, SeqCst);
        self.driver.reset_from_timeout(at)
    }
}

/// A context is being created inside the driver and waits for its root page table, which is never
/// written. So the adapter has to be reset, and the reset waits for no caller inside.
#[test]
fn a_wait_for_page_tables_inside_a_call_does_not_block_the_reset() {
    for on in (1..20).map(HostKind::deterministic).chain([HostKind::Threaded]) {
        let ram = nt::Ram::new(256 * MIB).unwrap();
        let mmu = Some(MmuPlan::default());
        let plan = MemoryPlan { visible: 8 * MIB, local: 8 * MIB, mmu, ..MemoryPlan::default() };
        let (driver, machine) = SoftGpu::with_memory(ram, plan);
        let miniport = Arc::new(IgnoresInterrupts { driver, now: AtomicBool::new(false) });
        let setup = miniport.clone();
        let set_up = |log: &Arc<Log>| DriverSetup {
            miniport: setup,
            hardware: machine,
            pool: nt::Pool::new(log.clone()),
        };
        let events = run(on, set_up, |testbed, at| {
            let client = Client::new(&testbed.kernel);
            let adapter = client.adapters(at).unwrap()[0];
            miniport.now.store(true, SeqCst);
            let device = client.create_device(at, adapter).unwrap();
            assert_eq!(client.create_context(at, device, 0), Err(STATUS_DEVICE_REMOVED), "{on:?}");
            testbed.host.run_until_idle(at);
            client.destroy_device(at, device).unwrap();
            client.close_adapter(at, adapter).unwrap();
            // The adapter works again.
            Fixture::open(&client, at).close(at);
            client.end(at);
        });
        let named = |name: &str| events.iter().any(|event| event.kind.name() == name);
        assert!(named("adapter.restarted") && !named("wait.stuck"), "{on:?}");
    }
}
