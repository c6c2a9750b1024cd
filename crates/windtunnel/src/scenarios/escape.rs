//! Escapes: private data for the driver and from it.

use crate::needs::ESCAPES;
use crate::private_data::{DataUse, Escape};
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_error, expect_ok};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED};
use abi::ukm::D3DDDI_ESCAPEFLAGS as Flags;
use flight::{Passive, RuleId};
use thunk::EscapeCall;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "escape-hardware-access",
        about: "sends escapes to the driver, with and without HardwareAccess",
        breaks: &[],
        needs: ESCAPES.private_data(DataUse::Escapes),
        body: DisplayBody(escape_hardware_access),
    },
    Scenario {
        name: "escape-during-submit",
        about: "sends escapes with HardwareAccess while other threads submit packets",
        breaks: &[],
        needs: ESCAPES.private_data(DataUse::Escapes),
        body: DisplayBody(escape_during_submit),
    },
    Scenario {
        name: "escape-conflicting-flags",
        about: "sets HardwareAccess and ChangeFrameLatency in one escape",
        breaks: &[RuleId::DEV_LIFE_009],
        needs: ESCAPES.private_data(DataUse::Escapes),
        body: DisplayBody(escape_conflicting_flags),
    },
];

/// A handle that no handle table contains.
const NO_PROCESS: u32 = 0x7fff_ff40;

fn query(
    test_client: &TestClient,
    request: Escape,
    flags: u32,
) -> Result<EscapeCall, ScenarioStopped> {
    let private = test_client.private_data.escape(request)?;
    Ok(EscapeCall { adapter: test_client.adapter, flags, private, ..EscapeCall::default() })
}

/// Sends an escape and checks the number that the driver returns.
fn query_result(
    test_client: &TestClient,
    at: &mut Passive,
    escape: &EscapeCall,
) -> Result<u64, ScenarioStopped> {
    let text = expect_ok("D3DKMTEscape", test_client.client.escape(at, escape))?;
    test_client.private_data.escape_answer(&text)
}

fn escape_hardware_access(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let mirror = query(&test_client, Escape::Mirror(1), 0)?;
    for (device, context) in
        [(0, 0), (test_client.device, 0), (test_client.device, context), (0, context)]
    {
        let escape = EscapeCall { device, context, ..mirror.clone() };
        if query_result(&test_client, testbed.at, &escape)? != 1 << 63 {
            return Err(ScenarioStopped::failed("the inverted bits of 1"));
        }
    }
    let packets = query(&test_client, Escape::Packets, Flags::HardwareAccess)?;
    let before = query_result(&test_client, testbed.at, &packets)?;
    for _ in 0..3 {
        test_client.submit(testbed.at, context, &[])?;
    }
    // Threading level two: queued packets complete before the driver is called.
    let done = query_result(&test_client, testbed.at, &packets)? - before;
    if done != 3 {
        return Err(ScenarioStopped::failed(format!(
            "three completed packets; the driver counted {done}"
        )));
    }
    let invalid = |testbed: &mut Testbed<'_>, escape: &EscapeCall| {
        let answer = test_client.client.escape(testbed.at, escape);
        expect_error("D3DKMTEscape", &answer, STATUS_INVALID_PARAMETER)
    };
    invalid(testbed, &EscapeCall { flags: 0, ..packets })?;
    invalid(testbed, &EscapeCall { private: b"another owner's".to_vec(), ..mirror.clone() })?;
    invalid(testbed, &EscapeCall { private: Vec::new(), ..mirror.clone() })?;
    // An unknown handle fails, whatever the escape's type.
    for kind in [0, 1, 99, -1] {
        invalid(testbed, &EscapeCall { kind, context: NO_PROCESS, ..mirror.clone() })?;
    }
    let other = test_client.client.escape(testbed.at, &EscapeCall { kind: 99, ..mirror });
    expect_error("D3DKMTEscape of type 99", &other, STATUS_NOT_SUPPORTED)?;
    test_client.close(testbed.at, &[context])
}

fn escape_during_submit(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let mut threads: Vec<crate::testbed::ThreadBody> = Vec::new();
    for thread in 0..3 {
        let test_client = test_client.clone();
        threads.push(Box::new(move |at| {
            for _ in 0..3 {
                let flags = Flags::HardwareAccess;
                let packets = query(&test_client, Escape::Packets, flags)?;
                let mirror = query(&test_client, Escape::Mirror(2), 0)?;
                match thread {
                    0 => drop(query_result(&test_client, at, &packets)?),
                    1 => drop(query_result(&test_client, at, &mirror)?),
                    _ => test_client.submit(at, context, &[])?,
                }
            }
            Ok(())
        }));
    }
    testbed.run_threads(threads)?;
    test_client.close(testbed.at, &[context])
}

fn escape_conflicting_flags(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let flags = Flags::HardwareAccess | Flags::ChangeFrameLatency;
    let both = query(&test_client, Escape::Mirror(3), flags)?;
    let answer = test_client.client.escape(testbed.at, &both);
    expect_error("D3DKMTEscape", &answer, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}
