//! Four times the video memory in a random working set of two processes: every byte is right.
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use flight::{HardwareModel, Log, Passive, WaitResult, next_random};
use harness::memory_client::random_wants;
use harness::{KernelTestbed, run};
use kernel::{DriverSetup, Handle, Kernel};
use softgpu::format::{Command, describe_in, encode};
use softgpu::{MemoryPlan, SoftGpu};
use std::sync::Arc;
use thunk::{Client, CreateAllocation, PagingQueue, PagingStatus};
use windtunnel::HostKind;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const PLAN: MemoryPlan = MemoryPlan {
    visible: 32 * MIB,
    local: 32 * MIB,
    aperture: 16 * MIB,
    paging_buffer: 4096,
    paging_node: 1,
    mmu: None,
};

/// An allocation, and the expected contents of each page.
struct Held {
    handle: u32,
    pages: Vec<u8>,
}

/// A process with its workload of the allocations.
struct ProcessWorkload {
    client: Client,
    adapter: u32,
    device: u32,
    context: u32,
    queue: PagingQueue,
    held: Vec<Held>,
    random: u64,
}

impl ProcessWorkload {
    fn open(kernel: &Arc<Kernel>, at: &mut Passive, seed: u64, count: usize) -> Self {
        let client = Client::new(kernel);
        let adapter = client.adapters(at).unwrap()[0];
        let device = client.create_device(at, adapter).unwrap();
        // Each process has its node: packets of two nodes would run in any order.
        let node = u32::try_from(seed % 2).unwrap();
        let context = client.create_context(at, device, node).unwrap();
        let queue = client.create_paging_queue(at, device, 0).unwrap();
        let mut workload =
            Self { client, adapter, device, context, queue, held: Vec::new(), random: seed };
        for _ in 0..count {
            workload.create(at);
        }
        workload
    }

    /// An allocation of 4 to 512 KiB, most of them in local memory.
    fn create(&mut self, at: &mut Passive) {
        let largest = 1 << next_random(&mut self.random, 8);
        let pages = 1 + next_random(&mut self.random, largest.max(1));
        let wants = random_wants(&mut self.random);
        let private = vec![describe_in(pages * PAGE, PAGE, &wants)];
        let made = self.client.create(at, &CreateAllocation::new(self.device, private)).unwrap();
        let pages = vec![0; usize::try_from(pages).unwrap()];
        self.held.push(Held { handle: made.allocations[0], pages });
    }

    /// Makes allocations resident and waits until they are.
    fn resident(&self, at: &mut Passive, list: &[u32]) {
        match self.client.make_resident(at, self.queue.queue, list, 0).unwrap() {
            PagingStatus::Resident => (),
            PagingStatus::Pending(value) => {
                self.client.wait(at, self.device, self.queue.fence, value).unwrap();
            }
            PagingStatus::NoMemory(bytes) => {
                panic!("{bytes} bytes are missing, though little is listed")
            }
        }
    }

    /// Allocations that are not listed may be evicted.
    fn let_go(&self, at: &mut Passive, list: &[u32]) {
        let lazily = abi::ukm::D3DDDI_EVICT_FLAGS::EvictOnlyIfNecessary;
        self.client.evict(at, self.device, list, lazily).unwrap();
    }

    /// A packet that fills pages of one allocation, and copies pages to another.
    fn packet(&mut self, at: &mut Passive) {
        let count = u64::try_from(self.held.len()).unwrap();
        let [from, to] =
            [0; 2].map(|_| usize::try_from(next_random(&mut self.random, count)).unwrap());
        let value = u8::try_from(next_random(&mut self.random, 255)).unwrap() + 1;
        let (first, length) = self.some_pages(from);
        let fill = Command::Fill {
            target: Handle(self.held[from].handle),
            offset: first * PAGE,
            length: length * PAGE,
            value,
        };
        set(&mut self.held[from].pages, first, &vec![value; usize::try_from(length).unwrap()]);
        let pages = self.held[from].pages.len().min(self.held[to].pages.len());
        let moved = 1 + next_random(&mut self.random, u64::try_from(pages).unwrap());
        let copy = Command::Copy {
            from: Handle(self.held[from].handle),
            from_offset: 0,
            to: Handle(self.held[to].handle),
            to_offset: 0,
            length: moved * PAGE,
        };
        let bytes = self.held[from].pages[..usize::try_from(moved).unwrap()].to_vec();
        set(&mut self.held[to].pages, 0, &bytes);
        let mut list = vec![self.held[from].handle, self.held[to].handle];
        list.dedup();
        self.resident(at, &list);
        self.client.submit(at, self.context, &encode(&[fill, copy])).unwrap();
        self.let_go(at, &list);
    }

    fn some_pages(&mut self, of: usize) -> (u64, u64) {
        let pages = u64::try_from(self.held[of].pages.len()).unwrap();
        let first = next_random(&mut self.random, pages);
        (first, 1 + next_random(&mut self.random, pages - first))
    }

    /// Reads everything back and compares it.
    fn compare(&self, at: &mut Passive, kernel: &Kernel, gpu: &dyn HardwareModel) {
        for (place, it) in self.held.iter().enumerate() {
            self.resident(at, &[it.handle]);
            let process = self.client.session().process();
            let address = kernel.address_of(process, Handle(it.handle)).unwrap();
            let mut read = vec![0; it.pages.len() * 4096];
            assert!(gpu.peek(address, &mut read), "allocation {place} is not there");
            for (page, (found, value)) in read.chunks(4096).zip(&it.pages).enumerate() {
                let right = found.iter().all(|byte| byte == value);
                assert!(right, "page {page} of allocation {place} is not all {value:#x}");
            }
            self.let_go(at, &[it.handle]);
        }
    }

    fn close(self, at: &mut Passive) {
        self.client.destroy_device(at, self.device).unwrap();
        self.client.close_adapter(at, self.adapter).unwrap();
        self.client.end(at);
    }
}

/// Two processes, each with its own thread, with this many packets each.
fn go(on: HostKind, allocations: usize, packets: usize) {
    let ram = nt::Ram::new(1 << 30).unwrap();
    let (miniport, machine) = SoftGpu::with_memory(ram.clone(), PLAN);
    let before = ram.allocated_bytes();
    let gpu: Arc<dyn HardwareModel> = machine.clone();
    let set_up = |log: &Arc<Log>| DriverSetup {
        miniport,
        hardware: machine,
        pool: nt::Pool::new(log.clone()),
    };
    run(on, set_up, |testbed: &KernelTestbed, at| {
        let work = |seed: u64| {
            let (kernel, gpu) = (testbed.kernel.clone(), gpu.clone());
            testbed.host.spawn(&format!("client {seed}"), move |at| {
                let mut workload = ProcessWorkload::open(&kernel, at, seed, allocations / 2);
                let pages: usize = workload.held.iter().map(|held| held.pages.len()).sum();
                let share = (PLAN.visible + PLAN.local) * allocations as u64 / 4096;
                assert!(pages as u64 * PAGE >= 2 * share, "workload of four times the memory");
                for _ in 0..packets / 2 {
                    workload.packet(at);
                }
                // Submitted work is complete when its context is destroyed.
                workload.client.destroy_context(at, workload.context).unwrap();
                workload.compare(at, &kernel, &*gpu);
                workload.close(at);
            })
        };
        for end in [work(1), work(2)] {
            assert_eq!(testbed.host.park(at, &end, None), WaitResult::Woken);
        }
    });
    assert_eq!(ram.allocated_bytes(), before, "pages of the machine's memory were left behind");
}

#[test]
fn every_byte_is_right_in_an_order_drawn_from_a_seed() {
    go(HostKind::deterministic(1), 4096, 10_000);
}

#[test]
fn every_byte_is_right_with_threads_side_by_side() {
    go(HostKind::Threaded, 4096, 10_000);
}

#[test]
fn every_byte_is_right_under_pressure() {
    go(HostKind::under_pressure(7), 2048, 2_000);
}

fn set(pages: &mut [u8], first: u64, values: &[u8]) {
    let first = usize::try_from(first).unwrap();
    pages[first..first + values.len()].copy_from_slice(values);
}
