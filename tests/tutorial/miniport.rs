use std::sync::Arc;
use windtunnel::{kernel::ddi, prelude::*};

/// Creates allocations and accepts no work. A driver handle is a pool block's address.
#[derive(Default)]
pub(crate) struct MinimalDriver {
    pub(crate) handles: HandleAllocator,
}

impl Miniport for MinimalDriver {
    fn entry_points(&self) -> Vec<&'static str> {
        ddi::REQUIRED.to_vec()
    }

    fn add_device(&self, _at: &mut Passive, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        self.handles.attach(services)
    }

    fn query_adapter_info(&self, _at: &mut Passive) -> DriverResult<Features> {
        Ok(Features { nodes: 1, ..Features::default() })
    }

    fn remove_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.handles.detach()
    }

    fn create_device(
        &self,
        _at: &mut Passive,
        slot: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        Ok(slot.fill(self.handles.allocate_one()?))
    }

    fn destroy_device(&self, _at: &mut Passive, device: DriverDevice) -> DriverResult<()> {
        self.handles.free([device.as_raw()])
    }

    fn create_allocations(
        &self,
        _at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        let resource = args.resource.take();
        let slot = if let Some(OwningResource::New(slot)) = resource { Some(slot) } else { None };
        let mut handles = self.handles.allocate(args.allocations.len() + slot.iter().len())?;
        let info = AllocationInfo { size: 4096, alignment: 4096, ..AllocationInfo::default() };
        args.allocations.iter_mut().zip(handles.by_ref()).for_each(|(new, it)| new.fill(it, info));
        Ok(slot.zip(handles.next()).map(|(slot, handle)| slot.fill(handle)))
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.handles.free(args.allocations.map(|handle| handle.as_raw()))?;
        let Some(ResourceDisposition::Destroy(resource)) = args.resource else { return Ok(None) };
        self.handles.free([resource.as_raw()]).map(|()| None)
    }

    fn open_allocations(
        &self,
        _at: &mut Passive,
        args: &mut OpenAllocationArgs<'_>,
    ) -> DriverResult<()> {
        let handles = self.handles.allocate(args.views.len())?;
        args.views.iter_mut().zip(handles).for_each(|(view, handle)| view.fill(handle));
        Ok(())
    }

    fn close_allocations(
        &self,
        _at: &mut Passive,
        _device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> DriverResult<()> {
        self.handles.free(views.map(|handle| handle.as_raw()))
    }
}
