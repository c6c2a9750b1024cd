use super::*;
use crate::driver_threads;
use crate::handles;
use crate::ke_event::{KeInitializeEvent, KeSetEvent};
use crate::ke_wait::{KeDelayExecutionThread, KeWaitForSingleObject};
use crate::ob::{ObReferenceObjectByHandle, ObfDereferenceObject};
use crate::processor::run_driver;
use crate::testing::{fly_on_both_hosts, fly_with};
use abi::status::STATUS_TIMEOUT;
use flight::{
    DeterministicHost, Passive, Role, Spawner, ThreadBody, ThreadedHost, WaitResult, WaitToken,
};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// A driver's extension: two events and what its thread did.
struct Extension {
    stop: [u64; 3],
    turns: AtomicU32,
    left: AtomicU32,
}

impl Extension {
    /// The extension is never freed, so that a thread that is left behind cannot harm the test.
    fn new() -> &'static Self {
        let extension = Box::leak(Box::new(Self {
            stop: [0; 3],
            turns: AtomicU32::new(0),
            left: AtomicU32::new(0),
        }));
        // SAFETY: The event is in the extension.
        unsafe { KeInitializeEvent(extension.stop(), 0, 0) };
        extension
    }

    fn stop(&self) -> PVOID {
        (&raw const self.stop).cast_mut().cast()
    }

    /// Starts a thread; returns its object, referenced.
    fn start(&'static self, routine: StartRoutine) -> PVOID {
        let (mut handle, mut object) = (0, ptr::null_mut());
        let context = ptr::from_ref(self).cast_mut().cast();
        let null = ptr::null_mut;
        // SAFETY: The routines of this test accept an extension.
        let status = unsafe {
            PsCreateSystemThread(
                &raw mut handle,
                0,
                null(),
                null(),
                ptr::null_mut(),
                Some(routine),
                context,
            )
        };
        assert_eq!(status, STATUS_SUCCESS);
        let kind = ptr::from_ref(PsThreadType).cast_mut().cast();
        let behind = ptr::without_provenance_mut(handle);
        // SAFETY: The place is a local variable.
        let status = unsafe {
            ObReferenceObjectByHandle(behind, 0, kind, 0, &raw mut object, ptr::null_mut())
        };
        assert_eq!(status, STATUS_SUCCESS);
        assert!(handles::close(handle));
        object
    }
}

/// SAFETY: For the routines of this test.
unsafe fn extension(context: PVOID) -> &'static Extension {
    // SAFETY: Each thread gets the address of an extension, which is never freed.
    unsafe { &*context.cast::<Extension>() }
}

fn wait(object: PVOID, timeout: Option<&i64>) -> NTSTATUS {
    let timeout = timeout.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: The tests wait for objects that live.
    unsafe { KeWaitForSingleObject(object, 0, 0, 0, timeout) }
}

/// Polls every millisecond until it is stopped, and returns.
unsafe extern "win64-unwind" fn poll_until_stopped(context: PVOID) {
    // SAFETY: The contract of a start routine.
    let extension = unsafe { extension(context) };
    while wait(extension.stop(), Some(&-10_000)) == STATUS_TIMEOUT {
        extension.turns.fetch_add(1, Ordering::Relaxed);
    }
    extension.left.fetch_add(1, Ordering::Relaxed);
}

/// Waits until it is stopped, and ends itself.
unsafe extern "win64-unwind" fn wait_and_terminate(context: PVOID) {
    // SAFETY: The contract of a start routine.
    let extension = unsafe { extension(context) };
    assert_eq!(crate::KeGetCurrentIrql(), 0);
    assert_eq!(PsIsSystemThread(PsGetCurrentThread()), 1);
    assert_eq!(wait(extension.stop(), None), STATUS_SUCCESS);
    extension.turns.fetch_add(1, Ordering::Relaxed);
    PsTerminateSystemThread(STATUS_SUCCESS);
    extension.left.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_thread_ends_and_is_waited_for() {
    fly_on_both_hosts(|host, _| {
        let driver = Extension::new();
        let thread = driver.start(wait_and_terminate);
        assert_eq!(driver_threads(host).len(), 1);
        assert_eq!(wait(thread, Some(&-10_000)), STATUS_TIMEOUT, "it runs");
        // SAFETY: The event is in the extension.
        unsafe { KeSetEvent(driver.stop(), 0, 0) };
        assert_eq!(wait(thread, None), STATUS_SUCCESS);
        assert_eq!(wait(thread, Some(&0)), STATUS_SUCCESS, "it stays signalled");
        let counts = (driver.turns.load(Ordering::Relaxed), driver.left.load(Ordering::Relaxed));
        assert_eq!(counts, (1, 0), "PsTerminateSystemThread does not return");
        assert!(driver_threads(host).is_empty());
        // The handle is closed. On the threaded host the ending thread may still hold its object.
        assert!(ObfDereferenceObject(thread) <= 1);
    });
}

#[test]
fn a_polling_thread_polls_while_the_driver_waits() {
    fly_on_both_hosts(|host, _| {
        let driver = Extension::new();
        let thread = driver.start(poll_until_stopped);
        // SAFETY: The interval is an `i64`: 100 ms.
        assert_eq!(unsafe { KeDelayExecutionThread(0, 0, &-1_000_000) }, STATUS_SUCCESS);
        let turns = driver.turns.load(Ordering::Relaxed);
        assert!((99..=100).contains(&turns), "{turns}");
        // SAFETY: The event is in the extension.
        unsafe { KeSetEvent(driver.stop(), 0, 0) };
        assert_eq!(wait(thread, None), STATUS_SUCCESS);
        assert_eq!(driver.left.load(Ordering::Relaxed), 1);
        assert!(host.now() < 1_100_000, "{}", host.now());
    });
}

#[test]
fn threads_that_are_left_end_with_the_run_and_stay_listed() {
    let check = |driver: &Extension, host: &Arc<dyn Host>| {
        assert_eq!(driver.left.load(Ordering::Relaxed), 0, "no driver code runs again");
        let names: Vec<String> =
            driver_threads(host).into_iter().map(|thread| thread.name).collect();
        assert_eq!(names, ["driver thread 1", "driver thread 2"]);
        assert_eq!(driver_threads(host)[0].start_routine, (poll_until_stopped as *const ()).addr());
    };
    let starts = || {
        let driver = Extension::new();
        driver.start(poll_until_stopped);
        driver.start(wait_and_terminate);
        driver
    };
    let log = Arc::new(Log::new());
    let flown = DeterministicHost::fly(3, &log, |host, at| {
        let host: Arc<dyn Host> = host.clone();
        let (driver, _) = run_driver(&host, &log, starts);
        host.clone().spawner().run_until_idle(at);
        assert_eq!(host.clone().spawner().driver_threads(), ["driver thread 1", "driver thread 2"]);
        assert_eq!(host.now(), 500_000, "a wait for idle lasts 50 ms");
        (driver, host)
    });
    let (driver, host) = flown.unwrap();
    check(driver, &host);
    let flown = ThreadedHost::fly(&log, |host, _| {
        let host: Arc<dyn Host> = host.clone();
        (run_driver(&host, &log, starts).0, host)
    });
    let (driver, host) = flown.unwrap();
    check(driver, &host);
}

#[test]
fn a_client_that_nothing_wakes_is_stuck_although_a_thread_polls() {
    fly_with(1, |host, log, _| {
        run_driver(host, log, || {
            let driver = Extension::new();
            driver.start(poll_until_stopped);
            let mut never = [0_u64; 3];
            let event: PVOID = never.as_mut_ptr().cast();
            // SAFETY: The event is `never`.
            unsafe { KeInitializeEvent(event, 0, 0) };
            assert_eq!(wait(event, None), STATUS_UNSUCCESSFUL);
            assert_eq!(host.now(), 100_000_000, "after 10 s");
        });
    });
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = |seed| {
        let log = Arc::new(Log::new());
        let flown = DeterministicHost::fly(seed, &log, |host, _| {
            let host: Arc<dyn Host> = host.clone();
            run_driver(&host, &log, || {
                let driver = Extension::new();
                let threads = [driver.start(poll_until_stopped), driver.start(wait_and_terminate)];
                // SAFETY: The interval is an `i64`.
                unsafe { KeDelayExecutionThread(0, 0, &-35_000) };
                // SAFETY: The event is in the extension.
                unsafe { KeSetEvent(driver.stop(), 0, 0) };
                for thread in threads {
                    wait(thread, None);
                }
            });
        });
        flown.unwrap();
        log.take().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(trace(5), trace(5));
    assert!((6..30).any(|seed| trace(seed) != trace(5)));
}

/// Acquires a mutex and ends.
unsafe extern "win64-unwind" fn leaves_mutex(mutex: PVOID) {
    assert_eq!(wait(mutex, None), STATUS_SUCCESS);
    PsTerminateSystemThread(0);
}

#[test]
fn a_thread_that_ends_with_a_mutex_is_logged() {
    fly_with(1, |host, log, _| {
        run_driver(host, log, || {
            let memory: &'static mut [u64; 7] = Box::leak(Box::new([0; 7]));
            let mutex: PVOID = memory.as_mut_ptr().cast();
            // SAFETY: The mutex is never freed.
            unsafe { crate::ke_mutex::KeInitializeMutex(mutex, 0) };
            let (mut handle, null) = (0, ptr::null_mut());
            let (place, id) = (&raw mut handle, ptr::null_mut());
            // SAFETY: The routine accepts a mutex.
            let status = unsafe {
                PsCreateSystemThread(place, 0, null, null, id, Some(leaves_mutex), mutex)
            };
            assert_eq!(status, STATUS_SUCCESS);
            // SAFETY: The interval is an `i64`.
            unsafe { KeDelayExecutionThread(0, 0, &-10) };
            assert!(handles::close(handle));
        });
        let misuses = crate::testing::misuses(log);
        assert!(misuses.len() == 1 && misuses[0].contains("owns a mutex"), "{misuses:?}");
    });
}

#[test]
fn a_processs_handle_is_known() {
    fly_on_both_hosts(|_, _| {
        let mut process = ptr::null_mut();
        let kind = ptr::from_ref(crate::ob::PsProcessType).cast_mut().cast();
        let current = ptr::without_provenance_mut(usize::MAX);
        // SAFETY: The place is a local variable.
        let status = unsafe {
            ObReferenceObjectByHandle(current, 0, kind, 0, &raw mut process, ptr::null_mut())
        };
        assert_eq!((status, process), (STATUS_SUCCESS, PsGetCurrentProcess()));
        assert_eq!(ObfDereferenceObject(process), 1);
    });
}

#[test]
fn every_thread_has_an_object_and_an_id() {
    fly_on_both_hosts(|_, _| {
        let thread = KeGetCurrentThread();
        assert_eq!(thread, PsGetCurrentThread());
        assert!(PsGetCurrentThreadId() != 0 && PsGetCurrentProcessId() == 4);
        assert_eq!(PsIsSystemThread(thread), 0);
        assert_eq!(PsTerminateSystemThread(0), STATUS_INVALID_PARAMETER, "not a driver's thread");
        let (mut major, mut build) = (0, 0);
        // SAFETY: The places are local variables or NULL.
        let checked = unsafe {
            PsGetVersion(&raw mut major, ptr::null_mut(), &raw mut build, ptr::null_mut())
        };
        assert_eq!((checked, major, build), (0, 10, 19_041));
    });
}

/// A host without a thread for a driver, as an operating system that has reached a limit.
struct NoDriverThreads(Arc<dyn Host>);

impl Host for NoDriverThreads {
    fn park(&self, at: &mut Passive, token: &WaitToken, deadline: Option<u64>) -> WaitResult {
        self.0.park(at, token, deadline)
    }

    fn now(&self) -> u64 {
        self.0.now()
    }

    fn wake(&self, token: &WaitToken) {
        self.0.wake(token);
    }

    fn yield_point(&self, at: &mut Passive) {
        self.0.yield_point(at);
    }

    fn pass_time(&self, time: u64) {
        self.0.pass_time(time);
    }

    fn spawner(self: Arc<Self>) -> Arc<dyn Spawner> {
        self
    }
}

impl Spawner for NoDriverThreads {
    fn start(self: Arc<Self>, name: &str, role: Role, body: ThreadBody) -> io::Result<()> {
        match role {
            Role::Driver => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            _ => self.0.clone().spawner().start(name, role, body),
        }
    }

    fn run_until_idle(&self, at: &mut Passive) {
        self.0.clone().spawner().run_until_idle(at);
    }

    fn log(&self) -> &Log {
        unreachable!("no thread of the driver runs")
    }

    fn driver_threads(&self) -> Vec<String> {
        self.0.clone().spawner().driver_threads()
    }
}

#[test]
fn without_a_thread_of_the_operating_system_the_driver_gets_a_status() {
    fly_with(0, |host, log, _| {
        let host: Arc<dyn Host> = Arc::new(NoDriverThreads(host.clone()));
        let executive = crate::Executive::new("many threads");
        run_driver(&host, log, || {
            executive.run_driver(|| {
                let (mut handle, null) = (7, ptr::null_mut);
                // SAFETY: The thread is not started.
                let status = unsafe {
                    PsCreateSystemThread(
                        &raw mut handle,
                        0,
                        null(),
                        null(),
                        ptr::null_mut(),
                        Some(wait_and_terminate),
                        null(),
                    )
                };
                assert_eq!((status, handle), (STATUS_INSUFFICIENT_RESOURCES, 0));
            });
        });
        assert!(driver_threads(&host).is_empty());
        assert!(executive.owned_origins(crate::OwnedKind::Handle).is_empty(), "it is closed");
    });
}
