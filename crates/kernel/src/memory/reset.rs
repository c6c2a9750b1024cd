//! Memory after a GPU reset: the content of all segments is lost.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::operation::{BuildPagingBufferArgs, Operation};
use crate::ddi::permit::DdiPermit;
use crate::ddi::{CallDetails, Driver};
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::{LOCATION_HAS_SEGMENT, Location, PagingOperation, PagingStep, SegmentLocation};
use crate::state::KernelState;
use flight::{Component, EventKind, Passive, RuleId, invariant};

impl Kernel {
    /// Removes all extents from an adapter's memory. The driver is notified by paging operations
    /// without content, and nothing is submitted to the hardware.
    ///
    /// WINDOWS: transfers out of memory have no bytes then, and apertures are unmapped
    /// (documented).
    pub(crate) fn discard_locations(
        &self,
        at: &mut Passive,
        driver: &Driver,
        permit: &DdiPermit<'_>,
    ) {
        let adapter = driver.adapter;
        let there = self.state.lock().resident_extents(adapter);
        for (extent, segment_location) in there {
            self.notify_discarded(at, driver, permit, extent, segment_location);
            let state = &mut *self.state.lock();
            // The memory may have been destroyed, or paged out by a plan, during the driver call.
            let Some(it) = state.memory.extents.get(extent) else { continue };
            if it.segment() != Some(segment_location.segment) {
                if let Some(observer) = self.observer.get() {
                    observer.forget(it.owner.subject());
                }
                continue;
            }
            let (extents, memory) = state.memory_mut_of(extent);
            let it = &mut extents[extent];
            let segment = memory.segments.get(segment_location.segment);
            let segment = invariant(segment, LOCATION_HAS_SEGMENT);
            let (subject, aperture) = (segment.subject, segment.info.flags.aperture);
            let why = "its GPU was reset".into();
            self.log.emit(it.owner.subject(), || EventKind::MemoryEvicted {
                segment: subject,
                discard: true,
                why,
            });
            it.uses.clear();
            // The content of an aperture is still in system memory.
            let keeps_content = aperture || it.existing.is_some();
            if !keeps_content {
                it.has_content = false;
            }
            if let Some(observer) = self.observer.get() {
                observer.forget(it.owner.subject());
            }
            state.release_location(
                extent,
                if keeps_content { Location::System } else { Location::Unbacked },
            );
        }
    }

    fn notify_discarded(
        &self,
        at: &mut Passive,
        driver: &Driver,
        permit: &DdiPermit<'_>,
        extent: Id<Extent>,
        segment_location: SegmentLocation,
    ) {
        let aperture = self.state.lock().is_aperture(driver.adapter, segment_location.segment);
        let what = if aperture { PagingOperation::Unmap } else { PagingOperation::PageOut };
        let step = PagingStep { idle: true, ..PagingStep::new(extent, what, segment_location) };
        // The memory may have been destroyed since the list was made.
        let Some(step_context) = self.state.lock().step_context(&step) else { return };
        let mut operation = step_context.operation(&step);
        if let Operation::Transfer(it) = &mut operation {
            it.bytes = 0;
        }
        let name = operation.name();
        let mut buffer = vec![0; step_context.capacity as usize];
        let (mut multipass, mut private) = (0, vec![0; step_context.private as usize]);
        let mut args = BuildPagingBufferArgs {
            operation,
            buffer: &mut buffer,
            address: 0,
            used: 0,
            written: 0,
            multipass: &mut multipass,
            private: &mut private,
        };
        let (log, adapter) = (&self.log, driver.adapter);
        let details = CallDetails { process: None, log_arguments: &|_| () };
        // The result is ignored: no commands are executed.
        let (_, touched) = driver.build_after_reset(at, permit, details, &mut args);
        let broken = touched.then(|| {
            format!("the driver touched its hardware in {name}, between a reset and the restart")
        });
        let place = "DxgkDdiBuildPagingBuffer";
        log.judge(RuleId::KMD_TDR_004, Component::Driver, adapter.subject(), place, broken);
        log.emit(adapter.subject(), || EventKind::PagingDropped {
            operation: name.into(),
            of: step_context.owner,
            bytes: 0,
        });
    }
}

impl KernelState {
    /// The extents in an adapter's memory, and their locations.
    fn resident_extents(&self, adapter: Id<Adapter>) -> Vec<(Id<Extent>, SegmentLocation)> {
        let place = |(number, it): (Id<Extent>, &Extent)| match &it.location {
            // Page tables keep their locations and are written again.
            Location::Segment { segment, range }
                if it.adapter == adapter && !it.owner.is_table() =>
            {
                Some((number, SegmentLocation { segment: *segment, offset: range.start() }))
            }
            _ => None,
        };
        self.memory.extents.iter().filter_map(place).collect()
    }

    fn is_aperture(&self, adapter: Id<Adapter>, segment: usize) -> bool {
        let memory = self.adapter_memory(adapter);
        memory
            .and_then(|memory| memory.segments.get(segment))
            .is_some_and(|segment| segment.info.flags.aperture)
    }
}
