//! The DPC functions under their Windows names.
//!
//! A `KDPC` is in the driver's memory: its type, importance and processor, the routine and its three
//! arguments, and a pointer that is not NULL while it is queued. A worker thread of the host runs
//! the routine, as another processor does on Windows: also if the caller is at passive level, the
//! routine may run later.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::dpc_queue::{Queue, Routine, Turn};
use crate::entry::judge_irql;
use crate::import_table::import_rows;
use crate::machine::Machine;
use crate::processor::current;
use crate::waits::{self, WaitEnd};
use abi::status::STATUS_SUCCESS;
use abi::{BOOLEAN, NTSTATUS, PVOID};
use std::ptr;

import_rows! {
    KeFlushQueuedDpcs;
    KeInitializeDpc;
    KeInitializeThreadedDpc;
    KeInsertQueueDpc lacks "may run after a call at passive level has returned";
    KeRemoveQueueDpc;
    KeSetImportanceDpc lacks "only HighImportance has an effect";
    KeSetTargetProcessorDpc lacks "there is one processor";
    KeSetTargetProcessorDpcEx lacks "there is one processor";
}

/// The routine of a DPC.
pub type DeferredRoutine = unsafe extern "win64-unwind" fn(*mut Dpc, PVOID, PVOID, PVOID);

/// `KDPC`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Dpc {
    kind: u8,
    importance: u8,
    number: u16,
    list_entry: usize,
    processor_history: usize,
    routine: Option<DeferredRoutine>,
    context: PVOID,
    argument1: PVOID,
    argument2: PVOID,
    /// Not NULL while it is queued.
    data: usize,
}

/// The type of a DPC (`DpcObject`).
const DPC: u8 = 19;
/// The type of a threaded DPC (`ThreadedDpcObject`).
const THREADED_DPC: u8 = 26;
/// `LowImportance`.
const LOW_IMPORTANCE: u8 = 0;
/// `MediumImportance`, the default.
const MEDIUM_IMPORTANCE: u8 = 1;
/// `HighImportance`: the DPC goes to the front of the queue.
const HIGH_IMPORTANCE: u8 = 2;

/// A call of a DPC's routine.
struct DpcCall(DeferredRoutine, usize, [PVOID; 3]);

// SAFETY: The driver queued the DPC so that another thread calls the routine with these pointers.
unsafe impl Send for DpcCall {}

impl DpcCall {
    fn run(self) {
        let DpcCall(routine, dpc, [context, argument1, argument2]) = self;
        let dpc = ptr::with_exposed_provenance_mut(dpc);
        // SAFETY: The driver asked for this call.
        unsafe { routine(dpc, context, argument1, argument2) };
    }
}

/// What a DPC calls when it leaves the queue.
pub(crate) fn read_dpc(address: usize) -> (Box<dyn FnOnce() + Send>, bool) {
    let place: *mut Dpc = ptr::with_exposed_provenance_mut(address);
    // SAFETY: The driver keeps a DPC that is queued.
    let dpc = unsafe { place.read_unaligned() };
    // SAFETY: As above.
    let data = unsafe { &raw mut (*place).data };
    // SAFETY: As above.
    unsafe { data.write_unaligned(0) };
    let Some(routine) = dpc.routine else { return (Box::new(|| ()), false) };
    let call = DpcCall(routine, address, [dpc.context, dpc.argument1, dpc.argument2]);
    (Box::new(move || call.run()), dpc.kind == THREADED_DPC)
}

/// When a DPC runs.
///
/// WINDOWS: the system does not process its queue for a DPC of low importance (documented).
///
/// # Safety
///
/// `dpc` points to a `KDPC`.
unsafe fn turn_of(dpc: *mut Dpc) -> Turn {
    // SAFETY: The caller's contract.
    let Dpc { kind, importance, .. } = unsafe { dpc.read_unaligned() };
    match (kind, importance) {
        (_, HIGH_IMPORTANCE) => Turn::First,
        (THREADED_DPC, _) | (_, LOW_IMPORTANCE) => Turn::Delayed,
        _ => Turn::Next,
    }
}

unsafe fn initialize(dpc: *mut Dpc, kind: u8, routine: Option<DeferredRoutine>, context: PVOID) {
    let null = ptr::null_mut();
    let value = Dpc {
        kind,
        importance: MEDIUM_IMPORTANCE,
        number: 0,
        list_entry: 0,
        processor_history: 0,
        routine,
        context,
        argument1: null,
        argument2: null,
        data: 0,
    };
    if !dpc.is_null() {
        // SAFETY: The caller's contract.
        unsafe { dpc.write_unaligned(value) };
    }
}

/// Initialises a DPC.
///
/// # Safety
///
/// `dpc` is NULL or points to a `KDPC`, which stays there while it is queued.
pub unsafe extern "win64-unwind" fn KeInitializeDpc(
    dpc: *mut Dpc,
    routine: Option<DeferredRoutine>,
    context: PVOID,
) {
    // SAFETY: The caller's contract.
    unsafe { initialize(dpc, DPC, routine, context) };
}

/// Initialises a threaded DPC, whose routine runs at passive level.
///
/// # Safety
///
/// As for [`KeInitializeDpc`].
pub unsafe extern "win64-unwind" fn KeInitializeThreadedDpc(
    dpc: *mut Dpc,
    routine: Option<DeferredRoutine>,
    context: PVOID,
) {
    // SAFETY: The caller's contract.
    unsafe { initialize(dpc, THREADED_DPC, routine, context) };
}

/// Queues a DPC. Returns FALSE if it is queued already.
///
/// # Safety
///
/// As for [`KeInitializeDpc`].
pub unsafe extern "win64-unwind" fn KeInsertQueueDpc(
    dpc: *mut Dpc,
    argument1: PVOID,
    argument2: PVOID,
) -> BOOLEAN {
    let Some(queue) = Queue::current("KeInsertQueueDpc").filter(|_| !dpc.is_null()) else {
        return 0;
    };
    // SAFETY: The caller's contract.
    let turn = unsafe { turn_of(dpc) };
    let prepare = || {
        // SAFETY: The caller's contract.
        let mut value = unsafe { dpc.read_unaligned() };
        (value.argument1, value.argument2, value.data) = (argument1, argument2, 1);
        // SAFETY: As above.
        unsafe { dpc.write_unaligned(value) };
    };
    BOOLEAN::from(queue.insert(dpc.expose_provenance(), turn, Routine::Dpc(read_dpc), prepare))
}

/// Removes a DPC from the queue. Returns FALSE if it was not queued.
///
/// # Safety
///
/// As for [`KeInitializeDpc`].
pub unsafe extern "win64-unwind" fn KeRemoveQueueDpc(dpc: *mut Dpc) -> BOOLEAN {
    let Some((host, _)) = current("KeRemoveQueueDpc").filter(|_| !dpc.is_null()) else { return 0 };
    let removed = Machine::of(&host).dpcs.remove(dpc.addr());
    if removed {
        // SAFETY: The caller's contract.
        let data = unsafe { &raw mut (*dpc).data };
        // SAFETY: As above.
        unsafe { data.write_unaligned(0) };
    }
    BOOLEAN::from(removed)
}

/// Sets the processor that runs a DPC: there is one.
pub extern "win64-unwind" fn KeSetTargetProcessorDpc(_dpc: *mut Dpc, _number: i8) {}

/// Sets the processor that runs a DPC: there is one.
pub extern "win64-unwind" fn KeSetTargetProcessorDpcEx(
    _dpc: *mut Dpc,
    _number: *const u32,
) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Sets the importance of a DPC.
///
/// # Safety
///
/// As for [`KeInitializeDpc`].
pub unsafe extern "win64-unwind" fn KeSetImportanceDpc(dpc: *mut Dpc, importance: i32) {
    if !dpc.is_null() {
        // SAFETY: The caller's contract.
        let place = unsafe { &raw mut (*dpc).importance };
        // SAFETY: As above.
        unsafe { place.write_unaligned(u8::try_from(importance).unwrap_or(MEDIUM_IMPORTANCE)) };
    }
}

/// Waits until all DPCs that are queued now have run.
pub extern "win64-unwind" fn KeFlushQueuedDpcs() {
    const NAME: &str = "KeFlushQueuedDpcs";
    judge_irql(NAME);
    waits::leave_if_over(flush(NAME));
}

/// Waits until all DPCs that are queued now have run.
pub(crate) fn flush(import: &'static str) -> WaitEnd {
    Queue::current(import).map_or(WaitEnd::Failed, |queue| queue.flush(import))
}
