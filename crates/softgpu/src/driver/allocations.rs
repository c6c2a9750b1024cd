//! Allocations, resources and views: created, described and destroyed with their pool blocks.

use super::SoftGpu;
use crate::allocation::Allocation;
use crate::blocks::{ObjectBlocks, build};
use crate::description::read_allocation_info;
use crate::format;
use crate::plan::PAGE;
use flight::Passive;
use kernel::miniport::{
    AllocationInfo, CreateAllocationArgs, DestroyAllocationArgs, Drain, DriverAllocation,
    DriverDevice, DriverError, DriverResource, DriverResult, DriverView, OpenAllocationArgs,
    OwningResource, ResourceDisposition, SurfaceInfo,
};
use smallvec::SmallVec;

/// `D3DDDIFMT_A8`: one byte per pixel.
const A8: i32 = 28;

impl SoftGpu {
    /// Describes an allocation, from its private data.
    fn describe(&self, private: &[u8], info: &mut AllocationInfo) -> DriverResult<()> {
        if self.plan.is_some() {
            *info = read_allocation_info(private)?;
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
            let mut own_blocks = SmallVec::<[_; 1]>::new();
            for new in &mut args.allocations {
                self.describe(new.private, &mut new.info)?;
                own_blocks.push(blocks.allocate()?);
            }

            let records = &mut self.state().records;
            let resource = resource.map(|(block, blank)| blank.fill(records.add_resource(block)));
            let has_memory = self.plan.is_some();
            for (new, block) in args.allocations.iter_mut().zip(own_blocks) {
                let size = new.info.size;
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
            let mut found = SmallVec::<[_; 1]>::new();
            for new in &args.views {
                let allocation = callbacks.handle_data(at, new.handle, false);
                let allocation = allocation.ok_or(DriverError::NoHandle)?;
                found.push((blocks.allocate()?, allocation));
            }

            let records = &mut self.state().records;
            if found.iter().any(|(_, allocation)| records.allocation(*allocation).is_none()) {
                return Err(DriverError::Invalid);
            }
            for (new, (block, allocation)) in args.views.iter_mut().zip(found) {
                let view = records.view(device, new.handle, allocation);
                new.fill(records.add_view(block, view.ok_or(DriverError::Invalid)?));
            }
            Ok(())
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
