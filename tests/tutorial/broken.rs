//! The miniport of the tutorial, broken in five ways: each is the good one with one entry changed.

use super::miniport::Keeper;
use std::vec::Drain;
use windtunnel::prelude::*;

/// Says that an allocation has no bytes.
#[derive(Default)]
pub(crate) struct Empty(Keeper);

impl Miniport for Empty {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&self.0)
    }

    fn create_allocations(&self, at: &mut Passive, births: Births<'_>) -> Answer<Born> {
        let mut born = self.0.create_allocations(at, births)?;
        born.allocations.iter_mut().for_each(|(_, shape)| shape.size = 0);
        Ok(born)
    }
}

/// Does not free what it is told to destroy.
#[derive(Default)]
pub(crate) struct Hoards(Keeper);

impl Miniport for Hoards {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&self.0)
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        _doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        Ok(None)
    }
}

/// Destroys, and answers that it could not.
#[derive(Default)]
pub(crate) struct Hesitates(Keeper);

impl Miniport for Hesitates {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&self.0)
    }

    fn destroy_allocations(
        &self,
        at: &mut Passive,
        doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        self.0.destroy_allocations(at, doomed)?;
        Err(Refusal::Busy)
    }
}

/// Does not free the words of views.
#[derive(Default)]
pub(crate) struct Forgets(Keeper);

impl Miniport for Forgets {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&self.0)
    }

    fn close_allocations(
        &self,
        _at: &mut Passive,
        _device: &DriverDevice,
        _views: Drain<'_, DriverView>,
    ) -> Answer<()> {
        Ok(())
    }
}

/// Frees a device's word when the device is made, and once more when it ends.
#[derive(Default)]
pub(crate) struct Hurries(Keeper);

impl Miniport for Hurries {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&self.0)
    }

    fn create_device(&self, at: &mut Passive, word: Blank<'_, Device>) -> Answer<DriverDevice> {
        let device = self.0.create_device(at, word)?;
        self.0.words.free([device.word()])?;
        Ok(device)
    }
}
