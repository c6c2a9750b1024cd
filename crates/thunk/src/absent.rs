//! The entry points that Windows has and this library has not, by the reason.
//!
//! Each is exported all the same, so that a client links. A call is an event with its name, and
//! returns `STATUS_NOT_SUPPORTED`; its argument is not read.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::entry::EntryRow;
use crate::session::Session;
use abi::NTSTATUS;
use abi::status::STATUS_NOT_SUPPORTED;
use flight::Passive;
use std::ffi::c_void;

/// Calls the macro `$callback` with all names, each list behind its reason.
#[macro_export]
macro_rules! for_each_absent_entry_point {
    ($callback:ident) => {
        $callback! {
            "nothing is displayed" => [
                D3DKMTPresent, D3DKMTPresentMultiPlaneOverlay, D3DKMTPresentMultiPlaneOverlay2,
                D3DKMTPresentMultiPlaneOverlay3, D3DKMTPresentRedirected, D3DKMTCancelPresents,
                D3DKMTGetPresentHistory, D3DKMTGetPresentQueueEvent,
                D3DKMTGetResourcePresentPrivateDriverData, D3DKMTChangeSurfacePointer,
                D3DKMTGetRuntimeData, D3DKMTGetSharedPrimaryHandle,
                D3DKMTSharedPrimaryLockNotification, D3DKMTSharedPrimaryUnLockNotification,
                D3DKMTSetSyncRefreshCountWaitTarget, D3DKMTGetDWMVerticalBlankEvent,
                D3DKMTWaitForVerticalBlankEvent, D3DKMTWaitForVerticalBlankEvent2,
                D3DKMTGetScanLine, D3DKMTWaitForIdle,
            ],
            "there are no display modes" => [
                D3DKMTAdjustFullscreenGamma, D3DKMTCheckMonitorPowerState,
                D3DKMTGetDisplayModeList, D3DKMTGetMultisampleMethodList,
                D3DKMTGetPostCompositionCaps, D3DKMTInvalidateActiveVidPn,
                D3DKMTPollDisplayChildren, D3DKMTQueryFSEBlock,
                D3DKMTQueryRemoteVidPnSourceFromGdiDisplayName,
                D3DKMTQueryVidPnExclusiveOwnership, D3DKMTReleaseProcessVidPnSourceOwners,
                D3DKMTSetDisplayMode, D3DKMTSetDisplayPrivateDriverFormat, D3DKMTSetFSEBlock,
                D3DKMTSetGammaRamp, D3DKMTSetMonitorColorSpaceTransform,
                D3DKMTSetVidPnSourceOwner2,
            ],
            "there are no overlays" => [
                D3DKMTCheckMultiPlaneOverlaySupport, D3DKMTCheckMultiPlaneOverlaySupport2,
                D3DKMTCheckMultiPlaneOverlaySupport3, D3DKMTCreateOverlay, D3DKMTDestroyOverlay,
                D3DKMTFlipOverlay, D3DKMTGetMultiPlaneOverlayCaps, D3DKMTGetOverlayState,
                D3DKMTUpdateOverlay,
            ],
            "no output is duplicated" => [
                D3DKMTCreateOutputDupl, D3DKMTDestroyOutputDupl, D3DKMTOutputDuplGetFrameInfo,
                D3DKMTOutputDuplGetMetaData, D3DKMTOutputDuplGetPointerShapeData,
                D3DKMTOutputDuplPresent, D3DKMTOutputDuplPresentToHwQueue,
                D3DKMTOutputDuplReleaseFrame,
            ],
            "there are no hardware queues" => [
                D3DKMTCreateHwContext, D3DKMTDestroyHwContext, D3DKMTCreateHwQueue,
                D3DKMTDestroyHwQueue, D3DKMTSubmitCommandToHwQueue,
                D3DKMTSubmitPresentBltToHwQueue, D3DKMTSubmitPresentToHwQueue,
                D3DKMTSubmitSignalSyncObjectsToHwQueue, D3DKMTSubmitWaitForSyncObjectsToHwQueue,
                D3DKMTCreateDoorbell, D3DKMTConnectDoorbell, D3DKMTDestroyDoorbell,
                D3DKMTNotifyWorkSubmission,
            ],
            "a sync file is polled, and is no object of the kernel" => [
                D3DKMTOpenSyncObjectFromSyncFile, D3DKMTWaitSyncFile,
            ],
            "nothing is protected" => [
                D3DKMTCreateProtectedSession, D3DKMTDestroyProtectedSession,
                D3DKMTOpenProtectedSessionFromNtHandle,
                D3DKMTQueryProtectedSessionInfoFromNtHandle, D3DKMTQueryProtectedSessionStatus,
                D3DKMTSetHwProtectionTeardownRecovery, D3DKMTSetVidPnSourceHwProtection,
            ],
            "no workload is tracked" => [
                D3DKMTCreateTrackedWorkload, D3DKMTDestroyTrackedWorkload,
                D3DKMTGetAvailableTrackedWorkloadIndex, D3DKMTGetTrackedWorkloadStatistics,
                D3DKMTResetTrackedWorkloadStatistics, D3DKMTUpdateTrackedWorkload,
            ],
            "no resource is pinned or shared with restrictions" => [
                D3DKMTPinResources, D3DKMTUnpinResources, D3DKMTCheckSharedResourceAccess,
                D3DKMTConfigureSharedResource,
            ],
            "the system does not manage processes" => [
                D3DKMTEnumProcesses, D3DKMTGetProcessDeviceRemovalSupport,
                D3DKMTGetProcessSchedulingPriorityClass,
                D3DKMTSetProcessSchedulingPriorityClass, D3DKMTQueryProcessOfferInfo,
                D3DKMTRegisterVailProcess, D3DKMTTrimProcessCommitment, D3DKMTIsFeatureEnabled,
            ],
            "there is no DxCore" => [D3DKMTCloseDxCoreDevice],
            "there is no GDI" => [
                D3DKMTCreateDCFromMemory, D3DKMTDestroyDCFromMemory,
            ],
        }
    };
}

/// Defines the functions with the Windows names, and `ABSENT_ENTRIES`.
macro_rules! absent_entry_points {
    ($($why:literal => [$($name:ident),+ $(,)?],)+) => {
        $($(
            #[doc = concat!("`", stringify!($name), "`: absent, because ", $why, ".")]
            ///
            /// # Safety
            ///
            /// None: the argument is not read.
            pub unsafe fn $name(
                session: &Session,
                _at: &mut Passive,
                _args: *const c_void,
            ) -> NTSTATUS {
                session.call(stringify!($name), || {
                    session.missing_entry(stringify!($name));
                    Err(STATUS_NOT_SUPPORTED)
                })
            }
        )+)+

        /// Every absent entry point. `missing` says why it is absent.
        pub const ABSENT_ENTRIES: &[EntryRow] = &[$($(
            EntryRow {
                name: stringify!($name),
                missing: $why,
                rules: &[],
                statuses: &[STATUS_NOT_SUPPORTED],
                forwards_errors_of: &[],
                requires: "",
                parameters: "",
                pointer: "*const c_void",
                bytes: 0,
                call: |session: &Session, at: &mut Passive, args: *mut c_void| {
                    // SAFETY: The function does not read its argument.
                    unsafe { $name(session, at, args) }
                },
            },
        )+)+];
    };
}

for_each_absent_entry_point!(absent_entry_points);
