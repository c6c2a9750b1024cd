//! The C library functions for strings, as the kernel exports them. Those that format text are in
//! `crt_format.rs`.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::{DriverMemory, Plain};
use crate::import_table::import_rows;
use crate::rtl_string::upcase;
use std::ffi::c_void;
use std::ptr;

import_rows! {
    _stricmp;
    _strnicmp;
    _wcsicmp;
    _wcsnicmp;
    atoi;
    memchr;
    memcmp;
    strcat;
    strcat_s;
    strchr;
    strcmp;
    strcpy;
    strcpy_s;
    strlen;
    strncmp;
    strncpy;
    strncpy_s;
    strnlen;
    strrchr;
    strstr;
    tolower;
    toupper;
    towlower;
    towupper;
    wcscat;
    wcscat_s;
    wcschr;
    wcscmp;
    wcscpy;
    wcscpy_s;
    wcslen;
    wcsncmp;
    wcsncpy;
    wcsncpy_s;
    wcsnlen;
    wcsrchr;
    wcsstr;
}

/// `errno_t` of the functions that end in `_s`.
const EINVAL: i32 = 22;
const ERANGE: i32 = 34;
/// The count that means "cut off what does not fit" (`_TRUNCATE`).
const TRUNCATE: usize = usize::MAX;
/// The status of a string that was cut off.
const STRUNCATE: i32 = 80;

/// A character: `char` or `wchar_t`.
trait Character: Plain + Eq + Into<i32> {
    fn lower(self) -> Self;
    const SIZE: usize = size_of::<Self>();
}

impl Character for u8 {
    fn lower(self) -> Self {
        self.to_ascii_lowercase()
    }
}

impl Character for u16 {
    fn lower(self) -> Self {
        // WINDOWS: in the C locale only these letters have two cases.
        u8::try_from(self).map_or(self, |letter| letter.to_ascii_lowercase().into())
    }
}

/// A string that ends with a NUL, in the driver's memory.
#[derive(Clone, Copy)]
struct CString<C> {
    memory: DriverMemory,
    character: std::marker::PhantomData<C>,
}

impl<C: Character> CString<C> {
    /// # Safety
    ///
    /// The pointer is valid for the characters that the caller of the methods names.
    unsafe fn at(pointer: *const C) -> Self {
        // SAFETY: The caller's contract.
        let memory = unsafe { DriverMemory::at(pointer) };
        Self { memory, character: std::marker::PhantomData }
    }

    fn get(self, index: usize) -> C {
        self.memory.read(index * C::SIZE)
    }

    fn set(self, index: usize, character: C) {
        self.memory.write(index * C::SIZE, character);
    }

    fn pointer(self, index: usize) -> *mut C {
        self.memory.part(index * C::SIZE).pointer()
    }

    fn length(self, limit: usize) -> usize {
        (0..limit).find(|index| self.get(*index) == C::ZERO).unwrap_or(limit)
    }

    fn compare(self, other: Self, limit: usize, fold: impl Fn(C) -> C) -> i32 {
        for index in 0..limit {
            let (one, other) = (fold(self.get(index)), fold(other.get(index)));
            if one != other || one == C::ZERO {
                return one.into() - other.into();
            }
        }
        0
    }

    /// The first occurrence of a character; the NUL counts.
    fn find(self, wanted: C) -> Option<usize> {
        let end = self.length(usize::MAX);
        (0..=end).find(|index| self.get(*index) == wanted)
    }

    fn find_last(self, wanted: C) -> Option<usize> {
        let end = self.length(usize::MAX);
        (0..=end).rev().find(|index| self.get(*index) == wanted)
    }

    fn find_string(self, wanted: Self) -> Option<usize> {
        let (length, wanted_length) = (self.length(usize::MAX), wanted.length(usize::MAX));
        let last = length.checked_sub(wanted_length)?;
        (0..=last).find(|start| (0..wanted_length).all(|at| self.get(start + at) == wanted.get(at)))
    }

    /// Copies at most `count` characters behind `from`, and a NUL. Returns `ERANGE` and empties the
    /// buffer of `room` characters if they do not fit.
    fn copy_secure(self, room: usize, from: usize, source: Self, count: usize) -> i32 {
        if self.memory.is_null() || room == 0 {
            return EINVAL;
        }
        if source.memory.is_null() {
            self.set(0, C::ZERO);
            return EINVAL;
        }
        let free = room.saturating_sub(from);
        let limit = if count == TRUNCATE { free } else { count.min(free) };
        let length = source.length(limit);
        if length < free {
            self.copy(from, source, length);
            self.set(from + length, C::ZERO);
            return 0;
        }
        if count == TRUNCATE && free != 0 {
            self.copy(from, source, free - 1);
            self.set(room - 1, C::ZERO);
            return STRUNCATE;
        }
        self.set(0, C::ZERO);
        ERANGE
    }

    fn copy(self, from: usize, source: Self, length: usize) {
        for index in 0..length {
            self.set(from + index, source.get(index));
        }
    }
}

/// The functions that exist for `char` and for `wchar_t`.
macro_rules! string_functions {
    ($unit:ty: $length:ident $limited:ident $compare:ident $compare_limited:ident $fold:ident
     $fold_limited:ident $find:ident $find_last:ident $find_string:ident $copy:ident
     $copy_limited:ident $append:ident $copy_secure:ident $copy_limited_secure:ident
     $append_secure:ident) => {
        /// Number of characters before the NUL.
        pub unsafe extern "win64-unwind" fn $length(string: *const $unit) -> usize {
            // SAFETY: The caller's contract.
            unsafe { CString::at(string) }.length(usize::MAX)
        }

        /// Number of characters before the NUL, at most `limit`.
        pub unsafe extern "win64-unwind" fn $limited(string: *const $unit, limit: usize) -> usize {
            // SAFETY: The caller's contract.
            unsafe { CString::at(string) }.length(limit)
        }

        /// Compares two strings: negative, zero or positive.
        pub unsafe extern "win64-unwind" fn $compare(
            one: *const $unit,
            other: *const $unit,
        ) -> i32 {
            // SAFETY: The caller's contract.
            unsafe { $compare_limited(one, other, usize::MAX) }
        }

        /// Compares at most `limit` characters.
        pub unsafe extern "win64-unwind" fn $compare_limited(
            one: *const $unit,
            other: *const $unit,
            limit: usize,
        ) -> i32 {
            // SAFETY: The caller's contract.
            let other = unsafe { CString::at(other) };
            // SAFETY: The caller's contract.
            unsafe { CString::at(one) }.compare(other, limit, |character| character)
        }

        /// Compares without regard to case.
        pub unsafe extern "win64-unwind" fn $fold(one: *const $unit, other: *const $unit) -> i32 {
            // SAFETY: The caller's contract.
            unsafe { $fold_limited(one, other, usize::MAX) }
        }

        /// Compares at most `limit` characters without regard to case.
        pub unsafe extern "win64-unwind" fn $fold_limited(
            one: *const $unit,
            other: *const $unit,
            limit: usize,
        ) -> i32 {
            // SAFETY: The caller's contract.
            let other = unsafe { CString::at(other) };
            // SAFETY: The caller's contract.
            unsafe { CString::at(one) }.compare(other, limit, Character::lower)
        }

        /// The first occurrence of a character, or NULL. The NUL counts as a character.
        pub unsafe extern "win64-unwind" fn $find(string: *const $unit, wanted: i32) -> *mut $unit {
            // SAFETY: The caller's contract.
            let string = unsafe { CString::at(string) };
            let found = string.find(character(wanted));
            found.map_or(ptr::null_mut(), |index| string.pointer(index))
        }

        /// The last occurrence of a character, or NULL. The NUL counts as a character.
        pub unsafe extern "win64-unwind" fn $find_last(
            string: *const $unit,
            wanted: i32,
        ) -> *mut $unit {
            // SAFETY: The caller's contract.
            let string = unsafe { CString::at(string) };
            let found = string.find_last(character(wanted));
            found.map_or(ptr::null_mut(), |index| string.pointer(index))
        }

        /// The first occurrence of a string, or NULL. An empty one occurs at the start.
        pub unsafe extern "win64-unwind" fn $find_string(
            string: *const $unit,
            wanted: *const $unit,
        ) -> *mut $unit {
            // SAFETY: The caller's contract.
            let string = unsafe { CString::at(string) };
            // SAFETY: The caller's contract.
            let found = string.find_string(unsafe { CString::at(wanted) });
            found.map_or(ptr::null_mut(), |index| string.pointer(index))
        }

        /// Copies a string with its NUL.
        pub unsafe extern "win64-unwind" fn $copy(
            target: *mut $unit,
            source: *const $unit,
        ) -> *mut $unit {
            // SAFETY: The caller's contract.
            let source = unsafe { CString::at(source) };
            let length = source.length(usize::MAX) + 1;
            // SAFETY: The caller's contract.
            unsafe { CString::at(target.cast_const()) }.copy(0, source, length);
            target
        }

        /// Copies at most `count` characters, and fills the rest of the count with NULs.
        pub unsafe extern "win64-unwind" fn $copy_limited(
            target: *mut $unit,
            source: *const $unit,
            count: usize,
        ) -> *mut $unit {
            // SAFETY: The caller's contract.
            let source = unsafe { CString::at(source) };
            // SAFETY: The caller's contract.
            let to = unsafe { CString::at(target.cast_const()) };
            let length = source.length(count);
            to.copy(0, source, length);
            (length..count).for_each(|index| to.set(index, 0));
            target
        }

        /// Appends a string.
        pub unsafe extern "win64-unwind" fn $append(
            target: *mut $unit,
            source: *const $unit,
        ) -> *mut $unit {
            // SAFETY: The caller's contract.
            let to = unsafe { CString::at(target.cast_const()) };
            // SAFETY: The caller's contract.
            let source = unsafe { CString::at(source) };
            to.copy(to.length(usize::MAX), source, source.length(usize::MAX) + 1);
            target
        }

        /// Copies a string into a buffer of a given length, or fails and empties it.
        pub unsafe extern "win64-unwind" fn $copy_secure(
            target: *mut $unit,
            room: usize,
            source: *const $unit,
        ) -> i32 {
            // SAFETY: The caller's contract.
            let source = unsafe { CString::at(source) };
            // SAFETY: The caller's contract.
            let to = unsafe { CString::at(target.cast_const()) };
            to.copy_secure(room, 0, source, usize::MAX - 1)
        }

        /// Copies at most `count` characters into a buffer of a given length, or fails and empties
        /// it. With `_TRUNCATE` as the count, what does not fit is cut off.
        pub unsafe extern "win64-unwind" fn $copy_limited_secure(
            target: *mut $unit,
            room: usize,
            source: *const $unit,
            count: usize,
        ) -> i32 {
            // SAFETY: The caller's contract.
            let source = unsafe { CString::at(source) };
            // SAFETY: The caller's contract.
            let to = unsafe { CString::at(target.cast_const()) };
            to.copy_secure(room, 0, source, count)
        }

        /// Appends a string in a buffer of a given length, or fails and empties it.
        pub unsafe extern "win64-unwind" fn $append_secure(
            target: *mut $unit,
            room: usize,
            source: *const $unit,
        ) -> i32 {
            // SAFETY: The caller's contract.
            let to = unsafe { CString::at(target.cast_const()) };
            // SAFETY: The caller's contract.
            let source = unsafe { CString::at(source) };
            if to.memory.is_null() || room == 0 {
                return EINVAL;
            }
            let length = to.length(room);
            if length == room {
                to.set(0, 0);
                return EINVAL; // It does not end in its buffer.
            }
            to.copy_secure(room, length, source, usize::MAX - 1)
        }
    };
}

string_functions!(u8: strlen strnlen strcmp strncmp _stricmp _strnicmp strchr strrchr strstr strcpy
    strncpy strcat strcpy_s strncpy_s strcat_s);
string_functions!(u16: wcslen wcsnlen wcscmp wcsncmp _wcsicmp _wcsnicmp wcschr wcsrchr wcsstr wcscpy
    wcsncpy wcscat wcscpy_s wcsncpy_s wcscat_s);

/// The character in the low bits of an `int`.
fn character<C: FromInt>(value: i32) -> C {
    C::from_int(value)
}

trait FromInt {
    fn from_int(value: i32) -> Self;
}

impl FromInt for u8 {
    fn from_int(value: i32) -> Self {
        value.to_le_bytes()[0]
    }
}

impl FromInt for u16 {
    fn from_int(value: i32) -> Self {
        let bytes = value.to_le_bytes();
        u16::from_le_bytes([bytes[0], bytes[1]])
    }
}

/// Compares bytes: negative, zero or positive.
pub unsafe extern "win64-unwind" fn memcmp(
    one: *const c_void,
    other: *const c_void,
    bytes: usize,
) -> i32 {
    // SAFETY: The caller's contract.
    unsafe { libc::memcmp(one, other, bytes) }
}

/// The first occurrence of a byte, or NULL.
pub unsafe extern "win64-unwind" fn memchr(
    memory: *const c_void,
    byte: i32,
    bytes: usize,
) -> *mut c_void {
    // SAFETY: The caller's contract.
    unsafe { libc::memchr(memory, byte, bytes) }
}

/// Reads a decimal number.
pub unsafe extern "win64-unwind" fn atoi(string: *const u8) -> i32 {
    // SAFETY: The caller's contract.
    let text = unsafe { DriverMemory::at(string) }.read_c_string(64);
    let text = String::from_utf8_lossy(&text);
    let text = text.trim_start();
    let end = text
        .char_indices()
        .find(|(at, letter)| !(letter.is_ascii_digit() || *at == 0 && matches!(letter, '+' | '-')));
    let digits = &text[..end.map_or(text.len(), |(at, _)| at)];
    digits.parse().unwrap_or(0)
}

/// The lowercase letter.
pub extern "win64-unwind" fn tolower(letter: i32) -> i32 {
    u8::try_from(letter).map_or(letter, |letter| letter.to_ascii_lowercase().into())
}

/// The uppercase letter.
pub extern "win64-unwind" fn toupper(letter: i32) -> i32 {
    u8::try_from(letter).map_or(letter, |letter| letter.to_ascii_uppercase().into())
}

/// The lowercase letter.
pub extern "win64-unwind" fn towlower(letter: u16) -> u16 {
    crate::rtl_string::RtlDowncaseUnicodeChar(letter)
}

/// The uppercase letter.
pub extern "win64-unwind" fn towupper(letter: u16) -> u16 {
    upcase(letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{call, wide};

    fn text(text: &'static std::ffi::CStr) -> *const u8 {
        text.as_ptr().cast()
    }

    #[test]
    fn lengths_and_comparisons() {
        assert_eq!((call!(strlen, text(c"four")), call!(strnlen, text(c"four"), 2)), (4, 2));
        assert_eq!(call!(wcslen, wide("four").as_ptr()), 4);
        let compare = |one, other| call!(strcmp, text(one), text(other)).signum();
        assert_eq!((compare(c"a", c"b"), compare(c"ab", c"a"), compare(c"", c"")), (-1, 1, 0));
        assert_eq!(call!(strncmp, text(c"abX"), text(c"abY"), 2), 0);
        assert_eq!(call!(_stricmp, text(c"AbC"), text(c"aBc")), 0);
        assert_eq!(call!(_strnicmp, text(c"ABx"), text(c"aby"), 3).signum(), -1);
        let (one, other) = (wide("GPU0"), wide("gpu1"));
        assert_eq!(call!(_wcsnicmp, one.as_ptr(), other.as_ptr(), 3), 0);
        assert_eq!(call!(_wcsicmp, one.as_ptr(), other.as_ptr()).signum(), -1);
        assert_eq!(call!(wcscmp, one.as_ptr(), other.as_ptr()).signum(), -1);
        assert_eq!(call!(wcsncmp, other.as_ptr(), other.as_ptr(), 9), 0);
        let bytes: *const c_void = text(c"\x01\xFF").cast();
        assert_eq!(call!(memcmp, bytes, text(c"\x01\x7F").cast(), 2).signum(), 1, "unsigned");
        assert_eq!(call!(memchr, bytes, 0xFF, 2).addr(), bytes.addr() + 1);
    }

    #[test]
    fn characters_and_strings_are_found() {
        let path = text(c"a\\b\\c");
        let offset = |found: *mut u8| found.addr().wrapping_sub(path.addr());
        assert_eq!(offset(call!(strchr, path, 0x5C)), 1);
        assert_eq!(offset(call!(strrchr, path, 0x5C)), 3);
        assert_eq!(offset(call!(strchr, path, 0)), 5, "the NUL is a character");
        assert!(call!(strchr, path, 0x7A).is_null());
        assert_eq!(offset(call!(strstr, path, text(c"b\\c"))), 2);
        assert_eq!(offset(call!(strstr, path, text(c""))), 0);
        assert!(call!(strstr, path, text(c"b\\c\\")).is_null());
        let path = wide("x,y,");
        let offset = |found: *mut u16| (found.addr() - path.as_ptr().addr()) / 2;
        assert_eq!(offset(call!(wcschr, path.as_ptr(), 0x2C)), 1);
        assert_eq!(offset(call!(wcsrchr, path.as_ptr(), 0x2C)), 3);
        assert_eq!(offset(call!(wcsstr, path.as_ptr(), wide("y,").as_ptr())), 2);
    }

    #[test]
    fn copies_stay_in_their_buffer() {
        let mut buffer = *b"------";
        let to = buffer.as_mut_ptr();
        assert_eq!(call!(strcpy_s, to, 4, text(c"abc")), 0);
        assert_eq!(call!(strcat_s, to, 6, text(c"de")), 0);
        assert_eq!(&buffer, b"abcde\0");
        let to = buffer.as_mut_ptr();
        assert_eq!(call!(strcat_s, to, 6, text(c"f")), ERANGE);
        assert_eq!(buffer[0], 0, "it is emptied");
        let to = buffer.as_mut_ptr();
        assert_eq!(call!(strcpy_s, to, 3, text(c"abc")), ERANGE);
        assert_eq!(call!(strcpy_s, to, 3, ptr::null()), EINVAL);
        assert_eq!(call!(strncpy_s, to, 3, text(c"abc"), 2), 0);
        assert_eq!(call!(strncpy_s, to, 3, text(c"xyz"), TRUNCATE), STRUNCATE);
        assert_eq!(&buffer[..3], b"xy\0");
        let mut units = [7_u16; 4];
        let to = units.as_mut_ptr();
        assert_eq!(call!(wcscpy_s, to, 4, wide("ab").as_ptr()), 0);
        assert_eq!(call!(wcscat_s, to, 4, wide("c").as_ptr()), 0);
        assert_eq!(units, [97, 98, 99, 0]);
    }

    #[test]
    fn copies_without_a_length_copy_the_nul() {
        let mut buffer = *b"--------";
        let to = buffer.as_mut_ptr();
        assert_eq!(call!(strcpy, to, text(c"ab")), to);
        call!(strcat, to, text(c"c"));
        assert_eq!(&buffer, b"abc\0----");
        let to = buffer.as_mut_ptr();
        call!(strncpy, to, text(c"x"), 3);
        assert_eq!(&buffer, b"x\0\0\0----");
        let mut units = [7_u16; 5];
        let to = units.as_mut_ptr();
        call!(wcscpy, to, wide("ab").as_ptr());
        call!(wcscat, to, wide("c").as_ptr());
        assert_eq!(units, [97, 98, 99, 0, 7]);
        let to = units.as_mut_ptr();
        call!(wcsncpy, to, wide("xyz").as_ptr(), 2);
        assert_eq!(units, [120, 121, 99, 0, 7], "no NUL");
    }

    #[test]
    fn numbers_and_letters() {
        assert_eq!((call!(atoi, text(c" -12x")), call!(atoi, text(c"x"))), (-12, 0));
        assert_eq!((tolower(0x41), toupper(0x7A), toupper(-1)), (0x61, 0x5A, -1));
        assert_eq!((towlower(0x41), towupper(0x61)), (0x61, 0x41));
    }
}
