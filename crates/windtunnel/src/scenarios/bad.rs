//! Bad clients: each breaks a rule, through the door, and is named.

use crate::scenario::Story::Told;
use crate::scenario::{STANDARD, Scenario};
use crate::tunnel::{Bench, Stopped, Tunnel, pages, refused};
use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as Flags;
use abi::status::{STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY};
use abi::ukm::D3DDDI_ALLOCATIONINFO_FLAGS as InfoFlags;
use flight::RuleId;
use thunk::{Create, Destroy};

/// A line of the table below.
pub(crate) const fn bad(
    name: &'static str,
    about: &'static str,
    breaks: &'static [RuleId],
    story: fn(&mut Tunnel<'_>) -> Result<(), Stopped>,
) -> Scenario {
    Scenario { name, about, breaks, needs: &[], story: Told(story) }
}

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    bad(
        "mixed-list",
        "a list with a member of a resource and an allocation alone",
        &[RuleId::ALLOC_DESTROY_005],
        mixed_list,
    ),
    bad("stale-handle", "a device is used after its end", &[RuleId::DEV_LIFE_003], stale_handle),
    bad(
        "destroyed-twice",
        "a resource and an allocation are destroyed twice",
        &[RuleId::ALLOC_DESTROY_001],
        destroyed_twice,
    ),
    bad("left-alive", "a process ends and leaves things alive", &[RuleId::WT_LEFT_001], left_alive),
    bad(
        "listed-twice",
        "a list names the same allocation twice",
        &[RuleId::ALLOC_DESTROY_001],
        listed_twice,
    ),
    bad(
        "wrong-device",
        "a resource is destroyed through another device",
        &[RuleId::ALLOC_DESTROY_001],
        wrong_device,
    ),
    bad(
        "count-without-list",
        "a destroy call counts allocations and lists none",
        &[RuleId::ALLOC_DESTROY_024],
        |tunnel| destroy_raw(tunnel, 0, 1),
    ),
    bad(
        "destroy-flags",
        "a destroy call sets flags that are not for callers",
        &[RuleId::ALLOC_DESTROY_012],
        |tunnel| destroy_raw(tunnel, 0xc, 0),
    ),
    bad(
        "shared-member",
        "a member of a shared resource is destroyed by list",
        &[RuleId::ALLOC_DESTROY_018],
        shared_member,
    ),
    bad(
        "shared-alone",
        "allocations are to be shared without a resource",
        &[RuleId::ALLOC_CREATE_001, RuleId::ALLOC_CREATE_004],
        |tunnel| create_flags(tunnel, Flags::CreateShared),
    ),
    bad(
        "nt-unshared",
        "NtSecuritySharing is asked for without CreateShared",
        &[RuleId::ALLOC_CREATE_002],
        |tunnel| create_flags(tunnel, Flags::CreateResource | Flags::NtSecuritySharing),
    ),
    bad(
        "create-flags",
        "a create call sets a flag that is not for callers",
        &[RuleId::ALLOC_CREATE_016],
        |tunnel| create_flags(tunnel, Flags::OpenCrossAdapter),
    ),
    bad(
        "no-resource",
        "allocations are created into a resource that does not exist",
        &[RuleId::ALLOC_CREATE_003],
        no_resource,
    ),
    bad(
        "sealed",
        "allocations are created into a shared resource",
        &[RuleId::ALLOC_CREATE_005],
        sealed,
    ),
    bad(
        "zero-device",
        "allocations are created on device zero",
        &[RuleId::ALLOC_CREATE_023],
        zero_device,
    ),
    bad(
        "stray-source",
        "an allocation that is no primary names a video present source",
        &[RuleId::ALLOC_CREATE_018],
        stray_source,
    ),
    bad("stereo", "a stereo allocation is no primary", &[RuleId::ALLOC_CREATE_019], stereo),
    Scenario {
        needs: STANDARD,
        ..bad(
            "memory-unstandard",
            "ExistingSysMem is asked for without StandardAllocation",
            &[RuleId::ALLOC_CREATE_009],
            |tunnel| create_flags(tunnel, Flags::ExistingSysMem),
        )
    },
    Scenario {
        needs: STANDARD,
        ..bad(
            "standard-pair",
            "two standard allocations are asked for in one call",
            &[RuleId::ALLOC_CREATE_010],
            |tunnel| standard(tunnel, |it| it.allocations.push(Vec::new())),
        )
    },
    Scenario {
        needs: STANDARD,
        ..bad(
            "crooked-memory",
            "a standard allocation over memory that is not whole pages",
            &[RuleId::ALLOC_CREATE_013],
            |tunnel| standard(tunnel, |it| it.system_memory = 0x1000_0010),
        )
    },
    Scenario {
        needs: STANDARD,
        ..bad(
            "standard-type",
            "a standard allocation of no known type",
            &[RuleId::ALLOC_CREATE_022],
            |tunnel| standard(tunnel, |it| it.standard = Some((0, 0x1000))),
        )
    },
    Scenario {
        needs: STANDARD,
        ..bad(
            "standard-member",
            "a standard allocation is created into a resource",
            &[RuleId::ALLOC_CREATE_012],
            standard_member,
        )
    },
    bad(
        "local-share",
        "a resource is opened by its local name",
        &[RuleId::ALLOC_SHARE_010],
        local_share,
    ),
    bad(
        "short-open",
        "a resource is opened with too little room for its private data",
        &[RuleId::ALLOC_SHARE_003],
        short_open,
    ),
    bad(
        "adapter-twice",
        "an adapter handle is closed twice",
        &[RuleId::DEV_LIFE_001],
        adapter_twice,
    ),
    bad("no-device", "a device is made on no adapter", &[RuleId::DEV_LIFE_013], no_device),
    bad("no-node", "a context on a node that is not there", &[RuleId::DEV_LIFE_006], no_node),
];

const CREATE: &str = "D3DKMTCreateAllocation";
const DESTROY: &str = "D3DKMTDestroyAllocation2";

fn mixed_list(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let (member, alone) = (bench.create_resource(tunnel.at, 1)?, bench.create(tunnel.at, 1)?);
    let list = vec![member.allocations[0], alone.allocations[0]];
    let destroy = Destroy { device: bench.device, list, ..Destroy::default() };
    let answer = bench.client.destroy(tunnel.at, &destroy);
    refused(DESTROY, &answer, STATUS_INVALID_PARAMETER)?;
    // Nothing was destroyed: both are still there to be destroyed rightly.
    bench.destroy_list(tunnel.at, &alone.allocations)?;
    bench.destroy_resource(tunnel.at, member.resource)?;
    bench.close(tunnel.at, &[])
}

fn stale_handle(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let gone = Bench { device: bench.device(tunnel.at)?, ..bench.clone() };
    crate::tunnel::wanted(
        "D3DKMTDestroyDevice",
        bench.client.destroy_device(tunnel.at, gone.device),
    )?;
    let create = bench.client.create(tunnel.at, &Create::on(gone.device, pages(1)));
    refused(CREATE, &create, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}

fn destroyed_twice(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let (made, alone) = (bench.create_resource(tunnel.at, 1)?, bench.create(tunnel.at, 1)?);
    bench.destroy_resource(tunnel.at, made.resource)?;
    bench.destroy_list(tunnel.at, &alone.allocations)?;
    let device = bench.device;
    for again in [
        Destroy { device, resource: made.resource, ..Destroy::default() },
        Destroy { device, list: alone.allocations, ..Destroy::default() },
    ] {
        let answer = bench.client.destroy(tunnel.at, &again);
        refused(DESTROY, &answer, STATUS_INVALID_PARAMETER)?;
    }
    bench.close(tunnel.at, &[])
}

fn left_alive(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    bench.create_resource(tunnel.at, 1)?;
    tunnel.look("before the process ends");
    bench.client.end(tunnel.at);
    Ok(())
}

fn listed_twice(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let made = bench.create(tunnel.at, 1)?;
    let list = made.allocations.repeat(2);
    let destroy = Destroy { device: bench.device, list, ..Destroy::default() };
    let answer = bench.client.destroy(tunnel.at, &destroy);
    refused(DESTROY, &answer, STATUS_INVALID_PARAMETER)?;
    bench.destroy_list(tunnel.at, &made.allocations)?;
    bench.close(tunnel.at, &[])
}

fn wrong_device(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let made = bench.create_resource(tunnel.at, 1)?;
    let device = bench.device(tunnel.at)?;
    let destroy = Destroy { device, resource: made.resource, ..Destroy::default() };
    let answer = bench.client.destroy(tunnel.at, &destroy);
    refused(DESTROY, &answer, STATUS_INVALID_PARAMETER)?;
    bench.destroy_resource(tunnel.at, made.resource)?;
    crate::tunnel::wanted("D3DKMTDestroyDevice", bench.client.destroy_device(tunnel.at, device))?;
    bench.close(tunnel.at, &[])
}

/// A destroy call with these flags and this count, and no list.
fn destroy_raw(tunnel: &mut Tunnel<'_>, flags: u32, count: u32) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let answer = bench.client.destroy_without_list(tunnel.at, bench.device, flags, count);
    refused(DESTROY, &answer, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}

fn shared_member(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let create = Create::on(bench.device, pages(2)).with_resource();
    let flags = create.flags | Flags::CreateShared;
    let made = bench.make(tunnel.at, &Create { flags, ..create })?;
    let list = made.allocations[..1].to_vec();
    let destroy = Destroy { device: bench.device, list, ..Destroy::default() };
    let answer = bench.client.destroy(tunnel.at, &destroy);
    refused(DESTROY, &answer, STATUS_INVALID_PARAMETER)?;
    bench.destroy_resource(tunnel.at, made.resource)?;
    bench.close(tunnel.at, &[])
}

/// A create call with flags it may not have.
fn create_flags(tunnel: &mut Tunnel<'_>, flags: u32) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let create = Create { flags, ..Create::on(bench.device, pages(1)) };
    let answer = bench.client.create(tunnel.at, &create);
    refused(CREATE, &answer, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}

fn no_resource(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let create = Create::on(bench.device, pages(1)).into_resource(0x1ead_beed);
    let answer = bench.client.create(tunnel.at, &create);
    refused(CREATE, &answer, STATUS_INVALID_HANDLE)?;
    bench.close(tunnel.at, &[])
}

fn sealed(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let create = Create::on(bench.device, pages(1)).with_resource();
    let flags = create.flags | Flags::CreateShared;
    let made = bench.make(tunnel.at, &Create { flags, ..create })?;
    let more = Create::on(bench.device, pages(1)).into_resource(made.resource);
    let answer = bench.client.create(tunnel.at, &more);
    refused(CREATE, &answer, STATUS_INVALID_PARAMETER)?;
    bench.destroy_resource(tunnel.at, made.resource)?;
    bench.close(tunnel.at, &[])
}

fn stray_source(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let create = Create { source: 1, ..Create::on(bench.device, pages(1)) };
    let made = bench.make(tunnel.at, &create)?;
    bench.destroy_list(tunnel.at, &made.allocations)?;
    bench.close(tunnel.at, &[])
}

fn stereo(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let allocation_flags = vec![InfoFlags::Stereo];
    let create = Create { allocation_flags, ..Create::on(bench.device, pages(1)) };
    let answer = bench.client.create(tunnel.at, &create);
    refused(CREATE, &answer, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}

/// A standard allocation, as the page wants it.
fn a_page(device: u32) -> Create {
    let create = Create::standard(device, 0x1000_0000, 0x1000).with_resource();
    Create { flags: create.flags | Flags::CreateShared | Flags::CrossAdapter, ..create }
}

/// A standard allocation that is not as it should be.
fn standard(tunnel: &mut Tunnel<'_>, spoil: fn(&mut Create)) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let mut create = a_page(bench.device);
    spoil(&mut create);
    let answer = bench.client.create(tunnel.at, &create);
    refused(CREATE, &answer, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}

fn standard_member(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let home = bench.create_resource(tunnel.at, 1)?;
    let create = a_page(bench.device).into_resource(home.resource);
    let answer = bench.client.create(tunnel.at, &create);
    refused(CREATE, &answer, STATUS_INVALID_PARAMETER)?;
    bench.destroy_resource(tunnel.at, home.resource)?;
    bench.close(tunnel.at, &[])
}

fn zero_device(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let answer = bench.client.create(tunnel.at, &Create::on(0, pages(1)));
    refused(CREATE, &answer, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}

fn local_share(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let made = bench.create_resource(tunnel.at, 1)?;
    let answer = bench.client.open_resource(tunnel.at, bench.device, made.resource);
    refused("D3DKMTQueryResourceInfo", &answer, STATUS_INVALID_PARAMETER)?;
    bench.destroy_resource(tunnel.at, made.resource)?;
    bench.close(tunnel.at, &[])
}

fn short_open(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let create = Create::on(bench.device, pages(1)).with_resource();
    let flags = create.flags | Flags::CreateShared;
    let made = bench.make(tunnel.at, &Create { flags, ..create })?;
    let answer = bench.client.open_without_room(tunnel.at, bench.device, made.global, 1);
    refused("D3DKMTOpenResource", &answer, STATUS_NO_MEMORY)?;
    bench.destroy_resource(tunnel.at, made.resource)?;
    bench.close(tunnel.at, &[])
}

fn adapter_twice(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let (client, adapter) = (bench.client.clone(), bench.adapter);
    crate::tunnel::wanted("D3DKMTDestroyDevice", client.destroy_device(tunnel.at, bench.device))?;
    crate::tunnel::wanted("D3DKMTCloseAdapter", client.close_adapter(tunnel.at, adapter))?;
    let again = client.close_adapter(tunnel.at, adapter);
    refused("D3DKMTCloseAdapter", &again, STATUS_INVALID_PARAMETER)?;
    client.end(tunnel.at);
    Ok(())
}

fn no_device(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let client = tunnel.client();
    let answer = client.create_device(tunnel.at, 0);
    refused("D3DKMTCreateDevice", &answer, STATUS_INVALID_PARAMETER)?;
    client.end(tunnel.at);
    Ok(())
}

fn no_node(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let answer = bench.client.create_context(tunnel.at, bench.device, 64);
    refused("D3DKMTCreateContextVirtual", &answer, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[])
}
