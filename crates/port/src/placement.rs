//! Converts a driver's placement requirements to the kernel's.

use abi::display::{
    DXGK_ALLOCATIONINFO, DXGK_ALLOCATIONINFOFLAGS, DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 as FlagsWddm2,
    DXGK_SEGMENTPREFERENCE, DXGKARGCB_CREATECONTEXTALLOCATION,
};
use kernel::segment::{PlacementFlags, PlacementRequirements, SegmentPreference, SegmentSet};

/// The requirements in `DXGK_ALLOCATIONINFO`.
///
/// WINDOWS: at WDDM 2 only the write set counts, and drivers leave the other one uninitialized
/// (D-24).
pub(crate) fn allocation_requirements(info: &DXGK_ALLOCATIONINFO) -> PlacementRequirements {
    let flags = info.FlagsWddm2;
    let from_end = flags.has(FlagsWddm2::FromEndOfSegment);
    PlacementRequirements {
        segments: SegmentSet(info.SupportedWriteSegmentSet),
        preferred: preferences(info.PreferredSegment, from_end),
        evict: SegmentSet(info.EvictionSegmentSet),
        priority: info.AllocationPriority,
        // From WDDM 2 on the member has another meaning, and nothing is renamed.
        instances: info.MaximumRenamingListLength,
        flags: PlacementFlags {
            cpu_visible: flags.has(FlagsWddm2::CpuVisible),
            cached: flags.has(FlagsWddm2::Cached),
            pinned: flags.has(FlagsWddm2::Overlay | FlagsWddm2::Capture),
            capture: flags.has(FlagsWddm2::Capture),
            swizzled: false, // Not a flag of WDDM 2.
            physical: flags.has(FlagsWddm2::AccessedPhysically),
            notify: flags.has(FlagsWddm2::ExplicitResidencyNotification),
            permanent_system: flags.has(FlagsWddm2::PermanentSysMem),
            protected: flags.has(FlagsWddm2::Protected),
        },
    }
}

/// The requirements in `DXGKARGCB_CREATECONTEXTALLOCATION`, which has the older flags, and no
/// priority.
pub(crate) fn context_allocation_requirements(
    args: &DXGKARGCB_CREATECONTEXTALLOCATION,
) -> PlacementRequirements {
    type Flags = DXGK_ALLOCATIONINFOFLAGS;
    let flags = args.Flags;
    PlacementRequirements {
        segments: SegmentSet(args.SupportedSegmentSet),
        preferred: preferences(args.PreferredSegment, flags.has(Flags::FromEndOfSegment)),
        evict: SegmentSet(args.EvictionSegmentSet),
        priority: 0,
        instances: 0,
        flags: PlacementFlags {
            cpu_visible: flags.has(Flags::CpuVisible),
            cached: flags.has(Flags::Cached),
            pinned: flags.has(Flags::Overlay | Flags::Capture),
            capture: flags.has(Flags::Capture),
            swizzled: flags.has(Flags::Swizzled),
            physical: flags.has(Flags::AccessedPhysically),
            notify: flags.has(Flags::ExplicitResidencyNotification),
            permanent_system: flags.has(Flags::PermanentSysMem),
            protected: flags.has(Flags::Protected),
        },
    }
}

/// The five segments of a preference. Segment 0 is none.
fn preferences(it: DXGK_SEGMENTPREFERENCE, from_end: bool) -> [Option<SegmentPreference>; 5] {
    let (segments, directions) = (it.segments(), it.directions());
    std::array::from_fn(|at| {
        let from_top = from_end || directions[at];
        (segments[at] != 0).then_some(SegmentPreference { segment: segments[at], from_top })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFERRED: DXGK_SEGMENTPREFERENCE =
        DXGK_SEGMENTPREFERENCE { Value: 2 | 1 << 5 | 1 << 6 | 7 << 24 };

    #[test]
    fn an_allocation_says_where_it_wants_to_be() {
        let mut info = DXGK_ALLOCATIONINFO {
            SupportedReadSegmentSet: 0xffff_ffff,
            SupportedWriteSegmentSet: 0b111,
            EvictionSegmentSet: 0b100,
            PreferredSegment: PREFERRED,
            AllocationPriority: 0x7800_0000,
            ..DXGK_ALLOCATIONINFO::ZERO
        };
        info.FlagsWddm2.Value = FlagsWddm2::CpuVisible | FlagsWddm2::Capture;
        let requirements = allocation_requirements(&info);
        assert_eq!(
            requirements.segments,
            SegmentSet::of(&[1, 2, 3]),
            "the read set does not count"
        );
        assert_eq!(
            (requirements.evict, requirements.priority),
            (SegmentSet::of(&[3]), 0x7800_0000)
        );
        let at = |segment, from_top| Some(SegmentPreference { segment, from_top });
        assert_eq!(requirements.preferred, [at(2, true), at(1, false), None, None, at(7, false)]);
        let flags = PlacementFlags {
            cpu_visible: true,
            pinned: true,
            capture: true,
            ..PlacementFlags::default()
        };
        assert_eq!(requirements.flags, flags);
        info.FlagsWddm2.Value = FlagsWddm2::FromEndOfSegment;
        assert_eq!(allocation_requirements(&info).preferred[1], at(1, true));
    }

    #[test]
    fn each_flag_is_its_own() {
        let converted = |bit: u32| {
            let mut info = DXGK_ALLOCATIONINFO::ZERO;
            info.FlagsWddm2.Value = bit;
            let mut args = DXGKARGCB_CREATECONTEXTALLOCATION::ZERO;
            args.Flags.Value = bit;
            (allocation_requirements(&info).flags, context_allocation_requirements(&args).flags)
        };
        let one = PlacementFlags::default();
        for (bit, flags) in [
            (FlagsWddm2::Cached, PlacementFlags { cached: true, ..one }),
            (FlagsWddm2::Overlay, PlacementFlags { pinned: true, ..one }),
            (FlagsWddm2::AccessedPhysically, PlacementFlags { physical: true, ..one }),
            (FlagsWddm2::ExplicitResidencyNotification, PlacementFlags { notify: true, ..one }),
            (FlagsWddm2::PermanentSysMem, PlacementFlags { permanent_system: true, ..one }),
            (FlagsWddm2::Protected, PlacementFlags { protected: true, ..one }),
        ] {
            assert_eq!(converted(bit), (flags, flags), "{bit:#x}");
        }
        let swizzled = PlacementFlags { swizzled: true, ..one };
        assert_eq!(converted(1 << 7), (one, swizzled), "another flag at WDDM 2");
    }
}
