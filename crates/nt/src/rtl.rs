//! The run-time library functions (`Rtl`) under their Windows names: memory, versions, GUIDs, time,
//! assertions. Strings are in `rtl_string.rs`, bitmaps in `rtl_bitmap.rs`.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::DriverMemory;
use crate::entry::{guarded, judge_irql};
use crate::import_table::import_rows;
use crate::rtl_string::CountedString;
use crate::status::{STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, STATUS_SUCCESS};
use abi::{BOOLEAN, GUID, NTSTATUS, PVOID, UNICODE_STRING};
use flight::{Component, RuleId};

import_rows! {
    RtlAssert lacks "prints, is a finding, and does not stop in a debugger";
    RtlCompareMemory;
    RtlGUIDFromString;
    RtlGetVersion;
    RtlStringFromGUID;
    RtlTimeFieldsToTime;
    RtlTimeToTimeFields;
}

/// The Windows version that drivers see: 10.0, with the build number of Windows 11, version 22H2,
/// whose WDDM version is 3.1.
pub(crate) const VERSION: (u32, u32, u32) = (10, 0, 22621);

/// Number of bytes from the start that are equal.
pub unsafe extern "win64-unwind" fn RtlCompareMemory(
    one: PVOID,
    other: PVOID,
    bytes: usize,
) -> usize {
    // SAFETY: The caller's contract.
    let (one, other) = (unsafe { DriverMemory::at(one) }, other);
    // SAFETY: The caller's contract.
    let other = unsafe { DriverMemory::at(other) };
    (0..bytes).position(|at| one.read::<u8>(at) != other.read::<u8>(at)).unwrap_or(bytes)
}

/// Describes the version of Windows: see `VERSION`.
pub unsafe extern "win64-unwind" fn RtlGetVersion(information: PVOID) -> NTSTATUS {
    /// The sizes of `RTL_OSVERSIONINFOW` and `RTL_OSVERSIONINFOEXW`, in 64 bits.
    const SIZE: u32 = 0x114;
    const EXTENDED_SIZE: u32 = 0x11C;
    /// `VER_PLATFORM_WIN32_NT`.
    const PLATFORM_NT: u32 = 2;
    /// `VER_NT_WORKSTATION`.
    const WORKSTATION: u8 = 1;
    judge_irql("RtlGetVersion");
    // SAFETY: The caller's contract.
    let information = unsafe { DriverMemory::at(information) };
    let size: u32 = information.read(0);
    if size != SIZE && size != EXTENDED_SIZE {
        return STATUS_INVALID_PARAMETER;
    }
    let (major, minor, build) = VERSION;
    for (offset, value) in [(4, major), (8, minor), (12, build), (16, PLATFORM_NT)] {
        information.write(offset, value);
    }
    information.write(0x14, [0; 256]);
    if size == EXTENDED_SIZE {
        information.write(0x114, 0_u32);
        information.write(0x118, 0_u16);
        information.write(0x11A, WORKSTATION);
    }
    STATUS_SUCCESS
}

/// Writes a GUID as text with braces, into a new buffer.
pub unsafe extern "win64-unwind" fn RtlStringFromGUID(
    guid: *const GUID,
    target: PVOID,
) -> NTSTATUS {
    const NAME: &str = "RtlStringFromGUID";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let guid = unsafe { DriverMemory::at(guid) };
    // SAFETY: The caller's contract.
    let target = unsafe { CountedString::at(target) };
    guarded(STATUS_NO_MEMORY, || {
        let units: Vec<u16> = guid_text(guid.read(0)).encode_utf16().collect();
        target.store(NAME, &units, true)
    })
}

/// A GUID as text with braces.
pub(crate) fn guid_text(guid: [u8; 16]) -> String {
    let digits = format!("{:032X}", u128::from_be_bytes(swapped_guid(guid)));
    let groups = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    format!("{{{}}}", groups.join("-"))
}

/// Converts the numbers in a GUID between little-endian and big-endian.
fn swapped_guid(mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}

/// Reads a GUID from text with braces.
pub unsafe extern "win64-unwind" fn RtlGUIDFromString(
    source: *const UNICODE_STRING,
    guid: *mut GUID,
) -> NTSTATUS {
    judge_irql("RtlGUIDFromString");
    // SAFETY: The caller's contract.
    let text = unsafe { CountedString::at(source) }.text();
    // SAFETY: The caller's contract.
    let guid = unsafe { DriverMemory::at(guid) };
    let Some(bytes) = read_guid(&text) else { return STATUS_INVALID_PARAMETER };
    guid.write(0, bytes);
    STATUS_SUCCESS
}

fn read_guid(text: &str) -> Option<[u8; 16]> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let groups: Vec<&str> = inner.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let digits: String = groups.concat();
    if lengths != [8, 4, 4, 4, 12] || !digits.bytes().all(|letter| letter.is_ascii_hexdigit()) {
        return None;
    }
    Some(swapped_guid(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes()))
}

const MILLISECOND: i64 = 10_000;
const DAY: i64 = 86_400_000;
/// Days from the first of March of year 0 to the first of January 1601.
const EPOCH_DAYS: i64 = 584_694;

/// Number of days from the first of March of year 0, in the Gregorian calendar.
fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1
}

/// Year, month and day of a day.
fn date_from_days(days: i64) -> (i64, i64, i64) {
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Splits a system time into year, month, day, hour, minute, second, millisecond and weekday.
pub unsafe extern "win64-unwind" fn RtlTimeToTimeFields(time: *const i64, fields: PVOID) {
    // SAFETY: The caller's contract.
    let time: i64 = unsafe { DriverMemory::at(time) }.read(0);
    // SAFETY: The caller's contract.
    let fields = unsafe { DriverMemory::at(fields) };
    let milliseconds = time.max(0) / MILLISECOND;
    let (days, rest) = (milliseconds / DAY, milliseconds % DAY);
    let (year, month, day) = date_from_days(days + EPOCH_DAYS);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    // The first of January 1601 was a Monday.
    let values = [year, month, day, hour, minute, rest / 1000 % 60, rest % 1000, (days + 1) % 7];
    for (index, value) in values.into_iter().enumerate() {
        fields.write(index * 2, i16::try_from(value).unwrap_or(i16::MAX));
    }
}

/// Converts year, month, day, hour, minute, second and millisecond to a system time. Returns FALSE
/// if they are no time from 1601 on.
pub unsafe extern "win64-unwind" fn RtlTimeFieldsToTime(fields: PVOID, time: *mut i64) -> BOOLEAN {
    // SAFETY: The caller's contract.
    let fields = unsafe { DriverMemory::at(fields) };
    // SAFETY: The caller's contract.
    let time = unsafe { DriverMemory::at(time) };
    let field = |index: usize| i64::from(fields.read::<i16>(index * 2));
    let (year, month, day) = (field(0), field(1), field(2));
    let day_number = days_from_date(year, month, day);
    let in_range =
        (3..7).zip([24, 60, 60, 1000]).all(|(index, end)| (0..end).contains(&field(index)));
    let exists = (1601..=30827).contains(&year)
        && (1..=12).contains(&month)
        && date_from_days(day_number) == (year, month, day);
    if !in_range || !exists {
        return 0;
    }
    let seconds = (field(3) * 60 + field(4)) * 60 + field(5);
    let milliseconds = (day_number - EPOCH_DAYS) * DAY + seconds * 1000 + field(6);
    time.write(0, milliseconds * MILLISECOND);
    1
}

/// Prints a failed assertion of the driver.
pub unsafe extern "win64-unwind" fn RtlAssert(
    assertion: *const u8,
    file: *const u8,
    line: u32,
    message: *const u8,
) {
    /// Texts of assertions are shorter.
    const LIMIT: usize = 512;
    let text = |source: *const u8| {
        // SAFETY: The caller's contract.
        let source = unsafe { DriverMemory::at(source) }.non_null();
        let bytes = source.map(|source| source.read_c_string(LIMIT)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (assertion, file, message) = (text(assertion), text(file), text(message));
    let said = if message.is_empty() { String::new() } else { format!(": {message}") };
    let failed = format!("assertion failed: {assertion}{said}, {file}:{line}");
    crate::dbg::print("RtlAssert", failed.clone());
    if let Some((_, log)) = crate::processor::current("RtlAssert") {
        let broken = Some(format!("the driver's own {failed}"));
        let call = crate::waits::current_call();
        log.judge(RuleId::WT_ASSERT_001, Component::Driver, call, "RtlAssert", broken);
    }
}
