//! The `printf` formatter of all functions that print: `DbgPrint`, `_snprintf`, `_snwprintf`, …
//!
//! A format is read as code units of 16 bits, and so is the result; a function for bytes widens the
//! one and narrows the other. Arguments are 64-bit slots in memory, as a `va_list` has them on x64.
#![expect(unsafe_code, reason = "reads the driver's arguments")]

use crate::driver_memory::DriverMemory;
use crate::rtl_string::CountedString;

/// The longest string that `%s` reads.
const MAX_STRING: usize = 1 << 20;
/// The largest width and precision. A larger one is a mistake of the driver.
const MAX_WIDTH: usize = 1 << 16;

/// What `%s`, `%c` and `%Z` mean without a size prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Characters {
    /// Bytes: a function for `char` strings.
    Narrow,
    /// UTF-16 code units: a function for `wchar_t` strings.
    Wide,
}

/// The arguments of a call, as a `va_list`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments(DriverMemory);

impl Arguments {
    /// The arguments from a slot on.
    ///
    /// # Safety
    ///
    /// The slots have the types that the format names.
    pub(crate) unsafe fn at(slots: *const u64) -> Self {
        // SAFETY: The caller's contract.
        Self(unsafe { DriverMemory::at(slots) })
    }

    /// The argument with this index.
    pub(crate) fn slot(self, index: usize) -> u64 {
        self.0.read(index * 8)
    }

    /// The memory that an argument points to.
    pub(crate) fn memory(self, index: usize) -> DriverMemory {
        self.0.follow(index * 8)
    }

    /// The arguments behind the first `count`.
    pub(crate) fn skip(self, count: usize) -> Self {
        Self(self.0.part(count * 8))
    }

    fn take(&mut self) -> u64 {
        let value = self.slot(0);
        *self = self.skip(1);
        value
    }

    fn take_memory(&mut self) -> DriverMemory {
        let memory = self.memory(0);
        *self = self.skip(1);
        memory
    }

    /// An `int` that is a width or a precision.
    fn take_int(&mut self) -> i32 {
        int(self.take())
    }
}

/// The low 32 bits of a slot, as an `int`.
fn int(slot: u64) -> i32 {
    let bytes = slot.to_le_bytes();
    i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The size prefix of a conversion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Default,
    /// `hh`.
    Byte,
    /// `h`.
    Short,
    /// `l` or `w`: 32 bits for a number, wide for characters.
    Long,
    /// `I64`, `ll`, and `I`, `z`, `t`, `j` on x64.
    Quad,
}

/// Flags, width, precision and size of a conversion.
#[expect(clippy::struct_excessive_bools, reason = "the flags of printf")]
struct Conversion {
    left: bool,
    plus: bool,
    blank: bool,
    zero: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    size: Size,
}

/// Formats as `printf` does. An unknown conversion is printed as it is written.
pub(crate) fn format(format: &[u16], mut arguments: Arguments, of: Characters) -> Vec<u16> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(unit) = format.get(at) {
        at += 1;
        if *unit != u16::from(b'%') {
            out.push(*unit);
            continue;
        }
        let start = at - 1;
        let mut parser = Parser { format, at };
        let conversion = parser.conversion(&mut arguments);
        let kind = parser.next();
        at = parser.at;
        match kind.and_then(|kind| conversion.convert(kind, &mut arguments, of)) {
            Some(text) => out.extend(text),
            None => out.extend_from_slice(&format[start..at]),
        }
    }
    out
}

struct Parser<'a> {
    format: &'a [u16],
    at: usize,
}

impl Parser<'_> {
    /// The next letter, if it is ASCII.
    fn peek(&self) -> Option<u8> {
        u8::try_from(*self.format.get(self.at)?).ok()
    }

    fn next(&mut self) -> Option<u8> {
        let letter = self.peek();
        self.at = (self.at + 1).min(self.format.len());
        letter
    }

    fn accept(&mut self, text: &[u8]) -> bool {
        let found = self.format.get(self.at..self.at + text.len());
        let same =
            found.is_some_and(|units| units.iter().copied().eq(text.iter().map(|c| (*c).into())));
        self.at += if same { text.len() } else { 0 };
        same
    }

    /// A number, or `*` for an argument. A negative argument is returned as its error.
    fn number(&mut self, arguments: &mut Arguments) -> Option<Result<usize, usize>> {
        let limit = |value: u32| (value as usize).min(MAX_WIDTH);
        if self.accept(b"*") {
            let value = arguments.take_int();
            let size = limit(value.unsigned_abs());
            return Some(if value < 0 { Err(size) } else { Ok(size) });
        }
        let mut value = None;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            self.at += 1;
            value = Some((value.unwrap_or(0) * 10 + usize::from(digit - b'0')).min(MAX_WIDTH));
        }
        value.map(Ok)
    }

    fn conversion(&mut self, arguments: &mut Arguments) -> Conversion {
        let mut found = Conversion {
            left: false,
            plus: false,
            blank: false,
            zero: false,
            alternate: false,
            width: 0,
            precision: None,
            size: Size::Default,
        };
        while let Some(flag @ (b'-' | b'+' | b' ' | b'0' | b'#')) = self.peek() {
            self.at += 1;
            match flag {
                b'-' => found.left = true,
                b'+' => found.plus = true,
                b' ' => found.blank = true,
                b'0' => found.zero = true,
                _ => found.alternate = true,
            }
        }
        match self.number(arguments) {
            Some(Ok(width)) => found.width = width,
            Some(Err(width)) => (found.left, found.width) = (true, width),
            None => {}
        }
        if self.accept(b".") {
            // A negative precision counts as none.
            found.precision = self.number(arguments).unwrap_or(Ok(0)).ok();
        }
        found.size = self.size();
        found
    }

    fn size(&mut self) -> Size {
        let prefixes: [(&[u8], Size); 11] = [
            (b"I64", Size::Quad),
            (b"I32", Size::Default),
            (b"I", Size::Quad),
            (b"ll", Size::Quad),
            (b"l", Size::Long),
            (b"w", Size::Long),
            (b"hh", Size::Byte),
            (b"h", Size::Short),
            (b"z", Size::Quad),
            (b"t", Size::Quad),
            (b"j", Size::Quad),
        ];
        let found = prefixes.into_iter().find(|(prefix, _)| self.accept(prefix));
        found.map_or(Size::Default, |(_, size)| size)
    }
}

impl Conversion {
    /// The text of a conversion; `None` if it is unknown.
    fn convert(&self, kind: u8, arguments: &mut Arguments, of: Characters) -> Option<Vec<u16>> {
        Some(match kind {
            b'd' | b'i' => self.signed(arguments.take()),
            b'u' => self.unsigned(arguments.take(), |value| value.to_string(), ""),
            b'o' => self.unsigned(arguments.take(), |value| format!("{value:o}"), "0"),
            b'x' => self.unsigned(arguments.take(), |value| format!("{value:x}"), "0x"),
            b'X' => self.unsigned(arguments.take(), |value| format!("{value:X}"), "0X"),
            b'p' => self.padded(&[], units(&format!("{:016X}", arguments.take())), false),
            b'c' | b'C' => self.character(arguments.take(), self.is_wide(kind == b'C', of)),
            b's' | b'S' => self.string(arguments.take_memory(), self.is_wide(kind == b'S', of)),
            b'Z' => self.counted(arguments.take_memory(), self.is_wide(false, of)),
            b'f' | b'F' => self.float(f64::from_bits(arguments.take())),
            b'%' => units("%"),
            _ => return None,
        })
    }

    /// Whether characters are wide. The capital letter means the other kind than the function's.
    fn is_wide(&self, other: bool, of: Characters) -> bool {
        match self.size {
            Size::Long => true,
            Size::Short | Size::Byte => false,
            Size::Default | Size::Quad => (of == Characters::Wide) != other,
        }
    }

    fn signed(&self, slot: u64) -> Vec<u16> {
        let bytes = slot.to_le_bytes();
        let value = match self.size {
            Size::Quad => slot.cast_signed(),
            Size::Short => i16::from_le_bytes([bytes[0], bytes[1]]).into(),
            Size::Byte => i8::from_le_bytes([bytes[0]]).into(),
            Size::Default | Size::Long => int(slot).into(),
        };
        let sign = match (value < 0, self.plus, self.blank) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (.., true) => " ",
            _ => "",
        };
        self.number(sign, value.unsigned_abs().to_string())
    }

    fn unsigned(&self, slot: u64, write: impl Fn(u64) -> String, prefix: &str) -> Vec<u16> {
        let value = match self.size {
            Size::Quad => slot,
            Size::Short => slot & 0xFFFF,
            Size::Byte => slot & 0xFF,
            Size::Default | Size::Long => slot & 0xFFFF_FFFF,
        };
        let prefix = if self.alternate && value != 0 { prefix } else { "" };
        self.number(prefix, write(value))
    }

    /// Digits with their precision, behind a sign or prefix.
    fn number(&self, prefix: &str, digits: String) -> Vec<u16> {
        let empty = self.precision == Some(0) && digits == "0";
        let digits = if empty { String::new() } else { digits };
        let missing = self.precision.unwrap_or(0).saturating_sub(digits.len());
        let digits = "0".repeat(missing) + &digits;
        self.padded(&units(prefix), units(&digits), self.zero && self.precision.is_none())
    }

    fn float(&self, value: f64) -> Vec<u16> {
        let sign = if value.is_sign_negative() {
            "-"
        } else if self.plus {
            "+"
        } else {
            ""
        };
        let digits = format!("{:.*}", self.precision.unwrap_or(6), value.abs());
        self.padded(&units(sign), units(&digits), self.zero)
    }

    fn character(&self, slot: u64, wide: bool) -> Vec<u16> {
        let bytes = slot.to_le_bytes();
        let unit = u16::from_le_bytes([bytes[0], if wide { bytes[1] } else { 0 }]);
        self.padded(&[], vec![unit], false)
    }

    fn string(&self, memory: DriverMemory, wide: bool) -> Vec<u16> {
        let limit = self.precision.unwrap_or(MAX_STRING);
        let mut text = match memory.non_null() {
            None => units("(null)"),
            Some(memory) if wide => memory.read_wide_string(limit),
            Some(memory) => widened(&memory.read_c_string(limit)),
        };
        text.truncate(limit);
        self.padded(&[], text, false)
    }

    fn counted(&self, memory: DriverMemory, wide_function: bool) -> Vec<u16> {
        let text = memory.non_null().map(CountedString::in_memory);
        let text =
            text.map(|text| if wide_function { text.wide() } else { widened(&text.bytes()) });
        let mut text = text.unwrap_or_else(|| units("(null)"));
        text.truncate(self.precision.unwrap_or(MAX_STRING));
        self.padded(&[], text, false)
    }

    /// The text with its prefix, filled to the width.
    fn padded(&self, prefix: &[u16], text: Vec<u16>, zero: bool) -> Vec<u16> {
        let fill = self.width.saturating_sub(prefix.len() + text.len());
        let pad = |letter: u8, on: bool| {
            std::iter::repeat_n(u16::from(letter), if on { fill } else { 0 })
        };
        let zero = zero && !self.left;
        let mut out: Vec<u16> = pad(b' ', !self.left && !zero).collect();
        out.extend_from_slice(prefix);
        out.extend(pad(b'0', zero));
        out.extend(text);
        out.extend(pad(b' ', self.left));
        out
    }
}

fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

/// Bytes as code units.
pub(crate) fn widened(bytes: &[u8]) -> Vec<u16> {
    bytes.iter().copied().map(u16::from).collect()
}

/// Code units as bytes: Latin-1, and `?` for any other.
pub(crate) fn narrowed(units: &[u16]) -> Vec<u8> {
    units.iter().map(|unit| u8::try_from(*unit).unwrap_or(b'?')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{call, wide};

    fn print(of: Characters, text: &str, slots: &[u64]) -> String {
        let slots = [slots, &[0; 4]].concat();
        let arguments = call!(Arguments::at, slots.as_ptr());
        String::from_utf16_lossy(&format(&units(text), arguments, of))
    }

    fn narrow(text: &str, slots: &[u64]) -> String {
        print(Characters::Narrow, text, slots)
    }

    #[test]
    fn numbers_have_their_size_width_and_flags() {
        let minus = u64::from(u32::MAX);
        assert_eq!(narrow("%d %i %u", &[minus, 7, minus]), "-1 7 4294967295");
        assert_eq!(narrow("%08x|%#x|%X", &[0xBEEF, 0xBEEF, 0xBEEF]), "0000beef|0xbeef|BEEF");
        assert_eq!(
            narrow("%I64d %I64u %I64x %lld %llx", &[u64::MAX; 5]),
            format!("-1 {0} {1:x} -1 {1:x}", u64::MAX, u64::MAX)
        );
        assert_eq!(
            narrow("%ld %lu %hd %hhu %Iu", &[minus, minus, 0x1_FFFF, 0x1FF, 1 << 40]),
            "-1 4294967295 -1 255 1099511627776"
        );
        assert_eq!(
            narrow("[%5d][%-5d][%+d][% d][%05d]", &[42, 42, 42, 42, (-42_i64).cast_unsigned()]),
            "[   42][42   ][+42][ 42][-0042]"
        );
        assert_eq!(
            narrow("[%.3d][%.0d][%8.3x][%*d][%-*d]", &[7, 0, 10, 4, 1, 4, 1]),
            "[007][][     00a][   1][1   ]"
        );
        assert_eq!(narrow("%p %o %c%%", &[0xABC, 8, 0x41]), "0000000000000ABC 10 A%");
        assert_eq!(
            narrow("%.2f %+f", &[1.5_f64.to_bits(), (-1.0_f64).to_bits()]),
            "1.50 -1.000000"
        );
    }

    #[test]
    fn strings_are_narrow_or_wide_by_function_and_prefix() {
        let (bytes, text) = (c"bytes", wide("w\u{ef}de"));
        let (bytes, text) =
            (bytes.as_ptr().expose_provenance() as u64, text.as_ptr().expose_provenance() as u64);
        assert_eq!(
            narrow("%s %S %ws %ls %hs", &[bytes, text, text, text, bytes]),
            "bytes w\u{ef}de w\u{ef}de w\u{ef}de bytes"
        );
        let slots = [text, bytes, bytes, text];
        assert_eq!(
            print(Characters::Wide, "%s %S %hs %ls", &slots),
            "w\u{ef}de bytes bytes w\u{ef}de"
        );
        assert_eq!(
            narrow("[%7s][%-7s][%.2s][%s]", &[bytes, bytes, bytes, 0]),
            "[  bytes][bytes  ][by][(null)]"
        );
        assert_eq!(narrow("%C", &[0x3B1]), "\u{3b1}");
    }

    #[test]
    fn counted_strings_end_at_their_length() {
        let (text, bytes) = (wide("counted"), *b"counted");
        let unicode = [0x0010_0006_u64, text.as_ptr().expose_provenance() as u64];
        let ansi = [0x0008_0004_u64, bytes.as_ptr().expose_provenance() as u64];
        let (unicode, ansi) =
            (unicode.as_ptr().expose_provenance() as u64, ansi.as_ptr().expose_provenance() as u64);
        assert_eq!(narrow("%wZ %Z %-6wZ|", &[unicode, ansi, unicode]), "cou coun cou   |");
        assert_eq!(print(Characters::Wide, "%wZ %hZ %wZ", &[unicode, ansi, 0]), "cou coun (null)");
    }

    #[test]
    fn what_is_unknown_stays_as_it_is() {
        assert_eq!(narrow("100%", &[]), "100%");
        assert_eq!(narrow("%y %d", &[5]), "%y 5");
        assert_eq!(narrow("%999999999d", &[5]).len(), MAX_WIDTH);
    }

    #[test]
    fn bytes_and_units_are_converted() {
        assert_eq!(widened(b"\xE4"), [0xE4]);
        assert_eq!(narrowed(&[0xE4, 0x20AC]), b"\xE4?");
    }
}
