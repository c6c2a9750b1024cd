//! Ends with work in flight, and ends of more than was asked for.

use crate::scenario::Story::Told;
use crate::scenario::{Scenario, WORK};
use crate::tunnel::{Bench, Stopped, Tunnel, pages, refused, wanted};
use abi::status::STATUS_DEVICE_REMOVED;
use thunk::{Create, Created, Destroy};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "destroy-deferred",
        about: "D3DKMTDestroyAllocation2 with no flag behind work: it returns, the end waits",
        breaks: &[],
        needs: WORK,
        story: Told(|tunnel| behind_work(tunnel, false, false)),
    },
    Scenario {
        name: "destroy-assume",
        about: "AssumeNotInUse behind work: the end does not wait",
        breaks: &[],
        needs: WORK,
        story: Told(|tunnel| behind_work(tunnel, true, false)),
    },
    Scenario {
        name: "destroy-sync",
        about: "SynchronousDestroy behind work: the call waits for the end",
        breaks: &[],
        needs: WORK,
        story: Told(|tunnel| behind_work(tunnel, false, true)),
    },
    Scenario {
        name: "destroy-both",
        about: "AssumeNotInUse and SynchronousDestroy behind work: ended at once",
        breaks: &[],
        needs: WORK,
        story: Told(|tunnel| behind_work(tunnel, true, true)),
    },
    Scenario {
        name: "member-in-flight",
        about: "a member destroyed by list behind work, then its resource with AssumeNotInUse",
        breaks: &[],
        needs: WORK,
        story: Told(member_in_flight),
    },
    Scenario {
        name: "two-nodes",
        about: "destroys with work in flight on two nodes: each end waits for both",
        breaks: &[],
        needs: WORK,
        story: Told(two_nodes),
    },
    Scenario {
        name: "device-end",
        about: "a device destroyed with everything alive in it and work in flight",
        breaks: &[],
        needs: WORK,
        story: Told(device_end),
    },
    Scenario {
        name: "killed",
        about: "a process killed with everything alive in it and work in flight",
        breaks: &[],
        needs: WORK,
        story: Told(killed),
    },
    Scenario {
        name: "adapter-end",
        about: "an adapter removed with everything alive on it",
        breaks: &[],
        needs: WORK,
        story: Told(adapter_end),
    },
];

/// A resource of two, with two packets on their way that use this many of them; other packets
/// use an allocation alone. What a client assumes not in use must not be.
fn busy(tunnel: &mut Tunnel<'_>, used: usize) -> Result<(Bench, u32, Created), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let made = bench.create_resource(tunnel.at, 2)?;
    let mut targets = made.allocations[..used].to_vec();
    if used < 2 {
        let other = bench.create(tunnel.at, 1)?;
        targets.resize(2, other.allocations[0]);
    }
    for target in targets {
        bench.fill(tunnel.at, context, target)?;
    }
    Ok((bench, context, made))
}

fn behind_work(
    tunnel: &mut Tunnel<'_>,
    assume_not_in_use: bool,
    synchronous: bool,
) -> Result<(), Stopped> {
    let used = if assume_not_in_use { 0 } else { 2 };
    let (bench, context, made) = busy(tunnel, used)?;
    let destroy = Destroy {
        device: bench.device,
        resource: made.resource,
        assume_not_in_use,
        synchronous,
        ..Destroy::default()
    };
    bench.destroy(tunnel.at, &destroy)?;
    tunnel.look("after the call");
    tunnel.settle();
    bench.close(tunnel.at, &[context])
}

fn member_in_flight(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, context, made) = busy(tunnel, 1)?;
    bench.destroy_list(tunnel.at, &made.allocations[..1])?;
    let destroy = Destroy {
        device: bench.device,
        resource: made.resource,
        assume_not_in_use: true,
        ..Destroy::default()
    };
    bench.destroy(tunnel.at, &destroy)?;
    tunnel.look("the resource waits for its member");
    tunnel.settle();
    bench.close(tunnel.at, &[context])
}

fn two_nodes(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let contexts = [bench.context_on(tunnel.at, 0)?, bench.context_on(tunnel.at, 1)?];
    for synchronous in [false, true] {
        let made = bench.create_resource(tunnel.at, 2)?;
        for _ in 0..3 {
            bench.fill(tunnel.at, contexts[0], made.allocations[0])?;
            bench.fill(tunnel.at, contexts[1], made.allocations[1])?;
        }
        let resource = made.resource;
        let destroy = Destroy { device: bench.device, resource, synchronous, ..Destroy::default() };
        bench.destroy(tunnel.at, &destroy)?;
        tunnel.look("after the call");
        tunnel.settle();
    }
    bench.close(tunnel.at, &contexts)
}

fn device_end(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, _, made) = busy(tunnel, 2)?;
    bench.create(tunnel.at, 2)?;
    bench.destroy_list(tunnel.at, &made.allocations[..1])?;
    bench.close(tunnel.at, &[])
}

fn killed(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, ..) = busy(tunnel, 2)?;
    bench.create(tunnel.at, 2)?;
    let other = bench.device(tunnel.at)?;
    Bench { device: other, ..bench.clone() }.create_resource(tunnel.at, 2)?;
    tunnel.look("before it is killed");
    bench.client.kill(tunnel.at);
    Ok(())
}

fn adapter_end(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, context, made) = busy(tunnel, 2)?;
    bench.create(tunnel.at, 1)?;
    let (kernel, adapter) = (tunnel.kernel.clone(), tunnel.adapter);
    kernel.remove_adapter(tunnel.at, adapter);
    tunnel.look("the adapter is gone, its names are not");
    // The client does not know yet: creating fails, ending what it has works.
    let create = bench.client.create(tunnel.at, &Create::on(bench.device, pages(1)));
    refused("D3DKMTCreateAllocation", &create, STATUS_DEVICE_REMOVED)?;
    bench.destroy_resource(tunnel.at, made.resource)?;
    wanted("D3DKMTDestroyContext", bench.client.destroy_context(tunnel.at, context))?;
    wanted("D3DKMTDestroyDevice", bench.client.destroy_device(tunnel.at, bench.device))?;
    wanted("D3DKMTCloseAdapter", bench.client.close_adapter(tunnel.at, bench.adapter))?;
    bench.client.end(tunnel.at);
    Ok(())
}
