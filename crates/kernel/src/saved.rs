//! Allocations that a driver makes for its contexts: where engines save what they were at.
//!
//! # Invariants
//!
//! 1. One is there whenever a packet of its context goes to the hardware, and stays while that
//!    context is current on a node: until a packet of another one, or a switch, has passed.
//! 2. A driver may free one at any moment. Its name is gone at once, its memory when no node
//!    can save into it and no paging work is pending.

mod check;
mod run;

use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::miniport::{Answer, Refusal};
use crate::operation::{ContextMemoryOrder, PAGE};
use crate::world::World;
use flight::{Kind, Passive, Subject, What};

const DESTROY: &str = "DxgkCbDestroyContextAllocation";

/// An allocation that a driver made for a context, or for all of a device.
pub(crate) struct Saved {
    pub(crate) adapter: u32,
    pub(crate) device: u32,
    /// None: it is for all contexts of the device.
    pub(crate) context: Option<u32>,
    pub(crate) extent: u32,
    pub(crate) word: usize,
    /// The kernel's name for it.
    pub(crate) name: Handle,
    /// The driver has freed it, or its owner is gone.
    pub(crate) freed: bool,
}

impl Kernel {
    pub(crate) fn create_context_memory(
        &self,
        _at: &mut Passive,
        adapter: Subject,
        order: &ContextMemoryOrder,
    ) -> Answer<usize> {
        let world = &mut *self.world.hold();
        world.memory(adapter.number).ok_or(Refusal::Unsupported)?;
        let (device, context) = self.judge_owner(world, adapter, order)?;
        self.judge_order(world, adapter, order)?;
        let name = world.kernel_names.reserve().map_err(|_| Refusal::NoMemory)?;
        let handle = name.handle();
        let number = world.saved.next();
        let subject = Kind::Saved.nr(number);
        let extent = world.extents.add(Extent::new(
            adapter.number,
            subject,
            order.word,
            order.size,
            order.alignment,
            order.wants,
        ));
        let saved = Saved {
            adapter: adapter.number,
            device,
            context,
            extent,
            word: order.word,
            name: handle,
            freed: false,
        };
        world.saved.add(saved);
        match context.and_then(|it| world.contexts.get_mut(it)) {
            Some(it) => it.saved.push(number),
            None => world.devices.get_mut(device).into_iter().for_each(|it| it.saved.push(number)),
        }
        world.kernel_names.publish(name, subject);
        let (of, bytes) = (Kind::Device.nr(device), order.size.next_multiple_of(PAGE));
        let for_context = context.map(|it| Kind::Context.nr(it));
        let (word, context) = (self.number_word(order.word), for_context);
        let created = What::SavedCreated { adapter, device: of, context, bytes, word };
        self.log.emit(subject, created);
        self.say_wanted(world, extent);
        Ok(handle.0 as usize)
    }

    pub(crate) fn destroy_context_memory(
        &self,
        _at: &mut Passive,
        adapter: Subject,
        name: usize,
    ) -> Answer<()> {
        let world = &mut *self.world.hold();
        let number = self.judge_name(world, adapter, name, DESTROY)?;
        self.free_saved(world, number, false);
        Ok(())
    }

    /// Ends a name. The memory goes when nobody can save into it.
    pub(crate) fn free_saved(&self, world: &mut World, number: u32, forgotten: bool) {
        self.unname_saved(world, number, forgotten);
        self.settle_saved(world);
    }

    fn unname_saved(&self, world: &mut World, number: u32, forgotten: bool) {
        let Some(it) = world.saved.get_mut(number) else { return };
        if std::mem::replace(&mut it.freed, true) {
            return;
        }
        let (name, context, device) = (it.name, it.context, it.device);
        if let Some(it) = context.and_then(|it| world.contexts.get_mut(it)) {
            it.saved.retain(|it| *it != number);
        } else if let Some(it) = world.devices.get_mut(device) {
            it.saved.retain(|it| *it != number);
        }
        let _ = world.kernel_names.close(name); // It was live: it was this one's.
        self.log.emit(Kind::Saved.nr(number), What::SavedFreed { forgotten });
        world.freed.push(number);
    }

    /// Freed ones that no node can save into any more give their memory back. Where a context is
    /// current with nothing to do, a switch is asked for.
    pub(crate) fn settle_saved(&self, world: &mut World) {
        let mut waiting = Vec::new();
        for number in std::mem::take(&mut world.freed) {
            match world.saver_of(number) {
                Saver::None => {
                    let extent = world.saved.get(number).map(|it| it.extent);
                    if let Some(extent) = extent {
                        self.release_extent(world, extent);
                    }
                }
                Saver::Working => waiting.push(number),
                Saver::Current { adapter, node } => {
                    waiting.push(number);
                    let place =
                        world.adapters.get_mut(adapter).and_then(|it| it.nodes.get_mut(node));
                    if place.is_some_and(|it| !std::mem::replace(&mut it.switching, true)) {
                        self.start_switch(world, adapter, node);
                    }
                }
            }
        }
        world.freed.append(&mut waiting);
    }

    /// An owner is gone: what its driver forgot is said, and reclaimed.
    ///
    /// WINDOWS: nothing is documented about what a driver forgets; it is named at its owner,
    /// then reclaimed (our decision).
    pub(crate) fn forget_saved(&self, world: &mut World, owner: Subject, place: &'static str) {
        let left: Vec<u32> = match owner.kind {
            Kind::Context => world.contexts.get(owner.number).map(|it| it.saved.clone()),
            _ => world.devices.get(owner.number).map(|it| it.saved.clone()),
        }
        .unwrap_or_default();
        self.judge_left(owner, place, &left);
        for number in left {
            self.free_saved(world, number, true);
        }
    }

    /// An adapter has stopped, and with it its engines: what its driver forgot is said, and all
    /// that is left is reclaimed.
    pub(crate) fn sweep_saved(&self, world: &mut World, adapter: Subject) {
        let mine = |it: &Saved| it.adapter == adapter.number;
        let all: Vec<(u32, bool)> =
            world.saved.iter().filter(|it| mine(it.1)).map(|it| (it.0, it.1.freed)).collect();
        let left: Vec<u32> = all.iter().filter(|it| !it.1).map(|it| it.0).collect();
        self.judge_left(adapter, "DxgkDdiStopDevice", &left);
        for number in left {
            self.unname_saved(world, number, true);
        }
        for (number, _) in all {
            world.freed.retain(|it| *it != number);
            let extent = world.saved.get(number).map(|it| it.extent);
            if let Some(extent) = extent {
                self.drop_extent(world, extent);
            }
        }
    }
}

/// Whether a node can save into something.
enum Saver {
    /// None can.
    None,
    /// One has packets of its context to do.
    Working,
    /// One has its context current, and nothing of it to do.
    Current { adapter: u32, node: usize },
}
impl World {
    /// A driver has ended a device or a context: it may not name it any more.
    pub(crate) fn end_kernel_name(&mut self, subject: Subject) {
        let name = match subject.kind {
            Kind::Context => self.contexts.get(subject.number).map(|it| it.name),
            _ => self.devices.get(subject.number).map(|it| it.name),
        };
        if let Some(name) = name {
            let _ = self.kernel_names.close(name); // It was live: it was this one's.
        }
    }

    /// Whether it is an allocation for contexts that its driver has freed.
    pub(crate) fn is_freed(&self, owner: Subject) -> bool {
        owner.kind == Kind::Saved && self.saved.get(owner.number).is_some_and(|it| it.freed)
    }

    fn saver_of(&self, number: u32) -> Saver {
        let Some(it) = self.saved.get(number) else { return Saver::None };
        let mine = |context: u32, device: u32| match it.context {
            Some(own) => own == context,
            None => device == it.device,
        };
        let nodes = self.adapters.get(it.adapter).map(|it| it.nodes.as_slice()).unwrap_or_default();
        if nodes
            .iter()
            .flat_map(|it| &it.queue)
            .any(|it| it.context != 0 && mine(it.context, it.device))
        {
            return Saver::Working;
        }
        let current = nodes.iter().position(|it| it.may_save(mine));
        current.map_or(Saver::None, |node| Saver::Current { adapter: it.adapter, node })
    }
}
