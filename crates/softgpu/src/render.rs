//! The driver's WDDM 1.x part: packets list the allocations they use, and are patched.
//!
//! The client's commands are those of [`super::format`]; they name allocations by handle, or by
//! index into the packet's list. The hardware's commands are its paging commands, which only a
//! driver may write: a client's packet that contains one ([`super::format::raw_fill`]) is refused.

use crate::blocks::build;
use crate::controller::Address;
use crate::driver::SoftGpu;
use crate::engine::Stream;
use crate::format::{self, Command};
use crate::gpu::NODES;
use crate::paging::PagingCommand;
use flight::Passive;
use kernel::context::Context;
use kernel::handle_table::Handle;
use kernel::miniport::{
    CreateContextArgs, DriverContext, DriverDevice, DriverError, DriverResult, HandleSlot,
};
use kernel::render_args::{
    AllocationListEntry, BufferSizes, PatchArgs, PatchLocation, RenderArgs, SubmitCommandArgs,
};
use std::ops::Range;

/// The buffer sizes of its contexts.
pub(crate) const SIZES: BufferSizes =
    BufferSizes { commands: 1024, private: 0, allocation_list: 16, patches: 32, guaranteed: false };

/// The offsets of the first and the second address in a hardware command.
const FIRST: u32 = 8;
const SECOND: u32 = 16;

/// Writes hardware commands into a buffer.
#[derive(Debug)]
pub struct RenderOutput<'a> {
    /// The buffer.
    pub buffer: &'a mut [u8],
    /// How much of the buffer is written.
    pub written: &'a mut u32,
    /// The patch locations: where addresses are in the buffer.
    pub patches: &'a mut Vec<PatchLocation>,
    /// The maximum number of patch locations.
    pub max_patches: u32,
    /// How many commands are written, in this buffer and the previous ones.
    pub multipass: &'a mut u32,
}

/// A hardware command and its addresses: offset in the command, allocation, offset in the
/// allocation.
struct EncodedCommand {
    bytes: Vec<u8>,
    addresses: Vec<(u32, u32, u32)>,
}

impl SoftGpu {
    /// Creates a context with a save area, whose packets have lists.
    pub(crate) fn new_context_with_lists(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        driver_handle: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, BufferSizes)> {
        let sizes = self.lists.ok_or(DriverError::NoEntryPoint)?;
        if !self.accepts_context(device, args) {
            return Err(DriverError::Invalid);
        }
        let callbacks = self.callbacks()?;
        build(&**callbacks.pool(), |blocks| {
            let block = blocks.allocate()?;
            let owner = (device.as_raw(), driver_handle.kernel_handle());
            let area = self.make_area(at, &callbacks, blocks, owner)?;
            self.state().records.add_context(block, device.as_raw(), area);
            Ok((driver_handle.fill(block), sizes))
        })
    }

    /// Writes the hardware's commands. All of the client's commands are read once and checked as
    /// read.
    pub(crate) fn translate_commands(&self, args: &mut RenderArgs<'_>) -> DriverResult<()> {
        self.lists.ok_or(DriverError::NoEntryPoint)?;
        let bytes = args.commands.fetch(0..args.commands.len());
        let mut writing = RenderOutput {
            buffer: args.buffer,
            written: &mut args.written,
            patches: &mut args.patches,
            max_patches: args.max_patches,
            multipass: args.multipass,
        };
        let context = args.context.as_raw();
        let list = args.allocation_list;
        let find = |handle| match format::list_index(handle) {
            Some(place) => {
                let view = list.get(place).ok_or(DriverError::Invalid)?.view_handle;
                Ok((view, self.state().records.size_of(view)?))
            }
            None => self.state().records.view_of(context, handle),
        };
        translate(&bytes.ok_or(DriverError::UserMemory)?, args.allocation_list, &mut writing, find)
    }

    /// Patches addresses into the buffer; may be called several times. Paging commands already have
    /// theirs.
    pub(crate) fn patch_commands(&self, args: &mut PatchArgs<'_>) -> DriverResult<()> {
        self.lists.ok_or(DriverError::NoEntryPoint)?;
        patch(args.buffer, args.allocation_list, args.patches, &args.submitted);
        Ok(())
    }

    pub(crate) fn push_patched(&self, packet: &SubmitCommandArgs<'_>) -> DriverResult<()> {
        self.lists.ok_or(DriverError::NoEntryPoint)?;
        let saving = self.state().records.save_target(packet.context.as_raw());
        let (context, area) = saving.filter(|_| packet.node < NODES).ok_or(DriverError::Invalid)?;
        let length = packet.submitted.end.saturating_sub(packet.submitted.start);
        self.gpu.push_stream(Stream {
            node: packet.node,
            fence: packet.fence,
            context,
            area,
            commands: packet.address + u64::from(packet.submitted.start),
            length: if packet.null { 0 } else { length },
            hung: false,
        });
        Ok(())
    }
}

/// Translates a client's commands to hardware commands, as far as there is room. `find` returns the
/// view behind a client's handle, and its size in bytes.
pub fn translate(
    bytes: &[u8],
    list: &[AllocationListEntry],
    writing: &mut RenderOutput<'_>,
    mut find: impl FnMut(Handle) -> DriverResult<(usize, u64)>,
) -> DriverResult<()> {
    let commands = format::decode_stream(bytes)?;
    let all = commands
        .iter()
        .map(|command| write(list, command, &mut find))
        .collect::<DriverResult<Vec<_>>>()?;
    let done = usize::try_from(*writing.multipass).unwrap_or(usize::MAX);
    for EncodedCommand { bytes, addresses } in all.into_iter().skip(done) {
        let start = *writing.written as usize;
        let fits = writing.patches.len() + addresses.len() <= writing.max_patches as usize;
        let room = writing.buffer.get_mut(start..start + bytes.len()).filter(|_| fits);
        room.ok_or(DriverError::NoRoom)?.copy_from_slice(&bytes);
        let split = *writing.written;
        let locations = addresses.into_iter().map(|(place, allocation, offset)| {
            let place = split + place;
            PatchLocation {
                allocation_index: allocation,
                allocation_offset: offset,
                patch_offset: place,
                split_offset: split,
                ..PatchLocation::default()
            }
        });
        writing.patches.extend(locations);
        *writing.written += u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        *writing.multipass += 1;
    }
    Ok(())
}

/// One command, with the addresses that are known already.
fn write(
    list: &[AllocationListEntry],
    command: &Command,
    view: &mut impl FnMut(Handle) -> DriverResult<(usize, u64)>,
) -> DriverResult<EncodedCommand> {
    let mut addresses = Vec::new();
    let mut find = |place: u32, handle: Handle, offset: u64, length: u64| {
        let (view, size) = view(handle)?;
        let inside = offset.checked_add(length).is_some_and(|end| end <= size);
        let named = || list.iter().position(|entry| entry.view_handle == view);
        let index = format::list_index(handle).or_else(named).filter(|_| inside);
        let index = index.ok_or(DriverError::Invalid)?;
        let far = u32::try_from(offset).map_err(|_| DriverError::Invalid)?;
        addresses.push((place, u32::try_from(index).unwrap_or(u32::MAX), far));
        let it = list.get(index).copied().unwrap_or_default();
        Ok(Address::Local(if it.segment == 0 { 0 } else { it.address.saturating_add(offset) }))
    };
    let written = match *command {
        Command::Hang => PagingCommand::Hang,
        Command::Fill { target, offset, length, value } => PagingCommand::Fill {
            to: find(FIRST, target, offset, length)?,
            bytes: length,
            pattern: u32::from_le_bytes([value; 4]),
        },
        Command::Copy { from, from_offset, to, to_offset, length } => PagingCommand::Copy {
            from: find(FIRST, from, from_offset, length)?,
            to: find(SECOND, to, to_offset, length)?,
            bytes: length,
        },
        // A listed allocation has no virtual address.
        Command::FillAt { .. } | Command::CopyAt { .. } => return Err(DriverError::Illegal),
    };
    Ok(EncodedCommand { bytes: written.encode(), addresses })
}

/// Writes the allocations' addresses into the submitted part of a buffer.
pub fn patch(
    buffer: &mut [u8],
    list: &[AllocationListEntry],
    patches: &[PatchLocation],
    submitted: &Range<u32>,
) {
    for it in
        patches.iter().filter(|patch_location| submitted.contains(&patch_location.patch_offset))
    {
        let Some(listing) = list.get(it.allocation_index as usize) else { continue };
        let place = it.patch_offset as usize;
        let address = listing.address.saturating_add(u64::from(it.allocation_offset));
        if let Some(driver_handle) = buffer.get_mut(place..place + 8) {
            driver_handle.copy_from_slice(&address.to_le_bytes());
        }
    }
}
