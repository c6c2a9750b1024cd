//! Checks of a driver's page-table description.

use crate::ddi::miniport::Features;
use crate::memory::address::geometry::Geometry;
use crate::memory::segment_index;

/// Checks whether a driver's page-table description is possible.
pub(crate) fn check_mmu(features: &Features) -> bool {
    // The driver may describe no MMU, but an MMU needs memory.
    let Some(mmu) = &features.mmu else { return true };
    let Some(memory) = &features.memory else { return false };
    let segment = |number: u32| segment_index(number).and_then(|index| memory.segments.get(index));
    let holds = |number: u32| segment(number).is_some_and(|info| !info.flags.aperture);
    let seen = |number: u32| segment(number).is_some_and(|info| info.cpu_address.is_some());
    let whole = Geometry::new(mmu).is_ok();
    let all = mmu.levels.iter().all(|table_level| {
        let cpu = mmu.mode != crate::ddi::mmu::UpdateMode::Cpu || seen(table_level.segment);
        holds(table_level.segment)
            && holds(table_level.system_segment)
            && seen(table_level.system_segment)
            && cpu
    });
    whole && all
}
