//! The one table between statuses and the class driver's errors.

use abi::NTSTATUS;
use abi::status::{
    STATUS_DEVICE_NOT_READY, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER,
    STATUS_NO_MATCH, STATUS_NO_MEMORY, STATUS_NOT_IMPLEMENTED, STATUS_NOT_SUPPORTED,
    STATUS_PENDING, STATUS_RESOURCE_IN_USE, STATUS_SUCCESS, STATUS_UNSUCCESSFUL,
};
use stream::{DriverError, DriverResult};

/// Converts a driver's status.
///
/// WINDOWS: every status that is not an error counts as success (documented, `NT_SUCCESS`), but
/// pending means that there is no result yet.
pub(crate) fn result_from_status(status: NTSTATUS) -> DriverResult<()> {
    Err(match status {
        STATUS_PENDING => DriverError::Pending,
        _ if abi::nt_success(status) => return Ok(()),
        STATUS_INVALID_PARAMETER => DriverError::Invalid,
        STATUS_NO_MEMORY | STATUS_INSUFFICIENT_RESOURCES => DriverError::NoMemory,
        STATUS_DEVICE_NOT_READY => DriverError::NotReady,
        STATUS_NO_MATCH => DriverError::NoMatch,
        STATUS_NOT_SUPPORTED | STATUS_NOT_IMPLEMENTED => DriverError::Unsupported,
        STATUS_RESOURCE_IN_USE => DriverError::Busy,
        other => DriverError::Other(other.cast_unsigned()),
    })
}

/// Converts a result to the status of a function.
pub(crate) fn status_from_result(answer: DriverResult<()>) -> NTSTATUS {
    match answer {
        Ok(()) => STATUS_SUCCESS,
        Err(DriverError::NoMemory) => STATUS_INSUFFICIENT_RESOURCES,
        Err(DriverError::NotReady) => STATUS_DEVICE_NOT_READY,
        Err(DriverError::NoMatch) => STATUS_NO_MATCH,
        Err(DriverError::Pending) => STATUS_PENDING,
        Err(DriverError::Unsupported | DriverError::NoEntryPoint) => STATUS_NOT_SUPPORTED,
        Err(DriverError::Busy) => STATUS_RESOURCE_IN_USE,
        Err(
            DriverError::Deadlock
            | DriverError::Crashed
            // Only display miniport drivers return these.
            | DriverError::Mismatch
            | DriverError::NoRoom
            | DriverError::NoHandle
            | DriverError::Unimplemented
            | DriverError::Privileged
            | DriverError::Illegal
            | DriverError::UserMemory
            | DriverError::Declined,
        ) => STATUS_UNSUCCESSFUL,
        Err(DriverError::Invalid) => STATUS_INVALID_PARAMETER,
        Err(DriverError::Other(number)) => number.cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_answered_is_understood_again() {
        let all = [
            DriverError::Invalid,
            DriverError::NoMemory,
            DriverError::NotReady,
            DriverError::NoMatch,
            DriverError::Pending,
            DriverError::Unsupported,
            DriverError::Busy,
            DriverError::Other(0xC000_0001),
        ];
        assert!(
            all.iter()
                .all(|error| result_from_status(status_from_result(Err(*error))) == Err(*error))
        );
        assert_eq!(
            (result_from_status(STATUS_SUCCESS), result_from_status(0x102)),
            (Ok(()), Ok(()))
        );
    }
}
