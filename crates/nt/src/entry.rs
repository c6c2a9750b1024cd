//! What every exported function does at its entry: it keeps panics from the driver, and judges the
//! IRQL of the call.

use crate::processor::current;
use crate::waits::current_call;
use flight::{CallGuard, Component, Irql, RuleId, resume_internal_error};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an exported function. If it panics, `otherwise` is returned to the driver. An
/// internal error is passed on.
pub(crate) fn guarded<R>(otherwise: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).map_err(resume_internal_error).unwrap_or(otherwise)
}

/// Entry rule: the function `name` is called at most at IRQL `max`. A violation is reported, and the
/// function goes on.
pub(crate) fn judge_level(name: &'static str, max: Irql) {
    let Some((host, log)) = current(name) else { return };
    let at = host.irql();
    let broken = (at > max).then(|| format!("{name} was called at {at} level"));
    if broken.is_none() || !CallGuard::misuse(name) {
        log.judge(RuleId::WT_LEVEL_001, Component::Driver, current_call(), name, broken);
    }
}

/// Entry rule: the function `name` is called at passive level.
pub(crate) fn judge_passive(name: &'static str) {
    judge_level(name, Irql::Passive);
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
            judge_passive("PlantedFunction");
            crate::KeRaiseIrqlToDpcLevel();
            judge_passive("PlantedFunction");
            judge_level("PlantedFunction", Irql::Dispatch);
            assert_eq!(guarded(7, || std::panic::resume_unwind(Box::new(()))), 7);
            crate::KeLowerIrql(0);
        });
        let broken = |event: &&Event| matches!(event.kind, EventKind::RuleBroken { .. });
        assert_eq!(events.iter().filter(broken).count(), 1);
    }
}
