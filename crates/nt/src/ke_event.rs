//! The event functions under their Windows names. The state of an event is in the driver's memory.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::dispatcher::{ObjectKind, ObjectMemory};
use crate::entry::judge_irql;
use crate::import_table::import_rows;
use crate::machine::Machine;
use crate::ob::{ExEventObjectType, ObjectReference};
use crate::processor::current;
use crate::waits;
use abi::{BOOLEAN, PVOID, UNICODE_STRING};
use std::sync::Arc;

import_rows! {
    IoCreateNotificationEvent lacks "no access checks";
    IoCreateSynchronizationEvent lacks "no access checks";
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
        crate::ex_mutex::event_initialized(event.address());
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

/// Opens the event with a name, or creates one that is set. Returns NULL if no driver runs here.
///
/// # Safety
///
/// `name` is NULL or points to a `UNICODE_STRING` whose buffer has its length; `handle` is valid for
/// a write.
unsafe fn create(
    import: &'static str,
    name: *const UNICODE_STRING,
    handle: *mut usize,
    kind: ObjectKind,
) -> PVOID {
    let Some((host, _)) = current(import) else { return std::ptr::null_mut() };
    judge_irql(import);
    let mut text = String::new();
    if !name.is_null() {
        // SAFETY: The caller's contract.
        let name = unsafe { name.read_unaligned() };
        for index in 0..usize::from(name.Length) / size_of::<u16>() {
            // SAFETY: The caller's contract.
            let place = unsafe { name.Buffer.add(index) };
            // SAFETY: As above.
            let unit = unsafe { place.read_unaligned() };
            text.push(char::from_u32(unit.into()).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
    }
    // Each machine has its own names, which do not distinguish upper and lower case.
    let machine = Arc::as_ptr(&Machine::of(&host)).addr();
    let text = format!("{machine:x} {}", text.to_lowercase());
    let event = ObjectReference::find(&text).unwrap_or_else(|| {
        let event = ObjectReference::create(ExEventObjectType, size_of::<[u64; 3]>());
        event.set_name(text);
        // SAFETY: The object has room for an event.
        if let Some(memory) = unsafe { ObjectMemory::at(event.pointer()) } {
            waits::initialize(memory, kind, 1);
        }
        event
    });
    let pointer = event.pointer();
    // SAFETY: The caller's contract.
    unsafe { handle.write_unaligned(event.open()) };
    pointer
}

/// Opens or creates a named event that stays set. It is set when it is created.
///
/// # Safety
///
/// `name` is NULL or points to a `UNICODE_STRING` whose buffer has its length; `handle` is valid for
/// a write.
pub unsafe extern "win64-unwind" fn IoCreateNotificationEvent(
    name: *const UNICODE_STRING,
    handle: *mut usize,
) -> PVOID {
    // SAFETY: The caller's contract.
    unsafe { create("IoCreateNotificationEvent", name, handle, ObjectKind::NotificationEvent) }
}

/// Opens or creates a named event that a satisfied wait resets. It is set when it is created.
///
/// # Safety
///
/// As for [`IoCreateNotificationEvent`].
pub unsafe extern "win64-unwind" fn IoCreateSynchronizationEvent(
    name: *const UNICODE_STRING,
    handle: *mut usize,
) -> PVOID {
    // SAFETY: The caller's contract.
    unsafe {
        create("IoCreateSynchronizationEvent", name, handle, ObjectKind::SynchronizationEvent)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_event_is_not_set_in_an_interrupt_routine() {
        crate::testing::fly_with(0, |host, log, _| {
            run_driver(host, log, || {
                let mut memory = [0_u64; 3];
                let event: PVOID = memory.as_mut_ptr().cast();
                // SAFETY: The event is `memory`.
                unsafe { KeInitializeEvent(event, 0, 0) };
                for irql in [2, 5, 0] {
                    crate::processor::set_irql_number(irql);
                    // SAFETY: As above.
                    unsafe { KeSetEvent(event, 0, 0) };
                }
            });
            let broken = crate::testing::broken_rules(log);
            assert!(broken.len() == 1 && broken[0].contains("KeSetEvent"), "{broken:?}");
        });
    }

    #[test]
    fn a_named_event_is_one_event_while_a_handle_is_open() {
        crate::testing::fly_driver(|_| {
            let open = |name: &str| {
                let mut units: Vec<u16> = name.encode_utf16().collect();
                let length = u16::try_from(units.len() * 2).unwrap();
                let (Length, MaximumLength, Buffer) = (length, length, units.as_mut_ptr());
                let name = UNICODE_STRING { Length, MaximumLength, Buffer };
                let mut handle = 0;
                // SAFETY: The name and the place are local variables.
                let event = unsafe { IoCreateNotificationEvent(&raw const name, &raw mut handle) };
                (event, handle)
            };
            let (first, handle) = open("\\BaseNamedObjects\\Lid");
            // SAFETY: The event lives while its handle is open.
            assert_eq!(unsafe { KeReadStateEvent(first) }, 1);
            let (second, other) = open("\\BaseNamedObjects\\LID");
            assert_eq!(first, second);
            let (third, unrelated) = open("\\BaseNamedObjects\\Other");
            assert_ne!(first, third);
            // SAFETY: As above.
            unsafe { KeClearEvent(first) };
            for handle in [handle, other, unrelated] {
                assert!(crate::handles::close(handle));
            }
            let (fourth, handle) = open("\\BaseNamedObjects\\Lid");
            // SAFETY: As above.
            assert_eq!(unsafe { KeReadStateEvent(fourth) }, 1, "a new one");
            assert!(crate::handles::close(handle));
        });
    }

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
