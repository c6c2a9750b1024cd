//! How much memory the built-in GPU has, and where its segments are.

use crate::mmu::MmuPlan;
use kernel::segment::{MemoryFeatures, PagingFeatures, SegmentFlags, SegmentInfo};

pub(crate) const PAGE: u64 = 4096;

/// The segment that has no memory of its own: pages of the system are mapped into it.
pub const APERTURE: u32 = 1;
/// The segment of local memory that the CPU sees.
pub const VISIBLE: u32 = 2;
/// The segment of local memory that only the GPU sees.
pub const LOCAL: u32 = 3;

/// Where the segments begin in the GPU's addresses; there is room for any size between them.
pub(crate) const APERTURE_BASE: u64 = 0x30_0000_0000;
pub(crate) const VISIBLE_BASE: u64 = 0x10_0000_0000;
pub(crate) const LOCAL_BASE: u64 = 0x20_0000_0000;

/// Where a segment begins in the GPU's addresses.
pub fn segment_base(segment: u32) -> Option<u64> {
    match segment {
        APERTURE => Some(APERTURE_BASE),
        VISIBLE => Some(VISIBLE_BASE),
        LOCAL => Some(LOCAL_BASE),
        _ => None,
    }
}

/// How much memory a GPU has. Sizes are in bytes, of which whole pages are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Local memory that the CPU sees.
    pub visible: u64,
    /// Local memory that it does not see.
    pub local: u64,
    /// How much of the system's memory the GPU can see at once.
    pub aperture: u64,
    /// How large a buffer for paging commands is.
    pub paging_buffer: u32,
    /// The node that pages.
    pub paging_node: u32,
    /// How it translates addresses; without, packets name allocations only.
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
    /// The same in whole pages, one at least, and not so much that segments meet.
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

    /// What the driver says of it; `cpu` is where the CPU sees what it sees.
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
