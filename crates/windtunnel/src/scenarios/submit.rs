//! What a packet says besides its commands: for which contexts it is, how much private data it
//! has, and which primaries it writes. Some clients do so wrongly, and are named.

use crate::scenario::Story::Told;
use crate::scenario::{DRAWN, DRAWN_ADDRESSES, LISTED, Scenario, WORK};
use crate::scenarios::address::{PAGE, fill, hidden, map, whole};
use crate::scenarios::bad::bad;
use crate::scenarios::render::Easel;
use crate::tunnel::{Bench, Stopped, Tunnel, refused, wanted};
use abi::D3DKMT_HANDLE;
use abi::status::STATUS_INVALID_PARAMETER;
use abi::ukm::{D3DDDI_ALLOCATIONINFO_FLAGS as InfoFlags, D3DDDI_MAPGPUVIRTUALADDRESS as Map};
use flight::RuleId;
use softgpu::format::{Command, describe, describe_in, encode};
use thunk::{Create, Listed, ListedContext};

/// Every good scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "submit-to-two",
        about: "the same packet is for two contexts, on two nodes, and each does it",
        breaks: &[],
        needs: WORK,
        story: Told(to_two),
    },
    Scenario {
        name: "draw-primary",
        about: "packets write primaries, and name them",
        breaks: &[],
        needs: DRAWN,
        story: Told(draw_primary),
    },
    Scenario {
        name: "draw-primary-mapped",
        about: "a packet writes a primary at its address, and names it",
        breaks: &[],
        needs: DRAWN_ADDRESSES,
        story: Told(|it| draw_mapped(it, true)),
    },
];

/// Those whose client breaks a rule.
pub(crate) const BAD: &[Scenario] = &[
    Scenario {
        needs: LISTED,
        ..bad(
            "submit-listed",
            "a context with lists is given a packet for virtual addresses",
            &[RuleId::SUBMIT_CMD_001],
            submit_listed,
        )
    },
    Scenario {
        needs: WORK,
        ..bad(
            "render-virtual",
            "a context with virtual addresses is given a packet with lists",
            &[RuleId::SUBMIT_CMD_001],
            render_virtual,
        )
    },
    Scenario {
        needs: WORK,
        ..bad("submit-to-nobody", "a packet is for no context", &[RuleId::SUBMIT_CMD_002], |it| {
            refused_packet(it, |_| (Vec::new(), encode(&[])))
        })
    },
    Scenario {
        needs: WORK,
        ..bad(
            "submit-long",
            "a packet has more private data than its driver asked for",
            &[RuleId::SUBMIT_CMD_003],
            |it| refused_packet(it, |context| (vec![context], vec![0; 1 << 20])),
        )
    },
    Scenario {
        needs: DRAWN_ADDRESSES,
        ..bad(
            "draw-primary-unnamed",
            "a packet writes a primary at its address, and does not name it",
            &[RuleId::SUBMIT_CMD_004],
            |it| draw_mapped(it, false),
        )
    },
];

/// Two pages that are a primary.
fn primary(tunnel: &mut Tunnel<'_>, bench: &Bench) -> Result<D3DKMT_HANDLE, Stopped> {
    let private = vec![describe_in(2 * PAGE, PAGE, &hidden())];
    let create = Create::on(bench.device, private);
    let create = Create { allocation_flags: vec![InfoFlags::Primary], ..create };
    Ok(bench.make(tunnel.at, &create)?.allocations[0])
}

fn to_two(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let made = bench.make(tunnel.at, &Create::on(bench.device, vec![describe(PAGE)]))?;
    let contexts = [bench.context(tunnel.at)?, bench.context_on(tunnel.at, 1)?];
    if bench.has_memory() {
        bench.resident(tunnel.at, &made.allocations)?;
    }
    let target = kernel::Handle(made.allocations[0]);
    let fill = Command::Fill { target, offset: 0, length: PAGE, value: 7 };
    let given = bench.client.submit_to(tunnel.at, &contexts, &encode(&[fill]), &[]);
    wanted("D3DKMTSubmitCommand to two contexts", given)?;
    tunnel.settle();
    bench.destroy_list(tunnel.at, &made.allocations)?;
    bench.close(tunnel.at, &contexts)
}

fn draw_primary(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let list = [primary(tunnel, &bench)?, primary(tunnel, &bench)?];
    let context = bench.context(tunnel.at)?;
    bench.resident(tunnel.at, &list)?;
    let [from, to] = list.map(kernel::Handle);
    let commands = [
        Command::Fill { target: from, offset: 0, length: PAGE, value: 3 },
        Command::Copy { from, from_offset: 0, to, to_offset: PAGE, length: PAGE },
    ];
    let given = bench.client.submit_to(tunnel.at, &[context], &encode(&commands), &list);
    wanted("D3DKMTSubmitCommand", given)?;
    tunnel.settle();
    bench.destroy_list(tunnel.at, &list)?;
    bench.close(tunnel.at, &[context])
}

fn draw_mapped(tunnel: &mut Tunnel<'_>, named: bool) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let one = primary(tunnel, &bench)?;
    let context = bench.context(tunnel.at)?;
    bench.resident(tunnel.at, &[one])?;
    let address = map(tunnel, &bench, &Map { SizeInPages: 2, ..whole(one) })?;
    let commands = encode(&[fill(address + PAGE, PAGE, 5)]);
    let names: &[D3DKMT_HANDLE] = if named { &[one] } else { &[] };
    let given = bench.client.submit_to(tunnel.at, &[context], &commands, names);
    wanted("D3DKMTSubmitCommand", given)?;
    tunnel.settle();
    bench.destroy_list(tunnel.at, &[one])?;
    bench.close(tunnel.at, &[context])
}

fn submit_listed(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let easel = Easel::open(tunnel)?;
    let given = easel.bench.client.submit(tunnel.at, easel.context.context, &encode(&[]));
    refused("D3DKMTSubmitCommand", &given, STATUS_INVALID_PARAMETER)?;
    easel.close(tunnel.at)
}

fn render_virtual(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let mut listed = ListedContext { context, commands: (0, 0), list: (0, 0), patches: (0, 0) };
    let given = bench.client.render_written(tunnel.at, &mut listed, &Listed::default());
    refused("D3DKMTRender", &given, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[context])
}

/// A packet that something is wrong with is refused.
fn refused_packet(
    tunnel: &mut Tunnel<'_>,
    wrong: impl FnOnce(D3DKMT_HANDLE) -> (Vec<D3DKMT_HANDLE>, Vec<u8>),
) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let (contexts, private) = wrong(context);
    let given = bench.client.submit_to(tunnel.at, &contexts, &private, &[]);
    refused("D3DKMTSubmitCommand", &given, STATUS_INVALID_PARAMETER)?;
    bench.close(tunnel.at, &[context])
}
