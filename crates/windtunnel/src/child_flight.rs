//! The flight of a driver file in a process of its own.
//!
//! The child flies and writes each event to shared memory at once; at its end it adds the rest of
//! its result. The parent waits, reads, and judges. So whatever ends the child, the parent has all
//! events up to that moment, and makes the report.

use crate::crash_report::crash_event;
use crate::driver_file::{DriverFile, FileFlight, fly_here};
use crate::fly::{FlightResult, HostKind, ScenarioRun, judge_events};
use crate::scenario::Scenario;
use flight::{Event, EventSink, HostError, Log, RuleCounts, RuleId, Subject};
use kernel::LiveObjects;
use nt::image::Channel;
use serde::{Deserialize, Serialize};
use std::os::fd::RawFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

/// The line in front of the rest of a result.
const END: &str = "=end ";

/// What the child is to fly.
#[derive(Clone, Debug)]
pub struct ChildArguments {
    /// The file.
    pub file: &'static DriverFile,
    /// The scenario.
    pub scenario: &'static Scenario,
    /// The host.
    pub host: HostKind,
    /// The descriptor of the shared memory.
    pub channel: RawFd,
}

/// The part of a result that is not in the events.
#[derive(Default, Deserialize, Serialize)]
struct FlightEnd {
    needs: Vec<String>,
    live: Vec<LiveEnd>,
    rule_counts: Vec<(String, u64)>,
    implemented: Vec<String>,
    registration: Option<String>,
    began: bool,
    internal_error: Option<String>,
}

/// A live object.
#[derive(Deserialize, Serialize)]
struct LiveEnd {
    subject: String,
    owner: Option<String>,
    reasons: Vec<String>,
}

/// Writes events to shared memory.
struct ChannelSink(&'static Channel);

impl EventSink for ChannelSink {
    fn event(&self, event: &Event) {
        let mut line = Vec::with_capacity(128);
        event.write(&mut line);
        line.push(b'\n');
        self.0.append(&line);
    }
}

/// Flies as the child process. The error says why the shared memory cannot be used.
pub fn fly_as_child(arguments: &ChildArguments) -> Result<(), String> {
    let channel = Channel::inherited(arguments.channel)
        .map_err(|why| format!("the shared memory of the flight cannot be mapped: {why}"))?
        .contain_faults();
    if let Some(deadline) = arguments.file.options.deadline {
        nt::image::start_watchdog(deadline);
    }
    let log = Arc::new(Log::with_sink(ChannelSink(channel)));
    let (scenario, host) = (arguments.scenario, arguments.host);
    let end = match fly_here(arguments.file, scenario, host, &log, Some(channel)) {
        Ok(flown) => FlightEnd::new(&flown, &log.rule_counts()),
        Err(HostError(why)) => FlightEnd { internal_error: Some(why), ..FlightEnd::default() },
    };
    let text = serde_json::to_string(&end).map_err(|why| why.to_string())?;
    channel.append(format!("{END}{text}\n").as_bytes());
    Ok(())
}

impl FlightEnd {
    fn new(flown: &FileFlight, counts: &RuleCounts) -> Self {
        let run = &flown.run;
        let text = |subject: Subject| format!("{}:{}", subject.kind.name(), subject.number);
        let live = run.live.objects.iter().map(|object| LiveEnd {
            subject: text(object.subject),
            owner: object.owner.map(text),
            reasons: object.reasons.clone(),
        });
        let judged = RuleId::LIVE.iter().filter(|rule| counts.count_of(**rule) > 0);
        Self {
            needs: run.needs.clone(),
            live: live.collect(),
            rule_counts: judged
                .map(|rule| (rule.name().to_owned(), counts.count_of(*rule)))
                .collect(),
            implemented: flown.implemented.iter().map(|name| (*name).to_owned()).collect(),
            registration: flown.registration.clone(),
            began: flown.began,
            internal_error: None,
        }
    }

    fn counts(&self) -> RuleCounts {
        let mut counts = RuleCounts::default();
        for (name, count) in &self.rule_counts {
            if let Some(rule) = RuleId::LIVE.iter().find(|rule| rule.name() == name) {
                counts.add_count(*rule, *count);
            }
        }
        counts
    }

    fn live(&self) -> LiveObjects {
        let object = |end: &LiveEnd| {
            Some(flight::LiveObject {
                subject: end.subject.parse().ok()?,
                owner: end.owner.as_ref().and_then(|owner| owner.parse().ok()),
                reasons: end.reasons.clone(),
            })
        };
        LiveObjects { objects: self.live.iter().filter_map(object).collect() }
    }
}

/// Flies in a child process.
pub(crate) fn fly(
    file: &'static DriverFile,
    scenario: &'static Scenario,
    on: HostKind,
) -> Result<FlightResult, HostError> {
    let error = |why: String| HostError(format!("the process of the flight: {why}"));
    let channel = Channel::create().map_err(|why| error(why.to_string()))?;
    let status = run_child(file, scenario, on, &channel).map_err(error)?;
    let text = channel.text();
    let text = String::from_utf8_lossy(&text);
    let mut events: Vec<Event> = Vec::new();
    let mut end = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix(END) {
            end = serde_json::from_str::<FlightEnd>(rest).ok();
        } else {
            let event = line.parse();
            events.push(
                event.map_err(|()| error(format!("it wrote a line that is no event: {line}")))?,
            );
        }
    }
    let finished = end.is_some();
    let end = end.unwrap_or_default();
    if let Some(why) = &end.internal_error {
        return Err(HostError(why.clone()));
    }
    if let Some(text) = &end.registration {
        file.set_registration(text.clone());
    }
    let mut needs = end.needs.clone();
    if finished && !end.began {
        events.clear();
    }
    if !finished {
        let crash = crash_event(file, &channel, status, &events);
        needs.extend(crash.need);
        events.extend(crash.event);
    }
    let run = ScenarioRun { needs, live: end.live(), ..ScenarioRun::default() };
    let result = judge_events(scenario.name, events, end.counts(), run);
    let known = abi::miniport::DRIVER_INITIALIZATION_DATA::SLOTS.iter().copied();
    let known: Vec<&'static str> = known.chain(stream::Entry::names()).collect();
    let find = |name: &String| known.iter().copied().find(|known| *known == name.as_str());
    let implemented = end.implemented.iter().filter_map(find).collect();
    Ok(FlightResult { seed: on.seed(), implemented, ..result })
}

/// Runs this program again as the child, and waits for its end.
fn run_child(
    file: &DriverFile,
    scenario: &Scenario,
    on: HostKind,
    channel: &Channel,
) -> Result<ExitStatus, String> {
    // This program, also if its file was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg("flight").arg(file.path()).args(["--scenario", &scenario.source()]);
    match on {
        HostKind::Deterministic { seed, pressure } => {
            command.args(["--seed", &seed.to_string()]);
            if pressure {
                command.arg("--pressure");
            }
        }
        HostKind::Threaded => {
            command.args(["--host", "threads"]);
        }
    }
    let deadline = file.options.deadline.map_or(0, |deadline| deadline.as_secs());
    command.args(["--deadline", &deadline.to_string()]);
    command.args(["--private-data", file.private_data().name()]);
    command.args(["--channel", &channel.descriptor().to_string()]);
    if let Some(folder) = &file.options.files {
        command.arg("--files").arg(folder);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.status().map_err(|why| why.to_string())
}
