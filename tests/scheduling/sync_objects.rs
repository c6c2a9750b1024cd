//! Observed behaviour of Windows's synchronisation objects, compared with the C library.
//!
//! "Row" is the number of an observation; each assertion states it in plain text. All tests are
//! threads of one client: the library has one kernel, and each test has its own device. Tests with
//! two processes use two sessions of the thunks.
#![expect(unsafe_code, reason = "calls the exported functions as a client in C would")]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::kmt::{
    D3DKMT_ADAPTERINFO, D3DKMT_CREATECONTEXTVIRTUAL, D3DKMT_CREATEDEVICE,
    D3DKMT_CREATESYNCHRONIZATIONOBJECT, D3DKMT_CREATESYNCHRONIZATIONOBJECT2, D3DKMT_DESTROYCONTEXT,
    D3DKMT_DESTROYDEVICE, D3DKMT_DESTROYSYNCHRONIZATIONOBJECT, D3DKMT_ENUMADAPTERS2,
    D3DKMT_OPENSYNCHRONIZATIONOBJECT, D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU, D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU,
};
use abi::status::{
    STATUS_INVALID_HANDLE as NO_HANDLE, STATUS_INVALID_PARAMETER as INVALID,
    STATUS_SUCCESS as SUCCESS,
};
use abi::ukm::{
    D3DDDI_CPU_NOTIFICATION, D3DDDI_FENCE, D3DDDI_MONITORED_FENCE, D3DDDI_SEMAPHORE,
    D3DDDI_SYNCHRONIZATION_MUTEX, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as Flags,
    D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS as WaitFlags,
    D3DDDICB_SIGNALFLAGS as SignalFlags,
};
use abi::{D3DKMT_HANDLE, HANDLE, NTSTATUS};
use d3dkmt::{
    D3DKMTCreateContextVirtual, D3DKMTCreateDevice, D3DKMTCreateSynchronizationObject,
    D3DKMTCreateSynchronizationObject2, D3DKMTDestroyContext, D3DKMTDestroyDevice,
    D3DKMTDestroySynchronizationObject, D3DKMTEnumAdapters2, D3DKMTOpenSynchronizationObject,
    D3DKMTSignalSynchronizationObjectFromCpu, D3DKMTSignalSynchronizationObjectFromGpu,
    D3DKMTWaitForSynchronizationObjectFromCpu, D3DKMTWaitForSynchronizationObjectFromGpu,
    windtunnel_event_close, windtunnel_event_create, windtunnel_event_is_set,
    windtunnel_event_reset, windtunnel_event_wait,
};
use harness::{run, softgpu, verified};
use std::ptr;
use std::thread::{sleep, spawn};
use std::time::Duration;
use thunk::{Client, SyncObject};

const GARBAGE: D3DKMT_HANDLE = 0x1ead_beed;

/// The output of a create call.
type Made2 = D3DKMT_CREATESYNCHRONIZATIONOBJECT2;

/// A device of the test, destroyed with the test.
struct Device(D3DKMT_HANDLE);

impl Device {
    fn new() -> Self {
        let mut list = [D3DKMT_ADAPTERINFO::ZERO; 34];
        let mut all = D3DKMT_ENUMADAPTERS2 { NumAdapters: 34, pAdapters: list.as_mut_ptr() };
        // SAFETY: Both arguments are locals of this function.
        assert_eq!(unsafe { D3DKMTEnumAdapters2(&raw mut all) }, SUCCESS);
        let adapter = list[0].hAdapter;
        let mut args = D3DKMT_CREATEDEVICE { hAdapter: adapter, ..D3DKMT_CREATEDEVICE::ZERO };
        // SAFETY: The argument is a local of this function.
        assert_eq!(unsafe { D3DKMTCreateDevice(&raw mut args) }, SUCCESS);
        Self(args.hDevice)
    }

    fn context(&self, node: u32) -> D3DKMT_HANDLE {
        let mut args = D3DKMT_CREATECONTEXTVIRTUAL {
            hDevice: self.0,
            NodeOrdinal: node,
            EngineAffinity: 1,
            ..D3DKMT_CREATECONTEXTVIRTUAL::ZERO
        };
        // SAFETY: The argument is a local of this function.
        assert_eq!(unsafe { D3DKMTCreateContextVirtual(&raw mut args) }, SUCCESS);
        args.hContext
    }

    fn create(&self, kind: i32, flags: u32, reserved: u64) -> (NTSTATUS, Made2) {
        create(self.0, kind, flags, reserved)
    }

    fn fence(&self, value: u64) -> D3DKMT_HANDLE {
        let (status, made) = self.create(D3DDDI_MONITORED_FENCE, 0, value);
        assert_eq!(status, SUCCESS);
        made.hSyncObject
    }

    fn signal(&self, object: D3DKMT_HANDLE, value: u64, flags: u32) -> NTSTATUS {
        let args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: self.0,
            ObjectCount: 1,
            ObjectHandleArray: &raw const object,
            FenceValueArray: &raw const value,
            Flags: SignalFlags { Value: flags },
        };
        // SAFETY: All arguments are locals of this function.
        unsafe { D3DKMTSignalSynchronizationObjectFromCpu(&raw const args) }
    }

    fn wait(&self, list: &[(D3DKMT_HANDLE, u64)], event: HANDLE, flags: u32) -> NTSTATUS {
        let (objects, values): (Vec<u32>, Vec<u64>) = list.iter().copied().unzip();
        let args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: self.0,
            ObjectCount: u32::try_from(list.len()).unwrap(),
            ObjectHandleArray: objects.as_ptr(),
            FenceValueArray: values.as_ptr(),
            hAsyncEvent: event,
            Flags: WaitFlags { Value: flags },
        };
        // SAFETY: All arguments are locals of this function.
        unsafe { D3DKMTWaitForSynchronizationObjectFromCpu(&raw const args) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let args = D3DKMT_DESTROYDEVICE { hDevice: self.0 };
        // SAFETY: The argument is a local of this function.
        unsafe { D3DKMTDestroyDevice(&raw const args) };
    }
}

/// An event of the test.
struct Event(HANDLE);

impl Event {
    fn new() -> Self {
        Self(windtunnel_event_create())
    }

    fn is_set(&self) -> bool {
        windtunnel_event_is_set(self.0) != 0
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        windtunnel_event_close(self.0);
    }
}

fn create(device: u32, kind: i32, flags: u32, reserved: u64) -> (NTSTATUS, Made2) {
    let mut args = Made2 { hDevice: device, ..Made2::ZERO };
    (args.Info.Type, args.Info.Flags.Value, args.Info.Reserved[0]) = (kind, flags, reserved);
    args.Info.SharedHandle = GARBAGE;
    // SAFETY: The argument is a local of this function.
    (unsafe { D3DKMTCreateSynchronizationObject2(&raw mut args) }, args)
}

fn create_1(device: u32, kind: i32) -> (NTSTATUS, D3DKMT_HANDLE) {
    let mut args = D3DKMT_CREATESYNCHRONIZATIONOBJECT {
        hDevice: device,
        ..D3DKMT_CREATESYNCHRONIZATIONOBJECT::ZERO
    };
    args.Info.Type = kind;
    // SAFETY: The argument is a local of this function.
    (unsafe { D3DKMTCreateSynchronizationObject(&raw mut args) }, args.hSyncObject)
}

fn open(global: D3DKMT_HANDLE, local: D3DKMT_HANDLE) -> (NTSTATUS, D3DKMT_HANDLE) {
    let mut args = D3DKMT_OPENSYNCHRONIZATIONOBJECT {
        hSharedHandle: global,
        hSyncObject: local,
        ..D3DKMT_OPENSYNCHRONIZATIONOBJECT::ZERO
    };
    // SAFETY: The argument is a local of this function.
    (unsafe { D3DKMTOpenSynchronizationObject(&raw mut args) }, args.hSyncObject)
}

fn destroy(object: D3DKMT_HANDLE) -> NTSTATUS {
    let args = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: object };
    // SAFETY: The argument is a local of this function.
    unsafe { D3DKMTDestroySynchronizationObject(&raw const args) }
}

/// Rows 72, 73, 75 and 76: the first version of the call.
#[test]
fn the_first_version_makes_mutexes_and_semaphores() {
    let device = Device::new();
    // Row 72: NULL.
    // SAFETY: The library guards every pointer.
    assert_eq!(unsafe { D3DKMTCreateSynchronizationObject(ptr::null_mut()) }, INVALID);
    // Row 73: all zero, only the device, only the type.
    assert_eq!(create_1(0, 0).0, INVALID);
    assert_eq!(create_1(device.0, 0).0, INVALID);
    assert_eq!(create_1(0, D3DDDI_SEMAPHORE).0, INVALID);
    // Row 75: both, and a local handle is returned.
    let (status, semaphore) = create_1(device.0, D3DDDI_SEMAPHORE);
    assert_eq!((status, semaphore & 0x3f), (SUCCESS, 0));
    assert_eq!(destroy(semaphore), SUCCESS);
    // Row 76: no fence.
    assert_eq!(create_1(device.0, D3DDDI_FENCE).0, INVALID);
}

/// Rows 78, 79 and 81: the second version of the call.
#[test]
fn the_second_version_makes_every_kind() {
    let device = Device::new();
    // Row 78: NULL, zero, only the device, only the type.
    // SAFETY: The library guards every pointer.
    assert_eq!(unsafe { D3DKMTCreateSynchronizationObject2(ptr::null_mut()) }, INVALID);
    assert_eq!(create(0, 0, 0, 0).0, INVALID);
    assert_eq!(device.create(0, 0, 0).0, INVALID);
    assert_eq!(create(0, D3DDDI_FENCE, 0, 0).0, INVALID);
    // Row 79: each kind, without flags, gets a local handle.
    let kinds =
        [D3DDDI_SYNCHRONIZATION_MUTEX, D3DDDI_SEMAPHORE, D3DDDI_FENCE, D3DDDI_MONITORED_FENCE];
    for kind in kinds {
        let (status, made) = device.create(kind, 0, 0);
        assert_eq!((status, made.hSyncObject & 0x3f), (SUCCESS, 0), "{kind}");
        assert_ne!(made.hSyncObject, 0);
        assert_eq!(destroy(made.hSyncObject), SUCCESS);
    }
    // Row 81: a CPU notification has an event, which is closed after it.
    assert_eq!(device.create(D3DDDI_CPU_NOTIFICATION, 0, 0).0, NO_HANDLE);
    assert_eq!(device.create(D3DDDI_CPU_NOTIFICATION, 0, 0x7ffc).0, NO_HANDLE);
    let event = windtunnel_event_create();
    let (status, made) = device.create(D3DDDI_CPU_NOTIFICATION, 0, event.addr() as u64);
    assert_eq!(status, SUCCESS);
    assert_eq!(destroy(made.hSyncObject), SUCCESS);
    assert_eq!(windtunnel_event_close(event), SUCCESS);
}

/// Rows 82, 84, 85, 87, 88 and 90: sharing.
#[test]
fn a_global_handle_is_opened_while_a_local_one_is_there() {
    let device = Device::new();
    // Row 82: a local handle and a global one.
    let (status, made) = device.create(D3DDDI_SEMAPHORE, Flags::Shared, 0);
    let global = made.Info.SharedHandle;
    assert_eq!((status, made.hSyncObject & 0x3f, global & 0x3f), (SUCCESS, 0, 2));
    // Row 84: for NT handles, no global handle: the field is unchanged.
    let flags = Flags::Shared | Flags::NtSecuritySharing;
    let (status, nt) = device.create(D3DDDI_SEMAPHORE, flags, 0);
    assert_eq!((status, nt.Info.SharedHandle), (SUCCESS, GARBAGE));
    // Row 85: a global handle cannot be destroyed.
    assert_eq!(destroy(global), INVALID);
    // Row 87: garbage and zero are not opened, also if the output holds a live local handle.
    for (shared, local) in [(GARBAGE, 0), (0, 0), (0, made.hSyncObject)] {
        assert_eq!(open(shared, local).0, INVALID, "{shared:#x} {local:#x}");
    }
    // Row 88: a live handle is opened, with a new local handle that is a reference.
    let (status, opened) = open(global, 0);
    assert_eq!((status, opened & 0x3f), (SUCCESS, 0));
    assert_ne!(opened, made.hSyncObject);
    assert_eq!(destroy(made.hSyncObject), SUCCESS);
    let (status, again) = open(global, 0);
    assert_eq!(status, SUCCESS, "the second one keeps it");
    assert_eq!((destroy(opened), destroy(again)), (SUCCESS, SUCCESS));
    // Row 90: the last local handle ends the global handle.
    assert_eq!(open(global, 0).0, INVALID);
    assert_eq!(destroy(nt.hSyncObject), SUCCESS);
}

/// Row 91: a process that ends releases its references.
#[test]
fn a_process_that_ends_drops_what_it_opened() {
    let events = run(1, softgpu, |testbed, at| {
        let (one, two) = (Client::new(&testbed.kernel), Client::new(&testbed.kernel));
        let adapter = one.adapters(at).unwrap()[0];
        let device = one.create_device(at, adapter).unwrap();
        let made = one.create_sync(at, device, SyncObject::Semaphore(0, 1), Flags::Shared).unwrap();
        two.open_sync(at, made.global).unwrap();
        two.kill(at);
        assert_eq!(one.destroy_sync(at, made.object), Ok(()));
        assert_eq!(one.open_sync(at, made.global), Err(INVALID));
        one.destroy_device(at, device).unwrap();
        one.close_adapter(at, adapter).unwrap();
        one.end(at);
    });
    assert_eq!(verified(&events).findings(), []);
}

/// Row 93: the CPU signals monitored fences only.
#[test]
fn the_cpu_signals_only_monitored_fences() {
    let device = Device::new();
    for kind in [D3DDDI_SYNCHRONIZATION_MUTEX, D3DDDI_SEMAPHORE, D3DDDI_FENCE] {
        let made = device.create(kind, 0, 0).1.hSyncObject;
        assert_eq!(device.signal(made, 1, 0), INVALID, "{kind}");
        assert_eq!(destroy(made), SUCCESS);
    }
}

/// Rows 94, 96, 97 and 99, with the rewind between the last two: values and events.
#[test]
fn events_are_set_when_a_fence_has_the_value() {
    let device = Device::new();
    let fence = device.fence(1);
    let waits_for = |value: u64| {
        let event = Event::new();
        assert_eq!(device.wait(&[(fence, value)], event.0, 0), SUCCESS);
        event
    };
    // Row 94: a fence with value 1 has reached 0 and 1.
    assert!(waits_for(0).is_set() && waits_for(1).is_set());
    // Row 96: 2 is not reached before it is signalled.
    let second = waits_for(2);
    assert!(!second.is_set());
    assert_eq!(device.signal(fence, 2, 0), SUCCESS);
    assert!(second.is_set());
    // Row 97: the value cannot decrease, except in an explicit rewind.
    assert_eq!(device.signal(fence, 1, 0), INVALID);
    assert_eq!(device.signal(fence, 2, 0), SUCCESS, "the same value (our decision)");
    assert_eq!(device.signal(fence, 1, SignalFlags::AllowFenceRewind), SUCCESS);
    let again = waits_for(2);
    assert!(!again.is_set(), "it has 1 now");
    assert!(second.is_set(), "what was set stays so");
    // Row 99: 2 again, and the new event is set.
    assert_eq!(device.signal(fence, 2, 0), SUCCESS);
    assert!(again.is_set());
    assert_eq!(windtunnel_event_reset(again.0), SUCCESS);
    assert!(!again.is_set());
    assert_eq!(destroy(fence), SUCCESS);
}

/// Row 231: fences are shared by NT handles only. Row 232: a shared one goes back.
#[test]
fn a_shared_fence_needs_nt_sharing_and_can_be_rewound() {
    let device = Device::new();
    assert_eq!(device.create(D3DDDI_MONITORED_FENCE, Flags::Shared, 0).0, INVALID);
    let flags = Flags::Shared | Flags::NtSecuritySharing;
    let (status, made) = device.create(D3DDDI_MONITORED_FENCE, flags, 4);
    assert_eq!(status, SUCCESS);
    let (fence, memory) = (made.hSyncObject, made.Info.monitored().FenceValueCPUVirtualAddress);
    let seen = || {
        let read = memory.addr();
        let value = ptr::with_exposed_provenance::<u64>(read);
        // SAFETY: The library returned the address of the fence's value, and the fence exists.
        unsafe { value.read_volatile() }
    };
    assert_eq!(seen(), 4);
    assert_eq!(device.signal(fence, 3, SignalFlags::AllowFenceRewind), SUCCESS);
    assert_eq!(seen(), 3);
    let event = Event::new();
    assert_eq!(device.wait(&[(fence, 4)], event.0, 0), SUCCESS);
    assert!(!event.is_set(), "a wait for 4 is pending");
    assert_eq!(destroy(fence), SUCCESS);
    assert!(event.is_set(), "the wait is released with the local object (documented)");
    drop(device);
}

/// A thread waits for a signal of a thread that was never in the library before.
#[test]
fn a_thread_blocks_until_another_signals() {
    let device = Device::new();
    let (one, other) = (device.fence(0), device.fence(0));
    let number = device.0;
    let signals = spawn(move || {
        sleep(Duration::from_millis(50));
        let device = Device(number);
        let signalled = [device.signal(one, 7, 0), device.signal(other, 1, 0)];
        std::mem::forget(device); // It is the other thread's.
        signalled
    });
    assert_eq!(device.wait(&[(one, 7), (other, 9)], ptr::null_mut(), WaitFlags::WaitAny), SUCCESS);
    assert_eq!(device.wait(&[(one, 1), (other, 1)], ptr::null_mut(), 0), SUCCESS);
    assert_eq!(signals.join().unwrap(), [SUCCESS, SUCCESS]);
    let event = Event::new();
    assert_eq!(device.wait(&[(other, 2)], event.0, 0), SUCCESS);
    let device = std::sync::Arc::new(device);
    let late = device.clone();
    let signals = spawn(move || late.signal(other, 2, 0));
    assert_eq!(windtunnel_event_wait(event.0), SUCCESS);
    assert_eq!(signals.join().unwrap(), SUCCESS);
    assert_eq!((destroy(one), destroy(other)), (SUCCESS, SUCCESS));
}

/// Two contexts and the CPU, in the agreed order.
#[test]
fn contexts_wait_for_the_cpu_and_for_one_another() {
    let device = Device::new();
    let (first, second) = (device.context(0), device.context(1));
    let (start, between, end) = (device.fence(0), device.fence(0), device.fence(0));
    let wait = |context: u32, object: u32, value: u64| {
        let mut args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU {
            hContext: context,
            ObjectCount: 1,
            ObjectHandleArray: &raw const object,
            ..D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU::ZERO
        };
        args.Reserved[0] = (&raw const value).expose_provenance() as u64;
        // SAFETY: All arguments are locals of this function.
        unsafe { D3DKMTWaitForSynchronizationObjectFromGpu(&raw const args) }
    };
    let signal = |context: u32, object: u32, value: u64| {
        let mut args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU {
            hContext: context,
            ObjectCount: 1,
            ObjectHandleArray: &raw const object,
            ..D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU::ZERO
        };
        args.Reserved[0] = (&raw const value).expose_provenance() as u64;
        // SAFETY: All arguments are locals of this function.
        unsafe { D3DKMTSignalSynchronizationObjectFromGpu(&raw const args) }
    };
    assert_eq!(wait(second, between, 1), SUCCESS);
    assert_eq!(signal(second, end, 1), SUCCESS);
    assert_eq!(wait(first, start, 1), SUCCESS);
    assert_eq!(signal(first, between, 1), SUCCESS);
    let event = Event::new();
    assert_eq!(device.wait(&[(end, 1)], event.0, 0), SUCCESS);
    assert!(!event.is_set(), "the CPU has not started it");
    assert_eq!(device.signal(start, 1, 0), SUCCESS);
    assert_eq!(device.wait(&[(end, 1)], ptr::null_mut(), 0), SUCCESS);
    assert!(event.is_set());
    for context in [first, second] {
        let args = D3DKMT_DESTROYCONTEXT { hContext: context };
        // SAFETY: The argument is a local of this function.
        assert_eq!(unsafe { D3DKMTDestroyContext(&raw const args) }, SUCCESS);
    }
    for object in [start, between, end] {
        assert_eq!(destroy(object), SUCCESS);
    }
}

/// An unmapped pointer is an invalid parameter in every call.
#[test]
fn an_unmapped_pointer_is_an_error() {
    macro_rules! each {
        ($($name:ident)*) => {
            for address in [0_usize, 1, 0xdead_0000, usize::MAX - 3] {
                $(
                    let args = ptr::without_provenance_mut::<u8>(address);
                    // SAFETY: The library guards every pointer; this one is unmapped.
                    let status = unsafe { d3dkmt::$name(args.cast()) };
                    assert_eq!(status, INVALID, "{} {address:#x}", stringify!($name));
                )*
            }
        };
    }
    each! {
        D3DKMTCreateSynchronizationObject
        D3DKMTCreateSynchronizationObject2
        D3DKMTOpenSynchronizationObject
        D3DKMTDestroySynchronizationObject
        D3DKMTSignalSynchronizationObject
        D3DKMTSignalSynchronizationObject2
        D3DKMTSignalSynchronizationObjectFromCpu
        D3DKMTSignalSynchronizationObjectFromGpu
        D3DKMTSignalSynchronizationObjectFromGpu2
        D3DKMTWaitForSynchronizationObject
        D3DKMTWaitForSynchronizationObject2
        D3DKMTWaitForSynchronizationObjectFromCpu
        D3DKMTWaitForSynchronizationObjectFromGpu
    }
    let device = Device::new();
    let fence = device.fence(0);
    let wild = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
        hDevice: device.0,
        ObjectCount: 1,
        ObjectHandleArray: &raw const fence,
        FenceValueArray: ptr::without_provenance(0xdead_0000),
        ..D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::ZERO
    };
    // SAFETY: The library guards every pointer.
    let status = unsafe { D3DKMTWaitForSynchronizationObjectFromCpu(&raw const wild) };
    assert_eq!(status, INVALID);
    assert_eq!(destroy(fence), SUCCESS);
}
