//! Synchronisation objects: rules on rights, on when waits end, and on lifetimes.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, Hex, RuleId};

const CREATE: &str = "D3DKMTCreateSynchronizationObject2";
const SIGNAL: &str = "D3DKMTSignalSynchronizationObjectFromCpu";
const WAIT: &str = "D3DKMTWaitForSynchronizationObjectFromCpu";
const DESTROY: &str = "D3DKMTDestroySynchronizationObject";
const OPEN: &str = "D3DKMTOpenSynchronizationObject";

/// The rules on synchronisation objects.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["sync.requested"], RuleId::SYNC_CREATE_004, access_denied_without_right),
    Rule::on(&["fences.reset"], RuleId::SYNC_CREATE_005, reset_signals_maximum),
    Rule::on(&["sync.signalled", "sync.destroyed"], RuleId::SYNC_CREATE_008, cpu_signal_visible),
    Rule::on(&["gpu-wait.satisfied"], RuleId::SYNC_CREATE_009, wait_satisfied),
    Rule::on(&["gpu-wait.released"], RuleId::WT_SYNC_001, not_destroyed_under_wait),
    Rule::on(&["gpu-wait.satisfied", "leave"], RuleId::SYNC_CREATE_010, waiter_matches_kind)
        .in_entries(&[WAIT]),
    Rule::on(&["packet.submitted"], RuleId::SYNC_CREATE_012, packet_after_wait),
    Rule::on(&["sync.signalled"], RuleId::SYNC_CREATE_014, broadcast_complete),
    Rule::on(&["sync.handles-returned"], RuleId::SYNC_CREATE_017, handles_returned),
    Rule::on(&["sync.opened"], RuleId::SYNC_CREATE_019, open_returns_reference),
    Rule::on(
        &["sync.opened", "process.ended"],
        RuleId::SYNC_CREATE_020,
        destroyed_with_last_handle,
    ),
];

fn access_denied_without_right(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::SyncRequested { device, handle, operation: what, result }, Some(it)) =
        (&event.kind, shadows.sync(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    let process = shadows.device(*device).and_then(|device| device.process);
    let first = it.first_handle.is_some_and(|(owner, first)| {
        first == *handle && process.is_some_and(|process| process == owner)
    });
    let other = it.restricted.iter().find(|(owner, other, ..)| {
        other == handle && process.is_some_and(|process| process == *owner)
    });
    let (no_signal, no_wait) = match other {
        Some((_, _, no_signal, no_wait)) => (*no_signal, *no_wait),
        None => (first && it.no_signal, first && it.no_wait),
    };
    let denied = if what == "signal" { no_signal } else { no_wait };
    let expected = if denied { "denied" } else { "taken" };
    Verdict::holds_if(result == expected, Component::Kernel, CREATE, || {
        let may = if denied { "without" } else { "with" };
        let object = event.subject;
        format!("{device} has {object} by {handle} {may} the right to {what}, which is {result}")
    })
}

fn reset_signals_maximum(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.device(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(it.low.is_empty(), Component::Kernel, CREATE, || {
        let first = it.low[0];
        format!("{} was hit by a reset, and {first} does not have its maximum", event.subject)
    })
}

/// The memory has the signalled value, and every wait for it ends.
fn cpu_signal_visible(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.sync(event.subject) else { return Verdict::NotApplicable };
    match &event.kind {
        EventKind::SyncSignalled { by, value, shown: Some(shown) } if by == "cpu" => {
            let low = value & u64::from(u32::MAX);
            Verdict::holds_if(value == shown || low == *shown, Component::Kernel, SIGNAL, || {
                format!("{} was signalled {value}, and the CPU reads {shown}", event.subject)
            })
        }
        EventKind::SyncDestroyed {} => {
            Verdict::holds_if(it.waits.is_empty(), Component::Kernel, SIGNAL, || {
                let (wait, value) = it.waits[0];
                format!(
                    "{} is destroyed at value {}, and {wait} for {value} was not released",
                    event.subject, it.value
                )
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn wait_satisfied(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.gpu_wait(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(it.is_satisfied(), Component::Kernel, WAIT, || {
        let unmet = it.points.iter().find(|entry| !entry.2);
        let unmet = unmet.map_or_else(String::new, |(of, value, _)| {
            format!(", which needs {of} to have {value}")
        });
        format!("{} of {} is over{unmet}", event.subject, it.waiter)
    })
}

/// A wait of a context that is released by a destroy was never satisfied.
fn not_destroyed_under_wait(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::GpuWaitReleased { of }, Some(it)) =
        (&event.kind, shadows.gpu_wait(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(it.waiter_kind != "context", Component::Client, DESTROY, || {
        format!("{of} was destroyed while {} waited for it in its queue", it.waiter)
    })
}

fn waiter_matches_kind(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::GpuWaitSatisfied {} => {
            let Some(it) =
                shadows.gpu_wait(event.subject).filter(|gpu_wait| gpu_wait.waiter_kind == "event")
            else {
                return Verdict::NotApplicable;
            };
            Verdict::holds_if(it.set, Component::Kernel, WAIT, || {
                format!("{} is over, and its {} is not set", event.subject, it.waiter)
            })
        }
        EventKind::Leave { status: Hex(0), .. } => {
            let call =
                shadows.process(event.subject).and_then(|process| process.call(event.thread));
            let Some(call) = call.filter(|client_call| client_call.name == WAIT) else {
                return Verdict::NotApplicable;
            };
            Verdict::holds_if(call.gpu_wait.is_none(), Component::Kernel, WAIT, || {
                format!("{} goes on before its wait without an event is over", event.subject)
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn packet_after_wait(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::PacketSubmitted { packet, .. }, Some(it)) =
        (&event.kind, shadows.context(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    // Work that a node gave back is executed before the wait.
    let behind = it.gpu_wait.filter(|pair| *packet > pair.1);
    let place = "D3DKMTWaitForSynchronizationObjectFromGpu";
    Verdict::holds_if(behind.is_none(), Component::Kernel, place, || {
        let wait = behind.map(|pair| pair.0.to_string()).unwrap_or_default();
        let context = event.subject;
        format!("packet {packet} of {context} was submitted, behind {wait} that is not satisfied")
    })
}

fn broadcast_complete(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::SyncSignalled { by, .. }, Some(it)) =
        (&event.kind, shadows.sync(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    if by != "broadcast" {
        return Verdict::NotApplicable;
    }
    let all = it.broadcasts.iter().any(|pair| pair.1 == 0);
    Verdict::holds_if(all, Component::Kernel, "D3DKMTSignalSynchronizationObjectFromGpu2", || {
        let left = it.broadcasts.first().map_or(0, |pair| pair.1);
        format!("{} is signalled, and {left} contexts have not come to it", event.subject)
    })
}

fn handles_returned(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::SyncHandlesReturned { handle, global }, Some(it)) =
        (&event.kind, shadows.sync(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    let right = (global.0 != 0) == (it.sharing == "global");
    Verdict::holds_if(right && handle.0 != 0, Component::Kernel, CREATE, || {
        format!(
            "{}, whose sharing is {}, was returned as {handle} with the global handle {global}",
            event.subject, it.sharing
        )
    })
}

fn open_returns_reference(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::SyncOpened { global, .. }, Some(it)) =
        (&event.kind, shadows.sync(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(it.global == Some(*global), Component::Kernel, OPEN, || {
        let own = it.global.map_or_else(|| "none".to_owned(), |value| value.to_string());
        format!("{} was opened by {global}, and its global handle is {own}", event.subject)
    })
}

fn destroyed_with_last_handle(event: &Event, shadows: &Shadows) -> Verdict {
    match (&event.kind, shadows.sync(event.subject), shadows.process(event.subject)) {
        (EventKind::SyncOpened { global, .. }, Some(it), _) => {
            Verdict::holds_if(it.handles > 0, Component::Kernel, OPEN, || {
                format!("{} was opened by {global}, and has no local handle left", event.subject)
            })
        }
        (EventKind::ProcessEnded {}, _, Some(it)) => {
            Verdict::holds_if(it.sync_handles == 0, Component::Kernel, OPEN, || {
                format!(
                    "{} has ended, and {} of its handles hold objects",
                    event.subject, it.sync_handles
                )
            })
        }
        _ => Verdict::NotApplicable,
    }
}
