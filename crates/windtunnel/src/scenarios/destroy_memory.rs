//! Ends of allocations that are locked, offered, evicted, mapped or on their way.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{MEMORY, Scenario};
use crate::tunnel::{TestClient, ScenarioStopped, Testbed, expect_ok};
use flight::RuleId;
use kernel::Handle;
use kernel::segment::PlacementRequirements;
use softgpu::format::{Command, anywhere, describe_in, encode, only_in};
use softgpu::{APERTURE, LOCAL, VISIBLE};
use thunk::{CreateAllocation, DestroyAllocation, AllocationSelection};

const PAGE: u64 = 4096;
const SIZE: u64 = 4 * PAGE;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    memory("destroy-unlocked", "what was locked is unlocked, then destroyed", destroy_after_unlock),
    Scenario {
        breaks: &[RuleId::ALLOC_DESTROY_022],
        ..memory(
            "destroy-locked",
            "what the CPU has locked is destroyed: its address is nothing",
            destroy_locked,
        )
    },
    memory("destroy-offered", "what is offered is destroyed, idle and behind work", destroy_offered),
    memory(
        "destroy-evicted",
        "what is in the system's memory is destroyed: nothing pages",
        destroy_evicted,
    ),
    memory(
        "destroy-mapped",
        "what is mapped into an aperture is destroyed: it is unmapped before it is closed",
        destroy_in_aperture,
    ),
    memory(
        "destroy-in-transfer",
        "what is on its way in or out is destroyed: its end waits until it has arrived",
        destroy_during_transfer,
    ),
];

const fn memory(
    name: &'static str,
    about: &'static str,
    story: fn(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
) -> Scenario {
    Scenario { name, about, breaks: &[], needs: MEMORY, body: DisplayBody(story) }
}

/// An allocation of a few pages, wanted so.
fn create(tunnel: &mut Testbed<'_>, bench: &TestClient, wants: &PlacementRequirements) -> Result<u32, ScenarioStopped> {
    let private = vec![describe_in(SIZE, PAGE, wants)];
    Ok(bench.create_with(tunnel.at, &CreateAllocation::new(bench.device, private))?.allocations[0])
}

/// Work on one that is resident, which is not waited for.
fn work(tunnel: &mut Testbed<'_>, bench: &TestClient, context: u32, on: u32) -> Result<(), ScenarioStopped> {
    let fill = Command::Fill { target: Handle(on), offset: 0, length: SIZE, value: 0xa5 };
    let submitted = bench.client.submit(tunnel.at, context, &encode(&[fill]));
    expect_ok("D3DKMTSubmitCommand", submitted)
}

/// How an allocation is destroyed: with `AssumeNotInUse`, with `SynchronousDestroy`.
const WAYS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

fn destroy(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    it: u32,
    (assume_not_in_use, synchronous): (bool, bool),
) -> Result<(), ScenarioStopped> {
    let (device, list) = (bench.device, vec![it]);
    let destroy = DestroyAllocation { device, list, assume_not_in_use, synchronous, ..DestroyAllocation::default() };
    bench.destroy_with(tunnel.at, &destroy)
}

fn destroy_after_unlock(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let it = create(tunnel, &bench, &only_in(&[VISIBLE, APERTURE]))?;
    bench.make_resident(tunnel.at, &[it])?;
    let (client, device) = (&bench.client, bench.device);
    expect_ok("D3DKMTLock2", client.lock2(tunnel.at, device, it, 0))?;
    expect_ok("D3DKMTUnlock2", client.unlock2(tunnel.at, device, it))?;
    destroy(tunnel, &bench, it, (false, true))?;
    bench.close(tunnel.at, &[])
}

fn destroy_locked(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    for wants in [only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE])] {
        let it = create(tunnel, &bench, &wants)?;
        bench.make_resident(tunnel.at, &[it])?;
        for _ in 0..2 {
            expect_ok("D3DKMTLock2", bench.client.lock2(tunnel.at, bench.device, it, 0))?;
        }
        work(tunnel, &bench, context, it)?;
        destroy(tunnel, &bench, it, (false, false))?;
        tunnel.snapshot_live_objects("it waits for the work, and is not locked any more");
        tunnel.run_until_idle();
    }
    bench.close(tunnel.at, &[context])
}

fn destroy_offered(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    for busy in [false, true] {
        let it = create(tunnel, &bench, &anywhere())?;
        bench.make_resident(tunnel.at, &[it])?;
        if busy {
            work(tunnel, &bench, context, it)?;
        }
        let names = AllocationSelection { device: bench.device, list: &[it], ..AllocationSelection::default() };
        expect_ok("D3DKMTOfferAllocations", bench.client.offer(tunnel.at, names, 1))?;
        destroy(tunnel, &bench, it, (false, false))?;
        tunnel.run_until_idle();
    }
    bench.close(tunnel.at, &[context])
}

fn destroy_evicted(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let it = create(tunnel, &bench, &anywhere())?;
    bench.make_resident(tunnel.at, &[it])?;
    work(tunnel, &bench, context, it)?;
    expect_ok("D3DKMTEvict", bench.client.evict(tunnel.at, bench.device, &[it], 0))?;
    tunnel.run_until_idle();
    tunnel.snapshot_live_objects("it is in the system's memory");
    destroy(tunnel, &bench, it, (false, true))?;
    bench.close(tunnel.at, &[context])
}

fn destroy_in_aperture(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    // What nobody ends is there for the packets of those who assume that theirs is not in use.
    let other = create(tunnel, &bench, &only_in(&[APERTURE]))?;
    bench.make_resident(tunnel.at, &[other])?;
    for way in WAYS {
        let it = create(tunnel, &bench, &only_in(&[APERTURE]))?;
        bench.make_resident(tunnel.at, &[it])?;
        work(tunnel, &bench, context, if way.0 { other } else { it })?;
        destroy(tunnel, &bench, it, way)?;
        tunnel.snapshot_live_objects("after the call");
        tunnel.run_until_idle();
    }
    bench.close(tunnel.at, &[context])
}

fn destroy_during_transfer(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let queue = bench.paging_queue(tunnel.at)?.queue;
    for way in WAYS {
        let [comes, goes] = [(); 2].map(|()| create(tunnel, &bench, &only_in(&[LOCAL, APERTURE])));
        let (comes, goes) = (comes?, goes?);
        bench.make_resident(tunnel.at, &[goes])?;
        let created = bench.client.make_resident(tunnel.at, queue, &[comes], 0);
        expect_ok("D3DKMTMakeResident", created)?;
        destroy(tunnel, &bench, comes, way)?;
        tunnel.snapshot_live_objects("one was destroyed on its way in");
        expect_ok("D3DKMTEvict", bench.client.evict(tunnel.at, bench.device, &[goes], 0))?;
        destroy(tunnel, &bench, goes, way)?;
        tunnel.snapshot_live_objects("one was destroyed on its way out");
        tunnel.run_until_idle();
    }
    bench.close(tunnel.at, &[])
}
