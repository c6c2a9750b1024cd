//! Translates paging operations into the hardware's commands.
//!
//! # Invariants
//!
//! 1. A command is written completely or not at all, wherever the buffer begins.
//! 2. `multipass` counts what was written so far: pages of a move or of a mapping, bytes of an
//!    update, entries of a table, parts of a virtual range. An operation that is one command is
//!    written with its last buffer.

use crate::controller::Address;
use crate::mmu::{ENTRY_SIZE, encode_entry};
use crate::paging::{MAX_WRITE, PagingCommand, WRITE_HEAD};
use crate::plan::PAGE;
use crate::save_area::{AREA_SIZE, Registers, SAVED_AT};
use flight::{Run, TableRoot};
use kernel::miniport::{DriverError, DriverResult};
use kernel::mmu::{EntryCopy, TableAddress, TableUpdate};
use kernel::operation::{BuildPagingBufferArgs, Operation, Pages, Transfer, TransferEnd};

/// The maximum number of entries that one command writes, and the size of one entry.
const MAX_ENTRIES: usize = MAX_WRITE / ENTRY_BYTES;
const ENTRY_BYTES: usize = 8;

/// How many bytes at virtual addresses one command moves.
const TRANSFER_PART: u64 = 16 << 20;

/// How many adjacent pieces are merged at most.
const MAX_JOINED: usize = 64;

/// Writes the commands of an operation, or as many as the buffer has room for.
pub fn build_paging_buffer(args: &mut BuildPagingBufferArgs<'_>) -> DriverResult<()> {
    build_paging_buffer_in(args, None)
}

/// The same, for a driver that knows the root of the system's own address space.
pub fn build_paging_buffer_in(
    args: &mut BuildPagingBufferArgs<'_>,
    system: Option<TableRoot>,
) -> DriverResult<()> {
    let done = u64::from(*args.multipass);
    let mut writer = Writer { room: args.buffer, written: 0, done, system };
    let all = writer.operation(&args.operation);
    args.written = u32::try_from(writer.written).unwrap_or(u32::MAX);
    *args.multipass = u32::try_from(writer.done).unwrap_or(u32::MAX);
    all.ok_or(DriverError::NoRoom)
}

struct Writer<'a> {
    room: &'a mut [u8],
    written: usize,
    /// What `multipass` counts.
    done: u64,
    /// The address space of virtual addresses; the engine is set to it before the first use.
    system: Option<TableRoot>,
}

impl Writer<'_> {
    /// Writes the remaining commands. Returns `None` if the buffer is full.
    fn operation(&mut self, operation: &Operation<'_>) -> Option<()> {
        match *operation {
            Operation::Transfer(ref it) => self.transfer(it),
            Operation::Fill { address, bytes, pattern, .. } => {
                self.put(&PagingCommand::Fill { to: Address::Local(address), bytes, pattern })
            }
            Operation::MapAperture { page, pages, .. } => self.map(page, pages),
            Operation::UnmapAperture { page, pages, dummy, .. } => {
                self.put(&PagingCommand::Unmap { page, count: pages, dummy })
            }
            Operation::InitContext { location: place, bytes, .. } => self.init(place, bytes),
            Operation::UpdateContext { location: place, private, .. } => {
                self.update(place, private)
            }
            // A discard and a residency notification move no bytes.
            Operation::Discard { .. } | Operation::Notify { .. } => Some(()),
            Operation::UpdateTable(ref it) => self.entries(it),
            Operation::FlushTlb { root, start, end, .. } => {
                // For the kernel a range of zero from zero is everything; the hardware takes the
                // range literally.
                let end = if (start, end) == (0, 0) { u64::MAX } else { end };
                self.put(&PagingCommand::Flush { root, start, end })
            }
            Operation::CopyEntries(copies) => self.copies(copies),
            Operation::VirtualTransfer { from, to, bytes, .. } => {
                self.in_parts(bytes, |at, bytes| PagingCommand::Copy {
                    from: Address::Virtual(from.saturating_add(at)),
                    to: Address::Virtual(to.saturating_add(at)),
                    bytes,
                })
            }
            Operation::VirtualFill { address, bytes, pattern, .. } => {
                self.in_parts(bytes, |at, bytes| PagingCommand::Fill {
                    to: Address::Virtual(address.saturating_add(at)),
                    bytes,
                    pattern,
                })
            }
        }
    }

    fn transfer(&mut self, it: &Transfer<'_>) -> Option<()> {
        let before = (self.done * PAGE).min(it.bytes);
        let mut from = Cursor::new(it.from, it.offset);
        let mut to = Cursor::new(it.to, it.offset);
        from.skip(before);
        to.skip(before);
        let mut left = it.bytes - before;
        while left > 0 {
            let bytes = left.min(from.contiguous_bytes()).min(to.contiguous_bytes());
            self.put(&PagingCommand::Copy { from: from.side(), to: to.side(), bytes })?;
            from.skip(bytes);
            to.skip(bytes);
            left -= bytes;
            self.done += bytes.div_ceil(PAGE);
        }
        Some(())
    }

    fn map(&mut self, page: u64, pages: Pages<'_>) -> Option<()> {
        let mut cursor = Cursor::pages(pages);
        cursor.skip(self.done * PAGE);
        while self.done < pages.count {
            let count = (pages.count - self.done).min(cursor.contiguous_bytes() / PAGE);
            let start = match cursor.side() {
                Address::Local(it) | Address::System(it) | Address::Virtual(it) => it,
            };
            self.put(&PagingCommand::Map { page: page.saturating_add(self.done), start, count })?;
            cursor.skip(count * PAGE);
            self.done += count;
        }
        Some(())
    }

    /// Zeroes, and the registers of a context that has done nothing.
    fn init(&mut self, place: TransferEnd<'_>, bytes: u64) -> Option<()> {
        let pages = bytes.div_ceil(PAGE);
        let mut cursor = Cursor::new(place, 0);
        cursor.skip(self.done * PAGE);
        while self.done < pages {
            let left = bytes - self.done * PAGE;
            let now = left.min(cursor.contiguous_bytes());
            self.put(&PagingCommand::Fill { to: cursor.side(), bytes: now, pattern: 0 })?;
            cursor.skip(now);
            self.done += now.div_ceil(PAGE);
        }
        if bytes < AREA_SIZE {
            return Some(());
        }
        let mut cursor = Cursor::new(place, 0);
        cursor.skip(SAVED_AT);
        let image = Registers::default().encode();
        self.put(&PagingCommand::Write { to: cursor.side(), bytes: &image })
    }

    /// The driver's bytes, at the start of the save area. Bytes that do not fit before the
    /// registers are not written.
    fn update(&mut self, place: TransferEnd<'_>, private: &[u8]) -> Option<()> {
        let most = private.len().min(usize::try_from(SAVED_AT).unwrap_or(0));
        let mut at = usize::try_from(self.done).unwrap_or(most);
        while at < most {
            let mut cursor = Cursor::new(place, 0);
            cursor.skip(at as u64);
            let room = self.room.len().saturating_sub(self.written + WRITE_HEAD);
            let length = (most - at).min(room).min(MAX_WRITE);
            let bytes = private.get(at..at + length).filter(|bytes| !bytes.is_empty())?;
            self.put(&PagingCommand::Write { to: cursor.side(), bytes })?;
            at += length;
            self.done = at as u64;
        }
        Some(())
    }

    /// Entries of a table. Those that the CPU writes are written already.
    fn entries(&mut self, it: &TableUpdate<'_>) -> Option<()> {
        let start = match it.table {
            TableAddress::Cpu(_) => return Some(()),
            TableAddress::Virtual(address) => Address::Virtual(address),
            TableAddress::Physical(_, address) => Address::Local(address),
        };
        self.write_root_for(start)?;
        let place = |index: u64| {
            let offset = (u64::from(it.first) + index).saturating_mul(ENTRY_SIZE);
            start.offset_by(offset)
        };
        if it.repeat {
            let driver_handle = it.entries.first().map_or(0, encode_entry);
            while self.done < u64::from(it.count) {
                let count = (u64::from(it.count) - self.done).min(MAX_ENTRIES as u64);
                let to = place(self.done);
                let count = u32::try_from(count).ok()?;
                self.put(&PagingCommand::Repeat { to, driver_handle, count })?;
                self.done += u64::from(count);
            }
            return Some(());
        }
        let count = usize::try_from(it.count).unwrap_or(usize::MAX);
        let all = it.entries.get(..count).unwrap_or(it.entries);
        let mut at = usize::try_from(self.done).unwrap_or(all.len());
        while at < all.len() {
            let room = self.room.len().saturating_sub(self.written + WRITE_HEAD);
            let most = (room / ENTRY_BYTES).min(MAX_ENTRIES);
            let now = all
                .get(at..(at + most).min(all.len()))
                .filter(|page_table_entries| !page_table_entries.is_empty())?;
            let bytes: Vec<u8> = now
                .iter()
                .flat_map(|page_table_entry| encode_entry(page_table_entry).to_le_bytes())
                .collect();
            self.put(&PagingCommand::Write { to: place(at as u64), bytes: &bytes })?;
            at += now.len();
            self.done = at as u64;
        }
        Some(())
    }

    fn copies(&mut self, copies: &[EntryCopy]) -> Option<()> {
        self.write_root_for(Address::Virtual(0))?;
        let done = usize::try_from(self.done).unwrap_or(copies.len());
        for it in copies.iter().skip(done) {
            let end = |(table, first): (u64, u32)| {
                Address::Virtual(table.saturating_add(u64::from(first) * ENTRY_SIZE))
            };
            let bytes = u64::from(it.count) * ENTRY_SIZE;
            self.put(&PagingCommand::Copy { from: end(it.from), to: end(it.to), bytes })?;
            self.done += 1;
        }
        Some(())
    }

    /// An operation at virtual addresses, part by part.
    fn in_parts<'c>(
        &mut self,
        bytes: u64,
        command: impl Fn(u64, u64) -> PagingCommand<'c>,
    ) -> Option<()> {
        self.write_root_for(Address::Virtual(0))?;
        let parts = bytes.div_ceil(TRANSFER_PART);
        while self.done < parts {
            let at = self.done * TRANSFER_PART;
            self.put(&command(at, (bytes - at).min(TRANSFER_PART)))?;
            self.done += 1;
        }
        Some(())
    }

    /// Sets the address space, if this is a virtual address.
    fn write_root_for(&mut self, side: Address) -> Option<()> {
        match (side, self.system) {
            (Address::Virtual(_), Some(root)) => self.put(&PagingCommand::Root(root)),
            _ => Some(()),
        }
    }

    fn put(&mut self, command: &PagingCommand<'_>) -> Option<()> {
        let bytes = command.encode();
        let room = self.room.get_mut(self.written..)?.get_mut(..bytes.len())?;
        room.copy_from_slice(&bytes);
        self.written += bytes.len();
        Some(())
    }
}

/// A position among bytes that are in several pieces.
struct Cursor<'a> {
    /// The remaining pieces of system memory; `None` for a segment.
    runs: Option<&'a [Run]>,
    /// The offset in the first piece; in a segment, the address.
    at: u64,
}

impl<'a> Cursor<'a> {
    /// Where the bytes of a move begin at one end: in a segment at an offset from the allocation's
    /// address, in system memory at the first page of the operation.
    fn new(end: TransferEnd<'a>, offset: u64) -> Self {
        match end {
            TransferEnd::Segment { address, .. } => {
                Self { runs: None, at: address.saturating_add(offset) }
            }
            TransferEnd::System(pages) => Self::pages(pages),
        }
    }

    fn pages(pages: Pages<'a>) -> Self {
        let mut cursor = Self { runs: Some(pages.runs), at: 0 };
        cursor.skip(pages.first.saturating_mul(PAGE));
        cursor
    }

    /// The address. There is none behind the last piece: the hardware reports the fault.
    fn side(&self) -> Address {
        match self.runs {
            None => Address::Local(self.at),
            Some([]) => Address::System(0),
            Some([first, ..]) => Address::System(first.start + self.at),
        }
    }

    /// How many contiguous bytes follow, within the merge limit.
    fn contiguous_bytes(&self) -> u64 {
        let Some([first, rest @ ..]) = self.runs else { return u64::MAX };
        let mut end = first.start + first.bytes;
        for run in rest.iter().take(MAX_JOINED) {
            if run.start != end {
                break;
            }
            end += run.bytes;
        }
        end - first.start - self.at
    }

    fn skip(&mut self, bytes: u64) {
        self.at = self.at.saturating_add(bytes);
        while let Some([first, rest @ ..]) = self.runs
            && self.at >= first.bytes
        {
            self.at -= first.bytes;
            self.runs = Some(rest);
        }
    }
}
