//! The common part of the funnels: every driver call passes through it, for both driver models.
//!
//! A kernel adds its events, permits and bookkeeping. It holds no lock while the driver runs.

use crate::{
    CallGuard, Component, DriverError, DriverResult, Host, Kind, Level, Log, Passive, Pool,
    RunningCallGuard, Subject, resume_internal_error,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The environment of driver calls.
#[derive(Clone, Copy)]
pub struct Funnel<'a> {
    /// The host of the calling thread.
    pub host: &'a dyn Host,
    /// The log that numbers the calls.
    pub log: &'a Log,
    /// The driver's memory, which is inspected after each call.
    pub pool: Option<&'a dyn Pool>,
}

/// What code inside a call can query about it ([`CallGuard::current`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct CallScope {
    /// The Windows name of the function.
    pub name: &'static str,
    /// The process whose handles the driver's callbacks resolve.
    pub process: Option<u32>,
    /// Whether the call is in the GPU scheduler's class.
    pub scheduler: bool,
    /// Whether no other thread is inside the driver.
    pub exclusive: bool,
}

impl Funnel<'_> {
    /// Calls a driver at level `L`.
    ///
    /// `before` reports the call, and may end it before the driver runs: then its value is
    /// returned as the error. `after` reports the result. Both run inside the call, which ends
    /// before this function returns. A panic of the driver is [`DriverError::Crashed`]; an
    /// internal error passes through.
    ///
    /// # Errors
    ///
    /// What `before` returned instead of letting the call happen.
    #[inline]
    pub fn call<L: Level, T, A, B>(
        &self,
        at: &mut Passive,
        scope: CallScope,
        before: impl FnOnce(Subject) -> Result<(), B>,
        body: impl FnOnce(&mut L) -> DriverResult<T>,
        after: impl FnOnce(Subject, &DriverResult<T>) -> A,
    ) -> Result<(DriverResult<T>, A), B> {
        self.host.yield_point(at);
        self.log.note_call(Component::Driver, || self.log.describe_entry(scope.name));
        let number = self.log.next_call();
        let inside = CallGuard::enter(number, &scope);
        let call = Kind::Call.subject(number);
        before(call)?;

        // No kernel operation is half done while a driver runs, so a panic affects only the driver.
        let guarded = |at: &mut L| catch_unwind(AssertUnwindSafe(|| body(at)));
        let running = RunningCallGuard::enter(Component::Driver, scope.name);
        let result = at.raised(guarded).map_err(resume_internal_error);
        drop(running);
        let result = result.unwrap_or(Err(DriverError::Crashed));

        let after = after(call, &result);
        if let Some(pool) = self.pool {
            pool.inspect(scope.name);
        }
        drop(inside);
        Ok((result, after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeterministicHost, Dispatch, InternalError, Irql, internal_error};
    use std::convert::Infallible;
    use std::sync::Arc;

    fn fly<R>(body: impl FnOnce(Funnel<'_>, &mut Passive) -> R) -> R {
        let log = Arc::new(Log::new());
        DeterministicHost::fly(1, &log.clone(), |host, at| {
            body(Funnel { host: &**host, log: &log, pool: None }, at)
        })
        .unwrap()
    }

    fn run(
        funnel: Funnel<'_>,
        at: &mut Passive,
        body: impl FnOnce(&mut Dispatch) -> DriverResult<u8>,
    ) -> DriverResult<u8> {
        let before = |_| Ok::<(), Infallible>(());
        let Ok((result, ())) = funnel.call(at, CallScope::default(), before, body, |_, _| ());
        result
    }

    #[test]
    fn a_driver_runs_at_the_level_of_its_call_and_its_panic_is_an_error() {
        fly(|funnel, at| {
            let here = |_: &mut Dispatch| {
                assert_eq!(funnel.host.irql(), Irql::Dispatch);
                assert!(CallGuard::current().is_some());
                Ok(3)
            };
            assert_eq!(run(funnel, at, here), Ok(3));
            let crash = |_: &mut Dispatch| std::panic::resume_unwind(Box::new("a driver's"));
            assert_eq!(run(funnel, at, crash), Err(DriverError::Crashed));
            assert_eq!((funnel.host.irql(), CallGuard::current()), (Irql::Passive, None));
        });
    }

    #[test]
    fn an_internal_error_is_not_the_drivers_crash() {
        fly(|funnel, at| {
            let broken = |_: &mut Dispatch| internal_error("planted");
            let caught = catch_unwind(AssertUnwindSafe(|| run(funnel, at, broken)));
            assert!(caught.unwrap_err().is::<InternalError>());
            assert_eq!(CallGuard::current(), None, "the call is over all the same");
        });
    }

    #[test]
    fn a_call_that_is_ended_early_does_not_reach_the_driver() {
        fly(|funnel, at| {
            let body = |_: &mut Passive| -> DriverResult<()> { internal_error("it was called") };
            let before = |_| Err("not any more");
            let early = funnel.call(at, CallScope::default(), before, body, |_, _| ());
            assert_eq!(early.err(), Some("not any more"));
            assert_eq!(CallGuard::current(), None);
        });
    }
}
