//! A client on an adapter with memory, and its flights.
#![expect(clippy::unwrap_used, reason = "a scenario that cannot continue fails its test")]

use crate::shared_context_allocation_driver::SharedContextAllocationDriver;
use crate::{KernelTestbed, VariantDriver, run};
use abi::status::STATUS_NOT_IMPLEMENTED;
use flight::{Event, Log, Passive, RuleId, next_random};
use kernel::miniport::Generation;
use kernel::segment::PlacementRequirements;
use kernel::{
    Budget, DriverSetup, EvictRequest, Handle, Kernel, KernelError, LockRequest,
    MakeResidentRequest, ProcessId, Residency, SegmentGroup, TrimCallback,
};
use softgpu::format::{self, Command, only_in};
use softgpu::{APERTURE, LOCAL, MemoryPlan, SoftGpu, VISIBLE};
use std::sync::{Arc, Mutex, PoisonError};
use thunk::{AllocationSelection, Client, CreateAllocation, DestroyAllocation};

/// The size of a page.
pub const PAGE: u64 = 4096;

/// A GPU with this many pages of each kind of memory, without virtual addresses.
pub const fn pages_of_each(pages: u64) -> MemoryPlan {
    let size = pages * PAGE;
    MemoryPlan {
        visible: size,
        local: size,
        aperture: size,
        paging_buffer: 4096,
        paging_node: 1,
        mmu: None,
    }
}

/// Local memory that is not CPU visible.
pub fn hidden() -> PlacementRequirements {
    hidden_in(&[LOCAL])
}

/// One of these segments; CPU visibility is not required.
fn hidden_in(segments: &[u32]) -> PlacementRequirements {
    let mut requirements = only_in(segments);
    requirements.flags.cpu_visible = false;
    requirements
}

/// Random requirements, most of them for local memory, from a seed.
pub fn random_wants(random: &mut u64) -> PlacementRequirements {
    match next_random(random, 8) {
        0 => only_in(&[APERTURE]),
        1 => only_in(&[VISIBLE, APERTURE]),
        2..5 => format::anywhere(),
        _ => hidden_in(&[LOCAL, VISIBLE]),
    }
}

/// The built-in driver with this much memory.
pub fn set_up_memory(log: &Arc<Log>, plan: MemoryPlan) -> (DriverSetup, Arc<SoftGpu>) {
    let ram = nt::Ram::new(1 << 30).unwrap_or_else(|why| panic!("{why}"));
    let (miniport, machine) = SoftGpu::with_memory(ram, plan);
    let pool = nt::Pool::new(log.clone());
    (DriverSetup { miniport: miniport.clone(), hardware: machine, pool }, miniport)
}

/// A client with a device, a context and a paging queue.
pub struct MemoryClient<'a> {
    testbed: &'a KernelTestbed,
    client: Client,
    adapter: u32,
    /// The device.
    pub device: u32,
    context: u32,
    queue: Handle,
    fence: Handle,
}

impl<'a> MemoryClient<'a> {
    /// Creates a client in a new process.
    pub fn open(testbed: &'a KernelTestbed, at: &mut Passive) -> Self {
        let client = Client::new(&testbed.kernel);
        let adapter = client.adapters(at).unwrap()[0];
        Self::on(testbed, at, client, adapter)
    }

    /// Creates another device in the same process.
    #[must_use]
    pub fn another(&self, at: &mut Passive) -> Self {
        Self::on(self.testbed, at, self.client.clone(), self.adapter)
    }

    fn on(testbed: &'a KernelTestbed, at: &mut Passive, client: Client, adapter: u32) -> Self {
        let device = client.create_device(at, adapter).unwrap();
        let context = client.create_context(at, device, 0).unwrap();
        let made = testbed
            .kernel
            .create_paging_queue(client.session().process(), Handle(device), 0)
            .unwrap();
        let (queue, fence) = (made.queue, made.fence);
        Self { testbed, client, adapter, device, context, queue, fence }
    }

    /// Creates an allocation of some pages with these placement requirements.
    pub fn create(
        &self,
        at: &mut Passive,
        pages: u64,
        requirements: &PlacementRequirements,
    ) -> u32 {
        let private = format::describe_in(pages * PAGE, 0, requirements);
        self.client
            .create(at, &CreateAllocation::new(self.device, vec![private]))
            .unwrap()
            .allocations[0]
    }

    /// Requests residency.
    pub fn request_residency(&self, list: &[u32], must: bool) -> Result<Residency, KernelError> {
        let list = list.iter().map(|number| Handle(*number)).collect();
        let request = MakeResidentRequest { queue: self.queue, list, must_succeed: must };
        self.testbed.kernel.make_resident(self.client.session().process(), &request)
    }

    /// Requests residency and waits for it.
    pub fn resident(&self, at: &mut Passive, list: &[u32]) {
        if let Residency::Pending(value) = self.request_residency(list, false).unwrap() {
            let process = self.client.session().process();
            self.testbed.kernel.wait_queue(at, process, self.fence, value).unwrap();
        }
    }

    /// Evicts an allocation, `lazily` or at once, written to or not.
    pub fn evict(&self, list: &[u32], lazily: bool, clean: bool) {
        let list = list.iter().map(|number| Handle(*number)).collect();
        let request = EvictRequest {
            device: Handle(self.device),
            list,
            only_if_necessary: lazily,
            not_written: clean,
        };
        self.testbed.kernel.evict(self.client.session().process(), &request).unwrap();
    }

    /// Fills an allocation.
    pub fn fill(&self, at: &mut Passive, target: u32) {
        let fill = Command::Fill { target: Handle(target), offset: 0, length: PAGE, value: 7 };
        self.client.submit(at, self.context, &format::encode(&[fill])).unwrap();
    }

    /// Locks an allocation.
    pub fn lock(
        &self,
        at: &mut Passive,
        view: u32,
        do_not_wait: bool,
    ) -> Result<usize, KernelError> {
        let (device, view) = (Handle(self.device), Handle(view));
        let request =
            LockRequest { device, view, wait: do_not_wait, do_not_wait, ..LockRequest::default() };
        let shown = self.testbed.kernel.lock(at, self.client.session().process(), &request)?;
        Ok(shown.address)
    }

    /// Unlocks an allocation.
    pub fn unlock(&self, view: u32) {
        let process = self.client.session().process();
        self.testbed.kernel.unlock(process, Handle(self.device), &[Handle(view)]).unwrap();
    }

    /// Queries its use of the adapter's local memory.
    pub fn query_budget(&self) -> Budget {
        let process = self.client.session().process();
        let adapter = Handle(self.adapter);
        let group = SegmentGroup::Local;
        self.testbed.kernel.budget(process, adapter, Some(process), group).unwrap()
    }

    /// Offers an allocation.
    pub fn offer(&self, view: u32) {
        let process = self.client.session().process();
        self.testbed.kernel.offer(process, Handle(self.device), &[Handle(view)], 1).unwrap();
    }

    /// Reclaims an allocation. Returns whether its contents were discarded.
    pub fn reclaim(&self, view: u32) -> bool {
        let process = self.client.session().process();
        let list = [Handle(view)];
        self.testbed.kernel.reclaim(process, None, Some(self.queue), &list).unwrap().discarded[0]
    }

    /// Destroys allocations.
    pub fn destroy(&self, at: &mut Passive, list: Vec<u32>) {
        let destroy =
            DestroyAllocation { device: self.device, list, ..DestroyAllocation::default() };
        self.client.destroy(at, &destroy).unwrap();
    }

    /// Uses more memory than its budget, is notified when another process has no room, and evicts
    /// something or not.
    fn exceed_budget(&self, at: &mut Passive, trims: bool) {
        let process = self.client.session().process();
        let list: Vec<u32> = (0..3).map(|_| self.create(at, 4, &hidden())).collect();
        let seen = self.create(at, 8, &only_in(&[VISIBLE, APERTURE]));
        self.resident(at, &[&list[..], &[seen]].concat());
        let device = Handle(self.device);
        let request = EvictRequest { device, list: vec![Handle(seen)], ..EvictRequest::default() };
        let kernel = self.testbed.kernel.clone();
        let callback: Arc<dyn TrimCallback> = if trims {
            Arc::new(EvictOnTrim { kernel, process, request: Mutex::new(Some(request)) })
        } else {
            Arc::new(IgnoresInterrupts)
        };
        let registered = self.testbed.kernel.register_trim(process, device, callback).unwrap();
        let other = MemoryClient::open(self.testbed, at);
        let theirs = other.create(at, 16, &hidden());
        assert!(other.request_residency(&[theirs], false).is_err(), "this process has it");
        self.testbed.host.run_until_idle(at);
        assert!(self.testbed.kernel.unregister_trim(at, process, registered));
        other.close(at);
    }

    /// Destroys the device with all its objects.
    pub fn close_device(&self, at: &mut Passive) {
        self.client.destroy_context(at, self.context).unwrap();
        self.client.destroy_device(at, self.device).unwrap();
    }

    /// Destroys everything.
    pub fn close(&self, at: &mut Passive) {
        self.close_device(at);
        self.client.close_adapter(at, self.adapter).unwrap();
        self.client.end(at);
    }
}

/// Little memory: sixteen pages of each kind.
fn small_memory(paging_buffer: u32) -> MemoryPlan {
    MemoryPlan { paging_buffer, ..pages_of_each(16) }
}

/// Allocations that become resident, are evicted, make room, and are discarded.
pub fn fly_paging(paging_buffer: u32) -> Vec<Event> {
    let driver = SharedContextAllocationDriver::new(small_memory(paging_buffer));
    run(
        1,
        |log| driver.set_up(log),
        |testbed, at| {
            let test_client = MemoryClient::open(testbed, at);
            let unseen = |segments: &[u32]| {
                let mut requirements = only_in(segments);
                requirements.flags.cpu_visible = false;
                requirements
            };
            let (one, two) = (
                test_client.create(at, 8, &unseen(&[LOCAL])),
                test_client.create(at, 10, &unseen(&[LOCAL])),
            );
            let mapped = test_client.create(at, 2, &only_in(&[APERTURE]));
            test_client.resident(at, &[mapped]);
            test_client.fill(at, mapped); // What its context saves into lies before the others.
            test_client.resident(at, &[one]);
            test_client.fill(at, one);
            test_client.resident(at, &[one]);
            test_client.evict(&[one], true, false);
            test_client.evict(&[one], false, false);
            test_client.resident(at, &[one, one]);
            test_client.evict(&[one], false, true);
            test_client.evict(&[one], false, false);
            test_client.resident(at, &[one]);
            test_client.fill(at, one);
            test_client.evict(&[one], true, false);
            test_client.resident(at, &[two]); // There is room for one of them.
            test_client.fill(at, two);
            test_client.offer(two);
            assert!(
                test_client.request_residency(&[one], false).is_err(),
                "the offer waits for the fill"
            );
            testbed.host.run_until_idle(at);
            test_client.resident(at, &[one]);
            test_client.evict(&[one], false, false);
            assert!(test_client.reclaim(two), "it was thrown away");
            testbed.host.run_until_idle(at);
            test_client.query_budget();
            let other = test_client.another(at);
            let large = other.create(at, 20, &unseen(&[LOCAL]));
            assert!(other.request_residency(&[large], true).is_err(), "it does not fit");
            other.close_device(at);
            test_client.destroy(at, vec![one, two, mapped]);
            test_client.close(at);
        },
    )
}

/// The bytes that the CPU sees, wherever the allocation is.
pub fn locked() -> Vec<Event> {
    let driver = SharedContextAllocationDriver::new(small_memory(4096));
    run(
        1,
        |log| driver.set_up(log),
        |testbed, at| {
            let test_client = MemoryClient::open(testbed, at);
            let seen = test_client.create(at, 2, &only_in(&[VISIBLE, APERTURE]));
            test_client.resident(at, &[seen]);
            test_client.fill(at, seen);
            let error = test_client.lock(at, seen, true);
            assert!(matches!(error, Err(KernelError::InUse(_))), "{error:?}");
            testbed.host.run_until_idle(at);
            test_client.lock(at, seen, true).unwrap();
            test_client.unlock(seen);
            let hidden = test_client.create(at, 2, &only_in(&[LOCAL, APERTURE]));
            test_client.resident(at, &[hidden]);
            test_client.lock(at, hidden, false).unwrap();
            test_client.unlock(hidden);
            let outside = test_client.create(at, 2, &only_in(&[VISIBLE, APERTURE]));
            test_client.lock(at, outside, false).unwrap();
            test_client.resident(at, &[outside]);
            test_client.unlock(outside);
            test_client.close(at);
        },
    )
}

/// What clients can query: residency, budget, and use beyond the budget.
pub fn queried() -> Vec<Event> {
    let driver = SharedContextAllocationDriver::new(small_memory(4096));
    run(
        1,
        |log| driver.set_up(log),
        |testbed, at| {
            let test_client = MemoryClient::open(testbed, at);
            let (client, device) = (&test_client.client, test_client.device);
            let private = vec![format::describe_in(2 * PAGE, 0, &hidden()); 2];
            let made =
                client.create(at, &CreateAllocation::new(device, private).with_resource()).unwrap();
            let resource = AllocationSelection { device, resources: &[made.resource], list: &[] };
            test_client.resident(at, &made.allocations);
            client.residency(at, resource).unwrap();
            test_client.evict(&made.allocations[..1], false, false);
            testbed.host.run_until_idle(at);
            client.residency(at, resource).unwrap();
            let destroy = DestroyAllocation {
                device,
                resource: made.resource,
                ..DestroyAllocation::default()
            };
            client.destroy(at, &destroy).unwrap();
            let process = client.session().process();
            testbed
                .kernel
                .budget(process, Handle(test_client.adapter), Some(process), SegmentGroup::Local)
                .unwrap();
            test_client.exceed_budget(at, true);
            test_client.close(at);
        },
    )
}

/// A reclaimed allocation is locked at once.
pub fn reclaimed() -> Vec<Event> {
    let driver = SharedContextAllocationDriver::new(small_memory(4096));
    run(
        1,
        |log| driver.set_up(log),
        |testbed, at| {
            let test_client = MemoryClient::open(testbed, at);
            let requirements = only_in(&[APERTURE]);
            let (one, two) = (
                test_client.create(at, 10, &requirements),
                test_client.create(at, 10, &requirements),
            );
            test_client.resident(at, &[one]);
            test_client.offer(one);
            testbed.host.run_until_idle(at);
            test_client.resident(at, &[two]); // There is room for one of them.
            test_client.evict(&[two], false, false);
            let process = test_client.client.session().process();
            let list = [Handle(one)];
            let back =
                testbed.kernel.reclaim(process, None, Some(test_client.queue), &list).unwrap();
            assert!(back.discarded[0], "it was thrown away");
            test_client.lock(at, one, false).unwrap();
            let Residency::Pending(value) = back.residency else { panic!("{back:?}") };
            testbed.kernel.wait_queue(at, process, test_client.fence, value).unwrap();
            test_client.unlock(one);
            test_client.close(at);
        },
    )
}

/// A client of a WDDM 1.x driver requests a paging queue.
fn fly_wddm1_paging_queue() -> Vec<Event> {
    let driver = VariantDriver::with_memory(Generation::One);
    run(
        1,
        |log| driver.set_up(log),
        |testbed, at| {
            let client = Client::new(&testbed.kernel);
            let adapter = client.adapters(at).unwrap()[0];
            let device = client.create_device(at, adapter).unwrap();
            assert_eq!(
                client.create_paging_queue(at, device, 0).err(),
                Some(STATUS_NOT_IMPLEMENTED)
            );
            client.destroy_device(at, device).unwrap();
            client.close_adapter(at, adapter).unwrap();
            client.end(at);
        },
    )
}

/// A client with little memory makes an invalid call.
fn short(body: ClientBody) -> Vec<Event> {
    run(
        1,
        |log| set_up_memory(log, small_memory(4096)).0,
        |testbed, at| {
            let test_client = MemoryClient::open(testbed, at);
            body(&test_client, at);
            test_client.close(at);
        },
    )
}

/// A flight.
type FlightResult = fn() -> Vec<Event>;

/// Clients that break one rule each, in separate flights.
pub const BAD_FLIGHTS: &[(RuleId, FlightResult)] = &[
    (RuleId::PAGQ_LIFE_007, fly_wddm1_paging_queue),
    (RuleId::RESID_OFFER_005, || {
        short(|test_client, at| {
            let (one, two) =
                (test_client.create(at, 10, &hidden()), test_client.create(at, 10, &hidden()));
            test_client.resident(at, &[one]);
            test_client.offer(one);
            test_client.testbed.host.run_until_idle(at);
            test_client.resident(at, &[two]); // There is room for one of them.
            test_client.fill(at, one);
            test_client.testbed.host.run_until_idle(at);
        })
    }),
    (RuleId::RESID_TRIM_004, || short(|test_client, at| test_client.exceed_budget(at, false))),
];

/// An invalid call about memory.
type ClientBody = fn(&MemoryClient<'_>, &mut Passive);

/// Clients that break one rule each, with direct calls of the kernel.
pub const BAD_CLIENTS: &[(RuleId, ClientBody)] = &[
    (RuleId::RESID_MAKE_005, |test_client, at| {
        let it = test_client.create(at, 1, &format::anywhere());
        test_client.fill(at, it);
        test_client.testbed.host.run_until_idle(at);
    }),
    (RuleId::RESID_EVICT_001, |test_client, at| {
        let it = test_client.create(at, 1, &format::anywhere());
        let request = EvictRequest {
            device: Handle(test_client.device),
            list: vec![Handle(it)],
            ..EvictRequest::default()
        };
        let error =
            test_client.testbed.kernel.evict(test_client.client.session().process(), &request);
        assert!(matches!(error, Err(KernelError::NotResident(_))), "{error:?}");
    }),
    (RuleId::RESID_EVICT_002, |test_client, at| {
        let it = test_client.create(at, 1, &format::anywhere());
        test_client.resident(at, &[it]);
        test_client.evict(&[it], false, false);
        test_client.testbed.host.run_until_idle(at);
        test_client.fill(at, it);
        test_client.testbed.host.run_until_idle(at);
    }),
    (RuleId::RESID_TRIM_001, |test_client, _| {
        let process = test_client.client.session().process();
        test_client
            .testbed
            .kernel
            .register_trim(process, Handle(test_client.device), Arc::new(IgnoresInterrupts))
            .unwrap();
    }),
    (RuleId::ALLOC_DESTROY_022, |test_client, at| {
        let it = test_client.create(at, 1, &format::anywhere());
        test_client.lock(at, it, false).unwrap();
        test_client.destroy(at, vec![it]);
    }),
];

/// A trim handler that evicts what it can, once.
struct EvictOnTrim {
    kernel: Arc<Kernel>,
    process: ProcessId,
    request: Mutex<Option<EvictRequest>>,
}

impl TrimCallback for EvictOnTrim {
    fn trim(&self, _bytes: u64) {
        let request = self.request.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(request) = request {
            self.kernel.evict(self.process, &request).unwrap();
        }
    }
}

/// A trim handler that does nothing.
struct IgnoresInterrupts;

impl TrimCallback for IgnoresInterrupts {
    fn trim(&self, _bytes: u64) {}
}

/// The flight of a bad client.
pub fn fly_client(body: ClientBody) -> Vec<Event> {
    run(
        1,
        |log| set_up_memory(log, MemoryPlan::default()).0,
        |testbed, at| {
            let test_client = MemoryClient::open(testbed, at);
            body(&test_client, at);
            test_client.close(at);
        },
    )
}
