//! Scenarios that ended early at a step that failed. A check with such a scenario is not complete, and
//! fails, unless an error finding says why the step failed or the driver refused it, as it may.

use abi::status::STATUS_DEVICE_REMOVED;
use flight::{Event, EventKind};
use kernel::DeviceLoss;
use verify::{Finding, Severity};

/// What the report says of a flight that is not complete, after the step that failed. `None` if the
/// flight is complete, or its findings say why it is not.
pub(crate) fn explain(events: &[Event], findings: &[Finding]) -> Option<String> {
    let is_stop = |event: &Event| matches!(event.kind, EventKind::ScenarioStopped { .. });
    let before = &events[..events.iter().position(is_stop)?];
    if findings.iter().any(|finding| finding.severity == Severity::Error) || is_refused(before) {
        return None;
    }
    let lost = before.iter().rev().find_map(lost_device).unwrap_or_default();
    let called = before.iter().rev().find_map(called_function);
    let called = called.map(|name| format!("; the last call of the driver was {name}"));
    Some(lost + &called.unwrap_or_default())
}

/// Whether the step failed because the driver returned an error, which it may: in the client's last
/// call, or for the packet with which the device was lost. A device that was lost without memory for its
/// allocations is a small adapter.
fn is_refused(before: &[Event]) -> bool {
    let left = before.iter().rposition(|event| matches!(event.kind, EventKind::Leave { .. }));
    let status = left.and_then(|left| match &before[left].kind {
        EventKind::Leave { status, .. } => Some(status.0),
        _ => None,
    });
    if status == Some(STATUS_DEVICE_REMOVED.cast_unsigned()) {
        let is_lost = |event: &Event| matches!(event.kind, EventKind::DeviceLost { .. });
        let Some(lost) = before.iter().rposition(is_lost) else { return false };
        let EventKind::DeviceLost { why } = &before[lost].kind else { return false };
        let last = before[..lost].iter().rev().find(|event| returned(event).is_some());
        return why == DeviceLoss::OutOfMemory.name()
            || (why == DeviceLoss::SubmitFailed.name() && last.is_some_and(is_refusal));
    }
    let step = left.map_or(before, |left| {
        let thread = before[left].thread;
        let is_enter =
            |event: &Event| event.thread == thread && matches!(event.kind, EventKind::Enter { .. });
        &before[before[..left].iter().rposition(is_enter).unwrap_or(left)..]
    });
    step.iter().any(is_refusal)
}

/// Whether the driver returns an error that it may return.
fn is_refusal(event: &Event) -> bool {
    returned(event).is_some_and(|(result, legal)| legal && result != "ok")
}

/// The result of a call of the driver, and whether it is a legal one.
fn returned(event: &Event) -> Option<(&str, bool)> {
    match &event.kind {
        EventKind::DdiReturn { result, legal, .. } | EventKind::KsReturn { result, legal, .. } => {
            Some((result, *legal))
        }
        _ => None,
    }
}

fn lost_device(event: &Event) -> Option<String> {
    let EventKind::DeviceLost { why } = &event.kind else { return None };
    Some(format!("; {} was lost ({why})", event.subject))
}

fn called_function(event: &Event) -> Option<&str> {
    match &event.kind {
        EventKind::DdiCall { name, .. }
        | EventKind::KsCall { name, .. }
        | EventKind::UmdCall { name } => Some(name),
        _ => None,
    }
}
