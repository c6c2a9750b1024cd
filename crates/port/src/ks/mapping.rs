//! The mappings of a frame, for the hardware: `KSMAPPING`, each at most a page long.
//!
//! For a pin with `KSPIN_FLAG_GENERATE_MAPPINGS` a stream pointer counts in mappings, and not in
//! bytes; the class driver counts in bytes only.

use crate::ks::driver_memory::DriverMemory;
use abi::ks::KSMAPPING;
use stream::PointerView;

const PAGE: u32 = 4096;
/// The maximum stride of a table that is plausible.
const MAX_STRIDE: usize = 4096;

/// The DMA adapter that a driver registered (`KsDeviceRegisterAdapterObject`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DmaAdapter {
    /// The maximum size of a mapping in bytes (`MaxMappingsByteCount`); zero is no limit.
    pub(crate) max_mapping: u32,
    /// The distance between two mappings in bytes (`MappingTableStride`).
    pub(crate) stride: u32,
}

/// The mappings of one frame.
pub(crate) struct Mappings {
    /// The address of the frame, and how many of its bytes belong to the pointer.
    frame: (usize, u32),
    /// The offset of each mapping in the frame, and its size in bytes.
    pieces: Vec<(u32, u32)>,
    table: DriverMemory,
    stride: usize,
}

/// The position of a stream pointer, in mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The address of the next mapping.
    pub(crate) next: usize,
    pub(crate) count: u32,
    pub(crate) remaining: u32,
}

/// Splits a frame into pieces of at most `most` bytes.
///
/// WINDOWS: our reading. A mapping is contiguous for the hardware, and frames are here: so page
/// boundaries do not matter, and a flight repeats, wherever its frames are.
fn pieces(bytes: u32, most: u32) -> Vec<(u32, u32)> {
    // Mappings shorter than a cache line would make the tables too long.
    let most = if most == 0 { PAGE } else { most.clamp(64, PAGE) };
    let starts = (0..bytes).step_by(most as usize);
    starts.map(|at| (at, most.min(bytes - at))).collect()
}

impl Mappings {
    pub(crate) fn new(data: usize, bytes: u32, adapter: DmaAdapter) -> Self {
        let least = size_of::<KSMAPPING>();
        let stride = (adapter.stride as usize).clamp(least, MAX_STRIDE);
        let stride = stride.next_multiple_of(align_of::<KSMAPPING>());
        let pieces = pieces(bytes, adapter.max_mapping);
        let table = DriverMemory::new(stride * pieces.len());
        for (number, (at, length)) in pieces.iter().enumerate() {
            // WINDOWS: our reading. The hardware here uses the processor's addresses. `Alignment`
            // is undocumented: it is zero.
            let address = data.wrapping_add(*at as usize) as u64;
            let it = KSMAPPING {
                PhysicalAddress: address.cast_signed(),
                ByteCount: *length,
                Alignment: 0,
            };
            table.write(number * stride, it);
        }
        Self { frame: (data, bytes), pieces, table, stride }
    }

    /// The table, for quarantine after the frame was removed.
    pub(crate) fn into_table(self) -> DriverMemory {
        self.table
    }

    /// Whether the mappings are of this frame.
    pub(crate) fn is_for(&self, data: usize, bytes: u32) -> bool {
        self.frame == (data, bytes)
    }

    /// How many mappings lie before a byte of the frame.
    fn count_before(&self, offset: u32) -> usize {
        self.pieces.partition_point(|(at, _)| *at < offset)
    }

    /// The position of a pointer at `offset`.
    pub(crate) fn position(&self, offset: u32) -> Position {
        let before = self.count_before(offset);
        let count = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        Position {
            next: self.table.address() + before * self.stride,
            count: count(self.pieces.len()),
            remaining: count(self.pieces.len() - before),
        }
    }

    /// The number of bytes in `used` mappings, from the position of a pointer. More mappings than
    /// there are count as more bytes than there are.
    pub(crate) fn bytes(&self, view: &PointerView, used: u32) -> u32 {
        let rest = &self.pieces[self.count_before(view.offset)..];
        if used as usize > rest.len() {
            return view.remaining.saturating_add(1);
        }
        let end = rest.get(used as usize).map_or(self.frame.1, |(at, _)| *at);
        end - view.offset.min(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_as_long_as_a_page_or_as_the_hardware_wants() {
        assert_eq!(pieces(4096, 0), [(0, 4096)]);
        assert_eq!(pieces(10000, 1 << 20), [(0, 4096), (4096, 4096), (8192, 1808)]);
        assert_eq!(pieces(500, 200), [(0, 200), (200, 200), (400, 100)]);
        assert_eq!(pieces(100, 1), [(0, 64), (64, 36)]);
        assert_eq!(pieces(0, 0), []);
    }

    #[test]
    fn a_table_has_every_byte_once_with_room_between_its_lines() {
        let adapter = DmaAdapter { max_mapping: 0, stride: 40 };
        let it = Mappings::new(0x1f00, 5000, adapter);
        let lines: Vec<KSMAPPING> = (0..2).map(|at| it.table.read(at * 40).unwrap()).collect();
        let found = lines.iter().map(|raw| (raw.PhysicalAddress, raw.ByteCount));
        assert_eq!(found.collect::<Vec<_>>(), [(0x1f00, 4096), (0x2f00, 904)]);
        let start = it.position(0);
        assert_eq!((start.count, start.remaining), (2, 2));
        let second = it.position(4096);
        assert_eq!((second.next - start.next, second.remaining), (40, 1));
        assert_eq!(it.position(5000).remaining, 0);
    }
}
