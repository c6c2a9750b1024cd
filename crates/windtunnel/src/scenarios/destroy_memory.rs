//! Ends of allocations that are locked, offered, evicted, mapped or on their way.

use crate::scenario::Story::Told;
use crate::scenario::{MEMORY, Scenario};
use crate::tunnel::{Bench, Stopped, Tunnel, wanted};
use flight::RuleId;
use kernel::Handle;
use kernel::segment::Wants;
use softgpu::format::{Command, anywhere, describe_in, encode, only_in};
use softgpu::{APERTURE, LOCAL, VISIBLE};
use thunk::{Create, Destroy, Names};

const PAGE: u64 = 4096;
const SIZE: u64 = 4 * PAGE;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    memory("destroy-unlocked", "what was locked is unlocked, then destroyed", unlocked),
    Scenario {
        breaks: &[RuleId::ALLOC_DESTROY_022],
        ..memory(
            "destroy-locked",
            "what the CPU has locked is destroyed: its address is nothing",
            locked,
        )
    },
    memory("destroy-offered", "what is offered is destroyed, idle and behind work", offered),
    memory(
        "destroy-evicted",
        "what is in the system's memory is destroyed: nothing pages",
        evicted,
    ),
    memory(
        "destroy-mapped",
        "what is mapped into an aperture is destroyed: it is unmapped before it is closed",
        mapped,
    ),
    memory(
        "destroy-in-transfer",
        "what is on its way in or out is destroyed: its end waits until it has arrived",
        in_transfer,
    ),
];

const fn memory(
    name: &'static str,
    about: &'static str,
    story: fn(&mut Tunnel<'_>) -> Result<(), Stopped>,
) -> Scenario {
    Scenario { name, about, breaks: &[], needs: MEMORY, story: Told(story) }
}

/// An allocation of a few pages, wanted so.
fn create(tunnel: &mut Tunnel<'_>, bench: &Bench, wants: &Wants) -> Result<u32, Stopped> {
    let private = vec![describe_in(SIZE, PAGE, wants)];
    Ok(bench.make(tunnel.at, &Create::on(bench.device, private))?.allocations[0])
}

/// Work on one that is resident, which is not waited for.
fn work(tunnel: &mut Tunnel<'_>, bench: &Bench, context: u32, on: u32) -> Result<(), Stopped> {
    let fill = Command::Fill { target: Handle(on), offset: 0, length: SIZE, value: 0xa5 };
    let submitted = bench.client.submit(tunnel.at, context, &encode(&[fill]));
    wanted("D3DKMTSubmitCommand", submitted)
}

/// How an allocation is destroyed: with `AssumeNotInUse`, with `SynchronousDestroy`.
const WAYS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

fn destroy(
    tunnel: &mut Tunnel<'_>,
    bench: &Bench,
    it: u32,
    (assume_not_in_use, synchronous): (bool, bool),
) -> Result<(), Stopped> {
    let (device, list) = (bench.device, vec![it]);
    let destroy = Destroy { device, list, assume_not_in_use, synchronous, ..Destroy::default() };
    bench.destroy(tunnel.at, &destroy)
}

fn unlocked(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let it = create(tunnel, &bench, &only_in(&[VISIBLE, APERTURE]))?;
    bench.resident(tunnel.at, &[it])?;
    let (client, device) = (&bench.client, bench.device);
    wanted("D3DKMTLock2", client.lock2(tunnel.at, device, it, 0))?;
    wanted("D3DKMTUnlock2", client.unlock2(tunnel.at, device, it))?;
    destroy(tunnel, &bench, it, (false, true))?;
    bench.close(tunnel.at, &[])
}

fn locked(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    for wants in [only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE])] {
        let it = create(tunnel, &bench, &wants)?;
        bench.resident(tunnel.at, &[it])?;
        for _ in 0..2 {
            wanted("D3DKMTLock2", bench.client.lock2(tunnel.at, bench.device, it, 0))?;
        }
        work(tunnel, &bench, context, it)?;
        destroy(tunnel, &bench, it, (false, false))?;
        tunnel.look("it waits for the work, and is not locked any more");
        tunnel.settle();
    }
    bench.close(tunnel.at, &[context])
}

fn offered(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    for busy in [false, true] {
        let it = create(tunnel, &bench, &anywhere())?;
        bench.resident(tunnel.at, &[it])?;
        if busy {
            work(tunnel, &bench, context, it)?;
        }
        let names = Names { device: bench.device, list: &[it], ..Names::default() };
        wanted("D3DKMTOfferAllocations", bench.client.offer(tunnel.at, names, 1))?;
        destroy(tunnel, &bench, it, (false, false))?;
        tunnel.settle();
    }
    bench.close(tunnel.at, &[context])
}

fn evicted(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    let it = create(tunnel, &bench, &anywhere())?;
    bench.resident(tunnel.at, &[it])?;
    work(tunnel, &bench, context, it)?;
    wanted("D3DKMTEvict", bench.client.evict(tunnel.at, bench.device, &[it], 0))?;
    tunnel.settle();
    tunnel.look("it is in the system's memory");
    destroy(tunnel, &bench, it, (false, true))?;
    bench.close(tunnel.at, &[context])
}

fn mapped(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let context = bench.context(tunnel.at)?;
    // What nobody ends is there for the packets of those who assume that theirs is not in use.
    let other = create(tunnel, &bench, &only_in(&[APERTURE]))?;
    bench.resident(tunnel.at, &[other])?;
    for way in WAYS {
        let it = create(tunnel, &bench, &only_in(&[APERTURE]))?;
        bench.resident(tunnel.at, &[it])?;
        work(tunnel, &bench, context, if way.0 { other } else { it })?;
        destroy(tunnel, &bench, it, way)?;
        tunnel.look("after the call");
        tunnel.settle();
    }
    bench.close(tunnel.at, &[context])
}

fn in_transfer(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let bench = tunnel.bench()?;
    let queue = bench.queue(tunnel.at)?.queue;
    for way in WAYS {
        let [comes, goes] = [(); 2].map(|()| create(tunnel, &bench, &only_in(&[LOCAL, APERTURE])));
        let (comes, goes) = (comes?, goes?);
        bench.resident(tunnel.at, &[goes])?;
        let made = bench.client.make_resident(tunnel.at, queue, &[comes], 0);
        wanted("D3DKMTMakeResident", made)?;
        destroy(tunnel, &bench, comes, way)?;
        tunnel.look("one was destroyed on its way in");
        wanted("D3DKMTEvict", bench.client.evict(tunnel.at, bench.device, &[goes], 0))?;
        destroy(tunnel, &bench, goes, way)?;
        tunnel.look("one was destroyed on its way out");
        tunnel.settle();
    }
    bench.close(tunnel.at, &[])
}
