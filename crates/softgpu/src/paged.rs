//! What the driver does on an adapter with memory: it knows where things are, and has engines
//! save contexts.

use crate::allocation::Allocation;
use crate::area::{AREA_SIZE, REGISTERS_SIZE, Registers, SAVED_AT};
use crate::blocks::{Blocks, build};
use crate::description::anywhere;
use crate::driver::SoftGpu;
use crate::engine::{Area, Drawing, Ended, Target};
use crate::plan::{APERTURE_BASE, PAGE};
use crate::records::{Commands, Records, SaveArea};
use flight::{DeviceLevel, Fence, Machine, Passive};
use kernel::miniport::{Answer, Refusal};
use kernel::operation::{ContextMemoryOrder, End, Operation};
use kernel::segment::WantsFlags;
use kernel::services::Services;
use std::ops::Range;
use std::sync::{PoisonError, Weak};

impl SoftGpu {
    /// What the engines saved of each context that has a save area, the oldest first; `None`,
    /// where nothing is there to read. For tests.
    pub fn saved(&self) -> Vec<Option<Registers>> {
        let places = self.area_addresses();
        let read = |address: u64| {
            let mut bytes = [0; REGISTERS_SIZE];
            let there = self.gpu.peek(address.saturating_add(SAVED_AT), &mut bytes);
            if there { Registers::decode(&bytes) } else { None }
        };
        places.into_iter().map(|it| it.and_then(read)).collect()
    }

    /// Where the save areas are, in the same order. For tests.
    pub fn area_addresses(&self) -> Vec<Option<u64>> {
        self.state().records.area_places()
    }

    /// Bytes of an allocation where they are now.
    pub(crate) fn peek(&self, address: u64, size: u64, range: Range<u64>) -> Option<Vec<u8>> {
        let inside = range.start <= range.end && range.end <= size;
        let length = range.end.checked_sub(range.start).filter(|_| inside)?;
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.gpu.peek(address.checked_add(range.start)?, &mut bytes).then_some(bytes)
    }

    /// Frees the save areas of all contexts, while these go on, and makes new ones if `again`.
    ///
    /// A driver may do that at any moment. What was saved in an old area is lost; what an engine
    /// has not saved yet goes into the new one, if a packet comes before it does.
    pub fn change_areas(&self, at: &mut Passive, again: bool) -> Answer<()> {
        let services = self.services()?;
        let _areas = self.areas.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.state().records.with_areas();
        for (context, before) in all {
            let area = if again {
                let area = build(&**services.pool(), |blocks| {
                    self.order_area(at, &services, blocks, before.owner)
                })?;
                area.map(|it| SaveArea { second: true, ..it })
            } else {
                None
            };
            services.destroy_context_memory(at, before.name)?;
            self.end(|records, ended| records.change_area(context, area, ended))?;
        }
        Ok(())
    }

    /// Has the kernel make a save area for a new context. A kernel that makes none is one to
    /// live with.
    pub(crate) fn make_area(
        &self,
        at: &mut Passive,
        services: &Services,
        blocks: &mut Blocks<'_>,
        (device, context): (usize, usize),
    ) -> Answer<Option<SaveArea>> {
        let device = self.state().records.kernel_name(device).ok_or(Refusal::Invalid)?;
        self.order_area(at, services, blocks, (device, context))
    }

    /// As above, by what the kernel calls both.
    fn order_area(
        &self,
        at: &mut Passive,
        services: &Services,
        blocks: &mut Blocks<'_>,
        (device, context): (usize, usize),
    ) -> Answer<Option<SaveArea>> {
        let word = blocks.take()?;
        // The kernel may ask for its first bytes before it has answered.
        self.state().records.add_area(word, AREA_SIZE);
        let mut wants = anywhere();
        // Where an area is, a driver of WDDM 1.x sees from the operations on it.
        let told = self.lists.is_none();
        wants.flags = WantsFlags { physical: told, notify: told, ..WantsFlags::default() };
        let order = ContextMemoryOrder {
            device,
            context,
            size: AREA_SIZE,
            wants,
            word,
            ..ContextMemoryOrder::default()
        };
        let made = services.create_context_memory(at, &order);
        if made.is_err() {
            self.state().records.end_area(word);
        }
        match made {
            Ok(name) => Ok(Some(SaveArea { word, name, owner: (device, context), second: false })),
            Err(Refusal::Unsupported) => {
                blocks.give_back(word);
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Gives a packet to the hardware, with the addresses at which things are now.
    pub(crate) fn draw(
        &self,
        context_word: usize,
        (node, fence): (u32, Fence),
        commands: Commands,
        fetch: Option<(u64, u32)>,
    ) -> Answer<()> {
        let gone = Target { word: None, address: None, size: u64::MAX };
        let find = |it: Weak<Allocation>| Ok(it.upgrade().map_or(gone, |it| it.target()));
        let commands = commands.into_iter().map(|it| it.resolve(find)).collect::<Answer<_>>()?;
        let saving = self.state().records.saving(context_word);
        let (context, area) = saving.ok_or(Refusal::Invalid)?;
        let root = self.state().records.root(context_word);
        let drawing = Drawing { node, fence, context, area, commands, root, fetch, begun: false };
        self.gpu.push_drawing(drawing);
        Ok(())
    }

    /// Tells the kernel of what ended on a node, in order; an engine ends packets in theirs, so
    /// the last one stands for those before it. Answers whether anything did.
    pub(crate) fn report(&self, at: &mut DeviceLevel, services: &Services, node: u32) -> bool {
        let ended = self.gpu.take_ended(node);
        let mut newest = None;
        for it in &ended {
            match *it {
                Ended::Done(fence) => newest = Some(fence),
                Ended::Faulted(fence, word) => {
                    if let Some(done) = newest.take() {
                        services.notify_interrupt(at, node, done);
                    }
                    services.notify_fault(at, node, fence, word);
                }
                Ended::PageFaulted(fence, address) => {
                    if let Some(done) = newest.take() {
                        services.notify_interrupt(at, node, done);
                    }
                    services.notify_page_fault(at, node, fence, address);
                }
                Ended::Preempted(preemption) => {
                    if let Some(done) = newest.take() {
                        services.notify_interrupt(at, node, done);
                    }
                    services.notify_preempted(at, node, preemption, self.gpu.done(node));
                }
            }
        }
        if let Some(done) = newest {
            services.notify_interrupt(at, node, done);
        }
        !ended.is_empty()
    }
}

/// Remembers where an operation puts things.
///
/// Of allocations the driver is told; where the area of a context is, it sees from any
/// operation on it.
pub(crate) fn note(records: &Records, operation: &Operation<'_>) {
    match *operation {
        Operation::Notify { word, address, resident, .. } => {
            for it in [records.allocation(word), records.area(word)].into_iter().flatten() {
                if resident { it.comes(address) } else { it.leaves(address) }
            }
        }
        Operation::Transfer(ref it) => {
            let Some(area) = it.word.and_then(|word| records.area(word)) else { return };
            if let End::Segment { address, .. } = it.from {
                area.leaves(address);
            }
            if let End::Segment { address, .. } = it.to {
                area.comes(address);
            }
        }
        Operation::InitContext { word, place: End::Segment { address, .. }, .. } => {
            if let Some(area) = records.area(word) {
                area.comes(address);
            }
        }
        Operation::MapAperture { word: Some(word), page, .. } => {
            if let Some(area) = records.area(word) {
                area.comes(APERTURE_BASE.saturating_add(page.saturating_mul(PAGE)));
            }
        }
        Operation::UnmapAperture { word: Some(word), page, .. } => {
            if let Some(area) = records.area(word) {
                area.leaves(APERTURE_BASE.saturating_add(page.saturating_mul(PAGE)));
            }
        }
        _ => (),
    }
}

impl Records {
    /// The number of a context, and where an engine saves it.
    pub(crate) fn saving(&self, context: usize) -> Option<(u64, Area)> {
        let (number, area) = self.context(context)?;
        let area = match area {
            None => Area::None,
            Some(SaveArea { word, second, .. }) => {
                let area = self.area(word)?;
                match area.place() {
                    Some(address) => Area::At(address),
                    // The kernel has it there for the packets that come after it.
                    None if second && !area.was_there() => Area::None,
                    None => Area::Absent(word),
                }
            }
        };
        Some((number, area))
    }
}
