//! Named traps: the `Ks*` functions that are not implemented.
//!
//! A driver that calls a trap gets "not supported", and the log names the function.

use crate::ks::door::Door;
use crate::ks::export_entry::{MaxIrql, export};
use abi::NTSTATUS;
use abi::status::STATUS_NOT_SUPPORTED;
use flight::EventKind;

macro_rules! traps {
    ($($why:literal { $($ceiling:ident $name:ident)* })*) => {
        /// Every trap: its name, its highest IRQL, and why it is missing.
        pub(crate) const TRAPS: &[(&str, MaxIrql, &str)] =
            &[$($((stringify!($name), MaxIrql::$ceiling, $why),)*)*];

        /// The import address of each trap, in the same order.
        pub(crate) const ADDRESSES: &[*const ()] =
            &[$($(missing_export::<{ slot_index(stringify!($name)) }> as *const (),)*)*];
    };
}

traps! {
    "no allocators as file objects" {
        Passive KsCreateAllocator Passive KsCreateAllocator2 Unjudged KsCreateDefaultAllocator
        Unjudged KsValidateAllocatorCreateRequest
        Unjudged KsValidateAllocatorFramingEx
    }
    "no clock objects besides the reference clock" {
        Passive KsAllocateDefaultClock Passive KsAllocateDefaultClockEx Passive KsCreateClock
        Passive KsCreateClock2 Unjudged KsCreateDefaultClock Unjudged KsFreeDefaultClock
        Unjudged KsGetDefaultClockState Unjudged KsGetDefaultClockTime
        Dispatch KsPinSetPinClockTime Unjudged KsSetDefaultClockState
        Unjudged KsSetDefaultClockTime Unjudged KsValidateClockCreateRequest
    }
    "no device and object headers: the class driver keeps them" {
        Passive KsAcquireDeviceSecurityLock Unjudged KsAcquireResetValue Passive KsAddDevice
        Unjudged KsAddObjectCreateItemToDeviceHeader Unjudged KsAddObjectCreateItemToObjectHeader
        Passive KsAllocateDeviceHeader Unjudged KsAllocateObjectCreateItem
        Passive KsAllocateObjectHeader Unjudged KsCreateDefaultSecurity Passive KsCreateDevice
        Unjudged KsFilterFactoryAddCreateItem Unjudged KsFreeDeviceHeader
        Unjudged KsFreeObjectCreateItem Unjudged KsFreeObjectCreateItemsByContext
        Unjudged KsFreeObjectHeader Unjudged KsGetDeviceForDeviceObject Passive KsInitializeDevice
        Unjudged KsNullDriverUnload Unjudged KsQueryDevicePnpObject
        Unjudged KsQueryObjectAccessMask Unjudged KsQueryObjectCreateItem
        Unjudged KsReleaseDeviceSecurityLock Unjudged KsSetDevicePnpAndBaseObject
        Unjudged KsSetMajorFunctionHandler Unjudged KsSetTargetDeviceObject
        Unjudged KsSetTargetState Passive KsTerminateDevice
    }
    "no events" {
        Passive KsAddEvent Passive KsDefaultAddEventHandler Unjudged KsDisableEvent
        Unjudged KsDiscardEvent Unjudged KsEnableEvent Unjudged KsEnableEventWithAllocator
        Unjudged KsFreeEventList Unjudged KsGenerateDataEvent Unjudged KsGenerateEvent
        Unjudged KsGenerateEventList Dispatch KsGenerateEvents Unjudged KsGenerateThermalEvent
    }
    "no other drivers, no power management" {
        Unjudged KsDereferenceBusObject Passive KsDeviceGetBusData Unjudged KsDeviceSetBusData
        Passive KsFilterRegisterPowerCallbacks Passive KsGetOuterUnknown
        Unjudged KsInitializeDeviceProfile Unjudged KsPersistDeviceProfile
        Passive KsPinGetConnectedFilterInterface Unjudged KsPinGetConnectedPinDeviceObject
        Passive KsPinGetConnectedPinInterface Unjudged KsPinGetCopyRelationships
        Passive KsPinHandshake Passive KsPinRegisterHandshakeCallback
        Unjudged KsPinRegisterPowerCallbacks Unjudged KsPublishDeviceProfile
        Unjudged KsReferenceBusObject Passive KsRegisterAggregatedClientUnknown
    }
    "no properties, methods and intersections" {
        Unjudged KsDeviceRegisterThermalDispatch Unjudged KsDispatchFastIoDeviceControlFailure
        Unjudged KsDispatchFastReadFailure Unjudged KsDispatchInvalidDeviceRequest
        Unjudged KsDispatchIrp Unjudged KsDispatchQuerySecurity Unjudged KsDispatchSetSecurity
        Unjudged KsDispatchSpecificMethod Unjudged KsDispatchSpecificProperty
        Unjudged KsFastMethodHandler Unjudged KsFastPropertyHandler
        Unjudged KsHandleSizedListQuery Passive KsMergeAutomationTables Unjudged KsMethodHandler
        Unjudged KsMethodHandlerWithAllocator Unjudged KsPinDataIntersection
        Unjudged KsPinDataIntersectionEx Unjudged KsPinPropertyHandler Unjudged KsPropertyHandler
        Unjudged KsPropertyHandlerWithAllocator Unjudged KsSetPowerDispatch
        Unjudged KsTopologyPropertyHandler Unjudged KsUnserializeObjectPropertiesFromRegistry
    }
    "no topology nodes" {
        Unjudged KsCreateTopologyNode Passive KsCreateTopologyNode2
        Passive KsFilterAddTopologyConnections Passive KsFilterCreateNode
        Unjudged KsGetNodeIdFromIrp Unjudged KsValidateTopologyNodeCreateRequest
    }
    "no work items" {
        Unjudged KsDecrementCountedWorker Unjudged KsIncrementCountedWorker
        Unjudged KsRegisterCountedWorker Unjudged KsRegisterWorker Unjudged KsUnregisterWorker
    }
    "not implemented" {
        Unjudged KsCacheMedium Unjudged KsCreatePin Passive KsCreatePin2
        Passive KsFilterFactoryGetSymbolicLink Unjudged KsFilterFactoryUpdateCacheData
        Unjudged KsFilterGetAndGate Unjudged KsGetImageNameAndResourceId Unjudged KsLoadResource
        Unjudged KsMapModuleName Passive KsPinAttachAndGate Passive KsPinAttachOrGate
        Unjudged KsPinGetAvailableByteCount Unjudged KsProcessPinUpdate
        Passive KsRegisterFilterWithNoKSPins Unjudged KsValidateConnectRequest
    }
    "requests and file objects have no layout here" {
        Unjudged KsAcquireCachedMdl Unjudged KsAddIrpToCancelableQueue Passive KsAllocateExtraData
        Passive KsCancelIo Unjudged KsDefaultDeviceIoCompletion Unjudged KsForwardAndCatchIrp
        Unjudged KsForwardIrp Unjudged KsGetFilterFromFileObject
        Unjudged KsGetObjectFromFileObject Unjudged KsGetObjectTypeFromFileObject
        Unjudged KsGetObjectTypeFromIrp Unjudged KsGetPinFromFileObject
        Unjudged KsMoveIrpsOnCancelableQueue Passive KsPinGetConnectedPinFileObject
        Passive KsPinRegisterIrpCompletionCallback Dispatch KsPinSubmitFrameMdl
        Unjudged KsProbeStreamIrp Unjudged KsQueryInformationFile Unjudged KsQueueWorkItem
        Unjudged KsReadFile Unjudged KsRecalculateStackDepth Unjudged KsReleaseCachedMdl
        Unjudged KsReleaseIrpOnCancelableQueue Unjudged KsRemoveIrpFromCancelableQueue
        Unjudged KsRemoveSpecificIrpFromCancelableQueue Unjudged KsSetInformationFile
        Unjudged KsStreamIo Unjudged KsSynchronousIoControlDevice Unjudged KsWriteFile
    }
}

/// The index of a trap. An unknown name does not compile, because all uses are constant.
const fn slot_index(name: &str) -> usize {
    let mut at = 0;
    while at < TRAPS.len() {
        if same(TRAPS[at].0, name) {
            return at;
        }
        at += 1;
    }
    panic!("unknown trap")
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The body of a trap. It ignores its arguments, because the caller cleans the stack. So its door
/// is the one whose driver runs on this thread.
extern "win64-unwind" fn missing_export<const SLOT: usize>() -> NTSTATUS {
    let (name, ceiling, _) = TRAPS[SLOT];
    let running = Door::running().map(|door| (door, ()));
    export(name, ceiling, running, STATUS_NOT_SUPPORTED, |door, ()| {
        let services = door.services();
        services
            .log()
            .emit(services.device().subject(), || EventKind::EntryMissing { name: name.into() });
        STATUS_NOT_SUPPORTED
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trap_is_found_by_its_whole_name() {
        for (at, (name, ..)) in TRAPS.iter().enumerate() {
            assert_eq!(slot_index(name), at);
        }
        assert_eq!(ADDRESSES.len(), TRAPS.len());
    }

    #[test]
    fn outside_a_driver_it_only_refuses() {
        assert_eq!(missing_export::<0>(), STATUS_NOT_SUPPORTED);
    }
}
