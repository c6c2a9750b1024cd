//! Other kinds of minidrivers: inward data flow, filters that process all their pins, a trailing
//! edge, injected frames, skipped states, dispatch level.

use crate::tests::source::*;
use crate::*;
use flight::{EventKind, Irql, Kind, Passive, RuleId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A filter with an input pin and an output pin, which inverts the bytes.
struct Turner {
    under: Source,
    /// It moves an edge itself, which is forbidden.
    meddles: bool,
}

impl Turner {
    fn new(meddles: bool) -> Self {
        let mut under = Source::new(false);
        let filter = &mut under.descriptor.filters[0];
        filter.dispatch.push(Entry::FilterProcess);
        filter.dispatch_level = true;
        filter.pins[0].dispatch.retain(|entry| *entry != Entry::PinProcess);
        let mut input = filter.pins[0].clone();
        input.flow = Flow::In;
        input.instances_necessary = 1;
        filter.pins.push(input);
        Self { under, meddles }
    }
}

impl Minidriver for Turner {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.under)
    }

    fn process_filter(&self, _filter: FilterId, pins: &mut [ProcessPin]) -> DriverResult<()> {
        let services = self.under.services();
        let [output, input] = pins else { return Err(DriverError::Pending) };
        if self.meddles {
            assert!(services.advance(input.pointer).is_err());
        }
        let mut bytes = vec![0; input.available as usize];
        services.read(input.pointer, 0, &mut bytes)?;
        let turned: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        services.write(output.pointer, 0, &turned)?;
        let header = services.pointer_view(input.pointer)?.header;
        services.set_header(output.pointer, Header { data_used: 0, ..header })?;
        input.used = input.available;
        output.used = input.available;
        output.terminate = true;
        Ok(())
    }
}

#[test]
fn a_filter_processes_its_pins_together_at_the_level_it_asks_for() {
    for meddles in [false, true] {
        for seed in 0..10 {
            let (events, _) = fly(seed, |run, at| {
                let plugged = DriverSetup {
                    minidriver: Arc::new(Turner::new(meddles)),
                    memory: run.memory.clone(),
                };
                let device = run.stream.add_device(at, plugged).unwrap();
                let stream = &run.stream;
                let filter = stream.open_filter(at, device, 0).unwrap();
                let output = stream.create_pin(at, filter, 0, &format()).unwrap();
                stream.connect(at, output, &FramingRequest::default()).unwrap();
                let early = stream.set_state(at, output, PinState::Run);
                assert_eq!(early, Err(StreamError::TooFew { factory: 1, least: 1 }));
                let input = stream.create_pin(at, filter, 1, &format()).unwrap();
                stream.connect(at, input, &FramingRequest::default()).unwrap();
                stream.set_state(at, output, PinState::Run).unwrap();
                stream.set_state(at, input, PinState::Run).unwrap();
                for number in 0..5 {
                    let header = Header {
                        time: number * 10,
                        end_of_stream: number == 4,
                        ..Header::default()
                    };
                    stream.send_frame(at, input, &pattern(number), header).unwrap();
                    let taken = stream.take_frame(at, output, None).unwrap();
                    assert_eq!((taken.header.time, taken.header.data_used), (number * 10, BYTES));
                    assert_eq!(taken.header.end_of_stream, number == 4);
                    let mut bytes = vec![0; BYTES as usize];
                    stream.read_frame(taken.frame, 0, &mut bytes).unwrap();
                    let turned: Vec<u8> = pattern(number).iter().map(|byte| !byte).collect();
                    assert_eq!(bytes, turned);
                    stream.return_frame(at, taken.frame).unwrap();
                    stream.validate().unwrap();
                }
                stream.remove_device(at, device).unwrap();
                run.assert_empty();
            });
            let rules = if meddles { vec![RuleId::KS_PTR_013] } else { vec![] };
            assert_eq!(broken(&events), rules);
            let levels = events.iter().filter_map(|event| match &event.kind {
                EventKind::KsCall { name, level, .. } if name == "AVStrMiniFilterProcess" => {
                    Some(*level)
                }
                _ => None,
            });
            assert!(levels.into_iter().all(|irql| irql == Irql::Dispatch));
        }
    }
}

/// A source that keeps the last frame in its queue, behind a trailing edge.
struct RecordingDriver(Source);

impl Minidriver for RecordingDriver {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn process_pin(&self, pin: &PinView) -> DriverResult<()> {
        let services = self.0.services();
        while let Some(edge) = services.leading_edge(pin.pin, true) {
            services.write(edge, 0, &[1; BYTES as usize])?;
            services.set_header(edge, Header { data_used: BYTES, ..Header::default() })?;
            services.advance(edge).or_else(fell)?;
            let behind = services.pointer_view(services.trailing_edge(pin.pin, false).unwrap())?;
            assert!(behind.frame.is_some() && !behind.locked);
            // The previous frame may leave.
            let trailing = services.trailing_edge(pin.pin, false).ok_or(DriverError::NotReady)?;
            let more = services.pointer_view(trailing)?.frame != services.pointer_view(edge)?.frame;
            if more && services.pointer_view(edge)?.frame.is_some() {
                services.advance(trailing).or_else(fell)?;
            }
        }
        Ok(())
    }
}

#[test]
fn a_trailing_edge_keeps_frames_in_the_queue() {
    let (events, _) = fly(0, |run, at| {
        let mut source = Source::new(true);
        source.descriptor.filters[0].pins[0].flags.push(PinFlag::DistinctTrailingEdge);
        let plugged = DriverSetup {
            minidriver: Arc::new(RecordingDriver(source)),
            memory: run.memory.clone(),
        };
        let device = run.stream.add_device(at, plugged).unwrap();
        let graph = run.open(at, device).unwrap();
        assert_eq!(graph.run(at, 2).unwrap().len(), 2);
        run.stream.validate().unwrap();
        assert!(run.stream.live_objects().to_string().contains("queued"));
        run.stream.surprise_remove_device(at, device).unwrap();
        run.assert_empty();
    });
    assert_eq!(broken(&events), []);
}

#[test]
fn injected_frames_come_back_once() {
    let story = |when: Entry, submits: bool| {
        let source = Source::with(false, move |it, entry, pin| {
            let services = it.services();
            if entry == when {
                let _ = services.inject_frames(pin);
            }
            if entry == Entry::PinSetDeviceState && submits {
                let word = services.allocate_memory(BYTES, 7, MemoryKind::NonPaged).unwrap();
                let header = Header { data_used: BYTES, ..Header::default() };
                if services.submit_frame(pin, (word, BYTES), header, 5).is_err() {
                    services.free_memory(word).unwrap();
                }
            }
            Ok(())
        });
        let (events, _) = fly(0, |run, at| {
            let device = run.add(at, source).unwrap();
            let graph = run.open(at, device).unwrap();
            let _ = graph.run(at, 2);
            graph.close(at).unwrap();
            run.stream.remove_device(at, device).unwrap();
            run.assert_empty();
        });
        let back = events.iter().filter(
            |event| matches!(&event.kind, EventKind::KsCall { name, .. } if name == "AVStrMiniFrameReturn"),
        );
        (broken(&events), back.count())
    };
    assert_eq!(story(Entry::PinCreate, true), (vec![], 5), "one for each change but the last");
    assert_eq!(story(Entry::PinProcess, false).0, [RuleId::KS_STATE_008]);
    assert_eq!(story(Entry::DeviceAdd, true).0, [RuleId::KS_STATE_009]);
}

#[test]
fn a_pin_of_another_transport_may_jump_and_must_jump_back() {
    for refuses in [false, true] {
        let count = Count::default();
        let mut source = Source::with(false, move |_, entry, _| {
            let back = entry == Entry::PinSetDeviceState && count.is(2);
            if back && refuses { Err(DriverError::Invalid) } else { Ok(()) }
        });
        source.descriptor.filters[0].pins[0].flags.push(PinFlag::DoNotUseStandardTransport);
        let (events, _) = fly(0, |run, at| {
            let device = run.add(at, source).unwrap();
            let graph = run.open(at, device).unwrap();
            graph.run(at, 2).unwrap();
            assert_eq!(graph.stop(at).is_err(), refuses);
            graph.close(at).unwrap();
            run.stream.remove_device(at, device).unwrap();
            run.assert_empty();
        });
        let states = events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::PinStateChanged { .. }))
            .count();
        assert_eq!(states, 2, "to run at once, and back at once");
        let rules = if refuses { vec![RuleId::KS_STATE_002] } else { vec![] };
        assert_eq!(broken(&events), rules);
    }
}

#[test]
fn mappings_need_a_dma_adapter() {
    for registers in [true, false] {
        let mut source = Source::with(false, move |it, entry, _| {
            if entry == Entry::DeviceStart && registers {
                it.services().register_dma().unwrap();
            }
            Ok(())
        });
        source.descriptor.filters[0].pins[0].flags.push(PinFlag::GenerateMappings);
        let (events, _) = fly(0, |run, at| {
            let device = run.add(at, source).unwrap();
            run.open(at, device).unwrap().run(at, 1).unwrap();
            run.stream.remove_device(at, device).unwrap();
            run.assert_empty();
        });
        let rules = if registers { vec![] } else { vec![RuleId::KS_DEV_007] };
        assert_eq!(broken(&events), rules);
    }
}

#[test]
fn a_device_wakes_in_either_order() {
    for order in [PowerUpOrder::PowerFirst, PowerUpOrder::PinsFirst] {
        for refuses in [false, true] {
            let count = Count::default();
            let source = Source::with(true, move |it, entry, _| {
                if entry == Entry::DeviceSetPower {
                    let control = KsMutex::Control(Kind::Filter.subject(1));
                    it.services().acquire(control).unwrap();
                    it.services().release(control).unwrap();
                }
                // The fifth change of state is the one that wakes.
                let wakes = entry == Entry::PinSetDeviceState && count.is(5);
                if wakes && refuses { Err(DriverError::Busy) } else { Ok(()) }
            });
            let (events, _) = fly(1, |run, at| {
                let device = run.add(at, source).unwrap();
                let graph = run.open(at, device).unwrap();
                graph.run(at, 2).unwrap();
                run.stream.power_down(at, device).unwrap();
                assert_eq!(run.stream.state(graph.pin), Ok((PinState::Pause, PinState::Pause)));
                assert_eq!(run.stream.power_up(at, device, order).is_err(), refuses);
                graph.run(at, 2).unwrap();
                run.stream.remove_device(at, device).unwrap();
                run.assert_empty();
            });
            check_order(&events);
            let rules = if refuses { vec![RuleId::KS_STATE_005] } else { vec![] };
            assert_eq!(broken(&events), rules);
        }
    }
}

#[test]
fn hardware_that_another_pin_uses_is_left_alone_before_acquire() {
    let mut source = Source::with(false, |it, entry, pin| {
        if entry == Entry::PinConnect {
            let programmed = it.services().program_hardware(pin);
            assert_eq!(programmed.is_err(), pin.serial() == 2);
        }
        Ok(())
    });
    source.descriptor.filters[0].pins[0].instances_possible = 2;
    let (events, _) = fly(0, |run, at| {
        let device = run.add(at, source).unwrap();
        let graph = run.open(at, device).unwrap();
        graph.run(at, 1).unwrap();
        let other = run.stream.create_pin(at, graph.filter, 0, &format()).unwrap();
        run.stream.connect(at, other, &FramingRequest::default()).unwrap();
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    assert_eq!(broken(&events), [RuleId::KS_STATE_006]);
}

/// A filter that is processed if any of its pins runs.
struct Eager {
    under: Source,
    /// How many calls process, and how many have.
    inside: AtomicU32,
    processed: AtomicU32,
}

impl Eager {
    fn new() -> Self {
        let mut under = Source::with(false, |_, _, _| Ok(()));
        let filter = &mut under.descriptor.filters[0];
        filter.dispatch.push(Entry::FilterProcess);
        let pin = &mut filter.pins[0];
        pin.dispatch.retain(|entry| *entry != Entry::PinProcess);
        pin.flags = vec![PinFlag::ProcessIfAnyInRunState, PinFlag::SomeFramesRequiredForProcessing];
        pin.instances_possible = 2;
        Self { under, inside: AtomicU32::new(0), processed: AtomicU32::new(0) }
    }
}

impl Minidriver for Eager {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.under)
    }

    fn process_filter(&self, _filter: FilterId, pins: &mut [ProcessPin]) -> DriverResult<()> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        self.processed.fetch_add(1, Ordering::SeqCst);
        let services = self.under.services();
        services.delay(10)?;
        for it in pins.iter_mut() {
            services.write(it.pointer, 0, &[1; BYTES as usize])?;
            it.used = it.available;
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    fn set_state(
        &self,
        _at: &mut Passive,
        _pin: &PinView,
        to: PinState,
        from: PinState,
    ) -> DriverResult<()> {
        if (from, to) == (PinState::Run, PinState::Pause) {
            let before = self.processed.load(Ordering::SeqCst);
            assert_eq!(self.inside.load(Ordering::SeqCst), 0, "it is processed");
            self.under.services().delay(1000)?;
            assert_eq!(self.processed.load(Ordering::SeqCst), before, "processing began");
        }
        Ok(())
    }
}

#[test]
fn a_filter_is_processed_while_one_pin_runs_and_not_while_that_pin_pauses() {
    for seed in 0..20 {
        let eager = Arc::new(Eager::new());
        let minidriver = eager.clone();
        let (events, _) = fly(seed, |run, at| {
            let plugged = DriverSetup { minidriver, memory: run.memory.clone() };
            let device = run.stream.add_device(at, plugged).unwrap();
            let stream = &run.stream;
            let filter = stream.open_filter(at, device, 0).unwrap();
            let [one, other] = [0, 1].map(|_| {
                let pin = stream.create_pin(at, filter, 0, &format()).unwrap();
                stream.connect(at, pin, &FramingRequest::default()).unwrap();
                pin
            });
            // The other one stays where it is.
            stream.set_state(at, one, PinState::Run).unwrap();
            for _ in 0..3 {
                let taken = stream.take_frame(at, one, None).unwrap();
                stream.return_frame(at, taken.frame).unwrap();
            }
            stream.set_state(at, one, PinState::Pause).unwrap();
            let before = eager.processed.load(Ordering::SeqCst);
            run.host.run_until_idle(at);
            assert_eq!(eager.processed.load(Ordering::SeqCst), before, "none runs");
            stream.set_state(at, one, PinState::Run).unwrap();
            stream.set_state(at, one, PinState::Stop).unwrap();
            // One closed gate stops the whole filter.
            run.host.run_until_idle(at);
            let services = stream.services(device).unwrap();
            services.add_gate_input(other, false).unwrap();
            let before = eager.processed.load(Ordering::SeqCst);
            stream.set_state(at, one, PinState::Run).unwrap();
            run.host.run_until_idle(at);
            assert_eq!(eager.processed.load(Ordering::SeqCst), before, "a gate is closed");
            services.set_gate_input(other, true).unwrap();
            run.host.run_until_idle(at);
            assert!(eager.processed.load(Ordering::SeqCst) > before);
            run.stream.remove_device(at, device).unwrap();
            run.assert_empty();
        });
        assert_eq!(broken(&events), []);
    }
}
