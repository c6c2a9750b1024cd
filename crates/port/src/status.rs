//! The one table between statuses and errors.

use abi::NTSTATUS;
use abi::status::{
    STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_GRAPHICS_DRIVER_MISMATCH,
    STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER, STATUS_ILLEGAL_INSTRUCTION, STATUS_INVALID_HANDLE,
    STATUS_INVALID_PARAMETER, STATUS_INVALID_USER_BUFFER, STATUS_NO_MEMORY, STATUS_NOT_IMPLEMENTED,
    STATUS_NOT_SUPPORTED, STATUS_PRIVILEGED_INSTRUCTION, STATUS_SUCCESS,
};
use flight::Text;
use kernel::miniport::{DriverError, DriverResult};

/// The statuses that have an error of their own.
const ERRORS: [(NTSTATUS, DriverError); 11] = [
    (STATUS_INVALID_PARAMETER, DriverError::Invalid),
    (STATUS_NO_MEMORY, DriverError::NoMemory),
    (STATUS_GRAPHICS_DRIVER_MISMATCH, DriverError::Mismatch),
    (STATUS_GRAPHICS_ALLOCATION_BUSY, DriverError::Busy),
    (STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER, DriverError::NoRoom),
    (STATUS_INVALID_HANDLE, DriverError::NoHandle),
    (STATUS_NOT_SUPPORTED, DriverError::Unsupported),
    (STATUS_NOT_IMPLEMENTED, DriverError::Unimplemented),
    (STATUS_PRIVILEGED_INSTRUCTION, DriverError::Privileged),
    (STATUS_ILLEGAL_INSTRUCTION, DriverError::Illegal),
    (STATUS_INVALID_USER_BUFFER, DriverError::UserMemory),
];

/// Converts a driver's status. Only `STATUS_SUCCESS` is success: any other code that is not a
/// failure carries information, and is passed on.
pub fn result_from_status(status: NTSTATUS) -> DriverResult<()> {
    if status == STATUS_SUCCESS {
        return Ok(());
    }
    let error = ERRORS.iter().find(|(known, _)| *known == status);
    Err(error.map_or(DriverError::Other(status.cast_unsigned()), |(_, error)| *error))
}

/// The status that a driver returned, under its Windows name if it is known.
pub fn status_name(error: DriverError) -> Text {
    let known = ERRORS.iter().find(|(_, known)| *known == error).map(|(status, _)| *status);
    let status = match error {
        DriverError::Other(status) => Some(status.cast_signed()),
        _ => known,
    };
    status.and_then(abi::status::name).map_or_else(|| error.name(), Text::from)
}

/// Converts a result to the status of a callback.
///
/// WINDOWS: the statuses of a failed callback are not documented. Any bad argument is an invalid
/// parameter (D-55).
pub(crate) fn status_from_result(answer: DriverResult<()>) -> NTSTATUS {
    match answer {
        Ok(()) => STATUS_SUCCESS,
        Err(DriverError::NoMemory) => STATUS_NO_MEMORY,
        Err(DriverError::Busy) => STATUS_GRAPHICS_ALLOCATION_BUSY,
        Err(DriverError::Unsupported) => STATUS_NOT_SUPPORTED,
        Err(_) => STATUS_INVALID_PARAMETER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::status::STATUS_PENDING;

    #[test]
    fn only_success_is_success() {
        assert_eq!(result_from_status(STATUS_SUCCESS), Ok(()));
        assert_eq!(result_from_status(STATUS_PENDING), Err(DriverError::Other(0x103)));
        assert_eq!(result_from_status(STATUS_GRAPHICS_DRIVER_MISMATCH), Err(DriverError::Mismatch));
        assert_eq!(result_from_status(STATUS_GRAPHICS_ALLOCATION_BUSY), Err(DriverError::Busy));
        assert_eq!(result_from_status(STATUS_INVALID_HANDLE), Err(DriverError::NoHandle));
        let full = result_from_status(STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
        assert_eq!(full, Err(DriverError::NoRoom));
        assert_eq!(result_from_status(-1), Err(DriverError::Other(u32::MAX)));
    }

    #[test]
    fn a_status_has_its_windows_name() {
        for (status, name) in [
            (STATUS_INVALID_PARAMETER, "STATUS_INVALID_PARAMETER"),
            (abi::status::STATUS_DEVICE_NOT_READY, "STATUS_DEVICE_NOT_READY"),
            (-1, "0xffffffff"),
        ] {
            let error = result_from_status(status).unwrap_err();
            assert_eq!(status_name(error), name);
        }
        assert_eq!(status_name(DriverError::Crashed), "crashed");
    }

    #[test]
    fn a_refused_callback_fails() {
        assert_eq!(status_from_result(Ok(())), STATUS_SUCCESS);
        for reason in [DriverError::NoMemory, DriverError::Busy, DriverError::Unsupported] {
            assert_eq!(result_from_status(status_from_result(Err(reason))), Err(reason));
        }
        assert_eq!(status_from_result(Err(DriverError::NoHandle)), STATUS_INVALID_PARAMETER);
    }
}
