//! Bad clients of GPU virtual addresses: each breaks a rule of an entry point and is reported.

use crate::needs::ADDRESSES;
use crate::private_data::DataUse;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenarios::gpuva::{
    LARGE, PAGE, SIZE, cpu_invisible, create, fill, free_at, map, operation, reserve, whole,
};
use crate::scenarios::sync::{destroy, monitored, signal_cpu, wait_gpu};
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::status::STATUS_INVALID_PARAMETER;
use abi::ukm::{
    D3DDDI_MAPGPUVIRTUALADDRESS as Map, D3DDDI_RESERVEGPUVIRTUALADDRESS as Reserve,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP as MAP,
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION as Operation,
    D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE as Protection,
    D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO as RESERVE_ZERO,
};
use flight::RuleId;
use thunk::DestroyAllocation;

const fn bad(
    name: &'static str,
    about: &'static str,
    breaks: &'static [RuleId],
    body: fn(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
) -> Scenario {
    Scenario { name, about, breaks, needs: ADDRESSES, body: DisplayBody(body) }
}

const ZERO: Protection = Protection { Value: Protection::Zero };

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    bad(
        "gpuva-map-misaligned",
        "maps at an address that is not page-aligned",
        &[RuleId::GPUVA_MAP_001],
        |testbed| refused_map(testbed, |one| Map { BaseAddress: (1 << 20) + 8, ..whole(one) }),
    ),
    bad(
        "gpuva-map-partly-used-range",
        "maps a range that is partly in use",
        &[RuleId::GPUVA_MAP_001],
        gpuva_map_partly_used_range,
    )
    .with_private_data(DataUse::Placement),
    bad(
        "gpuva-map-zero-with-allocation",
        "maps with Zero and an allocation",
        &[RuleId::GPUVA_MAP_002],
        |testbed| refused_map(testbed, |one| Map { Protection: ZERO, ..whole(one) }),
    ),
    bad(
        "gpuva-map-zero-over-mapping",
        "maps with Zero over an existing mapping",
        &[RuleId::GPUVA_MAP_003],
        gpuva_map_zero_over_mapping,
    )
    .with_private_data(DataUse::Placement),
    bad(
        "gpuva-map-misaligned-bounds",
        "passes a minimum or maximum address that is not page-aligned",
        &[RuleId::GPUVA_MAP_004],
        |testbed| refused_map(testbed, |one| Map { MinimumAddress: 12, ..whole(one) }),
    ),
    bad(
        "gpuva-map-beyond-allocation",
        "maps more pages than the allocation has",
        &[RuleId::GPUVA_MAP_006],
        |testbed| refused_map(testbed, |one| Map { OffsetInPages: 1, ..whole(one) }),
    ),
    bad(
        "gpuva-use-unmapped",
        "submits a packet that uses an unmapped address",
        &[RuleId::GPUVA_MAP_007],
        gpuva_use_unmapped,
    )
    .with_private_data(DataUse::Commands),
    bad(
        "gpuva-map-system-use-only",
        "sets SystemUseOnly in a client's map call",
        &[RuleId::GPUVA_MAP_008],
        |testbed| {
            let bits = Protection { Value: Protection::SystemUseOnly };
            refused_map(testbed, |one| Map { Protection: bits, ..whole(one) })
        },
    ),
    bad(
        "gpuva-reserve-misaligned",
        "reserves a range whose size is not a multiple of 64 KiB",
        &[RuleId::GPUVA_RESERVE_001],
        gpuva_reserve_misaligned,
    ),
    bad(
        "gpuva-use-before-reserved",
        "submits a packet that uses an address range before its reservation completes",
        &[RuleId::GPUVA_RESERVE_004],
        gpuva_use_before_reserved,
    )
    .with_private_data(DataUse::Placement),
    bad(
        "gpuva-free-unallocated",
        "frees addresses that were never allocated",
        &[RuleId::GPUVA_FREE_001],
        gpuva_free_unallocated,
    ),
    bad(
        "gpuva-free-in-use",
        "frees addresses that packets in flight use",
        &[RuleId::GPUVA_FREE_002],
        gpuva_free_in_use,
    )
    .with_private_data(DataUse::Placement),
    bad(
        "gpuva-free-behind-wait",
        "frees addresses that a packet behind a GPU wait uses",
        &[RuleId::GPUVA_FREE_002],
        |testbed| {
            behind_wait(testbed, |testbed, test_client, _, address| {
                free_at(testbed, test_client, address, SIZE)
            })
        },
    )
    .with_private_data(DataUse::Placement),
    bad(
        "gpuva-destroy-behind-wait",
        "destroys with AssumeNotInUse an allocation whose addresses a packet behind a GPU wait uses",
        &[RuleId::ALLOC_DESTROY_008],
        |testbed| {
            behind_wait(testbed, |testbed, test_client, one, _| {
                destroy_as_unused(testbed, test_client, one)
            })
        },
    )
    .with_private_data(DataUse::Placement),
    bad(
        "gpuva-free-after-destroy",
        "frees addresses that were released with their destroyed allocation",
        &[RuleId::GPUVA_FREE_004],
        gpuva_free_after_destroy,
    )
    .with_private_data(DataUse::Placement),
    bad(
        "gpuva-update-two-reservations",
        "updates addresses of two reservations in one call",
        &[RuleId::GPUVA_UPDATE_001],
        gpuva_update_two_reservations,
    ),
    bad(
        "gpuva-update-unreserved",
        "updates addresses that are not reserved",
        &[RuleId::GPUVA_UPDATE_002],
        |testbed| update(testbed, |_, one| vec![operation(MAP, &[1 << 30, PAGE, one, 0, PAGE])]),
    ),
    bad(
        "gpuva-update-uneven-repeat",
        "maps a repeated range whose size is not a multiple of the allocation range",
        &[RuleId::GPUVA_UPDATE_003],
        |testbed| {
            update(testbed, |base, one| vec![operation(MAP, &[base, 3 * PAGE, one, 0, 2 * PAGE])])
        },
    ),
];

fn one(testbed: &mut Testbed<'_>) -> Result<(TestClient, D3DKMT_HANDLE), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let list = create(testbed, &test_client, &[cpu_invisible()])?;
    test_client.make_resident(testbed.at, &list)?;
    Ok((test_client, list[0]))
}

/// A map call that fails.
fn refused_map(
    testbed: &mut Testbed<'_>,
    make_request: impl Fn(D3DKMT_HANDLE) -> Map,
) -> Result<(), ScenarioStopped> {
    let (test_client, one) = one(testbed)?;
    expect_map_error(testbed, &test_client, &make_request(one))?;
    test_client.close(testbed.at, &[])
}

fn expect_map_error(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    request: &Map,
) -> Result<(), ScenarioStopped> {
    let request = Map { hPagingQueue: test_client.paging_queue(testbed.at)?.queue, ..*request };
    let answer = test_client.client.map_address(testbed.at, &request);
    expect_error("D3DKMTMapGpuVirtualAddress", &answer, STATUS_INVALID_PARAMETER)
}

fn gpuva_map_partly_used_range(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, one) = one(testbed)?;
    let address = map(testbed, &test_client, &whole(one))?;
    expect_map_error(testbed, &test_client, &Map { BaseAddress: address + PAGE, ..whole(one) })?;
    test_client.close(testbed.at, &[])
}

fn gpuva_map_zero_over_mapping(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, one) = one(testbed)?;
    let address = map(testbed, &test_client, &whole(one))?;
    let over = Map { BaseAddress: address, SizeInPages: 2, Protection: ZERO, ..Map::ZERO };
    expect_map_error(testbed, &test_client, &over)?;
    test_client.close(testbed.at, &[])
}

fn gpuva_use_unmapped(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, _) = one(testbed)?;
    let context = test_client.create_context(testbed.at)?;
    test_client.submit(testbed.at, context, &[fill(1 << 28, PAGE, 1)])?;
    testbed.run_until_idle();
    test_client.close(testbed.at, &[context])
}

fn gpuva_reserve_misaligned(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, _) = one(testbed)?;
    let queue = test_client.paging_queue(testbed.at)?.queue;
    let request = Reserve { hPagingQueue: queue, Size: PAGE, ..Reserve::ZERO };
    let answer = test_client.client.reserve_address(testbed.at, &request);
    expect_error("D3DKMTReserveGpuVirtualAddress", &answer, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}

fn gpuva_use_before_reserved(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, one) = one(testbed)?;
    let context = test_client.create_context(testbed.at)?;
    // The context allocation exists from the first packet on.
    let address = map(testbed, &test_client, &whole(one))?;
    test_client.submit(testbed.at, context, &[fill(address, PAGE, 1)])?;
    testbed.run_until_idle();
    let queue = test_client.paging_queue(testbed.at)?.queue;
    let mut last = 0;
    // Earlier reservations keep the paging node busy.
    for _ in 0..24 {
        let zeroes = Reserve {
            hPagingQueue: queue,
            Size: 4 << 20,
            ReservationType: RESERVE_ZERO,
            ..Reserve::ZERO
        };
        let reserved = test_client.client.reserve_address(testbed.at, &zeroes);
        last = expect_ok("D3DKMTReserveGpuVirtualAddress", reserved)?.0;
    }
    test_client.submit(testbed.at, context, &[fill(last, PAGE, 1)])?;
    testbed.run_until_idle();
    test_client.close(testbed.at, &[context])
}

fn gpuva_free_unallocated(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, _) = one(testbed)?;
    let answer = test_client.client.free_address(testbed.at, test_client.adapter, 1 << 30, PAGE);
    expect_error("D3DKMTFreeGpuVirtualAddress", &answer, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}

fn gpuva_free_in_use(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, one) = one(testbed)?;
    let context = test_client.create_context(testbed.at)?;
    let address = map(testbed, &test_client, &whole(one))?;
    for value in 0..60 {
        test_client.submit(testbed.at, context, &[fill(address, SIZE, value)])?;
    }
    free_at(testbed, &test_client, address, SIZE)?;
    testbed.run_until_idle();
    test_client.close(testbed.at, &[context])
}

/// Queues a packet behind a GPU wait, ends what the packet uses, and lets it run.
fn behind_wait(
    testbed: &mut Testbed<'_>,
    end: impl FnOnce(&mut Testbed<'_>, &TestClient, D3DKMT_HANDLE, u64) -> Result<(), ScenarioStopped>,
) -> Result<(), ScenarioStopped> {
    let (test_client, one) = one(testbed)?;
    let context = test_client.create_context(testbed.at)?;
    let address = map(testbed, &test_client, &whole(one))?;
    let fence = monitored(testbed, &test_client)?;
    wait_gpu(testbed, &test_client, context, &[(fence, 1)])?;
    test_client.submit(testbed.at, context, &[fill(address, SIZE, 1)])?;
    end(testbed, &test_client, one, address)?;
    testbed.run_until_idle();
    signal_cpu(testbed, &test_client, &[(fence, 1)], 0)?;
    testbed.run_until_idle();
    destroy(testbed, &test_client, &[fence])?;
    test_client.close(testbed.at, &[context])
}

/// Destroys an allocation with `AssumeNotInUse`.
pub(crate) fn destroy_as_unused(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    allocation: D3DKMT_HANDLE,
) -> Result<(), ScenarioStopped> {
    let destroy = DestroyAllocation {
        device: test_client.device,
        list: vec![allocation],
        assume_not_in_use: true,
        ..DestroyAllocation::default()
    };
    test_client.destroy_with(testbed.at, &destroy)
}

fn gpuva_free_after_destroy(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, one) = one(testbed)?;
    let address = map(testbed, &test_client, &whole(one))?;
    test_client.destroy_list(testbed.at, &[one])?;
    testbed.run_until_idle();
    let answer = test_client.client.free_address(testbed.at, test_client.adapter, address, SIZE);
    expect_error("D3DKMTFreeGpuVirtualAddress", &answer, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}

/// An update that fails.
fn update(
    testbed: &mut Testbed<'_>,
    operations: impl Fn(u64, u64) -> Vec<Operation>,
) -> Result<(), ScenarioStopped> {
    let (test_client, one) = one(testbed)?;
    let base = reserve(testbed, &test_client, &Reserve { Size: LARGE, ..Reserve::ZERO })?;
    expect_update_error(testbed, &test_client, &operations(base, u64::from(one)))?;
    test_client.close(testbed.at, &[])
}

fn expect_update_error(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    operations: &[Operation],
) -> Result<(), ScenarioStopped> {
    let answer =
        test_client.client.update_address(testbed.at, test_client.device, operations, None);
    expect_error("D3DKMTUpdateGpuVirtualAddress", &answer, STATUS_INVALID_PARAMETER)
}

fn gpuva_update_two_reservations(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, one) = one(testbed)?;
    let one = u64::from(one);
    let request = Reserve { Size: LARGE, ..Reserve::ZERO };
    let bases =
        [reserve(testbed, &test_client, &request)?, reserve(testbed, &test_client, &request)?];
    let operations = bases.map(|value| operation(MAP, &[value, PAGE, one, 0, PAGE]));
    expect_update_error(testbed, &test_client, &operations)?;
    test_client.close(testbed.at, &[])
}
