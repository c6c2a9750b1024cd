//! What the driver does as one of WDDM 1.x: packets name what they use, and are patched.
//!
//! The client's commands are those of [`super::format`]; they name allocations by handle, or by
//! their place in the packet's list. The
//! hardware's are its paging commands, which only a driver may write: a client that has some of
//! its own ([`super::format::raw_fill`]) is refused.

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

/// How large the buffers of its contexts are.
pub(crate) const SIZES: BufferSizes =
    BufferSizes { commands: 1024, private: 0, allocation_list: 16, patches: 32, guaranteed: false };

/// Where the first address is in a command of the hardware's, and where the second.
const FIRST: u32 = 8;
const SECOND: u32 = 16;

/// Where commands for the hardware go, and how far they came.
#[derive(Debug)]
pub struct RenderOutput<'a> {
    /// The buffer.
    pub buffer: &'a mut [u8],
    /// How much of it is written.
    pub written: &'a mut u32,
    /// Where addresses are in it.
    pub patches: &'a mut Vec<PatchLocation>,
    /// How many those may be.
    pub max_patches: u32,
    /// How many commands are written, into this buffer and those before it.
    pub multipass: &'a mut u32,
}

/// A command of the hardware's, with the addresses in it: where, of what, how far into it.
struct EncodedCommand {
    bytes: Vec<u8>,
    addresses: Vec<(u32, u32, u32)>,
}

impl SoftGpu {
    /// Makes a context, with a save area, whose packets have lists.
    pub(crate) fn new_context_with_lists(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        insertion_order: &CreateContextArgs,
        driver_handle: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, BufferSizes)> {
        let sizes = self.lists.ok_or(DriverError::Absent)?;
        if !self.accepts_context(device, insertion_order) {
            return Err(DriverError::Invalid);
        }
        let callbacks = self.callbacks()?;
        build(&**callbacks.pool(), |blocks| {
            let block = blocks.allocate()?;
            let views_by_handle = (device.word(), driver_handle.kernel_name());
            let area = self.make_area(at, &callbacks, blocks, views_by_handle)?;
            self.state().records.add_context(block, device.word(), area);
            Ok((driver_handle.fill(block), sizes))
        })
    }

    /// Writes the hardware's commands. All of the client's are read once, and checked as they
    /// were then.
    pub(crate) fn translate_commands(&self, args: &mut RenderArgs<'_>) -> DriverResult<()> {
        self.lists.ok_or(DriverError::Absent)?;
        let bytes = args.commands.fetch(0..args.commands.len());
        let mut writing = RenderOutput {
            buffer: args.buffer,
            written: &mut args.written,
            patches: &mut args.patches,
            max_patches: args.max_patches,
            multipass: args.multipass,
        };
        let context = args.context.word();
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

    /// Writes where things are, as often as it is asked. Paging commands have their addresses.
    pub(crate) fn patch_commands(&self, args: &mut PatchArgs<'_>) -> DriverResult<()> {
        self.lists.ok_or(DriverError::Absent)?;
        patch(args.buffer, args.allocation_list, args.patches, &args.submitted);
        Ok(())
    }

    pub(crate) fn push_patched(&self, packet: &SubmitCommandArgs<'_>) -> DriverResult<()> {
        self.lists.ok_or(DriverError::Absent)?;
        let saving = self.state().records.save_target(packet.context.word());
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

/// Writes the hardware's commands in place of a client's, as far as there is room. `find` finds
/// the view that a client's handle means, and how many bytes it shows.
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
        // What is listed has no virtual address.
        Command::FillAt { .. } | Command::CopyAt { .. } => return Err(DriverError::Illegal),
    };
    Ok(EncodedCommand { bytes: written.encode(), addresses })
}

/// Writes where things are into the submitted part of a buffer.
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
