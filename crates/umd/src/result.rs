//! What calls answer, in both directions.

use abi::HRESULT;
use abi::hresult::{S_OK, succeeded};

/// A result that is a failure (`HRESULT`).
pub type Failure = HRESULT;

/// What a driver answers, and what it is answered.
pub type UmdResult<T> = Result<T, Failure>;

/// A result of the runtime's, as an answer.
pub(crate) fn to_result(to_hresult: HRESULT) -> UmdResult<()> {
    if succeeded(to_hresult) { Ok(()) } else { Err(to_hresult) }
}

/// An answer of the driver's, as a result.
pub(crate) fn to_hresult(answer: UmdResult<()>) -> HRESULT {
    answer.map_or_else(|failure| failure, |()| S_OK)
}
