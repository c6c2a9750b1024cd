//! Streaming minidrivers: their frames are right, every flaw is found, and a flight that is
//! interrupted at any call leaks nothing.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use drivers::stream::{Capture, VideoMemory, pattern};
use drivers::{ListedStream, STREAMS, find_stream};
use flight::{Component, Event, EventKind, Irql, Log, Passive, RuleId, Spawner, WaitToken};
use harness::{flown, verified};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use stream::{
    DeviceId, DriverError, DriverSetup, Entry, FilterId, FrameMemory, FramingRequest, Graph,
    MemoryKind, Minidriver, PinId, PinState, Stream, StreamOwner, SystemMemory,
};
use windtunnel::{FlightResult, HostKind, Outcome, SCENARIOS, Scenario};

/// The first device, if it is live; otherwise an id that no device has.
fn first_device(stream: &Stream) -> DeviceId {
    stream.find_device(1).unwrap_or(DeviceId::NULL)
}

/// As above, for the first filter.
fn first_filter(stream: &Stream) -> FilterId {
    stream.find_filter(1).unwrap_or(FilterId::NULL)
}

/// As above, for the first pin.
fn first_pin(stream: &Stream) -> PinId {
    stream.find_pin(1).unwrap_or(PinId::NULL)
}

fn good() -> impl Iterator<Item = &'static ListedStream> {
    STREAMS.iter().copied().flatten().filter(|listed_stream| listed_stream.breaks.is_empty())
}

fn bad() -> impl Iterator<Item = &'static ListedStream> {
    STREAMS.iter().copied().flatten().filter(|listed_stream| !listed_stream.breaks.is_empty())
}

fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS
        .iter()
        .copied()
        .flatten()
        .filter(|scenario| scenario.streams() && scenario.breaks.is_empty())
}

/// No findings and no leaks. Device memory frames are flown only with drivers that support them.
fn assert_clean(flown: &FlightResult, what: &str) {
    let device_memory = flown.scenario == "ks-video-memory"
        && flown
            .needs
            .iter()
            .all(|text| text.contains("the other side") && text.contains("device"));
    let fine = flown.outcome == Outcome::Clean || device_memory && flown.findings.is_empty();
    assert!(fine, "{what}: {}", flown.report());
    assert_eq!(flown.live.count(), 0, "{what}: {}", flown.live);
    order(&flown.events).unwrap_or_else(|why| panic!("{what}: {why}"));
}

#[test]
fn good_minidrivers_fly_clean_in_many_orders() {
    for driver in good() {
        let seeds = if driver.name == "capture" { 40 } else { 8 };
        for scenario in scenarios() {
            for on in
                (0..seeds).map(HostKind::deterministic).chain((0..4).map(HostKind::under_pressure))
            {
                let flown = flown(driver.name, scenario.name, on);
                assert_clean(&flown, &format!("{}, {}, {on:?}", driver.name, scenario.name));
            }
        }
    }
}

#[test]
fn good_minidrivers_fly_clean_when_threads_run_side_by_side() {
    for driver in good() {
        for scenario in scenarios() {
            let flown = flown(driver.name, scenario.name, HostKind::Threaded);
            assert_clean(&flown, &format!("{}, {}, free", driver.name, scenario.name));
        }
    }
}

#[test]
fn frames_have_the_right_pattern_and_rising_time_stamps() {
    for seed in 0..40 {
        let flown = flown("capture", "ks-state-transitions", seed);
        assert_eq!(flown.frames.len(), 5);
        for (number, it) in (0..).zip(&flown.frames) {
            assert_eq!(it.bytes, pattern::picture(number), "seed {seed}, picture {number}");
            assert_eq!(it.header.time, (number + 1) * pattern::INTERVAL);
            assert_eq!(it.header.discontinuity, number == 0);
        }
    }
}

#[test]
fn a_bad_minidriver_is_reported_by_its_rule_first() {
    let mut wrong = Vec::new();
    for driver in bad() {
        let all = scenarios().flat_map(|scenario| {
            let flown = flown(driver.name, scenario.name, 1);
            flown.findings.into_iter().map(move |found| (scenario.name, found))
        });
        let all: Vec<_> = all.collect();
        if all.first().map(|pair| pair.1.rule) != driver.breaks.first().copied() {
            wrong.push(format!("{} is first named by {:?}", driver.name, all.first()));
        }
        for (scenario, it) in all {
            if !driver.breaks.contains(&it.rule) || it.component != Component::Driver {
                let (rule, component) = (it.rule.name(), it.component.name());
                wrong.push(format!(
                    "{}, {scenario}: {rule}, {component}: {}",
                    driver.name, it.message
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_bad_minidriver_is_reported_when_threads_run_side_by_side() {
    for driver in bad() {
        let named = scenarios().any(|scenario| {
            let flown = flown(driver.name, scenario.name, HostKind::Threaded);
            flown.findings.iter().any(|finding| driver.breaks.contains(&finding.rule))
        });
        assert!(named, "{} is not named", driver.name);
    }
}

#[test]
fn frames_are_captured_at_both_levels_under_pressure() {
    let (mut levels, mut named) = (BTreeMap::<String, BTreeSet<Irql>>::new(), BTreeSet::new());
    for seed in 0..6 {
        let flown = flown("table-capture", "ks-state-transitions", HostKind::under_pressure(seed));
        for it in &flown.events {
            if let EventKind::KsCall { name, level, .. } = &it.kind {
                levels.entry(name.to_string()).or_default().insert(*level);
            }
        }
        let waits = harness::flown(
            "ks-waits-in-allocate-frame",
            "ks-state-transitions",
            HostKind::under_pressure(seed),
        );
        named.extend(waits.findings.iter().map(|finding| finding.rule));
    }
    let (low, both) = ([Irql::Passive], [Irql::Passive, Irql::Dispatch]);
    for (entry, wanted) in [
        ("AVStrMiniInitializeAllocator", &low[..]),
        ("AVStrMiniAllocate", &both),
        ("AVStrMiniAllocatorFreeFrame", &both),
        ("AVStrMiniDeleteAllocator", &low),
    ] {
        assert!(levels[entry].iter().eq(wanted), "{entry}: {:?}", levels[entry]);
    }
    assert!(named.into_iter().eq([RuleId::KS_ALLOC_007, RuleId::WT_LEVEL_001]), "it waits there");
}

#[test]
fn a_bad_client_is_reported() {
    let flown = flown("capture", "ks-close-filter-before-pin", 1);
    let found: Vec<_> =
        flown.findings.iter().map(|finding| (finding.rule, finding.component)).collect();
    assert_eq!(found, [(RuleId::KS_PIN_013, Component::Client)]);
}

#[test]
fn frames_in_video_memory_are_allocations_and_go_with_their_allocator() {
    for seed in 0..20 {
        let flown = flown("capture", "ks-video-memory", seed);
        assert_eq!(flown.outcome, Outcome::Clean, "{}", flown.report());
        let count =
            |name: &str| flown.events.iter().filter(|event| event.kind.name() == name).count();
        assert_eq!((count("allocation.created"), count("allocation.destroyed")), (3, 3));
        assert_eq!((count("frame.created"), count("frame.freed")), (3, 3));
        let destroys = flown.events.iter().filter(
            |event| matches!(&event.kind, EventKind::Enter { call } if call == "D3DKMTDestroyAllocation2"),
        );
        assert_eq!(destroys.count(), 3, "each by itself");
        assert_eq!(flown.live.count(), 0, "{}", flown.live);
        for (number, it) in (0..).zip(&flown.frames) {
            assert_eq!(it.bytes, pattern::picture(number));
        }
    }
}

/// The properties of every flight: an allocator is initialised once and first, and deleted once if
/// and only if that succeeded, with no frame in use, and is not used afterwards.
fn order(events: &[Event]) -> Result<(), String> {
    #[derive(Default)]
    struct Life {
        ready: bool,
        out: i32,
        deletes: u32,
    }
    let mut lives: BTreeMap<u32, Life> = BTreeMap::new();
    let mut calls: BTreeMap<u32, (String, u32)> = BTreeMap::new();
    for event in events {
        match &event.kind {
            EventKind::KsCall { name, about, .. } => {
                calls.insert(event.subject.number, (name.to_string(), about.number));
                let known = lives.contains_key(&about.number);
                match (&**name, lives.get_mut(&about.number)) {
                    ("AVStrMiniInitializeAllocator", _) => {
                        if known {
                            return Err(format!("initialised twice: {event}"));
                        }
                        lives.insert(about.number, Life::default());
                    }
                    ("AVStrMiniAllocate" | "AVStrMiniAllocatorFreeFrame", Some(it))
                        if !it.ready || it.deletes > 0 =>
                    {
                        return Err(format!("not ready, or deleted: {event}"));
                    }
                    ("AVStrMiniDeleteAllocator", Some(it)) => {
                        if !it.ready || it.deletes > 0 || it.out != 0 {
                            return Err(format!("deleted with {} frames out: {event}", it.out));
                        }
                        it.deletes += 1;
                    }
                    _ => (),
                }
            }
            EventKind::KsReturn { result: answer, .. } => {
                let Some((name, of)) = calls.remove(&event.subject.number) else { continue };
                match (name.as_str(), &**answer, lives.get_mut(&of)) {
                    ("AVStrMiniInitializeAllocator", "ok", Some(it)) => it.ready = true,
                    ("AVStrMiniAllocate", "ok", Some(it)) => it.out += 1,
                    ("AVStrMiniAllocatorFreeFrame", _, Some(it)) => it.out -= 1,
                    _ => (),
                }
            }
            _ => (),
        }
    }
    match lives.iter().find(|(_, it)| it.deletes != u32::from(it.ready)) {
        None => Ok(()),
        Some((number, it)) => {
            let (ready, deletes) = (it.ready, it.deletes);
            Err(format!("allocator {number}: ready is {ready}, deleted {deletes} times"))
        }
    }
}

/// The interrupted flight: results do not matter, leaks do.
fn capture(
    stream: &Arc<StreamOwner>,
    at: &mut Passive,
    setup: DriverSetup,
    framing_request: &FramingRequest,
) {
    let Ok(device) = stream.add_device(at, setup) else { return };
    let format = pattern::format(0);
    if let Ok(graph) = Graph::open(stream, at, device, &format, framing_request) {
        let _ = graph.run(at, 4);
        stream.validate().unwrap();
        let _ = graph.stop(at);
        let _ = graph.close(at);
    }
    let _ = stream.remove_device(at, device);
    // A device whose driver fails its removal is surprise-removed.
    let _ = stream.surprise_remove_device(at, device);
}

/// A driver with an observer at the beginning of each call.
struct Heard {
    driver: Arc<dyn Minidriver>,
    hear: Box<dyn Fn() + Send + Sync>,
}

impl Minidriver for Heard {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        (self.hear)();
        Some(&*self.driver)
    }
}

/// Wakes the other thread.
type Ring = Box<dyn Fn() + Send + Sync>;

/// What interrupts a flight.
type Interruption = fn(&Stream, &mut Passive);

/// Flies the steps while another thread waits for its wake-up and then interrupts.
fn capture_interrupted(
    (host, at, log): (&Arc<dyn Spawner>, &mut Passive, &Arc<Log>),
    set_up: impl FnOnce(Ring) -> DriverSetup,
    framing_request: &FramingRequest,
    interrupt: Interruption,
) {
    let stream = Stream::new(host.clone(), log.clone());
    stream.start_workers(host);
    let work_available = WaitToken::new("a call of the driver");
    let (ringer, ring) = (host.clone(), work_available.clone());
    let setup = set_up(Box::new(move || ringer.wake(&ring)));
    let memory = setup.memory.clone();
    let (waits, other, theirs) = (work_available.clone(), stream.clone(), host.clone());
    let ended = host.spawn("interrupter", move |at| {
        theirs.park(at, &waits, None);
        interrupt(&other, at);
    });
    capture(&stream, at, setup, framing_request);
    host.wake(&work_available); // If the call never came.
    host.park(at, &ended, None);
    let _ = stream.surprise_remove_device(at, first_device(&stream));
    let live_objects = stream.live_objects();
    assert_eq!(live_objects.count(), 0, "{live_objects}");
    assert_eq!(memory.allocation_count(), 0, "memory is left");
    memory.close();
    stream.validate().unwrap();
}

/// As above, with frames in system memory.
fn run_interrupted(
    seed: u64,
    set_up: impl FnOnce(&Arc<Log>, Ring) -> DriverSetup,
    interrupt: Interruption,
) -> Vec<Event> {
    let log = Arc::new(Log::new());
    let flight = |host: &_, at: &mut _| {
        capture_interrupted(
            (host, at, &log),
            |ring| set_up(&log, ring),
            &FramingRequest::default(),
            interrupt,
        );
    };
    HostKind::deterministic(seed).fly(&log, flight).unwrap();
    log.take()
}

/// As above, with frames that are allocations in video memory.
fn run_interrupted_in_video_memory(
    seed: u64,
    set_up: impl FnOnce(Ring) -> DriverSetup,
    interrupt: Interruption,
) -> Vec<Event> {
    let log = OnceCell::new();
    let make = |it: &Arc<Log>| {
        log.get_or_init(|| it.clone());
        (drivers::find("softgpu-memory").unwrap().make)(it)
    };
    harness::run(seed, make, |testbed, at| {
        let system: Arc<dyn FrameMemory> = Arc::new(SystemMemory::default());
        let video = VideoMemory::open(&testbed.kernel, at, &system).unwrap();
        let framing_request =
            FramingRequest { kind: MemoryKind::Device, ..FramingRequest::default() };
        let memory: Arc<dyn FrameMemory> = video.clone();
        let set_up = |ring: Ring| DriverSetup { memory, ..set_up(ring) };
        capture_interrupted(
            (&testbed.host, at, log.get().unwrap()),
            set_up,
            &framing_request,
            interrupt,
        );
        assert_eq!(video.frames(), 0);
        video.close(at).unwrap();
    })
}

/// A driver of the registry that wakes the other thread at its `nth` call.
fn ringing(driver: &DriverSetup, ring: Ring, nth: u32, count: &Arc<AtomicU32>) -> DriverSetup {
    let counts = count.clone();
    let hear = Box::new(move || {
        if counts.fetch_add(1, Ordering::Relaxed) + 1 == nth {
            ring();
        }
    });
    let minidriver = Arc::new(Heard { driver: driver.minidriver.clone(), hear });
    DriverSetup { minidriver, ..driver.clone() }
}

/// Checks all properties, and that there are no unexpected findings.
fn assert_quiet(events: &[Event], but: &[RuleId], what: &str) {
    order(events).unwrap_or_else(|why| panic!("{what}: {why}"));
    let verifier = verified(events);
    windtunnel::keep_tally(verifier.rule_counts());
    let loud = verifier.findings().iter().find(|finding| !but.contains(&finding.rule));
    assert_eq!(loud, None, "{what}");
}

/// At every call of the driver, for a few seeds.
fn at_every_call(seeds: u64, mut fly: impl FnMut(u64, u32, &Arc<AtomicU32>)) {
    for seed in 0..seeds {
        let mut calls = 0;
        for n in 1..400 {
            let count = Arc::new(AtomicU32::new(0));
            fly(seed, n, &count);
            if count.load(Ordering::Relaxed) < n {
                calls = n;
                break;
            }
        }
        assert!((20..400).contains(&calls), "seed {seed}: {calls} calls");
    }
}

const INTERRUPTIONS: [(&str, Interruption); 5] = [
    ("stop", |stream, at| {
        let _ = stream.set_state(at, first_pin(stream), PinState::Stop);
    }),
    ("close", |stream, at| {
        let _ = stream.close_pin(at, first_pin(stream));
        let _ = stream.close_filter(at, first_filter(stream));
    }),
    ("pull", |stream, at| {
        let _ = stream.surprise_remove_device(at, first_device(stream));
    }),
    ("stop the device", |stream, at| {
        let _ = stream.stop_device(at, first_device(stream));
    }),
    ("remove", |stream, at| {
        let _ = stream.remove_device(at, first_device(stream));
    }),
];

#[test]
fn stop_close_and_removal_at_every_call_leave_nothing() {
    let flown = [
        ("capture", 3),
        ("capture-default-allocator", 1),
        ("table-capture", 2),
        ("table-capture-default-allocator", 1),
    ];
    let all = flown.into_iter().flat_map(|pair| INTERRUPTIONS.map(|interrupt| (pair, interrupt)));
    for ((name, seeds), (end, interrupt)) in all {
        let driver = find_stream(name).unwrap();
        at_every_call(seeds, |seed, n, count| {
            let set_up =
                |log: &_, ring: Ring| ringing(&driver.set_up(log).unwrap(), ring, n, count);
            let events = run_interrupted(seed, set_up, interrupt);
            // A filter may be closed before the other client has closed its pin.
            let but = [RuleId::KS_PIN_013];
            assert_quiet(&events, &but, &format!("{name}, {end}, seed {seed}, call {n}"));
        });
    }
}

#[test]
fn stop_close_and_removal_leave_no_frames_in_video_memory() {
    for (end, interrupt) in INTERRUPTIONS {
        at_every_call(1, |seed, n, count| {
            let driver = find_stream("capture").unwrap().set_up(&Arc::new(Log::silent())).unwrap();
            let set_up = |ring: Ring| ringing(&driver, ring, n, count);
            let events = run_interrupted_in_video_memory(seed, set_up, interrupt);
            let but = [RuleId::KS_PIN_013];
            assert_quiet(&events, &but, &format!("video memory, {end}, seed {seed}, call {n}"));
        });
    }
}

#[test]
fn a_failure_at_every_call_is_undone() {
    at_every_call(3, |seed, n, count| {
        let counts = count.clone();
        let refuses = move |entry: Entry| {
            // Notifications cannot fail.
            let notifications = [Entry::DeleteAllocator, Entry::PointerCancelled];
            let here =
                counts.fetch_add(1, Ordering::Relaxed) + 1 == n && !notifications.contains(&entry);
            if here { Err(DriverError::NoMemory) } else { Ok(()) }
        };
        let memory = Arc::new(SystemMemory::default());
        let setup = DriverSetup { minidriver: Arc::new(Capture::watched(refuses)), memory };
        let events = run_interrupted(seed, |_, _| setup, |_, _| ());
        // A driver that fails to process has to restart processing itself.
        assert_quiet(&events, &[RuleId::KS_PROC_002], &format!("seed {seed}, call {n}"));
    });
}

#[test]
fn memory_that_ends_after_every_piece_leaves_nothing() {
    for driver in good() {
        for (seed, pieces) in (0..3).flat_map(|seed| (0..14).map(move |pieces| (seed, pieces))) {
            let set_up = |log: &_, _| {
                let setup = driver.set_up(log).unwrap();
                setup.memory.limit_allocations(Some(pieces));
                setup
            };
            let events = run_interrupted(seed, set_up, |_, _| ());
            assert_quiet(&events, &[], &format!("{}, seed {seed}, {pieces} pieces", driver.name));
        }
    }
}

#[test]
fn frames_are_written_as_images() {
    let directory = std::env::temp_dir().join(format!("windtunnel-frames-{}", std::process::id()));
    let path = directory.to_str().unwrap();
    let arguments = ["check", "capture", "--scenario", "ks-state-transitions", "--frames", path];
    let (code, output) = harness::command::text(&arguments);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains(&format!("5 frames written to {path}")), "{output}");
    let first = fs::read(directory.join("ks-state-transitions-000.png")).unwrap();
    assert_eq!(first[..8], *b"\x89PNG\r\n\x1a\n");
    // Width and height, of the frame of 16 by 12 pixels and of five of them on the sheet.
    let size =
        |image: &[u8]| [16, 20].map(|at| u32::from_be_bytes(image[at..at + 4].try_into().unwrap()));
    assert_eq!(size(&first), [256, 192]);
    assert!(output.contains("and together to contact-sheet.png"), "{output}");
    let sheet = fs::read(directory.join("contact-sheet.png")).unwrap();
    assert_eq!(size(&sheet), [5 * (64 + 4) + 4, 48 + 2 * 4]);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 5 + 1);
    fs::remove_dir_all(&directory).unwrap();
}
