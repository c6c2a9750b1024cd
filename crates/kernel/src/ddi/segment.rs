//! A driver's description of its memory segments and placement requirements.

/// A set of segments: bit zero is segment one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentSet(pub u32);

impl SegmentSet {
    /// The set of these one-based segment numbers.
    pub fn of(slot_indices: &[u32]) -> Self {
        let bit =
            |id: &u32| id.checked_sub(1).and_then(|number| 1_u32.checked_shl(number)).unwrap_or(0);
        Self(slot_indices.iter().map(bit).fold(0, |set, bit| set | bit))
    }

    /// Whether the set has the segment.
    pub fn has(self, number: u32) -> bool {
        (1..=u32::BITS).contains(&number) && self.0 >> (number - 1) & 1 != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The segments that the other set does not have.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether a segment is in both sets.
    pub fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The segment numbers, in order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let number = left.trailing_zeros() + 1;
            left &= left.wrapping_sub(1); // Without its lowest bit.
            (number <= u32::BITS).then_some(number)
        })
    }
}

/// A segment of an adapter's memory (`DXGK_SEGMENTDESCRIPTOR`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Base GPU address.
    pub base: u64,
    /// Size in bytes.
    pub size: u64,
    /// Maximum number of bytes in use at once.
    pub commit_limit: u64,
    /// The CPU's physical address of the segment, if it is CPU-visible.
    pub cpu_address: Option<u64>,
    /// Number of pages of the CPU host aperture (`CpuHostAperture`).
    pub window: u64,
    /// Segment flags.
    pub flags: SegmentFlags,
    /// End addresses of its banks, except the last.
    pub banks: Vec<u64>,
}

impl SegmentInfo {
    /// How many bytes may be in use at once.
    ///
    /// WINDOWS: the limit applies to apertures only (documented); zero counts as the size (our
    /// decision).
    pub fn usable_bytes(&self) -> u64 {
        match self.commit_limit {
            limit if self.flags.aperture && limit != 0 => limit.min(self.size),
            _ => self.size,
        }
    }
}

/// Segment flags (`DXGK_SEGMENTFLAGS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub struct SegmentFlags {
    /// It is an aperture: system pages are mapped into it.
    pub aperture: bool,
    /// It is the AGP aperture.
    pub agp: bool,
    /// The CPU can access all of it.
    pub cpu_visible: bool,
    /// It has banks.
    pub banked: bool,
    /// The GPU snoops the CPU's caches.
    pub coherent: bool,
    /// Pitches are aligned in it.
    pub pitch_aligned: bool,
    /// It is carved out of system memory.
    pub from_system: bool,
    /// Its content is preserved in standby.
    pub preserved_in_standby: bool,
    /// Its content is preserved in hibernation.
    pub preserved_in_hibernate: bool,
    /// A part of its content is preserved in hibernation.
    pub partly_preserved: bool,
    /// The CPU accesses parts of it through a host aperture.
    pub host_aperture: bool,
    /// The host aperture is cached.
    pub host_aperture_cached: bool,
    /// It uses 64 KiB pages.
    pub large_pages: bool,
    /// Applications' memory is allocated from it and counts against their budget.
    pub application_target: bool,
}

/// The memory of an adapter, and the driver's paging features (`DXGK_QUERYSEGMENTOUT4`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryFeatures {
    /// The segments; the first one is segment one.
    pub segments: Vec<SegmentInfo>,
    /// The driver's paging features.
    pub paging: PagingFeatures,
}

impl MemoryFeatures {
    /// The segments that are apertures.
    pub fn apertures(&self) -> SegmentSet {
        let numbers = (1..).zip(&self.segments).filter(|(_, segment)| segment.flags.aperture);
        SegmentSet::of(&numbers.map(|(number, _)| number).collect::<Vec<_>>())
    }
}

/// A driver's paging features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagingFeatures {
    /// The node that executes paging commands.
    pub node: u32,
    /// Size in bytes of a paging buffer.
    pub buffer: u32,
    /// The segment of paging buffers; zero is system memory.
    pub segment: u32,
    /// Size in bytes of the driver's private data of each buffer.
    pub private: u32,
    /// Maximum number of aperture bytes in use at once; zero means no limit.
    pub aperture_limit: u64,
}

/// A driver's placement requirements for an allocation (`DXGK_ALLOCATIONINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementRequirements {
    /// The supported segments.
    pub segments: SegmentSet,
    /// The preferred segments, best first.
    pub preferred: [Option<SegmentPreference>; 5],
    /// The apertures it may be evicted to.
    pub evict: SegmentSet,
    /// The eviction priority (`AllocationPriority`).
    pub priority: u32,
    /// Maximum number of instances (`MaximumRenamingListLength`); zero: the driver sets no limit.
    pub instances: u32,
    /// Other requirements.
    pub flags: PlacementFlags,
}

/// A preferred segment of an allocation (`DXGK_SEGMENTPREFERENCE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPreference {
    /// The one-based segment number.
    pub segment: u32,
    /// Placed from the segment's end downwards.
    pub from_top: bool,
}

/// Flags of an allocation (`DXGK_ALLOCATIONINFOFLAGS_WDDM2_0`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub struct PlacementFlags {
    /// The CPU may lock it (`CpuVisible`).
    pub cpu_visible: bool,
    /// The CPU mapping is cached (`Cached`).
    pub cached: bool,
    /// It is pinned: it never moves (`Overlay`, `Capture`).
    pub pinned: bool,
    /// Video is captured into it (`Capture`).
    pub capture: bool,
    /// Its memory layout differs from its linear CPU view (`Swizzled`).
    pub swizzled: bool,
    /// The driver uses its physical address (`AccessedPhysically`).
    pub physical: bool,
    /// The driver is notified of residency changes (`ExplicitResidencyNotification`).
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
