//! The one global kernel: it starts at the first call, with its driver.
#![expect(unsafe_code, reason = "a call may have to be made on another thread")]

use crate::process_handles::Descriptors;
use crate::remote::RemoteCall;
use crate::{claim_copy, faults, fork, remote, report, reserve};
use abi::NTSTATUS;
use abi::status::{
    STATUS_DEVICE_BUSY, STATUS_DEVICE_REMOVED, STATUS_NO_MEMORY, STATUS_NOT_FOUND,
    STATUS_NOT_SUPPORTED, STATUS_UNSUCCESSFUL,
};
use flight::{NoResources, Passive, ThreadedHost};
use server::{
    CallSite, EventDescriptors, HostedKernel, NtDescriptors, Report, driver, internal, signals,
    standard_error,
};
use std::cell::Cell;
use std::panic::resume_unwind;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use thunk::Session;

/// The kernel behind the exported functions, and its host.
pub(crate) struct GlobalKernel {
    pub(crate) host: Arc<ThreadedHost>,
    pub(crate) session: Session,
    /// Set if a report was requested.
    pub(crate) report: Option<Arc<Report>>,
    /// Set while the report is written: every call fails.
    pub(crate) over: AtomicBool,
}

/// `None` if the driver did not start: an internal bug, which is printed.
static GLOBAL_KERNEL: OnceLock<Option<GlobalKernel>> = OnceLock::new();

thread_local! {
    /// Destroyed with the other thread-local values. `exit` destroys those of its thread first and
    /// then runs exit handlers, in which C++ destructors may call this library. Another thread
    /// makes these calls for them.
    static LOCAL: ThreadLocalProbe = const { ThreadLocalProbe };
    /// Whether this thread is inside a call.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Has a destructor, so that its destruction can be detected.
struct ThreadLocalProbe;

impl Drop for ThreadLocalProbe {
    fn drop(&mut self) {}
}

/// The body of a call, for another thread.
struct SendBody<B>(B);

// SAFETY: The sending thread waits until the body has run, so no value is used by two threads at
// once. The body uses no thread-local value, because its own thread has lost them.
unsafe impl<B> Send for SendBody<B> {}

impl<B> SendBody<B> {
    fn body(self) -> B {
        self.0
    }
}

/// Runs a client's call on its thread, as its process: by `body`, or by a server.
pub(crate) fn call(
    name: &'static str,
    remote: &RemoteCall<'_>,
    body: impl FnOnce(&Session, &mut Passive) -> NTSTATUS,
) -> NTSTATUS {
    enter(|| {
        if !remote::is_requested() {
            return call_once(name, body);
        }
        if !reserve::is_available() {
            return STATUS_NO_MEMORY;
        }
        let run = || remote::call(remote);
        internal::caught(run).unwrap_or(STATUS_UNSUCCESSFUL)
    })
}

/// Runs a call of the kernel in this process: a server has none.
pub(crate) fn call_here(
    name: &'static str,
    body: impl FnOnce(&Session, &mut Passive) -> NTSTATUS,
) -> NTSTATUS {
    enter(|| if remote::is_requested() { STATUS_NOT_SUPPORTED } else { call_once(name, body) })
}

/// Runs the body of a call, unless this thread is inside another one.
pub(crate) fn enter(body: impl FnOnce() -> NTSTATUS) -> NTSTATUS {
    // WINDOWS: our decision. A signal handler interrupts its thread inside a call, which may hold
    // any lock: the handler's own call must not wait for it. Windows has no such handlers.
    if INSIDE.replace(true) {
        return STATUS_DEVICE_BUSY;
    }
    claim_copy::begin_call();
    let status = body();
    INSIDE.set(false);
    status
}

/// The number of live objects of the kernel, with its adapter and its process; `None` before the
/// first call. Not exported to C.
pub fn live_objects() -> Option<usize> {
    GlobalKernel::running().map(|kernel| kernel.session.kernel().live_objects().objects.len())
}

/// Whether this thread is inside a call.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// Runs a call of a thread that is in no other call. Does not unwind.
fn call_once(
    name: &'static str,
    body: impl FnOnce(&Session, &mut Passive) -> NTSTATUS,
) -> NTSTATUS {
    // WINDOWS: our decision. The objects are in the parent process, as after a removal.
    if fork::is_forked_child() {
        return STATUS_DEVICE_REMOVED;
    }
    // WINDOWS: our decision, as for any internal failure.
    if internal::first().is_some() {
        return STATUS_UNSUCCESSFUL;
    }
    if !reserve::is_available() {
        return STATUS_NO_MEMORY;
    }
    let run = || {
        let Some(kernel) = GlobalKernel::get_or_start() else { return STATUS_NOT_FOUND };
        if kernel.over.load(Ordering::Acquire) {
            return STATUS_DEVICE_REMOVED;
        }
        if kernel.report.is_some() {
            faults::watch_thread();
        }
        if LOCAL.try_with(|_| ()).is_ok() {
            return kernel.call(name, body);
        }
        let carried = SendBody(body);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new();
            match thread.spawn_scoped(scope, move || kernel.call(name, carried.body())) {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(_) => STATUS_NO_MEMORY,
            }
        })
    };
    // A panic is an internal bug. It is already printed and does not leave the library.
    internal::caught(run).unwrap_or_else(|panic| {
        if panic.is::<NoResources>() { STATUS_NO_MEMORY } else { STATUS_UNSUCCESSFUL }
    })
}

impl GlobalKernel {
    fn get_or_start() -> Option<&'static Self> {
        if GLOBAL_KERNEL.get().is_none() {
            fork::mark_started();
        }
        let start = || {
            if driver::is_file_of_environment() {
                // Its driver may fault, on any thread.
                signals::with_sent_signals_blocked(Self::start)
            } else {
                signals::with_signals_blocked(Self::start)
            }
        };
        GLOBAL_KERNEL.get_or_init(start).as_ref()
    }

    /// The kernel, if a call has started it.
    pub(crate) fn running() -> Option<&'static Self> {
        GLOBAL_KERNEL.get()?.as_ref()
    }

    fn start() -> Option<Self> {
        // Without a driver, the kernel has no adapter.
        let set_up = |host: &_, log: &_| {
            let setup = driver::from_environment(host, log);
            Ok(setup.inspect_err(|reason| standard_error::print_line(reason)).ok())
        };
        let report = report::from_environment().map(Arc::new);
        // First: the driver of a file may fault in its DriverEntry.
        if report.is_some() || driver::is_file_of_environment() {
            faults::watch();
        }
        let started = HostedKernel::start(report, set_up);
        let HostedKernel { host, kernel, report, .. } =
            started.inspect_err(|reason| standard_error::print_line(reason)).ok()?;
        // After the handler of the report, which it calls.
        claim_copy::install();
        let session = Session::guarded_by(&kernel, claim_copy::DIRECT_ACCESS)
            .with_process_handles(Arc::new(Descriptors))
            .with_nt_handles(Arc::new(NtDescriptors::default()))
            .with_event_handles(Arc::new(EventDescriptors));
        Some(Self { host, session, report, over: AtomicBool::new(false) })
    }

    fn call(
        &self,
        name: &'static str,
        body: impl FnOnce(&Session, &mut Passive) -> NTSTATUS,
    ) -> NTSTATUS {
        self.host.adopt("client", |at| {
            let Some(report) = &self.report else { return body(&self.session, at) };
            let call_site = CallSite::here(name, return_address());
            report.call(self.session.kernel().log(), call_site, || body(&self.session, at))
        })
    }
}

/// Where the exported function that this thread is in returns to; zero if another thread makes the
/// call for it.
fn return_address() -> usize {
    let caller_frames = thunk::claims::caller_frames();
    if caller_frames == 0 {
        return 0;
    }
    let return_address = ptr::with_exposed_provenance::<usize>(caller_frames).wrapping_sub(1);
    // SAFETY: The exported function noted the address behind its return address, and has not returned.
    unsafe { return_address.read() }
}
