//! The `Ex` functions under their Windows names.
//!
//! They act on the pool of the driver that is running on this thread. Without a running driver
//! there is no pool: they allocate and free nothing. Only an internal error unwinds out of them.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::Pool;
use crate::import_table::import_rows;
use crate::processor::current;
use crate::waits::current_call;
use abi::PVOID;
use flight::{CallGuard, Component, Irql, RuleId, resume_internal_error};
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    ExAllocatePool2 lacks "no quota, no cache alignment, no exceptions";
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
    let take = || {
        let valid = (flags & KINDS).is_power_of_two() && flags & !(REQUIRED | OPTIONAL) == 0;
        let pool = Pool::current("ExAllocatePool2").filter(|_| valid)?;
        let (zeroed, paged) = (flags & POOL_FLAG_UNINITIALIZED == 0, flags & POOL_FLAG_PAGED != 0);
        if paged {
            judge_paged();
        }
        allocate_observed(&pool, bytes, tag, zeroed, paged)
    };
    let block = catch_unwind(AssertUnwindSafe(take)).map_err(resume_internal_error).ok().flatten();
    block.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
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

/// Entry rule: paged memory is allocated at passive level. A violation is reported, and the block
/// is allocated nevertheless.
fn judge_paged() {
    const NAME: &str = "ExAllocatePool2 with POOL_FLAG_PAGED";
    let Some((host, log)) = current("ExAllocatePool2") else { return };
    let at = host.irql();
    let broken = (at > Irql::Passive).then(|| format!("{NAME} was called at {at} level"));
    if broken.is_none() || !CallGuard::misuse(NAME) {
        log.judge(RuleId::WT_LEVEL_001, Component::Driver, current_call(), NAME, broken);
    }
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
    // The function returns nothing, so a panic other than an internal error is dropped.
    let _ = catch_unwind(AssertUnwindSafe(free)).map_err(resume_internal_error);
}

#[cfg(test)]
mod tests {
    use super::*;
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
