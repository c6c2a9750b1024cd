//! The page on `AVStream` minidrivers: its driver flies clean, and its quotes are real.
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use flight::{DeterministicHost, EventKind, Log};
use harness::command::text;
use harness::pages::{blocks, compare, read};
use minidriver::{BYTES, Camera, gray};
use std::sync::Arc;
use stream::{
    DeviceDescriptor, DriverSetup, Entry, ExtendedFraming, FramingForm, FramingItem, Minidriver,
    PinDescriptor, PinState, SizeRange, Stream, StreamError, SystemMemory,
};
use windtunnel::{HostKind, SCENARIOS, StreamFlight};

#[path = "../tutorial/minidriver.rs"]
mod minidriver;

#[test]
fn my_minidriver_shows_its_pictures() {
    let flown = StreamFlight::new(Arc::new(Camera::default()), gray()).fly(|testbed| {
        let device = testbed.add_device()?;
        let graph = testbed.open(device)?; // its first filter, and its first pin
        testbed.set_state(graph.pin, PinState::Run)?;
        testbed.receive_frames(graph.pin, 5)?;
        testbed.close(graph)?;
        testbed.remove_device(device)
    });
    flown.assert_clean();
    for (number, picture) in (0..).zip(&flown.frames) {
        assert_eq!(picture.bytes, [number; BYTES as usize]);
    }
}

#[test]
fn my_minidriver_flies_clean() {
    let all = SCENARIOS.iter().copied().flatten().filter(|scenario| scenario.streams());
    for scenario in all.filter(|scenario| scenario.breaks.is_empty()) {
        for on in [HostKind::deterministic(1), HostKind::under_pressure(2), HostKind::Threaded] {
            let flight = StreamFlight::new(Arc::new(Camera::default()), gray());
            let flown = flight.host(on).fly_scenario(scenario);
            if !NOT_FLOWN.contains(&scenario.name) {
                flown.assert_clean();
            }
            assert_eq!(flown.findings, [], "{}", scenario.name);
        }
    }
}

/// The scenarios that need more than one pin, one size and memory of its own.
const NOT_FLOWN: [&str; 4] =
    ["ks-two-pins", "ks-set-larger-format", "ks-end-of-stream", "ks-video-memory"];

#[test]
fn code_in_the_page_is_code_of_these_files() {
    let files = ["tests/command/streams.rs", "tests/tutorial/minidriver.rs"].map(read);
    let blocks = blocks(&read("docs/avstream.md"), "rust");
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        assert!(files.iter().any(|text| text.contains(&block)), "no file has:\n{block}");
    }
}

/// The good driver with another descriptor of its pin.
struct Shaped(Camera, fn(&mut PinDescriptor));

impl Minidriver for Shaped {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn describe(&self) -> DeviceDescriptor {
        let mut all = self.0.describe();
        (self.1)(&mut all.filters[0].pins[0]);
        all
    }
}

/// Changes the one framing item, or adds another.
fn item(pin: &mut PinDescriptor, change: impl FnOnce(&mut Vec<FramingItem>)) {
    if let Some(FramingForm::Extended(it)) = &mut pin.framing {
        let mut items = it.items.clone();
        change(&mut items);
        *it = ExtendedFraming::new(items);
    }
}

/// Makes a descriptor invalid.
type Spoil = fn(&mut PinDescriptor);

/// The errors of an invalid descriptor.
const IMPOSSIBLE: [(&str, Spoil); 7] = [
    ("an allocator without its end", |pin_descriptor| {
        pin_descriptor.allocator = Some(Entry::ALLOCATOR[..3].to_vec());
    }),
    ("an item that can allocate, no allocator", |pin_descriptor| pin_descriptor.allocator = None),
    ("a range that ends before it begins", |pin_descriptor| {
        item(pin_descriptor, |items| items[0].framing = SizeRange { min: BYTES + 1, max: BYTES });
    }),
    ("an impossible alignment", |pin_descriptor| {
        item(pin_descriptor, |items| items[0].alignment = 6);
    }),
    ("no items", |pin_descriptor| item(pin_descriptor, Vec::clear)),
    ("zero frames", |pin_descriptor| item(pin_descriptor, |items| items[0].frames = 0)),
    ("overlapping ranges", |pin_descriptor| item(pin_descriptor, |items| items.push(items[0]))),
];

#[test]
fn bad_descriptors_are_answered_as_the_page_says() {
    let page = read("docs/avstream.md");
    let mut table = String::new();
    for (what, change) in IMPOSSIBLE {
        let log = Arc::new(Log::new());
        let added = DeterministicHost::fly(1, &log, |host, at| {
            let minidriver = Arc::new(Shaped(Camera::default(), change));
            let setup = DriverSetup { minidriver, memory: Arc::new(SystemMemory::default()) };
            Stream::new(host.clone(), log.clone()).add_device(at, setup).err()
        });
        let Some(why @ StreamError::Descriptor(_)) = added.unwrap() else {
            panic!("{what}: added")
        };
        let events = log.take();
        let called = events.iter().any(|event| matches!(event.kind, EventKind::KsCall { .. }));
        assert!(!called, "{what}: its driver was called");
        let rule = events.iter().find_map(|event| match &event.kind {
            EventKind::RuleBroken { rule, .. } => Some(format!(" ({})", rule.name())),
            _ => None,
        });
        let row = format!("| {what} | {why}{} |\n", rule.unwrap_or_default());
        table.push_str(&row);
    }
    assert!(page.contains(&table), "the page has another table than\n{table}");
}

/// A line of a trace without its numbers, because earlier events change them.
fn key(line: &str) -> Vec<&str> {
    let about = |text: &&str| ["name=", "from=", "to="].iter().any(|key| text.starts_with(key));
    let words: Vec<&str> = line.split(' ').collect();
    let subject = words.get(3).map(|it| if it.starts_with("call:") { "call" } else { it });
    let fields = words.iter().skip(5).copied().filter(about);
    subject.into_iter().chain(words.get(4).copied()).chain(fields).collect()
}

/// The page's trace lines are lines of the golden trace, in order; its quotes of reports are
/// current.
#[test]
fn the_pages_quotes_are_real() {
    let page = read("docs/avstream.md");
    let golden = read("tests/golden/ks-state-transitions.trace");
    let (mut events, mut now, mut quoted) = (golden.lines(), page.clone(), 0);
    for block in blocks(&page, "trace ks-state-transitions") {
        let mut real = String::new();
        for line in block.lines() {
            let event = events.find(|text| key(text) == key(line));
            let event =
                event.unwrap_or_else(|| panic!("not in the trace, or not in order: {line}"));
            real.push_str(event);
            real.push('\n');
            quoted += 1;
        }
        now = now.replace(&block, &real);
    }
    assert!(quoted > 25, "{quoted} lines");
    let reports = blocks(&page, "text");
    // From the first finding, and from the line of a scenario that ended early.
    let quotes =
        [("ks-leaks-allocator-context", "  error"), ("ks-omits-delete-allocator", "  ended")];
    for ((driver, start), block) in quotes.iter().zip(&reports) {
        let (_, output) = text(&["check", driver, "--scenario", "ks-state-transitions"]);
        let finding = output.lines().skip_while(|line| !line.starts_with(start));
        let found: String =
            finding.take(block.lines().count()).flat_map(|text| [text, "\n"]).collect();
        now = now.replace(block, &found);
    }
    compare("docs/avstream.md", &now);
}
