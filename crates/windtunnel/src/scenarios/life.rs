//! Lives of allocations without haste: created, used, destroyed.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{DESCRIBE, STANDARD, Scenario, WORK};
use crate::tunnel::{ScenarioStopped, Testbed, page_descriptions, expect_error, expect_ok};
use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as Flags;
use abi::status::{
    STATUS_DEVICE_REMOVED, STATUS_GRAPHICS_DRIVER_MISMATCH, STATUS_INVALID_PARAMETER,
    STATUS_NO_MEMORY,
};
use abi::ukm::D3DDDI_ALLOCATIONINFO_FLAGS as InfoFlags;
use softgpu::format::{self, Command};
use thunk::{CreateAllocation, DestroyAllocation};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "alone",
        about: "allocations that belong to no resource, destroyed one by one and as a list",
        breaks: &[],
        needs: &[],
        body: DisplayBody(create_standalone),
    },
    Scenario {
        name: "resource",
        about: "a resource of three allocations, destroyed as a whole",
        breaks: &[],
        needs: &[],
        body: DisplayBody(create_resource),
    },
    Scenario {
        name: "growing",
        about: "allocations created into a resource that is there, then the resource destroyed",
        breaks: &[],
        needs: &[],
        body: DisplayBody(create_into_resource),
    },
    Scenario {
        name: "members",
        about: "a member destroyed by list, then the rest with the resource",
        breaks: &[],
        needs: &[],
        body: DisplayBody(destroy_members_by_list),
    },
    Scenario {
        name: "empty-resource",
        about: "all members destroyed by list, then the empty resource alone",
        breaks: &[],
        needs: &[],
        body: DisplayBody(destroy_empty_resource),
    },
    Scenario {
        name: "first-version",
        about: "a list and a resource destroyed with D3DKMTDestroyAllocation, which has no flags",
        breaks: &[],
        needs: &[],
        body: DisplayBody(destroy_v1),
    },
    Scenario {
        name: "standard",
        about: "a standard allocation over the client's memory, private data from the driver",
        breaks: &[],
        needs: STANDARD,
        body: DisplayBody(create_standard_existing_memory),
    },
    Scenario {
        name: "primary",
        about: "a primary beside another allocation of its resource, and one alone",
        breaks: &[],
        needs: DESCRIBE,
        body: DisplayBody(create_primary),
    },
    Scenario {
        name: "shared",
        about: "a resource that others may open, destroyed as a whole",
        breaks: &[],
        needs: &[],
        body: DisplayBody(create_shared),
    },
    Scenario {
        name: "refused-create",
        about: "creates the driver refuses half-way: bad, foreign and too large descriptions",
        breaks: &[],
        needs: &[],
        body: DisplayBody(create_driver_failure),
    },
    Scenario {
        name: "work",
        about: "fills and copies on real bytes, then everything ended in order",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(submit_fill_and_copy),
    },
    Scenario {
        name: "lost-device",
        about: "a packet the driver refuses: the device is lost, and only ends still work",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(submit_device_lost),
    },
];

fn create_standalone(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let one = bench.create(tunnel.at, 1)?;
    bench.destroy_list(tunnel.at, &one.allocations)?;
    let two = bench.create(tunnel.at, 2)?;
    tunnel.snapshot_live_objects("two allocations");
    bench.destroy_list(tunnel.at, &two.allocations)?;
    let again = bench.create(tunnel.at, 1)?;
    bench.destroy_list(tunnel.at, &again.allocations)?;
    bench.close(tunnel.at, &[])
}

fn create_resource(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let created = bench.create_resource(tunnel.at, 3)?;
    tunnel.snapshot_live_objects("a resource of three");
    bench.destroy_resource(tunnel.at, created.resource)?;
    bench.close(tunnel.at, &[])
}

fn create_into_resource(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let created = bench.create_resource(tunnel.at, 1)?;
    let more = CreateAllocation::new(bench.device, page_descriptions(2)).into_resource(created.resource);
    bench.create_with(tunnel.at, &more)?;
    bench.create_with(tunnel.at, &more)?;
    bench.destroy_resource(tunnel.at, created.resource)?;
    bench.close(tunnel.at, &[])
}

fn destroy_members_by_list(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let created = bench.create_resource(tunnel.at, 3)?;
    bench.destroy_list(tunnel.at, &created.allocations[1..2])?;
    bench.destroy_resource(tunnel.at, created.resource)?;
    bench.close(tunnel.at, &[])
}

fn destroy_empty_resource(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let created = bench.create_resource(tunnel.at, 2)?;
    bench.destroy_list(tunnel.at, &created.allocations)?;
    tunnel.snapshot_live_objects("an empty resource");
    bench.destroy_resource(tunnel.at, created.resource)?;
    // A device alone is a call that does nothing.
    bench.destroy_with(tunnel.at, &DestroyAllocation { device: bench.device, ..DestroyAllocation::default() })?;
    bench.close(tunnel.at, &[])
}

fn destroy_v1(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let (alone, created) = (bench.create(tunnel.at, 2)?, bench.create_resource(tunnel.at, 2)?);
    let device = bench.device;
    for destroy in [
        DestroyAllocation { device, list: alone.allocations, ..DestroyAllocation::default() },
        DestroyAllocation { device, resource: created.resource, ..DestroyAllocation::default() },
    ] {
        expect_ok("D3DKMTDestroyAllocation", bench.client.destroy_v1(tunnel.at, &destroy))?;
    }
    bench.close(tunnel.at, &[])
}

fn create_standard_existing_memory(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    // The kernel does not touch the memory yet: only its place and length are looked at.
    let (address, bytes) = (0x1000_0000, 0x3000);
    let create = CreateAllocation::new_standard(bench.device, address, bytes).with_resource();
    // As the page wants it, although Windows makes it without these flags, too.
    let flags = create.flags | Flags::CreateShared | Flags::CrossAdapter;
    let create = CreateAllocation { flags, ..create };
    let created = bench.create_with(tunnel.at, &create)?;
    let other = bench.create_with(tunnel.at, &CreateAllocation { runtime: vec![1, 2, 3, 4], ..create })?;
    bench.destroy_resource(tunnel.at, created.resource)?;
    bench.destroy_resource(tunnel.at, other.resource)?;
    bench.close(tunnel.at, &[])
}

fn create_primary(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let primary = InfoFlags::Primary;
    let create = CreateAllocation::new(bench.device, page_descriptions(2)).with_resource();
    let created = bench.create_with(tunnel.at, &CreateAllocation { allocation_flags: vec![0, primary], ..create })?;
    let create = CreateAllocation::new(bench.device, page_descriptions(1));
    let alone = bench.create_with(tunnel.at, &CreateAllocation { allocation_flags: vec![primary], ..create })?;
    bench.destroy_resource(tunnel.at, created.resource)?;
    bench.destroy_list(tunnel.at, &alone.allocations)?;
    bench.close(tunnel.at, &[])
}

fn create_shared(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let create = CreateAllocation::new(bench.device, page_descriptions(2)).with_resource();
    let flags = create.flags | Flags::CreateShared;
    let created = bench.create_with(tunnel.at, &CreateAllocation { flags, ..create.clone() })?;
    let flags = flags | Flags::NtSecuritySharing;
    let other = bench.create_with(tunnel.at, &CreateAllocation { flags, ..create })?;
    bench.destroy_resource(tunnel.at, created.resource)?;
    bench.destroy_resource(tunnel.at, other.resource)?;
    bench.close(tunnel.at, &[])
}

fn create_driver_failure(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let good = format::describe(4096);
    let mut client_frames = good.clone();
    client_frames[4] ^= 0xff;
    let bad: [(Vec<u8>, _); 3] = [
        (vec![1, 2, 3], STATUS_INVALID_PARAMETER),
        (client_frames, STATUS_GRAPHICS_DRIVER_MISMATCH),
        (format::describe(u64::MAX), STATUS_NO_MEMORY),
    ];
    let home = bench.create_resource(tunnel.at, 1)?;
    for (description, status) in bad {
        let list = vec![good.clone(), good.clone(), description];
        let alone = CreateAllocation::new(bench.device, list);
        let call = "D3DKMTCreateAllocation";
        for create in
            [alone.clone(), alone.clone().with_resource(), alone.into_resource(home.resource)]
        {
            expect_error(call, &bench.client.create(tunnel.at, &create), status)?;
        }
    }
    bench.destroy_resource(tunnel.at, home.resource)?;
    bench.close(tunnel.at, &[])
}

fn submit_fill_and_copy(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let created = bench.create(tunnel.at, 2)?;
    let (from, to) = (kernel::Handle(created.allocations[0]), kernel::Handle(created.allocations[1]));
    let fill = Command::Fill { target: from, offset: 0, length: 4096, value: 7 };
    let copy = Command::Copy { from, from_offset: 0, to, to_offset: 2048, length: 2048 };
    bench.submit(tunnel.at, context, &[fill, copy])?;
    bench.submit(tunnel.at, context, &[])?;
    tunnel.snapshot_live_objects("work in flight");
    tunnel.run_until_idle();
    bench.destroy_list(tunnel.at, &created.allocations)?;
    // A context is ended with work in it: that waits.
    bench.submit(tunnel.at, context, &[])?;
    bench.close(tunnel.at, &[context])
}

fn submit_device_lost(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let created = bench.create_resource(tunnel.at, 1)?;
    let state = |tunnel: &mut Testbed<'_>| {
        expect_ok("D3DKMTGetDeviceState", bench.client.device_state(tunnel.at, bench.device))
    };
    let before = state(tunnel)?;
    let nonsense = bench.client.submit(tunnel.at, context, b"no commands");
    expect_error("D3DKMTSubmitCommand", &nonsense, STATUS_DEVICE_REMOVED)?;
    if state(tunnel)? == before {
        return Err(ScenarioStopped("the lost device to say so".to_owned()));
    }
    let create = bench.client.create(tunnel.at, &CreateAllocation::new(bench.device, page_descriptions(1)));
    expect_error("D3DKMTCreateAllocation", &create, STATUS_DEVICE_REMOVED)?;
    bench.destroy_resource(tunnel.at, created.resource)?;
    expect_ok("D3DKMTDestroyContext", bench.client.destroy_context(tunnel.at, context))?;
    bench.close(tunnel.at, &[])
}
