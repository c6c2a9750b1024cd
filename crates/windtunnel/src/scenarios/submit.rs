//! What a packet says besides its commands: for which contexts it is, how much private data it
//! has, and which primaries it writes. Some clients do so wrongly, and are named.

use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenario::{PRIMARIES_IN_MEMORY, PRIMARIES_AT_ADDRESSES, ALLOCATION_LISTS, Scenario, WORK};
use crate::scenarios::address::{PAGE, fill, cpu_invisible, map, whole};
use crate::scenarios::bad::bad;
use crate::scenarios::render::RenderClient;
use crate::tunnel::{TestClient, ScenarioStopped, Testbed, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::status::STATUS_INVALID_PARAMETER;
use abi::ukm::{D3DDDI_ALLOCATIONINFO_FLAGS as InfoFlags, D3DDDI_MAPGPUVIRTUALADDRESS as Map};
use flight::RuleId;
use softgpu::format::{Command, describe, describe_in, encode};
use thunk::{CreateAllocation, RenderCommand, RenderContext};

/// Every good scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "submit-to-two",
        about: "the same packet is for two contexts, on two nodes, and each does it",
        breaks: &[],
        needs: WORK,
        body: DisplayBody(submit_broadcast),
    },
    Scenario {
        name: "draw-primary",
        about: "packets write primaries, and name them",
        breaks: &[],
        needs: PRIMARIES_IN_MEMORY,
        body: DisplayBody(submit_written_primaries),
    },
    Scenario {
        name: "draw-primary-mapped",
        about: "a packet writes a primary at its address, and names it",
        breaks: &[],
        needs: PRIMARIES_AT_ADDRESSES,
        body: DisplayBody(|it| draw_mapped(it, true)),
    },
];

/// Those whose client breaks a rule.
pub(crate) const BAD: &[Scenario] = &[
    Scenario {
        needs: ALLOCATION_LISTS,
        ..bad(
            "submit-listed",
            "a context with lists is given a packet for virtual addresses",
            &[RuleId::SUBMIT_CMD_001],
            submit_virtual_to_list_context,
        )
    },
    Scenario {
        needs: WORK,
        ..bad(
            "render-virtual",
            "a context with virtual addresses is given a packet with lists",
            &[RuleId::SUBMIT_CMD_001],
            submit_render_to_virtual_context,
        )
    },
    Scenario {
        needs: WORK,
        ..bad("submit-to-nobody", "a packet is for no context", &[RuleId::SUBMIT_CMD_002], |it| {
            expect_packet_error(it, |_| (Vec::new(), encode(&[])))
        })
    },
    Scenario {
        needs: WORK,
        ..bad(
            "submit-long",
            "a packet has more private data than its driver asked for",
            &[RuleId::SUBMIT_CMD_003],
            |it| expect_packet_error(it, |context| (vec![context], vec![0; 1 << 20])),
        )
    },
    Scenario {
        needs: PRIMARIES_AT_ADDRESSES,
        ..bad(
            "draw-primary-unnamed",
            "a packet writes a primary at its address, and does not name it",
            &[RuleId::SUBMIT_CMD_004],
            |it| draw_mapped(it, false),
        )
    },
];

/// Two pages that are a primary.
fn primary(tunnel: &mut Testbed<'_>, bench: &TestClient) -> Result<D3DKMT_HANDLE, ScenarioStopped> {
    let private = vec![describe_in(2 * PAGE, PAGE, &cpu_invisible())];
    let create = CreateAllocation::new(bench.device, private);
    let create = CreateAllocation { allocation_flags: vec![InfoFlags::Primary], ..create };
    Ok(bench.create_with(tunnel.at, &create)?.allocations[0])
}

fn submit_broadcast(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let created = bench.create_with(tunnel.at, &CreateAllocation::new(bench.device, vec![describe(PAGE)]))?;
    let contexts = [bench.create_context(tunnel.at)?, bench.create_context_on(tunnel.at, 1)?];
    if bench.has_memory() {
        bench.make_resident(tunnel.at, &created.allocations)?;
    }
    let target = kernel::Handle(created.allocations[0]);
    let fill = Command::Fill { target, offset: 0, length: PAGE, value: 7 };
    let given = bench.client.submit_to(tunnel.at, &contexts, &encode(&[fill]), &[]);
    expect_ok("D3DKMTSubmitCommand to two contexts", given)?;
    tunnel.run_until_idle();
    bench.destroy_list(tunnel.at, &created.allocations)?;
    bench.close(tunnel.at, &contexts)
}

fn submit_written_primaries(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let list = [primary(tunnel, &bench)?, primary(tunnel, &bench)?];
    let context = bench.create_context(tunnel.at)?;
    bench.make_resident(tunnel.at, &list)?;
    let [from, to] = list.map(kernel::Handle);
    let commands = [
        Command::Fill { target: from, offset: 0, length: PAGE, value: 3 },
        Command::Copy { from, from_offset: 0, to, to_offset: PAGE, length: PAGE },
    ];
    let given = bench.client.submit_to(tunnel.at, &[context], &encode(&commands), &list);
    expect_ok("D3DKMTSubmitCommand", given)?;
    tunnel.run_until_idle();
    bench.destroy_list(tunnel.at, &list)?;
    bench.close(tunnel.at, &[context])
}

fn draw_mapped(tunnel: &mut Testbed<'_>, named: bool) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let one = primary(tunnel, &bench)?;
    let context = bench.create_context(tunnel.at)?;
    bench.make_resident(tunnel.at, &[one])?;
    let address = map(tunnel, &bench, &Map { SizeInPages: 2, ..whole(one) })?;
    let commands = encode(&[fill(address + PAGE, PAGE, 5)]);
    let names: &[D3DKMT_HANDLE] = if named { &[one] } else { &[] };
    let given = bench.client.submit_to(tunnel.at, &[context], &commands, names);
    expect_ok("D3DKMTSubmitCommand", given)?;
    tunnel.run_until_idle();
    bench.destroy_list(tunnel.at, &[one])?;
    bench.close(tunnel.at, &[context])
}

fn submit_virtual_to_list_context(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let easel = RenderClient::open(tunnel)?;
    let given = easel.client.client.submit(tunnel.at, easel.context.context, &encode(&[]));
    expect_error("D3DKMTSubmitCommand", &given, STATUS_INVALID_PARAMETER)?;
    easel.close(tunnel.at)
}

fn submit_render_to_virtual_context(tunnel: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let mut listed = RenderContext { context, commands: (0, 0), list: (0, 0), patches: (0, 0) };
    let given = bench.client.render_written(tunnel.at, &mut listed, &RenderCommand::default());
    expect_error("D3DKMTRender", &given, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[context])
}

/// A packet that something is wrong with is refused.
fn expect_packet_error(
    tunnel: &mut Testbed<'_>,
    wrong: impl FnOnce(D3DKMT_HANDLE) -> (Vec<D3DKMT_HANDLE>, Vec<u8>),
) -> Result<(), ScenarioStopped> {
    let bench = tunnel.test_client()?;
    let context = bench.create_context(tunnel.at)?;
    let (contexts, private) = wrong(context);
    let given = bench.client.submit_to(tunnel.at, &contexts, &private, &[]);
    expect_error("D3DKMTSubmitCommand", &given, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[context])
}
