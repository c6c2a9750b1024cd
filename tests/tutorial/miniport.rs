//! A miniport for the tutorial: it keeps allocations, and takes no work.

use std::sync::Arc;
use std::vec::Drain;
use windtunnel::{kernel::ddi, prelude::*};

/// The driver. Each thing it makes has a word, and a word is a block of pool memory.
#[derive(Default)]
pub(crate) struct Keeper {
    pub(crate) words: HandleAllocator,
}

impl Miniport for Keeper {
    fn offers(&self) -> Vec<&'static str> {
        ddi::REQUIRED.to_vec()
    }

    fn add_device(&self, _at: &mut Passive, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        self.words.attach(services)
    }

    fn query_adapter(&self, _at: &mut Passive) -> DriverResult<Features> {
        Ok(Features { nodes: 1, ..Features::default() })
    }

    fn remove_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.words.detach()
    }

    fn create_device(
        &self,
        _at: &mut Passive,
        word: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        Ok(word.fill(self.words.allocate_one()?))
    }

    fn destroy_device(&self, _at: &mut Passive, device: DriverDevice) -> DriverResult<()> {
        self.words.free([device.word()])
    }

    fn create_allocations(
        &self,
        _at: &mut Passive,
        args: CreateAllocationArgs<'_>,
    ) -> DriverResult<CreatedAllocations> {
        let new = match args.resource {
            Some(OwningResource::New(uninitialised)) => Some(uninitialised),
            Some(OwningResource::Existing(..)) | None => None,
        };
        let mut words = self.words.allocate(args.allocations.len() + usize::from(new.is_some()))?;
        let shape = AllocationInfo { size: 4096, alignment: 4096, ..AllocationInfo::default() };
        let allocations = args.allocations.into_iter().zip(words.by_ref());
        let allocations = allocations.map(|(birth, word)| (birth.slot.fill(word), shape)).collect();
        let resource = new.zip(words.next()).map(|(uninitialised, word)| uninitialised.fill(word));
        Ok(CreatedAllocations { allocations, resource })
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.words.free(args.allocations.map(|driver_handle| driver_handle.word()))?;
        if let Some(ResourceDisposition::Destroy(resource)) = args.resource {
            self.words.free([resource.word()])?;
        }
        Ok(None)
    }

    fn open_allocations(
        &self,
        _at: &mut Passive,
        args: OpenAllocationArgs<'_>,
    ) -> DriverResult<Vec<DriverView>> {
        let words = self.words.allocate(args.views.len())?;
        Ok(args.views.into_iter().zip(words).map(|(view, it)| view.slot.fill(it)).collect())
    }

    fn close_allocations(
        &self,
        _at: &mut Passive,
        _device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> DriverResult<()> {
        self.words.free(views.map(|driver_handle| driver_handle.word()))
    }
}
