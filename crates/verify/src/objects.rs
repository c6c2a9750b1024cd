//! Adapters, devices and contexts: rules on the handles that a driver returns for them and on
//! what it frees, and the callbacks through which it finds its own data.

use crate::ddi::{
    ADD_DEVICE, CREATE_CONTEXT, CREATE_DEVICE, DESTROY_CONTEXT, DESTROY_DEVICE, OPEN_ALLOCATION,
    REMOVE_DEVICE, UNLOAD,
};
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, Kind, RuleId, Subject};

/// The rules on adapters, devices, contexts and handle data.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ddi.call"], RuleId::KMD_PNP_001, one_adapter_not_declined).of_plain(&[ADD_DEVICE]),
    Rule::on(&["driver-handle.ended", "pool.leaked"], RuleId::KMD_PNP_003, adapter_freed)
        .about(&[Kind::Adapter]),
    Rule::on(&["driver-handle.set"], RuleId::KMD_DEV_001, device_has_driver_handle)
        .about(&[Kind::Device]),
    Rule::on(&["driver-handle.ended", "ddi.return"], RuleId::KMD_DEV_002, device_freed)
        .of(&[DESTROY_DEVICE])
        .about(&[Kind::Device]),
    Rule::on(&["ddi.return"], RuleId::KMD_DEV_004, no_device_limit).of(&[CREATE_DEVICE]),
    Rule::on(&["ddi.return"], RuleId::KMD_CTX_001, fails_only_for_memory).of(&[CREATE_CONTEXT]),
    Rule::on(&["driver-handle.ended"], RuleId::KMD_CTX_006, context_freed).about(&[Kind::Context]),
    Rule::on(&["ddi.ends"], RuleId::KMD_CTX_007, context_idle),
    Rule::on(&["callback"], RuleId::KMD_OPEN_004, acquires_to_open),
    Rule::on(&["ddi.destroys"], RuleId::ALLOC_DESTROY_019, data_not_held),
    Rule::on(&["handle-data.acquired"], RuleId::CB_HANDLE_003, handle_data_matches),
    Rule::on(&["callback"], RuleId::CB_HANDLE_004, acquires),
];

const GET: &str = "DxgkCbGetHandleData";
const ACQUIRE: &str = "DxgkCbAcquireHandleData";

fn one_adapter_not_declined(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiCall { name, adapter, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let known = shadows.adapter(adapter);
    // Unloading is not about the adapter.
    if known.is_some_and(|adapter| adapter.declined) && name != UNLOAD {
        let message = format!("{name} is called for {adapter}, but its driver has declined it");
        return Verdict::broken(Component::Kernel, name.clone(), message);
    }
    if name != ADD_DEVICE {
        return Verdict::NotApplicable;
    }
    let inside = known
        .is_some_and(|adapter| shadows.active_calls(adapter).any(|call| call.name == ADD_DEVICE));
    Verdict::holds_if(!inside, Component::Kernel, ADD_DEVICE, || {
        format!("{ADD_DEVICE} is called for {adapter}, but another one has not returned")
    })
}

fn adapter_freed(event: &Event, shadows: &Shadows) -> Verdict {
    if let EventKind::PoolLeaked {} = &event.kind {
        let block = shadows
            .driver_pointer(event.subject)
            .and_then(|driver_pointer| driver_pointer.block.as_deref());
        let Some(block) = block.filter(|block| block.is_added() && !block.leaked) else {
            return Verdict::NotApplicable;
        };
        let message = format!(
            "a pool block ({}) that {ADD_DEVICE} took is not freed: {REMOVE_DEVICE} must free what \
             {ADD_DEVICE} allocated",
            block.details()
        );
        return Verdict::broken(Component::Driver, REMOVE_DEVICE.into(), message);
    }
    freed(event, shadows, Kind::Adapter, REMOVE_DEVICE, "MiniportDeviceContext")
}

fn context_freed(event: &Event, shadows: &Shadows) -> Verdict {
    freed(event, shadows, Kind::Context, DESTROY_CONTEXT, "hContext")
}

fn device_freed(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiReturn { name, result, .. } = &event.kind else {
        return freed(event, shadows, Kind::Device, DESTROY_DEVICE, "hDevice");
    };
    if name != DESTROY_DEVICE || result == "crashed" {
        return Verdict::NotApplicable;
    }
    Verdict::holds_if(result == "ok", Component::Driver, DESTROY_DEVICE, || {
        format!("{DESTROY_DEVICE} returned {result}, but must succeed")
    })
}

/// Whether the block behind the driver handle of a destroyed object is freed, if there was one.
pub(crate) fn freed(
    event: &Event,
    shadows: &Shadows,
    kind: Kind,
    ddi: &'static str,
    driver_handle: &'static str,
) -> Verdict {
    let of = match event.kind {
        EventKind::DriverHandleEnded { of, .. } if of.kind == kind => of,
        _ => return Verdict::NotApplicable,
    };
    let block = shadows
        .driver_pointer(event.subject)
        .and_then(|driver_pointer| driver_pointer.block.as_deref());
    let Some(block) = block else { return Verdict::NotApplicable };
    Verdict::holds_if(block.freed.is_some(), Component::Driver, ddi, || {
        format!(
            "{ddi} returned for {of}, but the pool block behind its {driver_handle} ({}) is not \
             freed",
            block.details()
        )
    })
}

fn device_has_driver_handle(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::DriverHandleSet { of: to @ Subject { kind: Kind::Device, .. } } = &event.kind
    else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(
        event.subject.number != 0,
        Component::Driver,
        "DxgkDdiCreateDevice, hDevice",
        || format!("{CREATE_DEVICE} succeeded for {to}, but did not set hDevice"),
    )
}

fn no_device_limit(event: &Event, _shadows: &Shadows) -> Verdict {
    let but = "only a lack of memory is a reason to refuse a device";
    fails_only_for(event, CREATE_DEVICE, &["no-memory"], but)
}

fn fails_only_for_memory(event: &Event, _shadows: &Shadows) -> Verdict {
    let but =
        "only a lack of memory or a driver of another version is a reason to refuse a context";
    fails_only_for(event, CREATE_CONTEXT, &["no-memory", "mismatch"], but)
}

/// Whether a DDI succeeded, or failed with one of these errors.
fn fails_only_for(event: &Event, ddi: &'static str, reasons: &[&str], but: &str) -> Verdict {
    let EventKind::DdiReturn { name, result, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    // Neither is an error of the driver; for a failed look-up it has to return this error.
    if name != ddi || ["crashed", "absent", "no-handle"].contains(&&**result) {
        return Verdict::NotApplicable;
    }
    // A code such as STATUS_PENDING is no failure; the rule on legal results judges it.
    let code = result.strip_prefix("0x").and_then(|text| u32::from_str_radix(text, 16).ok());
    if code.is_some_and(|code| code < 1 << 31) {
        return Verdict::NotApplicable;
    }
    let kept = result == "ok" || reasons.contains(&&**result);
    Verdict::holds_if(kept, Component::Driver, ddi, || {
        format!("{ddi} returned {result}, but {but}")
    })
}

fn context_idle(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(context) = shadows.context(event.subject) else { return Verdict::NotApplicable };
    // The work of a lost device counts as done.
    let lost = shadows.device(context.device).is_some_and(|device| device.lost);
    Verdict::holds_if(lost || context.in_flight == 0, Component::Kernel, DESTROY_CONTEXT, || {
        format!(
            "{DESTROY_CONTEXT} is called for {}, but {} of its packets are not done",
            event.subject, context.in_flight
        )
    })
}

fn data_not_held(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(allocation) = shadows.allocation(event.subject) else { return Verdict::NotApplicable };
    let argument = "DxgkDdiDestroyAllocation, pAllocationList";
    Verdict::holds_if(allocation.data_references == 0, Component::Kernel, argument, || {
        format!(
            "{} is destroyed, but its driver has acquired its data {} times and not released it",
            event.subject, allocation.data_references
        )
    })
}

fn handle_data_matches(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::HandleDataAcquired { driver_handle, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let given = match event.subject.kind {
        Kind::Allocation => {
            shadows.allocation(event.subject).and_then(|allocation| allocation.driver_handle)
        }
        Kind::Resource => {
            shadows.resource(event.subject).and_then(|resource| resource.driver_handle)
        }
        _ => shadows.view(event.subject).and_then(|view| view.driver_handle),
    };
    let Some(given) = given else { return Verdict::NotApplicable };
    Verdict::holds_if(*driver_handle == given, Component::Kernel, ACQUIRE, || {
        format!(
            "{ACQUIRE} returned {driver_handle} for {}, but its driver gave {given}",
            event.subject
        )
    })
}

fn acquires_to_open(event: &Event, shadows: &Shadows) -> Verdict {
    let opens = shadows.call_of(event).is_some_and(|call| call.name == OPEN_ALLOCATION);
    if opens {
        data_acquired_as_required(event, shadows, OPEN_ALLOCATION)
    } else {
        Verdict::NotApplicable
    }
}

fn acquires(event: &Event, shadows: &Shadows) -> Verdict {
    data_acquired_as_required(event, shadows, GET)
}

/// Whether a WDDM 2 driver gets its data through an allowed callback.
fn data_acquired_as_required(event: &Event, shadows: &Shadows, argument: &'static str) -> Verdict {
    let EventKind::Callback { name } = &event.kind else { return Verdict::NotApplicable };
    let old = shadows.adapter(event.subject).is_some_and(|adapter| adapter.generation == 1);
    if old || (name != GET && name != ACQUIRE) {
        return Verdict::NotApplicable;
    }
    Verdict::holds_if(name == ACQUIRE, Component::Driver, argument, || {
        format!("a WDDM 2 driver called {GET} for its data, but must use {ACQUIRE}")
    })
}

#[cfg(test)]
mod tests {
    use crate::script::{judge_count, messages};
    use flight::RuleId;

    fn call(number: u32, name: &str) -> String {
        format!(
            "call:{number} ddi.call name={name} level=passive threading_level=three adapter=adapter:1 \
             process=-\n"
        )
    }

    fn back(number: u32, name: &str, result: &str) -> String {
        format!("call:{number} ddi.return name={name} result={result} legal=true\n")
    }

    #[test]
    fn a_declined_adapter_is_left_alone() {
        let id = RuleId::KMD_PNP_001;
        let (add, start) = (call(1, "DxgkDdiAddDevice"), call(2, "DxgkDdiStartDevice"));
        let met = |result| back(1, "DxgkDdiAddDevice", result);
        assert!(messages(id, &[&*add, &met("ok"), &start].concat()).is_empty());
        assert_eq!(judge_count(id, &[&*add, &met("ok"), &start].concat()), 1);
        let unload = [call(2, "DxgkDdiUnload"), back(2, "DxgkDdiUnload", "ok")].concat();
        assert!(messages(id, &[&*add, &met("declined"), &unload, &start].concat()).is_empty());
        let no = "DxgkDdiStartDevice is called for adapter 1, but its driver has declined it";
        assert_eq!(messages(id, &[&*add, &met("declined"), &start].concat()), [no]);
        assert_eq!(messages(id, &[&*add, &call(2, "DxgkDdiAddDevice")].concat()).len(), 1);
    }

    #[test]
    fn what_ends_is_freed() {
        for (id, of) in [
            (RuleId::KMD_PNP_003, "adapter:1"),
            (RuleId::KMD_DEV_002, "device:1"),
            (RuleId::KMD_CTX_006, "context:1"),
        ] {
            let life = |freed: &str| {
                format!(
                    "driver-pointer:1 pool.allocated bytes=64 tag=Wtun
                    driver-pointer:1 driver-handle.set of={of}
                    {freed} pool.freed
                    driver-pointer:1 driver-handle.ended of={of} only_object=false
                    driver-pointer:1 pool.leaked"
                )
            };
            assert!(messages(id, &life("driver-pointer:1")).is_empty(), "{of}");
            assert_eq!(judge_count(id, &life("driver-pointer:1")), 1, "{of}");
            let kept = messages(id, &life("driver-pointer:2"));
            assert_eq!(kept.len(), 1, "{of}");
            assert!(kept[0].ends_with("(64 bytes, tag Wtun) is not freed"), "{kept:?}");
            assert!(
                messages(RuleId::WT_POOL_003, &life("driver-pointer:2")).is_empty(),
                "it was named"
            );
        }
    }

    #[test]
    fn a_device_has_a_word_and_its_end_succeeds() {
        let given = |driver_handle: u32| {
            format!("driver-pointer:{driver_handle} driver-handle.set of=device:1")
        };
        assert!(messages(RuleId::KMD_DEV_001, &given(1)).is_empty());
        assert_eq!(
            messages(RuleId::KMD_DEV_001, &given(0)),
            ["DxgkDdiCreateDevice succeeded for device 1, but did not set hDevice"]
        );
        let end = |result| back(1, "DxgkDdiDestroyDevice", result);
        assert!(messages(RuleId::KMD_DEV_002, &end("ok")).is_empty());
        assert_eq!(messages(RuleId::KMD_DEV_002, &end("busy")).len(), 1);
        assert_eq!(judge_count(RuleId::KMD_DEV_002, &end("crashed")), 0);
    }

    #[test]
    fn memory_is_the_reason_to_refuse() {
        for (id, name, more) in [
            (RuleId::KMD_DEV_004, "DxgkDdiCreateDevice", "busy"),
            (RuleId::KMD_CTX_001, "DxgkDdiCreateContext", "invalid"),
        ] {
            for result in ["ok", "no-memory"] {
                assert!(messages(id, &back(1, name, result)).is_empty(), "{name} {result}");
                assert_eq!(judge_count(id, &back(1, name, result)), 1);
            }
            assert_eq!(judge_count(id, &back(1, name, "crashed")), 0);
            assert_eq!(messages(id, &back(1, name, more)).len(), 1, "{name}");
        }
        assert!(
            messages(RuleId::KMD_CTX_001, &back(1, "DxgkDdiCreateContext", "mismatch")).is_empty()
        );
        assert_eq!(
            messages(RuleId::KMD_DEV_004, &back(1, "DxgkDdiCreateDevice", "mismatch")).len(),
            1
        );
    }

    #[test]
    fn a_context_is_idle_when_its_driver_is_told() {
        let id = RuleId::KMD_CTX_007;
        let start = "device:1 device.created process=process:1 adapter=adapter:1
            context:1 context.created device=device:1 node=node:0
            context:1 packet.queued packet=1\n\
            context:1 packet.submitted packet=1 node=node:0 fence=1\n";
        let (done, ends) =
            ("context:1 packet.done packet=1 node=node:0 fence=1\n", "context:1 ddi.ends\n");
        let lost = "device:1 device.lost why=hung\n";
        assert!(messages(id, &[start, done, ends].concat()).is_empty());
        assert!(messages(id, &[start, lost, ends].concat()).is_empty());
        assert_eq!(
            messages(id, &[start, ends].concat()),
            ["DxgkDdiDestroyContext is called for context 1, but 1 of its packets are not done"]
        );
        assert_eq!(judge_count(id, "device:1 ddi.ends"), 0);
    }

    #[test]
    fn data_is_acquired_and_not_gotten() {
        let asks = |generation: u32, ddi: &str, callback: &str| {
            format!(
                "adapter:1 adapter.started nodes=1 generation={generation}
                {}c1 adapter:1 callback name=DxgkCb{callback}HandleData",
                call(1, ddi)
            )
        };
        let (open, id) = ("DxgkDdiOpenAllocation", RuleId::CB_HANDLE_004);
        for id in [id, RuleId::KMD_OPEN_004] {
            assert!(messages(id, &asks(2, open, "Acquire")).is_empty());
            assert_eq!(judge_count(id, &asks(2, open, "Acquire")), 1);
            assert_eq!(judge_count(id, &asks(2, open, "Release")), 0);
            assert_eq!(judge_count(id, &asks(1, open, "Get")), 0, "WDDM 1.x");
            assert_eq!(messages(id, &asks(2, open, "Get")).len(), 1);
        }
        assert_eq!(messages(id, &asks(2, "DxgkDdiCreateContext", "Get")).len(), 1);
        assert_eq!(judge_count(RuleId::KMD_OPEN_004, &asks(2, "DxgkDdiCreateContext", "Get")), 0);
    }
}
