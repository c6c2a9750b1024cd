//! Tests of unwinding, with a function table and a stack made here.

use super::context::{Context, RSP};
use super::unwind::FunctionTable;

const RBX: usize = 3;
const RBP: usize = 5;
const RSI: usize = 6;

/// The caller's instruction and register that the stacks contain.
const RETURN: u64 = 0x1234_5678;
const SAVED: u64 = 0xabcd;

/// An image that consists of a function table at 0 and of unwind information, and a stack.
struct Frames {
    image: Vec<u8>,
    stack: Vec<u64>,
}

impl Frames {
    /// One function at 0x100 to 0x200 with this unwind information.
    fn new(unwind_info: &[u8], stack: &[u64]) -> Self {
        let mut image = vec![0; 0x400];
        for (at, value) in [(0, 0x100_u32), (4, 0x200), (8, 0x40)] {
            image[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        image[0x40..0x40 + unwind_info.len()].copy_from_slice(unwind_info);
        Self { image, stack: stack.to_vec() }
    }

    fn table(&self) -> FunctionTable {
        FunctionTable { base: address(&self.image), size: self.image.len() as u64, table: (0, 12) }
    }

    /// The registers at an offset of the function.
    fn registers(&self, offset: u64) -> Context {
        let mut registers = Context::ZERO;
        registers.rip = address(&self.image) + 0x100 + offset;
        registers.general[RSP] = address(&self.stack);
        registers
    }

    /// Unwinds; the stack pointer afterwards is that behind the return address, the last value.
    fn unwind(&self, registers: &mut Context) -> super::unwind::UnwoundFrame {
        let table = self.table();
        let function = table.find(registers.rip).unwrap();
        let frame = table.unwind(&function, registers).unwrap();
        let end = address(&self.stack) + self.stack.len() as u64 * 8;
        assert_eq!((registers.rip, registers.general[RSP]), (RETURN, end));
        frame
    }
}

fn address<T>(memory: &[T]) -> u64 {
    memory.as_ptr().expose_provenance() as u64
}

#[test]
fn the_function_of_an_address_is_found() {
    let mut image = vec![0; 0x400];
    let entries: [[u32; 3]; 3] = [[0x100, 0x150, 0x40], [0x150, 0x200, 0x50], [0x300, 0x340, 0x60]];
    for (bytes, value) in image.chunks_exact_mut(4).zip(entries.as_flattened()) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
    let base = address(&image);
    let table = FunctionTable { base, size: 0x400, table: (0, 36) };
    let entry = |rva: u64| table.find(base + rva).map(|function| function.entry - base);
    let found = [0x100, 0x14f, 0x150, 0x1ff, 0x300, 0x33f].map(entry);
    assert_eq!(found, [Some(0), Some(0), Some(12), Some(12), Some(24), Some(24)]);
    assert_eq!([0xff, 0x200, 0x2ff, 0x340].map(entry), [None; 4]);
    assert_eq!(table.find(base - 1), None);
    assert!(table.contains(base + 0x3ff) && !table.contains(base + 0x400));
}

/// `push rbx; sub rsp, 20h`.
const PUSH_AND_ALLOCATE: &[u8] = &[1, 5, 2, 0, 5, 0x32, 1, 0x30];

#[test]
fn the_body_of_a_function_is_unwound() {
    let frames = Frames::new(PUSH_AND_ALLOCATE, &[0, 0, 0, 0, SAVED, RETURN]);
    let mut registers = frames.registers(0x20);
    let frame = frames.unwind(&mut registers);
    assert_eq!(registers.general[RBX], SAVED);
    assert_eq!(frame.establisher, address(&frames.stack));
    assert!(frame.handler.is_none());
}

#[test]
fn a_prologue_is_unwound_as_far_as_it_ran() {
    let nothing_ran = Frames::new(PUSH_AND_ALLOCATE, &[RETURN]);
    let mut registers = nothing_ran.registers(0);
    nothing_ran.unwind(&mut registers);
    assert_eq!(registers.general[RBX], 0);
    let pushed = Frames::new(PUSH_AND_ALLOCATE, &[SAVED, RETURN]);
    let mut registers = pushed.registers(1);
    pushed.unwind(&mut registers);
    assert_eq!(registers.general[RBX], SAVED);
}

#[test]
fn a_frame_register_is_used_instead_of_the_stack_pointer() {
    // push rbp; sub rsp, 20h; lea rbp, [rsp+10h]; then the stack pointer goes down by 16 bytes.
    let info = &[1, 10, 3, 0x15, 10, 0x03, 5, 0x32, 1, 0x50];
    let frames = Frames::new(info, &[9, 9, 0, 0, 0, 0, SAVED, RETURN]);
    let mut registers = frames.registers(0x20);
    registers.general[RBP] = address(&frames.stack) + 16 + 0x10;
    let frame = frames.unwind(&mut registers);
    assert_eq!(registers.general[RBP], SAVED);
    assert_eq!(frame.establisher, address(&frames.stack) + 16);
}

#[test]
fn large_allocations_and_saved_registers_are_unwound() {
    // sub rsp, 30h as a large allocation; rsi at 18h, xmm6 at 20h.
    let info = &[1, 12, 6, 0, 12, 0x68, 2, 0, 9, 0x64, 3, 0, 4, 0x01, 6, 0];
    let frames = Frames::new(info, &[0, 0, 0, SAVED, 5, 7, RETURN]);
    let mut registers = frames.registers(0x20);
    frames.unwind(&mut registers);
    assert_eq!(registers.general[RSI], SAVED);
    assert_eq!(registers.xmm[6], 7 << 64 | 5);
}

#[test]
fn a_chained_entry_is_unwound_with_its_parent() {
    // The part saves rsi at 8; the parent (at 50h) has `sub rsp, 10h`.
    let mut info = vec![0x21, 4, 2, 0, 4, 0x64, 1, 0];
    info.extend([0x100_u32, 0x200, 0x60].map(u32::to_le_bytes).as_flattened());
    info.resize(0x20, 0);
    info.extend([1, 4, 1, 0, 4, 0x12]);
    let frames = Frames::new(&info, &[0, SAVED, RETURN]);
    let mut registers = frames.registers(0x20);
    frames.unwind(&mut registers);
    assert_eq!(registers.general[RSI], SAVED);
}

#[test]
fn a_machine_frame_has_the_instruction_and_the_stack_pointer() {
    let info = &[1, 0, 1, 0, 0, 0x0a];
    // rip, cs, eflags, rsp, ss.
    let mut frames = Frames::new(info, &[RETURN, 0x33, 0x202, 0, 0x2b]);
    frames.stack[3] = address(&frames.stack) + 5 * 8;
    frames.unwind(&mut frames.registers(0x20));
}

#[test]
fn a_handler_is_found_in_the_body_only() {
    // An exception handler at 300h with its data behind it; `sub rsp, 8`.
    let mut info = vec![0x09, 4, 1, 0, 4, 0x02, 0, 0];
    info.extend(0x300_u32.to_le_bytes());
    let frames = Frames::new(&info, &[0, RETURN]);
    let handler = frames.unwind(&mut frames.registers(0x20)).handler.unwrap();
    let base = address(&frames.image);
    assert_eq!((handler.routine, handler.data), (base + 0x300, base + 0x40 + 12));
    assert!(handler.exceptions && !handler.unwinds);
    let prologue = Frames::new(&info, &[RETURN]);
    assert!(prologue.unwind(&mut prologue.registers(0)).handler.is_none());
}

#[test]
fn a_stack_that_cannot_be_read_ends_the_unwinding() {
    let frames = Frames::new(PUSH_AND_ALLOCATE, &[]);
    let mut registers = frames.registers(0x20);
    registers.general[RSP] = 0;
    let table = frames.table();
    let function = table.find(registers.rip).unwrap();
    assert!(table.unwind(&function, &mut registers).is_none());
}
