//! `memcpy`, `memmove`, `memset` and `__chkstk`, as an image imports them.
//!
//! They are leaf functions without a frame that change only registers which a caller does not rely
//! on. So a fault in them is unwound like a fault of their caller, and a driver that copies from a
//! bad address inside `__try` gets its exception.
#![expect(unsafe_code, reason = "copies a driver's memory")]

use crate::import_table::import_rows;
use std::arch::naked_asm;

import_rows! {
    __chkstk;
    memcpy;
    memmove;
    memset;
}

/// Whether an address is in one of the functions that have no frame of their own.
pub(crate) fn is_leaf(address: u64) -> bool {
    /// No function here is longer.
    const LONGEST: u64 = 160;
    let starts = [memcpy as *const (), memmove as *const (), memset as *const ()];
    starts.iter().any(|start| {
        let start = start.addr() as u64;
        (start..start + LONGEST).contains(&address)
    })
}

/// Whether an address is in the function that touches the pages of a large frame.
pub(crate) fn is_stack_probe(address: u64) -> bool {
    const LENGTH: u64 = 64;
    let start = (__chkstk as *const ()).addr() as u64;
    (start..start + LENGTH).contains(&address)
}

/// Copies memory; the ranges may overlap. Returns the destination.
///
/// # Safety
///
/// As for C's `memmove`.
#[unsafe(naked)]
pub(crate) unsafe extern "win64" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    naked_asm!(
        "mov rax, rcx",
        "mov r9, rcx",
        "sub r9, rdx",
        "cmp r9, r8", // Below the length: the destination is inside the source.
        "jb 4f",
        // Forwards, eight bytes at a time, then one.
        "2: cmp r8, 8",
        "jb 3f",
        "mov r10, [rdx]",
        "mov [rcx], r10",
        "add rdx, 8",
        "add rcx, 8",
        "sub r8, 8",
        "jmp 2b",
        "3: test r8, r8",
        "jz 6f",
        "mov r10b, [rdx]",
        "mov [rcx], r10b",
        "inc rdx",
        "inc rcx",
        "dec r8",
        "jmp 3b",
        // Backwards.
        "4: test r8, r8",
        "jz 6f",
        "5: mov r10b, [rdx + r8 - 1]",
        "mov [rcx + r8 - 1], r10b",
        "dec r8",
        "jnz 5b",
        "6: ret",
    )
}

/// Copies memory. Returns the destination.
///
/// WINDOWS: the ranges must not overlap; a copy that overlaps does what `memmove` does (observed).
///
/// # Safety
///
/// As for C's `memcpy`.
#[unsafe(naked)]
pub(crate) unsafe extern "win64" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    naked_asm!("jmp {}", sym memmove)
}

/// Fills memory. Returns the destination.
///
/// # Safety
///
/// As for C's `memset`.
#[unsafe(naked)]
pub(crate) unsafe extern "win64" fn memset(to: *mut u8, value: i32, bytes: usize) -> *mut u8 {
    naked_asm!(
        "mov rax, rcx",
        "movzx r10d, dl",
        "mov r11, 0x0101010101010101",
        "imul r10, r11",
        "2: cmp r8, 8",
        "jb 3f",
        "mov [rcx], r10",
        "add rcx, 8",
        "sub r8, 8",
        "jmp 2b",
        "3: test r8, r8",
        "jz 4f",
        "mov [rcx], r10b",
        "inc rcx",
        "dec r8",
        "jmp 3b",
        "4: ret",
    )
}

/// Touches each page of a large stack frame. The frame's size is in rax, which is kept.
///
/// # Safety
///
/// Called by compiled code only, before it moves its stack pointer.
#[unsafe(naked)]
pub(crate) unsafe extern "win64" fn __chkstk() {
    naked_asm!(
        "lea r10, [rsp + 8]",
        "mov r11, r10",
        "sub r11, rax",
        "jb 3f",
        "2: sub r10, 4096",
        "cmp r10, r11",
        "jb 3f",
        "test byte ptr [r10], 0",
        "jmp 2b",
        "3: ret",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(from: usize, to: usize, bytes: usize) -> Vec<u8> {
        let mut memory: Vec<u8> = (0..40).collect();
        let start = memory.as_mut_ptr();
        // SAFETY: Both ranges are inside the vector.
        let result = unsafe { memmove(start.wrapping_add(to), start.wrapping_add(from), bytes) };
        assert_eq!(result, start.wrapping_add(to));
        memory
    }

    #[test]
    fn overlapping_ranges_are_moved_in_either_direction() {
        for (from, to, bytes) in [(0, 20, 17), (0, 3, 20), (3, 0, 20), (5, 5, 9), (1, 2, 0)] {
            let mut expected: Vec<u8> = (0..40).collect();
            expected.copy_within(from..from + bytes, to);
            assert_eq!(moved(from, to, bytes), expected, "{from} to {to}, {bytes} bytes");
        }
    }

    #[test]
    fn memory_is_filled_and_copied() {
        let mut memory = [0_u8; 30];
        let start = memory.as_mut_ptr();
        // SAFETY: The range is inside the array.
        unsafe { memset(start.wrapping_add(1), 0x17a, 27) };
        assert_eq!((memory[0], memory[1], memory[27], memory[28]), (0, 0x7a, 0x7a, 0));
        let from = [9_u8; 3];
        // SAFETY: Both ranges are inside their arrays.
        unsafe { memcpy(memory.as_mut_ptr(), from.as_ptr(), 3) };
        assert_eq!(memory[..4], [9, 9, 9, 0x7a]);
    }
}
