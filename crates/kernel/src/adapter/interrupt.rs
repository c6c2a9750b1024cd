//! Interrupts: the driver's interrupt routine and DPC, and vsync.
//!
//! # Invariants
//!
//! 1. What a run has done is part of its driver call, and ends with it, so concurrent runs stay
//!    distinct.
//! 2. A DPC is pending from its request until the driver is entered for it.

use crate::adapter::start::{Adapter, AdapterId};
use crate::base::id_list::Id;
use crate::ddi::callbacks::KernelCallbacks;
use crate::ddi::miniport::{DriverError, DriverResult, Generation, Interrupt};
use crate::ddi::permit::ThreadingLevel;
use crate::kernel::Kernel;
use crate::memory::fault::FaultTarget;
use crate::schedule::report::MAX_DPCS;
use crate::state::KernelState;
use flight::Dispatch;
use flight::{CallGuard, Component, DeviceLevel, EventKind, Fence, InterruptRun, Passive, RuleId};

/// What an interrupt report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InterruptCause {
    /// A packet of a node.
    Node(u32),
    Vsync,
}

impl KernelCallbacks {
    /// Reports a completed packet (`DxgkCbNotifyInterrupt`). The report is only recorded here.
    pub fn notify_interrupt(&self, at: &mut DeviceLevel, node: u32, fence: Fence) {
        // The driver may outlive the kernel.
        let Some(kernel) = self.kernel.upgrade() else { return };
        let mut state = kernel.state.lock();
        // A driver may still report after its adapter has stopped.
        let Some(it) = state.adapters.get_mut(self.adapter) else { return };
        if kernel.note_report_of(it, self.adapter, InterruptCause::Node(node)) {
            kernel.report_fence_of(it, at, self.adapter, node, fence);
        }
    }

    /// Reports a packet that accessed memory that is not resident, and will not complete
    /// (`DXGK_INTERRUPT_DMA_PAGE_FAULTED`). `allocation` is the driver handle of the allocation, if
    /// the driver knows it. The report is only recorded here.
    pub fn notify_fault(
        &self,
        at: &mut DeviceLevel,
        node: u32,
        fence: Fence,
        allocation: Option<usize>,
    ) {
        if let Some(kernel) = self.kernel.upgrade()
            && kernel.note_report(self.adapter, InterruptCause::Node(node))
        {
            kernel.report_fault(
                at,
                self.adapter,
                node,
                fence,
                FaultTarget::DriverHandle(allocation),
            );
        }
    }

    /// Reports a packet that faulted at a virtual address, and will not complete
    /// (`DXGK_INTERRUPT_DMA_PAGE_FAULTED` with a `FaultedVirtualAddress`). The report is only
    /// recorded here.
    pub fn notify_page_fault(&self, at: &mut DeviceLevel, node: u32, fence: Fence, address: u64) {
        if let Some(kernel) = self.kernel.upgrade()
            && kernel.note_report(self.adapter, InterruptCause::Node(node))
        {
            kernel.report_fault(at, self.adapter, node, fence, FaultTarget::Address(address));
        }
    }

    /// Reports a fault on a node when the driver does not know the packet
    /// (`DXGK_PAGE_FAULT_FENCE_INVALID`). A node runs packets in order, so the oldest packet
    /// faulted.
    pub fn notify_unknown_fault(&self, at: &mut DeviceLevel, node: u32) {
        // The driver may outlive the kernel.
        let Some(kernel) = self.kernel.upgrade() else { return };
        if !kernel.note_report(self.adapter, InterruptCause::Node(node)) {
            return;
        }
        let oldest = {
            let state = kernel.state.lock();
            let it = state.adapters.get(self.adapter);
            let it = it.and_then(|adapter| adapter.nodes.get(node as usize));
            it.filter(|node| node.reported != node.submitted).map(|node| node.reported.next())
        };
        if let Some(fence) = oldest {
            kernel.report_fault(at, self.adapter, node, fence, FaultTarget::DriverHandle(None));
        }
    }

    /// Reports that a node was preempted (`DXGK_INTERRUPT_DMA_PREEMPTED`): the preemption request
    /// it belongs to, and the last completed packet. The report is only recorded here.
    pub fn notify_preempted(
        &self,
        at: &mut DeviceLevel,
        node: u32,
        preemption: Fence,
        last_done: Fence,
    ) {
        if let Some(kernel) = self.kernel.upgrade()
            && kernel.note_report(self.adapter, InterruptCause::Node(node))
        {
            kernel.report_preempted(at, self.adapter, node, preemption, last_done);
        }
    }

    /// Reports a vsync (`DXGK_INTERRUPT_CRTC_VSYNC`).
    pub fn notify_vsync(&self, _at: &mut DeviceLevel) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.note_report(self.adapter, InterruptCause::Vsync);
        }
    }

    /// The driver model version that the driver was written for.
    pub fn generation(&self) -> Option<Generation> {
        let kernel = self.kernel.upgrade()?;
        let state = kernel.state.lock();
        state.adapters.get(self.adapter).map(|adapter| adapter.driver.generation)
    }

    /// Whether the current call is a call of the interrupt routine.
    pub fn is_in_interrupt(&self) -> bool {
        let isr = |run: &mut InterruptRun| matches!(run, InterruptRun::Isr { .. });
        CallGuard::with_interrupt(self.adapter.serial(), isr).unwrap_or(false)
    }

    /// A routine of the driver begins under `DxgkCbSynchronizeExecution`, on this thread.
    pub fn begin_synchronized(&self) {
        // The driver may outlive the kernel, and its adapter may be removed.
        let Some(kernel) = self.kernel.upgrade() else { return };
        if let Some(it) = kernel.state.lock().adapters.get_mut(self.adapter) {
            it.interrupts.begin_synchronized();
        }
    }

    /// The routine has returned, or was unwound. Judges that the DPC behind its report is queued;
    /// a driver that queues it later is judged when its node is late, or when it has stopped.
    pub fn end_synchronized(&self) {
        // As above.
        let Some(kernel) = self.kernel.upgrade() else { return };
        let now = kernel.host.now();
        let mut state = kernel.state.lock();
        let Some(it) = state.adapters.get_mut(self.adapter) else { return };
        if it.interrupts.end_synchronized(now) == Some(true) {
            it.driver.judge_synchronized(true);
        }
    }

    /// Queues the DPC (`DxgkCbQueueDpc`), at any IRQL. Returns false if it was already queued.
    pub fn queue_dpc(&self) -> bool {
        self.kernel.upgrade().is_some_and(|kernel| kernel.queue_dpc(self.adapter))
    }

    /// Processes the recorded reports (`DxgkCbNotifyDpc`).
    pub fn notify_dpc(&self, _at: &mut Dispatch) {
        // The driver may outlive the kernel.
        let Some(kernel) = self.kernel.upgrade() else { return };
        let state = &mut *kernel.state.lock();
        CallGuard::with_interrupt(self.adapter.serial(), |run| {
            if let InterruptRun::Dpc { notified, .. } = run {
                *notified = true;
            }
        });
        kernel.complete_fences(state, self.adapter);
    }
}

impl Kernel {
    /// Records a report, and judges where it was made. Returns whether its node exists.
    fn note_report(&self, adapter: Id<Adapter>, cause: InterruptCause) -> bool {
        let mut state = self.state.lock();
        // A driver may still report after its adapter has stopped.
        let Some(it) = state.adapters.get_mut(adapter) else { return false };
        self.note_report_of(it, adapter, cause)
    }

    /// The same, with the adapter found.
    #[inline]
    fn note_report_of(
        &self,
        it: &mut Adapter,
        adapter: Id<Adapter>,
        cause: InterruptCause,
    ) -> bool {
        let argument = "DxgkCbNotifyInterrupt";
        it.interrupts.dpc_unhandled = true;
        it.interrupts.note_synchronized_report();
        let late = CallGuard::with_interrupt(adapter.serial(), |run| {
            let InterruptRun::Isr { reported, vsync, .. } = run else { return None };
            let late = *vsync && cause != InterruptCause::Vsync;
            *reported = true;
            *vsync |= cause == InterruptCause::Vsync;
            Some(late)
        });
        if let Some(late) = late.flatten() {
            let broken = late.then(|| {
                "the interrupt routine reported work of a node after a vsync, but reports \
                 of nodes come first"
                    .to_owned()
            });
            self.log.judge(
                RuleId::KMD_ISR_007,
                Component::Driver,
                adapter.subject(),
                argument,
                broken,
            );
        }
        let InterruptCause::Node(node) = cause else {
            if let Some(seen) = &mut it.interrupts.vsync {
                *seen = true;
            }
            self.log.emit(adapter.subject(), || EventKind::VsyncReported {});
            return true;
        };
        it.interrupts.has_reported = true;
        let nodes = it.nodes.len();
        let there = (node as usize) < nodes;
        let broken =
            (!there).then(|| format!("node {node} reported, but {adapter} has {nodes} nodes"));
        let argument = "DxgkCbNotifyInterrupt.NodeOrdinal";
        self.log.judge(RuleId::KMD_ISR_009, Component::Driver, adapter.subject(), argument, broken);
        there
    }

    /// Raises the interrupt line on behalf of another device, because lines are shared. The
    /// adapter's own hardware is idle.
    pub fn shared_line_interrupt(&self, at: &mut Passive, adapter: AdapterId) {
        let driver = {
            let mut state = self.state.lock();
            let it = state
                .adapters
                .get_mut(adapter.0)
                .filter(|adapter| adapter.is_running() && !adapter.interrupts_disabled);
            // The host may pass an adapter that is removed or about to stop.
            let Some(it) = it else { return };
            it.interrupting += 1; // From here on, a stop waits for this interrupt.
            it.driver.clone()
        };
        // The call itself logs a failure; the interrupt line has no caller to return it to.
        if driver.hardware.interrupt_asserted().is_some() {
            let _ = driver.interrupt_routine(at);
        } else {
            driver.run_foreign_interrupt(at);
        }
        if self.take_dpc(adapter.0) {
            let _ = driver.dpc_routine(at, self);
        }
        let mut state = self.state.lock();
        // The adapter is removed if the wait of its stop for this interrupt could not end.
        if let Some(it) = state.adapters.get_mut(adapter.0) {
            it.interrupting -= 1;
        }
        self.wake_all(&mut state);
    }

    /// Enables or disables an interrupt (`DxgkDdiControlInterrupt`). Only vsync is supported.
    pub fn control_interrupt(
        &self,
        at: &mut Passive,
        adapter: AdapterId,
        of: Interrupt,
        on: bool,
    ) -> DriverResult<()> {
        let running =
            |state: &KernelState| state.adapters.get(adapter.0).and_then(Adapter::running_driver);
        let driver = running(&self.state.lock()).ok_or(DriverError::NoEntryPoint)?;
        let keys = ThreadingLevel::Zero.keys(adapter.0, driver.generation, None);
        let permit = self.acquire_permit(at, keys).map_err(|_| DriverError::Busy)?;
        // Check again after the wait.
        running(&self.state.lock()).ok_or(DriverError::NoEntryPoint)?;
        if of == Interrupt::Vsync {
            self.expect_vsync(adapter, on, None);
        }
        let result = driver.control_interrupt(at, &permit, of, on);
        drop(permit);
        match of {
            Interrupt::Vsync => self.expect_vsync(adapter, on, Some(result)),
            Interrupt::Completed if result == Err(DriverError::NoEntryPoint) => {}
            Interrupt::Completed => {
                let message = result.err().map_or("success".into(), DriverError::name);
                let broken = (result != Err(DriverError::Unimplemented)).then(|| {
                    format!(
                        "the driver was called to switch DXGK_INTERRUPT_DMA_COMPLETED and returned \
                         {message}, but only vsync can be switched: other types are not implemented"
                    )
                });
                let argument = "DxgkDdiControlInterrupt.InterruptType";
                driver.judge(RuleId::KMD_ISR_014, argument, broken);
            }
        }
        result
    }

    /// Before the call, resets the record of vsyncs. After it, marks vsync disabled if the driver
    /// failed to enable it.
    fn expect_vsync(&self, adapter: AdapterId, on: bool, result: Option<DriverResult<()>>) {
        let mut state = self.state.lock();
        // The adapter may have been removed during the driver call.
        let Some(it) = state.adapters.get_mut(adapter.0) else { return };
        match result {
            None => it.interrupts.vsync = on.then_some(false),
            Some(Ok(())) => self.log.emit(adapter.subject(), || EventKind::VsyncSwitched { on }),
            Some(Err(_)) => it.interrupts.vsync = None,
        }
    }

    /// Judges that a driver with enabled vsync interrupts has reported one. Call this when the
    /// system is idle, because then none can follow.
    pub fn judge_vsync(&self, adapter: AdapterId) {
        let state = self.state.lock();
        // The adapter may be removed, or vsync interrupts disabled.
        let vsync = state.adapters.get(adapter.0).and_then(|adapter| adapter.interrupts.vsync);
        let Some(seen) = vsync else { return };
        let broken = (!seen).then(|| {
            "vsync interrupts are enabled, but the driver has reported none, and the hardware is \
             idle"
                .to_owned()
        });
        let (argument, about) = ("DxgkDdiControlInterrupt.EnableInterrupt", adapter.subject());
        self.log.judge(RuleId::KMD_ISR_014, Component::Driver, about, argument, broken);
    }

    /// Queues the DPC. Returns false if it was already queued.
    pub(crate) fn queue_dpc(&self, adapter: Id<Adapter>) -> bool {
        CallGuard::with_interrupt(adapter.serial(), |run| {
            if let InterruptRun::Isr { queued, .. } = run {
                *queued = true;
            }
        });
        let mut state = self.state.lock();
        // A driver may still report after its adapter has stopped.
        let Some(it) = state.adapters.get_mut(adapter) else { return false };
        // A DPC that will not run is not pending: the next start queues its own.
        let refused = it.interrupts_disabled || it.dpcs >= MAX_DPCS;
        let inserted = it.interrupts.request_dpc(refused);
        self.log.emit(adapter.subject(), || EventKind::DpcQueued { inserted });
        if inserted {
            it.dpc = true;
            self.wake_one(&it.driver.work_available);
        }
        inserted
    }
}
