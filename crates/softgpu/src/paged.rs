//! What the driver does on an adapter with memory: it tracks where allocations are resident, and
//! has engines save contexts.

use crate::allocation::Allocation;
use crate::blocks::{Blocks, build};
use crate::description::anywhere;
use crate::driver::SoftGpu;
use crate::engine::{Completion, RenderWork, SaveTarget, Target};
use crate::plan::{APERTURE_BASE, PAGE};
use crate::records::{Commands, Records, SaveArea};
use crate::save_area::{AREA_SIZE, REGISTERS_SIZE, Registers, SAVED_AT};
use flight::{DeviceLevel, Fence, HardwareModel, Passive};
use kernel::callbacks::KernelCallbacks;
use kernel::miniport::{DriverError, DriverResult};
use kernel::operation::{CreateContextAllocationArgs, Operation, TransferEnd};
use kernel::segment::PlacementFlags;
use std::ops::Range;
use std::sync::Weak;

impl SoftGpu {
    /// The saved registers of each context that has a save area, oldest first; `None` where the
    /// area cannot be read. For tests.
    pub fn saved(&self) -> Vec<Option<Registers>> {
        let places = self.area_addresses();
        let read = |address: u64| {
            let mut bytes = [0; REGISTERS_SIZE];
            let there = self.gpu.peek(address.saturating_add(SAVED_AT), &mut bytes);
            if there { Registers::decode(&bytes) } else { None }
        };
        places.into_iter().map(|value| value.and_then(read)).collect()
    }

    /// The addresses of the save areas, in the same order. For tests.
    pub fn area_addresses(&self) -> Vec<Option<u64>> {
        self.state().records.area_addresses()
    }

    /// Bytes of an allocation at its current location.
    pub(crate) fn peek(&self, address: u64, size: u64, range: Range<u64>) -> Option<Vec<u8>> {
        let inside = range.start <= range.end && range.end <= size;
        let length = range.end.checked_sub(range.start).filter(|_| inside)?;
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.gpu.peek(address.checked_add(range.start)?, &mut bytes).then_some(bytes)
    }

    /// Frees the save areas of all contexts, which continue to run; creates new ones if `again`.
    ///
    /// A driver may do that at any time. What was saved in an old area is lost. A context that an
    /// engine has not saved yet is saved to the new area, if a packet is submitted before that.
    pub fn change_areas(&self, at: &mut Passive, again: bool) -> DriverResult<()> {
        let callbacks = self.callbacks()?;
        let _areas = self.areas.lock();
        let all = self.state().records.with_areas();
        for (context, before) in all {
            let area = if again {
                let area = build(&**callbacks.pool(), |blocks| {
                    self.request_area(at, &callbacks, blocks, before.owner)
                })?;
                area.map(|save_area| SaveArea { replacement: true, ..save_area })
            } else {
                None
            };
            callbacks.destroy_context_allocation(at, before.kernel_handle)?;
            self.remove_handles(|records, completions| {
                records.change_area(context, area, completions);
            })?;
        }
        Ok(())
    }

    /// Requests a save area from the kernel for a new context. A failure is tolerated.
    pub(crate) fn make_area(
        &self,
        at: &mut Passive,
        callbacks: &KernelCallbacks,
        blocks: &mut Blocks<'_>,
        (device, context): (usize, usize),
    ) -> DriverResult<Option<SaveArea>> {
        let device = self.state().records.kernel_handle(device).ok_or(DriverError::Invalid)?;
        self.request_area(at, callbacks, blocks, (device, context))
    }

    /// The same, with the kernel's handles of the device and the context.
    fn request_area(
        &self,
        at: &mut Passive,
        callbacks: &KernelCallbacks,
        blocks: &mut Blocks<'_>,
        (device, context): (usize, usize),
    ) -> DriverResult<Option<SaveArea>> {
        let driver_handle = blocks.allocate()?;
        // The kernel may request its first bytes before this call returns.
        self.state().records.add_area(driver_handle, AREA_SIZE);
        let mut requirements = anywhere();
        // A WDDM 1.x driver learns the area's address from the operations on it.
        let told = self.lists.is_none();
        requirements.flags =
            PlacementFlags { physical: told, notify: told, ..PlacementFlags::default() };
        let args = CreateContextAllocationArgs {
            device,
            context,
            size: AREA_SIZE,
            requirements,
            driver_handle,
            ..CreateContextAllocationArgs::default()
        };
        let made = callbacks.create_context_allocation(at, &args);
        if made.is_err() {
            self.state().records.remove_area(driver_handle);
        }
        match made {
            Ok(name) => Ok(Some(SaveArea {
                driver_handle,
                kernel_handle: name,
                owner: (device, context),
                replacement: false,
            })),
            Err(DriverError::Unsupported) => {
                blocks.free(driver_handle);
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Submits a packet to the hardware, with the current addresses of its allocations.
    pub(crate) fn push_render_work(
        &self,
        context_word: usize,
        (node, fence): (u32, Fence),
        commands: Commands,
        fetch: Option<(u64, u32)>,
    ) -> DriverResult<()> {
        let gone = Target { driver_handle: None, address: None, size: u64::MAX };
        let find =
            |it: Weak<Allocation>| Ok(it.upgrade().map_or(gone, |allocation| allocation.target()));
        let commands = commands
            .into_iter()
            .map(|command| command.resolve(find))
            .collect::<DriverResult<_>>()?;
        let saving = self.state().records.save_target(context_word);
        let (context, area) = saving.ok_or(DriverError::Invalid)?;
        let root = self.state().records.root(context_word);
        let drawing =
            RenderWork { node, fence, context, area, commands, root, fetch, started: false };
        self.gpu.push_render(drawing);
        Ok(())
    }

    /// Reports to the kernel what ended on a node, in order. An engine completes packets in order,
    /// so the last fence stands for those before it. Returns whether anything ended.
    pub(crate) fn report(
        &self,
        at: &mut DeviceLevel,
        callbacks: &KernelCallbacks,
        node: u32,
    ) -> bool {
        let completions = self.gpu.take_completions(node);
        let mut newest = None;
        for it in &completions {
            match *it {
                Completion::Done(fence) => newest = Some(fence),
                Completion::Faulted(fence, driver_handle) => {
                    if let Some(done) = newest.take() {
                        callbacks.notify_interrupt(at, node, done);
                    }
                    callbacks.notify_fault(at, node, fence, driver_handle);
                }
                Completion::PageFaulted(fence, address) => {
                    if let Some(done) = newest.take() {
                        callbacks.notify_interrupt(at, node, done);
                    }
                    callbacks.notify_page_fault(at, node, fence, address);
                }
                Completion::Preempted(preemption) => {
                    if let Some(done) = newest.take() {
                        callbacks.notify_interrupt(at, node, done);
                    }
                    callbacks.notify_preempted(at, node, preemption, self.gpu.done(node));
                }
            }
        }
        if let Some(done) = newest {
            callbacks.notify_interrupt(at, node, done);
        }
        !completions.is_empty()
    }
}

/// Records where an operation places allocations.
///
/// `Operation::Notify` reports the residency of an allocation; the address of a context's save area
/// is taken from any operation on it.
pub(crate) fn note_residency(records: &Records, operation: &Operation<'_>) {
    match *operation {
        Operation::Notify { driver_handle, address, resident, .. } => {
            for it in [records.allocation(driver_handle), records.area(driver_handle)]
                .into_iter()
                .flatten()
            {
                if resident { it.set_resident(address) } else { it.set_evicted(address) }
            }
        }
        Operation::Transfer(ref it) => {
            let Some(area) = it.driver_handle.and_then(|driver_handle| records.area(driver_handle))
            else {
                return;
            };
            if let TransferEnd::Segment { address, .. } = it.from {
                area.set_evicted(address);
            }
            if let TransferEnd::Segment { address, .. } = it.to {
                area.set_resident(address);
            }
        }
        Operation::InitContext {
            driver_handle,
            location: TransferEnd::Segment { address, .. },
            ..
        } => {
            if let Some(area) = records.area(driver_handle) {
                area.set_resident(address);
            }
        }
        Operation::MapAperture { driver_handle: Some(driver_handle), page, .. } => {
            if let Some(area) = records.area(driver_handle) {
                area.set_resident(APERTURE_BASE.saturating_add(page.saturating_mul(PAGE)));
            }
        }
        Operation::UnmapAperture { driver_handle: Some(driver_handle), page, .. } => {
            if let Some(area) = records.area(driver_handle) {
                area.set_evicted(APERTURE_BASE.saturating_add(page.saturating_mul(PAGE)));
            }
        }
        _ => (),
    }
}

impl Records {
    /// The number of a context, and where an engine saves it.
    pub(crate) fn save_target(&self, context: usize) -> Option<(u64, SaveTarget)> {
        let (number, area) = self.context(context)?;
        let area = match area {
            None => SaveTarget::None,
            Some(SaveArea { driver_handle, replacement, .. }) => {
                let area = self.area(driver_handle)?;
                match area.address() {
                    Some(address) => SaveTarget::At(address),
                    // The kernel makes the area resident there for the packets that follow.
                    None if replacement && !area.was_resident() => SaveTarget::None,
                    None => SaveTarget::NotResident(driver_handle),
                }
            }
        };
        Some((number, area))
    }
}
