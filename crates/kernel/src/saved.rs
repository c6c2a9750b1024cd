//! Allocations that a driver makes for its contexts: where engines save what they were at.
//!
//! # Invariants
//!
//! 1. One is there whenever a packet of its context goes to the hardware, and stays while that
//!    context is current on a node: until a packet of another one, or a switch, has passed.
//! 2. A driver may free one at any moment. Its name is gone at once, its memory when no node
//!    can save into it and no paging work is pending.

use crate::context::Context;
use crate::device::Device;
use crate::handle::{BadHandle, Handle};
use crate::kernel::Kernel;
use crate::memory::place::Plan;
use crate::memory::{Extent, Move, Spotted, Step};
use crate::miniport::{Answer, Refusal};
use crate::operation::{ContextMemoryOrder, PAGE};
use crate::refused::Refused;
use crate::world::World;
use flight::{Kind, Passive, RuleId, Subject, What, Who};

const CREATE: &str = "DxgkCbCreateContextAllocation";
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
        let created = What::SavedCreated { adapter, device: of, context: for_context, bytes };
        self.log.emit(subject, created);
        Ok(handle.0 as usize)
    }

    /// Whose it is to be: the driver names a device and a context as the kernel does.
    fn judge_owner(
        &self,
        world: &World,
        adapter: Subject,
        order: &ContextMemoryOrder,
    ) -> Answer<(u32, Option<u32>)> {
        let crooked = if order.shared && order.context != 0 {
            Some("it is to be shared across contexts, and hContext is not NULL".to_owned())
        } else if !order.shared && order.context == 0 {
            Some("hContext is NULL, and it is not to be shared across contexts".to_owned())
        } else {
            None
        };
        let refused = crooked.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_002, Who::Driver, adapter, CREATE, crooked);
        let device = world.named_by_kernel(order.device, Kind::Device);
        let device = device
            .filter(|it| world.devices.get(*it).is_some_and(|it| it.adapter == adapter.number));
        let context = world.named_by_kernel(order.context, Kind::Context);
        let context = context.filter(|it| world.contexts.get(*it).map(|it| it.device) == device);
        let lost = if device.is_none() {
            let given = world.shown(order.device);
            Some(format!("hDevice is {given}, no name the kernel gave for a device of {adapter}"))
        } else if order.context != 0 && context.is_none() {
            let given = world.shown(order.context);
            Some(format!("hContext is {given}, no name the kernel gave for a context of hDevice"))
        } else {
            None
        };
        let unknown = lost.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_003, Who::Driver, adapter, CREATE, lost);
        match device {
            Some(device) if !refused && !unknown => Ok((device, context)),
            _ => Err(Refusal::Invalid),
        }
    }

    /// Whether what it is to be is possible.
    fn judge_order(
        &self,
        world: &World,
        adapter: Subject,
        order: &ContextMemoryOrder,
    ) -> Answer<()> {
        let Some((_, memory)) = world.memory(adapter.number) else { return Err(Refusal::Invalid) };
        let wants = &order.wants;
        let aperture = |number: u32| {
            let place = usize::try_from(number).ok().and_then(|it| it.checked_sub(1))?;
            Some(memory.segments.get(place)?.shape.flags.aperture)
        };
        let broken = if order.size == 0 {
            Some("it has no size".to_owned())
        } else if wants.segments.is_empty()
            || wants.segments.iter().any(|it| aperture(it).is_none())
        {
            Some(format!("its segments {:#x} are none, or not all there", wants.segments.0))
        } else if let Some(it) =
            wants.preferred.iter().flatten().find(|it| !wants.segments.has(it.segment))
        {
            Some(format!("segment {} is preferred, but not among its segments", it.segment))
        } else if let Some(it) = wants.evict.iter().find(|it| aperture(*it) != Some(true)) {
            Some(format!("segment {it} is listed for eviction, but is no aperture"))
        } else {
            None
        };
        let refused = broken.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_004, Who::Driver, adapter, CREATE, broken);
        let seen = wants.flags.cpu_visible && wants.flags.protected;
        let elsewhere = wants.segments.iter().any(|it| aperture(it) == Some(false));
        let broken = (seen && elsewhere).then(|| {
            "it is to have an address of the CPU's (CpuVisible and Protected), and may be in \
             memory that is no aperture"
                .to_owned()
        });
        self.log.judge(RuleId::CB_CTXALLOC_005, Who::Driver, adapter, CREATE, broken);
        if refused { Err(Refusal::Invalid) } else { Ok(()) }
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

    /// What a driver names: it must be live, and of this adapter.
    fn judge_name(
        &self,
        world: &World,
        adapter: Subject,
        name: usize,
        place: &'static str,
    ) -> Answer<u32> {
        let found = u32::try_from(name).ok().map(|it| world.kernel_names.find(Handle(it)));
        let broken = match found {
            Some(Ok(it)) if it.kind == Kind::Saved => {
                let home = world.saved.get(it.number).map_or(0, |it| it.adapter);
                (home != adapter.number).then(|| {
                    format!("{it} belongs to {}, not to {adapter}", Kind::Adapter.nr(home))
                })
            }
            Some(Ok(it)) => Some(format!("{name:#x} names {it}, which is no context allocation")),
            Some(Err(BadHandle::Closed(of))) => {
                let of = of.map_or("a context allocation".to_owned(), |it| it.to_string());
                Some(format!("{of} was freed before: its name {name:#x} is stale"))
            }
            _ => Some(format!("it is {}, no name the kernel gave", world.shown(name))),
        };
        let refused = broken.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_009, Who::Driver, adapter, place, broken);
        match found {
            Some(Ok(it)) if !refused => Ok(it.number),
            _ => Err(Refusal::Invalid),
        }
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
                    extent.into_iter().for_each(|it| self.release_extent(world, it));
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

    /// An engine saved a context: where it did, an allocation for that context has to be.
    pub(crate) fn judge_save(&self, adapter: Subject, node: u32, address: u64) {
        let world = self.world.hold();
        let Some((extents, memory)) = world.memory(adapter.number) else { return };
        let nodes = world.adapters.get(adapter.number).map(|it| it.nodes.as_slice());
        let Some(on) = nodes.and_then(|it| it.get(node as usize)) else { return };
        let whose = |it: &Saved| {
            let mine = |context, device| it.context.map_or(it.device == device, |it| it == context);
            on.may_save(mine) || on.queue.iter().any(|it| mine(it.context, it.device))
        };
        let there = |it: &Saved| {
            let extent = extents.get(it.extent)?;
            let start = memory.address(extent)?;
            Some((start..start + extent.bytes).contains(&address))
        };
        let mut all = world.saved.iter().filter(|(_, it)| it.adapter == adapter.number);
        let found = all.any(|(_, it)| there(it) == Some(true) && whose(it));
        let broken = (!found).then(|| {
            format!(
                "{} saved a context at {address:#x}, where no context allocation of it is: it was \
                 freed, or never there",
                on.subject()
            )
        });
        let place = "DxgkDdiSubmitCommandVirtual";
        self.log.judge(RuleId::CB_CTXALLOC_014, Who::Driver, adapter, place, broken);
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

    fn judge_left(&self, owner: Subject, place: &'static str, left: &[u32]) {
        let what = match left {
            [] => None,
            [one] => Some(format!("{} that its driver made for it is", Kind::Saved.nr(*one))),
            _ => Some(format!("{} context allocations of its driver's are", left.len())),
        };
        let broken = what.map(|it| format!("{owner} is gone, and {it} not freed"));
        self.log.judge(RuleId::CB_CTXALLOC_013, Who::Driver, owner, place, broken);
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
            extent.into_iter().for_each(|it| self.drop_extent(world, it));
        }
    }

    /// Has everything that a context saves into there, before its packet goes to the hardware.
    pub(crate) fn ready_context(
        &self,
        at: &mut Passive,
        adapter: u32,
        context: u32,
    ) -> Result<(), Refused> {
        let wanted = {
            let world = &mut *self.world.hold();
            let wanted = world.saved_for(context);
            let mut plan = Plan::default();
            for (number, extent) in &wanted {
                let holds = world.contexts.get_mut(context).is_some_and(|it| {
                    let fresh = !it.holding.contains(number);
                    if fresh {
                        it.holding.push(*number);
                    }
                    fresh
                });
                if holds {
                    world.hold_extent(*extent, true);
                }
                if let Err(why) = self.plan_in(world, *extent, &mut plan) {
                    self.unplan(world, &mut plan);
                    self.start_paging(world, adapter, plan, None);
                    return Err(Refused::NoRoom { trim: why.missing });
                }
            }
            self.start_paging(world, adapter, plan, None);
            wanted
        };
        if wanted.is_empty() {
            return Ok(());
        }
        let about = Kind::Context.nr(context);
        let there = |world: &World| {
            wanted.iter().all(|(_, it)| world.extents.get(*it).is_none_or(|it| it.pending == 0))
        };
        let what = |_: &World| format!("what {about} saves into");
        let done = self.wait_until(at, about, what, there);
        if done { Ok(()) } else { Err(Refused::Stuck) }
    }

    /// What a context saves into may be moved, if the context is current nowhere any more.
    pub(crate) fn rest_context(&self, world: &mut World, adapter: u32, context: u32) {
        let holds = world.contexts.get(context).is_some_and(|it| !it.holding.is_empty());
        if holds && !world.is_current(adapter, context) {
            let held = world.contexts.get_mut(context).map(|it| std::mem::take(&mut it.holding));
            world.let_go(held.unwrap_or_default());
        }
    }

    /// A context is gone. While it is current on a node, that holds for it what it held.
    pub(crate) fn leave_context(&self, world: &mut World, adapter: u32, context: u32) {
        let held = world.contexts.get_mut(context).map(|it| std::mem::take(&mut it.holding));
        let held = held.unwrap_or_default();
        let nodes = world.adapters.get_mut(adapter).into_iter().flat_map(|it| &mut it.nodes);
        let mut saving = nodes.filter(|it| it.may_save(|other, _| other == context));
        match saving.next() {
            Some(node) => node.holding.extend(held.into_iter().map(|it| (context, it))),
            None => world.let_go(held),
        }
    }

    pub(crate) fn update_context_memory(
        &self,
        at: &mut Passive,
        adapter: Subject,
        name: usize,
        private: &[u8],
    ) -> Answer<()> {
        let place = "DxgkCbUpdateContextAllocation";
        let extent = {
            let world = &mut *self.world.hold();
            let number = self.judge_name(world, adapter, name, place)?;
            let own = flight::InCall::current().is_some_and(|it| it.scheduler);
            let broken = own.then(|| {
                "it was called inside a call of the GPU scheduler's class, and waits for paging \
                 work that needs the same class: it would never end"
                    .to_owned()
            });
            self.log.judge(RuleId::CB_CTXALLOC_017, Who::Driver, adapter, place, broken);
            if own {
                return Err(Refusal::Busy);
            }
            let extent = world.saved.get(number).map_or(0, |it| it.extent);
            world.hold_extent(extent, true);
            let mut plan = Plan::default();
            if self.plan_in(world, extent, &mut plan).is_err() {
                self.unplan(world, &mut plan);
                world.hold_extent(extent, false);
                self.start_paging(world, adapter.number, plan, None);
                return Err(Refusal::NoMemory);
            }
            if let Some(at) = world.spotted(extent) {
                plan.come.push(Step::new(extent, Move::Update(private.into()), at));
            }
            self.start_paging(world, adapter.number, plan, None);
            extent
        };
        let about = adapter;
        let over = |it: &World| it.extents.get(extent).is_none_or(|it| it.pending == 0);
        let what = |_: &World| "the update of a context allocation".to_owned();
        let done = self.wait_until(at, about, what, over);
        self.world.hold().hold_extent(extent, false);
        if done { Ok(()) } else { Err(Refusal::Busy) }
    }

    pub(crate) fn map_context_memory(
        &self,
        _at: &mut Passive,
        adapter: Subject,
        name: usize,
        first_page: u64,
        pages: u64,
    ) -> Option<u64> {
        let place = "DxgkCbMapContextAllocation";
        let world = self.world.hold();
        let number = self.judge_name(&world, adapter, name, place).ok()?;
        let it = world.extents.get(world.saved.get(number)?.extent)?;
        let end = first_page.checked_add(pages);
        let broken = (pages == 0 || end.is_none_or(|end| end > it.bytes / PAGE)).then(|| {
            format!(
                "pages {first_page} to {} of {}, which has {}",
                first_page.saturating_add(pages),
                it.owner,
                it.bytes / PAGE
            )
        });
        let refused = broken.is_some();
        self.log.judge(RuleId::CB_CTXALLOC_015, Who::Driver, adapter, place, broken);
        let address = world.memory(adapter.number)?.1.address(it)?;
        (!refused).then_some(address + first_page * PAGE)
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
    /// What the kernel's name for something of a kind stands for.
    pub(crate) fn named_by_kernel(&self, name: usize, kind: Kind) -> Option<u32> {
        let found = self.kernel_names.find_for_driver(Handle(u32::try_from(name).ok()?))?;
        (found.kind == kind).then_some(found.number)
    }

    /// What a driver named something by, for people: an address says nothing.
    fn shown(&self, name: usize) -> String {
        let device = |it: &Device| it.word.as_ref().map(|it| it.word()) == Some(name);
        let context = |it: &Context| it.word.as_ref().map(|it| it.word()) == Some(name);
        let saved =
            self.saved.iter().find(|(_, it)| it.word == name).map(|it| Kind::Saved.nr(it.0));
        let own = saved
            .or_else(|| self.devices.iter().find(|it| device(it.1)).map(|it| Kind::Device.nr(it.0)))
            .or_else(|| {
                self.contexts.iter().find(|it| context(it.1)).map(|it| Kind::Context.nr(it.0))
            });
        match (own, u32::try_from(name)) {
            (Some(own), _) => format!("the driver's own handle of {own}"),
            (None, Ok(name)) => format!("{name:#x}"),
            (None, Err(_)) => "an address".to_owned(),
        }
    }

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

    /// Nobody holds these any more for a context.
    pub(crate) fn let_go(&mut self, held: impl IntoIterator<Item = u32>) {
        for number in held {
            if let Some(extent) = self.saved.get(number).map(|it| it.extent) {
                self.hold_extent(extent, false);
            }
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

    /// Whether all that a context saves into is there, and stays.
    pub(crate) fn is_ready(&self, context: u32) -> bool {
        let held = self.contexts.get(context).map(|it| it.holding.as_slice()).unwrap_or_default();
        let there = |it: &Extent| it.segment().is_some() && it.pending == 0;
        self.saved_for(context).iter().all(|(number, extent)| {
            held.contains(number) && self.extents.get(*extent).is_some_and(there)
        })
    }

    /// What a context's engine saves into: its own, and its device's.
    fn saved_for(&self, context: u32) -> Vec<(u32, u32)> {
        let Some(device) = self.contexts.get(context).map(|it| it.device) else {
            return Vec::new();
        };
        let own = self.contexts.get(context).map(|it| it.saved.as_slice()).unwrap_or_default();
        let shared = self.devices.get(device).map(|it| it.saved.as_slice()).unwrap_or_default();
        let extent = |it: &u32| Some((*it, self.saved.get(*it)?.extent));
        own.iter().chain(shared).filter_map(extent).collect()
    }

    fn spotted(&self, extent: u32) -> Option<Spotted> {
        match &self.extents.get(extent)?.place {
            crate::memory::Place::In { segment, spot } => {
                Some(Spotted { segment: *segment, offset: spot.start() })
            }
            _ => None,
        }
    }
}
