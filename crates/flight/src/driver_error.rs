//! Errors of driver calls.

use crate::Text;
use std::fmt;

/// What a driver returns.
pub type DriverResult<T> = Result<T, DriverError>;

/// Why a driver call failed. Also what callbacks return to a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverError {
    /// The driver has no entry point for this.
    NoEntryPoint,
    /// An argument is wrong.
    Invalid,
    /// There is not enough memory.
    NoMemory,
    /// The private data belongs to another version of the driver.
    Mismatch,
    /// Something that the call needs is in use.
    Busy,
    /// The buffer is full: the driver goes on with the next one.
    NoRoom,
    /// A handle that the driver looked up does not exist.
    NoHandle,
    /// The driver does not support this.
    Unsupported,
    /// The driver does not implement this for the given object.
    Unimplemented,
    /// The client may not do this.
    Privileged,
    /// The driver does not know a command.
    Illegal,
    /// The client's memory is not mapped, or not as it should be.
    UserMemory,
    /// The driver does not drive this adapter (`DxgkDdiAddDevice` without a context).
    Declined,
    /// There is no data, or the frame was cancelled (`STATUS_DEVICE_NOT_READY`).
    NotReady,
    /// The data range does not match; the next one may (`STATUS_NO_MATCH`).
    NoMatch,
    /// The operation is not complete yet (`STATUS_PENDING`).
    Pending,
    /// A wait would never end.
    Deadlock,
    /// The driver panicked.
    Crashed,
    /// A status that a kernel only passes on.
    Other(u32),
}

impl DriverError {
    /// Its name in events.
    pub fn name(self) -> Text {
        match self {
            DriverError::NoEntryPoint => "absent".into(),
            DriverError::Invalid => "invalid".into(),
            DriverError::NoMemory => "no-memory".into(),
            DriverError::Mismatch => "mismatch".into(),
            DriverError::Busy => "busy".into(),
            DriverError::NoRoom => "no-room".into(),
            DriverError::NoHandle => "no-handle".into(),
            DriverError::Unsupported => "unsupported".into(),
            DriverError::Unimplemented => "not-implemented".into(),
            DriverError::Privileged => "privileged".into(),
            DriverError::Illegal => "illegal".into(),
            DriverError::UserMemory => "user-memory".into(),
            DriverError::Declined => "declined".into(),
            DriverError::NotReady => "not-ready".into(),
            DriverError::NoMatch => "no-match".into(),
            DriverError::Pending => "pending".into(),
            DriverError::Deadlock => "deadlock".into(),
            DriverError::Crashed => "crashed".into(),
            DriverError::Other(status) => format!("{status:#010x}").into(),
        }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DriverError::NoEntryPoint => "the driver has no entry point for this",
            DriverError::Invalid => "an argument is wrong",
            DriverError::NoMemory => "there is not enough memory",
            DriverError::Mismatch => "the private data belongs to another version of the driver",
            DriverError::Busy => "something that the call needs is in use",
            DriverError::NoRoom => "the buffer is full",
            DriverError::NoHandle => "a handle that the driver looked up does not exist",
            DriverError::Unsupported => "the driver does not support this",
            DriverError::Unimplemented => "the driver does not implement this for the object",
            DriverError::Privileged => "the client may not do this",
            DriverError::Illegal => "the driver does not know a command",
            DriverError::UserMemory => "the client's memory is not mapped as it should be",
            DriverError::Declined => "the driver does not drive this adapter",
            DriverError::NotReady => "there is no data, or the frame was cancelled",
            DriverError::NoMatch => "the data range does not match",
            DriverError::Pending => "the operation is not complete yet",
            DriverError::Deadlock => "the wait would never end",
            DriverError::Crashed => "the driver panicked",
            DriverError::Other(status) => return write!(f, "the driver returned {status:#010x}"),
        })
    }
}

impl std::error::Error for DriverError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_is_only_passed_on_keeps_its_number() {
        let other = DriverError::Other(0x103);
        assert_eq!(other.name(), "0x00000103");
        assert_eq!(other.to_string(), "the driver returned 0x00000103");
        assert_eq!(DriverError::Unimplemented.name(), "not-implemented");
    }
}
