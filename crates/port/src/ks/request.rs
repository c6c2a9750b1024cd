//! Requests, which a driver knows by address: their layout is not published.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::ks::door::Door;
use crate::ks::driver_memory::DriverMemory;
use crate::ks::export_entry::{MaxIrql, export, request};
use crate::ks::object::{self, Object};
use crate::ks::pin::ShownPin;
use abi::ks::{
    KSFILTER, KSPIN, PFNKSDEFAULTALLOCATE, PFNKSDEFAULTFREE, PFNKSDELETEALLOCATOR,
    PFNKSINITIALIZEALLOCATOR,
};
use abi::status::{STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER};
use abi::{NTSTATUS, PIRP, PVOID};
use flight::{Component, RuleId};
use std::ptr;
use std::sync::Arc;
use stream::ObjectId;

/// The number of bytes that a driver may read: all are zero.
const BYTES: usize = 512;

impl Door {
    /// Begins a request about an object.
    pub(crate) fn begin_request(&self, about: ObjectId) -> PIRP {
        let place = DriverMemory::new(BYTES);
        let of = matches!(about, ObjectId::Pin(_) | ObjectId::Filter(_)).then_some(about);
        object::insert(place.address(), self.weak(), Object::Irp(of));
        let pointer = place.pointer();
        if let Some(old) = self.inner().requests.insert(about, place) {
            object::remove(old.address());
        }
        pointer
    }

    /// Ends a request.
    pub(crate) fn end_request(&self, about: ObjectId) {
        if let Some(it) = self.inner().requests.remove(&about) {
            object::remove(it.address());
        }
    }
}

fn subject_of_irp(irp: PIRP) -> Option<(Arc<Door>, ObjectId)> {
    match object::find(irp.addr()) {
        Some((door, Object::Irp(Some(it)))) => Some((door, it)),
        _ => None,
    }
}

/// Returns the pin that a request is about, or NULL.
///
/// # Safety
///
/// No requirements: the request is looked up, and not dereferenced.
pub unsafe extern "win64-unwind" fn KsGetPinFromIrp(irp: PIRP) -> *mut KSPIN {
    let found = subject_of_irp(irp);
    export("KsGetPinFromIrp", MaxIrql::Unjudged, found, ptr::null_mut(), |door, it| {
        let ObjectId::Pin(pin) = it else { return ptr::null_mut() };
        door.pin(pin).unwrap_or(ptr::null_mut())
    })
}

/// Returns the filter that a request or its pin is about, or NULL.
///
/// # Safety
///
/// As for [`KsGetPinFromIrp`].
pub unsafe extern "win64-unwind" fn KsGetFilterFromIrp(irp: PIRP) -> *mut KSFILTER {
    let found = subject_of_irp(irp);
    export("KsGetFilterFromIrp", MaxIrql::Unjudged, found, ptr::null_mut(), |door, it| {
        let filter = match it {
            ObjectId::Pin(pin) => door.services().pin_view(pin).map(|pin| pin.filter),
            ObjectId::Filter(filter) => Some(filter),
            _ => None,
        };
        filter.and_then(|filter| door.filter(filter)).unwrap_or(ptr::null_mut())
    })
}

/// Completes a create or close for which the driver returned pending.
///
/// WINDOWS: the status is in the request, whose layout is not published: it counts as success.
///
/// # Safety
///
/// As for [`KsGetPinFromIrp`].
pub unsafe extern "win64-unwind" fn KsCompletePendingRequest(irp: PIRP) {
    const NAME: &str = "KsCompletePendingRequest";
    let found = request(irp, NAME);
    export(NAME, MaxIrql::Dispatch, found, (), |door, it| {
        let Some(about) = it else { return };
        let context = match about {
            ObjectId::Pin(pin) => door.inner().pins.get(&pin).map_or(0, ShownPin::context),
            _ => 0,
        };
        // A driver may complete the request before its function returns.
        let _ = door.services().mark_pending(about.subject());
        // The service judges the call.
        let _ = door.services().complete_pending(about.subject(), Ok(()), context);
        door.end_request(about);
    });
}

/// Creates an allocator for a request. Not implemented: it only judges its arguments.
///
/// # Safety
///
/// As for [`KsGetPinFromIrp`]: no routine is called.
pub unsafe extern "win64-unwind" fn KsCreateDefaultAllocatorEx(
    irp: PIRP,
    context: PVOID,
    allocate: Option<PFNKSDEFAULTALLOCATE>,
    free: Option<PFNKSDEFAULTFREE>,
    initialize: Option<PFNKSINITIALIZEALLOCATOR>,
    delete: Option<PFNKSDELETEALLOCATOR>,
) -> NTSTATUS {
    const NAME: &str = "KsCreateDefaultAllocatorEx";
    let found = request(irp, NAME);
    export(NAME, MaxIrql::Unjudged, found, STATUS_INVALID_PARAMETER, |door, _| {
        let others = [
            ("InitializeContext", !context.is_null()),
            ("DefaultFree", free.is_some()),
            ("InitializeAllocator", initialize.is_some()),
            ("DeleteAllocator", delete.is_some()),
        ];
        let others: Vec<&str> = others.iter().filter(|pair| pair.1).map(|pair| pair.0).collect();
        let broken = (allocate.is_none() && !others.is_empty()).then(|| {
            format!("{NAME} was called without DefaultAllocate, and with {}", others.join(", "))
        });
        let error = broken.is_some();
        let device = door.services().device().subject();
        let log = door.services().log();
        log.judge(RuleId::KS_ALLOC_023, Component::Driver, device, NAME, broken);
        if error { STATUS_INVALID_PARAMETER } else { STATUS_INVALID_DEVICE_REQUEST }
    })
}
