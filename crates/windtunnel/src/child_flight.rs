//! The flight of a driver from a file, kernel-mode or user-mode, in a process of its own.
//!
//! The child flies and writes each event to shared memory at once; at its end it adds the rest of
//! its result. The parent waits, reads, and judges. So whatever ends the child, the parent has all
//! events up to that moment, and makes the report.

use crate::check::with_resources;
use crate::child_crash::{crash_event, overwritten_event};
use crate::driver::Driver;
use crate::driver_file::{DriverFile, FileFlight, FlightOptions, fly_here};
use crate::fly::{
    DeepestStack, FlightResult, HostKind, ScenarioRun, flight_limits, judge_events, run_body,
};
use crate::native_umd::NativeUmd;
use crate::needs::OPEN_ADAPTER;
use crate::scenario::Scenario;
use flight::{
    Callers, Component, Event, EventKind, EventSink, ExecutionContext, FlightLimits, HostError,
    LineBuffer, LiveObject, Log, RuleCounts, RuleId, Subject,
};
use kernel::LiveObjects;
use nt::image::{
    CODE, Channel, FlightProcess, ImportCall, Number, ProcessEnd, StackDepth, StopSignal,
    ThreadFrames, text_file,
};
use serde::{Deserialize, Serialize};
use server::crash_place::{frames_of_file, name_code};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, RawFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use verify::{Finding, StackFrame, ThreadStack};

/// The line in front of the rest of a result.
const END: &str = "=end ";

/// The line with the call stack of a finding: the number of its event, and offsets in the code.
const STACK: &str = "=stack ";

/// The line with the call stack of another thread that a finding is about: the number of its event,
/// the number of the thread, and offsets in the code.
const THREAD: &str = "=thread ";

/// The bytes that are shown of what a driver prints in a flight, if they are captured.
const MAX_PRINTED: u64 = 64 << 20;

/// The entry points of the driver of this process, as offsets in its code.
static ENTRIES: OnceLock<Vec<(&'static str, usize)>> = OnceLock::new();

/// Remembers where the driver of this process has its entry points.
pub(crate) fn set_entry_points(entries: Vec<(&'static str, usize)>) {
    _ = ENTRIES.set(entries); // A process flies one driver.
}

/// What the child is to fly.
#[derive(Clone, Debug)]
pub struct ChildArguments {
    /// The kernel-mode driver and the scenario. Without them, the user-mode driver is only loaded.
    pub flight: Option<(Driver, &'static Scenario)>,
    /// The file of the user-mode driver.
    pub umd: Option<PathBuf>,
    /// The host.
    pub host: HostKind,
    /// How the flight is made.
    pub options: FlightOptions,
    /// The descriptor of the shared memory.
    pub channel: RawFd,
    /// The number of the parent process.
    pub parent: Option<u32>,
}

/// The part of a result that is not in the events.
#[derive(Default, Deserialize, Serialize)]
struct FlightEnd {
    needs: Vec<String>,
    live: Vec<LiveEnd>,
    live_snapshots: Vec<(String, Vec<LiveEnd>)>,
    calls_without_context: Vec<String>,
    rule_counts: Vec<(String, u64)>,
    implemented: Vec<String>,
    registration: Option<String>,
    registers_nothing: bool,
    began: bool,
    internal_error: Option<String>,
    /// Why the user-mode driver could not be loaded.
    load_error: Option<String>,
    /// The deepest use of the kernel stack: bytes, function, number of the import.
    stack: Option<(u64, Option<String>, Option<u32>)>,
}

/// A live object.
#[derive(Deserialize, Serialize)]
struct LiveEnd {
    subject: String,
    owner: Option<String>,
    reasons: Vec<String>,
}

/// Writes events to shared memory, and the call stack to those that an import of the driver reports.
struct ChannelSink {
    channel: &'static Channel,
    /// The line of the current event.
    lines: Mutex<Box<LineBuffer>>,
    /// The imports of the driver, if it is one of a file.
    imports: Vec<String>,
}

impl EventSink for ChannelSink {
    fn event(&self, event: &Event) {
        {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push(event);
            self.channel.append(lines.text());
            lines.clear();
        }
        if let Some(stack) = self.stack(event) {
            self.channel.append(stack.as_bytes());
        }
    }

    /// The function as an offset in the code of the driver, which the report names.
    fn place_of_entry(&self, entry: &str) -> String {
        let entries = ENTRIES.get().map_or(&[][..], Vec::as_slice);
        let found = entries.iter().find(|(name, _)| *name == entry);
        found.map_or(String::new(), |(_, offset)| format!(", which is {CODE}{offset:x}"))
    }

    /// The parent reads the last event, and makes the report.
    fn flight_over(&self, message: &str) {
        nt::image::end_for_limit(message);
    }
}

impl ChannelSink {
    fn new(channel: &'static Channel, driver: Option<Driver>) -> Self {
        let names = |file: &DriverFile| {
            file.image().import_names().into_iter().map(str::to_owned).collect()
        };
        let imports = if let Some(Driver::File(file)) = driver { names(file) } else { Vec::new() };
        Self { channel, lines: Mutex::default(), imports }
    }

    /// The lines with the call stacks of an event about an import that runs on this thread.
    fn stack(&self, event: &Event) -> Option<String> {
        let (import, is_family) = match &event.kind {
            EventKind::RuleBroken { component: Component::Driver, argument, .. } => {
                (&**argument, false)
            }
            EventKind::DriverMisuse { import, .. } => (&**import, false),
            EventKind::PoolBadFree { .. } => ("ExFreePool", true),
            _ => return None,
        };
        let call = ImportCall::current()?;
        let name = self.imports.get(call.import as usize)?;
        (name == import || (is_family && name.starts_with(import))).then_some(())?;
        let offsets = |frames: &[u64]| {
            let offsets: Vec<String> = frames.iter().map(|frame| format!("{frame:x}")).collect();
            offsets.join(" ")
        };
        let mut lines = format!("{STACK}{} {}\n", event.seq, offsets(&call.frames));
        if let Some(ThreadFrames { thread, frames }) = &call.other_thread {
            // Writing to a String cannot fail.
            _ = writeln!(lines, "{THREAD}{} {thread} {}", event.seq, offsets(frames));
        }
        Some(lines)
    }
}

/// Flies as the child process. The error says why the shared memory cannot be used.
pub fn fly_as_child(arguments: &ChildArguments) -> Result<(), String> {
    nt::image::limit_process(arguments.parent, arguments.channel);
    nt::set_flight_exit_status();
    let channel = Channel::inherited(arguments.channel)
        .map_err(|why| format!("the shared memory of the flight cannot be mapped: {why}"))?
        .contain_faults();
    let fly = || {
        let log = child_log(arguments, channel);
        if let Some(deadline) = arguments.options.deadline {
            let log = log.clone();
            nt::image::start_watchdog(deadline, channel, move |bytes| log.note_memory(bytes));
        }
        Ok(fly_contained(arguments, channel, &log))
    };
    let end = with_resources(fly).unwrap_or_else(|HostError(why)| FlightEnd {
        internal_error: Some(why),
        ..FlightEnd::default()
    });
    let text = serde_json::to_string(&end).map_err(|why| why.to_string())?;
    channel.append_end(format!("{END}{text}\n").as_bytes());
    nt::image::finish();
    // What the driver does at the exit of the process has a deadline, too.
    std::mem::forget(nt::image::UserModeCode::begin("the exit of the process"));
    Ok(())
}

/// The log of the flight: each event goes to the parent at once.
fn child_log(arguments: &ChildArguments, channel: &'static Channel) -> Arc<Log> {
    let driver = arguments.flight.map(|(driver, _)| driver);
    Arc::new(Log::with_sink(ChannelSink::new(channel, driver)).with_limits(flight_limits()))
}

/// Flies with faults contained.
fn fly_contained(
    arguments: &ChildArguments,
    channel: &'static Channel,
    log: &Arc<Log>,
) -> FlightEnd {
    let load = |path: &PathBuf| NativeUmd::of_child(path, arguments.options.clone()).load();
    let umd = match arguments.umd.as_ref().map(load).transpose() {
        Ok(umd) => umd,
        Err(why) => return FlightEnd { load_error: Some(why), ..FlightEnd::default() },
    };
    let Some((driver, scenario)) = arguments.flight else { return FlightEnd::default() };
    let host = arguments.host;
    let flown = match driver {
        Driver::File(file) => fly_here(file, umd, scenario, host, log, Some(channel)),
        Driver::Display(listed) => {
            if umd.is_none() {
                nt::guard_memory(arguments.options.guard, host.seed().unwrap_or(0));
            }
            let umd = umd.or_else(|| listed.umd.map(|make| make()));
            let body = run_body(log, (listed.make, umd), &scenario.needs, host, |testbed| {
                scenario.run(testbed)
            });
            body.map(|(implemented, run)| FileFlight {
                implemented,
                registration: None,
                registers_nothing: false,
                run,
            })
        }
        Driver::Streaming(_) => Err(HostError("a streaming driver has no user-mode driver".into())),
    };
    log.flush();
    match flown {
        Ok(flown) => FlightEnd::new(&flown, &log.rule_counts()),
        Err(HostError(why)) => FlightEnd { internal_error: Some(why), ..FlightEnd::default() },
    }
}

/// The live objects as they are written.
fn live_end(live: &LiveObjects) -> Vec<LiveEnd> {
    let text = |subject: Subject| format!("{}:{}", subject.kind.name(), subject.number);
    let end = |object: &LiveObject| LiveEnd {
        subject: text(object.subject),
        owner: object.owner.map(text),
        reasons: object.reasons.clone(),
    };
    live.objects.iter().map(end).collect()
}

/// The live objects that were written.
fn live_objects(objects: &[LiveEnd]) -> LiveObjects {
    let object = |end: &LiveEnd| {
        Some(LiveObject {
            subject: end.subject.parse().ok()?,
            owner: end.owner.as_ref().and_then(|owner| owner.parse().ok()),
            reasons: end.reasons.clone(),
        })
    };
    LiveObjects { objects: objects.iter().filter_map(object).collect() }
}

/// A text that stays until the process ends. Equal texts are kept once.
fn kept_text(text: &str) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let mut kept = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.get(text) {
        return known;
    }
    let text = &*Box::leak(text.to_owned().into_boxed_str());
    kept.insert(text);
    text
}

impl FlightEnd {
    fn new(flown: &FileFlight, counts: &RuleCounts) -> Self {
        let run = &flown.run;
        let looks = run.live_snapshots.iter();
        let outside = ExecutionContext::calls_without_context();
        let judged = RuleId::LIVE.iter().filter(|rule| counts.count_of(**rule) > 0);
        Self {
            needs: run.needs.clone(),
            live: live_end(&run.live),
            live_snapshots: looks.map(|(when, it)| ((*when).to_owned(), live_end(it))).collect(),
            calls_without_context: outside.iter().map(|name| (*name).to_owned()).collect(),
            rule_counts: judged
                .map(|rule| (rule.name().to_owned(), counts.count_of(*rule)))
                .collect(),
            implemented: flown.implemented.iter().map(|name| (*name).to_owned()).collect(),
            registration: flown.registration.clone(),
            registers_nothing: flown.registers_nothing,
            began: run.began,
            stack: StackDepth::deepest()
                .map(|deep| (deep.bytes as u64, deep.function.map(str::to_owned), deep.import)),
            ..Self::default()
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
}

/// The call stacks of events, by the number of the event, as offsets in the code of the driver.
#[derive(Default)]
pub(crate) struct EventStacks {
    /// That of the thread.
    own: BTreeMap<u64, Vec<u64>>,
    /// That of another thread.
    other: BTreeMap<u64, ThreadFrames>,
}

impl FlightEnd {
    /// The deepest use of the kernel stack by a driver from a file.
    fn deepest_stack(&self, file: &DriverFile) -> Option<DeepestStack> {
        let (bytes, function, import) = self.stack.clone()?;
        let function = function.unwrap_or_else(|| "a routine that is not a DDI".to_owned());
        let names = file.image().import_names();
        let name = |number: u32| names.get(usize::try_from(number).ok()?).copied();
        let import = import.and_then(name).map(str::to_owned);
        Some(DeepestStack { bytes, function, import })
    }
}

/// What a child wrote.
#[derive(Default)]
struct ChildText {
    events: Vec<Event>,
    stacks: EventStacks,
    /// `None` if it did not come to its end.
    end: Option<FlightEnd>,
    /// What is missing of the events, if anything is.
    need: Option<String>,
    /// Whether something else wrote over what the child wrote.
    is_overwritten: bool,
}

impl ChildText {
    /// Reads what the child wrote, up to the place where something else wrote. Fails if the child
    /// wrote something that cannot be read, which is our fault.
    fn read(channel: &Channel) -> Result<Self, HostError> {
        let mut read = Self::default();
        let mut pieces = channel.pieces();
        for piece in pieces.by_ref() {
            for line in piece.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let line = String::from_utf8_lossy(line);
                let unreadable =
                    || HostError(format!("the process of a flight wrote what is no event: {line}"));
                read.add_line(&line).ok_or_else(unreadable)?;
            }
        }
        read.is_overwritten = pieces.is_damaged() || channel.has_damaged_record();
        let left_out = channel.number(Number::LeftOut);
        if left_out > 0 && !read.is_overwritten {
            read.need =
                Some(format!("room for {left_out} more events in the memory of the flight"));
        }
        Ok(read)
    }

    /// Adds a line. `None` if it cannot be read.
    fn add_line(&mut self, line: &str) -> Option<()> {
        let offset = |text: &str| u64::from_str_radix(text, 16).ok();
        if let Some(rest) = line.strip_prefix(END) {
            self.end = Some(serde_json::from_str(rest).ok()?);
        } else if let Some(rest) = line.strip_prefix(STACK) {
            let mut numbers = rest.split(' ');
            let seq = numbers.next()?.parse().ok()?;
            self.stacks.own.insert(seq, numbers.filter_map(offset).collect());
        } else if let Some(rest) = line.strip_prefix(THREAD) {
            let mut numbers = rest.split(' ');
            let seq = numbers.next()?.parse().ok()?;
            let thread = numbers.next()?.parse().ok()?;
            let frames = numbers.filter_map(offset).collect();
            self.stacks.other.insert(seq, ThreadFrames { thread, frames });
        } else {
            self.events.push(line.parse().ok()?);
        }
        Some(())
    }
}

/// Checks in a child process that a user-mode driver can be loaded. A driver that ends the process
/// meanwhile can: its flights report that.
pub(crate) fn load_in_child(umd: &NativeUmd) -> Result<(), String> {
    let error = |why: String| format!("{} cannot be loaded: {why}", umd.path());
    let channel = Channel::create().map_err(|why| error(why.to_string()))?;
    let mut command = child_command(None, Some(umd), umd.options(), &channel);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let process = FlightProcess::start(&mut command);
    let end = process.and_then(|process| process.wait(&channel, umd.options().deadline));
    end.map_err(|why| error(why.to_string()))?;
    let end = ChildText::read(&channel).map_err(|HostError(why)| error(why))?.end;
    end.and_then(|end| end.load_error).map_or(Ok(()), Err)
}

/// Flies in a child process. What the driver prints goes to standard error, or, with `capture`, to
/// the result.
pub(crate) fn fly(
    driver: Driver,
    umd: Option<&NativeUmd>,
    options: &FlightOptions,
    scenario: &'static Scenario,
    (on, capture): (HostKind, bool),
) -> Result<FlightResult, HostError> {
    let error = |why: String| HostError(format!("the process of the flight: {why}"));
    let channel = Channel::create().map_err(|why| error(why.to_string()))?;
    let mut command = child_command(Some(driver), umd, options, &channel);
    let printed = PrintedText::new(capture);
    let process_end = run_child(&mut command, scenario, on, (&channel, &printed), options.deadline)
        .map_err(error)?;
    if let Some(signal) = StopSignal::received() {
        return Err(error(format!("it was stopped by {}", signal.name())));
    }
    if process_end.status().code() == Some(nt::FLIGHT_WITHOUT_MEMORY) {
        return with_resources(|| flight::no_resources("no memory"));
    }
    if !channel.is_taken() {
        // No code of the driver has run: the file is gone, for example.
        let status = process_end.status();
        return Err(error(format!("it ended before the driver was loaded ({status})")));
    }
    let ChildText { mut events, stacks, end, need, is_overwritten } = ChildText::read(&channel)?;
    // What is behind the place of the write is not known, the end included.
    let finished = end.is_some() || (is_overwritten && process_end.is_success());
    let end = end.unwrap_or_default();
    if let Some(why) = end.internal_error.as_ref().or(end.load_error.as_ref()) {
        return Err(HostError(why.clone()));
    }
    if let (Driver::File(file), Some(text)) = (driver, &end.registration) {
        file.set_registration(text.clone());
    }
    for name in &end.calls_without_context {
        ExecutionContext::report_missing(kept_text(name));
    }
    if let (Driver::File(file), true) = (driver, end.registers_nothing) {
        file.set_registers_nothing();
    }
    let mut needs = end.needs.clone();
    needs.extend(need);
    if finished && !end.began && !is_overwritten {
        events.clear();
    }
    if is_overwritten {
        let (need, event) = overwritten_event(driver, umd, &events);
        needs.push(need);
        events.push(event);
    }
    let (mut stack, mut crash) = (Vec::new(), None);
    if !finished || channel.has_record() {
        let ended = crash_event((driver, options.guard), umd, &channel, process_end, &events);
        needs.extend(ended.need);
        events.extend(ended.event);
        // Of a limit, the flight itself has the finding.
        crash = events.last().map(|event| event.seq);
        stack = ended.stack;
    }
    let look = |(when, live): &(String, Vec<LiveEnd>)| (kept_text(when), live_objects(live));
    let live_snapshots = end.live_snapshots.iter().map(look).collect();
    let live = live_objects(&end.live);
    let run = ScenarioRun { needs, live, live_snapshots, ..ScenarioRun::default() };
    let mut result = judge_events(scenario.name, events, end.counts(), run);
    if let Driver::File(file) = driver {
        name_places(&mut result, file, &stacks);
        result.stack = end.deepest_stack(file);
    }
    if let Some(seq) = crash {
        add_stack(&mut result.findings, seq, &stack);
    }
    let known = abi::miniport::DRIVER_INITIALIZATION_DATA::SLOTS.iter().copied();
    let known = known.chain(stream::Entry::names()).chain([OPEN_ADAPTER]);
    let known: Vec<&'static str> = known.collect();
    let find = |name: &String| known.iter().copied().find(|known| *known == name.as_str());
    let implemented = end.implemented.iter().filter_map(find).collect();
    Ok(FlightResult { seed: on.seed(), implemented, printed: printed.take(), ..result })
}

/// What a child prints. If it is not taken, it goes to standard error.
struct PrintedText {
    /// The memory that the child prints to; `None` for standard error.
    captured: Option<File>,
}

impl PrintedText {
    /// With `capture`, memory for what is printed. A machine without such memory does not capture.
    fn new(capture: bool) -> Self {
        Self { captured: capture.then(|| text_file().ok()).flatten() }
    }

    /// Where the child prints.
    fn destination(&self) -> Stdio {
        let errors = || std::io::stderr().as_fd().try_clone_to_owned();
        let destination = match &self.captured {
            Some(file) => file.as_fd().try_clone_to_owned(),
            None => errors(),
        };
        destination.map_or_else(|_| Stdio::null(), Stdio::from)
    }

    /// The text.
    fn take(mut self) -> Vec<u8> {
        self.read()
    }

    fn read(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        if let Some(mut file) = self.captured.take() {
            // Memory can be read from its start.
            _ = file.rewind();
            _ = (&file).take(MAX_PRINTED).read_to_end(&mut text);
            let printed = file.metadata().map_or(0, |file| file.len());
            if let Some(rest @ 1..) = printed.checked_sub(MAX_PRINTED) {
                let end = format!("\n{rest} more bytes that the driver printed are left out\n");
                text.extend(end.bytes());
            }
        }
        text
    }
}

impl Drop for PrintedText {
    fn drop(&mut self) {
        // A closed standard error is no reason to stop.
        let _ = std::io::stderr().write_all(&self.read());
    }
}

/// Names the places in the driver's code that the findings and their events have.
pub(crate) fn name_places(result: &mut FlightResult, file: &DriverFile, stacks: &EventStacks) {
    result.findings.iter_mut().for_each(|finding| add_code_places(finding, file, stacks));
    let led = |seq: &u64| result.findings.iter().any(|finding| finding.events.contains(seq));
    let callers = |event: &Event| {
        let callers = event.kind.callers().filter(|callers| !callers.0.is_empty())?;
        Some((event.seq, callers.0.to_string())).filter(|(seq, _)| led(seq))
    };
    let (events, texts): (Vec<u64>, Vec<String>) = result.events.iter().filter_map(callers).unzip();
    // The symbols of a shared object are read once for all of them.
    let names = name_code(file.opened(), &texts.join("\n"));
    let names = names.split('\n').map(|name| Callers(name.to_owned().into()));
    result.callers = events.into_iter().zip(names).collect();
}

/// Adds what is known of the driver's code: the call stack of the import that reported a finding, and
/// function and line of each offset in its message.
fn add_code_places(finding: &mut Finding, file: &DriverFile, stacks: &EventStacks) {
    finding.message = name_code(file.opened(), &finding.message);
    let other = finding.events.last().and_then(|seq| stacks.other.get(seq));
    if let Some(ThreadFrames { thread, frames }) = other.filter(|other| !other.frames.is_empty()) {
        let stack = frames_of_file(file.opened(), frames);
        finding.threads = vec![ThreadStack { thread: *thread, stack }];
    }
    if let Some(offsets) = finding.events.last().and_then(|seq| stacks.own.get(seq)) {
        finding.stack = frames_of_file(file.opened(), offsets);
        if let Some(place) = finding.stack.first().map(ToString::to_string)
            && !finding.message.contains(&place)
        {
            finding.message.extend([", in ", &place]);
        }
    }
    finding.consequences.iter_mut().for_each(|finding| add_code_places(finding, file, stacks));
}

/// Adds the call stack to the finding of a crash, which may be a consequence.
fn add_stack(findings: &mut [Finding], seq: u64, stack: &[StackFrame]) {
    for finding in findings {
        if finding.events.last() == Some(&seq) {
            stack.clone_into(&mut finding.stack);
        }
        add_stack(&mut finding.consequences, seq, stack);
    }
}

/// Runs this program again as the child, and waits for its end.
fn run_child(
    command: &mut Command,
    scenario: &Scenario,
    on: HostKind,
    (channel, printed): (&Channel, &PrintedText),
    deadline: Option<Duration>,
) -> Result<ProcessEnd, String> {
    command.args(["--scenario", &scenario.source()]);
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
    // Standard output has the report: what the driver prints goes to standard error.
    command.stdout(printed.destination()).stderr(printed.destination());
    let process = FlightProcess::start(command);
    let end = process.and_then(|process| process.wait(channel, deadline));
    end.map_err(|why| why.to_string())
}

/// The command of the child.
fn child_command(
    driver: Option<Driver>,
    umd: Option<&NativeUmd>,
    options: &FlightOptions,
    channel: &Channel,
) -> Command {
    // This program, also if its file was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg("flight").stdin(Stdio::null());
    match driver {
        Some(Driver::File(file)) => {
            command.arg(file.path());
            command.args(["--private-data", file.private_data().name()]);
        }
        Some(driver) => _ = command.arg(driver.name()),
        None => (),
    }
    if let Some(umd) = umd {
        command.arg("--umd").arg(umd.path());
    }
    let deadline = options.deadline.map_or(0, |deadline| deadline.as_secs());
    command.args(["--deadline", &deadline.to_string()]);
    let guard = match options.guard {
        nt::Guard::Full => "full",
        nt::Guard::Exact => "exact",
        nt::Guard::Sampled => "sampled",
        nt::Guard::Off => "off",
    };
    command.args(["--guard", guard]);
    let FlightLimits { time, events, memory } = flight_limits();
    for (option, limit) in
        [("--max-time", time), ("--max-events", events), ("--max-memory", memory)]
    {
        command.args([option, &limit.to_string()]);
    }
    command.args(["--channel", &channel.descriptor().to_string()]);
    command.args(["--parent", &std::process::id().to_string()]);
    if let Some(folder) = &options.files {
        command.arg("--files").arg(folder);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_wrote_is_read_and_a_line_that_is_none_of_it_is_our_fault() {
        let channel = Channel::create().unwrap();
        channel.append(b"1 t0 c5 driver-pointer:4 pool.allocated bytes=32 tag=Wtdr\n");
        channel.append(b"2 t0 - driver-pointer:4 driver-handle.set of=allocation:1\n");
        channel.append(b"=stack 2 10 ff\n=thread 2 1 20\n");
        let read = ChildText::read(&channel).unwrap();
        assert_eq!((read.events.len(), read.need, read.is_overwritten), (2, None, false));
        assert_eq!(read.stacks.own[&2], [0x10, 0xff]);
        assert_eq!(read.stacks.other[&2].frames, [0x20]);
        assert!(read.end.is_none());
        let end = serde_json::to_string(&FlightEnd::default()).unwrap();
        channel.append_end(format!("{END}{end}\n").as_bytes());
        assert!(ChildText::read(&channel).unwrap().end.is_some());
        channel.append(b"no event\n");
        let Err(HostError(why)) = ChildText::read(&channel) else { panic!("it is read") };
        assert!(why.ends_with("wrote what is no event: no event"), "{why}");
    }
}
