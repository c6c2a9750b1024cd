//! What clients are told of their memory: where it is, how much they may use, and how much too
//! much they do.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadow;
use flight::{Event, RuleId, What, Who};

/// The rules on what clients are told.
pub(crate) static RULES: [Rule; 4] = [
    Rule { id: RuleId::ALLOC_PRIO_003, on: &["residency.told"], check: every_member },
    Rule { id: RuleId::RESID_BUDGET_002, on: &["trim.told"], check: overshoot },
    Rule { id: RuleId::RESID_TRIM_002, on: &["trim.asked"], check: flagged },
    Rule { id: RuleId::RESID_TRIM_004, on: &["trim.ended"], check: trims },
];

fn every_member(event: &Event, _shadow: &Shadow, owner: &Shadow) -> Verdict {
    let What::ResidencyTold { of: Some(of), answer } = &event.what else { return Verdict::Aside };
    let Some(it) = owner.memory() else { return Verdict::Aside };
    let kept = answer == "away" || it.is_there();
    Verdict::kept_if(kept, Who::Kernel, "D3DKMTQueryAllocationResidency", || {
        format!("{of} is said to be resident ({answer}), but its member {} is not", event.subject)
    })
}

fn overshoot(event: &Event, _shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::TrimTold { by, usage, budget, shared_usage, shared_budget, missing, bytes, .. } =
        &event.what
    else {
        return Verdict::Aside;
    };
    let over = usage.saturating_sub(*budget) + shared_usage.saturating_sub(*shared_budget);
    Verdict::kept_if(*bytes == over.max(*missing), Who::Kernel, "NumBytesToTrim", || {
        format!(
            "{} is told to trim {bytes:#x} bytes ({by}), but uses {over:#x} too many, and \
             {missing:#x} are missing",
            event.subject
        )
    })
}

fn flagged(event: &Event, _shadow: &Shadow, _owner: &Shadow) -> Verdict {
    let What::TrimAsked { flags, .. } = &event.what else { return Verdict::Aside };
    let has = |flag| flags.split('+').any(|it| it == flag);
    let both = has("periodic") && has("restart-periodic");
    Verdict::kept_if(!both, Who::Kernel, "D3DKMTRegisterTrimNotification", || {
        format!("a notification for {} is periodic, and restarts the period", event.subject)
    })
}

fn trims(event: &Event, _shadow: &Shadow, owner: &Shadow) -> Verdict {
    let What::TrimEnded { bytes } = event.what else { return Verdict::Aside };
    let Some(it) = owner.process() else { return Verdict::Aside };
    let done = it.trimmed;
    Verdict::kept_if(done >= bytes, Who::Client, "D3DKMTRegisterTrimNotification", || {
        format!(
            "the client of {} was told to trim {bytes:#x} bytes, and let go of {done:#x}",
            event.subject
        )
    })
}
