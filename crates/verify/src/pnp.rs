//! Plug and play, and power: rules on what a driver returns when its adapter starts, sleeps,
//! stops or is removed, and on what it must free.

use crate::ddi::{RELEASE, RESET_DEVICE, SET_POWER, STOP_DEVICE, SURPRISE_REMOVAL};
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, RuleId, Text};

/// The rules on plug and play, and on power.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ddi.adapter"], RuleId::KMD_PNP_002, adapter_handle_passed),
    Rule::on(
        &["pool.held-after-stop", "interrupt.left-after-stop", "ddi.return"],
        RuleId::KMD_PNP_005,
        stop_releases_all,
    )
    .of(&[STOP_DEVICE, RELEASE]),
    Rule::on(&["ddi.call", "adapter.stopped"], RuleId::KMD_PNP_006, stopped_once)
        .of(&[STOP_DEVICE]),
    Rule::on(&["ddi.return"], RuleId::KMD_PNP_007, no_display_to_release).of(&[RELEASE]),
    Rule::on(
        &["callback", "pool.allocated", "pool.freed", "ddi.return"],
        RuleId::KMD_PNP_008,
        reset_makes_no_calls,
    )
    .of(&[RESET_DEVICE]),
    Rule::on(&["ddi.return"], RuleId::KMD_PNP_009, power_does_not_fail).of(&[SET_POWER]),
    Rule::on(&["ddi.return"], RuleId::KMD_PNP_011, surprise_removal_succeeds)
        .of(&[SURPRISE_REMOVAL]),
];

fn adapter_handle_passed(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiAdapter { driver_handle } = event.kind else { return Verdict::NotApplicable };
    let Some(given) = shadows.adapter(event.subject).and_then(|adapter| adapter.driver_handle)
    else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(driver_handle == given, Component::Kernel, "MiniportDeviceContext", || {
        format!(
            "a call for {} carries {driver_handle}, but its driver gave {given} in DxgkDdiAddDevice",
            event.subject
        )
    })
}

fn stop_releases_all(event: &Event, shadows: &Shadows) -> Verdict {
    if let EventKind::DdiReturn { .. } = event.kind {
        let stopped = |name: &str, result: &str| {
            name == STOP_DEVICE && result != "crashed" || name == RELEASE && result == "ok"
        };
        return status_if(event, stopped).map_or(Verdict::NotApplicable, |_| Verdict::Holds);
    }
    if let EventKind::InterruptLeft {} = event.kind {
        let message = "the adapter has stopped, but an interrupt of its hardware is still enabled \
                       or asserted";
        return Verdict::broken(Component::Driver, STOP_DEVICE.into(), message.to_owned());
    }
    let EventKind::PoolHeldAfterStop {} = &event.kind else { return Verdict::NotApplicable };
    let block = shadows
        .driver_pointer(event.subject)
        .and_then(|driver_pointer| driver_pointer.block.as_deref());
    // A block reported where it should have been freed is not reported again.
    let Some(block) = block.filter(|block| !block.leaked) else { return Verdict::NotApplicable };
    let stop = shadows.call_of(event).map_or(STOP_DEVICE.into(), |call| call.name.clone());
    let message = format!(
        "{stop} returned, but pool block {} ({}), taken since the adapter started, is not freed",
        event.subject.number,
        block.details()
    );
    Verdict::broken(Component::Driver, stop, message)
}

fn stopped_once(event: &Event, shadows: &Shadows) -> Verdict {
    let what = &event.kind;
    if let EventKind::AdapterStopped {} = what {
        let Some(adapter) = shadows.adapter(event.subject) else { return Verdict::NotApplicable };
        let Some(result) = &adapter.released else { return Verdict::NotApplicable };
        let kept = result == "ok" || adapter.stop_called;
        return Verdict::holds_if(kept, Component::Kernel, STOP_DEVICE, || {
            format!("{RELEASE} returned {result}, but {STOP_DEVICE} was not called instead")
        });
    }
    let EventKind::DdiCall { name, adapter, .. } = what else { return Verdict::NotApplicable };
    let released = shadows.adapter(adapter).and_then(|adapter| adapter.released.as_ref());
    let released = released.filter(|_| name == STOP_DEVICE);
    let Some(result) = released else { return Verdict::NotApplicable };
    Verdict::holds_if(result != "ok", Component::Kernel, STOP_DEVICE, || {
        format!("{STOP_DEVICE} is called, but {RELEASE} has stopped the adapter")
    })
}

fn no_display_to_release(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(result) = status_of(event, RELEASE) else { return Verdict::NotApplicable };
    let adapter = shadows.call(event.subject).and_then(|call| shadows.adapter(call.adapter));
    if adapter.is_some_and(|adapter| adapter.owns_display) {
        return Verdict::NotApplicable;
    }
    Verdict::holds_if(result == "unsupported", Component::Driver, RELEASE, || {
        format!(
            "{RELEASE} returned {result} for a target that has no display, but that is not \
             supported (STATUS_NOT_SUPPORTED)"
        )
    })
}

fn reset_makes_no_calls(event: &Event, shadows: &Shadows) -> Verdict {
    let did = match &event.kind {
        EventKind::DdiReturn { .. } => {
            return status_of(event, RESET_DEVICE)
                .map_or(Verdict::NotApplicable, |_| Verdict::Holds);
        }
        EventKind::Callback { name } => format!("called {name}"),
        EventKind::PoolAllocated { bytes, .. } => format!("took {bytes} bytes of pool"),
        _ => "freed a pool block".to_owned(),
    };
    if shadows.call_of(event).is_none_or(|call| call.name != RESET_DEVICE) {
        return Verdict::NotApplicable;
    }
    let message =
        format!("{RESET_DEVICE} {did}, but it can run at any level: it calls no function");
    Verdict::broken(Component::Driver, RESET_DEVICE.into(), message)
}

fn power_does_not_fail(event: &Event, _shadows: &Shadows) -> Verdict {
    let Some(result) = status_of(event, SET_POWER) else { return Verdict::NotApplicable };
    // WINDOWS: any status that passes NT_SUCCESS is allowed (documented).
    let number = result.strip_prefix("0x").and_then(|text| u32::from_str_radix(text, 16).ok());
    let kept = result == "ok" || number.is_some_and(|number| number < 1 << 31);
    Verdict::holds_if(kept, Component::Driver, SET_POWER, || {
        format!("{SET_POWER} returned {result}, but must succeed: the power changes anyway")
    })
}

fn surprise_removal_succeeds(event: &Event, _shadows: &Shadows) -> Verdict {
    let Some(result) = status_of(event, SURPRISE_REMOVAL) else { return Verdict::NotApplicable };
    Verdict::holds_if(result == "ok", Component::Driver, SURPRISE_REMOVAL, || {
        format!("{SURPRISE_REMOVAL} returned {result} to a live removal, but must succeed")
    })
}

/// What a DDI returned, if the event is its return. `None` for a crash or an absent entry.
fn status_of<'e>(event: &'e Event, ddi: &str) -> Option<&'e Text> {
    status_if(event, |name, result| name == ddi && result != "crashed" && result != "absent")
}

fn status_if(event: &Event, is: impl FnOnce(&str, &str) -> bool) -> Option<&Text> {
    let EventKind::DdiReturn { name, result, .. } = &event.kind else { return None };
    is(name, result).then_some(result)
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

    const STARTED: &str = "adapter:1 adapter.started nodes=1 generation=2\n";
    const STOPPED: &str = "adapter:1 adapter.stopped\n";
    const STOP: &str = "DxgkDdiStopDevice";
    const RELEASE: &str = "DxgkDdiStopDeviceAndReleasePostDisplayOwnership";

    #[test]
    fn a_call_carries_the_word_of_its_adapter() {
        let id = RuleId::KMD_PNP_002;
        let carries = |driver_handle: u32| {
            let add = call(1, "DxgkDdiAddDevice");
            let (met, start) = (back(1, "DxgkDdiAddDevice", "ok"), call(2, "DxgkDdiStartDevice"));
            format!(
                "{add}c1 driver-pointer:1 driver-handle.set of=adapter:1\n{met}{start}c2 adapter:1 ddi.adapter \
                 driver_handle=driver-pointer:{driver_handle}\n"
            )
        };
        assert!(messages(id, &carries(1)).is_empty());
        assert_eq!(judge_count(id, &carries(1)), 1);
        let no = "a call for adapter 1 carries driver-pointer 2, but its driver gave driver-pointer 1 in \
                  DxgkDdiAddDevice";
        assert_eq!(messages(id, &carries(2)), [no]);
    }

    #[test]
    fn what_start_took_is_given_back() {
        let id = RuleId::KMD_PNP_005;
        let stop = [call(1, STOP), back(1, STOP, "ok")].concat();
        assert_eq!((messages(id, &stop).len(), judge_count(id, &stop)), (0, 1));
        let kept = format!(
            "driver-pointer:1 pool.allocated bytes=64 tag=Wtun caller=code+0x12\n{}c1 \
             driver-pointer:1 pool.held-after-stop\n{}driver-pointer:1 pool.leaked",
            call(1, STOP),
            back(1, STOP, "ok")
        );
        let no = "DxgkDdiStopDevice returned, but pool block 1 (64 bytes, tag Wtun, allocated in \
                  code+0x12), taken since the adapter started, is not freed";
        assert_eq!(messages(id, &kept), [no]);
        assert!(messages(RuleId::WT_POOL_003, &kept).is_empty(), "it was named");
    }

    #[test]
    fn a_driver_is_stopped_once() {
        let id = RuleId::KMD_PNP_006;
        let flight = |result: &str, stops: bool| {
            let release = [call(1, RELEASE), back(1, RELEASE, result)].concat();
            let stop = [call(2, STOP), back(2, STOP, "ok")].concat();
            [STARTED, &release, if stops { &stop } else { "" }, STOPPED].concat()
        };
        for (result, stops) in [("ok", false), ("unsupported", true)] {
            assert!(messages(id, &flight(result, stops)).is_empty(), "{result}");
            assert!(judge_count(id, &flight(result, stops)) > 0);
            assert_eq!(messages(id, &flight(result, !stops)).len(), 1, "{result}");
        }
        let plain = [STARTED, &call(1, STOP), &back(1, STOP, "ok"), STOPPED].concat();
        assert_eq!(judge_count(id, &plain), 0);
    }

    #[test]
    fn what_has_no_display_is_not_supported() {
        let id = RuleId::KMD_PNP_007;
        assert!(messages(id, &back(1, RELEASE, "unsupported")).is_empty());
        assert_eq!(messages(id, &back(1, RELEASE, "ok")).len(), 1);
        assert_eq!(messages(id, &back(1, RELEASE, "invalid")).len(), 1);
        assert_eq!(judge_count(id, &back(1, RELEASE, "crashed")), 0);
    }

    #[test]
    fn a_reset_calls_nobody() {
        let id = RuleId::KMD_PNP_008;
        let reset = "DxgkDdiResetDevice";
        let flight = |does: &str| format!("{}{does}{}", call(1, reset), back(1, reset, "ok"));
        assert_eq!((messages(id, &flight("")).len(), judge_count(id, &flight(""))), (0, 1));
        let no = "DxgkDdiResetDevice called DxgkCbQueueDpc, but it can run at any level: it calls \
                  no function";
        assert_eq!(messages(id, &flight("c1 adapter:1 callback name=DxgkCbQueueDpc\n")), [no]);
        assert_eq!(
            messages(id, &flight("c1 driver-pointer:1 pool.allocated bytes=8 tag=Wtun\n")).len(),
            1
        );
        assert!(messages(id, &flight("c2 adapter:1 callback name=DxgkCbQueueDpc\n")).is_empty());
    }

    #[test]
    fn power_changes_and_hardware_goes_whatever_a_driver_says() {
        for (id, name) in [
            (RuleId::KMD_PNP_009, "DxgkDdiSetPowerState"),
            (RuleId::KMD_PNP_011, "DxgkDdiNotifySurpriseRemoval"),
        ] {
            assert!(messages(id, &back(1, name, "ok")).is_empty());
            assert_eq!(judge_count(id, &back(1, name, "ok")), 1);
            assert_eq!(messages(id, &back(1, name, "busy")).len(), 1);
            assert_eq!(messages(id, &back(1, name, "0xc0000001")).len(), 1);
            assert_eq!(judge_count(id, &back(1, name, "crashed")), 0);
        }
        let pending = back(1, "DxgkDdiSetPowerState", "0x00000103");
        assert!(messages(RuleId::KMD_PNP_009, &pending).is_empty());
    }
}
