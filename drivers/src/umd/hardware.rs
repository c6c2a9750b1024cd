//! What the miniport says of its hardware, as far as that matters here.
#![forbid(unsafe_code)]

use abi::hresult::E_FAIL;
use softgpu::format::{HARDWARE_INFO_SIZE, HardwareInfo, read_hardware_info};
use umd::{AdapterCallbacks, UmdResult};

/// How to work with the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hardware {
    /// How its packets name what they use.
    pub(super) addressing: Addressing,
    /// Whether what they use is to be resident before.
    pub(super) resident: bool,
}

/// How packets name what they use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addressing {
    /// By handle, and all of it is listed.
    Listed,
    /// By virtual address.
    VirtualAddresses,
    /// By handle, without a list.
    Named,
}

impl Hardware {
    /// Asks the miniport.
    pub(super) fn ask(callbacks: &AdapterCallbacks) -> UmdResult<Self> {
        let mut told = [0; HARDWARE_INFO_SIZE];
        callbacks.query_adapter_info(&mut told)?;
        read_hardware_info(&told).map(Self::of).map_err(|_| E_FAIL)
    }

    /// Whether it is of WDDM 1.x: the runtime waits for it, and renames.
    pub(super) fn is_wddm1(self) -> bool {
        self.addressing == Addressing::Listed && !self.resident
    }

    fn of(info: HardwareInfo) -> Self {
        let addressing = match info {
            HardwareInfo { lists: true, .. } => Addressing::Listed,
            HardwareInfo { addresses: true, .. } => Addressing::VirtualAddresses,
            _ => Addressing::Named,
        };
        Self { addressing, resident: info.resident }
    }
}
