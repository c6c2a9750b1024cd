//! Allocation lifecycles: create, use, destroy, with no work in flight at the end.

use crate::needs::{DESCRIBE, Needs, STANDARD, WORK};
use crate::private_data::{Command, DataUse};
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, Testbed, expect_error, expect_ok};
use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as Flags;
use abi::status::STATUS_DEVICE_REMOVED;
use abi::ukm::D3DDDI_ALLOCATIONINFO_FLAGS as InfoFlags;
use thunk::{ClientMemory, CreateAllocation, DestroyAllocation};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "create-standalone",
        about: "creates allocations without a resource and destroys them one by one and as a list",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(create_standalone),
    },
    Scenario {
        name: "create-resource",
        about: "creates a resource of three allocations and destroys it as a whole",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(create_resource),
    },
    Scenario {
        name: "create-into-resource",
        about: "creates allocations into an existing resource, then destroys the resource",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(create_into_resource),
    },
    Scenario {
        name: "destroy-members-by-list",
        about: "destroys one member of a resource by list, then the resource with the other members",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(destroy_members_by_list),
    },
    Scenario {
        name: "destroy-empty-resource",
        about: "destroys all members of a resource by list, then the empty resource",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(destroy_empty_resource),
    },
    Scenario {
        name: "destroy-v1",
        about: "destroys a list and a resource with D3DKMTDestroyAllocation, which has no flags",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(destroy_v1),
    },
    Scenario {
        name: "create-standard-existing-memory",
        about: "creates a standard allocation over the client's memory, with private data from the driver",
        breaks: &[],
        needs: STANDARD,
        body: DisplayBody(create_standard_existing_memory),
    },
    Scenario {
        name: "create-primary",
        about: "creates a primary together with another allocation of its resource, and a standalone primary",
        breaks: &[],
        needs: DESCRIBE,
        body: DisplayBody(create_primary),
    },
    Scenario {
        name: "create-shared",
        about: "creates a shared resource and destroys it as a whole",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(create_shared),
    },
    Scenario {
        name: "create-driver-failure",
        about: "creates allocations with invalid, foreign and oversized descriptions, which the driver rejects",
        breaks: &[],
        needs: Needs::NONE.private_data(DataUse::Rejected),
        body: DisplayBody(create_driver_failure),
    },
    Scenario {
        name: "submit-fill-and-copy",
        about: "submits fills and copies of real bytes, then destroys everything in order",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(submit_fill_and_copy),
    },
    Scenario {
        name: "submit-device-lost",
        about: "submits a packet that the driver rejects; the device is lost and only destroy calls still work",
        breaks: &[],
        needs: WORK.private_data(DataUse::Rejected),
        body: DisplayBody(submit_device_lost),
    },
];

fn create_standalone(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let one = test_client.create(testbed.at, 1)?;
    test_client.destroy_list(testbed.at, &one.allocations)?;
    let two = test_client.create(testbed.at, 2)?;
    testbed.snapshot_live_objects("two allocations");
    test_client.destroy_list(testbed.at, &two.allocations)?;
    let again = test_client.create(testbed.at, 1)?;
    test_client.destroy_list(testbed.at, &again.allocations)?;
    test_client.close(testbed.at, &[])
}

fn create_resource(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = test_client.create_resource(testbed.at, 3)?;
    testbed.snapshot_live_objects("a resource of three");
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.close(testbed.at, &[])
}

fn create_into_resource(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = test_client.create_resource(testbed.at, 1)?;
    let more = CreateAllocation::new(test_client.device, test_client.private_data.pages(2))
        .into_resource(created.resource);
    test_client.create_with(testbed.at, &more)?;
    test_client.create_with(testbed.at, &more)?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.close(testbed.at, &[])
}

fn destroy_members_by_list(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = test_client.create_resource(testbed.at, 3)?;
    test_client.destroy_list(testbed.at, &created.allocations[1..2])?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.close(testbed.at, &[])
}

fn destroy_empty_resource(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = test_client.create_resource(testbed.at, 2)?;
    test_client.destroy_list(testbed.at, &created.allocations)?;
    testbed.snapshot_live_objects("an empty resource");
    test_client.destroy_resource(testbed.at, created.resource)?;
    // A call with only a device does nothing.
    test_client.destroy_with(
        testbed.at,
        &DestroyAllocation { device: test_client.device, ..DestroyAllocation::default() },
    )?;
    test_client.close(testbed.at, &[])
}

fn destroy_v1(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (alone, created) =
        (test_client.create(testbed.at, 2)?, test_client.create_resource(testbed.at, 2)?);
    let device = test_client.device;
    for destroy in [
        DestroyAllocation { device, list: alone.allocations, ..DestroyAllocation::default() },
        DestroyAllocation { device, resource: created.resource, ..DestroyAllocation::default() },
    ] {
        expect_ok("D3DKMTDestroyAllocation", test_client.client.destroy_v1(testbed.at, &destroy))?;
    }
    test_client.close(testbed.at, &[])
}

fn create_standard_existing_memory(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let memory = ClientMemory::new(3);
    let (address, bytes) = (memory.address(), memory.bytes());
    let create = CreateAllocation::new_standard(test_client.device, address, bytes).with_resource();
    // The flags that the documentation requires, although Windows also accepts the call without.
    let flags = create.flags | Flags::CreateShared | Flags::CrossAdapter;
    let create = CreateAllocation { flags, ..create };
    let created = test_client.create_with(testbed.at, &create)?;
    let other = test_client
        .create_with(testbed.at, &CreateAllocation { runtime: vec![1, 2, 3, 4], ..create })?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.destroy_resource(testbed.at, other.resource)?;
    test_client.close(testbed.at, &[])
}

fn create_primary(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let primary = InfoFlags::Primary;
    let create = CreateAllocation::new(test_client.device, test_client.private_data.pages(2))
        .with_resource();
    let created = test_client.create_with(
        testbed.at,
        &CreateAllocation { allocation_flags: vec![0, primary], ..create },
    )?;
    let create = CreateAllocation::new(test_client.device, test_client.private_data.pages(1));
    let alone = test_client
        .create_with(testbed.at, &CreateAllocation { allocation_flags: vec![primary], ..create })?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.destroy_list(testbed.at, &alone.allocations)?;
    test_client.close(testbed.at, &[])
}

fn create_shared(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let create = CreateAllocation::new(test_client.device, test_client.private_data.pages(2))
        .with_resource();
    let flags = create.flags | Flags::CreateShared;
    let created =
        test_client.create_with(testbed.at, &CreateAllocation { flags, ..create.clone() })?;
    let flags = flags | Flags::NtSecuritySharing;
    let other = test_client.create_with(testbed.at, &CreateAllocation { flags, ..create })?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.destroy_resource(testbed.at, other.resource)?;
    test_client.close(testbed.at, &[])
}

fn create_driver_failure(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let good = test_client.private_data.allocation(4096);
    let bad = test_client.private_data.rejected_allocations()?;
    let home = test_client.create_resource(testbed.at, 1)?;
    for (description, status) in bad {
        let list = vec![good.clone(), good.clone(), description];
        let alone = CreateAllocation::new(test_client.device, list);
        let call = "D3DKMTCreateAllocation";
        for create in
            [alone.clone(), alone.clone().with_resource(), alone.into_resource(home.resource)]
        {
            expect_error(call, &test_client.client.create(testbed.at, &create), status)?;
        }
    }
    test_client.destroy_resource(testbed.at, home.resource)?;
    test_client.close(testbed.at, &[])
}

fn submit_fill_and_copy(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let created = test_client.create(testbed.at, 2)?;
    let (from, to) =
        (kernel::Handle(created.allocations[0]), kernel::Handle(created.allocations[1]));
    let fill = Command::Fill { target: from, offset: 0, length: 4096, value: 7 };
    let copy = Command::Copy { from, from_offset: 0, to, to_offset: 2048, length: 2048 };
    test_client.submit(testbed.at, context, &[fill, copy])?;
    test_client.submit(testbed.at, context, &[])?;
    testbed.snapshot_live_objects("work in flight");
    testbed.run_until_idle();
    test_client.destroy_list(testbed.at, &created.allocations)?;
    // Destroys a context with queued work; the destruction waits.
    test_client.submit(testbed.at, context, &[])?;
    test_client.close(testbed.at, &[context])
}

fn submit_device_lost(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let created = test_client.create_resource(testbed.at, 1)?;
    let state = |testbed: &mut Testbed<'_>| {
        expect_ok(
            "D3DKMTGetDeviceState",
            test_client.client.device_state(testbed.at, test_client.device),
        )
    };
    let before = state(testbed)?;
    let rejected = test_client.private_data.rejected_packet()?;
    let nonsense = test_client.client.submit(testbed.at, context, &rejected);
    expect_error("D3DKMTSubmitCommand", &nonsense, STATUS_DEVICE_REMOVED)?;
    if state(testbed)? == before {
        return Err(ScenarioStopped::failed("the device to report that it is lost"));
    }
    let create = test_client.client.create(
        testbed.at,
        &CreateAllocation::new(test_client.device, test_client.private_data.pages(1)),
    );
    expect_error("D3DKMTCreateAllocation", &create, STATUS_DEVICE_REMOVED)?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    expect_ok("D3DKMTDestroyContext", test_client.client.destroy_context(testbed.at, context))?;
    test_client.close(testbed.at, &[])
}
