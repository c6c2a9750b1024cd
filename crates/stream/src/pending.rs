//! Creates and closes that a driver completes later.
//!
//! A driver marks the request, returns `STATUS_PENDING`, and completes it later, once. The thread
//! that waits for the completion keeps its mutexes.

use crate::driver_calls::Entry;
use crate::services::Services;
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{DriverError, DriverHandle, DriverResult, HandleSlot};
use flight::{Kind, Passive, RuleId, Subject, invariant};

/// A create or close request to a driver.
#[derive(Debug, Default)]
pub(crate) struct PendingRequest {
    marked: bool,
    result: Option<(DriverResult<()>, usize)>,
}

fn request_rule(of: Subject) -> RuleId {
    if of.kind == Kind::Pin { RuleId::KS_PIN_002 } else { RuleId::KS_DEV_004 }
}

impl Stream {
    /// Starts a request.
    pub(crate) fn begin_request(&self, of: Subject) {
        self.state.lock().pending.insert(of, PendingRequest::default());
    }

    /// The result of a request, at the latest when it is completed, with the driver handle of a
    /// created object. A NULL handle is none.
    pub(crate) fn end_request<T>(
        &self,
        at: &mut Passive,
        of: Subject,
        entry: Entry,
        answer: DriverResult<Option<DriverHandle<T>>>,
    ) -> DriverResult<Option<DriverHandle<T>>> {
        let pending = matches!(answer, Err(DriverError::Pending));
        let marked = {
            let state = self.state.lock();
            invariant(state.pending.get(&of), "`begin_request` came first").marked
        };
        let broken = (pending != marked).then(|| {
            let [marks, answers] =
                [(marked, "marked"), (pending, "returned")].map(|(it, driver_handle)| {
                    if it { driver_handle.to_owned() } else { format!("not {driver_handle}") }
                });
            format!("a request of {of} was {marks} as pending, and {answers} as pending")
        });
        self.judge(request_rule(of), of, entry.name(), broken);
        if !pending {
            self.state.lock().pending.remove(&of);
            return answer.map(|own| own.filter(|handle| handle.as_raw() != 0));
        }
        let what = |_: &StreamState| format!("the completion of {} for {of}", entry.name());
        let done = self.wait_until(at, of, None, what, |state| {
            state.pending.get_mut(&of).and_then(|request| request.result.take())
        });
        self.state.lock().pending.remove(&of);
        let broken = done.is_err().then(|| {
            format!(
                "{} for {of} returned pending, and the request was never completed",
                entry.name()
            )
        });
        self.judge(request_rule(of), of, "KsCompletePendingRequest", broken);
        match done {
            Ok((Ok(()), raw)) => Ok((raw != 0).then(|| HandleSlot::new().fill(raw))),
            Ok((Err(reason), _)) => Err(reason),
            Err(_) => Err(DriverError::Pending),
        }
    }
}

impl Services {
    /// Marks the request of a filter or pin as pending (`IoMarkIrpPending`).
    pub fn mark_pending(&self, of: Subject) -> DriverResult<()> {
        let (_, mut state) = self.lock_state()?;
        state.pending.get_mut(&of).ok_or(DriverError::Invalid)?.marked = true;
        Ok(())
    }

    /// Completes it (`KsCompletePendingRequest`), with the driver handle of the created object, or
    /// zero.
    pub fn complete_pending(
        &self,
        of: Subject,
        answer: DriverResult<()>,
        driver_handle: usize,
    ) -> DriverResult<()> {
        let (stream, mut state) = self.lock_state()?;
        let it =
            state.pending.get_mut(&of).filter(|request| request.marked && request.result.is_none());
        let broken =
            it.is_none().then(|| format!("a request of {of} was completed, but none is pending"));
        let error = broken.is_some();
        if let Some(it) = it {
            it.result = Some((answer, driver_handle));
        }
        stream.judge(request_rule(of), of, "KsCompletePendingRequest", broken);
        stream.wake_all(&mut state);
        if error { Err(DriverError::Invalid) } else { Ok(()) }
    }
}
