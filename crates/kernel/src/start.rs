//! Adapters: how a driver starts, how processes name it, how it stops.

use crate::ddi::Driver;
use crate::device::Device;
use crate::device::Loss;
use crate::gate::{Class, Pass, Stuck};
use crate::handle::Handle;
use crate::interrupt::Interrupts;
use crate::kernel::{Kernel, Plugged};
use crate::lock::Once;
use crate::memory::Memory;
use crate::miniport::{Features, Refusal, SchedulingFeatures};
use crate::power::Power;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::schedule::Node;
use crate::services::Services;
use crate::store::Id;
use crate::world::World;
use flight::{Fence, Line, Passive, Ram, Subject, TableRoot, Ticket, What, Written};
use std::fmt;
use std::sync::{Arc, Weak};

/// An adapter without a node takes no work, and none has more than this.
const MOST_NODES: u32 = 64;

/// A driver with its hardware, as clients see it (`hAdapter`).
pub(crate) struct Adapter {
    pub(crate) driver: Arc<Driver>,
    pub(crate) state: State,
    pub(crate) nodes: Vec<Node>,
    /// A DPC was asked for.
    pub(crate) dpc: bool,
    pub(crate) line: Option<Arc<dyn Line>>,
    /// How many names of it are live.
    pub(crate) opens: u32,
    /// Turns of its hardware that are under way.
    pub(crate) interrupting: u32,
    /// DPCs that came one after the other, without a step of the hardware between them.
    pub(crate) dpcs: u32,
    /// Its driver is about to stop: no interrupt and no DPC any more.
    pub(crate) quiet: bool,
    pub(crate) interrupts: Interrupts,
    pub(crate) memory: Option<Memory>,
    pub(crate) scheduling: SchedulingFeatures,
    /// When it was reset.
    pub(crate) resets: Vec<u64>,
    /// The system has stopped because of it.
    pub(crate) fatal: bool,
    pub(crate) power: Power,
}

/// Where an adapter is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Starting,
    Running,
    Stopping,
    /// Its driver has stopped it, and can start it again.
    Halted,
    /// Its driver is gone.
    Stopped,
}

/// How an adapter ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Stopped, and perhaps started again.
    Halted,
    /// Stopped and removed, as somebody asked.
    Removed,
    /// Its hardware was pulled out.
    Pulled,
    /// The machine goes down.
    Reset,
}

/// An adapter, for whoever plugged it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterId(pub(crate) Id<Adapter>);

/// The driver did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartRefused {
    /// The entry that refused.
    pub entry: &'static str,
    /// Its answer.
    pub why: Refusal,
}

impl fmt::Display for StartRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the adapter did not start: {} failed: {}", self.entry, self.why)
    }
}

impl std::error::Error for StartRefused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.why)
    }
}

/// The interrupt line of an adapter.
struct Wire {
    kernel: Weak<Kernel>,
    driver: Arc<Driver>,
}

impl Line for Wire {
    fn raise(&self, at: &mut Passive) {
        let Some(kernel) = self.kernel.upgrade() else { return };
        let number = self.driver.adapter;
        if kernel.world.hold().adapters.get(number).is_none_or(|it| it.quiet) {
            return; // A stopped driver hears no interrupt.
        }
        // A routine that fails is an event; there is nobody to tell.
        let _ = self.driver.interrupt(at);
        if kernel.take_dpc(number) {
            let _ = self.driver.dpc(at);
        }
    }

    fn used(&self, node: u32, fence: Fence, address: u64, bytes: u64) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.judge_use(self.driver.adapter, node, fence, (address, bytes));
        }
    }

    fn wrote(&self, node: u32, fence: Fence, to: Written) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.judge_write(self.driver.adapter, node, fence, to);
        }
    }

    fn saved(&self, node: u32, address: u64) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.judge_save(self.driver.adapter, node, address);
        }
    }

    fn rooted(&self, node: u32, fence: Fence, root: Option<TableRoot>) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.judge_root(self.driver.adapter, node, fence, root);
        }
    }
}

impl AdapterId {
    /// The adapter, for events.
    pub fn subject(self) -> Subject {
        self.0.subject()
    }

    /// Its locally unique id (`AdapterLuid`): never zero, and the same for the adapter's life.
    pub fn luid(self) -> u64 {
        u64::from(self.0.serial()) << 12
    }
}

impl Adapter {
    /// Whether its driver can be called.
    pub(crate) fn runs(&self) -> bool {
        self.state == State::Running && !self.fatal
    }

    /// The driver, while the adapter takes work.
    pub(crate) fn running(&self) -> Option<Arc<Driver>> {
        (self.runs() && !self.fatal).then(|| self.driver.clone())
    }
}

impl Kernel {
    /// Starts a driver: `AddDevice`, `StartDevice`, then what it has.
    pub fn add_adapter(
        self: &Arc<Self>,
        at: &mut Passive,
        plugged: Plugged,
    ) -> Result<AdapterId, StartRefused> {
        let driver = self.new_driver(plugged);
        let started = self.start(at, &driver);
        self.finish_start(&driver, started)
    }

    /// Starts an adapter again that was stopped and not removed: `StartDevice`, then what it has.
    /// One that does not start is removed.
    ///
    /// WINDOWS: `AddDevice` is called once for an adapter, `StartDevice` whenever it starts
    /// (documented). That it keeps its id is our decision.
    pub fn start_adapter(
        self: &Arc<Self>,
        at: &mut Passive,
        adapter: AdapterId,
    ) -> Result<(), StartRefused> {
        let busy = StartRefused { entry: "DxgkDdiStartDevice", why: Refusal::Busy };
        let driver = {
            let mut world = self.world.hold();
            let it = world.adapters.get_mut(adapter.0).filter(|it| it.state == State::Halted);
            let Some(it) = it else { return Err(busy) };
            it.state = State::Starting;
            it.driver.clone()
        };
        let keys = Class::Three.keys(adapter.0, driver.generation, None);
        let started = match self.enter(at, keys) {
            Ok(pass) => self.start_added(at, &driver, &pass),
            Err(Stuck) => Err(busy),
        };
        self.finish_start(&driver, started).map(drop)
    }

    /// An adapter runs, or it does not and is gone.
    fn finish_start(
        self: &Arc<Self>,
        driver: &Arc<Driver>,
        started: Result<AdapterId, StartRefused>,
    ) -> Result<AdapterId, StartRefused> {
        let number = driver.adapter;
        let world = &mut *self.world.hold();
        let Some(it) = world.adapters.get_mut(number) else { return started };
        if started.is_ok() {
            let nodes = u32::try_from(it.nodes.len()).unwrap_or(u32::MAX);
            let generation = match driver.generation {
                crate::miniport::Generation::One => 1,
                crate::miniport::Generation::Two => 2,
            };
            self.log.emit(driver.adapter.subject(), What::AdapterStarted { nodes, generation });
            for (ordinal, node) in (0..).zip(&it.nodes) {
                let adapter = driver.adapter;
                self.log.emit(
                    node.subject(),
                    What::NodeStarted { adapter: adapter.subject(), ordinal },
                );
            }
            it.state = State::Running;
            (it.quiet, it.dpc, it.dpcs) = (false, false, 0);
            let wire = Wire { kernel: Arc::downgrade(self), driver: driver.clone() };
            it.line = Some(Arc::new(wire));
        } else {
            it.state = State::Stopped;
            if it.opens == 0 {
                world.adapters.take(number);
            }
        }
        self.wake(world);
        started
    }

    fn new_driver(self: &Arc<Self>, plugged: Plugged) -> Arc<Driver> {
        let mut world = self.world.hold();
        let adapter = world.adapters.reserve();
        let services = Arc::new(Services {
            kernel: Arc::downgrade(self),
            adapter,
            host: self.host.clone(),
            log: self.log.clone(),
            pool: plugged.pool.clone(),
        });
        let driver = Arc::new(Driver {
            generation: plugged.miniport.generation(),
            miniport: plugged.miniport,
            machine: plugged.machine,
            pool: plugged.pool,
            services,
            bell: Ticket::new(format!("work for the hardware of {adapter}")),
            kernel: Arc::downgrade(self),
            host: self.host.clone(),
            log: self.log.clone(),
            adapter,
            pulled: Once::new(),
        });
        let made = Adapter {
            driver: driver.clone(),
            state: State::Starting,
            nodes: Vec::new(),
            dpc: false,
            line: None,
            opens: 0,
            interrupting: 0,
            dpcs: 0,
            quiet: false,
            interrupts: Interrupts::default(),
            memory: None,
            scheduling: SchedulingFeatures::default(),
            resets: Vec::new(),
            fatal: false,
            power: Power::On,
        };
        world.adapters.fill(adapter, made);
        driver
    }

    fn start(&self, at: &mut Passive, driver: &Driver) -> Result<AdapterId, StartRefused> {
        let number = driver.adapter;
        let stuck = |Stuck| StartRefused { entry: "DxgkDdiAddDevice", why: Refusal::Busy };
        let pass =
            self.enter(at, Class::Three.keys(number, driver.generation, None)).map_err(stuck)?;
        if let Err(why) = driver.add_device(at, &pass) {
            // It never met the adapter, so it has none to remove.
            let _ = driver.unload(at, &pass);
            driver.pool.close();
            return Err(StartRefused { entry: "DxgkDdiAddDevice", why });
        }
        self.start_added(at, driver, &pass)
    }

    /// Starts an adapter that its driver has met.
    fn start_added(
        &self,
        at: &mut Passive,
        driver: &Driver,
        pass: &Pass<'_>,
    ) -> Result<AdapterId, StartRefused> {
        let number = driver.adapter;
        if let Err(why) = driver.start_device(at, pass) {
            remove(at, driver, pass);
            return Err(StartRefused { entry: "DxgkDdiStartDevice", why });
        }
        let features = driver.query_adapter(at, pass);
        let ram = driver.machine.ram();
        let sane = |it: &Features| {
            let sound = self.check_features(driver.adapter.subject(), it);
            let sound = crate::space::check::check_mmu(it) && sound;
            let backed = it.memory.is_none() || ram.is_some();
            (1..=MOST_NODES).contains(&it.nodes) && sound && backed
        };
        match features.and_then(|it| if sane(&it) { Ok(it) } else { Err(Refusal::Invalid) }) {
            Ok(features) => {
                self.try_windows(at, pass, driver, &features);
                self.enter_features(driver, features, ram);
                match self.start_system(at, pass, driver) {
                    Ok(()) => Ok(AdapterId(number)),
                    Err((entry, why)) => {
                        // WINDOWS: what the system has there goes first (observed).
                        self.give_up_memory(number);
                        let _ = driver.stop_device(at, pass);
                        remove(at, driver, pass);
                        Err(StartRefused { entry, why })
                    }
                }
            }
            Err(why) => {
                let _ = driver.stop_device(at, pass);
                remove(at, driver, pass);
                Err(StartRefused { entry: "DxgkDdiQueryAdapterInfo", why })
            }
        }
    }

    /// Enters what an adapter has.
    fn enter_features(&self, driver: &Driver, features: Features, ram: Option<Arc<dyn Ram>>) {
        let number = driver.adapter;
        let world = &mut *self.world.hold();
        if let Some(it) = world.adapters.get_mut(number) {
            it.scheduling = features.scheduling;
        }
        // Numbers of nodes go on over adapters.
        for _ in 0..features.nodes {
            let node = Node::new(world.last_node);
            world.last_node += 1;
            if let Some(it) = world.adapters.get_mut(number) {
                it.nodes.push(node);
            }
        }
        if let (Some(memory), Some(ram)) = (features.memory, ram) {
            self.add_memory(world, driver.adapter, memory, ram);
            if let Some(mmu) = features.mmu {
                world.add_mmu(number, mmu);
            }
        }
    }

    /// Stops a driver, with everything that is alive on its adapter. If somebody does so already,
    /// this waits until it is done.
    pub fn remove_adapter(&self, at: &mut Passive, adapter: AdapterId) {
        self.end_adapter(at, adapter, Ending::Removed);
    }

    /// Stops an adapter, with everything that is alive on it; its driver can start it again
    /// ([`Kernel::start_adapter`]).
    pub fn stop_adapter(&self, at: &mut Passive, adapter: AdapterId) {
        self.end_adapter(at, adapter, Ending::Halted);
    }

    /// Somebody has pulled the hardware out. Its driver is told; what was in flight is lost, and
    /// what it has in memory ends.
    pub fn pull_adapter(&self, at: &mut Passive, adapter: AdapterId) {
        self.end_adapter(at, adapter, Ending::Pulled);
    }

    /// The machine goes down: the driver resets its hardware, and is removed.
    ///
    /// WINDOWS: nothing is called after `DxgkDdiResetDevice`, for there is no machine any more.
    /// Here the driver is stopped and removed, so that what it left is seen.
    pub fn reset_adapter(&self, at: &mut Passive, adapter: AdapterId) {
        self.end_adapter(at, adapter, Ending::Reset);
    }

    /// Takes it on to end an adapter, if nobody else does: answers its driver, and whether that
    /// has started it.
    fn claim_end(
        &self,
        at: &mut Passive,
        adapter: AdapterId,
        ending: Ending,
    ) -> Option<(Arc<Driver>, bool)> {
        loop {
            {
                let mut world = self.world.hold();
                let it = world.adapters.get_mut(adapter.0)?;
                match it.state {
                    State::Running => {
                        it.state = State::Stopping;
                        return Some((it.driver.clone(), true));
                    }
                    State::Halted if ending != Ending::Halted => {
                        it.state = State::Stopping;
                        return Some((it.driver.clone(), false));
                    }
                    State::Halted | State::Stopped => return None,
                    State::Starting | State::Stopping => (),
                }
            }
            let about = adapter.subject();
            let between = |it: &Adapter| matches!(it.state, State::Starting | State::Stopping);
            let over = |it: &World| it.adapters.get(adapter.0).is_none_or(|it| !between(it));
            if !self.wait_until(at, about, |_| format!("the end of {about}"), over) {
                return None;
            }
        }
    }

    fn end_adapter(&self, at: &mut Passive, adapter: AdapterId, ending: Ending) {
        let Some((driver, started)) = self.claim_end(at, adapter, ending) else { return };
        let keys = Class::Three.keys(adapter.0, driver.generation, None);
        if started {
            if ending == Ending::Pulled {
                self.pull(at, adapter, &driver);
            } else {
                self.settle_power(at, adapter);
            }
            // The system's own goes last: paging runs in it.
            let mine = |it: &Device| it.adapter == adapter.0 && it.process.is_some();
            self.end_devices(at, adapter.subject(), None, mine);
            self.end_spaces(at, adapter.0);
            self.end_memory(at, adapter.0);
        }
        if let Ok(pass) = self.enter(at, keys) {
            if started {
                // WINDOWS: level three runs alone with an idle GPU (documented), so nothing is
                // left to interrupt for.
                self.end_system(at, &pass, &driver);
                self.silence(at, adapter);
                stop(at, &driver, &pass, ending);
            }
            if ending != Ending::Halted {
                remove(at, &driver, &pass);
            }
        }
        let mut world = self.world.hold();
        if started {
            self.sweep_saved(&mut world, adapter.0);
            self.log.emit(adapter.subject(), What::AdapterStopped {});
        }
        if let Some(it) = world.adapters.get_mut(adapter.0) {
            let over = if ending == Ending::Halted { State::Halted } else { State::Stopped };
            (it.line, it.state, it.memory) = (None, over, None);
            it.nodes.clear();
            if it.opens == 0 && over == State::Stopped {
                world.adapters.take(adapter.0);
            }
        }
        self.wake(&mut world);
    }

    /// The hardware of an adapter is gone: its driver hears of it first, then all that it had to
    /// do is lost.
    fn pull(&self, at: &mut Passive, adapter: AdapterId, driver: &Driver) {
        let about = adapter.subject();
        self.silence(at, adapter);
        let keys = Class::Three.keys(adapter.0, driver.generation, None);
        if let Ok(pass) = self.enter_inside(at, &keys) {
            driver.pulled_out(at, &pass);
            self.log.emit(about, What::AdapterPulled {});
        }
        self.open_gate(adapter); // Who waited for its power waits in vain.
        let devices: Vec<Id<Device>> = {
            let world = self.world.hold();
            let mine = world.devices.iter().filter(|(_, it)| it.adapter == adapter.0);
            mine.map(|(number, _)| number).collect()
        };
        for device in devices {
            self.lose_device(device, Loss::Stopped);
        }
        self.lose_paging(adapter.0);
        // Engines that are gone save nothing any more.
        let world = &mut *self.world.hold();
        let nodes = world.adapters.get_mut(adapter.0).into_iter().flat_map(|it| &mut it.nodes);
        let subjects: Vec<Subject> = nodes
            .map(|it| {
                it.ghosts.clear();
                it.subject()
            })
            .collect();
        for node in subjects {
            self.switch(world, adapter.0, node, None);
        }
        self.settle_saved(world);
    }

    /// A driver about to stop hears no interrupt any more: what is under way ends first.
    fn silence(&self, at: &mut Passive, adapter: AdapterId) {
        if let Some(it) = self.world.hold().adapters.get_mut(adapter.0) {
            (it.quiet, it.dpc) = (true, false);
        }
        let over = |it: &World| it.adapters.get(adapter.0).is_none_or(|it| it.interrupting == 0);
        let about = adapter.subject();
        self.wait_until(at, about, |_| format!("the interrupts of {about}"), over);
    }

    pub(crate) fn take_dpc(&self, adapter: Id<Adapter>) -> bool {
        let mut world = self.world.hold();
        world.adapters.get_mut(adapter).is_some_and(|it| std::mem::take(&mut it.dpc) && !it.quiet)
    }

    /// What rings when [`Kernel::turn`] may find something.
    pub fn machine_bell(&self, adapter: AdapterId) -> Option<Ticket> {
        self.world.hold().adapters.get(adapter.0).map(|it| it.driver.bell.clone())
    }

    /// Has a host move an adapter's hardware, and look at the time for it.
    pub fn attend(self: &Arc<Self>, host: &Arc<dyn flight::Crew>, adapter: AdapterId) {
        let Some(bell) = self.machine_bell(adapter) else { return };
        let (machine, watch) = (self.clone(), self.clone());
        let due = move |now, late| {
            if late {
                watch.tick(adapter, now);
            }
            watch.deadline(adapter, now)
        };
        host.serve_in_time("hardware", bell, move |at| machine.turn(at, adapter), due);
    }

    /// The adapters that run.
    pub fn adapters(&self) -> Vec<AdapterId> {
        let world = self.world.hold();
        let running = world.adapters.iter().filter(|(_, it)| it.state == State::Running);
        running.map(|(number, _)| AdapterId(number)).collect()
    }

    /// Names an adapter for a process (`D3DKMTOpenAdapterFromLuid`).
    pub fn open_adapter(&self, process: ProcessId, adapter: AdapterId) -> Result<Handle, Refused> {
        let mut world = self.world.hold();
        if world.processes.get(process.0).is_none_or(|it| it.ended) {
            return Err(Refused::NamesFull); // An ended process gets no more names.
        }
        match world.adapters.get_mut(adapter.0) {
            Some(it) if it.state == State::Running => it.opens += 1,
            _ => return Err(Refused::Removed(adapter.subject())),
        }
        let name = match self.reserve(&mut world, process.0) {
            Ok(name) => name,
            Err(why) => {
                if let Some(it) = world.adapters.get_mut(adapter.0) {
                    it.opens -= 1;
                }
                return Err(why);
            }
        };
        let handle = name.handle();
        self.publish(&mut world, process.0, name, adapter.0.into());
        Ok(handle)
    }

    /// Ends a process's name of an adapter (`D3DKMTCloseAdapter`). Its devices stay.
    pub fn close_adapter(
        &self,
        at: &mut Passive,
        process: ProcessId,
        handle: Handle,
    ) -> Result<(), Refused> {
        let number = {
            let mut world = self.world.hold();
            let number = world.resolve::<Adapter>(process, Argument::Adapter, handle)?;
            self.unname(&mut world, process.0, handle);
            world.close_adapter(number);
            number
        };
        self.settle_space(at, process.0, number);
        Ok(())
    }
}

impl World {
    /// A name of an adapter is gone; with the last one goes an adapter that has stopped.
    pub(crate) fn close_adapter(&mut self, number: Id<Adapter>) {
        let it = &mut self.adapters[number];
        it.opens -= 1;
        if it.opens == 0 && it.state == State::Stopped {
            self.adapters.take(number);
        }
    }
}

/// Stops an adapter.
///
/// WINDOWS: what hands the display on comes first, and the plain call only if that failed
/// (documented). Hardware that is gone, or about to, has nothing to hand on (our reading).
fn stop(at: &mut Passive, driver: &Driver, pass: &Pass<'_>, ending: Ending) {
    let released = match ending {
        Ending::Halted | Ending::Removed => driver.stop_and_release(at, pass),
        Ending::Pulled => false,
        Ending::Reset => {
            driver.reset_device(at);
            false
        }
    };
    if !released {
        // What a driver answers at its end changes nothing: it has stopped.
        let _ = driver.stop_device(at, pass);
    }
}

/// The last calls of a driver.
fn remove(at: &mut Passive, driver: &Driver, pass: &Pass<'_>) {
    // What a driver answers at its end changes nothing: it is gone.
    let _ = driver.remove_device(at, pass);
    let _ = driver.unload(at, pass);
    driver.pool.close();
}
