//! The lines of a trace while they are written.
//!
//! A trace is names and numbers, so its lines are not formatted: they are put together from pieces
//! whose length the compiler knows. A name has a copy that is padded to such a length; the next
//! piece overwrites its padding. Decimal digits are computed eight at a time, and those of recent
//! numbers are kept, since a number is in several lines: of an object, of a call.
//!
//! # Invariants
//!
//! 1. A line starts in the first half of the block, and no line without long texts is longer than
//!    [`LINE_LENGTH`], which `event.rs` proves when it is compiled. So no piece is out of the block,
//!    and none checks its place.
//! 2. The spilled bytes are before those in the block.

use crate::Event;
use std::fmt;

/// The most bytes of a line in the block; longer texts are spilled.
pub(crate) const LINE_LENGTH: usize = 2048;

/// The places at which a piece can start.
const PLACES: usize = 2 * LINE_LENGTH;

/// The longest piece.
const PIECE_LENGTH: usize = 64;

/// The longest text that is written to the block.
pub(crate) const TEXT_LENGTH: usize = 48;

/// Number of names whose written form is kept.
const NAMES: usize = 1 << NAME_BITS;
const NAME_BITS: u32 = 7;

/// The longest text of a thread and a call.
const ORIGIN_LENGTH: usize = 32;

/// Number of numbers whose digits are kept.
const NUMBERS: usize = 64;

/// The text of events, one line for each, until it is taken out.
pub struct LineBuffer {
    /// Text before the block: lines for which it had no room, and long texts.
    spilled: Vec<u8>,
    /// Length of the lines in the block.
    length: usize,
    /// The length from which on it is time to take the text out: [`LINE_LENGTH`], or zero if text
    /// was spilled.
    limit: usize,
    /// The number of the last event.
    number: Number,
    /// The thread and call of the last event outside a driver call, and of the last one inside.
    origins: [Origin; 2],
    names: [Name; NAMES],
    numbers: [Number; NUMBERS],
    block: [u8; PLACES + PIECE_LENGTH],
}

/// How a constant name is written. It is found by its address, which no other name has.
#[derive(Clone, Copy)]
struct Name {
    address: usize,
    length: usize,
    written: Padded<TEXT_LENGTH>,
}

/// The digits of a number below 10^8.
#[derive(Clone, Copy)]
struct Number {
    value: u64,
    digits: [u8; 8],
    length: usize,
}

impl Number {
    const ZERO: Self = Self { value: 0, digits: [b'0'; 8], length: 1 };

    /// The digits of a number from 1 to 10^8 - 1.
    #[inline]
    fn new(value: u64) -> Self {
        let digits = eight_digits(value);
        let zeros = digits.trailing_zeros() / 8;
        let digits = ((digits | ZEROS) >> (8 * zeros)).to_le_bytes();
        Self { value, digits, length: 8 - zeros as usize }
    }

    /// Becomes the next number, if that has this value and only its last digit is another. Returns
    /// whether it did.
    #[inline]
    fn count_to(&mut self, value: u64) -> bool {
        let digit = &mut self.digits[(self.length - 1) % 8];
        if self.value + 1 != value || *digit == b'9' {
            return false;
        }
        *digit += 1;
        self.value = value;
        true
    }
}

/// The thread and call of an event, and how they are written.
#[derive(Clone, Copy)]
struct Origin {
    /// The thread, then the number of the call, or zero.
    key: u64,
    written: Padded<ORIGIN_LENGTH>,
}

impl Origin {
    /// Becomes the origin of the next call, if that has this key and only the last digit of its
    /// number is another. That is before the space at the end.
    #[inline]
    fn count_call(&mut self, key: u64) -> bool {
        let digit = &mut self.written.bytes[(self.written.length - 2) % ORIGIN_LENGTH];
        if self.key + 1 != key || *digit == b'9' {
            return false;
        }
        *digit += 1;
        self.key = key;
        true
    }
}

/// A text of up to `N` bytes.
#[derive(Clone, Copy)]
pub(crate) struct Padded<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Padded<N> {
    /// The padded text, which must fit.
    pub(crate) const fn new(text: &str) -> Self {
        Self::joined(text, "")
    }

    /// Two texts, one behind the other, which must fit.
    pub(crate) const fn joined(first: &str, second: &str) -> Self {
        let mut bytes = [0; N];
        let (start, end) = bytes.split_at_mut(first.len());
        start.copy_from_slice(first.as_bytes());
        end.split_at_mut(second.len()).0.copy_from_slice(second.as_bytes());
        Self { bytes, length: first.len() + second.len() }
    }
}

impl LineBuffer {
    /// An empty buffer.
    pub const fn new() -> Self {
        let no_name = Name { address: 0, length: 0, written: Padded::new("") };
        Self {
            spilled: Vec::new(),
            length: 0,
            limit: LINE_LENGTH,
            number: Number::ZERO,
            origins: [
                Origin { key: 0, written: Padded::new(" t0 - ") },
                Origin { key: 0, written: Padded::new(" t0 c0 ") },
            ],
            names: [no_name; NAMES],
            numbers: [Number::ZERO; NUMBERS],
            block: [0; PLACES + PIECE_LENGTH],
        }
    }

    /// Appends the line of an event, with its end.
    pub fn push(&mut self, event: &Event) {
        self.push_all(std::slice::from_ref(event));
    }

    /// Appends lines of events until it is time to take the text out. Returns the events after those.
    ///
    /// All kinds of events are written in this one loop: a function for one event would save and
    /// restore registers for each.
    pub fn push_all<'a>(&mut self, events: &'a [Event]) -> &'a [Event] {
        if self.is_full() {
            self.spill();
        }
        let mut rest = events.iter();
        for event in rest.by_ref() {
            let end = event.write(self, self.length);
            self.length = self.put(end, "\n");
            if self.is_full() {
                break;
            }
        }
        rest.as_slice()
    }

    /// Whether it is time to take the text out: the next line has no room in the block, or text was
    /// spilled.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.length > self.limit
    }

    /// The text.
    pub fn text(&mut self) -> &[u8] {
        if self.spilled.is_empty() {
            return &self.block[..self.length];
        }
        self.spill();
        &self.spilled
    }

    /// Removes the text.
    pub fn clear(&mut self) {
        self.spilled.clear();
        (self.length, self.limit) = (0, LINE_LENGTH);
    }

    /// Moves the block's text to the spilled text.
    #[cold]
    fn spill(&mut self) {
        self.spilled.extend_from_slice(&self.block[..self.length]);
        (self.length, self.limit) = (0, 0);
    }

    /// Writes constant text at `end`. Returns the end behind it, as all these functions do.
    #[expect(clippy::inline_always, reason = "the length of the text must be constant")]
    #[inline(always)]
    pub(crate) fn put(&mut self, end: usize, text: &str) -> usize {
        self.put_bytes(end, text.as_bytes(), text.len())
    }

    /// Writes a padded text.
    #[expect(clippy::inline_always, reason = "it is a few moves")]
    #[inline(always)]
    pub(crate) fn put_padded<const N: usize>(&mut self, end: usize, text: &Padded<N>) -> usize {
        self.put_bytes(end, &text.bytes, text.length)
    }

    /// Writes bytes, of which `length` count.
    #[expect(clippy::inline_always, reason = "the number of bytes must be constant")]
    #[inline(always)]
    fn put_bytes(&mut self, end: usize, bytes: &[u8], length: usize) -> usize {
        debug_assert!(end < PLACES, "a line is longer than {LINE_LENGTH} bytes");
        let start = end % PLACES; // Invariant 1: equal. It spares the comparison with the length.
        self.block[start..start + bytes.len()].copy_from_slice(bytes);
        start + length
    }

    /// Writes decimal digits.
    pub(crate) fn put_decimal(&mut self, end: usize, number: u64) -> usize {
        if number < 100 {
            let digits = &SHORT_NUMBERS[(number % 100) as usize];
            return self.put_bytes(end, digits, 1 + usize::from(number >= 10));
        }
        let known = self.numbers[number_place(number)];
        if known.value == number {
            return self.put_number(end, known);
        }
        self.put_new_decimal(end, number)
    }

    #[inline(never)]
    fn put_new_decimal(&mut self, end: usize, number: u64) -> usize {
        if number < EIGHT_DIGITS {
            let mut new = self.numbers[number_place(number - 1)];
            if !new.count_to(number) {
                new = Number::new(number);
            }
            self.numbers[number_place(number)] = new;
            return self.put_number(end, new);
        }
        self.put_long_decimal(end, number)
    }

    #[cold]
    fn put_long_decimal(&mut self, end: usize, number: u64) -> usize {
        let end = self.put_decimal(end, number / EIGHT_DIGITS);
        let rest = eight_digits(number % EIGHT_DIGITS);
        self.put_bytes(end, &(rest | ZEROS).to_le_bytes(), 8)
    }

    #[expect(clippy::inline_always, reason = "it is a few moves")]
    #[inline(always)]
    fn put_number(&mut self, end: usize, number: Number) -> usize {
        self.put_bytes(end, &number.digits, number.length)
    }

    /// Writes the number of an event. It is nearly always the one after that of the last event, so
    /// only its last digit is another.
    #[inline]
    pub(crate) fn put_event_number(&mut self, end: usize, number: u64) -> usize {
        if self.number.count_to(number) {
            return self.put_number(end, self.number);
        }
        self.put_other_event_number(end, number)
    }

    #[inline(never)]
    fn put_other_event_number(&mut self, end: usize, number: u64) -> usize {
        if !(1..EIGHT_DIGITS).contains(&number) {
            return self.put_decimal(end, number);
        }
        self.number = Number::new(number);
        self.put_number(end, self.number)
    }

    /// Writes the thread and call of an event, which are often those of an event shortly before.
    #[inline]
    pub(crate) fn put_origin(&mut self, end: usize, thread: u32, call: Option<u32>) -> usize {
        let known = self.origins[usize::from(call.is_some())];
        if known.key == origin_key(thread, call) {
            return self.put_padded(end, &known.written);
        }
        self.put_new_origin(end, thread, call)
    }

    #[inline(never)]
    fn put_new_origin(&mut self, start: usize, thread: u32, call: Option<u32>) -> usize {
        if let Some(call @ 1..) = call
            && self.origins[1].count_call(origin_key(thread, Some(call)))
        {
            let next = self.origins[1];
            return self.put_padded(start, &next.written);
        }
        self.put_other_origin(start, thread, call)
    }

    #[inline(never)]
    fn put_other_origin(&mut self, start: usize, thread: u32, call: Option<u32>) -> usize {
        let end = self.put(start, " t");
        let end = self.put_decimal(end, thread.into());
        let end = match call {
            Some(call) => {
                let end = self.put(end, " c");
                let end = self.put_decimal(end, call.into());
                self.put(end, " ")
            }
            None => self.put(end, " - "),
        };
        let mut bytes = [0; ORIGIN_LENGTH];
        bytes.copy_from_slice(&self.block[start..start + ORIGIN_LENGTH]);
        self.origins[usize::from(call.is_some())] = Origin {
            key: origin_key(thread, call),
            written: Padded { bytes, length: end - start },
        };
        end
    }

    /// Writes `0x` and eight hexadecimal digits.
    pub(crate) fn put_hex(&mut self, end: usize, number: u32) -> usize {
        let end = self.put(end, "0x");
        self.put_bytes(end, &hex_digits(number), 8)
    }

    /// Writes a constant name, in quotes if it is not plain.
    pub(crate) fn put_name(&mut self, end: usize, name: &'static str) -> usize {
        for place in places(name) {
            let known = &self.names[place];
            if known.address == name.as_ptr().addr() && known.length == name.len() {
                let start = end % PLACES; // As in `put_bytes`.
                self.block[start..start + TEXT_LENGTH].copy_from_slice(&known.written.bytes);
                return start + known.written.length;
            }
        }
        self.put_new_name(end, name)
    }

    /// Writes a name that was not written before, or whose place another name took.
    #[cold]
    fn put_new_name(&mut self, end: usize, name: &'static str) -> usize {
        if is_plain(name) && name.len() <= TEXT_LENGTH {
            let (address, length) = (name.as_ptr().addr(), name.len());
            let [first, ..] = places(name);
            let free = places(name).into_iter().find(|place| self.names[*place].address == 0);
            self.names[free.unwrap_or(first)] =
                Name { address, length, written: Padded::new(name) };
        }
        self.put_text(end, name)
    }

    /// Writes a text, in quotes if it is not plain.
    #[cold]
    pub(crate) fn put_text(&mut self, end: usize, text: &str) -> usize {
        if is_plain(text) {
            self.put_any(end, text)
        } else {
            self.put_any(end, &format!("{text:?}"))
        }
    }

    /// Writes text of any length, unchanged.
    fn put_any(&mut self, end: usize, text: &str) -> usize {
        if text.len() <= TEXT_LENGTH {
            return self.put_padded(end, &Padded::<TEXT_LENGTH>::new(text));
        }
        self.length = end;
        self.spill();
        self.spilled.extend_from_slice(text.as_bytes());
        self.length
    }
}

impl Default for LineBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LineBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineBuffer").field("length", &self.length).finish_non_exhaustive()
    }
}

/// A number for a thread and a call. Those without a call are apart.
#[inline]
fn origin_key(thread: u32, call: Option<u32>) -> u64 {
    (u64::from(thread) << 32) | u64::from(call.unwrap_or(0))
}

/// The place of a number among the kept ones.
#[inline]
fn number_place(number: u64) -> usize {
    usize::from(number.to_le_bytes()[0]) % NUMBERS
}

/// The places that a name can have among the kept ones. The first is the upper bits of a product,
/// which depend on all bits of the address.
#[inline]
fn places(name: &'static str) -> [usize; 4] {
    let address = name.as_ptr().addr() as u64;
    let first = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - NAME_BITS);
    [0, 1, 2, 3].map(|step| (first as usize + step) % NAMES)
}

/// Whether a text is written without quotes.
fn is_plain(text: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-' | b'/');
    !text.is_empty() && text.bytes().all(plain)
}

/// The digits of the numbers below one hundred; those below ten are padded.
static SHORT_NUMBERS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        let (tens, ones) = (b'0' + number / 10, b'0' + number % 10);
        pairs[number as usize] = if number < 10 { [ones, b' '] } else { [tens, ones] };
        number += 1;
    }
    pairs
};

/// The smallest number with more than eight digits.
const EIGHT_DIGITS: u64 = 100_000_000;

/// Eight digits `0`.
const ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);

/// The values of eight decimal digits, one in each byte, the first in the lowest.
///
/// Each step halves all parts of the number at once: a multiplication by a rounded reciprocal and a
/// shift divide them, since no part grows into the next one.
#[inline]
fn eight_digits(number: u64) -> u64 {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let pairs = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((pairs - 10 * tens) << 8)
}

/// The eight hexadecimal digits of a number.
#[inline]
fn hex_digits(number: u32) -> [u8; 8] {
    let spread = u64::from(number);
    let spread = (spread | (spread << 16)) & 0x0000_ffff_0000_ffff;
    let spread = (spread | (spread << 8)) & 0x00ff_00ff_00ff_00ff;
    let values = (spread | (spread << 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    // One in each byte whose value is above nine: a letter.
    let letters = ((values + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    let after_nine = u64::from(b'a' - b'0' - 10);
    (values + ZEROS + letters * after_nine).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written to an empty buffer.
    fn written(write: impl Fn(&mut LineBuffer) -> usize) -> String {
        let mut lines = LineBuffer::new();
        lines.length = write(&mut lines);
        String::from_utf8(lines.text().to_vec()).unwrap()
    }

    #[test]
    fn numbers_have_the_digits_of_the_formatter() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        let near = powers.flat_map(|power| [power - 1, power, power + 1, power / 3, power / 7]);
        for number in near.chain(0..11_000).chain([u64::MAX, u64::MAX - 1]) {
            assert_eq!(written(|lines| lines.put_decimal(0, number)), number.to_string());
        }
        for number in (0..32).flat_map(|shift| [1 << shift, 0x9abc_def0 >> shift, !0 << shift]) {
            assert_eq!(written(|lines| lines.put_hex(0, number)), format!("{number:#010x}"));
        }
    }

    #[test]
    fn the_number_of_an_event_is_written_whether_it_is_the_next_or_another() {
        let mut lines = LineBuffer::new();
        let numbers = (1..2000).chain([0, 7, 8, 99_999_998]).chain(99_999_999..100_000_012);
        for number in numbers.chain([u64::MAX, 1, 2, 1 << 32, (1 << 32) + 1]) {
            lines.length = lines.put_event_number(0, number);
            assert_eq!(std::str::from_utf8(lines.text()), Ok(&*number.to_string()));
        }
    }

    #[test]
    fn the_origin_of_an_event_is_written_whether_its_call_is_the_next_or_another() {
        let mut lines = LineBuffer::new();
        let calls = (0..300).chain([7, 8, 99_999_999, 100_000_000, u32::MAX - 1, u32::MAX, 0, 1]);
        let origins = calls.flat_map(|call| [(1, Some(call)), (1, None), (1, Some(call))]);
        for (thread, call) in origins.chain([(2, Some(2)), (3, Some(3)), (3, Some(4))]) {
            lines.length = lines.put_origin(0, thread, call);
            let call = call.map_or("-".to_owned(), |call| format!("c{call}"));
            assert_eq!(std::str::from_utf8(lines.text()), Ok(&*format!(" t{thread} {call} ")));
        }
    }

    #[test]
    fn numbers_of_several_rows_are_written_in_turn() {
        let mut lines = LineBuffer::new();
        for step in 95..2_100 {
            for number in [step, step + 64, 10_000_000 + step, 99_998_000 + step] {
                lines.length = lines.put_decimal(0, number);
                assert_eq!(std::str::from_utf8(lines.text()), Ok(&*number.to_string()));
            }
        }
    }

    #[test]
    fn four_digits_are_divided_exactly() {
        for number in 0..10_000 {
            let digits = eight_digits(number * 10_000 + (9_999 - number));
            let text = String::from_utf8((digits | ZEROS).to_le_bytes().to_vec()).unwrap();
            assert_eq!(text, format!("{number:04}{:04}", 9_999 - number));
        }
    }

    #[test]
    fn a_text_is_written_the_same_whether_it_is_known_long_or_neither() {
        static NAMES: [&str; 4] = ["DxgkDdiCreateAllocation", "two words", "", "\"\n"];
        let long = "x".repeat(3 * PLACES);
        let mut lines = LineBuffer::new();
        let mut end = 0;
        let mut expected = String::new();
        for round in 0..3 {
            for name in NAMES {
                end = lines.put_name(end, name);
                end = lines.put_text(end, name);
                let text =
                    if round < 3 && is_plain(name) { name.into() } else { format!("{name:?}") };
                expected += &(text.clone() + &text);
            }
            end = lines.put_text(end, &long);
            expected += &long;
        }
        lines.length = end;
        assert!(!lines.spilled.is_empty());
        assert_eq!(std::str::from_utf8(lines.text()), Ok(&*expected));
        lines.clear();
        assert!(!lines.is_full() && lines.text().is_empty());
    }

    #[test]
    fn lines_for_which_the_block_has_no_room_are_spilled() {
        let line = "1 t1 - node:0 fence.reported fence=4";
        let event: Event = line.parse().unwrap();
        let mut lines = LineBuffer::new();
        for _ in 0..1000 {
            lines.push(&event);
        }
        let expected = format!("{line}\n").repeat(1000);
        assert_eq!(std::str::from_utf8(lines.text()), Ok(&*expected));
    }
}
