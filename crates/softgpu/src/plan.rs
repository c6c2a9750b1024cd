//! How much memory the built-in GPU has, and where its segments are.

use crate::mmu::MmuPlan;
use kernel::segment::{MemoryFeatures, PagingFeatures, SegmentFlags, SegmentInfo};

pub(crate) const PAGE: u64 = 4096;

/// The aperture segment: it has no memory, system pages are mapped into it.
pub const APERTURE: u32 = 1;
/// The segment of local memory that the CPU sees.
pub const VISIBLE: u32 = 2;
/// The segment of local memory that only the GPU sees.
pub const LOCAL: u32 = 3;

/// The segments' base addresses in the GPU's address space, far enough apart for any size.
pub(crate) const APERTURE_BASE: u64 = 0x30_0000_0000;
pub(crate) const VISIBLE_BASE: u64 = 0x10_0000_0000;
pub(crate) const LOCAL_BASE: u64 = 0x20_0000_0000;

/// The base address of a segment.
pub fn segment_base(segment: u32) -> Option<u64> {
    match segment {
        APERTURE => Some(APERTURE_BASE),
        VISIBLE => Some(VISIBLE_BASE),
        LOCAL => Some(LOCAL_BASE),
        _ => None,
    }
}

/// The sizes of a GPU's memory in bytes, rounded up to whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Local memory that the CPU sees.
    pub visible: u64,
    /// Local memory that the CPU does not see.
    pub local: u64,
    /// How much system memory the GPU can map at once.
    pub aperture: u64,
    /// The size of a buffer for paging commands.
    pub paging_buffer: u32,
    /// The node that executes paging commands.
    pub paging_node: u32,
    /// How the GPU translates addresses; without it, packets name allocations only.
    pub mmu: Option<MmuPlan>,
}

impl Default for MemoryPlan {
    fn default() -> Self {
        Self {
            visible: 32 << 20,
            local: 32 << 20,
            aperture: 64 << 20,
            paging_buffer: 64 << 10,
            paging_node: 1,
            mmu: None,
        }
    }
}

impl MemoryPlan {
    /// The same in whole pages, at least one, and limited so that segments do not overlap.
    #[must_use]
    pub fn whole(self) -> Self {
        let whole = |bytes: u64| bytes.clamp(1, LOCAL_BASE - VISIBLE_BASE).next_multiple_of(PAGE);
        Self {
            visible: whole(self.visible),
            local: whole(self.local),
            aperture: whole(self.aperture),
            mmu: self.mmu.map(MmuPlan::in_whole_pages),
            ..self
        }
    }

    /// The driver's segment descriptions; `cpu` is where the CPU sees local memory.
    pub fn features(&self, cpu: u64) -> MemoryFeatures {
        let info = |base, size, flags| SegmentInfo {
            base,
            size,
            commit_limit: size,
            flags,
            ..SegmentInfo::default()
        };
        let local = SegmentFlags { application_target: true, ..SegmentFlags::default() };
        let aperture = SegmentFlags { aperture: true, coherent: true, ..SegmentFlags::default() };
        let visible = SegmentFlags { cpu_visible: true, ..local };
        let window = self.mmu.map_or(0, |mmu_plan| u64::from(mmu_plan.window));
        let hidden = SegmentFlags { host_aperture: window > 0, ..local };
        let segments = vec![
            info(APERTURE_BASE, self.aperture, aperture),
            SegmentInfo { cpu_address: Some(cpu), ..info(VISIBLE_BASE, self.visible, visible) },
            SegmentInfo { window, ..info(LOCAL_BASE, self.local, hidden) },
        ];
        let (node, buffer) = (self.paging_node, self.paging_buffer);
        let paging = PagingFeatures { node, buffer, ..PagingFeatures::default() };
        MemoryFeatures { segments, paging }
    }
}
