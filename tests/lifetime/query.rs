//! Queries from user mode, context creation data, and the component that a wrong result blames.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::NTSTATUS;
use abi::status::{STATUS_DEVICE_REMOVED, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED};
use flight::{Component, Event, EventKind, Log, Passive, RuleId};
use harness::{flown, run, softgpu, verified};
use kernel::DriverSetup;
use kernel::context::Context;
use kernel::miniport::{
    CreateContextArgs, DriverContext, DriverDevice, DriverError, DriverResult, HandleSlot, Miniport,
};
use kernel::render_args::BufferSizes;
use softgpu::format::{HARDWARE_INFO_SIZE, HardwareInfo, read_hardware_info};
use softgpu::{Gpu, MemoryPlan, SoftGpu};
use std::sync::{Arc, Mutex};
use thunk::Client;
use windtunnel::{HostKind, TestClient};

/// Runs a test on a driver, by name.
fn with(driver: &str, on: HostKind, body: impl FnOnce(&TestClient, &mut Passive)) -> Vec<Event> {
    let make = drivers::find(driver).unwrap().make;
    run(on, make, |testbed, at| {
        let test_client = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
        body(&test_client, at);
        test_client.close(at, &[]).unwrap();
    })
}

#[test]
fn each_driver_reports_its_hardware() {
    let info = |lists, addresses, memory| HardwareInfo {
        lists,
        addresses,
        memory,
        resident: memory,
        nodes: 2,
    };
    for (driver, expected) in [
        ("softgpu", info(false, false, false)),
        ("table", info(false, false, false)),
        ("softgpu-memory", info(false, false, true)),
        ("table-memory", info(false, false, true)),
        ("softgpu-gpummu", info(false, true, true)),
        ("table-gpummu", info(false, true, true)),
        ("softgpu-allocation-lists", HardwareInfo { resident: false, ..info(true, false, true) }),
        ("table-allocation-lists", info(true, false, true)),
    ] {
        for on in [HostKind::deterministic(1), HostKind::Threaded] {
            let events = with(driver, on, |test_client, at| {
                let mut data = [0xaa; HARDWARE_INFO_SIZE + 3];
                test_client.client.query_private(at, test_client.adapter, &mut data).unwrap();
                assert_eq!(read_hardware_info(&data), Ok(expected), "{driver}");
                assert_eq!(data[HARDWARE_INFO_SIZE..], [0xaa; 3], "{driver}: the rest");
                for length in [0, 1, HARDWARE_INFO_SIZE - 1] {
                    let short = &mut data[..length];
                    short.fill(0xaa);
                    let answer = test_client.client.query_private(at, test_client.adapter, short);
                    assert_eq!(answer, Err(STATUS_INVALID_PARAMETER), "{driver}: {length}");
                    assert!(short.iter().all(|byte| *byte == 0xaa), "{driver}: {length}");
                }
            });
            assert_eq!(verified(&events).findings(), [], "{driver}");
        }
    }
}

#[test]
fn a_user_mode_query_runs_at_level_zero_in_its_process() {
    let events = with("table", HostKind::deterministic(1), |test_client, at| {
        let mut data = [0; HARDWARE_INFO_SIZE];
        test_client.client.query_private(at, test_client.adapter, &mut data).unwrap();
    });
    let of = |event: &Event| match &event.kind {
        EventKind::DdiCall { name, threading_level: class, process, .. }
            if name == "DxgkDdiQueryAdapterInfo" =>
        {
            Some((class.to_string(), process.is_some()))
        }
        _ => None,
    };
    let calls: Vec<_> = events.iter().filter_map(of).collect();
    let expected = [("three", false), ("zero", true)];
    assert_eq!(calls, expected.map(|(class, process)| (class.to_owned(), process)));
}

/// The built-in driver with this query result; it records the creation data of contexts.
struct FixedQueryDriver {
    driver: Arc<SoftGpu>,
    answer: DriverResult<()>,
    orders: Mutex<Vec<Vec<u8>>>,
}

impl FixedQueryDriver {
    fn set_up(
        (driver, machine): (Arc<SoftGpu>, Arc<Gpu>),
        answer: DriverResult<()>,
        log: &Arc<Log>,
    ) -> (Arc<Self>, DriverSetup) {
        let it = Arc::new(Self { driver, answer, orders: Mutex::default() });
        let pool = nt::Pool::new(log.clone());
        (it.clone(), DriverSetup { miniport: it, hardware: machine, pool })
    }

    fn record(&self, args: &CreateContextArgs) {
        // The system has contexts, too.
        if !args.private.is_empty() {
            self.orders.lock().unwrap().push(args.private.clone());
        }
    }
}

impl Miniport for FixedQueryDriver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn query_umd_private(&self, _at: &mut Passive, data: &mut [u8]) -> DriverResult<()> {
        data.reverse();
        self.answer
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        slot: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, u32)> {
        self.record(args);
        self.driver.create_context(at, device, args, slot)
    }

    fn create_context_with_lists(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        slot: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, BufferSizes)> {
        self.record(args);
        self.driver.create_context_with_lists(at, device, args, slot)
    }
}

#[test]
fn an_escape_reaches_the_driver_and_its_failure_is_returned() {
    let answered = |answer: DriverResult<()>| {
        let mut returned = None;
        let make = |log: &Arc<Log>| FixedQueryDriver::set_up(SoftGpu::new(), answer, log).1;
        run(1, make, |testbed, at| {
            let test_client = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
            let mut data = *b"one two";
            let answer = test_client.client.query_private(at, test_client.adapter, &mut data);
            returned = Some((answer, data));
            test_client.close(at, &[]).unwrap();
        });
        returned.unwrap()
    };
    assert_eq!(answered(Ok(())), (Ok(()), *b"owt eno"));
    let number: NTSTATUS = 0xc000_0123_u32.cast_signed();
    for (why, status) in [
        (DriverError::Unsupported, STATUS_NOT_SUPPORTED),
        (DriverError::NoEntryPoint, STATUS_NOT_SUPPORTED),
        (DriverError::Invalid, STATUS_INVALID_PARAMETER),
        (DriverError::Other(number.cast_unsigned()), number),
    ] {
        assert_eq!(answered(Err(why)), (Err(status), *b"one two"), "{why:?}");
    }
}

#[test]
fn the_private_data_of_a_context_reaches_the_driver() {
    for lists in [false, true] {
        let mut kept = None;
        let make = |log: &Arc<Log>| {
            let (ram, plan) = (nt::Ram::new(1 << 30).unwrap(), MemoryPlan::default());
            let built = if lists {
                SoftGpu::with_lists(ram, plan)
            } else {
                SoftGpu::with_memory(ram, plan)
            };
            let (it, setup) = FixedQueryDriver::set_up(built, Ok(()), log);
            kept = Some(it);
            setup
        };
        run(1, make, |testbed, at| {
            let test_client = TestClient::open(Client::new(&testbed.kernel), at).unwrap();
            let (client, device) = (&test_client.client, test_client.device);
            let context = if lists {
                client
                    .create_context_with_lists_and_data(at, device, 0, b"of mine")
                    .unwrap()
                    .context
            } else {
                client.create_context_with(at, device, 0, b"of mine").unwrap()
            };
            test_client.close(at, &[context]).unwrap();
        });
        assert_eq!(*kept.unwrap().orders.lock().unwrap(), [b"of mine".to_vec()]);
    }
}

#[test]
fn a_removed_adapter_returns_no_information() {
    run(1, softgpu, |testbed, at| {
        let log = testbed.kernel.log().clone();
        let second = testbed.kernel.add_adapter(at, softgpu(&log)).unwrap();
        let client = Client::new(&testbed.kernel);
        let adapters = client.adapters(at).unwrap();
        testbed.kernel.remove_adapter(at, second);
        let mut data = [0; HARDWARE_INFO_SIZE];
        let gone = client.query_private(at, adapters[1], &mut data);
        assert_eq!((gone, data), (Err(STATUS_DEVICE_REMOVED), [0; HARDWARE_INFO_SIZE]));
        client.query_private(at, adapters[0], &mut data).unwrap();
        for adapter in adapters {
            client.close_adapter(at, adapter).unwrap();
        }
        client.end(at);
    });
}

#[test]
fn the_sessions_process_is_blamed() {
    let events = with("softgpu", HostKind::deterministic(1), |test_client, at| {
        let session = test_client.client.session();
        let driver = Client::from_session(session.for_component(Component::Umd));
        assert_eq!(driver.session().process(), session.process());
        assert_eq!(
            (session.component(), driver.session().component()),
            (Component::Client, Component::Umd)
        );
        for client in [&driver, &test_client.client] {
            let wrong = client.query_private(at, test_client.device, &mut []);
            assert_eq!(wrong, Err(STATUS_INVALID_PARAMETER));
        }
    });
    let verifier = verified(&events);
    let named: Vec<_> =
        verifier.findings().iter().map(|finding| (finding.rule, finding.component)).collect();
    assert_eq!(
        named,
        [Component::Umd, Component::Client].map(|component| (RuleId::DEV_LIFE_001, component))
    );
}

#[test]
fn a_driver_that_trusts_user_mode_or_writes_too_far_is_reported() {
    let behind = "OutputDataSize is 1, but up to 31 bytes behind it were written";
    let crashed = "the driver crashed in a query from user mode with 0 bytes: a client can send \
                   any bytes, and the driver must check them";
    for (driver, message, rules) in [
        ("kmd-overruns-umd-query", behind, &["KMD-CAPS-008"][..]),
        // A query without bytes is another cause than one with some.
        ("kmd-trusts-umd-query-node", crashed, &["KMD-CAPS-008", "WT-CRASH-001", "KMD-CAPS-008"]),
    ] {
        let findings = flown(driver, "umd-query-driver-private", 1).findings;
        let named: Vec<_> = findings.iter().map(|finding| finding.rule.name()).collect();
        assert_eq!(named, rules, "{driver}");
        assert_eq!(
            (&*findings[0].message, findings[0].component),
            (message, Component::Driver),
            "{driver}"
        );
    }
}
