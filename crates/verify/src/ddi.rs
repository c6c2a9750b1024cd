//! The DDIs that rules know by name, and the IRQL each is called at.

use flight::Irql;

/// `DxgkDdiAddDevice`.
pub(crate) const ADD_DEVICE: &str = "DxgkDdiAddDevice";
pub(crate) const BUILD_PAGING_BUFFER: &str = "DxgkDdiBuildPagingBuffer";
/// `DxgkDdiRemoveDevice`.
pub(crate) const REMOVE_DEVICE: &str = "DxgkDdiRemoveDevice";
/// `DxgkDdiStopDevice`.
pub(crate) const STOP_DEVICE: &str = "DxgkDdiStopDevice";
/// `DxgkDdiSetPowerState`.
pub(crate) const SET_POWER: &str = "DxgkDdiSetPowerState";
/// `DxgkDdiNotifySurpriseRemoval`.
pub(crate) const SURPRISE_REMOVAL: &str = "DxgkDdiNotifySurpriseRemoval";
/// `DxgkDdiStopDeviceAndReleasePostDisplayOwnership`.
pub(crate) const RELEASE: &str = "DxgkDdiStopDeviceAndReleasePostDisplayOwnership";
/// `DxgkCbAcquirePostDisplayOwnership`.
pub(crate) const TAKE_DISPLAY: &str = "DxgkCbAcquirePostDisplayOwnership";
/// `DxgkDdiResetDevice`, which may be called at any level.
pub(crate) const RESET_DEVICE: &str = "DxgkDdiResetDevice";
/// `DxgkDdiUnload`.
pub(crate) const UNLOAD: &str = "DxgkDdiUnload";
/// `DxgkDdiCreateDevice`.
pub(crate) const CREATE_DEVICE: &str = "DxgkDdiCreateDevice";
/// `DxgkDdiDestroyDevice`.
pub(crate) const DESTROY_DEVICE: &str = "DxgkDdiDestroyDevice";
/// `DxgkDdiCreateContext`.
pub(crate) const CREATE_CONTEXT: &str = "DxgkDdiCreateContext";
/// `DxgkDdiDestroyContext`.
pub(crate) const DESTROY_CONTEXT: &str = "DxgkDdiDestroyContext";
/// `DxgkDdiCreateAllocation`.
pub(crate) const CREATE_ALLOCATION: &str = "DxgkDdiCreateAllocation";
/// `DxgkDdiDestroyAllocation`.
pub(crate) const DESTROY_ALLOCATION: &str = "DxgkDdiDestroyAllocation";
/// `DxgkDdiOpenAllocation`.
pub(crate) const OPEN_ALLOCATION: &str = "DxgkDdiOpenAllocation";
/// `DxgkDdiCloseAllocation`.
pub(crate) const CLOSE_ALLOCATION: &str = "DxgkDdiCloseAllocation";
/// `DxgkDdiEscape`.
pub(crate) const ESCAPE: &str = "DxgkDdiEscape";
/// `DxgkDdiSubmitCommandVirtual`.
pub(crate) const SUBMIT: &str = "DxgkDdiSubmitCommandVirtual";
/// `DxgkDdiDpcRoutine`.
pub(crate) const DPC: &str = "DxgkDdiDpcRoutine";

/// The DDIs whose calls change what is recorded of an adapter or a client's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownDdi {
    AddDevice,
    BuildPagingBuffer,
    CreateAllocation,
    DpcRoutine,
    ReleaseDisplay,
    RemoveDevice,
    StopDevice,
    Unload,
    /// Any other.
    Other,
}

impl KnownDdi {
    pub(crate) fn of(name: &str) -> Self {
        match name {
            ADD_DEVICE => KnownDdi::AddDevice,
            BUILD_PAGING_BUFFER => KnownDdi::BuildPagingBuffer,
            CREATE_ALLOCATION => KnownDdi::CreateAllocation,
            DPC => KnownDdi::DpcRoutine,
            RELEASE => KnownDdi::ReleaseDisplay,
            REMOVE_DEVICE => KnownDdi::RemoveDevice,
            STOP_DEVICE => KnownDdi::StopDevice,
            UNLOAD => KnownDdi::Unload,
            _ => KnownDdi::Other,
        }
    }
}

/// Every DDI that the kernel calls, except `DxgkDdiResetDevice`. The levels are repeated from the
/// documentation and not taken from the kernel's table, so that an error there is found.
///
/// WINDOWS: documented, except where the page states no level. `DxgkDdiSubmitCommandVirtual` is read
/// as `DxgkDdiSubmitCommand`; `DxgkDdiCreateProcess`, `DxgkDdiDestroyProcess`, the two DDIs of root
/// page tables and the two of the CPU host aperture as their neighbours, at `PASSIVE_LEVEL`.
pub(crate) const LEVELS: &[(&str, Irql)] = &[
    (SUBMIT, Irql::Dispatch),
    ("DxgkDdiSubmitCommand", Irql::Dispatch),
    ("DxgkDdiInterruptRoutine", Irql::Device),
    (DPC, Irql::Dispatch),
    (ADD_DEVICE, Irql::Passive),
    ("DxgkDdiStartDevice", Irql::Passive),
    ("DxgkDdiQueryAdapterInfo", Irql::Passive),
    (STOP_DEVICE, Irql::Passive),
    (SET_POWER, Irql::Passive),
    (SURPRISE_REMOVAL, Irql::Passive),
    (RELEASE, Irql::Passive),
    (REMOVE_DEVICE, Irql::Passive),
    (UNLOAD, Irql::Passive),
    (CREATE_DEVICE, Irql::Passive),
    (DESTROY_DEVICE, Irql::Passive),
    (CREATE_CONTEXT, Irql::Passive),
    (DESTROY_CONTEXT, Irql::Passive),
    ("DxgkDdiCreateProcess", Irql::Passive),
    ("DxgkDdiDestroyProcess", Irql::Passive),
    ("DxgkDdiGetRootPageTableSize", Irql::Passive),
    ("DxgkDdiSetRootPageTable", Irql::Passive),
    ("DxgkDdiMapCpuHostAperture", Irql::Passive),
    ("DxgkDdiUnmapCpuHostAperture", Irql::Passive),
    ("DxgkDdiGetStandardAllocationDriverData", Irql::Passive),
    (CREATE_ALLOCATION, Irql::Passive),
    (DESTROY_ALLOCATION, Irql::Passive),
    ("DxgkDdiDescribeAllocation", Irql::Passive),
    (OPEN_ALLOCATION, Irql::Passive),
    (CLOSE_ALLOCATION, Irql::Passive),
    (ESCAPE, Irql::Passive),
    ("DxgkDdiRender", Irql::Passive),
    ("DxgkDdiPatch", Irql::Passive),
    ("DxgkDdiBuildPagingBuffer", Irql::Passive),
    ("DxgkDdiControlInterrupt", Irql::Passive),
    ("DxgkDdiPreemptCommand", Irql::Dispatch),
    ("DxgkDdiQueryCurrentFence", Irql::Passive),
    ("DxgkDdiCancelCommand", Irql::Passive),
    ("DxgkDdiQueryEngineStatus", Irql::Passive),
    ("DxgkDdiQueryDependentEngineGroup", Irql::Passive),
    ("DxgkDdiResetEngine", Irql::Passive),
    ("DxgkDdiResetFromTimeout", Irql::Passive),
    ("DxgkDdiRestartFromTimeout", Irql::Passive),
    ("DxgkDdiCollectDbgInfo", Irql::Passive),
    ("DxgkDdiQueryChildRelations", Irql::Passive),
    ("DxgkDdiQueryChildStatus", Irql::Passive),
];

/// The level a DDI is documented to be called at; none if it may be called at any level.
pub fn documented_level(name: &str) -> Option<Irql> {
    LEVELS.iter().find(|(ddi, _)| *ddi == name).map(|(_, level)| *level)
}
