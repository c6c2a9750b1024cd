//! The memory segments that a table driver describes: an aperture, and video memory that is not CPU
//! visible.

use abi::display::{DXGK_QUERYSEGMENTOUT4, DXGK_SEGMENTDESCRIPTOR4, DXGK_SEGMENTFLAGS as Flags};

/// The number of segments.
pub(crate) const SEGMENTS: u32 = 2;

/// The size of each segment in bytes.
const SIZE: usize = 1 << 20;

/// The size of a paging buffer in bytes.
const PAGING_BUFFER: u32 = 0x1000;

/// Returns the segments in two passes: first their number, then their descriptors at the stride.
/// `write` writes a descriptor at a byte offset from the first.
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

/// The segments. WINDOWS: the first one is an aperture (observed).
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
