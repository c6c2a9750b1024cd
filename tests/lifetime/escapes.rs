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

fn bench(wing: &KernelTestbed, at: &mut Passive) -> TestClient {
    TestClient::open(Client::new(&wing.kernel), at).unwrap()
}

fn asks(bench: &TestClient, asked: format::Escape, flags: u32) -> EscapeCall {
    let private = format::escape(asked);
    EscapeCall { adapter: bench.adapter, flags, private, ..EscapeCall::default() }
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
    let events = run(1, softgpu, |wing, at| {
        let (bench, other) = (bench(wing, at), bench(wing, at));
        let context = bench.create_context(at).unwrap();
        bench.submit(at, context, &[Command::Hang]).unwrap();
        let mirror = format::Escape::Mirror(1);
        let plain = asks(&other, mirror, 0);
        assert!(other.client.escape(at, &plain).is_ok(), "level zero does not wait");
        let fine = other.client.device_state(at, other.device).unwrap();
        assert_eq!(bench.client.device_state(at, bench.device), Ok(fine));
        let two = asks(&other, mirror, Flags::HardwareAccess);
        // A caller that needs level two waits until its engine is reset.
        assert!(other.client.escape(at, &two).is_ok());
        assert_ne!(bench.client.device_state(at, bench.device), Ok(fine), "it is lost");
        assert_eq!(other.client.device_state(at, other.device), Ok(fine), "that one is not");
        let lost = EscapeCall { device: bench.device, ..asks(&bench, mirror, 0) };
        assert_eq!(bench.client.escape(at, &lost), Err(STATUS_DEVICE_REMOVED));
        bench.close(at, &[context]).unwrap();
        other.close(at, &[]).unwrap();
    });
    let verifier = verified(&events);
    assert_eq!(verifier.findings(), []);
    assert_eq!(delivered(&events), 2);
}

#[test]
fn mismatched_handles_reach_no_driver() {
    let events = run(1, softgpu, |wing, at| {
        let log = wing.kernel.log().clone();
        let second = wing.kernel.add_adapter(at, softgpu(&log)).unwrap();
        let bench = bench(wing, at);
        let (context, device) =
            (bench.create_context(at).unwrap(), bench.create_device(at).unwrap());
        let mirror = asks(&bench, format::Escape::Mirror(1), 0);
        let adapters = bench.client.adapters(at).unwrap();
        for escape in [
            EscapeCall { adapter: 0, ..mirror.clone() },
            EscapeCall { adapter: bench.device, ..mirror.clone() },
            EscapeCall { device: bench.adapter, ..mirror.clone() },
            EscapeCall { device, context, ..mirror.clone() },
            EscapeCall { adapter: adapters[1], device, ..mirror.clone() },
            EscapeCall { adapter: adapters[1], context, ..mirror.clone() },
        ] {
            let answer = bench.client.escape(at, &escape);
            assert_eq!(answer, Err(STATUS_INVALID_PARAMETER), "{escape:?}");
        }
        assert!(bench.client.escape(at, &EscapeCall { adapter: adapters[1], ..mirror }).is_ok());
        bench.client.destroy_device(at, device).unwrap();
        for adapter in adapters {
            bench.client.close_adapter(at, adapter).unwrap();
        }
        bench.close(at, &[context]).unwrap();
        wing.kernel.remove_adapter(at, second);
    });
    assert_eq!(delivered(&events), 1);
    let blamed = |finding: &verify::Finding| finding.component == Component::Kernel;
    assert!(!verified(&events).findings().iter().any(blamed));
}

#[test]
fn a_removed_adapter_answers_no_escape() {
    let events = run(1, softgpu, |wing, at| {
        let bench = bench(wing, at);
        wing.kernel.remove_adapter(at, wing.adapter);
        for (device, flags) in [(0, 0), (0, Flags::HardwareAccess), (bench.device, 0)] {
            let mirror = asks(&bench, format::Escape::Mirror(1), flags);
            let answer = bench.client.escape(at, &EscapeCall { device, ..mirror });
            assert_eq!(answer, Err(STATUS_DEVICE_REMOVED), "{device:x} {flags}");
        }
        bench.close(at, &[]).unwrap();
    });
    assert_eq!(delivered(&events), 0);
}
