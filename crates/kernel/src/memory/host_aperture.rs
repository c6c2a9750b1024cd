//! The CPU host aperture: CPU access to memory that is not CPU-visible.

use crate::ddi::Driver;
use crate::ddi::miniport::Features;
use crate::ddi::mmu::MapHostApertureArgs;
use crate::ddi::permit::DdiPermit;
use crate::kernel::Kernel;
use crate::memory::segment_number;
use flight::{Component, Passive, RuleId};

impl Kernel {
    /// Has a driver map and unmap one page of each host aperture as soon as its segments are known.
    ///
    /// WINDOWS: page tables are accessed in this way before the memory manager is initialized, and
    /// belong to no allocation (documented).
    pub(crate) fn test_host_aperture(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        driver: &Driver,
        features: &Features,
    ) {
        let segments = features
            .memory
            .iter()
            .flat_map(|memory_features| &memory_features.segments)
            .enumerate();
        for (place, _) in segments.filter(|pair| pair.1.flags.host_aperture && pair.1.window > 0) {
            let segment = segment_number(place);
            let map =
                MapHostApertureArgs { segment, driver_handle: None, memory: &[0], window: &[0] };
            let mapped = driver.map_cpu_host_aperture(at, permit, map);
            let (action, result) = match mapped {
                Ok(()) => ("unmap", driver.unmap_cpu_host_aperture(at, permit, segment, &[0])),
                Err(_) => ("map", mapped),
            };
            let broken = result.err().map(|why| {
                format!(
                    "called to {action} the first page of segment {segment} in its CPU host \
                     aperture, without an allocation and before any is created, the driver \
                     returned {}",
                    why.name()
                )
            });
            let place = "DxgkDdiMapCpuHostAperture";
            self.log.judge(
                RuleId::KMD_PT_004,
                Component::Driver,
                driver.adapter.subject(),
                place,
                broken,
            );
        }
    }
}
