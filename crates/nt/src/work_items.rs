//! Work items under their Windows names. Threads of the host run them at passive level.
//!
//! An `IO_WORKITEM` is opaque memory: here its device object, and whether it is queued. A
//! `WORK_QUEUE_ITEM` is in the driver's memory: a list entry, which is not NULL while it is queued,
//! the routine and its argument.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::entry::judge_irql;
use crate::import_table::import_rows;
use crate::ob::{self, ObjectReference, ObjectType};
use crate::owned::{self, OwnedKind};
use crate::processor::current;
use crate::waits::log_misuse;
use crate::work_queue;
use abi::PVOID;
use std::ptr;
use std::sync::{Mutex, PoisonError};

import_rows! {
    ExQueueWorkItem lacks "all queues are one";
    IoAllocateWorkItem lacks "does not reference the device object";
    IoFreeWorkItem;
    IoInitializeWorkItem lacks "does not reference the device object";
    IoQueueWorkItem lacks "all queues are one";
    IoQueueWorkItemEx lacks "all queues are one";
    IoSizeofWorkItem;
    IoUninitializeWorkItem;
}

/// A routine of `IoQueueWorkItem`: the device object and the context.
pub type WorkItemRoutine = unsafe extern "win64-unwind" fn(PVOID, PVOID);
/// A routine of `IoQueueWorkItemEx`: the device or driver object, the context and the work item.
pub type WorkItemRoutineEx = unsafe extern "win64-unwind" fn(PVOID, PVOID, *mut IoWorkItem);
/// A routine of `ExQueueWorkItem`.
pub type WorkerRoutine = unsafe extern "win64-unwind" fn(PVOID);

static WORK_ITEM_TYPE: ObjectType = ObjectType::new("WorkItem");
/// Changes of the field `queued` of any work item.
static QUEUED: Mutex<()> = Mutex::new(());

/// `IO_WORKITEM`.
#[derive(Debug)]
#[repr(C)]
pub struct IoWorkItem {
    object: PVOID,
    queued: usize,
    reserved: [usize; 6],
}

/// `WORK_QUEUE_ITEM`.
#[derive(Debug)]
#[repr(C)]
pub struct WorkQueueItem {
    next: usize,
    previous: usize,
    routine: Option<WorkerRoutine>,
    parameter: PVOID,
}

/// A call of a work item's routine.
enum WorkCall {
    Io(WorkItemRoutine, PVOID, PVOID),
    IoEx(WorkItemRoutineEx, PVOID, PVOID, *mut IoWorkItem),
    Ex(WorkerRoutine, PVOID),
}

// SAFETY: The driver queued the item so that another thread calls the routine with these pointers.
unsafe impl Send for WorkCall {}

impl WorkCall {
    fn run(self) {
        match self {
            // SAFETY: The driver asked for this call.
            WorkCall::Io(routine, object, context) => unsafe { routine(object, context) },
            WorkCall::IoEx(routine, object, context, item) => {
                // SAFETY: As above.
                unsafe { routine(object, context, item) };
            }
            // SAFETY: As above.
            WorkCall::Ex(routine, parameter) => unsafe { routine(parameter) },
        }
    }
}

/// The field of an item that is not zero while the item is queued.
struct QueuedFlag(*mut usize);

// SAFETY: It is used under the lock `QUEUED`, while the item is queued: the driver keeps it.
unsafe impl Send for QueuedFlag {}

impl QueuedFlag {
    /// Changes the flag; returns whether it was set.
    fn set(&self, queued: bool) -> bool {
        let _lock = QUEUED.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: The driver keeps the item while it uses it.
        let before = unsafe { self.0.read_unaligned() };
        // SAFETY: As above.
        unsafe { self.0.write_unaligned(usize::from(queued)) };
        before != 0
    }
}

/// Queues a call, unless its item is queued.
fn queue(import: &'static str, flag: QueuedFlag, call: WorkCall) {
    if current(import).is_none() {
        return;
    }
    judge_irql(import);
    if flag.set(true) {
        log_misuse(import, "for a work item that is queued");
        return;
    }
    let run = move || {
        // The routine may free the item, and may queue it again.
        flag.set(false);
        call.run();
    };
    work_queue::queue(import, Box::new(run));
}

/// The size of an `IO_WORKITEM`.
pub extern "win64-unwind" fn IoSizeofWorkItem() -> u32 {
    u32::try_from(size_of::<IoWorkItem>()).unwrap_or(u32::MAX)
}

/// Makes a work item for a device object.
pub extern "win64-unwind" fn IoAllocateWorkItem(device: PVOID) -> *mut IoWorkItem {
    let item = ObjectReference::create(&WORK_ITEM_TYPE, size_of::<IoWorkItem>());
    let item: *mut IoWorkItem = item.into_pointer().cast();
    let value = IoWorkItem { object: device, queued: 0, reserved: [0; 6] };
    // SAFETY: The item has just been made, with room for this.
    unsafe { item.write(value) };
    owned::add(OwnedKind::WorkItem, item.addr());
    item
}

/// Frees a work item that is not queued.
///
/// # Safety
///
/// `item` is NULL or was returned by [`IoAllocateWorkItem`], and has not been freed.
pub unsafe extern "win64-unwind" fn IoFreeWorkItem(item: *mut IoWorkItem) {
    // SAFETY: The caller's contract.
    if unsafe { is_free("IoFreeWorkItem", item) } {
        owned::remove(OwnedKind::WorkItem, item.addr());
        ob::release(item.cast());
    }
}

/// Initialises a work item in the driver's memory.
///
/// # Safety
///
/// `item` is NULL or points to [`IoSizeofWorkItem`] bytes.
pub unsafe extern "win64-unwind" fn IoInitializeWorkItem(object: PVOID, item: *mut IoWorkItem) {
    if !item.is_null() {
        // SAFETY: The caller's contract.
        unsafe { item.write_unaligned(IoWorkItem { object, queued: 0, reserved: [0; 6] }) };
    }
}

/// Ends the use of a work item in the driver's memory.
///
/// # Safety
///
/// `item` is NULL or was initialised by [`IoInitializeWorkItem`].
pub unsafe extern "win64-unwind" fn IoUninitializeWorkItem(item: *mut IoWorkItem) {
    // SAFETY: The caller's contract.
    unsafe { is_free("IoUninitializeWorkItem", item) };
}

/// Whether an item is not queued. A queued one is logged.
///
/// # Safety
///
/// `item` is NULL or points to an initialised work item.
unsafe fn is_free(import: &'static str, item: *mut IoWorkItem) -> bool {
    if item.is_null() {
        return false;
    }
    // SAFETY: The caller's contract.
    let queued = unsafe { item.read_unaligned() }.queued != 0;
    if queued {
        log_misuse(import, "for a work item that is queued");
    }
    !queued
}

/// Queues a work item, which calls `routine(device, context)`.
///
/// # Safety
///
/// `item` is NULL or points to an initialised work item, which stays there until it runs; `routine`
/// may be called with these arguments on another thread.
pub unsafe extern "win64-unwind" fn IoQueueWorkItem(
    item: *mut IoWorkItem,
    routine: Option<WorkItemRoutine>,
    _queue: i32,
    context: PVOID,
) {
    let (Some(routine), false) = (routine, item.is_null()) else { return };
    // SAFETY: The caller's contract.
    let object = unsafe { item.read_unaligned() }.object;
    // SAFETY: The caller's contract.
    let flag = QueuedFlag(unsafe { &raw mut (*item).queued });
    queue("IoQueueWorkItem", flag, WorkCall::Io(routine, object, context));
}

/// Queues a work item, which calls `routine(object, context, item)`.
///
/// # Safety
///
/// As for [`IoQueueWorkItem`].
pub unsafe extern "win64-unwind" fn IoQueueWorkItemEx(
    item: *mut IoWorkItem,
    routine: Option<WorkItemRoutineEx>,
    _queue: i32,
    context: PVOID,
) {
    let (Some(routine), false) = (routine, item.is_null()) else { return };
    // SAFETY: The caller's contract.
    let object = unsafe { item.read_unaligned() }.object;
    // SAFETY: The caller's contract.
    let flag = QueuedFlag(unsafe { &raw mut (*item).queued });
    queue("IoQueueWorkItemEx", flag, WorkCall::IoEx(routine, object, context, item));
}

/// Queues a work item of the driver, which calls its routine with its parameter.
///
/// # Safety
///
/// `item` is NULL or points to an initialised `WORK_QUEUE_ITEM`, which stays there until it runs.
pub unsafe extern "win64-unwind" fn ExQueueWorkItem(item: *mut WorkQueueItem, _queue: i32) {
    if item.is_null() {
        return;
    }
    // SAFETY: The caller's contract.
    let WorkQueueItem { routine, parameter, .. } = unsafe { ptr::read_unaligned(item) };
    // SAFETY: The caller's contract.
    let flag = QueuedFlag(unsafe { &raw mut (*item).next });
    if let Some(routine) = routine {
        queue("ExQueueWorkItem", flag, WorkCall::Ex(routine, parameter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ke_event::{KeInitializeEvent, KeSetEvent};
    use crate::ke_wait::KeWaitForSingleObject;
    use crate::testing::{fly_on_both_hosts, fly_with};
    use abi::status::STATUS_SUCCESS;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// What the routines of this test get: two events and a count.
    struct Shared {
        events: [[u64; 3]; 2],
        runs: AtomicU32,
    }

    impl Shared {
        fn new() -> &'static Self {
            let shared = Box::leak(Box::new(Self { events: [[0; 3]; 2], runs: AtomicU32::new(0) }));
            for index in 0..2 {
                // SAFETY: The event is in the leaked memory.
                unsafe { KeInitializeEvent(shared.event(index), 0, 0) };
            }
            shared
        }

        fn event(&self, index: usize) -> PVOID {
            (&raw const self.events[index]).cast_mut().cast()
        }

        fn pointer(&'static self) -> PVOID {
            ptr::from_ref(self).cast_mut().cast()
        }

        fn wait(&self, index: usize) {
            // SAFETY: The event is in the leaked memory.
            let status = unsafe { KeWaitForSingleObject(self.event(index), 0, 0, 0, ptr::null()) };
            assert_eq!(status, STATUS_SUCCESS);
        }

        fn set(&self, index: usize) {
            // SAFETY: The event is in the leaked memory.
            unsafe { KeSetEvent(self.event(index), 0, 0) };
        }
    }

    /// Waits for the second event and sets the first.
    unsafe extern "win64-unwind" fn waits_for_second(context: PVOID) {
        // SAFETY: The tests pass a `Shared`.
        let shared = unsafe { &*context.cast::<Shared>() };
        shared.wait(1);
        shared.runs.fetch_add(1, Ordering::Relaxed);
        shared.set(0);
    }

    /// Frees its own item and sets the second event.
    unsafe extern "win64-unwind" fn sets_second(
        object: PVOID,
        context: PVOID,
        item: *mut IoWorkItem,
    ) {
        // SAFETY: The tests pass a `Shared`.
        let shared = unsafe { &*context.cast::<Shared>() };
        assert_eq!((object.addr(), crate::KeGetCurrentIrql()), (0x40, 0));
        // SAFETY: The item was allocated, and it is not queued any more.
        unsafe { IoFreeWorkItem(item) };
        shared.runs.fetch_add(1, Ordering::Relaxed);
        shared.set(1);
    }

    #[test]
    fn a_work_item_may_wait_for_another() {
        fly_on_both_hosts(|_, _| {
            let shared = Shared::new();
            let mut first = WorkQueueItem {
                next: 0,
                previous: 0,
                routine: Some(waits_for_second),
                parameter: shared.pointer(),
            };
            crate::KeRaiseIrqlToDpcLevel();
            // SAFETY: The item lives until it has run.
            unsafe { ExQueueWorkItem(&raw mut first, 1) };
            let item = IoAllocateWorkItem(ptr::without_provenance_mut(0x40));
            // SAFETY: The item is freed by its routine.
            unsafe { IoQueueWorkItemEx(item, Some(sets_second), 1, shared.pointer()) };
            crate::KeLowerIrql(0);
            shared.wait(0);
            assert_eq!(shared.runs.load(Ordering::Relaxed), 2);
            assert_eq!(first.next, 0);
        });
    }

    #[test]
    fn an_item_that_is_queued_is_not_queued_again_and_not_freed() {
        fly_with(1, |host, log, _| {
            crate::processor::run_driver(host, log, || {
                let shared = Shared::new();
                let item = IoAllocateWorkItem(ptr::without_provenance_mut(0x40));
                let queue = || {
                    // SAFETY: The item is freed by its routine.
                    unsafe { IoQueueWorkItemEx(item, Some(sets_second), 1, shared.pointer()) };
                };
                queue();
                queue();
                // SAFETY: As above: it is queued, so that this does not free it.
                unsafe { IoFreeWorkItem(item) };
                assert_eq!(crate::testing::pending_work(host).2, 1);
                shared.wait(1);
                assert_eq!(shared.runs.load(Ordering::Relaxed), 1);
            });
            assert_eq!(crate::testing::misuses(log).len(), 2);
            assert_eq!(IoSizeofWorkItem(), 64);
        });
    }
}
