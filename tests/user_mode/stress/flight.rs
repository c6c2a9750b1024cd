//! A flight of two threads over one adapter, and the checks after it.

use super::application::ApplicationThread;
use super::resource::{Counts, SharedState, TestResult, expect_ok, lock};
use flight::{Log, Passive, Spawner, WaitResult};
use harness::Watch;
use kernel::{DriverSetup, Kernel};
use runtime::Runtime;
use softgpu::{MemoryPlan, MmuPlan, SoftGpu};
use std::sync::{Arc, Mutex};
use thunk::Client;
use verify::Severity;
use windtunnel::{Application, HostKind};

/// The machine that a driver is flown on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gpu {
    /// Packets have allocation lists, and memory is small.
    Listed,
    /// Packets have addresses.
    Virtual,
    /// Packets have neither.
    Memory,
}

/// The configuration of the two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    TwoDevices,
    TwoProcesses,
}

/// Two threads with this many resources each.
pub(super) struct StressFlight {
    pub(super) on: HostKind,
    pub(super) gpu: Gpu,
    pub(super) topology: Topology,
    pub(super) resource_count: usize,
    pub(super) seed: u64,
}

impl Gpu {
    fn set_up(self, ram: &Arc<nt::Ram>, log: &Arc<Log>) -> DriverSetup {
        let (plan, little) = (MemoryPlan::default(), 1 << 20);
        let (miniport, machine) = match self {
            Gpu::Listed => SoftGpu::with_lists(
                ram.clone(),
                MemoryPlan { visible: little, local: 64 << 12, aperture: little, ..plan },
            ),
            Gpu::Virtual => {
                let mmu = Some(MmuPlan::default());
                let plan = MemoryPlan { visible: 4 << 20, local: 4 << 20, mmu, ..plan };
                SoftGpu::with_memory(ram.clone(), plan)
            }
            Gpu::Memory => SoftGpu::with_memory(
                ram.clone(),
                MemoryPlan { visible: 4 << 20, local: 4 << 20, ..plan },
            ),
        };
        machine.fill_local(0xdddd_dddd);
        DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(log.clone()) }
    }

    fn umd(self) -> runtime::Umd {
        let name = match self {
            Gpu::Listed => "softgpu-allocation-lists",
            Gpu::Virtual => "softgpu-gpummu",
            Gpu::Memory => "softgpu-memory",
        };
        let umd = drivers::find(name).and_then(|listed| listed.umd);
        umd.unwrap_or_else(|| panic!("{name} has no user-mode driver"))()
    }
}

impl StressFlight {
    pub(super) fn fly(&self) {
        let result = self.try_fly();
        if let Err(why) = result {
            panic!("{:?}, {:?}, {:?}, seed {}: {why}", self.on, self.gpu, self.topology, self.seed);
        }
    }

    fn try_fly(&self) -> TestResult<()> {
        let started = std::time::Instant::now();
        let ram = expect_ok("memory for a machine", nt::Ram::new(256 << 20))?;
        let log = Arc::new(Log::new());
        let setup = self.gpu.set_up(&ram, &log);
        let (before, _gpu) = (ram.allocated_bytes(), setup.hardware.clone());
        let shared = Arc::new(SharedState {
            offered: Default::default(),
            watch: Watch::of(&log),
            counts: Counts::default(),
        });
        let flown =
            self.on.fly(&log, |host, at| self.run_threads(host, at, (&log, setup), &shared));
        expect_ok("the flight", flown.map_err(|why| why.0))??;
        shared.watch.look();
        let seen = shared.watch.seen();
        let loud =
            seen.verifier.findings().iter().filter(|finding| finding.severity > Severity::Note);
        let loud: Vec<_> = loud
            .map(|finding| (finding.rule.name(), finding.component, &*finding.message))
            .collect();
        if !loud.is_empty() {
            return Err(format!("findings: {loud:#?}"));
        }
        windtunnel::keep_tally(seen.verifier.rule_counts());
        windtunnel::keep_tally(&log.rule_counts());
        if let Some(left) = seen.alive.iter().find(|pair| *pair.1 != 0) {
            return Err(format!("came and did not go: {left:?}"));
        }
        if ram.allocated_bytes() != before {
            return Err(format!(
                "{} bytes of the machine's memory are left",
                ram.allocated_bytes() - before
            ));
        }
        println!(
            "{:?} {:?} {:?}: {:?}, {} events, {:?}",
            self.on,
            self.gpu,
            self.topology,
            shared.counts,
            seen.events,
            started.elapsed()
        );
        Ok(())
    }

    fn run_threads(
        &self,
        host: &Arc<dyn Spawner>,
        at: &mut Passive,
        (log, setup): (&Arc<Log>, DriverSetup),
        shared: &Arc<SharedState>,
    ) -> TestResult<()> {
        let kernel = Kernel::new(host.clone(), log.clone());
        if let HostKind::Deterministic { seed, pressure: true } = self.on {
            kernel.set_pressure(seed);
        }
        let (worker, work_available) = (kernel.clone(), kernel.work_available());
        host.spawn_worker("system", work_available, move |at| worker.run_pending_work(at));
        let adapter = kernel.add_adapter(at, setup).map_err(|why| format!("{why:?}"))?;
        kernel.start_workers(host, adapter);
        let (runtime, umd) = (Runtime::new(&kernel), self.gpu.umd());
        let open = |at: &mut Passive| {
            let app = Application::open(&runtime, &Client::new(&kernel), &umd, at);
            app.map_err(|why| why.to_string())
        };
        let first = open(at)?;
        let second = match self.topology {
            Topology::TwoDevices => expect_ok("CreateDevice", first.another_device(at))?,
            Topology::TwoProcesses => open(at)?,
        };
        let wrong = Arc::new(Mutex::new(Vec::new()));
        let work = |thread: usize, app: &Application| {
            let (app, wrong, shared) = (app.clone(), wrong.clone(), shared.clone());
            let (resource_count, random) = (self.resource_count, self.seed * 2 + thread as u64);
            let closes = self.topology == Topology::TwoProcesses;
            host.spawn(&format!("client {}", thread + 1), move |at| {
                let mut application =
                    ApplicationThread { app, shared, thread, random, resources: Vec::new() };
                let mut result = application.run(at, resource_count);
                let app = &application.app;
                if result.is_ok() {
                    let ended = if closes { app.close(at) } else { app.destroy_device(at) };
                    result = ended.map_err(|why| why.to_string());
                }
                if result.is_ok() && app.device.live_objects() > 0 {
                    result = Err(format!(
                        "the runtime's ledger has {} entries",
                        app.device.live_objects()
                    ));
                }
                lock(&wrong).extend(result.err());
            })
        };
        for end in [work(0, &first), work(1, &second)] {
            if host.park(at, &end, None) != WaitResult::Woken {
                return Err("a thread does not end".to_owned());
            }
        }
        if let Some(why) = lock(&wrong).first() {
            return Err(why.clone());
        }
        if self.topology == Topology::TwoDevices {
            // Its device ended with the thread; a new device shows that the adapter still works.
            let last = expect_ok("CreateDevice", first.another_device(at))?;
            expect_ok("the end", last.close(at))?;
        }
        kernel.validate()?;
        kernel.remove_adapter(at, adapter);
        host.run_until_idle(at);
        let left = kernel.live_objects();
        if left.count() == 0 { Ok(()) } else { Err(format!("left alive:\n{left}")) }
    }
}
