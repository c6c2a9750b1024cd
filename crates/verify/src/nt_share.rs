//! NT handles: rules on what they keep alive, on names, and on opening what they refer to.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, Kind, RuleId};

const SHARE: &str = "D3DKMTShareObjects";
const OPEN: &str = "D3DKMTOpenResourceFromNtHandle";
const OPEN_NAME: &str = "D3DKMTOpenNtHandleFromName";

const INVALID_HANDLE: u32 = 0xC000_0008;
const INVALID_PARAMETER: u32 = 0xC000_000D;
const TYPE_MISMATCH: u32 = 0xC000_0024;
const DEVICE_REMOVED: u32 = 0xC000_02B6;

/// The rules on NT handles.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["nt-object.resource-opened"], RuleId::ALLOC_SHARE_008, opened_with_its_access),
    Rule::on(
        &["ddi.resource", "sync.destroyed", "keyed-mutex.destroyed"],
        RuleId::NTSHARE_LIFE_001,
        outlived_by_no_nt_handle,
    ),
    Rule::on(&["handle.closed"], RuleId::NTSHARE_LIFE_002, closed_by_its_own_call),
    Rule::on(
        &["nt-object.opened", "nt-name.not-found"],
        RuleId::NTSHARE_NAME_001,
        name_lives_with_handles,
    ),
    Rule::on(&["nt-object.opened"], RuleId::NTSHARE_NAME_002, name_ignores_case),
    Rule::on(&["nt-open.failed"], RuleId::NTSHARE_OPEN_001, device_before_handle),
    Rule::on(&["nt-open.failed"], RuleId::NTSHARE_OPEN_002, another_type_mismatches),
];

fn opened_with_its_access(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::NtResourceOpened { resource, access, read_only, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let kept = match &**access {
        "read-write" => !read_only,
        "read" => *read_only,
        _ => false,
    };
    Verdict::holds_if(kept, Component::Kernel, OPEN, || {
        format!(
            "{resource} was opened by an NT handle with access {access}, and its driver was told \
             read-only: {read_only}"
        )
    })
}

fn outlived_by_no_nt_handle(event: &Event, shadows: &Shadows) -> Verdict {
    let shared = match &event.kind {
        EventKind::DdiResource { destroy: true, .. } => {
            shadows.resource(event.subject).map(|resource| resource.nt)
        }
        EventKind::SyncDestroyed {} => shadows.sync(event.subject).map(|it| it.sharing == "nt"),
        EventKind::KeyedMutexDestroyed {} => shadows.keyed_mutex(event.subject).map(|it| it.nt),
        _ => None,
    };
    if shared != Some(true) {
        return Verdict::NotApplicable;
    }
    let holds = shadows.nt_holds_of(event.subject);
    Verdict::holds_if(holds == 0, Component::Kernel, SHARE, || {
        format!("{} is destroyed, and {holds} NT objects keep it alive", event.subject)
    })
}

fn closed_by_its_own_call(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::HandleClosed { handle, of } = &event.kind else { return Verdict::NotApplicable };
    if !matches!(of.kind, Kind::ResourceView | Kind::Sync | Kind::KeyedMutex) {
        return Verdict::NotApplicable;
    }
    let process = shadows.process(event.subject);
    let Some(call) = process.and_then(|process| process.call(event.thread)) else {
        return Verdict::NotApplicable;
    };
    let own = match &*call.name {
        "D3DKMTDestroyAllocation" | "D3DKMTDestroyAllocation2" => Kind::ResourceView,
        "D3DKMTDestroySynchronizationObject" => Kind::Sync,
        "D3DKMTDestroyKeyedMutex" => Kind::KeyedMutex,
        _ => return Verdict::NotApplicable,
    };
    Verdict::holds_if(of.kind == own, Component::Kernel, call.name.clone(), || {
        format!("{} closed handle {handle} of {of}, which has a lifetime of its own", call.name)
    })
}

fn name_lives_with_handles(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::NtObjectOpened { name, .. } if !name.is_empty() => {
            let handles = shadows.nt_object(event.subject).map_or(0, |object| object.handles);
            Verdict::holds_if(handles > 0, Component::Kernel, OPEN_NAME, || {
                format!("{} was found by {name}, and has no NT handle", event.subject)
            })
        }
        EventKind::NtNameNotFound { name } => {
            let named = shadows.nt_named(name);
            Verdict::holds_if(named.is_none(), Component::Kernel, OPEN_NAME, || {
                format!("no object was found by {name}, which an NT object with NT handles has")
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn name_ignores_case(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::NtObjectOpened { name, .. } = &event.kind else { return Verdict::NotApplicable };
    let Some(object) = shadows.nt_object(event.subject).filter(|_| !name.is_empty()) else {
        return Verdict::NotApplicable;
    };
    let kept = object.name.to_uppercase() == name.to_uppercase();
    Verdict::holds_if(kept, Component::Kernel, OPEN_NAME, || {
        format!("{}, which is named {}, was found by {name}", event.subject, object.name)
    })
}

fn device_before_handle(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::NtOpenFailed { call, device, handle, status } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let kept = match (device, &**handle) {
        (false, _) => [INVALID_PARAMETER, DEVICE_REMOVED].contains(&status.0),
        (true, "invalid") => status.0 == INVALID_HANDLE,
        _ => return Verdict::NotApplicable,
    };
    Verdict::holds_if(kept, Component::Kernel, call.clone(), || {
        format!(
            "{call} returned {status}; its device is good: {device}; its NT handle is {handle}: \
             the device is checked first"
        )
    })
}

fn another_type_mismatches(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::NtOpenFailed { call, device: true, handle, status } = &event.kind else {
        return Verdict::NotApplicable;
    };
    if handle != "another-type" {
        return Verdict::NotApplicable;
    }
    Verdict::holds_if(status.0 == TYPE_MISMATCH, Component::Kernel, call.clone(), || {
        format!("{call} returned {status} for an NT handle of another type")
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::script::{fly, judge_count, messages};
    use flight::RuleId;

    /// A bundle is shared, found by its name, opened, and ended.
    pub(crate) const NT_SHARED: &str = "
        resource:9 resource.created adapter=adapter:1 device=device:1 sharing=nt
        keyed-mutex:9 keyed-mutex.created process=process:1 handle=0x40000100 global=0x00000000 sharing=nt key=0 runtime=0
        nt-object:1 nt-object.created process=process:1 name=Shared access=read-write resource=resource:9 keyed_mutex=keyed-mutex:9 sync=-
        process:1 nt-open.failed call=D3DKMTOpenSyncObjectFromNtHandle2 device=false handle=invalid status=0xc000000d
        process:1 nt-open.failed call=D3DKMTOpenSyncObjectFromNtHandle2 device=true handle=invalid status=0xc0000008
        process:1 nt-open.failed call=D3DKMTOpenKeyedMutexFromNtHandle device=true handle=another-type status=0xc0000024
        process:1 nt-name.not-found name=Other
        nt-object:1 nt-object.opened process=process:1 name=SHARED access=read
        nt-object:1 nt-object.handle-closed handles=1
        nt-object:1 nt-object.resource-opened process=process:1 resource=resource:9 access=read read_only=true
        process:1 enter call=D3DKMTDestroyKeyedMutex
        process:1 handle.closed handle=0x40000100 of=keyed-mutex:9
        process:1 leave call=D3DKMTDestroyKeyedMutex status=0x00000000
        nt-object:1 nt-object.handle-closed handles=0
        nt-object:1 nt-object.ended
        keyed-mutex:9 keyed-mutex.destroyed
        c90 resource:9 ddi.resource driver_handle=driver-pointer:90 destroy=true no_allocations=true
        resource:9 resource.destroyed
    ";

    fn changed(rule: RuleId, from: &str, to: &str) -> Vec<String> {
        assert!(NT_SHARED.contains(from), "{from}");
        let script = format!("process:1 process.opened\n{NT_SHARED}");
        assert!(messages(rule, &script).is_empty(), "{:?}", messages(rule, &script));
        assert!(judge_count(rule, &script) > 0, "{rule:?} judged nothing");
        messages(rule, &script.replace(from, to))
    }

    #[test]
    fn a_shared_bundle_is_quiet_and_forgotten() {
        let script = format!("process:1 process.opened\n{NT_SHARED}");
        let verifier = fly(&script);
        assert!(verifier.findings().is_empty(), "{:?}", verifier.findings());
    }

    #[test]
    fn an_object_stays_while_an_nt_handle_keeps_it() {
        let ended = "nt-object:1 nt-object.ended\n";
        let broken = changed(RuleId::NTSHARE_LIFE_001, ended, "");
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(broken[0].contains("keyed-mutex 9 is destroyed, and 1 NT objects keep it alive"));
    }

    #[test]
    fn a_call_closes_what_it_destroys() {
        let id = RuleId::NTSHARE_LIFE_002;
        let broken = changed(id, "call=D3DKMTDestroyKeyedMutex", "call=D3DKMTDestroyAllocation2");
        assert!(broken[0].contains("which has a lifetime of its own"), "{broken:?}");
    }

    #[test]
    fn access_decides_what_the_driver_is_told() {
        let id = RuleId::ALLOC_SHARE_008;
        assert_eq!(changed(id, "read_only=true", "read_only=false").len(), 1);
        assert_eq!(changed(id, "access=read read_only", "access=write read_only").len(), 1);
    }

    #[test]
    fn names_live_with_nt_handles_and_ignore_case() {
        let id = RuleId::NTSHARE_NAME_001;
        assert_eq!(changed(id, "name=Other", "name=sHARED").len(), 1);
        let closed = "access=read-write resource=resource:9 keyed_mutex=keyed-mutex:9 sync=-";
        let twice = format!("{closed}\nnt-object:1 nt-object.handle-closed handles=0");
        assert_eq!(changed(id, closed, &twice).len(), 1);
        assert_eq!(changed(RuleId::NTSHARE_NAME_002, "name=SHARED", "name=SHARE").len(), 1);
    }

    #[test]
    fn the_device_is_checked_first_and_the_type_last() {
        let id = RuleId::NTSHARE_OPEN_001;
        let first = "device=false handle=invalid status=0xc000000d";
        assert_eq!(changed(id, first, &first.replace("00d", "008")).len(), 1);
        let second = "device=true handle=invalid status=0xc0000008";
        assert_eq!(changed(id, second, &second.replace("008", "00d")).len(), 1);
        let id = RuleId::NTSHARE_OPEN_002;
        assert_eq!(changed(id, "status=0xc0000024", "status=0xc000000d").len(), 1);
    }
}
