//! Drivers, filter factories and pin factories, under their Windows names.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::callback_entry::write;
use crate::ks::descriptor::{FilterTable, PinTable};
use crate::ks::export_entry::{MaxIrql, device, device_object, export, factory, filter};
use crate::ks::mapping::DmaAdapter;
use crate::ks::status::status_from_result;
use abi::ks::{
    KSDEVICE, KSDEVICE_DESCRIPTOR, KSFILTER, KSFILTER_DESCRIPTOR, KSFILTERFACTORY,
    KSPIN_DESCRIPTOR_EX, PFNKSFILTERFACTORYPOWER,
};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{BOOLEAN, NTSTATUS, PDEVICE_OBJECT, PDRIVER_OBJECT, PVOID, UNICODE_STRING};
use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use stream::DriverError;

/// A driver that is being loaded: its object, and its descriptor.
#[derive(Clone, Copy)]
struct LoadingDriver {
    object: usize,
    descriptor: Option<usize>,
}

thread_local! {
    static LOADING: Cell<Option<LoadingDriver>> = const { Cell::new(None) };
}

/// Runs a driver's entry. Returns its status, and the descriptor that it registered.
pub(crate) fn run_driver_entry(
    object: usize,
    entry: impl FnOnce() -> NTSTATUS,
) -> (NTSTATUS, Option<usize>) {
    let back = LoadingGuard(LOADING.replace(Some(LoadingDriver { object, descriptor: None })));
    let status = entry();
    let given = LOADING.get().and_then(|loading_driver| loading_driver.descriptor);
    drop(back);
    (status, given)
}

/// Restores the previous driver that was being loaded, also when an entry unwinds.
struct LoadingGuard(Option<LoadingDriver>);

impl Drop for LoadingGuard {
    fn drop(&mut self) {
        // A thread that is ending loads nothing.
        let _ = LOADING.try_with(|loading_driver| loading_driver.set(self.0));
    }
}

/// Registers a driver's descriptor. The device is added later.
///
/// # Safety
///
/// No requirements: the caller that loads the driver vouches for its descriptor.
pub unsafe extern "win64-unwind" fn KsInitializeDriver(
    driver: PDRIVER_OBJECT,
    _path: *mut UNICODE_STRING,
    descriptor: *const KSDEVICE_DESCRIPTOR,
) -> NTSTATUS {
    let Some(it) = LOADING.get().filter(|loading_driver| loading_driver.object == driver.addr())
    else {
        return STATUS_INVALID_PARAMETER;
    };
    let descriptor = (!descriptor.is_null()).then(|| descriptor.expose_provenance());
    LOADING.set(Some(LoadingDriver { descriptor, ..it }));
    STATUS_SUCCESS
}

/// Creates another filter factory, with the device mutex held.
///
/// # Safety
///
/// The descriptor is as for [`KsDriver::new`](crate::KsDriver::new); `made` is NULL or valid for
/// the write of a pointer.
pub unsafe extern "win64-unwind" fn KsCreateFilterFactory(
    object: PDEVICE_OBJECT,
    descriptor: *const KSFILTER_DESCRIPTOR,
    _name: *mut u16,
    _security: PVOID,
    _flags: u32,
    _sleep: Option<PFNKSFILTERFACTORYPOWER>,
    _wake: Option<PFNKSFILTERFACTORYPOWER>,
    made: *mut *mut KSFILTERFACTORY,
) -> NTSTATUS {
    const NAME: &str = "KsCreateFilterFactory";
    let found = device_object(object, NAME);
    let bad = (STATUS_INVALID_PARAMETER, ptr::null_mut());
    let (answer, pointer) = export(NAME, MaxIrql::Passive, found, bad, |door, ()| {
        // SAFETY: The caller guarantees the same.
        let Ok(table) = (unsafe { FilterTable::read(descriptor) }) else { return bad };
        if let Err(why) = door.services().create_factory(table.describe()) {
            return (status_from_result(Err(why)), ptr::null_mut());
        }
        let mut inner = door.inner();
        let number = door.add_factory(&mut inner, Arc::new(table));
        let place = inner.factories.get(number as usize).map(|factory| factory.memory.pointer());
        (STATUS_SUCCESS, place.unwrap_or(ptr::null_mut()))
    });
    // SAFETY: The caller guarantees the same.
    unsafe { write(made, pointer) };
    answer
}

/// Creates another pin factory of one filter, with its control mutex held.
///
/// # Safety
///
/// The descriptor is as for [`KsDriver::new`](crate::KsDriver::new); `number` is NULL or valid for
/// the write of a number.
pub unsafe extern "win64-unwind" fn KsFilterCreatePinFactory(
    of: *mut KSFILTER,
    descriptor: *const KSPIN_DESCRIPTOR_EX,
    number: *mut u32,
) -> NTSTATUS {
    const NAME: &str = "KsFilterCreatePinFactory";
    let found = filter(of, NAME);
    let made = export(NAME, MaxIrql::Passive, found, Err(DriverError::Invalid), |door, of| {
        // SAFETY: The caller guarantees the same.
        let table = unsafe { PinTable::read(descriptor) }.map_err(|_| DriverError::Invalid)?;
        door.filter(of).ok_or(DriverError::Invalid)?;
        let number = door.services().create_pin_factory(of, table.descriptor.clone())?;
        if let Some(it) = door.inner().filters.get_mut(&of) {
            it.pins.push(Arc::new(table));
        }
        Ok(number)
    });
    if let Ok(made) = made {
        // SAFETY: The caller guarantees the same.
        unsafe { write(number, made) };
    }
    status_from_result(made.map(|_| ()))
}

/// Enables or disables the device classes of a factory. It has no effect here.
///
/// # Safety
///
/// No requirements: the factory is looked up, and not dereferenced.
pub unsafe extern "win64-unwind" fn KsFilterFactorySetDeviceClassesState(
    of: *mut KSFILTERFACTORY,
    _enabled: BOOLEAN,
) -> NTSTATUS {
    const NAME: &str = "KsFilterFactorySetDeviceClassesState";
    let found = factory(of, NAME);
    export(NAME, MaxIrql::Passive, found, STATUS_INVALID_PARAMETER, |_, _| STATUS_SUCCESS)
}

/// Registers a DMA adapter for the hardware.
///
/// # Safety
///
/// No requirements: the device is looked up, and the adapter is not dereferenced.
pub unsafe extern "win64-unwind" fn KsDeviceRegisterAdapterObject(
    of: *mut KSDEVICE,
    _adapter: PVOID,
    most: u32,
    stride: u32,
) {
    const NAME: &str = "KsDeviceRegisterAdapterObject";
    let found = device(of, NAME);
    export(NAME, MaxIrql::Passive, found, (), |door, ()| {
        door.inner().adapter = DmaAdapter { max_mapping: most, stride };
        // It fails only if the device was removed.
        let _ = door.services().register_dma();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn an_entry_that_unwinds_is_not_being_loaded_any_more() {
        let unwinds = || run_driver_entry(0x1000, || panic!("an entry"));
        assert!(catch_unwind(AssertUnwindSafe(unwinds)).is_err());
        let object = ptr::without_provenance_mut(0x1000);
        // SAFETY: No pointer is dereferenced.
        let status = unsafe { KsInitializeDriver(object, ptr::null_mut(), ptr::null()) };
        assert_eq!(status, STATUS_INVALID_PARAMETER);
    }
}
