//! Whole flights of a test-pattern source.

use crate::tests::source::*;
use crate::*;
use flight::{Event, EventKind};

/// The events of the allocator and the frames, abbreviated.
fn order(events: &[Event]) -> Vec<String> {
    let said = events.iter().filter_map(|event| {
        Some(match &event.kind {
            EventKind::KsCall { name, .. } => name.strip_prefix("AVStrMini")?.to_owned(),
            EventKind::PinStateChanged { from, to, .. } => format!("{from} to {to}"),
            EventKind::AllocatorReady { .. } => "ready".to_owned(),
            EventKind::AllocatorDeleted { .. } => "deleted".to_owned(),
            EventKind::FrameDone { .. } => "done".to_owned(),
            _ => return None,
        })
    });
    said.collect()
}

#[test]
fn a_whole_flight_is_in_this_order() {
    let (events, _) = fly(0, |run, at| {
        let device = run.add(at, Source::new(true)).unwrap();
        let graph = run.open(at, device).unwrap();
        let pictures = graph.run(at, 2).unwrap();
        assert_eq!(pictures[0].bytes, pattern(0));
        assert_eq!(pictures[1].bytes, pattern(1));
        assert_eq!(pictures[0].header.time, INTERVAL);
        assert_eq!(pictures[1].header.time, 2 * INTERVAL);
        assert!(pictures[0].header.discontinuity && !pictures[1].header.discontinuity);
        graph.stop(at).unwrap();
        graph.close(at).unwrap();
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    check_order(&events);
    assert_eq!(broken(&events), []);
    let expected = "\
        DeviceAdd DeviceStart DevicePostStart FilterCreate PinSetDataFormat PinCreate PinConnect \
        InitializeAllocator ready \
        Allocate Allocate Allocate PinSetDeviceState stop>acquire PinSetDeviceState acquire>pause \
        PinSetDeviceState pause>run PinProcess TimeoutCallback done \
        TimeoutCallback done PinSetDeviceState run>pause \
        PinSetDeviceState pause>acquire PinSetDeviceState acquire>stop \
        AllocatorFreeFrame AllocatorFreeFrame AllocatorFreeFrame DeleteAllocator deleted \
        PinDisconnect PinClose FilterClose DeviceQueryRemove DeviceRemove";
    let mut said: Vec<String> =
        order(&events).iter().map(|text| text.replace(" to ", ">")).collect();
    // How often it is processed while frames come back depends on which thread runs first.
    let mut seen = false;
    said.retain(|text| text != "PinProcess" || !std::mem::replace(&mut seen, true));
    let place = said.iter().position(|text| text == "PinProcess").unwrap();
    let process = said.remove(place);
    let run = said.iter().position(|text| text == "pause>run").unwrap();
    said.insert(run + 1, process);
    assert_eq!(said.join(" "), expected.split_whitespace().collect::<Vec<_>>().join(" "));
}

#[test]
fn every_order_of_threads_keeps_the_rules() {
    for seed in 0..40 {
        for own in [true, false] {
            let (events, _) = fly(seed, |run, at| {
                let device = run.add(at, Source::new(own)).unwrap();
                let graph = run.open(at, device).unwrap();
                for round in 0..2 {
                    let pictures = graph.run(at, 7).unwrap();
                    let first = pattern(0);
                    assert!(round > 0 || pictures[0].bytes == first);
                    assert_eq!(pictures.len(), 7);
                    run.stream.validate().unwrap();
                    graph.stop(at).unwrap();
                }
                graph.close(at).unwrap();
                run.stream.remove_device(at, device).unwrap();
                run.assert_empty();
            });
            check_order(&events);
            assert_eq!(broken(&events), [], "seed {seed}, own {own}");
        }
    }
}

#[test]
fn a_run_repeats() {
    let once = || {
        let (events, _) = fly(7, |run, at| {
            let device = run.add(at, Source::new(true)).unwrap();
            let graph = run.open(at, device).unwrap();
            graph.run(at, 5).unwrap();
            run.stream.surprise_remove_device(at, device).unwrap();
            run.assert_empty();
        });
        events.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(once(), once());
}

#[test]
fn an_allocator_that_is_not_chosen_is_never_called() {
    for wish in [
        FramingRequest { user_mode: true, ..FramingRequest::default() },
        FramingRequest { client_frames: true, ..FramingRequest::default() },
    ] {
        let (events, _) = fly(1, |run, at| {
            let device = run.add(at, Source::new(true)).unwrap();
            let graph = Graph::open(&run.stream, at, device, &format(), &wish).unwrap();
            assert_eq!(graph.run(at, 3).unwrap().len(), 3);
            run.stream.remove_device(at, device).unwrap();
            run.assert_empty();
        });
        let called = order(&events);
        assert!(!called.iter().any(|text| text.contains("llocat")), "{called:?}");
        assert_eq!(broken(&events), []);
    }
}

#[test]
fn frames_that_are_cancelled_come_home_and_are_filled_again() {
    for seed in 0..20 {
        let (events, _) = fly(seed, |run, at| {
            let device = run.add(at, Source::new(true)).unwrap();
            let graph = run.open(at, device).unwrap();
            graph.run(at, 2).unwrap();
            run.stream.cancel_frames(at, graph.pin).unwrap();
            run.stream.validate().unwrap();
            run.stream.requeue_cancelled_frames(at, graph.pin).unwrap();
            graph.run(at, 2).unwrap();
            run.stream.reset(at, graph.pin).unwrap();
            graph.run(at, 2).unwrap();
            graph.close(at).unwrap();
            run.stream.remove_device(at, device).unwrap();
            run.assert_empty();
        });
        check_order(&events);
        assert_eq!(broken(&events), [], "seed {seed}");
    }
}

#[test]
fn the_default_allocator_aligns_and_user_memory_need_not() {
    let (events, _) = fly(0, |run, at| {
        let device = run.add(at, Source::new(false)).unwrap();
        let wish = FramingRequest { frames: 5, alignment: 31, ..FramingRequest::default() };
        let graph = Graph::open(&run.stream, at, device, &format(), &wish).unwrap();
        assert_eq!((graph.framing.frames, graph.framing.alignment), (5, 31));
        graph.run(at, 9).unwrap();
        graph.close(at).unwrap();
        run.stream.stop_device(at, device).unwrap();
        assert!(matches!(run.open(at, device), Err(StreamError::NotStarted(_))));
        run.stream.start_device(at, device).unwrap();
        let graph = run.open(at, device).unwrap();
        graph.run(at, 1).unwrap();
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    assert_eq!(broken(&events), []);
}

#[test]
fn threads_that_run_side_by_side_keep_the_rules() {
    for round in 0..30 {
        let (events, _) = fly_free(|run, at| {
            let device = run.add(at, Source::new(round % 2 == 0)).unwrap();
            let graph = run.open(at, device).unwrap();
            let (stream, frames) = (run.stream.clone(), round % 7 + 1);
            let ended = run.host.spawn("another client", move |at| {
                // It may be closed already, or not yet.
                let _ = stream.cancel_frames(at, first_pin(&stream));
                let _ = stream.requeue_cancelled_frames(at, first_pin(&stream));
                if round % 3 == 0 {
                    let _ = stream.surprise_remove_device(at, first_device(&stream));
                }
            });
            let _ = graph.run(at, frames);
            let _ = graph.close(at);
            run.host.park(at, &ended, None);
            let _ = run.stream.remove_device(at, device);
            run.assert_empty();
        });
        check_order(&events);
        assert_eq!(broken(&events), [], "round {round}");
    }
}
