//! Escapes: private data for the driver, and back.

use crate::scenario::Story::Told;
use crate::scenario::{ESCAPES, Scenario};
use crate::tunnel::{Bench, Stopped, Tunnel, refused, wanted};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED};
use abi::ukm::D3DDDI_ESCAPEFLAGS as Flags;
use flight::{Passive, RuleId};
use softgpu::format;
use thunk::Escape;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "escapes",
        about: "a driver is asked in escapes, with and without access to its hardware",
        breaks: &[],
        needs: ESCAPES,
        story: Told(escapes),
    },
    Scenario {
        name: "escapes-with-work",
        about: "escapes with access to the hardware while other threads submit",
        breaks: &[],
        needs: ESCAPES,
        story: Told(beside_work),
    },
    Scenario {
        name: "two-purposes",
        about: "an escape is for the hardware and for the frame latency",
        breaks: &[RuleId::DEV_LIFE_009],
        needs: ESCAPES,
        story: Told(two_purposes),
    },
];

/// A number that no table has given out.
const NOBODY: u32 = 0x7fff_ff40;

fn asks(bench: &Bench, asked: format::Escape, flags: u32) -> Escape {
    let private = format::escape(asked);
    Escape { adapter: bench.adapter, flags, private, ..Escape::default() }
}

/// Asks, and wants this number, or at least that many.
fn told(bench: &Bench, at: &mut Passive, escape: &Escape) -> Result<u64, Stopped> {
    let said = wanted("D3DKMTEscape", bench.client.escape(at, escape))?;
    format::escape_answer(&said).ok_or(Stopped("the driver to answer in its format".to_owned()))
}

fn escapes(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let mirror = asks(&bench, format::Escape::Mirror(1), 0);
    for (device, context) in [(0, 0), (bench.device, 0), (bench.device, context), (0, context)] {
        let escape = Escape { device, context, ..mirror.clone() };
        if told(&bench, tunnel.at, &escape)? != 1 << 63 {
            return Err(Stopped("the bits of 1 the other way round".to_owned()));
        }
    }
    let packets = asks(&bench, format::Escape::Packets, Flags::HardwareAccess);
    let before = told(&bench, tunnel.at, &packets)?;
    for _ in 0..3 {
        bench.submit(tunnel.at, context, &[])?;
    }
    // Level two: what was queued is done before the driver is asked.
    let done = told(&bench, tunnel.at, &packets)? - before;
    if done != 3 {
        return Err(Stopped(format!("three packets to be done; the driver counted {done}")));
    }
    let invalid = |tunnel: &mut Tunnel<'_>, escape: &Escape| {
        let answer = bench.client.escape(tunnel.at, escape);
        refused("D3DKMTEscape", &answer, STATUS_INVALID_PARAMETER)
    };
    invalid(tunnel, &Escape { flags: 0, ..packets })?;
    invalid(tunnel, &Escape { private: b"somebody else's".to_vec(), ..mirror.clone() })?;
    invalid(tunnel, &Escape { private: Vec::new(), ..mirror.clone() })?;
    // Whatever its type is, one that names nothing is refused.
    for kind in [0, 1, 99, -1] {
        invalid(tunnel, &Escape { kind, context: NOBODY, ..mirror.clone() })?;
    }
    let other = bench.client.escape(tunnel.at, &Escape { kind: 99, ..mirror });
    refused("D3DKMTEscape of type 99", &other, STATUS_NOT_SUPPORTED)?;
    bench.close(tunnel.at, &[context])
}

fn beside_work(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let mut threads: Vec<crate::tunnel::Thread> = Vec::new();
    for thread in 0..3 {
        let bench = bench.clone();
        threads.push(Box::new(move |at| {
            for _ in 0..3 {
                let flags = Flags::HardwareAccess;
                let packets = asks(&bench, format::Escape::Packets, flags);
                let mirror = asks(&bench, format::Escape::Mirror(2), 0);
                match thread {
                    0 => drop(told(&bench, at, &packets)?),
                    1 => drop(told(&bench, at, &mirror)?),
                    _ => bench.submit(at, context, &[])?,
                }
            }
            Ok(())
        }));
    }
    tunnel.side_by_side(threads)?;
    bench.close(tunnel.at, &[context])
}

fn two_purposes(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let flags = Flags::HardwareAccess | Flags::ChangeFrameLatency;
    let both = asks(&bench, format::Escape::Mirror(3), flags);
    let answer = bench.client.escape(tunnel.at, &both);
    refused("D3DKMTEscape", &answer, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}
