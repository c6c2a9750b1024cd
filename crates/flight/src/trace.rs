//! Converts events to text and back.
//!
//! A trace is a header line, then one line per event, in order. It contains only the events, so the
//! same run has the same text, byte for byte: two runs are compared line by line, and a trace that
//! was read back is equivalent to its run.

mod compare;
mod read;

pub use compare::{Difference, compare};
pub use read::{BadLine, read};

use crate::{Event, LineBuffer};
use std::io;

/// The first line of a trace: its type and format version.
pub const HEADER: &str = "windtunnel-trace 2";

/// The first line of a trace of version 1, whose events had other names.
const OLD_HEADER: &str = "windtunnel-trace 1";

/// Writes a trace, event by event.
#[derive(Debug)]
pub struct Writer<W> {
    lines: Box<LineBuffer>,
    to: W,
}

impl<W: io::Write> Writer<W> {
    /// Writes the header.
    pub fn new(mut to: W) -> io::Result<Self> {
        writeln!(to, "{HEADER}")?;
        Ok(Self { lines: Box::default(), to })
    }

    /// Writes events, some time before the end of the next [`Writer::flush`].
    pub fn write(&mut self, mut events: &[Event]) -> io::Result<()> {
        while !events.is_empty() {
            events = self.lines.push_all(events);
            if self.lines.is_full() {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes the events that are not written yet.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.write_all(self.lines.text())?;
        self.lines.clear();
        Ok(())
    }

    /// What the trace is written to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.to
    }
}

/// A trace as text.
pub fn text(mut events: &[Event]) -> String {
    let mut lines: Box<LineBuffer> = Box::default();
    let mut text = format!("{HEADER}\n");
    while !events.is_empty() {
        events = lines.push_all(events);
        text += &String::from_utf8_lossy(lines.text());
        lines.clear();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_written_as_its_text() {
        let event: Event = "1 t1 - node:0 fence.reported fence=4".parse().unwrap();
        let events = vec![event; 1000];
        let mut writer = Writer::new(Vec::new()).unwrap();
        let (first, rest) = events.split_at(1);
        writer.write(first).unwrap();
        writer.write(rest).unwrap();
        writer.flush().unwrap();
        assert_eq!(std::str::from_utf8(writer.get_mut()), Ok(&*text(&events)));
    }

    #[test]
    fn a_trace_starts_with_what_it_is() {
        assert_eq!(text(&[]), "windtunnel-trace 2\n");
    }
}
