//! The one table from statuses to words.

use abi::NTSTATUS;
use abi::status::{
    STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_GRAPHICS_DRIVER_MISMATCH,
    STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER, STATUS_ILLEGAL_INSTRUCTION, STATUS_INVALID_HANDLE,
    STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_NOT_IMPLEMENTED, STATUS_NOT_SUPPORTED,
    STATUS_PRIVILEGED_INSTRUCTION, STATUS_SUCCESS,
};
use kernel::miniport::{Answer, Refusal};

/// What a driver answered. Only success itself is success: another code that does not fail
/// says something, and is passed on.
pub fn answer(status: NTSTATUS) -> Answer<()> {
    Err(match status {
        STATUS_SUCCESS => return Ok(()),
        STATUS_INVALID_PARAMETER => Refusal::Invalid,
        STATUS_NO_MEMORY => Refusal::NoMemory,
        STATUS_GRAPHICS_DRIVER_MISMATCH => Refusal::Mismatch,
        STATUS_GRAPHICS_ALLOCATION_BUSY => Refusal::Busy,
        STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER => Refusal::NoRoom,
        STATUS_INVALID_HANDLE => Refusal::NoHandle,
        STATUS_NOT_SUPPORTED => Refusal::Unsupported,
        STATUS_NOT_IMPLEMENTED => Refusal::Unimplemented,
        STATUS_PRIVILEGED_INSTRUCTION => Refusal::Privileged,
        STATUS_ILLEGAL_INSTRUCTION => Refusal::Illegal,
        other => Refusal::Other(other.cast_unsigned()),
    })
}

/// What a driver is answered when it asks.
///
/// WINDOWS: which statuses a refused callback has is not documented. Whatever is wrong with an
/// argument is an invalid parameter (D-55).
pub(crate) fn status(answer: Answer<()>) -> NTSTATUS {
    match answer {
        Ok(()) => STATUS_SUCCESS,
        Err(Refusal::NoMemory) => STATUS_NO_MEMORY,
        Err(Refusal::Busy) => STATUS_GRAPHICS_ALLOCATION_BUSY,
        Err(Refusal::Unsupported) => STATUS_NOT_SUPPORTED,
        Err(_) => STATUS_INVALID_PARAMETER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::status::STATUS_PENDING;

    #[test]
    fn only_success_is_success() {
        assert_eq!(answer(STATUS_SUCCESS), Ok(()));
        assert_eq!(answer(STATUS_PENDING), Err(Refusal::Other(0x103)));
        assert_eq!(answer(STATUS_GRAPHICS_DRIVER_MISMATCH), Err(Refusal::Mismatch));
        assert_eq!(answer(STATUS_GRAPHICS_ALLOCATION_BUSY), Err(Refusal::Busy));
        assert_eq!(answer(STATUS_INVALID_HANDLE), Err(Refusal::NoHandle));
        let full = answer(STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
        assert_eq!(full, Err(Refusal::NoRoom));
        assert_eq!(answer(-1), Err(Refusal::Other(u32::MAX)));
    }

    #[test]
    fn a_refused_callback_fails() {
        assert_eq!(status(Ok(())), STATUS_SUCCESS);
        for why in [Refusal::NoMemory, Refusal::Busy, Refusal::Unsupported] {
            assert_eq!(answer(status(Err(why))), Err(why));
        }
        assert_eq!(status(Err(Refusal::NoHandle)), STATUS_INVALID_PARAMETER);
    }
}
