//! The timer functions under their Windows names.
//!
//! A `KTIMER` is in the driver's memory: a dispatcher header, the due time, a list entry, the DPC and
//! the period. A timer that `ExAllocateTimer` makes starts the same way, so that a driver can wait
//! for it. Which timers are set is in `dpc_queue.rs`.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::clock::{UPTIME_AT_START, due_time};
use crate::dispatcher::{ObjectKind, ObjectMemory};
use crate::dpc_queue::{Expiry, MakeRoutine, Queue, Routine, Turn};
use crate::entry::{judge_at_most, judge_irql};
use crate::import_table::import_rows;
use crate::ke_dpc::{self, Dpc};
use crate::ke_irql::APC_LEVEL;
use crate::machine::Machine;
use crate::ob::{self, ObjectReference, ObjectType};
use crate::owned::{self, OwnedKind};
use crate::processor::current;
use crate::waits::{self, WaitEnd};
use abi::{BOOLEAN, PVOID};
use std::sync::Arc;

import_rows! {
    ExAllocateTimer lacks "all timers are exact";
    ExCancelTimer;
    ExDeleteTimer;
    ExSetTimer lacks "no tolerance";
    KeCancelTimer;
    KeInitializeTimer;
    KeInitializeTimerEx;
    KeReadStateTimer;
    KeSetCoalescableTimer lacks "no tolerance";
    KeSetTimer;
    KeSetTimerEx;
}

const DUE_TIME_OFFSET: usize = 0x18;
const LIST_OFFSET: usize = 0x20;
const DPC_OFFSET: usize = 0x30;
const PERIOD_OFFSET: usize = 0x3C;
/// The offset of an allocated timer's callback and its context, behind the `KTIMER`.
const CALLBACK_OFFSET: usize = 0x40;
/// The size of an allocated timer, which is opaque memory.
const EX_TIMER_BYTES: usize = 0x80;
/// Units of 100 ns per millisecond.
const MILLISECOND: u64 = 10_000;
/// `EX_TIMER_NOTIFICATION`: a wait does not reset the timer.
const EX_TIMER_NOTIFICATION: u32 = 1 << 31;

static TIMER_TYPE: ObjectType = ObjectType::new("Timer");

/// The callback of a timer that `ExAllocateTimer` made.
pub type TimerCallback = unsafe extern "win64-unwind" fn(PVOID, PVOID);
/// Called when a timer is deleted.
pub type DeleteCallback = unsafe extern "win64-unwind" fn(PVOID);

/// `EXT_DELETE_PARAMETERS`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeleteParameters {
    version: u32,
    reserved: u32,
    callback: Option<DeleteCallback>,
    context: PVOID,
}

/// A callback and its arguments.
#[derive(Clone, Copy)]
enum Callback {
    Expired(TimerCallback, PVOID, PVOID),
    Deleted(DeleteCallback, PVOID),
}

// SAFETY: The driver passed these pointers for a call on another thread.
unsafe impl Send for Callback {}
// SAFETY: As above; it is only copied.
unsafe impl Sync for Callback {}

impl Callback {
    fn into_routine(self) -> Routine {
        Routine::Callback(Box::new(move || self.run()))
    }

    fn run(self) {
        match self {
            // SAFETY: The driver asked for this call.
            Callback::Expired(callback, timer, context) => unsafe { callback(timer, context) },
            // SAFETY: As above.
            Callback::Deleted(callback, context) => unsafe { callback(context) },
        }
    }
}

/// The timer at an address, if it has been initialised.
///
/// # Safety
///
/// As for [`KeInitializeTimer`].
unsafe fn timer_at(timer: PVOID) -> Option<ObjectMemory> {
    // SAFETY: The caller's contract.
    let memory = unsafe { ObjectMemory::at(timer) }?;
    let kinds = [ObjectKind::NotificationTimer, ObjectKind::SynchronizationTimer];
    memory.kind().is_some_and(|kind| kinds.contains(&kind)).then_some(memory)
}

/// Initialises a timer that stays signalled.
///
/// # Safety
///
/// `timer` is NULL or points to a `KTIMER`, which stays there while it is used.
pub unsafe extern "win64-unwind" fn KeInitializeTimer(timer: PVOID) {
    // SAFETY: The caller's contract.
    unsafe { KeInitializeTimerEx(timer, 0) };
}

/// Initialises a timer. `kind` is 0 (`NotificationTimer`) if it stays signalled, 1
/// (`SynchronizationTimer`) if a satisfied wait resets it.
///
/// # Safety
///
/// As for [`KeInitializeTimer`].
pub unsafe extern "win64-unwind" fn KeInitializeTimerEx(timer: PVOID, kind: i32) {
    // SAFETY: The caller's contract.
    let Some(memory) = (unsafe { ObjectMemory::at(timer) }) else { return };
    let resets = kind == 1;
    let kind =
        if resets { ObjectKind::SynchronizationTimer } else { ObjectKind::NotificationTimer };
    waits::initialize(memory, kind, 0);
    // SAFETY: A timer has its due time, a list entry, its DPC and its period here.
    unsafe { memory.write(DUE_TIME_OFFSET, [0_u64; 5]) };
}

/// Sets a timer; returns whether it was set before.
fn set(
    import: &'static str,
    memory: ObjectMemory,
    due: i64,
    period: u64,
    expiry: Expiry,
) -> BOOLEAN {
    let Some((host, _)) = current(import) else { return 0 };
    judge_irql(import);
    let due_at = UPTIME_AT_START.saturating_add(due_time(due, host.now()));
    let period_ms = u32::try_from(period / MILLISECOND).unwrap_or(u32::MAX);
    // SAFETY: A timer has its due time there.
    unsafe { memory.write(DUE_TIME_OFFSET, due_at) };
    // SAFETY: A timer has a list entry there.
    unsafe { memory.write(LIST_OFFSET, [0_u64; 2]) };
    // SAFETY: A timer has its period there.
    unsafe { memory.write(PERIOD_OFFSET, period_ms) };
    let queue = Queue::current(import);
    BOOLEAN::from(queue.is_some_and(|queue| queue.set_timer(memory, due, period, expiry)))
}

/// Sets a timer with a DPC.
///
/// # Safety
///
/// `timer` as for [`KeInitializeTimer`]; `dpc` is NULL or points to an initialised `KDPC`, which
/// stays there while the timer is set.
unsafe fn set_with_dpc(
    import: &'static str,
    timer: PVOID,
    due: i64,
    period: i32,
    dpc: *mut Dpc,
) -> BOOLEAN {
    // SAFETY: The caller's contract.
    let Some(memory) = (unsafe { timer_at(timer) }) else { return 0 };
    // SAFETY: A timer has its DPC there.
    unsafe { memory.write(DPC_OFFSET, dpc.expose_provenance()) };
    let make: MakeRoutine = Arc::new(|| Routine::Dpc(ke_dpc::read_dpc));
    let expiry = (!dpc.is_null()).then(|| (dpc.expose_provenance(), make));
    let period = u64::try_from(period).unwrap_or(0) * MILLISECOND;
    set(import, memory, due, period, expiry)
}

/// Sets a timer that expires once; returns whether it was set before.
///
/// # Safety
///
/// `timer` as for [`KeInitializeTimer`]; `dpc` is NULL or points to an initialised `KDPC`, which
/// stays there while the timer is set.
pub unsafe extern "win64-unwind" fn KeSetTimer(timer: PVOID, due: i64, dpc: *mut Dpc) -> BOOLEAN {
    // SAFETY: The caller's contract.
    unsafe { set_with_dpc("KeSetTimer", timer, due, 0, dpc) }
}

/// Sets a timer that may expire every `period` milliseconds; returns whether it was set before.
///
/// # Safety
///
/// As for [`KeSetTimer`].
pub unsafe extern "win64-unwind" fn KeSetTimerEx(
    timer: PVOID,
    due: i64,
    period: i32,
    dpc: *mut Dpc,
) -> BOOLEAN {
    // SAFETY: The caller's contract.
    unsafe { set_with_dpc("KeSetTimerEx", timer, due, period, dpc) }
}

/// As [`KeSetTimerEx`]; the tolerable delay is not used.
///
/// # Safety
///
/// As for [`KeSetTimer`].
pub unsafe extern "win64-unwind" fn KeSetCoalescableTimer(
    timer: PVOID,
    due: i64,
    period: u32,
    _tolerance: u32,
    dpc: *mut Dpc,
) -> BOOLEAN {
    let period = i32::try_from(period).unwrap_or(i32::MAX);
    // SAFETY: The caller's contract.
    unsafe { set_with_dpc("KeSetCoalescableTimer", timer, due, period, dpc) }
}

fn cancel(import: &'static str, timer: PVOID) -> BOOLEAN {
    let Some((host, _)) = current(import) else { return 0 };
    judge_irql(import);
    BOOLEAN::from(Machine::of(&host).dpcs.cancel(timer.addr()))
}

/// Cancels a timer; returns whether it was set. Its DPC may be queued still.
pub extern "win64-unwind" fn KeCancelTimer(timer: PVOID) -> BOOLEAN {
    cancel("KeCancelTimer", timer)
}

/// Whether a timer is signalled.
///
/// # Safety
///
/// As for [`KeInitializeTimer`].
pub unsafe extern "win64-unwind" fn KeReadStateTimer(timer: PVOID) -> BOOLEAN {
    // SAFETY: The caller's contract.
    BOOLEAN::from(unsafe { timer_at(timer) }.is_some_and(|timer| waits::read_state(timer) != 0))
}

/// Makes a timer, which calls `callback(timer, context)` at `DISPATCH_LEVEL` when it expires.
/// Returns its address.
pub extern "win64-unwind" fn ExAllocateTimer(
    callback: Option<TimerCallback>,
    context: PVOID,
    attributes: u32,
) -> PVOID {
    let timer = ObjectReference::create(&TIMER_TYPE, EX_TIMER_BYTES).into_pointer();
    let kind = i32::from(attributes & EX_TIMER_NOTIFICATION == 0);
    // SAFETY: The object has room for a timer.
    unsafe { KeInitializeTimerEx(timer, kind) };
    // SAFETY: As above.
    if let Some(memory) = unsafe { ObjectMemory::at(timer) } {
        // SAFETY: The object has room for the callback and its context.
        unsafe { memory.write(CALLBACK_OFFSET, (callback, context)) };
    }
    owned::add(OwnedKind::Timer, timer.addr());
    timer
}

/// Sets a timer of [`ExAllocateTimer`], with a period in units of 100 ns; returns whether it was set
/// before.
///
/// # Safety
///
/// `timer` is NULL or was returned by [`ExAllocateTimer`], and has not been deleted.
pub unsafe extern "win64-unwind" fn ExSetTimer(
    timer: PVOID,
    due: i64,
    period: i64,
    _parameters: PVOID,
) -> BOOLEAN {
    // SAFETY: The caller's contract.
    let Some(memory) = (unsafe { timer_at(timer) }) else { return 0 };
    // SAFETY: A timer of `ExAllocateTimer` has these there.
    let (callback, context): (Option<TimerCallback>, PVOID) =
        unsafe { memory.read(CALLBACK_OFFSET) };
    let expiry = callback.map(|callback| {
        let callback = Callback::Expired(callback, timer, context);
        let make: MakeRoutine = Arc::new(move || callback.into_routine());
        (memory.address(), make)
    });
    set("ExSetTimer", memory, due, u64::try_from(period).unwrap_or(0), expiry)
}

/// Cancels a timer of [`ExAllocateTimer`]; returns whether it was set.
pub extern "win64-unwind" fn ExCancelTimer(timer: PVOID, _parameters: PVOID) -> BOOLEAN {
    cancel("ExCancelTimer", timer)
}

/// Deletes a timer of [`ExAllocateTimer`]; returns whether `cancel_first` cancelled it. With `wait`
/// it returns after the last callback has returned.
///
/// # Safety
///
/// `timer` as for [`ExSetTimer`]; `parameters` is NULL or points to `EXT_DELETE_PARAMETERS`.
pub unsafe extern "win64-unwind" fn ExDeleteTimer(
    timer: PVOID,
    cancel_first: BOOLEAN,
    wait: BOOLEAN,
    parameters: *const DeleteParameters,
) -> BOOLEAN {
    const NAME: &str = "ExDeleteTimer";
    // WINDOWS: documented. A timer that is not cancelled goes off once more; here it never does.
    let cancelled = if cancel_first == 0 { 0 } else { cancel(NAME, timer) };
    let end = if wait == 0 {
        WaitEnd::Satisfied(0)
    } else {
        judge_at_most(NAME, "ExDeleteTimer with Wait", APC_LEVEL);
        ke_dpc::flush(NAME)
    };
    waits::leave_if_over(end);
    if !parameters.is_null() {
        // SAFETY: The caller's contract.
        let parameters = unsafe { parameters.read_unaligned() };
        if let (Some(callback), Some(queue)) = (parameters.callback, Queue::current(NAME)) {
            let routine = Callback::Deleted(callback, parameters.context).into_routine();
            // A timer's expiry is queued by its address; its deletion by the next one.
            queue.insert(timer.addr() + 1, Turn::Next, routine, || ());
        }
    }
    if let Some((host, _)) = current(NAME) {
        Machine::of(&host).dpcs.cancel(timer.addr());
    }
    owned::remove(OwnedKind::Timer, timer.addr());
    ob::release(timer);
    cancelled
}

#[cfg(test)]
#[path = "ke_timer_tests.rs"]
mod tests;
