//! One of the two threads: it creates resources, uses them, and destroys them.

mod drawing;
mod locking;
mod sharing;

use super::thing::{CLAIMED, Gift, Kind, Table, Thing, Tried, good};
use flight::{Passive, next_random};
use harness::Picture;
use runtime::{Rect, Resource, ResourceDescription, Surface};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use windtunnel::Application;

/// The longest side of a surface, and the most surfaces of a group.
const SIDE: u64 = 40;
const MOST: u64 = 4;

/// The most resources of a thread.
const HELD: usize = 20;

/// The number of turns between two checks of the log.
const SLICE: u32 = 64;

/// One of the two threads, with its device.
pub(super) struct Artist {
    pub(super) app: Application,
    pub(super) table: Arc<Table>,
    pub(super) me: usize,
    pub(super) random: u64,
    pub(super) things: Vec<Thing>,
}

impl Artist {
    fn next_random(&mut self, bound: u64) -> u64 {
        next_random(&mut self.random, bound)
    }

    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.next_random(count as u64)).unwrap_or(0)
    }

    fn side(&mut self, most: u64) -> u32 {
        u32::try_from(1 + self.next_random(most)).unwrap_or(1)
    }

    fn byte(&mut self) -> u8 {
        self.next_random(256).to_le_bytes()[0]
    }

    /// Creates this many resources and uses them.
    pub(super) fn live(&mut self, at: &mut Passive, lives: usize) -> Tried<()> {
        let (mut turns, mut made) = (0, 0);
        while made < lives {
            turns += 1;
            if turns % SLICE == 0 {
                self.table.watch.look();
            }
            made += self.turn(at)?;
            // A device is destroyed with its objects, and another is created.
            if self.next_random(2000) == 0 && self.nobody_opens() {
                self.change_device(at)?;
            }
        }
        // Half of them are destroyed, the rest ends with the device.
        while self.things.len() > HELD / 2 {
            self.drop_one(at)?;
        }
        while !self.nobody_opens() {
            self.yield_now(at)?;
        }
        Ok(())
    }

    fn turn(&mut self, at: &mut Passive) -> Tried<usize> {
        if self.things.len() >= HELD {
            self.drop_one(at)?;
        }
        match self.next_random(32) {
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
        let next = good("CreateDevice", self.app.another_device(at))?;
        let old = std::mem::replace(&mut self.app, next);
        self.things.clear();
        good("DestroyDevice", old.destroy_device(at))?;
        self.table.counts.devices.fetch_add(1, SeqCst);
        match old.device.live_objects() {
            0 => Ok(()),
            left => Err(format!("the runtime's books have {left} entries of a device that went")),
        }
    }

    fn yield_now(&self, at: &mut Passive) -> Tried<()> {
        good("Flush", self.app.device.flush(at))
    }

    fn make(&mut self, at: &mut Passive) -> Tried<()> {
        let count = if self.next_random(2) == 0 { 1 } else { 1 + self.next_random(MOST) };
        let (width, height) = (self.side(SIDE), self.side(SIDE));
        let kind = match self.next_random(16) {
            0 => Kind::System,
            1..4 => Kind::Shared,
            _ => Kind::Own,
        };
        let mut wanted = ResourceDescription::group(0, 0, 0);
        for nr in 0..count {
            // In half of the groups the surfaces get smaller.
            let less = if width % 2 == 0 { u32::try_from(nr).unwrap_or(0) } else { 0 };
            let side = |number: u32| (number >> less).max(1);
            wanted.surfaces.push(Surface { width: side(width), height: side(height) });
        }
        let first = match kind {
            Kind::System => Some(0),
            _ => None,
        };
        let pictures =
            wanted.surfaces.iter().map(|surface| Picture::new(*surface, first)).collect();
        let wanted = match kind {
            Kind::System => wanted.in_system_memory(),
            Kind::Shared => wanted.shared(),
            _ => wanted,
        };
        let resource = good("CreateResource", self.app.device.create_resource(at, &wanted))?;
        self.table.counts.made.fetch_add(1, SeqCst);
        self.things.push(Thing { resource, kind, pictures, gift: None });
        // Mostly it is drawn at once; otherwise its contents are unknown.
        let new = self.things.len() - 1;
        for index in 0..wanted.surfaces.len() {
            if self.next_random(4) > 0 {
                self.fill_area(at, (new, index), Rect::whole(wanted.surfaces[index]))?;
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
        let open_behaviour = |gift: &Arc<Gift>| gift.state.load(SeqCst) == CLAIMED;
        if self.things[which].gift.as_ref().is_some_and(open_behaviour) {
            return Ok(());
        }
        if self.next_random(4) == 0 {
            self.look_at(at, which)?;
        }
        let it = self.things.swap_remove(which);
        good("DestroyResource", self.app.device.destroy_resource(at, it.resource))
    }

    /// A surface that is not locked, and that the other thread may not write.
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

    /// A random part of a length.
    fn part(&mut self, width: u32, height: u32, device_from_handle: Surface) -> Rect {
        let left = self.side((device_from_handle.width - width + 1).into()) - 1;
        let top = self.side((device_from_handle.height - height + 1).into()) - 1;
        Rect { left, top, right: left + width, bottom: top + height }
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
