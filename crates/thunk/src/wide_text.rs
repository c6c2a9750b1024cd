//! Texts of callers whose characters (`WCHAR`) have two bytes, as on Windows, or four, as in clients
//! of WSL.

/// The size of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// UTF-16.
    Two,
    /// UTF-32.
    Four,
}

/// The width of the characters of a name, which the second code unit of two bytes tells: in a name
/// of at least two characters it is zero if characters have four bytes. A shorter name has two.
pub(crate) fn width_of(name: &[u8]) -> Width {
    let unit = |at: usize| name.get(2 * at..2 * at + 2).is_some_and(|unit| unit != [0, 0]);
    if unit(0) && !unit(1) && unit(2) && !unit(3) { Width::Four } else { Width::Two }
}

impl Width {
    /// The number of bytes of a character.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Width::Two => 2,
            Width::Four => 4,
        }
    }

    /// The text in front of the first zero. What is no character becomes a replacement character.
    pub(crate) fn decode(self, bytes: &[u8]) -> String {
        let unit = |bytes: &[u8]| {
            bytes.iter().rev().fold(0_u32, |value, byte| value << 8 | u32::from(*byte))
        };
        let units = bytes.chunks_exact(self.bytes()).map(unit).take_while(|unit| *unit != 0);
        let character = |unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
        match self {
            Width::Two => {
                let units = units.map(|unit| u16::try_from(unit).unwrap_or_default());
                char::decode_utf16(units)
                    .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect()
            }
            Width::Four => units.map(character).collect(),
        }
    }

    /// The bytes of a text with its end; a list ends with an empty text.
    pub(crate) fn encode(self, text: &str, list: bool) -> Vec<u8> {
        let ends = if list { 2 } else { 1 };
        let mut bytes: Vec<u8> = match self {
            Width::Two => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Width::Four => {
                text.chars().flat_map(|character| u32::from(character).to_le_bytes()).collect()
            }
        };
        bytes.resize(bytes.len() + ends * self.bytes(), 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_code_unit_tells_the_width() {
        for width in [Width::Two, Width::Four] {
            for text in [r"\\.\DISPLAY1", "ab"] {
                let bytes = width.encode(text, false);
                assert_eq!((width_of(&bytes), width.decode(&bytes).as_str()), (width, text));
            }
        }
        for short in [&b""[..], b"a\0", b"a\0\0\0", b"a\0\0\0\0\0\0\0"] {
            assert_eq!(width_of(short), Width::Two);
        }
        assert_eq!(Width::Two.decode(&[0, 0xd8, 0x61, 0]), "\u{fffd}a");
    }
}
