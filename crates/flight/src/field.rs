//! The values of events, and their text form.

use crate::{Component, Fence, Irql, RuleId, Subject};
use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;

/// Text in an event: a static name, or text that was read back or formatted.
pub type Text = Cow<'static, str>;

/// A number that is usually shown in hexadecimal: a handle, a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex(pub u32);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// A value of an event, written as text without spaces outside quotes, and read back.
pub trait Field: Sized {
    /// Writes it, without spaces outside quotes.
    fn write(&self, to: &mut Vec<u8>);
    /// Reads what `write` wrote.
    fn read(driver_handle: &str) -> Option<Self>;
}

macro_rules! plain_field {
    ($($type:ty: $write:expr),*) => {$(
        impl Field for $type {
            fn write(&self, to: &mut Vec<u8>) {
                $write(*self, to);
            }
            fn read(driver_handle: &str) -> Option<Self> {
                driver_handle.parse().ok()
            }
        }
    )*};
}

plain_field!(
    u32: |it, to| push_decimal(u64::from(it), to),
    u64: push_decimal,
    bool: |it, to| push_text(if it { "true" } else { "false" }, to)
);

/// Appends text unchanged.
#[expect(clippy::inline_always, reason = "constant text is then stored without a call")]
#[inline(always)]
pub(crate) fn push_text(text: &str, to: &mut Vec<u8>) {
    to.extend_from_slice(text.as_bytes());
}

/// The digits of the numbers below one hundred.
const DIGIT_PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    pairs
};

/// Appends decimal digits. Most of a trace is numbers, so this avoids the general formatter and
/// takes two digits at a time.
fn push_decimal(mut number: u64, to: &mut Vec<u8>) {
    if number < 10 {
        to.push(b'0' + (number % 10) as u8); // Below ten.
        return;
    }
    if number < 100 {
        to.extend_from_slice(&DIGIT_PAIRS[(number % 100) as usize]);
        return;
    }
    let (mut digits, mut start) = ([0_u8; 20], 20);
    while number >= 10 {
        start -= 2;
        let pair = DIGIT_PAIRS[(number % 100) as usize]; // Below one hundred.
        digits[start..start + 2].copy_from_slice(&pair);
        number /= 100;
    }
    // The pairs may have ended with the first digit.
    if number > 0 {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8; // Below ten.
    }
    to.extend_from_slice(&digits[start..]);
}

impl Field for Text {
    fn write(&self, to: &mut Vec<u8>) {
        let plain = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-' | b'/')
        };
        // Checks all bytes without an early exit, so that the compiler vectorizes the loop.
        if !self.is_empty() && self.bytes().fold(true, |all, it| all & plain(it)) {
            push_text(self, to);
        } else {
            let _ = write!(to, "{self:?}"); // Writing to memory does not fail.
        }
    }

    fn read(driver_handle: &str) -> Option<Self> {
        let Some(quoted) = driver_handle.strip_prefix('"') else {
            return Some(Cow::Owned(driver_handle.to_owned()));
        };
        let (mut text, mut rest) = (String::new(), quoted.strip_suffix('"')?.chars());
        while let Some(c) = rest.next() {
            text.push(match c {
                '\\' => match rest.next()? {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    '0' => '\0',
                    'u' => {
                        let digits: String =
                            rest.by_ref().skip(1).take_while(|c| *c != '}').collect();
                        char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                    }
                    other => other,
                },
                c => c,
            });
        }
        Some(Cow::Owned(text))
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl Field for Hex {
    fn write(&self, to: &mut Vec<u8>) {
        let digit = |place: usize| DIGITS[(self.0 >> (28 - 4 * place) & 0xf) as usize];
        let digits: [u8; 8] = std::array::from_fn(digit);
        push_text("0x", to);
        to.extend_from_slice(&digits);
    }
    fn read(driver_handle: &str) -> Option<Self> {
        u32::from_str_radix(driver_handle.strip_prefix("0x")?, 16).ok().map(Hex)
    }
}

impl Field for Fence {
    fn write(&self, to: &mut Vec<u8>) {
        self.0.write(to);
    }
    fn read(driver_handle: &str) -> Option<Self> {
        driver_handle.parse().ok().map(Fence)
    }
}

impl Field for Subject {
    fn write(&self, to: &mut Vec<u8>) {
        push_text(self.kind.name(), to);
        to.push(b':');
        self.number.write(to);
    }
    fn read(driver_handle: &str) -> Option<Self> {
        driver_handle.parse().ok()
    }
}

impl<F: Field> Field for Option<F> {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Some(it) => it.write(to),
            None => to.push(b'-'),
        }
    }
    fn read(driver_handle: &str) -> Option<Self> {
        if driver_handle == "-" { Some(None) } else { F::read(driver_handle).map(Some) }
    }
}

impl Field for Irql {
    fn write(&self, to: &mut Vec<u8>) {
        push_text(self.name(), to);
    }
    fn read(driver_handle: &str) -> Option<Self> {
        [Irql::Passive, Irql::Dispatch, Irql::Device]
            .into_iter()
            .find(|irql| irql.name() == driver_handle)
    }
}

impl Field for RuleId {
    fn write(&self, to: &mut Vec<u8>) {
        push_text(self.name(), to);
    }
    fn read(driver_handle: &str) -> Option<Self> {
        RuleId::find(driver_handle)
    }
}

impl Field for Component {
    fn write(&self, to: &mut Vec<u8>) {
        push_text(self.name(), to);
    }
    fn read(driver_handle: &str) -> Option<Self> {
        Component::ALL.into_iter().find(|component| component.name() == driver_handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_of_the_formatter() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        let near = powers.flat_map(|power| [power - 1, power, power + 1, power / 3]);
        for number in near.chain(0..1100).chain([u64::MAX, u64::MAX - 1]) {
            let mut text = Vec::new();
            push_decimal(number, &mut text);
            assert_eq!(String::from_utf8(text), Ok(number.to_string()));
        }
    }
}
