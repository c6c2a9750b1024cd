//! Interrupts: what a driver does in its interrupt routine and in its DPC, and vsync.
//!
//! # Invariants
//!
//! 1. A run is listed from before the driver is entered until it has returned, by the number of
//!    its call: two of them do not meet.
//! 2. A DPC is pending from the request on until the driver is entered for it.

use crate::ddi::Driver;
use crate::gate::Class;
use crate::kernel::Kernel;
use crate::memory::resident::Found;
use crate::miniport::{Answer, Generation, Interrupt, Refusal};
use crate::services::Services;
use crate::start::{Adapter, AdapterId};
use crate::store::Id;
use crate::world::World;
use flight::{DeviceLevel, Fence, InCall, Passive, RuleId, What, Who};
use smallvec::SmallVec;

/// Of an adapter: what its driver does about interrupts.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    /// A DPC was asked for, and the driver has not been entered for it.
    pub(crate) pending: bool,
    /// Something was reported in an interrupt that no DPC has followed.
    unfollowed: bool,
    /// The interrupt routines and DPCs that have not returned.
    runs: SmallVec<[(u32, Run); 1]>,
    /// A vsync was reported since they were switched on; none where they are not.
    vsync: Option<bool>,
}

/// One run of an interrupt routine or a DPC.
#[derive(Clone, Copy, Debug)]
enum Run {
    Interrupt(Reported),
    /// Whether it follows a report, and whether it said so (`DxgkCbNotifyDpc`).
    Dpc {
        follows: bool,
        notified: bool,
    },
}

/// What an interrupt routine has done.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    /// It has reported something.
    some: bool,
    /// It has reported a vsync.
    vsync: bool,
    /// It has asked for the DPC.
    queued: bool,
}

/// What a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Work of a node.
    Node(u32),
    Vsync,
}

/// While it lives, a run is listed: also when a driver unwinds. Without a number it is over.
struct Listed<'a>(&'a Driver, Option<u32>);

impl Services {
    /// Reports a packet done (`DxgkCbNotifyInterrupt`). It is recorded, nothing more.
    pub fn notify_interrupt(&self, at: &mut DeviceLevel, node: u32, fence: Fence) {
        let Some(kernel) = self.kernel.upgrade() else { return };
        let world = &mut *kernel.world.hold();
        if kernel.hear_in(world, self.adapter, Cause::Node(node)) {
            kernel.report(world, at, self.adapter, node, fence);
        }
    }

    /// Reports a packet that touched memory that is not there, and will not end
    /// (`DXGK_INTERRUPT_DMA_PAGE_FAULTED`): which allocation, by the driver's word, where the
    /// driver knows. It is recorded, nothing more.
    pub fn notify_fault(
        &self,
        at: &mut DeviceLevel,
        node: u32,
        fence: Fence,
        allocation: Option<usize>,
    ) {
        if let Some(kernel) = self.kernel.upgrade()
            && kernel.hear(self.adapter, Cause::Node(node))
        {
            kernel.report_fault(at, self.adapter, node, fence, Found::Word(allocation));
        }
    }

    /// Reports a packet that faulted at a virtual address, and will not end
    /// (`DXGK_INTERRUPT_DMA_PAGE_FAULTED` with a `FaultedVirtualAddress`). It is recorded,
    /// nothing more.
    pub fn notify_page_fault(&self, at: &mut DeviceLevel, node: u32, fence: Fence, address: u64) {
        if let Some(kernel) = self.kernel.upgrade()
            && kernel.hear(self.adapter, Cause::Node(node))
        {
            kernel.report_fault(at, self.adapter, node, fence, Found::At(address));
        }
    }

    /// Reports that a packet of a node faulted, where its driver does not know which
    /// (`DXGK_PAGE_FAULT_FENCE_INVALID`). A node does one after the other, so it is the oldest.
    pub fn notify_unknown_fault(&self, at: &mut DeviceLevel, node: u32) {
        let Some(kernel) = self.kernel.upgrade() else { return };
        if !kernel.hear(self.adapter, Cause::Node(node)) {
            return;
        }
        let oldest = {
            let world = kernel.world.hold();
            let it = world.adapters.get(self.adapter);
            let it = it.and_then(|it| it.nodes.get(node as usize));
            it.filter(|it| it.reported != it.given).map(|it| it.reported.next())
        };
        if let Some(fence) = oldest {
            kernel.report_fault(at, self.adapter, node, fence, Found::Word(None));
        }
    }

    /// Reports that a node has given packets back (`DXGK_INTERRUPT_DMA_PREEMPTED`): the request
    /// it answers, and the last packet that it has done. It is recorded, nothing more.
    pub fn notify_preempted(
        &self,
        at: &mut DeviceLevel,
        node: u32,
        preemption: Fence,
        last_done: Fence,
    ) {
        if let Some(kernel) = self.kernel.upgrade()
            && kernel.hear(self.adapter, Cause::Node(node))
        {
            kernel.report_preempted(at, self.adapter, node, preemption, last_done);
        }
    }

    /// Reports a vsync (`DXGK_INTERRUPT_CRTC_VSYNC`).
    pub fn notify_vsync(&self, _at: &mut DeviceLevel) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.hear(self.adapter, Cause::Vsync);
        }
    }

    /// The driver model that its driver was written for.
    pub fn generation(&self) -> Option<Generation> {
        let kernel = self.kernel.upgrade()?;
        let world = kernel.world.hold();
        world.adapters.get(self.adapter).map(|it| it.driver.generation)
    }

    /// Whether the call that runs here is one of the interrupt routine.
    pub fn interrupting(&self) -> bool {
        let kernel = self.kernel.upgrade();
        let call = InCall::current().map(|it| it.number);
        let Some((kernel, call)) = kernel.zip(call) else { return false };
        let world = kernel.world.hold();
        world.adapters.get(self.adapter).is_some_and(|it| {
            let mut runs = it.interrupts.runs.iter();
            runs.any(|(number, run)| *number == call && matches!(run, Run::Interrupt(_)))
        })
    }
}

impl Driver {
    /// The interrupt routine, inside its call: what it does is judged when it has returned.
    ///
    /// WINDOWS: a line is shared. A driver that claims what is not its own keeps it from
    /// another, and one that leaves its source asserted is called for ever (documented).
    pub(crate) fn run_interrupt(&self, routine: impl FnOnce() -> Answer<bool>) -> Answer<bool> {
        let own = self.machine.asserted();
        let listed = self.list(|_| Run::Interrupt(Reported::default()));
        let answer = routine();
        let run = listed.and_then(Listed::over);
        if let (Some(own), Ok(claimed)) = (own, &answer) {
            let left = self.machine.asserted() == Some(true);
            let broken = match (own, *claimed) {
                (false, true) => Some("that was not its own: its hardware asked for none"),
                (true, true) if left => Some("and left its hardware asking for it"),
                _ => None,
            };
            let broken = broken.map(|it| format!("the driver answered TRUE to an interrupt {it}"));
            self.judge(RuleId::KMD_ISR_002, "DxgkDdiInterruptRoutine", broken);
        }
        if let Some(Run::Interrupt(Reported { some: true, queued, .. })) = run {
            let broken = (!queued).then(|| {
                "the interrupt routine reported something, but did not ask for the DPC before it \
                 returned"
                    .to_owned()
            });
            self.judge(RuleId::KMD_ISR_006, "DxgkDdiInterruptRoutine", broken);
        }
        answer
    }

    /// The DPC, inside its call.
    pub(crate) fn run_dpc(&self, routine: impl FnOnce() -> Answer<()>) -> Answer<()> {
        let listed = self.list(|it| {
            it.pending = false;
            Run::Dpc { follows: std::mem::take(&mut it.unfollowed), notified: false }
        });
        let answer = routine();
        if let Some(Run::Dpc { follows: true, notified }) = listed.and_then(Listed::over) {
            let broken = (!notified).then(|| {
                "the DPC behind a reported interrupt returned, but did not call DxgkCbNotifyDpc"
                    .to_owned()
            });
            self.judge(RuleId::KMD_ISR_006, "DxgkDdiDpcRoutine", broken);
        }
        answer
    }

    fn list(&self, run: impl FnOnce(&mut Interrupts) -> Run) -> Option<Listed<'_>> {
        let (kernel, call) = (self.kernel.upgrade()?, InCall::current()?);
        let mut world = kernel.world.hold();
        let it = &mut world.adapters.get_mut(self.adapter)?.interrupts;
        let run = run(it);
        it.runs.push((call.number, run));
        Some(Listed(self, Some(call.number)))
    }

    fn judge(&self, rule: RuleId, place: &'static str, broken: Option<String>) {
        self.log.judge(rule, Who::Driver, self.adapter.subject(), place, broken);
    }
}

impl Listed<'_> {
    /// It is over: what it has done.
    fn over(mut self) -> Option<Run> {
        self.leave()
    }

    fn leave(&mut self) -> Option<Run> {
        let number = self.1.take()?;
        let kernel = self.0.kernel.upgrade()?;
        let mut world = kernel.world.hold();
        let runs = &mut world.adapters.get_mut(self.0.adapter)?.interrupts.runs;
        let place = runs.iter().position(|it| it.0 == number)?;
        Some(runs.remove(place).1)
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Interrupts {
    /// The run that the code here belongs to.
    fn here(&mut self) -> Option<&mut Run> {
        let call = InCall::current()?.number;
        self.runs.iter_mut().find(|it| it.0 == call).map(|it| &mut it.1)
    }

    /// The DPC that runs here has told of its end (`DxgkCbNotifyDpc`).
    pub(crate) fn follow_up(&mut self) {
        if let Some(Run::Dpc { notified, .. }) = self.here() {
            *notified = true;
        }
    }

    /// The driver asks for its DPC. Answers whether it was not pending.
    pub(crate) fn ask(&mut self) -> bool {
        if let Some(Run::Interrupt(it)) = self.here() {
            it.queued = true;
        }
        !std::mem::replace(&mut self.pending, true)
    }
}

impl Kernel {
    /// Hears a report, and judges its place. Answers whether what it is about is there.
    fn hear(&self, adapter: Id<Adapter>, cause: Cause) -> bool {
        self.hear_in(&mut self.world.hold(), adapter, cause)
    }

    fn hear_in(&self, world: &mut World, adapter: Id<Adapter>, cause: Cause) -> bool {
        let place = "DxgkCbNotifyInterrupt";
        // A driver may still report after its adapter has stopped.
        let Some(it) = world.adapters.get_mut(adapter) else { return false };
        it.interrupts.unfollowed = true;
        if let Some(Run::Interrupt(run)) = it.interrupts.here() {
            let late = run.vsync && cause != Cause::Vsync;
            run.some = true;
            run.vsync |= cause == Cause::Vsync;
            let broken = late.then(|| {
                "the interrupt routine reported work of a node behind a vsync, but what \
                 nodes did comes first"
                    .to_owned()
            });
            self.log.judge(RuleId::KMD_ISR_007, Who::Driver, adapter.subject(), place, broken);
        }
        let Cause::Node(node) = cause else {
            if let Some(seen) = &mut it.interrupts.vsync {
                *seen = true;
            }
            self.log.emit(adapter.subject(), What::VsyncReported {});
            return true;
        };
        let nodes = it.nodes.len();
        let there = (node as usize) < nodes;
        let broken =
            (!there).then(|| format!("node {node} reported, but {adapter} has {nodes} nodes"));
        let place = "DxgkCbNotifyInterrupt.NodeOrdinal";
        self.log.judge(RuleId::KMD_ISR_009, Who::Driver, adapter.subject(), place, broken);
        there
    }

    /// Raises the interrupt line for hardware that is not the adapter's: lines are shared. The
    /// adapter's own is at rest.
    pub fn interrupt_of_another(&self, at: &mut Passive, adapter: AdapterId) {
        let driver = {
            let mut world = self.world.hold();
            let it = world.adapters.get_mut(adapter.0).filter(|it| it.runs() && !it.quiet);
            let Some(it) = it else { return };
            it.interrupting += 1; // From here on a stop waits.
            it.driver.clone()
        };
        // A routine that fails is an event; there is nobody to tell.
        let _ = driver.interrupt(at);
        if self.take_dpc(adapter.0) {
            let _ = driver.dpc(at);
        }
        let mut world = self.world.hold();
        if let Some(it) = world.adapters.get_mut(adapter.0) {
            it.interrupting -= 1;
        }
        self.wake(&mut world);
    }

    /// Has the driver report vsyncs, or not any more (`DxgkDdiControlInterrupt`); what else it
    /// is asked to switch, it does not do.
    pub fn control_interrupt(
        &self,
        at: &mut Passive,
        adapter: AdapterId,
        of: Interrupt,
        on: bool,
    ) -> Answer<()> {
        let running = |world: &World| world.adapters.get(adapter.0).and_then(Adapter::running);
        let driver = running(&self.world.hold()).ok_or(Refusal::Absent)?;
        let keys = Class::Zero.keys(adapter.0, driver.generation, None);
        let pass = self.enter(at, keys).map_err(|_| Refusal::Busy)?;
        // Who parked looks again.
        running(&self.world.hold()).ok_or(Refusal::Absent)?;
        if of == Interrupt::Vsync {
            self.expect_vsync(adapter, on, None);
        }
        let answer = driver.control_interrupt(at, &pass, of, on);
        drop(pass);
        match of {
            Interrupt::Vsync => self.expect_vsync(adapter, on, Some(answer)),
            Interrupt::Completed if answer == Err(Refusal::Absent) => {}
            Interrupt::Completed => {
                let said = answer.err().map_or("success".into(), Refusal::name);
                let broken = (answer != Err(Refusal::Unimplemented)).then(|| {
                    format!(
                        "the driver was told to switch DXGK_INTERRUPT_DMA_COMPLETED and answered \
                         {said}, but only vsync is switched, the rest is not implemented"
                    )
                });
                let place = "DxgkDdiControlInterrupt.InterruptType";
                driver.judge(RuleId::KMD_ISR_014, place, broken);
            }
        }
        answer
    }

    /// Before the driver is told, nothing has been reported; after it, what it refused is off.
    fn expect_vsync(&self, adapter: AdapterId, on: bool, answer: Option<Answer<()>>) {
        let mut world = self.world.hold();
        // A driver may still report after its adapter has stopped.
        let Some(it) = world.adapters.get_mut(adapter.0) else { return };
        match answer {
            None => it.interrupts.vsync = on.then_some(false),
            Some(Ok(())) => self.log.emit(adapter.subject(), What::VsyncSwitched { on }),
            Some(Err(_)) => it.interrupts.vsync = None,
        }
    }

    /// Judges that vsyncs that are switched on were reported. All is quiet: what did not come
    /// will not.
    pub fn judge_vsync(&self, adapter: AdapterId) {
        let world = self.world.hold();
        let vsync = world.adapters.get(adapter.0).and_then(|it| it.interrupts.vsync);
        let Some(seen) = vsync else { return };
        let broken = (!seen).then(|| {
            "vsync was switched on, but the driver has reported none, and nothing moves any more"
                .to_owned()
        });
        let (place, about) = ("DxgkDdiControlInterrupt.EnableInterrupt", adapter.subject());
        self.log.judge(RuleId::KMD_ISR_014, Who::Driver, about, place, broken);
    }
}
