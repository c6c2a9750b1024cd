//! Lifetimes: what must be destroyed before another object, waits that must end, and objects that
//! a process leaks.

use crate::ddi;
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, RuleId, Text};

/// The rules on lifetimes.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["device.destroyed"], RuleId::DEV_LIFE_002, device_empty),
    Rule::on(&["context.destroyed"], RuleId::DEV_LIFE_004, context_drained),
    Rule::on(&["wait.ended", "wait.stuck"], RuleId::WT_STUCK_001, wait_can_end),
    Rule::on(&["ddi.call"], RuleId::WT_STOP_001, not_after_stop),
    Rule::on(&["adapter.stopped"], RuleId::WT_GONE_001, all_destroyed),
    Rule::on(&["process.ended", "process.leaked"], RuleId::WT_LEFT_001, process_leaks_nothing),
];

fn device_empty(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(device) = shadows.device(event.subject) else { return Verdict::NotApplicable };
    let kept = device.contexts == 0 && device.views == 0;
    Verdict::holds_if(kept, Component::Kernel, "DxgkDdiDestroyDevice", || {
        format!(
            "{} is destroyed, but {} of its contexts and {} of its views are still there",
            event.subject, device.contexts, device.views
        )
    })
}

fn context_drained(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(context) = shadows.context(event.subject) else { return Verdict::NotApplicable };
    // The work of a lost device counts as done.
    let lost = shadows.device(context.device).is_some_and(|device| device.lost);
    let kept = lost || context.in_flight == 0;
    Verdict::holds_if(kept, Component::Kernel, "DxgkDdiDestroyContext", || {
        format!(
            "{} is destroyed, but {} of its packets are not done",
            event.subject, context.in_flight
        )
    })
}

fn wait_can_end(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::WaitStuck { component, graph } = &event.kind else { return Verdict::Holds };
    let message = format!(
        "the wait for {} cannot end: nothing that could end it is left to run ({graph})",
        event.subject
    );
    // A client whose call failed because the driver failed may not get as far as to end the wait.
    let component = match component {
        Component::Client if shadows.driver_failed => Component::Driver,
        component => *component,
    };
    Verdict::broken(component, format!("wait for {}", event.subject.kind.name()).into(), message)
}

fn not_after_stop(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiCall { name, adapter, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(adapter) = shadows.adapter(adapter) else { return Verdict::NotApplicable };
    match &adapter.stopped {
        None => Verdict::Holds,
        Some(after) => is_called_after(name, after),
    }
}

#[inline(never)]
fn is_called_after(name: &Text, after: &str) -> Verdict {
    let late = match after {
        ddi::STOP_DEVICE | ddi::RELEASE => name != ddi::REMOVE_DEVICE,
        _ => name != ddi::UNLOAD,
    };
    Verdict::holds_if(!late, Component::Kernel, name, || {
        format!("the driver is called at {name}, but {after} has returned")
    })
}

fn all_destroyed(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(adapter) = shadows.adapter(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(adapter.owned == 0, Component::Kernel, "DxgkDdiStopDevice", || {
        format!(
            "{} stopped, but its driver was never called to destroy {} objects it has created",
            event.subject, adapter.owned
        )
    })
}

fn process_leaks_nothing(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::ProcessLeaked { object: what } => {
            let message = format!("{} ended without destroying {what}", event.subject);
            Verdict::broken(
                Component::Client,
                format!("process exit, {}", what.kind.name()).into(),
                message,
            )
        }
        _ if shadows.process(event.subject).is_some_and(|process| process.leaked > 0) => {
            Verdict::NotApplicable
        }
        _ => Verdict::Holds,
    }
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    const CREATED: &str = "device:1 device.created process=process:1 adapter=adapter:1
        context:1 context.created device=device:1 node=node:0
        context:1 packet.queued packet=1\n\
            context:1 packet.submitted packet=1 node=node:0 fence=1\n";
    const DONE: &str = "context:1 packet.done packet=1 node=node:0 fence=1\n";
    const LOST: &str = "device:1 device.lost why=hung\n";
    const CONTEXT: &str = "context:1 context.destroyed\n";
    const DEVICE: &str = "device:1 device.destroyed\n";

    #[test]
    fn a_device_goes_last() {
        let id = RuleId::DEV_LIFE_002;
        assert!(messages(id, &[CREATED, CONTEXT, DEVICE].concat()).is_empty());
        let contexts =
            "device 1 is destroyed, but 1 of its contexts and 0 of its views are still there";
        assert_eq!(messages(id, &[CREATED, DEVICE].concat()), [contexts]);
        let view = "view:1 view.opened allocation=allocation:1 device=device:1 resource=- handle_set=true\n";
        assert_eq!(messages(id, &[CREATED, CONTEXT, view, DEVICE].concat()).len(), 1);
        assert!(
            messages(id, &[CREATED, CONTEXT, view, "view:1 view.closed\n", DEVICE].concat())
                .is_empty()
        );
    }

    #[test]
    fn a_context_goes_after_its_work() {
        let id = RuleId::DEV_LIFE_004;
        assert!(messages(id, &[CREATED, DONE, CONTEXT].concat()).is_empty());
        assert!(messages(id, &[CREATED, LOST, CONTEXT].concat()).is_empty());
        let early = "context 1 is destroyed, but 1 of its packets are not done";
        assert_eq!(messages(id, &[CREATED, CONTEXT].concat()), [early]);
    }

    #[test]
    fn a_wait_ends() {
        let id = RuleId::WT_STUCK_001;
        assert!(messages(id, "context:1 wait.ended result=woken").is_empty());
        assert_eq!(judge_count(id, "context:1 wait.ended result=woken"), 1);
        assert_eq!(
            messages(
                id,
                "context:1 wait.stuck component=driver graph=\"main waits for context 1\""
            ),
            ["the wait for context 1 cannot end: nothing that could end it is left to run \
              (main waits for context 1)"]
        );
    }

    #[test]
    fn a_process_leaves_nothing() {
        let id = RuleId::WT_LEFT_001;
        let (open, end) = ("process:1 process.opened\n", "process:1 process.ended\n");
        assert_eq!(judge_count(id, &[open, end].concat()), 1);
        assert!(messages(id, &[open, end].concat()).is_empty());
        let left = [open, "process:1 process.leaked object=device:1\n", end].concat();
        assert_eq!((messages(id, &left).len(), judge_count(id, &left)), (1, 1));
    }
}
