//! Resources that several devices and processes have open.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{STANDARD, Scenario, WORK};
use crate::tunnel::{TestClient, ScenarioStopped, Testbed, page_descriptions, expect_ok};
use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as Flags;
use thunk::{CreateAllocation, CreatedAllocation, DestroyAllocation, OpenedResource};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "share",
        about: "two processes and two devices of one have a resource open; its maker ends first",
        breaks: &[],
        needs: &[],
        body: DisplayBody(share_creator_ends_first),
    },
    Scenario {
        name: "share-opener-first",
        about: "the openers end before the maker, one of them killed",
        breaks: &[],
        needs: &[],
        body: DisplayBody(share_opener_ends_first),
    },
    Scenario {
        name: "share-standard",
        about: "a shared standard allocation: the opener gets the data the driver supplied",
        breaks: &[],
        needs: STANDARD,
        body: DisplayBody(share_standard_allocation),
    },
    Scenario {
        name: "share-sync",
        about: "SynchronousDestroy of one of two views behind work returns while the other lives",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(share_synchronous_destroy),
    },
];

/// A resource of two that others may open.
fn shared(bench: &TestClient, tunnel: &mut Testbed<'_>) -> Result<CreatedAllocation, ScenarioStopped> {
    let create = CreateAllocation::new(bench.device, page_descriptions(2)).with_resource();
    let (flags, runtime) = (create.flags | Flags::CreateShared, b"of the runtime".to_vec());
    bench.create_with(tunnel.at, &CreateAllocation { flags, runtime, ..create })
}

fn open(bench: &TestClient, tunnel: &mut Testbed<'_>, created: &CreatedAllocation) -> Result<OpenedResource, ScenarioStopped> {
    let opened = bench.client.open_resource(tunnel.at, bench.device, created.global);
    let opened = expect_ok("D3DKMTOpenResource", opened)?;
    if (opened.allocations.len(), &*opened.runtime) != (2, &b"of the runtime"[..]) {
        return Err(ScenarioStopped("the opener to get two allocations and the runtime's data".into()));
    }
    Ok(opened)
}

fn share_creator_ends_first(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (maker, opener) = (tunnel.test_client()?, tunnel.test_client()?);
    let second = TestClient { device: opener.create_device(tunnel.at)?, ..opener.clone() };
    let created = shared(&maker, tunnel)?;
    let one = open(&opener, tunnel, &created)?;
    let two = open(&second, tunnel, &created)?;
    tunnel.snapshot_live_objects("three devices have it open");
    maker.close(tunnel.at, &[])?;
    second.destroy_resource(tunnel.at, two.resource)?;
    tunnel.snapshot_live_objects("one of them is left");
    opener.destroy_resource(tunnel.at, one.resource)?;
    expect_ok("D3DKMTDestroyDevice", opener.client.destroy_device(tunnel.at, second.device))?;
    opener.close(tunnel.at, &[])
}

fn share_opener_ends_first(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (maker, opener, other) = (tunnel.test_client()?, tunnel.test_client()?, tunnel.test_client()?);
    let created = shared(&maker, tunnel)?;
    let opened = open(&opener, tunnel, &created)?;
    open(&other, tunnel, &created)?;
    opener.destroy_resource(tunnel.at, opened.resource)?;
    opener.close(tunnel.at, &[])?;
    other.client.kill(tunnel.at);
    maker.destroy_resource(tunnel.at, created.resource)?;
    maker.close(tunnel.at, &[])
}

fn share_standard_allocation(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (maker, opener) = (tunnel.test_client()?, tunnel.test_client()?);
    let create = CreateAllocation::new_standard(maker.device, 0x1000_0000, 0x1000).with_resource();
    let flags = create.flags | Flags::CreateShared | Flags::CrossAdapter;
    let created = maker.create_with(tunnel.at, &CreateAllocation { flags, ..create })?;
    let opened = opener.client.open_resource(tunnel.at, opener.device, created.global);
    let opened = expect_ok("D3DKMTOpenResource", opened)?;
    if opened.privates.is_empty() {
        return Err(ScenarioStopped("the opener to get the driver's private data".into()));
    }
    maker.destroy_resource(tunnel.at, created.resource)?;
    opener.destroy_resource(tunnel.at, opened.resource)?;
    maker.close(tunnel.at, &[])?;
    opener.close(tunnel.at, &[])
}

fn share_synchronous_destroy(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (maker, opener) = (tunnel.test_client()?, tunnel.test_client()?);
    let created = shared(&maker, tunnel)?;
    let opened = open(&opener, tunnel, &created)?;
    let (mine, other) = (maker.create_context(tunnel.at)?, opener.create_context(tunnel.at)?);
    maker.fill(tunnel.at, mine, created.allocations[0])?;
    opener.fill(tunnel.at, other, opened.allocations[1])?;
    let destroy = DestroyAllocation {
        device: maker.device,
        resource: created.resource,
        synchronous: true,
        ..DestroyAllocation::default()
    };
    maker.destroy_with(tunnel.at, &destroy)?;
    tunnel.snapshot_live_objects("one view is closed, the other lives");
    let destroy = DestroyAllocation { device: opener.device, resource: opened.resource, ..destroy };
    opener.destroy_with(tunnel.at, &destroy)?;
    maker.close(tunnel.at, &[mine])?;
    opener.close(tunnel.at, &[other])
}
