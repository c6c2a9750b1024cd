//! Fast mutexes and guarded mutexes under their Windows names.
//!
//! Both are one structure in the driver's memory: a count, which is 1 while the mutex is free, the
//! owner, an event and the IRQL to return to. A driver initialises a fast mutex itself, with an
//! inlined function. Count and event work as on Windows: a thread that finds the mutex owned waits
//! for the event, and a release with waiting threads hands the mutex to one of them.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::dispatcher::{ObjectKind, ObjectMemory};
use crate::entry::judge_irql;
use crate::held_locks::{HeldLock, LockKind, forget_locks, judge_lock_order, judge_own_lock};
use crate::import_table::import_rows;
use crate::ke_irql::APC_LEVEL;
use crate::ke_thread::{
    KeEnterCriticalRegion, KeEnterGuardedRegion, KeLeaveCriticalRegion, KeLeaveGuardedRegion,
};
use crate::processor::{current, held_locks, lock_acquired, lock_released, set_number};
use crate::ps::current_thread;
use crate::waits::{self, WaitEnd, log_misuse};
use abi::{BOOLEAN, PVOID};
use std::sync::{Mutex, PoisonError};

import_rows! {
    ExAcquireFastMutex;
    ExAcquireFastMutexUnsafe;
    ExEnterCriticalRegionAndAcquireFastMutexUnsafe;
    ExReleaseFastMutex;
    ExReleaseFastMutexUnsafe;
    ExReleaseFastMutexUnsafeAndLeaveCriticalRegion;
    ExTryToAcquireFastMutex;
    KeAcquireGuardedMutex;
    KeAcquireGuardedMutexUnsafe;
    KeInitializeGuardedMutex;
    KeReleaseGuardedMutex;
    KeReleaseGuardedMutexUnsafe;
    KeTryToAcquireGuardedMutex;
}

/// Changes of the count of any mutex.
static COUNTS: Mutex<()> = Mutex::new(());

/// `FAST_MUTEX` and `KGUARDED_MUTEX`.
#[derive(Debug)]
#[repr(C)]
pub struct FastMutex {
    count: i32,
    owner: usize,
    contention: u32,
    event: [u64; 3],
    old_irql: u32,
}

/// A mutex in the driver's memory.
#[derive(Clone, Copy)]
struct MutexMemory(*mut FastMutex);

impl MutexMemory {
    /// Adds to the count; returns the new one.
    fn add(self, by: i32) -> i32 {
        let _lock = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: The driver passed a mutex.
        let count = unsafe { &raw mut (*self.0).count };
        // SAFETY: As above.
        let new = unsafe { count.read_unaligned() }.wrapping_add(by);
        // SAFETY: As above.
        unsafe { count.write_unaligned(new) };
        new
    }

    /// Acquires it if it is free.
    fn try_acquire(self) -> bool {
        let _lock = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: The driver passed a mutex.
        let count = unsafe { &raw mut (*self.0).count };
        // SAFETY: As above.
        let free = unsafe { count.read_unaligned() } == 1;
        if free {
            // SAFETY: As above.
            unsafe { count.write_unaligned(0) };
        }
        free
    }

    fn owner(self) -> usize {
        // SAFETY: The driver passed a mutex.
        let owner = unsafe { &raw const (*self.0).owner };
        // SAFETY: As above.
        unsafe { owner.read_unaligned() }
    }

    fn set_owner(self, thread: usize) {
        // SAFETY: The driver passed a mutex.
        let owner = unsafe { &raw mut (*self.0).owner };
        // SAFETY: As above.
        unsafe { owner.write_unaligned(thread) };
    }

    fn event(self) -> Option<ObjectMemory> {
        // SAFETY: The driver passed a mutex.
        let event: PVOID = unsafe { &raw mut (*self.0).event }.cast();
        // SAFETY: As above: it has an event there.
        unsafe { ObjectMemory::at(event) }
    }
}

/// Acquires a mutex at the current IRQL. Returns how the wait for it ended.
fn acquire(import: &'static str, mutex: *mut FastMutex) -> WaitEnd {
    let Some((_, log)) = current(import).filter(|_| !mutex.is_null()) else {
        return WaitEnd::Failed;
    };
    judge_irql(import);
    let (memory, thread) = (MutexMemory(mutex), current_thread());
    let mine = memory.owner() == thread;
    let held = held_locks(import);
    let known = held.iter().find(|lock| lock.address == mutex.addr());
    let acquired_by = known.map_or(0, |lock| lock.caller);
    judge_own_lock(&log, import, mine.then_some(("mutex", acquired_by)));
    if mine {
        return WaitEnd::Failed;
    }
    let new = HeldLock::new(LockKind::Mutex, mutex.addr());
    judge_lock_order(&log, import, &held, new);
    let mut end = WaitEnd::Satisfied(0);
    if memory.add(-1) != 0
        && let Some(event) = memory.event()
    {
        // SAFETY: The driver passed a mutex.
        let contention = unsafe { &raw mut (*mutex).contention };
        // SAFETY: As above.
        let contended = unsafe { contention.read_unaligned() }.wrapping_add(1);
        // SAFETY: As above.
        unsafe { contention.write_unaligned(contended) };
        end = waits::wait(import, &[event], false, None);
    }
    memory.set_owner(thread);
    lock_acquired(import, new);
    end
}

/// A mutex whose event is at an address is new: the driver initialises a fast mutex itself, except
/// for its event.
pub(crate) fn event_initialized(address: usize) {
    let mutex = address.wrapping_sub(std::mem::offset_of!(FastMutex, event));
    forget_locks(&(mutex..mutex.saturating_add(1)));
}

/// Acquires a mutex if it is free; returns whether it did.
fn try_acquire(import: &'static str, mutex: *mut FastMutex) -> bool {
    if mutex.is_null() || !MutexMemory(mutex).try_acquire() {
        return false;
    }
    MutexMemory(mutex).set_owner(current_thread());
    lock_acquired(import, HeldLock::new(LockKind::Mutex, mutex.addr()));
    true
}

/// Releases a mutex. One that the thread does not own is logged, and stays.
fn release(import: &'static str, mutex: *mut FastMutex) {
    if mutex.is_null() {
        return;
    }
    let memory = MutexMemory(mutex);
    if memory.owner() != current_thread() {
        log_misuse(import, "on a thread that does not own the mutex");
        return;
    }
    memory.set_owner(0);
    lock_released(import, mutex.addr());
    if memory.add(1) <= 0
        && let Some(event) = memory.event()
    {
        waits::change(import, event, |_| event.set_signal_state(1));
    }
}

/// Stores the IRQL to return to.
fn store_irql(mutex: *mut FastMutex, irql: u8) {
    if !mutex.is_null() {
        // SAFETY: The driver passed a mutex.
        let old_irql = unsafe { &raw mut (*mutex).old_irql };
        // SAFETY: As above.
        unsafe { old_irql.write_unaligned(u32::from(irql)) };
    }
}

/// The IRQL to return to.
fn stored_irql(mutex: *mut FastMutex) -> u8 {
    if mutex.is_null() {
        return 0;
    }
    // SAFETY: The driver passed a mutex.
    let old_irql = unsafe { &raw const (*mutex).old_irql };
    // SAFETY: As above.
    let irql = unsafe { old_irql.read_unaligned() };
    u8::try_from(irql).unwrap_or(0)
}

/// Raises the IRQL to `APC_LEVEL` and acquires a fast mutex.
///
/// # Safety
///
/// `mutex` is NULL or points to an initialised `FAST_MUTEX`.
pub unsafe extern "win64-unwind" fn ExAcquireFastMutex(mutex: *mut FastMutex) {
    const NAME: &str = "ExAcquireFastMutex";
    let before = set_number(NAME, crate::processor::number(NAME).max(APC_LEVEL));
    waits::leave_if_over(acquire(NAME, mutex));
    store_irql(mutex, before);
}

/// Acquires a fast mutex if it is free, and raises the IRQL to `APC_LEVEL`; returns whether it did.
///
/// # Safety
///
/// As for [`ExAcquireFastMutex`].
pub unsafe extern "win64-unwind" fn ExTryToAcquireFastMutex(mutex: *mut FastMutex) -> BOOLEAN {
    const NAME: &str = "ExTryToAcquireFastMutex";
    if !try_acquire(NAME, mutex) {
        return 0;
    }
    store_irql(mutex, set_number(NAME, crate::processor::number(NAME).max(APC_LEVEL)));
    1
}

/// Releases a fast mutex and restores the IRQL.
///
/// # Safety
///
/// As for [`ExAcquireFastMutex`].
pub unsafe extern "win64-unwind" fn ExReleaseFastMutex(mutex: *mut FastMutex) {
    const NAME: &str = "ExReleaseFastMutex";
    let irql = stored_irql(mutex);
    release(NAME, mutex);
    set_number(NAME, irql);
}

/// Acquires a fast mutex; the caller has disabled APCs.
///
/// # Safety
///
/// As for [`ExAcquireFastMutex`].
pub unsafe extern "win64-unwind" fn ExAcquireFastMutexUnsafe(mutex: *mut FastMutex) {
    waits::leave_if_over(acquire("ExAcquireFastMutexUnsafe", mutex));
}

/// Releases a fast mutex that was acquired with [`ExAcquireFastMutexUnsafe`].
///
/// # Safety
///
/// As for [`ExAcquireFastMutex`].
pub unsafe extern "win64-unwind" fn ExReleaseFastMutexUnsafe(mutex: *mut FastMutex) {
    release("ExReleaseFastMutexUnsafe", mutex);
}

/// Enters a critical region and acquires a fast mutex.
///
/// # Safety
///
/// As for [`ExAcquireFastMutex`].
pub unsafe extern "win64-unwind" fn ExEnterCriticalRegionAndAcquireFastMutexUnsafe(
    mutex: *mut FastMutex,
) {
    KeEnterCriticalRegion();
    waits::leave_if_over(acquire("ExEnterCriticalRegionAndAcquireFastMutexUnsafe", mutex));
}

/// Releases a fast mutex and leaves the critical region.
///
/// # Safety
///
/// As for [`ExAcquireFastMutex`].
pub unsafe extern "win64-unwind" fn ExReleaseFastMutexUnsafeAndLeaveCriticalRegion(
    mutex: *mut FastMutex,
) {
    release("ExReleaseFastMutexUnsafeAndLeaveCriticalRegion", mutex);
    KeLeaveCriticalRegion();
}

/// Initialises a guarded mutex as free.
///
/// # Safety
///
/// `mutex` is NULL or points to a `KGUARDED_MUTEX`, which stays there while it is used.
pub unsafe extern "win64-unwind" fn KeInitializeGuardedMutex(mutex: *mut FastMutex) {
    if mutex.is_null() {
        return;
    }
    let free = FastMutex { count: 1, owner: 0, contention: 0, event: [0; 3], old_irql: 0 };
    // SAFETY: The caller's contract.
    unsafe { mutex.write_unaligned(free) };
    if let Some(event) = MutexMemory(mutex).event() {
        event_initialized(event.address());
        waits::initialize(event, ObjectKind::SynchronizationEvent, 0);
    }
}

/// Enters a guarded region and acquires a guarded mutex.
///
/// # Safety
///
/// As for [`KeInitializeGuardedMutex`].
pub unsafe extern "win64-unwind" fn KeAcquireGuardedMutex(mutex: *mut FastMutex) {
    KeEnterGuardedRegion();
    waits::leave_if_over(acquire("KeAcquireGuardedMutex", mutex));
}

/// Acquires a guarded mutex; the caller has disabled APCs.
///
/// # Safety
///
/// As for [`KeInitializeGuardedMutex`].
pub unsafe extern "win64-unwind" fn KeAcquireGuardedMutexUnsafe(mutex: *mut FastMutex) {
    waits::leave_if_over(acquire("KeAcquireGuardedMutexUnsafe", mutex));
}

/// Acquires a guarded mutex if it is free, in a guarded region; returns whether it did.
///
/// # Safety
///
/// As for [`KeInitializeGuardedMutex`].
pub unsafe extern "win64-unwind" fn KeTryToAcquireGuardedMutex(mutex: *mut FastMutex) -> BOOLEAN {
    if !try_acquire("KeTryToAcquireGuardedMutex", mutex) {
        return 0;
    }
    KeEnterGuardedRegion();
    1
}

/// Releases a guarded mutex and leaves the guarded region.
///
/// # Safety
///
/// As for [`KeInitializeGuardedMutex`].
pub unsafe extern "win64-unwind" fn KeReleaseGuardedMutex(mutex: *mut FastMutex) {
    release("KeReleaseGuardedMutex", mutex);
    KeLeaveGuardedRegion();
}

/// Releases a guarded mutex that was acquired with [`KeAcquireGuardedMutexUnsafe`].
///
/// # Safety
///
/// As for [`KeInitializeGuardedMutex`].
pub unsafe extern "win64-unwind" fn KeReleaseGuardedMutexUnsafe(mutex: *mut FastMutex) {
    release("KeReleaseGuardedMutexUnsafe", mutex);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ke_irql::KeGetCurrentIrql;
    use crate::ke_thread::KeAreAllApcsDisabled;
    use crate::processor::run_driver;
    use crate::testing::{fly_on_both_hosts, fly_with};
    use std::mem::offset_of;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A mutex that is never freed.
    fn new_mutex() -> *mut FastMutex {
        let empty = FastMutex { count: 7, owner: 7, contention: 7, event: [7; 3], old_irql: 7 };
        let mutex: *mut FastMutex = Box::leak(Box::new(empty));
        // SAFETY: The mutex is never freed.
        unsafe { KeInitializeGuardedMutex(mutex) };
        mutex
    }

    #[test]
    fn the_layout_is_windowss() {
        assert_eq!(size_of::<FastMutex>(), 0x38);
        let offsets = (
            offset_of!(FastMutex, owner),
            offset_of!(FastMutex, event),
            offset_of!(FastMutex, old_irql),
        );
        assert_eq!(offsets, (8, 0x18, 0x30));
    }

    #[test]
    fn one_thread_at_a_time_is_inside() {
        fly_on_both_hosts(|host, at| {
            let address = new_mutex().expose_provenance();
            let inside: Arc<AtomicU32> = Arc::default();
            let ends: Vec<_> = (0..3)
                .map(|index| {
                    let (host2, inside) = (host.clone(), inside.clone());
                    let (_, log) = current("a test").unwrap();
                    let body = move |at: &mut flight::Passive| {
                        let mutex = std::ptr::with_exposed_provenance_mut(address);
                        for _ in 0..20 {
                            run_driver(&host2, &log, || {
                                // SAFETY: The mutex is never freed.
                                unsafe { ExAcquireFastMutex(mutex) };
                                assert_eq!(KeGetCurrentIrql(), 1);
                                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                                host2.yield_point(at);
                                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                                // SAFETY: As above.
                                unsafe { ExReleaseFastMutex(mutex) };
                                assert_eq!(KeGetCurrentIrql(), 0);
                            });
                        }
                    };
                    host.clone().spawner().spawn(&format!("thread {index}"), body)
                })
                .collect();
            for end in &ends {
                host.park(at, end, None);
            }
            // SAFETY: The mutex is never freed.
            let mutex = unsafe { &*std::ptr::with_exposed_provenance::<FastMutex>(address) };
            assert_eq!((mutex.count, mutex.owner), (1, 0));
        });
    }

    #[test]
    fn a_mutex_is_neither_taken_twice_nor_released_by_another() {
        fly_with(1, |host, log, _| {
            run_driver(host, log, || {
                let mutex = new_mutex();
                // SAFETY: The mutex is never freed.
                assert_eq!(unsafe { KeTryToAcquireGuardedMutex(mutex) }, 1);
                assert_eq!(KeAreAllApcsDisabled(), 1);
                // SAFETY: As above.
                assert_eq!(unsafe { ExTryToAcquireFastMutex(mutex) }, 0);
                // SAFETY: As above.
                unsafe { ExAcquireFastMutexUnsafe(mutex) };
                // SAFETY: As above.
                unsafe { KeReleaseGuardedMutex(mutex) };
                assert_eq!(KeAreAllApcsDisabled(), 0);
                // SAFETY: As above.
                unsafe { ExReleaseFastMutexUnsafe(mutex) };
            });
            let events = log.take();
            let named = |name| events.iter().filter(|event| event.kind.name() == name).count();
            assert_eq!((named("rule.broken"), named("driver.misuse")), (1, 1));
        });
    }
}
