//! The C library functions that format text (`_snprintf`, `_vsnwprintf`, …), as the kernel exports
//! them.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires; the arguments have the
//! types that the format names.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::DriverMemory;
use crate::entry::guarded;
use crate::format::{Arguments, Characters, format, narrowed, widened};
use crate::import_table::{import_rows, variadic};

import_rows! {
    _snprintf lacks "no %e, %g and %n";
    _snwprintf lacks "no %e, %g and %n";
    _vsnprintf lacks "no %e, %g and %n";
    _vsnwprintf lacks "no %e, %g and %n";
    sprintf lacks "no %e, %g and %n";
    sprintf_s lacks "no %e, %g and %n";
    swprintf lacks "no %e, %g and %n";
    swprintf_s lacks "no %e, %g and %n";
    vsprintf lacks "no %e, %g and %n";
    vsprintf_s lacks "no %e, %g and %n";
    vswprintf_s lacks "no %e, %g and %n";
}

/// The longest format string.
const MAX_FORMAT: usize = 1 << 16;

/// A buffer for a result, in characters.
#[derive(Clone, Copy)]
struct Buffer {
    memory: DriverMemory,
    capacity: usize,
    characters: Characters,
}

impl Buffer {
    fn write(self, text: &[u16], from: usize) {
        match self.characters {
            Characters::Narrow => self.memory.part(from).write_bytes(&narrowed(text)),
            Characters::Wide => self.memory.part(from * 2).write_units(text),
        }
    }

    fn formatted(self, form: DriverMemory, arguments: Arguments) -> Vec<u16> {
        let units = match self.characters {
            Characters::Narrow => widened(&form.read_c_string(MAX_FORMAT)),
            Characters::Wide => form.read_wide_string(MAX_FORMAT),
        };
        format(&units, arguments, self.characters)
    }

    /// The functions with a count.
    ///
    /// WINDOWS: documented. A text shorter than the count gets a NUL; one of exactly the count does
    /// not; of a longer one the first `count` characters are stored and -1 is returned. Without a
    /// buffer the length is returned.
    fn counted(self, form: DriverMemory, arguments: Arguments) -> i32 {
        guarded(-1, || {
            let text = self.formatted(form, arguments);
            let length = i32::try_from(text.len()).unwrap_or(-1);
            if self.memory.is_null() {
                return if self.capacity == 0 { length } else { -1 };
            }
            self.write(&text[..text.len().min(self.capacity)], 0);
            if text.len() < self.capacity {
                self.write(&[0], text.len());
            }
            if text.len() > self.capacity { -1 } else { length }
        })
    }

    /// The functions without a count: the caller promises that there is room.
    fn unchecked(self, form: DriverMemory, arguments: Arguments) -> i32 {
        Self { capacity: usize::MAX, ..self }.counted(form, arguments)
    }

    /// The functions that end in `_s`.
    ///
    /// WINDOWS: the pages describe an invalid-parameter handler, which the kernel does not have:
    /// here the buffer is emptied and -1 returned.
    fn secure(self, form: DriverMemory, arguments: Arguments) -> i32 {
        guarded(-1, || {
            if self.memory.is_null() || self.capacity == 0 || form.is_null() {
                return -1;
            }
            let text = self.formatted(form, arguments);
            if text.len() >= self.capacity {
                self.write(&[0], 0);
                return -1;
            }
            self.write(&text, 0);
            self.write(&[0], text.len());
            i32::try_from(text.len()).unwrap_or(-1)
        })
    }
}

/// A length in a slot.
fn length(slot: u64) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

variadic! {
    /// Formats bytes into a buffer of a given length.
    _snprintf -> counted_narrow;
    /// Formats code units into a buffer of a given length.
    _snwprintf -> counted_wide;
    /// Formats bytes.
    sprintf -> unchecked_narrow;
    /// Formats bytes into a buffer of a given length, or fails.
    sprintf_s -> secure_narrow;
    /// Formats code units. WINDOWS: the kernel's function has no length.
    swprintf -> unchecked_wide;
    /// Formats code units into a buffer of a given length, or fails.
    swprintf_s -> secure_wide;
}

macro_rules! from_slots {
    ($($name:ident $characters:ident $method:ident $has_length:literal;)*) => {$(
        /// The variadic function with its arguments in memory.
        unsafe extern "win64-unwind" fn $name(slots: *const u64) -> i32 {
            // SAFETY: The caller's contract.
            let slots = unsafe { Arguments::at(slots) };
            let next = 1 + usize::from($has_length);
            let capacity = if $has_length { length(slots.slot(1)) } else { 0 };
            let buffer =
                Buffer { memory: slots.memory(0), capacity, characters: Characters::$characters };
            buffer.$method(slots.memory(next), slots.skip(next + 1))
        }
    )*};
}

from_slots! {
    counted_narrow Narrow counted true;
    counted_wide Wide counted true;
    unchecked_narrow Narrow unchecked false;
    secure_narrow Narrow secure true;
    unchecked_wide Wide unchecked false;
    secure_wide Wide secure true;
}

macro_rules! from_lists {
    ($($(#[doc = $doc:literal])+ $name:ident $unit:ident $characters:ident $method:ident;)*) => {$(
        $(#[doc = $doc])+
        pub unsafe extern "win64-unwind" fn $name(
            buffer: *mut $unit,
            capacity: usize,
            form: *const $unit,
            arguments: *const u64,
        ) -> i32 {
            // SAFETY: The caller's contract.
            let memory = unsafe { DriverMemory::at(buffer) };
            // SAFETY: The caller's contract.
            let form = unsafe { DriverMemory::at(form) };
            // SAFETY: The caller's contract.
            let arguments = unsafe { Arguments::at(arguments) };
            let buffer = Buffer { memory, capacity, characters: Characters::$characters };
            buffer.$method(form, arguments)
        }
    )*};
}

from_lists! {
    /// Formats bytes into a buffer of a given length.
    _vsnprintf u8 Narrow counted;
    /// Formats code units into a buffer of a given length.
    _vsnwprintf u16 Wide counted;
    /// Formats bytes into a buffer of a given length, or fails.
    vsprintf_s u8 Narrow secure;
    /// Formats code units into a buffer of a given length, or fails.
    vswprintf_s u16 Wide secure;
}

/// Formats bytes.
pub unsafe extern "win64-unwind" fn vsprintf(
    buffer: *mut u8,
    form: *const u8,
    arguments: *const u64,
) -> i32 {
    // SAFETY: The caller's contract.
    unsafe { _vsnprintf(buffer, usize::MAX, form, arguments) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{call, wide};

    #[test]
    fn a_count_cuts_off() {
        let print = |count: usize| {
            let mut buffer = *b"------";
            let form = c"%d".as_ptr().cast();
            let length = call!(_vsnprintf, buffer.as_mut_ptr(), count, form, [1234_u64].as_ptr());
            (length, buffer)
        };
        assert_eq!(print(6), (4, *b"1234\0-"));
        assert_eq!(print(4), (4, *b"1234--"), "no room for the NUL");
        assert_eq!(print(3), (-1, *b"123---"));
        let form = wide("%s!");
        let text = wide("ab");
        let slots = [text.as_ptr().expose_provenance() as u64];
        let mut buffer = [9_u16; 5];
        let length = call!(_vsnwprintf, buffer.as_mut_ptr(), 5, form.as_ptr(), slots.as_ptr());
        assert_eq!((length, buffer), (3, [97, 98, 33, 0, 9]));
        let none = std::ptr::null_mut();
        assert_eq!(call!(_vsnwprintf, none, 0, form.as_ptr(), slots.as_ptr()), 3);
    }

    #[test]
    fn the_variadic_ones_take_their_arguments_in_order() {
        type Counted = unsafe extern "win64-unwind" fn(*mut u8, usize, *const u8, i32, i32) -> i32;
        type Wide = unsafe extern "win64-unwind" fn(*mut u16, *const u16, i32, i32, i32) -> i32;
        // SAFETY: On x64 a call with these arguments is one of a variadic function.
        let snprintf: Counted = unsafe { std::mem::transmute(_snprintf as *const ()) };
        // SAFETY: As above.
        let sprintf_s: Counted = unsafe { std::mem::transmute(sprintf_s as *const ()) };
        // SAFETY: As above.
        let swprintf: Wide = unsafe { std::mem::transmute(swprintf as *const ()) };
        let mut buffer = [7_u8; 8];
        let form: *const u8 = c"%d+%d".as_ptr().cast();
        assert_eq!(call!(snprintf, buffer.as_mut_ptr(), 8, form, 12, 34), 5);
        assert_eq!(&buffer, b"12+34\0\x07\x07");
        assert_eq!(call!(sprintf_s, buffer.as_mut_ptr(), 6, form, 56, 78), 5);
        assert_eq!(&buffer[..6], b"56+78\0");
        assert_eq!(call!(sprintf_s, buffer.as_mut_ptr(), 5, form, 56, 78), -1);
        assert_eq!(buffer[0], 0, "it is emptied");
        let mut units = [7_u16; 8];
        let form = wide("%d%d%d");
        assert_eq!(call!(swprintf, units.as_mut_ptr(), form.as_ptr(), 1, 2, 3), 3);
        assert_eq!(units[..5], [49, 50, 51, 0, 7]);
    }

    #[test]
    fn without_a_length_everything_is_written() {
        let mut buffer = [7_u8; 8];
        let form = c"%x".as_ptr().cast();
        assert_eq!(call!(vsprintf, buffer.as_mut_ptr(), form, [0xABCD_u64].as_ptr()), 4);
        assert_eq!(&buffer, b"abcd\0\x07\x07\x07");
        assert_eq!(call!(vsprintf_s, buffer.as_mut_ptr(), 4, form, [0xABCD_u64].as_ptr()), -1);
        let form = wide("%x");
        let mut units = [7_u16; 5];
        let (to, slots) = (units.as_mut_ptr(), [0xABCD_u64]);
        assert_eq!(call!(vswprintf_s, to, 5, form.as_ptr(), slots.as_ptr()), 4);
        assert_eq!(units[3..], [100, 0]);
    }
}
