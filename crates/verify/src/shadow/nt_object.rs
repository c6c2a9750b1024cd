//! Shadows of NT objects.

use flight::{Subject, Text};

/// Of an NT object.
#[derive(Debug)]
pub struct NtObject {
    /// Its name; empty if it has none.
    pub name: Text,
    /// How many NT handles it has.
    pub handles: u32,
    /// The objects that it keeps alive.
    pub parts: Vec<Subject>,
}
