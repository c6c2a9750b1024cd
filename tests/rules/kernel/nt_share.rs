//! Rules on NT handles that bind our own kernel, each broken by one event.

use super::Change::{Early, Missing, Set};
use super::{Case, case};
use flight::RuleId;

/// The cases.
pub(crate) const CASES: &[Case] = &[
    case(
        RuleId::ALLOC_SHARE_008,
        "share-nt-handle-outlives-creator",
        "a driver is not told that a device may only read",
        Set("nt-object.resource-opened access=read", "read_only", "false"),
    ),
    Case {
        rule: RuleId::NTSHARE_LIFE_001,
        along: &[RuleId::ALLOC_DESTROY_017],
        flight: "share-nt-handle-outlives-creator",
        about: "the objects of a bundle are destroyed while an NT handle is open",
        change: Missing("nt-object.ended"),
    },
    case(
        RuleId::NTSHARE_LIFE_002,
        "share-nt-handle-outlives-creator",
        "a destroy of allocations closes a keyed mutex",
        Set("enter call=D3DKMTDestroyKeyedMutex", "call", "D3DKMTDestroyAllocation2"),
    ),
    case(
        RuleId::NTSHARE_NAME_001,
        "share-nt-handle-name",
        "a name is not found while an NT handle is open",
        Early("nt-name.not-found name=Fence", "nt-object.handle-closed"),
    ),
    case(
        RuleId::NTSHARE_NAME_002,
        "share-nt-handle-name",
        "another name finds an object",
        Set("nt-object.opened name=FENCE", "name", "Other"),
    ),
    case(
        RuleId::NTSHARE_OPEN_001,
        "share-nt-handle-name",
        "the NT handle is checked before the device",
        Set("nt-open.failed device=false", "status", "0xc0000008"),
    ),
    case(
        RuleId::NTSHARE_OPEN_002,
        "share-nt-handle-outlives-creator",
        "a bundle as keyed mutex is an invalid parameter",
        Set("nt-open.failed handle=another-type", "status", "0xc000000d"),
    ),
];
