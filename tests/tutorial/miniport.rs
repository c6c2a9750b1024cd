//! A miniport for the tutorial: it keeps allocations, and takes no work.

use std::sync::Arc;
use std::vec::Drain;
use windtunnel::{kernel::ddi, prelude::*};

/// The driver. Each thing it makes has a word, and a word is a block of pool memory.
#[derive(Default)]
pub(crate) struct Keeper {
    pub(crate) words: Words,
}

impl Miniport for Keeper {
    fn offers(&self) -> Vec<&'static str> {
        ddi::REQUIRED.to_vec()
    }

    fn add_device(&self, _at: &mut Passive, services: &Arc<Services>) -> Answer<()> {
        self.words.meet(services)
    }

    fn query_adapter(&self, _at: &mut Passive) -> Answer<Features> {
        Ok(Features { nodes: 1, ..Features::default() })
    }

    fn remove_device(&self, _at: &mut Passive) -> Answer<()> {
        self.words.part()
    }

    fn create_device(&self, _at: &mut Passive, word: Blank<'_, Device>) -> Answer<DriverDevice> {
        Ok(word.fill(self.words.one()?))
    }

    fn destroy_device(&self, _at: &mut Passive, device: DriverDevice) -> Answer<()> {
        self.words.free([device.word()])
    }

    fn create_allocations(&self, _at: &mut Passive, births: Births<'_>) -> Answer<Born> {
        let new = match births.resource {
            Some(Home::New(blank)) => Some(blank),
            Some(Home::Known(..)) | None => None,
        };
        let mut words = self.words.take(births.allocations.len() + usize::from(new.is_some()))?;
        let shape = Shape { size: 4096, alignment: 4096, ..Shape::default() };
        let allocations = births.allocations.into_iter().zip(words.by_ref());
        let allocations = allocations.map(|(birth, word)| (birth.word.fill(word), shape)).collect();
        let resource = new.zip(words.next()).map(|(blank, word)| blank.fill(word));
        Ok(Born { allocations, resource })
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        self.words.free(doomed.allocations.map(|it| it.word()))?;
        if let Some(Fate::Goes(resource)) = doomed.resource {
            self.words.free([resource.word()])?;
        }
        Ok(None)
    }

    fn open_allocations(&self, _at: &mut Passive, opening: Opening<'_>) -> Answer<Vec<DriverView>> {
        let words = self.words.take(opening.views.len())?;
        Ok(opening.views.into_iter().zip(words).map(|(view, it)| view.word.fill(it)).collect())
    }

    fn close_allocations(
        &self,
        _at: &mut Passive,
        _device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> Answer<()> {
        self.words.free(views.map(|it| it.word()))
    }
}
