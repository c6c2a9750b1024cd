//! Destruction with work in flight, and of whole devices, processes and adapters.

use crate::needs::WORK;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_error, expect_ok};
use abi::status::STATUS_DEVICE_REMOVED;
use thunk::{CreateAllocation, CreatedAllocation, DestroyAllocation};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "destroy-deferred",
        about: "calls D3DKMTDestroyAllocation2 without flags behind queued work; the call returns and the destruction waits",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(|testbed| behind_work(testbed, false, false)),
    },
    Scenario {
        name: "destroy-assume-not-in-use",
        about: "destroys with AssumeNotInUse behind queued work; the destruction does not wait",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(|testbed| behind_work(testbed, true, false)),
    },
    Scenario {
        name: "destroy-synchronous",
        about: "destroys with SynchronousDestroy behind queued work; the call waits until the destruction is complete",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(|testbed| behind_work(testbed, false, true)),
    },
    Scenario {
        name: "destroy-assume-and-synchronous",
        about: "destroys with AssumeNotInUse and SynchronousDestroy behind queued work; the destruction is immediate",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(|testbed| behind_work(testbed, true, true)),
    },
    Scenario {
        name: "destroy-member-in-flight",
        about: "destroys a member by list behind queued work, then its resource with AssumeNotInUse",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(destroy_member_in_flight),
    },
    Scenario {
        name: "destroy-two-nodes",
        about: "destroys allocations with work in flight on two nodes; each destruction waits for both nodes",
        breaks: &[],
        needs: WORK.nodes(2),
        body: DisplayBody(destroy_two_nodes),
    },
    Scenario {
        name: "destroy-device-in-use",
        about: "destroys a device with live objects and work in flight",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(destroy_device_in_use),
    },
    Scenario {
        name: "process-killed-in-use",
        about: "terminates a process with live objects and work in flight",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(process_killed_in_use),
    },
    Scenario {
        name: "pnp-remove-in-use",
        about: "removes an adapter with live objects on it",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(pnp_remove_in_use),
    },
];

/// A resource of two allocations with two packets in flight that use this many of them; other
/// packets use a standalone allocation. An allocation destroyed with `AssumeNotInUse` must be idle.
fn busy(
    testbed: &mut Testbed<'_>,
    used: usize,
) -> Result<(TestClient, u32, CreatedAllocation), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let created = test_client.create_resource(testbed.at, 2)?;
    let mut targets = created.allocations[..used].to_vec();
    if used < 2 {
        let other = test_client.create(testbed.at, 1)?;
        targets.resize(2, other.allocations[0]);
    }
    for target in targets {
        test_client.fill(testbed.at, context, target)?;
    }
    Ok((test_client, context, created))
}

fn behind_work(
    testbed: &mut Testbed<'_>,
    assume_not_in_use: bool,
    synchronous: bool,
) -> Result<(), ScenarioStopped> {
    let used = if assume_not_in_use { 0 } else { 2 };
    let (test_client, context, created) = busy(testbed, used)?;
    let destroy = DestroyAllocation {
        device: test_client.device,
        resource: created.resource,
        assume_not_in_use,
        synchronous,
        ..DestroyAllocation::default()
    };
    test_client.destroy_with(testbed.at, &destroy)?;
    testbed.snapshot_live_objects("after the call");
    testbed.run_until_idle();
    test_client.close(testbed.at, &[context])
}

fn destroy_member_in_flight(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, context, created) = busy(testbed, 1)?;
    test_client.destroy_list(testbed.at, &created.allocations[..1])?;
    let destroy = DestroyAllocation {
        device: test_client.device,
        resource: created.resource,
        assume_not_in_use: true,
        ..DestroyAllocation::default()
    };
    test_client.destroy_with(testbed.at, &destroy)?;
    testbed.snapshot_live_objects("the resource waits for its member");
    testbed.run_until_idle();
    test_client.close(testbed.at, &[context])
}

fn destroy_two_nodes(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let contexts = [
        test_client.create_context_on(testbed.at, 0)?,
        test_client.create_context_on(testbed.at, 1)?,
    ];
    for synchronous in [false, true] {
        let created = test_client.create_resource(testbed.at, 2)?;
        for _ in 0..3 {
            test_client.fill(testbed.at, contexts[0], created.allocations[0])?;
            test_client.fill(testbed.at, contexts[1], created.allocations[1])?;
        }
        let resource = created.resource;
        let destroy = DestroyAllocation {
            device: test_client.device,
            resource,
            synchronous,
            ..DestroyAllocation::default()
        };
        test_client.destroy_with(testbed.at, &destroy)?;
        testbed.snapshot_live_objects("after the call");
        testbed.run_until_idle();
    }
    test_client.close(testbed.at, &contexts)
}

fn destroy_device_in_use(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, _, created) = busy(testbed, 2)?;
    test_client.create(testbed.at, 2)?;
    test_client.destroy_list(testbed.at, &created.allocations[..1])?;
    test_client.close(testbed.at, &[])
}

fn process_killed_in_use(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, ..) = busy(testbed, 2)?;
    test_client.create(testbed.at, 2)?;
    let other = test_client.create_device(testbed.at)?;
    TestClient { device: other, ..test_client.clone() }.create_resource(testbed.at, 2)?;
    testbed.snapshot_live_objects("before it is killed");
    test_client.client.kill(testbed.at);
    Ok(())
}

fn pnp_remove_in_use(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, context, created) = busy(testbed, 2)?;
    test_client.create(testbed.at, 1)?;
    let (kernel, adapter) = (testbed.kernel.clone(), testbed.adapter);
    kernel.remove_adapter(testbed.at, adapter);
    testbed.snapshot_live_objects("the adapter is removed, its handles are still open");
    // The client does not know yet: creating fails, destroying works.
    let create = test_client.client.create(
        testbed.at,
        &CreateAllocation::new(test_client.device, test_client.private_data.pages(1)),
    );
    expect_error("D3DKMTCreateAllocation", &create, STATUS_DEVICE_REMOVED)?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    expect_ok("D3DKMTDestroyContext", test_client.client.destroy_context(testbed.at, context))?;
    expect_ok(
        "D3DKMTDestroyDevice",
        test_client.client.destroy_device(testbed.at, test_client.device),
    )?;
    expect_ok(
        "D3DKMTCloseAdapter",
        test_client.client.close_adapter(testbed.at, test_client.adapter),
    )?;
    test_client.client.end(testbed.at);
    Ok(())
}
