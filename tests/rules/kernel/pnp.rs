//! Rules on plug and play that bind our own kernel, each broken by one event.

use super::Change::{Missing, Set};
use super::{Case, case};
use flight::RuleId;

/// A table driver that is stopped and started again.
pub(crate) const TABLE: &str = "a table that starts again";

/// The cases.
pub(crate) const CASES: &[Case] = &[
    case(
        RuleId::KMD_PNP_002,
        TABLE,
        "a driver is told to start with another word than it gave",
        Set("ddi.adapter", "word", "driver-pointer:99"),
    ),
    case(
        RuleId::KMD_PNP_006,
        TABLE,
        "a driver that could not hand its display on is not told to stop",
        Missing("ddi.call name=DxgkDdiStopDevice"),
    ),
];
