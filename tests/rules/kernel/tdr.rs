//! Rules on recovery that bind our own kernel, each broken by one event.

use super::Change::{Missing, Set};
use super::{Case, case};
use flight::RuleId;

/// Paging commands of a driver that aborts all packets of an engine, behind a hung packet.
pub(crate) const BLUNT: &str = "softgpu-whole-engine-reset tdr-paging-hang";
/// Paging commands that a node preempts.
pub(crate) const BACK: &str = "table-memory tdr-paging-hang";
/// An engine without per-engine reset.
pub(crate) const UNABLE: &str = "table-no-engine-reset tdr-hang";
/// An adapter with memory is reset.
pub(crate) const LOST: &str = "softgpu-memory tdr-adapter-reset";

/// The cases.
pub(crate) const CASES: &[Case] = &[
    case(
        RuleId::KMD_PREEMPT_004,
        BACK,
        "preempted paging commands are resubmitted in another order",
        Missing("node:0 paging.submitted paging=paging:3 fence=4"),
    ),
    case(
        RuleId::KMD_SUBMIT_010,
        LOST,
        "paging commands belong to an application",
        Set("ddi.pages", "context", "context:1"),
    ),
    case(
        RuleId::KMD_TDR_002,
        LOST,
        "a driver gets paging work before its reset has returned",
        Missing("ddi.return name=DxgkDdiResetFromTimeout"),
    ),
    case(
        RuleId::KMD_TDR_003,
        LOST,
        "an allocation whose contents a reset lost is copied",
        Set("paging.dropped operation=transfer", "bytes", "4096"),
    ),
    case(
        RuleId::KMD_TDR_009,
        UNABLE,
        "an engine reset fails and the adapter is not reset",
        Missing("adapter.reset"),
    ),
    case(
        RuleId::KMD_TDR_013,
        LOST,
        "the first reset is counted as the sixth",
        Set("adapter.reset", "count", "6"),
    ),
    Case {
        along: &[RuleId::DEV_LIFE_007],
        ..case(
            RuleId::KMD_TDR_014,
            BLUNT,
            "a device whose paging was lost continues",
            Missing("device:1 device.lost"),
        )
    },
];
