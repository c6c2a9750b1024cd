//! Escapes: private data for the driver, and back.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{ESCAPES, Scenario};
use crate::tunnel::{TestClient, ScenarioStopped, Testbed, expect_error, expect_ok};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED};
use abi::ukm::D3DDDI_ESCAPEFLAGS as Flags;
use flight::{Passive, RuleId};
use softgpu::format;
use thunk::EscapeCall;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "escapes",
        about: "a driver is asked in escapes, with and without access to its hardware",
        breaks: &[],
        needs: ESCAPES,
        body: DisplayBody(escape_hardware_access),
    },
    Scenario {
        name: "escapes-with-work",
        about: "escapes with access to the hardware while other threads submit",
        breaks: &[],
        needs: ESCAPES,
        body: DisplayBody(escape_during_submit),
    },
    Scenario {
        name: "two-purposes",
        about: "an escape is for the hardware and for the frame latency",
        breaks: &[RuleId::DEV_LIFE_009],
        needs: ESCAPES,
        body: DisplayBody(escape_conflicting_flags),
    },
];

/// A number that no table has given out.
const NO_PROCESS: u32 = 0x7fff_ff40;

fn query(bench: &TestClient, asked: format::Escape, flags: u32) -> EscapeCall {
    let private = format::escape(asked);
    EscapeCall { adapter: bench.adapter, flags, private, ..EscapeCall::default() }
}

/// Asks, and wants this number, or at least that many.
fn query_result(bench: &TestClient, at: &mut Passive, escape: &EscapeCall) -> Result<u64, ScenarioStopped> {
    let said = expect_ok("D3DKMTEscape", bench.client.escape(at, escape))?;
    format::escape_answer(&said).ok_or(ScenarioStopped("the driver to answer in its format".to_owned()))
}

fn escape_hardware_access(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let mirror = query(&bench, format::Escape::Mirror(1), 0);
    for (device, context) in [(0, 0), (bench.device, 0), (bench.device, context), (0, context)] {
        let escape = EscapeCall { device, context, ..mirror.clone() };
        if query_result(&bench, tunnel.at, &escape)? != 1 << 63 {
            return Err(ScenarioStopped("the bits of 1 the other way round".to_owned()));
        }
    }
    let packets = query(&bench, format::Escape::Packets, Flags::HardwareAccess);
    let before = query_result(&bench, tunnel.at, &packets)?;
    for _ in 0..3 {
        bench.submit(tunnel.at, context, &[])?;
    }
    // Level two: what was queued is done before the driver is asked.
    let done = query_result(&bench, tunnel.at, &packets)? - before;
    if done != 3 {
        return Err(ScenarioStopped(format!("three packets to be done; the driver counted {done}")));
    }
    let invalid = |tunnel: &mut Testbed<'_>, escape: &EscapeCall| {
        let answer = bench.client.escape(tunnel.at, escape);
        expect_error("D3DKMTEscape", &answer, STATUS_INVALID_PARAMETER)
    };
    invalid(tunnel, &EscapeCall { flags: 0, ..packets })?;
    invalid(tunnel, &EscapeCall { private: b"somebody else's".to_vec(), ..mirror.clone() })?;
    invalid(tunnel, &EscapeCall { private: Vec::new(), ..mirror.clone() })?;
    // Whatever its type is, one that names nothing is refused.
    for kind in [0, 1, 99, -1] {
        invalid(tunnel, &EscapeCall { kind, context: NO_PROCESS, ..mirror.clone() })?;
    }
    let other = bench.client.escape(tunnel.at, &EscapeCall { kind: 99, ..mirror });
    expect_error("D3DKMTEscape of type 99", &other, STATUS_NOT_SUPPORTED)?;
    bench.close(tunnel.at, &[context])
}

fn escape_during_submit(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let mut threads: Vec<crate::tunnel::ThreadBody> = Vec::new();
    for thread in 0..3 {
        let bench = bench.clone();
        threads.push(Box::new(move |at| {
            for _ in 0..3 {
                let flags = Flags::HardwareAccess;
                let packets = query(&bench, format::Escape::Packets, flags);
                let mirror = query(&bench, format::Escape::Mirror(2), 0);
                match thread {
                    0 => drop(query_result(&bench, at, &packets)?),
                    1 => drop(query_result(&bench, at, &mirror)?),
                    _ => bench.submit(at, context, &[])?,
                }
            }
            Ok(())
        }));
    }
    tunnel.run_threads(threads)?;
    bench.close(tunnel.at, &[context])
}

fn escape_conflicting_flags(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let flags = Flags::HardwareAccess | Flags::ChangeFrameLatency;
    let both = query(&bench, format::Escape::Mirror(3), flags);
    let answer = bench.client.escape(tunnel.at, &both);
    expect_error("D3DKMTEscape", &answer, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}
