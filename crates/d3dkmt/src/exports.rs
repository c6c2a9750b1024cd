//! The exported functions: one table, a line for each entry point.
#![expect(unsafe_code, reason = "takes the pointers of callers in C, under their C names")]

use crate::tunnel;
use abi::NTSTATUS;
use abi::kmt::{
    D3DKMT_ACQUIREKEYEDMUTEX, D3DKMT_ACQUIREKEYEDMUTEX2, D3DKMT_CREATEKEYEDMUTEX,
    D3DKMT_CREATEKEYEDMUTEX2, D3DKMT_DESTROYKEYEDMUTEX, D3DKMT_OPENKEYEDMUTEX,
    D3DKMT_OPENKEYEDMUTEX2, D3DKMT_RELEASEKEYEDMUTEX, D3DKMT_RELEASEKEYEDMUTEX2,
};
use abi::kmt::{
    D3DKMT_CHANGEVIDEOMEMORYRESERVATION, D3DKMT_CLOSEADAPTER, D3DKMT_CREATEALLOCATION,
    D3DKMT_CREATECONTEXTVIRTUAL, D3DKMT_CREATEDEVICE, D3DKMT_CREATEPAGINGQUEUE,
    D3DKMT_DESTROYALLOCATION, D3DKMT_DESTROYALLOCATION2, D3DKMT_DESTROYCONTEXT,
    D3DKMT_DESTROYDEVICE, D3DKMT_ENUMADAPTERS2, D3DKMT_ESCAPE, D3DKMT_EVICT,
    D3DKMT_GETALLOCATIONPRIORITY, D3DKMT_GETDEVICESTATE, D3DKMT_LOCK, D3DKMT_LOCK2,
    D3DKMT_OFFERALLOCATIONS, D3DKMT_OPENADAPTERFROMLUID, D3DKMT_OPENRESOURCE,
    D3DKMT_QUERYADAPTERINFO, D3DKMT_QUERYALLOCATIONRESIDENCY, D3DKMT_QUERYRESOURCEINFO,
    D3DKMT_QUERYVIDEOMEMORYINFO, D3DKMT_RECLAIMALLOCATIONS, D3DKMT_RECLAIMALLOCATIONS2,
    D3DKMT_REGISTERTRIMNOTIFICATION, D3DKMT_SETALLOCATIONPRIORITY, D3DKMT_SUBMITCOMMAND,
    D3DKMT_UNLOCK, D3DKMT_UNLOCK2, D3DKMT_UNREGISTERTRIMNOTIFICATION,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU,
};
use abi::kmt::{D3DKMT_GETCONTEXTSCHEDULINGPRIORITY, D3DKMT_SETCONTEXTSCHEDULINGPRIORITY};
use abi::ukm::{D3DDDI_DESTROYPAGINGQUEUE, D3DDDI_MAKERESIDENT};

macro_rules! exports {
    ($($name:ident($pointer:ty);)+) => {
        $(
            #[doc = concat!("`", stringify!($name), "`, of the one global kernel.")]
            ///
            /// # Safety
            ///
            /// A pointer may be any number: what is not there is an invalid parameter. But what
            /// can be written where the answers go is written.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(args: $pointer) -> NTSTATUS {
                tunnel::call(stringify!($name), |session, at| {
                    // SAFETY: The session guards, and what it writes is the caller's to name.
                    unsafe { thunk::$name(session, at, args) }
                })
            }
        )+
    };
}

exports! {
    D3DKMTEnumAdapters2(*mut D3DKMT_ENUMADAPTERS2);
    D3DKMTOpenAdapterFromLuid(*mut D3DKMT_OPENADAPTERFROMLUID);
    D3DKMTCloseAdapter(*const D3DKMT_CLOSEADAPTER);
    D3DKMTCreateDevice(*mut D3DKMT_CREATEDEVICE);
    D3DKMTDestroyDevice(*const D3DKMT_DESTROYDEVICE);
    D3DKMTCreateContextVirtual(*mut D3DKMT_CREATECONTEXTVIRTUAL);
    D3DKMTDestroyContext(*const D3DKMT_DESTROYCONTEXT);
    D3DKMTSubmitCommand(*const D3DKMT_SUBMITCOMMAND);
    D3DKMTSetContextSchedulingPriority(*const D3DKMT_SETCONTEXTSCHEDULINGPRIORITY);
    D3DKMTGetContextSchedulingPriority(*mut D3DKMT_GETCONTEXTSCHEDULINGPRIORITY);
    D3DKMTCreateAllocation(*mut D3DKMT_CREATEALLOCATION);
    D3DKMTCreateAllocation2(*mut D3DKMT_CREATEALLOCATION);
    D3DKMTDestroyAllocation(*const D3DKMT_DESTROYALLOCATION);
    D3DKMTDestroyAllocation2(*const D3DKMT_DESTROYALLOCATION2);
    D3DKMTQueryResourceInfo(*mut D3DKMT_QUERYRESOURCEINFO);
    D3DKMTOpenResource(*mut D3DKMT_OPENRESOURCE);
    D3DKMTOpenResource2(*mut D3DKMT_OPENRESOURCE);
    D3DKMTGetDeviceState(*mut D3DKMT_GETDEVICESTATE);
    D3DKMTCreatePagingQueue(*mut D3DKMT_CREATEPAGINGQUEUE);
    D3DKMTDestroyPagingQueue(*mut D3DDDI_DESTROYPAGINGQUEUE);
    D3DKMTWaitForSynchronizationObjectFromCpu(*const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU);
    D3DKMTMakeResident(*mut D3DDDI_MAKERESIDENT);
    D3DKMTEvict(*mut D3DKMT_EVICT);
    D3DKMTLock(*mut D3DKMT_LOCK);
    D3DKMTUnlock(*const D3DKMT_UNLOCK);
    D3DKMTLock2(*mut D3DKMT_LOCK2);
    D3DKMTUnlock2(*const D3DKMT_UNLOCK2);
    D3DKMTOfferAllocations(*const D3DKMT_OFFERALLOCATIONS);
    D3DKMTReclaimAllocations(*const D3DKMT_RECLAIMALLOCATIONS);
    D3DKMTReclaimAllocations2(*mut D3DKMT_RECLAIMALLOCATIONS2);
    D3DKMTSetAllocationPriority(*const D3DKMT_SETALLOCATIONPRIORITY);
    D3DKMTGetAllocationPriority(*const D3DKMT_GETALLOCATIONPRIORITY);
    D3DKMTQueryAllocationResidency(*const D3DKMT_QUERYALLOCATIONRESIDENCY);
    D3DKMTQueryAdapterInfo(*const D3DKMT_QUERYADAPTERINFO);
    D3DKMTQueryVideoMemoryInfo(*mut D3DKMT_QUERYVIDEOMEMORYINFO);
    D3DKMTChangeVideoMemoryReservation(*const D3DKMT_CHANGEVIDEOMEMORYRESERVATION);
    D3DKMTRegisterTrimNotification(*mut D3DKMT_REGISTERTRIMNOTIFICATION);
    D3DKMTUnregisterTrimNotification(*mut D3DKMT_UNREGISTERTRIMNOTIFICATION);
    D3DKMTEscape(*const D3DKMT_ESCAPE);
    D3DKMTCreateKeyedMutex(*mut D3DKMT_CREATEKEYEDMUTEX);
    D3DKMTCreateKeyedMutex2(*mut D3DKMT_CREATEKEYEDMUTEX2);
    D3DKMTOpenKeyedMutex(*mut D3DKMT_OPENKEYEDMUTEX);
    D3DKMTOpenKeyedMutex2(*mut D3DKMT_OPENKEYEDMUTEX2);
    D3DKMTDestroyKeyedMutex(*const D3DKMT_DESTROYKEYEDMUTEX);
    D3DKMTAcquireKeyedMutex(*mut D3DKMT_ACQUIREKEYEDMUTEX);
    D3DKMTAcquireKeyedMutex2(*mut D3DKMT_ACQUIREKEYEDMUTEX2);
    D3DKMTReleaseKeyedMutex(*mut D3DKMT_RELEASEKEYEDMUTEX);
    D3DKMTReleaseKeyedMutex2(*mut D3DKMT_RELEASEKEYEDMUTEX2);
}
