//! Paging: the kernel's operations as `DxgkDdiBuildPagingBuffer` gets them, and the submission of
//! paging buffers.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::display::{Adapter, TableDriver};
use crate::dma_buffers::DmaBuffers;
use crate::door::Door;
use crate::guarded_buffer::GuardedBuffer;
use crate::mdl::Mdl;
use crate::page_tables::{self, MappedPageTable};
use crate::private_data::{PrivateData, count, pointer};
use crate::query::judge;
use crate::shown;
use crate::status::result_from_status;
use abi::NTSTATUS;
use abi::display::{
    DXGK_SUBMITCOMMANDFLAGS as SubmitFlags, DXGKARG_BUILDPAGINGBUFFER, DXGKARG_SUBMITCOMMAND,
};
use abi::status::STATUS_GRAPHICS_ALLOCATION_BUSY;
use flight::RuleId;
use kernel::miniport::{DriverError, DriverResult};
use kernel::mmu::{TableAddress, TableUpdate};
use kernel::operation::{BuildPagingBufferArgs, Operation, SubmitPagingArgs, TransferEnd};
use std::ptr;

impl TableDriver {
    pub(crate) fn call_build_paging_buffer(
        &self,
        paging_args: &mut BuildPagingBufferArgs<'_>,
    ) -> DriverResult<()> {
        let call = self.table.DxgkDdiBuildPagingBuffer.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, bases, .. } = self.adapter()?;
        let mut data = OperationData::new(&paging_args.operation)?;
        if let Operation::UpdateTable(it) = &paging_args.operation {
            data.entries = Some(page_tables::entry_bytes(it)?);
            data.seen = self.map_page_table(it);
        }
        let (kind, about) =
            crate::operation::operation_args(&paging_args.operation, &mut data, &bases)?;
        let by_cpu = data.seen.is_some();
        // A call without a buffer leaves nothing to the driver.
        let of_call = DmaBuffers::default();
        let kept = if paging_args.address == 0 { &of_call } else { door.dma_buffers() };
        let used = paging_args.used;
        let size = used as usize + paging_args.buffer.len();
        let base = paging_args.address.wrapping_sub(used.into());
        let mut open = kept.open(base, size, paging_args.private, used == 0)?;
        open.commands.open(used, paging_args.buffer);
        // WINDOWS: there is no buffer where the CPU writes (documented).
        let start = if by_cpu { ptr::null_mut() } else { open.commands.pointer() };
        // WINDOWS: the system context would be the paging context; there is none, and the buffer's
        // address is the one that the hardware uses.
        let mut args = DXGKARG_BUILDPAGINGBUFFER {
            pDmaBuffer: start,
            DmaSize: count(paging_args.buffer.len())?,
            pDmaBufferPrivateData: open.private.pointer(),
            DmaBufferPrivateDataSize: open.private.size(),
            Operation: kind,
            MultipassOffset: *paging_args.multipass,
            About: about,
            DmaBufferGpuVirtualAddress: paging_args.address,
            ..DXGKARG_BUILDPAGINGBUFFER::ZERO
        };
        let room = args.DmaSize;

        let status = self.run_driver(&door, || {
            shown::in_out(&mut args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args` and
                // all it points to outlive the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        open.commands.read_back();
        judge_busy(&door, &paging_args.operation, status);
        let written = args.pDmaBuffer.addr().wrapping_sub(start.addr()).cast_signed();
        if by_cpu {
            judge_no_buffer(&door, written);
        }
        judge_room(&door, room, if by_cpu { 0 } else { written }, &open.commands);
        paging_args.buffer.copy_from_slice(open.commands.bytes());
        paging_args.private.copy_from_slice(&open.private.bytes());
        if !by_cpu {
            open.operations.push(data);
        }
        *paging_args.multipass = args.MultipassOffset;
        let answer = result_from_status(status);
        paging_args.written = match answer {
            // A driver that wrote too far has filled the buffer.
            Ok(()) | Err(DriverError::NoRoom) => {
                u32::try_from(written.max(0)).unwrap_or(room).min(room)
            }
            Err(_) => 0,
        };
        answer
    }

    /// Maps a page table for the CPU that the driver is to write.
    fn map_page_table(&self, it: &TableUpdate<'_>) -> Option<MappedPageTable> {
        let TableAddress::Cpu(start) = it.table else { return None };
        let bytes = self.adapter_slot().as_ref()?.tables.get(it.level as usize).copied()?;
        MappedPageTable::map(self.hardware.ram.as_ref()?, start, u64::from(bytes))
    }

    pub(crate) fn call_submit_paging(&self, packet: &SubmitPagingArgs<'_>) -> DriverResult<()> {
        let call = self.table.DxgkDdiSubmitCommand.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let kept = door.dma_buffers();
        let size = packet.length as usize;
        let mut open = kept.open(packet.commands, size, packet.private, false)?;
        let paging = if packet.length > 0 { SubmitFlags::Paging } else { 0 };
        let switch = if packet.switch { SubmitFlags::ContextSwitch } else { 0 };
        // WINDOWS: without a context, because the work belongs to no client. `DxgkDdiPatch` is for
        // WDDM 1.x drivers (D-36).
        let args = DXGKARG_SUBMITCOMMAND {
            DmaBufferPhysicalAddress: packet.commands.cast_signed(),
            DmaBufferSize: packet.length,
            DmaBufferSubmissionEndOffset: packet.length,
            pDmaBufferPrivateData: open.private.pointer(),
            DmaBufferPrivateDataSize: open.private.size(),
            DmaBufferPrivateDataSubmissionEndOffset: open.private.size(),
            SubmissionFenceId: packet.fence.0,
            Flags: SubmitFlags { Value: paging | switch },
            NodeOrdinal: packet.node,
            ..DXGKARG_SUBMITCOMMAND::ZERO
        };

        let status = self.run_driver(&door, || {
            shown::input(&args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args` and
                // the buffer outlive the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        result_from_status(status)
    }
}

/// What an operation points to. It lives as long as the buffer with the operation's commands.
pub(crate) struct OperationData {
    /// The pages of the one end, or of the only location, in system memory.
    pub(crate) list: Option<Mdl>,
    /// The driver's private data.
    pub(crate) private: Option<PrivateData>,
    /// Entries of a page table, or ranges of them.
    pub(crate) entries: Option<PrivateData>,
    /// The page table that the CPU writes.
    pub(crate) seen: Option<MappedPageTable>,
}

impl OperationData {
    fn new(operation: &Operation<'_>) -> DriverResult<Self> {
        let system = |transfer_end: &TransferEnd<'_>| match transfer_end {
            TransferEnd::System(pages) => Some(Mdl::from_pages(pages.runs)),
            TransferEnd::Segment { .. } => None,
        };
        let list = match operation {
            Operation::Transfer(it) => match (system(&it.from), system(&it.to)) {
                // Both ends share one offset, and there is no direction for that transfer.
                (Some(_), Some(_)) => return Err(DriverError::Invalid),
                (from, to) => from.or(to),
            },
            Operation::MapAperture { pages, .. } => Some(Mdl::from_pages(pages.runs)),
            Operation::InitContext { location: place, .. } => system(place),
            _ => None,
        };
        let private = match operation {
            Operation::UpdateContext { private, .. } => Some(PrivateData::copy(private)),
            _ => None,
        };
        let entries = match operation {
            Operation::CopyEntries(copies) => Some(page_tables::copy_ranges(copies)?),
            _ => None,
        };
        let (list, private) = (list.transpose()?, private.transpose()?);
        Ok(Self { list, private, entries, seen: None })
    }
}

/// Entry rule: where the CPU writes a page table, there is no buffer to write to.
fn judge_no_buffer(door: &Door, written: isize) {
    let broken = (written != 0).then(|| {
        format!("the driver reports {written} bytes of commands for an update by the CPU")
    });
    let place = "DxgkDdiBuildPagingBuffer.pDmaBuffer";
    judge(door.services(), RuleId::KMD_PAGING_020, place, broken);
}

/// Entry rule: only an operation that moves or discards bytes can find them in use, and only if
/// they may be.
fn judge_busy(door: &Door, operation: &Operation<'_>, status: NTSTATUS) {
    let name = operation.name();
    let but = match operation {
        _ if status != STATUS_GRAPHICS_ALLOCATION_BUSY => None,
        Operation::Transfer(it) if !it.idle => None,
        Operation::Discard { idle: false, .. } => None,
        Operation::Transfer(_) | Operation::Discard { .. } => Some("AllocationIsIdle was set"),
        _ => Some("only transfers and discards may return it"),
    };
    let broken = but.map(|but| format!("the driver found {name} busy, but {but}"));
    let place = "DxgkDdiBuildPagingBuffer";
    judge(door.services(), RuleId::KMD_PAGING_005, place, broken);
}

/// Entry rule: a driver checks the remaining room, writes no more, and reports where it ended.
fn judge_room(door: &Door, room: u32, written: isize, sheet: &GuardedBuffer) {
    let broken = if let Some(at) = sheet.overrun() {
        Some(format!("DmaSize is {room}, but the driver wrote at byte {at} of the buffer"))
    } else {
        let inside = u32::try_from(written).is_ok_and(|number| number <= room);
        (!inside).then(|| format!("DmaSize is {room}, but pDmaBuffer went on by {written} bytes"))
    };
    let place = "DxgkDdiBuildPagingBuffer.pDmaBuffer";
    judge(door.services(), RuleId::KMD_PAGING_002, place, broken);
}
