//! The support table of the Direct3D runtime: one row for each driver function that is called and
//! for each callback that is implemented, with the rules judged there.

use flight::{RuleId, Support};

/// A driver function that this runtime calls.
#[derive(Clone, Copy, Debug)]
pub struct FunctionRow {
    /// The name of its slot.
    pub name: &'static str,
    /// What is missing, as a sentence; empty when support is complete.
    pub missing: &'static str,
    /// The rules judged when it returns.
    pub rules: &'static [RuleId],
}

/// A callback that this runtime implements.
#[derive(Clone, Copy, Debug)]
pub struct CallbackRow {
    /// The name of its slot.
    pub name: &'static str,
    /// The thunk that it calls.
    pub through: &'static str,
    /// What is missing, as a sentence; empty when support is complete.
    pub missing: &'static str,
    /// The rules judged when it is called.
    pub rules: &'static [RuleId],
}

impl FunctionRow {
    /// The level of support.
    pub const fn support(&self) -> Support {
        Support::from_missing(self.missing)
    }
}

impl CallbackRow {
    /// The level of support.
    pub const fn support(&self) -> Support {
        Support::from_missing(self.missing)
    }
}

macro_rules! functions {
    ($($name:literal $missing:literal [$($rule:ident)*];)*) => {
        &[$(FunctionRow { name: $name, missing: $missing, rules: &[$(RuleId::$rule),*] }),*]
    };
}

macro_rules! callbacks {
    ($($name:literal $through:literal $missing:literal [$($rule:ident)*];)*) => {
        &[$(CallbackRow {
            name: $name,
            through: $through,
            missing: $missing,
            rules: &[$(RuleId::$rule),*],
        }),*]
    };
}

/// Every driver function that this runtime calls.
pub const FUNCTIONS: &[FunctionRow] = functions! {
    "OpenAdapter" "Direct3D 9 only, of WDDM 1.3 and 2.0" [];
    "pfnCreateDevice" "passes no command buffer: the driver creates its contexts" [
        UMD_ADAPTER_003 UMD_ADAPTER_005
    ];
    "pfnCloseAdapter" "" [UMD_ADAPTER_001 UMD_ADAPTER_002];
    "pfnDestroyDevice" "" [
        UMD_DESTROY_002 UMD_DESTROY_005 UMD_DESTROY_006 UMD_DESTROY_007 UMD_DESTROY_013
        UMD_LOCK_003 UMD_THREAD_001 UMD_ERR_003
    ];
    "pfnCreateResource" "" [
        UMD_RES_001 UMD_RES_005 UMD_RES_006 UMD_RES_007 UMD_RES_008 UMD_RES_010
    ];
    "pfnCreateResource2" "" [
        UMD_RES_001 UMD_RES_005 UMD_RES_006 UMD_RES_007 UMD_RES_008 UMD_RES_010
    ];
    "pfnOpenResource" "" [UMD_RES_001];
    "pfnDestroyResource" "" [UMD_DESTROY_004 UMD_DESTROY_024 UMD_ERR_004];
    "pfnLock" "whole surfaces only" [UMD_LOCK_001 UMD_LOCK_008 UMD_RES_002];
    "pfnUnlock" "" [UMD_LOCK_002];
    "pfnLockAsync" "whole surfaces only; one thread at a time, as with the others" [UMD_LOCK_010];
    "pfnUnlockAsync" "" [];
    "pfnRename" "" [];
    "pfnBlt" "no stretching, no Flags, no ColorKey" [UMD_RES_002];
    "pfnColorFill" "" [UMD_RES_002];
    "pfnFlush" "" [UMD_SUBMIT_002];
    "pfnSetPriority" "" [];
    "pfnQueryResourceResidency" "" [];
};

/// Every callback that this runtime implements.
pub const CALLBACKS: &[CallbackRow] = callbacks! {
    "pfnQueryAdapterInfoCb" "D3DKMTQueryAdapterInfo" "" [];
    "pfnAllocateCb" "D3DKMTCreateAllocation" "does not wrap the application's memory" [
        UMD_RES_003 UMD_RES_004 UMD_RES_009 UMD_SUBMIT_005
    ];
    "pfnDeallocateCb" "D3DKMTDestroyAllocation2" "" [
        UMD_DESTROY_001 UMD_DESTROY_003 UMD_THREAD_002 UMD_DESTROY_008 UMD_DESTROY_009 UMD_DESTROY_010 UMD_DESTROY_011
        UMD_DESTROY_023
    ];
    "pfnDeallocate2Cb" "D3DKMTDestroyAllocation2" "" [UMD_DESTROY_012];
    "pfnSetPriorityCb" "D3DKMTSetAllocationPriority" "" [];
    "pfnQueryResidencyCb" "D3DKMTQueryAllocationResidency" "" [];
    "pfnRenderCb" "D3DKMTRender" "one context" [
        UMD_ADAPTER_004 UMD_LOCK_005 UMD_SUBMIT_003 UMD_SUBMIT_004
    ];
    "pfnSubmitCommandCb" "D3DKMTSubmitCommand" "" [UMD_ADAPTER_004 UMD_SUBMIT_007];
    "pfnLockCb" "D3DKMTLock" "" [UMD_LOCK_006 UMD_LOCK_007 UMD_RES_004];
    "pfnUnlockCb" "D3DKMTUnlock" "" [UMD_LOCK_004];
    "pfnLock2Cb" "D3DKMTLock2" "" [];
    "pfnUnlock2Cb" "D3DKMTUnlock2" "" [UMD_LOCK_004];
    "pfnEscapeCb" "D3DKMTEscape" "" [];
    "pfnCreateContextCb" "D3DKMTCreateContext" "" [];
    "pfnCreateContextVirtualCb" "D3DKMTCreateContextVirtual" "" [];
    "pfnDestroyContextCb" "D3DKMTDestroyContext" "" [UMD_SUBMIT_006];
    "pfnCreateSynchronizationObjectCb" "D3DKMTCreateSynchronizationObject" "" [];
    "pfnCreateSynchronizationObject2Cb" "D3DKMTCreateSynchronizationObject2" "" [];
    "pfnDestroySynchronizationObjectCb" "D3DKMTDestroySynchronizationObject" "" [];
    "pfnWaitForSynchronizationObjectCb" "D3DKMTWaitForSynchronizationObject" "" [];
    "pfnWaitForSynchronizationObject2Cb" "D3DKMTWaitForSynchronizationObject2" "" [];
    "pfnSignalSynchronizationObjectCb" "D3DKMTSignalSynchronizationObject" "" [];
    "pfnSignalSynchronizationObject2Cb" "D3DKMTSignalSynchronizationObject2" "" [];
    "pfnWaitForSynchronizationObjectFromCpuCb" "D3DKMTWaitForSynchronizationObjectFromCpu" "" [];
    "pfnSignalSynchronizationObjectFromCpuCb" "D3DKMTSignalSynchronizationObjectFromCpu" "" [];
    "pfnWaitForSynchronizationObjectFromGpuCb" "D3DKMTWaitForSynchronizationObjectFromGpu" "" [
        SYNC_CREATE_013
    ];
    "pfnSignalSynchronizationObjectFromGpuCb" "D3DKMTSignalSynchronizationObjectFromGpu" "" [];
    "pfnSignalSynchronizationObjectFromGpu2Cb" "D3DKMTSignalSynchronizationObjectFromGpu2" "" [];
    "pfnMakeResidentCb" "D3DKMTMakeResident" "" [];
    "pfnEvictCb" "D3DKMTEvict" "" [];
    "pfnCreatePagingQueueCb" "D3DKMTCreatePagingQueue" "" [];
    "pfnDestroyPagingQueueCb" "D3DKMTDestroyPagingQueue" "" [];
    "pfnOfferAllocationsCb" "D3DKMTOfferAllocations" "" [];
    "pfnReclaimAllocationsCb" "D3DKMTReclaimAllocations" "" [];
    "pfnReclaimAllocations2Cb" "D3DKMTReclaimAllocations2" "" [];
    "pfnReserveGpuVirtualAddressCb" "D3DKMTReserveGpuVirtualAddress" "" [];
    "pfnMapGpuVirtualAddressCb" "D3DKMTMapGpuVirtualAddress" "" [];
    "pfnFreeGpuVirtualAddressCb" "D3DKMTFreeGpuVirtualAddress" "" [];
    "pfnUpdateGpuVirtualAddressCb" "D3DKMTUpdateGpuVirtualAddress" "" [];
};

#[cfg(test)]
mod tests {
    use super::CALLBACKS;
    use crate::callbacks::{ADAPTER, DEVICE, traps};
    use std::collections::BTreeSet;

    /// Slots that are implemented: filled, and not with a trap.
    #[test]
    fn what_is_served_has_a_line_and_every_line_is_served() {
        let trapped: BTreeSet<&str> =
            traps::DEVICE.filled().chain(traps::ADAPTER.filled()).collect();
        let filled = DEVICE.filled().chain(ADAPTER.filled());
        let served: BTreeSet<&str> = filled.filter(|text| !trapped.contains(text)).collect();
        let lines: BTreeSet<&str> =
            CALLBACKS.iter().map(|callback_row| callback_row.name).collect();
        assert_eq!(served, lines);
        let all = abi::umd::D3DDDI_DEVICECALLBACKS::SLOTS.iter();
        let all: BTreeSet<&str> =
            all.chain(abi::umd::D3DDDI_ADAPTERCALLBACKS::SLOTS).copied().collect();
        assert_eq!(&served | &trapped, all, "a slot is implemented or a trap");
    }
}
