//! Paging commands as the hardware reads them.
//!
//! A command begins with four bytes: `W`, the version, the operation, and flags. The numbers after
//! them are little endian and not aligned. The reader trusts nothing.
//!
//! # Invariants
//!
//! 1. `decode` returns exactly what `encode` wrote.
//! 2. The first [`HEAD`] bytes determine the length of a command.

use crate::controller::Address;
use flight::TableRoot;

const MARK: u8 = b'W';
const VERSION: u8 = 1;

const COPY: u8 = 1;
const FILL: u8 = 2;
const MAP: u8 = 3;
const UNMAP: u8 = 4;
const WRITE: u8 = 5;
const HANG: u8 = 6;
const REPEAT: u8 = 7;
const FLUSH: u8 = 8;
const ROOT: u8 = 9;

/// The first address is in system memory.
const FROM_SYSTEM: u8 = 1;
/// The second address, or the only one, is.
const TO_SYSTEM: u8 = 2;
/// The first address is virtual.
const FROM_VIRTUAL: u8 = 4;
/// The second address, or the only one, is.
const TO_VIRTUAL: u8 = 8;

/// How many bytes determine the length of a command.
pub(crate) const HEAD: usize = 8;
/// The maximum number of bytes that one command writes.
pub(crate) const MAX_WRITE: usize = 1 << 16;
/// The size of a write command without its bytes.
pub(crate) const WRITE_HEAD: usize = 16;

/// One paging command of the hardware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PagingCommand<'a> {
    /// Copies bytes.
    Copy { from: Address, to: Address, bytes: u64 },
    /// Sets bytes.
    Fill { to: Address, bytes: u64, pattern: u32 },
    /// Maps pages into the aperture.
    Map { page: u64, start: u64, count: u64 },
    /// Maps the dummy page into pages of the aperture.
    Unmap { page: u64, count: u64, dummy: u64 },
    /// Writes bytes.
    Write { to: Address, bytes: &'a [u8] },
    /// Never ends.
    Hang,
    /// Writes the same eight bytes `count` times.
    Repeat { to: Address, driver_handle: u64, count: u32 },
    /// Invalidates cached translations of a root, from an address up to but not including another.
    Flush { root: (u32, u64), start: u64, end: u64 },
    /// Sets the address space for virtual addresses of the following commands.
    Root(TableRoot),
}

impl<'a> PagingCommand<'a> {
    /// The command as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match *self {
            Self::Copy { from, to, bytes } => {
                let flags = flags(from, FROM_SYSTEM, FROM_VIRTUAL) | to_flags(to);
                numbers(COPY, flags, 0, &[address(from), address(to), bytes])
            }
            Self::Fill { to, bytes, pattern } => {
                numbers(FILL, to_flags(to), pattern, &[address(to), bytes])
            }
            Self::Map { page, start, count } => numbers(MAP, 0, 0, &[page, start, count]),
            Self::Unmap { page, count, dummy } => numbers(UNMAP, 0, 0, &[page, count, dummy]),
            Self::Hang => numbers(HANG, 0, 0, &[]),
            Self::Write { to, bytes } => {
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let mut all = numbers(WRITE, to_flags(to), length, &[address(to)]);
                all.extend(bytes);
                all
            }
            Self::Repeat { to, driver_handle, count } => {
                numbers(REPEAT, to_flags(to), count, &[address(to), driver_handle])
            }
            Self::Flush { root: (segment, offset), start, end } => {
                numbers(FLUSH, 0, segment, &[offset, start, end])
            }
            Self::Root(TableRoot { segment, offset, entries }) => {
                numbers(ROOT, 0, segment, &[offset, u64::from(entries)])
            }
        }
    }

    /// The length of the command that begins with these bytes, if they are valid.
    pub(crate) fn length(head: [u8; HEAD]) -> Option<usize> {
        let [MARK, VERSION, kind, _, number @ ..] = head else { return None };
        match kind {
            HANG => Some(HEAD),
            COPY | MAP | UNMAP | FLUSH => Some(HEAD + 3 * 8),
            FILL | REPEAT | ROOT => Some(HEAD + 2 * 8),
            WRITE => {
                let length = usize::try_from(u32::from_le_bytes(number)).ok()?;
                (length <= MAX_WRITE).then_some(WRITE_HEAD + length)
            }
            _ => None,
        }
    }

    /// Decodes the command that consists of exactly these bytes.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        if Self::length(*head)? != bytes.len() {
            return None;
        }
        let [_, _, kind, flags, number @ ..] = *head;
        let number = u32::from_le_bytes(number);
        let to = TO_SYSTEM | TO_VIRTUAL;
        let (count, known) = match kind {
            HANG => (0, 0),
            COPY => (3, FROM_SYSTEM | FROM_VIRTUAL | to),
            FILL | REPEAT => (2, to),
            WRITE => (1, to),
            ROOT => (2, 0),
            _ => (3, 0),
        };
        let (handles, _) = rest.get(..count * 8)?.as_chunks::<8>();
        let mut all = [0; 3];
        for (driver_handle, it) in handles.iter().zip(&mut all) {
            *it = u64::from_le_bytes(*driver_handle);
        }
        let [one, two, three] = all;
        let side = |address, system, virtual_| match flags & (system | virtual_) {
            0 => Some(Address::Local(address)),
            it if it == system => Some(Address::System(address)),
            it if it == virtual_ => Some(Address::Virtual(address)),
            _ => None,
        };
        let to = |address| side(address, TO_SYSTEM, TO_VIRTUAL);
        let numbered = matches!(kind, FILL | WRITE | REPEAT | FLUSH | ROOT);
        if flags & !known != 0 || (number != 0 && !numbered) {
            return None;
        }
        Some(match kind {
            COPY => {
                let from = side(one, FROM_SYSTEM, FROM_VIRTUAL)?;
                Self::Copy { from, to: to(two)?, bytes: three }
            }
            FILL => Self::Fill { to: to(one)?, bytes: two, pattern: number },
            MAP => Self::Map { page: one, start: two, count: three },
            UNMAP => Self::Unmap { page: one, count: two, dummy: three },
            HANG => Self::Hang,
            REPEAT => Self::Repeat { to: to(one)?, driver_handle: two, count: number },
            FLUSH => Self::Flush { root: (number, one), start: two, end: three },
            ROOT => {
                let entries = u32::try_from(two).ok()?;
                Self::Root(TableRoot { segment: number, offset: one, entries })
            }
            _ => Self::Write { to: to(one)?, bytes: rest.get(8..)? },
        })
    }
}

fn numbers(kind: u8, flags: u8, number: u32, handles: &[u64]) -> Vec<u8> {
    let mut bytes = vec![MARK, VERSION, kind, flags];
    bytes.extend(number.to_le_bytes());
    bytes.extend(handles.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

fn address(side: Address) -> u64 {
    match side {
        Address::Local(it) | Address::System(it) | Address::Virtual(it) => it,
    }
}

fn flags(side: Address, system: u8, virtual_: u8) -> u8 {
    match side {
        Address::Local(_) => 0,
        Address::System(_) => system,
        Address::Virtual(_) => virtual_,
    }
}

fn to_flags(side: Address) -> u8 {
    flags(side, TO_SYSTEM, TO_VIRTUAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [PagingCommand<'_>; 11] = [
        PagingCommand::Copy { from: Address::System(1), to: Address::Local(u64::MAX), bytes: 3 },
        PagingCommand::Copy { from: Address::Local(1), to: Address::System(2), bytes: 0 },
        PagingCommand::Fill { to: Address::Local(7), bytes: 8, pattern: 0xdead_beef },
        PagingCommand::Map { page: 1, start: 2, count: 3 },
        PagingCommand::Unmap { page: 1, count: 2, dummy: 3 },
        PagingCommand::Write { to: Address::System(9), bytes: b"hello" },
        PagingCommand::Hang,
        PagingCommand::Copy { from: Address::Virtual(1), to: Address::Virtual(2), bytes: 3 },
        PagingCommand::Repeat { to: Address::Virtual(7), driver_handle: u64::MAX, count: 512 },
        PagingCommand::Flush { root: (3, 4096), start: 1, end: u64::MAX },
        PagingCommand::Root(TableRoot { segment: 2, offset: 8192, entries: 512 }),
    ];

    #[test]
    fn commands_read_back() {
        for command in ALL {
            let bytes = command.encode();
            let head = *bytes.first_chunk().unwrap();
            assert_eq!(PagingCommand::length(head), Some(bytes.len()), "{command:?}");
            assert_eq!(PagingCommand::decode(&bytes), Some(command));
        }
    }

    #[test]
    fn a_command_of_another_length_is_none() {
        for command in ALL {
            let mut bytes = command.encode();
            for length in 0..bytes.len() {
                assert_eq!(PagingCommand::decode(&bytes[..length]), None, "{command:?} {length}");
            }
            bytes.push(0);
            assert_eq!(PagingCommand::decode(&bytes), None, "{command:?}");
        }
    }

    #[test]
    fn bytes_at_random_are_a_command_or_none() {
        let mut random = 1_u32;
        let mut read = 0;
        for round in 0..100_000 {
            let mut bytes = ALL[round % ALL.len()].encode();
            for _ in 0..3 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (random >> 16) as usize % bytes.len();
                bytes[at] = random.to_le_bytes()[1];
            }
            if let Some(command) = PagingCommand::decode(&bytes) {
                assert_eq!(command.encode(), bytes);
                read += 1;
            }
        }
        assert!(read > 1000, "{read}");
    }
}
