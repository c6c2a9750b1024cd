//! Timeout detection and recovery: rules on what the kernel does when a node times out, and on
//! work that a node gives back.

use crate::ddi;
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Component, Event, EventKind, RuleId};

const RESET: &str = "DxgkDdiResetFromTimeout";
const RESET_ENGINE: &str = "DxgkDdiResetEngine";
const PREEMPT: &str = "DxgkDdiPreemptCommand";
const CANCEL: &str = "DxgkDdiCancelCommand";
const PAGE: &str = "DxgkDdiSubmitCommand";

/// The calls that are allowed while a driver resets its hardware.
const ALLOWED_DURING_RESET: [&str; 3] =
    ["DxgkDdiInterruptRoutine", ddi::DPC, "DxgkDdiCollectDbgInfo"];

/// The sixth reset of an adapter within a minute is not done any more.
///
/// WINDOWS: documented as the default of `TdrLimitCount`.
const FATAL: usize = 6;

/// The history rules of this subject; the others are judged where drivers return.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ddi.return"], RuleId::KMD_PREEMPT_001, preempt_succeeds).of(&[PREEMPT]),
    Rule::on(&["ddi.call", "paging.submitted"], RuleId::KMD_PREEMPT_004, preempted_paging_first)
        .of(&[ddi::SUBMIT]),
    Rule::on(&["ddi.pages"], RuleId::KMD_SUBMIT_010, paging_has_no_context),
    Rule::on(&["ddi.return"], RuleId::KMD_SUBMIT_015, cancel_succeeds).of(&[CANCEL]),
    Rule::on(&["ddi.call"], RuleId::KMD_TDR_002, reset_exclusive).of_plain(&[RESET]),
    Rule::on(&["paging.dropped"], RuleId::KMD_TDR_003, evictions_after_reset),
    Rule::on(&["ddi.call", "adapter.reset"], RuleId::KMD_TDR_009, engine_reset_followed_up)
        .of(&[ddi::SUBMIT, PAGE]),
    Rule::on(&["ddi.call", "adapter.reset"], RuleId::KMD_TDR_013, reset_limit).of(&[RESET]),
    Rule::on(&["device.state-queried"], RuleId::KMD_TDR_014, owners_enter_error),
];

fn preempt_succeeds(event: &Event, _shadows: &Shadows) -> Verdict {
    call_succeeds(event, PREEMPT)
}

fn cancel_succeeds(event: &Event, _shadows: &Shadows) -> Verdict {
    call_succeeds(event, CANCEL)
}

/// Whether a driver succeeded at what it must not fail.
fn call_succeeds(event: &Event, ddi: &'static str) -> Verdict {
    let EventKind::DdiReturn { name, result, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    if name != ddi || result == "crashed" {
        return Verdict::NotApplicable;
    }
    Verdict::holds_if(result == "ok", Component::Driver, ddi, || {
        format!("{name} returned {result}, but it may not fail")
    })
}

fn preempted_paging_first(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::PagingSubmitted { fence, .. } => {
            let Some(first) =
                shadows.node(event.subject).and_then(|node| node.pages.returned.front())
            else {
                return Verdict::NotApplicable;
            };
            Verdict::holds_if(first == fence, Component::Kernel, PAGE, || {
                format!(
                    "{} was given paging commands with fence {fence}, but it has given back those \
                     of fence {first}, which come first",
                    event.subject
                )
            })
        }
        EventKind::DdiCall { name, adapter, .. } if name == ddi::SUBMIT => {
            let overtaken = shadows.adapter(adapter).and_then(|adapter| adapter.recovery.overtaken);
            let Some((node, fence)) = overtaken else { return Verdict::NotApplicable };
            let message = format!(
                "{node} was given a packet with fence {fence} before the paging commands that it \
                 had given back"
            );
            Verdict::broken(Component::Kernel, name.clone(), message)
        }
        _ => Verdict::NotApplicable,
    }
}

fn paging_has_no_context(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::DdiPages { context } = event.kind else { return Verdict::NotApplicable };
    Verdict::holds_if(context.is_none(), Component::Kernel, ddi::SUBMIT, || {
        let context = context.map_or(String::new(), |subject| subject.to_string());
        format!("paging commands were submitted for {context}, but they are no application's")
    })
}

fn reset_exclusive(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::DdiCall { name, adapter, .. } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let Some(it) = shadows.adapter(adapter) else { return Verdict::NotApplicable };
    let reset_times = |name: &str| name == RESET;
    if ALLOWED_DURING_RESET.contains(&&**name) {
        return Verdict::NotApplicable;
    }
    let mut inside =
        shadows.active_calls(it).filter(|call| !ALLOWED_DURING_RESET.contains(&&*call.name));
    let other =
        if reset_times(name) { inside.next() } else { inside.find(|call| reset_times(&call.name)) };
    match other {
        None if !reset_times(name) => Verdict::NotApplicable,
        None => Verdict::Holds,
        Some(other) => Verdict::broken(
            Component::Kernel,
            RESET.into(),
            format!(
                "{adapter} has {name} called while {} has not returned, but no other thread may be inside \
                 a driver that resets its hardware",
                other.name
            ),
        ),
    }
}

fn evictions_after_reset(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::PagingDropped { operation, of, bytes } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let resetting =
        shadows.adapter(event.subject).is_some_and(|adapter| adapter.recovery.resetting);
    let right = *bytes == 0 && ["transfer", "unmap-aperture"].contains(&&**operation);
    Verdict::holds_if(resetting && right, Component::Kernel, "DxgkDdiBuildPagingBuffer", || {
        let when = if resetting { "after" } else { "without" };
        format!(
            "{of} left its place {when} a reset with {operation} of {bytes} bytes, but what a reset \
             has lost is a transfer of none, or unmapped"
        )
    })
}

fn engine_reset_followed_up(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::AdapterReset { .. } => {
            let must =
                shadows.adapter(event.subject).and_then(|adapter| adapter.recovery.must_reset);
            must.map_or(Verdict::NotApplicable, |_| Verdict::Holds)
        }
        EventKind::DdiCall { name, adapter, .. } if name == ddi::SUBMIT || name == PAGE => {
            let must = shadows.adapter(adapter).and_then(|adapter| adapter.recovery.must_reset);
            let Some(why) = must else { return Verdict::NotApplicable };
            let message =
                format!("{adapter} was given work, but {why}, so all of it is reset first");
            Verdict::broken(Component::Kernel, RESET.into(), message)
        }
        _ => Verdict::NotApplicable,
    }
}

fn reset_limit(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.kind {
        EventKind::AdapterReset { now, count } => {
            let Some(it) = shadows.adapter(event.subject) else { return Verdict::NotApplicable };
            let right = it.recovery.count(*now);
            let kept = u32::try_from(right) == Ok(*count);
            Verdict::holds_if(kept, Component::Kernel, RESET, || {
                format!(
                    "the reset of {} was counted as number {count} within a minute, but it is \
                     number {right}",
                    event.subject
                )
            })
        }
        EventKind::DdiCall { name, adapter, .. } if name == RESET => {
            let Some(it) = shadows.adapter(adapter) else { return Verdict::NotApplicable };
            let count = it.recovery.reset_times.len();
            Verdict::holds_if(count < FATAL, Component::Kernel, RESET, || {
                format!(
                    "{adapter} is reset, and this is number {count} within a minute: that is fatal"
                )
            })
        }
        _ => Verdict::NotApplicable,
    }
}

fn owners_enter_error(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.device(event.subject).filter(|device| device.hit) else {
        return Verdict::NotApplicable;
    };
    Verdict::holds_if(it.lost, Component::Kernel, RESET_ENGINE, || {
        format!(
            "{} has an allocation that was paged when its engine was reset, but it is not in error",
            event.subject
        )
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
    fn nobody_is_inside_beside_a_reset() {
        let id = RuleId::KMD_TDR_002;
        let dpc = call(2, "DxgkDdiDpcRoutine");
        let known = "adapter:1 adapter.started nodes=1 generation=2\n".to_owned();
        let good = [known, call(1, super::RESET), dpc, back(1, super::RESET, "ok")].concat();
        assert!(messages(id, &good).is_empty());
        assert_eq!(judge_count(id, &good), 1);
        for (one, two) in [(super::RESET, "DxgkDdiEscape"), ("DxgkDdiEscape", super::RESET)] {
            assert_eq!(messages(id, &[call(1, one), call(2, two)].concat()).len(), 1, "{one}");
        }
    }

    #[test]
    fn the_sixth_reset_is_fatal() {
        let id = RuleId::KMD_TDR_013;
        let reset = |now: u64, count: u32| {
            let call = call(count, super::RESET) + &back(count, super::RESET, "ok");
            format!("adapter:1 adapter.reset now={now} count={count}\n{call}")
        };
        let five: String = (1..=5).map(|number| reset(number.into(), number)).collect();
        assert!(messages(id, &(call(9, "DxgkDdiEscape") + &five)).is_empty());
        let six = call(9, "DxgkDdiEscape") + &five + &reset(6, 6);
        assert_eq!(messages(id, &six).len(), 1);
        let later = call(9, "DxgkDdiEscape") + &five + &reset(700_000_000, 1);
        assert!(messages(id, &later).is_empty());
    }

    /// What a node gave back before is over, too, when its adapter is reset.
    #[test]
    fn a_reset_of_the_adapter_ends_what_was_given_back() {
        let id = RuleId::KMD_PREEMPT_004;
        let paging = |fence: u32| {
            format!("node:1 paging.submitted paging=paging:1 fence={fence} bytes=8 switch=false\n")
        };
        let known = "adapter:1 adapter.started nodes=1 generation=2\n\
                     node:1 node.started adapter=adapter:1 ordinal=0\n";
        let back = "node:1 node.reset done=1 aborted=1 submitted=2\n";
        let adapter = "adapter:1 adapter.reset now=1 count=1\n\
                       node:1 node.reset done=1 aborted=2 submitted=2\n\
                       adapter:1 adapter.restarted\n";
        let flight = |middle: &str| [known, &paging(2), back, middle, &paging(3)].concat();
        assert_eq!(messages(id, &flight("")).len(), 1);
        assert!(messages(id, &flight(adapter)).is_empty());
    }

    #[test]
    fn a_failed_reset_of_an_engine_is_followed_by_one_of_all() {
        let id = RuleId::KMD_TDR_009;
        let failed = call(1, super::RESET_ENGINE) + &back(1, super::RESET_ENGINE, "busy");
        let reset = "adapter:1 adapter.reset now=1 count=1\n";
        let work = call(2, "DxgkDdiSubmitCommandVirtual");
        let start = call(9, "DxgkDdiEscape");
        assert_eq!(messages(id, &[&*start, &failed, &work].concat()).len(), 1);
        assert!(messages(id, &[&*start, &failed, reset, &work].concat()).is_empty());
        assert_eq!(judge_count(id, &[&*start, &failed, reset, &work].concat()), 1);
    }
}
