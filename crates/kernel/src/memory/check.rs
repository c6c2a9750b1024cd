//! Checks of a driver's memory description. Every inconsistency is reported, not only the first.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::miniport::{AllocationInfo, Features};
use crate::ddi::operation::PAGE;
use crate::ddi::segment::{MemoryFeatures, SegmentInfo};
use crate::kernel::Kernel;
use crate::memory::{LARGE_PAGE, Memory, segment_index};
use crate::objects::allocation::Allocation;
use crate::state::KernelState;
use flight::{Component, RuleId, Subject};

/// An adapter has at most 32 segments, the number of bits of a segment set.
const MAX_SEGMENTS: usize = 32;
/// The largest plausible segment: a terabyte.
const MAX_SEGMENT_SIZE: u64 = 1 << 40;
/// The largest plausible paging buffer.
const MAX_PAGING_BUFFER: u32 = 1 << 26;

const ARGUMENT: &str = "DxgkDdiQueryAdapterInfo";

/// Judges rules about one object and records whether any was broken.
struct FeatureCheck<'a> {
    kernel: &'a Kernel,
    about: Subject,
    argument: &'static str,
    passed: bool,
}

impl FeatureCheck<'_> {
    #[inline]
    fn rule(&mut self, rule: RuleId, broken: Option<String>) {
        self.passed &= broken.is_none();
        self.tolerated(rule, broken);
    }

    /// Judges a rule that Windows does not insist on: the adapter starts all the same.
    #[inline]
    fn tolerated(&mut self, rule: RuleId, broken: Option<String>) {
        let log = &self.kernel.log;
        if log.is_enabled() {
            log.judge(rule, Component::Driver, self.about, self.argument, broken);
        }
    }

    /// Judges the same rule for each of several objects.
    fn each<'s>(
        &mut self,
        rule: RuleId,
        all: impl IntoIterator<Item = (u32, &'s SegmentInfo)>,
        broken: impl Fn(&SegmentInfo) -> Option<String>,
    ) {
        for (number, it) in all {
            let message = broken(it).map(|message| format!("segment {number} {message}"));
            self.rule(rule, message);
        }
    }
}

impl Kernel {
    /// Checks whether a driver's memory description is possible.
    pub(crate) fn check_features(&self, about: Subject, features: &Features) -> bool {
        // The driver may describe no memory.
        let Some(memory) = &features.memory else { return true };
        let mut judge = FeatureCheck { kernel: self, about, argument: ARGUMENT, passed: true };
        check_sizes(&mut judge, memory);
        check_flags(&mut judge, memory);
        check_paging(&mut judge, memory, features.nodes);
        judge.passed
    }

    /// Checks the placement requirements of a new allocation on an adapter with memory.
    #[inline]
    pub(crate) fn check_requirements(
        &self,
        state: &KernelState,
        adapter: Id<Adapter>,
        allocation: Id<Allocation>,
        info: &AllocationInfo,
    ) -> bool {
        // The driver may describe no memory.
        let Some(memory) = state.adapter_memory(adapter) else { return true };
        self.check_allocation_requirements(allocation.subject(), memory, info)
    }

    /// Checks the placement requirements of one allocation.
    fn check_allocation_requirements(
        &self,
        about: Subject,
        memory: &Memory,
        info: &AllocationInfo,
    ) -> bool {
        let argument = "DxgkDdiCreateAllocation.pAllocationInfo";
        let mut judge = FeatureCheck { kernel: self, about, argument, passed: true };
        let requirements = &info.requirements;
        let count = memory.segments.len();
        // All bits of the set, shifted by the number of segments.
        let beyond = u32::try_from(count).ok().and_then(|count| u32::MAX.checked_shl(count));
        let unknown = requirements.segments.0 & beyond.unwrap_or(0);
        // WINDOWS: from WDDM 2 on only the write set counts (documented); bits beyond the existing
        // segments are an error (our decision).
        judge.rule(
            RuleId::KMD_ALLOC_005,
            if requirements.segments.is_empty() {
                Some("the allocation can be in no segment: its write set is empty".to_owned())
            } else if unknown != 0 {
                Some(format!(
                    "its write set has bits {unknown:#x}, but the adapter has {count} segments"
                ))
            } else {
                None
            },
        );
        let outside = requirements
            .preferred
            .iter()
            .flatten()
            .find(|segment_preference| !requirements.segments.has(segment_preference.segment));
        let message = |segment_preference: &crate::ddi::segment::SegmentPreference| {
            format!(
                "segment {} is preferred, but is not in its write set",
                segment_preference.segment
            )
        };
        judge.rule(RuleId::KMD_ALLOC_004, outside.map(message));
        let no_aperture = requirements.evict.without(memory.apertures).iter().next();
        judge.rule(
            RuleId::KMD_ALLOC_006,
            no_aperture.map(|number| {
                format!("segment {number} is listed for eviction, but is no aperture")
            }),
        );
        let large = requirements.segments.overlaps(memory.large_page_segments);
        judge.rule(
            RuleId::KMD_SEG_015,
            (large && (info.alignment == 0 || !info.alignment.is_multiple_of(LARGE_PAGE))).then(
                || {
                    format!(
                        "its alignment is {:#x}, but it can be in a segment with pages of 64 KiB",
                        info.alignment
                    )
                },
            ),
        );
        let hidden = requirements.segments.overlaps(memory.hidden_segments);
        let mapped = requirements.segments.overlaps(memory.apertures);
        judge.rule(
            RuleId::ALLOC_LOCK_020,
            (requirements.flags.cpu_visible && hidden && !mapped).then(|| {
                "the CPU may lock it, it can be in memory that is not CPU-visible, and its write \
                 set has no aperture"
                    .to_owned()
            }),
        );
        let passed = judge.passed;
        judge.rule(
            RuleId::ALLOC_PRIO_002,
            (requirements.priority == 0).then(|| "its priority is zero".to_owned()),
        );
        passed
    }
}

fn numbered(memory: &MemoryFeatures) -> impl Iterator<Item = (u32, &SegmentInfo)> {
    (1..).zip(&memory.segments)
}

fn check_sizes(judge: &mut FeatureCheck<'_>, memory: &MemoryFeatures) {
    let count = memory.segments.len();
    let some = (1..=MAX_SEGMENTS).contains(&count);
    judge.rule(
        RuleId::KMD_SEG_005,
        (!some)
            .then(|| format!("the adapter has {count} segments; 1 to {MAX_SEGMENTS} are possible")),
    );
    judge.each(RuleId::KMD_SEG_005, numbered(memory), |info| {
        let (base, size) = (info.base, info.size);
        if size == 0 || !size.is_multiple_of(PAGE) {
            Some(format!("has {size:#x} bytes, which is not a multiple of the page size"))
        } else if size > MAX_SEGMENT_SIZE {
            Some(format!(
                "has {size:#x} bytes, which is more than the plausible {MAX_SEGMENT_SIZE:#x}"
            ))
        } else if !base.is_multiple_of(PAGE) || base.checked_add(size).is_none() {
            Some(format!(
                "begins at {base:#x}, which is misaligned or does not fit into 64-bit addresses"
            ))
        } else {
            None
        }
    });
    for (number, it) in numbered(memory) {
        let end = |info: &SegmentInfo| info.base.saturating_add(info.size);
        let meets = |(other, that): &(u32, &SegmentInfo)| {
            *other < number && it.base < end(that) && that.base < end(it)
        };
        let met = numbered(memory).find(meets);
        let message = |(other, that): (u32, &SegmentInfo)| {
            format!(
                "segment {number} [{:#x}, {:#x}) overlaps segment {other} [{:#x}, {:#x})",
                it.base,
                end(it),
                that.base,
                end(that)
            )
        };
        judge.rule(RuleId::KMD_SEG_005, met.map(message));
    }
    // WINDOWS: the newer page says that the limit applies to apertures only, and public samples
    // start with another one (observed): a warning. Zero on an aperture counts as its size (our
    // decision).
    for (number, info) in numbered(memory) {
        let (limit, size, aperture) = (info.commit_limit, info.size, info.flags.aperture);
        let wrong = if aperture { limit > size } else { limit != size };
        let kind = if aperture { "an aperture" } else { "memory" };
        let message = || {
            format!(
                "segment {number} is {kind} of {size:#x} bytes with a commit limit of {limit:#x}"
            )
        };
        judge.tolerated(RuleId::KMD_SEG_006, wrong.then(message));
    }
    judge.each(RuleId::KMD_SEG_012, numbered(memory), |info| {
        let banks = &info.banks;
        let rising = banks.windows(2).all(|pair| pair[0] < pair[1]);
        let guard = banks.first().is_none_or(|value| *value > 0)
            && banks.last().is_none_or(|end| *end < info.size);
        (!(rising && guard) || (info.flags.banked == banks.is_empty())).then(|| {
            let ends: Vec<String> = banks.iter().map(|end| format!("{end:#x}")).collect();
            let ends = ends.join(", ");
            format!("has banks that end at [{ends}], which do not cover it in order")
        })
    });
}

fn check_flags(judge: &mut FeatureCheck<'_>, memory: &MemoryFeatures) {
    judge.each(RuleId::KMD_SEG_007, numbered(memory), |info| {
        let alone = crate::ddi::segment::SegmentFlags { agp: true, ..Default::default() };
        (info.flags.agp && info.flags != alone)
            .then(|| "is the AGP aperture, but also has other flags".to_owned())
    });
    // WINDOWS: the flag has no meaning on a memory segment (documented), and public samples start
    // with it (observed): a warning.
    for (number, info) in numbered(memory) {
        let wrong = info.flags.coherent && !info.flags.aperture;
        let message =
            || format!("segment {number} is memory with CacheCoherent, which has no meaning there");
        judge.tolerated(RuleId::KMD_SEG_009, wrong.then(message));
    }
    judge.each(RuleId::KMD_SEG_010, numbered(memory), |info| {
        let flags = info.flags;
        if flags.host_aperture && flags.cpu_visible {
            Some("is CPU-visible and also has a host aperture".to_owned())
        } else if flags.host_aperture_cached && !flags.host_aperture {
            Some("has a cached host aperture without a host aperture".to_owned())
        } else {
            None
        }
    });
    judge.each(RuleId::KMD_SEG_011, numbered(memory), |info| {
        let flags = info.flags;
        let deep = [flags.preserved_in_hibernate, flags.partly_preserved];
        let wrong = deep == [true, true] || (deep != [false, false] && !flags.preserved_in_standby);
        wrong.then(|| {
            "has a combination of hibernation flags that is not in the documented table".to_owned()
        })
    });
    // WINDOWS: builds differ, and public samples start with a memory segment first (observed): a
    // warning. The segment of the paging buffers is judged by KMD-SEG-013.
    let first = memory.segments.first().filter(|first| !first.flags.aperture);
    let message = first.map(|_| {
        "segment 1 is listed first and is no aperture: Windows 11 builds 22621 and 26100 refused to \
         start such adapters"
            .to_owned()
    });
    judge.tolerated(RuleId::GATE_SEG_001, message);
}

fn check_paging(judge: &mut FeatureCheck<'_>, memory: &MemoryFeatures, nodes: u32) {
    let paging = &memory.paging;
    let id = paging.segment;
    let exists = segment_index(id).is_some_and(|index| index < memory.segments.len());
    let broken = if id != 0 && !exists {
        Some(format!("paging buffers are in segment {id}, which does not exist"))
    } else if paging.buffer == 0 || paging.buffer > MAX_PAGING_BUFFER {
        Some(format!("a paging buffer has {:#x} bytes", paging.buffer))
    } else if paging.private > MAX_PAGING_BUFFER {
        Some(format!("a paging buffer has {:#x} bytes of private data", paging.private))
    } else if paging.node >= nodes {
        Some(format!("paging is work of node {}, but the adapter has {nodes} nodes", paging.node))
    } else {
        None
    };
    if broken.is_some() {
        return judge.rule(RuleId::KMD_SEG_013, broken);
    }
    // WINDOWS: an aperture is required (documented for DXGK_QUERYSEGMENTOUT and
    // DXGK_QUERYSEGMENTOUT3; that DXGK_QUERYSEGMENTOUT4 requires it, too, is our reading). Builds
    // differ (observed), so the adapter starts.
    let segment = segment_index(id).and_then(|index| memory.segments.get(index));
    let message = || format!("paging buffers are in segment {id}, which is not an aperture");
    let is_memory = segment.is_some_and(|segment| !segment.flags.aperture);
    judge.tolerated(RuleId::KMD_SEG_013, is_memory.then(message));
}
