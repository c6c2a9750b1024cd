//! Good clients of an adapter with virtual addresses: what they map is found there, wherever it
//! goes.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{ADDRESSES, POWER_AND_ADDRESSES, Scenario};
use crate::tunnel::{TestClient, ScenarioStopped, Testbed, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::ukm::{
    D3DDDI_MAPGPUVIRTUALADDRESS as Map, D3DDDI_RESERVEGPUVIRTUALADDRESS as Reserve,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY as COPY, D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP as MAP,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT as MAP_PROTECT,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION as Operation,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP as UNMAP,
    D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE as Protection,
    D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO as RESERVE_ZERO,
};
use kernel::power::PowerAction;
use kernel::segment::PlacementRequirements;
use softgpu::format::{Command, anywhere, describe_in, only_in};
use softgpu::{APERTURE, LOCAL, VISIBLE};
use thunk::{CreateAllocation, PagingStatus};

pub(crate) const PAGE: u64 = 4096;
pub(crate) const LARGE: u64 = 64 << 10;
pub(crate) const PAGES: u64 = 24;
pub(crate) const SIZE: u64 = PAGES * PAGE;
pub(crate) const WRITE: Protection = Protection { Value: Protection::Write };

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "map-and-draw",
        about: "allocations are mapped at virtual addresses, and packets use those",
        breaks: &[],
        needs: ADDRESSES,
        body: DisplayBody(gpuva_map_and_submit),
    },
    Scenario {
        name: "map-moves",
        about: "what is mapped is evicted, comes back elsewhere, and is found again",
        breaks: &[],
        needs: ADDRESSES,
        body: DisplayBody(gpuva_evict_and_restore),
    },
    Scenario {
        name: "map-bounds",
        about: "addresses are asked for by place, within bounds, and over one another",
        breaks: &[],
        needs: ADDRESSES,
        body: DisplayBody(gpuva_map_bounds),
    },
    Scenario {
        name: "update",
        about: "reserved addresses are changed by several operations of one call",
        breaks: &[],
        needs: ADDRESSES,
        body: DisplayBody(gpuva_update),
    },
    Scenario {
        name: "free",
        about: "addresses are freed, whole and in part, and used by others at once",
        breaks: &[],
        needs: ADDRESSES,
        body: DisplayBody(gpuva_free),
    },
    Scenario {
        name: "mapped-ends",
        about: "what is mapped is destroyed, by itself, with its device and with its process",
        breaks: &[],
        needs: ADDRESSES,
        body: DisplayBody(gpuva_destroy_mapped),
    },
    Scenario {
        name: "map-sleeps",
        about: "the power goes and comes, and what is mapped is found again",
        breaks: &[],
        needs: POWER_AND_ADDRESSES,
        body: DisplayBody(gpuva_power_transition),
    },
    Scenario {
        name: "two-spaces",
        about: "two processes have different things at the same address",
        breaks: &[],
        needs: ADDRESSES,
        body: DisplayBody(gpuva_two_processes),
    },
];

/// Local memory that the CPU does not see.
pub(crate) fn cpu_invisible() -> PlacementRequirements {
    let mut wants = only_in(&[LOCAL]);
    wants.flags.cpu_visible = false;
    wants
}

pub(crate) fn create(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    wants: &[PlacementRequirements],
) -> Result<Vec<D3DKMT_HANDLE>, ScenarioStopped> {
    let private = wants.iter().map(|it| describe_in(SIZE, PAGE, it)).collect();
    Ok(bench.create_with(tunnel.at, &CreateAllocation::new(bench.device, private))?.allocations)
}

/// What maps a whole allocation anywhere.
pub(crate) fn whole(allocation: D3DKMT_HANDLE) -> Map {
    Map { hAllocation: allocation, SizeInPages: PAGES, Protection: WRITE, ..Map::ZERO }
}

/// Waits for what a call has planned.
pub(crate) fn wait(tunnel: &mut Testbed<'_>, bench: &TestClient, when: PagingStatus) -> Result<(), ScenarioStopped> {
    if let PagingStatus::Pending(value) = when {
        let queue = bench.paging_queue(tunnel.at)?;
        let gpu_wait = bench.client.wait(tunnel.at, bench.device, queue.fence, value);
        expect_ok("D3DKMTWaitForSynchronizationObjectFromCpu", gpu_wait)?;
    }
    Ok(())
}

/// Maps, and waits until it can be used.
pub(crate) fn map(tunnel: &mut Testbed<'_>, bench: &TestClient, order: &Map) -> Result<u64, ScenarioStopped> {
    let order = Map { hPagingQueue: bench.paging_queue(tunnel.at)?.queue, ..*order };
    let mapped = bench.client.map_address(tunnel.at, &order);
    let (address, when) = expect_ok("D3DKMTMapGpuVirtualAddress", mapped)?;
    wait(tunnel, bench, when)?;
    Ok(address)
}

/// Reserves, and waits until it can be used.
pub(crate) fn reserve(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    order: &Reserve,
) -> Result<u64, ScenarioStopped> {
    let order = Reserve { hPagingQueue: bench.paging_queue(tunnel.at)?.queue, ..*order };
    let reserved = bench.client.reserve_address(tunnel.at, &order);
    let (address, when) = expect_ok("D3DKMTReserveGpuVirtualAddress", reserved)?;
    wait(tunnel, bench, when)?;
    Ok(address)
}

/// Has bytes at an address set, and copied from there to another.
pub(crate) fn work(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    context: u32,
    commands: &[Command],
) -> Result<(), ScenarioStopped> {
    bench.submit(tunnel.at, context, commands)?;
    tunnel.run_until_idle();
    Ok(())
}

pub(crate) fn fill(address: u64, length: u64, value: u8) -> Command {
    Command::FillAt { address, length, value }
}

fn evict(tunnel: &mut Testbed<'_>, bench: &TestClient, list: &[D3DKMT_HANDLE]) -> Result<(), ScenarioStopped> {
    expect_ok("D3DKMTEvict", bench.client.evict(tunnel.at, bench.device, list, 0)).map(drop)
}

pub(crate) fn free_at(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    address: u64,
    bytes: u64,
) -> Result<(), ScenarioStopped> {
    let freed = bench.client.free_address(tunnel.at, bench.adapter, address, bytes);
    expect_ok("D3DKMTFreeGpuVirtualAddress", freed)
}

fn everywhere() -> [PlacementRequirements; 4] {
    [cpu_invisible(), only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE]), anywhere()]
}

fn gpuva_map_and_submit(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let list = create(tunnel, &bench, &everywhere())?;
    // Some are mapped before they are resident, some after.
    let mut addresses = Vec::new();
    for it in &list[..2] {
        addresses.push(map(tunnel, &bench, &whole(*it))?);
    }
    bench.make_resident(tunnel.at, &list)?;
    for it in &list[2..] {
        addresses.push(map(tunnel, &bench, &whole(*it))?);
    }
    for (value, address) in (1..).zip(&addresses) {
        work(tunnel, &bench, context, &[fill(*address, SIZE, value)])?;
    }
    for pair in addresses.windows(2) {
        let copy = Command::CopyAt { from: pair[0], to: pair[1] + PAGE, length: SIZE - PAGE };
        work(tunnel, &bench, context, &[copy])?;
    }
    tunnel.snapshot_live_objects("all of it is mapped");
    bench.destroy_list(tunnel.at, &list)?;
    bench.close(tunnel.at, &[context])
}

fn gpuva_evict_and_restore(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let list = create(tunnel, &bench, &everywhere())?;
    let mut addresses = Vec::new();
    for it in &list {
        // Each at two places: both follow it.
        addresses.push(map(tunnel, &bench, &whole(*it))?);
        let part = Map { OffsetInPages: 1, SizeInPages: 2, ..whole(*it) };
        addresses.push(map(tunnel, &bench, &part)?);
    }
    bench.make_resident(tunnel.at, &list)?;
    for (value, address) in (1..).zip(&addresses) {
        work(tunnel, &bench, context, &[fill(*address, 2 * PAGE, value)])?;
    }
    // They come back in another order, so elsewhere.
    evict(tunnel, &bench, &list)?;
    tunnel.run_until_idle();
    let turned: Vec<D3DKMT_HANDLE> = list.iter().rev().copied().collect();
    for it in &turned {
        bench.make_resident(tunnel.at, &[*it])?;
    }
    for (value, address) in (101..).zip(&addresses) {
        work(tunnel, &bench, context, &[fill(*address, 2 * PAGE, value)])?;
    }
    let (even, partial): (Vec<_>, Vec<_>) = list.chunks(2).map(|it| (it[0], it[1])).unzip();
    bench.destroy_list(tunnel.at, &partial)?;
    tunnel.run_until_idle();
    evict(tunnel, &bench, &even)?;
    bench.make_resident(tunnel.at, &even)?;
    let lazily = abi::ukm::D3DDDI_EVICT_FLAGS::EvictOnlyIfNecessary;
    expect_ok("D3DKMTEvict", bench.client.evict(tunnel.at, bench.device, &even, lazily))?;
    tunnel.compact();
    bench.make_resident(tunnel.at, &even)?;
    work(tunnel, &bench, context, &[fill(addresses[0], SIZE, 77)])?;
    bench.destroy_list(tunnel.at, &even)?;
    bench.close(tunnel.at, &[context])
}

fn gpuva_map_bounds(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let list = create(tunnel, &bench, &[cpu_invisible(), anywhere()])?;
    bench.make_resident(tunnel.at, &list)?;
    let low = Map { MaximumAddress: 16 << 20, ..whole(list[0]) };
    let low = map(tunnel, &bench, &low)?;
    let high = Map { MinimumAddress: 1 << 30, MaximumAddress: 2 << 30, ..whole(list[1]) };
    let high = map(tunnel, &bench, &high)?;
    work(tunnel, &bench, context, &[fill(low, SIZE, 1), fill(high, SIZE, 2)])?;
    // Another takes a part of the place of the first.
    let over = Map { BaseAddress: low + 4 * PAGE, SizeInPages: 4, ..whole(list[1]) };
    map(tunnel, &bench, &over)?;
    work(tunnel, &bench, context, &[fill(low, SIZE, 3)])?;
    let place = Reserve { MinimumAddress: 3 << 30, Size: 4 * LARGE, ..Reserve::ZERO };
    let place = reserve(tunnel, &bench, &place)?;
    let into = Map { BaseAddress: place + LARGE, ..whole(list[0]) };
    let into = map(tunnel, &bench, &into)?;
    let zero = Protection { Value: Protection::Zero };
    let empty =
        Map { BaseAddress: place + 2 * LARGE, SizeInPages: 16, Protection: zero, ..Map::ZERO };
    let empty = map(tunnel, &bench, &empty)?;
    let copy = Command::CopyAt { from: empty, to: into, length: PAGE };
    work(tunnel, &bench, context, &[fill(empty, PAGE, 9), copy])?;
    let zeroes = Reserve { Size: LARGE, ReservationType: RESERVE_ZERO, ..Reserve::ZERO };
    let zeroes = reserve(tunnel, &bench, &zeroes)?;
    let copy = Command::CopyAt { from: zeroes, to: into, length: PAGE };
    work(tunnel, &bench, context, &[copy])?;
    bench.destroy_list(tunnel.at, &list)?;
    free_at(tunnel, &bench, place, 4 * LARGE)?;
    bench.close(tunnel.at, &[context])
}

/// An operation of an update.
pub(crate) fn operation(kind: i32, data: &[u64]) -> Operation {
    let mut all = [0; 7];
    for (to, from) in all.iter_mut().zip(data) {
        *to = *from;
    }
    Operation { OperationType: kind, Data: all }
}

fn gpuva_update(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let list = create(tunnel, &bench, &[cpu_invisible(), anywhere()])?;
    bench.make_resident(tunnel.at, &list)?;
    let base = reserve(tunnel, &bench, &Reserve { Size: 16 * LARGE, ..Reserve::ZERO })?;
    let [one, two] = [list[0], list[1]].map(u64::from);
    let operations = [
        operation(MAP, &[base, SIZE, one, 0, SIZE]),
        // The same two pages again and again.
        operation(MAP, &[base + 2 * LARGE, 8 * PAGE, two, PAGE, 2 * PAGE]),
        // Over a part of the first: what comes later counts.
        operation(MAP_PROTECT, &[base + PAGE, PAGE, two, 0, PAGE, WRITE.Value, 5]),
        operation(COPY, &[base, 4 * PAGE, base + 4 * LARGE]),
        operation(UNMAP, &[base + 8 * PAGE, 2 * PAGE, Protection::NoAccess]),
        operation(UNMAP, &[base + 10 * PAGE, PAGE, Protection::Zero]),
    ];
    let updated = bench.client.update_address(tunnel.at, bench.device, &operations, None);
    expect_ok("D3DKMTUpdateGpuVirtualAddress", updated)?;
    tunnel.run_until_idle();
    let commands = [
        fill(base, 8 * PAGE, 1),
        fill(base + 10 * PAGE, 2 * PAGE, 2),
        fill(base + 2 * LARGE, 8 * PAGE, 3),
    ];
    work(tunnel, &bench, context, &commands)?;
    work(tunnel, &bench, context, &[fill(base + 4 * LARGE, 4 * PAGE, 4)])?;
    bench.destroy_list(tunnel.at, &list)?;
    free_at(tunnel, &bench, base, 16 * LARGE)?;
    bench.close(tunnel.at, &[context])
}

fn gpuva_free(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let list = create(tunnel, &bench, &[cpu_invisible(), anywhere()])?;
    bench.make_resident(tunnel.at, &list)?;
    let address = map(tunnel, &bench, &whole(list[0]))?;
    work(tunnel, &bench, context, &[fill(address, SIZE, 1)])?;
    free_at(tunnel, &bench, address, SIZE)?;
    // The next one has the same place, while the end of the first is not done.
    let again = map(tunnel, &bench, &Map { BaseAddress: address, ..whole(list[1]) })?;
    work(tunnel, &bench, context, &[fill(again, SIZE, 2)])?;
    // A part goes; the rest stays.
    free_at(tunnel, &bench, again + PAGE, 2 * PAGE)?;
    work(tunnel, &bench, context, &[fill(again, PAGE, 3), fill(again + 3 * PAGE, PAGE, 4)])?;
    // What is freed before it was ever written to its tables.
    let order = Map { hPagingQueue: bench.paging_queue(tunnel.at)?.queue, ..whole(list[0]) };
    let mapped = bench.client.map_address(tunnel.at, &order);
    let (late, _) = expect_ok("D3DKMTMapGpuVirtualAddress", mapped)?;
    free_at(tunnel, &bench, late, SIZE)?;
    let next = map(tunnel, &bench, &Map { BaseAddress: late, ..whole(list[1]) })?;
    work(tunnel, &bench, context, &[fill(next, SIZE, 5)])?;
    bench.destroy_list(tunnel.at, &list)?;
    bench.close(tunnel.at, &[context])
}

fn gpuva_destroy_mapped(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let list = create(tunnel, &bench, &everywhere())?;
    bench.make_resident(tunnel.at, &list)?;
    for it in &list {
        let address = map(tunnel, &bench, &whole(*it))?;
        bench.submit(tunnel.at, context, &[fill(address, SIZE, 6)])?;
    }
    bench.destroy_list(tunnel.at, &list[..1])?;
    evict(tunnel, &bench, &list[1..2])?;
    bench.destroy_list(tunnel.at, &list[1..2])?;
    let place = reserve(tunnel, &bench, &Reserve { Size: LARGE * 4, ..Reserve::ZERO })?;
    map(tunnel, &bench, &Map { BaseAddress: place, ..whole(list[2]) })?;
    tunnel.snapshot_live_objects("half of it is destroyed");
    bench.close(tunnel.at, &[context])?;
    tunnel.run_until_idle();
    Ok(())
}

fn gpuva_power_transition(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let list = create(tunnel, &bench, &everywhere())?;
    bench.make_resident(tunnel.at, &list)?;
    let mut addresses = Vec::new();
    for it in &list {
        addresses.push(map(tunnel, &bench, &whole(*it))?);
    }
    let zeroes = Reserve { Size: LARGE, ReservationType: RESERVE_ZERO, ..Reserve::ZERO };
    let zeroes = reserve(tunnel, &bench, &zeroes)?;
    work(tunnel, &bench, context, &[fill(addresses[0], SIZE, 1)])?;
    tunnel.kernel.power_down(tunnel.at, tunnel.adapter, PowerAction::Sleep);
    tunnel.kernel.power_up(tunnel.at, tunnel.adapter);
    for address in &addresses {
        let copy = Command::CopyAt { from: zeroes, to: *address, length: PAGE };
        work(tunnel, &bench, context, &[fill(*address, SIZE, 2), copy])?;
    }
    bench.destroy_list(tunnel.at, &list)?;
    bench.close(tunnel.at, &[context])
}

fn gpuva_two_processes(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let benches = [tunnel.test_client()?, tunnel.test_client()?];
    let mut contexts = Vec::new();
    let mut addresses = Vec::new();
    for bench in &benches {
        let context = bench.create_context(tunnel.at)?;
        let list = create(tunnel, bench, &[cpu_invisible()])?;
        bench.make_resident(tunnel.at, &list)?;
        let order = Map { BaseAddress: 64 << 20, ..whole(list[0]) };
        addresses.push(map(tunnel, bench, &order)?);
        contexts.push(context);
    }
    for ((bench, context), address) in benches.iter().zip(&contexts).zip(&addresses) {
        work(tunnel, bench, *context, &[fill(*address, SIZE, 8)])?;
    }
    for (bench, context) in benches.iter().zip(&contexts) {
        bench.close(tunnel.at, &[*context])?;
    }
    Ok(())
}
