//! Paging steps that write page tables, and their arguments for the driver.

use crate::base::id_list::Id;
use crate::ddi::mmu::{PageTableEntry, TableAddress, TableUpdate, UpdateMode};
use crate::ddi::operation::{Operation, PAGE};
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::Paging;
use crate::memory::address::AddressSpace;
use crate::memory::address::ranges::Backing;
use crate::memory::{PagingOperation, PagingStep};
use crate::state::KernelState;
use flight::{
    EventKind, HardwareModel, Kind, PageTableWrite, Subject, TableEntry, TableRoot, TlbFlush,
};
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
    /// The first address that the entries translate.
    pub(crate) address: u64,
    /// The extent behind the entries.
    pub(crate) of: Option<Id<Extent>>,
    pub(crate) offset: u64,
    pub(crate) protection: u64,
}

/// The arguments of a table operation, copied from the state.
pub(crate) struct TableContext {
    process: usize,
    address: TableAddress,
    driver_handle: Option<usize>,
    of: Option<Subject>,
    space: Subject,
    owner: Option<Subject>,
    /// The segment of the table, and its offset there.
    location: (u32, u64),
    root: TableRoot,
    index_bits: Vec<u32>,
    hardware: Arc<dyn HardwareModel>,
    /// The CPU writes the entries: there is no buffer.
    pub(crate) by_cpu: bool,
}

impl TableWrite {
    /// A write that invalidates the first entry of a table.
    pub(crate) fn invalidation(
        space: Id<AddressSpace>,
        level: u32,
        table: Id<Extent>,
        address: u64,
    ) -> Self {
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

    /// The type of all its entries, for events.
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
    /// The other extents that it serves, which cannot be destroyed before it is done.
    pub(crate) fn dependent_extents(&self) -> &[Id<Extent>] {
        match self {
            PagingOperation::Table(it) => it.of.as_slice(),
            PagingOperation::Flush { of, .. } => of,
            _ => &[],
        }
    }

    /// The space of the tables.
    pub(crate) fn space(&self) -> Option<Id<AddressSpace>> {
        match self {
            PagingOperation::Table(it) => Some(it.space),
            PagingOperation::Flush { space, .. } => Some(*space),
            _ => None,
        }
    }
}

impl PagingStep {
    /// The step on behalf of another extent, which cannot be destroyed before it is done.
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
    /// The operation for the driver.
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
    /// The arguments of a step on a table; `None` if its space or its table is destroyed.
    pub(crate) fn table_context(&self, step: &PagingStep) -> Option<TableContext> {
        let number = step.operation.space()?;
        let space = self.memory.spaces.get(number)?;
        let adapter = self.adapters.get(space.adapter)?;
        let memory = adapter.memory.as_ref()?;
        let mmu = memory.mmu.as_ref()?;
        let range = self.location_of(step.extent)?;
        let info = &memory.segment_numbered(range.0)?.info;
        // WINDOWS: the system's tables are written by the CPU (documented and observed).
        let mode = if space.process.is_none() { UpdateMode::Cpu } else { mmu.features.mode };
        let at = match mode {
            UpdateMode::Cpu => TableAddress::Cpu(info.cpu_address.unwrap_or(0) + range.1),
            UpdateMode::Virtual => {
                TableAddress::Virtual(self.system_address(space.adapter, range)?)
            }
            UpdateMode::Physical => TableAddress::Physical(range.0, info.base + range.1),
        };
        // A step that was built is executed, even if its addresses were freed since.
        if let PagingOperation::Table(it) = &step.operation
            && step.passes == 0
            && self.is_stale(it)
        {
            return None; // WINDOWS: work queued for freed addresses is ignored (documented).
        }
        let waits = step
            .operation
            .dependent_extents()
            .first()
            .and_then(|extent| self.memory.extents.get(*extent));
        let (_, mut root) = self.root_of(number)?;
        if matches!(step.operation, PagingOperation::Flush { .. }) {
            // The translations of a replaced root are flushed, too.
            (root.segment, root.offset) = range;
        }
        let levels = &mmu.features.levels;
        Some(TableContext {
            process: space.driver_handle.as_ref()?.as_raw(),
            address: at,
            driver_handle: waits.map(|extent| extent.driver_handle),
            of: waits.map(|extent| extent.owner.subject()),
            space: crate::memory::address::subject(number),
            owner: space.process.map(Id::subject),
            location: range,
            root: TableRoot { segment: root.segment, offset: root.offset, entries: root.entries },
            index_bits: levels.iter().map(|table_level| table_level.index_bits).collect(),
            hardware: adapter.driver.hardware.clone(),
            by_cpu: mode == UpdateMode::Cpu && matches!(step.operation, PagingOperation::Table(_)),
        })
    }
}

impl KernelState {
    /// Whether page entries are for addresses that their allocation does not have any more.
    fn is_stale(&self, write: &TableWrite) -> bool {
        // Only page entries of an allocation can be stale.
        let Some(of) = write.of.filter(|_| write.level == 0 && write.entry_kind() == "page") else {
            return false;
        };
        let span = write.address..write.address + u64::from(write.count) * PAGE;
        let parts = self
            .memory
            .spaces
            .get(write.space)
            .map(|address_space| address_space.addresses.parts(&span));
        let mine = |backing: Backing| matches!(backing, Backing::Mapped { view, .. } if self.extent_of(view) == Some(of));
        !parts.unwrap_or_default().iter().any(|pair| mine(pair.1.backing))
    }
}

impl Kernel {
    /// Logs the entries that a driver is called to write, or the flush.
    pub(crate) fn log_table_write(
        &self,
        table: Subject,
        what: &PagingOperation,
        step_context: &TableContext,
    ) {
        match what {
            PagingOperation::Table(it) => {
                let first = it.entries.first().copied().unwrap_or_default();
                let same =
                    |entry: &PageTableEntry| (entry.valid, entry.zero) == (first.valid, first.zero);
                let counted = it.repeat || it.entries.len() as u64 == u64::from(it.count);
                self.log.emit(table, || EventKind::PageTableWritten {
                    space: step_context.space,
                    level: it.level,
                    by: if step_context.by_cpu { "cpu".into() } else { "gpu".into() },
                    first: it.first,
                    count: it.count,
                    address: it.address,
                    entry_kind: it.entry_kind().into(),
                    of: step_context.of,
                    offset: it.offset,
                    sequential: counted && it.entries.iter().all(same),
                    segment: first.segment,
                    page: first.page,
                    initial: it.initial,
                    evicts: it.evicts,
                });
            }
            PagingOperation::Flush { start, end, .. } => {
                self.log.emit(step_context.space, || EventKind::TlbFlushed {
                    start: *start,
                    end: *end,
                });
            }
            _ => (),
        }
    }

    /// Notifies the observer of tables that the content of one is unknown.
    pub(crate) fn forget_table(&self, state: &KernelState, extent: Id<Extent>) {
        let table = state.memory.extents.get(extent).filter(|extent| extent.owner.is_table());
        if let (Some(observer), Some(it), Some(range)) =
            (self.observer.get(), table, state.location_of(extent))
        {
            observer.table_forgotten(range, it.owner.subject());
        }
    }

    /// Notifies the observer of tables of a table operation.
    pub(crate) fn notify_table_observer(
        &self,
        paging: Option<Id<Paging>>,
        what: &PagingOperation,
        step_context: &TableContext,
        begins: bool,
    ) {
        // A flight may have no observer, and no model of the hardware whose tables can be read.
        let modeled = step_context.hardware.models_hardware();
        let Some(observer) = self.observer.get().filter(|_| modeled) else { return };
        let paging = paging.map_or(Kind::Paging.subject(0), Id::subject);
        match what {
            PagingOperation::Table(it) => {
                let message = |page_table_entry: &PageTableEntry| TableEntry {
                    valid: page_table_entry.valid,
                    zero: page_table_entry.zero,
                    read_only: page_table_entry.read_only,
                    segment: page_table_entry.segment,
                    page: page_table_entry.page,
                };
                let entries: Vec<TableEntry> = it.entries.iter().map(message).collect();
                let tabled = PageTableWrite {
                    paging,
                    of: step_context.space,
                    process: step_context.owner,
                    level: it.level,
                    table: step_context.location,
                    first: it.first,
                    count: it.count,
                    entries: &entries,
                    repeat: it.repeat,
                    by_cpu: step_context.by_cpu,
                    address: it.address,
                    hardware: &*step_context.hardware,
                };
                if begins {
                    observer.table_write_started(&tabled);
                } else {
                    observer.table_write_finished(&tabled);
                }
            }
            PagingOperation::Flush { start, end, .. } if !begins => {
                observer.tlb_flushed(&TlbFlush {
                    paging,
                    of: step_context.space,
                    process: step_context.owner,
                    root: step_context.root,
                    index_bits: &step_context.index_bits,
                    start: *start,
                    end: *end,
                    hardware: &*step_context.hardware,
                });
            }
            _ => (),
        }
    }
}
