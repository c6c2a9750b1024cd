//! Locks: CPU access to an allocation, wherever it is, at an address that does not change.
//!
//! # Invariants
//!
//! 1. While an extent is locked, its CPU mapping shows the current location of its bytes. The
//!    mapping is redirected when paging work has moved them; an extent whose mapping cannot follow
//!    is not moved.
//! 2. The address of a lock that a destroy dropped maps nothing, and never another allocation's
//!    bytes.

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::ddi::segment::{PlacementRequirements, SegmentFlags};
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::process::ProcessId;
use crate::lock::StateGuard;
use crate::memory::Owner;
use crate::memory::place::{ENDS, NoSpace, PagingPlan};
use crate::memory::residency::first_above;
use crate::memory::{CpuLock, Extent, Location, Memory};
use crate::objects::device_access::EnteredDevice;
use crate::objects::handle_table::Handle;
use crate::objects::view::View;
use crate::schedule::report::QueuePoint;
use crate::state::KernelState;
use flight::{EventKind, Passive, Ram, Run, Subject, invariant};
use std::sync::Arc;

/// A client's lock request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub struct LockRequest {
    /// The device.
    pub device: Handle,
    /// The view.
    pub view: Handle,
    /// Wait for the device's earlier work (`D3DKMTLock` without `IgnoreSync`).
    pub wait: bool,
    /// Fail instead of waiting (`DonotWait`).
    pub do_not_wait: bool,
    /// Fail instead of moving memory (`DonotEvict`).
    pub do_not_evict: bool,
    /// Through an aperture (`AcquireAperture`).
    pub aperture: bool,
    /// At an alternate address (`UseAlternateVA`).
    pub alternate: bool,
    /// The client accepts concurrent writes by queued work (`IgnoreSync`, `IgnoreReadSync`).
    pub ignore_sync: bool,
    /// The client does not need the current content: another instance will do (`Discard`).
    pub discards: bool,
    /// No unsubmitted commands of the client refer to it (`NoExistingReference`).
    pub no_existing_reference: bool,
}

/// The result of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockResponse {
    /// The view: another handle, if it is another instance.
    pub view: Handle,
    /// The client's address.
    pub address: usize,
    /// The address is that of memory of the client, and no mapping of the kernel.
    pub is_clients_own: bool,
}

impl Kernel {
    /// Maps an allocation for the CPU (`D3DKMTLock`, `D3DKMTLock2`).
    pub fn lock(
        &self,
        at: &mut Passive,
        process: ProcessId,
        request: &LockRequest,
    ) -> Result<LockResponse, KernelError> {
        let inside = self.enter_device(process, request.device)?;
        let (view, extent, renames) = {
            let state = self.state.lock();
            let view = state.views_of(process, inside.device, &[request.view])?.swap_remove(0);
            let extent = state.extent_of(view).ok_or(KernelError::NoVideoMemory)?;
            // WINDOWS: with Discard, IgnoreSync and DonotWait have no effect (documented).
            let renames = request.discards && state.may_rename(view);
            let request = LockRequest { ignore_sync: request.ignore_sync && !renames, ..*request };
            state.may_lock(view, extent, &request)?;
            let (do_not_wait, still) = (request.do_not_wait, request.do_not_evict);
            if !renames {
                self.log.emit(state.lock_subject(view, extent), || EventKind::LockRequested {
                    do_not_wait,
                    do_not_evict: still,
                });
            }
            (view, extent, renames)
        };
        if renames {
            let request = LockRequest { ignore_sync: false, ..*request };
            return self.lock_instance(at, process, &inside, view, &request);
        }
        if request.wait {
            self.wait_for_use(at, inside.device, request.do_not_wait)?;
        }
        let request = &LockRequest { discards: false, ..*request };
        self.lock_extent(at, process, &inside, request, (view, extent))
    }

    /// Maps an instance that the client will fill.
    ///
    /// WINDOWS: if memory is short, the call waits for an instance rather than create another
    /// (documented).
    fn lock_instance(
        &self,
        at: &mut Passive,
        process: ProcessId,
        inside: &EnteredDevice,
        view: Id<View>,
        request: &LockRequest,
    ) -> Result<LockResponse, KernelError> {
        let mut grows = true;
        loop {
            let extent = self.acquire_instance(at, process, inside, view, (request, grows))?;
            let shown = self.lock_extent(at, process, inside, request, (view, extent));
            let never_filled = self.release_instance(view, extent);
            match shown {
                Err(KernelError::NoMemory { .. }) if never_filled && grows => grows = false,
                shown => return shown,
            }
        }
    }

    /// Maps an extent of a view for the CPU. An instance that the client will fill becomes the
    /// newest.
    fn lock_extent(
        &self,
        at: &mut Passive,
        process: ProcessId,
        inside: &EnteredDevice,
        request: &LockRequest,
        (view, extent): (Id<View>, Id<Extent>),
    ) -> Result<LockResponse, KernelError> {
        let mut guard = self.bring_to_cpu(at, process, inside.device, extent, request)?;
        let state = &mut *guard;
        // The call may have waited: the view may have been offered since.
        state.may_lock(view, extent, request)?;
        let seen = state.lock_subject(view, extent);
        let (extents, memory) = state.memory_mut_of(extent);
        let it = &mut extents[extent];
        if it.lock.is_none() {
            if it.segment().is_none() && !it.commit_backing(&*memory.ram, &mut memory.pressure) {
                return Err(KernelError::NoMemory { trim: it.bytes });
            }
            if it.location == Location::Unbacked {
                (it.location, it.has_content) = (Location::System, true);
            }
            // WINDOWS: a lock of existing system memory returns the client's own address (our
            // reading).
            let own = it.client_address();
            let address = match own {
                Some(address) => address,
                None => {
                    memory.ram.map(&memory.cpu_runs(it)).ok_or(KernelError::NoMemory { trim: 0 })?
                }
            };
            it.lock = Some(CpuLock {
                count: 0,
                address,
                is_clients_own: own.is_some(),
                aperture: request.aperture,
                alternate: request.alternate,
            });
        }
        let mut name = request.view;
        if request.discards {
            match self.select_instance(state, process, view, extent, request.no_existing_reference)
            {
                Ok(it) => name = it,
                Err(why) => {
                    state.unmap_extent_from_cpu(extent);
                    return Err(why);
                }
            }
        }
        let (extents, memory) = state.memory_mut_of(extent);
        let it = &mut extents[extent];
        let location = memory.location_name(it);
        (it.not_written, it.copied) = (false, it.copied && location != "memory");
        if let Some(observer) = self.observer.get() {
            observer.forget(it.owner.subject());
        }
        let lock = invariant(it.lock.as_mut(), "the extent was just locked");
        lock.count += 1;
        let (count, address, is_clients_own) = (lock.count, lock.address, lock.is_clients_own);
        // A lock that ignores running work (`IgnoreSync`) does not fail because of it, either.
        let do_not_wait = request.do_not_wait && request.wait && !request.discards;
        self.log.emit(seen, || EventKind::LockAcquired {
            count,
            location: location.into(),
            do_not_wait,
        });
        state.views[view].locks += 1;
        state.rank(extent);
        Ok(LockResponse { view: name, address, is_clients_own })
    }

    /// Ends one lock of each view (`D3DKMTUnlock`, `D3DKMTUnlock2`): of all, or none.
    pub fn unlock(
        &self,
        process: ProcessId,
        device: Handle,
        list: &[Handle],
    ) -> Result<(), KernelError> {
        let inside; // Declared before the state, so that it is dropped after it.
        let mut guard = self.state.lock();
        let state = &mut *guard;
        // A lost device is entered, too: calls that release objects always work.
        let number = state.device_of(process, device)?;
        inside = self.acquire_rundown(state, number)?;
        let mut locked = Vec::with_capacity(list.len());
        for (location, handle) in list.iter().enumerate() {
            // An older instance is allowed: it may have been locked when it was the newest.
            let argument = Argument::Allocation(location);
            locked.push(state.instance_of(process, inside.device, argument, *handle)?);
        }
        let (views, extents): (Vec<Id<View>>, Vec<Id<Extent>>) = locked.iter().copied().unzip();
        let unlocked = first_above(&views, |it| state.views.get(it).map_or(0, |view| view.locks));
        let count = |it| state.memory.extents.get(it).and_then(|extent| extent.lock.as_ref());
        let dark =
            first_above(&extents, |extent| count(extent).map_or(0, |cpu_lock| cpu_lock.count));
        let dark = locked.iter().find(|it| Some(it.1) == dark).map(|pair| pair.0);
        if let Some(view) = unlocked.or(dark) {
            return Err(KernelError::NotLocked(view.subject()));
        }
        for (view, extent) in locked {
            self.end_lock(state, view, extent, false);
        }
        Ok(())
    }

    /// Ends one lock of a view at that extent.
    fn end_lock(&self, state: &mut KernelState, view: Id<View>, extent: Id<Extent>, dropped: bool) {
        let it = state.views.get_mut(view).filter(|view| view.locks > 0);
        let it = invariant(it, "a lock that ends was acquired");
        it.locks -= 1;
        let count = it.locks;
        self.log.emit(state.lock_subject(view, extent), || EventKind::LockEnded { count, dropped });
        let locked = view.subject().number;
        let (extents, memory) = state.memory_mut_of(extent);
        let it = &mut extents[extent];
        if let Some(lock) = &mut it.lock {
            lock.count -= 1;
            if lock.count == 0 {
                let (address, is_clients_own) = (lock.address, lock.is_clients_own);
                it.lock = None;
                if !is_clients_own {
                    memory.ram.lock_ended(address, locked, dropped);
                    memory.unmap_from_cpu(address, dropped);
                }
            }
        }
        state.rank(extent);
    }

    /// Ends the remaining locks of a view that is closed.
    #[inline]
    pub(crate) fn drop_locks(&self, state: &mut KernelState, view: Id<View>) {
        while state.views.get(view).is_some_and(|view| view.locks > 0) {
            // Without a locked extent there is nothing to unmap.
            let Some(extent) = state.locked_extents(view).first().copied() else { return };
            self.end_lock(state, view, extent, true);
        }
    }

    /// The memory that a device's client can access: its locked allocations, its buffers, the
    /// values of its fences.
    pub fn memory_of_device(&self, process: ProcessId, device: Handle) -> Option<Arc<dyn Ram>> {
        let state = self.state.lock();
        let number = state.device_of(process, device).ok()?;
        let adapter = state.devices.get(number)?.adapter;
        Some(state.adapter_memory(adapter)?.ram.clone())
    }

    /// Waits for the work that a device has queued.
    fn wait_for_use(
        &self,
        at: &mut Passive,
        device: Id<Device>,
        do_not_wait: bool,
    ) -> Result<(), KernelError> {
        let lost = |state: &KernelState| {
            state.devices.get(device).is_none_or(|device| device.lost.is_some())
        };
        let idle = |state: &KernelState| lost(state) || state.outstanding_work(device).is_empty();
        if do_not_wait && !idle(&self.state.lock()) {
            return Err(KernelError::InUse(device.subject()));
        }
        let about = device.subject();
        let what = |_: &KernelState| format!("the work of {about}, to lock");
        let done = self.wait_inside_for_work(at, about, device, what, idle);
        if done { Ok(()) } else { Err(KernelError::Stuck) }
    }

    /// Moves an extent to a location that the CPU can access, if necessary, and waits until it is
    /// there. Returns with the state locked, and fails if the view was destroyed meanwhile.
    fn bring_to_cpu(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Id<Device>,
        extent: Id<Extent>,
        request: &LockRequest,
    ) -> Result<StateGuard<'_, KernelState>, KernelError> {
        let about = self
            .state
            .lock()
            .memory
            .extents
            .get(extent)
            .map_or(Subject::RUN, |extent| extent.owner.subject());
        let over = |state: &KernelState| {
            state.memory.extents.get(extent).is_none_or(|extent| extent.moving == 0)
        };
        let what = |_: &KernelState| format!("the paging work of {about}");
        let hidden = |state: &KernelState| {
            state.memory.extents.contains(extent)
                && state.is_hidden(extent)
                && state.pages_in_listed(device)
        };
        if !request.wait && !request.discards && hidden(&self.state.lock()) {
            // An extent is not moved while packets use it, whatever the client ignores.
            self.wait_for_use(at, device, request.do_not_wait)?;
        }
        loop {
            let mut state = self.state.lock();
            // Another thread may have destroyed the view, and with it the extent, meanwhile.
            state.check_locked_view(process, device, request.view)?;
            let mut is_moving = true;
            if state.is_hidden(extent) {
                is_moving = self.move_to_cpu(&mut state, extent, request)?;
            } else if over(&state) {
                return Ok(state);
            }
            drop(state);
            let ended = if is_moving {
                self.wait_until(at, about, what, over)
            } else {
                let free = |state: &KernelState| !state.is_listed_behind_wait(extent);
                let what = |_: &KernelState| format!("the work that uses {about}, to lock");
                self.wait_inside_for_work(at, about, device, what, free)
            };
            if !ended {
                return Err(KernelError::Stuck);
            }
        }
    }

    /// Plans to move an extent out of memory that the CPU cannot access. A listed extent stays
    /// resident: it goes to another segment. Returns whether the extent moves: not while work behind
    /// a wait may use it.
    fn move_to_cpu(
        &self,
        state: &mut KernelState,
        extent: Id<Extent>,
        request: &LockRequest,
    ) -> Result<bool, KernelError> {
        let it = &state.memory.extents[extent];
        let (owner, adapter, bytes, listed) = (it.owner, it.adapter, it.bytes, it.holds > 0);
        if request.do_not_evict {
            return Err(KernelError::WouldEvict(owner.subject()));
        }
        if it.requirements.flags.pinned {
            return Err(KernelError::Pinned(owner.subject()));
        }
        if state.is_listed_behind_wait(extent) {
            return Ok(false);
        }
        let waits = state.work_of_residency_lists(owner);
        let mut plan = PagingPlan { waits, ..PagingPlan::default() };
        if !self.plan_page_out(state, extent, "the CPU locks it", &mut plan) {
            return Err(KernelError::NoMemory { trim: bytes });
        }
        let mut found = Ok(true);
        if listed {
            plan.cpu_visible = true;
            found = self.plan_page_in(state, extent, &mut plan);
            plan.cpu_visible = false;
            if found.is_err() {
                // Back to a segment with room: at least to the old one.
                let _ = self.plan_page_in(state, extent, &mut plan);
            }
        }
        self.start_paging(state, adapter, plan, None);
        found.map(|_| true).map_err(|NoSpace { missing }| KernelError::NoMemory { trim: missing })
    }

    /// Unmaps an extent that is about to be destroyed. Returns whether none of its steps is
    /// pending.
    pub(crate) fn empty_extent(&self, state: &mut KernelState, extent: Id<Extent>) -> bool {
        let it = &state.memory.extents[extent];
        let (segment, pending) = (it.segment(), it.pending);
        let mapped = segment.is_some_and(|index| {
            let memory = state.adapter_memory(state.adapter_of(extent));
            memory
                .and_then(|memory| memory.segments.get(index))
                .is_some_and(|segment| segment.info.flags.aperture)
        });
        if !mapped {
            return pending == 0;
        }
        // WINDOWS: an allocation's mappings are removed before it is destroyed (documented).
        let mut plan = PagingPlan::default();
        self.plan_page_out(state, extent, ENDS, &mut plan);
        let adapter = state.adapter_of(extent);
        self.start_paging(state, adapter, plan, None);
        state.memory.extents[extent].pending == 0
    }

    /// Releases all memory of an extent: now, or when none of its steps is pending.
    pub(crate) fn release_extent(&self, state: &mut KernelState, extent: Id<Extent>) {
        let empty = self.empty_extent(state, extent);
        let it = &mut state.memory.extents[extent];
        it.ending = true;
        if empty {
            self.drop_extent(state, extent);
        } else {
            state.remove_rank(extent);
        }
    }

    /// Releases all memory of an unreachable extent.
    pub(crate) fn drop_extent(&self, state: &mut KernelState, extent: Id<Extent>) {
        self.forget_table(state, extent);
        state.release_location(extent, Location::Unbacked);
        let (extents, memory) = state.memory_mut_of(extent);
        let it = &mut extents[extent];
        let (owner, driver_handle) = (it.owner, it.driver_handle);
        let subject = owner.subject();
        if let Some(lock) = it.lock.take().filter(|lock| !lock.is_clients_own) {
            memory.unmap_from_cpu(lock.address, true);
        }
        if let Some(existing) = it.existing.take() {
            self.judge_existing_memory(subject, &*existing);
        }
        for run in it.backing.drain(..).chain(it.discarded_pages.drain(..)) {
            memory.ram.free(run);
        }
        extents.discard(extent, |_| ());
        if let Some(observer) = self.observer.get() {
            observer.forget(subject);
        }
        self.log.emit(subject, || EventKind::MemoryFreed {});
        match owner {
            Owner::Allocation(_) => (),
            Owner::ContextAllocation(saved) => {
                self.log.emit(subject, || EventKind::ContextAllocationDestroyed {});
                if driver_handle != 0 {
                    self.log.release_pointer(driver_handle);
                }
                state.memory.context_allocations.remove(saved);
            }
            Owner::Instance(instance) => {
                self.log.emit(subject, || EventKind::InstanceDestroyed {});
                state.memory.instances.remove(instance);
            }
            Owner::Table(_) => self.log.emit(subject, || EventKind::PageTableDestroyed {}),
        }
        self.wake_all(state);
    }
}

/// Number of addresses of destroyed, locked allocations that are kept from reuse.
const MAX_STALE_MAPPINGS: usize = 256;

impl Memory {
    /// Removes a CPU mapping. An access to a `dropped` mapping traps: its addresses are not reused
    /// until too many others follow, or the adapter is removed.
    fn unmap_from_cpu(&mut self, address: usize, dropped: bool) {
        if !dropped {
            self.ram.unmap(address);
            return;
        }
        self.ram.remap(address, &[]);
        self.stale_mappings.push_back(address);
        if self.stale_mappings.len() > MAX_STALE_MAPPINGS
            && let Some(oldest) = self.stale_mappings.pop_front()
        {
            self.ram.unmap(oldest);
        }
    }

    /// The segments that an extent can be in.
    fn segments_of(
        &self,
        requirements: &PlacementRequirements,
    ) -> impl Iterator<Item = SegmentFlags> {
        let numbered = (1..).zip(&self.segments);
        let mine = numbered.filter(|(number, _)| requirements.segments.has(*number));
        mine.map(|(_, it)| it.info.flags)
    }

    /// The type of an extent's location, for events.
    fn location_name(&self, it: &Extent) -> &'static str {
        let segment = it.segment().and_then(|index| self.segments.get(index));
        match segment.map(|segment| segment.info.flags.aperture) {
            Some(false) => "memory",
            Some(true) => "aperture",
            None => "system",
        }
    }

    /// The pieces of physical memory that hold an extent's bytes.
    fn cpu_runs(&self, it: &Extent) -> Vec<Run> {
        let local = match &it.location {
            Location::Segment { segment, range } => {
                let cpu = self.segments.get(*segment).and_then(|segment| segment.info.cpu_address);
                let aperture =
                    self.segments.get(*segment).is_some_and(|segment| segment.info.flags.aperture);
                cpu.filter(|_| !aperture).map(|value| value + range.start())
            }
            Location::Unbacked | Location::System => None,
        };
        match local {
            Some(start) => vec![Run { start, bytes: it.bytes }],
            None => it.backing.clone(),
        }
    }

    /// Whether the CPU cannot access an extent at its location, or not as required.
    ///
    /// WINDOWS: a cached allocation can be locked in an aperture or in system memory only
    /// (documented).
    fn is_hidden(&self, it: &Extent) -> bool {
        // The CPU can access all of system memory.
        let Some(segment) = it.segment().and_then(|index| self.segments.get(index)) else {
            return false;
        };
        let flags = segment.info.flags;
        let visible = flags.cpu_visible
            && segment.info.cpu_address.is_some()
            && !it.requirements.flags.cached;
        !flags.aperture && !visible
    }
}

impl KernelState {
    /// Checks whether a client may lock a view in this way.
    fn may_lock(
        &self,
        view: Id<View>,
        extent: Id<Extent>,
        request: &LockRequest,
    ) -> Result<(), KernelError> {
        let it = &self.memory.extents[extent];
        let (subject, cached) = (view.subject(), it.requirements.flags.cached);
        let memory = self.adapter_memory(it.adapter);
        let memory = invariant(memory, "an adapter whose extents live has memory");
        let all: Vec<_> = memory.segments_of(&it.requirements).collect();
        if request.aperture && all.iter().all(|segment_flags| segment_flags.aperture) {
            return Err(KernelError::OnlyApertures(subject));
        }
        let mapped = all
            .iter()
            .any(|segment_flags| segment_flags.aperture && (segment_flags.coherent || !cached));
        if request.ignore_sync && !mapped {
            return Err(KernelError::IgnoreSyncNotAllowed(subject));
        }
        if !it.requirements.flags.cpu_visible {
            return Err(KernelError::NotCpuVisible(subject));
        }
        // WINDOWS: only its creator locks a shared allocation (documented). That the creator is the
        // process, with any of its devices, is our decision.
        let opened = self.views.get(view).map(|view| (view.device, view.allocation));
        let process = opened.and_then(|(device, _)| self.devices.get(device)?.process);
        let creator = opened.and_then(|(_, it)| self.allocations.get(it)?.creator);
        if process != creator {
            return Err(KernelError::NotCreator(subject));
        }
        if it.offer.is_some() {
            return Err(KernelError::Offered(subject));
        }
        // WINDOWS: a shared allocation has no alternate address, and an allocation that is locked
        // at one is unlocked before it is locked again (documented).
        let shared = self.is_shared_view(view);
        let lock = it.lock.as_ref();
        if request.alternate && shared
            || lock.is_some_and(|cpu_lock| cpu_lock.alternate || request.alternate)
        {
            return Err(KernelError::AlternateAddressConflict(subject));
        }
        if lock.is_some_and(|cpu_lock| request.aperture && !cpu_lock.aperture) {
            return Err(KernelError::LockModeConflict(subject));
        }
        Ok(())
    }

    /// Fails if the view that a lock names was destroyed while the state was not locked.
    fn check_locked_view(
        &self,
        process: ProcessId,
        device: Id<Device>,
        view: Handle,
    ) -> Result<(), KernelError> {
        // The planted bug of these builds uses the extent of a destroyed view.
        #[cfg(shuttle)]
        if self.planted_stale_extent {
            return Ok(());
        }
        self.views_of(process, device, &[view]).map(drop)
    }

    /// Whether the CPU cannot access an extent at its location.
    fn is_hidden(&self, extent: Id<Extent>) -> bool {
        let it = &self.memory.extents[extent];
        self.adapter_memory(it.adapter).is_some_and(|memory| memory.is_hidden(it))
    }

    /// Undoes a lock of an extent that fails: removes the mapping if there is no other lock.
    fn unmap_extent_from_cpu(&mut self, extent: Id<Extent>) {
        let (extents, memory) = self.memory_mut_of(extent);
        let it = &mut extents[extent];
        let lock = it.lock.take_if(|cpu_lock| cpu_lock.count == 0);
        if let Some(lock) = lock.filter(|lock| !lock.is_clients_own) {
            memory.unmap_from_cpu(lock.address, false);
        }
        self.rank(extent);
    }

    /// Whether work that may use an extent, also one that is on residency lists, is behind a wait.
    fn is_listed_behind_wait(&self, extent: Id<Extent>) -> bool {
        // The extent may have ended during the wait.
        let Some(it) = self.memory.extents.get(extent) else { return false };
        let listed = self.work_of_residency_lists(it.owner);
        listed.into_iter().any(|work| self.is_behind_wait(it.adapter, work))
            || self.is_used_behind_wait(extent)
    }

    /// The queued work of the devices that list an allocation: it may use the allocation.
    fn work_of_residency_lists(&self, owner: Owner) -> Vec<QueuePoint> {
        let allocation = self.allocation_of(owner).and_then(|id| self.allocations.get(id));
        let views = allocation.map(|allocation| allocation.views.as_slice());
        let views = views.unwrap_or_default().iter().filter_map(|view| self.views.get(*view));
        let listing = views.filter(|view| view.resident > 0);
        listing.flat_map(|view| self.outstanding_work(view.device)).collect()
    }

    /// Whether a view's allocation belongs to a shared resource.
    fn is_shared_view(&self, view: Id<View>) -> bool {
        let allocation =
            self.views.get(view).and_then(|view| self.allocations.get(view.allocation));
        let resource = allocation.and_then(|allocation| allocation.resource);
        resource
            .and_then(|resource| self.resources.get(resource))
            .is_some_and(|resource| resource.shared)
    }

    pub(crate) fn adapter_of(&self, extent: Id<Extent>) -> Id<Adapter> {
        self.memory.extents[extent].adapter
    }

    /// Redirects a locked extent's mapping to the current location of its bytes. Returns the
    /// location if the mapping changed.
    pub(crate) fn remap_cpu_view(&mut self, extent: Id<Extent>) -> Option<&'static str> {
        let (extents, memory) = self.memory_mut_of(extent);
        let it = extents.get(extent).filter(|extent| extent.moving == 0)?;
        let lock = it.lock.as_ref().filter(|lock| !lock.is_clients_own)?;
        memory.ram.remap(lock.address, &memory.cpu_runs(it));
        Some(memory.location_name(it))
    }
}
