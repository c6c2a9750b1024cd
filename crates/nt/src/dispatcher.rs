//! Dispatcher objects in the driver's memory, in the layout of Windows: compiled drivers read and
//! copy them.
//!
//! Each starts with a `DISPATCHER_HEADER`: its type, its size in units of four bytes, the state
//! (zero is not signalled) and the wait list, which points to itself. A `KEVENT` is a header. A
//! `KSPIN_LOCK` is a pointer-sized integer that is zero while the lock is free.
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

/// The type of a dispatcher object. Its number is the header's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ObjectKind {
    /// A manual-reset event.
    NotificationEvent = 0,
    /// An auto-reset event.
    SynchronizationEvent = 1,
    /// `KMUTEX`, which is a `KMUTANT`.
    Mutex = 2,
    Semaphore = 5,
    /// A thread, which is signalled when it has ended.
    Thread = 6,
    NotificationTimer = 8,
    SynchronizationTimer = 9,
}

impl ObjectKind {
    const ALL: [Self; 7] = [
        Self::NotificationEvent,
        Self::SynchronizationEvent,
        Self::Mutex,
        Self::Semaphore,
        Self::Thread,
        Self::NotificationTimer,
        Self::SynchronizationTimer,
    ];

    /// The size in units of four bytes, as the header shows it.
    fn words(self) -> u8 {
        match self {
            Self::NotificationEvent | Self::SynchronizationEvent => 6,
            Self::Mutex => 14,
            Self::Semaphore => 8,
            Self::Thread => 0x80,
            Self::NotificationTimer | Self::SynchronizationTimer => 16,
        }
    }

    /// What a thread waits for, as the wait graph prints it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotificationEvent | Self::SynchronizationEvent => "an event of the driver's",
            Self::Mutex => "a mutex of the driver's",
            Self::Semaphore => "a semaphore of the driver's",
            Self::Thread => "a thread of the driver's",
            Self::NotificationTimer | Self::SynchronizationTimer => "a timer of the driver's",
        }
    }
}

/// A dispatcher object in the driver's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectMemory(*mut DispatcherHeader);

// SAFETY: It is an address. The driver's memory is shared by the driver's threads; what is here
// accesses it under the lock of `waits.rs`.
unsafe impl Send for ObjectMemory {}

impl ObjectMemory {
    /// The object at an address. `None` if the address is NULL.
    ///
    /// # Safety
    ///
    /// The address is NULL, or points to a dispatcher object, aligned or not, that stays valid
    /// while the returned value is used.
    pub(crate) unsafe fn at(object: *mut std::ffi::c_void) -> Option<Self> {
        (!object.is_null()).then_some(Self(object.cast()))
    }

    /// Its address, which identifies it.
    pub(crate) fn address(self) -> usize {
        self.0.expose_provenance()
    }

    /// Writes its header.
    pub(crate) fn initialize(self, kind: ObjectKind, signal_state: i32) {
        let list = self.address() + offset_of!(DispatcherHeader, wait_list_next);
        let header = DispatcherHeader {
            kind: kind as u8,
            signalling: 0,
            size: kind.words(),
            reserved: 0,
            signal_state,
            wait_list_next: list,
            wait_list_previous: list,
        };
        // SAFETY: `at` was promised an object there.
        unsafe { self.0.write_unaligned(header) };
    }

    /// Its type. `None` if the header was not initialised or was overwritten.
    pub(crate) fn kind(self) -> Option<ObjectKind> {
        // SAFETY: `at` was promised an object there.
        let header = unsafe { self.0.read_unaligned() };
        let found = ObjectKind::ALL.into_iter().find(|kind| *kind as u8 == header.kind);
        found.filter(|kind| kind.words() == header.size)
    }

    /// `SignalState`.
    pub(crate) fn signal_state(self) -> i32 {
        // SAFETY: `at` was promised an object there.
        unsafe { self.0.read_unaligned() }.signal_state
    }

    /// Changes `SignalState`; returns the previous value.
    pub(crate) fn set_signal_state(self, state: i32) -> i32 {
        let before = self.signal_state();
        // SAFETY: `at` was promised an object there.
        let place = unsafe { &raw mut (*self.0).signal_state };
        // SAFETY: As above.
        unsafe { place.write_unaligned(state) };
        before
    }

    /// Reads a field behind the header.
    ///
    /// # Safety
    ///
    /// The object has a field of this type, for which all bytes are valid, at this offset.
    pub(crate) unsafe fn read<T>(self, offset: usize) -> T {
        // SAFETY: The caller's contract.
        let field = unsafe { self.0.byte_add(offset) };
        // SAFETY: As above.
        unsafe { field.cast::<T>().read_unaligned() }
    }

    /// Writes a field behind the header.
    ///
    /// # Safety
    ///
    /// The object has a field of this type at this offset.
    pub(crate) unsafe fn write<T>(self, offset: usize, value: T) {
        // SAFETY: The caller's contract.
        let field = unsafe { self.0.byte_add(offset) };
        // SAFETY: As above.
        unsafe { field.cast::<T>().write_unaligned(value) };
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
        assert_eq!(size_of::<DispatcherHeader>(), 24);
        assert_eq!(offset_of!(DispatcherHeader, signal_state), 4);
        let mut bytes = [0xEE_u8; 32];
        // SAFETY: `bytes` has 24 bytes from index 1 on; `at` does not require alignment.
        let event = unsafe { ObjectMemory::at((&raw mut bytes[1]).cast()) }.unwrap();
        assert_eq!(event.kind(), None);
        event.initialize(ObjectKind::SynchronizationEvent, 1);
        assert_eq!(bytes[1..9], [1, 0, 6, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[9..17], (event.address() + 8).to_ne_bytes());
        assert_eq!((bytes[0], bytes[25]), (0xEE, 0xEE), "nothing beside it");
        assert_eq!(event.kind(), Some(ObjectKind::SynchronizationEvent));
        assert_eq!((event.set_signal_state(0), event.signal_state()), (1, 0));
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { ObjectMemory::at(std::ptr::null_mut()) }, None);
    }
}
