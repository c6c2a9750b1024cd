//! Results of calls, in both directions.

use abi::HRESULT;
use abi::hresult::{S_OK, succeeded};

/// An `HRESULT` that is a failure.
pub type Failure = HRESULT;

/// The result of a driver's function or of a callback.
pub type UmdResult<T> = Result<T, Failure>;

/// Converts the runtime's `HRESULT` to a result.
pub(crate) fn to_result(to_hresult: HRESULT) -> UmdResult<()> {
    if succeeded(to_hresult) { Ok(()) } else { Err(to_hresult) }
}

/// Converts the driver's result to an `HRESULT`.
pub(crate) fn to_hresult(answer: UmdResult<()>) -> HRESULT {
    answer.map_or_else(|failure| failure, |()| S_OK)
}
