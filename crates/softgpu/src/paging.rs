//! Paging commands as the hardware reads them.
//!
//! A command begins with four bytes: `W`, the version, what it does, and flags; the numbers
//! behind them are little endian and not aligned. Whoever reads believes nothing.
//!
//! # Invariants
//!
//! 1. What `encode` writes, `decode` reads back as it was.
//! 2. The first [`HEAD`] bytes say how long a command is.

use crate::controller::Side;

const MARK: u8 = b'W';
const VERSION: u8 = 1;

const COPY: u8 = 1;
const FILL: u8 = 2;
const MAP: u8 = 3;
const UNMAP: u8 = 4;
const WRITE: u8 = 5;
const HANG: u8 = 6;

/// The first address is one of the machine's.
const FROM_SYSTEM: u8 = 1;
/// The second, or the only one, is.
const TO_SYSTEM: u8 = 2;

/// How many bytes say how long a command is.
pub(crate) const HEAD: usize = 8;
/// The most bytes one command writes.
pub(crate) const MOST_WRITTEN: usize = 1 << 16;
/// How many bytes a command that writes some has before them.
pub(crate) const WRITE_HEAD: usize = 16;

/// One thing for the hardware to do with memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PagingCommand<'a> {
    /// Copies bytes.
    Copy { from: Side, to: Side, bytes: u64 },
    /// Sets bytes.
    Fill { to: Side, bytes: u64, pattern: u32 },
    /// Shows pages in the aperture.
    Map { page: u64, start: u64, count: u64 },
    /// Shows the dummy page in their place.
    Unmap { page: u64, count: u64, dummy: u64 },
    /// Writes bytes.
    Write { to: Side, bytes: &'a [u8] },
    /// Never ends.
    Hang,
}

impl<'a> PagingCommand<'a> {
    /// The command as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match *self {
            Self::Copy { from, to, bytes } => {
                let flags = system(from, FROM_SYSTEM) | system(to, TO_SYSTEM);
                numbers(COPY, flags, 0, &[address(from), address(to), bytes])
            }
            Self::Fill { to, bytes, pattern } => {
                numbers(FILL, system(to, TO_SYSTEM), pattern, &[address(to), bytes])
            }
            Self::Map { page, start, count } => numbers(MAP, 0, 0, &[page, start, count]),
            Self::Unmap { page, count, dummy } => numbers(UNMAP, 0, 0, &[page, count, dummy]),
            Self::Hang => numbers(HANG, 0, 0, &[]),
            Self::Write { to, bytes } => {
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let mut all = numbers(WRITE, system(to, TO_SYSTEM), length, &[address(to)]);
                all.extend(bytes);
                all
            }
        }
    }

    /// How many bytes the command has that begins so, if one does.
    pub(crate) fn length(head: [u8; HEAD]) -> Option<usize> {
        let [MARK, VERSION, kind, _, number @ ..] = head else { return None };
        match kind {
            COPY | MAP | UNMAP => Some(HEAD + 3 * 8),
            FILL => Some(HEAD + 2 * 8),
            HANG => Some(HEAD),
            WRITE => {
                let length = usize::try_from(u32::from_le_bytes(number)).ok()?;
                (length <= MOST_WRITTEN).then_some(WRITE_HEAD + length)
            }
            _ => None,
        }
    }

    /// The command that these bytes are, all of them.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        if Self::length(*head)? != bytes.len() {
            return None;
        }
        let [_, _, kind, flags, number @ ..] = *head;
        let number = u32::from_le_bytes(number);
        let (count, known) = match kind {
            COPY => (3, FROM_SYSTEM | TO_SYSTEM),
            FILL => (2, TO_SYSTEM),
            WRITE => (1, TO_SYSTEM),
            HANG => (0, 0),
            _ => (3, 0),
        };
        let (words, _) = rest.get(..count * 8)?.as_chunks::<8>();
        let mut all = [0; 3];
        for (word, it) in words.iter().zip(&mut all) {
            *it = u64::from_le_bytes(*word);
        }
        let [one, two, three] = all;
        let side = |address, flag| {
            if flags & flag == 0 { Side::Own(address) } else { Side::System(address) }
        };
        if flags & !known != 0 || (number != 0 && !matches!(kind, FILL | WRITE)) {
            return None;
        }
        Some(match kind {
            COPY => {
                let (from, to) = (side(one, FROM_SYSTEM), side(two, TO_SYSTEM));
                Self::Copy { from, to, bytes: three }
            }
            FILL => Self::Fill { to: side(one, TO_SYSTEM), bytes: two, pattern: number },
            MAP => Self::Map { page: one, start: two, count: three },
            UNMAP => Self::Unmap { page: one, count: two, dummy: three },
            HANG => Self::Hang,
            _ => Self::Write { to: side(one, TO_SYSTEM), bytes: rest.get(8..)? },
        })
    }
}

fn numbers(kind: u8, flags: u8, number: u32, words: &[u64]) -> Vec<u8> {
    let mut bytes = vec![MARK, VERSION, kind, flags];
    bytes.extend(number.to_le_bytes());
    bytes.extend(words.iter().flat_map(|it| it.to_le_bytes()));
    bytes
}

fn address(side: Side) -> u64 {
    match side {
        Side::Own(it) | Side::System(it) => it,
    }
}

fn system(side: Side, flag: u8) -> u8 {
    if matches!(side, Side::System(_)) { flag } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [PagingCommand<'_>; 7] = [
        PagingCommand::Copy { from: Side::System(1), to: Side::Own(u64::MAX), bytes: 3 },
        PagingCommand::Copy { from: Side::Own(1), to: Side::System(2), bytes: 0 },
        PagingCommand::Fill { to: Side::Own(7), bytes: 8, pattern: 0xdead_beef },
        PagingCommand::Map { page: 1, start: 2, count: 3 },
        PagingCommand::Unmap { page: 1, count: 2, dummy: 3 },
        PagingCommand::Write { to: Side::System(9), bytes: b"hello" },
        PagingCommand::Hang,
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
