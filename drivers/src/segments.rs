//! The memory of an adapter, as a driver with a table describes it: an aperture, and video
//! memory that the CPU does not see.

use abi::display::{DXGK_QUERYSEGMENTOUT4, DXGK_SEGMENTDESCRIPTOR4, DXGK_SEGMENTFLAGS as Flags};

/// How many segments there are.
pub(crate) const SEGMENTS: u32 = 2;

/// How many bytes each of them has.
const SIZE: usize = 1 << 20;

/// How many bytes a paging buffer has.
const PAGING_BUFFER: u32 = 0x1000;

/// Answers in two passes: first the number of segments, then what each is, by the stride.
/// `write` puts a descriptor so many bytes from the first.
pub(crate) fn describe(
    out: &mut DXGK_QUERYSEGMENTOUT4,
    mut write: impl FnMut(usize, DXGK_SEGMENTDESCRIPTOR4),
) {
    if out.pSegmentDescriptor.is_null() {
        out.NbSegment = SEGMENTS;
        return;
    }
    for (at, segment) in segments().into_iter().enumerate() {
        write(at * out.SegmentDescriptorStride, segment);
    }
    out.PagingBufferSegmentId = 1;
    out.PagingBufferSize = PAGING_BUFFER;
    out.PagingBufferPrivateDataSize = 0;
}

/// What each segment is. WINDOWS: the first one is an aperture (observed).
fn segments() -> [DXGK_SEGMENTDESCRIPTOR4; SEGMENTS as usize] {
    let segment = |flags, base| DXGK_SEGMENTDESCRIPTOR4 {
        Flags: Flags { Value: flags },
        BaseAddress: base,
        Size: SIZE,
        CommitLimit: SIZE,
        ..DXGK_SEGMENTDESCRIPTOR4::ZERO
    };
    let aperture = Flags::Aperture | Flags::CacheCoherent;
    [segment(aperture, 0), segment(Flags::ApplicationTarget, 1 << 24)]
}
