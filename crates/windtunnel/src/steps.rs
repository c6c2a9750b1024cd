//! Scenarios as text: one step a line, read from a file and flown (`docs/steps.md`).
//!
//! # Invariants
//!
//! 1. A step is told whatever the steps before it came to; a refusal is an answer, not an end.
//! 2. What a step speaks of and nobody was ever given (its create was refused, it is another
//!    process's, it has no resource) cannot be passed to a call: such a step is skipped.

use crate::tunnel::{Tunnel, pages};
use abi::kmt::D3DKMT_CREATEALLOCATIONFLAGS as Flags;
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::{Crew, Passive};
use kernel::Kernel;
use softgpu::format::{self, Command};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use thunk::{Client, Create, Created, Destroy, Made};

/// No create makes more.
const MOST: usize = 1000;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Everything runs that can.
    Settle,
    /// A process is killed.
    Kill(u32),
    /// Something happens on a device.
    On(Place, Act),
}

/// A device of a process. Both are there from the first step on that needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number of the process.
    pub process: u32,
    /// The number of the device in it.
    pub device: u32,
}

/// What happens on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// So many allocations are created, under one name.
    Create {
        /// Where they belong.
        home: Home,
        /// Their name, and that of a new resource.
        name: String,
        /// How many.
        count: usize,
    },
    /// A shared resource is opened.
    Open {
        /// Its name where it was created.
        shared: String,
        /// Its name here.
        name: String,
    },
    /// Something is destroyed.
    Destroy {
        /// What.
        what: What,
        /// With `AssumeNotInUse`.
        assume: bool,
        /// With `SynchronousDestroy`.
        sync: bool,
    },
    /// Work is submitted that fills the first of these allocations.
    Fill(String),
    /// The device's context is destroyed.
    DestroyContext,
    /// The device is destroyed.
    DestroyDevice,
}

/// Where new allocations belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// Nowhere.
    Alone,
    /// To a new resource.
    Resource,
    /// To a new resource that others may open.
    Shared,
    /// To this resource.
    Into(String),
}

/// What is destroyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A resource, with all its members.
    Resource(String),
    /// All allocations of these names.
    List(Vec<String>),
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The call succeeded.
    Done,
    /// The call was refused.
    Refused,
    /// There was nothing to call with.
    Skipped,
}

/// A line that is no step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from one.
    pub line: usize,
    /// What was expected, and what is there.
    pub why: String,
}

const EXPECTED: &str = "expected 'pN dN create alone|resource|shared NAME COUNT', 'pN dN create \
    into RESOURCE NAME COUNT', 'pN dN open SHARED NAME', 'pN dN destroy resource NAME [assume] \
    [sync]', 'pN dN destroy list NAME.. [assume] [sync]', 'pN dN fill NAME', 'pN dN destroy \
    context|device', 'pN kill' or 'settle'";

/// Reads steps: one a line; empty lines and what follows a `#` say nothing.
pub fn read(text: &str) -> Result<Vec<Step>, BadLine> {
    let mut steps = Vec::new();
    let mut known = BTreeSet::new();
    for (line, said) in (1..).zip(text.lines()) {
        let said = said.split('#').next().unwrap_or_default().trim();
        if said.is_empty() {
            continue;
        }
        let bad = |why| BadLine { line, why };
        let words: Vec<&str> = said.split_whitespace().collect();
        let step = Step::of(&words).ok_or_else(|| bad(format!("{EXPECTED}; found '{said}'")))?;
        if let Some(name) = step.uses().into_iter().find(|it| !known.contains(*it)) {
            return Err(bad(format!("expected a name that a line above gives; found '{name}'")));
        }
        if let Some(name) = step.gives()
            && !known.insert(name.to_owned())
        {
            return Err(bad(format!("expected a new name; '{name}' is given by a line above")));
        }
        steps.push(step);
    }
    if steps.is_empty() {
        let line = text.lines().count().max(1);
        return Err(BadLine { line, why: format!("{EXPECTED}; found no step at all") });
    }
    Ok(steps)
}

/// Writes steps as [`read`] reads them.
pub fn write(steps: &[Step]) -> String {
    let lines: Vec<String> = steps.iter().map(Step::to_string).collect();
    lines.join("\n") + "\n"
}

impl Step {
    fn of(words: &[&str]) -> Option<Self> {
        match words {
            ["settle"] => Some(Step::Settle),
            [process, "kill"] => Some(Step::Kill(numbered(process, 'p')?)),
            [process, device, act @ ..] => {
                let (process, device) = (numbered(process, 'p')?, numbered(device, 'd')?);
                Some(Step::On(Place { process, device }, Act::of(act)?))
            }
            _ => None,
        }
    }

    /// The name it gives.
    pub fn gives(&self) -> Option<&str> {
        match self {
            Step::On(_, Act::Create { name, .. } | Act::Open { name, .. }) => Some(name),
            _ => None,
        }
    }

    /// The names it needs.
    pub fn uses(&self) -> Vec<&str> {
        let Step::On(_, act) = self else { return Vec::new() };
        match act {
            Act::Create { home: Home::Into(name), .. }
            | Act::Open { shared: name, .. }
            | Act::Destroy { what: What::Resource(name), .. }
            | Act::Fill(name) => vec![name],
            Act::Destroy { what: What::List(names), .. } => {
                names.iter().map(String::as_str).collect()
            }
            Act::Create { .. } | Act::DestroyContext | Act::DestroyDevice => Vec::new(),
        }
    }
}

impl Act {
    fn of(words: &[&str]) -> Option<Self> {
        let create = |home, name: &str, count: &str| {
            let count = count.parse().ok().filter(|it| (1..=MOST).contains(it))?;
            Some(Act::Create { home, name: named(name)?, count })
        };
        match words {
            ["create", "alone", name, count] => create(Home::Alone, name, count),
            ["create", "resource", name, count] => create(Home::Resource, name, count),
            ["create", "shared", name, count] => create(Home::Shared, name, count),
            ["create", "into", home, name, count] => create(Home::Into(named(home)?), name, count),
            ["open", shared, name] => {
                Some(Act::Open { shared: named(shared)?, name: named(name)? })
            }
            ["destroy", "context"] => Some(Act::DestroyContext),
            ["destroy", "device"] => Some(Act::DestroyDevice),
            ["destroy", kind, rest @ ..] => {
                let (rest, sync) = without(rest, "sync");
                let (rest, assume) = without(rest, "assume");
                let names: Vec<String> = rest.iter().map(|it| named(it)).collect::<Option<_>>()?;
                let what = match (*kind, names.as_slice()) {
                    ("resource", [name]) => What::Resource(name.clone()),
                    ("list", [_, ..]) => What::List(names),
                    _ => return None,
                };
                Some(Act::Destroy { what, assume, sync })
            }
            ["fill", name] => Some(Act::Fill(named(name)?)),
            _ => None,
        }
    }
}

/// The words without this one at their end, and whether it was there.
fn without<'a, 'w>(words: &'a [&'w str], flag: &str) -> (&'a [&'w str], bool) {
    match words {
        [rest @ .., last] if *last == flag => (rest, true),
        _ => (words, false),
    }
}

/// The number of a word such as `p1`.
fn numbered(word: &str, letter: char) -> Option<u32> {
    word.strip_prefix(letter)?.parse().ok()
}

/// A name: a letter, then letters and digits; not a flag.
fn named(word: &str) -> Option<String> {
    let plain = word.chars().all(|it| it.is_ascii_alphanumeric())
        && word.starts_with(|it: char| it.is_ascii_alphabetic());
    (plain && !["assume", "sync"].contains(&word)).then(|| word.to_owned())
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Settle => write!(f, "settle"),
            Step::Kill(process) => write!(f, "p{process} kill"),
            Step::On(Place { process, device }, act) => write!(f, "p{process} d{device} {act}"),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Create { home, name, count } => match home {
                Home::Alone => write!(f, "create alone {name} {count}"),
                Home::Resource => write!(f, "create resource {name} {count}"),
                Home::Shared => write!(f, "create shared {name} {count}"),
                Home::Into(home) => write!(f, "create into {home} {name} {count}"),
            },
            Act::Open { shared, name } => write!(f, "open {shared} {name}"),
            Act::Destroy { what, assume, sync } => {
                match what {
                    What::Resource(name) => write!(f, "destroy resource {name}")?,
                    What::List(names) => write!(f, "destroy list {}", names.join(" "))?,
                }
                let flag = |set: bool, word: &'static str| if set { word } else { "" };
                write!(f, "{}{}", flag(*assume, " assume"), flag(*sync, " sync"))
            }
            Act::Fill(name) => write!(f, "fill {name}"),
            Act::DestroyContext => write!(f, "destroy context"),
            Act::DestroyDevice => write!(f, "destroy device"),
        }
    }
}

/// Who tells steps to a kernel.
pub struct Teller {
    kernel: Arc<Kernel>,
    host: Arc<dyn Crew>,
    clients: BTreeMap<u32, Client>,
    devices: BTreeMap<Place, D3DKMT_HANDLE>,
    contexts: BTreeMap<Place, D3DKMT_HANDLE>,
    made: BTreeMap<String, (u32, Created)>,
}

impl Teller {
    /// One who has told nothing yet.
    pub fn new(kernel: &Arc<Kernel>, host: &Arc<dyn Crew>) -> Self {
        Self {
            kernel: kernel.clone(),
            host: host.clone(),
            clients: BTreeMap::new(),
            devices: BTreeMap::new(),
            contexts: BTreeMap::new(),
            made: BTreeMap::new(),
        }
    }

    /// Tells a step.
    pub fn tell(&mut self, at: &mut Passive, step: &Step) -> Told {
        match step {
            Step::Settle => self.host.quiet(at),
            Step::Kill(process) => self.client(*process).kill(at),
            Step::On(place, act) => {
                return match self.act(at, *place, act) {
                    None => Told::Skipped,
                    Some(Ok(())) => Told::Done,
                    Some(Err(_)) => Told::Refused,
                };
            }
        }
        Told::Done
    }

    /// Kills whoever is still there.
    pub fn end(&self, at: &mut Passive) {
        for client in self.clients.values() {
            client.kill(at);
        }
    }

    fn client(&mut self, process: u32) -> Client {
        let kernel = &self.kernel;
        self.clients.entry(process).or_insert_with(|| Client::new(kernel)).clone()
    }

    /// `None` where there is nothing to call with.
    fn act(&mut self, at: &mut Passive, place: Place, act: &Act) -> Option<Result<(), NTSTATUS>> {
        let given = |name: &String| {
            let mine = self.made.get(name).filter(|(owner, _)| *owner == place.process);
            mine.map(|(_, made)| made)
        };
        let resource = |name| given(name).map(|it| it.resource).filter(|it| *it != 0);
        Some(match act {
            Act::Create { home, name, count } => {
                let mut create = Create::on(0, pages(*count));
                match home {
                    Home::Alone => (),
                    Home::Resource => create = create.with_resource(),
                    Home::Shared => {
                        create = create.with_resource();
                        create.flags |= Flags::CreateShared;
                    }
                    Home::Into(home) => create = create.into_resource(resource(home)?),
                }
                self.create(at, place, name, create)
            }
            Act::Open { shared, name } => {
                // A global handle means the same in every process.
                let global =
                    self.made.get(shared).map(|(_, it)| it.global).filter(|it| *it != 0)?;
                self.open(at, place, name, global)
            }
            Act::Destroy { what, assume, sync } => {
                let mut destroy = Destroy {
                    assume_not_in_use: *assume,
                    synchronous: *sync,
                    ..Destroy::default()
                };
                match what {
                    What::Resource(name) => destroy.resource = resource(name)?,
                    What::List(names) => {
                        let lists: Option<Vec<&Created>> = names.iter().map(given).collect();
                        destroy.list =
                            lists?.iter().flat_map(|it| &it.allocations).copied().collect();
                    }
                }
                self.device(at, place).and_then(|device| {
                    self.client(place.process).destroy(at, &Destroy { device, ..destroy })
                })
            }
            Act::Fill(name) => {
                let target = kernel::Handle(*given(name)?.allocations.first()?);
                let fill = Command::Fill { target, offset: 0, length: 4096, value: 0xa5 };
                self.context(at, place).and_then(|context| {
                    self.make_resident(at, place, target.0)?;
                    let bytes = format::encode(&[fill]);
                    self.client(place.process).submit(at, context, &bytes)
                })
            }
            Act::DestroyContext => {
                let context = *self.contexts.get(&place)?;
                self.client(place.process).destroy_context(at, context)
            }
            Act::DestroyDevice => {
                let device = *self.devices.get(&place)?;
                self.client(place.process).destroy_device(at, device)
            }
        })
    }

    fn create(
        &mut self,
        at: &mut Passive,
        place: Place,
        name: &str,
        create: Create,
    ) -> Result<(), NTSTATUS> {
        let (device, joins) = (self.device(at, place)?, create.resource != 0);
        let mut made = self.client(place.process).create(at, &Create { device, ..create })?;
        if joins {
            made.resource = 0; // It has a name of its own.
        }
        self.made.insert(name.to_owned(), (place.process, made));
        Ok(())
    }

    fn open(
        &mut self,
        at: &mut Passive,
        place: Place,
        name: &str,
        global: D3DKMT_HANDLE,
    ) -> Result<(), NTSTATUS> {
        let device = self.device(at, place)?;
        let opened = self.client(place.process).open_resource(at, device, global)?;
        let (resource, allocations) = (opened.resource, opened.allocations);
        let made = Created { resource, allocations, ..Created::default() };
        self.made.insert(name.to_owned(), (place.process, made));
        Ok(())
    }

    /// The device, made if it never was.
    fn device(&mut self, at: &mut Passive, place: Place) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        if let Some(device) = self.devices.get(&place) {
            return Ok(*device);
        }
        let client = self.client(place.process);
        let adapter = client.adapters(at)?.first().copied().unwrap_or_default();
        let device = client.create_device(at, adapter)?;
        self.devices.insert(place, device);
        Ok(device)
    }

    /// Makes an allocation resident, where there is memory.
    fn make_resident(
        &mut self,
        at: &mut Passive,
        place: Place,
        allocation: D3DKMT_HANDLE,
    ) -> Result<(), NTSTATUS> {
        let (client, device) = (self.client(place.process), self.device(at, place)?);
        let kernel = client.session().kernel();
        if !kernel.has_memory(client.session().process(), kernel::Handle(device)) {
            return Ok(());
        }
        let queue = client.create_queue(at, device, 0)?;
        if let Made::Pending(value) = client.make_resident(at, queue.queue, &[allocation], 0)? {
            client.wait(at, device, queue.fence, value)?;
        }
        client.destroy_queue(at, queue.queue)
    }

    /// The device's context on node zero, made if it never was.
    fn context(&mut self, at: &mut Passive, place: Place) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let device = self.device(at, place)?;
        if let Some(context) = self.contexts.get(&place) {
            return Ok(*context);
        }
        let context = self.client(place.process).create_context(at, device, 0)?;
        self.contexts.insert(place, context);
        Ok(context)
    }
}

/// Tells all steps, and ends what they leave.
pub(crate) fn tell(tunnel: &mut Tunnel<'_>, steps: &[Step]) {
    let mut teller = Teller::new(&tunnel.kernel, tunnel.host);
    for step in steps {
        teller.tell(tunnel.at, step);
    }
    teller.end(tunnel.at);
}
