//! Good clients of an adapter with memory: allocations become resident, are evicted, and return.

use crate::needs::{PAGING, STANDARD_PAGING};
use crate::private_data::{Command, DataUse, anywhere, only_in};
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as Flags;
use abi::ukm::D3DDDI_EVICT_FLAGS as EvictFlags;
use kernel::Handle;
use kernel::segment::PlacementRequirements;
use softgpu::{APERTURE, LOCAL, VISIBLE};
use thunk::{AllocationSelection, ClientMemory, CreateAllocation, DestroyAllocation};

const PAGE: u64 = 4096;
const SIZE: u64 = 24 * PAGE;
/// The size of an allocation whose transfer comes in several parts.
const LARGE: u64 = 72 * PAGE;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "residency-evict-and-restore",
        about: "fills, evicts and makes allocations resident again in memory segments and apertures",
        breaks: &[],
        needs: PAGING,
        body: DisplayBody(residency_evict_and_restore),
    },
    Scenario {
        name: "residency-transfer-in-parts",
        about: "evicts large allocations and makes them resident again: their transfers come in parts",
        breaks: &[],
        needs: PAGING.private_data(DataUse::Placement),
        body: DisplayBody(residency_transfer_in_parts),
    },
    Scenario {
        name: "residency-adjacent-allocations",
        about: "creates and destroys adjacent allocations independently",
        breaks: &[],
        needs: PAGING,
        body: DisplayBody(residency_adjacent_allocations),
    },
    Scenario {
        name: "residency-reference-count",
        about: "calls Evict as often as MakeResident",
        breaks: &[],
        needs: PAGING,
        body: DisplayBody(residency_reference_count),
    },
    Scenario {
        name: "residency-compaction",
        about: "destroys every second allocation, then compacts the unused allocations",
        breaks: &[],
        needs: PAGING,
        body: DisplayBody(residency_compaction),
    },
    Scenario {
        name: "residency-existing-memory",
        about: "lets the GPU read and write the client's own memory, before and after an eviction",
        breaks: &[],
        needs: STANDARD_PAGING.private_data(DataUse::Commands),
        body: DisplayBody(residency_existing_memory),
    },
    Scenario {
        name: "destroy-any-residency",
        about: "destroys allocations that are resident, locked, offered or evicted",
        breaks: &[],
        needs: PAGING,
        body: DisplayBody(destroy_any_residency),
    },
];

/// Local memory that is not visible to the CPU.
fn cpu_invisible() -> PlacementRequirements {
    let mut requirements = only_in(&[LOCAL]);
    requirements.flags.cpu_visible = false;
    requirements
}

fn create(
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

/// Fills allocations, if there is a context for it.
fn fill(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    context: Option<D3DKMT_HANDLE>,
    list: &[D3DKMT_HANDLE],
) -> Result<(), ScenarioStopped> {
    let Some(context) = context else { return Ok(()) };
    for (value, target) in (1..).zip(list) {
        let target = Handle(*target);
        let half = SIZE / 2;
        let low = Command::Fill { target, offset: 0, length: half, value };
        let high = Command::Fill { target, offset: half, length: half, value: !value };
        let commands = test_client.private_data.packet(&[low, high])?;
        expect_ok(
            "D3DKMTSubmitCommand",
            test_client.client.submit(testbed.at, context, &commands),
        )?;
    }
    testbed.run_until_idle();
    Ok(())
}

fn evict(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    list: &[D3DKMT_HANDLE],
    flags: u32,
) -> Result<(), ScenarioStopped> {
    expect_ok("D3DKMTEvict", test_client.client.evict(testbed.at, test_client.device, list, flags))
        .map(drop)
}

fn residency_evict_and_restore(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = testbed.create_context_for_packets(&test_client)?;
    let requirements =
        [cpu_invisible(), only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE]), anywhere()];
    let list = create(testbed, &test_client, &requirements)?;
    test_client.make_resident(testbed.at, &list)?;
    fill(testbed, &test_client, context, &list)?;
    evict(testbed, &test_client, &list, 0)?;
    testbed.run_until_idle();
    testbed.snapshot_live_objects("everything is evicted");
    test_client.make_resident(testbed.at, &list)?;
    testbed.snapshot_live_objects("everything is resident again");
    test_client.destroy_list(testbed.at, &list)?;
    test_client.close(testbed.at, context.as_slice())
}

/// The pages of an allocation differ, so that a part at a wrong place is noticed.
fn residency_transfer_in_parts(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = testbed.create_context_for_packets(&test_client)?;
    let private = [cpu_invisible(), only_in(&[VISIBLE, APERTURE])]
        .map(|requirements| test_client.private_data.placed(LARGE, PAGE, &requirements));
    let list = test_client.create_list(testbed.at, private.to_vec())?.allocations;
    for first in [1, 101] {
        test_client.make_resident(testbed.at, &list)?;
        for target in list.iter().map(|target| Handle(*target)) {
            let offsets = (0..LARGE / PAGE).map(|page| page * PAGE);
            let page = |(offset, value)| Command::Fill { target, offset, length: PAGE, value };
            let commands: Vec<Command> = offsets.zip(first..).map(page).collect();
            if let Some(context) = context {
                submit(testbed, &test_client, context, &commands)?;
            }
        }
        evict(testbed, &test_client, &list, 0)?;
        testbed.run_until_idle();
    }
    test_client.make_resident(testbed.at, &list)?;
    test_client.destroy_list(testbed.at, &list)?;
    test_client.close(testbed.at, context.as_slice())
}

fn residency_existing_memory(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    const BYTES: u64 = 3 * PAGE;
    let test_client = testbed.test_client()?;
    let context = testbed.create_context_for_packets(&test_client)?;
    let memory = ClientMemory::new(3);
    let (address, bytes) = (memory.address(), memory.bytes());
    let standard = CreateAllocation::new_standard(test_client.device, address, bytes);
    let flags = standard.flags | Flags::CreateResource | Flags::CreateShared | Flags::CrossAdapter;
    let created = test_client.create_with(testbed.at, &CreateAllocation { flags, ..standard })?;
    let other = create(testbed, &test_client, &[anywhere()])?[0];
    let list = [created.allocations[0], other];
    let [existing, target] = list.map(Handle);
    let copy = |from, to| Command::Copy { from, from_offset: 0, to, to_offset: 0, length: BYTES };
    let fill = |target, value| Command::Fill { target, offset: 0, length: BYTES, value };
    for (before, after) in [(0x11, 0x22), (0x33, 0x44)] {
        test_client.make_resident(testbed.at, &list)?;
        // The client needs no lock: it is its own memory.
        memory.fill(before);
        if let Some(context) = context {
            let commands = [copy(existing, target), fill(existing, after)];
            submit(testbed, &test_client, context, &commands)?;
            require_bytes(&memory, after)?;
            submit(testbed, &test_client, context, &[copy(target, existing)])?;
        }
        require_bytes(&memory, before)?;
        evict(testbed, &test_client, &list, 0)?;
        testbed.run_until_idle();
        require_bytes(&memory, before)?;
    }
    test_client.destroy_list(testbed.at, &[other])?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.close(testbed.at, context.as_slice())
}

/// Submits commands on resident allocations, and waits for them.
fn submit(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    context: D3DKMT_HANDLE,
    commands: &[Command],
) -> Result<(), ScenarioStopped> {
    let bytes = test_client.private_data.packet(commands)?;
    expect_ok("D3DKMTSubmitCommand", test_client.client.submit(testbed.at, context, &bytes))?;
    testbed.run_until_idle();
    Ok(())
}

fn require_bytes(memory: &ClientMemory, value: u8) -> Result<(), ScenarioStopped> {
    if memory.is_filled(value) {
        return Ok(());
    }
    Err(ScenarioStopped::failed(format!("every byte of the client's memory to be {value:#x}")))
}

fn residency_adjacent_allocations(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = testbed.create_context_for_packets(&test_client)?;
    let list = create(testbed, &test_client, &[cpu_invisible(); 4])?;
    test_client.make_resident(testbed.at, &list)?;
    fill(testbed, &test_client, context, &list)?;
    evict(testbed, &test_client, &list, 0)?;
    testbed.run_until_idle();
    for it in &list {
        test_client.make_resident(testbed.at, &[*it])?;
    }
    // Allocations with an even index are evicted and made resident again; the others stay.
    let even: Vec<D3DKMT_HANDLE> = list.iter().step_by(2).copied().collect();
    evict(testbed, &test_client, &even, 0)?;
    testbed.run_until_idle();
    test_client.make_resident(testbed.at, &even)?;
    test_client.destroy_list(testbed.at, &list)?;
    test_client.close(testbed.at, context.as_slice())
}

fn residency_reference_count(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let list = create(testbed, &test_client, &[anywhere(); 2])?;
    for _ in 0..3 {
        test_client.make_resident(testbed.at, &list)?;
    }
    evict(testbed, &test_client, &list, 0)?;
    evict(testbed, &test_client, &list, EvictFlags::EvictOnlyIfNecessary)?;
    testbed.snapshot_live_objects("two of three");
    evict(testbed, &test_client, &list, EvictFlags::NotWrittenTo)?;
    testbed.run_until_idle();
    test_client.destroy_list(testbed.at, &list)?;
    test_client.close(testbed.at, &[])
}

fn residency_compaction(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = testbed.create_context_for_packets(&test_client)?;
    // The context allocation does not move: it lies below the others.
    let first = create(testbed, &test_client, &[cpu_invisible()])?;
    test_client.make_resident(testbed.at, &first)?;
    fill(testbed, &test_client, context, &first)?;
    let list = create(testbed, &test_client, &[cpu_invisible(); 8])?;
    test_client.make_resident(testbed.at, &list)?;
    fill(testbed, &test_client, context, &list)?;
    let (even, partial): (Vec<_>, Vec<_>) =
        list.chunks(2).map(|numbers| (numbers[0], numbers[1])).unzip();
    test_client.destroy_list(testbed.at, &partial)?;
    testbed.run_until_idle();
    evict(testbed, &test_client, &even, EvictFlags::EvictOnlyIfNecessary)?;
    testbed.compact();
    testbed.snapshot_live_objects("the remaining allocations are contiguous");
    test_client.make_resident(testbed.at, &even)?;
    // The moved allocations are evicted and made resident again; their content is unchanged.
    evict(testbed, &test_client, &even, 0)?;
    testbed.run_until_idle();
    test_client.make_resident(testbed.at, &even)?;
    test_client.destroy_list(testbed.at, &even)?;
    test_client.close(testbed.at, context.as_slice())
}

fn destroy_any_residency(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = testbed.create_context_for_packets(&test_client)?;
    let requirements =
        [cpu_invisible(), only_in(&[APERTURE]), only_in(&[VISIBLE, APERTURE]), anywhere()];
    let list = create(testbed, &test_client, &requirements)?;
    test_client.make_resident(testbed.at, &list)?;
    fill(testbed, &test_client, context, &list)?;
    let [local, mapped, offered, evicted] = list[..] else { return Ok(()) };
    evict(testbed, &test_client, &[evicted], 0)?;
    let names = AllocationSelection {
        device: test_client.device,
        list: &[offered],
        ..AllocationSelection::default()
    };
    let offer = test_client.client.offer(testbed.at, names, 1);
    expect_ok("D3DKMTOfferAllocations", offer)?;
    for it in [local, mapped, offered, evicted] {
        let destroy = DestroyAllocation {
            device: test_client.device,
            list: vec![it],
            synchronous: true,
            ..DestroyAllocation::default()
        };
        test_client.destroy_with(testbed.at, &destroy)?;
    }
    test_client.close(testbed.at, context.as_slice())
}
