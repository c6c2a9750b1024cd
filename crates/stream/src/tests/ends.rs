//! Every way to cut a flight short, at every call of the driver: nothing is alive afterwards, and
//! an allocator is deleted once if and only if it was initialised.

use crate::tests::source::*;
use crate::*;
use flight::{Event, Passive, RuleId};
use std::sync::Arc;

/// The maximum number of driver calls in a scenario.
const MOST: u32 = 400;

/// The scenario that is cut short: its result does not matter, only that nothing leaks.
fn story(run: &Run, at: &mut Passive, source: Arc<Source>) {
    let Ok(device) = run.add_shared(at, source) else { return };
    if let Ok(graph) = run.open(at, device) {
        let _ = graph.run(at, 4);
        run.stream.validate().unwrap();
        let _ = graph.stop(at);
        let _ = graph.close(at);
    }
    let _ = run.stream.remove_device(at, device);
    // A device whose driver refuses removal is surprise-removed.
    let _ = run.stream.surprise_remove_device(at, device);
}

/// Flies the scenario with a disturbance at the `n`th call, for every `n` that exists.
fn at_every_call(seeds: u64, own: bool, cut: impl Fn(u64, u32, Count) -> Vec<Event>) {
    for seed in 0..seeds {
        let mut reached = MOST;
        for n in 1..=MOST {
            let count = Count::default();
            let events = cut(seed, n, count.clone());
            check_order(&events);
            if count.so_far() < n {
                reached = n;
                break;
            }
        }
        assert!((10..MOST).contains(&reached), "seed {seed}, own {own}: {reached} calls");
    }
}

#[test]
fn a_refusal_at_every_call_is_undone() {
    for own in [true, false] {
        at_every_call(4, own, |seed, n, count| {
            let (events, _) = fly(seed, |run, at| {
                let source = Source::with(own, move |_, entry, _| {
                    // Entries that return nothing cannot fail.
                    let has_cancel_callback = [Entry::DeleteAllocator, Entry::PointerCancelled];
                    let refuses = count.is(n) && !has_cancel_callback.contains(&entry);
                    if refuses { Err(DriverError::NoMemory) } else { Ok(()) }
                });
                story(run, at, Arc::new(source));
                run.assert_empty();
            });
            // A driver that refuses to process has to attempt processing again by itself.
            let broken: Vec<RuleId> = broken(&events)
                .into_iter()
                .filter(|rule_id| *rule_id != RuleId::KS_PROC_002)
                .collect();
            assert_eq!(broken, [], "seed {seed}, call {n}, own {own}");
            events
        });
    }
}

#[test]
fn a_crash_at_every_call_leaves_nothing() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Hundreds of them would be printed.
        if !info.to_string().contains("on purpose") {
            before(info);
        }
    }));
    for own in [true, false] {
        at_every_call(3, own, |seed, n, count| {
            let counted = count.clone();
            let (events, _) = fly(seed, |run, at| {
                let source = Source::with(own, move |_, _, _| {
                    assert!(!count.is(n), "on purpose");
                    Ok(())
                });
                story(run, at, Arc::new(source));
                run.assert_empty();
            });
            let mut verifier = verify::Verifier::new();
            for event in &events {
                verifier.observe(event);
            }
            let named =
                verifier.findings().iter().any(|finding| finding.rule == RuleId::WT_CRASH_001);
            assert_eq!(named, counted.so_far() >= n, "seed {seed}, call {n}, own {own}");
            events
        });
    }
}

/// What another client does at a call of the driver.
type Blow = fn(&Run, &mut Passive);

const BLOWS: [(&str, Blow); 5] = [
    ("pull", |run, at| {
        let _ = run.stream.surprise_remove_device(at, first_device(&run.stream));
    }),
    ("stop", |run, at| {
        let _ = run.stream.set_state(at, first_pin(&run.stream), PinState::Stop);
    }),
    ("stop the device", |run, at| {
        let _ = run.stream.stop_device(at, first_device(&run.stream));
    }),
    ("close", |run, at| {
        let _ = run.stream.close_pin(at, first_pin(&run.stream));
        let _ = run.stream.close_filter(at, first_filter(&run.stream));
    }),
    ("remove", |run, at| {
        let _ = run.stream.remove_device(at, first_device(&run.stream));
    }),
];

#[test]
fn whatever_another_client_ends_at_every_call_ends_cleanly() {
    for (name, blow) in BLOWS {
        for own in [true, false] {
            at_every_call(6, own, |seed, n, count| {
                let (events, _) = fly(seed, |run, at| {
                    let work_available = work_available();
                    let (ring, host) = (work_available.clone(), run.host.clone());
                    let source = Source::with(own, move |_, _, _| {
                        if count.is(n) {
                            host.wake(&ring);
                        }
                        Ok(())
                    });
                    let other = Run {
                        stream: run.stream.clone(),
                        host: run.host.clone(),
                        memory: run.memory.clone(),
                    };
                    let waits_for_attempt = work_available.clone();
                    let ended = run.host.spawn("another client", move |at| {
                        other.host.park(at, &waits_for_attempt, None);
                        blow(&other, at);
                    });
                    story(run, at, Arc::new(source));
                    run.host.wake(&work_available); // If the call never came.
                    run.host.park(at, &ended, None);
                    let _ = run.stream.surprise_remove_device(at, first_device(&run.stream));
                    run.assert_empty();
                });
                // A filter may be closed before the other client has closed its pin.
                let broken: Vec<RuleId> = broken(&events)
                    .into_iter()
                    .filter(|rule_id| *rule_id != RuleId::KS_PIN_013)
                    .collect();
                assert_eq!(broken, [], "{name}, seed {seed}, call {n}, own {own}");
                events
            });
        }
    }
}

#[test]
fn an_allocator_that_gives_fewer_frames_still_flies() {
    for given in 1..3 {
        let (events, _) = fly(0, |run, at| {
            let count = Count::default();
            let source = Source::with(true, move |_, entry, _| {
                let over = entry == Entry::Allocate && count.is(given + 1);
                if over { Err(DriverError::NoMemory) } else { Ok(()) }
            });
            let device = run.add(at, source).unwrap();
            let graph = run.open(at, device).unwrap();
            assert_eq!(graph.run(at, 5).unwrap().len(), 5);
            graph.close(at).unwrap();
            run.stream.remove_device(at, device).unwrap();
            run.assert_empty();
        });
        check_order(&events);
        assert_eq!(broken(&events), Vec::<RuleId>::new());
    }
}
