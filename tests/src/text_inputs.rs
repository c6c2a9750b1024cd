//! Text of anybody's: what is read is written as the same, and whoever reads it does not break.

use crate::verified;
use windtunnel::steps;

/// Reads bytes as a trace and as steps. A trace that is one comes back the same and is judged, for
/// a trace may be anybody's; steps that are some come back the same. Answers whether it was either.
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
    if let Ok(told) = &steps {
        assert_eq!(steps::read(&steps::write(told)).as_ref(), Ok(told), "{text}");
    }
    trace.is_ok() || steps.is_ok()
}
