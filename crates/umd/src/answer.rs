//! What calls answer, in both directions.

use abi::HRESULT;
use abi::hresult::{S_OK, succeeded};

/// A result that is a failure (`HRESULT`).
pub type Failure = HRESULT;

/// What a driver answers, and what it is answered.
pub type Answer<T> = Result<T, Failure>;

/// A result of the runtime's, as an answer.
pub(crate) fn answered(result: HRESULT) -> Answer<()> {
    if succeeded(result) { Ok(()) } else { Err(result) }
}

/// An answer of the driver's, as a result.
pub(crate) fn result(answer: Answer<()>) -> HRESULT {
    answer.map_or_else(|failure| failure, |()| S_OK)
}
