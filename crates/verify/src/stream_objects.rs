//! Streaming devices, filters and pins: rules that bind the class driver.

use crate::follow_stream::rank;
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, Irql, Kind, RuleId};

const CREATE: &str = "AVStrMiniPinCreate";
const CLOSE: &str = "AVStrMiniPinClose";
const FORMAT: &str = "AVStrMiniPinSetDataFormat";
const STATE: &str = "AVStrMiniPinSetDeviceState";
const PROCESS: &str = "AVStrMiniPinProcess";
const FILTER_PROCESS: &str = "AVStrMiniFilterProcess";

/// The rules on streaming objects that bind the class driver.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(
        &["pin.closed", "filter.closed", "ks.removed"],
        RuleId::KS_BAG_002,
        bag_emptied_on_close,
    ),
    Rule::on(&["filter.created"], RuleId::KS_DEV_002, device_started),
    Rule::on(&["filter.closed", "ks.removed"], RuleId::KS_DEV_005, children_first),
    Rule::on(&["pin.framing"], RuleId::KS_FRAMING_006, framing_read_only),
    Rule::on(&["ks.call"], RuleId::KS_PIN_001, created_under_control),
    Rule::on(&["pin.closed"], RuleId::KS_PIN_003, lives_in_close),
    Rule::on(&["ks.call"], RuleId::KS_PIN_005, format_under_control),
    Rule::on(&["pin.created", "pin.state-requested"], RuleId::KS_PIN_009, pin_instance_limits),
    Rule::on(&["ks.call"], RuleId::KS_PROC_003, processing_exclusive),
    Rule::on(&["pin.state-requested"], RuleId::KS_STATE_001, state_changes_in_steps),
    Rule::on(&["pin.state-requested"], RuleId::KS_STATE_003, starts_in_stop),
    Rule::on(&["ks.call", "pin.state-changed"], RuleId::KS_STATE_004, state_requested_first),
];

fn bag_emptied_on_close(event: &Event, shadows: &Shadows) -> Verdict {
    let bagged = match event.subject.kind {
        Kind::Pin => shadows.stream_pin(event.subject).map(|stream_pin| stream_pin.bagged),
        Kind::Filter => {
            shadows.stream_filter(event.subject).map(|stream_filter| stream_filter.bagged)
        }
        _ => shadows.stream_device(event.subject).map(|stream_device| stream_device.bagged),
    };
    let Some(bagged) = bagged else { return Verdict::NotApplicable };
    Verdict::holds_if(bagged == 0, Component::Kernel, "KsAddItemToObjectBag", || {
        format!("{} is destroyed, and {bagged} items are in its bag", event.subject)
    })
}

fn device_started(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::FilterCreated { device, .. } = event.kind else { return Verdict::NotApplicable };
    let started = shadows.stream_device(device).is_some_and(|stream_device| stream_device.started);
    Verdict::holds_if(started, Component::Kernel, "AVStrMiniFilterCreate", || {
        format!("{} was opened, and its device is not started", event.subject)
    })
}

fn children_first(event: &Event, shadows: &Shadows) -> Verdict {
    let left = match event.subject.kind {
        Kind::Filter => shadows
            .stream_filter(event.subject)
            .map(|stream_filter| stream_filter.pins.values().sum()),
        _ => shadows.stream_device(event.subject).map(|stream_device| stream_device.filters),
    };
    let Some(left) = left else { return Verdict::NotApplicable };
    Verdict::holds_if(left == 0, Component::Kernel, "AVStrMiniFilterClose", || {
        format!("{} is destroyed, but {left} of its objects are live", event.subject)
    })
}

fn framing_read_only(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::PinFraming { set, available: there, succeeded: answered } = event.kind else {
        return Verdict::NotApplicable;
    };
    let place = "KSPROPERTY_CONNECTION_ALLOCATORFRAMING_EX";
    Verdict::holds_if(answered == (there && !set), Component::Kernel, place, || {
        format!(
            "the framing of {} was {}, and it has {}: it can be read where there is one",
            event.subject,
            if set { "set" } else { "requested" },
            if there { "one" } else { "none" }
        )
    })
}

/// Whether a call is at passive level with the control mutex.
fn under_control_mutex(event: &Event, handles: &[&str]) -> Verdict {
    let EventKind::KsCall { name, level, locks, about, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    if !handles.contains(&&**name) {
        return Verdict::NotApplicable;
    }
    let held = locks.split('+').any(|text| text == "control");
    Verdict::holds_if(*level == Irql::Passive && held, Component::Kernel, name, || {
        format!(
            "{name} for {about} was called at {level} level with {locks} of the mutexes: passive \
             level and control are promised"
        )
    })
}

fn created_under_control(event: &Event, _shadows: &Shadows) -> Verdict {
    under_control_mutex(event, &[CREATE, CLOSE])
}

fn format_under_control(event: &Event, _shadows: &Shadows) -> Verdict {
    under_control_mutex(event, &[FORMAT])
}

fn lives_in_close(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.stream_pin(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(it.closing.is_none(), Component::Kernel, CLOSE, || {
        format!("{} is destroyed before its driver returned from closing it", event.subject)
    })
}

fn pin_instance_limits(event: &Event, shadows: &Shadows) -> Verdict {
    let filter = match event.kind {
        EventKind::PinCreated { filter, .. } => Some(filter.into()),
        _ => shadows.stream_pin(event.subject).and_then(|pin| pin.filter),
    };
    let Some(filter) = shadows.stream_filter(filter) else { return Verdict::NotApplicable };
    let subject = event.subject;
    match &event.kind {
        EventKind::PinCreated { factory, possible: limit, .. } => {
            let there = filter.pins.get(factory).copied().unwrap_or(0);
            Verdict::holds_if(there < *limit, Component::Kernel, "InstancesPossible", || {
                format!("{subject} was made, and there were {there} of its kind, at most {limit}")
            })
        }
        EventKind::PinStateRequested { .. } => {
            let there: u32 = filter.pins.values().sum();
            let first =
                shadows.stream_pin(event.subject).is_some_and(|stream_pin| stream_pin.state == 0);
            if !first {
                return Verdict::NotApplicable;
            }
            Verdict::holds_if(
                there >= filter.needs,
                Component::Kernel,
                "InstancesNecessary",
                || {
                    let needs = filter.needs;
                    format!(
                        "{subject} leaves stop, and its filter has {there} pins and needs {needs}"
                    )
                },
            )
        }
        _ => Verdict::NotApplicable,
    }
}

fn processing_exclusive(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::KsCall { name, level, about, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let (dispatch, processing, early) = match &**name {
        PROCESS => {
            let Some(it) = shadows.stream_pin(about) else { return Verdict::NotApplicable };
            (it.dispatch, it.processing, it.state < it.min_state)
        }
        FILTER_PROCESS => {
            let Some(it) = shadows.stream_filter(about) else { return Verdict::NotApplicable };
            (it.dispatch, it.processing, false)
        }
        _ => return Verdict::NotApplicable,
    };
    let requested = if dispatch { Irql::Dispatch } else { Irql::Passive };
    let kept = *level == requested && processing.is_none() && !early;
    Verdict::holds_if(kept, Component::Kernel, name, || {
        let twice = processing.map(|serial| format!(", inside {serial}")).unwrap_or_default();
        let early = if early { ", below its least state" } else { "" };
        format!(
            "{about} was processed at {level} level, where {requested} was requested{twice}{early}"
        )
    })
}

fn state_changes_in_steps(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PinStateRequested { from, to } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(_) = shadows.stream_pin(event.subject).filter(|stream_pin| stream_pin.standard) else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(rank(from).abs_diff(rank(to)) <= 1, Component::Kernel, STATE, || {
        format!("{} goes from {from} to {to} at once", event.subject)
    })
}

fn starts_in_stop(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PinStateRequested { from, to } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.stream_pin(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(rank(from) == it.state && from != to, Component::Kernel, STATE, || {
        format!("{} is to go from {from} to {to}, and is {} from stop", event.subject, it.state)
    })
}

fn state_requested_first(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::KsCall { name, about, .. } if name == STATE => {
            let Some(it) = shadows.stream_pin(about) else { return Verdict::NotApplicable };
            Verdict::holds_if(it.requested.is_some(), Component::Kernel, STATE, || {
                format!("the driver was called with a state of {about} that its client did not set")
            })
        }
        EventKind::PinStateChanged { to, forced, .. } => {
            let Some(it) = shadows.stream_pin(event.subject) else { return Verdict::NotApplicable };
            let wanted = it.requested == Some(rank(to));
            Verdict::holds_if(wanted && (*forced || !it.failed), Component::Kernel, STATE, || {
                format!(
                    "{} is in {to}, which its driver refused or its client did not request",
                    event.subject
                )
            })
        }
        _ => Verdict::NotApplicable,
    }
}
