//! The CPU: locks surfaces and writes, in all possible ways.

use super::super::resource::{Kind, TestResource, TestResult, expect_ok};
use super::ApplicationThread;
use abi::hresult::D3DDDIERR_WASSTILLDRAWING;
use flight::{Passive, next_random};
use runtime::{LockRequest, Rect};
use std::sync::atomic::Ordering::SeqCst;

impl ApplicationThread {
    fn noise(&mut self, length: usize) -> Vec<u8> {
        let mut state = self.next_random(u64::MAX);
        (0..length).map(|_| next_random(&mut state, 256).to_le_bytes()[0]).collect()
    }

    /// Writes with the CPU, in one of the possible ways.
    pub(super) fn write(&mut self, at: &mut Passive) -> TestResult<()> {
        let Some(location) = self.pick_surface() else { return Ok(()) };
        if self.resources[location.0].kind == Kind::Opened {
            return Ok(());
        }
        let way = self.next_random(5);
        let request = LockRequest {
            discard: way == 0 || way == 4,
            no_overwrite: way == 1,
            do_not_wait: way == 2 || way == 4,
            read_only: false,
        };
        let surface_id = self.location(location);
        let mapped = match self.app.device.lock(at, surface_id, request) {
            Err(D3DDDIERR_WASSTILLDRAWING) if request.do_not_wait => {
                self.shared.counts.busy.fetch_add(1, SeqCst);
                return Ok(());
            }
            mapped => expect_ok(&format!("Lock of {request:?}"), mapped)?,
        };
        let gpu_wait = !request.discard && !request.no_overwrite;
        let found = if gpu_wait { mapped.read() } else { Vec::new() };
        let (line, bytes) = (self.picture(location).line(), self.picture(location).bytes.len());
        // A lock with "no overwrite" uses only lines that no packet may use.
        let lines = self.picture(location).used.iter().take_while(|flag| !**flag).count();
        let length = match request {
            LockRequest { no_overwrite: true, .. } => lines * line,
            LockRequest { discard: true, .. } => bytes,
            _ => line * self.index(bytes / line + 1),
        };
        let noise = self.noise(length);
        mapped.write(&noise);
        expect_ok("Unlock", self.app.device.unlock(at, surface_id))?;
        let picture = self.picture(location);
        if gpu_wait {
            picture.compare(&found, &format!("{request:?}"))?;
        }
        if !request.no_overwrite {
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
    pub(super) fn write_async(&mut self, at: &mut Passive) -> TestResult<()> {
        let Some(location) = self.pick_surface() else { return Ok(()) };
        if !matches!(self.resources[location.0].kind, Kind::Own | Kind::System) {
            return Ok(());
        }
        let surface_id = self.location(location);
        let mapped = match self.app.device.lock_async(at, surface_id, true) {
            Err(D3DDDIERR_WASSTILLDRAWING) => {
                self.shared.counts.busy.fetch_add(1, SeqCst);
                return Ok(());
            }
            mapped => expect_ok("LockAsync", mapped)?,
        };
        let length = self.picture(location).bytes.len();
        let noise = self.noise(length);
        mapped.write(&noise);
        expect_ok("UnlockAsync", self.app.device.unlock_async(at, surface_id))?;
        expect_ok("Rename", self.app.device.rename(at, surface_id, &mapped))?;
        let picture = self.picture(location);
        picture.set(&noise);
        picture.note("write async", Rect::whole(picture.surface));
        picture.idle();
        Ok(())
    }

    /// Locks a surface and keeps the lock, or ends older locks; a few surfaces are destroyed
    /// locked.
    pub(super) fn lock_or_unlock(&mut self, at: &mut Passive) -> TestResult<()> {
        let locked = |resource: &TestResource| {
            resource.pictures.iter().position(|picture| picture.locks > 0)
        };
        let found = self.resources.iter().enumerate().find_map(|(nr, it)| Some((nr, locked(it)?)));
        if let Some(location) = found {
            let surface_id = self.location(location);
            for _ in 0..self.picture(location).locks {
                expect_ok("Unlock", self.app.device.unlock(at, surface_id))?;
            }
            self.picture(location).locks = 0;
            return Ok(());
        }
        let Some(location) = self.pick_surface() else { return Ok(()) };
        if matches!(self.resources[location.0].kind, Kind::Opened | Kind::Shared) {
            return Ok(());
        }
        let surface_id = self.location(location);
        for _ in 0..=self.next_random(2) {
            let mapped = self.app.device.lock(at, surface_id, LockRequest::default());
            let found = expect_ok("Lock", mapped)?.read();
            let picture = self.picture(location);
            picture.compare(&found, "a lock that is kept")?;
            picture.idle();
            picture.locks += 1;
        }
        Ok(())
    }
}
