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
        "a driver is started with a driver handle it did not return",
        Set("ddi.adapter", "driver_handle", "driver-pointer:99"),
    ),
    case(
        RuleId::KMD_PNP_006,
        TABLE,
        "a driver whose display release failed is not stopped",
        Missing("ddi.call name=DxgkDdiStopDevice"),
    ),
];
