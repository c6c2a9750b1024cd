//! The tunnel: a kernel with one driver in it, and what a scenario needs to make things happen.

use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::{Crew, Passive, Ticket, Woken};
use kernel::power::PowerAction;
use kernel::{AdapterId, Census, Kernel};
use runtime::{Runtime, Umd};
use softgpu::format::{self, Command};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use thunk::{Client, Create, Created, Destroy, Made, PagingQueue};

/// How often one who pauses lets others go on.
const MOMENT: u32 = 24;

/// In units of 100 nanoseconds.
const HALF_A_MINUTE: u64 = 300_000_000;

/// A flight under way.
pub struct Tunnel<'a> {
    /// Who runs it.
    pub host: &'a Arc<dyn Crew>,
    /// The level of the thread that tells the story.
    pub at: &'a mut Passive,
    /// The kernel.
    pub kernel: Arc<Kernel>,
    /// The adapter of the driver under test.
    pub adapter: AdapterId,
    /// The Direct3D runtime.
    pub runtime: Runtime,
    /// The user-mode driver that belongs to the driver under test.
    pub umd: Option<Umd>,
    pub(crate) clients: Vec<Client>,
    pub(crate) looks: Vec<(&'static str, Census)>,
}

/// A part of a story, told on a thread of its own.
pub(crate) type Thread = Box<dyn FnOnce(&mut Passive) -> Result<(), Stopped> + Send>;

/// A story that could not go on: a call was not answered as the story needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped(pub String);

/// A client with a device and a context, as most stories want.
#[derive(Clone)]
pub struct Bench {
    /// The client.
    pub client: Client,
    /// Its adapter handle.
    pub adapter: D3DKMT_HANDLE,
    /// Its device.
    pub device: D3DKMT_HANDLE,
    /// The queues of its devices, once they had paging work.
    pub(crate) queues: Arc<Mutex<BTreeMap<D3DKMT_HANDLE, PagingQueue>>>,
}

impl Tunnel<'_> {
    /// A new process.
    pub fn client(&mut self) -> Client {
        let client = Client::new(&self.kernel);
        self.clients.push(client.clone());
        client
    }

    /// A new process with a device.
    pub fn bench(&mut self) -> Result<Bench, Stopped> {
        let client = self.client();
        Bench::open(client, self.at)
    }

    /// Lets everything run that can.
    pub fn settle(&mut self) {
        self.host.quiet(self.at);
    }

    /// Lets others go on for a moment.
    pub(crate) fn pause(&mut self) {
        for _ in 0..MOMENT {
            self.host.breathe(self.at);
        }
    }

    /// Lets everything run that can, and then half a minute pass: what does not move by then is
    /// found.
    pub fn wait(&mut self) {
        let deadline = self.host.now().saturating_add(HALF_A_MINUTE);
        self.host.park(self.at, &Ticket::new("half a minute"), Some(deadline));
        self.settle();
    }

    /// Moves what nobody uses together in the adapter's memory, so that the longest free ranges
    /// grow: the driver pages it. Answers how many bytes have another place.
    pub fn compact(&mut self) -> u64 {
        self.kernel.compact(self.at, self.adapter)
    }

    /// Stops the adapter, with everything that is alive on it, and starts it again.
    pub fn restart(&mut self) -> Result<(), Stopped> {
        self.kernel.stop_adapter(self.at, self.adapter);
        self.kernel.start_adapter(self.at, self.adapter).map_err(|why| {
            Stopped(format!(
                "a driver that starts again: {} answered {}",
                why.entry,
                why.why.name()
            ))
        })
    }

    /// Takes the power from the adapter and gives it back.
    pub fn sleep(&mut self, action: PowerAction) -> Result<(), Stopped> {
        if !self.kernel.power_down(self.at, self.adapter, action) {
            return Err(Stopped("an adapter that sleeps".to_owned()));
        }
        self.kernel.power_up(self.at, self.adapter);
        Ok(())
    }

    /// Pulls the hardware out.
    pub fn pull(&mut self) {
        self.kernel.pull_adapter(self.at, self.adapter);
    }

    /// Has the machine go down.
    pub fn reset(&mut self) {
        self.kernel.reset_adapter(self.at, self.adapter);
    }

    /// Raises the interrupt line for hardware that is not the adapter's, when that is at rest:
    /// lines are shared.
    pub fn interrupt_of_another(&mut self) {
        self.settle();
        self.kernel.interrupt_of_another(self.at, self.adapter);
    }

    /// Takes a look at who is alive, for whoever asked to see it.
    pub fn look(&mut self, when: &'static str) {
        let census = self.kernel.census();
        self.looks.push((when, census));
    }

    /// Runs threads side by side and waits for all of them.
    pub(crate) fn side_by_side(&mut self, threads: Vec<Thread>) -> Result<(), Stopped> {
        let (said, heard) = std::sync::mpsc::channel();
        let spawn = |(number, body): (usize, Thread)| {
            let said = said.clone();
            self.host.spawn(&format!("client {number}"), move |at| {
                let _ = said.send(body(at)); // Somebody listens until all have ended.
            })
        };
        let ends: Vec<Ticket> = (1..).zip(threads).map(spawn).collect();
        for end in &ends {
            if let Woken::Stuck(graph) = self.host.park(self.at, end, None) {
                return Err(Stopped(format!("its threads to end: {graph}")));
            }
        }
        heard.try_iter().collect()
    }
}

impl Bench {
    /// A process with a device on the first adapter.
    pub fn open(client: Client, at: &mut Passive) -> Result<Self, Stopped> {
        let adapters = wanted("D3DKMTEnumAdapters2", client.adapters(at))?;
        let adapter = *adapters.first().ok_or(Stopped("an adapter".to_owned()))?;
        let device = wanted("D3DKMTCreateDevice", client.create_device(at, adapter))?;
        Ok(Self { client, adapter, device, queues: Arc::default() })
    }

    /// Another device of the same process.
    pub fn device(&self, at: &mut Passive) -> Result<D3DKMT_HANDLE, Stopped> {
        wanted("D3DKMTCreateDevice", self.client.create_device(at, self.adapter))
    }

    /// Creates `count` allocations of a page, not in a resource.
    pub fn create(&self, at: &mut Passive, count: usize) -> Result<Created, Stopped> {
        self.make(at, &Create::on(self.device, pages(count)))
    }

    /// Creates a resource of `count` allocations.
    pub fn create_resource(&self, at: &mut Passive, count: usize) -> Result<Created, Stopped> {
        self.make(at, &Create::on(self.device, pages(count)).with_resource())
    }

    /// Creates as told.
    pub fn make(&self, at: &mut Passive, create: &Create) -> Result<Created, Stopped> {
        wanted("D3DKMTCreateAllocation", self.client.create(at, create))
    }

    /// Destroys as told.
    pub fn destroy(&self, at: &mut Passive, destroy: &Destroy) -> Result<(), Stopped> {
        wanted("D3DKMTDestroyAllocation2", self.client.destroy(at, destroy))
    }

    /// Destroys a resource, without flags.
    pub fn destroy_resource(
        &self,
        at: &mut Passive,
        resource: D3DKMT_HANDLE,
    ) -> Result<(), Stopped> {
        self.destroy(at, &Destroy { device: self.device, resource, ..Destroy::default() })
    }

    /// Destroys a list, without flags.
    pub fn destroy_list(&self, at: &mut Passive, list: &[D3DKMT_HANDLE]) -> Result<(), Stopped> {
        let list = list.to_vec();
        self.destroy(at, &Destroy { device: self.device, list, ..Destroy::default() })
    }

    /// A context on node zero.
    pub fn context(&self, at: &mut Passive) -> Result<D3DKMT_HANDLE, Stopped> {
        self.context_on(at, 0)
    }

    /// A context on that node.
    pub fn context_on(&self, at: &mut Passive, node: u32) -> Result<D3DKMT_HANDLE, Stopped> {
        let made = self.client.create_context(at, self.device, node);
        wanted(&format!("D3DKMTCreateContextVirtual for node {node}"), made)
    }

    /// The queue of its device's paging work: made when it is asked for first.
    pub fn queue(&self, at: &mut Passive) -> Result<PagingQueue, Stopped> {
        let known = || self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(it) = known().get(&self.device) {
            return Ok(*it);
        }
        let made = self.client.create_queue(at, self.device, 0);
        let made = wanted("D3DKMTCreatePagingQueue", made)?;
        // A thread that was faster has made one, too; both end with their device.
        Ok(*known().entry(self.device).or_insert(made))
    }

    /// Makes allocations resident, and waits until they are.
    pub fn resident(&self, at: &mut Passive, list: &[D3DKMT_HANDLE]) -> Result<(), Stopped> {
        let queue = self.queue(at)?;
        let made = self.client.make_resident(at, queue.queue, list, 0);
        match wanted("D3DKMTMakeResident", made)? {
            Made::Resident => Ok(()),
            Made::Pending(value) => {
                let waited = self.client.wait(at, self.device, queue.fence, value);
                wanted("D3DKMTWaitForSynchronizationObjectFromCpu", waited)
            }
            Made::NoRoom(bytes) => {
                Err(Stopped(format!("D3DKMTMakeResident to succeed; {bytes} bytes are missing")))
            }
        }
    }

    /// Whether its adapter has memory, so that what the GPU uses has to be resident.
    pub fn has_memory(&self) -> bool {
        let session = self.client.session();
        session.kernel().has_memory(session.process(), kernel::Handle(self.device))
    }

    /// Has an allocation filled.
    pub fn fill(
        &self,
        at: &mut Passive,
        context: D3DKMT_HANDLE,
        target: D3DKMT_HANDLE,
    ) -> Result<(), Stopped> {
        let fill =
            Command::Fill { target: kernel::Handle(target), offset: 0, length: 4096, value: 0xa5 };
        self.submit(at, context, &[fill])
    }

    /// Submits commands; where there is memory, what they name is made resident first.
    pub fn submit(
        &self,
        at: &mut Passive,
        context: D3DKMT_HANDLE,
        commands: &[Command],
    ) -> Result<(), Stopped> {
        let named: Vec<D3DKMT_HANDLE> = commands.iter().flat_map(names).map(|it| it.0).collect();
        if !named.is_empty() && self.has_memory() {
            self.resident(at, &named)?;
        }
        let bytes = format::encode(commands);
        wanted("D3DKMTSubmitCommand", self.client.submit(at, context, &bytes))
    }

    /// Ends everything in good order: contexts given, the device, the adapter, the process.
    pub fn close(&self, at: &mut Passive, contexts: &[D3DKMT_HANDLE]) -> Result<(), Stopped> {
        for context in contexts {
            wanted("D3DKMTDestroyContext", self.client.destroy_context(at, *context))?;
        }
        wanted("D3DKMTDestroyDevice", self.client.destroy_device(at, self.device))?;
        wanted("D3DKMTCloseAdapter", self.client.close_adapter(at, self.adapter))?;
        self.client.end(at);
        Ok(())
    }
}

/// What a command names.
fn names(command: &Command) -> Vec<kernel::Handle> {
    match command {
        Command::Fill { target, .. } => vec![*target],
        Command::Copy { from, to, .. } => vec![*from, *to],
        Command::Hang | Command::FillAt { .. } | Command::CopyAt { .. } => Vec::new(),
    }
}

/// The private data of `count` allocations of a page.
pub(crate) fn pages(count: usize) -> Vec<Vec<u8>> {
    vec![format::describe(4096); count]
}

/// The answer the story needs, or the story stops.
pub(crate) fn wanted<T>(call: &str, answer: Result<T, NTSTATUS>) -> Result<T, Stopped> {
    answer.map_err(|status| Stopped(format!("{call} to succeed; it answered {}", name(status))))
}

/// A refusal the story needs.
pub(crate) fn refused<T>(
    call: &str,
    answer: &Result<T, NTSTATUS>,
    status: NTSTATUS,
) -> Result<(), Stopped> {
    let said = match answer {
        Err(it) if *it == status => return Ok(()),
        Err(it) => name(*it),
        Ok(_) => "STATUS_SUCCESS".to_owned(),
    };
    Err(Stopped(format!("{call} to answer {}; it answered {said}", name(status))))
}

/// A status, for people.
fn name(status: NTSTATUS) -> String {
    abi::status::name(status)
        .map_or_else(|| format!("{:#010x}", status.cast_unsigned()), Into::into)
}
