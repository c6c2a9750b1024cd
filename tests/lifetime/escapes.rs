//! Escapes: which driver gets them, what returns, and which calls wait for each other.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::status::{STATUS_DEVICE_REMOVED, STATUS_INVALID_PARAMETER};
use abi::ukm::D3DDDI_ESCAPEFLAGS as Flags;
use flight::{Component, Event, EventKind, Passive};
use harness::{KernelTestbed, flown, run, softgpu, verified};
use softgpu::format::{self, Command};
use thunk::{Client, EscapeCall};
use windtunnel::TestClient;

fn test_client(testbed: &KernelTestbed, at: &mut Passive) -> TestClient {
    TestClient::open(Client::new(&testbed.kernel), at).unwrap()
}

fn asks(test_client: &TestClient, request: format::Escape, flags: u32) -> EscapeCall {
    let private = format::escape(request);
    EscapeCall { adapter: test_client.adapter, flags, private, ..EscapeCall::default() }
}

/// The number of escapes that the driver received.
fn delivered(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event.kind, EventKind::DdiEscapes { .. })).count()
}

#[test]
fn level_two_excludes_other_calls_and_packets() {
    let (mut twos, mut gpu_wait) = (0, 0);
    for driver in ["softgpu", "table"] {
        for seed in 0..50 {
            let flown = flown(driver, "escape-during-submit", seed);
            assert_eq!(flown.findings, [], "{driver}, seed {seed}");
            let (mut inside, mut flying) = (0, 0);
            for event in &flown.events {
                match &event.kind {
                    EventKind::DdiCall { threading_level: class, .. } if class == "two" => {
                        assert_eq!((inside, flying), (0, 0), "{driver}, seed {seed}: {event}");
                        (inside, twos) = (inside + 1, twos + 1);
                    }
                    EventKind::DdiCall { threading_level: class, .. } if class != "none" => {
                        inside += 1;
                    }
                    EventKind::DdiReturn { name, .. } if !is_interrupt(name) => inside -= 1,
                    EventKind::PacketSubmitted { .. } => flying += 1,
                    EventKind::PacketDone { .. } => flying -= 1,
                    EventKind::WaitParked { why } => {
                        gpu_wait += usize::from(why.contains("the work on"));
                    }
                    _ => (),
                }
            }
        }
    }
    assert_eq!(twos, 2 * 50 * 3);
    assert!(gpu_wait > 0, "some had to wait for work");
}

fn is_interrupt(name: &str) -> bool {
    ["DxgkDdiInterruptRoutine", "DxgkDdiDpcRoutine"].contains(&name)
}

#[test]
fn work_that_never_ends_is_reset_for_level_two() {
    let events = run(1, softgpu, |testbed, at| {
        let (test_client, other) = (test_client(testbed, at), test_client(testbed, at));
        let context = test_client.create_context(at).unwrap();
        test_client.submit(at, context, &[Command::Hang]).unwrap();
        let mirror = format::Escape::Mirror(1);
        let plain = asks(&other, mirror, 0);
        assert!(other.client.escape(at, &plain).is_ok(), "level zero does not wait");
        let fine = other.client.device_state(at, other.device).unwrap();
        assert_eq!(test_client.client.device_state(at, test_client.device), Ok(fine));
        let two = asks(&other, mirror, Flags::HardwareAccess);
        // A caller that needs level two waits until its engine is reset.
        assert!(other.client.escape(at, &two).is_ok());
        assert_ne!(test_client.client.device_state(at, test_client.device), Ok(fine), "it is lost");
        assert_eq!(other.client.device_state(at, other.device), Ok(fine), "that one is not");
        let lost = EscapeCall { device: test_client.device, ..asks(&test_client, mirror, 0) };
        assert_eq!(test_client.client.escape(at, &lost), Err(STATUS_DEVICE_REMOVED));
        test_client.close(at, &[context]).unwrap();
        other.close(at, &[]).unwrap();
    });
    let verifier = verified(&events);
    assert_eq!(verifier.findings(), []);
    assert_eq!(delivered(&events), 2);
}

#[test]
fn mismatched_handles_reach_no_driver() {
    let events = run(1, softgpu, |testbed, at| {
        let log = testbed.kernel.log().clone();
        let second = testbed.kernel.add_adapter(at, softgpu(&log)).unwrap();
        let test_client = test_client(testbed, at);
        let (context, device) =
            (test_client.create_context(at).unwrap(), test_client.create_device(at).unwrap());
        let mirror = asks(&test_client, format::Escape::Mirror(1), 0);
        let adapters = test_client.client.adapters(at).unwrap();
        for escape in [
            EscapeCall { adapter: 0, ..mirror.clone() },
            EscapeCall { adapter: test_client.device, ..mirror.clone() },
            EscapeCall { device: test_client.adapter, ..mirror.clone() },
            EscapeCall { device, context, ..mirror.clone() },
            EscapeCall { adapter: adapters[1], device, ..mirror.clone() },
            EscapeCall { adapter: adapters[1], context, ..mirror.clone() },
        ] {
            let answer = test_client.client.escape(at, &escape);
            assert_eq!(answer, Err(STATUS_INVALID_PARAMETER), "{escape:?}");
        }
        assert!(
            test_client.client.escape(at, &EscapeCall { adapter: adapters[1], ..mirror }).is_ok()
        );
        test_client.client.destroy_device(at, device).unwrap();
        for adapter in adapters {
            test_client.client.close_adapter(at, adapter).unwrap();
        }
        test_client.close(at, &[context]).unwrap();
        testbed.kernel.remove_adapter(at, second);
    });
    assert_eq!(delivered(&events), 1);
    let blamed = |finding: &verify::Finding| finding.component == Component::Kernel;
    assert!(!verified(&events).findings().iter().any(blamed));
}

#[test]
fn a_removed_adapter_answers_no_escape() {
    let events = run(1, softgpu, |testbed, at| {
        let test_client = test_client(testbed, at);
        testbed.kernel.remove_adapter(at, testbed.adapter);
        for (device, flags) in [(0, 0), (0, Flags::HardwareAccess), (test_client.device, 0)] {
            let mirror = asks(&test_client, format::Escape::Mirror(1), flags);
            let answer = test_client.client.escape(at, &EscapeCall { device, ..mirror });
            assert_eq!(answer, Err(STATUS_DEVICE_REMOVED), "{device:x} {flags}");
        }
        test_client.close(at, &[]).unwrap();
    });
    assert_eq!(delivered(&events), 0);
}
