//! The values of events, and their text form.

use crate::line_buffer::{LineBuffer, Padded, TEXT_LENGTH};
use crate::{Component, Fence, Irql, Kind, RuleId, Subject, Text};
use std::fmt;

/// A number that is usually shown in hexadecimal: a handle, a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex(pub u32);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// The functions of a driver that led to a call, the innermost first. Empty if they are not known, as
/// for a driver that is not one of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callers(pub Text);

impl Callers {
    /// Those that are not known.
    pub const UNKNOWN: Self = Self(Text::Borrowed(""));

    /// Between two functions.
    pub const BETWEEN: &'static str = ", called by ";

    /// The two innermost functions: the first one may only wrap the call. Empty if none is known.
    pub fn innermost(&self) -> &str {
        let second = self.0.match_indices(Self::BETWEEN).nth(1);
        second.map_or(&self.0, |(end, _)| &self.0[..end])
    }
}

/// A value of an event, written as text without spaces outside quotes, and read back.
pub(crate) trait Field: Sized {
    /// The most bytes that `write` writes to the buffer's block.
    const LENGTH: usize;
    /// The value that is not written, with its name, if there is one.
    const LEFT_OUT: Option<Self> = None;
    /// Whether this is the value that is not written.
    #[expect(clippy::inline_always, reason = "of most values it is a constant")]
    #[inline(always)]
    fn is_left_out(&self) -> bool {
        false
    }
    /// Writes it at `end`, without spaces outside quotes. Returns the end behind it.
    fn write(&self, to: &mut LineBuffer, end: usize) -> usize;
    /// Reads what `write` wrote.
    fn read(text: &str) -> Option<Self>;
    /// Whether it has memory of its own.
    #[expect(clippy::inline_always, reason = "of most values it is a constant")]
    #[inline(always)]
    fn owns_memory(&self) -> bool {
        false
    }
}

impl Field for u32 {
    const LENGTH: usize = 10;
    #[inline]
    fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
        to.put_decimal(end, u64::from(*self))
    }
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Field for u64 {
    const LENGTH: usize = 20;
    #[inline]
    fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
        to.put_decimal(end, *self)
    }
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Field for bool {
    const LENGTH: usize = 5;
    #[inline]
    fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
        static TEXTS: [Padded<8>; 2] = [Padded::new("false"), Padded::new("true")];
        to.put_padded(end, &TEXTS[usize::from(*self)])
    }
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Field for Text {
    const LENGTH: usize = TEXT_LENGTH;
    #[inline]
    fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
        match self {
            Text::Borrowed(name) => to.put_name(end, name),
            Text::Owned(text) => to.put_text(end, text),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let Some(quoted) = text.strip_prefix('"') else {
            return Some(text.to_owned().into());
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
        Some(text.into())
    }

    #[expect(clippy::inline_always, reason = "of a constant name it is a constant")]
    #[inline(always)]
    fn owns_memory(&self) -> bool {
        matches!(self, Text::Owned(_))
    }
}

impl Field for Callers {
    const LENGTH: usize = Text::LENGTH;
    const LEFT_OUT: Option<Self> = Some(Self::UNKNOWN);
    #[inline]
    fn is_left_out(&self) -> bool {
        self.0.is_empty()
    }
    #[inline]
    fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
        self.0.write(to, end)
    }
    fn read(text: &str) -> Option<Self> {
        Text::read(text).map(Self)
    }
    #[expect(clippy::inline_always, reason = "as for a text")]
    #[inline(always)]
    fn owns_memory(&self) -> bool {
        self.0.owns_memory()
    }
}

impl Field for Hex {
    const LENGTH: usize = 10;
    #[inline]
    fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
        to.put_hex(end, self.0)
    }
    fn read(text: &str) -> Option<Self> {
        u32::from_str_radix(text.strip_prefix("0x")?, 16).ok().map(Hex)
    }
}

impl Field for Fence {
    const LENGTH: usize = u32::LENGTH;
    #[inline]
    fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
        self.0.write(to, end)
    }
    fn read(text: &str) -> Option<Self> {
        text.parse().ok().map(Fence)
    }
}

impl Field for Subject {
    const LENGTH: usize = Kind::PREFIX_LENGTH + u32::LENGTH;
    #[inline]
    fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
        let end = to.put_padded(end, self.kind.prefix());
        self.number.write(to, end)
    }
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl<F: Field> Field for Option<F> {
    const LENGTH: usize = F::LENGTH;
    #[inline]
    fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
        match self {
            Some(value) => value.write(to, end),
            None => to.put(end, "-"),
        }
    }
    fn read(text: &str) -> Option<Self> {
        if text == "-" { Some(None) } else { F::read(text).map(Some) }
    }
}

impl Field for Irql {
    const LENGTH: usize = TEXT_LENGTH;
    #[inline]
    fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
        to.put_name(end, self.name())
    }
    fn read(text: &str) -> Option<Self> {
        [Irql::Passive, Irql::Dispatch, Irql::Device].into_iter().find(|irql| irql.name() == text)
    }
}

impl Field for RuleId {
    const LENGTH: usize = TEXT_LENGTH;
    #[inline]
    fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
        to.put_name(end, self.name())
    }
    fn read(text: &str) -> Option<Self> {
        RuleId::find(text)
    }
}

impl Field for Component {
    const LENGTH: usize = TEXT_LENGTH;
    #[inline]
    fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
        to.put_name(end, self.name())
    }
    fn read(text: &str) -> Option<Self> {
        Component::ALL.into_iter().find(|component| component.name() == text)
    }
}
