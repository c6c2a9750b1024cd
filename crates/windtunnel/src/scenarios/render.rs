//! Good clients of a driver of WDDM 1.x: packets name what they use, and it is there.

use crate::scenario::Story::Told;
use crate::scenario::{LISTED, Scenario};
use crate::tunnel::{Bench, Stopped, Tunnel, refused, wanted};
use abi::D3DKMT_HANDLE;
use abi::kmt::D3DKMT_RENDERFLAGS as Flags;
use abi::status::{
    STATUS_DEVICE_REMOVED, STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_ILLEGAL_INSTRUCTION,
    STATUS_PRIVILEGED_INSTRUCTION,
};
use abi::ukm::D3DDDICB_LOCKFLAGS as LockFlags;
use flight::Passive;
use kernel::Handle;
use kernel::segment::Wants;
use softgpu::format::{Command, anywhere, describe_in, encode, listed as in_list};
use softgpu::format::{only_in, raw_fill};
use softgpu::{APERTURE, LOCAL, VISIBLE};
use thunk::{Create, Listed, ListedContext, SyncObject};

const PAGE: u64 = 4096;
const SIZE: u64 = 24 * PAGE;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "render-and-patch",
        about: "packets with lists fill and copy, in memory and apertures, in one buffer or more",
        breaks: &[],
        needs: LISTED,
        story: Told(renders),
    },
    Scenario {
        name: "render-under-pressure",
        about: "packets use in turn more than memory holds at once",
        breaks: &[],
        needs: LISTED,
        story: Told(under_pressure),
    },
    Scenario {
        name: "render-moved",
        about: "what packets use is elsewhere when they are patched than when they were rendered",
        breaks: &[],
        needs: LISTED,
        story: Told(moved),
    },
    Scenario {
        name: "render-locked",
        about: "packets use what is locked: where it can be mapped, and where it cannot",
        breaks: &[],
        needs: LISTED,
        story: Told(locked),
    },
    Scenario {
        name: "render-refused",
        about: "commands that no client may use are refused, and the context goes on",
        breaks: &[],
        needs: LISTED,
        story: Told(not_taken),
    },
    Scenario {
        name: "render-lost",
        about: "a packet uses more than there is, its device is lost, and takes no more",
        breaks: &[],
        needs: LISTED,
        story: Told(lost),
    },
    Scenario {
        name: "renamed",
        about: "a client fills instances of an allocation in turn, and never waits for packets",
        breaks: &[],
        needs: LISTED,
        story: Told(renamed),
    },
];

/// Local memory that the CPU does not see.
fn hidden() -> Wants {
    let mut wants = only_in(&[LOCAL]);
    wants.flags.cpu_visible = false;
    wants
}

/// Where the CPU writes what the GPU reads: at most so many instances.
pub(crate) fn dynamic(instances: u32) -> Wants {
    Wants { instances, ..only_in(&[VISIBLE, APERTURE]) }
}

/// A bench with a context whose packets have lists.
pub(crate) struct Easel {
    pub(crate) bench: Bench,
    pub(crate) context: ListedContext,
}

impl Easel {
    pub(crate) fn open(tunnel: &mut Tunnel<'_>) -> Result<Self, Stopped> {
        let bench = tunnel.bench()?;
        let context = bench.client.create_listed_context(tunnel.at, bench.device, 0);
        Ok(Self { context: wanted("D3DKMTCreateContext", context)?, bench })
    }

    pub(crate) fn create(
        &self,
        at: &mut Passive,
        wants: &[Wants],
    ) -> Result<Vec<D3DKMT_HANDLE>, Stopped> {
        let list = self.create_absent(at, wants)?;
        // From WDDM 2 on nobody brings what a packet lists.
        if !self.is_brought() {
            self.bench.resident(at, &list)?;
        }
        Ok(list)
    }

    /// The same, and nobody has asked for them to be resident.
    pub(crate) fn create_absent(
        &self,
        at: &mut Passive,
        wants: &[Wants],
    ) -> Result<Vec<D3DKMT_HANDLE>, Stopped> {
        let private = wants.iter().map(|it| describe_in(SIZE, PAGE, it)).collect();
        Ok(self.bench.make(at, &Create::on(self.bench.device, private))?.allocations)
    }

    /// Whether the kernel brings what packets list: with a driver of WDDM 1.x.
    pub(crate) fn is_brought(&self) -> bool {
        let session = self.bench.client.session();
        session.kernel().brings_listed(session.process(), Handle(self.bench.device))
    }

    /// A packet that does commands, with all that they use.
    pub(crate) fn packet(commands: &[Command], list: &[D3DKMT_HANDLE]) -> Listed {
        let list = list.iter().map(|it| (*it, true)).collect();
        Listed { commands: encode(commands), list, ..Listed::default() }
    }

    fn render(
        &mut self,
        at: &mut Passive,
        commands: &[Command],
        list: &[D3DKMT_HANDLE],
    ) -> Result<(), Stopped> {
        let rendered =
            self.bench.client.render(at, &mut self.context, &Self::packet(commands, list));
        wanted("D3DKMTRender", rendered).map(drop)
    }

    /// Locks an allocation whose bytes are of no use any more, and unlocks it. Answers the handle
    /// that it has then.
    pub(crate) fn discard(
        &self,
        at: &mut Passive,
        it: D3DKMT_HANDLE,
    ) -> Result<D3DKMT_HANDLE, Stopped> {
        let Bench { client, device, .. } = &self.bench;
        let mut locked = client.lock_discard(at, *device, it, 0);
        if locked == Err(STATUS_GRAPHICS_ALLOCATION_BUSY) {
            // Everything is submitted: now it may wait.
            locked = client.lock_discard(at, *device, it, LockFlags::NoExistingReference);
        }
        let (newest, _) = wanted("D3DKMTLock with Discard", locked)?;
        wanted("D3DKMTUnlock", client.unlock(at, *device, &[newest]))?;
        Ok(newest)
    }

    pub(crate) fn close(self, at: &mut Passive) -> Result<(), Stopped> {
        self.bench.close(at, &[self.context.context])
    }
}

pub(crate) fn fill(target: D3DKMT_HANDLE, value: u8) -> Command {
    Command::Fill { target: Handle(target), offset: 16, length: 512, value }
}

/// Fills what is at a place of the packet's list.
fn fill_place(place: u32, value: u8) -> Command {
    Command::Fill { target: in_list(place), offset: 16, length: 512, value }
}

fn copy(from: D3DKMT_HANDLE, to: D3DKMT_HANDLE) -> Command {
    let (from, to) = (Handle(from), Handle(to));
    Command::Copy { from, from_offset: 16, to, to_offset: 2 * PAGE, length: PAGE }
}

fn renders(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let mut easel = Easel::open(tunnel)?;
    let wants = [hidden(), only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE]), anywhere()];
    let list = easel.create(tunnel.at, &wants)?;
    for (value, it) in (1..).zip(&list) {
        easel.render(tunnel.at, &[fill(*it, value), copy(list[0], *it)], &[list[0], *it])?;
    }
    tunnel.settle();
    // A list that names one thing twice.
    let some: Vec<Command> = (0..30).map(|it| fill(list[1], it)).collect();
    easel.render(tunnel.at, &some, &[list[1], list[1]])?;
    tunnel.settle();
    // Larger buffers, of which a part is granted; and commands that begin behind something else.
    let flags = Flags::ResizeCommandBuffer | Flags::ResizeAllocationList;
    let more = Listed {
        flags: flags | Flags::ResizePatchLocationList,
        resize: (1 << 20, 1 << 10, 1 << 10),
        ..Easel::packet(&[fill(list[2], 9)], &[list[2]])
    };
    let rendered = easel.bench.client.render(tunnel.at, &mut easel.context, &more);
    wanted("D3DKMTRender with larger buffers", rendered)?;
    // More commands than the driver's buffer takes.
    let many: Vec<Command> = (0..60).map(|it| fill(list[1], it)).collect();
    easel.render(tunnel.at, &many, &[list[1]])?;
    let later = Listed {
        offset: 64,
        patches: vec![(0, 8), (1, 8)],
        ..Easel::packet(&[copy(list[2], list[3])], &[list[2], list[3]])
    };
    let rendered = easel.bench.client.render(tunnel.at, &mut easel.context, &later);
    wanted("D3DKMTRender with an offset", rendered)?;
    let null = Listed { flags: Flags::NullRendering, ..Easel::packet(&some, &[list[1]]) };
    let rendered = easel.bench.client.render(tunnel.at, &mut easel.context, &null);
    wanted("D3DKMTRender of nothing", rendered)?;
    tunnel.settle();
    easel.bench.destroy_list(tunnel.at, &list)?;
    easel.close(tunnel.at)
}

fn under_pressure(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let mut easel = Easel::open(tunnel)?;
    let second = easel.bench.client.create_listed_context(tunnel.at, easel.bench.device, 1);
    let mut second = wanted("D3DKMTCreateContext for node 1", second)?;
    let list = easel.create(tunnel.at, &[hidden(); 6])?;
    for turn in 0..12 {
        let (one, two) = (list[turn % 6], list[(turn * 5 + 1) % 6]);
        let value = u8::try_from(turn).unwrap_or(0);
        let commands = [fill(one, value), copy(one, two)];
        easel.render(tunnel.at, &commands, &[one, two])?;
        let other = list[(turn + 3) % 6];
        let packet = Easel::packet(&[fill(other, !value)], &[other]);
        let rendered = easel.bench.client.render(tunnel.at, &mut second, &packet);
        wanted("D3DKMTRender on node 1", rendered)?;
    }
    tunnel.settle();
    // What is in flight holds its own: it is destroyed when that is done.
    easel.render(tunnel.at, &[copy(list[0], list[1])], &[list[0], list[1]])?;
    easel.render(tunnel.at, &[copy(list[2], list[3])], &[list[2], list[3]])?;
    easel.bench.destroy_list(tunnel.at, &list)?;
    let ended = easel.bench.client.destroy_context(tunnel.at, second.context);
    wanted("D3DKMTDestroyContext", ended)?;
    easel.close(tunnel.at)
}

fn moved(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let mut easel = Easel::open(tunnel)?;
    let list = easel.create(tunnel.at, &[hidden(), hidden(), anywhere()])?;
    for turn in 0..12 {
        let (one, two) = (list[0], list[1 + turn % 2]);
        let value = u8::try_from(turn).unwrap_or(0);
        easel.render(tunnel.at, &[fill(one, value), copy(one, two)], &[one, two])?;
        if turn % 2 == 0 {
            tunnel.settle();
        }
        if turn % 4 == 3 {
            tunnel.settle();
            tunnel.compact();
        }
    }
    tunnel.settle();
    easel.bench.destroy_list(tunnel.at, &list)?;
    easel.close(tunnel.at)
}

fn locked(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let mut easel = Easel::open(tunnel)?;
    let list = easel.create(tunnel.at, &[only_in(&[VISIBLE, APERTURE]), only_in(&[VISIBLE])])?;
    let [mapped, away] = list[..] else { return Ok(()) };
    let (client, device) = (easel.bench.client.clone(), easel.bench.device);
    for it in &list {
        let taken = client.lock(tunnel.at, device, *it, LockFlags::LockEntire, &[]);
        wanted("D3DKMTLock", taken)?;
    }
    easel.render(tunnel.at, &[fill(mapped, 3)], &[mapped])?;
    let packet = Easel::packet(&[fill(away, 3)], &[away]);
    let rendered = client.render(tunnel.at, &mut easel.context, &packet);
    refused("D3DKMTRender of what is locked", &rendered, STATUS_GRAPHICS_ALLOCATION_BUSY)?;
    tunnel.settle();
    wanted("D3DKMTUnlock", client.unlock(tunnel.at, device, &list))?;
    easel.render(tunnel.at, &[fill(away, 3)], &[away])?;
    tunnel.settle();
    easel.bench.destroy_list(tunnel.at, &list)?;
    easel.close(tunnel.at)
}

fn not_taken(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let mut easel = Easel::open(tunnel)?;
    let other = tunnel.bench()?;
    let list = easel.create(tunnel.at, &[hidden()])?;
    easel.render(tunnel.at, &[fill(list[0], 1)], &list)?;
    tunnel.settle();
    let (session, client) = (easel.bench.client.session().clone(), easel.bench.client.clone());
    let address = tunnel.kernel.address_of(session.process(), Handle(list[0]));
    // At an address that is another's: of what this packet does not list.
    let commands = raw_fill(address.unwrap_or(0), 64, 0xee);
    let raw = Listed { commands, ..Listed::default() };
    let rendered = client.render(tunnel.at, &mut easel.context, &raw);
    refused("D3DKMTRender of privileged commands", &rendered, STATUS_PRIVILEGED_INSTRUCTION)?;
    let unknown = [1_u32, 99].into_iter().flat_map(u32::to_le_bytes).collect();
    let unknown = Listed { commands: unknown, ..Listed::default() };
    let rendered = client.render(tunnel.at, &mut easel.context, &unknown);
    refused("D3DKMTRender of unknown commands", &rendered, STATUS_ILLEGAL_INSTRUCTION)?;
    easel.render(tunnel.at, &[fill(list[0], 2)], &list)?;
    tunnel.settle();
    easel.bench.destroy_list(tunnel.at, &list)?;
    other.close(tunnel.at, &[])?;
    easel.close(tunnel.at)
}

fn lost(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let mut easel = Easel::open(tunnel)?;
    if !easel.is_brought() {
        // From WDDM 2 on a client could not list more than there is.
        return easel.close(tunnel.at);
    }
    let list = easel.create(tunnel.at, &[hidden(); 6])?;
    easel.render(tunnel.at, &[fill(list[0], 1)], &list[..1])?;
    let client = easel.bench.client.clone();
    let packet = Easel::packet(&[fill(list[0], 2)], &list);
    // It is taken, or it is known at once that it cannot be done.
    let _ = client.render(tunnel.at, &mut easel.context, &packet);
    tunnel.settle();
    let packet = Easel::packet(&[fill(list[0], 3)], &list[..1]);
    let rendered = client.render(tunnel.at, &mut easel.context, &packet);
    refused("D3DKMTRender on a lost device", &rendered, STATUS_DEVICE_REMOVED)?;
    easel.bench.destroy_list(tunnel.at, &list)?;
    easel.close(tunnel.at)
}

fn renamed(tunnel: &mut Tunnel<'_>) -> Result<(), Stopped> {
    let mut easel = Easel::open(tunnel)?;
    let mut pinned = only_in(&[VISIBLE]);
    pinned.flags.pinned = true;
    let list = easel.create(tunnel.at, &[dynamic(3), pinned, anywhere()])?;
    let [first, pinned, target] = list[..] else { return Ok(()) };
    let (mut newest, mut names) = (first, vec![first]);
    let client = easel.bench.client.clone();
    // The GPU stands still until three packets are there.
    let fence = client.create_sync(tunnel.at, easel.bench.device, SyncObject::Monitored(0), 0);
    let fence = wanted("D3DKMTCreateSynchronizationObject2", fence)?.object;
    let waits = client.wait_gpu(tunnel.at, easel.context.context, &[(fence, 1)]);
    wanted("D3DKMTWaitForSynchronizationObjectFromGpu", waits)?;
    for turn in 0..8 {
        if turn == 3 || !easel.is_brought() {
            let goes = client.signal_cpu(tunnel.at, easel.bench.device, &[(fence, 1)], 0);
            wanted("D3DKMTSignalSynchronizationObjectFromCpu", goes)?;
        }
        newest = easel.discard(tunnel.at, newest)?;
        names.push(newest);
        // Its driver knows it by the name it was opened with, whichever instance is listed.
        easel.render(tunnel.at, &[copy(first, target)], &[newest, target])?;
        if turn % 3 == 2 {
            tunnel.settle();
        }
    }
    // One packet with two instances: what it does with the older one comes first.
    let older = newest;
    newest = easel.discard(tunnel.at, older)?;
    let both = Listed {
        patches: vec![(0, 8), (1, 8)],
        ..Easel::packet(&[fill_place(0, 1), fill_place(1, 2)], &[older, newest, target])
    };
    let rendered = easel.bench.client.render(tunnel.at, &mut easel.context, &both);
    wanted("D3DKMTRender with two instances", rendered)?;
    names.push(newest);
    names.sort_unstable();
    names.dedup();
    // From WDDM 2 on nothing is renamed, and what is pinned never is.
    let expected = if easel.is_brought() { 3 } else { 1 };
    if names.len() != expected || easel.discard(tunnel.at, pinned)? != pinned {
        return Err(Stopped(format!("{} instances, but {expected} were due", names.len())));
    }
    easel.bench.destroy_list(tunnel.at, &[newest, pinned, target])?;
    wanted("D3DKMTDestroySynchronizationObject", client.destroy_sync(tunnel.at, fence))?;
    easel.close(tunnel.at)
}
