//! Allocations, resources and views: created, described and destroyed with their pool blocks.

use super::SoftGpu;
use crate::allocation::Allocation;
use crate::blocks::{ObjectBlocks, build};
use crate::description::describe_allocation;
use crate::format;
use crate::plan::PAGE;
use crate::records::Records;
use flight::Passive;
use kernel::miniport::{
    AllocationInfo, CreateAllocationArgs, DestroyAllocationArgs, Drain, DriverAllocation,
    DriverDevice, DriverError, DriverResource, DriverResult, DriverView, NewView,
    OpenAllocationArgs, OwningResource, ResourceDisposition, SurfaceInfo,
};
use smallvec::SmallVec;

/// `D3DDDIFMT_A8`: one byte per pixel.
const A8: i32 = 28;

impl SoftGpu {
    /// Describes an allocation, from its private data.
    fn describe(&self, private: &[u8], info: &mut AllocationInfo) -> DriverResult<()> {
        if self.plan.is_some() {
            describe_allocation(private, info)?;
            // A WDDM 1.x driver gets the addresses of allocations with each packet.
            let told = self.lists.is_none();
            (info.requirements.flags.physical, info.requirements.flags.notify) = (told, told);
            return Ok(());
        }
        info.size = format::read_description(private)?.next_multiple_of(PAGE);
        info.alignment = PAGE;
        Ok(())
    }

    /// Builds objects that their tables number, if the pool has no blocks.
    fn build_objects<T>(
        &self,
        body: impl FnOnce(&mut ObjectBlocks<'_, '_>) -> DriverResult<T>,
    ) -> DriverResult<T> {
        if self.has_numbers() {
            return body(&mut ObjectBlocks(None));
        }
        build(&**self.callbacks()?.pool(), |blocks| body(&mut ObjectBlocks(Some(blocks))))
    }

    pub(super) fn new_allocations(
        &self,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.build_objects(|blocks| {
            let resource = match args.resource.take() {
                Some(OwningResource::New(blank)) => Some((blocks.allocate()?, blank)),
                Some(OwningResource::Existing(it, _))
                    if !self.state().records.has_resource(it.as_raw()) =>
                {
                    return Err(DriverError::Invalid);
                }
                Some(OwningResource::Existing(..)) | None => None,
            };
            let mut own_blocks = SmallVec::<[usize; 1]>::new();
            for new in &mut args.allocations {
                self.describe(new.private, &mut new.info)?;
                if let Some(block) = blocks.allocate()? {
                    own_blocks.push(block);
                }
            }

            let records = &mut self.state().records;
            let resource = resource.map(|(block, blank)| blank.fill(records.add_resource(block)));
            let has_memory = self.plan.is_some();
            for (place, new) in args.allocations.iter_mut().enumerate() {
                let (size, block) = (new.info.size, own_blocks.get(place).copied());
                let driver_handle = records.add_allocation(block, |handle| {
                    if has_memory {
                        Allocation::without_memory(handle, size)
                    } else {
                        Allocation::with_memory(handle, size)
                    }
                });
                new.set_driver_handle(driver_handle);
            }
            Ok(resource)
        })
    }

    pub(super) fn remove_allocations(
        &self,
        args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.remove_handles(|records, completions| {
            for allocation in args.allocations {
                records.remove_allocation(allocation.as_raw(), completions);
            }
            match args.resource {
                Some(ResourceDisposition::Destroy(it)) => {
                    records.remove_resource(it.as_raw(), completions);
                }
                Some(ResourceDisposition::Keep(it, _)) => {
                    completions.unknown |= !records.has_resource(it.as_raw());
                }
                None => (),
            }
        })?;
        Ok(None)
    }

    /// A row of bytes, as the private data describes it.
    pub(super) fn surface_info(&self, allocation: &DriverAllocation) -> DriverResult<SurfaceInfo> {
        let bytes = self
            .state()
            .records
            .allocation(allocation.as_raw())
            .map(|allocation| allocation.size());
        let bytes = bytes.ok_or(DriverError::Invalid)?;
        let width = u32::try_from(bytes).map_err(|_| DriverError::Invalid)?;
        Ok(SurfaceInfo { width: Some(width), height: Some(1), format: Some(A8) })
    }

    pub(super) fn new_views(
        &self,
        at: &mut Passive,
        args: &mut OpenAllocationArgs<'_>,
    ) -> DriverResult<()> {
        let device = args.device.as_raw();
        let callbacks = {
            let state = self.state();
            let callbacks = state.callbacks.clone();
            callbacks.filter(|_| state.records.has_device(device)).ok_or(DriverError::Invalid)?
        };
        self.build_objects(|blocks| {
            let mut find = |new: &NewView<'_>| {
                let allocation = callbacks.handle_data(at, new.handle, false);
                let allocation = allocation.ok_or(DriverError::NoHandle)?;
                Ok((blocks.allocate()?, allocation))
            };
            let open = |records: &mut Records, new: &mut NewView<'_>, (block, allocation)| {
                let view = records.add_view(block, device, new.handle, allocation);
                new.fill(view.ok_or(DriverError::Invalid)?);
                Ok(())
            };
            if let [new] = &mut *args.views {
                let found = find(new)?;
                return open(&mut self.state().records, new, found);
            }
            let found: SmallVec<[_; 2]> =
                args.views.iter().map(find).collect::<DriverResult<_>>()?;
            let records = &mut self.state().records;
            if found.iter().any(|(_, allocation)| records.allocation(*allocation).is_none()) {
                return Err(DriverError::Invalid);
            }
            let mut views = args.views.iter_mut().zip(found);
            views.try_for_each(|(new, found)| open(records, new, found))
        })
    }

    pub(super) fn remove_views(
        &self,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> DriverResult<()> {
        self.remove_handles(|records, completions| {
            completions.unknown = !records.has_device(device.as_raw());
            for view in views {
                records.remove_view(view.as_raw(), device.as_raw(), completions);
            }
        })
    }
}
