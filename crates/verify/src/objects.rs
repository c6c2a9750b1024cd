//! Adapters, devices and contexts: rules on the handles that a driver returns for them and on
//! what it frees, and the callbacks through which it finds its own data.

use crate::ddi::{
    ADD_DEVICE, CREATE_CONTEXT, CREATE_DEVICE, DESTROY_CONTEXT, DESTROY_DEVICE, OPEN_ALLOCATION,
    REMOVE_DEVICE, UNLOAD,
};
use crate::rule::{Rule, Verdict};
use crate::shadow::{Block, Shadows};
use flight::{Event, Kind, RuleId, Subject, What, Who};

/// The rules on adapters, devices, contexts and handle data.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ddi.call"], RuleId::KMD_PNP_001, one_and_not_declined),
    Rule::on(&["word.ended", "pool.left"], RuleId::KMD_PNP_003, adapter_freed),
    Rule::on(&["word.given"], RuleId::KMD_DEV_001, device_has_a_word),
    Rule::on(&["word.ended", "ddi.return"], RuleId::KMD_DEV_002, device_freed),
    Rule::on(&["ddi.return"], RuleId::KMD_DEV_004, no_most_devices),
    Rule::on(&["ddi.return"], RuleId::KMD_CTX_001, only_for_memory),
    Rule::on(&["word.ended"], RuleId::KMD_CTX_006, context_freed),
    Rule::on(&["ddi.ends"], RuleId::KMD_CTX_007, context_idle),
    Rule::on(&["callback"], RuleId::KMD_OPEN_004, acquires_to_open),
    Rule::on(&["ddi.destroys"], RuleId::ALLOC_DESTROY_019, nobody_holds_it),
    Rule::on(&["handle.acquired"], RuleId::CB_HANDLE_003, its_own_data),
    Rule::on(&["callback"], RuleId::CB_HANDLE_004, acquires),
];

const GET: &str = "DxgkCbGetHandleData";
const ACQUIRE: &str = "DxgkCbAcquireHandleData";

fn one_and_not_declined(event: &Event, shadows: &Shadows) -> Verdict {
    let What::DdiCall { name, adapter, .. } = &event.what else { return Verdict::Aside };
    let known = shadows.adapter(adapter);
    // Unloading is not about the adapter.
    if known.is_some_and(|it| it.declined) && name != UNLOAD {
        let message = format!("{name} is called for {adapter}, but its driver has declined it");
        return Verdict::Broken(Who::Kernel, name.clone(), message);
    }
    if name != ADD_DEVICE {
        return Verdict::Aside;
    }
    let inside = known.is_some_and(|it| it.inside.iter().any(|it| it.name == ADD_DEVICE));
    Verdict::kept_if(!inside, Who::Kernel, ADD_DEVICE, || {
        format!("{ADD_DEVICE} is called for {adapter}, but another one has not returned")
    })
}

fn adapter_freed(event: &Event, shadows: &Shadows) -> Verdict {
    if let What::PoolLeft {} = event.what {
        let block = shadows.word(event.subject).and_then(|it| it.block.as_ref());
        let Some(Block { bytes, tag, .. }) = block.filter(|it| it.added && !it.leaked) else {
            return Verdict::Aside;
        };
        let message = format!(
            "a pool block ({bytes} bytes, tag {tag}) that {ADD_DEVICE} took is not freed, but \
             {REMOVE_DEVICE} frees all that it took"
        );
        return Verdict::Broken(Who::Driver, REMOVE_DEVICE.into(), message);
    }
    freed(event, shadows, Kind::Adapter, REMOVE_DEVICE, "MiniportDeviceContext")
}

fn context_freed(event: &Event, shadows: &Shadows) -> Verdict {
    freed(event, shadows, Kind::Context, DESTROY_CONTEXT, "hContext")
}

fn device_freed(event: &Event, shadows: &Shadows) -> Verdict {
    let What::DdiReturn { name, answer, .. } = &event.what else {
        return freed(event, shadows, Kind::Device, DESTROY_DEVICE, "hDevice");
    };
    if name != DESTROY_DEVICE || answer == "crashed" {
        return Verdict::Aside;
    }
    Verdict::kept_if(answer == "ok", Who::Driver, DESTROY_DEVICE, || {
        format!("{DESTROY_DEVICE} answered {answer}, but it has to succeed")
    })
}

/// Whether the block behind the word of something that ended is freed, if there was one.
pub(crate) fn freed(
    event: &Event,
    shadows: &Shadows,
    kind: Kind,
    ddi: &'static str,
    word: &'static str,
) -> Verdict {
    let What::WordEnded { of, .. } = event.what else { return Verdict::Aside };
    let block =
        shadows.word(event.subject).and_then(|it| it.block.as_ref()).filter(|_| of.kind == kind);
    let Some(Block { bytes, tag, freed, .. }) = block else { return Verdict::Aside };
    Verdict::kept_if(freed.is_some(), Who::Driver, ddi, || {
        format!(
            "{ddi} returned for {of}, but the pool block behind its {word} ({bytes} bytes, tag \
             {tag}) is not freed"
        )
    })
}

fn device_has_a_word(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::WordGiven { to: to @ Subject { kind: Kind::Device, .. } } = &event.what else {
        return Verdict::Aside;
    };
    Verdict::kept_if(event.subject.number != 0, Who::Driver, "DxgkDdiCreateDevice, hDevice", || {
        format!("{CREATE_DEVICE} succeeded for {to}, but left no hDevice of its own")
    })
}

fn no_most_devices(event: &Event, _shadows: &Shadows) -> Verdict {
    let but = "only a lack of memory is a reason to refuse a device";
    refused_for(event, CREATE_DEVICE, &["no-memory"], but)
}

fn only_for_memory(event: &Event, _shadows: &Shadows) -> Verdict {
    let but =
        "only a lack of memory or a driver of another version is a reason to refuse a context";
    refused_for(event, CREATE_CONTEXT, &["no-memory", "mismatch"], but)
}

/// Whether a DDI succeeded, or refused for one of these reasons.
fn refused_for(event: &Event, ddi: &'static str, reasons: &[&str], but: &str) -> Verdict {
    let What::DdiReturn { name, answer, .. } = &event.what else { return Verdict::Aside };
    // Neither is a refusal of the driver's; a failed look-up is one it has to answer so.
    if name != ddi || ["crashed", "absent", "no-handle"].contains(&&**answer) {
        return Verdict::Aside;
    }
    let kept = answer == "ok" || reasons.contains(&&**answer);
    Verdict::kept_if(kept, Who::Driver, ddi, || format!("{ddi} answered {answer}, but {but}"))
}

fn context_idle(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(context) = shadows.context(event.subject) else { return Verdict::Aside };
    // The work of a lost device counts as done.
    let lost = shadows.device(context.device).is_some_and(|device| device.lost);
    Verdict::kept_if(lost || context.in_flight == 0, Who::Kernel, DESTROY_CONTEXT, || {
        format!(
            "{DESTROY_CONTEXT} is called for {}, but {} of its packets are not done",
            event.subject, context.in_flight
        )
    })
}

fn nobody_holds_it(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(allocation) = shadows.allocation(event.subject) else { return Verdict::Aside };
    let place = "DxgkDdiDestroyAllocation, pAllocationList";
    Verdict::kept_if(allocation.held == 0, Who::Kernel, place, || {
        format!(
            "{} is destroyed, but its driver has acquired its data {} times and not let go of it",
            event.subject, allocation.held
        )
    })
}

fn its_own_data(event: &Event, shadows: &Shadows) -> Verdict {
    let What::HandleAcquired { word, .. } = &event.what else { return Verdict::Aside };
    let given = match event.subject.kind {
        Kind::Allocation => shadows.allocation(event.subject).and_then(|it| it.word),
        Kind::Resource => shadows.resource(event.subject).and_then(|it| it.word),
        _ => shadows.view(event.subject).and_then(|it| it.word),
    };
    let Some(given) = given else { return Verdict::Aside };
    Verdict::kept_if(*word == given, Who::Kernel, ACQUIRE, || {
        format!("{ACQUIRE} answered {word} for {}, but its driver gave {given}", event.subject)
    })
}

fn acquires_to_open(event: &Event, shadows: &Shadows) -> Verdict {
    let opens = shadows.call_of(event).is_some_and(|call| call.name == OPEN_ALLOCATION);
    if opens { by_acquiring(event, shadows, OPEN_ALLOCATION) } else { Verdict::Aside }
}

fn acquires(event: &Event, shadows: &Shadows) -> Verdict {
    by_acquiring(event, shadows, GET)
}

/// Whether a driver of the second generation asks for its data as it may.
fn by_acquiring(event: &Event, shadows: &Shadows, place: &'static str) -> Verdict {
    let What::Callback { name } = &event.what else { return Verdict::Aside };
    let old = shadows.adapter(event.subject).is_some_and(|it| it.generation == 1);
    if old || (name != GET && name != ACQUIRE) {
        return Verdict::Aside;
    }
    Verdict::kept_if(name == ACQUIRE, Who::Driver, place, || {
        format!("a WDDM 2 driver asked {GET} for its data, but gets it from {ACQUIRE} only")
    })
}

#[cfg(test)]
mod tests {
    use crate::script::{judged, said};
    use flight::RuleId;

    fn call(number: u32, name: &str) -> String {
        format!(
            "call:{number} ddi.call name={name} level=passive class=three adapter=adapter:1 \
             process=-\n"
        )
    }

    fn back(number: u32, name: &str, answer: &str) -> String {
        format!("call:{number} ddi.return name={name} answer={answer} legal=true\n")
    }

    #[test]
    fn a_declined_adapter_is_left_alone() {
        let id = RuleId::KMD_PNP_001;
        let (add, start) = (call(1, "DxgkDdiAddDevice"), call(2, "DxgkDdiStartDevice"));
        let met = |answer| back(1, "DxgkDdiAddDevice", answer);
        assert!(said(id, &[&*add, &met("ok"), &start].concat()).is_empty());
        assert_eq!(judged(id, &[&*add, &met("ok"), &start].concat()), 1);
        let unload = [call(2, "DxgkDdiUnload"), back(2, "DxgkDdiUnload", "ok")].concat();
        assert!(said(id, &[&*add, &met("declined"), &unload, &start].concat()).is_empty());
        let no = "DxgkDdiStartDevice is called for adapter 1, but its driver has declined it";
        assert_eq!(said(id, &[&*add, &met("declined"), &start].concat()), [no]);
        assert_eq!(said(id, &[&*add, &call(2, "DxgkDdiAddDevice")].concat()).len(), 1);
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
                    "word:1 pool.taken bytes=64 tag=Wtun
                    word:1 word.given to={of}
                    {freed} pool.freed
                    word:1 word.ended of={of} alone=false
                    word:1 pool.left"
                )
            };
            assert!(said(id, &life("word:1")).is_empty(), "{of}");
            assert_eq!(judged(id, &life("word:1")), 1, "{of}");
            let kept = said(id, &life("word:2"));
            assert_eq!(kept.len(), 1, "{of}");
            assert!(kept[0].ends_with("(64 bytes, tag Wtun) is not freed"), "{kept:?}");
            assert!(said(RuleId::WT_POOL_003, &life("word:2")).is_empty(), "it was named");
        }
    }

    #[test]
    fn a_device_has_a_word_and_its_end_succeeds() {
        let given = |word: u32| format!("word:{word} word.given to=device:1");
        assert!(said(RuleId::KMD_DEV_001, &given(1)).is_empty());
        assert_eq!(
            said(RuleId::KMD_DEV_001, &given(0)),
            ["DxgkDdiCreateDevice succeeded for device 1, but left no hDevice of its own"]
        );
        let end = |answer| back(1, "DxgkDdiDestroyDevice", answer);
        assert!(said(RuleId::KMD_DEV_002, &end("ok")).is_empty());
        assert_eq!(said(RuleId::KMD_DEV_002, &end("busy")).len(), 1);
        assert_eq!(judged(RuleId::KMD_DEV_002, &end("crashed")), 0);
    }

    #[test]
    fn memory_is_the_reason_to_refuse() {
        for (id, name, more) in [
            (RuleId::KMD_DEV_004, "DxgkDdiCreateDevice", "busy"),
            (RuleId::KMD_CTX_001, "DxgkDdiCreateContext", "invalid"),
        ] {
            for answer in ["ok", "no-memory"] {
                assert!(said(id, &back(1, name, answer)).is_empty(), "{name} {answer}");
                assert_eq!(judged(id, &back(1, name, answer)), 1);
            }
            assert_eq!(judged(id, &back(1, name, "crashed")), 0);
            assert_eq!(said(id, &back(1, name, more)).len(), 1, "{name}");
        }
        assert!(said(RuleId::KMD_CTX_001, &back(1, "DxgkDdiCreateContext", "mismatch")).is_empty());
        assert_eq!(said(RuleId::KMD_DEV_004, &back(1, "DxgkDdiCreateDevice", "mismatch")).len(), 1);
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
        assert!(said(id, &[start, done, ends].concat()).is_empty());
        assert!(said(id, &[start, lost, ends].concat()).is_empty());
        assert_eq!(
            said(id, &[start, ends].concat()),
            ["DxgkDdiDestroyContext is called for context 1, but 1 of its packets are not done"]
        );
        assert_eq!(judged(id, "device:1 ddi.ends"), 0);
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
            assert!(said(id, &asks(2, open, "Acquire")).is_empty());
            assert_eq!(judged(id, &asks(2, open, "Acquire")), 1);
            assert_eq!(judged(id, &asks(2, open, "Release")), 0);
            assert_eq!(judged(id, &asks(1, open, "Get")), 0, "WDDM 1.x");
            assert_eq!(said(id, &asks(2, open, "Get")).len(), 1);
        }
        assert_eq!(said(id, &asks(2, "DxgkDdiCreateContext", "Get")).len(), 1);
        assert_eq!(judged(RuleId::KMD_OPEN_004, &asks(2, "DxgkDdiCreateContext", "Get")), 0);
    }
}
