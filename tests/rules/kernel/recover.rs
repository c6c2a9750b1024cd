//! Rules on recovery that bind our own kernel, each broken by one event.

use super::Change::{Missing, Set};
use super::{Case, case};
use flight::RuleId;

/// Paging commands of a driver that aborts all packets of an engine, behind a hung packet.
pub(crate) const BLUNT: &str = "softgpu-whole-engine-reset tdr-paging-hang";
/// Paging commands that a node preempts.
pub(crate) const BACK: &str = "table-memory tdr-paging-hang";
/// An engine without per-engine reset.
pub(crate) const UNABLE: &str = "table-no-engine-reset hang";
/// An adapter with memory is reset.
pub(crate) const LOST: &str = "softgpu-memory reset";

/// The cases.
pub(crate) const CASES: &[Case] = &[
    case(
        RuleId::KMD_PREEMPT_004,
        BACK,
        "paging commands that came back are given again in another order",
        Missing("node:0 paging.submitted paging=paging:3 fence=4"),
    ),
    case(
        RuleId::KMD_SUBMIT_010,
        LOST,
        "paging commands are an application's",
        Set("ddi.pages", "context", "context:1"),
    ),
    case(
        RuleId::KMD_TDR_002,
        LOST,
        "a driver is told to page before its reset has returned",
        Missing("ddi.return name=DxgkDdiResetFromTimeout"),
    ),
    case(
        RuleId::KMD_TDR_003,
        LOST,
        "what a reset has lost is copied",
        Set("paging.dropped operation=transfer", "bytes", "4096"),
    ),
    case(
        RuleId::KMD_TDR_009,
        UNABLE,
        "an engine cannot be reset, and its adapter is not",
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
            "a device whose paging was lost works on",
            Missing("device:1 device.lost"),
        )
    },
];
