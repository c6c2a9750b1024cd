//! Adapters that stop and start again, sleep and wake, are pulled out, and go down with their
//! machine.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{POWER, POWER_AND_MEMORY, SURPRISE_REMOVAL, RESET_DEVICE, Scenario, WORK};
use crate::tunnel::{TestClient, ScenarioStopped, Testbed, page_descriptions, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::status::STATUS_DEVICE_REMOVED;
use flight::Passive;
use kernel::Handle;
use kernel::power::PowerAction;
use softgpu::format::{Command, anywhere, describe_in, only_in};
use softgpu::{APERTURE, LOCAL, VISIBLE};
use thunk::CreateAllocation;

const PAGE: u64 = 4096;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "start-stop-start",
        about: "the adapter is stopped and started again, twice, and used each time",
        breaks: &[],
        needs: &[],
        body: DisplayBody(pnp_restart),
    },
    Scenario {
        name: "stop-in-use",
        about: "the adapter is stopped with work in flight, and started again for somebody else",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(pnp_stop_in_use),
    },
    Scenario {
        name: "surprise-removal",
        about: "the hardware is pulled out with work in flight and live allocations",
        breaks: &[],
        needs: SURPRISE_REMOVAL,
        body: DisplayBody(pnp_surprise_removal),
    },
    Scenario {
        name: "power-down-and-up",
        about: "the adapter sleeps with work on it, wakes, and goes on",
        breaks: &[],
        needs: POWER,
        body: DisplayBody(power_cycle_with_work),
    },
    Scenario {
        name: "power-and-memory",
        about: "the adapter sleeps: what is resident in any segment, or locked, is the same after",
        breaks: &[],
        needs: POWER_AND_MEMORY,
        body: DisplayBody(power_preserves_memory),
    },
    Scenario {
        name: "power-while-working",
        about: "two clients work while the adapter sleeps and wakes, again and again",
        breaks: &[],
        needs: POWER,
        body: DisplayBody(power_cycle_two_clients),
    },
    Scenario {
        name: "reset-device",
        about: "the machine goes down: the driver resets its hardware at a high level",
        breaks: &[],
        needs: RESET_DEVICE,
        body: DisplayBody(pnp_reset_device),
    },
];

/// A short life on an adapter.
fn visit(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let created = bench.create_resource(tunnel.at, 2)?;
    bench.destroy_resource(tunnel.at, created.resource)?;
    bench.close(tunnel.at, &[])
}

fn pnp_restart(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    visit(tunnel)?;
    for _ in 0..2 {
        tunnel.restart()?;
        visit(tunnel)?;
    }
    Ok(())
}

/// A client with an allocation that packets fill.
fn busy(tunnel: &mut Testbed<'_>) -> Result<(TestClient, D3DKMT_HANDLE), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let created = bench.create_resource(tunnel.at, 2)?;
    for allocation in created.allocations {
        bench.fill(tunnel.at, context, allocation)?;
    }
    Ok((bench, context))
}

/// What a client does when its adapter is gone: it hears of it, and cleans up.
fn leave(
    tunnel: &mut Testbed<'_>,
    bench: &TestClient,
    contexts: &[D3DKMT_HANDLE],
) -> Result<(), ScenarioStopped> {
    let create = bench.client.create(tunnel.at, &CreateAllocation::new(bench.device, page_descriptions(1)));
    expect_error("D3DKMTCreateAllocation", &create, STATUS_DEVICE_REMOVED)?;
    bench.close(tunnel.at, contexts)
}

fn pnp_stop_in_use(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (bench, context) = busy(tunnel)?;
    tunnel.restart()?;
    // The adapter runs; what was on it does not come back.
    visit(tunnel)?;
    leave(tunnel, &bench, &[context])
}

fn pnp_surprise_removal(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (bench, context) = busy(tunnel)?;
    tunnel.surprise_remove();
    tunnel.snapshot_live_objects("the hardware is gone");
    leave(tunnel, &bench, &[context])
}

fn power_cycle_with_work(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (bench, context) = busy(tunnel)?;
    for action in [PowerAction::None, PowerAction::Sleep, PowerAction::Hibernate] {
        tunnel.power_cycle(action)?;
        let created = bench.create(tunnel.at, 1)?;
        bench.fill(tunnel.at, context, created.allocations[0])?;
    }
    bench.close(tunnel.at, &[context])
}

fn power_preserves_memory(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let mut hidden = only_in(&[LOCAL]);
    hidden.flags.cpu_visible = false;
    let wants = [hidden, only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE]), anywhere()];
    let private = wants.iter().map(|it| describe_in(8 * PAGE, PAGE, it)).collect();
    let list = bench.create_with(tunnel.at, &CreateAllocation::new(bench.device, private))?.allocations;
    for (value, target) in (1..).zip(&list) {
        let target = Handle(*target);
        let fill = Command::Fill { target, offset: PAGE, length: 4 * PAGE, value };
        bench.submit(tunnel.at, context, &[fill])?;
    }
    let (client, device) = (&bench.client, bench.device);
    expect_ok("D3DKMTLock2", client.lock2(tunnel.at, device, list[1], 0))?;
    tunnel.power_cycle(PowerAction::Sleep)?;
    tunnel.snapshot_live_objects("it has slept");
    expect_ok("D3DKMTUnlock2", client.unlock2(tunnel.at, device, list[1]))?;
    // Packets find what they used where it was, and it is what goes and comes afterwards.
    let (from, to) = (Handle(list[0]), Handle(list[3]));
    let copy = Command::Copy { from, from_offset: PAGE, to, to_offset: 0, length: PAGE };
    bench.submit(tunnel.at, context, &[copy])?;
    expect_ok("D3DKMTEvict", client.evict(tunnel.at, device, &list, 0))?;
    tunnel.run_until_idle();
    tunnel.power_cycle(PowerAction::Hibernate)?;
    bench.make_resident(tunnel.at, &list)?;
    bench.destroy_list(tunnel.at, &list)?;
    bench.close(tunnel.at, &[context])
}

fn works(bench: &TestClient, at: &mut Passive) -> Result<(), ScenarioStopped> {
    let context = bench.create_context(at)?;
    for _ in 0..3 {
        let created = bench.create(at, 1)?;
        bench.fill(at, context, created.allocations[0])?;
        bench.destroy_list(at, &created.allocations)?;
    }
    bench.close(at, &[context])
}

fn power_cycle_two_clients(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (one, two) = (tunnel.test_client()?, tunnel.test_client()?);
    let (kernel, adapter) = (tunnel.kernel.clone(), tunnel.adapter);
    tunnel.run_threads(vec![
        Box::new(move |at| works(&one, at)),
        Box::new(move |at| works(&two, at)),
        Box::new(move |at| {
            for _ in 0..3 {
                kernel.power_down(at, adapter, PowerAction::None);
                kernel.power_up(at, adapter);
            }
            Ok(())
        }),
    ])
}

fn pnp_reset_device(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    bench.create_resource(tunnel.at, 2)?;
    tunnel.reset_device();
    leave(tunnel, &bench, &[])
}
