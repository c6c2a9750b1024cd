//! Test cases: random steps and a driver failure, flown next to a model. A failing case is reduced
//! to a few steps and written as a file that `windtunnel check --scenario` flies.

use crate::random_steps::{Rng, life};
use crate::{Fault, Faulty, KernelTestbed, Model, attempt, verified};
use flight::{Component, Kind};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use windtunnel::steps::{Step, StepRunner, write};

/// The observations of a flight.
#[derive(Default)]
pub struct Seen {
    /// The number of driver calls.
    pub calls: u32,
    /// Steps with their outcomes, and driver calls that failed.
    pub outcomes: BTreeSet<String>,
}

/// A step without its handles.
fn kind(step: &Step) -> String {
    let text = step.to_string();
    let plain = |text: &&str| !text.contains(|character: char| character.is_ascii_digit());
    text.split_whitespace().filter(plain).collect::<Vec<_>>().join(" ")
}

/// Random steps and a driver failure.
#[derive(Clone)]
pub struct Case {
    /// The seed of the thread order.
    pub seed: u64,
    /// The failing driver call.
    pub fault: Option<Fault>,
    /// The steps.
    pub steps: Vec<Step>,
    /// Whether the model has a planted bug.
    pub forgetful: bool,
}

impl Case {
    /// Decodes a case: the first three bytes are the seed and the driver's failure.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut rng = Rng::Bytes(bytes);
        let seed = rng.of(256) as u64;
        let (call, panics) = (u32::try_from(rng.of(64)).unwrap_or_default(), rng.one_in(2));
        let fault = (call > 0).then_some(Fault { call, panics });
        Self { seed, fault, steps: life(&mut rng), forgetful: false }
    }

    /// Flies the case next to the model.
    pub fn fly(&self) -> Result<Seen, String> {
        let driver = Faulty::new(self.fault);
        let mut seen = Seen::default();
        let body = |testbed: &KernelTestbed, at: &mut _| {
            let mut runner = StepRunner::new(&testbed.kernel, &testbed.host);
            let mut model = Model::default();
            model.forgetful = self.forgetful;
            for step in &self.steps {
                let outcome = runner.run_step(at, step);
                let failed = driver.failed();
                seen.outcomes.insert(format!("{} {outcome:?}", kind(step)));
                seen.outcomes.extend(failed.map(str::to_owned));
                let expected = model.step(step, failed, outcome);
                testbed.kernel.validate().map_err(|reason| format!("after '{step}': {reason}"))?;
                if model.deaf {
                    continue;
                }
                if outcome != expected {
                    return Err(format!(
                        "'{step}' was {outcome:?}, the model expects {expected:?}"
                    ));
                }
                compare(testbed, &model, step)?;
            }
            runner.kill_processes(at);
            Ok(())
        };
        let events = attempt(self.seed, |log| driver.set_up(log), body)?;
        let verifier = verified(&events);
        let ours =
            verifier.findings().iter().find(|finding| finding.component == Component::Kernel);
        seen.calls = driver.calls();
        ours.map_or(Ok(seen), |finding| {
            Err(format!("{}: {}", finding.rule.name(), finding.message))
        })
    }

    /// The case without these steps and without the steps that depend on them.
    fn without(&self, from: usize, count: usize) -> Self {
        let mut known: Vec<String> = Vec::new();
        let mut steps = self.steps.clone();
        steps.drain(from..(from + count).min(steps.len()));
        steps.retain(|step| {
            let defined =
                step.used_names().iter().all(|name| known.iter().any(|text| text == name));
            known.extend(step.defined_name().filter(|_| defined).map(str::to_owned));
            defined
        });
        Self { steps, ..self.clone() }
    }

    /// Reduces a failing case to few steps, without the driver failure if possible.
    #[must_use]
    pub fn shrink(mut self) -> Self {
        let well = Self { fault: None, ..self.clone() };
        if well.fly().is_err() {
            self = well;
        }
        loop {
            let before = self.steps.len();
            let mut count = before.div_ceil(2);
            while count > 0 {
                let mut from = 0;
                while from < self.steps.len() {
                    match self.without_if_failing(from, count) {
                        Some(fewer) => self = fewer,
                        None => from += count,
                    }
                }
                count /= 2;
            }
            if self.steps.len() == before {
                return self;
            }
        }
    }

    /// The case without these steps, if it still fails. The failing driver call moves accordingly.
    fn without_if_failing(&self, from: usize, count: usize) -> Option<Self> {
        let fewer = self.without(from, count);
        let calls = self.fault.map_or(0, |fault| fault.call);
        let earlier = (0..calls).map(|number| Self {
            fault: self.fault.map(|fault| Fault { call: fault.call - number, ..fault }),
            ..fewer.clone()
        });
        let mut all = earlier.chain((calls == 0).then(|| fewer.clone()));
        all.find(|case| case.fly().is_err())
    }

    /// The case as a file, with the reason.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let reason = self.fly().err().unwrap_or_default();
        let _ = writeln!(text, "# {}", reason.replace('\n', "\n# ")); // A string takes everything.
        let _ = writeln!(text, "# with --seed {}", self.seed);
        if let Some(Fault { call, panics }) = self.fault {
            let how = if panics { "panics in" } else { "refuses" };
            let _ = writeln!(text, "# and a driver that {how} its call {call}");
        }
        text + &write(&self.steps)
    }
}

/// Compares the live objects with the model: exactly, once the kernel is idle.
fn compare(testbed: &KernelTestbed, model: &Model, step: &Step) -> Result<(), String> {
    let live_objects = testbed.kernel.live_objects();
    let count = |kind: Kind| {
        live_objects.objects.iter().filter(|live_object| live_object.subject.kind == kind).count()
    };
    let kinds = [Kind::View, Kind::ResourceView, Kind::Context, Kind::Device];
    for (kind, expected) in kinds.into_iter().zip(model.alive()) {
        let (there, later) = (count(kind), matches!(kind, Kind::View | Kind::ResourceView));
        // Objects destroyed behind work end with the work.
        let fits = there == expected || (there > expected && later && *step != Step::RunUntilIdle);
        if !fits {
            let kind = kind.subject(0);
            return Err(format!("after '{step}': {there} objects of kind {kind}, not {expected}"));
        }
    }
    Ok(())
}
