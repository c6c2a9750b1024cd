//! Threads of a driver and the current thread, under their Windows names.
//!
//! A thread object is a dispatcher object: it is signalled when the thread has ended. Threads that
//! the driver did not start have one too, made when a driver first asks for it. There is one
//! process, the system process.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]

use crate::abandon::{self, Abandoned};
use crate::dispatcher::{ObjectKind, ObjectMemory};
use crate::entry::judge_irql;
use crate::handles;
use crate::import_table::import_rows;
use crate::ke_mutex::owned_by_this_thread;
use crate::ke_thread::{DEFAULT_PRIORITY, PRIORITY_OFFSET};
use crate::machine::Machine;
use crate::ob::{ObjectReference, PsThreadType};
use crate::owned::{self, Origin};
use crate::processor::{current, judge_routine_exit, run_routine};
use crate::waits::{self, call_of, log_misuse};
use abi::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_SUCCESS, STATUS_UNSUCCESSFUL,
};
use abi::{BOOLEAN, NTSTATUS, PVOID};
use flight::{Component, ExecutionContext, Host, Irql, Log};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

import_rows! {
    IoGetCurrentProcess;
    KeGetCurrentThread;
    PsCreateSystemThread lacks "no object attributes; the system process only";
    PsGetCurrentProcess;
    PsGetCurrentProcessId;
    PsGetCurrentThread;
    PsGetCurrentThreadId;
    PsGetThreadId;
    PsGetVersion;
    static PsInitialSystemProcess = PsInitialSystemProcess;
    PsIsSystemThread;
    PsTerminateSystemThread;
}

/// A driver's start routine.
pub type StartRoutine = unsafe extern "win64-unwind" fn(PVOID);

/// The number of threads that a driver may have at a time: one more cannot be created.
///
/// WINDOWS: the limit is what the memory of the machine has room for (our decision: far more than a
/// driver needs, and few enough for this machine).
const MAX_THREADS: usize = 1024;
/// The size of a thread object. A driver knows it as opaque memory.
const THREAD_BYTES: usize = 0x800;
/// The offset of the thread's id in its object. WINDOWS: undocumented; no driver reads it.
const ID_OFFSET: usize = 0x400;
/// The id of the system process, as on Windows.
const SYSTEM_PROCESS_ID: usize = 4;
/// The version of Windows that drivers see: 10.0, build 19041, which is the first with WDDM 2.7.
const VERSION: (u32, u32, u32) = (10, 0, 19_041);
/// The size of the process object, which is opaque memory.
const PROCESS_WORDS: usize = 0x140;

/// The memory of the system process: a dispatcher header that is not signalled, and zeros.
static SYSTEM_PROCESS: [u64; PROCESS_WORDS] = [0; PROCESS_WORDS];
/// The system process.
pub static PsInitialSystemProcess: &[u64; PROCESS_WORDS] = &SYSTEM_PROCESS;

thread_local! {
    /// The address of this thread's object, or zero.
    static THREAD: Cell<usize> = const { Cell::new(0) };
    /// The object of a thread that no driver started.
    static OWN_OBJECT: RefCell<Option<ObjectReference>> = const { RefCell::new(None) };
    /// Whether a driver started this thread.
    static OF_DRIVER: Cell<bool> = const { Cell::new(false) };
}

/// The address of the current thread's object (`KeGetCurrentThread`).
pub fn current_thread() -> usize {
    if THREAD.get() == 0 {
        let object = new_thread_object(0x1000 + 4 * flight::current_thread() as usize);
        THREAD.set(object.address());
        // A thread that is ending loses its object.
        let _ = OWN_OBJECT.try_with(|own| own.replace(Some(object)));
    }
    THREAD.get()
}

/// The address of the system process.
pub fn system_process() -> usize {
    SYSTEM_PROCESS.as_ptr().expose_provenance()
}

fn new_thread_object(id: usize) -> ObjectReference {
    let object = ObjectReference::create(PsThreadType, THREAD_BYTES);
    if let Some(memory) = thread_memory(&object) {
        waits::initialize(memory, ObjectKind::Thread, 0);
        // SAFETY: A thread object is longer than this.
        unsafe { memory.write(ID_OFFSET, id) };
        // SAFETY: As above.
        unsafe { memory.write(PRIORITY_OFFSET, DEFAULT_PRIORITY) };
    }
    object
}

fn thread_memory(thread: &ObjectReference) -> Option<ObjectMemory> {
    // SAFETY: The reference keeps the thread object's memory alive.
    unsafe { ObjectMemory::at(thread.pointer()) }
}

/// A start routine and its argument, on the way to their thread.
struct Start(StartRoutine, PVOID);

// SAFETY: The driver asked for a thread that calls the routine with this argument.
unsafe impl Send for Start {}

/// Starts a thread that calls `routine(context)` at passive level.
///
/// # Safety
///
/// `handle` is valid for a write, `client_id` is NULL or valid for a write of two pointers, and
/// `routine` may be called with `context` on another thread.
pub unsafe extern "win64-unwind" fn PsCreateSystemThread(
    handle: *mut usize,
    _access: u32,
    _attributes: PVOID,
    _process: PVOID,
    client_id: *mut [usize; 2],
    routine: Option<StartRoutine>,
    context: PVOID,
) -> NTSTATUS {
    const NAME: &str = "PsCreateSystemThread";
    let Some((host, log)) = current(NAME) else { return STATUS_UNSUCCESSFUL };
    judge_irql(NAME);
    let (Some(routine), false) = (routine, handle.is_null()) else {
        return STATUS_INVALID_PARAMETER;
    };
    let machine = Machine::of(&host);
    log.count_turn(Component::Driver, || call_of(NAME));
    if machine.thread_count() >= MAX_THREADS {
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    let number = machine.next_thread();
    let id = 0x2000 + 4 * number as usize;
    let thread = new_thread_object(id);
    let (object, memory) = (thread.address(), thread_memory(&thread));
    let opened = ObjectReference::new(thread.address()).map_or(0, ObjectReference::open);
    // SAFETY: The caller's contract.
    unsafe { handle.write_unaligned(opened) };
    if !client_id.is_null() {
        // SAFETY: The caller's contract.
        unsafe { client_id.write_unaligned([SYSTEM_PROCESS_ID, id]) };
    }
    let name = format!("driver thread {number}");
    let origin = owned::origin();
    machine.add_thread(&name, (routine as *const ()).addr(), (thread, origin));
    let (captured, start) = (ExecutionContext::capture(), Start(routine, context));
    let spawner = host.clone().spawner();
    let life = ThreadLife { name: name.clone(), object, memory, origin, start };
    if spawner.spawn_driver_thread(&name, move |_| life.run(&host, &log, captured)).is_ok() {
        return STATUS_SUCCESS;
    }
    // The operating system has no thread, as Windows can have none.
    machine.release_thread(&name);
    handles::close(opened);
    // SAFETY: The caller's contract.
    unsafe { handle.write_unaligned(0) };
    STATUS_INSUFFICIENT_RESOURCES
}

/// A driver's thread before it runs. Its record in the machine keeps its object alive.
struct ThreadLife {
    name: String,
    object: usize,
    memory: Option<ObjectMemory>,
    origin: Origin,
    start: Start,
}

impl ThreadLife {
    fn run(self, host: &Arc<dyn Host>, log: &Arc<Log>, captured: ExecutionContext) {
        let entered = captured.enter();
        THREAD.set(self.object);
        OF_DRIVER.set(true);
        let routine = || {
            let Start(routine, context) = self.start;
            // SAFETY: The driver asked for this call.
            unsafe { routine(context) };
        };
        let (ended, left) = owned::run_routine_of(self.origin, || run_routine(host, log, routine));
        OF_DRIVER.set(false);
        THREAD.set(0);
        if ended == Err(Abandoned::HostEnded) {
            return; // It is still in the list of live threads.
        }
        judge_routine_exit(log, "PsTerminateSystemThread", &left);
        if owned_by_this_thread() > 0 {
            // WINDOWS: documented, bug check 0x4000008A.
            log_misuse("PsTerminateSystemThread", "on a thread that owns a mutex");
        }
        drop(entered);
        let machine = Machine::of(host);
        machine.end_thread(&self.name);
        if let Some(memory) = self.memory {
            waits::change_at(Irql::Passive, Some(&**host), memory, |_| memory.set_signal_state(1));
        }
        machine.release_thread(&self.name);
    }
}

/// Ends the current thread, which the driver started. The driver's code on it does not continue.
///
/// WINDOWS: documented. On a thread that the driver did not start it fails.
pub extern "win64-unwind" fn PsTerminateSystemThread(_status: NTSTATUS) -> NTSTATUS {
    if OF_DRIVER.get() {
        abandon::abandon(Abandoned::ThreadEnded);
    }
    STATUS_INVALID_PARAMETER
}

/// The current thread's object.
pub extern "win64-unwind" fn KeGetCurrentThread() -> PVOID {
    std::ptr::with_exposed_provenance_mut(current_thread())
}

/// The current thread's object: another name of [`KeGetCurrentThread`].
pub extern "win64-unwind" fn PsGetCurrentThread() -> PVOID {
    KeGetCurrentThread()
}

/// The id of the current thread.
pub extern "win64-unwind" fn PsGetCurrentThreadId() -> usize {
    // SAFETY: It is a thread object.
    unsafe { PsGetThreadId(KeGetCurrentThread()) }
}

/// The id of a thread.
///
/// # Safety
///
/// `thread` is NULL or points to a thread object.
pub unsafe extern "win64-unwind" fn PsGetThreadId(thread: PVOID) -> usize {
    // SAFETY: The caller's contract.
    let memory = unsafe { ObjectMemory::at(thread) };
    let memory = memory.filter(|memory| memory.kind() == Some(ObjectKind::Thread));
    // SAFETY: A thread object has its id there.
    memory.map_or(0, |memory| unsafe { memory.read(ID_OFFSET) })
}

/// Whether a driver started the thread.
pub extern "win64-unwind" fn PsIsSystemThread(thread: PVOID) -> BOOLEAN {
    BOOLEAN::from(OF_DRIVER.get() && thread.addr() == THREAD.get())
}

/// The system process.
pub extern "win64-unwind" fn PsGetCurrentProcess() -> PVOID {
    std::ptr::with_exposed_provenance_mut(system_process())
}

/// The system process: another name of [`PsGetCurrentProcess`].
pub extern "win64-unwind" fn IoGetCurrentProcess() -> PVOID {
    PsGetCurrentProcess()
}

/// The id of the system process.
pub extern "win64-unwind" fn PsGetCurrentProcessId() -> usize {
    SYSTEM_PROCESS_ID
}

/// The version of Windows. Returns whether the build is a checked one: it is not.
///
/// # Safety
///
/// Each pointer is NULL or valid for a write; `service_pack` to a `UNICODE_STRING`.
pub unsafe extern "win64-unwind" fn PsGetVersion(
    major: *mut u32,
    minor: *mut u32,
    build: *mut u32,
    service_pack: *mut [u64; 2],
) -> BOOLEAN {
    for (place, value) in [(major, VERSION.0), (minor, VERSION.1), (build, VERSION.2)] {
        if !place.is_null() {
            // SAFETY: The caller's contract.
            unsafe { place.write_unaligned(value) };
        }
    }
    if !service_pack.is_null() {
        // SAFETY: The caller's contract. An empty string is all zeros.
        unsafe { service_pack.write_unaligned([0; 2]) };
    }
    0
}

#[cfg(test)]
#[path = "ps_tests.rs"]
mod tests;
