//! Adapters that stop and start again, sleep and wake, are pulled out, and go down with their
//! machine.

use crate::scenario::Story::Told;
use crate::scenario::{POWER, POWERED_MEMORY, PULLED, RESETS, Scenario, WORK};
use crate::tunnel::{Bench, Stopped, Tunnel, pages, refused, wanted};
use abi::D3DKMT_HANDLE;
use abi::status::STATUS_DEVICE_REMOVED;
use flight::Passive;
use kernel::Handle;
use kernel::power::PowerAction;
use softgpu::format::{Command, anywhere, describe_in, only_in};
use softgpu::{APERTURE, LOCAL, VISIBLE};
use thunk::Create;

const PAGE: u64 = 4096;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "start-stop-start",
        about: "the adapter is stopped and started again, twice, and used each time",
        breaks: &[],
        needs: &[],
        story: Told(start_stop_start),
    },
    Scenario {
        name: "stop-in-use",
        about: "the adapter is stopped with work in flight, and started again for somebody else",
        breaks: &[],
        needs: WORK,
        story: Told(stop_in_use),
    },
    Scenario {
        name: "surprise-removal",
        about: "the hardware is pulled out with work in flight and live allocations",
        breaks: &[],
        needs: PULLED,
        story: Told(surprise_removal),
    },
    Scenario {
        name: "power-down-and-up",
        about: "the adapter sleeps with work on it, wakes, and goes on",
        breaks: &[],
        needs: POWER,
        story: Told(power_down_and_up),
    },
    Scenario {
        name: "power-and-memory",
        about: "the adapter sleeps: what is resident in any segment, or locked, is the same after",
        breaks: &[],
        needs: POWERED_MEMORY,
        story: Told(power_and_memory),
    },
    Scenario {
        name: "power-while-working",
        about: "two clients work while the adapter sleeps and wakes, again and again",
        breaks: &[],
        needs: POWER,
        story: Told(power_while_working),
    },
    Scenario {
        name: "reset-device",
        about: "the machine goes down: the driver resets its hardware at a high level",
        breaks: &[],
        needs: RESETS,
        story: Told(reset_device),
    },
];

/// A short life on an adapter.
fn visit(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let made = bench.create_resource(tunnel.at, 2)?;
    bench.destroy_resource(tunnel.at, made.resource)?;
    bench.close(tunnel.at, &[])
}

fn start_stop_start(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    visit(tunnel)?;
    for _ in 0..2 {
        tunnel.restart()?;
        visit(tunnel)?;
    }
    Ok(())
}

/// A client with an allocation that packets fill.
fn busy(tunnel: &mut Tunnel<'_>) -> Result<(Bench, D3DKMT_HANDLE), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let made = bench.create_resource(tunnel.at, 2)?;
    for allocation in made.allocations {
        bench.fill(tunnel.at, context, allocation)?;
    }
    Ok((bench, context))
}

/// What a client does when its adapter is gone: it hears of it, and cleans up.
fn leave(
    tunnel: &mut Tunnel<'_>,
    bench: &Bench,
    contexts: &[D3DKMT_HANDLE],
) -> Result<(), Stopped> {
    let create = bench.client.create(tunnel.at, &Create::on(bench.device, pages(1)));
    refused("D3DKMTCreateAllocation", &create, STATUS_DEVICE_REMOVED)?;
    bench.close(tunnel.at, contexts)
}

fn stop_in_use(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, context) = busy(tunnel)?;
    tunnel.restart()?;
    // The adapter runs; what was on it does not come back.
    visit(tunnel)?;
    leave(tunnel, &bench, &[context])
}

fn surprise_removal(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, context) = busy(tunnel)?;
    tunnel.pull();
    tunnel.look("the hardware is gone");
    leave(tunnel, &bench, &[context])
}

fn power_down_and_up(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (bench, context) = busy(tunnel)?;
    for action in [PowerAction::None, PowerAction::Sleep, PowerAction::Hibernate] {
        tunnel.sleep(action)?;
        let made = bench.create(tunnel.at, 1)?;
        bench.fill(tunnel.at, context, made.allocations[0])?;
    }
    bench.close(tunnel.at, &[context])
}

fn power_and_memory(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let mut hidden = only_in(&[LOCAL]);
    hidden.flags.cpu_visible = false;
    let wants = [hidden, only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE]), anywhere()];
    let private = wants.iter().map(|it| describe_in(8 * PAGE, PAGE, it)).collect();
    let list = bench.make(tunnel.at, &Create::on(bench.device, private))?.allocations;
    for (value, target) in (1..).zip(&list) {
        let target = Handle(*target);
        let fill = Command::Fill { target, offset: PAGE, length: 4 * PAGE, value };
        bench.submit(tunnel.at, context, &[fill])?;
    }
    let (client, device) = (&bench.client, bench.device);
    wanted("D3DKMTLock2", client.lock2(tunnel.at, device, list[1], 0))?;
    tunnel.sleep(PowerAction::Sleep)?;
    tunnel.look("it has slept");
    wanted("D3DKMTUnlock2", client.unlock2(tunnel.at, device, list[1]))?;
    // Packets find what they used where it was, and it is what goes and comes afterwards.
    let (from, to) = (Handle(list[0]), Handle(list[3]));
    let copy = Command::Copy { from, from_offset: PAGE, to, to_offset: 0, length: PAGE };
    bench.submit(tunnel.at, context, &[copy])?;
    wanted("D3DKMTEvict", client.evict(tunnel.at, device, &list, 0))?;
    tunnel.settle();
    tunnel.sleep(PowerAction::Hibernate)?;
    bench.resident(tunnel.at, &list)?;
    bench.destroy_list(tunnel.at, &list)?;
    bench.close(tunnel.at, &[context])
}

fn works(bench: &Bench, at: &mut Passive) -> Result<(), Stopped> {
    let context = bench.context(at)?;
    for _ in 0..3 {
        let made = bench.create(at, 1)?;
        bench.fill(at, context, made.allocations[0])?;
        bench.destroy_list(at, &made.allocations)?;
    }
    bench.close(at, &[context])
}

fn power_while_working(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (one, two) = (tunnel.bench()?, tunnel.bench()?);
    let (kernel, adapter) = (tunnel.kernel.clone(), tunnel.adapter);
    tunnel.side_by_side(vec![
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

fn reset_device(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    bench.create_resource(tunnel.at, 2)?;
    tunnel.reset();
    leave(tunnel, &bench, &[])
}
