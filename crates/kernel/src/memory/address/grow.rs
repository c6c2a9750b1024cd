//! Root growth: a new root is created and filled, contexts switch to it, then the old root is
//! destroyed.

use crate::adapter::start::Adapter;
use crate::base::error::KernelError;
use crate::base::id_list::Id;
use crate::ddi::Driver;
use crate::ddi::mmu::{PageTableEntry, Root, RootSize};
use crate::ddi::operation::PAGE;
use crate::ddi::permit::ThreadingLevel;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::device::DeviceLoss;
use crate::memory::Extent;
use crate::memory::PagingStep;
use crate::memory::address::AddressSpace;
use crate::memory::address::geometry::Geometry;
use crate::memory::address::step::TableWrite;
use crate::memory::address::subject;
use crate::memory::place::PagingPlan;
use crate::schedule::report::InFlightPacket;
use crate::state::KernelState;
use flight::Passive;

impl Kernel {
    /// Grows the root of a space up to an address. Waits if another thread is changing the root.
    pub(crate) fn grow_root(
        &self,
        at: &mut Passive,
        driver: &Driver,
        space: Id<AddressSpace>,
        end: u64,
    ) -> Result<(), KernelError> {
        let about = subject(space);
        let still = |state: &KernelState| {
            state.memory.spaces.get(space).is_none_or(|address_space| !address_space.growing_root)
        };
        loop {
            if !self.wait_until(at, about, |_| format!("the new root of {about}"), still) {
                return Err(KernelError::Stuck);
            }
            let state = &mut *self.state.lock();
            if state.reaches(space, end) {
                return Ok(());
            }
            let it = state.memory.spaces.get_mut(space).ok_or(KernelError::NoAddressSpace)?;
            if !std::mem::replace(&mut it.growing_root, true) {
                break;
            }
        }
        let grown = self.grow(at, driver, space, end);
        let mut state = self.state.lock();
        // The space may have ended with its adapter meanwhile.
        if let Some(it) = state.memory.spaces.get_mut(space) {
            it.growing_root = false;
        }
        self.hold_contexts(&mut state, space, false);
        self.apply_deferred_updates(&mut state, space);
        self.wake_all(&mut state);
        grown
    }

    fn grow(
        &self,
        at: &mut Passive,
        driver: &Driver,
        space: Id<AddressSpace>,
        end: u64,
    ) -> Result<(), KernelError> {
        let (process, geometry) = {
            let state = self.state.lock();
            let it = state.memory.spaces.get(space).ok_or(KernelError::NoAddressSpace)?;
            let mmu = state.mmu(it.adapter).ok_or(KernelError::NoAddressSpace)?;
            (it.process, mmu.geometry.clone())
        };
        let adapter = driver.adapter;
        let keys = || ThreadingLevel::Zero.keys(adapter, driver.generation, process);
        let entries = geometry.index(geometry.top(), end - 1).saturating_add(1);
        let size = {
            let permit = self.acquire_permit(at, keys())?;
            self.size_root(at, &permit, driver, process, entries)?
        };
        let new = self.build_root(at, adapter, space, &geometry, size)?;
        let range = self
            .wait_contexts_idle(at, space)
            .and_then(|()| self.state.lock().location_of(new).ok_or(KernelError::NoAddressSpace));
        let (segment, offset) = match range {
            Ok(it) => it,
            Err(why) => {
                self.release_extent(&mut self.state.lock(), new);
                return Err(why);
            }
        };
        let root = Root { segment, offset, entries: size.entries };
        let contexts = self.state.lock().contexts_of(space);
        for number in contexts {
            let permit = self.acquire_permit(at, keys());
            let (driver_handle, device) = {
                let mut state = self.state.lock();
                // The context may have ended since the contexts were listed.
                let Some(it) = state.contexts.get_mut(number) else { continue };
                let Some(driver_handle) = it.driver_handle.clone() else { continue };
                it.active_calls += 1; // From here on it cannot be destroyed.
                (driver_handle, it.device)
            };
            let told = match &permit {
                Ok(permit) => {
                    driver.set_root_page_table(at, permit, process, &driver_handle, root).is_ok()
                }
                Err(_) => false,
            };
            drop(driver_handle);
            let mut state = self.state.lock();
            // The context is removed already if the wait of its end for this call could not end.
            if let Some(it) = state.contexts.get_mut(number) {
                it.active_calls -= 1;
                it.root = Some(root);
            }
            if told {
                self.log_root(&state, space, Some(number), (new, root));
            } else {
                // The context has the old root, which is destroyed: it never runs again.
                self.device_lost(&mut state, device, DeviceLoss::SubmitFailed);
            }
            self.wake_all(&mut state);
        }
        self.change_root(at, adapter, space, &geometry, (new, size));
        Ok(())
    }

    /// Waits until the contexts of a space are idle, including those created meanwhile.
    ///
    /// WINDOWS: contexts do not run while their root changes (documented).
    fn wait_contexts_idle(
        &self,
        at: &mut Passive,
        space: Id<AddressSpace>,
    ) -> Result<(), KernelError> {
        let about = subject(space);
        let made = |state: &KernelState| {
            state.memory.spaces.get(space).is_none_or(|address_space| address_space.users == 0)
        };
        let idle = |state: &KernelState| state.are_contexts_idle(space) && made(state);
        loop {
            self.hold_contexts(&mut self.state.lock(), space, true);
            let what = |_: &KernelState| format!("the contexts of {about} to become idle");
            if !self.wait_until(at, about, what, idle) {
                return Err(KernelError::Stuck);
            }
            let state = self.state.lock();
            let backing = |it: &Id<Context>| {
                state.contexts.get(*it).is_none_or(|context| context.changing_root)
            };
            if idle(&state) && state.contexts_of(space).iter().all(backing) {
                return Ok(());
            }
        }
    }

    /// Creates a new root with all entries of the old one, and waits until it is written.
    fn build_root(
        &self,
        at: &mut Passive,
        adapter: Id<Adapter>,
        space: Id<AddressSpace>,
        geometry: &Geometry,
        size: RootSize,
    ) -> Result<Id<Extent>, KernelError> {
        let top = geometry.top();
        let extent = {
            let state = &mut *self.state.lock();
            let old = state
                .memory
                .spaces
                .get(space)
                .and_then(|address_space| address_space.tables.get(&(top, 0)).copied());
            let mut plan = PagingPlan::default();
            let (info, large) = (geometry.level(top), (size.entries, Some(size.bytes)));
            let made = self.create_table(state, space, (top, 0), info, large, &mut plan);
            // The old root stays the root until contexts are switched.
            if let (Some(it), Some(old)) = (state.memory.spaces.get_mut(space), old) {
                it.tables.insert((top, 0), old);
            }
            let extent = match made {
                Ok(it) => it,
                Err(why) => {
                    self.undo_plan(state, &mut plan);
                    self.start_paging(state, adapter, plan, None);
                    return Err(KernelError::NoMemory { trim: why.missing });
                }
            };
            plan.page_in.extend(state.root_entries(space, geometry, extent));
            self.start_paging(state, adapter, plan, None);
            extent
        };
        let about = subject(space);
        let written = |state: &KernelState| {
            state.memory.extents.get(extent).is_none_or(|extent| extent.pending == 0)
        };
        if self.wait_until(at, about, |_| format!("the new root of {about}"), written) {
            Ok(extent)
        } else {
            self.release_extent(&mut self.state.lock(), extent);
            Err(KernelError::Stuck)
        }
    }

    /// Makes the new root the space's root and destroys the old one after its translations are
    /// flushed.
    fn change_root(
        &self,
        at: &mut Passive,
        adapter: Id<Adapter>,
        space: Id<AddressSpace>,
        geometry: &Geometry,
        (new, size): (Id<Extent>, RootSize),
    ) {
        let paging = {
            let state = &mut *self.state.lock();
            let top = geometry.top();
            let again = state.mmu(adapter).is_some_and(|mmu| mmu.features.invalidates);
            let it = &mut state.memory.spaces[space];
            let count = std::mem::replace(&mut it.root, size).entries;
            let old = it.tables.insert((top, 0), new);
            let mut plan = PagingPlan::default();
            plan.page_in.extend(state.flush_step(space, &(0..0), None));
            if let Some(old) = old {
                plan.page_in.extend(state.flush_old(space, old));
                let write = TableWrite { count, ..TableWrite::invalidation(space, top, old, 0) };
                plan.page_in.extend(again.then(|| state.table_step(write)).flatten());
            }
            let paging = self.start_paging(state, adapter, plan, None);
            if let Some(old) = old {
                self.release_extent(state, old);
            }
            paging
        };
        // Work planned for the old root completes before contexts continue with the new one.
        let about = subject(space);
        let over = |state: &KernelState| {
            paging.is_none_or(|paging| state.memory.pagings.get(paging).is_none())
        };
        self.wait_until(at, about, |_| format!("the old root of {about}"), over);
    }

    /// Suspends the contexts of a space, or resumes them.
    fn hold_contexts(&self, state: &mut KernelState, space: Id<AddressSpace>, hold: bool) {
        for context in state.contexts_of(space) {
            state.contexts[context].changing_root = hold;
            if !hold {
                self.context_may_advance(state, context);
            }
        }
    }
}

impl KernelState {
    /// Whether the root of a space covers an address.
    pub(crate) fn reaches(&self, space: Id<AddressSpace>, end: u64) -> bool {
        // Nothing waits for a destroyed space.
        let Some(it) = self.memory.spaces.get(space) else { return true };
        // A stopped adapter has no memory.
        let Some(mmu) = self.mmu(it.adapter) else { return true };
        end == 0 || mmu.geometry.index(mmu.geometry.top(), end - 1) < it.root.entries
    }

    /// Whether the root of a space covers an address, and no thread is changing the root.
    pub(crate) fn root_covers(&self, space: Id<AddressSpace>, end: u64) -> bool {
        self.reaches(space, end)
            && self.memory.spaces.get(space).is_none_or(|address_space| !address_space.growing_root)
    }

    /// The contexts of a space's process.
    fn contexts_of(&self, space: Id<AddressSpace>) -> Vec<Id<Context>> {
        // The space may have ended with its adapter.
        let Some(it) = self.memory.spaces.get(space) else { return Vec::new() };
        let mine = |device: Id<Device>| {
            let device = self.devices.get(device);
            device.is_some_and(|that| that.adapter == it.adapter && that.process == it.process)
        };
        let all = self
            .contexts
            .iter()
            .filter(|pair| mine(pair.1.device) && pair.1.driver_handle.is_some());
        all.map(|pair| pair.0).collect()
    }

    /// Whether no packet of a space's contexts is on the hardware.
    fn are_contexts_idle(&self, space: Id<AddressSpace>) -> bool {
        // Nothing waits for a destroyed space.
        let Some(it) = self.memory.spaces.get(space) else { return true };
        let mine = self.contexts_of(space);
        let nodes = self.adapters.get(it.adapter).map(|adapter| adapter.nodes.as_slice());
        let in_flight = nodes.unwrap_or_default().iter().flat_map(|node| &node.queue);
        in_flight.filter_map(InFlightPacket::context).all(|context| !mine.contains(&context))
    }

    /// The entries of a root for the tables below it.
    fn root_entries(
        &self,
        space: Id<AddressSpace>,
        geometry: &Geometry,
        root: Id<Extent>,
    ) -> Vec<PagingStep> {
        let it = &self.memory.spaces[space];
        let top = geometry.top();
        let below = it.tables.range((top - 1, 0)..(top, 0));
        let write = |((level, table), extent): (&(u32, u64), &Id<Extent>)| {
            let address = geometry.span(*level, *table).start;
            let (segment, offset) = self.location_of(*extent)?;
            let entry = PageTableEntry {
                valid: true,
                segment,
                page: offset / PAGE,
                ..PageTableEntry::default()
            };
            self.table_step(TableWrite {
                first: geometry.index(top, address),
                entries: vec![entry],
                repeat: false,
                ..TableWrite::invalidation(space, top, root, address)
            })
        };
        below.filter_map(write).collect()
    }

    /// Flushes all translations of a root that its space does not use any more.
    fn flush_old(&self, space: Id<AddressSpace>, root: Id<Extent>) -> Option<PagingStep> {
        let mut step = self.flush_step(space, &(0..0), None)?;
        let (segment, offset) = self.location_of(root)?;
        step.extent = root;
        step.location = crate::memory::SegmentLocation {
            segment: crate::memory::segment_index(segment)?,
            offset,
        };
        Some(step)
    }
}
