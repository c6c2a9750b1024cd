//! Resources by the ten thousand through a user-mode driver: two threads make, share, draw, lock
//! and drop them in an order drawn from a seed, and a model in plain Rust knows every byte.
//!
//! Whatever is looked at is right; nobody breaks a rule; and at the end nothing is alive: neither
//! in the kernel, nor in the machine's memory, nor in the runtime's books, nor in the driver.
#![forbid(unsafe_code)]

use abi::D3DKMT_HANDLE;
use abi::hresult::D3DDDIERR_WASSTILLDRAWING;
use flight::{Crew, Log, Passive, Woken, draw};
use kernel::{Kernel, Plugged};
use runtime::{LockOrder, Rect, Resource, Runtime, Surface, Surfaces};
use softgpu::{MemoryPlan, MmuPlan, SoftGpu};
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stories::{Picture, Watch};
use thunk::Client;
use verify::Severity;
use windtunnel::{Application, On};

/// Of what one of them does: what is wrong, in words.
type Tried<T> = Result<T, String>;

/// The longest side of a surface, and the most surfaces of a group.
const SIDE: u64 = 40;
const MOST: u64 = 4;

/// How many resources one has at most.
const HELD: usize = 20;

/// How many turns there are from one look at the log to the next.
const SLICE: u32 = 64;

/// What is alive in the driver is counted for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// The machine that a driver is flown on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gpu {
    /// Packets have lists, and memory is little.
    Listed,
    /// Packets have addresses.
    Virtual,
    /// Packets have neither.
    Memory,
}

/// Who the two threads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    TwoDevices,
    TwoProcesses,
}

fn held<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a call answers that has to succeed.
fn good<T>(call: &str, answer: Result<T, impl Debug>) -> Tried<T> {
    answer.map_err(|why| format!("{call} answered {why:x?}"))
}

/// Where a resource is, and whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Own,
    System,
    Shared,
    /// Another made it.
    Opened,
}

/// A resource, as it must be.
struct Thing {
    resource: Resource,
    kind: Kind,
    pictures: Vec<Picture>,
    /// Who else has it: from there on it is not touched here, but dropped.
    gift: Option<Arc<Gift>>,
}

/// A shared resource on its way.
struct Gift {
    global: D3DKMT_HANDLE,
    surfaces: Vec<Surface>,
    bytes: Mutex<Vec<Vec<Option<u8>>>>,
    state: AtomicUsize,
}

const OFFERED: usize = 0;
const CLAIMED: usize = 1;
const OPENED: usize = 2;
const RETURNED: usize = 3;
const WITHDRAWN: usize = 4;

impl Gift {
    fn moves(&self, from: usize, to: usize) -> bool {
        self.state.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }
}

/// How often things were done, over both.
#[derive(Default, Debug)]
struct Counts {
    made: AtomicUsize,
    opened: AtomicUsize,
    looks: AtomicUsize,
    busy: AtomicUsize,
    devices: AtomicUsize,
}

/// What the two have in common.
struct Table {
    offered: [Mutex<Vec<Arc<Gift>>>; 2],
    watch: Watch,
    counts: Counts,
}

/// One of the two, with its device.
struct Artist {
    app: Application,
    table: Arc<Table>,
    me: usize,
    random: u64,
    things: Vec<Thing>,
    /// Whether surfaces are locked without waiting while packets use other lines of them. Not
    /// where packets have lists: a lock with `IgnoreSync` of what is in memory that the CPU does
    /// not see has the kernel move it, under the packets.
    under_packets: bool,
}

impl Artist {
    fn draw(&mut self, bound: u64) -> u64 {
        draw(&mut self.random, bound)
    }

    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.draw(count as u64)).unwrap_or(0)
    }

    fn side(&mut self, most: u64) -> u32 {
        u32::try_from(1 + self.draw(most)).unwrap_or(1)
    }

    fn byte(&mut self) -> u8 {
        self.draw(256).to_le_bytes()[0]
    }

    /// Makes so many resources, and does something with them all the time.
    fn live(&mut self, at: &mut Passive, lives: usize) -> Tried<()> {
        let (mut turns, mut made) = (0, 0);
        while made < lives {
            turns += 1;
            if turns % SLICE == 0 {
                self.table.watch.look();
            }
            made += self.turn(at)?;
            // A device goes, with what it has, and another comes.
            if self.draw(2000) == 0 && self.nobody_opens() {
                self.change_device(at)?;
            }
        }
        // Half of it is dropped, the rest goes with the device.
        while self.things.len() > HELD / 2 {
            self.drop_one(at)?;
        }
        while !self.nobody_opens() {
            self.breathe(at)?;
        }
        Ok(())
    }

    fn turn(&mut self, at: &mut Passive) -> Tried<usize> {
        if self.things.len() >= HELD {
            self.drop_one(at)?;
        }
        match self.draw(32) {
            0..7 => return self.make(at).map(|()| 1),
            7 => return self.receive(at),
            8..11 => self.drop_one(at)?,
            11..16 => self.fill(at)?,
            16..21 => self.copy(at)?,
            21 | 22 => self.look_at_one(at)?,
            23..26 => self.write(at)?,
            26 => self.lock_or_unlock(at)?,
            27 => self.write_beside(at)?,
            28 => self.give(at)?,
            29 => self.give_back(at)?,
            30 => self.worth(at)?,
            _ => good("Flush", self.app.device.flush(at))?,
        }
        Ok(0)
    }

    fn change_device(&mut self, at: &mut Passive) -> Tried<()> {
        let next = good("CreateDevice", self.app.another(at))?;
        let old = std::mem::replace(&mut self.app, next);
        self.things.clear();
        good("DestroyDevice", old.end_device(at))?;
        self.table.counts.devices.fetch_add(1, SeqCst);
        match old.device.owed() {
            0 => Ok(()),
            left => Err(format!("the runtime's books have {left} entries of a device that went")),
        }
    }

    /// Whether nobody is about to open what may be dropped here.
    fn nobody_opens(&mut self) -> bool {
        for it in &self.things {
            self.withdraw(it);
        }
        let opening = |it: &Arc<Gift>| it.state.load(SeqCst) == CLAIMED;
        !self.things.iter().filter_map(|it| it.gift.as_ref()).any(opening)
    }

    /// Takes back what nobody has claimed.
    fn withdraw(&self, it: &Thing) {
        let Some(gift) = &it.gift else { return };
        gift.moves(OFFERED, WITHDRAWN);
        held(&self.table.offered[self.me]).retain(|it| it.state.load(SeqCst) == OFFERED);
    }

    fn breathe(&self, at: &mut Passive) -> Tried<()> {
        good("Flush", self.app.device.flush(at))
    }

    fn make(&mut self, at: &mut Passive) -> Tried<()> {
        let count = if self.draw(2) == 0 { 1 } else { 1 + self.draw(MOST) };
        let (width, height) = (self.side(SIDE), self.side(SIDE));
        let kind = match self.draw(16) {
            0 => Kind::System,
            1..4 => Kind::Shared,
            _ => Kind::Own,
        };
        let mut wanted = Surfaces::group(0, 0, 0);
        for nr in 0..count {
            // Half of the groups get smaller from surface to surface.
            let less = if width % 2 == 0 { u32::try_from(nr).unwrap_or(0) } else { 0 };
            let side = |it: u32| (it >> less).max(1);
            wanted.list.push(Surface { width: side(width), height: side(height) });
        }
        let first = match kind {
            Kind::System => Some(0),
            _ => None,
        };
        let pictures = wanted.list.iter().map(|it| Picture::new(*it, first)).collect();
        let wanted = match kind {
            Kind::System => wanted.in_system_memory(),
            Kind::Shared => wanted.shared(),
            _ => wanted,
        };
        let resource = good("CreateResource", self.app.device.create_resource(at, &wanted))?;
        self.table.counts.made.fetch_add(1, SeqCst);
        self.things.push(Thing { resource, kind, pictures, gift: None });
        // Mostly it is drawn at once; else it holds anything.
        let new = self.things.len() - 1;
        for index in 0..wanted.list.len() {
            if self.draw(4) > 0 {
                self.fill_area(at, (new, index), Rect::of(wanted.list[index]))?;
            }
        }
        Ok(())
    }

    fn drop_one(&mut self, at: &mut Passive) -> Tried<()> {
        if self.things.is_empty() {
            return Ok(());
        }
        let which = self.index(self.things.len());
        self.withdraw(&self.things[which]);
        let opens = |it: &Arc<Gift>| it.state.load(SeqCst) == CLAIMED;
        if self.things[which].gift.as_ref().is_some_and(opens) {
            return Ok(());
        }
        if self.draw(4) == 0 {
            self.look_at(at, which)?;
        }
        let it = self.things.swap_remove(which);
        good("DestroyResource", self.app.device.destroy_resource(at, it.resource))
    }

    /// A surface that is not locked, and that nobody else may write.
    fn any(&mut self) -> Option<(usize, usize)> {
        if self.things.is_empty() {
            return None;
        }
        let which = self.index(self.things.len());
        let index = self.index(self.things[which].pictures.len());
        let it = &self.things[which];
        (it.gift.is_none() && it.pictures[index].locks == 0).then_some((which, index))
    }

    fn place(&self, (which, index): (usize, usize)) -> (Resource, u32) {
        (self.things[which].resource, u32::try_from(index).unwrap_or(u32::MAX))
    }

    fn picture(&mut self, (which, index): (usize, usize)) -> &mut Picture {
        &mut self.things[which].pictures[index]
    }

    /// A part of so much.
    fn part(&mut self, width: u32, height: u32, within: Surface) -> Rect {
        let left = self.side((within.width - width + 1).into()) - 1;
        let top = self.side((within.height - height + 1).into()) - 1;
        Rect { left, top, right: left + width, bottom: top + height }
    }

    fn fill(&mut self, at: &mut Passive) -> Tried<()> {
        let Some(place) = self.any() else { return Ok(()) };
        let surface = self.picture(place).surface;
        let (width, height) = (self.side(surface.width.into()), self.side(surface.height.into()));
        let area = match self.draw(2) {
            0 => Rect::of(surface),
            _ => self.part(width, height, surface),
        };
        self.fill_area(at, place, area)
    }

    fn fill_area(&mut self, at: &mut Passive, place: (usize, usize), area: Rect) -> Tried<()> {
        let value = self.byte();
        let color = u32::from_ne_bytes([value; 4]);
        good("ColorFill", self.app.device.color_fill(at, self.place(place), area, color))?;
        let picture = self.picture(place);
        for it in picture.lines(area) {
            picture.bytes[it].fill(Some(value));
        }
        picture.use_lines(area);
        picture.note("fill", area);
        Ok(())
    }

    fn copy(&mut self, at: &mut Passive) -> Tried<()> {
        let (Some(from), Some(to)) = (self.any(), self.any()) else { return Ok(()) };
        // The CPU copies to and from the application's memory, and locks what only its maker may.
        let kinds = [from, to].map(|it| self.things[it.0].kind);
        if kinds.contains(&Kind::System) && kinds.contains(&Kind::Opened) {
            return Ok(());
        }
        let [one, two] = [from, to].map(|it| self.picture(it).surface);
        let width = self.side(one.width.min(two.width).into());
        let height = self.side(one.height.min(two.height).into());
        let (from_area, to_area) = (self.part(width, height, one), self.part(width, height, two));
        self.copy_area(at, (from, from_area), (to, to_area))
    }

    fn copy_area(
        &mut self,
        at: &mut Passive,
        (from, from_area): ((usize, usize), Rect),
        (to, to_area): ((usize, usize), Rect),
    ) -> Tried<()> {
        let (source, target) = (self.place(from), self.place(to));
        let copied =
            self.app.device.blt(at, (source.0, source.1, from_area), (target.0, target.1, to_area));
        good("Blt", copied)?;
        let source = self.picture(from);
        let lines: Vec<Vec<Option<u8>>> =
            source.lines(from_area).into_iter().map(|it| source.bytes[it].to_vec()).collect();
        source.use_lines(from_area);
        source.note("copy from", from_area);
        let target = self.picture(to);
        for (it, line) in target.lines(to_area).into_iter().zip(lines) {
            target.bytes[it].copy_from_slice(&line);
        }
        target.use_lines(to_area);
        target.note("copy to", to_area);
        Ok(())
    }

    fn look_at_one(&mut self, at: &mut Passive) -> Tried<()> {
        match self.any() {
            Some((which, _)) => self.look_at(at, which),
            None => Ok(()),
        }
    }

    /// Compares every byte of a resource.
    fn look_at(&mut self, at: &mut Passive, which: usize) -> Tried<()> {
        if self.things[which].gift.is_some() {
            return Ok(());
        }
        let opened = self.things[which].kind == Kind::Opened;
        for index in 0..self.things[which].pictures.len() {
            self.table.counts.looks.fetch_add(1, SeqCst);
            let place = (which, index);
            if opened {
                // Only who made it may lock it: another looks at a copy.
                self.look_at_copy(at, place)?;
                continue;
            }
            let order = LockOrder { read_only: true, ..LockOrder::default() };
            let at_place = self.place(place);
            let mapped = good("Lock", self.app.device.lock(at, at_place, order))?;
            let found = mapped.read();
            good("Unlock", self.app.device.unlock(at, at_place))?;
            let kind = self.things[which].kind;
            let picture = self.picture(place);
            picture.compare(&found, &format!("{kind:?}"))?;
            picture.idle();
        }
        Ok(())
    }

    fn look_at_copy(&mut self, at: &mut Passive, place: (usize, usize)) -> Tried<()> {
        let surface = self.picture(place).surface;
        let wanted = Surfaces::texture(surface.width, surface.height);
        let resource = good("CreateResource", self.app.device.create_resource(at, &wanted))?;
        self.table.counts.made.fetch_add(1, SeqCst);
        let pictures = vec![Picture::new(surface, None)];
        self.things.push(Thing { resource, kind: Kind::Own, pictures, gift: None });
        let (new, whole) = (self.things.len() - 1, Rect::of(surface));
        self.copy_area(at, (place, whole), ((new, 0), whole))?;
        self.look_at(at, new)?;
        // All that was asked for before is done, too: packets of a device are in order.
        self.picture(place).idle();
        let copy = self.things.pop().map(|it| it.resource);
        copy.map_or(Ok(()), |it| good("DestroyResource", self.app.device.destroy_resource(at, it)))
    }

    fn noise(&mut self, length: usize) -> Vec<u8> {
        let mut state = self.draw(u64::MAX);
        (0..length).map(|_| draw(&mut state, 256).to_le_bytes()[0]).collect()
    }

    /// Writes with the CPU, in one of the ways that there are.
    fn write(&mut self, at: &mut Passive) -> Tried<()> {
        let Some(place) = self.any() else { return Ok(()) };
        if self.things[place.0].kind == Kind::Opened {
            return Ok(());
        }
        let way = self.draw(5);
        let order = LockOrder {
            discard: way == 0 || way == 4,
            no_overwrite: way == 1,
            do_not_wait: way == 2 || way == 4,
            read_only: false,
        };
        if order.no_overwrite && !self.under_packets && self.picture(place).used.contains(&true) {
            return Ok(());
        }
        let at_place = self.place(place);
        let mapped = match self.app.device.lock(at, at_place, order) {
            Err(D3DDDIERR_WASSTILLDRAWING) if order.do_not_wait => {
                self.table.counts.busy.fetch_add(1, SeqCst);
                return Ok(());
            }
            mapped => good(&format!("Lock of {order:?}"), mapped)?,
        };
        let waited = !order.discard && !order.no_overwrite;
        let found = if waited { mapped.read() } else { Vec::new() };
        let (line, bytes) = (self.picture(place).line(), self.picture(place).bytes.len());
        // Who says that nothing is overwritten keeps to lines that no packet may use.
        let lines = self.picture(place).used.iter().take_while(|it| !**it).count();
        let length = match order {
            LockOrder { no_overwrite: true, .. } => lines * line,
            LockOrder { discard: true, .. } => bytes,
            _ => line * self.index(bytes / line + 1),
        };
        let noise = self.noise(length);
        mapped.write(&noise);
        good("Unlock", self.app.device.unlock(at, at_place))?;
        let picture = self.picture(place);
        if waited {
            picture.compare(&found, &format!("{order:?}"))?;
        }
        if !order.no_overwrite {
            picture.idle();
        }
        picture.set(&noise);
        let bottom = u32::try_from(length / line).unwrap_or(0);
        let area = Rect { bottom, ..Rect::of(picture.surface) };
        let ways = ["discard", "no overwrite", "do not wait", "write", "discard or do not wait"];
        picture.note(ways[usize::try_from(way).unwrap_or(0)], area);
        Ok(())
    }

    /// Writes in the middle of what others draw: other memory, which is taken over then.
    fn write_beside(&mut self, at: &mut Passive) -> Tried<()> {
        let Some(place) = self.any() else { return Ok(()) };
        if !matches!(self.things[place.0].kind, Kind::Own | Kind::System) {
            return Ok(());
        }
        let at_place = self.place(place);
        let mapped = match self.app.device.lock_async(at, at_place, true) {
            Err(D3DDDIERR_WASSTILLDRAWING) => {
                self.table.counts.busy.fetch_add(1, SeqCst);
                return Ok(());
            }
            mapped => good("LockAsync", mapped)?,
        };
        let length = self.picture(place).bytes.len();
        let noise = self.noise(length);
        mapped.write(&noise);
        good("UnlockAsync", self.app.device.unlock_async(at, at_place))?;
        good("Rename", self.app.device.rename(at, at_place, &mapped))?;
        let picture = self.picture(place);
        picture.set(&noise);
        picture.note("write beside", Rect::of(picture.surface));
        picture.idle();
        Ok(())
    }

    /// Locks a surface and keeps it so, or ends such locks; a few are dropped as they are.
    fn lock_or_unlock(&mut self, at: &mut Passive) -> Tried<()> {
        let locked = |it: &Thing| it.pictures.iter().position(|it| it.locks > 0);
        let found = self.things.iter().enumerate().find_map(|(nr, it)| Some((nr, locked(it)?)));
        if let Some(place) = found {
            let at_place = self.place(place);
            for _ in 0..self.picture(place).locks {
                good("Unlock", self.app.device.unlock(at, at_place))?;
            }
            self.picture(place).locks = 0;
            return Ok(());
        }
        let Some(place) = self.any() else { return Ok(()) };
        if matches!(self.things[place.0].kind, Kind::Opened | Kind::Shared) {
            return Ok(());
        }
        let at_place = self.place(place);
        for _ in 0..=self.draw(2) {
            let mapped = self.app.device.lock(at, at_place, LockOrder::default());
            let found = good("Lock", mapped)?.read();
            let picture = self.picture(place);
            picture.compare(&found, "a lock that is kept")?;
            picture.idle();
            picture.locks += 1;
        }
        Ok(())
    }

    /// Offers a shared resource to the other.
    fn give(&mut self, at: &mut Passive) -> Tried<()> {
        let shared = |it: &Thing| it.kind == Kind::Shared && it.gift.as_ref().is_none_or(returned);
        let Some(which) = self.things.iter().position(shared) else { return Ok(()) };
        // It has come back, with what the other drew.
        if let Some(gift) = self.things[which].gift.take() {
            let bytes = held(&gift.bytes).clone();
            for (picture, bytes) in self.things[which].pictures.iter_mut().zip(bytes) {
                picture.bytes = bytes;
                picture.idle();
            }
        }
        self.look_at(at, which)?;
        if self.draw(2) == 0 {
            return Ok(());
        }
        let it = &mut self.things[which];
        let global = good("a shared handle", self.app.device.share(it.resource))?;
        let bytes = it.pictures.iter().map(|it| it.bytes.clone()).collect();
        let gift = Arc::new(Gift {
            global,
            surfaces: it.pictures.iter().map(|it| it.surface).collect(),
            bytes: Mutex::new(bytes),
            state: AtomicUsize::new(OFFERED),
        });
        it.gift = Some(gift.clone());
        held(&self.table.offered[self.me]).push(gift);
        Ok(())
    }

    /// Opens what the other offers.
    fn receive(&mut self, at: &mut Passive) -> Tried<usize> {
        let offered = held(&self.table.offered[1 - self.me]).pop();
        let Some(gift) = offered.filter(|it| it.moves(OFFERED, CLAIMED)) else { return Ok(0) };
        let opened = self.app.device.open_resource(at, gift.global);
        gift.moves(CLAIMED, OPENED);
        let resource = good("OpenResource", opened)?;
        self.table.counts.opened.fetch_add(1, SeqCst);
        let bytes = held(&gift.bytes).clone();
        let picture = |(it, bytes): (&Surface, Vec<Option<u8>>)| {
            let mut picture = Picture::new(*it, None);
            picture.bytes = bytes;
            picture
        };
        let pictures = gift.surfaces.iter().zip(bytes).map(picture).collect();
        self.things.push(Thing { resource, kind: Kind::Opened, pictures, gift: None });
        let new = self.things.len() - 1;
        self.look_at(at, new)?;
        // Some are drawn at once and go back; others are kept, and are nobody else's any more.
        if self.draw(2) == 0 {
            self.fill_area(at, (new, 0), Rect::of(gift.surfaces[0]))?;
            self.look_at(at, new)?;
            let Some(it) = self.things.pop() else { return Ok(1) };
            *held(&gift.bytes) = it.pictures.into_iter().map(|it| it.bytes).collect();
            gift.moves(OPENED, RETURNED);
            good("DestroyResource", self.app.device.destroy_resource(at, it.resource))?;
        }
        Ok(1)
    }

    /// Drops an opened resource that is in use.
    fn give_back(&mut self, at: &mut Passive) -> Tried<()> {
        let opened = self.things.iter().position(|it| it.kind == Kind::Opened);
        let Some(which) = opened else { return Ok(()) };
        let surface = self.things[which].pictures[0].surface;
        self.fill_area(at, (which, 0), Rect::of(surface))?;
        let it = self.things.swap_remove(which);
        good("DestroyResource", self.app.device.destroy_resource(at, it.resource))
    }

    fn worth(&mut self, at: &mut Passive) -> Tried<()> {
        let Some((which, _)) = self.any() else { return Ok(()) };
        let resource = self.things[which].resource;
        let priority = 0x2800_0000 * (1 + u32::from(self.byte()) % 5);
        good("SetPriority", self.app.device.set_priority(at, resource, priority))?;
        good("QueryResourceResidency", self.app.device.residency(at, &[resource]))?;
        Ok(())
    }
}

fn returned(gift: &Arc<Gift>) -> bool {
    gift.state.load(SeqCst) == RETURNED
}

/// Two threads, so many lives each.
struct Story {
    on: On,
    gpu: Gpu,
    whose: Whose,
    lives: usize,
    seed: u64,
}

impl Gpu {
    fn plug(self, ram: &Arc<nt::Ram>, log: &Arc<Log>) -> Plugged {
        let (plan, little) = (MemoryPlan::default(), 1 << 20);
        let (miniport, machine) = match self {
            Gpu::Listed => SoftGpu::with_lists(
                ram.clone(),
                MemoryPlan { visible: little, local: 64 << 12, aperture: little, ..plan },
            ),
            Gpu::Virtual => {
                let mmu = Some(MmuPlan::default());
                let plan = MemoryPlan { visible: 4 << 20, local: 4 << 20, mmu, ..plan };
                SoftGpu::with_memory(ram.clone(), plan)
            }
            Gpu::Memory => SoftGpu::with_memory(
                ram.clone(),
                MemoryPlan { visible: 4 << 20, local: 4 << 20, ..plan },
            ),
        };
        machine.scribble(0xdddd_dddd);
        Plugged { miniport, machine, pool: nt::Pool::new(log.clone()) }
    }

    fn umd(self) -> runtime::Umd {
        let name = match self {
            Gpu::Listed => "softgpu-listed",
            Gpu::Virtual => "softgpu-virtual",
            Gpu::Memory => "softgpu-memory",
        };
        let umd = drivers::find(name).and_then(|it| it.umd);
        umd.unwrap_or_else(|| panic!("{name} has no user-mode driver"))()
    }
}

impl Story {
    fn tell(&self) {
        let _alone = held(&ALONE);
        let told = self.attempt();
        if let Err(why) = told {
            panic!("{:?}, {:?}, {:?}, seed {}: {why}", self.on, self.gpu, self.whose, self.seed);
        }
    }

    fn attempt(&self) -> Tried<()> {
        let started = std::time::Instant::now();
        let ram = good("memory for a machine", nt::Ram::new(256 << 20))?;
        let log = Arc::new(Log::new());
        let plugged = self.gpu.plug(&ram, &log);
        let (before, _gpu) = (ram.taken(), plugged.machine.clone());
        let table = Arc::new(Table {
            offered: Default::default(),
            watch: Watch::of(&log),
            counts: Counts::default(),
        });
        let flown = self.on.fly(&log, |host, at| self.fly(host, at, (&log, plugged), &table));
        good("the flight", flown.map_err(|why| why.0))??;
        table.watch.look();
        let seen = table.watch.seen();
        let loud = seen.verifier.findings().iter().filter(|it| it.severity > Severity::Note);
        let loud: Vec<_> = loud.map(|it| (it.rule.name(), it.who, &*it.message)).collect();
        if !loud.is_empty() {
            return Err(format!("findings: {loud:#?}"));
        }
        windtunnel::keep_tally(seen.verifier.tally());
        windtunnel::keep_tally(&log.judged());
        if let Some(left) = seen.alive.iter().find(|it| *it.1 != 0) {
            return Err(format!("came and did not go: {left:?}"));
        }
        if ram.taken() != before {
            return Err(format!("{} bytes of the machine's memory are left", ram.taken() - before));
        }
        if umd::live() != 0 {
            return Err(format!("the driver has {} objects", umd::live()));
        }
        println!(
            "{:?} {:?} {:?}: {:?}, {} events, {:?}",
            self.on,
            self.gpu,
            self.whose,
            table.counts,
            seen.events,
            started.elapsed()
        );
        Ok(())
    }

    fn fly(
        &self,
        host: &Arc<dyn Crew>,
        at: &mut Passive,
        (log, plugged): (&Arc<Log>, Plugged),
        table: &Arc<Table>,
    ) -> Tried<()> {
        let kernel = Kernel::new(host.clone(), log.clone());
        if let On::Pressed(seed) = self.on {
            kernel.press(seed);
        }
        let (worker, bell) = (kernel.clone(), kernel.bell());
        host.serve("system", bell, move |at| worker.work(at));
        let adapter = kernel.add_adapter(at, plugged).map_err(|why| format!("{why:?}"))?;
        kernel.attend(host, adapter);
        let (runtime, umd) = (Runtime::new(&kernel), self.gpu.umd());
        let open = |at: &mut Passive| {
            let app = Application::open(&runtime, &Client::new(&kernel), &umd, at);
            app.map_err(|why| why.0)
        };
        let first = open(at)?;
        let second = match self.whose {
            Whose::TwoDevices => good("CreateDevice", first.another(at))?,
            Whose::TwoProcesses => open(at)?,
        };
        let wrong = Arc::new(Mutex::new(Vec::new()));
        let work = |me: usize, app: &Application| {
            let (app, wrong, table) = (app.clone(), wrong.clone(), table.clone());
            let (lives, random) = (self.lives, self.seed * 2 + me as u64);
            let closes = self.whose == Whose::TwoProcesses;
            let under_packets = true;
            host.spawn(&format!("client {}", me + 1), move |at| {
                let mut artist =
                    Artist { app, table, me, random, things: Vec::new(), under_packets };
                let mut told = artist.live(at, lives);
                let app = &artist.app;
                if told.is_ok() {
                    let ended = if closes { app.close(at) } else { app.end_device(at) };
                    told = ended.map_err(|why| why.0);
                }
                if told.is_ok() && app.device.owed() > 0 {
                    told = Err(format!("the runtime's books have {} entries", app.device.owed()));
                }
                held(&wrong).extend(told.err());
            })
        };
        for end in [work(0, &first), work(1, &second)] {
            if host.park(at, &end, None) != Woken::Rung {
                return Err("a thread does not end".to_owned());
            }
        }
        if let Some(why) = held(&wrong).first() {
            return Err(why.clone());
        }
        if self.whose == Whose::TwoDevices {
            // Its device went with the thread; a new one shows that the adapter is whole.
            let last = good("CreateDevice", first.another(at))?;
            good("the end", last.close(at))?;
        }
        kernel.validate()?;
        kernel.remove_adapter(at, adapter);
        host.quiet(at);
        let left = kernel.census();
        if left.count() == 0 { Ok(()) } else { Err(format!("left alive:\n{left}")) }
    }
}

const GPUS: [Gpu; 3] = [Gpu::Listed, Gpu::Virtual, Gpu::Memory];
const BOTH: [Whose; 2] = [Whose::TwoDevices, Whose::TwoProcesses];

#[test]
fn every_byte_is_right_in_orders_drawn_from_seeds() {
    for gpu in GPUS {
        for whose in BOTH {
            for seed in 0..4 {
                Story { on: On::Stepped(seed), gpu, whose, lives: 50, seed }.tell();
            }
        }
    }
}

#[test]
fn every_byte_is_right_under_pressure() {
    for gpu in GPUS {
        for whose in BOTH {
            for seed in 10..12 {
                Story { on: On::Pressed(seed), gpu, whose, lives: 50, seed }.tell();
            }
        }
    }
}

/// So many lives on real threads, over all of the drivers and arrangements.
fn free(lives: usize, seed: u64) {
    let each = lives.div_ceil(GPUS.len() * BOTH.len() * 2);
    for gpu in GPUS {
        for whose in BOTH {
            Story { on: On::Free, gpu, whose, lives: each, seed }.tell();
        }
    }
}

#[test]
fn ten_thousand_resources_live_and_go() {
    free(10_000, 20);
}

/// `cargo xtask test --long` runs it.
#[test]
#[ignore = "takes minutes"]
fn a_hundred_thousand_resources_live_and_go() {
    free(100_000, 30);
}
