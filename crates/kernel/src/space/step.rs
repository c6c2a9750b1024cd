//! Steps of paging work that write page tables, and what they say to a driver.

use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::Paging;
use crate::memory::{Move, Step};
use crate::mmu::{Entry, TableAt, TableUpdate, UpdateMode};
use crate::operation::{Operation, PAGE};
use crate::space::Space;
use crate::space::addresses::Held;
use crate::store::Id;
use crate::world::World;
use flight::{Flushed, Kind, Machine, Subject, TableEntry, TableRoot, Tabled, What};
use std::sync::Arc;

/// Entries to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableWrite {
    pub(crate) space: Id<Space>,
    pub(crate) level: u32,
    /// The extent of the table.
    pub(crate) table: Id<Extent>,
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// One for each, or one for all.
    pub(crate) entries: Vec<Entry>,
    pub(crate) repeat: bool,
    pub(crate) initial: bool,
    pub(crate) evicts: bool,
    /// The first address that they translate.
    pub(crate) address: u64,
    /// The extent behind them.
    pub(crate) of: Option<Id<Extent>>,
    pub(crate) offset: u64,
    pub(crate) protection: u64,
}

/// What an operation on a table says, taken out of the world.
pub(crate) struct TableFacts {
    process: usize,
    at: TableAt,
    word: Option<usize>,
    of: Option<Subject>,
    space: Subject,
    owner: Option<Subject>,
    /// The segment of the table, and where it is there.
    spot: (u32, u64),
    root: TableRoot,
    index_bits: Vec<u32>,
    machine: Arc<dyn Machine>,
    /// The CPU writes it: there is no buffer.
    pub(crate) cpu: bool,
}

impl TableWrite {
    /// One that makes the first entry of a table invalid.
    pub(crate) fn invalid(space: Id<Space>, level: u32, table: Id<Extent>, address: u64) -> Self {
        Self {
            space,
            level,
            table,
            first: 0,
            count: 1,
            entries: vec![Entry::default()],
            repeat: true,
            initial: false,
            evicts: false,
            address,
            of: None,
            offset: 0,
            protection: 0,
        }
    }

    /// What all its entries are, in a word.
    fn what(&self) -> &'static str {
        match self.entries.first() {
            Some(it) if it.zero => "zero",
            Some(it) if it.valid && self.level > 0 => "table",
            Some(it) if it.valid => "page",
            _ => "invalid",
        }
    }
}

impl Move {
    /// The extents it is done for besides its own, which cannot end before.
    pub(crate) fn also_of(&self) -> &[Id<Extent>] {
        match self {
            Move::Table(it) => it.of.as_slice(),
            Move::Flush { of, .. } => of,
            _ => &[],
        }
    }

    /// The space whose tables it is about.
    pub(crate) fn space(&self) -> Option<Id<Space>> {
        match self {
            Move::Table(it) => Some(it.space),
            Move::Flush { space, .. } => Some(*space),
            _ => None,
        }
    }
}

impl Step {
    /// The same for another extent, which cannot end before it is done.
    pub(crate) fn on_behalf_of(mut self, extent: Option<Id<Extent>>) -> Self {
        if let Move::Table(it) = &mut self.what
            && extent.is_some()
        {
            Arc::make_mut(it).of = extent;
        }
        self
    }
}

impl TableFacts {
    /// What the driver is asked to do.
    pub(crate) fn operation<'a>(&'a self, what: &'a Move) -> Option<Operation<'a>> {
        match what {
            Move::Table(it) => Some(Operation::UpdateTable(TableUpdate {
                process: self.process,
                level: it.level,
                table: self.at,
                first: it.first,
                count: it.count,
                entries: &it.entries,
                repeat: it.repeat,
                initial: it.initial,
                evicts: it.evicts,
                address: it.address,
                word: self.word,
                offset: it.offset,
                protection: it.protection,
            })),
            Move::Flush { start, end, .. } => Some(Operation::FlushTlb {
                process: self.process,
                root: (self.root.segment, self.root.offset),
                start: *start,
                end: *end,
            }),
            _ => None,
        }
    }
}

impl World {
    /// What a step on a table says; none when its space or its table is gone.
    pub(crate) fn table_facts(&self, step: &Step) -> Option<TableFacts> {
        let number = step.what.space()?;
        let space = self.spaces.get(number)?;
        let adapter = self.adapters.get(space.adapter)?;
        let memory = adapter.memory.as_ref()?;
        let mmu = memory.mmu.as_ref()?;
        let spot = self.spot_of(step.extent)?;
        let shape = &memory.numbered(spot.0)?.shape;
        // WINDOWS: the system's own tables are written by the CPU (documented and observed).
        let mode = if space.process.is_none() { UpdateMode::Cpu } else { mmu.features.mode };
        let at = match mode {
            UpdateMode::Cpu => TableAt::Cpu(shape.cpu.unwrap_or(0) + spot.1),
            UpdateMode::Virtual => TableAt::Virtual(self.system_address(space.adapter, spot)?),
            UpdateMode::Physical => TableAt::Physical(spot.0, shape.base + spot.1),
        };
        // One that was built is done, whatever was freed since.
        if let Move::Table(it) = &step.what
            && step.passes == 0
            && self.is_stale(it)
        {
            return None; // WINDOWS: what is queued for freed addresses is ignored (documented).
        }
        let behind = step.what.also_of().first().and_then(|it| self.extents.get(*it));
        let (_, mut root) = self.root_of(number)?;
        if matches!(step.what, Move::Flush { .. }) {
            // Of one that was replaced nothing is remembered, either.
            (root.segment, root.offset) = spot;
        }
        let levels = &mmu.features.levels;
        Some(TableFacts {
            process: space.word.as_ref()?.word(),
            at,
            word: behind.map(|it| it.word),
            of: behind.map(|it| it.owner.subject()),
            space: crate::space::subject(number),
            owner: space.process.map(Id::subject),
            spot,
            root: TableRoot { segment: root.segment, offset: root.offset, entries: root.entries },
            index_bits: levels.iter().map(|it| it.index_bits).collect(),
            machine: adapter.driver.machine.clone(),
            cpu: mode == UpdateMode::Cpu && matches!(step.what, Move::Table(_)),
        })
    }
}

impl World {
    /// Whether entries of pages are for addresses that are not their allocation's any more.
    fn is_stale(&self, write: &TableWrite) -> bool {
        let Some(of) = write.of.filter(|_| write.level == 0 && write.what() == "page") else {
            return false;
        };
        let span = write.address..write.address + u64::from(write.count) * PAGE;
        let parts = self.spaces.get(write.space).map(|it| it.addresses.parts(&span));
        let mine = |held: Held| matches!(held, Held::Mapped { view, .. } if self.extent_of(view) == Some(of));
        !parts.unwrap_or_default().iter().any(|it| mine(it.1.held))
    }
}

impl Kernel {
    /// Says what a driver was asked to write, or to have forgotten.
    pub(crate) fn say_tabled(&self, table: Subject, what: &Move, facts: &TableFacts) {
        match what {
            Move::Table(it) => {
                let first = it.entries.first().copied().unwrap_or_default();
                let same = |entry: &Entry| (entry.valid, entry.zero) == (first.valid, first.zero);
                let counted = it.repeat || it.entries.len() as u64 == u64::from(it.count);
                let what = What::TableWritten {
                    space: facts.space,
                    level: it.level,
                    by: if facts.cpu { "cpu".into() } else { "gpu".into() },
                    first: it.first,
                    count: it.count,
                    address: it.address,
                    what: it.what().into(),
                    of: facts.of,
                    offset: it.offset,
                    steady: counted && it.entries.iter().all(same),
                    segment: first.segment,
                    page: first.page,
                    initial: it.initial,
                    evicts: it.evicts,
                };
                self.log.emit(table, what);
            }
            Move::Flush { start, end, .. } => {
                self.log.emit(facts.space, What::TlbFlushed { start: *start, end: *end });
            }
            _ => (),
        }
    }

    /// Tells whoever looks at tables that nothing is known of one.
    pub(crate) fn forget_table(&self, world: &World, extent: Id<Extent>) {
        let table = world.extents.get(extent).filter(|it| it.owner.is_table());
        if let (Some(witness), Some(it), Some(spot)) =
            (self.witness.get(), table, world.spot_of(extent))
        {
            witness.table_forgotten(spot, it.owner.subject());
        }
    }

    /// Tells whoever looks at tables what is done to them.
    pub(crate) fn witness_table(
        &self,
        paging: Option<Id<Paging>>,
        what: &Move,
        facts: &TableFacts,
        begins: bool,
    ) {
        let Some(witness) = self.witness.get() else { return };
        let paging = paging.map_or(Kind::Paging.nr(0), Id::subject);
        match what {
            Move::Table(it) => {
                let said = |it: &Entry| TableEntry {
                    valid: it.valid,
                    zero: it.zero,
                    read_only: it.read_only,
                    segment: it.segment,
                    page: it.page,
                };
                let entries: Vec<TableEntry> = it.entries.iter().map(said).collect();
                let tabled = Tabled {
                    paging,
                    of: facts.space,
                    process: facts.owner,
                    level: it.level,
                    table: facts.spot,
                    first: it.first,
                    count: it.count,
                    entries: &entries,
                    repeat: it.repeat,
                    cpu: facts.cpu,
                    address: it.address,
                    machine: &*facts.machine,
                };
                if begins {
                    witness.table_begins(&tabled);
                } else {
                    witness.table_ends(&tabled);
                }
            }
            Move::Flush { start, end, .. } if !begins => witness.flushed(&Flushed {
                paging,
                of: facts.space,
                process: facts.owner,
                root: facts.root,
                index_bits: &facts.index_bits,
                start: *start,
                end: *end,
                machine: &*facts.machine,
            }),
            _ => (),
        }
    }
}
