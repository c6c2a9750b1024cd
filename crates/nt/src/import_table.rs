//! The table of all imports: what a kernel-mode driver imports by name from the system.
//!
//! Each function is in the file of its Windows prefix, with its row beside it. Every name that has
//! no row is a trap.

use flight::Support;

/// A row of the import table: a function or a variable that a driver imports by name.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    /// Its Windows name.
    pub name: &'static str,
    /// How completely it is supported.
    pub support: Support,
    /// The address that a driver's import is bound to.
    pub address: *const (),
}

/// The rows of one file: `Name [lacks "what is missing"];`.
macro_rules! import_rows {
    ($($name:ident $(lacks $lacks:literal)?;)*) => {
        pub(crate) const IMPORTS: &[$crate::Import] = &[$($crate::Import {
            name: stringify!($name),
            support: flight::Support::from_missing(concat!($($lacks)?)),
            address: $name as *const (),
        }),*];
    };
}
pub(crate) use import_rows;

/// The rows, by file.
const FILES: &[&[Import]] = &[
    crate::crt_memory::IMPORTS,
    crate::ex::IMPORTS,
    crate::image::exception::IMPORTS,
    crate::ke::IMPORTS,
    crate::ke_bugcheck::IMPORTS,
];

/// Every function and variable that a driver can import, by file.
pub fn imports() -> impl Iterator<Item = &'static Import> {
    FILES.iter().copied().flatten()
}

/// The import with this name.
pub fn find_import(name: &str) -> Option<&'static Import> {
    imports().find(|import| import.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_import_has_one_row_and_an_address() {
        let names: BTreeSet<&str> = imports().map(|import| import.name).collect();
        assert_eq!(names.len(), imports().count(), "a name has two rows");
        assert!(imports().all(|import| !import.address.is_null()));
        for file in FILES {
            assert!(file.is_sorted_by(|a, b| a.name < b.name), "by name");
        }
    }

    #[test]
    fn an_import_is_found_by_its_name() {
        assert_eq!(find_import("KeSetEvent").map(|import| import.name), Some("KeSetEvent"));
        assert!(find_import("KeSetEven").is_none());
    }
}
