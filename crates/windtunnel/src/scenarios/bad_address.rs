//! Bad clients of virtual addresses: each breaks a rule, through the door, and is named.

use crate::scenario::Story::Told;
use crate::scenario::{ADDRESSES, Scenario};
use crate::scenarios::address::{
    LARGE, PAGE, SIZE, create, fill, free_at, hidden, map, operation, reserve, whole,
};
use crate::tunnel::{Bench, Stopped, Tunnel, refused, wanted};
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

const fn bad(
    name: &'static str,
    about: &'static str,
    breaks: &'static [RuleId],
    story: fn(&mut Tunnel<'_>) -> Result<(), Stopped>,
) -> Scenario {
    Scenario { name, about, breaks, needs: ADDRESSES, story: Told(story) }
}

const ZERO: Protection = Protection { Value: Protection::Zero };

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    bad("map-crooked", "an address inside a page is mapped", &[RuleId::GPUVA_MAP_001], |it| {
        refused_map(it, |one| Map { BaseAddress: (1 << 20) + 8, ..whole(one) })
    }),
    bad(
        "map-half-taken",
        "a range is mapped of which a part is taken",
        &[RuleId::GPUVA_MAP_001],
        map_half_taken,
    ),
    bad(
        "map-zero-of",
        "an allocation is given for addresses that read as zero",
        &[RuleId::GPUVA_MAP_002],
        |it| refused_map(it, |one| Map { Protection: ZERO, ..whole(one) }),
    ),
    bad(
        "map-zero-over",
        "what a map call made is made to read as zero",
        &[RuleId::GPUVA_MAP_003],
        map_zero_over,
    ),
    bad(
        "map-crooked-bounds",
        "a bound of addresses is inside a page",
        &[RuleId::GPUVA_MAP_004],
        |it| refused_map(it, |one| Map { MinimumAddress: 12, ..whole(one) }),
    ),
    bad("map-outside", "more is mapped than there is", &[RuleId::GPUVA_MAP_006], |it| {
        refused_map(it, |one| Map { OffsetInPages: 1, ..whole(one) })
    }),
    bad(
        "touch-nothing",
        "a packet uses an address at which nothing was mapped",
        &[RuleId::GPUVA_MAP_007],
        touch_nothing,
    ),
    bad(
        "map-for-the-system",
        "a client maps for the system only",
        &[RuleId::GPUVA_MAP_008],
        |it| {
            let bits = Protection { Value: Protection::SystemUseOnly };
            refused_map(it, |one| Map { Protection: bits, ..whole(one) })
        },
    ),
    bad(
        "reserve-crooked",
        "less than 64 KiB of addresses is reserved",
        &[RuleId::GPUVA_RESERVE_001],
        reserve_crooked,
    ),
    bad(
        "touch-reserved-early",
        "a packet uses reserved addresses before they are",
        &[RuleId::GPUVA_RESERVE_004],
        touch_reserved_early,
    ),
    bad(
        "free-nothing",
        "addresses are freed that were never taken",
        &[RuleId::GPUVA_FREE_001],
        free_nothing,
    ),
    bad(
        "free-in-use",
        "addresses are freed that packets under way use",
        &[RuleId::GPUVA_FREE_002],
        free_in_use,
    ),
    bad(
        "free-destroyed",
        "addresses are freed that went with what was mapped there",
        &[RuleId::GPUVA_FREE_004],
        free_destroyed,
    ),
    bad(
        "update-two-reservations",
        "one call updates addresses of two reservations",
        &[RuleId::GPUVA_UPDATE_001],
        update_two,
    ),
    bad(
        "update-nothing",
        "addresses are updated that nobody reserved",
        &[RuleId::GPUVA_UPDATE_002],
        |it| update(it, |_, one| vec![operation(MAP, &[1 << 30, PAGE, one, 0, PAGE])]),
    ),
    bad(
        "update-uneven",
        "pages do not repeat evenly in a range",
        &[RuleId::GPUVA_UPDATE_003],
        |it| update(it, |base, one| vec![operation(MAP, &[base, 3 * PAGE, one, 0, 2 * PAGE])]),
    ),
];

fn one(tunnel: &mut Tunnel<'_>) -> Result<(Bench, D3DKMT_HANDLE), Stopped> {
    let bench = tunnel.bench()?;
    let list = create(tunnel, &bench, &[hidden()])?;
    bench.resident(tunnel.at, &list)?;
    Ok((bench, list[0]))
}

/// A map call that is refused.
fn refused_map(
    tunnel: &mut Tunnel<'_>,
    order: impl Fn(D3DKMT_HANDLE) -> Map,
) -> Result<(), Stopped> {
    let (bench, one) = one(tunnel)?;
    refuse_map(tunnel, &bench, &order(one))?;
    bench.close(tunnel.at, &[])
}

fn refuse_map(tunnel: &mut Tunnel<'_>, bench: &Bench, order: &Map) -> Result<(), Stopped> {
    let order = Map { hPagingQueue: bench.queue(tunnel.at)?.queue, ..*order };
    let answer = bench.client.map_address(tunnel.at, &order);
    refused("D3DKMTMapGpuVirtualAddress", &answer, STATUS_INVALID_PARAMETER)
}

fn map_half_taken(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, one) = one(tunnel)?;
    let address = map(tunnel, &bench, &whole(one))?;
    refuse_map(tunnel, &bench, &Map { BaseAddress: address + PAGE, ..whole(one) })?;
    bench.close(tunnel.at, &[])
}

fn map_zero_over(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, one) = one(tunnel)?;
    let address = map(tunnel, &bench, &whole(one))?;
    let over = Map { BaseAddress: address, SizeInPages: 2, Protection: ZERO, ..Map::ZERO };
    refuse_map(tunnel, &bench, &over)?;
    bench.close(tunnel.at, &[])
}

fn touch_nothing(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, _) = one(tunnel)?;
    let context = bench.context(tunnel.at)?;
    bench.submit(tunnel.at, context, &[fill(1 << 28, PAGE, 1)])?;
    tunnel.settle();
    bench.close(tunnel.at, &[context])
}

fn reserve_crooked(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, _) = one(tunnel)?;
    let queue = bench.queue(tunnel.at)?.queue;
    let order = Reserve { hPagingQueue: queue, Size: PAGE, ..Reserve::ZERO };
    let answer = bench.client.reserve_address(tunnel.at, &order);
    refused("D3DKMTReserveGpuVirtualAddress", &answer, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}

fn touch_reserved_early(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, one) = one(tunnel)?;
    let context = bench.context(tunnel.at)?;
    // What the context saves into is there from its first packet on.
    let address = map(tunnel, &bench, &whole(one))?;
    bench.submit(tunnel.at, context, &[fill(address, PAGE, 1)])?;
    tunnel.settle();
    let queue = bench.queue(tunnel.at)?.queue;
    let mut last = 0;
    // Others before it keep the paging node busy.
    for _ in 0..24 {
        let zeroes = Reserve {
            hPagingQueue: queue,
            Size: 4 << 20,
            ReservationType: RESERVE_ZERO,
            ..Reserve::ZERO
        };
        let reserved = bench.client.reserve_address(tunnel.at, &zeroes);
        last = wanted("D3DKMTReserveGpuVirtualAddress", reserved)?.0;
    }
    bench.submit(tunnel.at, context, &[fill(last, PAGE, 1)])?;
    tunnel.settle();
    bench.close(tunnel.at, &[context])
}

fn free_nothing(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, _) = one(tunnel)?;
    let answer = bench.client.free_address(tunnel.at, bench.adapter, 1 << 30, PAGE);
    refused("D3DKMTFreeGpuVirtualAddress", &answer, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}

fn free_in_use(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, one) = one(tunnel)?;
    let context = bench.context(tunnel.at)?;
    let address = map(tunnel, &bench, &whole(one))?;
    for value in 0..60 {
        bench.submit(tunnel.at, context, &[fill(address, SIZE, value)])?;
    }
    free_at(tunnel, &bench, address, SIZE)?;
    tunnel.settle();
    bench.close(tunnel.at, &[context])
}

fn free_destroyed(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, one) = one(tunnel)?;
    let address = map(tunnel, &bench, &whole(one))?;
    bench.destroy_list(tunnel.at, &[one])?;
    tunnel.settle();
    let answer = bench.client.free_address(tunnel.at, bench.adapter, address, SIZE);
    refused("D3DKMTFreeGpuVirtualAddress", &answer, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}

/// An update that is refused.
fn update(
    tunnel: &mut Tunnel<'_>,
    operations: impl Fn(u64, u64) -> Vec<Operation>,
) -> Result<(), Stopped> {
    let (bench, one) = one(tunnel)?;
    let base = reserve(tunnel, &bench, &Reserve { Size: LARGE, ..Reserve::ZERO })?;
    refuse_update(tunnel, &bench, &operations(base, u64::from(one)))?;
    bench.close(tunnel.at, &[])
}

fn refuse_update(
    tunnel: &mut Tunnel<'_>,
    bench: &Bench,
    operations: &[Operation],
) -> Result<(), Stopped> {
    let answer = bench.client.update_address(tunnel.at, bench.device, operations, None);
    refused("D3DKMTUpdateGpuVirtualAddress", &answer, STATUS_INVALID_PARAMETER)
}

fn update_two(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, one) = one(tunnel)?;
    let one = u64::from(one);
    let order = Reserve { Size: LARGE, ..Reserve::ZERO };
    let bases = [reserve(tunnel, &bench, &order)?, reserve(tunnel, &bench, &order)?];
    let operations = bases.map(|it| operation(MAP, &[it, PAGE, one, 0, PAGE]));
    refuse_update(tunnel, &bench, &operations)?;
    bench.close(tunnel.at, &[])
}
