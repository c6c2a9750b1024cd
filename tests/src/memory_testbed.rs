//! An application on an adapter with memory, and the bytes it sees at locked addresses.
//!
//! The operating system copies for it: an unmapped address is an error value.
#![expect(unsafe_code, reason = "plays an application that reads and writes locked memory")]

use crate::{KernelTestbed, run, verified};
use flight::{Event, EventKind, HardwareModel, Log, Passive};
use kernel::segment::PlacementRequirements;
use kernel::{DriverSetup, Handle};
use softgpu::format::{Command, describe_in, encode};
use softgpu::{MemoryPlan, SoftGpu};
use std::cell::RefCell;
use std::ptr::with_exposed_provenance_mut;
use std::sync::Arc;
use thunk::{AllocationSelection, Client, CreateAllocation};
use windtunnel::{HostKind, TestClient};

/// The size of a page.
pub const PAGE: u64 = 4096;

/// The bytes that the CPU reads at an address: `None` if any of them is unmapped.
pub fn peek(address: usize, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let there = libc::iovec { iov_base: with_exposed_provenance_mut(address), iov_len: length };
    // SAFETY: The call takes only a number.
    let process = unsafe { libc::getpid() };
    // SAFETY: `bytes` has its stated length; an unmapped address is an error, not a fault.
    let read =
        unsafe { libc::process_vm_readv(process, &raw const here, 1, &raw const there, 1, 0) };
    (usize::try_from(read) == Ok(length)).then_some(bytes)
}

/// Writes with the CPU at a locked address. Returns whether all of it is mapped.
pub fn write_cpu(address: usize, bytes: &[u8]) -> bool {
    let base = bytes.as_ptr().cast_mut().cast();
    let here = libc::iovec { iov_base: base, iov_len: bytes.len() };
    let there =
        libc::iovec { iov_base: with_exposed_provenance_mut(address), iov_len: bytes.len() };
    // SAFETY: The call takes only a number.
    let process = unsafe { libc::getpid() };
    // SAFETY: `bytes` is only read, and no reference points into the locked memory.
    let wrote =
        unsafe { libc::process_vm_writev(process, &raw const here, 1, &raw const there, 1, 0) };
    usize::try_from(wrote) == Ok(bytes.len())
}

/// A client with a device and a context, on the built-in GPU with memory.
pub struct MemoryTestbed<'a> {
    /// The kernel.
    pub testbed: &'a KernelTestbed,
    /// The machine's memory.
    pub ram: Arc<nt::Ram>,
    /// The hardware.
    pub gpu: Arc<dyn HardwareModel>,
    /// The client with its device.
    pub test_client: TestClient,
    /// The client's context.
    pub context: u32,
}

impl<'a> MemoryTestbed<'a> {
    /// Another client of the same hardware.
    #[must_use]
    pub fn another_client(&self, at: &mut Passive) -> MemoryTestbed<'a> {
        let test_client =
            TestClient::open(Client::new(&self.testbed.kernel), at).expect("a device");
        let context = test_client.create_context(at).expect("a context");
        MemoryTestbed {
            testbed: self.testbed,
            ram: self.ram.clone(),
            gpu: self.gpu.clone(),
            test_client,
            context,
        }
    }

    /// Creates an allocation of some pages with these placement requirements.
    pub fn create(
        &self,
        at: &mut Passive,
        pages: u64,
        requirements: &PlacementRequirements,
    ) -> u32 {
        let private = vec![describe_in(pages * PAGE, PAGE, requirements)];
        let made = self
            .test_client
            .create_with(at, &CreateAllocation::new(self.test_client.device, private));
        made.expect("an allocation").allocations[0]
    }

    /// As above, made resident.
    pub fn resident(
        &self,
        at: &mut Passive,
        pages: u64,
        requirements: &PlacementRequirements,
    ) -> u32 {
        let it = self.create(at, pages, requirements);
        self.test_client.make_resident(at, &[it]).expect("room");
        it
    }

    /// Fills some pages with the GPU.
    pub fn fill(&self, at: &mut Passive, it: u32, pages: u64, value: u8) {
        let length = pages * PAGE;
        self.submit(at, &[Command::Fill { target: Handle(it), offset: 0, length, value }]);
    }

    /// Copies some pages with the GPU.
    pub fn copy(&self, at: &mut Passive, from: u32, to: u32, pages: u64) {
        let (from, to, length) = (Handle(from), Handle(to), pages * PAGE);
        let copy = Command::Copy { from, from_offset: 0, to, to_offset: 0, length };
        self.submit(at, &[copy]);
    }

    fn submit(&self, at: &mut Passive, commands: &[Command]) {
        self.test_client
            .client
            .submit(at, self.context, &encode(commands))
            .expect("it is submitted");
    }

    /// Runs until everything is idle.
    pub fn run_until_idle(&self, at: &mut Passive) {
        self.testbed.host.run_until_idle(at);
    }

    /// Locks an allocation (`D3DKMTLock2`).
    pub fn lock(&self, at: &mut Passive, it: u32) -> usize {
        self.test_client.client.lock2(at, self.test_client.device, it, 0).expect("a lock")
    }

    /// Unlocks an allocation.
    pub fn unlock(&self, at: &mut Passive, it: u32) {
        self.test_client.client.unlock2(at, self.test_client.device, it).expect("it was locked");
    }

    /// Evicts an allocation.
    pub fn evict(&self, at: &mut Passive, it: u32, flags: u32) {
        self.test_client
            .client
            .evict(at, self.test_client.device, &[it], flags)
            .expect("it was resident");
    }

    /// Handles of these allocations of its device.
    pub fn names<'n>(&self, list: &'n [u32]) -> AllocationSelection<'n> {
        AllocationSelection::of(self.test_client.device, list)
    }

    /// The GPU address of an allocation, if it is resident.
    pub fn address(&self, it: u32) -> Option<u64> {
        let process = self.test_client.client.session().process();
        self.testbed.kernel.address_of(process, Handle(it))
    }

    /// The bytes that the GPU has there, if the allocation is resident.
    pub fn held(&self, it: u32, pages: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; pages * 4096];
        self.gpu.peek(self.address(it)?, &mut bytes).then_some(bytes)
    }

    /// Destroys everything.
    pub fn close(&self, at: &mut Passive) {
        self.test_client.close(at, &[self.context]).expect("it ends");
    }
}

/// Runs a test with a client on hardware with this much memory. Afterwards no page of the machine
/// may be leaked. Returns the events.
pub fn with_memory_testbed(
    on: impl Into<HostKind>,
    plan: MemoryPlan,
    body: impl FnOnce(&MemoryTestbed<'_>, &mut Passive),
) -> Vec<Event> {
    let ram = nt::Ram::new(1 << 30).expect("the machine has memory");
    let kept = RefCell::new(None);
    let make = |log: &Arc<Log>| {
        let (miniport, machine) = SoftGpu::with_memory(ram.clone(), plan);
        *kept.borrow_mut() = Some((machine.clone(), ram.allocated_bytes()));
        DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(log.clone()) }
    };
    let events = run(on, make, |testbed, at| {
        let gpu: Arc<dyn HardwareModel> = kept.borrow().as_ref().expect("it is setup in").0.clone();
        let test_client = TestClient::open(Client::new(&testbed.kernel), at).expect("a device");
        let context = test_client.create_context(at).expect("a context");
        body(&MemoryTestbed { testbed, ram: ram.clone(), gpu, test_client, context }, at);
    });
    let before = kept.borrow().as_ref().map(|pair| pair.1);
    assert_eq!(Some(ram.allocated_bytes()), before, "pages of the machine's memory were leaked");
    events
}

/// As above for a good client of a good driver: there are no findings.
pub fn with_clean_memory_testbed(
    on: impl Into<HostKind>,
    plan: MemoryPlan,
    body: impl FnOnce(&MemoryTestbed<'_>, &mut Passive),
) -> Vec<Event> {
    let events = with_memory_testbed(on, plan, body);
    let verifier = verified(&events);
    assert!(verifier.findings().is_empty(), "{:?}", verifier.findings());
    let broken = events.iter().find(|event| matches!(event.kind, EventKind::RuleBroken { .. }));
    assert!(broken.is_none(), "{broken:?}");
    events
}
