//! Several client threads at once.

use crate::scenario::Story::Told;
use crate::scenario::{Scenario, WORK};
use crate::tunnel::{Bench, Stopped, Tunnel};
use flight::Passive;
use thunk::Destroy;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "two-threads",
        about: "two threads of one device: creates, packets and destroys in any order",
        breaks: &[],
        needs: WORK,
        story: Told(two_threads),
    },
    Scenario {
        name: "two-processes",
        about: "two processes, each with a device, side by side",
        breaks: &[],
        needs: WORK,
        story: Told(two_processes),
    },
];

/// A life with a bit of everything.
fn life(bench: &Bench, at: &mut Passive, turn: usize) -> Result<(), Stopped> {
    let context = bench.context(at)?;
    for round in 0..2 {
        let made = bench.create_resource(at, 2)?;
        bench.fill(at, context, made.allocations[0])?;
        let alone = bench.create(at, 1)?;
        if (round + turn).is_multiple_of(2) {
            bench.destroy_list(at, &made.allocations[..1])?;
        }
        bench.fill(at, context, alone.allocations[0])?;
        let destroy = Destroy {
            device: bench.device,
            resource: made.resource,
            synchronous: turn == 0,
            ..Destroy::default()
        };
        bench.destroy(at, &destroy)?;
        bench.destroy_list(at, &alone.allocations)?;
    }
    crate::tunnel::wanted("D3DKMTDestroyContext", bench.client.destroy_context(at, context))
}

fn two_threads(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let (one, two) = (bench.clone(), bench.clone());
    tunnel.side_by_side(vec![
        Box::new(move |at| life(&one, at, 0)),
        Box::new(move |at| life(&two, at, 1)),
    ])?;
    bench.close(tunnel.at, &[])
}

fn two_processes(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (one, two) = (tunnel.client(), tunnel.client());
    let story = |client, turn| {
        move |at: &mut Passive| {
            let bench = Bench::open(client, at)?;
            life(&bench, at, turn)?;
            bench.close(at, &[])
        }
    };
    tunnel.side_by_side(vec![Box::new(story(one, 0)), Box::new(story(two, 1))])
}
