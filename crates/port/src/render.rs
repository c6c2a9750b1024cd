//! Packets with allocation lists: contexts that patch, `DxgkDdiRender`, `DxgkDdiPatch`, and
//! `DxgkDdiSubmitCommand` with a context.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::context::{driver_handle_from, judge_dma_segments};
use crate::display::{Adapter, TableDriver};
use crate::door::Door;
use crate::guarded_buffer::GuardedBuffer;
use crate::private_data::{PrivateData, count, pointer};
use crate::query::judge;
use crate::shown::{self, ShownList, judge_private_data};
use crate::status::result_from_status;
use crate::system_handle::HandleKind;
use abi::display::{
    DXGK_ALLOCATIONLIST, DXGK_PATCHFLAGS as PatchFlags, DXGK_SUBMITCOMMANDFLAGS as SubmitFlags,
    DXGKARG_CREATECONTEXT, DXGKARG_PATCH, DXGKARG_RENDER, DXGKARG_SUBMITCOMMAND,
};
use abi::ukm::D3DDDI_PATCHLOCATIONLIST;
use flight::RuleId;
use kernel::context::Context;
use kernel::miniport::{
    CreateContextArgs, DriverContext, DriverDevice, DriverError, DriverResult, HandleSlot,
};
use kernel::render_args::{
    AllocationListEntry, BufferSizes, PatchArgs, PatchLocation, RenderArgs, SubmitCommandArgs,
};
use nt::image::UserMemory;

/// `SlotId` of a patch location.
const SLOT: u32 = 0xff_ffff;
const ENTRY: usize = size_of::<D3DDDI_PATCHLOCATIONLIST>();

impl TableDriver {
    pub(crate) fn call_create_context_with_lists(
        &self,
        device: &DriverDevice,
        context_args: &CreateContextArgs,
        slot: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, BufferSizes)> {
        let call = self.table.DxgkDdiCreateContext.ok_or(DriverError::NoEntryPoint)?;
        let adapter = self.adapter()?;
        let mut private = PrivateData::copy(&context_args.private)?;
        let name = HandleKind::Context.handle(slot.kernel_handle()); // In and out, like `hDevice`.
        let mut args = DXGKARG_CREATECONTEXT {
            hContext: name,
            NodeOrdinal: context_args.node,
            EngineAffinity: context_args.engine,
            pPrivateDriverData: private.pointer(),
            PrivateDriverDataSize: private.size(),
            ..DXGKARG_CREATECONTEXT::ZERO
        };

        let status = self.run_driver(&adapter.door, || {
            shown::in_out(&mut args, |args| {
                // SAFETY: By invariant 1 the function is valid, and the handle is the driver's own;
                // `args` and `private` outlive the call, even if it unwinds.
                unsafe { call(pointer(device.as_raw()), args) }
            })
        });

        judge_private_data(&adapter.door, &private);
        result_from_status(status)?;
        let info = args.ContextInfo;
        judge_dma_segments(&adapter, args.Flags, &info);
        let sizes = BufferSizes {
            commands: info.DmaBufferSize,
            private: info.DmaBufferPrivateDataSize,
            allocation_list: info.AllocationListSize,
            patches: info.PatchLocationListSize,
            // It is a property of a device, which is not queried for it.
            guaranteed: false,
        };
        Ok((slot.fill(driver_handle_from(name, args.hContext)), sizes))
    }

    /// Reads the client's memory once: the driver sees a copy.
    pub(crate) fn call_render(&self, rendering: &mut RenderArgs<'_>) -> DriverResult<()> {
        let call = self.table.DxgkDdiRender.ok_or(DriverError::NoEntryPoint)?;
        let door = self.adapter()?.door;
        let commands = rendering.commands.fetch(0..rendering.commands.len());
        let commands = commands.ok_or(DriverError::UserMemory)?;
        // WINDOWS: an address of the client, which the driver probes (documented).
        let user = UserMemory::copy(&commands);
        let mut commands = PrivateData::copy(&commands)?;
        let command = user.as_ref().map_or(commands.pointer(), UserMemory::pointer);
        let named = rendering
            .patch_locations
            .fetch(0..rendering.patch_locations.len())
            .ok_or(DriverError::UserMemory)?;
        let mut named = ShownList::new(named.iter().map(patch_location).collect());
        let list = rendering.allocation_list.iter().map(allocation_list_entry);
        let mut list = ShownList::new(list.collect());
        let most = rendering.max_patches as usize;
        let mut out = GuardedBuffer::list(most * ENTRY, door.next_fill().byte());
        let (address, size) = (rendering.address, rendering.buffer.len());
        let mut open = door.dma_buffers().open(address, size, rendering.private, true)?;
        open.commands.open(0, rendering.buffer);
        let (start, first) = (open.commands.pointer(), out.pointer());
        let mut args = DXGKARG_RENDER {
            pCommand: command,
            CommandLength: commands.size(),
            pDmaBuffer: start,
            DmaSize: count(rendering.buffer.len())?,
            pDmaBufferPrivateData: open.private.pointer(),
            DmaBufferPrivateDataSize: open.private.size(),
            pAllocationList: list.pointer(),
            AllocationListSize: count(list.len())?,
            pPatchLocationListIn: named.pointer(),
            PatchLocationListInSize: count(named.len())?,
            pPatchLocationListOut: first.cast(),
            PatchLocationListOutSize: rendering.max_patches,
            MultipassOffset: *rendering.multipass,
            DmaBufferPhysicalAddress: rendering.address.cast_signed(),
            ..DXGKARG_RENDER::ZERO
        };
        let room = args.DmaSize;

        let status = self.run_driver(&door, || {
            shown::in_out(&mut args, |args| {
                // SAFETY: By invariant 1 the function is valid, and the handle is the driver's own;
                // `args` and all it points to outlive the call, even if it unwinds.
                unsafe { call(pointer(rendering.context.as_raw()), args) }
            })
        });

        open.commands.read_back();
        out.read_back();
        let written = args.pDmaBuffer.addr().wrapping_sub(start.addr()).cast_signed();
        let far = args.pPatchLocationListOut.addr().wrapping_sub(first.addr()).cast_signed();
        let answer = result_from_status(status);
        if matches!(answer, Ok(()) | Err(DriverError::NoRoom)) {
            let changed = changed_length(rendering.buffer, open.commands.bytes());
            let text = (room, written, changed);
            judge_room(&door, text, &open.commands, (far, most), &out);
        }
        rendering.buffer.copy_from_slice(open.commands.bytes());
        rendering.private.copy_from_slice(&open.private.bytes());
        *rendering.multipass = args.MultipassOffset;
        // A driver that wrote too far has filled the buffer.
        rendering.written = u32::try_from(written.max(0)).unwrap_or(room).min(room);
        let entries = usize::try_from(far.max(0)).unwrap_or(0) / ENTRY;
        let entries = out.bytes().chunks_exact(ENTRY).take(entries.min(most));
        rendering.patches = entries.map(read_patch_location).collect();
        answer
    }

    pub(crate) fn call_patch(&self, patching: &mut PatchArgs<'_>) -> DriverResult<()> {
        let call = self.table.DxgkDdiPatch.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let list = patching.allocation_list.iter().map(allocation_list_entry);
        let mut list = ShownList::new(list.collect());
        let mut patches = ShownList::new(patching.patches.iter().map(patch_location).collect());
        let (address, size) = (patching.address, patching.buffer.len());
        let mut open = door.dma_buffers().open(address, size, patching.private, false)?;
        open.commands.open(0, patching.buffer);
        let paging = if patching.context.is_none() { PatchFlags::Paging } else { 0 };
        let null = if patching.null { PatchFlags::NullRendering } else { 0 };
        let list_at = |empty: bool, at: *mut DXGK_ALLOCATIONLIST| {
            if empty { std::ptr::null() } else { at.cast_const() }
        };
        let args = DXGKARG_PATCH {
            hContext: pointer(patching.context.map_or(0, DriverContext::as_raw)),
            DmaBufferPhysicalAddress: patching.address.cast_signed(),
            pDmaBuffer: open.commands.pointer(),
            DmaBufferSize: count(patching.buffer.len())?,
            DmaBufferSubmissionStartOffset: patching.submitted.start,
            DmaBufferSubmissionEndOffset: patching.submitted.end,
            pDmaBufferPrivateData: open.private.pointer(),
            DmaBufferPrivateDataSize: open.private.size(),
            DmaBufferPrivateDataSubmissionEndOffset: open.private.size(),
            // WINDOWS: paging work has no lists (documented).
            pAllocationList: list_at(patching.context.is_none(), list.pointer()),
            AllocationListSize: count(list.len())?,
            pPatchLocationList: if paging == 0 {
                patches.pointer().cast_const()
            } else {
                std::ptr::null()
            },
            PatchLocationListSize: count(patches.len())?,
            PatchLocationListSubmissionLength: count(patches.len())?,
            SubmissionFenceId: patching.fence.0,
            Flags: PatchFlags { Value: paging | null },
            ..DXGKARG_PATCH::ZERO
        };

        let status = self.run_driver(&door, || {
            shown::input(&args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args` and
                // all it points to outlive the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        open.commands.read_back();
        let broken = open.commands.overrun().map(|at| {
            let size = args.DmaBufferSize;
            format!("DmaBufferSize is {size}, but the driver wrote at byte {at} of the buffer")
        });
        judge(door.services(), RuleId::KMD_SUBMIT_002, "DxgkDdiPatch.pDmaBuffer", broken);
        patching.buffer.copy_from_slice(open.commands.bytes());
        patching.private.copy_from_slice(&open.private.bytes());
        result_from_status(status)
    }

    pub(crate) fn call_submit_command(&self, packet: &SubmitCommandArgs<'_>) -> DriverResult<()> {
        let call = self.table.DxgkDdiSubmitCommand.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let (address, size) = (packet.address, packet.size as usize);
        let mut open = door.dma_buffers().open(address, size, packet.private, false)?;
        let null = if packet.null { SubmitFlags::NullRendering } else { 0 };
        let args = DXGKARG_SUBMITCOMMAND {
            hContext: pointer(packet.context.as_raw()),
            DmaBufferPhysicalAddress: packet.address.cast_signed(),
            DmaBufferSize: packet.size,
            DmaBufferSubmissionStartOffset: packet.submitted.start,
            DmaBufferSubmissionEndOffset: packet.submitted.end,
            pDmaBufferPrivateData: open.private.pointer(),
            DmaBufferPrivateDataSize: open.private.size(),
            DmaBufferPrivateDataSubmissionEndOffset: open.private.size(),
            SubmissionFenceId: packet.fence.0,
            Flags: SubmitFlags { Value: null },
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

/// Entry rule: a driver writes no more than there is room for, and reports where it ended.
fn judge_room(
    door: &Door,
    (room, written, changed): (u32, isize, usize),
    sheet: &GuardedBuffer,
    (far, most): (isize, usize),
    out: &GuardedBuffer,
) {
    let ends = usize::try_from(written).ok().filter(|index| *index <= room as usize);
    let entries = usize::try_from(far).ok().filter(|index| index.is_multiple_of(ENTRY));
    let broken = if let Some(at) = sheet.overrun() {
        Some(format!("DmaSize is {room}, but the driver wrote at byte {at} of the buffer"))
    } else if let Some(at) = out.overrun() {
        Some(format!("there is room for {most} patch locations, but byte {at} was written"))
    } else if ends.is_none() {
        Some(format!("DmaSize is {room}, but pDmaBuffer went on by {written} bytes"))
    } else if ends.is_some_and(|index| index < changed) {
        Some(format!("the driver wrote {changed} bytes, but pDmaBuffer went on by {written}"))
    } else if entries.is_none_or(|index| index / ENTRY > most) {
        Some(format!("pPatchLocationListOut went on by {far} bytes, with room for {most} entries"))
    } else {
        None
    };
    judge(door.services(), RuleId::KMD_RENDER_003, "DxgkDdiRender.pDmaBuffer", broken);
}

/// The length up to the last byte that differs.
fn changed_length(before: &[u8], after: &[u8]) -> usize {
    before.iter().zip(after).rposition(|(one, two)| one != two).map_or(0, |last| last + 1)
}

/// WINDOWS: the address includes the segment's base (our reading; the page only documents that it
/// is in the segment).
fn allocation_list_entry(it: &AllocationListEntry) -> DXGK_ALLOCATIONLIST {
    DXGK_ALLOCATIONLIST {
        hDeviceSpecificAllocation: pointer(it.view_handle),
        Value: u32::from(it.write) | (it.segment & 31) << 1,
        PhysicalAddress: it.address.cast_signed(),
    }
}

fn patch_location(it: &PatchLocation) -> D3DDDI_PATCHLOCATIONLIST {
    D3DDDI_PATCHLOCATIONLIST {
        AllocationIndex: it.allocation_index,
        Value: it.slot_id & SLOT,
        DriverId: it.driver_id,
        AllocationOffset: it.allocation_offset,
        PatchOffset: it.patch_offset,
        SplitOffset: it.split_offset,
    }
}

fn read_patch_location(bytes: &[u8]) -> PatchLocation {
    let mut words = [0; ENTRY / 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_ne_bytes(*bytes);
    }
    let [allocation, value, driver, offset, place, split] = words;
    PatchLocation {
        allocation_index: allocation,
        slot_id: value & SLOT,
        driver_id: driver,
        allocation_offset: offset,
        patch_offset: place,
        split_offset: split,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_location_reads_back() {
        let it = PatchLocation {
            allocation_index: 1,
            slot_id: 2,
            driver_id: 3,
            allocation_offset: 4,
            patch_offset: 5,
            split_offset: 6,
        };
        let there = patch_location(&it);
        let words = [
            there.AllocationIndex,
            there.Value,
            there.DriverId,
            there.AllocationOffset,
            there.PatchOffset,
            there.SplitOffset,
        ];
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        assert_eq!(read_patch_location(&bytes), it);
    }

    #[test]
    fn a_listing_has_its_segment_above_the_write_bit() {
        let it =
            AllocationListEntry { view_handle: 0x1000, write: true, segment: 3, address: 0x20 };
        let there = allocation_list_entry(&it);
        assert_eq!((there.write_operation(), there.segment_id()), (true, 3));
        assert_eq!((there.hDeviceSpecificAllocation.addr(), there.PhysicalAddress), (0x1000, 0x20));
    }
}
