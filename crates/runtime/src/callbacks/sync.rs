//! Synchronization objects.
#![expect(unsafe_code, reason = "a driver calls these, with its own pointers")]

use crate::device::DeviceState;
use crate::result::hresult_from_status;
use abi::D3DKMT_HANDLE;
use abi::kmt::{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT, D3DKMT_CREATESYNCHRONIZATIONOBJECT2,
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT, D3DKMT_SIGNALSYNCHRONIZATIONOBJECT,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2, D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU, D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECT, D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU, D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU,
};
use abi::umd::{
    D3DDDICB_CREATESYNCHRONIZATIONOBJECT, D3DDDICB_CREATESYNCHRONIZATIONOBJECT2,
    D3DDDICB_DESTROYSYNCHRONIZATIONOBJECT, D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT,
    D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT2, D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMCPU,
    D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU, D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2,
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT, D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT2,
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU, D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMGPU,
};
use flight::RuleId;
use std::ptr;
use thunk::claims;

callback! {
    /// Creates a synchronization object.
    create "pfnCreateSynchronizationObjectCb" Submits mut D3DDDICB_CREATESYNCHRONIZATIONOBJECT:
    |device, at, request| {
        let mut args = D3DKMT_CREATESYNCHRONIZATIONOBJECT {
            hDevice: device.kernel_handle,
            Info: request.Info,
            hSyncObject: 0,
        };
        through!(D3DKMTCreateSynchronizationObject, device, at, &raw mut args)?;
        request.hSyncObject = args.hSyncObject;
        device.ledger().objects.insert(args.hSyncObject);
        Ok(())
    }
}

callback! {
    /// Creates a synchronization object of any type.
    create2 "pfnCreateSynchronizationObject2Cb" Submits mut D3DDDICB_CREATESYNCHRONIZATIONOBJECT2:
    |device, at, request| {
        let mut args = D3DKMT_CREATESYNCHRONIZATIONOBJECT2 {
            hDevice: device.kernel_handle,
            Info: request.Info,
            hSyncObject: 0,
        };
        through!(D3DKMTCreateSynchronizationObject2, device, at, &raw mut args)?;
        (request.Info, request.hSyncObject) = (args.Info, args.hSyncObject);
        device.ledger().objects.insert(args.hSyncObject);
        Ok(())
    }
}

callback! {
    /// Destroys a synchronization object.
    destroy "pfnDestroySynchronizationObjectCb" Submits
    const D3DDDICB_DESTROYSYNCHRONIZATIONOBJECT: |device, at, request| {
        let args = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: request.hSyncObject };
        through!(D3DKMTDestroySynchronizationObject, device, at, &raw const args)?;
        device.ledger().objects.remove(&request.hSyncObject);
        Ok(())
    }
}

callback! {
    /// Makes a context wait for objects.
    wait "pfnWaitForSynchronizationObjectCb" Submits const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT:
    |device, at, request| {
        let args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECT {
            hContext: device.context(request.hContext, NAME)?,
            ObjectCount: request.ObjectCount,
            ObjectHandleArray: request.ObjectHandleArray,
        };
        through!(D3DKMTWaitForSynchronizationObject, device, at, &raw const args)
    }
}

callback! {
    /// Makes a context wait for objects, with a fence value.
    wait2 "pfnWaitForSynchronizationObject2Cb" Submits
    const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT2: |device, at, request| {
        let mut args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 {
            hContext: device.context(request.hContext, NAME)?,
            ObjectCount: request.ObjectCount,
            ObjectHandleArray: request.ObjectHandleArray,
            ..D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2::ZERO
        };
        args.Reserved[0] = request.FenceValue;
        through!(D3DKMTWaitForSynchronizationObject2, device, at, &raw const args)
    }
}

callback! {
    /// Makes a context signal objects.
    signal "pfnSignalSynchronizationObjectCb" Submits const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT:
    |device, at, request| {
        let args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT {
            hContext: device.context(request.hContext, NAME)?,
            ObjectCount: request.ObjectCount,
            ObjectHandleArray: request.ObjectHandleArray,
            Flags: request.Flags,
        };
        through!(D3DKMTSignalSynchronizationObject, device, at, &raw const args)
    }
}

callback! {
    /// Makes contexts signal objects, with a fence value.
    signal2 "pfnSignalSynchronizationObject2Cb" Submits
    const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT2: |device, at, request| {
        let mut args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 {
            hContext: device.context(request.hContext, NAME)?,
            ObjectCount: request.ObjectCount,
            ObjectHandleArray: request.ObjectHandleArray,
            Flags: request.Flags,
            BroadcastContextCount: request.BroadcastContextCount,
            ..D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2::ZERO
        };
        args.Reserved[0] = request.FenceValue;
        let count = (request.BroadcastContextCount as usize).min(request.BroadcastContext.len());
        let others = request.BroadcastContext[..count].iter();
        for (to, from) in args.BroadcastContext.iter_mut().zip(others) {
            *to = device.context(ptr::without_provenance_mut(*from as usize), NAME)?;
        }
        through!(D3DKMTSignalSynchronizationObject2, device, at, &raw const args)
    }
}

callback! {
    /// Waits on the CPU.
    wait_from_cpu "pfnWaitForSynchronizationObjectFromCpuCb" Submits
    const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU: |device, at, request| {
        let args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: device.kernel_handle,
            ObjectCount: request.ObjectCount,
            ObjectHandleArray: request.ObjectHandleArray,
            FenceValueArray: request.FenceValueArray,
            hAsyncEvent: request.hAsyncEvent,
            Flags: request.Flags,
        };
        through!(D3DKMTWaitForSynchronizationObjectFromCpu, device, at, &raw const args)
    }
}

callback! {
    /// Signals from the CPU.
    signal_from_cpu "pfnSignalSynchronizationObjectFromCpuCb" Submits
    mut D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMCPU: |device, at, request| {
        let args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: device.kernel_handle,
            ObjectCount: request.ObjectCount,
            ObjectHandleArray: request.ObjectHandleArray,
            FenceValueArray: request.FenceValueArray,
            ..D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU::ZERO
        };
        through!(D3DKMTSignalSynchronizationObjectFromCpu, device, at, &raw const args)
    }
}

callback! {
    /// Makes a context wait for fence values.
    wait_from_gpu "pfnWaitForSynchronizationObjectFromGpuCb" Submits
    const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMGPU: |device, at, request| {
        let args = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU {
            hContext: device.context(request.hContext, NAME)?,
            ObjectCount: request.ObjectCount,
            ObjectHandleArray: request.ObjectHandleArray,
            Reserved: request.MonitoredFenceValueArray,
        };
        let (list, count) = (request.ObjectHandleArray, request.ObjectCount as usize);
        // SAFETY: The driver's creator vouches for the list.
        let objects = unsafe { claims::read_small_list::<_, 4>(list, count) }.map_err(hresult_from_status)?;
        device.judge_wait(NAME, request.hContext.addr(), &objects);
        through!(D3DKMTWaitForSynchronizationObjectFromGpu, device, at, &raw const args)
    }
}

callback! {
    /// Makes a context signal fence values.
    signal_from_gpu "pfnSignalSynchronizationObjectFromGpuCb" Submits
    const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU: |device, at, request| {
        let args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU {
            hContext: device.context(request.hContext, NAME)?,
            ObjectCount: request.ObjectCount,
            ObjectHandleArray: request.ObjectHandleArray,
            Reserved: request.MonitoredFenceValueArray,
        };
        through!(D3DKMTSignalSynchronizationObjectFromGpu, device, at, &raw const args)
    }
}

callback! {
    /// Makes contexts signal fence values or an event.
    signal_from_gpu2 "pfnSignalSynchronizationObjectFromGpu2Cb" Submits
    const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2: |device, at, request| {
        let (list, count) = (request.BroadcastContextArray, request.BroadcastContextCount as usize);
        // SAFETY: The driver's creator vouches for the list.
        let list = unsafe { claims::read_list(list, count) };
        let list = list.map_err(hresult_from_status)?.into_iter().map(|c_void| device.context(c_void, NAME));
        let list: Vec<u32> = list.collect::<Result<_, _>>()?;
        let args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 {
            ObjectCount: request.ObjectCount,
            ObjectHandleArray: request.ObjectHandleArray,
            Flags: request.Flags,
            BroadcastContextCount: request.BroadcastContextCount,
            BroadcastContextArray: list.as_ptr(),
            Reserved: request.FenceValue,
        };
        through!(D3DKMTSignalSynchronizationObjectFromGpu2, device, at, &raw const args)
    }
}

impl DeviceState {
    /// Judges that a driver submits its batched commands before it queues a wait. Applies only with
    /// a single context; with several, the commands could belong to another one.
    ///
    /// WINDOWS: a driver waits for the paging queue's fence after making memory resident, in front
    /// of the commands that need it (documented): that wait is meant to hold them.
    fn judge_wait(&self, name: &'static str, context: usize, objects: &[D3DKMT_HANDLE]) {
        let ledger = self.ledger();
        let paging = |number: &D3DKMT_HANDLE| ledger.queues.values().any(|fence| fence == number);
        if !objects.is_empty() && objects.iter().all(paging) {
            drop(ledger);
            self.judge(RuleId::SYNC_CREATE_013, name, None);
            return;
        }
        let drawn = ledger.contexts.len() == 1 && ledger.has_drawn();
        let list = ledger.contexts.get(&context).map(|context| context.list).unwrap_or_default();
        drop(ledger);
        let listed = super::submit::listed_handles(list, list.1).count();
        let broken = if drawn {
            Some(
                "a wait is queued, and nothing was submitted since the application drew".to_owned(),
            )
        } else {
            let commands =
                format!("a wait is queued, and {listed} allocations are listed by commands");
            (listed > 0).then(|| format!("{commands} that were not submitted"))
        };
        self.judge(RuleId::SYNC_CREATE_013, name, broken);
    }
}
