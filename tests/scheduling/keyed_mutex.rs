//! Keyed mutexes as a program in C has them: through the exported functions of the C library.
//!
//! "Row" is the number of an observation of Windows; each assertion states it in plain text.
//! Missing rows are unknown. All tests of this file share the library's kernel, like the threads of
//! one program.
#![expect(unsafe_code, reason = "calls functions as C does")]
#![expect(clippy::unwrap_used, reason = "a thread that panics fails its test")]

use abi::kmt::{
    D3DKMT_ACQUIREKEYEDMUTEX, D3DKMT_ACQUIREKEYEDMUTEX2, D3DKMT_CREATEKEYEDMUTEX,
    D3DKMT_CREATEKEYEDMUTEX2, D3DKMT_CREATEKEYEDMUTEX2_FLAGS as Flags, D3DKMT_DESTROYKEYEDMUTEX,
    D3DKMT_OPENKEYEDMUTEX, D3DKMT_OPENKEYEDMUTEX2, D3DKMT_QUERYRESOURCEINFO,
    D3DKMT_RELEASEKEYEDMUTEX, D3DKMT_RELEASEKEYEDMUTEX2,
};
use abi::status::{
    STATUS_ABANDONED as ABANDONED, STATUS_INVALID_PARAMETER as INVALID,
    STATUS_NOT_SUPPORTED as NOT_SUPPORTED, STATUS_SUCCESS as SUCCESS, STATUS_TIMEOUT as TIMEOUT,
};
use abi::{D3DKMT_HANDLE, NTSTATUS};
use std::ptr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const GARBAGE: D3DKMT_HANDLE = 0x1ead_beed;
/// The value of a field that has not been written.
const CANARY: u64 = 0xdead_beef;
/// Relative time-outs.
const MILLISECOND: i64 = -10_000;
const SECOND: i64 = 1000 * MILLISECOND;

/// A call with its structure: returns the status and the structure afterwards.
macro_rules! call {
    ($name:ident, $args:expr) => {{
        let mut args = $args;
        // SAFETY: The arguments are locals; their pointers are valid in the caller.
        let status = unsafe { d3dkmt::$name(&raw mut args) };
        (status, args)
    }};
}

/// The calls with NULL instead of a structure.
macro_rules! null {
    ($($name:ident),+) => {
        // SAFETY: The function accepts NULL.
        [$(unsafe { d3dkmt::$name(ptr::null_mut()) }),+]
    };
}

/// A new mutex: its local and its global handle.
fn create(key: u64) -> (D3DKMT_HANDLE, D3DKMT_HANDLE) {
    let request = D3DKMT_CREATEKEYEDMUTEX { InitialValue: key, ..D3DKMT_CREATEKEYEDMUTEX::ZERO };
    let (status, made) = call!(D3DKMTCreateKeyedMutex, request);
    assert_eq!(status, SUCCESS);
    (made.hKeyedMutex, made.hSharedHandle)
}

/// As above, with the runtime's data.
fn create2(runtime: &[u8], flags: u32) -> (NTSTATUS, D3DKMT_CREATEKEYEDMUTEX2) {
    let request = D3DKMT_CREATEKEYEDMUTEX2 {
        pPrivateRuntimeData: if runtime.is_empty() { ptr::null() } else { runtime.as_ptr().cast() },
        PrivateRuntimeDataSize: u32::try_from(runtime.len()).unwrap(),
        Flags: Flags { Value: flags },
        ..D3DKMT_CREATEKEYEDMUTEX2::ZERO
    };
    call!(D3DKMTCreateKeyedMutex2, request)
}

fn open(global: D3DKMT_HANDLE) -> (NTSTATUS, D3DKMT_HANDLE) {
    let request = D3DKMT_OPENKEYEDMUTEX { hSharedHandle: global, hKeyedMutex: 0 };
    let (status, opened) = call!(D3DKMTOpenKeyedMutex, request);
    (status, opened.hKeyedMutex)
}

/// As above, with a buffer; also returns its size field.
fn open2(global: D3DKMT_HANDLE, buffer: &mut [u8]) -> (NTSTATUS, D3DKMT_HANDLE, u32) {
    let size = u32::try_from(buffer.len()).unwrap();
    let request = D3DKMT_OPENKEYEDMUTEX2 {
        hSharedHandle: global,
        hKeyedMutex: 0,
        pPrivateRuntimeData: if size == 0 { ptr::null_mut() } else { buffer.as_mut_ptr().cast() },
        PrivateRuntimeDataSize: size,
    };
    let (status, opened) = call!(D3DKMTOpenKeyedMutex2, request);
    (status, opened.hKeyedMutex, opened.PrivateRuntimeDataSize)
}

fn destroy(handle: D3DKMT_HANDLE) -> NTSTATUS {
    let args = D3DKMT_DESTROYKEYEDMUTEX { hKeyedMutex: handle };
    // SAFETY: The arguments are locals of this function.
    unsafe { d3dkmt::D3DKMTDestroyKeyedMutex(&raw const args) }
}

/// The status, and the fields `Key` and `FenceValue` afterwards.
fn acquire(handle: D3DKMT_HANDLE, key: u64, timeout: Option<i64>) -> (NTSTATUS, u64, u64) {
    let request = D3DKMT_ACQUIREKEYEDMUTEX {
        hKeyedMutex: handle,
        Key: key,
        pTimeout: timeout.as_ref().map_or(ptr::null(), ptr::from_ref),
        FenceValue: CANARY,
    };
    let (status, ended) = call!(D3DKMTAcquireKeyedMutex, request);
    (status, ended.Key, ended.FenceValue)
}

/// The status, and the fields `Key` and `FenceValue` afterwards.
fn release(handle: D3DKMT_HANDLE, key: u64, fence: u64) -> (NTSTATUS, u64, u64) {
    let request = D3DKMT_RELEASEKEYEDMUTEX { hKeyedMutex: handle, Key: key, FenceValue: fence };
    let (status, ended) = call!(D3DKMTReleaseKeyedMutex, request);
    (status, ended.Key, ended.FenceValue)
}

/// Acquires on another thread, which gets time to begin its wait.
fn waiting(
    handle: D3DKMT_HANDLE,
    key: u64,
    timeout: Option<i64>,
) -> JoinHandle<(NTSTATUS, u64, u64)> {
    let thread = thread::spawn(move || acquire(handle, key, timeout));
    thread::sleep(Duration::from_millis(150));
    thread
}

/// Row 100: a create without arguments is an invalid parameter.
#[test]
fn row_100_create_refuses_null() {
    assert_eq!(null!(D3DKMTCreateKeyedMutex), [INVALID]);
}

/// Row 102: an open without a shared handle fails, whatever the other field has.
#[test]
fn row_102_open_needs_a_shared_handle() {
    assert_eq!(null!(D3DKMTOpenKeyedMutex, D3DKMTOpenKeyedMutex2), [INVALID; 2]);
    let (mutex, _) = create(0);
    for preset in [0, mutex, GARBAGE] {
        let request = D3DKMT_OPENKEYEDMUTEX { hSharedHandle: 0, hKeyedMutex: preset };
        let (status, left) = call!(D3DKMTOpenKeyedMutex, request);
        assert_eq!((status, left.hKeyedMutex), (INVALID, preset));
    }
    assert_eq!(open(mutex).0, INVALID, "a local handle is no shared one");
    assert_eq!(open(GARBAGE).0, INVALID);
    assert_eq!(destroy(mutex), SUCCESS);
}

/// Row 103: the global handle opens the mutex, with a new local handle.
#[test]
fn row_103_open_gives_a_new_handle() {
    let (mutex, global) = create(0);
    assert_eq!((mutex & 0x3f, global & 0x3f), (0, 2));
    let (status, second) = open(global);
    assert_eq!(status, SUCCESS);
    assert_ne!(second, mutex);
    assert_eq!([destroy(second), destroy(mutex)], [SUCCESS; 2]);
    assert_eq!(open(global).0, INVALID, "the global handle went with the last local one");
}

/// Row 105: the global handle cannot be destroyed, and the attempt has no effect.
#[test]
fn row_105_destroy_refuses_the_global_handle() {
    let (mutex, global) = create(0);
    assert_eq!([destroy(global), destroy(0), destroy(GARBAGE)], [INVALID; 3]);
    assert_eq!(acquire(mutex, 0, Some(0)).0, SUCCESS, "it is as it was");
    assert_eq!(destroy(mutex), SUCCESS);
}

/// Row 106: a local handle is destroyed once.
#[test]
fn row_106_destroy_is_once() {
    let (mutex, _) = create(0);
    assert_eq!([destroy(mutex), destroy(mutex)], [SUCCESS, INVALID]);
    assert_eq!(null!(D3DKMTCreateKeyedMutex2), [INVALID]);
    // SAFETY: The function accepts NULL.
    assert_eq!(unsafe { d3dkmt::D3DKMTDestroyKeyedMutex(ptr::null()) }, INVALID);
}

/// Row 108: the second create rejects NULL and accepts a structure of zeroes; it returns two
/// handles.
#[test]
fn row_108_create_2_takes_zeroes() {
    assert_eq!(null!(D3DKMTCreateKeyedMutex2), [INVALID]);
    let (status, made) = call!(D3DKMTCreateKeyedMutex2, D3DKMT_CREATEKEYEDMUTEX2::ZERO);
    assert_eq!(status, SUCCESS);
    assert_eq!((made.hKeyedMutex & 0x3f, made.hSharedHandle & 0x3f), (0, 2));
    assert_eq!(destroy(made.hKeyedMutex), SUCCESS);
}

/// Row 109: handles are destroyed in any order, the creator's first.
#[test]
fn row_109_the_maker_may_go_first() {
    let (mutex, global) = create(3);
    let (_, second) = open(global);
    assert_eq!(destroy(mutex), SUCCESS);
    assert_eq!(acquire(second, 3, Some(0)), (SUCCESS, 3, 0), "it lives on");
    let (status, third) = open(global);
    assert_eq!(status, SUCCESS, "and can be opened");
    assert_eq!([destroy(third), destroy(second)], [SUCCESS; 2]);
}

/// Row 111: without data, a buffer of 64 bytes is accepted, and its size field is unchanged.
#[test]
fn row_111_open_2_takes_a_buffer_for_nothing() {
    let (mutex, global) = create(0);
    let mut buffer = [0xcd; 64];
    let (status, second, size) = open2(global, &mut buffer);
    assert_eq!((status, size, buffer), (SUCCESS, 64, [0xcd; 64]));
    assert_eq!([destroy(mutex), destroy(second)], [SUCCESS; 2]);
}

/// Row 112: with data of 6 bytes, a missing buffer is accepted, and the size stays zero.
#[test]
fn row_112_open_2_takes_no_buffer() {
    let (status, made) = create2(b"sample", 0);
    assert_eq!((status, made.PrivateRuntimeDataSize), (SUCCESS, 6));
    let (status, second, size) = open2(made.hSharedHandle, &mut []);
    assert_eq!((status, size), (SUCCESS, 0));
    assert_eq!([destroy(made.hKeyedMutex), destroy(second)], [SUCCESS; 2]);
}

/// Row 114: a buffer of the exact size is accepted and not written, nor is its size. A smaller
/// buffer is rejected.
#[test]
fn row_114_open_2_does_not_write_its_buffer() {
    let (_, made) = create2(b"sample", 0);
    let mut buffer = [0xcd; 6];
    let (status, second, size) = open2(made.hSharedHandle, &mut buffer);
    assert_eq!((status, size, buffer), (SUCCESS, 6, [0xcd; 6]));
    assert_eq!(open2(made.hSharedHandle, &mut buffer[..5]), (INVALID, 0, 5));
    assert_eq!([destroy(made.hKeyedMutex), destroy(second)], [SUCCESS; 2]);
}

/// Row 115: a mutex for NT handles has no shared handle.
#[test]
fn row_115_nt_sharing_has_no_global_handle() {
    let (status, made) = create2(&[], Flags::NtSecuritySharing);
    assert_eq!((status, made.hSharedHandle), (SUCCESS, 0));
    assert_eq!(acquire(made.hKeyedMutex, 0, Some(0)).0, SUCCESS);
    assert_eq!(destroy(made.hKeyedMutex), SUCCESS);
    assert_eq!(create2(&[], 2).0, INVALID, "a flag that means nothing");
}

/// Row 117: an acquire through a bad handle fails and does not change the fields.
#[test]
fn row_117_acquire_refuses_a_bad_handle() {
    assert_eq!(null!(D3DKMTAcquireKeyedMutex, D3DKMTAcquireKeyedMutex2), [INVALID; 2]);
    let (mutex, global) = create(0);
    for bad in [0, GARBAGE, global] {
        assert_eq!(acquire(bad, 7, Some(MILLISECOND)), (INVALID, 7, CANARY));
    }
    assert_eq!(destroy(mutex), SUCCESS);
    assert_eq!(acquire(mutex, 0, None), (INVALID, 0, CANARY), "it was closed");
}

/// Row 118: a wrong key times out; the fence value is then zero, and the key is unchanged.
#[test]
fn row_118_a_wrong_key_times_out() {
    let (mutex, _) = create(0);
    assert_eq!(acquire(mutex, 1, Some(10 * MILLISECOND)), (TIMEOUT, 1, 0));
    assert_eq!(acquire(mutex, 1, Some(0)), (TIMEOUT, 1, 0), "without a wait, too");
    assert_eq!(acquire(mutex, 1, Some(5)).0, NOT_SUPPORTED, "a date");
    assert_eq!(destroy(mutex), SUCCESS);
}

/// Row 120: a release without arguments or through a bad handle fails and does not change the
/// fields.
#[test]
fn row_120_release_refuses_a_bad_handle() {
    assert_eq!(null!(D3DKMTReleaseKeyedMutex, D3DKMTReleaseKeyedMutex2), [INVALID; 2]);
    for bad in [0, GARBAGE] {
        assert_eq!(release(bad, 7, CANARY), (INVALID, 7, CANARY));
    }
}

/// Rows 121, 123 and 124: a release sets the next key and a fence value. The old key is no longer
/// valid, and an acquire with the new key gets the fence value.
#[test]
fn rows_121_123_and_124_a_release_says_the_next_key_and_fence() {
    let (mutex, global) = create(0);
    let (_, second) = open(global);
    assert_eq!(acquire(mutex, 0, Some(MILLISECOND)), (SUCCESS, 0, 0));
    assert_eq!(release(second, 1, 1).0, INVALID, "it is not the owner");
    assert_eq!(release(mutex, 1, 1234), (SUCCESS, 1, 1234));
    assert_eq!(release(mutex, 2, 1).0, INVALID, "nor is this one any more");
    assert_eq!(acquire(mutex, 0, Some(10 * MILLISECOND)), (TIMEOUT, 0, 0));
    assert_eq!(acquire(second, 1, Some(10 * MILLISECOND)), (SUCCESS, 1, 1234));
    assert_eq!([destroy(mutex), destroy(second)], [SUCCESS; 2]);
}

/// Row 126: a second handle blocks while the mutex is owned through the first; here until the
/// release.
#[test]
fn row_126_a_second_handle_blocks() {
    let (mutex, global) = create(0);
    let (_, second) = open(global);
    assert_eq!(acquire(mutex, 0, None).0, SUCCESS);
    for timeout in [Some(30 * SECOND), None] {
        let waiter = waiting(second, 0, timeout);
        assert!(!waiter.is_finished());
        assert_eq!(release(mutex, 0, 5).0, SUCCESS);
        assert_eq!(waiter.join().unwrap(), (SUCCESS, 0, 5));
        assert_eq!(release(second, 0, 0).0, SUCCESS);
        assert_eq!(acquire(mutex, 0, None).0, SUCCESS);
    }
    let began = Instant::now();
    let waiter = waiting(second, 0, Some(300 * MILLISECOND));
    assert_eq!(waiter.join().unwrap(), (TIMEOUT, 0, 0));
    assert!(began.elapsed() >= Duration::from_millis(300), "as long as it said");
    assert_eq!([destroy(mutex), destroy(second)], [SUCCESS; 2]);
}

/// Row 127: when the handle that owns the mutex is destroyed, waiting and later acquires return
/// promptly that the mutex is abandoned, with `FenceValue` zero.
#[test]
fn row_127_destroying_the_owner_abandons_it() {
    let (mutex, global) = create(0);
    let (_, second) = open(global);
    assert_eq!(acquire(mutex, 0, None).0, SUCCESS);
    let waiters = [waiting(second, 0, Some(30 * SECOND)), waiting(second, 1, None)];
    assert!(waiters.iter().all(|join_handle| !join_handle.is_finished()));
    assert_eq!(destroy(mutex), SUCCESS);
    let [first, other] = waiters.map(|join_handle| join_handle.join().unwrap());
    assert_eq!([first, other], [(ABANDONED, 0, 0), (ABANDONED, 1, 0)]);
    assert_eq!(acquire(second, 0, None), (ABANDONED, 0, 0), "for good");
    assert_eq!(destroy(second), SUCCESS);
}

/// Not a row: a wait through a handle that another thread destroys fails.
#[test]
fn a_wait_through_a_destroyed_handle_fails() {
    let (mutex, global) = create(0);
    let (_, second) = open(global);
    let waiter = waiting(second, 1, None);
    assert_eq!(destroy(second), SUCCESS);
    assert_eq!(waiter.join().unwrap(), (INVALID, 1, CANARY));
    assert_eq!(acquire(mutex, 0, Some(0)).0, SUCCESS, "it was not the owner");
    assert_eq!(destroy(mutex), SUCCESS);
}

/// Not a row, but documented: a release has data for the next acquire.
#[test]
fn an_acquire_gets_the_data_of_the_release() {
    let (_, made) = create2(b"sample", 0);
    let take = |key: u64, room: &mut [u8]| {
        let request = D3DKMT_ACQUIREKEYEDMUTEX2 {
            hKeyedMutex: made.hKeyedMutex,
            Key: key,
            pTimeout: ptr::null(),
            FenceValue: CANARY,
            PrivateRuntimeDataSize: u32::try_from(room.len()).unwrap(),
            pPrivateRuntimeData: room.as_mut_ptr().cast(),
        };
        let (status, ended) = call!(D3DKMTAcquireKeyedMutex2, request);
        (status, ended.FenceValue)
    };
    let mut room = [0xcd; 16];
    assert_eq!(take(0, &mut room[..5]), (INVALID, CANARY), "too small");
    assert_eq!(take(0, &mut room), (SUCCESS, 0));
    assert_eq!((&room[..6], room[6]), (&b"sample"[..], 0xcd));
    let data = *b"another sample";
    let request = D3DKMT_RELEASEKEYEDMUTEX2 {
        hKeyedMutex: made.hKeyedMutex,
        Key: 4,
        FenceValue: 9,
        pPrivateRuntimeData: data.as_ptr().cast(),
        PrivateRuntimeDataSize: 14,
    };
    assert_eq!(call!(D3DKMTReleaseKeyedMutex2, request).0, SUCCESS);
    assert_eq!(take(4, &mut room), (SUCCESS, 9));
    assert_eq!(room[..14], data);
    assert_eq!(destroy(made.hKeyedMutex), SUCCESS);
}

/// Not a row: the global handle of a mutex is not that of a resource.
#[test]
fn a_keyed_mutex_handle_is_not_a_resource_handle() {
    let (mutex, global) = create(0);
    let request =
        D3DKMT_QUERYRESOURCEINFO { hGlobalShare: global, ..D3DKMT_QUERYRESOURCEINFO::ZERO };
    assert_eq!(call!(D3DKMTQueryResourceInfo, request).0, INVALID);
    assert_eq!(destroy(mutex), SUCCESS);
}
