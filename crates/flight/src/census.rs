//! Who is alive, and why.

use crate::number::Subject;
use std::fmt;

/// Everything that is alive, each under its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// The things, owners before what they own.
    pub live: Vec<Live>,
}

/// One thing that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// The thing.
    pub subject: Subject,
    /// Whose it is.
    pub owner: Option<Subject>,
    /// Its reasons to live.
    pub why: Vec<String>,
}

impl Census {
    /// How many things are alive.
    pub fn count(&self) -> usize {
        self.live.len()
    }

    fn depth(&self, subject: Option<Subject>) -> usize {
        let owner = subject.and_then(|it| self.live.iter().find(|other| other.subject == it));
        owner.map_or(0, |it| 1 + self.depth(it.owner))
    }
}

impl fmt::Display for Census {
    /// A tree, a line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for it in &self.live {
            let indent = self.depth(it.owner) * 2;
            writeln!(f, "{:indent$}{}: {}", "", it.subject, it.why.join(", "))?;
        }
        Ok(())
    }
}
