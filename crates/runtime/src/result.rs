//! Converts kernel statuses to user-mode results.

use abi::hresult::{
    D3DDDIERR_DEVICEREMOVED, D3DDDIERR_WASSTILLDRAWING, E_FAIL, E_INVALIDARG, E_NOTIMPL,
    E_OUTOFMEMORY, E_PENDING, S_OK,
};
use abi::status::{
    STATUS_DEVICE_REMOVED, STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_INSUFFICIENT_RESOURCES,
    STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_NOT_IMPLEMENTED,
    STATUS_NOT_SUPPORTED, STATUS_PENDING, STATUS_SUCCESS,
};
use abi::{HRESULT, NTSTATUS};

/// The bit that marks a result as an `NTSTATUS`.
const FROM_NT: u32 = 0x1000_0000;

/// Converts a status to a result.
///
/// WINDOWS: the pages of the callbacks list the first ones (documented); the mapping is our
/// reading. Any other status keeps its number, with `FACILITY_NT_BIT` set.
pub fn hresult_from_status(status: NTSTATUS) -> HRESULT {
    match status {
        STATUS_SUCCESS => S_OK,
        STATUS_PENDING => E_PENDING,
        STATUS_INVALID_PARAMETER | STATUS_INVALID_HANDLE => E_INVALIDARG,
        STATUS_NO_MEMORY | STATUS_INSUFFICIENT_RESOURCES => E_OUTOFMEMORY,
        STATUS_DEVICE_REMOVED => D3DDDIERR_DEVICEREMOVED,
        STATUS_GRAPHICS_ALLOCATION_BUSY => D3DDDIERR_WASSTILLDRAWING,
        STATUS_NOT_SUPPORTED | STATUS_NOT_IMPLEMENTED => E_NOTIMPL,
        _ if status >= 0 => S_OK,
        _ => (status.cast_unsigned() | FROM_NT).cast_signed(),
    }
}

/// The name of a result, for messages.
pub(crate) fn hresult_name(result: HRESULT) -> String {
    abi::hresult::name(result)
        .map_or_else(|| format!("{:#010x}", result.cast_unsigned()), Into::into)
}

/// The result of a driver function that is missing or that crashed.
pub(crate) const DRIVER_CRASHED: HRESULT = E_FAIL;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_the_results_that_drivers_know() {
        assert_eq!(hresult_from_status(STATUS_INVALID_PARAMETER), E_INVALIDARG);
        assert_eq!(hresult_from_status(0x0000_0102), S_OK, "an informational status");
        let other = hresult_from_status(abi::status::STATUS_ACCESS_DENIED);
        assert_eq!(other.cast_unsigned(), 0xD000_0022);
        assert_eq!(
            (hresult_name(E_FAIL).as_str(), hresult_name(other).as_str()),
            ("E_FAIL", "0xd0000022")
        );
    }
}
