//! What a minidriver may not do is refused and named, and nothing is left of it.
#![expect(clippy::disallowed_types, reason = "a driver has locks of its own")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use common::*;
use flight::{Passive, RuleId};
use std::sync::Arc;
use stream::*;

/// Flies a source that does something in its calls. Answers the rules that it broke.
fn broken_by(
    own: bool,
    hook: impl Fn(&Source, Entry, PinId) -> Answer<()> + Send + Sync + 'static,
) -> Vec<RuleId> {
    broken_in(Source::with(own, hook), |run, at, graph| {
        let _ = graph.run(at, 4);
        run.stream.validate().unwrap();
    })
}

fn broken_in(source: Source, story: impl FnOnce(&Run, &mut Passive, &Graph)) -> Vec<RuleId> {
    let (events, _) = fly(3, |run, at| {
        let device = run.add(at, source);
        if let Ok(device) = device {
            if let Ok(graph) = run.open(at, device) {
                story(run, at, &graph);
                let _ = graph.close(at);
            }
            let _ = run.stream.pull_device(at, device);
        }
        run.assert_empty();
    });
    check_order(&events);
    broken(&events)
}

/// What the driver does once, in the first call of an entry.
fn once(
    entry: Entry,
    act: impl Fn(&Source, PinId) + Send + Sync + 'static,
) -> impl Fn(&Source, Entry, PinId) -> Answer<()> + Send + Sync + 'static {
    let count = Count::default();
    move |source, here, pin| {
        if here == entry && count.is(1) {
            act(source, pin);
        }
        Ok(())
    }
}

fn control() -> Mutex {
    Mutex::Control(FilterId(1).subject())
}

fn device() -> Mutex {
    Mutex::Device(DeviceId(1).subject())
}

#[test]
fn mutexes_are_not_recursive_and_have_an_order() {
    let again = broken_by(
        true,
        once(Entry::PinCreate, |it, _| {
            assert_eq!(it.services().acquire(control()), Err(Refusal::Deadlock));
        }),
    );
    assert_eq!(again, [RuleId::KS_MUTEX_001]);
    let order = broken_by(
        true,
        once(Entry::PinCreate, |it, _| {
            assert!(it.services().acquire(device()).is_err());
        }),
    );
    assert_eq!(order, [RuleId::KS_MUTEX_002]);
    let filter = broken_by(
        true,
        once(Entry::FilterCreate, |it, _| {
            assert!(it.services().acquire(control()).is_err());
            assert!(it.services().acquire(device()).is_err());
        }),
    );
    assert_eq!(filter, [RuleId::KS_MUTEX_001]);
    let processing = broken_by(
        true,
        once(Entry::PinProcess, |it, _| {
            assert!(it.services().acquire(control()).is_err());
        }),
    );
    assert_eq!(processing, [RuleId::KS_MUTEX_002, RuleId::KS_MUTEX_003]);
}

#[test]
fn mutexes_are_for_passive_level_and_are_released() {
    let level = broken_by(
        true,
        once(Entry::PointerTimedOut, |it, _| {
            assert!(it.services().acquire(control()).is_err());
        }),
    );
    assert_eq!(level, [RuleId::KS_MUTEX_005]);
    let kept = broken_by(
        true,
        once(Entry::DevicePostStart, |it, _| {
            it.services().acquire(device()).unwrap();
        }),
    );
    assert_eq!(kept, [RuleId::KS_MUTEX_005]);
    let released = broken_by(
        true,
        once(Entry::DevicePostStart, |it, _| {
            it.services().acquire(device()).unwrap();
            assert_eq!(it.services().filters(), Ok(Vec::new()));
            it.services().release(device()).unwrap();
        }),
    );
    assert_eq!(released, []);
    let foreign = broken_by(
        true,
        once(Entry::DevicePostStart, |it, _| {
            assert!(it.services().release(device()).is_err());
            assert!(it.services().filters().is_err());
            assert!(it.services().create_factory(FilterDescriptor::default()).is_err());
        }),
    );
    let rules = [RuleId::KS_DEV_003, RuleId::KS_MUTEX_004, RuleId::KS_MUTEX_005];
    assert_eq!(foreign, rules);
}

#[test]
fn waiting_is_for_passive_level_and_not_for_allocate() {
    let dispatch = broken_by(
        true,
        once(Entry::PointerTimedOut, |it, _| {
            assert_eq!(it.services().delay(10), Err(Refusal::Deadlock));
        }),
    );
    assert_eq!(dispatch, [RuleId::WT_LEVEL_001]);
    let blocks = broken_by(
        true,
        once(Entry::Allocate, |it, _| {
            it.services().delay(10).unwrap();
        }),
    );
    assert_eq!(blocks, [RuleId::KS_ALLOC_007]);
}

#[test]
fn bags_need_their_mutex_and_free_once() {
    let free = |it: &Source| it.services().make_memory(8, 0, MemoryKind::Paged).unwrap();
    let good = broken_by(
        true,
        once(Entry::PinCreate, move |it, pin| {
            let item = free(it);
            it.services().add_to_bag(BagOf::Pin(pin), item, false).unwrap();
            it.services().add_to_bag(BagOf::Filter(FilterId(1)), item, false).unwrap();
            let own = it.services().make_bag().unwrap();
            it.services().add_to_bag(own, free(it), false).unwrap();
            it.services().free_bag(own).unwrap();
        }),
    );
    assert_eq!(good, []);
    let mutex = broken_by(
        true,
        once(Entry::PinCreate, move |it, _| {
            let item = free(it);
            let bag = BagOf::Device(DeviceId(1));
            assert!(it.services().add_to_bag(bag, item, false).is_err());
            it.services().free_memory(item).unwrap();
        }),
    );
    assert_eq!(mutex, [RuleId::KS_BAG_001]);
    let shared = broken_by(
        true,
        once(Entry::PinCreate, move |it, pin| {
            let item = free(it);
            it.services().add_to_bag(BagOf::Pin(pin), item, false).unwrap();
            it.services().add_to_bag(BagOf::Filter(FilterId(1)), item, false).unwrap();
            let removed = it.services().remove_from_bag(BagOf::Pin(pin), item, true);
            assert_eq!(removed, Err(Refusal::Busy));
            assert!(it.services().free_memory(item).is_err(), "the other bag frees it");
        }),
    );
    assert_eq!(shared, [RuleId::KS_BAG_003, RuleId::KS_BAG_004]);
    let left = broken_by(
        true,
        once(Entry::PinCreate, move |it, pin| {
            let _ = it.services().make_bag();
            assert!(it.services().add_to_bag(BagOf::Pin(pin), 0x1234, false).is_err());
        }),
    );
    assert_eq!(left, [RuleId::KS_BAG_003, RuleId::KS_BAG_006]);
}

#[test]
fn an_allocator_that_leaks_or_lies_is_named() {
    let left =
        broken_by(
            true,
            |_, entry, _| {
                if entry == Entry::DeleteAllocator { Err(Refusal::Busy) } else { Ok(()) }
            },
        );
    assert_eq!(left, [RuleId::KS_ALLOC_014]);
    let failed = broken_by(true, |it, entry, _| {
        if entry == Entry::InitializeAllocator {
            it.services().make_memory(8, 0, MemoryKind::Paged);
            return Err(Refusal::NoMemory);
        }
        Ok(())
    });
    assert_eq!(failed, [RuleId::KS_ALLOC_004]);
    let late = {
        let word = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        broken_by(true, move |it, entry, _| {
            match entry {
                Entry::InitializeAllocator => {
                    let made = it.services().make_memory(8, 0, MemoryKind::Paged).unwrap();
                    word.store(made, std::sync::atomic::Ordering::Relaxed);
                }
                Entry::PinClose => {
                    let word = word.load(std::sync::atomic::Ordering::Relaxed);
                    it.services().free_memory(word).unwrap();
                }
                _ => (),
            }
            Ok(())
        })
    };
    assert_eq!(late, [RuleId::KS_ALLOC_014, RuleId::KS_ALLOC_015]);
}

#[test]
fn memory_is_not_written_after_its_frame_was_freed() {
    let word = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let written = broken_by(true, move |it, entry, pin| {
        match entry {
            Entry::PinProcess => {
                if let Some(edge) = it.services().leading_edge(pin, true) {
                    let data = it.services().memory_of(edge).unwrap();
                    it.services().write_memory(data, 0, &[1]).unwrap();
                    word.store(data, std::sync::atomic::Ordering::Relaxed);
                }
            }
            Entry::DeleteAllocator => {
                let word = word.load(std::sync::atomic::Ordering::Relaxed);
                assert!(it.services().write_memory(word, 0, &[2]).is_err());
            }
            _ => (),
        }
        Ok(())
    });
    assert_eq!(written, [RuleId::KS_ALLOC_011]);
}

#[test]
fn clones_that_are_left_are_named_and_deleted_by_force() {
    let count = Count::default();
    let left = broken_by(true, move |it, entry, _| {
        if entry == Entry::PinSetDeviceState && count.is(4) {
            it.forget_clones(); // On the way back.
        }
        Ok(())
    });
    let rules = [RuleId::KS_PTR_005, RuleId::KS_PTR_012, RuleId::KS_STATE_007];
    assert_eq!(left, rules);
}

#[test]
fn pointers_are_used_while_they_are_there_and_locked() {
    let twice = broken_by(
        true,
        once(Entry::PinProcess, |it, pin| {
            let services = it.services();
            let edge = services.leading_edge(pin, true).unwrap();
            let clone = services.clone_pointer(edge, false).unwrap();
            services.delete_pointer(clone).unwrap();
            assert!(services.delete_pointer(clone).is_err());
            assert!(services.delete_pointer(edge).is_err(), "it is an edge");
        }),
    );
    assert_eq!(twice, [RuleId::KS_PTR_003, RuleId::KS_PTR_004]);
    let unlocked = broken_by(
        true,
        once(Entry::PinProcess, |it, pin| {
            let services = it.services();
            let edge = services.leading_edge(pin, false).unwrap();
            assert!(services.write(edge, 0, &[1]).is_err());
            assert!(services.memory_of(edge).is_none());
            assert!(services.advance_offsets(edge, 1, false).is_err());
            assert!(services.trailing_edge(pin, false).is_none());
        }),
    );
    let rules = [RuleId::KS_PTR_001, RuleId::KS_PTR_008, RuleId::KS_PTR_009, RuleId::KS_PTR_010];
    assert_eq!(unlocked, rules);
    let beyond = broken_by(
        true,
        once(Entry::PinProcess, |it, pin| {
            let edge = it.services().leading_edge(pin, true).unwrap();
            assert!(it.services().advance_offsets(edge, BYTES + 1, false).is_err());
        }),
    );
    assert_eq!(beyond, [RuleId::KS_PTR_008]);
    let used = broken_by(
        true,
        once(Entry::PinProcess, |it, pin| {
            let services = it.services();
            let edge = services.leading_edge(pin, true).unwrap();
            let header = Header { used: BYTES + 1, ..Header::default() };
            services.set_header(edge, header).unwrap();
            services.advance(edge).or_else(fell).unwrap();
        }),
    );
    assert_eq!(used, [RuleId::KS_PTR_014]);
}

#[test]
fn what_was_closed_is_not_used() {
    let closed = broken_by(true, |it, entry, _| {
        if entry == Entry::FilterClose {
            assert!(it.services().attempt_processing(PinId(1)).is_err());
        }
        Ok(())
    });
    assert_eq!(closed, [RuleId::KS_PIN_004]);
    let made_up = broken_by(
        true,
        once(Entry::PinProcess, |it, _| {
            assert!(it.services().attempt_processing(PinId(0)).is_err());
        }),
    );
    assert_eq!(made_up, [RuleId::KS_PROC_004]);
}

#[test]
fn a_gate_is_only_turned_as_far_as_it_goes() {
    let gate = broken_by(
        true,
        once(Entry::PinCreate, |it, pin| {
            let services = it.services();
            assert!(services.turn_gate_input(pin, true).is_err());
            assert!(services.turn_gate_input(pin, false).is_err());
            services.add_gate_input(pin, true).unwrap();
            services.turn_gate_input(pin, false).unwrap();
            services.turn_gate_input(pin, true).unwrap();
        }),
    );
    assert_eq!(gate, [RuleId::KS_PROC_006]);
}

#[test]
fn a_cancel_callback_deletes_its_clone_and_leaves_the_queue() {
    let cancel = |hook: fn(&Source, Entry, PinId) -> Answer<()>| {
        // Clones that are not locked can be cancelled.
        let source = Source::with(true, move |it, entry, pin| {
            if entry == Entry::PointerCancelled {
                return hook(it, entry, pin);
            }
            Ok(())
        });
        broken_in(source, |run, at, graph| {
            let _ = graph.run(at, 1);
            let services = run.stream.services(DeviceId(1)).unwrap();
            for clone in services.clones(graph.pin).unwrap() {
                services.unlock(clone, false).unwrap();
            }
            run.stream.cancel_frames(at, graph.pin).unwrap();
            run.stream.validate().unwrap();
        })
    };
    assert_eq!(cancel(|_, _, _| Ok(())), []);
    let kept = cancel(|_, _, _| Err(Refusal::Busy));
    assert_eq!(kept, [RuleId::KS_PTR_004, RuleId::KS_PTR_007], "it uses what it kept");
    let works = cancel(|it, _, pin| {
        assert!(it.services().leading_edge(pin, true).is_none());
        let control = Mutex::Control(FilterId(1).subject());
        assert!(it.services().acquire(control).is_err());
        Ok(())
    });
    assert_eq!(works, [RuleId::KS_MUTEX_005, RuleId::KS_PTR_007]);
}

#[test]
fn success_without_progress_and_a_stall_are_named() {
    struct Idle(Source, Answer<()>);
    impl Minidriver for Idle {
        fn stands_on(&self) -> Option<&dyn Minidriver> {
            Some(&self.0)
        }
        fn process_pin(&self, _pin: &PinView) -> Answer<()> {
            self.1
        }
    }
    for (answer, rules) in [
        (Ok(()), vec![RuleId::KS_PROC_001, RuleId::KS_PROC_002]),
        (Err(Refusal::Pending), vec![RuleId::KS_PROC_002]),
    ] {
        let (events, _) = fly(0, |run, at| {
            let minidriver = Arc::new(Idle(Source::new(true), answer));
            let plugged = Plugged { minidriver, memory: run.memory.clone() };
            let device = run.stream.add_device(at, plugged).unwrap();
            let graph = run.open(at, device).unwrap();
            assert_eq!(graph.run(at, 1), Err(Refused::Stuck));
            run.stream.pull_device(at, device).unwrap();
            run.assert_empty();
        });
        assert_eq!(broken(&events), rules);
    }
}

#[test]
fn a_pending_request_is_marked_and_completed_once() {
    let unmarked =
        broken_by(
            true,
            |_, entry, _| {
                if entry == Entry::PinConnect { Err(Refusal::Pending) } else { Ok(()) }
            },
        );
    assert_eq!(unmarked, [RuleId::KS_PIN_012]);
    let start =
        broken_by(
            true,
            |_, entry, _| {
                if entry == Entry::DeviceStart { Err(Refusal::Pending) } else { Ok(()) }
            },
        );
    assert_eq!(start, [RuleId::KS_DEV_001]);
    let format = broken_by(true, |_, entry, _| {
        if entry == Entry::PinSetDataFormat { Err(Refusal::Pending) } else { Ok(()) }
    });
    assert_eq!(format, [RuleId::KS_PIN_006]);
    let never =
        broken_by(
            true,
            |_, entry, _| {
                if entry == Entry::PinCreate { Err(Refusal::Pending) } else { Ok(()) }
            },
        );
    assert_eq!(never, [RuleId::KS_PIN_002]);
    let good = broken_by(true, |it, entry, pin| {
        if entry == Entry::PinCreate {
            it.services().mark_pending(pin.subject()).unwrap();
            it.services().complete_pending(pin.subject(), Ok(()), 0xa0).unwrap();
            return Err(Refusal::Pending);
        }
        Ok(())
    });
    assert_eq!(good, []);
    let twice = broken_by(true, |it, entry, _| {
        if entry == Entry::FilterCreate {
            let filter = FilterId(1).subject();
            it.services().mark_pending(filter).unwrap();
            it.services().complete_pending(filter, Ok(()), 0xf0).unwrap();
            assert!(it.services().complete_pending(filter, Ok(()), 0xf0).is_err());
            return Err(Refusal::Pending);
        }
        Ok(())
    });
    assert_eq!(twice, [RuleId::KS_DEV_004]);
}

#[test]
fn a_format_that_grows_needs_a_framing_that_grows() {
    let large = Format { sample: BYTES * 2, ..format() };
    for (edits, rules) in [(false, vec![RuleId::KS_FRAMING_005]), (true, vec![])] {
        let source = Source::with(false, move |it, entry, pin| {
            if entry == Entry::PinSetDataFormat && edits {
                let simple = SimpleFraming {
                    frames: 2,
                    bytes: BYTES * 2,
                    system: true,
                    ..Default::default()
                };
                let framing = Some(FramingForm::Simple(simple));
                it.services().edit_framing(pin, framing).unwrap();
            }
            Ok(())
        });
        let large = large.clone();
        let broken = broken_in(source, |run, at, graph| {
            run.stream.set_format(at, graph.pin, &large).unwrap();
        });
        assert_eq!(broken, rules);
    }
    let crooked = broken_by(
        false,
        once(Entry::PinCreate, |it, pin| {
            let item = FramingItem { alignment: 6, ..FramingItem::default() };
            let framing = FramingForm::Extended(ExtendedFraming::new(vec![item]));
            assert!(it.services().edit_framing(pin, Some(framing)).is_err());
        }),
    );
    assert_eq!(crooked, [RuleId::KS_FRAMING_002], "an edit is judged as the first one");
    let unheld = broken_by(
        false,
        once(Entry::PinProcess, |it, pin| {
            assert!(it.services().edit_framing(pin, None).is_err());
        }),
    );
    assert_eq!(unheld, [RuleId::KS_BAG_005]);
}

#[test]
fn a_client_closes_pins_before_their_filter() {
    let broken = broken_in(Source::new(true), |run, at, graph| {
        let closed = run.stream.close_filter(at, graph.filter);
        assert_eq!(closed, Err(Refused::PinsOpen(graph.filter.subject())));
    });
    assert_eq!(broken, [RuleId::KS_PIN_013]);
}

/// Why a source is refused whose descriptor was changed, and which rules that breaks.
fn refused(own: bool, change: impl FnOnce(&mut PinDescriptor)) -> (String, Vec<RuleId>) {
    let mut why = String::new();
    let (events, _) = fly(0, |run, at| {
        let mut source = Source::new(own);
        change(&mut source.descriptor.filters[0].pins[0]);
        why = run.add(at, source).unwrap_err().to_string();
        run.assert_empty();
    });
    (why, broken(&events))
}

fn with_item(change: impl FnOnce(&mut FramingItem)) -> (String, Vec<RuleId>) {
    refused(true, |pin| {
        let Some(FramingForm::Extended(framing)) = &mut pin.framing else { return };
        change(&mut framing.items[0]);
    })
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let check = |(why, rules): (String, Vec<RuleId>), said: &str, rule: &[RuleId]| {
        assert!(why.contains(said), "{why}");
        assert_eq!(rules, rule, "{why}");
    };
    check(with_item(|it| it.frames = 0), "zero frames", &[]);
    check(with_item(|it| it.alignment = 5), "power of two", &[RuleId::KS_FRAMING_002]);
    check(with_item(|it| it.framing.least = 99), "from 99 to 64", &[RuleId::KS_FRAMING_002]);
    let overlap = refused(true, |pin| {
        let Some(FramingForm::Extended(framing)) = &mut pin.framing else { return };
        framing.items.push(framing.items[0]);
        framing.count = 2;
    });
    check(overlap, "overlap", &[]);
    let count = refused(true, |pin| {
        let Some(FramingForm::Extended(framing)) = &mut pin.framing else { return };
        framing.count = 2;
    });
    check(count, "has 1", &[RuleId::KS_FRAMING_001]);
    let missing = refused(true, |pin| pin.allocator = Some(Entry::ALLOCATOR[..3].to_vec()));
    check(missing, "AVStrMiniDeleteAllocator", &[RuleId::KS_ALLOC_017]);
    let none = refused(true, |pin| pin.allocator = None);
    check(none, "has no allocator", &[RuleId::KS_FRAMING_003]);
    let reserved = refused(false, |pin| {
        let Some(FramingForm::Simple(framing)) = &mut pin.framing else { return };
        framing.reserved = 1;
    });
    check(reserved, "Reserved", &[RuleId::KS_FRAMING_004]);
    let both = refused(false, |pin| {
        pin.flags = vec![PinFlag::CriticalProcessing, PinFlag::HypercriticalProcessing];
    });
    check(both, "exclude each other", &[RuleId::KS_PIN_010]);
    let unprocessed = refused(false, |pin| {
        pin.flags = vec![PinFlag::DoNotInitiateProcessing];
        pin.dispatch.retain(|it| *it != Entry::PinProcess);
    });
    check(unprocessed, "process routine", &[RuleId::KS_PIN_011]);
}

#[test]
fn the_default_allocator_is_for_system_memory() {
    let mut source = Source::new(false);
    if let Some(FramingForm::Simple(it)) = &mut source.descriptor.filters[0].pins[0].framing {
        it.system = false;
    }
    assert_eq!(broken_in(source, |_, _, _| ()), [RuleId::KS_ALLOC_025]);
}

/// A driver whose allocator does something else.
struct Crooked(Source, Bend, std::sync::Mutex<usize>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bend {
    NoContext,
    SharedContext,
    Short,
    Crooked,
    Paged,
    Twice,
}

impl Minidriver for Crooked {
    fn stands_on(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn initialize_allocator(
        &self,
        at: &mut Passive,
        pin: &PinView,
        framing: &Framing,
        word: Blank<'_, AllocatorId>,
    ) -> Answer<DriverAllocator> {
        match self.1 {
            Bend::NoContext => Ok(word.fill(0)),
            Bend::SharedContext => Ok(word.fill(0x77)),
            _ => self.0.initialize_allocator(at, pin, framing, word),
        }
    }

    fn allocate(
        &self,
        _allocator: &DriverAllocator,
        word: Blank<'_, FrameId>,
    ) -> Option<DriverFrame> {
        let services = self.0.services();
        let make = |bytes, kind| services.make_memory(bytes, 15, kind);
        match self.1 {
            Bend::NoContext | Bend::SharedContext => {
                Some(word.fill(make(BYTES, MemoryKind::NonPaged)?))
            }
            Bend::Short => Some(word.fill(make(BYTES - 1, MemoryKind::NonPaged)?)),
            Bend::Paged => Some(word.fill(make(BYTES, MemoryKind::Paged)?)),
            Bend::Crooked => Some(word.fill(make(BYTES + 1, MemoryKind::NonPaged)? + 1)),
            Bend::Twice => {
                // The same for ever.
                let mut kept = self.2.lock().unwrap();
                let frame = match *kept {
                    0 => make(BYTES, MemoryKind::NonPaged)?,
                    frame => frame,
                };
                *kept = frame;
                Some(word.fill(frame))
            }
        }
    }

    fn free_frame(&self, _allocator: &DriverAllocator, frame: DriverFrame) {
        let word = frame.word() & !1;
        let _ = self.0.services().free_memory(word);
    }
}

fn crooked(bend: Bend) -> Vec<RuleId> {
    let (events, _) = fly(0, |run, at| {
        let mut source = Source::new(true);
        source.descriptor.filters[0].pins[0].possible = 2;
        let crooked = Crooked(source, bend, std::sync::Mutex::new(0));
        let plugged = Plugged { minidriver: Arc::new(crooked), memory: run.memory.clone() };
        let device = run.stream.add_device(at, plugged).unwrap();
        let graph = run.open(at, device).unwrap();
        let other = run.stream.create_pin(at, graph.filter, 0, &format()).unwrap();
        if bend == Bend::SharedContext {
            run.stream.connect(at, other, &Wish::default()).unwrap();
        }
        let _ = run.stream.set_state(at, graph.pin, State::Acquire);
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    broken(&events)
}

#[test]
fn frames_and_contexts_that_are_not_as_asked_for_are_named() {
    assert_eq!(crooked(Bend::NoContext), [RuleId::KS_ALLOC_003]);
    assert_eq!(crooked(Bend::SharedContext), [RuleId::KS_ALLOC_003]);
    assert_eq!(crooked(Bend::Short), [RuleId::KS_ALLOC_006]);
    assert_eq!(crooked(Bend::Crooked), [RuleId::KS_ALLOC_006]);
    assert_eq!(crooked(Bend::Paged), [RuleId::KS_ALLOC_006]);
    assert_eq!(crooked(Bend::Twice), [RuleId::KS_ALLOC_008]);
}

#[test]
fn a_device_leaves_nothing() {
    let left = broken_by(
        true,
        once(Entry::DeviceStart, |it, _| {
            it.services().make_memory(8, 0, MemoryKind::Paged);
        }),
    );
    assert_eq!(left, [RuleId::KS_DEV_006]);
}

#[test]
fn a_lock_that_failed_is_not_ignored() {
    let broken = broken_in(Source::new(true), |run, at, graph| {
        let _ = graph.run(at, 1);
        let services = run.stream.services(DeviceId(1)).unwrap();
        let clone = services.clones(graph.pin).unwrap()[0];
        let mine = services.clone_pointer(clone, false).unwrap();
        for clone in services.clones(graph.pin).unwrap() {
            services.unlock(clone, false).unwrap();
        }
        run.stream.cancel_frames(at, graph.pin).unwrap();
        assert_eq!(services.lock(mine), Err(Refusal::NotReady));
        assert!(services.write(mine, 0, &[1]).is_err());
        services.delete_pointer(mine).unwrap();
    });
    assert_eq!(broken, [RuleId::KS_PTR_002]);
}

#[test]
fn only_one_process_routine_is_there() {
    let (events, _) = fly(0, |run, at| {
        let mut source = Source::new(true);
        source.descriptor.filters[0].dispatch.push(Entry::FilterProcess);
        assert!(matches!(run.add(at, source), Err(Refused::Descriptor(_))));
    });
    assert_eq!(broken(&events), [RuleId::KS_PROC_005]);
}

#[test]
fn frames_of_the_other_side_may_be_smaller() {
    let wish = Wish { user: true, short: true, ..Wish::default() };
    let fly_it = |copes: bool| {
        let source = Source::with(false, move |it, entry, pin| {
            if entry == Entry::PinProcess && !copes {
                let edge = it.services().leading_edge(pin, true).unwrap();
                assert!(it.services().write(edge, 0, &pattern(0)).is_err());
            }
            Ok(())
        });
        let (events, _) = fly(0, |run, at| {
            let device = run.add(at, source).unwrap();
            let graph = Graph::open(&run.stream, at, device, &format(), &wish).unwrap();
            assert_eq!(graph.run(at, 1).unwrap()[0].bytes.len(), BYTES as usize / 2);
            run.stream.remove_device(at, device).unwrap();
            run.assert_empty();
        });
        broken(&events)
    };
    assert_eq!(fly_it(true), []);
    assert_eq!(fly_it(false), [RuleId::KS_FRAMING_007]);
}

#[test]
fn a_mutex_that_a_thread_of_the_driver_keeps_ends_nothing_else() {
    for mutex in [device(), control()] {
        let (events, _) = fly(1, |run, at| {
            let source = Arc::new(Source::new(true));
            let device = run.add_shared(at, source.clone()).unwrap();
            let graph = run.open(at, device).unwrap();
            graph.run(at, 2).unwrap();
            let ended = run.host.spawn("a thread of the driver", move |_| {
                source.services().acquire(mutex).unwrap();
            });
            run.host.park(at, &ended, None);
            run.stream.pull_device(at, device).unwrap();
            run.assert_empty();
        });
        check_order(&events);
        let deletes =
            events.iter().filter(|it| matches!(&it.what, flight::What::AllocatorDeleted { .. }));
        assert_eq!(deletes.count(), 1);
        assert_eq!(broken(&events), [RuleId::KS_MUTEX_005]);
    }
}
