//! The string functions of the run-time library (`Rtl`) under their Windows names.
//!
//! Strings that a function allocates are blocks of the driver's pool, so that a string which is not
//! freed is a leak.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::DriverMemory;
use crate::entry::{guarded, judge_irql};
use crate::ex;
use crate::import_table::import_rows;
use crate::status::{
    STATUS_BUFFER_OVERFLOW, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER,
    STATUS_INVALID_PARAMETER_2, STATUS_NO_MEMORY, STATUS_SUCCESS, STATUS_UNSUCCESSFUL,
};
use abi::{BOOLEAN, NTSTATUS, PVOID};

import_rows! {
    RtlAnsiCharToUnicodeChar lacks "characters above 0x7F are those of Latin-1";
    RtlAnsiStringToUnicodeString lacks "characters above 0x7F are those of Latin-1";
    RtlAppendUnicodeStringToString;
    RtlAppendUnicodeToString;
    RtlCompareString;
    RtlCompareUnicodeString;
    RtlCopyString;
    RtlCopyUnicodeString;
    RtlDowncaseUnicodeChar;
    RtlEqualString;
    RtlEqualUnicodeString;
    RtlFreeAnsiString;
    RtlFreeUnicodeString;
    RtlInitAnsiString;
    RtlInitString;
    RtlInitUnicodeString;
    RtlInt64ToUnicodeString;
    RtlIntegerToUnicodeString;
    RtlPrefixUnicodeString;
    RtlUnicodeStringToAnsiString lacks "characters above 0x7F are those of Latin-1";
    RtlUnicodeStringToInteger;
    RtlUpcaseUnicodeChar;
    RtlUpcaseUnicodeString;
    RtlUpperChar;
}

/// The tag of strings that functions of this file allocate.
const STRING_TAG: u32 = u32::from_le_bytes(*b"RtlS");

/// The longest counted string, in bytes: with its NUL it must fit into `MaximumLength`.
const MAX_BYTES: usize = 0xFFFC;

/// The code unit of strings that follow the conventions of `UNICODE_STRING` or `ANSI_STRING`.
pub(crate) trait Unit: Copy + Eq {
    const BYTES: usize;
    fn read(memory: DriverMemory, index: usize) -> Self;
    fn write(self, memory: DriverMemory, index: usize);
    fn widened(self) -> u16;
    const NUL: Self;
}

impl Unit for u16 {
    const BYTES: usize = 2;
    const NUL: Self = 0;
    fn read(memory: DriverMemory, index: usize) -> Self {
        memory.read(index * 2)
    }
    fn write(self, memory: DriverMemory, index: usize) {
        memory.write(index * 2, self);
    }
    fn widened(self) -> u16 {
        self
    }
}

impl Unit for u8 {
    const BYTES: usize = 1;
    const NUL: Self = 0;
    fn read(memory: DriverMemory, index: usize) -> Self {
        memory.read(index)
    }
    fn write(self, memory: DriverMemory, index: usize) {
        memory.write(index, self);
    }
    fn widened(self) -> u16 {
        self.into()
    }
}

/// A counted string in the driver's memory: `UNICODE_STRING`, `ANSI_STRING` or `STRING`.
#[derive(Clone, Copy)]
pub(crate) struct CountedString(DriverMemory);

impl CountedString {
    /// The string at an address.
    ///
    /// # Safety
    ///
    /// `string` points to a valid counted string.
    pub(crate) unsafe fn at<T>(string: *const T) -> Self {
        // SAFETY: The caller's contract.
        Self(unsafe { DriverMemory::at(string) })
    }

    /// The string that is part of a structure in the driver's memory.
    pub(crate) fn in_memory(memory: DriverMemory) -> Self {
        Self(memory)
    }

    fn length(self) -> usize {
        self.0.read::<u16>(0).into()
    }

    fn maximum(self) -> usize {
        self.0.read::<u16>(2).into()
    }

    fn buffer(self) -> DriverMemory {
        self.0.follow(8)
    }

    fn set(self, length: usize, maximum: usize, buffer: usize) {
        self.0.write(0, truncated(length));
        self.0.write(2, truncated(maximum));
        self.0.write(8, buffer);
    }

    fn set_length(self, length: usize) {
        self.0.write(0, truncated(length));
    }

    /// Its code units.
    fn units<U: Unit>(self) -> Vec<U> {
        let buffer = self.buffer();
        (0..self.length() / U::BYTES).map(|index| U::read(buffer, index)).collect()
    }

    /// Its UTF-16 code units, if it is a `UNICODE_STRING`.
    pub(crate) fn wide(self) -> Vec<u16> {
        self.units()
    }

    /// Its bytes, if it is an `ANSI_STRING`.
    pub(crate) fn bytes(self) -> Vec<u8> {
        self.units()
    }

    /// Its text, if it is a `UNICODE_STRING`.
    pub(crate) fn text(self) -> String {
        String::from_utf16_lossy(&self.wide())
    }

    /// Writes code units from `first` on, and a NUL behind them if there is room for one.
    fn put<U: Unit>(self, first: usize, units: &[U]) {
        let (buffer, end) = (self.buffer(), first + units.len());
        for (index, unit) in units.iter().enumerate() {
            unit.write(buffer, first + index);
        }
        self.set_length(end * U::BYTES);
        if (end + 1) * U::BYTES <= self.maximum() {
            U::NUL.write(buffer, end);
        }
    }

    /// Stores a result with its NUL: in the string's buffer, or in a new block of the driver's
    /// paged pool.
    pub(crate) fn store<U: Unit>(
        self,
        import: &'static str,
        units: &[U],
        allocate: bool,
    ) -> NTSTATUS {
        let needed = (units.len() + 1) * U::BYTES;
        if allocate {
            let block = ex::allocate(import, needed, STRING_TAG, true, true);
            let Some(block) = block else { return STATUS_NO_MEMORY };
            self.set(0, needed, block);
        } else if needed > self.maximum() {
            return STATUS_BUFFER_OVERFLOW;
        }
        self.put(0, units);
        STATUS_SUCCESS
    }
}

/// Stores text in a `UNICODE_STRING`: in its buffer, or in a new one if it has none.
pub(crate) fn store_text(import: &'static str, target: DriverMemory, units: &[u16]) -> NTSTATUS {
    let string = CountedString(target);
    let stored = string.store(import, units, string.buffer().is_null());
    if stored == STATUS_BUFFER_OVERFLOW { STATUS_BUFFER_TOO_SMALL } else { stored }
}

/// A length that was limited before. A `USHORT` holds it.
fn truncated(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// The uppercase character, as the system's table has it: one code unit for one code unit.
pub(crate) fn upcase(unit: u16) -> u16 {
    changed_case(unit, |letter| single(letter.to_uppercase()))
}

fn downcase(unit: u16) -> u16 {
    changed_case(unit, |letter| single(letter.to_lowercase()))
}

fn single(mut letters: impl Iterator<Item = char>) -> Option<char> {
    let first = letters.next();
    if letters.next().is_some() { None } else { first }
}

fn changed_case(unit: u16, change: impl Fn(char) -> Option<char>) -> u16 {
    let changed = char::from_u32(unit.into()).and_then(change).map(u32::from);
    changed.and_then(|code| u16::try_from(code).ok()).unwrap_or(unit)
}

/// The Latin-1 character; `?` for any other.
fn narrow(unit: u16) -> u8 {
    u8::try_from(unit).unwrap_or(b'?')
}

fn compare_units<U: Unit>(one: &[U], other: &[U], ignore_case: bool) -> i32 {
    let letter =
        |unit: &U| i32::from(if ignore_case { upcase(unit.widened()) } else { unit.widened() });
    let differ = one.iter().zip(other).map(|(a, b)| letter(a) - letter(b)).find(|sign| *sign != 0);
    let length = |units: &[U]| i32::try_from(units.len()).unwrap_or(i32::MAX);
    differ.unwrap_or_else(|| length(one) - length(other))
}

/// Makes a counted string of a string that ends with a NUL. The buffer is not copied.
pub unsafe extern "win64-unwind" fn RtlInitUnicodeString(target: PVOID, source: *const u16) {
    // SAFETY: The caller's contract.
    unsafe { initialize::<u16>(target, source) };
}

/// Makes a counted string of a string that ends with a NUL. The buffer is not copied.
pub unsafe extern "win64-unwind" fn RtlInitAnsiString(target: PVOID, source: *const u8) {
    // SAFETY: The caller's contract.
    unsafe { initialize::<u8>(target, source) };
}

/// Makes a counted string of a string that ends with a NUL. The buffer is not copied.
pub unsafe extern "win64-unwind" fn RtlInitString(target: PVOID, source: *const u8) {
    // SAFETY: The caller's contract.
    unsafe { initialize::<u8>(target, source) };
}

/// WINDOWS: documented for NULL: the string is empty and has no buffer. A longer string is cut off.
unsafe fn initialize<U: Unit>(target: PVOID, source: *const U) {
    // SAFETY: The caller's contract.
    let string = unsafe { CountedString::at(target) };
    // SAFETY: As above.
    let buffer = unsafe { DriverMemory::at(source) };
    if buffer.is_null() {
        return string.set(0, 0, 0);
    }
    let most = MAX_BYTES / U::BYTES;
    let units = (0..most).position(|index| U::read(buffer, index) == U::NUL).unwrap_or(most);
    string.set(units * U::BYTES, (units + 1) * U::BYTES, buffer.address());
}

/// Copies a string, as much as the destination has room for. A NULL source empties the destination.
pub unsafe extern "win64-unwind" fn RtlCopyUnicodeString(target: PVOID, source: PVOID) {
    // SAFETY: The caller's contract.
    unsafe { copy::<u16>(target, source) };
}

/// Copies a string, as much as the destination has room for. A NULL source empties the destination.
pub unsafe extern "win64-unwind" fn RtlCopyString(target: PVOID, source: PVOID) {
    // SAFETY: The caller's contract.
    unsafe { copy::<u8>(target, source) };
}

unsafe fn copy<U: Unit>(target: PVOID, source: PVOID) {
    // SAFETY: The caller's contract.
    let target = unsafe { CountedString::at(target) };
    if source.is_null() {
        return target.set_length(0);
    }
    // SAFETY: The caller's contract.
    let mut units = unsafe { CountedString::at(source) }.units::<U>();
    units.truncate(target.maximum() / U::BYTES);
    guarded((), || target.put(0, &units));
}

/// Converts a string, into the destination's buffer or into a new one.
pub unsafe extern "win64-unwind" fn RtlAnsiStringToUnicodeString(
    target: PVOID,
    source: PVOID,
    allocate: BOOLEAN,
) -> NTSTATUS {
    const NAME: &str = "RtlAnsiStringToUnicodeString";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let target = unsafe { CountedString::at(target) };
    // SAFETY: The caller's contract.
    let source = unsafe { CountedString::at(source) };
    guarded(STATUS_NO_MEMORY, || {
        if source.length() * 2 > MAX_BYTES {
            return STATUS_INVALID_PARAMETER_2;
        }
        let units: Vec<u16> = source.units::<u8>().into_iter().map(u16::from).collect();
        target.store(NAME, &units, allocate != 0)
    })
}

/// Converts a string, into the destination's buffer or into a new one.
pub unsafe extern "win64-unwind" fn RtlUnicodeStringToAnsiString(
    target: PVOID,
    source: PVOID,
    allocate: BOOLEAN,
) -> NTSTATUS {
    const NAME: &str = "RtlUnicodeStringToAnsiString";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let target = unsafe { CountedString::at(target) };
    // SAFETY: The caller's contract.
    let source = unsafe { CountedString::at(source) };
    guarded(STATUS_NO_MEMORY, || {
        let units: Vec<u8> = source.wide().into_iter().map(narrow).collect();
        target.store(NAME, &units, allocate != 0)
    })
}

/// The uppercase copy of a string, in the destination's buffer or in a new one.
pub unsafe extern "win64-unwind" fn RtlUpcaseUnicodeString(
    target: PVOID,
    source: PVOID,
    allocate: BOOLEAN,
) -> NTSTATUS {
    const NAME: &str = "RtlUpcaseUnicodeString";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let target = unsafe { CountedString::at(target) };
    // SAFETY: The caller's contract.
    let source = unsafe { CountedString::at(source) };
    guarded(STATUS_NO_MEMORY, || {
        let units: Vec<u16> = source.wide().into_iter().map(upcase).collect();
        if allocate != 0 {
            return target.store(NAME, &units, true);
        }
        // WINDOWS: documented. In place, no room for a NUL is required.
        if units.len() * 2 > target.maximum() {
            return STATUS_BUFFER_OVERFLOW;
        }
        target.put(0, &units);
        STATUS_SUCCESS
    })
}

/// Frees the buffer of a string, and empties it.
pub unsafe extern "win64-unwind" fn RtlFreeUnicodeString(string: PVOID) {
    // SAFETY: The caller's contract.
    free_string("RtlFreeUnicodeString", unsafe { CountedString::at(string) });
}

/// Frees the buffer of a string, and empties it.
pub unsafe extern "win64-unwind" fn RtlFreeAnsiString(string: PVOID) {
    // SAFETY: The caller's contract.
    free_string("RtlFreeAnsiString", unsafe { CountedString::at(string) });
}

fn free_string(import: &'static str, string: CountedString) {
    judge_irql(import);
    let buffer = string.buffer();
    if !buffer.is_null() {
        ex::free_pool(import, buffer.pointer(), 0);
        string.set(0, 0, 0);
    }
}

/// Whether two strings are equal.
pub unsafe extern "win64-unwind" fn RtlEqualUnicodeString(
    one: PVOID,
    other: PVOID,
    ignore_case: BOOLEAN,
) -> BOOLEAN {
    // SAFETY: The caller's contract.
    (unsafe { RtlCompareUnicodeString(one, other, ignore_case) } == 0).into()
}

/// Whether two strings are equal.
pub unsafe extern "win64-unwind" fn RtlEqualString(
    one: PVOID,
    other: PVOID,
    ignore_case: BOOLEAN,
) -> BOOLEAN {
    // SAFETY: The caller's contract.
    (unsafe { RtlCompareString(one, other, ignore_case) } == 0).into()
}

/// Compares two strings: negative, zero or positive.
pub unsafe extern "win64-unwind" fn RtlCompareUnicodeString(
    one: PVOID,
    other: PVOID,
    ignore_case: BOOLEAN,
) -> i32 {
    // SAFETY: The caller's contract.
    let one = unsafe { CountedString::at(one) }.wide();
    // SAFETY: The caller's contract.
    let other = unsafe { CountedString::at(other) }.wide();
    compare_units(&one, &other, ignore_case != 0)
}

/// Compares two strings: negative, zero or positive.
pub unsafe extern "win64-unwind" fn RtlCompareString(
    one: PVOID,
    other: PVOID,
    ignore_case: BOOLEAN,
) -> i32 {
    // SAFETY: The caller's contract.
    let one = unsafe { CountedString::at(one) }.units::<u8>();
    // SAFETY: The caller's contract.
    let other = unsafe { CountedString::at(other) }.units::<u8>();
    compare_units(&one, &other, ignore_case != 0)
}

/// Whether `prefix` is the beginning of `string`.
pub unsafe extern "win64-unwind" fn RtlPrefixUnicodeString(
    prefix: PVOID,
    string: PVOID,
    ignore_case: BOOLEAN,
) -> BOOLEAN {
    // SAFETY: The caller's contract.
    let prefix = unsafe { CountedString::at(prefix) }.wide();
    // SAFETY: The caller's contract.
    let string = unsafe { CountedString::at(string) }.wide();
    let start = string.get(..prefix.len());
    start.is_some_and(|start| compare_units(&prefix, start, ignore_case != 0) == 0).into()
}

/// Appends a string that ends with a NUL. A NULL source has no effect.
pub unsafe extern "win64-unwind" fn RtlAppendUnicodeToString(
    target: PVOID,
    source: *const u16,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let target = unsafe { CountedString::at(target) };
    // SAFETY: The caller's contract.
    let source = unsafe { DriverMemory::at(source) };
    let units = source.non_null().map(|source| source.read_wide_string(MAX_BYTES / 2));
    append(target, &units.unwrap_or_default())
}

/// Appends a string.
pub unsafe extern "win64-unwind" fn RtlAppendUnicodeStringToString(
    target: PVOID,
    source: PVOID,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let target = unsafe { CountedString::at(target) };
    // SAFETY: The caller's contract.
    append(target, &unsafe { CountedString::at(source) }.wide())
}

fn append(target: CountedString, units: &[u16]) -> NTSTATUS {
    if target.length() + units.len() * 2 > target.maximum() {
        return STATUS_BUFFER_TOO_SMALL;
    }
    target.put(target.length() / 2, units);
    STATUS_SUCCESS
}

/// Writes a number in base 2, 8, 10 (also 0) or 16.
pub unsafe extern "win64-unwind" fn RtlIntegerToUnicodeString(
    value: u32,
    base: u32,
    target: PVOID,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    write_number("RtlIntegerToUnicodeString", value.into(), base, unsafe {
        CountedString::at(target)
    })
}

/// Writes a number in base 2, 8, 10 (also 0) or 16.
pub unsafe extern "win64-unwind" fn RtlInt64ToUnicodeString(
    value: u64,
    base: u32,
    target: PVOID,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    write_number("RtlInt64ToUnicodeString", value, base, unsafe { CountedString::at(target) })
}

fn write_number(import: &'static str, value: u64, base: u32, target: CountedString) -> NTSTATUS {
    judge_irql(import);
    guarded(STATUS_UNSUCCESSFUL, || {
        let text = match base {
            2 => format!("{value:b}"),
            8 => format!("{value:o}"),
            0 | 10 => value.to_string(),
            16 => format!("{value:X}"),
            _ => return STATUS_INVALID_PARAMETER,
        };
        let units: Vec<u16> = text.encode_utf16().collect();
        target.store(import, &units, false)
    })
}

/// Reads a number. Base 0 recognises the prefixes `0x`, `0o` and `0b`.
pub unsafe extern "win64-unwind" fn RtlUnicodeStringToInteger(
    string: PVOID,
    base: u32,
    value: *mut u32,
) -> NTSTATUS {
    judge_irql("RtlUnicodeStringToInteger");
    // SAFETY: The caller's contract.
    let text = unsafe { CountedString::at(string) }.text();
    // SAFETY: The caller's contract.
    let value = unsafe { DriverMemory::at(value) };
    if !matches!(base, 0 | 2 | 8 | 10 | 16) {
        return STATUS_INVALID_PARAMETER;
    }
    value.write(0, read_number(&text, base));
    STATUS_SUCCESS
}

/// WINDOWS: documented. Leading blanks are skipped, a sign is accepted, and the number ends at the
/// first character that is no digit.
fn read_number(text: &str, base: u32) -> u32 {
    let text = text.trim_start_matches(|letter| letter <= ' ');
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefixes = [("0x", 16), ("0o", 8), ("0b", 2)];
    let prefixed =
        prefixes.iter().find_map(|(prefix, base)| Some((*base, text.strip_prefix(prefix)?)));
    let (base, digits) = match (base, prefixed) {
        (0, Some(found)) => found,
        (0, None) => (10, text),
        (base, _) => (base, text),
    };
    let digits = digits.chars().map_while(|letter| letter.to_digit(base));
    let number = digits.fold(0_u32, |sum, digit| sum.wrapping_mul(base).wrapping_add(digit));
    if negative { number.wrapping_neg() } else { number }
}

/// The uppercase character.
pub extern "win64-unwind" fn RtlUpcaseUnicodeChar(unit: u16) -> u16 {
    upcase(unit)
}

/// The lowercase character.
pub extern "win64-unwind" fn RtlDowncaseUnicodeChar(unit: u16) -> u16 {
    downcase(unit)
}

/// The uppercase ANSI character.
pub extern "win64-unwind" fn RtlUpperChar(letter: u8) -> u8 {
    u8::try_from(upcase(letter.into())).unwrap_or(letter)
}

/// The next character of an ANSI string. Advances the pointer to the string.
pub unsafe extern "win64-unwind" fn RtlAnsiCharToUnicodeChar(source: *mut *const u8) -> u16 {
    // SAFETY: The caller's contract.
    let cursor = unsafe { DriverMemory::at(source) };
    let letter = cursor.follow(0);
    cursor.write(0, letter.part(1).address());
    letter.read::<u8>(0).into()
}

#[cfg(test)]
#[path = "rtl_string_tests.rs"]
mod tests;
