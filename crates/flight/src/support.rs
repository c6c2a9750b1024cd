//! What a line of a support table says of its entry: whether it is there.

/// How much of an entry there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// All of it.
    Implemented,
    /// Some of it: what it lacks, in words.
    Partial(&'static str),
    /// None of it: why. Its use is an event.
    Missing(&'static str),
}

impl Support {
    /// `Done`, or what is lacking; nothing lacks where the words are empty.
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

    /// What it lacks, or why it is not there; empty when it is whole.
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
    fn what_lacks_nothing_is_done() {
        assert_eq!(Support::from_missing(""), Support::Implemented);
        let part = Support::from_missing("no flags");
        assert_eq!((part.name(), part.missing()), ("part", "no flags"));
        assert_eq!(Support::Missing("no display").name(), "absent");
    }
}
