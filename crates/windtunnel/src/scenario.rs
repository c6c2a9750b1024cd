//! Scenarios: what a client does to a driver, by name.

use crate::scenarios::{
    bad, bad_gpuva, bad_memory, bad_render, bad_sync, context_allocation, destroy, destroy_memory,
    escape, gpuva, gpuva_update, interrupt, keyed_mutex, ks, lifecycle, memory, pnp, render, share,
    submit, sync, tdr, threads, umd_locks, umd_query, umd_resources,
};
use crate::steps::{self, Action, Step};
use crate::stream_testbed::StreamTestbed;
use crate::testbed::{ScenarioStopped, Testbed};
use flight::RuleId;

/// A story that a driver is flown through.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What happens in it, in one line.
    pub about: &'static str,
    /// The rules its client breaks: empty for a good one. Bad ones are flown by name only.
    pub breaks: &'static [RuleId],
    /// The entries a driver must offer to be flown through it.
    pub needs: &'static [&'static str],
    /// The story.
    pub body: ScenarioBody,
}

/// What happens in a scenario.
pub enum ScenarioBody {
    /// This function tells it.
    DisplayBody(fn(&mut Testbed<'_>) -> Result<(), ScenarioStopped>),
    /// These steps, one after the other.
    Steps(&'static [Step]),
    /// This function tells it, of a streaming minidriver.
    StreamBody(fn(&mut StreamTestbed<'_>) -> Result<(), ScenarioStopped>),
}

impl Scenario {
    /// A scenario of steps that were read. It is there until the process ends.
    pub fn of_steps(name: String, steps: Vec<Step>) -> &'static Self {
        let works = |step: &Step| matches!(step, Step::OnDevice(_, Action::Fill(_)));
        let needs = if steps.iter().any(works) { WORK } else { &[] };
        let (name, about) = (String::leak(name), "steps of a file");
        let body = ScenarioBody::Steps(Vec::leak(steps));
        Box::leak(Box::new(Self { name, about, breaks: &[], needs, body: body }))
    }

    /// Whether it is told by an application that draws through a user-mode driver.
    pub fn needs_umd(&self) -> bool {
        UMD.iter().any(|text| self.needs.contains(text))
    }

    pub(crate) fn run(&self, testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
        match self.body {
            ScenarioBody::DisplayBody(tell) => tell(testbed),
            ScenarioBody::Steps(told) => {
                steps::run(testbed, told);
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

    /// Whether it is of a streaming minidriver.
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

/// Submission, and interrupts that are switched.
pub(crate) const VSYNC: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiControlInterrupt",
];

/// Work, and recovery from work that does not end.
pub(crate) const RECOVERY: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiPreemptCommand",
    "DxgkDdiResetFromTimeout",
];

/// The same, with video memory.
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

/// Escapes, and work they can be asked about.
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

/// Video memory, and the packets to fill it.
pub(crate) const MEMORY: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiSubmitCommand",
];

/// Packets with lists, and video memory for what they list.
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

/// Virtual addresses, and the packets to use them.
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

/// Virtual addresses, and power that page tables are lost with.
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

/// Power, and packets in flight when it goes.
pub(crate) const POWER: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiSetPowerState",
];

/// Power, and memory that it is lost with.
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

/// A driver that hears of surprise removals, and packets in flight then.
pub(crate) const SURPRISE_REMOVAL: &[&str] = &[
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiNotifySurpriseRemoval",
];

/// A driver that resets its hardware as the machine goes down.
pub(crate) const RESET_DEVICE: &[&str] = &["DxgkDdiResetDevice"];

/// Primaries.
pub(crate) const DESCRIBE: &[&str] = &["DxgkDdiDescribeAllocation"];

/// Primaries, and video memory to draw them in.
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

/// Primaries, and virtual addresses to draw them at.
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

/// A streaming minidriver: no display driver has what one begins with.
pub(crate) const STREAM: &[&str] = &["KSDEVICE_DESCRIPTOR"];

/// Every scenario, good ones first.
pub const ALL: &[&[Scenario]] = &[
    lifecycle::ALL,
    share::ALL,
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
    keyed_mutex::BAD,
    submit::BAD,
    bad_render::ALL,
    umd_resources::BAD,
    ks::BAD,
];

/// The scenario of that name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().copied().flatten().find(|scenario| scenario.name == name)
}
