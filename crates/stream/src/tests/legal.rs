//! Legal behaviour of a minidriver is neither reported nor refused.

use crate::tests::source::*;
use crate::*;
use flight::RuleId;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex as Cell};

const NONE: [RuleId; 0] = [];

#[test]
fn the_framing_of_the_first_format_may_be_edited_when_the_pin_is_made() {
    for edits in [true, false] {
        let source = Source::with(false, move |it, entry, pin| {
            if entry == Entry::PinCreate && edits {
                let simple = SimpleFraming {
                    frames: 2,
                    bytes: BYTES,
                    system_memory: true,
                    ..SimpleFraming::default()
                };
                it.services().edit_framing(pin, Some(FramingForm::Simple(simple))).unwrap();
            }
            Ok(())
        });
        let mut source = source;
        let pin = &mut source.descriptor.filters[0].pins[0];
        let small =
            SimpleFraming { bytes: BYTES / 2, system_memory: true, ..SimpleFraming::default() };
        pin.framing = Some(FramingForm::Simple(small));
        let (events, _) = fly(1, |run, at| {
            let device = run.add(at, source).unwrap();
            run.open(at, device).unwrap().close(at).unwrap();
            run.stream.remove_device(at, device).unwrap();
            run.assert_empty();
        });
        let rules = if edits { vec![] } else { vec![RuleId::KS_FRAMING_005] };
        assert_eq!(broken(&events), rules);
    }
}

#[test]
fn a_gate_is_as_its_driver_left_it_when_the_pin_runs_again() {
    let states = Cell::new(Vec::new());
    let source = Source::with(true, move |it, entry, pin| {
        let services = it.services();
        if entry == Entry::PinCreate {
            services.add_gate_input(pin, false).unwrap();
        }
        if entry == Entry::PinSetDeviceState {
            let to = services.pin_view(pin).unwrap().client_state;
            let before = states.lock().unwrap().last().copied().unwrap_or(PinState::Stop);
            states.lock().unwrap().push(to);
            if to == PinState::Run {
                services.set_gate_input(pin, true).unwrap();
            } else if before == PinState::Run {
                services.set_gate_input(pin, false).unwrap();
            }
        }
        Ok(())
    });
    let (events, _) = fly(1, |run, at| {
        let device = run.add(at, source).unwrap();
        let graph = run.open(at, device).unwrap();
        for _ in 0..3 {
            graph.run(at, 2).unwrap();
            graph.stop(at).unwrap();
        }
        graph.close(at).unwrap();
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    assert_eq!(broken(&events), NONE);
}

#[test]
fn a_device_whose_driver_refuses_to_end_goes_on_as_it_was() {
    for entry in [Entry::DeviceQueryRemove, Entry::DeviceQueryStop] {
        for seed in 0..10 {
            let refuses = Arc::new(AtomicBool::new(true));
            let refused = refuses.clone();
            let source = Source::with(true, move |it, here, _| {
                if here != entry {
                    return Ok(());
                }
                // Frames are due meanwhile.
                it.services().delay(INTERVAL * 10).unwrap();
                if refused.load(Ordering::Relaxed) { Err(DriverError::Busy) } else { Ok(()) }
            });
            let (events, _) = fly(seed, |run, at| {
                let device = run.add(at, source).unwrap();
                let graph = run.open(at, device).unwrap();
                graph.run(at, 2).unwrap();
                let end = |at: &mut flight::Passive| match entry {
                    Entry::DeviceQueryStop => run.stream.stop_device(at, device),
                    _ => run.stream.remove_device(at, device),
                };
                assert_eq!(end(at), Err(StreamError::Driver(DriverError::Busy)));
                assert_eq!(graph.run(at, 8).map(|received_frames| received_frames.len()), Ok(8));
                refuses.store(false, Ordering::Relaxed);
                let _ = end(at);
                let _ = run.stream.remove_device(at, device);
                run.assert_empty();
            });
            assert_eq!(broken(&events), NONE);
        }
    }
}

#[test]
fn a_device_that_is_stopped_is_not_started_by_a_refusal() {
    let stops = Arc::new(AtomicU32::new(0));
    let counted = stops.clone();
    let source = Source::with(true, move |_, entry, _| {
        counted.fetch_add(u32::from(entry == Entry::DeviceStop), Ordering::Relaxed);
        if entry == Entry::DeviceQueryRemove { Err(DriverError::Busy) } else { Ok(()) }
    });
    let (events, _) = fly(1, |run, at| {
        let device = run.add(at, source).unwrap();
        run.stream.stop_device(at, device).unwrap();
        assert!(run.stream.remove_device(at, device).is_err());
        let opened = run.stream.open_filter(at, device, 0);
        assert_eq!(opened, Err(StreamError::NotStarted(device.subject())));
        assert!(run.stream.stop_device(at, device).is_err(), "it is stopped");
        assert_eq!(stops.load(Ordering::Relaxed), 1);
        run.stream.start_device(at, device).unwrap();
        run.open(at, device).unwrap().close(at).unwrap();
        run.stream.surprise_remove_device(at, device).unwrap();
        run.assert_empty();
    });
    assert_eq!(broken(&events), NONE);
}

#[test]
fn two_devices_may_have_memory_at_the_same_addresses() {
    let (events, _) = fly(1, |run, at| {
        let mut all = Vec::new();
        for _ in 0..2 {
            let memory = Arc::new(SystemMemory::default());
            let plugged =
                DriverSetup { minidriver: Arc::new(Source::new(true)), memory: memory.clone() };
            let device = run.stream.add_device(at, plugged).unwrap();
            let graph = run.open(at, device).unwrap();
            graph.run(at, 2).unwrap();
            all.push((device, graph, memory));
        }
        for (device, graph, memory) in all {
            graph.close(at).unwrap();
            run.stream.remove_device(at, device).unwrap();
            assert_eq!(memory.allocation_count(), 0);
        }
        run.assert_empty();
    });
    check_order(&events);
    assert_eq!(broken(&events), NONE);
}

/// A sink: the driver reads the data that is sent in.
struct Sink {
    under: Source,
    read: Cell<Vec<u8>>,
}

impl Sink {
    fn new() -> Self {
        let mut under = Source::new(false);
        under.descriptor.filters[0].pins[0].flow = Flow::In;
        Self { under, read: Cell::default() }
    }
}

impl Minidriver for Sink {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.under)
    }

    fn process_pin(&self, pin: &PinView) -> DriverResult<()> {
        let services = self.under.services();
        while let Some(edge) = services.leading_edge(pin.pin, true) {
            let mut first = [0];
            services.read(edge, 0, &mut first)?;
            self.read.lock().unwrap().push(first[0]);
            let left = services.pointer_view(edge)?.remaining;
            services.advance_offsets(edge, left, true)?;
        }
        Ok(())
    }
}

#[test]
fn frames_that_are_free_are_not_sent_by_a_reset() {
    let sink = Arc::new(Sink::new());
    let minidriver = sink.clone();
    let (events, _) = fly(1, |run, at| {
        let plugged = DriverSetup { minidriver, memory: run.memory.clone() };
        let device = run.stream.add_device(at, plugged).unwrap();
        let graph = run.open(at, device).unwrap();
        run.stream.set_state(at, graph.pin, PinState::Run).unwrap();
        // One of two frames: the other one is free.
        run.stream.send_frame(at, graph.pin, &[1; BYTES as usize], Header::default()).unwrap();
        run.host.run_until_idle(at);
        run.stream.reset(at, graph.pin).unwrap();
        run.stream.requeue_cancelled_frames(at, graph.pin).unwrap();
        run.host.run_until_idle(at);
        graph.close(at).unwrap();
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    assert_eq!(broken(&events), NONE);
    assert_eq!(*sink.read.lock().unwrap(), [1]);
}

#[test]
fn a_pin_that_stopped_in_sleep_does_not_run_at_wake() {
    let (events, _) = fly(1, |run, at| {
        let device = run.add(at, Source::new(true)).unwrap();
        let graph = run.open(at, device).unwrap();
        graph.run(at, 2).unwrap();
        run.stream.power_down(at, device).unwrap();
        graph.stop(at).unwrap();
        run.stream.set_state(at, graph.pin, PinState::Pause).unwrap();
        run.stream.power_up(at, device, PowerUpOrder::PowerFirst).unwrap();
        assert_eq!(run.stream.state(graph.pin), Ok((PinState::Pause, PinState::Pause)));
        graph.close(at).unwrap();
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    assert_eq!(broken(&events), NONE);
}

/// Memory that takes long to refuse an allocation that is too large.
#[derive(Default)]
struct Slow(SystemMemory);

impl FrameMemory for Slow {
    fn allocate(&self, bytes: u32, alignment: u32, kind: MemoryKind) -> Option<usize> {
        self.0.allocate(bytes, alignment, kind)
    }

    fn free(&self, word: usize) -> bool {
        self.0.free(word)
    }

    fn read(&self, word: usize, offset: u32, into: &mut [u8]) -> bool {
        self.0.read(word, offset, into)
    }

    fn write(&self, word: usize, offset: u32, bytes: &[u8]) -> bool {
        let written = self.0.write(word, offset, bytes);
        if !written {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        written
    }

    fn extent(&self, word: usize) -> Option<(u32, MemoryKind)> {
        self.0.extent(word)
    }

    fn allocation_count(&self) -> usize {
        self.0.allocation_count()
    }

    fn limit_allocations(&self, pieces: Option<usize>) {
        self.0.limit_allocations(pieces);
    }
}

#[test]
fn a_waiting_client_gets_the_frame_that_could_not_be_written() {
    let (events, _) = fly_free(|run, at| {
        let mut sink = Sink::new();
        let pin = &mut sink.under.descriptor.filters[0].pins[0];
        let one = SimpleFraming { frames: 1, system_memory: true, ..SimpleFraming::default() };
        pin.framing = Some(FramingForm::Simple(one));
        let plugged = DriverSetup { minidriver: Arc::new(sink), memory: Arc::new(Slow::default()) };
        let device = run.stream.add_device(at, plugged).unwrap();
        let graph = run.open(at, device).unwrap();
        run.stream.set_state(at, graph.pin, PinState::Run).unwrap();
        let (other, pin) = (run.stream.clone(), graph.pin);
        let ended = run.host.spawn("another client", move |at| {
            let sent = other.send_frame(at, pin, &[0; 1000], Header::default());
            assert_eq!(sent, Err(StreamError::NoFrames));
        });
        std::thread::sleep(std::time::Duration::from_millis(30));
        run.stream.send_frame(at, graph.pin, &[1], Header::default()).unwrap();
        run.host.park(at, &ended, None);
        run.stream.remove_device(at, device).unwrap();
        assert_eq!(run.stream.live_objects().count(), 0);
    });
    assert_eq!(broken(&events), NONE);
}

#[test]
fn counts_as_large_as_there_are_break_nothing() {
    let mut source = Source::new(true);
    let pin = &mut source.descriptor.filters[0].pins[0];
    (pin.instances_possible, pin.instances_necessary) = (u32::MAX, u32::MAX);
    let other = pin.clone();
    source.descriptor.filters[0].pins.push(other);
    let (events, _) = fly(1, |run, at| {
        let device = run.add(at, source).unwrap();
        let graph = run.open(at, device).unwrap();
        assert!(matches!(graph.run(at, 1), Err(StreamError::TooFew { .. })));
        graph.close(at).unwrap();
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    assert_eq!(broken(&events), NONE);
}

/// A filter that processes as a whole, and keeps a clone of its own.
struct Cloner(Source);

impl Minidriver for Cloner {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn process_filter(&self, _filter: FilterId, pins: &mut [ProcessPin]) -> DriverResult<()> {
        let services = self.0.services();
        let [output] = pins else { return Err(DriverError::Pending) };
        let clone = services.clone_pointer(output.pointer, false)?;
        services.write(clone, 0, &[1; BYTES as usize])?;
        services.unlock(clone, false)?;
        services.delete_pointer(clone)?;
        output.used = output.available;
        Ok(())
    }
}

#[test]
fn a_filter_that_processes_unlocks_clones_of_its_own() {
    let mut source = Source::new(false);
    let filter = &mut source.descriptor.filters[0];
    filter.dispatch.push(Entry::FilterProcess);
    filter.pins[0].dispatch.retain(|entry| *entry != Entry::PinProcess);
    let (events, _) = fly(1, |run, at| {
        let minidriver = Arc::new(Cloner(source));
        let plugged = DriverSetup { minidriver, memory: run.memory.clone() };
        let device = run.stream.add_device(at, plugged).unwrap();
        let graph = run.open(at, device).unwrap();
        assert_eq!(graph.run(at, 3).unwrap().len(), 3);
        graph.close(at).unwrap();
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    assert_eq!(broken(&events), NONE);
}

#[test]
fn a_frame_that_is_given_up_on_the_way_down_may_carry_nothing() {
    // Half of it is written, then the hardware is stopped, on the way from pause.
    let half = Arc::new(Cell::new(None));
    let kept = half.clone();
    let source = Source::with(false, move |it, entry, pin| {
        let services = it.services();
        if entry == Entry::PinProcess {
            if kept.lock().unwrap().is_some() {
                return Err(DriverError::Pending);
            }
            let edge = services.leading_edge(pin, true).ok_or(DriverError::Pending)?;
            let clone = services.clone_pointer(edge, false)?;
            services.write(clone, 0, &[1; 8])?;
            services.advance(edge).or_else(fell)?;
            let _ = services.unlock(edge, false);
            *kept.lock().unwrap() = Some(clone);
            return Err(DriverError::Pending);
        }
        if entry == Entry::PinSetDeviceState
            && services.pin_view(pin).unwrap().client_state == PinState::Acquire
            && let Some(clone) = kept.lock().unwrap().take()
        {
            services.set_header(clone, Header::default()).unwrap();
            services.delete_pointer(clone).unwrap();
        }
        Ok(())
    });
    let (events, _) = fly(1, |run, at| {
        let device = run.add(at, source).unwrap();
        let graph = run.open(at, device).unwrap();
        run.stream.set_state(at, graph.pin, PinState::Run).unwrap();
        run.host.run_until_idle(at);
        graph.stop(at).unwrap();
        graph.close(at).unwrap();
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    assert_eq!(broken(&events), NONE);
}

#[test]
fn nothing_is_injected_while_a_refused_step_is_undone() {
    let returned = Arc::new(AtomicU32::new(0));
    let counted = returned.clone();
    let source = Source::with(false, move |it, entry, pin| {
        let services = it.services();
        let inject = || {
            let word = services.allocate_memory(BYTES, 0, MemoryKind::NonPaged).unwrap();
            let header = Header { data_used: BYTES, ..Header::default() };
            if services.submit_frame(pin, (word, BYTES), header, 7).is_err() {
                services.free_memory(word).unwrap();
            }
        };
        match entry {
            Entry::PinCreate => services.inject_frames(pin).unwrap(),
            Entry::PinSetDeviceState => {
                inject();
                return Err(DriverError::Busy);
            }
            // It would run forever.
            Entry::FrameReturned if counted.fetch_add(1, Ordering::Relaxed) < 10 => inject(),
            _ => (),
        }
        Ok(())
    });
    let (events, _) = fly(1, |run, at| {
        let device = run.add(at, source).unwrap();
        let graph = run.open(at, device).unwrap();
        assert!(run.stream.set_state(at, graph.pin, PinState::Acquire).is_err());
        graph.close(at).unwrap();
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    check_order(&events);
    assert_eq!((broken(&events), returned.load(Ordering::Relaxed)), (vec![], 1));
}

/// A source whose hardware reports the bytes it has written, afterwards.
struct Dma(Source);

impl Minidriver for Dma {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn process_pin(&self, pin: &PinView) -> DriverResult<()> {
        let services = self.0.services();
        while let Some(edge) = services.leading_edge(pin.pin, true) {
            let clone = services.clone_pointer(edge, false)?;
            services.advance_offsets(edge, services.pointer_view(edge)?.remaining, false)?;
            services.write(clone, 0, &[1; BYTES as usize])?;
            let header = services.pointer_view(clone)?.header;
            services.set_header(clone, Header { data_used: header.data_used + BYTES, ..header })?;
            services.delete_pointer(clone)?;
        }
        Ok(())
    }
}

#[test]
fn only_the_driver_of_a_pin_with_mappings_reports_used_bytes() {
    let mut source = Source::with(false, |it, entry, _| {
        if entry == Entry::DeviceStart {
            it.services().register_dma().unwrap();
        }
        Ok(())
    });
    source.descriptor.filters[0].pins[0].flags.push(PinFlag::GenerateMappings);
    let (events, _) = fly(1, |run, at| {
        let minidriver = Arc::new(Dma(source));
        let plugged = DriverSetup { minidriver, memory: run.memory.clone() };
        let device = run.stream.add_device(at, plugged).unwrap();
        let graph = run.open(at, device).unwrap();
        assert!(
            graph
                .run(at, 3)
                .unwrap()
                .iter()
                .all(|received_frame| received_frame.header.data_used == BYTES)
        );
        graph.close(at).unwrap();
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    assert_eq!(broken(&events), NONE);
}

#[test]
fn a_bridge_pin_is_described_and_is_not_opened() {
    let mut source = Source::new(true);
    let mut bridge = PinDescriptor { formats: Vec::new(), ..PinDescriptor::default() };
    source.descriptor.filters[0].pins.push(bridge.clone());
    bridge.instances_possible = 0;
    source.descriptor.filters[0].pins.push(bridge);
    let (events, _) = fly(1, |run, at| {
        let device = run.add(at, source).unwrap();
        let graph = run.open(at, device).unwrap();
        let opened =
            [1, 2].map(|number| run.stream.create_pin(at, graph.filter, number, &format()));
        assert_eq!(opened, [Err(StreamError::NoFormat), Err(StreamError::TooMany { most: 0 })]);
        assert_eq!(graph.run(at, 2).unwrap().len(), 2);
        graph.close(at).unwrap();
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    assert_eq!(broken(&events), NONE);
}

#[test]
fn a_framing_without_limit_or_wish_has_frames_as_large_as_the_format() {
    for most in [0, u32::MAX] {
        let mut source = Source::new(true);
        let pin = &mut source.descriptor.filters[0].pins[0];
        if let Some(FramingForm::Extended(framing)) = &mut pin.framing {
            framing.items[0].framing = SizeRange { min: 0, max: most };
        }
        let (events, _) = fly(1, |run, at| {
            let device = run.add(at, source).unwrap();
            let graph = run.open(at, device).unwrap();
            assert_eq!(graph.framing.bytes, BYTES);
            assert_eq!(graph.run(at, 2).unwrap().len(), 2);
            graph.close(at).unwrap();
            run.stream.remove_device(at, device).unwrap();
            run.assert_empty();
        });
        assert_eq!(broken(&events), NONE, "{most}");
    }
}
