//! Legal but unusual drivers and clients: none has a finding. A finding here is a false accusation.
//!
//! Drivers fly every scenario that a check of them flies; clients fly their own steps on good
//! drivers. `cargo xtask test --long` adds seeds, pressure and the threaded host.

mod clients;

use abi::display::DXGK_ALLOCATIONINFOFLAGS_WDDM2_0 as Flag;
use drivers::legal::{self, with_allocation_flags};
use flight::Log;
use harness::repeats;
use kernel::DriverSetup;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use verify::Severity;
use windtunnel::{
    Flight, FlightResult, HostKind, Outcome, Scenario, ScenarioStopped, Testbed, default_scenarios,
    fly_setup,
};

/// A legal but unusual driver or client.
struct Legal {
    name: &'static str,
    /// What is unusual.
    unusual: &'static str,
    /// Why it is legal: a rule, a page, or an observation.
    basis: &'static str,
    kind: Kind,
}

enum Kind {
    /// A driver.
    Driver(fn(&Arc<Log>) -> DriverSetup),
    /// A driver for each of these allocation flags, which are legal together.
    Flags(fn() -> Vec<u32>),
    /// A client, with the drivers it flies on.
    Client(&'static [&'static str], fn(&mut Testbed<'_>) -> Result<(), ScenarioStopped>),
}

macro_rules! legal {
    ($($name:literal $unusual:literal, $basis:literal => $kind:expr;)*) => {
        &[$(Legal { name: $name, unusual: $unusual, basis: $basis, kind: $kind }),*]
    };
}

use Kind::{Client, Driver, Flags};

/// Good drivers of all kinds.
const EVERYWHERE: &[&str] =
    &["softgpu", "table", "softgpu-memory", "table-memory", "softgpu-gpummu"];

/// Good drivers with memory.
const MEMORY: &[&str] = &["softgpu-memory", "table-memory", "softgpu-gpummu", "table-gpummu"];

const LEGAL: &[Legal] = legal! {
    // Drivers: entry points, interrupts and statuses.
    "minimal" "has only the entry points that every driver needs", "docs/facts: DRIVER_INITIALIZATION_DATA, optional members are NULL"
        => Driver(legal::minimal);
    "isr-twice" "looks at its hardware twice in one interrupt; the second look finds nothing", "KMD-ISR-002: TRUE if the adapter raised it, once is enough"
        => Driver(legal::looks_twice_in_isr);
    "table-isr-thrice" "a table driver that handles merged interrupts in one call", "KMD-ISR-008: a report covers all older fences"
        => Driver(legal::table_looks_thrice_in_isr);
    "dpc-notifies-twice" "calls DxgkCbNotifyDpc twice in one DPC", "KMD-ISR-006: at least once"
        => Driver(legal::notifies_dpc_twice);
    "create-no-memory" "fails each fifth DxgkDdiCreateAllocation with STATUS_NO_MEMORY", "GATE-STATUS-002: a listed status"
        => Driver(legal::create_no_memory);
    "create-mismatch" "fails each fifth DxgkDdiCreateAllocation with STATUS_GRAPHICS_DRIVER_MISMATCH", "GATE-STATUS-002, KMD-ALLOC-013"
        => Driver(legal::create_mismatch);
    "open-no-memory" "fails each fifth DxgkDdiOpenAllocation with STATUS_NO_MEMORY", "GATE-STATUS-002: a listed status"
        => Driver(legal::open_no_memory);
    "device-no-memory" "fails each fifth DxgkDdiCreateDevice with STATUS_NO_MEMORY", "GATE-STATUS-002: a listed status"
        => Driver(legal::device_no_memory);
    "context-no-memory" "fails each fifth DxgkDdiCreateContext with STATUS_NO_MEMORY", "GATE-STATUS-002: a listed status"
        => Driver(legal::context_no_memory);
    "escape-privileged" "fails each fifth DxgkDdiEscape with STATUS_PRIVILEGED_INSTRUCTION", "GATE-STATUS-002: a listed status"
        => Driver(legal::escape_privileged);
    "umd-query-unsupported" "fails each fifth UMDRIVERPRIVATE query with STATUS_NOT_SUPPORTED", "page of DxgkDdiQueryAdapterInfo"
        => Driver(legal::umd_query_unsupported);
    "render-illegal" "fails each fifth DxgkDdiRender with STATUS_ILLEGAL_INSTRUCTION", "GATE-STATUS-002: a listed status"
        => Driver(legal::render_illegal);
    "view-free-list" "keeps the structures of closed views on a free list until DxgkDdiStopDevice", "KMD-DESTROY-002 is about hAllocation only"
        => Driver(legal::view_free_list);
    "no-dma-buffer-segment" "leaves DmaBufferSegmentSet zero for contexts with allocation lists", "KMD-CTX-002: zero is system memory without virtual addressing"
        => Driver(legal::no_dma_buffer_segment);

    // Drivers: allocations.
    "flags-alone" "each legal allocation flag alone", "KMD-FLAGS-001 to -012, KMD-ALLOC-008"
        => Flags(single_flags);
    "flags-in-pairs" "each legal pair of allocation flags", "KMD-FLAGS-001 to -012, KMD-ALLOC-008"
        => Flags(flag_pairs);
    "aligns-to-64k" "aligns every allocation to 64 KiB", "page of DXGK_ALLOCATIONINFO, Alignment"
        => Driver(legal::aligns_to_64k);
    "aligns-to-2m" "aligns every allocation to 2 MiB", "page of DXGK_ALLOCATIONINFO, Alignment"
        => Driver(legal::aligns_to_2m);
    "aligns-to-a-byte" "asks for an alignment of one byte", "WT-ALLOC-001: one is a power of two"
        => Driver(legal::aligns_to_a_byte);
    "same-pitch-size" "returns a PitchAlignedSize that is the Size", "KMD-ALLOC-003"
        => Driver(legal::same_pitch_size);
    "double-pitch-size" "returns a PitchAlignedSize of twice the Size", "KMD-ALLOC-003"
        => Driver(legal::double_pitch_size);
    "prefers-top" "prefers the end of each segment", "page of DXGK_SEGMENTPREFERENCE, DirectionN"
        => Driver(legal::prefers_top);
    "prefers-nothing" "prefers no segment", "KMD-ALLOC-004: zero is no preference"
        => Driver(legal::prefers_nothing);
    "prefers-one-repeatedly" "prefers one segment five times", "KMD-ALLOC-004"
        => Driver(legal::prefers_one_repeatedly);
    "evicts-to-aperture" "evicts every allocation to the aperture", "KMD-ALLOC-006"
        => Driver(legal::evicts_to_aperture);
    "lowest-priority" "gives every allocation a priority of one", "ALLOC-PRIO-002: not zero"
        => Driver(legal::lowest_priority);
    "highest-priority" "gives every allocation the highest priority", "ALLOC-PRIO-002: not zero"
        => Driver(legal::highest_priority);
    "aperture-only" "puts every allocation into the aperture", "KMD-ALLOC-005: any set that is not empty"
        => Driver(legal::aperture_only);
    "one-instance" "allows one instance of each allocation", "page of DXGK_ALLOCATIONINFO, MaximumRenamingListLength"
        => Driver(legal::one_instance);

    // Drivers: segments, paging and page tables.
    "half-committed-aperture" "limits the commit of its aperture to half its size", "KMD-SEG-006"
        => Driver(legal::half_committed_aperture);
    "uncommitted-aperture" "reports a commit limit of zero for its aperture", "KMD-SEG-006: our decision, zero counts as the size"
        => Driver(legal::uncommitted_aperture);
    "incoherent-aperture" "has an aperture that is not cache-coherent", "page of DXGK_SEGMENTFLAGS, CacheCoherent"
        => Driver(legal::incoherent_aperture);
    "preserved-memory" "preserves its memory in standby and in hibernation", "KMD-SEG-011"
        => Driver(legal::preserved_memory);
    "banked-memory" "has memory in ascending banks", "KMD-SEG-012"
        => Driver(legal::banked_memory);
    "memory-from-system" "has memory that is carved out of system memory", "page of DXGK_SEGMENTFLAGS, PopulatedFromSystemMemory"
        => Driver(legal::memory_from_system);
    "large-pages" "has 64 KiB pages, and alignments to match", "KMD-SEG-015"
        => Driver(legal::large_pages);
    "small-segments" "has sixteen pages of visible and sixty-four of other memory", "page of DXGK_SEGMENTDESCRIPTOR4, Size"
        => Driver(legal::small_segments);
    "page-sized-paging-buffer" "has paging buffers of one page", "page of DXGK_QUERYSEGMENTOUT4, PagingBufferSize"
        => Driver(legal::page_sized_paging_buffer);
    "paging-on-node-zero" "pages on the node that also executes packets", "page of DXGK_DRIVERCAPS, PagingNode"
        => Driver(legal::paging_on_node_zero);
    "four-levels" "has page tables of four levels with a root of two entries", "page of DXGK_GPUMMUCAPS, PageTableLevelCount"
        => Driver(legal::four_levels);
    "visible-page-tables" "has page tables in memory that the CPU sees and does not write", "page of DXGK_PAGE_TABLE_LEVEL_DESC"
        => Driver(legal::visible_page_tables);

    // Clients.
    "many-contexts" "sixty-four contexts of one device, destroyed from the middle outwards", "page of D3DKMTCreateContextVirtual: no limit"
        => Client(EVERYWHERE, clients::many_contexts);
    "contexts-before-work-ends" "destroys a context right behind its last packet", "page of pfnDestroyContextCb: blocks until queued work is done"
        => Client(EVERYWHERE, clients::contexts_before_work_ends);
    "destroys-inside-out" "destroys the members of a resource in reverse order, then the resource", "ALLOC-DESTROY: lists may name members; windows-behaviour 153, 154"
        => Client(EVERYWHERE, clients::destroys_inside_out);
    "device-takes-all" "destroys a device with allocations, contexts and a queue in it", "page of D3DKMTDestroyDevice: releases what it has"
        => Client(EVERYWHERE, clients::device_takes_all);
    "killed-mid-work" "is killed with packets queued and an allocation locked", "a killed process always ends on Windows"
        => Client(MEMORY, clients::killed_mid_work);
    "adapter-closed-late" "closes its adapter handle after another process has ended", "DEV-LIFE: a handle lives until it is closed"
        => Client(EVERYWHERE, clients::adapter_closed_late);
    "both-destroy-flags" "sets AssumeNotInUse and SynchronousDestroy for idle allocations", "ALLOC-DESTROY: both flags are independent"
        => Client(EVERYWHERE, clients::both_destroy_flags);
    "synchronous-on-idle" "destroys idle allocations synchronously, one by one", "page of D3DDDICB_DESTROYALLOCATION2FLAGS"
        => Client(EVERYWHERE, clients::synchronous_on_idle);
    "one-and-many" "resources of one and of two hundred allocations", "page of D3DKMT_CREATEALLOCATION, NumAllocations"
        => Client(EVERYWHERE, clients::one_and_many);
    "no-private-data" "a shared resource without private data of runtime and driver", "page of D3DKMT_CREATEALLOCATION: sizes may be zero"
        => Client(EVERYWHERE, clients::no_private_data);
    "opens-twice" "opens a shared resource twice in one device and destroys the older handle first", "page of D3DKMTOpenResource: each open is a reference"
        => Client(EVERYWHERE, clients::opens_twice);
    "opens-own-resource" "the creator opens its own shared resource in a second device", "page of D3DKMTOpenResource"
        => Client(EVERYWHERE, clients::opens_own_resource);
    "creator-dies-first" "kills the creator of a shared resource while another process uses it", "ALLOC-SHARE: openers keep it alive"
        => Client(EVERYWHERE, clients::creator_dies_first);
    "empty-destroy" "a destroy call that names nothing", "windows-behaviour 132: success"
        => Client(EVERYWHERE, clients::empty_destroy);
    "empty-resource" "empties a resource by list and adds allocations again", "windows-behaviour 153"
        => Client(EVERYWHERE, clients::empty_resource);
    "cpu-only-fence" "a fence that only the CPU signals and waits for, with gaps in its values", "page of D3DKMTSignalSynchronizationObjectFromCpu"
        => Client(EVERYWHERE, clients::cpu_only_fence);
    "waits-for-the-past" "waits for values that are reached, on CPU and GPU", "page of D3DKMTWaitForSynchronizationObjectFromCpu"
        => Client(EVERYWHERE, clients::waits_for_the_past);
    "signals-before-wait" "queues a GPU wait whose signal another context has queued before", "page of D3DKMTWaitForSynchronizationObjectFromGpu"
        => Client(EVERYWHERE, clients::signals_before_wait);
    "waits-any" "waits for one of three fences, asynchronously, and drops the event early", "page of D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS"
        => Client(EVERYWHERE, clients::waits_any);
    "resident-repeatedly" "makes one allocation resident three times and evicts it three times", "RESID-MAKE: references are counted"
        => Client(MEMORY, clients::resident_repeatedly);
    "offer-reclaim-offer" "offers, reclaims, offers again and destroys while offered", "RESID-OFFER: any order"
        => Client(MEMORY, clients::offer_reclaim_offer);
    "evicts-then-destroys" "evicts and destroys at once, with the paging queue destroyed first", "RESID-EVICT: needs no queue"
        => Client(MEMORY, clients::evicts_then_destroys);
    "two-paging-queues" "makes allocations resident through two queues of one device", "page of D3DKMTCreatePagingQueue: several per device"
        => Client(MEMORY, clients::two_paging_queues);
    "locks-nested" "locks an allocation three times and unlocks it as often", "page of D3DKMTLock2: locks nest"
        => Client(MEMORY, clients::locks_nested);
    "lowest-priority-of-client" "sets and reads back each named priority", "page of D3DKMTSetAllocationPriority"
        => Client(MEMORY, clients::named_priorities);
    "keyed-mutex-times-out" "acquires a keyed mutex with a wrong key and no time", "page of D3DKMTAcquireKeyedMutex: STATUS_TIMEOUT"
        => Client(EVERYWHERE, clients::keyed_mutex_times_out);
    "shared-line-spurious" "other hardware raises the shared interrupt line thirty times", "KMD-ISR-002: the driver returns FALSE"
        => Client(EVERYWHERE, clients::shared_line_spurious);
    "two-processes-interleaved" "two processes create and destroy in turns on the same nodes", "threading level zero: calls are reentrant"
        => Client(EVERYWHERE, clients::two_processes_interleaved);
    "restarts-idle" "stops and starts the adapter while a client holds zombie handles", "DEV-LIFE: handles stay until they are closed"
        => Client(EVERYWHERE, clients::restarts_idle);
    "empty-packets" "submits packets without commands", "page of D3DKMTSubmitCommand, CommandLength"
        => Client(EVERYWHERE, clients::empty_packets);
};

/// The flags that a driver of WDDM 2.0 may set, and what each needs beside it.
const FLAGS: [(u32, u32); 14] = [
    (Flag::CpuVisible, 0),
    (Flag::PermanentSysMem, Flag::CpuVisible),
    (Flag::Cached, Flag::CpuVisible),
    (Flag::Protected, 0),
    (Flag::ExistingSysMem, 0),
    (Flag::ExistingKernelSysMem, 0),
    (Flag::FromEndOfSegment, 0),
    (Flag::DisableLargePageMapping, 0),
    (Flag::Overlay, 0),
    (Flag::Capture, 0),
    (Flag::HistoryBuffer, Flag::CpuVisible),
    (Flag::AccessedPhysically, 0),
    (Flag::ExplicitResidencyNotification, Flag::AccessedPhysically),
    (Flag::HardwareProtected, 0),
];

/// At most one of these is legal.
const EXCLUSIVE: u32 =
    Flag::Protected | Flag::PermanentSysMem | Flag::ExistingSysMem | Flag::ExistingKernelSysMem;

fn single_flags() -> Vec<u32> {
    FLAGS.iter().map(|(flag, needed)| flag | needed).collect()
}

fn flag_pairs() -> Vec<u32> {
    let pairs = FLAGS.iter().enumerate().flat_map(|(at, (one, needed))| {
        FLAGS[at + 1..].iter().map(move |(other, also)| one | needed | other | also)
    });
    let exclusive = |flags: &u32| (flags & EXCLUSIVE).count_ones() < 2;
    // A history buffer allows no flag beside CpuVisible and Cached.
    let history = Flag::HistoryBuffer | Flag::CpuVisible | Flag::Cached;
    let alone = |flags: &u32| flags & Flag::HistoryBuffer == 0 || flags & !history == 0;
    let all: BTreeSet<u32> = pairs.filter(exclusive).filter(alone).collect();
    all.into_iter().collect()
}

/// The hosts of a flight: one, or all with `--long`.
fn hosts() -> Vec<HostKind> {
    let mut hosts = vec![HostKind::deterministic(1)];
    for seed in 2..=repeats(1, 3) {
        hosts.extend([HostKind::deterministic(seed), HostKind::under_pressure(seed)]);
        hosts.push(HostKind::Threaded);
    }
    hosts
}

/// What a flight accuses someone of, or what it left alive, as text.
fn accusations(flown: &FlightResult, label: &str, ended: bool) -> Option<String> {
    let mut text = String::new();
    for finding in flown.findings.iter().filter(|finding| finding.severity > Severity::Note) {
        let (rule, component) = (finding.rule.name(), finding.component.name());
        let _ = write!(text, "\n  {rule} {component}, {}: {}", finding.argument, finding.message);
    }
    if flown.live.count() > 0 {
        let _ = write!(text, "\n  left alive: {}", flown.live);
    }
    if ended && flown.outcome == Outcome::NotFlown {
        let _ = write!(text, "\n  ended early: {:?}", flown.needs);
    }
    (!text.is_empty()).then(|| format!("{label}, {}:{text}", flown.scenario))
}

/// Flies a driver through scenarios on every host.
fn fly_driver(
    name: &str,
    make: impl Fn(&Arc<Log>) -> DriverSetup,
    scenarios: &[&'static Scenario],
) -> Vec<String> {
    let mut wrong = Vec::new();
    for host in hosts() {
        for scenario in scenarios {
            let label = format!("{name} on {host:?}");
            match fly_setup(&make, scenario, host) {
                Ok(flown) => wrong.extend(accusations(&flown, &label, false)),
                Err(error) => wrong.push(format!("{label}, {}: {}", scenario.name, error.0)),
            }
        }
    }
    wrong
}

/// The scenarios of flags in pairs: those that move, lock and destroy allocations; all with
/// `--long`.
fn scenarios_of_pairs() -> Vec<&'static Scenario> {
    const SOME: [&str; 6] = [
        "create-shared",
        "destroy-any-residency",
        "residency-evict-and-restore",
        "destroy-locked",
        "destroy-offered",
        "power-cycle-with-work",
    ];
    let all = default_scenarios(false, false);
    let some = |scenario: &&Scenario| repeats(0, 1) > 0 || SOME.contains(&scenario.name);
    all.into_iter().filter(some).collect()
}

impl Legal {
    /// Flies it. Returns false accusations.
    fn fly(&self) -> Vec<String> {
        let all = default_scenarios(false, false);
        match self.kind {
            Driver(make) => fly_driver(self.name, make, &all),
            Flags(sets) => {
                let sets = sets();
                let scenarios = if sets.len() > FLAGS.len() { scenarios_of_pairs() } else { all };
                let fly = |flags: u32| {
                    let name = format!("{} {flags:#x}", self.name);
                    // KMD-FLAGS-003: a primary has none of some flags.
                    let fits = |scenario: &&&Scenario| {
                        !scenario.needs.has_entry("DxgkDdiDescribeAllocation")
                            || flags & (EXCLUSIVE | Flag::Cached) == 0
                    };
                    let scenarios: Vec<_> = scenarios.iter().filter(fits).copied().collect();
                    fly_driver(&name, |log| with_allocation_flags(flags, log), &scenarios)
                };
                sets.into_iter().flat_map(fly).collect()
            }
            Client(names, body) => {
                let mut wrong = Vec::new();
                for driver in names.iter().filter_map(|name| drivers::find(name)) {
                    for host in hosts() {
                        let flown = Flight::with_setup(driver.make).host(host).fly(body);
                        let label = format!("{} on {}, {host:?}", self.name, driver.name);
                        wrong.extend(accusations(&flown, &label, true));
                    }
                }
                wrong
            }
        }
    }
}

fn assert_no_accusations(of: impl Fn(&Legal) -> bool) {
    let only = std::env::var("LEGAL").ok();
    let chosen = LEGAL.iter().filter(|legal| of(legal));
    let chosen = chosen.filter(|legal| only.as_ref().is_none_or(|name| name == legal.name));
    let wrong: Vec<String> = chosen.flat_map(Legal::fly).collect();
    assert!(wrong.is_empty(), "{} false accusations:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn unusual_drivers_are_not_accused() {
    assert_no_accusations(|legal| matches!(legal.kind, Driver(_)));
}

#[test]
fn legal_allocation_flags_are_not_accused() {
    assert_no_accusations(|legal| matches!(legal.kind, Flags(_)));
}

#[test]
fn unusual_clients_are_not_accused() {
    assert_no_accusations(|legal| matches!(legal.kind, Client(..)));
}

#[test]
fn every_unusual_driver_and_client_says_what_is_unusual_and_why_it_is_legal() {
    let names: BTreeSet<&str> = LEGAL.iter().map(|legal| legal.name).collect();
    assert_eq!(names.len(), LEGAL.len(), "names are unique");
    assert!(LEGAL.len() >= 50, "{}", LEGAL.len());
    for legal in LEGAL {
        assert!(!legal.unusual.is_empty() && !legal.basis.is_empty(), "{}", legal.name);
    }
    assert!(flag_pairs().len() > 50, "{:?}", flag_pairs());
}
