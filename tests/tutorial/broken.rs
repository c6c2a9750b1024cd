//! The tutorial's miniport, broken in five ways: each version changes one entry.

use super::miniport::MinimalDriver;
use windtunnel::prelude::*;

/// Reports a size of zero for every allocation.
#[derive(Default)]
pub(crate) struct ReturnsZeroSize(MinimalDriver);

impl Miniport for ReturnsZeroSize {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&self.0)
    }

    fn create_allocations(
        &self,
        at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        let resource = self.0.create_allocations(at, args)?;
        args.allocations.iter_mut().for_each(|new| new.info.size = 0);
        Ok(resource)
    }
}

/// Does not free the allocations that it destroys.
#[derive(Default)]
pub(crate) struct LeaksDestroyedAllocations(MinimalDriver);

impl Miniport for LeaksDestroyedAllocations {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&self.0)
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        _args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        Ok(None)
    }
}

/// Destroys the allocations and returns an error.
#[derive(Default)]
pub(crate) struct FailsDestroy(MinimalDriver);

impl Miniport for FailsDestroy {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&self.0)
    }

    fn destroy_allocations(
        &self,
        at: &mut Passive,
        args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.0.destroy_allocations(at, args)?;
        Err(DriverError::Busy)
    }
}

/// Does not free its handles of closed views.
#[derive(Default)]
pub(crate) struct LeaksViews(MinimalDriver);

impl Miniport for LeaksViews {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&self.0)
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

/// Frees a device's handle when the device is created, and again when it is destroyed.
#[derive(Default)]
pub(crate) struct FreesDeviceTwice(MinimalDriver);

impl Miniport for FreesDeviceTwice {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&self.0)
    }

    fn create_device(
        &self,
        at: &mut Passive,
        slot: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        let device = self.0.create_device(at, slot)?;
        self.0.handles.free([device.as_raw()])?;
        Ok(device)
    }
}
