//! The memory of hardware without a model: what the memory observer sees of it, and what it does not.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::segment::SegmentInfo;
use crate::kernel::Kernel;
use crate::memory::step_context::StepContext;
use crate::memory::{Paging, PagingOperation, PagingStep};
use flight::{CpuVisibleMemory, Ram, Run, Subject};

/// The memory that the CPU sees, if there is no model of the hardware that can be asked.
pub(crate) fn visible_memory(adapter: &Adapter) -> Vec<CpuVisibleMemory> {
    let modeled = adapter.driver.hardware.models_hardware();
    let Some(memory) = adapter.memory.as_ref().filter(|_| !modeled) else { return Vec::new() };
    memory.segments.iter().filter_map(|segment| visible(&segment.info)).collect()
}

/// The memory of a segment that the CPU sees as a whole.
fn visible(info: &SegmentInfo) -> Option<CpuVisibleMemory> {
    let flags = info.flags;
    let is_whole = flags.cpu_visible && !flags.aperture && !flags.host_aperture;
    let physical = info.cpu_address.filter(|_| is_whole)?;
    Some(CpuVisibleMemory { address: info.base, physical, bytes: info.size })
}

/// Why the bytes of a segment cannot be looked at, if they cannot.
pub(crate) fn why_unseen(info: &SegmentInfo, ram: &dyn Ram) -> Option<&'static str> {
    if info.flags.aperture {
        return Some(
            "an aperture: what the GPU finds there is not known, only the pages behind it",
        );
    }
    let Some(it) = visible(info) else {
        return Some("the CPU does not see it: they are judged when a transfer brings them back");
    };
    let last = it.physical.saturating_add(it.bytes).saturating_sub(1);
    let exists = [it.physical, last].iter().all(|address| ram.read(*address, &mut [0]));
    let why = "no memory of the machine is at its CpuTranslatedAddress: they are judged when a \
               transfer brings them back";
    (!exists).then_some(why)
}

impl Kernel {
    /// Writes over memory that the CPU sees and that a fill has to overwrite, so that a fill which
    /// leaves it out is seen. `built` are the steps in front of the fill in its paging buffer.
    ///
    /// WINDOWS: the contents of memory before a fill are not defined (our reading).
    pub(crate) fn overwrite_filled(
        &self,
        adapter: Id<Adapter>,
        step: &PagingStep,
        step_context: &StepContext,
        built: &[PagingStep],
    ) {
        if step.operation != PagingOperation::Fill || self.observer.get().is_none() {
            return;
        }
        let (address, bytes) = (step_context.address, step_context.bytes);
        let mut visible = step_context.visible.iter();
        let physical = visible.find_map(|memory| memory.physical_address(address, bytes));
        let Some(start) = physical.filter(|_| !step_context.locked) else { return };
        let state = self.state.lock();
        // What leaves the range may still be read.
        let may_overlap = |other: &PagingStep| {
            let range = |step: &PagingStep, bytes: u64| {
                let start = step.location.offset;
                (step.location.segment, start, start.saturating_add(bytes))
            };
            let Some(it) = state.memory.extents.get(other.extent) else { return true };
            // It also reads another range.
            if matches!(other.operation, PagingOperation::Relocate { .. }) {
                return true;
            }
            let (mine, theirs) = (range(step, bytes), range(other, it.bytes));
            mine.0 == theirs.0 && mine.1 < theirs.2 && theirs.1 < mine.2
        };
        let nodes = state.adapters.get(adapter).map(|adapter| adapter.nodes.as_slice());
        let in_flight = nodes.unwrap_or_default().iter().flat_map(|node| &node.queue);
        let batches = in_flight.filter_map(|packet| packet.batch.as_ref());
        let mut others = batches.flat_map(|batch| &batch.done).chain(built);
        if !others.any(may_overlap) {
            step_context.ram.fill(Run { start, bytes }, pattern_of(step_context.owner));
        }
    }
}

/// A pattern that contents do not have by chance, another one for each object. Its bytes are not all
/// equal: clients fill memory with equal bytes.
fn pattern_of(object: Subject) -> u32 {
    let [low, second, high, last] =
        (object.number.wrapping_mul(0x9e37_79b1) ^ 0xa5c3_1e69).to_le_bytes();
    u32::from_le_bytes([low, !low, second ^ high, last])
}

impl StepContext {
    /// Fills the pages that a transfer out has to overwrite, if its source is not seen: afterwards
    /// the pages show what was transferred. Returns the pattern.
    ///
    /// WINDOWS: the contents of the destination before a transfer are not defined (our reading).
    pub(crate) fn overwrite_pages(
        &self,
        paging: Id<Paging>,
        what: &PagingOperation,
    ) -> Option<u32> {
        let seen = |it: &CpuVisibleMemory| it.physical_address(self.address, self.bytes).is_some();
        let unseen = !self.hardware.models_hardware() && !self.visible.iter().any(seen);
        // An earlier operation may still read the pages.
        if *what != PagingOperation::PageOut || !unseen || !self.alone || self.locked {
            return None;
        }
        // Another one each time: contents can be what an earlier transfer left.
        let pattern = pattern_of(paging.subject());
        self.runs.iter().all(|run| self.ram.fill(*run, pattern)).then_some(pattern)
    }
}
