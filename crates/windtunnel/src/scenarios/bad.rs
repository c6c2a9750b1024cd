//! Bad clients: each breaks a rule of an entry point and is reported.

use crate::needs::{Needs, STANDARD};
use crate::private_data::DataUse;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_error};
use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as Flags;
use abi::status::{STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY};
use abi::ukm::D3DDDI_ALLOCATIONINFO_FLAGS as InfoFlags;
use flight::RuleId;
use thunk::{ClientMemory, CreateAllocation, DestroyAllocation};

/// A row of the table below.
pub(crate) const fn bad(
    name: &'static str,
    about: &'static str,
    breaks: &'static [RuleId],
    body: fn(&mut Testbed<'_>) -> Result<(), ScenarioStopped>,
) -> Scenario {
    Scenario { name, about, breaks, needs: Needs::NONE, body: DisplayBody(body) }
}

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    bad(
        "destroy-mixed-list",
        "destroys by list a member of a resource together with a standalone allocation",
        &[RuleId::ALLOC_DESTROY_005],
        destroy_mixed_list,
    ),
    bad(
        "process-stale-device-handle",
        "uses a device after it was destroyed",
        &[RuleId::DEV_LIFE_003],
        process_stale_device_handle,
    ),
    bad(
        "destroy-twice",
        "destroys a resource and an allocation twice",
        &[RuleId::ALLOC_DESTROY_001],
        destroy_twice,
    ),
    bad(
        "process-leaks-objects",
        "ends a process that leaves objects alive",
        &[RuleId::WT_LEFT_001],
        process_leaks_objects,
    ),
    bad(
        "destroy-duplicate-in-list",
        "lists one allocation twice in a destroy call",
        &[RuleId::ALLOC_DESTROY_001],
        destroy_duplicate_in_list,
    ),
    bad(
        "destroy-through-wrong-device",
        "destroys a resource through another device",
        &[RuleId::ALLOC_DESTROY_001],
        destroy_through_wrong_device,
    ),
    bad(
        "destroy-count-without-list",
        "passes an allocation count without a list to a destroy call",
        &[RuleId::ALLOC_DESTROY_024],
        |testbed| destroy_raw(testbed, 0, 1),
    ),
    bad(
        "destroy-reserved-flags",
        "sets reserved flags in a destroy call",
        &[RuleId::ALLOC_DESTROY_012],
        |testbed| destroy_raw(testbed, 0xc, 0),
    ),
    bad(
        "destroy-shared-member",
        "destroys a member of a shared resource by list",
        &[RuleId::ALLOC_DESTROY_018],
        destroy_shared_member,
    ),
    bad(
        "create-shared-standalone",
        "creates shared allocations without a resource",
        &[RuleId::ALLOC_CREATE_001, RuleId::ALLOC_CREATE_004],
        |testbed| create_flags(testbed, Flags::CreateShared),
    ),
    bad(
        "create-nt-sharing-unshared",
        "sets NtSecuritySharing without CreateShared",
        &[RuleId::ALLOC_CREATE_002],
        |testbed| create_flags(testbed, Flags::CreateResource | Flags::NtSecuritySharing),
    ),
    bad(
        "create-reserved-flags",
        "sets a reserved flag in a create call",
        &[RuleId::ALLOC_CREATE_016],
        |testbed| create_flags(testbed, Flags::OpenCrossAdapter),
    ),
    bad(
        "create-into-missing-resource",
        "creates allocations into a resource that does not exist",
        &[RuleId::ALLOC_CREATE_003],
        create_into_missing_resource,
    ),
    bad(
        "create-into-shared-resource",
        "creates allocations into a shared resource",
        &[RuleId::ALLOC_CREATE_005],
        create_into_shared_resource,
    ),
    bad(
        "create-on-null-device",
        "creates allocations with a device handle of zero",
        &[RuleId::ALLOC_CREATE_023],
        create_on_null_device,
    ),
    bad(
        "create-source-without-primary",
        "sets VidPnSourceId for an allocation that is not a primary",
        &[RuleId::ALLOC_CREATE_018],
        create_source_without_primary,
    ),
    bad(
        "create-stereo-without-primary",
        "sets Stereo for an allocation that is not a primary",
        &[RuleId::ALLOC_CREATE_019],
        create_stereo_without_primary,
    ),
    Scenario {
        needs: STANDARD,
        ..bad(
            "create-sysmem-without-standard",
            "sets ExistingSysMem without StandardAllocation",
            &[RuleId::ALLOC_CREATE_009],
            |testbed| create_flags(testbed, Flags::ExistingSysMem),
        )
    },
    Scenario {
        needs: STANDARD,
        ..bad(
            "create-two-standard-allocations",
            "creates two standard allocations in one call",
            &[RuleId::ALLOC_CREATE_010],
            |testbed| {
                standard(testbed, |create_allocation| {
                    create_allocation.allocations.push(Vec::new());
                })
            },
        )
    },
    Scenario {
        needs: STANDARD,
        ..bad(
            "create-misaligned-sysmem",
            "creates a standard allocation over memory that is not page-aligned",
            &[RuleId::ALLOC_CREATE_013],
            |testbed| {
                standard(testbed, |create_allocation| create_allocation.system_memory = 0x1000_0010)
            },
        )
    },
    Scenario {
        needs: STANDARD,
        ..bad(
            "create-unmapped-sysmem",
            "creates a standard allocation over memory that is not mapped",
            &[RuleId::WT_MEMORY_001],
            // Nothing is ever mapped in the second page of the address space.
            |testbed| {
                standard(testbed, |create_allocation| create_allocation.system_memory = 0x1000)
            },
        )
    },
    Scenario {
        needs: STANDARD,
        ..bad(
            "create-pointer-as-section",
            "passes a pointer where ExistingSection needs the handle of a section",
            &[RuleId::ALLOC_CREATE_017],
            |testbed| {
                standard(testbed, |create_allocation| {
                    create_allocation.flags ^= Flags::ExistingSysMem | Flags::ExistingSection;
                    create_allocation.system_memory = 0x7000_0000;
                })
            },
        )
    },
    Scenario {
        needs: STANDARD,
        ..bad(
            "create-unknown-standard-type",
            "creates a standard allocation of an unknown type",
            &[RuleId::ALLOC_CREATE_022],
            |testbed| {
                standard(testbed, |create_allocation| {
                    create_allocation.standard = Some((0, 0x1000));
                })
            },
        )
    },
    Scenario {
        needs: STANDARD,
        ..bad(
            "create-standard-into-resource",
            "creates a standard allocation into an existing resource",
            &[RuleId::ALLOC_CREATE_012],
            create_standard_into_resource,
        )
    },
    bad(
        "share-open-local-handle",
        "opens a resource by its local handle",
        &[RuleId::ALLOC_SHARE_010],
        share_open_local_handle,
    ),
    bad(
        "share-open-short-buffer",
        "opens a resource with too small a buffer for its private data",
        &[RuleId::ALLOC_SHARE_003],
        share_open_short_buffer,
    )
    .with_private_data(DataUse::Bytes),
    bad(
        "process-close-adapter-twice",
        "closes an adapter handle twice",
        &[RuleId::DEV_LIFE_001],
        process_close_adapter_twice,
    ),
    bad(
        "process-device-without-adapter",
        "creates a device without an adapter",
        &[RuleId::DEV_LIFE_013],
        process_device_without_adapter,
    ),
    bad(
        "process-context-on-missing-node",
        "creates a context on a node that does not exist",
        &[RuleId::DEV_LIFE_006],
        process_context_on_missing_node,
    ),
];

const CREATE: &str = "D3DKMTCreateAllocation";
const DESTROY: &str = "D3DKMTDestroyAllocation2";

fn destroy_mixed_list(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (member, alone) =
        (test_client.create_resource(testbed.at, 1)?, test_client.create(testbed.at, 1)?);
    let list = vec![member.allocations[0], alone.allocations[0]];
    let destroy =
        DestroyAllocation { device: test_client.device, list, ..DestroyAllocation::default() };
    let answer = test_client.client.destroy(testbed.at, &destroy);
    expect_error(DESTROY, &answer, STATUS_INVALID_PARAMETER)?;
    // Nothing was destroyed, so both can still be destroyed correctly.
    test_client.destroy_list(testbed.at, &alone.allocations)?;
    test_client.destroy_resource(testbed.at, member.resource)?;
    test_client.close(testbed.at, &[])
}

fn process_stale_device_handle(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let gone = TestClient { device: test_client.create_device(testbed.at)?, ..test_client.clone() };
    crate::testbed::expect_ok(
        "D3DKMTDestroyDevice",
        test_client.client.destroy_device(testbed.at, gone.device),
    )?;
    let create = test_client
        .client
        .create(testbed.at, &CreateAllocation::new(gone.device, gone.private_data.pages(1)));
    expect_error(CREATE, &create, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}

fn destroy_twice(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (created, alone) =
        (test_client.create_resource(testbed.at, 1)?, test_client.create(testbed.at, 1)?);
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.destroy_list(testbed.at, &alone.allocations)?;
    let device = test_client.device;
    for again in [
        DestroyAllocation { device, resource: created.resource, ..DestroyAllocation::default() },
        DestroyAllocation { device, list: alone.allocations, ..DestroyAllocation::default() },
    ] {
        let answer = test_client.client.destroy(testbed.at, &again);
        expect_error(DESTROY, &answer, STATUS_INVALID_PARAMETER)?;
    }
    test_client.close(testbed.at, &[])
}

fn process_leaks_objects(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    test_client.create_resource(testbed.at, 1)?;
    testbed.snapshot_live_objects("before the process ends");
    test_client.client.end(testbed.at);
    Ok(())
}

fn destroy_duplicate_in_list(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = test_client.create(testbed.at, 1)?;
    let list = created.allocations.repeat(2);
    let destroy =
        DestroyAllocation { device: test_client.device, list, ..DestroyAllocation::default() };
    let answer = test_client.client.destroy(testbed.at, &destroy);
    expect_error(DESTROY, &answer, STATUS_INVALID_PARAMETER)?;
    test_client.destroy_list(testbed.at, &created.allocations)?;
    test_client.close(testbed.at, &[])
}

fn destroy_through_wrong_device(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = test_client.create_resource(testbed.at, 1)?;
    let device = test_client.create_device(testbed.at)?;
    let destroy =
        DestroyAllocation { device, resource: created.resource, ..DestroyAllocation::default() };
    let answer = test_client.client.destroy(testbed.at, &destroy);
    expect_error(DESTROY, &answer, STATUS_INVALID_PARAMETER)?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    crate::testbed::expect_ok(
        "D3DKMTDestroyDevice",
        test_client.client.destroy_device(testbed.at, device),
    )?;
    test_client.close(testbed.at, &[])
}

/// A destroy call with these flags and this count, without a list.
fn destroy_raw(testbed: &mut Testbed<'_>, flags: u32, count: u32) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let answer =
        test_client.client.destroy_without_list(testbed.at, test_client.device, flags, count);
    expect_error(DESTROY, &answer, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}

fn destroy_shared_member(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let create = CreateAllocation::new(test_client.device, test_client.private_data.pages(2))
        .with_resource();
    let flags = create.flags | Flags::CreateShared;
    let created = test_client.create_with(testbed.at, &CreateAllocation { flags, ..create })?;
    let list = created.allocations[..1].to_vec();
    let destroy =
        DestroyAllocation { device: test_client.device, list, ..DestroyAllocation::default() };
    let answer = test_client.client.destroy(testbed.at, &destroy);
    expect_error(DESTROY, &answer, STATUS_INVALID_PARAMETER)?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.close(testbed.at, &[])
}

/// A create call with invalid flags.
fn create_flags(testbed: &mut Testbed<'_>, flags: u32) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let create = CreateAllocation {
        flags,
        ..CreateAllocation::new(test_client.device, test_client.private_data.pages(1))
    };
    let answer = test_client.client.create(testbed.at, &create);
    expect_error(CREATE, &answer, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}

fn create_into_missing_resource(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let create = CreateAllocation::new(test_client.device, test_client.private_data.pages(1))
        .into_resource(0x1ead_beed);
    let answer = test_client.client.create(testbed.at, &create);
    expect_error(CREATE, &answer, STATUS_INVALID_HANDLE)?;
    test_client.close(testbed.at, &[])
}

fn create_into_shared_resource(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let create = CreateAllocation::new(test_client.device, test_client.private_data.pages(1))
        .with_resource();
    let flags = create.flags | Flags::CreateShared;
    let created = test_client.create_with(testbed.at, &CreateAllocation { flags, ..create })?;
    let more = CreateAllocation::new(test_client.device, test_client.private_data.pages(1))
        .into_resource(created.resource);
    let answer = test_client.client.create(testbed.at, &more);
    expect_error(CREATE, &answer, STATUS_INVALID_PARAMETER)?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.close(testbed.at, &[])
}

fn create_source_without_primary(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let create = CreateAllocation {
        source: 1,
        ..CreateAllocation::new(test_client.device, test_client.private_data.pages(1))
    };
    let created = test_client.create_with(testbed.at, &create)?;
    test_client.destroy_list(testbed.at, &created.allocations)?;
    test_client.close(testbed.at, &[])
}

fn create_stereo_without_primary(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let allocation_flags = vec![InfoFlags::Stereo];
    let create = CreateAllocation {
        allocation_flags,
        ..CreateAllocation::new(test_client.device, test_client.private_data.pages(1))
    };
    let answer = test_client.client.create(testbed.at, &create);
    expect_error(CREATE, &answer, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}

/// A valid standard allocation.
fn a_page(device: u32, memory: &ClientMemory) -> CreateAllocation {
    let (address, bytes) = (memory.address(), memory.bytes());
    let create = CreateAllocation::new_standard(device, address, bytes).with_resource();
    CreateAllocation { flags: create.flags | Flags::CreateShared | Flags::CrossAdapter, ..create }
}

/// An invalid standard allocation.
fn standard(
    testbed: &mut Testbed<'_>,
    spoil: fn(&mut CreateAllocation),
) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let memory = ClientMemory::new(1);
    let mut create = a_page(test_client.device, &memory);
    spoil(&mut create);
    let answer = test_client.client.create(testbed.at, &create);
    expect_error(CREATE, &answer, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}

fn create_standard_into_resource(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let home = test_client.create_resource(testbed.at, 1)?;
    let memory = ClientMemory::new(1);
    let create = a_page(test_client.device, &memory).into_resource(home.resource);
    let answer = test_client.client.create(testbed.at, &create);
    expect_error(CREATE, &answer, STATUS_INVALID_PARAMETER)?;
    test_client.destroy_resource(testbed.at, home.resource)?;
    test_client.close(testbed.at, &[])
}

fn create_on_null_device(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let answer = test_client
        .client
        .create(testbed.at, &CreateAllocation::new(0, test_client.private_data.pages(1)));
    expect_error(CREATE, &answer, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}

fn share_open_local_handle(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = test_client.create_resource(testbed.at, 1)?;
    let answer = test_client.client.open_resource(testbed.at, test_client.device, created.resource);
    expect_error("D3DKMTQueryResourceInfo", &answer, STATUS_INVALID_PARAMETER)?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.close(testbed.at, &[])
}

fn share_open_short_buffer(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let create = CreateAllocation::new(test_client.device, test_client.private_data.pages(1))
        .with_resource();
    let flags = create.flags | Flags::CreateShared;
    let created = test_client.create_with(testbed.at, &CreateAllocation { flags, ..create })?;
    let answer = test_client.client.open_resource_without_buffers(
        testbed.at,
        test_client.device,
        created.global,
        1,
    );
    expect_error("D3DKMTOpenResource", &answer, STATUS_NO_MEMORY)?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.close(testbed.at, &[])
}

fn process_close_adapter_twice(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (client, adapter) = (test_client.client.clone(), test_client.adapter);
    crate::testbed::expect_ok(
        "D3DKMTDestroyDevice",
        client.destroy_device(testbed.at, test_client.device),
    )?;
    crate::testbed::expect_ok("D3DKMTCloseAdapter", client.close_adapter(testbed.at, adapter))?;
    let again = client.close_adapter(testbed.at, adapter);
    expect_error("D3DKMTCloseAdapter", &again, STATUS_INVALID_PARAMETER)?;
    client.end(testbed.at);
    Ok(())
}

fn process_device_without_adapter(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let client = testbed.client();
    let answer = client.create_device(testbed.at, 0);
    expect_error("D3DKMTCreateDevice", &answer, STATUS_INVALID_PARAMETER)?;
    client.end(testbed.at);
    Ok(())
}

fn process_context_on_missing_node(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let answer = test_client.client.create_context(testbed.at, test_client.device, 64);
    expect_error("D3DKMTCreateContextVirtual", &answer, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}
