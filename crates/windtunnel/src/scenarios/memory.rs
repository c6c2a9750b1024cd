//! Good clients of an adapter with memory: what they use comes, goes, and comes back.

use crate::scenario::Story::Told;
use crate::scenario::{MEMORY, Scenario};
use crate::tunnel::{Bench, Stopped, Tunnel, wanted};
use abi::D3DKMT_HANDLE;
use abi::ukm::D3DDDI_EVICT_FLAGS as EvictFlags;
use kernel::Handle;
use kernel::segment::Wants;
use softgpu::format::{Command, anywhere, describe_in, encode, only_in};
use softgpu::{APERTURE, LOCAL, VISIBLE};
use thunk::{Create, Destroy, Names};

const PAGE: u64 = 4096;
const SIZE: u64 = 24 * PAGE;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "memory-moves",
        about: "allocations are filled, evicted and made resident again, in memory and apertures",
        breaks: &[],
        needs: MEMORY,
        story: Told(moves),
    },
    Scenario {
        name: "memory-neighbours",
        about: "allocations side by side come and go, each by itself",
        breaks: &[],
        needs: MEMORY,
        story: Told(neighbours),
    },
    Scenario {
        name: "memory-counted",
        about: "residency is counted: as many Evicts as MakeResidents",
        breaks: &[],
        needs: MEMORY,
        story: Told(counted),
    },
    Scenario {
        name: "memory-compacted",
        about: "every second allocation goes, and those that nobody uses move together",
        breaks: &[],
        needs: MEMORY,
        story: Told(compacted),
    },
    Scenario {
        name: "destroy-resident",
        about: "what is resident, locked, offered or evicted is destroyed",
        breaks: &[],
        needs: MEMORY,
        story: Told(ends),
    },
];

/// Local memory that the CPU does not see.
fn hidden() -> Wants {
    let mut wants = only_in(&[LOCAL]);
    wants.flags.cpu_visible = false;
    wants
}

fn create(
    tunnel: &mut Tunnel<'_>,
    bench: &Bench,
    wants: &[Wants],
) -> Result<Vec<D3DKMT_HANDLE>, Stopped> {
    let private = wants.iter().map(|it| describe_in(SIZE, PAGE, it)).collect();
    Ok(bench.make(tunnel.at, &Create::on(bench.device, private))?.allocations)
}

fn fill(
    tunnel: &mut Tunnel<'_>,
    bench: &Bench,
    context: u32,
    list: &[D3DKMT_HANDLE],
) -> Result<(), Stopped> {
    for (value, target) in (1..).zip(list) {
        let target = Handle(*target);
        let half = SIZE / 2;
        let low = Command::Fill { target, offset: 0, length: half, value };
        let high = Command::Fill { target, offset: half, length: half, value: !value };
        let commands = encode(&[low, high]);
        wanted("D3DKMTSubmitCommand", bench.client.submit(tunnel.at, context, &commands))?;
    }
    tunnel.settle();
    Ok(())
}

fn evict(
    tunnel: &mut Tunnel<'_>,
    bench: &Bench,
    list: &[D3DKMT_HANDLE],
    flags: u32,
) -> Result<(), Stopped> {
    wanted("D3DKMTEvict", bench.client.evict(tunnel.at, bench.device, list, flags)).map(drop)
}

fn moves(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let wants = [hidden(), only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE]), anywhere()];
    let list = create(tunnel, &bench, &wants)?;
    bench.resident(tunnel.at, &list)?;
    fill(tunnel, &bench, context, &list)?;
    evict(tunnel, &bench, &list, 0)?;
    tunnel.settle();
    tunnel.look("everything is evicted");
    bench.resident(tunnel.at, &list)?;
    tunnel.look("everything is resident again");
    bench.destroy_list(tunnel.at, &list)?;
    bench.close(tunnel.at, &[context])
}

fn neighbours(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let list = create(tunnel, &bench, &[hidden(); 4])?;
    bench.resident(tunnel.at, &list)?;
    fill(tunnel, &bench, context, &list)?;
    evict(tunnel, &bench, &list, 0)?;
    tunnel.settle();
    for it in &list {
        bench.resident(tunnel.at, &[*it])?;
    }
    // Those with an even place leave and come back; the others stay as they are.
    let even: Vec<D3DKMT_HANDLE> = list.iter().step_by(2).copied().collect();
    evict(tunnel, &bench, &even, 0)?;
    tunnel.settle();
    bench.resident(tunnel.at, &even)?;
    bench.destroy_list(tunnel.at, &list)?;
    bench.close(tunnel.at, &[context])
}

fn counted(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let list = create(tunnel, &bench, &[anywhere(); 2])?;
    for _ in 0..3 {
        bench.resident(tunnel.at, &list)?;
    }
    evict(tunnel, &bench, &list, 0)?;
    evict(tunnel, &bench, &list, EvictFlags::EvictOnlyIfNecessary)?;
    tunnel.look("two of three");
    evict(tunnel, &bench, &list, EvictFlags::NotWrittenTo)?;
    tunnel.settle();
    bench.destroy_list(tunnel.at, &list)?;
    bench.close(tunnel.at, &[])
}

fn compacted(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    // What a context saves into does not move: it lies below the others.
    let first = create(tunnel, &bench, &[hidden()])?;
    bench.resident(tunnel.at, &first)?;
    fill(tunnel, &bench, context, &first)?;
    let list = create(tunnel, &bench, &[hidden(); 8])?;
    bench.resident(tunnel.at, &list)?;
    fill(tunnel, &bench, context, &list)?;
    let (even, odd): (Vec<_>, Vec<_>) = list.chunks(2).map(|it| (it[0], it[1])).unzip();
    bench.destroy_list(tunnel.at, &odd)?;
    tunnel.settle();
    evict(tunnel, &bench, &even, EvictFlags::EvictOnlyIfNecessary)?;
    tunnel.compact();
    tunnel.look("what is left lies together");
    bench.resident(tunnel.at, &even)?;
    // What the GPU has now is what is moved out, and comes back.
    evict(tunnel, &bench, &even, 0)?;
    tunnel.settle();
    bench.resident(tunnel.at, &even)?;
    bench.destroy_list(tunnel.at, &even)?;
    bench.close(tunnel.at, &[context])
}

fn ends(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let wants = [hidden(), only_in(&[APERTURE]), only_in(&[VISIBLE, APERTURE]), anywhere()];
    let list = create(tunnel, &bench, &wants)?;
    bench.resident(tunnel.at, &list)?;
    fill(tunnel, &bench, context, &list)?;
    let [local, mapped, offered, evicted] = list[..] else { return Ok(()) };
    evict(tunnel, &bench, &[evicted], 0)?;
    let names = Names { device: bench.device, list: &[offered], ..Names::default() };
    let offer = bench.client.offer(tunnel.at, names, 1);
    wanted("D3DKMTOfferAllocations", offer)?;
    for it in [local, mapped, offered, evicted] {
        let destroy = Destroy {
            device: bench.device,
            list: vec![it],
            synchronous: true,
            ..Destroy::default()
        };
        bench.destroy(tunnel.at, &destroy)?;
    }
    bench.close(tunnel.at, &[context])
}
