//! Power management (`PoCallDriver`, …) under its Windows names.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::import_table::import_rows;
use crate::io_irp::IofCallDriver;
use abi::{NTSTATUS, PDEVICE_OBJECT, PIRP};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

import_rows! {
    PoCallDriver;
    PoSetPowerState;
    PoStartNextPowerIrp;
}

/// `PowerDeviceD0`, the state of a device that was not set.
const D0: u32 = 1;

/// The states that drivers have set, by device and type of state.
static STATES: Mutex<BTreeMap<(usize, u32), u32>> = Mutex::new(BTreeMap::new());

/// Sends a power request to the next lower driver. WINDOWS: from Windows Vista on, as
/// `IofCallDriver`.
pub unsafe extern "win64-unwind" fn PoCallDriver(target: PDEVICE_OBJECT, packet: PIRP) -> NTSTATUS {
    // SAFETY: The caller's contract.
    unsafe { IofCallDriver(target, packet) }
}

/// Tells that the driver is ready for the next power request. WINDOWS: from Windows Vista on,
/// without effect.
pub unsafe extern "win64-unwind" fn PoStartNextPowerIrp(_packet: PIRP) {}

/// Records the power state of a device; returns the previous one.
pub unsafe extern "win64-unwind" fn PoSetPowerState(
    device: PDEVICE_OBJECT,
    kind: u32,
    state: u32,
) -> u32 {
    let mut states = STATES.lock().unwrap_or_else(PoisonError::into_inner);
    states.insert((device.addr(), kind), state).unwrap_or(D0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{call, fly_with};
    use crate::{DriverObject, Executive};
    use std::ptr::{null_mut, without_provenance_mut};

    #[test]
    fn a_power_request_goes_down_the_stack() {
        let executive = Executive::new("planted");
        let _object = DriverObject::new(&executive);
        fly_with(&executive, || {
            let device = executive.physical_device();
            let (event, mut result) = (null_mut(), [7_u64; 2]);
            let (none, iosb) = (null_mut(), result.as_mut_ptr().cast());
            let packet = call!(
                crate::io_irp::IoBuildSynchronousFsdRequest,
                0x16,
                device,
                none,
                0,
                std::ptr::null(),
                event,
                iosb
            );
            call!(PoStartNextPowerIrp, packet);
            assert_eq!((call!(PoCallDriver, device, packet), result), (0, [0, 0]));
        });
    }

    #[test]
    fn a_power_state_is_returned_by_the_next_call() {
        let device: PDEVICE_OBJECT = without_provenance_mut(0x7770);
        let set = |state| call!(PoSetPowerState, device, 1, state);
        assert_eq!((set(4), set(1), set(2)), (1, 4, 1));
        assert_eq!(call!(PoSetPowerState, device, 0, 1), 1, "of another type");
    }
}
