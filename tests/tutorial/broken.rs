//! The miniport of the tutorial, broken in five ways: each is the good one with one entry changed.

use super::miniport::Keeper;
use std::vec::Drain;
use windtunnel::prelude::*;

/// Says that an allocation has no bytes.
#[derive(Default)]
pub(crate) struct ReturnsZeroSize(Keeper);

impl Miniport for ReturnsZeroSize {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&self.0)
    }

    fn create_allocations(
        &self,
        at: &mut Passive,
        args: CreateAllocationArgs<'_>,
    ) -> DriverResult<CreatedAllocations> {
        let mut created = self.0.create_allocations(at, args)?;
        created.allocations.iter_mut().for_each(|(_, shape)| shape.size = 0);
        Ok(created)
    }
}

/// Does not free what it is told to destroy.
#[derive(Default)]
pub(crate) struct LeaksDestroyedAllocations(Keeper);

impl Miniport for LeaksDestroyedAllocations {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&self.0)
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        _doomed: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        Ok(None)
    }
}

/// Destroys, and answers that it could not.
#[derive(Default)]
pub(crate) struct FailsDestroy(Keeper);

impl Miniport for FailsDestroy {
    fn stands_on(&self) -> Option<&dyn Miniport> {
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

/// Does not free the words of views.
#[derive(Default)]
pub(crate) struct LeaksViews(Keeper);

impl Miniport for LeaksViews {
    fn stands_on(&self) -> Option<&dyn Miniport> {
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

/// Frees a device's word when the device is made, and once more when it ends.
#[derive(Default)]
pub(crate) struct FreesDeviceTwice(Keeper);

impl Miniport for FreesDeviceTwice {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&self.0)
    }

    fn create_device(
        &self,
        at: &mut Passive,
        word: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        let device = self.0.create_device(at, word)?;
        self.0.words.free([device.word()])?;
        Ok(device)
    }
}
