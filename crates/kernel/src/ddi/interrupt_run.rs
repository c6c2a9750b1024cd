//! Runs of a driver's interrupt routine and DPC: what each does is judged when it has returned.

use crate::ddi::Driver;
use crate::ddi::miniport::DriverResult;
use flight::{CallGuard, Component, RuleId};
use smallvec::SmallVec;

/// Of an adapter: what its driver does about interrupts.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    /// A DPC was asked for, and the driver has not been entered for it.
    pub(crate) pending: bool,
    /// Something was reported in an interrupt that no DPC has followed.
    pub(crate) dpc_unhandled: bool,
    /// The interrupt routines and DPCs that have not returned.
    pub(crate) runs: SmallVec<[(u32, InterruptRun); 1]>,
    /// A vsync was reported since they were switched on; none where they are not.
    pub(crate) vsync: Option<bool>,
}

/// One run of an interrupt routine or a DPC.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InterruptRun {
    Isr(InterruptReport),
    /// Whether it follows a report, and whether it said so (`DxgkCbNotifyDpc`).
    Dpc {
        follows: bool,
        notified: bool,
    },
}

/// What an interrupt routine has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InterruptReport {
    /// It has reported something.
    pub(crate) some: bool,
    /// It has reported a vsync.
    pub(crate) vsync: bool,
    /// It has asked for the DPC.
    pub(crate) queued: bool,
}

/// While it lives, a run is listed: also when a driver unwinds. Without a number it is over.
struct InterruptRunGuard<'a>(&'a Driver, Option<u32>);

impl Driver {
    /// The interrupt routine, inside its call: what it does is judged when it has returned.
    ///
    /// WINDOWS: a line is shared. A driver that claims what is not its own keeps it from
    /// another, and one that leaves its source asserted is called for ever (documented).
    pub(crate) fn run_interrupt(
        &self,
        routine: impl FnOnce() -> DriverResult<bool>,
    ) -> DriverResult<bool> {
        let own = self.hardware.interrupt_asserted();
        let listed = self.begin_interrupt_run(|_| InterruptRun::Isr(InterruptReport::default()));
        let result = routine();
        let run = listed.and_then(InterruptRunGuard::finish);
        if let (Some(own), Ok(claimed)) = (own, &result) {
            let remaining = self.hardware.interrupt_asserted() == Some(true);
            let broken = match (own, *claimed) {
                (false, true) => Some("that its hardware did not raise"),
                (true, true) if remaining => Some("and left its interrupt source asserted"),
                _ => None,
            };
            let broken =
                broken.map(|text| format!("the driver returned TRUE for an interrupt {text}"));
            self.judge(RuleId::KMD_ISR_002, "DxgkDdiInterruptRoutine", broken);
        }
        if let Some(InterruptRun::Isr(InterruptReport { some: true, queued, .. })) = run {
            let broken = (!queued).then(|| {
                "the interrupt routine reported an interrupt, but did not queue the DPC before it \
                 returned"
                    .to_owned()
            });
            self.judge(RuleId::KMD_ISR_006, "DxgkDdiInterruptRoutine", broken);
        }
        result
    }

    /// The DPC, inside its call.
    pub(crate) fn run_dpc(&self, routine: impl FnOnce() -> DriverResult<()>) -> DriverResult<()> {
        let listed = self.begin_interrupt_run(|it| {
            it.pending = false;
            InterruptRun::Dpc { follows: std::mem::take(&mut it.dpc_unhandled), notified: false }
        });
        let result = routine();
        if let Some(InterruptRun::Dpc { follows: true, notified }) =
            listed.and_then(InterruptRunGuard::finish)
        {
            let broken = (!notified).then(|| {
                "the DPC behind a reported interrupt returned, but did not call DxgkCbNotifyDpc"
                    .to_owned()
            });
            self.judge(RuleId::KMD_ISR_006, "DxgkDdiDpcRoutine", broken);
        }
        result
    }

    fn begin_interrupt_run(
        &self,
        run: impl FnOnce(&mut Interrupts) -> InterruptRun,
    ) -> Option<InterruptRunGuard<'_>> {
        let (kernel, call) = (self.kernel.upgrade()?, CallGuard::current()?);
        let mut state = kernel.state.lock();
        let it = &mut state.adapters.get_mut(self.adapter)?.interrupts;
        let run = run(it);
        it.runs.push((call.number, run));
        Some(InterruptRunGuard(self, Some(call.number)))
    }

    pub(crate) fn judge(&self, rule: RuleId, argument: &'static str, broken: Option<String>) {
        self.log.judge(rule, Component::Driver, self.adapter.subject(), argument, broken);
    }
}

impl InterruptRunGuard<'_> {
    /// It is over: what it has done.
    fn finish(mut self) -> Option<InterruptRun> {
        self.remove()
    }

    fn remove(&mut self) -> Option<InterruptRun> {
        let number = self.1.take()?;
        let kernel = self.0.kernel.upgrade()?;
        let mut state = kernel.state.lock();
        let runs = &mut state.adapters.get_mut(self.0.adapter)?.interrupts.runs;
        let argument = runs.iter().position(|pair| pair.0 == number)?;
        Some(runs.remove(argument).1)
    }
}

impl Drop for InterruptRunGuard<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Interrupts {
    /// The run that the code here belongs to.
    pub(crate) fn current_run(&mut self) -> Option<&mut InterruptRun> {
        let call = CallGuard::current()?.number;
        self.runs.iter_mut().find(|pair| pair.0 == call).map(|it| &mut it.1)
    }

    /// The DPC that runs here has told of its end (`DxgkCbNotifyDpc`).
    pub(crate) fn note_dpc_notified(&mut self) {
        if let Some(InterruptRun::Dpc { notified, .. }) = self.current_run() {
            *notified = true;
        }
    }

    /// The driver asks for its DPC. Answers whether it was not pending.
    pub(crate) fn request_dpc(&mut self) -> bool {
        if let Some(InterruptRun::Isr(it)) = self.current_run() {
            it.queued = true;
        }
        !std::mem::replace(&mut self.pending, true)
    }
}
