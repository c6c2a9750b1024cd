//! The page on AVStream minidrivers: its driver flies clean, and what it quotes is real.

use flight::{Crew, Log, Stepped, What};
use minidriver::{BYTES, Camera, gray};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use stream::{
    DeviceDescriptor, Entry, ExtendedFraming, FramingForm, FramingItem, Graph, Minidriver,
    PinDescriptor, Plugged, Refused, Span, Stream, SystemMemory, Wish,
};
use verify::Verifier;

#[path = "tutorial/minidriver.rs"]
mod minidriver;

#[test]
fn my_minidriver_flies_clean() {
    let log = Arc::new(Log::new());
    let pictures = Stepped::fly(1, &log, |host, at| {
        let crew: Arc<dyn Crew> = host.clone();
        let stream = Stream::new(host.clone(), log.clone());
        stream.attend(&crew); // A thread that processes.
        let (minidriver, memory) = (Arc::new(Camera::default()), Arc::new(SystemMemory::default()));
        let device = stream.add_device(at, Plugged { minidriver, memory }).unwrap();
        let graph = Graph::open(&stream, at, device, &gray(), &Wish::default()).unwrap();
        let pictures = graph.run(at, 5).unwrap();
        graph.stop(at).unwrap();
        graph.close(at).unwrap();
        stream.remove_device(at, device).unwrap();
        assert_eq!(stream.census().count(), 0, "{}", stream.census());
        pictures
    });
    for (number, picture) in pictures.unwrap().iter().enumerate() {
        assert_eq!(picture.bytes, vec![u8::try_from(number).unwrap(); BYTES as usize]);
    }
    let mut verifier = Verifier::new();
    log.take().iter().for_each(|it| verifier.observe(it));
    assert_eq!(verifier.findings(), []);
}

/// The blocks of the page in that language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let begin = format!("\n```{language}\n");
    page.split(&begin).skip(1).filter_map(|it| Some(it.split_once("```")?.0.to_owned())).collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn code_in_the_page_is_code_of_these_files() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let files = ["tests/stream_docs.rs", "tests/tutorial/minidriver.rs"].map(read);
    let blocks = blocks(&read("docs/avstream.md"), "rust");
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        assert!(files.iter().any(|it| it.contains(&block)), "no file has:\n{block}");
    }
}

/// The good driver, with another descriptor of its pin.
struct Shaped(Camera, fn(&mut PinDescriptor));

impl Minidriver for Shaped {
    fn stands_on(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn describe(&self) -> DeviceDescriptor {
        let mut all = self.0.describe();
        (self.1)(&mut all.filters[0].pins[0]);
        all
    }
}

/// Has the one item of its framing changed, or another one beside it.
fn item(pin: &mut PinDescriptor, change: impl FnOnce(&mut Vec<FramingItem>)) {
    if let Some(FramingForm::Extended(it)) = &mut pin.framing {
        let mut items = it.items.clone();
        change(&mut items);
        *it = ExtendedFraming::new(items);
    }
}

/// What a descriptor says that cannot be.
const IMPOSSIBLE: [(&str, fn(&mut PinDescriptor)); 8] = [
    ("an allocator without its end", |it| {
        it.allocator = Some(Entry::ALLOCATOR[..3].to_vec());
    }),
    ("an item that can allocate, no allocator", |it| it.allocator = None),
    ("a range that ends before it begins", |it| {
        item(it, |items| items[0].framing = Span { least: BYTES + 1, most: BYTES });
    }),
    ("an impossible alignment", |it| item(it, |items| items[0].alignment = 6)),
    ("no items", |it| item(it, Vec::clear)),
    ("zero frames", |it| item(it, |items| items[0].frames = 0)),
    ("overlapping ranges", |it| item(it, |items| items.push(items[0]))),
    ("no format", |it| it.formats.clear()),
];

#[test]
fn bad_descriptors_are_answered_as_the_page_says() {
    let page = fs::read_to_string(root().join("docs/avstream.md")).unwrap();
    let mut table = String::new();
    for (what, change) in IMPOSSIBLE {
        let log = Arc::new(Log::new());
        let added = Stepped::fly(1, &log, |host, at| {
            let minidriver = Arc::new(Shaped(Camera::default(), change));
            let plugged = Plugged { minidriver, memory: Arc::new(SystemMemory::default()) };
            Stream::new(host.clone(), log.clone()).add_device(at, plugged).err()
        });
        let Some(why @ Refused::Descriptor(_)) = added.unwrap() else { panic!("{what}: added") };
        let events = log.take();
        let called = events.iter().any(|it| matches!(it.what, What::KsCall { .. }));
        assert!(!called, "{what}: its driver was called");
        let rule = events.iter().find_map(|it| match &it.what {
            What::RuleBroken { rule, .. } => Some(format!(" ({})", rule.name())),
            _ => None,
        });
        table += &format!("| {what} | {why}{} |\n", rule.unwrap_or_default());
    }
    assert!(page.contains(&table), "the page has another table than\n{table}");
}
