//! Adapters: starting and stopping a driver, and opening its adapter for processes.

use crate::adapter::entry_points::check_entry_points;
use crate::adapter::power::PowerStatus;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::ddi::Driver;
use crate::ddi::callbacks::KernelCallbacks;
use crate::ddi::interrupt_run::Interrupts;
use crate::ddi::miniport::{DriverError, DriverKind, Features, SchedulingFeatures};
use crate::ddi::permit::{DdiPermit, ThreadingLevel, WaitStuck};
use crate::kernel::{DriverSetup, Kernel};
use crate::lifetime::device::Device;
use crate::lifetime::device::DeviceLoss;
use crate::lifetime::process::ProcessId;
use crate::lock::Once;
use crate::memory::Memory;
use crate::objects::allocation::AllocationCount;
use crate::objects::handle_table::Handle;
use crate::schedule::report::Node;
use crate::state::KernelState;
use flight::{
    Component, Event, EventKind, Fence, InterruptLine, MemoryWrite, Passive, Ram, RuleId, Subject,
    TableRoot, WaitToken,
};
use std::fmt;
use std::sync::{Arc, Weak};

/// Maximum number of nodes of an adapter. The minimum is one.
const MAX_NODES: u32 = 64;

/// A driver with its hardware, as clients see it (`hAdapter`).
pub(crate) struct Adapter {
    pub(crate) driver: Arc<Driver>,
    pub(crate) state: AdapterState,
    pub(crate) nodes: Vec<Node>,
    /// A DPC is requested.
    pub(crate) dpc: bool,
    pub(crate) interrupt_line: Option<Arc<dyn InterruptLine>>,
    /// Number of open handles to the adapter.
    pub(crate) opens: u32,
    /// Number of hardware turns in progress.
    pub(crate) interrupting: u32,
    /// Number of consecutive DPCs without a step of the hardware between them.
    pub(crate) dpcs: u32,
    /// The driver is about to stop: no more interrupts and DPCs are delivered.
    pub(crate) interrupts_disabled: bool,
    pub(crate) interrupts: Interrupts,
    pub(crate) memory: Option<Memory>,
    pub(crate) scheduling: SchedulingFeatures,
    /// Times of the adapter's resets.
    pub(crate) resets: Vec<u64>,
    /// Its allocations that were destroyed.
    pub(crate) destroyed: AllocationCount,
    /// The system has stopped because of this adapter.
    pub(crate) fatal: bool,
    pub(crate) power: PowerStatus,
}

/// Life cycle state of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdapterState {
    Starting,
    Running,
    Stopping,
    /// The driver has stopped the adapter and can start it again.
    Halted,
    /// The driver is removed.
    Stopped,
}

/// Why an adapter ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdapterEnding {
    /// Stopped; it may be started again.
    Halted,
    /// Stopped and removed on request.
    Removed,
    /// The hardware was surprise-removed.
    SurpriseRemoved,
    /// The machine shuts down.
    Reset,
}

/// Identifies an adapter to the host that added it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterId(pub(crate) Id<Adapter>);

/// The driver failed to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    /// The entry point that failed.
    pub entry: &'static str,
    /// The error that it returned, or with which its report was rejected.
    pub why: DriverError,
    /// If the entry point succeeded: what it reported.
    pub reported: Option<String>,
}

impl StartError {
    fn returned(entry: &'static str, why: DriverError) -> Self {
        Self { entry, why, reported: None }
    }

    /// What the driver did, as the end of a sentence.
    pub fn reason(&self) -> String {
        match &self.reported {
            Some(reported) => format!("{} succeeded and {reported}", self.entry),
            None => format!("{} returned {}", self.entry, self.why.name()),
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reported {
            Some(_) => write!(f, "the adapter did not start: {}", self.reason()),
            None => write!(f, "the adapter did not start: {} failed: {}", self.entry, self.why),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.why)
    }
}

/// The interrupt line of an adapter.
struct AdapterInterruptLine {
    kernel: Weak<Kernel>,
    driver: Arc<Driver>,
}

impl InterruptLine for AdapterInterruptLine {
    fn raise(&self, at: &mut Passive) {
        // The hardware may outlive the kernel.
        let Some(kernel) = self.kernel.upgrade() else { return };
        let number = self.driver.adapter;
        if kernel
            .state
            .lock()
            .adapters
            .get(number)
            .is_none_or(|adapter| adapter.interrupts_disabled)
        {
            return; // A stopped driver gets no interrupts.
        }
        // The call itself logs a failure; the interrupt line has no caller to return it to.
        let _ = self.driver.interrupt_routine(at);
        if kernel.take_dpc(number) {
            let _ = self.driver.dpc_routine(at, &kernel);
        }
    }

    fn memory_used(&self, node: u32, fence: Fence, address: u64, bytes: u64) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.judge_use(self.driver.adapter, node, fence, (address, bytes));
        }
    }

    fn memory_written(&self, node: u32, fence: Fence, to: MemoryWrite) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.judge_write(self.driver.adapter, node, fence, to);
        }
    }

    fn context_saved(&self, node: u32, address: u64) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.judge_context_save(self.driver.adapter, node, address);
        }
    }

    fn root_used(&self, node: u32, fence: Fence, root: Option<TableRoot>) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.judge_root(self.driver.adapter, node, fence, root);
        }
    }
}

impl AdapterId {
    /// The adapter as the subject of events.
    pub fn subject(self) -> Subject {
        self.0.subject()
    }

    /// The locally unique id (`AdapterLuid`): never zero, and constant while the adapter exists.
    pub fn luid(self) -> u64 {
        u64::from(self.0.serial()) << 12
    }
}

impl Kernel {
    /// Starts a driver: calls `AddDevice` and `StartDevice`, then queries its features.
    ///
    /// Fails with the entry point and the error if the driver fails or reports invalid features.
    pub fn add_adapter(
        self: &Arc<Self>,
        at: &mut Passive,
        setup: DriverSetup,
    ) -> Result<AdapterId, StartError> {
        let driver = self.new_driver(setup);
        let started = self.start(at, &driver);
        self.finish_start(&driver, started)
    }

    /// Starts an adapter that was stopped but not removed: calls `StartDevice`, then queries its
    /// features. An adapter that fails to start is removed.
    ///
    /// WINDOWS: `AddDevice` is called once for an adapter, `StartDevice` whenever it starts
    /// (documented). That it keeps its id is our decision.
    pub fn start_adapter(
        self: &Arc<Self>,
        at: &mut Passive,
        adapter: AdapterId,
    ) -> Result<(), StartError> {
        let busy = StartError::returned("DxgkDdiStartDevice", DriverError::Busy);
        let driver = {
            let mut state = self.state.lock();
            let it = state
                .adapters
                .get_mut(adapter.0)
                .filter(|adapter| adapter.state == AdapterState::Halted);
            // The host may pass an adapter that is removed or not halted.
            let Some(it) = it else { return Err(busy) };
            it.state = AdapterState::Starting;
            (it.interrupts_disabled, it.dpcs) = (false, 0);
            it.driver.clone()
        };
        let keys = ThreadingLevel::Three.keys(adapter.0, driver.generation, None);
        let started = match self.acquire_permit(at, keys) {
            Ok(permit) => self.start_added(at, &driver, &permit),
            Err(WaitStuck) => Err(busy),
        };
        self.finish_start(&driver, started).map(drop)
    }

    /// Marks the adapter as running if it started, and removes it otherwise.
    fn finish_start(
        self: &Arc<Self>,
        driver: &Arc<Driver>,
        started: Result<AdapterId, StartError>,
    ) -> Result<AdapterId, StartError> {
        let number = driver.adapter;
        let state = &mut *self.state.lock();
        // Only the end of an adapter removes it, and that waits until the adapter has started.
        let it = &mut state.adapters[number];
        if started.is_ok() {
            let nodes = u32::try_from(it.nodes.len()).unwrap_or(u32::MAX);
            let generation = match driver.generation {
                crate::ddi::miniport::Generation::One => 1,
                crate::ddi::miniport::Generation::Two => 2,
            };
            self.log
                .emit(driver.adapter.subject(), || EventKind::AdapterStarted { nodes, generation });
            for (ordinal, node) in (0..).zip(&it.nodes) {
                let adapter = driver.adapter;
                self.log.emit(node.subject(), || EventKind::NodeStarted {
                    adapter: adapter.subject(),
                    ordinal,
                });
            }
            it.state = AdapterState::Running;
            let wire =
                AdapterInterruptLine { kernel: Arc::downgrade(self), driver: driver.clone() };
            it.interrupt_line = Some(Arc::new(wire));
        } else {
            it.state = AdapterState::Stopped;
            if it.opens == 0 {
                state.adapters.remove(number);
            }
        }
        self.wake_all(state);
        started
    }

    fn new_driver(self: &Arc<Self>, setup: DriverSetup) -> Arc<Driver> {
        let mut state = self.state.lock();
        let adapter = state.adapters.reserve();
        let callbacks = Arc::new(KernelCallbacks {
            kernel: Arc::downgrade(self),
            adapter,
            host: self.host.clone(),
            log: self.log.clone(),
            pool: setup.pool.clone(),
        });
        let driver = Arc::new(Driver {
            generation: setup.miniport.generation(),
            miniport: setup.miniport,
            hardware: setup.hardware,
            pool: setup.pool,
            callbacks,
            work_available: WaitToken::new(format!("work for the hardware of {adapter}")),
            kernel: Arc::downgrade(self),
            host: self.host.clone(),
            log: self.log.clone(),
            adapter,
            surprise_removed: Once::new(),
        });
        let made = Adapter {
            driver: driver.clone(),
            state: AdapterState::Starting,
            nodes: Vec::new(),
            dpc: false,
            interrupt_line: None,
            opens: 0,
            interrupting: 0,
            dpcs: 0,
            interrupts_disabled: false,
            interrupts: Interrupts::default(),
            memory: None,
            scheduling: SchedulingFeatures::default(),
            resets: Vec::new(),
            destroyed: AllocationCount::default(),
            fatal: false,
            power: PowerStatus::On,
        };
        state.adapters.fill(adapter, made);
        driver
    }

    fn start(&self, at: &mut Passive, driver: &Driver) -> Result<AdapterId, StartError> {
        let number = driver.adapter;
        let stuck = |WaitStuck| StartError::returned("DxgkDdiAddDevice", DriverError::Busy);
        let permit = self
            .acquire_permit(at, ThreadingLevel::Three.keys(number, driver.generation, None))
            .map_err(stuck)?;
        if let Err(why) = driver.add_device(at, &permit) {
            // The driver has not accepted the adapter, so there is no device to remove.
            let _ = driver.unload(at, &permit);
            driver.pool.close();
            return Err(StartError::returned("DxgkDdiAddDevice", why));
        }
        self.start_added(at, driver, &permit)
    }

    /// Starts an adapter for which `AddDevice` succeeded.
    fn start_added(
        &self,
        at: &mut Passive,
        driver: &Driver,
        permit: &DdiPermit<'_>,
    ) -> Result<AdapterId, StartError> {
        let number = driver.adapter;
        let started = driver.start_device(at, permit);
        self.judge_start(driver, started.as_ref().err());
        if let Err(why) = started {
            remove(at, driver, permit);
            return Err(StartError::returned("DxgkDdiStartDevice", why));
        }
        let outputs = query_outputs(at, driver, permit);
        let features = driver.query_adapter_info(at, permit);
        let ram = driver.hardware.ram();
        let usable = features
            .map_err(|why| StartError::returned("DxgkDdiQueryAdapterInfo", why))
            .and_then(|features| match self.fault_of(driver, &features, ram.is_some()) {
                None => Ok(features),
                reported @ Some(_) => {
                    let (entry, why) = ("DxgkDdiQueryAdapterInfo", DriverError::Invalid);
                    Err(StartError { entry, why, reported })
                }
            });
        match usable {
            Ok(features) => {
                for output in outputs {
                    // The answer has no effect: nothing is displayed.
                    let _ = driver.query_child_status(at, permit, output);
                }
                self.test_host_aperture(at, permit, driver, &features);
                self.apply_features(driver, features, ram);
                match self.start_system(at, permit, driver) {
                    Ok(()) => Ok(AdapterId(number)),
                    Err((entry, why)) => {
                        // WINDOWS: the system's own objects on the adapter end first (observed).
                        self.abandon_memory(number);
                        let _ = driver.stop_device(at, permit);
                        remove(at, driver, permit);
                        Err(StartError::returned(entry, why))
                    }
                }
            }
            Err(why) => {
                let _ = driver.stop_device(at, permit);
                remove(at, driver, permit);
                Err(why)
            }
        }
    }

    /// Judges a start: on a model of its hardware a driver starts. A crash has a rule of its own,
    /// and a function that is not implemented here is no fault of the driver.
    fn judge_start(&self, driver: &Driver, failed: Option<&DriverError>) {
        let entry = "DxgkDdiStartDevice";
        let missing = |event: &Event| matches!(event.kind, EventKind::EntryMissing { .. });
        let broken = failed
            .filter(|why| **why != DriverError::Crashed && driver.hardware.models_hardware())
            .filter(|_| !self.log.last_events(usize::MAX).iter().any(missing))
            .map(|why| {
                format!(
                    "{entry} returned {}, but its hardware is there and no fault was injected",
                    why.name()
                )
            });
        let about = driver.adapter.subject();
        self.log.judge(RuleId::WT_START_001, Component::Driver, about, entry, broken);
    }

    /// Judges the features that the driver reported. Returns what is wrong with them, if the
    /// adapter cannot start with them.
    fn fault_of(&self, driver: &Driver, features: &Features, has_ram: bool) -> Option<String> {
        let passed = self.check_features(driver.adapter.subject(), features);
        let passed = self.check_mmu(driver.adapter.subject(), features) && passed;
        let complete = check_entry_points(driver, features);
        let display_only = driver.miniport.kind() == DriverKind::DisplayOnly;
        if !(1..=MAX_NODES).contains(&features.nodes) && !display_only {
            let nodes = features.nodes;
            let count = if nodes == 0 { "zero".to_owned() } else { nodes.to_string() };
            return Some(format!("reported {count} nodes; an adapter has 1 to {MAX_NODES}"));
        }
        if features.memory.is_some() && !has_ram {
            return Some("reported memory segments; its hardware has no system memory".to_owned());
        }
        if !complete {
            return Some("reported features for which the driver has no entry points".to_owned());
        }
        (!passed).then(|| "reported segments or an MMU that cannot be used".to_owned())
    }

    /// Applies the features that the driver reported: nodes, memory and MMU.
    fn apply_features(&self, driver: &Driver, features: Features, ram: Option<Arc<dyn Ram>>) {
        let number = driver.adapter;
        let state = &mut *self.state.lock();
        let it = &mut state.adapters[number];
        it.scheduling = features.scheduling;
        // Node numbers are unique across adapters.
        for _ in 0..features.nodes {
            it.nodes.push(Node::new(state.nodes.last_node));
            state.nodes.last_node += 1;
        }
        if let (Some(memory), Some(ram)) = (features.memory, ram) {
            self.add_memory(state, driver.adapter, memory, ram);
            if let Some(mmu) = features.mmu {
                state.add_mmu(number, mmu);
            }
        }
    }

    /// Stops and removes a driver, with all live objects of its adapter. If another thread is
    /// already stopping the adapter, waits until that thread has finished.
    pub fn remove_adapter(&self, at: &mut Passive, adapter: AdapterId) {
        self.end_adapter(at, adapter, AdapterEnding::Removed);
    }

    /// Stops an adapter, with all its live objects. The driver can start the adapter again
    /// ([`Kernel::start_adapter`]).
    pub fn stop_adapter(&self, at: &mut Passive, adapter: AdapterId) {
        self.end_adapter(at, adapter, AdapterEnding::Halted);
    }

    /// Surprise-removes the hardware. The driver is notified, work in flight is lost, and all
    /// objects of the adapter end.
    pub fn surprise_remove_adapter(&self, at: &mut Passive, adapter: AdapterId) {
        self.end_adapter(at, adapter, AdapterEnding::SurpriseRemoved);
    }

    /// Shuts the machine down: the driver resets its hardware, and is removed.
    ///
    /// WINDOWS: no entry point is called after `DxgkDdiResetDevice`, because the machine is off.
    /// Here the driver is stopped and removed, so that its leaks are found.
    pub fn reset_adapter(&self, at: &mut Passive, adapter: AdapterId) {
        self.end_adapter(at, adapter, AdapterEnding::Reset);
    }

    /// Moves the adapter to `Stopping`, unless another thread has done so. Returns the driver, and
    /// whether the driver had started the adapter; `None` if there is nothing left to end.
    fn claim_end(
        &self,
        at: &mut Passive,
        adapter: AdapterId,
        ending: AdapterEnding,
    ) -> Option<(Arc<Driver>, bool)> {
        loop {
            {
                let mut state = self.state.lock();
                let it = state.adapters.get_mut(adapter.0)?;
                match it.state {
                    AdapterState::Running => {
                        it.state = AdapterState::Stopping;
                        return Some((it.driver.clone(), true));
                    }
                    AdapterState::Halted if ending != AdapterEnding::Halted => {
                        it.state = AdapterState::Stopping;
                        return Some((it.driver.clone(), false));
                    }
                    AdapterState::Halted | AdapterState::Stopped => return None,
                    AdapterState::Starting | AdapterState::Stopping => (),
                }
            }
            let about = adapter.subject();
            let is_changing = |adapter: &Adapter| {
                matches!(adapter.state, AdapterState::Starting | AdapterState::Stopping)
            };
            let over = |state: &KernelState| {
                state.adapters.get(adapter.0).is_none_or(|adapter| !is_changing(adapter))
            };
            if !self.wait_until(at, about, |_| format!("the end of {about}"), over) {
                return None;
            }
        }
    }

    fn end_adapter(&self, at: &mut Passive, adapter: AdapterId, ending: AdapterEnding) {
        // The adapter has ended already, or the wait for another thread to end it cannot end.
        let Some((driver, started)) = self.claim_end(at, adapter, ending) else { return };
        let keys = ThreadingLevel::Three.keys(adapter.0, driver.generation, None);
        if started {
            if ending == AdapterEnding::SurpriseRemoved {
                self.call_surprise_removal(at, adapter, &driver);
            } else {
                self.complete_power(at, adapter);
            }
            // The system's own device ends last, because paging runs in it.
            let mine = |device: &Device| device.adapter == adapter.0 && device.process.is_some();
            self.end_devices(at, adapter.subject(), None, mine);
            self.end_nt_resources(at, adapter.0);
            self.end_spaces(at, adapter.0);
            self.end_memory(at, adapter.0);
        }
        if let Ok(permit) = self.acquire_permit(at, keys) {
            if started {
                // WINDOWS: a level three call excludes all others and the GPU is idle (documented),
                // so no interrupt is expected.
                self.end_system(at, &permit, &driver);
                self.disable_interrupts(at, adapter);
                stop(at, &driver, &permit, ending);
            }
            if ending != AdapterEnding::Halted {
                remove(at, &driver, &permit);
            }
        }
        let mut state = self.state.lock();
        if started {
            self.end_adapter_context_allocations(&mut state, adapter.0);
            self.log.emit(adapter.subject(), || EventKind::AdapterStopped {});
        }
        let over = if ending == AdapterEnding::Halted {
            AdapterState::Halted
        } else {
            AdapterState::Stopped
        };
        // This thread has moved it to `Stopping`, so no other thread removes it.
        let it = &mut state.adapters[adapter.0];
        (it.interrupt_line, it.state, it.memory) = (None, over, None);
        it.nodes.clear();
        if it.opens == 0 && over == AdapterState::Stopped {
            state.adapters.remove(adapter.0);
        }
        self.wake_all(&mut state);
    }

    /// Notifies the driver of the surprise removal, then fails all outstanding work of the adapter.
    fn call_surprise_removal(&self, at: &mut Passive, adapter: AdapterId, driver: &Driver) {
        let about = adapter.subject();
        self.disable_interrupts(at, adapter);
        let keys = ThreadingLevel::Three.keys(adapter.0, driver.generation, None);
        if let Ok(permit) = self.acquire_nested_permit(at, &keys) {
            driver.notify_surprise_removal(at, &permit);
            self.log.emit(about, || EventKind::AdapterSurpriseRemoved {});
        }
        self.reopen_permits(adapter); // Power never returns: wake the threads that wait for it.
        let devices: Vec<Id<Device>> = {
            let state = self.state.lock();
            let mine = state.devices.iter().filter(|(_, device)| device.adapter == adapter.0);
            mine.map(|(number, _)| number).collect()
        };
        for device in devices {
            self.lose_device(device, DeviceLoss::AdapterRemoved);
        }
        self.fail_paging(adapter.0);
        // Removed engines save no context state.
        let state = &mut *self.state.lock();
        // This thread has moved it to `Stopping`, so no other thread removes it.
        let nodes = &mut state.adapters[adapter.0].nodes;
        let subjects: Vec<Subject> = nodes
            .iter_mut()
            .map(|node| {
                node.lost_packets.clear();
                node.subject()
            })
            .collect();
        for node in subjects {
            self.switch_context(state, adapter.0, node, None);
        }
        self.complete_context_allocations(state);
    }

    /// Stops delivery of interrupts to a driver that is about to stop. Waits until the interrupts
    /// in progress have returned.
    fn disable_interrupts(&self, at: &mut Passive, adapter: AdapterId) {
        {
            // This thread has moved it to `Stopping`, so no other thread removes it.
            let it = &mut self.state.lock().adapters[adapter.0];
            (it.interrupts_disabled, it.dpc, it.interrupts.pending) = (true, false, false);
        }
        let over = |state: &KernelState| state.adapters[adapter.0].interrupting == 0;
        let about = adapter.subject();
        self.wait_until(at, about, |_| format!("the interrupts of {about}"), over);
    }

    #[inline]
    pub(crate) fn take_dpc(&self, adapter: Id<Adapter>) -> bool {
        let mut state = self.state.lock();
        state
            .adapters
            .get_mut(adapter)
            .is_some_and(|adapter| std::mem::take(&mut adapter.dpc) && !adapter.interrupts_disabled)
    }

    /// The work-available token of the adapter's hardware: [`Kernel::run_hardware_turn`] may find
    /// work when it is woken.
    pub fn hardware_work_available(&self, adapter: AdapterId) -> Option<WaitToken> {
        self.state
            .lock()
            .adapters
            .get(adapter.0)
            .map(|adapter| adapter.driver.work_available.clone())
    }

    /// Spawns the worker that runs the adapter's hardware and checks its timeouts.
    pub fn start_workers(self: &Arc<Self>, host: &Arc<dyn flight::Spawner>, adapter: AdapterId) {
        // The host may pass an adapter that is removed.
        let Some(work_available) = self.hardware_work_available(adapter) else { return };
        let (hardware, watch) = (self.clone(), self.clone());
        let due = move |now, late| {
            if late {
                watch.check_timeouts(adapter, now);
            }
            watch.deadline(adapter, now)
        };
        host.spawn_timed_worker(
            "hardware",
            work_available,
            move |at| hardware.run_hardware_turn(at, adapter),
            due,
        );
    }

    /// The running adapters.
    pub fn adapters(&self) -> Vec<AdapterId> {
        let state = self.state.lock();
        let running =
            state.adapters.iter().filter(|(_, adapter)| adapter.state == AdapterState::Running);
        running.map(|(number, _)| AdapterId(number)).collect()
    }

    /// Opens an adapter for a process (`D3DKMTOpenAdapterFromLuid`).
    ///
    /// Fails if the process has ended, its handle table is full, or the adapter is not running.
    pub fn open_adapter(
        &self,
        process: ProcessId,
        adapter: AdapterId,
    ) -> Result<Handle, KernelError> {
        let mut state = self.state.lock();
        if state.processes.get(process.0).is_none_or(|process| process.ended) {
            return Err(KernelError::HandleTableFull); // An ended process gets no more handles.
        }
        match state.adapters.get_mut(adapter.0) {
            Some(it) if it.state == AdapterState::Running => it.opens += 1,
            _ => return Err(KernelError::Removed(adapter.subject())),
        }
        let name = match self.reserve_handle(&mut state, process.0) {
            Ok(name) => name,
            Err(why) => {
                state.adapters[adapter.0].opens -= 1;
                return Err(why);
            }
        };
        let handle = name.handle();
        self.publish_handle(&mut state, process.0, name, adapter.0.into());
        Ok(handle)
    }

    /// Closes a process's handle to an adapter (`D3DKMTCloseAdapter`). The adapter's devices stay
    /// open.
    pub fn close_adapter(
        &self,
        at: &mut Passive,
        process: ProcessId,
        handle: Handle,
    ) -> Result<(), KernelError> {
        let number = {
            let mut state = self.state.lock();
            let number = state.resolve_handle::<Adapter>(process, Argument::Adapter, handle)?;
            self.close_handle(&mut state, process.0, handle);
            state.close_adapter(number);
            number
        };
        self.end_unused_space(at, process.0, number);
        Ok(())
    }
}

/// The video outputs of a display-only adapter.
///
/// WINDOWS: listed after the start and before the capabilities are queried; their status is queried
/// afterwards (observed).
fn query_outputs(at: &mut Passive, driver: &Driver, permit: &DdiPermit<'_>) -> Vec<u32> {
    if driver.miniport.kind() != DriverKind::DisplayOnly || driver.miniport.children() == 0 {
        return Vec::new();
    }
    driver.query_child_relations(at, permit).unwrap_or_default()
}

/// Stops an adapter.
///
/// WINDOWS: `DxgkDdiStopDeviceAndReleasePostDisplayOwnership` is called first, and
/// `DxgkDdiStopDevice` only if that failed (documented). Hardware that is removed or about to be
/// reset has no display to hand over (our reading).
fn stop(at: &mut Passive, driver: &Driver, permit: &DdiPermit<'_>, ending: AdapterEnding) {
    let released = match ending {
        AdapterEnding::Halted | AdapterEnding::Removed => {
            driver.stop_device_and_release_post_display_ownership(at, permit)
        }
        AdapterEnding::SurpriseRemoved => false,
        AdapterEnding::Reset => {
            driver.reset_device(at);
            false
        }
    };
    if !released {
        // The driver has stopped, whatever status it returns.
        let _ = driver.stop_device(at, permit);
    }
    if ending != AdapterEnding::SurpriseRemoved {
        driver.judge_unqueued_reports();
        driver.report_interrupt_left();
    }
}

/// Removes the adapter from its driver and unloads the driver.
fn remove(at: &mut Passive, driver: &Driver, permit: &DdiPermit<'_>) {
    // The driver is removed, whatever status it returns.
    let _ = driver.remove_device(at, permit);
    let _ = driver.unload(at, permit);
    driver.pool.close();
}
