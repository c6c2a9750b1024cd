//! Several client threads at once.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{Scenario, WORK};
use crate::tunnel::{TestClient, ScenarioStopped, Testbed};
use flight::Passive;
use thunk::DestroyAllocation;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "two-threads",
        about: "two threads of one device: creates, packets and destroys in any order",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(process_two_threads),
    },
    Scenario {
        name: "two-processes",
        about: "two processes, each with a device, side by side",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(process_two_processes),
    },
];

/// A life with a bit of everything.
fn life(bench: &TestClient, at: &mut Passive, turn: usize) -> Result<(), ScenarioStopped> {
    let context = bench.create_context(at)?;
    for round in 0..2 {
        let created = bench.create_resource(at, 2)?;
        bench.fill(at, context, created.allocations[0])?;
        let alone = bench.create(at, 1)?;
        if (round + turn).is_multiple_of(2) {
            bench.destroy_list(at, &created.allocations[..1])?;
        }
        bench.fill(at, context, alone.allocations[0])?;
        let destroy = DestroyAllocation {
            device: bench.device,
            resource: created.resource,
            synchronous: turn == 0,
            ..DestroyAllocation::default()
        };
        bench.destroy_with(at, &destroy)?;
        bench.destroy_list(at, &alone.allocations)?;
    }
    crate::tunnel::expect_ok("D3DKMTDestroyContext", bench.client.destroy_context(at, context))
}

fn process_two_threads(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let (one, two) = (bench.clone(), bench.clone());
    tunnel.run_threads(vec![
        Box::new(move |at| life(&one, at, 0)),
        Box::new(move |at| life(&two, at, 1)),
    ])?;
    bench.close(tunnel.at, &[])
}

fn process_two_processes(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (one, two) = (tunnel.client(), tunnel.client());
    let story = |client, turn| {
        move |at: &mut Passive| {
            let bench = TestClient::open(client, at)?;
            life(&bench, at, turn)?;
            bench.close(at, &[])
        }
    };
    tunnel.run_threads(vec![Box::new(story(one, 0)), Box::new(story(two, 1))])
}
