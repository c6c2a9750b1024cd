//! The time that a driver spends at `DISPATCH_LEVEL` or above. It is virtual time, so what is found
//! repeats: a stall takes what it asks for, and a reading of a clock takes a moment.
//!
//! A driver that polls at a raised IRQL never lets another thread change what it polls. So after a
//! million calls since the IRQL was raised, each takes longer than the one before, and an endless
//! poll soon reaches the limit of the DPC watchdog. The deadline does not end it before.
//!
//! A loop without a call of an import takes no virtual time: the deadline ends it.

use crate::ke_irql::{DISPATCH_LEVEL, KIRQL};
use crate::pool::Pool;
use crate::processor::ExitState;
use crate::waits::current_call;
use flight::{Component, ExecutionContext, Log, RuleId};

/// Units of 100 ns per microsecond.
const MICROSECOND: u64 = 10;

/// The longest stall of one call. WINDOWS: documented.
const MAX_STALL: u64 = 50 * MICROSECOND;

/// The longest time of one DPC. WINDOWS: documented.
const MAX_DPC: u64 = 100 * MICROSECOND;

/// The time after which the DPC watchdog stops the system. WINDOWS: 20 s is the documented default
/// for a single DPC.
const WATCHDOG: u64 = 20_000_000 * MICROSECOND;

/// Number of calls that take the time that they ask for. Each ten of the later ones take one unit
/// longer than the ten before.
const EXACT_CALLS: u64 = 1_000_000;
const CALLS_PER_UNIT: u64 = 10;

/// The time that driver code has spent at `DISPATCH_LEVEL` or above, in units of 100 ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RaisedTime {
    /// Since the IRQL was raised.
    time: u64,
    /// Number of calls since the IRQL was raised.
    calls: u64,
    /// Since the code was entered.
    total: u64,
}

impl RaisedTime {
    /// The driver changed its IRQL.
    pub(crate) fn irql_changed(&mut self, to: KIRQL) {
        if to < DISPATCH_LEVEL {
            (self.time, self.calls) = (0, 0);
        }
    }

    /// A call of the driver takes this time. Returns how long it takes.
    pub(crate) fn pass(&mut self, irql: KIRQL, time: u64) -> u64 {
        if irql < DISPATCH_LEVEL {
            return time;
        }
        let time = time.saturating_add(self.calls.saturating_sub(EXACT_CALLS) / CALLS_PER_UNIT);
        self.calls += 1;
        self.time = self.time.saturating_add(time);
        self.total = self.total.saturating_add(time);
        time
    }

    /// Whether the DPC watchdog stops the system.
    pub(crate) fn is_too_long(&self) -> bool {
        self.time >= WATCHDOG
    }

    /// Whether one call was made since the IRQL was raised.
    pub(crate) fn is_first_call(&self) -> bool {
        self.calls == 1
    }

    /// Whether the IRQL is raised, and calls were made since.
    pub(crate) fn is_raised(&self) -> bool {
        self.calls > 0
    }

    /// The time since the code was entered.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}

/// Entry rule: one call stalls for at most 50 microseconds.
pub(crate) fn judge_stall(log: &Log, microseconds: u32) {
    const NAME: &str = "KeStallExecutionProcessor";
    let too_long = u64::from(microseconds) * MICROSECOND > MAX_STALL;
    let broken = too_long.then(|| {
        format!("{NAME} was called for {microseconds} microseconds: at most 50 are for one call")
    });
    log.judge(RuleId::WT_TIME_001, Component::Driver, current_call(), NAME, broken);
}

/// Entry rule: a DPC takes at most 100 microseconds.
pub fn judge_dpc(log: &Log, routine: &'static str, left: &ExitState) {
    let broken = (left.raised_time > MAX_DPC).then(|| {
        let time = left.raised_time / MICROSECOND;
        format!(
            "{routine} kept the processor at DISPATCH_LEVEL for {time} microseconds of virtual \
             time: at most 100 are for one DPC"
        )
    });
    log.judge(RuleId::WT_TIME_002, Component::Driver, current_call(), routine, broken);
}

/// Entry rule: a driver leaves `DISPATCH_LEVEL`. One that does not is ended here: the process of a
/// flight ends with a record, and a driver in Rust unwinds.
pub(crate) fn judge_watchdog(log: &Log, import: &'static str, too_long: bool) {
    if !too_long {
        return log.judge(RuleId::WT_TIME_003, Component::Driver, current_call(), import, None);
    }
    crate::image::end_for_watchdog();
    if let Some(pool) = ExecutionContext::attached::<Pool>() {
        pool.stop();
    }
    let broken = format!(
        "{import} was called again and again at DISPATCH_LEVEL or above, for {} seconds of virtual \
         time: bug check 0x133",
        WATCHDOG / MICROSECOND / 1_000_000
    );
    log.judge(RuleId::WT_TIME_003, Component::Driver, current_call(), import, Some(broken));
    std::panic::resume_unwind(Box::new("the driver polls without an end"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ke_irql::{KeLowerIrql, KeRaiseIrqlToDpcLevel};
    use crate::ke_time::{KeQueryInterruptTime, KeStallExecutionProcessor};
    use crate::processor::run_driver;
    use crate::testing::{broken_rules, fly_with};

    fn assert_broken(log: &Log, rule: &str) {
        let broken = broken_rules(log);
        assert!(broken.len() == 1 && broken[0].contains(rule), "{broken:?}");
    }

    #[test]
    fn a_stall_beyond_50_microseconds_is_found() {
        fly_with(0, |host, log, _| {
            run_driver(host, log, || {
                KeStallExecutionProcessor(50);
                KeStallExecutionProcessor(51);
            });
            assert_broken(log, "rule=WT-TIME-001");
        });
    }

    #[test]
    fn only_time_at_dispatch_level_counts_for_a_dpc() {
        fly_with(0, |host, log, _| {
            let ((), left) = run_driver(host, log, || {
                (0..20).for_each(|_| KeStallExecutionProcessor(40));
                let before = KeRaiseIrqlToDpcLevel();
                (0..2).for_each(|_| KeStallExecutionProcessor(50));
                KeLowerIrql(before);
            });
            judge_dpc(log, "a DPC routine", &left);
            assert_eq!((left.raised_time, broken_rules(log).len()), (1000, 0));
            judge_dpc(log, "a DPC routine", &ExitState { raised_time: 1001, ..left });
            assert_broken(log, "rule=WT-TIME-002");
        });
    }

    #[test]
    fn an_endless_poll_at_dispatch_level_is_ended() {
        for poll in [|| KeStallExecutionProcessor(1), || _ = KeQueryInterruptTime()] {
            fly_with(0, |host, log, _| {
                let polls = || {
                    KeRaiseIrqlToDpcLevel();
                    loop {
                        poll();
                    }
                };
                let body = || run_driver(host, log, polls);
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
                assert!(ended.is_err());
                assert_broken(log, "rule=WT-TIME-003");
            });
        }
    }

    #[test]
    fn a_poll_that_lowers_the_irql_between_is_not_endless() {
        fly_with(0, |host, log, _| {
            run_driver(host, log, || {
                for _ in 0..3 {
                    let before = KeRaiseIrqlToDpcLevel();
                    (0..300_000).for_each(|_| KeStallExecutionProcessor(50));
                    KeLowerIrql(before);
                }
            });
            assert_eq!(broken_rules(log), Vec::<String>::new());
        });
    }
}
