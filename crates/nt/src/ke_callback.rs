//! Bug check callbacks under their Windows names. They are registered and never called: a bug check
//! ends the flight.
#![expect(non_snake_case, reason = "Windows's names")]

use crate::import_table::import_rows;
use abi::{BOOLEAN, PVOID};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

import_rows! {
    KeDeregisterBugCheckCallback;
    KeDeregisterBugCheckReasonCallback;
    KeRegisterBugCheckCallback lacks "is never called";
    KeRegisterBugCheckReasonCallback lacks "is never called";
}

/// The addresses of the registered callback records.
static RECORDS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn records() -> MutexGuard<'static, BTreeSet<usize>> {
    RECORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a callback. Returns FALSE if its record is registered already.
pub extern "win64-unwind" fn KeRegisterBugCheckCallback(
    record: PVOID,
    _routine: PVOID,
    _buffer: PVOID,
    _length: u32,
    _component: PVOID,
) -> BOOLEAN {
    BOOLEAN::from(!record.is_null() && records().insert(record.addr()))
}

/// Ends a registration. Returns FALSE if the record is not registered.
pub extern "win64-unwind" fn KeDeregisterBugCheckCallback(record: PVOID) -> BOOLEAN {
    BOOLEAN::from(records().remove(&record.addr()))
}

/// Registers a callback for a reason. Returns FALSE if its record is registered already.
pub extern "win64-unwind" fn KeRegisterBugCheckReasonCallback(
    record: PVOID,
    routine: PVOID,
    _reason: i32,
    component: PVOID,
) -> BOOLEAN {
    KeRegisterBugCheckCallback(record, routine, std::ptr::null_mut(), 0, component)
}

/// Ends a registration. Returns FALSE if the record is not registered.
pub extern "win64-unwind" fn KeDeregisterBugCheckReasonCallback(record: PVOID) -> BOOLEAN {
    KeDeregisterBugCheckCallback(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn a_record_is_registered_once() {
        let (record, null) = (ptr::without_provenance_mut(0x1230), ptr::null_mut());
        assert_eq!(KeRegisterBugCheckCallback(record, null, null, 0, null), 1);
        assert_eq!(KeRegisterBugCheckReasonCallback(record, null, 1, null), 0);
        assert_eq!(KeDeregisterBugCheckReasonCallback(record), 1);
        assert_eq!(KeDeregisterBugCheckCallback(record), 0);
    }
}
