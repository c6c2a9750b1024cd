//! Executive resources (`ERESOURCE`) under their Windows names: locks that one thread holds
//! exclusively or several threads share.
//!
//! The driver's memory holds the structure, which is opaque; who holds a resource is in a table
//! here. A thread that waits does not bar others: a shared request waits only while another thread
//! holds the resource exclusively.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::entry::judge_irql;
use crate::held_locks::{HeldLock, LockKind, forget_locks, judge_lock_order, judge_own_lock};
use crate::import_table::import_rows;
use crate::ke_thread::{KeEnterCriticalRegion, KeLeaveCriticalRegion};
use crate::processor::{current, held_locks, lock_acquired, lock_released};
use crate::ps::current_thread;
use crate::waits::{self, WaitEnd, log_misuse};
use abi::status::STATUS_SUCCESS;
use abi::{BOOLEAN, NTSTATUS, PVOID};
use flight::WaitToken;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

import_rows! {
    ExAcquireResourceExclusiveLite;
    ExAcquireResourceSharedLite lacks "does not wait for a thread that waits for exclusive access";
    ExAcquireSharedStarveExclusive;
    ExAcquireSharedWaitForExclusive lacks "does not wait for a thread that waits";
    ExConvertExclusiveToSharedLite;
    ExDeleteResourceLite;
    ExEnterCriticalRegionAndAcquireResourceExclusive;
    ExEnterCriticalRegionAndAcquireResourceShared;
    ExInitializeResourceLite;
    ExIsResourceAcquiredExclusiveLite;
    ExIsResourceAcquiredSharedLite;
    ExReinitializeResourceLite;
    ExReleaseResourceAndLeaveCriticalRegion;
    ExReleaseResourceForThreadLite;
    ExReleaseResourceLite;
}

/// The size of an `ERESOURCE`.
const RESOURCE_WORDS: usize = 0x68 / 8;

/// `ERESOURCE`, which is opaque.
pub type Resource = [u64; RESOURCE_WORDS];

/// The initialised resources by address.
static RESOURCES: Mutex<BTreeMap<usize, ResourceState>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct ResourceState {
    /// The thread that holds it exclusively, and how often.
    exclusive: Option<(usize, u32)>,
    /// The threads that share it, and how often each has acquired it.
    shared: BTreeMap<usize, u32>,
    waiters: Vec<WaitToken>,
}

impl ResourceState {
    /// Acquires the resource for a thread, if that is possible now.
    fn acquire(&mut self, thread: usize, exclusive: bool) -> bool {
        match &mut self.exclusive {
            Some((owner, depth)) if *owner == thread => *depth += 1,
            None if !exclusive => *self.shared.entry(thread).or_default() += 1,
            None if self.shared.is_empty() => self.exclusive = Some((thread, 1)),
            Some(_) | None => return false,
        }
        true
    }

    /// Whether a thread that shares the resource waits for itself if it asks for exclusive access.
    fn would_wait_for_itself(&self, thread: usize, exclusive: bool) -> bool {
        exclusive && self.shared.contains_key(&thread)
    }

    /// Releases the resource once. Returns false if the thread does not hold it.
    fn release(&mut self, thread: usize) -> bool {
        if let Some((owner, depth)) = &mut self.exclusive {
            if *owner != thread {
                return false;
            }
            *depth -= 1;
            if *depth == 0 {
                self.exclusive = None;
            }
            return true;
        }
        let Some(count) = self.shared.get_mut(&thread) else { return false };
        *count -= 1;
        if *count == 0 {
            self.shared.remove(&thread);
        }
        true
    }

    fn is_held(&self) -> bool {
        self.exclusive.is_some() || !self.shared.is_empty()
    }

    fn is_held_by(&self, thread: usize) -> bool {
        self.exclusive.is_some_and(|(owner, _)| owner == thread)
            || self.shared.contains_key(&thread)
    }
}

fn resources() -> MutexGuard<'static, BTreeMap<usize, ResourceState>> {
    RESOURCES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a thread holds the resource at an address.
pub(crate) fn is_held(resource: usize, thread: usize) -> bool {
    resources().get(&resource).is_some_and(|state| state.is_held_by(thread))
}

/// Acquires a resource. Returns how a wait for it ended, and whether the thread has it.
fn acquire(
    import: &'static str,
    resource: *mut Resource,
    exclusive: bool,
    wait: BOOLEAN,
) -> (WaitEnd, BOOLEAN) {
    let Some((host, log)) = current(import) else { return (WaitEnd::Failed, 0) };
    judge_irql(import);
    let thread = current_thread();
    let held = held_locks(import);
    let new = HeldLock::new(LockKind::Resource, resource.addr()).shared(!exclusive);
    let is_held = is_held(resource.addr(), thread);
    // A thread that holds it, or that does not wait, cannot be one of a deadlock.
    if wait != 0 && !is_held {
        judge_lock_order(&log, import, &held, new);
    }
    loop {
        let token = WaitToken::new("a resource of the driver's");
        {
            let mut resources = resources();
            let Some(state) = resources.get_mut(&resource.addr()) else {
                drop(resources);
                log_misuse(import, "for a resource that is not initialised");
                return (WaitEnd::Failed, 0);
            };
            let own = wait != 0 && state.would_wait_for_itself(thread, exclusive);
            let known = held.iter().find(|lock| lock.address == resource.addr());
            let acquired_by = known.map_or(0, |lock| lock.caller);
            judge_own_lock(&log, import, own.then_some(("resource (shared)", acquired_by)));
            // The thread goes on as one more that shares it.
            if state.acquire(thread, exclusive && !own) {
                drop(resources);
                if !is_held {
                    lock_acquired(import, new);
                }
                return (WaitEnd::Satisfied(0), 1);
            }
            if wait == 0 {
                return (WaitEnd::TimedOut, 0);
            }
            state.waiters.push(token.clone());
        }
        match waits::park_for(import, &host, &token) {
            WaitEnd::Satisfied(_) => (),
            end => return (end, 0),
        }
    }
}

/// Releases a resource once for a thread.
fn release(import: &'static str, resource: *mut Resource, thread: usize) {
    let released = resources().get_mut(&resource.addr()).map(|state| {
        let released = state.release(thread);
        (released, state.is_held_by(thread), std::mem::take(&mut state.waiters))
    });
    let (released, is_held, waiters) = released.unwrap_or_default();
    if released && !is_held && thread == current_thread() {
        lock_released(import, resource.addr());
    }
    if !released {
        log_misuse(import, "for a resource that the thread does not hold");
    }
    if let Some((host, _)) = current(import) {
        for token in &waiters {
            host.wake(token);
        }
    }
}

/// Initialises a resource as free.
///
/// # Safety
///
/// `resource` points to an `ERESOURCE`, which stays there until it is deleted.
pub unsafe extern "win64-unwind" fn ExInitializeResourceLite(resource: *mut Resource) -> NTSTATUS {
    forget_locks(&(resource.addr()..resource.addr() + 1));
    if resources().insert(resource.addr(), ResourceState::default()).is_some() {
        log_misuse("ExInitializeResourceLite", "for a resource that is initialised");
    }
    // SAFETY: The caller's contract.
    unsafe { resource.write_unaligned([0; RESOURCE_WORDS]) };
    STATUS_SUCCESS
}

/// Makes a resource free again.
pub extern "win64-unwind" fn ExReinitializeResourceLite(resource: *mut Resource) -> NTSTATUS {
    forget_locks(&(resource.addr()..resource.addr() + 1));
    resources().insert(resource.addr(), ResourceState::default());
    STATUS_SUCCESS
}

/// Ends the use of a resource that no thread holds.
pub extern "win64-unwind" fn ExDeleteResourceLite(resource: *mut Resource) -> NTSTATUS {
    const NAME: &str = "ExDeleteResourceLite";
    let deleted = resources().remove(&resource.addr());
    match deleted {
        Some(state) if state.is_held() => log_misuse(NAME, "for a resource that a thread holds"),
        Some(_) => (),
        None => log_misuse(NAME, "for a resource that is not initialised"),
    }
    STATUS_SUCCESS
}

/// Acquires a resource exclusively; returns whether the thread has it.
pub extern "win64-unwind" fn ExAcquireResourceExclusiveLite(
    resource: *mut Resource,
    wait: BOOLEAN,
) -> BOOLEAN {
    let (end, has) = acquire("ExAcquireResourceExclusiveLite", resource, true, wait);
    waits::leave_if_over(end);
    has
}

/// Acquires a resource together with others; returns whether the thread has it.
pub extern "win64-unwind" fn ExAcquireResourceSharedLite(
    resource: *mut Resource,
    wait: BOOLEAN,
) -> BOOLEAN {
    let (end, has) = acquire("ExAcquireResourceSharedLite", resource, false, wait);
    waits::leave_if_over(end);
    has
}

/// As [`ExAcquireResourceSharedLite`]; does not wait for a thread that waits.
pub extern "win64-unwind" fn ExAcquireSharedStarveExclusive(
    resource: *mut Resource,
    wait: BOOLEAN,
) -> BOOLEAN {
    ExAcquireResourceSharedLite(resource, wait)
}

/// As [`ExAcquireResourceSharedLite`].
pub extern "win64-unwind" fn ExAcquireSharedWaitForExclusive(
    resource: *mut Resource,
    wait: BOOLEAN,
) -> BOOLEAN {
    ExAcquireResourceSharedLite(resource, wait)
}

/// Releases a resource once.
pub extern "win64-unwind" fn ExReleaseResourceLite(resource: *mut Resource) {
    release("ExReleaseResourceLite", resource, current_thread());
}

/// Releases a resource once for the thread that acquired it.
pub extern "win64-unwind" fn ExReleaseResourceForThreadLite(
    resource: *mut Resource,
    thread: usize,
) {
    release("ExReleaseResourceForThreadLite", resource, thread);
}

/// Lets other threads share a resource that the thread holds exclusively.
pub extern "win64-unwind" fn ExConvertExclusiveToSharedLite(resource: *mut Resource) {
    const NAME: &str = "ExConvertExclusiveToSharedLite";
    let thread = current_thread();
    let converted = resources().get_mut(&resource.addr()).and_then(|state| {
        let (_, depth) = state.exclusive.take_if(|(owner, _)| *owner == thread)?;
        state.shared.insert(thread, depth);
        Some(std::mem::take(&mut state.waiters))
    });
    if converted.is_some() {
        lock_released(NAME, resource.addr());
        lock_acquired(NAME, HeldLock::new(LockKind::Resource, resource.addr()).shared(true));
    }
    match (converted, current(NAME)) {
        (Some(waiters), Some((host, _))) => waiters.iter().for_each(|token| host.wake(token)),
        (Some(_), None) => (),
        (None, _) => log_misuse(NAME, "for a resource that the thread does not hold"),
    }
}

/// Whether the thread holds a resource exclusively.
pub extern "win64-unwind" fn ExIsResourceAcquiredExclusiveLite(resource: *mut Resource) -> BOOLEAN {
    let thread = current_thread();
    let resources = resources();
    let state = resources.get(&resource.addr());
    let owner = state.and_then(|state| state.exclusive).map(|(owner, _)| owner);
    BOOLEAN::from(owner == Some(thread))
}

/// How often the thread has acquired a resource, shared or exclusively.
pub extern "win64-unwind" fn ExIsResourceAcquiredSharedLite(resource: *mut Resource) -> u32 {
    let thread = current_thread();
    let resources = resources();
    let Some(state) = resources.get(&resource.addr()) else { return 0 };
    let exclusive = state.exclusive.filter(|(owner, _)| *owner == thread).map(|(_, depth)| depth);
    exclusive.or_else(|| state.shared.get(&thread).copied()).unwrap_or(0)
}

/// Enters a critical region and acquires a resource exclusively. Returns the current thread.
pub extern "win64-unwind" fn ExEnterCriticalRegionAndAcquireResourceExclusive(
    resource: *mut Resource,
) -> PVOID {
    KeEnterCriticalRegion();
    ExAcquireResourceExclusiveLite(resource, 1);
    crate::ps::KeGetCurrentThread()
}

/// Enters a critical region and shares a resource. Returns the current thread.
pub extern "win64-unwind" fn ExEnterCriticalRegionAndAcquireResourceShared(
    resource: *mut Resource,
) -> PVOID {
    KeEnterCriticalRegion();
    ExAcquireResourceSharedLite(resource, 1);
    crate::ps::KeGetCurrentThread()
}

/// Releases a resource once and leaves the critical region.
pub extern "win64-unwind" fn ExReleaseResourceAndLeaveCriticalRegion(resource: *mut Resource) {
    ExReleaseResourceLite(resource);
    KeLeaveCriticalRegion();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::run_driver;
    use crate::testing::{fly_on_both_hosts, fly_with};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI32, Ordering};

    /// A resource that is never freed.
    fn new_resource() -> *mut Resource {
        let resource: *mut Resource = Box::leak(Box::new([7; RESOURCE_WORDS]));
        // SAFETY: The resource is never freed.
        assert_eq!(unsafe { ExInitializeResourceLite(resource) }, STATUS_SUCCESS);
        resource
    }

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        fly_on_both_hosts(|host, at| {
            let address = new_resource().expose_provenance();
            let (_, log) = current("a test").unwrap();
            let readers: Arc<AtomicI32> = Arc::default();
            let ends: Vec<_> = (0..4)
                .map(|index| {
                    let (host2, readers, log) = (host.clone(), readers.clone(), log.clone());
                    let body = move |at: &mut flight::Passive| {
                        let resource = std::ptr::with_exposed_provenance_mut(address);
                        let visit = || {
                            if index == 0 {
                                assert_eq!(ExAcquireResourceExclusiveLite(resource, 1), 1);
                                assert_eq!(readers.fetch_sub(100, Ordering::SeqCst), 0);
                                host2.yield_point(at);
                                assert_eq!(readers.fetch_add(100, Ordering::SeqCst), -100);
                            } else {
                                assert_eq!(ExAcquireResourceSharedLite(resource, 1), 1);
                                assert!(readers.fetch_add(1, Ordering::SeqCst) >= 0);
                                host2.yield_point(at);
                                readers.fetch_sub(1, Ordering::SeqCst);
                            }
                            ExReleaseResourceLite(resource);
                        };
                        run_driver(&host2, &log, visit);
                    };
                    host.clone().spawner().spawn(&format!("thread {index}"), body)
                })
                .collect();
            for end in &ends {
                host.park(at, end, None);
            }
            ExDeleteResourceLite(std::ptr::with_exposed_provenance_mut(address));
        });
    }

    #[test]
    fn a_thread_that_shares_it_does_not_ask_for_exclusive_access() {
        fly_with(1, |host, log, _| {
            run_driver(host, log, || {
                let resource = new_resource();
                assert_eq!(ExAcquireResourceSharedLite(resource, 1), 1);
                assert_eq!(ExAcquireResourceExclusiveLite(resource, 0), 0, "it does not wait");
                assert_eq!(ExAcquireResourceExclusiveLite(resource, 1), 1);
                ExReleaseResourceLite(resource);
                ExReleaseResourceLite(resource);
                ExDeleteResourceLite(resource);
            });
            let broken = crate::testing::broken_rules(log);
            assert!(broken.len() == 1 && broken[0].contains("rule=WT-LOCK-001"), "{broken:?}");
        });
    }

    #[test]
    fn a_thread_holds_it_as_often_as_it_acquired_it() {
        fly_with(1, |host, log, _| {
            run_driver(host, log, || {
                let resource = new_resource();
                assert_eq!(ExAcquireResourceExclusiveLite(resource, 0), 1);
                assert_eq!(ExAcquireResourceSharedLite(resource, 0), 1, "it is its own");
                assert_eq!(ExIsResourceAcquiredExclusiveLite(resource), 1);
                assert_eq!(ExIsResourceAcquiredSharedLite(resource), 2);
                ExConvertExclusiveToSharedLite(resource);
                assert_eq!(ExIsResourceAcquiredExclusiveLite(resource), 0);
                assert_eq!(ExAcquireResourceExclusiveLite(resource, 0), 0, "it is shared");
                ExReleaseResourceLite(resource);
                ExReleaseResourceForThreadLite(resource, current_thread());
                ExReleaseResourceLite(resource);
                assert_eq!(ExAcquireResourceSharedLite(resource, 0), 1);
                ExDeleteResourceLite(resource);
                assert_eq!(ExAcquireResourceSharedLite(resource, 0), 0, "it is deleted");
            });
            let misuses: Vec<String> = log
                .take()
                .iter()
                .filter(|event| event.kind.name() == "driver.misuse")
                .map(ToString::to_string)
                .collect();
            assert_eq!(misuses.len(), 3, "{misuses:?}");
        });
    }
}
