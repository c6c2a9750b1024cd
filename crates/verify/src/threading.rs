//! Threading levels and IRQLs: which calls of a driver may run at once, and at which IRQL each
//! runs.

use crate::ddi;
use crate::rule::{Judge, Rule, Verdict};
use crate::shadow::{Call, Shadows};
use flight::{Component, Event, EventKind, Irql, RuleId};

/// The rules on threading and levels.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ddi.call"], RuleId::KMD_LEVEL_001, level_three_exclusive).of_plain(&[]),
    Rule::on(&["ddi.call"], RuleId::KMD_LEVEL_002, level_two_exclusive_and_idle).of_plain(&[]),
    Rule::on(&["ddi.call"], RuleId::KMD_LEVEL_003, one_call_per_class).of_plain(&[]),
    Rule::on(&["ddi.call"], RuleId::KMD_LEVEL_004, one_scheduler).of_plain(&[]),
    Rule::on(&["ddi.call"], RuleId::KMD_LEVEL_006, one_call_per_process).of_plain(&[]),
    Rule::on(&["ddi.call"], RuleId::KMD_LEVEL_007, called_at_its_irql).by_ddi(judge_of_irql),
];

fn level_three_exclusive(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiCall { threading_level: class, adapter, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    // No call excludes interrupts and their DPCs.
    let three = |class: &str| class == "three";
    let mut inside = shadows.adapter(adapter).into_iter().flat_map(|it| shadows.active_calls(it));
    if class == "none" || !(three(class) || inside.any(|call| three(&call.threading_level))) {
        return Verdict::NotApplicable;
    }
    let like = |other: &Call| {
        other.threading_level != "none" && (three(class) || three(&other.threading_level))
    };
    no_other_call(event, shadows, like, "one of them runs alone")
}

fn level_two_exclusive_and_idle(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiCall { name, threading_level: class, adapter, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let two = |class: &str| class == "two";
    let known = shadows.adapter(adapter);
    let flying = known.map_or(0, |adapter| adapter.in_flight);
    let mut inside = known.into_iter().flat_map(|adapter| shadows.active_calls(adapter));
    if class == "none" || !(two(class) || inside.any(|call| two(&call.threading_level))) {
        return Verdict::NotApplicable;
    }
    if two(class) && flying > 0 {
        let message = format!("{name} is called at level two, but {adapter} has {flying} packets");
        return Verdict::broken(Component::Kernel, name.clone(), message);
    }
    let like = |other: &Call| {
        other.threading_level != "none" && (two(class) || two(&other.threading_level))
    };
    no_other_call(event, shadows, like, "one of them runs alone")
}

fn one_call_per_class(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiCall { threading_level: class, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    if ["zero", "two", "three", "none"].contains(&&**class) {
        return Verdict::NotApplicable;
    }
    no_other_call(
        event,
        shadows,
        |other| other.threading_level == *class,
        &format!("both are of class {class}"),
    )
}

fn one_scheduler(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiCall { threading_level: class, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    if class != "scheduler" {
        return Verdict::NotApplicable;
    }
    no_other_call(
        event,
        shadows,
        |other| other.threading_level == "scheduler",
        "both are the scheduler's",
    )
}

fn one_call_per_process(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiCall { threading_level: class, adapter, process: Some(process), .. } =
        &event.kind
    else {
        return Verdict::NotApplicable;
    };
    if class == "none" || shadows.adapter(adapter).is_none_or(|adapter| adapter.generation != 1) {
        return Verdict::NotApplicable;
    }
    let same =
        |other: &Call| other.process == Some((*process).into()) && other.threading_level != "none";
    no_other_call(event, shadows, same, &format!("both are for {process}"))
}

/// Whether no other thread is inside a conflicting call.
fn no_other_call(
    event: &Event,
    shadows: &Shadows,
    like: impl Fn(&Call) -> bool,
    both: &str,
) -> Verdict {
    let EventKind::DdiCall { name, adapter, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let mut inside = shadows.adapter(adapter).into_iter().flat_map(|it| shadows.active_calls(it));
    let other = inside.find(|other| other.thread != event.thread && like(other));
    match other {
        None => Verdict::Holds,
        Some(other) => Verdict::broken(
            Component::Kernel,
            name.clone(),
            format!(
                "thread {} calls {name} of {adapter}, but thread {} is inside {}, and {both}",
                event.thread, other.thread, other.name
            ),
        ),
    }
}

fn called_at_its_irql(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::DdiCall { name, .. } = &event.kind else { return Verdict::NotApplicable };
    let Some(documented) = ddi::documented_level(name) else { return Verdict::NotApplicable };
    called_at(event, documented)
}

/// The judge of a DDI whose level is known.
fn judge_of_irql(ddi: &str) -> Judge {
    match ddi::documented_level(ddi) {
        Some(Irql::Passive) => |event, _| called_at(event, Irql::Passive),
        Some(Irql::Dispatch) => |event, _| called_at(event, Irql::Dispatch),
        Some(Irql::Device) => |event, _| called_at(event, Irql::Device),
        _ => called_at_its_irql,
    }
}

fn called_at(event: &Event, documented: Irql) -> Verdict {
    let EventKind::DdiCall { name, level, .. } = &event.kind else { return Verdict::NotApplicable };
    Verdict::holds_if(*level == documented, Component::Kernel, name, || {
        format!("{name} is called at {level} level, but it is for {documented} level")
    })
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    fn call(number: u32, class: &str, process: &str) -> String {
        format!(
            "t{number} call:{number} ddi.call name=DxgkDdiCreateDevice level=passive \
             threading_level={class} adapter=adapter:1 process={process}\n"
        )
    }

    fn back(number: u32) -> String {
        format!("call:{number} ddi.return name=DxgkDdiCreateDevice result=ok legal=true\n")
    }

    #[test]
    fn one_thread_of_a_class_is_inside() {
        for id in [RuleId::KMD_LEVEL_003, RuleId::KMD_LEVEL_004] {
            let (one, two) = (call(1, "scheduler", "-"), call(2, "scheduler", "-"));
            assert!(messages(id, &[&*one, &back(1), &two].concat()).is_empty());
            assert_eq!(judge_count(id, &[&*one, &back(1), &two].concat()), 2);
            assert_eq!(messages(id, &[&*one, &*two].concat()).len(), 1);
            assert!(messages(id, &[&*one, &call(2, "overlay", "-")].concat()).is_empty());
            assert!(messages(id, &one.repeat(2)).is_empty(), "a thread inside its own call");
        }
        let zero = [call(1, "zero", "-"), call(2, "zero", "-")].concat();
        assert_eq!(judge_count(RuleId::KMD_LEVEL_003, &zero), 0);
        assert_eq!(judge_count(RuleId::KMD_LEVEL_004, &call(1, "overlay", "-")), 0);
    }

    #[test]
    fn level_two_is_alone_and_idle() {
        let id = RuleId::KMD_LEVEL_002;
        let (two, zero) = (call(1, "two", "-"), call(2, "zero", "-"));
        assert_eq!(judge_count(id, &zero), 0);
        assert_eq!(judge_count(id, &[&*two, &back(1), &zero].concat()), 1);
        assert!(messages(id, &[&*two, &back(1), &zero].concat()).is_empty());
        assert_eq!(messages(id, &[&*two, &*zero].concat()).len(), 1);
        assert_eq!(messages(id, &[&*zero, &*two].concat()).len(), 1);
        assert!(messages(id, &[&*two, &call(2, "none", "-")].concat()).is_empty(), "an interrupt");
        let work = "adapter:1 adapter.started nodes=1 generation=2
            device:1 device.created process=process:1 adapter=adapter:1
            context:1 context.created device=device:1 node=node:1
            context:1 packet.queued packet=1\n\
            context:1 packet.submitted packet=1 node=node:1 fence=1\n";
        let done = "context:1 packet.done packet=1 node=node:1 fence=1\n";
        assert!(messages(id, &[work, done, &two].concat()).is_empty());
        assert_eq!(
            messages(id, &[work, &two].concat()),
            ["DxgkDdiCreateDevice is called at level two, but adapter 1 has 1 packets"]
        );
    }

    #[test]
    fn one_thread_of_a_process_is_inside_an_old_driver() {
        let id = RuleId::KMD_LEVEL_006;
        let started =
            |generation| format!("adapter:1 adapter.started nodes=1 generation={generation}\n");
        let both = [call(1, "zero", "process:1"), call(2, "zero", "process:1")].concat();
        let more = [call(1, "zero", "process:1"), call(2, "zero", "process:2")].concat();
        assert!(messages(id, &[started(1), more].concat()).is_empty());
        assert_eq!(judge_count(id, &[started(2), both.clone()].concat()), 0);
        assert_eq!(
            messages(id, &[started(1), both].concat()),
            ["thread 2 calls DxgkDdiCreateDevice of adapter 1, but thread 1 is inside \
              DxgkDdiCreateDevice, and both are for process 1"]
        );
    }

    #[test]
    fn every_ddi_is_called_at_its_level() {
        let id = RuleId::KMD_LEVEL_007;
        let at = |name: &str, level: &str| {
            format!(
                "call:1 ddi.call name={name} level={level} threading_level=none adapter=adapter:1 process=-"
            )
        };
        assert!(messages(id, &at("DxgkDdiDpcRoutine", "dispatch")).is_empty());
        assert!(messages(id, &at("DxgkDdiInterruptRoutine", "device")).is_empty());
        assert_eq!(judge_count(id, &at("DxgkDdiNoSuch", "device")), 0);
        assert_eq!(
            messages(id, &at("DxgkDdiSubmitCommandVirtual", "passive")),
            ["DxgkDdiSubmitCommandVirtual is called at passive level, but it is for dispatch \
                 level"]
        );
    }
}
