//! Every streaming minidriver with tables, flown by the real class driver: good drivers have no
//! findings, and the first finding of each bad driver is its rule.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use drivers::stream::pattern::{BYTES, INTERVAL, format, picture, wrong};
use drivers::stream::{ListedStream, Make, STREAMS, find_stream};
use flight::{
    DeterministicHost, Event, EventKind, Log, Passive, Pool as _, RuleId, Spawner, ThreadedHost,
};
use port::KsDriver;
use std::collections::BTreeSet;
use std::sync::Arc;
use stream::{DeviceId, Format, FramingRequest, Graph, PinState, Stream, StreamOwner};
use verify::{Finding, Severity, Verifier};

fn tables() -> impl Iterator<Item = &'static ListedStream> {
    STREAMS.iter().copied().flatten().filter(|listed_stream| listed_stream.is_table())
}

fn make(table: &ListedStream, log: &Arc<Log>) -> Arc<KsDriver> {
    let Make::Table(make) = table.make else { panic!("{} is no table", table.name) };
    make(log).unwrap()
}

/// The result of a flight.
struct FlightResult {
    events: Vec<Event>,
    findings: Vec<Finding>,
}

impl FlightResult {
    fn rules(&self) -> Vec<RuleId> {
        self.findings.iter().map(|finding| finding.rule).collect()
    }

    fn messages(&self) -> Vec<String> {
        self.findings
            .iter()
            .map(|finding| format!("{}: {}", finding.rule.name(), finding.message))
            .collect()
    }

    fn calls(&self, entry: &str) -> usize {
        let named =
            |event: &&Event| matches!(&event.kind, EventKind::KsCall { name, .. } if name == entry);
        self.events.iter().filter(named).count()
    }
}

/// The driver of a flight.
struct CaptureClient {
    stream: Arc<StreamOwner>,
    driver: Arc<KsDriver>,
}

impl CaptureClient {
    fn add(&self, at: &mut Passive) -> Option<DeviceId> {
        self.stream.add_device(at, self.driver.set_up()).ok()
    }

    fn open(&self, at: &mut Passive, device: DeviceId, format: &Format) -> Option<Graph> {
        Graph::open(&self.stream, at, device, format, &FramingRequest::default()).ok()
    }
}

fn fly(
    table: &ListedStream,
    seed: u64,
    body: impl FnOnce(&CaptureClient, &mut Passive),
) -> FlightResult {
    let log = Arc::new(Log::new());
    let driver = make(table, &log);
    DeterministicHost::fly(seed, &log, |host, at| {
        let stream = Stream::new(host.clone(), log.clone());
        let spawner: Arc<dyn Spawner> = host.clone();
        stream.start_workers(&spawner);
        let client = CaptureClient { stream, driver: driver.clone() };
        body(&client, at);
        let live_objects = client.stream.live_objects();
        assert_eq!(live_objects.count(), 0, "{}: {live_objects}", table.name);
        client.stream.validate().unwrap();
    })
    .unwrap();
    assert_eq!(driver.pool().live_blocks(), 0, "{}: its pool is not empty", table.name);
    assert_eq!(driver.clock_interfaces(), 0, "{}", table.name);
    driver.pool().close();
    let events = log.take();
    let mut verifier = Verifier::new();
    for it in &events {
        verifier.observe(it);
    }
    let findings = verifier.findings().iter().filter(|finding| finding.severity != Severity::Note);
    let findings = findings.cloned().collect();
    FlightResult { events, findings }
}

/// A complete flight, whatever the driver does.
fn capture(client: &CaptureClient, at: &mut Passive) {
    let Some(device) = client.add(at) else { return };
    if let Some(graph) = client.open(at, device, &format(0)) {
        let _ = graph.run(at, 4);
        client.stream.validate().unwrap();
        let _ = client.stream.cancel_frames(at, graph.pin);
        let _ = client.stream.requeue_cancelled_frames(at, graph.pin);
        let _ = graph.run(at, 2);
        let _ = graph.stop(at);
        let _ = client.stream.set_format(at, graph.pin, &format(0));
        let _ = graph.run(at, 2);
        client.stream.validate().unwrap();
        let _ = graph.close(at);
    }
    let _ = client.stream.stop_device(at, device);
    if client.stream.start_device(at, device).is_ok()
        && let Some(graph) = client.open(at, device, &format(3))
    {
        let _ = graph.run(at, 9);
        let _ = client.stream.surprise_remove_device(at, device);
    } else {
        let _ = client.stream.remove_device(at, device);
    }
}

fn check(table: &ListedStream) -> Result<(), String> {
    for seed in 0..12 {
        let flown = fly(table, seed, capture);
        let first: Vec<RuleId> = flown.rules().into_iter().take(1).collect();
        let wanted: Vec<RuleId> = table.breaks.iter().copied().take(1).collect();
        let all: BTreeSet<RuleId> = flown.rules().into_iter().collect();
        let named = table.breaks.iter().all(|rule_id| all.contains(rule_id));
        let hostile = table.name == "table-ks-passes-invalid-pointers";
        if (first != wanted || !named) && !hostile || hostile && all.len() < 4 {
            return Err(format!("{}, seed {seed}: {:#?}", table.name, flown.messages()));
        }
    }
    Ok(())
}

#[test]
fn good_tables_have_no_findings() {
    let good = tables().filter(|listed_stream| listed_stream.breaks.is_empty());
    let wrong: Vec<String> = good.filter_map(|listed_stream| check(listed_stream).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn bad_tables_are_reported() {
    let bad = tables().filter(|listed_stream| !listed_stream.breaks.is_empty());
    let wrong: Vec<String> = bad.filter_map(|listed_stream| check(listed_stream).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn frames_arrive_with_the_right_pattern_and_time_stamps() {
    for name in ["table-capture", "table-capture-default-allocator", "table-capture-driver-entry"] {
        let own = name != "table-capture-default-allocator";
        let flown = fly(find_stream(name).unwrap(), 5, |client, at| {
            let device = client.add(at).unwrap();
            let graph = client.open(at, device, &format(7)).unwrap();
            assert_eq!((graph.framing.frames, graph.framing.bytes), (3, BYTES));
            let pictures = graph.run(at, 99).unwrap();
            assert_eq!(pictures.len(), 7, "it ends with the last one");
            for (number, it) in (0..).zip(&pictures) {
                assert_eq!(it.bytes, picture(number), "{:?}", wrong(&it.bytes));
                let header = it.header;
                assert_eq!((header.duration, header.data_used), (INTERVAL, BYTES));
                assert_eq!(header.time, (number + 1) * INTERVAL, "{name}: {number}");
                assert_eq!(
                    (header.discontinuity, header.end_of_stream),
                    (number == 0, number == 6)
                );
            }
            assert_eq!(client.stream.state(graph.pin).unwrap(), (PinState::Run, PinState::Run));
            graph.stop(at).unwrap();
            graph.close(at).unwrap();
            client.stream.remove_device(at, device).unwrap();
        });
        assert_eq!(flown.messages(), Vec::<String>::new());
        let states: Vec<String> = flown
            .events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::PinStateChanged { from, to, .. } => Some(format!("{from}>{to}")),
                _ => None,
            })
            .collect();
        let walked = "stop>acquire acquire>pause pause>run run>pause pause>acquire acquire>stop";
        assert_eq!(states.join(" "), walked);
        let [initialized, allocated, freed, deleted] = [
            "AVStrMiniInitializeAllocator",
            "AVStrMiniAllocate",
            "AVStrMiniAllocatorFreeFrame",
            "AVStrMiniDeleteAllocator",
        ]
        .map(|text| flown.calls(text));
        let (one, three) = if own { (1, 3) } else { (0, 0) };
        assert_eq!([initialized, allocated, freed, deleted], [one, three, three, one], "{name}");
    }
}

#[test]
fn every_good_table_captures_the_same_frames() {
    for table in tables().filter(|listed_stream| listed_stream.breaks.is_empty()) {
        for seed in 0..6 {
            fly(table, seed, |client, at| {
                let device = client.add(at).unwrap();
                let graph = client.open(at, device, &format(5)).unwrap();
                let pictures = graph.run(at, 9).unwrap();
                let shown: Vec<_> =
                    pictures.iter().map(|received_frame| received_frame.bytes.clone()).collect();
                assert_eq!(shown, (0..5).map(picture).collect::<Vec<_>>(), "{}", table.name);
                graph.close(at).unwrap();
                client.stream.remove_device(at, device).unwrap();
            });
        }
    }
}

#[test]
fn a_flight_repeats() {
    for table in tables() {
        let lines = || -> Vec<String> {
            fly(table, 3, capture).events.iter().map(ToString::to_string).collect()
        };
        let (one, other) = (lines(), lines());
        let first = one.iter().zip(&other).find(|(one, other)| one != other);
        assert_eq!((first, one.len()), (None, other.len()), "{}", table.name);
    }
}

#[test]
fn a_larger_format_makes_the_frames_of_one_pin_larger() {
    let flown = fly(find_stream("table-capture").unwrap(), 1, |client, at| {
        let device = client.add(at).unwrap();
        let large = Format { sample_size: BYTES * 2, ..format(0) };
        let graph = client.open(at, device, &large).unwrap();
        assert_eq!(graph.framing.bytes, BYTES * 2);
        assert_eq!(graph.run(at, 2).unwrap()[1].bytes, picture(1));
        graph.close(at).unwrap();
        let graph = client.open(at, device, &format(0)).unwrap();
        assert_eq!(graph.framing.bytes, BYTES, "the others have what they had");
        client.stream.surprise_remove_device(at, device).unwrap();
    });
    assert_eq!(flown.messages(), Vec::<String>::new());
}

#[test]
fn allocators_with_one_context_are_each_called_to_their_end() {
    let table = find_stream("table-ks-omits-every-allocator-context").unwrap();
    let flown = fly(table, 1, |client, at| {
        let device = client.add(at).unwrap();
        let [one, other] = [0, 1].map(|_| client.open(at, device, &format(0)).unwrap());
        one.run(at, 2).unwrap();
        other.run(at, 2).unwrap();
        one.close(at).unwrap();
        other.close(at).unwrap();
        client.stream.remove_device(at, device).unwrap();
    });
    // All frames of both are freed: only the context is reported.
    assert_eq!(flown.rules(), [RuleId::KS_ALLOC_003], "{:#?}", flown.messages());
}

#[test]
fn frame_mappings_end_with_the_frames() {
    for table in tables().filter(|listed_stream| listed_stream.breaks.is_empty()) {
        fly(table, 4, |client, at| {
            let device = client.add(at).unwrap();
            let graph = client.open(at, device, &format(0)).unwrap();
            for _ in 0..3 {
                graph.run(at, 3).unwrap();
                graph.stop(at).unwrap();
                assert_eq!(client.driver.shown_counts(), (0, 0), "{}", table.name);
            }
            graph.close(at).unwrap();
            client.stream.remove_device(at, device).unwrap();
        });
    }
}

#[test]
fn stop_close_and_removal_at_every_call_leave_nothing() {
    let table = find_stream("table-capture").unwrap();
    for seed in 0..40 {
        for end in 0..4 {
            let flown = fly(table, seed, |client, at| {
                let device = client.add(at).unwrap();
                let graph = client.open(at, device, &format(0)).unwrap();
                let _ = graph.run(at, usize::try_from(seed % 7).unwrap());
                match end {
                    0 => graph.close(at).unwrap(),
                    1 => graph.stop(at).unwrap(),
                    2 => client.stream.stop_device(at, device).unwrap(),
                    _ => client.stream.surprise_remove_device(at, device).unwrap(),
                }
                let _ = client.stream.remove_device(at, device);
            });
            assert_eq!(flown.messages(), Vec::<String>::new(), "seed {seed}, end {end}");
            assert_eq!(flown.calls("AVStrMiniDeleteAllocator"), 1, "seed {seed}, end {end}");
        }
    }
}

#[test]
fn threads_side_by_side_capture_the_same_frames() {
    for table in tables().filter(|listed_stream| listed_stream.breaks.is_empty()) {
        let log = Arc::new(Log::new());
        let driver = make(table, &log);
        ThreadedHost::fly(&log, |host, at| {
            let stream = Stream::new(host.clone(), log.clone());
            let spawner: Arc<dyn Spawner> = host.clone();
            stream.start_workers(&spawner);
            let client = CaptureClient { stream, driver: driver.clone() };
            let device = client.add(at).unwrap();
            for _ in 0..5 {
                let graph = client.open(at, device, &format(20)).unwrap();
                let pictures = graph.run(at, 99).unwrap();
                let shown: Vec<_> =
                    pictures.iter().map(|received_frame| received_frame.bytes.clone()).collect();
                assert_eq!(shown, (0..20).map(picture).collect::<Vec<_>>(), "{}", table.name);
                graph.close(at).unwrap();
            }
            client.stream.remove_device(at, device).unwrap();
            assert_eq!(client.stream.live_objects().count(), 0, "{}", table.name);
        })
        .unwrap();
        assert_eq!(driver.pool().live_blocks(), 0, "{}", table.name);
        let broken = log.take().into_iter().filter(|event| event.kind.name() == "rule.broken");
        assert_eq!(broken.map(|event| event.to_string()).collect::<Vec<_>>(), Vec::<String>::new());
    }
}

#[test]
fn a_missing_entry_is_reported_by_name() {
    let flown = fly(find_stream("table-ks-passes-invalid-pointers").unwrap(), 2, capture);
    let absent =
        flown.events.iter().any(|event| matches!(&event.kind, EventKind::EntryMissing { .. }));
    assert!(absent);
}
