//! A kernel with a driver, clients with a device each, and an optional observer.

use crate::pair_clients::{PairClients, SharingClients, SlowedClient};
use crate::ring::{Ring, TwoPassDriver};
use crate::row_kinds::{Driver, Kind, Watch};
use crate::{MeasureError, noop_driver, wanted};
use abi::D3DKMT_HANDLE;
use flight::trace::Writer;
use flight::{DeterministicHost, Log, Passive, Pool, Spawner};
use kernel::{AdapterId, DriverSetup, Kernel};
use softgpu::{HandlePool, MemoryPlan, SoftGpu, format};
use std::sync::{Arc, Mutex, PoisonError};
use thunk::Client;
use verify::Verifier;

/// The size of an allocation's private data; the other drivers' format has 16 bytes.
const PRIVATE: usize = 32;
/// The number of live allocations while instructions are counted.
const COUNTED: usize = 100;

/// A kernel with a driver.
pub(crate) struct Site {
    kernel: Arc<Kernel>,
    adapter: AdapterId,
    /// The private data of an allocation.
    private: Vec<u8>,
    watcher: Option<Arc<Mutex<EventWatcher>>>,
}

/// A client with a device.
pub(crate) struct Part {
    pub(crate) client: Client,
    pub(crate) device: D3DKMT_HANDLE,
    /// The private data of an allocation.
    pub(crate) private: Vec<u8>,
    watcher: Option<Arc<Mutex<EventWatcher>>>,
}

/// The observer of all events, in order: taking and observing them happens under one lock.
pub(crate) struct EventWatcher {
    log: Arc<Log>,
    verifier: Option<Verifier>,
    trace: Writer<Vec<u8>>,
}

impl Site {
    pub(crate) fn log(kind: &Kind) -> Arc<Log> {
        log(kind.watch)
    }

    pub(crate) fn open(
        host: &Arc<dyn Spawner>,
        at: &mut Passive,
        log: &Arc<Log>,
        kind: &Kind,
    ) -> Result<Self, MeasureError> {
        let kernel = Kernel::new(host.clone(), log.clone());
        let adapter = kernel
            .add_adapter(at, driver_setup(kind.driver, log)?)
            .map_err(|reason| MeasureError(format!("a driver that starts: {}", reason.entry)))?;
        if kind.driver == Driver::BuiltIn {
            serve(host, &kernel, adapter);
        }
        let private =
            if kind.driver == Driver::Idle { vec![0xa5; PRIVATE] } else { format::describe(4096) };
        let watcher = EventWatcher::of(kind.watch, log)
            .map(|event_watcher| Arc::new(Mutex::new(event_watcher)));
        Ok(Self { kernel, adapter, private, watcher })
    }

    /// Creates a process with a device.
    pub(crate) fn part(&self, at: &mut Passive) -> Result<Part, MeasureError> {
        let client = Client::new(&self.kernel);
        let adapters = wanted("D3DKMTEnumAdapters2", client.adapters(at))?;
        let adapter = *adapters.first().ok_or(MeasureError("an adapter".to_owned()))?;
        let device = wanted("D3DKMTCreateDevice", client.create_device(at, adapter))?;
        Ok(Part { client, device, private: self.private.clone(), watcher: self.watcher.clone() })
    }

    /// Ends everything. Fails if the verifier found something: then the measurement is invalid.
    pub(crate) fn close(self, at: &mut Passive, clients: &[&Part]) -> Result<(), MeasureError> {
        for part in clients {
            part.client.kill(at);
        }
        self.kernel.remove_adapter(at, self.adapter);
        let Some(watcher) = self.watcher else { return Ok(()) };
        watcher.lock().unwrap_or_else(PoisonError::into_inner).end()
    }
}

/// A log, with or without an observer.
pub(crate) fn log(watch: Watch) -> Arc<Log> {
    Arc::new(if watch == Watch::Off { Log::silent() } else { Log::new() })
}

fn driver_setup(driver: Driver, log: &Arc<Log>) -> Result<DriverSetup, MeasureError> {
    match driver {
        Driver::Idle => Ok(noop_driver::set_up()),
        Driver::Table => {
            let listed = drivers::find("table");
            let listed = listed.ok_or(MeasureError("a driver with a table".to_owned()))?;
            Ok((listed.make)(log))
        }
        Driver::BuiltIn => {
            // As in the C library.
            let ram = nt::Ram::new(4 << 30);
            let ram =
                ram.map_err(|reason| MeasureError(format!("memory for the machine: {reason}")))?;
            let (miniport, machine) = SoftGpu::with_memory(ram, MemoryPlan::default());
            let pool: Arc<dyn Pool> =
                if log.is_enabled() { nt::Pool::new(log.clone()) } else { HandlePool::new() };
            Ok(DriverSetup { miniport, hardware: machine, pool })
        }
    }
}

/// Starts the threads of the kernel and the hardware, as in the C library.
pub(crate) fn serve(host: &Arc<dyn Spawner>, kernel: &Arc<Kernel>, adapter: AdapterId) {
    let (worker, work_available) = (kernel.clone(), kernel.work_available());
    host.spawn_worker("system", work_available, move |at| worker.run_pending_work(at));
    kernel.start_workers(host, adapter);
}

impl TwoPassDriver<Passive> for Part {
    type Name = D3DKMT_HANDLE;

    fn create(&mut self, at: &mut Passive) -> Result<D3DKMT_HANDLE, MeasureError> {
        let made = self.client.create_one(at, self.device, &mut self.private);
        wanted("D3DKMTCreateAllocation", made)
    }

    fn destroy(&mut self, at: &mut Passive, handle: D3DKMT_HANDLE) -> Result<(), MeasureError> {
        wanted("D3DKMTDestroyAllocation2", self.client.destroy_one(at, self.device, handle))
    }

    fn watch(&mut self) {
        if let Some(watcher) = &self.watcher {
            watcher.lock().unwrap_or_else(PoisonError::into_inner).look();
        }
    }
}

impl EventWatcher {
    /// The observer, if any.
    pub(crate) fn of(watch: Watch, log: &Arc<Log>) -> Option<Self> {
        let verifier = (watch == Watch::Verifier).then(Verifier::new);
        let trace = Writer::new(Vec::new()).ok()?; // Writing to memory cannot fail.
        let it = Self { log: log.clone(), verifier, trace };
        (watch != Watch::Off).then_some(it)
    }

    /// Fails if the verifier found something: then the measurement is invalid.
    pub(crate) fn end(&mut self) -> Result<(), MeasureError> {
        self.look();
        let finding = self.verifier.as_ref().and_then(|verifier| verifier.findings().first());
        finding
            .map_or(Ok(()), |finding| Err(MeasureError(format!("no finding; {}", finding.message))))
    }

    pub(crate) fn look(&mut self) {
        let Self { log, verifier, trace } = self;
        if let Some(verifier) = verifier {
            log.read_chunks(|events| verifier.observe_all(events));
        } else {
            trace.get_mut().clear();
            log.read_chunks(|events| {
                let _ = trace.write(events); // Writing to memory cannot fail.
            });
            let _ = trace.flush();
        }
    }
}

/// The operations whose instructions can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedOperation {
    /// An allocation created and opened, one closed and destroyed.
    Pair,
    /// The same through the C library, with the built-in driver and without a report.
    LibraryPair,
    /// The same as a pair, in a resource that a second process opens by its global handle and
    /// destroys, too.
    SharedPair,
    /// A pair, and a look-up of its device: a planted slow-down.
    SlowedPair,
    /// A packet submitted, completed and retired, one at a time.
    Packet,
    /// The same, 64 at a time: one interrupt for all.
    PacketOf64,
    /// An allocation created and freed through callbacks by a user-mode driver.
    Callback,
    /// A frame of 64 bytes filled, received, read and returned, one at a time.
    Frame,
}

/// Runs `count` operations and nothing else, with the same instructions each time. Pairs and
/// packets run with a hundred live allocations.
pub fn count(what: CountedOperation, watch: Watch, count: usize) -> Result<(), MeasureError> {
    match what {
        CountedOperation::Pair => pairs::<Part>(watch, count),
        CountedOperation::SharedPair => pairs::<SharingClients>(watch, count),
        CountedOperation::SlowedPair => pairs::<SlowedClient>(watch, count),
        CountedOperation::LibraryPair => crate::c_library::counted(COUNTED, count),
        CountedOperation::Packet => crate::packets::counted(watch, 1, count),
        CountedOperation::PacketOf64 => {
            crate::packets::counted(watch, crate::packets::BATCH, count)
        }
        CountedOperation::Callback => crate::umd_calls::counted(watch, count),
        CountedOperation::Frame => crate::streaming::counted(watch, count),
    }
}

fn pairs<C: PairClients>(watch: Watch, count: usize) -> Result<(), MeasureError> {
    let kind = Kind {
        what: "counted",
        way: crate::row_kinds::Way::Deterministic,
        driver: Driver::Idle,
        watch,
        threads: 1,
    };
    let log = Site::log(&kind);
    let flown = DeterministicHost::fly(0, &log, |host, at| {
        let host: Arc<dyn Spawner> = host.clone();
        let fixture = Site::open(&host, at, &log, &kind)?;
        let mut clients = C::open(&fixture, at)?;
        let mut ring = Ring::with_room(COUNTED);
        ring.fill(&mut clients, at)?;
        ring.pairs(&mut clients, at, false, count)?;
        fixture.close(at, &clients.parts())
    });
    flown.map_err(|reason| MeasureError(format!("a flight to end: {reason:?}")))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo xtask bench-page` divides by this number.
    #[test]
    fn a_pair_has_33_events() {
        let log = log(Watch::Trace);
        let events = DeterministicHost::fly(0, &log, |host, at| {
            let host: Arc<dyn Spawner> = host.clone();
            let kind = &crate::row_kinds::KINDS[0];
            let fixture = Site::open(&host, at, &log, kind).unwrap();
            let mut part = fixture.part(at).unwrap();
            log.take();
            let handle = part.create(at).unwrap();
            part.destroy(at, handle).unwrap();
            let events = log.take().len();
            fixture.close(at, &[&part]).unwrap();
            events
        });
        assert_eq!(events.unwrap(), 33);
    }
}
