//! The memory of an adapter (`DXGKQAITYPE_QUERYSEGMENT4`), queried in two passes: the number of
//! segments, then the description of each.
//!
//! WINDOWS: versions before 2.0 are queried with older structures; none of them is flown.
#![expect(unsafe_code, reason = "reads what a driver wrote")]

use crate::display::{Adapter, TableDriver};
use crate::private_data::{MAX_SIZE, PrivateData};
use crate::query::{GuardedOutput, judge};
use crate::status::result_from_status;
use abi::display::{
    DXGK_DRIVERCAPS, DXGK_QUERYSEGMENTIN4, DXGK_QUERYSEGMENTOUT4, DXGK_SEGMENTDESCRIPTOR4,
    DXGK_SEGMENTFLAGS as Flags, DXGKQAITYPE_QUERYSEGMENT4,
};
use abi::{NTSTATUS, PVOID};
use flight::{EventKind, RuleId};
use kernel::miniport::{DriverError, DriverResult};
use kernel::segment::{MemoryFeatures, PagingFeatures, SegmentFlags, SegmentInfo};
use std::ptr;

/// The maximum number of segments in a segment set.
const MAX_SEGMENTS: u32 = 32;

/// The value of the members that the first pass does not query.
const POISON: u32 = 0xdddd_dddd;

/// The value of a byte in the gap behind a descriptor.
const GAP: u8 = 0xfb;

/// The size of a descriptor.
const LENGTH: usize = size_of::<DXGK_SEGMENTDESCRIPTOR4>();

/// The distance between descriptors. WINDOWS: the stride exists so that the structure can grow, so
/// it is longer here than the structure of any flown version.
const STRIDE: usize = LENGTH + 16;

const PLACE: &str = "DxgkDdiQueryAdapterInfo.DXGK_QUERYSEGMENTOUT4";

impl TableDriver {
    /// The adapter's memory. A driver that fails the query, or reports no segments, has none.
    pub(crate) fn query_memory(
        &self,
        adapter: &Adapter,
        caps: &DXGK_DRIVERCAPS,
    ) -> DriverResult<Option<MemoryFeatures>> {
        let services = adapter.door.services();
        let first = DXGK_QUERYSEGMENTOUT4 {
            NbSegment: 0,
            pSegmentDescriptor: ptr::null_mut(),
            PagingBufferSegmentId: POISON,
            PagingBufferSize: POISON,
            PagingBufferPrivateDataSize: POISON,
            SegmentDescriptorStride: STRIDE,
        };
        let (status, counted) = self.call_query_segment(adapter, first)?;
        if result_from_status(status).is_err() {
            return Ok(None);
        }
        // The change is reported, and the flight continues: the second pass fills the members in.
        judge(services, RuleId::KMD_SEG_002, PLACE, changed_members(&first, &counted));
        match counted.NbSegment {
            0 => return Ok(None),
            1..=MAX_SEGMENTS => {}
            _ => {
                let name = "DXGK_QUERYSEGMENTOUT4 beyond 32 segments".into();
                services.log().emit(services.adapter(), EventKind::EntryMissing { name });
                return Err(DriverError::Invalid);
            }
        }
        self.query_segment_descriptors(adapter, counted.NbSegment, caps).map(Some)
    }

    /// The second pass.
    fn query_segment_descriptors(
        &self,
        adapter: &Adapter,
        count: u32,
        caps: &DXGK_DRIVERCAPS,
    ) -> DriverResult<MemoryFeatures> {
        let services = adapter.door.services();
        let mut descriptor = [0; STRIDE];
        descriptor[LENGTH..].fill(GAP);
        let mut list = PrivateData::copy(&descriptor.repeat(count as usize))?;
        let second = DXGK_QUERYSEGMENTOUT4 {
            NbSegment: count,
            pSegmentDescriptor: list.pointer().cast(),
            SegmentDescriptorStride: STRIDE,
            ..DXGK_QUERYSEGMENTOUT4::ZERO
        };
        let (status, out) = self.call_query_segment(adapter, second)?;
        let broken = count_error(status, count, &out, &list);
        let counted = judge(services, RuleId::KMD_SEG_003, PLACE, broken);
        let walked = judge(services, RuleId::KMD_SEG_004, PLACE, stride_error(&list.bytes()));
        if !counted || !walked {
            return Err(DriverError::Invalid);
        }
        // The driver chooses the size, and memory of that size is about to be allocated.
        if out.PagingBufferSize > MAX_SIZE || out.PagingBufferPrivateDataSize > MAX_SIZE {
            return Err(DriverError::NoMemory);
        }
        let segments =
            (0..count as usize).map(|at| segment_info(&read_descriptor(&mut list, at))).collect();
        let paging = PagingFeatures {
            node: caps.MemoryManagementCaps.PagingNode,
            buffer: out.PagingBufferSize,
            segment: out.PagingBufferSegmentId,
            private: out.PagingBufferPrivateDataSize,
            aperture_limit: caps.ApertureSegmentCommitLimit as u64,
        };
        Ok(MemoryFeatures { segments, paging })
    }

    fn call_query_segment(
        &self,
        adapter: &Adapter,
        question: DXGK_QUERYSEGMENTOUT4,
    ) -> DriverResult<(NTSTATUS, DXGK_QUERYSEGMENTOUT4)> {
        let mut input = DXGK_QUERYSEGMENTIN4 { PhysicalAdapterIndex: 0 };
        let at: PVOID = (&raw mut input).cast();
        let mut out = GuardedOutput::new(question);
        let status =
            self.call_query_adapter_info(adapter, DXGKQAITYPE_QUERYSEGMENT4, at, 4, &mut out)?;
        Ok((status, out.value))
    }
}

/// The members that the first pass changed, besides the count.
fn changed_members(request: &DXGK_QUERYSEGMENTOUT4, out: &DXGK_QUERYSEGMENTOUT4) -> Option<String> {
    let members = [
        ("pSegmentDescriptor", request.pSegmentDescriptor != out.pSegmentDescriptor),
        ("PagingBufferSegmentId", request.PagingBufferSegmentId != out.PagingBufferSegmentId),
        ("PagingBufferSize", request.PagingBufferSize != out.PagingBufferSize),
        (
            "PagingBufferPrivateDataSize",
            request.PagingBufferPrivateDataSize != out.PagingBufferPrivateDataSize,
        ),
        ("SegmentDescriptorStride", request.SegmentDescriptorStride != out.SegmentDescriptorStride),
    ];
    let touched: Vec<&str> = members.iter().filter(|pair| pair.1).map(|pair| pair.0).collect();
    let message =
        || format!("queried for NbSegment only, the driver changed {}", touched.join(", "));
    (!touched.is_empty()).then(message)
}

/// How the second pass differs from the first.
fn count_error(
    status: NTSTATUS,
    count: u32,
    out: &DXGK_QUERYSEGMENTOUT4,
    list: &PrivateData,
) -> Option<String> {
    let other = out.NbSegment;
    let but = if let Err(why) = result_from_status(status) {
        format!("the second refused to describe them: {}", why.name())
    } else if other != count {
        format!("the second has NbSegment {other}")
    } else {
        let bytes = list.overrun()?;
        format!("the second wrote {bytes} bytes behind the last descriptor")
    };
    Some(format!("the first pass announced {count} segments, but {but}"))
}

/// Whether the driver used a distance between descriptors other than the stride.
///
/// A driver that clears its descriptors may clear a whole stride: that is correct.
fn stride_error(bytes: &[u8]) -> Option<String> {
    let mut strides = bytes.chunks(STRIDE).map(|bytes| &bytes[LENGTH..]);
    let at = strides.position(|bytes| {
        bytes.iter().any(|byte| *byte != GAP) && bytes.iter().any(|byte| *byte != 0)
    });
    at.map(|at| {
        format!(
            "SegmentDescriptorStride is {STRIDE}, but the driver wrote into the gap behind the \
             {LENGTH} bytes of descriptor {at}"
        )
    })
}

/// Reads the descriptor at an index, by the stride.
fn read_descriptor(list: &mut PrivateData, at: usize) -> DXGK_SEGMENTDESCRIPTOR4 {
    let from = list.pointer().wrapping_byte_add(at * STRIDE).cast::<DXGK_SEGMENTDESCRIPTOR4>();
    // SAFETY: The list has a stride for each counted segment, and any bytes are a valid descriptor.
    unsafe { from.read_unaligned() }
}

fn segment_info(it: &DXGK_SEGMENTDESCRIPTOR4) -> SegmentInfo {
    let seen = it.Flags.has(Flags::CpuVisible | Flags::SupportsCpuHostAperture);
    let cpu = it.cpu_translated_address().cast_unsigned(); // Or the window's: a union.
    SegmentInfo {
        base: it.BaseAddress.cast_unsigned(),
        size: it.Size as u64,
        commit_limit: it.CommitLimit as u64,
        cpu_address: seen.then_some(cpu),
        window: if it.Flags.has(Flags::SupportsCpuHostAperture) {
            u64::from(it.CpuHostAperture.SizeInPages)
        } else {
            0
        },
        flags: flags(it.Flags),
        banks: Vec::new(), // Not in this version.
    }
}

fn flags(it: Flags) -> SegmentFlags {
    SegmentFlags {
        aperture: it.has(Flags::Aperture),
        agp: it.has(Flags::Agp),
        cpu_visible: it.has(Flags::CpuVisible),
        banked: it.has(Flags::UseBanking),
        coherent: it.has(Flags::CacheCoherent),
        pitch_aligned: it.has(Flags::PitchAlignment),
        from_system: it.has(Flags::PopulatedFromSystemMemory),
        preserved_in_standby: it.has(Flags::PreservedDuringStandby),
        preserved_in_hibernate: it.has(Flags::PreservedDuringHibernate),
        partly_preserved: it.has(Flags::PartiallyPreservedDuringHibernate),
        host_aperture: it.has(Flags::SupportsCpuHostAperture),
        host_aperture_cached: it.has(Flags::SupportsCachedCpuHostAperture),
        large_pages: it.has(Flags::Use64KBPages),
        application_target: it.has(Flags::ApplicationTarget),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_is_its_own() {
        let converted = |bit: u32| flags(Flags { Value: bit });
        let none = SegmentFlags::default();
        for (bit, flags) in [
            (0, none),
            (Flags::Aperture, SegmentFlags { aperture: true, ..none }),
            (Flags::CpuVisible, SegmentFlags { cpu_visible: true, ..none }),
            (Flags::CacheCoherent, SegmentFlags { coherent: true, ..none }),
            (Flags::PopulatedFromSystemMemory, SegmentFlags { from_system: true, ..none }),
            (Flags::PreservedDuringStandby, SegmentFlags { preserved_in_standby: true, ..none }),
            (Flags::Use64KBPages, SegmentFlags { large_pages: true, ..none }),
            (Flags::SupportsCpuHostAperture, SegmentFlags { host_aperture: true, ..none }),
            (Flags::ApplicationTarget, SegmentFlags { application_target: true, ..none }),
        ] {
            assert_eq!(converted(bit), flags, "{bit:#x}");
        }
    }

    #[test]
    fn the_cpu_sees_what_says_so() {
        let mut it = DXGK_SEGMENTDESCRIPTOR4 { Size: 4096, ..DXGK_SEGMENTDESCRIPTOR4::ZERO };
        it.set_cpu_translated_address(0xe000_0000);
        assert_eq!(segment_info(&it).cpu_address, None);
        it.Flags.Value = Flags::CpuVisible;
        assert_eq!(segment_info(&it).cpu_address, Some(0xe000_0000));
    }

    #[test]
    fn a_gap_is_left_alone_or_cleared() {
        let mut one = [0; STRIDE];
        one[LENGTH..].fill(GAP);
        assert_eq!(stride_error(&one.repeat(3)), None);
        assert_eq!(stride_error(&[0; 2 * STRIDE]), None);
        let mut two = one.repeat(2);
        two[LENGTH] = 1;
        assert!(stride_error(&two).unwrap().ends_with("the 64 bytes of descriptor 0"));
        two[LENGTH..].fill(GAP);
        two[STRIDE + LENGTH + 15] = 0;
        assert!(stride_error(&two).unwrap().ends_with("of descriptor 1"));
    }
}
