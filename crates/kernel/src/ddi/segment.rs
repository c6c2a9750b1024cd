//! Segments as a driver describes them: where on its adapter memory can be.

/// Segments by number: bit zero is segment one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentSet(pub u32);

impl SegmentSet {
    /// The set of these segments, from one on.
    pub fn of(slot_indices: &[u32]) -> Self {
        let bit =
            |id: &u32| id.checked_sub(1).and_then(|number| 1_u32.checked_shl(number)).unwrap_or(0);
        Self(slot_indices.iter().map(bit).fold(0, |set, bit| set | bit))
    }

    /// Whether the segment is in it.
    pub fn has(self, number: u32) -> bool {
        self.0 & Self::of(&[number]).0 != 0
    }

    /// Whether no segment is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its segments, in order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (1..=32).filter(move |number| self.has(*number))
    }
}

/// Where on an adapter memory can be (`DXGK_SEGMENTDESCRIPTOR`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Where it begins in the GPU's addresses.
    pub base: u64,
    /// How many bytes it has.
    pub size: u64,
    /// How many bytes may be in use at once.
    pub commit_limit: u64,
    /// Where the CPU sees it, in the machine's memory.
    pub cpu_address: Option<u64>,
    /// How many pages the CPU's window into it has (`CpuHostAperture`).
    pub window: u64,
    /// What kind of memory it is.
    pub flags: SegmentFlags,
    /// Where its banks end, but for the last.
    pub banks: Vec<u64>,
}

/// What kind of memory a segment is (`DXGK_SEGMENTFLAGS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct SegmentFlags {
    /// It has no memory: pages of the system are mapped into it.
    pub aperture: bool,
    /// It is the AGP aperture.
    pub agp: bool,
    /// The CPU sees it all.
    pub cpu_visible: bool,
    /// It has banks.
    pub banked: bool,
    /// The GPU snoops the CPU's caches.
    pub coherent: bool,
    /// Pitches are aligned in it.
    pub pitch_aligned: bool,
    /// It is carved out of system memory.
    pub from_system: bool,
    /// It keeps its bytes in standby.
    pub preserved_in_standby: bool,
    /// It keeps its bytes in hibernation.
    pub preserved_in_hibernate: bool,
    /// It keeps part of them in hibernation.
    pub partly_preserved: bool,
    /// The CPU sees parts of it through a window.
    pub host_aperture: bool,
    /// That window is cached.
    pub host_aperture_cached: bool,
    /// Pages of 64 KiB.
    pub large_pages: bool,
    /// Applications' memory comes from it, and is counted against their budget.
    pub application_target: bool,
}

/// The memory of an adapter, and how its driver pages (`DXGK_QUERYSEGMENTOUT4`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryFeatures {
    /// The segments, from number one on.
    pub segments: Vec<SegmentInfo>,
    /// How the driver pages.
    pub paging: PagingFeatures,
}

/// How a driver pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagingFeatures {
    /// The node that does it.
    pub node: u32,
    /// How many bytes a buffer for its commands has.
    pub buffer: u32,
    /// The segment such buffers are in; zero is system memory.
    pub segment: u32,
    /// How many bytes of its own the driver keeps with each buffer.
    pub private: u32,
    /// How many bytes of apertures may be in use at once; zero is no limit.
    pub aperture_limit: u64,
}

/// Where a driver wants an allocation (`DXGK_ALLOCATIONINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementRequirements {
    /// The segments it can be in.
    pub segments: SegmentSet,
    /// Those it should be in, the best first.
    pub preferred: [Option<SegmentPreference>; 5],
    /// The apertures it may be moved to when it leaves memory.
    pub evict: SegmentSet,
    /// How much it is worth keeping (`AllocationPriority`).
    pub priority: u32,
    /// How many instances of it there may be (`MaximumRenamingListLength`); zero: the driver
    /// does not care.
    pub instances: u32,
    /// What else the driver says of it.
    pub flags: PlacementFlags,
}

/// A segment an allocation should be in (`DXGK_SEGMENTPREFERENCE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPreference {
    /// Which, from one on.
    pub segment: u32,
    /// From its end downwards.
    pub from_top: bool,
}

/// What a driver says of an allocation (`DXGK_ALLOCATIONINFOFLAGS_WDDM2_0`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct PlacementFlags {
    /// The CPU may lock it (`CpuVisible`).
    pub cpu_visible: bool,
    /// The CPU's view is cached (`Cached`).
    pub cached: bool,
    /// It never moves (`Overlay`, `Capture`): pinned where it is.
    pub pinned: bool,
    /// Video is captured into it (`Capture`).
    pub capture: bool,
    /// Its bytes lie otherwise in memory than in a linear view (`Swizzled`).
    pub swizzled: bool,
    /// The driver uses its physical address (`AccessedPhysically`).
    pub physical: bool,
    /// The driver is told when it comes and goes (`ExplicitResidencyNotification`).
    pub notify: bool,
    /// It stays in system memory (`PermanentSysMem`).
    pub permanent_system: bool,
    /// `Protected`.
    pub protected: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_knows_its_segments() {
        let set = SegmentSet::of(&[1, 3, 32]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 3, 32]);
        assert!(set.has(3) && !set.has(2) && !set.has(0) && !set.has(33));
        assert!(SegmentSet::of(&[0, 40]).is_empty());
    }
}
