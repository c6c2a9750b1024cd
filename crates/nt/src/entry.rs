//! What exported functions do at their entry: they keep panics from the driver, and judge the IRQL
//! of the call.

use crate::import_irql::{ImportIrql, irql_name, irql_of};
use crate::ke_irql::{APC_LEVEL, KIRQL};
use crate::processor::{current, holds_spin_lock, number, number_of};
use crate::waits::current_call;
use flight::{CallGuard, Component, Host, Irql, Log, RuleId, resume_internal_error};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// The import whose last call on this thread was judged by its thunk, and broke the rule.
    static FOUND_BY_THUNK: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Runs the body of an exported function. If it panics, `otherwise` is returned to the driver. An
/// internal error is passed on.
pub(crate) fn guarded<R>(otherwise: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).map_err(resume_internal_error).unwrap_or(otherwise)
}

/// Entry rule: an import is called at an IRQL that its page allows. A violation is reported, and the
/// function goes on.
///
/// A function judges itself for drivers that are linked to it. The calls of a driver from a file are
/// judged by its thunks, all of them, and are not reported twice.
pub(crate) fn judge_irql(import: &'static str) {
    let Some((host, log)) = current(import) else { return };
    let at = current_irql(&*host, import);
    let allowed = irql_of(import).is_none_or(|row| row.allows(at));
    let broken = (!allowed).then(|| irql_of(import).map(|row| row.breach(at))).flatten();
    judge(&log, import, broken);
}

/// Entry rule: a call is at most at an IRQL, for a reason in its arguments. `call` describes it.
pub(crate) fn judge_at_most(import: &'static str, call: &str, highest: KIRQL) {
    let Some((host, log)) = current(import) else { return };
    let at = current_irql(&*host, import);
    let broken = (at > highest).then(|| {
        let (at, highest) = (irql_name(at), irql_name(highest));
        format!("{call} was called at {at}, but may be called at {highest} at most")
    });
    judge(&log, import, broken);
}

/// Judges the call of an import whose thunk found an IRQL that its row does not allow.
pub(crate) fn judge_in_thunk(row: &'static ImportIrql, at: KIRQL) {
    guarded((), || {
        let Some((_, log)) = current(row.name) else { return };
        // The function reports a wait with a spin lock itself, by another rule.
        if row.name == "KeDelayExecutionThread" && holds_spin_lock(row.name) {
            return;
        }
        FOUND_BY_THUNK.set(None);
        judge(&log, row.name, Some(row.breach(at)));
        FOUND_BY_THUNK.set(Some(row.name));
    });
}

fn judge(log: &Log, import: &'static str, broken: Option<String>) {
    if broken.is_some() && (FOUND_BY_THUNK.take() == Some(import) || CallGuard::misuse(import)) {
        return;
    }
    log.judge(RuleId::WT_LEVEL_001, Component::Driver, current_call(), import, broken);
}

/// The IRQL of the driver's call as its number. The host does not know `APC_LEVEL`.
fn current_irql(host: &dyn Host, import: &'static str) -> KIRQL {
    match host.irql() {
        Irql::Passive => number(import).min(APC_LEVEL),
        level => number(import).max(number_of(level)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Executive, Pool};
    use abi::{HANDLE, PVOID};
    use flight::{DeterministicHost, Event, EventKind, Host, Log};
    use std::sync::Arc;

    /// Calls an exported function with memory of the test.
    macro_rules! call {
        ($function:expr $(, $argument:expr)* $(,)?) => {{
            let function = $function;
            // SAFETY: The test passes valid memory of its own.
            #[expect(clippy::allow_attributes, reason = "some functions are safe")]
            #[allow(unused_unsafe, reason = "some functions are safe")]
            unsafe { function($($argument),*) }
        }};
    }
    pub(crate) use call;

    /// Runs driver code in a flight with a pool and an executive; returns its events.
    pub(crate) fn fly(body: impl FnOnce()) -> Vec<Event> {
        fly_with(&Executive::new("planted"), body)
    }

    /// Runs driver code in a flight with a pool and this executive; returns its events.
    pub(crate) fn fly_with(executive: &Arc<Executive>, body: impl FnOnce()) -> Vec<Event> {
        let log = Arc::new(Log::new());
        let pool = Pool::new(log.clone());
        let flown = DeterministicHost::fly(1, &log, |host, _| {
            let host: Arc<dyn Host> = host.clone();
            let body = || pool.run_driver(|| executive.run_driver(body));
            crate::processor::run_driver(&host, &log, body);
            flight::Pool::close(&*pool);
        });
        assert_eq!(flown, Ok(()));
        log.take()
    }

    /// Number of events with this name.
    pub(crate) fn count(events: &[Event], name: &str) -> usize {
        events.iter().filter(|event| event.kind.name() == name).count()
    }

    /// UTF-16 code units with a NUL at the end.
    pub(crate) fn wide(text: &str) -> Vec<u16> {
        text.encode_utf16().chain([0]).collect()
    }

    /// A `UNICODE_STRING` with its text.
    pub(crate) struct TestString {
        words: [u64; 2],
        _text: Vec<u16>,
    }

    impl TestString {
        pub(crate) fn new(text: &str) -> Self {
            let text = wide(text);
            let bytes = (text.len() as u64 - 1) * 2;
            let address = text.as_ptr().expose_provenance() as u64;
            Self { words: [bytes | (bytes + 2) << 16, address], _text: text }
        }

        pub(crate) fn pointer(&mut self) -> PVOID {
            self.words.as_mut_ptr().cast()
        }
    }

    /// `OBJECT_ATTRIBUTES` with their name.
    pub(crate) struct TestAttributes {
        words: [u64; 6],
        _name: Box<TestString>,
    }

    impl TestAttributes {
        pub(crate) fn new(root: HANDLE, name: &str) -> Self {
            let mut name = Box::new(TestString::new(name));
            let address = name.pointer().expose_provenance() as u64;
            Self { words: [0x30, root.addr() as u64, address, 0x240, 0, 0], _name: name }
        }

        pub(crate) fn pointer(&mut self) -> PVOID {
            self.words.as_mut_ptr().cast()
        }
    }

    #[test]
    fn a_call_above_its_level_is_judged_and_a_panic_stays_here() {
        let events = fly(|| {
            judge_irql("ZwClose");
            crate::KeRaiseIrqlToDpcLevel();
            judge_irql("ZwClose");
            judge_irql("KeSetEvent");
            assert_eq!(guarded(7, || std::panic::resume_unwind(Box::new(()))), 7);
            crate::KeLowerIrql(0);
        });
        let broken = |event: &&Event| matches!(event.kind, EventKind::RuleBroken { .. });
        assert_eq!(events.iter().filter(broken).count(), 1);
    }
}
