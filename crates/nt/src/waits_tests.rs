#![expect(unsafe_code, reason = "acts as a driver with its own memory")]

use super::*;
use crate::processor::{run_driver, set_level};
use flight::{DeterministicHost, Passive};

fn fly(body: impl FnOnce(&Arc<DeterministicHost>, &Arc<Log>, &mut Passive)) -> Vec<String> {
    let log = Arc::new(Log::new());
    DeterministicHost::fly(1, &log, |host, at| body(host, &log, at)).unwrap();
    let waits = |event: flight::Event| match event.kind {
        EventKind::DriverWaited { object: what, ended } => Some(format!("{what} {ended}")),
        _ => None,
    };
    log.take().into_iter().filter_map(waits).collect()
}

fn driver<R>(host: &Arc<DeterministicHost>, log: &Arc<Log>, body: impl FnOnce() -> R) -> R {
    let host: Arc<dyn Host> = host.clone();
    run_driver(&host, log, body).0
}

const SET: WaitEnd = WaitEnd::Satisfied(0);

/// Waits for an event; the timeout is Windows's.
fn wait(event: ObjectMemory, timeout: Option<i64>) -> WaitEnd {
    super::wait("KeWaitForSingleObject", &[event], false, timeout)
}

fn set(event: ObjectMemory) -> i32 {
    change("KeSetEvent", event, |_| event.set_signal_state(1)).unwrap_or(0)
}

/// The address of a new event.
fn new_event(auto_reset: bool, set: bool) -> usize {
    let memory = Box::leak(Box::new([0_u64; 3]));
    let address = memory.as_mut_ptr().expose_provenance();
    let kind =
        if auto_reset { ObjectKind::SynchronizationEvent } else { ObjectKind::NotificationEvent };
    initialize(event_at(address), kind, i32::from(set));
    address
}

/// The event at an address of `new_event`.
fn event_at(address: usize) -> ObjectMemory {
    let memory = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: The memory of a new event has 24 bytes and is never freed.
    unsafe { ObjectMemory::at(memory) }.unwrap()
}

#[test]
fn a_wait_ends_when_another_thread_sets_the_event() {
    let text = fly(|host, log, at| {
        let address = new_event(true, false);
        let (there, logged) = (host.clone(), log.clone());
        let end = host.spawn("dpc", move |_| {
            driver(&there, &logged, || {
                set_level("a test", Irql::Dispatch);
                assert_eq!(set(event_at(address)), 0);
            });
        });
        driver(host, log, || {
            assert_eq!(wait(event_at(address), None), SET);
            assert_eq!(wait(event_at(address), Some(0)), WaitEnd::TimedOut, "it is used up");
        });
        host.park(at, &end, None);
    });
    assert_eq!(text, ["KeWaitForSingleObject set at dispatch"]);
}

#[test]
fn what_is_set_is_not_waited_for() {
    let text = fly(|host, log, _| {
        let event = event_at(new_event(false, true));
        driver(host, log, || {
            assert_eq!(wait(event, None), SET);
            assert_eq!(wait(event, None), SET, "it stays set");
            assert_eq!(set(event), 1);
        });
    });
    assert!(text.is_empty(), "{text:?}");
}

#[test]
fn time_passes_and_a_wait_for_nothing_ends() {
    let text = fly(|host, log, _| {
        let memory = Box::leak(Box::new([0_u64; 3]));
        let unused = event_at(memory.as_mut_ptr().expose_provenance());
        let event = event_at(new_event(false, false));
        driver(host, log, || {
            assert_eq!(delay(-10), SET);
            assert_eq!(wait(event, Some(-10)), WaitEnd::TimedOut);
            assert_eq!(wait(event, None), WaitEnd::Failed, "no thread sets it");
            assert_eq!(wait(unused, None), WaitEnd::Failed, "it is not initialised");
        });
    });
    let (delay, wait) = ("KeDelayExecutionThread", "KeWaitForSingleObject");
    let expected = [(delay, "timed out"), (wait, "timed out"), (wait, "stuck")];
    assert_eq!(text, expected.map(|(what, ended)| format!("{what} {ended}")));
}

#[test]
fn the_state_is_in_the_drivers_memory() {
    fly(|host, log, _| {
        let event = event_at(new_event(false, false));
        driver(host, log, || {
            assert_eq!((set(event), event.signal_state()), (0, 1));
            assert_eq!((event.set_signal_state(0), read_state(event)), (1, 0));
            event.set_signal_state(1); // The driver writes it itself.
            assert_eq!(wait(event, Some(0)), SET);
        });
    });
}

#[test]
fn a_wait_above_passive_level_fails() {
    let text = fly(|host, log, _| {
        let event = event_at(new_event(false, false));
        driver(host, log, || {
            set_level("a test", Irql::Dispatch);
            assert_eq!((wait(event, None), delay(-1)), (WaitEnd::Failed, WaitEnd::Failed));
            assert_eq!(wait(event, Some(0)), WaitEnd::TimedOut, "a check is not a wait");
        });
    });
    assert!(text.is_empty(), "{text:?}");
}
