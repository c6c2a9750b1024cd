//! Destruction: rules on its stages, which follow the work that was queued before and never go
//! back.

use crate::rule::{Rule, Verdict};
use crate::shadow::{Shadows, ViewStage};
use flight::{Component, Event, EventKind, RuleId};

/// The rules on the end of views, allocations and resources.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["resource.destroyed"], RuleId::ALLOC_DESTROY_002, members_destroyed_with_resource),
    Rule::on(&["view.idle"], RuleId::ALLOC_DESTROY_006, after_work),
    Rule::on(&["packet.done"], RuleId::ALLOC_DESTROY_007, assumed_idle_at_once),
    Rule::on(&["retire.returned"], RuleId::ALLOC_DESTROY_009, synchronous_waits),
    Rule::on(&["view.retiring"], RuleId::ALLOC_DESTROY_010, handle_dead_on_return),
    Rule::on(&["wait.parked"], RuleId::ALLOC_DESTROY_011, asynchronous_does_not_wait),
    Rule::on(&["retire.requested"], RuleId::ALLOC_DESTROY_013, no_flags_in_version_1),
    Rule::on(&["ddi.destroys"], RuleId::ALLOC_DESTROY_015, closed_first),
    Rule::on(&["allocation.decommitted"], RuleId::ALLOC_DESTROY_016, idle_first),
    Rule::on(&["ddi.resource"], RuleId::ALLOC_DESTROY_017, last_view),
    Rule::on(&["resource-view.retiring"], RuleId::ALLOC_DESTROY_025, empty_resource_stays),
];

const DESTROY: &str = "D3DKMTDestroyAllocation2";
const DESTROY_1: &str = "D3DKMTDestroyAllocation";

fn members_destroyed_with_resource(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(resource) = shadows.resource(event.subject) else { return Verdict::NotApplicable };
    let left = resource.live.saturating_sub(resource.members_destroyed);
    Verdict::holds_if(left == 0, Component::Kernel, DESTROY, || {
        format!("{} is destroyed, but {left} of its allocations live", event.subject)
    })
}

fn after_work(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(view) = shadows.view(event.subject) else { return Verdict::NotApplicable };
    let Some(device) = shadows.device(view.device) else { return Verdict::NotApplicable };
    if view.request == 0 || view.assumed_idle {
        return Verdict::NotApplicable;
    }
    let first = device.packets.front().filter(|packet| packet.queued < view.request);
    Verdict::holds_if(first.is_none(), Component::Kernel, DESTROY, || {
        let behind =
            device.packets.iter().take_while(|packet| packet.queued < view.request).count();
        let fence = first.map_or(String::new(), |packet| {
            format!(", first packet {} of {}", packet.packet, packet.context)
        });
        format!(
            "{} became idle, but {behind} packets that {} had queued before its end was \
             requested are not done{fence}",
            event.subject, view.device
        )
    })
}

fn assumed_idle_at_once(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PacketDone { node, fence, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(context) = shadows.context(event.subject) else { return Verdict::NotApplicable };
    let Some(device) = shadows.device(context.device) else { return Verdict::NotApplicable };
    Verdict::holds_if(
        device.hasty == 0,
        Component::Kernel,
        "D3DKMTDestroyAllocation2, AssumeNotInUse",
        || {
            format!(
                "fence {fence} of {node} passed while {} views that were reported not to be in use \
                 still waited, but their end waits for no work",
                device.hasty
            )
        },
    )
}

fn synchronous_waits(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::RetireReturned { done }, Some(it)) =
        (&event.kind, shadows.retirement(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    if !done || !it.request.synchronous {
        return Verdict::NotApplicable;
    }
    // An open by an NT handle that is under way keeps the allocations alive.
    if it.orphans > 0 && !shadows.nt_openers.is_empty() {
        return Verdict::NotApplicable;
    }
    Verdict::holds_if(
        it.closed >= it.views && it.orphans == 0,
        Component::Kernel,
        "D3DKMTDestroyAllocation2, SynchronousDestroy",
        || {
            format!(
                "{} was reported as done; views that are not closed: {}; allocations without a \
                 view that are not destroyed: {}",
                event.subject,
                it.views.saturating_sub(it.closed),
                it.orphans
            )
        },
    )
}

fn handle_dead_on_return(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::ViewRetiring { retirement, .. }, Some(view)) =
        (&event.kind, shadows.view(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(view.stage == ViewStage::Live, Component::Kernel, DESTROY, || {
        let before = view.retirement.map_or("before".into(), |serial| format!("by {serial}"));
        format!("{retirement} closed the handle of {}, but that was closed {before}", event.subject)
    })
}

fn asynchronous_does_not_wait(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(retirement) = shadows.retirement(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(retirement.request.synchronous, Component::Kernel, DESTROY, || {
        format!("a thread waits for {}, but SynchronousDestroy was not requested", event.subject)
    })
}

fn no_flags_in_version_1(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::RetireRequested { device, assume_not_in_use: assume, synchronous: sync, .. } =
        &event.kind
    else {
        return Verdict::NotApplicable;
    };
    let process = shadows.device(device).and_then(|device| device.process);
    let entered = shadows.process(process).and_then(|process| process.call(event.thread));
    if entered.is_none_or(|client_call| client_call.name != DESTROY_1) {
        return Verdict::NotApplicable;
    }
    Verdict::holds_if(!assume && !sync, Component::Kernel, DESTROY_1, || {
        format!(
            "{} was requested by {DESTROY_1} with AssumeNotInUse {assume} and SynchronousDestroy \
             {sync}, but that call has no flags",
            event.subject
        )
    })
}

fn empty_resource_stays(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(view) = shadows.resource_view(event.subject) else { return Verdict::NotApplicable };
    // A resource that has members ends with them.
    let resource = shadows.resource(view.resource);
    if resource.is_some_and(|resource| resource.live > 0) {
        return Verdict::NotApplicable;
    }
    Verdict::holds_if(resource.is_some(), Component::Kernel, DESTROY, || {
        format!(
            "the handle of {} is closed, but {} was destroyed before: an empty resource stays until it \
             is destroyed by its handle",
            event.subject, view.resource
        )
    })
}

fn closed_first(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(allocation) = shadows.allocation(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(
        allocation.views == 0,
        Component::Kernel,
        "DxgkDdiDestroyAllocation, pAllocationList",
        || format!("{} is destroyed, but {} views of it are open", event.subject, allocation.views),
    )
}

fn idle_first(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(allocation) = shadows.allocation(event.subject) else { return Verdict::NotApplicable };
    Verdict::holds_if(allocation.busy == 0, Component::Kernel, DESTROY, || {
        format!(
            "the memory of {} was given back, but {} views of it are not idle",
            event.subject, allocation.busy
        )
    })
}

fn last_view(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::DdiResource { destroy: true, .. }, Some(resource)) =
        (&event.kind, shadows.resource(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    let holds = shadows.nt_holds_of(event.subject);
    Verdict::holds_if(
        resource.views == 0 && holds == 0,
        Component::Kernel,
        "DxgkDdiDestroyAllocation, DestroyResource",
        || {
            let (subject, views) = (event.subject, resource.views);
            if views > 0 {
                return format!("{subject} is destroyed, but {views} devices have it open");
            }
            format!("{subject} is destroyed, but {holds} NT objects keep it alive")
        },
    )
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    const CREATED: &str = "device:1 device.created process=process:1 adapter=adapter:1
        context:1 context.created device=device:1 node=node:0
        resource:1 resource.created adapter=adapter:1 device=device:1 sharing=none
        resource-view:1 resource-view.opened resource=resource:1 device=device:1
        allocation:1 allocation.created adapter=adapter:1 device=device:1 resource=resource:1 size=1 pitch_size=0 alignment=0 client_data=0x00000000 driver_data=0x00000000
        view:1 view.opened allocation=allocation:1 device=device:1 resource=resource:1 handle_set=true\n";

    fn requested(assume: bool, sync: bool) -> String {
        format!(
            "retirement:1 retire.requested device=device:1 views=1 assume_not_in_use={assume} synchronous={sync}
            view:1 view.retiring by=device:1 retirement=retirement:1\n"
        )
    }

    fn queued(fence: u32) -> String {
        format!("context:1 packet.queued packet={fence}\n")
    }

    fn done(fence: u32) -> String {
        format!("context:1 packet.done packet={fence} node=node:0 fence={fence}\n")
    }

    fn check(id: RuleId, script: &str, expected: &[&str]) {
        assert_eq!(messages(id, &format!("{CREATED}{script}")), expected, "{script}");
        assert_ne!(judge_count(id, &format!("{CREATED}{script}")), 0, "{script}");
    }

    #[test]
    fn a_view_is_idle_after_the_work_before_it() {
        let id = RuleId::ALLOC_DESTROY_006;
        let request = requested(false, false);
        let idle = "view:1 view.idle";
        check(id, &[&*queued(1), &request, &queued(2), &done(1), idle].concat(), &[]);
        check(id, &[&*queued(1), &request, "device:1 device.lost why=hung\n", idle].concat(), &[]);
        let broken = "view 1 became idle, but 1 packets that device 1 had queued before its end \
                      was requested are not done, first packet 1 of context 1";
        check(id, &[&*queued(1), &request, &queued(2), idle].concat(), &[broken]);
    }

    #[test]
    fn a_hasty_end_waits_for_no_work() {
        let id = RuleId::ALLOC_DESTROY_007;
        let request = requested(true, false);
        check(id, &[&*queued(1), &request, "view:1 view.idle\n", &done(1)].concat(), &[]);
        let broken = "fence 1 of node 0 passed while 1 views that were reported not to be in use \
                      still waited, but their end waits for no work";
        check(id, &[&*queued(1), &request, &done(1)].concat(), &[broken]);
        let script = [CREATED, &request, "view:1 view.idle"].concat();
        assert_eq!(judge_count(RuleId::ALLOC_DESTROY_006, &script), 0);
    }

    #[test]
    fn who_waits_is_answered_at_the_end() {
        let id = RuleId::ALLOC_DESTROY_009;
        let (closed, removed) = ("view:1 view.closed\n", "allocation:1 allocation.destroyed\n");
        let answered = "retirement:1 retire.returned done=true";
        check(id, &[&*requested(false, true), closed, removed, answered].concat(), &[]);
        for (script, open, left) in [("", 1, 0), (closed, 0, 1)] {
            let broken = format!(
                "retirement 1 was reported as done; views that are not closed: {open}; allocations \
                 without a view that are not destroyed: {left}"
            );
            check(id, &[&*requested(false, true), script, answered].concat(), &[&broken]);
        }
        assert_eq!(judge_count(id, &[CREATED, &requested(false, false), answered].concat()), 0);
    }

    #[test]
    fn what_an_nt_object_keeps_alive_is_not_destroyed() {
        let id = RuleId::ALLOC_DESTROY_009;
        let held = "nt-object:1 nt-object.created process=process:1 name=Shared access=read-write resource=resource:1 keyed_mutex=- sync=-\n";
        let script = [held, &requested(false, true), "view:1 view.closed\n"].concat();
        let returned = "retirement:1 retire.returned done=true";
        check(id, &[&*script, returned].concat(), &[]);
        let opening = "process:1 enter call=D3DKMTOpenResourceFromNtHandle\n";
        let ended = "nt-object:1 nt-object.ended\n";
        let script = [held, ended, &requested(false, true), "view:1 view.closed\n"].concat();
        let message = "retirement 1 was reported as done; views that are not closed: 0; allocations \
                       without a view that are not destroyed: 1";
        check(id, &[&*script, returned].concat(), &[message]);
        let judged = [CREATED, "process:1 process.opened\n", opening, &script, returned].concat();
        assert_eq!(messages(id, &judged), &[] as &[&str]);
    }

    #[test]
    fn a_name_ends_once() {
        let id = RuleId::ALLOC_DESTROY_010;
        check(id, &requested(false, false), &[]);
        let again = "view:1 view.retiring by=device:1 retirement=retirement:2";
        let broken =
            "retirement 2 closed the handle of view 1, but that was closed by retirement 1";
        check(id, &[&requested(false, false), again].concat(), &[broken]);
    }

    #[test]
    fn only_who_asked_to_wait_waits() {
        let id = RuleId::ALLOC_DESTROY_011;
        let parked = "retirement:1 wait.parked why=end";
        check(id, &[&requested(false, true), parked].concat(), &[]);
        let broken = "a thread waits for retirement 1, but SynchronousDestroy was not requested";
        check(id, &[&requested(false, false), parked].concat(), &[broken]);
    }

    #[test]
    fn stages_come_in_order() {
        let (idle, closed) = ("view:1 view.idle\n", "view:1 view.closed\n");
        let destroys = "c1 allocation:1 ddi.destroys adapter=adapter:1\n";
        let open = "allocation 1 is destroyed, but 1 views of it are open";
        check(RuleId::ALLOC_DESTROY_015, &[closed, destroys].concat(), &[]);
        check(RuleId::ALLOC_DESTROY_015, &[idle, destroys].concat(), &[open]);
        let decommitted = "allocation:1 allocation.decommitted";
        let busy = "the memory of allocation 1 was given back, but 1 views of it are not idle";
        check(RuleId::ALLOC_DESTROY_016, &[idle, decommitted].concat(), &[]);
        check(RuleId::ALLOC_DESTROY_016, &[idle, closed, decommitted].concat(), &[]);
        check(RuleId::ALLOC_DESTROY_016, decommitted, &[busy]);
        let goes = "c1 resource:1 ddi.resource driver_handle=driver-pointer:1 destroy=true no_allocations=false\n";
        let seen = "resource 1 is destroyed, but 1 devices have it open";
        let unseen = "resource-view:1 resource-view.closed\n";
        check(RuleId::ALLOC_DESTROY_017, &[unseen, goes].concat(), &[]);
        check(RuleId::ALLOC_DESTROY_017, goes, &[seen]);
    }

    #[test]
    fn a_resource_goes_with_its_members() {
        let id = RuleId::ALLOC_DESTROY_002;
        let destroys = "c1 allocation:1 ddi.destroys adapter=adapter:1\n";
        let (removed, all) =
            ("allocation:1 allocation.destroyed\n", "resource:1 resource.destroyed\n");
        check(id, &[destroys, removed, all].concat(), &[]);
        check(id, &[destroys, all, removed].concat(), &[]);
        check(id, all, &["resource 1 is destroyed, but 1 of its allocations live"]);
    }
}
