//! The allocations in a segment, for `D3DKMTQueryStatistics`.

use crate::adapter::start::AdapterId;
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::process::{Process, ProcessId};
use crate::memory::{Extent, Owner};
use crate::objects::allocation::{Allocation, AllocationCount};
use crate::state::KernelState;

impl Kernel {
    /// The allocations in a segment, with their bytes: of a process, or all.
    ///
    /// WINDOWS: memory of a driver's contexts and page tables is committed to segments, but no
    /// allocation of a client (our reading).
    pub fn segment_allocations(
        &self,
        adapter: AdapterId,
        segment: u32,
        of: Option<ProcessId>,
    ) -> AllocationCount {
        let state = self.state.lock();
        let mut found = AllocationCount::default();
        let there = |extent: &Extent| {
            extent.adapter == adapter.0 && extent.segment() == Some(segment as usize)
        };
        for (_, extent) in state.memory.extents.iter().filter(|(_, extent)| there(extent)) {
            let allocation = match extent.owner {
                Owner::Allocation(allocation) => allocation,
                Owner::Instance(instance) => state.memory.instances[instance].allocation,
                Owner::ContextAllocation(_) | Owner::Table(_) => continue,
            };
            if of.is_none_or(|process| state.is_open_in(allocation, process.0)) {
                found.count_one(extent.bytes);
            }
        }
        found
    }
}

impl KernelState {
    /// Whether a process has a view of an allocation.
    fn is_open_in(&self, allocation: Id<Allocation>, process: Id<Process>) -> bool {
        let views = self.allocations.get(allocation).map(|allocation| allocation.views.as_slice());
        views.unwrap_or_default().iter().any(|view| {
            let device = self.views.get(*view).and_then(|view| self.devices.get(view.device));
            device.is_some_and(|device| device.process == Some(process))
        })
    }
}
