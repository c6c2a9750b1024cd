//! Streaming devices, filters and pins: rules that bind the class driver.

use crate::follow_stream::rank;
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Event, Irql, Kind, RuleId, What, Who};

const CREATE: &str = "AVStrMiniPinCreate";
const CLOSE: &str = "AVStrMiniPinClose";
const FORMAT: &str = "AVStrMiniPinSetDataFormat";
const STATE: &str = "AVStrMiniPinSetDeviceState";
const PROCESS: &str = "AVStrMiniPinProcess";
const FILTER_PROCESS: &str = "AVStrMiniFilterProcess";

/// The rules on streaming objects that bind the class driver.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["pin.closed", "filter.closed", "ks.removed"], RuleId::KS_BAG_002, bags),
    Rule::on(&["filter.created"], RuleId::KS_DEV_002, started),
    Rule::on(&["filter.closed", "ks.removed"], RuleId::KS_DEV_005, children_first),
    Rule::on(&["pin.framing"], RuleId::KS_FRAMING_006, framing_told),
    Rule::on(&["ks.call"], RuleId::KS_PIN_001, made_under_control),
    Rule::on(&["pin.closed"], RuleId::KS_PIN_003, lives_in_close),
    Rule::on(&["ks.call"], RuleId::KS_PIN_005, format_under_control),
    Rule::on(&["pin.created", "pin.wanted"], RuleId::KS_PIN_009, as_many_as_said),
    Rule::on(&["ks.call"], RuleId::KS_PROC_003, processed_alone),
    Rule::on(&["pin.wanted"], RuleId::KS_STATE_001, one_step),
    Rule::on(&["pin.wanted"], RuleId::KS_STATE_003, from_where_it_is),
    Rule::on(&["ks.call", "pin.state"], RuleId::KS_STATE_004, wanted_first),
];

fn bags(event: &Event, shadows: &Shadows) -> Verdict {
    let bagged = match event.subject.kind {
        Kind::Pin => shadows.stream_pin(event.subject).map(|it| it.bagged),
        Kind::Filter => shadows.stream_filter(event.subject).map(|it| it.bagged),
        _ => shadows.stream_device(event.subject).map(|it| it.bagged),
    };
    let Some(bagged) = bagged else { return Verdict::Aside };
    Verdict::kept_if(bagged == 0, Who::Kernel, "KsAddItemToObjectBag", || {
        format!("{} is gone, and {bagged} items are in its bag", event.subject)
    })
}

fn started(event: &Event, shadows: &Shadows) -> Verdict {
    let What::FilterCreated { device, .. } = event.what else { return Verdict::Aside };
    let started = shadows.stream_device(device).is_some_and(|it| it.started);
    Verdict::kept_if(started, Who::Kernel, "AVStrMiniFilterCreate", || {
        format!("{} was opened, and its device is not started", event.subject)
    })
}

fn children_first(event: &Event, shadows: &Shadows) -> Verdict {
    let left = match event.subject.kind {
        Kind::Filter => shadows.stream_filter(event.subject).map(|it| it.pins.values().sum()),
        _ => shadows.stream_device(event.subject).map(|it| it.filters),
    };
    let Some(left) = left else { return Verdict::Aside };
    Verdict::kept_if(left == 0, Who::Kernel, "AVStrMiniFilterClose", || {
        format!("{} is gone, and {left} of what belongs to it are there", event.subject)
    })
}

fn framing_told(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::PinFraming { set, there, answered } = event.what else { return Verdict::Aside };
    let place = "KSPROPERTY_CONNECTION_ALLOCATORFRAMING_EX";
    Verdict::kept_if(answered == (there && !set), Who::Kernel, place, || {
        format!(
            "the framing of {} was {}, and it has {}: it can be read where there is one",
            event.subject,
            if set { "set" } else { "asked for" },
            if there { "one" } else { "none" }
        )
    })
}

/// Whether a call is at passive level with the control mutex.
fn controlled(event: &Event, names: &[&str]) -> Verdict {
    let What::KsCall { name, level, locks, about, .. } = &event.what else {
        return Verdict::Aside;
    };
    if !names.contains(&&**name) {
        return Verdict::Aside;
    }
    let held = locks.split('+').any(|it| it == "control");
    Verdict::kept_if(*level == Irql::Passive && held, Who::Kernel, name.clone(), || {
        format!(
            "{name} for {about} was called at {level} level with {locks} of the mutexes: passive \
             level and control are promised"
        )
    })
}

fn made_under_control(event: &Event, _shadows: &Shadows) -> Verdict {
    controlled(event, &[CREATE, CLOSE])
}

fn format_under_control(event: &Event, _shadows: &Shadows) -> Verdict {
    controlled(event, &[FORMAT])
}

fn lives_in_close(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.stream_pin(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(it.closing.is_none(), Who::Kernel, CLOSE, || {
        format!("{} is gone before its driver returned from closing it", event.subject)
    })
}

fn as_many_as_said(event: &Event, shadows: &Shadows) -> Verdict {
    let filter = match event.what {
        What::PinCreated { filter, .. } => Some(filter.into()),
        _ => shadows.stream_pin(event.subject).and_then(|pin| pin.filter),
    };
    let Some(filter) = shadows.stream_filter(filter) else { return Verdict::Aside };
    let subject = event.subject;
    match &event.what {
        What::PinCreated { factory, most, .. } => {
            let there = filter.pins.get(factory).copied().unwrap_or(0);
            Verdict::kept_if(there < *most, Who::Kernel, "InstancesPossible", || {
                format!("{subject} was made, and there were {there} of its kind, at most {most}")
            })
        }
        What::PinWanted { .. } => {
            let there: u32 = filter.pins.values().sum();
            let first = shadows.stream_pin(event.subject).is_some_and(|it| it.state == 0);
            if !first {
                return Verdict::Aside;
            }
            Verdict::kept_if(there >= filter.needs, Who::Kernel, "InstancesNecessary", || {
                let needs = filter.needs;
                format!("{subject} leaves stop, and its filter has {there} pins and needs {needs}")
            })
        }
        _ => Verdict::Aside,
    }
}

fn processed_alone(event: &Event, shadows: &Shadows) -> Verdict {
    let What::KsCall { name, level, about, .. } = &event.what else { return Verdict::Aside };
    let (dispatch, processing, early) = match &**name {
        PROCESS => {
            let Some(it) = shadows.stream_pin(about) else { return Verdict::Aside };
            (it.dispatch, it.processing, it.state < it.least)
        }
        FILTER_PROCESS => {
            let Some(it) = shadows.stream_filter(about) else { return Verdict::Aside };
            (it.dispatch, it.processing, false)
        }
        _ => return Verdict::Aside,
    };
    let asked = if dispatch { Irql::Dispatch } else { Irql::Passive };
    let kept = *level == asked && processing.is_none() && !early;
    Verdict::kept_if(kept, Who::Kernel, name.clone(), || {
        let twice = processing.map(|it| format!(", inside {it}")).unwrap_or_default();
        let early = if early { ", below its least state" } else { "" };
        format!("{about} was processed at {level} level, where {asked} was asked for{twice}{early}")
    })
}

fn one_step(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PinWanted { from, to } = &event.what else { return Verdict::Aside };
    let Some(_) = shadows.stream_pin(event.subject).filter(|it| it.standard) else {
        return Verdict::Aside;
    };
    Verdict::kept_if(rank(from).abs_diff(rank(to)) <= 1, Who::Kernel, STATE, || {
        format!("{} goes from {from} to {to} at once", event.subject)
    })
}

fn from_where_it_is(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PinWanted { from, to } = &event.what else { return Verdict::Aside };
    let Some(it) = shadows.stream_pin(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(rank(from) == it.state && from != to, Who::Kernel, STATE, || {
        format!("{} is to go from {from} to {to}, and is {} from stop", event.subject, it.state)
    })
}

fn wanted_first(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::KsCall { name, about, .. } if name == STATE => {
            let Some(it) = shadows.stream_pin(about) else { return Verdict::Aside };
            Verdict::kept_if(it.wanted.is_some(), Who::Kernel, STATE, || {
                format!("the driver was told a state of {about} that its client's was not set to")
            })
        }
        What::PinState { to, forced, .. } => {
            let Some(it) = shadows.stream_pin(event.subject) else { return Verdict::Aside };
            let wanted = it.wanted == Some(rank(to));
            Verdict::kept_if(wanted && (*forced || !it.failed), Who::Kernel, STATE, || {
                format!("{} is in {to}, which its driver refused or nobody wanted", event.subject)
            })
        }
        _ => Verdict::Aside,
    }
}
