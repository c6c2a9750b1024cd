//! The tunnel: a kernel with one driver in it, and what a scenario needs to make things happen.

use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::{Passive, Spawner, WaitResult, WaitToken};
use kernel::power::PowerAction;
use kernel::{AdapterId, Kernel, LiveObjects};
use runtime::{Runtime, Umd};
use softgpu::format::{self, Command};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use thunk::{
    Client, CreateAllocation, CreatedAllocation, DestroyAllocation, PagingQueue, PagingStatus,
};

/// How often one who pauses lets others go on.
const PAUSE_YIELDS: u32 = 24;

/// In units of 100 nanoseconds.
const HALF_A_MINUTE: u64 = 300_000_000;

/// A flight under way.
pub struct Testbed<'a> {
    /// Who runs it.
    pub host: &'a Arc<dyn Spawner>,
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
    pub(crate) live_snapshots: Vec<(&'static str, LiveObjects)>,
}

/// A part of a story, told on a thread of its own.
pub(crate) type ThreadBody = Box<dyn FnOnce(&mut Passive) -> Result<(), ScenarioStopped> + Send>;

/// A story that could not go on: a call was not answered as the story needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioStopped(pub String);

/// A client with a device and a context, as most stories want.
#[derive(Clone)]
pub struct TestClient {
    /// The client.
    pub client: Client,
    /// Its adapter handle.
    pub adapter: D3DKMT_HANDLE,
    /// Its device.
    pub device: D3DKMT_HANDLE,
    /// The queues of its devices, once they had paging work.
    pub(crate) queues: Arc<Mutex<BTreeMap<D3DKMT_HANDLE, PagingQueue>>>,
}

impl Testbed<'_> {
    /// A new process.
    pub fn client(&mut self) -> Client {
        let client = Client::new(&self.kernel);
        self.clients.push(client.clone());
        client
    }

    /// A new process with a device.
    pub fn test_client(&mut self) -> Result<TestClient, ScenarioStopped> {
        let client = self.client();
        TestClient::open(client, self.at)
    }

    /// Lets everything run that can.
    pub fn run_until_idle(&mut self) {
        self.host.run_until_idle(self.at);
    }

    /// Lets others go on for a moment.
    pub(crate) fn pause(&mut self) {
        for _ in 0..PAUSE_YIELDS {
            self.host.yield_point(self.at);
        }
    }

    /// Lets everything run that can, and then half a minute pass: what does not move by then is
    /// found.
    pub fn wait(&mut self) {
        let deadline = self.host.now().saturating_add(HALF_A_MINUTE);
        self.host.park(self.at, &WaitToken::new("half a minute"), Some(deadline));
        self.run_until_idle();
    }

    /// Moves what nobody uses together in the adapter's memory, so that the longest free ranges
    /// grow: the driver pages it. Answers how many bytes have another place.
    pub fn compact(&mut self) -> u64 {
        self.kernel.compact(self.at, self.adapter)
    }

    /// Stops the adapter, with everything that is alive on it, and starts it again.
    pub fn restart(&mut self) -> Result<(), ScenarioStopped> {
        self.kernel.stop_adapter(self.at, self.adapter);
        self.kernel.start_adapter(self.at, self.adapter).map_err(|why| {
            ScenarioStopped(format!(
                "a driver that starts again: {} answered {}",
                why.entry,
                why.why.name()
            ))
        })
    }

    /// Takes the power from the adapter and gives it back.
    pub fn power_cycle(&mut self, action: PowerAction) -> Result<(), ScenarioStopped> {
        if !self.kernel.power_down(self.at, self.adapter, action) {
            return Err(ScenarioStopped("an adapter that sleeps".to_owned()));
        }
        self.kernel.power_up(self.at, self.adapter);
        Ok(())
    }

    /// Pulls the hardware out.
    pub fn surprise_remove(&mut self) {
        self.kernel.surprise_remove_adapter(self.at, self.adapter);
    }

    /// Has the machine go down.
    pub fn reset_device(&mut self) {
        self.kernel.reset_adapter(self.at, self.adapter);
    }

    /// Raises the interrupt line for hardware that is not the adapter's, when that is at rest:
    /// lines are shared.
    pub fn shared_line_interrupt(&mut self) {
        self.run_until_idle();
        self.kernel.shared_line_interrupt(self.at, self.adapter);
    }

    /// Takes a look at who is alive, for whoever asked to see it.
    pub fn snapshot_live_objects(&mut self, when: &'static str) {
        let census = self.kernel.live_objects();
        self.live_snapshots.push((when, census));
    }

    /// Runs threads side by side and waits for all of them.
    pub(crate) fn run_threads(&mut self, threads: Vec<ThreadBody>) -> Result<(), ScenarioStopped> {
        let (text, heard) = std::sync::mpsc::channel();
        let spawn = |(number, body): (usize, ThreadBody)| {
            let text = text.clone();
            self.host.spawn(&format!("client {number}"), move |at| {
                let _ = text.send(body(at)); // Somebody listens until all have ended.
            })
        };
        let ends: Vec<WaitToken> = (1..).zip(threads).map(spawn).collect();
        for end in &ends {
            if let WaitResult::Stuck(graph) = self.host.park(self.at, end, None) {
                return Err(ScenarioStopped(format!("its threads to end: {graph}")));
            }
        }
        heard.try_iter().collect()
    }
}

impl TestClient {
    /// A process with a device on the first adapter.
    pub fn open(client: Client, at: &mut Passive) -> Result<Self, ScenarioStopped> {
        let adapters = expect_ok("D3DKMTEnumAdapters2", client.adapters(at))?;
        let adapter = *adapters.first().ok_or(ScenarioStopped("an adapter".to_owned()))?;
        let device = expect_ok("D3DKMTCreateDevice", client.create_device(at, adapter))?;
        Ok(Self { client, adapter, device, queues: Arc::default() })
    }

    /// Another device of the same process.
    pub fn create_device(&self, at: &mut Passive) -> Result<D3DKMT_HANDLE, ScenarioStopped> {
        expect_ok("D3DKMTCreateDevice", self.client.create_device(at, self.adapter))
    }

    /// Creates `count` allocations of a page, not in a resource.
    pub fn create(
        &self,
        at: &mut Passive,
        count: usize,
    ) -> Result<CreatedAllocation, ScenarioStopped> {
        self.create_with(at, &CreateAllocation::new(self.device, page_descriptions(count)))
    }

    /// Creates a resource of `count` allocations.
    pub fn create_resource(
        &self,
        at: &mut Passive,
        count: usize,
    ) -> Result<CreatedAllocation, ScenarioStopped> {
        self.create_with(
            at,
            &CreateAllocation::new(self.device, page_descriptions(count)).with_resource(),
        )
    }

    /// Creates as told.
    pub fn create_with(
        &self,
        at: &mut Passive,
        create: &CreateAllocation,
    ) -> Result<CreatedAllocation, ScenarioStopped> {
        expect_ok("D3DKMTCreateAllocation", self.client.create(at, create))
    }

    /// Destroys as told.
    pub fn destroy_with(
        &self,
        at: &mut Passive,
        destroy: &DestroyAllocation,
    ) -> Result<(), ScenarioStopped> {
        expect_ok("D3DKMTDestroyAllocation2", self.client.destroy(at, destroy))
    }

    /// Destroys a resource, without flags.
    pub fn destroy_resource(
        &self,
        at: &mut Passive,
        resource: D3DKMT_HANDLE,
    ) -> Result<(), ScenarioStopped> {
        self.destroy_with(
            at,
            &DestroyAllocation { device: self.device, resource, ..DestroyAllocation::default() },
        )
    }

    /// Destroys a list, without flags.
    pub fn destroy_list(
        &self,
        at: &mut Passive,
        list: &[D3DKMT_HANDLE],
    ) -> Result<(), ScenarioStopped> {
        let list = list.to_vec();
        self.destroy_with(
            at,
            &DestroyAllocation { device: self.device, list, ..DestroyAllocation::default() },
        )
    }

    /// A context on node zero.
    pub fn create_context(&self, at: &mut Passive) -> Result<D3DKMT_HANDLE, ScenarioStopped> {
        self.create_context_on(at, 0)
    }

    /// A context on that node.
    pub fn create_context_on(
        &self,
        at: &mut Passive,
        node: u32,
    ) -> Result<D3DKMT_HANDLE, ScenarioStopped> {
        let created = self.client.create_context(at, self.device, node);
        expect_ok(&format!("D3DKMTCreateContextVirtual for node {node}"), created)
    }

    /// The queue of its device's paging work: made when it is asked for first.
    pub fn paging_queue(&self, at: &mut Passive) -> Result<PagingQueue, ScenarioStopped> {
        let known = || self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(it) = known().get(&self.device) {
            return Ok(*it);
        }
        let created = self.client.create_paging_queue(at, self.device, 0);
        let created = expect_ok("D3DKMTCreatePagingQueue", created)?;
        // A thread that was faster has made one, too; both end with their device.
        Ok(*known().entry(self.device).or_insert(created))
    }

    /// Makes allocations resident, and waits until they are.
    pub fn make_resident(
        &self,
        at: &mut Passive,
        list: &[D3DKMT_HANDLE],
    ) -> Result<(), ScenarioStopped> {
        let queue = self.paging_queue(at)?;
        let created = self.client.make_resident(at, queue.queue, list, 0);
        match expect_ok("D3DKMTMakeResident", created)? {
            PagingStatus::Resident => Ok(()),
            PagingStatus::Pending(value) => {
                let gpu_wait = self.client.wait(at, self.device, queue.fence, value);
                expect_ok("D3DKMTWaitForSynchronizationObjectFromCpu", gpu_wait)
            }
            PagingStatus::NoMemory(bytes) => Err(ScenarioStopped(format!(
                "D3DKMTMakeResident to succeed; {bytes} bytes are missing"
            ))),
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
    ) -> Result<(), ScenarioStopped> {
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
    ) -> Result<(), ScenarioStopped> {
        let named: Vec<D3DKMT_HANDLE> =
            commands.iter().flat_map(command_handles).map(|handle| handle.0).collect();
        if !named.is_empty() && self.has_memory() {
            self.make_resident(at, &named)?;
        }
        let bytes = format::encode(commands);
        expect_ok("D3DKMTSubmitCommand", self.client.submit(at, context, &bytes))
    }

    /// Ends everything in good order: contexts given, the device, the adapter, the process.
    pub fn close(
        &self,
        at: &mut Passive,
        contexts: &[D3DKMT_HANDLE],
    ) -> Result<(), ScenarioStopped> {
        for context in contexts {
            expect_ok("D3DKMTDestroyContext", self.client.destroy_context(at, *context))?;
        }
        expect_ok("D3DKMTDestroyDevice", self.client.destroy_device(at, self.device))?;
        expect_ok("D3DKMTCloseAdapter", self.client.close_adapter(at, self.adapter))?;
        self.client.end(at);
        Ok(())
    }
}

/// What a command names.
fn command_handles(command: &Command) -> Vec<kernel::Handle> {
    match command {
        Command::Fill { target, .. } => vec![*target],
        Command::Copy { from, to, .. } => vec![*from, *to],
        Command::Hang | Command::FillAt { .. } | Command::CopyAt { .. } => Vec::new(),
    }
}

/// The private data of `count` allocations of a page.
pub(crate) fn page_descriptions(count: usize) -> Vec<Vec<u8>> {
    vec![format::describe(4096); count]
}

/// The answer the story needs, or the story stops.
pub(crate) fn expect_ok<T>(call: &str, answer: Result<T, NTSTATUS>) -> Result<T, ScenarioStopped> {
    answer.map_err(|status| {
        ScenarioStopped(format!("{call} to succeed; it answered {}", status_name(status)))
    })
}

/// A refusal the story needs.
pub(crate) fn expect_error<T>(
    call: &str,
    answer: &Result<T, NTSTATUS>,
    status: NTSTATUS,
) -> Result<(), ScenarioStopped> {
    let text = match answer {
        Err(it) if *it == status => return Ok(()),
        Err(it) => status_name(*it),
        Ok(_) => "STATUS_SUCCESS".to_owned(),
    };
    Err(ScenarioStopped(format!("{call} to answer {}; it answered {text}", status_name(status))))
}

/// A status, for people.
fn status_name(status: NTSTATUS) -> String {
    abi::status::name(status)
        .map_or_else(|| format!("{:#010x}", status.cast_unsigned()), Into::into)
}
