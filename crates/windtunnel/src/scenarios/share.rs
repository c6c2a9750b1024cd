//! Resources that several devices and processes have opened.

use crate::needs::{Needs, STANDARD, WORK};
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_ok};
use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as Flags;
use thunk::{ClientMemory, CreateAllocation, CreatedAllocation, DestroyAllocation, OpenedResource};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "share-creator-ends-first",
        about: "opens a resource in two processes and in two devices of one process; the creator ends first",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(share_creator_ends_first),
    },
    Scenario {
        name: "share-opener-ends-first",
        about: "ends the openers of a shared resource before its creator, one of them by termination",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(share_opener_ends_first),
    },
    Scenario {
        name: "share-standard-allocation",
        about: "opens a shared standard allocation, whose opener gets the private data of the driver",
        breaks: &[],
        needs: STANDARD,
        body: DisplayBody(share_standard_allocation),
    },
    Scenario {
        name: "share-synchronous-destroy",
        about: "destroys one of two views with SynchronousDestroy behind queued work; the call returns while the other view is live",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(share_synchronous_destroy),
    },
];

/// A shared resource of two allocations.
fn shared(
    test_client: &TestClient,
    testbed: &mut Testbed<'_>,
) -> Result<CreatedAllocation, ScenarioStopped> {
    let create = CreateAllocation::new(test_client.device, test_client.private_data.pages(2))
        .with_resource();
    let (flags, runtime) = (create.flags | Flags::CreateShared, b"of the runtime".to_vec());
    test_client.create_with(testbed.at, &CreateAllocation { flags, runtime, ..create })
}

fn open(
    test_client: &TestClient,
    testbed: &mut Testbed<'_>,
    created: &CreatedAllocation,
) -> Result<OpenedResource, ScenarioStopped> {
    let opened = test_client.client.open_resource(testbed.at, test_client.device, created.global);
    let opened = expect_ok("D3DKMTOpenResource", opened)?;
    if (opened.allocations.len(), &*opened.runtime) != (2, &b"of the runtime"[..]) {
        return Err(ScenarioStopped::failed(
            "the opener to get two allocations and the runtime's data",
        ));
    }
    Ok(opened)
}

fn share_creator_ends_first(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (maker, opener) = (testbed.test_client()?, testbed.test_client()?);
    let second = TestClient { device: opener.create_device(testbed.at)?, ..opener.clone() };
    let created = shared(&maker, testbed)?;
    let one = open(&opener, testbed, &created)?;
    let two = open(&second, testbed, &created)?;
    testbed.snapshot_live_objects("three devices have it open");
    maker.close(testbed.at, &[])?;
    second.destroy_resource(testbed.at, two.resource)?;
    testbed.snapshot_live_objects("one device still has it open");
    opener.destroy_resource(testbed.at, one.resource)?;
    expect_ok("D3DKMTDestroyDevice", opener.client.destroy_device(testbed.at, second.device))?;
    opener.close(testbed.at, &[])
}

fn share_opener_ends_first(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (maker, opener, other) =
        (testbed.test_client()?, testbed.test_client()?, testbed.test_client()?);
    let created = shared(&maker, testbed)?;
    let opened = open(&opener, testbed, &created)?;
    open(&other, testbed, &created)?;
    opener.destroy_resource(testbed.at, opened.resource)?;
    opener.close(testbed.at, &[])?;
    other.client.kill(testbed.at);
    maker.destroy_resource(testbed.at, created.resource)?;
    maker.close(testbed.at, &[])
}

fn share_standard_allocation(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (maker, opener) = (testbed.test_client()?, testbed.test_client()?);
    let memory = ClientMemory::new(1);
    let create =
        CreateAllocation::new_standard(maker.device, memory.address(), 0x1000).with_resource();
    let flags = create.flags | Flags::CreateShared | Flags::CrossAdapter;
    let created = maker.create_with(testbed.at, &CreateAllocation { flags, ..create })?;
    let opened = opener.client.open_resource(testbed.at, opener.device, created.global);
    let opened = expect_ok("D3DKMTOpenResource", opened)?;
    if opened.privates.is_empty() {
        return Err(ScenarioStopped::failed("the opener to get the driver's private data"));
    }
    maker.destroy_resource(testbed.at, created.resource)?;
    opener.destroy_resource(testbed.at, opened.resource)?;
    maker.close(testbed.at, &[])?;
    opener.close(testbed.at, &[])
}

fn share_synchronous_destroy(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (maker, opener) = (testbed.test_client()?, testbed.test_client()?);
    let created = shared(&maker, testbed)?;
    let opened = open(&opener, testbed, &created)?;
    let (mine, other) = (maker.create_context(testbed.at)?, opener.create_context(testbed.at)?);
    maker.fill(testbed.at, mine, created.allocations[0])?;
    opener.fill(testbed.at, other, opened.allocations[1])?;
    let destroy = DestroyAllocation {
        device: maker.device,
        resource: created.resource,
        synchronous: true,
        ..DestroyAllocation::default()
    };
    maker.destroy_with(testbed.at, &destroy)?;
    testbed.snapshot_live_objects("one view is closed, the other is live");
    let destroy = DestroyAllocation { device: opener.device, resource: opened.resource, ..destroy };
    opener.destroy_with(testbed.at, &destroy)?;
    maker.close(testbed.at, &[mine])?;
    opener.close(testbed.at, &[other])
}
