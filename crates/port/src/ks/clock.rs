//! The reference clock for drivers: the time of the flight, as a reference-counted interface.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::callback_entry::write;
use crate::ks::door::Door;
use crate::ks::driver_memory::DriverMemory;
use crate::ks::export_entry::{MaxIrql, export, pin};
use crate::ks::object::{self, Object};
use crate::ks::status::status_from_result;
use abi::ks::{
    IKsReferenceClock, IKsReferenceClockVtbl, KSPIN, KSRESOLUTION, KSSTATE, KSSTATE_STOP,
};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED, STATUS_SUCCESS};
use abi::{GUID, NTSTATUS, PVOID};
use std::ptr;
use std::sync::Arc;
use stream::{DriverError, PinId};

/// A reference clock that a driver holds.
pub(crate) struct ReferenceClock {
    memory: DriverMemory,
    pub(crate) pin: PinId,
    references: u32,
}

static CLOCK_VTABLE: IKsReferenceClockVtbl = IKsReferenceClockVtbl {
    QueryInterface: Some(query_interface),
    AddRef: Some(add_ref),
    Release: Some(release),
    GetTime: Some(time),
    GetPhysicalTime: Some(time),
    GetCorrelatedTime: Some(correlated_time),
    GetCorrelatedPhysicalTime: Some(correlated_time),
    GetResolution: Some(resolution),
    GetState: Some(state),
};

/// Returns a clock to a driver, which releases it.
///
/// # Safety
///
/// `place` is NULL or valid for the write of a pointer.
pub unsafe extern "win64-unwind" fn KsPinGetReferenceClockInterface(
    of: *mut KSPIN,
    place: *mut *mut IKsReferenceClock,
) -> NTSTATUS {
    const NAME: &str = "KsPinGetReferenceClockInterface";
    let found = pin(of, NAME).filter(|_| !place.is_null());
    let clock = export(NAME, MaxIrql::Passive, found, Err(DriverError::Invalid), |door, pin| {
        door.services().pin_view(pin).ok_or(DriverError::Invalid)?;
        let clock = DriverMemory::from_value(IKsReferenceClock { lpVtbl: &raw const CLOCK_VTABLE });
        object::insert(clock.address(), door.weak(), Object::Clock(pin));
        let pointer = clock.pointer();
        door.inner()
            .clocks
            .insert(clock.address(), ReferenceClock { memory: clock, pin, references: 1 });
        Ok(pointer)
    });
    if let Ok(clock) = clock {
        // SAFETY: The caller guarantees the same.
        unsafe { write(place, clock) };
    }
    status_from_result(clock.map(|_| ()))
}

fn find_clock(this: *mut IKsReferenceClock) -> Option<(Arc<Door>, PinId)> {
    match object::find(this.addr()) {
        Some((door, Object::Clock(pin))) => Some((door, pin)),
        _ => None,
    }
}

fn now(this: *mut IKsReferenceClock) -> i64 {
    let now = find_clock(this).map_or(0, |(door, _)| door.services().now());
    i64::try_from(now).unwrap_or(i64::MAX)
}

fn change_references(this: *mut IKsReferenceClock, change_mutex: impl FnOnce(u32) -> u32) -> u32 {
    let Some((door, _)) = find_clock(this) else { return 0 };
    let mut inner = door.inner();
    let Some(it) = inner.clocks.get_mut(&this.addr()) else { return 0 };
    it.references = change_mutex(it.references);
    let count = it.references;
    if count == 0 {
        object::remove(it.memory.address());
        inner.clocks.remove(&this.addr());
    }
    count
}

unsafe extern "win64-unwind" fn query_interface(
    _this: *mut IKsReferenceClock,
    _id: *const GUID,
    place: *mut PVOID,
) -> NTSTATUS {
    // SAFETY: `place` is NULL or valid for the write of a pointer.
    unsafe { write(place, ptr::null_mut()) };
    STATUS_NOT_SUPPORTED
}

unsafe extern "win64-unwind" fn add_ref(this: *mut IKsReferenceClock) -> u32 {
    change_references(this, |number| number.saturating_add(1))
}

unsafe extern "win64-unwind" fn release(this: *mut IKsReferenceClock) -> u32 {
    change_references(this, |number| number.saturating_sub(1))
}

unsafe extern "win64-unwind" fn time(this: *mut IKsReferenceClock) -> i64 {
    now(this)
}

unsafe extern "win64-unwind" fn correlated_time(
    this: *mut IKsReferenceClock,
    system: *mut i64,
) -> i64 {
    // SAFETY: `system` is NULL or valid for the write of a number.
    unsafe { write(system, now(this)) };
    now(this)
}

unsafe extern "win64-unwind" fn resolution(
    _this: *mut IKsReferenceClock,
    place: *mut KSRESOLUTION,
) -> NTSTATUS {
    // SAFETY: `place` is NULL or valid for the write of the structure.
    unsafe { write(place, KSRESOLUTION { Granularity: 1, Error: 0 }) };
    STATUS_SUCCESS
}

unsafe extern "win64-unwind" fn state(
    this: *mut IKsReferenceClock,
    place: *mut KSSTATE,
) -> NTSTATUS {
    let view = find_clock(this).and_then(|(door, pin)| door.services().pin_view(pin));
    let state = view.as_ref().map_or(KSSTATE_STOP, |pin_view| pin_view.client_state as KSSTATE);
    // SAFETY: `place` is NULL or valid for the write of a number.
    unsafe { write(place, state) };
    if view.is_some() { STATUS_SUCCESS } else { STATUS_INVALID_PARAMETER }
}
