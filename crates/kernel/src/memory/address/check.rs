//! Checks of a driver's page-table description.

use crate::ddi::miniport::Features;
use crate::ddi::mmu::{TableLevel, UpdateMode};
use crate::kernel::Kernel;
use crate::memory::address::geometry::Geometry;
use crate::memory::segment_index;
use flight::{Component, EventKind, RuleId, Subject};

const ARGUMENT: &str = "DxgkDdiQueryAdapterInfo.pOutputData";

impl Kernel {
    /// Checks a driver's page-table description. Returns whether its adapter can start.
    ///
    /// WINDOWS: where the CPU writes page tables, their segments must be CPU-visible, else bug check
    /// 0x10E (observed by two driver projects). The CPU always writes those of the system process
    /// (documented and observed).
    pub(crate) fn check_mmu(&self, about: Subject, features: &Features) -> bool {
        // The driver may describe no MMU.
        let Some(mmu) = &features.mmu else { return true };
        let judge = |rule: RuleId, broken: Option<String>| {
            let passed = broken.is_none();
            self.log.judge(rule, Component::Driver, about, ARGUMENT, broken);
            passed
        };
        let Some(memory) = &features.memory else {
            let broken = "the driver describes page tables and no memory segment to hold them";
            return judge(RuleId::KMD_SEG_016, Some(broken.to_owned()));
        };
        let segment =
            |number: u32| segment_index(number).and_then(|index| memory.segments.get(index));
        let segments = |level: &TableLevel| [level.segment, level.system_segment];
        // WINDOWS: two public drivers put page tables into the segment behind their last one, which
        // they take for the system's implicit segment; no page names its number. Neither the
        // driver's fault nor implemented here.
        let implicit = |number: u32| segment_index(number) == Some(memory.segments.len());
        let mut numbers = mmu.levels.iter().flat_map(segments);
        let unknown =
            numbers.clone().find(|number| segment(*number).is_none() && !implicit(*number));
        let geometry = Geometry::new(mmu).err();
        let unknown = unknown
            .map(|number| format!("page tables are in segment {number}, which does not exist"));
        let consistent = judge(RuleId::KMD_SEG_016, geometry.or(unknown));
        let hidden = |number: &u32| {
            segment(*number).is_some_and(|info| !info.flags.aperture && info.cpu_address.is_none())
        };
        let by_cpu = mmu.levels.iter().find_map(|level| {
            let written =
                segments(level).into_iter().skip(usize::from(mmu.mode != UpdateMode::Cpu));
            written.clone().find(hidden)
        });
        let visible = judge(
            RuleId::KMD_SEG_017,
            by_cpu.map(|number| {
                format!(
                    "the CPU writes page tables in segment {number}, which the CPU cannot access"
                )
            }),
        );
        if numbers.clone().any(implicit) {
            let name = "page tables in the implicit system segment".into();
            self.log.emit(about, || EventKind::EntryMissing { name });
            return false;
        }
        // Not the driver's fault: such page tables are not implemented here.
        if numbers.any(|number| segment(number).is_some_and(|info| info.flags.aperture)) {
            let name = "page tables in an aperture segment".into();
            self.log.emit(about, || EventKind::EntryMissing { name });
            return false;
        }
        consistent && visible
    }
}
