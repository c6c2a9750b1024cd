//! The table of all `Ks*` functions: level of support and import address.

use crate::ks::export_entry::MaxIrql;
use crate::ks::traps::{ADDRESSES, TRAPS};
use crate::ks::{
    _KsEdit, KsAcquireControl, KsAcquireDevice, KsAddItemToObjectBag, KsAllocateObjectBag,
    KsCompletePendingRequest, KsCopyObjectBagItems, KsCreateDefaultAllocatorEx,
    KsCreateFilterFactory, KsDeviceRegisterAdapterObject, KsFilterAcquireProcessingMutex,
    KsFilterAttemptProcessing, KsFilterCreatePinFactory, KsFilterFactorySetDeviceClassesState,
    KsFilterGetChildPinCount, KsFilterGetFirstChildPin, KsFilterReleaseProcessingMutex,
    KsFreeObjectBag, KsGetDevice, KsGetFilterFromIrp, KsGetFirstChild, KsGetNextSibling,
    KsGetParent, KsGetPinFromIrp, KsInitializeDriver, KsPinAcquireProcessingMutex,
    KsPinAttemptProcessing, KsPinGetAndGate, KsPinGetFirstCloneStreamPointer,
    KsPinGetLeadingEdgeStreamPointer, KsPinGetParentFilter, KsPinGetReferenceClockInterface,
    KsPinGetTrailingEdgeStreamPointer, KsPinRegisterFrameReturnCallback,
    KsPinReleaseProcessingMutex, KsPinSubmitFrame, KsReleaseControl, KsReleaseDevice,
    KsRemoveItemFromObjectBag, KsStreamPointerAdvance, KsStreamPointerAdvanceOffsets,
    KsStreamPointerAdvanceOffsetsAndUnlock, KsStreamPointerCancelTimeout, KsStreamPointerClone,
    KsStreamPointerDelete, KsStreamPointerGetIrp, KsStreamPointerGetMdl,
    KsStreamPointerGetNextClone, KsStreamPointerLock, KsStreamPointerScheduleTimeout,
    KsStreamPointerSetStatusCode, KsStreamPointerUnlock,
};
use flight::{Irql, RuleId, Support};

/// A row of the table: a function that a minidriver imports by name.
#[derive(Clone, Copy, Debug)]
pub struct KsExport {
    /// The Windows name.
    pub name: &'static str,
    /// The level of support. A missing function is a trap that logs its name.
    pub support: Support,
    /// The highest IRQL at which it may be called; `None` if undocumented.
    pub ceiling: Option<Irql>,
    /// The rules that it judges, besides that on its IRQL.
    pub rules: &'static [RuleId],
    /// The address of a driver's import.
    pub address: *const (),
}

const fn level(ceiling: MaxIrql) -> Option<Irql> {
    match ceiling {
        MaxIrql::Passive => Some(Irql::Passive),
        MaxIrql::Dispatch => Some(Irql::Dispatch),
        MaxIrql::Unjudged => None,
    }
}

macro_rules! functions {
    ($($name:ident $ceiling:ident { $($rule:ident)* } $(missing $missing:literal)?;)*) => {
        const SERVED: &[KsExport] = &[$(KsExport {
            name: stringify!($name),
            support: Support::from_missing(concat!($($missing)?)),
            ceiling: level(MaxIrql::$ceiling),
            rules: &[$(RuleId::$rule),*],
            address: $name as *const (),
        }),*];
    };
}

functions! {
    KsAcquireControl Passive { KS_MUTEX_001 KS_MUTEX_002 KS_MUTEX_003 KS_MUTEX_005 };
    KsAcquireDevice Passive { KS_MUTEX_001 KS_MUTEX_002 KS_MUTEX_005 KS_MUTEX_006 };
    KsAddItemToObjectBag Passive { KS_BAG_001 KS_BAG_003 };
    KsAllocateObjectBag Passive { KS_BAG_006 };
    KsCompletePendingRequest Dispatch { KS_PIN_002 KS_DEV_004 } missing "the status in the request is ignored: it counts as success";
    KsCopyObjectBagItems Passive { KS_BAG_001 };
    KsCreateDefaultAllocatorEx Unjudged { KS_ALLOC_023 } missing "its arguments are judged, then it fails: no allocators as file objects";
    KsCreateFilterFactory Passive { KS_DEV_003 } missing "the name, the security descriptor and the power routines are ignored";
    KsDeviceRegisterAdapterObject Passive { KS_DEV_007 } missing "creates no mappings";
    KsFilterAcquireProcessingMutex Passive { KS_MUTEX_001 KS_MUTEX_002 KS_MUTEX_005 };
    KsFilterAttemptProcessing Dispatch {  } missing "always queues a job; nothing is processed inside the call";
    KsFilterCreatePinFactory Passive { KS_MUTEX_004 };
    KsFilterFactorySetDeviceClassesState Passive {  } missing "device classes are not registered";
    KsFilterGetChildPinCount Passive { KS_MUTEX_004 };
    KsFilterGetFirstChildPin Passive { KS_MUTEX_004 };
    KsFilterReleaseProcessingMutex Passive { KS_MUTEX_005 };
    KsFreeObjectBag Passive { KS_BAG_006 };
    KsGetDevice Passive {  };
    KsGetFilterFromIrp Unjudged {  } missing "requests have no layout; they are identified by address";
    KsGetFirstChild Passive { KS_MUTEX_004 };
    KsGetNextSibling Passive { KS_MUTEX_004 };
    KsGetParent Passive {  } missing "does not check that the mutex is held";
    KsGetPinFromIrp Unjudged {  } missing "requests have no layout; they are identified by address";
    KsInitializeDriver Passive {  } missing "the registry path is empty";
    KsPinAcquireProcessingMutex Passive { KS_MUTEX_001 KS_MUTEX_002 KS_MUTEX_005 };
    KsPinAttemptProcessing Dispatch { KS_PROC_002 KS_PROC_004 } missing "always queues a job; nothing is processed inside the call";
    KsPinGetAndGate Unjudged { KS_PROC_006 } missing "the driver's changes take effect when it returns or attempts processing";
    KsPinGetFirstCloneStreamPointer Dispatch { KS_PIN_004 };
    KsPinGetLeadingEdgeStreamPointer Dispatch { KS_PTR_001 KS_PTR_002 KS_PIN_004 } missing "without a frame, an unlocked pointer is NULL";
    KsPinGetParentFilter Passive { KS_PIN_004 } missing "does not check that the mutex is held";
    KsPinGetReferenceClockInterface Passive {  } missing "there is always a clock; it has the time of the flight";
    KsPinGetTrailingEdgeStreamPointer Dispatch { KS_PTR_010 } missing "without a frame, an unlocked pointer is NULL";
    KsPinRegisterFrameReturnCallback Passive { KS_STATE_008 };
    KsPinReleaseProcessingMutex Passive { KS_MUTEX_005 };
    KsPinSubmitFrame Dispatch { KS_STATE_009 };
    KsReleaseControl Passive { KS_MUTEX_005 };
    KsReleaseDevice Passive { KS_MUTEX_005 };
    KsRemoveItemFromObjectBag Passive { KS_BAG_001 KS_BAG_004 };
    KsStreamPointerAdvance Dispatch { KS_PTR_013 };
    KsStreamPointerAdvanceOffsets Dispatch { KS_PTR_008 KS_PTR_013 };
    KsStreamPointerAdvanceOffsetsAndUnlock Dispatch { KS_PTR_008 KS_PTR_013 };
    KsStreamPointerCancelTimeout Dispatch { KS_PTR_012 };
    KsStreamPointerClone Dispatch { KS_PTR_005 KS_PTR_007 };
    KsStreamPointerDelete Dispatch { KS_PTR_003 KS_PTR_004 };
    KsStreamPointerGetIrp Dispatch { KS_PTR_009 } missing "requests have no layout; each has one frame";
    KsStreamPointerGetMdl Dispatch { KS_PTR_009 } missing "the MDL has no page numbers";
    KsStreamPointerGetNextClone Dispatch { KS_PTR_004 };
    KsStreamPointerLock Dispatch { KS_PTR_001 KS_PTR_002 KS_DEV_007 };
    KsStreamPointerScheduleTimeout Dispatch { KS_PTR_012 };
    KsStreamPointerSetStatusCode Dispatch {  } missing "no effect";
    KsStreamPointerUnlock Dispatch { KS_PTR_013 };
    _KsEdit Passive { KS_BAG_001 KS_BAG_005 KS_FRAMING_005 };
}

const COUNT: usize = SERVED.len() + TRAPS.len();

/// Every function that a minidriver can import: the implemented ones, then the traps by what they
/// require.
pub const FUNCTIONS: &[KsExport] = &{
    let mut all = [SERVED[0]; COUNT];
    let mut at = 0;
    while at < COUNT {
        if at < SERVED.len() {
            all[at] = SERVED[at];
        } else {
            let trap = at - SERVED.len();
            let (name, ceiling, reason) = TRAPS[trap];
            all[at] = KsExport {
                name,
                support: Support::Missing(reason),
                ceiling: level(ceiling),
                rules: &[],
                address: ADDRESSES[trap],
            };
        }
        at += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_is_there_once_and_leads_somewhere() {
        let names: BTreeSet<&str> = FUNCTIONS.iter().map(|ks_export| ks_export.name).collect();
        assert_eq!(names.len(), FUNCTIONS.len());
        assert!(FUNCTIONS.iter().all(|ks_export| !ks_export.address.is_null()));
        assert!(SERVED.is_sorted_by(|a, b| a.name < b.name), "by name");
    }
}
