//! Locks, and renaming for locks.
//!
//! With a WDDM 1.x miniport the runtime waits and renames; otherwise the driver does both.
#![forbid(unsafe_code)]

use super::driver::SoftDevice;
use super::flaw::Flaw;
use super::resource::{Shape, Surface};
use abi::D3DKMT_HANDLE;
use abi::hresult::{
    D3DDDIERR_DEVICEREMOVED, D3DDDIERR_WASSTILLDRAWING, E_FAIL, E_INVALIDARG, E_NOTIMPL,
};
use abi::ukm::D3DDDICB_LOCKFLAGS as CallbackFlags;
use abi::umd::{D3DDDI_LOCKASYNCFLAGS as AsyncFlags, D3DDDI_LOCKFLAGS as Flags};
use umd::{
    LockArgs, LockAsyncArgs, LockAsyncResult, LockResult, Memory, RenameArgs, Resource, UmdResult,
    UnlockArgs, Volume,
};

/// The maximum number of allocations of a surface.
const MAX_INSTANCES: usize = 4;

impl SoftDevice {
    /// Locks an allocation. Its handle may change.
    pub(super) fn lock_allocation(
        &self,
        allocation: D3DKMT_HANDLE,
        flags: u32,
        bytes: u64,
    ) -> UmdResult<(D3DKMT_HANDLE, Memory)> {
        let length = usize::try_from(bytes).map_err(|_| E_FAIL)?;
        if self.hardware.is_wddm1() {
            let flags = flags | CallbackFlags::LockEntire;
            return self.callbacks.lock(allocation, flags, &[], length);
        }
        Ok((allocation, self.callbacks.lock2(allocation, 0, length)?))
    }

    pub(super) fn unlock_allocation(&self, allocation: D3DKMT_HANDLE) -> UmdResult<()> {
        if self.hardware.is_wddm1() {
            return self.callbacks.unlock(&[allocation]);
        }
        self.callbacks.unlock2(allocation)
    }

    pub(super) fn lock_surface(&mut self, args: &LockArgs) -> UmdResult<LockResult> {
        let index = self.index(args.resource, args.index)?;
        let surface = self.surface(args.resource, index)?;
        let layout = surface.layout;
        let given = [
            (Flags::RangeValid, Part::Range),
            (Flags::AreaValid, Part::Area),
            (Flags::BoxValid, Part::Box),
        ];
        let given = given.iter().find(|pair| args.flags.has(pair.0)).map(|pair| pair.1);
        let offset = offset(&layout, given, args.volume)?;
        if args.flags.has(Flags::NotifyOnly) {
            return Ok(LockResult::default());
        }
        if surface.locks > 0 && self.flaw == Flaw::FailsSecondLock {
            return Err(E_INVALIDARG);
        }
        // A locked surface is mapped at the same address again, whatever the flags.
        let memory = match (surface.system, surface.at) {
            (Some(memory), _) | (None, Some(memory)) => memory,
            (None, None) => {
                let (allocation, memory) = if self.group(args.resource)?.opened {
                    self.stage(args.resource, index, !args.flags.has(Flags::Discard))?
                } else {
                    self.lock_current((args.resource, index), args.flags)?
                };
                let surface = self.surface_mut(args.resource, index)?;
                (surface.locked, surface.at) = (allocation, Some(memory));
                memory
            }
        };
        let surface = self.surface_mut(args.resource, index)?;
        surface.locks += 1;
        surface.written |= !args.flags.has(Flags::ReadOnly);
        Ok(shown(&layout, memory, offset))
    }

    /// Maps a surface: once the GPU does not use it, or with other memory.
    fn lock_current(
        &mut self,
        (resource, index): (Resource, usize),
        flags: Flags,
    ) -> UmdResult<(D3DKMT_HANDLE, Memory)> {
        let renamed = self.may_rename(resource)?;
        let surface = self.surface(resource, index)?;
        let (now, bytes) = (surface.current().ok_or(E_FAIL)?.allocation, surface.layout.bytes);
        let kept = |flag: u32, other: u32| if flags.has(flag) { other } else { 0 };
        let mut lock_flags = kept(Flags::ReadOnly, CallbackFlags::ReadOnly)
            | kept(Flags::WriteOnly, CallbackFlags::WriteOnly)
            | kept(Flags::DoNotWait, CallbackFlags::DonotWait);
        if flags.has(Flags::NoOverwrite) {
            // WINDOWS: one flag has no meaning without the other (documented).
            lock_flags |= CallbackFlags::IgnoreSync;
            if self.flaw != Flaw::SetsIgnoreSyncWithoutDoNotWait {
                lock_flags |= CallbackFlags::DonotWait;
            }
            let locked = self.lock_allocation(now, lock_flags, bytes);
            // The allocation may have to be moved, for example: then the lock waits nevertheless.
            if locked != Err(D3DDDIERR_WASSTILLDRAWING) || flags.has(Flags::DoNotWait) {
                return locked;
            }
            lock_flags &= !(CallbackFlags::IgnoreSync | CallbackFlags::DonotWait);
        }
        if flags.has(Flags::Discard) && renamed {
            return self.discard((resource, index), now, lock_flags);
        }
        if self.batch.has(now) {
            self.submit()?;
        }
        if flags.has(Flags::DoNotWait) || self.flaw == Flaw::FailsWaitingLock {
            lock_flags |= CallbackFlags::DonotWait;
            if self.is_busy(now) {
                return Err(D3DDDIERR_WASSTILLDRAWING);
            }
        }
        self.wait_for(now)?;
        self.lock_allocation(now, lock_flags, bytes)
    }

    /// Whether a resource may get other memory: not if it is shared.
    fn may_rename(&self, resource: Resource) -> UmdResult<bool> {
        let group = self.group(resource)?;
        Ok((!group.shared || self.flaw == Flaw::RenamesShared) && !group.shown)
    }

    /// Maps a surface whose bytes are no longer needed.
    fn discard(
        &mut self,
        (resource, index): (Resource, usize),
        now: D3DKMT_HANDLE,
        lock_flags: u32,
    ) -> UmdResult<(D3DKMT_HANDLE, Memory)> {
        let bytes = self.surface(resource, index)?.layout.bytes;
        self.keep_first_instance(resource, index)?;
        if self.hardware.is_wddm1() {
            let lock_flags = lock_flags | CallbackFlags::Discard;
            let (new, memory) = match self.lock_allocation(now, lock_flags, bytes) {
                Err(failure) if failure != D3DDDIERR_DEVICEREMOVED => {
                    if self.flaw != Flaw::RetriesLockImmediately {
                        self.submit()?;
                    }
                    self.lock_allocation(
                        now,
                        lock_flags | CallbackFlags::NoExistingReference,
                        bytes,
                    )?
                }
                answer => answer?,
            };
            self.adopt(resource, index, new)?;
            return Ok((new, memory));
        }
        let place = match self.free_instance(resource, index) {
            Ok(place) => place,
            Err(failure) if failure == D3DDDIERR_DEVICEREMOVED => return Err(failure),
            Err(_) => {
                // The memory was only to improve speed.
                self.submit()?;
                self.wait_for(now)?;
                self.surface(resource, index)?.current
            }
        };
        let it = self.surface(resource, index)?.instances.get(place).ok_or(E_FAIL)?.allocation;
        let locked = self.lock_allocation(it, 0, bytes)?;
        self.surface_mut(resource, index)?.current = place;
        Ok(locked)
    }

    /// Returns an unused instance of a surface: its own, an older one, or a new one.
    fn free_instance(&mut self, resource: Resource, index: usize) -> UmdResult<usize> {
        let surface = self.surface(resource, index)?;
        let (count, bytes) = (surface.instances.len(), surface.layout.bytes);
        let free = |place: &usize| {
            surface.instances.get(*place).is_some_and(|it| {
                let it = it.allocation;
                let seen =
                    surface.asynchronous.contains(&it) || surface.pending_instances.contains(&it);
                !seen && !self.batch.has(it) && !self.is_busy(it)
            })
        };
        let order = (surface.current..count).chain(0..surface.current);
        if let Some(place) = order.into_iter().find(free) {
            return Ok(place);
        }
        if count >= MAX_INSTANCES {
            return Err(D3DDDIERR_WASSTILLDRAWING);
        }
        let created = self.allocate_extra(bytes)?;
        self.surface_mut(resource, index)?.instances.push(created);
        Ok(count)
    }

    /// A bad driver draws with the first memory of a surface, whatever its memory is now.
    fn keep_first_instance(&mut self, resource: Resource, index: usize) -> UmdResult<()> {
        if self.flaw == Flaw::UsesStaleInstance {
            let surface = self.surface_mut(resource, index)?;
            surface.first_instance = surface.first_instance.or(surface.current());
        }
        Ok(())
    }

    /// Records the new handle of a surface's memory.
    fn adopt(&mut self, resource: Resource, index: usize, new: D3DKMT_HANDLE) -> UmdResult<()> {
        let surface = self.surface_mut(resource, index)?;
        let current = surface.current;
        surface.instances.get_mut(current).ok_or(E_FAIL)?.allocation = new;
        Ok(())
    }

    pub(super) fn unlock_surface(&mut self, args: &UnlockArgs) -> UmdResult<()> {
        let index = self.index(args.resource, args.index)?;
        if args.notify_only {
            return Ok(());
        }
        let anything = self.flaw == Flaw::UnlocksNotLocked;
        let late = self.flaw == Flaw::SubmitsLocked && index > 0;
        let surface = self.surface_mut(args.resource, index)?;
        if surface.locks == 0 {
            return if anything { Ok(()) } else { Err(E_INVALIDARG) };
        }
        surface.locks -= 1;
        if surface.locks > 0 || surface.system.is_some() {
            return Ok(());
        }
        surface.at = None;
        let (locked, written) = (surface.locked, std::mem::take(&mut surface.written));
        if late {
            surface.asynchronous.push(locked); // Unlocked when it is released.
            return Ok(());
        }
        self.unlock_allocation(locked)?;
        if written { self.unstage(args.resource, index) } else { Ok(()) }
    }

    /// Maps a surface in the middle of another operation: nothing is submitted, and nothing is
    /// waited for.
    pub(super) fn lock_surface_async(
        &mut self,
        args: &LockAsyncArgs,
    ) -> UmdResult<LockAsyncResult> {
        let (resource, flags) = (args.resource, args.flags);
        let index = self.index(resource, args.index)?;
        let surface = self.surface(resource, index)?;
        let layout = surface.layout;
        let given = [
            (AsyncFlags::RangeValid, Part::Range),
            (AsyncFlags::AreaValid, Part::Area),
            (AsyncFlags::BoxValid, Part::Box),
        ];
        let given = given.iter().find(|pair| flags.has(pair.0)).map(|pair| pair.1);
        let offset = offset(&layout, given, args.volume)?;
        if flags.has(AsyncFlags::NotifyOnly) {
            return Ok(LockAsyncResult::default());
        }
        if let Some(memory) = surface.system {
            let locked = shown(&layout, memory, offset);
            self.surface_mut(resource, index)?.asynchronous.push(0);
            return Ok(LockAsyncResult { locked, ..LockAsyncResult::default() });
        }
        let now = surface.current().ok_or(E_FAIL)?.allocation;
        if self.group(resource)?.opened {
            return Err(E_NOTIMPL); // This would need a submitted copy.
        }
        if self.flaw == Flaw::SubmitsInLockAsync {
            self.submit()?;
        }
        let renames = flags.has(AsyncFlags::Discard) && self.may_rename(resource)?;
        let (allocation, memory) = if renames {
            self.pending_instance(
                (resource, index),
                now,
                flags.has(AsyncFlags::NoExistingReferences),
            )?
        } else {
            if !flags.has(AsyncFlags::NoOverwrite) && (self.batch.has(now) || self.is_busy(now)) {
                return Err(D3DDDIERR_WASSTILLDRAWING);
            }
            let lock_flags = CallbackFlags::IgnoreSync | CallbackFlags::DonotWait;
            self.lock_allocation(now, lock_flags, layout.bytes)?
        };
        let surface = self.surface_mut(resource, index)?;
        surface.asynchronous.push(allocation);
        let gpu = surface.instances.iter().find(|instance| instance.allocation == allocation);
        let gpu = gpu.map_or(0, |instance| instance.address);
        let locked = shown(&layout, memory, offset);
        let cookie = if renames { allocation as usize } else { 0 };
        Ok(LockAsyncResult { locked, cookie, gpu })
    }

    /// Allocates other memory for a surface, which becomes its memory at the rename.
    fn pending_instance(
        &mut self,
        (resource, index): (Resource, usize),
        now: D3DKMT_HANDLE,
        unused: bool,
    ) -> UmdResult<(D3DKMT_HANDLE, Memory)> {
        let bytes = self.surface(resource, index)?.layout.bytes;
        let (allocation, memory) = if self.hardware.is_wddm1() {
            let unused = if unused { CallbackFlags::NoExistingReference } else { 0 };
            self.lock_allocation(now, CallbackFlags::Discard | unused, bytes)?
        } else {
            let place = self.free_instance(resource, index)?;
            let found = self.surface(resource, index)?.instances.get(place).ok_or(E_FAIL)?;
            self.lock_allocation(found.allocation, 0, bytes)?
        };
        self.surface_mut(resource, index)?.pending_instances.push(allocation);
        Ok((allocation, memory))
    }

    pub(super) fn unlock_surface_async(&mut self, args: &UnlockArgs) -> UmdResult<()> {
        let index = self.index(args.resource, args.index)?;
        if args.notify_only {
            return Ok(());
        }
        let surface = self.surface_mut(args.resource, index)?;
        match surface.asynchronous.pop().ok_or(E_INVALIDARG)? {
            0 => Ok(()),
            locked => self.unlock_allocation(locked),
        }
    }

    pub(super) fn rename_surface(&mut self, args: &RenameArgs) -> UmdResult<()> {
        let index = self.index(args.resource, args.index)?;
        let first = self.hardware.is_wddm1();
        if args.cookie == 0 {
            return Ok(());
        }
        self.keep_first_instance(args.resource, index)?;
        let surface = self.surface_mut(args.resource, index)?;
        let pending_instances =
            surface.pending_instances.iter().position(|number| *number as usize == args.cookie);
        let pending_instances =
            surface.pending_instances.remove(pending_instances.ok_or(E_INVALIDARG)?);
        if first {
            return self.adopt(args.resource, index, pending_instances);
        }
        let place =
            surface.instances.iter().position(|instance| instance.allocation == pending_instances);
        surface.current = place.ok_or(E_FAIL)?;
        Ok(())
    }

    pub(super) fn surface_mut(
        &mut self,
        resource: Resource,
        index: usize,
    ) -> UmdResult<&mut Surface> {
        self.group_mut(resource)?.surfaces.get_mut(index).ok_or(E_INVALIDARG)
    }
}

/// The requested part of a surface.
#[derive(Clone, Copy)]
enum Part {
    Range,
    Area,
    Box,
}

/// The offset of a part.
fn offset(layout: &Shape, given: Option<Part>, part: Volume) -> UmdResult<usize> {
    let [left, top, front] = part.from;
    let [right, bottom, back] = part.to;
    let line = u64::from(left) * 4 + u64::from(top) * u64::from(layout.pitch);
    let flat = left <= right && top <= bottom && right <= layout.width && bottom <= layout.height;
    let (inside, offset) = match given {
        None => (true, 0),
        Some(Part::Range) => (u64::from(left) <= layout.bytes, u64::from(left)),
        _ if layout.loose => (true, 0),
        Some(Part::Area) => (flat, line),
        Some(Part::Box) => (
            flat && front <= back && back <= layout.depth,
            line + u64::from(front) * u64::from(layout.slice_pitch),
        ),
    };
    let offset = usize::try_from(offset).ok().filter(|_| inside);
    offset.ok_or(E_INVALIDARG)
}

fn shown(layout: &Shape, memory: Memory, offset: usize) -> LockResult {
    let address = memory.address() + offset;
    LockResult { address, pitch: layout.pitch, slice_pitch: layout.slice_pitch }
}
