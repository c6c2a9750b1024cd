//! Steps of paging work that write page tables, and what they say to a driver.

use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::Paging;
use crate::memory::{PagingOperation, PagingStep};
use crate::mmu::{PageTableEntry, TableAddress, TableUpdate, UpdateMode};
use crate::operation::{Operation, PAGE};
use crate::space::AddressSpace;
use crate::space::addresses::Backing;
use crate::store::Id;
use crate::world::KernelState;
use flight::{TlbFlush, Kind, HardwareModel, Subject, TableEntry, TableRoot, PageTableWrite, EventKind};
use std::sync::Arc;

/// Entries to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableWrite {
    pub(crate) space: Id<AddressSpace>,
    pub(crate) level: u32,
    /// The extent of the table.
    pub(crate) table: Id<Extent>,
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// One for each, or one for all.
    pub(crate) entries: Vec<PageTableEntry>,
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
pub(crate) struct TableContext {
    process: usize,
    address: TableAddress,
    driver_handle: Option<usize>,
    of: Option<Subject>,
    space: Subject,
    owner: Option<Subject>,
    /// The segment of the table, and where it is there.
    location: (u32, u64),
    root: TableRoot,
    index_bits: Vec<u32>,
    machine: Arc<dyn HardwareModel>,
    /// The CPU writes it: there is no buffer.
    pub(crate) by_cpu: bool,
}

impl TableWrite {
    /// One that makes the first entry of a table invalid.
    pub(crate) fn invalidation(space: Id<AddressSpace>, level: u32, table: Id<Extent>, address: u64) -> Self {
        Self {
            space,
            level,
            table,
            first: 0,
            count: 1,
            entries: vec![PageTableEntry::default()],
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
    fn entry_kind(&self) -> &'static str {
        match self.entries.first() {
            Some(it) if it.zero => "zero",
            Some(it) if it.valid && self.level > 0 => "table",
            Some(it) if it.valid => "page",
            _ => "invalid",
        }
    }
}

impl PagingOperation {
    /// The extents it is done for besides its own, which cannot end before.
    pub(crate) fn dependent_extents(&self) -> &[Id<Extent>] {
        match self {
            PagingOperation::Table(it) => it.of.as_slice(),
            PagingOperation::Flush { of, .. } => of,
            _ => &[],
        }
    }

    /// The space whose tables it is about.
    pub(crate) fn space(&self) -> Option<Id<AddressSpace>> {
        match self {
            PagingOperation::Table(it) => Some(it.space),
            PagingOperation::Flush { space, .. } => Some(*space),
            _ => None,
        }
    }
}

impl PagingStep {
    /// The same for another extent, which cannot end before it is done.
    pub(crate) fn on_behalf_of(mut self, extent: Option<Id<Extent>>) -> Self {
        if let PagingOperation::Table(it) = &mut self.operation
            && extent.is_some()
        {
            Arc::make_mut(it).of = extent;
        }
        self
    }
}

impl TableContext {
    /// What the driver is asked to do.
    pub(crate) fn operation<'a>(&'a self, what: &'a PagingOperation) -> Option<Operation<'a>> {
        match what {
            PagingOperation::Table(it) => Some(Operation::UpdateTable(TableUpdate {
                process: self.process,
                level: it.level,
                table: self.address,
                first: it.first,
                count: it.count,
                entries: &it.entries,
                repeat: it.repeat,
                initial: it.initial,
                evicts: it.evicts,
                address: it.address,
                driver_handle: self.driver_handle,
                offset: it.offset,
                protection: it.protection,
            })),
            PagingOperation::Flush { start, end, .. } => Some(Operation::FlushTlb {
                process: self.process,
                root: (self.root.segment, self.root.offset),
                start: *start,
                end: *end,
            }),
            _ => None,
        }
    }
}

impl KernelState {
    /// What a step on a table says; none when its space or its table is gone.
    pub(crate) fn table_context(&self, step: &PagingStep) -> Option<TableContext> {
        let number = step.operation.space()?;
        let space = self.spaces.get(number)?;
        let adapter = self.adapters.get(space.adapter)?;
        let memory = adapter.memory.as_ref()?;
        let mmu = memory.mmu.as_ref()?;
        let spot = self.location_of(step.extent)?;
        let shape = &memory.segment_numbered(spot.0)?.info;
        // WINDOWS: the system's own tables are written by the CPU (documented and observed).
        let mode = if space.process.is_none() { UpdateMode::Cpu } else { mmu.features.mode };
        let at = match mode {
            UpdateMode::Cpu => TableAddress::Cpu(shape.cpu_address.unwrap_or(0) + spot.1),
            UpdateMode::Virtual => TableAddress::Virtual(self.system_address(space.adapter, spot)?),
            UpdateMode::Physical => TableAddress::Physical(spot.0, shape.base + spot.1),
        };
        // One that was built is done, whatever was freed since.
        if let PagingOperation::Table(it) = &step.operation
            && step.passes == 0
            && self.is_stale(it)
        {
            return None; // WINDOWS: what is queued for freed addresses is ignored (documented).
        }
        let behind = step.operation.dependent_extents().first().and_then(|it| self.extents.get(*it));
        let (_, mut root) = self.root_of(number)?;
        if matches!(step.operation, PagingOperation::Flush { .. }) {
            // Of one that was replaced nothing is remembered, either.
            (root.segment, root.offset) = spot;
        }
        let levels = &mmu.features.levels;
        Some(TableContext {
            process: space.driver_handle.as_ref()?.word(),
            address: at,
            driver_handle: behind.map(|it| it.driver_handle),
            of: behind.map(|it| it.owner.subject()),
            space: crate::space::subject(number),
            owner: space.process.map(Id::subject),
            location: spot,
            root: TableRoot { segment: root.segment, offset: root.offset, entries: root.entries },
            index_bits: levels.iter().map(|it| it.index_bits).collect(),
            machine: adapter.driver.machine.clone(),
            by_cpu: mode == UpdateMode::Cpu && matches!(step.operation, PagingOperation::Table(_)),
        })
    }
}

impl KernelState {
    /// Whether entries of pages are for addresses that are not their allocation's any more.
    fn is_stale(&self, write: &TableWrite) -> bool {
        let Some(of) = write.of.filter(|_| write.level == 0 && write.entry_kind() == "page") else {
            return false;
        };
        let span = write.address..write.address + u64::from(write.count) * PAGE;
        let parts = self.spaces.get(write.space).map(|it| it.addresses.parts(&span));
        let mine = |held: Backing| matches!(held, Backing::Mapped { view, .. } if self.extent_of(view) == Some(of));
        !parts.unwrap_or_default().iter().any(|it| mine(it.1.backing))
    }
}

impl Kernel {
    /// Says what a driver was asked to write, or to have forgotten.
    pub(crate) fn log_table_write(&self, table: Subject, what: &PagingOperation, facts: &TableContext) {
        match what {
            PagingOperation::Table(it) => {
                let first = it.entries.first().copied().unwrap_or_default();
                let same = |entry: &PageTableEntry| (entry.valid, entry.zero) == (first.valid, first.zero);
                let counted = it.repeat || it.entries.len() as u64 == u64::from(it.count);
                let what = EventKind::PageTableWritten {
                    space: facts.space,
                    level: it.level,
                    by: if facts.by_cpu { "cpu".into() } else { "gpu".into() },
                    first: it.first,
                    count: it.count,
                    address: it.address,
                    entry_kind: it.entry_kind().into(),
                    of: facts.of,
                    offset: it.offset,
                    sequential: counted && it.entries.iter().all(same),
                    segment: first.segment,
                    page: first.page,
                    initial: it.initial,
                    evicts: it.evicts,
                };
                self.log.emit(table, what);
            }
            PagingOperation::Flush { start, end, .. } => {
                self.log.emit(facts.space, EventKind::TlbFlushed { start: *start, end: *end });
            }
            _ => (),
        }
    }

    /// Tells whoever looks at tables that nothing is known of one.
    pub(crate) fn forget_table(&self, world: &KernelState, extent: Id<Extent>) {
        let table = world.extents.get(extent).filter(|it| it.owner.is_table());
        if let (Some(witness), Some(it), Some(spot)) =
            (self.observer.get(), table, world.location_of(extent))
        {
            witness.table_forgotten(spot, it.owner.subject());
        }
    }

    /// Tells whoever looks at tables what is done to them.
    pub(crate) fn notify_table_observer(
        &self,
        paging: Option<Id<Paging>>,
        what: &PagingOperation,
        facts: &TableContext,
        begins: bool,
    ) {
        let Some(witness) = self.observer.get() else { return };
        let paging = paging.map_or(Kind::Paging.subject(0), Id::subject);
        match what {
            PagingOperation::Table(it) => {
                let said = |it: &PageTableEntry| TableEntry {
                    valid: it.valid,
                    zero: it.zero,
                    read_only: it.read_only,
                    segment: it.segment,
                    page: it.page,
                };
                let entries: Vec<TableEntry> = it.entries.iter().map(said).collect();
                let tabled = PageTableWrite {
                    paging,
                    of: facts.space,
                    process: facts.owner,
                    level: it.level,
                    table: facts.location,
                    first: it.first,
                    count: it.count,
                    entries: &entries,
                    repeat: it.repeat,
                    by_cpu: facts.by_cpu,
                    address: it.address,
                    machine: &*facts.machine,
                };
                if begins {
                    witness.table_write_started(&tabled);
                } else {
                    witness.table_write_finished(&tabled);
                }
            }
            PagingOperation::Flush { start, end, .. } if !begins => witness.tlb_flushed(&TlbFlush {
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
