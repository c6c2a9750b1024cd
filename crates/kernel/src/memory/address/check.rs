//! What a driver says of its page tables, checked.

use crate::ddi::miniport::Features;
use crate::memory::address::geometry::Geometry;
use crate::memory::segment_index;

/// Whether what a driver says of its page tables is possible.
pub(crate) fn check_mmu(features: &Features) -> bool {
    let Some(mmu) = &features.mmu else { return true };
    let Some(memory) = &features.memory else { return false };
    let segment = |number: u32| segment_index(number).and_then(|it| memory.segments.get(it));
    let holds = |number: u32| segment(number).is_some_and(|it| !it.flags.aperture);
    let seen = |number: u32| segment(number).is_some_and(|it| it.cpu_address.is_some());
    let whole = Geometry::new(mmu).is_ok();
    let all = mmu.levels.iter().all(|it| {
        let cpu = mmu.mode != crate::ddi::mmu::UpdateMode::Cpu || seen(it.segment);
        holds(it.segment) && holds(it.system_segment) && seen(it.system_segment) && cpu
    });
    whole && all
}
