//! Resources, their surfaces, and the memory of surfaces.
#![forbid(unsafe_code)]

use abi::D3DKMT_HANDLE;
use umd::{DeallocateRequest, Memory, Rect, RuntimeResource};

pub(super) const PAGE: u64 = 4096;
pub(super) const PIXEL: u32 = 4;

const MAGIC: [u8; 4] = *b"WTUS";

/// A resource.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) runtime: RuntimeResource,
    /// The runtime's handle; only a flaw needs it.
    pub(super) handle: usize,
    /// The resource is shared: it is never renamed, and released as a whole.
    pub(super) shared: bool,
    /// Another device has created it, and only that device may lock it.
    pub(super) opened: bool,
    /// It may be on a display.
    pub(super) shown: bool,
    pub(super) surfaces: Vec<Surface>,
}

/// A surface.
#[derive(Debug)]
pub(super) struct Surface {
    pub(super) layout: Shape,
    /// The runtime's memory, if the surface is in that.
    pub(super) system: Option<Memory>,
    /// Its current and earlier memory; the first is the resource's own.
    pub(super) instances: Vec<Instance>,
    pub(super) current: usize,
    /// The instance through which the CPU sees it, if its own may not be locked.
    pub(super) stage: Option<usize>,
    /// Whether the bytes of that instance are copied back when it is unlocked.
    pub(super) written: bool,
    /// The number of the application's locks.
    pub(super) locks: u32,
    /// The mapped address.
    pub(super) at: Option<Memory>,
    /// The allocation that is locked for that.
    pub(super) locked: D3DKMT_HANDLE,
    /// The allocation that is locked asynchronously.
    pub(super) asynchronous: Vec<D3DKMT_HANDLE>,
    /// Its first memory: only a bad driver draws with it.
    pub(super) first_instance: Option<Instance>,
    /// Memory that asynchronous locks have returned and that is not its memory yet.
    pub(super) pending_instances: Vec<D3DKMT_HANDLE>,
}

/// The layout of a surface in its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) depth: u32,
    pub(super) pitch: u32,
    pub(super) slice_pitch: u32,
    /// The size in whole pages.
    pub(super) bytes: u64,
    /// Only the size is known.
    pub(super) loose: bool,
}

/// An allocation that is or was the memory of a surface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instance {
    pub(super) allocation: D3DKMT_HANDLE,
    /// The GPU virtual address, if there is one.
    pub(super) address: u64,
    /// Whether the allocation belongs to the resource; otherwise it is standalone.
    pub(super) member: bool,
}

impl Shape {
    /// A surface with four bytes per pixel, in lines without gaps.
    pub(super) fn of(width: u32, height: u32, depth: u32) -> Option<Self> {
        let (width, height, depth) = (width.max(1), height.max(1), depth.max(1));
        let pitch = width.checked_mul(PIXEL)?;
        let slice_pitch = pitch.checked_mul(height)?;
        let bytes = u64::from(slice_pitch).checked_mul(u64::from(depth))?;
        let bytes = bytes.checked_next_multiple_of(PAGE)?;
        Some(Self { width, height, depth, pitch, slice_pitch, bytes, loose: false })
    }

    /// A buffer of this size.
    pub(super) fn loose(bytes: u64) -> Option<Self> {
        let width = u32::try_from(bytes / u64::from(PIXEL)).ok()?;
        let pitch = width.checked_mul(PIXEL)?;
        let loose =
            Self { width, height: 1, depth: 1, pitch, slice_pitch: pitch, bytes, loose: true };
        Some(loose)
    }

    /// This layout, or if only the size is known, another layout that fits.
    pub(super) fn compatible_with(self, other: Self) -> Self {
        if self.loose && other.bytes <= self.bytes { other } else { self }
    }

    /// The rows of an area, each as its first byte and its length; whole rows are joined. `None` if
    /// the area is not inside. If only the size is known, every area begins at the start.
    pub(super) fn rows(&self, area: Rect) -> Option<Vec<(u64, u64)>> {
        let [left, top, right, bottom] =
            [area.left, area.top, area.right, area.bottom].map(|value| u32::try_from(value).ok());
        let (left, top, right, bottom) = (left?, top?, right?, bottom?);
        let (width, height) = (right.checked_sub(left)?, bottom.checked_sub(top)?);
        let row = u64::from(width) * u64::from(PIXEL);
        if self.loose {
            let all = row.saturating_mul(height.into()).min(self.bytes);
            return Some(if all == 0 { Vec::new() } else { vec![(0, all)] });
        }
        if right > self.width || bottom > self.height {
            return None;
        }
        let start = |line: u32| {
            u64::from(line) * u64::from(self.pitch) + u64::from(left) * u64::from(PIXEL)
        };
        Some(match (width, height) {
            (0, _) | (_, 0) => Vec::new(),
            _ if row == u64::from(self.pitch) => vec![(start(top), row * u64::from(height))],
            _ => (top..bottom).map(|line| (start(line), row)).collect(),
        })
    }
}

impl Surface {
    pub(super) fn new(layout: Shape, system: Option<Memory>) -> Self {
        Self {
            layout,
            system,
            instances: Vec::new(),
            current: 0,
            stage: None,
            written: false,
            locks: 0,
            at: None,
            locked: 0,
            asynchronous: Vec::new(),
            first_instance: None,
            pending_instances: Vec::new(),
        }
    }

    /// The memory that is drawn with.
    pub(super) fn drawn_with(&self) -> Option<Instance> {
        self.first_instance.or(self.current())
    }

    pub(super) fn current(&self) -> Option<Instance> {
        self.instances.get(self.current).copied()
    }
}

impl Group {
    /// The allocations of the resource.
    pub(super) fn members(&self) -> Vec<D3DKMT_HANDLE> {
        self.allocations(true)
    }

    /// The allocations that were added by renaming.
    pub(super) fn renamed_allocations(&self) -> Vec<D3DKMT_HANDLE> {
        self.allocations(false)
    }

    fn allocations(&self, member: bool) -> Vec<D3DKMT_HANDLE> {
        let all = self.surfaces.iter().flat_map(|surface| &surface.instances);
        all.filter(|instance| instance.member == member)
            .map(|instance| instance.allocation)
            .collect()
    }

    /// A request that releases the resource as a whole.
    pub(super) fn whole(&self) -> DeallocateRequest {
        DeallocateRequest { resource: self.runtime, list: Vec::new() }
    }
}

/// The driver's private data of a resource, for other devices that open it.
pub(super) fn encode_layouts(shapes: &[Shape]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let numbers = shapes.iter().flat_map(|shape| [shape.width, shape.height, shape.depth]);
    bytes.extend(numbers.flat_map(u32::to_le_bytes));
    bytes
}

/// Parses the shapes of `count` surfaces. `None` if the bytes are something else.
pub(super) fn decode_layouts(bytes: &[u8], count: usize) -> Option<Vec<Shape>> {
    let (words, rest) = bytes.strip_prefix(&MAGIC)?.as_chunks::<4>();
    let (shapes, odd) = words.as_chunks::<3>();
    let whole = rest.is_empty() && odd.is_empty() && shapes.len() == count;
    let layout = |itemses: &[[u8; 4]; 3]| {
        let [width, height, depth] = itemses.map(u32::from_le_bytes);
        Shape::of(width, height, depth)
    };
    if whole { shapes.iter().map(layout).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(left: i32, top: i32, right: i32, bottom: i32) -> Rect {
        Rect { left, top, right, bottom }
    }

    #[test]
    fn whole_rows_are_one() {
        let layout = Shape::of(8, 4, 0).unwrap();
        assert_eq!((layout.pitch, layout.slice_pitch, layout.bytes), (32, 128, 4096));
        assert_eq!(layout.rows(area(0, 1, 8, 3)), Some(vec![(32, 64)]));
        assert_eq!(layout.rows(area(1, 1, 3, 3)), Some(vec![(36, 8), (68, 8)]));
        assert_eq!(layout.rows(area(2, 2, 2, 4)), Some(vec![]));
    }

    #[test]
    fn what_is_outside_is_no_row() {
        let layout = Shape::of(8, 4, 1).unwrap();
        for wrong in [area(-1, 0, 2, 2), area(0, 0, 9, 1), area(0, 0, 1, 5), area(3, 0, 2, 1)] {
            assert_eq!(layout.rows(wrong), None, "{wrong:?}");
        }
        assert_eq!(Shape::of(u32::MAX, 1, 1), None);
        let loose = Shape::loose(4096).unwrap();
        assert_eq!(loose.rows(area(0, 0, 16, 16)), Some(vec![(0, 1024)]));
        assert_eq!(loose.rows(area(0, 0, 160, 160)), Some(vec![(0, 4096)]));
    }

    #[test]
    fn shapes_read_back() {
        let shapes = [Shape::of(8, 4, 1).unwrap(), Shape::of(4, 2, 1).unwrap()];
        let bytes = encode_layouts(&shapes);
        assert_eq!(decode_layouts(&bytes, 2).as_deref(), Some(&shapes[..]));
        for (length, count) in [(bytes.len(), 1), (bytes.len() - 1, 2), (0, 0)] {
            assert_eq!(decode_layouts(&bytes[..length], count), None);
        }
    }
}
