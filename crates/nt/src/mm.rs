//! The memory manager (`MmAllocateContiguousMemory`, `MmMapIoSpace`, …), under its Windows names.
//!
//! Contiguous memory is system memory ([`crate::Ram`]), so that the hardware sees the same bytes.
//! An executive without system memory creates its own. The registers of a device are mapped by its
//! [`IoSpace`].
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::entry::{guarded, judge_irql};
use crate::import_table::import_rows;
use crate::owned::{self, OwnedKind};
use crate::rtl_string::CountedString;
use crate::{DeviceRequest, Executive, Ram, dbg, ex, find_import};
use abi::{BOOLEAN, PVOID};
use flight::Run;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

import_rows! {
    MmAllocateContiguousMemory lacks "no memory below 4 GiB";
    MmAllocateContiguousMemorySpecifyCache lacks "no memory below 4 GiB; no boundaries, no cache types";
    MmAllocateContiguousNodeMemory lacks "no memory below 4 GiB; no boundaries, no protection, no nodes";
    MmAllocateNonCachedMemory lacks "the memory is cached";
    MmFreeContiguousMemory;
    MmFreeContiguousMemorySpecifyCache;
    MmFreeNonCachedMemory;
    MmGetPhysicalAddress lacks "memory that is not contiguous has its own address";
    MmGetSystemRoutineAddress;
    static MmHighestUserAddress = HIGHEST_USER_ADDRESS;
    MmIsAddressValid;
    MmLockPagableDataSection lacks "the section stays locked";
    MmMapIoSpace lacks "ignores cache types";
    MmMapIoSpaceEx lacks "ignores the protection";
    MmPageEntireDriver lacks "pages nothing";
    MmResetDriverPaging lacks "pages nothing";
    static MmSystemRangeStart = SYSTEM_RANGE_START;
    MmUnlockPagableImageSection lacks "the section stays locked";
    MmUnmapIoSpace;
    static MmUserProbeAddress = USER_PROBE_ADDRESS;
}

/// The size of a page.
pub(crate) const PAGE: usize = 4096;
/// The tag of non-cached memory in the driver's pool.
const NON_CACHED_TAG: u32 = u32::from_le_bytes(*b"MmNc");
/// The system memory of an executive that was given none.
const DEFAULT_RAM: u64 = 256 << 20;

/// The end of the addresses of users, as drivers see it. WINDOWS: 64 KiB below the end of the lower
/// half. [`set_user_limit`] moves it to where the driver's memory begins.
static USER_PROBE_ADDRESS: AtomicUsize = AtomicUsize::new(0x7FFF_FFFF_0000);
static HIGHEST_USER_ADDRESS: AtomicUsize = AtomicUsize::new(0x7FFF_FFFE_FFFF);
static SYSTEM_RANGE_START: AtomicUsize = AtomicUsize::new(0xFFFF_8000_0000_0000);

/// Sets the line between the addresses of users, below it, and of the system.
pub fn set_user_limit(line: usize) {
    USER_PROBE_ADDRESS.store(line, Ordering::Relaxed);
    HIGHEST_USER_ADDRESS.store(line.saturating_sub(1), Ordering::Relaxed);
    SYSTEM_RANGE_START.store(line, Ordering::Relaxed);
}

/// The line between the addresses of users, below it, and of the system.
pub fn user_limit() -> usize {
    USER_PROBE_ADDRESS.load(Ordering::Relaxed)
}

/// Maps the registers and the memory of devices.
pub trait IoSpace: Send + Sync {
    /// Maps physical addresses of a device; returns the address. `None` if no device answers there.
    fn map(&self, physical: u64, bytes: u64) -> Option<usize>;

    /// Removes a mapping.
    fn unmap(&self, address: usize, bytes: u64);
}

/// The memory that a driver has from the memory manager.
#[derive(Default)]
pub(crate) struct MemoryState {
    ram: Option<Arc<dyn flight::Ram>>,
    io_space: Option<Arc<dyn IoSpace>>,
    /// The mappings of system memory: the pages of each, and whether the mapping owns them.
    views: BTreeMap<usize, (Vec<Run>, bool)>,
    /// The pages of lists that `MmAllocatePagesForMdl` allocated.
    list_pages: BTreeMap<usize, Run>,
}

impl fmt::Debug for MemoryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryState").field("views", &self.views).finish_non_exhaustive()
    }
}

impl Executive {
    fn memory_state(&self) -> MutexGuard<'_, MemoryState> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the system memory, from which contiguous memory is allocated. Without it the executive
    /// creates its own.
    pub fn set_ram(&self, ram: Arc<dyn flight::Ram>) {
        self.memory_state().ram = Some(ram);
    }

    /// Sets what maps the registers of devices.
    pub fn set_io_space(&self, io_space: Arc<dyn IoSpace>) {
        self.memory_state().io_space = Some(io_space);
    }

    fn io_space(&self) -> Option<Arc<dyn IoSpace>> {
        self.memory_state().io_space.clone()
    }

    fn ram(&self) -> Option<Arc<dyn flight::Ram>> {
        let mut state = self.memory_state();
        if state.ram.is_none() {
            let ram: Arc<dyn flight::Ram> = Ram::new(DEFAULT_RAM).ok()?;
            state.ram = Some(ram);
        }
        state.ram.clone()
    }

    /// Allocates contiguous pages with addresses in a range.
    pub(crate) fn allocate_physical(
        &self,
        bytes: usize,
        range: RangeInclusive<u64>,
    ) -> Option<Run> {
        let ram = self.ram()?;
        let run = ram.allocate(bytes as u64)?;
        if range.contains(&run.start) && range.contains(&(run.start + run.bytes - 1)) {
            return Some(run);
        }
        ram.free(run);
        None
    }

    pub(crate) fn free_physical(&self, run: Run) {
        if let Some(ram) = self.ram() {
            ram.free(run);
        }
    }

    /// Maps pages of system memory. `None` if one does not exist.
    pub(crate) fn map_physical(&self, runs: &[Run]) -> Option<usize> {
        let view = self.ram()?.map(runs)?;
        self.memory_state().views.insert(view, (runs.to_vec(), false));
        Some(view)
    }

    /// Removes a mapping, and frees its pages if it owns them. Returns whether it existed.
    pub(crate) fn unmap_physical(&self, view: usize) -> bool {
        let Some(ram) = self.ram() else { return false };
        let Some((runs, owned)) = self.memory_state().views.remove(&view) else { return false };
        ram.unmap(view);
        if owned {
            for run in runs {
                ram.free(run);
            }
        }
        true
    }

    /// The physical address of a mapped address.
    pub(crate) fn physical_address(&self, address: usize) -> Option<u64> {
        let state = self.memory_state();
        let (start, (runs, _)) = state.views.range(..=address).next_back()?;
        let mut offset = (address - start) as u64;
        for run in runs {
            if offset < run.bytes {
                return Some(run.start + offset);
            }
            offset -= run.bytes;
        }
        None
    }

    /// Records the pages of a list.
    pub(crate) fn keep_pages(&self, list: usize, run: Run) {
        self.memory_state().list_pages.insert(list, run);
    }

    /// Frees the pages of a list.
    pub(crate) fn free_pages(&self, list: usize) {
        let run = self.memory_state().list_pages.remove(&list);
        if let Some(run) = run {
            self.free_physical(run);
        }
    }

    /// Number of blocks of contiguous memory, of mappings and of lists of pages that the driver has
    /// not freed.
    #[cfg(test)]
    pub(crate) fn memory_in_use(&self) -> usize {
        let state = self.memory_state();
        state.views.len() + state.list_pages.len()
    }

    fn allocate_contiguous(&self, bytes: usize, range: RangeInclusive<u64>) -> Option<usize> {
        let run = self.allocate_physical(bytes, range)?;
        let Some(view) = self.map_physical(&[run]) else {
            self.free_physical(run);
            return None;
        };
        if let Some((_, owned)) = self.memory_state().views.get_mut(&view) {
            *owned = true;
        }
        Some(view)
    }
}

/// Whether a byte can be read. Never faults.
pub(crate) fn is_readable(address: usize) -> bool {
    let mut byte = 0_u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: with_exposed_provenance_mut(address), iov_len: 1 };
    // SAFETY: The function has no requirements.
    let process = unsafe { libc::getpid() };
    // SAFETY: `local` describes `byte`; the kernel checks the remote address.
    let read =
        unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    read == 1
}

fn contiguous(name: &'static str, bytes: usize, range: RangeInclusive<u64>) -> PVOID {
    judge_irql(name);
    let allocate = || {
        let address = Executive::current(name)?.allocate_contiguous(bytes, range)?;
        owned::add(OwnedKind::Memory, address);
        Some(address)
    };
    guarded(None, allocate).map_or(null_mut(), with_exposed_provenance_mut)
}

/// Allocates contiguous memory below an address.
pub unsafe extern "win64-unwind" fn MmAllocateContiguousMemory(
    bytes: usize,
    highest: i64,
) -> PVOID {
    contiguous("MmAllocateContiguousMemory", bytes, 0..=highest.cast_unsigned())
}

/// Allocates contiguous memory in a range of addresses.
pub unsafe extern "win64-unwind" fn MmAllocateContiguousMemorySpecifyCache(
    bytes: usize,
    lowest: i64,
    highest: i64,
    _boundary: i64,
    _cache_type: u32,
) -> PVOID {
    let range = lowest.cast_unsigned()..=highest.cast_unsigned();
    contiguous("MmAllocateContiguousMemorySpecifyCache", bytes, range)
}

/// Allocates contiguous memory in a range of addresses, near a node.
pub unsafe extern "win64-unwind" fn MmAllocateContiguousNodeMemory(
    bytes: usize,
    lowest: i64,
    highest: i64,
    _boundary: i64,
    _protection: u32,
    _node: u32,
) -> PVOID {
    let range = lowest.cast_unsigned()..=highest.cast_unsigned();
    contiguous("MmAllocateContiguousNodeMemory", bytes, range)
}

/// Frees contiguous memory.
pub unsafe extern "win64-unwind" fn MmFreeContiguousMemory(address: PVOID) {
    free_contiguous("MmFreeContiguousMemory", address);
}

/// Frees contiguous memory.
pub unsafe extern "win64-unwind" fn MmFreeContiguousMemorySpecifyCache(
    address: PVOID,
    _bytes: usize,
    _cache_type: u32,
) {
    free_contiguous("MmFreeContiguousMemorySpecifyCache", address);
}

fn free_contiguous(name: &'static str, address: PVOID) {
    judge_irql(name);
    guarded((), || {
        let Some(executive) = Executive::current(name) else { return };
        owned::remove(OwnedKind::Memory, address.addr());
        if !executive.unmap_physical(address.addr()) {
            dbg::print(name, format!("{name} of memory that is not allocated"));
        }
    });
}

/// Allocates whole pages.
pub unsafe extern "win64-unwind" fn MmAllocateNonCachedMemory(bytes: usize) -> PVOID {
    const NAME: &str = "MmAllocateNonCachedMemory";
    judge_irql(NAME);
    let bytes = bytes.max(1).checked_next_multiple_of(PAGE);
    let block = guarded(None, || ex::allocate(NAME, bytes?, NON_CACHED_TAG, true, false));
    block.map_or(null_mut(), with_exposed_provenance_mut)
}

/// Frees memory of `MmAllocateNonCachedMemory`.
pub unsafe extern "win64-unwind" fn MmFreeNonCachedMemory(address: PVOID, _bytes: usize) {
    judge_irql("MmFreeNonCachedMemory");
    ex::free_pool("MmFreeNonCachedMemory", address, NON_CACHED_TAG);
}

/// The physical address of an address.
pub unsafe extern "win64-unwind" fn MmGetPhysicalAddress(address: PVOID) -> i64 {
    let physical = || Executive::current("MmGetPhysicalAddress")?.physical_address(address.addr());
    guarded(None, physical).unwrap_or(address.addr() as u64).cast_signed()
}

/// Whether a read of a byte at an address does not fault.
pub unsafe extern "win64-unwind" fn MmIsAddressValid(address: PVOID) -> BOOLEAN {
    is_readable(address.addr()).into()
}

/// Maps physical addresses: of system memory, or of a device. Returns NULL if nothing is there.
pub unsafe extern "win64-unwind" fn MmMapIoSpace(
    physical: i64,
    bytes: usize,
    _cache_type: u32,
) -> PVOID {
    map_io_space("MmMapIoSpace", physical.cast_unsigned(), bytes)
}

/// Maps physical addresses with a protection, which is ignored.
pub unsafe extern "win64-unwind" fn MmMapIoSpaceEx(
    physical: i64,
    bytes: usize,
    _protection: u32,
) -> PVOID {
    map_io_space("MmMapIoSpaceEx", physical.cast_unsigned(), bytes)
}

fn map_io_space(name: &'static str, physical: u64, bytes: usize) -> PVOID {
    judge_irql(name);
    let map = || {
        let executive = Executive::current(name)?;
        let device = executive.io_space().and_then(|space| space.map(physical, bytes as u64));
        let in_page = physical % PAGE as u64;
        let memory = || {
            let length = (in_page + bytes as u64).next_multiple_of(PAGE as u64);
            let view =
                executive.map_physical(&[Run { start: physical - in_page, bytes: length }])?;
            Some(view + usize::try_from(in_page).ok()?)
        };
        let mapped = device.or_else(memory);
        let (start, bytes, found) = (physical, bytes as u64, mapped.is_some());
        DeviceRequest::Mapping { by: name, start, bytes, mapped: found }.record();
        if let Some(mapped) = mapped {
            owned::add(OwnedKind::Mapping, mapped);
        } else {
            dbg::print(name, format!("{name} of {physical:#x}: no device answers"));
        }
        mapped
    };
    guarded(None, map).map_or(null_mut(), with_exposed_provenance_mut)
}

/// Removes a mapping of physical addresses.
pub unsafe extern "win64-unwind" fn MmUnmapIoSpace(address: PVOID, bytes: usize) {
    const NAME: &str = "MmUnmapIoSpace";
    judge_irql(NAME);
    guarded((), || {
        let Some(executive) = Executive::current(NAME) else { return };
        owned::remove(OwnedKind::Mapping, address.addr());
        let view = address.addr() - address.addr() % PAGE;
        if !executive.unmap_physical(view)
            && let Some(space) = executive.io_space()
        {
            space.unmap(address.addr(), bytes as u64);
        }
    });
}

/// The address of a function of the system, by name. Returns NULL if there is none.
pub unsafe extern "win64-unwind" fn MmGetSystemRoutineAddress(name: PVOID) -> PVOID {
    const NAME: &str = "MmGetSystemRoutineAddress";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let name = unsafe { CountedString::at(name) };
    let address = || {
        let import = find_import(&name.text())?;
        Some(import.address.cast_mut().cast())
    };
    guarded(None, address).unwrap_or(null_mut())
}

/// Locks a pageable section, for as long as the driver is loaded. Returns a handle.
pub unsafe extern "win64-unwind" fn MmLockPagableDataSection(address: PVOID) -> PVOID {
    judge_irql("MmLockPagableDataSection");
    crate::paged::remove(&(address.addr()..address.addr() + 1));
    address
}

/// Unlocks a pageable section.
pub unsafe extern "win64-unwind" fn MmUnlockPagableImageSection(_section: PVOID) {
    judge_irql("MmUnlockPagableImageSection");
}

/// Makes a driver pageable: nothing is paged.
pub unsafe extern "win64-unwind" fn MmPageEntireDriver(address: PVOID) -> PVOID {
    address
}

/// Restores the paging of a driver.
pub unsafe extern "win64-unwind" fn MmResetDriverPaging(_address: PVOID) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{TestString, call, count, fly, fly_with};

    /// The highest address of a driver without a limit.
    const ANY: i64 = i64::MAX;

    #[test]
    fn contiguous_memory_is_the_memory_of_the_machine() {
        let executive = Executive::new("planted");
        let ram = Ram::new(1 << 20).unwrap();
        executive.set_ram(ram.clone());
        fly_with(&executive, || {
            let block = call!(MmAllocateContiguousMemory, 10_000, ANY);
            assert!(block.addr().is_multiple_of(PAGE));
            let physical = call!(MmGetPhysicalAddress, block).cast_unsigned();
            let inside = call!(MmGetPhysicalAddress, block.wrapping_byte_add(5000)).cast_unsigned();
            assert_eq!(inside, physical + 5000);
            assert!(flight::Ram::write(&*ram, physical + 5, &[7]));
            // SAFETY: The block has this byte.
            assert_eq!(unsafe { block.cast::<u8>().wrapping_add(5).read() }, 7);
            assert_eq!((ram.allocated_bytes(), executive.memory_in_use()), (12_288, 1));
            call!(MmFreeContiguousMemory, block);
            assert_eq!((ram.allocated_bytes(), executive.memory_in_use()), (0, 0));
        });
    }

    #[test]
    fn a_range_of_addresses_is_respected() {
        let events = fly(|| {
            assert!(call!(MmAllocateContiguousMemory, 4096, 0xFFFF_FFFF).is_null());
            let low = 1 << 32;
            let cached = call!(MmAllocateContiguousMemorySpecifyCache, 4096, low, ANY, 0, 1);
            let other = call!(MmAllocateContiguousNodeMemory, 4096, 0, ANY, 0, 4, 0);
            assert!(!cached.is_null() && !other.is_null() && cached != other);
            call!(MmFreeContiguousMemorySpecifyCache, cached, 4096, 1);
            call!(MmFreeContiguousMemorySpecifyCache, other, 4096, 1);
            call!(MmFreeContiguousMemory, other); // Twice.
        });
        assert_eq!(count(&events, "driver.printed"), 1);
    }

    #[test]
    fn addresses_are_checked_without_a_fault() {
        let mut byte = 0_u8;
        assert_eq!(call!(MmIsAddressValid, (&raw mut byte).cast()), 1);
        for address in [0, 0x10, 0xFFFF_8000_0000_0000, usize::MAX] {
            let address = std::ptr::without_provenance_mut(address);
            assert_eq!(call!(MmIsAddressValid, address), 0);
        }
    }

    #[test]
    fn registers_are_mapped_by_their_device() {
        struct Registers;
        impl IoSpace for Registers {
            fn map(&self, physical: u64, bytes: u64) -> Option<usize> {
                (physical == 0xF000_0000 && bytes == 64).then_some(0x5000)
            }
            fn unmap(&self, address: usize, bytes: u64) {
                assert_eq!((address, bytes), (0x5000, 64));
                dbg::print("a test", "unmapped".to_owned());
            }
        }
        let executive = Executive::new("planted");
        executive.set_io_space(Arc::new(Registers));
        let events = fly_with(&executive, || {
            let mapped = call!(MmMapIoSpace, 0xF000_0000, 64, 0);
            assert_eq!(mapped.addr(), 0x5000);
            call!(MmUnmapIoSpace, mapped, 64);
            assert!(call!(MmMapIoSpaceEx, 0xE000_0000, 64, 4).is_null());
            let block = call!(MmAllocateContiguousMemory, 4096, ANY);
            let physical = call!(MmGetPhysicalAddress, block);
            let again = call!(MmMapIoSpaceEx, physical + 16, 8, 4);
            assert_eq!(call!(MmGetPhysicalAddress, again), physical + 16);
            call!(MmUnmapIoSpace, again, 8);
            call!(MmFreeContiguousMemory, block);
        });
        assert_eq!((count(&events, "driver.printed"), executive.memory_in_use()), (2, 0));
    }

    #[test]
    fn routines_are_found_by_name() {
        fly(|| {
            let find = |name: &str| {
                let mut name = TestString::new(name);
                call!(MmGetSystemRoutineAddress, name.pointer()).addr()
            };
            let address = find_import("RtlGetVersion").map(|import| import.address.addr());
            assert_eq!((Some(find("RtlGetVersion")), find("RtlNothing")), (address, 0));
        });
    }

    #[test]
    fn the_line_between_users_and_the_system_is_a_variable() {
        let value = |name: &str| {
            let import = find_import(name).unwrap();
            // SAFETY: The variable is a number of this size.
            unsafe { import.address.cast::<usize>().read() }
        };
        assert_eq!(value("MmUserProbeAddress"), user_limit());
        assert_eq!(value("MmHighestUserAddress"), user_limit() - 1);
        assert!(value("MmSystemRangeStart") >= user_limit());
    }

    #[test]
    fn non_cached_memory_is_whole_pages() {
        let events = fly(|| {
            let block = call!(MmAllocateNonCachedMemory, 5000);
            assert!(block.addr().is_multiple_of(PAGE));
            call!(MmFreeNonCachedMemory, block, 5000);
            let section = call!(MmLockPagableDataSection, block);
            call!(MmUnlockPagableImageSection, section);
            call!(MmResetDriverPaging, call!(MmPageEntireDriver, block));
        });
        assert_eq!((count(&events, "pool.freed"), count(&events, "pool.bad-free")), (1, 0));
    }
}
