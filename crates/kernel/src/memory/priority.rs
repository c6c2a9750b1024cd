//! Priorities and residency status of allocations.

use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::Handle;
use crate::objects::resource::ResourceView;
use flight::EventKind;

/// The residency of an allocation (`D3DKMT_ALLOCATIONRESIDENCYSTATUS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResidencyStatus {
    /// In the adapter's own memory.
    GpuMemory,
    /// In system memory, behind an aperture.
    SharedMemory,
    /// Not accessible to the GPU, or still being moved.
    NotResident,
}

impl ResidencyStatus {
    /// Its name in events.
    fn name(self) -> &'static str {
        match self {
            ResidencyStatus::GpuMemory => "local",
            ResidencyStatus::SharedMemory => "shared",
            ResidencyStatus::NotResident => "away",
        }
    }
}

impl Kernel {
    /// Returns the handles of a resource's allocations.
    pub fn resource_members(
        &self,
        process: ProcessId,
        resource: Handle,
    ) -> Result<Vec<Handle>, KernelError> {
        let state = self.state.lock();
        let argument = Argument::Resource;
        let number = state.resolve_handle::<ResourceView>(process, argument, resource)?;
        let views = state.resource_views.get(number).map(|resource_view| &resource_view.views);
        Ok(views.into_iter().flatten().filter_map(|view| state.newest_handle(*view)).collect())
    }

    /// Sets the priorities of views (`D3DKMTSetAllocationPriority`).
    pub fn set_priorities(
        &self,
        process: ProcessId,
        device: Handle,
        list: &[Handle],
        priorities: &[u32],
    ) -> Result<(), KernelError> {
        let guard = self.enter_device(process, device)?;
        let state = &mut *self.state.lock();
        let views = state.views_of(process, guard.device, list)?;
        for (view, priority) in views.into_iter().zip(priorities) {
            let extent = state.checked_extent_of(view);
            state.memory.extents[extent].priority = *priority;
            state.rank(extent);
        }
        Ok(())
    }

    /// Returns the priorities of views (`D3DKMTGetAllocationPriority`).
    pub fn priorities(
        &self,
        process: ProcessId,
        device: Handle,
        list: &[Handle],
    ) -> Result<Vec<u32>, KernelError> {
        let guard = self.enter_device(process, device)?;
        let state = self.state.lock();
        let views = state.views_of(process, guard.device, list)?;
        let extents =
            views.into_iter().filter_map(|view| state.memory.extents.get(state.extent_of(view)?));
        Ok(extents.map(|extent| extent.priority).collect())
    }

    /// Returns the residency of views (`D3DKMTQueryAllocationResidency`): of each in a list, or of
    /// a resource as a whole, which is the worst status of its allocations.
    pub fn residency_status(
        &self,
        process: ProcessId,
        device: Handle,
        resource: Option<Handle>,
        list: &[Handle],
    ) -> Result<Vec<ResidencyStatus>, KernelError> {
        let guard = self.enter_device(process, device)?;
        let state = self.state.lock();
        let views = state.views_of(process, guard.device, list)?;
        let Some(memory) = state.adapter_memory(guard.adapter) else {
            return Err(KernelError::NoVideoMemory);
        };
        let here = |it: &crate::memory::Extent| {
            let segment = it.segment().and_then(|index| memory.segments.get(index));
            match segment.filter(|_| it.pending == 0) {
                Some(it) if it.info.flags.aperture => ResidencyStatus::SharedMemory,
                Some(_) => ResidencyStatus::GpuMemory,
                None => ResidencyStatus::NotResident,
            }
        };
        let each = views
            .iter()
            .filter_map(|view| state.memory.extents.get(state.extent_of(*view)?))
            .map(here);
        let each: Vec<ResidencyStatus> = each.collect();
        let of = match resource {
            Some(it) => {
                Some(state.resolve_handle::<ResourceView>(process, Argument::Resource, it)?)
            }
            None => None,
        };
        let farthest = each.iter().max().copied().unwrap_or(ResidencyStatus::NotResident);
        for (view, here) in views.iter().zip(&each) {
            let result = if of.is_some() { farthest } else { *here };
            let of = of.map(Id::subject);
            self.log.emit(view.subject(), || EventKind::ResidencyQueried {
                of,
                result: result.name().into(),
            });
        }
        Ok(if of.is_some() { vec![farthest] } else { each })
    }

    /// Returns whether the adapter of a client's device has memory.
    pub fn has_memory(&self, process: ProcessId, device: Handle) -> bool {
        let state = self.state.lock();
        let device =
            state.device_of(process, device).ok().and_then(|device| state.devices.get(device));
        device.is_some_and(|device| state.adapter_memory(device.adapter).is_some())
    }
}
