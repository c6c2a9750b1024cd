//! The memory of an adapter (`DXGKQAITYPE_QUERYSEGMENT4` and its older versions), queried in two
//! passes: the number of segments, then the description of each.
#![expect(unsafe_code, reason = "reads what a driver wrote")]

use crate::display::{Adapter, TableDriver};
use crate::private_data::{MAX_SIZE, PrivateData, prefix};
use crate::query::judge;
use crate::shown::ShownList;
use crate::status::result_from_status;
use crate::version::{InterfaceVersion, SEGMENT_DESCRIPTOR_4};
use abi::display::{
    DXGK_DRIVERCAPS, DXGK_QUERYADAPTERINFOTYPE, DXGK_QUERYSEGMENTIN, DXGK_QUERYSEGMENTIN4,
    DXGK_QUERYSEGMENTOUT, DXGK_QUERYSEGMENTOUT3, DXGK_QUERYSEGMENTOUT4, DXGK_SEGMENTDESCRIPTOR,
    DXGK_SEGMENTDESCRIPTOR3, DXGK_SEGMENTDESCRIPTOR4, DXGK_SEGMENTFLAGS as Flags,
    DXGKQAITYPE_QUERYSEGMENT, DXGKQAITYPE_QUERYSEGMENT3, DXGKQAITYPE_QUERYSEGMENT4,
};
use abi::{NTSTATUS, PVOID};
use flight::{EventKind, RuleId};
use kernel::miniport::{DriverError, DriverResult, Generation};
use kernel::segment::{MemoryFeatures, PagingFeatures, SegmentFlags, SegmentInfo};
use std::ptr;

/// The maximum number of segments in a segment set.
const MAX_SEGMENTS: u32 = 32;

/// The maximum number of banks in a segment that is plausible.
const MAX_BANKS: u32 = 64;

/// The value of the members that the first pass does not query.
const POISON: u32 = 0xdddd_dddd;

/// The value of a byte in the gap behind a descriptor.
const GAP: u8 = 0xfb;

/// The length of the gap behind a descriptor. WINDOWS: the stride exists so that the structure can
/// grow, so it is longer here than the structure of the driver's version.
const GAP_LENGTH: usize = 16;

/// A version of the query.
#[derive(Clone, Copy)]
struct SegmentQuery {
    kind: DXGK_QUERYADAPTERINFOTYPE,
    argument: &'static str,
    /// The length of the output structure, a prefix of `DXGK_QUERYSEGMENTOUT4`.
    output: usize,
    /// The length of a descriptor.
    descriptor: usize,
    /// The distance between descriptors.
    stride: usize,
}

impl SegmentQuery {
    /// The queries for a version, in the order in which they are tried.
    ///
    /// WINDOWS: `DXGKQAITYPE_QUERYSEGMENT3` is that of WDDM 1.2 and 1.3, and
    /// `DXGKQAITYPE_QUERYSEGMENT4` that of 2.0 (documented). A driver of the first driver model
    /// that fails the query is asked with the oldest one (our reading).
    fn for_version(version: InterfaceVersion) -> Vec<Self> {
        let with_stride = {
            let descriptor = version.length_of(&SEGMENT_DESCRIPTOR_4) as usize;
            Self {
                kind: DXGKQAITYPE_QUERYSEGMENT4,
                argument: "DxgkDdiQueryAdapterInfo.DXGK_QUERYSEGMENTOUT4",
                output: size_of::<DXGK_QUERYSEGMENTOUT4>(),
                descriptor,
                stride: descriptor + GAP_LENGTH,
            }
        };
        let third = Self {
            kind: DXGKQAITYPE_QUERYSEGMENT3,
            argument: "DxgkDdiQueryAdapterInfo.DXGK_QUERYSEGMENTOUT3",
            output: size_of::<DXGK_QUERYSEGMENTOUT3>(),
            descriptor: size_of::<DXGK_SEGMENTDESCRIPTOR3>(),
            stride: size_of::<DXGK_SEGMENTDESCRIPTOR3>(),
        };
        let first = Self {
            kind: DXGKQAITYPE_QUERYSEGMENT,
            argument: "DxgkDdiQueryAdapterInfo.DXGK_QUERYSEGMENTOUT",
            output: size_of::<DXGK_QUERYSEGMENTOUT>(),
            descriptor: size_of::<DXGK_SEGMENTDESCRIPTOR>(),
            stride: size_of::<DXGK_SEGMENTDESCRIPTOR>(),
        };
        match version.generation() {
            Generation::One => vec![third, first],
            Generation::Two => vec![with_stride],
        }
    }

    /// The bytes of a question: the structure, without its padding.
    fn question(&self, question: &DXGK_QUERYSEGMENTOUT4) -> Vec<u8> {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let words = [
            question.NbSegment.into(),
            question.pSegmentDescriptor.expose_provenance() as u64,
            pair(question.PagingBufferSegmentId, question.PagingBufferSize),
            question.PagingBufferPrivateDataSize.into(),
            question.SegmentDescriptorStride as u64,
        ];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        bytes.truncate(self.output);
        bytes
    }

    /// The segment in a descriptor's bytes.
    fn segment_info(&self, bytes: &[u8]) -> SegmentInfo {
        match self.kind {
            DXGKQAITYPE_QUERYSEGMENT4 => {
                // SAFETY: Any bytes are a valid descriptor.
                segment_info(&unsafe { prefix(bytes, DXGK_SEGMENTDESCRIPTOR4::ZERO) })
            }
            DXGKQAITYPE_QUERYSEGMENT3 => {
                // SAFETY: Any bytes are a valid descriptor.
                let it = unsafe { prefix(bytes, DXGK_SEGMENTDESCRIPTOR3::ZERO) };
                first_model_segment_info(&DXGK_SEGMENTDESCRIPTOR {
                    BaseAddress: it.BaseAddress,
                    CpuTranslatedAddress: it.CpuTranslatedAddress,
                    Size: it.Size,
                    NbOfBanks: it.NbOfBanks,
                    pBankRangeTable: it.pBankRangeTable,
                    CommitLimit: it.CommitLimit,
                    Flags: it.Flags,
                })
            }
            _ => {
                // SAFETY: Any bytes are a valid descriptor.
                first_model_segment_info(&unsafe { prefix(bytes, DXGK_SEGMENTDESCRIPTOR::ZERO) })
            }
        }
    }
}

impl TableDriver {
    /// The adapter's memory. A driver that fails the query, or reports no segments, has none.
    pub(crate) fn query_memory(
        &self,
        adapter: &Adapter,
        caps: &DXGK_DRIVERCAPS,
    ) -> DriverResult<Option<MemoryFeatures>> {
        for query in SegmentQuery::for_version(self.version) {
            if let Some(count) = self.query_segment_count(adapter, &query)? {
                if count == 0 {
                    return Ok(None);
                }
                return self.query_segment_descriptors(adapter, &query, count, caps).map(Some);
            }
        }
        Ok(None)
    }

    /// The first pass. Returns the number of segments; nothing if the driver fails the query.
    fn query_segment_count(
        &self,
        adapter: &Adapter,
        query: &SegmentQuery,
    ) -> DriverResult<Option<u32>> {
        let services = adapter.door.services();
        let first = DXGK_QUERYSEGMENTOUT4 {
            NbSegment: 0,
            pSegmentDescriptor: ptr::null_mut(),
            PagingBufferSegmentId: POISON,
            PagingBufferSize: POISON,
            PagingBufferPrivateDataSize: POISON,
            SegmentDescriptorStride: query.stride,
        };
        let (status, counted) = self.call_query_segment(adapter, query, first)?;
        if result_from_status(status).is_err() {
            return Ok(None);
        }
        // The change is reported, and the flight continues: the second pass fills the members in.
        judge(services, RuleId::KMD_SEG_002, query.argument, changed_members(&first, &counted));
        if counted.NbSegment > MAX_SEGMENTS {
            let structure = query.argument.rsplit('.').next().unwrap_or_default();
            let name = format!("{structure} beyond 32 segments").into();
            services.log().emit(services.adapter(), || EventKind::EntryMissing { name });
            return Err(DriverError::Invalid);
        }
        Ok(Some(counted.NbSegment))
    }

    /// The second pass.
    fn query_segment_descriptors(
        &self,
        adapter: &Adapter,
        query: &SegmentQuery,
        count: u32,
        caps: &DXGK_DRIVERCAPS,
    ) -> DriverResult<MemoryFeatures> {
        let services = adapter.door.services();
        let mut descriptor = vec![0; query.stride];
        descriptor[query.descriptor..].fill(GAP);
        let mut list = PrivateData::output(&descriptor.repeat(count as usize))?;
        let second = DXGK_QUERYSEGMENTOUT4 {
            NbSegment: count,
            pSegmentDescriptor: list.pointer().cast(),
            SegmentDescriptorStride: query.stride,
            ..DXGK_QUERYSEGMENTOUT4::ZERO
        };
        let (status, out) = self.call_query_segment(adapter, query, second)?;
        let broken = count_error(status, count, &out, &list);
        let counted = judge(services, RuleId::KMD_SEG_003, query.argument, broken);
        let list = list.bytes();
        let broken = stride_error(query, &list);
        let walked = judge(services, RuleId::KMD_SEG_004, query.argument, broken);
        if !counted || !walked {
            return Err(DriverError::Invalid);
        }
        // The driver chooses the size, and memory of that size is about to be allocated.
        if out.PagingBufferSize > MAX_SIZE || out.PagingBufferPrivateDataSize > MAX_SIZE {
            return Err(DriverError::NoMemory);
        }
        let segments = list.chunks(query.stride).map(|bytes| query.segment_info(bytes)).collect();
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
        query: &SegmentQuery,
        question: DXGK_QUERYSEGMENTOUT4,
    ) -> DriverResult<(NTSTATUS, DXGK_QUERYSEGMENTOUT4)> {
        let mut physical_adapter =
            ShownList::new(vec![DXGK_QUERYSEGMENTIN4 { PhysicalAdapterIndex: 0 }]);
        let mut agp = ShownList::new(vec![DXGK_QUERYSEGMENTIN::ZERO]);
        let input: (PVOID, u32) = if query.kind == DXGKQAITYPE_QUERYSEGMENT4 {
            (physical_adapter.pointer().cast(), 4)
        } else {
            (agp.pointer().cast(), 24)
        };
        let mut out = PrivateData::output(&query.question(&question))?;
        let status = self.call_query_adapter_info(adapter, query.kind, input, &mut out)?;
        // SAFETY: Any bytes are a valid structure.
        Ok((status, unsafe { out.prefix(question) }))
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
        match (list.overrun(), list.underrun()) {
            (Some(bytes), _) => {
                format!("the second wrote {bytes} bytes behind the last descriptor")
            }
            (None, bytes) => {
                format!("the second wrote {} bytes before the first descriptor", bytes?)
            }
        }
    };
    Some(format!("the first pass announced {count} segments, but {but}"))
}

/// Whether the driver used a distance between descriptors other than the stride.
///
/// A driver that clears its descriptors may clear a whole stride: that is correct.
fn stride_error(query: &SegmentQuery, bytes: &[u8]) -> Option<String> {
    let SegmentQuery { descriptor, stride, .. } = *query;
    let mut gaps = bytes.chunks(stride).map(|bytes| &bytes[descriptor..]);
    let at = gaps.position(|bytes| {
        bytes.iter().any(|byte| *byte != GAP) && bytes.iter().any(|byte| *byte != 0)
    });
    at.map(|at| {
        format!(
            "SegmentDescriptorStride is {stride}, but the driver wrote into the gap behind the \
             {descriptor} bytes of descriptor {at}"
        )
    })
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
        banks: Vec::new(), // Of the first driver model only.
    }
}

/// A segment of the first driver model, which may have banks.
fn first_model_segment_info(it: &DXGK_SEGMENTDESCRIPTOR) -> SegmentInfo {
    let mut segment = DXGK_SEGMENTDESCRIPTOR4 {
        Flags: it.Flags,
        BaseAddress: it.BaseAddress,
        Size: it.Size,
        CommitLimit: it.CommitLimit,
        ..DXGK_SEGMENTDESCRIPTOR4::ZERO
    };
    segment.set_cpu_translated_address(it.CpuTranslatedAddress);
    let banked = it.Flags.has(Flags::UseBanking) && !it.pBankRangeTable.is_null();
    let banks = if banked { it.NbOfBanks.min(MAX_BANKS) } else { 0 };
    let ends = (0..banks as usize).map(|at| {
        // SAFETY: The driver guarantees a table of that many numbers.
        unsafe { it.pBankRangeTable.wrapping_add(at).read_unaligned() as u64 }
    });
    SegmentInfo { banks: ends.collect(), ..segment_info(&segment) }
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
        for (version, length) in [(0x5023, 64), (0xB004, 96)] {
            let query = SegmentQuery::for_version(InterfaceVersion::new(version).unwrap())[0];
            let stride = query.stride;
            assert_eq!((query.descriptor, stride), (length, length + 16));
            let mut one = vec![0; stride];
            one[length..].fill(GAP);
            assert_eq!(stride_error(&query, &one.repeat(3)), None);
            assert_eq!(stride_error(&query, &vec![0; 2 * stride]), None);
            let mut two = one.repeat(2);
            two[length] = 1;
            let text = format!("the {length} bytes of descriptor 0");
            assert!(stride_error(&query, &two).unwrap().ends_with(&text));
            two[length..].fill(GAP);
            two[stride + length + 15] = 0;
            assert!(stride_error(&query, &two).unwrap().ends_with("of descriptor 1"));
        }
    }

    #[test]
    fn the_first_driver_model_has_older_queries_without_a_gap() {
        for version in [0x300E, 0x4002] {
            let queries = SegmentQuery::for_version(InterfaceVersion::new(version).unwrap());
            let kinds: Vec<_> = queries.iter().map(|query| query.kind).collect();
            assert_eq!(kinds, [DXGKQAITYPE_QUERYSEGMENT3, DXGKQAITYPE_QUERYSEGMENT]);
            assert!(queries.iter().all(|query| query.stride == query.descriptor));
            let lengths: Vec<_> = queries.iter().map(|query| query.question(&question())).collect();
            assert_eq!(lengths.iter().map(Vec::len).collect::<Vec<_>>(), [32, 32]);
        }
    }

    fn question() -> DXGK_QUERYSEGMENTOUT4 {
        DXGK_QUERYSEGMENTOUT4 {
            NbSegment: 1,
            pSegmentDescriptor: ptr::without_provenance_mut(2),
            PagingBufferSegmentId: 3,
            PagingBufferSize: 4,
            PagingBufferPrivateDataSize: 5,
            SegmentDescriptorStride: 6,
        }
    }

    #[test]
    fn a_question_has_each_member_in_its_place() {
        let version = InterfaceVersion::new(0x5023).unwrap();
        let bytes = SegmentQuery::for_version(version)[0].question(&question());
        // SAFETY: Any bytes are a valid structure.
        let it = unsafe { prefix(&bytes, DXGK_QUERYSEGMENTOUT4::ZERO) };
        assert_eq!((it.NbSegment, it.pSegmentDescriptor.addr()), (1, 2));
        assert_eq!((it.PagingBufferSegmentId, it.PagingBufferSize), (3, 4));
        assert_eq!((it.PagingBufferPrivateDataSize, it.SegmentDescriptorStride), (5, 6));
    }

    #[test]
    fn a_banked_segment_of_the_first_driver_model_has_its_banks() {
        let mut ends = [0x1000_usize, 0x2000];
        let it = DXGK_SEGMENTDESCRIPTOR {
            Size: 0x3000,
            NbOfBanks: 2,
            pBankRangeTable: ends.as_mut_ptr(),
            Flags: Flags { Value: Flags::UseBanking | Flags::CpuVisible },
            CpuTranslatedAddress: 0xe000_0000,
            ..DXGK_SEGMENTDESCRIPTOR::ZERO
        };
        let segment = first_model_segment_info(&it);
        assert_eq!((segment.size, segment.cpu_address), (0x3000, Some(0xe000_0000)));
        assert_eq!(segment.banks, [0x1000, 0x2000]);
        let plain = DXGK_SEGMENTDESCRIPTOR { Flags: Flags { Value: 0 }, ..it };
        assert_eq!(first_model_segment_info(&plain).banks, [] as [u64; 0]);
    }
}
