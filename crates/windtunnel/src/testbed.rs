//! The testbed of display drivers: a kernel with one driver, and helpers for scenarios.

use crate::private_data::{Command, PrivateData};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED};
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::{EventKind, Log, Passive, Spawner, Subject, WaitResult, WaitToken};
use kernel::power::PowerAction;
use kernel::{AdapterId, Kernel, LiveObjects};
use runtime::{Runtime, Umd};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use thunk::{
    Client, CreateAllocation, CreatedAllocation, DestroyAllocation, PagingQueue, PagingStatus,
};

/// The number of yield points in [`Testbed::pause`].
const PAUSE_YIELDS: u32 = 24;

/// Thirty seconds, in units of 100 nanoseconds.
const HALF_A_MINUTE: u64 = 300_000_000;

/// A running flight of a display driver.
pub struct Testbed<'a> {
    /// The host that runs the flight.
    pub host: &'a Arc<dyn Spawner>,
    /// The IRQL proof of the scenario's thread.
    pub at: &'a mut Passive,
    /// The kernel.
    pub kernel: Arc<Kernel>,
    /// The adapter of the driver under test.
    pub adapter: AdapterId,
    /// The Direct3D runtime.
    pub runtime: Runtime,
    /// The user-mode driver of the driver under test.
    pub umd: Option<Umd>,
    /// The private data that the driver under test takes.
    pub private_data: PrivateData,
    /// Whether the driver executes packets without allocation lists
    /// (`DxgkDdiSubmitCommandVirtual`).
    pub(crate) takes_packets: bool,
    pub(crate) clients: Vec<Client>,
    pub(crate) live_snapshots: Vec<(&'static str, LiveObjects)>,
}

/// The part of a scenario that runs on its own thread.
pub(crate) type ThreadBody = Box<dyn FnOnce(&mut Passive) -> Result<(), ScenarioStopped> + Send>;

/// Why a scenario stopped: what it needs and did not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioStopped {
    need: String,
    /// A step failed that a driver which has what the scenario needs lets succeed.
    is_failed: bool,
}

impl ScenarioStopped {
    /// A step of the scenario failed. Unless the driver refused it, the check is not complete.
    pub fn failed(need: impl Into<String>) -> Self {
        Self { need: need.into(), is_failed: true }
    }

    /// The driver or the adapter does not have what the scenario needs, and need not have it.
    pub fn missing(need: impl Into<String>) -> Self {
        Self { need: need.into(), is_failed: false }
    }

    /// What the scenario needs. A failed step is logged, where it failed.
    pub(crate) fn into_need(self, log: &Log) -> String {
        if self.is_failed {
            log.emit(Subject::RUN, || EventKind::ScenarioStopped {
                need: self.need.clone().into(),
            });
        }
        self.need
    }
}

impl fmt::Display for ScenarioStopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.need)
    }
}

impl std::error::Error for ScenarioStopped {}

/// A client process with a device, as most scenarios need.
#[derive(Clone)]
pub struct TestClient {
    /// The client.
    pub client: Client,
    /// Its adapter handle.
    pub adapter: D3DKMT_HANDLE,
    /// Its device.
    pub device: D3DKMT_HANDLE,
    /// The private data that its driver takes.
    pub private_data: PrivateData,
    /// The paging queues of its devices, created on first use.
    pub(crate) queues: Arc<Mutex<BTreeMap<D3DKMT_HANDLE, PagingQueue>>>,
}

impl Testbed<'_> {
    /// Creates a process.
    pub fn client(&mut self) -> Client {
        let client = Client::new(&self.kernel);
        self.clients.push(client.clone());
        client
    }

    /// Creates a process with a device.
    pub fn test_client(&mut self) -> Result<TestClient, ScenarioStopped> {
        let client = self.client();
        TestClient::open_with(client, self.at, self.private_data)
    }

    /// A context for packets without allocation lists. `None` if the driver does not execute them:
    /// a scenario about memory is then flown without packets.
    pub(crate) fn create_context_for_packets(
        &mut self,
        test_client: &TestClient,
    ) -> Result<Option<D3DKMT_HANDLE>, ScenarioStopped> {
        self.takes_packets.then(|| test_client.create_context(self.at)).transpose()
    }

    /// Runs until no thread and no hardware can make progress.
    pub fn run_until_idle(&mut self) {
        self.host.run_until_idle(self.at);
    }

    /// Yields to other threads a few times.
    pub(crate) fn pause(&mut self) {
        for _ in 0..PAUSE_YIELDS {
            self.host.yield_point(self.at);
        }
    }

    /// Runs until idle, then lets thirty seconds pass, so that timeouts are detected.
    pub fn wait(&mut self) {
        let deadline = self.host.now().saturating_add(HALF_A_MINUTE);
        self.host.park(self.at, &WaitToken::new("half a minute"), Some(deadline));
        self.run_until_idle();
    }

    /// Compacts unused allocations in the adapter's memory, so that the longest free ranges grow;
    /// the driver transfers them. Returns the number of bytes moved.
    pub fn compact(&mut self) -> u64 {
        self.kernel.compact(self.at, self.adapter)
    }

    /// Stops the adapter with all its live objects, and starts it again.
    pub fn restart(&mut self) -> Result<(), ScenarioStopped> {
        self.kernel.stop_adapter(self.at, self.adapter);
        self.kernel.start_adapter(self.at, self.adapter).map_err(|why| {
            ScenarioStopped::failed(format!("a driver that starts again: {}", why.reason()))
        })
    }

    /// Powers the adapter down and up again. Fails if the adapter cannot be powered down.
    pub fn power_cycle(&mut self, action: PowerAction) -> Result<(), ScenarioStopped> {
        if !self.kernel.power_down(self.at, self.adapter, action) {
            return Err(ScenarioStopped::failed("an adapter that powers down"));
        }
        self.kernel.power_up(self.at, self.adapter);
        Ok(())
    }

    /// Surprise-removes the hardware.
    pub fn surprise_remove(&mut self) {
        self.kernel.surprise_remove_adapter(self.at, self.adapter);
    }

    /// Shuts the machine down.
    pub fn reset_device(&mut self) {
        self.kernel.reset_adapter(self.at, self.adapter);
    }

    /// Raises the shared interrupt line for other hardware, once the adapter is idle.
    pub fn shared_line_interrupt(&mut self) {
        self.run_until_idle();
        self.kernel.shared_line_interrupt(self.at, self.adapter);
    }

    /// Takes a snapshot of the live objects for `--live`; `when` names the moment.
    pub fn snapshot_live_objects(&mut self, when: &'static str) {
        let live_objects = self.kernel.live_objects();
        self.live_snapshots.push((when, live_objects));
    }

    /// Runs threads in parallel and waits for all of them.
    pub(crate) fn run_threads(&mut self, threads: Vec<ThreadBody>) -> Result<(), ScenarioStopped> {
        let (text, heard) = std::sync::mpsc::channel();
        let spawn = |(number, body): (usize, ThreadBody)| {
            let text = text.clone();
            self.host.spawn(&format!("client {number}"), move |at| {
                let _ = text.send(body(at)); // The receiver lives until every thread has ended.
            })
        };
        let ends: Vec<WaitToken> = (1..).zip(threads).map(spawn).collect();
        for end in &ends {
            if let WaitResult::Stuck(graph) = self.host.park(self.at, end, None) {
                return Err(ScenarioStopped::failed(format!("its threads to end: {graph}")));
            }
        }
        heard.try_iter().collect()
    }
}

impl TestClient {
    /// Opens the first adapter and creates a device. Private data is the built-in GPU's.
    pub fn open(client: Client, at: &mut Passive) -> Result<Self, ScenarioStopped> {
        Self::open_with(client, at, PrivateData::BuiltIn)
    }

    /// Opens the first adapter, whose driver takes this private data, and creates a device.
    pub fn open_with(
        client: Client,
        at: &mut Passive,
        private_data: PrivateData,
    ) -> Result<Self, ScenarioStopped> {
        let adapters = expect_ok("D3DKMTEnumAdapters2", client.adapters(at))?;
        let adapter = *adapters.first().ok_or(ScenarioStopped::missing("an adapter"))?;
        let device = expect_ok("D3DKMTCreateDevice", client.create_device(at, adapter))?;
        Ok(Self { client, adapter, device, private_data, queues: Arc::default() })
    }

    /// Creates another device of the same process.
    pub fn create_device(&self, at: &mut Passive) -> Result<D3DKMT_HANDLE, ScenarioStopped> {
        expect_ok("D3DKMTCreateDevice", self.client.create_device(at, self.adapter))
    }

    /// Creates `count` one-page allocations outside a resource.
    pub fn create(
        &self,
        at: &mut Passive,
        count: usize,
    ) -> Result<CreatedAllocation, ScenarioStopped> {
        self.create_list(at, self.private_data.pages(count))
    }

    /// Creates allocations outside a resource: in one call, or in one call for each if the driver
    /// rejects a list. Drivers of the built-in GPU take lists.
    pub(crate) fn create_list(
        &self,
        at: &mut Passive,
        private: Vec<Vec<u8>>,
    ) -> Result<CreatedAllocation, ScenarioStopped> {
        let create = CreateAllocation::new(self.device, private.clone());
        let created = self.client.create(at, &create);
        let rejected = matches!(created, Err(STATUS_INVALID_PARAMETER | STATUS_NOT_SUPPORTED))
            && private.len() > 1
            && self.private_data == PrivateData::None;
        if !rejected {
            return expect_ok("D3DKMTCreateAllocation", created);
        }
        let mut list = CreatedAllocation::default();
        for one in private {
            let created = self.create_with(at, &CreateAllocation::new(self.device, vec![one]))?;
            list.allocations.extend(created.allocations);
        }
        Ok(list)
    }

    /// Creates a resource of `count` allocations.
    pub fn create_resource(
        &self,
        at: &mut Passive,
        count: usize,
    ) -> Result<CreatedAllocation, ScenarioStopped> {
        self.create_with(
            at,
            &CreateAllocation::new(self.device, self.private_data.pages(count)).with_resource(),
        )
    }

    /// Calls `D3DKMTCreateAllocation`.
    pub fn create_with(
        &self,
        at: &mut Passive,
        create: &CreateAllocation,
    ) -> Result<CreatedAllocation, ScenarioStopped> {
        expect_ok("D3DKMTCreateAllocation", self.client.create(at, create))
    }

    /// Calls `D3DKMTDestroyAllocation2`.
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

    /// Destroys a list of allocations, without flags.
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

    /// Creates a context on node 0.
    pub fn create_context(&self, at: &mut Passive) -> Result<D3DKMT_HANDLE, ScenarioStopped> {
        self.create_context_on(at, 0)
    }

    /// Creates a context on `node`.
    pub fn create_context_on(
        &self,
        at: &mut Passive,
        node: u32,
    ) -> Result<D3DKMT_HANDLE, ScenarioStopped> {
        let created = self.client.create_context(at, self.device, node);
        expect_ok(&format!("D3DKMTCreateContextVirtual for node {node}"), created)
    }

    /// Creates a context on node 1, or on the only node of the adapter.
    pub(crate) fn create_second_context(
        &self,
        at: &mut Passive,
    ) -> Result<D3DKMT_HANDLE, ScenarioStopped> {
        self.create_context_on(at, self.second_node())
    }

    /// Node 1, or node 0 of an adapter with one node.
    pub(crate) fn second_node(&self) -> u32 {
        let session = self.client.session();
        let info = session.kernel().adapter_info(session.process(), kernel::Handle(self.adapter));
        u32::from(info.is_ok_and(|info| info.nodes > 1))
    }

    /// The paging queue of the device, created on first use.
    pub fn paging_queue(&self, at: &mut Passive) -> Result<PagingQueue, ScenarioStopped> {
        let known = || self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(it) = known().get(&self.device) {
            return Ok(*it);
        }
        let created = self.client.create_paging_queue(at, self.device, 0);
        let created = expect_ok("D3DKMTCreatePagingQueue", created)?;
        // Another thread may have created one too; both are destroyed with their device.
        Ok(*known().entry(self.device).or_insert(created))
    }

    /// Makes allocations resident and waits for the paging fence.
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
                let waited = self.client.wait(at, self.device, queue.fence, value);
                expect_ok("D3DKMTWaitForSynchronizationObjectFromCpu", waited)
            }
            PagingStatus::NoMemory(bytes) => Err(ScenarioStopped::missing(format!(
                "D3DKMTMakeResident to succeed; {bytes} bytes are missing"
            ))),
        }
    }

    /// Whether the adapter has memory: then allocations must be resident before the GPU uses them.
    pub fn has_memory(&self) -> bool {
        let session = self.client.session();
        session.kernel().has_memory(session.process(), kernel::Handle(self.device))
    }

    /// Submits a packet that fills an allocation.
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

    /// Submits commands. If the adapter has memory, makes their allocations resident first.
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
        let bytes = self.private_data.packet(commands)?;
        expect_ok("D3DKMTSubmitCommand", self.client.submit(at, context, &bytes))
    }

    /// Destroys the given contexts and the device, closes the adapter, ends the process.
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

/// The allocations that a command uses.
fn command_handles(command: &Command) -> Vec<kernel::Handle> {
    match command {
        Command::Fill { target, .. } => vec![*target],
        Command::Copy { from, to, .. } => vec![*from, *to],
        Command::Hang | Command::FillAt { .. } | Command::CopyAt { .. } => Vec::new(),
    }
}

/// Returns the value of a successful call; stops the scenario otherwise.
pub(crate) fn expect_ok<T>(call: &str, answer: Result<T, NTSTATUS>) -> Result<T, ScenarioStopped> {
    answer.map_err(|status| {
        ScenarioStopped::failed(format!("{call} to succeed; it returned {}", status_name(status)))
    })
}

/// Checks that a call failed with `status`; stops the scenario otherwise.
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
    Err(ScenarioStopped::failed(format!(
        "{call} to return {}; it returned {text}",
        status_name(status)
    )))
}

/// The name of a status, or its number.
fn status_name(status: NTSTATUS) -> String {
    abi::status::name(status)
        .map_or_else(|| format!("{:#010x}", status.cast_unsigned()), Into::into)
}
