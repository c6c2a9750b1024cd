use super::*;
use crate::import_table::imports;
use std::collections::BTreeSet;

/// Functions that `port` exports.
const OF_PORT: [&str; 3] =
    ["DxgkInitialize", "DxgkInitializeDisplayOnlyDriver", "DxgkUnInitialize"];

#[test]
fn every_import_that_is_a_function_has_one_row() {
    let rows: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
    assert_eq!(rows.len(), ROWS.len(), "a name has two rows");
    let functions = imports().filter(|import| !import.is_variable).map(|import| import.name);
    let expected: BTreeSet<&str> = functions.chain(OF_PORT).collect();
    let missing: Vec<_> = expected.difference(&rows).collect();
    assert!(missing.is_empty(), "no row: {missing:?}");
    let unknown: Vec<_> = rows.difference(&expected).collect();
    assert!(unknown.is_empty(), "not an import: {unknown:?}");
    let conditional = CONDITIONS.iter().map(|(name, _)| name);
    assert!(conditional.clone().all(|name| rows.contains(name)), "a condition without a row");
}

#[test]
fn rows_have_the_levels_of_their_pages() {
    let limits = |name| irql_of(name).unwrap().limits();
    assert_eq!(limits("ZwClose"), (0, 0));
    assert_eq!(limits("ExAcquireFastMutex"), (0, 1));
    assert_eq!(limits("KeSetEvent"), (0, 2));
    assert_eq!(limits("DbgPrint"), (0, 12));
    assert_eq!(limits("KeAcquireSpinLockAtDpcLevel"), (2, 15));
    assert_eq!(limits("KeReleaseSpinLock"), (2, 2));
    assert_eq!(limits("memcpy"), (0, 15));
    assert!(irql_of("KeSetEven").is_none());
}

#[test]
fn a_row_says_what_it_allows() {
    let text = |name| irql_of(name).unwrap().text();
    assert_eq!(text("ZwClose"), ["= PASSIVE_LEVEL"]);
    assert_eq!(text("sprintf"), ["not stated"]);
    let wait = ["<= DISPATCH_LEVEL", "<= APC_LEVEL unless the time-out is zero"];
    assert_eq!(text("KeWaitForSingleObject"), wait);
    let breach = |name, at| irql_of(name).unwrap().breach(at);
    assert_eq!(
        breach("ZwClose", 2),
        "ZwClose was called at DISPATCH_LEVEL, but may be called at PASSIVE_LEVEL only"
    );
    assert_eq!(
        breach("KeAcquireSpinLockAtDpcLevel", 0),
        "KeAcquireSpinLockAtDpcLevel was called at PASSIVE_LEVEL, but needs DISPATCH_LEVEL or above"
    );
    assert_eq!(
        breach("KeSetEvent", 5),
        "KeSetEvent was called at DIRQL, but may be called at DISPATCH_LEVEL at most"
    );
}
