//! Bad drivers that write page tables incorrectly: each forwards to a good driver and changes one
//! thing.

use flight::Passive;
use kernel::miniport::{DriverContext, DriverError, DriverProcess, DriverResult, Miniport};
use kernel::mmu::{MapHostApertureArgs, PageTableEntry, Root, RootSize, TableAddress, TableUpdate};
use kernel::operation::{BuildPagingBufferArgs, Operation, PAGE};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A driver around a good driver.
pub(crate) struct PageTableFlawDriver {
    inner: Arc<dyn Miniport>,
    flaw: Flaw,
    state: Mutex<State>,
}

/// What the driver does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Flushes no translation.
    IgnoresTlbFlush,
    /// Flushes only the first page of a range.
    FlushesOneTlbPage,
    /// Treats a flush from zero to zero as empty.
    IgnoresFullTlbFlush,
    /// Writes addresses instead of page numbers.
    WritesPageAddressEntries,
    /// Omits the last of several entries.
    WritesOneEntryLess,
    /// Writes one entry too many.
    WritesOneEntryMore,
    /// Writes the entries of pages to a table of a higher level.
    WritesParentPageTable,
    /// Writes a repeated entry once.
    IgnoresEntryRepeat,
    /// Defers table updates that the CPU has to make.
    DefersCpuTableUpdate,
    /// Adds the offset in the allocation to the ends of a virtual transfer.
    AddsOffsetVirtualTransfer,
    /// Keeps the root that was set first, for all contexts.
    KeepsFirstRootTable,
    /// Assumes that every root has all entries.
    AssumesFullRootTable,
    /// Adds a header to a root and does not round up to whole pages.
    ReturnsUnroundedRootSize,
    /// Returns fewer entries than requested.
    ReturnsFewerRootEntries,
    /// Makes only the memory of allocations visible to the CPU.
    RequiresHostApertureAllocation,
    /// Frees no process.
    LeaksProcess,
}

#[derive(Default)]
struct State {
    /// The last written table of each level.
    tables: BTreeMap<u32, TableAddress>,
    /// The root that was set first.
    root: Option<Root>,
}

impl PageTableFlawDriver {
    pub(crate) fn new(inner: Arc<dyn Miniport>, flaw: Flaw) -> Arc<Self> {
        Arc::new(Self { inner, flaw, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same pass over another operation.
    fn with(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
        operation: Operation<'_>,
    ) -> DriverResult<()> {
        let mut other = BuildPagingBufferArgs {
            operation,
            buffer: args.buffer,
            address: args.address,
            used: args.used,
            written: 0,
            multipass: args.multipass,
            private: args.private,
        };
        let answer = self.inner.build_paging_buffer(at, &mut other);
        args.written = other.written;
        answer
    }

    fn update(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
        it: TableUpdate<'_>,
    ) -> DriverResult<()> {
        let turn = |entry: &PageTableEntry| PageTableEntry { page: entry.page * PAGE, ..*entry };
        let mut entries = it.entries.to_vec();
        let mut changed = it;
        match self.flaw {
            Flaw::WritesPageAddressEntries => entries = it.entries.iter().map(turn).collect(),
            Flaw::WritesOneEntryLess if it.count > 1 && !it.repeat => changed.count = it.count - 1,
            // Never past the end of the table: the memory there is unknown.
            Flaw::WritesOneEntryMore if it.first + it.count < 512 && !it.repeat => {
                let last = entries.last().copied().unwrap_or_default();
                entries.push(PageTableEntry { page: last.page + 1, ..last });
                changed.count += 1;
            }
            Flaw::IgnoresEntryRepeat if it.repeat => {
                entries.truncate(1);
                changed = TableUpdate { repeat: false, count: 1, ..it };
            }
            Flaw::DefersCpuTableUpdate if matches!(it.table, TableAddress::Cpu(_)) => return Ok(()),
            Flaw::WritesParentPageTable if !matches!(it.table, TableAddress::Cpu(_)) => {
                let tables = &mut self.state().tables;
                tables.insert(it.level, it.table);
                if let Some(above) = tables.get(&(it.level + 1)).filter(|_| it.level == 0) {
                    changed.table = *above;
                }
            }
            _ => (),
        }
        changed.entries = &entries;
        self.with(at, args, Operation::UpdateTable(changed))
    }
}

impl Miniport for PageTableFlawDriver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    fn destroy_process(&self, at: &mut Passive, process: DriverProcess) -> DriverResult<()> {
        if self.flaw == Flaw::LeaksProcess {
            Ok(())
        } else {
            self.inner.destroy_process(at, process)
        }
    }

    fn set_root_page_table(
        &self,
        at: &mut Passive,
        context: &DriverContext,
        root: Root,
    ) -> DriverResult<()> {
        let root = match self.flaw {
            Flaw::KeepsFirstRootTable => *self.state().root.get_or_insert(root),
            Flaw::AssumesFullRootTable => Root { entries: u32::MAX, ..root },
            _ => root,
        };
        self.inner.set_root_page_table(at, context, root)
    }

    fn get_root_page_table_size(&self, at: &mut Passive, entries: u32) -> DriverResult<RootSize> {
        let size = self.inner.get_root_page_table_size(at, entries)?;
        Ok(match self.flaw {
            Flaw::ReturnsUnroundedRootSize => RootSize { bytes: size.bytes + 64, ..size },
            Flaw::ReturnsFewerRootEntries => {
                RootSize { entries: entries.saturating_sub(1), ..size }
            }
            _ => size,
        })
    }

    fn map_cpu_host_aperture(
        &self,
        at: &mut Passive,
        map: MapHostApertureArgs<'_>,
    ) -> DriverResult<()> {
        if self.flaw == Flaw::RequiresHostApertureAllocation && map.driver_handle.is_none() {
            return Err(DriverError::Invalid);
        }
        self.inner.map_cpu_host_aperture(at, map)
    }

    fn build_paging_buffer(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
    ) -> DriverResult<()> {
        match args.operation {
            Operation::UpdateTable(it) => self.update(at, args, it),
            Operation::FlushTlb { process, root, start, end } => {
                let whole = (start, end) == (0, 0);
                let (start, end) = match self.flaw {
                    Flaw::IgnoresTlbFlush => return Ok(()),
                    Flaw::IgnoresFullTlbFlush if whole => return Ok(()),
                    Flaw::FlushesOneTlbPage if whole => (0, PAGE),
                    Flaw::FlushesOneTlbPage => (start, start + PAGE),
                    _ => (start, end),
                };
                self.with(at, args, Operation::FlushTlb { process, root, start, end })
            }
            Operation::VirtualTransfer { driver_handle, offset, from, to, bytes }
                if self.flaw == Flaw::AddsOffsetVirtualTransfer =>
            {
                let (from, to) = (from + offset, to + offset);
                let moved = Operation::VirtualTransfer { driver_handle, offset, from, to, bytes };
                self.with(at, args, moved)
            }
            _ => self.inner.build_paging_buffer(at, args),
        }
    }
}
