//! Good clients of GPU virtual addresses: mappings stay valid wherever the allocation moves.

use crate::needs::{ADDRESSES, POWER_AND_ADDRESSES};
use crate::private_data::{Command, DataUse, anywhere, only_in};
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_ok};
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
use softgpu::{APERTURE, LOCAL, VISIBLE};
use thunk::PagingStatus;

pub(crate) const PAGE: u64 = 4096;
pub(crate) const LARGE: u64 = 64 << 10;
pub(crate) const PAGES: u64 = 24;
pub(crate) const SIZE: u64 = PAGES * PAGE;
pub(crate) const WRITE: Protection = Protection { Value: Protection::Write };

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "gpuva-map-and-submit",
        about: "maps allocations to GPU virtual addresses and submits packets that use the addresses",
        breaks: &[],
        needs: ADDRESSES.private_data(DataUse::Placement),
        body: DisplayBody(gpuva_map_and_submit),
    },
    Scenario {
        name: "gpuva-evict-and-restore",
        about: "evicts mapped allocations, makes them resident at another location and uses their addresses again",
        breaks: &[],
        needs: ADDRESSES.private_data(DataUse::Placement),
        body: DisplayBody(gpuva_evict_and_restore),
    },
    Scenario {
        name: "gpuva-map-bounds",
        about: "maps at a base address, within minimum and maximum addresses, and over existing mappings",
        breaks: &[],
        needs: ADDRESSES.private_data(DataUse::Placement),
        body: DisplayBody(gpuva_map_bounds),
    },
    Scenario {
        name: "gpuva-update",
        about: "changes reserved addresses with several operations of one D3DKMTUpdateGpuVirtualAddress call",
        breaks: &[],
        needs: ADDRESSES.private_data(DataUse::Placement),
        body: DisplayBody(gpuva_update),
    },
    Scenario {
        name: "gpuva-free",
        about: "frees address ranges as a whole and in part, and reuses them immediately",
        breaks: &[],
        needs: ADDRESSES.private_data(DataUse::Placement),
        body: DisplayBody(gpuva_free),
    },
    Scenario {
        name: "gpuva-destroy-mapped",
        about: "destroys mapped allocations by themselves, with their device and with their process",
        breaks: &[],
        needs: ADDRESSES.private_data(DataUse::Placement),
        body: DisplayBody(gpuva_destroy_mapped),
    },
    Scenario {
        name: "gpuva-power-transition",
        about: "powers the adapter down and up, then uses existing mappings",
        breaks: &[],
        needs: POWER_AND_ADDRESSES.private_data(DataUse::Placement),
        body: DisplayBody(gpuva_power_transition),
    },
    Scenario {
        name: "gpuva-two-processes",
        about: "maps different allocations at one address in two processes",
        breaks: &[],
        needs: ADDRESSES.private_data(DataUse::Placement),
        body: DisplayBody(gpuva_two_processes),
    },
];

/// Local memory that is not visible to the CPU.
pub(crate) fn cpu_invisible() -> PlacementRequirements {
    let mut requirements = only_in(&[LOCAL]);
    requirements.flags.cpu_visible = false;
    requirements
}

pub(crate) fn create(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    requirements: &[PlacementRequirements],
) -> Result<Vec<D3DKMT_HANDLE>, ScenarioStopped> {
    let private = requirements
        .iter()
        .map(|requirements| test_client.private_data.placed(SIZE, PAGE, requirements))
        .collect();
    Ok(test_client.create_list(testbed.at, private)?.allocations)
}

/// A request that maps a whole allocation at any address.
pub(crate) fn whole(allocation: D3DKMT_HANDLE) -> Map {
    Map { hAllocation: allocation, SizeInPages: PAGES, Protection: WRITE, ..Map::ZERO }
}

/// Waits for the paging fence of a call.
pub(crate) fn wait(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    when: PagingStatus,
) -> Result<(), ScenarioStopped> {
    if let PagingStatus::Pending(value) = when {
        let queue = test_client.paging_queue(testbed.at)?;
        let waited = test_client.client.wait(testbed.at, test_client.device, queue.fence, value);
        expect_ok("D3DKMTWaitForSynchronizationObjectFromCpu", waited)?;
    }
    Ok(())
}

/// Maps a range and waits until it is usable.
pub(crate) fn map(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    request: &Map,
) -> Result<u64, ScenarioStopped> {
    let request = Map { hPagingQueue: test_client.paging_queue(testbed.at)?.queue, ..*request };
    let mapped = test_client.client.map_address(testbed.at, &request);
    let (address, when) = expect_ok("D3DKMTMapGpuVirtualAddress", mapped)?;
    wait(testbed, test_client, when)?;
    Ok(address)
}

/// Reserves a range and waits until it is usable.
pub(crate) fn reserve(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    request: &Reserve,
) -> Result<u64, ScenarioStopped> {
    let request = Reserve { hPagingQueue: test_client.paging_queue(testbed.at)?.queue, ..*request };
    let reserved = test_client.client.reserve_address(testbed.at, &request);
    let (address, when) = expect_ok("D3DKMTReserveGpuVirtualAddress", reserved)?;
    wait(testbed, test_client, when)?;
    Ok(address)
}

/// Submits a packet that fills one address and copies from it to another.
pub(crate) fn work(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    context: u32,
    commands: &[Command],
) -> Result<(), ScenarioStopped> {
    test_client.submit(testbed.at, context, commands)?;
    testbed.run_until_idle();
    Ok(())
}

pub(crate) fn fill(address: u64, length: u64, value: u8) -> Command {
    Command::FillAt { address, length, value }
}

fn evict(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    list: &[D3DKMT_HANDLE],
) -> Result<(), ScenarioStopped> {
    expect_ok("D3DKMTEvict", test_client.client.evict(testbed.at, test_client.device, list, 0))
        .map(drop)
}

pub(crate) fn free_at(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    address: u64,
    bytes: u64,
) -> Result<(), ScenarioStopped> {
    let freed = test_client.client.free_address(testbed.at, test_client.adapter, address, bytes);
    expect_ok("D3DKMTFreeGpuVirtualAddress", freed)
}

fn everywhere() -> [PlacementRequirements; 4] {
    [cpu_invisible(), only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE]), anywhere()]
}

fn gpuva_map_and_submit(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let list = create(testbed, &test_client, &everywhere())?;
    // Some are mapped before they are resident, some after.
    let mut addresses = Vec::new();
    for it in &list[..2] {
        addresses.push(map(testbed, &test_client, &whole(*it))?);
    }
    test_client.make_resident(testbed.at, &list)?;
    for it in &list[2..] {
        addresses.push(map(testbed, &test_client, &whole(*it))?);
    }
    for (value, address) in (1..).zip(&addresses) {
        work(testbed, &test_client, context, &[fill(*address, SIZE, value)])?;
    }
    for pair in addresses.windows(2) {
        let copy = Command::CopyAt { from: pair[0], to: pair[1] + PAGE, length: SIZE - PAGE };
        work(testbed, &test_client, context, &[copy])?;
    }
    testbed.snapshot_live_objects("every allocation is mapped");
    test_client.destroy_list(testbed.at, &list)?;
    test_client.close(testbed.at, &[context])
}

fn gpuva_evict_and_restore(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let list = create(testbed, &test_client, &everywhere())?;
    let mut addresses = Vec::new();
    for it in &list {
        // Each allocation is mapped twice; both mappings follow it.
        addresses.push(map(testbed, &test_client, &whole(*it))?);
        let part = Map { OffsetInPages: 1, SizeInPages: 2, ..whole(*it) };
        addresses.push(map(testbed, &test_client, &part)?);
    }
    test_client.make_resident(testbed.at, &list)?;
    for (value, address) in (1..).zip(&addresses) {
        work(testbed, &test_client, context, &[fill(*address, 2 * PAGE, value)])?;
    }
    // They become resident in another order, so at other locations.
    evict(testbed, &test_client, &list)?;
    testbed.run_until_idle();
    let turned: Vec<D3DKMT_HANDLE> = list.iter().rev().copied().collect();
    for it in &turned {
        test_client.make_resident(testbed.at, &[*it])?;
    }
    for (value, address) in (101..).zip(&addresses) {
        work(testbed, &test_client, context, &[fill(*address, 2 * PAGE, value)])?;
    }
    let (even, partial): (Vec<_>, Vec<_>) =
        list.chunks(2).map(|numbers| (numbers[0], numbers[1])).unzip();
    test_client.destroy_list(testbed.at, &partial)?;
    testbed.run_until_idle();
    evict(testbed, &test_client, &even)?;
    test_client.make_resident(testbed.at, &even)?;
    let lazily = abi::ukm::D3DDDI_EVICT_FLAGS::EvictOnlyIfNecessary;
    expect_ok(
        "D3DKMTEvict",
        test_client.client.evict(testbed.at, test_client.device, &even, lazily),
    )?;
    testbed.compact();
    test_client.make_resident(testbed.at, &even)?;
    work(testbed, &test_client, context, &[fill(addresses[0], SIZE, 77)])?;
    test_client.destroy_list(testbed.at, &even)?;
    test_client.close(testbed.at, &[context])
}

fn gpuva_map_bounds(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let list = create(testbed, &test_client, &[cpu_invisible(), anywhere()])?;
    test_client.make_resident(testbed.at, &list)?;
    let low = Map { MaximumAddress: 16 << 20, ..whole(list[0]) };
    let low = map(testbed, &test_client, &low)?;
    let high = Map { MinimumAddress: 1 << 30, MaximumAddress: 2 << 30, ..whole(list[1]) };
    let high = map(testbed, &test_client, &high)?;
    work(testbed, &test_client, context, &[fill(low, SIZE, 1), fill(high, SIZE, 2)])?;
    // Another mapping replaces a part of the first.
    let over = Map { BaseAddress: low + 4 * PAGE, SizeInPages: 4, ..whole(list[1]) };
    map(testbed, &test_client, &over)?;
    work(testbed, &test_client, context, &[fill(low, SIZE, 3)])?;
    let place = Reserve { MinimumAddress: 3 << 30, Size: 4 * LARGE, ..Reserve::ZERO };
    let place = reserve(testbed, &test_client, &place)?;
    let into = Map { BaseAddress: place + LARGE, ..whole(list[0]) };
    let into = map(testbed, &test_client, &into)?;
    let zero = Protection { Value: Protection::Zero };
    let empty =
        Map { BaseAddress: place + 2 * LARGE, SizeInPages: 16, Protection: zero, ..Map::ZERO };
    let empty = map(testbed, &test_client, &empty)?;
    let copy = Command::CopyAt { from: empty, to: into, length: PAGE };
    work(testbed, &test_client, context, &[fill(empty, PAGE, 9), copy])?;
    let zeroes = Reserve { Size: LARGE, ReservationType: RESERVE_ZERO, ..Reserve::ZERO };
    let zeroes = reserve(testbed, &test_client, &zeroes)?;
    let copy = Command::CopyAt { from: zeroes, to: into, length: PAGE };
    work(testbed, &test_client, context, &[copy])?;
    test_client.destroy_list(testbed.at, &list)?;
    free_at(testbed, &test_client, place, 4 * LARGE)?;
    test_client.close(testbed.at, &[context])
}

/// An operation of an update.
pub(crate) fn operation(kind: i32, data: &[u64]) -> Operation {
    let mut all = [0; 7];
    for (to, from) in all.iter_mut().zip(data) {
        *to = *from;
    }
    Operation { OperationType: kind, Data: all }
}

fn gpuva_update(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let list = create(testbed, &test_client, &[cpu_invisible(), anywhere()])?;
    test_client.make_resident(testbed.at, &list)?;
    let base = reserve(testbed, &test_client, &Reserve { Size: 16 * LARGE, ..Reserve::ZERO })?;
    let [one, two] = [list[0], list[1]].map(u64::from);
    let operations = [
        operation(MAP, &[base, SIZE, one, 0, SIZE]),
        // The same two pages repeatedly.
        operation(MAP, &[base + 2 * LARGE, 8 * PAGE, two, PAGE, 2 * PAGE]),
        // Overlaps the first operation; the later one wins.
        operation(MAP_PROTECT, &[base + PAGE, PAGE, two, 0, PAGE, WRITE.Value, 5]),
        operation(COPY, &[base, 4 * PAGE, base + 4 * LARGE]),
        operation(UNMAP, &[base + 8 * PAGE, 2 * PAGE, Protection::NoAccess]),
        operation(UNMAP, &[base + 10 * PAGE, PAGE, Protection::Zero]),
    ];
    let updated =
        test_client.client.update_address(testbed.at, test_client.device, &operations, None);
    expect_ok("D3DKMTUpdateGpuVirtualAddress", updated)?;
    testbed.run_until_idle();
    let commands = [
        fill(base, 8 * PAGE, 1),
        fill(base + 10 * PAGE, 2 * PAGE, 2),
        fill(base + 2 * LARGE, 8 * PAGE, 3),
    ];
    work(testbed, &test_client, context, &commands)?;
    work(testbed, &test_client, context, &[fill(base + 4 * LARGE, 4 * PAGE, 4)])?;
    test_client.destroy_list(testbed.at, &list)?;
    free_at(testbed, &test_client, base, 16 * LARGE)?;
    test_client.close(testbed.at, &[context])
}

fn gpuva_free(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let list = create(testbed, &test_client, &[cpu_invisible(), anywhere()])?;
    test_client.make_resident(testbed.at, &list)?;
    let address = map(testbed, &test_client, &whole(list[0]))?;
    work(testbed, &test_client, context, &[fill(address, SIZE, 1)])?;
    free_at(testbed, &test_client, address, SIZE)?;
    // The next mapping gets the same address before the first is fully freed.
    let again = map(testbed, &test_client, &Map { BaseAddress: address, ..whole(list[1]) })?;
    work(testbed, &test_client, context, &[fill(again, SIZE, 2)])?;
    // Frees a part; the rest stays mapped.
    free_at(testbed, &test_client, again + PAGE, 2 * PAGE)?;
    work(testbed, &test_client, context, &[fill(again, PAGE, 3), fill(again + 3 * PAGE, PAGE, 4)])?;
    // Frees a range before its page-table entries are written.
    let request =
        Map { hPagingQueue: test_client.paging_queue(testbed.at)?.queue, ..whole(list[0]) };
    let mapped = test_client.client.map_address(testbed.at, &request);
    let (late, _) = expect_ok("D3DKMTMapGpuVirtualAddress", mapped)?;
    free_at(testbed, &test_client, late, SIZE)?;
    let next = map(testbed, &test_client, &Map { BaseAddress: late, ..whole(list[1]) })?;
    work(testbed, &test_client, context, &[fill(next, SIZE, 5)])?;
    test_client.destroy_list(testbed.at, &list)?;
    test_client.close(testbed.at, &[context])
}

fn gpuva_destroy_mapped(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let list = create(testbed, &test_client, &everywhere())?;
    test_client.make_resident(testbed.at, &list)?;
    for it in &list {
        let address = map(testbed, &test_client, &whole(*it))?;
        test_client.submit(testbed.at, context, &[fill(address, SIZE, 6)])?;
    }
    test_client.destroy_list(testbed.at, &list[..1])?;
    evict(testbed, &test_client, &list[1..2])?;
    test_client.destroy_list(testbed.at, &list[1..2])?;
    let place = reserve(testbed, &test_client, &Reserve { Size: LARGE * 4, ..Reserve::ZERO })?;
    map(testbed, &test_client, &Map { BaseAddress: place, ..whole(list[2]) })?;
    testbed.snapshot_live_objects("half of the allocations are destroyed");
    test_client.close(testbed.at, &[context])?;
    testbed.run_until_idle();
    Ok(())
}

fn gpuva_power_transition(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let list = create(testbed, &test_client, &everywhere())?;
    test_client.make_resident(testbed.at, &list)?;
    let mut addresses = Vec::new();
    for it in &list {
        addresses.push(map(testbed, &test_client, &whole(*it))?);
    }
    let zeroes = Reserve { Size: LARGE, ReservationType: RESERVE_ZERO, ..Reserve::ZERO };
    let zeroes = reserve(testbed, &test_client, &zeroes)?;
    work(testbed, &test_client, context, &[fill(addresses[0], SIZE, 1)])?;
    testbed.kernel.power_down(testbed.at, testbed.adapter, PowerAction::Sleep);
    testbed.kernel.power_up(testbed.at, testbed.adapter);
    for address in &addresses {
        let copy = Command::CopyAt { from: zeroes, to: *address, length: PAGE };
        work(testbed, &test_client, context, &[fill(*address, SIZE, 2), copy])?;
    }
    test_client.destroy_list(testbed.at, &list)?;
    test_client.close(testbed.at, &[context])
}

fn gpuva_two_processes(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let benches = [testbed.test_client()?, testbed.test_client()?];
    let mut contexts = Vec::new();
    let mut addresses = Vec::new();
    for test_client in &benches {
        let context = test_client.create_context(testbed.at)?;
        let list = create(testbed, test_client, &[cpu_invisible()])?;
        test_client.make_resident(testbed.at, &list)?;
        let request = Map { BaseAddress: 64 << 20, ..whole(list[0]) };
        addresses.push(map(testbed, test_client, &request)?);
        contexts.push(context);
    }
    for ((test_client, context), address) in benches.iter().zip(&contexts).zip(&addresses) {
        work(testbed, test_client, *context, &[fill(*address, SIZE, 8)])?;
    }
    for (test_client, context) in benches.iter().zip(&contexts) {
        test_client.close(testbed.at, &[*context])?;
    }
    Ok(())
}
