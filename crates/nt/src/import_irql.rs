//! The IRQLs at which each import may be called.
//!
//! The levels are those of the function's page on Microsoft Learn: its entry "IRQL", and its remarks
//! where the entry refers to them. Every import that is a function has one row. A function whose page
//! states no level, or that has no page, is `NotStated` and is not judged; nor is one with `Any`.
//!
//! Some limits depend on an argument; `CONDITIONS` describes them, and the function judges them.
//! Memory that must be resident above `APC_LEVEL` is judged where it is touched (`paged.rs`).

use crate::ke_irql::{APC_LEVEL, DISPATCH_LEVEL, KIRQL, PASSIVE_LEVEL};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The highest IRQL of a device interrupt on x64.
const HIGHEST_DEVICE_LEVEL: KIRQL = 12;
/// `HIGH_LEVEL` on x64.
const HIGH_LEVEL: KIRQL = 15;

/// The IRQLs that a page allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllowedIrql {
    /// `PASSIVE_LEVEL` only.
    Passive,
    /// `APC_LEVEL` or below.
    Apc,
    /// `APC_LEVEL` only.
    AtApc,
    /// `DISPATCH_LEVEL` or below.
    Dispatch,
    /// The level of a device interrupt or below.
    Device,
    /// `DISPATCH_LEVEL` or above.
    FromDispatch,
    /// `DISPATCH_LEVEL` only.
    AtDispatch,
    /// Any level.
    Any,
    /// The page states no level, or there is no page.
    NotStated,
}

impl AllowedIrql {
    /// The lowest and the highest level.
    const fn limits(self) -> (KIRQL, KIRQL) {
        match self {
            Self::Passive => (PASSIVE_LEVEL, PASSIVE_LEVEL),
            Self::Apc => (PASSIVE_LEVEL, APC_LEVEL),
            Self::AtApc => (APC_LEVEL, APC_LEVEL),
            Self::Dispatch => (PASSIVE_LEVEL, DISPATCH_LEVEL),
            Self::Device => (PASSIVE_LEVEL, HIGHEST_DEVICE_LEVEL),
            Self::FromDispatch => (DISPATCH_LEVEL, HIGH_LEVEL),
            Self::AtDispatch => (DISPATCH_LEVEL, DISPATCH_LEVEL),
            Self::Any | Self::NotStated => (PASSIVE_LEVEL, HIGH_LEVEL),
        }
    }

    /// The levels as the support page shows them.
    const fn text(self) -> &'static str {
        match self {
            Self::Passive => "= PASSIVE_LEVEL",
            Self::Apc => "<= APC_LEVEL",
            Self::AtApc => "= APC_LEVEL",
            Self::Dispatch => "<= DISPATCH_LEVEL",
            Self::Device => "<= DIRQL",
            Self::FromDispatch => ">= DISPATCH_LEVEL",
            Self::AtDispatch => "= DISPATCH_LEVEL",
            Self::Any => "any",
            Self::NotStated => "not stated",
        }
    }

    /// The levels in a finding.
    const fn requirement(self) -> &'static str {
        match self {
            Self::Passive => "may be called at PASSIVE_LEVEL only",
            Self::Apc => "may be called at APC_LEVEL at most",
            Self::AtApc => "needs APC_LEVEL",
            Self::Dispatch => "may be called at DISPATCH_LEVEL at most",
            Self::Device => "may be called at DIRQL at most",
            Self::FromDispatch => "needs DISPATCH_LEVEL or above",
            Self::AtDispatch => "needs DISPATCH_LEVEL",
            Self::Any | Self::NotStated => "may be called at any level",
        }
    }
}

/// A row of the table: an import and the IRQLs of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportIrql {
    /// The Windows name of the import.
    pub name: &'static str,
    allowed: AllowedIrql,
}

impl ImportIrql {
    /// The lowest and the highest IRQL of a call.
    pub(crate) fn limits(&self) -> (KIRQL, KIRQL) {
        self.allowed.limits()
    }

    /// Whether a call at some IRQL is not allowed.
    pub(crate) fn is_judged(&self) -> bool {
        self.limits() != (PASSIVE_LEVEL, HIGH_LEVEL)
    }

    /// Whether a call at this IRQL is allowed.
    pub(crate) fn allows(&self, at: KIRQL) -> bool {
        let (lowest, highest) = self.limits();
        (lowest..=highest).contains(&at)
    }

    /// The sentence on a call at this IRQL, which is not allowed.
    pub(crate) fn breach(&self, at: KIRQL) -> String {
        let (name, at, needs) = (self.name, irql_name(at), self.allowed.requirement());
        format!("{name} was called at {at}, but {needs}")
    }

    /// The levels as the support page shows them, with the limits that depend on an argument.
    pub fn text(&self) -> Vec<&'static str> {
        let conditions = CONDITIONS.iter().filter(|(name, _)| *name == self.name);
        std::iter::once(self.allowed.text()).chain(conditions.map(|(_, text)| *text)).collect()
    }
}

/// The name of an IRQL on x64.
pub(crate) fn irql_name(irql: KIRQL) -> &'static str {
    match irql {
        PASSIVE_LEVEL => "PASSIVE_LEVEL",
        APC_LEVEL => "APC_LEVEL",
        DISPATCH_LEVEL => "DISPATCH_LEVEL",
        3..=HIGHEST_DEVICE_LEVEL => "DIRQL",
        13 => "CLOCK_LEVEL",
        14 => "IPI_LEVEL",
        15.. => "HIGH_LEVEL",
    }
}

/// The row of an import.
pub fn irql_of(import: &str) -> Option<&'static ImportIrql> {
    static BY_NAME: OnceLock<HashMap<&str, &ImportIrql>> = OnceLock::new();
    let by_name = || ROWS.iter().map(|row| (row.name, row)).collect();
    BY_NAME.get_or_init(by_name).get(import).copied()
}

macro_rules! rows {
    ($($allowed:ident { $($name:ident)* })*) => {
        &[$($(ImportIrql { name: stringify!($name), allowed: AllowedIrql::$allowed },)*)*]
    };
}

static ROWS: &[ImportIrql] = rows! {
    Passive {
        DxgkInitialize DxgkInitializeDisplayOnlyDriver EtwRegister EtwSetInformation
        EtwUnregister ExIsProcessorFeaturePresent ExRaiseAccessViolation
        ExRaiseDatatypeMisalignment ExUuidCreate IoCreateNotificationEvent
        IoCreateSymbolicLink IoCreateSynchronizationEvent IoDeleteSymbolicLink
        IoDetachDevice IoGetDeviceInterfaces IoGetDeviceObjectPointer IoGetDeviceProperty
        IoInitializeRemoveLockEx IoOpenDeviceInterfaceRegistryKey IoOpenDeviceRegistryKey
        IoRegisterDeviceInterface IoReleaseRemoveLockAndWaitEx IoSetDeviceInterfaceState
        IoWMIRegistrationControl KeFlushQueuedDpcs KeSetBasePriorityThread
        KeSetPriorityThread MmGetSystemRoutineAddress ObCloseHandle
        ObReferenceObjectByHandle ObReferenceObjectByHandleWithTag PsCreateSystemThread
        PsGetVersion PsTerminateSystemThread RtlAnsiStringToUnicodeString
        RtlCheckRegistryKey RtlCompareString RtlCompareUnicodeString RtlCreateRegistryKey
        RtlCreateSecurityDescriptor RtlDeleteRegistryValue RtlDowncaseUnicodeChar
        RtlEqualString RtlEqualUnicodeString RtlGetVersion RtlGUIDFromString
        RtlInt64ToUnicodeString RtlIntegerToUnicodeString RtlPrefixUnicodeString
        RtlQueryRegistryValues RtlStringFromGUID RtlUnicodeStringToAnsiString
        RtlUnicodeStringToInteger RtlUpcaseUnicodeString RtlWriteRegistryValue ZwClose
        ZwCreateFile ZwCreateKey ZwDeleteKey ZwDeleteValueKey ZwEnumerateKey
        ZwEnumerateValueKey ZwFlushKey ZwLoadDriver ZwOpenFile ZwOpenKey ZwOpenKeyEx
        ZwQueryInformationFile ZwQueryKey ZwQueryValueKey ZwReadFile ZwSetInformationFile
        ZwSetValueKey ZwUnloadDriver ZwWriteFile
    }
    Apc {
        ExAcquireFastMutex ExAcquireFastMutexUnsafe ExAcquireResourceExclusiveLite
        ExAcquireResourceSharedLite ExAcquireSharedStarveExclusive
        ExAcquireSharedWaitForExclusive ExDeletePagedLookasideList ExDeleteResourceLite
        ExEnterCriticalRegionAndAcquireResourceExclusive
        ExEnterCriticalRegionAndAcquireResourceShared ExInitializePagedLookasideList
        ExRaiseStatus ExReleaseFastMutexUnsafe ExSetTimerResolution ExTryToAcquireFastMutex
        ExWaitForRundownProtectionRelease IoBuildDeviceIoControlRequest
        IoBuildSynchronousFsdRequest IoCreateDevice IoDeleteDevice IoGetDevicePropertyData
        KeAcquireGuardedMutex KeAcquireGuardedMutexUnsafe KeDelayExecutionThread
        KeEnterCriticalRegion KeEnterGuardedRegion KeExpandKernelStackAndCallout
        KeLeaveCriticalRegion KeLeaveGuardedRegion KeReleaseGuardedMutex
        KeReleaseGuardedMutexUnsafe KeTryToAcquireGuardedMutex MmAllocateNonCachedMemory
        MmFreeNonCachedMemory MmLockPagableDataSection MmPageEntireDriver
        MmResetDriverPaging MmUnlockPagableImageSection ObOpenObjectByPointer ProbeForRead
        ProbeForWrite RtlFreeAnsiString RtlFreeUnicodeString RtlLengthSid
        RtlUpcaseUnicodeChar RtlUpperChar
    }
    AtApc {
        ExReleaseFastMutex
    }
    Dispatch {
        ExAcquireRundownProtection ExAcquireRundownProtectionEx ExAcquireSpinLockExclusive
        ExAcquireSpinLockShared ExAllocatePool ExAllocatePool2 ExAllocatePool3
        ExAllocatePoolWithQuotaTag ExAllocatePoolWithTag ExAllocatePoolWithTagPriority
        ExAllocatePoolZero ExAllocateTimer ExCancelTimer ExConvertExclusiveToSharedLite
        ExDeleteLookasideListEx ExDeleteNPagedLookasideList ExDeleteTimer
        ExFlushLookasideListEx ExFreePool ExFreePoolWithTag ExGetPreviousMode
        ExInitializeLookasideListEx ExInitializeNPagedLookasideList ExInitializeResourceLite
        ExIsResourceAcquiredExclusiveLite ExIsResourceAcquiredSharedLite ExQueueWorkItem
        ExReinitializeResourceLite ExReleaseResourceAndLeaveCriticalRegion
        ExReleaseResourceForThreadLite ExReleaseResourceLite ExReleaseRundownProtection
        ExReleaseRundownProtectionEx ExSetTimer IoAcquireRemoveLockEx IoAllocateIrp
        IoAllocateMdl IoAllocateWorkItem IoAttachDeviceToDeviceStack IoBuildPartialMdl
        IofCallDriver IofCompleteRequest IoFreeIrp IoFreeMdl IoFreeWorkItem
        IoGetAttachedDeviceReference IoGetRelatedDeviceObject IoInitializeIrp
        IoInitializeWorkItem IoInvalidateDeviceRelations IoQueueWorkItem IoQueueWorkItemEx
        IoReleaseRemoveLockEx IoReuseIrp IoUninitializeWorkItem
        KeAcquireInStackQueuedSpinLock KeAcquireSpinLockRaiseToDpc KeAreAllApcsDisabled
        KeAreApcsDisabled KeCancelTimer KeClearEvent KeExpandKernelStackAndCalloutEx
        KeInitializeTimer KeInitializeTimerEx KeReadStateMutex KeReadStateTimer
        KeReleaseMutex KeReleaseSemaphore KeResetEvent KeRestoreExtendedProcessorState
        KeRestoreFloatingPointState KeRevertToUserAffinityThread
        KeRevertToUserAffinityThreadEx KeRevertToUserGroupAffinityThread
        KeSaveExtendedProcessorState KeSaveFloatingPointState KeSetCoalescableTimer
        KeSetEvent KeSetSystemAffinityThread KeSetSystemAffinityThreadEx
        KeSetSystemGroupAffinityThread KeSetTimer KeSetTimerEx KeWaitForMultipleObjects
        KeWaitForMutexObject KeWaitForSingleObject MmAllocateContiguousMemory
        MmAllocateContiguousMemorySpecifyCache MmAllocateContiguousNodeMemory
        MmAllocatePagesForMdl MmAllocatePagesForMdlEx MmBuildMdlForNonPagedPool
        MmFreeContiguousMemory MmFreeContiguousMemorySpecifyCache MmFreePagesFromMdl
        MmIsAddressValid MmMapIoSpace MmMapIoSpaceEx MmMapLockedPages
        MmMapLockedPagesSpecifyCache MmProbeAndLockPages MmProtectMdlSystemAddress
        MmUnlockPages MmUnmapIoSpace MmUnmapLockedPages ObDereferenceObjectDeferDelete
        ObDereferenceObjectDeferDeleteWithTag ObfDereferenceObject
        ObfDereferenceObjectWithTag ObfReferenceObject ObfReferenceObjectWithTag
        ObReferenceObjectByPointer ObReferenceObjectByPointerWithTag PoCallDriver
        PoSetPowerState PoStartNextPowerIrp
    }
    Device {
        DbgPrint DbgPrintEx vDbgPrintEx vDbgPrintExWithPrefix
    }
    FromDispatch {
        ExAcquireSpinLockExclusiveAtDpcLevel ExAcquireSpinLockSharedAtDpcLevel
        ExReleaseSpinLockExclusiveFromDpcLevel ExReleaseSpinLockSharedFromDpcLevel
        ExTryAcquireSpinLockExclusiveAtDpcLevel KeAcquireInStackQueuedSpinLockAtDpcLevel
        KeAcquireSpinLockAtDpcLevel KeReleaseSpinLockFromDpcLevel
        KeTryToAcquireSpinLockAtDpcLevel
    }
    AtDispatch {
        ExReleaseSpinLockExclusive ExReleaseSpinLockShared KeReleaseInStackQueuedSpinLock
        KeReleaseSpinLock
    }
    Any {
        EtwActivityIdControl EtwEventEnabled EtwProviderEnabled EtwWrite EtwWriteEx
        EtwWriteString EtwWriteTransfer ExInitializeRundownProtection
        ExInterlockedAddLargeInteger ExInterlockedAddUlong ExInterlockedInsertHeadList
        ExInterlockedInsertTailList ExInterlockedPopEntryList ExInterlockedPushEntryList
        ExInterlockedRemoveHeadList ExLocalTimeToSystemTime ExQueryTimerResolution
        ExReInitializeRundownProtection ExRundownCompleted ExSystemTimeToLocalTime
        InitializeSListHeader IoIsWdmVersionAvailable IoSizeofWorkItem KeBugCheck
        KeBugCheckEx KeDeregisterBugCheckCallback KeDeregisterBugCheckReasonCallback
        KeGetCurrentIrql KeGetCurrentNodeNumber KeGetCurrentProcessorNumber
        KeGetCurrentProcessorNumberEx KeInitializeDpc KeInitializeEvent KeInitializeMutex
        KeInitializeSemaphore KeInitializeSpinLock KeInitializeThreadedDpc KeInsertQueueDpc
        KeLowerIrql KeQueryInterruptTime KeQueryInterruptTimePrecise
        KeQueryPerformanceCounter KeQuerySystemTime KeQuerySystemTimePrecise
        KeQueryTickCount KeQueryTimeIncrement KeQueryUnbiasedInterruptTime
        KeQueryUnbiasedInterruptTimePrecise KeRaiseIrqlToDpcLevel KeReadStateEvent
        KeReadStateSemaphore KeRegisterBugCheckCallback KeRegisterBugCheckReasonCallback
        KeRemoveQueueDpc KeSetImportanceDpc KeSetTargetProcessorDpc
        KeSetTargetProcessorDpcEx KeStallExecutionProcessor KfLowerIrql KfRaiseIrql memcpy
        memmove memset MmGetPhysicalAddress MmSizeOfMdl RtlAppendUnicodeStringToString
        RtlAppendUnicodeToString RtlAreBitsClear RtlAreBitsSet RtlClearAllBits RtlClearBit
        RtlClearBits RtlCompareMemory RtlCopyString RtlCopyUnicodeString RtlFindClearBits
        RtlFindClearBitsAndSet RtlFindSetBits RtlFindSetBitsAndClear RtlInitializeBitMap
        RtlNumberOfClearBits RtlNumberOfSetBits RtlSetAllBits RtlSetBit RtlSetBits
        RtlTestBit RtlTimeFieldsToTime RtlTimeToTimeFields WmiTraceMessage WmiTraceMessageVa
    }
    NotStated {
        __C_specific_handler __chkstk _snprintf _snwprintf _stricmp _strnicmp _vsnprintf
        _vsnwprintf _wcsicmp _wcsnicmp atoi DbgBreakPoint DbgBreakPointWithStatus DbgPrompt
        DxgkUnInitialize ExEnterCriticalRegionAndAcquireFastMutexUnsafe
        ExpInterlockedFlushSList ExpInterlockedPopEntrySList ExpInterlockedPushEntrySList
        ExQueryDepthSList ExReleaseFastMutexUnsafeAndLeaveCriticalRegion
        ExTryConvertSharedSpinLockExclusive IoGetAttachedDevice IoGetCurrentProcess
        KdRefreshDebuggerNotPresent KeAcquireInStackQueuedSpinLockForDpc
        KeAcquireSpinLockForDpc KeGetCurrentThread KeGetProcessorIndexFromNumber
        KeGetProcessorNumberFromIndex KeInitializeGuardedMutex KeQueryActiveGroupCount
        KeQueryActiveProcessorCount KeQueryActiveProcessorCountEx KeQueryActiveProcessors
        KeQueryGroupAffinity KeQueryHighestNodeNumber KeQueryMaximumGroupCount
        KeQueryMaximumProcessorCount KeQueryMaximumProcessorCountEx KeQueryPriorityThread
        KeReleaseInStackQueuedSpinLockForDpc KeReleaseInStackQueuedSpinLockFromDpcLevel
        KeReleaseSpinLockForDpc KeTestSpinLock memchr memcmp PsGetCurrentProcess
        PsGetCurrentProcessId PsGetCurrentThread PsGetCurrentThreadId PsGetThreadId
        PsIsSystemThread RtlAbsoluteToSelfRelativeSD RtlAddAccessAllowedAce
        RtlAnsiCharToUnicodeChar RtlAssert RtlCreateAcl RtlGetDaclSecurityDescriptor
        RtlGetGroupSecurityDescriptor RtlGetOwnerSecurityDescriptor
        RtlGetSaclSecurityDescriptor RtlInitAnsiString RtlInitString RtlInitUnicodeString
        RtlLengthSecurityDescriptor RtlRaiseException RtlSetDaclSecurityDescriptor
        RtlUnwindEx SeCaptureSecurityDescriptor sprintf sprintf_s strcat strcat_s strchr
        strcmp strcpy strcpy_s strlen strncmp strncpy strncpy_s strnlen strrchr strstr
        swprintf swprintf_s tolower toupper towlower towupper vsprintf vsprintf_s
        vswprintf_s wcscat wcscat_s wcschr wcscmp wcscpy wcscpy_s wcslen wcsncmp wcsncpy
        wcsncpy_s wcsnlen wcsrchr wcsstr WmiQueryTraceInformation
    }
};

/// The limits that depend on an argument.
const CONDITIONS: &[(&str, &str)] = &[
    ("DbgPrint", "= PASSIVE_LEVEL with a Unicode format"),
    ("DbgPrintEx", "= PASSIVE_LEVEL with a Unicode format"),
    ("EtwActivityIdControl", "<= APC_LEVEL unless it creates an identifier"),
    ("ExAllocatePool", "<= APC_LEVEL for paged pool"),
    ("ExAllocatePool2", "<= APC_LEVEL for paged pool"),
    ("ExAllocatePool3", "<= APC_LEVEL for paged pool"),
    ("ExAllocatePoolWithQuotaTag", "<= APC_LEVEL for paged pool"),
    ("ExAllocatePoolWithTag", "<= APC_LEVEL for paged pool"),
    ("ExAllocatePoolWithTagPriority", "<= APC_LEVEL for paged pool"),
    ("ExAllocatePoolZero", "<= APC_LEVEL for paged pool"),
    ("ExDeleteTimer", "<= APC_LEVEL with Wait"),
    ("KeWaitForMultipleObjects", "<= APC_LEVEL unless the time-out is zero"),
    ("KeWaitForMutexObject", "<= APC_LEVEL unless the time-out is zero"),
    ("KeWaitForSingleObject", "<= APC_LEVEL unless the time-out is zero"),
    ("vDbgPrintEx", "= PASSIVE_LEVEL with a Unicode format"),
    ("vDbgPrintExWithPrefix", "= PASSIVE_LEVEL with a Unicode format"),
];

#[cfg(test)]
#[path = "import_irql_tests.rs"]
mod tests;
