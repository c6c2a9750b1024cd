//! Internal errors: a broken invariant of Windtunnel itself, distinct from every driver error.
//!
//! An internal error is a panic with the payload [`InternalError`]. Code that catches panics of
//! drivers passes this payload on ([`resume_internal_error`]), so that it reaches the host of the
//! flight: the flight ends as "could not run" (exit status 2), with the invariant and the last
//! events, and without a finding against the driver.

use crate::FlightOver;
use std::any::Any;
use std::fmt;
use std::panic::{Location, resume_unwind};

/// A broken invariant of Windtunnel itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalError {
    invariant: String,
    /// `None` for a panic, whose place its hook has printed.
    location: Option<&'static Location<'static>>,
}

impl InternalError {
    /// The invariant that does not hold.
    pub fn invariant(&self) -> &str {
        &self.invariant
    }

    /// The internal error of a panic that no driver has caused.
    pub fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = || panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = || text().or_else(|| panic.downcast_ref::<String>().cloned());
        let unknown =
            || Self { invariant: message().unwrap_or_else(|| "panic".to_owned()), location: None };
        panic.downcast_ref().cloned().unwrap_or_else(unknown)
    }
}

impl fmt::Display for InternalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.location {
            Some(place) => {
                write!(f, "internal error at {place}: broken invariant: {}", self.invariant)
            }
            None => write!(f, "internal error: {}", self.invariant),
        }
    }
}

impl std::error::Error for InternalError {}

/// Ends the flight because `invariant` does not hold.
///
/// No panic hook runs: the host of the flight reports the error, with the last events.
#[cold]
#[track_caller]
pub fn internal_error(invariant: impl Into<String>) -> ! {
    resume_unwind(Box::new(InternalError {
        invariant: invariant.into(),
        location: Some(Location::caller()),
    }))
}

/// Returns the value. `None` is an internal error; `invariant` states why it cannot happen.
#[inline]
#[track_caller]
pub fn invariant<T>(value: Option<T>, invariant: &str) -> T {
    match value {
        Some(value) => value,
        None => internal_error(invariant),
    }
}

/// The machine has no memory or no threads left: neither a driver nor Windtunnel is to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoResources(pub String);

/// How the text of [`NoResources`] begins.
pub(crate) const NO_RESOURCES: &str = "the machine has no resources left: ";

/// Ends the flight because the machine has no memory or no threads left; `why` says which.
///
/// No panic hook runs: it would need memory.
#[cold]
pub fn no_resources(why: impl fmt::Display) -> ! {
    resume_unwind(Box::new(NoResources(format!("{NO_RESOURCES}{why}"))))
}

/// Passes on an internal error, a machine without resources and the end of a flight, and returns any
/// other panic: that one belongs to the driver.
pub fn resume_internal_error(panic: Box<dyn Any + Send>) -> Box<dyn Any + Send> {
    if panic.is::<InternalError>() || panic.is::<NoResources>() || panic.is::<FlightOver>() {
        resume_unwind(panic)
    } else {
        panic
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn an_internal_error_passes_through_and_a_drivers_panic_does_not() {
        let ours = catch_unwind(|| invariant(None::<u8>, "a device has a process")).unwrap_err();
        let text = ours.downcast_ref::<InternalError>().unwrap().to_string();
        assert!(text.contains("internal.rs") && text.ends_with("a device has a process"), "{text}");
        assert!(catch_unwind(AssertUnwindSafe(|| resume_internal_error(ours))).is_err());
        let drivers = catch_unwind(|| panic!("a driver's")).unwrap_err();
        assert!(!resume_internal_error(drivers).is::<InternalError>());
        let machines = catch_unwind(|| no_resources("no threads")).unwrap_err();
        assert!(catch_unwind(AssertUnwindSafe(|| resume_internal_error(machines))).is_err());
    }
}
