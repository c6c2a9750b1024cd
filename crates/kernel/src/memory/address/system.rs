//! The system's address space: created first when an adapter starts, and destroyed last.
//!
//! It maps all memory of the adapter, segment by segment. The CPU writes its tables, without a
//! buffer, before its root is set.

use crate::adapter::start::Adapter;
use crate::base::error::KernelError;
use crate::base::id_list::Id;
use crate::ddi::mmu::{MmuFeatures, PageTableEntry};
use crate::ddi::operation::{BuildPagingBufferArgs, PAGE};
use crate::ddi::permit::DdiPermit;
use crate::ddi::{CallDetails, Driver};
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::address::AddressSpace;
use crate::memory::address::Mmu;
use crate::memory::address::geometry::Geometry;
use crate::memory::address::step::TableWrite;
use crate::memory::place::PagingPlan;
use crate::memory::{PagingOperation, PagingStep, segment_number};
use crate::state::KernelState;
use flight::Passive;
use flight::invariant;
use std::sync::Arc;

impl Kernel {
    /// Creates the system's tables, has the driver write them with the CPU, and sets the root.
    pub(crate) fn write_system(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        driver: &Driver,
        space: Id<AddressSpace>,
    ) -> Result<(), KernelError> {
        let adapter = driver.adapter;
        let steps = {
            let state = &mut *self.state.lock();
            let mut plan = PagingPlan::default();
            self.plan_system(state, adapter, space, &mut plan)?;
            plan.page_in
        };
        for step in &steps {
            self.write_now(at, permit, driver, step)?;
        }
        let (rooted, context, number) = {
            let state = self.state.lock();
            let number = state.mmu(adapter).and_then(|mmu| mmu.context);
            let number = invariant(number, "the system's context exists before its tables");
            let driver_handle = state.contexts[number].driver_handle.clone();
            (state.root_of(space), driver_handle, number)
        };
        let (Some((extent, root)), Some(context)) = (rooted, context) else {
            return Err(KernelError::NoMemory { trim: 0 });
        };
        driver.set_root_page_table(at, permit, None, &context, root)?;
        drop(context);
        let mut state = self.state.lock();
        self.log_root(&state, space, Some(number), (extent, root));
        state.contexts[number].root = Some(root);
        Ok(())
    }

    /// Plans the system's tables: a root, and all memory segment by segment.
    fn plan_system(
        &self,
        state: &mut KernelState,
        adapter: Id<Adapter>,
        space: Id<AddressSpace>,
        plan: &mut PagingPlan,
    ) -> Result<(), KernelError> {
        let no_room =
            |why: crate::memory::place::NoSpace| KernelError::NoMemory { trim: why.missing };
        let mmu = invariant(state.mmu(adapter), "a starting adapter with a space has an MMU");
        let (geometry, linear) = (mmu.geometry.clone(), mmu.linear.clone());
        let top = geometry.top();
        let size = state.memory.spaces.get(space).map(|address_space| address_space.root);
        let size = size.map_or((1, None), |it| (it.entries, Some(it.bytes)));
        let info = geometry.level(top);
        self.create_table(state, space, (top, 0), info, size, plan).map_err(no_room)?;
        for (segment, start) in linear.iter().enumerate() {
            // Some segments are not mapped in the system's space.
            let Some(start) = *start else { continue };
            let bytes =
                state.adapter_memory(adapter).and_then(|memory| memory.segments.get(segment));
            let bytes = bytes.map_or(0, |segment| segment.info.size);
            self.create_tables(state, space, &(start..start + bytes), plan).map_err(no_room)?;
        }
        plan.page_in.extend(state.linear_steps(adapter, space));
        Ok(())
    }

    /// Has the driver write entries with the CPU, at once, without a buffer.
    pub(crate) fn write_now(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        driver: &Driver,
        step: &PagingStep,
    ) -> Result<(), KernelError> {
        let step_context = {
            let state = self.state.lock();
            state
                .table_context(step)
                .zip(state.memory.extents.get(step.extent).map(|extent| extent.owner))
        };
        // Only steps of tables that exist are written here.
        let Some((step_context, table)) = step_context else { return Ok(()) };
        self.notify_table_observer(None, &step.operation, &step_context, true);
        let (mut multipass, mut buffer, mut private) = (0, [0; 0], [0; 0]);
        // Only table operations are written by the CPU.
        let Some(operation) = step_context.operation(&step.operation) else { return Ok(()) };
        let mut args = BuildPagingBufferArgs {
            operation,
            buffer: &mut buffer,
            address: 0,
            used: 0,
            written: 0,
            multipass: &mut multipass,
            private: &mut private,
        };
        let details = CallDetails { process: None, log_arguments: &|_| () };
        let result = driver.build_paging_buffer(at, permit, details, &mut args);
        self.log_table_write(table.subject(), &step.operation, &step_context);
        result?;
        self.notify_table_observer(None, &step.operation, &step_context, false);
        Ok(())
    }
}

impl crate::memory::Memory {
    /// The address of each memory segment in the system's space: aligned to a leaf table, in order.
    /// A segment that does not fit is not mapped.
    fn lay_out(&self, mmu: &MmuFeatures, geometry: &Geometry) -> Vec<Option<u64>> {
        let step = geometry.leaf_span();
        let end = 1_u64.checked_shl(mmu.address_bits).unwrap_or(1 << 63);
        let mut at = step;
        let place = |segment: &crate::memory::Segment| {
            if segment.info.flags.aperture {
                return None;
            }
            let start = at;
            at = start.checked_add(segment.info.size)?.checked_next_multiple_of(step)?;
            (at <= end).then_some(start)
        };
        self.segments.iter().map(place).collect()
    }
}

impl KernelState {
    /// Records the address translation of an adapter.
    pub(crate) fn add_mmu(&mut self, adapter: Id<Adapter>, features: MmuFeatures) {
        let geometry = invariant(Geometry::new(&features).ok(), "check_mmu accepted the features");
        let memory = self.adapters[adapter].memory.as_mut();
        let memory = invariant(memory, "an adapter with an MMU has memory");
        let linear = memory.lay_out(&features, &geometry);
        let geometry = Arc::new(geometry);
        memory.mmu =
            Some(Mmu { features, geometry, system: None, device: None, context: None, linear });
    }

    pub(crate) fn mmu_mut(&mut self, adapter: Id<Adapter>) -> Option<&mut Mmu> {
        self.adapters.get_mut(adapter)?.memory.as_mut()?.mmu.as_mut()
    }

    /// The steps that map all memory in the system's space.
    pub(crate) fn linear_steps(
        &self,
        adapter: Id<Adapter>,
        space: Id<AddressSpace>,
    ) -> Vec<PagingStep> {
        let has_mmu = "an adapter with a system space has an MMU";
        let memory = invariant(self.adapter_memory(adapter), has_mmu);
        let (mmu, it) = (invariant(memory.mmu.as_ref(), has_mmu), &self.memory.spaces[space]);
        let mut steps = Vec::new();
        for (place, (start, segment)) in mmu.linear.iter().zip(&memory.segments).enumerate() {
            // Some segments are not mapped in the system's space.
            let Some(start) = *start else { continue };
            for row in mmu.geometry.rows(&(start..start + segment.info.size)) {
                let table = it.tables.get(&(0, row.table)).copied();
                let table = invariant(table, "the system's tables cover its segments");
                let first = (row.span.start - start) / PAGE;
                let entry = |number: u32| PageTableEntry {
                    valid: true,
                    segment: segment_number(place),
                    page: first + u64::from(number),
                    ..PageTableEntry::default()
                };
                let write = TableWrite {
                    first: row.first,
                    count: row.count,
                    entries: (0..row.count).map(entry).collect(),
                    repeat: false,
                    ..TableWrite::invalidation(space, 0, table, row.span.start)
                };
                steps.extend(self.table_step(write));
            }
        }
        steps
    }

    /// The address of a segment's memory in the system's space.
    pub(crate) fn system_address(
        &self,
        adapter: Id<Adapter>,
        (segment, offset): (u32, u64),
    ) -> Option<u64> {
        let linear = &self.mmu(adapter)?.linear;
        let start = linear.get(crate::memory::segment_index(segment)?).copied().flatten()?;
        Some(start + offset)
    }

    /// The steps that invalidate all tables of a space, for drivers that request that.
    pub(crate) fn last_writes(&self, space: Id<AddressSpace>) -> Vec<PagingStep> {
        let it = &self.memory.spaces[space];
        let mmu = self.mmu(it.adapter).filter(|mmu| mmu.features.invalidates);
        // Most drivers do not request that.
        let Some(geometry) = mmu.map(|mmu| mmu.geometry.clone()) else { return Vec::new() };
        let write = |((level, table), extent): (&(u32, u64), &Id<Extent>)| {
            let root = *level == geometry.top();
            let count = if root { it.root.entries } else { geometry.entries(*level) };
            let address = geometry.span(*level, *table).start;
            let write = TableWrite::invalidation(space, *level, *extent, address);
            self.table_step(TableWrite { count, ..write })
        };
        it.tables.iter().filter_map(write).collect()
    }

    /// Whether a step is written by the CPU.
    pub(crate) fn is_by_cpu(&self, step: &PagingStep) -> bool {
        matches!(step.operation, PagingOperation::Table(_))
            && self.table_context(step).is_some_and(|table_context| table_context.by_cpu)
    }
}
