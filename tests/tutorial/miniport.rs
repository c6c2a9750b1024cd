//! A miniport for the tutorial: it keeps allocations, and takes no work.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Drain;
use windtunnel::{kernel::ddi, prelude::*};

const TAG: u32 = u32::from_le_bytes(*b"Tuto");

/// The driver. Each thing it makes has a block of pool memory, and the block's address is the
/// word it gives for the thing.
#[derive(Default)]
pub(crate) struct Keeper {
    services: Mutex<Option<Arc<Services>>>,
}

impl Keeper {
    fn services(&self) -> MutexGuard<'_, Option<Arc<Services>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self) -> Answer<Arc<dyn Pool>> {
        self.services().as_ref().map(|it| it.pool().clone()).ok_or(Refusal::Invalid)
    }

    /// Takes a block for each of `count` things, or none at all.
    fn take(&self, count: usize) -> Answer<std::vec::IntoIter<usize>> {
        let pool = self.pool()?;
        let blocks: Vec<usize> = (0..count).map_while(|_| pool.take(32, TAG)).collect();
        if blocks.len() < count {
            self.free(blocks.into_iter())?;
            return Err(Refusal::NoMemory);
        }
        Ok(blocks.into_iter())
    }

    pub(crate) fn free(&self, words: impl Iterator<Item = usize>) -> Answer<()> {
        let pool = self.pool()?;
        words.for_each(|it| pool.free(it, TAG));
        Ok(())
    }
}

impl Miniport for Keeper {
    fn offers(&self) -> Vec<&'static str> {
        let absent = [
            "Context",
            "SubmitCommandVirtual",
            "Interrupt",
            "Dpc",
            "StandardAllocation",
            "Describe",
        ];
        let all = ddi::NAMES.iter().copied();
        all.filter(|name| !absent.iter().any(|it| name.contains(it))).collect()
    }

    fn add_device(&self, _at: &mut Passive, services: &Arc<Services>) -> Answer<()> {
        *self.services() = Some(services.clone());
        Ok(())
    }

    fn start_device(&self, _at: &mut Passive) -> Answer<()> {
        Ok(())
    }

    fn query_adapter(&self, _at: &mut Passive) -> Answer<Features> {
        Ok(Features { nodes: 1 })
    }

    fn stop_device(&self, _at: &mut Passive) -> Answer<()> {
        Ok(())
    }

    fn remove_device(&self, _at: &mut Passive) -> Answer<()> {
        *self.services() = None;
        Ok(())
    }

    fn unload(&self, _at: &mut Passive) -> Answer<()> {
        Ok(())
    }

    fn create_device(&self, _at: &mut Passive, word: Blank<'_, Device>) -> Answer<DriverDevice> {
        self.take(1)?.next().map(|block| word.fill(block)).ok_or(Refusal::NoMemory)
    }

    fn destroy_device(&self, _at: &mut Passive, device: DriverDevice) -> Answer<()> {
        self.free([device.word()].into_iter())
    }

    fn create_allocations(&self, _at: &mut Passive, births: Births<'_>) -> Answer<Born> {
        let new = match births.resource {
            Some(Home::New(blank)) => Some(blank),
            Some(Home::Known(..)) | None => None,
        };
        let mut blocks = self.take(births.allocations.len() + usize::from(new.is_some()))?;
        let allocations = births.allocations.into_iter().zip(blocks.by_ref());
        let shape = Shape { size: 4096, alignment: 4096, pitch_aligned_size: 0 };
        let allocations = allocations.map(|(birth, block)| (birth.word.fill(block), shape));
        let allocations = allocations.collect();
        let resource = new.zip(blocks.next()).map(|(blank, block)| blank.fill(block));
        Ok(Born { allocations, resource })
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        self.free(doomed.allocations.map(|it| it.word()))?;
        if let Some(Fate::Goes(resource)) = doomed.resource {
            self.free([resource.word()].into_iter())?;
        }
        Ok(None)
    }

    fn open_allocations(&self, _at: &mut Passive, opening: Opening<'_>) -> Answer<Vec<DriverView>> {
        let blocks = self.take(opening.views.len())?;
        Ok(opening.views.into_iter().zip(blocks).map(|(view, it)| view.word.fill(it)).collect())
    }

    fn close_allocations(
        &self,
        _at: &mut Passive,
        _device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> Answer<()> {
        self.free(views.map(|it| it.word()))
    }
}
