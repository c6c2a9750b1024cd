//! A driver that forwards every call to an inner driver and can do one thing wrong.

use crate::board::Board;
use flight::{DeviceLevel, Dispatch, Passive};
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    AllocationInfo, CallList, CreateAllocationArgs, CreateContextArgs, DestroyAllocationArgs,
    Drain, DriverAllocation, DriverContext, DriverDevice, DriverError, DriverResource,
    DriverResult, HandleSlot, Miniport, OpenAllocationArgs,
};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A driver around an inner driver.
pub(crate) struct FaultyDriver {
    inner: Arc<dyn Miniport>,
    fault: Option<Fault>,
    /// The number of devices.
    devices: AtomicU32,
    /// Driver handles of destroyed allocations, and the device that created the last allocations.
    remembered: Mutex<(Vec<usize>, usize)>,
    /// The hardware that the inner driver uses only by its address.
    _board: Option<Arc<Board>>,
}

/// What the driver does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Reports a size of zero for an allocation.
    ReturnsZeroSize,
    /// Reports a size of all ones for an allocation.
    ReturnsOverflowingSize,
    /// Reports an alignment of three pages for an allocation.
    ReturnsOddAlignment,
    /// Reports a `PitchAlignedSize` below the size.
    ReturnsSmallPitchAlignedSize,
    /// Writes to read-only private data when another device opens the allocation.
    EditsPrivateDataOnOpen,
    /// Destroys everything and returns `Busy`.
    FailsDestroyAllocation,
    /// Returns true for every interrupt.
    ClaimsEveryInterrupt,
    /// Does nothing in its DPC.
    OmitsNotifyDpc,
    /// Destroys a device and returns `Busy`.
    FailsDestroyDevice,
    /// Fails to create a second device.
    OneDevice,
    /// Fails to create any context.
    FailsCreateContext,
    /// Returns driver handles of destroyed allocations for new allocations.
    KeepsDestroyedHandles,
    /// Opens nothing for a device that did not create the allocation.
    RejectsSecondDeviceOpen,
}

impl FaultyDriver {
    /// Creates a driver that does one thing wrong.
    pub(crate) fn bad(inner: Arc<dyn Miniport>, fault: Fault) -> Arc<Self> {
        Self::new(inner, Some(fault), None)
    }

    /// Creates a driver that keeps the hardware of the inner driver alive.
    pub(crate) fn with_board(inner: Arc<dyn Miniport>, board: Arc<Board>) -> Arc<Self> {
        Self::new(inner, None, Some(board))
    }

    fn new(inner: Arc<dyn Miniport>, fault: Option<Fault>, board: Option<Arc<Board>>) -> Arc<Self> {
        let (devices, remembered) = (AtomicU32::new(0), Mutex::default());
        Arc::new(Self { inner, fault, devices, remembered, _board: board })
    }

    fn destroy(
        &self,
        at: &mut Passive,
        args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        let changed = self.inner.destroy_allocations(at, args)?;
        if self.fault == Some(Fault::FailsDestroyAllocation) {
            Err(DriverError::Busy)
        } else {
            Ok(changed)
        }
    }

    fn destroyed_handles(&self) -> MutexGuard<'_, (Vec<usize>, usize)> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver handle of a destroyed standalone allocation, returned for a new allocation.
    fn find_destroyed(&self, args: &CreateAllocationArgs<'_>) -> Option<usize> {
        let alone = args.allocations.len() == 1 && args.resource.is_none();
        let looks = alone && self.fault == Some(Fault::KeepsDestroyedHandles);
        looks.then(|| self.destroyed_handles().0.pop()).flatten()
    }
}

impl Miniport for FaultyDriver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    fn create_device(
        &self,
        at: &mut Passive,
        slot: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        if self.fault == Some(Fault::OneDevice) && self.devices.load(SeqCst) > 0 {
            return Err(DriverError::Unsupported);
        }
        let device = self.inner.create_device(at, slot)?;
        self.devices.fetch_add(1, SeqCst);
        Ok(device)
    }

    fn destroy_device(&self, at: &mut Passive, device: DriverDevice) -> DriverResult<()> {
        self.devices.fetch_sub(1, SeqCst);
        self.inner.destroy_device(at, device)?;
        if self.fault == Some(Fault::FailsDestroyDevice) { Err(DriverError::Busy) } else { Ok(()) }
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        slot: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, u32)> {
        if self.fault == Some(Fault::FailsCreateContext) {
            return Err(DriverError::Unsupported);
        }
        self.inner.create_context(at, device, args, slot)
    }

    fn create_allocations(
        &self,
        at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        if let Some(driver_handle) = self.find_destroyed(args) {
            let layout =
                AllocationInfo { size: 4096, alignment: 4096, ..AllocationInfo::default() };
            args.allocations.iter_mut().for_each(|new| new.fill(driver_handle, layout));
            return Ok(None);
        }
        let resource = self.inner.create_allocations(at, args)?;
        for layout in args.allocations.iter_mut().map(|new| &mut new.info) {
            match self.fault {
                Some(Fault::ReturnsZeroSize) => layout.size = 0,
                Some(Fault::ReturnsOverflowingSize) => layout.size = u64::MAX,
                Some(Fault::ReturnsOddAlignment) => layout.alignment = 3 * 4096,
                Some(Fault::ReturnsSmallPitchAlignedSize) => {
                    layout.pitch_aligned_size = layout.size / 2;
                }
                _ => (),
            }
        }
        Ok(resource)
    }

    fn destroy_allocations(
        &self,
        at: &mut Passive,
        args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        if self.fault != Some(Fault::KeepsDestroyedHandles) {
            return self.destroy(at, args);
        }
        let mut handles: CallList<Option<DriverAllocation>> = args.allocations.map(Some).collect();
        let values = handles.iter().flatten().map(DriverAllocation::as_raw);
        self.destroyed_handles().0.extend(values);
        let allocations = Drain::new(&mut handles);
        self.destroy(at, DestroyAllocationArgs { allocations, resource: args.resource })
    }

    fn open_allocations(
        &self,
        at: &mut Passive,
        args: &mut OpenAllocationArgs<'_>,
    ) -> DriverResult<()> {
        let device = args.device.as_raw();
        if self.fault == Some(Fault::RejectsSecondDeviceOpen) {
            let maker = &mut self.destroyed_handles().1;
            if args.create {
                *maker = device;
            } else if *maker != device {
                return Err(DriverError::Invalid);
            }
        }
        if self.fault == Some(Fault::EditsPrivateDataOnOpen) && !args.create {
            for byte in args.views.iter_mut().filter_map(|new_view| new_view.private.first_mut()) {
                *byte = byte.wrapping_add(1);
            }
        }
        self.inner.open_allocations(at, args)
    }

    fn interrupt_routine(&self, at: &mut DeviceLevel) -> DriverResult<bool> {
        let ours = self.inner.interrupt_routine(at)?;
        Ok(ours || self.fault == Some(Fault::ClaimsEveryInterrupt))
    }

    fn dpc_routine(&self, at: &mut Dispatch) -> DriverResult<()> {
        if self.fault == Some(Fault::OmitsNotifyDpc) { Ok(()) } else { self.inner.dpc_routine(at) }
    }
}
