//! Mutexes and waits.

use super::*;

fn control() -> KsMutex {
    KsMutex::Control(Kind::Filter.subject(1))
}

fn device() -> KsMutex {
    KsMutex::Device(Kind::KsDevice.subject(1))
}

#[test]
fn mutexes_are_not_recursive_and_have_an_order() {
    let again = broken_by(
        true,
        once(Entry::PinCreate, |it, _| {
            assert_eq!(it.services().acquire(control()), Err(DriverError::Deadlock));
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
        }),
    );
    assert_eq!(filter, [RuleId::KS_MUTEX_001]);
    let nested = broken_by(
        true,
        once(Entry::DeviceStart, |it, _| {
            assert_eq!(it.services().acquire(device()), Ok(()));
            assert_eq!(it.services().acquire(device()), Ok(()));
            assert_eq!(it.services().release(device()), Ok(()));
            assert_eq!(it.services().release(device()), Ok(()));
            assert!(it.services().release(device()).is_err(), "the class driver's");
        }),
    );
    assert_eq!(nested, [RuleId::KS_MUTEX_005, RuleId::KS_MUTEX_006]);
    let kept = broken_by(
        true,
        once(Entry::DeviceStart, |it, _| {
            assert_eq!(it.services().acquire(device()), Ok(()));
        }),
    );
    assert_eq!(kept, [RuleId::KS_MUTEX_005, RuleId::KS_MUTEX_006]);
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
    let client_frames = broken_by(
        true,
        once(Entry::DevicePostStart, |it, _| {
            assert!(it.services().release(device()).is_err());
            assert!(it.services().filters().is_err());
            assert!(it.services().create_factory(FilterDescriptor::default()).is_err());
        }),
    );
    let rules = [RuleId::KS_DEV_003, RuleId::KS_MUTEX_004, RuleId::KS_MUTEX_005];
    assert_eq!(client_frames, rules);
}

#[test]
fn waiting_is_for_passive_level_and_not_for_allocate() {
    let dispatch = broken_by(
        true,
        once(Entry::PointerTimedOut, |it, _| {
            assert_eq!(it.services().delay(10), Err(DriverError::Deadlock));
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
            run.stream.surprise_remove_device(at, device).unwrap();
            run.assert_empty();
        });
        check_order(&events);
        let deletes = events
            .iter()
            .filter(|event| matches!(&event.kind, flight::EventKind::AllocatorDeleted { .. }));
        assert_eq!(deletes.count(), 1);
        assert_eq!(broken(&events), [RuleId::KS_MUTEX_005]);
    }
}

#[test]
fn a_thread_waiting_when_the_run_ends_acquires_no_mutex() {
    let answers = Arc::new(std::sync::Mutex::new(Vec::new()));
    let has_cancel_callback = answers.clone();
    let (events, _) = fly(1, |run, at| {
        let source = Arc::new(Source::new(true));
        let device = run.add_shared(at, source.clone()).unwrap();
        let graph = run.open(at, device).unwrap();
        let ended = run.host.spawn("a thread of the driver", move |_| {
            source.services().acquire(control()).unwrap();
        });
        run.host.park(at, &ended, None);
        let (stream, pin) = (run.stream.clone(), graph.pin);
        let mut once = true;
        run.host.spawn_worker("worker", work_available(), move |at| {
            if std::mem::take(&mut once) {
                has_cancel_callback.lock().unwrap().push(stream.close_pin(at, pin));
            }
            false
        });
        run.host.run_until_idle(at);
    });
    assert_eq!(*answers.lock().unwrap(), [Err(StreamError::HostEnded)]);
    assert_eq!(broken(&events), []);
}
