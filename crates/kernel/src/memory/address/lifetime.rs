//! The lifetime of a space: created with the first device of a process, destroyed after its last
//! use.

use crate::adapter::start::Adapter;
use crate::base::error::KernelError;
use crate::base::id_list::Id;
use crate::ddi::miniport::{DriverContext, DriverError, DriverProcess};
use crate::ddi::mmu::{CreateProcessArgs, Root, RootSize};
use crate::ddi::permit::{DdiPermit, ThreadingLevel};
use crate::ddi::{CallDetails, Driver};
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::process::Process;
use crate::memory::Extent;
use crate::memory::address::geometry::Geometry;
use crate::memory::address::ranges::AddressRanges;
use crate::memory::address::{AddressSpace, SpaceStage, subject};
use crate::memory::place::PagingPlan;
use crate::objects::handle_table::Handle;
use crate::objects::handle_table::ObjectId;
use crate::state::KernelState;
use flight::{Component, EventKind, Log, Passive, RuleId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Initial number of entries of a root that can grow.
const FIRST_ENTRIES: u32 = 16;

impl Kernel {
    /// Makes the space of a process ready on an adapter that translates addresses. The space cannot
    /// be destroyed until [`Kernel::release_space`].
    pub(crate) fn acquire_space(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        driver: &Driver,
        process: Id<Process>,
    ) -> Result<Option<Id<AddressSpace>>, KernelError> {
        let adapter = driver.adapter;
        loop {
            let found = {
                let state = &mut *self.state.lock();
                if state.mmu(adapter).is_none() {
                    return Ok(None);
                }
                let found = state.space_of(process, adapter);
                match found.and_then(|it| state.memory.spaces.get_mut(it)) {
                    Some(it) if it.stage == SpaceStage::Live => {
                        it.users += 1;
                        return Ok(found);
                    }
                    Some(_) => found,
                    // A space that is being destroyed must end before the next is created.
                    None => state.ending_space(process, adapter),
                }
            };
            let Some(number) = found else { break };
            let over = |state: &KernelState| {
                state
                    .memory
                    .spaces
                    .get(number)
                    .is_none_or(|address_space| address_space.stage == SpaceStage::Live)
            };
            let about = subject(number);
            if !self.wait_until(at, about, |_| format!("{about} to be ready or destroyed"), over) {
                return Err(KernelError::Stuck);
            }
        }
        self.create_space(at, permit, driver, Some(process)).map(Some)
    }

    /// Has the driver create a process, and creates the root of its addresses.
    pub(crate) fn create_space(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        driver: &Driver,
        process: Option<Id<Process>>,
    ) -> Result<Id<AddressSpace>, KernelError> {
        let adapter = driver.adapter;
        let (number, own, geometry, bits, again) = {
            let state = &mut *self.state.lock();
            let mmu = state.mmu(adapter).ok_or(KernelError::NoAddressSpace)?;
            let (geometry, bits) = (mmu.geometry.clone(), mmu.features.address_bits);
            let again = mmu.features.invalidates;
            let own = state.kernel_handles.reserve()?;
            let number = state.add_space(AddressSpace {
                process,
                adapter,
                stage: SpaceStage::Creating,
                driver_handle: None,
                users: 1,
                addresses: AddressRanges::new(bits),
                tables: BTreeMap::new(),
                root: RootSize { entries: 0, bytes: 0 },
                last_update: 0,
                freed: VecDeque::new(),
                pending_ranges: Vec::new(),
                kernel_handle: own.handle(),
                creating_process: true,
                growing_root: false,
            });
            state.kernel_handles.bind(&own, number.into());
            (number, own, geometry, bits, again)
        };
        let made = self.call_create_process(at, permit, driver, (process, own.handle()), &geometry);
        let mut state = self.state.lock();
        match made {
            Ok((driver_handle, size)) => {
                let given = driver_handle.as_raw();
                // A space that is being created is not destroyed.
                let it = &mut state.memory.spaces[number];
                (it.driver_handle, it.root, it.creating_process) =
                    (Some(Arc::new(driver_handle)), size, false);
                state.kernel_handles.publish(own, number.into());
                let process = process.map(Id::subject);
                self.log.emit(subject(number), || EventKind::AddressSpaceCreated {
                    adapter: driver.adapter.subject(),
                    process,
                    bits,
                    invalidates_tables: again,
                });
                self.log_driver_ranges(&state, number);
                self.set_driver_handle(given, subject(number));
            }
            Err(why) => {
                state.remove_space(number);
                state.kernel_handles.cancel(own);
                self.wake_all(&mut state);
                return Err(why.into());
            }
        }
        if process.is_some() {
            let rooted = self.root_space(&mut state, number, &geometry);
            if let Err(why) = rooted {
                drop(state);
                self.call_destroy_process(at, permit, driver, number);
                return Err(why);
            }
            state.memory.spaces[number].stage = SpaceStage::Live;
        }
        self.wake_all(&mut state);
        Ok(number)
    }

    /// The driver calls for a new space.
    fn call_create_process(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        driver: &Driver,
        (process, name): (Option<Id<Process>>, Handle),
        geometry: &Geometry,
    ) -> Result<(DriverProcess, RootSize), DriverError> {
        let size = self.first_root(at, permit, driver, process, geometry)?;
        let args = CreateProcessArgs { system: process.is_none() };
        let driver_handle = driver.create_process(at, permit, (process, name), args)?;
        Ok((driver_handle, size))
    }

    /// The size of the first root of a space.
    ///
    /// WINDOWS: only a root above exactly one other level can have several sizes (documented); with
    /// four levels the size is not queried (observed). The system's root has its full size from the
    /// start.
    fn first_root(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        driver: &Driver,
        process: Option<Id<Process>>,
        geometry: &Geometry,
    ) -> Result<RootSize, DriverError> {
        let top = geometry.top();
        let limit = geometry.entries(top);
        if top > 1 {
            let bytes = u64::from(geometry.level(top).bytes);
            return Ok(RootSize { entries: limit, bytes });
        }
        let entries = if process.is_none() { limit } else { FIRST_ENTRIES.min(limit) };
        self.size_root(at, permit, driver, process, entries)
    }

    /// Queries the size of a root from the driver and judges the result.
    pub(crate) fn size_root(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        driver: &Driver,
        process: Option<Id<Process>>,
        entries: u32,
    ) -> Result<RootSize, DriverError> {
        let size = driver.get_root_page_table_size(at, permit, process, entries)?;
        let granule = self.state.lock().root_granule(driver.adapter);
        let broken = if size.entries < entries {
            let given = size.entries;
            Some(format!("{entries} entries were requested, but the root has {given}"))
        } else if size.bytes == 0 || !size.bytes.is_multiple_of(granule) {
            let bytes = size.bytes;
            Some(format!("a root has {bytes:#x} bytes, in a segment with pages of {granule:#x}"))
        } else {
            None
        };
        let passed = broken.is_none();
        let place = "DxgkDdiGetRootPageTableSize";
        self.log.judge(
            RuleId::KMD_PT_002,
            Component::Driver,
            driver.adapter.subject(),
            place,
            broken,
        );
        if passed { Ok(size) } else { Err(DriverError::Invalid) }
    }

    /// Creates the root of a client's space, initially invalid.
    fn root_space(
        &self,
        state: &mut KernelState,
        space: Id<AddressSpace>,
        geometry: &Geometry,
    ) -> Result<(), KernelError> {
        let it = &state.memory.spaces[space];
        let (adapter, size) = (it.adapter, it.root);
        let top = geometry.top();
        let info = geometry.level(top);
        let size = (size.entries, Some(size.bytes));
        let mut plan = PagingPlan::default();
        let made = self.create_table(state, space, (top, 0), info, size, &mut plan);
        let failed = made.map_err(|why| KernelError::NoMemory { trim: why.missing }).err();
        if failed.is_some() {
            self.undo_plan(state, &mut plan);
        }
        self.start_paging(state, adapter, plan, None);
        failed.map_or(Ok(()), Err)
    }

    /// Ends the use of a space by a device that was being created.
    pub(crate) fn release_space(&self, space: Option<Id<AddressSpace>>) {
        let mut state = self.state.lock();
        // The space may have ended with its adapter.
        if let Some(it) = space.and_then(|it| state.memory.spaces.get_mut(it)) {
            it.users = it.users.saturating_sub(1);
            self.wake_all(&mut state);
        }
    }

    /// Sets the root of a new context, once the root is written. The space keeps that root until
    /// [`Kernel::release_space`].
    pub(crate) fn set_first_root(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        driver: &Driver,
        (process, number): (Id<Process>, Id<Context>),
        context: &DriverContext,
    ) -> Result<Option<(Id<AddressSpace>, Root)>, KernelError> {
        let space = {
            let state = self.state.lock();
            state.space_of(process, driver.adapter)
        };
        // An adapter without an MMU has no spaces.
        let Some(space) = space else { return Ok(None) };
        let about = subject(space);
        let written = |state: &KernelState| {
            let root = state.root_of(space).and_then(|root| state.memory.extents.get(root.0));
            let still = state
                .memory
                .spaces
                .get(space)
                .is_none_or(|address_space| !address_space.growing_root);
            still && root.is_none_or(|extent| extent.pending == 0)
        };
        // A thread inside a call does not block the reset of the work that it waits for.
        let adapter = driver.adapter;
        let ends = |state: &KernelState| written(state) || state.is_reset_pending(adapter);
        let (extent, root) = loop {
            if !self.wait_until(at, about, |_| format!("the root of {about}"), ends) {
                return Err(KernelError::Stuck);
            }
            let mut state = self.state.lock();
            if state.is_reset_pending(adapter) {
                return Err(KernelError::Removed(adapter.subject()));
            }
            if written(&state) {
                // The space may have ended during the wait.
                let Some(root) = state.root_of(space) else { return Ok(None) };
                state
                    .memory
                    .spaces
                    .get_mut(space)
                    .into_iter()
                    .for_each(|address_space| address_space.users += 1);
                break root;
            }
        };
        if let Err(why) = driver.set_root_page_table(at, permit, Some(process), context, root) {
            self.release_space(Some(space));
            return Err(why.into());
        }
        let state = self.state.lock();
        self.log_root(&state, space, Some(number), (extent, root));
        Ok(Some((space, root)))
    }

    /// Logs the root of a context, or of the system.
    pub(crate) fn log_root(
        &self,
        state: &KernelState,
        space: Id<AddressSpace>,
        context: Option<Id<Context>>,
        (extent, root): (Id<Extent>, Root),
    ) {
        let table = state.memory.extents[extent].owner;
        let in_flight = context
            .and_then(|context| state.contexts.get(context))
            .map_or(0, |context| context.in_flight);
        let context = context.map(Id::subject);
        let (entries, idle) = (root.entries, in_flight == 0);
        self.log.emit(subject(space), || EventKind::RootSet {
            context,
            table: table.subject(),
            entries,
            idle,
        });
    }

    /// Destroys the space of a process on an adapter, if the process does not use it any more.
    pub(crate) fn end_unused_space(
        &self,
        at: &mut Passive,
        process: Id<Process>,
        adapter: Id<Adapter>,
    ) {
        let number = {
            let mut state = self.state.lock();
            let found = state
                .space_of(process, adapter)
                .filter(|address_space| state.is_unused(*address_space));
            if let Some(space) = found {
                state.memory.spaces[space].stage = SpaceStage::Ending;
            }
            found
        };
        if let Some(number) = number {
            self.end_space(at, number);
        }
    }

    /// Destroys all client spaces on an adapter, after their devices.
    pub(crate) fn end_spaces(&self, at: &mut Passive, adapter: Id<Adapter>) {
        let numbers: Vec<Id<AddressSpace>> = {
            let mut state = self.state.lock();
            let mine = |address_space: &AddressSpace| {
                address_space.adapter == adapter && address_space.process.is_some()
            };
            let all = state
                .memory
                .spaces
                .iter()
                .filter(|pair| mine(pair.1) && pair.1.stage == SpaceStage::Live);
            let all: Vec<Id<AddressSpace>> = all.map(|pair| pair.0).collect();
            for number in &all {
                state
                    .memory
                    .spaces
                    .get_mut(*number)
                    .into_iter()
                    .for_each(|address_space| address_space.stage = SpaceStage::Ending);
            }
            all
        };
        for number in numbers {
            self.end_space(at, number);
        }
        let none = |state: &KernelState| {
            state
                .memory
                .spaces
                .iter()
                .all(|(_, state)| state.adapter != adapter || state.process.is_none())
        };
        let about = adapter.subject();
        self.wait_until(at, about, |_| format!("the address spaces of {about}"), none);
    }

    /// Destroys a space: its tables, then the process in the driver.
    fn end_space(&self, at: &mut Passive, number: Id<AddressSpace>) {
        let about = subject(number);
        let (adapter, paging) = {
            let state = &mut *self.state.lock();
            // Another thread may have destroyed it meanwhile.
            let Some(it) = state.memory.spaces.get_mut(number) else { return };
            let adapter = it.adapter;
            let all = 0..it.addresses.end();
            for (span, _) in it.addresses.all().collect::<Vec<_>>() {
                self.log.emit(about, || EventKind::RangeFreed {
                    start: span.start,
                    end: span.end,
                    object_destroyed: true,
                    still_reserved: false,
                });
            }
            it.addresses.free(&all);
            let mut plan = PagingPlan::default();
            let freed_tables = state.drop_tables(number, &all, &mut plan.page_in);
            plan.page_in.extend(state.root_removal_steps(number));
            let paging = self.start_paging(state, adapter, plan, None);
            for extent in freed_tables {
                self.release_extent(state, extent);
            }
            (adapter, paging)
        };
        if let Some(paging) = paging {
            let over = |state: &KernelState| state.memory.pagings.get(paging).is_none();
            while !self.wait_until(at, about, |_| format!("the end of {about}"), over) {
                if !self.fail_paging(adapter) {
                    break; // The work was already abandoned once.
                }
            }
        }
        let driver = self.state.lock().adapters.get(adapter).map(|adapter| adapter.driver.clone());
        // The adapter may have been removed meanwhile.
        let Some(driver) = driver else { return };
        let process = self
            .state
            .lock()
            .memory
            .spaces
            .get(number)
            .and_then(|address_space| address_space.process);
        let keys = ThreadingLevel::Zero.keys(adapter, driver.generation, process);
        if let Ok(permit) = self.acquire_permit(at, keys) {
            self.call_destroy_process(at, &permit, &driver, number);
        }
    }

    /// Has the driver destroy a process, and releases the remaining memory of its tables.
    pub(crate) fn call_destroy_process(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        driver: &Driver,
        number: Id<AddressSpace>,
    ) {
        let (driver_handle, process, tables) = {
            let mut state = self.state.lock();
            // Another thread may have destroyed it meanwhile.
            let Some(it) = state.memory.spaces.get_mut(number) else { return };
            (it.driver_handle.take(), it.process, std::mem::take(&mut it.tables))
        };
        {
            let state = &mut *self.state.lock();
            for extent in tables.into_values() {
                self.release_extent(state, extent);
            }
        }
        let about = subject(number);
        let driver_handle = driver_handle.and_then(Arc::into_inner);
        let told = driver_handle.map(|driver_handle| {
            let given = driver_handle.as_raw();
            let log_arguments = |log: &Log| log.emit(about, || EventKind::DdiEnds {});
            // WINDOWS: after a failure the process is destroyed all the same (our decision).
            let _ = driver.destroy_process(
                at,
                permit,
                CallDetails { process, log_arguments: &log_arguments },
                driver_handle,
            );
            given
        });
        let mut state = self.state.lock();
        if let Some(given) = told {
            self.log.emit(about, || EventKind::AddressSpaceDestroyed {});
            self.end_driver_handle(given, about, false);
        }
        let name = state.memory.spaces[number].kernel_handle;
        let _ = state.kernel_handles.close(name); // The space owned this live handle.
        state.remove_space(number);
        self.wake_all(&mut state);
    }
}

impl KernelState {
    /// A space of a process on an adapter that is being destroyed.
    fn ending_space(&self, process: Id<Process>, adapter: Id<Adapter>) -> Option<Id<AddressSpace>> {
        self.memory.spaces_of.get(&(process, adapter))?.first().copied()
    }

    /// Whether the process of a space does not use it: it has no handle of the adapter, and no
    /// device.
    fn is_unused(&self, number: Id<AddressSpace>) -> bool {
        let it = &self.memory.spaces[number];
        // The system's space has no process and ends with its adapter.
        let Some(process) = it.process.filter(|_| it.users == 0 && it.stage == SpaceStage::Live)
        else {
            return false;
        };
        let there = |it: Id<Device>| self.devices.get(it).is_some_and(|device| !device.zombie);
        let used = self.devices_on(process, it.adapter).any(there);
        let adapter = ObjectId::Adapter(it.adapter);
        let handles = self.processes.get(process).map(|process| &process.handles);
        !used && handles.is_none_or(|handles| handles.iter().all(|pair| pair.1 != adapter))
    }

    /// The page size of the segment of roots.
    fn root_granule(&self, adapter: Id<Adapter>) -> u64 {
        let memory = self.adapter_memory(adapter);
        let segment = memory.and_then(|memory| {
            let geometry = &memory.mmu.as_ref()?.geometry;
            memory.segment_numbered(geometry.level(geometry.top()).segment)
        });
        let large = segment.is_some_and(|segment| segment.info.flags.large_pages);
        if large { 64 << 10 } else { crate::ddi::operation::PAGE }
    }

    /// The last steps of a space's root: flushes its translations, and invalidates it for drivers
    /// that request that.
    fn root_removal_steps(&self, space: Id<AddressSpace>) -> Vec<crate::memory::PagingStep> {
        let it = &self.memory.spaces[space];
        // A stopped adapter has no memory, and a space that failed to start has no root.
        let Some(mmu) = self.mmu(it.adapter) else { return Vec::new() };
        let Some((extent, root)) = self.root_of(space) else { return Vec::new() };
        let write = crate::memory::address::step::TableWrite {
            count: root.entries,
            ..crate::memory::address::step::TableWrite::invalidation(
                space,
                mmu.geometry.top(),
                extent,
                0,
            )
        };
        let again = mmu.features.invalidates.then(|| self.table_step(write)).flatten();
        self.flush_step(space, &(0..0), None).into_iter().chain(again).collect()
    }
}
