//! Rules on packets with lists that bind our own kernel, each broken by one event.

use super::Change::{Early, Set};
use super::{Case, case};
use flight::RuleId;

/// Allocations of packets have moved when they are patched.
pub(crate) const MOVED: &str = "listed, moved";
/// Allocations of packets are locked.
pub(crate) const LOCKED: &str = "listed, locked";
/// A device is lost.
pub(crate) const LOST: &str = "listed, lost";

/// An allocation is renamed.
pub(crate) const RENAMED: &str = "listed, renamed";

/// The driver and the scenario of a flight here.
pub(crate) fn flight(name: &str) -> Option<(&'static str, &'static str)> {
    let scenario = match name {
        MOVED => "render-moved-before-patch",
        LOCKED => "render-locked-allocation",
        LOST => "render-exceeds-memory",
        RENAMED => "lock-discard-instances",
        _ => return None,
    };
    Some(("softgpu-allocation-lists", scenario))
}

/// The cases.
pub(crate) const CASES: &[Case] = &[
    case(
        RuleId::ALLOC_LOCK_011,
        RENAMED,
        "an allocation that is pinned is renamed",
        Set("lock.renamed", "subject", "view:2"),
    ),
    case(
        RuleId::KMD_ALLOC_015,
        RENAMED,
        "an instance is paged with another driver handle",
        Set("paging.built of=instance:1", "driver_handle", "driver-pointer:77"),
    ),
    case(
        RuleId::KMD_ALLOC_016,
        RENAMED,
        "there are more instances than the driver's maximum",
        Set("allocation.limited", "limit", "2"),
    ),
    case(
        RuleId::KMD_CTX_004,
        MOVED,
        "a driver gets a smaller buffer than it requires",
        Set("packet.rendered", "capacity", "512"),
    ),
    case(
        RuleId::KMD_SUBMIT_007,
        MOVED,
        "a packet is patched with another fence than it is submitted with",
        Set("packet.patched", "fence", "77"),
    ),
    case(
        RuleId::KMD_SUBMIT_009,
        MOVED,
        "a packet is submitted while one of its allocations is not resident",
        Set("packet.uses", "address", "4096"),
    ),
    case(
        RuleId::SUBMIT_CMD_005,
        "submit-broadcast",
        "a client's private data changes in the call",
        Set("packet.private", "after", "0x00000000"),
    ),
    case(
        RuleId::SUBMIT_RENDER_007,
        LOCKED,
        "a packet uses a locked allocation that can be in no aperture",
        Set("allocation:1 memory.requirements", "mappable", "false"),
    ),
    case(
        RuleId::SUBMIT_RENDER_008,
        LOST,
        "a lost device gets work",
        Early("device.lost", "enter call=D3DKMTRender"),
    ),
];
