//! What is reported to clients about their memory: residency, budget, and how many bytes to trim.

use crate::rule::{Rule, Verdict};
use crate::shadow::{Shadows, View};
use flight::{Component, Event, EventKind, RuleId};

/// The rules on residency queries and budgets.
pub(crate) static RULES: &[Rule] = &[
    Rule::on(&["residency.queried"], RuleId::ALLOC_PRIO_003, residency_of_every_member),
    Rule::on(&["trim.required"], RuleId::RESID_BUDGET_002, trim_reports_overshoot),
    Rule::on(&["trim.notified"], RuleId::RESID_TRIM_002, trim_flags_valid),
    Rule::on(&["trim.returned"], RuleId::RESID_TRIM_004, trims_enough),
];

fn residency_of_every_member(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::ResidencyQueried { of: Some(of), result } = &event.kind else {
        return Verdict::NotApplicable;
    };
    let newest = shadows.view(event.subject).map(View::newest);
    let Some(it) = newest.and_then(|newest| shadows.memory(newest)) else {
        return Verdict::NotApplicable;
    };
    let kept = result == "away" || it.is_resident();
    Verdict::holds_if(kept, Component::Kernel, "D3DKMTQueryAllocationResidency", || {
        format!("{of} is reported as resident ({result}), but its member {} is not", event.subject)
    })
}

fn trim_reports_overshoot(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::TrimRequired {
        by,
        usage,
        budget,
        shared_usage,
        shared_budget,
        missing,
        bytes,
        ..
    } = &event.kind
    else {
        return Verdict::NotApplicable;
    };
    let over = usage.saturating_sub(*budget) + shared_usage.saturating_sub(*shared_budget);
    Verdict::holds_if(*bytes == over.max(*missing), Component::Kernel, "NumBytesToTrim", || {
        format!(
            "{} is notified to trim {bytes:#x} bytes ({by}), but uses {over:#x} too many, and \
             {missing:#x} are missing",
            event.subject
        )
    })
}

fn trim_flags_valid(event: &Event, _shadows: &Shadows) -> Verdict {
    let EventKind::TrimNotified { flags, .. } = &event.kind else { return Verdict::NotApplicable };
    let has = |flag| flags.split('+').any(|text| text == flag);
    let both = has("periodic") && has("restart-periodic");
    Verdict::holds_if(!both, Component::Kernel, "D3DKMTRegisterTrimNotification", || {
        format!("a notification for {} is periodic, and restarts the period", event.subject)
    })
}

fn trims_enough(event: &Event, shadows: &Shadows) -> Verdict {
    let EventKind::TrimReturned { bytes } = event.kind else { return Verdict::NotApplicable };
    let device = shadows.device(event.subject);
    let Some(it) = shadows.process(device.and_then(|device| device.process)) else {
        return Verdict::NotApplicable;
    };
    let done = it.trimmed;
    Verdict::holds_if(done >= bytes, Component::Client, "D3DKMTRegisterTrimNotification", || {
        format!(
            "the client of {} was notified to trim {bytes:#x} bytes, and released {done:#x}",
            event.subject
        )
    })
}
