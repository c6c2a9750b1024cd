//! Following memory: resources, allocations, views, their ends, and driver handles.
//!
//! An allocation counts its views, a resource its members and views, a retirement the views it
//! ends; a driver handle has the object it stands for and the pool block at that address.

use crate::follow::decrement;
use crate::shadow::memory::MemoryRequirements;
use crate::shadow::{
    Allocation, Block, DriverPointer, PointerUse, Rare, Resource, ResourceView, RetireRequest,
    Retirement, SharedData, View, ViewStage,
};
use crate::shadow::{Key, Serial, Shadows, call_of};
use flight::{Callers, Event, EventKind, Kind, Subject};

impl Shadows {
    pub(crate) fn follow_resource(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ResourceCreated { adapter, sharing, .. } => {
                let driver_handle = self.early_handles.get(&event.subject).copied();
                let (live, members_destroyed, destroyed_in, views) = (0, 0, None, 0);
                let (adapter, global) = (*adapter, sharing == "global");
                let resource = Resource {
                    adapter: adapter.into(),
                    global,
                    nt: sharing == "nt",
                    live,
                    members_destroyed,
                    destroyed_in,
                    views,
                    driver_handle,
                    data: None,
                };
                self.start(event.subject, resource);
                self.with_adapter(adapter, |adapter| adapter.owned += 1);
            }
            EventKind::ShareRecorded { runtime, total } => {
                if let Some(it) = self.resource_mut(event.subject) {
                    it.data = Some(SharedData { runtime: *runtime, total: *total });
                }
            }
            EventKind::ResourceDestroyed {} => {
                let adapter = self.resource(event.subject).map(|resource| resource.adapter);
                self.end(event.subject);
                if let Some(adapter) = adapter {
                    self.with_adapter(adapter, |it| decrement(&mut it.owned));
                }
            }
            EventKind::DdiResource { driver_handle, destroy: goes, .. } => {
                if *goes {
                    self.end_in_call(event, (*driver_handle).into());
                }
                self.with_driver_pointer(*driver_handle, |it| {
                    if let Some(it) = it.use_mut(event.subject) {
                        it.ending |= goes;
                        it.lent_in = if *goes { None } else { call_of(event) };
                    }
                });
            }
            _ => (),
        }
    }

    pub(crate) fn follow_resource_view(&mut self, event: &Event) {
        if let EventKind::ResourceViewOpened { resource, device } = event.kind {
            let view = ResourceView { resource: resource.into(), device: device.into() };
            self.start(event.subject, view);
            self.with_resource(resource, |resource| resource.views += 1);
            return;
        }
        let shadow = self.resource_view_mut(event.subject);
        let Some(&mut ResourceView { resource, .. }) = shadow else { return };
        match event.kind {
            EventKind::ResourceViewRetiring { retirement, .. } => {
                self.with_retirement(retirement, |retirement| {
                    retirement.group_mut(resource).whole = true;
                });
            }
            EventKind::ResourceViewClosed {} => {
                self.end(event.subject);
                self.with_resource(resource, |it| decrement(&mut it.views));
            }
            _ => (),
        }
    }

    #[inline(never)]
    pub(crate) fn follow_allocation(&mut self, event: &Event) {
        if let EventKind::AllocationCreated { adapter, device: creator, resource, .. } = event.kind
        {
            let driver_handle = self.early_handles.get(&event.subject).copied();
            let mut creator_process = None;
            self.with_device(creator, |device| creator_process = device.process);
            let (owner, creator) = (adapter.into(), creator.into());
            let of_resource = resource.map(Serial::from);
            self.begin(event, || Allocation {
                adapter: owner,
                creator,
                creator_process,
                memory: Rare::default(),
                resource: of_resource,
                driver_handle,
                destroyed_in: None,
                views: 0,
                busy: 0,
                data_references: 0,
                ended_by: None,
            });
            self.with_resource(resource, |resource| resource.live += 1);
            self.with_adapter(adapter, |adapter| adapter.owned += 1);
            return;
        }
        let shadow = self.subject_mut::<Allocation>(event);
        let Some(allocation) = shadow else { return };
        let (resource, driver_handle, in_call) =
            (allocation.resource, allocation.driver_handle, allocation.destroyed_in);
        match event.kind {
            EventKind::AllocationDestroyed {} => {
                let (adapter, ended_by) = (allocation.adapter, allocation.ended_by);
                self.end_subject::<Allocation>(event);
                self.with_adapter(adapter, |it| decrement(&mut it.owned));
                if let Some(retirement) = ended_by {
                    self.with_retirement(retirement, |it| decrement(&mut it.orphans));
                }
                self.with_resource(resource, |it| {
                    decrement(&mut it.live);
                    if in_call == Some(it.destroyed_in) {
                        decrement(&mut it.members_destroyed);
                    }
                });
            }
            EventKind::AllocationDecommitted {} => (),
            EventKind::AllocationLimited { limit: most } => {
                allocation.memory.instance_limit = Some(most);
            }
            EventKind::HandleDataAcquired { .. } => allocation.data_references += 1,
            EventKind::HandleDataReleased { .. } => decrement(&mut allocation.data_references),
            EventKind::DdiDestroys { .. } if in_call.is_none() => {
                allocation.destroyed_in = Some(call_of(event));
                self.with_resource(resource, |resource| {
                    resource.members_destroyed = if resource.destroyed_in == call_of(event) {
                        resource.members_destroyed + 1
                    } else {
                        1
                    };
                    resource.destroyed_in = call_of(event);
                });
                if let Some(driver_handle) = driver_handle {
                    self.end_in_call(event, driver_handle);
                    self.with_driver_pointer(driver_handle, |it| {
                        if let Some(it) = it.use_mut(event.subject) {
                            it.ending = true;
                        }
                    });
                }
            }
            _ => {
                self.follow_memory(event);
            }
        }
    }

    #[inline(never)]
    pub(crate) fn follow_view(&mut self, event: &Event) {
        if let EventKind::ViewOpened { allocation, device, resource, .. } = event.kind {
            // The event names the device's view of the resource, or the resource itself.
            let named = self.resource_view(resource).map(|view| view.resource);
            let resource = named.or_else(|| resource.serial());
            let (mut creator, mut requirements) = (false, MemoryRequirements::default());
            let mut ended_by = None;
            let mut process = None;
            self.with_device(device, |device| process = device.process);
            self.with_allocation(allocation, |allocation| {
                ended_by = allocation.ended_by.take();
                allocation.views += 1;
                allocation.busy += 1;
                let other_device = process.is_some() && process == allocation.creator_process;
                creator = allocation.creator == device || other_device;
                requirements = allocation.memory.requirements;
            });
            // An open by an NT handle was under way when the last view and the NT handle were closed.
            if let Some(retirement) = ended_by {
                self.with_retirement(retirement, |it| decrement(&mut it.orphans));
            }
            let (of_allocation, of_device) = (allocation.into(), device.into());
            self.begin(event, || View {
                allocation: of_allocation,
                device: of_device,
                resource,
                stage: ViewStage::Live,
                retirement: None,
                request: 0,
                assumed_idle: false,
                close_called: false,
                driver_handle: None,
                creator,
                requirements,
                resident: 0,
                memory: Rare::default(),
            });
            self.with_device(device, |device| device.views += 1);
            return;
        }
        if let EventKind::DdiOpens { device, create: false, .. } = event.kind
            && let Some(call) = self.call_of_mut(event)
        {
            call.opens_for = Some(device.into());
        }
        let Some(view) = self.subject_mut::<View>(event) else { return };
        match event.kind {
            EventKind::ViewRetiring { retirement, .. } => {
                self.retire_view(event.subject, retirement.into());
            }
            EventKind::DdiCloses { .. } => view.close_called = true,
            EventKind::HandleDataAcquired { .. } => {
                let allocation = view.allocation;
                self.with_allocation(allocation, |allocation| allocation.data_references += 1);
            }
            EventKind::HandleDataReleased { .. } => {
                let allocation = view.allocation;
                self.with_allocation(allocation, |it| decrement(&mut it.data_references));
            }
            EventKind::ViewIdle {} => {
                let (was_busy, was_hasty) = (view.is_busy(), view.is_hasty());
                view.stage = ViewStage::Idle;
                let (allocation, device) = (view.allocation, view.device);
                if was_busy {
                    self.with_allocation(allocation, |it| decrement(&mut it.busy));
                }
                if was_hasty {
                    self.with_device(device, |it| decrement(&mut it.hasty));
                }
            }
            EventKind::ViewClosed {} => self.close_view(event),
            _ => self.follow_residency(event),
        }
    }

    /// The view and what counts it: it does not block anything any more, if it still did.
    fn close_view(&mut self, event: &Event) {
        let ended = |view: &View| {
            let (allocation, device) = (view.allocation, view.device);
            let (retirement, resource) = (view.retirement, view.resource);
            let was = (view.is_busy(), view.is_hasty(), view.resident > 0);
            (allocation, device, retirement, resource, was)
        };
        let Some(ended) = self.take_subject(event, ended) else { return };
        let (allocation, device, retirement, resource, (was_busy, was_hasty, listed)) = ended;
        let mut orphan = 0;
        let held = resource.is_some_and(|resource| self.nt_holds_of(resource.into()) > 0);
        self.with_allocation(allocation, |it| {
            if was_busy {
                decrement(&mut it.busy);
            }
            if listed {
                decrement(&mut it.memory.resident_devices);
            }
            decrement(&mut it.views);
            if it.views == 0 && !held {
                (it.ended_by, orphan) = (retirement, 1);
            }
        });
        self.with_device(device, |it| {
            if was_hasty {
                decrement(&mut it.hasty);
            }
            decrement(&mut it.views);
        });
        let Some(retirement) = retirement else { return };
        self.with_retirement(retirement, |it| {
            it.closed += 1;
            it.orphans += orphan;
            if let Some(resource) = resource {
                decrement(&mut it.group_mut(resource).open);
            }
        });
    }

    fn retire_view(&mut self, subject: Subject, retirement: Serial<Retirement>) {
        let request = self.retirement(retirement).map(|retirement| retirement.request);
        let Some(view) = self.view_mut(subject) else { return };
        if view.stage != ViewStage::Live {
            return;
        }
        (view.stage, view.retirement) = (ViewStage::Retiring, Some(retirement));
        view.request = request.map_or(0, |request| request.seq);
        view.assumed_idle = request.is_some_and(|request| request.assume_not_in_use);
        let (device, resource) = (view.device, view.resource);
        if view.assumed_idle {
            self.with_device(device, |device| device.hasty += 1);
        }
        if let Some(resource) = resource {
            self.with_retirement(retirement, |retirement| retirement.group_mut(resource).open += 1);
        }
    }

    #[inline(never)]
    pub(crate) fn follow_retirement(&mut self, event: &Event) {
        if let EventKind::RetireRequested {
            views,
            assume_not_in_use: assume,
            synchronous: sync,
            ..
        } = event.kind
        {
            let request =
                RetireRequest { seq: event.seq, assume_not_in_use: assume, synchronous: sync };
            return self.begin(event, || Retirement {
                request,
                views,
                closed: 0,
                groups: Vec::new(),
                orphans: 0,
                done: false,
                returned: false,
            });
        }
        let Some(it) = self.subject_mut::<Retirement>(event) else { return };
        match event.kind {
            EventKind::RetireDone {} => it.done = true,
            EventKind::RetireReturned { .. } => it.returned = true,
            _ => (),
        }
        // A retirement that no thread waits for needs no response.
        if it.done && (it.returned || !it.request.synchronous) {
            self.end_subject::<Retirement>(event);
        }
    }

    #[inline(never)]
    pub(crate) fn follow_word(&mut self, event: &Event) {
        let subject = event.subject;
        let call = call_of(event);
        match &event.kind {
            // The NULL handle stands for nothing.
            _ if subject.number == 0 => (),
            EventKind::PoolAllocated { bytes, tag, caller } => {
                let (bytes, taken_in) = (*bytes, call_of(event));
                let allocated_in = call.and_then(|serial| Some(self.call(serial)?.name.clone()));
                let (tag_of, freed, leaked) = (tag.clone(), None, false);
                let block = Block {
                    bytes,
                    tag: tag_of,
                    taken_in,
                    allocated_in,
                    allocated_by: caller.clone(),
                    freed,
                    freed_by: Callers::UNKNOWN,
                    leaked,
                    kept_of: None,
                    allocation: None,
                };
                // The last block of that address has memory for this one.
                let last = self.driver_pointer_mut(subject).and_then(|it| it.block.take());
                let block = match last {
                    Some(mut last) => {
                        *last = block;
                        last
                    }
                    None => Box::new(block),
                };
                let pointer = DriverPointer { block: Some(block), ..DriverPointer::default() };
                self.begin(event, || pointer);
                if let Some(call) = self.call_mut(call) {
                    call.blocks.push((subject.into(), bytes, tag.clone()));
                }
            }
            EventKind::PoolFreed { caller } => {
                let name = call.and_then(|serial| Some(self.call(serial)?.name.clone()));
                let Some(driver_handle) = self.subject_mut::<DriverPointer>(event) else { return };
                let Some(block) = &mut driver_handle.block else { return };
                block.freed = Some(name.unwrap_or("ExFreePoolWithTag".into()));
                block.freed_by = caller.clone();
                block.kept_of = None;
                let taken_in = block.taken_in;
                if let Some(call) = self.call_mut(taken_in) {
                    call.blocks.retain(|(it, ..)| *it != subject);
                }
            }
            // It is reported with the stop.
            EventKind::PoolHeldAfterStop { .. } => {
                if let Some(driver_pointer) = self.subject_mut::<DriverPointer>(event) {
                    driver_pointer.leak();
                    driver_pointer.keep(None);
                }
            }
            EventKind::DriverHandleSet { of: to } => self.set_driver_handle(event, *to),
            EventKind::DriverHandleEnded { of, .. } => {
                let Some(driver_handle) = self.subject_mut::<DriverPointer>(event) else { return };
                // A block that is leaked already: the call that should have freed it has crashed.
                let crashed = driver_handle.block.as_deref().is_some_and(|block| block.leaked);
                if of.kind == Kind::Allocation && !crashed {
                    driver_handle.keep(Some((*of).into()));
                }
                // A view has no rule of its own that would report its block.
                if of.kind != Kind::View {
                    driver_handle.leak();
                }
                if let [only] = &driver_handle.uses[..]
                    && only.of == *of
                {
                    driver_handle.uses.pop();
                } else {
                    driver_handle.uses.retain(|pointer_use| pointer_use.of != *of);
                }
                if driver_handle.uses.is_empty() && driver_handle.block.is_none() {
                    self.end_subject::<DriverPointer>(event);
                }
                if !self.early_handles.is_empty() {
                    self.early_handles.remove(of);
                }
                self.with_adapter(*of, |adapter| adapter.driver_handle = None);
            }
            _ => self.mark_subject(event),
        }
    }

    fn set_driver_handle(&mut self, event: &Event, to: Subject) {
        let pointer = self.first_marked::<DriverPointer>(event.subject, event.seq);
        let Some(driver_handle) = pointer else { return };
        let subject = Serial::of(event.subject);
        if driver_handle.uses.is_empty() && driver_handle.freed().is_some() {
            // The block is freed: this is another driver handle that reuses its number.
            *driver_handle = DriverPointer::default();
        }
        if driver_handle.use_mut(to).is_none() {
            driver_handle.uses.push(PointerUse { of: to, ending: false, lent_in: None });
        }
        if to.kind == Kind::Allocation {
            driver_handle.reuse(to.into());
        }
        let known = match to.kind {
            Kind::Allocation => {
                self.allocation_mut(to).map(|allocation| &mut allocation.driver_handle)
            }
            Kind::Resource => self.resource_mut(to).map(|resource| &mut resource.driver_handle),
            Kind::View => self.view_mut(to).map(|view| &mut view.driver_handle),
            _ => None,
        };
        let before = match known {
            Some(driver_handle) => driver_handle.replace(subject),
            None if matches!(to.kind, Kind::Allocation | Kind::Resource) => {
                self.early_handles.entry(to).or_insert(subject);
                None
            }
            None => None,
        };
        // An adapter keeps its one pointer for all its life.
        self.with_adapter(to, |adapter| adapter.driver_handle = Some(subject));
        if let Some(before) = before.filter(|serial| *serial != subject) {
            self.with_driver_pointer(before, |driver_pointer| {
                driver_pointer.uses.retain(|pointer_use| pointer_use.of != to);
            });
        }
    }

    /// A call ends the object that a driver handle stands for.
    fn end_in_call(&mut self, event: &Event, driver_handle: Serial<DriverPointer>) {
        if let Some(call) = self.call_of_mut(event) {
            call.ends.push(driver_handle);
        }
    }
}
