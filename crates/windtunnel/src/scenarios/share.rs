//! Resources that several devices and processes have open.

use crate::scenario::Story::Told;
use crate::scenario::{STANDARD, Scenario, WORK};
use crate::tunnel::{Bench, Stopped, Tunnel, pages, wanted};
use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as Flags;
use thunk::{Create, Created, Destroy, Shared};

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "share",
        about: "two processes and two devices of one have a resource open; its maker ends first",
        breaks: &[],
        needs: &[],
        story: Told(maker_first),
    },
    Scenario {
        name: "share-opener-first",
        about: "the openers end before the maker, one of them killed",
        breaks: &[],
        needs: &[],
        story: Told(opener_first),
    },
    Scenario {
        name: "share-standard",
        about: "a shared standard allocation: the opener gets the data the driver supplied",
        breaks: &[],
        needs: STANDARD,
        story: Told(standard),
    },
    Scenario {
        name: "share-sync",
        about: "SynchronousDestroy of one of two views behind work returns while the other lives",
        breaks: &[],
        needs: WORK,
        story: Told(sync),
    },
];

/// A resource of two that others may open.
fn shared(bench: &Bench, tunnel: &mut Tunnel<'_>) -> Result<Created, Stopped> {
    let create = Create::on(bench.device, pages(2)).with_resource();
    let (flags, runtime) = (create.flags | Flags::CreateShared, b"of the runtime".to_vec());
    bench.make(tunnel.at, &Create { flags, runtime, ..create })
}

fn open(bench: &Bench, tunnel: &mut Tunnel<'_>, made: &Created) -> Result<Shared, Stopped> {
    let opened = bench.client.open_resource(tunnel.at, bench.device, made.global);
    let opened = wanted("D3DKMTOpenResource", opened)?;
    if (opened.allocations.len(), &*opened.runtime) != (2, &b"of the runtime"[..]) {
        return Err(Stopped("the opener to get two allocations and the runtime's data".into()));
    }
    Ok(opened)
}

fn maker_first(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (maker, opener) = (tunnel.bench()?, tunnel.bench()?);
    let second = Bench { device: opener.device(tunnel.at)?, ..opener.clone() };
    let made = shared(&maker, tunnel)?;
    let one = open(&opener, tunnel, &made)?;
    let two = open(&second, tunnel, &made)?;
    tunnel.look("three devices have it open");
    maker.close(tunnel.at, &[])?;
    second.destroy_resource(tunnel.at, two.resource)?;
    tunnel.look("one of them is left");
    opener.destroy_resource(tunnel.at, one.resource)?;
    wanted("D3DKMTDestroyDevice", opener.client.destroy_device(tunnel.at, second.device))?;
    opener.close(tunnel.at, &[])
}

fn opener_first(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (maker, opener, other) = (tunnel.bench()?, tunnel.bench()?, tunnel.bench()?);
    let made = shared(&maker, tunnel)?;
    let opened = open(&opener, tunnel, &made)?;
    open(&other, tunnel, &made)?;
    opener.destroy_resource(tunnel.at, opened.resource)?;
    opener.close(tunnel.at, &[])?;
    other.client.kill(tunnel.at);
    maker.destroy_resource(tunnel.at, made.resource)?;
    maker.close(tunnel.at, &[])
}

fn standard(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (maker, opener) = (tunnel.bench()?, tunnel.bench()?);
    let create = Create::standard(maker.device, 0x1000_0000, 0x1000).with_resource();
    let flags = create.flags | Flags::CreateShared | Flags::CrossAdapter;
    let made = maker.make(tunnel.at, &Create { flags, ..create })?;
    let opened = opener.client.open_resource(tunnel.at, opener.device, made.global);
    let opened = wanted("D3DKMTOpenResource", opened)?;
    if opened.privates.is_empty() {
        return Err(Stopped("the opener to get the driver's private data".into()));
    }
    maker.destroy_resource(tunnel.at, made.resource)?;
    opener.destroy_resource(tunnel.at, opened.resource)?;
    maker.close(tunnel.at, &[])?;
    opener.close(tunnel.at, &[])
}

fn sync(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let (maker, opener) = (tunnel.bench()?, tunnel.bench()?);
    let made = shared(&maker, tunnel)?;
    let opened = open(&opener, tunnel, &made)?;
    let (mine, other) = (maker.context(tunnel.at)?, opener.context(tunnel.at)?);
    maker.fill(tunnel.at, mine, made.allocations[0])?;
    opener.fill(tunnel.at, other, opened.allocations[1])?;
    let destroy = Destroy {
        device: maker.device,
        resource: made.resource,
        synchronous: true,
        ..Destroy::default()
    };
    maker.destroy(tunnel.at, &destroy)?;
    tunnel.look("one view is closed, the other lives");
    let destroy = Destroy { device: opener.device, resource: opened.resource, ..destroy };
    opener.destroy(tunnel.at, &destroy)?;
    maker.close(tunnel.at, &[mine])?;
    opener.close(tunnel.at, &[other])
}
