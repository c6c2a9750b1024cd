//! Locks: the application reads and writes surfaces.
#![expect(unsafe_code, reason = "calls a driver through its tables, and exposes locked memory")]

use crate::device::Device;
use crate::draw::check_result;
use crate::resource_description::{Resource, Surface};
use crate::result;
use crate::visible_memory;
use abi::hresult::{D3DDDIERR_WASSTILLDRAWING, E_INVALIDARG, succeeded};
use abi::umd::{
    D3DDDI_DEVICEFUNCS, D3DDDI_LOCKASYNCFLAGS, D3DDDI_LOCKFLAGS, D3DDDIARG_LOCK,
    D3DDDIARG_LOCKASYNC, D3DDDIARG_RENAME, D3DDDIARG_UNLOCK, D3DDDIARG_UNLOCKASYNC,
};
use abi::{HANDLE, HRESULT};
use flight::{EventKind, Passive, RuleId};
use std::ptr;

/// How to lock. `Default` waits until the GPU no longer uses the surface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the interface")]
pub struct LockRequest {
    /// The old contents are not needed: the driver may return other memory.
    pub discard: bool,
    /// The application does not write memory that the GPU uses: no wait is necessary.
    pub no_overwrite: bool,
    /// Fail rather than wait.
    pub do_not_wait: bool,
    /// The application only reads.
    pub read_only: bool,
}

/// A locked surface, as the driver returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedSurface {
    address: usize,
    /// Bytes from one line to the next.
    pub pitch: u32,
    /// The surface.
    pub surface: Surface,
    cookie: usize,
    /// The device whose driver returned it, if that driver's pointers are trusted.
    trusted: Option<usize>,
}

/// A memory range as an `iovec`.
fn memory_slice(address: *mut u8, length: usize) -> libc::iovec {
    libc::iovec { iov_base: address.cast(), iov_len: length }
}

/// This process. A driver in another language may return its own memory, and a bad driver may have
/// unmapped it. So the system copies, and an application that reads too late gets nothing.
fn current_process() -> libc::pid_t {
    std::process::id().cast_signed()
}

impl MappedSurface {
    /// Copies the surface out, in lines without gaps.
    pub fn read(&self) -> Vec<u8> {
        let line = self.surface.width as usize * 4;
        let mut bytes = vec![0; self.surface.bytes()];
        for (row, to) in bytes.chunks_exact_mut(line.max(1)).enumerate() {
            if let Some(device) = self.trusted {
                visible_memory::read_for_device(device, self.line(row).addr(), to);
                continue;
            }
            let (here, there) =
                (memory_slice(to.as_mut_ptr(), line), memory_slice(self.line(row), line));
            // SAFETY: The system copies at most `to`'s length into `to`, and skips unreadable
            // memory.
            unsafe {
                libc::process_vm_readv(
                    current_process(),
                    &raw const here,
                    1,
                    &raw const there,
                    1,
                    0,
                )
            };
        }
        bytes
    }

    /// Copies lines without gaps into the surface, up to its size.
    pub fn write(&self, bytes: &[u8]) {
        let line = self.surface.width as usize * 4;
        if line == 0 {
            return; // Empty.
        }
        for (row, from) in bytes.chunks(line).take(self.surface.height as usize).enumerate() {
            if let Some(device) = self.trusted {
                visible_memory::write_for_device(device, self.line(row).addr(), from);
                continue;
            }
            let here = memory_slice(from.as_ptr().cast_mut(), from.len());
            let there = memory_slice(self.line(row), from.len());
            // SAFETY: The system copies out of `from`; the application may write the surface, and
            // unwritable memory is skipped.
            unsafe {
                libc::process_vm_writev(
                    current_process(),
                    &raw const here,
                    1,
                    &raw const there,
                    1,
                    0,
                )
            };
        }
    }

    fn line(&self, row: usize) -> *mut u8 {
        let start = ptr::with_exposed_provenance_mut::<u8>(self.address);
        start.wrapping_add(row.wrapping_mul(self.pitch as usize))
    }
}

impl Device {
    /// The device's handle, if its driver is part of this program. A driver in this program can
    /// return only memory that the runtime maps for it; other addresses are not dereferenced.
    fn trusted_handle(&self) -> Option<usize> {
        self.0.adapter.umd.trusted.then_some(self.0.handle)
    }

    fn surface(&self, resource: Resource, index: u32) -> Option<Surface> {
        let ledger = self.0.ledger();
        let group = ledger.resources.get(&resource.0)?;
        group.surfaces.surfaces.get(index as usize).copied()
    }

    /// How many locks the application has on a surface.
    fn locks(&self, resource: Resource, index: u32) -> u32 {
        let ledger = self.0.ledger();
        let group = ledger.resources.get(&resource.0);
        group
            .and_then(|resource_entry| resource_entry.locks.get(index as usize))
            .copied()
            .unwrap_or(0)
    }

    fn note_lock(&self, resource: Resource, index: u32, locked: bool) {
        let mut ledger = self.0.ledger();
        let Some(group) = ledger.resources.get_mut(&resource.0) else { return };
        let Some(locks) = group.locks.get_mut(index as usize) else { return };
        *locks = if locked { *locks + 1 } else { locks.saturating_sub(1) };
        let what = if locked {
            EventKind::SurfaceLocked { index }
        } else {
            EventKind::SurfaceUnlocked { index }
        };
        self.0.log().emit(group.subject, || what);
    }

    /// Locks a surface (`Lock`).
    pub fn lock(
        &self,
        at: &mut Passive,
        (resource, index): (Resource, u32),
        request: LockRequest,
    ) -> Result<MappedSurface, HRESULT> {
        const NAME: &str = "pfnLock";
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        let flags = flag(request.discard, D3DDDI_LOCKFLAGS::Discard)
            | flag(request.no_overwrite, D3DDDI_LOCKFLAGS::NoOverwrite)
            | flag(request.do_not_wait, D3DDDI_LOCKFLAGS::DoNotWait)
            | flag(request.read_only, D3DDDI_LOCKFLAGS::ReadOnly);
        let mut args = D3DDDIARG_LOCK {
            hResource: self.driver_handle(resource)?,
            SubResourceIndex: index,
            Flags: D3DDDI_LOCKFLAGS { Value: flags },
            ..D3DDDIARG_LOCK::ZERO
        };
        let inside = self.0.enter(at, (NAME, Some(resource.0)))?;
        let locked = self.locks(resource, index);
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnLock;
        let answer = inside.call(at, slot, |lock, driver| {
            // SAFETY: The driver supplied the function and its handles; `args` outlives the call.
            unsafe { lock(driver, &raw mut args) }
        });
        self.judge_index(NAME, (resource, index), answer);
        let waits = answer == D3DDDIERR_WASSTILLDRAWING && request.do_not_wait;
        let removed = inside.reports_removal(answer);
        let dark = succeeded(answer) && args.pSurfData.is_null();
        let failed = (!succeeded(answer) && !waits && !removed) || dark;
        let broken = (locked > 0 && failed).then(|| {
            let dark = if dark { ", and pSurfData is NULL" } else { "" };
            let answer = result::hresult_name(answer);
            format!("the surface is locked, and a second lock returns {answer}{dark}")
        });
        self.0.judge(RuleId::UMD_LOCK_001, NAME, broken);
        let odd = answer == D3DDDIERR_WASSTILLDRAWING && !request.do_not_wait;
        let broken = odd.then(|| {
            "pfnLock returned D3DDDIERR_WASSTILLDRAWING, but DoNotWait is clear: pfnLock must wait".to_owned()
        });
        self.0.judge(RuleId::UMD_LOCK_008, NAME, broken);
        check_result(answer)?;
        let surface = self.surface(resource, index).ok_or(E_INVALIDARG)?;
        // No rule covers a first lock that succeeds and returns no memory: no component is blamed,
        // and the application gets an error.
        if args.pSurfData.is_null() {
            return Err(E_INVALIDARG);
        }
        self.note_lock(resource, index, true);
        let address = args.pSurfData.expose_provenance();
        Ok(MappedSurface {
            address,
            pitch: args.Pitch,
            surface,
            cookie: 0,
            trusted: self.trusted_handle(),
        })
    }

    /// Unlocks a surface (`Unlock`).
    pub fn unlock(
        &self,
        at: &mut Passive,
        (resource, index): (Resource, u32),
    ) -> Result<(), HRESULT> {
        const NAME: &str = "pfnUnlock";
        let args = D3DDDIARG_UNLOCK {
            hResource: self.driver_handle(resource)?,
            SubResourceIndex: index,
            ..D3DDDIARG_UNLOCK::ZERO
        };
        let inside = self.0.enter(at, (NAME, Some(resource.0)))?;
        let locked = self.locks(resource, index);
        // From here on the application may not use the lock; the driver must unlock.
        self.note_lock(resource, index, false);
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnUnlock;
        let answer = inside.call(at, slot, |unlock, driver| {
            // SAFETY: The driver supplied the function and its handles; `args` outlives the call.
            unsafe { unlock(driver, &raw const args) }
        });
        let broken = match (locked, answer) {
            (0, E_INVALIDARG) => None,
            _ if inside.reports_removal(answer) => None,
            (0, _) => Some(format!(
                "the surface is not locked, and the result is {} instead of E_INVALIDARG",
                result::hresult_name(answer)
            )),
            _ if succeeded(answer) => None,
            _ => Some(format!(
                "the surface is locked, and the result is {}",
                result::hresult_name(answer)
            )),
        };
        self.0.judge(RuleId::UMD_LOCK_002, NAME, broken);
        check_result(answer)
    }

    /// Locks a surface without waiting for the driver's other work (`LockAsync`). With `discard`
    /// the driver returns other memory, and uses it from [`Device::rename`] on.
    pub fn lock_async(
        &self,
        at: &mut Passive,
        (resource, index): (Resource, u32),
        discard: bool,
    ) -> Result<MappedSurface, HRESULT> {
        const NAME: &str = "pfnLockAsync";
        let flag = if discard {
            D3DDDI_LOCKASYNCFLAGS::Discard
        } else {
            D3DDDI_LOCKASYNCFLAGS::NoOverwrite
        };
        let mut args = D3DDDIARG_LOCKASYNC {
            hResource: self.driver_handle(resource)?,
            SubResourceIndex: index,
            Flags: D3DDDI_LOCKASYNCFLAGS { Value: flag },
            ..D3DDDIARG_LOCKASYNC::ZERO
        };
        let inside = self.0.enter(at, (NAME, Some(resource.0)))?;
        let before = self.0.ledger().submissions;
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnLockAsync;
        let answer = inside.call(at, slot, |lock, driver| {
            // SAFETY: The driver supplied the function and its handles; `args` outlives the call.
            unsafe { lock(driver, &raw mut args) }
        });
        let submitted = self.0.ledger().submissions - before;
        let broken =
            (submitted > 0).then(|| format!("work was submitted {submitted} times during {NAME}"));
        self.0.judge(RuleId::UMD_LOCK_010, NAME, broken);
        check_result(answer)?;
        let surface = self.surface(resource, index).ok_or(E_INVALIDARG)?;
        if args.pSurfData.is_null() {
            return Err(E_INVALIDARG);
        }
        self.note_lock(resource, index, true);
        let (address, cookie) = (args.pSurfData.expose_provenance(), args.hCookie.addr());
        Ok(MappedSurface {
            address,
            pitch: args.Pitch,
            surface,
            cookie,
            trusted: self.trusted_handle(),
        })
    }

    /// Unlocks a surface that `lock_async` locked (`UnlockAsync`).
    pub fn unlock_async(
        &self,
        at: &mut Passive,
        (resource, index): (Resource, u32),
    ) -> Result<(), HRESULT> {
        let args = D3DDDIARG_UNLOCKASYNC {
            hResource: self.driver_handle(resource)?,
            SubResourceIndex: index,
            ..D3DDDIARG_UNLOCKASYNC::ZERO
        };
        let inside = self.0.enter(at, ("pfnUnlockAsync", Some(resource.0)))?;
        self.note_lock(resource, index, false);
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnUnlockAsync;
        check_result(inside.call(at, slot, |unlock, driver| {
            // SAFETY: The driver supplied the function and its handles; `args` outlives the call.
            unsafe { unlock(driver, &raw const args) }
        }))
    }

    /// Makes the driver use the memory that a discarding lock returned (`Rename`).
    pub fn rename(
        &self,
        at: &mut Passive,
        (resource, index): (Resource, u32),
        mapped: &MappedSurface,
    ) -> Result<(), HRESULT> {
        let cookie: HANDLE = ptr::with_exposed_provenance_mut(mapped.cookie);
        let args = D3DDDIARG_RENAME {
            hResource: self.driver_handle(resource)?,
            SubResourceIndex: index,
            hCookie: cookie,
            ..D3DDDIARG_RENAME::ZERO
        };
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnRename;
        let name = ("pfnRename", Some(resource.0));
        check_result(self.0.call(at, name, slot, |rename, driver| {
            // SAFETY: The driver supplied the function and its handles; `args` outlives the call.
            unsafe { rename(driver, &raw const args) }
        }))
    }
}
