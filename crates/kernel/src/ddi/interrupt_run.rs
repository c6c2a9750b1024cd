//! Runs of a driver's interrupt routine and DPC. The rules about a run are judged when it has
//! returned.

use crate::ddi::Driver;
use crate::ddi::miniport::DriverResult;
use crate::kernel::Kernel;
use flight::{CallGuard, Component, EventKind, InterruptRun, Passive, RuleId, current_thread};
use smallvec::SmallVec;

/// How often a routine may claim one interrupt of another device.
const MAX_CLAIMS: usize = 4;

/// The interrupt state of an adapter.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    /// A DPC is queued and has not started.
    pub(crate) pending: bool,
    /// An interrupt routine reported something, and no DPC has run since.
    pub(crate) dpc_unhandled: bool,
    /// The driver has reported work of a node.
    pub(crate) has_reported: bool,
    /// Whether a vsync was reported since vsync reports were enabled. `None` while they are
    /// disabled.
    pub(crate) vsync: Option<bool>,
    /// The synchronized routines that have not returned, by their threads.
    synchronized: SmallVec<[(u32, SynchronizedRun); 1]>,
    /// Since when a report of a synchronized routine waits for a DPC that is not queued.
    unqueued_since: Option<u64>,
}

/// What a routine under `DxgkCbSynchronizeExecution` has done.
#[derive(Clone, Copy, Debug, Default)]
struct SynchronizedRun {
    reported: bool,
    queued: bool,
}

impl Driver {
    /// Runs the interrupt routine inside its call, and judges it when it has returned.
    ///
    /// WINDOWS: an interrupt line is shared. A driver that claims another device's interrupt keeps
    /// it from that device's driver; a driver that leaves its source asserted is called again
    /// without end (documented).
    pub(crate) fn run_interrupt(
        &self,
        routine: impl FnOnce() -> DriverResult<bool>,
    ) -> DriverResult<bool> {
        let count = self.hardware.interrupt_count();
        let own = self.hardware.interrupt_asserted();
        CallGuard::begin_interrupt(self.adapter.serial(), InterruptRun::ISR);
        let result = routine();
        if let (Some(own), Ok(claimed)) = (own, &result) {
            let remaining = self.hardware.interrupt_asserted() == Some(true);
            // Other threads of the driver acknowledge it, too, and the hardware may assert it again.
            let same = count == self.hardware.interrupt_count();
            let dismissed = CallGuard::current().is_some_and(|call| call.acknowledged);
            let broken = match (own, *claimed) {
                (false, true) if same => {
                    Some("TRUE for an interrupt that its hardware did not raise")
                }
                (true, true) if remaining && same => {
                    Some("TRUE for an interrupt and left its interrupt source asserted")
                }
                (_, false) if dismissed => {
                    Some("FALSE for an interrupt of its own hardware, which it dismissed")
                }
                (true, false) if remaining && same => {
                    Some("FALSE for an interrupt of its own hardware")
                }
                _ => None,
            };
            let broken = broken.map(|text| format!("the driver returned {text}"));
            self.judge(RuleId::KMD_ISR_002, "DxgkDdiInterruptRoutine", broken);
        }
        if let Some(InterruptRun::Isr { reported: true, queued, .. }) = self.current_run() {
            let broken = (!queued).then(|| {
                "the interrupt routine reported an interrupt, but did not queue the DPC before it \
                 returned"
                    .to_owned()
            });
            self.judge(RuleId::KMD_ISR_006, "DxgkDdiInterruptRoutine", broken);
        }
        result
    }

    /// Calls the interrupt routine for another device's interrupt, where no hardware model can tell
    /// whether the adapter interrupts, too.
    ///
    /// WINDOWS: a line stays asserted until the routine of its device has run, so a routine that
    /// returns TRUE is called again (documented). A driver may have work of its own the first times.
    pub(crate) fn run_foreign_interrupt(&self, at: &mut Passive) {
        let claims = (0..MAX_CLAIMS).take_while(|_| self.interrupt_routine(at) == Ok(true));
        let broken = (claims.count() == MAX_CLAIMS).then(|| {
            format!(
                "the driver returned TRUE {MAX_CLAIMS} times for one interrupt, which another \
                 device on the line raised"
            )
        });
        self.judge(RuleId::KMD_ISR_002, "DxgkDdiInterruptRoutine", broken);
    }

    /// Runs the DPC inside its call, and judges it when it has returned.
    pub(crate) fn run_dpc(
        &self,
        kernel: &Kernel,
        routine: impl FnOnce() -> DriverResult<()>,
    ) -> DriverResult<()> {
        self.begin_dpc(kernel);
        let result = routine();
        if let Some(InterruptRun::Dpc { follows: true, notified }) = self.current_run() {
            let broken = (!notified).then(|| {
                "the DPC behind a reported interrupt returned, but did not call DxgkCbNotifyDpc"
                    .to_owned()
            });
            self.judge(RuleId::KMD_ISR_006, "DxgkDdiDpcRoutine", broken);
        }
        result
    }

    /// Judges, when the driver has stopped, that each report of a synchronized routine has a DPC.
    pub(crate) fn judge_unqueued_reports(&self) {
        // The driver may outlive the kernel, and its adapter may be removed.
        let Some(kernel) = self.kernel.upgrade() else { return };
        let mut state = kernel.state.lock();
        let Some(it) = state.adapters.get_mut(self.adapter) else { return };
        if it.interrupts.take_unqueued(None) {
            self.judge_synchronized(false);
        }
    }

    /// Judges that the DPC behind a report of a synchronized routine is queued.
    pub(crate) fn judge_synchronized(&self, queued: bool) {
        let broken = (!queued).then(|| {
            "the driver reported an interrupt under DxgkCbSynchronizeExecution, but did not queue \
             the DPC then or later"
                .to_owned()
        });
        self.judge(RuleId::KMD_ISR_006, "DxgkCbSynchronizeExecution", broken);
    }

    /// Logs that the hardware can still interrupt after the driver stopped it.
    pub(crate) fn report_interrupt_left(&self) {
        let hardware = &self.hardware;
        if [hardware.interrupt_asserted(), hardware.interrupt_enabled()].contains(&Some(true)) {
            self.log.emit(self.adapter.subject(), || EventKind::InterruptLeft {});
        }
    }

    /// The queued DPC starts, in this call.
    fn begin_dpc(&self, kernel: &Kernel) {
        let mut state = kernel.state.lock();
        // The adapter may be removed.
        let Some(it) = state.adapters.get_mut(self.adapter) else { return };
        let follows = it.interrupts.begin_dpc();
        let run = InterruptRun::Dpc { follows, notified: false };
        CallGuard::begin_interrupt(self.adapter.serial(), run);
    }

    /// The run of the current call.
    fn current_run(&self) -> Option<InterruptRun> {
        CallGuard::with_interrupt(self.adapter.serial(), |run| *run)
    }

    #[inline]
    pub(crate) fn judge(&self, rule: RuleId, argument: &'static str, broken: Option<String>) {
        self.log.judge(rule, Component::Driver, self.adapter.subject(), argument, broken);
    }
}

impl Interrupts {
    /// The queued DPC starts. Returns whether it follows a report.
    fn begin_dpc(&mut self) -> bool {
        self.pending = false;
        self.unqueued_since = None;
        std::mem::take(&mut self.dpc_unhandled)
    }

    /// A routine begins under `DxgkCbSynchronizeExecution` on this thread.
    pub(crate) fn begin_synchronized(&mut self) {
        self.synchronized.push((current_thread(), SynchronizedRun::default()));
    }

    /// The routine has returned. Returns whether its DPC is queued, or `None` if it reported
    /// nothing. A DPC that is queued later is not too late.
    pub(crate) fn end_synchronized(&mut self, now: u64) -> Option<bool> {
        let thread = current_thread();
        let at = self.synchronized.iter().rposition(|(on, _)| *on == thread)?;
        let (_, run) = self.synchronized.remove(at);
        let queued = run.queued || self.pending;
        if run.reported && !queued {
            self.unqueued_since.get_or_insert(now);
        }
        run.reported.then_some(queued)
    }

    /// Records a report of the synchronized routine of this thread, if there is one.
    pub(crate) fn note_synchronized_report(&mut self) {
        if let Some(it) = self.current_synchronized() {
            it.reported = true;
        }
    }

    /// Whether a report has waited for a DPC since this time or longer; with `None`, for any time.
    /// The wait is then forgotten.
    pub(crate) fn take_unqueued(&mut self, since: Option<u64>) -> bool {
        let long = |waits: &mut u64| since.is_none_or(|since| *waits <= since);
        self.unqueued_since.take_if(long).is_some()
    }

    fn current_synchronized(&mut self) -> Option<&mut SynchronizedRun> {
        let thread = current_thread();
        let mut runs = self.synchronized.iter_mut().rev();
        runs.find(|(on, _)| *on == thread).map(|(_, run)| run)
    }

    /// The driver queues its DPC. Returns false if the DPC was already pending, or is refused.
    pub(crate) fn request_dpc(&mut self, refused: bool) -> bool {
        if let Some(it) = self.current_synchronized() {
            it.queued = true;
        }
        self.unqueued_since = None;
        !refused && !std::mem::replace(&mut self.pending, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a synchronized routine that reports, and perhaps queues its DPC, at time 7.
    fn synchronized(it: &mut Interrupts, queues: bool) -> Option<bool> {
        it.begin_synchronized();
        if queues {
            it.request_dpc(false);
        }
        it.note_synchronized_report();
        it.end_synchronized(7)
    }

    #[test]
    fn a_report_without_a_dpc_is_known_until_a_dpc_is_queued() {
        let mut it = Interrupts::default();
        it.begin_synchronized();
        assert_eq!(it.end_synchronized(7), None, "it reported nothing");
        assert_eq!(synchronized(&mut it, false), Some(false));
        assert!(!it.take_unqueued(Some(6)), "not long enough");
        assert!(it.take_unqueued(Some(7)) && !it.take_unqueued(None), "it is judged once");
        assert_eq!(synchronized(&mut it, false), Some(false));
        it.request_dpc(false);
        assert!(!it.take_unqueued(None), "queued after the routine has returned");
    }

    #[test]
    fn a_dpc_that_is_queued_before_the_report_follows_it() {
        let mut it = Interrupts::default();
        assert_eq!(synchronized(&mut it, true), Some(true));
        assert_eq!(synchronized(&mut it, false), Some(true), "it is still pending");
        assert!(!it.take_unqueued(None));
    }
}
