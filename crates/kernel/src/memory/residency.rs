//! Residency: each device counts the views that must be resident.

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::device::DeviceLoss;
use crate::lifetime::process::ProcessId;
use crate::memory::Extent;
use crate::memory::budget::SegmentGroup;
use crate::memory::place::{NoSpace, PagingPlan};
use crate::memory::queue::PagingQueue;
use crate::objects::handle_table::Handle;
use crate::objects::view::View;
use crate::schedule::report::QueuePoint;
use crate::state::KernelState;
use flight::{Component, EventKind, RuleId, Subject, Text, invariant};
use std::collections::BTreeMap;

/// A client's request for residency (`D3DDDI_MAKERESIDENT`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MakeResidentRequest {
    /// The paging queue.
    pub queue: Handle,
    /// The views.
    pub list: Vec<Handle>,
    /// The client cannot continue without it (`MustSucceed`).
    pub must_succeed: bool,
}

/// The result of a residency request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// All of them are resident.
    Resident,
    /// They are resident when the queue's fence has this value.
    Pending(u64),
}

/// A client's evict request (`D3DKMT_EVICT`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictRequest {
    /// The device.
    pub device: Handle,
    /// The views.
    pub list: Vec<Handle>,
    /// Keep them in place until the memory is needed (`EvictOnlyIfNecessary`).
    pub only_if_necessary: bool,
    /// The GPU has not written to them since they became resident (`NotWrittenTo`).
    pub not_written: bool,
}

/// Why an extent leaves, for events.
const EVICTED: &str = "its client evicted it";

/// The result of a residency request, for events.
#[derive(Clone, Copy)]
enum ResidencyResult {
    Resident,
    Pending(u64),
    NoMemory(u64),
}

impl Kernel {
    /// Adds views to the residency list (`D3DKMTMakeResident`): all of them, or none.
    pub fn make_resident(
        &self,
        process: ProcessId,
        request: &MakeResidentRequest,
    ) -> Result<Residency, KernelError> {
        let (queue, inside) = {
            let mut state = self.state.lock();
            let (queue, device) = state.find_paging_queue(process, request.queue)?;
            (queue, self.acquire_rundown(&mut state, device)?)
        };
        self.recheck_device(&inside)?;
        let mut guard = self.state.lock();
        let state = &mut *guard;
        // The queue may have been destroyed meanwhile.
        state.find_paging_queue(process, request.queue)?;
        let views = state.views_of(process, inside.device, &request.list)?;
        let mut plan = PagingPlan::default();
        let mut missing = 0;
        for view in &views {
            let extent = state.checked_extent_of(*view);
            // Held from now on, so that no other view of the list evicts it.
            state.hold_extent(extent, true);
            if let Err(NoSpace { missing: more }) = self.plan_page_in(state, extent, &mut plan) {
                missing = u64::saturating_add(missing, more);
            }
        }
        if missing > 0 {
            for view in &views {
                state.hold_extent(state.checked_extent_of(*view), false);
            }
            self.undo_plan(state, &mut plan);
            self.start_paging(state, inside.adapter, plan, None);
            let missing =
                self.trim_bytes(state, process.0, inside.adapter, "make-resident", missing);
            self.log_residency_request(
                queue,
                &views,
                request.must_succeed,
                ResidencyResult::NoMemory(missing),
            );
            self.trim_others(state, inside.adapter);
            drop(guard);
            if request.must_succeed {
                // WINDOWS: a request that must succeed and cannot puts its device in error
                // (documented).
                self.device_lost(&mut self.state.lock(), inside.device, DeviceLoss::OutOfMemory);
            }
            return Err(KernelError::NoMemory { trim: missing });
        }
        let moving = self.increment_residency(state, &views, inside.subject(), queue);
        if !moving && plan.page_in.is_empty() {
            self.log_residency_request(
                queue,
                &views,
                request.must_succeed,
                ResidencyResult::Resident,
            );
            return Ok(Residency::Resident);
        }
        let value = state.next_queue_value(queue);
        self.start_paging(state, inside.adapter, plan, Some((queue, value)));
        self.log_residency_request(
            queue,
            &views,
            request.must_succeed,
            ResidencyResult::Pending(value),
        );
        Ok(Residency::Pending(value))
    }

    /// The GPU address of a view's allocation, if it is resident. For observers of memory content.
    pub fn address_of(&self, process: ProcessId, view: Handle) -> Option<u64> {
        let state = self.state.lock();
        let number = state.resolve_view(process, Argument::Allocation(0), view).ok()?;
        let it = state.memory.extents.get(state.extent_of(number)?)?;
        let memory = state.adapter_memory(it.adapter)?;
        memory.address(it).filter(|_| it.pending == 0)
    }

    fn log_residency_request(
        &self,
        queue: Id<PagingQueue>,
        views: &[Id<View>],
        must: bool,
        message: ResidencyResult,
    ) {
        let queue = queue.subject();
        let views = u32::try_from(views.len()).unwrap_or(u32::MAX);
        let (result, value, trim): (Text, _, _) = match message {
            ResidencyResult::Resident => ("resident".into(), 0, 0),
            ResidencyResult::Pending(value) => ("pending".into(), value, 0),
            ResidencyResult::NoMemory(trim) => ("no-memory".into(), 0, trim),
        };
        self.log.emit(queue, || EventKind::ResidencyRequested {
            queue,
            views,
            must_succeed: must,
            result,
            value,
            trim,
        });
    }

    /// Increments the residency counts of views. Returns whether any of them has pending paging
    /// work.
    fn increment_residency(
        &self,
        state: &mut KernelState,
        views: &[Id<View>],
        device: Subject,
        queue: Id<PagingQueue>,
    ) -> bool {
        let queue = Some(queue.subject());
        let mut pending = false;
        for view in views {
            let it = &mut state.views[*view];
            (it.resident, it.was_resident) = (it.resident + 1, true);
            let count = it.resident;
            it.not_written &= count > 1;
            let (lazily, clean) = (false, false);
            self.log.emit(view.subject(), || EventKind::ResidencyCounted {
                device,
                queue,
                count,
                only_if_necessary: lazily,
                not_written: clean,
            });
            let extent = state.checked_extent_of(*view);
            if count == 1 {
                state.charge(*view, extent);
            } else {
                state.hold_extent(extent, false); // Each view holds its extent once.
            }
            let moving = |extent: &Extent| extent.pending > 0;
            pending |= state.memory.extents.get(extent).is_some_and(moving);
        }
        pending
    }

    /// Removes views from the residency list, once each (`D3DKMTEvict`). Returns the number of
    /// bytes that the client should trim.
    pub fn evict(&self, process: ProcessId, request: &EvictRequest) -> Result<u64, KernelError> {
        let inside = self.enter_device(process, request.device)?;
        let state = &mut *self.state.lock();
        let views = state.views_of(process, inside.device, &request.list)?;
        let lacking = first_above(&views, |it| state.views.get(it).map_or(0, |view| view.resident));
        let lacking = lacking.map(Id::subject);
        let broken = lacking.map(|subject| {
            format!("{subject} is evicted more often than its client made it resident")
        });
        let (about, place) = (inside.subject(), "D3DKMTEvict.AllocationList");
        self.log.judge(RuleId::RESID_EVICT_001, Component::Client, about, place, broken);
        if let Some(view) = lacking {
            // WINDOWS: a count below zero fails the whole call (our decision).
            return Err(KernelError::NotResident(view));
        }
        let mut plan = PagingPlan::default();
        for view in &views {
            self.decrement_residency(state, *view, inside.device, request);
            let extent = state.checked_extent_of(*view);
            let free = state.memory.extents[extent].rank.is_some();
            if free && !request.only_if_necessary {
                self.plan_eviction(state, extent, &mut plan);
            }
        }
        self.start_paging(state, inside.adapter, plan, None);
        Ok(self.trim_bytes(state, process.0, inside.adapter, "evict", 0))
    }

    /// Plans an eviction that a client requested, or postpones it.
    ///
    /// WINDOWS: an evicted allocation leaves when the queued work that uses it is done (documented);
    /// that others do not wait for that work is our reading.
    fn plan_eviction(&self, state: &mut KernelState, extent: Id<Extent>, plan: &mut PagingPlan) {
        if !state.is_used_behind_wait(extent) {
            self.plan_page_out(state, extent, EVICTED, plan);
        } else if !state.memory.evictions.contains(&extent) {
            state.memory.evictions.push(extent);
        }
    }

    /// Plans the postponed evictions whose earlier work is not behind a wait any more.
    #[inline]
    pub(crate) fn complete_evictions(&self, state: &mut KernelState, adapter: Id<Adapter>) {
        if !state.memory.evictions.is_empty() {
            self.complete_listed_evictions(state, adapter);
        }
    }

    fn complete_listed_evictions(&self, state: &mut KernelState, adapter: Id<Adapter>) {
        let mut plan = PagingPlan::default();
        for extent in std::mem::take(&mut state.memory.evictions) {
            // The allocation may have been destroyed, or is resident or locked again.
            let Some(it) = state.memory.extents.get(extent).filter(|it| it.rank.is_some()) else {
                continue;
            };
            if it.adapter == adapter {
                self.plan_eviction(state, extent, &mut plan);
            } else {
                state.memory.evictions.push(extent);
            }
        }
        self.start_paging(state, adapter, plan, None);
    }

    /// Decrements a view's residency count. At zero, its extent is released.
    fn decrement_residency(
        &self,
        state: &mut KernelState,
        view: Id<View>,
        device: Id<Device>,
        request: &EvictRequest,
    ) {
        let it = &mut state.views[view];
        it.resident = it.resident.saturating_sub(1);
        it.not_written |= request.not_written;
        let (count, not_written) = (it.resident, it.not_written);
        let (lazily, clean) = (request.only_if_necessary, request.not_written);
        let device_subject = device.subject();
        self.log.emit(view.subject(), || EventKind::ResidencyCounted {
            device: device_subject,
            queue: None,
            count,
            only_if_necessary: lazily,
            not_written: clean,
        });
        if count == 0 {
            let extent = state.checked_extent_of(view);
            let it = &mut state.memory.extents[extent];
            // A client that did not promise otherwise may have written.
            (it.not_written, it.written) = (not_written, it.written || !not_written);
            state.release_extent_of_view(extent, view);
        }
    }
}

/// The first id that is in a list more often than allowed.
pub(crate) fn first_above<T>(list: &[Id<T>], limit: impl Fn(Id<T>) -> u32) -> Option<Id<T>> {
    let mut counts = BTreeMap::new();
    list.iter().copied().find(|it| {
        let count = counts.entry(*it).or_insert(0);
        *count += 1;
        *count > limit(*it)
    })
}

impl KernelState {
    /// Drops the residency counts of a closed view. If its client assumes that it is not in use,
    /// nothing waits for the work of that device.
    #[inline]
    pub(crate) fn clear_residency(&mut self, view: Id<View>, assume: bool) {
        let it = &mut self.views[view];
        let (held, device) = (std::mem::take(&mut it.resident) > 0, it.device);
        self.devices[device].has_closed_views = true;
        // An allocation of an adapter without memory has no extent.
        let Some(extent) = self.extent_of(view) else { return };
        if held {
            self.release_extent_of_view(extent, view);
            self.memory.extents[extent].written = true;
        }
        if assume {
            let mine = self.outstanding_work(device);
            let of_mine = |queue_point: &QueuePoint| match *queue_point {
                QueuePoint::Context(context, _) => mine
                    .iter()
                    .any(|own| matches!(own, QueuePoint::Context(other, _) if *other == context)),
                QueuePoint::Node(..) => false,
            };
            self.memory.extents[extent].uses.retain(|queue_point| !of_mine(queue_point));
        }
    }

    /// Releases a view's hold on its extent. Queued work of its device may still use the extent.
    fn release_extent_of_view(&mut self, extent: Id<Extent>, view: Id<View>) {
        self.uncharge(view, extent);
        let device = self.views[view].device;
        let used = self.outstanding_work(device);
        self.memory.extents[extent].add_uses(used);
        self.hold_extent(extent, false);
    }

    /// Whether work that may use an extent is behind a wait.
    pub(crate) fn is_used_behind_wait(&self, extent: Id<Extent>) -> bool {
        let it = &self.memory.extents[extent];
        it.uses.iter().any(|work| self.is_behind_wait(it.adapter, *work))
    }

    /// The extent of a view's allocation.
    pub(crate) fn extent_of(&self, view: Id<View>) -> Option<Id<Extent>> {
        self.allocations.get(self.views.get(view)?.allocation)?.extent
    }

    /// The extent of a view that [`KernelState::views_of`] returned under the same lock.
    pub(crate) fn checked_extent_of(&self, view: Id<View>) -> Id<Extent> {
        invariant(self.extent_of(view), "a view in a checked list has memory")
    }

    /// Resolves a client's handles to views of a device. All of them must have memory.
    pub(crate) fn views_of(
        &self,
        process: ProcessId,
        device: Id<Device>,
        list: &[Handle],
    ) -> Result<Vec<Id<View>>, KernelError> {
        let mut views = Vec::with_capacity(list.len());
        for (place, handle) in list.iter().enumerate() {
            let argument = Argument::Allocation(place);
            let number = self.resolve_view(process, argument, *handle)?;
            let owner = self.views[number].device;
            if owner != device {
                let owner = owner.subject();
                return Err(KernelError::OtherDevice { argument, handle: *handle, owner });
            }
            self.extent_of(number).ok_or(KernelError::NoVideoMemory)?;
            views.push(number);
        }
        Ok(views)
    }

    /// Charges a listed extent to the process of a view, for the segment group it is in.
    fn charge(&mut self, view: Id<View>, extent: Id<Extent>) {
        let it = &self.memory.extents[extent];
        let segment = it.segment().zip(self.adapter_memory(it.adapter));
        let segment = segment.and_then(|(it, memory)| memory.segments.get(it));
        let group = match segment {
            Some(it) if !it.info.flags.aperture => SegmentGroup::Local,
            _ => SegmentGroup::NonLocal,
        };
        self.views[view].charged_group = Some(group);
        self.count_charge(view, extent, group, u64::saturating_add);
    }

    /// Removes the charge from the group that was charged, even if the extent has moved since.
    fn uncharge(&mut self, view: Id<View>, extent: Id<Extent>) {
        if let Some(group) = self.views[view].charged_group.take() {
            self.count_charge(view, extent, group, u64::saturating_sub);
        }
    }

    fn count_charge(
        &mut self,
        view: Id<View>,
        extent: Id<Extent>,
        group: SegmentGroup,
        sum: fn(u64, u64) -> u64,
    ) {
        let it = &self.memory.extents[extent];
        let (adapter, bytes) = (it.adapter, it.bytes);
        let process = self.devices[self.views[view].device].owner();
        let it = &mut self.processes[process];
        match it.usage.iter_mut().find(|entry| (entry.0, entry.1) == (adapter, group)) {
            Some(it) => it.2 = sum(it.2, bytes),
            None => it.usage.push((adapter, group, sum(0, bytes))),
        }
    }

    /// Adds or drops one hold on an extent.
    pub(crate) fn hold_extent(&mut self, extent: Id<Extent>, hold: bool) {
        let (extents, memory) = self.memory_mut_of(extent);
        let it = &mut extents[extent];
        it.holds = if hold { it.holds + 1 } else { it.holds.saturating_sub(1) };
        if it.holds == 0 {
            memory.use_clock += 1;
            it.last_used = memory.use_clock;
        }
        self.rank(extent);
    }
}
