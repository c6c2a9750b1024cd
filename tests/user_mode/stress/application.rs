//! One of the two threads: it creates resources, uses them, and destroys them.

mod drawing;
mod locking;
mod sharing;

use super::resource::{CLAIMED, Kind, Offer, SharedState, TestResource, TestResult, expect_ok};
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
const MAX_RESOURCES: usize = 20;

/// The number of turns between two checks of the log.
const SLICE: u32 = 64;

/// One of the two threads, with its device.
pub(super) struct ApplicationThread {
    pub(super) app: Application,
    pub(super) shared: Arc<SharedState>,
    pub(super) thread: usize,
    pub(super) random: u64,
    pub(super) resources: Vec<TestResource>,
}

impl ApplicationThread {
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
    pub(super) fn run(&mut self, at: &mut Passive, resource_count: usize) -> TestResult<()> {
        let (mut turns, mut created) = (0, 0);
        while created < resource_count {
            turns += 1;
            if turns % SLICE == 0 {
                self.shared.watch.look();
            }
            created += self.turn(at)?;
            // A device is destroyed with its objects, and another is created.
            if self.next_random(2000) == 0 && self.no_open_pending() {
                self.change_device(at)?;
            }
        }
        // Half of them are destroyed, the rest ends with the device.
        while self.resources.len() > MAX_RESOURCES / 2 {
            self.destroy_one(at)?;
        }
        while !self.no_open_pending() {
            self.yield_now(at)?;
        }
        Ok(())
    }

    fn turn(&mut self, at: &mut Passive) -> TestResult<usize> {
        if self.resources.len() >= MAX_RESOURCES {
            self.destroy_one(at)?;
        }
        match self.next_random(32) {
            0..7 => return self.create(at).map(|()| 1),
            7 => return self.open_offered(at),
            8..11 => self.destroy_one(at)?,
            11..16 => self.fill(at)?,
            16..21 => self.copy(at)?,
            21 | 22 => self.compare_one(at)?,
            23..26 => self.write(at)?,
            26 => self.lock_or_unlock(at)?,
            27 => self.write_async(at)?,
            28 => self.offer_one(at)?,
            29 => self.destroy_opened(at)?,
            30 => self.set_resource_priority(at)?,
            _ => expect_ok("Flush", self.app.device.flush(at))?,
        }
        Ok(0)
    }

    fn change_device(&mut self, at: &mut Passive) -> TestResult<()> {
        let next = expect_ok("CreateDevice", self.app.another_device(at))?;
        let old = std::mem::replace(&mut self.app, next);
        self.resources.clear();
        expect_ok("DestroyDevice", old.destroy_device(at))?;
        self.shared.counts.devices.fetch_add(1, SeqCst);
        match old.device.live_objects() {
            0 => Ok(()),
            left => Err(format!("the runtime's ledger has {left} entries of a device that went")),
        }
    }

    fn yield_now(&self, at: &mut Passive) -> TestResult<()> {
        expect_ok("Flush", self.app.device.flush(at))
    }

    fn create(&mut self, at: &mut Passive) -> TestResult<()> {
        let count = if self.next_random(2) == 0 { 1 } else { 1 + self.next_random(MOST) };
        let (width, height) = (self.side(SIDE), self.side(SIDE));
        let kind = match self.next_random(16) {
            0 => Kind::System,
            1..4 => Kind::Shared,
            _ => Kind::Own,
        };
        let mut description = ResourceDescription::group(0, 0, 0);
        for nr in 0..count {
            // In half of the groups the surfaces get smaller.
            let less = if width % 2 == 0 { u32::try_from(nr).unwrap_or(0) } else { 0 };
            let side = |number: u32| (number >> less).max(1);
            description.surfaces.push(Surface { width: side(width), height: side(height) });
        }
        let first = match kind {
            Kind::System => Some(0),
            _ => None,
        };
        let pictures =
            description.surfaces.iter().map(|surface| Picture::new(*surface, first)).collect();
        let description = match kind {
            Kind::System => description.in_system_memory(),
            Kind::Shared => description.shared(),
            _ => description,
        };
        let resource =
            expect_ok("CreateResource", self.app.device.create_resource(at, &description))?;
        self.shared.counts.created.fetch_add(1, SeqCst);
        self.resources.push(TestResource { resource, kind, pictures, offer: None });
        // Mostly it is drawn at once; otherwise its contents are unknown.
        let new = self.resources.len() - 1;
        for index in 0..description.surfaces.len() {
            if self.next_random(4) > 0 {
                self.fill_area(at, (new, index), Rect::whole(description.surfaces[index]))?;
            }
        }
        Ok(())
    }

    fn destroy_one(&mut self, at: &mut Passive) -> TestResult<()> {
        if self.resources.is_empty() {
            return Ok(());
        }
        let which = self.index(self.resources.len());
        self.withdraw(&self.resources[which]);
        let is_being_opened = |offer: &Arc<Offer>| offer.state.load(SeqCst) == CLAIMED;
        if self.resources[which].offer.as_ref().is_some_and(is_being_opened) {
            return Ok(());
        }
        if self.next_random(4) == 0 {
            self.compare_resource(at, which)?;
        }
        let it = self.resources.swap_remove(which);
        expect_ok("DestroyResource", self.app.device.destroy_resource(at, it.resource))
    }

    /// A surface that is not locked, and that the other thread may not write.
    fn pick_surface(&mut self) -> Option<(usize, usize)> {
        if self.resources.is_empty() {
            return None;
        }
        let which = self.index(self.resources.len());
        let index = self.index(self.resources[which].pictures.len());
        let it = &self.resources[which];
        (it.offer.is_none() && it.pictures[index].locks == 0).then_some((which, index))
    }

    fn location(&self, (which, index): (usize, usize)) -> (Resource, u32) {
        (self.resources[which].resource, u32::try_from(index).unwrap_or(u32::MAX))
    }

    fn picture(&mut self, (which, index): (usize, usize)) -> &mut Picture {
        &mut self.resources[which].pictures[index]
    }

    /// A random part of a length.
    fn part(&mut self, width: u32, height: u32, surface: Surface) -> Rect {
        let left = self.side((surface.width - width + 1).into()) - 1;
        let top = self.side((surface.height - height + 1).into()) - 1;
        Rect { left, top, right: left + width, bottom: top + height }
    }

    fn set_resource_priority(&mut self, at: &mut Passive) -> TestResult<()> {
        let Some((which, _)) = self.pick_surface() else { return Ok(()) };
        let resource = self.resources[which].resource;
        let priority = 0x2800_0000 * (1 + u32::from(self.byte()) % 5);
        expect_ok("SetPriority", self.app.device.set_priority(at, resource, priority))?;
        expect_ok("QueryResourceResidency", self.app.device.residency(at, &[resource]))?;
        Ok(())
    }
}
