//! Dispatcher objects in the driver's memory, in the layout of Windows: compiled drivers read and
//! copy them.
//!
//! A `KEVENT` consists of a `DISPATCHER_HEADER`: its type, its size in units of four bytes, the
//! state (zero is not signalled) and the wait list, which points to itself. A `KSPIN_LOCK` is a
//! pointer-sized integer that is zero while the lock is free.
#![expect(unsafe_code, reason = "accesses the driver's memory")]

use std::mem::offset_of;

/// `DISPATCHER_HEADER`, which is all of a `KEVENT`.
#[derive(Clone, Copy)]
#[repr(C)]
struct DispatcherHeader {
    kind: u8,
    signalling: u8,
    size: u8,
    reserved: u8,
    signal_state: i32,
    wait_list_next: usize,
    wait_list_previous: usize,
}

/// The size of a header in units of four bytes.
const HEADER_WORDS: u8 = 6;
/// The type of an auto-reset event (`SynchronizationEvent`).
const SYNCHRONIZATION_EVENT: u8 = 1;
/// The type of a manual-reset event (`NotificationEvent`).
const NOTIFICATION_EVENT: u8 = 0;

/// An event in the driver's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventMemory(*mut DispatcherHeader);

impl EventMemory {
    /// The event at an address. `None` if the address is NULL.
    ///
    /// # Safety
    ///
    /// The address is NULL, or points to a `KEVENT`, aligned or not, that stays valid while the
    /// returned value is used.
    pub(crate) unsafe fn at(event: *mut std::ffi::c_void) -> Option<Self> {
        (!event.is_null()).then_some(Self(event.cast()))
    }

    /// Its address, which identifies it.
    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    /// Writes its header.
    pub(crate) fn initialize(self, auto_reset: bool, set: bool) {
        let list = self.address() + offset_of!(DispatcherHeader, wait_list_next);
        let header = DispatcherHeader {
            kind: if auto_reset { SYNCHRONIZATION_EVENT } else { NOTIFICATION_EVENT },
            signalling: 0,
            size: HEADER_WORDS,
            reserved: 0,
            signal_state: i32::from(set),
            wait_list_next: list,
            wait_list_previous: list,
        };
        // SAFETY: `at` was promised an event there.
        unsafe { self.0.write_unaligned(header) };
    }

    /// Whether a satisfied wait resets it.
    pub(crate) fn is_auto_reset(self) -> bool {
        // SAFETY: `at` was promised an event there.
        unsafe { self.0.read_unaligned() }.kind == SYNCHRONIZATION_EVENT
    }

    /// `SignalState`.
    pub(crate) fn signal_state(self) -> i32 {
        // SAFETY: `at` was promised an event there.
        unsafe { self.0.read_unaligned() }.signal_state
    }

    /// Changes `SignalState`; returns the previous value.
    pub(crate) fn set_signal_state(self, state: i32) -> i32 {
        let before = self.signal_state();
        // SAFETY: `at` was promised an event there.
        let place = unsafe { &raw mut (*self.0).signal_state };
        // SAFETY: As above.
        unsafe { place.write_unaligned(state) };
        before
    }
}

/// Writes the state of a spin lock, unless `lock` is NULL.
///
/// # Safety
///
/// `lock` is NULL or points to a `KSPIN_LOCK`, aligned or not.
pub(crate) unsafe fn write_spin_lock(lock: *mut usize, owned: bool) {
    if !lock.is_null() {
        // SAFETY: `lock` is not NULL, so by the caller's contract it points to a spin lock.
        unsafe { lock.write_unaligned(usize::from(owned)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_the_layout_of_windows() {
        assert_eq!(size_of::<DispatcherHeader>(), usize::from(HEADER_WORDS) * 4);
        assert_eq!(offset_of!(DispatcherHeader, signal_state), 4);
        let mut bytes = [0xEE_u8; 32];
        // SAFETY: `bytes` has 24 bytes from index 1 on; `at` does not require alignment.
        let event = unsafe { EventMemory::at((&raw mut bytes[1]).cast()) }.unwrap();
        event.initialize(true, true);
        assert_eq!(bytes[1..9], [1, 0, 6, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[9..17], (event.address() + 8).to_ne_bytes());
        assert_eq!((bytes[0], bytes[25]), (0xEE, 0xEE), "nothing beside it");
        assert_eq!((event.set_signal_state(0), event.signal_state()), (1, 0));
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { EventMemory::at(std::ptr::null_mut()) }, None);
    }
}
