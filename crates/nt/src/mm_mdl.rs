//! Memory descriptor lists (`IoAllocateMdl`, `MmUnlockPages`, …), under their Windows names.
//! `MmProbeAndLockPages` raises exceptions and is with the others that do.
//!
//! A list is a block of the driver's pool in the layout of Windows: the structure `MDL`, then the
//! number of each page. A page of system memory ([`crate::Ram`]) has its physical page number. Any
//! other page has its own address as its physical address: the hardware does not reach it, and it
//! is mapped where it is.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::DriverMemory;
use crate::entry::{guarded, judge_irql};
use crate::import_table::import_rows;
use crate::io_layout::irp;
use crate::mm::{PAGE, is_readable, user_limit};
use crate::owned::{self, OwnedKind};
use crate::status::{STATUS_ACCESS_VIOLATION, STATUS_SUCCESS};
use crate::{Executive, ex};
use abi::{BOOLEAN, NTSTATUS, PIRP, PVOID};
use flight::{CallGuard, Run};
use std::ptr::{null_mut, with_exposed_provenance_mut};

import_rows! {
    IoAllocateMdl lacks "no quota";
    IoBuildPartialMdl;
    IoFreeMdl;
    MmAllocatePagesForMdl lacks "no memory below 4 GiB";
    MmAllocatePagesForMdlEx lacks "no memory below 4 GiB; ignores flags and cache types";
    MmBuildMdlForNonPagedPool;
    MmFreePagesFromMdl;
    MmMapLockedPages lacks "no mapping for user mode";
    MmMapLockedPagesSpecifyCache lacks "ignores cache types; no mapping for user mode";
    MmProtectMdlSystemAddress lacks "protects nothing";
    MmSizeOfMdl;
    MmUnlockPages;
    MmUnmapLockedPages;
}

/// The tag of lists in the driver's pool.
const MDL_TAG: u32 = u32::from_le_bytes(*b"Mdl ");
/// The longest buffer of a list. WINDOWS: documented, 4 GiB less a page.
const MAX_BYTES: u64 = 0xFFFF_F000;

/// Offsets in an `MDL`.
mod mdl {
    pub(super) const NEXT: usize = 0x00;
    pub(super) const SIZE: usize = 0x08;
    pub(super) const FLAGS: usize = 0x0A;
    pub(super) const MAPPED_SYSTEM_VA: usize = 0x18;
    pub(super) const START_VA: usize = 0x20;
    pub(super) const BYTE_COUNT: usize = 0x28;
    pub(super) const BYTE_OFFSET: usize = 0x2C;
    /// The page numbers.
    pub(super) const PAGES: usize = 0x30;
}

/// `MdlFlags`.
const MAPPED_TO_SYSTEM_VA: u16 = 0x01;
const PAGES_LOCKED: u16 = 0x02;
const SOURCE_IS_NONPAGED_POOL: u16 = 0x04;
const PARTIAL: u16 = 0x10;
const PARTIAL_HAS_BEEN_MAPPED: u16 = 0x20;
const WRITE_OPERATION: u16 = 0x80;

/// `KPROCESSOR_MODE`: a user's buffer.
const USER_MODE: i8 = 1;
/// `LOCK_OPERATION`: the device only reads the buffer.
const IO_READ_ACCESS: u32 = 0;

/// Number of pages that a buffer touches.
fn pages_of(address: usize, bytes: usize) -> usize {
    (address % PAGE + bytes).div_ceil(PAGE)
}

/// A list in the driver's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mdl(DriverMemory);

impl Mdl {
    fn allocate(import: &'static str, address: usize, bytes: usize) -> Option<Self> {
        if bytes as u64 > MAX_BYTES {
            return None;
        }
        let size = mdl::PAGES + pages_of(address, bytes) * 8;
        let block = ex::allocate(import, size, MDL_TAG, true, false)?;
        // SAFETY: The block is new and has these bytes.
        let list = Self(unsafe { DriverMemory::at(with_exposed_provenance_mut::<u8>(block)) });
        list.describe(address, bytes);
        // WINDOWS: the size has sixteen bits; that of a long list is truncated.
        list.0.write(mdl::SIZE, u16::try_from(size & 0xFFFF).unwrap_or(0));
        Some(list)
    }

    fn describe(self, address: usize, bytes: usize) {
        self.0.write(mdl::START_VA, address - address % PAGE);
        self.0.write(mdl::BYTE_OFFSET, u32::try_from(address % PAGE).unwrap_or(0));
        self.0.write(mdl::BYTE_COUNT, u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Its address.
    pub(crate) fn address(self) -> usize {
        self.0.address()
    }

    fn flags(self) -> u16 {
        self.0.read(mdl::FLAGS)
    }

    fn change_flags(self, set: u16, clear: u16) {
        self.0.write(mdl::FLAGS, self.flags() & !clear | set);
    }

    /// The address and the length of the buffer.
    fn buffer(self) -> (usize, usize) {
        let start: usize = self.0.read(mdl::START_VA);
        let offset: u32 = self.0.read(mdl::BYTE_OFFSET);
        (start.wrapping_add(offset as usize), self.0.read::<u32>(mdl::BYTE_COUNT) as usize)
    }

    fn page_count(self) -> usize {
        let (address, bytes) = self.buffer();
        pages_of(address, bytes)
    }

    fn page(self, index: usize) -> u64 {
        self.0.read(mdl::PAGES + index * 8)
    }

    fn set_page(self, index: usize, number: u64) {
        self.0.write(mdl::PAGES + index * 8, number);
    }

    /// Writes the page numbers of the buffer.
    fn fill_pages(self, executive: Option<&Executive>) {
        let (address, _) = self.buffer();
        for index in 0..self.page_count() {
            let page = address - address % PAGE + index * PAGE;
            let physical = executive.and_then(|executive| executive.physical_address(page));
            self.set_page(index, physical.unwrap_or(page as u64) / PAGE as u64);
        }
    }

    /// The pages as runs of system memory.
    fn runs(self) -> Vec<Run> {
        let page = PAGE as u64;
        let mut runs: Vec<Run> = Vec::new();
        for start in (0..self.page_count()).map(|index| self.page(index) * page) {
            match runs.last_mut() {
                Some(last) if last.start + last.bytes == start => last.bytes += page,
                _ => runs.push(Run { start, bytes: page }),
            }
        }
        runs
    }

    /// Checks and locks the buffer.
    ///
    /// # Errors
    ///
    /// `STATUS_ACCESS_VIOLATION` if a page does not exist, or if the buffer of a user is not below
    /// the system's addresses.
    fn lock(self, executive: Option<&Executive>, mode: i8, operation: u32) -> Result<(), NTSTATUS> {
        let (address, bytes) = self.buffer();
        let end = address.checked_add(bytes).ok_or(STATUS_ACCESS_VIOLATION)?;
        let pages = (address - address % PAGE..end).step_by(PAGE);
        let below = mode != USER_MODE || end <= user_limit();
        if !below || !pages.into_iter().all(is_readable) {
            return Err(STATUS_ACCESS_VIOLATION);
        }
        // WINDOWS: locked pages are not paged out (documented). Here they stay locked.
        crate::paged::remove(&(address..end));
        self.fill_pages(executive);
        let write = if operation == IO_READ_ACCESS { 0 } else { WRITE_OPERATION };
        self.change_flags(PAGES_LOCKED | write, 0);
        Ok(())
    }

    /// Maps the pages for the system. `None` if they cannot be mapped.
    fn map(self, import: &'static str) -> Option<usize> {
        let (address, _) = self.buffer();
        let is_here = address >= PAGE && self.page(0) == (address / PAGE) as u64;
        if is_here {
            return Some(address);
        }
        let executive = Executive::current(import)?;
        let view = executive.map_physical(&self.runs())?;
        Some(view + address % PAGE)
    }

    fn unmap(self, import: &'static str, mapped: usize) {
        let (address, _) = self.buffer();
        if mapped != address
            && let Some(executive) = Executive::current(import)
        {
            executive.unmap_physical(mapped - mapped % PAGE);
        }
        self.change_flags(0, MAPPED_TO_SYSTEM_VA | PARTIAL_HAS_BEEN_MAPPED);
        self.0.write(mdl::MAPPED_SYSTEM_VA, 0_usize);
    }

    fn unlock(self, import: &'static str) {
        owned::remove(OwnedKind::LockedPages, self.0.address());
        if self.flags() & MAPPED_TO_SYSTEM_VA != 0 {
            self.unmap(import, self.0.read(mdl::MAPPED_SYSTEM_VA));
        }
        self.change_flags(0, PAGES_LOCKED | WRITE_OPERATION);
    }
}

/// Allocates a list for a buffer of the running driver and locks it. `None` if the buffer does not
/// exist.
pub(crate) fn build_locked(import: &'static str, buffer: PVOID, bytes: u32) -> Option<Mdl> {
    let list = Mdl::allocate(import, buffer.expose_provenance(), bytes as usize)?;
    let executive = Executive::current(import);
    if list.lock(executive.as_deref(), 0, 1).is_err() {
        ex::free_pool(import, list.0.pointer(), MDL_TAG);
        return None;
    }
    list.0.write(mdl::MAPPED_SYSTEM_VA, list.map(import)?);
    list.change_flags(MAPPED_TO_SYSTEM_VA, 0);
    Some(list)
}

/// Unlocks and frees the list of a request.
pub(crate) fn unlock_and_free(import: &'static str, list: DriverMemory) {
    Mdl(list).unlock(import);
    ex::free_pool(import, list.pointer(), MDL_TAG);
}

/// Where a list is mapped.
pub(crate) fn system_address(list: DriverMemory) -> DriverMemory {
    list.non_null().map_or(list, |list| list.follow(mdl::MAPPED_SYSTEM_VA))
}

/// Checks and locks the buffer of a list, as `MmProbeAndLockPages` does.
///
/// # Errors
///
/// The status that `MmProbeAndLockPages` raises.
///
/// # Safety
///
/// `list` points to a valid `MDL`.
pub unsafe fn probe_and_lock_pages(list: PVOID, mode: i8, operation: u32) -> Result<(), NTSTATUS> {
    judge_irql("MmProbeAndLockPages");
    // SAFETY: The caller's contract.
    let list = Mdl(unsafe { DriverMemory::at(list) });
    let executive = Executive::current("MmProbeAndLockPages");
    list.lock(executive.as_deref(), mode, operation)?;
    owned::add(OwnedKind::LockedPages, list.0.address());
    Ok(())
}

/// Allocates a list for a buffer. With an IRP, the list is added to it.
pub unsafe extern "win64-unwind" fn IoAllocateMdl(
    buffer: PVOID,
    length: u32,
    secondary: BOOLEAN,
    _charge_quota: BOOLEAN,
    packet: PIRP,
) -> PVOID {
    const NAME: &str = "IoAllocateMdl";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let packet = unsafe { DriverMemory::at(packet) };
    let list = guarded(None, || Mdl::allocate(NAME, buffer.expose_provenance(), length as usize));
    let Some(list) = list else { return null_mut() };
    if let Some(packet) = packet.non_null() {
        let (mut link, mut offset) = (packet, irp::MDL_ADDRESS);
        if secondary != 0 {
            while let Some(next) = link.follow(offset).non_null() {
                (link, offset) = (next, mdl::NEXT);
            }
        }
        link.write(offset, list.address());
    }
    list.0.pointer()
}

/// Frees a list. The pages of a partial list are unmapped.
pub unsafe extern "win64-unwind" fn IoFreeMdl(list: PVOID) {
    const NAME: &str = "IoFreeMdl";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let memory = Mdl(unsafe { DriverMemory::at(list) });
    if memory.flags() & PARTIAL_HAS_BEEN_MAPPED != 0 {
        memory.unmap(NAME, memory.0.read(mdl::MAPPED_SYSTEM_VA));
    }
    ex::free_pool(NAME, list, MDL_TAG);
}

/// Describes a part of a list's buffer in another list. A length of zero means the rest.
pub unsafe extern "win64-unwind" fn IoBuildPartialMdl(
    source: PVOID,
    target: PVOID,
    address: PVOID,
    length: u32,
) {
    // SAFETY: The caller's contract.
    let source = Mdl(unsafe { DriverMemory::at(source) });
    // SAFETY: The caller's contract.
    let target = Mdl(unsafe { DriverMemory::at(target) });
    let (start, bytes) = source.buffer();
    let offset = address.addr().saturating_sub(start).min(bytes);
    let length = if length == 0 { bytes - offset } else { length as usize };
    target.describe(address.addr(), length);
    let first = (address.addr() / PAGE).saturating_sub(start / PAGE);
    for index in 0..target.page_count() {
        target.set_page(index, source.page(first + index));
    }
    let inherited = source.flags() & (MAPPED_TO_SYSTEM_VA | SOURCE_IS_NONPAGED_POOL);
    let kept = inherited | source.flags() & (PAGES_LOCKED | WRITE_OPERATION);
    target.change_flags(PARTIAL | kept, PARTIAL_HAS_BEEN_MAPPED);
    if inherited != 0 {
        let mapped: usize = source.0.read(mdl::MAPPED_SYSTEM_VA);
        target.0.write(mdl::MAPPED_SYSTEM_VA, mapped + offset);
    }
}

/// Fills in the pages of a buffer in non-paged pool, which is always mapped.
pub unsafe extern "win64-unwind" fn MmBuildMdlForNonPagedPool(list: PVOID) {
    const NAME: &str = "MmBuildMdlForNonPagedPool";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let list = Mdl(unsafe { DriverMemory::at(list) });
    guarded((), || {
        list.fill_pages(Executive::current(NAME).as_deref());
        list.0.write(mdl::MAPPED_SYSTEM_VA, list.buffer().0);
        list.change_flags(SOURCE_IS_NONPAGED_POOL, 0);
    });
}

/// Unlocks the pages of a list, and unmaps them.
pub unsafe extern "win64-unwind" fn MmUnlockPages(list: PVOID) {
    const NAME: &str = "MmUnlockPages";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let list = Mdl(unsafe { DriverMemory::at(list) });
    guarded((), || list.unlock(NAME));
}

/// Maps the locked pages of a list for the system.
pub unsafe extern "win64-unwind" fn MmMapLockedPages(list: PVOID, mode: i8) -> PVOID {
    // SAFETY: The caller's contract.
    unsafe { MmMapLockedPagesSpecifyCache(list, mode, 1, null_mut(), 1, 32) }
}

/// Maps the locked pages of a list for the system. Returns NULL if they cannot be mapped.
pub unsafe extern "win64-unwind" fn MmMapLockedPagesSpecifyCache(
    list: PVOID,
    mode: i8,
    _cache_type: u32,
    _requested: PVOID,
    _bug_check: u32,
    _priority: u32,
) -> PVOID {
    const NAME: &str = "MmMapLockedPagesSpecifyCache";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let list = Mdl(unsafe { DriverMemory::at(list) });
    let Some(address) = guarded(None, || list.map(NAME)) else { return null_mut() };
    if mode != USER_MODE {
        list.0.write(mdl::MAPPED_SYSTEM_VA, address);
        let partial = if list.flags() & PARTIAL == 0 { 0 } else { PARTIAL_HAS_BEEN_MAPPED };
        list.change_flags(MAPPED_TO_SYSTEM_VA | partial, 0);
    } else if CallGuard::current().is_none_or(|call| call.process.is_none()) {
        // WINDOWS: the mapping is in the current process. A mapping in the process of a client ends
        // with that process (our reading), so it is not counted.
        owned::add(OwnedKind::UserMapping, address);
    }
    with_exposed_provenance_mut(address)
}

/// Unmaps the pages of a list.
pub unsafe extern "win64-unwind" fn MmUnmapLockedPages(address: PVOID, list: PVOID) {
    const NAME: &str = "MmUnmapLockedPages";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let list = Mdl(unsafe { DriverMemory::at(list) });
    owned::remove(OwnedKind::UserMapping, address.addr());
    guarded((), || list.unmap(NAME, address.addr()));
}

/// Allocates pages of system memory, without mapping them.
pub unsafe extern "win64-unwind" fn MmAllocatePagesForMdl(
    lowest: i64,
    highest: i64,
    skip: i64,
    bytes: usize,
) -> PVOID {
    // SAFETY: The function has no requirements.
    unsafe { MmAllocatePagesForMdlEx(lowest, highest, skip, bytes, 1, 0) }
}

/// Allocates pages of system memory, without mapping them. Returns NULL if there are none in the
/// range of addresses.
///
/// WINDOWS: fewer pages than requested may be returned; here all or none.
pub unsafe extern "win64-unwind" fn MmAllocatePagesForMdlEx(
    lowest: i64,
    highest: i64,
    _skip: i64,
    bytes: usize,
    _cache_type: u32,
    _flags: u32,
) -> PVOID {
    const NAME: &str = "MmAllocatePagesForMdlEx";
    judge_irql(NAME);
    let range = lowest.cast_unsigned()..=highest.cast_unsigned();
    let allocate = || {
        let executive = Executive::current(NAME)?;
        let run = executive.allocate_physical(bytes, range)?;
        let list = Mdl::allocate(NAME, 0, bytes.next_multiple_of(PAGE));
        let Some(list) = list else {
            executive.free_physical(run);
            return None;
        };
        for index in 0..list.page_count() {
            list.set_page(index, (run.start / PAGE as u64) + index as u64);
        }
        list.change_flags(PAGES_LOCKED, 0);
        executive.keep_pages(list.address(), run);
        owned::add(OwnedKind::Memory, list.address());
        Some(list)
    };
    guarded(None, allocate).map_or(null_mut(), |list| list.0.pointer())
}

/// Frees the pages that `MmAllocatePagesForMdl` allocated. The driver frees the list itself, with
/// `ExFreePool`.
pub unsafe extern "win64-unwind" fn MmFreePagesFromMdl(list: PVOID) {
    const NAME: &str = "MmFreePagesFromMdl";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let list = Mdl(unsafe { DriverMemory::at(list) });
    guarded((), || {
        list.unlock(NAME);
        if let Some(executive) = Executive::current(NAME) {
            executive.free_pages(list.address());
            owned::remove(OwnedKind::Memory, list.address());
        }
    });
}

/// Number of bytes of a list for a buffer.
pub unsafe extern "win64-unwind" fn MmSizeOfMdl(buffer: PVOID, bytes: usize) -> usize {
    mdl::PAGES + pages_of(buffer.addr(), bytes) * 8
}

/// Changes the protection of a mapping: there is none.
pub unsafe extern "win64-unwind" fn MmProtectMdlSystemAddress(
    _list: PVOID,
    _protection: u32,
) -> NTSTATUS {
    STATUS_SUCCESS
}

#[cfg(test)]
#[path = "mm_mdl_tests.rs"]
mod tests;
