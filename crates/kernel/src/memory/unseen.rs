//! The memory of hardware without a model: what the memory observer sees of it, and what it does not.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::segment::SegmentInfo;
use crate::memory::step_context::StepContext;
use crate::memory::{Paging, PagingOperation};
use flight::{CpuVisibleMemory, Ram};

/// The memory that the CPU sees, if there is no model of the hardware that can be asked.
pub(crate) fn visible_memory(adapter: &Adapter) -> Vec<CpuVisibleMemory> {
    let modeled = adapter.driver.hardware.models_hardware();
    let Some(memory) = adapter.memory.as_ref().filter(|_| !modeled) else { return Vec::new() };
    memory.segments.iter().filter_map(|segment| visible(&segment.info)).collect()
}

/// The memory of a segment that the CPU sees as a whole.
fn visible(info: &SegmentInfo) -> Option<CpuVisibleMemory> {
    let memory = info.flags.cpu_visible && !info.flags.aperture;
    let physical = info.cpu_address.filter(|_| memory)?;
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

impl StepContext {
    /// Fills the pages that a transfer out has to overwrite, and returns the pattern: if its source
    /// is not seen, the pages show what was transferred.
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
        let pattern = paging.subject().number.wrapping_mul(0x9e37_79b1) ^ 0xa5c3_1e69;
        self.runs.iter().all(|run| self.ram.fill(*run, pattern)).then_some(pattern)
    }
}
