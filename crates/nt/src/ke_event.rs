//! The event functions under their Windows names. The state of an event is in the driver's memory.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::dispatcher::{ObjectKind, ObjectMemory};
use crate::import_table::import_rows;
use crate::waits;
use abi::{BOOLEAN, PVOID};

import_rows! {
    KeClearEvent;
    KeInitializeEvent;
    KeReadStateEvent;
    KeResetEvent;
    KeSetEvent lacks "no priority boost; does not wait";
}

/// `SynchronizationEvent`: a satisfied wait resets it.
const SYNCHRONIZATION: i32 = 1;

/// Changes the state of an event; returns the previous one, or zero if there is no event.
fn set_state(import: &'static str, event: ObjectMemory, state: i32) -> i32 {
    let act = |kind| match kind {
        ObjectKind::NotificationEvent | ObjectKind::SynchronizationEvent => {
            event.set_signal_state(state)
        }
        _ => 0,
    };
    waits::change(import, event, act).unwrap_or(0)
}

/// Initialises an event, set or not. `kind` is 0 (`NotificationEvent`) if it stays set, 1
/// (`SynchronizationEvent`) if a satisfied wait resets it.
///
/// # Safety
///
/// `event` is NULL or points to a `KEVENT`, which stays there while it is used.
pub unsafe extern "win64-unwind" fn KeInitializeEvent(event: PVOID, kind: i32, state: BOOLEAN) {
    // SAFETY: The caller's contract.
    if let Some(event) = unsafe { ObjectMemory::at(event) } {
        let kind = if kind == SYNCHRONIZATION {
            ObjectKind::SynchronizationEvent
        } else {
            ObjectKind::NotificationEvent
        };
        waits::initialize(event, kind, i32::from(state != 0));
    }
}

/// Sets an event; returns the previous state.
///
/// # Safety
///
/// As for [`KeInitializeEvent`].
pub unsafe extern "win64-unwind" fn KeSetEvent(event: PVOID, _boost: i32, _wait: BOOLEAN) -> i32 {
    // SAFETY: The caller's contract.
    unsafe { ObjectMemory::at(event) }.map_or(0, |event| set_state("KeSetEvent", event, 1))
}

/// Clears an event.
///
/// # Safety
///
/// As for [`KeInitializeEvent`].
pub unsafe extern "win64-unwind" fn KeClearEvent(event: PVOID) {
    // SAFETY: The caller's contract.
    unsafe { ObjectMemory::at(event) }.map(|event| set_state("KeClearEvent", event, 0));
}

/// Clears an event; returns the previous state.
///
/// # Safety
///
/// As for [`KeInitializeEvent`].
pub unsafe extern "win64-unwind" fn KeResetEvent(event: PVOID) -> i32 {
    // SAFETY: The caller's contract.
    unsafe { ObjectMemory::at(event) }.map_or(0, |event| set_state("KeResetEvent", event, 0))
}

/// The state of an event: not zero if it is set.
///
/// # Safety
///
/// As for [`KeInitializeEvent`].
pub unsafe extern "win64-unwind" fn KeReadStateEvent(event: PVOID) -> i32 {
    // SAFETY: The caller's contract.
    unsafe { ObjectMemory::at(event) }.map_or(0, waits::read_state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::run_driver;
    use flight::{DeterministicHost, Host, Log};
    use std::ptr;
    use std::sync::Arc;

    #[test]
    fn an_event_is_read_and_cleared_where_the_driver_has_it() {
        let log = Arc::new(Log::silent());
        let flown = DeterministicHost::fly(0, &log, |host, _| {
            let host: Arc<dyn Host> = host.clone();
            let mut memory = [0_u64; 3];
            let event: PVOID = memory.as_mut_ptr().cast();
            let state = |function: unsafe extern "win64-unwind" fn(PVOID) -> i32| {
                // SAFETY: The event is `memory`.
                unsafe { function(event) }
            };
            run_driver(&host, &log, || {
                // SAFETY: As above.
                unsafe { KeInitializeEvent(event, 0, 1) };
                assert_eq!((state(KeReadStateEvent), state(KeResetEvent)), (1, 1));
                assert_eq!((state(KeReadStateEvent), state(KeResetEvent)), (0, 0));
                // SAFETY: As above.
                assert_eq!(unsafe { KeSetEvent(event, 0, 0) }, 0);
                // SAFETY: As above.
                unsafe { KeClearEvent(event) };
                assert_eq!(state(KeReadStateEvent), 0);
            });
            assert_eq!(memory[0] >> 32, 0, "SignalState");
        });
        assert_eq!(flown, Ok(()));
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { KeReadStateEvent(ptr::null_mut()) }, 0);
    }
}
