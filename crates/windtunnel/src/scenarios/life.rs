//! Lives of allocations without haste: created, used, destroyed.

use crate::scenario::Story::Told;
use crate::scenario::{DESCRIBE, STANDARD, Scenario, WORK};
use crate::tunnel::{Stopped, Tunnel, pages, refused, wanted};
use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as Flags;
use abi::status::{
    STATUS_DEVICE_REMOVED, STATUS_GRAPHICS_DRIVER_MISMATCH, STATUS_INVALID_PARAMETER,
    STATUS_NO_MEMORY,
};
use abi::ukm::D3DDDI_ALLOCATIONINFO_FLAGS as InfoFlags;
use softgpu::format::{self, Command};
use thunk::{Create, Destroy};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "alone",
        about: "allocations that belong to no resource, destroyed one by one and as a list",
        breaks: &[],
        needs: &[],
        story: Told(alone),
    },
    Scenario {
        name: "resource",
        about: "a resource of three allocations, destroyed as a whole",
        breaks: &[],
        needs: &[],
        story: Told(resource),
    },
    Scenario {
        name: "growing",
        about: "allocations created into a resource that is there, then the resource destroyed",
        breaks: &[],
        needs: &[],
        story: Told(growing),
    },
    Scenario {
        name: "members",
        about: "a member destroyed by list, then the rest with the resource",
        breaks: &[],
        needs: &[],
        story: Told(members),
    },
    Scenario {
        name: "empty-resource",
        about: "all members destroyed by list, then the empty resource alone",
        breaks: &[],
        needs: &[],
        story: Told(empty_resource),
    },
    Scenario {
        name: "first-version",
        about: "a list and a resource destroyed with D3DKMTDestroyAllocation, which has no flags",
        breaks: &[],
        needs: &[],
        story: Told(first_version),
    },
    Scenario {
        name: "standard",
        about: "a standard allocation over the client's memory, private data from the driver",
        breaks: &[],
        needs: STANDARD,
        story: Told(standard),
    },
    Scenario {
        name: "primary",
        about: "a primary beside another allocation of its resource, and one alone",
        breaks: &[],
        needs: DESCRIBE,
        story: Told(primary),
    },
    Scenario {
        name: "shared",
        about: "a resource that others may open, destroyed as a whole",
        breaks: &[],
        needs: &[],
        story: Told(shared),
    },
    Scenario {
        name: "refused-create",
        about: "creates the driver refuses half-way: bad, foreign and too large descriptions",
        breaks: &[],
        needs: &[],
        story: Told(refused_create),
    },
    Scenario {
        name: "work",
        about: "fills and copies on real bytes, then everything ended in order",
        breaks: &[],
        needs: WORK,
        story: Told(work),
    },
    Scenario {
        name: "lost-device",
        about: "a packet the driver refuses: the device is lost, and only ends still work",
        breaks: &[],
        needs: WORK,
        story: Told(lost_device),
    },
];

fn alone(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let one = bench.create(tunnel.at, 1)?;
    bench.destroy_list(tunnel.at, &one.allocations)?;
    let two = bench.create(tunnel.at, 2)?;
    tunnel.look("two allocations");
    bench.destroy_list(tunnel.at, &two.allocations)?;
    let again = bench.create(tunnel.at, 1)?;
    bench.destroy_list(tunnel.at, &again.allocations)?;
    bench.close(tunnel.at, &[])
}

fn resource(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let made = bench.create_resource(tunnel.at, 3)?;
    tunnel.look("a resource of three");
    bench.destroy_resource(tunnel.at, made.resource)?;
    bench.close(tunnel.at, &[])
}

fn growing(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let made = bench.create_resource(tunnel.at, 1)?;
    let more = Create::on(bench.device, pages(2)).into_resource(made.resource);
    bench.make(tunnel.at, &more)?;
    bench.make(tunnel.at, &more)?;
    bench.destroy_resource(tunnel.at, made.resource)?;
    bench.close(tunnel.at, &[])
}

fn members(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let made = bench.create_resource(tunnel.at, 3)?;
    bench.destroy_list(tunnel.at, &made.allocations[1..2])?;
    bench.destroy_resource(tunnel.at, made.resource)?;
    bench.close(tunnel.at, &[])
}

fn empty_resource(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let made = bench.create_resource(tunnel.at, 2)?;
    bench.destroy_list(tunnel.at, &made.allocations)?;
    tunnel.look("an empty resource");
    bench.destroy_resource(tunnel.at, made.resource)?;
    // A device alone is a call that does nothing.
    bench.destroy(tunnel.at, &Destroy { device: bench.device, ..Destroy::default() })?;
    bench.close(tunnel.at, &[])
}

fn first_version(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let (alone, made) = (bench.create(tunnel.at, 2)?, bench.create_resource(tunnel.at, 2)?);
    let device = bench.device;
    for destroy in [
        Destroy { device, list: alone.allocations, ..Destroy::default() },
        Destroy { device, resource: made.resource, ..Destroy::default() },
    ] {
        wanted("D3DKMTDestroyAllocation", bench.client.destroy_v1(tunnel.at, &destroy))?;
    }
    bench.close(tunnel.at, &[])
}

fn standard(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    // The kernel does not touch the memory yet: only its place and length are looked at.
    let (address, bytes) = (0x1000_0000, 0x3000);
    let create = Create::standard(bench.device, address, bytes).with_resource();
    // As the page wants it, although Windows makes it without these flags, too.
    let flags = create.flags | Flags::CreateShared | Flags::CrossAdapter;
    let create = Create { flags, ..create };
    let made = bench.make(tunnel.at, &create)?;
    let other = bench.make(tunnel.at, &Create { runtime: vec![1, 2, 3, 4], ..create })?;
    bench.destroy_resource(tunnel.at, made.resource)?;
    bench.destroy_resource(tunnel.at, other.resource)?;
    bench.close(tunnel.at, &[])
}

fn primary(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let primary = InfoFlags::Primary;
    let create = Create::on(bench.device, pages(2)).with_resource();
    let made = bench.make(tunnel.at, &Create { allocation_flags: vec![0, primary], ..create })?;
    let create = Create::on(bench.device, pages(1));
    let alone = bench.make(tunnel.at, &Create { allocation_flags: vec![primary], ..create })?;
    bench.destroy_resource(tunnel.at, made.resource)?;
    bench.destroy_list(tunnel.at, &alone.allocations)?;
    bench.close(tunnel.at, &[])
}

fn shared(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let create = Create::on(bench.device, pages(2)).with_resource();
    let flags = create.flags | Flags::CreateShared;
    let made = bench.make(tunnel.at, &Create { flags, ..create.clone() })?;
    let flags = flags | Flags::NtSecuritySharing;
    let other = bench.make(tunnel.at, &Create { flags, ..create })?;
    bench.destroy_resource(tunnel.at, made.resource)?;
    bench.destroy_resource(tunnel.at, other.resource)?;
    bench.close(tunnel.at, &[])
}

fn refused_create(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let good = format::describe(4096);
    let mut foreign = good.clone();
    foreign[4] ^= 0xff;
    let bad: [(Vec<u8>, _); 3] = [
        (vec![1, 2, 3], STATUS_INVALID_PARAMETER),
        (foreign, STATUS_GRAPHICS_DRIVER_MISMATCH),
        (format::describe(u64::MAX), STATUS_NO_MEMORY),
    ];
    let home = bench.create_resource(tunnel.at, 1)?;
    for (description, status) in bad {
        let list = vec![good.clone(), good.clone(), description];
        let alone = Create::on(bench.device, list);
        let call = "D3DKMTCreateAllocation";
        for create in
            [alone.clone(), alone.clone().with_resource(), alone.into_resource(home.resource)]
        {
            refused(call, &bench.client.create(tunnel.at, &create), status)?;
        }
    }
    bench.destroy_resource(tunnel.at, home.resource)?;
    bench.close(tunnel.at, &[])
}

fn work(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let made = bench.create(tunnel.at, 2)?;
    let (from, to) = (kernel::Handle(made.allocations[0]), kernel::Handle(made.allocations[1]));
    let fill = Command::Fill { target: from, offset: 0, length: 4096, value: 7 };
    let copy = Command::Copy { from, from_offset: 0, to, to_offset: 2048, length: 2048 };
    bench.submit(tunnel.at, context, &[fill, copy])?;
    bench.submit(tunnel.at, context, &[])?;
    tunnel.look("work in flight");
    tunnel.settle();
    bench.destroy_list(tunnel.at, &made.allocations)?;
    // A context is ended with work in it: that waits.
    bench.submit(tunnel.at, context, &[])?;
    bench.close(tunnel.at, &[context])
}

fn lost_device(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let made = bench.create_resource(tunnel.at, 1)?;
    let state = |tunnel: &mut Tunnel<'_>| {
        wanted("D3DKMTGetDeviceState", bench.client.device_state(tunnel.at, bench.device))
    };
    let before = state(tunnel)?;
    let nonsense = bench.client.submit(tunnel.at, context, b"no commands");
    refused("D3DKMTSubmitCommand", &nonsense, STATUS_DEVICE_REMOVED)?;
    if state(tunnel)? == before {
        return Err(Stopped("the lost device to say so".to_owned()));
    }
    let create = bench.client.create(tunnel.at, &Create::on(bench.device, pages(1)));
    refused("D3DKMTCreateAllocation", &create, STATUS_DEVICE_REMOVED)?;
    bench.destroy_resource(tunnel.at, made.resource)?;
    wanted("D3DKMTDestroyContext", bench.client.destroy_context(tunnel.at, context))?;
    bench.close(tunnel.at, &[])
}
