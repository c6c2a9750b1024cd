//! Arguments of a submission besides its commands: broadcast contexts, private data and written
//! primaries. Bad clients pass invalid ones and are reported.

use crate::needs::{ALLOCATION_LISTS, PRIMARIES_AT_ADDRESSES, PRIMARIES_IN_MEMORY, WORK};
use crate::private_data::{Command, DataUse};
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenarios::bad::bad;
use crate::scenarios::gpuva::{PAGE, cpu_invisible, fill, map, whole};
use crate::scenarios::render::RenderClient;
use crate::scenarios::sync::{destroy, monitored, signal_cpu, signal_gpu, wait_gpu};
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::status::{STATUS_DEVICE_REMOVED, STATUS_INVALID_PARAMETER};
use abi::ukm::{D3DDDI_ALLOCATIONINFO_FLAGS as InfoFlags, D3DDDI_MAPGPUVIRTUALADDRESS as Map};
use flight::RuleId;
use thunk::{CreateAllocation, RenderCommand, RenderContext};

/// Every good scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "submit-broadcast",
        about: "submits one packet to two contexts on two nodes",
        breaks: &[],
        needs: WORK.nodes(2),
        body: DisplayBody(submit_broadcast),
    },
    Scenario {
        name: "submit-written-primaries",
        about: "submits packets that write primaries and lists them as written primaries",
        breaks: &[],
        needs: PRIMARIES_IN_MEMORY,
        body: DisplayBody(submit_written_primaries),
    },
    Scenario {
        name: "submit-refused-between-packets",
        about: "the driver rejects a packet between packets of its process and of another, which continues",
        breaks: &[],
        needs: WORK.private_data(DataUse::Rejected),
        body: DisplayBody(submit_refused_between_packets),
    },
    Scenario {
        name: "submit-mapped-primary",
        about: "submits a packet that writes a primary at its GPU virtual address and lists it",
        breaks: &[],
        needs: PRIMARIES_AT_ADDRESSES.private_data(DataUse::Placement),
        body: DisplayBody(|testbed| draw_mapped(testbed, true)),
    },
];

/// Scenarios whose client breaks a rule.
pub(crate) const BAD: &[Scenario] = &[
    Scenario {
        needs: ALLOCATION_LISTS,
        ..bad(
            "submit-virtual-to-list-context",
            "submits a packet with virtual addresses to a context with allocation lists",
            &[RuleId::SUBMIT_CMD_001],
            submit_virtual_to_list_context,
        )
    },
    Scenario {
        needs: WORK,
        ..bad(
            "submit-render-to-virtual-context",
            "renders a packet with allocation lists on a context with virtual addresses",
            &[RuleId::SUBMIT_CMD_001],
            submit_render_to_virtual_context,
        )
    },
    Scenario {
        needs: WORK,
        ..bad(
            "submit-without-context",
            "submits a packet to no context",
            &[RuleId::SUBMIT_CMD_002],
            |testbed| expect_packet_error(testbed, |_| (Vec::new(), Vec::new())),
        )
    },
    Scenario {
        needs: WORK,
        ..bad(
            "submit-private-data-too-long",
            "submits more private data than the driver requested",
            &[RuleId::SUBMIT_CMD_003],
            |testbed| expect_packet_error(testbed, |context| (vec![context], vec![0; 1 << 20])),
        )
    },
    Scenario {
        needs: PRIMARIES_AT_ADDRESSES.private_data(DataUse::Placement),
        ..bad(
            "submit-unlisted-written-primary",
            "submits a packet that writes a primary without listing it",
            &[RuleId::SUBMIT_CMD_004],
            |testbed| draw_mapped(testbed, false),
        )
    },
];

/// A primary of two pages.
fn primary(
    testbed: &mut Testbed<'_>,
    test_client: &TestClient,
) -> Result<D3DKMT_HANDLE, ScenarioStopped> {
    let private = vec![test_client.private_data.placed(2 * PAGE, PAGE, &cpu_invisible())];
    let create = CreateAllocation::new(test_client.device, private);
    let create = CreateAllocation { allocation_flags: vec![InfoFlags::Primary], ..create };
    Ok(test_client.create_with(testbed.at, &create)?.allocations[0])
}

fn submit_broadcast(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let created = test_client.create_with(
        testbed.at,
        &CreateAllocation::new(test_client.device, test_client.private_data.pages(1)),
    )?;
    let contexts =
        [test_client.create_context(testbed.at)?, test_client.create_context_on(testbed.at, 1)?];
    if test_client.has_memory() {
        test_client.make_resident(testbed.at, &created.allocations)?;
    }
    let target = kernel::Handle(created.allocations[0]);
    let fill = Command::Fill { target, offset: 0, length: PAGE, value: 7 };
    let packet = test_client.private_data.packet(&[fill])?;
    let given = test_client.client.submit_to(testbed.at, &contexts, &packet, &[]);
    expect_ok("D3DKMTSubmitCommand to two contexts", given)?;
    testbed.run_until_idle();
    test_client.destroy_list(testbed.at, &created.allocations)?;
    test_client.close(testbed.at, &contexts)
}

/// The rejected packet waits for an object, so that the kernel submits it later, between packets
/// that are in flight and packets, a wait and a signal that are queued. From then on each call with
/// the device fails, except those that destroy.
fn submit_refused_between_packets(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let (bad, good) = (testbed.test_client()?, testbed.test_client()?);
    let (context, second) =
        (bad.create_context(testbed.at)?, bad.create_second_context(testbed.at)?);
    let theirs = good.create_context(testbed.at)?;
    let (created, kept) = (bad.create(testbed.at, 2)?, good.create(testbed.at, 1)?);
    let (start, end) = (monitored(testbed, &bad)?, monitored(testbed, &bad)?);
    bad.fill(testbed.at, context, created.allocations[0])?;
    wait_gpu(testbed, &bad, context, &[(start, 1)])?;
    let rejected = bad.private_data.unknown_packet()?;
    expect_ok("D3DKMTSubmitCommand", bad.client.submit(testbed.at, context, &rejected))?;
    bad.submit(testbed.at, context, &[])?;
    signal_gpu(testbed, &bad, context, &[(end, 1)])?;
    wait_gpu(testbed, &bad, second, &[(end, 1)])?;
    bad.fill(testbed.at, second, created.allocations[1])?;
    good.fill(testbed.at, theirs, kept.allocations[0])?;
    signal_cpu(testbed, &bad, &[(start, 1)], 0)?;
    good.fill(testbed.at, theirs, kept.allocations[0])?;
    testbed.run_until_idle();
    testbed.snapshot_live_objects("the driver has rejected the packet");
    for context in [context, second] {
        let submitted = bad.client.submit(testbed.at, context, &[]);
        expect_error("D3DKMTSubmitCommand", &submitted, STATUS_DEVICE_REMOVED)?;
    }
    let create = CreateAllocation::new(bad.device, bad.private_data.pages(1));
    let create = bad.client.create(testbed.at, &create);
    expect_error("D3DKMTCreateAllocation", &create, STATUS_DEVICE_REMOVED)?;
    good.fill(testbed.at, theirs, kept.allocations[0])?;
    testbed.run_until_idle();
    bad.destroy_list(testbed.at, &created.allocations)?;
    destroy(testbed, &bad, &[start, end])?;
    bad.close(testbed.at, &[context, second])?;
    good.destroy_list(testbed.at, &kept.allocations)?;
    good.close(testbed.at, &[theirs])
}

fn submit_written_primaries(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let list = [primary(testbed, &test_client)?, primary(testbed, &test_client)?];
    let context = test_client.create_context(testbed.at)?;
    test_client.make_resident(testbed.at, &list)?;
    let [from, to] = list.map(kernel::Handle);
    let commands = [
        Command::Fill { target: from, offset: 0, length: PAGE, value: 3 },
        Command::Copy { from, from_offset: 0, to, to_offset: PAGE, length: PAGE },
    ];
    let packet = test_client.private_data.packet(&commands)?;
    let given = test_client.client.submit_to(testbed.at, &[context], &packet, &list);
    expect_ok("D3DKMTSubmitCommand", given)?;
    testbed.run_until_idle();
    test_client.destroy_list(testbed.at, &list)?;
    test_client.close(testbed.at, &[context])
}

fn draw_mapped(testbed: &mut Testbed<'_>, named: bool) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let one = primary(testbed, &test_client)?;
    let context = test_client.create_context(testbed.at)?;
    test_client.make_resident(testbed.at, &[one])?;
    let address = map(testbed, &test_client, &Map { SizeInPages: 2, ..whole(one) })?;
    let commands = test_client.private_data.packet(&[fill(address + PAGE, PAGE, 5)])?;
    let names: &[D3DKMT_HANDLE] = if named { &[one] } else { &[] };
    let given = test_client.client.submit_to(testbed.at, &[context], &commands, names);
    expect_ok("D3DKMTSubmitCommand", given)?;
    testbed.run_until_idle();
    test_client.destroy_list(testbed.at, &[one])?;
    test_client.close(testbed.at, &[context])
}

fn submit_virtual_to_list_context(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let render_client = RenderClient::open(testbed)?;
    let given = render_client.client.client.submit(testbed.at, render_client.context.context, &[]);
    expect_error("D3DKMTSubmitCommand", &given, STATUS_INVALID_PARAMETER)?;
    render_client.close(testbed.at)
}

fn submit_render_to_virtual_context(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let mut listed = RenderContext { context, commands: (0, 0), list: (0, 0), patches: (0, 0) };
    let given =
        test_client.client.render_written(testbed.at, &mut listed, &RenderCommand::default());
    expect_error("D3DKMTRender", &given, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[context])
}

/// Submits an invalid packet, which must fail.
fn expect_packet_error(
    testbed: &mut Testbed<'_>,
    wrong: impl FnOnce(D3DKMT_HANDLE) -> (Vec<D3DKMT_HANDLE>, Vec<u8>),
) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let context = test_client.create_context(testbed.at)?;
    let (contexts, private) = wrong(context);
    let given = test_client.client.submit_to(testbed.at, &contexts, &private, &[]);
    expect_error("D3DKMTSubmitCommand", &given, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[context])
}
