//! What packets of clients write, judged by the commands in them: for drivers from files that take
//! commands in a known format. A packet is judged if it ran alone, as far as the oracle can look at
//! the memory that it uses.

use crate::oracle_look::read_system;
use flight::{Component, FinishedPacket, Log, PacketUse};
use std::ops::Range;

/// Reads the commands of a client. `None` if they are not in the format, or do something else.
pub type DecodeCommands = fn(&[u8]) -> Option<Vec<ClientCommand>>;

/// A command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCommand {
    /// Sets bytes to a value.
    Fill {
        /// The bytes.
        target: CommandBytes,
        /// The value.
        value: u8,
    },
    /// Copies as many bytes as the target has.
    Copy {
        /// The first byte that is read.
        source: CommandBytes,
        /// The bytes that are written.
        target: CommandBytes,
    },
}

/// Bytes of an allocation, in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandBytes {
    /// The allocation.
    pub operand: Operand,
    /// The first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// How a command names an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// By its index in the allocation list.
    Listed(usize),
    /// By a handle.
    Handle(u32),
}

impl ClientCommand {
    fn target(&self) -> &CommandBytes {
        match self {
            ClientCommand::Fill { target, .. } | ClientCommand::Copy { target, .. } => target,
        }
    }
}

/// Bytes of an allocation on the list.
struct ListedBytes<'a> {
    it: &'a PacketUse,
    range: Range<u64>,
}

impl<'a> ListedBytes<'a> {
    /// The bytes that a command names; `None` if its allocation is not on the list, or if nothing is
    /// known of it.
    fn find(packet: &FinishedPacket<'a>, bytes: &CommandBytes) -> Option<Self> {
        let it = match bytes.operand {
            Operand::Listed(index) => packet.uses.get(index)?,
            Operand::Handle(handle) => packet.uses.iter().find(|using| using.handle == handle)?,
        };
        let end = bytes.offset.checked_add(bytes.length)?;
        (end <= it.bytes).then_some(Self { it, range: bytes.offset..end })
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.it.of == other.it.of
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }

    /// The bytes, if they can be looked at.
    fn read(&self, packet: &FinishedPacket<'_>) -> Option<Vec<u8>> {
        let (start, length) = (self.range.start, self.range.end - self.range.start);
        if !self.it.pages.is_empty() {
            let all = read_system(packet.ram, &self.it.pages, self.it.bytes)?;
            let range = usize::try_from(start).ok()?..usize::try_from(self.range.end).ok()?;
            return all.get(range).map(<[u8]>::to_vec);
        }
        let address = self.it.address + start;
        let mut memory = packet.visible.iter();
        let physical = memory.find_map(|memory| memory.physical_address(address, length))?;
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        packet.ram.read(physical, &mut bytes).then_some(bytes)
    }
}

/// Judges the memory that a packet has written.
pub(crate) fn judge_packet(log: &Log, packet: &FinishedPacket<'_>, commands: &[ClientCommand]) {
    let targets: Option<Vec<ListedBytes<'_>>> =
        commands.iter().map(|command| ListedBytes::find(packet, command.target())).collect();
    // A target that is not known can be the same memory as another one.
    let Some(targets) = targets else { return };
    let (mut looked, mut broken) = (false, None);
    for (index, command) in commands.iter().enumerate() {
        let target = &targets[index];
        let is_overwritten = targets[index + 1..].iter().any(|later| later.overlaps(target));
        let expected = match command {
            ClientCommand::Fill { value, .. } => {
                vec![*value; usize::try_from(target.range.end - target.range.start).unwrap_or(0)]
            }
            ClientCommand::Copy { source, .. } => {
                let source = ListedBytes::find(packet, source);
                let unchanged =
                    source.filter(|it| !targets[index..].iter().any(|later| later.overlaps(it)));
                let Some(bytes) = unchanged.and_then(|it| it.read(packet)) else { continue };
                bytes
            }
        };
        let found = if is_overwritten { None } else { target.read(packet) };
        let Some(found) = found else { continue };
        looked = true;
        let wrong = expected
            .iter()
            .zip(&found)
            .zip(target.range.clone())
            .find(|((one, other), _)| one != other);
        if let Some(((expected, found), offset)) = wrong {
            let (of, address) = (target.it.of, target.it.address + offset);
            broken = Some(format!(
                "a packet of {} left byte {offset:#x} of {of}, at the GPU's address {address:#x}, as \
                 {found:#04x} where its commands write {expected:#04x}",
                packet.context
            ));
            break;
        }
    }
    if looked {
        let (rule, argument) = packet.rule;
        log.judge(rule, Component::Driver, packet.context, argument, broken);
    }
}
