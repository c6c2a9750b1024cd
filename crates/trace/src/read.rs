//! Reading a trace: what is not one is refused, with the line and what was expected there.

use crate::HEADER;
use flight::Event;
use std::fmt;

/// A line that does not belong in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Which line, the first being 1.
    pub line: usize,
    /// What it says.
    pub text: String,
    /// What should stand there.
    pub expected: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadLine { line, text, expected } = self;
        write!(f, "line {line} of the trace is {text:?}, but {expected} was expected")
    }
}

impl std::error::Error for BadLine {}

/// Reads a trace: the header, then events whose numbers rise.
pub fn read(text: &str) -> Result<Vec<Event>, BadLine> {
    let mut lines = (1..).zip(text.lines());
    let bad = |line, text: &str, expected: &str| BadLine {
        line,
        text: text.into(),
        expected: expected.into(),
    };
    let (_, header) = lines.next().unwrap_or((1, ""));
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
    use crate::text;
    use flight::{Fence, Hex, Irql, Kind, RuleId, Subject, Text, What, Who};

    fn said(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_a_trace_is_refused() {
        let header =
            r#"line 1 of the trace is "", but the header "windtunnel-trace 1" was expected"#;
        assert_eq!(said(""), header);
        assert!(said("windtunnel-trace 2\n").contains("the header"));
        let event = "1 t1 - process:1 process.opened";
        assert!(said(&format!("{HEADER}\n{event}\nnonsense\n")).starts_with("line 3"));
        assert!(said(&format!("{HEADER}\n\n{event}\n")).starts_with("line 2"));
    }

    #[test]
    fn numbers_rise() {
        let event = "7 t1 - process:1 process.opened";
        assert_eq!(
            said(&format!("{HEADER}\n{event}\n{event}\n")),
            format!("line 3 of the trace is {event:?}, but a number above 7 was expected")
        );
        let gap = format!("{HEADER}\n{event}\n{}\n", event.replace('7', "9"));
        assert_eq!(read(&gap).unwrap().len(), 2, "gaps are allowed");
    }

    /// Random values for events.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self) -> u32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            u32::try_from(self.0 >> 33).unwrap()
        }

        fn below(&mut self, limit: usize) -> usize {
            self.roll() as usize % limit
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
                Kind::Word,
            ];
            KINDS[self.below(KINDS.len())].nr(self.roll())
        }

        fn text(&mut self) -> Text {
            const PIECES: [&str; 14] = [
                "a", "Z9", " ", "=", "\"", "\\", "\n", "\r", "\t", "\u{1}", "é", "日", "-",
                "\u{7f}",
            ];
            let length = self.below(6);
            (0..length).map(|_| PIECES[self.below(PIECES.len())]).collect::<String>().into()
        }

        fn what(&mut self) -> What {
            let maybe = self.below(2) == 0;
            match self.below(16) {
                0 => What::ThreadStarted { name: self.text() },
                1 => What::Leave { call: self.text(), status: Hex(self.roll() << 1) },
                2 => What::NameGiven { handle: Hex(self.roll()), to: self.subject() },
                3 => What::ProcessOpened {},
                4 => What::AdapterStarted { nodes: self.roll(), generation: 2 },
                5 => What::AllocationCreated {
                    adapter: self.subject(),
                    device: self.subject(),
                    resource: maybe.then(|| self.subject()),
                    size: u64::from(self.roll()) << 32,
                    pitch_size: 0,
                    alignment: u64::MAX,
                    given: Hex(0),
                    seen: Hex(u32::MAX),
                },
                6 => What::RetireAsked {
                    device: self.subject(),
                    views: self.roll(),
                    assume: maybe,
                    sync: !maybe,
                },
                7 => What::PacketSubmitted {
                    packet: u64::from(self.roll()),
                    node: self.subject(),
                    fence: Fence(self.roll()),
                },
                8 => What::WaitStuck { graph: self.text() },
                9 => What::DdiCall {
                    name: self.text(),
                    level: [Irql::Passive, Irql::Dispatch, Irql::Device][self.below(3)],
                    class: self.text(),
                    adapter: self.subject(),
                    process: maybe.then(|| self.subject()),
                },
                10 => What::DdiReturn { name: self.text(), answer: self.text(), legal: maybe },
                11 => What::DdiResource { word: self.subject(), goes: maybe, alone: false },
                12 => What::PoolTaken { bytes: self.roll().into(), tag: self.text() },
                13 => What::PoolDamaged { offset: 3 },
                14 => What::ViewIdle {},
                _ => What::RuleBroken {
                    rule: RuleId::LIVE[self.below(RuleId::LIVE.len())],
                    who: [Who::Client, Who::Driver, Who::Umd, Who::Kernel][self.below(4)],
                    place: self.text(),
                    message: self.text(),
                },
            }
        }

        fn event(&mut self, seq: u64) -> Event {
            let call = (self.below(2) == 0).then(|| self.roll());
            Event { seq, thread: self.roll(), call, subject: self.subject(), what: self.what() }
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut dice = Dice(1);
        let events: Vec<Event> = (1..20_000).map(|seq| dice.event(seq)).collect();
        let text = text(&events);
        let back = read(&text).unwrap();
        assert_eq!(crate::compare(&events, &back), None);
        assert_eq!(crate::text(&back), text);
    }

    #[test]
    fn a_damaged_trace_is_refused_and_never_a_panic() {
        let mut dice = Dice(2);
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
