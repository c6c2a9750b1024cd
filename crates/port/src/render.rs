//! Packets with lists: contexts that patch, `DxgkDdiRender`, `DxgkDdiPatch`, and
//! `DxgkDdiSubmitCommand` with a context.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::context::{given, kernel_name};
use crate::display::{Adapter, TableDriver};
use crate::door::Door;
use crate::private::{Private, count, pointer};
use crate::query::judge;
use crate::sheet::Sheet;
use crate::status::answer;
use abi::display::{
    DXGK_ALLOCATIONLIST, DXGK_PATCHFLAGS as PatchFlags, DXGK_SUBMITCOMMANDFLAGS as SubmitFlags,
    DXGKARG_CREATECONTEXT, DXGKARG_PATCH, DXGKARG_RENDER, DXGKARG_SUBMITCOMMAND,
};
use abi::ukm::D3DDDI_PATCHLOCATIONLIST;
use flight::RuleId;
use kernel::context::Context;
use kernel::listed::{BufferSizes, ListedSubmission, Listing, PatchLocation, Patching, Rendering};
use kernel::miniport::{Answer, Blank, ContextOrder, DriverContext, DriverDevice, Refusal};

/// `SlotId` of a patch location.
const SLOT: u32 = 0xff_ffff;
const ENTRY: usize = size_of::<D3DDDI_PATCHLOCATIONLIST>();

impl TableDriver {
    pub(crate) fn new_listed_context(
        &self,
        device: &DriverDevice,
        order: &ContextOrder,
        word: Blank<'_, Context>,
    ) -> Answer<(DriverContext, BufferSizes)> {
        let call = self.table.DxgkDdiCreateContext.ok_or(Refusal::Absent)?;
        let door = self.adapter()?.door;
        let mut private = Private::copy(&order.private)?;
        let name = kernel_name(&word); // In and out, as that of a device.
        let mut args = DXGKARG_CREATECONTEXT {
            hContext: name,
            NodeOrdinal: order.node,
            EngineAffinity: order.engine,
            pPrivateDriverData: private.pointer(),
            PrivateDriverDataSize: private.size(),
            ..DXGKARG_CREATECONTEXT::ZERO
        };

        let status = self.inside(&door, || {
            // SAFETY: By invariant 1 the function is there, and the word is the driver's own;
            // `args` and `private` outlive the call, also one that unwinds.
            unsafe { call(pointer(device.word()), &raw mut args) }
        });

        answer(status)?;
        let info = args.ContextInfo;
        let sizes = BufferSizes {
            commands: info.DmaBufferSize,
            private: info.DmaBufferPrivateDataSize,
            list: info.AllocationListSize,
            patches: info.PatchLocationListSize,
            // It is said of a device, which is not asked for it.
            guaranteed: false,
        };
        Ok((word.fill(given(name, args.hContext)), sizes))
    }

    /// The client's memory is read once, here: the driver sees a copy.
    pub(crate) fn translate(&self, rendering: &mut Rendering<'_>) -> Answer<()> {
        let call = self.table.DxgkDdiRender.ok_or(Refusal::Absent)?;
        let door = self.adapter()?.door;
        let commands = rendering.commands.fetch(0..rendering.commands.len());
        let mut commands = Private::copy(&commands.ok_or(Refusal::UserMemory)?)?;
        let named = rendering.named.fetch(0..rendering.named.len()).ok_or(Refusal::UserMemory)?;
        let mut named: Vec<_> = named.iter().map(location).collect();
        let mut list: Vec<_> = rendering.list.iter().map(listing).collect();
        let most = rendering.most_patches as usize;
        let mut out = Sheet::copy(&vec![0; most * ENTRY], 0);
        let mut sheet = Sheet::copy(rendering.buffer, 0);
        let mut private = Private::copy(rendering.private)?;
        let (start, first) = (sheet.pointer(), out.pointer());
        let mut args = DXGKARG_RENDER {
            pCommand: commands.pointer(),
            CommandLength: commands.size(),
            pDmaBuffer: start,
            DmaSize: count(rendering.buffer.len())?,
            pDmaBufferPrivateData: private.pointer(),
            DmaBufferPrivateDataSize: private.size(),
            pAllocationList: list.as_mut_ptr(),
            AllocationListSize: count(list.len())?,
            pPatchLocationListIn: named.as_mut_ptr(),
            PatchLocationListInSize: count(named.len())?,
            pPatchLocationListOut: first.cast(),
            PatchLocationListOutSize: rendering.most_patches,
            MultipassOffset: *rendering.multipass,
            DmaBufferPhysicalAddress: rendering.address.cast_signed(),
            ..DXGKARG_RENDER::ZERO
        };
        let room = args.DmaSize;

        let status = self.inside(&door, || {
            // SAFETY: By invariant 1 the function is there, and the word is the driver's own;
            // `args` and all it points to outlive the call, also one that unwinds.
            unsafe { call(pointer(rendering.context.word()), &raw mut args) }
        });

        let written = args.pDmaBuffer.addr().wrapping_sub(start.addr()).cast_signed();
        let far = args.pPatchLocationListOut.addr().wrapping_sub(first.addr()).cast_signed();
        let answer = answer(status);
        if matches!(answer, Ok(()) | Err(Refusal::NoRoom)) {
            let changed = changed(rendering.buffer, sheet.bytes());
            let said = (room, written, changed);
            judge_room(&door, said, &sheet, (far, most), &out);
        }
        rendering.buffer.copy_from_slice(sheet.bytes());
        rendering.private.copy_from_slice(&private.bytes());
        *rendering.multipass = args.MultipassOffset;
        // One that went too far filled it.
        rendering.written = u32::try_from(written.max(0)).unwrap_or(room).min(room);
        let entries = usize::try_from(far.max(0)).unwrap_or(0) / ENTRY;
        let entries = out.bytes().chunks_exact(ENTRY).take(entries.min(most));
        rendering.patches = entries.map(read_location).collect();
        answer
    }

    pub(crate) fn write_addresses(&self, patching: &mut Patching<'_>) -> Answer<()> {
        let call = self.table.DxgkDdiPatch.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let list: Vec<_> = patching.list.iter().map(listing).collect();
        let patches: Vec<_> = patching.patches.iter().map(location).collect();
        let mut sheet = Sheet::copy(patching.buffer, 0);
        let mut private = Private::copy(patching.private)?;
        let paging = if patching.context.is_none() { PatchFlags::Paging } else { 0 };
        let null = if patching.null { PatchFlags::NullRendering } else { 0 };
        let list_at = |empty: bool, at: *const DXGK_ALLOCATIONLIST| {
            if empty { std::ptr::null() } else { at }
        };
        let args = DXGKARG_PATCH {
            hContext: pointer(patching.context.map_or(0, DriverContext::word)),
            DmaBufferPhysicalAddress: patching.address.cast_signed(),
            pDmaBuffer: sheet.pointer(),
            DmaBufferSize: count(patching.buffer.len())?,
            DmaBufferSubmissionStartOffset: patching.submitted.start,
            DmaBufferSubmissionEndOffset: patching.submitted.end,
            pDmaBufferPrivateData: private.pointer(),
            DmaBufferPrivateDataSize: private.size(),
            DmaBufferPrivateDataSubmissionEndOffset: private.size(),
            // WINDOWS: paging work has no lists (documented).
            pAllocationList: list_at(patching.context.is_none(), list.as_ptr()),
            AllocationListSize: count(list.len())?,
            pPatchLocationList: if paging == 0 { patches.as_ptr() } else { std::ptr::null() },
            PatchLocationListSize: count(patches.len())?,
            PatchLocationListSubmissionLength: count(patches.len())?,
            SubmissionFenceId: patching.fence.0,
            Flags: PatchFlags { Value: paging | null },
            ..DXGKARG_PATCH::ZERO
        };

        let status = self.inside(&door, || {
            // SAFETY: By invariants 1 and 2 the function is there and knows `context`; `args` and
            // all it points to outlive the call, also one that unwinds.
            unsafe { call(pointer(context), &raw const args) }
        });

        let broken = sheet.outside().map(|at| {
            let size = args.DmaBufferSize;
            format!("DmaBufferSize is {size}, but the driver wrote at byte {at} of the buffer")
        });
        judge(door.services(), RuleId::KMD_SUBMIT_002, "DxgkDdiPatch.pDmaBuffer", broken);
        patching.buffer.copy_from_slice(sheet.bytes());
        patching.private.copy_from_slice(&private.bytes());
        answer(status)
    }

    pub(crate) fn give_listed(&self, packet: &ListedSubmission<'_>) -> Answer<()> {
        let call = self.table.DxgkDdiSubmitCommand.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let mut private = Private::copy(packet.private)?;
        let null = if packet.null { SubmitFlags::NullRendering } else { 0 };
        let args = DXGKARG_SUBMITCOMMAND {
            hContext: pointer(packet.context.word()),
            DmaBufferPhysicalAddress: packet.address.cast_signed(),
            DmaBufferSize: packet.size,
            DmaBufferSubmissionStartOffset: packet.submitted.start,
            DmaBufferSubmissionEndOffset: packet.submitted.end,
            pDmaBufferPrivateData: private.pointer(),
            DmaBufferPrivateDataSize: private.size(),
            DmaBufferPrivateDataSubmissionEndOffset: private.size(),
            SubmissionFenceId: packet.fence.0,
            Flags: SubmitFlags { Value: null },
            NodeOrdinal: packet.node,
            ..DXGKARG_SUBMITCOMMAND::ZERO
        };

        let status = self.inside(&door, || {
            // SAFETY: By invariants 1 and 2 the function is there and knows `context`; `args`
            // and `private` outlive the call, also one that unwinds.
            unsafe { call(pointer(context), &raw const args) }
        });

        answer(status)
    }
}

/// Entry rule: a driver writes no more than there is room for, and says where it ended.
fn judge_room(
    door: &Door,
    (room, written, changed): (u32, isize, usize),
    sheet: &Sheet,
    (far, most): (isize, usize),
    out: &Sheet,
) {
    let ends = usize::try_from(written).ok().filter(|it| *it <= room as usize);
    let entries = usize::try_from(far).ok().filter(|it| it.is_multiple_of(ENTRY));
    let broken = if let Some(at) = sheet.outside() {
        Some(format!("DmaSize is {room}, but the driver wrote at byte {at} of the buffer"))
    } else if let Some(at) = out.outside() {
        Some(format!("there is room for {most} patch locations, but byte {at} was written"))
    } else if ends.is_none() {
        Some(format!("DmaSize is {room}, but pDmaBuffer went on by {written} bytes"))
    } else if ends.is_some_and(|it| it < changed) {
        Some(format!("the driver wrote {changed} bytes, but pDmaBuffer went on by {written}"))
    } else if entries.is_none_or(|it| it / ENTRY > most) {
        Some(format!("pPatchLocationListOut went on by {far} bytes, with room for {most} entries"))
    } else {
        None
    };
    judge(door.services(), RuleId::KMD_RENDER_003, "DxgkDdiRender.pDmaBuffer", broken);
}

/// Up to where bytes are others than before.
fn changed(before: &[u8], after: &[u8]) -> usize {
    before.iter().zip(after).rposition(|(one, two)| one != two).map_or(0, |last| last + 1)
}

/// WINDOWS: the address counts the segment's base (our reading; the page says only that it is in
/// the segment).
fn listing(it: &Listing) -> DXGK_ALLOCATIONLIST {
    DXGK_ALLOCATIONLIST {
        hDeviceSpecificAllocation: pointer(it.view),
        Value: u32::from(it.write) | (it.segment & 31) << 1,
        PhysicalAddress: it.address.cast_signed(),
    }
}

fn location(it: &PatchLocation) -> D3DDDI_PATCHLOCATIONLIST {
    D3DDDI_PATCHLOCATIONLIST {
        AllocationIndex: it.allocation,
        Value: it.slot & SLOT,
        DriverId: it.driver,
        AllocationOffset: it.offset,
        PatchOffset: it.place,
        SplitOffset: it.split,
    }
}

fn read_location(bytes: &[u8]) -> PatchLocation {
    let mut words = [0; ENTRY / 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_ne_bytes(*bytes);
    }
    let [allocation, value, driver, offset, place, split] = words;
    PatchLocation { allocation, slot: value & SLOT, driver, offset, place, split }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_location_reads_back() {
        let it = PatchLocation { allocation: 1, slot: 2, driver: 3, offset: 4, place: 5, split: 6 };
        let there = location(&it);
        let words = [
            there.AllocationIndex,
            there.Value,
            there.DriverId,
            there.AllocationOffset,
            there.PatchOffset,
            there.SplitOffset,
        ];
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        assert_eq!(read_location(&bytes), it);
    }

    #[test]
    fn a_listing_has_its_segment_above_the_write_bit() {
        let it = Listing { view: 0x1000, write: true, segment: 3, address: 0x20 };
        let there = listing(&it);
        assert_eq!((there.write_operation(), there.segment_id()), (true, 3));
        assert_eq!((there.hDeviceSpecificAllocation.addr(), there.PhysicalAddress), (0x1000, 0x20));
    }
}
