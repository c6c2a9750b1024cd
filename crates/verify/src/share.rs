//! Shared resources and device states: rules on what is reported to clients.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, RuleId};

/// The rules on what is reported to clients.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["share.queried"], RuleId::ALLOC_SHARE_001, sizes_only),
    Rule::on(&["share.queried"], RuleId::ALLOC_SHARE_002, sum_fits_return_field),
    Rule::on(&["share.opened"], RuleId::ALLOC_SHARE_005, total_size_returned),
    Rule::on(&["device.state-queried"], RuleId::DEV_LIFE_007, loss_reason_stable),
    Rule::on(&["leave"], RuleId::DEV_LIFE_008, no_fixed_limit).in_entries(&ENDLESS),
];

/// The state that is reported for a working device.
const ACTIVE: &str = "active";

/// The calls that have no ceiling.
const ENDLESS: [&str; 2] = ["D3DKMTCreateDevice", "D3DKMTCreateContextVirtual"];

/// Further errors they may return: an invalid parameter, an invalid handle, no memory, a removed
/// device, not supported, a wait that could not end.
const REASONS: [u32; 6] =
    [0xC000_000D, 0xC000_0008, 0xC000_0017, 0xC000_02B6, 0xC000_00BB, 0xC000_0001];

fn sizes_only(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::ShareQueried { runtime, copied, .. }, Some(data)) =
        (&event.kind, shadows.data(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    let kept = *runtime == data.runtime && *copied == 0;
    Verdict::holds_if(kept, Component::Kernel, "D3DKMTQueryResourceInfo", || {
        format!(
            "{} has {} bytes of the runtime's data, but {runtime} were reported and {copied} were \
             copied: the query reports sizes and copies nothing",
            event.subject, data.runtime
        )
    })
}

fn sum_fits_return_field(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::ShareQueried { total, .. }, Some(data)) =
        (&event.kind, shadows.data(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    let kept = u32::try_from(data.total).is_ok();
    Verdict::holds_if(kept, Component::Kernel, "D3DKMTQueryResourceInfo", || {
        format!(
            "{} has {} bytes of private data, and {total} were reported: what does not fit in 32 bits \
             is an integer overflow",
            event.subject, data.total
        )
    })
}

fn total_size_returned(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::ShareOpened { written, copied }, Some(data)) =
        (&event.kind, shadows.data(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    let (total, all) = (data.total, data.total + data.runtime);
    let kept = (*written, *copied) == (total, all);
    Verdict::holds_if(kept, Component::Kernel, "D3DKMTOpenResource", || {
        format!(
            "an opener of {} is due {total} bytes of private data and {all} in all, but {written} \
             were reported and {copied} were copied",
            event.subject
        )
    })
}

fn loss_reason_stable(event: &Event, shadows: &Shadows) -> Verdict {
    let (EventKind::DeviceStateQueried { state }, Some(device)) =
        (&event.kind, shadows.device(event.subject))
    else {
        return Verdict::NotApplicable;
    };
    let due = device.why.as_deref().unwrap_or(ACTIVE);
    Verdict::holds_if(state == due, Component::Kernel, "D3DKMTGetDeviceState", || {
        format!("the state of {} is reported as {state}, but it is {due}", event.subject)
    })
}

fn no_fixed_limit(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::Leave { call, status } = &event.kind else { return Verdict::NotApplicable };
    if !ENDLESS.contains(&&**call) {
        return Verdict::NotApplicable;
    }
    let entered = shadows.process(event.subject).and_then(|process| process.call(event.thread));
    let Some(entered) = entered else { return Verdict::NotApplicable };
    if entered.driver_failed {
        return Verdict::NotApplicable; // Its driver's result, which is judged where it is returned.
    }
    let kept = status.0 >> 30 != 3 || REASONS.contains(&status.0);
    Verdict::holds_if(kept, Component::Kernel, call, || {
        format!("{call} was refused with {status}, but only memory limits how many there are")
    })
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    const RECORDED: &str =
        "resource:1 resource.created adapter=adapter:1 device=device:1 sharing=global
        resource:1 share.recorded runtime=14 total=32\n";

    #[test]
    fn a_query_says_the_size_and_copies_nothing() {
        let ask = |runtime: u64, copied: u64| {
            let query = format!("share.queried runtime={runtime} total=32 copied={copied}");
            messages(RuleId::ALLOC_SHARE_001, &format!("{RECORDED}resource:1 {query}"))
        };
        assert!(ask(14, 0).is_empty());
        assert!(ask(13, 0)[0].contains("has 14 bytes of the runtime's data, but 13 were reported"));
        assert!(ask(14, 14)[0].contains("14 were copied"));
    }

    #[test]
    fn a_sum_past_32_bits_is_not_said() {
        let ask = |total: u64| {
            let kept = RECORDED.replace("total=32", &format!("total={total}"));
            let query = "resource:1 share.queried runtime=14 total=0 copied=0";
            messages(RuleId::ALLOC_SHARE_002, &format!("{kept}{query}"))
        };
        assert!(ask(u64::from(u32::MAX)).is_empty());
        assert!(ask(1 << 32)[0].contains("4294967296 bytes of private data"));
    }

    #[test]
    fn an_opener_gets_what_there_is() {
        let open = |written: u64, copied: u64| {
            let opened = format!("share.opened written={written} copied={copied}");
            messages(RuleId::ALLOC_SHARE_005, &format!("{RECORDED}resource:1 {opened}"))
        };
        assert!(open(32, 46).is_empty());
        assert_eq!((open(64, 46).len(), open(32, 48).len()), (1, 1));
    }

    #[test]
    fn a_lost_device_stays_lost() {
        let (id, made) =
            (RuleId::DEV_LIFE_007, "device:1 device.created process=process:1 adapter=adapter:1");
        let lost = format!("{made}\ndevice:1 device.lost why=hung\n");
        assert!(
            messages(id, &format!("{made}\ndevice:1 device.state-queried state=active")).is_empty()
        );
        assert!(
            messages(id, &format!("{lost}device:1 device.state-queried state=hung")).is_empty()
        );
        assert_eq!(
            messages(id, &format!("{made}\ndevice:1 device.state-queried state=hung")).len(),
            1
        );
        assert_eq!(
            messages(id, &format!("{lost}device:1 device.state-queried state=active")).len(),
            1
        );
    }

    #[test]
    fn a_quota_is_a_ceiling_and_a_drivers_answer_is_not_ours() {
        let leave = |call: &str, status: &str, between: &str| {
            format!(
                "process:1 enter call={call}\n{between}process:1 leave call={call} status={status}"
            )
        };
        let (id, create) = (RuleId::DEV_LIFE_008, "D3DKMTCreateDevice");
        assert!(messages(id, &leave(create, "0x00000000", "")).is_empty());
        assert!(messages(id, &leave(create, "0xc0000017", "")).is_empty());
        assert_eq!(messages(id, &leave(create, "0xc0000044", "")).len(), 1);
        assert_eq!(judge_count(id, &leave("D3DKMTOpenResource", "0xc0000044", "")), 0);
        let refused =
            "call:1 ddi.call name=DxgkDdiCreateDevice level=passive threading_level=zero \
                       adapter=adapter:1 process=process:1
                       call:1 ddi.return name=DxgkDdiCreateDevice result=0xc0000044 legal=false\n";
        assert_eq!(judge_count(id, &leave(create, "0xc0000044", refused)), 0);
    }
}
