use super::*;
use crate::ke_dpc::{
    KeFlushQueuedDpcs, KeInitializeDpc, KeInitializeThreadedDpc, KeInsertQueueDpc,
    KeRemoveQueueDpc, KeSetImportanceDpc,
};
use crate::ke_wait::{KeDelayExecutionThread, KeWaitForSingleObject};
use crate::testing::{fly_on_both_hosts, fly_with, pending_work};
use abi::status::{STATUS_SUCCESS, STATUS_TIMEOUT};
use std::ptr;
use std::sync::Mutex;

/// A driver's extension: a timer, three DPCs, and what ran when.
struct Extension {
    timer: [u64; 8],
    dpcs: [Dpc; 3],
    ran: Mutex<Vec<(usize, u8, u64)>>,
}

impl Extension {
    /// The extension is never freed.
    fn new(synchronization: bool) -> *mut Self {
        // SAFETY: All fields may be zero.
        let dpc = unsafe { std::mem::zeroed::<Dpc>() };
        let extension: *mut Self =
            Box::leak(Box::new(Self { timer: [0; 8], dpcs: [dpc; 3], ran: Mutex::default() }));
        // SAFETY: The timer is in the leaked memory.
        unsafe { KeInitializeTimerEx(timer(extension), i32::from(synchronization)) };
        for index in 0..3 {
            // SAFETY: The DPC is in the leaked memory.
            unsafe { KeInitializeDpc(dpc_of(extension, index), Some(note), extension.cast()) };
        }
        extension
    }
}

fn timer(extension: *mut Extension) -> PVOID {
    // SAFETY: The extension is never freed.
    unsafe { &raw mut (*extension).timer }.cast()
}

fn dpc_of(extension: *mut Extension, index: usize) -> *mut Dpc {
    // SAFETY: The extension is never freed.
    unsafe { &raw mut (*extension).dpcs[index] }
}

fn ran(extension: *mut Extension) -> Vec<(usize, u8, u64)> {
    // SAFETY: The extension is never freed.
    let ran = unsafe { &(*extension).ran };
    ran.lock().unwrap().clone()
}

/// Notes its first argument, the IRQL and the time.
unsafe extern "win64-unwind" fn note(_dpc: *mut Dpc, context: PVOID, first: PVOID, _: PVOID) {
    // SAFETY: The tests pass an extension.
    let ran = unsafe { &(*context.cast::<Extension>()).ran };
    let (host, _) = current("a test").unwrap();
    ran.lock().unwrap().push((first.addr(), crate::KeGetCurrentIrql(), host.now()));
}

fn insert(extension: *mut Extension, index: usize) -> BOOLEAN {
    let argument = ptr::without_provenance_mut(index);
    // SAFETY: The DPC is in the leaked memory.
    unsafe { KeInsertQueueDpc(dpc_of(extension, index), argument, ptr::null_mut()) }
}

fn set_timer(extension: *mut Extension, due: i64, period: i32) -> BOOLEAN {
    // SAFETY: Timer and DPC are in the leaked memory.
    unsafe { KeSetTimerEx(timer(extension), due, period, dpc_of(extension, 0)) }
}

fn wait(object: PVOID, timeout: i64) -> abi::NTSTATUS {
    // SAFETY: The objects of these tests live.
    unsafe { KeWaitForSingleObject(object, 0, 0, 0, &raw const timeout) }
}

fn delay(interval: i64) {
    // SAFETY: The interval is an `i64`.
    unsafe { KeDelayExecutionThread(0, 0, &raw const interval) };
}

#[test]
fn a_dpc_runs_once_at_dispatch_level_and_can_be_flushed() {
    fly_on_both_hosts(|host, _| {
        let extension = Extension::new(false);
        crate::KeRaiseIrqlToDpcLevel();
        assert_eq!((insert(extension, 1), insert(extension, 2)), (1, 1));
        crate::KeLowerIrql(0);
        KeFlushQueuedDpcs();
        let levels: Vec<(usize, u8)> =
            ran(extension).iter().map(|(argument, irql, _)| (*argument, *irql)).collect();
        assert_eq!(levels, [(1, 2), (2, 2)]);
        assert_eq!(pending_work(host).0, 0);
        // SAFETY: The DPC is in the leaked memory.
        assert_eq!(unsafe { KeRemoveQueueDpc(dpc_of(extension, 1)) }, 0, "it has run");
    });
}

#[test]
fn a_queued_dpc_is_removed_or_goes_first() {
    // Only the deterministic host runs no DPC before the driver waits.
    for seed in 0..8 {
        fly_with(seed, |host, log, _| {
            crate::processor::run_driver(host, log, || {
                let extension = Extension::new(false);
                assert_eq!((insert(extension, 0), insert(extension, 0)), (1, 0), "once");
                assert_eq!(insert(extension, 1), 1);
                // SAFETY: The DPC is in the leaked memory.
                unsafe { KeSetImportanceDpc(dpc_of(extension, 2), 2) };
                assert_eq!(insert(extension, 2), 1);
                assert_eq!(pending_work(host).0, 3);
                // SAFETY: As above.
                assert_eq!(unsafe { KeRemoveQueueDpc(dpc_of(extension, 1)) }, 1);
                KeFlushQueuedDpcs();
                let order: Vec<usize> = ran(extension).iter().map(|ran| ran.0).collect();
                assert_eq!(order, [2, 0]);
                // SAFETY: As above.
                unsafe {
                    KeInitializeThreadedDpc(dpc_of(extension, 1), Some(note), extension.cast());
                }
                insert(extension, 1);
                KeFlushQueuedDpcs();
                assert_eq!(ran(extension)[2].1, 0, "a threaded DPC runs at passive level");
            });
        });
    }
}

#[test]
fn a_timer_expires_when_it_is_due() {
    fly_on_both_hosts(|host, _| {
        let extension = Extension::new(false);
        assert_eq!(set_timer(extension, -500, 0), 0);
        assert_eq!(set_timer(extension, -1000, 0), 1, "it was set");
        assert_eq!(wait(timer(extension), -600), STATUS_TIMEOUT);
        assert_eq!(pending_work(host).1, 1);
        assert_eq!(wait(timer(extension), -5000), STATUS_SUCCESS);
        assert_eq!(host.now(), 1000);
        assert_eq!(wait(timer(extension), 0), STATUS_SUCCESS, "it stays signalled");
        // SAFETY: The timer is in the leaked memory.
        assert_eq!(unsafe { KeReadStateTimer(timer(extension)) }, 1);
        KeFlushQueuedDpcs();
        assert_eq!(ran(extension), [(0, 2, 1000)]);
        assert_eq!(KeCancelTimer(timer(extension)), 0, "it has expired");
        set_timer(extension, -500, 0);
        assert_eq!(KeCancelTimer(timer(extension)), 1);
        delay(-10_000);
        assert_eq!(ran(extension).len(), 1, "it was cancelled");
    });
}

#[test]
fn a_periodic_timer_goes_on_and_a_wait_resets_a_synchronization_timer() {
    fly_on_both_hosts(|host, _| {
        let extension = Extension::new(true);
        let start = i64::try_from(crate::clock::SYSTEM_TIME_AT_START).unwrap();
        set_timer(extension, start + 20_000, 1);
        for turn in 0..3 {
            assert_eq!(wait(timer(extension), -100_000), STATUS_SUCCESS);
            assert_eq!(host.now(), 20_000 + 10_000 * turn, "a system time, then every ms");
            assert_eq!(wait(timer(extension), 0), STATUS_TIMEOUT, "the wait reset it");
        }
        assert_eq!(KeCancelTimer(timer(extension)), 1);
        KeFlushQueuedDpcs();
        let times: Vec<u64> = ran(extension).iter().map(|ran| ran.2).collect();
        assert_eq!(times, [20_000, 30_000, 40_000]);
    });
}

/// A count of calls, as the context of callbacks.
unsafe extern "win64-unwind" fn count(_timer: PVOID, context: PVOID) {
    // SAFETY: The test passes a counter.
    let counter = unsafe { &*context.cast::<std::sync::atomic::AtomicU32>() };
    assert_eq!(crate::KeGetCurrentIrql(), 2);
    counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}

/// Adds 100 to the count.
unsafe extern "win64-unwind" fn count_deletion(context: PVOID) {
    // SAFETY: The test passes a counter.
    let counter = unsafe { &*context.cast::<std::sync::atomic::AtomicU32>() };
    counter.fetch_add(100, std::sync::atomic::Ordering::Relaxed);
}

#[test]
fn an_allocated_timer_calls_back_until_it_is_deleted() {
    fly_on_both_hosts(|_, _| {
        let calls: &'static std::sync::atomic::AtomicU32 = Box::leak(Box::default());
        let context: PVOID = ptr::from_ref(calls).cast_mut().cast();
        let timer = ExAllocateTimer(Some(count), context, 0);
        // SAFETY: The timer has just been allocated.
        assert_eq!(unsafe { ExSetTimer(timer, -100, 100, ptr::null_mut()) }, 0);
        delay(-350);
        assert_eq!(ExCancelTimer(timer, ptr::null_mut()), 1);
        KeFlushQueuedDpcs();
        assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 3);
        let delete =
            DeleteParameters { version: 0, reserved: 0, callback: Some(count_deletion), context };
        // SAFETY: The timer is not used afterwards.
        assert_eq!(unsafe { ExDeleteTimer(timer, 1, 1, &raw const delete) }, 0);
        KeFlushQueuedDpcs();
        assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 103);
    });
}

#[test]
fn a_periodic_timer_does_not_keep_the_run_alive() {
    fly_on_both_hosts(|_, _| {
        set_timer(Extension::new(false), -10, 1);
    });
}
