//! A flight of two threads over one adapter, and the checks after it.

use super::artist::Artist;
use super::thing::{Counts, Table, Tried, good, held};
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
pub(super) enum Whose {
    TwoDevices,
    TwoProcesses,
}

/// Two threads with this many resources each.
pub(super) struct Story {
    pub(super) on: HostKind,
    pub(super) gpu: Gpu,
    pub(super) whose: Whose,
    pub(super) lives: usize,
    pub(super) seed: u64,
}

impl Gpu {
    fn plug(self, ram: &Arc<nt::Ram>, log: &Arc<Log>) -> DriverSetup {
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

impl Story {
    pub(super) fn tell(&self) {
        let told = self.attempt();
        if let Err(why) = told {
            panic!("{:?}, {:?}, {:?}, seed {}: {why}", self.on, self.gpu, self.whose, self.seed);
        }
    }

    fn attempt(&self) -> Tried<()> {
        let started = std::time::Instant::now();
        let ram = good("memory for a machine", nt::Ram::new(256 << 20))?;
        let log = Arc::new(Log::new());
        let plugged = self.gpu.plug(&ram, &log);
        let (before, _gpu) = (ram.allocated_bytes(), plugged.hardware.clone());
        let table = Arc::new(Table {
            offered: Default::default(),
            watch: Watch::of(&log),
            counts: Counts::default(),
        });
        let flown = self.on.fly(&log, |host, at| self.fly(host, at, (&log, plugged), &table));
        good("the flight", flown.map_err(|why| why.0))??;
        table.watch.look();
        let seen = table.watch.seen();
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
            self.whose,
            table.counts,
            seen.events,
            started.elapsed()
        );
        Ok(())
    }

    fn fly(
        &self,
        host: &Arc<dyn Spawner>,
        at: &mut Passive,
        (log, plugged): (&Arc<Log>, DriverSetup),
        table: &Arc<Table>,
    ) -> Tried<()> {
        let kernel = Kernel::new(host.clone(), log.clone());
        if let HostKind::Deterministic { seed, pressure: true } = self.on {
            kernel.set_pressure(seed);
        }
        let (worker, work_available) = (kernel.clone(), kernel.work_available());
        host.spawn_worker("system", work_available, move |at| worker.run_pending_work(at));
        let adapter = kernel.add_adapter(at, plugged).map_err(|why| format!("{why:?}"))?;
        kernel.start_workers(host, adapter);
        let (runtime, umd) = (Runtime::new(&kernel), self.gpu.umd());
        let open = |at: &mut Passive| {
            let app = Application::open(&runtime, &Client::new(&kernel), &umd, at);
            app.map_err(|why| why.0)
        };
        let first = open(at)?;
        let second = match self.whose {
            Whose::TwoDevices => good("CreateDevice", first.another_device(at))?,
            Whose::TwoProcesses => open(at)?,
        };
        let wrong = Arc::new(Mutex::new(Vec::new()));
        let work = |me: usize, app: &Application| {
            let (app, wrong, table) = (app.clone(), wrong.clone(), table.clone());
            let (lives, random) = (self.lives, self.seed * 2 + me as u64);
            let closes = self.whose == Whose::TwoProcesses;
            host.spawn(&format!("client {}", me + 1), move |at| {
                let mut artist = Artist { app, table, me, random, things: Vec::new() };
                let mut told = artist.live(at, lives);
                let app = &artist.app;
                if told.is_ok() {
                    let ended = if closes { app.close(at) } else { app.destroy_device(at) };
                    told = ended.map_err(|why| why.0);
                }
                if told.is_ok() && app.device.live_objects() > 0 {
                    told = Err(format!(
                        "the runtime's books have {} entries",
                        app.device.live_objects()
                    ));
                }
                held(&wrong).extend(told.err());
            })
        };
        for end in [work(0, &first), work(1, &second)] {
            if host.park(at, &end, None) != WaitResult::Woken {
                return Err("a thread does not end".to_owned());
            }
        }
        if let Some(why) = held(&wrong).first() {
            return Err(why.clone());
        }
        if self.whose == Whose::TwoDevices {
            // Its device ended with the thread; a new device shows that the adapter still works.
            let last = good("CreateDevice", first.another_device(at))?;
            good("the end", last.close(at))?;
        }
        kernel.validate()?;
        kernel.remove_adapter(at, adapter);
        host.run_until_idle(at);
        let left = kernel.live_objects();
        if left.count() == 0 { Ok(()) } else { Err(format!("left alive:\n{left}")) }
    }
}
