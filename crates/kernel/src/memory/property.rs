//! Properties of allocations that a client may change, and ranges of allocations.

use crate::base::error::KernelError;
use crate::ddi::segment::{SegmentPreference, SegmentSet};
use crate::kernel::Kernel;
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::Handle;

/// A client's request to change where an allocation may be (`D3DDDI_UPDATEALLOCPROPERTY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationPropertyRequest {
    /// The paging queue.
    pub queue: Handle,
    /// The allocation.
    pub allocation: Handle,
    /// The supported segments, if they change.
    pub segments: Option<SegmentSet>,
    /// The preferred segments, if they change.
    pub preferred: Option<[Option<SegmentPreference>; 5]>,
}

/// A part of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationRange {
    /// The allocation.
    pub allocation: Handle,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Kernel {
    /// Changes the segments of an allocation (`D3DKMTUpdateAllocationProperty`). Returns the fence
    /// value of the queue at which the change is done.
    ///
    /// WINDOWS: the change is queued, and moves the allocation (documented). That it takes effect
    /// when the allocation is placed next, and that the supported segments can only become fewer,
    /// is our decision.
    pub fn update_allocation_property(
        &self,
        process: ProcessId,
        request: &AllocationPropertyRequest,
    ) -> Result<u64, KernelError> {
        let (queue, inside) = {
            let mut state = self.state.lock();
            let (queue, device) = state.find_paging_queue(process, request.queue)?;
            (queue, self.acquire_rundown(&mut state, device)?)
        };
        self.recheck_device(&inside)?;
        let state = &mut *self.state.lock();
        // The queue may have been destroyed meanwhile.
        state.find_paging_queue(process, request.queue)?;
        let views = state.views_of(process, inside.device, &[request.allocation])?;
        let last = state.memory.paging_queue(queue).map_or(0, |queue| queue.last_assigned);
        for view in views {
            let extent = state.checked_extent_of(view);
            let requirements = &mut state.memory.extents[extent].requirements;
            let segments = request.segments.unwrap_or(requirements.segments);
            if segments.is_empty() || segments.0 & !requirements.segments.0 != 0 {
                return Err(KernelError::NoSegments(segments.0));
            }
            let preferred = request.preferred.unwrap_or(requirements.preferred);
            let known = |preference: &SegmentPreference| segments.has(preference.segment);
            // A preference that was given before may be of a segment that is not supported now.
            if request.preferred.is_some() && !preferred.iter().flatten().all(known) {
                return Err(KernelError::NoSegments(segments.0));
            }
            requirements.segments = segments;
            requirements.preferred = preferred.map(|preference| preference.filter(known));
        }
        Ok(last)
    }

    /// Fails if a range is not inside an allocation of the device (`D3DKMTInvalidateCache`).
    pub fn check_allocation_range(
        &self,
        process: ProcessId,
        device: Handle,
        range: &AllocationRange,
    ) -> Result<(), KernelError> {
        let guard = self.enter_device(process, device)?;
        let state = self.state.lock();
        for view in state.views_of(process, guard.device, &[range.allocation])? {
            let size = state.memory.extents[state.checked_extent_of(view)].bytes;
            let AllocationRange { offset, bytes, .. } = *range;
            if offset.checked_add(bytes).is_none_or(|end| end > size) {
                let view = view.subject();
                return Err(KernelError::OutsideAllocation { view, offset, bytes, size });
            }
        }
        Ok(())
    }
}
