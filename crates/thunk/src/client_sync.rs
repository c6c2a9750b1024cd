//! A client in safe Rust: synchronization objects.
#![expect(unsafe_code, reason = "passes its own structures to the entry points")]

use crate::client::{Client, check_status, list_pointer};
use crate::table;
use abi::kmt::{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT, D3DKMT_CREATESYNCHRONIZATIONOBJECT2,
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT, D3DKMT_OPENSYNCHRONIZATIONOBJECT,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT, D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU, D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2, D3DKMT_WAITFORSYNCHRONIZATIONOBJECT,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2, D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU,
};
use abi::ukm::{
    D3DDDI_CPU_NOTIFICATION, D3DDDI_FENCE, D3DDDI_MONITORED_FENCE, D3DDDI_SEMAPHORE,
    D3DDDI_SYNCHRONIZATION_MUTEX, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO, D3DDDI_SYNCHRONIZATIONOBJECTINFO2,
    D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS as WaitFlags, D3DDDICB_SIGNALFLAGS,
};
use abi::{D3DKMT_HANDLE, HANDLE, NTSTATUS};
use flight::Passive;
use std::ptr;

/// The synchronization object to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncObject {
    /// A mutex with its initial state.
    Mutex(bool),
    /// A semaphore: initial and maximum count.
    Semaphore(u32, u32),
    /// A fence with this value.
    Fence(u64),
    /// A monitored fence with this value.
    Monitored(u64),
    /// A notification through this event.
    Notification(usize),
    /// An object with this type number.
    Other(i32),
}

/// A created object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewSync {
    /// The object (`hSyncObject`).
    pub object: D3DKMT_HANDLE,
    /// Its global handle (`SharedHandle`), or zero.
    pub global: D3DKMT_HANDLE,
    /// The CPU address of the value, or zero.
    pub value: usize,
}

/// How the CPU waits for fences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuWait {
    /// Wait for one fence instead of all (`WaitAny`).
    pub any: bool,
    /// This event is set instead of waiting (`hAsyncEvent`), if not zero.
    pub event: usize,
}

impl Client {
    /// `D3DKMTCreateSynchronizationObject`.
    pub fn create_sync_v1(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        object: SyncObject,
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let words = object.values();
        let mut info = D3DDDI_SYNCHRONIZATIONOBJECTINFO {
            Type: object.number(),
            ..D3DDDI_SYNCHRONIZATIONOBJECTINFO::ZERO
        };
        (info.Reserved[0], info.Reserved[1]) = words;
        let mut args = D3DKMT_CREATESYNCHRONIZATIONOBJECT {
            hDevice: device,
            Info: info,
            ..D3DKMT_CREATESYNCHRONIZATIONOBJECT::ZERO
        };
        let session = &self.session;
        // SAFETY: `args` outlives the call.
        let made = unsafe { table::D3DKMTCreateSynchronizationObject(session, at, &raw mut args) };
        check_status(made).map(|()| args.hSyncObject)
    }

    /// `D3DKMTCreateSynchronizationObject2`, with flags.
    pub fn create_sync(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        object: SyncObject,
        flags: u32,
    ) -> Result<NewSync, NTSTATUS> {
        let mut info = D3DDDI_SYNCHRONIZATIONOBJECTINFO2 {
            Type: object.number(),
            Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS { Value: flags },
            ..D3DDDI_SYNCHRONIZATIONOBJECTINFO2::ZERO
        };
        let (low, high) = object.values();
        info.Reserved[0] = u64::from(high) << 32 | u64::from(low);
        let mut args = D3DKMT_CREATESYNCHRONIZATIONOBJECT2 {
            hDevice: device,
            Info: info,
            ..D3DKMT_CREATESYNCHRONIZATIONOBJECT2::ZERO
        };
        let session = &self.session;
        // SAFETY: `args` outlives the call.
        let made = unsafe { table::D3DKMTCreateSynchronizationObject2(session, at, &raw mut args) };
        check_status(made)?;
        let monitored = args.Info.Type == D3DDDI_MONITORED_FENCE;
        let address = args.Info.monitored().FenceValueCPUVirtualAddress.addr();
        let (object, global) = (args.hSyncObject, args.Info.SharedHandle);
        Ok(NewSync { object, global, value: if monitored { address } else { 0 } })
    }

    /// `D3DKMTOpenSynchronizationObject`.
    pub fn open_sync(
        &self,
        at: &mut Passive,
        global: D3DKMT_HANDLE,
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut args = D3DKMT_OPENSYNCHRONIZATIONOBJECT {
            hSharedHandle: global,
            ..D3DKMT_OPENSYNCHRONIZATIONOBJECT::ZERO
        };
        // SAFETY: `args` outlives the call.
        let opened =
            unsafe { table::D3DKMTOpenSynchronizationObject(&self.session, at, &raw mut args) };
        check_status(opened).map(|()| args.hSyncObject)
    }

    /// `D3DKMTDestroySynchronizationObject`.
    pub fn destroy_sync(&self, at: &mut Passive, object: D3DKMT_HANDLE) -> Result<(), NTSTATUS> {
        let args = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: object };
        // SAFETY: `args` outlives the call.
        check_status(unsafe {
            table::D3DKMTDestroySynchronizationObject(&self.session, at, &raw const args)
        })
    }

    /// `D3DKMTSignalSynchronizationObjectFromCpu`, with flags.
    pub fn signal_cpu(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        list: &[(D3DKMT_HANDLE, u64)],
        flags: u32,
    ) -> Result<(), NTSTATUS> {
        let (objects, values) = split_pairs(list);
        let args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: device,
            ObjectCount: count(&objects),
            ObjectHandleArray: list_pointer(&objects),
            FenceValueArray: values.as_ptr(),
            Flags: D3DDDICB_SIGNALFLAGS { Value: flags },
        };
        let (session, args) = (&self.session, &raw const args);
        // SAFETY: `args` and the lists outlive the call.
        check_status(unsafe { table::D3DKMTSignalSynchronizationObjectFromCpu(session, at, args) })
    }

    /// `D3DKMTWaitForSynchronizationObjectFromCpu`.
    pub fn wait_cpu(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        list: &[(D3DKMT_HANDLE, u64)],
        outcome: CpuWait,
    ) -> Result<(), NTSTATUS> {
        let (objects, values) = split_pairs(list);
        let args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: device,
            ObjectCount: count(&objects),
            ObjectHandleArray: list_pointer(&objects),
            FenceValueArray: values.as_ptr(),
            hAsyncEvent: handle(outcome.event),
            Flags: WaitFlags { Value: if outcome.any { WaitFlags::WaitAny } else { 0 } },
        };
        let (session, args) = (&self.session, &raw const args);
        // SAFETY: `args` and the lists outlive the call.
        check_status(unsafe { table::D3DKMTWaitForSynchronizationObjectFromCpu(session, at, args) })
    }

    /// `D3DKMTSignalSynchronizationObjectFromGpu`.
    pub fn signal_gpu(
        &self,
        at: &mut Passive,
        context: D3DKMT_HANDLE,
        list: &[(D3DKMT_HANDLE, u64)],
    ) -> Result<(), NTSTATUS> {
        let (objects, values) = split_pairs(list);
        let mut args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU {
            hContext: context,
            ObjectCount: count(&objects),
            ObjectHandleArray: list_pointer(&objects),
            ..D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU::ZERO
        };
        args.Reserved[0] = values.as_ptr().expose_provenance() as u64;
        let (session, args) = (&self.session, &raw const args);
        // SAFETY: `args` and the lists outlive the call.
        check_status(unsafe { table::D3DKMTSignalSynchronizationObjectFromGpu(session, at, args) })
    }

    /// `D3DKMTSignalSynchronizationObjectFromGpu2`, for monitored fences.
    pub fn broadcast_gpu(
        &self,
        at: &mut Passive,
        contexts: &[D3DKMT_HANDLE],
        list: &[(D3DKMT_HANDLE, u64)],
    ) -> Result<(), NTSTATUS> {
        let (objects, values) = split_pairs(list);
        let mut args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 {
            ObjectCount: count(&objects),
            ObjectHandleArray: list_pointer(&objects),
            BroadcastContextCount: count(contexts),
            BroadcastContextArray: list_pointer(contexts),
            ..D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2::ZERO
        };
        args.Reserved[0] = values.as_ptr().expose_provenance() as u64;
        let (session, args) = (&self.session, &raw const args);
        // SAFETY: `args` and the lists outlive the call.
        check_status(unsafe { table::D3DKMTSignalSynchronizationObjectFromGpu2(session, at, args) })
    }

    /// `D3DKMTSignalSynchronizationObjectFromGpu2`, for an event.
    pub fn signal_event_gpu(
        &self,
        at: &mut Passive,
        context: D3DKMT_HANDLE,
        event: usize,
    ) -> Result<(), NTSTATUS> {
        let mut args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 {
            Flags: D3DDDICB_SIGNALFLAGS { Value: D3DDDICB_SIGNALFLAGS::EnqueueCpuEvent },
            BroadcastContextCount: 1,
            BroadcastContextArray: &raw const context,
            ..D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2::ZERO
        };
        args.Reserved[0] = event as u64;
        let (session, args) = (&self.session, &raw const args);
        // SAFETY: `args` and the context outlive the call.
        check_status(unsafe { table::D3DKMTSignalSynchronizationObjectFromGpu2(session, at, args) })
    }

    /// `D3DKMTWaitForSynchronizationObjectFromGpu`.
    pub fn wait_gpu(
        &self,
        at: &mut Passive,
        context: D3DKMT_HANDLE,
        list: &[(D3DKMT_HANDLE, u64)],
    ) -> Result<(), NTSTATUS> {
        let (objects, values) = split_pairs(list);
        let mut args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU {
            hContext: context,
            ObjectCount: count(&objects),
            ObjectHandleArray: list_pointer(&objects),
            ..D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU::ZERO
        };
        args.Reserved[0] = values.as_ptr().expose_provenance() as u64;
        let (session, args) = (&self.session, &raw const args);
        // SAFETY: `args` and the lists outlive the call.
        check_status(unsafe { table::D3DKMTWaitForSynchronizationObjectFromGpu(session, at, args) })
    }

    /// `D3DKMTSignalSynchronizationObject`, with the list's length or another count.
    pub fn signal_v1(
        &self,
        at: &mut Passive,
        context: D3DKMT_HANDLE,
        objects: &[D3DKMT_HANDLE],
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT {
            hContext: context,
            ObjectCount: count(objects),
            ObjectHandleArray: array(objects),
            ..D3DKMT_SIGNALSYNCHRONIZATIONOBJECT::ZERO
        };
        let (session, args) = (&self.session, &raw const args);
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTSignalSynchronizationObject(session, at, args) })
    }

    /// `D3DKMTSignalSynchronizationObject2`, from a context and broadcast contexts.
    pub fn signal_v2(
        &self,
        at: &mut Passive,
        (context, others): (D3DKMT_HANDLE, &[D3DKMT_HANDLE]),
        objects: &[D3DKMT_HANDLE],
        value: u64,
    ) -> Result<(), NTSTATUS> {
        let mut args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 {
            hContext: context,
            ObjectCount: count(objects),
            ObjectHandleArray: array(objects),
            BroadcastContextCount: count(others),
            BroadcastContext: array(others),
            ..D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2::ZERO
        };
        args.Reserved[0] = value;
        let (session, args) = (&self.session, &raw const args);
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTSignalSynchronizationObject2(session, at, args) })
    }

    /// `D3DKMTWaitForSynchronizationObject`.
    pub fn wait_v1(
        &self,
        at: &mut Passive,
        context: D3DKMT_HANDLE,
        objects: &[D3DKMT_HANDLE],
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECT {
            hContext: context,
            ObjectCount: count(objects),
            ObjectHandleArray: array(objects),
        };
        let (session, args) = (&self.session, &raw const args);
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTWaitForSynchronizationObject(session, at, args) })
    }

    /// `D3DKMTWaitForSynchronizationObject2`.
    pub fn wait_v2(
        &self,
        at: &mut Passive,
        context: D3DKMT_HANDLE,
        objects: &[D3DKMT_HANDLE],
        value: u64,
    ) -> Result<(), NTSTATUS> {
        let mut args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 {
            hContext: context,
            ObjectCount: count(objects),
            ObjectHandleArray: array(objects),
            ..D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2::ZERO
        };
        args.Reserved[0] = value;
        let (session, args) = (&self.session, &raw const args);
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTWaitForSynchronizationObject2(session, at, args) })
    }

    /// Creates an event that is not set. Returns its handle.
    pub fn create_event(&self) -> usize {
        self.session.create_event()
    }

    /// Whether an event is set.
    pub fn event_is_set(&self, event: usize) -> Result<bool, NTSTATUS> {
        self.session.event_is_set(handle(event))
    }

    /// Closes an event.
    pub fn close_event(&self, event: usize) -> Result<(), NTSTATUS> {
        self.session.close_event(handle(event))
    }
}

impl SyncObject {
    fn number(self) -> i32 {
        match self {
            SyncObject::Mutex(_) => D3DDDI_SYNCHRONIZATION_MUTEX,
            SyncObject::Semaphore(..) => D3DDDI_SEMAPHORE,
            SyncObject::Fence(_) => D3DDDI_FENCE,
            SyncObject::Monitored(_) => D3DDDI_MONITORED_FENCE,
            SyncObject::Notification(_) => D3DDDI_CPU_NOTIFICATION,
            SyncObject::Other(number) => number,
        }
    }

    /// The first two values of its union.
    #[expect(clippy::cast_possible_truncation, reason = "the halves are meant")]
    fn values(self) -> (u32, u32) {
        match self {
            SyncObject::Mutex(held) => (u32::from(held), 0),
            SyncObject::Semaphore(count, limit) => (limit, count),
            SyncObject::Fence(value) | SyncObject::Monitored(value) => {
                (value as u32, (value >> 32) as u32)
            }
            SyncObject::Notification(event) => (event as u32, (event as u64 >> 32) as u32),
            SyncObject::Other(_) => (0, 0),
        }
    }
}

fn split_pairs(list: &[(D3DKMT_HANDLE, u64)]) -> (Vec<D3DKMT_HANDLE>, Vec<u64>) {
    list.iter().copied().unzip()
}

/// Copies the start of a list into an array.
fn array<const N: usize>(list: &[D3DKMT_HANDLE]) -> [D3DKMT_HANDLE; N] {
    let mut array = [0; N];
    for (to, from) in array.iter_mut().zip(list) {
        *to = *from;
    }
    array
}

fn count(list: &[D3DKMT_HANDLE]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

fn handle(event: usize) -> HANDLE {
    ptr::without_provenance_mut(event)
}
