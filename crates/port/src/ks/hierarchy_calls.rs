//! From an object to its device, its parent, its children and its siblings.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::ks::door::Door;
use crate::ks::export_entry::{MaxIrql, any, export, filter, pin};
use crate::ks::object::Object;
use abi::PVOID;
use abi::ks::{KSDEVICE, KSFILTER, KSPIN};
use std::ptr;
use stream::{FilterId, PinId};

/// An object, as the driver sees it.
fn driver_pointer(door: &Door, it: Object) -> Option<PVOID> {
    Some(match it {
        Object::Device => door.device().cast(),
        Object::Factory(it) => door.inner().factories.get(it as usize)?.memory.pointer(),
        Object::Filter(it) => door.filter(it)?.cast(),
        Object::Pin(it) => door.pin(it)?.cast(),
        _ => return None,
    })
}

fn parent(door: &Door, it: Object) -> Option<Object> {
    Some(match it {
        Object::Pin(it) => Object::Filter(door.services().pin_view(it)?.filter),
        Object::Filter(it) => Object::Factory(door.services().filter_view(it)?.factory),
        Object::Factory(_) => Object::Device,
        _ => return None,
    })
}

/// The children of an object, in order. The services judge the required mutex.
fn children(door: &Door, it: Object) -> Vec<Object> {
    let services = door.services();
    match it {
        Object::Device => {
            let count = u32::try_from(door.inner().factories.len()).unwrap_or(0);
            (0..count).map(Object::Factory).collect()
        }
        Object::Factory(factory) => {
            let all = services.filters().unwrap_or_default();
            let of = |filter: &FilterId| {
                services.filter_view(*filter).map(|filter_view| filter_view.factory)
            };
            all.into_iter()
                .filter(|filter| of(filter) == Some(factory))
                .map(Object::Filter)
                .collect()
        }
        Object::Filter(filter) => {
            let all = services.pins(filter).unwrap_or_default();
            all.into_iter().map(Object::Pin).collect()
        }
        _ => Vec::new(),
    }
}

fn siblings(door: &Door, it: Object) -> Vec<Object> {
    let all = parent(door, it).map(|object| children(door, object)).unwrap_or_default();
    // Siblings of a pin are those of its factory.
    let kind = |object: &Object| match object {
        Object::Pin(object) => door.services().pin_view(*object).map(|pin_view| pin_view.factory),
        _ => None,
    };
    all.into_iter().filter(|other| kind(other) == kind(&it)).collect()
}

fn first_pin(door: &Door, filter: FilterId, factory: u32) -> Vec<PinId> {
    let all = door.services().pins(filter).unwrap_or_default();
    let of = |pin: &PinId| door.services().pin_view(*pin).map(|pin_view| pin_view.factory);
    all.into_iter().filter(|pin| of(pin) == Some(factory)).collect()
}

/// The device of an object.
///
/// # Safety
///
/// No requirements: the argument is looked up, and not dereferenced.
pub unsafe extern "win64-unwind" fn KsGetDevice(of: PVOID) -> *mut KSDEVICE {
    const NAME: &str = "KsGetDevice";
    export(NAME, MaxIrql::Passive, any(of, NAME), ptr::null_mut(), |door, _| door.device())
}

/// The parent of an object: of a pin its filter, of a filter its factory, of a factory its device.
///
/// # Safety
///
/// As for [`KsGetDevice`].
pub unsafe extern "win64-unwind" fn KsGetParent(of: PVOID) -> PVOID {
    const NAME: &str = "KsGetParent";
    export(NAME, MaxIrql::Passive, any(of, NAME), ptr::null_mut(), |door, it| {
        parent(door, it).and_then(|object| driver_pointer(door, object)).unwrap_or(ptr::null_mut())
    })
}

/// The filter of a pin.
///
/// # Safety
///
/// As for [`KsGetDevice`].
pub unsafe extern "win64-unwind" fn KsPinGetParentFilter(of: *mut KSPIN) -> *mut KSFILTER {
    const NAME: &str = "KsPinGetParentFilter";
    export(NAME, MaxIrql::Passive, pin(of, NAME), ptr::null_mut(), |door, it| {
        let filter = door.services().pin_view(it).and_then(|pin_view| door.filter(pin_view.filter));
        filter.unwrap_or(ptr::null_mut())
    })
}

/// The first child of an object, with the mutex of that object held.
///
/// # Safety
///
/// As for [`KsGetDevice`].
pub unsafe extern "win64-unwind" fn KsGetFirstChild(of: PVOID) -> PVOID {
    const NAME: &str = "KsGetFirstChild";
    export(NAME, MaxIrql::Passive, any(of, NAME), ptr::null_mut(), |door, it| {
        let first = children(door, it).first().copied();
        first.and_then(|object| driver_pointer(door, object)).unwrap_or(ptr::null_mut())
    })
}

/// The next sibling of an object, with the mutex of their parent held.
///
/// # Safety
///
/// As for [`KsGetDevice`].
pub unsafe extern "win64-unwind" fn KsGetNextSibling(of: PVOID) -> PVOID {
    const NAME: &str = "KsGetNextSibling";
    export(NAME, MaxIrql::Passive, any(of, NAME), ptr::null_mut(), |door, it| {
        let all = siblings(door, it);
        let next = all.iter().skip_while(|other| **other != it).nth(1).copied();
        next.and_then(|object| driver_pointer(door, object)).unwrap_or(ptr::null_mut())
    })
}

/// The first pin of a filter with this factory, with its control mutex held.
///
/// # Safety
///
/// As for [`KsGetDevice`].
pub unsafe extern "win64-unwind" fn KsFilterGetFirstChildPin(
    of: *mut KSFILTER,
    factory: u32,
) -> *mut KSPIN {
    const NAME: &str = "KsFilterGetFirstChildPin";
    export(NAME, MaxIrql::Passive, filter(of, NAME), ptr::null_mut(), |door, it| {
        let first = first_pin(door, it, factory).first().copied();
        first.and_then(|pin| door.pin(pin)).unwrap_or(ptr::null_mut())
    })
}

/// The number of pins of a filter with this factory, with its control mutex held.
///
/// # Safety
///
/// As for [`KsGetDevice`].
pub unsafe extern "win64-unwind" fn KsFilterGetChildPinCount(
    of: *mut KSFILTER,
    factory: u32,
) -> u32 {
    const NAME: &str = "KsFilterGetChildPinCount";
    export(NAME, MaxIrql::Passive, filter(of, NAME), 0, |door, it| {
        u32::try_from(first_pin(door, it, factory).len()).unwrap_or(0)
    })
}
