//! The methods that stand for members of unions.

use crate::display::*;
use crate::kmt::D3DKMT_CREATEALLOCATIONFLAGS;
use crate::ks::{KS_FRAMING_ITEM, KSALLOCATOR_FRAMING, KSMAPPING, KSSTREAM_POINTER_OFFSET};
use crate::ukm::{D3DDDI_ALLOCATIONINFO2, D3DDDICB_DESTROYALLOCATION2FLAGS};

#[test]
fn what_is_written_is_read() {
    let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::ZERO;
    let completed = DmaCompleted { SubmissionFenceId: 7, NodeOrdinal: 1, EngineOrdinal: 2 };
    data.set_dma_completed(completed);
    assert_eq!(data.dma_completed(), completed);
    let faulted = DmaFaulted { FaultedFenceId: 8, Status: -5, NodeOrdinal: 3, EngineOrdinal: 4 };
    data.set_dma_faulted(faulted);
    assert_eq!(data.dma_faulted(), faulted);
    let preempted = data.dma_preempted();
    assert_eq!((preempted.PreemptionFenceId, preempted.NodeOrdinal), (8, 3));
    data.set_dma_preempted(preempted);
    assert_eq!(data.dma_faulted(), faulted, "both have four words");

    let mut device = DXGKARG_CREATEDEVICE::ZERO;
    let flags = DXGK_CREATEDEVICEFLAGS { Value: DXGK_CREATEDEVICEFLAGS::GdiDevice };
    device.set_flags(flags);
    assert_eq!(device.flags(), flags);
}

#[test]
fn one_member_stands_for_the_other() {
    let word = 0x0000_0001_c800_0000_usize;
    let info = D3DDDI_ALLOCATIONINFO2 {
        pSystemMem: core::ptr::without_provenance(0x40),
        Unused: word,
        ..D3DDDI_ALLOCATIONINFO2::ZERO
    };
    assert_eq!((info.section().addr(), info.priority()), (0x40, 0xc800_0000));
    let preference = DXGK_SEGMENTPREFERENCE { Value: 2 | 1 << 5 | 31 << 6 | 3 << 24 };
    assert_eq!(preference.segments(), [2, 31, 0, 0, 3]);
}

#[test]
fn a_bit_without_a_name_is_reserved() {
    assert_eq!(D3DKMT_CREATEALLOCATIONFLAGS::RESERVED, 0xffc0_0000);
    assert_eq!(D3DDDICB_DESTROYALLOCATION2FLAGS::RESERVED, 0x7fff_fffc);
    assert_eq!(DXGK_ALLOCATIONINFOFLAGS_WDDM2_0::RESERVED, 0xfff8_1800);
    let flags = D3DKMT_CREATEALLOCATIONFLAGS { Value: 1 << 1 | 1 << 30 };
    assert!(flags.has(D3DKMT_CREATEALLOCATIONFLAGS::CreateShared));
    assert!(flags.has(D3DKMT_CREATEALLOCATIONFLAGS::RESERVED));
    assert!(!flags.has(D3DKMT_CREATEALLOCATIONFLAGS::CreateResource));
}

#[test]
fn a_place_is_a_segment_and_an_address_in_it() {
    let place = PagingPlace::in_segment(2, 0x1_0000_1000);
    assert_eq!((place.SegmentId, place.segment_address()), (2, 0x1_0000_1000));
    let mut segment = DXGK_SEGMENTDESCRIPTOR4::ZERO;
    segment.set_cpu_translated_address(0xe000_0000);
    assert_eq!(segment.cpu_translated_address(), 0xe000_0000);
    let listed = DXGK_ALLOCATIONLIST { Value: 1 | 3 << 1, ..DXGK_ALLOCATIONLIST::ZERO };
    assert_eq!((listed.write_operation(), listed.segment_id()), (true, 3));
    let entry = DXGK_PTE { Flags: DXGK_PTE::Valid | 31 << 5 | DXGK_PTE::LargePage, PageAddress: 0 };
    assert_eq!(entry.segment(), 31);
    let mut table = DXGK_PAGETABLEUPDATEADDRESS::ZERO;
    table.GpuPhysical.SegmentId = 0x4000_0000;
    table.GpuPhysical.Padding = 7;
    assert_eq!(table.gpu_virtual(), 0x7_4000_0000);
}

#[test]
fn a_page_fault_is_what_was_written() {
    let fault = DmaPageFaulted {
        FaultedFenceId: 7,
        FaultedVirtualAddress: 0x1_0000_2000,
        NodeOrdinal: 1,
        FaultErrorCode: 5,
        FaultedPrimitiveAPISequenceNumber: u64::MAX,
        PageFaultFlags: -1,
        FaultedProcessHandle: core::ptr::without_provenance_mut(0x8_0000_0001),
        ..DmaPageFaulted::ZERO
    };
    let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::ZERO;
    data.set_dma_page_faulted(fault);
    assert_eq!(data.dma_page_faulted(), fault);
    assert_eq!((data.Data.Words[8], data.Data.Words[9], data.Data.Words[10]), (0x2000, 1, 1));
}

#[test]
fn a_preference_has_segments_and_directions() {
    let it = DXGK_SEGMENTPREFERENCE { Value: 2 | 1 << 5 | 3 << 6 | 31 << 24 | 1 << 29 };
    assert_eq!(it.segments(), [2, 3, 0, 0, 31]);
    assert_eq!(it.directions(), [true, false, false, false, true]);
}

#[test]
fn a_frame_is_bytes_or_mappings_and_aligned_or_pitched() {
    let mut mapping = KSMAPPING { ByteCount: 0x1000, ..KSMAPPING::ZERO };
    let at = &raw mut mapping;
    let offset = KSSTREAM_POINTER_OFFSET { Data: at.cast(), ..KSSTREAM_POINTER_OFFSET::ZERO };
    assert_eq!(offset.mappings(), at);
    let framing = KSALLOCATOR_FRAMING {
        OptionsFlags: 2,
        FileAlignment: 0xffff_f000,
        ..KSALLOCATOR_FRAMING::ZERO
    };
    assert_eq!((framing.requirements_flags(), framing.frame_pitch()), (2, -4096));
    let item = KS_FRAMING_ITEM { FileAlignment: 4096, ..KS_FRAMING_ITEM::ZERO };
    assert_eq!(item.frame_pitch(), 4096);
}
