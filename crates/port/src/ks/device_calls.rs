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
use flight::{Attachment, ExecutionContext};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use stream::DriverError;

/// A driver that is being loaded: its object, and its descriptor.
struct LoadingDriver {
    object: usize,
    descriptor: Mutex<Option<usize>>,
}

impl Attachment for LoadingDriver {
    /// A driver calls `KsInitializeDriver` in its entry, on the thread that loads it.
    fn for_new_thread(self: Arc<Self>) -> Option<Arc<dyn Attachment>> {
        None
    }
}

/// Runs the entry of a driver; returns what it returned, and the descriptor it gave.
pub(crate) fn run_driver_entry(
    object: usize,
    entry: impl FnOnce() -> NTSTATUS,
) -> (NTSTATUS, Option<usize>) {
    let loading = Arc::new(LoadingDriver { object, descriptor: Mutex::new(None) });
    let attached = ExecutionContext::attach(loading.clone());
    let status = entry();
    drop(attached);
    let given = *loading.descriptor.lock().unwrap_or_else(PoisonError::into_inner);
    (status, given)
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
    let Some(loading) = ExecutionContext::attached::<LoadingDriver>() else {
        ExecutionContext::report_missing("KsInitializeDriver");
        return STATUS_INVALID_PARAMETER;
    };
    if loading.object != driver.addr() {
        return STATUS_INVALID_PARAMETER;
    }
    let descriptor = (!descriptor.is_null()).then(|| descriptor.expose_provenance());
    *loading.descriptor.lock().unwrap_or_else(PoisonError::into_inner) = descriptor;
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
