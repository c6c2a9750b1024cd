//! What goes wrong on an adapter with memory: the driver in safe Rust, with a fault.

use flight::Passive;
use kernel::miniport::{Answer, Births, Born, Features, Miniport, Refusal, Shape};
use kernel::operation::{Building, Operation};
use kernel::segment::{MemoryFeatures, Preference, SegmentSet};
use softgpu::{APERTURE, LOCAL, SoftGpu, VISIBLE};
use std::sync::Arc;

/// The driver in safe Rust, on an adapter with memory, with a fault.
pub(crate) struct Memory {
    inner: Arc<SoftGpu>,
    fault: Fault,
}

/// What it does wrong.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// In what it says of its memory.
    Says(fn(&mut MemoryFeatures)),
    /// In what it says of new allocations.
    Wants(fn(&mut Shape)),
    /// In how it answers when it builds paging commands.
    Builds(fn(&mut Building<'_>) -> Option<Answer<()>>),
}

impl Memory {
    pub(crate) fn new(inner: Arc<SoftGpu>, fault: Fault) -> Arc<Self> {
        Arc::new(Self { inner, fault })
    }
}

impl Miniport for Memory {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    fn query_adapter(&self, at: &mut Passive) -> Answer<Features> {
        let mut features = self.inner.query_adapter(at)?;
        if let (Fault::Says(wrong), Some(memory)) = (self.fault, &mut features.memory) {
            wrong(memory);
        }
        Ok(features)
    }

    fn create_allocations(&self, at: &mut Passive, births: Births<'_>) -> Answer<Born> {
        let mut born = self.inner.create_allocations(at, births)?;
        if let Fault::Wants(wrong) = self.fault {
            born.allocations.iter_mut().for_each(|(_, shape)| wrong(shape));
        }
        Ok(born)
    }

    fn build_paging(&self, at: &mut Passive, building: &mut Building<'_>) -> Answer<()> {
        let wrong = match self.fault {
            Fault::Builds(wrong) => wrong(building),
            _ => None,
        };
        wrong.unwrap_or_else(|| self.inner.build_paging(at, building))
    }
}

fn first(memory: &mut MemoryFeatures, number: u32) -> &mut kernel::segment::SegmentShape {
    let place = usize::try_from(number).unwrap_or(1) - 1;
    &mut memory.segments[place]
}

pub(crate) const OVERLAPS: Fault = Fault::Says(|it| {
    let base = first(it, APERTURE).base;
    first(it, VISIBLE).base = base;
});
pub(crate) const COMMITS_TOO_LITTLE: Fault = Fault::Says(|it| first(it, LOCAL).commit_limit = 4096);
pub(crate) const AGP_AND_MORE: Fault = Fault::Says(|it| first(it, APERTURE).flags.agp = true);
pub(crate) const COHERENT_MEMORY: Fault = Fault::Says(|it| first(it, LOCAL).flags.coherent = true);
pub(crate) const TWO_WINDOWS: Fault =
    Fault::Says(|it| first(it, VISIBLE).flags.host_aperture = true);
pub(crate) const KEPT_IN_PART: Fault =
    Fault::Says(|it| first(it, LOCAL).flags.partly_preserved = true);
pub(crate) const FALLING_BANKS: Fault = Fault::Says(|it| {
    let local = first(it, LOCAL);
    (local.flags.banked, local.banks) = (true, vec![0x2000, 0x1000]);
});
pub(crate) const BUFFERS_IN_MEMORY: Fault = Fault::Says(|it| it.paging.segment = LOCAL);
pub(crate) const MEMORY_FIRST: Fault = Fault::Says(|it| it.segments.reverse());
pub(crate) const LARGE_PAGES: Fault = Fault::Says(|it| first(it, LOCAL).flags.large_pages = true);

pub(crate) const PREFERS_ELSEWHERE: Fault = Fault::Wants(|it| {
    it.wants.segments = SegmentSet::of(&[APERTURE]);
    it.wants.preferred = [None; 5];
    it.wants.preferred[0] = Some(Preference { segment: LOCAL, from_top: false });
});
pub(crate) const NOWHERE: Fault = Fault::Wants(|it| {
    it.wants.segments = SegmentSet::default();
    it.wants.preferred = [None; 5];
});
pub(crate) const EVICTS_TO_MEMORY: Fault =
    Fault::Wants(|it| it.wants.evict = SegmentSet::of(&[LOCAL]));
pub(crate) const WORTHLESS: Fault = Fault::Wants(|it| it.wants.priority = 0);
pub(crate) const OUT_OF_SIGHT: Fault = Fault::Wants(|it| {
    it.wants.segments = SegmentSet::of(&[LOCAL]);
    it.wants.preferred = [None; 5];
});

pub(crate) const PAGING_STATUS: Fault = Fault::Builds(|_| Some(Err(Refusal::Invalid)));
pub(crate) const BEYOND_THE_BUFFER: Fault = Fault::Builds(|building| {
    building.written = u32::try_from(building.buffer.len()).unwrap_or(u32::MAX).saturating_add(4);
    Some(Ok(()))
});
pub(crate) const GETS_NOWHERE: Fault = Fault::Builds(|_| Some(Err(Refusal::NoRoom)));
pub(crate) const ALWAYS_BUSY: Fault = Fault::Builds(|building| {
    matches!(building.operation, Operation::InitContext { .. }).then_some(Err(Refusal::Busy))
});
