//! A hostile user-mode driver: every callback returns, and the kernel stays intact.
//!
//! The driver is raw ([`harness::raw`]): it calls every slot of its callback tables with invalid
//! handles and pointers, from inside every function. Its pointers are not trusted
//! ([`Umd::doubted`](runtime::Umd::doubted)).
#![forbid(unsafe_code)]

use abi::HRESULT;
use abi::hresult::{E_FAIL, E_INVALIDARG, E_NOTIMPL, E_OUTOFMEMORY};
use abi::umd::{D3DDDI_ADAPTERCALLBACKS, D3DDDI_DEVICECALLBACKS};
use flight::{Component, Event, EventKind, Passive, RuleId};
use harness::application_calls::{CALLS, Call, text};
use harness::raw_umd::{Board, OpenBehaviour, change, is_served, start, state, umd};
use harness::{KernelTestbed, run, verified};
use runtime::{Adapter, ResourceDescription, Runtime};
use thunk::Client;
use windtunnel::{Flight, HostKind};

/// Runs a test with the raw driver on the built-in GPU, one at a time. Returns its events.
fn run_raw(
    on: HostKind,
    set: impl FnOnce(&mut Board),
    body: impl FnOnce(&KernelTestbed, &mut Passive),
) -> Vec<Event> {
    run_raw_on("softgpu-allocation-lists", on, set, body)
}

/// As above, on any driver's hardware.
fn run_raw_on(
    driver: &str,
    on: HostKind,
    set: impl FnOnce(&mut Board),
    body: impl FnOnce(&KernelTestbed, &mut Passive),
) -> Vec<Event> {
    let _alone = start(set);
    let make = drivers::find(driver).map(|listed| listed.make);
    let make = make.unwrap_or_else(|| panic!("the driver is in the list"));
    let events = run(on, make, body);
    let it = state();
    assert!(!it.hostile || it.calls > 10_000, "{} calls", it.calls);
    assert!(it.wrong.is_empty(), "{} calls, of which wrong: {:#?}", it.calls, it.wrong);
    for finding in verified(&events).findings() {
        let component = finding.component;
        assert!(
            [Component::Umd, Component::Client].contains(&component),
            "{component:?}: {}",
            finding.message
        );
    }
    events
}

fn opened(
    testbed: &KernelTestbed,
    at: &mut Passive,
) -> (Client, u32, Result<Adapter, runtime::OpenError>) {
    let client = Client::new(&testbed.kernel);
    let adapters = client.adapters(at).unwrap_or_default();
    let kernel = adapters.first().copied().unwrap_or_default();
    let adapter = Runtime::new(&testbed.kernel).open(&client, kernel, &umd());
    (client, kernel, adapter)
}

fn close(at: &mut Passive, client: &Client, kernel: u32) {
    assert_eq!(client.close_adapter(at, kernel), Ok(()));
    client.end(at);
}

/// The number of events about missing entries.
fn absent(events: &[Event], slot: &str) -> usize {
    let is =
        |event: &&Event| matches!(&event.kind, EventKind::EntryMissing { name } if name == slot);
    events.iter().filter(is).count()
}

#[test]
fn every_callback_of_a_hostile_driver_returns() {
    let drivers = ["softgpu-allocation-lists", "softgpu-gpummu", "softgpu-memory"];
    let orders = [HostKind::deterministic(1), HostKind::under_pressure(1), HostKind::Threaded];
    for (driver, on) in drivers.into_iter().flat_map(|text| orders.map(|on| (text, on))) {
        let events = run_raw_on(
            driver,
            on,
            |state| state.hostile = true,
            |testbed, at| {
                let (client, kernel, adapter) = opened(testbed, at);
                let adapter = adapter.unwrap_or_else(|why| panic!("{}", why.reason));
                let texture = ResourceDescription::texture(8, 8);
                let first = adapter.create_device(at);
                let first = first.unwrap_or_else(|why| panic!("{}", text(why)));
                let gone = adapter.create_device(at);
                let gone = gone.unwrap_or_else(|why| panic!("{}", text(why)));
                assert_eq!(gone.destroy(at), Ok(()));
                let second = adapter.create_device(at);
                let second = second.unwrap_or_else(|why| panic!("{}", text(why)));
                for device in [&first, &second, &first] {
                    let made = device.create_resource(at, &texture);
                    let made = made.unwrap_or_else(|why| panic!("{}", text(why)));
                    assert_eq!(device.flush(at), Ok(()));
                    assert_eq!(device.destroy_resource(at, made), Ok(()));
                    let made = device.create_resource(at, &texture);
                    assert!(made.is_ok(), "it is left to the device");
                    assert_eq!(device.flush(at), Ok(()));
                    testbed.kernel.validate().unwrap_or_else(|why| panic!("{why}"));
                }
                for device in [&second, &first] {
                    assert_eq!(device.destroy(at), Ok(()));
                }
                assert_eq!(adapter.close(), Ok(()));
                close(at, &client, kernel);
            },
        );
        // Every unsupported callback was called and reported by name.
        let traps = D3DDDI_DEVICECALLBACKS::SLOTS.iter().chain(D3DDDI_ADAPTERCALLBACKS::SLOTS);
        for slot in traps.filter(|text| !is_served(text)) {
            assert!(absent(&events, slot) > 0, "{slot} is not said to be missing");
        }
    }
}

#[test]
fn the_later_callback_counts_as_the_hardware_query() {
    let set = |state: &mut Board| state.open_behaviour = OpenBehaviour::QueriesCapsWithCb2;
    let events = run_raw(HostKind::deterministic(1), set, |testbed, at| {
        let (client, kernel, adapter) = opened(testbed, at);
        let adapter = adapter.unwrap_or_else(|why| panic!("{}", why.reason));
        let device = adapter.create_device(at).unwrap_or_else(|why| panic!("{}", text(why)));
        assert_eq!((device.destroy(at), adapter.close()), (Ok(()), Ok(())));
        close(at, &client, kernel);
    });
    assert_eq!(absent(&events, "pfnQueryAdapterInfoCb2"), 1);
    let all = verified(&events);
    let rules: Vec<RuleId> = all.findings().iter().map(|finding| finding.rule).collect();
    assert!(!rules.contains(&RuleId::UMD_ADAPTER_003), "{rules:?}");
}

#[test]
fn a_failed_adapter_open_reports_the_reason() {
    let rows = [
        (OpenBehaviour::Fails(E_OUTOFMEMORY), E_OUTOFMEMORY, "OpenAdapter returned E_OUTOFMEMORY"),
        (OpenBehaviour::Fails(-1), -1, "OpenAdapter returned 0xffffffff"),
        (OpenBehaviour::WithVersion(0), E_INVALIDARG, "its DriverVersion is 0x0"),
        (OpenBehaviour::WithVersion(u32::MAX), E_INVALIDARG, "its DriverVersion is 0xffffffff"),
        (OpenBehaviour::WithNoTable, E_INVALIDARG, "pfnCreateDevice is NULL"),
        (OpenBehaviour::WithNoCreateDevice, E_INVALIDARG, "pfnCreateDevice is NULL"),
    ];
    for (open_behaviour, result, why) in rows {
        let set = |state: &mut Board| state.open_behaviour = open_behaviour;
        run_raw(HostKind::deterministic(1), set, |testbed, at| {
            let (client, kernel, adapter) = opened(testbed, at);
            let not = adapter.map(drop).map_err(|error| (error.result, error.reason.contains(why)));
            assert_eq!(not, Err((result, true)), "{open_behaviour:?}");
            close(at, &client, kernel);
        });
    }
    // Without a close function it is open, and the missing function is reported at its close.
    let set = |state: &mut Board| state.open_behaviour = OpenBehaviour::WithNoCloseAdapter;
    run_raw(HostKind::deterministic(1), set, |testbed, at| {
        let (client, kernel, adapter) = opened(testbed, at);
        assert_eq!(adapter.map(|adapter| adapter.close()).ok(), Some(Ok(())));
        close(at, &client, kernel);
    });
}

/// A device of the raw driver with one resource; then one call, and its result.
fn one_call(
    set: impl Fn(&mut Board),
    (slot, called): (&'static str, Call),
) -> (Result<(), HRESULT>, Vec<Event>) {
    let mut answer = Ok(());
    let events = run_raw(
        HostKind::deterministic(1),
        |_| (),
        |testbed, at| {
            let (client, kernel, adapter) = opened(testbed, at);
            let adapter = adapter.unwrap_or_else(|why| panic!("{}", why.reason));
            let plain = adapter.create_device(at).unwrap_or_else(|why| panic!("{}", text(why)));
            let spare = plain.create_resource(at, &ResourceDescription::texture(8, 8));
            let spare = spare.unwrap_or_else(|why| panic!("{slot}: {}", text(why)));
            // The table is returned when the device is created, so it is checked then.
            change(&set);
            let device = adapter.create_device(at).unwrap_or_else(|why| panic!("{}", text(why)));
            let made =
                device.create_resource(at, &ResourceDescription::texture(8, 8)).unwrap_or(spare);
            answer = called(&device, at, made);
            change(|state| state.panics = None);
            let _ = device.destroy(at); // Or it was the call.
            assert_eq!(plain.destroy(at), Ok(()));
            assert_eq!(adapter.close(), Ok(()));
            close(at, &client, kernel);
        },
    );
    (answer, events)
}

#[test]
fn a_missing_function_is_reported_as_not_implemented() {
    for (slot, called) in CALLS.iter().copied() {
        let (answer, events) = one_call(|state| state.missing = Some(slot), (slot, called));
        assert_eq!(answer, Err(E_NOTIMPL), "{slot}");
        assert!(absent(&events, slot) > 0, "{slot} is not said to be missing");
    }
}

#[test]
fn a_scenario_says_that_a_missing_function_is_null() {
    let _alone = start(|state| state.missing = Some("pfnFlush"));
    let make = drivers::find("softgpu-allocation-lists").map(|listed| listed.make);
    let make = make.unwrap_or_else(|| panic!("the driver is in the list"));
    let flown = Flight::with_setup(make).umd(umd()).fly(|testbed| {
        let application = testbed.application()?;
        application.flush(testbed.at)
    });
    assert_eq!(flown.needs, ["a user-mode driver with pfnFlush, which is NULL here"]);
    assert!(!flown.report().contains("E_NOTIMPL"), "{}", flown.report());
}

#[test]
fn a_function_that_panics_is_blamed_and_the_call_fails() {
    for (slot, called) in CALLS.iter().copied() {
        let (answer, events) = one_call(|state| state.panics = Some(slot), (slot, called));
        let verifier = verified(&events);
        let crash = verifier.findings().iter().find(|finding| finding.rule == RuleId::WT_CRASH_001);
        let crash = crash.unwrap_or_else(|| panic!("{slot}: no finding"));
        assert_eq!(answer, Err(E_FAIL), "{slot}");
        assert_eq!(
            (crash.component, crash.message.contains("panicked")),
            (Component::Umd, true),
            "{slot}"
        );
    }
}

#[test]
fn a_panic_without_a_device_is_blamed_on_the_driver() {
    for slot in ["OpenAdapter", "pfnCreateDevice", "pfnCloseAdapter"] {
        let set = |state: &mut Board| state.panics = Some(slot);
        let events = run_raw(HostKind::deterministic(1), set, |testbed, at| {
            let (client, kernel, adapter) = opened(testbed, at);
            match adapter {
                Err(not) => assert_eq!((not.result, slot), (E_FAIL, "OpenAdapter")),
                Ok(adapter) => {
                    let device = adapter.create_device(at);
                    assert_eq!(
                        device.as_ref().err(),
                        (slot == "pfnCreateDevice").then_some(&E_FAIL)
                    );
                    if let Ok(device) = device {
                        assert_eq!(device.destroy(at), Ok(()));
                    }
                    assert_eq!(adapter.close(), Ok(()));
                }
            }
            close(at, &client, kernel);
        });
        let verifier = verified(&events);
        let crash = verifier.findings().iter().find(|finding| finding.rule == RuleId::WT_CRASH_001);
        assert_eq!(crash.map(|finding| finding.component), Some(Component::Umd), "{slot}");
    }
}
