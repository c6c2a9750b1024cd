//! Lifetimes: what must be destroyed before another object, waits that must end, and objects that
//! a process leaks.

use crate::ddi;
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Event, Kind, RuleId, Subject, What, Who};

/// The rules on lifetimes.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["device.destroyed"], RuleId::DEV_LIFE_002, empty),
    Rule::on(&["context.destroyed"], RuleId::DEV_LIFE_004, drained),
    Rule::on(&["wait.woken", "wait.stuck"], RuleId::WT_STUCK_001, can_end),
    Rule::on(&["ddi.call"], RuleId::WT_STOP_001, not_after_stop),
    Rule::on(&["adapter.stopped"], RuleId::WT_GONE_001, all_gone),
    Rule::on(&["process.ended", "process.left"], RuleId::WT_LEFT_001, nothing_left),
];

fn empty(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(device) = shadows.device(event.subject) else { return Verdict::Aside };
    let kept = device.contexts == 0 && device.views == 0;
    Verdict::kept_if(kept, Who::Kernel, "DxgkDdiDestroyDevice", || {
        format!(
            "{} is destroyed, but {} of its contexts and {} of its views are still there",
            event.subject, device.contexts, device.views
        )
    })
}

fn drained(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(context) = shadows.context(event.subject) else { return Verdict::Aside };
    // The work of a lost device counts as done.
    let lost = shadows.device(context.device).is_some_and(|device| device.lost);
    let kept = lost || context.in_flight == 0;
    Verdict::kept_if(kept, Who::Kernel, "DxgkDdiDestroyContext", || {
        format!(
            "{} is destroyed, but {} of its packets are not done",
            event.subject, context.in_flight
        )
    })
}

fn can_end(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::WaitStuck { graph } = &event.what else { return Verdict::Kept };
    let message = format!(
        "the wait for {} cannot end, for nothing that could end it is left to run: {graph}",
        event.subject
    );
    // A wait for a pass is a wait for one of ours, and a mutex is released by clients.
    let who = match event.subject.kind {
        _ if event.subject == Subject::RUN => Who::Kernel,
        Kind::Keyed => Who::Client,
        _ => Who::Driver,
    };
    Verdict::Broken(who, format!("wait for {}", event.subject.kind.name()).into(), message)
}

fn not_after_stop(event: &Event, shadows: &Shadows) -> Verdict {
    let What::DdiCall { name, adapter, .. } = &event.what else { return Verdict::Aside };
    let Some(adapter) = shadows.adapter(adapter) else { return Verdict::Aside };
    let late = match adapter.stopped.as_deref() {
        None => return Verdict::Kept,
        Some(ddi::STOP_DEVICE | ddi::RELEASE) => name != ddi::REMOVE_DEVICE,
        Some(_) => name != "DxgkDdiUnload",
    };
    let after = adapter.stopped.as_deref().unwrap_or_default();
    Verdict::kept_if(!late, Who::Kernel, name.clone(), || {
        format!("the driver is called at {name}, but {after} has returned")
    })
}

fn all_gone(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(adapter) = shadows.adapter(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(adapter.owned == 0, Who::Kernel, "DxgkDdiStopDevice", || {
        format!(
            "{} stopped, but its driver was never told of the end of {} things it has made",
            event.subject, adapter.owned
        )
    })
}

fn nothing_left(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::ProcessLeft { what } => {
            let message = format!(
                "{} ended and left {what} alive, but what it made is its own to destroy",
                event.subject
            );
            Verdict::Broken(
                Who::Client,
                format!("process exit, {}", what.kind.name()).into(),
                message,
            )
        }
        _ if shadows.process(event.subject).is_some_and(|it| it.left > 0) => Verdict::Aside,
        _ => Verdict::Kept,
    }
}

#[cfg(test)]
mod tests {
    use crate::script::{judged, said};
    use flight::RuleId;

    const BORN: &str = "device:1 device.created process=process:1 adapter=adapter:1
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
        assert!(said(id, &[BORN, CONTEXT, DEVICE].concat()).is_empty());
        let contexts =
            "device 1 is destroyed, but 1 of its contexts and 0 of its views are still there";
        assert_eq!(said(id, &[BORN, DEVICE].concat()), [contexts]);
        let view =
            "view:1 view.opened allocation=allocation:1 device=device:1 resource=- answered=true\n";
        assert_eq!(said(id, &[BORN, CONTEXT, view, DEVICE].concat()).len(), 1);
        assert!(
            said(id, &[BORN, CONTEXT, view, "view:1 view.closed\n", DEVICE].concat()).is_empty()
        );
    }

    #[test]
    fn a_context_goes_after_its_work() {
        let id = RuleId::DEV_LIFE_004;
        assert!(said(id, &[BORN, DONE, CONTEXT].concat()).is_empty());
        assert!(said(id, &[BORN, LOST, CONTEXT].concat()).is_empty());
        let early = "context 1 is destroyed, but 1 of its packets are not done";
        assert_eq!(said(id, &[BORN, CONTEXT].concat()), [early]);
    }

    #[test]
    fn a_wait_ends() {
        let id = RuleId::WT_STUCK_001;
        assert!(said(id, "context:1 wait.woken how=rung").is_empty());
        assert_eq!(judged(id, "context:1 wait.woken how=rung"), 1);
        assert_eq!(
            said(id, "context:1 wait.stuck graph=\"main waits for context 1\""),
            ["the wait for context 1 cannot end, for nothing that could end it is left to run: \
              main waits for context 1"]
        );
    }

    #[test]
    fn a_process_leaves_nothing() {
        let id = RuleId::WT_LEFT_001;
        let (open, end) = ("process:1 process.opened\n", "process:1 process.ended\n");
        assert_eq!(judged(id, &[open, end].concat()), 1);
        assert!(said(id, &[open, end].concat()).is_empty());
        let left = [open, "process:1 process.left what=device:1\n", end].concat();
        assert_eq!((said(id, &left).len(), judged(id, &left)), (1, 1));
    }
}
