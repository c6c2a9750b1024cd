//! Drivers that write page tables wrongly: each hands on to a good one, but for one thing.

use flight::Passive;
use kernel::miniport::{Answer, DriverContext, DriverProcess, Miniport, Refusal};
use kernel::mmu::{Entry, Root, RootSize, TableAt, TableUpdate, WindowMap};
use kernel::operation::{Building, Operation, PAGE};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A driver around a good one.
pub(crate) struct Tables {
    good: Arc<dyn Miniport>,
    flaw: Flaw,
    state: Mutex<State>,
}

/// What it does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Forgets no translation.
    NeverFlushes,
    /// Forgets the first page of a range, and nothing else.
    FlushesAPage,
    /// Takes a flush from zero to zero for one of nothing.
    FlushesNothing,
    /// Writes addresses where page numbers belong.
    WritesAddresses,
    /// Leaves the last entry of several.
    EntryShort,
    /// Writes an entry more.
    EntryMore,
    /// Writes the entries of pages to a table above.
    WrongLevel,
    /// Writes a repeated entry once.
    WritesOnce,
    /// Leaves tables that the CPU should write for later.
    WritesLater,
    /// Adds the offset in the allocation to the ends of a virtual transfer.
    AddsOffset,
    /// Keeps the root that was set first, for all contexts.
    KeepsRoot,
    /// Takes every root for one of all entries.
    AllEntries,
    /// Gives a root a header, and does not round to whole pages.
    OddRoot,
    /// Answers fewer entries than it was asked for.
    FewerEntries,
    /// Shows the CPU only what is an allocation's.
    NeedsAllocation,
    /// Frees no process.
    LeaksProcess,
}

#[derive(Default)]
struct State {
    /// The last table of each level that was written to.
    tables: BTreeMap<u32, TableAt>,
    /// The root that was set first.
    root: Option<Root>,
}

impl Tables {
    pub(crate) fn new(good: Arc<dyn Miniport>, flaw: Flaw) -> Arc<Self> {
        Arc::new(Self { good, flaw, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same turn at another operation.
    fn with(
        &self,
        at: &mut Passive,
        building: &mut Building<'_>,
        operation: Operation<'_>,
    ) -> Answer<()> {
        let mut other = Building {
            operation,
            buffer: building.buffer,
            address: building.address,
            before: building.before,
            written: 0,
            multipass: building.multipass,
            private: building.private,
        };
        let answer = self.good.build_paging(at, &mut other);
        building.written = other.written;
        answer
    }

    fn update(
        &self,
        at: &mut Passive,
        building: &mut Building<'_>,
        it: TableUpdate<'_>,
    ) -> Answer<()> {
        let turn = |entry: &Entry| Entry { page: entry.page * PAGE, ..*entry };
        let mut entries = it.entries.to_vec();
        let mut changed = it;
        match self.flaw {
            Flaw::WritesAddresses => entries = it.entries.iter().map(turn).collect(),
            Flaw::EntryShort if it.count > 1 && !it.repeat => changed.count = it.count - 1,
            // Not behind the end of the table: nothing is known of what is there.
            Flaw::EntryMore if it.first + it.count < 512 && !it.repeat => {
                let last = entries.last().copied().unwrap_or_default();
                entries.push(Entry { page: last.page + 1, ..last });
                changed.count += 1;
            }
            Flaw::WritesOnce if it.repeat => {
                entries.truncate(1);
                changed = TableUpdate { repeat: false, count: 1, ..it };
            }
            Flaw::WritesLater if matches!(it.table, TableAt::Cpu(_)) => return Ok(()),
            Flaw::WrongLevel if !matches!(it.table, TableAt::Cpu(_)) => {
                let tables = &mut self.state().tables;
                tables.insert(it.level, it.table);
                if let Some(above) = tables.get(&(it.level + 1)).filter(|_| it.level == 0) {
                    changed.table = *above;
                }
            }
            _ => (),
        }
        changed.entries = &entries;
        self.with(at, building, Operation::UpdateTable(changed))
    }
}

impl Miniport for Tables {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&*self.good)
    }

    fn destroy_process(&self, at: &mut Passive, process: DriverProcess) -> Answer<()> {
        if self.flaw == Flaw::LeaksProcess {
            Ok(())
        } else {
            self.good.destroy_process(at, process)
        }
    }

    fn set_root(&self, at: &mut Passive, context: &DriverContext, root: Root) -> Answer<()> {
        let root = match self.flaw {
            Flaw::KeepsRoot => *self.state().root.get_or_insert(root),
            Flaw::AllEntries => Root { entries: u32::MAX, ..root },
            _ => root,
        };
        self.good.set_root(at, context, root)
    }

    fn root_size(&self, at: &mut Passive, entries: u32) -> Answer<RootSize> {
        let size = self.good.root_size(at, entries)?;
        Ok(match self.flaw {
            Flaw::OddRoot => RootSize { bytes: size.bytes + 64, ..size },
            Flaw::FewerEntries => RootSize { entries: entries.saturating_sub(1), ..size },
            _ => size,
        })
    }

    fn map_window(&self, at: &mut Passive, map: WindowMap<'_>) -> Answer<()> {
        if self.flaw == Flaw::NeedsAllocation && map.word.is_none() {
            return Err(Refusal::Invalid);
        }
        self.good.map_window(at, map)
    }

    fn build_paging(&self, at: &mut Passive, building: &mut Building<'_>) -> Answer<()> {
        match building.operation {
            Operation::UpdateTable(it) => self.update(at, building, it),
            Operation::FlushTlb { process, root, start, end } => {
                let whole = (start, end) == (0, 0);
                let (start, end) = match self.flaw {
                    Flaw::NeverFlushes => return Ok(()),
                    Flaw::FlushesNothing if whole => return Ok(()),
                    Flaw::FlushesAPage if whole => (0, PAGE),
                    Flaw::FlushesAPage => (start, start + PAGE),
                    _ => (start, end),
                };
                self.with(at, building, Operation::FlushTlb { process, root, start, end })
            }
            Operation::VirtualTransfer { word, offset, from, to, bytes }
                if self.flaw == Flaw::AddsOffset =>
            {
                let (from, to) = (from + offset, to + offset);
                let moved = Operation::VirtualTransfer { word, offset, from, to, bytes };
                self.with(at, building, moved)
            }
            _ => self.good.build_paging(at, building),
        }
    }
}
