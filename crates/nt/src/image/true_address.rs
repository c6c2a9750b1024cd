//! The address that an instruction accessed, from its operands and the registers: the system reports
//! zero for a non-canonical address, such as one from freed memory.

use super::crash::CrashRecord;
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register,
};

impl CrashRecord {
    /// The address that the faulting instruction accessed. `None` if it accesses no memory, or if
    /// the instruction is not known.
    pub fn accessed_address(&self) -> Option<u64> {
        let instruction = self.decoded();
        let operand = (0..instruction.op_count())
            .find(|index| instruction.op_kind(*index) == OpKind::Memory)?;
        let value = |register: Register| {
            if register.is_gpr() {
                Some(self.registers[register.full_register().number()])
            } else {
                Some(0) // A segment whose base is zero.
            }
        };
        instruction.virtual_address(operand, 0, |register, _, _| value(register))
    }

    /// Whether the faulting instruction writes to memory.
    pub fn writes_memory(&self) -> bool {
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(&self.decoded());
        info.used_memory().iter().any(|memory| {
            use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
            matches!(memory.access(), Write | CondWrite | ReadWrite | ReadCondWrite)
        })
    }

    fn decoded(&self) -> Instruction {
        Decoder::with_ip(64, &self.code, self.instruction, DecoderOptions::NONE).decode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_comes_from_the_registers() {
        let mut record = CrashRecord::EMPTY;
        record.code[..4].copy_from_slice(&[0x48, 0x89, 0x48, 0x10]); // mov [rax + 16], rcx
        record.registers[0] = 0xdddd_dddd_dddd_dddd;
        assert_eq!(record.accessed_address(), Some(0xdddd_dddd_dddd_dded));
        assert!(record.writes_memory());
        record.code[1] = 0x8b; // mov rcx, [rax + 16]
        assert_eq!((record.accessed_address().is_some(), record.writes_memory()), (true, false));
        record.code[0] = 0xc3; // ret
        assert_eq!(record.accessed_address(), None);
    }
}
