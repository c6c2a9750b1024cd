//! The `Ex` functions under their Windows names.
//!
//! They act on the pool of the driver that is running on this thread. Without a running driver
//! there is no pool: they allocate and free nothing. Only an internal error unwinds out of them.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::Pool;
use crate::entry::{guarded, judge_at_most, judge_irql};
use crate::import_table::import_rows;
use crate::ke_irql::APC_LEVEL;
use abi::PVOID;
use std::ptr;

/// Charges the block to the process. Not supported: there is no quota.
pub const POOL_FLAG_USE_QUOTA: u64 = 0x1;
/// The block is not zeroed.
pub const POOL_FLAG_UNINITIALIZED: u64 = 0x2;
/// The block starts on a cache line. Not supported: it is aligned like any other block.
pub const POOL_FLAG_CACHE_ALIGNED: u64 = 0x8;
/// Raises an exception on failure. Not supported: the function returns NULL.
pub const POOL_FLAG_RAISE_ON_FAILURE: u64 = 0x20;
/// Non-paged memory.
pub const POOL_FLAG_NON_PAGED: u64 = 0x40;
/// Executable non-paged memory. Not supported: the memory is not executable.
pub const POOL_FLAG_NON_PAGED_EXECUTE: u64 = 0x80;
/// Paged memory.
pub const POOL_FLAG_PAGED: u64 = 0x100;

const KINDS: u64 = POOL_FLAG_NON_PAGED | POOL_FLAG_NON_PAGED_EXECUTE | POOL_FLAG_PAGED;
const REQUIRED: u64 = KINDS
    | POOL_FLAG_USE_QUOTA
    | POOL_FLAG_UNINITIALIZED
    | POOL_FLAG_CACHE_ALIGNED
    | POOL_FLAG_RAISE_ON_FAILURE;
/// The optional flags, which are ignored if unknown: the upper half.
const OPTIONAL: u64 = 0xFFFF_FFFF_0000_0000;

import_rows! {
    ExAllocatePool lacks "no cache alignment, no exceptions";
    ExAllocatePool2 lacks "no quota, no cache alignment, no exceptions";
    ExAllocatePool3 lacks "no quota, no cache alignment, no exceptions, no extended parameters";
    ExAllocatePoolWithQuotaTag lacks "no quota, no cache alignment, no exceptions";
    ExAllocatePoolWithTag lacks "no cache alignment, no exceptions";
    ExAllocatePoolWithTagPriority lacks "no cache alignment, no exceptions, no priority";
    ExAllocatePoolZero lacks "no cache alignment, no exceptions";
    ExFreePool;
    ExFreePoolWithTag;
}

/// Allocates a block of pool.
///
/// WINDOWS: documented. Returns NULL for a tag of zero, for zero bytes, and for invalid flags:
/// here, if they do not name exactly one kind of pool, or contain an unknown required flag.
///
/// # Safety
///
/// No requirements. The caller owns the returned memory until it frees the block.
pub unsafe extern "win64-unwind" fn ExAllocatePool2(flags: u64, bytes: usize, tag: u32) -> PVOID {
    allocate_flagged("ExAllocatePool2", "ExAllocatePool2 with POOL_FLAG_PAGED", flags, bytes, tag)
}

/// Allocates a block of pool with extended parameters, which are ignored.
///
/// WINDOWS: documented, as for [`ExAllocatePool2`].
///
/// # Safety
///
/// As for [`ExAllocatePool2`].
pub unsafe extern "win64-unwind" fn ExAllocatePool3(
    flags: u64,
    bytes: usize,
    tag: u32,
    _parameters: PVOID,
    _parameter_count: u32,
) -> PVOID {
    allocate_flagged("ExAllocatePool3", "ExAllocatePool3 with POOL_FLAG_PAGED", flags, bytes, tag)
}

/// Entry rule: paged pool is allocated at most at `APC_LEVEL`, other pool where the page allows it.
fn judge_pool_irql(import: &'static str, paged_name: &'static str, paged: bool) {
    if paged { judge_at_most(import, paged_name, APC_LEVEL) } else { judge_irql(import) }
}

/// The functions with flags.
fn allocate_flagged(
    import: &'static str,
    paged_name: &'static str,
    flags: u64,
    bytes: usize,
    tag: u32,
) -> PVOID {
    let take = || {
        let valid = (flags & KINDS).is_power_of_two() && flags & !(REQUIRED | OPTIONAL) == 0;
        let pool = Pool::current(import).filter(|_| valid)?;
        let (zeroed, paged) = (flags & POOL_FLAG_UNINITIALIZED == 0, flags & POOL_FLAG_PAGED != 0);
        judge_pool_irql(import, paged_name, paged);
        allocate_observed(&pool, bytes, tag, zeroed, paged)
    };
    guarded(None, take).map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
}

/// Allocates an uninitialised block of pool.
///
/// WINDOWS: documented. A block of zero bytes is a block, though the page warns of it.
/// A tag of zero is a bug check (0xC2, 0x9B); here nothing is allocated.
///
/// # Safety
///
/// As for [`ExAllocatePool2`].
pub unsafe extern "win64-unwind" fn ExAllocatePoolWithTag(
    pool_type: u32,
    bytes: usize,
    tag: u32,
) -> PVOID {
    const NAME: &str = "ExAllocatePoolWithTag";
    allocate_typed(NAME, "ExAllocatePoolWithTag of PagedPool", pool_type, bytes, tag)
}

/// Allocates an uninitialised block of pool, with a priority that is ignored.
///
/// # Safety
///
/// As for [`ExAllocatePool2`].
pub unsafe extern "win64-unwind" fn ExAllocatePoolWithTagPriority(
    pool_type: u32,
    bytes: usize,
    tag: u32,
    _priority: i32,
) -> PVOID {
    const NAME: &str = "ExAllocatePoolWithTagPriority";
    allocate_typed(NAME, "ExAllocatePoolWithTagPriority of PagedPool", pool_type, bytes, tag)
}

/// Allocates an uninitialised block of pool. WINDOWS: its tag is `None`.
///
/// # Safety
///
/// As for [`ExAllocatePool2`].
pub unsafe extern "win64-unwind" fn ExAllocatePool(pool_type: u32, bytes: usize) -> PVOID {
    const TAG: u32 = u32::from_le_bytes(*b"None");
    allocate_typed("ExAllocatePool", "ExAllocatePool of PagedPool", pool_type, bytes, TAG)
}

/// Allocates a zeroed block of pool.
///
/// # Safety
///
/// As for [`ExAllocatePool2`].
pub unsafe extern "win64-unwind" fn ExAllocatePoolZero(
    pool_type: u32,
    bytes: usize,
    tag: u32,
) -> PVOID {
    const NAME: &str = "ExAllocatePoolZero";
    let pool_type = pool_type | POOL_ZERO_ALLOCATION;
    allocate_typed(NAME, "ExAllocatePoolZero of PagedPool", pool_type, bytes, tag)
}

/// Allocates an uninitialised block of pool and charges it to the process: there is no quota.
///
/// # Safety
///
/// As for [`ExAllocatePool2`].
pub unsafe extern "win64-unwind" fn ExAllocatePoolWithQuotaTag(
    pool_type: u32,
    bytes: usize,
    tag: u32,
) -> PVOID {
    const NAME: &str = "ExAllocatePoolWithQuotaTag";
    allocate_typed(NAME, "ExAllocatePoolWithQuotaTag of PagedPool", pool_type, bytes, tag)
}

/// Bit of `POOL_TYPE`: the pool is paged.
const POOL_PAGED: u32 = 1;
/// Bit of `POOL_TYPE`: the block is zeroed.
const POOL_ZERO_ALLOCATION: u32 = 0x400;

/// The functions with a `POOL_TYPE`.
fn allocate_typed(
    import: &'static str,
    paged_name: &'static str,
    pool_type: u32,
    bytes: usize,
    tag: u32,
) -> PVOID {
    let (paged, zeroed) = (pool_type & POOL_PAGED != 0, pool_type & POOL_ZERO_ALLOCATION != 0);
    let take = || {
        judge_pool_irql(import, paged_name, paged);
        allocate(import, bytes.max(1), tag, zeroed, paged)
    };
    guarded(None, take).map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
}

/// Allocates a block for the function `import`. The driver owns it.
pub(crate) fn allocate(
    import: &'static str,
    bytes: usize,
    tag: u32,
    zeroed: bool,
    paged: bool,
) -> Option<usize> {
    allocate_observed(&*Pool::current(import)?, bytes, tag, zeroed, paged)
}

fn allocate_observed(
    pool: &Pool,
    bytes: usize,
    tag: u32,
    zeroed: bool,
    paged: bool,
) -> Option<usize> {
    let block = pool.allocate_tagged(bytes, tag, zeroed, paged)?;
    if let Some(watch) = pool.observer() {
        watch.allocated(block);
    }
    Some(block)
}

/// Frees a block of pool. If `block` is not a live block with that tag, the error is logged.
///
/// # Safety
///
/// The caller does not use the block afterwards. The pointer is not dereferenced, so it may be
/// invalid.
pub unsafe extern "win64-unwind" fn ExFreePoolWithTag(block: PVOID, tag: u32) {
    free_pool("ExFreePoolWithTag", block, tag);
}

/// Frees a block of pool with any tag.
///
/// # Safety
///
/// As for [`ExFreePoolWithTag`].
pub unsafe extern "win64-unwind" fn ExFreePool(block: PVOID) {
    free_pool("ExFreePool", block, 0);
}

/// Frees a block with a tag, or with any tag if `tag` is zero, for the function `import`.
pub(crate) fn free_pool(import: &'static str, block: PVOID, tag: u32) {
    let free = || {
        let Some(pool) = Pool::current(import) else { return };
        if pool.observer().is_none_or(|pool_observer| pool_observer.freeing(block.addr())) {
            pool.free_tagged(block.addr(), tag);
        }
    };
    guarded((), free);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{call, count, fly};
    use flight::{EventKind, Log};
    use std::sync::Arc;

    const TAG: u32 = u32::from_le_bytes(*b"Wind");

    fn take(flags: u64, bytes: usize, tag: u32) -> PVOID {
        // SAFETY: The function has no requirements.
        unsafe { ExAllocatePool2(flags, bytes, tag) }
    }

    fn free(block: PVOID, tag: u32) {
        // SAFETY: The tests do not use a block after this.
        unsafe { ExFreePoolWithTag(block, tag) };
    }

    #[test]
    fn a_driver_takes_and_frees_in_its_own_pool() {
        let log = Arc::new(Log::new());
        Pool::new(log.clone()).run_driver(|| {
            let block = take(POOL_FLAG_NON_PAGED, 24, TAG);
            assert!(!block.is_null());
            free(block, TAG);
        });
        let names: Vec<_> = log.take().iter().map(|event| event.kind.name()).collect();
        assert_eq!(names, ["pool.allocated", "pool.freed"]);
    }

    #[test]
    fn any_tag_will_do_without_a_tag() {
        let log = Arc::new(Log::new());
        Pool::new(log.clone()).run_driver(|| {
            let block = take(POOL_FLAG_PAGED, 24, TAG);
            // SAFETY: The test does not use the block after this.
            unsafe { ExFreePool(block) };
        });
        assert!(
            !log.take().iter().any(|event| matches!(event.kind, EventKind::PoolBadFree { .. }))
        );
    }

    #[test]
    fn outside_any_driver_there_is_no_pool() {
        assert!(take(POOL_FLAG_NON_PAGED, 24, TAG).is_null());
        free(ptr::without_provenance_mut(0x1000), TAG);
        let names = crate::calls_without_context();
        assert!(names.contains(&"ExAllocatePool2") && names.contains(&"ExFreePoolWithTag"));
        assert!(!names.contains(&"ExFreePool"), "it was called in a pool only");
    }

    #[test]
    fn what_is_not_documented_takes_nothing() {
        let log = Arc::new(Log::new());
        let both = POOL_FLAG_PAGED | POOL_FLAG_NON_PAGED;
        let raise = POOL_FLAG_NON_PAGED | POOL_FLAG_RAISE_ON_FAILURE;
        Pool::new(log.clone()).run_driver(|| {
            assert!(take(POOL_FLAG_NON_PAGED, 0, TAG).is_null(), "no bytes");
            assert!(take(POOL_FLAG_NON_PAGED, 24, 0).is_null(), "no tag");
            assert!(take(POOL_FLAG_UNINITIALIZED, 24, TAG).is_null(), "no kind");
            assert!(take(both, 24, TAG).is_null(), "two kinds");
            assert!(take(POOL_FLAG_PAGED | 0x400, 24, TAG).is_null(), "an unknown flag");
            assert!(take(raise, usize::MAX, TAG).is_null(), "it does not raise");
        });
        assert!(log.take().is_empty());
    }

    #[test]
    fn a_pool_type_says_whether_a_block_is_paged_and_zeroed() {
        let events = fly(|| {
            let (non_paged, paged, zeroed) = (0x200, 1, 0x400);
            let first = |block: PVOID| {
                // SAFETY: The block is live and has this byte.
                unsafe { block.cast::<u8>().read() }
            };
            let block = call!(ExAllocatePoolWithTag, non_paged, 8, TAG);
            assert_eq!(first(block), 0xCD);
            free(block, TAG);
            let block = call!(ExAllocatePoolWithTag, paged | zeroed, 8, TAG);
            let is_paged = Pool::current("a test").unwrap().extent(block.addr());
            assert_eq!((first(block), is_paged), (0, Some((8, true))));
            free(block, TAG);
            let block = call!(ExAllocatePoolZero, 0, 8, TAG);
            assert_eq!(first(block), 0);
            free(block, TAG);
            let block = call!(ExAllocatePool3, POOL_FLAG_NON_PAGED, 8, TAG, ptr::null_mut(), 0);
            assert_eq!(first(block), 0);
            free(block, TAG);
            assert!(call!(ExAllocatePool3, 0, 8, TAG, ptr::null_mut(), 0).is_null(), "no kind");
        });
        assert_eq!((count(&events, "pool.freed"), count(&events, "pool.leaked")), (4, 0));
        assert_eq!(count(&events, "pool.bad-free"), 0);
    }

    #[test]
    fn the_old_functions_allocate_zero_bytes_and_no_tag_of_zero() {
        let events = fly(|| {
            for block in [
                call!(ExAllocatePoolWithTag, 0, 0, TAG),
                call!(ExAllocatePoolWithTagPriority, 0, 0, TAG, 16),
                call!(ExAllocatePoolWithQuotaTag, 8, 0, TAG),
                call!(ExAllocatePool, 0, 0),
            ] {
                assert!(!block.is_null());
                // SAFETY: The test does not use the block after this.
                unsafe { ExFreePool(block) };
            }
            assert!(call!(ExAllocatePoolWithTag, 0, 8, 0).is_null());
        });
        assert_eq!((count(&events, "pool.allocated"), count(&events, "pool.freed")), (4, 4));
    }

    #[test]
    fn paged_pool_at_dispatch_level_is_judged() {
        let events = fly(|| {
            crate::KeRaiseIrqlToDpcLevel();
            free(call!(ExAllocatePoolWithTag, 1, 8, TAG), TAG);
            free(call!(ExAllocatePoolWithTag, 0, 8, TAG), TAG);
            free(take(POOL_FLAG_PAGED, 8, TAG), TAG);
            crate::KeLowerIrql(0);
        });
        assert_eq!(count(&events, "rule.broken"), 2);
    }

    #[test]
    fn uninitialised_memory_is_not_zero() {
        let pool = Pool::new(Arc::new(Log::new()));
        let read = |flags| {
            let block = take(POOL_FLAG_NON_PAGED | flags, 8, TAG);
            // SAFETY: The block is live and has these bytes.
            unsafe { block.cast::<[u8; 8]>().read() }
        };
        pool.run_driver(|| {
            assert_eq!(read(0), [0; 8]);
            assert_eq!(read(POOL_FLAG_UNINITIALIZED), [0xCD; 8]);
        });
        flight::Pool::close(&*pool);
    }
}
