//! Text in events.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// Text in an event: a static name, or text that was read back or formatted.
///
/// It is a `Cow` of two words instead of three: most events have a name, and each is copied when
/// it is logged.
#[derive(Clone)]
pub enum Text {
    /// A name in the program.
    Borrowed(&'static str),
    /// Any other text: one word, beside which there is room for the variant.
    Owned(Box<String>),
}

const _: () = assert!(size_of::<Text>() == size_of::<&str>());

impl Text {
    /// The text as a string of its own.
    pub fn into_owned(self) -> String {
        match self {
            Text::Borrowed(name) => name.to_owned(),
            Text::Owned(text) => *text,
        }
    }
}

impl From<&'static str> for Text {
    #[inline]
    fn from(name: &'static str) -> Self {
        Text::Borrowed(name)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Text::Owned(Box::new(text))
    }
}

impl Deref for Text {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(name) => name,
            Text::Owned(text) => text,
        }
    }
}

impl AsRef<str> for Text {
    #[inline]
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Text {
    #[inline]
    fn borrow(&self) -> &str {
        self
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl PartialEq for Text {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    #[inline]
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Text {
    #[inline]
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialEq<Text> for str {
    #[inline]
    fn eq(&self, other: &Text) -> bool {
        *self == **other
    }
}

impl PartialEq<Text> for &str {
    #[inline]
    fn eq(&self, other: &Text) -> bool {
        **self == **other
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_text_is_its_characters_whether_it_is_a_name_or_not() {
        let (name, text) = (Text::from("two words"), Text::from("two words".to_owned()));
        assert_eq!(name, text);
        assert_ne!(name, Text::from("two".to_owned()));
        assert_eq!((name == "two words", text == *"two words", "two" == text), (true, true, false));
        assert_eq!(format!("{name} {name:?}"), format!("{text} {text:?}"));
        assert_eq!(HashSet::from([name.clone(), text.clone()]).len(), 1);
        assert!(HashSet::from([text.clone()]).contains("two words"));
        let (before, after) = (Text::from("a"), Text::from("z".to_owned()));
        assert!(before < text && text < after);
        assert_eq!(
            (name.into_owned(), text.into_owned()),
            ("two words".into(), "two words".into())
        );
    }
}
