//! `AVStream`'s mutexes, under their Windows names.
//!
//! The services judge the IRQL, the lock order and the ownership.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::ks::door::Door;
use crate::ks::export_entry::{MaxIrql, controlled, device, export, filter, pin};
use crate::ks::object::Object;
use abi::PVOID;
use abi::ks::{KSDEVICE, KSFILTER, KSPIN};
use stream::{FilterId, KsMutex, PinId};

/// The control mutex of a filter, or of a pin's filter.
fn control_mutex(door: &Door, it: Object) -> Option<KsMutex> {
    let filter = match it {
        Object::Filter(it) => it,
        Object::Pin(it) => door.services().pin_view(it)?.filter,
        _ => return None,
    };
    Some(KsMutex::Control(filter.subject()))
}

/// The mutex for the processing of a pin: the pin's or its filter's.
fn processing_mutex(door: &Door, pin: PinId) -> Option<KsMutex> {
    let filter = door.services().pin_view(pin)?.filter;
    let factory = door.services().filter_view(filter)?.factory;
    let inner = door.inner();
    let centric = inner
        .factories
        .get(factory as usize)
        .is_some_and(|factory| factory.table.process.is_some());
    let of = if centric { filter.subject() } else { pin.subject() };
    Some(KsMutex::Processing(of))
}

fn change_mutex(door: &Door, mutex: Option<KsMutex>, take: bool) {
    let Some(mutex) = mutex else { return };
    let services = door.services();
    // The service judges the call; the function returns nothing.
    let _ = if take { services.acquire(mutex) } else { services.release(mutex) };
}

macro_rules! mutexes {
    ($($(#[doc = $doc:literal])+ $name:ident($arg:ty) $find:ident $take:literal $mutex:expr;)*) => {$(
        $(#[doc = $doc])+
        /// # Safety
        ///
        /// No requirements: the argument is looked up, and not dereferenced.
        pub unsafe extern "win64-unwind" fn $name(of: $arg) {
            const NAME: &str = stringify!($name);
            let found = $find(of, NAME);
            export(NAME, MaxIrql::Unjudged, found, (), |door, it| {
                change_mutex(door, $mutex(door, it), $take);
            });
        }
    )*};
}

mutexes! {
    /// Acquires the mutex of a device, and waits for it.
    KsAcquireDevice(*mut KSDEVICE) device true device_mutex;
    /// Releases the mutex of a device.
    KsReleaseDevice(*mut KSDEVICE) device false device_mutex;
    /// Acquires the control mutex of a filter, or of a pin's filter, and waits for it.
    KsAcquireControl(PVOID) controlled true control_mutex;
    /// Releases the control mutex.
    KsReleaseControl(PVOID) controlled false control_mutex;
    /// Acquires the processing mutex of a filter, and waits for it.
    KsFilterAcquireProcessingMutex(*mut KSFILTER) filter true filter_mutex;
    /// Releases the processing mutex of a filter.
    KsFilterReleaseProcessingMutex(*mut KSFILTER) filter false filter_mutex;
    /// Acquires the processing mutex of a pin, or of its filter, and waits for it.
    KsPinAcquireProcessingMutex(*mut KSPIN) pin true processing_mutex;
    /// Releases the processing mutex of a pin, or of its filter.
    KsPinReleaseProcessingMutex(*mut KSPIN) pin false processing_mutex;
}

#[expect(clippy::unnecessary_wraps, reason = "same signature as the other functions")]
fn device_mutex(door: &Door, (): ()) -> Option<KsMutex> {
    Some(KsMutex::Device(door.services().device().subject()))
}

fn filter_mutex(door: &Door, filter: FilterId) -> Option<KsMutex> {
    door.services().filter_view(filter).map(|_| KsMutex::Processing(filter.subject()))
}
