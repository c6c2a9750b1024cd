//! Reads a trace. Invalid input is rejected with the line and what was expected there.

use super::{HEADER, OLD_HEADER};
use crate::Event;
use std::fmt;

/// An invalid line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The line number, from 1.
    pub line: usize,
    /// The text of the line.
    pub text: String,
    /// What was expected.
    pub expected: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadLine { line, text, expected } = self;
        write!(f, "line {line} of the trace is {text:?}, but {expected} was expected")
    }
}

impl std::error::Error for BadLine {}

/// Reads a trace: the header, then events with rising numbers.
pub fn read(text: &str) -> Result<Vec<Event>, BadLine> {
    let mut lines = (1..).zip(text.lines());
    let bad = |line, text: &str, expected: &str| BadLine {
        line,
        text: text.into(),
        expected: expected.into(),
    };
    let (_, header) = lines.next().unwrap_or((1, ""));
    if header == OLD_HEADER {
        let renamed = "a trace of version 2: events were renamed (see CHANGELOG.md), so record \
                       the flight again";
        return Err(bad(1, header, renamed));
    }
    if header != HEADER {
        return Err(bad(1, header, &format!("the header {HEADER:?}")));
    }
    let mut events: Vec<Event> = Vec::new();
    for (number, line) in lines {
        let event: Event = line.parse().map_err(|()| {
            bad(number, line, "an event (number, thread, call, subject, name, values)")
        })?;
        let last = events.last().map_or(0, |event| event.seq);
        if event.seq <= last {
            return Err(bad(number, line, &format!("a number above {last}")));
        }
        events.push(event);
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::text;
    use crate::{Callers, Component, EventKind, Fence, Hex, Irql, Kind, RuleId, Subject, Text};

    fn error_text(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn a_trace_of_version_1_is_refused_with_the_reason() {
        let error = read("windtunnel-trace 1\n").unwrap_err().to_string();
        assert!(error.contains("events were renamed"), "{error}");
    }

    #[test]
    fn what_is_not_a_trace_is_refused() {
        let header =
            r#"line 1 of the trace is "", but the header "windtunnel-trace 2" was expected"#;
        assert_eq!(error_text(""), header);
        assert!(error_text("windtunnel-trace 3\n").contains("the header"));
        let event = "1 t1 - process:1 process.opened";
        assert!(error_text(&format!("{HEADER}\n{event}\nnonsense\n")).starts_with("line 3"));
        assert!(error_text(&format!("{HEADER}\n\n{event}\n")).starts_with("line 2"));
    }

    #[test]
    fn numbers_rise() {
        let event = "7 t1 - process:1 process.opened";
        assert_eq!(
            error_text(&format!("{HEADER}\n{event}\n{event}\n")),
            format!("line 3 of the trace is {event:?}, but a number above 7 was expected")
        );
        let gap = format!("{HEADER}\n{event}\n{}\n", event.replace('7', "9"));
        assert_eq!(read(&gap).unwrap().len(), 2, "gaps are allowed");
    }

    /// Random values for events.
    struct Rng(u64);

    impl Rng {
        fn next_u32(&mut self) -> u32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            u32::try_from(self.0 >> 33).unwrap()
        }

        fn below(&mut self, limit: usize) -> usize {
            self.next_u32() as usize % limit
        }

        fn subject(&mut self) -> Subject {
            const KINDS: [Kind; 13] = [
                Kind::Run,
                Kind::Process,
                Kind::Adapter,
                Kind::Node,
                Kind::Device,
                Kind::Context,
                Kind::Resource,
                Kind::ResourceView,
                Kind::Allocation,
                Kind::View,
                Kind::Retirement,
                Kind::Call,
                Kind::DriverPointer,
            ];
            KINDS[self.below(KINDS.len())].subject(self.next_u32())
        }

        fn text(&mut self) -> Text {
            const PIECES: [&str; 14] = [
                "a", "Z9", " ", "=", "\"", "\\", "\n", "\r", "\t", "\u{1}", "é", "日", "-",
                "\u{7f}",
            ];
            let length = self.below(6);
            (0..length).map(|_| PIECES[self.below(PIECES.len())]).collect::<String>().into()
        }

        fn what(&mut self) -> EventKind {
            let maybe = self.below(2) == 0;
            match self.below(16) {
                0 => EventKind::ThreadStarted { name: self.text() },
                1 => EventKind::Leave { call: self.text(), status: Hex(self.next_u32() << 1) },
                2 => {
                    EventKind::HandlePublished { handle: Hex(self.next_u32()), of: self.subject() }
                }
                3 => EventKind::ProcessOpened {},
                4 => EventKind::AdapterStarted { nodes: self.next_u32(), generation: 2 },
                5 => EventKind::AllocationCreated {
                    adapter: self.subject(),
                    device: self.subject(),
                    resource: maybe.then(|| self.subject()),
                    size: u64::from(self.next_u32()) << 32,
                    pitch_size: 0,
                    alignment: u64::MAX,
                    client_data: Hex(0),
                    driver_data: Hex(u32::MAX),
                },
                6 => EventKind::RetireRequested {
                    device: self.subject(),
                    views: self.next_u32(),
                    assume_not_in_use: maybe,
                    synchronous: !maybe,
                },
                7 => EventKind::PacketSubmitted {
                    packet: u64::from(self.next_u32()),
                    node: self.subject(),
                    fence: Fence(self.next_u32()),
                },
                8 => EventKind::WaitStuck { component: Component::Client, graph: self.text() },
                9 => EventKind::DdiCall {
                    name: self.text(),
                    level: [Irql::Passive, Irql::Dispatch, Irql::Device][self.below(3)],
                    threading_level: self.text(),
                    adapter: self.subject(),
                    process: maybe.then(|| self.subject()),
                },
                10 => EventKind::DdiReturn { name: self.text(), result: self.text(), legal: maybe },
                11 => EventKind::DdiResource {
                    driver_handle: self.subject(),
                    destroy: maybe,
                    no_allocations: false,
                },
                12 => EventKind::PoolAllocated {
                    bytes: self.next_u32().into(),
                    tag: self.text(),
                    caller: Callers(if maybe { self.text() } else { "".into() }),
                },
                13 => EventKind::PoolCorrupted { offset: 3 },
                14 => EventKind::ViewIdle {},
                _ => EventKind::RuleBroken {
                    rule: RuleId::LIVE[self.below(RuleId::LIVE.len())],
                    component: [
                        Component::Client,
                        Component::Driver,
                        Component::Umd,
                        Component::Kernel,
                    ][self.below(4)],
                    argument: self.text(),
                    message: self.text(),
                },
            }
        }

        fn event(&mut self, seq: u64) -> Event {
            let call = (self.below(2) == 0).then(|| self.next_u32());
            Event { seq, thread: self.next_u32(), call, subject: self.subject(), kind: self.what() }
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut dice = Rng(1);
        let events: Vec<Event> = (1..20_000).map(|seq| dice.event(seq)).collect();
        let text = text(&events);
        let back = read(&text).unwrap();
        assert_eq!(crate::trace::compare(&events, &back), None);
        assert_eq!(crate::trace::text(&back), text);
    }

    #[test]
    fn a_damaged_trace_is_refused_and_never_a_panic() {
        let mut dice = Rng(2);
        let events: Vec<Event> = (1..100).map(|seq| dice.event(seq)).collect();
        let whole = text(&events);
        for _ in 0..5_000 {
            let mut bytes = whole.clone().into_bytes();
            let at = dice.below(bytes.len());
            bytes[at] = u8::try_from(dice.below(128)).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            if let Err(bad) = read(&text) {
                assert!(bad.line <= 101, "{bad}");
            }
        }
    }
}
