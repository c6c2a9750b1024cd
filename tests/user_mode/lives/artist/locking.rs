//! The CPU: locks surfaces and writes, in all possible ways.

use super::super::thing::{Kind, Thing, Tried, good};
use super::Artist;
use abi::hresult::D3DDDIERR_WASSTILLDRAWING;
use flight::{Passive, next_random};
use runtime::{LockRequest, Rect};
use std::sync::atomic::Ordering::SeqCst;

impl Artist {
    fn noise(&mut self, length: usize) -> Vec<u8> {
        let mut state = self.next_random(u64::MAX);
        (0..length).map(|_| next_random(&mut state, 256).to_le_bytes()[0]).collect()
    }

    /// Writes with the CPU, in one of the possible ways.
    pub(super) fn write(&mut self, at: &mut Passive) -> Tried<()> {
        let Some(place) = self.any() else { return Ok(()) };
        if self.things[place.0].kind == Kind::Opened {
            return Ok(());
        }
        let way = self.next_random(5);
        let order = LockRequest {
            discard: way == 0 || way == 4,
            no_overwrite: way == 1,
            do_not_wait: way == 2 || way == 4,
            read_only: false,
        };
        let at_place = self.place(place);
        let mapped = match self.app.device.lock(at, at_place, order) {
            Err(D3DDDIERR_WASSTILLDRAWING) if order.do_not_wait => {
                self.table.counts.busy.fetch_add(1, SeqCst);
                return Ok(());
            }
            mapped => good(&format!("Lock of {order:?}"), mapped)?,
        };
        let gpu_wait = !order.discard && !order.no_overwrite;
        let found = if gpu_wait { mapped.read() } else { Vec::new() };
        let (line, bytes) = (self.picture(place).line(), self.picture(place).bytes.len());
        // A lock with "no overwrite" uses only lines that no packet may use.
        let lines = self.picture(place).used.iter().take_while(|flag| !**flag).count();
        let length = match order {
            LockRequest { no_overwrite: true, .. } => lines * line,
            LockRequest { discard: true, .. } => bytes,
            _ => line * self.index(bytes / line + 1),
        };
        let noise = self.noise(length);
        mapped.write(&noise);
        good("Unlock", self.app.device.unlock(at, at_place))?;
        let picture = self.picture(place);
        if gpu_wait {
            picture.compare(&found, &format!("{order:?}"))?;
        }
        if !order.no_overwrite {
            picture.idle();
        }
        picture.set(&noise);
        let bottom = u32::try_from(length / line).unwrap_or(0);
        let area = Rect { bottom, ..Rect::whole(picture.surface) };
        let ways = ["discard", "no overwrite", "do not wait", "write", "discard or do not wait"];
        picture.note(ways[usize::try_from(way).unwrap_or(0)], area);
        Ok(())
    }

    /// Writes while others draw: into other memory, which then becomes the surface's.
    pub(super) fn write_beside(&mut self, at: &mut Passive) -> Tried<()> {
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
        picture.note("write beside", Rect::whole(picture.surface));
        picture.idle();
        Ok(())
    }

    /// Locks a surface and keeps the lock, or ends older locks; a few surfaces are destroyed
    /// locked.
    pub(super) fn lock_or_unlock(&mut self, at: &mut Passive) -> Tried<()> {
        let locked = |thing: &Thing| thing.pictures.iter().position(|picture| picture.locks > 0);
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
        for _ in 0..=self.next_random(2) {
            let mapped = self.app.device.lock(at, at_place, LockRequest::default());
            let found = good("Lock", mapped)?.read();
            let picture = self.picture(place);
            picture.compare(&found, "a lock that is kept")?;
            picture.idle();
            picture.locks += 1;
        }
        Ok(())
    }
}
