//! Destruction: rules on its stages, which follow the work that was queued before and never go
//! back.

use crate::rule::{Rule, Verdict};
use crate::shadow::{Shadows, Stage};
use flight::{Event, RuleId, What, Who};

/// The rules on the end of views, allocations and resources.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["resource.gone"], RuleId::ALLOC_DESTROY_002, with_members),
    Rule::on(&["view.idle"], RuleId::ALLOC_DESTROY_006, after_work),
    Rule::on(&["packet.done"], RuleId::ALLOC_DESTROY_007, at_once),
    Rule::on(&["retire.answered"], RuleId::ALLOC_DESTROY_009, not_before_the_end),
    Rule::on(&["view.unnamed"], RuleId::ALLOC_DESTROY_010, name_ends_once),
    Rule::on(&["wait.parked"], RuleId::ALLOC_DESTROY_011, no_wait),
    Rule::on(&["retire.asked"], RuleId::ALLOC_DESTROY_013, no_flags_in_version_1),
    Rule::on(&["ddi.destroys"], RuleId::ALLOC_DESTROY_015, closed_first),
    Rule::on(&["allocation.unplaced"], RuleId::ALLOC_DESTROY_016, idle_first),
    Rule::on(&["ddi.resource"], RuleId::ALLOC_DESTROY_017, last_view),
    Rule::on(&["resource-view.unnamed"], RuleId::ALLOC_DESTROY_025, empty_and_there),
];

const DESTROY: &str = "D3DKMTDestroyAllocation2";
const DESTROY_1: &str = "D3DKMTDestroyAllocation";

fn with_members(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(resource) = shadows.resource(event.subject) else { return Verdict::Aside };
    let left = resource.live.saturating_sub(resource.told);
    Verdict::kept_if(left == 0, Who::Kernel, DESTROY, || {
        format!("{} is gone, but {left} of its allocations live", event.subject)
    })
}

fn after_work(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(view) = shadows.view(event.subject) else { return Verdict::Aside };
    let Some(device) = shadows.device(view.device) else { return Verdict::Aside };
    let Some(asked) = view.asked.filter(|it| !it.assume) else { return Verdict::Aside };
    let first = device.packets.front().filter(|it| it.queued < asked.seq);
    Verdict::kept_if(first.is_none(), Who::Kernel, DESTROY, || {
        let behind = device.packets.iter().take_while(|it| it.queued < asked.seq).count();
        let fence = first
            .map_or(String::new(), |it| format!(", first packet {} of {}", it.packet, it.context));
        format!(
            "{} became idle, but {behind} packets that {} had queued before its end was asked \
             for are not done{fence}",
            event.subject, view.device
        )
    })
}

fn at_once(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PacketDone { node, fence, .. } = &event.what else { return Verdict::Aside };
    let Some(context) = shadows.context(event.subject) else { return Verdict::Aside };
    let Some(device) = shadows.device(context.device) else { return Verdict::Aside };
    Verdict::kept_if(
        device.hasty == 0,
        Who::Kernel,
        "D3DKMTDestroyAllocation2, AssumeNotInUse",
        || {
            format!(
                "fence {fence} of {node} passed while {} views that were said not to be in use \
                 still waited, but their end waits for no work",
                device.hasty
            )
        },
    )
}

fn not_before_the_end(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::RetireAnswered { done }, Some(it)) =
        (&event.what, shadows.retirement(event.subject))
    else {
        return Verdict::Aside;
    };
    if !done || !it.asked.sync {
        return Verdict::Aside;
    }
    Verdict::kept_if(
        it.closed >= it.views && it.orphans == 0,
        Who::Kernel,
        "D3DKMTDestroyAllocation2, SynchronousDestroy",
        || {
            format!(
                "{} was answered as done, but only {} of its {} views are closed, and {} \
                 allocations they were the last views of are not gone",
                event.subject, it.closed, it.views, it.orphans
            )
        },
    )
}

fn name_ends_once(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::ViewUnnamed { retirement, .. }, Some(view)) =
        (&event.what, shadows.view(event.subject))
    else {
        return Verdict::Aside;
    };
    Verdict::kept_if(view.stage == Stage::Named, Who::Kernel, DESTROY, || {
        let before = view.retirement.map_or("before".into(), |it| format!("by {it}"));
        format!("{retirement} closed the name of {}, but that was closed {before}", event.subject)
    })
}

fn no_wait(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(retirement) = shadows.retirement(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(retirement.asked.sync, Who::Kernel, DESTROY, || {
        format!("a thread waits for {}, but SynchronousDestroy was not asked for", event.subject)
    })
}

fn no_flags_in_version_1(event: &Event, shadows: &Shadows) -> Verdict {
    let What::RetireAsked { device, assume, sync, .. } = &event.what else {
        return Verdict::Aside;
    };
    let process = shadows.device(device).and_then(|device| device.process);
    let entered = shadows.process(process).and_then(|it| it.call(event.thread));
    if entered.is_none_or(|it| it.name != DESTROY_1) {
        return Verdict::Aside;
    }
    Verdict::kept_if(!assume && !sync, Who::Kernel, DESTROY_1, || {
        format!(
            "{} was asked for by {DESTROY_1} with AssumeNotInUse {assume} and SynchronousDestroy \
             {sync}, but that call has no flags",
            event.subject
        )
    })
}

fn empty_and_there(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(view) = shadows.resource_view(event.subject) else { return Verdict::Aside };
    // One that has members ends with them.
    let resource = shadows.resource(view.resource);
    if resource.is_some_and(|resource| resource.live > 0) {
        return Verdict::Aside;
    }
    Verdict::kept_if(resource.is_some(), Who::Kernel, DESTROY, || {
        format!(
            "the name of {} is closed, but {} was gone before: an empty resource stays until it \
             is destroyed by its handle",
            event.subject, view.resource
        )
    })
}

fn closed_first(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(allocation) = shadows.allocation(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(
        allocation.views == 0,
        Who::Kernel,
        "DxgkDdiDestroyAllocation, pAllocationList",
        || format!("{} is destroyed, but {} views of it are open", event.subject, allocation.views),
    )
}

fn idle_first(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(allocation) = shadows.allocation(event.subject) else { return Verdict::Aside };
    Verdict::kept_if(allocation.busy == 0, Who::Kernel, DESTROY, || {
        format!(
            "the memory of {} was given back, but {} views of it are not idle",
            event.subject, allocation.busy
        )
    })
}

fn last_view(event: &Event, shadows: &Shadows) -> Verdict {
    let (What::DdiResource { goes: true, .. }, Some(resource)) =
        (&event.what, shadows.resource(event.subject))
    else {
        return Verdict::Aside;
    };
    Verdict::kept_if(
        resource.views == 0,
        Who::Kernel,
        "DxgkDdiDestroyAllocation, DestroyResource",
        || format!("{} is destroyed, but {} devices have it open", event.subject, resource.views),
    )
}

#[cfg(test)]
mod tests {
    use crate::script::{judged, said};
    use flight::RuleId;

    const BORN: &str = "device:1 device.created process=process:1 adapter=adapter:1
        context:1 context.created device=device:1 node=node:0
        resource:1 resource.created adapter=adapter:1 device=device:1 sharing=none
        resource-view:1 resource-view.opened resource=resource:1 device=device:1
        allocation:1 allocation.created adapter=adapter:1 device=device:1 resource=resource:1 size=1 pitch_size=0 alignment=0 given=0x00000000 seen=0x00000000
        view:1 view.opened allocation=allocation:1 device=device:1 resource=resource:1 answered=true\n";

    fn asked(assume: bool, sync: bool) -> String {
        format!(
            "retirement:1 retire.asked device=device:1 views=1 assume={assume} sync={sync}
            view:1 view.unnamed by=device:1 retirement=retirement:1\n"
        )
    }

    fn queued(fence: u32) -> String {
        format!("context:1 packet.queued packet={fence}\n")
    }

    fn done(fence: u32) -> String {
        format!("context:1 packet.done packet={fence} node=node:0 fence={fence}\n")
    }

    fn check(id: RuleId, script: &str, expected: &[&str]) {
        assert_eq!(said(id, &format!("{BORN}{script}")), expected, "{script}");
        assert_ne!(judged(id, &format!("{BORN}{script}")), 0, "{script}");
    }

    #[test]
    fn a_view_is_idle_after_the_work_before_it() {
        let id = RuleId::ALLOC_DESTROY_006;
        let asked = asked(false, false);
        let idle = "view:1 view.idle";
        check(id, &[&*queued(1), &asked, &queued(2), &done(1), idle].concat(), &[]);
        check(id, &[&*queued(1), &asked, "device:1 device.lost why=hung\n", idle].concat(), &[]);
        let broken = "view 1 became idle, but 1 packets that device 1 had queued before its end \
                      was asked for are not done, first packet 1 of context 1";
        check(id, &[&*queued(1), &asked, &queued(2), idle].concat(), &[broken]);
    }

    #[test]
    fn a_hasty_end_waits_for_no_work() {
        let id = RuleId::ALLOC_DESTROY_007;
        let asked = asked(true, false);
        check(id, &[&*queued(1), &asked, "view:1 view.idle\n", &done(1)].concat(), &[]);
        let broken = "fence 1 of node 0 passed while 1 views that were said not to be in use \
                      still waited, but their end waits for no work";
        check(id, &[&*queued(1), &asked, &done(1)].concat(), &[broken]);
        let script = [BORN, &asked, "view:1 view.idle"].concat();
        assert_eq!(judged(RuleId::ALLOC_DESTROY_006, &script), 0);
    }

    #[test]
    fn who_waits_is_answered_at_the_end() {
        let id = RuleId::ALLOC_DESTROY_009;
        let (closed, gone) = ("view:1 view.closed\n", "allocation:1 allocation.gone\n");
        let answered = "retirement:1 retire.answered done=true";
        check(id, &[&*asked(false, true), closed, gone, answered].concat(), &[]);
        for (script, closed, left) in [("", 0, 0), (closed, 1, 1)] {
            let broken = format!(
                "retirement 1 was answered as done, but only {closed} of its 1 views are closed, \
                 and {left} allocations they were the last views of are not gone"
            );
            check(id, &[&*asked(false, true), script, answered].concat(), &[&broken]);
        }
        assert_eq!(judged(id, &[BORN, &asked(false, false), answered].concat()), 0);
    }

    #[test]
    fn a_name_ends_once() {
        let id = RuleId::ALLOC_DESTROY_010;
        check(id, &asked(false, false), &[]);
        let again = "view:1 view.unnamed by=device:1 retirement=retirement:2";
        let broken = "retirement 2 closed the name of view 1, but that was closed by retirement 1";
        check(id, &[&asked(false, false), again].concat(), &[broken]);
    }

    #[test]
    fn only_who_asked_to_wait_waits() {
        let id = RuleId::ALLOC_DESTROY_011;
        let parked = "retirement:1 wait.parked why=end";
        check(id, &[&asked(false, true), parked].concat(), &[]);
        let broken = "a thread waits for retirement 1, but SynchronousDestroy was not asked for";
        check(id, &[&asked(false, false), parked].concat(), &[broken]);
    }

    #[test]
    fn stages_come_in_order() {
        let (idle, closed) = ("view:1 view.idle\n", "view:1 view.closed\n");
        let destroys = "c1 allocation:1 ddi.destroys adapter=adapter:1\n";
        let open = "allocation 1 is destroyed, but 1 views of it are open";
        check(RuleId::ALLOC_DESTROY_015, &[closed, destroys].concat(), &[]);
        check(RuleId::ALLOC_DESTROY_015, &[idle, destroys].concat(), &[open]);
        let unplaced = "allocation:1 allocation.unplaced";
        let busy = "the memory of allocation 1 was given back, but 1 views of it are not idle";
        check(RuleId::ALLOC_DESTROY_016, &[idle, unplaced].concat(), &[]);
        check(RuleId::ALLOC_DESTROY_016, &[idle, closed, unplaced].concat(), &[]);
        check(RuleId::ALLOC_DESTROY_016, unplaced, &[busy]);
        let goes = "c1 resource:1 ddi.resource word=word:1 goes=true alone=false\n";
        let seen = "resource 1 is destroyed, but 1 devices have it open";
        let unseen = "resource-view:1 resource-view.closed\n";
        check(RuleId::ALLOC_DESTROY_017, &[unseen, goes].concat(), &[]);
        check(RuleId::ALLOC_DESTROY_017, goes, &[seen]);
    }

    #[test]
    fn a_resource_goes_with_its_members() {
        let id = RuleId::ALLOC_DESTROY_002;
        let destroys = "c1 allocation:1 ddi.destroys adapter=adapter:1\n";
        let (gone, all) = ("allocation:1 allocation.gone\n", "resource:1 resource.gone\n");
        check(id, &[destroys, gone, all].concat(), &[]);
        check(id, &[destroys, all, gone].concat(), &[]);
        check(id, all, &["resource 1 is gone, but 1 of its allocations live"]);
    }
}
