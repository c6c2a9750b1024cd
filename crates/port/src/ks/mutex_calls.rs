//! The mutexes that drivers know under their Windows names.
//!
//! Their levels, their order and who has them are judged by the services.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::ks::door::Door;
use crate::ks::gate::{Ceiling, called, controlled, device, filter, pin};
use crate::ks::object::Object;
use abi::PVOID;
use abi::ks::{KSDEVICE, KSFILTER, KSPIN};
use stream::{FilterId, Mutex, PinId};

/// The control mutex of a filter, or of a pin's.
fn control(door: &Door, it: Object) -> Option<Mutex> {
    let filter = match it {
        Object::Filter(it) => it,
        Object::Pin(it) => door.services().see_pin(it)?.filter,
        _ => return None,
    };
    Some(Mutex::Control(filter.subject()))
}

/// The mutex of whoever processes a pin: it, or its filter.
fn processing(door: &Door, pin: PinId) -> Option<Mutex> {
    let filter = door.services().see_pin(pin)?.filter;
    let factory = door.services().see_filter(filter)?.factory;
    let inner = door.inner();
    let centric =
        inner.factories.get(factory as usize).is_some_and(|it| it.table.process.is_some());
    let of = if centric { filter.subject() } else { pin.subject() };
    Some(Mutex::Processing(of))
}

fn change(door: &Door, mutex: Option<Mutex>, take: bool) {
    let Some(mutex) = mutex else { return };
    let services = door.services();
    // What it breaks is named there, and there is nobody to answer.
    let _ = if take { services.acquire(mutex) } else { services.release(mutex) };
}

macro_rules! mutexes {
    ($($(#[doc = $doc:literal])+ $name:ident($arg:ty) $find:ident $take:literal $mutex:expr;)*) => {$(
        $(#[doc = $doc])+
        ///
        /// # Safety
        ///
        /// None of its own: what it is given is looked up, and not followed.
        pub unsafe extern "win64-unwind" fn $name(of: $arg) {
            const NAME: &str = stringify!($name);
            let found = $find(of, NAME);
            called(NAME, Ceiling::Unjudged, found, (), |door, it| {
                change(door, $mutex(door, it), $take);
            });
        }
    )*};
}

mutexes! {
    /// Takes the mutex of a device, and waits for it.
    KsAcquireDevice(*mut KSDEVICE) device true of_device;
    /// Gives it back.
    KsReleaseDevice(*mut KSDEVICE) device false of_device;
    /// Takes the control mutex of a filter, or of a pin's filter, and waits for it.
    KsAcquireControl(PVOID) controlled true control;
    /// Gives it back.
    KsReleaseControl(PVOID) controlled false control;
    /// Takes the processing mutex of a filter, and waits for it.
    KsFilterAcquireProcessingMutex(*mut KSFILTER) filter true of_filter;
    /// Gives it back.
    KsFilterReleaseProcessingMutex(*mut KSFILTER) filter false of_filter;
    /// Takes the processing mutex of a pin, or of its filter, and waits for it.
    KsPinAcquireProcessingMutex(*mut KSPIN) pin true processing;
    /// Gives it back.
    KsPinReleaseProcessingMutex(*mut KSPIN) pin false processing;
}

#[expect(clippy::unnecessary_wraps, reason = "as its neighbours")]
fn of_device(door: &Door, (): ()) -> Option<Mutex> {
    Some(Mutex::Device(door.services().device().subject()))
}

fn of_filter(door: &Door, filter: FilterId) -> Option<Mutex> {
    door.services().see_filter(filter).map(|_| Mutex::Processing(filter.subject()))
}
