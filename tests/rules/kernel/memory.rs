//! Rules on memory that bind our own kernel, each broken by one event.

use super::Change::{Late, Missing, Set};
use super::{Case, case};
use flight::RuleId;

/// Allocations that become resident, are evicted, make room, and are discarded.
pub(crate) const PAGED: &str = "paged";
/// The bytes that the CPU sees, wherever the allocation is.
pub(crate) const LOCKED: &str = "locked";

/// What clients can query about their memory.
pub(crate) const TOLD: &str = "told";
/// A reclaimed allocation is locked at once.
pub(crate) const RECLAIMED: &str = "reclaimed";

/// The cases.
pub(crate) const CASES: &[Case] = &[
    case(
        RuleId::KMD_PAGING_006,
        PAGED,
        "an allocation that was busy is paged, and the driver is not told that it is idle",
        Set("paging.built idle=true pass=2", "idle", "false"),
    ),
    case(
        RuleId::KMD_PAGING_007,
        PAGED,
        "a transfer goes on with another buffer than the next",
        Set("paging.built operation=transfer pass=2", "pass", "3"),
    ),
    case(
        RuleId::KMD_PAGING_010,
        PAGED,
        "a transfer's address does not count the segment's base",
        Set("paging.built operation=transfer", "address", "8192"),
    ),
    case(
        RuleId::KMD_PAGING_011,
        PAGED,
        "an aperture is filled",
        Set("paging.built operation=fill", "segment", "segment:1"),
    ),
    case(
        RuleId::KMD_PAGING_014,
        PAGED,
        "an allocation ends while it is mapped",
        Missing("paging.done operation=unmap-aperture"),
    ),
    case(
        RuleId::KMD_PAGING_018,
        PAGED,
        "a context is given work before its allocation has its first bytes",
        Set("paging.done operation=init-context of=context-allocation:2", "operation", "fill"),
    ),
    case(
        RuleId::KMD_PAGING_025,
        PAGED,
        "a driver is told that something leaves, and not that it came",
        Missing("paging.done operation=notify-residency of=allocation:1 page_in=true"),
    ),
    case(
        RuleId::KMD_PAGING_031,
        PAGED,
        "one comes to where another has not left",
        Missing("paging:9 paging.built operation=transfer of=allocation:1 page_in=false"),
    ),
    case(
        RuleId::KMD_SEG_014,
        PAGED,
        "the private data of a paging buffer is another than the driver left",
        Set("paging.private", "after", "0x00000001"),
    ),
    case(
        RuleId::CB_CTXALLOC_006,
        PAGED,
        "a packet is submitted while its context's allocation is elsewhere",
        Set("paging.done operation=init-context of=context-allocation:2", "segment", "segment:2"),
    ),
    case(
        RuleId::CB_CTXALLOC_007,
        PAGED,
        "work is queued while the allocation of all contexts is elsewhere",
        Set("paging.done operation=init-context of=context-allocation:1", "segment", "segment:2"),
    ),
    case(
        RuleId::CB_CTXALLOC_008,
        PAGED,
        "an operation carries a word that the driver did not give",
        Set("paging.built of=context-allocation:2", "word", "driver-pointer:99"),
    ),
    case(
        RuleId::CB_CTXALLOC_012,
        PAGED,
        "a context's allocation goes while the context is current",
        Missing("node.switched to=-"),
    ),
    case(
        RuleId::CB_CTXALLOC_016,
        PAGED,
        "an update carries other private data",
        Set("context-allocation.updating", "given", "0x00000001"),
    ),
    case(
        RuleId::RESID_MAKE_002,
        PAGED,
        "one call counts twice",
        Set("residency.counted count=2", "count", "3"),
    ),
    case(
        RuleId::RESID_MAKE_003,
        PAGED,
        "a client is not told how much to trim",
        Set("residency.requested result=no-memory", "trim", "0"),
    ),
    case(
        RuleId::RESID_MAKE_004,
        PAGED,
        "what is resident is answered with a fence value",
        Set("residency.requested result=resident", "value", "9"),
    ),
    case(
        RuleId::RESID_MAKE_007,
        PAGED,
        "a device goes on without what it must have",
        Missing("device.lost"),
    ),
    case(
        RuleId::RESID_EVICT_003,
        PAGED,
        "what may stay until its memory is needed leaves at once",
        Set("residency.counted count=0 only_if_necessary=false", "lazily", "true"),
    ),
    case(
        RuleId::RESID_EVICT_005,
        PAGED,
        "what was not written to is copied out",
        Set("memory.evicted discard=true", "discard", "false"),
    ),
    case(
        RuleId::RESID_OFFER_004,
        PAGED,
        "an offer counts while work from before it is under way",
        Late("context:1 packet.done fence=4", "offer.ready"),
    ),
    case(
        RuleId::RESID_OFFER_009,
        PAGED,
        "a client is not told that bytes were thrown away",
        Set("offer.ended discarded=true", "discarded", "false"),
    ),
    case(
        RuleId::RESID_OFFER_010,
        PAGED,
        "what comes back is taken back without a fence value",
        Set("offer.ended", "value", "0"),
    ),
    case(
        RuleId::RESID_BUDGET_001,
        PAGED,
        "a process may use more than there is",
        Set("budget.queried", "budget", "999999999"),
    ),
    case(
        RuleId::PAGQ_LIFE_001,
        PAGED,
        "a queue ends before its work",
        Missing("paging-queue:1 paging-queue.signalled value=7"),
    ),
    case(
        RuleId::PAGQ_LIFE_002,
        PAGED,
        "a queue's fence keeps its name",
        Missing("handle.closed of=paging-queue-fence:1"),
    ),
    case(
        RuleId::PAGQ_LIFE_003,
        PAGED,
        "a queue never goes",
        Missing("paging-queue:1 paging-queue.destroyed"),
    ),
    case(
        RuleId::PAGQ_LIFE_006,
        PAGED,
        "a value of a queue comes again",
        Set("paging-queue.assigned value=2", "value", "1"),
    ),
    case(
        RuleId::KMD_FLAGS_012,
        PAGED,
        "what is pinned leaves",
        Set("allocation:1 memory.requirements", "pinned", "true"),
    ),
    case(
        RuleId::ALLOC_LOCK_005,
        LOCKED,
        "what the CPU may not see is locked",
        Set("allocation:1 memory.requirements", "seen", "false"),
    ),
    case(
        RuleId::ALLOC_LOCK_006,
        LOCKED,
        "another device locks than the creator",
        Set("allocation:1 allocation.created", "device", "device:9"),
    ),
    case(
        RuleId::ALLOC_LOCK_012,
        LOCKED,
        "a lock that does not wait is taken while work is under way",
        Late("packet.done", "lock.acquired"),
    ),
    case(
        RuleId::ALLOC_LOCK_013,
        LOCKED,
        "something is moved for a lock that may not have it moved",
        Set("view:2 lock.requested", "still", "true"),
    ),
    Case {
        // A lock is one of the ways to move a pinned allocation.
        along: &[RuleId::KMD_FLAGS_012],
        ..case(
            RuleId::ALLOC_LOCK_014,
            LOCKED,
            "what is pinned is moved for a lock",
            Set("allocation:2 memory.requirements", "pinned", "true"),
        )
    },
    case(
        RuleId::ALLOC_LOCK_015,
        LOCKED,
        "what is locked is moved, and its view stays",
        Set("lock.acquired location=memory", "place", "aperture"),
    ),
    case(
        RuleId::ALLOC_LOCK_019,
        LOCKED,
        "what is cached is locked in a memory segment",
        Set("allocation:1 memory.requirements", "cached", "true"),
    ),
    case(
        RuleId::ALLOC_LOCK_021,
        LOCKED,
        "what is locked outside of memory comes there",
        Set("allocation:3 memory.placed", "segment", "segment:2"),
    ),
    case(
        RuleId::ALLOC_LOCK_022,
        RECLAIMED,
        "a lock of what was taken back waits until it is mapped",
        Set(WAITS, "subject", "allocation:1"),
    ),
    case(
        RuleId::ALLOC_PRIO_003,
        TOLD,
        "a resource is said to be resident while a member is not",
        Set("residency.queried result=away", "answer", "local"),
    ),
    case(
        RuleId::RESID_BUDGET_002,
        TOLD,
        "a client is told less than it uses too much",
        Set("trim.required by=notification", "bytes", "1"),
    ),
    case(
        RuleId::RESID_TRIM_002,
        TOLD,
        "a notification is periodic, and restarts the period",
        Set("trim.notified", "flags", "periodic+restart-periodic"),
    ),
];

/// The client waits for the fence of the reclaim.
const WAITS: &str = "wait.parked signal 3\"";
