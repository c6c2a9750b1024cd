//! Scenarios by name: sequences of client actions that a driver is flown through.

use crate::needs::{Needs, OPEN_ADAPTER, WORK};
use crate::private_data::DataUse;
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
    /// What it needs of a driver.
    pub needs: Needs,
    /// The body.
    pub body: ScenarioBody,
}

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
        let needs = if steps.iter().any(works) { WORK } else { Needs::NONE };
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
    pub fn source(&self) -> String {
        let files = STEP_FILES.lock().unwrap_or_else(PoisonError::into_inner);
        let path = files.iter().find(|(name, _)| *name == self.name).map(|(_, path)| path.clone());
        path.unwrap_or_else(|| self.name.to_owned())
    }

    /// Whether its client breaks no rule, by construction. Steps from a file may break any.
    pub(crate) fn client_is_right(&self) -> bool {
        self.breaks.is_empty() && !matches!(self.body, ScenarioBody::Steps(_))
    }

    /// Whether its client draws through a user-mode driver.
    pub fn needs_umd(&self) -> bool {
        self.needs.has_entry(OPEN_ADAPTER)
    }

    pub(crate) fn run(&self, testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
        match self.body {
            ScenarioBody::DisplayBody(tell) => tell(testbed),
            ScenarioBody::Steps(parsed) => {
                steps::run(testbed, parsed);
                Ok(())
            }
            ScenarioBody::StreamBody(_) => Err(ScenarioStopped::missing("a streaming minidriver")),
        }
    }

    pub(crate) fn run_stream(
        &self,
        testbed: &mut StreamTestbed<'_>,
    ) -> Result<(), ScenarioStopped> {
        match self.body {
            ScenarioBody::StreamBody(tell) => tell(testbed),
            ScenarioBody::DisplayBody(_) | ScenarioBody::Steps(_) => {
                Err(ScenarioStopped::missing("a display driver"))
            }
        }
    }

    /// The same scenario, which needs private data in the format of the driver.
    pub(crate) const fn with_private_data(mut self, purpose: DataUse) -> Self {
        self.needs = self.needs.private_data(purpose);
        self
    }

    /// Whether it is for a streaming minidriver.
    pub fn streams(&self) -> bool {
        matches!(self.body, ScenarioBody::StreamBody(_))
    }
}

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

/// The family of a scenario: the area that its name begins with.
pub fn family(scenario: &str) -> &str {
    let area = scenario.split('-').next().unwrap_or(scenario);
    if scenario.starts_with("keyed-mutex") { "keyed-mutex" } else { area }
}

/// The good scenarios of a family; none if no family has this name.
pub fn find_family(name: &str) -> Vec<&'static Scenario> {
    let good = ALL.iter().copied().flatten().filter(|scenario| scenario.breaks.is_empty());
    good.filter(|scenario| family(scenario.name) == name).collect()
}
