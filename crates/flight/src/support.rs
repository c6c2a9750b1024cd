//! The support status of an entry in a support table.

/// How completely an entry is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Completely.
    Implemented,
    /// Partly: what is missing.
    Partial(&'static str),
    /// Not at all, and why. Its use is an event.
    Missing(&'static str),
}

impl Support {
    /// `Implemented` if `missing` is empty, otherwise `Partial`.
    pub const fn from_missing(missing: &'static str) -> Self {
        if missing.is_empty() { Support::Implemented } else { Support::Partial(missing) }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Support::Implemented => "done",
            Support::Partial(_) => "part",
            Support::Missing(_) => "absent",
        }
    }

    /// What is missing, or why it is not supported; empty if it is implemented.
    pub fn missing(self) -> &'static str {
        match self {
            Support::Implemented => "",
            Support::Partial(why) | Support::Missing(why) => why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_with_nothing_missing_is_implemented() {
        assert_eq!(Support::from_missing(""), Support::Implemented);
        let part = Support::from_missing("no flags");
        assert_eq!((part.name(), part.missing()), ("part", "no flags"));
        assert_eq!(Support::Missing("no display").name(), "absent");
    }
}
