//! Packets: fills and copies. Then every byte is compared.

use super::super::resource::{Kind, TestResource, TestResult, expect_ok};
use super::ApplicationThread;
use flight::Passive;
use harness::Picture;
use runtime::{LockRequest, Rect, ResourceDescription};
use std::sync::atomic::Ordering::SeqCst;

impl ApplicationThread {
    pub(super) fn fill(&mut self, at: &mut Passive) -> TestResult<()> {
        let Some(location) = self.pick_surface() else { return Ok(()) };
        let surface = self.picture(location).surface;
        let (width, height) = (self.side(surface.width.into()), self.side(surface.height.into()));
        let area = match self.next_random(2) {
            0 => Rect::whole(surface),
            _ => self.part(width, height, surface),
        };
        self.fill_area(at, location, area)
    }

    pub(super) fn fill_area(
        &mut self,
        at: &mut Passive,
        location: (usize, usize),
        area: Rect,
    ) -> TestResult<()> {
        let value = self.byte();
        let color = u32::from_ne_bytes([value; 4]);
        expect_ok(
            "ColorFill",
            self.app.device.color_fill(at, self.location(location), area, color),
        )?;
        let picture = self.picture(location);
        for it in picture.lines(area) {
            picture.bytes[it].fill(Some(value));
        }
        picture.use_lines(area);
        picture.note("fill", area);
        Ok(())
    }

    pub(super) fn copy(&mut self, at: &mut Passive) -> TestResult<()> {
        let (Some(from), Some(to)) = (self.pick_surface(), self.pick_surface()) else {
            return Ok(());
        };
        // The CPU copies from and to the application's memory, and locks only its own resources.
        let kinds = [from, to].map(|pair| self.resources[pair.0].kind);
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
    ) -> TestResult<()> {
        let (source, target) = (self.location(from), self.location(to));
        let copied =
            self.app.device.blt(at, (source.0, source.1, from_area), (target.0, target.1, to_area));
        expect_ok("Blt", copied)?;
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

    pub(super) fn compare_one(&mut self, at: &mut Passive) -> TestResult<()> {
        match self.pick_surface() {
            Some((which, _)) => self.compare_resource(at, which),
            None => Ok(()),
        }
    }

    /// Compares every byte of a resource.
    pub(super) fn compare_resource(&mut self, at: &mut Passive, which: usize) -> TestResult<()> {
        if self.resources[which].offer.is_some() {
            return Ok(());
        }
        let opened = self.resources[which].kind == Kind::Opened;
        for index in 0..self.resources[which].pictures.len() {
            self.shared.counts.compares.fetch_add(1, SeqCst);
            let location = (which, index);
            if opened {
                // Only the creator may lock it: another device compares a copy.
                self.compare_copy(at, location)?;
                continue;
            }
            let request = LockRequest { read_only: true, ..LockRequest::default() };
            let surface_id = self.location(location);
            let mapped = expect_ok("Lock", self.app.device.lock(at, surface_id, request))?;
            let found = mapped.read();
            expect_ok("Unlock", self.app.device.unlock(at, surface_id))?;
            let kind = self.resources[which].kind;
            let picture = self.picture(location);
            picture.compare(&found, &format!("{kind:?}"))?;
            picture.idle();
        }
        Ok(())
    }

    fn compare_copy(&mut self, at: &mut Passive, location: (usize, usize)) -> TestResult<()> {
        let surface = self.picture(location).surface;
        let description = ResourceDescription::texture(surface.width, surface.height);
        let resource =
            expect_ok("CreateResource", self.app.device.create_resource(at, &description))?;
        self.shared.counts.created.fetch_add(1, SeqCst);
        let pictures = vec![Picture::new(surface, None)];
        self.resources.push(TestResource { resource, kind: Kind::Own, pictures, offer: None });
        let (new, whole) = (self.resources.len() - 1, Rect::whole(surface));
        self.copy_area(at, (location, whole), ((new, 0), whole))?;
        self.compare_resource(at, new)?;
        // All earlier work is complete, too: packets of a device are in order.
        self.picture(location).idle();
        let copy = self.resources.pop().map(|resource| resource.resource);
        copy.map_or(Ok(()), |resource| {
            expect_ok("DestroyResource", self.app.device.destroy_resource(at, resource))
        })
    }
}
