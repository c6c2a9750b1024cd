//! Rules on memory that bind our own kernel, each broken by one event.

use super::Change::{Late, Missing, Set};
use super::{Case, case};
use flight::RuleId;

/// Allocations that become resident, are evicted, make room, and are discarded.
pub(crate) const PAGED: &str = "paged";
/// The bytes that the CPU sees, wherever the allocation is.
pub(crate) const LOCKED: &str = "locked";

/// What clients can query about their memory.
pub(crate) const QUERIED: &str = "queried";
/// A reclaimed allocation is locked at once.
pub(crate) const RECLAIMED: &str = "reclaimed";

/// The cases.
pub(crate) const CASES: &[Case] = &[
    case(
        RuleId::KMD_PAGING_006,
        PAGED,
        "a busy allocation is paged without a notification that it is idle",
        Set("paging.built idle=true pass=2", "idle", "false"),
    ),
    case(
        RuleId::KMD_PAGING_007,
        PAGED,
        "a transfer continues with a wrong buffer",
        Set("paging.built operation=transfer pass=2", "pass", "3"),
    ),
    case(
        RuleId::KMD_PAGING_010,
        PAGED,
        "a transfer's address omits the segment's base",
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
        "an allocation is destroyed while it is mapped",
        Missing("paging.done operation=unmap-aperture"),
    ),
    case(
        RuleId::KMD_PAGING_018,
        PAGED,
        "a context gets work before its context allocation is initialised",
        Set("paging.done operation=init-context of=context-allocation:2", "operation", "fill"),
    ),
    case(
        RuleId::KMD_PAGING_025,
        PAGED,
        "a driver is notified of an eviction without the residency before it",
        Missing("paging.done operation=notify-residency of=allocation:1 page_in=true"),
    ),
    case(
        RuleId::KMD_PAGING_031,
        PAGED,
        "an allocation is placed where another still is",
        Missing("paging:9 paging.built operation=transfer of=allocation:1 page_in=false"),
    ),
    case(
        RuleId::KMD_SEG_014,
        PAGED,
        "the private data of a paging buffer differs from the driver's",
        Set("paging.private", "after", "0x00000001"),
    ),
    case(
        RuleId::CB_CTXALLOC_006,
        PAGED,
        "a packet is submitted while its context allocation is not resident",
        Set("paging.done operation=init-context of=context-allocation:2", "segment", "segment:2"),
    ),
    case(
        RuleId::CB_CTXALLOC_007,
        PAGED,
        "work is queued while the shared context allocation is not resident",
        Set("paging.done operation=init-context of=context-allocation:1", "segment", "segment:2"),
    ),
    case(
        RuleId::CB_CTXALLOC_008,
        PAGED,
        "an operation carries an unknown driver handle",
        Set("paging.built of=context-allocation:2", "driver_handle", "driver-pointer:99"),
    ),
    case(
        RuleId::CB_CTXALLOC_012,
        PAGED,
        "a context allocation is freed while the context is current",
        Missing("node.switched to=-"),
    ),
    case(
        RuleId::CB_CTXALLOC_016,
        PAGED,
        "an update carries other private data",
        Set("context-allocation.updating", "data", "0x00000001"),
    ),
    case(
        RuleId::RESID_MAKE_002,
        PAGED,
        "one call is counted twice",
        Set("residency.counted count=2", "count", "3"),
    ),
    case(
        RuleId::RESID_MAKE_003,
        PAGED,
        "a client does not get the number of bytes to trim",
        Set("residency.requested result=no-memory", "trim", "0"),
    ),
    case(
        RuleId::RESID_MAKE_004,
        PAGED,
        "a request for a resident allocation returns a fence value",
        Set("residency.requested result=resident", "value", "9"),
    ),
    case(
        RuleId::RESID_MAKE_007,
        PAGED,
        "a device continues without a required allocation",
        Missing("device.lost"),
    ),
    case(
        RuleId::RESID_EVICT_003,
        PAGED,
        "a lazily evicted allocation is moved out at once",
        Set("residency.counted count=0 only_if_necessary=false", "only_if_necessary", "true"),
    ),
    case(
        RuleId::RESID_EVICT_005,
        PAGED,
        "an unwritten allocation is copied out",
        Set("memory.evicted discard=true", "discard", "false"),
    ),
    case(
        RuleId::RESID_OFFER_004,
        PAGED,
        "an offer takes effect while earlier work is in flight",
        Late("context:1 packet.done fence=4", "offer.ready"),
    ),
    case(
        RuleId::RESID_OFFER_009,
        PAGED,
        "a client is not notified that bytes were discarded",
        Set("offer.ended discarded=true", "discarded", "false"),
    ),
    case(
        RuleId::RESID_OFFER_010,
        PAGED,
        "a reclaim that pages in returns no fence value",
        Set("offer.ended", "value", "0"),
    ),
    case(
        RuleId::RESID_BUDGET_001,
        PAGED,
        "a budget exceeds the memory",
        Set("budget.queried", "budget", "999999999"),
    ),
    case(
        RuleId::PAGQ_LIFE_001,
        PAGED,
        "a paging queue is destroyed before its work is complete",
        Missing("paging-queue:1 paging-queue.signalled value=7"),
    ),
    case(
        RuleId::PAGQ_LIFE_002,
        PAGED,
        "the fence of a paging queue keeps its handle",
        Missing("handle.closed of=paging-queue-fence:1"),
    ),
    case(
        RuleId::PAGQ_LIFE_003,
        PAGED,
        "a paging queue is never destroyed",
        Missing("paging-queue:1 paging-queue.destroyed"),
    ),
    case(
        RuleId::PAGQ_LIFE_006,
        PAGED,
        "a fence value of a paging queue is used twice",
        Set("paging-queue.assigned value=2", "value", "1"),
    ),
    case(
        RuleId::KMD_FLAGS_012,
        PAGED,
        "a pinned allocation is evicted",
        Set("allocation:1 memory.requirements", "pinned", "true"),
    ),
    case(
        RuleId::ALLOC_LOCK_005,
        LOCKED,
        "an allocation that is not CPU visible is locked",
        Set("allocation:1 memory.requirements", "cpu_visible", "false"),
    ),
    case(
        RuleId::ALLOC_LOCK_006,
        LOCKED,
        "a device other than the creator locks",
        Set("allocation:1 allocation.created", "device", "device:9"),
    ),
    case(
        RuleId::ALLOC_LOCK_012,
        LOCKED,
        "a lock that does not wait succeeds while work is in flight",
        Late("packet.done", "lock.acquired"),
    ),
    case(
        RuleId::ALLOC_LOCK_013,
        LOCKED,
        "an allocation is moved for a lock that forbids it",
        Set("view:2 lock.requested", "do_not_evict", "true"),
    ),
    Case {
        // A lock is one of the ways to move a pinned allocation.
        along: &[RuleId::KMD_FLAGS_012],
        ..case(
            RuleId::ALLOC_LOCK_014,
            LOCKED,
            "a pinned allocation is moved for a lock",
            Set("allocation:2 memory.requirements", "pinned", "true"),
        )
    },
    case(
        RuleId::ALLOC_LOCK_015,
        LOCKED,
        "a locked allocation is moved and its mapping stays",
        Set("lock.acquired location=memory", "location", "aperture"),
    ),
    case(
        RuleId::ALLOC_LOCK_019,
        LOCKED,
        "a cached allocation is locked in a memory segment",
        Set("allocation:1 memory.requirements", "cached", "true"),
    ),
    case(
        RuleId::ALLOC_LOCK_021,
        LOCKED,
        "an allocation locked outside of memory is moved into memory",
        Set("allocation:3 memory.placed", "segment", "segment:2"),
    ),
    case(
        RuleId::ALLOC_LOCK_022,
        RECLAIMED,
        "a lock of a reclaimed allocation waits until it is mapped",
        Set(WAITS, "subject", "allocation:1"),
    ),
    case(
        RuleId::ALLOC_PRIO_003,
        QUERIED,
        "a resource is reported resident while a member is not",
        Set("residency.queried result=away", "result", "local"),
    ),
    case(
        RuleId::RESID_BUDGET_002,
        QUERIED,
        "a client gets a trim size that is too small",
        Set("trim.required by=notification", "bytes", "1"),
    ),
    case(
        RuleId::RESID_TRIM_002,
        QUERIED,
        "a periodic notification restarts the period",
        Set("trim.notified", "flags", "periodic+restart-periodic"),
    ),
];

/// The client waits for the fence of the reclaim.
const WAITS: &str = "wait.parked signal 3\"";
