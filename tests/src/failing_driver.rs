//! The built-in driver with one failing call.

use flight::{DeviceLevel, Dispatch, Log, Passive};
use kernel::DriverSetup;
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    CreateAllocationArgs, CreateContextArgs, DestroyAllocationArgs, Drain, DriverContext,
    DriverDevice, DriverError, DriverResource, DriverResult, DriverView, HandleSlot, Miniport,
    OpenAllocationArgs, SubmitCommandVirtualArgs,
};
use softgpu::{Gpu, SoftGpu};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// The built-in driver: one of the calls after its start fails.
pub struct Faulty {
    driver: Arc<SoftGpu>,
    hardware: Arc<Gpu>,
    fault: Option<Fault>,
    calls: AtomicU32,
    failed: Mutex<Option<&'static str>>,
}

/// Which call fails, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The call, counted from one.
    pub call: u32,
    /// Whether the call panics instead of failing.
    pub panics: bool,
}

impl Faulty {
    /// The calls that can fail.
    pub const CALLS: &[&str] = &[
        "create_device",
        "destroy_device",
        "create_context",
        "destroy_context",
        "create_allocations",
        "destroy_allocations",
        "open_allocations",
        "close_allocations",
        "submit",
        "interrupt",
        "dpc",
    ];

    /// Creates a driver with this failure.
    pub fn new(fault: Option<Fault>) -> Arc<Self> {
        let (driver, hardware) = SoftGpu::new();
        let (calls, failed) = (AtomicU32::new(0), Mutex::new(None));
        Arc::new(Self { driver, hardware, fault, calls, failed })
    }

    /// The driver as a setup.
    pub fn set_up(self: &Arc<Self>, log: &Arc<Log>) -> DriverSetup {
        let (miniport, machine) = (self.clone(), self.hardware.clone());
        DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(log.clone()) }
    }

    /// The number of calls so far.
    pub fn calls(&self) -> u32 {
        self.calls.load(SeqCst)
    }

    /// Returns the call that has failed since the last query.
    pub fn failed(&self) -> Option<&'static str> {
        self.failed.lock().ok()?.take()
    }

    fn count(&self, name: &'static str) -> DriverResult<()> {
        let call = self.calls.fetch_add(1, SeqCst) + 1;
        let Some(fault) = self.fault.filter(|fault| fault.call == call) else { return Ok(()) };
        if let Ok(mut failed) = self.failed.lock() {
            *failed = Some(name);
        }
        if fault.panics {
            resume_unwind(Box::new(name)); // As `panic!`, without the message.
        }
        Err(DriverError::NoMemory)
    }
}

impl Miniport for Faulty {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn create_device(
        &self,
        at: &mut Passive,
        driver_handle: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        self.count("create_device")?;
        self.driver.create_device(at, driver_handle)
    }

    fn destroy_device(&self, at: &mut Passive, device: DriverDevice) -> DriverResult<()> {
        self.count("destroy_device")?;
        self.driver.destroy_device(at, device)
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        driver_handle: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, u32)> {
        self.count("create_context")?;
        self.driver.create_context(at, device, args, driver_handle)
    }

    fn destroy_context(&self, at: &mut Passive, context: DriverContext) -> DriverResult<()> {
        self.count("destroy_context")?;
        self.driver.destroy_context(at, context)
    }

    fn create_allocations(
        &self,
        at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.count("create_allocations")?;
        self.driver.create_allocations(at, args)
    }

    fn destroy_allocations(
        &self,
        at: &mut Passive,
        args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.count("destroy_allocations")?;
        self.driver.destroy_allocations(at, args)
    }

    fn open_allocations(
        &self,
        at: &mut Passive,
        args: &mut OpenAllocationArgs<'_>,
    ) -> DriverResult<()> {
        self.count("open_allocations")?;
        self.driver.open_allocations(at, args)
    }

    fn close_allocations(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> DriverResult<()> {
        self.count("close_allocations")?;
        self.driver.close_allocations(at, device, views)
    }

    fn submit_command_virtual(
        &self,
        at: &mut Dispatch,
        packet: &SubmitCommandVirtualArgs<'_>,
    ) -> DriverResult<()> {
        self.count("submit")?;
        self.driver.submit_command_virtual(at, packet)
    }

    fn interrupt_routine(&self, at: &mut DeviceLevel) -> DriverResult<bool> {
        self.count("interrupt")?;
        self.driver.interrupt_routine(at)
    }

    fn dpc_routine(&self, at: &mut Dispatch) -> DriverResult<()> {
        self.count("dpc")?;
        self.driver.dpc_routine(at)
    }
}
