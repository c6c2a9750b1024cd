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

use crate::context::Context;
use crate::device::Device;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::Owner;
use crate::miniport::{Answer, Refusal};
use crate::operation::{ContextMemoryOrder, PAGE};
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::{Passive, What};

const DESTROY: &str = "DxgkCbDestroyContextAllocation";

/// An allocation that a driver made for a context, or for all of a device.
pub(crate) struct Saved {
    pub(crate) adapter: Id<Adapter>,
    pub(crate) device: Id<Device>,
    /// None: it is for all contexts of the device.
    pub(crate) context: Option<Id<Context>>,
    pub(crate) extent: Id<Extent>,
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
        adapter: Id<Adapter>,
        order: &ContextMemoryOrder,
    ) -> Answer<usize> {
        let world = &mut *self.world.hold();
        world.memory(adapter).ok_or(Refusal::Unsupported)?;
        let (device, context) = self.judge_owner(world, adapter, order)?;
        self.judge_order(world, adapter, order)?;
        let name = world.kernel_names.reserve().map_err(|_| Refusal::NoMemory)?;
        let handle = name.handle();
        let number = world.saved.reserve();
        let subject = number.subject();
        let extent = world.extents.insert(Extent::new(
            adapter,
            Owner::Saved(number),
            order.word,
            order.size,
            order.alignment,
            order.wants,
        ));
        let saved = Saved {
            adapter,
            device,
            context,
            extent,
            word: order.word,
            name: handle,
            freed: false,
        };
        world.saved.fill(number, saved);
        match context.and_then(|it| world.contexts.get_mut(it)) {
            Some(it) => it.saved.push(number),
            None => world.devices.get_mut(device).into_iter().for_each(|it| it.saved.push(number)),
        }
        world.kernel_names.publish(name, number.into());
        let (of, bytes) = (device.subject(), order.size.next_multiple_of(PAGE));
        let for_context = context.map(Id::subject);
        let (word, context) = (self.number_word(order.word), for_context);
        let created =
            What::SavedCreated { adapter: adapter.subject(), device: of, context, bytes, word };
        self.log.emit(subject, created);
        self.say_wanted(world, extent);
        Ok(handle.0 as usize)
    }

    pub(crate) fn destroy_context_memory(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        name: usize,
    ) -> Answer<()> {
        let world = &mut *self.world.hold();
        let number = self.judge_name(world, adapter, name, DESTROY)?;
        self.free_saved(world, number, false);
        Ok(())
    }

    /// Ends a name. The memory goes when nobody can save into it.
    pub(crate) fn free_saved(&self, world: &mut World, number: Id<Saved>, forgotten: bool) {
        self.unname_saved(world, number, forgotten);
        self.settle_saved(world);
    }

    fn unname_saved(&self, world: &mut World, number: Id<Saved>, forgotten: bool) {
        let it = &mut world.saved[number];
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
        self.log.emit(number.subject(), What::SavedFreed { forgotten });
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
    pub(crate) fn forget_saved(
        &self,
        world: &mut World,
        owner: impl Into<SavedOwner>,
        place: &'static str,
    ) {
        let (owner, left) = match owner.into() {
            SavedOwner::Context(id) => (id.subject(), world.contexts[id].saved.clone()),
            SavedOwner::Device(id) => (id.subject(), world.devices[id].saved.clone()),
        };
        self.judge_left(owner, place, &left);
        for number in left {
            self.free_saved(world, number, true);
        }
    }

    /// An adapter has stopped, and with it its engines: what its driver forgot is said, and all
    /// that is left is reclaimed.
    pub(crate) fn sweep_saved(&self, world: &mut World, adapter: Id<Adapter>) {
        let mine = |it: &Saved| it.adapter == adapter;
        let all: Vec<(Id<Saved>, bool)> =
            world.saved.iter().filter(|it| mine(it.1)).map(|it| (it.0, it.1.freed)).collect();
        let left: Vec<Id<Saved>> = all.iter().filter(|it| !it.1).map(|it| it.0).collect();
        self.judge_left(adapter.subject(), "DxgkDdiStopDevice", &left);
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

/// What a driver makes context allocations for, and names by the kernel's handles.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SavedOwner {
    Context(Id<Context>),
    Device(Id<Device>),
}

impl From<Id<Context>> for SavedOwner {
    fn from(id: Id<Context>) -> Self {
        Self::Context(id)
    }
}

impl From<Id<Device>> for SavedOwner {
    fn from(id: Id<Device>) -> Self {
        Self::Device(id)
    }
}

/// Whether a node can save into something.
enum Saver {
    /// None can.
    None,
    /// One has packets of its context to do.
    Working,
    /// One has its context current, and nothing of it to do.
    Current { adapter: Id<Adapter>, node: usize },
}
impl World {
    /// A driver has ended a device or a context: it may not name it any more.
    pub(crate) fn end_kernel_name(&mut self, owner: impl Into<SavedOwner>) {
        let name = match owner.into() {
            SavedOwner::Context(id) => self.contexts[id].name,
            SavedOwner::Device(id) => self.devices[id].name,
        };
        let _ = self.kernel_names.close(name); // It was live: it was this one's.
    }

    /// Whether it is an allocation for contexts that its driver has freed.
    pub(crate) fn is_freed(&self, owner: Owner) -> bool {
        matches!(owner, Owner::Saved(saved) if self.saved[saved].freed)
    }

    fn saver_of(&self, number: Id<Saved>) -> Saver {
        let it = &self.saved[number];
        let mine = |context: Id<Context>, device: Id<Device>| match it.context {
            Some(own) => own == context,
            None => device == it.device,
        };
        let nodes = self.adapters.get(it.adapter).map(|it| it.nodes.as_slice()).unwrap_or_default();
        if nodes
            .iter()
            .flat_map(|it| &it.queue)
            .filter_map(|it| it.of)
            .any(|(context, device)| mine(context, device))
        {
            return Saver::Working;
        }
        let current = nodes.iter().position(|it| it.may_save(mine));
        current.map_or(Saver::None, |node| Saver::Current { adapter: it.adapter, node })
    }
}
