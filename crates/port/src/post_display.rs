//! Ownership of the display that the firmware, or the driver before, has left on
//! (`DxgkCbAcquirePostDisplayOwnership`).
//!
//! An adapter has one such display: a black frame buffer in the machine's memory. Nothing scans it
//! out.
#![expect(unsafe_code, reason = "a driver calls these, with its own pointers")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::callback_entry::{door_from_handle, write};
use crate::interface::row;
use abi::miniport::DXGK_DISPLAY_INFORMATION;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::ukm::{D3DDDI_ID_UNINITIALIZED, D3DDDIFMT_A8R8G8B8};
use abi::{HANDLE, NTSTATUS};
use flight::Run;

/// The mode of the display.
const WIDTH: u32 = 1024;
const HEIGHT: u32 = 768;
const PITCH: u32 = WIDTH * 4;

/// The size of the frame buffer in bytes.
pub(crate) const FRAME_BUFFER: u64 = PITCH as u64 * HEIGHT as u64;

/// Returns the mode of the display and the physical address of its frame buffer.
///
/// WINDOWS: success with a width of zero says that there is no display (documented): so does a
/// machine without memory here. After a boot the target is not known, and the ACPI id is zero
/// (documented).
///
/// # Safety
///
/// `display` is null or valid for the write of a structure.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbAcquirePostDisplayOwnership(
    handle: HANDLE,
    display: *mut DXGK_DISPLAY_INFORMATION,
) -> NTSTATUS {
    let row = row::DxgkCbAcquirePostDisplayOwnership;
    row.answer(
        || door_from_handle(handle, row.name),
        STATUS_INVALID_PARAMETER,
        |door, _| {
            if display.is_null() {
                return STATUS_INVALID_PARAMETER;
            }
            let buffer = door.hardware().post_frame_buffer();
            // SAFETY: The caller guarantees the same.
            unsafe { write(display, information(buffer)) };
            STATUS_SUCCESS
        },
    )
}

/// The display with this frame buffer.
fn information(buffer: Option<Run>) -> DXGK_DISPLAY_INFORMATION {
    let none = DXGK_DISPLAY_INFORMATION {
        TargetId: D3DDDI_ID_UNINITIALIZED,
        ..DXGK_DISPLAY_INFORMATION::ZERO
    };
    buffer.map_or(none, |run| DXGK_DISPLAY_INFORMATION {
        Width: WIDTH,
        Height: HEIGHT,
        Pitch: PITCH,
        ColorFormat: D3DDDIFMT_A8R8G8B8,
        PhysicAddress: run.start.cast_signed(),
        ..none
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_frame_buffer_the_width_is_zero() {
        assert_eq!(information(None).Width, 0);
        let one = information(Some(Run { start: 0x4000_0000, bytes: FRAME_BUFFER }));
        assert_eq!((one.Width, one.Height, one.Pitch), (1024, 768, 4096));
        assert_eq!((one.PhysicAddress, one.ColorFormat), (0x4000_0000, 21));
        assert_eq!((one.TargetId, one.AcpiId), (u32::MAX, 0));
    }
}
