//! The private data that clients and a driver of the built-in GPU agree on.
//!
//! All numbers are little endian. Readers trust nothing: bytes that do not follow this format are
//! refused without a panic.
//!
//! # Invariants
//!
//! 1. The readers return exactly what `describe` and `encode` wrote.
//! 2. A packet starts with its number of commands, so no prefix of a packet is a packet. The one
//!    exception is the empty byte string: it is the empty packet.

pub use crate::description::{
    LONG_DESCRIPTION_SIZE, NORMAL_PRIORITY, anywhere, describe_in, only_in, read_allocation_info,
};
pub use crate::hardware::{HARDWARE_INFO_SIZE, HardwareInfo, read_hardware_info};

use crate::controller::Address;
use crate::paging::PagingCommand;
use kernel::handle_table::Handle;
use kernel::miniport::DriverError;

/// The size of an allocation's private data.
pub const DESCRIPTION_SIZE: u32 = 16;

/// The largest allocation, in bytes.
pub const LARGEST: u64 = 1 << 30;

/// The private data of the resource of a standard allocation.
pub const STANDARD_RESOURCE: [u8; STANDARD_RESOURCE_SIZE as usize] = *b"WTSGres\0";

/// The size of that private data.
pub const STANDARD_RESOURCE_SIZE: u32 = 8;

const MAGIC: [u8; 4] = *b"WTSG";
const VERSION: u32 = 1;

/// The size of an escape's private data.
const ESCAPE_SIZE: usize = 16;

const MIRROR: u32 = 1;
const PACKETS: u32 = 2;

const FILL: u32 = 1;
const COPY: u32 = 2;
const HANG: u32 = 3;
const RAW: u32 = 4;
const FILL_AT: u32 = 5;
const COPY_AT: u32 = 6;

/// The low six bits of a memory operand that is an index into the packet's list. In a handle they
/// are zero.
const PLACE: u32 = 1;

/// The memory operand for an index into the packet's list, from zero. Only the list says which
/// instance of a renamed allocation is meant.
pub fn list_handle(place: u32) -> Handle {
    Handle(place << 6 | PLACE)
}

/// The list index of a memory operand, if it is one.
pub fn list_index(name: Handle) -> Option<usize> {
    (name.0 & 0x3f == PLACE).then_some((name.0 >> 6) as usize)
}

/// One command for the hardware. `M` is a memory operand: a client's handle, until the driver has
/// looked it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<M = Handle> {
    /// Sets `length` bytes to `value`.
    Fill {
        /// The memory.
        target: M,
        /// The offset in the memory, in bytes.
        offset: u64,
        /// How many bytes.
        length: u64,
        /// The value of each byte.
        value: u8,
    },
    /// Copies `length` bytes. The two ranges may overlap.
    Copy {
        /// The memory that is read.
        from: M,
        /// The offset in the memory, in bytes.
        from_offset: u64,
        /// The memory that is written.
        to: M,
        /// The offset in the memory, in bytes.
        to_offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Never ends.
    Hang,
    /// Sets `length` bytes at a virtual address to `value`.
    FillAt {
        /// The virtual address.
        address: u64,
        /// How many bytes.
        length: u64,
        /// The value of each byte.
        value: u8,
    },
    /// Copies `length` bytes from one virtual address to another.
    CopyAt {
        /// The source address.
        from: u64,
        /// The destination address.
        to: u64,
        /// How many bytes.
        length: u64,
    },
}

impl<M> Command<M> {
    /// The same command with each operand replaced by what `find` returns; or its first error.
    pub fn resolve<N>(
        self,
        mut find: impl FnMut(M) -> Result<N, DriverError>,
    ) -> Result<Command<N>, DriverError> {
        Ok(match self {
            Command::Fill { target, offset, length, value } => {
                Command::Fill { target: find(target)?, offset, length, value }
            }
            Command::Copy { from, from_offset, to, to_offset, length } => {
                let (from, to) = (find(from)?, find(to)?);
                Command::Copy { from, from_offset, to, to_offset, length }
            }
            Command::Hang => Command::Hang,
            Command::FillAt { address, length, value } => {
                Command::FillAt { address, length, value }
            }
            Command::CopyAt { from, to, length } => Command::CopyAt { from, to, length },
        })
    }
}

/// The private data of an allocation of `size` bytes.
pub fn describe(size: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes
}

/// The size of the allocation that `bytes` describe.
pub fn read_description(bytes: &[u8]) -> Result<u64, DriverError> {
    let mut reader = Reader(bytes);
    let (magic, version, size) = (reader.take()?, reader.u32()?, reader.u64()?);
    match (magic, version, size) {
        _ if !reader.0.is_empty() => Err(DriverError::Invalid),
        (MAGIC, VERSION, 0) => Err(DriverError::Invalid),
        (MAGIC, VERSION, ..=LARGEST) => Ok(size),
        (MAGIC, VERSION, _) => Err(DriverError::NoMemory),
        (MAGIC, _, _) => Err(DriverError::Mismatch),
        _ => Err(DriverError::Invalid),
    }
}

/// The private data of a packet with these commands, in order.
pub fn encode(commands: &[Command]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if !commands.is_empty() {
        // A packet with more commands than a u32 counts is not valid: `decode` refuses it.
        let count = u32::try_from(commands.len()).unwrap_or(u32::MAX);
        bytes.extend(count.to_le_bytes());
    }
    for command in commands {
        match *command {
            Command::Fill { target, offset, length, value } => {
                bytes.extend(FILL.to_le_bytes());
                bytes.extend(target.0.to_le_bytes());
                bytes.extend(offset.to_le_bytes());
                bytes.extend(length.to_le_bytes());
                bytes.push(value);
            }
            Command::Copy { from, from_offset, to, to_offset, length } => {
                bytes.extend(COPY.to_le_bytes());
                bytes.extend(from.0.to_le_bytes());
                bytes.extend(from_offset.to_le_bytes());
                bytes.extend(to.0.to_le_bytes());
                bytes.extend(to_offset.to_le_bytes());
                bytes.extend(length.to_le_bytes());
            }
            Command::Hang => bytes.extend(HANG.to_le_bytes()),
            Command::FillAt { address, length, value } => {
                bytes.extend(FILL_AT.to_le_bytes());
                bytes.extend(address.to_le_bytes());
                bytes.extend(length.to_le_bytes());
                bytes.push(value);
            }
            Command::CopyAt { from, to, length } => {
                bytes.extend(COPY_AT.to_le_bytes());
                bytes.extend([from, to, length].iter().flat_map(|value| value.to_le_bytes()));
            }
        }
    }
    bytes
}

/// The commands of a packet.
pub fn decode(bytes: &[u8]) -> Result<Vec<Command>, DriverError> {
    let mut reader = Reader(bytes);
    let count = if bytes.is_empty() { 0 } else { reader.u32()? };
    // The count is a claim: nothing is reserved for it, and reading stops where the bytes end.
    let mut commands = Vec::new();
    for _ in 0..count {
        commands.push(reader.command()?);
    }
    if reader.0.is_empty() { Ok(commands) } else { Err(DriverError::Invalid) }
}

/// The commands of a packet with lists. An unknown command is illegal; a hardware command
/// ([`raw_fill`]) is privileged.
pub fn decode_stream(bytes: &[u8]) -> Result<Vec<Command>, DriverError> {
    let mut reader = Reader(bytes);
    let count = if bytes.is_empty() { 0 } else { reader.u32()? };
    let mut commands = Vec::new();
    for _ in 0..count {
        let code = Reader(reader.0).u32()?;
        commands.push(match code {
            FILL | COPY | HANG => reader.command()?,
            RAW => return Err(DriverError::Privileged),
            _ => return Err(DriverError::Illegal),
        });
    }
    if reader.0.is_empty() { Ok(commands) } else { Err(DriverError::Invalid) }
}

/// A packet with one hardware command, which fills bytes at a GPU address without any check of
/// ownership. No driver accepts it from a client.
pub fn raw_fill(address: u64, bytes: u64, value: u8) -> Vec<u8> {
    let pattern = u32::from_le_bytes([value; 4]);
    let fill = PagingCommand::Fill { to: Address::Local(address), bytes, pattern }.encode();
    let numbers = [1, RAW, u32::try_from(fill.len()).unwrap_or(u32::MAX)];
    let mut packet: Vec<u8> = numbers.into_iter().flat_map(u32::to_le_bytes).collect();
    packet.extend(fill);
    packet
}

/// The hardware command in that packet, for a test driver that wrongly accepts it.
pub fn read_raw(bytes: &[u8]) -> Option<&[u8]> {
    let start = [1, RAW].into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    bytes.strip_prefix(&start[..])?.get(4..)
}

/// A client's request in an escape. The result is a number in the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// A number, to be returned with its bits reversed. Does not use the hardware.
    Mirror(u64),
    /// How many packets the hardware has completed: a register read, so it needs threading level
    /// two.
    Packets,
}

/// The private data of an escape.
pub fn escape(request: Escape) -> Vec<u8> {
    let (code, number) = match request {
        Escape::Mirror(number) => (MIRROR, number),
        Escape::Packets => (PACKETS, 0),
    };
    let mut bytes = MAGIC.to_vec();
    bytes.extend(code.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes
}

/// The request in an escape. Fails for bytes of another format: any client can send any bytes.
pub fn read_escape(bytes: &[u8]) -> Result<Escape, DriverError> {
    let mut reader = Reader(bytes);
    let (magic, code, number) = (reader.take()?, reader.u32()?, reader.u64()?);
    match (magic, code) {
        _ if !reader.0.is_empty() => Err(DriverError::Invalid),
        (MAGIC, MIRROR) => Ok(Escape::Mirror(number)),
        (MAGIC, PACKETS) => Ok(Escape::Packets),
        _ => Err(DriverError::Invalid),
    }
}

/// Writes the result of an escape into its private data. `packets` reads the hardware.
pub fn answer_escape(
    bytes: &mut [u8],
    hardware: bool,
    packets: impl FnOnce() -> u64,
) -> Result<(), DriverError> {
    let number = match read_escape(bytes)? {
        Escape::Mirror(number) => number.reverse_bits(),
        Escape::Packets if hardware => packets(),
        Escape::Packets => return Err(DriverError::Invalid),
    };
    if let Some(place) = bytes.last_chunk_mut() {
        *place = number.to_le_bytes();
    }
    Ok(())
}

/// The result of an escape.
pub fn escape_answer(bytes: &[u8]) -> Option<u64> {
    let ours = bytes.len() == ESCAPE_SIZE && bytes.starts_with(&MAGIC);
    bytes.last_chunk().filter(|_| ours).map(|bytes| u64::from_le_bytes(*bytes))
}

/// The bytes that are not read yet.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn command(&mut self) -> Result<Command, DriverError> {
        Ok(match self.u32()? {
            FILL => Command::Fill {
                target: Handle(self.u32()?),
                offset: self.u64()?,
                length: self.u64()?,
                value: u8::from_le_bytes(self.take()?),
            },
            COPY => Command::Copy {
                from: Handle(self.u32()?),
                from_offset: self.u64()?,
                to: Handle(self.u32()?),
                to_offset: self.u64()?,
                length: self.u64()?,
            },
            HANG => Command::Hang,
            FILL_AT => Command::FillAt {
                address: self.u64()?,
                length: self.u64()?,
                value: u8::from_le_bytes(self.take()?),
            },
            COPY_AT => Command::CopyAt { from: self.u64()?, to: self.u64()?, length: self.u64()? },
            _ => return Err(DriverError::Invalid),
        })
    }

    fn u32(&mut self) -> Result<u32, DriverError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, DriverError> {
        self.take().map(u64::from_le_bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], DriverError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(DriverError::Invalid)?;
        self.0 = rest;
        Ok(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMANDS: [Command; 5] = [
        Command::Fill { target: Handle(0x4000_0040), offset: 1, length: u64::MAX, value: 0xab },
        Command::Copy {
            from: Handle(u32::MAX),
            from_offset: 2,
            to: Handle(0),
            to_offset: 1 << 40,
            length: 3,
        },
        Command::Hang,
        Command::FillAt { address: 1 << 38, length: 5, value: 6 },
        Command::CopyAt { from: 7, to: u64::MAX, length: 8 },
    ];

    #[test]
    fn a_description_is_sixteen_bytes_and_reads_back() {
        let bytes = describe(0x1234);
        assert_eq!(bytes, *b"WTSG\x01\0\0\0\x34\x12\0\0\0\0\0\0");
        assert_eq!(bytes.len(), DESCRIPTION_SIZE as usize);
        for size in [1, 4096, LARGEST] {
            assert_eq!(read_description(&describe(size)), Ok(size));
        }
    }

    #[test]
    fn each_wrong_description_has_its_refusal() {
        assert_eq!(read_description(&describe(0)), Err(DriverError::Invalid));
        for size in [LARGEST + 1, u64::MAX] {
            assert_eq!(read_description(&describe(size)), Err(DriverError::NoMemory));
        }
        for at in 0..16 {
            let mut bytes = describe(4096);
            bytes[at] ^= 0x80;
            let wrong = match at {
                0..4 => Err(DriverError::Invalid),
                4..8 => Err(DriverError::Mismatch),
                8..11 => Ok(4096 ^ 0x80 << (8 * (at - 8))),
                _ => Err(DriverError::NoMemory),
            };
            assert_eq!(read_description(&bytes), wrong, "byte {at}");
        }
    }

    #[test]
    fn a_description_of_another_length_is_refused() {
        let mut bytes = describe(4096);
        for length in 0..bytes.len() {
            assert_eq!(read_description(&bytes[..length]), Err(DriverError::Invalid), "{length}");
        }
        bytes.push(0);
        assert_eq!(read_description(&bytes), Err(DriverError::Invalid));
    }

    #[test]
    fn commands_read_back_and_no_bytes_are_no_commands() {
        assert_eq!(decode(&encode(&COMMANDS)), Ok(COMMANDS.to_vec()));
        assert_eq!(encode(&[]), []);
        assert_eq!(decode(&[]), Ok(Vec::new()));
    }

    #[test]
    fn an_escape_result_is_written_in_place() {
        let mut bytes = escape(Escape::Mirror(1));
        assert_eq!(read_escape(&bytes), Ok(Escape::Mirror(1)));
        assert_eq!(answer_escape(&mut bytes, false, || panic!("no hardware")), Ok(()));
        assert_eq!(escape_answer(&bytes), Some(1 << 63));
        let mut bytes = escape(Escape::Packets);
        assert_eq!(answer_escape(&mut bytes, true, || 7), Ok(()));
        assert_eq!((escape_answer(&bytes), bytes.len()), (Some(7), ESCAPE_SIZE));
    }

    #[test]
    fn an_escape_that_is_not_ours_or_takes_level_two_is_refused() {
        let request = escape(Escape::Packets);
        let refused = answer_escape(&mut request.clone(), false, || panic!("no hardware"));
        assert_eq!(refused, Err(DriverError::Invalid));
        for length in 0..request.len() {
            assert_eq!(read_escape(&request[..length]), Err(DriverError::Invalid), "{length}");
        }
        for at in 0..8 {
            let mut bytes = request.clone();
            bytes[at] ^= 0x40;
            assert_eq!(read_escape(&bytes), Err(DriverError::Invalid), "byte {at}");
        }
        assert_eq!(read_escape(&[request, vec![0]].concat()), Err(DriverError::Invalid));
    }

    #[test]
    fn a_packet_of_another_length_is_refused() {
        let mut bytes = encode(&COMMANDS);
        for length in 1..bytes.len() {
            assert_eq!(decode(&bytes[..length]), Err(DriverError::Invalid), "{length}");
        }
        bytes.push(0);
        assert_eq!(decode(&bytes), Err(DriverError::Invalid));
    }

    #[test]
    fn unknown_commands_and_false_counts_are_refused() {
        for command in [0, COPY_AT + 1, u32::MAX] {
            let bytes = [1_u32.to_le_bytes(), command.to_le_bytes()].concat();
            assert_eq!(decode(&bytes), Err(DriverError::Invalid), "{command}");
        }
        let bytes = [u32::MAX.to_le_bytes(), HANG.to_le_bytes()].concat();
        assert_eq!(decode(&bytes), Err(DriverError::Invalid));
    }

    #[test]
    fn bytes_at_random_never_panic() {
        let good = encode(&COMMANDS);
        let mut random = 1_u32;
        for _ in 0..100_000 {
            let mut bytes = good.clone();
            for _ in 0..3 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (random >> 16) as usize % bytes.len();
                bytes[at] = random.to_le_bytes()[1];
            }
            if let Ok(commands) = decode(&bytes) {
                assert_eq!(encode(&commands), bytes);
            }
        }
    }

    #[test]
    fn an_unknown_handle_refuses_the_command() {
        let find =
            |handle: Handle| if handle.0 == 0 { Err(DriverError::Busy) } else { Ok(handle.0) };
        let filled =
            Command::Fill { target: 0x4000_0040, offset: 1, length: u64::MAX, value: 0xab };
        assert_eq!(COMMANDS[0].resolve(find), Ok(filled));
        assert_eq!(COMMANDS[1].resolve(find), Err(DriverError::Busy));
        assert_eq!(COMMANDS[2].resolve(find), Ok(Command::Hang));
    }
}
