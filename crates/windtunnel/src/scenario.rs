//! Scenarios by name: sequences of client actions that a driver is flown through.

use crate::scenarios::{
    adapter, bad, bad_gpuva, bad_memory, bad_render, bad_sync, context_allocation, destroy,
    destroy_memory, escape, gpuva, gpuva_update, interrupt, keyed_mutex, ks, lifecycle, memory,
    nt_share, pnp, render, share, submit, sync, sync_stuck, tdr, threads, umd_locks, umd_query,
    umd_resources,
};
use crate::steps::{self, Action, Step};
use crate::stream_testbed::StreamTestbed;
use crate::testbed::{ScenarioStopped, Testbed};
use flight::RuleId;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A scenario that a driver is flown through.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What the client does, in one line.
    pub about: &'static str,
    /// The rules that its client breaks; empty for a good client. A bad client flies by name only.
    pub breaks: &'static [RuleId],
    /// The entry points that a driver must implement, and [`PAGING_QUEUES`].
    pub needs: &'static [&'static str],
    /// The body.
    pub body: ScenarioBody,
}

/// The scenarios without a client that creates a device.
const WITHOUT_DEVICES: &[&str] = &["pnp-start-and-stop"];

/// The files of scenarios of steps, by the scenario's name.
static STEP_FILES: Mutex<Vec<(&str, String)>> = Mutex::new(Vec::new());

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The body of a scenario.
pub enum ScenarioBody {
    /// A function, for a display driver.
    DisplayBody(fn(&mut Testbed<'_>) -> Result<(), ScenarioStopped>),
    /// Steps, in order.
    Steps(&'static [Step]),
    /// A function, for a streaming minidriver.
    StreamBody(fn(&mut StreamTestbed<'_>) -> Result<(), ScenarioStopped>),
}

impl Scenario {
    /// A scenario of parsed steps. Leaks its memory, so that it lives as long as the process.
    pub fn of_steps(name: String, steps: Vec<Step>) -> &'static Self {
        let works = |step: &Step| matches!(step, Step::OnDevice(_, Action::Fill(_)));
        let needs = if steps.iter().any(works) { WORK } else { &[] };
        let (name, about) = (String::leak(name), "steps from a file");
        let body = ScenarioBody::Steps(Vec::leak(steps));
        Box::leak(Box::new(Self { name, about, breaks: &[], needs, body }))
    }

    /// As above, from a file, which another process can read again.
    pub fn of_steps_file(path: &Path, steps: Vec<Step>) -> &'static Self {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let scenario = Self::of_steps(name, steps);
        let path = path.to_string_lossy().into_owned();
        STEP_FILES.lock().unwrap_or_else(PoisonError::into_inner).push((scenario.name, path));
        scenario
    }

    /// What names the scenario on a command line: the path of its steps, or its name.
    pub(crate) fn source(&self) -> String {
        let files = STEP_FILES.lock().unwrap_or_else(PoisonError::into_inner);
        let path = files.iter().find(|(name, _)| *name == self.name).map(|(_, path)| path.clone());
        path.unwrap_or_else(|| self.name.to_owned())
    }

    /// Whether its client draws through a user-mode driver.
    pub fn needs_umd(&self) -> bool {
        UMD.iter().any(|text| self.needs.contains(text))
    }

    pub(crate) fn run(&self, testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
        match self.body {
            ScenarioBody::DisplayBody(tell) => tell(testbed),
            ScenarioBody::Steps(parsed) => {
                steps::run(testbed, parsed);
                Ok(())
            }
            ScenarioBody::StreamBody(_) => {
                Err(ScenarioStopped("a streaming minidriver".to_owned()))
            }
        }
    }

    pub(crate) fn run_stream(
        &self,
        testbed: &mut StreamTestbed<'_>,
    ) -> Result<(), ScenarioStopped> {
        match self.body {
            ScenarioBody::StreamBody(tell) => tell(testbed),
            ScenarioBody::DisplayBody(_) | ScenarioBody::Steps(_) => {
                Err(ScenarioStopped("a display driver".to_owned()))
            }
        }
    }

    /// Whether its client creates a device.
    pub(crate) fn creates_devices(&self) -> bool {
        !WITHOUT_DEVICES.contains(&self.name)
    }

    /// Whether it is for a streaming minidriver.
    pub fn streams(&self) -> bool {
        matches!(self.body, ScenarioBody::StreamBody(_))
    }
}

/// Submission and completion.
pub(crate) const WORK: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
];

/// Submission, and control of interrupts.
pub(crate) const VSYNC: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiControlInterrupt",
];

/// Submission, preemption and recovery (TDR).
pub(crate) const RECOVERY: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiPreemptCommand",
    "DxgkDdiResetFromTimeout",
];

/// Submission, preemption and recovery, with video memory.
pub(crate) const MEMORY_RECOVERY: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiPreemptCommand",
    "DxgkDdiResetFromTimeout",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiSubmitCommand",
];

/// Escapes and submission.
pub(crate) const ESCAPES: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiEscape",
];

/// Standard allocations.
pub(crate) const STANDARD: &[&str] = &["DxgkDdiGetStandardAllocationDriverData"];

/// Standard allocations in video memory.
pub(crate) const STANDARD_PAGING: &[&str] = &[
    "DxgkDdiGetStandardAllocationDriverData",
    PAGING_QUEUES,
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiSubmitCommand",
];

/// What a scenario with `D3DKMTMakeResident` needs: a driver of WDDM 1.x has no paging queues.
pub const PAGING_QUEUES: &str = "paging queues (WDDM 2.0)";

/// Video memory.
pub(crate) const PAGING: &[&str] = &[
    PAGING_QUEUES,
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiSubmitCommand",
];

/// Packets with allocation lists, and video memory.
pub(crate) const ALLOCATION_LISTS: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiRender",
    "DxgkDdiPatch",
    "DxgkDdiSubmitCommand",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
];

/// GPU virtual addresses.
pub(crate) const PAGE_TABLES: &[&str] = &[
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiSubmitCommand",
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiSetRootPageTable",
];

/// GPU virtual addresses, and packets that use them.
pub(crate) const ADDRESSES: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiSubmitCommand",
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiSetRootPageTable",
];

/// GPU virtual addresses, and power transitions that lose page tables.
pub(crate) const POWER_AND_ADDRESSES: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiSubmitCommand",
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiSetRootPageTable",
    "DxgkDdiSetPowerState",
];

/// Power transitions with packets in flight.
pub(crate) const POWER: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiSetPowerState",
];

/// Power transitions that lose video memory.
pub(crate) const POWER_AND_MEMORY: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiSetPowerState",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiSubmitCommand",
];

/// Surprise removal with packets in flight.
pub(crate) const SURPRISE_REMOVAL: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiNotifySurpriseRemoval",
];

/// Reset of the hardware at shutdown.
pub(crate) const RESET_DEVICE: &[&str] = &["DxgkDdiResetDevice"];

/// Primaries.
pub(crate) const DESCRIBE: &[&str] = &["DxgkDdiDescribeAllocation"];

/// Primaries in video memory.
pub(crate) const PRIMARIES_IN_MEMORY: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiSubmitCommand",
    "DxgkDdiDescribeAllocation",
];

/// Primaries at GPU virtual addresses.
pub(crate) const PRIMARIES_AT_ADDRESSES: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiSubmitCommand",
    "DxgkDdiDescribeAllocation",
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiSetRootPageTable",
];

/// A user-mode driver.
pub(crate) const UMD: &[&str] = &["OpenAdapter"];

/// A streaming minidriver: no display driver has a `KSDEVICE_DESCRIPTOR`.
pub(crate) const STREAM: &[&str] = &["KSDEVICE_DESCRIPTOR"];

/// Every scenario, good ones first.
pub const ALL: &[&[Scenario]] = &[
    lifecycle::ALL,
    share::ALL,
    nt_share::ALL,
    adapter::ALL,
    destroy::ALL,
    escape::ALL,
    umd_query::ALL,
    interrupt::ALL,
    threads::ALL,
    memory::ALL,
    gpuva::ALL,
    gpuva_update::ALL,
    destroy_memory::ALL,
    context_allocation::ALL,
    tdr::ALL,
    sync::ALL,
    sync_stuck::ALL,
    keyed_mutex::ALL,
    submit::ALL,
    render::ALL,
    pnp::ALL,
    umd_resources::ALL,
    umd_locks::ALL,
    ks::ALL,
    bad::ALL,
    bad_memory::ALL,
    bad_gpuva::ALL,
    bad_sync::ALL,
    sync_stuck::BAD,
    keyed_mutex::BAD,
    nt_share::BAD,
    adapter::BAD,
    submit::BAD,
    bad_render::ALL,
    umd_resources::BAD,
    ks::BAD,
];

/// Finds a scenario by its name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().copied().flatten().find(|scenario| scenario.name == name)
}
