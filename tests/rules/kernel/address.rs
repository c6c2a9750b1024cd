//! Rules on addresses that bind our own kernel, each broken by one event.

use super::Change::{Early, Late, Missing, Set};
use super::{Case, case};
use flight::RuleId;

/// The drivers of these flights, each with the prefix of the scenario's name.
pub(crate) const DRIVERS: &[(&str, &str)] = &[
    ("virtual ", "softgpu-gpummu"),
    ("two levels ", "softgpu-gpummu-two-levels"),
    ("cpu tables ", "softgpu-gpummu-cpu-updates"),
];

/// The entry above a table, made invalid.
const UNHOOKED: &str = "page-table:12 page-table.written count=1 entry_kind=invalid";

/// The cases.
pub(crate) const CASES: &[Case] = &[
    case(
        RuleId::GPUVA_MAP_005,
        "virtual gpuva-map-bounds",
        "addresses are chosen above the requested maximum",
        Set("range.mapped base=0 maximum=16777216", "maximum", "8192"),
    ),
    case(
        RuleId::GPUVA_RESERVE_002,
        "virtual gpuva-map-bounds",
        "addresses that are in use are reserved",
        Set("range.reserved backing=zero", "start", "65536"),
    ),
    case(
        RuleId::GPUVA_RESERVE_003,
        "virtual gpuva-map-bounds",
        "addresses are chosen below the requested minimum",
        Set("range.reserved minimum=3221225472", "minimum", "4294967296"),
    ),
    case(
        RuleId::GPUVA_FREE_003,
        "virtual gpuva-free",
        "entries are written for an allocation that is no longer mapped there",
        Set("page-table.written entry_kind=page of=allocation:1", "of", "allocation:9"),
    ),
    case(
        RuleId::GPUVA_UPDATE_004,
        "virtual gpuva-update",
        "a later operation is applied before an earlier one",
        Set("range.mapped index=2", "index", "0"),
    ),
    case(
        RuleId::GPUVA_UPDATE_005,
        "virtual gpuva-update-fenced",
        "an update is applied before its fence has its value",
        Set("update.applied of=sync:1", "fence_value", "9"),
    ),
    case(
        RuleId::GPUVA_UPDATE_006,
        "virtual gpuva-update-queue-full",
        "one update too many waits, and its caller does not",
        Early("update.queued update=129", "update.applied"),
    ),
    case(
        RuleId::KMD_PAGING_019,
        "virtual gpuva-map-and-submit",
        "the system's tables are written by commands",
        Set("page-table.written space=address-space:1", "by", "gpu"),
    ),
    case(
        RuleId::KMD_PAGING_022,
        "virtual gpuva-map-and-submit",
        "a new table is not invalidated first",
        Set("page-table.written space=address-space:2 initial=true", "entry_kind", "zero"),
    ),
    case(
        RuleId::KMD_PAGING_023,
        "virtual gpuva-map-and-submit",
        "an update begins elsewhere in the allocation than its address",
        Set("page-table.written entry_kind=page of=allocation:1", "offset", "4096"),
    ),
    case(
        RuleId::KMD_PROC_001,
        "virtual gpuva-map-and-submit",
        "a device is created for a process that the driver does not know",
        Missing("address-space.created process=process:1"),
    ),
    case(
        RuleId::KMD_PT_001,
        "virtual gpuva-map-and-submit",
        "a context runs without a root",
        Missing("root.set context=context:2"),
    ),
    case(
        RuleId::KMD_PT_006,
        "two levels gpuva-map-bounds",
        "a root that a context still uses is freed",
        Missing("root.set context=context:2 entries=1024"),
    ),
];

/// The same rules again: a page table that is freed early, in every way.
pub(crate) const FREED_EARLY: &[Case] = &[
    case(
        RuleId::KMD_PAGING_022,
        "cpu tables gpuva-free",
        "a table is freed although entries to it are valid",
        Missing("page-table:13 page-table.written count=512 initial=false"),
    ),
    case(
        RuleId::KMD_PAGING_031,
        "virtual gpuva-free",
        "the memory of a table is free while an entry leads to it",
        Missing(UNHOOKED),
    ),
    case(
        RuleId::KMD_PAGING_031,
        "virtual gpuva-free",
        "the memory of a table is free before the one above is written",
        Early("page-table:13 page-table.destroyed", UNHOOKED),
    ),
    case(
        RuleId::KMD_PAGING_031,
        "virtual gpuva-free",
        "the memory of a table is free while engines may have cached its entries",
        Late(UNHOOKED, "tlb.flushed"),
    ),
];
