//! Contexts that take turns: what engines save of them, and where.

use crate::scenario::Story::Told;
use crate::scenario::{Scenario, WORK};
use crate::tunnel::{Stopped, Tunnel};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "area-in-use",
        about: "an allocation created behind a packet, where a driver may change what it saves into",
        breaks: &[],
        needs: WORK,
        story: Told(area_in_use),
    },
    Scenario {
        name: "turns",
        about: "contexts of two devices that take turns on both nodes",
        breaks: &[],
        needs: WORK,
        story: Told(turns),
    },
];

fn area_in_use(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let one = bench.create(tunnel.at, 1)?.allocations;
    let context = bench.context(tunnel.at)?;
    for target in &one {
        bench.fill(tunnel.at, context, *target)?;
    }
    bench.create(tunnel.at, 1)?;
    tunnel.settle();
    for target in &one {
        bench.fill(tunnel.at, context, *target)?;
    }
    tunnel.settle();
    bench.close(tunnel.at, &[context])
}

fn turns(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let mut other = bench.clone();
    other.device = bench.device(tunnel.at)?;
    let mut contexts = Vec::new();
    for bench in [&bench, &other] {
        for node in [0, 1, 0] {
            let target = bench.create(tunnel.at, 1)?.allocations;
            contexts.push((bench, bench.context_on(tunnel.at, node)?, target));
        }
    }
    for round in 0..4 {
        for (bench, context, targets) in &contexts {
            for target in targets {
                bench.fill(tunnel.at, *context, *target)?;
            }
        }
        if round % 2 == 0 {
            tunnel.settle();
        }
    }
    // The second device goes with all that is in it, and with packets on their way.
    let gone = bench.client.destroy_device(tunnel.at, other.device);
    crate::tunnel::wanted("D3DKMTDestroyDevice", gone)?;
    bench.close(tunnel.at, &[])
}
