//! Four times the video memory in a random working set of two processes that use only virtual
//! addresses: every byte is right, and a driver that writes a wrong byte is reported.
//!
//! Longer than other files: planted bugs are flown through the same test as good drivers.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::NTSTATUS;
use abi::status::STATUS_DEVICE_REMOVED;
use abi::ukm::{
    D3DDDI_EVICT_FLAGS, D3DDDI_MAPGPUVIRTUALADDRESS as Map,
    D3DDDI_RESERVEGPUVIRTUALADDRESS as Reserve, D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY as COPY,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP as MAP,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION as Operation,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP as UNMAP,
    D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE as Protection,
    D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO as RESERVE_ZERO,
};
use flight::{
    Component, HardwareModel, Host, Log, MemoryObserver, PageTableWrite, PagingMove, Passive,
    RuleId, Subject, TlbFlush, WaitResult, WaitToken, next_random,
};
use harness::memory_client::random_wants;
use harness::{KernelTestbed, attempt, verified};
use kernel::mmu::UpdateMode;
use kernel::segment::PlacementRequirements;
use kernel::{DriverSetup, Handle, Kernel};
use softgpu::format::{Command, anywhere, describe_in, encode};
use softgpu::{MemoryPlan, MmuPlan, SoftGpu};
use std::sync::{Arc, Mutex, OnceLock};
use thunk::{
    Client, CpuWait, CreateAllocation, DestroyAllocation, PagingQueue, PagingStatus, SyncObject,
};
use verify::{Finding, Oracle, Severity};
use windtunnel::HostKind;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const WRITE: Protection = Protection { Value: Protection::Write };

/// The most pages of an allocation.
const MOST: u64 = 128;

/// The packets that keep a node busy.
const MANY: u8 = 250;

type CallResult<T> = Result<T, NTSTATUS>;

const fn plan(mmu: MmuPlan) -> MemoryPlan {
    MemoryPlan {
        visible: 32 * MIB,
        local: 32 * MIB,
        aperture: 16 * MIB,
        paging_buffer: 4096,
        paging_node: 1,
        mmu: Some(mmu),
    }
}

/// The number of retries without room, and the delay between them in units of 100 ns.
const PATIENCE: u32 = 1000;
const MOMENT: u64 = 10_000;

/// An allocation, its address, and the expected contents of each page.
struct Held {
    handle: u32,
    address: u64,
    pages: Vec<u8>,
}

/// A process with its workload of the allocations.
struct ProcessWorkload {
    host: Arc<dyn Host>,
    client: Client,
    adapter: u32,
    device: u32,
    context: u32,
    queue: PagingQueue,
    /// A fence that packets signal, and its last value.
    passed: (u32, u64),
    held: Vec<Held>,
    /// Commands are fetched from it.
    program: Held,
    /// All others are read through it.
    mirror: Held,
    /// Reserved addresses, for twice the largest allocation: zero where nothing is mapped.
    window: u64,
    random: u64,
}

impl ProcessWorkload {
    fn open(kernel: &Arc<Kernel>, at: &mut Passive, seed: u64, count: usize) -> CallResult<Self> {
        let client = Client::new(kernel);
        let adapter = client.adapters(at)?[0];
        let device = client.create_device(at, adapter)?;
        // Each process has its node: packets of two nodes would run in any order.
        let node = u32::try_from(seed % 2).unwrap();
        let context = client.create_context(at, device, node)?;
        let queue = client.create_paging_queue(at, device, 0)?;
        let passed = (client.create_sync(at, device, SyncObject::Monitored(0), 0)?.object, 0);
        let nothing = || Held { handle: 0, address: 0, pages: Vec::new() };
        let mut workload = Self {
            host: kernel.host().clone(),
            client,
            adapter,
            device,
            context,
            queue,
            passed,
            held: Vec::new(),
            program: nothing(),
            mirror: nothing(),
            window: 0,
            random: seed,
        };
        workload.program = workload.create(at, 1, &anywhere())?;
        workload.mirror = workload.create(at, MOST, &anywhere())?;
        let request = Reserve {
            hPagingQueue: workload.queue.queue,
            Size: 2 * MOST * PAGE,
            ReservationType: RESERVE_ZERO,
            ..Reserve::ZERO
        };
        let (address, when) = workload.client.reserve_address(at, &request)?;
        workload.wait(at, when)?;
        workload.window = address;
        for _ in 0..count {
            let it = workload.create_any(at)?;
            workload.held.push(it);
        }
        Ok(workload)
    }

    /// Creates an empty allocation of some pages, mapped anywhere.
    fn create(
        &mut self,
        at: &mut Passive,
        pages: u64,
        wants: &PlacementRequirements,
    ) -> CallResult<Held> {
        let private = vec![describe_in(pages * PAGE, PAGE, wants)];
        let made = self.client.create(at, &CreateAllocation::new(self.device, private))?;
        let pages = vec![0; usize::try_from(pages).unwrap()];
        let mut it = Held { handle: made.allocations[0], address: 0, pages };
        it.address = self.map(at, &self.whole(&it))?;
        Ok(it)
    }

    /// Creates an allocation of 4 to 512 KiB, most of them in local memory.
    fn create_any(&mut self, at: &mut Passive) -> CallResult<Held> {
        let largest = 1 << next_random(&mut self.random, 8);
        let pages = 1 + next_random(&mut self.random, largest);
        let wants = random_wants(&mut self.random);
        self.create(at, pages, &wants)
    }

    /// A request that maps all of it anywhere.
    fn whole(&self, it: &Held) -> Map {
        Map {
            hPagingQueue: self.queue.queue,
            hAllocation: it.handle,
            SizeInPages: it.pages.len() as u64,
            Protection: WRITE,
            ..Map::ZERO
        }
    }

    /// Maps and waits until the mapping can be used.
    fn map(&self, at: &mut Passive, request: &Map) -> CallResult<u64> {
        let (address, when) = self.client.map_address(at, request)?;
        self.wait(at, when)?;
        Ok(address)
    }

    fn wait(&self, at: &mut Passive, when: PagingStatus) -> CallResult<()> {
        match when {
            PagingStatus::Resident => Ok(()),
            PagingStatus::Pending(value) => {
                self.client.wait(at, self.device, self.queue.fence, value)
            }
            PagingStatus::NoMemory(bytes) => {
                panic!("{bytes} bytes are missing, though little is listed")
            }
        }
    }

    /// Waits until all submitted work is complete.
    fn idle(&mut self, at: &mut Passive) -> CallResult<()> {
        self.passed.1 += 1;
        self.client.signal_gpu(at, self.context, &[self.passed])?;
        self.client.wait_cpu(at, self.device, &[self.passed], CpuWait::default())
    }

    /// Makes allocations resident. In a small memory the other process may leave no free range that
    /// is large enough: then the request is repeated a little later, as a client should.
    fn resident(&self, at: &mut Passive, list: &[u32]) -> CallResult<()> {
        for _ in 0..PATIENCE {
            let when = self.client.make_resident(at, self.queue.queue, list, 0)?;
            if !matches!(when, PagingStatus::NoMemory(_)) {
                return self.wait(at, when);
            }
            let until = self.host.now() + MOMENT;
            self.host.park(at, &WaitToken::new("room in memory"), Some(until));
        }
        panic!("there is no room for {list:?}, though little is listed");
    }

    /// Runs a function while these are resident. Other allocations may be evicted.
    fn with_resident(
        &self,
        at: &mut Passive,
        list: &[u32],
        submit: impl FnOnce(&mut Passive) -> CallResult<()>,
    ) -> CallResult<()> {
        let mut list = list.to_vec();
        list.sort_unstable();
        list.dedup();
        self.resident(at, &list)?;
        submit(at)?;
        let lazily = D3DDDI_EVICT_FLAGS::EvictOnlyIfNecessary;
        self.client.evict(at, self.device, &list, lazily).map(drop)
    }

    /// Executes commands that use these.
    fn submit(&self, at: &mut Passive, list: &[u32], commands: &[Command]) -> CallResult<()> {
        let packet = encode(commands);
        self.with_resident(at, list, |at| self.client.submit(at, self.context, &packet))
    }

    /// One of all allocations.
    fn any(&mut self) -> usize {
        let count = u64::try_from(self.held.len()).unwrap();
        usize::try_from(next_random(&mut self.random, count)).unwrap()
    }

    fn some_pages(&mut self, of: usize) -> (u64, u64) {
        let pages = u64::try_from(self.held[of].pages.len()).unwrap();
        let first = next_random(&mut self.random, pages);
        (first, 1 + next_random(&mut self.random, pages - first))
    }

    /// Runs a random action.
    fn turn(&mut self, at: &mut Passive) -> CallResult<()> {
        match next_random(&mut self.random, 24) {
            0 => self.map_elsewhere(at),
            1 => self.free_a_part(at),
            2 => self.through_the_window(at),
            3 => self.replace(at),
            4..8 => {
                let (list, commands) = self.commands();
                self.fetched(at, list, &commands)
            }
            _ => {
                let (list, commands) = self.commands();
                self.submit(at, &list, &commands)
            }
        }
    }

    /// Commands that fill pages of one allocation, and copy pages to another.
    fn commands(&mut self) -> (Vec<u32>, [Command; 2]) {
        let (from, to) = (self.any(), self.any());
        let value = u8::try_from(next_random(&mut self.random, 255)).unwrap() + 1;
        let (first, length) = self.some_pages(from);
        let fill = Command::FillAt {
            address: self.held[from].address + first * PAGE,
            length: length * PAGE,
            value,
        };
        set(&mut self.held[from].pages, first, &vec![value; usize::try_from(length).unwrap()]);
        let pages = self.held[from].pages.len().min(self.held[to].pages.len());
        let moved = 1 + next_random(&mut self.random, u64::try_from(pages).unwrap());
        let [source, target] = [from, to].map(|index| self.held[index].address);
        let copy = Command::CopyAt { from: source, to: target, length: moved * PAGE };
        let bytes = self.held[from].pages[..usize::try_from(moved).unwrap()].to_vec();
        set(&mut self.held[to].pages, 0, &bytes);
        (vec![self.held[from].handle, self.held[to].handle], [fill, copy])
    }

    /// A packet writes a program, byte by byte, and the next packet fetches it.
    fn fetched(
        &self,
        at: &mut Passive,
        mut list: Vec<u32>,
        commands: &[Command],
    ) -> CallResult<()> {
        let program = encode(commands);
        let write =
            |(address, value): (u64, &u8)| Command::FillAt { address, length: 1, value: *value };
        let writes: Vec<Command> = (self.program.address..).zip(&program).map(write).collect();
        list.push(self.program.handle);
        let length = u32::try_from(program.len()).unwrap();
        let address = self.program.address;
        self.with_resident(at, &list, |at| {
            self.client.submit(at, self.context, &encode(&writes))?;
            self.client.submit_at(at, self.context, address, length)
        })
    }

    /// Frees all addresses of an allocation and maps it elsewhere.
    fn map_elsewhere(&mut self, at: &mut Passive) -> CallResult<()> {
        let it = self.any();
        self.idle(at)?;
        let (address, size) = (self.held[it].address, self.held[it].pages.len() as u64 * PAGE);
        self.client.free_address(at, self.adapter, address, size)?;
        let lowest = next_random(&mut self.random, 6 * 1024) * MIB;
        let request = Map { MinimumAddress: lowest, ..self.whole(&self.held[it]) };
        self.held[it].address = self.map(at, &request)?;
        Ok(())
    }

    /// Frees some addresses of an allocation and maps them again.
    fn free_a_part(&mut self, at: &mut Passive) -> CallResult<()> {
        let it = self.any();
        let (first, length) = self.some_pages(it);
        self.idle(at)?;
        let base = self.held[it].address + first * PAGE;
        self.client.free_address(at, self.adapter, base, length * PAGE)?;
        let request = Map {
            BaseAddress: base,
            OffsetInPages: first,
            SizeInPages: length,
            ..self.whole(&self.held[it])
        };
        assert_eq!(self.map(at, &request)?, base);
        Ok(())
    }

    /// Updates reserved addresses, twice the same pages, and works there.
    fn through_the_window(&mut self, at: &mut Passive) -> CallResult<()> {
        let (it, to) = (self.any(), self.any());
        let (first, length) = self.some_pages(it);
        let (base, copied) = (self.window, self.window + MOST * PAGE);
        let size = self.held[it].pages.len() as u64 * PAGE;
        let handle = self.held[it].handle;
        self.update(
            at,
            &[
                operation(MAP, &[base, size, handle.into(), 0, size]),
                operation(COPY, &[base, size, copied]),
            ],
        )?;
        let value = u8::try_from(next_random(&mut self.random, 255)).unwrap() + 1;
        let address = base + first * PAGE;
        let fill = Command::FillAt { address, length: length * PAGE, value };
        set(&mut self.held[it].pages, first, &vec![value; usize::try_from(length).unwrap()]);
        let target = self.held[to].address;
        let copy = Command::CopyAt { from: copied + first * PAGE, to: target, length: PAGE };
        set(&mut self.held[to].pages, 0, &[value]);
        let list = [handle, self.held[to].handle];
        self.submit(at, &list, &[fill, copy])?;
        self.idle(at)?;
        let window = 2 * MOST * PAGE;
        self.update(at, &[operation(UNMAP, &[base, window, Protection::Zero])])
    }

    /// Updates addresses that no packet uses, and waits until that is complete.
    fn update(&mut self, at: &mut Passive, operations: &[Operation]) -> CallResult<()> {
        self.idle(at)?;
        self.client.update_address(at, self.device, operations, None)?;
        // The update has no fence value; paging work completes in order, so a later operation has
        // one.
        let again = Map { BaseAddress: self.program.address, ..self.whole(&self.program) };
        self.map(at, &again).map(drop)
    }

    /// Destroys an allocation, whose addresses are freed after its packets, and creates another.
    fn replace(&mut self, at: &mut Passive) -> CallResult<()> {
        let it = self.any();
        let list = vec![self.held[it].handle];
        self.client.destroy(
            at,
            &DestroyAllocation { device: self.device, list, ..DestroyAllocation::default() },
        )?;
        self.held[it] = self.create_any(at)?;
        Ok(())
    }

    /// Reads everything back through its addresses and at its location, and compares it.
    fn compare(
        &mut self,
        at: &mut Passive,
        kernel: &Kernel,
        gpu: &dyn HardwareModel,
    ) -> CallResult<()> {
        let process = self.client.session().process();
        let peek = |handle: u32, pages: &[u8], what: &str| {
            let address = kernel.address_of(process, Handle(handle)).unwrap();
            let mut read = vec![0; pages.len() * 4096];
            assert!(gpu.peek(address, &mut read), "{what} is not there");
            for (page, (found, value)) in read.chunks(4096).zip(pages).enumerate() {
                let right = found.iter().all(|byte| byte == value);
                assert!(right, "page {page} of {what} is not all {value:#x}");
            }
        };
        for place in 0..self.held.len() {
            let it = &self.held[place];
            let (mirror, list) = (&self.mirror, [it.handle, self.mirror.handle]);
            let length = it.pages.len() as u64 * PAGE;
            let copy = Command::CopyAt { from: it.address, to: mirror.address, length };
            self.resident(at, &list)?;
            self.client.submit(at, self.context, &encode(&[copy]))?;
            self.idle(at)?;
            let it = &self.held[place];
            peek(it.handle, &it.pages, &format!("allocation {place}"));
            peek(self.mirror.handle, &it.pages, &format!("the mirror of allocation {place}"));
            let lazily = D3DDDI_EVICT_FLAGS::EvictOnlyIfNecessary;
            self.client.evict(at, self.device, &list, lazily)?;
        }
        Ok(())
    }

    /// Frees addresses that packets in flight use.
    fn free_too_early(&self, at: &mut Passive) -> CallResult<()> {
        let it = &self.held[0];
        let length = it.pages.len() as u64 * PAGE;
        self.with_resident(at, &[it.handle], |at| {
            for value in 0..MANY {
                let fill = Command::FillAt { address: it.address, length, value };
                self.client.submit(at, self.context, &encode(&[fill]))?;
            }
            self.client.free_address(at, self.adapter, it.address, length)
        })
    }

    fn close(self, at: &mut Passive) -> CallResult<()> {
        self.client.destroy_device(at, self.device)?;
        self.client.close_adapter(at, self.adapter)?;
        self.client.end(at);
        Ok(())
    }
}

/// The configuration of two processes.
#[derive(Clone, Copy)]
struct WorkloadOptions {
    /// The allocations of both.
    allocations: usize,
    turns: usize,
    /// Bytes are compared at the end; with a bad driver they may be wrong.
    compares: bool,
    /// The first process frees too early.
    hasty: bool,
    /// All bytes are compared at every move, which is slow; page tables are always compared.
    watched: bool,
}

/// Observes page tables only.
struct OnlyTables(Arc<Oracle>);

impl MemoryObserver for OnlyTables {
    fn paging_started(&self, _it: &PagingMove<'_>) {}

    fn paging_finished(&self, _it: &PagingMove<'_>) {}

    fn packet_ran(&self) {}

    fn forget(&self, _of: Subject) {}

    fn table_write_started(&self, it: &PageTableWrite<'_>) {
        self.0.table_write_started(it);
    }

    fn table_write_finished(&self, it: &PageTableWrite<'_>) {
        self.0.table_write_finished(it);
    }

    fn table_forgotten(&self, table: (u32, u64), of: Subject) {
        self.0.table_forgotten(table, of);
    }

    fn tlb_flushed(&self, it: &TlbFlush<'_>) {
        self.0.tlb_flushed(it);
    }
}

impl WorkloadOptions {
    fn run(
        self,
        at: &mut Passive,
        kernel: &Arc<Kernel>,
        gpu: &dyn HardwareModel,
        seed: u64,
    ) -> CallResult<()> {
        let mut workload = ProcessWorkload::open(kernel, at, seed, self.allocations / 2)?;
        let client = workload.client.clone();
        let result = self.work(at, &mut workload, (kernel, gpu), seed);
        if result.is_err() {
            client.kill(at);
            return result;
        }
        workload.close(at)
    }

    fn work(
        self,
        at: &mut Passive,
        workload: &mut ProcessWorkload,
        (kernel, gpu): (&Kernel, &dyn HardwareModel),
        seed: u64,
    ) -> CallResult<()> {
        for turn in 0..self.turns / 2 {
            workload.turn(at)?;
            // Packets and paging work use two nodes.
            if self.hasty && seed == 2 && turn == self.turns / 4 {
                workload.free_too_early(at)?;
            }
        }
        if self.compares {
            workload.compare(at, kernel, gpu)?;
        }
        // The last entry is destroyed with the process.
        let (from, to) = (workload.window, workload.mirror.address);
        let look = Command::CopyAt { from, to, length: MOST * PAGE };
        workload.submit(at, &[workload.mirror.handle], &[look])?;
        workload.idle(at)
    }
}

/// The result of a test run.
struct RunResult {
    /// The statuses that ended a process early.
    refused: Vec<NTSTATUS>,
    /// What is wrong at the end.
    left: Option<String>,
    findings: Vec<Finding>,
}

/// Runs the test on a driver. Each process has its own thread; page tables are compared, too.
fn run_workloads(
    on: HostKind,
    make: impl FnOnce(&Arc<Log>) -> DriverSetup,
    options: WorkloadOptions,
) -> RunResult {
    let (kept, machine) = (OnceLock::new(), OnceLock::new());
    let set_up = |log: &Arc<Log>| {
        let setup = make(log);
        let _ = kept.set(log.clone());
        let _ = machine.set(setup.hardware.clone());
        setup
    };
    let refused = Arc::new(Mutex::new(Vec::new()));
    let flown = attempt(on, set_up, |testbed: &KernelTestbed, at| {
        let oracle = Oracle::new(testbed.kernel.log().clone());
        if options.watched {
            testbed.kernel.set_observer(oracle);
        } else {
            testbed.kernel.set_observer(Arc::new(OnlyTables(oracle)));
        }
        let work = |seed: u64| {
            let (kernel, gpu) = (testbed.kernel.clone(), machine.get().cloned().unwrap());
            let refused = refused.clone();
            testbed.host.spawn(&format!("client {seed}"), move |at| {
                let result = options.run(at, &kernel, &*gpu, seed);
                refused.lock().unwrap().extend(result.err());
            })
        };
        for end in [work(1), work(2)] {
            assert_eq!(testbed.host.park(at, &end, None), WaitResult::Woken);
        }
        Ok(())
    });
    let (events, left) = match flown {
        Ok(events) => (events, None),
        Err(why) => (kept.get().unwrap().take(), Some(why)),
    };
    let verifier = verified(&events);
    windtunnel::keep_tally(verifier.rule_counts());
    windtunnel::keep_tally(&kept.get().unwrap().rule_counts());
    let loud = verifier.findings().iter().filter(|finding| finding.severity > Severity::Note);
    let refused = std::mem::take(&mut *refused.lock().unwrap());
    RunResult { refused, left, findings: loud.cloned().collect() }
}

/// A run on good hardware with memory for a quarter of all allocations.
fn go(on: HostKind, mmu: MmuPlan, allocations: usize, turns: usize) {
    let ram = nt::Ram::new(1 << 30).unwrap();
    let share = 4096 / allocations as u64;
    let all = plan(mmu);
    let plan = MemoryPlan { visible: all.visible / share, local: all.local / share, ..all };
    let (miniport, machine) = SoftGpu::with_memory(ram.clone(), plan);
    machine.fill_local(0xdddd_dddd);
    let before = ram.allocated_bytes();
    let _gpu = machine.clone(); // Its memory is taken as long as it is there.
    let set_up = |log: &Arc<Log>| DriverSetup {
        miniport,
        hardware: machine,
        pool: nt::Pool::new(log.clone()),
    };
    let result = run_workloads(
        on,
        set_up,
        WorkloadOptions {
            allocations,
            turns,
            compares: true,
            hasty: false,
            watched: allocations <= 256,
        },
    );
    assert_eq!((result.findings, result.left), (Vec::new(), None), "no findings and no leaks");
    assert_eq!(result.refused, Vec::<NTSTATUS>::new(), "every call succeeds");
    assert_eq!(ram.allocated_bytes(), before, "pages of the machine's memory were leaked");
}

#[test]
fn every_byte_is_right_in_an_order_drawn_from_a_seed() {
    go(HostKind::deterministic(1), MmuPlan::default(), 1024, 1000);
}

#[test]
fn every_byte_is_right_with_threads_side_by_side() {
    go(HostKind::Threaded, MmuPlan::default(), 1024, 1000);
}

#[test]
fn every_byte_is_right_under_pressure() {
    go(HostKind::under_pressure(7), MmuPlan::default(), 512, 600);
}

#[test]
fn every_byte_is_right_with_cpu_and_gpu_written_tables() {
    let by_address = MmuPlan { mode: UpdateMode::Virtual, ..MmuPlan::default() };
    for mmu in [MmuPlan::TWO_LEVELS, MmuPlan::BY_CPU, by_address] {
        for on in [HostKind::deterministic(2), HostKind::under_pressure(3), HostKind::Threaded] {
            go(on, mmu, 128, 120);
        }
    }
}

/// A driver of the registry in a small run of this kind.
fn planted(driver: &str, on: HostKind, hasty: bool) -> RunResult {
    let make = drivers::find(driver).unwrap().make;
    let compares = driver == "table-gpummu";
    let options = WorkloadOptions { allocations: 256, turns: 240, compares, hasty, watched: false };
    run_workloads(on, make, options)
}

/// Checks the blamed component, the first rule found, and its message.
fn named(result: &RunResult, component: Component, rule: RuleId, parts: &[&str]) {
    let first = result.findings.first().unwrap_or_else(|| panic!("{} is not found", rule.name()));
    assert_eq!((first.rule.name(), first.component), (rule.name(), component), "{}", first.message);
    let missing = parts.iter().find(|text| !first.message.contains(**text));
    assert_eq!(missing, None, "{}", first.message);
    let others: Vec<_> =
        result.findings.iter().filter(|finding| finding.component != component).collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(result.left, None);
}

#[test]
fn a_stale_tlb_entry_is_reported() {
    let parts = &["after the flush from 0x", " of process ", "the GPU finds page 0x", " at 0x"];
    for driver in ["kmd-ignores-tlb-flush", "kmd-flushes-one-tlb-page"] {
        let result = planted(driver, HostKind::deterministic(1), false);
        named(&result, Component::Driver, RuleId::WT_TABLES_001, parts);
    }
    let result = planted("kmd-ignores-full-tlb-flush", HostKind::deterministic(1), false);
    let parts =
        &["after the flush of the whole address space of address-space ", " of process ", " at 0x"];
    named(&result, Component::Driver, RuleId::KMD_PAGING_024, parts);
}

#[test]
fn a_page_table_entry_in_a_wrong_unit_is_reported() {
    let result = planted("kmd-writes-page-address-entries", HostKind::deterministic(1), false);
    let parts = &[
        "the update (paging ",
        " of a table of level 2 ",
        "translate from 0x0 on for address-space ",
        " of process ",
        "left entry 0 as page 0x2000 of segment 3 where page 0x2 of segment 3 must be",
    ];
    named(&result, Component::Driver, RuleId::WT_TABLES_001, parts);
}

#[test]
fn addresses_freed_under_a_packet_are_reported() {
    for on in [HostKind::deterministic(1), HostKind::deterministic(2), HostKind::under_pressure(1)]
    {
        let result = planted("softgpu-gpummu", on, true);
        let parts =
            &["a packet of context ", " touched address 0x", "which was freed while it was"];
        named(&result, Component::Client, RuleId::GPUVA_FREE_002, parts);
        // Only its device is lost.
        assert_eq!(result.refused, [STATUS_DEVICE_REMOVED]);
    }
}

#[test]
fn a_table_driver_gets_every_byte_right() {
    for on in [HostKind::deterministic(1), HostKind::under_pressure(2), HostKind::Threaded] {
        let result = planted("table-gpummu", on, false);
        assert_eq!((result.findings, result.left), (Vec::new(), None));
        assert_eq!(result.refused, Vec::<NTSTATUS>::new());
    }
}

fn operation(kind: i32, data: &[u64]) -> Operation {
    let mut all = [0; 7];
    all[..data.len()].copy_from_slice(data);
    Operation { OperationType: kind, Data: all }
}

fn set(pages: &mut [u8], first: u64, values: &[u8]) {
    let first = usize::try_from(first).unwrap();
    pages[first..first + values.len()].copy_from_slice(values);
}
