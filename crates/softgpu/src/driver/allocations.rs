//! Allocations, resources and views: created, described and ended with their pool blocks.

use super::SoftGpu;
use crate::allocation::Allocation;
use crate::blocks::build;
use crate::description::read_allocation_info;
use crate::format;
use crate::plan::PAGE;
use crate::records::View;
use flight::Passive;
use kernel::miniport::{
    DriverResult, CreateAllocationArgs, CreatedAllocations, DestroyAllocationArgs, DriverAllocation, DriverDevice, DriverResource, DriverView, ResourceDisposition,
    OwningResource, OpenAllocationArgs, DriverError, AllocationInfo, SurfaceInfo, NewView,
};
use std::sync::Arc;
use std::vec::Drain;

/// `D3DDDIFMT_A8`: a byte is a pixel.
const A8: i32 = 28;

impl SoftGpu {
    /// What an allocation is, from its private data.
    fn allocation_info(&self, private: &[u8]) -> DriverResult<AllocationInfo> {
        if self.plan.is_some() {
            let mut shape = read_allocation_info(private)?;
            // A driver of WDDM 1.x is told in each packet where things are.
            let told = self.lists.is_none();
            (shape.requirements.flags.physical, shape.requirements.flags.notify) = (told, told);
            return Ok(shape);
        }
        let size = format::read_description(private)?.next_multiple_of(PAGE);
        Ok(AllocationInfo { size, alignment: PAGE, ..AllocationInfo::default() })
    }

    pub(super) fn new_allocations(&self, births: CreateAllocationArgs<'_>) -> DriverResult<CreatedAllocations> {
        build(&**self.callbacks()?.pool(), |blocks| {
            let resource = match births.resource {
                Some(OwningResource::New(blank)) => Some((blocks.allocate()?, blank)),
                Some(OwningResource::Existing(it, _)) if !self.state().records.has_resource(it.word()) => {
                    return Err(DriverError::Invalid);
                }
                Some(OwningResource::Existing(..)) | None => None,
            };
            let mut described = Vec::new();
            for birth in births.allocations {
                let shape = self.allocation_info(birth.private)?;
                described.push((blocks.allocate()?, shape, birth.slot));
            }

            let records = &mut self.state().records;
            let resource = resource.map(|(word, blank)| {
                records.add_resource(word);
                blank.fill(word)
            });
            let make = if self.plan.is_some() { Allocation::without_memory } else { Allocation::with_memory };
            let allocations = described.into_iter().map(|(word, shape, blank)| {
                records.add_allocation(word, make(word, shape.size));
                (blank.fill(word), shape)
            });
            Ok(CreatedAllocations { allocations: allocations.collect(), resource })
        })
    }

    pub(super) fn remove_allocations(&self, doomed: DestroyAllocationArgs<'_>) -> DriverResult<Option<DriverResource>> {
        self.remove_handles(|records, completions| {
            for allocation in doomed.allocations {
                records.remove_allocation(allocation.word(), completions);
            }
            match doomed.resource {
                Some(ResourceDisposition::Destroy(it)) => records.remove_resource(it.word(), completions),
                Some(ResourceDisposition::Keep(it, _)) => completions.unknown |= !records.has_resource(it.word()),
                None => (),
            }
        })?;
        Ok(None)
    }

    /// A row of bytes, as its private data says.
    pub(super) fn surface_info(&self, allocation: &DriverAllocation) -> DriverResult<SurfaceInfo> {
        let bytes = self.state().records.allocation(allocation.word()).map(|it| it.size());
        let bytes = bytes.ok_or(DriverError::Invalid)?;
        let width = u32::try_from(bytes).map_err(|_| DriverError::Invalid)?;
        Ok(SurfaceInfo { width, height: 1, format: A8 })
    }

    pub(super) fn new_views(
        &self,
        at: &mut Passive,
        opening: OpenAllocationArgs<'_>,
    ) -> DriverResult<Vec<DriverView>> {
        let services = self.callbacks()?;
        let device = opening.device.word();
        if !self.state().records.has_device(device) {
            return Err(DriverError::Invalid);
        }
        build(&**services.pool(), |blocks| {
            let mut found = Vec::new();
            for NewView { handle, slot: word, .. } in opening.views {
                let allocation = services.handle_data(at, handle, false);
                let allocation = allocation.ok_or(DriverError::NoHandle)?;
                let allocation = self.state().records.allocation(allocation).map(Arc::downgrade);
                let allocation = allocation.ok_or(DriverError::Invalid)?;
                found.push((blocks.allocate()?, View { device, handle, allocation }, word));
            }

            let records = &mut self.state().records;
            let views = found.into_iter().map(|(word, view, blank)| {
                records.add_view(word, view);
                blank.fill(word)
            });
            Ok(views.collect())
        })
    }

    pub(super) fn remove_views(
        &self,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> DriverResult<()> {
        self.remove_handles(|records, completions| {
            completions.unknown = !records.has_device(device.word());
            for view in views {
                records.remove_view(view.word(), device.word(), completions);
            }
        })
    }
}
