//! The support table of this door: a line for each entry point, with the rules it judges.

use abi::NTSTATUS;
use abi::status::{
    STATUS_ABANDONED, STATUS_ACCESS_DENIED, STATUS_BUFFER_TOO_SMALL, STATUS_DEVICE_REMOVED,
    STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_GRAPHICS_CANT_EVICT_PINNED_ALLOCATION,
    STATUS_INTEGER_OVERFLOW, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY,
    STATUS_NOT_IMPLEMENTED, STATUS_NOT_SUPPORTED, STATUS_PENDING, STATUS_TIMEOUT,
    STATUS_UNSUCCESSFUL,
};
use flight::{RuleId, Support};

use crate::session::Session;

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The entry point.
    pub name: &'static str,
    /// What it does not do yet, in words; empty when it is whole.
    pub lacks: &'static str,
    /// The rules judged on its arguments, and on the kernel's refusals.
    pub rules: &'static [RuleId],
    /// What it answers of itself, besides success.
    pub answers: &'static [NTSTATUS],
    /// The DDIs whose refusal becomes its answer.
    pub passes_on: &'static [&'static str],
}

impl Line {
    /// How much of it there is.
    pub const fn state(&self) -> Support {
        Support::lacking(self.lacks)
    }
}

/// A rule judged on the arguments of a call.
pub(crate) struct ArgumentRule<A> {
    pub(crate) id: RuleId,
    /// The entry and the argument.
    pub(crate) place: &'static str,
    /// The status of a breach; `None` where the call goes on as on Windows.
    pub(crate) refuses: Option<NTSTATUS>,
    /// The sentence, when broken.
    pub(crate) broken: fn(&A) -> Option<String>,
}

/// Judges all rules of a call; answers the status of the first breach that refuses it.
pub(crate) fn judge_arguments<A>(
    session: &Session,
    rules: &[ArgumentRule<A>],
    arguments: &A,
) -> Result<(), NTSTATUS> {
    let mut refused = Ok(());
    for rule in rules {
        let broken = (rule.broken)(arguments);
        if let (Some(status), true, true) = (rule.refuses, broken.is_some(), refused.is_ok()) {
            refused = Err(status);
        }
        session.judge(rule.id, rule.place, broken);
    }
    refused
}

/// Every entry point of this door.
pub const ENTRIES: &[Line] = &[
    Line {
        name: "D3DKMTEnumAdapters2",
        lacks: "",
        rules: &[],
        answers: &[BAD, STATUS_BUFFER_TOO_SMALL, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTOpenAdapterFromLuid",
        lacks: "",
        rules: &[],
        answers: &[BAD, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTCloseAdapter",
        lacks: "",
        rules: &[RuleId::DEV_LIFE_001],
        answers: &[BAD],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTCreateDevice",
        lacks: "flags have no effect, and no command buffer is given",
        rules: &[RuleId::DEV_LIFE_013, RuleId::DEV_LIFE_001],
        answers: MAKES,
        passes_on: &["DxgkDdiCreateDevice"],
    },
    Line {
        name: "D3DKMTDestroyDevice",
        lacks: "",
        rules: &[RuleId::DEV_LIFE_013, RuleId::DEV_LIFE_003],
        answers: &[BAD],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTCreateContextVirtual",
        lacks: "flags have no effect",
        rules: &[RuleId::DEV_LIFE_003, RuleId::DEV_LIFE_006],
        answers: MAKES,
        passes_on: &["DxgkDdiCreateContext"],
    },
    Line {
        name: "D3DKMTDestroyContext",
        lacks: "",
        rules: &[RuleId::DEV_LIFE_003],
        answers: ENDS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTSubmitCommand",
        lacks: "one context, no GPU addresses: commands travel as private driver data",
        rules: &[RuleId::DEV_LIFE_003],
        answers: &[BAD, STATUS_NOT_SUPPORTED, STATUS_DEVICE_REMOVED, STATUS_UNSUCCESSFUL],
        passes_on: &["DxgkDdiSubmitCommandVirtual"],
    },
    Line {
        name: "D3DKMTCreateContext",
        lacks: "flags have no effect",
        rules: &[RuleId::DEV_LIFE_003, RuleId::DEV_LIFE_006],
        answers: &[
            BAD,
            STATUS_NO_MEMORY,
            STATUS_DEVICE_REMOVED,
            STATUS_NOT_IMPLEMENTED,
            STATUS_UNSUCCESSFUL,
        ],
        passes_on: &["DxgkDdiCreateContext"],
    },
    Line {
        name: "D3DKMTRender",
        lacks: "one context, no presents",
        rules: &[
            RuleId::DEV_LIFE_003,
            RuleId::SUBMIT_RENDER_001,
            RuleId::SUBMIT_RENDER_002,
            RuleId::SUBMIT_RENDER_003,
            RuleId::SUBMIT_RENDER_004,
            RuleId::SUBMIT_RENDER_006,
        ],
        answers: &[
            BAD,
            STATUS_NOT_SUPPORTED,
            STATUS_NO_MEMORY,
            STATUS_DEVICE_REMOVED,
            STATUS_NOT_IMPLEMENTED,
            STATUS_GRAPHICS_ALLOCATION_BUSY,
            STATUS_UNSUCCESSFUL,
        ],
        passes_on: &["DxgkDdiRender", "DxgkDdiSubmitCommand"],
    },
    Line {
        name: "D3DKMTSetContextSchedulingPriority",
        lacks: "any number is taken",
        rules: &[RuleId::DEV_LIFE_003],
        answers: &[BAD],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTGetContextSchedulingPriority",
        lacks: "",
        rules: &[RuleId::DEV_LIFE_003],
        answers: &[BAD],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTCreateAllocation",
        lacks: CREATE_LACKS,
        rules: CREATE_RULES,
        answers: CREATE_ANSWERS,
        passes_on: CREATE_ASKS,
    },
    Line {
        name: "D3DKMTCreateAllocation2",
        lacks: CREATE_LACKS,
        rules: CREATE_RULES,
        answers: CREATE_ANSWERS,
        passes_on: CREATE_ASKS,
    },
    Line {
        name: "D3DKMTDestroyAllocation",
        lacks: "",
        rules: DESTROY_RULES,
        answers: ENDS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTDestroyAllocation2",
        lacks: "",
        rules: DESTROY_RULES,
        answers: ENDS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTGetDeviceState",
        lacks: "the execution state only",
        rules: &[RuleId::DEV_LIFE_003],
        answers: &[BAD, STATUS_NOT_SUPPORTED],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTEscape",
        lacks: "driver-private escapes only",
        rules: &[RuleId::DEV_LIFE_009, RuleId::DEV_LIFE_001, RuleId::DEV_LIFE_003],
        answers: &[
            BAD,
            STATUS_NOT_SUPPORTED,
            STATUS_NO_MEMORY,
            STATUS_DEVICE_REMOVED,
            STATUS_UNSUCCESSFUL,
        ],
        passes_on: &["DxgkDdiEscape"],
    },
    Line {
        name: "D3DKMTQueryResourceInfo",
        lacks: "",
        rules: SHARE_RULES,
        answers: SHARE_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTOpenResource",
        lacks: "",
        rules: SHARE_RULES,
        answers: SHARE_ANSWERS,
        passes_on: &["DxgkDdiOpenAllocation"],
    },
    Line {
        name: "D3DKMTOpenResource2",
        lacks: "",
        rules: SHARE_RULES,
        answers: SHARE_ANSWERS,
        passes_on: &["DxgkDdiOpenAllocation"],
    },
    Line {
        name: "D3DKMTCreatePagingQueue",
        lacks: "priorities have no effect",
        rules: &[RuleId::DEV_LIFE_003],
        answers: &[BAD, STATUS_NOT_IMPLEMENTED, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTDestroyPagingQueue",
        lacks: "",
        rules: &[],
        answers: &[BAD],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTCreateSynchronizationObject",
        lacks: "",
        rules: &[RuleId::DEV_LIFE_003, RuleId::SYNC_CREATE_015],
        answers: &[BAD, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTCreateSynchronizationObject2",
        lacks: SYNC_LACKS,
        rules: SYNC_RULES,
        answers: &[
            BAD,
            STATUS_INVALID_HANDLE,
            STATUS_NOT_SUPPORTED,
            STATUS_NO_MEMORY,
            STATUS_DEVICE_REMOVED,
        ],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTOpenSynchronizationObject",
        lacks: "",
        rules: &[],
        answers: &[BAD, STATUS_NO_MEMORY],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTDestroySynchronizationObject",
        lacks: "",
        rules: &[RuleId::SYNC_CREATE_018],
        answers: &[BAD],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTSignalSynchronizationObject",
        lacks: SIGNAL_LACKS,
        rules: SIGNAL_RULES,
        answers: QUEUE_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTSignalSynchronizationObject2",
        lacks: SIGNAL_LACKS,
        rules: SIGNAL_RULES,
        answers: QUEUE_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTSignalSynchronizationObjectFromCpu",
        lacks: "",
        rules: &[
            RuleId::DEV_LIFE_003,
            RuleId::SYNC_CREATE_007,
            RuleId::SYNC_CREATE_011,
            RuleId::SYNC_FENCE_001,
            RuleId::SYNC_FENCE_002,
        ],
        answers: &[BAD, STATUS_ACCESS_DENIED],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTSignalSynchronizationObjectFromGpu",
        lacks: "",
        rules: SIGNAL_RULES,
        answers: QUEUE_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTSignalSynchronizationObjectFromGpu2",
        lacks: SIGNAL_LACKS,
        rules: SIGNAL_RULES,
        answers: QUEUE_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTWaitForSynchronizationObject",
        lacks: "",
        rules: WAIT_RULES,
        answers: QUEUE_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTWaitForSynchronizationObject2",
        lacks: "",
        rules: WAIT_RULES,
        answers: QUEUE_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTWaitForSynchronizationObjectFromCpu",
        lacks: "",
        rules: WAIT_RULES,
        answers: &[
            BAD,
            STATUS_INVALID_HANDLE,
            STATUS_ACCESS_DENIED,
            STATUS_DEVICE_REMOVED,
            STATUS_UNSUCCESSFUL,
        ],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTWaitForSynchronizationObjectFromGpu",
        lacks: "",
        rules: WAIT_RULES,
        answers: QUEUE_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTMakeResident",
        lacks: "priorities have no effect",
        rules: &[RuleId::RESID_MAKE_001, RuleId::RESID_MAKE_006],
        answers: &[
            STATUS_PENDING,
            BAD,
            STATUS_NOT_IMPLEMENTED,
            STATUS_NO_MEMORY,
            STATUS_DEVICE_REMOVED,
        ],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTEvict",
        lacks: "",
        rules: &[RuleId::DEV_LIFE_003, RuleId::RESID_EVICT_001],
        answers: MEMORY_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTLock",
        lacks: "the whole is shown whatever pages are listed",
        rules: LOCK_RULES,
        answers: LOCK_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTUnlock",
        lacks: "",
        rules: UNLOCK_RULES,
        answers: MEMORY_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTLock2",
        lacks: "",
        rules: &[RuleId::DEV_LIFE_003, RuleId::ALLOC_LOCK_004, RuleId::ALLOC_LOCK_018],
        answers: LOCK_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTUnlock2",
        lacks: "",
        rules: UNLOCK_RULES,
        answers: MEMORY_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTOfferAllocations",
        lacks: "flags have no effect",
        rules: &[RuleId::DEV_LIFE_003, RuleId::RESID_OFFER_001, RuleId::RESID_OFFER_002],
        answers: MEMORY_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTReclaimAllocations",
        lacks: "",
        rules: &[RuleId::DEV_LIFE_003, RuleId::RESID_OFFER_008],
        answers: MEMORY_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTReclaimAllocations2",
        lacks: "",
        rules: &[RuleId::RESID_OFFER_008],
        answers: &[STATUS_PENDING, BAD, STATUS_NOT_IMPLEMENTED, STATUS_DEVICE_REMOVED],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTSetAllocationPriority",
        lacks: "",
        rules: PRIORITY_RULES,
        answers: MEMORY_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTGetAllocationPriority",
        lacks: "",
        rules: PRIORITY_RULES,
        answers: MEMORY_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTQueryAllocationResidency",
        lacks: "",
        rules: &[RuleId::ALLOC_PRIO_004, RuleId::DEV_LIFE_003],
        answers: MEMORY_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTQueryAdapterInfo",
        lacks: "the sizes of memory and what a driver tells user mode only",
        rules: &[RuleId::DEV_LIFE_001],
        answers: &[
            BAD,
            STATUS_NOT_SUPPORTED,
            STATUS_NO_MEMORY,
            STATUS_DEVICE_REMOVED,
            STATUS_UNSUCCESSFUL,
        ],
        passes_on: &["DxgkDdiQueryAdapterInfo"],
    },
    Line {
        name: "D3DKMTQueryVideoMemoryInfo",
        lacks: "of the caller only",
        rules: &[RuleId::DEV_LIFE_001],
        answers: &[BAD, STATUS_INVALID_HANDLE],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTChangeVideoMemoryReservation",
        lacks: "of the caller only",
        rules: &[RuleId::DEV_LIFE_001],
        answers: &[BAD, STATUS_INVALID_HANDLE, STATUS_NO_MEMORY],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTRegisterTrimNotification",
        lacks: "no periodic trims",
        rules: &[RuleId::DEV_LIFE_003],
        answers: &[BAD],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTUnregisterTrimNotification",
        lacks: "",
        rules: &[],
        answers: &[BAD],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTReserveGpuVirtualAddress",
        lacks: "",
        rules: &[RuleId::GPUVA_RESERVE_001],
        answers: ADDRESS_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTMapGpuVirtualAddress",
        lacks: "",
        rules: &[
            RuleId::GPUVA_MAP_001,
            RuleId::GPUVA_MAP_002,
            RuleId::GPUVA_MAP_003,
            RuleId::GPUVA_MAP_004,
            RuleId::GPUVA_MAP_006,
            RuleId::GPUVA_MAP_008,
        ],
        answers: ADDRESS_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTFreeGpuVirtualAddress",
        lacks: "",
        rules: &[RuleId::GPUVA_FREE_001, RuleId::GPUVA_FREE_004, RuleId::DEV_LIFE_001],
        answers: MEMORY_ANSWERS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTUpdateGpuVirtualAddress",
        lacks: "at once only: no fence is waited for",
        rules: &[
            RuleId::GPUVA_UPDATE_001,
            RuleId::GPUVA_UPDATE_002,
            RuleId::GPUVA_UPDATE_003,
            RuleId::DEV_LIFE_003,
        ],
        answers: &[
            BAD,
            STATUS_NOT_IMPLEMENTED,
            STATUS_NOT_SUPPORTED,
            STATUS_NO_MEMORY,
            STATUS_DEVICE_REMOVED,
        ],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTCreateKeyedMutex",
        lacks: "",
        rules: KEYED_RULES,
        answers: &[BAD, STATUS_NO_MEMORY],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTCreateKeyedMutex2",
        lacks: "no NT handles: what is made for them has one handle",
        rules: KEYED_RULES,
        answers: &[BAD, STATUS_NO_MEMORY],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTOpenKeyedMutex",
        lacks: "",
        rules: KEYED_RULES,
        answers: &[BAD, STATUS_NO_MEMORY],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTOpenKeyedMutex2",
        lacks: "",
        rules: KEYED_RULES,
        answers: &[BAD, STATUS_NO_MEMORY],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTDestroyKeyedMutex",
        lacks: "",
        rules: &[RuleId::MUTEX_KEYED_003],
        answers: &[BAD],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTAcquireKeyedMutex",
        lacks: KEYED_LACKS,
        rules: KEYED_RULES,
        answers: KEYED_WAITS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTAcquireKeyedMutex2",
        lacks: KEYED_LACKS,
        rules: KEYED_RULES,
        answers: KEYED_WAITS,
        passes_on: &[],
    },
    Line {
        name: "D3DKMTReleaseKeyedMutex",
        lacks: "",
        rules: KEYED_RULES,
        answers: &[BAD],
        passes_on: &[],
    },
    Line {
        name: "D3DKMTReleaseKeyedMutex2",
        lacks: "",
        rules: KEYED_RULES,
        answers: &[BAD, STATUS_NO_MEMORY],
        passes_on: &[],
    },
];

/// Nearly every bad argument.
const BAD: NTSTATUS = STATUS_INVALID_PARAMETER;

/// A call that makes something: no name is left, the device is gone, or nothing could end a
/// wait.
const MAKES: &[NTSTATUS] = &[BAD, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED, STATUS_UNSUCCESSFUL];

/// A call that ends something.
const ENDS: &[NTSTATUS] = &[BAD, STATUS_DEVICE_REMOVED, STATUS_UNSUCCESSFUL];

/// A call on a shared resource, which may end meanwhile.
const SHARE_ANSWERS: &[NTSTATUS] = &[
    BAD,
    STATUS_INVALID_HANDLE,
    STATUS_NO_MEMORY,
    STATUS_INTEGER_OVERFLOW,
    STATUS_DEVICE_REMOVED,
    STATUS_UNSUCCESSFUL,
];

/// A call about memory, on an adapter that may have none.
const MEMORY_ANSWERS: &[NTSTATUS] = &[BAD, STATUS_NOT_IMPLEMENTED, STATUS_DEVICE_REMOVED];

const SYNC_LACKS: &str = "no periodic fences, no NT handles, no GPU address of a fence; on an \
    adapter without memory no CPU address, either";

const SYNC_RULES: &[RuleId] = &[
    RuleId::DEV_LIFE_003,
    RuleId::SYNC_CREATE_001,
    RuleId::SYNC_CREATE_002,
    RuleId::SYNC_CREATE_003,
    RuleId::SYNC_CREATE_016,
];

const SIGNAL_LACKS: &str = "SignalAtSubmission has no effect";

const SIGNAL_RULES: &[RuleId] =
    &[RuleId::DEV_LIFE_003, RuleId::SYNC_CREATE_007, RuleId::SYNC_CREATE_011];

const WAIT_RULES: &[RuleId] = &[
    RuleId::DEV_LIFE_003,
    RuleId::PAGQ_LIFE_004,
    RuleId::SYNC_CREATE_007,
    RuleId::SYNC_CREATE_011,
];

/// A call that puts something into a context's queue.
const QUEUE_ANSWERS: &[NTSTATUS] =
    &[BAD, STATUS_INVALID_HANDLE, STATUS_ACCESS_DENIED, STATUS_DEVICE_REMOVED, STATUS_UNSUCCESSFUL];
/// A call that gives addresses, on an adapter that may have none.
const ADDRESS_ANSWERS: &[NTSTATUS] =
    &[STATUS_PENDING, BAD, STATUS_NOT_IMPLEMENTED, STATUS_NO_MEMORY, STATUS_DEVICE_REMOVED];

const LOCK_ANSWERS: &[NTSTATUS] = &[
    BAD,
    STATUS_NOT_IMPLEMENTED,
    STATUS_NO_MEMORY,
    STATUS_GRAPHICS_ALLOCATION_BUSY,
    STATUS_GRAPHICS_CANT_EVICT_PINNED_ALLOCATION,
    STATUS_DEVICE_REMOVED,
    STATUS_UNSUCCESSFUL,
];

const LOCK_RULES: &[RuleId] = &[
    RuleId::ALLOC_LOCK_001,
    RuleId::ALLOC_LOCK_002,
    RuleId::ALLOC_LOCK_003,
    RuleId::ALLOC_LOCK_004,
    RuleId::ALLOC_LOCK_008,
    RuleId::ALLOC_LOCK_009,
    RuleId::ALLOC_LOCK_010,
    RuleId::ALLOC_LOCK_016,
    RuleId::DEV_LIFE_003,
];

const PRIORITY_RULES: &[RuleId] = &[RuleId::ALLOC_PRIO_001, RuleId::DEV_LIFE_003];

const UNLOCK_RULES: &[RuleId] = &[RuleId::ALLOC_LOCK_017, RuleId::DEV_LIFE_003];

const CREATE_ANSWERS: &[NTSTATUS] = &[
    BAD,
    STATUS_INVALID_HANDLE,
    STATUS_NOT_SUPPORTED,
    STATUS_NO_MEMORY,
    STATUS_DEVICE_REMOVED,
    STATUS_UNSUCCESSFUL,
];

const CREATE_ASKS: &[&str] =
    &["DxgkDdiGetStandardAllocationDriverData", "DxgkDdiCreateAllocation", "DxgkDdiOpenAllocation"];

const CREATE_LACKS: &str = "no sections, no cross-adapter, no protection, no NT handles";

const CREATE_RULES: &[RuleId] = &[
    RuleId::ALLOC_CREATE_001,
    RuleId::ALLOC_CREATE_002,
    RuleId::ALLOC_CREATE_003,
    RuleId::ALLOC_CREATE_004,
    RuleId::ALLOC_CREATE_005,
    RuleId::ALLOC_CREATE_006,
    RuleId::ALLOC_CREATE_009,
    RuleId::ALLOC_CREATE_010,
    RuleId::ALLOC_CREATE_011,
    RuleId::ALLOC_CREATE_012,
    RuleId::ALLOC_CREATE_013,
    RuleId::ALLOC_CREATE_016,
    RuleId::ALLOC_CREATE_018,
    RuleId::ALLOC_CREATE_019,
    RuleId::ALLOC_CREATE_022,
    RuleId::ALLOC_CREATE_023,
    RuleId::DEV_LIFE_003,
];

const KEYED_LACKS: &str = "time-outs are relative";

const KEYED_RULES: &[RuleId] = &[RuleId::MUTEX_KEYED_001];

/// A call that waits for a key.
const KEYED_WAITS: &[NTSTATUS] = &[
    STATUS_TIMEOUT,
    STATUS_ABANDONED,
    BAD,
    STATUS_NOT_SUPPORTED,
    STATUS_NO_MEMORY,
    STATUS_UNSUCCESSFUL,
];

const SHARE_RULES: &[RuleId] =
    &[RuleId::ALLOC_SHARE_003, RuleId::ALLOC_SHARE_010, RuleId::DEV_LIFE_003];

const DESTROY_RULES: &[RuleId] = &[
    RuleId::ALLOC_DESTROY_001,
    RuleId::ALLOC_DESTROY_003,
    RuleId::ALLOC_DESTROY_004,
    RuleId::ALLOC_DESTROY_005,
    RuleId::ALLOC_DESTROY_012,
    RuleId::ALLOC_DESTROY_018,
    RuleId::ALLOC_DESTROY_024,
    RuleId::DEV_LIFE_003,
];
