//! The code between a driver's import and our function.
//!
//! A thunk records the return address, the stack pointer, the frame pointer and the number of the
//! import in the processor block, then jumps to the function. So an event or a fault in our function
//! has the place in the driver that called it. If the stack pointer is lower than at any call before,
//! the use of the stack is measured first.

use super::mapping::{Mapping, Protection};
use super::parse::ImageError;
use super::processor_block::{CALLER, CALLER_FRAME, CALLER_STACK, IMPORT_NUMBER, LOWEST_CALL};
use super::stack_use::{call_is_lower, frame_is_lower};
use crate::crt_memory::__chkstk;

/// The room for one thunk.
const THUNK: usize = 96;

/// The thunks of an image.
#[derive(Debug)]
pub(super) struct Thunks(Mapping);

impl Thunks {
    /// Writes a thunk for each target address.
    pub(super) fn new(targets: &[usize]) -> Result<Self, ImageError> {
        let mapping = Mapping::new((targets.len() * THUNK).max(1))?;
        for (number, target) in targets.iter().enumerate() {
            mapping.write(number * THUNK, &code(number, *target));
        }
        mapping.protect(0..mapping.range().len(), Protection::Execute)?;
        Ok(Self(mapping))
    }

    /// The address of a thunk.
    pub(super) fn address(&self, number: usize) -> usize {
        self.0.start() + number * THUNK
    }
}

/// The code of a thunk. It changes r11 and the flags only, which a caller does not rely on, not even that of
/// `__chkstk`.
fn code(number: usize, target: usize) -> Vec<u8> {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let mut code = Vec::with_capacity(THUNK);
    code.extend([0x4c, 0x8b, 0x1c, 0x24]); // mov r11, [rsp]
    code.extend([0x65, 0x4c, 0x89, 0x1c, 0x25]); // mov gs:[CALLER], r11
    code.extend(CALLER.to_le_bytes());
    code.extend([0x65, 0x48, 0x89, 0x24, 0x25]); // mov gs:[CALLER_STACK], rsp
    code.extend(CALLER_STACK.to_le_bytes());
    code.extend([0x65, 0x48, 0x89, 0x2c, 0x25]); // mov gs:[CALLER_FRAME], rbp
    code.extend(CALLER_FRAME.to_le_bytes());
    code.extend([0x65, 0xc7, 0x04, 0x25]); // mov dword gs:[IMPORT_NUMBER], number
    code.extend(IMPORT_NUMBER.to_le_bytes());
    code.extend(number.to_le_bytes());
    // A probe has the size of a frame in rax.
    let measure = if target == (__chkstk as *const ()).addr() {
        code.extend([0x49, 0x89, 0xe3]); // mov r11, rsp
        code.extend([0x49, 0x29, 0xc3]); // sub r11, rax
        code.extend([0x65, 0x4c, 0x3b, 0x1c, 0x25]); // cmp r11, gs:[LOWEST_CALL]
        frame_is_lower as *const ()
    } else {
        code.extend([0x65, 0x48, 0x3b, 0x24, 0x25]); // cmp rsp, gs:[LOWEST_CALL]
        call_is_lower as *const ()
    };
    code.extend(LOWEST_CALL.to_le_bytes());
    code.extend([0x73, 6]); // jae over the call
    code.extend([0xff, 0x15, 14, 0, 0, 0]); // call [rip + 14]
    code.extend([0xff, 0x25, 0, 0, 0, 0]); // jmp [rip]
    code.extend(target.to_le_bytes());
    code.extend(measure.expose_provenance().to_le_bytes());
    code
}
