//! The built-in driver with one property changed.

use flight::{Host, Log, Passive, Spawner};
use kernel::DriverSetup;
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    CreateAllocationArgs, CreateContextArgs, DestroyAllocationArgs, Drain, DriverContext,
    DriverDevice, DriverError, DriverResource, DriverResult, DriverView, Generation, HandleSlot,
    Miniport, OpenAllocationArgs,
};
use softgpu::{Gpu, MemoryPlan, SoftGpu};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// The built-in driver: of another WDDM version, slow, failing to open, or writing to private data.
pub struct VariantDriver {
    driver: Arc<SoftGpu>,
    hardware: Arc<Gpu>,
    generation: Generation,
    writes_private_data: bool,
    host: OnceLock<Arc<dyn Host>>,
    fails_open: AtomicBool,
}

impl VariantDriver {
    /// The built-in driver as a driver of that version.
    pub fn of(generation: Generation) -> Arc<Self> {
        Self::new(generation, false)
    }

    /// A driver that marks the private data of every allocation: `c` in the first byte when it is
    /// created, `o` in the second when it is opened.
    pub fn writing_private_data() -> Arc<Self> {
        Self::new(Generation::Two, true)
    }

    /// The built-in driver with memory as a driver of that version.
    pub fn with_memory(generation: Generation) -> Arc<Self> {
        let ram = nt::Ram::new(1 << 30).unwrap_or_else(|reason| panic!("{reason}"));
        Self::wrap(SoftGpu::with_memory(ram, MemoryPlan::default()), generation, false)
    }

    fn new(generation: Generation, writes_private_data: bool) -> Arc<Self> {
        Self::wrap(SoftGpu::new(), generation, writes_private_data)
    }

    fn wrap(
        built: (Arc<SoftGpu>, Arc<Gpu>),
        generation: Generation,
        writes_private_data: bool,
    ) -> Arc<Self> {
        let (driver, hardware) = built;
        let (host, fails_open) = (OnceLock::new(), AtomicBool::new(false));
        Arc::new(Self { driver, hardware, generation, writes_private_data, host, fails_open })
    }

    /// The driver as a setup.
    pub fn set_up(self: &Arc<Self>, log: &Arc<Log>) -> DriverSetup {
        let (miniport, machine) = (self.clone(), self.hardware.clone());
        DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(log.clone()) }
    }

    /// Lets other threads run while a thread is inside the driver, as if the driver were slow.
    pub fn yield_in_calls(&self, host: &Arc<dyn Spawner>) {
        self.host.get_or_init(|| host.clone());
    }

    /// Makes opens fail, or succeed again.
    pub fn set_fail_open(&self, fails_open: bool) {
        self.fails_open.store(fails_open, SeqCst);
    }

    fn yield_in_call(&self, at: &mut Passive) {
        if let Some(host) = self.host.get() {
            host.yield_point(at);
        }
    }

    /// Writes a letter into private data.
    fn write_private_byte(&self, private: &mut [u8], place: usize, letter: u8) {
        if let Some(byte) = private.get_mut(place).filter(|_| self.writes_private_data) {
            *byte = letter;
        }
    }
}

impl Miniport for VariantDriver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    fn create_device(
        &self,
        at: &mut Passive,
        slot: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        self.yield_in_call(at);
        self.driver.create_device(at, slot)
    }

    fn destroy_device(&self, at: &mut Passive, device: DriverDevice) -> DriverResult<()> {
        self.yield_in_call(at);
        self.driver.destroy_device(at, device)
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        slot: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, u32)> {
        self.yield_in_call(at);
        self.driver.create_context(at, device, args, slot)
    }

    fn destroy_context(&self, at: &mut Passive, context: DriverContext) -> DriverResult<()> {
        self.yield_in_call(at);
        self.driver.destroy_context(at, context)
    }

    fn create_allocations(
        &self,
        at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.yield_in_call(at);
        let resource = self.driver.create_allocations(at, args)?;
        for new in &mut args.allocations {
            self.write_private_byte(new.private, 0, b'c');
        }
        Ok(resource)
    }

    fn destroy_allocations(
        &self,
        at: &mut Passive,
        args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.yield_in_call(at);
        self.driver.destroy_allocations(at, args)
    }

    fn open_allocations(
        &self,
        at: &mut Passive,
        args: &mut OpenAllocationArgs<'_>,
    ) -> DriverResult<()> {
        self.yield_in_call(at);
        if self.fails_open.load(SeqCst) {
            return Err(DriverError::NoMemory);
        }
        for view in &mut args.views {
            self.write_private_byte(view.private, 1, b'o');
        }
        self.driver.open_allocations(at, args)
    }

    fn close_allocations(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> DriverResult<()> {
        self.yield_in_call(at);
        self.driver.close_allocations(at, device, views)
    }
}
