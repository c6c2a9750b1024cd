//! What must be resident: counted for each view by its device's client.

use crate::context::Context;
use crate::device::Device;
use crate::device::Loss;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::budget::Group;
use crate::memory::place::{NoPlace, Plan};
use crate::memory::queue::Queue;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::schedule::Behind;
use crate::space::fault::Fault;
use crate::start::Adapter;
use crate::store::Id;
use crate::view::View;
use crate::world::World;
use flight::{RuleId, Subject, Text, What, Who};
use std::collections::BTreeMap;

/// What a client asks to be resident (`D3DDDI_MAKERESIDENT`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResidentOrder {
    /// Whose paging work it is.
    pub queue: Handle,
    /// The views.
    pub list: Vec<Handle>,
    /// It cannot go on without (`MustSucceed`).
    pub must: bool,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// All of them are resident.
    Resident,
    /// They are when the queue's fence has this value.
    Pending(u64),
}

/// What a client does not need any more (`D3DKMT_EVICT`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictOrder {
    /// Whose they are.
    pub device: Handle,
    /// The views.
    pub list: Vec<Handle>,
    /// Leave them where they are until the memory is needed (`EvictOnlyIfNecessary`).
    pub lazily: bool,
    /// The GPU has not written to them since they came (`NotWrittenTo`).
    pub clean: bool,
}

/// How a request for residency was answered, for events.
#[derive(Clone, Copy)]
enum Said {
    Resident,
    Pending(u64),
    NoMemory(u64),
}

impl Kernel {
    /// Adds views to the list of what must be resident (`D3DKMTMakeResident`): all of them, or
    /// none.
    pub fn make_resident(
        &self,
        process: ProcessId,
        order: &ResidentOrder,
    ) -> Result<Residency, Refused> {
        let (queue, inside) = {
            let mut world = self.world.hold();
            let (queue, device) = world.queue_of(process, order.queue)?;
            (queue, self.inside(&mut world, device)?)
        };
        self.look_again(&inside)?;
        let mut guard = self.world.hold();
        let world = &mut *guard;
        // It may have been destroyed meanwhile.
        world.queue_of(process, order.queue)?;
        let views = world.views_of(process, inside.device, &order.list)?;
        let mut plan = Plan::default();
        let mut missing = 0;
        for view in &views {
            let Some(extent) = world.extent_of(*view) else { continue };
            // Held from here on: no other one of the list makes it leave.
            world.hold_extent(extent, true);
            if let Err(NoPlace { missing: more }) = self.plan_in(world, extent, &mut plan) {
                missing = u64::saturating_add(missing, more);
            }
        }
        if missing > 0 {
            for extent in views.iter().filter_map(|it| world.extent_of(*it)).collect::<Vec<_>>() {
                world.hold_extent(extent, false);
            }
            self.unplan(world, &mut plan);
            self.start_paging(world, inside.adapter, plan, None);
            let missing =
                self.tell_trim(world, process.0, inside.adapter, "make-resident", missing);
            self.say_asked(queue, &views, order.must, Said::NoMemory(missing));
            self.trim_others(world, inside.adapter);
            drop(guard);
            if order.must {
                // WINDOWS: a request that must succeed and cannot puts its device in error
                // (documented).
                self.lose_device(inside.device, Loss::OutOfMemory);
            }
            return Err(Refused::NoRoom { trim: missing });
        }
        let moving = self.count_in(world, &views, inside.subject(), queue);
        if !moving && plan.come.is_empty() {
            self.say_asked(queue, &views, order.must, Said::Resident);
            return Ok(Residency::Resident);
        }
        let value = world.next_value(queue);
        self.start_paging(world, inside.adapter, plan, Some((queue, value)));
        self.say_asked(queue, &views, order.must, Said::Pending(value));
        Ok(Residency::Pending(value))
    }

    /// Where a view's allocation is in the GPU's addresses, if it is resident: for whoever looks
    /// at bytes.
    pub fn address_of(&self, process: ProcessId, view: Handle) -> Option<u64> {
        let world = self.world.hold();
        let number = world.resolve_view(process, Argument::Allocation(0), view).ok()?;
        let it = world.extents.get(world.extent_of(number)?)?;
        let (_, memory) = world.memory(it.adapter)?;
        memory.address(it).filter(|_| it.pending == 0)
    }

    fn say_asked(&self, queue: Id<Queue>, views: &[Id<View>], must: bool, said: Said) {
        let queue = queue.subject();
        let views = u32::try_from(views.len()).unwrap_or(u32::MAX);
        let (answer, value, trim): (Text, _, _) = match said {
            Said::Resident => ("resident".into(), 0, 0),
            Said::Pending(value) => ("pending".into(), value, 0),
            Said::NoMemory(trim) => ("no-memory".into(), 0, trim),
        };
        self.log.emit(queue, What::ResidentAsked { queue, views, must, answer, value, trim });
    }

    /// Counts views up; answers whether any of them has paging work before it.
    fn count_in(
        &self,
        world: &mut World,
        views: &[Id<View>],
        device: Subject,
        queue: Id<Queue>,
    ) -> bool {
        let queue = Some(queue.subject());
        let mut pending = false;
        for view in views {
            let it = &mut world.views[*view];
            (it.resident, it.was_resident) = (it.resident + 1, true);
            let count = it.resident;
            it.clean &= count > 1;
            let (lazily, clean) = (false, false);
            let counted = What::ResidentCounted { device, queue, count, lazily, clean };
            self.log.emit(view.subject(), counted);
            let Some(extent) = world.extent_of(*view) else { continue };
            if count == 1 {
                world.charge(*view, extent);
            } else {
                world.hold_extent(extent, false); // A view holds it once.
            }
            let moving = |it: &Extent| it.pending > 0;
            pending |= world.extents.get(extent).is_some_and(moving);
        }
        pending
    }

    /// Takes views off the list, once each (`D3DKMTEvict`). Answers how many bytes the client
    /// has too many.
    pub fn evict(&self, process: ProcessId, order: &EvictOrder) -> Result<u64, Refused> {
        let inside = self.enter_device(process, order.device)?;
        let world = &mut *self.world.hold();
        let views = world.views_of(process, inside.device, &order.list)?;
        let lacking = more_than(&views, |it| world.views.get(it).map_or(0, |it| it.resident));
        let lacking = lacking.map(Id::subject);
        let broken = lacking.map(|it| {
            format!("{it} is evicted more often than its client asked for it to be resident")
        });
        let (about, place) = (inside.subject(), "D3DKMTEvict.AllocationList");
        self.log.judge(RuleId::RESID_EVICT_001, Who::Client, about, place, broken);
        if let Some(view) = lacking {
            // WINDOWS: below zero the whole call is refused (our decision).
            return Err(Refused::NotResident(view));
        }
        let mut plan = Plan::default();
        for view in &views {
            self.count_out(world, *view, inside.device, order);
            let Some(extent) = world.extent_of(*view) else { continue };
            let free = world.extents.get(extent).is_some_and(|it| it.rank.is_some());
            if free && !order.lazily {
                self.plan_out(world, extent, "its client evicted it", &mut plan);
            }
        }
        self.start_paging(world, inside.adapter, plan, None);
        Ok(self.tell_trim(world, process.0, inside.adapter, "evict", 0))
    }

    /// Counts a view down once; with the last, its extent is let go of.
    fn count_out(&self, world: &mut World, view: Id<View>, device: Id<Device>, order: &EvictOrder) {
        let it = &mut world.views[view];
        it.resident = it.resident.saturating_sub(1);
        it.clean |= order.clean;
        let (count, unwritten) = (it.resident, it.clean);
        let (lazily, clean) = (order.lazily, order.clean);
        let device_subject = device.subject();
        let counted =
            What::ResidentCounted { device: device_subject, queue: None, count, lazily, clean };
        self.log.emit(view.subject(), counted);
        let Some(extent) = world.extent_of(view) else { return };
        if let Some(it) = world.extents.get_mut(extent).filter(|_| count == 0) {
            // One client that did not say so may have written.
            (it.clean, it.written) = (unwritten, it.written || !unwritten);
        }
        if count == 0 {
            world.let_go_of(extent, view);
        }
    }

    /// A packet is done, or faulted on an allocation: what it touched must have been resident.
    pub(crate) fn judge_fault(
        &self,
        world: &World,
        device: Id<Device>,
        context: Id<Context>,
        fault: Option<&Touched>,
    ) {
        let address = fault.and_then(|it| it.address.as_ref());
        self.judge_address(world, context, address);
        // What nothing is mapped at is no allocation, resident or not.
        let fault = fault.filter(|it| it.address.is_none() || it.word.is_some());
        let touched = fault.map(|it| world.say_touched(device, context.subject(), it));
        let said =
            |which: Stray| touched.as_ref().filter(|it| it.0 == which).map(|it| it.1.clone());
        let place = "D3DKMTSubmitCommand";
        let rules = [
            (RuleId::RESID_MAKE_005, Stray::Early),
            (RuleId::RESID_EVICT_002, Stray::Evicted),
            (RuleId::RESID_OFFER_005, Stray::Offered),
        ];
        for (rule, which) in rules {
            self.log.judge(rule, world.maker_of(context), context.subject(), place, said(which));
        }
    }
}

/// The first of a list that is in it more often than it may be.
pub(crate) fn more_than<T>(list: &[Id<T>], most: impl Fn(Id<T>) -> u32) -> Option<Id<T>> {
    let mut counts = BTreeMap::new();
    list.iter().copied().find(|it| {
        let count = counts.entry(*it).or_insert(0);
        *count += 1;
        *count > most(*it)
    })
}

/// What a driver says of what a packet touched that was not there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// Its own word for it, if it knows.
    Word(Option<usize>),
    /// The virtual address.
    At(u64),
}

/// What a packet touched that was not there.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    /// Its driver's word, where that is known.
    word: Option<usize>,
    /// What was at the address, where there was one.
    address: Option<Fault>,
}

/// Why it was not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stray {
    Early,
    Evicted,
    Offered,
}

impl World {
    /// What a packet of a context touched, and why it was not there.
    /// What a driver says that a packet of a node touched, as it is now.
    pub(crate) fn find_touched(
        &self,
        adapter: Id<Adapter>,
        node: usize,
        fence: flight::Fence,
        it: Found,
    ) -> Touched {
        let address = match it {
            Found::Word(word) => return Touched { word, address: None },
            Found::At(address) => address,
        };
        let on = self.adapters.get(adapter).and_then(|it| it.nodes.get(node));
        let packet = on.and_then(|it| it.queue.iter().find(|it| it.fence == fence));
        let address = packet.and_then(|it| self.find_fault(it.context()?, address));
        Touched { word: address.as_ref().and_then(|it| it.word), address }
    }

    fn say_touched(&self, device: Id<Device>, context: Subject, it: &Touched) -> (Stray, String) {
        let extent = it.word.and_then(|word| self.extents.iter().find(|(_, it)| it.word == word));
        let of = |it: &View| self.allocations.get(it.allocation)?.extent;
        let view = extent.and_then(|(number, _)| {
            let mut views = self.views.iter().map(|it| it.1).filter(|it| it.device == device);
            views.find(|it| of(it) == Some(number))
        });
        let what = extent
            .map_or("memory that is not there".to_owned(), |it| it.1.owner.subject().to_string());
        let (stray, why) = if extent.is_some_and(|it| it.1.offer.is_some()) {
            (Stray::Offered, ", which is offered and was not taken back")
        } else if view.is_some_and(|it| it.resident == 0 && it.was_resident) {
            (Stray::Evicted, ", which was evicted")
        } else if view.is_some_and(|it| it.resident > 0) {
            (Stray::Early, " before the fence of its MakeResident was reached")
        } else {
            (Stray::Early, ", which its device never asked to be resident")
        };
        (stray, format!("a packet of {context} touched {what}{why}"))
    }
}

impl World {
    /// A view of a device ends: what it held is let go of. If its client assumes that it is not
    /// in use, nothing waits for the work of that device.
    pub(crate) fn unlist(&mut self, view: Id<View>, assume: bool) {
        let it = &mut self.views[view];
        let (held, device) = (std::mem::take(&mut it.resident) > 0, it.device);
        let Some(extent) = self.extent_of(view) else { return };
        if held {
            self.let_go_of(extent, view);
            self.extents[extent].written = true;
        }
        if assume {
            let mine = self.outstanding(device);
            if let Some(it) = self.extents.get_mut(extent) {
                let of_mine = |it: &Behind| match *it {
                    Behind::Context(context, _) => mine
                        .iter()
                        .any(|it| matches!(it, Behind::Context(other, _) if *other == context)),
                    Behind::Node(..) => false,
                };
                it.used.retain(|it| !of_mine(it));
            }
        }
    }

    /// A view lets go of its extent: what its device has queued may still use it.
    fn let_go_of(&mut self, extent: Id<Extent>, view: Id<View>) {
        self.uncharge(view, extent);
        let device = self.views[view].device;
        let used = self.outstanding(device);
        self.extents[extent].use_behind(used);
        self.hold_extent(extent, false);
    }

    /// The extent of a view's allocation.
    pub(crate) fn extent_of(&self, view: Id<View>) -> Option<Id<Extent>> {
        self.allocations.get(self.views.get(view)?.allocation)?.extent
    }

    /// Views of a device by a client's handles: all of them have memory to be resident in.
    pub(crate) fn views_of(
        &self,
        process: ProcessId,
        device: Id<Device>,
        list: &[Handle],
    ) -> Result<Vec<Id<View>>, Refused> {
        let mut views = Vec::with_capacity(list.len());
        for (place, handle) in list.iter().enumerate() {
            let argument = Argument::Allocation(place);
            let number = self.resolve_view(process, argument, *handle)?;
            let owner = self.views[number].device;
            if owner != device {
                let owner = owner.subject();
                return Err(Refused::OtherDevice { argument, handle: *handle, owner });
            }
            self.extent_of(number).ok_or(Refused::NoVideoMemory)?;
            views.push(number);
        }
        Ok(views)
    }

    /// Counts an extent for what a view's process lists: for the group it is in.
    fn charge(&mut self, view: Id<View>, extent: Id<Extent>) {
        let it = &self.extents[extent];
        let segment = it.segment().zip(self.memory(it.adapter));
        let segment = segment.and_then(|(it, memory)| memory.1.segments.get(it));
        let group = match segment {
            Some(it) if !it.shape.flags.aperture => Group::Local,
            _ => Group::NonLocal,
        };
        self.views[view].charged = Some(group);
        self.count_charge(view, extent, group, u64::saturating_add);
    }

    /// Counts it no more: also one that has moved since counts for the group it counted for.
    fn uncharge(&mut self, view: Id<View>, extent: Id<Extent>) {
        let charged = self.views.get_mut(view).and_then(|it| it.charged.take());
        if let Some(group) = charged {
            self.count_charge(view, extent, group, u64::saturating_sub);
        }
    }

    fn count_charge(
        &mut self,
        view: Id<View>,
        extent: Id<Extent>,
        group: Group,
        sum: fn(u64, u64) -> u64,
    ) {
        let Some((adapter, bytes)) = self.extents.get(extent).map(|it| (it.adapter, it.bytes))
        else {
            return;
        };
        let process = self.devices[self.views[view].device].owner();
        let it = &mut self.processes[process];
        match it.charged.iter_mut().find(|it| (it.0, it.1) == (adapter, group)) {
            Some(it) => it.2 = sum(it.2, bytes),
            None => it.charged.push((adapter, group, sum(0, bytes))),
        }
    }

    /// Holds an extent where it is, or lets go of it once.
    pub(crate) fn hold_extent(&mut self, extent: Id<Extent>, hold: bool) {
        let (extents, memory) = self.memory_mut_of(extent);
        let it = &mut extents[extent];
        it.held = if hold { it.held + 1 } else { it.held.saturating_sub(1) };
        if it.held == 0 {
            memory.clock += 1;
            it.tick = memory.clock;
        }
        self.rank(extent);
    }
}
