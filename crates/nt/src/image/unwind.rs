//! Unwinds frames of an image by its function table (`.pdata` and `.xdata`).
//!
//! WINDOWS: the format is documented ("x64 exception handling"). A frame that is interrupted inside
//! its epilogue is not recognised as such: faults there do not occur, and a return address is never
//! in one.

use super::context::{Context, RSP};
use super::signals::read_memory;

/// The function table of a loaded image.
#[derive(Clone, Copy, Debug)]
pub(super) struct FunctionTable {
    /// The address of the image.
    pub(super) base: u64,
    /// Its size.
    pub(super) size: u64,
    /// The RVA and the size of the table.
    pub(super) table: (u32, u32),
}

/// An entry of the function table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// The address of the entry.
    pub(super) entry: u64,
    begin: u32,
    unwind: u32,
}

/// What unwinding a frame found.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnwoundFrame {
    /// The frame: the stack pointer, or the frame register, of the function's body.
    pub(super) establisher: u64,
    /// Its handler for exceptions or for unwinding, and the handler's data.
    pub(super) handler: Option<Handler>,
}

/// The handler of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handler {
    /// The address of the handler.
    pub(super) routine: u64,
    /// The address of its data.
    pub(super) data: u64,
    /// Whether it takes part in the search for a handler.
    pub(super) exceptions: bool,
    /// Whether it takes part in unwinding.
    pub(super) unwinds: bool,
}

const ENTRY: u64 = 12;
const HANDLES_EXCEPTIONS: u8 = 1;
const HANDLES_UNWIND: u8 = 2;
const CHAINED: u8 = 4;

/// How many chained entries are followed.
const MAX_CHAIN: usize = 32;

impl FunctionTable {
    /// Whether the address is in the image.
    pub(super) fn contains(&self, address: u64) -> bool {
        (self.base..self.base + self.size).contains(&address)
    }

    /// The function that contains an address.
    pub(super) fn find(&self, address: u64) -> Option<Function> {
        let rva = u32::try_from(address.checked_sub(self.base)?).ok()?;
        let (mut low, mut high) = (0, u64::from(self.table.1) / ENTRY);
        while low < high {
            let middle = u64::midpoint(low, high);
            let entry = self.base + u64::from(self.table.0) + middle * ENTRY;
            let (begin, end) = (read_u32(entry)?, read_u32(entry + 4)?);
            if rva < begin {
                high = middle;
            } else if rva >= end {
                low = middle + 1;
            } else {
                return Some(Function { entry, begin, unwind: read_u32(entry + 8)? });
            }
        }
        None
    }

    /// Unwinds one frame: afterwards the registers are those of its caller. `None` if the stack or
    /// the tables cannot be read.
    pub(super) fn unwind(
        &self,
        function: &Function,
        registers: &mut Context,
    ) -> Option<UnwoundFrame> {
        let mut info = UnwindInfo::read(self.base, function.unwind)?;
        let offset = registers.rip - self.base - u64::from(function.begin);
        let in_prologue = offset < info.prologue.into();
        let frame_is_set = info.frame_register != 0
            && (!in_prologue || info.codes().any(|code| code.0 == SET_FRAME && code.2 <= offset));
        let establisher = if frame_is_set {
            registers.general[info.frame_register].wrapping_sub(info.frame_offset)
        } else {
            registers.general[RSP]
        };
        let handler = info.handler.filter(|_| !in_prologue);
        let mut limit = if in_prologue { offset } else { u64::MAX };
        let mut machine_frame = false;
        for _ in 0..MAX_CHAIN {
            machine_frame |= info.undo(registers, limit)?;
            let Some(parent) = info.chained else { break };
            info = UnwindInfo::read(self.base, parent)?;
            limit = u64::MAX; // A chained entry begins after the prologue of its parent.
        }
        if !machine_frame {
            registers.rip = read_u64(registers.general[RSP])?;
            registers.general[RSP] = registers.general[RSP].wrapping_add(8);
        }
        Some(UnwoundFrame { establisher, handler })
    }
}

const PUSH_REGISTER: u8 = 0;
const ALLOCATE_LARGE: u8 = 1;
const ALLOCATE_SMALL: u8 = 2;
const SET_FRAME: u8 = 3;
const SAVE_REGISTER: u8 = 4;
const SAVE_REGISTER_FAR: u8 = 5;
const SAVE_XMM: u8 = 8;
const SAVE_XMM_FAR: u8 = 9;
const MACHINE_FRAME: u8 = 10;

/// The unwind information of a function.
struct UnwindInfo {
    prologue: u8,
    frame_register: usize,
    frame_offset: u64,
    /// The codes, in a signal handler without an allocation, and their number.
    slots: ([u16; 256], usize),
    handler: Option<Handler>,
    chained: Option<u32>,
}

impl UnwindInfo {
    fn read(base: u64, rva: u32) -> Option<Self> {
        let at = base + u64::from(rva);
        let mut head = [0; 4];
        (read_memory(at, &mut head) == head.len()).then_some(())?;
        let [version_and_flags, prologue, count, frame] = head;
        let flags = version_and_flags >> 3;
        let mut slots = [0; 256];
        for (index, slot) in slots.iter_mut().take(count.into()).enumerate() {
            *slot = read_u16(at + 4 + index as u64 * 2)?;
        }
        let behind = at + 4 + u64::from(count.next_multiple_of(2)) * 2;
        let chained = if flags & CHAINED != 0 { Some(read_u32(behind + 8)?) } else { None };
        let handled = flags & (HANDLES_EXCEPTIONS | HANDLES_UNWIND) != 0 && chained.is_none();
        let handler = if handled {
            Some(Handler {
                routine: base + u64::from(read_u32(behind)?),
                data: behind + 4,
                exceptions: flags & HANDLES_EXCEPTIONS != 0,
                unwinds: flags & HANDLES_UNWIND != 0,
            })
        } else {
            None
        };
        Some(Self {
            prologue,
            frame_register: usize::from(frame & 0xf),
            frame_offset: u64::from(frame >> 4) * 16,
            slots: (slots, count.into()),
            handler,
            chained,
        })
    }

    /// The codes: operation, its information, the offset behind its instruction, and its operand.
    fn codes(&self) -> impl Iterator<Item = (u8, u8, u64, u64)> {
        let slots = &self.slots.0[..self.slots.1];
        let mut at = 0;
        std::iter::from_fn(move || {
            let slot = *slots.get(at)?;
            let [offset, operation] = slot.to_le_bytes();
            let (operation, info) = (operation & 0xf, operation >> 4);
            let extra = |index: usize| u64::from(slots.get(at + index).copied().unwrap_or(0));
            let far = extra(1) | extra(2) << 16;
            let (length, operand) = match (operation, info) {
                (ALLOCATE_LARGE, 0) | (SAVE_REGISTER, _) => (2, extra(1) * 8),
                (ALLOCATE_LARGE | SAVE_REGISTER_FAR | SAVE_XMM_FAR, _) => (3, far),
                (SAVE_XMM, _) => (2, extra(1) * 16),
                (ALLOCATE_SMALL, _) => (1, u64::from(info) * 8 + 8),
                _ => (1, 0),
            };
            at += length;
            Some((operation, info, offset.into(), operand))
        })
    }

    /// Undoes the part of the prologue up to an offset. Returns whether it was entered by a trap.
    fn undo(&self, registers: &mut Context, limit: u64) -> Option<bool> {
        for (operation, info, offset, operand) in self.codes() {
            if offset > limit {
                continue;
            }
            let stack = registers.general[RSP];
            let register = usize::from(info);
            match operation {
                PUSH_REGISTER => {
                    registers.general[register] = read_u64(stack)?;
                    registers.general[RSP] = stack.wrapping_add(8);
                }
                ALLOCATE_LARGE | ALLOCATE_SMALL => {
                    registers.general[RSP] = stack.wrapping_add(operand);
                }
                SET_FRAME => {
                    registers.general[RSP] =
                        registers.general[self.frame_register].wrapping_sub(self.frame_offset);
                }
                SAVE_REGISTER | SAVE_REGISTER_FAR => {
                    registers.general[register] = read_u64(stack.wrapping_add(operand))?;
                }
                SAVE_XMM | SAVE_XMM_FAR => {
                    let at = stack.wrapping_add(operand);
                    let (low, high) = (read_u64(at)?, read_u64(at.wrapping_add(8))?);
                    registers.xmm[register] = u128::from(low) | u128::from(high) << 64;
                }
                MACHINE_FRAME => {
                    let at = stack.wrapping_add(u64::from(info) * 8);
                    registers.rip = read_u64(at)?;
                    registers.general[RSP] = read_u64(at.wrapping_add(24))?;
                    return Some(true);
                }
                _ => (),
            }
        }
        Some(false)
    }
}

pub(super) fn read_u64(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (read_memory(address, &mut bytes) == bytes.len()).then(|| u64::from_le_bytes(bytes))
}

pub(super) fn read_u32(address: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    (read_memory(address, &mut bytes) == bytes.len()).then(|| u32::from_le_bytes(bytes))
}

fn read_u16(address: u64) -> Option<u16> {
    let mut bytes = [0; 2];
    (read_memory(address, &mut bytes) == bytes.len()).then(|| u16::from_le_bytes(bytes))
}
