//! General protection faults: the system reports each as an access to address zero, whatever the
//! instruction did.

use super::context::Context;
use super::crash::{CrashKind, CrashRecord};
use super::emulate::{decode, value_of};
use super::exception::ACCESS_VIOLATION;
use super::signals::{Interrupted, read_memory};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// The number of the processor's exception.
const GENERAL_PROTECTION: u64 = 13;

/// The address that an exception has for a general protection fault.
///
/// WINDOWS: observed.
pub(super) const NO_ADDRESS: u64 = u64::MAX;

/// `STATUS_PRIVILEGED_INSTRUCTION`.
pub(super) const PRIVILEGED_INSTRUCTION: u32 = 0xC000_0096;

/// What caused a general protection fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtectionFault {
    /// An instruction that the kernel alone may execute.
    Privileged,
    /// A software interrupt, with its number.
    Interrupt(u8),
    /// A branch to this address, which is no canonical one.
    Branch(u64),
    /// An access to memory: its address is not canonical, or not aligned.
    Access,
}

impl ProtectionFault {
    /// The cause of the fault of interrupted code. `None` if it was another fault.
    pub(super) fn of(signal: libc::c_int, interrupted: &Interrupted<'_>) -> Option<Self> {
        if signal != libc::SIGSEGV || interrupted.exception() != GENERAL_PROTECTION {
            return None;
        }
        let (code, length) = interrupted.code();
        let instruction = decode(&code[..length], interrupted.instruction());
        let register = |register: Register| value_of(interrupted, register);
        Some(cause(&instruction, interrupted.instruction(), register, word_at))
    }

    /// The cause of an exception that no handler took. `None` if it was no general protection fault.
    pub(super) fn of_exception(
        code: u32,
        parameters: &[u64; 15],
        raised: &Context,
    ) -> Option<Self> {
        const BREAKPOINT: u32 = 0x8000_0003;
        const ILLEGAL_INSTRUCTION: u32 = 0xC000_001D;
        let mut bytes = [0; 16];
        let length = read_memory(raised.rip, &mut bytes);
        let instruction = decode(&bytes[..length], raised.rip);
        let register = |register: Register| match register {
            Register::RIP => raised.rip,
            register if register.is_gpr() => raised.general[register.full_register().number()],
            _ => 0, // A segment whose base is zero.
        };
        let cause = cause(&instruction, raised.rip, register, word_at);
        let is_cause = match cause {
            Self::Privileged => code == PRIVILEGED_INSTRUCTION,
            Self::Interrupt(0x2d) => code == BREAKPOINT,
            Self::Interrupt(_) => code == ILLEGAL_INSTRUCTION,
            Self::Branch(_) | Self::Access => {
                code == ACCESS_VIOLATION && parameters[..2] == [0, NO_ADDRESS]
            }
        };
        is_cause.then_some(cause)
    }

    /// Adds the cause to a record.
    pub(super) fn describe(self, record: &mut CrashRecord) {
        record.general_protection = 1;
        if let Self::Branch(target) = self {
            record.branch_target = target;
        }
    }

    /// What the fault means for the driver.
    pub(super) fn kind(self) -> CrashKind {
        match self {
            Self::Interrupt(0x29) => CrashKind::FastFail,
            Self::Interrupt(0x2c | 0x2d) => CrashKind::Breakpoint,
            Self::Privileged | Self::Interrupt(_) => CrashKind::Instruction,
            Self::Branch(_) | Self::Access => CrashKind::Access,
        }
    }
}

/// The word at an address. `None` if it cannot be read.
fn word_at(address: u64) -> Option<u64> {
    let mut word = [0; 8];
    (read_memory(address, &mut word) == word.len()).then(|| u64::from_le_bytes(word))
}

fn cause(
    instruction: &Instruction,
    at: u64,
    register: impl Fn(Register) -> u64,
    word_at: impl Fn(u64) -> Option<u64>,
) -> ProtectionFault {
    if !is_canonical(at) {
        return ProtectionFault::Branch(at);
    }
    if instruction.mnemonic() == Mnemonic::Int {
        return ProtectionFault::Interrupt(instruction.immediate8());
    }
    if instruction.is_privileged() {
        return ProtectionFault::Privileged;
    }
    let flow = instruction.flow_control();
    let target = match flow {
        FlowControl::Return => word_at(register(Register::RSP)),
        FlowControl::IndirectBranch | FlowControl::IndirectCall
            if instruction.op0_kind() == OpKind::Register =>
        {
            Some(register(instruction.op0_register()))
        }
        FlowControl::IndirectBranch | FlowControl::IndirectCall => {
            let operand = instruction.virtual_address(0, 0, |name, _, _| Some(register(name)));
            operand.and_then(word_at)
        }
        _ => None,
    };
    match target.filter(|target| !is_canonical(*target)) {
        Some(target) => ProtectionFault::Branch(target),
        None => ProtectionFault::Access,
    }
}

/// Whether an address is one that the processor has: its upper 17 bits are equal.
fn is_canonical(address: u64) -> bool {
    let upper = address.cast_signed() >> 47;
    upper == 0 || upper == -1
}

/// An instruction that a process may not execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedInstruction {
    /// One that the kernel alone may execute, by its name.
    Privileged(String),
    /// A software interrupt, with its number.
    Interrupt(u8),
}

impl CrashRecord {
    /// The instruction that a process may not execute, if it was the reason of the fault.
    pub fn refused_instruction(&self) -> Option<RefusedInstruction> {
        if self.general_protection == 0 || self.kind() != CrashKind::Instruction {
            return None;
        }
        let instruction =
            Decoder::with_ip(64, &self.code, self.instruction, DecoderOptions::NONE).decode();
        Some(if instruction.mnemonic() == Mnemonic::Int {
            RefusedInstruction::Interrupt(instruction.immediate8())
        } else {
            RefusedInstruction::Privileged(format!("{:?}", instruction.mnemonic()).to_lowercase())
        })
    }

    /// The name of an instruction that the processor refused although the address of its operand is
    /// one of memory, and whether that address is not aligned to 16 bytes.
    pub fn refused_operand(&self) -> Option<(String, bool)> {
        let is_access = self.general_protection != 0 && self.kind() == CrashKind::Access;
        let address = self.accessed_address();
        if !is_access || self.branch_target != 0 || !address.is_none_or(is_canonical) {
            return None;
        }
        let instruction =
            Decoder::with_ip(64, &self.code, self.instruction, DecoderOptions::NONE).decode();
        let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
        Some((name, address.is_some_and(|address| address % 16 != 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProtectionFault::{Access, Branch, Interrupt, Privileged};

    const WILD: u64 = 0x5a5a_5a5a_5a5a_5a5a;

    #[test]
    fn the_cause_is_told_from_the_instruction() {
        let cause_of = |code: &[u8], at: u64| {
            let register = |register| match register {
                Register::RAX => WILD,
                Register::RSP => 0x1000,
                _ => 0,
            };
            let word_at = |address| match address {
                0x1000 | 0x2000 => Some(WILD),
                _ => None,
            };
            cause(&decode(code, at), at, register, word_at)
        };
        for (code, expected) in [
            (&[0x0f, 0x30][..], Privileged),                    // wrmsr
            (&[0x0f, 0x32], Privileged),                        // rdmsr
            (&[0xf4], Privileged),                              // hlt
            (&[0x0f, 0x22, 0xd8], Privileged),                  // mov cr3, rax
            (&[0x0f, 0x01, 0x10], Privileged),                  // lgdt [rax]
            (&[0xcd, 0x2d], Interrupt(0x2d)),                   // int 2Dh
            (&[0xcd, 0x2e], Interrupt(0x2e)),                   // int 2Eh
            (&[0xff, 0xe0], Branch(WILD)),                      // jmp rax
            (&[0xff, 0xd0], Branch(WILD)),                      // call rax
            (&[0xff, 0x14, 0x25, 0, 0x20, 0, 0], Branch(WILD)), // call [2000h]
            (&[0xc3], Branch(WILD)),                            // ret
            (&[0x48, 0x89, 0x08], Access),                      // mov [rax], rcx
            (&[0x0f, 0x28, 0x04, 0x25, 8, 0x20, 0, 0], Access), // movaps xmm0, [2008h]
            (&[0xff, 0x10], Access),                            // call [rax]
        ] {
            assert_eq!(cause_of(code, 0x40_0000), expected, "{code:x?}");
        }
        assert_eq!(cause_of(&[], WILD), Branch(WILD), "the branch was executed");
        assert_eq!(Interrupt(0x2d).kind(), CrashKind::Breakpoint);
    }

    #[test]
    fn a_record_names_the_instruction() {
        let mut record = CrashRecord::EMPTY;
        record.set_kind(CrashKind::Instruction);
        record.code[..2].copy_from_slice(&[0x0f, 0x30]);
        assert_eq!(record.refused_instruction(), None, "another fault");
        record.general_protection = 1;
        let name = Some(RefusedInstruction::Privileged("wrmsr".to_owned()));
        assert_eq!(record.refused_instruction(), name);
        record.code[..2].copy_from_slice(&[0xcd, 0x2e]);
        assert_eq!(record.refused_instruction(), Some(RefusedInstruction::Interrupt(0x2e)));
        record.set_kind(CrashKind::Access);
        record.code[..3].copy_from_slice(&[0x0f, 0x28, 0x00]); // movaps xmm0, [rax]
        record.registers[0] = 0x1008;
        assert_eq!(record.refused_operand(), Some(("movaps".to_owned(), true)));
        record.registers[0] = WILD;
        assert_eq!(record.refused_operand(), None);
    }
}
