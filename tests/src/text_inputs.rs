//! Arbitrary text: parsing never panics, and parsed text is written back unchanged.

use crate::verified;
use windtunnel::steps;

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
