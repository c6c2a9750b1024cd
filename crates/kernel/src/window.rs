//! The window through which the CPU sees memory that it does not see otherwise.

use crate::ddi::Driver;
use crate::gate::Pass;
use crate::kernel::Kernel;
use crate::memory::number;
use crate::miniport::Features;
use crate::mmu::WindowMap;
use flight::{Passive, RuleId, Who};

impl Kernel {
    /// Has a driver map a page of each window, and unmap it, as soon as its segments are known.
    ///
    /// WINDOWS: page tables are reached so before the memory manager is up, and belong to no
    /// allocation (documented).
    pub(crate) fn try_windows(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        driver: &Driver,
        features: &Features,
    ) {
        let segments = features.memory.iter().flat_map(|it| &it.segments).enumerate();
        for (place, _) in segments.filter(|it| it.1.flags.host_aperture && it.1.window > 0) {
            let segment = number(place);
            let map = WindowMap { segment, word: None, memory: &[0], window: &[0] };
            let mapped = driver.map_window(at, pass, map);
            let (asked, answer) = match mapped {
                Ok(()) => ("unmap", driver.unmap_window(at, pass, segment, &[0])),
                Err(_) => ("map", mapped),
            };
            let broken = answer.err().map(|why| {
                format!(
                    "asked to {asked} the first page of segment {segment} in its CPU host \
                     aperture, for no allocation and before any is made, the driver answered {}",
                    why.name()
                )
            });
            let place = "DxgkDdiMapCpuHostAperture";
            self.log.judge(
                RuleId::KMD_PT_004,
                Who::Driver,
                driver.adapter.subject(),
                place,
                broken,
            );
        }
    }
}
