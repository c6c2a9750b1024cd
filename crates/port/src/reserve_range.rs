//! GPU virtual addresses that a driver reserves: `DxgkCbReserveGpuVirtualAddressRange`.
#![expect(unsafe_code, reason = "a driver calls this, with its own pointer")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::callback_entry::{door_from_handle, read, write};
use crate::interface::row;
use crate::status::status_from_result;
use crate::system_handle::HandleKind;
use abi::display::{
    DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE, DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE_FLAGS as Flags,
};
use abi::{HANDLE, NTSTATUS};
use flight::RuleId;
use kernel::miniport::DriverError;
use kernel::mmu::ReserveAddressArgs;

/// Reserves a range of addresses in a process that the driver knows.
///
/// # Safety
///
/// `args` is null or points to a writable structure.
pub(crate) unsafe extern "win64-unwind" fn DxgkCbReserveGpuVirtualAddressRange(
    adapter: HANDLE,
    args: *mut DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE,
) -> NTSTATUS {
    const WRONG: DriverError = DriverError::Invalid;
    // SAFETY: The caller guarantees the same.
    let given = unsafe { read(args) };
    let name = row::DxgkCbReserveGpuVirtualAddressRange.name;
    let door = || door_from_handle(adapter, name);
    let row = row::DxgkCbReserveGpuVirtualAddressRange;
    let kept = row.answer(door, Err(WRONG), |door, at| {
        let Some(args) = given else { return Err(WRONG) };
        let (handle, rule) = (args.hDxgkProcess, RuleId::KMD_PROC_003);
        let place = (name, "hDxgkProcess");
        let reserve_args = ReserveAddressArgs {
            process: door.handle_number(place, handle, HandleKind::Process, rule)?,
            bytes: args.SizeInBytes,
            alignment: args.Alignment.into(),
            base: args.BaseAddress,
            client_visible: args.Flags.has(Flags::AllowUserModeMapping),
        };
        door.services().reserve_range(at, &reserve_args)
    });
    if let (Ok(StartVirtualAddress), Some(given)) = (kept, given) {
        let text = DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE { StartVirtualAddress, ..given };
        // SAFETY: The caller guarantees the same.
        unsafe { write(args, text) };
    }
    status_from_result(kept.map(|_| ()))
}
