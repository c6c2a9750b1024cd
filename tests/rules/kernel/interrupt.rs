//! Rules on interrupts that bind our own kernel, each broken by one event.

use super::Change::Set;
use super::{Case, case};
use flight::RuleId;

/// The cases.
pub(crate) const CASES: &[Case] = &[case(
    RuleId::KMD_ISR_012,
    "submit-fill-and-copy",
    "a DPC that was already pending runs for a further request",
    Set("dpc.queued", "inserted", "false"),
)];
