//! Ends with work in flight, and ends of more than was asked for.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{Scenario, WORK};
use crate::tunnel::{TestClient, ScenarioStopped, Testbed, page_descriptions, expect_error, expect_ok};
use abi::status::STATUS_DEVICE_REMOVED;
use thunk::{CreateAllocation, CreatedAllocation, DestroyAllocation};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "destroy-deferred",
        about: "D3DKMTDestroyAllocation2 with no flag behind work: it returns, the end waits",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(|tunnel| behind_work(tunnel, false, false)),
    },
    Scenario {
        name: "destroy-assume",
        about: "AssumeNotInUse behind work: the end does not wait",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(|tunnel| behind_work(tunnel, true, false)),
    },
    Scenario {
        name: "destroy-sync",
        about: "SynchronousDestroy behind work: the call waits for the end",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(|tunnel| behind_work(tunnel, false, true)),
    },
    Scenario {
        name: "destroy-both",
        about: "AssumeNotInUse and SynchronousDestroy behind work: ended at once",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(|tunnel| behind_work(tunnel, true, true)),
    },
    Scenario {
        name: "member-in-flight",
        about: "a member destroyed by list behind work, then its resource with AssumeNotInUse",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(destroy_member_in_flight),
    },
    Scenario {
        name: "two-nodes",
        about: "destroys with work in flight on two nodes: each end waits for both",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(destroy_two_nodes),
    },
    Scenario {
        name: "device-end",
        about: "a device destroyed with everything alive in it and work in flight",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(destroy_device_in_use),
    },
    Scenario {
        name: "killed",
        about: "a process killed with everything alive in it and work in flight",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(process_killed_in_use),
    },
    Scenario {
        name: "adapter-end",
        about: "an adapter removed with everything alive on it",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(pnp_remove_in_use),
    },
];

/// A resource of two, with two packets on their way that use this many of them; other packets
/// use an allocation alone. What a client assumes not in use must not be.
fn busy(tunnel: &mut Testbed<'_>, used: usize) -> Result<(TestClient, u32, CreatedAllocation), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let created = bench.create_resource(tunnel.at, 2)?;
    let mut targets = created.allocations[..used].to_vec();
    if used < 2 {
        let other = bench.create(tunnel.at, 1)?;
        targets.resize(2, other.allocations[0]);
    }
    for target in targets {
        bench.fill(tunnel.at, context, target)?;
    }
    Ok((bench, context, created))
}

fn behind_work(
    tunnel: &mut Testbed<'_>,
    assume_not_in_use: bool,
    synchronous: bool,
) -> Result<(), ScenarioStopped> {
    let used = if assume_not_in_use { 0 } else { 2 };
    let (bench, context, created) = busy(tunnel, used)?;
    let destroy = DestroyAllocation {
        device: bench.device,
        resource: created.resource,
        assume_not_in_use,
        synchronous,
        ..DestroyAllocation::default()
    };
    bench.destroy_with(tunnel.at, &destroy)?;
    tunnel.snapshot_live_objects("after the call");
    tunnel.run_until_idle();
    bench.close(tunnel.at, &[context])
}

fn destroy_member_in_flight(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (bench, context, created) = busy(tunnel, 1)?;
    bench.destroy_list(tunnel.at, &created.allocations[..1])?;
    let destroy = DestroyAllocation {
        device: bench.device,
        resource: created.resource,
        assume_not_in_use: true,
        ..DestroyAllocation::default()
    };
    bench.destroy_with(tunnel.at, &destroy)?;
    tunnel.snapshot_live_objects("the resource waits for its member");
    tunnel.run_until_idle();
    bench.close(tunnel.at, &[context])
}

fn destroy_two_nodes(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let contexts = [bench.create_context_on(tunnel.at, 0)?, bench.create_context_on(tunnel.at, 1)?];
    for synchronous in [false, true] {
        let created = bench.create_resource(tunnel.at, 2)?;
        for _ in 0..3 {
            bench.fill(tunnel.at, contexts[0], created.allocations[0])?;
            bench.fill(tunnel.at, contexts[1], created.allocations[1])?;
        }
        let resource = created.resource;
        let destroy = DestroyAllocation { device: bench.device, resource, synchronous, ..DestroyAllocation::default() };
        bench.destroy_with(tunnel.at, &destroy)?;
        tunnel.snapshot_live_objects("after the call");
        tunnel.run_until_idle();
    }
    bench.close(tunnel.at, &contexts)
}

fn destroy_device_in_use(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (bench, _, created) = busy(tunnel, 2)?;
    bench.create(tunnel.at, 2)?;
    bench.destroy_list(tunnel.at, &created.allocations[..1])?;
    bench.close(tunnel.at, &[])
}

fn process_killed_in_use(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (bench, ..) = busy(tunnel, 2)?;
    bench.create(tunnel.at, 2)?;
    let other = bench.create_device(tunnel.at)?;
    TestClient { device: other, ..bench.clone() }.create_resource(tunnel.at, 2)?;
    tunnel.snapshot_live_objects("before it is killed");
    bench.client.kill(tunnel.at);
    Ok(())
}

fn pnp_remove_in_use(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (bench, context, created) = busy(tunnel, 2)?;
    bench.create(tunnel.at, 1)?;
    let (kernel, adapter) = (tunnel.kernel.clone(), tunnel.adapter);
    kernel.remove_adapter(tunnel.at, adapter);
    tunnel.snapshot_live_objects("the adapter is gone, its names are not");
    // The client does not know yet: creating fails, ending what it has works.
    let create = bench.client.create(tunnel.at, &CreateAllocation::new(bench.device, page_descriptions(1)));
    expect_error("D3DKMTCreateAllocation", &create, STATUS_DEVICE_REMOVED)?;
    bench.destroy_resource(tunnel.at, created.resource)?;
    expect_ok("D3DKMTDestroyContext", bench.client.destroy_context(tunnel.at, context))?;
    expect_ok("D3DKMTDestroyDevice", bench.client.destroy_device(tunnel.at, bench.device))?;
    expect_ok("D3DKMTCloseAdapter", bench.client.close_adapter(tunnel.at, bench.adapter))?;
    bench.client.end(tunnel.at);
    Ok(())
}
