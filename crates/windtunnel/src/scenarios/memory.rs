//! Good clients of an adapter with memory: what they use comes, goes, and comes back.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{MEMORY, Scenario};
use crate::tunnel::{TestClient, ScenarioStopped, Testbed, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::ukm::D3DDDI_EVICT_FLAGS as EvictFlags;
use kernel::Handle;
use kernel::segment::PlacementRequirements;
use softgpu::format::{Command, anywhere, describe_in, encode, only_in};
use softgpu::{APERTURE, LOCAL, VISIBLE};
use thunk::{CreateAllocation, DestroyAllocation, AllocationSelection};

const PAGE: u64 = 4096;
const SIZE: u64 = 24 * PAGE;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "memory-moves",
        about: "allocations are filled, evicted and made resident again, in memory and apertures",
        breaks: &[],
        needs: MEMORY,
        body: DisplayBody(residency_evict_and_restore),
    },
    Scenario {
        name: "memory-neighbours",
        about: "allocations side by side come and go, each by itself",
        breaks: &[],
        needs: MEMORY,
        body: DisplayBody(residency_adjacent_allocations),
    },
    Scenario {
        name: "memory-counted",
        about: "residency is counted: as many Evicts as MakeResidents",
        breaks: &[],
        needs: MEMORY,
        body: DisplayBody(residency_reference_count),
    },
    Scenario {
        name: "memory-compacted",
        about: "every second allocation goes, and those that nobody uses move together",
        breaks: &[],
        needs: MEMORY,
        body: DisplayBody(residency_compaction),
    },
    Scenario {
        name: "destroy-resident",
        about: "what is resident, locked, offered or evicted is destroyed",
        breaks: &[],
        needs: MEMORY,
        body: DisplayBody(destroy_any_residency),
    },
];

/// Local memory that the CPU does not see.
fn cpu_invisible() -> PlacementRequirements {
    let mut wants = only_in(&[LOCAL]);
    wants.flags.cpu_visible = false;
    wants
}

fn create(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    wants: &[PlacementRequirements],
) -> Result<Vec<D3DKMT_HANDLE>, ScenarioStopped> {
    let private = wants.iter().map(|it| describe_in(SIZE, PAGE, it)).collect();
    Ok(bench.create_with(tunnel.at, &CreateAllocation::new(bench.device, private))?.allocations)
}

fn fill(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    context: u32,
    list: &[D3DKMT_HANDLE],
) -> Result<(), ScenarioStopped> {
    for (value, target) in (1..).zip(list) {
        let target = Handle(*target);
        let half = SIZE / 2;
        let low = Command::Fill { target, offset: 0, length: half, value };
        let high = Command::Fill { target, offset: half, length: half, value: !value };
        let commands = encode(&[low, high]);
        expect_ok("D3DKMTSubmitCommand", bench.client.submit(tunnel.at, context, &commands))?;
    }
    tunnel.run_until_idle();
    Ok(())
}

fn evict(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    list: &[D3DKMT_HANDLE],
    flags: u32,
) -> Result<(), ScenarioStopped> {
    expect_ok("D3DKMTEvict", bench.client.evict(tunnel.at, bench.device, list, flags)).map(drop)
}

fn residency_evict_and_restore(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let wants = [cpu_invisible(), only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE]), anywhere()];
    let list = create(tunnel, &bench, &wants)?;
    bench.make_resident(tunnel.at, &list)?;
    fill(tunnel, &bench, context, &list)?;
    evict(tunnel, &bench, &list, 0)?;
    tunnel.run_until_idle();
    tunnel.snapshot_live_objects("everything is evicted");
    bench.make_resident(tunnel.at, &list)?;
    tunnel.snapshot_live_objects("everything is resident again");
    bench.destroy_list(tunnel.at, &list)?;
    bench.close(tunnel.at, &[context])
}

fn residency_adjacent_allocations(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let list = create(tunnel, &bench, &[cpu_invisible(); 4])?;
    bench.make_resident(tunnel.at, &list)?;
    fill(tunnel, &bench, context, &list)?;
    evict(tunnel, &bench, &list, 0)?;
    tunnel.run_until_idle();
    for it in &list {
        bench.make_resident(tunnel.at, &[*it])?;
    }
    // Those with an even place leave and come back; the others stay as they are.
    let even: Vec<D3DKMT_HANDLE> = list.iter().step_by(2).copied().collect();
    evict(tunnel, &bench, &even, 0)?;
    tunnel.run_until_idle();
    bench.make_resident(tunnel.at, &even)?;
    bench.destroy_list(tunnel.at, &list)?;
    bench.close(tunnel.at, &[context])
}

fn residency_reference_count(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let list = create(tunnel, &bench, &[anywhere(); 2])?;
    for _ in 0..3 {
        bench.make_resident(tunnel.at, &list)?;
    }
    evict(tunnel, &bench, &list, 0)?;
    evict(tunnel, &bench, &list, EvictFlags::EvictOnlyIfNecessary)?;
    tunnel.snapshot_live_objects("two of three");
    evict(tunnel, &bench, &list, EvictFlags::NotWrittenTo)?;
    tunnel.run_until_idle();
    bench.destroy_list(tunnel.at, &list)?;
    bench.close(tunnel.at, &[])
}

fn residency_compaction(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    // What a context saves into does not move: it lies below the others.
    let first = create(tunnel, &bench, &[cpu_invisible()])?;
    bench.make_resident(tunnel.at, &first)?;
    fill(tunnel, &bench, context, &first)?;
    let list = create(tunnel, &bench, &[cpu_invisible(); 8])?;
    bench.make_resident(tunnel.at, &list)?;
    fill(tunnel, &bench, context, &list)?;
    let (even, partial): (Vec<_>, Vec<_>) = list.chunks(2).map(|it| (it[0], it[1])).unzip();
    bench.destroy_list(tunnel.at, &partial)?;
    tunnel.run_until_idle();
    evict(tunnel, &bench, &even, EvictFlags::EvictOnlyIfNecessary)?;
    tunnel.compact();
    tunnel.snapshot_live_objects("what is left lies together");
    bench.make_resident(tunnel.at, &even)?;
    // What the GPU has now is what is moved out, and comes back.
    evict(tunnel, &bench, &even, 0)?;
    tunnel.run_until_idle();
    bench.make_resident(tunnel.at, &even)?;
    bench.destroy_list(tunnel.at, &even)?;
    bench.close(tunnel.at, &[context])
}

fn destroy_any_residency(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let wants = [cpu_invisible(), only_in(&[APERTURE]), only_in(&[VISIBLE, APERTURE]), anywhere()];
    let list = create(tunnel, &bench, &wants)?;
    bench.make_resident(tunnel.at, &list)?;
    fill(tunnel, &bench, context, &list)?;
    let [local, mapped, offered, evicted] = list[..] else { return Ok(()) };
    evict(tunnel, &bench, &[evicted], 0)?;
    let names = AllocationSelection { device: bench.device, list: &[offered], ..AllocationSelection::default() };
    let offer = bench.client.offer(tunnel.at, names, 1);
    expect_ok("D3DKMTOfferAllocations", offer)?;
    for it in [local, mapped, offered, evicted] {
        let destroy = DestroyAllocation {
            device: bench.device,
            list: vec![it],
            synchronous: true,
            ..DestroyAllocation::default()
        };
        bench.destroy_with(tunnel.at, &destroy)?;
    }
    bench.close(tunnel.at, &[context])
}
