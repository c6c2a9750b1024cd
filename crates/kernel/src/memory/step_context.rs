//! The arguments of a paging step, for the driver that builds it and for the memory observer.

use crate::base::id_list::Id;
use crate::ddi::operation::{Operation, PAGE, Pages, Transfer, TransferEnd};
use crate::kernel::Kernel;
use crate::memory::Paging;
use crate::memory::address::step::TableContext;
use crate::memory::place::step_segment_number;
use crate::memory::unseen::visible_memory;
use crate::memory::{PagingOperation, PagingStep, segment_number};
use crate::state::KernelState;
use flight::{CpuVisibleMemory, HardwareModel, PagingMove, PagingMovement, Ram, Run, Subject};
use std::sync::Arc;

/// The arguments of a step's operation, copied from the state.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct StepContext {
    pub(crate) ram: Arc<dyn Ram>,
    pub(crate) hardware: Arc<dyn HardwareModel>,
    pub(crate) capacity: u32,
    /// The number of bytes of the driver's private data of a paging buffer.
    pub(crate) private: u32,
    pub(crate) owner: Subject,
    pub(crate) segment: Subject,
    pub(crate) driver_handle: usize,
    /// The same, if it may be passed to the driver.
    pub(crate) passed_handle: Option<usize>,
    pub(crate) bytes: u64,
    pub(crate) runs: Vec<Run>,
    pub(crate) address: u64,
    /// The segment's base address.
    pub(crate) base: u64,
    pub(crate) coherent: bool,
    pub(crate) linear: bool,
    pub(crate) dummy: u64,
    pub(crate) cpu_address: Option<usize>,
    pub(crate) locked: bool,
    /// No other operation on it is pending.
    pub(crate) alone: bool,
    /// The memory of hardware without a model that the CPU sees.
    pub(crate) visible: Vec<CpuVisibleMemory>,
    /// Its pages are memory of a client.
    pub(crate) is_clients: bool,
    /// The segment's address in the system's space, on an adapter that translates addresses.
    pub(crate) system: Option<u64>,
    /// The page-table arguments, if the step is about a page table.
    pub(crate) table: Option<TableContext>,
}

impl StepContext {
    pub(crate) fn operation<'a>(&'a self, step: &'a PagingStep) -> Operation<'a> {
        let (driver_handle, address, bytes) = (self.driver_handle, self.address, self.bytes);
        let segment = step_segment_number(step);
        let part = step.moved_part(bytes);
        let count = part.bytes / PAGE;
        let pages = Pages { runs: &self.runs, first: part.start / PAGE, count };
        let place = TransferEnd::Segment { number: segment, address };
        let transfer = |from, to| {
            Operation::Transfer(Transfer {
                driver_handle: Some(driver_handle),
                offset: part.start,
                bytes: part.bytes,
                from,
                to,
                start: step.is_first_part(),
                end: step.is_last_part(bytes),
                idle: step.idle,
                special_lock: false,
            })
        };
        if let Some(it) =
            self.table.as_ref().and_then(|table_context| table_context.operation(&step.operation))
        {
            return it;
        }
        match &step.operation {
            PagingOperation::Fill => match self.system {
                Some(start) => Operation::VirtualFill {
                    driver_handle: Some(driver_handle),
                    offset: 0,
                    address: start + step.location.offset,
                    bytes,
                    pattern: 0,
                },
                None => Operation::Fill { driver_handle, segment, address, bytes, pattern: 0 },
            },
            PagingOperation::PageIn => transfer(TransferEnd::System(pages), place),
            PagingOperation::PageOut => transfer(place, TransferEnd::System(pages)),
            PagingOperation::Relocate { from } if step.part.is_some() => {
                let start = self.system.unwrap_or(0) + part.start;
                Operation::VirtualTransfer {
                    driver_handle: Some(driver_handle),
                    offset: part.start,
                    from: start + from,
                    to: start + step.location.offset,
                    bytes: part.bytes,
                }
            }
            PagingOperation::Relocate { from } => {
                let address = address - step.location.offset + from;
                transfer(TransferEnd::Segment { number: segment, address }, place)
            }
            PagingOperation::Discard { .. } => {
                Operation::Discard { driver_handle, segment, address, idle: step.idle }
            }
            PagingOperation::Map => Operation::MapAperture {
                driver_handle: self.passed_handle,
                segment,
                page: step.location.offset / PAGE,
                pages,
                coherent: self.coherent,
            },
            PagingOperation::Unmap => Operation::UnmapAperture {
                driver_handle: self.passed_handle,
                segment,
                page: step.location.offset / PAGE,
                pages: bytes / PAGE,
                dummy: self.dummy,
            },
            PagingOperation::Init => Operation::InitContext {
                driver_handle,
                location: place,
                cpu: self.cpu_address,
                bytes,
            },
            PagingOperation::Update(private) => {
                Operation::UpdateContext { driver_handle, location: place, bytes, private }
            }
            PagingOperation::NotifyResident => {
                Operation::Notify { driver_handle, segment, address, resident: true }
            }
            // Without page-table arguments the driver is not called.
            PagingOperation::NotifyEvicted
            | PagingOperation::Table(_)
            | PagingOperation::Flush { .. } => {
                Operation::Notify { driver_handle, segment, address, resident: false }
            }
        }
    }
}

impl PagingOperation {
    /// Whether the operation brings the allocation in, or leaves it, and does not evict it.
    pub(crate) fn is_page_in(&self) -> bool {
        !matches!(
            self,
            PagingOperation::PageOut
                | PagingOperation::Discard { .. }
                | PagingOperation::Unmap
                | PagingOperation::NotifyEvicted
        )
    }

    /// Whether the operation moves or changes the allocation's content.
    pub(crate) fn moves_content(&self) -> bool {
        let shift = matches!(self, PagingOperation::Relocate { .. });
        shift
            || matches!(
                self,
                PagingOperation::Fill
                    | PagingOperation::PageIn
                    | PagingOperation::PageOut
                    | PagingOperation::Init
                    | PagingOperation::Update(_)
            )
    }

    /// The name of its operation in events.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            PagingOperation::Fill => "fill",
            PagingOperation::PageIn
            | PagingOperation::PageOut
            | PagingOperation::Relocate { .. } => "transfer",
            PagingOperation::Discard { .. } => "discard",
            PagingOperation::Map => "map-aperture",
            PagingOperation::Unmap => "unmap-aperture",
            PagingOperation::Init => "init-context",
            PagingOperation::Update(_) => "update-context",
            PagingOperation::NotifyResident | PagingOperation::NotifyEvicted => "notify-residency",
            PagingOperation::Table(_) => "update-page-table",
            PagingOperation::Flush { .. } => "flush-tlb",
        }
    }
}

impl KernelState {
    /// The arguments of a step on an extent.
    pub(crate) fn step_context(&self, step: &PagingStep) -> Option<StepContext> {
        let (extent, at) = (step.extent, step.location);
        let it = self.memory.extents.get(extent)?;
        let table = self.table_context(step);
        if step.operation.space().is_some() && table.is_none() {
            return None; // The address space and its tables are destroyed.
        }
        // A freed context allocation is not passed to the driver any more, except to unmap an
        // aperture.
        let freed = self.is_context_allocation_freed(it.owner);
        let adapter = self.adapters.get(it.adapter)?;
        let memory = adapter.memory.as_ref()?;
        let segment = memory.segments.get(at.segment)?;
        let flags = it.requirements.flags;
        let cpu = segment.info.flags.aperture && flags.cpu_visible && flags.protected;
        Some(StepContext {
            ram: memory.ram.clone(),
            hardware: adapter.driver.hardware.clone(),
            capacity: memory.paging.buffer,
            private: memory.paging.private,
            owner: it.owner.subject(),
            segment: segment.subject,
            driver_handle: it.driver_handle,
            passed_handle: (!freed).then_some(it.driver_handle),
            bytes: it.bytes,
            runs: it.backing.clone(),
            address: segment.info.base + at.offset,
            base: segment.info.base,
            coherent: segment.info.flags.coherent && it.requirements.flags.cached,
            linear: flags.cpu_visible && !flags.swizzled,
            dummy: memory.dummy.map_or(0, |run| run.start),
            cpu_address: it.lock.as_ref().map(|cpu_lock| cpu_lock.address).filter(|_| cpu),
            // The client accesses its own memory without a lock, too.
            locked: it.lock.is_some() || it.existing.is_some(),
            alone: it.moving <= 1,
            visible: visible_memory(adapter),
            is_clients: it.existing.is_some(),
            system: self.system_address(it.adapter, (segment_number(at.segment), 0)),
            table,
        })
    }
}

impl Kernel {
    /// Notifies the memory observer of an operation. The parts of a transfer are one operation,
    /// which begins with the first and ends with the last.
    pub(crate) fn notify_observer(
        &self,
        paging: Id<Paging>,
        step: &PagingStep,
        step_context: &StepContext,
        begins: bool,
    ) {
        let what = &step.operation;
        let bytes = step_context.bytes;
        if !(if begins { step.is_first_part() } else { step.is_last_part(bytes) }) {
            return;
        }
        if let Some(table) = &step_context.table {
            return self.notify_table_observer(Some(paging), what, table, begins);
        }
        // A flight may have no observer.
        let Some(observer) = self.observer.get() else { return };
        if step_context.locked && *what != PagingOperation::Unmap {
            observer.forget(step_context.owner); // The CPU may write to it at any time.
            // The GPU must reach memory of a client, whatever its bytes are.
            if !step_context.is_clients || *what != PagingOperation::Map || begins {
                return;
            }
        }
        let movement = match what {
            PagingOperation::Fill => PagingMovement::Fill,
            PagingOperation::PageIn => PagingMovement::PageIn,
            PagingOperation::PageOut => PagingMovement::PageOut,
            PagingOperation::Discard { .. } => PagingMovement::Thrown,
            PagingOperation::Map => PagingMovement::Map,
            PagingOperation::Unmap => PagingMovement::Unmap,
            PagingOperation::Relocate { .. } => PagingMovement::Relocate,
            PagingOperation::Init | PagingOperation::Update(_) => {
                return observer.forget(step_context.owner);
            }
            PagingOperation::NotifyResident
            | PagingOperation::NotifyEvicted
            | PagingOperation::Table(_)
            | PagingOperation::Flush { .. } => return,
        };
        let (from, part) = match what {
            PagingOperation::Relocate { from } => {
                (Some(step_context.base + from), step.part.map(|part| part.start))
            }
            _ => (None, None),
        };
        let moving = PagingMove {
            from,
            part,
            paging: paging.subject(),
            of: step_context.owner,
            movement,
            address: step_context.address,
            runs: &step_context.runs,
            bytes: step_context.bytes,
            is_clients: step_context.is_clients,
            linear: step_context.linear,
            not_written: *what == PagingOperation::Discard { not_written: true },
            dummy: step_context.dummy,
            hardware: &*step_context.hardware,
            visible: &step_context.visible,
            pattern: if begins { step_context.overwrite_pages(paging, what) } else { None },
            ram: &*step_context.ram,
        };
        if begins {
            observer.paging_started(&moving);
        } else {
            observer.paging_finished(&moving);
        }
    }
}
