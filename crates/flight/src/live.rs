//! Live objects and what keeps each alive.

use crate::subject::Subject;
use std::fmt;

/// All live objects, each under its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveObjects {
    /// The objects, owners before what they own.
    pub objects: Vec<LiveObject>,
}

/// One live object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveObject {
    /// The object.
    pub subject: Subject,
    /// Its owner.
    pub owner: Option<Subject>,
    /// What keeps it alive.
    pub reasons: Vec<String>,
}

impl LiveObjects {
    /// Number of live objects.
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
    /// A tree, with one line per object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for it in &self.objects {
            let indent = self.depth(it.owner) * 2;
            writeln!(f, "{:indent$}{}: {}", "", it.subject, it.reasons.join(", "))?;
        }
        Ok(())
    }
}
