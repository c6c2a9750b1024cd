//! Streaming devices, filters and pins: what their class driver owes their driver.

use crate::follow_stream::rank;
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadow;
use flight::{Event, Irql, Kind, RuleId, What, Who};

const CREATE: &str = "AVStrMiniPinCreate";
const CLOSE: &str = "AVStrMiniPinClose";
const FORMAT: &str = "AVStrMiniPinSetDataFormat";
const STATE: &str = "AVStrMiniPinSetDeviceState";
const PROCESS: &str = "AVStrMiniPinProcess";
const FILTER_PROCESS: &str = "AVStrMiniFilterProcess";

/// The rules on streaming objects that bind the class driver.
pub(crate) static RULES: [Rule; 12] = [
    Rule {
        id: RuleId::KS_BAG_002,
        on: &["pin.closed", "filter.closed", "ks.removed"],
        check: bags,
    },
    Rule { id: RuleId::KS_DEV_002, on: &["filter.created"], check: started },
    Rule { id: RuleId::KS_DEV_005, on: &["filter.closed", "ks.removed"], check: children_first },
    Rule { id: RuleId::KS_FRAMING_006, on: &["pin.framing"], check: framing_told },
    Rule { id: RuleId::KS_PIN_001, on: &["ks.call"], check: made_under_control },
    Rule { id: RuleId::KS_PIN_003, on: &["pin.closed"], check: lives_in_close },
    Rule { id: RuleId::KS_PIN_005, on: &["ks.call"], check: format_under_control },
    Rule { id: RuleId::KS_PIN_009, on: &["pin.created", "pin.wanted"], check: as_many_as_said },
    Rule { id: RuleId::KS_PROC_003, on: &["ks.call"], check: processed_alone },
    Rule { id: RuleId::KS_STATE_001, on: &["pin.wanted"], check: one_step },
    Rule { id: RuleId::KS_STATE_003, on: &["pin.wanted"], check: from_where_it_is },
    Rule { id: RuleId::KS_STATE_004, on: &["ks.call", "pin.state"], check: wanted_first },
];

fn bags(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let bagged = match event.subject.kind {
        Kind::Pin => shadow.stream_pin().map(|it| it.bagged),
        Kind::Filter => shadow.stream_filter().map(|it| it.bagged),
        _ => shadow.stream_device().map(|it| it.bagged),
    };
    let Some(bagged) = bagged else { return Verdict::Aside };
    Verdict::kept_if(bagged == 0, Who::Kernel, "KsAddItemToObjectBag", || {
        format!("{} is gone, and {bagged} items are in its bag", event.subject)
    })
}

fn started(event: &Event, _shadow: &Shadow, owner: &Shadow) -> Verdict {
    let started = owner.stream_device().is_some_and(|it| it.started);
    Verdict::kept_if(started, Who::Kernel, "AVStrMiniFilterCreate", || {
        format!("{} was opened, and its device is not started", event.subject)
    })
}

fn children_first(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let left = match event.subject.kind {
        Kind::Filter => shadow.stream_filter().map(|it| it.pins.values().sum()),
        _ => shadow.stream_device().map(|it| it.filters),
    };
    let Some(left) = left else { return Verdict::Aside };
    Verdict::kept_if(left == 0, Who::Kernel, "AVStrMiniFilterClose", || {
        format!("{} is gone, and {left} of what belongs to it are there", event.subject)
    })
}

fn framing_told(event: &Event, _shadow: &Shadow, _owner: &Shadow) -> Verdict {
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

fn made_under_control(event: &Event, _shadow: &Shadow, _owner: &Shadow) -> Verdict {
    controlled(event, &[CREATE, CLOSE])
}

fn format_under_control(event: &Event, _shadow: &Shadow, _owner: &Shadow) -> Verdict {
    controlled(event, &[FORMAT])
}

fn lives_in_close(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let Some(it) = shadow.stream_pin() else { return Verdict::Aside };
    Verdict::kept_if(it.closing.is_none(), Who::Kernel, CLOSE, || {
        format!("{} is gone before its driver returned from closing it", event.subject)
    })
}

fn as_many_as_said(event: &Event, shadow: &Shadow, owner: &Shadow) -> Verdict {
    let Some(filter) = owner.stream_filter() else { return Verdict::Aside };
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
            let first = shadow.stream_pin().is_some_and(|it| it.state == 0);
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

fn processed_alone(event: &Event, _shadow: &Shadow, owner: &Shadow) -> Verdict {
    let What::KsCall { name, level, about, .. } = &event.what else { return Verdict::Aside };
    let (dispatch, processing, early) = match &**name {
        PROCESS => {
            let Some(it) = owner.stream_pin() else { return Verdict::Aside };
            (it.dispatch, it.processing, it.state < it.least)
        }
        FILTER_PROCESS => {
            let Some(it) = owner.stream_filter() else { return Verdict::Aside };
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

fn one_step(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::PinWanted { from, to } = &event.what else { return Verdict::Aside };
    let Some(_) = shadow.stream_pin().filter(|it| it.standard) else { return Verdict::Aside };
    Verdict::kept_if(rank(from).abs_diff(rank(to)) <= 1, Who::Kernel, STATE, || {
        format!("{} goes from {from} to {to} at once", event.subject)
    })
}

fn from_where_it_is(event: &Event, shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::PinWanted { from, to } = &event.what else { return Verdict::Aside };
    let Some(it) = shadow.stream_pin() else { return Verdict::Aside };
    Verdict::kept_if(rank(from) == it.state && from != to, Who::Kernel, STATE, || {
        format!("{} is to go from {from} to {to}, and is {} from stop", event.subject, it.state)
    })
}

fn wanted_first(event: &Event, shadow: &Shadow, owner: &Shadow) -> Verdict {
    match &event.what {
        What::KsCall { name, about, .. } if name == STATE => {
            let Some(it) = owner.stream_pin() else { return Verdict::Aside };
            Verdict::kept_if(it.wanted.is_some(), Who::Kernel, STATE, || {
                format!("the driver was told a state of {about} that its client's was not set to")
            })
        }
        What::PinState { to, forced, .. } => {
            let Some(it) = shadow.stream_pin() else { return Verdict::Aside };
            let wanted = it.wanted == Some(rank(to));
            Verdict::kept_if(wanted && (*forced || !it.failed), Who::Kernel, STATE, || {
                format!("{} is in {to}, which its driver refused or nobody wanted", event.subject)
            })
        }
        _ => Verdict::Aside,
    }
}
