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
        args: CreateAllocationArgs<'_>,
    ) -> DriverResult<CreatedAllocations> {
        let new = if let Some(OwningResource::New(new)) = args.resource { Some(new) } else { None };
        let mut handles = self.handles.allocate(args.allocations.len() + new.iter().len())?;
        let info = AllocationInfo { size: 4096, alignment: 4096, ..AllocationInfo::default() };
        let allocations = args.allocations.into_iter().zip(handles.by_ref());
        let allocations = allocations.map(|(new, handle)| (new.slot.fill(handle), info)).collect();
        let resource = new.zip(handles.next()).map(|(slot, handle)| slot.fill(handle));
        Ok(CreatedAllocations { allocations, resource })
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
        args: OpenAllocationArgs<'_>,
    ) -> DriverResult<CallList<DriverView>> {
        let handles = self.handles.allocate(args.views.len())?;
        Ok(args.views.into_iter().zip(handles).map(|(view, it)| view.slot.fill(it)).collect())
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
