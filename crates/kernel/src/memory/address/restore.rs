//! Page tables whose content was lost, by a power change or a reset, are written again.

use crate::base::id_list::Id;
use crate::ddi::Driver;
use crate::ddi::permit::DdiPermit;
use crate::kernel::Kernel;
use crate::memory::PagingStep;
use crate::memory::address::AddressSpace;
use crate::memory::address::step::TableWrite;
use crate::memory::place::PagingPlan;
use crate::state::KernelState;
use flight::Passive;
use flight::invariant;

impl Kernel {
    /// Writes all tables of an adapter again: the system's with the CPU, at once; those of clients
    /// by paging work, before all later plans.
    ///
    /// WINDOWS: the system's tables are written as at the start (documented).
    pub(crate) fn restore_tables(&self, at: &mut Passive, permit: &DdiPermit<'_>, driver: &Driver) {
        let adapter = driver.adapter;
        let system = {
            let state = self.state.lock();
            // An adapter without an MMU has no tables.
            let Some(mmu) = state.mmu(adapter) else { return };
            let space = invariant(mmu.system, "an adapter that is restored was started");
            let mut steps = state.table_steps(space);
            steps.extend(state.linear_steps(adapter, space));
            steps
        };
        for step in &system {
            let _ = self.write_now(at, permit, driver, step); // A failure is judged in the call.
        }
        let state = &mut *self.state.lock();
        let spaces = state.memory.spaces.iter().filter(|pair| pair.1.adapter == adapter);
        let clients = spaces.filter(|pair| pair.1.process.is_some());
        let clients: Vec<Id<AddressSpace>> = clients.map(|pair| pair.0).collect();
        let mut plan = PagingPlan::default();
        for space in clients {
            plan.page_in.extend(state.table_steps(space));
            plan.page_in.extend(state.range_steps(space));
            plan.page_in.extend(state.flush_step(space, &(0..0), None));
        }
        self.start_paging(state, adapter, plan, None);
    }
}

impl KernelState {
    /// All tables of a space without ranges: invalid, and each linked in the table above it.
    pub(crate) fn table_steps(&self, space: Id<AddressSpace>) -> Vec<PagingStep> {
        let it = &self.memory.spaces[space];
        // A stopped adapter has no memory.
        let Some(geometry) = self.mmu(it.adapter).map(|mmu| mmu.geometry.clone()) else {
            return Vec::new();
        };
        let mut steps = Vec::new();
        for ((level, table), extent) in it.tables.iter().rev() {
            let root = *level == geometry.top();
            let count = if root { it.root.entries } else { geometry.entries(*level) };
            let address = geometry.span(*level, *table).start;
            let write = TableWrite::invalidation(space, *level, *extent, address);
            steps.extend(self.table_step(TableWrite { count, initial: true, ..write }));
            if !root {
                steps.extend(self.parent_entry_step(
                    space,
                    &geometry,
                    (*level, *table),
                    Some(*extent),
                ));
            }
        }
        steps
    }

    /// The entries of the ranges of a space.
    fn range_steps(&self, space: Id<AddressSpace>) -> Vec<PagingStep> {
        let it = &self.memory.spaces[space];
        let ranges = it.addresses.all().filter(|pair| pair.1.backing.has_entries());
        ranges.flat_map(|pair| self.entry_steps(space, &pair.0, None)).collect()
    }
}
