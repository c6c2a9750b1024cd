//! Scenarios as text: one step per line, read from a file and flown (`docs/steps.md`).
//!
//! # Invariants
//!
//! 1. A failed step does not end the scenario: the next step runs.
//! 2. A step is skipped if it has no handle to pass: the create failed, the handle belongs to
//!    another process, or the allocation has no resource.

use crate::private_data::{Command, PrivateData};
use crate::testbed::Testbed;
use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as Flags;
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::{Passive, Spawner};
use kernel::Kernel;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use thunk::{Client, CreateAllocation, CreatedAllocation, DestroyAllocation, PagingStatus};

/// How many allocations one step can create.
const COUNTS: RangeInclusive<usize> = 1..=1000;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Runs until idle.
    RunUntilIdle,
    /// Kills a process.
    Kill(u32),
    /// Acts on a device.
    OnDevice(DeviceLocation, Action),
}

/// A device of a process. Both are created by the first step that needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceLocation {
    /// The number of the process.
    pub process: u32,
    /// The number of the device in the process.
    pub device: u32,
}

/// An action on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates allocations under one name.
    Create {
        /// The owner of the allocations.
        home: OwnerKind,
        /// The name of the allocations and of a new resource.
        name: String,
        /// The number of allocations.
        count: usize,
    },
    /// Opens a shared resource.
    Open {
        /// The name that the creator gave it.
        shared: String,
        /// The name in this device.
        name: String,
    },
    /// Destroys a resource or allocations.
    Destroy {
        /// What to destroy.
        what: DestroyTarget,
        /// With `AssumeNotInUse`.
        assume: bool,
        /// With `SynchronousDestroy`.
        sync: bool,
    },
    /// Submits a packet that fills the first of these allocations.
    Fill(String),
    /// Destroys the device's context.
    DestroyContext,
    /// Destroys the device.
    DestroyDevice,
}

/// The owner of new allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerKind {
    /// No resource.
    Standalone,
    /// A new resource.
    Resource,
    /// A new shared resource.
    Shared,
    /// An existing resource.
    Into(String),
}

/// What a step destroys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DestroyTarget {
    /// A resource with all its allocations.
    Resource(String),
    /// All allocations with these names.
    List(Vec<String>),
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The call succeeded.
    Done,
    /// The call failed.
    Failed,
    /// The step had no handle to pass.
    Skipped,
}

/// A line that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    /// The line number, from one.
    pub line: usize,
    /// What was expected and what was found.
    pub reason: String,
}

const EXPECTED: &str = "expected 'pN dN create alone|resource|shared NAME COUNT', 'pN dN create \
    into RESOURCE NAME COUNT', 'pN dN open SHARED NAME', 'pN dN destroy resource NAME [assume] \
    [sync]', 'pN dN destroy list NAME.. [assume] [sync]', 'pN dN fill NAME', 'pN dN destroy \
    context|device', 'pN kill' or 'settle'";

/// Parses steps, one per line. Empty lines and comments (`#`) are ignored.
pub fn read(text: &str) -> Result<Vec<Step>, StepError> {
    let mut steps = Vec::new();
    let mut known = BTreeSet::new();
    for (line, message) in (1..).zip(text.lines()) {
        let message = message.split('#').next().unwrap_or_default().trim();
        if message.is_empty() {
            continue;
        }
        let bad = |why| StepError { line, reason: why };
        let words: Vec<&str> = message.split_whitespace().collect();
        let step = Step::parse(&words).ok_or_else(|| {
            let limit = passed_limit(&words);
            bad(limit.unwrap_or_else(|| format!("{EXPECTED}; found '{message}'")))
        })?;
        if let Some(name) = step.used_names().into_iter().find(|text| !known.contains(*text)) {
            return Err(bad(format!(
                "expected a name that an earlier line defines; found '{name}'"
            )));
        }
        if let Some(name) = step.defined_name()
            && !known.insert(name.to_owned())
        {
            return Err(bad(format!(
                "expected a new name; '{name}' is defined by an earlier line"
            )));
        }
        steps.push(step);
    }
    if steps.is_empty() {
        let line = text.lines().count().max(1);
        return Err(StepError { line, reason: format!("{EXPECTED}; found no step at all") });
    }
    Ok(steps)
}

/// The limit that a step passes, with the value and the limit; `None` if its syntax is wrong.
fn passed_limit(words: &[&str]) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = [("process", 'p', words.first()), ("device", 'd', words.get(1))];
    for (object, letter, word) in numbers {
        let Some(digits) = word.and_then(|text| text.strip_prefix(letter)) else { continue };
        if is_number(digits) && digits.parse::<u32>().is_err() {
            let limit = u32::MAX;
            return Some(format!("the number of a {object} is at most {limit}; found {digits}"));
        }
    }
    let [_, _, "create", .., count] = words else { return None };
    let counted = is_number(count) && !count.parse().is_ok_and(|it| COUNTS.contains(&it));
    let (least, most) = (COUNTS.start(), COUNTS.end());
    counted.then(|| format!("a step creates {least} to {most} allocations; found {count}"))
}

/// Writes steps as [`read`] reads them.
pub fn write(steps: &[Step]) -> String {
    let lines: Vec<String> = steps.iter().map(Step::to_string).collect();
    lines.join("\n") + "\n"
}

impl Step {
    fn parse(words: &[&str]) -> Option<Self> {
        match words {
            ["settle"] => Some(Step::RunUntilIdle),
            [process, "kill"] => Some(Step::Kill(parse_number(process, 'p')?)),
            [process, device, act @ ..] => {
                let (process, device) = (parse_number(process, 'p')?, parse_number(device, 'd')?);
                Some(Step::OnDevice(DeviceLocation { process, device }, Action::parse(act)?))
            }
            _ => None,
        }
    }

    /// The name that the step defines.
    pub fn defined_name(&self) -> Option<&str> {
        match self {
            Step::OnDevice(_, Action::Create { name, .. } | Action::Open { name, .. }) => {
                Some(name)
            }
            _ => None,
        }
    }

    /// The names that the step uses.
    pub fn used_names(&self) -> Vec<&str> {
        let Step::OnDevice(_, act) = self else { return Vec::new() };
        match act {
            Action::Create { home: OwnerKind::Into(name), .. }
            | Action::Open { shared: name, .. }
            | Action::Destroy { what: DestroyTarget::Resource(name), .. }
            | Action::Fill(name) => vec![name],
            Action::Destroy { what: DestroyTarget::List(names), .. } => {
                names.iter().map(String::as_str).collect()
            }
            Action::Create { .. } | Action::DestroyContext | Action::DestroyDevice => Vec::new(),
        }
    }
}

impl Action {
    fn parse(words: &[&str]) -> Option<Self> {
        let create = |home, name: &str, count: &str| {
            let count = count.parse().ok().filter(|count| COUNTS.contains(count))?;
            Some(Action::Create { home, name: parse_name(name)?, count })
        };
        match words {
            ["create", "alone", name, count] => create(OwnerKind::Standalone, name, count),
            ["create", "resource", name, count] => create(OwnerKind::Resource, name, count),
            ["create", "shared", name, count] => create(OwnerKind::Shared, name, count),
            ["create", "into", home, name, count] => {
                create(OwnerKind::Into(parse_name(home)?), name, count)
            }
            ["open", shared, name] => {
                Some(Action::Open { shared: parse_name(shared)?, name: parse_name(name)? })
            }
            ["destroy", "context"] => Some(Action::DestroyContext),
            ["destroy", "device"] => Some(Action::DestroyDevice),
            ["destroy", kind, rest @ ..] => {
                let (rest, sync) = strip_flag(rest, "sync");
                let (rest, assume) = strip_flag(rest, "assume");
                let names: Vec<String> =
                    rest.iter().map(|text| parse_name(text)).collect::<Option<_>>()?;
                let what = match (*kind, names.as_slice()) {
                    ("resource", [name]) => DestroyTarget::Resource(name.clone()),
                    ("list", [_, ..]) => DestroyTarget::List(names),
                    _ => return None,
                };
                Some(Action::Destroy { what, assume, sync })
            }
            ["fill", name] => Some(Action::Fill(parse_name(name)?)),
            _ => None,
        }
    }
}

/// Removes a trailing flag. Returns the rest, and whether the flag was present.
fn strip_flag<'a, 'w>(words: &'a [&'w str], flag: &str) -> (&'a [&'w str], bool) {
    match words {
        [rest @ .., last] if *last == flag => (rest, true),
        _ => (words, false),
    }
}

/// Parses a number with a letter in front, such as `p1`.
fn parse_number(word: &str, letter: char) -> Option<u32> {
    word.strip_prefix(letter)?.parse().ok()
}

/// Parses a name: a letter, then letters and digits; not a flag.
fn parse_name(word: &str) -> Option<String> {
    let plain = word.chars().all(|character| character.is_ascii_alphanumeric())
        && word.starts_with(|character: char| character.is_ascii_alphabetic());
    (plain && !["assume", "sync"].contains(&word)).then(|| word.to_owned())
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::RunUntilIdle => write!(f, "settle"),
            Step::Kill(process) => write!(f, "p{process} kill"),
            Step::OnDevice(DeviceLocation { process, device }, act) => {
                write!(f, "p{process} d{device} {act}")
            }
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Create { home, name, count } => match home {
                OwnerKind::Standalone => write!(f, "create alone {name} {count}"),
                OwnerKind::Resource => write!(f, "create resource {name} {count}"),
                OwnerKind::Shared => write!(f, "create shared {name} {count}"),
                OwnerKind::Into(home) => write!(f, "create into {home} {name} {count}"),
            },
            Action::Open { shared, name } => write!(f, "open {shared} {name}"),
            Action::Destroy { what, assume, sync } => {
                match what {
                    DestroyTarget::Resource(name) => write!(f, "destroy resource {name}")?,
                    DestroyTarget::List(names) => write!(f, "destroy list {}", names.join(" "))?,
                }
                let flag = |set: bool, word: &'static str| if set { word } else { "" };
                write!(f, "{}{}", flag(*assume, " assume"), flag(*sync, " sync"))
            }
            Action::Fill(name) => write!(f, "fill {name}"),
            Action::DestroyContext => write!(f, "destroy context"),
            Action::DestroyDevice => write!(f, "destroy device"),
        }
    }
}

/// Runs steps against a kernel.
pub struct StepRunner {
    kernel: Arc<Kernel>,
    host: Arc<dyn Spawner>,
    private_data: PrivateData,
    clients: BTreeMap<u32, Client>,
    devices: BTreeMap<DeviceLocation, D3DKMT_HANDLE>,
    contexts: BTreeMap<DeviceLocation, D3DKMT_HANDLE>,
    created: BTreeMap<String, (u32, CreatedAllocation)>,
}

impl StepRunner {
    /// A runner before its first step, for a driver that takes the built-in GPU's private data.
    pub fn new(kernel: &Arc<Kernel>, host: &Arc<dyn Spawner>) -> Self {
        Self {
            kernel: kernel.clone(),
            host: host.clone(),
            private_data: PrivateData::BuiltIn,
            clients: BTreeMap::new(),
            devices: BTreeMap::new(),
            contexts: BTreeMap::new(),
            created: BTreeMap::new(),
        }
    }

    /// Runs a step.
    pub fn run_step(&mut self, at: &mut Passive, step: &Step) -> StepOutcome {
        match step {
            Step::RunUntilIdle => self.host.run_until_idle(at),
            Step::Kill(process) => self.client(*process).kill(at),
            Step::OnDevice(place, act) => {
                return match self.act(at, *place, act) {
                    None => StepOutcome::Skipped,
                    Some(Ok(())) => StepOutcome::Done,
                    Some(Err(_)) => StepOutcome::Failed,
                };
            }
        }
        StepOutcome::Done
    }

    /// Kills the remaining processes.
    pub fn kill_processes(&self, at: &mut Passive) {
        for client in self.clients.values() {
            client.kill(at);
        }
    }

    fn client(&mut self, process: u32) -> Client {
        let kernel = &self.kernel;
        self.clients.entry(process).or_insert_with(|| Client::new(kernel)).clone()
    }

    /// Returns `None` if the step has no handle to pass.
    fn act(
        &mut self,
        at: &mut Passive,
        place: DeviceLocation,
        act: &Action,
    ) -> Option<Result<(), NTSTATUS>> {
        let given = |name: &String| {
            let mine = self.created.get(name).filter(|(owner, _)| *owner == place.process);
            mine.map(|(_, created)| created)
        };
        let resource = |name| {
            given(name)
                .map(|created_allocation| created_allocation.resource)
                .filter(|number| *number != 0)
        };
        Some(match act {
            Action::Create { home, name, count } => {
                let mut create = CreateAllocation::new(0, self.private_data.pages(*count));
                match home {
                    OwnerKind::Standalone => (),
                    OwnerKind::Resource => create = create.with_resource(),
                    OwnerKind::Shared => {
                        create = create.with_resource();
                        create.flags |= Flags::CreateShared;
                    }
                    OwnerKind::Into(home) => create = create.into_resource(resource(home)?),
                }
                self.create(at, place, name, create)
            }
            Action::Open { shared, name } => {
                // A global handle is valid in every process.
                let global = self
                    .created
                    .get(shared)
                    .map(|(_, it)| it.global)
                    .filter(|number| *number != 0)?;
                self.open(at, place, name, global)
            }
            Action::Destroy { what, assume, sync } => {
                let mut destroy = DestroyAllocation {
                    assume_not_in_use: *assume,
                    synchronous: *sync,
                    ..DestroyAllocation::default()
                };
                match what {
                    DestroyTarget::Resource(name) => destroy.resource = resource(name)?,
                    DestroyTarget::List(names) => {
                        let lists: Option<Vec<&CreatedAllocation>> =
                            names.iter().map(given).collect();
                        destroy.list = lists?
                            .iter()
                            .flat_map(|created_allocation| &created_allocation.allocations)
                            .copied()
                            .collect();
                    }
                }
                self.device(at, place).and_then(|device| {
                    self.client(place.process).destroy(at, &DestroyAllocation { device, ..destroy })
                })
            }
            Action::Fill(name) => {
                let target = kernel::Handle(*given(name)?.allocations.first()?);
                let fill = Command::Fill { target, offset: 0, length: 4096, value: 0xa5 };
                self.context(at, place).and_then(|context| {
                    self.make_resident(at, place, target.0)?;
                    let bytes = self.private_data.packet(&[fill]).unwrap_or_default();
                    self.client(place.process).submit(at, context, &bytes)
                })
            }
            Action::DestroyContext => {
                let context = *self.contexts.get(&place)?;
                self.client(place.process).destroy_context(at, context)
            }
            Action::DestroyDevice => {
                let device = *self.devices.get(&place)?;
                self.client(place.process).destroy_device(at, device)
            }
        })
    }

    fn create(
        &mut self,
        at: &mut Passive,
        place: DeviceLocation,
        name: &str,
        create: CreateAllocation,
    ) -> Result<(), NTSTATUS> {
        let (device, joins) = (self.device(at, place)?, create.resource != 0);
        let mut created =
            self.client(place.process).create(at, &CreateAllocation { device, ..create })?;
        if joins {
            created.resource = 0; // The resource has its own name.
        }
        self.created.insert(name.to_owned(), (place.process, created));
        Ok(())
    }

    fn open(
        &mut self,
        at: &mut Passive,
        place: DeviceLocation,
        name: &str,
        global: D3DKMT_HANDLE,
    ) -> Result<(), NTSTATUS> {
        let device = self.device(at, place)?;
        let opened = self.client(place.process).open_resource(at, device, global)?;
        let (resource, allocations) = (opened.resource, opened.allocations);
        let created = CreatedAllocation { resource, allocations, ..CreatedAllocation::default() };
        self.created.insert(name.to_owned(), (place.process, created));
        Ok(())
    }

    /// The device, created on first use.
    fn device(
        &mut self,
        at: &mut Passive,
        place: DeviceLocation,
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        if let Some(device) = self.devices.get(&place) {
            return Ok(*device);
        }
        let client = self.client(place.process);
        let adapter = client.adapters(at)?.first().copied().unwrap_or_default();
        let device = client.create_device(at, adapter)?;
        self.devices.insert(place, device);
        Ok(device)
    }

    /// Makes an allocation resident, if the adapter has memory.
    fn make_resident(
        &mut self,
        at: &mut Passive,
        place: DeviceLocation,
        allocation: D3DKMT_HANDLE,
    ) -> Result<(), NTSTATUS> {
        let (client, device) = (self.client(place.process), self.device(at, place)?);
        let kernel = client.session().kernel();
        if !kernel.has_memory(client.session().process(), kernel::Handle(device)) {
            return Ok(());
        }
        let queue = client.create_paging_queue(at, device, 0)?;
        if let PagingStatus::Pending(value) =
            client.make_resident(at, queue.queue, &[allocation], 0)?
        {
            client.wait(at, device, queue.fence, value)?;
        }
        client.destroy_paging_queue(at, queue.queue)
    }

    /// The device's context on node 0, created on first use.
    fn context(
        &mut self,
        at: &mut Passive,
        place: DeviceLocation,
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let device = self.device(at, place)?;
        if let Some(context) = self.contexts.get(&place) {
            return Ok(*context);
        }
        let context = self.client(place.process).create_context(at, device, 0)?;
        self.contexts.insert(place, context);
        Ok(context)
    }
}

/// Runs all steps, then kills the remaining processes.
pub(crate) fn run(testbed: &mut Testbed<'_>, steps: &[Step]) {
    let mut runner = StepRunner::new(&testbed.kernel, testbed.host);
    runner.private_data = testbed.private_data;
    for step in steps {
        runner.run_step(testbed.at, step);
    }
    runner.kill_processes(testbed.at);
}
