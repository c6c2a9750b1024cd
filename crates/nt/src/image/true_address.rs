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

    /// The pointers that the operand of the faulting instruction is made from: the values of its base
    /// and of an index that is not scaled. Zero for each that it does not have.
    ///
    /// The handler of a fault calls it.
    pub(super) fn operand_pointers(&self) -> [u64; 2] {
        let instruction = self.decoded();
        if !(0..instruction.op_count()).any(|it| instruction.op_kind(it) == OpKind::Memory) {
            return [0; 2];
        }
        let value = |register: Register| match register {
            register if register.is_gpr64() => self.registers[register.number()],
            _ => 0,
        };
        let is_scaled = instruction.memory_index_scale() != 1;
        let index = if is_scaled { Register::None } else { instruction.memory_index() };
        [value(instruction.memory_base()), value(index)]
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
        assert_eq!(record.operand_pointers(), [0xdddd_dddd_dddd_dddd, 0]);
        record.code[1] = 0x8b; // mov rcx, [rax + 16]
        assert_eq!((record.accessed_address().is_some(), record.writes_memory()), (true, false));
        record.code[0] = 0xc3; // ret
        assert_eq!((record.accessed_address(), record.operand_pointers()), (None, [0; 2]));
        record.code[..4].copy_from_slice(&[0x8b, 0x04, 0x0a, 0x90]); // mov eax, [rdx + rcx]
        (record.registers[1], record.registers[2]) = (7, 9);
        assert_eq!(record.operand_pointers(), [9, 7]);
        record.code[2] = 0x8a; // mov eax, [rdx + rcx * 4]
        assert_eq!(record.operand_pointers(), [9, 0]);
    }
}
