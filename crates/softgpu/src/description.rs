//! A client's description of an allocation on an adapter with memory: its size and where it should
//! be placed.
//!
//! A short description ([`super::format::describe`]) leaves placement to the driver.

use crate::format::{self, LARGEST};
use crate::plan::{APERTURE, LOCAL, PAGE, VISIBLE};
use kernel::miniport::{AllocationInfo, DriverError};
use kernel::segment::{PlacementFlags, PlacementRequirements, SegmentPreference, SegmentSet};

/// The size of a long description in bytes.
pub const LONG_DESCRIPTION_SIZE: u32 = 60;

/// The default allocation priority (`D3DDDI_ALLOCATIONPRIORITY_NORMAL`).
pub const NORMAL_PRIORITY: u32 = 0x7800_0000;

const START: [u8; 8] = *b"WTSG\x02\0\0\0";
const FROM_TOP: u32 = 1 << 31;
const LARGEST_ALIGNMENT: u64 = 1 << 21;

/// The default placement: any segment, preferably memory of the GPU's own, and CPU-visible.
pub fn anywhere() -> PlacementRequirements {
    let segments = [LOCAL, VISIBLE, APERTURE];
    PlacementRequirements {
        segments: SegmentSet::of(&segments),
        preferred: prefer(&segments),
        evict: SegmentSet::default(),
        priority: NORMAL_PRIORITY,
        instances: 0,
        flags: PlacementFlags { cpu_visible: true, ..PlacementFlags::default() },
    }
}

/// Allows only these segments, in order of preference.
pub fn only_in(segments: &[u32]) -> PlacementRequirements {
    PlacementRequirements {
        segments: SegmentSet::of(segments),
        preferred: prefer(segments),
        ..anywhere()
    }
}

fn prefer(segments: &[u32]) -> [Option<SegmentPreference>; 5] {
    let mut preferred = [None; 5];
    for (place, segment) in preferred.iter_mut().zip(segments) {
        *place = Some(SegmentPreference { segment: *segment, from_top: false });
    }
    preferred
}

/// The private data of an allocation of `size` bytes with this placement.
///
/// A client chooses the flags `cpu_visible`, `cached` and `pinned`; an alignment of zero means a
/// page; the number of instances is at most 2^24 - 1.
pub fn describe_in(size: u64, alignment: u64, requirements: &PlacementRequirements) -> Vec<u8> {
    let mut bytes = START.to_vec();
    bytes.extend(size.to_le_bytes());
    bytes.extend(alignment.to_le_bytes());
    let preferred = requirements.preferred.map(|it| {
        it.map_or(0, |segment_preference| {
            segment_preference.segment & !FROM_TOP
                | if segment_preference.from_top { FROM_TOP } else { 0 }
        })
    });
    let PlacementFlags { cpu_visible, cached, pinned, .. } = requirements.flags;
    let flags = u32::from(cpu_visible) | u32::from(cached) << 1 | u32::from(pinned) << 2;
    let handles = [
        requirements.segments.0,
        requirements.evict.0,
        requirements.priority,
        flags | requirements.instances << 8,
    ];
    bytes.extend(handles.into_iter().chain(preferred).flat_map(u32::to_le_bytes));
    bytes
}

/// What the driver returns for the allocation that a short or a long description describes.
pub fn read_allocation_info(bytes: &[u8]) -> Result<AllocationInfo, DriverError> {
    let mut info = AllocationInfo::default();
    describe_allocation(bytes, &mut info)?;
    Ok(info)
}

/// The same, written in place: it is large.
pub(crate) fn describe_allocation(
    bytes: &[u8],
    info: &mut AllocationInfo,
) -> Result<(), DriverError> {
    let (size, alignment, requirements) = if bytes.starts_with(&START) {
        let (size, alignment, requirements) =
            read_long(bytes.get(START.len()..).unwrap_or_default())?;
        let alignment = alignment.max(PAGE);
        if !alignment.is_power_of_two()
            || alignment > LARGEST_ALIGNMENT
            || !is_plausible(&requirements)
        {
            return Err(DriverError::Invalid);
        }
        (size, alignment, requirements)
    } else {
        (format::read_description(bytes)?, PAGE, anywhere())
    };
    info.size = size.next_multiple_of(PAGE);
    info.alignment = alignment;
    info.pitch_aligned_size = 0;
    info.requirements = requirements;
    info.requirements.flags.physical = true;
    info.requirements.flags.notify = true;
    Ok(())
}

fn read_long(bytes: &[u8]) -> Result<(u64, u64, PlacementRequirements), DriverError> {
    let (numbers, handles) = bytes.split_first_chunk::<16>().ok_or(DriverError::Invalid)?;
    let [size, alignment] = *numbers.as_chunks::<8>().0 else { return Err(DriverError::Invalid) };
    let (size, alignment) = (u64::from_le_bytes(size), u64::from_le_bytes(alignment));
    let (handles, rest) = handles.as_chunks::<4>();
    let handles: Vec<u32> = handles.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let ([segments, evict, priority, flags, preferred @ ..], []) = (&handles[..], rest) else {
        return Err(DriverError::Invalid);
    };
    let preferred: [u32; 5] = preferred.try_into().map_err(|_| DriverError::Invalid)?;
    match size {
        0 => return Err(DriverError::Invalid),
        1..=LARGEST => (),
        _ => return Err(DriverError::NoMemory),
    }
    if flags & 0xf8 != 0 {
        return Err(DriverError::Invalid);
    }
    let preference = |number| SegmentPreference {
        segment: number & !FROM_TOP,
        from_top: number & FROM_TOP != 0,
    };
    let requirements = PlacementRequirements {
        segments: SegmentSet(*segments),
        preferred: preferred.map(|number| (number != 0).then(|| preference(number))),
        evict: SegmentSet(*evict),
        priority: *priority,
        instances: flags >> 8,
        flags: PlacementFlags {
            cpu_visible: flags & 1 != 0,
            cached: flags & 2 != 0,
            pinned: flags & 4 != 0,
            ..PlacementFlags::default()
        },
    };
    Ok((size, alignment, requirements))
}

/// Whether a driver that follows the rules can return this for an allocation.
fn is_plausible(requirements: &PlacementRequirements) -> bool {
    let all = SegmentSet::of(&[APERTURE, VISIBLE, LOCAL]);
    let known = !requirements.segments.is_empty() && requirements.segments.0 & !all.0 == 0;
    let preferred = requirements
        .preferred
        .iter()
        .flatten()
        .all(|segment_preference| requirements.segments.has(segment_preference.segment));
    let evict = requirements.evict.0 & !SegmentSet::of(&[APERTURE]).0 == 0;
    // An allocation that the CPU can lock needs a segment that the CPU sees.
    let sees = requirements.segments.has(APERTURE) || !requirements.segments.has(LOCAL);
    let visible = !requirements.flags.cpu_visible || sees;
    let cached = requirements.flags.cpu_visible || !requirements.flags.cached;
    known && preferred && evict && visible && cached && requirements.priority != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driven(requirements: PlacementRequirements) -> PlacementRequirements {
        let flags = PlacementFlags { physical: true, notify: true, ..requirements.flags };
        PlacementRequirements { flags, ..requirements }
    }

    #[test]
    fn a_short_description_is_anywhere() {
        let info = read_allocation_info(&format::describe(5000)).unwrap();
        assert_eq!((info.size, info.alignment), (8192, 4096));
        assert_eq!(info.requirements, driven(anywhere()));
    }

    #[test]
    fn a_long_description_reads_back() {
        let mut requirements = only_in(&[VISIBLE, APERTURE]);
        requirements.preferred[0] = Some(SegmentPreference { segment: VISIBLE, from_top: true });
        requirements.evict = SegmentSet::of(&[APERTURE]);
        requirements.priority = 0xa000_0000;
        requirements.flags.cached = true;
        let bytes = describe_in(1, 65536, &requirements);
        assert_eq!(bytes.len(), LONG_DESCRIPTION_SIZE as usize);
        let info = read_allocation_info(&bytes).unwrap();
        assert_eq!((info.size, info.alignment), (4096, 65536));
        assert_eq!(info.requirements, driven(requirements));
        for length in 0..bytes.len() {
            assert!(read_allocation_info(&bytes[..length]).is_err(), "{length}");
        }
        assert!(read_allocation_info(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn what_no_good_driver_says_is_refused() {
        let refused = |size, alignment, change: fn(&mut PlacementRequirements)| {
            let mut requirements = anywhere();
            change(&mut requirements);
            read_allocation_info(&describe_in(size, alignment, &requirements)).err()
        };
        assert_eq!(refused(4096, 0, |_| ()), None);
        assert_eq!(refused(0, 0, |_| ()), Some(DriverError::Invalid));
        assert_eq!(refused(LARGEST + 1, 0, |_| ()), Some(DriverError::NoMemory));
        assert_eq!(refused(4096, 4097, |_| ()), Some(DriverError::Invalid));
        assert_eq!(refused(4096, 1 << 40, |_| ()), Some(DriverError::Invalid));
        let wrong: [fn(&mut PlacementRequirements); 7] = [
            |requirements| requirements.segments = SegmentSet::default(),
            |requirements| requirements.segments.0 |= 8,
            |requirements| requirements.segments = SegmentSet::of(&[APERTURE, LOCAL]),
            |requirements| requirements.evict = SegmentSet::of(&[LOCAL]),
            |requirements| requirements.priority = 0,
            |requirements| {
                (requirements.flags.cpu_visible, requirements.flags.cached) = (false, true);
            },
            |requirements| *requirements = only_in(&[VISIBLE, LOCAL]),
        ];
        for (at, change) in wrong.into_iter().enumerate() {
            assert_eq!(refused(4096, 0, change), Some(DriverError::Invalid), "{at}");
        }
    }
}
