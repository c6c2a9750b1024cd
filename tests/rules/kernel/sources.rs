//! Rules on display sources that bind our own kernel, each broken by one event.

use super::Change::{Missing, Set};
use super::{Case, case};
use flight::RuleId;

/// The cases.
pub(crate) const CASES: &[Case] = &[
    case(
        RuleId::VIDPN_OWN_002,
        "vidpn-source-ownership",
        "a second device owns a source that the first did not release",
        Missing("source.owned device=device:1 how=none"),
    ),
    case(
        RuleId::VIDPN_OWN_003,
        "vidpn-source-ownership",
        "a device releases a source that another owns",
        Set("source.checked exclusive=true", "exclusive", "false"),
    ),
    case(
        RuleId::VIDPN_OWN_004,
        "vidpn-source-ownership",
        "an exclusive owner does not occlude",
        Set("occlusion.checked", "occluded", "false"),
    ),
];
