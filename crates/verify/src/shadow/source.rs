//! Display sources and their owners.

use flight::{Subject, Text};

/// A display source that a device owns.
#[derive(Debug, Default)]
pub struct Source {
    /// The devices that own it, and how.
    pub owners: Vec<(Subject, Text)>,
    /// The last change was a release by a device that did not own it.
    pub released_by_other: bool,
}

impl Source {
    /// Another device that owns it exclusively or emulated.
    pub fn owner_alone(&self, device: Subject) -> Option<Subject> {
        let alone = |how: &str| matches!(how, "exclusive" | "emulated");
        self.owners.iter().find(|(owner, how)| *owner != device && alone(how)).map(|pair| pair.0)
    }

    /// Whether a device owns it exclusively.
    pub fn is_exclusive(&self) -> bool {
        self.owners.iter().any(|(_, how)| &**how == "exclusive")
    }
}
