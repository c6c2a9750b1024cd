//! The segment query, in two passes.

use super::driver::{Board, FlightResult, Query, fly, table};
use abi::display::*;
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use abi::status::{STATUS_NO_MEMORY, STATUS_NOT_SUPPORTED, STATUS_SUCCESS};
use abi::{HANDLE, NTSTATUS, PVOID};
use flight::Passive;
use kernel::miniport::{DriverError, DriverKind, Features, Miniport};
use kernel::segment::{MemoryFeatures, PagingFeatures, SegmentFlags, SegmentInfo};

const SEGMENTS: usize = 2;

/// An aperture segment and a memory segment.
fn segment(at: usize) -> DXGK_SEGMENTDESCRIPTOR4 {
    let mut it = DXGK_SEGMENTDESCRIPTOR4 {
        BaseAddress: i64::try_from(at << 24).unwrap(),
        Size: 1 << 20,
        CommitLimit: 1 << 20,
        ..DXGK_SEGMENTDESCRIPTOR4::ZERO
    };
    it.Flags.Value = if at == 0 {
        DXGK_SEGMENTFLAGS::Aperture | DXGK_SEGMENTFLAGS::CacheCoherent
    } else {
        it.set_cpu_translated_address(0xe000_0000);
        DXGK_SEGMENTFLAGS::CpuVisible | DXGK_SEGMENTFLAGS::ApplicationTarget
    };
    it
}

/// Writes a descriptor at an offset in bytes from the first.
fn put(out: &DXGK_QUERYSEGMENTOUT4, at: usize, far: usize) {
    let to: PVOID = out.pSegmentDescriptor.wrapping_add(far).cast();
    let to = to.cast::<DXGK_SEGMENTDESCRIPTOR4>();
    unsafe { to.write_unaligned(segment(at)) };
}

/// Breaks no rule.
pub(crate) fn two_segments(out: &mut DXGK_QUERYSEGMENTOUT4) -> NTSTATUS {
    if out.pSegmentDescriptor.is_null() {
        assert_eq!(out.NbSegment, 0);
        out.NbSegment = 2;
        return STATUS_SUCCESS;
    }
    assert_eq!(out.NbSegment, 2);
    assert!(out.SegmentDescriptorStride > size_of::<DXGK_SEGMENTDESCRIPTOR4>());
    for at in 0..SEGMENTS {
        put(out, at, at * out.SegmentDescriptorStride);
    }
    out.PagingBufferSegmentId = 1;
    out.PagingBufferSize = 4096;
    out.PagingBufferPrivateDataSize = 24;
    STATUS_SUCCESS
}

fn features(flown: &FlightResult<'_>, at: &mut Passive) -> Result<Features, DriverError> {
    flown.driver.query_adapter_info(at)
}

#[test]
fn both_passes_make_the_memory() {
    let messages = fly(Board::default(), &table(), |flown, at| {
        let aperture = SegmentInfo {
            base: 0,
            size: 1 << 20,
            commit_limit: 1 << 20,
            flags: SegmentFlags { aperture: true, coherent: true, ..SegmentFlags::default() },
            ..SegmentInfo::default()
        };
        let flags =
            SegmentFlags { cpu_visible: true, application_target: true, ..SegmentFlags::default() };
        let memory = SegmentInfo {
            base: 1 << 24,
            cpu_address: Some(0xe000_0000),
            flags,
            ..aperture.clone()
        };
        let paging = PagingFeatures {
            node: 1,
            buffer: 4096,
            segment: 1,
            private: 24,
            aperture_limit: 1 << 20,
        };
        let memory = MemoryFeatures { segments: vec![aperture, memory], paging };
        assert_eq!(
            features(flown, at),
            Ok(Features { nodes: 2, memory: Some(memory), ..Features::default() })
        );
    });
    assert_eq!(messages, [] as [&str; 0]);
}

#[test]
fn a_driver_need_not_have_memory() {
    let refuses: Query = |_| STATUS_NOT_SUPPORTED;
    let none: Query = |_| STATUS_SUCCESS;
    for query in [refuses, none] {
        let messages = fly(Board { query, ..Board::default() }, &table(), |flown, at| {
            assert_eq!(features(flown, at), Ok(Features { nodes: 2, ..Features::default() }));
        });
        assert_eq!(messages, [] as [&str; 0]);
    }
}

/// The findings for these results, and whether the driver starts.
fn answers(query: Query) -> (Vec<String>, Option<DriverError>) {
    let mut refused = None;
    let messages = fly(Board { query, ..Board::default() }, &table(), |flown, _| {
        refused = flown.adapter.as_ref().err().map(|error| error.why);
    });
    (messages, refused)
}

#[test]
fn the_first_pass_is_for_the_count() {
    let (messages, refused) = answers(|out| {
        let first = out.pSegmentDescriptor.is_null();
        let status = two_segments(out);
        if first {
            (out.PagingBufferSize, out.PagingBufferSegmentId) = (4096, 1);
        }
        status
    });
    let touched = "queried for NbSegment only, the driver changed PagingBufferSegmentId, \
                   PagingBufferSize";
    assert_eq!((messages, refused), (vec![format!("KMD-SEG-002: {touched}")], None));
}

#[test]
fn both_passes_have_the_same_segments() {
    let announced = "KMD-SEG-003: the first pass announced 2 segments, but the second";
    let fewer: Query = |out| {
        let first = out.pSegmentDescriptor.is_null();
        two_segments(out);
        out.NbSegment -= u32::from(!first);
        STATUS_SUCCESS
    };
    let messages = format!("{announced} has NbSegment 1");
    assert_eq!(answers(fewer), (vec![messages], Some(DriverError::Invalid)));
    let refuses: Query =
        |out| if out.pSegmentDescriptor.is_null() { two_segments(out) } else { STATUS_NO_MEMORY };
    let messages = format!("{announced} refused to describe them: no-memory");
    assert_eq!(answers(refuses), (vec![messages], Some(DriverError::Invalid)));
    let more: Query = |out| {
        let status = two_segments(out);
        if !out.pSegmentDescriptor.is_null() {
            let end = out.pSegmentDescriptor.wrapping_add(2 * out.SegmentDescriptorStride);
            unsafe { end.write_bytes(1, 4) };
        }
        status
    };
    let messages = format!("{announced} wrote 4 bytes behind the last descriptor");
    assert_eq!(answers(more), (vec![messages], Some(DriverError::Invalid)));
}

#[test]
fn the_stride_is_not_the_length() {
    let (messages, refused) = answers(|out| {
        if !out.pSegmentDescriptor.is_null() {
            for at in 0..SEGMENTS {
                put(out, at, at * size_of::<DXGK_SEGMENTDESCRIPTOR4>());
            }
            return STATUS_SUCCESS;
        }
        two_segments(out)
    });
    let gap = "SegmentDescriptorStride is 80, but the driver wrote into the gap behind the 64 \
               bytes of descriptor 0";
    assert_eq!(
        (messages, refused),
        (vec![format!("KMD-SEG-004: {gap}")], Some(DriverError::Invalid))
    );
}

#[test]
fn who_writes_behind_the_output_is_named_and_flies_on() {
    let (messages, refused) = answers(|out| {
        let status = two_segments(out);
        unsafe { (&raw mut *out).wrapping_add(1).cast::<u8>().write(0) };
        status
    });
    let once = "KMD-CAPS-008: OutputDataSize is 40, but up to 1 bytes behind it were written";
    assert_eq!((messages, refused), (vec![once.to_owned(); 2], None));
}

#[test]
fn what_nobody_meant_is_refused() {
    let (messages, refused) = answers(|out| {
        out.NbSegment = 33;
        STATUS_SUCCESS
    });
    let many = "absent: DXGK_QUERYSEGMENTOUT4 beyond 32 segments".to_owned();
    assert_eq!((messages, refused), (vec![many], Some(DriverError::Invalid)));
    let (messages, refused) = answers(|out| {
        let first = out.pSegmentDescriptor.is_null();
        two_segments(out);
        if !first {
            out.PagingBufferSize = u32::MAX;
        }
        STATUS_SUCCESS
    });
    assert_eq!((messages, refused), (vec![], Some(DriverError::NoMemory)));
}

#[test]
fn everything_crooked_is_said_before_the_start_is_refused() {
    let board = Board {
        caps: |raw| {
            raw.SchedulingCaps.Value = DXGK_VIDSCHCAPS::PreemptionAware;
            raw.MemoryManagementCaps.Flags.Value = DXGK_VIDMMCAPS_FLAGS::GpuMmuSupported;
            raw.SupportPerEngineTDR = 1;
        },
        query: |out| {
            out.NbSegment += 1;
            STATUS_SUCCESS
        },
        ..Board::default()
    };
    let messages = fly(board, &table(), |flown, _| {
        let why = flown.adapter.as_ref().unwrap_err();
        assert_eq!((why.entry, why.why), ("DxgkDdiQueryAdapterInfo", DriverError::Invalid));
    });
    let rules: Vec<&str> = messages.iter().map(|text| &text[..text.find(':').unwrap()]).collect();
    assert_eq!(rules, ["KMD-CAPS-001", "KMD-CAPS-004", "KMD-CAPS-005", "KMD-SEG-003"]);
    let missing = "DxgkDdiResetEngine, DxgkDdiQueryEngineStatus, DxgkDdiQueryDependentEngineGroup";
    assert!(messages[1].ends_with(missing), "{}", messages[1]);
}

#[test]
fn a_driver_with_its_entries_may_claim_them() {
    unsafe extern "win64-unwind" fn entry<T>(_: HANDLE, _: *mut T) -> NTSTATUS {
        STATUS_SUCCESS
    }
    let table = DRIVER_INITIALIZATION_DATA {
        DxgkDdiResetEngine: Some(entry),
        DxgkDdiQueryEngineStatus: Some(entry),
        DxgkDdiQueryDependentEngineGroup: Some(entry),
        ..table()
    };
    let board = Board { caps: |raw| raw.SupportPerEngineTDR = 1, ..Board::default() };
    let messages = fly(board, &table, |flown, _| assert!(flown.adapter.is_ok()));
    assert_eq!(messages, [] as [&str; 0]);
}

/// The table of another version.
fn table_of(version: u32) -> DRIVER_INITIALIZATION_DATA {
    DRIVER_INITIALIZATION_DATA { Version: version, ..table() }
}

#[test]
fn capabilities_have_the_length_of_the_version() {
    for (version, length) in
        [(0x300E, 0x220), (0x4002, 0x228), (0x5023, 0x240), (0xB004, 0x248), (0x10004, 0x250)]
    {
        let messages = fly(Board::default(), &table_of(version), |flown, _| {
            let queries = flown.board.queries.lock().unwrap().clone();
            assert_eq!(queries[0], (DXGKQAITYPE_DRIVERCAPS, length), "{version:#x}");
        });
        let stride = |text: &String| !text.starts_with("KMD-SEG");
        assert!(!messages.iter().any(stride), "{messages:?}");
    }
}

#[test]
fn a_driver_that_writes_the_capabilities_of_a_later_version_is_named() {
    let board = Board { caps_overrun: 8, ..Board::default() };
    let messages = fly(board, &table_of(0x300E), |_, _| ());
    let text = "KMD-CAPS-008: OutputDataSize is 544, but up to 8 bytes behind it were written";
    assert_eq!(messages, [text]);
}

#[test]
fn a_compute_only_driver_is_known_by_its_capabilities() {
    let compute = DXGK_DRIVERCAPS_MISCCAPS::ComputeOnly;
    let (full, only) = (DriverKind::Full, DriverKind::ComputeOnly);
    for (version, misc_caps, kind) in [
        (0x5023, compute, full),
        (0x9006, compute, full),
        (0xB004, compute, only),
        (0xB004, 0, full),
        (0x10004, compute, only),
    ] {
        let board = Board { misc_caps, query: |_| STATUS_NOT_SUPPORTED, ..Board::default() };
        let messages = fly(board, &table_of(version), |flown, _| {
            assert_eq!(flown.driver.kind(), kind, "{version:#x}");
        });
        assert_eq!(messages, [] as [&str; 0]);
    }
}

/// An aperture and memory, as `DXGK_SEGMENTDESCRIPTOR3`.
fn old_segments(kind: i32, out: &mut DXGK_QUERYSEGMENTOUT3) -> NTSTATUS {
    if kind != DXGKQAITYPE_QUERYSEGMENT3 {
        return STATUS_NOT_SUPPORTED;
    }
    if out.pSegmentDescriptor.is_null() {
        out.NbSegment = 2;
        return STATUS_SUCCESS;
    }
    for at in 0..SEGMENTS {
        let new = segment(at);
        let it = DXGK_SEGMENTDESCRIPTOR3 {
            Flags: new.Flags,
            BaseAddress: new.BaseAddress,
            CpuTranslatedAddress: new.cpu_translated_address(),
            Size: new.Size,
            CommitLimit: new.CommitLimit,
            ..DXGK_SEGMENTDESCRIPTOR3::ZERO
        };
        unsafe { out.pSegmentDescriptor.wrapping_add(at).write_unaligned(it) };
    }
    out.PagingBufferSegmentId = 1;
    out.PagingBufferSize = 4096;
    STATUS_SUCCESS
}

#[test]
fn the_first_driver_model_is_asked_with_the_third_query() {
    let board = Board { old_query: old_segments, ..Board::default() };
    let messages = fly(board, &table_of(0x4002), |flown, at| {
        assert_eq!(flown.adapter.as_ref().err(), None);
        let memory = features(flown, at).unwrap().memory.unwrap();
        assert_eq!((memory.segments.len(), memory.paging.buffer), (2, 4096));
        assert_eq!(memory.segments[1].cpu_address, Some(0xe000_0000));
        assert!(memory.segments[0].flags.aperture && !memory.segments[1].flags.aperture);
    });
    assert_eq!(messages, [] as [&str; 0]);
}

#[test]
fn the_first_driver_model_may_know_the_oldest_query_only() {
    let old: super::driver::OldQuery = |kind, out| {
        if kind == DXGKQAITYPE_QUERYSEGMENT3 {
            return STATUS_NOT_SUPPORTED;
        }
        if out.pSegmentDescriptor.is_null() {
            out.NbSegment = 1;
            return STATUS_SUCCESS;
        }
        let it = DXGK_SEGMENTDESCRIPTOR {
            BaseAddress: 1 << 24,
            Size: 1 << 20,
            CommitLimit: 1 << 20,
            Flags: segment(0).Flags,
            ..DXGK_SEGMENTDESCRIPTOR::ZERO
        };
        let to = out.pSegmentDescriptor.cast::<DXGK_SEGMENTDESCRIPTOR>();
        unsafe { to.write_unaligned(it) };
        out.PagingBufferSize = 4096;
        STATUS_SUCCESS
    };
    let board = Board { old_query: old, ..Board::default() };
    let messages = fly(board, &table_of(0x300E), |flown, at| {
        let memory = features(flown, at).unwrap().memory.unwrap();
        assert_eq!((memory.segments.len(), memory.segments[0].base), (1, 1 << 24));
    });
    assert_eq!(messages, [] as [&str; 0]);
}
