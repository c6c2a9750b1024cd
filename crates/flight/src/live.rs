//! Who is alive, and why.

use crate::subject::Subject;
use std::fmt;

/// Everything that is alive, each under its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveObjects {
    /// The things, owners before what they own.
    pub objects: Vec<LiveObject>,
}

/// One thing that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveObject {
    /// The thing.
    pub subject: Subject,
    /// Whose it is.
    pub owner: Option<Subject>,
    /// Its reasons to live.
    pub reasons: Vec<String>,
}

impl LiveObjects {
    /// How many things are alive.
    pub fn count(&self) -> usize {
        self.objects.len()
    }

    fn depth(&self, subject: Option<Subject>) -> usize {
        let owner =
            subject.and_then(|subject| self.objects.iter().find(|other| other.subject == subject));
        owner.map_or(0, |live_object| 1 + self.depth(live_object.owner))
    }
}

impl fmt::Display for LiveObjects {
    /// A tree, a line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for it in &self.objects {
            let indent = self.depth(it.owner) * 2;
            writeln!(f, "{:indent$}{}: {}", "", it.subject, it.reasons.join(", "))?;
        }
        Ok(())
    }
}
