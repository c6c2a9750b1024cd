//! Arbitrary text: parsing never panics, and parsed text is written back unchanged.

use crate::verified;
use windtunnel::{AllowList, steps};

/// Parses bytes as a trace and as steps. A valid trace is written back unchanged and judged,
/// because a trace may come from anywhere; valid steps are written back unchanged. Returns whether
/// the text was either.
pub fn read_as_trace_and_steps(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let trace = flight::trace::read(&text);
    if let Ok(events) = &trace {
        assert_eq!(
            flight::trace::read(&flight::trace::text(events)).as_ref(),
            Ok(events),
            "{text}"
        );
        verified(events);
    }
    let steps = steps::read(&text);
    if let Ok(parsed) = &steps {
        assert_eq!(steps::read(&steps::write(parsed)).as_ref(), Ok(parsed), "{text}");
    }
    trace.is_ok() || steps.is_ok()
}

/// Parses bytes as an allow file. Returns whether it was one.
pub fn read_as_allow_file(bytes: &[u8]) -> bool {
    let read = AllowList::read(&String::from_utf8_lossy(bytes));
    if let Err(error) = &read {
        assert!(error.line >= 1 && !error.reason.is_empty(), "{error:?}");
    }
    read.is_ok()
}
