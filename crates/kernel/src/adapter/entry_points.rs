//! The entry points that a driver needs for the features that it reports.

use crate::ddi::Driver;
use crate::ddi::miniport::Features;
use flight::RuleId;

/// A feature, and the entry points that the kernel calls because of it.
type Requirement = (fn(&Features) -> bool, &'static str, &'static [&'static str]);

const SUBMIT: &str = "DxgkDdiSubmitCommand";

const REQUIREMENTS: &[Requirement] = &[
    (|features| features.memory.is_some(), "memory segments", &["DxgkDdiBuildPagingBuffer"]),
    (
        |features| features.memory.is_some() && features.mmu.is_none(),
        "memory segments and no GPU virtual addresses",
        &[SUBMIT],
    ),
    (
        |features| features.mmu.is_some(),
        "GPU virtual addresses",
        &[
            "DxgkDdiCreateProcess",
            "DxgkDdiDestroyProcess",
            "DxgkDdiCreateContext",
            "DxgkDdiDestroyContext",
            "DxgkDdiSetRootPageTable",
            "DxgkDdiSubmitCommandVirtual",
        ],
    ),
    (|features| features.scheduling.preempts, "PreemptionAware", &["DxgkDdiPreemptCommand"]),
    (|features| features.scheduling.cancellation, "CancelCommandAware", &["DxgkDdiCancelCommand"]),
];

/// Entry rule: the driver has the entry points that its features need. Returns whether it has.
///
/// WINDOWS: paging buffers go to `DxgkDdiSubmitCommand` here, also those of an adapter with GPU
/// virtual addresses (our decision). One driver project observed `DxgkDdiSubmitCommandVirtual` for
/// these, so a driver that has only this one starts with a warning. It may need no paging buffer:
/// where it writes paging commands, `Kernel::submit_paging` judges.
pub(crate) fn check_entry_points(driver: &Driver, features: &Features) -> bool {
    let mut complete = true;
    for (reported, feature, entries) in REQUIREMENTS {
        if !reported(features) {
            continue;
        }
        let missing: Vec<_> =
            entries.iter().copied().filter(|entry| !driver.implements(entry)).collect();
        complete &= missing.is_empty();
        let broken = (!missing.is_empty())
            .then(|| format!("the driver reports {feature} and has no {}", missing.join(", no ")));
        driver.judge(RuleId::WT_ENTRY_001, "DxgkInitialize", broken);
    }
    if features.memory.is_some() && features.mmu.is_some() {
        let broken = (!driver.implements(SUBMIT)).then(|| {
            "the driver has no DxgkDdiSubmitCommand: it starts, but its paging commands cannot be \
             submitted"
                .to_owned()
        });
        driver.judge(RuleId::WT_ENTRY_002, "DxgkInitialize", broken);
    }
    complete
}
