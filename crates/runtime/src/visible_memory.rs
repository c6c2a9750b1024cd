//! What the runtime shows to a driver now, and copies for whoever asks by its address.
//!
//! A driver in safe Rust sees the runtime's memory through this, and so does the application what
//! such a driver has locked: nothing that is done with an address can touch what is not shown,
//! because it is too far, or too late.

use crate::call_stack;
use crate::device::DeviceState;

/// Copies bytes out that the driver sees which this thread is in, for the device that it is in
/// there for. Whether it sees all of them now.
pub fn read_visible(address: usize, bytes: &mut [u8]) -> bool {
    call_stack::current_device().is_some_and(|state| state.read_visible(address, bytes))
}

/// Copies bytes in, if the driver sees all of them now which this thread is in.
pub fn write_visible(address: usize, bytes: &[u8]) -> bool {
    call_stack::current_device().is_some_and(|state| state.write_visible(address, bytes))
}

/// The same, of what a device's driver sees, for whoever has the device's handle.
pub(crate) fn read_for_device(device: usize, address: usize, bytes: &mut [u8]) -> bool {
    call_stack::device(device).is_some_and(|state| state.read_visible(address, bytes))
}

/// The same.
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
