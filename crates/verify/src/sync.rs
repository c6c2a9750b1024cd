//! Synchronisation objects: rules on rights, on when waits end, and on lifetimes.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Event, RuleId, What, Who};

const CREATE: &str = "D3DKMTCreateSynchronizationObject2";
const SIGNAL: &str = "D3DKMTSignalSynchronizationObjectFromCpu";
const WAIT: &str = "D3DKMTWaitForSynchronizationObjectFromCpu";
const OPEN: &str = "D3DKMTOpenSynchronizationObject";

/// The rules on synchronisation objects.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["sync.asked"], RuleId::SYNC_CREATE_004, rights),
    Rule::on(&["fences.reset"], RuleId::SYNC_CREATE_005, at_most),
    Rule::on(&["sync.signalled", "sync.gone"], RuleId::SYNC_CREATE_008, seen),
    Rule::on(&["await.passed"], RuleId::SYNC_CREATE_009, satisfied),
    Rule::on(&["await.passed", "leave"], RuleId::SYNC_CREATE_010, in_its_form),
    Rule::on(&["packet.submitted"], RuleId::SYNC_CREATE_012, behind_its_wait),
    Rule::on(&["sync.signalled"], RuleId::SYNC_CREATE_014, all_have_come),
    Rule::on(&["sync.told"], RuleId::SYNC_CREATE_017, names),
    Rule::on(&["sync.opened"], RuleId::SYNC_CREATE_019, opened),
    Rule::on(&["sync.opened", "process.ended"], RuleId::SYNC_CREATE_020, with_names),
];

fn rights(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::SyncAsked { device, what, answer }, Some(it)) =
        (&event.what, shadows.sync(event.subject))
    else {
        return Verdict::Aside;
    };
    let denied = it.device == *device && if what == "signal" { it.silent } else { it.deaf };
    let expected = if denied { "denied" } else { "taken" };
    Verdict::kept_if(answer == expected, Who::Kernel, CREATE, || {
        let may = if denied { "without" } else { "with" };
        format!("{device} has {} {may} the right to {what}, which is {answer}", event.subject)
    })
}

fn at_most(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.device(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(it.low.is_empty(), Who::Kernel, CREATE, || {
        let first = it.low[0];
        format!("{} was hit by a reset, and {first} does not have its maximum", event.subject)
    })
}

/// The memory shows what was signalled, and whoever waited for it goes on.
fn seen(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.sync(event.subject) else { return Verdict::Aside };
    match &event.what {
        What::SyncSignalled { by, value, shown: Some(shown) } if by == "cpu" => {
            let low = value & u64::from(u32::MAX);
            Verdict::kept_if(value == shown || low == *shown, Who::Kernel, SIGNAL, || {
                format!("{} was signalled {value}, and the CPU reads {shown}", event.subject)
            })
        }
        What::SyncGone {} => Verdict::kept_if(it.awaited.is_empty(), Who::Kernel, SIGNAL, || {
            let (wait, value) = it.awaited[0];
            format!(
                "{} is gone at value {}, and {wait} for {value} was not released",
                event.subject, it.value
            )
        }),
        _ => Verdict::Aside,
    }
}

fn satisfied(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.awaiting(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(it.is_satisfied(), Who::Kernel, WAIT, || {
        let unmet = it.marks.iter().find(|it| !it.2);
        let unmet = unmet.map_or_else(String::new, |(of, value, _)| {
            format!(", which needs {of} to have {value}")
        });
        format!("{} of {} is over{unmet}", event.subject, it.who)
    })
}

fn in_its_form(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::AwaitPassed {} => {
            let Some(it) = shadows.awaiting(event.subject).filter(|it| it.form == "event") else {
                return Verdict::Aside;
            };
            Verdict::kept_if(it.set, Who::Kernel, WAIT, || {
                format!("{} is over, and its {} is not set", event.subject, it.who)
            })
        }
        What::Leave { status, .. } => {
            let call = shadows.process(event.subject).and_then(|it| it.call(event.thread));
            let Some(call) = call.filter(|it| it.name == WAIT && status.0 == 0) else {
                return Verdict::Aside;
            };
            Verdict::kept_if(call.awaits.is_none(), Who::Kernel, WAIT, || {
                format!("{} goes on before its wait without an event is over", event.subject)
            })
        }
        _ => Verdict::Aside,
    }
}

fn behind_its_wait(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::PacketSubmitted { packet, .. }, Some(it)) =
        (&event.what, shadows.context(event.subject))
    else {
        return Verdict::Aside;
    };
    // What a node gave back comes before the wait.
    let behind = it.awaits.filter(|it| *packet > it.1);
    let place = "D3DKMTWaitForSynchronizationObjectFromGpu";
    Verdict::kept_if(behind.is_none(), Who::Kernel, place, || {
        let wait = behind.map(|it| it.0.to_string()).unwrap_or_default();
        let context = event.subject;
        format!("packet {packet} of {context} was submitted, behind {wait} that is not satisfied")
    })
}

fn all_have_come(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::SyncSignalled { by, .. }, Some(it)) = (&event.what, shadows.sync(event.subject))
    else {
        return Verdict::Aside;
    };
    if by != "broadcast" {
        return Verdict::Aside;
    }
    let all = it.broadcasts.iter().any(|it| it.1 == 0);
    Verdict::kept_if(all, Who::Kernel, "D3DKMTSignalSynchronizationObjectFromGpu2", || {
        let left = it.broadcasts.first().map_or(0, |it| it.1);
        format!("{} is signalled, and {left} contexts have not come to it", event.subject)
    })
}

fn names(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::SyncTold { handle, global }, Some(it)) = (&event.what, shadows.sync(event.subject))
    else {
        return Verdict::Aside;
    };
    let right = (global.0 != 0) == (it.sharing == "global");
    Verdict::kept_if(right && handle.0 != 0, Who::Kernel, CREATE, || {
        format!(
            "{}, whose sharing is {}, was answered as {handle} with the global handle {global}",
            event.subject, it.sharing
        )
    })
}

fn opened(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::SyncOpened { global, .. }, Some(it)) = (&event.what, shadows.sync(event.subject))
    else {
        return Verdict::Aside;
    };
    Verdict::kept_if(it.global == Some(*global), Who::Kernel, OPEN, || {
        let own = it.global.map_or_else(|| "none".to_owned(), |it| it.to_string());
        format!("{} was opened by {global}, and its global handle is {own}", event.subject)
    })
}

fn with_names(event: &Event, shadows: &Shadows) -> Verdict {
    match (&event.what, shadows.sync(event.subject), shadows.process(event.subject)) {
        (What::SyncOpened { global, .. }, Some(it), _) => {
            Verdict::kept_if(it.names > 0, Who::Kernel, OPEN, || {
                format!("{} was opened by {global}, and has no local name left", event.subject)
            })
        }
        (What::ProcessEnded {}, _, Some(it)) => {
            Verdict::kept_if(it.syncs == 0, Who::Kernel, OPEN, || {
                format!("{} has ended, and {} of its names hold objects", event.subject, it.syncs)
            })
        }
        _ => Verdict::Aside,
    }
}
