//! What the miniport says of its hardware.
#![forbid(unsafe_code)]

const LISTS: u32 = 1;
const ADDRESSES: u32 = 2;
const MEMORY: u32 = 4;
const LISTED_RESIDENCY: u32 = 8;

/// What a miniport of the built-in GPU tells its user-mode half, as far as that matters here.
///
/// To be `softgpu::format::HardwareInfo`: `SIZE` and `read` are what would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hardware {
    /// How its packets name what they use.
    pub(super) way: Way,
    /// Whether what they use is to be resident before.
    pub(super) resident: bool,
}

/// How packets name what they use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By handle, and all of it is listed (WDDM 1.x).
    Listed,
    /// By virtual address.
    Addressed,
    /// By handle, without a list.
    Named,
}

impl Hardware {
    pub(super) const SIZE: usize = 32;

    /// `WTUM`, the version, flags, and what does not matter here.
    pub(super) fn read(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<4>();
        let [magic, version, flags, ..] = words else { return None };
        let flags = u32::from_le_bytes(*flags);
        let has = |flag| flags & flag != 0;
        let way = match flags {
            _ if has(LISTS) => Way::Listed,
            _ if has(ADDRESSES) => Way::Addressed,
            _ => Way::Named,
        };
        // A miniport of WDDM 1.x has what packets list brought; one of WDDM 2 has not.
        let resident = has(MEMORY) && (way != Way::Listed || has(LISTED_RESIDENCY));
        let ours = magic == b"WTUM" && u32::from_le_bytes(*version) == 1;
        ours.then_some(Self { way, resident })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(flags: u8) -> Option<Hardware> {
        let mut bytes = [0; Hardware::SIZE];
        bytes[..12].copy_from_slice(&[b'W', b'T', b'U', b'M', 1, 0, 0, 0, flags, 0, 0, 0]);
        Hardware::read(&bytes)
    }

    #[test]
    fn flags_say_how_to_work() {
        let read = |flags| told(flags).map(|it| (it.way, it.resident));
        assert_eq!(read(0), Some((Way::Named, false)));
        assert_eq!(read(4), Some((Way::Named, true)));
        assert_eq!(read(6), Some((Way::Addressed, true)));
        assert_eq!(read(5), Some((Way::Listed, false)));
        assert_eq!(read(13), Some((Way::Listed, true)));
        assert_eq!(Hardware::read(&[0; Hardware::SIZE]), None);
    }
}
