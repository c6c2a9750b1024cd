//! Timeout detection and recovery: rules on what the kernel does when a node times out, and on
//! work that a node gives back.

use crate::ddi;
use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Event, RuleId, What, Who};

const RESET: &str = "DxgkDdiResetFromTimeout";
const RESET_ENGINE: &str = "DxgkDdiResetEngine";
const PREEMPT: &str = "DxgkDdiPreemptCommand";
const CANCEL: &str = "DxgkDdiCancelCommand";
const PAGE: &str = "DxgkDdiSubmitCommand";

/// What may come while a driver resets its hardware.
const BESIDE: [&str; 3] = ["DxgkDdiInterruptRoutine", ddi::DPC, "DxgkDdiCollectDbgInfo"];

/// The sixth reset of an adapter within a minute is not done any more.
///
/// WINDOWS: documented as the default of `TdrLimitCount`.
const FATAL: usize = 6;

/// The rules of this subject that are history; the others are judged where drivers answer.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["ddi.return"], RuleId::KMD_PREEMPT_001, preempts),
    Rule::on(&["ddi.call", "paging.submitted"], RuleId::KMD_PREEMPT_004, comes_first),
    Rule::on(&["ddi.pages"], RuleId::KMD_SUBMIT_010, nobodys),
    Rule::on(&["ddi.return"], RuleId::KMD_SUBMIT_015, cancels),
    Rule::on(&["ddi.call"], RuleId::KMD_TDR_002, alone),
    Rule::on(&["paging.dropped"], RuleId::KMD_TDR_003, dropped),
    Rule::on(&["ddi.call", "adapter.reset"], RuleId::KMD_TDR_009, followed),
    Rule::on(&["ddi.call", "adapter.reset"], RuleId::KMD_TDR_013, limited),
    Rule::on(&["device.told"], RuleId::KMD_TDR_014, told),
];

fn preempts(event: &Event, _shadows: &Shadows) -> Verdict {
    succeeds(event, PREEMPT)
}

fn cancels(event: &Event, _shadows: &Shadows) -> Verdict {
    succeeds(event, CANCEL)
}

/// Whether a driver did what it may not refuse.
fn succeeds(event: &Event, ddi: &'static str) -> Verdict {
    let What::DdiReturn { name, answer, .. } = &event.what else { return Verdict::Aside };
    if name != ddi || answer == "crashed" {
        return Verdict::Aside;
    }
    Verdict::kept_if(answer == "ok", Who::Driver, ddi, || {
        format!("{name} answered {answer}, but it may not fail")
    })
}

fn comes_first(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::PagingSubmitted { fence, .. } => {
            let Some(first) = shadows.node(event.subject).and_then(|it| it.pages.back.front())
            else {
                return Verdict::Aside;
            };
            Verdict::kept_if(first == fence, Who::Kernel, PAGE, || {
                format!(
                    "{} was given paging commands with fence {fence}, but it has given back those \
                     of fence {first}, which come first",
                    event.subject
                )
            })
        }
        What::DdiCall { name, adapter, .. } if name == ddi::SUBMIT => {
            let overtaken = shadows.adapter(adapter).and_then(|it| it.recovery.overtaken);
            let Some((node, fence)) = overtaken else { return Verdict::Aside };
            let said = format!(
                "{node} was given a packet with fence {fence} before the paging commands that it \
                 had given back"
            );
            Verdict::Broken(Who::Kernel, name.clone(), said)
        }
        _ => Verdict::Aside,
    }
}

fn nobodys(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::DdiPages { context } = event.what else { return Verdict::Aside };
    Verdict::kept_if(context.is_none(), Who::Kernel, ddi::SUBMIT, || {
        let context = context.map_or(String::new(), |it| it.to_string());
        format!("paging commands were submitted for {context}, but they are no application's")
    })
}

fn alone(event: &Event, shadows: &Shadows) -> Verdict {
    let What::DdiCall { name, adapter, .. } = &event.what else { return Verdict::Aside };
    let Some(it) = shadows.adapter(adapter) else { return Verdict::Aside };
    let resets = |name: &str| name == RESET;
    if BESIDE.contains(&&**name) {
        return Verdict::Aside;
    }
    let mut inside = it.inside.iter().filter(|it| !BESIDE.contains(&&*it.name));
    let other = if resets(name) { inside.next() } else { inside.find(|it| resets(&it.name)) };
    match other {
        None if !resets(name) => Verdict::Aside,
        None => Verdict::Kept,
        Some(other) => Verdict::Broken(
            Who::Kernel,
            RESET.into(),
            format!(
                "{adapter} has {name} called while {} has not returned, but nobody else is inside \
                 a driver that resets its hardware",
                other.name
            ),
        ),
    }
}

fn dropped(event: &Event, shadows: &Shadows) -> Verdict {
    let What::PagingDropped { operation, of, bytes } = &event.what else { return Verdict::Aside };
    let resetting = shadows.adapter(event.subject).is_some_and(|it| it.recovery.resetting);
    let right = *bytes == 0 && ["transfer", "unmap-aperture"].contains(&&**operation);
    Verdict::kept_if(resetting && right, Who::Kernel, "DxgkDdiBuildPagingBuffer", || {
        let when = if resetting { "after" } else { "without" };
        format!(
            "{of} left its place {when} a reset with {operation} of {bytes} bytes, but what a reset \
             has lost is a transfer of none, or unmapped"
        )
    })
}

fn followed(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::AdapterReset { .. } => {
            let must = shadows.adapter(event.subject).and_then(|it| it.recovery.must_reset);
            must.map_or(Verdict::Aside, |_| Verdict::Kept)
        }
        What::DdiCall { name, adapter, .. } if name == ddi::SUBMIT || name == PAGE => {
            let must = shadows.adapter(adapter).and_then(|it| it.recovery.must_reset);
            let Some(why) = must else { return Verdict::Aside };
            let said = format!("{adapter} was given work, but {why}, so all of it is reset first");
            Verdict::Broken(Who::Kernel, RESET.into(), said)
        }
        _ => Verdict::Aside,
    }
}

fn limited(event: &Event, shadows: &Shadows) -> Verdict {
    match &event.what {
        What::AdapterReset { now, count } => {
            let Some(it) = shadows.adapter(event.subject) else { return Verdict::Aside };
            let right = it.recovery.count(*now);
            let kept = u32::try_from(right) == Ok(*count);
            Verdict::kept_if(kept, Who::Kernel, RESET, || {
                format!(
                    "{} is reset for the {count}th time within a minute, it was said, but it is \
                     the {right}th",
                    event.subject
                )
            })
        }
        What::DdiCall { name, adapter, .. } if name == RESET => {
            let Some(it) = shadows.adapter(adapter) else { return Verdict::Aside };
            let count = it.recovery.resets.len();
            Verdict::kept_if(count < FATAL, Who::Kernel, RESET, || {
                format!("{adapter} is reset for the {count}th time within a minute: that is fatal")
            })
        }
        _ => Verdict::Aside,
    }
}

fn told(event: &Event, shadows: &Shadows) -> Verdict {
    let Some(it) = shadows.device(event.subject).filter(|it| it.hit) else { return Verdict::Aside };
    Verdict::kept_if(it.lost, Who::Kernel, RESET_ENGINE, || {
        format!(
            "{} has an allocation that was paged when its engine was reset, but it is not in error",
            event.subject
        )
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
    fn nobody_is_inside_beside_a_reset() {
        let id = RuleId::KMD_TDR_002;
        let dpc = call(2, "DxgkDdiDpcRoutine");
        let known = "adapter:1 adapter.started nodes=1 generation=2\n".to_owned();
        let good = [known, call(1, super::RESET), dpc, back(1, super::RESET, "ok")].concat();
        assert!(said(id, &good).is_empty());
        assert_eq!(judged(id, &good), 1);
        for (one, two) in [(super::RESET, "DxgkDdiEscape"), ("DxgkDdiEscape", super::RESET)] {
            assert_eq!(said(id, &[call(1, one), call(2, two)].concat()).len(), 1, "{one}");
        }
    }

    #[test]
    fn the_sixth_reset_is_fatal() {
        let id = RuleId::KMD_TDR_013;
        let reset = |now: u64, count: u32| {
            let call = call(count, super::RESET) + &back(count, super::RESET, "ok");
            format!("adapter:1 adapter.reset now={now} count={count}\n{call}")
        };
        let five: String = (1..=5).map(|it| reset(it.into(), it)).collect();
        assert!(said(id, &(call(9, "DxgkDdiEscape") + &five)).is_empty());
        let six = call(9, "DxgkDdiEscape") + &five + &reset(6, 6);
        assert_eq!(said(id, &six).len(), 1);
        let later = call(9, "DxgkDdiEscape") + &five + &reset(700_000_000, 1);
        assert!(said(id, &later).is_empty());
    }

    #[test]
    fn a_failed_reset_of_an_engine_is_followed_by_one_of_all() {
        let id = RuleId::KMD_TDR_009;
        let failed = call(1, super::RESET_ENGINE) + &back(1, super::RESET_ENGINE, "busy");
        let reset = "adapter:1 adapter.reset now=1 count=1\n";
        let work = call(2, "DxgkDdiSubmitCommandVirtual");
        let start = call(9, "DxgkDdiEscape");
        assert_eq!(said(id, &[&*start, &failed, &work].concat()).len(), 1);
        assert!(said(id, &[&*start, &failed, reset, &work].concat()).is_empty());
        assert_eq!(judged(id, &[&*start, &failed, reset, &work].concat()), 1);
    }
}
