//! The results of callbacks that a driver makes during a call.
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use flight::{EventKind, Passive};
use harness::run;
use kernel::callbacks::KernelCallbacks;
use kernel::miniport::{
    CreateAllocationArgs, DriverError, DriverResource, DriverResult, Miniport, OwningResource,
};
use kernel::{DriverSetup, Handle};
use softgpu::format::describe;
use softgpu::{MemoryPlan, SoftGpu};
use std::sync::{Arc, Mutex, OnceLock};
use thunk::{Client, CreateAllocation};
use windtunnel::{HostKind, TestClient};

/// The built-in driver; in a create that joins a resource, it looks up the resource's handle.
struct QueryingDriver {
    driver: Arc<SoftGpu>,
    services: OnceLock<Arc<KernelCallbacks>>,
    resource: OnceLock<Handle>,
    /// The driver handle it was passed, and the one that the callback returned.
    answers: Mutex<Vec<(usize, Option<usize>)>>,
}

impl Miniport for QueryingDriver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn add_device(&self, at: &mut Passive, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        self.services.get_or_init(|| services.clone());
        self.driver.add_device(at, services)
    }

    fn create_allocations(
        &self,
        at: &mut Passive,
        births: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        if let (Some(OwningResource::Existing(driver_handle, _)), Some(handle)) =
            (&births.resource, self.resource.get())
        {
            let found = self.services.get().unwrap().handle_data(at, *handle, false);
            self.answers.lock().unwrap().push((driver_handle.as_raw(), found));
        }
        self.driver.create_allocations(at, births)
    }
}

#[test]
fn a_driver_queries_a_resource_inside_a_call_that_passes_its_handle() {
    for on in [HostKind::deterministic(1), HostKind::Threaded] {
        let (driver, machine) = SoftGpu::new();
        let (services, resource, answers) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        let querying = Arc::new(QueryingDriver { driver, services, resource, answers });
        let miniport = querying.clone();
        let set_up = |log: &_| DriverSetup {
            miniport,
            hardware: machine,
            pool: nt::Pool::new(Arc::clone(log)),
        };
        run(on, set_up, |testbed, at| {
            let test_client = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
            let made = test_client.create_resource(at, 1).unwrap();
            querying.resource.get_or_init(|| Handle(made.resource));
            let more = CreateAllocation::new(test_client.device, vec![describe(4096)])
                .into_resource(made.resource);
            test_client.create_with(at, &more).unwrap();
            test_client.destroy_resource(at, made.resource).unwrap();
            test_client.close(at, &[]).unwrap();
        });
        let answers = querying.answers.lock().unwrap();
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].1, Some(answers[0].0), "the driver handle it was lent");
    }
}

/// The built-in driver with memory and capture allocations; it requests the address of the first
/// whenever it creates another.
struct Captures {
    driver: Arc<SoftGpu>,
    services: OnceLock<Arc<KernelCallbacks>>,
    first: OnceLock<Handle>,
    answers: Mutex<Vec<DriverResult<(u32, u64)>>>,
}

impl Miniport for Captures {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn add_device(&self, at: &mut Passive, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        self.services.get_or_init(|| services.clone());
        self.driver.add_device(at, services)
    }

    fn create_allocations(
        &self,
        at: &mut Passive,
        births: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        if let Some(first) = self.first.get() {
            let answer = self.services.get().unwrap().capture_address(at, *first);
            self.answers.lock().unwrap().push(answer);
        }
        let resource = self.driver.create_allocations(at, births)?;
        births.allocations.iter_mut().for_each(|it| it.info.requirements.flags.capture = true);
        Ok(resource)
    }
}

#[test]
fn a_driver_is_notified_of_the_capture_target() {
    let ram = nt::Ram::new(256 << 20).unwrap();
    let (driver, machine) = SoftGpu::with_memory(ram, MemoryPlan::default());
    let (services, first, answers) = Default::default();
    let captures = Arc::new(Captures { driver, services, first, answers });
    let miniport = captures.clone();
    let set_up =
        |log: &_| DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(Arc::clone(log)) };
    let flown = run(HostKind::deterministic(1), set_up, |testbed, at| {
        let client = Client::new(&testbed.kernel);
        let adapter = client.adapters(at).unwrap()[0];
        let device = client.create_device(at, adapter).unwrap();
        let make = |at: &mut Passive| {
            let made = client.create(at, &CreateAllocation::new(device, vec![describe(4096)]));
            made.unwrap().allocations[0]
        };
        let name = make(at);
        captures.first.get_or_init(|| Handle(name));
        make(at);
        let queue = client.create_paging_queue(at, device, 0).unwrap();
        client.make_resident(at, queue.queue, &[name], 0).unwrap();
        make(at);
        client.destroy_device(at, device).unwrap();
        client.close_adapter(at, adapter).unwrap();
        client.end(at);
    });
    let placed = flown.iter().find_map(|event| match event.kind {
        EventKind::MemoryPlaced { segment, address, .. } => Some((segment.number, address)),
        _ => None,
    });
    let answers = captures.answers.lock().unwrap();
    assert_eq!(answers[0], Err(DriverError::Unsupported), "it is nowhere yet");
    assert_eq!(answers[1].ok(), placed);
    assert!(placed.is_some());
    assert_eq!(answers.len(), 2);
}
