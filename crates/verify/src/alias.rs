//! Driver Verifier's names for rules on streaming minidrivers.
//!
//! WINDOWS: the names are those of the page "Rules for `AVStream` Drivers" (documented). A name
//! stands for the rules of the catalogue on the same subject. The rules on the duration of a
//! callback are missing: no rule of the catalogue has a number for that.

use crate::catalogue::{self, Entry};

/// A name of Driver Verifier, and the corresponding rules, closest first.
pub const ALIASES: &[(&str, &[&str])] = &[
    ("KsCallbackReturn", &["KS-PIN-012", "KS-PIN-006", "KS-DEV-001", "KS-PIN-002", "KS-DEV-004"]),
    ("KsDeviceMutex", &["KS-MUTEX-005", "KS-MUTEX-001", "KS-MUTEX-002"]),
    ("KsFilterMutex", &["KS-MUTEX-005", "KS-MUTEX-001", "KS-MUTEX-002", "KS-MUTEX-003"]),
    ("KsProcessingMutex", &["KS-MUTEX-005", "KS-MUTEX-001", "KS-MUTEX-002"]),
    ("KsIrqlDDIs", &["KS-MUTEX-005", "KS-BAG-001", "WT-LEVEL-001"]),
    ("KsInvalidStreamPointer", &["KS-PTR-004", "KS-PTR-003"]),
    ("KsMarkPendingIrp", &["KS-PIN-002", "KS-DEV-004"]),
    ("KsStreamPointerClone", &["KS-PTR-005", "KS-PTR-003", "KS-PTR-004"]),
    ("KsStreamPointerLock", &["KS-PTR-001", "KS-PTR-002"]),
    ("KsStreamPointerUnlock", &["KS-STATE-007", "KS-PTR-005"]),
];

/// The rules that a name of Driver Verifier stands for, in any spelling.
pub fn aliased(name: &str) -> Option<(&'static str, Vec<&'static Entry>)> {
    let (name, ids) = ALIASES.iter().find(|(it, _)| it.eq_ignore_ascii_case(name))?;
    Some((name, ids.iter().filter_map(|id| catalogue::find(id)).collect()))
}

/// The names that Driver Verifier has for a rule.
pub fn aliases(id: &str) -> Vec<&'static str> {
    ALIASES.iter().filter(|(_, ids)| ids.contains(&id)).map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alias_stands_for_rules_of_the_catalogue() {
        for (name, ids) in ALIASES {
            let (found, rules) = aliased(&name.to_uppercase()).unwrap();
            assert_eq!((found, rules.len()), (*name, ids.len()));
            assert!(ids.iter().all(|id| aliases(id).contains(name)));
        }
        assert!(aliased("KsNothing").is_none() && aliases("KS-NOTHING-001").is_empty());
    }
}
