//! Contexts that take turns: what engines save of them, and where.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{Scenario, WORK};
use crate::tunnel::{ScenarioStopped, Testbed};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "area-in-use",
        about: "an allocation created behind a packet, where a driver may change what it saves into",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(create_context_allocation_in_use),
    },
    Scenario {
        name: "turns",
        about: "contexts of two devices that take turns on both nodes",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(tdr_context_switching),
    },
];

fn create_context_allocation_in_use(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let one = bench.create(tunnel.at, 1)?.allocations;
    let context = bench.create_context(tunnel.at)?;
    for target in &one {
        bench.fill(tunnel.at, context, *target)?;
    }
    bench.create(tunnel.at, 1)?;
    tunnel.run_until_idle();
    for target in &one {
        bench.fill(tunnel.at, context, *target)?;
    }
    tunnel.run_until_idle();
    bench.close(tunnel.at, &[context])
}

fn tdr_context_switching(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let mut other = bench.clone();
    other.device = bench.create_device(tunnel.at)?;
    let mut contexts = Vec::new();
    for bench in [&bench, &other] {
        for node in [0, 1, 0] {
            let target = bench.create(tunnel.at, 1)?.allocations;
            contexts.push((bench, bench.create_context_on(tunnel.at, node)?, target));
        }
    }
    for round in 0..4 {
        for (bench, context, targets) in &contexts {
            for target in targets {
                bench.fill(tunnel.at, *context, *target)?;
            }
        }
        if round % 2 == 0 {
            tunnel.run_until_idle();
        }
    }
    // The second device goes with all that is in it, and with packets on their way.
    let gone = bench.client.destroy_device(tunnel.at, other.device);
    crate::tunnel::expect_ok("D3DKMTDestroyDevice", gone)?;
    bench.close(tunnel.at, &[])
}
