//! Converts events to text and back.
//!
//! A trace is a header line, then one line per event, in order. It contains only the events, so the
//! same run has the same text, byte for byte: two runs are compared line by line, and a trace that
//! was read back is equivalent to its run.

mod compare;
mod read;

pub use compare::{Difference, compare};
pub use read::{BadLine, read};

use crate::Event;
use std::io;

/// The first line of a trace: its type and format version.
pub const HEADER: &str = "windtunnel-trace 2";

/// The first line of a trace of version 1, whose events had other names.
const OLD_HEADER: &str = "windtunnel-trace 1";

/// Number of bytes that are written together.
const BUFFER_SIZE: usize = 1 << 14;

/// Writes a trace.
pub fn write<'a>(
    events: impl IntoIterator<Item = &'a Event>,
    to: &mut impl io::Write,
) -> io::Result<()> {
    writeln!(to, "{HEADER}")?;
    let mut lines = Vec::new();
    for event in events {
        event.write(&mut lines);
        lines.push(b'\n');
        if lines.len() > BUFFER_SIZE {
            to.write_all(&lines)?;
            lines.clear();
        }
    }
    to.write_all(&lines)
}

/// A trace as text.
pub fn text(events: &[Event]) -> String {
    let lines = events.iter().map(|event| format!("{event}\n"));
    std::iter::once(format!("{HEADER}\n")).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_written_as_its_text() {
        let event: Event = "1 t1 - node:0 fence.reported fence=4".parse().unwrap();
        let mut written = Vec::new();
        write([&event], &mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), text(&[event]));
    }

    #[test]
    fn a_trace_starts_with_what_it_is() {
        assert_eq!(text(&[]), "windtunnel-trace 2\n");
    }
}
