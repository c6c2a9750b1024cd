//! Bad drivers on an adapter with memory: the driver in safe Rust with a fault.

use flight::Passive;
use kernel::miniport::{
    AllocationInfo, CreateAllocationArgs, DriverError, DriverResource, DriverResult, Features,
    Miniport,
};
use kernel::mmu::{MmuFeatures, UpdateMode};
use kernel::operation::{BuildPagingBufferArgs, Operation};
use kernel::segment::{MemoryFeatures, SegmentPreference, SegmentSet};
use softgpu::{APERTURE, LOCAL, SoftGpu, VISIBLE};
use std::sync::Arc;

/// The driver in safe Rust on an adapter with memory, with a fault.
pub(crate) struct Memory {
    inner: Arc<SoftGpu>,
    fault: Fault,
}

/// What the driver does wrong.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// Changes the description of its memory.
    QueryAdapterInfo(fn(&mut MemoryFeatures)),
    /// Changes the description of its page tables.
    QueryPageTables(fn(&mut MmuFeatures)),
    /// Changes the description of new allocations.
    CreateAllocation(fn(&mut AllocationInfo)),
    /// Changes the result of building paging commands.
    BuildPagingBuffer(fn(&mut BuildPagingBufferArgs<'_>) -> Option<DriverResult<()>>),
}

impl Memory {
    pub(crate) fn new(inner: Arc<SoftGpu>, fault: Fault) -> Arc<Self> {
        Arc::new(Self { inner, fault })
    }
}

impl Miniport for Memory {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    fn query_adapter_info(&self, at: &mut Passive) -> DriverResult<Features> {
        let mut features = self.inner.query_adapter_info(at)?;
        if let (Fault::QueryAdapterInfo(wrong), Some(memory)) = (self.fault, &mut features.memory) {
            wrong(memory);
        }
        if let (Fault::QueryPageTables(wrong), Some(mmu)) = (self.fault, &mut features.mmu) {
            wrong(mmu);
        }
        Ok(features)
    }

    fn create_allocations(
        &self,
        at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        let resource = self.inner.create_allocations(at, args)?;
        if let Fault::CreateAllocation(wrong) = self.fault {
            args.allocations.iter_mut().for_each(|new| wrong(&mut new.info));
        }
        Ok(resource)
    }

    fn build_paging_buffer(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
    ) -> DriverResult<()> {
        let wrong = match self.fault {
            Fault::BuildPagingBuffer(wrong) => wrong(args),
            _ => None,
        };
        wrong.unwrap_or_else(|| self.inner.build_paging_buffer(at, args))
    }
}

fn first(memory: &mut MemoryFeatures, number: u32) -> &mut kernel::segment::SegmentInfo {
    let place = usize::try_from(number).unwrap_or(1) - 1;
    &mut memory.segments[place]
}

pub(crate) const REPORTS_ONE_TABLE_LEVEL: Fault =
    Fault::QueryPageTables(|mmu_features| mmu_features.levels.truncate(1));

/// The CPU writes page tables in memory that the CPU cannot access.
pub(crate) const HIDES_PAGE_TABLES: Fault = Fault::QueryPageTables(|mmu_features| {
    mmu_features.mode = UpdateMode::Cpu;
    mmu_features.levels.iter_mut().for_each(|level| level.segment = LOCAL);
});

pub(crate) const OVERLAPS_SEGMENTS: Fault = Fault::QueryAdapterInfo(|memory_features| {
    let base = first(memory_features, APERTURE).base;
    first(memory_features, VISIBLE).base = base;
});
pub(crate) const LIMITS_MEMORY_COMMIT: Fault =
    Fault::QueryAdapterInfo(|memory_features| first(memory_features, LOCAL).commit_limit = 4096);
pub(crate) const COMBINES_AGP_FLAGS: Fault =
    Fault::QueryAdapterInfo(|memory_features| first(memory_features, APERTURE).flags.agp = true);
pub(crate) const CLAIMS_CACHE_COHERENT_MEMORY: Fault =
    Fault::QueryAdapterInfo(|memory_features| first(memory_features, LOCAL).flags.coherent = true);
pub(crate) const COMBINES_CPUVISIBLE_HOST_APERTURE: Fault =
    Fault::QueryAdapterInfo(|memory_features| {
        first(memory_features, VISIBLE).flags.host_aperture = true;
    });
pub(crate) const PRESERVES_HIBERNATE_ONLY: Fault = Fault::QueryAdapterInfo(|memory_features| {
    first(memory_features, LOCAL).flags.partly_preserved = true;
});
pub(crate) const MISORDERS_BANKS: Fault = Fault::QueryAdapterInfo(|memory_features| {
    let local = first(memory_features, LOCAL);
    (local.flags.banked, local.banks) = (true, vec![0x2000, 0x1000]);
});
pub(crate) const PLACES_PAGING_BUFFER_WRONG: Fault =
    Fault::QueryAdapterInfo(|memory_features| memory_features.paging.segment = LOCAL);
pub(crate) const PLACES_PAGING_BUFFER_NOWHERE: Fault =
    Fault::QueryAdapterInfo(|memory_features| memory_features.paging.segment = 9);
pub(crate) const REPORTS_MEMORY_SEGMENT_FIRST: Fault =
    Fault::QueryAdapterInfo(|memory_features| memory_features.segments.reverse());
pub(crate) const ALIGNS_BELOW_PAGE_SIZE: Fault = Fault::QueryAdapterInfo(|memory_features| {
    first(memory_features, LOCAL).flags.large_pages = true;
});

pub(crate) const PREFERS_ELSEWHERE: Fault = Fault::CreateAllocation(|info| {
    info.requirements.segments = SegmentSet::of(&[APERTURE]);
    info.requirements.preferred = [None; 5];
    info.requirements.preferred[0] = Some(SegmentPreference { segment: LOCAL, from_top: false });
});
pub(crate) const OMITS_SEGMENT_SET: Fault = Fault::CreateAllocation(|info| {
    info.requirements.segments = SegmentSet::default();
    info.requirements.preferred = [None; 5];
});
pub(crate) const EVICTS_TO_MEMORY: Fault =
    Fault::CreateAllocation(|info| info.requirements.evict = SegmentSet::of(&[LOCAL]));
pub(crate) const SETS_ZERO_PRIORITY: Fault =
    Fault::CreateAllocation(|info| info.requirements.priority = 0);
pub(crate) const PLACES_CPUVISIBLE_INVISIBLY: Fault = Fault::CreateAllocation(|info| {
    info.requirements.segments = SegmentSet::of(&[LOCAL]);
    info.requirements.preferred = [None; 5];
});

pub(crate) const RETURNS_ILLEGAL_PAGING_STATUS: Fault =
    Fault::BuildPagingBuffer(|_| Some(Err(DriverError::Invalid)));
pub(crate) const OVERRUNS_PAGING_BUFFER: Fault = Fault::BuildPagingBuffer(|args| {
    args.written = u32::try_from(args.buffer.len()).unwrap_or(u32::MAX).saturating_add(4);
    Some(Ok(()))
});
pub(crate) const NEVER_FITS_PAGING_BUFFER: Fault =
    Fault::BuildPagingBuffer(|_| Some(Err(DriverError::NoRoom)));
pub(crate) const REPORTS_UNUSED_ALLOCATION_BUSY: Fault = Fault::BuildPagingBuffer(|args| {
    matches!(args.operation, Operation::InitContext { .. }).then_some(Err(DriverError::Busy))
});
