//! Illegal behaviour of a minidriver is refused and reported, and leaves nothing behind.

use crate::tests::source::*;
use crate::*;
use flight::{Kind, Passive, RuleId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

mod allocators;
mod descriptors;
mod mutexes;
mod pointers;

/// Flies a source that does something in its calls. Returns the rules that it broke.
fn broken_by(
    own: bool,
    hook: impl Fn(&Source, Entry, PinId) -> DriverResult<()> + Send + Sync + 'static,
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
            let _ = run.stream.surprise_remove_device(at, device);
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
) -> impl Fn(&Source, Entry, PinId) -> DriverResult<()> + Send + Sync + 'static {
    let count = Count::default();
    move |source, here, pin| {
        if here == entry && count.is(1) {
            act(source, pin);
        }
        Ok(())
    }
}

#[test]
fn bags_need_their_mutex_and_free_once() {
    let free =
        |source: &Source| source.services().allocate_memory(8, 0, MemoryKind::Paged).unwrap();
    let good = broken_by(
        true,
        once(Entry::PinCreate, move |it, pin| {
            let item = free(it);
            it.services().add_to_bag(BagOwner::Pin(pin), item, false).unwrap();
            let filter = it.services().pin_view(pin).unwrap().filter;
            it.services().add_to_bag(BagOwner::Filter(filter), item, false).unwrap();
            let own = it.services().create_bag().unwrap();
            it.services().add_to_bag(own, free(it), false).unwrap();
            it.services().free_bag(own).unwrap();
        }),
    );
    assert_eq!(good, []);
    let mutex = broken_by(
        true,
        once(Entry::PinCreate, move |it, _| {
            let item = free(it);
            let bag = BagOwner::Device(it.services().device());
            assert!(it.services().add_to_bag(bag, item, false).is_err());
            it.services().free_memory(item).unwrap();
        }),
    );
    assert_eq!(mutex, [RuleId::KS_BAG_001]);
    let shared = broken_by(
        true,
        once(Entry::PinCreate, move |it, pin| {
            let item = free(it);
            it.services().add_to_bag(BagOwner::Pin(pin), item, false).unwrap();
            let filter = it.services().pin_view(pin).unwrap().filter;
            it.services().add_to_bag(BagOwner::Filter(filter), item, false).unwrap();
            let removed = it.services().remove_from_bag(BagOwner::Pin(pin), item, true);
            assert_eq!(removed, Err(DriverError::Busy));
            assert!(it.services().free_memory(item).is_err(), "the other bag frees it");
        }),
    );
    assert_eq!(shared, [RuleId::KS_BAG_003, RuleId::KS_BAG_004]);
    let left = broken_by(
        true,
        once(Entry::PinCreate, move |it, pin| {
            let _ = it.services().create_bag();
            assert!(it.services().add_to_bag(BagOwner::Pin(pin), 0x1234, false).is_err());
        }),
    );
    assert_eq!(left, [RuleId::KS_BAG_003, RuleId::KS_BAG_006]);
}

#[test]
fn the_bag_of_what_was_closed_takes_nothing() {
    let answers = Arc::new(std::sync::Mutex::new(Vec::new()));
    let has_cancel_callback = answers.clone();
    let ended = std::sync::Mutex::new(Vec::new());
    let hook = move |source: &Source, entry: Entry, pin: PinId| {
        let (bags, mutex) = match entry {
            Entry::FilterCreate => {
                let own = source.services().create_bag()?;
                source.services().free_bag(own)?;
                ended.lock().unwrap().push(own);
                return Ok(());
            }
            Entry::PinCreate => {
                let filter = source.services().pin_view(pin).unwrap().filter;
                ended.lock().unwrap().extend([BagOwner::Pin(pin), BagOwner::Filter(filter)]);
                return Ok(());
            }
            // The filter's bag is still there.
            Entry::FilterClose => (ended.lock().unwrap()[..2].to_vec(), None),
            Entry::DevicePostStart => {
                (vec![BagOwner::Device(DeviceId::NULL), BagOwner::Pin(PinId::NULL)], None)
            }
            // The object whose mutex it can have.
            Entry::DeviceRemove => {
                (vec![ended.lock().unwrap()[2]], Some(KsMutex::Control(Kind::Filter.subject(1))))
            }
            _ => return Ok(()),
        };
        if let Some(mutex) = mutex {
            source.services().acquire(mutex)?;
        }
        for bag in bags {
            let item = source.services().allocate_memory(8, 0, MemoryKind::Paged).unwrap();
            let added = source.services().add_to_bag(bag, item, false);
            has_cancel_callback.lock().unwrap().push((bag, added));
            source.services().free_memory(item)?;
        }
        mutex.map_or(Ok(()), |mutex| source.services().release(mutex))
    };
    assert_eq!(broken_by(true, hook), [RuleId::KS_BAG_001]);
    let all = answers.lock().unwrap();
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|(_, it)| *it == Err(DriverError::Invalid)), "{all:?}");
}

#[test]
fn what_was_closed_is_not_used() {
    let kept = std::sync::Mutex::new(PinId::NULL);
    let closed = broken_by(true, move |it, entry, pin| {
        if entry == Entry::PinClose {
            *kept.lock().unwrap() = pin;
        }
        if entry == Entry::FilterClose {
            let pin = *kept.lock().unwrap();
            assert!(it.services().attempt_processing(pin).is_err());
        }
        Ok(())
    });
    assert_eq!(closed, [RuleId::KS_PIN_004]);
    let made_up = broken_by(
        true,
        once(Entry::PinProcess, |it, _| {
            assert!(it.services().attempt_processing(PinId::NULL).is_err());
        }),
    );
    assert_eq!(made_up, [RuleId::KS_PROC_004]);
}

#[test]
fn a_gate_is_only_turned_as_far_as_it_goes() {
    let gate_inputs = broken_by(
        true,
        once(Entry::PinCreate, |it, pin| {
            let services = it.services();
            assert!(services.set_gate_input(pin, true).is_err());
            assert!(services.set_gate_input(pin, false).is_err());
            services.add_gate_input(pin, true).unwrap();
            services.set_gate_input(pin, false).unwrap();
            services.set_gate_input(pin, true).unwrap();
        }),
    );
    assert_eq!(gate_inputs, [RuleId::KS_PROC_006]);
}

#[test]
fn success_without_progress_and_a_stall_are_reported() {
    struct Idle(Source, DriverResult<()>);
    impl Minidriver for Idle {
        fn delegate(&self) -> Option<&dyn Minidriver> {
            Some(&self.0)
        }
        fn process_pin(&self, _pin: &PinView) -> DriverResult<()> {
            self.1
        }
    }
    for (answer, rules) in [
        (Ok(()), vec![RuleId::KS_PROC_001, RuleId::KS_PROC_002]),
        (Err(DriverError::Pending), vec![RuleId::KS_PROC_002]),
    ] {
        let (events, _) = fly(0, |run, at| {
            let minidriver = Arc::new(Idle(Source::new(true), answer));
            let plugged = DriverSetup { minidriver, memory: run.memory.clone() };
            let device = run.stream.add_device(at, plugged).unwrap();
            let graph = run.open(at, device).unwrap();
            assert_eq!(graph.run(at, 1), Err(StreamError::Stuck));
            run.stream.surprise_remove_device(at, device).unwrap();
            run.assert_empty();
        });
        assert_eq!(broken(&events), rules);
    }
}

#[test]
fn a_driver_is_told_of_a_surprise_removal_before_its_device_is_removed() {
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let entries = heard.clone();
    let broken = broken_by(true, move |_, entry, _| {
        if let Entry::DeviceSurpriseRemoval | Entry::DeviceRemove = entry {
            entries.lock().unwrap().push(entry);
        }
        Ok(())
    });
    assert_eq!(broken, []);
    assert_eq!(*heard.lock().unwrap(), [Entry::DeviceSurpriseRemoval, Entry::DeviceRemove]);
}

/// A driver that processes filters may return success without progress once, not twice; what it
/// moved before does not count.
#[test]
fn a_filter_without_progress_is_reported_after_its_second_call() {
    struct Idle(Source, u32, AtomicU32);
    impl Minidriver for Idle {
        fn delegate(&self) -> Option<&dyn Minidriver> {
            Some(&self.0)
        }
        fn process_filter(&self, _filter: FilterId, pins: &mut [ProcessPin]) -> DriverResult<()> {
            if self.2.fetch_add(1, SeqCst) < self.1 {
                for pin in pins {
                    pin.used = pin.available;
                }
            }
            Ok(())
        }
    }
    for moving in [0, 1] {
        let mut source = Source::new(false);
        let filter = &mut source.descriptor.filters[0];
        filter.dispatch.push(Entry::FilterProcess);
        filter.pins[0].dispatch.retain(|entry| *entry != Entry::PinProcess);
        let called = Arc::new(Idle(source, moving, AtomicU32::new(0)));
        let minidriver = called.clone();
        let (events, _) = fly(0, |run, at| {
            let plugged = DriverSetup { minidriver, memory: run.memory.clone() };
            let device = run.stream.add_device(at, plugged).unwrap();
            let graph = run.open(at, device).unwrap();
            assert_eq!(graph.run(at, 4).err(), Some(StreamError::Stuck));
            run.stream.surprise_remove_device(at, device).unwrap();
            run.assert_empty();
        });
        assert_eq!(broken(&events), [RuleId::KS_PROC_001, RuleId::KS_PROC_002], "{moving}");
        assert_eq!(called.2.load(SeqCst), moving + 2);
    }
}

#[test]
fn a_pending_request_is_marked_and_completed_once() {
    let unmarked = broken_by(true, |_, entry, _| {
        if entry == Entry::PinConnect { Err(DriverError::Pending) } else { Ok(()) }
    });
    assert_eq!(unmarked, [RuleId::KS_PIN_012]);
    let start = broken_by(true, |_, entry, _| {
        if entry == Entry::DeviceStart { Err(DriverError::Pending) } else { Ok(()) }
    });
    assert_eq!(start, [RuleId::KS_DEV_001]);
    let format = broken_by(true, |_, entry, _| {
        if entry == Entry::PinSetDataFormat { Err(DriverError::Pending) } else { Ok(()) }
    });
    assert_eq!(format, [RuleId::KS_PIN_006]);
    let never =
        broken_by(
            true,
            |_, entry, _| {
                if entry == Entry::PinCreate { Err(DriverError::Pending) } else { Ok(()) }
            },
        );
    assert_eq!(never, [RuleId::KS_PIN_002]);
    let good = broken_by(true, |it, entry, pin| {
        if entry == Entry::PinCreate {
            it.services().mark_pending(pin.subject()).unwrap();
            it.services().complete_pending(pin.subject(), Ok(()), 0xa0).unwrap();
            return Err(DriverError::Pending);
        }
        Ok(())
    });
    assert_eq!(good, []);
    let twice = broken_by(true, |it, entry, _| {
        if entry == Entry::FilterCreate {
            let filter = Kind::Filter.subject(1);
            it.services().mark_pending(filter).unwrap();
            it.services().complete_pending(filter, Ok(()), 0xf0).unwrap();
            assert!(it.services().complete_pending(filter, Ok(()), 0xf0).is_err());
            return Err(DriverError::Pending);
        }
        Ok(())
    });
    assert_eq!(twice, [RuleId::KS_DEV_004]);
}

#[test]
fn a_client_closes_pins_before_their_filter() {
    let broken = broken_in(Source::new(true), |run, at, graph| {
        let closed = run.stream.close_filter(at, graph.filter);
        assert_eq!(closed, Err(StreamError::PinsOpen(graph.filter.subject())));
    });
    assert_eq!(broken, [RuleId::KS_PIN_013]);
}

#[test]
fn a_device_leaves_nothing() {
    let left = broken_by(
        true,
        once(Entry::DeviceStart, |it, _| {
            it.services().allocate_memory(8, 0, MemoryKind::Paged);
        }),
    );
    assert_eq!(left, [RuleId::KS_DEV_006]);
}
