//! What the tests of this crate share.

use crate::machine::Machine;
use crate::processor::{ExitState, run_driver};
use flight::{DeterministicHost, Host, Log, Passive, ThreadedHost};
use std::sync::Arc;

/// Runs driver code on the first thread of a deterministic host.
pub(crate) fn fly_driver(body: impl FnOnce(&Arc<dyn Host>)) -> ExitState {
    fly_with(0, |host, log, _| run_driver(host, log, || body(host)).1)
}

/// Flies on a deterministic host.
pub(crate) fn fly_with<R>(
    seed: u64,
    body: impl FnOnce(&Arc<dyn Host>, &Arc<Log>, &mut Passive) -> R,
) -> R {
    let log = Arc::new(Log::new());
    let flown = DeterministicHost::fly(seed, &log, |host, at| {
        let host: Arc<dyn Host> = host.clone();
        body(&host, &log, at)
    });
    flown.unwrap()
}

/// The misuses of imports that were logged; empties the log.
pub(crate) fn misuses(log: &Log) -> Vec<String> {
    let logged = log.take().into_iter().filter(|event| event.kind.name() == "driver.misuse");
    logged.map(|event| event.to_string()).collect()
}

/// The rules that were broken; empties the log.
pub(crate) fn broken_rules(log: &Log) -> Vec<String> {
    let broken = log.take().into_iter().filter(|event| event.kind.name() == "rule.broken");
    broken.map(|event| event.to_string()).collect()
}

/// Runs driver code on several seeds of the deterministic host and on the threaded host.
pub(crate) fn fly_on_both_hosts(body: impl Fn(&Arc<dyn Host>, &mut Passive)) {
    for seed in 0..8 {
        fly_with(seed, |host, log, at| run_driver(host, log, || body(host, at)));
    }
    let log = Arc::new(Log::new());
    let flown = ThreadedHost::fly(&log, |host, at| {
        let host: Arc<dyn Host> = host.clone();
        run_driver(&host, &log, || body(&host, at));
    });
    flown.unwrap();
}

/// Number of queued DPCs, of timers that are set, and of work items that are queued or run.
pub(crate) fn pending_work(host: &Arc<dyn Host>) -> (usize, usize, usize) {
    let machine = Machine::of(host);
    let ((dpcs, timers), (queued, running)) = (machine.dpcs.pending(), machine.work.pending());
    (dpcs.len(), timers.len(), queued.len() + running.len())
}
