//! What the miniport says of its hardware.
#![forbid(unsafe_code)]

use softgpu::format::{HARDWARE_INFO_SIZE, HardwareInfo};

/// What a miniport of the built-in GPU tells its user-mode half, as far as that matters here.
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
    pub(super) const SIZE: usize = HARDWARE_INFO_SIZE;

    /// What was told decides how to work.
    pub(super) fn of(told: HardwareInfo) -> Self {
        let way = match told {
            _ if told.lists => Way::Listed,
            _ if told.addresses => Way::Addressed,
            _ => Way::Named,
        };
        Self { way, resident: told.resides }
    }
}
