//! Clients of synchronisation objects that cannot be scenarios: one writes to memory, one has a GPU
//! with 32-bit fences.
#![expect(clippy::unwrap_used, reason = "a scenario that cannot continue fails its test")]

use crate::memory_testbed::write_cpu;
use crate::{KernelTestbed, run};
use abi::status::STATUS_INVALID_PARAMETER;
use flight::{Event, Log, Passive, RuleId};
use kernel::DriverSetup;
use kernel::miniport::{DriverResult, Features, Miniport};
use softgpu::{Gpu, SoftGpu};
use std::sync::Arc;
use thunk::{Client, CpuWait, SyncObject};

/// A flight.
type FlightResult = fn() -> Vec<Event>;

/// Clients that break one rule each, in separate flights.
pub const BAD_FLIGHTS: &[(RuleId, FlightResult)] = &[
    (RuleId::SYNC_CREATE_006, written),
    (RuleId::SYNC_CREATE_007, || narrow(fly_wide_fence_value)),
];

/// The built-in driver on a GPU with 32-bit fences.
struct Fence32Driver(Arc<SoftGpu>);

impl Miniport for Fence32Driver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.0)
    }

    fn query_adapter_info(&self, at: &mut Passive) -> DriverResult<Features> {
        let mut features = self.0.query_adapter_info(at)?;
        features.scheduling.fences_32_bit = true;
        Ok(features)
    }
}

/// Runs a test with a client that has a device, on a driver.
fn run_client(
    make: impl FnOnce(&Arc<Log>) -> DriverSetup,
    body: impl FnOnce(&KernelTestbed, &mut Passive, &Client, u32),
) -> Vec<Event> {
    run(1, make, |testbed, at| {
        let client = Client::new(&testbed.kernel);
        let adapter = client.adapters(at).unwrap()[0];
        let device = client.create_device(at, adapter).unwrap();
        body(testbed, at, &client, device);
        client.destroy_device(at, device).unwrap();
        client.close_adapter(at, adapter).unwrap();
        client.end(at);
    })
}

/// Runs a test with a client whose fences have 32 bits.
pub fn narrow(body: fn(&KernelTestbed, &mut Passive, &Client, u32)) -> Vec<Event> {
    let set_up = |log: &Arc<Log>| {
        let (driver, machine): (Arc<SoftGpu>, Arc<Gpu>) = SoftGpu::new();
        DriverSetup {
            miniport: Arc::new(Fence32Driver(driver)),
            hardware: machine,
            pool: nt::Pool::new(log.clone()),
        }
    };
    run_client(set_up, body)
}

/// A client that signals a fence by writing to its memory.
fn written() -> Vec<Event> {
    let make = drivers::find("softgpu-memory").unwrap().make;
    run_client(make, |_, at, client, device| {
        let fence = client.create_sync(at, device, SyncObject::Monitored(1), 0).unwrap();
        assert!(write_cpu(fence.value, &2_u64.to_le_bytes()));
        client.signal_cpu(at, device, &[(fence.object, 3)], 0).unwrap();
        client.destroy_sync(at, fence.object).unwrap();
    })
}

/// A client that advances a value further than 32 bits can express.
fn fly_wide_fence_value(_: &KernelTestbed, at: &mut Passive, client: &Client, device: u32) {
    let fence = client.create_sync(at, device, SyncObject::Monitored(5), 0).unwrap().object;
    let half = u64::from(u32::MAX / 2);
    client.signal_cpu(at, device, &[(fence, half)], 0).unwrap();
    client.wait_cpu(at, device, &[(fence, half)], CpuWait::default()).unwrap();
    let far = client.signal_cpu(at, device, &[(fence, 2 * half + 1)], 0);
    assert_eq!(far, Err(STATUS_INVALID_PARAMETER));
    client.destroy_sync(at, fence).unwrap();
}
