//! The one table from statuses to the class driver's words, and back.

use abi::NTSTATUS;
use abi::status::{
    STATUS_DEVICE_NOT_READY, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER,
    STATUS_NO_MATCH, STATUS_NO_MEMORY, STATUS_NOT_IMPLEMENTED, STATUS_NOT_SUPPORTED,
    STATUS_PENDING, STATUS_RESOURCE_IN_USE, STATUS_SUCCESS, STATUS_UNSUCCESSFUL,
};
use stream::{Answer, Refusal};

/// What a driver answered.
///
/// WINDOWS: every status that is not an error counts as success (documented, `NT_SUCCESS`), but
/// pending says that there is no answer yet.
pub(crate) fn answer(status: NTSTATUS) -> Answer<()> {
    Err(match status {
        STATUS_PENDING => Refusal::Pending,
        _ if abi::nt_success(status) => return Ok(()),
        STATUS_INVALID_PARAMETER => Refusal::Invalid,
        STATUS_NO_MEMORY | STATUS_INSUFFICIENT_RESOURCES => Refusal::NoMemory,
        STATUS_DEVICE_NOT_READY => Refusal::NotReady,
        STATUS_NO_MATCH => Refusal::NoMatch,
        STATUS_NOT_SUPPORTED | STATUS_NOT_IMPLEMENTED => Refusal::Unsupported,
        STATUS_RESOURCE_IN_USE => Refusal::Busy,
        other => Refusal::Other(other.cast_unsigned()),
    })
}

/// What a driver is answered.
pub(crate) fn status(answer: Answer<()>) -> NTSTATUS {
    match answer {
        Ok(()) => STATUS_SUCCESS,
        Err(Refusal::NoMemory) => STATUS_INSUFFICIENT_RESOURCES,
        Err(Refusal::NotReady) => STATUS_DEVICE_NOT_READY,
        Err(Refusal::NoMatch) => STATUS_NO_MATCH,
        Err(Refusal::Pending) => STATUS_PENDING,
        Err(Refusal::Unsupported | Refusal::Absent) => STATUS_NOT_SUPPORTED,
        Err(Refusal::Busy) => STATUS_RESOURCE_IN_USE,
        Err(Refusal::Deadlock | Refusal::Crashed) => STATUS_UNSUCCESSFUL,
        Err(Refusal::Invalid) => STATUS_INVALID_PARAMETER,
        Err(Refusal::Other(number)) => number.cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_answered_is_understood_again() {
        let all = [
            Refusal::Invalid,
            Refusal::NoMemory,
            Refusal::NotReady,
            Refusal::NoMatch,
            Refusal::Pending,
            Refusal::Unsupported,
            Refusal::Busy,
            Refusal::Other(0xC000_0001),
        ];
        assert!(all.iter().all(|it| answer(status(Err(*it))) == Err(*it)));
        assert_eq!((answer(STATUS_SUCCESS), answer(0x102)), (Ok(()), Ok(())));
    }
}
