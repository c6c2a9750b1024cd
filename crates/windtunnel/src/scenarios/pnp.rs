//! Adapters that are restarted, powered down and up, surprise-removed, and shut down.

use crate::needs::{Needs, POWER, POWER_AND_MEMORY, RESET_DEVICE, SURPRISE_REMOVAL, WORK};
use crate::private_data::{Command, anywhere, only_in};
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::status::STATUS_DEVICE_REMOVED;
use flight::Passive;
use kernel::Handle;
use kernel::power::PowerAction;
use softgpu::{APERTURE, LOCAL, VISIBLE};
use thunk::CreateAllocation;

const PAGE: u64 = 4096;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "pnp-restart",
        about: "stops and starts the adapter twice and uses it each time",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(pnp_restart),
    },
    Scenario {
        name: "pnp-start-and-stop",
        about: "the adapter is stopped and started again, with no client",
        breaks: &[],
        needs: Needs::NONE.without_devices(),
        body: DisplayBody(start_and_stop),
    },
    Scenario {
        name: "pnp-stop-in-use",
        about: "stops the adapter with work in flight and starts it for another client",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(pnp_stop_in_use),
    },
    Scenario {
        name: "pnp-surprise-removal",
        about: "removes the hardware by surprise with work in flight and live allocations",
        breaks: &[],
        needs: SURPRISE_REMOVAL,
        body: DisplayBody(pnp_surprise_removal),
    },
    Scenario {
        name: "power-cycle-with-work",
        about: "powers the adapter down with work on it, up again, and continues",
        breaks: &[],
        needs: POWER,
        body: DisplayBody(power_cycle_with_work),
    },
    Scenario {
        name: "power-preserves-memory",
        about: "powers the adapter down and up; resident and locked allocations keep their contents",
        breaks: &[],
        needs: POWER_AND_MEMORY,
        body: DisplayBody(power_preserves_memory),
    },
    Scenario {
        name: "power-cycle-two-clients",
        about: "runs two clients while the adapter powers down and up repeatedly",
        breaks: &[],
        needs: POWER,
        body: DisplayBody(power_cycle_two_clients),
    },
    Scenario {
        name: "pnp-reset-device",
        about: "shuts the machine down; the driver resets its hardware in DxgkDdiResetDevice at high IRQL",
        breaks: &[],
        needs: RESET_DEVICE,
        body: DisplayBody(pnp_reset_device),
    },
];

/// A client that creates, uses and destroys an allocation.
fn start_and_stop(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    testbed.restart()?;
    testbed.run_until_idle();
    Ok(())
}

fn visit(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = test_client.create_resource(testbed.at, 2)?;
    test_client.destroy_resource(testbed.at, created.resource)?;
    test_client.close(testbed.at, &[])
}

fn pnp_restart(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    visit(testbed)?;
    for _ in 0..2 {
        testbed.restart()?;
        visit(testbed)?;
    }
    Ok(())
}

/// A client with an allocation that packets fill.
fn busy(testbed: &mut Testbed<'_>) -> Result<(TestClient, D3DKMT_HANDLE), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let created = test_client.create_resource(testbed.at, 2)?;
    for allocation in created.allocations {
        test_client.fill(testbed.at, context, allocation)?;
    }
    Ok((test_client, context))
}

/// A client after its adapter was removed: calls fail, and the client cleans up.
fn leave(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
    contexts: &[D3DKMT_HANDLE],
) -> Result<(), ScenarioStopped> {
    let create = test_client.client.create(
        testbed.at,
        &CreateAllocation::new(test_client.device, test_client.private_data.pages(1)),
    );
    expect_error("D3DKMTCreateAllocation", &create, STATUS_DEVICE_REMOVED)?;
    test_client.close(testbed.at, contexts)
}

fn pnp_stop_in_use(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, context) = busy(testbed)?;
    testbed.restart()?;
    // The adapter runs again; its earlier objects stay lost.
    visit(testbed)?;
    leave(testbed, &test_client, &[context])
}

fn pnp_surprise_removal(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, context) = busy(testbed)?;
    testbed.surprise_remove();
    testbed.snapshot_live_objects("the hardware is removed");
    leave(testbed, &test_client, &[context])
}

fn power_cycle_with_work(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (test_client, context) = busy(testbed)?;
    for action in [PowerAction::None, PowerAction::Sleep, PowerAction::Hibernate] {
        testbed.power_cycle(action)?;
        let created = test_client.create(testbed.at, 1)?;
        test_client.fill(testbed.at, context, created.allocations[0])?;
    }
    test_client.close(testbed.at, &[context])
}

fn power_preserves_memory(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let mut hidden = only_in(&[LOCAL]);
    hidden.flags.cpu_visible = false;
    let requirements = [hidden, only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE]), anywhere()];
    let private = requirements
        .iter()
        .map(|requirements| test_client.private_data.placed(8 * PAGE, PAGE, requirements))
        .collect();
    let list = test_client.create_list(testbed.at, private)?.allocations;
    for (value, target) in (1..).zip(&list) {
        let target = Handle(*target);
        let fill = Command::Fill { target, offset: PAGE, length: 4 * PAGE, value };
        test_client.submit(testbed.at, context, &[fill])?;
    }
    let (client, device) = (&test_client.client, test_client.device);
    expect_ok("D3DKMTLock2", client.lock2(testbed.at, device, list[1], 0))?;
    testbed.power_cycle(PowerAction::Sleep)?;
    testbed.snapshot_live_objects("after power down and up");
    expect_ok("D3DKMTUnlock2", client.unlock2(testbed.at, device, list[1]))?;
    // Packets find their allocations in place; those can be evicted and made resident afterwards.
    let (from, to) = (Handle(list[0]), Handle(list[3]));
    let copy = Command::Copy { from, from_offset: PAGE, to, to_offset: 0, length: PAGE };
    test_client.submit(testbed.at, context, &[copy])?;
    expect_ok("D3DKMTEvict", client.evict(testbed.at, device, &list, 0))?;
    testbed.run_until_idle();
    testbed.power_cycle(PowerAction::Hibernate)?;
    test_client.make_resident(testbed.at, &list)?;
    test_client.destroy_list(testbed.at, &list)?;
    test_client.close(testbed.at, &[context])
}

fn works(test_client: &TestClient, at: &mut Passive) -> Result<(), ScenarioStopped> {
    let context = test_client.create_context(at)?;
    for _ in 0..3 {
        let created = test_client.create(at, 1)?;
        test_client.fill(at, context, created.allocations[0])?;
        test_client.destroy_list(at, &created.allocations)?;
    }
    test_client.close(at, &[context])
}

fn power_cycle_two_clients(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (one, two) = (testbed.test_client()?, testbed.test_client()?);
    let (kernel, adapter) = (testbed.kernel.clone(), testbed.adapter);
    testbed.run_threads(vec![
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

fn pnp_reset_device(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    test_client.create_resource(testbed.at, 2)?;
    testbed.reset_device();
    leave(testbed, &test_client, &[])
}
