//! `DxgkDdiOpenAllocation` and `DxgkDdiCloseAllocation`: rules on what the kernel passes, and on
//! what the driver must not free.

use crate::ddi::{CLOSE_ALLOCATION, OPEN_ALLOCATION};
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, Kind, RuleId};

/// The rules on opening and closing.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ddi.opens"], RuleId::ALLOC_SHARE_004, whole_resource_opened),
    Rule::on(&["ddi.return"], RuleId::KMD_OPEN_006, openable_by_any_device).of(&[OPEN_ALLOCATION]),
    Rule::on(&["pool.freed"], RuleId::KMD_OPEN_007, allocation_data_left_alone),
    Rule::on(&["ddi.closes"], RuleId::KMD_OPEN_008, closed_in_one_call),
    Rule::on(&["ddi.closes"], RuleId::KMD_OPEN_009, closed_once),
];

const LIST: &str = "DxgkDdiCloseAllocation, pOpenHandleList";

fn whole_resource_opened(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiOpens { device, resource: Some(resource), create: false, batch } =
        &event.kind
    else {
        return Verdict::NotApplicable;
    };
    let Some(members) = shadows.resource(resource).map(|resource| resource.live) else {
        return Verdict::NotApplicable;
    };
    let place = "DxgkDdiOpenAllocation, pOpenAllocation";
    Verdict::holds_if(*batch == members, Component::Kernel, place, || {
        format!("{batch} views of {resource} are opened for {device}, but it has {members} members")
    })
}

fn openable_by_any_device(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::DdiReturn { name, result, .. }, Some(call)) =
        (&event.kind, shadows.call(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    let Some(device) = call.opens_for else { return Verdict::NotApplicable };
    // A crash, an absent entry and a lack of memory do not depend on the device.
    let kept = ["ok", "no-memory", "crashed", "absent"].contains(&&**result);
    Verdict::holds_if(kept, Component::Driver, name, || {
        format!(
            "{name} refused to open what another device created for {device} ({result}), but any \
             device of the adapter may open it"
        )
    })
}

fn allocation_data_left_alone(event: &Event, shadows: &Shadows) -> Verdict {
    let inside = shadows.call_of(event).is_some_and(|call| call.name == CLOSE_ALLOCATION);
    let Some(driver_handle) = shadows.driver_pointer(event.subject).filter(|_| inside) else {
        return Verdict::NotApplicable;
    };
    let Some(live) = driver_handle.live_object() else { return Verdict::Holds };
    let handle = if live.kind == Kind::Resource { "hResource" } else { "hAllocation" };
    let block = driver_handle.block.as_deref();
    let details = block.map_or(String::new(), |block| format!(" ({})", block.details()));
    let message = format!(
        "{CLOSE_ALLOCATION} freed the pool block behind the {handle} of {live}{details}, but \
         {live} is not destroyed yet"
    );
    Verdict::broken(Component::Driver, CLOSE_ALLOCATION.into(), message)
}

fn closed_in_one_call(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::DdiCloses { batch, device }, Some(view)) =
        (&event.kind, shadows.view(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    let group = shadows
        .retirement(view.retirement)
        .zip(view.resource)
        .and_then(|(it, resource)| it.group(resource));
    let Some(group) = group.filter(|resource_group| resource_group.whole) else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(*batch == group.open, Component::Kernel, LIST, || {
        format!(
            "{CLOSE_ALLOCATION} closes {batch} views of {} for {device}, but {} end together",
            group.resource, group.open
        )
    })
}

fn closed_once(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiCloses { device, .. } = &event.kind else { return Verdict::NotApplicable };
    let but = match shadows.view(event.subject) {
        None => "it is not open".into(),
        Some(view) if view.close_called => "it was given to one before".into(),
        Some(view) if view.device != *device => format!("it was opened for {}", view.device),
        Some(_) => return Verdict::Holds,
    };
    let message =
        format!("{} is given to {CLOSE_ALLOCATION} for {device}, but {but}", event.subject);
    Verdict::broken(Component::Kernel, LIST.into(), message)
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    #[test]
    fn any_device_may_open() {
        let opens = |create: bool, result: &str| {
            format!(
                "call:1 ddi.call name=DxgkDdiOpenAllocation level=passive threading_level=zero adapter=adapter:1 process=process:2
                c1 view:2 ddi.opens device=device:2 resource=resource:1 create={create} batch=1
                call:1 ddi.return name=DxgkDdiOpenAllocation result={result} legal=true"
            )
        };
        let id = RuleId::KMD_OPEN_006;
        assert_eq!(judge_count(id, &opens(true, "invalid")), 0, "its maker's own");
        assert!(messages(id, &opens(false, "ok")).is_empty());
        assert!(messages(id, &opens(false, "no-memory")).is_empty());
        assert!(messages(id, &opens(false, "invalid"))[0].contains("for device 2 (invalid)"));
    }

    #[test]
    fn the_allocations_own_data_is_left_alone() {
        let id = RuleId::KMD_OPEN_007;
        let close = |name: &str, driver_handle: u32| {
            format!(
                "driver-pointer:1 pool.allocated bytes=64 tag=Wtun
                driver-pointer:1 driver-handle.set of=allocation:3
                driver-pointer:2 pool.allocated bytes=16 tag=Wtun
                driver-pointer:2 driver-handle.set of=view:3
                call:2 ddi.call name={name} level=passive threading_level=zero adapter=adapter:1 process=-
                c2 driver-pointer:{driver_handle} pool.freed"
            )
        };
        assert!(messages(id, &close("DxgkDdiCloseAllocation", 2)).is_empty());
        assert_eq!(judge_count(id, &close("DxgkDdiCloseAllocation", 2)), 1);
        assert_eq!(judge_count(id, &close("DxgkDdiDestroyAllocation", 1)), 0);
        assert_eq!(
            messages(id, &close("DxgkDdiCloseAllocation", 1)),
            ["DxgkDdiCloseAllocation freed the pool block behind the hAllocation of allocation 3 \
              (64 bytes, tag Wtun), but allocation 3 is not destroyed yet"]
        );
    }

    /// Two views of a resource end; if `whole`, the resource ends, too.
    fn ends(whole: bool, closes: &str) -> String {
        let unnamed =
            "resource-view:1 resource-view.retiring by=device:1 retirement=retirement:1\n";
        let whole = if whole { unnamed } else { "" };
        format!(
            "resource-view:1 resource-view.opened resource=resource:1 device=device:1
            view:1 view.opened allocation=allocation:1 device=device:1 resource=resource:1 handle_set=true
            view:2 view.opened allocation=allocation:2 device=device:1 resource=resource-view:1 handle_set=true
            retirement:1 retire.requested device=device:1 views=2 assume_not_in_use=false synchronous=false
            {whole}view:1 view.retiring by=device:1 retirement=retirement:1
            view:2 view.retiring by=device:1 retirement=retirement:1
            {closes}"
        )
    }

    #[test]
    fn a_resource_is_closed_in_one_call() {
        let id = RuleId::KMD_OPEN_008;
        let both = "c1 view:1 ddi.closes device=device:1 batch=2
            c1 view:2 ddi.closes device=device:1 batch=2";
        assert!(messages(id, &ends(true, both)).is_empty());
        assert_eq!(judge_count(id, &ends(true, both)), 2);
        let one = "c1 view:1 ddi.closes device=device:1 batch=1";
        assert_eq!(judge_count(id, &ends(false, one)), 0, "a list may be closed in parts");
        assert_eq!(
            messages(id, &ends(true, one)),
            ["DxgkDdiCloseAllocation closes 1 views of resource 1 for device 1, but 2 end \
                 together"]
        );
    }

    #[test]
    fn a_view_is_closed_once_for_its_device() {
        let id = RuleId::KMD_OPEN_009;
        let one = "c1 view:1 ddi.closes device=device:1 batch=1\n";
        let check = |closes: &str, but: &str| {
            let message = messages(id, &ends(false, closes));
            assert_eq!(message.len(), 1, "{closes}");
            assert!(message[0].ends_with(but), "{}", message[0]);
        };
        assert!(messages(id, &ends(false, one)).is_empty());
        check(&one.repeat(2), "but it was given to one before");
        check(&format!("{one}view:1 view.closed\n{one}"), "but it is not open");
        check(&one.replace("device:1", "device:2"), "but it was opened for device 1");
    }
}
