//! What a scenario needs of a driver and its adapter. A scenario is not flown on a driver that lacks
//! some of it.

use crate::private_data::{DataUse, PrivateData};
use kernel::miniport::{DriverKind, Generation};

/// The entry point of devices: a display-only driver does not have it.
const CREATE_DEVICE: &str = "DxgkDdiCreateDevice";

/// The entry point of a user-mode driver.
pub(crate) const OPEN_ADAPTER: &str = "OpenAdapter";

/// What a scenario needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    entries: &'static [&'static str],
    paging_queues: bool,
    devices: bool,
    nodes: u32,
    private_data: Option<DataUse>,
}

impl Needs {
    /// Nothing but devices, which nearly every client creates.
    pub const NONE: Self = Self::entries(&[]);

    /// Entry points of the driver.
    pub const fn entries(entries: &'static [&'static str]) -> Self {
        Self { entries, paging_queues: false, devices: true, nodes: 0, private_data: None }
    }

    /// And paging queues, as `D3DKMTMakeResident` does: a driver of WDDM 1.x has none.
    #[must_use]
    pub const fn paging_queues(mut self) -> Self {
        self.paging_queues = true;
        self
    }

    /// And this number of GPU nodes.
    #[must_use]
    pub const fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = nodes;
        self
    }

    /// And private data in the format of the driver.
    #[must_use]
    pub const fn private_data(mut self, purpose: DataUse) -> Self {
        self.private_data = Some(purpose);
        self
    }

    /// But no device.
    #[must_use]
    pub const fn without_devices(mut self) -> Self {
        self.devices = false;
        self
    }

    /// Whether it needs this entry point.
    pub fn has_entry(&self, name: &str) -> bool {
        self.entries.contains(&name)
    }

    /// What a driver does not have, as far as it is known before the driver starts.
    pub fn missing(
        &self,
        offered: &[&'static str],
        (kind, generation): (DriverKind, Generation),
        data: PrivateData,
    ) -> Vec<String> {
        let implements = |name: &str| format!("a driver that implements {name}");
        if self.devices && kind == DriverKind::DisplayOnly {
            return vec![implements(CREATE_DEVICE)]; // Nothing of the rest is called without a device.
        }
        let absent = self.entries.iter().copied().filter(|name| !offered.contains(name));
        let mut missing: Vec<String> = absent.map(implements).collect();
        if self.paging_queues && generation != Generation::Two {
            missing.push("a driver of WDDM 2.0 or later, which has paging queues".to_owned());
        }
        // One reason is enough: the data of a call that the driver does not have is not needed.
        if missing.is_empty() && data == PrivateData::None {
            missing.extend(self.private_data.map(DataUse::need));
        }
        missing
    }

    /// The GPU nodes that a started adapter does not have.
    pub(crate) fn missing_nodes(&self, nodes: u32) -> Option<String> {
        let plural = if nodes == 1 { "" } else { "s" };
        (nodes < self.nodes).then(|| {
            format!(
                "an adapter with {} GPU nodes; this adapter has {nodes} node{plural}",
                self.nodes
            )
        })
    }

    /// Each need in a few words, for lists.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.entries.iter().map(|name| (*name).to_owned()).collect();
        names.extend(self.paging_queues.then(|| "paging queues (WDDM 2.0)".to_owned()));
        names.extend((self.nodes > 1).then(|| format!("{} GPU nodes", self.nodes)));
        names.extend(self.private_data.map(|purpose| format!("private data for {purpose}")));
        names
    }
}

/// Submission and completion.
pub(crate) const WORK: Needs = Needs::entries(&[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
]);

/// Submission, and control of interrupts.
pub(crate) const VSYNC: Needs = Needs::entries(&[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiControlInterrupt",
]);

/// Submission, preemption and recovery (TDR).
pub(crate) const RECOVERY: Needs = Needs::entries(&[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiPreemptCommand",
    "DxgkDdiResetFromTimeout",
]);

/// Submission, preemption and recovery, with video memory.
pub(crate) const MEMORY_RECOVERY: Needs = Needs::entries(&[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiPreemptCommand",
    "DxgkDdiResetFromTimeout",
    "DxgkDdiBuildPagingBuffer",
]);

/// Escapes and submission.
pub(crate) const ESCAPES: Needs = Needs::entries(&[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiEscape",
]);

/// Standard allocations.
pub(crate) const STANDARD: Needs = Needs::entries(&["DxgkDdiGetStandardAllocationDriverData"]);

/// Standard allocations in video memory.
pub(crate) const STANDARD_PAGING: Needs = Needs::entries(&[
    "DxgkDdiGetStandardAllocationDriverData",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
])
.paging_queues();

/// Video memory.
pub(crate) const PAGING: Needs =
    Needs::entries(&["DxgkDdiInterruptRoutine", "DxgkDdiDpcRoutine", "DxgkDdiBuildPagingBuffer"])
        .paging_queues();

/// Packets with allocation lists, and video memory.
pub(crate) const ALLOCATION_LISTS: Needs = Needs::entries(&[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiRender",
    "DxgkDdiPatch",
    "DxgkDdiSubmitCommand",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
]);

/// GPU virtual addresses.
pub(crate) const PAGE_TABLES: Needs = Needs::entries(&[
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiSetRootPageTable",
]);

/// GPU virtual addresses, and packets that use them.
pub(crate) const ADDRESSES: Needs = Needs::entries(&[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiSetRootPageTable",
]);

/// GPU virtual addresses, and power transitions that lose page tables.
pub(crate) const POWER_AND_ADDRESSES: Needs = Needs::entries(&[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiSetRootPageTable",
    "DxgkDdiSetPowerState",
]);

/// Power transitions with packets in flight.
pub(crate) const POWER: Needs = Needs::entries(&[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiSetPowerState",
]);

/// Power transitions that lose video memory.
pub(crate) const POWER_AND_MEMORY: Needs = Needs::entries(&[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiSetPowerState",
    "DxgkDdiBuildPagingBuffer",
]);

/// Surprise removal with packets in flight.
pub(crate) const SURPRISE_REMOVAL: Needs = Needs::entries(&[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiNotifySurpriseRemoval",
]);

/// Reset of the hardware at shutdown.
pub(crate) const RESET_DEVICE: Needs = Needs::entries(&["DxgkDdiResetDevice"]);

/// Primaries.
pub(crate) const DESCRIBE: Needs = Needs::entries(&["DxgkDdiDescribeAllocation"]);

/// Primaries in video memory.
pub(crate) const PRIMARIES_IN_MEMORY: Needs = Needs::entries(&[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiDescribeAllocation",
]);

/// Primaries at GPU virtual addresses.
pub(crate) const PRIMARIES_AT_ADDRESSES: Needs = Needs::entries(&[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiDescribeAllocation",
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiSetRootPageTable",
]);

/// A user-mode driver.
pub(crate) const UMD: Needs = Needs::entries(&["OpenAdapter"]);

/// A streaming minidriver: no display driver has a `KSDEVICE_DESCRIPTOR`.
pub(crate) const STREAM: Needs = Needs::entries(&["KSDEVICE_DESCRIPTOR"]);
