//! Synchronization objects.

use super::{Callbacks, count, list};
use crate::args::RuntimeContext;
use crate::memory::Memory;
use crate::result::{UmdResult, to_result};
use abi::D3DKMT_HANDLE;
use abi::hresult::E_INVALIDARG;
use abi::ukm::{
    D3DDDI_MONITORED_FENCE, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS, D3DDDI_SYNCHRONIZATIONOBJECTINFO2,
    D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS, D3DDDICB_SIGNALFLAGS,
};
use abi::umd::{
    D3DDDICB_CREATESYNCHRONIZATIONOBJECT, D3DDDICB_CREATESYNCHRONIZATIONOBJECT2,
    D3DDDICB_DESTROYSYNCHRONIZATIONOBJECT, D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT,
    D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT2, D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMCPU,
    D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU, D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT,
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT2, D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU,
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMGPU,
};
use core::ptr;

/// A monitored fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// `hSyncObject`.
    pub object: D3DKMT_HANDLE,
    /// The CPU mapping of its value.
    pub value: Memory,
    /// The GPU virtual address of its value.
    pub gpu: u64,
}

impl Callbacks {
    /// `pfnCreateSynchronizationObject2Cb` for a monitored fence, with its flags
    /// (`D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS`).
    pub fn create_fence(&self, initial: u64, flags: u32) -> UmdResult<Fence> {
        let mut info = D3DDDI_SYNCHRONIZATIONOBJECTINFO2::ZERO;
        info.Type = D3DDDI_MONITORED_FENCE;
        info.Flags = D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS { Value: flags };
        info.Reserved[0] = initial;
        let mut args = D3DDDICB_CREATESYNCHRONIZATIONOBJECT2 { Info: info, hSyncObject: 0 };
        to_result(self.call_mut(self.table().pfnCreateSynchronizationObject2Cb, &mut args))?;
        let made = args.Info.monitored();
        let value = self.memory(made.FenceValueCPUVirtualAddress, 8);
        let gpu = made.FenceValueGPUVirtualAddress;
        Ok(Fence { object: args.hSyncObject, value, gpu })
    }

    /// `pfnCreateSynchronizationObjectCb` for a type (`D3DDDI_SYNCHRONIZATIONOBJECT_TYPE`), with
    /// the type's two parameters.
    pub fn create_sync(&self, kind: i32, words: [u32; 2]) -> UmdResult<D3DKMT_HANDLE> {
        let mut args = D3DDDICB_CREATESYNCHRONIZATIONOBJECT::ZERO;
        args.Info.Type = kind;
        args.Info.Reserved[..2].copy_from_slice(&words);
        to_result(self.call_mut(self.table().pfnCreateSynchronizationObjectCb, &mut args))?;
        Ok(args.hSyncObject)
    }

    /// `pfnDestroySynchronizationObjectCb`.
    pub fn destroy_sync(&self, object: D3DKMT_HANDLE) -> UmdResult<()> {
        let args = D3DDDICB_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: object };
        self.call_const(self.table().pfnDestroySynchronizationObjectCb, &args)
    }

    /// `pfnWaitForSynchronizationObjectCb`: a context waits.
    pub fn wait(&self, context: RuntimeContext, objects: &[D3DKMT_HANDLE]) -> UmdResult<()> {
        let args = D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT {
            hContext: ptr::with_exposed_provenance_mut(context.0),
            ObjectCount: count(objects.len()),
            ObjectHandleArray: object_array(objects),
        };
        self.call_const(self.table().pfnWaitForSynchronizationObjectCb, &args)
    }

    /// `pfnWaitForSynchronizationObject2Cb`: a context waits; fences have a value.
    pub fn wait2(
        &self,
        context: RuntimeContext,
        objects: &[D3DKMT_HANDLE],
        value: u64,
    ) -> UmdResult<()> {
        let args = D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT2 {
            hContext: ptr::with_exposed_provenance_mut(context.0),
            ObjectCount: count(objects.len()),
            ObjectHandleArray: object_array(objects),
            FenceValue: value,
        };
        self.call_const(self.table().pfnWaitForSynchronizationObject2Cb, &args)
    }

    /// `pfnSignalSynchronizationObjectCb`: a context signals.
    pub fn signal(
        &self,
        context: RuntimeContext,
        objects: &[D3DKMT_HANDLE],
        flags: u32,
    ) -> UmdResult<()> {
        let args = D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT {
            hContext: ptr::with_exposed_provenance_mut(context.0),
            ObjectCount: count(objects.len()),
            ObjectHandleArray: object_array(objects),
            Flags: D3DDDICB_SIGNALFLAGS { Value: flags },
        };
        self.call_const(self.table().pfnSignalSynchronizationObjectCb, &args)
    }

    /// `pfnSignalSynchronizationObject2Cb`: a context signals; fences have a value.
    pub fn signal2(
        &self,
        context: RuntimeContext,
        objects: &[D3DKMT_HANDLE],
        flags: u32,
        value: u64,
    ) -> UmdResult<()> {
        let args = D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT2 {
            hContext: ptr::with_exposed_provenance_mut(context.0),
            ObjectCount: count(objects.len()),
            ObjectHandleArray: object_array(objects),
            Flags: D3DDDICB_SIGNALFLAGS { Value: flags },
            FenceValue: value,
            ..D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT2::ZERO
        };
        self.call_const(self.table().pfnSignalSynchronizationObject2Cb, &args)
    }

    /// `pfnWaitForSynchronizationObjectFromCpuCb`: the caller waits for all objects or, with
    /// `D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS`, for one.
    pub fn wait_from_cpu(&self, fences: &[(D3DKMT_HANDLE, u64)], flags: u32) -> UmdResult<()> {
        let (objects, values): (Vec<_>, Vec<_>) = fences.iter().copied().unzip();
        let args = D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
            ObjectCount: count(objects.len()),
            ObjectHandleArray: list(&objects),
            FenceValueArray: list(&values),
            Flags: D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS { Value: flags },
            ..D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::ZERO
        };
        self.call_const(self.table().pfnWaitForSynchronizationObjectFromCpuCb, &args)
    }

    /// `pfnSignalSynchronizationObjectFromCpuCb`.
    pub fn signal_from_cpu(&self, fences: &[(D3DKMT_HANDLE, u64)]) -> UmdResult<()> {
        let (objects, values): (Vec<_>, Vec<_>) = fences.iter().copied().unzip();
        let mut args = D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
            ObjectCount: count(objects.len()),
            ObjectHandleArray: list(&objects),
            FenceValueArray: list(&values),
        };
        to_result(self.call_mut(self.table().pfnSignalSynchronizationObjectFromCpuCb, &mut args))
    }

    /// `pfnWaitForSynchronizationObjectFromGpuCb`: a context waits for monitored fences.
    pub fn wait_from_gpu(
        &self,
        context: RuntimeContext,
        fences: &[(D3DKMT_HANDLE, u64)],
    ) -> UmdResult<()> {
        let (objects, values): (Vec<_>, Vec<_>) = fences.iter().copied().unzip();
        let mut args = D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMGPU {
            hContext: ptr::with_exposed_provenance_mut(context.0),
            ObjectCount: count(objects.len()),
            ObjectHandleArray: list(&objects),
            ..D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMGPU::ZERO
        };
        args.MonitoredFenceValueArray[0] = list_address(&values)?;
        self.call_const(self.table().pfnWaitForSynchronizationObjectFromGpuCb, &args)
    }

    /// `pfnSignalSynchronizationObjectFromGpuCb`: a context signals monitored fences.
    pub fn signal_from_gpu(
        &self,
        context: RuntimeContext,
        fences: &[(D3DKMT_HANDLE, u64)],
    ) -> UmdResult<()> {
        let (objects, values): (Vec<_>, Vec<_>) = fences.iter().copied().unzip();
        let mut args = D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU {
            hContext: ptr::with_exposed_provenance_mut(context.0),
            ObjectCount: count(objects.len()),
            ObjectHandleArray: list(&objects),
            ..D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU::ZERO
        };
        args.MonitoredFenceValueArray[0] = list_address(&values)?;
        self.call_const(self.table().pfnSignalSynchronizationObjectFromGpuCb, &args)
    }
}

/// The objects, truncated to the array; the caller passes the true count.
fn object_array(objects: &[D3DKMT_HANDLE]) -> [D3DKMT_HANDLE; 32] {
    let mut array = [0; 32];
    for (to, from) in array.iter_mut().zip(objects) {
        *to = *from;
    }
    array
}

/// The address of a list, as the first `u64` of a union whose largest member this is.
fn list_address(values: &[u64]) -> UmdResult<u64> {
    u64::try_from(list(values).expose_provenance()).map_err(|_| E_INVALIDARG)
}
