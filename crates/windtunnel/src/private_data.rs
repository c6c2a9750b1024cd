//! The private data of a client: bytes that only a driver's own user-mode driver understands.
//!
//! Scenarios do not write private data themselves. They ask the [`PrivateData`] of their flight for
//! that of an allocation, a packet or an escape, in the format of the driver under test.
//!
//! Without private data, allocations have the size and the place that the driver chooses, and
//! packets have no commands. What cannot be asked of a driver in this way stops the scenario; the row
//! of a scenario that needs private data says so, and the scenario is not flown.

use crate::testbed::ScenarioStopped;
use abi::NTSTATUS;
use abi::status::{STATUS_GRAPHICS_DRIVER_MISMATCH, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY};
use kernel::Handle;
use kernel::segment::PlacementRequirements;
use softgpu::format;
use std::fmt;
use verify::{ClientCommand, CommandBytes, DecodeCommands, Operand};

pub(crate) use softgpu::format::{Command, Escape, anywhere, list_handle, only_in};

/// A text that a driver file contains if it takes the format of the built-in GPU.
const MARK: &[u8] = b"windtunnel private data: builtin";

/// The size of a page.
const PAGE: u64 = 4096;

/// Provides the private data of allocations, packets and escapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrivateData {
    /// In the format of the built-in GPU (`windtunnel/softgpu.h`).
    #[default]
    BuiltIn,
    /// None: each size is zero.
    None,
}

impl PrivateData {
    /// What a driver file takes: the built-in format if the file has the mark for it, else none.
    pub(crate) fn of_file(bytes: &[u8]) -> Self {
        let marked = bytes.windows(MARK.len()).any(|window| window == MARK);
        if marked { PrivateData::BuiltIn } else { PrivateData::None }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            PrivateData::BuiltIn => "builtin",
            PrivateData::None => "none",
        }
    }

    /// The private data of an allocation of `size` bytes.
    pub(crate) fn allocation(self, size: u64) -> Vec<u8> {
        match self {
            PrivateData::BuiltIn => format::describe(size),
            PrivateData::None => Vec::new(),
        }
    }

    /// The private data of `count` one-page allocations.
    pub(crate) fn pages(self, count: usize) -> Vec<Vec<u8>> {
        vec![self.allocation(PAGE); count]
    }

    /// The private data of an allocation with placement requirements.
    pub(crate) fn placed(
        self,
        size: u64,
        alignment: u64,
        requirements: &PlacementRequirements,
    ) -> Vec<u8> {
        match self {
            PrivateData::BuiltIn => format::describe_in(size, alignment, requirements),
            PrivateData::None => Vec::new(),
        }
    }

    /// The private data of a packet. Without private data the packet does nothing; so it cannot
    /// hang.
    pub(crate) fn packet(self, commands: &[Command]) -> Result<Vec<u8>, ScenarioStopped> {
        match self {
            PrivateData::BuiltIn => Ok(format::encode(commands)),
            PrivateData::None if commands.contains(&Command::Hang) => Err(needed(DataUse::Hang)),
            PrivateData::None => Ok(Vec::new()),
        }
    }

    /// Reads the commands of a packet with an allocation list, for the byte oracle.
    pub(crate) fn decoder(self) -> Option<DecodeCommands> {
        match self {
            PrivateData::BuiltIn => Some(client_commands),
            PrivateData::None => None,
        }
    }

    /// The private data of an escape.
    pub(crate) fn escape(self, request: Escape) -> Result<Vec<u8>, ScenarioStopped> {
        match self {
            PrivateData::BuiltIn => Ok(format::escape(request)),
            PrivateData::None => Err(needed(DataUse::Escapes)),
        }
    }

    /// The number in the driver's answer to an escape.
    pub(crate) fn escape_answer(self, bytes: &[u8]) -> Result<u64, ScenarioStopped> {
        let answer = match self {
            PrivateData::BuiltIn => format::escape_answer(bytes),
            PrivateData::None => return Err(needed(DataUse::Escapes)),
        };
        answer.ok_or(ScenarioStopped::missing("the driver to return data in its format"))
    }

    /// Private data of allocations that the driver rejects, with the status of each.
    pub(crate) fn rejected_allocations(self) -> Result<[(Vec<u8>, NTSTATUS); 3], ScenarioStopped> {
        if self == PrivateData::None {
            return Err(needed(DataUse::Rejected));
        }
        let mut other_version = format::describe(PAGE);
        other_version[4] ^= 0xff;
        Ok([
            (vec![1, 2, 3], STATUS_INVALID_PARAMETER),
            (other_version, STATUS_GRAPHICS_DRIVER_MISMATCH),
            (format::describe(u64::MAX), STATUS_NO_MEMORY),
        ])
    }

    /// The private data of a packet that the driver rejects.
    pub(crate) fn rejected_packet(self) -> Result<Vec<u8>, ScenarioStopped> {
        match self {
            PrivateData::BuiltIn => Ok(b"no commands".to_vec()),
            PrivateData::None => Err(needed(DataUse::Rejected)),
        }
    }

    /// A packet with a command that no client may use: it fills bytes at a GPU address.
    pub(crate) fn privileged_packet(self, address: u64) -> Result<Vec<u8>, ScenarioStopped> {
        match self {
            PrivateData::BuiltIn => Ok(format::raw_fill(address, 64, 0xee)),
            PrivateData::None => Err(needed(DataUse::Rejected)),
        }
    }

    /// A packet with a command that does not exist.
    pub(crate) fn unknown_packet(self) -> Result<Vec<u8>, ScenarioStopped> {
        match self {
            PrivateData::BuiltIn => {
                Ok([1_u32, 99].into_iter().flat_map(u32::to_le_bytes).collect())
            }
            PrivateData::None => Err(needed(DataUse::Rejected)),
        }
    }
}

/// What a scenario needs private data in the format of the driver for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataUse {
    /// Packets that hang.
    Hang,
    /// Escapes.
    Escapes,
    /// Private data that the driver rejects.
    Rejected,
    /// Packets that do something.
    Commands,
    /// Allocations of a given size or in a given segment.
    Placement,
    /// Allocations with private data of any kind.
    Bytes,
}

impl DataUse {
    /// The need of a flight without private data.
    pub(crate) fn need(self) -> String {
        format!("private data in the format of this driver, for {self}")
    }
}

impl fmt::Display for DataUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DataUse::Hang => "packets that hang",
            DataUse::Escapes => "escapes",
            DataUse::Rejected => "allocations or packets that the driver rejects",
            DataUse::Commands => "packets with commands",
            DataUse::Placement => "allocations of a given size or in a given segment",
            DataUse::Bytes => "allocations with private data",
        })
    }
}

/// The commands of a packet, if all of them fill or copy memory on its list.
fn client_commands(bytes: &[u8]) -> Option<Vec<ClientCommand>> {
    let operand = |handle: Handle| {
        format::list_index(handle).map_or(Operand::Handle(handle.0), Operand::Listed)
    };
    let bytes_of =
        |handle, offset, length| CommandBytes { operand: operand(handle), offset, length };
    let command = |command: Command| match command {
        Command::Fill { target, offset, length, value } => {
            Some(ClientCommand::Fill { target: bytes_of(target, offset, length), value })
        }
        Command::Copy { from, from_offset, to, to_offset, length } => Some(ClientCommand::Copy {
            source: bytes_of(from, from_offset, length),
            target: bytes_of(to, to_offset, length),
        }),
        Command::Hang | Command::FillAt { .. } | Command::CopyAt { .. } => None,
    };
    format::decode_stream(bytes).ok()?.into_iter().map(command).collect()
}

fn needed(purpose: DataUse) -> ScenarioStopped {
    ScenarioStopped::missing(purpose.need())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_the_mark_takes_the_built_in_format() {
        let file = [b"MZ\0", MARK, b"\0"].concat();
        assert_eq!(PrivateData::of_file(&file), PrivateData::BuiltIn);
        assert_eq!(PrivateData::of_file(&file[..file.len() - 2]), PrivateData::None);
        assert_eq!(PrivateData::of_file(b""), PrivateData::None);
    }

    #[test]
    fn without_private_data_every_size_is_zero_and_no_packet_hangs() {
        let none = PrivateData::None;
        assert_eq!(none.pages(2), vec![Vec::<u8>::new(); 2]);
        assert!(none.placed(PAGE, PAGE, &anywhere()).is_empty());
        let fill = Command::FillAt { address: 0, length: 1, value: 2 };
        assert_eq!(none.packet(&[fill]), Ok(Vec::new()));
        assert_eq!(none.packet(&[fill, Command::Hang]), Err(needed(DataUse::Hang)));
    }
}
