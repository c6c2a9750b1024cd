//! Descriptions of resources: groups of surfaces, created and destroyed as one.

use abi::umd::{D3DDDI_RESOURCEFLAGS, D3DDDIPOOL_SYSTEMMEM, D3DDDIPOOL_VIDEOMEMORY};

/// A resource of a device: a group of surfaces. It is a handle; a destroyed resource's handle
/// fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource(pub(crate) usize);

/// A surface with four bytes per pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// Pixels per line.
    pub width: u32,
    /// The number of lines.
    pub height: u32,
}

/// A rectangle of a surface, as half-open ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    /// The first column.
    pub left: u32,
    /// The first line.
    pub top: u32,
    /// One past the last column.
    pub right: u32,
    /// One past the last line.
    pub bottom: u32,
}

/// The requested resource: a group of surfaces, in the terms of the Direct3D DDI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceDescription {
    /// The surfaces.
    pub surfaces: Vec<Surface>,
    /// `D3DDDIFORMAT`.
    pub format: i32,
    /// `D3DDDI_POOL`.
    pub pool: i32,
    /// `D3DDDI_RESOURCEFLAGS`.
    pub flags: u32,
    /// `D3DDDI_RESOURCEFLAGS2`: if any is set, `CreateResource2` is called.
    pub flags2: u32,
    /// The value for the reserved members.
    pub reserved_values: u32,
}

/// The maximum size of a surface in the application's memory (our choice).
const MAX_SYSTEM_MEMORY: usize = 256 << 20;

/// `D3DDDIFMT_A8R8G8B8`.
const ARGB: i32 = 21;

impl Surface {
    /// The size in bytes, in lines without gaps; `usize::MAX` on overflow.
    pub fn bytes(self) -> usize {
        (self.width as usize).saturating_mul(self.height as usize).saturating_mul(4)
    }

    /// Allocates application memory for the surface, if enough is available.
    pub(crate) fn memory(self) -> Option<Box<[u8]>> {
        let bytes = self.bytes();
        (bytes <= MAX_SYSTEM_MEMORY).then(|| vec![0; bytes].into())
    }
}

impl Rect {
    /// The whole of a surface.
    pub fn whole(surface: Surface) -> Self {
        Self { left: 0, top: 0, right: surface.width, bottom: surface.height }
    }

    /// Whether the rectangle is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.left >= self.right || self.top >= self.bottom
    }
}

impl ResourceDescription {
    /// A texture with one surface.
    pub fn texture(width: u32, height: u32) -> Self {
        Self::group(1, width, height)
    }

    /// `count` identical surfaces, created and destroyed as one.
    pub fn group(count: usize, width: u32, height: u32) -> Self {
        Self {
            surfaces: vec![Surface { width, height }; count],
            format: ARGB,
            pool: D3DDDIPOOL_VIDEOMEMORY,
            flags: D3DDDI_RESOURCEFLAGS::Texture,
            flags2: 0,
            reserved_values: 0,
        }
    }

    /// Adds these flags of `D3DDDI_RESOURCEFLAGS`.
    #[must_use]
    pub fn with(mut self, flags: u32) -> Self {
        self.flags |= flags;
        self
    }

    /// Makes the resource shareable with other processes.
    #[must_use]
    pub fn shared(self) -> Self {
        self.with(D3DDDI_RESOURCEFLAGS::SharedResource)
    }

    /// Places the resource in the application's memory.
    #[must_use]
    pub fn in_system_memory(mut self) -> Self {
        self.pool = D3DDDIPOOL_SYSTEMMEM;
        self
    }

    pub(crate) fn has_flag(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The bytes that another process needs to open it.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let head =
            [self.format.cast_unsigned(), self.pool.cast_unsigned(), self.flags, self.flags2];
        let list = self.surfaces.iter().flat_map(|surface| [surface.width, surface.height]);
        head.into_iter().chain(list).flat_map(u32::to_le_bytes).collect()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<4>();
        let words: Vec<u32> = words.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let [format, pool, flags, flags2, list @ ..] = &*words else { return None };
        let (list, odd) = list.as_chunks::<2>();
        if !rest.is_empty() || !odd.is_empty() {
            return None;
        }
        Some(Self {
            surfaces: list.iter().map(|&[width, height]| Surface { width, height }).collect(),
            format: format.cast_signed(),
            pool: pool.cast_signed(),
            flags: *flags,
            flags2: *flags2,
            reserved_values: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_can_be_read_back() {
        let made = ResourceDescription::group(3, 17, 5).shared();
        assert_eq!(ResourceDescription::from_bytes(&made.to_bytes()), Some(made.clone()));
        let bytes = made.to_bytes();
        assert_eq!(ResourceDescription::from_bytes(&bytes[..bytes.len() - 1]), None);
        assert_eq!(ResourceDescription::from_bytes(&bytes[..12]), None);
    }
}
