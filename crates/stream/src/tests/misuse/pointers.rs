//! Stream pointers and clones.

use super::*;

/// The sentences of the broken rules.
fn said(events: &[flight::Event]) -> Vec<String> {
    let words = |it: &flight::Event| match &it.kind {
        flight::EventKind::RuleBroken { .. } => Some(it.to_string()),
        _ => None,
    };
    events.iter().filter_map(words).collect()
}

#[test]
fn a_pin_and_a_pointer_of_another_device_are_said_to_be_that() {
    let (events, _) = fly(1, |run, at| {
        let (one, other) = (Arc::new(Source::new(true)), Arc::new(Source::new(true)));
        let devices = [&one, &other].map(|source| run.add_shared(at, source.clone()).unwrap());
        let graph = run.open(at, devices[0]).unwrap();
        graph.run(at, 1).unwrap();
        let clone = one.services().clones(graph.pin).unwrap()[0];
        let services = other.services();
        assert_eq!(services.attempt_processing(graph.pin), Err(DriverError::Invalid));
        assert_eq!(services.pointer_view(clone), Err(DriverError::Invalid));
        assert_eq!(services.delete_pointer(clone), Err(DriverError::Invalid));
        assert!(one.services().pointer_view(clone).is_ok(), "it is there as before");
        graph.close(at).unwrap();
        for device in devices {
            run.stream.remove_device(at, device).unwrap();
        }
        run.assert_empty();
    });
    assert_eq!(broken(&events), [RuleId::KS_PIN_004, RuleId::KS_PTR_004]);
    let said = said(&events);
    assert!(said.iter().all(|text| text.contains("of another device")), "{said:#?}");
}

#[test]
fn timeouts_of_edges_end_with_their_pin() {
    for cancels in [true, false] {
        let kept = std::sync::Mutex::new(PointerId::NULL);
        let source = Source::with(false, move |it, entry, pin| {
            let services = it.services();
            let edge = services.leading_edge(pin, false);
            match (entry, edge) {
                (Entry::PinProcess, Some(edge)) => {
                    *kept.lock().unwrap() = edge;
                    services.schedule_timeout(edge, 1 << 40)?;
                }
                // The edge has no frame any more, but exists.
                (Entry::PinClose, None) if cancels => {
                    services.cancel_timeout(*kept.lock().unwrap()).unwrap();
                }
                _ => (),
            }
            Ok(())
        });
        let broken = broken_in(source, |run, at, graph| {
            graph.run(at, 2).unwrap();
            graph.stop(at).unwrap();
            graph.run(at, 2).unwrap();
            run.stream.validate().unwrap();
        });
        assert_eq!(broken, if cancels { vec![] } else { vec![RuleId::KS_PTR_012] });
    }
}

#[test]
fn remaining_clones_are_reported_and_deleted_by_force() {
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
            assert!(services.pointer_memory(edge).is_none());
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
            let header = Header { data_used: BYTES + 1, ..Header::default() };
            services.set_header(edge, header).unwrap();
            services.advance(edge).or_else(fell).unwrap();
        }),
    );
    assert_eq!(used, [RuleId::KS_PTR_014]);
}

#[test]
fn a_cancel_callback_deletes_its_clone_and_leaves_the_queue() {
    let cancel = |hook: fn(&Source, Entry, PinId) -> DriverResult<()>| {
        // Clones that are not locked can be cancelled.
        let source = Source::with(true, move |it, entry, pin| {
            if entry == Entry::PointerCancelled {
                return hook(it, entry, pin);
            }
            Ok(())
        });
        broken_in(source, |run, at, graph| {
            let _ = graph.run(at, 1);
            let services = run.services();
            for clone in services.clones(graph.pin).unwrap() {
                services.unlock(clone, false).unwrap();
            }
            run.stream.cancel_frames(at, graph.pin).unwrap();
            run.stream.validate().unwrap();
        })
    };
    assert_eq!(cancel(|_, _, _| Ok(())), []);
    let kept = cancel(|_, _, _| Err(DriverError::Busy));
    assert_eq!(kept, [RuleId::KS_PTR_004, RuleId::KS_PTR_007], "it uses what it kept");
    let works = cancel(|it, _, pin| {
        assert!(it.services().leading_edge(pin, true).is_none());
        let control = KsMutex::Control(Kind::Filter.subject(1));
        assert!(it.services().acquire(control).is_err());
        Ok(())
    });
    assert_eq!(works, [RuleId::KS_MUTEX_005, RuleId::KS_PTR_007]);
}

#[test]
fn a_lock_that_failed_is_not_ignored() {
    let broken = broken_in(Source::new(true), |run, at, graph| {
        let _ = graph.run(at, 1);
        let services = run.services();
        let clone = services.clones(graph.pin).unwrap()[0];
        let mine = services.clone_pointer(clone, false).unwrap();
        for clone in services.clones(graph.pin).unwrap() {
            services.unlock(clone, false).unwrap();
        }
        run.stream.cancel_frames(at, graph.pin).unwrap();
        assert_eq!(services.lock(mine), Err(DriverError::NotReady));
        assert!(services.write(mine, 0, &[1]).is_err());
        services.delete_pointer(mine).unwrap();
    });
    assert_eq!(broken, [RuleId::KS_PTR_002]);
}
