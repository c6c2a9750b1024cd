//! What a line of a support table says of its entry: whether it is there.

/// How much of an entry there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// All of it.
    Done,
    /// Some of it: what it lacks, in words.
    Part(&'static str),
    /// None of it: why. Its use is an event.
    Absent(&'static str),
}

impl Support {
    /// `Done`, or what is lacking; nothing lacks where the words are empty.
    pub const fn lacking(words: &'static str) -> Self {
        if words.is_empty() { Support::Done } else { Support::Part(words) }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Support::Done => "done",
            Support::Part(_) => "part",
            Support::Absent(_) => "absent",
        }
    }

    /// What it lacks, or why it is not there; empty when it is whole.
    pub fn why(self) -> &'static str {
        match self {
            Support::Done => "",
            Support::Part(why) | Support::Absent(why) => why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_nothing_is_done() {
        assert_eq!(Support::lacking(""), Support::Done);
        let part = Support::lacking("no flags");
        assert_eq!((part.name(), part.why()), ("part", "no flags"));
        assert_eq!(Support::Absent("no display").name(), "absent");
    }
}
