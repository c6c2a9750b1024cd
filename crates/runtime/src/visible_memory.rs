//! The memory that the runtime currently maps for a driver, copied by address.
//!
//! A driver in safe Rust accesses the runtime's memory through this module, and so does the
//! application when it accesses memory that the driver has locked. An access outside the mapped
//! range, or after the mapping ended, fails and touches nothing.

use crate::call_stack;
use crate::device::DeviceState;

/// Copies bytes that are mapped for the driver and device that this thread is in. Returns whether
/// all of them are mapped now.
pub fn read_visible(address: usize, bytes: &mut [u8]) -> bool {
    call_stack::current_device().is_some_and(|state| state.read_visible(address, bytes))
}

/// Copies bytes in, if all of them are mapped now for the driver that this thread is in.
pub fn write_visible(address: usize, bytes: &[u8]) -> bool {
    call_stack::current_device().is_some_and(|state| state.write_visible(address, bytes))
}

/// Like [`read_visible`], for the driver of a device, given the device's handle.
pub(crate) fn read_for_device(device: usize, address: usize, bytes: &mut [u8]) -> bool {
    call_stack::device(device).is_some_and(|state| state.read_visible(address, bytes))
}

/// Like [`write_visible`], for the driver of a device, given the device's handle.
pub(crate) fn write_for_device(device: usize, address: usize, bytes: &[u8]) -> bool {
    call_stack::device(device).is_some_and(|state| state.write_visible(address, bytes))
}

impl DeviceState {
    fn read_visible(&self, address: usize, bytes: &mut [u8]) -> bool {
        let own = self
            .ledger()
            .has_system_memory(address, bytes.len())
            .map(|it| bytes.copy_from_slice(it));
        own.is_some() || self.memory().is_some_and(|ram| ram.read_mapped(address, bytes))
    }

    fn write_visible(&self, address: usize, bytes: &[u8]) -> bool {
        let own = self
            .ledger()
            .has_system_memory(address, bytes.len())
            .map(|it| it.copy_from_slice(bytes));
        own.is_some() || self.memory().is_some_and(|ram| ram.write_mapped(address, bytes))
    }
}
