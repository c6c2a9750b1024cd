//! The built-in driver with memory, with hooks that create context allocations.

use flight::{Log, Passive};
use kernel::DriverSetup;
use kernel::callbacks::KernelCallbacks;
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    CreateContextArgs, DriverContext, DriverDevice, DriverError, DriverResult, HandleSlot, Miniport,
};
use kernel::operation::{BuildPagingBufferArgs, CreateContextAllocationArgs, Operation};
use kernel::segment::{PlacementRequirements, SegmentSet};
use softgpu::{Gpu, MemoryPlan, SoftGpu};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// When a [`RecordingDriver`] runs a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPoint {
    /// In `DxgkDdiCreateDevice`.
    CreateDevice,
    /// In `DxgkDdiDestroyDevice`.
    DestroyDevice,
    /// In `DxgkDdiCreateContext`.
    CreateContext,
    /// In `DxgkDdiDestroyContext`.
    DestroyContext,
    /// In `DxgkDdiBuildPagingBuffer`.
    Pages,
}

/// The hook.
type Hook = Arc<dyn Fn(&RecordingDriver, &mut Passive) -> DriverResult<()> + Send + Sync>;

/// The built-in driver with memory. It runs hooks inside its calls.
pub struct RecordingDriver {
    /// The driver.
    pub driver: Arc<SoftGpu>,
    /// The driver's hardware.
    pub hardware: Arc<Gpu>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    services: Option<Arc<KernelCallbacks>>,
    hooks: Vec<(HookPoint, Hook)>,
    devices: Vec<usize>,
    contexts: Vec<usize>,
    paging_operations: Vec<(&'static str, usize)>,
}

impl RecordingDriver {
    /// Creates a driver with this much memory.
    pub fn new(plan: MemoryPlan) -> Arc<Self> {
        let ram = nt::Ram::new(1 << 30).unwrap_or_else(|_| panic!("the machine has no memory"));
        let (driver, hardware) = SoftGpu::with_memory(ram, plan);
        Arc::new(Self { driver, hardware, state: Mutex::default() })
    }

    /// The driver as a setup.
    pub fn set_up(self: &Arc<Self>, log: &Arc<Log>) -> DriverSetup {
        let (miniport, machine) = (self.clone(), self.hardware.clone());
        DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(log.clone()) }
    }

    /// Sets the hook of a hook point.
    pub fn on(
        &self,
        when: HookPoint,
        hook: impl Fn(&RecordingDriver, &mut Passive) -> DriverResult<()> + Send + Sync + 'static,
    ) {
        self.state().hooks.push((when, Arc::new(hook)));
    }

    /// The kernel callbacks of its adapter.
    pub fn services(&self) -> Arc<KernelCallbacks> {
        self.state().services.clone().unwrap_or_else(|| panic!("the driver has no adapter"))
    }

    /// The kernel handle of the device created `ago` devices before the last.
    pub fn device(&self, before: usize) -> usize {
        let state = self.state();
        state.devices.iter().rev().nth(before).copied().unwrap_or(0)
    }

    /// The kernel handle of the context created `ago` contexts before the last.
    pub fn context(&self, before: usize) -> usize {
        let state = self.state();
        state.contexts.iter().rev().nth(before).copied().unwrap_or(0)
    }

    /// Creates an allocation of one page for the newest device, shared across its contexts.
    pub fn share(&self, at: &mut Passive, driver_handle: usize) -> DriverResult<usize> {
        let args = CreateContextAllocationArgs {
            shared: true,
            ..self.context_allocation_args(driver_handle)
        };
        self.services().create_context_allocation(at, &args)
    }

    /// A request for one page, neither shared nor of a context.
    pub fn context_allocation_args(&self, driver_handle: usize) -> CreateContextAllocationArgs {
        let wants = PlacementRequirements {
            segments: SegmentSet::of(&[1, 2, 3]),
            ..PlacementRequirements::default()
        };
        let device = self.device(0);
        CreateContextAllocationArgs {
            device,
            size: 4096,
            requirements: wants,
            driver_handle,
            ..CreateContextAllocationArgs::default()
        }
    }

    /// The paging operations it was asked to build, with their driver handles.
    pub fn paging_operations(&self) -> Vec<(&'static str, usize)> {
        self.state().paging_operations.clone()
    }

    fn run(&self, when: HookPoint, at: &mut Passive) -> DriverResult<()> {
        let hooks: Vec<Hook> = {
            let state = self.state();
            state.hooks.iter().filter(|pair| pair.0 == when).map(|pair| pair.1.clone()).collect()
        };
        hooks.iter().try_for_each(|it| it(self, at))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Miniport for RecordingDriver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn add_device(&self, at: &mut Passive, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        self.state().services = Some(services.clone());
        self.driver.add_device(at, services)
    }

    fn remove_device(&self, at: &mut Passive) -> DriverResult<()> {
        let services = self.state().services.take();
        drop(services);
        self.driver.remove_device(at)
    }

    fn create_device(
        &self,
        at: &mut Passive,
        slot: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        self.state().devices.push(slot.kernel_handle());
        self.run(HookPoint::CreateDevice, at)?;
        self.driver.create_device(at, slot)
    }

    fn destroy_device(&self, at: &mut Passive, device: DriverDevice) -> DriverResult<()> {
        self.run(HookPoint::DestroyDevice, at)?;
        self.driver.destroy_device(at, device)
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        slot: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, u32)> {
        self.state().contexts.push(slot.kernel_handle());
        self.run(HookPoint::CreateContext, at)?;
        self.driver.create_context(at, device, args, slot)
    }

    fn destroy_context(&self, at: &mut Passive, context: DriverContext) -> DriverResult<()> {
        self.run(HookPoint::DestroyContext, at)?;
        self.driver.destroy_context(at, context)
    }

    fn build_paging_buffer(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
    ) -> DriverResult<()> {
        let driver_handle = driver_handle(&args.operation);
        self.state().paging_operations.push((args.operation.name(), driver_handle));
        self.run(HookPoint::Pages, at).map_err(|_| DriverError::Invalid)?;
        self.driver.build_paging_buffer(at, args)
    }
}

fn driver_handle(operation: &Operation<'_>) -> usize {
    match *operation {
        Operation::Transfer(ref it) => it.driver_handle.unwrap_or(0),
        Operation::Fill { driver_handle, .. }
        | Operation::Discard { driver_handle, .. }
        | Operation::InitContext { driver_handle, .. }
        | Operation::UpdateContext { driver_handle, .. }
        | Operation::Notify { driver_handle, .. } => driver_handle,
        Operation::MapAperture { driver_handle, .. }
        | Operation::UnmapAperture { driver_handle, .. }
        | Operation::VirtualTransfer { driver_handle, .. }
        | Operation::VirtualFill { driver_handle, .. } => driver_handle.unwrap_or(0),
        Operation::UpdateTable(ref it) => it.driver_handle.unwrap_or(0),
        Operation::FlushTlb { .. } | Operation::CopyEntries(_) => 0,
    }
}
