//! What the pointers are that a driver was given: the one table of them.
//!
//! A `Ks*` function is a C function and gets a pointer. It is looked up here and not followed
//! before that; what is not here means nothing.

use crate::ks::door::Door;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use stream::{BagOwner, FilterId, ObjectId, PinId, PointerId};

/// What an address, or a number in its place, means.
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
    /// A request, of a pin or a filter if it is about one.
    Irp(Option<ObjectId>),
    /// An `IKsReferenceClock` for a pin.
    Clock(PinId),
}

static OBJECTS: Mutex<BTreeMap<usize, (Weak<Door>, Object)>> = Mutex::new(BTreeMap::new());

/// Names that are no addresses: they rise, and are far below any.
static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(1);

/// An address means something from now on.
pub(crate) fn insert(address: usize, door: &Weak<Door>, object: Object) {
    objects().insert(address, (door.clone(), object));
}

/// A name for something that has no memory.
pub(crate) fn allocate_number(door: &Weak<Door>, object: Object) -> usize {
    // WINDOWS: a bag is a name and no address (documented). So a driver that follows one fails.
    let name = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed) * 8;
    insert(name, door, object);
    name
}

/// It does not any more.
pub(crate) fn remove(address: usize) {
    objects().remove(&address);
}

/// What an address means, and at whose door.
pub(crate) fn find(address: usize) -> Option<(Arc<Door>, Object)> {
    let found = objects().get(&address).cloned();
    let (door, object) = found?;
    Some((door.upgrade()?, object))
}

/// Forgets everything of doors that are gone.
pub(crate) fn remove_dead() {
    objects().retain(|_, (door, _)| door.strong_count() > 0);
}

fn objects() -> MutexGuard<'static, BTreeMap<usize, (Weak<Door>, Object)>> {
    // Every step under the lock is whole.
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}
