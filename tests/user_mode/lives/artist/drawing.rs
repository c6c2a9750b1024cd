//! Packets: fills and copies. Then every byte is compared.

use super::super::thing::{Kind, Thing, Tried, good};
use super::Artist;
use flight::Passive;
use harness::Picture;
use runtime::{LockRequest, Rect, ResourceDescription};
use std::sync::atomic::Ordering::SeqCst;

impl Artist {
    pub(super) fn fill(&mut self, at: &mut Passive) -> Tried<()> {
        let Some(place) = self.any() else { return Ok(()) };
        let surface = self.picture(place).surface;
        let (width, height) = (self.side(surface.width.into()), self.side(surface.height.into()));
        let area = match self.next_random(2) {
            0 => Rect::whole(surface),
            _ => self.part(width, height, surface),
        };
        self.fill_area(at, place, area)
    }

    pub(super) fn fill_area(
        &mut self,
        at: &mut Passive,
        place: (usize, usize),
        area: Rect,
    ) -> Tried<()> {
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

    pub(super) fn copy(&mut self, at: &mut Passive) -> Tried<()> {
        let (Some(from), Some(to)) = (self.any(), self.any()) else { return Ok(()) };
        // The CPU copies from and to the application's memory, and locks only its own resources.
        let kinds = [from, to].map(|pair| self.things[pair.0].kind);
        if kinds.contains(&Kind::System) && kinds.contains(&Kind::Opened) {
            return Ok(());
        }
        let [one, two] = [from, to].map(|pair| self.picture(pair).surface);
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
            source.lines(from_area).into_iter().map(|range| source.bytes[range].to_vec()).collect();
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

    pub(super) fn look_at_one(&mut self, at: &mut Passive) -> Tried<()> {
        match self.any() {
            Some((which, _)) => self.look_at(at, which),
            None => Ok(()),
        }
    }

    /// Compares every byte of a resource.
    pub(super) fn look_at(&mut self, at: &mut Passive, which: usize) -> Tried<()> {
        if self.things[which].gift.is_some() {
            return Ok(());
        }
        let opened = self.things[which].kind == Kind::Opened;
        for index in 0..self.things[which].pictures.len() {
            self.table.counts.looks.fetch_add(1, SeqCst);
            let place = (which, index);
            if opened {
                // Only the creator may lock it: another device compares a copy.
                self.look_at_copy(at, place)?;
                continue;
            }
            let order = LockRequest { read_only: true, ..LockRequest::default() };
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
        let wanted = ResourceDescription::texture(surface.width, surface.height);
        let resource = good("CreateResource", self.app.device.create_resource(at, &wanted))?;
        self.table.counts.made.fetch_add(1, SeqCst);
        let pictures = vec![Picture::new(surface, None)];
        self.things.push(Thing { resource, kind: Kind::Own, pictures, gift: None });
        let (new, whole) = (self.things.len() - 1, Rect::whole(surface));
        self.copy_area(at, (place, whole), ((new, 0), whole))?;
        self.look_at(at, new)?;
        // All earlier work is complete, too: packets of a device are in order.
        self.picture(place).idle();
        let copy = self.things.pop().map(|thing| thing.resource);
        copy.map_or(Ok(()), |resource| {
            good("DestroyResource", self.app.device.destroy_resource(at, resource))
        })
    }
}
