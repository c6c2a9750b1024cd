//! The page tables of a space: created when a range needs them, destroyed with the last range that
//! does.

use crate::base::id_list::Id;
use crate::ddi::mmu::{PageTableEntry, TableLevel};
use crate::ddi::operation::PAGE;
use crate::ddi::segment::{PlacementFlags, PlacementRequirements, SegmentSet};
use crate::kernel::Kernel;
use crate::memory::Owner;
use crate::memory::address::AddressSpace;
use crate::memory::address::geometry::Geometry;
use crate::memory::address::step::TableWrite;
use crate::memory::place::{NoSpace, PagingPlan};
use crate::memory::{Extent, PagingOperation, PagingStep, SegmentLocation, segment_index};
use crate::state::KernelState;
use flight::{EventKind, invariant};
use std::ops::Range as Span;
use std::sync::Arc;

impl Kernel {
    /// Creates the tables that a span needs, and plans their entries. If one finds no location, no
    /// table is created, and the plan's locations are released.
    pub(crate) fn create_tables(
        &self,
        state: &mut KernelState,
        space: Id<AddressSpace>,
        span: &Span<u64>,
        plan: &mut PagingPlan,
    ) -> Result<(), NoSpace> {
        let it = &state.memory.spaces[space];
        // A stopped adapter has no memory.
        let Some(geometry) = state.mmu(it.adapter).map(|mmu| mmu.geometry.clone()) else {
            return Ok(());
        };
        state.room_for_tables(space, &geometry, span)?;
        let mut made = Vec::new();
        for level in (0..geometry.top()).rev() {
            for table in geometry.tables(level, span) {
                if state.memory.spaces[space].tables.contains_key(&(level, table)) {
                    continue;
                }
                let entries = geometry.entries(level);
                let info = geometry.level(level);
                let key = (level, table);
                match self.create_table(state, space, key, info, (entries, None), plan) {
                    Ok(_) => made.push(key),
                    Err(why) => {
                        self.undo_plan(state, plan);
                        self.remove_tables(state, space, &made);
                        return Err(why);
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes tables that were never written.
    fn remove_tables(&self, state: &mut KernelState, space: Id<AddressSpace>, made: &[(u32, u64)]) {
        for key in made {
            let extent = state.memory.spaces[space].tables.remove(key);
            self.drop_extent(state, invariant(extent, "the table was just created"));
        }
    }

    /// Creates one table of `entries` entries, with a size of its own if given. The table is
    /// invalid at first, and then linked in the table above it.
    pub(crate) fn create_table(
        &self,
        state: &mut KernelState,
        space: Id<AddressSpace>,
        (level, table): (u32, u64),
        info: TableLevel,
        (entries, bytes): (u32, Option<u64>),
        plan: &mut PagingPlan,
    ) -> Result<Id<Extent>, NoSpace> {
        let it = &state.memory.spaces[space];
        let (adapter, system) = (it.adapter, it.process.is_none());
        let Some(geometry) = state.mmu(adapter).map(|mmu| mmu.geometry.clone()) else {
            return Err(NoSpace { missing: 1 });
        };
        state.memory.last_table += 1;
        let owner = Owner::Table(state.memory.last_table);
        let segment = if system { info.system_segment } else { info.segment };
        let requirements = PlacementRequirements {
            segments: SegmentSet::of(&[segment]),
            priority: u32::MAX,
            flags: PlacementFlags { pinned: true, ..PlacementFlags::default() },
            ..PlacementRequirements::default()
        };
        let bytes = bytes.unwrap_or(u64::from(info.bytes));
        let alignment = u64::from(info.alignment).max(PAGE);
        let extent = state.memory.extents.insert(Extent::new(
            adapter,
            owner,
            0,
            bytes,
            alignment,
            requirements,
        ));
        if let Err(why) = self.plan_page_in(state, extent, plan) {
            state.memory.extents.remove(extent);
            return Err(why);
        }
        let address = geometry.span(level, table).start;
        let of = crate::memory::address::subject(space);
        self.log.emit(owner.subject(), || EventKind::PageTableCreated {
            space: of,
            level,
            address,
            entries,
        });
        let write = TableWrite {
            count: entries,
            initial: true,
            ..TableWrite::invalidation(space, level, extent, address)
        };
        plan.page_in.extend(state.table_step(write));
        if level < geometry.top() {
            plan.page_in.extend(state.parent_entry_step(
                space,
                &geometry,
                (level, table),
                Some(extent),
            ));
        }
        state.memory.spaces[space].tables.insert((level, table), extent);
        Ok(extent)
    }
}

impl KernelState {
    /// Plans the removal of the tables of a span that no range needs any more. Returns their
    /// extents, which are released once the plan is paging work.
    pub(crate) fn drop_tables(
        &mut self,
        space: Id<AddressSpace>,
        span: &Span<u64>,
        into: &mut Vec<PagingStep>,
    ) -> Vec<Id<Extent>> {
        let mut freed_tables = Vec::new();
        let it = &self.memory.spaces[space];
        // A stopped adapter has no memory.
        let Some(mmu) = self.mmu(it.adapter) else { return freed_tables };
        let (geometry, again) = (mmu.geometry.clone(), mmu.features.invalidates);
        let mut ends = Vec::new();
        for level in 0..geometry.top() {
            let it = &self.memory.spaces[space];
            let all = geometry.tables(level, span);
            let all = it.tables.range((level, all.start)..(level, all.end));
            let all: Vec<u64> = all.map(|pair| pair.0.1).collect();
            for table in all {
                let it = &mut self.memory.spaces[space];
                // A root that is being filled keeps all tables that existed when the filling began.
                let keep = it.growing_root && level + 1 == geometry.top();
                if keep || it.needs(&geometry, level, table) {
                    continue;
                }
                let extent = it.tables.remove(&(level, table));
                let extent = invariant(extent, "the table was just listed");
                into.extend(self.parent_entry_step(space, &geometry, (level, table), None));
                let address = geometry.span(level, table).start;
                ends.push((extent, level, address));
                freed_tables.push(extent);
            }
        }
        if !freed_tables.is_empty() {
            // Their memory is free when no engine caches translations of the tables below them.
            into.extend(self.flush_for(space, span, freed_tables.clone()));
        }
        // WINDOWS: only for drivers that request it (documented, ExplicitPageTableInvalidation).
        for (extent, level, address) in ends.into_iter().filter(|_| again) {
            let count = geometry.entries(level);
            let write =
                TableWrite { count, ..TableWrite::invalidation(space, level, extent, address) };
            into.extend(self.table_step(write));
        }
        freed_tables
    }

    /// Whether a segment is large enough for the tables of a span, regardless of its other content.
    fn room_for_tables(
        &self,
        space: Id<AddressSpace>,
        geometry: &Geometry,
        span: &Span<u64>,
    ) -> Result<(), NoSpace> {
        let it = &self.memory.spaces[space];
        let tables = geometry.tables(0, span);
        let info = geometry.level(0);
        let bytes = (tables.end - tables.start).saturating_mul(u64::from(info.bytes));
        let number = if it.process.is_none() { info.system_segment } else { info.segment };
        let segment =
            self.adapter_memory(it.adapter).and_then(|memory| memory.segment_numbered(number));
        let size = segment.map_or(0, |segment| segment.info.size);
        if bytes > size { Err(NoSpace { missing: bytes - size }) } else { Ok(()) }
    }

    /// Writes the entry of the table above: the table's location, or invalid.
    pub(crate) fn parent_entry_step(
        &self,
        space: Id<AddressSpace>,
        geometry: &Geometry,
        (level, table): (u32, u64),
        to: Option<Id<Extent>>,
    ) -> Option<PagingStep> {
        let address = geometry.span(level, table).start;
        let up = level + 1;
        let above =
            *self.memory.spaces.get(space)?.tables.get(&(up, geometry.table(up, address)))?;
        let entry = match to {
            Some(extent) => {
                let (segment, offset) = self.location_of(extent)?;
                PageTableEntry {
                    valid: true,
                    segment,
                    page: offset / PAGE,
                    ..PageTableEntry::default()
                }
            }
            None => PageTableEntry::default(),
        };
        self.table_step(TableWrite {
            first: geometry.index(up, address),
            count: 1,
            entries: vec![entry],
            repeat: false,
            ..TableWrite::invalidation(space, up, above, address)
        })
    }

    /// A step that writes entries.
    pub(crate) fn table_step(&self, write: TableWrite) -> Option<PagingStep> {
        let (segment, offset) = self.location_of(write.table)?;
        let at = SegmentLocation { segment: segment_index(segment)?, offset };
        Some(PagingStep::new(write.table, PagingOperation::Table(Arc::new(write)), at))
    }

    /// A step that flushes translations, on behalf of an extent if there is one.
    pub(crate) fn flush_step(
        &self,
        space: Id<AddressSpace>,
        span: &Span<u64>,
        of: Option<Id<Extent>>,
    ) -> Option<PagingStep> {
        self.flush_for(space, span, of.into_iter().collect())
    }

    /// The same on behalf of several extents: none of them is destroyed before.
    fn flush_for(
        &self,
        space: Id<AddressSpace>,
        span: &Span<u64>,
        of: Vec<Id<Extent>>,
    ) -> Option<PagingStep> {
        let (extent, root) = self.root_of(space)?;
        let at = SegmentLocation { segment: segment_index(root.segment)?, offset: root.offset };
        // WINDOWS: a complete flush is from zero to zero (documented).
        let whole = span.start == 0 && span.end >= self.memory.spaces.get(space)?.addresses.end();
        let span = if whole { &(0..0) } else { span };
        let flush = PagingOperation::Flush { space, start: span.start, end: span.end, of };
        Some(PagingStep::new(extent, flush, at))
    }
}

impl AddressSpace {
    /// Whether a table is needed: a range in its span has entries, or a table is linked in it.
    fn needs(&self, geometry: &Geometry, level: u32, table: u64) -> bool {
        let span = geometry.span(level, table);
        if level == 0 {
            return self.addresses.has_entries(&span);
        }
        let below = geometry.tables(level - 1, &span);
        self.tables.range((level - 1, below.start)..(level - 1, below.end)).next().is_some()
    }
}
