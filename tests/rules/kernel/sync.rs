//! Rules on synchronisation objects that bind our own kernel, each broken by one event.

use super::Change::{Late, Missing, Set};
use super::{Case, case};
use flight::RuleId;

/// The CPU signals and waits through the mapped value of a fence.
pub(crate) const SEEN: &str = "sync-cpu-signal-and-wait, with memory";

/// The cases.
pub(crate) const CASES: &[Case] = &[
    case(
        RuleId::SYNC_CREATE_004,
        "sync-no-signal-no-wait",
        "a device signals a fence that it may not signal",
        Set("sync.requested operation=signal result=denied", "result", "taken"),
    ),
    case(
        RuleId::SYNC_CREATE_005,
        "sync-device-reset",
        "a fence without the flag is exempt from a reset",
        Set("sync.created no_tdr_signal=true", "no_tdr_signal", "false"),
    ),
    case(
        RuleId::SYNC_CREATE_008,
        SEEN,
        "the CPU reads another value than was signalled",
        Set("sync.signalled by=cpu value=2", "shown", "1"),
    ),
    case(
        RuleId::SYNC_CREATE_009,
        "sync-cpu-signal-and-wait",
        "a wait ends before its fence has the value",
        Missing("sync.signalled by=cpu value=2"),
    ),
    case(
        RuleId::SYNC_CREATE_010,
        "sync-cpu-notification",
        "a wait ends and its event is not set",
        Missing("event.set"),
    ),
    case(
        RuleId::SYNC_CREATE_012,
        "sync-cpu-signal-and-wait",
        "a packet is submitted before the preceding wait has ended",
        Late("gpu-wait:1 gpu-wait.satisfied", "packet.submitted"),
    ),
    case(
        RuleId::SYNC_CREATE_014,
        "sync-broadcast-signal",
        "a broadcast signal takes effect before one context reaches it",
        Missing("sync.reached remaining=0"),
    ),
    case(
        RuleId::SYNC_CREATE_017,
        "sync-shared-object",
        "a client does not get the global handle of its shared object",
        Set("sync:1 sync.handles-returned", "global", "0x00000000"),
    ),
    case(
        RuleId::SYNC_CREATE_019,
        "sync-shared-object",
        "an object is opened by another object's handle",
        Set("sync.opened", "global", "0x80000002"),
    ),
    case(
        RuleId::SYNC_CREATE_020,
        "sync-shared-object",
        "a process ends and its handle keeps an object alive",
        Missing("process:2 handle.closed of=sync:1"),
    ),
];
