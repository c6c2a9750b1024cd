//! A driver that does nothing but give words, so that what is measured is the kernel.

use flight::{Line, Machine, Passive, Pool};
use kernel::Plugged;
use kernel::device::Device;
use kernel::miniport::{
    Answer, Births, Blank, Born, Doomed, DriverDevice, DriverResource, DriverView, Features,
    Miniport, Opening, Shape,
};
use kernel::services::Services;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::vec::Drain;

const PAGE: u64 = 4096;

/// The driver, with hardware and memory that do nothing either.
pub(crate) fn plug() -> Plugged {
    let it = Arc::new(Idle::default());
    Plugged { miniport: it.clone(), machine: it.clone(), pool: it }
}

/// The last word it gave.
#[derive(Default)]
pub(crate) struct Idle(AtomicUsize);

impl Idle {
    /// Words rise, as addresses of blocks that are never used again would.
    pub(crate) fn word(&self) -> usize {
        0x10 * (1 + self.0.fetch_add(1, Ordering::Relaxed))
    }
}

impl Miniport for Idle {
    fn add_device(&self, _at: &mut Passive, _services: &Arc<Services>) -> Answer<()> {
        Ok(())
    }

    fn start_device(&self, _at: &mut Passive) -> Answer<()> {
        Ok(())
    }

    fn query_adapter(&self, _at: &mut Passive) -> Answer<Features> {
        Ok(Features { nodes: 1, ..Features::default() })
    }

    fn stop_device(&self, _at: &mut Passive) -> Answer<()> {
        Ok(())
    }

    fn remove_device(&self, _at: &mut Passive) -> Answer<()> {
        Ok(())
    }

    fn unload(&self, _at: &mut Passive) -> Answer<()> {
        Ok(())
    }

    fn create_device(&self, _at: &mut Passive, word: Blank<'_, Device>) -> Answer<DriverDevice> {
        Ok(word.fill(self.word()))
    }

    fn destroy_device(&self, _at: &mut Passive, _device: DriverDevice) -> Answer<()> {
        Ok(())
    }

    fn create_allocations(&self, _at: &mut Passive, births: Births<'_>) -> Answer<Born> {
        let shape = Shape { size: PAGE, alignment: PAGE, ..Shape::default() };
        let born = births.allocations.into_iter().map(|it| (it.word.fill(self.word()), shape));
        Ok(Born { allocations: born.collect(), resource: None })
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        _doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        Ok(None)
    }

    fn open_allocations(&self, _at: &mut Passive, opening: Opening<'_>) -> Answer<Vec<DriverView>> {
        Ok(opening.views.into_iter().map(|it| it.word.fill(self.word())).collect())
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

impl Machine for Idle {
    fn idle(&self) -> bool {
        true
    }

    fn step(&self, _at: &mut Passive, _line: &dyn Line) {}
}

impl Pool for Idle {
    fn take(&self, _bytes: usize, _tag: u32) -> Option<usize> {
        None
    }

    fn free(&self, _block: usize, _tag: u32) {}

    fn refers(&self, _block: usize, _word: usize) -> bool {
        false
    }

    fn inspect(&self) {}

    fn close(&self) {}
}
