//! A planted dangling id ends the flight as "could not run", and is no fault of the driver's.
#![expect(clippy::disallowed_types, reason = "a driver keeps its own state")]

use crate::callbacks::KernelCallbacks;
use crate::ddi::miniport::{
    AllocationInfo, CreateAllocationArgs, DestroyAllocationArgs, Drain, DriverDevice,
    DriverResource, DriverResult, DriverView, Features, HandleSlot, Miniport, OpenAllocationArgs,
};
use crate::kernel::{DriverSetup, Kernel};
use crate::lifetime::create::CreateAllocationRequest;
use crate::lifetime::device::Device;
use crate::lifetime::process::ProcessId;
use crate::lifetime::retire::{DestroyAllocationRequest, DestroyTarget};
use crate::objects::handle_table::Handle;
use flight::{
    DeterministicHost, Event, EventKind, HardwareModel, HostError, InterruptLine, Log, Passive,
    Pool,
};
use smallvec::smallvec;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// A driver that creates devices and allocations, and nothing else.
#[derive(Default)]
struct TinyDriver {
    callbacks: OnceLock<Arc<KernelCallbacks>>,
    /// The allocation that the next `DxgkDdiCreateDevice` asks the kernel about; zero is none.
    asks_about: AtomicU32,
}

impl Miniport for TinyDriver {
    fn add_device(&self, _at: &mut Passive, callbacks: &Arc<KernelCallbacks>) -> DriverResult<()> {
        self.callbacks.get_or_init(|| callbacks.clone());
        Ok(())
    }

    fn query_adapter_info(&self, _at: &mut Passive) -> DriverResult<Features> {
        Ok(Features { nodes: 1, ..Features::default() })
    }

    fn create_device(
        &self,
        at: &mut Passive,
        slot: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        let allocation = Handle(self.asks_about.load(Ordering::Relaxed));
        if allocation.0 != 0 {
            self.callbacks.get().unwrap().parent_of(at, allocation);
        }
        Ok(slot.fill(1))
    }

    fn create_allocations(
        &self,
        _at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        let info = AllocationInfo { size: 4096, ..AllocationInfo::default() };
        args.allocations.iter_mut().for_each(|new| new.fill(2, info));
        Ok(None)
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        _args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        Ok(None)
    }

    fn open_allocations(
        &self,
        _at: &mut Passive,
        args: &mut OpenAllocationArgs<'_>,
    ) -> DriverResult<()> {
        args.views.iter_mut().for_each(|new| new.fill(3));
        Ok(())
    }

    fn close_allocations(
        &self,
        _at: &mut Passive,
        _device: &DriverDevice,
        _views: Drain<'_, DriverView>,
    ) -> DriverResult<()> {
        Ok(())
    }
}

struct NoHardware;

impl HardwareModel for NoHardware {
    fn idle(&self) -> bool {
        true
    }
    fn step(&self, _at: &mut Passive, _line: &dyn InterruptLine) {}
}

struct NoMemory;

impl Pool for NoMemory {
    fn allocate_pool(&self, _bytes: usize, _tag: u32) -> Option<usize> {
        None
    }
    fn free(&self, _block: usize, _tag: u32) {}
    fn refers_to(&self, _block: usize, _word: usize) -> bool {
        false
    }
    fn inspect(&self, _call: &'static str) {}
    fn close(&self) {}
}

/// A flight with one allocation, for a planted error.
struct Flight {
    kernel: Arc<Kernel>,
    driver: Arc<TinyDriver>,
    process: ProcessId,
    adapter: Handle,
    device: Handle,
    allocation: Handle,
}

impl Flight {
    /// Removes every view behind the kernel's back: what refers to one dangles from now on.
    fn plant_dangling_views(&self) {
        let mut state = self.kernel.state.lock();
        let views: Vec<_> = state.views.iter().map(|(id, _)| id).collect();
        assert_eq!(views.len(), 1);
        state.views.remove(views[0]);
    }
}

/// Creates an allocation, then flies `body`. Returns the result of the flight and its events.
fn fly(body: impl FnOnce(&Flight, &mut Passive)) -> (Result<(), HostError>, Vec<Event>) {
    let log = Arc::new(Log::new());
    let flown = DeterministicHost::fly(1, &log, |host, at| {
        let kernel = Kernel::new(host.clone(), log.clone());
        let driver = Arc::new(TinyDriver::default());
        let setup = DriverSetup {
            miniport: driver.clone(),
            hardware: Arc::new(NoHardware),
            pool: Arc::new(NoMemory),
        };
        let started = kernel.add_adapter(at, setup).unwrap();
        let process = kernel.open_process();
        let adapter = kernel.open_adapter(process, started).unwrap();
        let device = kernel.create_device(at, process, adapter).unwrap();
        let request = CreateAllocationRequest {
            device,
            allocations: smallvec![smallvec![0; 4]],
            ..Default::default()
        };
        let created = kernel.create_allocations(at, process, request).unwrap();
        let allocation = created.allocations[0];
        body(&Flight { kernel, driver, process, adapter, device, allocation }, at);
    });
    (flown, log.take())
}

/// The flight could not run, for a dangling view, with the last events; the driver is not blamed.
fn assert_could_not_run((flown, events): (Result<(), HostError>, Vec<Event>), last_event: &str) {
    let HostError(message) = flown.expect_err("a dangling id was not noticed");
    let first = message.lines().next().unwrap();
    assert!(first.contains("broken invariant: ") && first.contains("is live"), "{message}");
    assert!(message.lines().last().unwrap().contains(last_event), "{message}");
    assert_eq!(message.lines().count(), 13, "the invariant and twelve events: {message}");
    for event in events {
        let blames = match &event.kind {
            EventKind::RuleBroken { .. } => true,
            EventKind::DdiReturn { result, .. } => **result == *"crashed",
            _ => false,
        };
        assert!(!blames, "{event}");
    }
}

#[test]
fn without_a_planted_error_the_same_calls_succeed() {
    let (flown, events) = fly(|flight, at| {
        flight.driver.asks_about.store(flight.allocation.0, Ordering::Relaxed);
        flight.kernel.create_device(at, flight.process, flight.adapter).unwrap();
        let request = destroy_request(flight);
        assert_eq!(flight.kernel.destroy(at, flight.process, &request), Ok(()));
    });
    assert_eq!(flown, Ok(()));
    assert!(!events.is_empty());
}

fn destroy_request(flight: &Flight) -> DestroyAllocationRequest {
    DestroyAllocationRequest {
        device: flight.device,
        target: DestroyTarget::List(smallvec![flight.allocation]),
        assume_not_in_use: false,
        synchronous: true,
    }
}

#[test]
fn a_dangling_id_in_a_clients_call_ends_the_flight() {
    let flight = fly(|flight, at| {
        flight.plant_dangling_views();
        let result = flight.kernel.destroy(at, flight.process, &destroy_request(flight));
        panic!("the call returned {result:?}");
    });
    assert_could_not_run(flight, "handle.published");
}

#[test]
fn a_dangling_id_in_a_drivers_callback_ends_the_flight() {
    let flight = fly(|flight, at| {
        flight.plant_dangling_views();
        flight.driver.asks_about.store(flight.allocation.0, Ordering::Relaxed);
        let result = flight.kernel.create_device(at, flight.process, flight.adapter);
        panic!("the call returned {result:?}");
    });
    assert_could_not_run(flight, "DxgkDdiCreateDevice");
}
