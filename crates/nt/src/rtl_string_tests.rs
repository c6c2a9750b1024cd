//! Tests of the run-time library functions: strings, and what is written as one.

use super::*;
use crate::entry::tests::{call, count, fly, wide};
use crate::rtl::*;
use abi::GUID;
use std::ptr;

/// A `UNICODE_STRING` or `ANSI_STRING` with a buffer of the test.
struct TestString {
    words: [u64; 2],
    buffer: Vec<u16>,
}

impl TestString {
    /// A string of this text, with room for `room` more code units.
    fn new(text: &str, room: usize) -> Self {
        let mut buffer: Vec<u16> = text.encode_utf16().collect();
        let length = buffer.len() * 2;
        buffer.resize(buffer.len() + room, 0xEEEE);
        Self::over(buffer, length)
    }

    fn ansi(text: &str) -> Self {
        let bytes: Vec<u8> = text.bytes().chain([0, 0]).collect();
        let pairs = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        Self::over(pairs.collect(), text.len())
    }

    fn over(mut buffer: Vec<u16>, length: usize) -> Self {
        let lengths = length as u64 | (buffer.len() as u64 * 2) << 16;
        let address = buffer.as_mut_ptr().expose_provenance() as u64;
        Self { words: [lengths, address], buffer }
    }

    fn pointer(&mut self) -> PVOID {
        self.words.as_mut_ptr().cast()
    }

    fn counted(&mut self) -> CountedString {
        call!(CountedString::at::<std::ffi::c_void>, self.pointer())
    }

    fn text(&mut self) -> String {
        self.counted().text()
    }
}

#[test]
fn a_string_is_counted_without_its_nul() {
    let text = wide("wind");
    let mut string = [0xEE_u64; 2];
    call!(RtlInitUnicodeString, string.as_mut_ptr().cast(), text.as_ptr());
    assert_eq!(string, [0x000A_0008, text.as_ptr().addr() as u64]);
    call!(RtlInitAnsiString, string.as_mut_ptr().cast(), c"tunnel".as_ptr().cast());
    assert_eq!(string[0], 0x0007_0006);
    call!(RtlInitUnicodeString, string.as_mut_ptr().cast(), ptr::null());
    assert_eq!(string, [0, 0]);
    let long = vec![7_u16; 0x1_0000];
    call!(RtlInitUnicodeString, string.as_mut_ptr().cast(), long.as_ptr());
    assert_eq!(string[0], 0xFFFE_FFFC, "it is cut off");
}

#[test]
fn a_copy_takes_what_there_is_room_for() {
    let (mut source, mut target) = (TestString::new("abcdef", 0), TestString::new("", 4));
    call!(RtlCopyUnicodeString, target.pointer(), source.pointer());
    assert_eq!(target.text(), "abcd");
    let mut short = TestString::new("xy", 0);
    call!(RtlCopyUnicodeString, target.pointer(), short.pointer());
    assert_eq!((target.text().as_str(), target.buffer[2]), ("xy", 0));
    call!(RtlCopyUnicodeString, target.pointer(), ptr::null_mut());
    assert_eq!(target.text(), "");
}

#[test]
fn conversions_allocate_in_the_drivers_pool() {
    let events = fly(|| {
        let mut ansi = TestString::ansi("Gr\u{fc}n");
        let (mut made, mut back) = (TestString::new("", 0), TestString::new("", 0));
        let status = call!(RtlAnsiStringToUnicodeString, made.pointer(), ansi.pointer(), 1);
        assert_eq!((status, made.counted().maximum()), (STATUS_SUCCESS, 12));
        let status = call!(RtlUnicodeStringToAnsiString, back.pointer(), made.pointer(), 1);
        assert_eq!((status, back.counted().units::<u8>()), (STATUS_SUCCESS, "Gr\u{fc}n".into()));
        let mut small = TestString::new("", 5);
        let status = call!(RtlAnsiStringToUnicodeString, small.pointer(), ansi.pointer(), 0);
        assert_eq!(status, STATUS_BUFFER_OVERFLOW, "no room for the NUL");
        call!(RtlFreeUnicodeString, made.pointer());
        assert_eq!(made.words, [0, 0]);
        call!(RtlFreeUnicodeString, made.pointer()); // Nothing to free.
        call!(RtlFreeAnsiString, back.pointer());
        call!(RtlUpcaseUnicodeString, made.pointer(), TestString::new("left", 0).pointer(), 1);
        assert_eq!(made.text(), "LEFT");
    });
    assert_eq!(count(&events, "pool.allocated"), 3);
    assert_eq!((count(&events, "pool.freed"), count(&events, "pool.leaked")), (2, 1));
}

#[test]
fn a_conversion_above_passive_level_is_judged() {
    let events = fly(|| {
        crate::KeRaiseIrqlToDpcLevel();
        call!(RtlFreeUnicodeString, TestString { words: [0; 2], buffer: vec![] }.pointer());
        crate::KeLowerIrql(0);
    });
    assert_eq!(count(&events, "rule.broken"), 1);
}

#[test]
fn strings_compare_by_code_unit_then_by_length() {
    let compare = |one: &str, other: &str, ignore_case| {
        let (mut one, mut other) = (TestString::new(one, 0), TestString::new(other, 0));
        call!(RtlCompareUnicodeString, one.pointer(), other.pointer(), ignore_case).signum()
    };
    assert_eq!((compare("abc", "abd", 0), compare("abc", "ab", 0)), (-1, 1));
    assert_eq!((compare("a\u{e4}", "A\u{c4}", 1), compare("a", "A", 0)), (0, 1));
    let (mut one, mut other) = (TestString::new("Xy", 0), TestString::new("xY!", 0));
    assert_eq!(call!(RtlEqualUnicodeString, one.pointer(), other.pointer(), 1), 0);
    assert_eq!(call!(RtlPrefixUnicodeString, one.pointer(), other.pointer(), 1), 1);
    assert_eq!(call!(RtlPrefixUnicodeString, other.pointer(), one.pointer(), 1), 0);
    assert_eq!(call!(RtlPrefixUnicodeString, one.pointer(), other.pointer(), 0), 0);
    let (mut one, mut other) = (TestString::ansi("Xy"), TestString::ansi("xY"));
    assert_eq!(call!(RtlEqualString, one.pointer(), other.pointer(), 1), 1);
    assert_eq!(call!(RtlEqualString, one.pointer(), other.pointer(), 0), 0);
}

#[test]
fn a_string_grows_within_itsbuffer_only() {
    let mut target = TestString::new("ab", 3);
    assert_eq!(call!(RtlAppendUnicodeToString, target.pointer(), wide("cd").as_ptr()), 0);
    assert_eq!((target.text().as_str(), target.buffer[4]), ("abcd", 0));
    let mut more = TestString::new("xy", 0);
    let status = call!(RtlAppendUnicodeStringToString, target.pointer(), more.pointer());
    assert_eq!((status, target.text().as_str()), (STATUS_BUFFER_TOO_SMALL, "abcd"));
    assert_eq!(call!(RtlAppendUnicodeToString, target.pointer(), ptr::null()), 0);
    let mut letter = TestString::new("e", 0);
    assert_eq!(call!(RtlAppendUnicodeStringToString, target.pointer(), letter.pointer()), 0);
    assert_eq!(target.text(), "abcde");
    let mut bytes = TestString::new("", 3);
    call!(RtlCopyString, bytes.pointer(), TestString::ansi("12").pointer());
    assert_eq!(bytes.counted().units::<u8>(), b"12");
}

#[test]
fn numbers_are_written_and_read_in_four_bases() {
    let mut target = TestString::new("", 9);
    let mut write = |value, base| {
        let status = call!(RtlIntegerToUnicodeString, value, base, target.pointer());
        (status, target.text())
    };
    assert_eq!(write(48_879, 16), (0, "BEEF".into()));
    assert_eq!((write(10, 2), write(9, 8)), ((0, "1010".into()), (0, "11".into())));
    assert_eq!(write(12_345_678, 0), (0, "12345678".into()));
    assert_eq!(write(1, 7).0, STATUS_INVALID_PARAMETER);
    assert_eq!(write(123_456_789, 10).0, STATUS_BUFFER_OVERFLOW);
    let read = |text: &str, base| {
        let mut value = 0;
        call!(RtlUnicodeStringToInteger, TestString::new(text, 0).pointer(), base, &raw mut value);
        value
    };
    assert_eq!((read(" 0x1Fz", 0), read("-1", 10), read("17", 8)), (31, u32::MAX, 15));
    let mut long = TestString::new("", 20);
    assert_eq!(call!(RtlInt64ToUnicodeString, 1 << 40, 16, long.pointer()), 0);
    assert_eq!(long.text(), "10000000000");
}

#[test]
fn memory_is_compared_up_to_the_first_difference() {
    let (mut one, mut other) = (*b"same1", *b"same2");
    let compare = |one: &mut [u8; 5], other: &mut [u8; 5], bytes| {
        call!(RtlCompareMemory, one.as_mut_ptr().cast(), other.as_mut_ptr().cast(), bytes)
    };
    assert_eq!((compare(&mut one, &mut other, 5), compare(&mut one, &mut other, 4)), (4, 4));
}

#[test]
fn the_version_fits_both_structures() {
    let mut short = [0xEEEE_EEEE_u32; 71];
    short[0] = 0x114;
    assert_eq!(call!(RtlGetVersion, short.as_mut_ptr().cast()), 0);
    assert_eq!((&short[1..5], short[5], short[69]), (&[10, 0, 22621, 2][..], 0, 0xEEEE_EEEE));
    short[0] = 0x11C;
    assert_eq!(call!(RtlGetVersion, short.as_mut_ptr().cast()), 0);
    assert_eq!((short[69], short[70]), (0, 0xEE01_0000));
    short[0] = 20;
    assert_eq!(call!(RtlGetVersion, short.as_mut_ptr().cast()), STATUS_INVALID_PARAMETER);
}

#[test]
fn a_guid_is_written_and_read_back() {
    let guid = GUID {
        Data1: 0x5B45_201D,
        Data2: 0xF2F2,
        Data3: 0x4F3B,
        Data4: *b"\x85\xBB0\xFF\x1F\x95\x35\x99",
    };
    let events = fly(|| {
        let mut string = TestString::new("", 0);
        assert_eq!(call!(RtlStringFromGUID, &raw const guid, string.pointer()), 0);
        assert_eq!(string.text(), "{5B45201D-F2F2-4F3B-85BB-30FF1F953599}");
        let mut back = GUID { Data1: 0, Data2: 0, Data3: 0, Data4: [0; 8] };
        let read = call!(RtlGUIDFromString, string.pointer().cast(), &raw mut back);
        assert_eq!((read, back), (0, guid));
        call!(RtlFreeUnicodeString, string.pointer());
        let mut bad = TestString::new("{5B45201D-F2F2-4F3B-85BB-30FF1F95359}", 0);
        let read = call!(RtlGUIDFromString, bad.pointer().cast(), &raw mut back);
        assert_eq!(read, STATUS_INVALID_PARAMETER);
    });
    assert_eq!(count(&events, "pool.leaked"), 0);
}

#[test]
fn a_time_is_split_and_joined() {
    let split = |time: i64| {
        let mut fields = [0_i16; 8];
        call!(RtlTimeToTimeFields, &raw const time, fields.as_mut_ptr().cast());
        fields
    };
    assert_eq!(split(0), [1601, 1, 1, 0, 0, 0, 0, 1]);
    // The first of January 1970, a Thursday, and leap days.
    assert_eq!(split(116_444_736_000_000_000), [1970, 1, 1, 0, 0, 0, 0, 4]);
    assert_eq!(split(125_963_423_990_010_000), [2000, 2, 29, 23, 59, 59, 1, 2]);
    let join = |mut fields: [i16; 8]| {
        let mut time = 0;
        let done = call!(RtlTimeFieldsToTime, fields.as_mut_ptr().cast(), &raw mut time);
        (done, time)
    };
    assert_eq!(join(split(125_963_423_990_010_000)), (1, 125_963_423_990_010_000));
    assert_eq!(join([2001, 2, 29, 0, 0, 0, 0, 0]).0, 0, "no leap year");
    assert_eq!(join([2001, 2, 28, 24, 0, 0, 0, 0]).0, 0);
    assert_eq!(join([1600, 12, 31, 0, 0, 0, 0, 0]).0, 0);
}

#[test]
fn letters_change_their_case_one_for_one() {
    assert_eq!(RtlUpcaseUnicodeChar(0xE4), 0xC4);
    assert_eq!(RtlUpcaseUnicodeChar(0xDF), 0xDF, "no single uppercase letter");
    assert_eq!((RtlDowncaseUnicodeChar(0x41), RtlUpperChar(b'a')), (0x61, b'A'));
    let text = *b"xy";
    let mut cursor = text.as_ptr();
    assert_eq!(call!(RtlAnsiCharToUnicodeChar, &raw mut cursor), 0x78);
    assert_eq!(call!(RtlAnsiCharToUnicodeChar, &raw mut cursor), 0x79);
    assert_eq!(cursor.addr(), text.as_ptr().addr() + 2);
}

#[test]
fn a_failed_assertion_is_printed() {
    let events = fly(|| {
        call!(RtlAssert, c"a == b".as_ptr().cast(), c"x.c".as_ptr().cast(), 7, ptr::null());
    });
    assert!(
        events.iter().any(|event| event.to_string().contains("assertion failed: a == b, x.c:7"))
    );
}
