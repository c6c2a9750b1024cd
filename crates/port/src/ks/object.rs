//! The one table of the pointers that a driver was given.
//!
//! A `Ks*` function is a C function and gets a pointer. It is looked up here before it is
//! dereferenced; a pointer that is not in the table is invalid.

use crate::ks::door::Door;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use stream::{BagOwner, FilterId, ObjectId, PinId, PointerId};

/// The object at an address, or behind a number in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    /// A `KSDEVICE`.
    Device,
    /// The functional device object of one.
    Functional,
    /// A `KSFILTERFACTORY`.
    Factory(u32),
    /// A `KSFILTER`.
    Filter(FilterId),
    /// A `KSPIN`.
    Pin(PinId),
    /// A `KSSTREAM_POINTER`.
    Pointer(PointerId),
    /// A `KSOBJECT_BAG`.
    Bag(BagOwner),
    /// A request, about a pin or a filter if any.
    Irp(Option<ObjectId>),
    /// An `IKsReferenceClock` for a pin.
    Clock(PinId),
}

static OBJECTS: Mutex<BTreeMap<usize, (Weak<Door>, Object)>> = Mutex::new(BTreeMap::new());

/// Handles that are not addresses: they count up, and are far below any address.
static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(1);

/// Registers an object at an address.
pub(crate) fn insert(address: usize, door: &Weak<Door>, object: Object) {
    objects().insert(address, (door.clone(), object));
}

/// Allocates a handle for an object without memory.
pub(crate) fn allocate_number(door: &Weak<Door>, object: Object) -> usize {
    // WINDOWS: a bag is a handle and no address (documented). So a driver that dereferences it
    // fails.
    let name = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed) * 8;
    insert(name, door, object);
    name
}

/// Removes an address.
pub(crate) fn remove(address: usize) {
    objects().remove(&address);
}

/// The object at an address, and its door.
pub(crate) fn find(address: usize) -> Option<(Arc<Door>, Object)> {
    let found = objects().get(&address).cloned();
    let (door, object) = found?;
    Some((door.upgrade()?, object))
}

/// Removes the objects of all closed doors.
pub(crate) fn remove_dead() {
    objects().retain(|_, (door, _)| door.strong_count() > 0);
}

fn objects() -> MutexGuard<'static, BTreeMap<usize, (Weak<Door>, Object)>> {
    // A panic cannot leave the data under the lock inconsistent.
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}
