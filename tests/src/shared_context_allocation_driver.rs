//! The built-in driver with memory, which uses optional parts of the interface.

use flight::{Log, Passive};
use kernel::DriverSetup;
use kernel::callbacks::KernelCallbacks;
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    CreateContextArgs, DriverContext, DriverDevice, DriverError, DriverResult, Features,
    HandleSlot, Miniport,
};
use kernel::operation::{BuildPagingBufferArgs, CreateContextAllocationArgs, Operation};
use kernel::segment::{PlacementFlags, PlacementRequirements};
use softgpu::{AREA_SIZE, Gpu, MemoryPlan, SoftGpu, format};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The built-in driver with memory. It creates an allocation for all contexts of a device and
/// updates it, reports each reclaimed allocation as busy until told otherwise, and counts in the
/// private data of its paging buffers.
pub struct SharedContextAllocationDriver {
    driver: Arc<SoftGpu>,
    hardware: Arc<Gpu>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    services: Option<Arc<KernelCallbacks>>,
    /// The kernel handle of each device's shared allocation, by the device's driver handle.
    shared: BTreeMap<usize, usize>,
}

impl SharedContextAllocationDriver {
    /// Creates a driver with this much memory.
    pub fn new(plan: MemoryPlan) -> Arc<Self> {
        let ram = nt::Ram::new(1 << 30).unwrap_or_else(|reason| panic!("{reason}"));
        let (driver, hardware) = SoftGpu::with_memory(ram, plan);
        Arc::new(Self { driver, hardware, state: Mutex::default() })
    }

    /// The driver as a setup.
    pub fn set_up(self: &Arc<Self>, log: &Arc<Log>) -> DriverSetup {
        let (miniport, machine) = (self.clone(), self.hardware.clone());
        DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(log.clone()) }
    }

    fn state<R>(&self, body: impl FnOnce(&mut State) -> R) -> R {
        body(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn services(&self) -> DriverResult<Arc<KernelCallbacks>> {
        self.state(|state| state.services.clone()).ok_or(DriverError::Invalid)
    }
}

impl Miniport for SharedContextAllocationDriver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn add_device(&self, at: &mut Passive, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        self.state(|state| state.services = Some(services.clone()));
        self.driver.add_device(at, services)
    }

    fn query_adapter_info(&self, at: &mut Passive) -> DriverResult<Features> {
        let mut features = self.driver.query_adapter_info(at)?;
        if let Some(memory) = &mut features.memory {
            memory.paging.private = 8;
        }
        Ok(features)
    }

    fn remove_device(&self, at: &mut Passive) -> DriverResult<()> {
        let services = self.state(|state| state.services.take());
        drop(services);
        self.driver.remove_device(at)
    }

    fn create_device(
        &self,
        at: &mut Passive,
        slot: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        let name = slot.kernel_handle();
        let device = self.driver.create_device(at, slot)?;
        let flags = PlacementFlags { physical: true, notify: true, ..PlacementFlags::default() };
        let args = CreateContextAllocationArgs {
            device: name,
            shared: true,
            size: AREA_SIZE,
            requirements: PlacementRequirements { flags, ..format::anywhere() },
            driver_handle: device.as_raw() + 1, // In the device's own block, where nothing else begins.
            ..CreateContextAllocationArgs::default()
        };
        let shared = self.services()?.create_context_allocation(at, &args)?;
        self.state(|state| state.shared.insert(device.as_raw(), shared));
        Ok(device)
    }

    fn destroy_device(&self, at: &mut Passive, device: DriverDevice) -> DriverResult<()> {
        let shared = self.state(|state| state.shared.remove(&device.as_raw()));
        if let Some(shared) = shared {
            self.services()?.destroy_context_allocation(at, shared)?;
        }
        self.driver.destroy_device(at, device)
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        slot: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, u32)> {
        let context = self.driver.create_context(at, device, args, slot)?;
        let shared = self.state(|state| state.shared.get(&device.as_raw()).copied());
        if let Some(shared) = shared {
            self.services()?.update_context_allocation(at, shared, b"one more context")?;
        }
        Ok(context)
    }

    fn build_paging_buffer(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
    ) -> DriverResult<()> {
        if let Some(count) = args.private.first_mut() {
            *count = count.wrapping_add(1);
        }
        if matches!(&args.operation, Operation::Transfer(it) if !it.idle) {
            return Err(DriverError::Busy);
        }
        if let Some(calls) = args.private.first_mut() {
            *calls = calls.wrapping_add(1);
        }
        self.driver.build_paging_buffer(at, args)
    }
}
