//! The hardware information from the miniport.
#![forbid(unsafe_code)]

use abi::hresult::E_FAIL;
use softgpu::format::{HARDWARE_INFO_SIZE, HardwareInfo, read_hardware_info};
use umd::{AdapterCallbacks, UmdResult};

/// How to use the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hardware {
    /// How packets name the allocations they use.
    pub(super) addressing: Addressing,
    /// Whether allocations must be resident before submission.
    pub(super) resident: bool,
}

/// How packets name the allocations they use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addressing {
    /// By handle, with an allocation list.
    Listed,
    /// By virtual address.
    VirtualAddresses,
    /// By handle, without an allocation list.
    Named,
}

impl Hardware {
    /// Queries the miniport.
    pub(super) fn ask(callbacks: &AdapterCallbacks) -> UmdResult<Self> {
        let mut info = [0; HARDWARE_INFO_SIZE];
        callbacks.query_adapter_info(&mut info)?;
        read_hardware_info(&info).map(Self::of).map_err(|_| E_FAIL)
    }

    /// Whether the miniport is WDDM 1.x: the runtime waits and renames.
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
