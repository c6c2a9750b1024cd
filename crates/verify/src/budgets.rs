//! What clients are told of their memory: where it is, how much they may use, and by how much
//! they exceed that.

use crate::rule::{Rule, Verdict};
use crate::shadow::Shadows;
use flight::{Event, RuleId, What, Who};

/// The rules on what clients are told.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["residency.told"], RuleId::ALLOC_PRIO_003, every_member),
    Rule::on(&["trim.told"], RuleId::RESID_BUDGET_002, overshoot),
    Rule::on(&["trim.asked"], RuleId::RESID_TRIM_002, flagged),
    Rule::on(&["trim.ended"], RuleId::RESID_TRIM_004, trims),
];

fn every_member(event: &Event, shadows: &Shadows) -> Verdict {
    let What::ResidencyTold { of: Some(of), answer } = &event.what else { return Verdict::Aside };
    let newest = shadows.view(event.subject).map(|view| view.newest);
    let Some(it) = newest.and_then(|newest| shadows.memory(newest)) else { return Verdict::Aside };
    let kept = answer == "away" || it.is_there();
    Verdict::kept_if(kept, Who::Kernel, "D3DKMTQueryAllocationResidency", || {
        format!("{of} is said to be resident ({answer}), but its member {} is not", event.subject)
    })
}

fn overshoot(event: &Event, _shadows: &Shadows) -> Verdict {
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

fn flagged(event: &Event, _shadows: &Shadows) -> Verdict {
    let What::TrimAsked { flags, .. } = &event.what else { return Verdict::Aside };
    let has = |flag| flags.split('+').any(|it| it == flag);
    let both = has("periodic") && has("restart-periodic");
    Verdict::kept_if(!both, Who::Kernel, "D3DKMTRegisterTrimNotification", || {
        format!("a notification for {} is periodic, and restarts the period", event.subject)
    })
}

fn trims(event: &Event, shadows: &Shadows) -> Verdict {
    let What::TrimEnded { bytes } = event.what else { return Verdict::Aside };
    let device = shadows.device(event.subject);
    let Some(it) = shadows.process(device.and_then(|device| device.process)) else {
        return Verdict::Aside;
    };
    let done = it.trimmed;
    Verdict::kept_if(done >= bytes, Who::Client, "D3DKMTRegisterTrimNotification", || {
        format!(
            "the client of {} was told to trim {bytes:#x} bytes, and let go of {done:#x}",
            event.subject
        )
    })
}
