//! The table that a driver gets on start: the implemented callbacks, and a named trap in every
//! other slot.

use crate::callback_entry::{AnyLevel, BelowDevice, CallbackRow};
use crate::traps::{missing_callback, slot_index};
use crate::version::InterfaceVersion;
use abi::HANDLE;
use abi::miniport::DXGKRNL_INTERFACE;
use flight::{DeviceLevel, Dispatch, Passive, RuleId, Support};
use std::marker::PhantomData;

/// A row of the callback table: a slot of `DXGKRNL_INTERFACE`, and its level of support.
#[derive(Clone, Copy, Debug)]
pub struct CallbackSupport {
    /// The Windows name.
    pub name: &'static str,
    /// The level of support. A missing callback is a trap that logs its name.
    pub support: Support,
}

/// Defines the callback table. An implemented row is
///
/// ```text
/// module::WindowsName: Level [Rule] [, from interrupt] [, missing "sentence"];
/// ```
///
/// It defines the row that the function uses (`row::WindowsName`: its name, its level, and the rule
/// that a call at another level breaks), the slot of the interface, which holds the function of
/// that name and module, and the entry in [`CALLBACKS`]. An absent row has only a level, and a trap
/// in its slot.
macro_rules! callbacks {
    (
        served { $(
            $module:ident::$served:ident: $level:ident $($rule:ident)? $(, from $interrupt:ident)?
            $(, missing $missing:literal)?;
        )* }
        absent { $($why:literal { $($absent:ident: $trap_level:ident;)* })* }
    ) => {
        /// The rows of the implemented callbacks, under their Windows names.
        #[expect(non_upper_case_globals, reason = "Windows's names")]
        pub(crate) mod row {
            use super::*;
            $(pub(crate) const $served: CallbackRow<$level> = CallbackRow {
                name: stringify!($served),
                rule: callbacks!(@rule $($rule)?),
                from_interrupt: callbacks!(@interrupt $($interrupt)?),
                level: PhantomData,
            };)*
        }

        /// Every callback of the interface: the implemented ones, then the traps by what they
        /// require.
        pub const CALLBACKS: &[CallbackSupport] = &[
            $(CallbackSupport {
                name: stringify!($served),
                support: Support::from_missing(concat!($($missing)?)),
            },)*
            $($(CallbackSupport { name: stringify!($absent), support: Support::Missing($why) },)*)*
        ];

        /// The interface for the door with this handle. Slots that the version does not have are
        /// empty.
        ///
        /// WINDOWS: `Size` is exactly that of the driver's version: `displib` copies that many
        /// bytes (observed).
        pub(crate) fn interface(handle: HANDLE, version: InterfaceVersion) -> DXGKRNL_INTERFACE {
            let whole = DXGKRNL_INTERFACE {
                Size: u32::try_from(version.interface_length()).unwrap_or(0),
                Version: version.number(),
                DeviceHandle: handle,
                $($served: Some(crate::$module::$served),)*
                $($($absent: Some(missing_callback::<{ slot_index(stringify!($absent)) }, $trap_level>),)*)*
            };
            whole.up_to(version.number())
        }
    };

    (@rule) => { None };
    (@rule $rule:ident) => { Some(RuleId::$rule) };

    (@interrupt) => { false };
    (@interrupt interrupt) => { true };
}

callbacks! {
    served {
        interrupt::DxgkCbQueueDpc: AnyLevel, from interrupt;
        interrupt::DxgkCbSynchronizeExecution: BelowDevice KMD_ISR_013,
            missing "one interrupt line, no messages";
        callbacks::DxgkCbGetHandleData: Passive CB_IRQL_001,
            missing "returns NULL from WDDM 2.0 on, as observed";
        interrupt::DxgkCbNotifyInterrupt: DeviceLevel KMD_ISR_005, from interrupt,
            missing "completion, preemption, fault and vsync interrupts only";
        interrupt::DxgkCbNotifyDpc: Dispatch KMD_ISR_011;
        callbacks::DxgkCbAcquireHandleData: Passive CB_IRQL_001,
            missing "the type of the handle is not checked";
        callbacks::DxgkCbReleaseHandleData: Passive CB_IRQL_001;
        context_allocation::DxgkCbCreateContextAllocation: Passive CB_CTXALLOC_001,
            missing "MapGpuVirtualAddress, HintedBank and PhysicalAdapterIndex are ignored";
        context_allocation::DxgkCbDestroyContextAllocation: Passive CB_CTXALLOC_011;
        context_allocation::DxgkCbUpdateContextAllocation: Passive CB_IRQL_001;
        context_allocation::DxgkCbMapContextAllocation: Passive CB_IRQL_001,
            missing "returns a physical address for any range";
        reserve_range::DxgkCbReserveGpuVirtualAddressRange: Passive CB_IRQL_001,
            missing "the driver's own page tables for the range are not checked";
        handle_query::DxgkCbGetHandleParent: Passive CB_HANDLE_008;
        handle_query::DxgkCbEnumHandleChildren: Passive CB_HANDLE_009;
        handle_query::DxgkCbGetCaptureAddress: Passive CB_MEM_010,
            missing "no address for an allocation that is in no segment";
        device_memory::DxgkCbGetDeviceInformation: Passive CB_MEM_003,
            missing "the context, the device object and one memory range; all else is zero";
        device_memory::DxgkCbMapMemory: Passive CB_MEM_001,
            missing "every mapping is cached; MapToUserMode is ignored";
        device_memory::DxgkCbUnmapMemory: Passive CB_IRQL_001;
        device_memory::DxgkCbReadDeviceSpace: Passive CB_MEM_004,
            missing "spaces other than the configuration space are empty";
        device_memory::DxgkCbWriteDeviceSpace: Passive CB_MEM_004,
            missing "writes have no effect";
        device_memory::DxgkCbIndicateChildStatus: BelowDevice CB_MEM_007,
            missing "no effect: no display output";
        device_memory::DxgkCbExcludeAdapterAccess: Passive CB_IRQL_001,
            missing "checks its arguments, then fails: access is never excluded";
        post_display::DxgkCbAcquirePostDisplayOwnership: Passive CB_IRQL_001,
            missing "one display, 1024 by 768; nothing is displayed";
    }
    // The level is the one documented on the page of the callback, if any.
    absent {
        "no hardware besides the adapter's, and no ACPI" {
            DxgkCbEvalAcpiMethod: Passive;
            DxgkCbIsDevicePresent: Passive;
        }
        "no other drivers to ask" { DxgkCbQueryServices: Passive; }
        "no display output" {
            DxgkCbQueryVidPnInterface: Passive;
            DxgkCbQueryMonitorInterface: Passive;
            DxgkCbMultiPlaneOverlayDisabled: Passive;
            DxgkCbIndicateConnectorChange: AnyLevel;
            DxgkCbAcquirePostDisplayOwnership2: AnyLevel;
            DxgkCbNotifyCursorSupportChange: Passive;
        }
        "no frame buffer of the firmware's" {
            DxgkCbUnblockUEFIFrameBufferRanges: AnyLevel;
            DxgkCbPinFrameBufferForSave: Passive;
            DxgkCbPinFrameBufferForSave2: Passive;
            DxgkCbUnpinFrameBufferForSave: Passive;
            DxgkCbMapFrameBufferPointer: Passive;
            DxgkCbUnmapFrameBufferPointer: Passive;
        }
        "no hardware queues" {
            DxgkCbInvalidateHwContext: Passive;
            DxgkCbDisconnectDoorbell: Passive;
        }
        "no IOMMU" {
            DxgkCbAllocateContiguousMemory: Passive;
            DxgkCbFreeContiguousMemory: Passive;
            DxgkCbAllocatePagesForMdl: Passive;
            DxgkCbFreePagesFromMdl: Passive;
            DxgkCbMapMdlToIoMmu: Passive;
            DxgkCbUnmapMdlFromIoMmu: Passive;
            DxgkCbCreatePhysicalMemoryObject: Passive;
            DxgkCbDestroyPhysicalMemoryObject: Passive;
            DxgkCbMapPhysicalMemory: Passive;
            DxgkCbUnmapPhysicalMemory: Passive;
            DxgkCbAllocateAdl: Passive;
            DxgkCbFreeAdl: Passive;
            DxgkCbOpenPhysicalMemoryObject: Passive;
            DxgkCbClosePhysicalMemoryObject: Passive;
        }
        "no virtual machines" { DxgkCbMitigatedRangeUpdate: AnyLevel; }
        "no diagnostics of the driver's" { DxgkCbReportDiagnostic: AnyLevel; }
        "no events of a CPU" { DxgkCbSignalEvent: BelowDevice; }
        "no optional features" {
            DxgkCbIsFeatureEnabled: Passive;
            DxgkCbQueryFeatureSupport: AnyLevel;
        }
        "no update of a running driver" { DxgkCbSaveMemoryForHotUpdate: Passive; }
        "no ETW" { DxgkCbLogEtwEvent: AnyLevel; }
        "no power management" {
            DxgkCbSetPowerComponentActive: Passive;
            DxgkCbSetPowerComponentIdle: AnyLevel;
            DxgkCbPowerRuntimeControlRequest: BelowDevice;
            DxgkCbSetPowerComponentLatency: BelowDevice;
            DxgkCbSetPowerComponentResidency: BelowDevice;
            DxgkCbCompleteFStateTransition: BelowDevice;
            DxgkCbCompletePStateTransition: AnyLevel;
        }
        "no content protection" {
            DxgkCbHardwareContentProtectionTeardown: BelowDevice;
            DxgkCbSetProtectedSessionStatus: Passive;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn it_has_the_length_of_its_version_and_no_empty_slot() {
        let handle = ptr::without_provenance_mut(5);
        for (version, size) in [(0x300E, 0x100), (0x5023, 0x138), (0xB004, 0x1e0), (0x10004, 0x240)]
        {
            let it = interface(handle, InterfaceVersion::new(version).unwrap());
            assert_eq!((it.Size, it.Version, it.DeviceHandle), (size, version, handle));
            let count = (size as usize - 16) / 8;
            assert!(it.filled().eq(DXGKRNL_INTERFACE::SLOTS.iter().copied().take(count)));
        }
    }

    #[test]
    fn every_slot_has_its_line() {
        let mut names: Vec<_> =
            CALLBACKS.iter().map(|callback_support| callback_support.name).collect();
        let mut slots = DXGKRNL_INTERFACE::SLOTS.to_vec();
        names.sort_unstable();
        slots.sort_unstable();
        assert_eq!(names, slots);
    }
}
